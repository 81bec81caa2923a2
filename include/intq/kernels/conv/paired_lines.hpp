// SPDX-License-Identifier: MIT
//
// Staging of paired activations for depthwise layers: the lines that a few output lines read, of four channels.
// Layer: kernels.
#ifndef INTQ_KERNELS_CONV_PAIRED_LINES_HPP
#define INTQ_KERNELS_CONV_PAIRED_LINES_HPP

#include <cstdint>

#include "intq/kernels/packing/conv_call.hpp"
#include "intq/kernels/packing/input_form.hpp"
#include "intq/simd/tiles/paired_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// PairedTile::sum_two_rows() out of line, whose loop takes all registers.
template <class Backend, int Stride>
INTQ_OUT_OF_LINE void sum_two_rows(const std::int32_t* x, const std::int16_t* w, std::int32_t bias, index_t pairs,
                                   std::int32_t* sums) noexcept {
    simd::PairedTile<Backend>::template sum_two_rows<Stride>(x, w, bias, pairs, sums);
}

/// The windows of some output lines, as columns of pairs.
///
///     word(line, column, channel, g) = {x[row 2g of the line's window][column][channel], x[row 2g + 1][…]}
///
/// They lie as PairedLineLayout says, padding as the zero point. Behind a last row without a partner is anything: its
/// weight is zero. Margins are written once, because no channel changes them.
template <class Backend> class PairedLines {
    using Tile = simd::PairedTile<Backend>;

public:
    explicit PairedLines(const ConvCall& call) noexcept
        : packed_(*call.packed),
          geometry_(*call.geometry),
          at_(packed_.window, geometry_),
          words_(reinterpret_cast<std::int32_t*>(call.workspace)),
          row_bytes_(geometry_.in.width * packed_.in_channels) {
        const auto code = static_cast<std::uint32_t>(packed_.input_zero_point) & 0xffff;
        for (index_t line = 0; line < at_.lines; ++line) {
            std::int32_t* const to = words_ + line * at_.line;
            for (index_t i = 0; i < at_.all_columns * at_.column; ++i)
                if (i < at_.before * at_.column || i >= (at_.before + at_.inside) * at_.column)
                    to[i] = static_cast<std::int32_t>(code * 0x10001u);
        }
    }

    const PairedLineLayout& layout() const noexcept { return at_; }

    /// Stages an image's windows of the output lines from `first` on, `count` staged lines of them.
    ///
    /// @param x  the image at channel c
    void stage(const std::int8_t* x, index_t first, index_t count, index_t c) const noexcept {
        const Window2d& window = packed_.window;
        const index_t left = packed_.in_channels - c, between = window.dilation.height;
        index_t top = first * window.stride.height - window.padding.top;
        std::int32_t* to = words_ + at_.before * at_.column;
        index_t last = geometry_.out.height - first - 1;  // lines behind the next one
        for (; count > 0; --count, top += at_.served * window.stride.height, to += at_.line, last -= at_.served) {
            const bool is_inside = top >= 0 && top + at_.rows <= geometry_.in.height;
            const bool has_form = !INTQ_SMALL && left >= paired_channels && at_.served == 2;
            if (has_form && is_inside) {
                if (window.stride.height == 1)
                    stage_inside(x + top * row_bytes_, to);
                else
                    stage_five(x + top * row_bytes_, to);
            } else if (has_form && window.stride.height == 1) {
                stage_four(row(x, top), row(x, top + 1), row(x, top + 2), row(x, top + 3), to);
            } else {
                const index_t rows = last > 0 ? at_.rows : window.kernel.height;  // one output line is left
                for (index_t g = 0; 2 * g < rows; ++g) {
                    const index_t y = top + 2 * g * between;
                    const Row upper = row(x, y), lower = 2 * g + 1 < at_.rows ? row(x, y + between) : upper;
                    stage_pair(upper, lower, left, to + g);
                }
            }
        }
    }

    /// sums[p] = bias + the products of window p of output line k of those staged, by any window.
    ///
    /// @param channel  among those staged
    /// @param c        the same in the layer
    void add(index_t channel, index_t c, index_t k, std::int32_t* sums) const noexcept {
        const Window2d& window = packed_.window;
        const std::int32_t bias = static_cast<const std::int32_t*>(packed_.bias)[c];
        const std::int32_t* x = words(channel) + k / at_.served * at_.line;
        const std::int16_t* const weights = weights_of(c);
        std::int32_t lower[6] = {};
        const bool is_second = k % at_.served == 1, is_lower = is_second && window.stride.height == 1;
        if (is_second && !is_lower) ++x;  // its first rows are the second pair of the line
        if (is_lower) {
            const simd::PairedWeights3x3 w = Tile::one_row_lower(weights_3x3(c));
            const std::int32_t words[] = {w.w0, w.w1, w.w2, w.w3, w.w4, w.w5};
            for (int i = 0; i < 6; ++i) lower[i] = words[i];
        }
        for (index_t p = 0; p < geometry_.out.width; ++p, x += at_.column * window.stride.width) {
            std::int32_t sum = bias;
            const std::int32_t* from = x;
            index_t i = 0;
            for (index_t kx = 0; kx < window.kernel.width; ++kx, from += at_.column * window.dilation.width)
                for (index_t g = 0; g < (window.kernel.height + 1) / 2; ++g, ++i)
                    sum = Tile::add(sum, from[g], is_lower ? lower[i] : Tile::two_weights(weights + 2 * i));
            sums[p] = sum;
        }
    }

    /// The words of a staged channel.
    INTQ_ALWAYS_INLINE const std::int32_t* words(index_t channel) const noexcept {
        return words_ + channel * at_.groups;
    }
    /// Pairs of rows, column by column.
    INTQ_ALWAYS_INLINE const std::int16_t* weights_of(index_t c) const noexcept {
        return static_cast<const std::int16_t*>(packed_.weights) + 2 * c * at_.weights;
    }

    /// @pre the window is 3×3
    INTQ_ALWAYS_INLINE simd::PairedWeights3x3 weights_3x3(index_t c) const noexcept {
        const std::int16_t* const w = weights_of(c);
        return {Tile::two_weights(w),     Tile::two_weights(w + 2), Tile::two_weights(w + 4),
                Tile::two_weights(w + 6), Tile::two_weights(w + 8), Tile::two_weights(w + 10)};
    }
    /// Room for the sums of a channel.
    INTQ_ALWAYS_INLINE std::int32_t* sums() const noexcept { return words_ + at_.words; }

private:
    /// A row of the image at the block's channels, or one of padding: a word that every pixel shares.
    struct Row {
        const std::int8_t* from;
        index_t stride;
    };
    INTQ_ALWAYS_INLINE Row row(const std::int8_t* x, index_t y) const noexcept {
        if (y < 0 || y >= geometry_.in.height) return {static_cast<const std::int8_t*>(packed_.padding_row), 0};
        return {x + y * row_bytes_, packed_.in_channels};
    }

    /// Four rows that are equally far apart: one pointer and fewer registers.
    INTQ_ALWAYS_INLINE void stage_inside(const std::int8_t* from, std::int32_t* to) const noexcept {
        const index_t row = row_bytes_, step = packed_.in_channels;
        for (std::int32_t* const end = to + at_.inside * 8; to != end; to += 8, from += step)
            Tile::pair_four(Tile::four_codes(from), Tile::four_codes(from + row), Tile::four_codes(from + 2 * row),
                            Tile::four_codes(from + 3 * row), to);
    }
    INTQ_ALWAYS_INLINE void stage_four(Row a, Row b, Row c, Row d, std::int32_t* to) const noexcept {
        for (std::int32_t* const end = to + at_.inside * 8; to != end; to += 8)
            Tile::pair_four(take(a), take(b), take(c), take(d), to);
    }
    INTQ_ALWAYS_INLINE void stage_five(const std::int8_t* from, std::int32_t* to) const noexcept {
        const index_t row = row_bytes_, step = packed_.in_channels;
        for (std::int32_t* const end = to + at_.inside * 12; to != end; to += 12, from += step)
            Tile::pair_five(Tile::four_codes(from), Tile::four_codes(from + row), Tile::four_codes(from + 2 * row),
                            Tile::four_codes(from + 3 * row), Tile::four_codes(from + 4 * row), to);
    }
    void stage_pair(Row a, Row b, index_t left, std::int32_t* to) const noexcept {
        for (std::int32_t* const end = to + at_.inside * at_.column; to != end; to += at_.column)
            Tile::pair(take(a, left), take(b, left), to, at_.groups);
    }
    /// A word of a row, which moves on.
    static INTQ_ALWAYS_INLINE std::int32_t take(Row& row) noexcept {
        const std::int32_t codes = Tile::four_codes(row.from);
        row.from += row.stride;
        return codes;
    }
    static INTQ_ALWAYS_INLINE std::int32_t take(Row& row, index_t left) noexcept {
        const std::int32_t codes =
            left < paired_channels ? Tile::four_codes(row.from, left) : Tile::four_codes(row.from);
        row.from += row.stride;
        return codes;
    }

    const PackedConv2d& packed_;
    const ConvGeometry& geometry_;
    PairedLineLayout at_;
    std::int32_t* words_;
    index_t row_bytes_;  // of the image
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_PAIRED_LINES_HPP
