// SPDX-License-Identifier: MIT
//
// multiply_by_quantized_multiplier: an integer times a multiplier and a shift, by each rule of TFLite. Layer: arith
// (docs/arithmetic.md section 2.2).
//
// For an engine with its own multipliers and shifts, and for its tests. kernels::GivenRequantize brings them
// into a convolution.
#ifndef INTQ_ARITH_QUANTIZED_MULTIPLIER_HPP
#define INTQ_ARITH_QUANTIZED_MULTIPLIER_HPP

#include <cstdint>
#include <type_traits>

#include "intq/arith/requantize.hpp"
#include "intq/core/assert.hpp"

namespace intq::arith {
inline namespace INTQ_ABI {

/// x·multiplier·2^(shift - 31), rounded once or twice.
///
///     single_rounding  (x·M + 2^(30-shift)) >> (31-shift)
///     double_rounding  RDBPOT(SRDHM(x·2^max(shift,0), M), max(-shift,0))
///
/// Worked example: x = 7 with multiplier 1717986918 and shift -2, a factor of 0.2. Single rounding yields
/// (7·1717986918 + 2^32) >> 33 = 1. Double rounding first rounds 5.6 to SRDHM(7, 1717986918) = 6, and then 1.5 to
/// RDBPOT(6, 2) = 2.
///
///     multiply_by_quantized_multiplier<single_rounding>(7, 1717986918, -2) == 1
///     multiply_by_quantized_multiplier<double_rounding>(7, 1717986918, -2) == 2
///
/// @tparam RoundingRule  double_rounding: TFLite Micro and CMSIS-NN by default; single_rounding: both, if built with
///                       their option for it
/// @param multiplier     not negative
/// @param shift          to the left, -31 … 30
/// @pre   double_rounding: x·2^shift fits 32 bits
///
/// Result   single_rounding saturates to 32 bits
/// Source   TensorFlow Lite, MultiplyByQuantizedMultiplier
template <class RoundingRule>
constexpr std::int32_t multiply_by_quantized_multiplier(std::int32_t x, std::int32_t multiplier,
                                                        int shift) INTQ_NOEXCEPT {
    static_assert(std::is_same_v<RoundingRule, single_rounding> || std::is_same_v<RoundingRule, double_rounding>,
                  "multiply_by_quantized_multiplier<RoundingRule>(x, multiplier, shift): RoundingRule must be "
                  "arith::single_rounding or arith::double_rounding");
    INTQ_ASSERT(multiplier >= 0 && shift >= -31 && shift <= 30);
    using Policy = fixed_point<RoundingRule>;
    const auto channel = Policy::template set<scalar_lanes>(Policy::make({multiplier, shift}));
    if constexpr (std::is_same_v<RoundingRule, single_rounding>) {
        return Policy::template rounded<scalar_lanes>(x, channel);
    } else {
        INTQ_ASSERT(shift <= 0 || std::int64_t{scalar_lanes::shift_left(x, shift)} == std::int64_t{x} << shift);
        return Policy::template scaled<scalar_lanes>(x, channel, OutputLanes<scalar_lanes>(OutputCodes{}));
    }
}

/// The rule for 64-bit sums (int16 activations): a multiplier of 16 bits, and one rounding.
///
///     M16 = M < 0x7FFF0000 ? (M + 2^15) >> 16 : 0x7FFF,  (x·M16 + 2^(14-shift)) >> (15-shift)
///
/// Worked example: x = 7654321 with multiplier 1374389535 and shift -8, a factor of 0.0025. M16 = 20972, and
/// (7654321·20972 + 2^22) >> 23 = 19136.
///
///     multiply_by_quantized_multiplier(std::int64_t{7654321}, 1374389535, -8) == 19136
///
/// @param multiplier  not negative
/// @param shift       to the left, -31 … 7
/// @pre   |x| < 2^47
///
/// Result   saturates to 32 bits
/// Source   TensorFlow Lite, MultiplyByQuantizedMultiplier of int64
constexpr std::int32_t multiply_by_quantized_multiplier(std::int64_t x, std::int32_t multiplier,
                                                        int shift) INTQ_NOEXCEPT {
    INTQ_ASSERT(multiplier >= 0 && shift >= -31 && shift <= 7);
    INTQ_ASSERT(x > -(std::int64_t{1} << 47) && x < std::int64_t{1} << 47);
    const auto channel = wide_fixed_point::set<scalar_lanes>(wide_fixed_point::make({multiplier, shift}));
    return wide_fixed_point::scaled<scalar_lanes>(x, channel, OutputLanes<scalar_lanes>(OutputCodes{}));
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_QUANTIZED_MULTIPLIER_HPP
