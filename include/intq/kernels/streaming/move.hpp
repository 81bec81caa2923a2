// SPDX-License-Identifier: MIT
//
// move: codes to other places, as they are: slice, permute, reshape. pad: channels-last images of codes on a larger
// field, their pixels next to each other or apart. Layer: kernels.
//
// A transposed convolution convolves an image with its pixels apart: stride - 1 zeros between them.
#ifndef INTQ_KERNELS_STREAMING_MOVE_HPP
#define INTQ_KERNELS_STREAMING_MOVE_HPP

#include <cstring>

#include "intq/kernels/streaming/move_call.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// y = x at the places that the parameters name; see MoveParams.
///
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

/// y[n][i][j] = x[n][(i - top) / step][(j - left) / step] where that is a pixel, else fill.
///
/// @tparam Code  int8 or int16
/// @pre check_pad() is ok; y must not overlap x
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(outputs); bound by memory
template <class Code> void pad_codes(const PadCall& call) INTQ_NOEXCEPT {
    const PadParams& pad = *call.params;
    const Size2d out = padded_size(pad, call.in);
    const index_t pixel = call.channels, row_size = out.width * pixel;
    const auto fill = static_cast<Code>(pad.fill);
    const index_t rows = call.rows > 0 ? call.rows : out.height;
    (*call.executor)(call.batch * rows, [&](index_t row) {
        Code* const to = static_cast<Code*>(call.y) + row * row_size;
        for (index_t k = 0; k < row_size; ++k) to[k] = fill;
        const index_t at = call.first + row % rows - pad.padding.top, i = at / pad.step.height;
        if (at < 0 || at % pad.step.height != 0 || i >= call.in.height) return;
        const index_t in_row = row / rows * call.in.height + i - call.in_first;
        const Code* const from = static_cast<const Code*>(call.x) + in_row * call.in.width * pixel;
        for (index_t j = 0; j < call.in.width; ++j) {
            const index_t column = j * pad.step.width + pad.padding.left;
            if (column >= 0 && column < out.width)
                std::memcpy(to + column * pixel, from + j * pixel, static_cast<std::size_t>(pixel) * sizeof(Code));
        }
    });
}

namespace detail {

// The same code for every backend: rows move memory and compute nothing.
template <class Backend>
inline constexpr MoveRow move_rows[] = {{DType::int8, &move_codes<std::int8_t>},
                                        {DType::int16, &move_codes<std::int16_t>},
                                        {DType::int32, &move_codes<std::int32_t>}};  // indices
template <class Backend>
inline constexpr PadRow pad_rows[] = {{DType::int8, &pad_codes<std::int8_t>}, {DType::int16, &pad_codes<std::int16_t>}};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_MOVE_HPP
