// SPDX-License-Identifier: MIT
//
// Functions of values whose samples do not lie in axis 0, as functions of their kept form (nodes/sample_axis.hpp). Each
// rule returns none where it does not hold: the node is then read as the file says it. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_FOLDED_FUNCTIONS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_FOLDED_FUNCTIONS_HPP

#include <optional>

#include "intq/interop/onnx/internal/nodes/kept_values.hpp"
#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx::detail::folded {
inline namespace INTQ_HOSTED_ABI {

/// Of each element of input 0 alone.
std::optional<KeptNode> single(const Node& node, KeptValues& values);
/// Of elements of two values that are broadcast: their samples lie in the same place, counted from the end. A constant
/// has extent 1 there, and the axis is taken out of it.
std::optional<KeptNode> broadcast(const Node& node, KeptValues& values);
/// By a constant matrix, or of two values of one rank whose samples lie in the same place before the matrices.
std::optional<KeptNode> matmul(const Node& node, KeptValues& values);
/// By constants: MatMul and Add, because the kept value has more axes.
std::optional<KeptNode> gemm(const Node& node, KeptValues& values);
/// Along another axis than that of the samples.
std::optional<KeptNode> softmax(const Node& node, KeptValues& values);
/// Over last axes that do not hold the samples.
std::optional<KeptNode> norm(const Node& node, KeptValues& values);
/// Over axes that do not hold the samples.
std::optional<KeptNode> reduce(const Node& node, KeptValues& values);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::detail::folded

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <set>
#    include <string>
#    include <utility>
#    include <variant>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"
#    include "intq/interop/onnx/internal/nodes/folded_moves.hpp"
#    include "intq/interop/onnx/internal/nodes/graph_editor.hpp"
#    include "intq/interop/onnx/internal/nodes/sample_axis.hpp"

namespace intq::interop::onnx::detail::folded {
inline namespace INTQ_HOSTED_ABI {

/// The node with other inputs, and without its outputs.
INTQ_INLINE Node with_inputs(const Node& node, std::vector<std::string> inputs) {
    Node made = node;
    made.inputs = std::move(inputs);
    made.outputs.clear();
    return made;
}

INTQ_INLINE std::optional<KeptNode> single(const Node& node, KeptValues& values) {
    const std::optional<KeptValue> x = values.kept(node.inputs[0]);
    for (std::size_t i = 1; i < node.inputs.size(); ++i)
        if (values.has_samples(node.inputs[i])) return std::nullopt;
    if (!x) return std::nullopt;
    std::vector<std::string> inputs = node.inputs;
    inputs[0] = x->name;
    return KeptNode{with_inputs(node, std::move(inputs)), {x->at}};
}

/// Axes of extent 1 in front of a value, until it has `rank`.
INTQ_INLINE void extend(SampleAxis& at, std::size_t rank) {
    const std::size_t more = rank - at.extents.size();
    at.extents.insert(at.extents.begin(), more, 1);
    at.shift_from(0, static_cast<std::ptrdiff_t>(more));
}

/// Broadcasts extents of one rank.
/// @return false where two differ
INTQ_INLINE bool broadcast_extents(std::vector<index_t>& to, const std::vector<index_t>& other) {
    for (std::size_t i = 0; i < to.size(); ++i) {
        if (to[i] != other[i] && to[i] != 1 && other[i] != 1) return false;
        to[i] = (std::max)(to[i], other[i]);
    }
    return true;
}

INTQ_INLINE bool lie_alike(const SampleAxis& a, const SampleAxis& b) {
    return a.axis == b.axis && a.before == b.before && a.beside() == b.beside();
}

/// A constant as it is broadcast with a kept value; its name, or "" where it is not the same for each sample.
INTQ_INLINE std::string kept_constant(const std::string& name, SampleAxis& all, const Node& node, KeptValues& values) {
    const auto dims = values.shape(name);
    const std::size_t rank = all.extents.size();
    if (!dims || dims->size() > rank || std::any_of(dims->begin(), dims->end(), [](index_t d) { return d < 1; }))
        return {};
    std::vector<index_t> extents = *dims;
    extents.insert(extents.begin(), rank - dims->size(), 1);
    if (all.axis != SampleAxis::nowhere && extents[all.axis] != 1) return {};
    if (!broadcast_extents(all.extents, extents)) return {};
    if (!all.is_alone() || dims->size() <= rank - all.axis) return name;
    extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(all.axis));
    extents.insert(extents.begin(), 1);
    const std::string target = values.editor().constant({extents.begin(), extents.end()}, node);
    return values.push(GraphEditor::in_place_of(node, "Reshape", {name, target}, {}, ".constant"), node);
}

/// The kept operands, of one rank, and what their broadcast result is; none where samples lie in different places.
struct KeptOperands {
    std::vector<std::string> names;
    SampleAxis all;
};
INTQ_INLINE std::optional<KeptOperands> kept_operands(const Node& node, KeptValues& values) {
    std::vector<std::optional<KeptValue>> operands;
    std::size_t rank = 0;
    for (const std::string& input : node.inputs) {
        operands.push_back(values.kept(input));
        if (!operands.back() && values.has_samples(input)) return std::nullopt;
        const auto dims = values.shape(input);
        rank = (std::max)({rank, dims ? dims->size() : 0, operands.back() ? operands.back()->at.extents.size() : 0});
    }
    KeptOperands kept{node.inputs, {}};
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i]) continue;
        SampleAxis at = operands[i]->at;
        const std::vector<index_t> before = kept_extents(at);
        extend(at, rank);
        kept.names[i] = operands[i]->name;
        if (kept_extents(at) != before) kept.names[i] = values.with_extents(kept.names[i], kept_extents(at), node);
        if (kept.all.extents.empty()) kept.all = at;
        if (!lie_alike(at, kept.all) || !broadcast_extents(kept.all.extents, at.extents)) return std::nullopt;
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (operands[i]) continue;
        kept.names[i] = kept_constant(node.inputs[i], kept.all, node, values);
        if (kept.names[i].empty()) return std::nullopt;
    }
    return kept;
}

INTQ_INLINE std::optional<KeptNode> broadcast(const Node& node, KeptValues& values) {
    const std::optional<KeptOperands> operands = kept_operands(node, values);
    if (!operands) return std::nullopt;
    return KeptNode{with_inputs(node, operands->names), {operands->all}};
}

INTQ_INLINE std::optional<KeptNode> matmul(const Node& node, KeptValues& values) {
    if (node.inputs.size() != 2) return std::nullopt;
    const std::optional<KeptValue> a = values.kept(node.inputs[0]), b = values.kept(node.inputs[1]);
    if (!a) return std::nullopt;
    SampleAxis to = a->at;
    if (!values.has_samples(node.inputs[1])) {
        const auto matrix = values.shape(node.inputs[1]);
        if (!matrix || matrix->size() != 2 || (*matrix)[1] < 1 || !to.is_before_last(1)) return std::nullopt;
        to.extents.back() = (*matrix)[1];
        return KeptNode{with_inputs(node, {a->name, node.inputs[1]}), {to}};
    }
    if (!b || b->at.extents.size() != to.extents.size() || !to.is_before_last(2) || !lie_alike(b->at, to))
        return std::nullopt;
    std::vector<index_t> other = b->at.extents;
    const std::size_t rank = other.size();
    if (to.extents[rank - 1] != other[rank - 2]) return std::nullopt;
    to.extents[rank - 1] = other[rank - 1];
    other[rank - 2] = to.extents[rank - 2];
    if (!broadcast_extents(to.extents, other)) return std::nullopt;
    return KeptNode{with_inputs(node, {a->name, b->name}), {to}};
}

INTQ_INLINE std::optional<KeptNode> gemm(const Node& node, KeptValues& values) {
    const std::optional<KeptValue> a = values.kept(node.inputs[0]);
    if (!a || !a->at.is_before_last(1) || node.inputs.size() < 2 || values.has_samples(node.inputs[1]))
        return std::nullopt;
    for (const Attribute& attribute : node.attributes) {
        const auto* const factor = std::get_if<float>(&attribute.value);
        if ((factor != nullptr && *factor != 1.0F) || (factor == nullptr && !attribute.name.starts_with("trans")))
            return std::nullopt;
    }
    const std::vector<std::int64_t> no{0};
    if (integers_of_attribute(node, "transA").value_or(no) != no) return std::nullopt;
    const bool transposes = integers_of_attribute(node, "transB").value_or(no) != no;
    const auto matrix = values.shape(node.inputs[1]);
    if (!matrix || matrix->size() != 2) return std::nullopt;
    SampleAxis to = a->at;
    to.extents.back() = (*matrix)[transposes ? 0 : 1];
    std::string weight = node.inputs[1];
    if (transposes)
        weight = values.push(GraphEditor::in_place_of(node, "Transpose", {weight},
                                                      {{"perm", std::vector<std::int64_t>{1, 0}}}, ".weight"),
                             node);
    Node product = GraphEditor::in_place_of(node, "MatMul", {a->name, weight});
    if (node.inputs.size() < 3 || node.inputs[2].empty()) return KeptNode{std::move(product), {to}};
    const auto bias = values.shape(node.inputs[2]);
    if (!bias || bias->size() != 1 || values.has_samples(node.inputs[2])) return std::nullopt;
    const std::string sums = values.push(std::move(product), node);
    return KeptNode{GraphEditor::in_place_of(node, "Add", {sums, node.inputs[2]}, {}, ".bias"), {to}};
}

INTQ_INLINE std::optional<KeptNode> softmax(const Node& node, KeptValues& values) {
    const std::optional<KeptValue> x = values.kept(node.inputs[0]);
    const std::int64_t axis = integers_of_attribute(node, "axis").value_or(std::vector<std::int64_t>{-1}).front();
    const auto own = x ? kept_axis(x->at, axis) : std::nullopt;
    if (!own || values.opset() < 13) return std::nullopt;  // earlier ones take all axes from there on
    Node made = with_inputs(node, {x->name});
    GraphEditor::set(made, "axis", static_cast<std::int64_t>(*own));
    return KeptNode{std::move(made), {x->at}};
}

INTQ_INLINE std::optional<KeptNode> norm(const Node& node, KeptValues& values) {
    const std::optional<KeptValue> x = values.kept(node.inputs[0]);
    std::int64_t axis = integers_of_attribute(node, "axis").value_or(std::vector<std::int64_t>{-1}).front();
    if (!x || !kept_axis(x->at, axis)) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(x->at.extents.size());
    if (axis >= 0) axis -= rank;
    if (!x->at.is_before_last(static_cast<std::size_t>(-axis))) return std::nullopt;
    std::vector<std::string> inputs = node.inputs;
    inputs[0] = x->name;
    Node made = with_inputs(node, std::move(inputs));
    GraphEditor::set(made, "axis", axis);
    return KeptNode{std::move(made), {x->at}};
}

INTQ_INLINE std::optional<KeptNode> reduce(const Node& node, KeptValues& values) {
    const std::optional<KeptValue> x = values.kept(node.inputs[0]);
    const auto axes = values.constants().integers(node, 1, "axes");
    if (!x || !axes || axes->empty()) return std::nullopt;
    const bool keeps = integers_of_attribute(node, "keepdims") != std::vector<std::int64_t>{0};
    const auto rank = static_cast<std::int64_t>(kept_extents(x->at).size()) + 1;
    std::vector<std::int64_t> own;  // from the end, where norms by parts know them
    std::set<std::size_t> gone;
    for (const std::int64_t axis : *axes) {
        const auto at = kept_axis(x->at, axis);
        if (!at) return std::nullopt;
        own.push_back(static_cast<std::int64_t>(*at) - rank);
        gone.insert(from_front(axis, x->at.extents.size()));
    }
    SampleAxis to = x->at;
    for (auto axis = gone.rbegin(); axis != gone.rend(); ++axis) {
        to.extents[*axis] = 1;
        if (keeps) continue;
        to.extents.erase(to.extents.begin() + static_cast<std::ptrdiff_t>(*axis));
        to.shift_from(*axis, -1);
    }
    Node made = with_inputs(node, {x->name});
    if (node.inputs.size() > 1)
        made.inputs.push_back(values.editor().constant(own, node));
    else
        GraphEditor::set(made, "axes", std::move(own));
    return KeptNode{std::move(made), {to}};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::detail::folded

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_FOLDED_FUNCTIONS_HPP
