// SPDX-License-Identifier: MIT
//
// The table of the ONNX operators that are read; the functions are in operators/. Layer: interop
// (docs/design.md section 10).
//
// Source   https://github.com/onnx/onnx/blob/main/docs/Operators.md and Changelog.md, opsets 11 to 28
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_HPP

#include <cstdint>

#include "intq/core/op_params.hpp"
#include "intq/interop/onnx/internal/nodes/expand_attention.hpp"
#include "intq/interop/onnx/internal/nodes/node_import.hpp"
#include "intq/interop/onnx/internal/operators/conv.hpp"
#include "intq/interop/onnx/internal/operators/einsum.hpp"
#include "intq/interop/onnx/internal/operators/elementwise.hpp"
#include "intq/interop/onnx/internal/operators/expand.hpp"
#include "intq/interop/onnx/internal/operators/extremes.hpp"
#include "intq/interop/onnx/internal/operators/fold.hpp"
#include "intq/interop/onnx/internal/operators/gather.hpp"
#include "intq/interop/onnx/internal/operators/linear_along.hpp"
#include "intq/interop/onnx/internal/operators/move.hpp"
#include "intq/interop/onnx/internal/operators/norm.hpp"
#include "intq/interop/onnx/internal/operators/pool.hpp"
#include "intq/interop/onnx/internal/operators/positions.hpp"
#include "intq/interop/onnx/internal/operators/prelu.hpp"
#include "intq/interop/onnx/internal/operators/quantize.hpp"
#include "intq/interop/onnx/internal/operators/rearrange.hpp"
#include "intq/interop/onnx/internal/operators/reduce.hpp"
#include "intq/interop/onnx/internal/operators/reduce_max.hpp"
#include "intq/interop/onnx/internal/operators/reshape.hpp"
#include "intq/interop/onnx/internal/operators/resize.hpp"
#include "intq/interop/onnx/internal/operators/softmax.hpp"
#include "intq/interop/onnx/internal/operators/unary.hpp"
#include "intq/interop/onnx/internal/operators/where.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/nn/layers/unary.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// An operator's meaning in a range of opsets.
struct OnnxOperator {
    const char* op_type;
    std::int64_t first_opset, last_opset;
    void (*import)(NodeImport&);
};

/// An operator is one row. Opsets between the bounds that changed nothing but types share it.
inline constexpr OnnxOperator onnx_operators[] = {
    {"Abs", 11, newest_opset, &operators::unary_function<TableFunction::abs>},
    {"Add", 11, newest_opset, &operators::add},
    {"And", 11, newest_opset, &operators::of_constants},
    {"ArgMax", 11, newest_opset, &operators::argmax},
    {"Attention", 23, newest_opset, &operators::attention},  // that is not expanded
    {"AveragePool", 11, newest_opset, &operators::average_pool},
    {"BatchNormalization", 11, newest_opset, &operators::batch_normalization},
    {"Cast", 11, newest_opset, &operators::cast},
    {"Ceil", 11, newest_opset, &operators::of_constants},
    {"Celu", 12, newest_opset, &operators::unary_with_alpha<TableFunction::celu>},
    {"Clip", 11, newest_opset, &operators::clip},
    {"Concat", 11, newest_opset, &operators::concat},
    {"Constant", 11, newest_opset, &operators::constant},
    {"ConstantOfShape", 11, newest_opset, &operators::of_constants},
    {"Conv", 11, newest_opset, &operators::conv},
    {"ConvTranspose", 11, newest_opset, &operators::conv_transpose},
    {"CumSum", 11, newest_opset, &operators::cumsum},
    {"DepthToSpace", 11, newest_opset, &operators::depth_to_space},
    {"DequantizeLinear", 11, newest_opset, &operators::dequantize_linear},
    {"Div", 11, newest_opset, &operators::div},
    {"Dropout", 11, 11, &operators::dropout_with_attribute},
    {"Dropout", 12, newest_opset, &operators::dropout},
    {"Einsum", 12, newest_opset, &operators::einsum},
    {"Elu", 11, newest_opset, &operators::unary_with_alpha<TableFunction::elu>},
    {"Equal", 11, newest_opset, &operators::of_constants},
    {"Erf", 11, newest_opset, &operators::unary_function<TableFunction::erf>},
    {"Exp", 11, newest_opset, &operators::unary_function<TableFunction::exp>},
    {"Expand", 11, newest_opset, &operators::expand},
    {"Flatten", 11, newest_opset, &operators::flatten},
    {"Floor", 11, newest_opset, &operators::of_constants},
    {"Gather", 11, newest_opset, &operators::gather},
    {"GatherND", 11, newest_opset, &operators::gather_nd},
    {"Gelu", 20, newest_opset, &operators::gelu},
    {"Gemm", 11, newest_opset, &operators::gemm},
    {"GlobalAveragePool", 11, newest_opset, &operators::global_average_pool},
    {"GlobalMaxPool", 11, newest_opset, &operators::global_max_pool},
    {"Greater", 11, newest_opset, &operators::of_constants},
    {"GreaterOrEqual", 12, newest_opset, &operators::of_constants},
    {"GroupNormalization", 21, newest_opset, &operators::group_normalization},
    {"HardSigmoid", 11, newest_opset, &operators::hard_sigmoid},
    {"HardSwish", 14, newest_opset, &operators::unary_module<TableFunction::hard_swish>},
    {"Identity", 11, newest_opset, &operators::identity},
    {"InstanceNormalization", 11, newest_opset, &operators::instance_normalization},
    {"IsNaN", 13, newest_opset, &operators::is_nan},
    {"LayerNormalization", 17, newest_opset, &operators::layer_normalization},
    {"LeakyRelu", 11, newest_opset, &operators::unary_with_alpha<TableFunction::leaky_relu>},
    {"Less", 11, newest_opset, &operators::of_constants},
    {"LessOrEqual", 12, newest_opset, &operators::of_constants},
    {"Log", 11, newest_opset, &operators::unary_function<TableFunction::log>},
    {"LogSoftmax", 11, newest_opset, &operators::log_softmax},
    {"LpNormalization", 11, newest_opset, &operators::lp_normalization},
    {"MatMul", 11, newest_opset, &operators::matmul},
    {"Max", 11, newest_opset, &operators::maximum},
    {"MaxPool", 11, newest_opset, &operators::max_pool},
    {"Min", 11, newest_opset, &operators::minimum},
    {"Mish", 18, newest_opset, &operators::unary_module<TableFunction::mish>},
    {"Mod", 11, newest_opset, &operators::of_constants},
    {"Mul", 11, newest_opset, &operators::mul},
    {"Neg", 11, newest_opset, &operators::unary_function<TableFunction::neg>},
    {"Not", 11, newest_opset, &operators::of_constants},
    {"Or", 11, newest_opset, &operators::of_constants},
    {"Pad", 11, newest_opset, &operators::pad},
    {"Pow", 11, newest_opset, &operators::pow},
    {"PRelu", 11, newest_opset, &operators::prelu},
    {"QuantizeLinear", 11, newest_opset, &operators::quantize_linear},
    {"QLinearAveragePool", 11, newest_opset, &operators::average_pool_of_values},  // of real numbers by now
    {"RMSNormalization", 23, newest_opset, &operators::rms_normalization},
    {"Range", 11, newest_opset, &operators::of_constants},
    {"Reciprocal", 11, newest_opset, &operators::unary_function<TableFunction::reciprocal>},
    {"ReduceL2", 11, newest_opset, &operators::reduce_l2},
    {"ReduceMax", 11, newest_opset, &operators::reduce_max},
    {"ReduceMean", 11, newest_opset, &operators::reduce_mean},
    {"ReduceMin", 11, newest_opset, &operators::reduce_min},
    {"ReduceProd", 11, newest_opset, &operators::of_constants},
    {"ReduceSum", 11, newest_opset, &operators::reduce_sum},
    {"Relu", 11, newest_opset, &operators::relu},
    {"Reshape", 11, newest_opset, &operators::reshape},
    {"Resize", 11, newest_opset, &operators::resize},
    {"RotaryEmbedding", 23, newest_opset, &operators::rotary_embedding},
    {"ScatterElements", 11, newest_opset, &operators::scatter},
    {"ScatterND", 11, newest_opset, &operators::scatter},
    {"Selu", 11, newest_opset, &operators::selu},
    {"Shape", 11, newest_opset, &operators::shape},
    {"Shrink", 11, newest_opset, &operators::shrink},
    {"Sigmoid", 11, newest_opset, &operators::unary_module<TableFunction::sigmoid>},
    {"Slice", 11, newest_opset, &operators::slice},
    {"Softmax", 11, newest_opset, &operators::softmax},
    {"Softplus", 11, newest_opset, &operators::unary_module<TableFunction::softplus>},
    {"Softsign", 11, newest_opset, &operators::unary_module<TableFunction::softsign>},
    {"SpaceToDepth", 11, newest_opset, &operators::space_to_depth},
    {"Split", 11, newest_opset, &operators::split},
    {"Sqrt", 11, newest_opset, &operators::unary_function<TableFunction::sqrt>},
    {"Squeeze", 11, newest_opset, &operators::squeeze},
    {"Sub", 11, newest_opset, &operators::sub},
    {"Tanh", 11, newest_opset, &operators::unary_module<TableFunction::tanh>},
    {"Tile", 11, newest_opset, &operators::tile},
    {"Transpose", 11, newest_opset, &operators::transpose},
    {"Trilu", 14, newest_opset, &operators::of_constants},
    {"Unsqueeze", 11, newest_opset, &operators::unsqueeze},
    {"Where", 11, newest_opset, &operators::where},
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_HPP
