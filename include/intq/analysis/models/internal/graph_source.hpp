// SPDX-License-Identifier: MIT
//
// The source of an AnalysedModel that is a graph: a float model, a prepared one, or one converted module by module.
// Layer: analysis.
#ifndef INTQ_ANALYSIS_MODELS_INTERNAL_GRAPH_SOURCE_HPP
#define INTQ_ANALYSIS_MODELS_INTERNAL_GRAPH_SOURCE_HPP

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "intq/analysis/models/model_source.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/graph/interpreter.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/tensor/float_sums.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {
class FakeQuantize;
class InputGridFakeQuantize;
class Quantizer;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// Puts the modules of a model into evaluation and its quantizers into the state `validation`, and restores each one's
/// state.
class ValidationScope {
public:
    /// @throws Error naming the quantizer that saw no data
    explicit ValidationScope(nn::Module& model);
    ValidationScope(const ValidationScope&) = delete;
    ValidationScope& operator=(const ValidationScope&) = delete;
    ~ValidationScope();

private:
    struct QuantizerState {
        quantization::FakeQuantize* quantizer;
        bool observes, rounds;
    };
    std::vector<std::pair<nn::Module*, bool>> modes_;  // parents first
    std::vector<QuantizerState> quantizers_;
    std::vector<std::pair<quantization::InputGridFakeQuantize*, bool>> following_;
};

/// The quantizer that is the only reader of a node, so that its output is the node's value; null if there is none.
const quantization::Quantizer* quantizer_behind(const graph::Node& node, nn::Module& root);

class GraphSource : public ModelSource {
public:
    GraphSource(const nn::ModulePtr& model, const graph::TraceOptions& trace);

    INTQ_INLINE std::unique_ptr<ModelRun> run(std::vector<nn::Value> inputs) override;
    INTQ_INLINE std::vector<std::string> input_names() const override;
    INTQ_INLINE nn::ModulePtr module() const override { return model_; }

    /// Shares its modules with the original model.
    const std::shared_ptr<graph::GraphModule>& graph() const noexcept { return graph_; }
    /// The operator of a node; none for a node that is not listed.
    std::optional<std::size_t> operator_at(const graph::Node& node) const;
    /// The operator whose output is a node's value: its own, or the one before its quantizer.
    std::size_t producer(const graph::Node& node) const;

private:
    void list_operators();

    nn::ModulePtr model_;
    std::shared_ptr<graph::GraphModule> graph_;
    std::map<const graph::Node*, std::size_t> at_, producers_;
};

/// A run of a graph, and the state in which its modules are meanwhile.
class GraphModelRun : public ModelRun {
public:
    GraphModelRun(const GraphSource& source, std::vector<nn::Value> inputs);

    INTQ_INLINE bool next(AnalysedCall& call) override;
    INTQ_INLINE nn::Value output() override;

private:
    const nn::Value& step();

    const GraphSource& source_;
    ValidationScope state_;
    FloatSums sums_;
    graph::GraphRun run_;
};

std::shared_ptr<ModelSource> make_graph_source(const nn::ModulePtr& model, const graph::TraceOptions& trace);

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_models)

#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/grid_choice.hpp"
#    include "intq/quantization/fuse/fuse_fx.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

INTQ_INLINE ValidationScope::ValidationScope(nn::Module& model) {
    // The own quantizers of operators that keep the grid of their input, or were never called on codes.
    std::set<const quantization::FakeQuantize*> idle;
    for (const auto& module : model.named_modules())
        if (const auto* choice = dynamic_cast<const quantization::GridChoiceFakeQuantize*>(module.value))
            idle.insert(&choice->own());
    for (const auto& module : model.named_modules()) {
        modes_.emplace_back(module.value, module.value->training());
        if (auto* following = dynamic_cast<quantization::InputGridFakeQuantize*>(module.value))
            following_.emplace_back(following, following->is_rounding());
        auto* quantizer = dynamic_cast<quantization::FakeQuantize*>(module.value);
        if (quantizer == nullptr) continue;
        if (!quantizer->has_qparams() && idle.count(quantizer) == 0)
            throw Error(module.name, "this quantizer saw no data; calibrate the model before it is analysed");
        quantizers_.push_back({quantizer, quantizer->observer_enabled(), quantizer->fake_quant_enabled()});
    }
    model.eval();
    if (!quantizers_.empty()) quantization::set_fake_quantize(model, quantization::FakeQuantState::validation);
}

INTQ_INLINE ValidationScope::~ValidationScope() {
    for (const auto& [module, training] : modes_) module->train(training);
    for (const QuantizerState& state : quantizers_) {
        state.quantizer->enable_observer(state.observes);
        state.quantizer->enable_fake_quant(state.rounds);
    }
    for (const auto& [quantizer, rounds] : following_) quantizer->enable_fake_quant(rounds);
}

INTQ_INLINE const quantization::Quantizer* quantizer_behind(const graph::Node& node, nn::Module& root) {
    if (node.users().size() != 1 || node.users().front()->inputs().front() != &node) return nullptr;
    return dynamic_cast<const quantization::Quantizer*>(graph::module_of(*node.users().front(), root));
}

INTQ_INLINE GraphSource::GraphSource(const nn::ModulePtr& model, const graph::TraceOptions& trace) : model_(model) {
    if (const auto* traced = dynamic_cast<const graph::GraphModule*>(model.get()))
        graph_ = std::make_shared<graph::GraphModule>(*traced);
    else
        graph_ = graph::symbolic_trace(model, trace);
    quantization::split_add_relu(*graph_);
    list_operators();
}

INTQ_INLINE std::optional<std::size_t> GraphSource::operator_at(const graph::Node& node) const {
    const auto found = at_.find(&node);
    return found == at_.end() ? std::nullopt : std::optional(found->second);
}

INTQ_INLINE std::size_t GraphSource::producer(const graph::Node& node) const {
    const auto found = producers_.find(&node);
    return found == producers_.end() ? OperatorInput::none : found->second;
}

INTQ_INLINE void GraphSource::list_operators() {
    for (const graph::Node* node : graph_->graph().nodes()) {
        using graph::Op;
        const nn::Module* const module = graph::module_of(*node, *graph_);
        const bool is_call =
            node->op() == Op::call_module || node->op() == Op::call_function || node->op() == Op::call_method;
        if (dynamic_cast<const nn::Identity*>(module) != nullptr) {
            // The Identity that fusion left in a member's slot passes a value on.
            producers_[node] = producer(*node->inputs().front());
            continue;
        }
        if (!is_call || dynamic_cast<const quantization::Quantizer*>(module) != nullptr) continue;
        AnalysedOperator op{node->op() == Op::call_module ? node->target() : node->name(),
                            graph::type_of(*node, *graph_), node->name()};
        if (node->method() != "forward") op.op_type += "." + node->method();
        op.call = graph::describe(*node, graph_->graph());
        op.call = op.call.substr(op.call.find('%'));
        if (const auto* fused = dynamic_cast<const nn::FusedFrom*>(module))
            op.members = fused->members_at(node->target());
        op.has_weight = dynamic_cast<const nn::Weighted*>(module) != nullptr;
        for (const graph::Node* input : node->operands()) op.inputs.push_back(producer(*input));
        const std::size_t index = operators_.size();
        at_[node] = producers_[node] = index;
        if (quantizer_behind(*node, *graph_) != nullptr) producers_[node->users().front()] = index;
        operators_.push_back(std::move(op));
    }
}

INTQ_INLINE std::vector<std::string> GraphSource::input_names() const { return graph_->input_names(); }

INTQ_INLINE std::unique_ptr<ModelRun> GraphSource::run(std::vector<nn::Value> inputs) {
    return std::make_unique<GraphModelRun>(*this, std::move(inputs));
}

INTQ_INLINE FloatSums sums_of(const nn::Module& model) {
    const nn::FloatSumsOfModel sums(model);
    return current_float_sums();
}

INTQ_INLINE GraphModelRun::GraphModelRun(const GraphSource& source, std::vector<nn::Value> inputs)
    : source_(source),
      state_(*source.graph()),
      sums_(sums_of(*source.graph())),
      run_(source.graph()->graph(), *source.graph(), inputs) {}

INTQ_INLINE const nn::Value& GraphModelRun::step() {
    const FloatSumsScope sums(sums_);
    return run_.step();
}

INTQ_INLINE nn::Value GraphModelRun::output() {
    const FloatSumsScope sums(sums_);
    return run_.finish();
}

/// Weight and bias of a layer, as a call uses them.
INTQ_INLINE std::vector<nn::Named<Tensor>> parameters_of(const nn::Module* module,
                                                         const std::vector<nn::Value>& arguments) {
    std::vector<nn::Named<Tensor>> parameters;
    if (module == nullptr) return parameters;
    for (const auto& parameter : module->parameters()) {
        if (parameter.name != "weight" && parameter.name != "bias") continue;
        const auto* prepared = dynamic_cast<const quantization::PreparedWeight*>(module);
        const bool is_quantized = prepared != nullptr && parameter.name == "weight";
        parameters.push_back(
            {parameter.name,
             real_values(is_quantized ? prepared->quantized_weight(nn::Arguments(std::span<const nn::Value>(arguments)))
                                      : parameter.value)});
    }
    return parameters;
}

INTQ_INLINE bool GraphModelRun::next(AnalysedCall& call) {
    nn::Module& root = *source_.graph();
    call = AnalysedCall();
    while (!run_.is_done()) {
        const graph::Node& node = run_.next();
        const auto index = source_.operator_at(node);
        if (!index) {
            step();
            continue;
        }
        call.index = *index;
        const std::vector<nn::Value> arguments = run_.arguments();
        std::size_t operand = 0;
        const auto& producers = source_.operators()[*index].inputs;
        for (const nn::Value& argument : arguments)
            for (const Tensor& tensor : nn::tensors_of(argument)) {
                const std::size_t producer = operand < producers.size() ? producers[operand++] : OperatorInput::none;
                call.inputs.push_back({real_values(tensor), producer});
            }
        call.parameters = parameters_of(graph::module_of(node, root), arguments);
        const nn::Value* value = &step();
        const bool is_quantized = quantizer_behind(node, root) != nullptr && !run_.is_done();
        if (is_quantized && &run_.next() == node.users().front()) value = &step();
        for (const Tensor& tensor : nn::tensors_of(*value)) call.outputs.push_back(real_values(tensor));
        return true;
    }
    return false;
}

INTQ_INLINE std::shared_ptr<ModelSource> make_graph_source(const nn::ModulePtr& model,
                                                           const graph::TraceOptions& trace) {
    return std::make_shared<GraphSource>(model, trace);
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_models)
#endif  // INTQ_ANALYSIS_MODELS_INTERNAL_GRAPH_SOURCE_HPP
