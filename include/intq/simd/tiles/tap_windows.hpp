// SPDX-License-Identifier: MIT
//
// Windows of 3×3 that are read tap by tap, where they lie in the input: declarations. Layer: simd.
//
// Nothing is staged. So a window costs as much as its products, whatever it shares with its neighbours. A tile of the
// backend has, apart from its other loops:
//
//     static constexpr int tap_channels     of a block
//     static constexpr std::int32_t tap_line, tap_line_2
//                                           the longest output line, of windows that move by one and by two, for which
//                                           taps take less time than windows that are staged
//     tap_origin(const int8_t* x, const int8_t* padding)
//     store_taps<Range>(TapWindows&)
//     move_places(int32_t* to, const int32_t (&mask)[3], step, pixels)
//                                           optional: to[i] = to[i - 9] + (step & mask[i % 3]) for i < 9·pixels, and
//                                           anything in moved_behind bytes behind
#ifndef INTQ_SIMD_TILES_TAP_WINDOWS_HPP
#define INTQ_SIMD_TILES_TAP_WINDOWS_HPP

#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

inline constexpr int window_taps = 9;

/// Where the places of taps are counted from, in bytes: the place of the input's first code, and that of a tap on
/// padding. On a machine whose addresses have 32 bits they are addresses.
struct TapOrigin {
    std::int32_t image, padding;

    static TapOrigin addresses(const std::int8_t* x, const std::int8_t* padding) noexcept {
        return {static_cast<std::int32_t>(reinterpret_cast<std::uintptr_t>(x)),
                static_cast<std::int32_t>(reinterpret_cast<std::uintptr_t>(padding))};
    }
};
/// In C++ they are counted from the input.
inline constexpr TapOrigin counted_taps{0, INT32_MIN};

/// Windows of `pixels` output pixels in blocks of channels, and how their sums become codes under double rounding.
///
///     sum(p, c)  = sum_{t < 9} x[places[9p + t] + c] · w[9c + t]
///     y(p, c)    = clamp(RDBPOT(SRDHM(sum + bias[c], multiplier[c]), -shift[c]) + zero_point, lowest, highest)
///
/// The loop works on this structure and on the places, and may move both on.
///
/// @pre fixed_point<double_rounding>::is_short() for every sum
struct TapWindows {
    std::int32_t* places;
    const std::int8_t* w;
    const std::int32_t* bias;
    const std::int32_t* multiplier;
    const std::int32_t* shift;
    std::int8_t* y;
    std::int32_t blocks, pixels;
    std::int32_t channels;  // from a pixel of y to the next
    std::int32_t zero_point, lowest, highest;
    const std::int8_t *x, *padding;  // a pixel of either, where places are no addresses

    std::int8_t code_at(std::int32_t place, std::int32_t c) const noexcept {
        return place == counted_taps.padding ? padding[c] : x[place + c];
    }
};

/// Bytes behind the last place that move_places() may write.
inline constexpr int moved_behind = 12;

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_TILES_TAP_WINDOWS_HPP
