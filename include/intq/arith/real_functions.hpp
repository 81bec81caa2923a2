// SPDX-License-Identifier: MIT
//
// exp, expm1, log, tanh and erf in binary64, with the same bits on every machine: sums and products in a fixed order,
// each rounded by itself. Layer: arith (docs/design.md section 8).
//
// The functions of a math library differ in their last bit between libraries, and between CPUs with and without FMA.
#ifndef INTQ_ARITH_REAL_FUNCTIONS_HPP
#define INTQ_ARITH_REAL_FUNCTIONS_HPP

#include <limits>

#include "intq/arith/ieee.hpp"

namespace intq::arith {
inline namespace INTQ_ABI {

namespace detail {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
/// ln 2 in two parts; the first has 32 bits, so that its products with exponents are exact.
inline constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;

/// (e^r - 1 - r) / r^2 for |r| <= 0.36: the Taylor series, whose rest is below 2^-57.
constexpr double exp_rest(double r) noexcept {
    double sum = 0.0, factor = 1.0;
    double inverse[16] = {};  // 1 / k!
    for (int k = 1; k < 16; ++k) inverse[k] = 1.0 / (factor *= static_cast<double>(k));
    for (int k = 15; k >= 2; --k) sum = dmul(sum, r) + inverse[k];
    return sum;
}

/// x = n · ln 2 + high - low, |high - low| <= 0.35
struct ExpArgument {
    int n;
    double high, low;
};
constexpr ExpArgument reduce_exp(double x) noexcept {
    const double quotient = dmul(x, 1.44269504088896340736);
    const auto n = static_cast<int>(quotient + (quotient < 0.0 ? -0.5 : 0.5));
    return {n, x - dmul(n, ln2_high), dmul(n, ln2_low)};
}

}  // namespace detail

/// e^x
///
/// Result   within 2 units of the last place where that is normal
constexpr double real_exp(double x) noexcept {
    if (!(x > -746.0)) return x < 0.0 ? 0.0 : x;  // NaN stays
    if (x > 709.79) return detail::infinity;
    const detail::ExpArgument argument = detail::reduce_exp(x);
    const double r = argument.high - argument.low;
    const double near_one = 1.0 + (r + dmul(dmul(r, r), detail::exp_rest(r)));
    // In two steps, because 2^n alone may lie outside of the range.
    const int half = argument.n / 2;
    return dmul(dmul(near_one, power_of_two(half)), power_of_two(argument.n - half));
}

/// e^x - 1, also where x is small.
///
/// Result   within 4 units of the last place
constexpr double real_expm1(double x) noexcept {
    if (x > 0.35 || x < -0.35) return real_exp(x) - 1.0;
    return x + dmul(dmul(x, x), detail::exp_rest(x));  // NaN stays
}

/// tanh(x)
///
/// Result   within 8 units of the last place
constexpr double real_tanh(double x) noexcept {
    if (x == 0.0) return x;
    if (x < 0.0) return -real_tanh(-x);
    if (x > 22.0) return 1.0;
    const double e = real_expm1(dmul(-2.0, x));
    return -e / (e + 2.0);
}

/// ln(x); -infinity of 0, NaN below.
///
///     x = m · 2^n, 1/√2 <= m < √2;  ln m = 2·(s + s^3/3 + s^5/5 + …),  s = (m - 1) / (m + 1)
///
/// Result   within 4 units of the last place
constexpr double real_log(double x) noexcept {
    if (x == 0.0) return -detail::infinity;
    if (!(x > 0.0)) return std::numeric_limits<double>::quiet_NaN();
    if (!is_finite(x)) return x;
    Frexp parts = frexp(x);
    if (parts.mantissa < 0.70710678118654752440) parts = {2.0 * parts.mantissa, parts.exponent - 1};
    const double f = parts.mantissa - 1.0, s = f / (2.0 + f), square = dmul(s, s);
    double sum = 0.0;
    for (int k = 27; k >= 3; k -= 2) sum = dmul(sum, square) + 1.0 / static_cast<double>(k);
    const double rest = dmul(dmul(2.0, s), dmul(sum, square));
    const auto n = static_cast<double>(parts.exponent);
    return dmul(n, detail::ln2_high) + (dmul(2.0, s) + (rest + dmul(n, detail::ln2_low)));
}

/// 2/√π · the integral of e^(-t²) from 0 to x.
///
///     |x| < 2:  2/√π · e^(-x²) · (x + 2x^3/3 + 4x^5/15 + …)
///     else:     1 - e^(-x²) / √π / (x + (1/2)/(x + (2/2)/(x + (3/2)/(x + …))))
///
/// Result   within 16 units of the last place
/// Source   Abramowitz and Stegun, 7.1.6 and 7.1.14
constexpr double real_erf(double x) noexcept {
    if (x < 0.0) return -real_erf(-x);
    if (x > 6.0) return 1.0;
    const double square = dmul(x, x), power = real_exp(-square);
    if (!(x >= 2.0)) {
        double term = x, sum = x;
        for (int k = 3; k < 90; k += 2) sum += term = dmul(term, dmul(2.0, square)) / static_cast<double>(k);
        return dmul(dmul(1.12837916709551257390, power), sum);
    }
    double fraction = x;
    for (int k = 60; k >= 1; --k) fraction = x + dmul(0.5, static_cast<double>(k)) / fraction;
    return 1.0 - dmul(power, 0.56418958354775628695) / fraction;
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_REAL_FUNCTIONS_HPP
