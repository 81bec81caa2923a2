// SPDX-License-Identifier: MIT
//
// Axes and extents as the float operators count them. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_AXES_HPP
#define INTQ_NN_FLOAT_OPERATORS_AXES_HPP

#include "intq/core/op_params.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// An axis counted from the front; a negative one counts from the end. Throws for one that does not exist.
int positive_axis(int axis, int rank, const char* op);

/// Product of the extents of the axes [first, last).
index_t extent_product(const Shape& shape, int first, int last);

/// Puts an extent behind the last one.
///
/// @throws Error for a shape that has max_rank axes
void append_extent(Shape& shape, index_t extent, const char* op);

namespace detail {

/// The extents of the output of a window on images (N, C, H, W) with at least one pixel.
///
/// @throws Error where the window reaches over the padded image
Size2d windowed_size(const char* op, const Window2d& window, const Shape& images);

/// Whether only shapes are asked for: one of the operands has no elements (Tensor::of_shape()).
template <class... T> bool is_of_shapes(const T&... operands) { return (... || operands.lacks_values()); }

/// Per-tensor qparams of a tensor whose values were moved or chosen.
void keep_qparams(const Tensor& x, Tensor& y);

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <string>

#    include "intq/io/error.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

INTQ_INLINE Size2d windowed_size(const char* op, const Window2d& window, const Shape& images) {
    const Size2d out = output_size(window, {images[2], images[3]});
    if (out.height > 0 && out.width > 0) return out;
    const auto reach = [](index_t kernel, index_t dilation) { return std::to_string(dilation * (kernel - 1) + 1); };
    const auto padded = [](index_t extent, index_t before, index_t after) {
        return std::to_string(extent + before + after);
    };
    throw Error(std::string(op) + ": the window of " + reach(window.kernel.height, window.dilation.height) + " x " +
                reach(window.kernel.width, window.dilation.width) + " cells is larger than the image, which has " +
                padded(images[2], window.padding.top, window.padding.bottom) + " x " +
                padded(images[3], window.padding.left, window.padding.right) + " with its padding; the input is " +
                to_string(images));
}

INTQ_INLINE void keep_qparams(const Tensor& x, Tensor& y) {
    if (x.qparams() && !x.qparams()->is_per_channel()) y.set_qparams(x.qparams());
}

}  // namespace detail

INTQ_INLINE int positive_axis(int axis, int rank, const char* op) {
    const int positive = axis < 0 ? axis + rank : axis;
    if (positive < 0 || positive >= rank)
        throw Error(std::string(op) + ": axis " + std::to_string(axis) + " does not exist in rank " +
                    std::to_string(rank));
    return positive;
}

INTQ_INLINE index_t extent_product(const Shape& shape, int first, int last) {
    index_t result = 1;
    for (int axis = first; axis < last; ++axis) result *= shape[axis];
    return result;
}

INTQ_INLINE void append_extent(Shape& shape, index_t extent, const char* op) {
    if (shape.rank == max_rank)
        throw Error(std::string(op) + ": the result would have more than " + std::to_string(max_rank) + " axes");
    shape.extents[static_cast<std::size_t>(shape.rank++)] = extent;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_AXES_HPP
