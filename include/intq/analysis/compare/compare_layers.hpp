// SPDX-License-Identifier: MIT
//
// Two models side by side on one case, layer by layer, without keeping their activations. Layer: analysis
// (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_COMPARE_COMPARE_LAYERS_HPP
#define INTQ_ANALYSIS_COMPARE_COMPARE_LAYERS_HPP

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "intq/analysis/compare/internal/layer_pairs.hpp"
#include "intq/analysis/compare/internal/waiting_run.hpp"
#include "intq/analysis/compare/op_running_info.hpp"
#include "intq/analysis/compare/tensor_statistics.hpp"
#include "intq/analysis/internal/report/paired_values.hpp"
#include "intq/analysis/models/analysed_model.hpp"
#include "intq/analysis/models/call_inputs.hpp"
#include "intq/io/progress.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/numeric_suite/metrics/tensor_comparison.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// A row of compare_per_layer_out.txt.
struct LayerComparison {
    LayerPair pair;
    std::string mod_name, base_op_type, analy_op_type;
    Shape shape{};                              // of the analysed output
    std::optional<OwnedQParams> qparams{};      // of the analysed output; empty for real values
    numeric_suite::TensorComparison metrics{};  // empty inside a fused layer
    TensorStatistics base{}, analy{};
    PairedValues values{};  // of the first output; for reports

    bool has_metrics() const noexcept { return metrics.count() != 0; }
};

/// Sees the outputs of a pair that is not inner.
using VisitPair =
    std::function<void(const LayerPair& pair, std::span<const Tensor> baseline, std::span<const Tensor> analysis)>;
/// Sees a call of one of the two models.
using VisitCall = std::function<void(const AnalysedCall& call)>;

/// Hooks while two models run.
struct SideBySideHooks {
    VisitPair pair{};
    VisitCall baseline{}, analysis{};
    io::ShowProgress show = io::ShowProgress::on_terminal;
};

/// The results of both models.
struct SideBySideOutputs {
    nn::Value baseline, analysis;
};

/// Runs two models on the same inputs, in turns, so that both outputs of a pair exist at the same time.
///
/// Memory   both forward passes; an output is kept only until its partner exists
SideBySideOutputs run_side_by_side(const AnalysedModel& baseline, const AnalysedModel& analysis,
                                   const CallInputs& inputs, const std::vector<LayerPair>& pairs,
                                   const SideBySideHooks& hooks);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_compare)

#    include <map>

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE SideBySideOutputs run_side_by_side(const AnalysedModel& baseline, const AnalysedModel& analysis,
                                               const CallInputs& inputs, const std::vector<LayerPair>& pairs,
                                               const SideBySideHooks& hooks) {
    detail::WaitingRun base(baseline, inputs, hooks.baseline), other(analysis, inputs, hooks.analysis);
    std::map<std::size_t, std::vector<const LayerPair*>> pairs_of;
    for (const LayerPair& pair : pairs) {
        if (pair.is_inner) continue;
        base.expect(pair.baseline);
        other.expect(pair.analysis);
        pairs_of[pair.baseline].push_back(&pair);
    }
    io::Progress progress("layers", static_cast<std::int64_t>(baseline.operators().size()), hooks.show);
    while (base.step()) {
        progress.update(static_cast<std::int64_t>(base.last()));
        const auto found = pairs_of.find(base.last());
        if (found == pairs_of.end()) continue;
        for (const LayerPair* pair : found->second) {
            const auto *x = base.outputs_of(pair->baseline), *y = other.outputs_of(pair->analysis);
            if (x != nullptr && y != nullptr && hooks.pair) hooks.pair(*pair, *x, *y);
            if (y != nullptr) other.release(pair->analysis);
            base.release(pair->baseline);
        }
    }
    while (other.step()) {
    }
    return {base.output(), other.output()};
}

namespace detail {

/// The numbers of a pair of models, and the rows made from them.
class ComparisonOfModels {
public:
    ComparisonOfModels(const AnalysedModel& baseline, const AnalysedModel& analysis)
        : baseline_(baseline),
          analysis_(analysis),
          pairs_(pair_layers(baseline.operators(), analysis.operators())),
          of_baseline_(baseline.operators(), {.histograms = false}),
          of_analysis_(analysis.operators(), {.histograms = false}) {
        for (const LayerPair& pair : pairs_) {
            const AnalysedOperator &x = baseline.operators()[pair.baseline], &y = analysis.operators()[pair.analysis];
            layers_.push_back({pair, x.mod_name, x.op_type, y.op_type});
        }
    }

    void run(const CallInputs& inputs, const SideBySideHooks& hooks) {
        SideBySideHooks all = hooks;
        all.baseline = [&](const AnalysedCall& call) {
            of_baseline_.add(call);
            if (hooks.baseline) hooks.baseline(call);
        };
        all.analysis = [&](const AnalysedCall& call) {
            of_analysis_.add(call);
            note_output(call);
            if (hooks.analysis) hooks.analysis(call);
        };
        all.pair = [&](const LayerPair& pair, std::span<const Tensor> x, std::span<const Tensor> y) {
            add(pair, x, y);
            if (hooks.pair) hooks.pair(pair, x, y);
        };
        run_side_by_side(baseline_, analysis_, inputs, pairs_, all);
        for (LayerComparison& layer : layers_) {
            layer.base = of_baseline_.output_statistics(layer.pair.baseline);
            layer.analy = of_analysis_.output_statistics(layer.pair.analysis);
        }
    }

    std::vector<LayerComparison>& layers() noexcept { return layers_; }
    const OpRunningInfoManager& of_baseline() const noexcept { return of_baseline_; }
    const OpRunningInfoManager& of_analysis() const noexcept { return of_analysis_; }

private:
    void note_output(const AnalysedCall& call) {
        if (call.outputs.empty()) return;
        for (LayerComparison& layer : layers_)
            if (layer.pair.analysis == call.index) {
                layer.shape = call.outputs.front().shape();
                layer.qparams = call.outputs.front().qparams();
            }
    }

    void add(const LayerPair& pair, std::span<const Tensor> x, std::span<const Tensor> y) {
        const bool is_same = x.size() == y.size();
        for (std::size_t i = 0; is_same && i < x.size(); ++i)
            check_same_shape(baseline_.operators()[pair.baseline].mod_name, x[i], y[i]);
        for (LayerComparison& layer : layers_)
            if (is_same && layer.pair.baseline == pair.baseline && layer.pair.analysis == pair.analysis) {
                for (std::size_t i = 0; i < x.size(); ++i)
                    layer.metrics.add(x[i].flat<float>(), y[i].flat<float>(), x[i].shape());
                if (!x.empty()) layer.values = pair_values(x[0].flat<float>(), y[0].flat<float>(), x[0].shape());
            }
    }

    const AnalysedModel& baseline_;
    const AnalysedModel& analysis_;
    std::vector<LayerPair> pairs_;
    OpRunningInfoManager of_baseline_, of_analysis_;
    std::vector<LayerComparison> layers_;
};

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_compare)
#endif  // INTQ_ANALYSIS_COMPARE_COMPARE_LAYERS_HPP
