// SPDX-License-Identifier: MIT
//
// Which operators a model's output is sensitive to, when only they are quantized. Layer: analysis
// (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_COMPARE_SENSITIVITY_HPP
#define INTQ_ANALYSIS_COMPARE_SENSITIVITY_HPP

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "intq/analysis/models/analysed_model.hpp"
#include "intq/analysis/models/call_inputs.hpp"
#include "intq/io/progress.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

struct SensitivityOptions {
    std::string metric = "L1";  // Cosine, MSE, L1, KL, SQNR, Atol, Rtol
    bool reserve = false;       // the least sensitive operator first
    std::string output{};       // of a model with several: the one that is measured ("1.0"); else the worst of all
    /// A folder for the journal, from which an interrupted search goes on; empty: none.
    std::filesystem::path journal{};
    io::ShowProgress show = io::ShowProgress::on_terminal;
    /// Whether this process measures a row, by its number in the order of the model; empty: all. `join` fills in the
    /// metrics of the others. See distributed::find_sensitive_operators().
    std::function<bool(std::size_t row)> measures{};
    std::function<void(std::span<double> metrics)> join{};
};

/// The operators of a prepared model in the order of their sensitivity. All quantizers are off except one operator's:
/// its output's (activation), its weight's (weight), or both (both). The metric compares the model's output with the
/// baseline's.
///
/// The part before an operator is the same for all of its rows, and is computed once for the whole list: only the
/// operators from there on run again. Float sums are reproducible (FloatSums), so the metrics have the same bits as
/// with whole passes. quantization::set_sensitive_operators() and improve::layer_costs() take the list.
///
/// The journal is a file of `journal` whose name follows from the model, the case and the metric. It is removed when
/// the list is complete.
///
/// @param baseline_output  the baseline's output for these inputs
/// @throws Error for a model without quantizers, an unknown metric, and an output that is NaN
///
/// Memory   two forward passes
/// Cost     for n rows about n / 2 forward passes
std::vector<quantization::SensitiveOperator> find_sensitive_operators(const AnalysedModel& model,
                                                                      const CallInputs& inputs,
                                                                      const nn::Value& baseline_output,
                                                                      const SensitivityOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_compare)

#    include <algorithm>
#    include <cmath>
#    include <map>
#    include <memory>
#    include <optional>
#    include <utility>

#    include "intq/analysis/compare/output_metric.hpp"
#    include "intq/analysis/models/internal/graph_source.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/improve/measurement_journal.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/file.hpp"
#    include "intq/io/sort_stably.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// A row of the list: which quantizers are on, and the node from which on the model runs again.
struct SensitivityRow {
    quantization::SensitiveOperator op;
    std::vector<quantization::FakeQuantize*> quantizers;
    const graph::Node* first = nullptr;

    std::string name() const { return op.op_name + " (" + op.sensitive_type + ")"; }
};

/// The quantizers of one module, or of one function.
struct QuantizedOperatorParts {
    std::string type;
    std::vector<quantization::FakeQuantize*> outputs{};
    quantization::FakeQuantize* weight = nullptr;
};

class SensitivitySearch {
public:
    SensitivitySearch(const GraphSource& source, const CallInputs& inputs, const nn::Value& baseline,
                      const SensitivityOptions& options)
        : root_(*source.graph()),
          inputs_(inputs.in_order(source.input_names())),
          baseline_(baseline),
          options_(options),
          metric_(output_metric(options.metric)),
          state_(root_),
          sums_(FloatSums::reproducible) {
        list_rows(source);
        quantization::set_fake_quantize(root_, quantization::FakeQuantState::float_);
    }

    std::vector<quantization::SensitiveOperator> run() {
        open_journal();
        io::Progress progress("sensitivity", static_cast<std::int64_t>(rows_.size()), options_.show);
        const auto count = static_cast<std::int64_t>(rows_.size());
        std::int64_t done = 0;
        for (graph::GraphRun run(root_.graph(), root_, inputs_); !run.is_done(); run.step()) {
            for (std::size_t i = 0; i < rows_.size(); ++i) {
                if (rows_[i].first != &run.next()) continue;
                if (!options_.measures || options_.measures(i)) rows_[i].op.metric = measure(rows_[i], run);
                progress.update(++done);
            }
            if (done == count) break;
        }
        join();
        sort();
        std::vector<quantization::SensitiveOperator> list;
        for (const SensitivityRow& row : rows_) list.push_back(row.op);
        if (journal_) std::filesystem::remove(journal_path_);
        return list;
    }

private:
    void list_rows(const GraphSource& source) {
        std::vector<std::string> names;
        std::map<std::string, QuantizedOperatorParts> parts;
        for (const graph::Node* node : root_.graph().nodes()) {
            const auto index = source.operator_at(*node);
            if (!index) continue;
            const AnalysedOperator& op = source.operators()[*index];
            QuantizedOperatorParts& part = parts[op.mod_name];
            if (part.type.empty()) {
                names.push_back(op.mod_name);
                part.type = graph::type_of(*node, root_);
            }
            auto* own =
                const_cast<quantization::FakeQuantize*>(quantization::own_quantizer(quantizer_behind(*node, root_)));
            if (own != nullptr) part.outputs.push_back(own);
            if (const auto* layer = dynamic_cast<quantization::PreparedWeight*>(graph::module_of(*node, root_)))
                part.weight = &layer->weight_fake_quant();
        }
        for (const std::string& name : names) add_rows(name, parts.at(name));
        if (rows_.empty()) throw Error("sensitivity: the model has no quantizers; analyse what prepare made of it");
    }

    void add_rows(const std::string& name, const QuantizedOperatorParts& part) {
        const auto add = [&](const char* type, std::vector<quantization::FakeQuantize*> quantizers) {
            const graph::Node* const first = first_reader(quantizers);
            rows_.push_back({{name, type, part.type, 0.0}, std::move(quantizers), first});
        };
        if (!part.outputs.empty()) add("activation", part.outputs);
        if (part.weight == nullptr) return;
        add("weight", {part.weight});
        if (part.outputs.empty()) return;
        std::vector<quantization::FakeQuantize*> both = part.outputs;
        both.push_back(part.weight);
        add("both", std::move(both));
    }

    // The first node that calls one of them, or the layer of one; quantizers may be shared.
    const graph::Node* first_reader(const std::vector<quantization::FakeQuantize*>& quantizers) const {
        const auto is_one = [&](const nn::Module* module) {
            return std::any_of(quantizers.begin(), quantizers.end(),
                               [&](const auto* quantizer) { return quantizer == module; });
        };
        for (const graph::Node* node : root_.graph().nodes()) {
            nn::Module* const module = graph::module_of(*node, root_);
            const auto* layer = dynamic_cast<const quantization::PreparedWeight*>(module);
            if (is_one(module) || (layer != nullptr && is_one(&layer->weight_fake_quant()))) return node;
        }
        return nullptr;
    }

    double measure(const SensitivityRow& row, const graph::GraphRun& run) {
        if (journal_)
            if (const auto known = journal_->find(row.name(), DType::int8)) return known->loss;
        for (quantization::FakeQuantize* quantizer : row.quantizers) quantizer->enable_fake_quant(true);
        graph::GraphRun branch = run;
        const double metric = compare_outputs(baseline_, branch.finish(), metric_, options_.output);
        for (quantization::FakeQuantize* quantizer : row.quantizers) quantizer->enable_fake_quant(false);
        // The journal holds numbers; an infinite metric is measured again.
        if (journal_ && std::isfinite(metric)) journal_->add(row.name(), DType::int8, {metric, 0.0});
        return metric;
    }

    // Scales, and the outputs of both models in float, distinguish one search from another.
    std::string fingerprint() {
        std::string text = options_.metric + " " + options_.output + "\n";
        const auto add = [&](std::span<const float> values) {
            text.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
        };
        for (const auto& output : named_outputs(baseline_)) add(output.value.flat<float>());
        graph::GraphRun in_float(root_.graph(), root_, inputs_);
        for (const auto& output : named_outputs(in_float.finish())) add(output.value.flat<float>());
        for (const auto& module : root_.named_modules())
            if (const auto* quantizer = dynamic_cast<const quantization::FakeQuantize*>(module.value))
                add(quantizer->qparams().scales);
        return improve::text_checksum(text);
    }

    void open_journal() {
        if (options_.journal.empty()) return;
        io::make_folder(options_.journal);
        const std::string print = fingerprint();
        journal_path_ = options_.journal / ("sensitive_ops_" + print + ".journal");
        std::vector<std::string> names;
        for (const SensitivityRow& row : rows_) names.push_back(row.name());
        journal_.emplace(journal_path_, names);
    }

    void join() {
        if (!options_.join) return;
        std::vector<double> metrics;
        for (const SensitivityRow& row : rows_) metrics.push_back(row.op.metric);
        options_.join(metrics);
        for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i].op.metric = metrics[i];
    }

    void sort() {
        io::sort_stably(rows_, [&](const SensitivityRow& a, const SensitivityRow& b) {
            return options_.reserve ? metric_.is_worse(b.op.metric, a.op.metric)
                                    : metric_.is_worse(a.op.metric, b.op.metric);
        });
    }

    graph::GraphModule& root_;
    std::vector<nn::Value> inputs_;
    const nn::Value& baseline_;
    const SensitivityOptions& options_;
    OutputMetric metric_;
    ValidationScope state_;
    FloatSumsScope sums_;
    std::vector<SensitivityRow> rows_;
    std::filesystem::path journal_path_;
    std::optional<improve::MeasurementJournal> journal_;
};

}  // namespace detail

INTQ_INLINE std::vector<quantization::SensitiveOperator> find_sensitive_operators(const AnalysedModel& model,
                                                                                  const CallInputs& inputs,
                                                                                  const nn::Value& baseline_output,
                                                                                  const SensitivityOptions& options) {
    if (options.measures && !options.join)
        throw Error("sensitivity: `measures` leaves rows to others, and there is no `join` that brings their metrics");
    const auto* source = dynamic_cast<const detail::GraphSource*>(model.source().get());
    if (source == nullptr)
        throw Error(
            "sensitivity: the analysed model computes on codes, so its quantizers cannot be switched off; analyse the "
            "prepared model (fake_quant)");
    return detail::SensitivitySearch(*source, inputs, baseline_output, options).run();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_compare)
#endif  // INTQ_ANALYSIS_COMPARE_SENSITIVITY_HPP
