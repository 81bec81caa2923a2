// SPDX-License-Identifier: MIT
//
// AnalysedModel: a float, prepared, exactly simulated or converted model as the tools of analysis see it, a list of
// operators and runs that go through them one by one. Layer: analysis (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_MODELS_ANALYSED_MODEL_HPP
#define INTQ_ANALYSIS_MODELS_ANALYSED_MODEL_HPP

#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "intq/analysis/models/model_source.hpp"
#include "intq/core/shape.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {
class LoweredModel;
struct QuantizedGraph;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// A handle of a model; copies refer to the same model. A run uses the model's state at its start, and restores it:
/// while it lasts, modules are in evaluation and quantizers round without observing (FakeQuantState::validation).
///
/// Each thread needs its own model, as a run changes the state of its modules and restores it.
class AnalysedModel {
public:
    /// A float model, one that was prepared (graph or modules), or one that was converted: module by module, or by
    /// convert_fx() with kernels, which is analysed as the program or parts that run it. Any other model that is not a
    /// GraphModule is traced, and its modules are shared.
    AnalysedModel(const nn::ModulePtr& model, const graph::TraceOptions& trace = {});
    template <class ModuleType>
    requires std::derived_from<ModuleType, nn::Module> AnalysedModel(const std::shared_ptr<ModuleType>& model)
        : AnalysedModel(nn::ModulePtr(model)) {}
    /// A program. Its codes are kept until the tools have seen them: a byte or two per element.
    AnalysedModel(const quantization::LoweredModel& program);
    explicit AnalysedModel(std::shared_ptr<ModelSource> source);

    const std::vector<AnalysedOperator>& operators() const noexcept { return source_->operators(); }
    std::vector<std::string> input_names() const { return source_->input_names(); }
    std::unique_ptr<ModelRun> run(std::vector<nn::Value> inputs) const { return source_->run(std::move(inputs)); }
    nn::ModulePtr module() const { return source_->module(); }
    const std::shared_ptr<ModelSource>& source() const noexcept { return source_; }

private:
    std::shared_ptr<ModelSource> source_;
};

/// A prepared model as its program computes it, one operator at a time (quantization::ExactSimulation): with its
/// current weights and scales.
///
/// @param table  kernels of the target that the model was prepared for
AnalysedModel exactly_simulated(quantization::PreparedModel& model, const kernels::KernelTable& table,
                                index_t max_batch = 1);
/// A converted model.
AnalysedModel exactly_simulated(const quantization::QuantizedGraph& model, const kernels::KernelTable& table,
                                index_t max_batch = 1);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_models)

#    include <utility>

#    include "intq/analysis/models/internal/codes_source.hpp"
#    include "intq/analysis/models/internal/graph_source.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/convert/quantized_model.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE AnalysedModel::AnalysedModel(std::shared_ptr<ModelSource> source) : source_(std::move(source)) {}

INTQ_INLINE AnalysedModel::AnalysedModel(const nn::ModulePtr& model, const graph::TraceOptions& trace) {
    if (model == nullptr) throw Error("AnalysedModel: the model is null");
    if (const auto* quantized = dynamic_cast<const quantization::QuantizedModel*>(model.get()))
        source_ = quantized->lowered() != nullptr
                      ? detail::make_program_source(*quantized->lowered())
                      : detail::make_exact_source(quantized->hybrid()->quantized(), quantized->hybrid()->table(),
                                                  quantized->hybrid()->max_batch());
    else
        source_ = detail::make_graph_source(model, trace);
}

INTQ_INLINE AnalysedModel::AnalysedModel(const quantization::LoweredModel& program)
    : source_(detail::make_program_source(program)) {}

INTQ_INLINE AnalysedModel exactly_simulated(quantization::PreparedModel& model, const kernels::KernelTable& table,
                                            index_t max_batch) {
    return AnalysedModel(detail::make_exact_source(model, table, max_batch));
}

INTQ_INLINE AnalysedModel exactly_simulated(const quantization::QuantizedGraph& model,
                                            const kernels::KernelTable& table, index_t max_batch) {
    return AnalysedModel(detail::make_exact_source(model, table, max_batch));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_models)
#endif  // INTQ_ANALYSIS_MODELS_ANALYSED_MODEL_HPP
