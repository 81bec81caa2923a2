// SPDX-License-Identifier: MIT
//
// Float convolution as plain loops: what a model means before it is quantized. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_FUNCTIONAL_CONV_HPP
#define INTQ_NN_FUNCTIONAL_CONV_HPP

#include <vector>

#include "intq/core/op_params.hpp"
#include "intq/nn/tensor.hpp"

namespace intq::inline INTQ_ABI::nn::functional {

/// Two-dimensional convolution of float32 images.
///
///     y[n,o,i,j] = b[o] + sum_{c,u,v} w[o,c,u,v] · x[n, g(o)·C/groups + c, i·stride + u·dilation - padding, …]
///
/// @param x       (N, C, H, W), row_major
/// @param weight  (O, C/groups, KH, KW), row_major; its extents must be those of window.kernel
/// @param bias    (O), or undefined
///
/// Result   sums in double, in a fixed order, rounded once
/// Memory   a row of doubles
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

// The part [first, last) of outputs along one axis whose input coordinate out·stride + offset is inside [0, extent).
inline std::pair<index_t, index_t> inside(index_t offset, index_t stride, index_t extent, index_t outputs) {
    const index_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    const index_t last = offset >= extent ? 0 : (extent - 1 - offset) / stride + 1;
    return {first, std::min(last, outputs)};
}

}  // namespace detail

inline Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window,
                     index_t groups) {
    detail::check_conv2d(x, weight, bias, window, groups);
    const index_t batch = x.extent(0), height = x.extent(2), width = x.extent(3);
    const index_t out_channels = weight.extent(0), per_group = weight.extent(1);
    const Size2d out = output_size(window, {height, width});
    Tensor y = Tensor::empty(Shape(batch, out_channels, out.height, out.width));

    const Tensor input = x.contiguous();
    const float* const from = input.flat<float>().data();
    const float* const w = weight.flat<float>().data();
    float* to = y.flat<float>().data();
    std::vector<double> row(static_cast<std::size_t>(out.width));
    for (index_t n = 0; n < batch; ++n)
        for (index_t o = 0; o < out_channels; ++o) {
            const index_t first_channel = o / (out_channels / groups) * per_group;
            const double start =
                bias.defined() ? static_cast<double>(bias.flat<float>()[static_cast<std::size_t>(o)]) : 0.0;
            for (index_t i = 0; i < out.height; ++i, to += out.width) {
                std::fill(row.begin(), row.end(), start);
                for (index_t c = 0; c < per_group; ++c)
                    for (index_t u = 0; u < window.kernel.height; ++u) {
                        const index_t h = i * window.stride.height + u * window.dilation.height - window.padding.top;
                        if (h < 0 || h >= height) continue;
                        const float* line = from + ((n * x.extent(1) + first_channel + c) * height + h) * width;
                        const float* taps = w + ((o * per_group + c) * window.kernel.height + u) * window.kernel.width;
                        for (index_t v = 0; v < window.kernel.width; ++v) {
                            const index_t offset = v * window.dilation.width - window.padding.left;
                            const auto [first, last] = detail::inside(offset, window.stride.width, width, out.width);
                            const double tap = static_cast<double>(taps[v]);
                            for (index_t j = first; j < last; ++j)
                                row[static_cast<std::size_t>(j)] +=
                                    tap * static_cast<double>(line[j * window.stride.width + offset]);
                        }
                    }
                for (index_t j = 0; j < out.width; ++j) to[j] = static_cast<float>(row[static_cast<std::size_t>(j)]);
            }
        }
    return y;
}

}  // namespace intq::inline INTQ_ABI::nn::functional

#endif  // INTQ_NN_FUNCTIONAL_CONV_HPP
