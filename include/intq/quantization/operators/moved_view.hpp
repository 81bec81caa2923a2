// SPDX-License-Identifier: MIT
//
// MovedView: the places of a tensor's codes in another one's memory, after any number of slices, permutations and
// reshapes. Lowering moves codes once, when an operator reads them. A channel shuffle, which is a reshape, a
// permutation and a reshape, becomes one move, and so does a slice of its result. Layer: quantization (docs/workflow.md
// section 4).
#ifndef INTQ_QUANTIZATION_OPERATORS_MOVED_VIEW_HPP
#define INTQ_QUANTIZATION_OPERATORS_MOVED_VIEW_HPP

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "intq/core/layout.hpp"
#include "intq/core/shape.hpp"
#include "intq/kernels/streaming/move.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The codes of an image of a tensor of the program, in another order, or some of them.
///
/// Each axis but the axis of samples is a list of factors, whose extents multiply to its own; the last one moves
/// fastest. Element (n, …) of the tensor is element offset + sum of index·step of image n.
class MovedView {
public:
    /// A tensor of a program, not moved.
    MovedView(std::int32_t source, const Shape& shape, Layout layout = Layout::channels_last);

    /// The tensor of the program.
    std::int32_t source() const noexcept { return source_; }
    const Shape& shape() const noexcept { return shape_; }

    /// Axis i is axis axes[i]; axis 0 stays.
    MovedView permuted(std::span<const int> axes) const;
    /// `count` elements of an axis, from `first` on, every `step`-th.
    /// @return empty if they are not a range of a factor
    std::optional<MovedView> sliced(int axis, index_t first, index_t count, index_t step) const;
    /// Axes of one element repeated to another shape of the same rank.
    /// @pre the other extents are the shape's
    MovedView expanded(const Shape& shape) const;
    /// The same elements in row_major order in another shape, whose first extent stays.
    /// @return empty if an extent would end inside a factor that it does not divide
    std::optional<MovedView> reshaped(const Shape& shape) const;

    /// The move that writes the view as a tensor of a program in a layout.
    /// @return empty for a move of more than max_rank axes
    std::optional<kernels::MoveParams> move(Layout layout = Layout::channels_last) const;

private:
    struct Factor {
        index_t extent, step;
    };
    using Factors = std::vector<Factor>;

    static bool take(Factors& from, index_t extent, Factors& to);

    std::int32_t source_;
    Shape shape_;
    std::vector<Factors> axes_;  // of shape_; empty for axis 0, and for an extent of 1
    index_t offset_ = 0;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <cstddef>
#    include <utility>

#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE MovedView::MovedView(std::int32_t source, const Shape& shape, Layout layout)
    : source_(source), shape_(shape), axes_(static_cast<std::size_t>(shape.rank)) {
    const auto steps = tensor_detail::strides_of(shape, layout);
    for (std::size_t axis = 1; axis < axes_.size(); ++axis)
        if (const index_t extent = shape[static_cast<int>(axis)]; extent != 1)
            axes_[axis].push_back({extent, steps[axis]});
}

INTQ_INLINE MovedView MovedView::permuted(std::span<const int> axes) const {
    MovedView result = *this;
    for (std::size_t i = 0; i < axes.size(); ++i) {
        result.shape_[static_cast<int>(i)] = shape_[axes[i]];
        result.axes_[i] = axes_[static_cast<std::size_t>(axes[i])];
    }
    return result;
}

INTQ_INLINE std::optional<MovedView> MovedView::sliced(int axis, index_t first, index_t count, index_t step) const {
    MovedView result = *this;
    result.shape_[axis] = count;
    Factors& factors = result.axes_[static_cast<std::size_t>(axis)];
    if (count == shape_[axis] && step == 1) return result;
    index_t inner = 1;
    for (std::size_t i = 1; i < factors.size(); ++i) inner *= factors[i].extent;
    if (count == 1) {  // one element of any factors
        index_t rest = first;
        for (std::size_t i = factors.size(); i-- > 0; rest /= factors[i].extent)
            result.offset_ += rest % factors[i].extent * factors[i].step;
        factors.clear();
        return result;
    }
    if (inner != 1 && (step != 1 || first % inner != 0 || count % inner != 0)) return std::nullopt;
    result.offset_ += first / inner * factors[0].step;
    factors[0] = {count / inner, factors[0].step * step};
    if (factors[0].extent == 1) factors.erase(factors.begin());
    return result;
}

INTQ_INLINE MovedView MovedView::expanded(const Shape& shape) const {
    MovedView result = *this;
    result.shape_ = shape;
    for (std::size_t axis = 1; axis < axes_.size(); ++axis)
        if (const index_t extent = shape[static_cast<int>(axis)]; extent != shape_[static_cast<int>(axis)])
            result.axes_[axis] = {{extent, 0}};
    return result;
}

/// Moves factors of `extent` elements, the slowest first, from one list to another.
INTQ_INLINE bool MovedView::take(Factors& from, index_t extent, Factors& to) {
    while (extent > 1) {
        if (from.empty()) return false;
        Factor& next = from.front();
        if (extent % next.extent == 0) {
            extent /= next.extent;
            to.push_back(next);
            from.erase(from.begin());
        } else if (next.extent % extent == 0) {
            const index_t inner = next.extent / extent;
            to.push_back({extent, next.step * inner});
            next.extent = inner;
            return true;
        } else {
            return false;
        }
    }
    return true;
}

INTQ_INLINE std::optional<MovedView> MovedView::reshaped(const Shape& shape) const {
    Factors left;
    for (const Factors& factors : axes_)
        for (const Factor& factor : factors) {
            // Nested factors become one, which can be divided elsewhere.
            if (!left.empty() && left.back().step == factor.extent * factor.step)
                left.back() = {left.back().extent * factor.extent, factor.step};
            else
                left.push_back(factor);
        }
    MovedView result = *this;
    result.shape_ = shape;
    result.axes_.assign(static_cast<std::size_t>(shape.rank), {});
    for (int axis = 1; axis < shape.rank; ++axis)
        if (!take(left, shape[axis], result.axes_[static_cast<std::size_t>(axis)])) return std::nullopt;
    return left.empty() ? std::optional(std::move(result)) : std::nullopt;
}

INTQ_INLINE std::optional<kernels::MoveParams> MovedView::move(Layout layout) const {
    kernels::MoveParams move;
    move.offset = offset_;
    move.steps[0] = 1;
    int rank = 0;
    const auto append = [&](const Factors& factors) {
        for (const Factor& factor : factors) {
            if (rank > 0 && move.steps[rank - 1] == factor.extent * factor.step) {
                move.extents[rank - 1] *= factor.extent;
                move.steps[rank - 1] = factor.step;
            } else {
                if (rank == max_rank) return false;
                move.extents[rank] = factor.extent;
                move.steps[rank++] = factor.step;
            }
        }
        return true;
    };
    // In the order of the output's memory.
    const bool is_dense = layout == Layout::row_major;
    for (std::size_t axis = is_dense ? 1 : 2; axis < axes_.size(); ++axis)
        if (!append(axes_[axis])) return std::nullopt;
    if (!is_dense && axes_.size() > 1 && !append(axes_[1])) return std::nullopt;
    move.rank = (std::max)(rank, 1);
    return move;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_MOVED_VIEW_HPP
