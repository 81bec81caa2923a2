// SPDX-License-Identifier: MIT
//
// interpolate: resizes channels-last images of codes, nearest or bilinear. Layer: kernels
// (docs/arithmetic.md section 4).
#ifndef INTQ_KERNELS_WINDOW_RESIZE_HPP
#define INTQ_KERNELS_WINDOW_RESIZE_HPP

#include <array>

#include "intq/arith/resize.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/window/resize_call.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

template <class L, class Code> void copy_codes(const Code* from, index_t count, Code* to) noexcept {
    constexpr index_t width = L::template packed_width<Code>();
    index_t i = 0;
    for (; i + width <= count; i += width) L::store_packed(to + i, L::load_packed(from + i));
    if (i < count) L::store_packed(to + i, L::load_packed(from + i, count - i), count - i);
}

// Arguments of these are locals: a store of bytes may change the target of a reference.

template <class L, class Code>
void nearest_line(const Code* from, std::span<const arith::ResizeTap> taps, index_t channels, Code* out) noexcept {
    for (const arith::ResizeTap& tap : taps) {
        copy_codes<L>(from + tap.first * channels, channels, out);
        out += channels;
    }
}

template <class L, arith::Blend blend, class Code>
void bilinear_line(const Code* upper, const Code* lower, std::span<const arith::ResizeTap> taps, std::int32_t weight,
                   index_t channels, Code* out) noexcept {
    const auto y = L::set(weight);
    for (const arith::ResizeTap& tap : taps) {
        const index_t left = tap.first * channels, right = tap.second * channels;
        const auto x = L::set(tap.weight);
        store_run<L>(out, channels, [&](index_t c, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            const auto load = [&](const Code* from)
                                  INTQ_ALWAYS_INLINE_LAMBDA { return load_codes<L>(from + c, lanes); };
            const auto upper_left = load(upper + left), upper_right = load(upper + right);
            const auto lower_left = load(lower + left), lower_right = load(lower + right);
            if constexpr (blend == arith::Blend::of_1024ths)
                return arith::bilinear_of_1024ths<L>(upper_left, upper_right, lower_left, lower_right, x, y);
            else
                return arith::bilinear<L>(upper_left, upper_right, lower_left, lower_right, x, y);
        });
        out += channels;
    }
}

template <class L>
void line_of_values(const std::int8_t* upper, const std::int8_t* lower, std::span<const arith::ResizeTap> taps,
                    const arith::ResizeTap row, const arith::ResizeGrids grids, index_t channels,
                    std::int8_t* out) noexcept {
    const arith::BilinearOfValues<L> formula(grids);
    for (const arith::ResizeTap& tap : taps) {
        const index_t left = tap.first * channels, right = tap.second * channels;
        const auto weights = formula.weights(tap, row);
        store_run<L>(out, channels, [&](index_t c, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            const auto load = [&](const std::int8_t* from)
                                  INTQ_ALWAYS_INLINE_LAMBDA { return load_codes<L>(from + c, lanes); };
            return formula.code(load(upper + left), load(upper + right), load(lower + left), load(lower + right),
                                weights);
        });
        out += channels;
    }
}

/// line(upper, lower, tap of the row, y) for each row of the outputs.
template <class Code, class Line> void for_each_resized_row(const InterpolateCall& call, const Line& line) {
    const ResizeTable table = *call.table;
    const index_t rows = call.rows > 0 ? call.rows : static_cast<index_t>(table.rows.size());
    const auto width = static_cast<index_t>(table.columns.size());
    const index_t row_size = table.in.width * call.channels;
    (*call.executor)(call.batch * rows, [&](index_t row) {
        const arith::ResizeTap& vertical = table.rows[static_cast<std::size_t>(call.first + row % rows)];
        const Code* const image =
            static_cast<const Code*>(call.x) + (row / rows * table.in.height - call.in_first) * row_size;
        line(image + vertical.first * row_size, image + vertical.second * row_size, vertical,
             static_cast<Code*>(call.y) + row * width * call.channels);
    });
}

}  // namespace detail

/// y[n][i][j][c] = x at the tapped cell, or the weighted mean of four, by arith::bilinear() or, for TFLite's models,
/// arith::bilinear_of_1024ths(); the scale stays.
///
/// @tparam Code  int8 or int16
/// @pre table made by make_resize_table(), or of TFLite's blend; y must not overlap x
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(outputs)
/// Source   docs/arithmetic.md section 4; PyTorch interpolate, in integers
template <class Backend, class Code> void interpolate_codes(const InterpolateCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const ResizeTable table = *call.table;
    const index_t channels = call.channels;
    detail::for_each_resized_row<Code>(
        call, [&](const Code* upper, const Code* lower, const arith::ResizeTap& vertical, Code* out) {
            if (table.blend == arith::Blend::nearest)
                detail::nearest_line<L>(upper, table.columns, channels, out);
            else if (table.blend == arith::Blend::of_256ths)
                detail::bilinear_line<L, arith::Blend::of_256ths>(upper, lower, table.columns, vertical.weight,
                                                                  channels, out);
            else
                detail::bilinear_line<L, arith::Blend::of_1024ths>(upper, lower, table.columns, vertical.weight,
                                                                   channels, out);
        });
}

/// The same for real numbers, by arith::BilinearOfValues, to the grid of the output.
/// @pre table made by make_resize_table_of_values(); y must not overlap x
template <class Backend> void interpolate_values(const InterpolateCall& call) INTQ_NOEXCEPT {
    const ResizeTable table = *call.table;
    const auto line = [&](const std::int8_t* upper, const std::int8_t* lower, const arith::ResizeTap& vertical,
                          std::int8_t* out) {
        detail::line_of_values<simd::lanes<Backend>>(upper, lower, table.columns, vertical, table.grids, call.channels,
                                                     out);
    };
    detail::for_each_resized_row<std::int8_t>(call, line);
}

namespace detail {

/// Few programs need the row of values, so it is separate.
template <class TargetType, class Backend> constexpr auto interpolate_rows_of() noexcept {
    constexpr InterpolateRow bytes{DType::int8, false, &interpolate_codes<Backend, std::int8_t>},
        words{DType::int16, false, &interpolate_codes<Backend, std::int16_t>};
    if constexpr (TargetType::policy.computes_as_onnx())
        return std::array{bytes, words, InterpolateRow{DType::int8, true, &interpolate_values<Backend>}};
    else
        return std::array{bytes, words};
}
template <class TargetType, class Backend>
inline constexpr auto interpolate_rows = interpolate_rows_of<TargetType, Backend>();

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_RESIZE_HPP
