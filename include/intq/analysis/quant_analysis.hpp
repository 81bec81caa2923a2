// SPDX-License-Identifier: MIT
//
// QuantAnalysis: finds the layer that lost the accuracy. Layer: analysis (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_QUANT_ANALYSIS_HPP
#define INTQ_ANALYSIS_QUANT_ANALYSIS_HPP

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "intq/analysis/causes/layer_advice.hpp"
#include "intq/analysis/compare/compare_layers.hpp"
#include "intq/analysis/compare/op_running_info.hpp"
#include "intq/analysis/compare/output_metric.hpp"
#include "intq/analysis/compare/sensitivity.hpp"
#include "intq/analysis/model_report.hpp"
#include "intq/analysis/models/analysed_model.hpp"
#include "intq/analysis/models/call_inputs.hpp"
#include "intq/io/progress.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

struct FindBadCaseOptions {
    std::size_t num_steps = SIZE_MAX;   // cases that are tried
    std::string metric = "L1";          // Cosine, MSE, L1, KL, SQNR, Atol, Rtol
    CustomMetric custom_metric_func{};  // in place of `metric`
    /// Of a custom metric: "descending" where its largest value is the worst, "ascending" where its least is.
    std::string custom_metric_order_seq = "descending";
    std::string output{};  // of a model with several: the one that is compared ("1.0"); else the worst of all
    io::ShowProgress show = io::ShowProgress::on_terminal;
};

/// The case that auto_find_bad_case() found.
struct BadCase {
    std::size_t index = 0;  // in the data
    double metric = 0.0;
    std::vector<double> metrics{};  // of all cases that were tried
};

struct RunOptions {
    /// Also writes every operator's values into `baseline_model/op_infos` and `analysis_model/op_infos`. Files of a
    /// former run are removed in any case.
    bool save_activations = false;
    io::ShowProgress show = io::ShowProgress::on_terminal;
};

/// Compares two models of one float model. The baseline is a float, calibrated or trained one; the other is a
/// calibrated, trained or converted one that is worse. Both may be mixtures of int8 and int16.
///
///     QuantAnalysis qa(float_net, calibrated, "fake_quant", "analysis");
///     qa.auto_find_bad_case(cases_of(batches));
///     qa.run();
///     qa.compare_per_layer();
///     qa.sensitivity();
///
/// The models are not changed, and run in evaluation with quantizers that round. Each file appears complete or not at
/// all, so an interrupted call leaves earlier files intact.
///
/// Memory   two forward passes and numbers of each layer; activations go to disk only on request
class QuantAnalysis {
public:
    /// @param analysis_model_type  "fake_quant": the analysed model was prepared, and the baseline is a float model or
    ///                             a prepared one; "quantized": it computes on codes
    /// @throws Error where the analysed model is not of this type, and where the models do not correspond
    QuantAnalysis(AnalysedModel baseline_model, AnalysedModel analysis_model,
                  std::string analysis_model_type = "fake_quant",
                  std::filesystem::path out_dir = "horizon_quant_analysis");

    /// Runs both models on each case, and takes the one whose outputs differ most.
    ///
    /// @throws Error if there is no case, and for an output that is NaN, naming case, output and model
    BadCase auto_find_bad_case(const CaseSource& data, const FindBadCaseOptions& options = {});
    void set_bad_case(CallInputs inputs);
    /// @param path  empty: `badcase.safetensors` of out_dir
    void load_bad_case(const std::filesystem::path& path = {});
    /// @throws Error if there is none
    void save_bad_case(const std::filesystem::path& path = {}) const;

    /// Lets compare_per_layer() read the files of two ModelProfilers with save_activations, in place of a run.
    ///
    /// @throws Error where a folder holds no complete run, the runs had different inputs, or the models do not
    ///         correspond
    void set_model_profiler_dir(const std::filesystem::path& baseline, const std::filesystem::path& analysis);

    /// Runs both models on the bad case, side by side, and writes `baseline_model/statistic.txt` and
    /// `analysis_model/statistic.txt`.
    ///
    /// @throws Error without a bad case
    void run(const RunOptions& options = {});

    /// Writes compare_per_layer_out and abnormal_layer_advisor, each as .txt and as .csv, and the report as
    /// profiler.html and profiler.json.
    ///
    /// @param prefixes  modules whose qualified names start with one of them; empty: all
    /// @param types     types of the baseline's or the analysed model's operators; empty: all
    /// @throws Error before run() on the present bad case, where a layer has different shapes in the two models, and
    /// for a prefix or type that no layer has, with the nearest
    const std::vector<LayerComparison>& compare_per_layer(const std::vector<std::string>& prefixes = {},
                                                          const std::vector<std::string>& types = {});

    /// Writes sensitive_ops as .txt, .csv and .json; see find_sensitive_operators(). Interrupted, the next call with
    /// the same models, case and metric goes on from its journal.
    ///
    /// @throws Error without a bad case
    std::vector<quantization::SensitiveOperator> sensitivity(SensitivityOptions options = {});

    /// Removes the files that run() and sensitivity() keep between calls: the folders of both models, and journals.
    /// Tables stay.
    void clean();

    /// The rows of the last compare_per_layer().
    const std::vector<LayerAdvice>& advice() const noexcept { return advice_; }
    /// The report of the last compare_per_layer(), to which other tools' findings can be added; write_report() writes
    /// it.
    ModelReport report() const { return make_report(layers_, analysed_operators_, advice_); }
    const CallInputs& bad_case() const;
    const std::filesystem::path& out_dir() const noexcept { return out_dir_; }

private:
    nn::Value baseline_output(const CallInputs& inputs) const;

    AnalysedModel baseline_, analysis_;
    std::filesystem::path out_dir_;
    std::optional<CallInputs> bad_case_;
    std::optional<std::pair<std::filesystem::path, std::filesystem::path>> profiler_dirs_;
    std::vector<LayerComparison> all_layers_, layers_;  // of the run, and those requested
    std::vector<AnalysedOperator> analysed_operators_;  // of the run
    std::vector<LayerAdvice> advice_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis)

#    include <algorithm>
#    include <exception>
#    include <system_error>

#    include "intq/analysis/internal/compare_tables.hpp"
#    include "intq/analysis/models/saved_activations.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"
#    include "intq/numeric_suite/loggers/layer_types.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE bool has_quantizers(const AnalysedModel& model) {
    const nn::ModulePtr module = model.module();
    if (module == nullptr) return false;
    const auto modules = module->named_modules();
    return std::any_of(modules.begin(), modules.end(), [](const auto& item) {
        return dynamic_cast<const quantization::Quantizer*>(item.value) != nullptr;
    });
}

INTQ_INLINE void check_type(const AnalysedModel& model, const std::string& type) {
    if (type != "fake_quant" && type != "quantized")
        throw Error("QuantAnalysis: analysis_model_type must be \"fake_quant\" or \"quantized\", given \"" + type +
                    "\"");
    if ((type == "fake_quant") == has_quantizers(model)) return;
    throw Error(type == "fake_quant"
                    ? "QuantAnalysis: analysis_model_type is \"fake_quant\", and the analysed model has no quantizers; "
                      "analyse what prepare made, or say \"quantized\""
                    : "QuantAnalysis: analysis_model_type is \"quantized\", and the analysed model has quantizers, so "
                      "it computes on real values; say \"fake_quant\"");
}

}  // namespace detail

INTQ_INLINE QuantAnalysis::QuantAnalysis(AnalysedModel baseline_model, AnalysedModel analysis_model,
                                         std::string analysis_model_type, std::filesystem::path out_dir)
    : baseline_(std::move(baseline_model)), analysis_(std::move(analysis_model)), out_dir_(std::move(out_dir)) {
    detail::check_type(analysis_, analysis_model_type);
    pair_layers(baseline_.operators(), analysis_.operators());
}

INTQ_INLINE const CallInputs& QuantAnalysis::bad_case() const {
    if (!bad_case_)
        throw Error(
            "QuantAnalysis: there is no bad case; call auto_find_bad_case(), set_bad_case() or "
            "load_bad_case() first");
    return *bad_case_;
}

INTQ_INLINE nn::Value QuantAnalysis::baseline_output(const CallInputs& inputs) const {
    return baseline_.run(inputs.in_order(baseline_.input_names()))->output();
}

INTQ_INLINE BadCase QuantAnalysis::auto_find_bad_case(const CaseSource& data, const FindBadCaseOptions& options) {
    OutputMetric metric{"custom metric", options.custom_metric_func, options.custom_metric_order_seq == "ascending"};
    if (options.custom_metric_order_seq != "ascending" && options.custom_metric_order_seq != "descending")
        throw Error("auto_find_bad_case: custom_metric_order_seq must be \"ascending\" or \"descending\", given \"" +
                    options.custom_metric_order_seq + "\"");
    if (!options.custom_metric_func) metric = output_metric(options.metric);
    const std::size_t count = (std::min)(data.count, options.num_steps);
    if (data.count == 0) throw Error("auto_find_bad_case: there is no data; give at least one case");
    if (!data.at) throw Error("auto_find_bad_case: the source of cases has no function `at`");
    if (count == 0) throw Error("auto_find_bad_case: num_steps is 0; try at least one case");
    io::Progress progress("bad case", static_cast<std::int64_t>(count), options.show);
    BadCase worst;
    std::optional<CallInputs> inputs_of_worst;
    for (std::size_t i = 0; i < count; ++i) {
        CallInputs inputs;
        try {
            inputs = data.at(i);
            inputs.require_samples();
            const nn::Value expected = baseline_output(inputs);
            const nn::Value given = analysis_.run(inputs.in_order(analysis_.input_names()))->output();
            worst.metrics.push_back(compare_outputs(expected, given, metric, options.output));
        } catch (const std::exception& error) {  // also of the caller's own functions
            throw Error("auto_find_bad_case: case " + std::to_string(i), error.what());
        }
        progress.update(static_cast<std::int64_t>(i + 1));
        if (inputs_of_worst && !metric.is_worse(worst.metrics.back(), worst.metric)) continue;
        worst.index = i;
        worst.metric = worst.metrics.back();
        inputs_of_worst = inputs;
    }
    set_bad_case(*std::move(inputs_of_worst));
    return worst;
}

INTQ_INLINE void QuantAnalysis::set_bad_case(CallInputs inputs) {
    try {
        inputs.require_samples();
    } catch (const Error& error) {
        throw Error("set_bad_case", error);
    }
    inputs.in_order(baseline_.input_names());
    bad_case_ = std::move(inputs);
    all_layers_.clear();  // they belong to another case
}

INTQ_INLINE void QuantAnalysis::load_bad_case(const std::filesystem::path& path) {
    set_bad_case(CallInputs::load(path.empty() ? out_dir_ / "badcase.safetensors" : path));
}

INTQ_INLINE void QuantAnalysis::save_bad_case(const std::filesystem::path& path) const {
    const CallInputs& inputs = bad_case();
    if (path.empty()) io::make_folder(out_dir_);
    inputs.save(path.empty() ? out_dir_ / "badcase.safetensors" : path);
}

INTQ_INLINE void QuantAnalysis::set_model_profiler_dir(const std::filesystem::path& baseline,
                                                       const std::filesystem::path& analysis) {
    const AnalysedModel x = saved_model(baseline), y = saved_model(analysis);
    check_same_case(baseline, analysis);
    pair_layers(x.operators(), y.operators());
    profiler_dirs_ = {baseline, analysis};
    all_layers_.clear();
}

INTQ_INLINE void QuantAnalysis::run(const RunOptions& options) {
    const CallInputs& inputs = bad_case();
    all_layers_.clear();
    const std::filesystem::path of_baseline = out_dir_ / "baseline_model", of_analysis = out_dir_ / "analysis_model";
    io::make_folder(of_baseline);
    io::make_folder(of_analysis);
    for (const auto& folder : {of_baseline, of_analysis}) remove_activations(folder);
    std::optional<ActivationWriter> x_values, y_values;
    SideBySideHooks hooks;
    hooks.show = options.show;
    if (options.save_activations) {
        const auto values = [&](const AnalysedModel& model) { return inputs.in_order(model.input_names()); };
        x_values.emplace(baseline_.operators(), of_baseline, values(baseline_));
        y_values.emplace(analysis_.operators(), of_analysis, values(analysis_));
        hooks.baseline = [&](const AnalysedCall& call) { x_values->add(call); };
        hooks.analysis = [&](const AnalysedCall& call) { y_values->add(call); };
    }
    detail::ComparisonOfModels comparison(baseline_, analysis_);
    comparison.run(inputs, hooks);
    comparison.of_baseline().table(of_baseline);
    comparison.of_analysis().table(of_analysis);
    profiler_dirs_.reset();
    all_layers_ = std::move(comparison.layers());
    analysed_operators_ = analysis_.operators();
}

INTQ_INLINE const std::vector<LayerComparison>& QuantAnalysis::compare_per_layer(
    const std::vector<std::string>& prefixes, const std::vector<std::string>& types) {
    if (all_layers_.empty() && profiler_dirs_) {
        const AnalysedModel x = saved_model(profiler_dirs_->first), y = saved_model(profiler_dirs_->second);
        detail::ComparisonOfModels comparison(x, y);
        comparison.run({}, {});
        all_layers_ = std::move(comparison.layers());
        analysed_operators_ = y.operators();
    }
    if (all_layers_.empty())
        throw Error(
            "compare_per_layer: the models were not run; call run(), or set_model_profiler_dir() with the "
            "folders of two profilers");
    std::vector<std::string> names, known_types;
    for (const LayerComparison& layer : all_layers_) {
        names.push_back(layer.mod_name);
        known_types.push_back(layer.base_op_type);
        known_types.push_back(layer.analy_op_type);
    }
    detail::check_filter("prefix", prefixes, names, true);
    detail::check_filter("type", types, known_types, false);
    layers_.clear();
    for (const LayerComparison& layer : all_layers_) {
        const bool is_of_type =
            types.empty() || std::any_of(types.begin(), types.end(), [&](const std::string& type) {
                return numeric_suite::type_word(type) == numeric_suite::type_word(layer.base_op_type) ||
                       numeric_suite::type_word(type) == numeric_suite::type_word(layer.analy_op_type);
            });
        if (is_of_type && detail::has_prefix(layer.mod_name, prefixes)) layers_.push_back(layer);
    }
    advice_ = advise_layers(layers_, analysed_operators_);
    io::make_folder(out_dir_);
    comparison_table(layers_).write(out_dir_, "compare_per_layer_out");
    advice_table(advice_).write(out_dir_, "abnormal_layer_advisor");
    write_report(out_dir_, report());
    return layers_;
}

INTQ_INLINE std::vector<quantization::SensitiveOperator> QuantAnalysis::sensitivity(SensitivityOptions options) {
    const CallInputs& inputs = bad_case();
    io::make_folder(out_dir_);
    if (options.journal.empty()) options.journal = out_dir_;
    auto list = find_sensitive_operators(analysis_, inputs, baseline_output(inputs), options);
    sensitivity_table(list, options.metric).write(out_dir_, "sensitive_ops");
    io::write_file(out_dir_ / "sensitive_ops.json", sensitivity_json(list, options.metric));
    return list;
}

INTQ_INLINE void QuantAnalysis::clean() {
    std::error_code error;
    std::filesystem::remove_all(out_dir_ / "baseline_model", error);
    std::filesystem::remove_all(out_dir_ / "analysis_model", error);
    std::vector<std::filesystem::path> journals;
    for (const auto& entry : std::filesystem::directory_iterator(out_dir_, error))
        if (entry.path().filename().string().rfind("sensitive_ops_", 0) == 0 && entry.path().extension() == ".journal")
            journals.push_back(entry.path());
    for (const std::filesystem::path& journal : journals) std::filesystem::remove(journal, error);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis)
#endif  // INTQ_ANALYSIS_QUANT_ANALYSIS_HPP
