// SPDX-License-Identifier: MIT
//
// Float sums and means along axes, as plain loops. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_REDUCE_HPP
#define INTQ_NN_FLOAT_OPERATORS_REDUCE_HPP

#include <span>

#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// The sum along axes, or over all elements without axes.
///
/// @param keepdim  whether the axes stay, with extent 1
///
/// Result   in double in row_major order, rounded once
Tensor sum(const Tensor& x, std::span<const index_t> axes = {}, bool keepdim = false);
/// The sum divided by the number of its terms; NaN where there are none.
Tensor mean(const Tensor& x, std::span<const index_t> axes = {}, bool keepdim = false);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <array>
#    include <string>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Tensor reduce(const Tensor& x, std::span<const index_t> axes, bool keepdim, bool divide, const char* op) {
    std::array<bool, max_rank> goes{};
    if (axes.empty()) goes.fill(true);
    for (const index_t axis : axes) {
        bool& gone = goes[static_cast<std::size_t>(positive_axis(static_cast<int>(axis), x.rank(), op))];
        if (gone) throw Error(std::string(op) + ": axis " + std::to_string(axis) + " is there twice");
        gone = true;
    }
    Shape kept, shape;  // kept has all axes
    index_t terms = 1;
    for (int axis = 0; axis < x.rank(); ++axis) {
        const bool gone = goes[static_cast<std::size_t>(axis)];
        append_extent(kept, gone ? 1 : x.extent(axis), op);
        if (!gone) append_extent(shape, x.extent(axis), op);
        if (gone) terms *= x.extent(axis);
    }
    x.expect_dtype("flat", DType::float32);
    if (is_of_shapes(x)) return Tensor::of_shape(keepdim ? kept : shape);
    const Tensor input = x.contiguous();
    std::vector<double> sums(static_cast<std::size_t>(kept.size()), 0.0);
    const auto steps = tensor_detail::strides_of(kept, Layout::row_major);
    std::array<index_t, max_rank> index{};
    for (const float value : input.flat<float>()) {
        index_t at = 0;
        for (int axis = 0; axis < x.rank(); ++axis)
            if (!goes[static_cast<std::size_t>(axis)])
                at += index[static_cast<std::size_t>(axis)] * steps[static_cast<std::size_t>(axis)];
        sums[static_cast<std::size_t>(at)] += static_cast<double>(value);
        for (int axis = x.rank(); axis-- > 0;) {
            index_t& i = index[static_cast<std::size_t>(axis)];
            if (++i < x.extent(axis)) break;
            i = 0;
        }
    }
    Tensor y = Tensor::empty(keepdim ? kept : shape);
    for (std::size_t i = 0; i < sums.size(); ++i)
        y.flat<float>()[i] = static_cast<float>(divide ? sums[i] / static_cast<double>(terms) : sums[i]);
    return y;
}

}  // namespace detail

INTQ_INLINE Tensor sum(const Tensor& x, std::span<const index_t> axes, bool keepdim) {
    return detail::reduce(x, axes, keepdim, false, "sum");
}

INTQ_INLINE Tensor mean(const Tensor& x, std::span<const index_t> axes, bool keepdim) {
    return detail::reduce(x, axes, keepdim, true, "mean");
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_REDUCE_HPP
