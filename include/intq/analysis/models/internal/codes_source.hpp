// SPDX-License-Identifier: MIT
//
// The sources of an AnalysedModel that computes on codes: an exact simulation, and a program. Layer: analysis.
#ifndef INTQ_ANALYSIS_MODELS_INTERNAL_CODES_SOURCE_HPP
#define INTQ_ANALYSIS_MODELS_INTERNAL_CODES_SOURCE_HPP

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "intq/analysis/models/model_source.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/runtime/program.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// The steps of a converted model, each run by its kernel. Its owner has one run at a time.
class ExactSource : public ModelSource {
public:
    explicit ExactSource(std::unique_ptr<quantization::ExactSimulation> simulation);

    INTQ_INLINE std::unique_ptr<ModelRun> run(std::vector<nn::Value> inputs) override;
    INTQ_INLINE std::vector<std::string> input_names() const override;

    quantization::ExactSimulation& simulation() const noexcept { return *simulation_; }
    /// The operator of a step; none for quantize and dequantize steps that are not stubs.
    std::optional<std::size_t> operator_at(std::size_t step) const { return at_.at(step); }
    std::size_t producer(int tensor) const;
    /// Names the members of fused layers, which a converted model does not know.
    void take_members(quantization::PreparedModel& model);

private:
    std::unique_ptr<quantization::ExactSimulation> simulation_;
    std::vector<std::optional<std::size_t>> at_;
    std::map<int, std::size_t> producers_;
};

/// The instructions of a program, grouped by layer, and the operators in float behind it.
class ProgramSource : public ModelSource {
public:
    explicit ProgramSource(const quantization::LoweredModel& model);

    INTQ_INLINE std::unique_ptr<ModelRun> run(std::vector<nn::Value> inputs) override;
    INTQ_INLINE std::vector<std::string> input_names() const override;

    const quantization::LoweredModel& model() const noexcept { return model_; }
    /// The last instruction of each operator.
    const std::vector<std::size_t>& last_instructions() const noexcept { return last_; }
    const std::map<std::int32_t, std::size_t>& producers() const noexcept { return producers_; }
    ModelSource* tail() const noexcept { return tail_.get(); }

private:
    quantization::LoweredModel model_;
    std::vector<std::size_t> last_;
    std::map<std::int32_t, std::size_t> producers_;  // of tensors: operators
    std::shared_ptr<ModelSource> tail_;
};

std::shared_ptr<ModelSource> make_exact_source(quantization::PreparedModel& model, const kernels::KernelTable& table,
                                               index_t max_batch);
std::shared_ptr<ModelSource> make_exact_source(const quantization::QuantizedGraph& model,
                                               const kernels::KernelTable& table, index_t max_batch);
std::shared_ptr<ModelSource> make_program_source(const quantization::LoweredModel& model);

/// The tensors of inputs; throws for anything else.
std::vector<Tensor> input_tensors(const std::vector<nn::Value>& inputs);

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_models)

#    include <algorithm>
#    include <cstdint>
#    include <utility>

#    include "intq/analysis/models/internal/graph_source.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/fusion.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/program/kept_outputs.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/float_step.hpp"
#    include "intq/quantization/operators/quantize.hpp"
#    include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

INTQ_INLINE std::vector<Tensor> input_tensors(const std::vector<nn::Value>& inputs) {
    std::vector<Tensor> tensors;
    for (const nn::Value& input : inputs) tensors.push_back(input.tensor());
    return tensors;
}

INTQ_INLINE nn::Value value_of_outputs(const std::vector<Tensor>& outputs) {
    if (outputs.size() == 1) return outputs.front();
    return nn::Value(nn::Value::Tuple(outputs.begin(), outputs.end()));
}

// --- exact simulation -----------------------------------------------------------------------------------------------

class ExactRun : public ModelRun {
public:
    ExactRun(const ExactSource& source, const std::vector<nn::Value>& inputs) : source_(source) {
        source.simulation().begin(input_tensors(inputs));
    }

    bool next(AnalysedCall& call) override {
        call = AnalysedCall();
        const auto& nodes = simulation().quantized().nodes;
        while (step_ < nodes.size()) {
            const quantization::QuantizedNode& node = nodes[step_];
            const auto index = source_.operator_at(step_);
            simulation().step(step_++);
            if (!index) continue;
            call.index = *index;
            for (const int input : node.inputs)
                for (Tensor& tensor : real_tensors(input))
                    call.inputs.push_back({std::move(tensor), source_.producer(input)});
            call.outputs = real_tensors(node.output);
            add_parameters(node, call);
            return true;
        }
        return false;
    }

    nn::Value output() override {
        while (step_ < simulation().quantized().nodes.size()) simulation().step(step_++);
        return value_of_outputs(simulation().outputs());
    }

private:
    quantization::ExactSimulation& simulation() const { return source_.simulation(); }

    std::vector<Tensor> real_tensors(int index) const {
        const quantization::QuantizedTensor& known = simulation().quantized().tensor(index);
        std::vector<Tensor> tensors = nn::tensors_of(simulation().value(index));
        for (Tensor& tensor : tensors) {
            if (known.dtype != DType::float32) tensor.set_qparams(known.qparams);
            tensor = real_values(tensor);
        }
        return tensors;
    }

    static void add_parameters(const quantization::QuantizedNode& node, AnalysedCall& call) {
        const auto* step = node.as<quantization::WeightedStep>();
        if (step == nullptr) return;
        Tensor weight = step->weight;
        weight.set_qparams(step->weight_qparams);
        call.parameters.push_back({"weight", real_values(weight)});
        if (step->bias.defined()) call.parameters.push_back({"bias", step->bias});
    }

    const ExactSource& source_;
    std::size_t step_ = 0;
};

INTQ_INLINE ExactSource::ExactSource(std::unique_ptr<quantization::ExactSimulation> simulation)
    : simulation_(std::move(simulation)) {
    const quantization::QuantizedGraph& graph = simulation_->quantized();
    for (const quantization::QuantizedNode& node : graph.nodes) {
        const bool is_between =
            node.type == "Quantize" || node.type == "DeQuantize" || node.as<quantization::ConstantStep>() != nullptr;
        at_.push_back(is_between ? std::nullopt : std::optional(operators_.size()));
        if (is_between) continue;
        AnalysedOperator op{node.module.empty() ? node.name : node.module, node.type, graph.output(node).name};
        op.has_weight = node.as<quantization::WeightedStep>() != nullptr;
        op.call = "%" + node.name + " = " + node.type;
        for (const int input : node.inputs) op.inputs.push_back(producer(input));
        producers_[node.output] = operators_.size();
        operators_.push_back(std::move(op));
    }
}

INTQ_INLINE std::size_t ExactSource::producer(int tensor) const {
    const auto found = producers_.find(tensor);
    return found == producers_.end() ? OperatorInput::none : found->second;
}

INTQ_INLINE void ExactSource::take_members(quantization::PreparedModel& model) {
    for (const graph::Node* node : model.graph().nodes()) {
        const auto* fused = dynamic_cast<const nn::FusedFrom*>(graph::module_of(*node, model));
        if (fused == nullptr) continue;
        for (AnalysedOperator& op : operators_)
            if (op.mod_name == node->target()) op.members = fused->members_at(node->target());
    }
}

INTQ_INLINE std::unique_ptr<ModelRun> ExactSource::run(std::vector<nn::Value> inputs) {
    return std::make_unique<ExactRun>(*this, inputs);
}

INTQ_INLINE std::vector<std::string> ExactSource::input_names() const {
    std::vector<std::string> names;
    for (const int input : simulation_->quantized().inputs)
        names.push_back(simulation_->quantized().tensor(input).name);
    return names;
}

INTQ_INLINE std::shared_ptr<ModelSource> make_exact_source(quantization::PreparedModel& model,
                                                           const kernels::KernelTable& table, index_t max_batch) {
    const auto source =
        std::make_shared<ExactSource>(std::make_unique<quantization::ExactSimulation>(model, table, max_batch));
    source->take_members(model);
    return source;
}

INTQ_INLINE std::shared_ptr<ModelSource> make_exact_source(const quantization::QuantizedGraph& model,
                                                           const kernels::KernelTable& table, index_t max_batch) {
    return std::make_shared<ExactSource>(std::make_unique<quantization::ExactSimulation>(model, table, max_batch));
}

// --- program --------------------------------------------------------------------------------------------------------

class ProgramRun : public ModelRun {
public:
    ProgramRun(const ProgramSource& source, const std::vector<nn::Value>& inputs)
        : source_(source), inputs_(input_tensors(inputs)), kept_(program(), samples()) {
        outputs_ = source.model().whole_program().run(inputs_, serial, kept_.hook());
        if (source.tail() != nullptr) tail_ = source.tail()->run({outputs_.front()});
    }

    bool next(AnalysedCall& call) override {
        call = AnalysedCall();
        const auto& last = source_.last_instructions();
        if (next_ < last.size()) {
            call.index = next_;
            const runtime::Instruction& instruction = program().instructions[last[next_++]];
            for (const std::int32_t operand : program().operands_of(instruction)) add_input(operand, call);
            call.outputs.push_back(real(instruction.output));
            return true;
        }
        if (tail_ == nullptr || !tail_->next(call)) return false;
        call.index += last.size();
        for (OperatorInput& input : call.inputs)
            if (input.producer != OperatorInput::none) input.producer += last.size();
        return true;
    }

    nn::Value output() override { return tail_ == nullptr ? value_of_outputs(outputs_) : tail_->output(); }

private:
    const runtime::Program& program() const { return source_.model().whole_program().program(); }

    index_t samples() const {
        if (inputs_.empty() || inputs_.front().rank() == 0) throw Error("a program takes batches of samples");
        return inputs_.front().extent(0);
    }

    void add_input(std::int32_t tensor, AnalysedCall& call) const {
        const auto found = source_.producers().find(tensor);
        call.inputs.push_back({real(tensor), found == source_.producers().end() ? OperatorInput::none : found->second});
    }

    Tensor real(std::int32_t index) const {
        const auto& given = program().inputs;
        for (std::size_t i = 0; i < given.size(); ++i)
            if (given[i] == index) return real_values(inputs_[i]);
        if (const auto written = kept_.tensor(index)) return real_values(*written);
        throw Error("the program has no tensor " + std::to_string(index));
    }

    const ProgramSource& source_;
    std::vector<Tensor> inputs_, outputs_;
    program::KeptOutputs kept_;
    std::unique_ptr<ModelRun> tail_;
    std::size_t next_ = 0;
};

INTQ_INLINE ProgramSource::ProgramSource(const quantization::LoweredModel& model) : model_(model) {
    const runtime::Program& program = model_.whole_program().program();
    std::map<std::string, std::size_t> last;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) last[program.instructions[i].name] = i;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        const runtime::Instruction& instruction = program.instructions[i];
        if (last.at(instruction.name) != i) continue;
        AnalysedOperator op{instruction.name, instruction.type, instruction.name};
        op.call = "instruction " + std::to_string(i) + ": " + name_of(instruction.op);
        op.has_weight = instruction.op == OpKind::conv2d || instruction.op == OpKind::linear;
        for (const std::int32_t operand : program.operands_of(instruction)) {
            const auto found = producers_.find(operand);
            op.inputs.push_back(found == producers_.end() ? OperatorInput::none : found->second);
        }
        producers_[instruction.output] = operators_.size();
        operators_.push_back(std::move(op));
        last_.push_back(i);
    }
    if (model_.tail() == nullptr) return;
    tail_ = make_graph_source(model_.tail(), {});
    for (AnalysedOperator op : tail_->operators()) {
        for (std::size_t& input : op.inputs)
            if (input != OperatorInput::none) input += last_.size();
        operators_.push_back(std::move(op));
    }
}

INTQ_INLINE std::unique_ptr<ModelRun> ProgramSource::run(std::vector<nn::Value> inputs) {
    return std::make_unique<ProgramRun>(*this, inputs);
}

INTQ_INLINE std::vector<std::string> ProgramSource::input_names() const {
    std::vector<std::string> names;
    const runtime::Program& program = model_.whole_program().program();
    for (const std::int32_t input : program.inputs) names.emplace_back(program.tensor(input).name);
    return names;
}

INTQ_INLINE std::shared_ptr<ModelSource> make_program_source(const quantization::LoweredModel& model) {
    return std::make_shared<ProgramSource>(model);
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_models)
#endif  // INTQ_ANALYSIS_MODELS_INTERNAL_CODES_SOURCE_HPP
