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

/// The four channels of a column, or the two lines and columns that a group of a depthwise layer gives.
inline constexpr int group_outputs = 4;

/// Rows of an image as groups of a depthwise layer: see WindowTile.
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
};
struct DepthwiseSums {
    std::int8_t* x;        // the groups; with a stride of 1 the sums as well
    const std::int8_t* w;  // of the first channel
    std::int32_t* sums;    // with a stride of 2
    std::int32_t groups;
    std::int32_t channels;
};
struct DepthwiseCodes {
    const std::int32_t* bias;
    const std::int32_t* multiplier;
    const std::int32_t* shift;
    const std::int32_t* sums;
    std::int8_t* y[group_outputs];  // in the order of a group's sums; written from the last to the first
    std::int32_t groups;
    std::int32_t step;  // of y, from a group to the next
    std::int32_t zero_point, lowest, highest;
};

/// The tiles of a backend whose packing says Staging::windows, for int8 activations and weights in sums of 32 bits.
///
/// Specialised in the backend's file.
///
///     copy_cells(const int8_t* from, int8_t* to, count, from_step, to_step, bytes)
///                       `count` cells of at most 16 bytes: to[i·to_step + b] = from[i·from_step + b]
///     add(const WindowSums&)
///     store_codes<Saturation>(const WindowCodes&)
///
/// For depthwise layers with windows of 3×3, on 16 channels at most. A group is four rows of four columns of a channel,
/// two columns from the next one; it gives the sums of two columns on two lines, or with a stride of 2 of one:
///
///     stage_rows(const DepthwiseRows&)     to[column][channel < 16][row] = from[row][column·step + channel]
///     stage_groups(const DepthwiseGroups&) to[group][channel < 16][column][row] = from[2·group + column][channel][row]
///     add_groups<Stride>(const DepthwiseSums&)  w[channel][column < 3][row < 4] on each window of a group. The sums of
///     a
///                                          channel lie where its group was, [column][line], or with a stride of 2 at
///                                          sums[group][channel < 16]
///     store_group_codes<Range, Stride>(const DepthwiseCodes&)  of four channels
template <class Backend> struct WindowTile;

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_TILES_WINDOW_TILE_HPP
