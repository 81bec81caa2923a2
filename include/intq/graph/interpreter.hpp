// SPDX-License-Identifier: MIT
//
// Interpreter: runs a graph node by node, in float. Layer: graph (docs/design.md section 6).
#ifndef INTQ_GRAPH_INTERPRETER_HPP
#define INTQ_GRAPH_INTERPRETER_HPP

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "intq/graph/graph.hpp"
#include "intq/nn/model/value.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// Called after each node with its value; loggers and shape recording hang here.
using NodeHook = std::function<void(const Node& node, const nn::Value& value)>;

/// Asked after each node for a value to go on with in place of its own; none: its own.
using ValueHook = std::function<std::optional<nn::Value>(const Node& node, const nn::Value& value)>;

/// Runs float and prepared graphs. Integers are executed by a program, never here.
///
/// An Error from a node is thrown on with the node's name, position, target and inputs before it.
///
/// Threads need an interpreter each, which may share a graph.
class Interpreter {
public:
    /// Graph and root must outlive the interpreter.
    Interpreter(const Graph& graph, nn::Module& root) : graph_(graph), root_(root) {}

    void set_hook(NodeHook hook) { hook_ = std::move(hook); }
    /// The node hook sees the value that takes the place of a node's own.
    void set_value_hook(ValueHook hook) { value_hook_ = std::move(hook); }

    /// @param inputs  one for each placeholder in order; missing ones take their default
    ///
    /// Memory   a value is dropped after its last use
    nn::Value run(std::span<const nn::Value> inputs);

    using Values = std::map<const Node*, nn::Value>;
    /// The arguments of a node from the values of the nodes before it.
    static std::vector<nn::Value> resolve(const ArgumentList& arguments, const Values& values);

private:
    nn::Value evaluate(const Node& node, const Values& values);
    static nn::Value resolve(const Argument& argument, const Values& values);

    const Graph& graph_;
    nn::Module& root_;
    NodeHook hook_;
    ValueHook value_hook_;
};

/// "node 3 of 12, %relu = call_module[relu1] (%conv1)": how messages name a node.
std::string describe(const Node& node, const Graph& graph);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>
#    include <cstddef>
#    include <type_traits>
#    include <variant>

#    include "intq/io/error.hpp"
#    include "intq/nn/model/module.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string describe(const Node& node, const Graph& graph) {
    const auto all = graph.nodes();
    const auto position = std::find(all.begin(), all.end(), &node) - all.begin() + 1;
    std::string inputs;
    for (const Node* input : node.inputs()) inputs += (inputs.empty() ? "%" : ", %") + input->name();
    return "node " + std::to_string(position) + " of " + std::to_string(all.size()) + ", %" + node.name() + " = " +
           name_of(node.op()) + "[" + node.target() + (node.method() == "forward" ? "" : "." + node.method()) + "] (" +
           inputs + ")";
}

INTQ_INLINE nn::Value Interpreter::run(std::span<const nn::Value> inputs) {
    const auto placeholders = graph_.placeholders();
    if (inputs.size() > placeholders.size())
        throw Error("the graph has " + std::to_string(placeholders.size()) + " inputs, given " +
                    std::to_string(inputs.size()));
    const auto nodes = graph_.nodes();
    std::map<const Node*, const Node*> last_reader;
    for (const Node* node : nodes)
        for (const Node* input : node->inputs()) last_reader[input] = node;

    Values values;
    std::size_t next_input = 0;
    for (const Node* node : nodes) {
        try {
            if (node->op() != Op::placeholder) {
                values[node] = evaluate(*node, values);
            } else if (next_input < inputs.size()) {
                values[node] = inputs[next_input++];
            } else if (!node->args().empty()) {
                values[node] = resolve(node->args()[0], values);
            } else {
                throw Error("no value was given for the input \"" + node->target() + "\"");
            }
            if (value_hook_)
                if (auto other = value_hook_(*node, values[node])) values[node] = *std::move(other);
            if (hook_) hook_(*node, values[node]);
        } catch (const nn::TracingError&) {
            throw;
        } catch (const Error& error) {
            throw Error(describe(*node, graph_), error);
        }
        if (node->op() == Op::output) return values[node];
        for (const Node* input : node->inputs())
            if (last_reader[input] == node) values.erase(input);
    }
    throw Error("the graph has no output node");
}

INTQ_INLINE nn::Value Interpreter::evaluate(const Node& node, const Values& values) {
    if (node.op() == Op::get_attr) {
        const Tensor* tensor = root_.find_tensor(node.target());
        if (tensor == nullptr) throw Error("there is no parameter or buffer of this name");
        return *tensor;
    }
    const std::vector<nn::Value> arguments = resolve(node.args(), values);
    switch (node.op()) {
        case Op::call_module:
            return root_.find(node.target()).dispatch(node.method(), arguments, node.traced_hooks());
        case Op::call_function:
            if (nn::Recorder* recorder = nn::find_recorder(arguments))
                return recorder->record_function(*node.function(), arguments);
            return node.function()->evaluate(arguments);
        case Op::call_method:
            if (nn::Recorder* recorder = nn::find_recorder(arguments))
                return recorder->record_method(*node.function(), arguments);
            return node.function()->evaluate(arguments);
        default:
            return arguments[0];
    }
}

INTQ_INLINE nn::Value Interpreter::resolve(const Argument& argument, const Values& values) {
    return std::visit(
        [&](const auto& content) -> nn::Value {
            using T = std::decay_t<decltype(content)>;
            if constexpr (std::is_same_v<T, std::monostate>) {
                return {};
            } else if constexpr (std::is_same_v<T, NodeRef>) {
                const nn::Value& value = values.at(content.node);
                if (content.node->outputs().size() == 1) return value;
                return value.tuple().at(static_cast<std::size_t>(content.output));
            } else if constexpr (std::is_same_v<T, ArgumentList>) {
                return nn::Value(resolve(content, values));
            } else {
                return content;
            }
        },
        argument.content());
}

INTQ_INLINE std::vector<nn::Value> Interpreter::resolve(const ArgumentList& arguments, const Values& values) {
    std::vector<nn::Value> result;
    result.reserve(arguments.size());
    for (const Argument& argument : arguments) result.push_back(resolve(argument, values));
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_INTERPRETER_HPP
