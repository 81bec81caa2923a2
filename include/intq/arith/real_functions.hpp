// SPDX-License-Identifier: MIT
//
// exp, expm1, tanh, erf, log, log1p and sqrt in binary64, made of sums, products and quotients that are each rounded
// once: the same bits on every machine and with every standard library, also where denormal numbers are flushed to
// zero. Layer: arith (docs/arithmetic.md section 4, int8 lookup table).
#ifndef INTQ_ARITH_REAL_FUNCTIONS_HPP
#define INTQ_ARITH_REAL_FUNCTIONS_HPP

#include <array>
#include <cstdint>
#include <limits>

#include "intq/arith/ieee.hpp"
#include "intq/arith/rounding.hpp"

namespace intq::arith {
inline namespace INTQ_ABI {

namespace detail {

inline constexpr double positive_infinity = std::numeric_limits<double>::infinity();

/// ln 2 in two parts; the first has 32 bits, so that its products with exponents are exact.
inline constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;

/// [k] = 1 / k!
inline constexpr std::array<double, 17> inverse_factorials = [] {
    std::array<double, 17> inverses{1.0};
    double factorial = 1.0;
    for (std::size_t k = 1; k < inverses.size(); ++k) inverses[k] = 1.0 / (factorial *= static_cast<double>(k));
    return inverses;
}();

/// (e^r - 1 - r) / r² = 1/2! + r/3! + … + r^14/16!, for |r| <= 1/2
constexpr double exp_rest(double r) noexcept {
    double sum = inverse_factorials.back();
    for (std::size_t k = inverse_factorials.size() - 1; k-- > 2;) sum = dmul(sum, r) + inverse_factorials[k];
    return sum;
}

}  // namespace detail

/// e^x
///
///     k = rhe(x / ln 2),  r = x - k·ln 2,  e^x = 2^k · (1 + (r + r²·(1/2! + r/3! + … + r^14/16!)))
///
/// Result   within 2 ULP; an infinity above 709, and 0 below -708
constexpr double real_exp(double x) noexcept {
    if (x != x) return x;
    if (x > 709.0) return detail::positive_infinity;
    if (x < -708.0) return 0.0;
    const double k = round_half_even(dmul(x, 1.4426950408889634));
    const double r = x - dmul(k, detail::ln2_high) - dmul(k, detail::ln2_low);
    const double power = 1.0 + (r + dmul(dmul(r, r), detail::exp_rest(r)));
    return dmul(power, power_of_two(static_cast<int>(k)));
}

/// e^x - 1, also where x is small.
///
///     x + x²·(1/2! + x/3! + … + x^14/16!)  for |x| <= 1/2
///
/// Result   within 4 ULP
constexpr double real_expm1(double x) noexcept {
    if (!(x >= -0.5 && x <= 0.5)) return real_exp(x) - 1.0;
    return x + dmul(dmul(x, x), detail::exp_rest(x));
}

/// The hyperbolic tangent.
///
///     |y| = -t / (2 + t),  t = e^(-2|x|) - 1
///
/// Result   within 6 ULP
constexpr double real_tanh(double x) noexcept {
    const double t = real_expm1(dmul(-2.0, x < 0.0 ? -x : x)), y = -t / (2.0 + t);
    return x < 0.0 ? -y : y;
}

/// The error function: 2/√π times the integral of e^(-t²) from 0 to x.
///
///     2/√π · e^(-x²) · x · (1 + 2x²/3·(1 + 2x²/5·(1 + … 2x²/(2n+1)))),  n = 20 + fl(4x²)
///
/// Result   within 2^-48; 1 from 6 on
/// Cost     n quotients, one after the other
/// Source   Abramowitz and Stegun, 7.1.6
constexpr double real_erf(double x) noexcept {
    if (x != x) return x;
    if (x >= 6.0) return 1.0;
    if (x <= -6.0) return -1.0;
    const double square = dmul(x, x);
    double sum = 1.0;
    for (int n = 20 + static_cast<int>(4.0 * square); n >= 1; --n)
        sum = 1.0 + dmul(sum, dmul(2.0, square)) / static_cast<double>(2 * n + 1);
    return dmul(dmul(1.1283791670955126, real_exp(-square)), dmul(x, sum));
}

/// ln x; minus infinity for 0, NaN for less.
///
///     ln(m · 2^e) = e · ln 2 + 2 · (z + z³/3 + z⁵/5 + … z²⁵/25),  z = (m - 1)/(m + 1),  √(1/2) <= m < √2
///
/// Result   within 3 ULP
constexpr double real_log(double x) noexcept {
    if (!(x >= 0.0)) return std::numeric_limits<double>::quiet_NaN();
    if (x == 0.0 || !is_finite(x)) return x == 0.0 ? -detail::positive_infinity : x;
    Frexp parts = frexp(x);
    if (parts.mantissa < 0.70710678118654752) parts = {parts.mantissa * 2.0, parts.exponent - 1};
    const double z = (parts.mantissa - 1.0) / (parts.mantissa + 1.0);
    const double square = dmul(z, z);
    double sum = 0.0;
    for (int odd = 25; odd >= 1; odd -= 2) sum = dmul(sum, square) + 1.0 / odd;
    return dmul(static_cast<double>(parts.exponent), 0.69314718055994531) + dmul(2.0, dmul(z, sum));
}

/// ln(1 + x) for x from 0 to 1, also where x is small.
///
///     u = fl(1 + x),  ln(u)·x/(u - 1); x itself where u is 1
///
/// Result   within 5 ULP
/// Source   W. Kahan: the error of u cancels in the quotient
constexpr double real_log1p(double x) noexcept {
    const double u = 1.0 + x;
    return u == 1.0 ? x : dmul(real_log(u), x / (u - 1.0));
}

/// The nearest double to the square root; NaN below 0.
///
///     x = d · 2^(e - 54), d an integer of 53 or 54 bits and e even;  √x = √(d · 2^54) · 2^(e/2 - 54)
constexpr double real_sqrt(double x) noexcept {
    if (!(x >= 0.0)) return std::numeric_limits<double>::quiet_NaN();
    if (x == 0.0 || !is_finite(x)) return x;
    const Frexp parts = frexp(x);
    const bool is_odd = parts.exponent % 2 != 0;
    auto digits = static_cast<std::uint64_t>(parts.mantissa * (is_odd ? 0x1p53 : 0x1p54)) << 10;
    // Two bits of the radicand, one bit of the root: 53 for the result, and one that rounds. No root is a tie.
    std::uint64_t root = 0, rest = 0;
    for (int bit = 0; bit < 54; ++bit) {
        rest = rest << 2 | digits >> 62;
        digits <<= 2;
        const std::uint64_t step = root << 2 | 1;
        root <<= 1;
        if (rest >= step) {
            rest -= step;
            root |= 1;
        }
    }
    const int exponent = is_odd ? parts.exponent + 1 : parts.exponent;
    return static_cast<double>((root + 1) >> 1) * power_of_two(exponent / 2 - 53);
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_REAL_FUNCTIONS_HPP
