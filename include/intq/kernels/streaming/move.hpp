// SPDX-License-Identifier: MIT
//
// move: codes to other places, as they are: slice, permute, reshape. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_MOVE_HPP
#define INTQ_KERNELS_STREAMING_MOVE_HPP

#include <cstring>

#include "intq/core/executor.hpp"
#include "intq/core/shape.hpp"
#include "intq/core/status.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

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

/// Elements of an output image; 0 where an extent is below 1 or the product beyond 2^40.
constexpr index_t moved_size(const MoveParams& move) noexcept {
    constexpr index_t limit = index_t{1} << 40;
    index_t size = 1;
    for (int axis = 0; axis < move.rank; ++axis) {
        if (move.extents[axis] < 1 || size > limit / move.extents[axis]) return 0;
        size *= move.extents[axis];
    }
    return size;
}

/// Of parameters that may say anything.
///
/// @param in, out  elements of an image of the input and of the output
/// @return ok; corrupt of output (rank, or another number of elements), of input (an element outside of the image)
constexpr Status check_move(const MoveParams& move, index_t in, index_t out, OpKind op) noexcept {
    if (move.rank < 1 || move.rank > max_rank) return {StatusCode::corrupt, op, Field::output, move.rank, max_rank};
    const index_t size = moved_size(move);
    if (size < 1 || size != out) return {StatusCode::corrupt, op, Field::output, size, out};
    if (move.offset < 0 || move.offset >= in) return {StatusCode::corrupt, op, Field::input, move.offset, in};
    index_t lowest = move.offset, highest = move.offset;
    for (int axis = 0; axis < move.rank; ++axis) {
        const index_t last = move.extents[axis] - 1, step = move.steps[axis];
        if (last == 0 || step == 0) continue;
        // A step that leaves the image is found by division: its product with `last` may not be a number of 64 bits.
        if (step <= -in || step >= in || last > in / (step < 0 ? -step : step))
            return {StatusCode::corrupt, op, Field::input, step, in};
        (step < 0 ? lowest : highest) += step * last;
    }
    if (lowest < 0) return {StatusCode::corrupt, op, Field::input, lowest, 0};
    if (highest >= in) return {StatusCode::corrupt, op, Field::input, highest, in};
    return {};
}

/// One run of a move.
struct MoveCall {
    const MoveParams* params = nullptr;
    const void* x = nullptr;
    void* y = nullptr;
    index_t batch = 0;
    index_t in = 0;  // elements of an input image
    const Executor* executor = nullptr;
};

/// @tparam Code  int8 or int16
/// @pre check_move() is ok; y must not overlap x
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(outputs); bound by memory
template <class Code> void move_codes(const MoveCall& call) INTQ_NOEXCEPT {
    const MoveParams& move = *call.params;
    const int last = move.rank - 1;
    const index_t run = move.extents[last], step = move.steps[last], size = moved_size(move), rows = size / run;
    (*call.executor)(call.batch * rows, [&](index_t task) {
        index_t rest = task % rows, from = move.offset;
        for (int axis = last - 1; axis >= 0; --axis) {
            from += rest % move.extents[axis] * move.steps[axis];
            rest /= move.extents[axis];
        }
        const Code* const x = static_cast<const Code*>(call.x) + task / rows * call.in + from;
        Code* const y = static_cast<Code*>(call.y) + task / rows * size + task % rows * run;
        if (step == 1) {
            std::memcpy(y, x, static_cast<std::size_t>(run) * sizeof(Code));
        } else {
            for (index_t i = 0; i < run; ++i) y[i] = x[i * step];
        }
    });
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_MOVE_HPP
