// SPDX-License-Identifier: MIT
//
// interpolate: resizes channels-last images of codes, nearest or bilinear. Layer: kernels
// (docs/arithmetic.md section 4).
#ifndef INTQ_KERNELS_WINDOW_RESIZE_HPP
#define INTQ_KERNELS_WINDOW_RESIZE_HPP

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

// Arguments of these are locals: a store of bytes may change what is behind a reference.

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

}  // namespace detail

/// y[n][i][j][c] = x at the tapped cell, or the weighted mean of four, by arith::bilinear() or, of TFLite's models,
/// arith::bilinear_of_1024ths(); the scale stays.
///
/// @tparam Code  int8 or int16
/// @pre table made by make_resize_table(); y must not overlap x
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(outputs)
/// Source   docs/arithmetic.md section 4; PyTorch interpolate, in integers
template <class Backend, class Code> void interpolate_codes(const InterpolateCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const ResizeTable table = *call.table;
    const auto height = static_cast<index_t>(table.rows.size()), width = static_cast<index_t>(table.columns.size());
    const index_t channels = call.channels, row_size = table.in.width * channels;
    (*call.executor)(call.batch * height, [&](index_t row) {
        const arith::ResizeTap& vertical = table.rows[static_cast<std::size_t>(row % height)];
        const Code* const image = static_cast<const Code*>(call.x) + row / height * table.in.height * row_size;
        const Code* const upper = image + vertical.first * row_size;
        const Code* const lower = image + vertical.second * row_size;
        Code* const out = static_cast<Code*>(call.y) + row * width * channels;
        if (table.blend == arith::Blend::nearest)
            detail::nearest_line<L>(upper, table.columns, channels, out);
        else if (table.blend == arith::Blend::of_256ths)
            detail::bilinear_line<L, arith::Blend::of_256ths>(upper, lower, table.columns, vertical.weight, channels,
                                                              out);
        else
            detail::bilinear_line<L, arith::Blend::of_1024ths>(upper, lower, table.columns, vertical.weight, channels,
                                                               out);
    });
}

namespace detail {

template <class Backend>
inline constexpr InterpolateRow interpolate_rows[] = {{DType::int8, &interpolate_codes<Backend, std::int8_t>},
                                                      {DType::int16, &interpolate_codes<Backend, std::int16_t>}};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_RESIZE_HPP
