// SPDX-License-Identifier: MIT
//
// Resizing of images of codes: where an output pixel lies, and the weighted mean of four cells. Layer: arith
// (docs/arithmetic.md section 4, interpolate).
#ifndef INTQ_ARITH_RESIZE_HPP
#define INTQ_ARITH_RESIZE_HPP

#include "intq/arith/lanes.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Which input an output coordinate means. align_corners and half_pixel are bilinear.
enum class Resize : std::uint8_t { nearest, nearest_exact, half_pixel, align_corners };

/// One output coordinate along one axis: cells first and second, and 256ths of the second.
struct ResizeTap {
    std::int32_t first = 0;
    std::int32_t second = 0;
    std::int32_t weight = 0;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const ResizeTap&, const ResizeTap&) = default;
};

/// Largest extents along an axis: every product below stays in 64 bits, every cell number in 32.
inline constexpr index_t largest_resized = index_t{1} << 24;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// The cells of output coordinate d.
///
///     half_pixel      c = clamp(fl((((2d + 1)·in - out)·2^7 + fl(out/2)) / out), 0, (in - 1)·2^8)
///     align_corners   c = fl((d·(in - 1)·2^8 + fl((out - 1)/2)) / (out - 1)), 0 where out = 1
///                     first = c >> 8,  second = min(first + 1, in - 1),  weight = c mod 256
///     nearest         first = fl(d·in / out)
///     nearest_exact   first = min(fl((2d + 1)·in / (2·out)), in - 1)
///
/// @pre 1 <= in, out <= largest_resized, 0 <= d < out
constexpr ResizeTap resize_tap(Resize rule, index_t d, index_t in, index_t out) INTQ_NOEXCEPT {
    INTQ_ASSERT(in >= 1 && in <= largest_resized && out <= largest_resized && d >= 0 && d < out);
    const std::int64_t from = in, to = out, at = d;
    const auto floor_divide = [](std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); };
    if (rule == Resize::nearest || rule == Resize::nearest_exact) {
        const std::int64_t cell = rule == Resize::nearest ? at * from / to : (2 * at + 1) * from / (2 * to);
        const auto first = static_cast<std::int32_t>(cell < from ? cell : from - 1);
        return {first, first, 0};
    }
    std::int64_t position = 0;
    if (rule == Resize::half_pixel) {
        position = floor_divide(((2 * at + 1) * from - to) * 128 + to / 2, to);
    } else if (to > 1) {
        position = (at * (from - 1) * 256 + (to - 1) / 2) / (to - 1);
    }
    const std::int64_t last = (from - 1) * 256;
    position = position < 0 ? 0 : position > last ? last : position;
    const auto first = static_cast<std::int32_t>(position >> 8), end = static_cast<std::int32_t>(from - 1);
    return {first, first < end ? first + 1 : end, static_cast<std::int32_t>(position & 255)};
}

/// The mean of four cells, weighted in 256ths along both axes; exact until the one rounding.
///
///     top = a·(256 - x) + b·x,  bottom = c·(256 - x) + d·x,  y = SH_R(top·(256 - y) + bottom·y, 16)
///
/// @param a, b, c, d  int8 or int16 codes: upper left, upper right, lower left, lower right
/// @param x, y        weights of the right and of the lower cells, 0 … 255
///
/// Result   exact: sums and differences may wrap, their result is below 2^31 in magnitude
template <Lanes L>
INTQ_ALWAYS_INLINE constexpr typename L::i32 bilinear(typename L::i32 a, typename L::i32 b, typename L::i32 c,
                                                      typename L::i32 d, typename L::i32 x,
                                                      typename L::i32 y) noexcept {
    const auto eight = L::set(std::int32_t{8});
    const auto mix = [&](auto low, auto high, auto weight) INTQ_ALWAYS_INLINE_LAMBDA {
        return L::add(L::shift_left(low, eight), L::mul(L::sub(high, low), weight));
    };
    const auto sum = mix(mix(a, b, x), mix(c, d, x), y);
    const auto one = L::set(std::int32_t{1});
    return L::shift_right(L::add(L::shift_right(sum, L::set(std::int32_t{15})), one), one);
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_RESIZE_HPP
