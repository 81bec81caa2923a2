// SPDX-License-Identifier: MIT
//
// Staging of paired activations for depthwise layers: the lines that a few output lines read, of four channels.
// Layer: kernels.
#ifndef INTQ_KERNELS_STAGING_PAIRED_LINES_HPP
#define INTQ_KERNELS_STAGING_PAIRED_LINES_HPP

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
/// or, of 3×3 windows that move by one, of rows g and g + 2: then two output lines have the same weights.
///
/// They lie as PairedLineLayout says, padding as the zero point. Behind a last row without a partner is anything: its
/// weight is zero, or nothing reads it. Margins are written once, because no channel changes them.
template <class Backend> class PairedLines {
    using Tile = simd::PairedTile<Backend>;
    using PairedRows = simd::PairedRows;
    using Row = PairedRows::Row;

public:
    explicit PairedLines(const ConvCall& call) noexcept
        : packed_(*call.packed),
          geometry_(*call.geometry),
          at_(packed_.window, geometry_),
          words_(reinterpret_cast<std::int32_t*>(call.workspace)),
          row_bytes_(geometry_.in.width * packed_.in_channels) {
        const auto code = static_cast<std::uint32_t>(packed_.input_zero_point) & 0xffff;
        const auto padding = static_cast<std::int32_t>(code * 0x10001u);
        for (index_t line = 0; line < at_.lines; ++line) {
            std::int32_t* to = words_ + line * at_.line;
            std::int32_t* const end = to + at_.all_columns * at_.column;
            for (std::int32_t* const image = to + at_.before * at_.column; to != image;) *to++ = padding;
            for (to += at_.inside * at_.column; to != end;) *to++ = padding;
        }
    }

    const PairedLineLayout& layout() const noexcept { return at_; }

    /// Finds the rows of an image for `count` output lines from `first` on.
    ///
    /// @param x  the image
    void find(const std::int8_t* x, index_t first, index_t count) noexcept {
        const Window2d& window = packed_.window;
        x_ = x;
        top_ = first * window.stride.height - padding_above(window, geometry_);
        count_ = count;
        if (!has_rows()) return;
        index_t top = top_;
        for (PairedRows* line = rows_; count > 0;
             ++line, count -= at_.served, top += at_.served * window.stride.height) {
            for (index_t i = 0; i < at_.rows; ++i) line->rows[i] = row(x, top + i);
            line->form = count < at_.served                                  ? PairedRows::single
                         : top >= 0 && top + at_.rows <= geometry_.in.height ? PairedRows::inside
                                                                             : PairedRows::padded;
        }
    }

    /// Stages them, of the channels from c on.
    void stage(index_t c) const noexcept {
        std::int32_t* to = words_ + at_.before * at_.column;
        const index_t left = packed_.in_channels - c;
        if (!has_rows() || left < paired_channels || at_.inside == 0) return stage_pairs(c, left, to);
        const PairedRows* line = rows_;
        if (at_.served == 1) return stage_three(*line, c, to);
        if constexpr (has_lines)
            if (packed_.window.stride.height == 1)
                return Tile::stage_four(line, c, to, (count_ + 1) / 2, at_.inside * at_.column, at_.line);
        for (index_t count = count_; count > 0; count -= 2, ++line, to += at_.line) {
            if (!has_lines && packed_.window.stride.height == 1)
                stage_four(*line, c, to);
            else
                stage_five(*line, c, to);
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
                *to++ = Tile::two_codes(weight(upper_row(g)), weight(lower_row(g)));
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
    static constexpr bool has_lines = requires(const PairedRows* rows, std::int32_t* to) {
        Tile::stage_four(rows, 0, to, 0, 0, 0);
    };
    /// Whether the rows of each line are looked up once for all channels.
    INTQ_ALWAYS_INLINE bool has_rows() const noexcept { return !INTQ_SMALL && at_.slides; }

    INTQ_ALWAYS_INLINE std::int32_t* weights() const noexcept { return words_ + at_.words; }
    /// The rows of pair g.
    INTQ_ALWAYS_INLINE index_t upper_row(index_t g) const noexcept { return pairs_neighbours() ? 2 * g : g; }
    INTQ_ALWAYS_INLINE index_t lower_row(index_t g) const noexcept { return pairs_neighbours() ? 2 * g + 1 : g + 2; }
    INTQ_ALWAYS_INLINE bool pairs_neighbours() const noexcept { return at_.pairs_neighbours(packed_.window); }

    INTQ_ALWAYS_INLINE Row row(const std::int8_t* x, index_t y) const noexcept {
        if (static_cast<std::size_t>(y) >= static_cast<std::size_t>(geometry_.in.height))
            return {static_cast<const std::int8_t*>(packed_.padding_row), 0};
        return {x + y * row_bytes_, packed_.in_channels};
    }

    /// Any window and count of channels.
    void stage_pairs(index_t c, index_t left, std::int32_t* to) const noexcept {
        const Window2d& window = packed_.window;
        const index_t between = window.dilation.height;
        index_t top = top_;
        for (index_t count = count_; count > 0; count -= at_.served) {
            const index_t rows = count < at_.served ? window.kernel.height : at_.rows;  // one output line is left
            for (index_t g = 0; 2 * g < rows; ++g) {
                const index_t first = upper_row(g), second = lower_row(g);
                const Row upper = row(x_ + c, top + first * between);
                stage_pair(upper, second < at_.rows ? row(x_ + c, top + second * between) : upper, left, to + g);
            }
            top += at_.served * window.stride.height;
            to += at_.line;
        }
    }

    /// Those of one output line.
    INTQ_ALWAYS_INLINE void stage_three(const PairedRows& line, index_t c, std::int32_t* to) const noexcept {
        std::int32_t* const end = to + at_.inside * 8;
        PairedRows::Row rows[3] = {line.rows[0], line.rows[lower_row(0)], line.rows[upper_row(1)]};
        for (Row& row : rows) row.from += c;
        if constexpr (has_lines) return Tile::stage_three(rows, to, end);
        for (; to != end; to += 8) Tile::pair_three(take(rows[0]), take(rows[1]), take(rows[2]), to);
    }
    /// Rows that are equally far apart take one pointer and fewer registers.
    INTQ_ALWAYS_INLINE void stage_four(const PairedRows& line, index_t c, std::int32_t* to) const noexcept {
        std::int32_t* const end = to + at_.inside * 8;
        if (line.form == PairedRows::inside) {
            const std::int8_t* from = line.rows[0].from + c;
            for (const index_t row = row_bytes_, step = packed_.in_channels; to != end; to += 8, from += step)
                Tile::pair_four(Tile::four_codes(from), Tile::four_codes(from + row), Tile::four_codes(from + 2 * row),
                                Tile::four_codes(from + 3 * row), to);
            return;
        }
        Row rows[4];
        for (int i = 0; i < 4; ++i) rows[i] = {line.rows[i].from + c, line.rows[i].stride};
        for (; to != end; to += 8) Tile::pair_four(take(rows[0]), take(rows[1]), take(rows[2]), take(rows[3]), to);
    }
    INTQ_ALWAYS_INLINE void stage_five(const PairedRows& line, index_t c, std::int32_t* to) const noexcept {
        std::int32_t* const end = to + at_.inside * 12;
        if (line.form == PairedRows::inside) {
            const std::int8_t* from = line.rows[0].from + c;
            for (const index_t row = row_bytes_, step = packed_.in_channels; to != end; to += 12, from += step)
                Tile::pair_five(Tile::four_codes(from), Tile::four_codes(from + row), Tile::four_codes(from + 2 * row),
                                Tile::four_codes(from + 3 * row), Tile::four_codes(from + 4 * row), to);
            return;
        }
        Row rows[5];
        for (int i = 0; i < 5; ++i) rows[i] = {line.rows[i].from + c, line.rows[i].stride};
        if (line.form == PairedRows::single) {  // nothing reads more of its rows
            for (; to != end; to += 12) {
                Tile::pair(take(rows[0]), take(rows[1]), to, 3);
                const std::int32_t last = take(rows[2]);
                Tile::pair(last, last, to + 1, 3);
            }
            return;
        }
        for (; to != end; to += 12)
            Tile::pair_five(take(rows[0]), take(rows[1]), take(rows[2]), take(rows[3]), take(rows[4]), to);
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
    const std::int8_t* x_ = nullptr;
    index_t top_ = 0, count_ = 0;  // the first row and the output lines that are found
    PairedRows rows_[INTQ_SMALL ? 1 : PairedLineLayout::most_lines];
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STAGING_PAIRED_LINES_HPP
