// SPDX-License-Identifier: MIT
//
// ModelProfiler: the values of a model, operator by operator. Layer: analysis (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_MODEL_PROFILER_HPP
#define INTQ_ANALYSIS_MODEL_PROFILER_HPP

#include <filesystem>

#include "intq/analysis/compare/op_running_info.hpp"
#include "intq/analysis/models/analysed_model.hpp"
#include "intq/analysis/models/call_inputs.hpp"
#include "intq/nn/model/value.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

struct ModelProfilerOptions {
    KeptNumbers kept{};
    /// Also writes the values of each run into out_dir/op_infos, where the next run replaces them. compare_per_layer()
    /// of a QuantAnalysis can read them (set_model_profiler_dir()).
    bool save_activations = false;
};

/// Runs a model and keeps numbers of each operator's inputs, outputs, weight and bias. Numbers of several runs cover
/// all their values.
///
///     {
///         ModelProfiler profiler(net, "profile");          // with ModelProfiler(net, "profile") as p:
///         profiler(data);                                  //     net(data)
///         profiler.get_info_manager().table();             // p.get_info_manager().table()
///     }
///
/// Memory   one forward pass, plus the numbers
class ModelProfiler {
public:
    /// @param out_dir  where table() and the activations go; nothing is written before
    explicit ModelProfiler(AnalysedModel model, std::filesystem::path out_dir = "model_profiler",
                           ModelProfilerOptions options = {});

    /// @return the model's result
    nn::Value operator()(const CallInputs& inputs);
    OpRunningInfoManager& get_info_manager() noexcept { return infos_; }
    const std::filesystem::path& out_dir() const noexcept { return out_dir_; }

private:
    AnalysedModel model_;
    std::filesystem::path out_dir_;
    ModelProfilerOptions options_;
    OpRunningInfoManager infos_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis)

#    include <optional>
#    include <utility>

#    include "intq/analysis/models/saved_activations.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE ModelProfiler::ModelProfiler(AnalysedModel model, std::filesystem::path out_dir,
                                         ModelProfilerOptions options)
    : model_(std::move(model)),
      out_dir_(std::move(out_dir)),
      options_(options),
      infos_(model_.operators(), options.kept, out_dir_) {}

INTQ_INLINE nn::Value ModelProfiler::operator()(const CallInputs& inputs) {
    const std::vector<nn::Value> values = inputs.in_order(model_.input_names());
    std::optional<ActivationWriter> writer;
    if (options_.save_activations) writer.emplace(model_.operators(), out_dir_, values);
    const auto run = model_.run(values);
    AnalysedCall call;
    while (run->next(call)) {
        infos_.add(call);
        if (writer) writer->add(call);
    }
    return run->output();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis)
#endif  // INTQ_ANALYSIS_MODEL_PROFILER_HPP
