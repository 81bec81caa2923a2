// SPDX-License-Identifier: MIT
//
// Names of the things that a TFLite file numbers: operators, types of tensors, fused activations. Layer: interop.
//
// The numbers and names are those of the format's schema, version 3. Each table is in the order of its numbers.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_READ_NAMES_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_READ_NAMES_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "intq/core/abi.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr const char* operator_names[] = {"ADD",
                                                 "AVERAGE_POOL_2D",
                                                 "CONCATENATION",
                                                 "CONV_2D",
                                                 "DEPTHWISE_CONV_2D",
                                                 "DEPTH_TO_SPACE",
                                                 "DEQUANTIZE",
                                                 "EMBEDDING_LOOKUP",
                                                 "FLOOR",
                                                 "FULLY_CONNECTED",
                                                 "HASHTABLE_LOOKUP",
                                                 "L2_NORMALIZATION",
                                                 "L2_POOL_2D",
                                                 "LOCAL_RESPONSE_NORMALIZATION",
                                                 "LOGISTIC",
                                                 "LSH_PROJECTION",
                                                 "LSTM",
                                                 "MAX_POOL_2D",
                                                 "MUL",
                                                 "RELU",
                                                 "RELU_N1_TO_1",
                                                 "RELU6",
                                                 "RESHAPE",
                                                 "RESIZE_BILINEAR",
                                                 "RNN",
                                                 "SOFTMAX",
                                                 "SPACE_TO_DEPTH",
                                                 "SVDF",
                                                 "TANH",
                                                 "CONCAT_EMBEDDINGS",
                                                 "SKIP_GRAM",
                                                 "CALL",
                                                 "CUSTOM",
                                                 "EMBEDDING_LOOKUP_SPARSE",
                                                 "PAD",
                                                 "UNIDIRECTIONAL_SEQUENCE_RNN",
                                                 "GATHER",
                                                 "BATCH_TO_SPACE_ND",
                                                 "SPACE_TO_BATCH_ND",
                                                 "TRANSPOSE",
                                                 "MEAN",
                                                 "SUB",
                                                 "DIV",
                                                 "SQUEEZE",
                                                 "UNIDIRECTIONAL_SEQUENCE_LSTM",
                                                 "STRIDED_SLICE",
                                                 "BIDIRECTIONAL_SEQUENCE_RNN",
                                                 "EXP",
                                                 "TOPK_V2",
                                                 "SPLIT",
                                                 "LOG_SOFTMAX",
                                                 "DELEGATE",
                                                 "BIDIRECTIONAL_SEQUENCE_LSTM",
                                                 "CAST",
                                                 "PRELU",
                                                 "MAXIMUM",
                                                 "ARG_MAX",
                                                 "MINIMUM",
                                                 "LESS",
                                                 "NEG",
                                                 "PADV2",
                                                 "GREATER",
                                                 "GREATER_EQUAL",
                                                 "LESS_EQUAL",
                                                 "SELECT",
                                                 "SLICE",
                                                 "SIN",
                                                 "TRANSPOSE_CONV",
                                                 "SPARSE_TO_DENSE",
                                                 "TILE",
                                                 "EXPAND_DIMS",
                                                 "EQUAL",
                                                 "NOT_EQUAL",
                                                 "LOG",
                                                 "SUM",
                                                 "SQRT",
                                                 "RSQRT",
                                                 "SHAPE",
                                                 "POW",
                                                 "ARG_MIN",
                                                 "FAKE_QUANT",
                                                 "REDUCE_PROD",
                                                 "REDUCE_MAX",
                                                 "PACK",
                                                 "LOGICAL_OR",
                                                 "ONE_HOT",
                                                 "LOGICAL_AND",
                                                 "LOGICAL_NOT",
                                                 "UNPACK",
                                                 "REDUCE_MIN",
                                                 "FLOOR_DIV",
                                                 "REDUCE_ANY",
                                                 "SQUARE",
                                                 "ZEROS_LIKE",
                                                 "FILL",
                                                 "FLOOR_MOD",
                                                 "RANGE",
                                                 "RESIZE_NEAREST_NEIGHBOR",
                                                 "LEAKY_RELU",
                                                 "SQUARED_DIFFERENCE",
                                                 "MIRROR_PAD",
                                                 "ABS",
                                                 "SPLIT_V",
                                                 "UNIQUE",
                                                 "CEIL",
                                                 "REVERSE_V2",
                                                 "ADD_N",
                                                 "GATHER_ND",
                                                 "COS",
                                                 "WHERE",
                                                 "RANK",
                                                 "ELU",
                                                 "REVERSE_SEQUENCE",
                                                 "MATRIX_DIAG",
                                                 "QUANTIZE",
                                                 "MATRIX_SET_DIAG",
                                                 "ROUND",
                                                 "HARD_SWISH",
                                                 "IF",
                                                 "WHILE",
                                                 "NON_MAX_SUPPRESSION_V4",
                                                 "NON_MAX_SUPPRESSION_V5",
                                                 "SCATTER_ND",
                                                 "SELECT_V2",
                                                 "DENSIFY",
                                                 "SEGMENT_SUM",
                                                 "BATCH_MATMUL",
                                                 "PLACEHOLDER_FOR_GREATER_OP_CODES",
                                                 "CUMSUM",
                                                 "CALL_ONCE",
                                                 "BROADCAST_TO",
                                                 "RFFT2D",
                                                 "CONV_3D",
                                                 "IMAG",
                                                 "REAL",
                                                 "COMPLEX_ABS",
                                                 "HASHTABLE",
                                                 "HASHTABLE_FIND",
                                                 "HASHTABLE_IMPORT",
                                                 "HASHTABLE_SIZE",
                                                 "REDUCE_ALL",
                                                 "CONV_3D_TRANSPOSE",
                                                 "VAR_HANDLE",
                                                 "READ_VARIABLE",
                                                 "ASSIGN_VARIABLE",
                                                 "BROADCAST_ARGS",
                                                 "RANDOM_STANDARD_NORMAL",
                                                 "BUCKETIZE",
                                                 "RANDOM_UNIFORM",
                                                 "MULTINOMIAL",
                                                 "GELU",
                                                 "DYNAMIC_UPDATE_SLICE",
                                                 "RELU_0_TO_1",
                                                 "UNSORTED_SEGMENT_PROD",
                                                 "UNSORTED_SEGMENT_MAX",
                                                 "UNSORTED_SEGMENT_SUM",
                                                 "ATAN2",
                                                 "UNSORTED_SEGMENT_MIN",
                                                 "SIGN",
                                                 "BITCAST",
                                                 "BITWISE_XOR",
                                                 "RIGHT_SHIFT",
                                                 "STABLEHLO_LOGISTIC",
                                                 "STABLEHLO_ADD",
                                                 "STABLEHLO_DIVIDE",
                                                 "STABLEHLO_MULTIPLY",
                                                 "STABLEHLO_MAXIMUM",
                                                 "STABLEHLO_RESHAPE",
                                                 "STABLEHLO_CLAMP",
                                                 "STABLEHLO_CONCATENATE",
                                                 "STABLEHLO_BROADCAST_IN_DIM",
                                                 "STABLEHLO_CONVOLUTION",
                                                 "STABLEHLO_SLICE",
                                                 "STABLEHLO_CUSTOM_CALL",
                                                 "STABLEHLO_REDUCE",
                                                 "STABLEHLO_ABS",
                                                 "STABLEHLO_AND",
                                                 "STABLEHLO_COSINE",
                                                 "STABLEHLO_EXPONENTIAL",
                                                 "STABLEHLO_FLOOR",
                                                 "STABLEHLO_LOG",
                                                 "STABLEHLO_MINIMUM",
                                                 "STABLEHLO_NEGATE",
                                                 "STABLEHLO_OR",
                                                 "STABLEHLO_POWER",
                                                 "STABLEHLO_REMAINDER",
                                                 "STABLEHLO_RSQRT",
                                                 "STABLEHLO_SELECT",
                                                 "STABLEHLO_SUBTRACT",
                                                 "STABLEHLO_TANH",
                                                 "STABLEHLO_SCATTER",
                                                 "STABLEHLO_COMPARE",
                                                 "STABLEHLO_CONVERT",
                                                 "STABLEHLO_DYNAMIC_SLICE",
                                                 "STABLEHLO_DYNAMIC_UPDATE_SLICE",
                                                 "STABLEHLO_PAD",
                                                 "STABLEHLO_IOTA",
                                                 "STABLEHLO_DOT_GENERAL",
                                                 "STABLEHLO_REDUCE_WINDOW",
                                                 "STABLEHLO_SORT",
                                                 "STABLEHLO_WHILE",
                                                 "STABLEHLO_GATHER",
                                                 "STABLEHLO_TRANSPOSE",
                                                 "DILATE",
                                                 "STABLEHLO_RNG_BIT_GENERATOR",
                                                 "REDUCE_WINDOW",
                                                 "STABLEHLO_COMPOSITE",
                                                 "STABLEHLO_SHIFT_LEFT",
                                                 "STABLEHLO_CBRT",
                                                 "STABLEHLO_CASE"};

inline constexpr const char* element_names[] = {
    "float32",   "float16", "int32",    "uint8",      "int64",  "string",        "bool",       "int16",
    "complex64", "int8",    "float64",  "complex128", "uint64", "resource",      "variant",    "uint32",
    "uint16",    "int4",    "bfloat16", "int2",       "uint4",  "float8_e4m3fn", "float8_e5m2"};

inline constexpr const char* activation_names[] = {"NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT"};

/// Whether the rows of a table of operators have the names of their codes.
template <class Row, std::size_t Count> constexpr bool are_named(const Row (&rows)[Count]) noexcept {
    for (const Row& row : rows)
        if (std::string_view(row.name) != operator_names[static_cast<std::size_t>(row.code)]) return false;
    return true;
}

/// The name of a number; `what` and the number where the table, which may be older than the file, lacks it.
template <std::size_t Count>
std::string name_in(const char* const (&names)[Count], std::int64_t number, const char* what) {
    if (number >= 0 && number < static_cast<std::int64_t>(Count)) return names[static_cast<std::size_t>(number)];
    return what + (" number " + std::to_string(number));
}

}  // namespace detail

/// "CONV_2D"; "operator number 999" for one that is not in the schema.
inline std::string operator_name(std::int32_t code) {
    return detail::name_in(detail::operator_names, code, "operator");
}

/// "float16"; "type number 99".
inline std::string element_name(std::int8_t type) { return detail::name_in(detail::element_names, type, "type"); }

/// "TANH"; "activation number 9".
inline std::string activation_name(std::int8_t activation) {
    return detail::name_in(detail::activation_names, activation, "activation");
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_INTEROP_TFLITE_INTERNAL_READ_NAMES_HPP
