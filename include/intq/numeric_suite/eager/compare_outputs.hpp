// SPDX-License-Identifier: MIT
//
// compare_model_outputs: the outputs of the same modules in a float and a quantized model. Layer: numeric_suite
// (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_EAGER_COMPARE_OUTPUTS_HPP
#define INTQ_NUMERIC_SUITE_EAGER_COMPARE_OUTPUTS_HPP

#include <set>
#include <string>
#include <vector>

#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/numeric_suite/eager/logger.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

/// Names of types of modules, as in Module::type_name(), or as PyTorch spells quantized ones (type_word()).
using ModuleTypes = std::set<std::string>;

/// The types whose outputs are compared by default, PyTorch's list for the layers of this library: layers with weights,
/// fused ones, batch norms of 2 and 3 dimensions, layer norm, embeddings, LSTM, ReLU6, PReLU, LeakyReLU, ELU,
/// Hardswish, stubs, Dropout, Sequential and FloatFunctional, each in float, prepared, quantized and dynamic. ReLU,
/// pools, Flatten, Identity and other activations are not among them.
ModuleTypes get_default_compare_output_module_list();

struct CompareOutputsOptions {
    LoggerFactory logger_cls = logger_factory<OutputLogger>();
    ModuleTypes allow_list = get_default_compare_output_module_list();
};

/// Puts a logger behind the modules of both models whose types are on the list: leaves, and FloatFunctional always; a
/// fused module as a whole; never Dropout, and never a DeQuantStub. Both models are changed: start from clones.
///
/// @throws Error for a type of a custom list that neither model has, with the nearest types; for a model that has
///         loggers already
///
/// Source   torch.ao.ns._numeric_suite.prepare_model_outputs
void prepare_model_outputs(nn::Module& float_module, nn::Module& q_module, const CompareOutputsOptions& options = {});

/// The outputs of both models since prepare_model_outputs(), by the quantized one's names: lists "float" and
/// "quantized". A module without a partner in the float model is left out.
///
/// @throws Error where nothing was logged, because a model was not run; where a layer has different operators fused
///         into it in the two models; where a module was called more often in one model than in the other; where no
///         name has a partner; for loggers without a list "tensor_val"
LoggerDict get_matching_activations(nn::Module& float_module, nn::Module& q_module);

/// prepare_model_outputs(), a run of both models on the data, and get_matching_activations().
///
///     const auto outputs = compare_model_outputs(*float_model, *quantized, {images});
///     compute_error(outputs.at("conv1.stats").at("float")[0], outputs.at("conv1.stats").at("quantized")[0]);
///
/// @param data  the inputs of one run, in the order of the model's
LoggerDict compare_model_outputs(nn::Module& float_model, nn::Module& q_model, const std::vector<nn::Value>& data,
                                 const CompareOutputsOptions& options = {});

namespace detail {

/// The type of the float layer: "Conv2d" for "QuantizedConv2d", "qat.Conv2d", "dynamic.Linear".
std::string plain_type(const std::string& type);

/// Runs a model on its inputs.
nn::Value run_model(nn::Module& model, const std::vector<nn::Value>& data);

/// Throws where two modules in the same place compute different things, such as a convolution and one with a relu fused
/// into it: their outputs do not correspond.
void check_same_operator(const char* function, const std::string& name_in_float, const nn::Module& in_float,
                         const std::string& name, const nn::Module& quantized);

/// Throws for a model that was prepared for a comparison before.
void check_no_loggers(const char* function, nn::Module& model);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_eager)

#    include <algorithm>
#    include <iterator>
#    include <string_view>

#    include "intq/graph/operator_rows.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/numeric_suite/eager/compare_weights.hpp"
#    include "intq/numeric_suite/loggers/layer_types.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr std::string_view type_prefixes[] = {"Quantized", "quantized.", "qat.", "dynamic.", "weight_only."};

INTQ_INLINE std::string plain_type(const std::string& type) {
    for (const std::string_view prefix : type_prefixes)
        if (type.size() > prefix.size() && type.starts_with(prefix)) return type.substr(prefix.size());
    return type;
}

INTQ_INLINE nn::Value run_model(nn::Module& model, const std::vector<nn::Value>& data) {
    return model.dispatch("forward", data);
}

INTQ_INLINE bool is_logged(const nn::Module& module, const ModuleTypes& allowed) {
    const std::string type = module.type_name(), plain = plain_type(type);
    if (plain == "FloatFunctional") return true;
    if (plain == "Dropout" || plain == "DeQuantStub" || plain == "DeQuantize") return false;
    return (module.is_leaf() || module.children().empty()) && holds_type(allowed, type);
}

INTQ_INLINE void check_types(const ModuleTypes& allowed, nn::Module& float_module, nn::Module& q_module) {
    ModuleTypes known = get_default_compare_output_module_list();
    for (nn::Module* model : {&float_module, &q_module})
        for (const auto& module : model->named_modules()) known.insert(module.value->type_name());
    for (const std::string& type : allowed)
        if (!holds_type(known, type))
            throw Error("prepare_model_outputs: neither model has a module of the type \"" + type +
                        "\" of the list; the nearest are " + nearest_names(type, {known.begin(), known.end()}));
}

INTQ_INLINE void check_same_operator(const char* function, const std::string& name_in_float, const nn::Module& in_float,
                                     const std::string& name, const nn::Module& quantized) {
    const std::string a = computed_by(plain_type(in_float.type_name())),
                      b = computed_by(plain_type(quantized.type_name()));
    if (a.empty() || b.empty() || a == b) return;
    throw Error(function, "\"" + name_in_float + "\" of the float model is " + in_float.type_name() +
                              ", which computes " + a + ", and \"" + name + "\" of the quantized model is " +
                              quantized.type_name() + ", which computes " + b +
                              ": their outputs do not correspond; give the float model that was fused alike "
                              "(fuse_modules(), fuse_fx())");
}

INTQ_INLINE nn::Value log_output(nn::Module& module, const nn::ModuleCall&, const nn::Value& result) {
    Logger* logger = logger_in(module);
    if (logger == nullptr) return result;  // it was removed
    const nn::Value logged = (*logger)(result);
    return logged.is_none() ? result : logged;
}

INTQ_INLINE void check_no_loggers(const char* function, nn::Module& model) {
    for (const auto& module : model.named_modules())
        if (logger_in(*module.value) != nullptr)
            throw Error(function, "there is a logger in \"" + module.name +
                                      "\" already; start from clones of models without loggers");
}

INTQ_INLINE void attach_loggers(nn::Module& model, const CompareOutputsOptions& options) {
    for (const auto& module : model.named_modules()) {
        if (!is_logged(*module.value, options.allow_list)) continue;
        const bool is_taken = module.value->has_child("activation_post_process");
        module.value->add_child(is_taken ? "activation_post_process_logger" : "activation_post_process",
                                made_logger(options.logger_cls));
        module.value->add_forward_hook(&log_output);
    }
}

INTQ_INLINE const ValueList& activations_of(const std::string& key, const Logger::Stats& stats) {
    if (const ValueList* values = stats.find("tensor_val")) return *values;
    throw Error("get_matching_activations: " + key, "the logger has no list \"tensor_val\"; it has " +
                                                        nearest_names("tensor_val", stats.keys()) +
                                                        "; read a logger of your own by get_logger_dict()");
}

INTQ_INLINE LoggerDict with_data(const LoggerDict& loggers, const char* which) {
    LoggerDict result;
    for (const auto& [key, stats] : loggers)
        if (!stats.empty()) result[key] = stats;
    if (result.empty())
        throw Error(std::string("get_matching_activations: nothing was logged in the ") + which + " model; " +
                    (loggers.empty() ? "call prepare_model_outputs() on both models, then run them on data"
                                     : "run both models on data first"));
    return result;
}

}  // namespace detail

INTQ_INLINE ModuleTypes get_default_compare_output_module_list() {
    std::vector<std::string> types{"Quantize", "FloatFunctional", "PReLU", "Sequential"};
    for (const graph::OperatorRow& row : graph::operator_rows)
        if (row.is_compared_eager)
            graph::for_each_word(row.modules, [&](std::string_view word) { types.emplace_back(word); });
    const auto add = [&](const std::vector<std::string>& names) {
        types.insert(types.end(), names.begin(), names.end());
    };
    for (const detail::WeightedFamily& family : detail::weighted_families) add(detail::type_names(family));
    for (const int dimensions : {2, 3}) add(detail::batch_norm_names(dimensions));
    ModuleTypes result{"DeQuantize"};
    for (const std::string& type : types) {
        result.insert(type);
        for (const std::string_view prefix : detail::type_prefixes) result.insert(std::string(prefix) + type);
    }
    return result;
}

INTQ_INLINE void prepare_model_outputs(nn::Module& float_module, nn::Module& q_module,
                                       const CompareOutputsOptions& options) {
    if (&float_module == &q_module)
        throw Error("prepare_model_outputs: both models are one object; give the float model and the quantized one");
    detail::check_types(options.allow_list, float_module, q_module);
    for (nn::Module* model : {&float_module, &q_module}) detail::check_no_loggers("prepare_model_outputs", *model);
    detail::attach_loggers(float_module, options);
    detail::attach_loggers(q_module, options);
}

INTQ_INLINE LoggerDict get_matching_activations(nn::Module& float_module, nn::Module& q_module) {
    const LoggerDict of_float = detail::with_data(get_logger_dict(float_module), "float");
    const LoggerDict of_quantized = detail::with_data(get_logger_dict(q_module), "quantized");
    std::vector<std::string> names = of_float.keys();
    std::sort(names.rbegin(), names.rend());
    LoggerDict result;
    for (const auto& [key, stats] : of_quantized) {
        const auto name = find_match(names, key, "stats");
        if (!name) continue;
        const auto module_of = [](const std::string& logger) {
            return logger == "stats" ? std::string()
                                     : logger.substr(0, logger.size() - std::string_view(".stats").size());
        };
        const std::string in_float = module_of(*name), path = module_of(key);
        detail::check_same_operator("get_matching_activations", in_float, float_module.find(in_float), path,
                                    q_module.find(path));
        const ValueList& real = detail::activations_of(*name, of_float.at(*name));
        const ValueList& quantized = detail::activations_of(key, stats);
        if (real.size() != quantized.size())
            throw Error("get_matching_activations: " + key,
                        "the float model was called " + std::to_string(real.size()) + " times, the quantized one " +
                            std::to_string(quantized.size()) + "; run both on the same data");
        result[key]["float"] = real;
        result[key]["quantized"] = quantized;
    }
    if (result.empty())
        throw Error(
            "get_matching_activations: no module of the quantized model has a partner in the float model, so "
            "the models do not correspond. The float model has " +
            nearest_names(of_quantized.keys()[0], names) + ", the quantized model " +
            nearest_names(names[0], of_quantized.keys()));
    return result;
}

INTQ_INLINE LoggerDict compare_model_outputs(nn::Module& float_model, nn::Module& q_model,
                                             const std::vector<nn::Value>& data, const CompareOutputsOptions& options) {
    prepare_model_outputs(float_model, q_model, options);
    detail::run_model(float_model, data);
    detail::run_model(q_model, data);
    return get_matching_activations(float_model, q_model);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

#endif  // INTQ_DEFINES(numeric_suite_eager)
#endif  // INTQ_NUMERIC_SUITE_EAGER_COMPARE_OUTPUTS_HPP
