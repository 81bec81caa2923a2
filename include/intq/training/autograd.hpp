// SPDX-License-Identifier: MIT
//
// Autograd: the forward pass of a graph, recorded for its backward pass, and the gradients. Layer: training.
#ifndef INTQ_TRAINING_AUTOGRAD_HPP
#define INTQ_TRAINING_AUTOGRAD_HPP

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/graph/interpreter.hpp"
#include "intq/graph/node.hpp"
#include "intq/io/error.hpp"
#include "intq/nn/model/tape.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/tensor/float_sums.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/gradients/context.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// Gradients of a scalar.
struct Gradients {
    std::map<std::string, Tensor> parameters;  // by qualified name; those that the scalar depends on
    std::vector<Tensor> inputs;                // one per input; undefined unless asked for
};

struct AutogradOptions {
    /// Rows for the caller's own operators; they win over the library's.
    std::vector<GradientRow> more_rows{};
    /// Gradients of the graph's inputs too.
    bool input_gradients = false;
    /// Whether a parameter, by its qualified name, is trained; empty: all are.
    std::function<bool(const std::string&)> trains{};
};

/// Runs a graph and finds the gradients of its parameters.
///
///     Autograd autograd(model);
///     const nn::Value y = autograd.forward(inputs);
///     const Gradients gradients = autograd.backward(loss.gradient);
///
/// The graph may be float, or prepared with quantizers on its edges and in its layers. The constructor throws an Error
/// that names the node if a parameter depends on an operator without a gradient.
///
/// Memory   the values of all nodes from forward to the next forward
/// Threads  one at a time: the values of the last forward are in the object
class Autograd {
public:
    /// The model must outlive this.
    explicit Autograd(graph::GraphModule& model, AutogradOptions options = {});

    const graph::GraphModule& model() const noexcept { return model_; }

    /// Replaces a node's value by another one of its shape, such as the result of integer kernels: later nodes compute
    /// on it, while the gradient passes as if nothing had been replaced (straight-through). None: the value stays.
    using ValueHook = graph::ValueHook;
    void set_value_of(ValueHook hook) { value_of_ = std::move(hook); }

    /// @param inputs  one for each placeholder
    /// @return the graph's output
    nn::Value forward(std::span<const nn::Value> inputs);
    nn::Value forward(const Tensor& input);

    /// Of the last forward pass.
    ///
    /// @param output_gradients  one for each tensor of the output
    Gradients backward(std::span<const Tensor> output_gradients);
    Gradients backward(const Tensor& output_gradient) { return backward(std::span(&output_gradient, 1)); }

    /// A node's value in the last forward pass, as later nodes saw it; null if there is none.
    const nn::Value* value_of(const graph::Node& node) const;

    /// The first node, in the order of the graph, whose value of the last forward pass holds NaN or infinity, as
    /// messages name it; empty if there is none.
    std::string first_non_finite() const;

private:
    struct TapedNode {
        const graph::Node* node;
        const GradientRow* row;  // null where no parameter depends on the node, and for placeholder and output
        std::span<const GradientRow> held{};  // rows for an object in the module: a weight quantizer
        nn::KeptValues kept{};
    };
    using NodeGradients = std::map<const graph::Node*, std::vector<Tensor>>;  // by tensor of the node's value

    bool is_needed(const graph::Node& node) const { return needed_.count(&node) != 0; }
    bool trains(const graph::Node& node) const;
    std::span<const GradientRow> held_rows(const graph::Node& node, const nn::Module* module) const;
    void add_to_node(NodeGradients& gradients, const graph::Argument& argument, std::size_t item,
                     const Tensor& gradient) const;
    void step_back(const TapedNode& step, NodeGradients& gradients, Gradients& result);
    void add_to_parameter(Gradients& result, const Tensor& parameter, const Tensor& gradient) const;
    Error error(const graph::Node& node, const std::string& sentence) const;

    graph::GraphModule& model_;
    AutogradOptions options_;
    std::vector<GradientRow> rows_;
    std::vector<TapedNode> steps_;
    std::set<const graph::Node*> needed_;  // nodes whose gradient is needed
    std::map<const graph::Node*, nn::Value> values_;
    std::map<const std::byte*, std::string> parameter_names_;  // by memory: a parameter in two slots counts once
    ValueHook value_of_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training)

#    include <algorithm>
#    include <cmath>
#    include <optional>

#    include "intq/graph/operators.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/training/gradients.hpp"
#    include "intq/training/gradients/internal/elementwise.hpp"
#    include "intq/training/gradients/internal/quantize.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The values of a tuple of tuples, one after the other; any other value by itself.
INTQ_INLINE void collect_values(const nn::Value& value, std::vector<const nn::Value*>& result) {
    if (!value.is_tuple()) return result.push_back(&value);
    for (const nn::Value& item : value.tuple()) collect_values(item, result);
}

}  // namespace detail

INTQ_INLINE Autograd::Autograd(graph::GraphModule& model, AutogradOptions options)
    : model_(model), options_(std::move(options)), rows_(all_gradient_rows(options_.more_rows)) {
    for (const graph::Node* node : model_.graph().nodes()) {
        const auto inputs = node->inputs();
        const bool after =
            std::any_of(inputs.begin(), inputs.end(), [&](const auto* input) { return is_needed(*input); });
        const bool is_input = node->op() == graph::Op::placeholder;
        if (after || (is_input && options_.input_gradients) || (!is_input && trains(*node))) needed_.insert(node);

        TapedNode step{node, nullptr};
        const bool computes = !is_input && node->op() != graph::Op::output && node->op() != graph::Op::get_attr;
        if (computes && is_needed(*node)) {
            const std::string op = graph::operator_of(*node, model_);
            const nn::Module* const module = graph::module_of(*node, model_);
            step.row = find_gradient(rows_, op, module);
            if (step.row == nullptr) throw error(*node, "there is no gradient of the operator " + op);
            step.held = held_rows(*node, module);
        }
        steps_.push_back(std::move(step));
    }
}

INTQ_INLINE std::span<const GradientRow> Autograd::held_rows(const graph::Node& node, const nn::Module* module) const {
    try {
        return detail::held_quantizer_row(rows_, module);
    } catch (const Error& failure) {
        throw error(node, failure.what());
    }
}

INTQ_INLINE bool Autograd::trains(const graph::Node& node) const {
    const auto is_trained = [&](const std::string& name) { return !options_.trains || options_.trains(name); };
    if (node.op() == graph::Op::get_attr) {
        for (const auto& parameter : model_.named_parameters())
            if (parameter.name == node.target()) return is_trained(parameter.name);
        return false;
    }
    nn::Module* module = graph::module_of(node, model_);
    if (module == nullptr) return false;
    for (const auto& part : module->named_modules(node.target()))
        for (const auto& parameter : part.value->parameters())
            if (is_trained(part.name + "." + parameter.name)) return true;
    return false;
}

INTQ_INLINE nn::Value Autograd::forward(std::span<const nn::Value> inputs) {
    values_.clear();
    std::size_t next = 0;
    nn::Tape tape;
    const auto keep = [&](const graph::Node& node, const nn::Value& value) {
        values_[&node] = value;
        TapedNode& step = steps_.at(next++);
        if (step.node != &node) throw Error("the graph was changed after its Autograd was made");
        const nn::Module* const module = step.row != nullptr ? graph::module_of(node, model_) : nullptr;
        step.kept = module != nullptr ? tape.take(*module) : nn::KeptValues();
        tape.clear();  // of the modules below it
    };
    // A replacement value is on the same grid.
    const auto replace = [&](const graph::Node& node, const nn::Value& value) -> std::optional<nn::Value> {
        const nn::TapeScope unrecorded(nullptr);  // the hook may call modules of the model
        auto other = value_of_(node, value);
        if (!other || !value.is_tensor()) return other;
        Tensor tensor = other->tensor();
        if (!(tensor.shape() == value.tensor().shape()))
            throw Error("the value that takes its place has shape " + to_string(tensor.shape()) + ", expected " +
                        to_string(value.tensor().shape()));
        if (!tensor.qparams()) tensor.set_qparams(value.tensor().qparams());
        return nn::Value(tensor);
    };
    const nn::TapeScope recording(&tape);
    const FloatSumsScope fast(FloatSums::fast);
    return model_.run(inputs, keep, value_of_ ? graph::ValueHook(replace) : graph::ValueHook());
}

INTQ_INLINE nn::Value Autograd::forward(const Tensor& input) {
    const nn::Value value(input);
    return forward(std::span(&value, 1));
}

INTQ_INLINE Gradients Autograd::backward(std::span<const Tensor> output_gradients) {
    if (values_.empty()) throw Error("Autograd: backward without a forward before");
    parameter_names_.clear();
    for (const auto& parameter : model_.named_parameters())
        if (parameter.value->defined()) parameter_names_.emplace(parameter.value->data(), parameter.name);

    Gradients result;
    result.inputs.resize(model_.graph().placeholders().size());
    NodeGradients gradients;
    for (std::size_t i = steps_.size(); i-- > 0;) {
        const TapedNode& step = steps_[i];
        if (step.node->op() == graph::Op::output) {
            const graph::Argument& output = step.node->args().at(0);
            const graph::ArgumentList items = output.list() != nullptr ? *output.list() : graph::ArgumentList{output};
            if (items.size() != output_gradients.size())
                throw Error("Autograd: the graph has " + std::to_string(items.size()) +
                            " outputs, given gradients of " + std::to_string(output_gradients.size()));
            for (std::size_t k = 0; k < items.size(); ++k) add_to_node(gradients, items[k], 0, output_gradients[k]);
        } else if (is_needed(*step.node) && gradients.count(step.node) != 0) {
            step_back(step, gradients, result);
            gradients.erase(step.node);
        }
    }
    return result;
}

INTQ_INLINE void Autograd::step_back(const TapedNode& step, NodeGradients& gradients, Gradients& result) {
    const graph::Node& node = *step.node;
    const std::vector<Tensor>& own = gradients.at(&node);
    if (node.op() == graph::Op::placeholder) {
        const auto placeholders = model_.graph().placeholders();
        const auto position = std::find(placeholders.begin(), placeholders.end(), &node) - placeholders.begin();
        result.inputs[static_cast<std::size_t>(position)] = own[0];
        return;
    }
    if (node.op() == graph::Op::get_attr) return add_to_parameter(result, values_.at(&node).tensor(), own[0]);

    const std::vector<nn::Value> inputs = graph::Interpreter::resolve(node.args(), values_);
    std::vector<bool> wanted;
    for (graph::Argument argument : node.args()) {
        bool any = false;
        argument.for_each_ref([&](const graph::NodeRef& ref) { any = any || is_needed(*ref.node); });
        wanted.push_back(any);
    }
    const FinishedCall call{graph::module_of(node, model_), nn::Arguments(inputs), &values_.at(&node), step.kept};
    GradientContext context(call, own, step.held, std::move(wanted));
    try {
        step.row->backward(context);
    } catch (const Error& failure) {
        throw error(node, std::string("in the backward pass: ") + failure.what());
    }
    for (std::size_t i = 0; i < context.input_gradients().size(); ++i) {
        const auto& items = context.input_gradients()[i];
        const graph::ArgumentList* list = node.args()[i].list();
        for (std::size_t k = 0; k < items.size(); ++k)
            if (list != nullptr)
                add_to_node(gradients, list->at(k), 0, items[k]);
            else
                add_to_node(gradients, node.args()[i], k, items[k]);
    }
    for (const auto& [parameter, gradient] : context.parameter_gradients())
        add_to_parameter(result, parameter, gradient);
}

INTQ_INLINE void Autograd::add_to_node(NodeGradients& gradients, const graph::Argument& argument, std::size_t item,
                                       const Tensor& gradient) const {
    const graph::NodeRef* ref = argument.ref();
    if (ref == nullptr || !gradient.defined() || !is_needed(*ref->node)) return;
    const nn::Value& value = values_.at(ref->node);
    std::vector<const nn::Value*> before, all;
    if (ref->node->outputs().size() > 1)
        for (int output = 0; output < ref->output; ++output)
            detail::collect_values(value.tuple().at(static_cast<std::size_t>(output)), before);
    detail::collect_values(value, all);
    const std::size_t at = before.size() + item;
    const Tensor& tensor = all.at(at)->tensor();
    if (!(tensor.shape() == gradient.shape()))
        throw error(*ref->node, "its gradient has shape " + to_string(gradient.shape()) + ", its value " +
                                    to_string(tensor.shape()));
    std::vector<Tensor>& own = gradients[ref->node];
    own.resize(all.size());
    own[at] = own[at].defined() ? sum_of<float>(own[at], gradient) : gradient;
}

INTQ_INLINE void Autograd::add_to_parameter(Gradients& result, const Tensor& parameter, const Tensor& gradient) const {
    const auto known = parameter_names_.find(parameter.data());
    if (known == parameter_names_.end() || (options_.trains && !options_.trains(known->second))) return;
    Tensor& sum = result.parameters[known->second];
    sum = sum.defined() ? sum_of<float>(sum, gradient) : gradient;
}

INTQ_INLINE Error Autograd::error(const graph::Node& node, const std::string& sentence) const {
    return Error(graph::describe(node, model_.graph()), sentence);
}

INTQ_INLINE const nn::Value* Autograd::value_of(const graph::Node& node) const {
    const auto found = values_.find(&node);
    return found == values_.end() ? nullptr : &found->second;
}

INTQ_INLINE std::string Autograd::first_non_finite() const {
    const auto is_finite = [](const nn::Value& value) {
        std::vector<const nn::Value*> all;
        detail::collect_values(value, all);
        return std::all_of(all.begin(), all.end(), [](const nn::Value* one) {
            if (!one->is_tensor() || one->tensor().dtype() != DType::float32) return true;
            const auto numbers = one->tensor().flat<float>();
            return std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
        });
    };
    for (const TapedNode& step : steps_) {
        const auto value = values_.find(step.node);
        if (value != values_.end() && !is_finite(value->second)) return graph::describe(*step.node, model_.graph());
    }
    return "";
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training)
#endif  // INTQ_TRAINING_AUTOGRAD_HPP
