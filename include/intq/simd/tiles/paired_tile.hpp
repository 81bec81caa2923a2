// SPDX-License-Identifier: MIT
//
// The tiles of ISAs that multiply two pairs of int16 in a general register: declarations. Layer: simd.
//
// Such an ISA has few registers and no vectors. Its weights stay bytes, four in a word, which two instructions unpack;
// its activations are staged a tile of pixels at a time, so that a step only loads them.
#ifndef INTQ_SIMD_TILES_PAIRED_TILE_HPP
#define INTQ_SIMD_TILES_PAIRED_TILE_HPP

#include <cstdint>

#include "intq/simd/base/code_streams.hpp"
#include "intq/simd/base/primitives.hpp"
#include "intq/simd/base/tags.hpp"
#include "intq/simd/tiles/tap_windows.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// A whole tile of staged rows and some panels of a layer. What has no value here is scratch of the loop, which works
/// on a copy.
struct PairedPanels {
    const std::int32_t* x;           // the words
    const PairedChannels* channels;  // of the panels
    const void* entry = nullptr;     // of the loop's first pass
    const std::int32_t* end;         // of the words
    void* y;                         // the first channel of the first row
    index_t stride;                  // bytes from a row to the next
    std::int32_t zero_point;
    const std::int8_t *w_end, *w;  // of whole panels: at least one
    std::uint32_t skipped;         // steps of four products that the first pass lacks
    std::int32_t lowest, highest;  // of the codes; read of CodeRange::any

    static constexpr std::uint32_t steps = INTQ_SMALL ? 4 : 8;  // of a pass
    static constexpr std::uint32_t skipped_of(index_t depth) noexcept {
        return (0u - static_cast<std::uint32_t>(depth) / 4u) % steps;
    }
};

/// The rows of a staged line of 3×3 windows: three, or of two output lines four or five.
struct PairedRows {
    /// Of the image, or of padding: a word that every pixel shares.
    struct Row {
        const std::int8_t* from;
        index_t stride;
    };
    enum Form : std::uint8_t { inside, padded, single };  // single: of two output lines, of which the last is missing
    Row rows[5];
    Form form;
};

/// Windows of 3×3 of some staged channels, which move by one or two both ways, with the words of double rounding. What
/// has no value here is scratch of the loop, which works on a copy.
///
/// Two output lines have the same words, of which a last one may be alone. Of one line, words have three rows.
struct PairedWindows {
    std::int32_t bias = 0, multiplier = 0, power = 0;  // of the channel
    std::int32_t zero_point;
    index_t step;                  // from a pixel of y to the next: all channels
    index_t line;                  // from a line of y to the next
    std::int32_t lowest, highest;  // of the codes; read of CodeRange::any
    const std::int32_t* x;         // the first column
    std::int8_t* y;
    const std::int8_t* w;  // nine weights a channel, column by column
    const std::int32_t *biases, *multipliers, *shifts;
    index_t channels, lines;  // one_of_three_rows: of a staged line that serves one
    index_t left = 0;         // of the lines
    index_t next_bytes;       // from the words behind the last step of pixels to those of the next lines
    index_t steps;            // from the first pixel of y to the one behind the last step
    index_t odd_step;         // those of the pixels which follow, or 0

    static constexpr index_t one_of_three_rows = 0;
    /// Pixels of a step of store_windows() and of store_line().
    static constexpr index_t step_pixels = INTQ_SMALL ? 1 : 2, line_step_pixels = INTQ_SMALL ? 1 : 4;

    /// Those behind these, which are staged in the same place.
    constexpr void next_channels() noexcept {
        y += channels;
        w += 9 * channels;
        biases += channels;
        multipliers += channels;
        shifts += channels;
    }
};

/// The tiles of a backend whose packing says Staging::paired, for activations of int8 or, where lanes have a
/// HighProduct, int16, and weights of int8 in sums of 32 bits.
///
/// Specialised in the backend's file. A word {a, b} holds a in its lower half. For convolutions:
///
///     static constexpr int rows, columns
///                                    pixels of a tile, at most paired_rows, and channels, those of the packing
///     stage(const X* from, int32_t* to, tile_rows)
///                                    the words of four codes of a row: the first at to[0], the second at
///                                    to[tile_rows], where the rows of a tile lie beside each other
///     add<Rows, Columns>(const int32_t* x, const int8_t* w, depth, Sum* acc)
///                                    acc[c·Rows + r] += sum_{k < depth} x[r][k]·w[k][c], depth a multiple of 4, in
///                                    int32 or int64
///     store_panels<Y, CodeRange>(const PairedPanels&)
///                                    optional: the codes of ShortRounding, or of HighProduct where Y is int16
///
/// For depthwise layers, on words of four channels:
///
///     four_codes(const int8_t* from), four_codes(from, count)
///                                      a word of four channels, or of the first `count` and zeros
///     two_codes(a, b)                  {a, b}
///     pair(a, b, int32_t* to, stride)  to[i·stride] = {a[i], b[i]}
///     pair_four(a, b, c, d, to)        to[2i] = {a[i], c[i]}, to[2i + 1] = {b[i], d[i]}
///     pair_five(a, b, c, d, e, to)     to[3i] = {a[i], b[i]}, to[3i + 1] = {c[i], d[i]}, to[3i + 2] = {e[i], anything}
///     pair_three(a, b, c, int32_t* to) to[2i] = {a[i], b[i]}, to[2i + 1] = {c[i], anything}
///     stage_four(const PairedRows* line, c, int32_t* to, lines, words, pitch)
///                                      optional: pair_four() of the pixels of some lines, of four channels from c on;
///                                      of a line so many words, and from a line of `to` to the next
///     stage_three(const PairedRows::Row (&rows)[3], int32_t* to, int32_t* end)
///                                      optional, like it: pair_three() of the pixels of three rows
///     add(acc, x, w)                   acc + x[0]·w[0] + x[1]·w[1]; of int16 layers in int64 as well
///     store_windows<Lanes, Stride, CodeRange>(const PairedWindows&)
///                                      the codes of Lanes::ShortRounding, of columns of pair_four() or pair_five()
///     store_line<Lanes, Stride, CodeRange>(const PairedWindows&)
///                                      the same of one line, of columns of pair_three(): rows 0, 2 and 1 of windows
///                                      that move by one. Where code is to be small, store_windows() does it
///     store_taps<Lanes, CodeRange>(TapWindows&)
///                                      and what else tap_windows.hpp says
///
/// For those of int16, on words of two channels:
///
///     two_codes(const int16_t* from)   {from[0], from[1]}
///     pair_two(a, b, int32_t* to, stride)
///                                      to[0] = {a[0], b[0]}, to[stride] = {a[1], b[1]}
template <class Backend> struct PairedTile;

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_TILES_PAIRED_TILE_HPP
