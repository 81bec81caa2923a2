// SPDX-License-Identifier: MIT
//
// Dynamic quantization: scale and zero point from the range of one tensor, and the real value of an accumulator.
// Layer: arith.
#ifndef INTQ_ARITH_DYNAMIC_QPARAMS_HPP
#define INTQ_ARITH_DYNAMIC_QPARAMS_HPP

#include "intq/arith/quantize.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// The smallest dynamic scale.
inline constexpr float smallest_dynamic_scale = 6.1e-5f;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Scale and zero point of a range for codes 0 … quant_max. The formula differs from qparams_from_range(): the scale is
/// made in double, and the zero point comes from the end of the range whose error is the smaller one.
///
///     n = min(lowest, 0), p = max(highest, 0), s = (p - n) / quant_max, or 0.1 where 1/float32(s) is infinite
///     z = rhe(-n/s) where -|n/s| < quant_max - |p/s|, else rhe(quant_max - p/s); clamped to the codes
///
/// A scale below smallest_dynamic_scale is raised to it, and n and p grow by the same factor.
///
/// @param quant_max  255; 127 for PyTorch's reduce_range
/// @return the pair; not_finite for NaN or infinity; value_out_of_range when lowest > highest
///
/// Result   the bits of PyTorch's ChooseQuantizationParams
/// Source   reference: PyTorch 2.6, ATen/native/quantized/cpu/QuantUtils.h
constexpr Result<ScaleZeroPoint> dynamic_qparams(float lowest, float highest, std::int32_t quant_max) noexcept {
    if (!is_finite(lowest) || !is_finite(highest))
        return Status{StatusCode::not_finite, OpKind::observe, Field::input, 0, 0};
    if (lowest > highest) return Status{StatusCode::value_out_of_range, OpKind::observe, Field::input, 0, 0};
    float low = lowest < 0.0f ? lowest : 0.0f, high = highest > 0.0f ? highest : 0.0f;
    const double steps = quant_max;
    double scale = (static_cast<double>(high) - static_cast<double>(low)) / steps;
    const auto narrow = static_cast<float>(scale);
    if (narrow == 0.0f || !is_finite(fdiv(1.0f, narrow))) scale = 0.1;
    if (scale < static_cast<double>(smallest_dynamic_scale)) {
        const float wide = fmul(smallest_dynamic_scale, static_cast<float>(quant_max));
        const float factor = fdiv(smallest_dynamic_scale, static_cast<float>(scale));
        const bool has_low = low != 0.0f, has_high = high != 0.0f;
        low = !has_low ? low : has_high ? fmul(low, factor) : -wide;
        high = !has_low ? wide : has_high ? fmul(high, factor) : high;
        scale = static_cast<double>(smallest_dynamic_scale);
    }
    const double below = -static_cast<double>(low) / scale, above = static_cast<double>(high) / scale;
    const double real = -below < steps - above ? below : steps - above;
    const double code = real < 0 ? 0 : real > steps ? steps : round_half_even(real);
    return ScaleZeroPoint{static_cast<float>(scale), static_cast<std::int32_t>(code)};
}

/// A linear layer's sum over codes as a real value.
///
///     y = fadd(fmul(float(acc - zero_point·weight_sum), fmul(s_x, s_w)), bias)
///
/// @param acc         sum of x·w over codes, before the zero point is subtracted
/// @param weight_sum  sum of the weight's codes
constexpr float dynamic_output(std::int32_t acc, std::int32_t zero_point, std::int64_t weight_sum, float input_scale,
                               float weight_scale, float bias) noexcept {
    const std::int64_t sum = acc - zero_point * weight_sum;
    return fadd(fmul(static_cast<float>(sum), fmul(input_scale, weight_scale)), bias);
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_DYNAMIC_QPARAMS_HPP
