// SPDX-License-Identifier: MIT
//
// Roundings of real values and of shifts, independent of the rounding mode. Layer: arith
// (docs/arithmetic.md section 0: rhe, rhaz, rhu, SH_F, SH_R).
#ifndef INTQ_ARITH_ROUNDING_HPP
#define INTQ_ARITH_ROUNDING_HPP

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "intq/arith/ieee.hpp"
#include "intq/core/assert.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// How a real value becomes an integer.
enum class Rounding : std::uint8_t { half_even, half_up };

/// How a right shift treats the bits that leave: fl(x / 2^n), or fl(x / 2^n + 1/2).
enum class ShiftRounding : std::uint8_t { floor, half_up };

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

namespace detail {

// From here on every value of the type is an integer.
template <class Real> inline constexpr Real integral_from = Real{0x1p23};
template <> inline constexpr double integral_from<double> = 0x1p52;
// Holds the integers below that; of 32 bits for a float, because small machines convert to 64 in software.
template <class Real> using WholeOf = std::conditional_t<std::same_as<Real, float>, std::int32_t, std::int64_t>;

}  // namespace detail

/// fl(value), for |value| < 2^63 or integral.
template <std::floating_point Real> constexpr Real floor(Real value) noexcept {
    if (!(value < detail::integral_from<Real> && value > -detail::integral_from<Real>)) return value;
    const auto truncated = static_cast<Real>(static_cast<detail::WholeOf<Real>>(value));
    return truncated > value ? truncated - Real{1} : truncated;
}

/// Nearest integer, ties to even; NaN and infinities pass through.
template <std::floating_point Real> constexpr Real round_half_even(Real value) noexcept {
    if (!(value < detail::integral_from<Real> && value > -detail::integral_from<Real>)) return value;
    const Real below = floor(value);
    const Real rest = value - below;  // exact
    if (rest < Real{0.5}) return below;
    if (rest > Real{0.5}) return below + Real{1};
    return static_cast<detail::WholeOf<Real>>(below) % 2 == 0 ? below : below + Real{1};
}

/// fl(value + 1/2), exact also where the sum is not representable.
template <std::floating_point Real> constexpr Real round_half_up(Real value) noexcept {
    if (!(value < detail::integral_from<Real> && value > -detail::integral_from<Real>)) return value;
    const Real below = floor(value);
    return value - below >= Real{0.5} ? below + Real{1} : below;
}

/// Nearest integer, ties away from zero.
template <std::floating_point Real> constexpr Real round_half_away(Real value) noexcept {
    return value < Real{0} ? -round_half_up(-value) : round_half_up(value);
}

template <std::floating_point Real> constexpr Real(round)(Real value, Rounding rounding) noexcept {
    return rounding == Rounding::half_even ? round_half_even(value) : round_half_up(value);
}

/// SH_F(value, n) = fl(value / 2^n).
/// @pre 0 <= n < bits of the type
template <std::signed_integral Int> constexpr Int shift_floor(Int value, int n) INTQ_NOEXCEPT {
    INTQ_ASSERT(n >= 0 && n < static_cast<int>(8 * sizeof(Int)));
    return static_cast<Int>(value >> n);
}

/// SH_R(value, n) = fl(value / 2^n + 1/2) over the mathematical integers: cannot overflow.
/// @pre 0 <= n < bits of the type
template <std::signed_integral Int> constexpr Int shift_half_up(Int value, int n) INTQ_NOEXCEPT {
    INTQ_ASSERT(n >= 0 && n < static_cast<int>(8 * sizeof(Int)));
    // The bits that the floor drops round up where the first is set; the sum stays inside the type also for n = 1.
    return n == 0 ? value : static_cast<Int>((value >> n) + ((value >> (n - 1)) & 1));
}

template <std::signed_integral Int> constexpr Int shift(Int value, int n, ShiftRounding rounding) INTQ_NOEXCEPT {
    return rounding == ShiftRounding::floor ? shift_floor(value, n) : shift_half_up(value, n);
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_ROUNDING_HPP
