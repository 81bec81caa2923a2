// SPDX-License-Identifier: MIT
//
// GraphModule: a model whose forward is a graph. Layer: graph (docs/design.md section 6).
#ifndef INTQ_GRAPH_GRAPH_MODULE_HPP
#define INTQ_GRAPH_GRAPH_MODULE_HPP

#include <span>
#include <string>
#include <vector>

#include "intq/graph/graph.hpp"
#include "intq/graph/interpreter.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// The slots of a root module, and a graph that calls them.
///
/// Every rewrite (fuse, prepare, convert) edits one: it replaces modules in slots and nodes in the graph.
///
/// Threads may call one object as they may its modules; one at a time rewrites it.
class GraphModule : public nn::Cloneable<GraphModule> {
public:
    /// Takes over root's children, parameters, buffers and mode; they are shared with root, not copied. Throws what
    /// Graph::lint() finds.
    ///
    /// @param constants  buffers that the graph reads and root does not have
    GraphModule(nn::Module& root, Graph graph, std::vector<nn::Named<Tensor>> constants = {});

    std::string type_name() const override { return "GraphModule"; }
    INTQ_INLINE std::vector<std::string> input_names() const override;
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

    /// forward with a hook that sees every node's value, and one that may replace it. Whoever runs the graph runs it
    /// through here.
    virtual INTQ_INLINE nn::Value run(std::span<const nn::Value> inputs, const NodeHook& hook,
                                      const ValueHook& value_of = {});

    Graph& graph() noexcept { return graph_; }
    const Graph& graph() const noexcept { return graph_; }

    /// Removes the slots below which no module is called and no tensor is read by the graph.
    void delete_unused_children();

private:
    Graph graph_;
};

/// The shapes and dtypes of the values of one run, from its hook.
class ShapeRecord {
public:
    void add(const Node& node, const nn::Value& value);
    /// Writes them into the nodes' outputs, once the run has come to its end.
    void write_to(Graph& graph) const;

private:
    std::vector<std::vector<OutputInfo>> outputs_;  // by node, in the order of the graph
};

/// Runs the graph and writes the shapes and dtypes of its values into the nodes' outputs; a run that fails writes none.
nn::Value propagate_shapes(GraphModule& module, std::span<const nn::Value> inputs);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>
#    include <cstddef>
#    include <utility>

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE GraphModule::GraphModule(nn::Module& root, Graph graph, std::vector<nn::Named<Tensor>> constants)
    : graph_(std::move(graph)) {
    set_children(root.children());
    parameters() = root.parameters();
    for (const auto& buffer : root.buffers()) add_buffer(buffer.name, buffer.value, root.is_persistent(buffer.name));
    for (auto& constant : constants) add_buffer(std::move(constant.name), std::move(constant.value));
    graph_.lint(this);
    if (!root.training()) eval();
}

INTQ_INLINE std::vector<std::string> GraphModule::input_names() const {
    std::vector<std::string> names;
    for (const Node* node : graph_.placeholders()) names.push_back(node->target());
    return names;
}

INTQ_INLINE nn::Value GraphModule::forward(nn::Arguments arguments) { return run(arguments.values(), {}); }

INTQ_INLINE nn::Value GraphModule::run(std::span<const nn::Value> inputs, const NodeHook& hook,
                                       const ValueHook& value_of) {
    const nn::FloatSumsOfModel sums(*this);
    Interpreter interpreter(graph_, *this);
    interpreter.set_hook(hook);
    interpreter.set_value_hook(value_of);
    return interpreter.run(inputs);
}

INTQ_INLINE void ShapeRecord::add(const Node& node, const nn::Value& value) {
    std::vector<OutputInfo> outputs(node.outputs().size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const nn::Value& item = outputs.size() > 1 && value.is_tuple() ? value.tuple().at(i) : value;
        if (item.is_tensor()) outputs[i] = {item.tensor().shape(), item.tensor().dtype()};
    }
    outputs_.push_back(std::move(outputs));
}

INTQ_INLINE void ShapeRecord::write_to(Graph& graph) const {
    const auto nodes = graph.nodes();
    for (std::size_t i = 0; i < outputs_.size(); ++i) nodes.at(i)->outputs() = outputs_[i];
}

INTQ_INLINE nn::Value propagate_shapes(GraphModule& module, std::span<const nn::Value> inputs) {
    ShapeRecord shapes;
    nn::Value result = module.run(inputs, [&](const Node& node, const nn::Value& value) { shapes.add(node, value); });
    shapes.write_to(module.graph());
    return result;
}

namespace detail {

INTQ_INLINE void delete_unused_below(nn::Module& module, const std::string& path,
                                     const std::vector<std::string>& used) {
    const auto children = module.children();
    for (const auto& child : children) {
        const std::string name = nn::detail::join_path(path, child.name);
        const auto is_used = [&](const std::string& target) {
            return target == name || target.rfind(name + ".", 0) == 0;
        };
        const auto is_called = [&](const std::string& target) { return target == name; };
        if (std::none_of(used.begin(), used.end(), is_used)) {
            module.remove_child(child.name);
        } else if (std::none_of(used.begin(), used.end(), is_called)) {
            delete_unused_below(*child.value, name, used);
        }
    }
}

}  // namespace detail

INTQ_INLINE void GraphModule::delete_unused_children() {
    std::vector<std::string> used;
    for (const Node* node : graph_.nodes())
        if (node->op() == Op::call_module || node->op() == Op::get_attr) used.push_back(node->target());
    detail::delete_unused_below(*this, "", used);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_GRAPH_MODULE_HPP
