// SPDX-License-Identifier: MIT
//
// Float convolution: what a model means before it is quantized. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_FUNCTIONAL_CONV_HPP
#define INTQ_NN_FUNCTIONAL_CONV_HPP

#include "intq/core/op_params.hpp"
#include "intq/nn/functional/float_layer.hpp"

namespace intq::inline INTQ_ABI::nn::functional {

/// Two-dimensional convolution of float32 images.
///
///     y[n,o,i,j] = b[o] + sum_{c,u,v} w[o,c,u,v] · x[n, g(o)·C/groups + c, i·stride + u·dilation - padding, …]
///
/// @param x       (N, C, H, W), row_major
/// @param weight  (O, C/groups, KH, KW), row_major; its extents must be those of window.kernel
/// @param bias    (O), or undefined
///
/// Result   as kernels::run_float_conv2d on simd::default_backend: other last bits on other backends
/// Memory   the packed weight, and x and the result once more in channels_last
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window, index_t groups = 1);

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

inline void check_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window,
                         index_t groups) {
    if (x.rank() != 4 || weight.rank() != 4)
        throw Error("conv2d: input and weight must have rank 4, given " + to_string(x.shape()) + " and " +
                    to_string(weight.shape()));
    throw_if_failed(check_window(window, OpKind::conv2d));
    if (weight.extent(2) != window.kernel.height || weight.extent(3) != window.kernel.width)
        throw Error("conv2d: the weight " + to_string(weight.shape()) + " does not have the kernel's extents " +
                    std::to_string(window.kernel.height) + " x " + std::to_string(window.kernel.width));
    if (groups < 1 || x.extent(1) != weight.extent(1) * groups || weight.extent(0) % groups != 0)
        throw Error("conv2d: the input " + to_string(x.shape()) + " does not fit the weight " +
                    to_string(weight.shape()) + " in " + std::to_string(groups) + " groups; expected " +
                    std::to_string(weight.extent(1) * groups) + " input channels");
    if (bias.defined() && !(bias.shape() == Shape(weight.extent(0))))
        throw Error("conv2d: the bias has shape " + to_string(bias.shape()) + ", expected " +
                    to_string(Shape(weight.extent(0))));
}

}  // namespace detail

inline Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window,
                     index_t groups) {
    detail::check_conv2d(x, weight, bias, window, groups);
    const Size2d out = output_size(window, {x.extent(2), x.extent(3)});
    Tensor y = Tensor::empty(Shape(x.extent(0), weight.extent(0), out.height, out.width), DType::float32,
                             Layout::channels_last);
    if (y.size() == 0) return y.contiguous();
    kernels::FloatConv2dSpec spec;
    spec.window = window;
    spec.in_channels = x.extent(1);
    spec.out_channels = weight.extent(0);
    spec.groups = groups;
    detail::run_float_layer(spec, x.to_layout(Layout::channels_last), weight, bias, y);
    return y.contiguous();
}

}  // namespace intq::inline INTQ_ABI::nn::functional

#endif  // INTQ_NN_FUNCTIONAL_CONV_HPP
