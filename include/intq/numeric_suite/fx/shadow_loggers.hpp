// SPDX-License-Identifier: MIT
//
// add_shadow_loggers: the layers of one model beside another's, on the other's inputs. Layer: numeric_suite
// (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_SHADOW_LOGGERS_HPP
#define INTQ_NUMERIC_SUITE_FX_SHADOW_LOGGERS_HPP

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "intq/arith/quantize.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/numeric_suite/fx/add_loggers.hpp"
#include "intq/numeric_suite/fx/converted_model.hpp"
#include "intq/numeric_suite/fx/node_types.hpp"
#include "intq/numeric_suite/fx/output_logger.hpp"
#include "intq/numeric_suite/fx/results.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

struct AddShadowLoggersOptions {
    OutputLoggerFactory logger_cls = output_logger_factory();
    bool should_log_inputs = false;
    RelatedOps base_name_to_sets_of_related_ops = get_base_name_to_sets_of_related_ops();
    NodeTypeMap node_type_to_io_type_map = get_node_type_to_io_type_map();
    NodeTypeMap unmatchable_types_map = get_unmatchable_types_map();
};

/// A layer without a shadow, and why.
struct SkippedShadow {
    std::string node;  // of model b
    std::string reason;
};

/// Model b with the layers of model a beside its own: each layer of a reads the input of b's layer, as real values or
/// codes, and both outputs are logged. So the results compare layers without the error of the layers before them.
///
/// A layer has no shadow where PyTorch makes none: add, mul, cat; layers whose inputs are not known to be real values
/// or codes, such as a pool behind an add; layers of a that read outputs of other layers besides their first input.
///
/// The result shares the modules and tensors of both models, which stay as they are.
///
/// @param skipped  optional: the layers without a shadow
/// @throws GraphMatchingException; Error for equal names of the models
///
/// Source   torch.ao.ns._numeric_suite_fx.add_shadow_loggers
std::shared_ptr<graph::GraphModule> add_shadow_loggers(const std::string& name_a, const ComparedModel& a,
                                                       const std::string& name_b, const ComparedModel& b,
                                                       const AddShadowLoggersOptions& options = {},
                                                       std::vector<SkippedShadow>* skipped = nullptr);

/// The values that the loggers of a shadowed model kept.
///
/// @throws as extract_logger_info()
///
/// Source   torch.ao.ns._numeric_suite_fx.extract_shadow_logger_info
NSResults extract_shadow_logger_info(graph::GraphModule& model_a_shadows_b,
                                     const std::string& model_name_to_use_for_layer_names);

/// The conversion between the input of a layer of b and its shadow: codes become real values, or real values codes.
class DtypeCast : public nn::Cloneable<DtypeCast> {
public:
    /// To real values.
    DtypeCast() = default;
    /// To codes on a grid.
    DtypeCast(OwnedQParams qparams, arith::QuantizeRule rule);
    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

private:
    std::optional<OwnedQParams> qparams_{};
    arith::QuantizeRule rule_{};
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include <algorithm>
#    include <map>
#    include <set>
#    include <utility>

#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/numeric_suite/fx/extract_weights.hpp"
#    include "intq/numeric_suite/fx/match.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE DtypeCast::DtypeCast(OwnedQParams qparams, arith::QuantizeRule rule)
    : qparams_(std::move(qparams)), rule_(rule) {}

INTQ_INLINE std::string DtypeCast::type_name() const { return qparams_ ? "quantize_per_tensor" : "dequantize"; }

INTQ_INLINE nn::Value DtypeCast::forward(nn::Arguments arguments) {
    if (!qparams_) return dequantized(arguments[0]);
    return quantize(dequantized(arguments[0]).tensor(), *qparams_, rule_);
}

namespace detail {

/// Adds the shadows of one model to another.
class ShadowBuilder {
public:
    ShadowBuilder(const std::string& name_a, graph::GraphModule& model_a, const std::string& name_b,
                  const graph::GraphModule& model_b, const AddShadowLoggersOptions& options)
        : name_a_(name_a), name_b_(name_b), a_(model_a), options_(options), result_(copy_for_loggers(model_b)) {}

    /// Adds the shadow of a pair, or returns the reason why there is none.
    std::string add(const NSSubgraphPair& pair) {
        graph::Node &start = *result_->graph().find(pair.b.start_node->name()),
                    &end = *result_->graph().find(pair.b.end_node->name());
        if (std::string reason = reason_against(pair, start); !reason.empty()) return reason;
        OutputLoggerFields fields;
        fields.ref_name = pair.name;
        fields.model_name = name_b_;
        fields.ref_node_target_type = target_type_of(start, *result_);
        fields.fqn = fqn_of(start, *result_);
        fields.ref_node_name = start.name();
        if (options_.should_log_inputs) log_inputs(*result_, start, fields, options_.logger_cls, "_ns_logger_b_inp_");
        graph::Node& place = next_of(end);  // all new nodes come before it
        add_shadow(pair, start, place);
        fields.ref_node_name = fields.prev_node_name = end.name();
        fields.prev_node_target_type = target_type_of(end, *result_);
        fields.results_type = results_node_output;
        const std::set<const graph::Node*> shadow = shadow_nodes_;
        insert_logger(*result_, end, end.name() + "_ns_logger_b_", made_logger(options_.logger_cls, fields), &place,
                      [&](const graph::Node& reader) { return shadow.count(&reader) == 0; });
        return "";
    }

    std::shared_ptr<graph::GraphModule> result() const { return result_; }

private:
    std::string reason_against(const NSSubgraphPair& pair, const graph::Node& start) const {
        static const std::set<std::string> unsupported{"add", "sub", "mul", "cat", "matmul"};
        const std::string type = target_type_of(*pair.a.start_node, a_);
        const auto& sets = options_.base_name_to_sets_of_related_ops;
        if (unsupported.count(get_base_name_for_op(sets, type).value_or(type)) != 0)
            return "no shadows are made of " + type;
        const auto of_a = input_type(*pair.a.start_node, a_), of_b = input_type(start, *result_);
        if (of_a == IOType::unknown || of_b == IOType::unknown)
            return "it is not known whether its input is real values or codes (node_type_to_io_type_map)";
        if (of_a == IOType::int8 && of_b == IOType::fp32 && step_of(*pair.a.start_node, a_) == nullptr)
            return "the scale of its input in model a is not known";
        return can_be_copied(pair.a) ? ""
                                     : "its layer in model a reads outputs of other layers besides its first input";
    }

    IOType input_type(const graph::Node& start, nn::Module& root) const {
        const NodeTypeMap& types = options_.node_type_to_io_type_map;
        const std::string type = target_type_of(start, root);
        if (has_type(types, "io_type_fp32", type)) return IOType::fp32;
        if (has_type(types, "io_type_int8", type)) return IOType::int8;
        if (!has_type(types, "io_type_fp32_or_int8", type) || start.operands().empty()) return IOType::unknown;
        return output_type_of(*start.operands()[0], root, types);
    }

    std::vector<graph::Node*> chain_of(const NSSubgraph& subgraph) const {
        std::vector<graph::Node*> chain{subgraph.end_node};
        while (chain.back() != subgraph.start_node) chain.push_back(chain.back()->args().at(0).node());
        std::reverse(chain.begin(), chain.end());
        return chain;
    }

    // Besides its first input a layer may read parameters, also behind quantizers, and inputs of the model, such as the
    // hidden state of an LSTM. Only its last node may have several outputs.
    bool can_be_copied(const NSSubgraph& subgraph) const {
        const std::vector<graph::Node*> chain = chain_of(subgraph);
        for (const graph::Node* node : chain) {
            if (node->outputs().size() != 1 && node != chain.back()) return false;
            for (std::size_t i = 0; i < node->args().size(); ++i) {
                if (i == 0 && node->args()[i].node() == nullptr) return false;
                graph::Argument argument = node->args()[i];
                bool can_be_read = true;
                argument.for_each_ref([&](const graph::NodeRef& ref) {
                    can_be_read = can_be_read && (i == 0 || parameter_of(*ref.node) != nullptr || input_of(*ref.node));
                });
                if (!can_be_read) return false;
            }
        }
        return true;
    }

    // The input of the result that corresponds to an input of a; null for other nodes.
    graph::Node* input_of(const graph::Node& node) const {
        if (node.op() != graph::Op::placeholder) return nullptr;
        const auto inputs = [](const graph::Graph& graph) {
            std::vector<graph::Node*> found;
            for (graph::Node* one : graph.nodes())
                if (one->op() == graph::Op::placeholder) found.push_back(one);
            return found;
        };
        const auto of_a = inputs(a_.graph()), of_b = inputs(result_->graph());
        const auto place = static_cast<std::size_t>(std::find(of_a.begin(), of_a.end(), &node) - of_a.begin());
        return place < of_b.size() ? of_b[place] : nullptr;
    }

    const graph::Node* parameter_of(const graph::Node& node) const {
        const graph::Node* at = &node;
        while (at != nullptr && is_quantizer(*at, a_)) at = at->args().at(0).node();
        return at != nullptr && at->op() == graph::Op::get_attr ? at : nullptr;
    }

    graph::Node& next_of(const graph::Node& node) const {
        const auto nodes = result_->graph().nodes();
        return **std::next(std::find(nodes.begin(), nodes.end(), &node));
    }

    void add_shadow(const NSSubgraphPair& pair, graph::Node& start, const graph::Node& place) {
        shadow_nodes_.clear();
        const auto at = result_->graph().before(place);
        graph::NodeRef value = add_cast(pair, start);
        OutputLoggerFields fields;
        fields.ref_name = pair.name;
        fields.model_name = name_a_;
        fields.ref_node_target_type = target_type_of(*pair.a.base_op_node, a_);
        fields.fqn = fqn_of(*pair.a.base_op_node, a_);
        // PyTorch's names: <node of b>_shadow_copy_<k>
        const std::string prefix = start.name() + "_shadow_copy_";
        if (options_.should_log_inputs) {
            fields.results_type = results_node_input;
            fields.ref_node_name = prefix + "0";
            value = {&add_logger(*value.node, value, fields, "_ns_logger_a_inp_"), 0};
        }
        int count = 0;
        for (const graph::Node* node : chain_of(pair.a)) value = {&add_copy(*node, value, prefix, count++), 0};
        fields.results_type = results_node_output;
        fields.ref_node_name = value.node->name();
        add_logger(*value.node, all_outputs(*value.node), fields, "_ns_logger_a_");
    }

    graph::NodeRef add_cast(const NSSubgraphPair& pair, graph::Node& start) {
        const auto of_a = input_type(*pair.a.start_node, a_), of_b = input_type(start, *result_);
        std::shared_ptr<DtypeCast> cast = std::make_shared<DtypeCast>();
        if (of_a == IOType::int8 && of_b == IOType::fp32) {
            const ConvertedStep& step = *step_of(*pair.a.start_node, a_);
            cast = std::make_shared<DtypeCast>(step.quantized().input(step.node(), 0).qparams,
                                               step.quantized().target.quantize);
        }
        const graph::NodeRef input = *start.args().at(0).ref();
        if (of_a == of_b) return input;
        const std::string name = free_name(*result_, start.name() + "_dtype_cast_");
        result_->add_child(name, cast);
        return {&added(result_->graph().call_module(name, {input})), 0};
    }

    graph::Node& add_logger(graph::Node& node, graph::Argument value, OutputLoggerFields fields,
                            const std::string& suffix) {
        fields.prev_node_name = node.name();
        fields.prev_node_target_type = target_type_of(node, *result_);
        const std::string name = free_name(*result_, node.name() + suffix);
        result_->add_child(name, made_logger(options_.logger_cls, fields));
        return added(result_->graph().call_module(name, {std::move(value)}));
    }

    graph::Node& add_copy(const graph::Node& node, const graph::NodeRef& input, const std::string& prefix, int count) {
        graph::ArgumentList arguments = node.args();
        arguments.at(0) = input;
        for (std::size_t i = 1; i < arguments.size(); ++i)
            arguments[i].for_each_ref([&](graph::NodeRef& ref) {
                graph::Node* const known = input_of(*ref.node);
                ref.node = known != nullptr ? known : &add_parameter(*ref.node);
            });
        const std::string name = prefix + std::to_string(count);
        graph::Graph& graph = result_->graph();
        if (node.op() == graph::Op::call_module) {
            const std::string slot = result_->has_child(name) ? free_name(*result_, prefix) : name;
            result_->add_child(slot, a_.find_child(node.target()));
            graph::Node& made = graph.call_module(slot, std::move(arguments), node.method());
            made.set_traced_hooks(node.traced_hooks());
            made.outputs() = node.outputs();
            return added(made);
        }
        graph::Node& made = node.op() == graph::Op::call_method
                                ? graph.call_method(*node.function(), std::move(arguments))
                                : graph.call_function(*node.function(), std::move(arguments));
        return added(made);
    }

    graph::Node& add_parameter(const graph::Node& node) {
        if (is_quantizer(node, a_)) {
            graph::Node& input = add_parameter(*node.args().at(0).node());
            const std::string slot = free_name(*result_, node.name() + "_shadow_copy_");
            result_->add_child(slot, a_.find_child(node.target()));
            return added(result_->graph().call_module(slot, {input}));
        }
        const std::string name = free_tensor(node.name() + "_shadow_copy_");
        result_->add_buffer(name, *a_.find_tensor(node.target()));
        return added(result_->graph().get_attr(name));
    }

    std::string free_tensor(const std::string& prefix) const {
        for (int k = 0;; ++k)
            if (const std::string name = prefix + std::to_string(k); result_->find_tensor(name) == nullptr) return name;
    }

    graph::Node& added(graph::Node& node) {
        shadow_nodes_.insert(&node);
        return node;
    }

    const std::string &name_a_, &name_b_;
    graph::GraphModule& a_;
    const AddShadowLoggersOptions& options_;
    std::shared_ptr<graph::GraphModule> result_;
    std::set<const graph::Node*> shadow_nodes_;
};

}  // namespace detail

INTQ_INLINE std::shared_ptr<graph::GraphModule> add_shadow_loggers(const std::string& name_a, const ComparedModel& a,
                                                                   const std::string& name_b, const ComparedModel& b,
                                                                   const AddShadowLoggersOptions& options,
                                                                   std::vector<SkippedShadow>* skipped) {
    graph::GraphModule &model_a = *a, &model_b = *b;
    detail::check_model_names("add_shadow_loggers", name_a, name_b);
    const auto pairs = get_matching_subgraph_pairs(model_a, model_b, options.base_name_to_sets_of_related_ops,
                                                   options.unmatchable_types_map);
    detail::ShadowBuilder builder(name_a, model_a, name_b, model_b, options);
    for (const NSSubgraphPair& pair : pairs) {
        const std::string reason = builder.add(pair);
        if (!reason.empty() && skipped != nullptr) skipped->push_back({pair.b.base_op_node->name(), reason});
    }
    builder.result()->graph().lint(builder.result().get());
    return builder.result();
}

INTQ_INLINE NSResults extract_shadow_logger_info(graph::GraphModule& model_a_shadows_b,
                                                 const std::string& model_name_to_use_for_layer_names) {
    NSResults results;
    detail::collect_logger_info(model_a_shadows_b, results);
    return detail::finished_results(std::move(results), "extract_shadow_logger_info",
                                    model_name_to_use_for_layer_names);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_SHADOW_LOGGERS_HPP
