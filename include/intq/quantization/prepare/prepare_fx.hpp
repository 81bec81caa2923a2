// SPDX-License-Identifier: MIT
//
// prepare_calibration_fx: puts quantizers where a target needs them. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_PREPARE_FX_HPP
#define INTQ_QUANTIZATION_PREPARE_PREPARE_FX_HPP

#include <memory>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/quantization/prepare/refusal.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A clone of the model, fused for the target, with a quantizer on every edge that will hold codes.
///
/// The role in the operator's row (quantization/operators/operator.hpp) places the quantizers: behind QuantStub, layers
/// with weights and operators whose output has its own scale (add, average pool, cat, …). There is no quantizer where
/// codes are only chosen or moved (max pool, flatten, slice, …), nor between add and a relu that is its only reader. An
/// average pool of a target that divides codes keeps its input's scale. In horizon mode the inputs of the model need
/// QuantStubs and its outputs DeQuantStubs (add_stubs); anything else is an Error.
///
/// In torch mode they are where PyTorch's prepare_fx puts observers. Real values that reach a quantized operator get
/// their own quantizer; cat, pools and other operators that keep their input's scale call the quantizer of their
/// (first) input again. docs/compatibility.md lists the differences.
///
/// The qconfigs that modules carry themselves (set_qconfig()) take precedence over the mapping.
///
/// Throws for operators that convert and lower would refuse, naming the node and quoting the rows of the target's
/// constraint table (PreparedModel::check_lowering()). Checks of shapes are made here if example_inputs are given, and
/// otherwise by the first run.
///
/// Throws for a key of the mapping that no operator matches, with the nearest names, and for one that changes nothing;
/// for a mapping or model that would leave nothing quantized; for example_inputs that the model does not take.
std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model, const QConfigMapping& mapping,
                                                      const arith::PolicyRecord& target,
                                                      const PrepareOptions& options = {});

/// The same with get_default_qconfig_mapping() of the target, or for a model whose modules carry their own qconfigs
/// with only these.
std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model, const arith::PolicyRecord& target,
                                                      const PrepareOptions& options = {});

namespace detail {

/// The same without check_lowering().
///
/// @param refusals  null, or receives the refusals of operators. None is thrown then, and each such operator counts as
///                  staying in float
std::shared_ptr<PreparedModel> prepare_graph(const nn::Module& model, const QConfigMapping& mapping,
                                             const arith::PolicyRecord& target, const PrepareOptions& options,
                                             std::vector<Refusal>* refusals = nullptr);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <span>
#    include <string>
#    include <utility>

#    include "intq/graph/graph_module.hpp"
#    include "intq/graph/shape_arithmetic.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/fuse/fuse_fx.hpp"
#    include "intq/quantization/modules/custom_modules.hpp"
#    include "intq/quantization/prepare/internal/hybrid_dict.hpp"
#    include "intq/quantization/prepare/internal/preparer.hpp"
#    include "intq/quantization/prepare/internal/separate_masks.hpp"
#    include "intq/quantization/prepare/optimize_graph.hpp"
#    include "intq/quantization/qconfig/own_qconfig.hpp"
#    include "intq/quantization/qconfig/target_defaults.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Whether a model that does not take the example takes one sample of it.
INTQ_INLINE bool takes_one_sample(graph::GraphModule& model, std::span<const Tensor> example_inputs) {
    std::vector<nn::Value> values;
    for (const Tensor& example : example_inputs) {
        Shape shape = example.shape();
        if (shape.rank == 0 || shape.extents[0] < 2) return false;
        shape.extents[0] = 1;
        values.emplace_back(Tensor::of_shape(shape));
    }
    try {
        graph::propagate_shapes(model, values);
    } catch (const Error&) {
        return false;
    }
    return true;
}

/// Records the shapes that the values of a traced model have on the example, because the fusion reads them. The model
/// stays as it is.
INTQ_INLINE void record_shapes(graph::GraphModule& model, std::span<const Tensor> example_inputs) {
    const auto copy = std::static_pointer_cast<graph::GraphModule>(nn::clone(static_cast<const nn::Module&>(model)));
    copy->eval();
    const std::vector<nn::Value> values(example_inputs.begin(), example_inputs.end());
    try {
        graph::propagate_shapes(*copy, values);
    } catch (const Error& error) {
        if (!takes_one_sample(*copy, example_inputs)) throw Error("prepare: example_inputs", error);
        throw Error("prepare: example_inputs", std::string(error.what()) +
                                                   "; the model takes one sample, so its shapes fix their number: "
                                                   "export it with an open batch");
    }
    const auto from = copy->graph().nodes(), to = model.graph().nodes();
    for (std::size_t i = 0; i < to.size(); ++i) to[i]->outputs() = from[i]->outputs();
}

INTQ_INLINE void show_example(PreparedModel& model, std::span<const Tensor> example_inputs) {
    try {
        model.propagate_shapes(example_inputs);
    } catch (const Error& error) {
        throw Error("prepare: example_inputs", error);
    }
}

INTQ_INLINE std::shared_ptr<PreparedModel> prepare_graph(const nn::Module& model, const QConfigMapping& mapping,
                                                         const arith::PolicyRecord& target,
                                                         const PrepareOptions& options,
                                                         std::vector<Refusal>* refusals) {
    const auto fused = traced_clone(*with_observed_custom(nn::clone(model), options.custom),
                                    trace_options(options.trace, options.custom));
    FuseOptions fusion{target.fused_add, options.more_fusions, {}};
    fusion.fused_relu6 = options.compatibility == Compatibility::horizon;
    fusion.keep_batch_norm = options.qat_mode != QATMode::fuse_bn;
    std::vector<std::string> names, types;
    for (const graph::Node* node : fused->graph().nodes()) types.push_back(member_of(*node, *fused).type);
    for (const auto& module : fused->named_modules()) {
        names.push_back(module.name);
        types.push_back(module.value->type_name());
    }
    if (!options.example_inputs.empty()) detail::record_shapes(*fused, options.example_inputs);
    PrepareReport report;
    fuse_in_place(*fused, fusion, &report.fusion);
    if (options.compatibility == Compatibility::horizon) separate_masks(*fused);
    auto prepared = std::make_shared<PreparedModel>(*fused, target, options);
    prepared->set_attribute("prepared_target", target);
    prepared->report() = std::move(report);
    const QConfigMapping own = in_mode(with_own_qconfigs(mapping, model), target, options.compatibility),
                         all = with_hybrid(own, *prepared);
    Preparer(*prepared, all, own, refusals).run(names, types);
    all.check_all_used(names, types);
    if (options.optimize_graph) unify_cat_scales(*prepared, *prepared);
    set_fake_quantize(*prepared, FakeQuantState::calibration);
    if (!options.example_inputs.empty()) show_example(*prepared, options.example_inputs);
    return prepared;
}

}  // namespace detail

INTQ_INLINE std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model,
                                                                  const QConfigMapping& mapping,
                                                                  const arith::PolicyRecord& target,
                                                                  const PrepareOptions& options) {
    auto prepared = detail::prepare_graph(model, mapping, target, options);
    if (!options.example_inputs.empty()) prepared->check_lowering();
    return prepared;
}

INTQ_INLINE std::shared_ptr<PreparedModel> prepare_calibration_fx(const nn::Module& model,
                                                                  const arith::PolicyRecord& target,
                                                                  const PrepareOptions& options) {
    return prepare_calibration_fx(
        model, detail::mapping_where_none_is_given(model, get_default_qconfig_mapping(target)), target, options);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_PREPARE_FX_HPP
