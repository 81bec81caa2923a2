// SPDX-License-Identifier: MIT
//
// The tiles of ISAs that sum the products of two vectors of bytes in a general register: declarations. Layer: simd.
//
// Both operands of such a sum are sixteen bytes beside each other: of a window that is staged column by column, and of
// the weights of one channel. Sums are kept in a small block, from which the codes of four channels are made at once.
#ifndef INTQ_SIMD_TILES_WINDOW_TILE_HPP
#define INTQ_SIMD_TILES_WINDOW_TILE_HPP

#include <cstdint>

#include "intq/simd/base/code_streams.hpp"
#include "intq/simd/base/primitives.hpp"
#include "intq/simd/tiles/tap_windows.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// Pixels of a tile, and channels whose sums are kept at once.
inline constexpr int window_pixels = 3;
inline constexpr int window_channels = 32;

/// Sums of pairs of channels by three pixels.
///
///     sums[p][c] = sum_{k < 16·(steps + 1)} x[p][k] · w[c / 2][k / 16][c % 2][k % 16],  c < 2·pairs, at 128 p + 4 c
struct WindowSums {
    const std::int8_t* x[window_pixels];
    const std::int8_t* w;
    std::int32_t* sums;
    std::int32_t steps;  // of 16 products, behind the first
    std::int32_t pairs;
};

/// How sums become codes under double rounding.
///
///     code = clamp(RDBPOT(SRDHM(sum + bias[c], multiplier[c]), -shift[c]) + zero_point, lowest, highest)
///
/// @pre fixed_point<double_rounding>::is_short() for every sum
struct WindowCodes {
    const std::int32_t* bias;
    const std::int32_t* multiplier;
    const std::int32_t* shift;
    const std::int32_t* sums;
    std::int8_t* y[window_pixels];
    std::int32_t quads;  // of channels
    std::int32_t zero_point, lowest, highest;
};

/// How sums of int16 activations become codes of int16 by a multiplier of 16 bits.
///
///     code = clamp(wide_fixed_point::scaled(sum + bias[c], multiplier[c], shift[c]), lowest, highest)
///
/// @pre wide_fixed_point::is_short() for every sum
struct Int16WindowCodes {
    const std::int64_t* bias;
    const std::int32_t* multiplier;
    const std::int32_t* shift;
    const std::int32_t* sums;  // as of WindowSums
    std::int16_t* y[window_pixels];
    std::int32_t quads;  // of channels
    std::int32_t lowest, highest;
    const std::int64_t* wide_sums;  // in place of sums where they may leave 32 bits: there are no quads then
};

/// Products of int16 and int8 whose sum fits 32 bits, whatever they are: 504 · 2^7 · 2^15 < 2^31.
inline constexpr int int16_products = 504;

/// Sums of one pixel of a depthwise layer of int16: whole blocks of eight channels, the last of which may be in part.
///
///     sums[c] = sum_{t < count} x[taps[t]][c] · w[c / 8][t][c % 8],  c < channels
struct Int16TapSums {
    const std::int16_t* x;
    const std::int32_t* taps;  // in bytes from x, or WindowTile::padding_place()
    const std::int8_t* w;
    std::int32_t* sums;
    std::int32_t count;
    std::int32_t channels;
    std::int32_t between;  // weights of a block that are not read
};

/// Bytes of a column and of a group of a depthwise layer: sixteen channels of each.
inline constexpr int column_bytes = 64;
inline constexpr int group_bytes = 256;

/// Calls for depthwise layers: see WindowTile.
struct DepthwiseRows {
    const std::int8_t* from[4];
    std::int32_t step[4];  // from a pixel of a row to the next; 0 for a row of padding
    std::int8_t* to;
    std::int32_t columns;
    std::int32_t channels;  // at most 16
};
struct DepthwiseGroups {
    const std::int8_t* from;
    std::int8_t* to;
    std::int32_t groups;
    std::int32_t quads;  // of channels
    std::int32_t step;   // bytes of the columns from a group to the next
};
struct DepthwiseSums {
    std::int8_t* x;        // the groups, then the sums
    const std::int8_t* w;  // of the first channel
    std::int32_t groups;
    std::int32_t channels;
};
struct DepthwiseCodes {
    const std::int32_t* bias;
    const std::int32_t* multiplier;
    const std::int32_t* shift;
    const std::int32_t* sums;  // of the last group
    std::int8_t* y[4];         // of the last group, in the order of its sums, which are written from the last on
    std::int32_t groups;
    std::int32_t step;  // of y, from a group to the one before it
    std::int32_t zero_point, lowest, highest;
    std::int32_t quads;  // of channels
};

/// The tiles of a backend whose packing says Staging::windows, for int8 activations and weights in sums of 32 bits.
///
/// Specialised in the backend's file.
///
///     copy_cells(const int8_t* from, int8_t* to, count, from_step, to_step, bytes)
///                       `count` cells of at most 16 bytes: to[i·to_step + b] = from[i·from_step + b]
///     add(const WindowSums&)
///     store_codes<Saturation>(const WindowCodes&)
///     add_one(const WindowSums&), store_one<Saturation>(const WindowCodes&)
///                       the same of the first pixel alone
///
/// For int16 activations and codes, where the backend's wide packing has windows:
///
///     add_int16(const WindowSums&), add_one_int16(const WindowSums&)
///                       as add and add_one, of int16 in x, with eight in place of sixteen
///     store_int16(const Int16WindowCodes&)
///     padding_place(const int16_t* x, const int16_t* padding)
///                       the place of a tap on padding, whose codes are 0
///     add_taps(const Int16TapSums&)
///
/// For depthwise layers with windows of 3×3, on 16 channels at most. A group is four rows of four columns of a channel:
/// with a stride of 1 groups begin two columns from each other, and each holds the windows of two columns on two lines;
/// with a stride of 2 they begin four columns from each other, and each holds a window and with the next one another.
///
///     stage_rows(const DepthwiseRows&)     to[column][channel < 16][row] = from[row][column·step + channel]
///     stage_groups(const DepthwiseGroups&) to[group][channel < 16][column][row] = the same of the group's columns
///     add_groups<Stride>(const DepthwiseSums&)  w[channel][column < 3][row < 3] on the windows of each group, and with
///                                          a stride of 2 of the first column of one behind the last. The sums of a
///                                          channel lie where its group was: [column][line], or [column]
///     store_group_codes<Range, Stride>(const DepthwiseCodes&)
///
/// and those of tap_windows.hpp.
template <class Backend> struct WindowTile;

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_TILES_WINDOW_TILE_HPP
