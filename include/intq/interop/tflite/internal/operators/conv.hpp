// SPDX-License-Identifier: MIT
//
// CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV and FULLY_CONNECTED. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_CONV_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_CONV_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void conv_2d(OperatorImport& node);
void depthwise_conv_2d(OperatorImport& node);
void transpose_conv(OperatorImport& node);
void fully_connected(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <algorithm>
#    include <cstdint>
#    include <optional>
#    include <string>

#    include "intq/arith/litert.hpp"
#    include "intq/arith/requantize.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/tflite/internal/nodes/options.hpp"
#    include "intq/interop/tflite/internal/nodes/window.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/interop/tflite/internal/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/flatbuffer.hpp"
#    include "intq/kernels/packing/packed_conv2d.hpp"
#    include "intq/kernels/streaming/move_call.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/resize.hpp"
#    include "intq/tensor/owned_qparams.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

/// The position of element (o, i, y, x) of a layer's weight in the file.
struct WeightOrder {
    Shape shape;  // (O, I, KH, KW)
    index_t out, in, row, column;
};

/// The weight's codes as (O, I, KH, KW).
/// @param turned  whether the kernel is turned upside down, as of a transposed convolution
INTQ_INLINE Tensor weight_codes(OperatorImport& node, std::size_t i, const WeightOrder& order, bool turned = false) {
    const FileTensor& file = node.input(i);
    node.count_copied(2 * file.data.size());
    Tensor weight = Tensor::empty(order.shape, DType::int8);
    const auto codes = weight.flat<std::int8_t>();
    const auto* const from = reinterpret_cast<const std::int8_t*>(file.data.data());
    const index_t rows = order.shape[2], columns = order.shape[3];
    std::size_t at = 0;
    for (index_t o = 0; o < order.shape[0]; ++o)
        for (index_t c = 0; c < order.shape[1]; ++c)
            for (index_t y = 0; y < rows; ++y)
                for (index_t x = 0; x < columns; ++x) {
                    const index_t ky = turned ? rows - 1 - y : y, kx = turned ? columns - 1 - x : x;
                    codes[at++] = from[o * order.out + c * order.in + ky * order.row + kx * order.column];
                }
    return weight;
}

/// Scales of a weight: one, or one for each output channel along an axis of the file.
INTQ_INLINE OwnedQParams weight_qparams(const FileTensor& weight, int axis, index_t channels) {
    const std::string name = "the weight " + in_quotes(weight.name);
    if (weight.unsupported != nullptr) throw Error(name + " " + weight.unsupported);
    if (!weight.is_constant()) throw Error(name + " is no constant of the file");
    if (weight.dtype != DType::int8)
        throw Error(name + " has " + describe_type(weight) +
                    ", expected int8: a program computes with codes of 8 bits alone");
    const std::int64_t zero_point = -weight.offset;  // in the file
    for (std::size_t i = 0; i < weight.zero_points.size(); ++i)
        if (weight.zero_points[i] != zero_point)
            throw Error(name + " has the zero point " + std::to_string(weight.zero_points[i]) + ", expected " +
                        std::to_string(zero_point));
    if (weight.zero_points.empty() && zero_point != 0) throw Error(name + " of uint8 codes has no zero point");
    const std::size_t count = weight.scales.size();
    if (count > 1 && zero_point != 0) throw Error(name + " of uint8 codes has several scales");
    if (count != 1 && (count != static_cast<std::size_t>(channels) || weight.axis != axis))
        throw Error(name + " has " + std::to_string(count) + " scales along axis " + std::to_string(weight.axis) +
                    ", expected 1, or " + std::to_string(channels) + " along axis " + std::to_string(axis));
    if (count == 1) return OwnedQParams::per_tensor(weight.scales[0], DType::int8);
    std::vector<float> scales;
    for (std::size_t c = 0; c < count; ++c) scales.push_back(weight.scales[c]);
    return OwnedQParams::per_channel(std::move(scales), 0, DType::int8);
}

/// The option of an operator that names the type of its bias.
struct BiasOption {
    int field = -1;  // -1: int16 activations only have an int64 bias
};

/// Refuses an int32 bias of int16 activations that LiteRT would read as int64, beyond its end: it goes by the option.
/// TFLite Micro and CMSIS-NN go by the type of the bias.
INTQ_INLINE void check_narrow_bias(const OperatorImport& node, const FileTensor& bias, BiasOption option) {
    if (bias.dtype != DType::int32 || node.output().dtype != DType::int16) return;
    if (!node.target().same_arithmetic(target::litert::policy)) return;
    if (option.field < 0)
        throw Error("its bias " + in_quotes(bias.name) + " has int32, and LiteRT takes int64 for int16 activations");
    const auto says = static_cast<ElementType>(node.options().number<std::int8_t>(option.field, 0));
    if (says != ElementType::int32)
        throw Error("its bias " + in_quotes(bias.name) +
                    " has int32, and its option quantized_bias_type does not say so, so LiteRT reads it as int64");
}

/// The codes of the bias are taken as they are. int16 activations are summed in as many bits as the bias has.
INTQ_INLINE void take_bias(OperatorImport& node, std::size_t i, index_t channels, BiasOption option,
                           quantization::GivenCodes& given) {
    if (!node.has(i)) return;
    const FileTensor& bias = node.input(i);
    const std::string name = "the bias " + in_quotes(bias.name);
    if (!bias.is_constant()) throw Error(name + " is no constant of the file");
    check_narrow_bias(node, bias, option);
    const bool wide = bias.dtype == DType::int64;
    if (bias.dtype != DType::int32 && !(wide && node.input(node.has(2) && i == 3 ? 2 : 0).dtype == DType::int16))
        throw Error(name + " has " + describe_type(bias) + ", expected int32, or int64 for int16 activations");
    if (bias.size() != channels)
        throw Error(name + " has " + std::to_string(bias.size()) + " elements for " + std::to_string(channels) +
                    " output channels");
    const io::FlatBytes bytes(bias.data);
    const bool narrow_sums = !wide && node.output().dtype == DType::int16;
    for (std::uint64_t c = 0; c < static_cast<std::uint64_t>(channels); ++c) {
        if (narrow_sums)
            given.bias_int32.push_back(bytes.number<std::int32_t>(4 * c));
        else
            given.bias.push_back(wide ? bytes.number<std::int64_t>(8 * c) : bytes.number<std::int32_t>(4 * c));
    }
}

/// The part that all layers with weights share.
INTQ_INLINE quantization::ConvLayer layer_of(OperatorImport& node, OpKind op, FusedActivation activation) {
    quantization::ConvLayer conv;
    conv.op = op;
    conv.output = node.output_qparams();
    const arith::OutputCodes codes = node.codes(activation);
    conv.given.bounds = kernels::CodeBounds{codes.lowest, codes.highest};
    return conv;
}

/// An operand of rank 4, and a weight of rank 4.
INTQ_INLINE void require_images(const OperatorImport& node, std::size_t x, std::size_t weight) {
    if (node.dims(x).size() != 4)
        throw Error("its input " + in_quotes(node.input(x).name) + " has the shape " +
                    describe_dims(node.input(x).dims) + ", expected 4 axes");
    if (node.input(weight).dims.size() != 4 || node.input(weight).size() < 1)
        throw Error("its weight has the shape " + describe_dims(node.input(weight).dims) +
                    ", expected 4 axes without an extent of 0");
}

INTQ_INLINE void conv_2d(OperatorImport& node) {
    using Options = fields::Conv2D;
    node.require_inputs(2, 3);
    require_images(node, 0, 1);
    const Dims w = node.input(1).dims, in = node.dims();  // OHWI
    if (in[3] % w[3] != 0)
        throw Error("a weight of " + std::to_string(w[3]) + " input channels does not divide the " +
                    std::to_string(in[3]) + " of the input");
    quantization::ConvLayer conv = layer_of(node, OpKind::conv2d, node.activation(Options::activation));
    conv.groups = in[3] / w[3];
    conv.weight_qparams = weight_qparams(node.input(1), 0, w[0]);
    conv.weight = weight_codes(node, 1, {Shape(w[0], w[3], w[1], w[2]), w[1] * w[2] * w[3], 1, w[2] * w[3], w[3]});
    take_bias(node, 2, w[0], {fields::Conv2D::bias_type}, conv.given);
    conv.window = conv_window<Options>(node.options(), in, w);
    node.set(quantization::add_conv(node.builder(), node.x(), std::nullopt, conv, node.layer()));
}

INTQ_INLINE void depthwise_conv_2d(OperatorImport& node) {
    using Options = fields::DepthwiseConv2D;
    node.require_inputs(2, 3);
    require_images(node, 0, 1);
    const Dims w = node.input(1).dims, in = node.dims();  // (1, H, W, O)
    if (w[0] != 1 || in[3] < 1 || w[3] % in[3] != 0)
        throw Error("a depthwise weight of shape " + describe_dims(w) + " does not fit " + std::to_string(in[3]) +
                    " input channels");
    quantization::ConvLayer conv = layer_of(node, OpKind::conv2d, node.activation(Options::activation));
    conv.groups = in[3];
    conv.weight_qparams = weight_qparams(node.input(1), 3, w[3]);
    conv.weight = weight_codes(node, 1, {Shape(w[3], 1, w[1], w[2]), 1, 0, w[2] * w[3], w[3]});
    take_bias(node, 2, w[3], {}, conv.given);
    conv.window = conv_window<Options>(node.options(), in, w);
    node.set(quantization::add_conv(node.builder(), node.x(), std::nullopt, conv, node.layer()));
}

INTQ_INLINE void transpose_conv(OperatorImport& node) {
    using Options = fields::TransposeConv;
    node.require_inputs(3, 4);
    require_images(node, 2, 1);
    const Dims w = node.input(1).dims, in = node.dims(2), out = node.output_dims();  // OHWI
    // A size that the model computes is a shape, which is that of the output in the file.
    const auto size = node.is_constant(0) ? node.integers(0) : std::vector<std::int64_t>(out.begin(), out.end());
    if (size.size() != 4 || out.size() != 4 || !std::equal(size.begin(), size.end(), out.begin()))
        throw Error("its output has the shape " + describe_dims(out) + ", and its size is another one");
    if (w[3] != in[3] || w[0] != out[3])
        throw Error("a weight of shape " + describe_dims(w) + " does not fit " + std::to_string(in[3]) + " input and " +
                    std::to_string(out[3]) + " output channels");
    const auto [stride, rows, columns] = transposed_window(node.options(), in, w, out);
    const OwnedQParams x = node.qparams(node.input(2));
    const std::int32_t spread = quantization::add_pad(
        node.builder(), node.x(2), {{rows.before, columns.before, rows.after, columns.after}, stride, x.zero_points[0]},
        node.layer("spread"));
    quantization::ConvLayer conv = layer_of(node, OpKind::conv2d, node.activation(Options::activation));
    conv.weight_qparams = weight_qparams(node.input(1), 0, w[0]);
    conv.weight =
        weight_codes(node, 1, {Shape(w[0], w[3], w[1], w[2]), w[1] * w[2] * w[3], 1, w[2] * w[3], w[3]}, true);
    take_bias(node, 3, w[0], {fields::TransposeConv::bias_type}, conv.given);
    conv.window = {{w[1], w[2]}, {1, 1}, {}, {1, 1}};
    node.set(quantization::add_conv(node.builder(), spread, std::nullopt, conv, node.layer()));
}

/// A linear layer on an image has a window as large as the image, so the image need not become a vector.
INTQ_INLINE std::int32_t add_linear(OperatorImport& node, quantization::ConvLayer& conv, index_t features) {
    const kernels::ArenaTensor in = node.builder().at(node.written(0));
    const index_t out = conv.weight_qparams.is_per_channel() ? static_cast<index_t>(conv.weight_qparams.scales.size())
                                                             : node.input(1).dims[0];
    const bool is_image = in.shape.rank == 4 && in.shape.size() / in.shape[0] == features;
    const Size2d window = is_image ? Size2d{in.shape[2], in.shape[3]} : Size2d{1, 1};
    const index_t channels = features / (window.height * window.width);
    conv.weight = weight_codes(
        node, 1, {Shape(out, channels, window.height, window.width), features, 1, window.width * channels, channels});
    conv.window = {window, {1, 1}, {}, {1, 1}};
    const std::int32_t x = is_image ? node.written(0) : node.shaped(0, {in.shape[0], features});
    return quantization::add_conv(node.builder(), x, std::nullopt, conv, node.layer());
}

/// On the last axis of rank 3 and more: rows of features, one after the other.
INTQ_INLINE std::int32_t add_linear_of_rows(OperatorImport& node, quantization::ConvLayer& conv, index_t features,
                                            const Dims& in) {
    const index_t batch = in[0], rows = count_of(in) / (batch * features), outputs = node.input(1).dims[0];
    conv.weight = weight_codes(node, 1, {Shape(outputs, features, 1, 1), features, 1, 0, 0});
    conv.weight = conv.weight.reshape(Shape(outputs, features));
    conv.window = {};
    const std::int32_t x = node.copy(node.written(0), Shape(batch, rows, features), "rows", Layout::row_major);
    const std::int32_t y = quantization::add_conv(node.builder(), x, std::nullopt, conv, node.layer());
    return node.copy(y, program_shape({batch, rows, outputs}), "images");
}

INTQ_INLINE void fully_connected(OperatorImport& node) {
    using Options = fields::FullyConnected;
    node.require_inputs(2, 3);
    require_rows_of_inputs(node.options());
    const Dims w = node.input(1).dims, in = node.dims();
    if (w.size() != 2 || w[0] < 1 || w[1] < 1)
        throw Error("its weight has the shape " + describe_dims(w) + ", expected (outputs, inputs)");
    if (count_of(in) % w[1] != 0 || count_of(in) < w[1])
        throw Error("an input of shape " + describe_dims(in) + " has no rows of " + std::to_string(w[1]) + " elements");
    quantization::ConvLayer conv = layer_of(node, OpKind::linear, node.activation(Options::activation));
    conv.weight_qparams = weight_qparams(node.input(1), 0, w[0]);
    take_bias(node, 2, w[0], {Options::bias_type}, conv.given);
    const index_t rows = count_of(in) / w[1];
    Dims out{rows, w[0]};
    if (node.options().flag(Options::keeps_dims)) {
        if (in.back() != w[1]) throw Error("the last axis of " + describe_dims(in) + " does not match its weight");
        out = in;
        out.back() = w[0];
    }
    node.set(rows == in[0] ? add_linear(node, conv, w[1]) : add_linear_of_rows(node, conv, w[1], in), std::move(out));
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_CONV_HPP
