// SPDX-License-Identifier: MIT
//
// ONNX operators that move elements or take some: Transpose, Slice, Split, Pad, Resize. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_OPERATORS_MOVE_HPP
#define INTQ_INTEROP_ONNX_OPERATORS_MOVE_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

void transpose(NodeImport& node);

/// One slice an axis, one behind the other.
void slice(NodeImport& node);

/// Sizes are an attribute up to opset 12, an input from 13 on; without sizes the parts are equal.
void split(NodeImport& node);

/// Constant padding; ONNX writes all beginnings, then all ends, in the order of the axes.
void pad(NodeImport& node);

void resize(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <memory>
#    include <numeric>
#    include <string>
#    include <string_view>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/nodes/node_import.hpp"
#    include "intq/interop/onnx/nodes/window.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/resize.hpp"
#    include "intq/nn/functional/move.hpp"
#    include "intq/nn/layers/resize.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// The integers of a constant input; empty where it is left out.
INTQ_INLINE std::vector<std::int64_t> constant_integers(const NodeImport& node, std::size_t i, std::string_view what) {
    if (!node.has_input(i)) return {};
    const auto values = node.constant(i, what).as<std::int64_t>();
    return {values.begin(), values.end()};
}

/// Throws for a number that no image needs.
INTQ_INLINE void check_extents(const std::vector<std::int64_t>& values, const char* what, std::int64_t least) {
    for (const std::int64_t value : values)
        if (value < least || value > detail::max_window_extent)
            throw Error("the " + std::string(what) + " " + std::to_string(value) + " is not in [" +
                        std::to_string(least) + ", " + std::to_string(detail::max_window_extent) + "]");
}

/// The extents of an input whose rank must be known.
INTQ_INLINE const std::vector<index_t>& known_dims(const NodeImport& node) {
    if (!node.dims(0)) throw Error("the rank of the input is not known");
    return *node.dims(0);
}

INTQ_INLINE std::size_t axis_in(std::int64_t axis, const std::vector<index_t>& dims) {
    const auto rank = static_cast<std::int64_t>(dims.size());
    if (axis < -rank || axis >= rank)
        throw Error("axis " + std::to_string(axis) + " does not exist in shape " + describe_shape(dims));
    return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

INTQ_INLINE void transpose(NodeImport& node) {
    node.expect_inputs(1, 1);
    const std::vector<index_t>& dims = known_dims(node);
    std::vector<std::int64_t> turned(dims.size());
    std::iota(turned.rbegin(), turned.rend(), 0);
    const auto axes = node.integers("perm", turned);
    std::vector<std::int64_t> sorted = axes;
    std::sort(sorted.begin(), sorted.end());
    if (!std::equal(sorted.begin(), sorted.end(), turned.rbegin(), turned.rend()))
        throw Error("perm " + describe_shape(axes) + " does not name each axis of " + describe_shape(dims) + " once");
    std::vector<index_t> result;
    for (const std::int64_t axis : axes) result.push_back(dims[static_cast<std::size_t>(axis)]);
    node.call_function(nn::permute_function, {node.value(0), graph::ArgumentList(axes.begin(), axes.end())},
                       std::move(result));
}

INTQ_INLINE void slice(NodeImport& node) {
    node.expect_inputs(3, 5);
    std::vector<index_t> dims = known_dims(node);
    const auto starts = constant_integers(node, 1, "starts"), stops = constant_integers(node, 2, "ends");
    auto axes = constant_integers(node, 3, "axes"), steps = constant_integers(node, 4, "steps");
    if (!node.has_input(3)) {
        axes.resize(starts.size());
        std::iota(axes.begin(), axes.end(), 0);
    }
    if (!node.has_input(4)) steps.assign(starts.size(), 1);
    if (starts.empty() || stops.size() != starts.size() || axes.size() != starts.size() ||
        steps.size() != starts.size())
        throw Error("starts, ends, axes and steps have " + std::to_string(starts.size()) + ", " +
                    std::to_string(stops.size()) + ", " + std::to_string(axes.size()) + " and " +
                    std::to_string(steps.size()) + " elements");
    graph::Node* value = &node.value(0);
    for (std::size_t i = 0; i < starts.size(); ++i) {
        if (steps[i] < 1) throw Error("the step " + std::to_string(steps[i]) + " is not supported; expected 1 or more");
        index_t& extent = dims[axis_in(axes[i], dims)];
        const auto inside = [&](std::int64_t at) { return std::clamp<index_t>(at < 0 ? at + extent : at, 0, extent); };
        if (extent >= 0) {
            const index_t length = std::max<index_t>(inside(stops[i]) - inside(starts[i]), 0);
            extent = length == 0 ? 0 : (length - 1) / steps[i] + 1;
        }
        const graph::ArgumentList args{*value, axes[i], starts[i], stops[i], steps[i]};
        if (i + 1 == starts.size()) return node.call_function(nn::slice_function, args, std::move(dims));
        value = &node.make_function(nn::slice_function, args);
    }
}

INTQ_INLINE void split(NodeImport& node) {
    const bool as_input = node.opset() >= 13;
    node.expect_inputs(1, as_input ? 2 : 1);
    const std::vector<index_t>& dims = known_dims(node);
    const std::size_t axis = axis_in(node.integer("axis", 0), dims), parts = node.node().outputs.size();
    std::vector<std::int64_t> sizes = as_input ? constant_integers(node, 1, "split") : node.integers("split", {});
    if (node.opset() >= 18 && sizes.empty() &&
        node.integer("num_outputs", static_cast<std::int64_t>(parts)) != static_cast<std::int64_t>(parts))
        throw Error("num_outputs is not the number of its outputs, " + std::to_string(parts));
    if (parts < 1) throw Error("it has no outputs");
    if (sizes.empty()) {
        if (dims[axis] < 0) throw Error("the extent of the axis is not known");
        const auto count = static_cast<index_t>(parts);
        sizes.assign(parts, (dims[axis] + count - 1) / count);
        sizes.back() = dims[axis] - sizes.front() * (count - 1);
    }
    check_extents(sizes, "size", 0);
    const bool whole = dims[axis] < 0 || std::accumulate(sizes.begin(), sizes.end(), index_t{0}) == dims[axis];
    if (sizes.size() != parts || !whole || std::any_of(sizes.begin(), sizes.end(), [](auto size) { return size < 0; }))
        throw Error("the sizes " + describe_shape(sizes) + " of " + std::to_string(parts) +
                    " outputs do not make up axis " + std::to_string(axis) + " of " + describe_shape(dims));
    graph::Node& pieces = node.make_function(
        nn::split_function,
        {node.value(0), graph::ArgumentList(sizes.begin(), sizes.end()), static_cast<std::int64_t>(axis)});
    std::vector<Dims> results;
    for (const std::int64_t size : sizes) {
        std::vector<index_t> result = dims;
        result[axis] = size;
        results.emplace_back(std::move(result));
    }
    node.set_items(pieces, results);
}

INTQ_INLINE void pad(NodeImport& node) {
    node.expect_inputs(2, 4);
    if (const std::string mode = node.text("mode", "constant"); mode != "constant")
        throw Error("the mode " + in_quotes(mode) + " is not supported; expected constant");
    std::vector<index_t> dims = known_dims(node);
    const auto pads = constant_integers(node, 1, "pads");
    auto axes = constant_integers(node, 3, "axes");
    if (!node.has_input(3)) {
        axes.resize(dims.size());
        std::iota(axes.begin(), axes.end(), 0);
    }
    check_extents(pads, "pad", -detail::max_window_extent);
    if (pads.size() != 2 * axes.size())
        throw Error("there are " + std::to_string(pads.size()) + " pads for " + std::to_string(axes.size()) + " axes");
    double value = 0;
    if (node.has_input(2)) {
        const FileTensor& given = node.float_constant(2, "value");
        if (given.size() != 1) throw Error("the value has " + std::to_string(given.size()) + " elements, expected 1");
        value = static_cast<double>(given.as<float>()[0]);
    }
    std::vector<std::int64_t> numbers(2 * dims.size(), 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const std::size_t axis = axis_in(axes[i], dims), from_the_end = dims.size() - 1 - axis;
        numbers[2 * from_the_end] = pads[i];
        numbers[2 * from_the_end + 1] = pads[axes.size() + i];
        if (dims[axis] >= 0) dims[axis] += pads[i] + pads[axes.size() + i];
    }
    while (numbers.size() > 2 && numbers.back() == 0 && numbers[numbers.size() - 2] == 0)
        numbers.resize(numbers.size() - 2);
    node.call_function(nn::pad_function,
                       {node.value(0), graph::ArgumentList(numbers.begin(), numbers.end()), "constant", value},
                       std::move(dims));
}

/// PyTorch's rule of a Resize, as its exporter writes them.
INTQ_INLINE nn::functional::Resize resize_rule_of(NodeImport& node) {
    using nn::functional::Resize;
    const std::string mode = node.text("mode", "nearest");
    const std::string place = node.text("coordinate_transformation_mode", "half_pixel");
    const std::string nearest = node.text("nearest_mode", "round_prefer_floor");
    node.number("cubic_coeff_a", -0.75f);      // concerns cubic only
    node.number("extrapolation_value", 0.0f);  // concerns tf_crop_and_resize only
    node.integer("exclude_outside", 0);        // concerns cubic only
    if (mode == "linear" && place == "align_corners") return Resize::align_corners;
    if (mode == "linear" && (place == "half_pixel" || place == "pytorch_half_pixel")) return Resize::half_pixel;
    if (mode == "nearest" && place == "asymmetric" && nearest == "floor") return Resize::nearest;
    if (mode == "nearest" && place == "half_pixel" && nearest == "round_prefer_ceil") return Resize::nearest_exact;
    throw Error("the mode " + mode + " with " + place + (mode == "nearest" ? " and " + nearest : "") +
                " is not supported");
}

INTQ_INLINE void resize(NodeImport& node) {
    node.expect_inputs(1, 4);
    graph::Node& x = node.value_of_rank(0, 4);
    if (node.integer("antialias", 0) != 0 || node.raw_attribute("axes") != nullptr ||
        node.text("keep_aspect_ratio_policy", "stretch") != "stretch")
        throw Error("antialias, axes and keep_aspect_ratio_policy are not supported");
    nn::InterpolateOptions options{.rule = resize_rule_of(node)};
    const auto sizes = constant_integers(node, 3, "sizes");
    std::vector<index_t> dims{node.extent(0, 0), node.extent(0, 1), -1, -1};
    if (!sizes.empty()) {
        const auto stays = [&](std::size_t axis) { return dims[axis] < 0 || sizes[axis] == dims[axis]; };
        check_extents(sizes, "size", 1);
        if (sizes.size() != 4 || !stays(0) || !stays(1))
            throw Error("the sizes " + describe_shape(sizes) + " resize more than height and width");
        options.size = Size2d{sizes[2], sizes[3]};
        std::copy_n(sizes.begin() + 2, 2, dims.begin() + 2);
    } else {
        const auto scales = node.float_constant(2, "scales").as<float>();
        if (scales.size() != 4 || scales[0] != 1.0f || scales[1] != 1.0f || !(scales[2] > 0.0f) || !(scales[3] > 0.0f))
            throw Error("the scales must be 1, 1 and two positive numbers for height and width");
        options.scale_factor = nn::ScaleFactor{static_cast<double>(scales[2]), static_cast<double>(scales[3])};
        if (node.extent(0, 2) >= 0 && node.extent(0, 3) >= 0) {
            const Size2d out = nn::functional::interpolated_size(options, {node.extent(0, 2), node.extent(0, 3)});
            dims[2] = out.height;
            dims[3] = out.width;
        }
    }
    if (node.text("coordinate_transformation_mode", "") == "pytorch_half_pixel" && (dims[2] == 1 || dims[3] == 1))
        throw Error("pytorch_half_pixel with one output cell means the first cell, which is not supported");
    node.call_module(std::make_shared<nn::Upsample>(options), {x}, std::move(dims));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_OPERATORS_MOVE_HPP
