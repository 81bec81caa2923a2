// SPDX-License-Identifier: MIT
//
// Scales, bias and fused add of convolution and linear, computed once, when the operator is made.
// Layer: arith (docs/arithmetic.md section 3, which numbers the steps).
#ifndef INTQ_ARITH_CONV_HPP
#define INTQ_ARITH_CONV_HPP

#include <initializer_list>

#include "intq/arith/codes.hpp"
#include "intq/arith/make_requantize.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// The operand of a fused add ("sumin").
struct SuminOperand {
    float scale = 0.0f;
    std::int32_t zero_point = 0;
    std::int64_t quant_min = INT8_MIN;
    std::int64_t quant_max = INT8_MAX;
};

/// The integers of a fused add (k, right shift, left shift; fp32: the bits of its factor), and the range of its term in
/// the accumulator.
struct Sumin {
    std::array<std::int32_t, 3> words{};
    SumRange range{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Step 0: the smallest weight scale with which bias and sumin stay inside the accumulator.
///
///     max(s_w, (|b| + |qmin_e|·s_e) / (2^h · s_in)), in double, rounded up to float32
///
/// @param sumin  null without a fused add; its term is 0 for fp32, whose sumin is not in the accumulator
/// @pre   s_in > 0
constexpr float raise_weight_scale(const PolicyRecord& policy, float s_w, double bias, float s_in,
                                   const SuminOperand* sumin) noexcept {
    double reach = bias < 0.0 ? -bias : bias;
    if (sumin != nullptr && policy.adds_in_accumulator())
        reach = value_barrier(reach) + dmul(static_cast<double>(-sumin->quant_min), static_cast<double>(sumin->scale));
    const float least = round_up_to_float(reach / (power_of_two(policy.headroom) * static_cast<double>(s_in)));
    return s_w < least ? least : s_w;
}

/// Step 2: the bias in accumulator codes.
///
///     B = rhu(double(b) / (double(s_in)·double(s_w)));  bernoulli2: (B >> ls) << ls, ls = max(0, bitlen(B) - 15)
///
/// @return the code; bias_out_of_range where B leaves the bias type (bernoulli2: bitlen(B) > 30; int64: > 62, so that
///         the proof of the sum has headroom), with expected = the bits
constexpr Result<std::int64_t> quantize_bias(const PolicyRecord& policy, double bias, float s_in, float s_w) noexcept {
    const double exact = round_half_up(bias / (static_cast<double>(s_in) * static_cast<double>(s_w)));
    const int limit = policy.bias == BiasRule::int64 ? 62 : policy.bias == BiasRule::int32 ? 31 : 30;
    if (!(exact < 0x1p62 && exact > -0x1p62))
        return Status{StatusCode::bias_out_of_range, OpKind::conv2d, Field::bias, 0, limit};
    const auto code = static_cast<std::int64_t>(exact);
    const bool fits =
        policy.bias == BiasRule::int32 ? code >= INT32_MIN && code <= INT32_MAX : bit_length(code) <= limit;
    if (!fits) return Status{StatusCode::bias_out_of_range, OpKind::conv2d, Field::bias, 0, limit};
    if (policy.bias != BiasRule::shifted_16_bits) return code;
    const int left = bit_length(code) > 15 ? bit_length(code) - 15 : 0;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(code >> left) << left);
}

namespace detail {

constexpr std::int64_t two_stage_sumin_value(std::int64_t e, std::int64_t k, int right, int left) noexcept {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(shift_half_up(e * k, right)) << left);
}

}  // namespace detail

/// Step 3: the term of a fused add, for a code e of its operand.
///
///     bpu   rho = double(s_e) / (double(s_in)·double(s_w));  (m, x) = frexp(rho);  k = min(fl(m·2^15 + 1/2), 32767)
///           n = 15 - x;  term = SH_R(e·k, min(n, 31)), or (e·k) << -n for n < 0
///     fp32  term = fmul(float32(e - zp_e), fdiv(s_e, s_out)), added after the scaling
///
/// @return the errors of check_scale(), naming the tensor; scale_out_of_range of scale_ratio where max(|qmin_e|,
///         qmax_e)·rho >= 2^31 (2^47 for 64-bit sums) or, for fp32, where a term is infinite; unsupported where the
///         target has no fused add
constexpr Result<Sumin> make_sumin(const PolicyRecord& policy, const SuminOperand& operand, float s_in, float s_w,
                                   float s_out, int accumulator_bits) noexcept {
    if (!policy.fused_add) return Status{StatusCode::unsupported, OpKind::add, Field::sumin, 0, 0};
    constexpr OpKind op = OpKind::conv2d;
    constexpr Status no_ratio{StatusCode::scale_out_of_range, op, Field::scale_ratio, -1, 0, Field::sumin};
    struct OwnedScale {
        float scale;
        Field owner;
    };
    for (const auto& [scale, owner] : {OwnedScale{operand.scale, Field::sumin}, OwnedScale{s_in, Field::input},
                                       OwnedScale{s_w, Field::weight}, OwnedScale{s_out, Field::output}})
        if (const Status status = check_scale(scale, op, owner); !status) return status;
    Sumin sumin{};
    if (policy.requantize == RequantizeRule::float_scale) {
        const float factor = fdiv(operand.scale, s_out);
        if (!is_code_factor(factor)) return no_ratio;
        sumin.words[0] = std::bit_cast<std::int32_t>(factor);
        return sumin;
    }
    const double rho = static_cast<double>(operand.scale) / (static_cast<double>(s_in) * static_cast<double>(s_w));
    const double limit = accumulator_bits == 64 ? 0x1p47 : 0x1p31;
    // Also the positive end: it is the larger one where quant_min is near 0, and it bounds the left shift.
    const std::int64_t reach = -operand.quant_min > operand.quant_max ? -operand.quant_min : operand.quant_max;
    if (!(rho > 0.0) || !is_finite(rho) || static_cast<double>(reach) * rho >= limit) return no_ratio;
    const Frexp parts = frexp(rho);
    const auto rounded = static_cast<std::int32_t>(floor(parts.mantissa * 0x1p15 + 0.5));
    const std::int32_t k = rounded < 32767 ? rounded : 32767;
    const int n = 15 - parts.exponent;
    const int right = n < 0 ? 0 : n > 31 ? 31 : n;
    const int left = n < 0 ? -n : 0;
    sumin.words = {k, right, left};
    sumin.range = {detail::two_stage_sumin_value(operand.quant_min, k, right, left),
                   detail::two_stage_sumin_value(operand.quant_max, k, right, left)};
    return sumin;
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_CONV_HPP
