// SPDX-License-Identifier: MIT
//
// Nodes whose value follows from shapes: x.size(0), and arithmetic on it. Layer: graph.
#ifndef INTQ_GRAPH_SHAPE_ARITHMETIC_HPP
#define INTQ_GRAPH_SHAPE_ARITHMETIC_HPP

#include <optional>

#include "intq/graph/node.hpp"
#include "intq/nn/model/value.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// Whether a node's value is integers that follow from shapes alone: `size`, and add, sub, mul, floordiv and getitem of
/// such nodes.
bool gives_shape(const Node& node);

/// The value of such a node by the shapes that the last run recorded; none where they are not known.
nn::Value shape_value(const Node& node);

/// The extent of one axis of a value: size(x, axis), or size(x)[axis].
struct ExtentOf {
    const Node* value = nullptr;
    int axis = 0;
};

/// Empty for other nodes.
std::optional<ExtentOf> extent_of(const Node& node);

/// Whether the value depends on axis 0 of some value, the axis of samples.
///
/// @pre gives_shape(node)
bool reads_samples(const Node& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>
#    include <array>
#    include <cstdint>
#    include <string_view>
#    include <variant>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/graph/interpreter.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE bool is_call_of(const Node& node, std::string_view name) {
    const bool is_call = node.op() == Op::call_function || node.op() == Op::call_method;
    return is_call && node.function() != nullptr && node.function()->name == name;
}

/// The integer that is argument number `at`; empty for another argument.
INTQ_INLINE std::optional<int> constant_argument(const Node& node, std::size_t at) {
    if (at >= node.args().size()) return std::nullopt;
    const auto* integer = std::get_if<std::int64_t>(&node.args()[at].content());
    return integer != nullptr ? std::optional(static_cast<int>(*integer)) : std::nullopt;
}

}  // namespace detail

INTQ_INLINE bool gives_shape(const Node& node) {
    if (detail::is_call_of(node, "size")) return true;
    const std::array<std::string_view, 5> of_integers{"add", "sub", "mul", "floordiv", "getitem"};
    const auto inputs = node.inputs();
    return !inputs.empty() && std::any_of(of_integers.begin(), of_integers.end(), [&](std::string_view name) {
        return detail::is_call_of(node, name);
    }) && std::all_of(inputs.begin(), inputs.end(), [](const Node* input) { return gives_shape(*input); });
}

INTQ_INLINE nn::Value shape_value(const Node& node) {
    Interpreter::Values values;
    if (detail::is_call_of(node, "size")) {
        const Node* const x = node.inputs().at(0);
        const OutputInfo& known = x->outputs()[0];
        if (known.dtype == DType::none) return {};
        nn::Value::Tuple extents;
        for (int axis = 0; axis < known.shape.rank; ++axis) extents.emplace_back(known.shape[axis]);
        if (node.args().size() < 2) return extents;
        const auto axis = detail::constant_argument(node, 1);
        return axis ? nn::Value(extents)[*axis] : nn::Value();
    }
    for (const Node* input : node.inputs()) {
        values[input] = shape_value(*input);
        if (values[input].is_none()) return {};
    }
    const std::vector<nn::Value> arguments = Interpreter::resolve(node.args(), values);
    return node.function()->evaluate(arguments);
}

INTQ_INLINE std::optional<ExtentOf> extent_of(const Node& node) {
    if (!gives_shape(node)) return std::nullopt;
    const Node* of = &node;
    if (detail::is_call_of(node, "getitem")) of = node.inputs().at(0);
    if (!detail::is_call_of(*of, "size") || (of != &node && of->args().size() > 1)) return std::nullopt;
    const auto axis = detail::constant_argument(node, 1);
    if (!axis) return std::nullopt;
    const Node* const value = of->inputs().at(0);
    const int rank = value->outputs()[0].shape.rank;
    return ExtentOf{value, *axis < 0 ? *axis + rank : *axis};
}

INTQ_INLINE bool reads_samples(const Node& node) {
    if (const auto extent = extent_of(node)) return extent->axis == 0;
    if (detail::is_call_of(node, "size")) return true;
    const auto inputs = node.inputs();
    return std::any_of(inputs.begin(), inputs.end(), [](const Node* input) { return reads_samples(*input); });
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_SHAPE_ARITHMETIC_HPP
