// SPDX-License-Identifier: MIT
//
// How layers with weights are written: Conv, ConvTranspose, Gemm, MatMul, BatchNormalization, LayerNormalization; with
// the add and the clamp that are fused into them. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_EXPORT_INTERNAL_WEIGHTED_HPP
#define INTQ_INTEROP_ONNX_EXPORT_INTERNAL_WEIGHTED_HPP

#include <string>
#include <vector>

#include "intq/core/op_params.hpp"
#include "intq/interop/onnx/export/internal/node_export.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::exports {
inline namespace INTQ_HOSTED_ABI {

void conv2d(NodeExport& node);
void conv1d(NodeExport& node);
void conv_transpose2d(NodeExport& node);
void conv_transpose1d(NodeExport& node);
void conv3d(NodeExport& node);
void conv_transpose3d(NodeExport& node);
/// Gemm on (N, C); MatMul, and an Add for the bias, on other ranks.
void linear(NodeExport& node);
void batch_norm(NodeExport& node);
void last_axes_norm(NodeExport& node);
void channels_norm(NodeExport& node);

/// The attributes of a window.
std::vector<Attribute> window_attributes(const Window2d& window, bool is_line);

/// A Relu or Clip behind a value; the value itself where there is no activation.
std::string activate(NodeExport& node, const std::string& value, Activation activation);

/// A matrix with its axes exchanged.
Tensor exchanged(const Tensor& matrix);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::exports

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_export)

#    include <cstddef>
#    include <utility>

#    include "intq/interop/onnx/export/internal/grid.hpp"
#    include "intq/nn/layers/conv.hpp"
#    include "intq/nn/layers/conv3d.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/norm.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::interop::onnx::exports {
inline namespace INTQ_HOSTED_ABI {

/// A window along one axis.
struct WindowAxis {
    index_t kernel, stride, pad_before, pad_behind, dilation;
};

INTQ_INLINE std::vector<WindowAxis> window_axes(const Window2d& window, bool is_line) {
    const auto& [kernel, stride, pad, dilation] = window;
    const WindowAxis rows{kernel.height, stride.height, pad.top, pad.bottom, dilation.height},
        columns{kernel.width, stride.width, pad.left, pad.right, dilation.width};
    return is_line ? std::vector{columns} : std::vector{rows, columns};
}

INTQ_INLINE std::vector<WindowAxis> window_axes(const nn::DepthWindow& depth, const Window2d& window) {
    std::vector<WindowAxis> axes = window_axes(window, false);
    axes.insert(axes.begin(), {depth.kernel, depth.stride, depth.padding, depth.padding, depth.dilation});
    return axes;
}

INTQ_INLINE std::vector<Attribute> window_attributes(const std::vector<WindowAxis>& axes) {
    const auto along = [&](index_t WindowAxis::*member) {
        std::vector<std::int64_t> extents;
        for (const WindowAxis& axis : axes) extents.push_back(axis.*member);
        return extents;
    };
    std::vector<std::int64_t> pads = along(&WindowAxis::pad_before);
    for (const WindowAxis& axis : axes) pads.push_back(axis.pad_behind);
    return {integers_attribute("dilations", along(&WindowAxis::dilation)),
            integers_attribute("kernel_shape", along(&WindowAxis::kernel)), integers_attribute("pads", std::move(pads)),
            integers_attribute("strides", along(&WindowAxis::stride))};
}

INTQ_INLINE std::vector<Attribute> window_attributes(const Window2d& window, bool is_line) {
    return window_attributes(window_axes(window, is_line));
}

INTQ_INLINE std::string activate(NodeExport& node, const std::string& value, Activation activation) {
    if (activation == Activation::none) return value;
    if (activation == Activation::relu) return node.add_part("relu", "Relu", {value});
    return node.add_part("relu", "Clip", {value, node.number("relu_min", 0.0f), node.number("relu_max", 6.0f)});
}

INTQ_INLINE Tensor exchanged(const Tensor& matrix) {
    const Tensor rows = matrix.contiguous();
    Tensor result = Tensor::empty(Shape(rows.extent(1), rows.extent(0)));
    const auto from = rows.flat<float>();
    const auto to = result.flat<float>();
    const auto height = static_cast<std::size_t>(rows.extent(0)), width = static_cast<std::size_t>(rows.extent(1));
    for (std::size_t i = 0; i < height; ++i)
        for (std::size_t k = 0; k < width; ++k) to[k * height + i] = from[i * width + k];
    return result;
}

/// The value of the layer's weight: an initializer, or a DequantizeLinear's output for its codes.
///
/// @param exchanges  whether the file holds the matrix with its axes exchanged
INTQ_INLINE std::string weight_of(NodeExport& node, bool exchanges = false) {
    const LayerCodes& layer = node.call().layer;
    const Tensor weight = exchanges ? exchanged(layer.weight) : layer.weight;
    if (!layer.grid) return node.parameter("weight", weight);
    OwnedQParams grid = *layer.grid;
    if (exchanges && grid.is_per_channel()) grid.axis = 1 - grid.axis;
    const std::string codes = node.parameter("weight", quantize(weight, grid, {}));
    const std::string name = node.name() + "_weight";
    return add_dequantize(node.writer(), node.writer().node_name(name + "_dequantize"), codes, grid,
                          add_grid(node.writer(), name, grid));
}

/// The value of the layer's bias; empty without one.
INTQ_INLINE std::string bias_of(NodeExport& node) {
    const LayerCodes& layer = node.call().layer;
    if (layer.bias_codes.empty()) return layer.bias.defined() ? node.parameter("bias", layer.bias) : std::string();
    const auto count = static_cast<index_t>(layer.bias_codes.size());
    const std::string codes = node.parameter("bias", Tensor::from(Shape(count), layer.bias_codes));
    const bool per_channel = layer.bias_scales.size() != 1;
    const std::string scale = node.constant(
        "bias_scale", std::vector<index_t>(per_channel ? 1 : 0, static_cast<index_t>(layer.bias_scales.size())),
        layer.bias_scales);
    std::vector<Attribute> attributes;
    if (per_channel) {
        node.need(13, "a scale for each channel");
        attributes.push_back(integer_attribute("axis", 0));
    }
    return node.add_part("bias_dequantize", "DequantizeLinear", {codes, scale}, std::move(attributes));
}

/// The inputs of a Conv or a Gemm.
INTQ_INLINE std::vector<std::string> layer_inputs(NodeExport& node) {
    node.name();
    std::vector<std::string> inputs{node.value(0), weight_of(node)};
    if (std::string bias = bias_of(node); !bias.empty()) inputs.push_back(std::move(bias));
    return inputs;
}

INTQ_INLINE std::string write_norm(NodeExport& node, const std::string& part, const std::string& value,
                                   const nn::BatchNorm& norm) {
    if (norm.uses_batch_statistics())
        throw node.error("its batch norm is in training; an exported model is in evaluation, call eval() first");
    std::vector<std::string> inputs{value};
    const std::string prefix = part.empty() ? std::string() : part + "_";
    for (const char* parameter : {"weight", "bias", "running_mean", "running_var"})
        inputs.push_back(node.parameter(prefix + parameter, norm.tensor(parameter)));
    std::vector<Attribute> attributes{number_attribute("epsilon", static_cast<float>(norm.options().eps)),
                                      number_attribute("momentum", static_cast<float>(1.0 - norm.options().momentum))};
    return part.empty() ? node.add("BatchNormalization", std::move(inputs), std::move(attributes))
                        : node.add_part(part, "BatchNormalization", std::move(inputs), std::move(attributes));
}

/// Writes the operators that are fused behind the product.
INTQ_INLINE void finish_layer(NodeExport& node, std::string value) {
    const auto& layer = node.module<nn::Weighted>();
    if (const nn::BatchNorm* const norm = layer.norm()) value = write_norm(node, "bn", value, *norm);
    const nn::Fusion fusion = layer.fusion();
    if (fusion.add) value = node.add_part("add", "Add", {value, node.value(1)});
    node.set_result(activate(node, value, fusion.activation));
}

/// A Conv, or with an output_padding a ConvTranspose.
INTQ_INLINE void write_conv(NodeExport& node, const std::vector<WindowAxis>& axes, index_t groups,
                            const std::vector<std::int64_t>& output_padding = {}) {
    std::vector<std::string> inputs = layer_inputs(node);
    std::vector<Attribute> attributes = window_attributes(axes);
    attributes.insert(attributes.begin() + 1, integer_attribute("group", groups));
    if (!output_padding.empty())
        attributes.insert(attributes.begin() + 3, integers_attribute("output_padding", output_padding));
    finish_layer(node,
                 node.add(output_padding.empty() ? "Conv" : "ConvTranspose", std::move(inputs), std::move(attributes)));
}

INTQ_INLINE void conv2d(NodeExport& node) {
    const auto& options = node.module<nn::Conv2d>().options();
    write_conv(node, window_axes(options.window, false), options.groups);
}

INTQ_INLINE void conv1d(NodeExport& node) {
    const auto& conv = node.module<nn::Conv1d>();
    write_conv(node, window_axes(conv.window(), true), conv.options().groups);
}

INTQ_INLINE void conv3d(NodeExport& node) {
    const auto& options = node.module<nn::Conv3d>().options();
    write_conv(node, window_axes(options.depth, options.window), options.groups);
}

INTQ_INLINE void conv_transpose2d(NodeExport& node) {
    const auto& options = node.module<nn::ConvTranspose2d>().options();
    const Size2d& more = options.output_padding;
    write_conv(node, window_axes(options.window, false), options.groups, {more.height, more.width});
}

INTQ_INLINE void conv_transpose1d(NodeExport& node) {
    const nn::ConvTranspose2dOptions options = node.module<nn::ConvTranspose1d>().as_2d();
    write_conv(node, window_axes(options.window, true), options.groups, {options.output_padding.width});
}

INTQ_INLINE void conv_transpose3d(NodeExport& node) {
    const auto& options = node.module<nn::ConvTranspose3d>().options();
    const Size2d& more = options.output_padding;
    write_conv(node, window_axes(options.depth, options.window), options.groups,
               {options.depth_padding, more.height, more.width});
}

INTQ_INLINE void linear(NodeExport& node) {
    node.module<nn::Linear>();
    if (node.shape().rank == 2) {
        std::vector<std::string> inputs = layer_inputs(node);
        return finish_layer(node, node.add("Gemm", std::move(inputs), {integer_attribute("transB", 1)}));
    }
    node.name();
    const std::string weight = weight_of(node, true);
    std::string value = node.add("MatMul", {node.value(0), weight});
    if (const std::string bias = bias_of(node); !bias.empty()) value = node.add_part("bias_add", "Add", {value, bias});
    finish_layer(node, value);
}

INTQ_INLINE void batch_norm(NodeExport& node) {
    const auto& norm = node.module<nn::BatchNorm>();
    node.name();
    node.set_result(activate(node, write_norm(node, "", node.value(0), norm), norm.activation()));
}

INTQ_INLINE void last_axes_norm(NodeExport& node) {
    const auto& norm = node.module<nn::LastAxesNorm>();
    const char* const op_type = norm.is_centered() ? "LayerNormalization" : "RMSNormalization";
    node.need(norm.is_centered() ? 17 : 23, op_type);
    node.name();
    std::vector<std::string> inputs{node.value(0), node.parameter("weight", norm.tensor("weight"))};
    if (norm.is_centered()) inputs.push_back(node.parameter("bias", norm.tensor("bias")));
    node.set_result(node.add(op_type, std::move(inputs),
                             {integer_attribute("axis", -norm.normalized_shape().rank),
                              number_attribute("epsilon", static_cast<float>(norm.eps()))}));
}

/// GroupNormalization, or InstanceNormalization, which ONNX has for images of at least one axis.
INTQ_INLINE void channels_norm(NodeExport& node) {
    const auto& norm = node.module<nn::ChannelsNorm>();
    const bool is_instance = dynamic_cast<const nn::GroupNorm*>(&norm) == nullptr;
    if (!is_instance) node.need(21, "GroupNormalization");
    node.name();
    const Tensor one = Tensor::full(Shape(norm.num_channels()), 1.0f), zero = Tensor::zeros(Shape(norm.num_channels()));
    std::vector<std::string> inputs{node.value(0),
                                    node.parameter("weight", norm.has_weight() ? norm.tensor("weight") : one),
                                    node.parameter("bias", norm.has_bias() ? norm.tensor("bias") : zero)};
    std::vector<Attribute> attributes{number_attribute("epsilon", static_cast<float>(norm.eps()))};
    if (!is_instance) attributes.push_back(integer_attribute("num_groups", norm.num_groups()));
    node.set_result(node.add(is_instance ? "InstanceNormalization" : "GroupNormalization", std::move(inputs),
                             std::move(attributes)));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::exports

#endif  // INTQ_DEFINES(interop_onnx_export)
#endif  // INTQ_INTEROP_ONNX_EXPORT_INTERNAL_WEIGHTED_HPP
