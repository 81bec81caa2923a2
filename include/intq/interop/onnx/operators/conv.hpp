// SPDX-License-Identifier: MIT
//
// ONNX operators with weights: Conv, ConvTranspose, BatchNormalization, Gemm, MatMul. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_OPERATORS_CONV_HPP
#define INTQ_INTEROP_ONNX_OPERATORS_CONV_HPP

#include <memory>

#include "intq/core/dtype.hpp"
#include "intq/interop/onnx/nodes/node_import.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/nn/layers/norm.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

void conv(NodeImport& node);

/// The padding must be given as such: auto_pad and output_shape, which derive it from the input's size, are refused.
void conv_transpose(NodeImport& node);

void batch_normalization(NodeImport& node);
void gemm(NodeImport& node);
void matmul(NodeImport& node);

/// BatchNorm2d on images, BatchNorm1d on what is known to have another rank.
std::shared_ptr<nn::BatchNorm> make_batch_norm(const Dims& dims, const nn::BatchNormOptions& options);

/// Whether a constant is one value for each of `count` outputs, or one for all.
bool is_bias_of(const FileTensor& bias, index_t count);

/// A vector of `count` values out of a constant that ONNX would broadcast to (N, count), times a factor.
Tensor broadcast_bias(const FileTensor& bias, index_t count, float factor);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <array>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <optional>
#    include <span>
#    include <string>
#    include <string_view>
#    include <utility>
#    include <vector>

#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/nodes/window.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/conv.hpp"
#    include "intq/nn/functional/move.hpp"
#    include "intq/nn/layers/conv.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/weighted.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Kernel extents of a weight, which the attribute kernel_shape may repeat but not contradict.
INTQ_INLINE Size2d read_kernel(NodeImport& node, const FileTensor& weight) {
    const Size2d kernel{weight.dims[2], weight.dims[3]};
    const auto given = node.integers("kernel_shape", {kernel.height, kernel.width});
    if (given != std::vector<std::int64_t>{kernel.height, kernel.width})
        throw Error("kernel_shape " + describe_shape(given) + " is not that of the weight, " +
                    describe_shape(weight.dims));
    return kernel;
}

INTQ_INLINE std::int64_t read_groups(NodeImport& node, const FileTensor& weight, const char* what) {
    const std::int64_t groups = node.integer("group", 1);
    if (groups < 1 || weight.dims[0] % groups != 0)
        throw Error(std::to_string(weight.dims[0]) + " " + what + " channels cannot be split into " +
                    std::to_string(groups) + " groups");
    return groups;
}

INTQ_INLINE void check_channels(const NodeImport& node, index_t expected) {
    if (const index_t channels = node.extent(0, 1); channels >= 0 && channels != expected)
        throw Error("the input has " + std::to_string(channels) + " channels, the weight is for " +
                    std::to_string(expected));
}

/// Fills weight and bias (input 3) of a layer.
INTQ_INLINE void set_weight_and_bias(const NodeImport& node, nn::Weighted& layer, const FileTensor& weight) {
    layer.set_weight(to_tensor(weight, layer.weight().shape()));
    if (!layer.has_bias()) return;
    const FileTensor& bias = node.float_constant(2, 1, "bias");
    if (bias.size() != layer.out_channels())
        throw Error("the bias has " + std::to_string(bias.size()) + " elements, expected " +
                    std::to_string(layer.out_channels()));
    layer.set_bias(to_tensor(bias, Shape(layer.out_channels())));
}

/// The number in an attribute of one-dimensional windows.
INTQ_INLINE index_t read_single(NodeImport& node, std::string_view name, std::int64_t otherwise, std::int64_t least) {
    return detail::read_extents(node, name, {otherwise}, least)[0];
}

/// The window of a layer along one axis, with the same padding at both ends.
template <class Options> void read_line(NodeImport& node, const FileTensor& weight, Options& options) {
    options.kernel = weight.dims[2];
    if (read_single(node, "kernel_shape", options.kernel, 1) != options.kernel)
        throw Error("kernel_shape is not that of the weight, " + describe_shape(weight.dims));
    options.stride = read_single(node, "strides", 1, 1);
    options.dilation = read_single(node, "dilations", 1, 1);
    const auto pads = detail::read_extents(node, "pads", {0, 0}, 0);
    const std::string mode = node.text("auto_pad", "NOTSET");
    if (pads[0] != pads[1] || (mode != "NOTSET" && mode != "VALID"))
        throw Error("along one axis only pads that are equal at both ends are supported, given " +
                    describe_shape(pads) + " and auto_pad " + in_quotes(mode));
    options.padding = pads[0];
}

INTQ_INLINE void conv1d(NodeImport& node) {
    graph::Node& x = node.value_of_rank(0, 3);
    const FileTensor& weight = node.float_constant(1, 3, "weight");
    const std::int64_t groups = read_groups(node, weight, "output");
    nn::Conv1dOptions options{.in_channels = weight.dims[1] * groups, .out_channels = weight.dims[0]};
    check_channels(node, options.in_channels);
    read_line(node, weight, options);
    options.groups = groups;
    options.bias = node.has_input(2);
    auto module = std::make_shared<nn::Conv1d>(options);
    set_weight_and_bias(node, *module, weight);
    const index_t length = node.extent(0, 2), out = output_size(module->window(), {1, length}).width;
    if (length >= 0 && out < 1)
        throw Error("the window of " + std::to_string(options.kernel) + " does not fit into the input of shape " +
                    describe_shape(*node.dims(0)));
    node.call_module(module, {x}, std::vector<index_t>{node.extent(0, 0), options.out_channels, length < 0 ? -1 : out});
}

INTQ_INLINE void conv(NodeImport& node) {
    node.expect_inputs(2, 3);
    const bool is_line = !node.dims(0) || node.dims(0)->size() == 3;
    if (is_line && node.has_elements(1) && node.constant(1, "weight").dims.size() == 3) return conv1d(node);
    graph::Node& x = node.value_of_rank(0, 4);
    const FileTensor& weight = node.float_constant(1, 4, "weight");
    const Size2d kernel = read_kernel(node, weight);
    const std::int64_t groups = read_groups(node, weight, "output");
    nn::Conv2dOptions options{.in_channels = weight.dims[1] * groups, .out_channels = weight.dims[0]};
    check_channels(node, options.in_channels);
    options.window = read_window(node, kernel);
    options.groups = groups;
    options.bias = node.has_input(2);
    auto module = std::make_shared<nn::Conv2d>(options);
    set_weight_and_bias(node, *module, weight);
    node.call_module(module, {x}, window_output_dims(node, options.window, options.out_channels));
}

INTQ_INLINE void conv_transpose1d(NodeImport& node) {
    graph::Node& x = node.value_of_rank(0, 3);
    const FileTensor& weight = node.float_constant(1, 3, "weight");
    const std::int64_t groups = read_groups(node, weight, "input");
    nn::ConvTranspose1dOptions options{.in_channels = weight.dims[0], .out_channels = weight.dims[1] * groups};
    check_channels(node, options.in_channels);
    read_line(node, weight, options);
    options.output_padding = read_single(node, "output_padding", 0, 0);
    options.groups = groups;
    options.bias = node.has_input(2);
    auto module = std::make_shared<nn::ConvTranspose1d>(options);
    set_weight_and_bias(node, *module, weight);
    const nn::ConvTranspose2dOptions rows = module->as_2d();
    const index_t length = node.extent(0, 2);
    const Size2d out = nn::float_operators::transposed_output_size(rows.window, rows.output_padding, {1, length});
    node.call_module(module, {x},
                     std::vector<index_t>{node.extent(0, 0), options.out_channels, length < 0 ? -1 : out.width});
}

INTQ_INLINE void conv_transpose(NodeImport& node) {
    node.expect_inputs(2, 3);
    const std::string auto_pad = node.text("auto_pad", "NOTSET");
    if (auto_pad != "NOTSET" && auto_pad != "VALID")
        throw Error("auto_pad " + in_quotes(auto_pad) + " is not supported");
    if (node.raw_attribute("output_shape") != nullptr) throw Error("output_shape is not supported");
    const bool is_line = !node.dims(0) || node.dims(0)->size() == 3;
    if (is_line && node.has_elements(1) && node.constant(1, "weight").dims.size() == 3) return conv_transpose1d(node);
    graph::Node& x = node.value_of_rank(0, 4);
    const FileTensor& weight = node.float_constant(1, 4, "weight");
    const Size2d kernel = read_kernel(node, weight);
    const std::int64_t groups = read_groups(node, weight, "input");
    nn::ConvTranspose2dOptions options{.in_channels = weight.dims[0], .out_channels = weight.dims[1] * groups};
    check_channels(node, options.in_channels);
    options.window = read_window(node, kernel);
    const auto more = detail::read_extents(node, "output_padding", {0, 0}, 0);
    options.output_padding = {more[0], more[1]};
    options.groups = groups;
    options.bias = node.has_input(2);
    auto module = std::make_shared<nn::ConvTranspose2d>(options);
    set_weight_and_bias(node, *module, weight);
    const Size2d in{node.extent(0, 2), node.extent(0, 3)};
    const Size2d out = nn::float_operators::transposed_output_size(options.window, options.output_padding, in);
    node.call_module(module, {x},
                     std::vector<index_t>{node.extent(0, 0), options.out_channels, in.height < 0 ? -1 : out.height,
                                          in.width < 0 ? -1 : out.width});
}

INTQ_INLINE std::shared_ptr<nn::BatchNorm> make_batch_norm(const Dims& dims, const nn::BatchNormOptions& options) {
    if (dims && (dims->size() < 2 || dims->size() > 4))
        throw Error("the input has shape " + describe_shape(*dims) + ", expected rank 2 to 4");
    if (dims && (*dims)[1] >= 0 && (*dims)[1] != options.num_features)
        throw Error("the input has shape " + describe_shape(*dims) + ", expected " +
                    std::to_string(options.num_features) + " channels");
    if (dims && dims->size() < 4) return std::make_shared<nn::BatchNorm1d>(options);
    return std::make_shared<nn::BatchNorm2d>(options);
}

INTQ_INLINE void batch_normalization(NodeImport& node) {
    node.expect_inputs(5, 5);
    graph::Node& x = node.value(0);
    if (node.opset() >= 14 && node.integer("training_mode", 0) != 0) throw Error("training_mode is not supported");
    const FileTensor& scale = node.float_constant(1, 1, "scale");
    nn::BatchNormOptions options{.num_features = scale.size()};
    options.eps = static_cast<double>(node.number("epsilon", 1e-5f));
    // ONNX keeps momentum times the old value, PyTorch takes momentum times the new one.
    options.momentum = 1.0 - static_cast<double>(node.number("momentum", 0.9f));
    const auto module = make_batch_norm(node.dims(0), options);
    constexpr std::array names{"weight", "bias", "running_mean", "running_var"};
    for (std::size_t i = 0; i < names.size(); ++i) {
        const FileTensor& values = node.float_constant(i + 1, 1, names[i]);
        if (values.size() != options.num_features)
            throw Error(std::string("the ") + names[i] + " has " + std::to_string(values.size()) +
                        " elements, expected " + std::to_string(options.num_features));
        module->tensor(names[i]) = to_tensor(values, Shape(options.num_features));
    }
    node.call_module(module, {x}, node.dims(0));
}

/// The (inputs, outputs) matrix of a file as the (outputs, inputs) of Linear, times a factor.
INTQ_INLINE Tensor linear_weight(const FileTensor& matrix, bool transposed, float factor) {
    const std::span<const float> from = matrix.as<float>();
    const auto rows = static_cast<std::size_t>(matrix.dims[0]), columns = static_cast<std::size_t>(matrix.dims[1]);
    Tensor weight = Tensor::empty(transposed ? Shape(rows, columns) : Shape(columns, rows));
    const auto to = weight.flat<float>();
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t k = 0; k < columns; ++k)
            to[transposed ? i * columns + k : k * rows + i] = factor * from[i * columns + k];
    return weight;
}

INTQ_INLINE bool is_bias_of(const FileTensor& bias, index_t count) {
    const bool row = !bias.dims.empty() && bias.dims.back() == count && bias.size() == count;
    return row || bias.size() == 1;
}

INTQ_INLINE Tensor broadcast_bias(const FileTensor& bias, index_t count, float factor) {
    const std::span<const float> from = bias.as<float>();
    const bool row = bias.size() != 1 || count == 1;
    if (!is_bias_of(bias, count))
        throw Error("the bias has shape " + describe_shape(bias.dims) + ", expected (" + std::to_string(count) + ")");
    Tensor result = Tensor::empty(Shape(count));
    const auto to = result.flat<float>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = factor * from[row ? i : 0];
    return result;
}

/// @param dims  of x
INTQ_INLINE void call_linear(NodeImport& node, graph::Node& x, Dims dims, Tensor weight, Tensor bias) {
    const index_t in = weight.extent(1), out = weight.extent(0);
    if (dims && (dims->empty() || (dims->back() >= 0 && dims->back() != in)))
        throw Error("the input has shape " + describe_shape(*dims) + ", expected " + std::to_string(in) +
                    " in the last axis");
    if (dims) dims->back() = out;
    auto module = std::make_shared<nn::Linear>(nn::LinearOptions{in, out, bias.defined()});
    module->set_weight(std::move(weight));
    if (bias.defined()) module->set_bias(std::move(bias));
    node.call_module(module, {x}, std::move(dims));
}

INTQ_INLINE void gemm(NodeImport& node) {
    node.expect_inputs(2, 3);
    graph::Node* x = &node.value_of_rank(0, 2, "left operand");
    Dims dims = node.dims(0);
    if (node.integer("transA", 0) != 0) {
        x = &node.make_function(nn::transpose_function, {*x, 0, 1});
        if (dims) std::swap((*dims)[0], (*dims)[1]);
    }
    const float alpha = node.number("alpha", 1.0f), beta = node.number("beta", 1.0f);
    if (!std::isfinite(alpha) || !std::isfinite(beta))
        throw Error("alpha is " + std::to_string(alpha) + " and beta " + std::to_string(beta) +
                    "; both must be finite");
    Tensor weight = linear_weight(node.float_constant(1, 2, "right operand"), node.integer("transB", 0) != 0, alpha);
    Tensor bias;
    if (node.has_input(2)) bias = broadcast_bias(node.float_constant(2, "bias"), weight.extent(0), beta);
    call_linear(node, *x, std::move(dims), std::move(weight), std::move(bias));
}

/// Two computed matrices.
INTQ_INLINE void matmul_values(NodeImport& node) {
    const Dims &a = node.dims(0), &b = node.dims(1);
    if ((a && a->size() < 2) || (b && b->size() < 2)) throw Error("a product of vectors is not supported");
    if (a && b && a->back() >= 0 && (*b)[b->size() - 2] >= 0 && a->back() != (*b)[b->size() - 2])
        throw Error("matrices of shapes " + describe_shape(*a) + " and " + describe_shape(*b) +
                    " cannot be multiplied");
    node.call_module(std::make_shared<nn::FloatFunctional>(), {node.value(0), node.value(1)}, std::nullopt, "matmul");
}

/// Whether the right operand is the weight of a Linear. A quantized constant of another rank is a value.
INTQ_INLINE bool has_weight(const NodeImport& node) {
    return node.is_constant(1) || (node.has_elements(1) && node.constant(1, "right operand").dims.size() == 2);
}

INTQ_INLINE void matmul(NodeImport& node) {
    node.expect_inputs(2, 2);
    if (!node.is_constant(0) && !has_weight(node)) return matmul_values(node);
    graph::Node& x = node.value(0, "left operand");
    call_linear(node, x, node.dims(0), linear_weight(node.float_constant(1, 2, "right operand"), false, 1.0f), {});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_OPERATORS_CONV_HPP
