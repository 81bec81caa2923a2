// SPDX-License-Identifier: MIT
//
// pad and move (slice, permute, another layout) of codes as functions on views. Layer: kernels
// (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_MOVE_HPP
#define INTQ_KERNELS_VIEWS_MOVE_HPP

#include <array>
#include <span>

#include "intq/arith/codes.hpp"
#include "intq/core/executor.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/move.hpp"
#include "intq/kernels/views/code_view.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

// --- pad -------------------------------------------------------------------------------------------------------------

/// Parameters of pad(): cells without a pixel hold the code of the real number 0.
///
/// @param padding  rows and columns around the image; negative ones crop it
/// @param codes    of the image
/// @param step     from pixel to pixel: 1 leaves them next to each other
/// @return the parameters; value_out_of_range of zero_point: no code of the type
constexpr Result<PadParams> make_pad(const Padding2d& padding, const arith::CodesOf& codes,
                                     Size2d step = {1, 1}) noexcept {
    if (codes.zero_point < lowest_code(codes.dtype) || codes.zero_point > highest_code(codes.dtype))
        return Status{StatusCode::value_out_of_range, OpKind::pad, Field::zero_point, codes.zero_point,
                      codes.zero_point < 0 ? lowest_code(codes.dtype) : highest_code(codes.dtype)};
    return PadParams{padding, step, codes.zero_point};
}

/// @return ok; the errors of check_pad() of the parameters; value_out_of_range of zero_point: the fill is not a code of
///         the type; shape_mismatch of output, with the first extents that differ from padded_size()
template <CodeImage X, CodeImage Out>
requires SameCodes<X, Out>
constexpr Status check_pad(const X& x, const PadParams& params, const Out& out) noexcept {
    constexpr OpKind op = OpKind::pad;
    constexpr DType dtype = dtype_of<typename X::element_type>;
    const Size2d in = detail::size_of_image(x);
    if (const Status status = check_pad(params, in, op); !status) return status;
    if (params.fill < lowest_code(dtype) || params.fill > highest_code(dtype))
        return {StatusCode::value_out_of_range, op, Field::zero_point, params.fill, highest_code(dtype)};
    const Size2d size = padded_size(params, in);
    return detail::check_extents(Shape{x.extent(0), x.extent(1), size.height, size.width}, out.shape(), op,
                                 Field::output);
}

/// Images on a larger or smaller field, their pixels next to each other or apart.
///
///     out[n][c][i][j] = x[n][c][(i - top) / step][(j - left) / step] where that is a pixel, else the fill
///
/// @param x       int8 or int16 codes, channels_last
/// @param params  made by make_pad()
/// @param out     typed as x, of padded_size(); must not overlap it
/// @pre   check_pad()
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(outputs); bound by memory
template <CodeImage X, CodeImage Out>
requires SameCodes<X, Out> && CodeOutput<Out>
void pad(const X& x, const PadParams& params, const Out& out, const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_pad(x, params, out).ok());
    pad_codes<typename X::value_type>({.params = &params,
                                       .x = x.data(),
                                       .y = out.data(),
                                       .batch = x.extent(0),
                                       .channels = x.extent(1),
                                       .in = detail::size_of_image(x),
                                       .executor = &executor});
}

// --- move ------------------------------------------------------------------------------------------------------------

/// The view with its axes in another order, for move(); shares the elements.
///
///     result[i_0, …] = view[j],  j[axes[k]] = i_k
///
/// @param axes  each axis of the view once, as in PyTorch's permute
/// @return the view; value_out_of_range of axis: not an axis; corrupt of axis: one that is named twice
template <AnyCodeView View>
constexpr Result<TensorView<typename View::element_type, View::rank, strided>> make_permuted(
    const View& view, const std::array<int, static_cast<std::size_t>(View::rank)>& axes) noexcept {
    typename View::Index extents{}, strides{};
    bool is_taken[max_rank] = {};
    for (std::size_t k = 0; k < axes.size(); ++k) {
        const int axis = axes[k];
        if (const Status status = detail::check_axis<View>(axis, OpKind::permute); !status) return status;
        if (is_taken[axis]) return Status{StatusCode::corrupt, OpKind::permute, Field::axis, axis, axis};
        is_taken[axis] = true;
        extents[k] = view.extent(axis);
        strides[k] = view.stride(axis);
    }
    return TensorView<typename View::element_type, View::rank, strided>(view.data(), extents, strides);
}

/// Every step-th part of one axis, for move(); shares the elements. A negative step goes backwards.
///
///     result[…, i, …] = view[…, first + i·step, …],   i = 0 … count - 1
///
/// @return the view; value_out_of_range of axis, of stride (0, or one that leaves the view), of input (the first
///         element is outside) and of output (more than the axis has)
template <AnyCodeView View>
constexpr Result<TensorView<typename View::element_type, View::rank, strided>> make_slice(const View& view, int axis,
                                                                                          index_t first, index_t count,
                                                                                          index_t step = 1) noexcept {
    constexpr OpKind op = OpKind::slice;
    if (const Status status = detail::check_axis<View>(axis, op); !status) return status;
    const index_t extent = view.extent(axis);
    if (step == 0) return Status{StatusCode::value_out_of_range, op, Field::stride, step, 1};
    if (count < 0 || count > extent) return Status{StatusCode::value_out_of_range, op, Field::output, count, extent};
    if (count > 0 && (first < 0 || first >= extent))
        return Status{StatusCode::value_out_of_range, op, Field::input, first, first < 0 ? 0 : extent - 1};
    // By division: a product of any step may not be a number of 64 bits.
    const index_t room = step > 0 ? extent - 1 - first : first;
    if (count > 1 && (step < -extent || step > extent || (step < 0 ? -step : step) > room / (count - 1)))
        return Status{StatusCode::value_out_of_range, op, Field::stride, step, step > 0 ? room : -room};
    typename View::Index extents = view.extents(), strides = view.strides();
    const auto at = static_cast<std::size_t>(axis);
    auto* const data = count > 0 ? view.data() + first * strides[at] : view.data();
    extents[at] = count;
    strides[at] *= step;
    return TensorView<typename View::element_type, View::rank, strided>(data, extents, strides);
}

/// @return ok; shape_mismatch of output, with the first extents that differ
template <AnyCodeView X, CodeView Out>
requires(X::rank == Out::rank && std::is_same_v<typename X::value_type, typename Out::value_type>) constexpr Status
    check_move(const X& x, const Out& out) noexcept {
    return detail::check_extents(x.shape(), out.shape(), OpKind::layout_change, Field::output);
}

namespace detail {

/// The parameters of a move from any view to a dense one: axes in the order of out's memory, and those along which x
/// goes on at the same step joined.
template <class X, class Out> constexpr MoveParams move_params(const X& x, const Out& out) noexcept {
    MoveParams inside_out{.rank = 0};
    const auto take = [&](int axis) {
        const index_t extent = out.extent(axis), step = x.stride(axis);
        if (extent == 1) return;
        const int last = inside_out.rank - 1;
        if (last >= 0 && step == inside_out.extents[last] * inside_out.steps[last]) {
            inside_out.extents[last] *= extent;
            return;
        }
        inside_out.extents[inside_out.rank] = extent;
        inside_out.steps[inside_out.rank++] = step;
    };
    for (int place = Out::rank - 1; place >= 0; --place)
        for (int axis = 0; axis < Out::rank; ++axis)
            if (place_in_memory<Out>(axis) == place) take(axis);
    MoveParams move{};
    move.rank = inside_out.rank > 0 ? inside_out.rank : 1;
    move.steps[0] = 1;
    for (int axis = 0; axis < inside_out.rank; ++axis) {
        move.extents[axis] = inside_out.extents[inside_out.rank - 1 - axis];
        move.steps[axis] = inside_out.steps[inside_out.rank - 1 - axis];
    }
    return move;
}

}  // namespace detail

/// Codes to other places, as they are: a slice, a permutation, another layout.
///
///     out[i_0, i_1, …] = x[i_0, i_1, …]
///
/// @param x    int8 or int16 codes of any layout: a view of make_permuted() or make_slice(), or with its own strides
/// @param out  row_major or channels_last, shaped and typed as x; must not overlap it
/// @pre   check_move()
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(n); bound by memory
template <AnyCodeView X, CodeOutput Out>
requires(X::rank == Out::rank && std::is_same_v<typename X::value_type, typename Out::value_type>) void move(
    const X& x, const Out& out, const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_move(x, out).ok());
    if (out.empty()) return;
    const MoveParams params = detail::move_params(x, out);
    move_codes<typename X::value_type>(
        {.params = &params, .x = x.data(), .y = out.data(), .batch = 1, .in = 0, .executor = &executor});
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_MOVE_HPP
