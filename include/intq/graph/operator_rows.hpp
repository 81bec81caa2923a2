// SPDX-License-Identifier: MIT
//
// The facts about an operator that all folders share: spellings, words in files, effect on numbers, comparison by
// suites. Layer: graph.
//
// Rows that point to kernels, gradients, importers and writers are in their folders; tests/graph/operators_test.cpp
// reports each folder that lacks an operator's row.
#ifndef INTQ_GRAPH_OPERATOR_ROWS_HPP
#define INTQ_GRAPH_OPERATOR_ROWS_HPP

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "intq/core/abi.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// The content of an operator's output, relative to its first input.
enum class Numbers : std::uint8_t {
    computed,  // new numbers
    moved,     // the numbers of the input, in another place or shape
    chosen,    // some of them: the largest of each window
    averaged,  // means of them
    blended,   // between them, by an interpolation
    bounded,   // the numbers of the input, cut at bounds that the operator brings
    filled     // the numbers of the input, beside numbers that the operator brings
};

/// Whether codes of the input are codes of the output as they are.
constexpr bool moves_codes(Numbers numbers) noexcept { return numbers == Numbers::moved || numbers == Numbers::chosen; }

/// Whether codes may keep the grid of the input on every target.
constexpr bool may_keep_grid(Numbers numbers) noexcept {
    return numbers != Numbers::computed && numbers != Numbers::averaged;
}

/// Whether the operator brings its own numbers, which may lie outside the grid of its input.
constexpr bool brings_numbers(Numbers numbers) noexcept {
    return numbers == Numbers::bounded || numbers == Numbers::filled;
}

/// Whether quantizing before the operator yields the same codes as quantizing after it.
constexpr bool passes_quantizers(Numbers numbers) noexcept { return moves_codes(numbers) || brings_numbers(numbers); }

/// The inputs and outputs of an operator in the models of numeric_suite::fx.
enum class SuiteValues : std::uint8_t {
    unknown,  // it gets no shadow
    real,     // real values
    as_input  // real values or codes, as its input
};

/// Everything recorded about an operator under its name. Lists are words separated by spaces.
struct OperatorRow {
    std::string_view name;
    std::string_view modules{};  // types, with the method where that is not forward: "FloatFunctional.add"
    std::string_view functions{};
    std::string_view methods{};
    std::string_view onnx{};           // the operators of ONNX: the first is written, all are read
    std::string_view onnx_on_codes{};  // the same on codes, in ONNX and ONNX Runtime
    std::string_view tflite{};         // those of TFLite
    Numbers numbers = Numbers::computed;
    bool has_integer_form = true;  // a row of quantization/operators/operator_table.hpp
    bool has_gradient = true;      // a row of training/gradients.hpp that hands a gradient on
    SuiteValues suite_values = SuiteValues::unknown;
    bool is_compared = true;         // by numeric_suite::fx
    bool is_compared_eager = false;  // by the default list of compare_model_outputs()
    int ids = -1;                    // the argument that is integers, which no quantizer rounds; -1: none
};

/// One row per operator.
// clang-format off
inline constexpr OperatorRow operator_rows[] = {
    {.name = "conv2d", .modules = "Conv2d", .onnx = "Conv", .onnx_on_codes = "QLinearConv ConvInteger",
     .tflite = "CONV_2D DEPTHWISE_CONV_2D", .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "conv1d", .modules = "Conv1d", .onnx = "Conv", .onnx_on_codes = "QLinearConv",
     .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "conv3d", .modules = "Conv3d", .onnx = "Conv", .suite_values = SuiteValues::real,
     .is_compared_eager = true},
    {.name = "conv_transpose1d", .modules = "ConvTranspose1d", .onnx = "ConvTranspose",
     .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "conv_transpose2d", .modules = "ConvTranspose2d", .onnx = "ConvTranspose", .tflite = "TRANSPOSE_CONV",
     .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "conv_transpose3d", .modules = "ConvTranspose3d", .onnx = "ConvTranspose",
     .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "linear", .modules = "Linear", .onnx = "Gemm", .onnx_on_codes = "QGemm QLinearMatMul MatMulInteger",
     .tflite = "FULLY_CONNECTED", .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "batch_norm1d", .modules = "BatchNorm1d", .onnx = "BatchNormalization", .has_integer_form = false,
     .suite_values = SuiteValues::real},
    {.name = "batch_norm2d", .modules = "BatchNorm2d", .onnx = "BatchNormalization",
     .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "batch_norm3d", .modules = "BatchNorm3d", .onnx = "BatchNormalization", .has_integer_form = false,
     .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "layer_norm", .modules = "LayerNorm", .onnx = "LayerNormalization",
     .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "rms_norm", .modules = "RMSNorm", .onnx = "RMSNormalization",
     .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "group_norm", .modules = "GroupNorm", .onnx = "GroupNormalization",
     .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "instance_norm", .modules = "InstanceNorm1d InstanceNorm2d InstanceNorm3d",
     .onnx = "InstanceNormalization", .suite_values = SuiteValues::real, .is_compared_eager = true},
    {.name = "embedding", .modules = "Embedding", .onnx = "Gather",
     .tflite = "EMBEDDING_LOOKUP GATHER", .is_compared_eager = true, .ids = 0},
    {.name = "lstm", .modules = "LSTM", .has_integer_form = false, .suite_values = SuiteValues::real,
     .is_compared_eager = true},
    {.name = "relu", .modules = "ReLU", .functions = "relu", .methods = "relu", .onnx = "Relu", .tflite = "RELU",
     .numbers = Numbers::bounded, .suite_values = SuiteValues::as_input},
    {.name = "relu6", .modules = "ReLU6", .functions = "relu6", .methods = "relu6", .onnx = "Clip", .tflite = "RELU6",
     .numbers = Numbers::bounded, .suite_values = SuiteValues::as_input, .is_compared_eager = true},
    {.name = "softmax", .modules = "Softmax", .functions = "softmax", .methods = "softmax", .onnx = "Softmax",
     .onnx_on_codes = "QLinearSoftmax", .tflite = "SOFTMAX", .suite_values = SuiteValues::real},
    {.name = "log_softmax", .modules = "LogSoftmax", .functions = "log_softmax", .methods = "log_softmax",
     .onnx = "LogSoftmax", .tflite = "LOG_SOFTMAX", .suite_values = SuiteValues::real},
    // Of one dimension: images of one row.
    {.name = "max_pool2d", .modules = "MaxPool2d MaxPool1d", .onnx = "MaxPool GlobalMaxPool", .tflite = "MAX_POOL_2D",
     .numbers = Numbers::chosen, .suite_values = SuiteValues::as_input},
    {.name = "avg_pool2d", .modules = "AvgPool2d AvgPool1d", .onnx = "AveragePool",
     .onnx_on_codes = "QLinearAveragePool", .tflite = "AVERAGE_POOL_2D", .numbers = Numbers::averaged,
     .suite_values = SuiteValues::as_input},
    {.name = "adaptive_avg_pool2d", .modules = "AdaptiveAvgPool2d AdaptiveAvgPool1d", .onnx = "GlobalAveragePool",
     .onnx_on_codes = "QLinearGlobalAveragePool", .numbers = Numbers::averaged,
     .suite_values = SuiteValues::as_input},
    {.name = "interpolate", .modules = "Upsample", .functions = "interpolate", .onnx = "Resize",
     .tflite = "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", .numbers = Numbers::blended,
     .suite_values = SuiteValues::as_input},
    {.name = "flatten", .modules = "Flatten", .functions = "flatten", .methods = "flatten", .onnx = "Flatten",
     .numbers = Numbers::moved, .suite_values = SuiteValues::as_input},
    {.name = "identity", .modules = "Identity", .onnx = "Identity", .numbers = Numbers::moved,
     .suite_values = SuiteValues::as_input, .is_compared = false},
    {.name = "dropout", .modules = "Dropout", .onnx = "Identity Dropout", .numbers = Numbers::moved,
     .suite_values = SuiteValues::as_input, .is_compared_eager = true},
    {.name = "add", .modules = "FloatFunctional.add FloatFunctional.add_scalar", .functions = "add", .methods = "add",
     .onnx = "Add", .onnx_on_codes = "QLinearAdd", .tflite = "ADD"},
    {.name = "add_relu", .modules = "FloatFunctional.add_relu", .onnx = "Add", .has_integer_form = false},
    {.name = "sub", .modules = "FloatFunctional.sub", .functions = "sub", .methods = "sub", .onnx = "Sub Shrink",
     .tflite = "SUB"},
    {.name = "mul", .modules = "FloatFunctional.mul FloatFunctional.mul_scalar", .functions = "mul", .methods = "mul",
     .onnx = "Mul", .onnx_on_codes = "QLinearMul", .tflite = "MUL SQUARED_DIFFERENCE"},
    {.name = "matmul", .modules = "FloatFunctional.matmul", .functions = "matmul", .methods = "matmul",
     .onnx = "MatMul", .tflite = "BATCH_MATMUL"},
    {.name = "maximum", .functions = "maximum", .methods = "maximum", .onnx = "Max",
     .suite_values = SuiteValues::real},
    {.name = "minimum", .functions = "minimum", .methods = "minimum", .onnx = "Min",
     .suite_values = SuiteValues::real},
    {.name = "masked_fill", .modules = "MaskedFill", .functions = "masked_fill", .methods = "masked_fill",
     .onnx = "Where", .tflite = "SELECT SELECT_V2"},
    {.name = "causal_fill", .functions = "causal_fill", .onnx = "Where", .ids = 1},
    {.name = "cat", .modules = "FloatFunctional.cat", .functions = "cat", .onnx = "Concat",
     .onnx_on_codes = "QLinearConcat", .tflite = "CONCATENATION PACK"},
    {.name = "sum", .modules = "FloatFunctional.sum", .functions = "sum", .methods = "sum", .onnx = "ReduceSum",
     .tflite = "SUM", .suite_values = SuiteValues::real},
    {.name = "mean", .modules = "FloatFunctional.mean", .functions = "mean", .methods = "mean", .onnx = "ReduceMean",
     .tflite = "MEAN", .numbers = Numbers::averaged, .suite_values = SuiteValues::as_input},
    {.name = "quant_stub", .modules = "QuantStub", .onnx_on_codes = "QuantizeLinear", .tflite = "QUANTIZE",
     .suite_values = SuiteValues::real, .is_compared = false, .is_compared_eager = true},
    {.name = "dequant_stub", .modules = "DeQuantStub", .onnx_on_codes = "DequantizeLinear", .tflite = "DEQUANTIZE",
     .suite_values = SuiteValues::real, .is_compared = false, .is_compared_eager = true},
    // Of extents.
    {.name = "floordiv", .functions = "floordiv", .has_integer_form = false, .has_gradient = false},
    // With the weight as an argument.
    {.name = "functional_linear", .functions = "linear", .has_integer_form = false,
     .suite_values = SuiteValues::real},
    {.name = "clamp", .functions = "clamp", .methods = "clamp", .onnx = "Clip",
     .tflite = "RELU_N1_TO_1 MAXIMUM MINIMUM", .numbers = Numbers::bounded, .suite_values = SuiteValues::as_input},
    {.name = "reshape", .functions = "reshape", .methods = "reshape view", .onnx = "Reshape Squeeze Unsqueeze",
     .tflite = "RESHAPE SQUEEZE EXPAND_DIMS BROADCAST_TO", .numbers = Numbers::moved,
     .suite_values = SuiteValues::as_input,
     .is_compared = false},
    {.name = "permute", .functions = "permute", .methods = "permute", .onnx = "Transpose",
     .tflite = "TRANSPOSE DEPTH_TO_SPACE SPACE_TO_DEPTH", .numbers = Numbers::moved,
     .suite_values = SuiteValues::as_input, .is_compared = false},
    {.name = "transpose", .functions = "transpose", .methods = "transpose", .onnx = "Transpose",
     .tflite = "TRANSPOSE", .numbers = Numbers::moved, .suite_values = SuiteValues::as_input},
    {.name = "slice", .functions = "slice", .onnx = "Slice", .tflite = "SLICE STRIDED_SLICE GATHER REVERSE_V2",
     .numbers = Numbers::moved, .is_compared = false},
    {.name = "getitem", .functions = "getitem", .onnx = "Gather", .numbers = Numbers::moved, .is_compared = false},
    {.name = "expand", .functions = "expand", .methods = "expand", .onnx = "Expand", .numbers = Numbers::moved,
     .suite_values = SuiteValues::as_input, .is_compared = false},
    {.name = "split", .functions = "split", .methods = "split", .onnx = "Split", .tflite = "SPLIT SPLIT_V UNPACK",
     .numbers = Numbers::moved, .is_compared = false},
    {.name = "chunk", .functions = "chunk", .methods = "chunk", .onnx = "Split", .numbers = Numbers::moved,
     .is_compared = false},
    {.name = "pad", .functions = "pad", .onnx = "Pad", .tflite = "PAD PADV2 MIRROR_PAD", .numbers = Numbers::filled,
     .suite_values = SuiteValues::as_input},
    {.name = "index_copy", .functions = "index_copy", .methods = "index_copy", .onnx = "ScatterElements ScatterND",
     .is_compared = false, .ids = 2},
    // Indices, which are no numbers of a grid.
    {.name = "argmax", .functions = "argmax", .methods = "argmax", .onnx = "ArgMax", .has_gradient = false,
     .is_compared = false},
    // With the table as an argument.
    {.name = "functional_embedding", .functions = "embedding", .has_integer_form = false, .ids = 0},
    {.name = "size", .methods = "size", .has_integer_form = false, .has_gradient = false,
     .is_compared = false},
    // Functions of one element (nn/float_operators/unary.hpp), which tables of codes compute.
    {.name = "sigmoid", .modules = "Sigmoid", .functions = "sigmoid", .methods = "sigmoid", .onnx = "Sigmoid",
     .onnx_on_codes = "QLinearSigmoid", .tflite = "LOGISTIC", .suite_values = SuiteValues::as_input},
    {.name = "tanh", .modules = "Tanh", .functions = "tanh", .methods = "tanh", .onnx = "Tanh", .tflite = "TANH",
     .suite_values = SuiteValues::as_input},
    {.name = "hardsigmoid", .modules = "Hardsigmoid", .functions = "hardsigmoid", .methods = "hardsigmoid",
     .onnx = "HardSigmoid", .suite_values = SuiteValues::as_input},
    {.name = "hardswish", .modules = "Hardswish", .functions = "hardswish", .methods = "hardswish",
     .onnx = "HardSwish", .tflite = "HARD_SWISH", .suite_values = SuiteValues::as_input, .is_compared_eager = true},
    {.name = "hardtanh", .modules = "Hardtanh", .functions = "hardtanh", .methods = "hardtanh", .onnx = "Clip",
     .suite_values = SuiteValues::as_input},
    {.name = "leaky_relu", .modules = "LeakyReLU", .functions = "leaky_relu", .methods = "leaky_relu",
     .onnx = "LeakyRelu PRelu", .onnx_on_codes = "QLinearLeakyRelu", .tflite = "LEAKY_RELU",
     .suite_values = SuiteValues::as_input, .is_compared_eager = true},
    {.name = "elu", .modules = "ELU", .functions = "elu", .methods = "elu", .onnx = "Elu",
     .suite_values = SuiteValues::as_input, .is_compared_eager = true},
    // No operator in ONNX: x times its Sigmoid.
    {.name = "silu", .modules = "SiLU", .functions = "silu", .methods = "silu", .onnx = "Mul",
     .suite_values = SuiteValues::as_input},
    // Of a quotient where beta is not 1.
    {.name = "softplus", .modules = "Softplus", .functions = "softplus", .onnx = "Softplus",
     .suite_values = SuiteValues::as_input},
    {.name = "mish", .modules = "Mish", .functions = "mish", .onnx = "Mish", .suite_values = SuiteValues::as_input},
    {.name = "selu", .modules = "SELU", .functions = "selu", .methods = "selu", .onnx = "Selu",
     .suite_values = SuiteValues::as_input},
    {.name = "celu", .modules = "CELU", .functions = "celu", .methods = "celu", .onnx = "Celu",
     .suite_values = SuiteValues::as_input},
    {.name = "softsign", .modules = "Softsign", .functions = "softsign", .onnx = "Softsign",
     .suite_values = SuiteValues::as_input},
    // No operator in ONNX: x less its Tanh.
    {.name = "tanhshrink", .modules = "Tanhshrink", .functions = "tanhshrink", .onnx = "Sub",
     .suite_values = SuiteValues::as_input},
    {.name = "abs", .functions = "abs", .methods = "abs", .onnx = "Abs", .tflite = "ABS",
     .suite_values = SuiteValues::as_input},
    {.name = "neg", .functions = "neg", .methods = "neg", .onnx = "Neg", .tflite = "NEG",
     .suite_values = SuiteValues::as_input},
    {.name = "square", .functions = "square", .methods = "square", .onnx = "Pow",
     .suite_values = SuiteValues::as_input},
    {.name = "gelu", .modules = "GELU", .functions = "gelu", .methods = "gelu", .onnx = "Gelu", .tflite = "GELU",
     .suite_values = SuiteValues::as_input},
    {.name = "exp", .functions = "exp", .methods = "exp", .onnx = "Exp", .tflite = "EXP",
     .suite_values = SuiteValues::as_input},
    {.name = "erf", .functions = "erf", .methods = "erf", .onnx = "Erf", .suite_values = SuiteValues::as_input},
    {.name = "log", .functions = "log", .methods = "log", .onnx = "Log", .tflite = "LOG",
     .suite_values = SuiteValues::as_input},
    {.name = "sqrt", .functions = "sqrt", .methods = "sqrt", .onnx = "Sqrt", .tflite = "SQRT",
     .suite_values = SuiteValues::as_input},
    // Of a Sqrt.
    {.name = "rsqrt", .functions = "rsqrt", .methods = "rsqrt", .onnx = "Reciprocal", .tflite = "RSQRT",
     .suite_values = SuiteValues::as_input},
    {.name = "reciprocal", .functions = "reciprocal", .methods = "reciprocal", .onnx = "Reciprocal",
     .suite_values = SuiteValues::as_input},
};
// clang-format on

/// The row of a name; null where there is none.
constexpr const OperatorRow* find_operator_row(std::string_view name) noexcept {
    for (const OperatorRow& row : operator_rows)
        if (row.name == name) return &row;
    return nullptr;
}

/// The effect of a named operator on the numbers of its input; `computed` where no row has the name.
constexpr Numbers numbers_of(std::string_view name) noexcept {
    const OperatorRow* const row = find_operator_row(name);
    return row == nullptr ? Numbers::computed : row->numbers;
}

/// The argument of a named operator that is integers; -1 for none.
constexpr int ids_of(std::string_view name) noexcept {
    const OperatorRow* const row = find_operator_row(name);
    return row == nullptr ? -1 : row->ids;
}

/// Calls visit(word) for each word of a list of an OperatorRow.
template <class Visit> constexpr void for_each_word(std::string_view list, const Visit& visit) {
    while (!list.empty()) {
        const std::size_t end = list.find(' ');
        visit(list.substr(0, end));
        list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
    }
}

/// The first word of a list of an OperatorRow.
constexpr std::string_view first_word(std::string_view list) noexcept { return list.substr(0, list.find(' ')); }

/// Whether a list of an OperatorRow has a word.
constexpr bool has_word(std::string_view list, std::string_view word) {
    bool found = false;
    for_each_word(list, [&](std::string_view one) { found = found || one == word; });
    return found;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_GRAPH_OPERATOR_ROWS_HPP
