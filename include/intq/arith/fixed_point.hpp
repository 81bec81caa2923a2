// SPDX-License-Identifier: MIT
//
// A real factor as {multiplier, shift}: gemmlowp's and TFLite's fixed point. Layer: arith
// (docs/arithmetic.md section 2.2).
#ifndef INTQ_ARITH_FIXED_POINT_HPP
#define INTQ_ARITH_FIXED_POINT_HPP

#include <cstdint>

#include "intq/arith/ieee.hpp"
#include "intq/arith/rounding.hpp"
#include "intq/core/status.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// real ≈ multiplier · 2^(shift - 31), multiplier in [2^30, 2^31) or 0.
struct QuantizedMultiplier {
    std::int32_t multiplier = 0;
    int shift = 0;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const QuantizedMultiplier&,
                                                        const QuantizedMultiplier&) = default;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Turns a real factor into multiplier and shift.
///
///     (q, shift) = frexp(real);  multiplier = rhaz(q · 2^31);  2^31 becomes 2^30 with shift + 1
///
/// Worked example: a layer with s_in = 0.02, s_w = 0.005 and s_out = 0.04 scales its accumulator by
/// real = 0.02 · 0.005 / 0.04 = 0.0025. frexp returns q = 0.64, shift = -8; multiplier = 0.64 · 2^31 =
/// 1374389535. So acc = 12345 becomes 12345 · 1374389535 / 2^39 = 30.86, rounded to 31.
///
/// @param real  >= 0, finite
/// @return the pair; shift < -31 becomes {0, 0}; shift > 30 saturates to {2^31 - 1, 30};
///         scale_out_of_range for a negative or non-finite value
///
/// Result   relative error below 2^-31, unless the pair saturates or becomes {0, 0}
/// Source   TensorFlow Lite, QuantizeMultiplier; Jacob et al. 2018, section 2.2
constexpr Result<QuantizedMultiplier> quantize_multiplier(double real) noexcept {
    if (!is_finite(real) || real < 0.0)
        return Status{StatusCode::scale_out_of_range, OpKind::requantize, Field::scale_ratio, -1, 0};
    if (real == 0.0) return QuantizedMultiplier{};
    const Frexp parts = frexp(real);
    auto multiplier = static_cast<std::int64_t>(round_half_away(parts.mantissa * 0x1p31));
    int shift = parts.exponent;
    if (multiplier == std::int64_t{1} << 31) {
        multiplier /= 2;
        ++shift;
    }
    if (shift < -31) return QuantizedMultiplier{};
    if (shift > 30) return QuantizedMultiplier{INT32_MAX, 30};
    return QuantizedMultiplier{static_cast<std::int32_t>(multiplier), shift};
}

/// Whether quantize_multiplier() saturates: real is 2^30 or more, after rounding to 31 bits.
/// @pre real is finite and not negative
constexpr bool is_saturated(double real) noexcept { return real >= 0x1p30 * (1.0 - 0x1p-32); }

/// The 16-bit multiplier of the int64 accumulator rule: M16 = (M + 2^15) >> 16, at most 0x7FFF.
constexpr std::int32_t reduce_multiplier_to_16_bits(std::int32_t multiplier) noexcept {
    return multiplier < 0x7FFF0000 ? (multiplier + (1 << 15)) >> 16 : 0x7FFF;
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_FIXED_POINT_HPP
