// SPDX-License-Identifier: MIT
//
// extract_weights: the weights of the same layers of two models. Layer: numeric_suite (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_EXTRACT_WEIGHTS_HPP
#define INTQ_NUMERIC_SUITE_FX_EXTRACT_WEIGHTS_HPP

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "intq/graph/graph_module.hpp"
#include "intq/numeric_suite/fx/converted_model.hpp"
#include "intq/numeric_suite/fx/node_types.hpp"
#include "intq/numeric_suite/fx/results.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

/// The weight of a node: a tensor, a list of tensors, or nothing.
using WeightExtraction = std::function<nn::Value(const graph::Node& node, graph::GraphModule& model)>;

/// Functions by the kind of a node ("call_module", "call_function") and the type of its operator.
using WeightExtractions = std::map<std::string, std::map<std::string, WeightExtraction>>;

struct ExtractWeightsOptions {
    RelatedOps base_name_to_sets_of_related_ops = get_base_name_to_sets_of_related_ops();
    NodeTypeMap unmatchable_types_map = get_unmatchable_types_map();
    /// For your own types; these take precedence over the library's.
    WeightExtractions op_to_type_to_weight_extraction_fn{};
};

/// The weights of two models of one network, float, prepared or converted (ComparedModel).
///
///     results[layer]["weight"][model] = [one result with one value]
///
/// A layer is a pair of get_matching_subgraph_pairs() in which both have a weight; it is named as in model b.
/// Convolutions and linear layers have one tensor, codes where they are converted. An LSTM has one list: for each layer
/// the weights of its input and its state. The weight of a layer that keeps its batch norm is the stored one.
///
/// @throws GraphMatchingException; Error for equal names of the models
///
/// Source   torch.ao.ns._numeric_suite_fx.extract_weights
NSResults extract_weights(const std::string& model_name_a, const ComparedModel& of_a, const std::string& model_name_b,
                          const ComparedModel& of_b, const ExtractWeightsOptions& options = {});

namespace detail {

/// The qualified name of the module that a node calls, or whose forward calls its function; none if the graph does not
/// know it.
std::optional<std::string> fqn_of(const graph::Node& node, nn::Module& root);

void check_model_names(const char* function, const std::string& a, const std::string& b);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/lstm.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/numeric_suite/fx/match.hpp"
#    include "intq/quantization/dynamic/dynamic_modules.hpp"
#    include "intq/quantization/modules/weight_codes.hpp"
#    include "intq/quantization/operators/float_step.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::optional<std::string> fqn_of(const graph::Node& node, nn::Module& root) {
    if (const ConvertedStep* step = step_of(node, root))
        return step->node().module.empty() ? std::nullopt : std::optional(step->node().module);
    return node.op() == graph::Op::call_module ? node.target() : node.scope().module;
}

INTQ_INLINE void check_model_names(const char* function, const std::string& a, const std::string& b) {
    if (a == b)
        throw Error(std::string(function) + ": both models are named \"" + a +
                    "\"; give them two names, which their results will have");
}

INTQ_INLINE nn::Value weights_of_lstm(const nn::LSTM& lstm) {
    const bool has_codes = dynamic_cast<const quantization::DynamicLSTM*>(&lstm) != nullptr;
    nn::Value::Tuple weights;
    for (index_t layer = 0; layer < lstm.options().num_layers; ++layer)
        for (index_t direction = 0; direction < lstm.directions(); ++direction)
            for (const char* which : {"weight_ih", "weight_hh"}) {
                const std::string name = which + nn::LSTM::suffix_of(layer, direction);
                weights.emplace_back(has_codes ? quantization::codes_of(lstm, name) : lstm.tensor(name));
            }
    return weights;
}

INTQ_INLINE nn::Value weight_of_module(const nn::Module& module) {
    const std::string type = module.type_name();
    if (type.starts_with("weight_only.") || type.starts_with("dynamic.Linear"))
        return quantization::codes_of(module, "weight");
    if (const auto* layer = dynamic_cast<const nn::Weighted*>(&module)) return layer->weight();
    if (const auto* lstm = dynamic_cast<const nn::LSTM*>(&module)) return weights_of_lstm(*lstm);
    return {};
}

/// The parameter that a function reads as its weight, perhaps behind a quantizer.
INTQ_INLINE nn::Value weight_of_function(const graph::Node& node, graph::GraphModule& model) {
    const graph::Node* weight = node.args().size() > 1 ? node.args()[1].node() : nullptr;
    while (weight != nullptr && is_quantizer(*weight, model)) weight = weight->args()[0].node();
    if (weight == nullptr || weight->op() != graph::Op::get_attr) return {};
    return *model.find_tensor(weight->target());
}

INTQ_INLINE nn::Value weight_of_step(const graph::Node& node, const ConvertedStep& step, nn::Module& root) {
    if (const Tensor weight = step.weight(); weight.defined()) return weight;
    const auto* in_float = step.node().as<quantization::FloatStep>();
    if (in_float == nullptr) return {};
    if (in_float->call().module != nullptr) return weight_of_module(*in_float->call().module);
    const graph::Node* weight = node.args().size() > 1 ? node.args()[1].node() : nullptr;
    const ConvertedStep* constant = weight == nullptr ? nullptr : step_of(*weight, root);
    const auto* stored = constant == nullptr ? nullptr : constant->node().as<quantization::ConstantStep>();
    return step.type_name() == "linear" && stored != nullptr ? nn::Value(stored->value()) : nn::Value();
}

INTQ_INLINE nn::Value weight_of(const graph::Node& node, graph::GraphModule& model,
                                const WeightExtractions& extractions) {
    const std::string type = target_type_of(node, model);
    if (const auto kind = extractions.find(graph::name_of(node.op())); kind != extractions.end())
        for (const auto& [own, extraction] : kind->second)
            if (type_word(own) == type_word(type)) return extraction(node, model);
    if (const ConvertedStep* step = step_of(node, model)) return weight_of_step(node, *step, model);
    if (const nn::Module* module = graph::module_of(node, model)) return weight_of_module(*module);
    return node.op() == graph::Op::call_function && type == "linear" ? weight_of_function(node, model) : nn::Value();
}

INTQ_INLINE NSSingleResult weight_result(const graph::Node& node, graph::GraphModule& model, nn::Value weight) {
    const std::string type = target_type_of(node, model);
    NSSingleResult result;
    result.type = results_weight;
    result.values = {std::move(weight)};
    result.prev_node_name = result.ref_node_name = node.name();
    result.prev_node_target_type = result.ref_node_target_type = type;
    result.fqn = fqn_of(node, model);
    return result;
}

}  // namespace detail

INTQ_INLINE NSResults extract_weights(const std::string& model_name_a, const ComparedModel& of_a,
                                      const std::string& model_name_b, const ComparedModel& of_b,
                                      const ExtractWeightsOptions& options) {
    graph::GraphModule &model_a = *of_a, &model_b = *of_b;
    detail::check_model_names("extract_weights", model_name_a, model_name_b);
    NSResults results;
    for (const NSSubgraphPair& pair : get_matching_subgraph_pairs(
             model_a, model_b, options.base_name_to_sets_of_related_ops, options.unmatchable_types_map)) {
        const graph::Node &a = *pair.a.base_op_node, &b = *pair.b.base_op_node;
        nn::Value weight_a = detail::weight_of(a, model_a, options.op_to_type_to_weight_extraction_fn);
        nn::Value weight_b = detail::weight_of(b, model_b, options.op_to_type_to_weight_extraction_fn);
        if (weight_a.is_none() || weight_b.is_none()) continue;
        auto& models = results[b.name()][results_weight];
        models[model_name_a].push_back(detail::weight_result(a, model_a, std::move(weight_a)));
        models[model_name_b].push_back(detail::weight_result(b, model_b, std::move(weight_b)));
    }
    detail::complete_results(results);
    return results;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_EXTRACT_WEIGHTS_HPP
