// SPDX-License-Identifier: MIT
//
// Parameters and checks of move and pad, one run of them as a function pointer takes it, and their rows.
// Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_MOVE_CALL_HPP
#define INTQ_KERNELS_STREAMING_MOVE_CALL_HPP

#include "intq/core/executor.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/quotient.hpp"
#include "intq/core/shape.hpp"
#include "intq/core/status.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

// --- move: slice, permute, reshape -----------------------------------------------------------------------------------

}  // namespace INTQ_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Which element of an image each element of its output is; axes in the order of the output's memory, the last one
/// dense.
///
///     y[(i0·extents[1] + i1)·extents[2] + …] = x[offset + i0·steps[0] + i1·steps[1] + …]
struct MoveParams {
    int rank = 1;
    index_t extents[max_rank] = {1, 1, 1, 1, 1, 1};
    index_t steps[max_rank] = {};
    index_t offset = 0;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Elements of an output image; 0 where an extent is below 1 or the product beyond 2^40, or beyond index_t.
constexpr index_t moved_size(const MoveParams& move) noexcept {
    constexpr auto limit =
        static_cast<index_t>(PTRDIFF_MAX < std::int64_t{1} << 40 ? PTRDIFF_MAX : std::int64_t{1} << 40);
    index_t size = 1;
    for (int axis = 0; axis < move.rank; ++axis) {
        if (move.extents[axis] < 1 || size > limit / move.extents[axis]) return 0;
        size *= move.extents[axis];
    }
    return size;
}

/// Checks parameters that may say anything.
///
/// @param in, out  elements of an image of the input and of the output
/// @return ok; corrupt of output (rank, or another number of elements), of input (an element outside the image)
constexpr Status check_move(const MoveParams& move, index_t in, index_t out, OpKind op) noexcept {
    if (move.rank < 1 || move.rank > max_rank) return {StatusCode::corrupt, op, Field::output, move.rank, max_rank};
    const index_t size = moved_size(move);
    if (size < 1 || size != out) return {StatusCode::corrupt, op, Field::output, size, out};
    if (move.offset < 0 || move.offset >= in) return {StatusCode::corrupt, op, Field::input, move.offset, in};
    index_t lowest = move.offset, highest = move.offset;
    for (int axis = 0; axis < move.rank; ++axis) {
        const index_t last = move.extents[axis] - 1, step = move.steps[axis];
        if (last == 0 || step == 0) continue;
        // By division: no product with a step that leaves the image need be a number of 64 bits.
        const bool stays = step > 0 ? last <= (in - 1 - highest) / step : step >= -lowest && last <= lowest / -step;
        if (!stays) return {StatusCode::corrupt, op, Field::input, step, in};
        (step < 0 ? lowest : highest) += step * last;
    }
    return {};
}

/// Whether the first elements of an image are the output, in their order.
constexpr bool is_copy(const MoveParams& move) noexcept {
    if (move.offset != 0) return false;
    index_t dense = 1;
    for (int axis = move.rank - 1; axis >= 0; --axis) {
        if (move.extents[axis] > 1 && move.steps[axis] != dense) return false;
        dense *= move.extents[axis];
    }
    return true;
}

/// Calls visit(from, step, count) for runs of the output's elements `first` to first + count, in order: each is the
/// elements from `from` on, `step` apart, of the image.
/// @pre 0 <= first, first + count <= moved_size(move)
template <class Visit>
constexpr void for_each_run(const MoveParams& move, index_t first, index_t count, Visit&& visit) {
    const int last = move.rank - 1;
    const index_t run = move.extents[last], step = move.steps[last];
    for (const index_t end = first + count; first < end;) {
        index_t rest = quotient(first, run), from = move.offset;
        const index_t column = first - rest * run, left = run - column;
        for (int axis = last - 1; axis >= 0; --axis) {
            const index_t whole = quotient(rest, move.extents[axis]);
            from += (rest - whole * move.extents[axis]) * move.steps[axis];
            rest = whole;
        }
        const index_t taken = end - first < left ? end - first : left;
        visit(from + column * step, step, taken);
        first += taken;
    }
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// One run of a move.
struct MoveCall {
    const MoveParams* params = nullptr;
    const void* x = nullptr;
    void* y = nullptr;
    index_t batch = 0;
    index_t in = 0;  // elements of an input image
    const Executor* executor = nullptr;
};
struct MoveRow {
    DType dtype;
    void (*run)(const MoveCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

// --- pad -------------------------------------------------------------------------------------------------------------

}  // namespace INTQ_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Where the pixels go. Negative padding crops.
struct PadParams {
    Padding2d padding{};
    Size2d step{};          // from pixel to pixel
    std::int32_t fill = 0;  // code of the cells without a pixel
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Extents of the output; at least 0.
///
///     out = step·(in - 1) + 1 + padding
constexpr Size2d padded_size(const PadParams& pad, Size2d in) noexcept {
    const auto along = [](index_t extent, index_t before, index_t after, index_t step) {
        const index_t size = extent < 1 ? 0 : step * (extent - 1) + 1 + before + after;
        return size < 0 ? index_t{0} : size;
    };
    return {along(in.height, pad.padding.top, pad.padding.bottom, pad.step.height),
            along(in.width, pad.padding.left, pad.padding.right, pad.step.width)};
}

/// @return ok; value_out_of_range of stride (a step below 1), padding (beyond 2^24), input (an extent beyond 2^24);
///         shape_mismatch of output where nothing is left
constexpr Status check_pad(const PadParams& pad, Size2d in, OpKind op) noexcept {
    constexpr index_t limit = index_t{1} << 24;
    for (const index_t step : {pad.step.height, pad.step.width})
        if (step < 1 || step > limit) return {StatusCode::value_out_of_range, op, Field::stride, step, 1};
    for (const index_t side : {pad.padding.top, pad.padding.left, pad.padding.bottom, pad.padding.right})
        if (side < -limit || side > limit) return {StatusCode::value_out_of_range, op, Field::padding, side, limit};
    for (const index_t extent : {in.height, in.width})
        if (extent < 1 || extent > limit) return {StatusCode::value_out_of_range, op, Field::input, extent, limit};
    const Size2d out = padded_size(pad, in);
    if (out.height < 1 || out.width < 1) return {StatusCode::shape_mismatch, op, Field::output, 0, 1};
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// One run of a pad. x and y are channels last.
struct PadCall {
    const PadParams* params = nullptr;
    const void* x = nullptr;
    void* y = nullptr;
    index_t batch = 0;
    index_t channels = 0;
    Size2d in{0, 0};  // of an image
    const Executor* executor = nullptr;
    // Of one image, where a run writes some rows alone:
    index_t first = 0;     // the first of them
    index_t rows = 0;      // how many; 0: all
    index_t in_first = 0;  // the row of the input with which x begins
};
struct PadRow {
    DType dtype;
    void (*run)(const PadCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_MOVE_CALL_HPP
