// SPDX-License-Identifier: MIT
//
// The list of the operators that a program can execute. Layer: kernels. An operator is one line.
#ifndef INTQ_KERNELS_OPERATORS_OPERATOR_TABLE_HPP
#define INTQ_KERNELS_OPERATORS_OPERATOR_TABLE_HPP

#include "intq/kernels/operators/argmax.hpp"
#include "intq/kernels/operators/constant.hpp"
#include "intq/kernels/operators/conv.hpp"
#include "intq/kernels/operators/elementwise.hpp"
#include "intq/kernels/operators/embedding.hpp"
#include "intq/kernels/operators/index_copy.hpp"
#include "intq/kernels/operators/layer_norm.hpp"
#include "intq/kernels/operators/matmul.hpp"
#include "intq/kernels/operators/move.hpp"
#include "intq/kernels/operators/pool.hpp"
#include "intq/kernels/operators/quantize.hpp"
#include "intq/kernels/operators/quantize_image.hpp"
#include "intq/kernels/operators/resize.hpp"
#include "intq/kernels/operators/softmax.hpp"
#include "intq/kernels/operators/unary.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

inline constexpr ProgramOperator program_operators[] = {
    operators::quantize_operator,      operators::dequantize_operator,
    operators::layout_change_operator, operators::conv2d_operator,
    operators::linear_operator,        operators::add_operator,
    operators::relu_operator,          operators::requantize_operator,
    operators::cat_operator,           operators::max_pool2d_operator,
    operators::avg_pool2d_operator,    operators::mul_operator,
    operators::lookup_table_operator,  operators::interpolate_operator,
    operators::pad_operator,           operators::sub_operator,
    operators::slice_operator,         operators::permute_operator,
    operators::reshape_operator,       operators::softmax_operator,
    operators::constant_operator,      operators::quantize_image_operator,
    operators::layer_norm_operator,    operators::matmul_operator,
    operators::embedding_operator,     operators::log_softmax_operator,
    operators::index_copy_operator,    operators::argmax_operator,
};

/// Null for an operator that programs do not have.
constexpr const ProgramOperator* find_operator(OpKind op) noexcept {
    for (const ProgramOperator& row : program_operators)
        if (row.op == op) return &row;
    return nullptr;
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_OPERATORS_OPERATOR_TABLE_HPP
