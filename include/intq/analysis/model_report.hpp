// SPDX-License-Identifier: MIT
//
// ModelReport: all findings on two models, layer by layer, as JSON and as a page for a browser. Layer: analysis
// (docs/debugging.md section 4).
#ifndef INTQ_ANALYSIS_MODEL_REPORT_HPP
#define INTQ_ANALYSIS_MODEL_REPORT_HPP

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "intq/analysis/advisor.hpp"
#include "intq/analysis/causes/error_split.hpp"
#include "intq/analysis/causes/layer_advice.hpp"
#include "intq/analysis/compare/compare_layers.hpp"
#include "intq/analysis/models/analysed_model.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// A row of compare_per_layer(), and the layer's place in the model.
struct ReportLayer {
    LayerComparison comparison;
    std::string step;                   // the call or the instruction, as text
    std::vector<std::size_t> inputs{};  // layers of the report that it reads, also through layers that are not in it
    std::optional<std::array<double, error_part_count>> shares{};  // of its error, in the order of ErrorPart
};

/// Something to change.
struct ReportAdvice {
    std::string layer;   // qualified name of the module
    std::string reason;  // what is unusual
    std::string change;  // what to do
};

/// Made by QuantAnalysis::report(); other tools' findings are added to it.
struct ModelReport {
    std::string title = "Model profiler";
    std::vector<ReportLayer> layers{};
    std::vector<ReportAdvice> advice{};

    /// Adds the parts of each layer's error, for the models of the report.
    void add(std::span<const OperatorErrorSplit> splits);
    /// Puts measured advice before advice that was only observed.
    void add(const AdvisorReport& found);
};

ModelReport make_report(std::span<const LayerComparison> layers, const std::vector<AnalysedOperator>& operators,
                        std::span<const LayerAdvice> advice);

/// {"title": ..., "summary": ..., "metrics": [names], "layers": [{"name", "type", "baseline_type", "shape", "dtype",
/// "scale", "step", "inputs", "metrics", "baseline": [min, max, mean, var], "analysis": [the same],
/// "histogram": [lowest, highest, counts of the baseline, counts of the analysed model],
/// "channels": [[first, count, baseline min, max, analysed min, max]], "worst_channels": [[channel, error, histogram]],
/// "shares", "not_finite"}], "advice": [{"layer", "reason", "change"}]}
///
/// Unknown fields of a layer are left out. Numbers that JSON cannot hold are "inf", "-inf" and "nan".
std::string to_json(const ModelReport& report);

/// Writes `profiler.html`, a page that needs nothing else, and `profiler.json`. Each file appears complete or not at
/// all.
///
/// @throws Error as io::make_folder() and io::write_file()
void write_report(const std::filesystem::path& folder, const ModelReport& report);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis)

#    include <cmath>
#    include <cstdio>
#    include <map>
#    include <utility>

#    include "intq/analysis/compare/file_table.hpp"
#    include "intq/analysis/internal/report/profiler_page.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/file.hpp"
#    include "intq/io/json_text.hpp"
#    include "intq/quantization/check/check_qat_model.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The layers of a report that an operator reads, except itself.
class ReportInputs {
public:
    ReportInputs(const std::vector<AnalysedOperator>& operators, std::span<const LayerComparison> layers)
        : operators_(operators) {
        for (std::size_t i = 0; i < layers.size(); ++i) layer_of_[layers[i].pair.analysis] = i;
    }

    std::vector<std::size_t> of(std::size_t op) const {
        std::vector<std::size_t> found;
        std::vector<bool> seen(operators_.size(), false);
        std::vector<std::size_t> open = operators_.at(op).inputs;
        while (!open.empty()) {
            const std::size_t next = open.back();
            open.pop_back();
            if (next >= operators_.size() || seen[next]) continue;
            seen[next] = true;
            if (const auto layer = layer_of_.find(next); layer != layer_of_.end())
                found.push_back(layer->second);
            else
                open.insert(open.end(), operators_[next].inputs.begin(), operators_[next].inputs.end());
        }
        return found;
    }

private:
    const std::vector<AnalysedOperator>& operators_;
    std::map<std::size_t, std::size_t> layer_of_;
};

/// Six digits are more than a plot shows.
INTQ_INLINE std::string report_number(double value) {
    if (!std::isfinite(value)) return io::write_json_number(value);
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}

INTQ_INLINE std::string report_counts(const std::vector<std::int64_t>& counts) {
    return io::write_json_list(counts, [](std::int64_t count) { return std::to_string(count); });
}
INTQ_INLINE std::string report_histogram(const PairedHistogram& histogram) {
    return report_number(histogram.lowest) + "," + report_number(histogram.highest) + "," +
           report_counts(histogram.baseline) + "," + report_counts(histogram.analysis);
}
INTQ_INLINE std::string report_statistics(const TensorStatistics& statistics) {
    return io::write_json_list(std::array{(statistics.min)(), (statistics.max)(), statistics.mean(), statistics.var()},
                               report_number);
}

inline constexpr std::array report_metrics{"Cosine", "MSE", "L1", "KL", "SQNR", "Atol", "Rtol"};

INTQ_INLINE std::string report_values(const PairedValues& values) {
    return io::write_json_list(values.channels, [](const ChannelRanges& r) {
        return "[" + std::to_string(r.first) + "," + std::to_string(r.count) + "," +
               io::write_json_list(std::array{r.baseline_min, r.baseline_max, r.analysis_min, r.analysis_max},
                                   [](float value) { return report_number(static_cast<double>(value)); })
                   .substr(1);
    });
}

INTQ_INLINE std::string report_layer(const ReportLayer& layer) {
    const LayerComparison& row = layer.comparison;
    const PairedValues& values = row.values;
    io::JsonObject object(io::JsonStyle::spaced);
    object.add_text("name", row.mod_name);
    object.add_text("type", row.analy_op_type);
    object.add_text("baseline_type", row.base_op_type);
    object.add_text("shape", row.pair.is_inner ? "" : to_string(row.shape));
    object.add_text("dtype", quantization::quantized_name(row.qparams ? row.qparams->dtype : DType::float32));
    object.add_text("scale", row.qparams ? cell_of_scales(row.qparams->scales).text : "");
    object.add_text("step", layer.step);
    object.add("inputs", io::write_json_list(layer.inputs, [](std::size_t index) { return std::to_string(index); }));
    const auto& m = row.metrics;
    if (row.has_metrics())
        object.add("metrics",
                   io::write_json_list(std::array{m.cosine(), m.mse(), m.l1(), m.kl(), m.sqnr(), m.atol(), m.rtol()},
                                       report_number));
    object.add("baseline", report_statistics(row.base));
    object.add("analysis", report_statistics(row.analy));
    if (!values.empty()) object.add("histogram", "[" + report_histogram(values.all) + "]");
    if (!values.channels.empty()) object.add("channels", report_values(values));
    if (!values.worst_channels.empty())
        object.add("worst_channels", io::write_json_list(values.worst_channels, [](const WorstChannel& worst) {
                       return "[" + std::to_string(worst.channel) + "," + report_number(worst.error) + "," +
                              report_histogram(worst.histogram) + "]";
                   }));
    if (layer.shares) object.add("shares", io::write_json_list(*layer.shares, report_number));
    if (values.not_finite_baseline + values.not_finite_analysis > 0)
        object.add("not_finite", report_counts({values.not_finite_baseline, values.not_finite_analysis}));
    return object.str();
}

/// The layer with the lowest SQNR, in words.
INTQ_INLINE std::string report_summary(const ModelReport& report) {
    const ReportLayer* worst = nullptr;
    for (const ReportLayer& layer : report.layers)
        if (layer.comparison.has_metrics() &&
            (worst == nullptr || layer.comparison.metrics.sqnr() < worst->comparison.metrics.sqnr()))
            worst = &layer;
    std::string text = std::to_string(report.layers.size()) + " layers";
    if (worst == nullptr) return text;
    char number[32];
    std::snprintf(number, sizeof number, "%.2f", worst->comparison.metrics.sqnr());
    return text + "; the lowest SQNR is " + number + " dB, of " + worst->comparison.mod_name;
}

}  // namespace detail

INTQ_INLINE void ModelReport::add(std::span<const OperatorErrorSplit> splits) {
    for (ReportLayer& layer : layers)
        for (const OperatorErrorSplit& split : splits)
            if (split.pair.baseline == layer.comparison.pair.baseline &&
                split.pair.analysis == layer.comparison.pair.analysis && split.total > 0.0)
                layer.shares = split.shares;
}

INTQ_INLINE void ModelReport::add(const AdvisorReport& found) {
    std::vector<ReportAdvice> measured;
    for (const Advice& one : found.advice) {
        char gain[80];
        std::snprintf(gain, sizeof gain, ". Measured: the noise of the output falls by %.1f %%.", 100.0 * one.gain());
        measured.push_back({one.finding.mod_name,
                            std::string(name_of(one.finding.cause)) + ". " + one.finding.reason + gain,
                            one.repair.line});
    }
    advice.insert(advice.begin(), measured.begin(), measured.end());
}

INTQ_INLINE ModelReport make_report(std::span<const LayerComparison> layers,
                                    const std::vector<AnalysedOperator>& operators,
                                    std::span<const LayerAdvice> advice) {
    ModelReport report;
    const detail::ReportInputs inputs(operators, layers);
    for (const LayerComparison& layer : layers)
        report.layers.push_back(
            {layer, operators.at(layer.pair.analysis).call, inputs.of(layer.pair.analysis), std::nullopt});
    for (const LayerAdvice& row : advice) report.advice.push_back({row.mod_name, row.abnormal_info, row.advice});
    return report;
}

INTQ_INLINE std::string to_json(const ModelReport& report) {
    io::JsonObject object(io::JsonStyle::spaced);
    object.add_text("title", report.title);
    object.add_text("summary", detail::report_summary(report));
    object.add("metrics", io::write_json_list(detail::report_metrics,
                                              [](const char* name) { return io::write_json_string(name); }));
    object.add("layers", io::write_json_list(report.layers, [](const ReportLayer& layer) {
                   return "\n" + detail::report_layer(layer);
               }));
    object.add("advice", io::write_json_list(report.advice, [](const ReportAdvice& advice) {
                   io::JsonObject item(io::JsonStyle::spaced);
                   item.add_text("layer", advice.layer);
                   item.add_text("reason", advice.reason);
                   item.add_text("change", advice.change);
                   return "\n" + item.str();
               }));
    return object.str() + "\n";
}

INTQ_INLINE void write_report(const std::filesystem::path& folder, const ModelReport& report) {
    io::make_folder(folder);
    const std::string json = to_json(report);
    io::write_file(folder / "profiler.json", json);
    io::write_file(folder / "profiler.html", profiler_page(json));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis)
#endif  // INTQ_ANALYSIS_MODEL_REPORT_HPP
