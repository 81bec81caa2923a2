// SPDX-License-Identifier: MIT
//
// LSQ: fake-quantize whose scale and zero point learn. The zero point as it is used, and the gradients of one element.
// Layer: arith (docs/arithmetic.md section 1).
#ifndef INTQ_ARITH_LEARNABLE_HPP
#define INTQ_ARITH_LEARNABLE_HPP

#include "intq/arith/quantize.hpp"

namespace intq::arith {
inline namespace INTQ_ABI {

/// The code that a real, learnt zero point stands for, in both passes.
///
///     clamp(rhe(zero_point), quant_min, quant_max);  0 where it is NaN
///
/// @pre quant_min <= 0 <= quant_max, both within ±largest_quantized_code
/// Source  PyTorch's forward pass; its per-tensor backward pass truncates and is not imitated
constexpr std::int32_t learnable_zero_point(float zero_point, std::int64_t quant_min, std::int64_t quant_max) noexcept {
    if (is_nan(zero_point)) return 0;
    const float code = round_half_even(zero_point);
    if (code < static_cast<float>(quant_min)) return static_cast<std::int32_t>(quant_min);
    if (code > static_cast<float>(quant_max)) return static_cast<std::int32_t>(quant_max);
    return static_cast<std::int32_t>(code);
}

/// The contribution of one element to each gradient; for scale and zero point, terms of a sum.
template <Lanes L> struct LearnableTerms { typename L::f32 x, scale, zero_point; };

/// Gradients of y = fake_quantize(x) for lanes that each have their scale and zero point.
///
///     steps, low, high      as LaneQuantizer;  c = clamp(steps, low, high);  inside = low <= steps <= high
///     d(x)          = fmul(dy, 1 inside, else 0)
///     d(scale)      = fmul(fmul(fmul(dy, fma(c, s, -x)), fdiv(1, s)), g) inside, else fmul(fmul(dy, c), g)
///     d(zero_point) = 0 inside, else fmul(fmul(-dy, s), g)
///
/// A NaN is outside with c = 0, where its forward pass puts it.
///
/// @tparam L     scalar_lanes for the specification, the lanes of a backend for a kernel's body
/// @tparam Rule  a FixedQuantizeRule
/// @pre dy is finite; preconditions as LaneQuantizer
///
/// Result   the bits of PyTorch's terms where the rule is the default one
/// Source   Esser et al. 2020; PyTorch _fake_quantize_learnable_per_tensor_affine and _per_channel_affine
template <Lanes L, class Rule> struct LearnableGradient {
    using f32 = typename L::f32;

    LaneQuantizer<L, Rule> quantizer;
    f32 grad_factor;

    INTQ_ALWAYS_INLINE constexpr LearnableTerms<L> terms(f32 x, f32 grad_out) const noexcept {
        const f32 one = L::set(1.0f), minus_one = L::set(-1.0f), zero = L::set(0.0f);
        const f32 steps = quantizer.steps(x), clamped = quantizer.clamp(steps);
        const auto choose = [&](f32 inside, f32 outside) INTQ_ALWAYS_INLINE_LAMBDA {
            return L::choose_inside(steps, quantizer.low, quantizer.high, inside, outside);
        };
        const f32 slope = choose(L::fma(clamped, quantizer.scale, L::mul(x, minus_one)), clamped);
        const f32 shift = L::mul(L::mul(L::mul(grad_out, minus_one), quantizer.scale), grad_factor);
        return {L::mul(grad_out, choose(one, zero)),
                L::mul(L::mul(L::mul(grad_out, slope), choose(quantizer.inverse, one)), grad_factor),
                choose(zero, shift)};
    }
};

/// The three of one element.
constexpr LearnableTerms<scalar_lanes> learnable_gradient(float x, float grad_out, ScaleZeroPoint qparams,
                                                          CodeRange range, float grad_factor,
                                                          QuantizeRule rule = {}) noexcept {
    return with_rule(rule, [&](auto fixed) {
        using Fixed = decltype(fixed);
        return LearnableGradient<scalar_lanes, Fixed>{
            LaneQuantizer<scalar_lanes, Fixed>::make(qparams.scale, qparams.zero_point, range.quant_min,
                                                     range.quant_max),
            grad_factor}
            .terms(x, grad_out);
    });
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_LEARNABLE_HPP
