// SPDX-License-Identifier: MIT
//
// ONNX operators with weights: Conv, ConvTranspose, Gemm, MatMul. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_CONV_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_CONV_HPP

#include "intq/core/dtype.hpp"
#include "intq/interop/onnx/internal/nodes/node_import.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

void conv(NodeImport& node);

/// The padding must be explicit: auto_pad and output_shape, which derive it from the input's size, are refused.
void conv_transpose(NodeImport& node);

void gemm(NodeImport& node);
void matmul(NodeImport& node);

/// Whether a constant is one value for each of `count` outputs, or one for all.
bool is_bias_of(const FileTensor& bias, index_t count);

/// A vector of `count` values from a constant that ONNX would broadcast to (N, count), times a factor.
Tensor broadcast_bias(const FileTensor& bias, index_t count, float factor);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <memory>
#    include <optional>
#    include <span>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/window.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/float_operators/conv.hpp"
#    include "intq/nn/layers/conv.hpp"
#    include "intq/nn/layers/conv3d.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/weighted.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Kernel extents of a weight, which the attribute kernel_shape may repeat but not contradict.
INTQ_INLINE std::vector<index_t> read_kernel(NodeImport& node, const FileTensor& weight) {
    const std::vector<index_t> kernel(weight.dims.begin() + 2, weight.dims.end());
    const auto given = node.integers("kernel_shape", {kernel.begin(), kernel.end()});
    if (!std::equal(given.begin(), given.end(), kernel.begin(), kernel.end()))
        throw Error("kernel_shape " + describe_shape(given) + " differs from the weight's, " +
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

/// The window of a layer along one axis.
template <class Options> void read_line(NodeImport& node, const FileTensor& weight, Options& options) {
    const AxisWindow along = read_axes(node, read_kernel(node, weight))[0];
    options.kernel = along.kernel;
    options.stride = along.stride;
    options.dilation = along.dilation;
    options.padding = {along.before, along.behind};
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

/// The window of a layer on volumes.
template <class Options> void read_volume(NodeImport& node, const FileTensor& weight, Options& options) {
    const std::vector<AxisWindow> axes = read_axes(node, read_kernel(node, weight));
    const AxisWindow& depth = axes[0];
    if (depth.before != depth.behind)
        throw Error("along the depth only pads that are equal at both ends are supported, given " +
                    std::to_string(depth.before) + " and " + std::to_string(depth.behind));
    options.depth = {depth.kernel, depth.stride, depth.before, depth.dilation};
    options.window = window_of(axes[1], axes[2]);
}

/// (N, O, D, H, W) of a layer's output on volumes, as far as it is known.
///
/// @param out_of  computes the size of the image that a window makes of another
template <class Options, class OutOf>
Dims volume_dims(const NodeImport& node, const Options& options, const OutOf& out_of) {
    const nn::DepthWindow& depth = options.depth;
    const Window2d along = window_of({}, {depth.kernel, depth.stride, depth.dilation, depth.padding, depth.padding});
    const auto at_least_one = [&](std::size_t axis) { return std::max<index_t>(node.extent(0, axis), 1); };
    const index_t deep = out_of(along, Size2d{1, at_least_one(2)}, true).width;
    const Size2d size = out_of(options.window, Size2d{at_least_one(3), at_least_one(4)}, false);
    std::vector<index_t> dims{node.extent(0, 0), options.out_channels, deep, size.height, size.width};
    for (std::size_t axis = 2; axis < 5; ++axis) {
        if (node.extent(0, axis) < 0)
            dims[axis] = -1;
        else if (dims[axis] < 1)
            throw Error("the window does not fit into the input of shape " + describe_shape(*node.dims(0)));
    }
    return dims;
}

INTQ_INLINE void conv3d(NodeImport& node) {
    graph::Node& x = node.value_of_rank(0, 5);
    const FileTensor& weight = node.float_constant(1, 5, "weight");
    const std::int64_t groups = read_groups(node, weight, "output");
    nn::Conv3dOptions options{.in_channels = weight.dims[1] * groups, .out_channels = weight.dims[0]};
    check_channels(node, options.in_channels);
    read_volume(node, weight, options);
    options.groups = groups;
    options.bias = node.has_input(2);
    auto module = std::make_shared<nn::Conv3d>(options);
    set_weight_and_bias(node, *module, weight);
    const auto out_of = [](const Window2d& window, Size2d in, bool) { return output_size(window, in); };
    node.call_module(module, {x}, volume_dims(node, options, out_of));
}

/// The number of image axes that a layer has, by its weight; 2 where that does not fit the input either.
INTQ_INLINE std::size_t image_axes(const NodeImport& node) {
    const std::size_t rank = node.has_input(1) && node.has_elements(1) ? node.constant(1, "weight").dims.size() : 0;
    const bool fits = (rank == 3 || rank == 5) && (!node.dims(0) || node.dims(0)->size() == rank);
    return fits ? rank - 2 : 2;
}

INTQ_INLINE void conv(NodeImport& node) {
    node.expect_inputs(2, 3);
    if (image_axes(node) == 1) return conv1d(node);
    if (image_axes(node) == 3) return conv3d(node);
    graph::Node& x = node.value_of_rank(0, 4);
    const FileTensor& weight = node.float_constant(1, 4, "weight");
    const std::vector<index_t> kernel = read_kernel(node, weight);
    const std::int64_t groups = read_groups(node, weight, "output");
    nn::Conv2dOptions options{.in_channels = weight.dims[1] * groups, .out_channels = weight.dims[0]};
    check_channels(node, options.in_channels);
    options.window = read_window(node, {kernel[0], kernel[1]});
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
    options.output_padding = detail::read_extents(node, "output_padding", {0}, 0)[0];
    options.groups = groups;
    options.bias = node.has_input(2);
    auto module = std::make_shared<nn::ConvTranspose1d>(options);
    set_weight_and_bias(node, *module, weight);
    const nn::ConvTranspose2dOptions rows = module->as_2d();
    const index_t length = node.extent(0, 2);
    const Size2d out = nn::float_operators::transposed_output_size(rows.window, rows.output_padding,
                                                                   {1, std::max<index_t>(length, 1)});
    node.call_module(module, {x},
                     std::vector<index_t>{node.extent(0, 0), options.out_channels, length < 0 ? -1 : out.width});
}

INTQ_INLINE void conv_transpose3d(NodeImport& node) {
    graph::Node& x = node.value_of_rank(0, 5);
    const FileTensor& weight = node.float_constant(1, 5, "weight");
    const std::int64_t groups = read_groups(node, weight, "input");
    nn::ConvTranspose3dOptions options{.in_channels = weight.dims[0], .out_channels = weight.dims[1] * groups};
    check_channels(node, options.in_channels);
    read_volume(node, weight, options);
    const auto more = detail::read_extents(node, "output_padding", {0, 0, 0}, 0);
    options.depth_padding = more[0];
    options.output_padding = {more[1], more[2]};
    options.groups = groups;
    options.bias = node.has_input(2);
    auto module = std::make_shared<nn::ConvTranspose3d>(options);
    set_weight_and_bias(node, *module, weight);
    const auto out_of = [&](const Window2d& window, Size2d in, bool is_depth) {
        const Size2d rest = is_depth ? Size2d{0, options.depth_padding} : options.output_padding;
        return nn::float_operators::transposed_output_size(window, rest, in);
    };
    node.call_module(module, {x}, volume_dims(node, options, out_of));
}

INTQ_INLINE void conv_transpose(NodeImport& node) {
    node.expect_inputs(2, 3);
    const std::string auto_pad = node.text("auto_pad", "NOTSET");
    if (auto_pad != "NOTSET" && auto_pad != "VALID")
        throw Error("auto_pad " + in_quotes(auto_pad) + " is not supported");
    if (node.raw_attribute("output_shape") != nullptr) throw Error("output_shape is not supported");
    if (image_axes(node) == 1) return conv_transpose1d(node);
    if (image_axes(node) == 3) return conv_transpose3d(node);
    graph::Node& x = node.value_of_rank(0, 4);
    const FileTensor& weight = node.float_constant(1, 4, "weight");
    const std::vector<index_t> kernel = read_kernel(node, weight);
    const std::int64_t groups = read_groups(node, weight, "input");
    nn::ConvTranspose2dOptions options{.in_channels = weight.dims[0], .out_channels = weight.dims[1] * groups};
    check_channels(node, options.in_channels);
    options.window = read_window(node, {kernel[0], kernel[1]});
    const auto more = detail::read_extents(node, "output_padding", {0, 0}, 0);
    options.output_padding = {more[0], more[1]};
    options.groups = groups;
    options.bias = node.has_input(2);
    auto module = std::make_shared<nn::ConvTranspose2d>(options);
    set_weight_and_bias(node, *module, weight);
    const Size2d in{node.extent(0, 2), node.extent(0, 3)};
    const Size2d known{std::max<index_t>(in.height, 1), std::max<index_t>(in.width, 1)};
    const Size2d out = nn::float_operators::transposed_output_size(options.window, options.output_padding, known);
    node.call_module(module, {x},
                     std::vector<index_t>{node.extent(0, 0), options.out_channels, in.height < 0 ? -1 : out.height,
                                          in.width < 0 ? -1 : out.width});
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

/// The dims of a product of matrices whose axes before the last two are broadcast.
INTQ_INLINE Dims product_dims(const Dims& a, const Dims& b) {
    if (!a || !b) return std::nullopt;
    Dims dims =
        broadcast_dims(std::vector<index_t>(a->begin(), a->end() - 2), std::vector<index_t>(b->begin(), b->end() - 2));
    dims->insert(dims->end(), {(*a)[a->size() - 2], b->back()});
    return dims;
}

/// Two matrices, of which one may be a constant with axes before its last two.
INTQ_INLINE void matmul_values(NodeImport& node) {
    const Dims &a = node.dims(0), &b = node.dims(1);
    if ((a && a->size() < 2) || (b && b->size() < 2)) throw Error("a product of vectors is not supported");
    if (a && b && a->back() >= 0 && (*b)[b->size() - 2] >= 0 && a->back() != (*b)[b->size() - 2])
        throw Error("matrices of shapes " + describe_shape(*a) + " and " + describe_shape(*b) +
                    " cannot be multiplied");
    const auto operand = [&](std::size_t i) -> graph::Node& {
        return node.is_constant(i) ? node.add_buffer(i, i == 0 ? "left operand" : "right operand") : node.value(i);
    };
    graph::Node& left = operand(0);
    node.call_module(make_as<nn::Module, nn::FloatFunctional>(), {left, operand(1)}, product_dims(a, b), "matmul");
}

/// Whether the right operand is the weight of a Linear. A constant of another rank is a value.
INTQ_INLINE bool has_weight(const NodeImport& node) {
    return node.has_elements(1) && node.constant(1, "right operand").dims.size() == 2;
}

INTQ_INLINE void matmul(NodeImport& node) {
    node.expect_inputs(2, 2);
    const auto is_value = [&](std::size_t i) {
        return !node.is_constant(i) || node.constant(i, "operand").dims.size() > 2;
    };
    const bool are_constants = node.is_constant(0) && node.is_constant(1);
    if (is_value(0) && is_value(1) && !are_constants && !has_weight(node)) return matmul_values(node);
    graph::Node& x = node.value(0, "left operand");
    call_linear(node, x, node.dims(0), linear_weight(node.float_constant(1, 2, "right operand"), false, 1.0f), {});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_CONV_HPP
