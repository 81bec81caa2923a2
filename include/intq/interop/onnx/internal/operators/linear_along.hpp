// SPDX-License-Identifier: MIT
//
// ONNX operators that are a matrix of constants along an axis, as a Linear: CumSum, and Resize in the mode cubic.
// Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_LINEAR_ALONG_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_LINEAR_ALONG_HPP

#include <string>
#include <vector>

#include "intq/core/shape.hpp"
#include "intq/graph/node.hpp"
#include "intq/interop/onnx/internal/nodes/node_import.hpp"
#include "intq/nn/layers/resize.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// y[j] = Σ_i weight[j][i] · x[i],  weight[j][i] = 1 for i <= j, else 0
///
/// exclusive: i < j;  reverse: i >= j, and with both i > j
///
/// Cost     the square of the axis' extent
void cumsum(NodeImport& node);

/// The attributes that concern a cubic.
struct CubicRule {
    double coefficient = -0.75;
    std::string place;  // coordinate_transformation_mode
};

/// @throws Error for attributes that are not supported
CubicRule cubic_rule_of(NodeImport& node);

/// Sets the node's output to x resized to `dims`, whose last two extents are those of the result.
///
///     y[j] = Σ_k w(p - k) · x[clamp(k, 0, in - 1)],  p the place of j in x, k = fl(p) - 1 … fl(p) + 2
///     w(d) = (a + 2)·|d|³ - (a + 3)·d² + 1               for |d| <= 1
///            a·|d|³ - 5a·d² + 8a·|d| - 4a                for |d| < 2
///
/// @param options  whose size or scale decides the places
///
/// Cost     for each cell of the result the extent of its column and of its row
/// Source   ONNX, operator Resize
void call_cubic(NodeImport& node, graph::Node& x, const CubicRule& rule, const nn::InterpolateOptions& options,
                std::vector<index_t> dims);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <memory>
#    include <utility>

#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/operators/move.hpp"
#    include "intq/interop/onnx/internal/operators/rearrange.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// The longest axis that a matrix is made for.
inline constexpr index_t longest_linear_axis = 4096;

/// The extent of an axis of input 0 that becomes a matrix.
/// @throws Error for the samples, and for an extent that is not known or too long
INTQ_INLINE index_t extent_of_linear(const std::vector<index_t>& dims, std::size_t axis) {
    if (axis == 0) throw Error("its axis is axis 0 of shape " + describe_shape(dims) + ", the samples");
    const index_t extent = dims[axis];
    if (extent < 1 || extent > longest_linear_axis)
        throw Error("axis " + std::to_string(axis) + " of shape " + describe_shape(dims) +
                    " must have a known extent of 1 to " + std::to_string(longest_linear_axis));
    return extent;
}

/// y[…, j, …] = Σ_i weight[j][i] · x[…, i, …], between permutes unless the axis is the last one
///
/// @param dims    the shape of x; that of y afterwards
/// @param axis    behind the samples
/// @param weight  (outputs, dims[axis])
INTQ_INLINE graph::Node& make_linear_along(NodeImport& node, graph::Node& x, std::vector<index_t>& dims,
                                           std::size_t axis, Tensor weight) {
    node.count_copied(static_cast<std::uint64_t>(weight.size()) * sizeof(float));
    std::vector<std::int64_t> order;
    for (std::size_t i = 0; i < dims.size(); ++i) order.push_back(static_cast<std::int64_t>(i));
    std::swap(order[axis], order.back());  // its own inverse
    dims[axis] = weight.extent(0);
    auto linear = std::make_shared<nn::Linear>(nn::LinearOptions{weight.extent(1), weight.extent(0), false});
    linear->set_weight(std::move(weight));
    return make_permute(node, node.make_module(linear, {make_permute(node, x, order)}), order);
}

INTQ_INLINE void cumsum(NodeImport& node) {
    node.expect_inputs(2, 2);
    const bool is_exclusive = node.integer("exclusive", 0) != 0, is_reverse = node.integer("reverse", 0) != 0;
    const std::vector<std::int64_t> given = constant_integers(node, 1, "axis");
    if (given.size() != 1) throw Error("the axis has " + std::to_string(given.size()) + " elements, expected 1");
    std::vector<index_t> dims = known_dims(node);
    const std::size_t axis = axis_in(given[0], dims);
    const index_t extent = extent_of_linear(dims, axis);
    Tensor weight = Tensor::zeros(Shape(extent, extent));
    for (index_t j = 0; j < extent; ++j)
        for (index_t i = 0; i < extent; ++i)
            if (i == j ? !is_exclusive : (i < j) != is_reverse)
                weight.flat<float>()[static_cast<std::size_t>(j * extent + i)] = 1.0f;
    graph::Node& sums = make_linear_along(node, node.value(0), dims, axis, std::move(weight));
    node.set_output({.node = &sums, .dims = std::move(dims)});
}

INTQ_INLINE CubicRule cubic_rule_of(NodeImport& node) {
    CubicRule rule{static_cast<double>(node.number("cubic_coeff_a", -0.75f)),
                   node.text("coordinate_transformation_mode", "half_pixel")};
    node.text("nearest_mode", "round_prefer_floor");  // concerns nearest only
    node.number("extrapolation_value", 0.0f);         // concerns tf_crop_and_resize only
    if (node.integer("exclude_outside", 0) != 0) throw Error("exclude_outside is not supported in the mode cubic");
    if (!(rule.coefficient >= -1.0 && rule.coefficient <= 0.0))
        throw Error("cubic_coeff_a is " + std::to_string(rule.coefficient) + ", expected -1 to 0");
    for (const char* place : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"})
        if (rule.place == place) return rule;
    throw Error("the mode cubic with " + rule.place + " is not supported");
}

INTQ_INLINE double cubic_weight(double distance, double a) {
    const double d = std::fabs(distance);
    if (d <= 1.0) return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
    return d < 2.0 ? ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a : 0.0;
}

/// The place of a cell of the result in the input.
INTQ_INLINE double place_of(const std::string& rule, index_t cell, index_t in, index_t out, double scale) {
    const auto j = static_cast<double>(cell);
    if (rule == "asymmetric") return j / scale;
    if (rule == "align_corners") {
        const double steps = static_cast<double>(in) * scale - 1.0;  // of a scale, between no whole cells
        return steps == 0.0 ? 0.0 : j * static_cast<double>(in - 1) / steps;
    }
    return rule == "pytorch_half_pixel" && out == 1 ? 0.0 : (j + 0.5) / scale - 0.5;
}

INTQ_INLINE Tensor cubic_matrix(const CubicRule& rule, index_t in, index_t out, double scale) {
    Tensor matrix = Tensor::zeros(Shape(out, in));
    for (index_t j = 0; j < out; ++j) {
        const double place = place_of(rule.place, j, in, out, scale);
        const auto first = static_cast<index_t>(std::floor(place)) - 1;
        for (index_t k = first; k < first + 4; ++k) {
            const index_t cell = std::clamp<index_t>(k, 0, in - 1);
            matrix.flat<float>()[static_cast<std::size_t>(j * in + cell)] +=
                static_cast<float>(cubic_weight(place - static_cast<double>(k), rule.coefficient));
        }
    }
    return matrix;
}

INTQ_INLINE void call_cubic(NodeImport& node, graph::Node& x, const CubicRule& rule,
                            const nn::InterpolateOptions& options, std::vector<index_t> dims) {
    if (!node.dims(0)) throw Error("the mode cubic needs the shape of the input, which is not known");
    std::vector<index_t> now = *node.dims(0);
    graph::Node* y = &x;
    for (const std::size_t axis : {std::size_t{2}, std::size_t{3}}) {
        const index_t in = extent_of_linear(now, axis), out = extent_of_linear(dims, axis);
        double scale = static_cast<double>(out) / static_cast<double>(in);
        if (!options.size) scale = axis == 2 ? options.scale_factor->height : options.scale_factor->width;
        if (in == out && scale == 1.0) continue;
        y = &make_linear_along(node, *y, now, axis, cubic_matrix(rule, in, out, scale));
    }
    if (y == &x) return node.call_module(make_as<nn::Module, nn::Identity>(), {x}, std::move(dims));
    node.set_output({.node = y, .dims = std::move(dims)});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_LINEAR_ALONG_HPP
