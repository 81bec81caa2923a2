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

/// The windows of some output lines, as columns of pairs.
///
///     word(line, column, channel, g) = {x[row 2g of the line's window][column][channel], x[row 2g + 1][…]}
///
/// or, where two output lines have four rows, of rows g and g + 2: then both have the same weights.
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

    /// Stages an image's windows of `count` output lines from `first` on.
    ///
    /// @param x  the image at channel c
    void stage(const std::int8_t* x, index_t first, index_t count, index_t c) const noexcept {
        const Window2d& window = packed_.window;
        const index_t left = packed_.in_channels - c, between = window.dilation.height;
        index_t top = first * window.stride.height - window.padding.top;
        std::int32_t* to = words_ + at_.before * at_.column;
        for (; count > 0; count -= at_.served, top += at_.served * window.stride.height, to += at_.line) {
            const bool is_inside = top >= 0 && top + at_.rows <= geometry_.in.height;
            const bool has_form = !INTQ_SMALL && left >= paired_channels && at_.served == 2;
            if (has_form && is_inside) {
                if (window.stride.height == 1)
                    stage_inside(x + top * row_bytes_, to);
                else
                    stage_five(x + top * row_bytes_, to);
            } else if (has_form && window.stride.height == 1) {
                stage_four(row(x, top), row(x, top + 1), row(x, top + 2), row(x, top + 3), to);
            } else if (has_form && count > 1) {
                stage_five(row(x, top), row(x, top + 1), row(x, top + 2), row(x, top + 3), row(x, top + 4), to);
            } else {
                const index_t rows = count > 1 ? at_.rows : window.kernel.height;  // one output line is left
                for (index_t g = 0; 2 * g < rows; ++g) {
                    const index_t first_row = upper_row(g), second = lower_row(g);
                    const Row upper = row(x, top + first_row * between);
                    stage_pair(upper, second < at_.rows ? row(x, top + second * between) : upper, left, to + g);
                }
            }
        }
    }

    /// Writes the weights of a channel as the pairs of output line k of those staged.
    void write_weights(index_t c, index_t k) const noexcept {
        const Size2d kernel = packed_.window.kernel;
        const std::int8_t* w = weights_of(c);
        const index_t first = k % at_.served == 1 ? packed_.window.stride.height : 0;  // of the line's rows
        const auto weight = [&](index_t row) {
            return row < first || row >= first + kernel.height ? std::int8_t{0} : w[row - first];
        };
        std::int32_t* to = weights();
        for (index_t kx = 0; kx < kernel.width; ++kx, w += kernel.height)
            for (index_t g = 0; g < at_.groups; ++g)
                *to++ = Tile::two_weights(weight(upper_row(g)), weight(lower_row(g)));
    }
    /// bias + the products of window p of output line k of those staged.
    ///
    /// @param channel  among those staged
    /// @pre   the weights are written for them
    INTQ_ALWAYS_INLINE std::int32_t sum(index_t channel, index_t k, index_t p, std::int32_t bias) const noexcept {
        const Window2d& window = packed_.window;
        const std::int32_t* x = words(channel) + k / at_.served * at_.line + p * at_.column * window.stride.width;
        const std::int32_t* w = weights();
        for (index_t kx = 0; kx < window.kernel.width; ++kx, x += at_.column * window.dilation.width)
            for (index_t g = 0; g < at_.groups; ++g) bias = Tile::add(bias, x[g], *w++);
        return bias;
    }

    /// The words of a staged channel.
    INTQ_ALWAYS_INLINE const std::int32_t* words(index_t channel) const noexcept {
        return words_ + channel * at_.groups;
    }
    /// Those of a channel, column by column.
    INTQ_ALWAYS_INLINE const std::int8_t* weights_of(index_t c) const noexcept {
        return static_cast<const std::int8_t*>(packed_.weights) + c * packed_.taps();
    }

private:
    INTQ_ALWAYS_INLINE std::int32_t* weights() const noexcept { return words_ + at_.words; }
    /// The rows of pair g.
    INTQ_ALWAYS_INLINE index_t upper_row(index_t g) const noexcept { return pairs_neighbours() ? 2 * g : g; }
    INTQ_ALWAYS_INLINE index_t lower_row(index_t g) const noexcept { return pairs_neighbours() ? 2 * g + 1 : g + 2; }
    INTQ_ALWAYS_INLINE bool pairs_neighbours() const noexcept {
        return at_.served == 1 || packed_.window.stride.height == 2;
    }

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
    INTQ_ALWAYS_INLINE void stage_five(Row a, Row b, Row c, Row d, Row e, std::int32_t* to) const noexcept {
        for (std::int32_t* const end = to + at_.inside * 12; to != end; to += 12)
            Tile::pair_five(take(a), take(b), take(c), take(d), take(e), to);
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
