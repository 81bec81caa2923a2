// SPDX-License-Identifier: MIT
//
// The tiles of ISAs that multiply and add a group of four bytes a lane, for every combination of types. Layer: simd.
#ifndef INTQ_SIMD_TILES_DOT_TILES_HPP
#define INTQ_SIMD_TILES_DOT_TILES_HPP

#include <concepts>
#include <cstdint>

#include "intq/simd/tiles/depthwise_tile.hpp"
#include "intq/simd/tiles/group_tile.hpp"
#include "intq/simd/tiles/wide_group_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// The instructions of a backend, named as its packings in simd/base/tags.hpp are. Specialised in the backend's file;
/// a specialisation provides all tiles of integers.
///
///     using int8_dot = …;  using int16_dot = …;                    // as GroupTile takes them
///     using depthwise_int8 = …;  using depthwise_int16 = …;        // DepthwiseTiles for int8 and int16 activations
///     using depthwise_uint8 = …;                                   // where depthwise_int8 converts: one that does not
///
/// int16_dot also makes the tiles of 64-bit sums.
template <class Backend> struct DotsOf;

template <class Backend>
concept HasDots = requires {
    typename DotsOf<Backend>::int8_dot;
};

template <HasDots Backend>
struct Tile<Backend, std::int8_t, std::int8_t, std::int32_t> : GroupTile<typename DotsOf<Backend>::int8_dot> {};
template <HasDots Backend, std::integral Weight>
struct Tile<Backend, std::int16_t, Weight, std::int32_t> : GroupTile<typename DotsOf<Backend>::int16_dot> {};
/// A plane for each byte of a weight.
template <HasDots Backend, std::integral X, std::integral Weight>
struct Tile<Backend, X, Weight, std::int64_t>
    : WideGroupTile<typename DotsOf<Backend>::int16_dot, int{sizeof(Weight)}> {};

template <HasDots Backend>
struct DepthwiseTile<Backend, std::int8_t, std::int8_t, std::int32_t> : DotsOf<Backend>::depthwise_int8 {};
template <HasDots Backend>
requires requires { typename DotsOf<Backend>::depthwise_uint8; }
struct DepthwiseTile<Backend, std::uint8_t, std::int8_t, std::int32_t> : DotsOf<Backend>::depthwise_uint8 {};
template <HasDots Backend, std::integral Weight>
struct DepthwiseTile<Backend, std::int16_t, Weight, std::int32_t> : DotsOf<Backend>::depthwise_int16 {};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_TILES_DOT_TILES_HPP
