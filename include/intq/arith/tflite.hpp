// SPDX-License-Identifier: MIT
//
// target::tflite: a 32-bit fixed-point factor per channel; agrees with TFLite and CMSIS-NN. Layer: arith
// (docs/arithmetic.md section 2.2).
#ifndef INTQ_ARITH_TFLITE_HPP
#define INTQ_ARITH_TFLITE_HPP

#include "intq/arith/target.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

inline constexpr auto tflite_constraints = join_rows(
    conversion_rows<DType::int8, DType::int16>, accumulator_rows, embedding_rows<DType::int8, DType::int16>,
    argmax_rows<DType::int8, DType::int16>, moved_index_rows,
    weighted_rows<DType::int8, DType::int8, DType::int8, DType::int32>,
    weighted_rows<DType::int16, DType::int8, DType::int16>, unlimited_rows<DType::int8>, unlimited_rows<DType::int16>,
    softmax_rows<DType::int8, DType::int16>, rows_of_type<DType::int16, OpKind::softmax>);

/// TFLite's own scales of results that lie between 0 and 1, or -1 and 1.
inline constexpr std::array<FixedOutput, 7> tflite_fixed_outputs{
    FixedOutput{OpKind::softmax, {}, DType::int8, DType::int8, 0x1p-8f, -128},
    FixedOutput{OpKind::softmax, {}, DType::int8, DType::int16, 0x1p-16f, -32768},
    FixedOutput{OpKind::softmax, {}, DType::int16, DType::int16, 0x1p-15f, 0},
    FixedOutput{OpKind::lookup_table, TableFunction::sigmoid, DType::int8, DType::int8, 0x1p-8f, -128},
    FixedOutput{OpKind::lookup_table, TableFunction::tanh, DType::int8, DType::int8, 0x1p-7f, 0},
    FixedOutput{OpKind::lookup_table, TableFunction::sigmoid, DType::int16, DType::int16, 0x1p-15f, 0},
    FixedOutput{OpKind::lookup_table, TableFunction::tanh, DType::int16, DType::int16, 0x1p-15f, 0}};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::target {
inline namespace INTQ_CORE_ABI {

/// int8: RDBPOT(SRDHM(acc·2^left, M), right) with double rounding, (acc·M + half) >> (31 - shift) with single.
/// int16 activations: 64-bit accumulators and a 16-bit multiplier under either rule.
///
/// @tparam RoundingRule  arith::single_rounding or arith::double_rounding: TFLite mixes the two inside one
///                       model, so the rule belongs to the operation and is never a global switch
template <class RoundingRule = arith::double_rounding> struct tflite {
    static_assert(
        std::is_same_v<RoundingRule, arith::single_rounding> || std::is_same_v<RoundingRule, arith::double_rounding>,
        "target::tflite<RoundingRule>: RoundingRule must be arith::single_rounding or arith::double_rounding");
    static constexpr arith::PolicyRecord policy = [] {
        constexpr bool is_single = std::is_same_v<RoundingRule, arith::single_rounding>;
        arith::PolicyRecord record{};
        record.name = is_single ? "tflite_single_rounding" : "tflite";
        record.requantize = is_single ? arith::RequantizeRule::single_rounding : arith::RequantizeRule::double_rounding;
        record.accumulator_bits_int16 = 64;
        record.zero_points = true;
        record.weight_scheme = arith::SymmetricScheme::narrow_range;
        record.activation_scheme = arith::SymmetricScheme::all_codes;
        record.average = arith::AverageRule::divide_codes;
        record.softmax = arith::SoftmaxRule::fixed_point;
        record.constraints = arith::tflite_constraints;
        record.fixed_outputs = arith::tflite_fixed_outputs;
        return record;
    }();
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::target

#endif  // INTQ_ARITH_TFLITE_HPP
