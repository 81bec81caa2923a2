// SPDX-License-Identifier: MIT
//
// Marches of the bpu target: one column of the policy table each. Layer: arith (docs/arithmetic.md section 2.3).
//
// The bpu arithmetic is our own definition of a machine of that kind; it promises nothing about silicon.
#ifndef INTQ_ARITH_MARCH_HPP
#define INTQ_ARITH_MARCH_HPP

#include "intq/arith/target.hpp"

namespace intq::arith {
inline namespace INTQ_ABI {
namespace detail {

/// A pooling whose kernel, stride and padding are at most 256.
constexpr ConstraintRow pool_row(OpKind op, DType type) noexcept {
    return {op, type, DType::none, type, 256, 256, 256};
}

/// The record that all marches start from.
constexpr PolicyRecord bpu_record(const char* name, int pre_cap, int headroom) noexcept {
    PolicyRecord record{};
    record.name = name;
    record.requantize = RequantizeRule::two_stage;
    record.pre_cap = pre_cap;
    record.headroom = headroom;
    record.fused_add = true;
    return record;
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

inline constexpr auto bernoulli2_constraints = join_rows(
    conversion_rows<DType::int8>, accumulator_rows, weighted_rows<DType::int8, DType::int8, DType::int8, DType::int32>,
    std::array<ConstraintRow, 4>{
        ConstraintRow{.op = OpKind::add, .input = DType::int8, .output = DType::int8, .max_channels = 2048},
        ConstraintRow{.op = OpKind::sub, .input = DType::int8, .output = DType::int8, .max_channels = 2048},
        ConstraintRow{.op = OpKind::mul, .input = DType::int8, .output = DType::int8, .max_channels = 2048},
        ConstraintRow{.op = OpKind::avg_pool2d, .input = DType::int8, .output = DType::int8, .max_kernel = 7}},
    rows_of_type<DType::int8, OpKind::relu, OpKind::max_pool2d, OpKind::cat, OpKind::flatten, OpKind::lookup_table,
                 OpKind::interpolate, OpKind::pad, OpKind::slice, OpKind::permute, OpKind::reshape>,
    softmax_rows<DType::int8>);

/// bayes and meta share these for each type; they differ in the rows with int16 weights.
template <DType Type>
inline constexpr auto bayes_rows =
    join_rows(weighted_rows<Type, DType::int8, DType::int8, DType::int16, DType::int32>,
              std::array<ConstraintRow, 2>{detail::pool_row(OpKind::max_pool2d, Type),
                                           detail::pool_row(OpKind::avg_pool2d, Type)},
              rows_of_type<Type, OpKind::add, OpKind::relu, OpKind::cat, OpKind::flatten, OpKind::mul,
                           OpKind::lookup_table, OpKind::interpolate, OpKind::pad, OpKind::sub, OpKind::slice,
                           OpKind::permute, OpKind::reshape, OpKind::index_copy>);

inline constexpr auto bayes_constraints = join_rows(
    conversion_rows<DType::int8, DType::int16>, accumulator_rows, embedding_rows<DType::int8, DType::int16>,
    argmax_rows<DType::int8, DType::int16>, moved_index_rows, bayes_rows<DType::int8>, bayes_rows<DType::int16>,
    softmax_rows<DType::int8>, rows_of_type<DType::int8, OpKind::layer_norm, OpKind::matmul, OpKind::log_softmax>);

inline constexpr auto meta_constraints =
    join_rows(bayes_constraints,
              rows_of_type<DType::int16, OpKind::layer_norm, OpKind::matmul, OpKind::softmax, OpKind::log_softmax>,
              weighted_rows<DType::int8, DType::int16, DType::int8, DType::int16, DType::int32>,
              weighted_rows<DType::int16, DType::int16, DType::int8, DType::int16, DType::int32>);

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::march {
inline namespace INTQ_CORE_ABI {

/// 32-bit sums, int8 only, floor after the multiplication of conv and linear, bias of 16 bits and a shift.
struct bernoulli2 {
    static constexpr arith::PolicyRecord policy = [] {
        arith::PolicyRecord record = arith::detail::bpu_record("bernoulli2", 31, 29);
        record.post_gemm = arith::ShiftRounding::floor;
        record.bias = arith::BiasRule::shifted_16_bits;
        record.constraints = arith::bernoulli2_constraints;
        return record;
    }();
};

/// 32-bit sums, int8 and int16 activations, int8 weights.
struct bayes {
    static constexpr arith::PolicyRecord policy = [] {
        arith::PolicyRecord record = arith::detail::bpu_record("bayes", 17, 30);
        record.constraints = arith::bayes_constraints;
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
        record.constraints = arith::meta_constraints;
        return record;
    }();
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::march

#endif  // INTQ_ARITH_MARCH_HPP
