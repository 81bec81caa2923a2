// SPDX-License-Identifier: MIT
//
// check_lowering: what convert and lower would refuse of a prepared model, as soon as its shapes are known. Layer:
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

/// Makes each step of a prepared model and its instructions for the target, with scales of 1, and throws what is
/// refused. What only data can say, such as a scale that is out of range, is left to convert and lower. While a model
/// trains, its weights are still to come, and so is the proof that an accumulator holds their products.
///
/// What stays in float is no fault: PreparedModel::report() lists it.
///
/// @param is_quantized  whether a node computes on codes
/// @param where         how messages name the place of a node: "prepare: %conv (Conv2d)" unless it says otherwise
/// @pre   the shapes of the values are known
/// @throws Error that names the node, and quotes the rows of the target's constraint table
///
/// Cost     that of packing the weights once
void check_lowering(graph::GraphModule& model, const arith::PolicyRecord& target,
                    const std::function<bool(const graph::Node&)>& is_quantized,
                    const std::function<std::string(const graph::Node&)>& where = {});

/// What check_lowering() would throw of each node, and what it leaves to the data.
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

#    include <algorithm>
#    include <map>
#    include <memory>

#    include "intq/graph/operators.hpp"
#    include "intq/graph/shape_arithmetic.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/module.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/grid_choice.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/custom.hpp"
#    include "intq/quantization/operators/internal/trial.hpp"
#    include "intq/quantization/operators/operator_table.hpp"
#    include "intq/quantization/operators/quantize.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Walks a prepared graph as convert does, one step at a time.
class LoweringCheck {
public:
    /// @param findings  null, or what takes the refusals, of which none is thrown then
    LoweringCheck(graph::GraphModule& model, const arith::PolicyRecord& target,
                  const std::function<bool(const graph::Node&)>& is_quantized,
                  const std::function<std::string(const graph::Node&)>& where, LoweringFindings* findings = nullptr)
        : model_(model),
          target_(target),
          is_quantized_(is_quantized),
          where_(where),
          findings_(findings),
          operators_(model) {}

    void run() {
        for (graph::Node* node : model_.graph().nodes()) {
            try {
                check_node(*node);
            } catch (const Error& error) {
                const std::string reason = error.what() + rows_of(target_, operators_.of(*node).kind);
                if (findings_ == nullptr) throw Error(where_ ? where_(*node) : where(*node), reason);
                add_refusal(findings_->refusals, *node, model_, reason);
            }
        }
    }

private:
    std::string where(const graph::Node& node) const { return "prepare: " + graph::place_of(node, model_); }

    void check_node(const graph::Node& node) {
        if (const auto* quantizer = dynamic_cast<const Quantizer*>(graph::module_of(node, model_)))
            return check_quantizer(node, *quantizer);
        if (!is_quantized_(node)) return;
        const QuantizedOperator& row = operators_.of(node);
        if (row.role == Role::quant_stub) return;  // its quantizer is the step
        std::vector<QuantizedTensor> inputs;
        for (const graph::Node* input : node.operands()) {
            if (graph::gives_shape(*input)) continue;
            const auto known = codes_.find(input);
            if (known == codes_.end()) return;  // a relu or clip that bounds the codes before it
            inputs.push_back(known->second);
        }
        if (row.make_step == nullptr) {
            codes_[&node] = inputs.at(0);
            return;
        }
        std::vector<const QuantizedTensor*> pointers;
        for (const QuantizedTensor& input : inputs) pointers.push_back(&input);
        const Shape& shape = node.outputs()[0].shape;
        const bool moves = (row.role == Role::shares_input || row.role == Role::item) &&
                           !(changes_values(row) && quantizer_of(node) != nullptr);
        QuantizedTensor output = moves ? inputs.at(0) : output_of(node);
        output.shape = shape;
        if (moves) codes_[&node] = output;  // also of one that is refused: its readers are asked, too
        StepPtr step =
            row.make_step(trial_request(node, graph::module_of(node, model_), std::move(pointers), shape, target_));
        if (dynamic_cast<const CustomStep*>(step.get()) != nullptr) return;  // that of a HybridModel
        if (const Quantizer* quantizer = quantizer_of(node); quantizer != nullptr && follows_input(*quantizer))
            output.qparams = inputs[0].qparams;
        if (model_.training()) step = without_weights(step);
        try_step(step, inputs, output, target_);
        note_undecided(node, step, inputs, output);
    }

    void note_undecided(const graph::Node& node, const StepPtr& step, const std::vector<QuantizedTensor>& inputs,
                        const QuantizedTensor& output) {
        if (findings_ == nullptr) return;
        const std::string what = decided_by_scales(step, inputs, output, target_);
        if (!what.empty()) add_refusal(findings_->undecided, node, model_, what);
    }

    // Real values become codes here, or codes others.
    void check_quantizer(const graph::Node& node, const Quantizer& quantizer) {
        const graph::Node& source = *node.inputs()[0];
        QuantizedTensor made = codes_of(quantizer, node.outputs()[0].shape);
        const auto known = codes_.find(&source);
        if (known != codes_.end())
            made.qparams.zero_points =
                follows_input(quantizer) ? known->second.qparams.zero_points : made.qparams.zero_points;
        codes_[&node] = made;
        const bool is_output =
            is_quantized_(source) && known == codes_.end() && operators_.of(source).role != Role::quant_stub;
        if (is_output) return;
        QuantizedTensor from = known != codes_.end() ? known->second : QuantizedTensor{"", DType::float32, {}, {}};
        from.shape = made.shape;
        if (source.op() == graph::Op::get_attr && made.shape.rank > 0) check_constant(made.shape);
        if (from.dtype == made.dtype && from.qparams == made.qparams) return;  // as convert leaves it out
        const StepPtr step = from.dtype == DType::float32 ? StepPtr(std::make_shared<QuantizeStep>())
                                                          : StepPtr(std::make_shared<RequantizeStep>());
        try_step(step, {from}, made, target_);
        if (from.dtype != DType::float32) note_undecided(node, step, {from}, made);
    }

    // Also of one that will choose, where the choice is made already.
    static bool follows_input(const Quantizer& quantizer) {
        const auto* choice = dynamic_cast<const GridChoiceFakeQuantize*>(&quantizer);
        return quantizer.follows_input() || (choice != nullptr && !choice->use().may_own);
    }

    bool changes_values(const QuantizedOperator& row) const {
        return row.keeps_scale != nullptr && row.keeps_scale(target_);
    }

    static QuantizedTensor codes_of(const Quantizer& quantizer, const Shape& shape) {
        const nn::Module* source = &quantizer;
        while (const auto* following = dynamic_cast<const FollowingFakeQuantize*>(source))
            source = following->child("source").get();
        const FakeQuantize* const own = observing_quantizer(dynamic_cast<const Quantizer*>(source));
        const bool is_affine = own != nullptr && own->observer().options().scheme == arith::QuantScheme::affine;
        return stand_in(quantizer.qparams(), is_affine, shape);
    }

    // The quantizer that reads a value; null without one.
    const Quantizer* quantizer_of(const graph::Node& node) const {
        for (const graph::Node* user : node.users())
            if (const auto* quantizer = dynamic_cast<const Quantizer*>(graph::module_of(*user, model_)))
                return quantizer;
        return nullptr;
    }

    // By the quantizer behind the operator, or behind the relu or clip that is part of it; without one, the
    // accumulator.
    QuantizedTensor output_of(const graph::Node& node) {
        const Quantizer* quantizer = quantizer_of(node);
        const graph::Node* last = &node;
        const auto is_bounded = [&] {
            return last->users().size() == 1 &&
                   (operators_.of(*last).takes_relu || operators_.of(*last->users()[0]).clip != nullptr);
        };
        while (quantizer == nullptr && is_bounded()) quantizer = quantizer_of(*(last = last->users()[0]));
        if (quantizer != nullptr) return codes_of(*quantizer, {});
        return {"", DType::int32, OwnedQParams::per_tensor(1.0f, DType::int32), {}};
    }

    static StepPtr without_weights(const StepPtr& step) {
        const auto* weighted = dynamic_cast<const WeightedStep*>(step.get());
        if (weighted == nullptr) return step;
        auto copy = std::make_shared<WeightedStep>(*weighted);
        copy->weight = Tensor::zeros(weighted->weight.shape(), weighted->weight.dtype());
        return copy;
    }

    graph::GraphModule& model_;
    const arith::PolicyRecord& target_;
    const std::function<bool(const graph::Node&)>& is_quantized_;
    const std::function<std::string(const graph::Node&)>& where_;
    LoweringFindings* findings_;
    NodeOperators operators_;
    std::map<const graph::Node*, QuantizedTensor> codes_;
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
