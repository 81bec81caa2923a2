// SPDX-License-Identifier: MIT
//
// lowering_report: which operators of a float model a target takes, before any data. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_LOWERING_REPORT_HPP
#define INTQ_QUANTIZATION_PREPARE_LOWERING_REPORT_HPP

#include <vector>

#include "intq/arith/target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/quantization/prepare/refusal.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The verdict of prepare, convert and lower on a model, before any data.
struct LoweringReport {
    /// Operators that the target does not take, and those that stay in float.
    std::vector<Refusal> refusals;
    /// Operators that the target takes, unless calibration produces the values named in the reason, and sums in which
    /// a tensor leaves usual values few codes (find_large_tensors()). It stays short: values that data usually has are
    /// accepted.
    std::vector<Refusal> undecided;

    /// Whether the whole model becomes a program, as far as can be told without data.
    bool lowers() const noexcept { return refusals.empty(); }
};

/// Names every operator that keeps a model from becoming a program, each with its layer. A layer is refused here
/// exactly where prepare, convert or lower would refuse it, or leave it in float, whatever the data.
///
/// @param options  with example_inputs; without them, shapes are not checked. They should have two or more samples,
///                 unless the model shall take only one: one sample does not show whether axis 0 stays
/// @throws Error for a mapping and for example_inputs that do not fit the model, as prepare_calibration_fx() does
///
/// Memory   as prepare_calibration_fx() with example_inputs
LoweringReport lowering_report(const nn::Module& model, const QConfigMapping& mapping,
                               const arith::PolicyRecord& target, const PrepareOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <utility>

#    include "intq/graph/graph.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/check/lost_operands.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/prepare/internal/check_lowering.hpp"
#    include "intq/quantization/prepare/prepare_fx.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Refuses the readers of tensors of the model that have no scale, as calibration would.
INTQ_INLINE void find_tensors_without_scale(PreparedModel& model, std::vector<Refusal>& refusals) {
    for (const graph::Node* node : model.graph().nodes()) {
        auto* const quantizer = dynamic_cast<FakeQuantize*>(graph::module_of(*node, model));
        const graph::Node* const source = quantizer != nullptr ? node->inputs()[0] : nullptr;
        if (source == nullptr || source->op() != graph::Op::get_attr || node->users().empty()) continue;
        try {
            quantizer->observe(*model.find_tensor(source->target()));
            quantizer->calculate_qparams();
        } catch (const Error& error) {
            add_refusal(refusals, *node->users()[0], model,
                        "its tensor " + source->target() + " has no grid: " + error.what());
        }
    }
}

}  // namespace detail

INTQ_INLINE LoweringReport lowering_report(const nn::Module& model, const QConfigMapping& mapping,
                                           const arith::PolicyRecord& target, const PrepareOptions& options) {
    detail::LoweringFindings findings;
    const auto prepared = detail::prepare_graph(model, mapping, target, options, &findings.refusals);
    const graph::Graph& graph = prepared->graph();
    for (const FloatFallback& fallback : prepared->report().fallbacks)
        detail::add_refusal(findings.refusals, *graph.find(fallback.node), *prepared, fallback.reason);
    if (!options.example_inputs.empty())
        detail::find_refusals(
            *prepared, target, [&](const graph::Node& node) { return prepared->is_quantized(node); }, findings);
    detail::find_tensors_without_scale(*prepared, findings.refusals);
    for (const SumWithTensor& sum : find_large_tensors(*prepared))
        detail::add_refusal(findings.undecided, *sum.node, *prepared, to_string(sum));
    for (const graph::Node* value : prepared->graph().output_node().inputs())
        if (value->op() == graph::Op::placeholder)
            detail::add_refusal(findings.refusals, *value, *prepared,
                                "the model returns this input; a program has nothing to execute for it");
    return {std::move(findings.refusals), std::move(findings.undecided)};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_LOWERING_REPORT_HPP
