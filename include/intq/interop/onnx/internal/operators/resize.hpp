// SPDX-License-Identifier: MIT
//
// ONNX Resize. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_RESIZE_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_RESIZE_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

void resize(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/nodes/window.hpp"
#    include "intq/interop/onnx/internal/operators/linear_along.hpp"
#    include "intq/interop/onnx/internal/operators/move.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/float_operators/resize.hpp"
#    include "intq/nn/layers/resize.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// The rule of a Resize: one of PyTorch's, as its exporter writes it, or ONNX's default.
INTQ_INLINE nn::float_operators::Resize resize_rule_of(NodeImport& node) {
    using nn::float_operators::Resize;
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
    if (mode == "nearest" && place == "half_pixel" && nearest == "round_prefer_floor") return Resize::nearest_half_down;
    throw Error("the mode " + mode + " with " + place + (mode == "nearest" ? " and " + nearest : "") +
                " is not supported");
}

/// Numbers for the axes that the attribute `axes` names, as numbers for all four; the other axes take `others`.
template <class T> std::vector<T> for_all_axes(NodeImport& node, std::vector<T> numbers, std::vector<T> others) {
    if (node.raw_attribute("axes") == nullptr || numbers.empty()) return numbers;
    if (node.opset() < 18)
        throw Error("the attribute \"axes\" is not supported in opset " + std::to_string(node.opset()));
    const std::vector<std::int64_t> axes = node.integers("axes", {});
    if (axes.size() != numbers.size())
        throw Error("it has " + std::to_string(axes.size()) + " axes and " + std::to_string(numbers.size()) +
                    " sizes or scales");
    std::vector<bool> named(others.size(), false);
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const std::size_t axis = axis_in(axes[i], std::vector<index_t>(others.size(), 0));
        if (named[axis]) throw Error("the axes " + describe_shape(axes) + " name one twice");
        named[axis] = true;
        others[axis] = numbers[i];
    }
    return others;
}

INTQ_INLINE void resize(NodeImport& node) {
    node.expect_inputs(1, 4);
    graph::Node& x = node.value_of_rank(0, 4);
    if (node.integer("antialias", 0) != 0 || node.text("keep_aspect_ratio_policy", "stretch") != "stretch")
        throw Error("antialias and keep_aspect_ratio_policy are not supported");
    const bool is_cubic = node.text("mode", "nearest") == "cubic";
    const CubicRule cubic = is_cubic ? cubic_rule_of(node) : CubicRule{};
    nn::InterpolateOptions options{.rule = is_cubic ? nn::float_operators::Resize::half_pixel : resize_rule_of(node)};
    std::vector<index_t> dims{node.extent(0, 0), node.extent(0, 1), node.extent(0, 2), node.extent(0, 3)};
    const auto sizes =
        for_all_axes<std::int64_t>(node, constant_integers(node, 3, "sizes"), {dims.begin(), dims.end()});
    dims[2] = dims[3] = -1;
    if (!sizes.empty()) {
        // An exporter takes the number of samples from Shape, which may not be known.
        const auto stays = [&](std::size_t axis) {
            return sizes[axis] == dims[axis] || (dims[axis] < 0 && sizes[axis] > 0);
        };
        if (sizes.size() != 4 || !stays(0) || !stays(1))
            throw Error("the sizes " + describe_shape(sizes) + " resize more than height and width");
        if (is_unknown_extent(sizes[2]) || is_unknown_extent(sizes[3]))
            throw Error("the sizes " + describe_shape(sizes) + " are known only when the model runs");
        check_extents({sizes[2], sizes[3]}, "size", 1);
        options.size = Size2d{sizes[2], sizes[3]};
        std::copy_n(sizes.begin() + 2, 2, dims.begin() + 2);
    } else {
        const auto given = node.float_constant(2, "scales").as<float>();
        const auto scales = for_all_axes<float>(node, {given.begin(), given.end()}, std::vector<float>(4, 1.0f));
        if (scales.size() != 4 || scales[0] != 1.0f || scales[1] != 1.0f || !(scales[2] > 0.0f) || !(scales[3] > 0.0f))
            throw Error("the scales must be 1, 1 and two positive numbers for height and width");
        options.scale_factor = nn::ScaleFactor{static_cast<double>(scales[2]), static_cast<double>(scales[3]),
                                               nn::float_operators::ResizeOrigin::onnx_factor};
        if (node.extent(0, 2) >= 0 && node.extent(0, 3) >= 0) {
            const Size2d out = nn::float_operators::interpolated_size(options, {node.extent(0, 2), node.extent(0, 3)});
            dims[2] = out.height;
            dims[3] = out.width;
        }
    }
    if (is_cubic) return call_cubic(node, x, cubic, options, std::move(dims));
    if (node.text("coordinate_transformation_mode", "") == "pytorch_half_pixel" && (dims[2] == 1 || dims[3] == 1))
        throw Error("pytorch_half_pixel with one output cell means the first cell, which is not supported");
    node.call_module(make_as<nn::Module, nn::Upsample>(options), {x}, std::move(dims));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_RESIZE_HPP
