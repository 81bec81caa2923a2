// SPDX-License-Identifier: MIT
//
// Float operators on single elements and pairs of them: add, sub, mul, relu, clamp, masked_fill, causal_fill.
// Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_ELEMENTWISE_HPP
#define INTQ_NN_FLOAT_OPERATORS_ELEMENTWISE_HPP

#include <optional>

#include "intq/core/op_params.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// One float32 operation per element. Shapes are broadcast as in PyTorch: aligned at the last axis, extents of 1
/// repeat.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
/// The larger and the smaller one; NaN where one is NaN.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// The same with a number, which is first rounded to float32.
Tensor add(const Tensor& a, double b);
Tensor sub(const Tensor& a, double b);
Tensor sub(double a, const Tensor& b);
Tensor mul(const Tensor& a, double b);

/// x, or the value where the mask is not 0.
///
/// @param mask  uint8, broadcast to x as above
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

/// The value behind a position along the last axis, and x elsewhere.
///
///     y[n, …, t, j] = j > position[n, t] ? value : x[n, …, t, j]
///
/// @param position  int32 or int64: (N, T), or (T), the same for all samples
Tensor causal_fill(const Tensor& x, const Tensor& position, double value);

/// max(x, 0), or min(max(x, 0), 6). NaN stays NaN. Keeps the qparams of x: on codes it is a clamp.
Tensor relu(const Tensor& x);
Tensor relu6(const Tensor& x);
/// min(max(x, low), high); a limit may be left out. NaN stays NaN.
Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high);
/// The clamp of a fused operator; Activation::none returns x itself.
Tensor activate(const Tensor& x, Activation activation);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <string>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"
#    include "intq/nn/float_operators/move.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

template <class Callable> Tensor map(const Tensor& x, const Callable& function) {
    x.expect_dtype("flat", DType::float32);
    if (is_of_shapes(x)) return Tensor::of_shape(x.shape(), DType::float32, x.layout());
    Tensor y = Tensor::empty(x.shape(), DType::float32, x.layout());
    const auto from = x.flat<float>();
    const auto to = y.flat<float>();
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = function(from[i]);
    return y;
}

template <class Callable> Tensor map_pairs(const Tensor& a, const Tensor& b, const char* op, const Callable& function) {
    const bool equal = a.shape() == b.shape();
    const Shape shape = equal ? a.shape() : broadcast_shape(a.shape(), b.shape(), op);
    for (const Tensor* operand : {&a, &b}) operand->expect_dtype("flat", DType::float32);
    if (is_of_shapes(a, b)) return Tensor::of_shape(shape, DType::float32, equal ? a.layout() : Layout::row_major);
    const Tensor first = equal ? a : expand(a, shape, op);
    const Tensor second = equal ? b.to_layout(a.layout()) : expand(b, shape, op);
    Tensor y = Tensor::empty(shape, DType::float32, first.layout());
    const auto x = first.flat<float>(), z = second.flat<float>();
    const auto to = y.flat<float>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = function(x[i], z[i]);
    return y;
}

}  // namespace detail

INTQ_INLINE Tensor add(const Tensor& a, const Tensor& b) {
    return detail::map_pairs(a, b, "add", [](float x, float y) { return x + y; });
}

INTQ_INLINE Tensor sub(const Tensor& a, const Tensor& b) {
    return detail::map_pairs(a, b, "sub", [](float x, float y) { return x - y; });
}

INTQ_INLINE Tensor mul(const Tensor& a, const Tensor& b) {
    return detail::map_pairs(a, b, "mul", [](float x, float y) { return x * y; });
}

INTQ_INLINE Tensor maximum(const Tensor& a, const Tensor& b) {
    return detail::map_pairs(a, b, "maximum", [](float x, float y) { return x > y || x != x ? x : y; });
}

INTQ_INLINE Tensor minimum(const Tensor& a, const Tensor& b) {
    return detail::map_pairs(a, b, "minimum", [](float x, float y) { return x < y || x != x ? x : y; });
}

INTQ_INLINE Tensor add(const Tensor& a, double b) {
    return detail::map(a, [term = static_cast<float>(b)](float x) { return x + term; });
}

INTQ_INLINE Tensor sub(const Tensor& a, double b) {
    return detail::map(a, [term = static_cast<float>(b)](float x) { return x - term; });
}

INTQ_INLINE Tensor sub(double a, const Tensor& b) {
    return detail::map(b, [term = static_cast<float>(a)](float x) { return term - x; });
}

INTQ_INLINE Tensor mul(const Tensor& a, double b) {
    return detail::map(a, [factor = static_cast<float>(b)](float x) { return x * factor; });
}

INTQ_INLINE Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
    x.expect_dtype("masked_fill", DType::float32);
    if (mask.dtype() != DType::uint8)
        throw Error(std::string("masked_fill: the mask must be uint8, of 0 and 1, given ") + name_of(mask.dtype()));
    if (detail::is_of_shapes(x, mask)) return Tensor::of_shape(x.shape(), DType::float32);
    Tensor y = x.contiguous().clone();
    const Tensor all = expand(mask, x.shape(), "masked_fill");
    const auto masks = all.flat<std::uint8_t>();
    const auto to = y.flat<float>();
    for (std::size_t i = 0; i < to.size(); ++i)
        if (masks[i] != 0) to[i] = static_cast<float>(value);
    y.set_qparams(std::nullopt);
    return y;
}

INTQ_INLINE Tensor causal_fill(const Tensor& x, const Tensor& position, double value) {
    x.expect_dtype("causal_fill", DType::float32);
    if (position.dtype() != DType::int32 && position.dtype() != DType::int64)
        throw Error(std::string("causal_fill: the position must be int32 or int64, given ") +
                    name_of(position.dtype()));
    const int rank = x.rank();
    const bool of_samples = position.rank() == 2 && rank > 2 && position.extent(0) == x.extent(0);
    if ((position.rank() != 1 && !of_samples) || rank < 2 || position.extent(position.rank() - 1) != x.extent(rank - 2))
        throw Error("causal_fill: the position must have shape (N, T) or (T) for scores (N, ..., T, L), given " +
                    to_string(position.shape()) + " for " + to_string(x.shape()));
    if (detail::is_of_shapes(x, position)) return Tensor::of_shape(x.shape(), DType::float32);
    Tensor y = x.contiguous().clone();
    const Tensor at = position.contiguous();
    const index_t columns = x.extent(rank - 1), rows = x.extent(rank - 2);
    const index_t of_sample = of_samples ? x.size() / (x.extent(0) * columns) : 0;
    const auto to = y.flat<float>();
    for (index_t row = 0; row < y.size() / columns; ++row) {
        const auto i = static_cast<std::size_t>((of_samples ? row / of_sample * rows : 0) + row % rows);
        const std::int64_t last = at.dtype() == DType::int64 ? at.flat<std::int64_t>()[i] : at.flat<std::int32_t>()[i];
        for (index_t j = (std::max<std::int64_t>)(last + 1, 0); j < columns; ++j)
            to[static_cast<std::size_t>(row * columns + j)] = static_cast<float>(value);
    }
    y.set_qparams(std::nullopt);
    return y;
}

INTQ_INLINE Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high) {
    return detail::map(x, [&](float value) {
        if (low && value < static_cast<float>(*low)) value = static_cast<float>(*low);
        if (high && value > static_cast<float>(*high)) value = static_cast<float>(*high);
        return value;
    });
}

INTQ_INLINE Tensor relu(const Tensor& x) {
    Tensor y = clamp(x, 0.0, std::nullopt);
    y.set_qparams(x.qparams());
    return y;
}

INTQ_INLINE Tensor relu6(const Tensor& x) {
    Tensor y = clamp(x, 0.0, 6.0);
    y.set_qparams(x.qparams());
    return y;
}

INTQ_INLINE Tensor activate(const Tensor& x, Activation activation) {
    switch (activation) {
        case Activation::relu:
            return relu(x);
        case Activation::relu6:
            return relu6(x);
        case Activation::none:
            break;
    }
    return x;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_ELEMENTWISE_HPP
