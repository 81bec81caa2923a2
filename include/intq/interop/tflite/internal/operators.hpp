// SPDX-License-Identifier: MIT
//
// The table of the TFLite operators. The functions are in operators/, which make instructions of a program, and in
// float_model/, which make nodes of ONNX. Layer: interop (docs/design.md section 10).
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_HPP

#include <cstdint>

#include "intq/interop/tflite/internal/float_model/float_import.hpp"
#include "intq/interop/tflite/internal/float_model/operators.hpp"
#include "intq/interop/tflite/internal/float_model/pieces.hpp"
#include "intq/interop/tflite/internal/nodes/operator_import.hpp"
#include "intq/interop/tflite/internal/operators/blocks.hpp"
#include "intq/interop/tflite/internal/operators/conv.hpp"
#include "intq/interop/tflite/internal/operators/elementwise.hpp"
#include "intq/interop/tflite/internal/operators/embedding.hpp"
#include "intq/interop/tflite/internal/operators/extremes.hpp"
#include "intq/interop/tflite/internal/operators/functions.hpp"
#include "intq/interop/tflite/internal/operators/matmul.hpp"
#include "intq/interop/tflite/internal/operators/move.hpp"
#include "intq/interop/tflite/internal/operators/pieces.hpp"
#include "intq/interop/tflite/internal/operators/pool.hpp"
#include "intq/interop/tflite/internal/operators/quantize.hpp"
#include "intq/interop/tflite/internal/operators/resize.hpp"
#include "intq/interop/tflite/internal/operators/select.hpp"
#include "intq/interop/tflite/internal/operators/softmax.hpp"
#include "intq/interop/tflite/internal/operators/unary.hpp"
#include "intq/interop/tflite/internal/read/fields.hpp"
#include "intq/interop/tflite/internal/read/names.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// A built-in operator.
struct TfliteOperator {
    std::int32_t code;
    const char* name;
    int options;  // the number of its options in the union; -1: they are not read
    void (*import)(OperatorImport&);
    void (*import_float)(FloatImport&);  // of real numbers; null where they are not supported
    bool takes_uint8 = true;             // whether LiteRT computes the codes of int8 with 128 added
};

/// An operator is one row.
inline constexpr TfliteOperator tflite_operators[] = {
    {0, "ADD", fields::Add::type, &operators::add, &float_model::add},
    {1, "AVERAGE_POOL_2D", fields::Pool2D::type, &operators::average_pool_2d, &float_model::average_pool_2d},
    {2, "CONCATENATION", fields::Concatenation::type, &operators::concatenation, &float_model::concatenation},
    {3, "CONV_2D", fields::Conv2D::type, &operators::conv_2d, &float_model::conv_2d},
    {4, "DEPTHWISE_CONV_2D", fields::DepthwiseConv2D::type, &operators::depthwise_conv_2d,
     &float_model::depthwise_conv_2d},
    {5, "DEPTH_TO_SPACE", fields::DepthToSpace::type, &operators::depth_to_space, &float_model::depth_to_space},
    {6, "DEQUANTIZE", -1, &operators::dequantize, nullptr},
    {7, "EMBEDDING_LOOKUP", -1, &operators::embedding_lookup, nullptr},
    {9, "FULLY_CONNECTED", fields::FullyConnected::type, &operators::fully_connected, &float_model::fully_connected},
    {14, "LOGISTIC", -1, &operators::logistic, &float_model::logistic},
    {17, "MAX_POOL_2D", fields::Pool2D::type, &operators::max_pool_2d, &float_model::max_pool_2d},
    {18, "MUL", fields::Mul::type, &operators::mul, &float_model::mul},
    {19, "RELU", -1, &operators::relu, &float_model::relu},
    {20, "RELU_N1_TO_1", -1, &operators::relu_n1_to_1, &float_model::relu_n1_to_1},
    {21, "RELU6", -1, &operators::relu6, &float_model::relu6},
    {22, "RESHAPE", -1, &operators::reshape, &float_model::reshape},
    {23, "RESIZE_BILINEAR", fields::ResizeBilinear::type, &operators::resize_bilinear, &float_model::resize_bilinear,
     false},
    {25, "SOFTMAX", fields::Softmax::type, &operators::softmax, &float_model::softmax},
    {26, "SPACE_TO_DEPTH", fields::SpaceToDepth::type, &operators::space_to_depth, &float_model::space_to_depth},
    {28, "TANH", -1, &operators::tanh, &float_model::tanh},
    {34, "PAD", -1, &operators::pad, &float_model::pad},
    {36, "GATHER", fields::Gather::type, &operators::gather, &float_model::gather},
    {39, "TRANSPOSE", -1, &operators::transpose, &float_model::transpose},
    {40, "MEAN", -1, &operators::mean, &float_model::mean},
    {41, "SUB", fields::Sub::type, &operators::sub, &float_model::sub},
    {43, "SQUEEZE", -1, &operators::reshape, &float_model::reshape},
    {45, "STRIDED_SLICE", fields::StridedSlice::type, &operators::strided_slice, nullptr},
    {47, "EXP", -1, &operators::exp, &float_model::exp, false},
    {49, "SPLIT", fields::Split::type, &operators::split, &float_model::split},
    {50, "LOG_SOFTMAX", -1, &operators::log_softmax, &float_model::log_softmax, false},
    {55, "MAXIMUM", fields::MaximumMinimum::type, &operators::maximum, &float_model::maximum},
    {57, "MINIMUM", fields::MaximumMinimum::type, &operators::minimum, &float_model::minimum},
    {59, "NEG", -1, &operators::neg, &float_model::neg, false},
    {60, "PADV2", -1, &operators::pad, nullptr},
    {64, "SELECT", -1, &operators::select, nullptr},
    {65, "SLICE", -1, &operators::slice, &float_model::slice},
    {67, "TRANSPOSE_CONV", fields::TransposeConv::type, &operators::transpose_conv, &float_model::transpose_conv},
    {70, "EXPAND_DIMS", -1, &operators::reshape, &float_model::reshape},
    {73, "LOG", -1, &operators::log, &float_model::log, false},
    {74, "SUM", fields::Reducer::type, &operators::sum_of_axes, &float_model::sum_of_axes},
    {75, "SQRT", -1, &operators::sqrt, &float_model::sqrt, false},
    {76, "RSQRT", -1, &operators::rsqrt, &float_model::rsqrt, false},
    {83, "PACK", fields::Pack::type, &operators::pack, &float_model::pack},
    {88, "UNPACK", fields::Unpack::type, &operators::unpack, &float_model::unpack},
    {97, "RESIZE_NEAREST_NEIGHBOR", fields::ResizeNearest::type, &operators::resize_nearest_neighbor,
     &float_model::resize_nearest_neighbor},
    {98, "LEAKY_RELU", fields::LeakyRelu::type, &operators::leaky_relu, &float_model::leaky_relu},
    {99, "SQUARED_DIFFERENCE", -1, &operators::squared_difference, &float_model::squared_difference, false},
    {100, "MIRROR_PAD", fields::MirrorPad::type, &operators::mirror_pad, &float_model::mirror_pad},
    {101, "ABS", -1, &operators::absolute, &float_model::absolute, false},
    {102, "SPLIT_V", fields::SplitV::type, &operators::split_v, &float_model::split_v},
    {105, "REVERSE_V2", -1, &operators::reverse, &float_model::reverse},
    {114, "QUANTIZE", -1, &operators::quantize, nullptr},
    {117, "HARD_SWISH", -1, &operators::hard_swish, &float_model::hard_swish},
    {123, "SELECT_V2", -1, &operators::select_v2, nullptr},
    {126, "BATCH_MATMUL", fields::BatchMatMul::type, &operators::batch_matmul, &float_model::batch_matmul, false},
    {130, "BROADCAST_TO", -1, &operators::broadcast_to, &float_model::broadcast_to},
    {150, "GELU", fields::Gelu::type, &operators::gelu, &float_model::gelu},
};
static_assert(detail::are_named(tflite_operators), "a row has another name than the schema's");

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_HPP
