// SPDX-License-Identifier: MIT
//
// Moves of values whose samples do not lie in axis 0, as moves of their kept form (nodes/sample_axis.hpp). Each rule
// returns none where it does not hold: the node is then read as the file says it. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_FOLDED_MOVES_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_FOLDED_MOVES_HPP

#include <optional>

#include "intq/interop/onnx/internal/nodes/kept_values.hpp"
#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx::detail::folded {
inline namespace INTQ_HOSTED_ABI {

/// The other axes in the same order, behind the samples.
std::optional<KeptNode> transpose(const Node& node, KeptValues& values);
/// Reshape, Flatten, Squeeze and Unsqueeze: the other elements of a sample in the shape that is left.
std::optional<KeptNode> reshape(const Node& node, KeptValues& values);
/// Of another axis than that of the samples, by constants.
std::optional<KeptNode> gather(const Node& node, KeptValues& values);
std::optional<KeptNode> slice(const Node& node, KeptValues& values);
std::optional<KeptNode> split(const Node& node, KeptValues& values);
/// To the shape that the file says of its output, where the samples are not repeated.
std::optional<KeptNode> expand(const Node& node, KeptValues& values);
/// Along another axis, of values with their samples in the same place.
std::optional<KeptNode> concat(const Node& node, KeptValues& values);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::detail::folded

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"
#    include "intq/interop/onnx/internal/nodes/graph_editor.hpp"
#    include "intq/interop/onnx/internal/nodes/sample_axis.hpp"

namespace intq::interop::onnx::detail::folded {
inline namespace INTQ_HOSTED_ABI {

/// The node that leaves a kept value as it is.
INTQ_INLINE Node same(const Node& node, const std::string& kept) {
    return GraphEditor::in_place_of(node, "Identity", {kept});
}

INTQ_INLINE std::size_t from_front(std::int64_t axis, std::size_t rank) {
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

INTQ_INLINE std::optional<KeptNode> transpose(const Node& node, KeptValues& values) {
    const std::optional<KeptValue> x = values.kept(node.inputs[0]);
    const auto order = permutation_of(node);
    if (!x || !order || order->size() != x->at.extents.size()) return std::nullopt;
    SampleAxis to = x->at;
    std::vector<std::int64_t> kept_order{0};
    for (std::size_t i = 0; i < order->size(); ++i) {
        const std::int64_t from = (*order)[i];
        to.extents[i] = x->at.extents[static_cast<std::size_t>(from)];
        if (static_cast<std::size_t>(from) == x->at.axis) to.axis = i;  // nowhere is no axis
        if (const auto axis = kept_axis(x->at, from))
            kept_order.push_back(static_cast<std::int64_t>(*axis));
        else if (!x->at.is_alone())
            kept_order.push_back(from + 1);
    }
    if (std::is_sorted(kept_order.begin(), kept_order.end())) return KeptNode{same(node, x->name), {to}};
    return KeptNode{GraphEditor::in_place_of(node, "Transpose", {x->name}, {{"perm", std::move(kept_order)}}), {to}};
}

/// The shape that a Reshape gives; that which the file says of its output where the target is computed.
INTQ_INLINE std::optional<std::vector<index_t>> target_of(const Node& node, const KeptValues& values) {
    const auto target = node.op_type == "Reshape" && node.inputs.size() == 2
                            ? values.constants().integers(node.inputs[1])
                            : std::nullopt;
    if (!target || std::count(target->begin(), target->end(), 0) > 0) return values.shape(node.outputs[0]);
    return std::vector<index_t>(target->begin(), target->end());
}

INTQ_INLINE std::optional<KeptNode> reshape(const Node& node, KeptValues& values) {
    const std::optional<KeptValue> x = values.kept(node.inputs[0]);
    const auto target = target_of(node, values);
    const auto to = x && target ? reshaped(x->at, *target, values.samples()) : std::nullopt;
    if (!to) return std::nullopt;
    const std::vector<index_t> extents = kept_extents(*to);
    if (extents == kept_extents(x->at)) return KeptNode{same(node, x->name), {*to}};
    std::vector<std::int64_t> kept_target{0};
    kept_target.insert(kept_target.end(), extents.begin(), extents.end());
    return KeptNode{GraphEditor::in_place_of(node, "Reshape", {x->name, values.editor().constant(kept_target, node)}),
                    {*to}};
}

INTQ_INLINE std::optional<KeptNode> expand(const Node& node, KeptValues& values) {
    const std::optional<KeptValue> x = values.kept(node.inputs[0]);
    auto target = values.shape(node.outputs[0]);
    if (!x || !target || target->size() != x->at.extents.size()) return std::nullopt;
    SampleAxis to = x->at;
    for (std::size_t i = 0; i < target->size(); ++i) {
        if (i == to.axis) continue;
        if ((*target)[i] < 1 || (to.extents[i] != 1 && to.extents[i] != (*target)[i])) return std::nullopt;
        to.extents[i] = (*target)[i];
    }
    std::vector<std::int64_t> kept_target{1};
    const std::vector<index_t> extents = kept_extents(to);
    kept_target.insert(kept_target.end(), extents.begin(), extents.end());
    return KeptNode{GraphEditor::in_place_of(node, "Expand", {x->name, values.editor().constant(kept_target, node)}),
                    {to}};
}

INTQ_INLINE std::optional<KeptNode> gather(const Node& node, KeptValues& values) {
    if (node.inputs.size() != 2) return std::nullopt;
    const std::optional<KeptValue> x = values.kept(node.inputs[0]);
    const FileTensor* const index = values.constants().tensor(node.inputs[1]);
    const std::int64_t axis = integers_of_attribute(node, "axis").value_or(std::vector<std::int64_t>{0}).front();
    const auto own = x ? kept_axis(x->at, axis) : std::nullopt;
    if (!own || index == nullptr || index->dtype != DType::int64) return std::nullopt;
    SampleAxis to = x->at;
    const std::size_t at = from_front(axis, to.extents.size());
    to.extents.erase(to.extents.begin() + static_cast<std::ptrdiff_t>(at));
    to.extents.insert(to.extents.begin() + static_cast<std::ptrdiff_t>(at), index->dims.begin(), index->dims.end());
    to.shift_from(at, static_cast<std::ptrdiff_t>(index->dims.size()) - 1);
    Node made = GraphEditor::in_place_of(node, "Gather", {x->name, node.inputs[1]},
                                         {{"axis", static_cast<std::int64_t>(*own)}});
    if (index->dims.size() < 2) return KeptNode{std::move(made), {to}};
    const auto list = index->as<std::int64_t>();
    made.inputs[1] = values.editor().constant({list.begin(), list.end()}, node);
    const std::string taken = values.push(std::move(made), node);
    return KeptNode{same(node, values.with_extents(taken, kept_extents(to), node)), {to}};
}

/// How many elements Slice takes of an extent.
INTQ_INLINE index_t slice_size(index_t extent, std::int64_t start, std::int64_t end, std::int64_t step) {
    const auto inside = [&](std::int64_t at, index_t low, index_t high) {
        return std::clamp<index_t>(at < 0 ? at + extent : at, low, high);
    };
    if (step > 0) {
        const index_t from = inside(start, 0, extent), to = inside(end, 0, extent);
        return to > from ? (to - from - 1) / step + 1 : 0;
    }
    const index_t from = inside(start, 0, extent - 1), to = inside(end, -1, extent - 1);
    return from > to ? (from - to - 1) / -step + 1 : 0;
}

INTQ_INLINE std::optional<KeptNode> slice(const Node& node, KeptValues& values) {
    const std::optional<KeptValue> x = values.kept(node.inputs[0]);
    if (!x || node.inputs.size() < 4) return std::nullopt;
    const ConstantsOf& constants = values.constants();
    const auto starts = constants.integers(node.inputs[1]), ends = constants.integers(node.inputs[2]),
               axes = constants.integers(node.inputs[3]);
    if (!starts || !ends || !axes || starts->size() != axes->size() || ends->size() != axes->size())
        return std::nullopt;
    const auto steps =
        node.inputs.size() > 4 ? constants.integers(node.inputs[4]) : std::vector<std::int64_t>(axes->size(), 1);
    if (!steps || steps->size() != axes->size()) return std::nullopt;
    SampleAxis to = x->at;
    std::vector<std::int64_t> own;
    for (std::size_t i = 0; i < axes->size(); ++i) {
        const auto axis = kept_axis(x->at, (*axes)[i]);
        if (!axis || (*steps)[i] == 0 || (*steps)[i] < -max_extent) return std::nullopt;
        own.push_back(static_cast<std::int64_t>(*axis));
        index_t& extent = to.extents[from_front((*axes)[i], to.extents.size())];
        extent = slice_size(extent, (*starts)[i], (*ends)[i], (*steps)[i]);
        if (extent < 1) return std::nullopt;
    }
    Node made = node;
    made.outputs.clear();
    made.inputs[0] = x->name;
    made.inputs[3] = values.editor().constant(own, node);
    return KeptNode{std::move(made), {to}};
}

INTQ_INLINE std::optional<KeptNode> split(const Node& node, KeptValues& values) {
    const std::optional<KeptValue> x = values.kept(node.inputs[0]);
    const std::int64_t axis = integers_of_attribute(node, "axis").value_or(std::vector<std::int64_t>{0}).front();
    const auto own = x ? kept_axis(x->at, axis) : std::nullopt;
    if (!own) return std::nullopt;
    const std::size_t at = from_front(axis, x->at.extents.size());
    const auto count = static_cast<index_t>(node.outputs.size());
    const index_t extent = x->at.extents[at], size = (extent + count - 1) / count;
    auto sizes = values.constants().integers(node, 1, "split");
    if (!sizes && node.inputs.size() > 1 && !node.inputs[1].empty()) return std::nullopt;
    if (!sizes) {
        sizes.emplace(node.outputs.size(), size);
        sizes->back() = extent - size * (count - 1);
    }
    if (sizes->size() != node.outputs.size()) return std::nullopt;
    KeptNode made{node, {}};
    for (const std::int64_t part : *sizes) {
        if (part < 1 || part > extent) return std::nullopt;
        made.outputs.push_back(x->at);
        made.outputs.back().extents[at] = part;
    }
    made.node.outputs.clear();
    made.node.inputs[0] = x->name;
    GraphEditor::set(made.node, "axis", static_cast<std::int64_t>(*own));
    return made;
}

INTQ_INLINE std::optional<KeptNode> concat(const Node& node, KeptValues& values) {
    const auto axis = integers_of_attribute(node, "axis");
    if (!axis) return std::nullopt;
    KeptNode made{node, {}};
    made.node.outputs.clear();
    for (std::string& input : made.node.inputs) {
        const std::optional<KeptValue> x = values.kept(input);
        const auto own = x ? kept_axis(x->at, axis->front()) : std::nullopt;
        if (!own) return std::nullopt;
        GraphEditor::set(made.node, "axis", static_cast<std::int64_t>(*own));
        input = x->name;
        if (made.outputs.empty()) {
            made.outputs.push_back(x->at);
            continue;
        }
        SampleAxis& all = made.outputs.front();
        if (all.extents.size() != x->at.extents.size()) return std::nullopt;
        const std::size_t at = from_front(axis->front(), all.extents.size());
        SampleAxis other = x->at;
        other.extents[at] = all.extents[at];
        if (other != all) return std::nullopt;
        all.extents[at] += x->at.extents[at];
    }
    return made;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::detail::folded

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_FOLDED_MOVES_HPP
