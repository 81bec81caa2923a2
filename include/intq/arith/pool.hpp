// SPDX-License-Identifier: MIT
//
// Average pooling on codes. Layer: arith (docs/arithmetic.md section 4). Long because all targets' rules share a form.
#ifndef INTQ_ARITH_POOL_HPP
#define INTQ_ARITH_POOL_HPP

#include <type_traits>

#include "intq/arith/accumulator_bound.hpp"
#include "intq/arith/elementwise.hpp"
#include "intq/arith/tflite_functions.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Everything that an average of codes needs.
struct AverageParams {
    AverageRule rule = AverageRule::requantize_sum;
    PoolDivisor divisor = PoolDivisor::kernel_cells;
    index_t kernel_cells = 1;
    std::int32_t zero_point = 0;
    float s_in = 1.0f;
    float s_out = 1.0f;
    ChannelWords words{};  // of the rules that requantize a sum in integers
    OutputCodes codes{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Whether an average is requantized by a multiplier: the rules of TFLite's MEAN.
constexpr bool takes_multiplier(AverageRule rule) noexcept {
    return rule == AverageRule::double_rounding_sum || rule == AverageRule::single_rounding_sum;
}

namespace detail {

/// The range of a window's sum, each code less its zero point.
constexpr SumRange average_range(const AverageParams& params, DType dtype) noexcept {
    return {(lowest_code(dtype) - params.zero_point) * std::int64_t{params.kernel_cells},
            (highest_code(dtype) - params.zero_point) * std::int64_t{params.kernel_cells}};
}

/// Whether words from anywhere keep a sum of MEAN inside its types.
constexpr bool are_mean_words(AverageRule rule, const ChannelWords& words, SumRange range) noexcept {
    if (rule == AverageRule::single_rounding_sum) return fixed_point<single_rounding>::are_words(words, 32);
    return fixed_point<double_rounding>::are_words(words, 32) &&
           check_left_shift({words[0], words[1]}, false, range).ok();
}

}  // namespace detail

/// Checks parameters from anywhere for codes of one type: those of make_average() and make_mean() pass.
///
/// @param has_padding  whether a window can reach beyond the image
/// @return ok; zero_point or quant_range as check_output_codes() says; value_out_of_range of kernel without cells;
///         accumulator_overflow where N·|qmin| leaves 32 bits; unsupported naming divisor where the target divides
///         otherwise than asked, and padding where MEAN's rule would divide by cells outside the image; the errors of
///         check_scale(), and scale_out_of_range of scale_ratio; corrupt of scale: a rule that the target lacks,
///         or words with which the formula would leave its types
constexpr Status check_average_params(const PolicyRecord& policy, const AverageParams& params, DType dtype,
                                      bool has_padding) noexcept {
    const auto refuse = [](StatusCode code, Field field, std::int64_t given, std::int64_t expected) {
        return Status{code, OpKind::avg_pool2d, field, given, expected};
    };
    const index_t cells = params.kernel_cells;
    if (const Status status = check_zero_point(policy, params.zero_point, dtype, OpKind::avg_pool2d); !status)
        return status;
    if (const Status status = check_output_codes(policy, params.codes, dtype, OpKind::avg_pool2d); !status)
        return status;
    if (cells < 1 || cells > largest_extent)
        return refuse(StatusCode::value_out_of_range, Field::kernel, cells, cells < 1 ? 1 : largest_extent);
    const SumRange range = detail::average_range(params, dtype);
    if (!range.fits(32))
        return refuse(StatusCode::accumulator_overflow, Field::kernel, range.largest_magnitude(), INT32_MAX);
    if (!policy.has_average(params.rule) || params.divisor > PoolDivisor::valid_cells)
        return refuse(StatusCode::corrupt, Field::scale, 0, 0);
    switch (params.rule) {
        case AverageRule::requantize_sum:
            if (has_padding && params.divisor == PoolDivisor::valid_cells)
                return refuse(StatusCode::unsupported, Field::divisor, static_cast<std::int64_t>(params.divisor), 0);
            return two_stage::are_words(params.words, 32) ? Status{} : refuse(StatusCode::corrupt, Field::scale, 0, 0);
        case AverageRule::float_scale_sum:
            // From the factor of one cell, the largest, to the factor of all.
            if (const Status status = check_scale(params.s_in, OpKind::avg_pool2d, Field::input); !status)
                return status;
            if (const Status status = check_scale(params.s_out, OpKind::avg_pool2d, Field::output); !status)
                return status;
            for (const float factor :
                 {fdiv(params.s_in, params.s_out), fdiv(params.s_in, fmul(static_cast<float>(cells), params.s_out))})
                if (!is_scale(factor)) return refuse(StatusCode::scale_out_of_range, Field::scale_ratio, -1, 0);
            return {};
        case AverageRule::sum_of_values:
            if (dtype != DType::int8) return refuse(StatusCode::unsupported, Field::input, 0, 0);
            if (const Status status = check_scale(params.s_in, OpKind::avg_pool2d, Field::input); !status)
                return status;
            if (const Status status = check_scale(params.s_out, OpKind::avg_pool2d, Field::output); !status)
                return status;
            return is_finite(fmul(fmul(256.0f, static_cast<float>(cells)), params.s_in))
                       ? Status{}
                       : refuse(StatusCode::scale_out_of_range, Field::scale, -1, 0);
        case AverageRule::double_rounding_sum:
        case AverageRule::single_rounding_sum:
            if (has_padding) return refuse(StatusCode::unsupported, Field::padding, 1, 0);
            return detail::are_mean_words(params.rule, params.words, range)
                       ? Status{}
                       : refuse(StatusCode::corrupt, Field::scale, 0, 0);
        case AverageRule::divide_codes:
            break;
    }
    if (has_padding && params.divisor == PoolDivisor::kernel_cells)
        return refuse(StatusCode::unsupported, Field::divisor, static_cast<std::int64_t>(params.divisor), 0);
    return {};
}

namespace detail {

/// The words of one average.
///
/// @param given  the multiplier of the sum, from outside; null: none
constexpr Result<ChannelWords> average_words(const PolicyRecord& policy, const AverageParams& params, DType dtype,
                                             const QuantizedMultiplier* given) noexcept {
    if (given != nullptr) return given_multiplier_words(policy, *given, 32, average_range(params, dtype));
    if (params.rule == AverageRule::requantize_sum) {
        const float s_acc = fdiv(params.s_in, static_cast<float>(params.kernel_cells));
        return two_stage_words(policy, RequantizeSource::average_accumulator, s_acc, params.s_out, dtype, 32);
    }
    if (!takes_multiplier(params.rule)) return ChannelWords{};
    const auto multiplier = make_mean_multiplier(params.s_in, params.s_out, params.kernel_cells);
    if (!multiplier) return multiplier.status();
    return given_multiplier_words(policy, *multiplier, 32, average_range(params, dtype));
}

constexpr Result<AverageParams> make_average_by(const PolicyRecord& policy, AverageRule rule, const CodesOf& in,
                                                const CodesOf& out, const OutputCodes& codes, index_t kernel_cells,
                                                PoolDivisor divisor, bool has_padding,
                                                const QuantizedMultiplier* given = nullptr) noexcept {
    constexpr OpKind op = OpKind::avg_pool2d;
    if (given != nullptr && !takes_multiplier(rule))
        return Status{StatusCode::unsupported, op, Field::multiplier, 0, 0};
    if (const Status status = check_codes(policy, in, op, Field::input); !status) return status;
    if (const Status status = check_result(policy, out, codes, op); !status) return status;
    if (in.dtype != out.dtype)
        return Status{StatusCode::dtype_mismatch, op, Field::output, static_cast<std::int64_t>(out.dtype),
                      static_cast<std::int64_t>(in.dtype)};
    AverageParams params{};
    params.rule = rule;
    params.divisor = divisor;
    params.kernel_cells = kernel_cells;
    params.zero_point = in.zero_point;
    params.s_in = in.scale;
    params.s_out = out.scale;
    params.codes = codes;
    if (const Status status = check_average_params(policy, params, in.dtype, has_padding); !status) return status;
    if (rule == AverageRule::divide_codes) {
        if (in.scale != out.scale)
            return Status{StatusCode::unsupported, op, Field::scale, has_padding ? 1 : 0, 0, Field::output};
        if (in.zero_point != out.zero_point)
            return Status{StatusCode::unsupported, op, Field::zero_point, out.zero_point, in.zero_point, Field::output};
    }
    const auto words = average_words(policy, params, out.dtype, given);
    if (!words) return words.status().in(op);
    params.words = *words;
    return params;
}

}  // namespace detail

/// Parameters of an average over windows of `kernel_cells`.
///
///     bpu     s_acc = fdiv(s_in, float32(N)), requantized; padding counts
///     fp32    rhe(fmul(float32(sum - N·zp), fdiv(s_in, fmul(float32(N), s_out)))) + zo
///     tflite  to the scale and zero point of the input: codes divided by the number of valid cells, half away from
///             zero; to others, of windows without padding: as make_mean()
///
/// @param has_padding  whether a window can reach beyond the image
/// @return the errors of check_codes() and check_result(), naming the operand; dtype_mismatch of output for another
///         type than the input's; the errors of check_average_params(); unsupported naming scale or zero_point where
///         tflite's output differs from its input and there is padding; the errors of make_mean()
constexpr Result<AverageParams> make_average(const PolicyRecord& policy, const CodesOf& in, const CodesOf& out,
                                             const OutputCodes& codes, index_t kernel_cells, PoolDivisor divisor,
                                             bool has_padding) noexcept {
    const bool keeps_grid = in.scale == out.scale && in.zero_point == out.zero_point;
    const AverageRule rule = keeps_grid || has_padding ? policy.average : policy.requantized_average();
    return detail::make_average_by(policy, rule, in, out, codes, kernel_cells, divisor, has_padding);
}

/// Parameters of a mean over `cells`, which is requantized to any scale and zero point: on the tflite family also to
/// those of its input, as TFLite's MEAN does. On other targets as make_average().
///
///     tflite  (M, e) = make_mean_multiplier(s_in, s_out, N);  requantize(sum - N·zp, M, e) + zo, by the target's rule
///
/// @param given  the multiplier and the shift of the sum, from outside; divide_multiplier() makes them from a code's.
///               null: none
/// @return the errors of make_average(); scale_out_of_range and accumulator_overflow of scale_ratio, where double
///         rounding would shift the sum beyond 32 bits; the errors of given_multiplier_words(), and unsupported of
///         multiplier for a target whose average has none
constexpr Result<AverageParams> make_mean(const PolicyRecord& policy, const CodesOf& in, const CodesOf& out,
                                          const OutputCodes& codes, index_t cells,
                                          const QuantizedMultiplier* given = nullptr) noexcept {
    return detail::make_average_by(policy, policy.requantized_average(), in, out, codes, cells,
                                   PoolDivisor::kernel_cells, false, given);
}

/// Parameters of a sum over `cells`: of their mean, on a grid whose scale is divided by their number. The output has
/// the scale that is asked for.
///
///     make_mean(in, (fdiv(s_out, float32(N)), zo)), on the tflite family with the multiplier of double(s_in)/s_out
///
/// @return the errors of make_mean() and quantize_multiplier()
constexpr Result<AverageParams> make_sum(const PolicyRecord& policy, const CodesOf& in, const CodesOf& out,
                                         const OutputCodes& codes, index_t cells) noexcept {
    CodesOf of_mean = out;
    of_mean.scale = fdiv(out.scale, static_cast<float>(cells));
    if (!takes_multiplier(policy.requantized_average())) return make_mean(policy, in, of_mean, codes, cells);
    const auto multiplier = quantize_multiplier(static_cast<double>(in.scale) / static_cast<double>(out.scale));
    if (!multiplier) return multiplier.status().in(OpKind::avg_pool2d);
    return make_mean(policy, in, of_mean, codes, cells, &*multiplier);
}

/// Parameters of an average of int8 codes as ONNX Runtime's QLinearAveragePool computes it. Only of a target that
/// computes_as_onnx().
///
/// @return the errors of make_average(); unsupported of input for other codes than int8
constexpr Result<AverageParams> make_average_of_values(const PolicyRecord& policy, const CodesOf& in,
                                                       const CodesOf& out, const OutputCodes& codes,
                                                       index_t kernel_cells, PoolDivisor divisor,
                                                       bool has_padding) noexcept {
    return detail::make_average_by(policy, AverageRule::sum_of_values, in, out, codes, kernel_cells, divisor,
                                   has_padding);
}

namespace detail {

/// Whether floats are functions of the compiler: Arm without a floating-point unit.
#if defined(__arm__) && !defined(__ARM_FP)
inline constexpr bool has_float_unit = false;
#else
inline constexpr bool has_float_unit = true;
#endif

/// rhaz(sum / n), a bit of the quotient at a time: for cores that have no floats and may have no division.
///
/// @pre |sum| / n <= 2^15, 1 <= n <= 2^24
constexpr std::int32_t divide_half_away_by_bits(std::int32_t sum, std::int32_t n) noexcept {
    const auto divisor = static_cast<std::uint32_t>(n);
    std::uint32_t rest =
        (sum < 0 ? 0u - static_cast<std::uint32_t>(sum) : static_cast<std::uint32_t>(sum)) + divisor / 2;
    std::uint32_t quotient = 0;
    for (int bit = 15; bit >= 0; --bit) {
        if (rest >> bit < divisor) continue;
        rest -= divisor << bit;
        quotient |= 1u << bit;
    }
    const auto code = static_cast<std::int32_t>(quotient);
    return sum < 0 ? -code : code;
}

}  // namespace detail

/// Division of sums in all lanes.
template <class L> struct AverageDivision {
    /// sum / n, ties away from zero: fl((2·|sum| + n) / 2n) with the sign of sum. The quotient of binary32
    /// is right to one unit; the remainder, in integers, corrects it.
    /// @pre |sum| / n <= 2^15, n <= 2^24. |sum| + n/2 may wrap: only its float and its remainder are used
    static constexpr typename L::i32 divide_half_away(typename L::i32 sum, std::int32_t n) noexcept {
        if constexpr (requires { L::divide_half_away(sum, n); }) return L::divide_half_away(sum, n);
        if constexpr (!detail::has_float_unit && std::is_same_v<typename L::i32, std::int32_t>)
            return detail::divide_half_away_by_bits(sum, n);
        const auto zero = L::set(std::int32_t{0}), one = L::set(std::int32_t{1}), divisor = L::set(n);
        const auto sign = L::shift_right(sum, L::set(std::int32_t{31}));  // -1 or 0
        const auto negative = (L::min)(sum, L::sub(zero, sum));           // -|sum|; |-2^31| is not an int32
        const auto dividend = L::sub(L::set(n / 2), negative);
        const auto real_dividend = L::sub(L::set(static_cast<float>(n / 2)), L::to_f32(negative));
        auto quotient = L::to_i32(L::floor(L::div(real_dividend, L::set(static_cast<float>(n)))));
        for (int step = 0; step < 2; ++step) {
            const auto rest = L::sub(dividend, L::mul(quotient, divisor));
            // rest < 0: one too many; rest >= n: one too few.
            const auto too_many = L::shift_right(rest, L::set(std::int32_t{31}));
            const auto too_few = L::add(one, L::shift_right(L::sub(rest, divisor), L::set(std::int32_t{31})));
            quotient = L::add(L::add(quotient, too_many), too_few);
        }
        // Two's complement negation where sign is -1: (q + sign) xor sign, written with a product.
        return L::mul(quotient, L::add(one, L::add(sign, sign)));
    }
};

namespace detail {

/// The policy that requantizes a sum by words. Rules without words use none of its lanes.
template <AverageRule Rule> struct PolicyOfAverage { using type = keep_accumulator; };
template <> struct PolicyOfAverage<AverageRule::requantize_sum> { using type = two_stage; };
template <> struct PolicyOfAverage<AverageRule::double_rounding_sum> { using type = fixed_point<double_rounding>; };
template <> struct PolicyOfAverage<AverageRule::single_rounding_sum> { using type = fixed_point<single_rounding>; };

}  // namespace detail

/// AverageRule::sum_of_values: the cells are added in the order of the window, rows first.
///
///     sum  = fadd(sum, fmul(float(q - zp), s_in)) of each cell
///     code = clamp(rhe(fadd(fdiv(fdiv(sum, float(N)), s_out), float(zo))))
///
/// @tparam L  lanes; each lane is a channel
template <class L> struct AverageOfValues {
    typename L::i32 zero_point;
    typename L::f32 s_in, s_out, offset;
    OutputLanes<L> out;

    explicit constexpr AverageOfValues(const AverageParams& p) noexcept
        : zero_point(L::set(p.zero_point)),
          s_in(L::set(p.s_in)),
          s_out(L::set(p.s_out)),
          offset(L::set(static_cast<float>(p.codes.zero_point))),
          out(p.codes) {}

    /// The number that sums are divided by.
    /// @param valid  cells of the window inside the image, at least 1
    static constexpr typename L::f32 divisor(index_t valid, const AverageParams& p) noexcept {
        return L::set(static_cast<float>(p.divisor == PoolDivisor::kernel_cells ? p.kernel_cells : valid));
    }
    INTQ_ALWAYS_INLINE constexpr typename L::f32 add(typename L::f32 sum, typename L::i32 code) const noexcept {
        return L::add(sum, L::mul(L::to_f32(L::sub(code, zero_point)), s_in));
    }
    INTQ_ALWAYS_INLINE constexpr typename L::i32 code(typename L::f32 sum, typename L::f32 cells) const noexcept {
        return out.clamp(L::round_to_i32(L::add(L::div(L::div(sum, cells), s_out), offset)));
    }
};

/// The average of the cells of one window, by a fixed rule: called in a kernel's loop.
///
/// @tparam L     lanes; each lane is a channel
/// @tparam Rule  the parameters' rule; not sum_of_values
template <class L, AverageRule Rule> struct AverageBy : AverageDivision<L> {
    using Policy = typename detail::PolicyOfAverage<Rule>::type;
    typename Policy::template Channel<L> channel;
    OutputCodes codes{};  // zero point and clamp of the scaled value
    OutputLanes<L> out;

    explicit constexpr AverageBy(const AverageParams& p) noexcept
        : channel(Policy::template set<L>(p.words)), codes(p.codes), out(p.codes) {
        // A quotient of codes is a code.
        if (Rule == AverageRule::divide_codes) codes.zero_point = 0;
        out = OutputLanes<L>(codes);
    }

    /// Values shared by windows with equally many valid cells.
    struct Window {
        std::int32_t valid = 0;
        std::int32_t offset = 0;  // of their sum: the zero points'
        float factor = 0.0f;
    };
    /// @param valid  cells of the window inside the image, at least 1
    static constexpr Window window(index_t valid, const AverageParams& p) noexcept {
        const auto cells = static_cast<std::int32_t>(valid);
        if constexpr (takes_multiplier(Rule)) return {cells, scalar_lanes::mul(p.zero_point, cells), 0.0f};
        if constexpr (Rule != AverageRule::float_scale_sum) return {cells, 0, 0.0f};
        const index_t divisor = p.divisor == PoolDivisor::kernel_cells ? p.kernel_cells : valid;
        return {cells, scalar_lanes::mul(p.zero_point, cells),
                fdiv(p.s_in, fmul(static_cast<float>(divisor), p.s_out))};
    }
    /// The average before zero point and clamp.
    ///
    /// @param sum  of the codes of the valid cells
    INTQ_ALWAYS_INLINE constexpr typename L::i32 scaled(typename L::i32 sum, const Window& window) const noexcept {
        if constexpr (Rule == AverageRule::requantize_sum) {
            return two_stage::scaled<L>(sum, channel, out);
        } else if constexpr (Rule == AverageRule::float_scale_sum) {
            return float_scale::scaled<L>(L::sub(sum, L::set(window.offset)),
                                          float_scale::Channel<L>{L::set(window.factor)}, out);
        } else if constexpr (takes_multiplier(Rule)) {
            return Policy::template scaled<L>(L::sub(sum, L::set(window.offset)), channel, out);
        } else {
            return AverageBy::divide_half_away(sum, window.valid);
        }
    }
    INTQ_ALWAYS_INLINE constexpr typename L::i32 code(typename L::i32 sum, const Window& window) const noexcept {
        return out.code(scaled(sum, window));
    }
};

/// Calls function(integral_constant<AverageRule, rule>). Rules of the sum of codes, so not sum_of_values.
template <class Function> constexpr decltype(auto) with_average_rule(AverageRule rule, Function&& function) {
    using enum AverageRule;
    switch (rule) {
        case requantize_sum:
            return function(std::integral_constant<AverageRule, requantize_sum>{});
        case float_scale_sum:
            return function(std::integral_constant<AverageRule, float_scale_sum>{});
        case double_rounding_sum:
            return function(std::integral_constant<AverageRule, double_rounding_sum>{});
        case single_rounding_sum:
            return function(std::integral_constant<AverageRule, single_rounding_sum>{});
        case sum_of_values:
        case divide_codes:
            break;
    }
    return function(std::integral_constant<AverageRule, divide_codes>{});
}

/// The average of the cells of one window, by the parameters' rule, which is not sum_of_values.
template <class L> struct Average : AverageDivision<L> {
    explicit constexpr Average(const AverageParams&) noexcept {}

    /// @param sum    of the codes of the valid cells
    /// @param valid  their number, at least 1
    constexpr typename L::i32 code(typename L::i32 sum, index_t valid, const AverageParams& p) const noexcept {
        return with_average_rule(p.rule, [&](auto rule) {
            using By = AverageBy<L, rule>;
            return By(p).code(sum, By::window(valid, p));
        });
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_POOL_HPP
