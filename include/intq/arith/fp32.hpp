// SPDX-License-Identifier: MIT
//
// target::fp32: one float factor per channel; agrees with ONNX Runtime. Layer: arith (ARITHMETIC section 2.1).
#ifndef INTQ_ARITH_FP32_HPP
#define INTQ_ARITH_FP32_HPP

#include "intq/arith/target.hpp"

namespace intq::inline INTQ_ABI {

namespace arith::detail {

inline constexpr ConstraintRow fp32_constraints[] = {
    {OpKind::quantize, DType::float32, DType::none, DType::int8},
    {OpKind::quantize, DType::float32, DType::none, DType::int16},
    {OpKind::dequantize, DType::int8, DType::none, DType::float32},
    {OpKind::dequantize, DType::int16, DType::none, DType::float32},
    {OpKind::dequantize, DType::int32, DType::none, DType::float32},
    {OpKind::requantize, DType::int8, DType::none, DType::int8},
    {OpKind::requantize, DType::int8, DType::none, DType::int16},
    {OpKind::requantize, DType::int16, DType::none, DType::int8},
    {OpKind::requantize, DType::int16, DType::none, DType::int16},
    {OpKind::conv2d, DType::int8, DType::int8, DType::int8},
    {OpKind::conv2d, DType::int8, DType::int8, DType::int32},
    {OpKind::conv2d, DType::int16, DType::int8, DType::int16},
    {OpKind::conv2d, DType::int16, DType::int8, DType::int32},
    {OpKind::linear, DType::int8, DType::int8, DType::int8},
    {OpKind::linear, DType::int8, DType::int8, DType::int32},
    {OpKind::linear, DType::int16, DType::int8, DType::int16},
    {OpKind::linear, DType::int16, DType::int8, DType::int32},
    {OpKind::add, DType::int8, DType::none, DType::int8},
    {OpKind::add, DType::int16, DType::none, DType::int16},
    {OpKind::relu, DType::int8, DType::none, DType::int8},
    {OpKind::relu, DType::int16, DType::none, DType::int16},
    {OpKind::max_pool2d, DType::int8, DType::none, DType::int8},
    {OpKind::max_pool2d, DType::int16, DType::none, DType::int16},
    {OpKind::avg_pool2d, DType::int8, DType::none, DType::int8},
    {OpKind::avg_pool2d, DType::int16, DType::none, DType::int16},
    {OpKind::cat, DType::int8, DType::none, DType::int8},
    {OpKind::cat, DType::int16, DType::none, DType::int16},
    {OpKind::flatten, DType::int8, DType::none, DType::int8},
    {OpKind::flatten, DType::int16, DType::none, DType::int16},
};

}  // namespace arith::detail

namespace target {

/// y = clamp(rhe(fmul(float32(acc), scale)) + zero_point), scale = s_in·s_w / s_out in float32.
struct fp32 {
    static constexpr arith::PolicyRecord policy = [] {
        arith::PolicyRecord record;
        record.name = "fp32";
        record.requantize = arith::RequantizeRule::float_scale;
        record.zero_points = true;
        record.fused_add = true;
        record.average = arith::AverageRule::float_scale_sum;
        record.constraints = arith::detail::fp32_constraints;
        return record;
    }();
};

}  // namespace target

}  // namespace intq::inline INTQ_ABI

#endif  // INTQ_ARITH_FP32_HPP
