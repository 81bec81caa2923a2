// SPDX-License-Identifier: MIT
//
// Scale from a range; quantize, dequantize and fake-quantize of one value or one vector. Layer: arith
// (docs/arithmetic.md section 1).
#ifndef INTQ_ARITH_QUANTIZE_HPP
#define INTQ_ARITH_QUANTIZE_HPP

#include <cstdint>

#include "intq/arith/ieee.hpp"
#include "intq/arith/lanes.hpp"
#include "intq/arith/rounding.hpp"
#include "intq/core/qparams.hpp"
#include "intq/core/status.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

// --- from a range to scale and zero point ---------------------------------------------------------------------

/// Where the codes of a range lie: symmetric keeps the real 0 at a fixed code, affine places it.
enum class QuantScheme : std::uint8_t { symmetric, affine };

/// The divisor of a symmetric range's largest magnitude.
enum class SymmetricDivisor : std::uint8_t {
    half_of_codes,  // (qmax - qmin)/2
    highest_code    // qmax
};

/// The codes and the divisor of a symmetric range whose codes were not specified.
enum class SymmetricScheme : std::uint8_t {
    full_range,    // all codes of the type, divisor (qmax - qmin)/2: 127.5, 32767.5
    narrow_range,  // -qmax … qmax, divisor qmax: 127
    all_codes      // all codes of the type, divisor qmax: 32767
};

/// How a range becomes scale and zero point.
struct RangeRule {
    std::int64_t quant_min = INT8_MIN;
    std::int64_t quant_max = INT8_MAX;
    QuantScheme scheme = QuantScheme::symmetric;
    /// Zero point of the symmetric scheme: 0, except where PyTorch's unsigned types are imitated.
    std::int32_t symmetric_zero_point = 0;
    float smallest_scale = 0x1p-23f;
    SymmetricDivisor divisor = SymmetricDivisor::half_of_codes;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const RangeRule&, const RangeRule&) = default;
};

struct ScaleZeroPoint {
    float scale = 1.0f;
    std::int32_t zero_point = 0;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const ScaleZeroPoint&, const ScaleZeroPoint&) = default;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Zero point that PyTorch's symmetric observers use: 0 for signed types; for uint8 128, and the middle of a
/// range that the user gave.
constexpr std::int32_t torch_symmetric_zero_point(DType dtype, std::int64_t quant_min, std::int64_t quant_max,
                                                  bool custom_range) noexcept {
    if (dtype != DType::uint8) return 0;
    return custom_range ? static_cast<std::int32_t>((quant_min + quant_max) / 2) : 128;
}

/// Checks a rule against the type of the codes.
///
/// @return ok; value_out_of_range of quant_range (not quant_min <= 0 <= quant_max, empty, not in the dtype, or a
///         divisor that is 0) or of zero_point; the errors of check_scale() for the smallest scale
constexpr Status check_range_rule(const RangeRule& rule, DType dtype, OpKind op = OpKind::observe) noexcept {
    if (rule.quant_min < lowest_code(dtype) || rule.quant_min > 0 || rule.quant_min >= rule.quant_max)
        return {StatusCode::value_out_of_range, op, Field::quant_range, rule.quant_min, lowest_code(dtype)};
    const std::int64_t least = rule.divisor == SymmetricDivisor::highest_code ? 1 : 0;
    if (rule.quant_max < least || rule.quant_max > highest_code(dtype))
        return {StatusCode::value_out_of_range, op, Field::quant_range, rule.quant_max, highest_code(dtype)};
    if (rule.symmetric_zero_point < rule.quant_min || rule.symmetric_zero_point > rule.quant_max)
        return {StatusCode::value_out_of_range, op, Field::zero_point, rule.symmetric_zero_point, 0};
    return check_scale(rule.smallest_scale, op);
}

/// Scale and zero point of a range.
///
///     n = min(lowest, 0), p = max(highest, 0)
///     symmetric:  s = max(fdiv(max(-n, p), float((qmax - qmin)/2 or qmax)), smallest), as rule.divisor says
///     affine:     s = max(fdiv(fadd(p, -n), float(qmax - qmin)), smallest)
///                 zp = clamp(qmin - rhe(fdiv(n, s)), qmin, qmax)
///
/// @pre check_range_rule() accepted the rule
/// @return the pair; not_finite for NaN or infinity; value_out_of_range when lowest > highest;
///         scale_out_of_range when the width of an affine range is not a float. `given` is left 0 for a channel
///
/// Result   the bits of PyTorch's observers
/// Source   reference: PyTorch 2.6, observers' calculate_qparams
constexpr Result<ScaleZeroPoint> qparams_from_range(float lowest, float highest, const RangeRule& rule = {}) noexcept {
    if (!is_finite(lowest) || !is_finite(highest))
        return Status{StatusCode::not_finite, OpKind::observe, Field::input, 0, 0};
    if (lowest > highest) return Status{StatusCode::value_out_of_range, OpKind::observe, Field::input, 0, 0};
    const float negative = lowest < 0.0f ? lowest : 0.0f;
    const float positive = highest > 0.0f ? highest : 0.0f;
    const bool symmetric = rule.scheme == QuantScheme::symmetric;
    const auto steps = static_cast<double>(rule.quant_max - rule.quant_min);
    const float width = symmetric ? (-negative > positive ? -negative : positive) : fadd(positive, -negative);
    const double half =
        rule.divisor == SymmetricDivisor::highest_code ? static_cast<double>(rule.quant_max) : steps / 2;
    float scale = fdiv(width, static_cast<float>(symmetric ? half : steps));
    if (!is_finite(scale)) return Status{StatusCode::scale_out_of_range, OpKind::observe, Field::scale, 0, 0};
    if (scale < rule.smallest_scale) scale = rule.smallest_scale;
    if (symmetric) return ScaleZeroPoint{scale, rule.symmetric_zero_point};
    std::int64_t zero_point = rule.quant_min - static_cast<std::int64_t>(round_half_even(fdiv(negative, scale)));
    if (zero_point < rule.quant_min) zero_point = rule.quant_min;
    if (zero_point > rule.quant_max) zero_point = rule.quant_max;
    return ScaleZeroPoint{scale, static_cast<std::int32_t>(zero_point)};
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

// --- quantize, dequantize, fake-quantize ------------------------------------------------------------------------

/// x · (1/s), as PyTorch, or x / s, as ONNX QuantizeLinear: they differ where a quotient is near a tie.
enum class QuantizeBy : std::uint8_t { reciprocal, divide };

/// The part of a target's policy that turns real values into codes.
struct QuantizeRule {
    Rounding rounding = Rounding::half_even;
    QuantizeBy by = QuantizeBy::reciprocal;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const QuantizeRule&, const QuantizeRule&) = default;
};

/// The rule of ONNX's QuantizeLinear.
inline constexpr QuantizeRule onnx_quantize_rule{Rounding::half_even, QuantizeBy::divide};

/// A QuantizeRule as a type, so that no loop tests it.
template <Rounding Round, QuantizeBy By> struct FixedQuantizeRule { static constexpr QuantizeRule value{Round, By}; };

/// Codes and their distance from the zero point are exact in binary32 up to here. This bounds the range of codes that
/// quantize and fake-quantize take.
inline constexpr std::int64_t largest_quantized_code = std::int64_t{1} << 23;

/// The range of codes for one value.
struct CodeRange {
    std::int64_t quant_min = INT8_MIN;
    std::int64_t quant_max = INT8_MAX;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// The formulas of quantize and fake-quantize for lanes that each have their scale and zero point.
///
///     steps = R(fmul(x, fdiv(1, s)))                            or R(fdiv(x, s))
///     q     = clamp(steps, qmin - zp, qmax - zp) + zp           = clamp(steps + zp, qmin, qmax); NaN gives zp
///     y     = fmul(float(q - zp), s)
///     dx    = fmul(dy, 1 where qmin <= steps + zp <= qmax, else 0)
///
/// @tparam L     scalar_lanes for the specification, the lanes of a backend for a kernel's body
/// @tparam Rule  a FixedQuantizeRule
/// @pre quant_min, quant_max and zero point within ±largest_quantized_code: then every bound is exact
///
/// Result   the bits of PyTorch where the rule is the default one, a zero gradient's sign included
template <Lanes L, class Rule> struct LaneQuantizer {
    using f32 = typename L::f32;
    using i32 = typename L::i32;

    f32 scale, inverse, low, high;
    i32 zero_point;

    static INTQ_ALWAYS_INLINE constexpr LaneQuantizer make(f32 scale, i32 zero_point, std::int64_t quant_min,
                                                           std::int64_t quant_max) noexcept {
        return {scale, L::div(L::set(1.0f), scale),
                L::to_f32(L::sub(L::set(static_cast<std::int32_t>(quant_min)), zero_point)),
                L::to_f32(L::sub(L::set(static_cast<std::int32_t>(quant_max)), zero_point)), zero_point};
    }

    /// The quotient before it is rounded.
    INTQ_ALWAYS_INLINE constexpr f32 real_steps(f32 x) const noexcept {
        if constexpr (Rule::value.by == QuantizeBy::reciprocal) {
            return L::mul(x, inverse);
        } else {
            return L::div(x, scale);
        }
    }

    INTQ_ALWAYS_INLINE constexpr f32 steps(f32 x) const noexcept {
        const f32 real = real_steps(x);
        if constexpr (Rule::value.rounding == Rounding::half_even) {
            return L::round_half_even(real);
        } else {
            // real - fl(real) is exact, except for real in (-1/2, 0), where it rounds to a value in [1/2, 1].
            const f32 below = L::floor(real);
            return L::add(below, L::keep_inside(L::sub(real, below), L::set(0.5f), L::set(1.0f), L::set(1.0f)));
        }
    }

    /// Clamped in float, so that the conversion to an integer is defined for every x.
    INTQ_ALWAYS_INLINE constexpr f32 clamp(f32 steps) const noexcept {
        return (L::min)((L::max)(L::replace_nan(steps, L::set(0.0f)), low), high);
    }

    /// clamp(R(real)), as an integer, which has no negative zero. Bounds that are integers may come before the
    /// rounding; within ±2^24, nothing is left to saturate.
    INTQ_ALWAYS_INLINE constexpr i32 clamped_steps(f32 x) const noexcept {
        if constexpr (Rule::value.rounding == Rounding::half_even) {
            return L::round_small_to_i32(clamp(real_steps(x)));
        } else {
            return L::to_i32(clamp(steps(x)));
        }
    }

    INTQ_ALWAYS_INLINE constexpr i32 quantize(f32 x) const noexcept { return L::add(clamped_steps(x), zero_point); }
    INTQ_ALWAYS_INLINE constexpr f32 fake_quantize(f32 x) const noexcept {
        return L::mul(L::to_f32(clamped_steps(x)), scale);
    }
    INTQ_ALWAYS_INLINE constexpr f32 gradient(f32 x, f32 grad_out) const noexcept {
        return L::mul(grad_out, L::keep_inside(steps(x), low, high, L::set(1.0f)));
    }
};

///     x = fmul(float(q) - float(zp), s)
template <Lanes L>
INTQ_ALWAYS_INLINE constexpr typename L::f32 dequantize_lanes(typename L::i32 code, typename L::i32 zero_point,
                                                              typename L::f32 scale) noexcept {
    return L::mul(L::sub(L::to_f32(code), L::to_f32(zero_point)), scale);
}

/// Calls function(rule) with the FixedQuantizeRule of the value. Inlined, so that a caller with a constant rule
/// compiles only that rule.
template <class Function>
INTQ_ALWAYS_INLINE constexpr decltype(auto) with_rule(QuantizeRule rule, Function&& function) {
    const bool divide = rule.by == QuantizeBy::divide;
    if (rule.rounding == Rounding::half_even) {
        if (divide) return function(FixedQuantizeRule<Rounding::half_even, QuantizeBy::divide>{});
        return function(FixedQuantizeRule<Rounding::half_even, QuantizeBy::reciprocal>{});
    }
    if (divide) return function(FixedQuantizeRule<Rounding::half_up, QuantizeBy::divide>{});
    return function(FixedQuantizeRule<Rounding::half_up, QuantizeBy::reciprocal>{});
}

/// q = clamp(R(x · (1/s)) + zp, qmin, qmax); NaN becomes zp, ±inf the ends. Preconditions as LaneQuantizer.
constexpr std::int32_t quantize(float x, ScaleZeroPoint qparams, CodeRange range = {},
                                QuantizeRule rule = {}) noexcept {
    return with_rule(rule, [&](auto fixed) {
        return LaneQuantizer<scalar_lanes, decltype(fixed)>::make(qparams.scale, qparams.zero_point, range.quant_min,
                                                                  range.quant_max)
            .quantize(x);
    });
}

/// x = fmul(float(q) - float(zp), s)
constexpr float dequantize(std::int32_t code, ScaleZeroPoint qparams) noexcept {
    return dequantize_lanes<scalar_lanes>(code, qparams.zero_point, qparams.scale);
}

/// dequantize(quantize(x))
constexpr float fake_quantize(float x, ScaleZeroPoint qparams, CodeRange range = {}, QuantizeRule rule = {}) noexcept {
    return dequantize(quantize(x, qparams, range, rule), qparams);
}

/// dy where qmin <= R(x · (1/s)) + zp <= qmax, before clamping; 0 · dy elsewhere.
constexpr float fake_quantize_gradient(float x, float grad_out, ScaleZeroPoint qparams, CodeRange range = {},
                                       QuantizeRule rule = {}) noexcept {
    return with_rule(rule, [&](auto fixed) {
        return LaneQuantizer<scalar_lanes, decltype(fixed)>::make(qparams.scale, qparams.zero_point, range.quant_min,
                                                                  range.quant_max)
            .gradient(x, grad_out);
    });
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_QUANTIZE_HPP
