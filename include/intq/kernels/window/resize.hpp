// SPDX-License-Identifier: MIT
//
// interpolate: resizes channels-last images of codes, nearest or bilinear. Layer: kernels (ARITHMETIC section 4).
#ifndef INTQ_KERNELS_WINDOW_RESIZE_HPP
#define INTQ_KERNELS_WINDOW_RESIZE_HPP

#include <span>

#include "intq/arith/resize.hpp"
#include "intq/core/op_params.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Which cells each output row and column reads; made once for a shape, on caller's memory.
struct ResizeTable {
    std::span<const arith::ResizeTap> rows;     // (out.height)
    std::span<const arith::ResizeTap> columns;  // (out.width)
    Size2d in{0, 0};
    bool is_nearest = false;
};

/// Taps that make_resize_table() needs.
constexpr index_t resize_table_size(Size2d out) noexcept { return out.height + out.width; }

/// The table of a resize. The scale is always in / out: a model's scale factor that is another has no table.
///
/// @param memory  resize_table_size(out) taps, which outlive the table
/// @return the table; value_out_of_range of input or output where an extent is not in 1 … arith::largest_resized;
///         buffer_too_small of storage, in taps
constexpr Result<ResizeTable> make_resize_table(arith::Resize rule, Size2d in, Size2d out,
                                                std::span<arith::ResizeTap> memory) noexcept {
    constexpr OpKind op = OpKind::none;
    for (const index_t extent : {in.height, in.width})
        if (extent < 1 || extent > arith::largest_resized)
            return Status{StatusCode::value_out_of_range, op, Field::input, extent, 1};
    for (const index_t extent : {out.height, out.width})
        if (extent < 1 || extent > arith::largest_resized)
            return Status{StatusCode::value_out_of_range, op, Field::output, extent, 1};
    if (static_cast<index_t>(memory.size()) < resize_table_size(out))
        return Status{StatusCode::buffer_too_small, op, Field::storage, static_cast<index_t>(memory.size()),
                      resize_table_size(out)};
    const auto height = static_cast<std::size_t>(out.height), width = static_cast<std::size_t>(out.width);
    for (std::size_t y = 0; y < height; ++y)
        memory[y] = arith::resize_tap(rule, static_cast<index_t>(y), in.height, out.height);
    for (std::size_t x = 0; x < width; ++x)
        memory[height + x] = arith::resize_tap(rule, static_cast<index_t>(x), in.width, out.width);
    return ResizeTable{memory.first(height), memory.subspan(height, width), in,
                       rule == arith::Resize::nearest || rule == arith::Resize::nearest_exact};
}

/// One run of interpolate, as a function pointer takes it. x and y are channels last.
struct InterpolateCall {
    const ResizeTable* table = nullptr;
    const void* x = nullptr;
    void* y = nullptr;
    index_t batch = 0;
    index_t channels = 0;
    const Executor* executor = nullptr;
};

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

template <class L, class Code>
void bilinear_line(const Code* upper, const Code* lower, std::span<const arith::ResizeTap> taps, std::int32_t weight,
                   index_t channels, Code* out) noexcept {
    const auto y = L::set(weight);
    for (const arith::ResizeTap& tap : taps) {
        const index_t left = tap.first * channels, right = tap.second * channels;
        const auto x = L::set(tap.weight);
        store_run<L>(out, channels, [&](index_t c, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            const auto load = [&](const Code* from)
                                  INTQ_ALWAYS_INLINE_LAMBDA { return load_codes<L>(from + c, lanes); };
            return arith::bilinear<L>(load(upper + left), load(upper + right), load(lower + left), load(lower + right),
                                      x, y);
        });
        out += channels;
    }
}

}  // namespace detail

/// y[n][i][j][c] = x at the tapped cell, or the weighted mean of four, by arith::bilinear(); the scale stays.
///
/// @tparam Code  int8 or int16
/// @pre table made by make_resize_table(); y must not overlap x
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(outputs)
/// Source   ARITHMETIC.md section 4; PyTorch interpolate, in integers
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
        if (table.is_nearest)
            detail::nearest_line<L>(upper, table.columns, channels, out);
        else
            detail::bilinear_line<L>(upper, lower, table.columns, vertical.weight, channels, out);
    });
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_WINDOW_RESIZE_HPP
