// SPDX-License-Identifier: MIT
//
// Float convolutions of volumes, as convolutions of images: the depth of the kernel is folded into the channels.
// Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_CONV3D_HPP
#define INTQ_NN_FLOAT_OPERATORS_CONV3D_HPP

#include <cstddef>

#include "intq/core/dtype.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/float_operators/float_layer_cache.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// The third dimension of a window.
struct DepthWindow {
    index_t kernel = 1;
    index_t stride = 1;
    index_t padding = 0;  // on both sides
    index_t dilation = 1;
};

/// Three-dimensional convolution.
///
///     y[n,o,d,i,j] = b[o] + sum over c, t, u, v of w[o,c,t,u,v] · x[n, g(o)·C/groups + c, d·stride + t·dilation -
///                    padding, …]
///
/// @param x       (N, C, D, H, W)
/// @param weight  (O, C/groups, KD, KH, KW)
/// @param bias    (O), or undefined
/// @param depth   the window along D; `window` is along H and W
/// @param cache   as in conv2d
///
/// Result   as conv2d of images with C·KD channels, which it is
/// Memory   x once more for each cell of the kernel's depth
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const DepthWindow& depth,
              const Window2d& window, index_t groups = 1, FloatLayerCache* cache = nullptr);

/// The linear map that is conv3d's transpose, plus a bias.
///
/// @param x              (N, C, D, H, W)
/// @param weight         (C, O/groups, KD, KH, KW)
/// @param depth_padding  of the output along D, and `output_padding` along H and W; smaller than stride or dilation
///
/// Result   as conv_transpose2d to images with O·KD channels, whose slices are added up in float
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const DepthWindow& depth,
                        const Window2d& window, index_t depth_padding = 0, Size2d output_padding = {0, 0},
                        index_t groups = 1, FloatLayerCache* cache = nullptr);

namespace detail {

/// Extent of the output of a window along D.
constexpr index_t windowed_depth(const DepthWindow& w, index_t in) noexcept {
    const index_t room = in + 2 * w.padding - w.dilation * (w.kernel - 1) - 1;
    return room < 0 ? 0 : room / w.stride + 1;
}

/// Calls copy(slice of the images, slice of the volume) for each slice of an image that lies inside of the volume: of
/// image (n, d) and its channel (c, t), slice d·stride + t·dilation - padding of sample n and channel c.
template <class Copy>
void for_each_slice(const DepthWindow& w, index_t samples, index_t channels, index_t positions, index_t extent,
                    const Copy& copy) {
    for (index_t n = 0; n < samples; ++n)
        for (index_t d = 0; d < positions; ++d)
            for (index_t c = 0; c < channels; ++c)
                for (index_t t = 0; t < w.kernel; ++t) {
                    const index_t at = d * w.stride + t * w.dilation - w.padding;
                    if (at < 0 || at >= extent) continue;
                    copy(((n * positions + d) * channels + c) * w.kernel + t, (n * channels + c) * extent + at);
                }
}

}  // namespace detail

/// (N, C, D, H, W) to the images (N·positions, C·KD, H, W) whose channels are the slices that a window sees.
template <class T> Tensor unfold_depth(const Tensor& x, const DepthWindow& w, index_t positions) {
    const Tensor from = x.contiguous();
    const index_t samples = x.extent(0), channels = x.extent(1), plane = x.extent(3) * x.extent(4);
    const Shape shape(samples * positions, channels * w.kernel, x.extent(3), x.extent(4));
    x.expect_dtype("flat", dtype_of<T>);
    if (x.lacks_values()) return Tensor::of_shape(shape, dtype_of<T>);
    Tensor images = Tensor::zeros(shape, dtype_of<T>);
    detail::for_each_slice(w, samples, channels, positions, x.extent(2), [&](index_t image, index_t slice) {
        for (index_t i = 0; i < plane; ++i)
            images.flat<T>().data()[image * plane + i] = from.template flat<T>().data()[slice * plane + i];
    });
    return images;
}

/// The transpose of unfold_depth(): images (N·positions, C·KD, H, W) added up to (N, C, extent, H, W).
template <class T> Tensor fold_depth(const Tensor& images, const DepthWindow& w, index_t positions, index_t extent) {
    const Tensor from = images.contiguous();
    const index_t samples = images.extent(0) / positions, channels = images.extent(1) / w.kernel;
    const index_t plane = images.extent(2) * images.extent(3);
    const Shape shape(samples, channels, extent, images.extent(2), images.extent(3));
    if (images.lacks_values()) return Tensor::of_shape(shape, dtype_of<T>);
    Tensor x = Tensor::zeros(shape, dtype_of<T>);
    detail::for_each_slice(w, samples, channels, positions, extent, [&](index_t image, index_t slice) {
        for (index_t i = 0; i < plane; ++i)
            x.flat<T>().data()[slice * plane + i] += from.template flat<T>().data()[image * plane + i];
    });
    return x;
}

/// The weight of the convolution of images: (A, B, KD, KH, KW) as (A, B·KD, KH, KW).
Tensor weight_of_images(const Tensor& weight);

/// (N·positions, O, H, W) to (N, O, positions, H, W), and back.
Tensor volume_of_images(const Tensor& images, index_t positions);

Tensor images_of_volume(const Tensor& x);

namespace detail {

/// Throws for a rank other than 5, an impossible window, and a weight whose extents do not match it.
void check_conv3d(const char* name, const Tensor& x, const Tensor& weight, const DepthWindow& depth,
                  const Window2d& window);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <algorithm>
#    include <array>
#    include <string>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/conv.hpp"
#    include "intq/nn/float_operators/move.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void check_conv3d(const char* name, const Tensor& x, const Tensor& weight, const DepthWindow& depth,
                              const Window2d& window) {
    if (x.rank() != 5 || weight.rank() != 5)
        throw Error(std::string(name) + ": input and weight must have rank 5, given " + to_string(x.shape()) + " and " +
                    to_string(weight.shape()));
    throw_if_failed(check_window(window, OpKind::none), name);
    if (depth.kernel < 1 || depth.stride < 1 || depth.dilation < 1 || depth.padding < 0)
        throw Error(std::string(name) +
                    ": along the depth, kernel, stride and dilation must be at least 1, and the "
                    "padding at least 0; given " +
                    std::to_string(depth.kernel) + ", " + std::to_string(depth.stride) + ", " +
                    std::to_string(depth.dilation) + " and " + std::to_string(depth.padding));
    if (weight.extent(2) != depth.kernel || weight.extent(3) != window.kernel.height ||
        weight.extent(4) != window.kernel.width)
        throw Error(std::string(name) + ": the weight " + to_string(weight.shape()) +
                    " does not have the kernel's extents " + std::to_string(depth.kernel) + " x " +
                    std::to_string(window.kernel.height) + " x " + std::to_string(window.kernel.width));
}

}  // namespace detail

INTQ_INLINE Tensor weight_of_images(const Tensor& weight) {
    return weight.reshape(
        Shape(weight.extent(0), weight.extent(1) * weight.extent(2), weight.extent(3), weight.extent(4)));
}

INTQ_INLINE Tensor volume_of_images(const Tensor& images, index_t positions) {
    const std::array<index_t, 5> order{0, 2, 1, 3, 4};
    const Shape by_position(images.extent(0) / positions, positions, images.extent(1), images.extent(2),
                            images.extent(3));
    return permute(images.reshape(by_position), order);
}

INTQ_INLINE Tensor images_of_volume(const Tensor& x) {
    const std::array<index_t, 5> order{0, 2, 1, 3, 4};
    return permute(x, order).reshape(Shape(x.extent(0) * x.extent(2), x.extent(1), x.extent(3), x.extent(4)));
}

INTQ_INLINE Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const DepthWindow& depth,
                          const Window2d& window, index_t groups, FloatLayerCache* cache) {
    detail::check_conv3d("conv3d", x, weight, depth, window);
    const index_t positions = detail::windowed_depth(depth, x.extent(2));
    if (positions < 1)
        throw Error("conv3d: the kernel does not fit into the depth of " + to_string(x.shape()) + " with its padding");
    const Tensor images = unfold_depth<float>(x, depth, positions);
    const Tensor y = conv2d(images, weight_of_images(weight), bias, window, groups, cache);
    return volume_of_images(y, positions);
}

INTQ_INLINE Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const DepthWindow& depth,
                                    const Window2d& window, index_t depth_padding, Size2d output_padding,
                                    index_t groups, FloatLayerCache* cache) {
    detail::check_conv3d("conv_transpose3d", x, weight, depth, window);
    const index_t extent =
        (x.extent(2) - 1) * depth.stride - 2 * depth.padding + depth.dilation * (depth.kernel - 1) + depth_padding + 1;
    if (depth_padding < 0 || depth_padding >= (std::max)(depth.stride, depth.dilation))
        throw Error("conv_transpose3d: the output padding must be smaller than stride or dilation, given " +
                    std::to_string(depth_padding));
    if (x.extent(2) < 1 || extent < 1)
        throw Error("conv_transpose3d: nothing is left of an input of shape " + to_string(x.shape()) +
                    "; the output would have " + std::to_string(extent) + " slices");
    const Tensor images =
        conv_transpose2d(images_of_volume(x), weight_of_images(weight), {}, window, output_padding, groups, cache);
    Tensor y = fold_depth<float>(images, depth, x.extent(2), extent);
    if (!bias.defined()) return y;
    if (!(bias.shape() == Shape(y.extent(1))))
        throw Error("conv_transpose3d: the bias has shape " + to_string(bias.shape()) + ", expected " +
                    to_string(Shape(y.extent(1))));
    if (y.lacks_values() || bias.lacks_values()) return Tensor::of_shape(y.shape());
    const index_t inner = y.size() / (y.extent(0) * y.extent(1));
    for (index_t i = 0; i < y.size(); ++i)
        y.flat<float>().data()[i] += bias.flat<float>().data()[i / inner % y.extent(1)];
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_CONV3D_HPP
