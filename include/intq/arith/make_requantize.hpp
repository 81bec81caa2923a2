// SPDX-License-Identifier: MIT
//
// From real scales to the words of a requantize policy, for every target. Layer: arith (docs/arithmetic.md section 2).
#ifndef INTQ_ARITH_MAKE_REQUANTIZE_HPP
#define INTQ_ARITH_MAKE_REQUANTIZE_HPP

#include <limits>

#include "intq/arith/accumulator_bound.hpp"
#include "intq/arith/target.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// The value that is requantized; it decides the roundings of the bpu rule, and how litert computes a ratio.
enum class RequantizeSource : std::uint8_t {
    gemm_accumulator,
    add_accumulator,
    product_accumulator,  // of mul
    average_accumulator,
    code
};

/// Scales of one requantization: r = input·weight / output.
struct RequantizeScales {
    float input = 1.0f;
    float weight = 1.0f;  // 1 for an operator without weights
    float output = 1.0f;
};

/// The 16-bit multiplier and the two shifts of the bpu rule.
struct TwoStageParams {
    std::int32_t multiplier = 0;
    int pre = 0;
    int post = 0;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const TwoStageParams&, const TwoStageParams&) = default;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Multiplier and shifts of docs/arithmetic.md section 2.3.
///
///     r = fdiv(s_acc, s_out);  (m, e) = frexp(r);  M = min(fl(m·2^15 + 1/2), 32767);  rs = 15 - e
///     accumulator:  P = 22 (int8 out) or 14 (int16 out);  pre = clamp(rs - P, 0, pre_cap)
///     code:         pre = 0
///     post = clamp(rs - pre, 0, 31)
///
/// @return scale_out_of_range where r is >= 2^15, or s_acc or r is not positive, finite and normal
constexpr Result<TwoStageParams> make_two_stage(float s_acc, float s_out, DType output, RequantizeSource source,
                                                int pre_cap) noexcept {
    const float r = fdiv(s_acc, s_out);
    if (!is_positive_normal(s_acc) || !is_positive_normal(r) || r >= 32768.0f)
        return Status{StatusCode::scale_out_of_range, OpKind::requantize, Field::scale_ratio, -1, 0};
    const auto clamp = [](int value, int low, int high) { return value < low ? low : value > high ? high : value; };
    const Frexp parts = frexp(static_cast<double>(r));
    const auto rounded = static_cast<std::int32_t>(floor(parts.mantissa * 0x1p15 + 0.5));
    const int total = 15 - parts.exponent;
    const int kept = output == DType::int16 ? 14 : 22;
    TwoStageParams params{};
    params.multiplier = rounded < 32767 ? rounded : 32767;
    params.pre = source == RequantizeSource::code ? 0 : clamp(total - kept, 0, pre_cap);
    params.post = clamp(total - params.pre, 0, 31);
    return params;
}

/// The largest sum of 64 bits that float_scale takes: all of them are numbers of binary64.
inline constexpr std::int64_t largest_wide_sum = std::int64_t{1} << 53;

namespace detail {

/// @param accumulator_bits  of the type that is shifted: shifts beyond its width equal a shift by the width
constexpr Result<ChannelWords> two_stage_words(const PolicyRecord& policy, RequantizeSource source, float s_acc,
                                               float s_out, DType output, int accumulator_bits) noexcept {
    const Result<TwoStageParams> params = make_two_stage(s_acc, s_out, output, source, policy.pre_cap);
    if (!params) return params.status();
    const bool pre_rounds = output == DType::int16 || source == RequantizeSource::average_accumulator;
    const bool is_gemm = source == RequantizeSource::gemm_accumulator;
    const int longest = pre_rounds ? accumulator_bits : accumulator_bits - 1;
    return two_stage::make(params->multiplier, params->pre < longest ? params->pre : longest,
                           pre_rounds ? ShiftRounding::half_up : ShiftRounding::floor, params->post,
                           is_gemm ? policy.post_gemm : policy.post_other);
}

/// r = double(s_in)·double(s_w) / double(s_out)
constexpr double real_ratio(const RequantizeScales& scales) noexcept {
    return static_cast<double>(scales.input) * static_cast<double>(scales.weight) / static_cast<double>(scales.output);
}

/// Double rounding: shift <= 30, and acc·2^shift stays in 32 bits.
constexpr Status check_left_shift(const QuantizedMultiplier& multiplier, bool saturated,
                                  SumRange accumulator) noexcept {
    if (saturated) return {StatusCode::scale_out_of_range, OpKind::requantize, Field::scale_ratio, 31, 30};
    if (multiplier.shift <= 0) return {};
    const std::int64_t limit = (std::int64_t{1} << 31) >> multiplier.shift;
    if (accumulator.lowest >= -limit && accumulator.highest < limit) return {};
    return {StatusCode::accumulator_overflow, OpKind::requantize, Field::scale_ratio, accumulator.largest_magnitude(),
            limit - 1};
}

/// The words of a multiplier, by either rounding.
constexpr ChannelWords multiplier_words(const QuantizedMultiplier& real) noexcept {
    return {real.multiplier, real.shift};
}

/// The words of a multiplier for proven sums.
///
/// @param saturated  whether the real factor exceeds the multiplier
constexpr Result<ChannelWords> checked_multiplier_words(const PolicyRecord& policy,
                                                        const QuantizedMultiplier& multiplier, bool saturated,
                                                        int accumulator_bits, SumRange accumulator) noexcept {
    if (accumulator_bits == 64) {
        if (multiplier.shift > 7)
            return Status{StatusCode::scale_out_of_range, OpKind::requantize, Field::scale_ratio, multiplier.shift, 7};
        if (accumulator.largest_magnitude() >= std::int64_t{1} << 47)
            return Status{StatusCode::accumulator_overflow, OpKind::requantize, Field::scale_ratio,
                          accumulator.largest_magnitude(), (std::int64_t{1} << 47) - 1};
        return wide_fixed_point::make(multiplier);
    }
    if (policy.requantize == RequantizeRule::double_rounding)
        if (const Status status = check_left_shift(multiplier, saturated, accumulator); !status) return status;
    return multiplier_words(multiplier);
}

constexpr Result<ChannelWords> fixed_point_words(const PolicyRecord& policy, double real, int accumulator_bits,
                                                 SumRange accumulator) noexcept {
    const Result<QuantizedMultiplier> multiplier = quantize_multiplier(real);
    if (!multiplier) return multiplier.status();
    return checked_multiplier_words(policy, *multiplier, is_saturated(real), accumulator_bits, accumulator);
}

}  // namespace detail

/// The words of linear layers that are computed in binary64.
///
///     r = double(s_in)·double(s_w) / double(s_out)
///
/// @return scale_out_of_range where r is not finite
constexpr Result<ChannelWords> binary64_words(const RequantizeScales& scales) noexcept {
    const double real = detail::real_ratio(scales);
    if (!is_finite(real)) return Status{StatusCode::scale_out_of_range, OpKind::requantize, Field::scale_ratio, -1, 0};
    return binary64::make(real);
}

/// Whether a rule requantizes by a multiplier and a shift.
constexpr bool takes_multipliers(RequantizeRule rule) noexcept {
    return rule == RequantizeRule::single_rounding || rule == RequantizeRule::double_rounding;
}

/// The words of a multiplier and a shift from a file or another engine, which are taken as they are.
///
/// @param accumulator_bits  64 takes the rule of 16-bit multipliers
/// @param accumulator       proven range of acc
/// @return unsupported of multiplier for a target without such a rule; value_out_of_range of a multiplier below 0, and
///         of a shift outside -31 … 30; scale_out_of_range of a shift above 7 for 64-bit sums; accumulator_overflow
constexpr Result<ChannelWords> given_multiplier_words(const PolicyRecord& policy, const QuantizedMultiplier& given,
                                                      int accumulator_bits, SumRange accumulator) noexcept {
    constexpr OpKind op = OpKind::requantize;
    if (!takes_multipliers(policy.requantize)) return Status{StatusCode::unsupported, op, Field::multiplier, 0, 0};
    if (given.multiplier < 0) return Status{StatusCode::value_out_of_range, op, Field::multiplier, given.multiplier, 0};
    if (given.shift < -31 || given.shift > 30)
        return Status{StatusCode::value_out_of_range, op, Field::shift, given.shift, given.shift < 0 ? -31 : 30};
    return detail::checked_multiplier_words(policy, given, false, accumulator_bits, accumulator);
}

/// The words of a target's requantize policy for one channel.
///
///     fp32    scale = fdiv(fmul(s_in, s_w), s_out)
///     tflite  r = double(s_in)·double(s_w) / double(s_out) -> quantize_multiplier(r)
///     litert  the same; of mul r = double(fdiv(fmul(s_in, s_w), s_out))
///     bpu     r = fdiv(fmul(s_in, s_w), s_out) -> make_two_stage
///
/// @param accumulator_bits  of a convolution's sum; of any other source it is 32
/// @param accumulator       proven range of acc, for the rules that shift left
/// @return scale_out_of_range or accumulator_overflow, without channel: the caller knows it
constexpr Result<ChannelWords> make_requantize_words(const PolicyRecord& policy, RequantizeSource source,
                                                     const RequantizeScales& scales, int accumulator_bits, DType output,
                                                     SumRange accumulator) noexcept {
    const float s_acc = fmul(scales.input, scales.weight);
    switch (policy.requantize) {
        case RequantizeRule::float_scale: {
            const float factor = fdiv(s_acc, scales.output);
            if (!is_positive_normal(s_acc) || !is_positive_normal(factor))
                return Status{StatusCode::scale_out_of_range, OpKind::requantize, Field::scale_ratio, -1, 0};
            if (accumulator.largest_magnitude() > largest_wide_sum)
                return Status{StatusCode::accumulator_overflow, OpKind::requantize, Field::scale_ratio,
                              accumulator.largest_magnitude(), largest_wide_sum};
            return float_scale::make(factor);
        }
        case RequantizeRule::two_stage:
            return detail::two_stage_words(policy, source, s_acc, scales.output, output, accumulator_bits);
        case RequantizeRule::binary64:
            return binary64_words(scales);
        case RequantizeRule::single_rounding:
        case RequantizeRule::double_rounding:
            break;
    }
    const bool in_float32 = policy.mul_ratio_in_float32 && source == RequantizeSource::product_accumulator;
    const double ratio = in_float32 ? static_cast<double>(fdiv(s_acc, scales.output)) : detail::real_ratio(scales);
    return detail::fixed_point_words(policy, ratio, accumulator_bits, accumulator);
}

/// The same for sums of the width that the target has for a type of input.
constexpr Result<ChannelWords> make_requantize_words(const PolicyRecord& policy, RequantizeSource source,
                                                     const RequantizeScales& scales, DType input, DType output,
                                                     SumRange accumulator) noexcept {
    return make_requantize_words(policy, source, scales,
                                 source == RequantizeSource::gemm_accumulator ? policy.accumulator_bits(input) : 32,
                                 output, accumulator);
}

/// The same with only a bound of |acc|.
constexpr Result<ChannelWords> make_requantize_words(const PolicyRecord& policy, RequantizeSource source,
                                                     const RequantizeScales& scales, DType input, DType output,
                                                     std::int64_t largest_accumulator) noexcept {
    return make_requantize_words(policy, source, scales, input, output,
                                 SumRange{-largest_accumulator, largest_accumulator});
}

/// Zero point and clamp of an output: the codes' range cut by the activation.
///
///     relu: lowest = max(lowest, zp);  relu6: also highest = min(highest, zp + rhu(6 / s_out))
constexpr OutputCodes make_output_codes(std::int64_t quant_min, std::int64_t quant_max, std::int32_t zero_point,
                                        float scale, Activation activation) noexcept {
    OutputCodes codes{};
    codes.zero_point = zero_point;
    codes.lowest = static_cast<std::int32_t>(quant_min);
    codes.highest = static_cast<std::int32_t>(quant_max);
    if (activation == Activation::none) return codes;
    if (codes.lowest < zero_point) codes.lowest = zero_point;
    if (activation == Activation::relu6) {
        const double six = round_half_up(6.0 / static_cast<double>(scale)) + static_cast<double>(zero_point);
        if (six < static_cast<double>(codes.highest)) codes.highest = static_cast<std::int32_t>(six);
    }
    return codes;
}

/// The clamp of a float output: infinities stay, where no activation bounds them.
constexpr OutputCodes make_real_codes(Activation activation) noexcept {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    OutputCodes codes{};
    codes.lowest_real = activation == Activation::none ? -infinity : 0.0f;
    codes.highest_real = activation == Activation::relu6 ? 6.0f : infinity;
    return codes;
}

/// 32-bit words a channel of a policy: how much room packed parameters need.
constexpr int words_of(RequantizeRule rule) noexcept {
    switch (rule) {
        case RequantizeRule::float_scale:
            return float_scale::words;
        case RequantizeRule::two_stage:
            return two_stage::words;
        case RequantizeRule::double_rounding:
            return fixed_point<double_rounding>::words;
        case RequantizeRule::binary64:
            return binary64::words;
        case RequantizeRule::single_rounding:
            break;
    }
    return fixed_point<single_rounding>::words;
}
constexpr int sumin_words_of(RequantizeRule rule) noexcept {
    return rule == RequantizeRule::two_stage     ? two_stage::sumin_words
           : rule == RequantizeRule::float_scale ? float_scale::sumin_words
                                                 : 0;
}

/// Whether words from anywhere keep the formula of a rule inside its types: shifts that are shifts, factors that are
/// numbers. All words 0 are words, as padded channels have them.
///
/// @param bits  of the accumulator
constexpr bool are_words(RequantizeRule rule, const ChannelWords& words, int bits) noexcept {
    const bool is_fixed_point = rule == RequantizeRule::single_rounding || rule == RequantizeRule::double_rounding;
    if (is_fixed_point && bits == 64) return wide_fixed_point::are_words(words, bits);
    switch (rule) {
        case RequantizeRule::float_scale:
            return float_scale::are_words(words, bits);
        case RequantizeRule::two_stage:
            return two_stage::are_words(words, bits);
        case RequantizeRule::double_rounding:
            return fixed_point<double_rounding>::are_words(words, bits);
        case RequantizeRule::binary64:
            return binary64::are_words(words, bits);
        case RequantizeRule::single_rounding:
            break;
    }
    return fixed_point<single_rounding>::are_words(words, bits);
}
/// The same for the words of a fused add.
constexpr bool are_sumin_words(RequantizeRule rule, const ChannelWords& words, int bits) noexcept {
    return rule == RequantizeRule::two_stage     ? two_stage::are_sumin_words(words, bits)
           : rule == RequantizeRule::float_scale ? float_scale::are_sumin_words(words, bits)
                                                 : true;
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_MAKE_REQUANTIZE_HPP
