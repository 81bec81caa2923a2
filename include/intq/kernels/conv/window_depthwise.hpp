// SPDX-License-Identifier: MIT
//
// The depthwise skeleton of ISAs that sum sixteen products of bytes in a general register: one filter a channel, on
// int8. Layer: kernels (docs/design.md section 5).
//
// A window of 3×3 is one sum, if its bytes are beside each other. Four rows of sixteen channels are interleaved byte by
// byte, and four columns of that word by word: then sixteen bytes are four rows and columns of one channel, which hold
// the windows of two columns on two lines. Windows that share little with their neighbours are read tap by tap instead.
#ifndef INTQ_KERNELS_CONV_WINDOW_DEPTHWISE_HPP
#define INTQ_KERNELS_CONV_WINDOW_DEPTHWISE_HPP

#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/window_codes.hpp"
#include "intq/kernels/packing/input_form.hpp"
#include "intq/kernels/staging/tap_places.hpp"
#include "intq/simd/tiles/window_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// y[p][c] = epilogue(bias[c] + sum over the window of x[tap of p][c] · w[tap][c])
///
/// The types are those of WindowGemm.
///
/// Result   exact: sums wrap, and the packer proved that the true sum fits
/// Memory   conv2d_workspace_size(): rows and groups of sixteen channels, or the places of taps. The calling thread
/// does all work Cost     2 · pixels · channels · taps operations; padding is multiplied like pixels
template <class Backend, class Policy, class Y, class Sumin> struct WindowDepthwise {
    using L = simd::lanes<Backend>;
    using Tile = simd::WindowTile<Backend>;

    static INTQ_NEVER_INLINE void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.is_depthwise && packed.depthwise == Backend::depthwise_int8_packing);
        INTQ_ASSERT(packed.has_sumin == adds);
        const Layout layout(packed.window, *call.geometry);
        if (!layout.slides) return run_any(call);
        if constexpr (INTQ_SMALL) {
            run_windows<0>(call, layout);
        } else {
            if constexpr (has_short) {
                const index_t listed = detail::listed_pixels<Tile>(call, layout.bytes() - packed.out_channels);
                if (listed > 0) return run_taps(call, listed);
            }
            if (packed.window.stride.width == 1)
                run_windows<1>(call, layout);
            else
                run_windows<2>(call, layout);
        }
    }

private:
    static constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;
    static constexpr bool has_short = detail::has_window_codes<Policy, std::int8_t, Y, Sumin>();
    using Layout = detail::DepthwiseWindowLayout;
    static_assert(Layout::column_bytes == simd::column_bytes && Layout::group_bytes == simd::group_bytes);

    /// Tap by tap, with a pixel of padding in front of the list.
    static INTQ_NEVER_INLINE void run_taps(const ConvCall& call, index_t listed) noexcept {
        const PackedConv2d& packed = *call.packed;
        auto* const padding = reinterpret_cast<std::int8_t*>(call.workspace);
        for (index_t c = 0; c < packed.out_channels; c += Tile::tap_channels)
            Tile::copy_cells(static_cast<const std::int8_t*>(packed.padding_row), padding + c, 1, 0, 0,
                             Tile::tap_channels);
        auto* const places = reinterpret_cast<std::int32_t*>(call.workspace + packed.out_channels);
        detail::run_listed<Tile>(
            call, padding, places, listed, [&](simd::TapWindows& windows) INTQ_ALWAYS_INLINE_LAMBDA {
                detail::with_saturation(detail::saturation_of(packed.codes), [&](auto range) INTQ_ALWAYS_INLINE_LAMBDA {
                    Tile::template store_taps<range.value>(windows);
                });
            });
    }

    // The stride is a constant where code need not be small, otherwise 0.

    /// Some sets of rows and columns of an image, of up to sixteen channels.
    struct Block {
        index_t image, line, sets;      // the first output line
        index_t first, pixels, groups;  // columns of the output, and groups of a set
        index_t c, channels;
        index_t before, inside;  // columns of a set: of the left margin, and of the image
    };

    template <int Stride>
    static INTQ_NEVER_INLINE void run_windows(const ConvCall& call, const Layout& layout) INTQ_NOEXCEPT {
        const Size2d out = call.geometry->out;
        const index_t all = call.packed->out_channels, wide = 2 * layout.groups, high = layout.sets * layout.served;
        Block block{};
        for (block.image = 0; block.image < call.geometry->batch; ++block.image)
            for (block.first = 0; block.first < out.width; block.first += wide) {
                block.pixels = smaller(wide, out.width - block.first);
                block.groups = (block.pixels + 1) / 2;
                stage_margins<Stride>(call, block);
                for (block.line = 0; block.line < out.height; block.line += high) {
                    block.sets = (smaller(high, out.height - block.line) + layout.served - 1) / layout.served;
                    for (block.c = 0; block.c < all; block.c += Layout::channels) {
                        block.channels = smaller(Layout::channels, all - block.c);
                        run_block<Stride>(call, layout, block);
                    }
                }
            }
    }

    template <int Stride>
    static INTQ_NEVER_INLINE void run_block(const ConvCall& call, const Layout& layout,
                                            const Block& block) INTQ_NOEXCEPT {
        const index_t stride = Stride > 0 ? Stride : call.packed->window.stride.width;
        const PackedConv2d& packed = *call.packed;
        auto* const groups = reinterpret_cast<std::int8_t*>(call.workspace) + layout.columns * Layout::column_bytes;
        const auto channels = static_cast<std::int32_t>(block.channels);
        const index_t pitch = block.groups + (layout.pitch - layout.groups);
        stage<Stride>(call, block, pitch, groups);
        const auto* const w = static_cast<const std::int8_t*>(packed.weights) + block.c * packed.depthwise_weights();
        const index_t count = block.sets * pitch - (stride == 1 ? 0 : 1);
        const simd::DepthwiseSums of{groups, w, static_cast<std::int32_t>(count), channels};
        if (stride == 1)
            Tile::template add_groups<1>(of);
        else
            Tile::template add_groups<2>(of);
        const auto* const sums = reinterpret_cast<const std::int32_t*>(groups);
        index_t done = 0;
        if constexpr (has_short)
            if (packed.scaled_is_small && block.channels >= 4) {
                done = block.channels / 4 * 4;
                store_short<Stride>(call, block, pitch, sums);
            }
        for (; done < block.channels; ++done) store_channel<Stride>(call, block, pitch, done, sums);
    }

    /// The columns beside the image, which no channel and no line changes.
    template <int Stride> static void stage_margins(const ConvCall& call, Block& block) noexcept {
        const index_t stride = Stride > 0 ? Stride : call.packed->window.stride.width;
        const index_t left = block.first * stride - call.packed->window.padding.left;
        const index_t columns = stride == 1 ? 2 * block.groups + 2 : 4 * block.groups + 1;
        const index_t room = call.geometry->in.width - left;
        block.before = left < 0 ? smaller(-left, columns) : 0;
        block.inside = (room < block.before ? block.before : smaller(room, columns)) - block.before;
        auto* const to = reinterpret_cast<std::int8_t*>(call.workspace);
        const auto* const padding = static_cast<const std::int8_t*>(call.packed->padding_row);
        const auto fill = [&](index_t first, index_t count) {
            if (count > 0)
                Tile::stage_rows({{padding, padding, padding, padding},
                                  {},
                                  to + first * Layout::column_bytes,
                                  static_cast<std::int32_t>(count),
                                  Layout::channels});
        };
        fill(0, block.before);
        fill(block.before + block.inside, columns - block.before - block.inside);
    }

    /// The groups of each set, by way of its columns.
    template <int Stride>
    static INTQ_ALWAYS_INLINE void stage(const ConvCall& call, const Block& block, index_t pitch,
                                         std::int8_t* groups) noexcept {
        const index_t stride = Stride > 0 ? Stride : call.packed->window.stride.width;
        const PackedConv2d& packed = *call.packed;
        const Size2d in = call.geometry->in;
        auto* const columns = reinterpret_cast<std::int8_t*>(call.workspace);
        const auto step = static_cast<std::int32_t>(packed.in_channels);
        const index_t row = in.width * step, served = stride == 1 ? 2 : 1;
        const auto channels = static_cast<std::int32_t>(block.channels);
        index_t top = block.line * stride - detail::padding_above(packed.window, *call.geometry);
        const index_t left = block.first * stride - packed.window.padding.left + block.before;
        const auto* x = static_cast<const std::int8_t*>(call.x) +
                        ((block.image * in.height + top) * in.width + left) * step + block.c;
        simd::DepthwiseRows rows{
            {}, {}, columns + block.before * Layout::column_bytes, static_cast<std::int32_t>(block.inside), channels};
        simd::DepthwiseGroups of{columns, groups, static_cast<std::int32_t>(pitch), (channels + 3) / 4,
                                 (stride == 1 ? 2 : 4) * static_cast<std::int32_t>(Layout::column_bytes)};
        for (index_t set = 0; set < block.sets; ++set, top += served * stride, x += served * stride * row) {
            for (index_t i = 0; i < 4; ++i) {
                const bool is_inside = top + i >= 0 && top + i < in.height;
                rows.from[i] = is_inside ? x + i * row : static_cast<const std::int8_t*>(packed.padding_row);
                rows.step[i] = is_inside ? step : 0;
            }
            if (block.inside > 0) Tile::stage_rows(rows);
            Tile::stage_groups(of);
            of.to += pitch * Layout::group_bytes;
        }
    }

    /// Element of the output, of the block's first channel, of a line of the image.
    static INTQ_ALWAYS_INLINE index_t place(const ConvCall& call, const Block& block, index_t line) noexcept {
        const Size2d out = call.geometry->out;
        const index_t at = (block.image * out.height + line) * out.width + block.first;
        return at * call.packed->out_channels + block.c;
    }

    /// The codes of whole quads of channels, group by group from the last one back. A second column behind the line is
    /// the first one of the next line, which is written later; where none follows, the last group is written by itself,
    /// and its second column, or its second line, before the first and to the same place. Small code has one loop: with
    /// a stride of 2 what is no sum of a group is written where its two sums are written later.
    template <int Stride>
    static INTQ_NEVER_INLINE void store_short(const ConvCall& call, const Block& block, index_t pitch,
                                              const std::int32_t* sums) noexcept {
        const index_t stride = Stride > 0 ? Stride : call.packed->window.stride.width;
        const index_t served = stride == 1 ? 2 : 1;
        const PackedConv2d& packed = *call.packed;
        const Size2d out = call.geometry->out;
        const index_t step = packed.out_channels;
        const simd::Saturation range = detail::saturation_of(packed.codes);
        simd::DepthwiseCodes codes;  // without what is set for each set of rows: zeros would be a call of memset
        codes.bias = static_cast<const std::int32_t*>(packed.bias) + block.c;
        codes.multiplier = packed.words + block.c;
        codes.shift = packed.words + packed.padded_outputs() + block.c;
        codes.step = static_cast<std::int32_t>(-2 * step);
        codes.zero_point = packed.codes.zero_point;
        codes.lowest = packed.codes.lowest;
        codes.highest = packed.codes.highest;
        codes.quads = static_cast<std::int32_t>(block.channels / 4);
        for (index_t set = 0; set < block.sets; ++set, sums += pitch * (Layout::group_bytes / 4)) {
            const index_t line = block.line + set * served;
            const index_t next = stride == 1 && line + 1 < out.height ? out.width * step : 0;
            const bool follows = block.pixels == out.width && line + served < out.height;
            auto* y = static_cast<std::int8_t*>(call.y) + place(call, block, line) + 2 * (block.groups - 1) * step;
            const auto store = [&](index_t groups, index_t beside) {
                const index_t across = stride == 1 ? next : beside, along = stride == 1 ? beside : 0;
                codes.groups = static_cast<std::int32_t>(groups);
                for (int i = 0; i < 4; ++i) codes.y[i] = y + i / 2 * along + i % 2 * across;
                detail::with_saturation(range, [&](auto fixed) INTQ_ALWAYS_INLINE_LAMBDA {
                    if (INTQ_SMALL || stride == 1)
                        Tile::template store_group_codes<fixed.value, 1>(codes);
                    else
                        Tile::template store_group_codes<fixed.value, 2>(codes);
                });
            };
            codes.sums = sums + (block.groups - 1) * (Layout::group_bytes / 4);
            if (block.pixels % 2 == 0 || follows) {
                store(block.groups, step);
                continue;
            }
            store(1, 0);
            codes.sums -= Layout::group_bytes / 4;
            y -= 2 * step;
            if (block.groups > 1) store(block.groups - 1, step);
        }
    }

    /// The codes of the i-th channel of the block, by any policy.
    template <int Stride>
    static INTQ_NEVER_INLINE void store_channel(const ConvCall& call, const Block& block, index_t pitch, index_t i,
                                                const std::int32_t* sums) INTQ_NOEXCEPT {
        const index_t stride = Stride > 0 ? Stride : call.packed->window.stride.width;
        const index_t served = stride == 1 ? 2 : 1;
        const PackedConv2d& packed = *call.packed;
        const Epilogue<L, Policy, Y, Sumin> epilogue(packed);
        const auto channel = epilogue.channels(block.c + i);
        const std::int32_t bias = static_cast<const std::int32_t*>(packed.bias)[block.c + i];
        for (index_t k = 0; k < block.sets * served && block.line + k < call.geometry->out.height; ++k)
            for (index_t p = 0; p < block.pixels; ++p) {
                const index_t to = place(call, block, block.line + k) + p * packed.out_channels + i;
                const index_t group = (k / served * pitch + p / 2) * (Layout::group_bytes / 4) + 4 * i;
                const index_t from = group + (stride == 1 ? p % 2 * 2 + k % 2 : p % 2);
                epilogue.store(detail::add_bias(bias, sums[from]), channel,
                               static_cast<const Sumin*>(call.sumin) + (adds ? to : 0), static_cast<Y*>(call.y) + to,
                               1);
            }
    }

    static INTQ_ALWAYS_INLINE constexpr index_t smaller(index_t a, index_t b) noexcept { return a < b ? a : b; }

    /// Any window: tap by tap.
    static INTQ_NEVER_INLINE void run_any(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const Size2d out = call.geometry->out;
        const Epilogue<L, Policy, Y, Sumin> epilogue(packed);
        index_t to = 0;
        for (index_t pixel = 0; pixel < call.geometry->batch * call.geometry->out_pixels(); ++pixel) {
            const index_t line = pixel / out.width, column = pixel - line * out.width;
            const index_t image = line / out.height, row = line - image * out.height;
            for (index_t c = 0; c < packed.out_channels; ++c, ++to)
                epilogue.store(sum_of(call, image, row, column, c), epilogue.channels(c),
                               static_cast<const Sumin*>(call.sumin) + (adds ? to : 0), static_cast<Y*>(call.y) + to,
                               1);
        }
    }
    static std::int32_t sum_of(const ConvCall& call, index_t image, index_t row, index_t column, index_t c) noexcept {
        const PackedConv2d& packed = *call.packed;
        const Window2d& window = packed.window;
        const index_t above = detail::padding_above(window, *call.geometry);
        const Size2d in = call.geometry->in;
        const auto* const weights = static_cast<const std::int8_t*>(packed.weights) + c * packed.depthwise_weights();
        std::int32_t sum = static_cast<const std::int32_t*>(packed.bias)[c];
        for (index_t ky = 0; ky < window.kernel.height; ++ky) {
            const index_t y = row * window.stride.height - above + ky * window.dilation.height;
            for (index_t kx = 0; kx < window.kernel.width; ++kx) {
                const index_t x = column * window.stride.width - window.padding.left + kx * window.dilation.width;
                const bool is_inside = y >= 0 && y < in.height && x >= 0 && x < in.width;
                const index_t at = ((image * in.height + y) * in.width + x) * packed.in_channels + c;
                const std::int32_t code =
                    is_inside ? static_cast<const std::int8_t*>(call.x)[at] : packed.input_zero_point;
                sum = detail::add_bias(sum, code * weights[kx * window.kernel.height + ky]);
            }
        }
        return sum;
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_WINDOW_DEPTHWISE_HPP
