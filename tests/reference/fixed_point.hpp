// SPDX-License-Identifier: MIT
//
// Oracle, part 2: the integer multipliers and rounding shifts of docs/arithmetic.md sections 2.2 and 2.3.
// Everything is evaluated over the mathematical integers; nothing can overflow.
// Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_FIXED_POINT_HPP
#define INTQ_TESTS_REFERENCE_FIXED_POINT_HPP

#include <cmath>
#include <cstdint>

#include "rounding.hpp"

namespace intq_reference {

// ---------------------------------------------------------------------------------------------------------------------
// gemmlowp's two operations

/// SRDHM(a, b) = floor((a·b + 2^30) / 2^31), and 2^31 - 1 for the one product that does not fit.
inline wide saturating_rounding_doubling_high_mul(wide a, wide b) {
    if (!fits_signed(a, 32) || !fits_signed(b, 32)) {
        throw std::logic_error("oracle: SRDHM is defined on int32");
    }
    return clamp_bits(floor_divide(a * b + power_of_two(30), power_of_two(31)), 32);
}

/// RDBPOT(x, n) = x / 2^n, half away from zero.
inline wide rounding_divide_by_power_of_two(wide x, int n) { return divide_half_away(x, power_of_two(n)); }

// ---------------------------------------------------------------------------------------------------------------------
// a positive real number as multiplier and shift

inline void refuse_unless_positive_and_finite(double r, const char* what) {
    if (!(r > 0.0) || std::isinf(r)) {
        throw Refused(std::string(what) + " must be positive and finite, got " + std::to_string(r));
    }
}

/// r = multiplier · 2^(shift - 31), docs/arithmetic.md section 2.2.
struct TfliteMultiplier {
    wide multiplier = 0;
    int shift = 0;
};

/// The multiplier as section 2.2 makes it.
/// @param single_rounding  true also applies the cap of a shift above 30; double rounding refuses there instead
inline TfliteMultiplier make_tflite_multiplier(double r, bool single_rounding) {
    refuse_unless_positive_and_finite(r, "tflite multiplier");
    TfliteMultiplier result;
    const double mantissa = std::frexp(r, &result.shift);
    result.multiplier = to_wide(round_half_away(std::ldexp(mantissa, 31)));
    if (result.multiplier == power_of_two(31)) {
        result.multiplier /= 2;
        result.shift += 1;
    }
    if (result.shift < -31) {
        result.multiplier = 0;
        result.shift = 0;
    }
    if (result.shift > 30) {
        if (!single_rounding) {
            throw Refused("tflite double rounding needs a shift of at most 30, got " + std::to_string(result.shift));
        }
        result.shift = 30;
        result.multiplier = power_of_two(31) - 1;
    }
    return result;
}

/// RDBPOT(SRDHM(acc·2^max(shift, 0), M), max(-shift, 0)); refused where acc·2^shift leaves int32.
inline wide multiply_double_rounding(wide acc, const TfliteMultiplier& m) {
    const int left = m.shift > 0 ? m.shift : 0;
    const int right = m.shift < 0 ? -m.shift : 0;
    const wide shifted = acc * power_of_two(left);
    if (!fits_signed(shifted, 32)) {
        throw Refused("tflite double rounding: " + to_text(acc) + " * 2^" + std::to_string(left) + " leaves int32");
    }
    return rounding_divide_by_power_of_two(saturating_rounding_doubling_high_mul(shifted, m.multiplier), right);
}

/// (acc·M + 2^(30 - shift)) >> (31 - shift).
inline wide multiply_single_rounding(wide acc, const TfliteMultiplier& m) {
    return floor_divide(acc * m.multiplier + power_of_two(30 - m.shift), power_of_two(31 - m.shift));
}

/// M16 = M < 0x7FFF0000 ? (M + 2^15) >> 16 : 0x7FFF.
inline wide reduce_to_16_bits(wide multiplier) {
    return multiplier < 0x7FFF0000 ? floor_divide(multiplier + power_of_two(15), power_of_two(16)) : 0x7FFF;
}

/// (acc·M16 + 2^(14 - shift)) >> (15 - shift); refused outside -31 <= shift <= 7 and |acc| < 2^47.
inline wide multiply_int64_accumulator(wide acc, const TfliteMultiplier& m) {
    if (m.shift < -31 || m.shift > 7) {
        throw Refused("tflite int16: shift " + std::to_string(m.shift) + " is outside -31..7");
    }
    if (acc <= -power_of_two(47) || acc >= power_of_two(47)) {
        throw Refused("tflite int16: accumulator " + to_text(acc) + " needs |acc| < 2^47");
    }
    const wide product = acc * reduce_to_16_bits(m.multiplier);
    return floor_divide(product + power_of_two(14 - m.shift), power_of_two(15 - m.shift));
}

/// r = multiplier · 2^-shift with a multiplier of at most 15 bits, docs/arithmetic.md sections 2.3 and 3 step 3.
struct BpuMultiplier {
    wide multiplier = 0;
    int shift = 0;  // rs of section 2.3, n of section 3 step 3; may be negative for a large r
};

/// (m, e) = frexp(r), multiplier = min(floor(m·2^15 + 1/2), 32767), shift = 15 - e.
inline BpuMultiplier make_bpu_multiplier(double r) {
    int exponent = 0;
    const double mantissa = std::frexp(r, &exponent);
    BpuMultiplier result;
    result.multiplier = clamp(to_wide(round_half_up(std::ldexp(mantissa, 15))), 0, 32767);
    result.shift = 15 - exponent;
    return result;
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_FIXED_POINT_HPP
