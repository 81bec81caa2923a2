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
/// Several threads may call one object where they may call its modules; only one at a time may rewrite it.
class GraphModule : public nn::Cloneable<GraphModule> {
public:
    /// Takes over root's children, parameters, buffers and mode; they are shared with root, not copied. Throws as
    /// Graph::lint() does.
    ///
    /// @param constants  buffers that the graph reads and root lacks
    GraphModule(nn::Module& root, Graph graph, std::vector<nn::Named<Tensor>> constants = {});

    std::string type_name() const override { return "GraphModule"; }
    INTQ_INLINE std::vector<std::string> input_names() const override;
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

    /// forward with a hook that sees every node's value, and one that may replace it. Every run of the graph goes
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
    /// Writes them into the nodes' outputs, once the run has ended.
    void write_to(Graph& graph) const;

private:
    std::vector<std::vector<OutputInfo>> outputs_;  // by node, in the order of the graph
};

/// Writes the shapes and dtypes that the values have on these inputs into the nodes' outputs; nothing is written on
/// failure. The float operators and layers of the library are not computed (Tensor::of_shape()). A module or function
/// that asks for elements is called with zeros.
///
/// @return the model's output, as shapes
///
/// Memory   none for the values, except where functions are called with zeros
nn::Value propagate_shapes(GraphModule& module, std::span<const nn::Value> inputs);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>
#    include <cstddef>
#    include <set>
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

namespace detail {

/// The value with `change` applied to each of its tensors.
template <class Change> nn::Value with_tensors(const nn::Value& value, const Change& change) {
    if (value.is_tensor()) {
        Tensor result = change(value.tensor());
        result.set_qparams(value.tensor().qparams());
        return result;
    }
    if (!value.is_tuple()) return value;
    nn::Value::Tuple items;
    for (const nn::Value& item : value.tuple()) items.push_back(with_tensors(item, change));
    return items;
}

INTQ_INLINE nn::Value shapes_of(const nn::Value& value) {
    return with_tensors(value, [](const Tensor& tensor) {
        return tensor.defined() ? Tensor::of_shape(tensor.shape(), tensor.dtype(), tensor.layout()) : tensor;
    });
}

INTQ_INLINE nn::Value zeros_of(const nn::Value& value) {
    return with_tensors(value, [](const Tensor& tensor) {
        return tensor.lacks_values() ? Tensor::zeros(tensor.shape(), tensor.dtype(), tensor.layout()) : tensor;
    });
}

/// The shapes of a node's value.
INTQ_INLINE nn::Value evaluate_shapes(const Node& node, nn::Module& root, const Interpreter::Values& values) {
    try {
        return shapes_of(Interpreter::evaluate(node, root, values));
    } catch (const ValuesNeeded&) {
        Interpreter::Values zeros;
        for (const Node* input : node.inputs())
            zeros[input] =
                input->op() == Op::get_attr ? Interpreter::evaluate(*input, root, {}) : zeros_of(values.at(input));
        return shapes_of(Interpreter::evaluate(node, root, zeros));
    }
}

}  // namespace detail

INTQ_INLINE nn::Value propagate_shapes(GraphModule& module, std::span<const nn::Value> inputs) {
    std::vector<nn::Value> shapes_in;
    for (const nn::Value& input : inputs) shapes_in.push_back(detail::shapes_of(input));
    ShapeRecord shapes;
    GraphRun run(module.graph(), module, shapes_in, &detail::evaluate_shapes);
    while (!run.is_done()) run.step({}, [&](const Node& node, const nn::Value& value) { shapes.add(node, value); });
    nn::Value result = run.finish();
    shapes.write_to(module.graph());
    return result;
}

namespace detail {

INTQ_INLINE void delete_unused_below(nn::Module& module, const std::string& path, const std::set<std::string>& used) {
    const auto is_below = [&](const std::string& name) {
        const auto first = used.lower_bound(name + ".");
        return first != used.end() && first->rfind(name + ".", 0) == 0;
    };
    module.keep_children([&](const std::string& child) {
        const std::string name = nn::join_path(path, child);
        return used.count(name) != 0 || is_below(name);
    });
    for (const auto& child : module.children()) {
        const std::string name = nn::join_path(path, child.name);
        if (used.count(name) == 0) delete_unused_below(*child.value, name, used);
    }
}

}  // namespace detail

INTQ_INLINE void GraphModule::delete_unused_children() {
    std::set<std::string> used;
    for (const Node* node : graph_.nodes())
        if (node->op() == Op::call_module || node->op() == Op::get_attr) used.insert(node->target());
    detail::delete_unused_below(*this, "", used);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_GRAPH_MODULE_HPP
