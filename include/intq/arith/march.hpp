// SPDX-License-Identifier: MIT
//
// Marches of the bpu target: one column of the policy table each. Layer: arith (ARITHMETIC section 2.3).
//
// The bpu arithmetic is our own definition of a machine of that kind; it promises nothing about silicon.
#ifndef INTQ_ARITH_MARCH_HPP
#define INTQ_ARITH_MARCH_HPP

#include "intq/arith/target.hpp"

namespace intq::inline INTQ_ABI {

namespace arith::detail {

inline constexpr ConstraintRow bernoulli2_constraints[] = {
    {OpKind::quantize, DType::float32, DType::none, DType::int8},
    {OpKind::dequantize, DType::int8, DType::none, DType::float32},
    {OpKind::dequantize, DType::int32, DType::none, DType::float32},
    {OpKind::requantize, DType::int8, DType::none, DType::int8},
    {OpKind::conv2d, DType::int8, DType::int8, DType::int8},
    {OpKind::conv2d, DType::int8, DType::int8, DType::int32},
    {OpKind::linear, DType::int8, DType::int8, DType::int8},
    {OpKind::linear, DType::int8, DType::int8, DType::int32},
    {.op = OpKind::add, .input = DType::int8, .output = DType::int8, .max_channels = 2048},
    {OpKind::relu, DType::int8, DType::none, DType::int8},
    {OpKind::max_pool2d, DType::int8, DType::none, DType::int8},
    {.op = OpKind::avg_pool2d, .input = DType::int8, .output = DType::int8, .max_kernel = 7},
    {OpKind::cat, DType::int8, DType::none, DType::int8},
    {OpKind::flatten, DType::int8, DType::none, DType::int8},
};

// bayes and meta share these; they differ in the rows with int16 weights.
#define INTQ_DETAIL_BAYES_ROWS_                                                                                       \
    {OpKind::quantize, DType::float32, DType::none, DType::int8},                                                     \
        {OpKind::quantize, DType::float32, DType::none, DType::int16},                                                \
        {OpKind::dequantize, DType::int8, DType::none, DType::float32},                                               \
        {OpKind::dequantize, DType::int16, DType::none, DType::float32},                                              \
        {OpKind::dequantize, DType::int32, DType::none, DType::float32},                                              \
        {OpKind::requantize, DType::int8, DType::none, DType::int8},                                                  \
        {OpKind::requantize, DType::int8, DType::none, DType::int16},                                                 \
        {OpKind::requantize, DType::int16, DType::none, DType::int8},                                                 \
        {OpKind::requantize, DType::int16, DType::none, DType::int16},                                                \
        {OpKind::conv2d, DType::int8, DType::int8, DType::int8},                                                      \
        {OpKind::conv2d, DType::int8, DType::int8, DType::int16},                                                     \
        {OpKind::conv2d, DType::int8, DType::int8, DType::int32},                                                     \
        {OpKind::conv2d, DType::int16, DType::int8, DType::int8},                                                     \
        {OpKind::conv2d, DType::int16, DType::int8, DType::int16},                                                    \
        {OpKind::conv2d, DType::int16, DType::int8, DType::int32},                                                    \
        {OpKind::linear, DType::int8, DType::int8, DType::int8},                                                      \
        {OpKind::linear, DType::int8, DType::int8, DType::int16},                                                     \
        {OpKind::linear, DType::int8, DType::int8, DType::int32},                                                     \
        {OpKind::linear, DType::int16, DType::int8, DType::int8},                                                     \
        {OpKind::linear, DType::int16, DType::int8, DType::int16},                                                    \
        {OpKind::linear, DType::int16, DType::int8, DType::int32},                                                    \
        {OpKind::add, DType::int8, DType::none, DType::int8}, {OpKind::add, DType::int16, DType::none, DType::int16}, \
        {OpKind::relu, DType::int8, DType::none, DType::int8},                                                        \
        {OpKind::relu, DType::int16, DType::none, DType::int16},                                                      \
        {OpKind::max_pool2d, DType::int8, DType::none, DType::int8, 256, 256, 256},                                   \
        {OpKind::max_pool2d, DType::int16, DType::none, DType::int16, 256, 256, 256},                                 \
        {OpKind::avg_pool2d, DType::int8, DType::none, DType::int8, 256, 256, 256},                                   \
        {OpKind::avg_pool2d, DType::int16, DType::none, DType::int16, 256, 256, 256},                                 \
        {OpKind::cat, DType::int8, DType::none, DType::int8}, {OpKind::cat, DType::int16, DType::none, DType::int16}, \
        {OpKind::flatten, DType::int8, DType::none, DType::int8}, {                                                   \
        OpKind::flatten, DType::int16, DType::none, DType::int16                                                      \
    }

inline constexpr ConstraintRow bayes_constraints[] = {INTQ_DETAIL_BAYES_ROWS_};

inline constexpr ConstraintRow meta_constraints[] = {
    INTQ_DETAIL_BAYES_ROWS_,
    {OpKind::conv2d, DType::int8, DType::int16, DType::int8},
    {OpKind::conv2d, DType::int8, DType::int16, DType::int16},
    {OpKind::conv2d, DType::int8, DType::int16, DType::int32},
    {OpKind::conv2d, DType::int16, DType::int16, DType::int8},
    {OpKind::conv2d, DType::int16, DType::int16, DType::int16},
    {OpKind::conv2d, DType::int16, DType::int16, DType::int32},
    {OpKind::linear, DType::int8, DType::int16, DType::int8},
    {OpKind::linear, DType::int8, DType::int16, DType::int16},
    {OpKind::linear, DType::int8, DType::int16, DType::int32},
    {OpKind::linear, DType::int16, DType::int16, DType::int8},
    {OpKind::linear, DType::int16, DType::int16, DType::int16},
    {OpKind::linear, DType::int16, DType::int16, DType::int32},
};
#undef INTQ_DETAIL_BAYES_ROWS_

/// What all marches have in common.
constexpr PolicyRecord bpu_record(const char* name, int pre_cap, int headroom) noexcept {
    PolicyRecord record;
    record.name = name;
    record.requantize = RequantizeRule::two_stage;
    record.pre_cap = pre_cap;
    record.headroom = headroom;
    record.fused_add = true;
    return record;
}

}  // namespace arith::detail

namespace march {

/// 32-bit sums, int8 only, floor after the multiplication of conv and linear, bias of 16 bits and a shift.
struct bernoulli2 {
    static constexpr arith::PolicyRecord policy = [] {
        arith::PolicyRecord record = arith::detail::bpu_record("bernoulli2", 31, 29);
        record.post_gemm = arith::ShiftRounding::floor;
        record.bias = arith::BiasRule::shifted_16_bits;
        record.constraints = arith::detail::bernoulli2_constraints;
        return record;
    }();
};

/// 32-bit sums, int8 and int16 activations, int8 weights.
struct bayes {
    static constexpr arith::PolicyRecord policy = [] {
        arith::PolicyRecord record = arith::detail::bpu_record("bayes", 17, 30);
        record.constraints = arith::detail::bayes_constraints;
        return record;
    }();
};

/// 64-bit sums, int8 and int16 activations and weights.
struct meta {
    static constexpr arith::PolicyRecord policy = [] {
        arith::PolicyRecord record = arith::detail::bpu_record("meta", 47, 46);
        record.accumulator_bits_int8 = 64;
        record.accumulator_bits_int16 = 64;
        record.bias = arith::BiasRule::int64;
        record.constraints = arith::detail::meta_constraints;
        return record;
    }();
};

}  // namespace march

}  // namespace intq::inline INTQ_ABI

#endif  // INTQ_ARITH_MARCH_HPP
