// SPDX-License-Identifier: MIT
//
// Numbers of TFLite's tables on the wire: the fields of each table, and what their numbers mean. Layer: interop.
//
// These are the facts of the format, version 3, that an import needs. A field has the number of its place in its table.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_READ_FIELDS_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_READ_FIELDS_HPP

#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

inline constexpr char file_identifier[] = "TFL3";
inline constexpr std::uint32_t format_version = 3;

namespace fields {

struct Model {
    static constexpr int version = 0, operator_codes = 1, subgraphs = 2, buffers = 4;
};
struct SubGraph {
    static constexpr int tensors = 0, inputs = 1, outputs = 2, operators = 3, name = 4;
};
struct Tensor {
    static constexpr int shape = 0, type = 1, buffer = 2, name = 3, quantization = 4, is_variable = 5, sparsity = 6,
                         external_buffer = 10;
};
struct Quantization {
    static constexpr int scale = 2, zero_point = 3, details_type = 4, dimension = 6;
};
struct Buffer {
    static constexpr int data = 0, offset = 1, size = 2;
};
struct Operator {
    static constexpr int code = 0, inputs = 1, outputs = 2, options_type = 3, options = 4;
};
struct OperatorCode {
    static constexpr int old_code = 0, custom = 1, version = 2, code = 3;
};

// Options of operators. `type` is the number of the table in the union.
struct Conv2D {
    static constexpr int type = 1, padding = 0, stride_w = 1, stride_h = 2, activation = 3, dilation_w = 4,
                         dilation_h = 5, bias_type = 6;
};
struct DepthwiseConv2D {
    static constexpr int type = 2, padding = 0, stride_w = 1, stride_h = 2, activation = 4, dilation_w = 5,
                         dilation_h = 6;
};
struct Pool2D {
    static constexpr int type = 5, padding = 0, stride_w = 1, stride_h = 2, width = 3, height = 4, activation = 5;
};
struct FullyConnected {
    static constexpr int type = 8, activation = 0, weights_format = 1, keeps_dims = 2, bias_type = 4;
};
struct Softmax {
    static constexpr int type = 9, beta = 0;
};
struct Concatenation {
    static constexpr int type = 10, axis = 0, activation = 1;
};
struct Add {
    static constexpr int type = 11, activation = 0, powers_of_two = 1;
};
struct ResizeBilinear {
    static constexpr int type = 15, align_corners = 2, half_pixel = 3;
};
struct Reshape {
    static constexpr int type = 17;
};
struct SpaceToDepth {
    static constexpr int type = 19, block = 0;
};
struct Mul {
    static constexpr int type = 21, activation = 0;
};
struct Gather {
    static constexpr int type = 23, axis = 0, batch_axes = 1;
};
struct Reducer {
    static constexpr int type = 27, keeps_dims = 0;
};
struct Sub {
    static constexpr int type = 28, activation = 0, powers_of_two = 1;
};
struct StridedSlice {
    static constexpr int type = 32, begin_mask = 0, end_mask = 1, ellipsis_mask = 2, new_axis_mask = 3, shrink_mask = 4,
                         is_offset = 5;
};
struct Split {
    static constexpr int type = 35, pieces = 0;
};
struct MaximumMinimum {
    static constexpr int type = 39;
};
struct TransposeConv {
    static constexpr int type = 49, padding = 0, stride_w = 1, stride_h = 2, activation = 3, bias_type = 4;
};
struct Pack {
    static constexpr int type = 59, parts = 0, axis = 1;
};
struct Unpack {
    static constexpr int type = 64, pieces = 0, axis = 1;
};
struct ResizeNearest {
    static constexpr int type = 74, align_corners = 0, half_pixel = 1;
};
struct MirrorPad {
    static constexpr int type = 77, mode = 0;
};
struct LeakyRelu {
    static constexpr int type = 75, alpha = 0;
};
struct SplitV {
    static constexpr int type = 79;
};
struct DepthToSpace {
    static constexpr int type = 94, block = 0;
};
struct BatchMatMul {
    static constexpr int type = 101, adj_x = 0, adj_y = 1;
};
struct Gelu {
    static constexpr int type = 116, approximate = 0;
};

}  // namespace fields

/// Types of tensors, as the file numbers them.
enum class ElementType : std::int8_t {
    float32 = 0,
    float16 = 1,
    int32 = 2,
    uint8 = 3,
    int64 = 4,
    boolean = 6,
    int16 = 7,
    int8 = 9,
};

/// Activations that are fused into an operator.
enum class FusedActivation : std::int8_t { none = 0, relu = 1, relu_n1_to_1 = 2, relu6 = 3 };

enum class PaddingRule : std::int8_t { same = 0, valid = 1 };

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_INTEROP_TFLITE_INTERNAL_READ_FIELDS_HPP
