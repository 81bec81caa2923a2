// SPDX-License-Identifier: MIT
//
// n-shadows: each layer of a float model beside its quantized forms under several qconfigs, in one pass. Layer:
// numeric_suite (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_N_SHADOWS_HPP
#define INTQ_NUMERIC_SUITE_FX_N_SHADOWS_HPP

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/numeric_suite/fx/qconfig_multi_mapping.hpp"
#include "intq/numeric_suite/fx/results.hpp"
#include "intq/numeric_suite/fx/shadow_loggers.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

/// Arguments of a custom function, by name.
using CustomKwargs = std::map<std::string, nn::Value>;

/// Prepares a part of the model with a qconfig; the result observes when it runs.
using CustomPrepare = std::function<std::shared_ptr<graph::GraphModule>(
    graph::GraphModule& subgraph, const quantization::QConfig& qconfig, const std::vector<Tensor>& example_inputs,
    const CustomKwargs& kwargs)>;
/// Converts such a part.
using CustomConvert = std::function<nn::ModulePtr(const nn::ModulePtr& prepared, const CustomKwargs& kwargs)>;
/// Traces a model: PyTorch's custom_tracer.
using CustomTracer = std::function<std::shared_ptr<graph::GraphModule>(nn::Module& model)>;

struct PrepareNShadowsOptions {
    CustomPrepare custom_prepare_fn{};  // none: prepare_calibration_fx() in torch mode
    CustomKwargs custom_prepare_kwargs{};
    CustomTracer custom_tracer{};  // none: NSTracer
};

/// The model with copies of its layers beside it, prepared with the candidates' qconfigs.
///
/// A layer is a sequence that fuse knows (conv, bn, relu), or one operator that has an integer form. Layer m has a
/// logger shadow_<m>_0. Each candidate n with a qconfig for it adds the module shadow_wrapper_<m>_<n> on the layer's
/// own inputs, and a logger shadow_<m>_<n>, which compares both outputs. The model's output does not change.
///
/// The loggers are off. Run the result on data for calibration, call convert_n_shadows_model() and
/// loggers_set_enabled(), and run it again.
///
/// @param model           in evaluation
/// @param example_inputs  one value for each input, a tensor or a tuple; nothing is observed on them
/// @param backend_config  the target: which operators and types exist
/// @param skipped         optional: the layers and candidates without a shadow, and why
/// @throws Error for a model in training; for a key of the mapping that nothing in the model matches, with the nearest
///         keys; for a mapping without candidates; where no layer gets a shadow
///
/// Source   torch.ao.ns._numeric_suite_fx.prepare_n_shadows_model
std::shared_ptr<graph::GraphModule> prepare_n_shadows_model(nn::Module& model,
                                                            const std::vector<nn::Value>& example_inputs,
                                                            const QConfigMultiMapping& qconfig_multi_mapping,
                                                            const arith::PolicyRecord& backend_config,
                                                            const PrepareNShadowsOptions& options = {},
                                                            std::vector<SkippedShadow>* skipped = nullptr);

struct ConvertNShadowsOptions {
    CustomConvert custom_convert_fn{};  // none: convert_fx() and lower()
    CustomKwargs custom_convert_kwargs{};
};

/// Converts each prepared copy, in place: to a program, or step by step if it has operators in float.
///
/// @param kernels  of the target that it was prepared for
/// @return the same model
/// @throws Error for a model without such copies; for one that saw no data or is converted already, naming the copy
std::shared_ptr<graph::GraphModule> convert_n_shadows_model(const std::shared_ptr<graph::GraphModule>& model,
                                                            const kernels::KernelTable& kernels,
                                                            const ConvertNShadowsOptions& options = {});

/// The values that the loggers kept: results["model"]["node_output"]["subgraph_<m>_<n>"].
///
/// @throws Error where nothing was logged, because loggers are off or the model was not run
NSResults extract_results_n_shadows_model(graph::GraphModule& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include <algorithm>
#    include <optional>
#    include <utility>

#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/numeric_suite/fx/converted_model.hpp"
#    include "intq/numeric_suite/fx/extract_weights.hpp"
#    include "intq/numeric_suite/fx/internal/layer_models.hpp"
#    include "intq/numeric_suite/fx/ns_tracer.hpp"
#    include "intq/quantization/convert/convert_fx.hpp"
#    include "intq/quantization/convert/lower.hpp"
#    include "intq/quantization/fuse/fuse_fx.hpp"
#    include "intq/quantization/prepare/prepare_fx.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::shared_ptr<graph::GraphModule> prepared_layer(const LayerModel& layer,
                                                               const quantization::QConfig& qconfig,
                                                               const std::vector<Tensor>& inputs,
                                                               const arith::PolicyRecord& target) {
    quantization::PrepareOptions options;
    options.compatibility = quantization::Compatibility::torch;
    options.example_inputs = inputs;
    auto prepared = quantization::prepare_calibration_fx(
        *layer.model, quantization::QConfigMapping().set_global(qconfig), target, options);
    prepared->eval();
    quantization::set_fake_quantize(*prepared, quantization::FakeQuantState::calibration);
    return prepared;
}

/// Throws for a key that nothing in the model matches.
INTQ_INLINE void check_keys(const QConfigMultiMapping& mapping, graph::GraphModule& model) {
    if (mapping.qconfig_mappings_list().empty())
        throw Error("prepare_n_shadows_model: the mapping has no qconfigs; give it lists, as in set_global({a, b})");
    std::vector<std::string> names, types;
    for (const graph::Node* node : model.graph().nodes()) {
        types.push_back(graph::type_of(*node, model));
        std::string name = node->op() == graph::Op::call_module ? node->target() : node->scope().module;
        for (; !name.empty(); name.resize(name.rfind('.') == std::string::npos ? 0 : name.rfind('.')))
            names.push_back(name);
        names.push_back(node->name());
        types.push_back(node->scope().type);
    }
    using Style = QConfigMultiMapping::Style;
    for (const QConfigMultiMapping::Key& key : mapping.keys()) {
        if (key.style != Style::object_type && key.style != Style::module_name) continue;
        const auto& known = key.style == Style::object_type ? types : names;
        if (std::find(known.begin(), known.end(), key.key) == known.end())
            throw Error("prepare_n_shadows_model: nothing in the model matches the key \"" + key.key +
                        "\" of the mapping; the nearest are " + nearest_names(key.key, known));
    }
}

/// Adds the shadows of layer after layer to a traced model.
class NShadowsBuilder {
public:
    NShadowsBuilder(graph::GraphModule& model, const QConfigMultiMapping& mapping, const arith::PolicyRecord& target,
                    const PrepareNShadowsOptions& options, std::vector<SkippedShadow>* skipped)
        : model_(model), mapping_(mapping), target_(target), options_(options), skipped_(skipped) {}

    void run(const std::vector<nn::Value>& example_inputs) {
        record_values(example_inputs);
        for (const Chain& layer : layers_of(model_, target_)) add(layer);
        if (shadows_ == 0)
            throw Error(
                "prepare_n_shadows_model: no layer of the model gets a shadow; the reasons are in "
                "`skipped`" +
                (reasons_.empty() ? "" : ", such as " + reasons_.front()));
    }

private:
    void record_values(const std::vector<nn::Value>& example_inputs) {
        graph::ShapeRecord shapes;
        model_.run(example_inputs, [&](const graph::Node& node, const nn::Value& value) {
            shapes.add(node, value);
            values_[&node] = value;
        });
        shapes.write_to(model_.graph());
    }

    void skip(const graph::Node& node, const std::string& reason) {
        reasons_.push_back(node.name() + ": " + reason);
        if (skipped_ != nullptr) skipped_->push_back({node.name(), reason});
    }

    void add(const Chain& layer) {
        graph::Node& last = *layer.back();
        std::vector<std::optional<quantization::QConfig>> candidates;
        for (const quantization::QConfigMapping& mapping : mapping_.qconfig_mappings_list())
            candidates.push_back(mapping.find(quantization::member_of(*layer.front(), model_)).qconfig);
        if (std::none_of(candidates.begin(), candidates.end(), [](const auto& qconfig) { return bool(qconfig); }))
            return skip(*layer.front(), "no candidate has a qconfig for it");
        for (const graph::Node* node : layer)
            if (node->outputs().size() != 1) return skip(*layer.front(), "it returns several values");
        const LayerModel alone = model_of_layer(model_, layer);
        std::vector<Tensor> inputs;
        for (const graph::Argument& input : alone.inputs) {
            const graph::NodeRef& ref = *input.ref();
            nn::Value value = values_.at(ref.node);
            if (ref.node->outputs().size() > 1 && value.is_tuple())
                value = value.tuple().at(static_cast<std::size_t>(ref.output));
            if (!value.is_tensor()) return skip(*layer.front(), "it reads something else than tensors");
            inputs.push_back(value.tensor());
        }
        const std::string m = std::to_string(layers_++);
        graph::Node* place = &add_logger(layer, last, m, "0", "", {});
        for (std::size_t n = 0; n < candidates.size(); ++n)
            if (candidates[n])
                place = add_candidate(layer, alone, inputs, *candidates[n], m, std::to_string(n + 1), *place);
    }

    graph::Node* add_candidate(const Chain& layer, const LayerModel& alone, const std::vector<Tensor>& inputs,
                               const quantization::QConfig& qconfig, const std::string& m, const std::string& n,
                               graph::Node& place) {
        std::shared_ptr<graph::GraphModule> prepared;
        try {
            prepared = options_.custom_prepare_fn
                           ? options_.custom_prepare_fn(*alone.model, qconfig, inputs, options_.custom_prepare_kwargs)
                           : prepared_layer(alone, qconfig, inputs, target_);
        } catch (const Error& error) {
            skip(*layer.front(), "candidate " + n + ": " + error.what());
            return &place;
        }
        const std::string name = "shadow_wrapper_" + m + "_" + n;
        model_.add_child(name, prepared);
        ++shadows_;
        const auto at = model_.graph().after(place);
        graph::Node& wrapper = model_.graph().call_module(name, alone.inputs);
        return &add_logger(layer, wrapper, m, n, to_string(qconfig), graph::Argument(*layer.back()));
    }

    graph::Node& add_logger(const Chain& layer, graph::Node& value, const std::string& m, const std::string& n,
                            const std::string& qconfig, const std::optional<graph::Argument>& reference) {
        OutputLoggerFields fields;
        fields.ref_name = "model";
        fields.model_name = "subgraph_" + m + "_" + n;
        fields.ref_node_name = layer.front()->name();
        fields.ref_node_target_type = target_type_of(*layer.front(), model_);
        fields.prev_node_name = layer.back()->name();
        fields.prev_node_target_type = target_type_of(*layer.back(), model_);
        fields.results_type = results_node_output;
        fields.fqn = fqn_of(*layer.front(), model_);
        fields.qconfig_str = qconfig;
        std::shared_ptr<OutputLogger> logger =
            reference ? std::make_shared<OutputComparisonLogger>(fields) : std::make_shared<OutputLogger>(fields);
        logger->enabled = false;
        const std::string name = "shadow_" + m + "_" + n;
        model_.add_child(name, logger);
        graph::ArgumentList arguments{graph::Argument(value)};
        if (reference) arguments.push_back(*reference);
        const auto at = model_.graph().after(value);
        return model_.graph().call_module(name, std::move(arguments));
    }

    graph::GraphModule& model_;
    const QConfigMultiMapping& mapping_;
    const arith::PolicyRecord& target_;
    const PrepareNShadowsOptions& options_;
    std::vector<SkippedShadow>* skipped_;
    std::vector<std::string> reasons_;
    std::map<const graph::Node*, nn::Value> values_;
    int layers_ = 0, shadows_ = 0;
};

INTQ_INLINE nn::ModulePtr converted_layer(const std::string& name, const nn::ModulePtr& module,
                                          const kernels::KernelTable& kernels) {
    if (dynamic_cast<ConvertedModel*>(module.get()) != nullptr)
        throw Error("convert_n_shadows_model: " + name, "it is converted already");
    auto* prepared = dynamic_cast<quantization::PreparedModel*>(module.get());
    if (prepared == nullptr)
        throw Error("convert_n_shadows_model: " + name,
                    "it is no prepared model; what a custom_prepare_fn made needs a custom_convert_fn");
    try {
        const quantization::QuantizedGraph quantized = quantization::convert_fx(*prepared);
        const bool has_float = std::any_of(quantized.nodes.begin(), quantized.nodes.end(), [&](const auto& node) {
            return quantization::runs_on_host(quantized, node);
        });
        if (has_float) return std::make_shared<ConvertedModel>(quantized, kernels);
        const Shape& shape = quantized.tensor(quantized.inputs.at(0)).shape;
        const index_t samples = shape.rank == 0 ? 1 : std::max<index_t>(1, shape[0]);
        return std::make_shared<ConvertedModel>(quantized, quantization::lower(quantized, kernels, samples));
    } catch (const Error& error) {
        throw Error("convert_n_shadows_model: " + name, error.what());
    }
}

}  // namespace detail

INTQ_INLINE std::shared_ptr<graph::GraphModule> prepare_n_shadows_model(
    nn::Module& model, const std::vector<nn::Value>& example_inputs, const QConfigMultiMapping& qconfig_multi_mapping,
    const arith::PolicyRecord& backend_config, const PrepareNShadowsOptions& options,
    std::vector<SkippedShadow>* skipped) {
    if (model.training()) throw Error("prepare_n_shadows_model: the model is in training; call eval() on it first");
    std::shared_ptr<graph::GraphModule> traced;
    if (const auto* graph_module = dynamic_cast<const graph::GraphModule*>(&model))
        traced = detail::copy_for_loggers(*graph_module);
    else
        traced = options.custom_tracer ? options.custom_tracer(model) : NSTracer(model).trace();
    detail::check_keys(qconfig_multi_mapping, *traced);
    detail::NShadowsBuilder(*traced, qconfig_multi_mapping, backend_config, options, skipped).run(example_inputs);
    traced->graph().lint(traced.get());
    return traced;
}

INTQ_INLINE std::shared_ptr<graph::GraphModule> convert_n_shadows_model(
    const std::shared_ptr<graph::GraphModule>& model, const kernels::KernelTable& kernels,
    const ConvertNShadowsOptions& options) {
    if (model == nullptr) throw Error("convert_n_shadows_model: the model is null");
    std::vector<nn::Named<nn::ModulePtr>> converted;
    for (const auto& child : model->children()) {
        if (child.name.rfind("shadow_wrapper_", 0) != 0) continue;
        converted.push_back({child.name, options.custom_convert_fn
                                             ? options.custom_convert_fn(child.value, options.custom_convert_kwargs)
                                             : detail::converted_layer(child.name, child.value, kernels)});
    }
    if (converted.empty())
        throw Error("convert_n_shadows_model: the model has no shadows; make them with prepare_n_shadows_model()");
    for (auto& child : converted) model->replace_child(child.name, std::move(child.value));
    return model;
}

INTQ_INLINE NSResults extract_results_n_shadows_model(graph::GraphModule& model) {
    NSResults results;
    detail::collect_logger_info(model, results);
    detail::check_results(results, "extract_results_n_shadows_model");
    detail::complete_results(results);
    return results;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_N_SHADOWS_HPP
