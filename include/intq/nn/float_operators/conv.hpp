// SPDX-License-Identifier: MIT
//
// Float convolutions: a model before it is quantized. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_CONV_HPP
#define INTQ_NN_FLOAT_OPERATORS_CONV_HPP

#include "intq/core/op_params.hpp"
#include "intq/nn/float_operators/float_layer_cache.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// Two-dimensional convolution of float32 images.
///
///     y[n,o,i,j] = b[o] + sum_{c,u,v} w[o,c,u,v] · x[n, g(o)·C/groups + c, i·stride + u·dilation - padding, …]
///
/// @param x       (N, C, H, W), row_major
/// @param weight  (O, C/groups, KH, KW), row_major; its extents must be those of window.kernel
/// @param bias    (O), or undefined
/// @param cache   of a layer that is called again: keeps packed weights and geometry while their values and the image
///                size stay; null: nothing is kept
///
/// Result   as kernels::run_float_conv2d on the chosen backend: other last bits on other backends, unless
///          FloatSums::reproducible is current
/// Memory   the packed weight, and x and the result once more in channels_last; with a cache a copy of the weight
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window, index_t groups = 1,
              FloatLayerCache* cache = nullptr);

/// One-dimensional convolution: conv2d of images of one row, whose window has one row.
///
/// @param x       (N, C, L)
/// @param weight  (O, C/groups, K)
/// @param cache   as in conv2d
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window, index_t groups = 1,
              FloatLayerCache* cache = nullptr);

/// Transposed convolution: the linear map that is conv2d's transpose, plus a bias.
///
///     y[n,o,p,q] = b[o] + sum over c, i, j, u, v with i·stride + u·dilation - padding = p (and alike for q)
///                         of w[c,o,u,v] · x[n,c,i,j]
///     height = (H - 1)·stride - padding + dilation·(KH - 1) + output_padding + 1
///
/// @param x       (N, C, H, W)
/// @param weight  (C, O/groups, KH, KW)
/// @param window  kernel, stride, padding (cut off) and dilation
/// @param output_padding  rows below and columns to the right; smaller than stride or dilation
/// @param cache   as in conv2d
///
/// Result   as conv2d of x with stride - 1 zeros between its cells and the kernel turned by 180 degrees, which it is
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window,
                        Size2d output_padding = {0, 0}, index_t groups = 1, FloatLayerCache* cache = nullptr);

/// The same on (N, C, L), with a weight (C, O/groups, K) and a window of one row.
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window,
                        index_t output_padding = 0, index_t groups = 1, FloatLayerCache* cache = nullptr);

/// Extents of the output of conv_transpose2d; below 1 where the padding cuts everything off.
constexpr Size2d transposed_output_size(const Window2d& window, Size2d output_padding, Size2d in) noexcept {
    const auto along = [](index_t extent, index_t stride, index_t cut, index_t dilation, index_t kernel, index_t more) {
        return (extent - 1) * stride - cut + dilation * (kernel - 1) + more + 1;
    };
    return {along(in.height, window.stride.height, window.padding.top + window.padding.bottom, window.dilation.height,
                  window.kernel.height, output_padding.height),
            along(in.width, window.stride.width, window.padding.left + window.padding.right, window.dilation.width,
                  window.kernel.width, output_padding.width)};
}

/// (A, B, L) as images of one row, and back.
Tensor images_of_rows(const Tensor& x);

Tensor rows_of_images(const Tensor& images);

namespace detail {

void check_conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window,
                            Size2d output_padding, index_t groups);

}  // namespace detail

/// (C, O/groups, KH, KW) -> (O, C/groups, KH, KW), turned by 180 degrees.
template <class T> Tensor turned_weight(const Tensor& weight, index_t groups) {
    const index_t in = weight.extent(0) / groups, out = weight.extent(1);
    const index_t height = weight.extent(2), width = weight.extent(3), cells = height * width;
    const Tensor plain = weight.contiguous();
    Tensor result = Tensor::empty(Shape(out * groups, in, height, width), weight.dtype());
    const T* from = plain.template flat<T>().data();
    T* to = result.flat<T>().data();
    for (index_t g = 0; g < groups; ++g)
        for (index_t o = 0; o < out; ++o)
            for (index_t c = 0; c < in; ++c, to += cells) {
                const T* const kernel = from + ((g * in + c) * out + o) * cells;
                for (index_t cell = 0; cell < cells; ++cell) to[cell] = kernel[cells - 1 - cell];
            }
    return result;
}

/// The image whose plain convolution with the turned weight is the result: x spread out by the stride, padded by the
/// kernel's reach; cells that the padding cuts off are left out.
template <class T> Tensor spread_image(const Tensor& x, const Window2d& window, Size2d out) {
    const Size2d reach{window.dilation.height * (window.kernel.height - 1),
                       window.dilation.width * (window.kernel.width - 1)};
    const Tensor input = x.contiguous();
    Tensor y =
        Tensor::zeros(Shape(x.extent(0), x.extent(1), out.height + reach.height, out.width + reach.width), x.dtype());
    const index_t height = y.extent(2), width = y.extent(3);
    const T* from = input.template flat<T>().data();
    T* plane = y.flat<T>().data();
    for (index_t p = 0; p < x.extent(0) * x.extent(1); ++p, plane += height * width)
        for (index_t i = 0; i < x.extent(2); ++i)
            for (index_t j = 0; j < x.extent(3); ++j, ++from) {
                const index_t h = i * window.stride.height + reach.height - window.padding.top;
                const index_t w = j * window.stride.width + reach.width - window.padding.left;
                if (h >= 0 && h < height && w >= 0 && w < width) plane[h * width + w] = *from;
            }
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <algorithm>
#    include <string>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"
#    include "intq/nn/float_operators/float_layer.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void check_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window,
                              index_t groups) {
    if (x.rank() != 4 || weight.rank() != 4)
        throw Error("conv2d: input and weight must have rank 4, given " + to_string(x.shape()) + " and " +
                    to_string(weight.shape()));
    if (x.dtype() != DType::float32)
        throw Error("conv2d: the input has dtype " + std::string(name_of(x.dtype())) + ", expected float32");
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

/// The convolution behind the checks.
INTQ_INLINE Tensor run_conv2d(const FloatLayerSpec& spec, const Tensor& x, const Tensor& weight, const Tensor& bias,
                              FloatLayerCache* cache) {
    const Size2d out = windowed_size("conv2d", spec.conv.window, x.shape());
    const Shape shape(x.extent(0), spec.conv.out_channels, out.height, out.width);
    if (is_of_shapes(x, weight, bias)) return Tensor::of_shape(shape);
    Tensor y = Tensor::empty(shape, DType::float32, Layout::channels_last);
    if (y.size() == 0) return y.contiguous();
    run_float_layer(spec, x.to_layout(Layout::channels_last), weight, bias, y, cache);
    return y.contiguous();
}

}  // namespace detail

INTQ_INLINE Tensor images_of_rows(const Tensor& x) {
    return x.reshape(Shape(x.extent(0), x.extent(1), 1, x.extent(2)));
}

INTQ_INLINE Tensor rows_of_images(const Tensor& images) {
    return images.reshape(Shape(images.extent(0), images.extent(1), images.extent(3)));
}

INTQ_INLINE Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window,
                          index_t groups, FloatLayerCache* cache) {
    detail::check_conv2d(x, weight, bias, window, groups);
    FloatLayerSpec spec;
    spec.conv.window = window;
    spec.conv.in_channels = x.extent(1);
    spec.conv.out_channels = weight.extent(0);
    spec.conv.groups = groups;
    return detail::run_conv2d(spec, x, weight, bias, cache);
}

INTQ_INLINE Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window,
                          index_t groups, FloatLayerCache* cache) {
    if (x.rank() != 3 || weight.rank() != 3)
        throw Error("conv1d: input and weight must have rank 3, given " + to_string(x.shape()) + " and " +
                    to_string(weight.shape()));
    const auto as_images = &images_of_rows;
    return rows_of_images(conv2d(as_images(x), as_images(weight), bias, window, groups, cache));
}

INTQ_INLINE Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window,
                                    index_t output_padding, index_t groups, FloatLayerCache* cache) {
    if (x.rank() != 3 || weight.rank() != 3)
        throw Error("conv_transpose1d: input and weight must have rank 3, given " + to_string(x.shape()) + " and " +
                    to_string(weight.shape()));
    const auto as_images = &images_of_rows;
    return rows_of_images(
        conv_transpose2d(as_images(x), as_images(weight), bias, window, {0, output_padding}, groups, cache));
}

namespace detail {

INTQ_INLINE void check_conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        const Window2d& window, Size2d output_padding, index_t groups) {
    if (x.rank() != 4 || weight.rank() != 4)
        throw Error("conv_transpose2d: input and weight must have rank 4, given " + to_string(x.shape()) + " and " +
                    to_string(weight.shape()));
    throw_if_failed(check_window(window, OpKind::none), "conv_transpose2d");
    if (weight.extent(2) != window.kernel.height || weight.extent(3) != window.kernel.width)
        throw Error("conv_transpose2d: the weight " + to_string(weight.shape()) +
                    " does not have the kernel's extents " + std::to_string(window.kernel.height) + " x " +
                    std::to_string(window.kernel.width));
    if (groups < 1 || x.extent(1) != weight.extent(0) || x.extent(1) % groups != 0)
        throw Error("conv_transpose2d: the input " + to_string(x.shape()) + " does not fit the weight " +
                    to_string(weight.shape()) + " in " + std::to_string(groups) + " groups; expected " +
                    std::to_string(weight.extent(0)) + " input channels");
    if (bias.defined() && !(bias.shape() == Shape(weight.extent(1) * groups)))
        throw Error("conv_transpose2d: the bias has shape " + to_string(bias.shape()) + ", expected " +
                    to_string(Shape(weight.extent(1) * groups)));
    const auto fits = [](index_t more, index_t stride, index_t dilation) {
        return more >= 0 && more < (std::max)(stride, dilation);
    };
    if (!fits(output_padding.height, window.stride.height, window.dilation.height) ||
        !fits(output_padding.width, window.stride.width, window.dilation.width))
        throw Error("conv_transpose2d: the output padding must be smaller than stride or dilation, given " +
                    std::to_string(output_padding.height) + " and " + std::to_string(output_padding.width));
}

}  // namespace detail

INTQ_INLINE Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& window,
                                    Size2d output_padding, index_t groups, FloatLayerCache* cache) {
    detail::check_conv_transpose2d(x, weight, bias, window, output_padding, groups);
    const Size2d out = transposed_output_size(window, output_padding, {x.extent(2), x.extent(3)});
    if (x.extent(2) < 1 || x.extent(3) < 1 || out.height < 1 || out.width < 1)
        throw Error("conv_transpose2d: nothing is left of an input of shape " + to_string(x.shape()) +
                    "; the output would have " + std::to_string(out.height) + " x " + std::to_string(out.width) +
                    " cells");
    x.expect_dtype("flat", DType::float32);
    if (detail::is_of_shapes(x, weight, bias))
        return Tensor::of_shape(Shape(x.extent(0), weight.extent(1) * groups, out.height, out.width));
    FloatLayerSpec spec;
    spec.conv.window = {window.kernel, {1, 1}, {}, window.dilation};
    spec.conv.in_channels = x.extent(1);
    spec.conv.out_channels = weight.extent(1) * groups;
    spec.conv.groups = groups;
    spec.to_conv_weight = &turned_weight<float>;
    return detail::run_conv2d(spec, spread_image<float>(x, window, out), weight, bias, cache);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_CONV_HPP
