// SPDX-License-Identifier: MIT
//
// Interpreter: runs a graph node by node, in float; GraphRun: such a run, one node at a time. Layer: graph
// (docs/design.md section 6).
#ifndef INTQ_GRAPH_INTERPRETER_HPP
#define INTQ_GRAPH_INTERPRETER_HPP

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "intq/graph/graph.hpp"
#include "intq/nn/model/value.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// Called after each node with its value; used by loggers and shape recording.
using NodeHook = std::function<void(const Node& node, const nn::Value& value)>;

/// Called after each node; may return a value that replaces the node's own; none: keep it.
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
    /// The node hook sees the value after any replacement.
    void set_value_hook(ValueHook hook) { value_hook_ = std::move(hook); }

    /// @param inputs  one for each placeholder in order; missing ones take their default
    ///
    /// Memory   a value is dropped after its last use
    nn::Value run(std::span<const nn::Value> inputs);

    using Values = std::map<const Node*, nn::Value>;
    /// The arguments of a node from the values of the nodes before it.
    static std::vector<nn::Value> resolve(const ArgumentList& arguments, const Values& values);
    /// The same for one of them; a constant needs no values.
    static nn::Value resolve(const Argument& argument, const Values& values);
    /// The value of a node other than a placeholder, from the values of the nodes that it reads.
    static nn::Value evaluate(const Node& node, nn::Module& root, const Values& values);

private:
    const Graph& graph_;
    nn::Module& root_;
    NodeHook hook_;
    ValueHook value_hook_;
};

/// A run that goes node by node, for looking at two runs side by side, or ending one run in several ways.
///
///     GraphRun run(graph, root, inputs);
///     while (!run.is_done()) look_at(run.next(), run.step());
///
/// A copy goes on from the same node and shares the tensors computed before it, so a common beginning of several runs
/// is computed once. A node is evaluated with the modules and weights that the root has at that moment.
///
/// Memory   a value is dropped after its last use
class GraphRun {
public:
    /// Graph and root must outlive the run and its copies; the graph must not be edited meanwhile.
    ///
    /// @param inputs    one for each placeholder in order; missing ones take their default
    /// @param evaluate  computes the value of a node other than a placeholder
    using Evaluate = nn::Value (*)(const Node& node, nn::Module& root, const Interpreter::Values& values);
    GraphRun(const Graph& graph, nn::Module& root, std::span<const nn::Value> inputs,
             Evaluate evaluate = &Interpreter::evaluate);

    bool is_done() const noexcept;
    /// The node that step() evaluates.
    const Node& next() const;
    /// The arguments of next(), as its module or function takes them.
    std::vector<nn::Value> arguments() const { return Interpreter::resolve(next().args(), values_); }
    /// Evaluates next() and returns its value, which stays until the next step.
    ///
    /// @param value_of  may replace the value
    /// @param hook      sees the value that goes on
    const nn::Value& step(const ValueHook& value_of = {}, const NodeHook& hook = {});
    /// Evaluates the remaining nodes, and returns the model's output.
    const nn::Value& finish();

private:
    struct Plan {
        const Graph* graph;
        nn::Module* root;
        std::vector<const Node*> nodes;                   // to the output
        std::vector<std::vector<const Node*>> last_uses;  // by node: values that nobody reads after it
        std::vector<nn::Value> inputs;
        Evaluate evaluate;
    };
    nn::Value input(const Node& node);

    std::shared_ptr<const Plan> plan_;
    std::size_t position_ = 0, next_input_ = 0;
    Interpreter::Values values_;
    nn::Value last_;
};

/// "node 3 of 12, %relu = call_module[relu1] (%conv1)": how messages name a node.
std::string describe(const Node& node, const Graph& graph);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>
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
    GraphRun run(graph_, root_, inputs);
    while (!run.is_done()) run.step(value_hook_, hook_);
    return run.finish();
}

INTQ_INLINE GraphRun::GraphRun(const Graph& graph, nn::Module& root, std::span<const nn::Value> inputs,
                               Evaluate evaluate) {
    const auto placeholders = graph.placeholders();
    if (inputs.size() > placeholders.size())
        throw Error("the graph has " + std::to_string(placeholders.size()) + " inputs, given " +
                    std::to_string(inputs.size()));
    auto plan = std::make_shared<Plan>(Plan{&graph, &root, {}, {}, {inputs.begin(), inputs.end()}, evaluate});
    std::map<const Node*, std::size_t> last_reader;
    for (const Node* node : graph.nodes()) {
        for (const Node* read : node->inputs()) last_reader[read] = plan->nodes.size();
        plan->nodes.push_back(node);
        if (node->op() == Op::output) break;
    }
    plan->last_uses.resize(plan->nodes.size());
    for (const auto& [read, reader] : last_reader) plan->last_uses[reader].push_back(read);
    plan_ = std::move(plan);
}

INTQ_INLINE bool GraphRun::is_done() const noexcept { return position_ == plan_->nodes.size(); }

INTQ_INLINE const Node& GraphRun::next() const { return *plan_->nodes.at(position_); }

INTQ_INLINE const nn::Value& GraphRun::finish() {
    while (!is_done()) step();
    if (plan_->nodes.empty() || plan_->nodes.back()->op() != Op::output) throw Error("the graph has no output node");
    return last_;
}

INTQ_INLINE const nn::Value& GraphRun::step(const ValueHook& value_of, const NodeHook& hook) {
    const Node& node = next();
    try {
        last_ = node.op() == Op::placeholder ? input(node) : plan_->evaluate(node, *plan_->root, values_);
        if (value_of)
            if (auto other = value_of(node, last_)) last_ = *std::move(other);
        if (hook) hook(node, last_);
    } catch (const nn::TracingError&) {
        throw;
    } catch (const ValuesNeeded&) {
        throw;
    } catch (const Error& error) {
        throw Error(describe(node, *plan_->graph), error);
    }
    for (const Node* read : plan_->last_uses[position_]) values_.erase(read);
    if (!node.users().empty()) values_[&node] = last_;
    ++position_;
    return last_;
}

INTQ_INLINE nn::Value GraphRun::input(const Node& node) {
    if (next_input_ < plan_->inputs.size()) return plan_->inputs[next_input_++];
    if (!node.args().empty()) return Interpreter::resolve(node.args(), values_)[0];
    throw Error("no value was given for the input \"" + node.target() + "\"");
}

INTQ_INLINE nn::Value Interpreter::evaluate(const Node& node, nn::Module& root, const Values& known) {
    if (node.op() == Op::get_attr) {
        const Tensor* tensor = root.find_tensor(node.target());
        if (tensor == nullptr) throw Error("there is no parameter or buffer of this name");
        return *tensor;
    }
    const std::vector<nn::Value> values = resolve(node.args(), known);
    switch (node.op()) {
        case Op::call_module:
            return root.find(node.target()).dispatch(node.method(), values, node.traced_hooks());
        case Op::call_function:
            if (nn::Recorder* recorder = nn::find_recorder(values))
                return recorder->record_function(*node.function(), values);
            return node.function()->evaluate(values);
        case Op::call_method:
            if (nn::Recorder* recorder = nn::find_recorder(values))
                return recorder->record_method(*node.function(), values);
            return node.function()->evaluate(values);
        default:
            return values[0];
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
