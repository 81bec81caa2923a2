// SPDX-License-Identifier: MIT
//
// target::fp32: one float factor per channel; agrees with ONNX Runtime. Layer: arith (docs/arithmetic.md section 2.1).
#ifndef INTQ_ARITH_FP32_HPP
#define INTQ_ARITH_FP32_HPP

#include "intq/arith/target.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

inline constexpr auto fp32_constraints =
    join_rows(conversion_rows<DType::int8, DType::int16>, accumulator_rows, embedding_rows<DType::int8, DType::int16>,
              argmax_rows<DType::int8, DType::int16>, moved_index_rows,
              weighted_rows<DType::int8, DType::int8, DType::int8, DType::int32>,
              weighted_rows<DType::int16, DType::int8, DType::int16, DType::int32>,
              weighted_rows<DType::int16, DType::int16, DType::int16, DType::int32>, unlimited_rows<DType::int8>,
              unlimited_rows<DType::int16>, softmax_rows<DType::int8>, rows_of_type<DType::int16, OpKind::softmax>);

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::target {
inline namespace INTQ_CORE_ABI {

/// y = clamp(rhe(fmul(float32(acc), scale)) + zero_point), scale = s_in·s_w / s_out in float32.
struct fp32 {
    static constexpr arith::PolicyRecord policy = [] {
        arith::PolicyRecord record{};
        record.name = "fp32";
        record.requantize = arith::RequantizeRule::float_scale;
        record.zero_points = true;
        record.widens_int16 = true;
        record.weight_scheme = arith::SymmetricScheme::narrow_range;
        record.activation_scheme = arith::SymmetricScheme::all_codes;
        record.fused_add = true;
        record.average = arith::AverageRule::float_scale_sum;
        record.constraints = arith::fp32_constraints;
        return record;
    }();
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::target

#endif  // INTQ_ARITH_FP32_HPP
