// SPDX-License-Identifier: MIT
//
// Values of an ONNX graph whose samples share an axis with windows or heads, or lie behind another axis, as values that
// keep the samples first. PyTorch writes the windows of Swin so, and nn.MultiheadAttention. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_FOLDED_SAMPLES_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_FOLDED_SAMPLES_HPP

#include <optional>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The model with the same results, in which the nodes between a move of the samples away from axis 0 and the move that
/// brings them back compute kept values (nodes/sample_axis.hpp); none if no node changes.
///
///     Reshape(x (N, H·W, C) to (N · H, W, C)), MatMul, …, Reshape to (N, H·W, D)
///         Reshape(x to (N, H, W, C)), MatMul, …, Reshape to (N, H·W, D)
///
/// The rules are those of nodes/folded_moves.hpp and folded_functions.hpp. A value that another node reads stays beside
/// the kept one, as the file says it. Shapes are those that the file says of its values; without one nothing changes.
///
/// Memory   a copy of the model, if a node changes
std::optional<Model> with_samples_unfolded(const Model& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cstddef>
#    include <set>
#    include <string>
#    include <string_view>
#    include <utility>
#    include <vector>

#    include "intq/core/shape.hpp"
#    include "intq/interop/onnx/internal/nodes/folded_functions.hpp"
#    include "intq/interop/onnx/internal/nodes/folded_moves.hpp"
#    include "intq/interop/onnx/internal/nodes/kept_values.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// How a node is computed on kept values. A move may take the samples away from kept ones.
struct FoldedRow {
    const char* op_type;
    std::optional<KeptNode> (*rule)(const Node&, KeptValues&);
    bool is_move = false;
};
inline constexpr FoldedRow folded_rows[] = {
    {"Abs", &folded::single},
    {"Add", &folded::broadcast},
    {"Cast", &folded::single},
    {"Celu", &folded::single},
    {"Clip", &folded::single},
    {"Concat", &folded::concat},
    {"Div", &folded::broadcast},
    {"Dropout", &folded::single},
    {"Elu", &folded::single},
    {"Erf", &folded::single},
    {"Exp", &folded::single},
    {"Expand", &folded::expand},
    {"Flatten", &folded::reshape, true},
    {"Gather", &folded::gather},
    {"Gelu", &folded::single},
    {"Gemm", &folded::gemm},
    {"HardSigmoid", &folded::single},
    {"HardSwish", &folded::single},
    {"Identity", &folded::single},
    {"LayerNormalization", &folded::norm},
    {"LeakyRelu", &folded::single},
    {"Log", &folded::single},
    {"MatMul", &folded::matmul},
    {"Max", &folded::broadcast},
    {"Min", &folded::broadcast},
    {"Mish", &folded::single},
    {"Mul", &folded::broadcast},
    {"Neg", &folded::single},
    {"Pow", &folded::broadcast},
    {"RMSNormalization", &folded::norm},
    {"Reciprocal", &folded::single},
    {"ReduceL2", &folded::reduce},
    {"ReduceMax", &folded::reduce},
    {"ReduceMean", &folded::reduce},
    {"ReduceMin", &folded::reduce},
    {"ReduceSum", &folded::reduce},
    {"Relu", &folded::single},
    {"Reshape", &folded::reshape, true},
    {"Selu", &folded::single},
    {"Sigmoid", &folded::single},
    {"Slice", &folded::slice},
    {"Softmax", &folded::softmax},
    {"Softplus", &folded::single},
    {"Softsign", &folded::single},
    {"Split", &folded::split},
    {"Sqrt", &folded::single},
    {"Squeeze", &folded::reshape, true},
    {"Sub", &folded::broadcast},
    {"Tanh", &folded::single},
    {"Transpose", &folded::transpose, true},
    {"Unsqueeze", &folded::reshape, true},
};

/// Reads the nodes once, in their order, and writes others beside them or in their place.
class UnfoldedSamples {
public:
    explicit UnfoldedSamples(const Model& model) : values_(model) {
        for (const Node& node : model.graph.nodes)
            if (!values_.begin(node) || !rewrite(node)) values_.editor().keep(node);
    }
    GraphEditor& editor() { return values_.editor(); }

private:
    /// @return whether other nodes have taken the place of the node
    bool rewrite(const Node& node) {
        const FoldedRow* const row = find_row(node);
        if (row == nullptr || node.inputs.empty() || node.outputs.empty()) return false;
        const bool reads_moved = std::any_of(node.inputs.begin(), node.inputs.end(),
                                             [&](const std::string& name) { return values_.is_moved(name); });
        if (!reads_moved && !row->is_move) return false;
        const std::optional<KeptNode> made = row->rule(node, values_);
        if (!made || made->outputs.size() != node.outputs.size()) return false;
        for (const SampleAxis& output : made->outputs)
            if (kept_extents(output).size() >= static_cast<std::size_t>(max_rank)) return false;
        const bool is_first = made->outputs.front().is_first();
        if (is_first && !reads_moved) return values_.note_shapes(*made, node), false;
        values_.finish(*made, node);
        return is_first;
    }

    static const FoldedRow* find_row(const Node& node) {
        if (!is_of_onnx(node)) return nullptr;
        const auto* const row = std::find_if(std::begin(folded_rows), std::end(folded_rows),
                                             [&](const FoldedRow& r) { return node.op_type == r.op_type; });
        return row == std::end(folded_rows) ? nullptr : row;
    }

    KeptValues values_;
};

/// The nodes that the outputs of the graph depend on.
INTQ_INLINE void erase_unread_nodes(Graph& graph) {
    std::set<std::string_view> wanted;
    for (const ValueInfo& output : graph.outputs) wanted.insert(output.name);
    std::vector<bool> is_read(graph.nodes.size());
    for (std::size_t i = graph.nodes.size(); i-- > 0;) {
        const Node& node = graph.nodes[i];
        is_read[i] = std::any_of(node.outputs.begin(), node.outputs.end(),
                                 [&](const std::string& name) { return wanted.count(name) != 0; });
        if (is_read[i]) wanted.insert(node.inputs.begin(), node.inputs.end());
    }
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
        if (is_read[i]) nodes.push_back(std::move(graph.nodes[i]));
    graph.nodes = std::move(nodes);
}

}  // namespace detail

INTQ_INLINE std::optional<Model> with_samples_unfolded(const Model& model) {
    detail::UnfoldedSamples unfolded(model);
    if (!unfolded.editor().has_changed()) return std::nullopt;
    Model result = unfolded.editor().apply_to(model);
    detail::erase_unread_nodes(result.graph);
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_FOLDED_SAMPLES_HPP
