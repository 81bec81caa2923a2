// SPDX-License-Identifier: MIT
//
// The layers of a graph, and each one as a separate model. Layer: numeric_suite (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_INTERNAL_LAYER_MODELS_HPP
#define INTQ_NUMERIC_SUITE_FX_INTERNAL_LAYER_MODELS_HPP

#include <memory>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/graph/graph_module.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Nodes in the order of the graph, each reading the one before it.
using Chain = std::vector<graph::Node*>;

/// The layers of a model, in the order of their last nodes: sequences that the table of fusions knows, longest first,
/// an add, sub or mul with its relu, and other operators that quantization knows. A sequence with an add counts where
/// the target adds in the accumulator.
std::vector<Chain> layers_of(graph::GraphModule& model, const arith::PolicyRecord& target);

/// A layer as a separate model, and the values of the whole model that it reads.
struct LayerModel {
    std::shared_ptr<graph::GraphModule> model;
    std::vector<graph::Argument> inputs;
};
/// The modules are clones, and the parameters are shared.
LayerModel model_of_layer(graph::GraphModule& model, const Chain& layer);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include <algorithm>
#    include <map>
#    include <set>
#    include <string>
#    include <utility>

#    include "intq/graph/operators.hpp"
#    include "intq/graph/pattern.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/container.hpp"
#    include "intq/quantization/fuse/fusion_table.hpp"
#    include "intq/quantization/operators/operator_table.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::vector<Chain> layers_of(graph::GraphModule& model, const arith::PolicyRecord& target) {
    graph::OperatorNames names(model);
    quantization::NodeOperators operators(model);
    std::set<const graph::Node*> taken;
    std::vector<Chain> layers;
    auto nodes = model.graph().nodes();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
        if (taken.count(*node) != 0) continue;
        const quantization::Role role = operators.of(**node).role;
        Chain layer;
        for (const quantization::FusionRow& row : quantization::fusion_table()) {
            const bool adds = std::find(row.operators.begin(), row.operators.end(), "add") != row.operators.end();
            if (adds && !target.fused_add) continue;
            auto found = graph::match_back(row.operators, **node, model.graph(), names);
            if (!found.match) continue;
            layer = found.match->nodes;
            break;
        }
        // An addition and its relu are one integer operator.
        for (const char* first : {"add", "sub", "mul"})
            if (layer.empty())
                if (auto found = graph::match_back({first, "relu"}, **node, model.graph(), names); found.match)
                    layer = found.match->nodes;
        using quantization::Role;
        const bool is_quantized =
            role == Role::weighted || role == Role::own_output || role == Role::cat || role == Role::shares_input;
        if (layer.empty() && is_quantized) layer = {*node};
        if (layer.empty()) continue;
        taken.insert(layer.begin(), layer.end());
        layers.push_back(layer);
    }
    std::reverse(layers.begin(), layers.end());
    return layers;
}

/// Copies a layer into its own graph.
class LayerCopy {
public:
    LayerCopy(graph::GraphModule& model, const Chain& layer) : model_(model), layer_(layer) {}

    LayerModel run() {
        for (const graph::Node* node : layer_)  // placeholders come first
            for (graph::Argument argument : node->args())
                argument.for_each_ref([&](const graph::NodeRef& ref) { declare(ref); });
        graph::Node* last = nullptr;
        for (const graph::Node* node : layer_) copies_[node] = last = &copy(*node);
        graph_.output(*last);
        root_.eval();
        result_.model = std::make_shared<graph::GraphModule>(root_, std::move(graph_), std::move(parameters_));
        return std::move(result_);
    }

private:
    void declare(const graph::NodeRef& ref) {
        const auto is_known = [&](const auto& known) { return known.first == ref; };
        if (std::find(layer_.begin(), layer_.end(), ref.node) != layer_.end() ||
            ref.node->op() == graph::Op::get_attr || std::any_of(placeholders_.begin(), placeholders_.end(), is_known))
            return;
        const std::string name = ref.node->name() + "_" + std::to_string(placeholders_.size());
        placeholders_.emplace_back(ref, &graph_.placeholder(name));
        result_.inputs.emplace_back(ref);
    }

    graph::Argument value_of(const graph::NodeRef& ref) {
        if (const auto copy = copies_.find(ref.node); copy != copies_.end())
            return graph::NodeRef{copy->second, ref.output};
        for (const auto& [known, placeholder] : placeholders_)
            if (known == ref) return *placeholder;
        const std::string name = "attr_" + std::to_string(parameters_.size());
        parameters_.push_back({name, *model_.find_tensor(ref.node->target())});
        return *(copies_[ref.node] = &graph_.get_attr(name));
    }

    graph::Argument copied(const graph::Argument& argument) {
        if (argument.ref() != nullptr) return value_of(*argument.ref());
        if (argument.list() == nullptr) return argument;
        graph::ArgumentList items;
        for (const graph::Argument& item : *argument.list()) items.push_back(copied(item));
        return items;
    }

    graph::Node& copy(const graph::Node& node) {
        graph::ArgumentList arguments;
        for (const graph::Argument& argument : node.args()) arguments.push_back(copied(argument));
        if (node.op() == graph::Op::call_method) return graph_.call_method(*node.function(), std::move(arguments));
        if (node.op() == graph::Op::call_function) return graph_.call_function(*node.function(), std::move(arguments));
        const std::string slot = "mod_" + std::to_string(root_.children().size());
        root_.add_child(slot, nn::clone(*graph::module_of(node, model_)));
        graph::Node& made = graph_.call_module(slot, std::move(arguments), node.method());
        made.set_traced_hooks(node.traced_hooks());
        return made;
    }

    graph::GraphModule& model_;
    const Chain& layer_;
    LayerModel result_;
    nn::ModuleDict root_;
    graph::Graph graph_;
    std::vector<nn::Named<Tensor>> parameters_;
    std::map<const graph::Node*, graph::Node*> copies_;
    std::vector<std::pair<graph::NodeRef, graph::Node*>> placeholders_;
};

INTQ_INLINE LayerModel model_of_layer(graph::GraphModule& model, const Chain& layer) {
    return LayerCopy(model, layer).run();
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_INTERNAL_LAYER_MODELS_HPP
