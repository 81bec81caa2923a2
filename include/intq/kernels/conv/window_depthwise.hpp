// SPDX-License-Identifier: MIT
//
// The depthwise skeleton of ISAs that sum sixteen products of bytes in a general register: one filter a channel, on
// int8. Layer: kernels (docs/design.md section 5).
//
// A window of 3×3 is one sum, if its bytes are beside each other. Four rows of sixteen channels are interleaved byte by
// byte, and four columns of that word by word: then sixteen bytes are four rows and columns of one channel, which hold
// the windows of two columns on two lines.
#ifndef INTQ_KERNELS_CONV_WINDOW_DEPTHWISE_HPP
#define INTQ_KERNELS_CONV_WINDOW_DEPTHWISE_HPP

#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/window_codes.hpp"
#include "intq/kernels/packing/input_form.hpp"
#include "intq/simd/tiles/window_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// y[p][c] = epilogue(bias[c] + sum over the window of x[tap of p][c] · w[tap][c])
///
/// The types are those of WindowGemm.
///
/// Result   exact: sums wrap, and the packer proved that the true sum fits
/// Memory   conv2d_workspace_size(): rows and groups of sixteen channels. The calling thread does all work
/// Cost     2 · pixels · channels · taps operations; padding is multiplied like pixels
template <class Backend, class Policy, class Y, class Sumin> struct WindowDepthwise {
    using L = simd::lanes<Backend>;
    using Tile = simd::WindowTile<Backend>;

    static INTQ_NEVER_INLINE void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.is_depthwise && packed.depthwise == Backend::depthwise_int8_packing);
        INTQ_ASSERT(packed.has_sumin == adds);
        const detail::DepthwiseWindowLayout layout(packed.window);
        if (!layout.slides) return run_any(call);
        if (packed.window.stride.width == 1)
            run_windows<1>(call);
        else
            run_windows<2>(call);
    }

private:
    static constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;
    static constexpr bool has_short = detail::has_window_codes<Policy, Y, Sumin>();
    using Layout = detail::DepthwiseWindowLayout;

    /// Some groups of a line, or of two with a stride of 1, of up to sixteen channels.
    struct Block {
        index_t image, line, lines;
        index_t first, pixels;  // columns of the output
        index_t c, channels;
        index_t groups;
    };

    template <int Stride> static INTQ_NEVER_INLINE void run_windows(const ConvCall& call) INTQ_NOEXCEPT {
        constexpr index_t served = Stride == 1 ? 2 : 1, wide = Layout::groups * served;
        const Size2d out = call.geometry->out;
        const index_t all = call.packed->out_channels;
        Block block{};
        for (block.image = 0; block.image < call.geometry->batch; ++block.image)
            for (block.line = 0; block.line < out.height; block.line += served) {
                block.lines = out.height - block.line < served ? out.height - block.line : served;
                for (block.first = 0; block.first < out.width; block.first += wide) {
                    block.pixels = out.width - block.first < wide ? out.width - block.first : wide;
                    block.groups = (block.pixels + served - 1) / served;
                    for (block.c = 0; block.c < all; block.c += Layout::channels) {
                        block.channels = all - block.c < Layout::channels ? all - block.c : Layout::channels;
                        run_block<Stride>(call, block);
                    }
                }
            }
    }

    template <int Stride>
    static INTQ_NEVER_INLINE void run_block(const ConvCall& call, const Block& block) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        auto* const rows = reinterpret_cast<std::int8_t*>(call.workspace);
        auto* const groups = rows + Layout::row_bytes;
        auto* const sums = reinterpret_cast<std::int32_t*>(Stride == 1 ? groups : rows);
        stage<Stride>(call, block, rows);
        const auto count = static_cast<std::int32_t>(block.groups);
        const auto channels = static_cast<std::int32_t>(block.channels);
        Tile::stage_groups({rows, groups, count, (channels + 3) / 4});
        const auto* const weights =
            static_cast<const std::int8_t*>(packed.weights) + block.c * packed.depthwise_weights();
        Tile::template add_groups<Stride>({groups, weights, sums, count, channels});
        index_t done = 0;
        if constexpr (has_short)
            if (packed.scaled_is_small) {
                done = block.channels / 4 * 4;
                detail::with_saturation(detail::saturation_of(packed.codes), [&](auto range) INTQ_ALWAYS_INLINE_LAMBDA {
                    for (index_t i = 0; i < done; i += 4) store_short<Stride, range.value>(call, block, i, sums);
                });
            }
        for (; done < block.channels; ++done) store_channel<Stride>(call, block, done, sums);
    }

    /// The rows of the block's windows: columns of the image, and margins as the zero point.
    template <int Stride> static void stage(const ConvCall& call, const Block& block, std::int8_t* to) noexcept {
        const PackedConv2d& packed = *call.packed;
        const Size2d in = call.geometry->in;
        const index_t top = block.line * Stride - packed.window.padding.top;
        const index_t left = block.first * Stride - packed.window.padding.left, columns = 2 * block.groups + 2;
        const index_t before = left < 0 ? (-left < columns ? -left : columns) : 0;
        const index_t room = in.width - left;
        const index_t end = room < columns ? (room > before ? room : before) : columns;
        const auto channels = static_cast<std::int32_t>(block.channels);
        const auto* const padding = static_cast<const std::int8_t*>(packed.padding_row);
        simd::DepthwiseRows margin{
            {padding, padding, padding, padding}, {}, to, static_cast<std::int32_t>(before), channels};
        simd::DepthwiseRows inside{{}, {}, to + before * 64, static_cast<std::int32_t>(end - before), channels};
        if (before > 0) Tile::stage_rows(margin);
        margin.to = to + end * 64;
        margin.columns = static_cast<std::int32_t>(columns - end);
        if (columns > end) Tile::stage_rows(margin);
        if (end == before) return;
        const auto* const x = static_cast<const std::int8_t*>(call.x) + block.c;
        for (index_t i = 0; i < 4; ++i) {
            const index_t y = top + i;
            const bool is_inside = y >= 0 && y < in.height;
            const index_t pixel = (block.image * in.height + y) * in.width + left + before;
            inside.from[i] = is_inside ? x + pixel * packed.in_channels : padding;
            inside.step[i] = is_inside ? static_cast<std::int32_t>(packed.in_channels) : 0;
        }
        Tile::stage_rows(inside);
    }

    /// Element of the output, of channel c, `line` lines and `column` columns into the block.
    static INTQ_ALWAYS_INLINE index_t place(const ConvCall& call, const Block& block, index_t line, index_t column,
                                            index_t c) noexcept {
        const Size2d out = call.geometry->out;
        const index_t at = (block.image * out.height + block.line + line) * out.width + block.first + column;
        return at * call.packed->out_channels + block.c + c;
    }

    /// The codes of four channels from the i-th of the block on. Where a group's second line or column is outside, its
    /// codes are written where those of the first follow.
    template <int Stride, simd::Saturation Range>
    static INTQ_NEVER_INLINE void store_short(const ConvCall& call, const Block& block, index_t i,
                                              const std::int32_t* sums) noexcept {
        const PackedConv2d& packed = *call.packed;
        const index_t at = block.c + i, step = packed.out_channels;
        auto* const y = static_cast<std::int8_t*>(call.y) + place(call, block, 0, 0, i);
        simd::DepthwiseCodes codes{};
        codes.bias = static_cast<const std::int32_t*>(packed.bias) + at;
        codes.multiplier = packed.words + at;
        codes.shift = packed.words + packed.padded_outputs() + at;
        codes.sums = sums + (Stride == 1 ? 4 * i : i);
        codes.zero_point = packed.codes.zero_point;
        codes.lowest = packed.codes.lowest;
        codes.highest = packed.codes.highest;
        const index_t line = block.lines > 1 ? call.geometry->out.width * step : 0;
        for (index_t k = 0; k < 4; ++k) codes.y[k] = y + k / 2 * step + k % 2 * line;
        codes.groups = static_cast<std::int32_t>(Stride == 1 ? block.pixels / 2 : block.pixels);
        codes.step = static_cast<std::int32_t>((Stride == 1 ? 2 : 1) * step);
        if (codes.groups > 0) Tile::template store_group_codes<Range, Stride>(codes);
        if (Stride == 1 && block.pixels % 2 == 1) {
            codes.sums += 64 * codes.groups;
            for (index_t k = 0; k < 4; ++k) codes.y[k] = y + (block.pixels - 1) * step + k % 2 * line;
            codes.groups = 1;
            Tile::template store_group_codes<Range, Stride>(codes);
        }
    }

    /// The codes of the i-th channel of the block, by any policy.
    template <int Stride>
    static INTQ_NEVER_INLINE void store_channel(const ConvCall& call, const Block& block, index_t i,
                                                const std::int32_t* sums) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const Epilogue<L, Policy, Y, Sumin> epilogue(packed);
        const auto channel = epilogue.channels(block.c + i);
        const std::int32_t bias = static_cast<const std::int32_t*>(packed.bias)[block.c + i];
        for (index_t line = 0; line < block.lines; ++line)
            for (index_t p = 0; p < block.pixels; ++p) {
                const index_t to = place(call, block, line, p, i);
                const index_t from = Stride == 1 ? (p / 2 * 16 + i) * 4 + p % 2 * 2 + line : p * 16 + i;
                epilogue.store(detail::add_bias(bias, sums[from]), channel,
                               static_cast<const Sumin*>(call.sumin) + (adds ? to : 0), static_cast<Y*>(call.y) + to,
                               1);
            }
    }

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
        const Size2d in = call.geometry->in;
        const index_t rows = round_up(window.kernel.height, packed.depthwise.depth);
        const auto* const weights = static_cast<const std::int8_t*>(packed.weights) + c * packed.depthwise_weights();
        std::int32_t sum = static_cast<const std::int32_t*>(packed.bias)[c];
        for (index_t ky = 0; ky < window.kernel.height; ++ky) {
            const index_t y = row * window.stride.height - window.padding.top + ky * window.dilation.height;
            for (index_t kx = 0; kx < window.kernel.width; ++kx) {
                const index_t x = column * window.stride.width - window.padding.left + kx * window.dilation.width;
                const bool is_inside = y >= 0 && y < in.height && x >= 0 && x < in.width;
                const index_t at = ((image * in.height + y) * in.width + x) * packed.in_channels + c;
                const std::int32_t code =
                    is_inside ? static_cast<const std::int8_t*>(call.x)[at] : packed.input_zero_point;
                sum = detail::add_bias(sum, code * weights[kx * rows + ky]);
            }
        }
        return sum;
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_WINDOW_DEPTHWISE_HPP
