// SPDX-License-Identifier: MIT
//
// Targets: a policy record each, the arithmetic contract as data. Layer: arith (docs/design.md section 4).
#ifndef INTQ_ARITH_TARGET_HPP
#define INTQ_ARITH_TARGET_HPP

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "intq/arith/constraints.hpp"
#include "intq/arith/quantize.hpp"
#include "intq/arith/requantize.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Which requantize policy a kernel is keyed on. The rule belongs to the operation: `binary64` is a rule of linear
/// layers.
enum class RequantizeRule : std::uint8_t { float_scale, single_rounding, double_rounding, two_stage, binary64 };

/// What a bias code may be: 32 or 64 bits, or 16 bits and a left shift per channel.
enum class BiasRule : std::uint8_t { int32, int64, shifted_16_bits };

/// How an average divides and what it may divide by.
enum class AverageRule : std::uint8_t {
    requantize_sum,   // s_acc = s_in / N, requantized; padding counts in N
    float_scale_sum,  // one float factor s_in / (N · s_out), N by the pool's divisor
    divide_codes,     // codes divided by the number of valid cells, half away from zero; the scale stays
    // TFLite's MEAN: one multiplier of s_in / (N · s_out), by either rounding; no padding
    double_rounding_sum,
    single_rounding_sum,
    // real numbers of the cells added one by one in float32, as ONNX Runtime's QLinearAveragePool; int8
    sum_of_values
};

/// How a softmax of codes is computed.
enum class SoftmaxRule : std::uint8_t {
    requantized,  // int8: tables and one reciprocal, to probabilities of 2^-15 that are requantized
    fixed_point   // TFLite's: the scale of the output is fixed
};

/// Every parameter of a target's arithmetic, by the names of docs/arithmetic.md sections 2 and 3.
struct PolicyRecord {
    const char* name = "";
    RequantizeRule requantize = RequantizeRule::float_scale;
    bool linear_in_binary64 = false;    // the rule of linear layers is binary64, and `requantize` the rule of others
    bool mul_ratio_in_float32 = false;  // fixed point: s_x·s_y / s_out of mul; other ratios are in double
    int accumulator_bits_int8 = 32;
    int accumulator_bits_int16 = 32;
    /// Whether an int16 layer of int8 weights and int16 output whose proven sum leaves 32 bits is summed in 64, by the
    /// same formula, and one of int16 weights always: see for_weights().
    bool widens_int16 = false;
    int pre_cap = 0;
    ShiftRounding post_gemm = ShiftRounding::half_up;
    ShiftRounding post_other = ShiftRounding::half_up;
    BiasRule bias = BiasRule::int32;
    int headroom = 30;
    bool zero_points = false;  // whether activations may have one
    bool fused_add = false;
    AverageRule average = AverageRule::requantize_sum;
    SoftmaxRule softmax = SoftmaxRule::requantized;
    QuantizeRule quantize{};
    /// Of int8 weights and of int16 activations whose qconfig leaves the codes open. They decide the scales that
    /// prepare makes, not the target's arithmetic.
    SymmetricScheme weight_scheme = SymmetricScheme::full_range;
    SymmetricScheme activation_scheme = SymmetricScheme::full_range;
    std::span<const ConstraintRow> constraints{};
    std::span<const FixedOutput> fixed_outputs{};

    INTQ_ALWAYS_INLINE constexpr int accumulator_bits(DType input) const noexcept {
        return input == DType::int16 ? accumulator_bits_int16 : accumulator_bits_int8;
    }
    /// The record of layers with weights of a type. Where the target widens int16 layers, those of int16 weights have
    /// sums and bias codes of 64 bits: two products can leave 32.
    INTQ_ALWAYS_INLINE constexpr PolicyRecord for_weights(DType weight) const noexcept {
        PolicyRecord record = *this;
        if (!widens_int16 || weight != DType::int16) return record;
        record.accumulator_bits_int16 = 64;
        record.bias = BiasRule::int64;
        record.headroom = 46;
        return record;
    }
    /// The rule that requantizes the sums of an operator.
    INTQ_ALWAYS_INLINE constexpr RequantizeRule rule_of(OpKind op) const noexcept {
        return linear_in_binary64 && op == OpKind::linear ? RequantizeRule::binary64 : requantize;
    }
    /// The rule of an average whose output may have any grid: `average`, or the rule beside it where `average` keeps
    /// the grid. `divide_codes` where the target has none.
    INTQ_ALWAYS_INLINE constexpr AverageRule requantized_average() const noexcept {
        if (average != AverageRule::divide_codes) return average;
        return requantize == RequantizeRule::double_rounding   ? AverageRule::double_rounding_sum
               : requantize == RequantizeRule::single_rounding ? AverageRule::single_rounding_sum
                                                               : average;
    }
    INTQ_ALWAYS_INLINE constexpr bool has_average(AverageRule rule) const noexcept {
        return rule == average || rule == requantized_average() ||
               (rule == AverageRule::sum_of_values && computes_as_onnx());
    }
    /// Whether the operand of a fused add is part of the accumulator, so that the accumulator may be the output.
    INTQ_ALWAYS_INLINE constexpr bool adds_in_accumulator() const noexcept {
        return fused_add && requantize != RequantizeRule::float_scale;
    }

    /// Whether a function of one int8 code is QuantizeLinear(f(DequantizeLinear(q))) in binary32, as ONNX Runtime
    /// computes it between codes. Other targets round it from binary64.
    INTQ_ALWAYS_INLINE constexpr bool computes_as_onnx() const noexcept {
        return requantize == RequantizeRule::float_scale;
    }

    /// Whether both compute the same codes for the same scales: every rule is equal. The name, the schemes and the
    /// constraints, which decide what comes in and what is admitted, may differ.
    INTQ_ALWAYS_INLINE constexpr bool same_arithmetic(const PolicyRecord& other) const noexcept {
        return requantize == other.requantize && linear_in_binary64 == other.linear_in_binary64 &&
               mul_ratio_in_float32 == other.mul_ratio_in_float32 &&
               accumulator_bits_int8 == other.accumulator_bits_int8 &&
               accumulator_bits_int16 == other.accumulator_bits_int16 && widens_int16 == other.widens_int16 &&
               pre_cap == other.pre_cap && post_gemm == other.post_gemm && post_other == other.post_other &&
               bias == other.bias && headroom == other.headroom && zero_points == other.zero_points &&
               fused_add == other.fused_add && average == other.average && softmax == other.softmax &&
               quantize == other.quantize;
    }
};

/// A target is a type with a constexpr policy record.
///
///     struct my_chip { static constexpr arith::PolicyRecord policy = …; };
template <class T>
concept Target = requires {
    { T::policy } -> std::convertible_to<PolicyRecord>;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Accumulator type of a policy for one type of input and of weights.
template <class TargetType, DType Input, DType Weight = DType::int8>
using Accumulator = std::conditional_t<TargetType::policy.for_weights(Weight).accumulator_bits(Input) == 64,
                                       std::int64_t, std::int32_t>;

namespace detail {

template <RequantizeRule Rule, class Acc> struct PolicyOf;
template <class Acc> struct PolicyOf<RequantizeRule::float_scale, Acc> { using type = float_scale; };
template <class Acc> struct PolicyOf<RequantizeRule::two_stage, Acc> { using type = two_stage; };
template <class Acc> struct PolicyOf<RequantizeRule::binary64, Acc> { using type = binary64; };
template <class Acc> struct PolicyOf<RequantizeRule::single_rounding, Acc> {
    using type = std::conditional_t<std::is_same_v<Acc, std::int64_t>, wide_fixed_point, fixed_point<single_rounding>>;
};
template <class Acc> struct PolicyOf<RequantizeRule::double_rounding, Acc> {
    using type = std::conditional_t<std::is_same_v<Acc, std::int64_t>, wide_fixed_point, fixed_point<double_rounding>>;
};

}  // namespace detail

/// The requantize policy of a target for an accumulator type.
template <class TargetType, class Acc>
using RequantizePolicy = typename detail::PolicyOf<TargetType::policy.requantize, Acc>::type;

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_TARGET_HPP
