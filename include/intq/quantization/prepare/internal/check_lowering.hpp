// SPDX-License-Identifier: MIT
//
// check_lowering: refuses a prepared model as convert and lower would, as soon as its shapes are known. Layer:
// quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_INTERNAL_CHECK_LOWERING_HPP
#define INTQ_QUANTIZATION_PREPARE_INTERNAL_CHECK_LOWERING_HPP

#include <functional>
#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/graph/node.hpp"
#include "intq/quantization/prepare/refusal.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Converts a prepared model as convert_fx() does, on scales of 1, and makes each step's instructions for the target.
/// Throws the first refusal. Refusals that depend on data, such as a scale that is out of range, are left to convert
/// and lower. While a model trains, its weights change, so it is not checked that an accumulator holds their products.
///
/// An operator in float is no fault: PreparedModel::report() lists it.
///
/// @param is_quantized  whether a node computes on codes
/// @param where         how messages name the place of a node; by default "prepare: %conv (Conv2d)"
/// @pre   the shapes of the values are known
/// @throws Error that names the node, and quotes the rows of the target's constraint table
///
/// Cost     packs the weights once
void check_lowering(graph::GraphModule& model, const arith::PolicyRecord& target,
                    const std::function<bool(const graph::Node&)>& is_quantized,
                    const std::function<std::string(const graph::Node&)>& where = {});

/// The refusals that check_lowering() would throw, for all nodes, and the cases that only data decides.
struct LoweringFindings {
    std::vector<Refusal> refusals;
    std::vector<Refusal> undecided;
};

/// Appends to the findings, and throws nothing.
void find_refusals(graph::GraphModule& model, const arith::PolicyRecord& target,
                   const std::function<bool(const graph::Node&)>& is_quantized, LoweringFindings& findings);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <memory>
#    include <optional>
#    include <utility>

#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/grid_choice.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/custom.hpp"
#    include "intq/quantization/operators/internal/graph_converter.hpp"
#    include "intq/quantization/operators/internal/trial.hpp"
#    include "intq/quantization/operators/quantize.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Takes the place of a step that was refused, so that its readers are checked, too.
class RefusedStep : public Step {
public:
    OpKind kind() const noexcept override { return OpKind::none; }
    void lower(Lowering&, const QuantizedNode&) const override {}
    void add_reference(ReferenceBuilder&, const QuantizedNode&) const override {}
    std::optional<OwnedQParams> accumulator_qparams(const QuantizedTensor&, const Shape&) const override {
        return OwnedQParams::per_tensor(1.0f, DType::int32);
    }
    std::shared_ptr<const Step> with_activation(Activation) const override { return std::make_shared<RefusedStep>(); }
};

/// Converts a prepared graph whose scales are not known, and asks the target about each step.
class LoweringCheck : public GraphConverter {
public:
    /// @param findings  null to throw the first refusal; otherwise receives all of them, and nothing is thrown
    LoweringCheck(graph::GraphModule& model, const arith::PolicyRecord& target,
                  const std::function<bool(const graph::Node&)>& is_quantized,
                  const std::function<std::string(const graph::Node&)>& place, LoweringFindings* findings = nullptr)
        : GraphConverter(model, target), is_quantized_(is_quantized), place_(place), findings_(findings) {}

    void run() { walk(); }

private:
    bool is_quantized(const graph::Node& node) const override { return is_quantized_(node); }

    OwnedQParams qparams_of(const Quantizer& quantizer) const override {
        const nn::Module* source = &quantizer;
        while (const auto* following = dynamic_cast<const FollowingFakeQuantize*>(source))
            source = following->child("source").get();
        const FakeQuantize* const own = observing_quantizer(dynamic_cast<const Quantizer*>(source));
        const bool is_affine = own != nullptr && own->observer().options().scheme == arith::QuantScheme::affine;
        return stand_in(quantizer.qparams(), is_affine, {}).qparams;
    }

    // Also of a GridChoiceFakeQuantize that has not chosen yet, but may only keep its input's grid.
    bool follows_input(const Quantizer& quantizer) const override {
        const auto* choice = dynamic_cast<const GridChoiceFakeQuantize*>(&quantizer);
        return quantizer.follows_input() || (choice != nullptr && !choice->use().may_own);
    }

    std::string where(const graph::Node&) const override { return {}; }
    nn::ModulePtr module_of_step(const nn::Module&) const override { return nullptr; }

    void visit(graph::Node& node) override {
        try {
            convert(node);
        } catch (const NodeError&) {
            throw;  // check_step() refused, maybe another node
        } catch (const Error& error) {
            refuse(node, error);
            stand_in_for(node);
        }
    }

    void check_step(const graph::Node& node, const QuantizedNode& made, const QuantizedTensor& output) override {
        const Step* const step = made.step.get();
        if (dynamic_cast<const CustomStep*>(step) != nullptr) return;  // of a HybridModel
        if (dynamic_cast<const RefusedStep*>(step) != nullptr) return;
        std::vector<QuantizedTensor> inputs;
        for (const int input : made.inputs) inputs.push_back(result().tensor(input));
        QuantizedTensor given = output;
        if (given.dtype == DType::int32) given.qparams = OwnedQParams::per_tensor(1.0f, DType::int32);
        const StepPtr tried = model().training() ? without_weights(made.step) : made.step;
        try {
            const graph::Node* const source = node.inputs().empty() ? nullptr : node.inputs()[0];
            if (made.as<QuantizeStep>() != nullptr && source->op() == graph::Op::get_attr && given.shape.rank > 0)
                check_constant(given.shape);
            try_step(tried, inputs, given, result().target);
            if (findings_ != nullptr && inputs[0].dtype != DType::float32)
                note_undecided(node, decided_by_scales(tried, inputs, given, result().target));
        } catch (const Error& error) {
            refuse(node, error);
        }
    }

    void note_undecided(const graph::Node& node, const std::string& what) {
        if (!what.empty()) add_refusal(findings_->undecided, node, model(), what);
    }

    void refuse(const graph::Node& node, const Error& error) {
        if (error.is_of_environment()) throw error;
        std::string reason = error.what();
        if (is_quantized(node)) reason += rows_of(result().target, operator_of(node).kind);
        if (findings_ != nullptr) return add_refusal(findings_->refusals, node, model(), reason);
        throw NodeError(node, place_ ? place_(node) : "prepare: " + graph::place_of(node, model()), reason);
    }

    // A value for the readers of a node that was refused.
    void stand_in_for(const graph::Node& node) {
        if (has_value(node) || node.outputs().empty()) return;
        if (!is_quantized(node)) return set_tensor(node, DType::float32, {});
        const auto input = values().find(node.inputs()[0]);
        OwnedQParams grid = OwnedQParams::per_tensor(1.0f, DType::int8);
        if (input != values().end() && result().tensor(input->second).dtype != DType::float32)
            grid = result().tensor(input->second).qparams;
        set_tensor(node, grid.dtype, grid);
        const Role role = operator_of(node).role;
        if (role == Role::shares_input || role == Role::copies_into || role == Role::item) return;
        QuantizedNode made = node_of(node, "");
        made.inputs = {values().at(&node)};
        made.step = std::make_shared<RefusedStep>();
        set_pending(node, std::move(made));
    }

    static StepPtr without_weights(const StepPtr& step) {
        const auto* weighted = dynamic_cast<const WeightedStep*>(step.get());
        if (weighted == nullptr) return step;
        auto copy = std::make_shared<WeightedStep>(*weighted);
        copy->weight = Tensor::zeros(weighted->weight.shape(), weighted->weight.dtype());
        return copy;
    }

    const std::function<bool(const graph::Node&)>& is_quantized_;
    const std::function<std::string(const graph::Node&)>& place_;
    LoweringFindings* findings_;
};

INTQ_INLINE void check_lowering(graph::GraphModule& model, const arith::PolicyRecord& target,
                                const std::function<bool(const graph::Node&)>& is_quantized,
                                const std::function<std::string(const graph::Node&)>& where) {
    LoweringCheck(model, target, is_quantized, where).run();
}

INTQ_INLINE void find_refusals(graph::GraphModule& model, const arith::PolicyRecord& target,
                               const std::function<bool(const graph::Node&)>& is_quantized,
                               LoweringFindings& findings) {
    const std::function<std::string(const graph::Node&)> where;
    LoweringCheck(model, target, is_quantized, where, &findings).run();
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_INTERNAL_CHECK_LOWERING_HPP
