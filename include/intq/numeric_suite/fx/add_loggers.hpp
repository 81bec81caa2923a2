// SPDX-License-Identifier: MIT
//
// add_loggers: loggers behind (and before) the same layers of two models. Layer: numeric_suite
// (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_ADD_LOGGERS_HPP
#define INTQ_NUMERIC_SUITE_FX_ADD_LOGGERS_HPP

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/numeric_suite/fx/converted_model.hpp"
#include "intq/numeric_suite/fx/node_types.hpp"
#include "intq/numeric_suite/fx/output_logger.hpp"
#include "intq/numeric_suite/fx/results.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

struct AddLoggersOptions {
    OutputLoggerFactory logger_cls = output_logger_factory();
    bool should_log_inputs = false;
    RelatedOps base_name_to_sets_of_related_ops = get_base_name_to_sets_of_related_ops();
    NodeTypeMap unmatchable_types_map = get_unmatchable_types_map();
};

/// Two models with loggers. They share modules and tensors with the original models, which stay as they are. Run each
/// one like any model: (*a)(x).
struct LoggedModels {
    std::shared_ptr<graph::GraphModule> a, b;
};

/// Puts a logger behind each layer that both models have (get_matching_subgraph_pairs()), and with should_log_inputs
/// before it: for its first argument, for both operands of add and mul, and for each item of a list.
///
/// A float or prepared model gets its loggers as nodes `<node>_ns_logger_<k>`. So does a converted model
/// (ConvertedModel, or the result of convert_fx() with kernels); its loggers record the values that its program's
/// instructions wrote.
///
/// @throws GraphMatchingException; Error for equal names of the models
///
/// Source   torch.ao.ns._numeric_suite_fx.add_loggers
LoggedModels add_loggers(const std::string& name_a, const ComparedModel& a, const std::string& name_b,
                         const ComparedModel& b, const AddLoggersOptions& options = {});

/// The values that the loggers of both models kept, by layer and kind; layers have the names of one of the models.
///
/// @param model_name_to_use_for_layer_names  one of the names that were passed to add_loggers()
/// @throws Error where nothing was logged: a model has no loggers, they are off, or it was not run; for a name that
///         neither model has
///
/// Source   torch.ao.ns._numeric_suite_fx.extract_logger_info
NSResults extract_logger_info(graph::GraphModule& model_a, graph::GraphModule& model_b,
                              const std::string& model_name_to_use_for_layer_names);

namespace detail {

/// A model to put loggers in: the same modules and tensors, and its own graph.
std::shared_ptr<graph::GraphModule> copy_for_loggers(const graph::GraphModule& model);

/// "`prefix`<k>" with the smallest k for which the model has no such slot.
std::string free_name(const nn::Module& model, const std::string& prefix);

/// Adds a logger of all outputs of a node, under a free name; its readers that `filter` accepts read the logger.
///
/// @param before  where the logger is called; null: right behind the node
graph::Node& insert_logger(graph::GraphModule& model, graph::Node& node, const std::string& prefix,
                           std::shared_ptr<OutputLogger> logger, const graph::Node* before,
                           const std::function<bool(const graph::Node& reader)>& filter);

/// All outputs of a node: itself, or the list of them.
graph::Argument all_outputs(graph::Node& node);

/// An argument whose value is logged: the node output that it is, and its place.
struct LoggedArgument {
    graph::NodeRef ref;
    int index_of_arg, index_within_arg;
};
/// The inputs of a layer that are logged.
std::vector<LoggedArgument> logged_arguments(const graph::Node& start, nn::Module& root);

/// Puts a logger before the start of a layer for each of its logged arguments.
///
/// @param suffix  of the loggers' names: "_ns_logger_"
void log_inputs(graph::GraphModule& model, graph::Node& start, OutputLoggerFields fields,
                const OutputLoggerFactory& logger_cls, const std::string& suffix);

/// The values kept by the enabled loggers of a model.
void collect_logger_info(nn::Module& model, NSResults& results);
/// Throws where there are no loggers, or nothing was logged.
void check_results(const NSResults& results, const char* function);
/// The results in their order, under the names of a model. Throws if there are none.
NSResults finished_results(NSResults results, const char* function, const std::string& model_name);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include <cstddef>
#    include <map>
#    include <set>

#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/numeric_suite/fx/extract_weights.hpp"
#    include "intq/numeric_suite/fx/match.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::shared_ptr<graph::GraphModule> copy_for_loggers(const graph::GraphModule& model) {
    if (dynamic_cast<const ConvertedModel*>(&model) != nullptr)
        return std::static_pointer_cast<graph::GraphModule>(model.copy());
    // A prepared model records and checks the shapes of its nodes; a logger must stay out of that.
    const nn::ModulePtr copy = model.copy();
    return std::make_shared<graph::GraphModule>(*copy, model.graph());
}

INTQ_INLINE std::string free_name(const nn::Module& model, const std::string& prefix) {
    for (int k = 0;; ++k)
        if (const std::string name = prefix + std::to_string(k); !model.has_child(name)) return name;
}

INTQ_INLINE graph::Argument all_outputs(graph::Node& node) {
    if (node.outputs().size() == 1) return node;
    graph::ArgumentList items;
    for (std::size_t i = 0; i < node.outputs().size(); ++i)
        items.emplace_back(graph::NodeRef{&node, static_cast<int>(i)});
    return items;
}

INTQ_INLINE graph::Node& insert_logger(graph::GraphModule& model, graph::Node& node, const std::string& prefix,
                                       std::shared_ptr<OutputLogger> logger, const graph::Node* before,
                                       const std::function<bool(const graph::Node& reader)>& filter) {
    const std::string name = free_name(model, prefix);
    model.add_child(name, logger);
    const auto place = before != nullptr ? model.graph().before(*before) : model.graph().after(node);
    graph::Node& made = model.graph().call_module(name, {all_outputs(node)});
    made.set_scope({name, logger->type_name()});
    made.outputs() = node.outputs();
    model.graph().replace_all_uses(node, made, filter);
    return made;
}

INTQ_INLINE std::vector<LoggedArgument> logged_arguments(const graph::Node& start, nn::Module& root) {
    static const std::set<std::string> with_two_operands{"add",
                                                         "sub",
                                                         "mul",
                                                         "FloatFunctional.add",
                                                         "FloatFunctional.add_relu",
                                                         "FloatFunctional.sub",
                                                         "FloatFunctional.mul",
                                                         "quantized.add",
                                                         "quantized.sub",
                                                         "quantized.mul"};
    const bool has_two = with_two_operands.count(target_type_of(start, root)) != 0;
    std::vector<LoggedArgument> result;
    const ConvertedStep* step = step_of(start, root);
    const bool is_list =
        step != nullptr && step->node().inputs.size() > 1 && !has_two && step->node().step->kind() == OpKind::cat;
    for (std::size_t i = 0; i < start.args().size(); ++i) {
        const graph::Argument& argument = start.args()[i];
        const int at = static_cast<int>(i);
        if (is_list) {  // a converted cat has its parts as arguments
            if (argument.ref() != nullptr) result.push_back({*argument.ref(), 0, at});
            continue;
        }
        if (i > (has_two ? 1u : 0u)) break;
        if (argument.ref() != nullptr) result.push_back({*argument.ref(), at, 0});
        if (argument.list() == nullptr) continue;
        for (std::size_t k = 0; k < argument.list()->size(); ++k)
            if (const auto* item = (*argument.list())[k].ref()) result.push_back({*item, at, static_cast<int>(k)});
    }
    return result;
}

INTQ_INLINE void log_inputs(graph::GraphModule& model, graph::Node& start, OutputLoggerFields fields,
                            const OutputLoggerFactory& logger_cls, const std::string& suffix) {
    const std::vector<LoggedArgument> arguments = logged_arguments(start, model);
    const bool is_list = arguments.size() > 1 && arguments[1].index_within_arg > 0;
    std::map<const graph::Node*, std::size_t> order;
    for (const graph::Node* node : model.graph().nodes()) order.emplace(node, order.size());
    const std::size_t first_reader = order.at(&start);
    for (LoggedArgument argument : arguments) {
        // The first logger of a value that is read twice comes in between.
        if (argument.index_within_arg == 0 && argument.index_of_arg < static_cast<int>(start.args().size()))
            if (const auto* now = start.args()[static_cast<std::size_t>(argument.index_of_arg)].ref(); !is_list && now)
                argument.ref = *now;
        graph::Node& node = *argument.ref.node;
        fields.results_type = results_node_input;
        fields.prev_node_name = node.name();
        fields.prev_node_target_type = target_type_of(node, model);
        fields.index_of_arg = argument.index_of_arg;
        fields.index_within_arg = argument.index_within_arg;
        // Loggers of a list are beside it, as in PyTorch; so are loggers of one output of several.
        const bool is_beside = is_list || node.outputs().size() > 1;
        graph::Node& made = insert_logger(
            model, node, node.name() + suffix, made_logger(logger_cls, fields), &start, [&](const graph::Node& reader) {
                const auto known = order.find(&reader);
                return !is_beside && known != order.end() && known->second >= first_reader;
            });
        if (node.outputs().size() > 1) {
            made.set_args({argument.ref});
            made.outputs() = {node.outputs()[static_cast<std::size_t>(argument.ref.output)]};
        }
    }
}

/// The loggers of one model.
INTQ_INLINE void add_loggers_to(graph::GraphModule& model, const std::string& model_name,
                                const std::vector<std::pair<std::string, NSSubgraph>>& subgraphs,
                                const AddLoggersOptions& options) {
    for (const auto& [ref_name, names] : subgraphs) {
        // The copy has nodes of the same names.
        graph::Node &start = *model.graph().find(names.start_node->name()),
                    &end = *model.graph().find(names.end_node->name());
        OutputLoggerFields fields;
        fields.model_name = model_name;
        fields.ref_name = ref_name;
        fields.ref_node_target_type = target_type_of(start, model);
        fields.fqn = fqn_of(start, model);
        fields.ref_node_name = start.name();
        if (options.should_log_inputs) log_inputs(model, start, fields, options.logger_cls, "_ns_logger_");
        fields.ref_node_name = fields.prev_node_name = end.name();
        fields.prev_node_target_type = target_type_of(end, model);
        fields.results_type = results_node_output;
        insert_logger(model, end, end.name() + "_ns_logger_", made_logger(options.logger_cls, fields), nullptr, {});
    }
}

INTQ_INLINE void collect_logger_info(nn::Module& model, NSResults& results) {
    for (const OutputLogger* logger : loggers_of(model)) {
        const OutputLoggerFields& fields = logger->fields();
        NSSingleResult result;
        result.type = fields.results_type;
        result.values = logger->stats_rnn().empty() ? logger->stats() : logger->stats_rnn();
        result.prev_node_name = fields.prev_node_name;
        result.prev_node_target_type = fields.prev_node_target_type;
        result.ref_node_name = fields.ref_node_name;
        result.ref_node_target_type = fields.ref_node_target_type;
        result.index_within_arg = fields.index_within_arg;
        result.index_of_arg = fields.index_of_arg;
        result.fqn = fields.fqn;
        result.qconfig_str = fields.qconfig_str;
        result.comparisons = logger->comparisons();
        result.comparison_fn_name = logger->comparison_fn_name();
        results[fields.ref_name][fields.results_type][fields.model_name].push_back(std::move(result));
    }
}

/// The names of the models in the results.
INTQ_INLINE std::set<std::string> models_in(const NSResults& results) {
    std::set<std::string> models;
    for (const auto& [layer, kinds] : results)
        for (const auto& [kind, by_model] : kinds)
            for (const auto& [model, list] : by_model) models.insert(model);
    return models;
}

INTQ_INLINE void check_results(const NSResults& results, const char* function) {
    if (results.empty()) throw Error(std::string(function) + ": there are no loggers in the model");
    for (const auto& [layer, kinds] : results)
        for (const auto& [kind, by_model] : kinds)
            for (const auto& [model, list] : by_model)
                for (const NSSingleResult& result : list)
                    if (!result.values.empty() || !result.comparisons.empty()) return;
    throw Error(std::string(function) +
                ": nothing was logged; run the models on data first, with their loggers enabled");
}

INTQ_INLINE NSResults finished_results(NSResults results, const char* function, const std::string& model_name) {
    check_results(results, function);
    const std::set<std::string> models = models_in(results);
    if (models.count(model_name) == 0)
        throw Error(std::string(function) + ": no logger is of a model \"" + model_name + "\"; the nearest are " +
                    nearest_names(model_name, {models.begin(), models.end()}));
    complete_results(results);
    return named_by(results, model_name);
}

}  // namespace detail

INTQ_INLINE LoggedModels add_loggers(const std::string& name_a, const ComparedModel& a, const std::string& name_b,
                                     const ComparedModel& b, const AddLoggersOptions& options) {
    graph::GraphModule &model_a = *a, &model_b = *b;
    detail::check_model_names("add_loggers", name_a, name_b);
    std::vector<std::pair<std::string, NSSubgraph>> of_a, of_b;
    for (const NSSubgraphPair& pair : get_matching_subgraph_pairs(
             model_a, model_b, options.base_name_to_sets_of_related_ops, options.unmatchable_types_map)) {
        of_a.emplace_back(pair.name, pair.a);
        of_b.emplace_back(pair.name, pair.b);
    }
    LoggedModels result{detail::copy_for_loggers(model_a), detail::copy_for_loggers(model_b)};
    detail::add_loggers_to(*result.a, name_a, of_a, options);
    detail::add_loggers_to(*result.b, name_b, of_b, options);
    return result;
}

INTQ_INLINE NSResults extract_logger_info(graph::GraphModule& model_a, graph::GraphModule& model_b,
                                          const std::string& model_name_to_use_for_layer_names) {
    NSResults results;
    detail::collect_logger_info(model_a, results);
    detail::collect_logger_info(model_b, results);
    return detail::finished_results(std::move(results), "extract_logger_info", model_name_to_use_for_layer_names);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_ADD_LOGGERS_HPP
