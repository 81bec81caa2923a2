// SPDX-License-Identifier: MIT
//
// Gradients of convolution, as convolutions: float32 goes through the GEMM skeleton of inference. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_CONV_PRODUCTS_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_CONV_PRODUCTS_HPP

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "intq/core/dtype.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/float_operators/conv.hpp"
#include "intq/tensor/current_executor.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// A convolution without bias, on float32 by the kernels, on double by plain loops; x, weight and result row_major.
template <class T> Tensor convolve(const Tensor& x, const Tensor& weight, const Window2d& window, index_t groups);

/// Gradient of conv2d for its input: the transposed convolution of the gradient, in the two steps of
/// nn::float_operators::conv_transpose2d.
///
///     dx = conv(spread(dy), turned(w))
///
/// @param dy    (N, O, OH, OW)
/// @param size  height and width of the input
template <class T>
Tensor conv2d_input_gradient(const Tensor& dy, const Tensor& weight, const Window2d& window, index_t groups,
                             Size2d size);

/// Gradient of conv2d for its weight: the samples take the place of the input channels, stride and dilation are
/// exchanged.
///
///     dw[o, c, u, v] = sum_{n,i,j} x[n, c, i·stride + u·dilation - padding, …] · dy[n, o, i, j]
///
/// @param window  of the forward pass; its kernel is the height and width of the result
template <class T>
Tensor conv2d_weight_gradient(const Tensor& x, const Tensor& dy, const Window2d& window, index_t groups);

/// Sums over all axes but axis 1, in double: the gradient of a bias.
template <class T> Tensor channel_sums(const Tensor& dy);

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

/// The loops of the definition.
template <class T> Tensor convolve_by_loops(const Tensor& x, const Tensor& weight, const Window2d& w, index_t groups) {
    const Size2d out = output_size(w, {x.extent(2), x.extent(3)});
    Tensor y = Tensor::empty(Shape(x.extent(0), weight.extent(0), out.height, out.width), dtype_of<T>);
    const auto in = x.view<T, 4>(), k = weight.view<T, 4>();
    const auto to = y.view<T, 4>();
    const index_t inputs = weight.extent(1), outputs = weight.extent(0) / groups;
    const auto at = [&](index_t n, index_t o, index_t i, index_t j) {
        T sum{0};
        for (index_t u = 0; u < weight.extent(2); ++u)
            for (index_t v = 0; v < weight.extent(3); ++v) {
                const index_t row = i * w.stride.height + u * w.dilation.height - w.padding.top;
                const index_t column = j * w.stride.width + v * w.dilation.width - w.padding.left;
                if (row < 0 || row >= x.extent(2) || column < 0 || column >= x.extent(3)) continue;
                for (index_t c = 0; c < inputs; ++c)
                    sum += in(n, o / outputs * inputs + c, row, column) * k(o, c, u, v);
            }
        return sum;
    };
    for (index_t n = 0; n < y.extent(0); ++n)
        for (index_t o = 0; o < y.extent(1); ++o)
            for (index_t i = 0; i < out.height; ++i)
                for (index_t j = 0; j < out.width; ++j) to(n, o, i, j) = at(n, o, i, j);
    return y;
}

/// Copies a plane for each (g, i, j): both places are functions of the three.
template <class T, class From, class To>
void copy_planes(std::array<index_t, 3> counts, const Tensor& from, Tensor& to, const From& source, const To& target) {
    const index_t plane = from.extent(2) * from.extent(3);
    for (index_t g = 0; g < counts[0]; ++g)
        for (index_t i = 0; i < counts[1]; ++i)
            for (index_t j = 0; j < counts[2]; ++j)
                std::memcpy(to.flat<T>().data() + target(g, i, j) * plane,
                            from.flat<T>().data() + source(g, i, j) * plane,
                            static_cast<std::size_t>(plane) * sizeof(T));
}

}  // namespace detail

template <class T> Tensor convolve(const Tensor& x, const Tensor& weight, const Window2d& window, index_t groups) {
    if constexpr (std::is_same_v<T, float>) return nn::float_operators::conv2d(x, weight, {}, window, groups);
    return detail::convolve_by_loops<T>(x, weight, window, groups);
}

template <class T>
Tensor conv2d_input_gradient(const Tensor& dy, const Tensor& weight, const Window2d& window, index_t groups,
                             Size2d size) {
    const Tensor z = nn::float_operators::spread_image<T>(dy, window, size);
    const Tensor turned = nn::float_operators::turned_weight<T>(weight, groups);
    return convolve<T>(z, turned, {window.kernel, {1, 1}, {}, window.dilation}, groups);
}

template <class T>
Tensor conv2d_weight_gradient(const Tensor& x, const Tensor& dy, const Window2d& window, index_t groups) {
    const Tensor in = x.contiguous(), gradient = dy.contiguous();
    const index_t samples = x.extent(0), inputs = x.extent(1) / groups, outputs = dy.extent(1);
    // (N, G·C, H, W) -> (C, G·N, H, W), (N, O, …) -> (O, N, …)
    Tensor images = Tensor::empty(Shape(inputs, groups * samples, x.extent(2), x.extent(3)), dtype_of<T>);
    detail::copy_planes<T>(
        {groups, inputs, samples}, in, images,
        [&](index_t g, index_t c, index_t n) { return (n * groups + g) * inputs + c; },
        [&](index_t g, index_t c, index_t n) { return (c * groups + g) * samples + n; });
    Tensor kernels = Tensor::empty(Shape(outputs, samples, dy.extent(2), dy.extent(3)), dtype_of<T>);
    detail::copy_planes<T>(
        {1, outputs, samples}, gradient, kernels, [&](index_t, index_t o, index_t n) { return n * outputs + o; },
        [&](index_t, index_t o, index_t n) { return o * samples + n; });
    const Window2d swapped{{dy.extent(2), dy.extent(3)}, window.dilation, window.padding, window.stride};
    // (C, O, at least KH, at least KW): the part beyond the kernel comes from pixels that no window reached.
    const Tensor sums = convolve<T>(images, kernels, swapped, groups);
    Tensor result = Tensor::empty(Shape(outputs, inputs, window.kernel.height, window.kernel.width), dtype_of<T>);
    const auto from = sums.template view<T, 4>();
    const auto to = result.view<T, 4>();
    for (index_t o = 0; o < outputs; ++o)
        for (index_t c = 0; c < inputs; ++c)
            for (index_t u = 0; u < window.kernel.height; ++u)
                for (index_t v = 0; v < window.kernel.width; ++v) to(o, c, u, v) = from(c, o, u, v);
    return result;
}

template <class T> Tensor channel_sums(const Tensor& dy) {
    const Tensor from = dy.contiguous();
    const index_t channels = dy.extent(1), samples = dy.extent(0);
    const index_t inner = dy.size() == 0 ? 0 : dy.size() / (samples * channels);
    Tensor result = Tensor::empty(Shape(channels), dtype_of<T>);
    current_executor()(channels, [&](index_t c) {
        double sum = 0;
        for (index_t n = 0; n < samples; ++n)
            for (const T value : from.flat<T>().subspan(static_cast<std::size_t>((n * channels + c) * inner),
                                                        static_cast<std::size_t>(inner)))
                sum += static_cast<double>(value);
        result.flat<T>()[static_cast<std::size_t>(c)] = static_cast<T>(sum);
    });
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_CONV_PRODUCTS_HPP
