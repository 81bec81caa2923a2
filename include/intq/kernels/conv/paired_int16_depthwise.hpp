// SPDX-License-Identifier: MIT
//
// The depthwise skeleton of ISAs without vectors that multiply pairs of int16, on int16 in the tflite family.
// Layer: kernels (docs/design.md section 5).
//
// Two rows of the window are summed together. A word holds two channels of a pixel, so two channels are staged at once:
// each column of the lines that a few output lines read becomes pairs of rows.
#ifndef INTQ_KERNELS_CONV_PAIRED_INT16_DEPTHWISE_HPP
#define INTQ_KERNELS_CONV_PAIRED_INT16_DEPTHWISE_HPP

#include <cstdint>

#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/high_product_codes.hpp"
#include "intq/kernels/packing/conv_call.hpp"
#include "intq/kernels/packing/int16_line_layout.hpp"
#include "intq/simd/tiles/paired_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// A row of the image at the staged channels, or one of padding: a word that every pixel shares.
struct Int16Row {
    const std::int16_t* from;
    index_t stride;
};

/// The pairs of two rows of two channels. Out of line, as the loop below, because both need most registers.
template <class Backend>
INTQ_OUT_OF_LINE void stage_pair(Int16Row a, Int16Row b, const Int16LineLayout& at, std::int32_t* to) noexcept {
    using Tile = simd::PairedTile<Backend>;
    const index_t groups = at.groups, channel = at.columns * groups;
    for (std::int32_t* const end = to + at.inside * groups; to != end; to += groups) {
        Tile::pair_two(Tile::two_codes(a.from), Tile::two_codes(b.from), to, channel);
        a.from += a.stride;
        b.from += b.stride;
    }
}

/// The two words of three rows of two channels. What the second word has in its upper half meets a weight of zero.
template <class Backend>
INTQ_OUT_OF_LINE void stage_three(Int16Row a, Int16Row b, Int16Row c, const Int16LineLayout& at,
                                  std::int32_t* to) noexcept {
    using Tile = simd::PairedTile<Backend>;
    const index_t channel = at.columns * 2;
    for (std::int32_t* const end = to + at.inside * 2; to != end; to += 2) {
        const std::int32_t last = Tile::two_codes(c.from);
        Tile::pair_two(Tile::two_codes(a.from), Tile::two_codes(b.from), to, channel);
        to[1] = last;
        to[channel + 1] = last >> 16;
        a.from += a.stride;
        b.from += b.stride;
        c.from += c.stride;
    }
}

/// Output lines of one channel: their staged words, their codes, and the steps of both.
struct Int16Lines {
    const std::int32_t* x;
    std::int16_t* y;
    index_t x_step, y_step;  // from a pixel to the next
    index_t width, to_next;  // pixels of a line, and words from their end to the next line
    index_t count;
};

/// Windows of three columns of three rows beside each other, in sums of 32 bits.
template <class Backend, class Codes>
INTQ_OUT_OF_LINE void store_3x3(const Int16Lines& of, const std::int32_t* w, std::int32_t bias,
                                const Codes& given) noexcept {
    using Tile = simd::PairedTile<Backend>;
    const Codes codes = given;
    const std::int32_t w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3], w4 = w[4], w5 = w[5];
    const std::int32_t* x = of.x;
    std::int16_t* y = of.y;
    const index_t x_step = of.x_step, y_step = of.y_step;
    for (index_t count = of.count; count > 0; --count, x += of.to_next)
        for (const std::int32_t* const end = x + of.width * x_step; x != end; x += x_step, y += y_step) {
            std::int32_t sum = Tile::add(Tile::add(bias, x[0], w0), x[1], w1);
            sum = Tile::add(Tile::add(sum, x[2], w2), x[3], w3);
            *y = codes.code(Tile::add(Tile::add(sum, x[4], w4), x[5], w5));
        }
}

/// The windows of some output lines, as columns of pairs.
///
///     word(line, channel, column, g) = {x[row 2g of the line's window][column][channel], x[row 2g + 1][…]}
///
/// Padding is zero, as the zero point of int16 is. Behind a last row without a partner are zeros too. Margins are
/// written once, because no channel changes them.
template <class Backend> class PairedInt16Lines {
    using Tile = simd::PairedTile<Backend>;

public:
    explicit PairedInt16Lines(const ConvCall& call) noexcept
        : packed_(*call.packed),
          geometry_(*call.geometry),
          at_(packed_.window, geometry_),
          words_(reinterpret_cast<std::int32_t*>(call.workspace)) {
        for (index_t i = 0; i < at_.words; ++i) words_[i] = 0;
    }

    const Int16LineLayout& layout() const noexcept { return at_; }
    INTQ_ALWAYS_INLINE const std::int32_t* words(index_t channel) const noexcept {
        return words_ + channel * at_.columns * at_.groups;
    }
    INTQ_ALWAYS_INLINE const std::int32_t* weights() const noexcept { return words_ + at_.words; }

    /// Stages an image's windows of the `count` output lines from `first` on.
    ///
    /// @param x  the image at channel c
    void stage(const std::int16_t* x, index_t first, index_t count, index_t c) const noexcept {
        const Window2d& window = packed_.window;
        index_t top = first * window.stride.height - padding_above(window, geometry_);
        std::int32_t* to = words_ + at_.before * at_.groups;
        const bool are_three = !INTQ_SMALL && window.kernel.height == 3 && packed_.in_channels - c >= int16_channels;
        for (; count > 0; --count, top += window.stride.height, to += at_.line) {
            if (are_three) {
                const index_t next = window.dilation.height;
                stage_three<Backend>(row(x, top), row(x, top + next), row(x, top + 2 * next), at_, to);
                continue;
            }
            for (index_t g = 0; g < at_.groups; ++g) {
                const Row upper = row(x, top + 2 * g * window.dilation.height);
                const bool has_lower = 2 * g + 1 < window.kernel.height;
                const Row lower = has_lower ? row(x, top + (2 * g + 1) * window.dilation.height) : padding();
                if (packed_.in_channels - c >= int16_channels)
                    stage_pair<Backend>(upper, lower, at_, to + g);
                else
                    stage_last(upper, lower, to + g);
            }
        }
    }

    /// Writes the weights of a channel as pairs of rows, column by column.
    void write_weights(index_t c) const noexcept {
        const Size2d kernel = packed_.window.kernel;
        const auto* w = static_cast<const std::int8_t*>(packed_.weights) + c * packed_.taps();
        std::int32_t* to = words_ + at_.words;
        for (index_t kx = 0; kx < kernel.width; ++kx, w += kernel.height)
            for (index_t ky = 0; ky < kernel.height; ky += 2)
                *to++ = Tile::two_codes(w[ky], ky + 1 < kernel.height ? w[ky + 1] : 0);
    }

    /// bias + the products of window p of line k of those staged.
    ///
    /// @pre  the weights are the channel's
    template <class Sum> Sum sum(index_t channel, index_t k, index_t p, Sum bias) const noexcept {
        const Window2d& window = packed_.window;
        const std::int32_t* x = words(channel) + k * at_.line + p * window.stride.width * at_.groups;
        const std::int32_t* w = weights();
        for (index_t kx = 0; kx < window.kernel.width; ++kx, x += window.dilation.width * at_.groups)
            for (index_t g = 0; g < at_.groups; ++g) bias = Tile::add(bias, x[g], *w++);
        return bias;
    }

private:
    using Row = Int16Row;

    INTQ_ALWAYS_INLINE Row padding() const noexcept {
        return {static_cast<const std::int16_t*>(packed_.padding_row), 0};
    }
    INTQ_ALWAYS_INLINE Row row(const std::int16_t* x, index_t y) const noexcept {
        if (y < 0 || y >= geometry_.in.height) return padding();
        return {x + y * geometry_.in.width * packed_.in_channels, packed_.in_channels};
    }
    /// A channel without a partner, behind which there may be no memory.
    void stage_last(Row a, Row b, std::int32_t* to) const noexcept {
        for (std::int32_t* const end = to + at_.inside * at_.groups; to != end; to += at_.groups) {
            *to = Tile::two_codes(*a.from, *b.from);
            a.from += a.stride;
            b.from += b.stride;
        }
    }

    const PackedConv2d& packed_;
    const ConvGeometry& geometry_;
    Int16LineLayout at_;
    std::int32_t* words_;
};

}  // namespace detail

/// y[p][c] = epilogue(bias[c] + sum over the window of x[tap of p][c] · w[tap][c])
///
/// The types are those of PairedGemm.
///
/// Result   exact: sums wrap, and the packer proved that the true sum fits
/// Memory   conv2d_workspace_size(): the staged lines of two channels. The calling thread does all work
/// Cost     2 · pixels · channels · taps operations; padding is multiplied like pixels
template <class Backend, class Policy, class Y, class Sumin> struct PairedInt16Depthwise {
    using L = simd::lanes<Backend>;
    using Tile = simd::PairedTile<Backend>;
    using Lines = detail::PairedInt16Lines<Backend>;

    static INTQ_NEVER_INLINE void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.is_paired_depthwise());
        INTQ_ASSERT(packed.has_sumin == adds);
        const Size2d out = call.geometry->out;
        const Lines staged(call);
        for (index_t image = 0; image < call.geometry->batch; ++image) {
            const auto* const x =
                static_cast<const std::int16_t*>(call.x) + image * call.geometry->in_pixels() * packed.in_channels;
            for (index_t first = 0; first < out.height; first += staged.layout().lines) {
                const index_t left = out.height - first;
                const index_t count = left < staged.layout().lines ? left : staged.layout().lines;
                for (index_t c = 0; c < packed.out_channels; ++c) {
                    const index_t channel = c % detail::int16_channels;
                    if (channel == 0) staged.stage(x + c, first, count, c);
                    staged.write_weights(c);
                    run_channel(call, staged, channel, c, image * out.height + first, count);
                }
            }
        }
    }

private:
    static constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;
    static constexpr bool has_high_product = detail::has_high_product_codes<L, Policy, Y, Sumin>();

    /// `count` output lines of channel c, which is `channel` of those staged, from line `line` of all images on.
    static INTQ_ALWAYS_INLINE void run_channel(const ConvCall& call, const Lines& staged, index_t channel, index_t c,
                                               index_t line, index_t count) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const index_t at = line * call.geometry->out.width * packed.out_channels + c;
        Y* const y = static_cast<Y*>(call.y) + at;
        if constexpr (has_high_product) {
            const Window2d& window = packed.window;
            if (packed.scaled_is_small && !INTQ_SMALL && window.kernel == Size2d{3, 3} && window.dilation.width == 1) {
                const bool is_positive = detail::int16_range(packed.codes) == simd::CodeRange::positive;
                return is_positive ? run_3x3<simd::CodeRange::positive>(call, staged, channel, c, count, y)
                                   : run_3x3<simd::CodeRange::any>(call, staged, channel, c, count, y);
            }
        }
        run_any(call, staged, channel, c, count, static_cast<const Sumin*>(call.sumin) + (adds ? at : 0), y);
    }

    template <simd::CodeRange Range>
    static INTQ_ALWAYS_INLINE void run_3x3(const ConvCall& call, const Lines& staged, index_t channel, index_t c,
                                           index_t count, Y* y) noexcept {
        const PackedConv2d& packed = *call.packed;
        const auto bias = static_cast<std::int32_t>(static_cast<const std::int64_t*>(packed.bias)[c]);
        const index_t x_step = 2 * packed.window.stride.width, width = call.geometry->out.width;
        const detail::Int16Lines lines{
            staged.words(channel), y, x_step, packed.out_channels, width, staged.layout().line - width * x_step, count};
        detail::store_3x3<Backend>(lines, staged.weights(), bias, detail::HighProductCodes<L, Range>(packed, c));
    }

    /// Any window, in sums of 64 bits where 32 are not proven.
    static INTQ_NEVER_INLINE void run_any(const ConvCall& call, const Lines& staged, index_t channel, index_t c,
                                          index_t count, const Sumin* e, Y* y) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const Epilogue<L, Policy, Y, Sumin> epilogue(packed);
        const auto channels = epilogue.channels(c);
        const std::int64_t bias = static_cast<const std::int64_t*>(packed.bias)[c];
        for (index_t k = 0; k < count; ++k)
            for (index_t p = 0; p < call.geometry->out.width; ++p) {
                const std::int64_t sum = packed.scaled_is_small
                                             ? staged.sum(channel, k, p, static_cast<std::int32_t>(bias))
                                             : staged.sum(channel, k, p, bias);
                epilogue.store(sum, channels, e, y, 1);
                y += packed.out_channels;
                e += adds ? packed.out_channels : 0;
            }
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_PAIRED_INT16_DEPTHWISE_HPP
