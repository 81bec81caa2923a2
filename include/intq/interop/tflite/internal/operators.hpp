// SPDX-License-Identifier: MIT
//
// The table of the TFLite operators that become instructions of a program; the functions are in operators/. Layer:
// interop (docs/design.md section 10).
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_HPP

#include <cstdint>

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"
#include "intq/interop/tflite/internal/operators/conv.hpp"
#include "intq/interop/tflite/internal/operators/elementwise.hpp"
#include "intq/interop/tflite/internal/operators/move.hpp"
#include "intq/interop/tflite/internal/operators/pool.hpp"
#include "intq/interop/tflite/internal/operators/quantize.hpp"
#include "intq/interop/tflite/internal/operators/resize.hpp"
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
};

/// An operator is one row.
inline constexpr TfliteOperator tflite_operators[] = {
    {0, "ADD", fields::Add::type, &operators::add},
    {1, "AVERAGE_POOL_2D", fields::Pool2D::type, &operators::average_pool_2d},
    {2, "CONCATENATION", fields::Concatenation::type, &operators::concatenation},
    {3, "CONV_2D", fields::Conv2D::type, &operators::conv_2d},
    {4, "DEPTHWISE_CONV_2D", fields::DepthwiseConv2D::type, &operators::depthwise_conv_2d},
    {6, "DEQUANTIZE", -1, &operators::dequantize},
    {9, "FULLY_CONNECTED", fields::FullyConnected::type, &operators::fully_connected},
    {14, "LOGISTIC", -1, &operators::logistic},
    {17, "MAX_POOL_2D", fields::Pool2D::type, &operators::max_pool_2d},
    {18, "MUL", fields::Mul::type, &operators::mul},
    {19, "RELU", -1, &operators::relu},
    {20, "RELU_N1_TO_1", -1, &operators::relu_n1_to_1},
    {21, "RELU6", -1, &operators::relu6},
    {22, "RESHAPE", -1, &operators::reshape},
    {23, "RESIZE_BILINEAR", fields::ResizeBilinear::type, &operators::resize_bilinear},
    {25, "SOFTMAX", fields::Softmax::type, &operators::softmax},
    {28, "TANH", -1, &operators::tanh},
    {34, "PAD", -1, &operators::pad},
    {39, "TRANSPOSE", -1, &operators::transpose},
    {40, "MEAN", -1, &operators::mean},
    {41, "SUB", fields::Sub::type, &operators::sub},
    {43, "SQUEEZE", -1, &operators::reshape},
    {45, "STRIDED_SLICE", fields::StridedSlice::type, &operators::strided_slice},
    {60, "PADV2", -1, &operators::pad},
    {65, "SLICE", -1, &operators::slice},
    {67, "TRANSPOSE_CONV", fields::TransposeConv::type, &operators::transpose_conv},
    {70, "EXPAND_DIMS", -1, &operators::reshape},
    {97, "RESIZE_NEAREST_NEIGHBOR", fields::ResizeNearest::type, &operators::resize_nearest_neighbor},
    {98, "LEAKY_RELU", fields::LeakyRelu::type, &operators::leaky_relu},
    {100, "MIRROR_PAD", fields::MirrorPad::type, &operators::mirror_pad},
    {114, "QUANTIZE", -1, &operators::quantize},
    {117, "HARD_SWISH", -1, &operators::hard_swish},
};
static_assert(detail::are_named(tflite_operators), "a row has another name than the schema's");

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_HPP
