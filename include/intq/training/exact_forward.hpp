// SPDX-License-Identifier: MIT
//
// ExactForward: the forward pass of quantization-aware training in the target's integers. Layer: training
// (docs/workflow.md section 4).
#ifndef INTQ_TRAINING_EXACT_FORWARD_HPP
#define INTQ_TRAINING_EXACT_FORWARD_HPP

#include <memory>
#include <span>

#include "intq/graph/node.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/autograd.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {
struct KernelTable;
}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// A forward pass with the codes of the program that the model would be converted to at this moment. Gradients pass
/// straight through, as in fake quantization.
///
///     training::ExactForward exact(*qat, table);
///     options.forward = std::ref(exact);                     // of a Trainer
///
/// In one call, the model first runs as usual, so that observers, scales and running statistics move. Then it is
/// converted and run as an ExactSimulation. Finally the Autograd records a pass in which the output of each quantizer,
/// and of each other operator on codes, is replaced by the simulation's. The quantizer still reads its operator's own
/// real value, so that its gradient knows what was clamped. A batch norm that a layer keeps uses its running statistics
/// in the values, as in the program, and behaves as usual in the gradient.
///
/// Memory   an ExactSimulation
/// Cost     three forward passes and a conversion
class ExactForward {
public:
    /// Both must outlive this.
    ///
    /// @param table  kernels of the target that the model was prepared for
    ExactForward(quantization::PreparedModel& model, const kernels::KernelTable& table)
        : model_(model), table_(table) {}

    /// Throws the Error that names a Dropout active between quantizers, because no program has such values; and for an
    /// Autograd of another model.
    ///
    /// @param autograd  of the model; its value hook is replaced during the call, and is empty afterwards
    /// @param inputs    float32 tensors
    nn::Value operator()(Autograd& autograd, std::span<const nn::Value> inputs);
    nn::Value operator()(Autograd& autograd, const Tensor& input);

    /// The simulation of the last call; null before the first.
    const quantization::ExactSimulation* simulation() const noexcept { return simulation_.get(); }

private:
    void check_dropout() const;
    bool replaces(const graph::Node& node) const;
    /// Whether a node is a clip on the grid of the codes that it reads.
    bool bounds_codes(const graph::Node& node, int codes) const;
    nn::Value run_recorded(Autograd& autograd, std::span<const nn::Value> inputs) const;

    quantization::PreparedModel& model_;
    const kernels::KernelTable& table_;
    std::unique_ptr<quantization::ExactSimulation> simulation_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training)

#    include <algorithm>
#    include <optional>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/table/rows.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/operators/quantized_graph.hpp"
#    include "intq/training/kept_buffers.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE nn::Value ExactForward::operator()(Autograd& autograd, std::span<const nn::Value> inputs) {
    if (&autograd.model() != static_cast<const graph::GraphModule*>(&model_))
        throw Error("ExactForward: the Autograd, or the Trainer, belongs to another model");
    check_dropout();
    simulation_.reset();
    model_.forward(nn::Arguments(inputs));
    std::vector<Tensor> tensors;
    for (const nn::Value& input : inputs) tensors.push_back(input.tensor());
    simulation_ = std::make_unique<quantization::ExactSimulation>(model_, table_, tensors.at(0).extent(0));
    simulation_->run(tensors);

    // The first run has already moved what this step moves.
    KeptBuffers buffers(model_);
    std::vector<quantization::FakeQuantize*> observing;
    for (const auto& module : model_.named_modules())
        if (auto* quantizer = dynamic_cast<quantization::FakeQuantize*>(module.value))
            if (quantizer->observer_enabled()) observing.push_back(quantizer);
    const auto observe = [&](bool on) {
        for (quantization::FakeQuantize* quantizer : observing) quantizer->enable_observer(on);
    };
    observe(false);
    const auto put_back = [&] {
        autograd.set_value_of({});
        observe(true);
        buffers.restore();
    };
    try {
        nn::Value result = run_recorded(autograd, inputs);
        put_back();
        return result;
    } catch (...) {
        put_back();
        throw;
    }
}

INTQ_INLINE nn::Value ExactForward::operator()(Autograd& autograd, const Tensor& input) {
    const nn::Value value(input);
    return (*this)(autograd, std::span(&value, 1));
}

INTQ_INLINE nn::Value ExactForward::run_recorded(Autograd& autograd, std::span<const nn::Value> inputs) const {
    autograd.set_value_of([this](const graph::Node& node, const nn::Value&) -> std::optional<nn::Value> {
        if (!replaces(node)) return std::nullopt;
        const Tensor exact = *simulation_->value_of(node.name());
        Tensor value = exact.contiguous();
        value.set_qparams(exact.qparams());
        return nn::Value(value);
    });
    return autograd.forward(inputs);
}

INTQ_INLINE bool ExactForward::bounds_codes(const graph::Node& node, int codes) const {
    const quantization::QuantizedGraph& quantized = simulation_->quantized();
    const auto made = quantized.values.find(node.name());
    return made != quantized.values.end() && made->second != codes &&
           std::any_of(quantized.nodes.begin(), quantized.nodes.end(), [&](const quantization::QuantizedNode& step) {
               const OwnedQParams& grid = quantized.output(step).qparams;
               return step.output == made->second && step.inputs == std::vector<int>{codes} &&
                      grid == quantized.tensor(codes).qparams && step.step->bounds_on(grid, quantized.target);
           });
}

INTQ_INLINE bool ExactForward::replaces(const graph::Node& node) const {
    const quantization::QuantizedGraph& quantized = simulation_->quantized();
    const auto tensor_of = [&](const graph::Node& other) {
        const auto found = quantized.values.find(other.name());
        return found == quantized.values.end() ? -1 : found->second;
    };
    const auto is_quantizer = [&](const graph::Node& other) {
        return dynamic_cast<const quantization::Quantizer*>(graph::module_of(other, model_)) != nullptr;
    };
    const int tensor = tensor_of(node);
    if (tensor < 0 || quantized.tensor(tensor).dtype == DType::float32) return false;
    if (is_quantizer(node)) return true;
    for (const graph::Node* user : node.users())
        if (is_quantizer(*user) && tensor_of(*user) == tensor) return false;
    // The quantizer of an operator whose codes a clip bounds comes after the clip.
    if (node.users().size() == 1 && bounds_codes(*node.users()[0], tensor)) return false;
    // An operator that passes on the codes of its input computes on exact values already.
    for (const graph::Node* input : node.inputs())
        if (tensor_of(*input) == tensor) return false;
    return true;
}

INTQ_INLINE void ExactForward::check_dropout() const {
    for (const graph::Node* node : model_.graph().nodes()) {
        const auto* dropout = dynamic_cast<const nn::Dropout*>(graph::module_of(*node, model_));
        if (dropout != nullptr && dropout->is_active() && model_.is_quantized(*node))
            throw Error(graph::describe(*node, model_.graph()),
                        "a Dropout between quantizers has no place in exact simulation; call its eval()");
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training)
#endif  // INTQ_TRAINING_EXACT_FORWARD_HPP
