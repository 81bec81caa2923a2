// SPDX-License-Identifier: MIT
//
// Nodes and constants that replace others of an ONNX graph, for passes that read the nodes once, in their order.
// Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_GRAPH_EDITOR_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_GRAPH_EDITOR_HPP

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "intq/interop/onnx/read/model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Collects the nodes of a new graph. It holds no reference to the graph that it was made of.
class GraphEditor {
public:
    explicit GraphEditor(const Graph& graph);

    /// Takes over a node of the graph.
    void keep(const Node& node) { nodes_.push_back(node); }
    /// Adds another node.
    void push(Node node) { nodes_.push_back(std::move(node)), has_changed_ = true; }
    /// A name that no value has.
    std::string fresh(const std::string& like);
    /// A constant, in the place of `node`; its name is chosen here.
    std::string constant(FileTensor tensor, const Node& node);
    /// A list of integers.
    std::string constant(const std::vector<std::int64_t>& values, const Node& node);
    /// A number.
    std::string constant(float value, const Node& node);
    /// Adds a node in the place of another one.
    /// @return the name of its only output
    std::string add(const Node& node, const char* op_type, std::vector<std::string> inputs,
                    std::vector<Attribute> attributes = {}, const char* suffix = "");
    /// A node in the place of another one, with the suffix behind its name.
    static Node in_place_of(const Node& node, const char* op_type, std::vector<std::string> inputs,
                            std::vector<Attribute> attributes = {}, const char* suffix = "");
    /// Sets an attribute to another value, or adds it.
    static void set(Node& node, const std::string& name, AttributeValue value);

    bool has_changed() const noexcept { return has_changed_; }
    /// The model with the nodes and constants of the editor, which is empty afterwards.
    Model apply_to(Model model);

private:
    std::set<std::string> names_;
    std::size_t made_names_ = 0;  // it only grows, so that names of an enemy's file cost no more than they are
    std::vector<Node> nodes_;
    std::vector<FileTensor> constants_;
    bool has_changed_ = false;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <span>

#    include "intq/core/dtype.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE GraphEditor::GraphEditor(const Graph& graph) {
    for (const FileTensor& tensor : graph.initializers) names_.insert(tensor.name);
    for (const ValueInfo& input : graph.inputs) names_.insert(input.name);
    for (const Node& node : graph.nodes) names_.insert(node.outputs.begin(), node.outputs.end());
}

INTQ_INLINE std::string GraphEditor::fresh(const std::string& like) {
    std::string result;
    do result = like + ".kept" + std::to_string(++made_names_);
    while (!names_.insert(result).second);
    return result;
}

INTQ_INLINE std::string GraphEditor::constant(FileTensor tensor, const Node& node) {
    tensor.name = fresh(node.outputs[0]);
    constants_.push_back(std::move(tensor));
    return constants_.back().name;
}

INTQ_INLINE std::string GraphEditor::constant(const std::vector<std::int64_t>& values, const Node& node) {
    const auto bytes = std::as_bytes(std::span<const std::int64_t>(values));
    return constant(FileTensor{.name = {},
                               .dtype = DType::int64,
                               .dims = {static_cast<index_t>(values.size())},
                               .data = {bytes.begin(), bytes.end()}},
                    node);
}

INTQ_INLINE std::string GraphEditor::constant(float value, const Node& node) {
    const auto bytes = std::as_bytes(std::span<const float>(&value, 1));
    return constant(FileTensor{.name = {}, .dtype = DType::float32, .dims = {}, .data = {bytes.begin(), bytes.end()}},
                    node);
}

INTQ_INLINE std::string GraphEditor::add(const Node& node, const char* op_type, std::vector<std::string> inputs,
                                         std::vector<Attribute> attributes, const char* suffix) {
    Node made = in_place_of(node, op_type, std::move(inputs), std::move(attributes), suffix);
    made.outputs = {fresh(node.outputs[0])};
    push(made);
    return made.outputs[0];
}

INTQ_INLINE Node GraphEditor::in_place_of(const Node& node, const char* op_type, std::vector<std::string> inputs,
                                          std::vector<Attribute> attributes, const char* suffix) {
    return {.op_type = op_type,
            .name = node.name.empty() ? node.name : node.name + suffix,
            .domain = {},
            .inputs = std::move(inputs),
            .outputs = {},
            .attributes = std::move(attributes),
            .position = node.position};
}

INTQ_INLINE void GraphEditor::set(Node& node, const std::string& name, AttributeValue value) {
    for (Attribute& attribute : node.attributes)
        if (attribute.name == name) {
            attribute.value = std::move(value);
            return;
        }
    node.attributes.push_back({name, std::move(value)});
}

INTQ_INLINE Model GraphEditor::apply_to(Model model) {
    model.graph.nodes = std::move(nodes_);
    for (FileTensor& tensor : constants_) model.graph.initializers.push_back(std::move(tensor));
    return model;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_GRAPH_EDITOR_HPP
