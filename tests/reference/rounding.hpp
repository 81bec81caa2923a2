// SPDX-License-Identifier: MIT
//
// Oracle, part 1: rounding and single float32 operations.
// Written apart from the library, from docs/arithmetic.md section 0 alone; slow and obvious on purpose.
// Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_ROUNDING_HPP
#define INTQ_TESTS_REFERENCE_ROUNDING_HPP

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace intq_reference {

/// The mathematical integers, as far as anything here needs them.
__extension__ typedef __int128 wide;

/// Thrown exactly where docs/arithmetic.md refuses. A misuse of the oracle itself is std::invalid_argument instead.
class Refused : public std::domain_error {
public:
    using std::domain_error::domain_error;
};

// ---------------------------------------------------------------------------------------------------------------------
// single float32 operations
// The volatile result is stored and read again, so that no compiler flag can merge two of them into one rounding.

/// a · b, rounded once to float32.
inline float fmul(float a, float b) {
    volatile float result = a * b;
    return result;
}

/// a / b, rounded once to float32.
inline float fdiv(float a, float b) {
    volatile float result = a / b;
    return result;
}

/// a + b, rounded once to float32.
inline float fadd(float a, float b) {
    volatile float result = a + b;
    return result;
}

/// The float32 nearest to an integer, ties to even: the conversion float32(acc) of docs/arithmetic.md section 2.1.
/// Done by hand, one rounding: the leading 24 bits, and one more when the rest is above half (or half and odd).
inline float to_float32(wide value) {
    const wide magnitude = value < 0 ? -value : value;
    int dropped = 0;
    wide unit = 1;
    while (magnitude / unit >= (1 << 24)) {
        unit *= 2;
        ++dropped;
    }
    wide kept = magnitude / unit;
    const wide rest = magnitude % unit;
    if (2 * rest > unit || (2 * rest == unit && kept % 2 == 1)) {
        ++kept;
    }
    const float result = std::ldexp(static_cast<float>(static_cast<std::int32_t>(kept)), dropped);
    return value < 0 ? -result : result;
}

/// The smallest float32 that is not below a positive double.
inline float to_float32_rounded_up(double value) {
    float result = static_cast<float>(value);
    if (static_cast<double>(result) < value) {
        result = std::nextafter(result, std::numeric_limits<float>::infinity());
    }
    return result;
}

// ---------------------------------------------------------------------------------------------------------------------
// a real number to an integer; results stay double, so that a caller can clamp before converting

/// rhe: half to even.
inline double round_half_even(double x) {
    const double magnitude = std::fabs(x);
    const double below = std::floor(magnitude);
    const double fraction = magnitude - below;  // exact: both are multiples of the last place of magnitude
    const bool odd = std::fmod(below, 2.0) != 0.0;
    const bool up = fraction > 0.5 || (fraction == 0.5 && odd);
    return std::copysign(up ? below + 1.0 : below, x);
}

/// rhaz: half away from zero.
inline double round_half_away(double x) {
    const double magnitude = std::fabs(x);
    const double below = std::floor(magnitude);
    return std::copysign(magnitude - below >= 0.5 ? below + 1.0 : below, x);
}

/// rhu: floor(x + 1/2) of the real number x; the sum itself is never rounded.
inline double round_half_up(double x) {
    const double magnitude = std::fabs(x);
    const double below = std::floor(magnitude);
    const double fraction = magnitude - below;
    const bool away = x < 0.0 ? fraction > 0.5 : fraction >= 0.5;
    return std::copysign(away ? below + 1.0 : below, x);
}

/// An integral double as an integer; values beyond ±2^100 become ±2^100, which no range here contains.
inline wide to_wide(double integral) {
    if (std::isnan(integral)) {
        throw Refused("not a number where an integer is needed");
    }
    const double limit = std::ldexp(1.0, 100);
    if (integral >= limit) {
        return wide{1} << 100;
    }
    if (integral <= -limit) {
        return -(wide{1} << 100);
    }
    return static_cast<wide>(integral);
}

// ---------------------------------------------------------------------------------------------------------------------
// integers

/// 2^n, n >= 0.
inline wide power_of_two(int n) {
    if (n < 0 || n > 120) {
        throw std::invalid_argument("power_of_two: exponent " + std::to_string(n));
    }
    wide result = 1;
    for (int i = 0; i < n; ++i) {
        result *= 2;
    }
    return result;
}

/// floor(a / b), b > 0.
inline wide floor_divide(wide a, wide b) {
    const wide quotient = a / b;
    return a % b < 0 ? quotient - 1 : quotient;
}

/// SH_F(x, n) = floor(x / 2^n).
inline wide shift_floor(wide x, int n) { return floor_divide(x, power_of_two(n)); }

/// SH_R(x, n) = floor(x / 2^n + 1/2).
inline wide shift_half_up(wide x, int n) { return floor_divide(2 * x + power_of_two(n), 2 * power_of_two(n)); }

/// x / n, n > 0, half away from zero.
inline wide divide_half_away(wide x, wide n) {
    const wide magnitude = x < 0 ? -x : x;
    const wide rounded = (2 * magnitude + n) / (2 * n);
    return x < 0 ? -rounded : rounded;
}

inline wide clamp(wide x, wide lowest, wide highest) { return x < lowest ? lowest : (x > highest ? highest : x); }

/// Number of bits of |x|; 0 has none.
inline int bit_length(wide x) {
    wide magnitude = x < 0 ? -x : x;
    int bits = 0;
    for (; magnitude > 0; magnitude /= 2) {
        ++bits;
    }
    return bits;
}

inline bool fits_signed(wide x, int bits) { return x >= -power_of_two(bits - 1) && x < power_of_two(bits - 1); }

/// clamp_b: saturation to signed b bits.
inline wide clamp_bits(wide x, int bits) { return clamp(x, -power_of_two(bits - 1), power_of_two(bits - 1) - 1); }

inline std::int64_t to_int64(wide x) {
    if (!fits_signed(x, 64)) {
        throw std::logic_error("oracle: an intermediate value left 64 bits");
    }
    return static_cast<std::int64_t>(x);
}

/// Decimal text of any integer, for messages.
inline std::string to_text(wide x) {
    std::string digits;
    wide magnitude = x < 0 ? -x : x;
    do {
        digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(magnitude % 10)));
        magnitude /= 10;
    } while (magnitude > 0);
    return x < 0 ? "-" + digits : digits;
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_ROUNDING_HPP
