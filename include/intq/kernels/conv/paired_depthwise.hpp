// SPDX-License-Identifier: MIT
//
// The depthwise skeleton of ISAs without vectors that multiply pairs of int16: one filter a channel, on int8.
// Layer: kernels (docs/design.md section 5).
//
// Two rows of the window are summed together. A word holds four channels of a pixel, so four channels are staged at
// once: each column of the lines that a few output lines read becomes pairs of int16, used by every window over it.
#ifndef INTQ_KERNELS_CONV_PAIRED_DEPTHWISE_HPP
#define INTQ_KERNELS_CONV_PAIRED_DEPTHWISE_HPP

#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/short_codes.hpp"
#include "intq/kernels/staging/paired_lines.hpp"
#include "intq/kernels/staging/tap_places.hpp"
#include "intq/simd/tiles/paired_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// y[p][c] = epilogue(bias[c] + sum over the window of x[tap of p][c] · w[tap][c])
///
/// The types are those of PairedGemm.
///
/// Result   exact: sums wrap, and the packer proved that the true sum fits
/// Memory   conv2d_workspace_size(): the staged lines of four channels, or the places of taps. The calling thread does
/// all work Cost     2 · pixels · channels · taps operations; padding is multiplied like pixels
template <class Backend, class Policy, class Y, class Sumin> struct PairedDepthwise {
    using L = simd::lanes<Backend>;
    using Tile = simd::PairedTile<Backend>;

    static INTQ_NEVER_INLINE void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.is_depthwise && packed.depthwise == Backend::depthwise_int8_packing);
        INTQ_ASSERT(packed.has_sumin == adds);
        const detail::PairedLineLayout layout(packed.window, *call.geometry);
        const bool is_short = has_short && packed.scaled_is_small && layout.slides;
        if constexpr (has_short && !INTQ_SMALL)
            if (is_short) {
                const index_t listed = detail::listed_pixels<Tile>(call, layout.bytes(packed.window));
                if (listed > 0) return run_taps(call, listed);
            }
        run_lines(call, is_short ? short_loop(packed, call.geometry->out.height) : &run_any);
    }

private:
    static constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;
    static constexpr bool has_short = detail::has_short_codes<L, Policy, Y, Sumin>();
    using Lines = detail::PairedLines<Backend>;
    /// What computes `count` output lines, from line `line` of all images on.
    using Loop = void (*)(const ConvCall&, const Lines&, index_t line, index_t count);

    /// Tap by tap, where a few pixels would not pay for lines that are staged.
    static INTQ_NEVER_INLINE void run_taps(const ConvCall& call, index_t listed) noexcept {
        const PackedConv2d& packed = *call.packed;
        detail::run_listed<Tile>(call, static_cast<const std::int8_t*>(packed.padding_row),
                                 reinterpret_cast<std::int32_t*>(call.workspace), listed,
                                 [&](simd::TapWindows& windows) INTQ_ALWAYS_INLINE_LAMBDA {
                                     detail::with_range(packed.codes, [&](auto range) INTQ_ALWAYS_INLINE_LAMBDA {
                                         Tile::template store_taps<L, range.value>(windows);
                                     });
                                 });
    }

    /// All output lines, in one code for all layers. run() chooses the loop: of a generated model, where a layer's
    /// parameters are constants there, no other loop is linked.
    static INTQ_OUT_OF_LINE void run_lines(const ConvCall& call, Loop loop) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const Size2d out = call.geometry->out;
        Lines lines(call);
        const index_t together = lines.layout().lines * lines.layout().served;
        for (index_t image = 0; image < call.geometry->batch; ++image) {
            const auto* const x =
                static_cast<const std::int8_t*>(call.x) + image * call.geometry->in_pixels() * packed.in_channels;
            for (index_t first = 0; first < out.height; first += together) {
                const index_t count = out.height - first < together ? out.height - first : together;
                lines.find(x, first, count);
                loop(call, lines, image * out.height + first, count);
            }
        }
    }

    /// The loop of a layer in the short form of the policy: that of one output line, or that of more.
    static INTQ_ALWAYS_INLINE Loop short_loop(const PackedConv2d& packed, index_t height) noexcept {
        Loop loop = &run_any;
        if constexpr (has_short)
            detail::with_range(packed.codes, [&](auto range) INTQ_ALWAYS_INLINE_LAMBDA {
                const bool moves_by_one = packed.window.stride.width == 1;
                if (INTQ_SMALL || height > 1)
                    loop = moves_by_one ? &run_short<1, range.value> : &run_short<2, range.value>;
                else
                    loop = moves_by_one ? &run_line<1, range.value> : &run_line<2, range.value>;
            });
        return loop;
    }

    /// 3×3 windows that move by Stride, four channels at a time.
    template <int Stride, detail::CodeRange Range>
    static void run_short(const ConvCall& call, const Lines& lines, index_t line, index_t count) noexcept {
        for_each_four(call, lines, line, count, [](const simd::PairedWindows& windows) INTQ_ALWAYS_INLINE_LAMBDA {
            Tile::template store_windows<L, Stride, Range>(windows);
        });
    }
    template <int Stride, detail::CodeRange Range>
    static void run_line(const ConvCall& call, const Lines& lines, index_t line, index_t count) noexcept {
        for_each_four(call, lines, line, count, [](const simd::PairedWindows& windows) INTQ_ALWAYS_INLINE_LAMBDA {
            Tile::template store_line<L, Stride, Range>(windows);
        });
    }
    template <class Store>
    static INTQ_ALWAYS_INLINE void for_each_four(const ConvCall& call, const Lines& lines, index_t line, index_t count,
                                                 Store&& store) noexcept {
        const index_t channels = call.packed->out_channels;
        simd::PairedWindows windows = windows_of(call, lines, line, count);
        for (index_t left = channels; left > 0; left -= detail::paired_channels) {
            lines.stage(channels - left);
            if (left < detail::paired_channels) windows.channels = left;
            store(windows);
            windows.next_channels();
        }
    }
    /// Of the first channels.
    static INTQ_ALWAYS_INLINE simd::PairedWindows windows_of(const ConvCall& call, const Lines& staged, index_t line,
                                                             index_t count) noexcept {
        const PackedConv2d& packed = *call.packed;
        const index_t width = call.geometry->out.width, step = packed.out_channels;
        const index_t pixels =
            staged.layout().served == 1 ? simd::PairedWindows::line_step_pixels : simd::PairedWindows::step_pixels;
        const index_t in_steps = width / pixels * pixels;
        const index_t step_words = in_steps * packed.window.stride.width * staged.layout().column;
        simd::PairedWindows of;
        of.zero_point = packed.codes.zero_point;
        of.step = step;
        of.line = width * step;
        of.lowest = packed.codes.lowest;
        of.highest = packed.codes.highest;
        of.x = staged.words(0);
        of.y = static_cast<std::int8_t*>(call.y) + line * width * step;
        of.w = staged.weights_of(0);
        of.biases = static_cast<const std::int32_t*>(packed.bias);
        of.multipliers = packed.words;
        of.shifts = packed.words + packed.padded_outputs();
        of.channels = detail::paired_channels;
        of.lines = staged.layout().served == 1 ? simd::PairedWindows::one_of_three_rows : count;
        of.next_bytes = (staged.layout().line - step_words) * static_cast<index_t>(sizeof(std::int32_t));
        of.steps = in_steps * step;
        of.odd_step = (width - in_steps) * step;
        return of;
    }

    /// Any window and policy.
    static void run_any(const ConvCall& call, const Lines& lines, index_t line, index_t count) INTQ_NOEXCEPT {
        for (index_t c = 0; c < call.packed->out_channels; c += detail::paired_channels) {
            lines.stage(c);
            run_four(call, lines, c, line, count);
        }
    }
    static INTQ_NEVER_INLINE void run_four(const ConvCall& call, const Lines& staged, index_t c, index_t line,
                                           index_t count) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const index_t width = call.geometry->out.width, left = packed.out_channels - c;
        const Epilogue<L, Policy, Y, Sumin> epilogue(packed);
        for (index_t i = 0; i < (left < detail::paired_channels ? left : detail::paired_channels); ++i) {
            const auto channel = epilogue.channels(c + i);
            const std::int32_t bias = static_cast<const std::int32_t*>(packed.bias)[c + i];
            for (index_t k = 0; k < count; ++k) {
                if (k == 0 || staged.layout().served == 2) staged.write_weights(c + i, k);
                index_t at = (line + k) * width * packed.out_channels + c + i;
                for (index_t p = 0; p < width; ++p, at += packed.out_channels)
                    epilogue.store(staged.sum(i, k, p, bias), channel,
                                   static_cast<const Sumin*>(call.sumin) + (adds ? at : 0),
                                   static_cast<Y*>(call.y) + at, 1);
            }
        }
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_PAIRED_DEPTHWISE_HPP
