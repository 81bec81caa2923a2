// SPDX-License-Identifier: MIT
//
// Average pooling on codes, for every target. Layer: arith (docs/arithmetic.md section 4, mean and avg_pool).
#ifndef INTQ_ARITH_POOL_HPP
#define INTQ_ARITH_POOL_HPP

#include <type_traits>

#include "intq/arith/accumulator_bound.hpp"
#include "intq/arith/elementwise.hpp"

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
    ChannelWords words{};  // requantize_sum
    OutputCodes codes{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Checks parameters from anywhere for codes of one type: what make_average() makes passes.
///
/// @param has_padding  whether a window can reach beyond the image
/// @return ok; zero_point or quant_range as check_output_codes() says; value_out_of_range of kernel without cells;
///         accumulator_overflow where N·|qmin| leaves 32 bits; unsupported naming divisor where the target divides
///         otherwise than asked; what check_scale() returns, and scale_out_of_range of scale_ratio; corrupt of scale:
///         another rule than the target's, or words with which the formula would leave its types
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
    const SumRange range{(lowest_code(dtype) - params.zero_point) * std::int64_t{cells},
                         (highest_code(dtype) - params.zero_point) * std::int64_t{cells}};
    if (!range.fits(32))
        return refuse(StatusCode::accumulator_overflow, Field::kernel, range.largest_magnitude(), INT32_MAX);
    if (params.rule != policy.average || params.divisor > PoolDivisor::valid_cells)
        return refuse(StatusCode::corrupt, Field::scale, 0, 0);
    switch (policy.average) {
        case AverageRule::requantize_sum:
            if (has_padding && params.divisor == PoolDivisor::valid_cells)
                return refuse(StatusCode::unsupported, Field::divisor, static_cast<std::int64_t>(params.divisor), 0);
            return two_stage::are_words(params.words, 32) ? Status{} : refuse(StatusCode::corrupt, Field::scale, 0, 0);
        case AverageRule::float_scale_sum:
            // From the factor of one cell, the largest, to that of all.
            if (const Status status = check_scale(params.s_in, OpKind::avg_pool2d, Field::input); !status)
                return status;
            if (const Status status = check_scale(params.s_out, OpKind::avg_pool2d, Field::output); !status)
                return status;
            for (const float factor :
                 {fdiv(params.s_in, params.s_out), fdiv(params.s_in, fmul(static_cast<float>(cells), params.s_out))})
                if (!is_scale(factor)) return refuse(StatusCode::scale_out_of_range, Field::scale_ratio, -1, 0);
            return {};
        case AverageRule::divide_codes:
            break;
    }
    if (has_padding && params.divisor == PoolDivisor::kernel_cells)
        return refuse(StatusCode::unsupported, Field::divisor, static_cast<std::int64_t>(params.divisor), 0);
    return {};
}

/// Parameters of an average over windows of `kernel_cells`.
///
///     bpu     s_acc = fdiv(s_in, float32(N)), requantized; padding counts
///     fp32    rhe(fmul(float32(sum - N·zp), fdiv(s_in, fmul(float32(N), s_out)))) + zo
///     tflite  codes divided by the number of valid cells, half away from zero; scale and zero point stay
///
/// @param has_padding  whether a window can reach beyond the image
/// @return what check_codes() and check_result() refuse, naming the operand; dtype_mismatch of output for another type
///         than the input's; what check_average_params() refuses; unsupported naming scale or zero_point where
///         tflite's output differs from its input
constexpr Result<AverageParams> make_average(const PolicyRecord& policy, const CodesOf& in, const CodesOf& out,
                                             const OutputCodes& codes, index_t kernel_cells, PoolDivisor divisor,
                                             bool has_padding) noexcept {
    constexpr OpKind op = OpKind::avg_pool2d;
    if (const Status status = check_codes(policy, in, op, Field::input); !status) return status;
    if (const Status status = check_result(policy, out, codes, op); !status) return status;
    if (in.dtype != out.dtype)
        return Status{StatusCode::dtype_mismatch, op, Field::output, static_cast<std::int64_t>(out.dtype),
                      static_cast<std::int64_t>(in.dtype)};
    AverageParams params{};
    params.rule = policy.average;
    params.divisor = divisor;
    params.kernel_cells = kernel_cells;
    params.zero_point = in.zero_point;
    params.s_in = in.scale;
    params.s_out = out.scale;
    params.codes = codes;
    if (const Status status = check_average_params(policy, params, in.dtype, has_padding); !status) return status;
    if (policy.average == AverageRule::divide_codes) {
        if (in.scale != out.scale) return Status{StatusCode::unsupported, op, Field::scale, 0, 0, Field::output};
        if (in.zero_point != out.zero_point)
            return Status{StatusCode::unsupported, op, Field::zero_point, out.zero_point, in.zero_point, Field::output};
    }
    if (policy.average != AverageRule::requantize_sum) return params;
    const float s_acc = fdiv(in.scale, static_cast<float>(kernel_cells));
    const auto words =
        detail::two_stage_words(policy, RequantizeSource::average_accumulator, s_acc, out.scale, out.dtype, 32);
    if (!words) return words.status().in(op);
    params.words = *words;
    return params;
}

/// Division of sums in all lanes.
template <class L> struct AverageDivision {
    /// sum / n, ties away from zero: fl((2·|sum| + n) / 2n) with the sign of sum. The quotient of binary32
    /// is right to one unit; the remainder, in integers, corrects it.
    /// @pre |sum| / n <= 2^15, n <= 2^24. |sum| + n/2 may wrap: only its float and its remainder are used
    static constexpr typename L::i32 divide_half_away(typename L::i32 sum, std::int32_t n) noexcept {
        const auto zero = L::set(std::int32_t{0}), one = L::set(std::int32_t{1}), divisor = L::set(n);
        const auto sign = L::shift_right(sum, L::set(std::int32_t{31}));  // -1 or 0
        const auto negative = L::min(sum, L::sub(zero, sum));             // -|sum|; |-2^31| is not an int32
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

/// The average of the cells of one window, by a rule that is fixed: what a kernel's loop calls.
///
/// @tparam L     lanes; each lane is a channel
/// @tparam Rule  that of the parameters
template <class L, AverageRule Rule> struct AverageBy : AverageDivision<L> {
    two_stage::Channel<L> channel;
    OutputCodes codes{};  // what zero point and clamp the scaled value takes
    OutputLanes<L> out;

    explicit constexpr AverageBy(const AverageParams& p) noexcept
        : channel{L::set(p.words[0]), L::set(p.words[1]), L::set(p.words[2]), L::set(p.words[3]), L::set(p.words[4])},
          codes(p.codes),
          out(p.codes) {
        // A quotient of codes is a code.
        if (Rule == AverageRule::divide_codes) codes.zero_point = 0;
        out = OutputLanes<L>(codes);
    }

    /// What windows of equally many valid cells share.
    struct Window {
        std::int32_t valid = 0;
        std::int32_t offset = 0;  // of their sum: the zero points'
        float factor = 0.0f;
    };
    /// @param valid  cells of the window inside the image, at least 1
    static constexpr Window window(index_t valid, const AverageParams& p) noexcept {
        const auto cells = static_cast<std::int32_t>(valid);
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
        } else {
            return AverageBy::divide_half_away(sum, window.valid);
        }
    }
    INTQ_ALWAYS_INLINE constexpr typename L::i32 code(typename L::i32 sum, const Window& window) const noexcept {
        return out.code(scaled(sum, window));
    }
};

/// Calls function(integral_constant<AverageRule, rule>).
template <class Function> constexpr decltype(auto) with_average_rule(AverageRule rule, Function&& function) {
    switch (rule) {
        case AverageRule::requantize_sum:
            return function(std::integral_constant<AverageRule, AverageRule::requantize_sum>{});
        case AverageRule::float_scale_sum:
            return function(std::integral_constant<AverageRule, AverageRule::float_scale_sum>{});
        case AverageRule::divide_codes:
            break;
    }
    return function(std::integral_constant<AverageRule, AverageRule::divide_codes>{});
}

/// The average of the cells of one window, by the parameters' rule.
template <class L> struct Average : AverageDivision<L> {
    explicit constexpr Average(const AverageParams&) noexcept {}

    /// @param sum    of the codes of the valid cells
    /// @param valid  how many they are, at least 1
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
