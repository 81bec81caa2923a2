// SPDX-License-Identifier: MIT
//
// Functions of real numbers from +, -, ·, / alone: the same bits on every machine and with every standard library.
// Layer: arith (docs/arithmetic.md section 4, int8 lookup table).
#ifndef INTQ_ARITH_REAL_FUNCTIONS_HPP
#define INTQ_ARITH_REAL_FUNCTIONS_HPP

#include <cstdint>
#include <limits>

#include "intq/arith/ieee.hpp"
#include "intq/arith/rounding.hpp"

namespace intq::arith {
inline namespace INTQ_ABI {

/// e^x, within 2 ULP; an infinity above 709, and 0 below -708.
///
///     k = rhe(x / ln 2),  r = x - k·ln 2,  e^x = 2^k · (1 + r/1·(1 + r/2·(1 + … r/14)))
constexpr double exponential(double x) noexcept {
    if (x != x) return x;
    if (x > 709.0) return std::numeric_limits<double>::infinity();
    if (x < -708.0) return 0.0;
    const double k = round_half_even(dmul(x, 1.4426950408889634));
    // ln 2 in two parts, so that the product with the first is exact.
    const double r = x - dmul(k, 0x1.62e42feep-1) - dmul(k, 0x1.a39ef35793c76p-33);
    double sum = 1.0;
    for (int n = 14; n >= 1; --n) sum = 1.0 + dmul(sum, r) / n;
    return dmul(sum, power_of_two(static_cast<int>(k)));
}

/// e^x - 1, within 4 ULP.
///
///     x·(1 + x/2·(1 + x/3·(1 + … x/18)))  for |x| <= 1/2
constexpr double exponential_less_one(double x) noexcept {
    if (!(x >= -0.5 && x <= 0.5)) return exponential(x) - 1.0;
    double sum = 1.0;
    for (int n = 18; n >= 2; --n) sum = 1.0 + dmul(sum, x) / n;
    return dmul(sum, x);
}

/// The hyperbolic tangent, within 6 ULP.
///
///     |y| = -t / (2 + t),  t = e^(-2|x|) - 1
constexpr double hyperbolic_tangent(double x) noexcept {
    const double t = exponential_less_one(dmul(-2.0, x < 0.0 ? -x : x)), y = -t / (2.0 + t);
    return x < 0.0 ? -y : y;
}

/// The error function, within 2^-48; 1 from 6 on.
///
///     2/sqrt(pi) · e^(-x²) · x · (1 + 2x²/3·(1 + 2x²/5·(1 + … 2x²/321)))
constexpr double error_function(double x) noexcept {
    if (x >= 6.0) return 1.0;
    if (x <= -6.0) return -1.0;
    const double square = dmul(x, x);
    double sum = 1.0;
    for (int odd = 321; odd >= 3; odd -= 2) sum = 1.0 + dmul(sum, dmul(2.0, square)) / odd;
    return dmul(dmul(1.1283791670955126, exponential(-square)), dmul(x, sum));
}

/// ln x, within 3 ULP; the infinity below for 0, and NaN for less.
///
///     ln(m · 2^e) = e · ln 2 + 2 · (z + z³/3 + z⁵/5 + … z²⁵/25),  z = (m - 1)/(m + 1),  sqrt(1/2) <= m < sqrt(2)
constexpr double natural_log(double x) noexcept {
    if (!(x >= 0.0)) return std::numeric_limits<double>::quiet_NaN();
    if (x == 0.0 || !is_finite(x)) return x == 0.0 ? -std::numeric_limits<double>::infinity() : x;
    Frexp parts = frexp(x);
    if (parts.mantissa < 0.70710678118654752) parts = {parts.mantissa * 2.0, parts.exponent - 1};
    const double z = (parts.mantissa - 1.0) / (parts.mantissa + 1.0);
    const double square = dmul(z, z);
    double sum = 0.0;
    for (int odd = 25; odd >= 1; odd -= 2) sum = dmul(sum, square) + 1.0 / odd;
    return dmul(static_cast<double>(parts.exponent), 0.69314718055994531) + dmul(2.0, dmul(z, sum));
}

/// The nearest double to the square root; NaN below 0.
///
///     x = d · 2^(e - 54), d an integer of 53 or 54 bits and e even;  sqrt(x) = sqrt(d · 2^54) · 2^(e/2 - 54)
constexpr double square_root(double x) noexcept {
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
