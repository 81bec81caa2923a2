// SPDX-License-Identifier: MIT
//
// The results of the FX numeric suite, with the keys of PyTorch's, and their comparison. Layer: numeric_suite
// (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_RESULTS_HPP
#define INTQ_NUMERIC_SUITE_FX_RESULTS_HPP

#include <optional>
#include <string>
#include <vector>

#include "intq/numeric_suite/loggers/results.hpp"
#include "intq/numeric_suite/loggers/value_metrics.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

/// The kinds of results, as they are named in Results and by the loggers.
inline constexpr const char* results_weight = "weight";
inline constexpr const char* results_node_output = "node_output";
inline constexpr const char* results_node_input = "node_input";

/// The values that one logger kept, or one weight.
struct NSSingleResult {
    std::string type{};  // "weight", "node_output", "node_input"
    ValueList values{};  // one for each run; tuples for an LSTM. The weights of an LSTM are one list
    std::string prev_node_name{};
    std::string prev_node_target_type{};
    std::string ref_node_name{};
    std::string ref_node_target_type{};
    int index_within_arg = 0;
    int index_of_arg = 0;
    std::optional<std::string> fqn{};
    std::optional<std::string> qconfig_str{};  // not of a weight
    ValueList comparisons{};                   // for a comparing logger, one for each run
    std::string comparison_fn_name{};
    /// Results of extend_logger_results_with_comparison(), by the names of the comparisons.
    Ordered<ValueList> extended{};

    /// A comparison by its name. Throws the Error with the existing names.
    const ValueList& at(const std::string& comparison_name) const;
};

/// results[layer][kind][model]: layers in the order of the model whose names they have.
using NSResults = Ordered<Ordered<Ordered<std::vector<NSSingleResult>>>>;

std::string to_json(const std::vector<NSSingleResult>& results, TensorJson tensors = TensorJson::shape);
std::string to_json(const NSSingleResult& result, TensorJson tensors = TensorJson::shape);
std::string to_json(const NSResults& results, TensorJson tensors = TensorJson::shape);

/// Adds to each result of model_2 a list of comparison_fn(value of model_1, value of model_2), one for each run of
/// both, under a name.
///
///     extend_logger_results_with_comparison(results, "fp32", "int8", compute_sqnr, "sqnr");
///     results.at("conv1").at("node_output").at("int8")[0].at("sqnr")[0].number();
///
/// @throws Error for the name of a model that the results of a layer lack, with the existing names; where one of two
///         partners has more values, because the models were not run on the same data; where there are no values,
///         because no model was run; for exceptions of the comparison, naming the layer. Then no result has been
///         changed
///
/// Source   torch.ao.ns._numeric_suite_fx.extend_logger_results_with_comparison, which silently skips values without a
///          partner
void extend_logger_results_with_comparison(NSResults& results, const std::string& model_name_1,
                                           const std::string& model_name_2, const ComparisonFunction& comparison_fn,
                                           const std::string& comparison_name);

namespace detail {

/// Orders the results of each model by argument and position in it, and copies missing qualified names from the
/// partners in another model.
void complete_results(NSResults& results);

/// The same results under the names that the layers have in a model; a layer that the model lacks keeps its name.
NSResults named_by(const NSResults& results, const std::string& model_name);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include <algorithm>
#    include <cstddef>
#    include <tuple>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/io/json_text.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE const ValueList& NSSingleResult::at(const std::string& comparison_name) const {
    return extended.at(comparison_name);
}

INTQ_INLINE std::string to_json(const NSSingleResult& result, TensorJson tensors) {
    using numeric_suite::to_json;
    io::JsonObject object;
    object.add_text("type", result.type)
        .add("values", to_json(result.values, tensors))
        .add_text("prev_node_name", result.prev_node_name)
        .add_text("prev_node_target_type", result.prev_node_target_type)
        .add_text("ref_node_name", result.ref_node_name)
        .add_text("ref_node_target_type", result.ref_node_target_type)
        .add("index_within_arg", std::to_string(result.index_within_arg))
        .add("index_of_arg", std::to_string(result.index_of_arg))
        .add("fqn", result.fqn ? io::write_json_string(*result.fqn) : "null");
    if (result.qconfig_str)
        object.add_text("qconfig_str", *result.qconfig_str)
            .add("comparisons", to_json(result.comparisons, tensors))
            .add_text("comparison_fn_name", result.comparison_fn_name);
    for (const auto& [name, values] : result.extended) object.add(name, to_json(values, tensors));
    return object.str();
}

INTQ_INLINE std::string to_json(const std::vector<NSSingleResult>& results, TensorJson tensors) {
    return io::write_json_list(results, [&](const NSSingleResult& result) { return to_json(result, tensors); });
}

INTQ_INLINE std::string to_json(const NSResults& results, TensorJson tensors) {
    return numeric_suite::to_json(results, tensors);
}

namespace detail {

using ByModel = Ordered<std::vector<NSSingleResult>>;

INTQ_INLINE const std::vector<NSSingleResult>& results_of(const ByModel& models, const std::string& name,
                                                          const std::string& where) {
    if (const auto* found = models.find(name)) return *found;
    throw Error(where, "there are no results of a model \"" + name + "\"; the models are " +
                           nearest_names(name, models.keys()));
}

INTQ_INLINE ValueList compared(const NSSingleResult& one, const NSSingleResult& other,
                               const ComparisonFunction& comparison_fn, const std::string& where) {
    if (one.values.empty() && other.values.empty())
        throw Error(where, "nothing was logged; run both models on data first");
    if (one.values.size() != other.values.size())
        throw Error(where, "one model has " + std::to_string(one.values.size()) + " values, the other " +
                               std::to_string(other.values.size()) + "; run both on the same data");
    ValueList result;
    for (std::size_t i = 0; i < one.values.size(); ++i) {
        try {
            result.push_back(comparison_fn(one.values[i], other.values[i]));
        } catch (const Error& error) {
            throw Error(where, error.what());
        }
    }
    return result;
}

INTQ_INLINE void extend(ByModel& models, const std::string& model_name_1, const std::string& model_name_2,
                        const ComparisonFunction& comparison_fn, const std::string& comparison_name,
                        const std::string& where) {
    const std::vector<NSSingleResult> first = results_of(models, model_name_1, where);
    results_of(models, model_name_2, where);
    for (NSSingleResult& result : models.at(model_name_2))
        for (const NSSingleResult& partner : first)
            if (partner.index_of_arg == result.index_of_arg && partner.index_within_arg == result.index_within_arg)
                result.extended[comparison_name] = compared(partner, result, comparison_fn, where);
}

INTQ_INLINE void complete_results(NSResults& results) {
    for (auto& [layer, kinds] : results)
        for (auto& [kind, models] : kinds) {
            const std::vector<NSSingleResult>* known = nullptr;
            for (auto& [model, list] : models) {
                std::sort(list.begin(), list.end(), [](const NSSingleResult& a, const NSSingleResult& b) {
                    return std::tie(a.index_of_arg, a.index_within_arg) < std::tie(b.index_of_arg, b.index_within_arg);
                });
                if (known == nullptr && !list.empty() && list[0].fqn) known = &list;
            }
            for (auto& [model, list] : models)
                for (std::size_t i = 0; i < list.size(); ++i)
                    if (!list[i].fqn && known != nullptr) list[i].fqn = (*known)[(std::min)(i, known->size() - 1)].fqn;
        }
}

INTQ_INLINE std::string name_in(const Ordered<ByModel>& kinds, const std::string& model_name,
                                const std::string& otherwise) {
    for (const auto& [kind, models] : kinds)
        if (const auto* list = models.find(model_name); list != nullptr && !list->empty())
            return list->front().ref_node_name;
    return otherwise;
}

INTQ_INLINE NSResults named_by(const NSResults& results, const std::string& model_name) {
    NSResults renamed;
    for (const auto& [layer, kinds] : results) renamed[name_in(kinds, model_name, layer)] = kinds;
    return renamed;
}

}  // namespace detail

INTQ_INLINE void extend_logger_results_with_comparison(NSResults& results, const std::string& model_name_1,
                                                       const std::string& model_name_2,
                                                       const ComparisonFunction& comparison_fn,
                                                       const std::string& comparison_name) {
    if (!comparison_fn) throw Error("extend_logger_results_with_comparison: the comparison function is empty");
    if (results.empty())
        throw Error("extend_logger_results_with_comparison: the results are empty; nothing was logged");
    NSResults extended = results;
    for (auto& [layer, kinds] : extended)
        for (auto& [kind, models] : kinds)
            detail::extend(models, model_name_1, model_name_2, comparison_fn, comparison_name,
                           "extend_logger_results_with_comparison: " + layer + " (" + kind + ")");
    results = std::move(extended);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_RESULTS_HPP
