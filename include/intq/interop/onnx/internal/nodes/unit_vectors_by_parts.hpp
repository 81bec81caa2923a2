// SPDX-License-Identifier: MIT
//
// Vectors over their length, as exporters write PyTorch's normalize(): attention by cosines has them. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_UNIT_VECTORS_BY_PARTS_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_UNIT_VECTORS_BY_PARTS_HPP

#include <map>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The LpNormalizations of a graph along the last axis, by the last node of each. Their other nodes stay where another
/// node reads them.
///
///     x / Clip(ReduceL2(x), eps)
///
/// The length may be repeated by an Expand. eps is at most 1e-6. The axis is -1, or the last one of the rank that the
/// file says of x.
std::map<const Node*, Node> unit_vectors_by_parts(const Graph& graph);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <cstddef>
#    include <cstdint>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/interop/onnx/internal/nodes/constants_of.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Reads the nodes once, in their order.
class UnitVectorSearch {
public:
    explicit UnitVectorSearch(const Graph& graph) : graph_(graph), constants_(graph) {
        for (const Node& node : graph.nodes)
            if (!constants_.add(node) && is_of_onnx(node) && !node.inputs.empty() && node.outputs.size() == 1)
                add(node);
    }
    std::map<const Node*, Node> take() { return std::move(found_); }

private:
    void add(const Node& node) {
        const std::string &in = node.inputs[0], &out = node.outputs[0];
        if (node.op_type == "ReduceL2" && is_of_last_axis(node)) lengths_[out] = in;
        if (node.op_type == "Clip" && lengths_.count(in) != 0 && is_bounded(node)) divisors_[out] = lengths_[in];
        if (node.op_type == "Expand" && divisors_.count(in) != 0) divisors_[out] = divisors_[in];
        if (node.op_type != "Div" || node.inputs.size() != 2) return;
        const auto divisor = divisors_.find(node.inputs[1]);
        if (divisor == divisors_.end() || divisor->second != in) return;
        found_[&node] = {.op_type = "LpNormalization",
                         .name = node.name,
                         .domain = {},
                         .inputs = {in},
                         .outputs = node.outputs,
                         .attributes = {{"axis", std::int64_t{-1}}},
                         .position = node.position};
    }

    bool is_of_last_axis(const Node& node) const {
        if (integers_of_attribute(node, "keepdims") == std::vector<std::int64_t>{0}) return false;
        const auto axes = constants_.integers(node, 1, "axes");
        if (!axes || axes->size() != 1) return false;
        const auto shape = graph_.shapes.find(node.inputs[0]);
        return axes->front() == -1 ||
               (shape != graph_.shapes.end() && axes->front() == static_cast<std::int64_t>(shape->second.size()) - 1);
    }
    /// Whether a Clip keeps all but tiny lengths.
    bool is_bounded(const Node& node) const {
        if (node.inputs.size() < 2 || (node.inputs.size() > 2 && !node.inputs[2].empty())) return false;
        const std::optional<double> least = constants_.number(node.inputs[1]);
        return least && *least >= 0.0 && *least <= 1e-6;
    }

    const Graph& graph_;
    ConstantsOf constants_;
    std::map<std::string, std::string> lengths_, divisors_;  // of what
    std::map<const Node*, Node> found_;
};

}  // namespace detail

INTQ_INLINE std::map<const Node*, Node> unit_vectors_by_parts(const Graph& graph) {
    return detail::UnitVectorSearch(graph).take();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_UNIT_VECTORS_BY_PARTS_HPP
