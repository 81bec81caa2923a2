// SPDX-License-Identifier: MIT
//
// Add, sub and mul of two quantized tensors, for every target. Layer: arith (docs/arithmetic.md section 4, add and
// mul). Long because each of them is made from scales and from given integers, with one proof.
#ifndef INTQ_ARITH_ELEMENTWISE_HPP
#define INTQ_ARITH_ELEMENTWISE_HPP

#include "intq/arith/codes.hpp"
#include "intq/arith/make_requantize.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Everything that an add or sub of codes needs; the policy decides which fields count.
struct AddParams {
    std::int32_t zero_point[2] = {0, 0};
    std::int32_t coefficient[2] = {0, 0};  // two_stage: weights of the operands. fixed_point: left shift, sign of y
    float factor[2] = {0.0f, 0.0f};        // float_scale: s / s_out
    ChannelWords input[2] = {};            // fixed_point: the operands' multipliers
    ChannelWords output{};                 // two_stage, fixed_point: the sum's
    OutputCodes codes{};
};

/// The integers of an add or a sub of the tflite family, as a file's reader or another engine holds them: TFLite's
/// ArithmeticParams, the arguments of CMSIS-NN's arm_elementwise_add_s8.
struct GivenAdd {
    int left_shift = 20;  // of both operands; 15 where codes are int16
    QuantizedMultiplier x{}, y{}, output{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// The formula of a policy on lanes, with the parameters set in every lane: code(x, y). Steps before it are real(x, y),
/// the sum with its zero point before rounding, or scaled(x, y), the sum before the zero point is added.
template <class Policy, class L> struct AddLanes;

/// The contribution of the zero points to a sum of codes by float factors: zo - (zx·sx/so + zy·sy/so), rounded by
/// operation.
constexpr float sum_offset(const AddParams& p) noexcept {
    const float first = fmul(static_cast<float>(p.zero_point[0]), p.factor[0]);
    const float second = fmul(static_cast<float>(p.zero_point[1]), p.factor[1]);
    return fadd(static_cast<float>(p.codes.zero_point), -fadd(first, second));
}

/// y = clamp(rhe(fadd(fadd(sum_offset, fmul(float(x), sx/so)), fmul(float(y), sy/so)))), the order of ONNX Runtime
template <class L> struct AddLanes<float_scale, L> {
    typename L::f32 offset, factor[2];
    OutputLanes<L> out;

    explicit constexpr AddLanes(const AddParams& p) noexcept
        : offset(L::set(sum_offset(p))), factor{L::set(p.factor[0]), L::set(p.factor[1])}, out(p.codes) {}
    /// The sum with its zero point, before it is rounded.
    constexpr typename L::f32 real(typename L::i32 x, typename L::i32 y) const noexcept {
        return L::add(L::add(offset, L::mul(L::to_f32(x), factor[0])), L::mul(L::to_f32(y), factor[1]));
    }
    /// real() where the offset is 0: adding it could only change the sign of a zero, which no code shows.
    constexpr typename L::f32 real_without_offset(typename L::i32 x, typename L::i32 y) const noexcept {
        return L::add(L::mul(L::to_f32(x), factor[0]), L::mul(L::to_f32(y), factor[1]));
    }
    constexpr typename L::i32 code(typename L::i32 x, typename L::i32 y) const noexcept {
        return out.clamp(L::round_to_i32(real(x, y)));
    }
};

/// acc = x·c_x + y·c_y, requantized
template <class L> struct AddLanes<two_stage, L> {
    typename L::i32 coefficient[2];
    two_stage::Channel<L> channel;
    OutputLanes<L> out;

    explicit constexpr AddLanes(const AddParams& p) noexcept
        : coefficient{L::set(p.coefficient[0]), L::set(p.coefficient[1])},
          channel{L::set(p.output[0]), L::set(p.output[1]), L::set(p.output[2]), L::set(p.output[3]),
                  L::set(p.output[4])},
          out(p.codes) {}
    constexpr typename L::i32 scaled(typename L::i32 x, typename L::i32 y) const noexcept {
        const auto acc = L::add(L::mul(x, coefficient[0]), L::mul(y, coefficient[1]));
        return two_stage::scaled<L>(acc, channel, out);
    }
    constexpr typename L::i32 code(typename L::i32 x, typename L::i32 y) const noexcept {
        return out.code(scaled(x, y));
    }
};

/// sum or difference of the operands, each shifted left and scaled by s / T; the sum scaled by T / (2^L·s_out)
template <class RoundingRule, class L> struct AddLanes<fixed_point<RoundingRule>, L> {
    using Scale = fixed_point<RoundingRule>;
    typename L::i32 zero_point[2], left, sign;
    typename Scale::template Channel<L> input[2], output;
    OutputLanes<L> out;

    explicit constexpr AddLanes(const AddParams& p) noexcept
        : zero_point{L::set(p.zero_point[0]), L::set(p.zero_point[1])},
          left(L::set(p.coefficient[0])),
          sign(L::set(p.coefficient[1])),
          input{Scale::template set<L>(p.input[0]), Scale::template set<L>(p.input[1])},
          output(Scale::template set<L>(p.output)),
          out(p.codes) {}
    constexpr typename L::i32 scaled(typename L::i32 x, typename L::i32 y) const noexcept {
        const auto first = Scale::template scale<L>(L::shift_left(L::sub(x, zero_point[0]), left), input[0]);
        const auto second = Scale::template scale<L>(L::shift_left(L::sub(y, zero_point[1]), left), input[1]);
        return Scale::template scaled<L>(L::add(first, L::mul(second, sign)), output, out);
    }
    constexpr typename L::i32 code(typename L::i32 x, typename L::i32 y) const noexcept {
        return out.code(scaled(x, y));
    }
};

namespace detail {

constexpr Result<AddParams> make_two_stage_add(const PolicyRecord& policy, const CodesOf& x, const CodesOf& y,
                                               const CodesOf& out, int sign, AddParams params) noexcept {
    const bool x_is_larger = x.scale >= y.scale;
    const double s_a = static_cast<double>(x_is_larger ? x.scale : y.scale);
    const double s_b = static_cast<double>(x_is_larger ? y.scale : x.scale);
    const bool wide = x.dtype == DType::int16 || y.dtype == DType::int16;
    int shift = wide ? 15 : 23;
    while (shift > 0 && s_b * power_of_two(shift) > 32767.0 * s_a) --shift;
    const auto k = static_cast<std::int32_t>(round_half_up(s_b * power_of_two(shift) / s_a));
    params.coefficient[x_is_larger ? 0 : 1] = std::int32_t{1} << shift;
    params.coefficient[x_is_larger ? 1 : 0] = k;
    params.coefficient[1] *= sign;
    const float s_acc = fmul(static_cast<float>(s_a), static_cast<float>(power_of_two(-shift)));
    const Result<ChannelWords> words =
        two_stage_words(policy, RequantizeSource::add_accumulator, s_acc, out.scale, out.dtype, 32);
    if (!words) return words.status();
    params.output = *words;
    return params;
}

/// One operand of the fixed-point add at the sum's scale.
constexpr std::int64_t fixed_point_term(const PolicyRecord& policy, std::int64_t code, int left,
                                        const QuantizedMultiplier& multiplier) noexcept {
    const scalar_lanes::i32 shifted = scalar_lanes::shift_left(static_cast<std::int32_t>(code), left);
    if (policy.requantize == RequantizeRule::single_rounding)
        return fixed_point<single_rounding>::scale<scalar_lanes>(
            shifted, fixed_point<single_rounding>::set<scalar_lanes>(multiplier_words(multiplier)));
    return fixed_point<double_rounding>::scale<scalar_lanes>(
        shifted, fixed_point<double_rounding>::set<scalar_lanes>(multiplier_words(multiplier)));
}

/// A sum by valid multipliers, with the proof that no sum leaves 32 bits.
///
/// @param saturated  whether the real factor of the output exceeds its multiplier
constexpr Result<AddParams> add_by_multipliers(const PolicyRecord& policy, const CodesOf& x, const CodesOf& y,
                                               const GivenAdd& by, bool saturated, int sign,
                                               AddParams params) noexcept {
    const auto term = [&](const CodesOf& operand, std::int64_t code, const QuantizedMultiplier& multiplier) {
        return fixed_point_term(policy, code - operand.zero_point, by.left_shift, multiplier);
    };
    const std::int64_t y_low = term(y, lowest_code(y.dtype), by.y), y_high = term(y, highest_code(y.dtype), by.y);
    const SumRange sum{term(x, lowest_code(x.dtype), by.x) + (sign > 0 ? y_low : -y_high),
                       term(x, highest_code(x.dtype), by.x) + (sign > 0 ? y_high : -y_low)};
    if (!sum.fits(32))
        return Status{StatusCode::accumulator_overflow, OpKind::add, Field::multiplier, sum.largest_magnitude(),
                      INT32_MAX};
    const Result<ChannelWords> words = checked_multiplier_words(policy, by.output, saturated, 32, sum);
    if (!words) return words.status();
    params.coefficient[0] = by.left_shift;
    params.coefficient[1] = sign;
    params.input[0] = multiplier_words(by.x);
    params.input[1] = multiplier_words(by.y);
    params.output = *words;
    return params;
}

constexpr Result<AddParams> make_fixed_point_add(const PolicyRecord& policy, const CodesOf& x, const CodesOf& y,
                                                 const CodesOf& out, int sign, AddParams params) noexcept {
    const int left = x.dtype == DType::int16 || y.dtype == DType::int16 ? 15 : 20;
    const double s_x = static_cast<double>(x.scale), s_y = static_cast<double>(y.scale);
    const double twice = 2.0 * (s_x > s_y ? s_x : s_y);
    const double real = twice / (power_of_two(left) * static_cast<double>(out.scale));
    const Result<QuantizedMultiplier> first = quantize_multiplier(s_x / twice),
                                      second = quantize_multiplier(s_y / twice), output = quantize_multiplier(real);
    for (const auto* const made : {&first, &second, &output})
        if (!*made) return made->status();
    return add_by_multipliers(policy, x, y, {left, *first, *second, *output}, is_saturated(real), sign, params);
}

/// Checks multipliers from outside: each is valid, and none shifts a code out of 32 bits.
constexpr Result<AddParams> add_by_given(const PolicyRecord& policy, const CodesOf& x, const CodesOf& y,
                                         const GivenAdd& given, int sign, AddParams params) noexcept {
    constexpr int most = 20;
    const auto reach = [](const CodesOf& of) { return highest_code(of.dtype) - lowest_code(of.dtype); };
    const std::int64_t largest = reach(x) > reach(y) ? reach(x) : reach(y);
    if (given.left_shift < 0 || given.left_shift > most)
        return Status{StatusCode::value_out_of_range, OpKind::add, Field::shift, given.left_shift,
                      given.left_shift < 0 ? 0 : most};
    if (largest << given.left_shift > INT32_MAX)
        return Status{StatusCode::accumulator_overflow, OpKind::add, Field::shift, largest << given.left_shift,
                      INT32_MAX};
    const SumRange shifted{-(largest << given.left_shift), largest << given.left_shift};
    for (const QuantizedMultiplier& multiplier : {given.x, given.y})
        if (const auto words = given_multiplier_words(policy, multiplier, 32, shifted); !words) return words.status();
    // The sum's multiplier is checked later, with the sum's range; here only that it is one.
    if (const auto words = given_multiplier_words(policy, given.output, 32, {0, 0}); !words) return words.status();
    return add_by_multipliers(policy, x, y, given, false, sign, params);
}

constexpr Result<AddParams> of_operator(const Result<AddParams>& params, OpKind op) noexcept {
    return params ? params : Result<AddParams>(params.status().in(op));
}

/// x + sign·y
constexpr Result<AddParams> make_signed_add(const PolicyRecord& policy, const CodesOf& x, const CodesOf& y,
                                            const CodesOf& out, const OutputCodes& codes, int sign,
                                            const GivenAdd* given = nullptr) noexcept {
    const OpKind op = sign > 0 ? OpKind::add : OpKind::sub;
    if (const Status status = check_codes(policy, x, op, Field::input); !status) return status;
    if (const Status status = check_codes(policy, y, op, Field::second_input); !status) return status;
    if (const Status status = check_result(policy, out, codes, op); !status) return status;
    AddParams params{};
    params.zero_point[0] = x.zero_point;
    params.zero_point[1] = y.zero_point;
    params.codes = codes;
    if (given != nullptr) return of_operator(add_by_given(policy, x, y, *given, sign, params), op);
    switch (policy.requantize) {
        case RequantizeRule::float_scale:
            params.factor[0] = fdiv(x.scale, out.scale);
            params.factor[1] = fdiv(sign > 0 ? y.scale : -y.scale, out.scale);
            if (!is_code_factor(params.factor[0]) || !is_code_factor(params.factor[1]))
                return Status{StatusCode::scale_out_of_range, op, Field::scale_ratio, -1, 0};
            return params;
        case RequantizeRule::two_stage:
            return of_operator(make_two_stage_add(policy, x, y, out, sign, params), op);
        case RequantizeRule::binary64:
            return Status{StatusCode::unsupported, op, Field::none, 0, 0};
        case RequantizeRule::single_rounding:
        case RequantizeRule::double_rounding:
            break;
    }
    return of_operator(make_fixed_point_add(policy, x, y, out, sign, params), op);
}

}  // namespace detail

/// Parameters of y = x + y for a target.
///
///     bpu     a = operand with the larger scale; sh = the largest, at most 15 (an int16 operand) or 23, with
///             s_b·2^sh <= 32767·s_a; k = rhu(s_b·2^sh / s_a); acc = (a << sh) + b·k; s_acc = s_a·2^-sh
///     tflite  T = 2·max(s_x, s_y), left shift 20 (int16: 15), multipliers s_x/T, s_y/T, T/(2^left·s_out)
///     fp32    one float factor an operand
///
/// @return the errors of check_codes() and check_result(), naming the operand; scale_out_of_range naming
///         scale_ratio; accumulator_overflow where tflite's double rounding would shift the sum out of 32 bits
constexpr Result<AddParams> make_add(const PolicyRecord& policy, const CodesOf& x, const CodesOf& y, const CodesOf& out,
                                     const OutputCodes& codes) noexcept {
    return detail::make_signed_add(policy, x, y, out, codes, 1);
}

/// Parameters of y = x - y for a target: as for the add, with the sign of the second operand inverted.
///
///     bpu     its coefficient is negated
///     tflite  the scaled operands are subtracted
///     fp32    its factor is negated
///
/// @return as make_add()
constexpr Result<AddParams> make_sub(const PolicyRecord& policy, const CodesOf& x, const CodesOf& y, const CodesOf& out,
                                     const OutputCodes& codes) noexcept {
    return detail::make_signed_add(policy, x, y, out, codes, -1);
}

/// The parameters of make_add() from another engine's integers in place of scales.
///
/// @return the errors of check_codes() and check_result(), naming the operand; the errors of given_multiplier_words();
///         value_out_of_range of a left shift outside 0 … 20; accumulator_overflow where an operand or a sum would
///         leave 32 bits
constexpr Result<AddParams> make_given_add(const PolicyRecord& policy, const CodesOf& x, const CodesOf& y,
                                           const CodesOf& out, const OutputCodes& codes,
                                           const GivenAdd& given) noexcept {
    return detail::make_signed_add(policy, x, y, out, codes, 1, &given);
}

/// The same for x - y.
constexpr Result<AddParams> make_given_sub(const PolicyRecord& policy, const CodesOf& x, const CodesOf& y,
                                           const CodesOf& out, const OutputCodes& codes,
                                           const GivenAdd& given) noexcept {
    return detail::make_signed_add(policy, x, y, out, codes, -1, &given);
}

/// Checks parameters from anywhere for operands and a result of one type: those of make_add() and make_sub() pass.
///
/// @return ok; zero_point or quant_range as check_output_codes() says; corrupt of scale: numbers with which the formula
///         would leave its types
constexpr Status check_add_params(const PolicyRecord& policy, const AddParams& params, DType dtype,
                                  OpKind op) noexcept {
    for (const std::int32_t zero_point : params.zero_point)
        if (const Status status = check_zero_point(policy, zero_point, dtype, op); !status) return status;
    if (const Status status = check_output_codes(policy, params.codes, dtype, op); !status) return status;
    const auto words = [&](const ChannelWords& of) { return are_words(policy.requantize, of, 32); };
    const std::int64_t most = -lowest_code(dtype), reach = highest_code(dtype) - lowest_code(dtype);
    const auto [a, b] = params.coefficient;
    const auto magnitude = [](std::int64_t value) { return value < 0 ? -value : value; };
    const bool are = policy.requantize == RequantizeRule::float_scale
                         ? is_code_factor(params.factor[0]) && is_code_factor(params.factor[1])
                     : policy.requantize == RequantizeRule::two_stage
                         ? most * (magnitude(a) + magnitude(b)) <= INT32_MAX && words(params.output)
                         : a >= 0 && a <= 20 && (reach << a) <= INT32_MAX && magnitude(b) == 1 &&
                               words(params.input[0]) && words(params.input[1]) && words(params.output);
    return are ? Status{} : Status{StatusCode::corrupt, op, Field::scale, 0, 0};
}

// --- mul -------------------------------------------------------------------------------------------------------------

}  // namespace INTQ_ABI

inline namespace INTQ_CORE_ABI {

/// Everything that a product of codes needs.
struct MulParams {
    std::int32_t zero_point[2] = {0, 0};
    ChannelWords words{};
    OutputCodes codes{};
};

}  // namespace INTQ_CORE_ABI

inline namespace INTQ_ABI {

/// y = requantize((x - zx)·(y - zy)) at s_acc = fmul(sx, sy), on lanes with the parameters set in every lane.
template <class Policy, class L> struct MulLanes {
    typename L::i32 zero_point[2];
    typename Policy::template Channel<L> channel;
    OutputLanes<L> out;

    constexpr MulLanes(const MulParams& p, const typename Policy::template Channel<L>& words) noexcept
        : zero_point{L::set(p.zero_point[0]), L::set(p.zero_point[1])}, channel(words), out(p.codes) {}
    constexpr typename L::i32 scaled(typename L::i32 x, typename L::i32 y) const noexcept {
        const auto product = L::mul(L::sub(x, zero_point[0]), L::sub(y, zero_point[1]));
        return Policy::template scaled<L>(product, channel, out);
    }
    constexpr typename L::i32 code(typename L::i32 x, typename L::i32 y) const noexcept {
        return out.code(scaled(x, y));
    }
};

/// y = clamp(rhe(fadd(fmul(float((x - zx)·(y - zy)), fdiv(s_acc, so)), float(zo)))): in contrast to the sums of a
/// layer, the zero point is added before the value is rounded, as ONNX Runtime does.
template <class L> struct MulLanes<float_scale, L> {
    typename L::i32 zero_point[2];
    typename L::f32 factor, offset;
    OutputLanes<L> out;

    constexpr MulLanes(const MulParams& p, const float_scale::Channel<L>& words) noexcept
        : zero_point{L::set(p.zero_point[0]), L::set(p.zero_point[1])},
          factor(words.scale),
          offset(L::set(static_cast<float>(p.codes.zero_point))),
          out(p.codes) {}
    constexpr typename L::f32 real(typename L::i32 x, typename L::i32 y) const noexcept {
        const auto product = L::mul(L::sub(x, zero_point[0]), L::sub(y, zero_point[1]));
        return L::add(L::mul(L::to_f32(product), factor), offset);
    }
    constexpr typename L::i32 code(typename L::i32 x, typename L::i32 y) const noexcept {
        return out.clamp(L::round_to_i32(real(x, y)));
    }
};

/// Parameters of out = x · y for a target.
///
/// @param given  a multiplier from outside in place of the scales; null: none
/// @return the errors of check_codes() and check_result(), naming the operand; scale_out_of_range naming
///         scale_ratio; accumulator_overflow where a product leaves 32 bits (int16 codes with a zero point) or
///         tflite's double rounding would shift it out; the errors of given_multiplier_words()
constexpr Result<MulParams> make_mul(const PolicyRecord& policy, const CodesOf& x, const CodesOf& y, const CodesOf& out,
                                     const OutputCodes& codes, const QuantizedMultiplier* given = nullptr) noexcept {
    if (const Status status = check_codes(policy, x, OpKind::mul, Field::input); !status) return status;
    if (const Status status = check_codes(policy, y, OpKind::mul, Field::second_input); !status) return status;
    if (const Status status = check_result(policy, out, codes, OpKind::mul); !status) return status;
    MulParams params{};
    params.zero_point[0] = x.zero_point;
    params.zero_point[1] = y.zero_point;
    params.codes = codes;
    const SumRange range = product_range(x, y);
    if (!range.fits(32))
        return Status{StatusCode::accumulator_overflow, OpKind::mul, Field::zero_point, range.largest_magnitude(),
                      INT32_MAX};
    const Result<ChannelWords> words =
        given != nullptr ? given_multiplier_words(policy, *given, 32, range)
                         : make_requantize_words(policy, RequantizeSource::product_accumulator,
                                                 {x.scale, y.scale, out.scale}, x.dtype, out.dtype, range);
    if (!words) return words.status().in(OpKind::mul);
    params.words = *words;
    return params;
}

/// The same as check_add_params() for a product.
constexpr Status check_mul_params(const PolicyRecord& policy, const MulParams& params, DType dtype) noexcept {
    for (const std::int32_t zero_point : params.zero_point)
        if (const Status status = check_zero_point(policy, zero_point, dtype, OpKind::mul); !status) return status;
    if (const Status status = check_output_codes(policy, params.codes, dtype, OpKind::mul); !status) return status;
    if (are_words(policy.requantize, params.words, 32)) return {};
    return {StatusCode::corrupt, OpKind::mul, Field::scale, 0, 0};
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_ELEMENTWISE_HPP
