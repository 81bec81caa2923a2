// SPDX-License-Identifier: MIT
//
// How pools, reductions and resizing are written: MaxPool, AveragePool, GlobalAveragePool, ReduceMean, ReduceSum,
// Resize. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_EXPORT_INTERNAL_POOL_HPP
#define INTQ_INTEROP_ONNX_EXPORT_INTERNAL_POOL_HPP

#include <vector>

#include "intq/core/op_params.hpp"
#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeExport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::exports {
inline namespace INTQ_HOSTED_ABI {

void max_pool(NodeExport& node);
void average_pool(NodeExport& node);
/// GlobalAveragePool; an AveragePool where the windows of a larger output are equal.
void adaptive_average_pool(NodeExport& node);
void mean(NodeExport& node);
void sum(NodeExport& node);
void argmax(NodeExport& node);
void interpolate(NodeExport& node);

/// The attributes of an AveragePool.
std::vector<Attribute> average_attributes(NodeExport& node, const Window2d& window, PoolDivisor divisor,
                                          bool ceil_mode);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::exports

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_export)

#    include <cstddef>
#    include <cstdint>
#    include <string>
#    include <utility>

#    include "intq/interop/onnx/export/internal/node_export.hpp"
#    include "intq/interop/onnx/export/internal/weighted.hpp"
#    include "intq/nn/float_operators/resize.hpp"
#    include "intq/nn/layers/pool.hpp"
#    include "intq/nn/layers/resize.hpp"
#    include "intq/nn/model/call.hpp"

namespace intq::interop::onnx::exports {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE bool is_line(const NodeExport& node) { return node.shape().rank == 3; }

INTQ_INLINE void max_pool(NodeExport& node) {
    const auto& pool = node.module<nn::MaxPool2d>();
    std::vector<Attribute> attributes = window_attributes(pool.window(), is_line(node));
    attributes.insert(attributes.begin(), integer_attribute("ceil_mode", pool.ceil_mode() ? 1 : 0));
    node.set_result(node.add("MaxPool", {node.value()}, std::move(attributes)));
}

INTQ_INLINE std::vector<Attribute> average_attributes(NodeExport& node, const Window2d& window, PoolDivisor divisor,
                                                      bool ceil_mode) {
    std::vector<Attribute> attributes = window_attributes(window, is_line(node));
    if (window.dilation == Size2d{1, 1})
        attributes.erase(attributes.begin());
    else
        node.need(19, "a dilated AveragePool");
    const bool counts = divisor == PoolDivisor::kernel_cells && !(window.padding == Padding2d{});
    attributes.insert(attributes.begin(), integer_attribute("count_include_pad", counts ? 1 : 0));
    attributes.insert(attributes.begin(), integer_attribute("ceil_mode", ceil_mode ? 1 : 0));
    return attributes;
}

INTQ_INLINE void average_pool(NodeExport& node) {
    const auto& pool = node.module<nn::AvgPool2d>();
    node.set_result(node.add("AveragePool", {node.value()},
                             average_attributes(node, pool.window(), pool.divisor(), pool.ceil_mode())));
}

INTQ_INLINE void adaptive_average_pool(NodeExport& node) {
    const Size2d out = node.module<nn::AdaptiveAvgPool2d>().output();
    const Shape& in = node.shape();
    if (out == Size2d{1, 1}) return node.set_result(node.add("GlobalAveragePool", {node.value()}));
    if (node.open().others)
        throw node.error("its windows follow from the size of the image, which dynamic_axes may leave open");
    const Size2d size{in.rank == 4 ? in[2] : 1, in[in.rank - 1]};
    if (size.height % out.height != 0 || size.width % out.width != 0)
        throw node.error("its windows differ in size, because " + std::to_string(size.height) + " x " +
                         std::to_string(size.width) + " is no multiple of " + std::to_string(out.height) + " x " +
                         std::to_string(out.width) + "; ONNX has no operator for that");
    const Size2d step{size.height / out.height, size.width / out.width};
    const Window2d window{.kernel = step, .stride = step, .padding = {}, .dilation = {1, 1}};
    node.set_result(
        node.add("AveragePool", {node.value()}, average_attributes(node, window, PoolDivisor::kernel_cells, false)));
}

/// @param input_since  the opset from which the axes are an input
INTQ_INLINE void write_reduce(NodeExport& node, const char* op_type, std::int64_t input_since) {
    const std::vector<nn::Value> values = node.constants();
    const nn::Arguments arguments(values);
    std::vector<std::int64_t> axes;
    if (arguments.has(1))
        for (const index_t axis : nn::integers_of(arguments[1])) axes.push_back(node.axis(axis));
    std::vector<std::string> inputs{node.value()};
    std::vector<Attribute> attributes{integer_attribute("keepdims", arguments.flag(2) ? 1 : 0)};
    if (!axes.empty() && node.opset() >= input_since)
        inputs.push_back(node.integers("axes", axes));
    else if (!axes.empty())
        attributes.insert(attributes.begin(), integers_attribute("axes", std::move(axes)));
    node.set_result(node.add(op_type, std::move(inputs), std::move(attributes)));
}

INTQ_INLINE void mean(NodeExport& node) { write_reduce(node, "ReduceMean", 18); }
INTQ_INLINE void sum(NodeExport& node) { write_reduce(node, "ReduceSum", 13); }

INTQ_INLINE void argmax(NodeExport& node) {
    const std::vector<nn::Value> values = node.constants();
    const nn::Arguments arguments(values);
    node.set_result(node.add("ArgMax", {node.value()},
                             {integer_attribute("axis", node.axis(arguments[1].integer())),
                              integer_attribute("keepdims", arguments.flag(2) ? 1 : 0)}));
}

/// The attributes that the import reads as the same rule.
INTQ_INLINE std::vector<Attribute> resize_attributes(const NodeExport& node, nn::float_operators::Resize rule) {
    using nn::float_operators::Resize;
    const auto linear = [](const char* place) {
        return std::vector<Attribute>{text_attribute("coordinate_transformation_mode", place),
                                      text_attribute("mode", "linear")};
    };
    const auto nearest = [](const char* place, const char* mode) {
        return std::vector<Attribute>{text_attribute("coordinate_transformation_mode", place),
                                      text_attribute("mode", "nearest"), text_attribute("nearest_mode", mode)};
    };
    switch (rule) {
        case Resize::align_corners:
            return linear("align_corners");
        case Resize::half_pixel:
            return linear("half_pixel");
        case Resize::nearest:
            return nearest("asymmetric", "floor");
        case Resize::nearest_exact:
            return nearest("half_pixel", "round_prefer_ceil");
        case Resize::nearest_half_down:
            return nearest("half_pixel", "round_prefer_floor");
        default:
            throw node.error("its rule has no Resize");
    }
}

INTQ_INLINE void interpolate(NodeExport& node) {
    const std::vector<nn::Value> values = node.constants();
    const auto* module = node.module_if<nn::Upsample>();
    const nn::InterpolateOptions options =
        module != nullptr ? module->options() : nn::interpolate_options(nn::Arguments(values));
    const Shape &in = node.shape(), &out = node.output_shape();
    const OpenExtents& open = node.open();
    node.need(13, "Resize");
    std::vector<std::string> inputs{node.value(), ""};
    std::vector<Attribute> attributes = resize_attributes(node, options.rule);
    const bool is_multiple = options.size && out[2] % in[2] == 0 && out[3] % in[3] == 0;
    if (options.scale_factor || (is_multiple && !open.others)) {
        // A whole factor means the same as the size, and leaves the number of samples open.
        const auto factor = [&](double given, int axis) {
            return static_cast<float>(options.scale_factor ? given : static_cast<double>(out[axis] / in[axis]));
        };
        const nn::ScaleFactor given = options.scale_factor.value_or(nn::ScaleFactor{});
        inputs.push_back(
            node.constant<float>("scales", {4}, {1.0f, 1.0f, factor(given.height, 2), factor(given.width, 3)}));
    } else if (open.samples || open.others) {
        node.need(18, "the size of a Resize for any number of samples");
        inputs.emplace_back();
        inputs.push_back(node.integers("sizes", {out[2], out[3]}));
        attributes.insert(attributes.begin(), integers_attribute("axes", {2, 3}));
    } else {
        inputs.emplace_back();
        inputs.push_back(node.integers("sizes", {in[0], in[1], out[2], out[3]}));
    }
    node.set_result(node.add("Resize", std::move(inputs), std::move(attributes)));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::exports

#endif  // INTQ_DEFINES(interop_onnx_export)
#endif  // INTQ_INTEROP_ONNX_EXPORT_INTERNAL_POOL_HPP
