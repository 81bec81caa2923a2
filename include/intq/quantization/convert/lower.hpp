// SPDX-License-Identifier: MIT
//
// lower: from a converted model to a program for one target and backend. Layer: quantization
// (docs/design.md section 6).
#ifndef INTQ_QUANTIZATION_CONVERT_LOWER_HPP
#define INTQ_QUANTIZATION_CONVERT_LOWER_HPP

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "intq/core/executor.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/program/constant_channels.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/program/program_copy.hpp"
#include "intq/quantization/operators/image_input.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/runtime/execute.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A program, and the float operators behind it if the model ends in some (a softmax).
///
/// Immutable, so any number of threads may run one object.
class LoweredModel {
public:
    /// A program without the converted model that it was made from.
    ///
    /// @param whole  see whole_program(); null: the program
    LoweredModel(std::shared_ptr<program::OwnedProgram> program, std::shared_ptr<graph::GraphModule> tail,
                 std::shared_ptr<program::OwnedProgram> whole = nullptr);
    /// @param whole      see whole_program()
    /// @param quantized  the converted model; not kept
    /// @param tensors    see program_tensors()
    LoweredModel(std::shared_ptr<program::OwnedProgram> program, std::shared_ptr<program::OwnedProgram> whole,
                 std::shared_ptr<graph::GraphModule> tail, const QuantizedGraph& quantized,
                 std::vector<std::int32_t> tensors);

    /// @param inputs  float32, or uint8 for pixels, one for each input of the model, (N, …) with the same N
    /// @param hook    called after every instruction of every batch
    /// @return the model's outputs for N samples
    std::vector<Tensor> run(std::span<const Tensor> inputs, const Executor& executor = serial,
                            runtime::InstructionHook hook = {}) const;
    /// The same for one input and one output.
    ///
    /// @throws Error for a model with a different number of inputs or outputs
    Tensor run(const Tensor& images, const Executor& executor = serial, runtime::InstructionHook hook = {}) const;

    const program::OwnedProgram& program() const noexcept { return *program_; }
    std::shared_ptr<program::OwnedProgram> shared_program() const noexcept { return program_; }
    /// The program with all its channels and operators, for whoever looks at the values of every layer: program() where
    /// nothing was dropped from it. Both compute the same outputs.
    const program::OwnedProgram& whole_program() const noexcept { return *whole_; }
    /// Null if the program computes the model's output.
    const std::shared_ptr<graph::GraphModule>& tail() const noexcept { return tail_; }
    /// For each tensor of the converted model the tensor of whole_program() that holds its values; -1 for one that no
    /// instruction writes, because its readers find the codes where they are.
    const std::vector<std::int32_t>& program_tensors() const noexcept { return tensors_; }
    /// Whether lower() made this of the converted model, or of a copy of it.
    bool is_made_of(const QuantizedGraph& quantized) const;

private:
    std::shared_ptr<program::OwnedProgram> program_, whole_;
    std::shared_ptr<graph::GraphModule> tail_;
    std::vector<std::weak_ptr<const Step>> steps_;  // of the converted model, which copies of it share
    std::vector<std::int32_t> tensors_;
};

struct LoweringOptions {
    index_t max_batch = 1;                   // images that one run of the program holds
    std::vector<ImageInput> image_inputs{};  // inputs that the program takes as pixels
    /// drop keeps the whole program beside the smaller one, where they differ; see LoweredModel::whole_program().
    program::ConstantChannels constant_channels = program::ConstantChannels::drop;
    /// Of program(); whole_program() runs on whole tensors.
    program::RowOptions rows{};
    /// Inputs into which rows are copied (index_copy), and the outputs that are the result, become state of the program
    /// (runtime::StatePair): codes that stay in the arena between runs, which program::Session and generated headers
    /// make use of. The programs take and give these codes in place of real numbers.
    bool keeps_state = false;
};

/// An input that takes rows (index_copy) and is no state where LoweringOptions::keeps_state asks for it.
struct InputThatIsNoState {
    std::string name;
    std::string reason;  // which names the other reader, or what the result lacks
};

/// The inputs of a converted model that take rows and cannot be state, each with the first reason.
std::vector<InputThatIsNoState> inputs_that_are_no_state(const QuantizedGraph& quantized);

/// Lowers a converted model.
///
/// Instructions have the qualified names and types of the modules that they come from. A linear layer behind a flatten
/// reads the image itself. Throws for an operator that stays in float anywhere but at the end, naming it; for anything
/// that the target or a kernel refuses, with the layer's name; and as find_image_inputs() does.
///
/// Channels that no output depends on are left out, and so are operators that would copy their input
/// (drop_constant_channels()); program::dropped_work() says what that saved.
///
/// @param table  kernels of the target that the model was converted for, on the backend that is to run
LoweredModel lower(const QuantizedGraph& quantized, const kernels::KernelTable& table, const LoweringOptions& options);
/// The same for inputs of real numbers.
LoweredModel lower(const QuantizedGraph& quantized, const kernels::KernelTable& table, index_t max_batch = 1);

namespace detail {

bool is_float_step(const QuantizedNode& node);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <algorithm>
#    include <cstddef>
#    include <new>
#    include <set>

#    include "intq/io/error.hpp"
#    include "intq/quantization/convert/internal/states.hpp"
#    include "intq/quantization/operators/float_step.hpp"
#    include "intq/quantization/operators/index_copy.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/quantize.hpp"
#    include "intq/quantization/operators/reference.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE LoweredModel::LoweredModel(std::shared_ptr<program::OwnedProgram> program,
                                       std::shared_ptr<graph::GraphModule> tail,
                                       std::shared_ptr<program::OwnedProgram> whole)
    : program_(std::move(program)), whole_(whole != nullptr ? std::move(whole) : program_), tail_(std::move(tail)) {}

INTQ_INLINE LoweredModel::LoweredModel(std::shared_ptr<program::OwnedProgram> program,
                                       std::shared_ptr<program::OwnedProgram> whole,
                                       std::shared_ptr<graph::GraphModule> tail, const QuantizedGraph& quantized,
                                       std::vector<std::int32_t> tensors)
    : program_(std::move(program)), whole_(std::move(whole)), tail_(std::move(tail)), tensors_(std::move(tensors)) {
    for (const QuantizedNode& node : quantized.nodes) steps_.emplace_back(node.step);
}

INTQ_INLINE bool LoweredModel::is_made_of(const QuantizedGraph& quantized) const {
    return tensors_.size() == quantized.tensors.size() &&
           std::equal(steps_.begin(), steps_.end(), quantized.nodes.begin(), quantized.nodes.end(),
                      [](const std::weak_ptr<const Step>& step, const QuantizedNode& node) {
                          return !step.owner_before(node.step) && !node.step.owner_before(step);
                      });
}

INTQ_INLINE Tensor LoweredModel::run(const Tensor& images, const Executor& executor,
                                     runtime::InstructionHook hook) const {
    const std::vector<Tensor> outputs = run(std::span<const Tensor>(&images, 1), executor, hook);
    if (outputs.size() == 1) return outputs.front();
    throw Error("the model has " + std::to_string(outputs.size()) +
                " outputs; run it on a span of inputs, which returns all of them");
}

INTQ_INLINE std::vector<Tensor> LoweredModel::run(std::span<const Tensor> inputs, const Executor& executor,
                                                  runtime::InstructionHook hook) const {
    std::vector<Tensor> outputs = program_->run(inputs, executor, hook);
    if (tail_ != nullptr) outputs = nn::tensors_of((*tail_)(outputs.front()));  // it reads one output
    return outputs;
}

namespace detail {

INTQ_INLINE bool is_float_step(const QuantizedNode& node) { return node.as<RealStep>() != nullptr; }

/// The operators in float at the end of a model, as a separate model; without nodes if there are none.
INTQ_INLINE QuantizedGraph split_tail(const QuantizedGraph& quantized) {
    QuantizedGraph tail;
    std::set<int> made, read;
    for (const QuantizedNode& node : quantized.nodes) {
        if (is_constant_of_codes(quantized, node)) continue;
        if (!is_float_step(node)) {
            for (const int input : node.inputs)
                if (made.count(input) != 0 && quantized_constant(quantized, node) == nullptr)
                    throw Error("lower: " + node.layer() + " (" + node.type + ")",
                                "it reads \"" + quantized.tensor(input).name +
                                    "\", which stays in float; a program executes integers only, so operators in float "
                                    "may only be at the end of a model; a HybridModel runs others in parts");
            continue;
        }
        tail.nodes.push_back(node);
        made.insert(node.output);
        for (const int input : node.inputs)
            if (made.count(input) == 0) read.insert(input);
    }
    if (tail.nodes.empty()) return tail;
    const bool reads_inputs = std::any_of(quantized.inputs.begin(), quantized.inputs.end(),
                                          [&](int input) { return read.count(input) != 0; });
    const bool is_behind = std::all_of(quantized.outputs.begin(), quantized.outputs.end(),
                                       [&](int output) { return made.count(output) != 0 || read.count(output) != 0; });
    if (read.size() != 1 || reads_inputs || !is_behind)
        throw Error("lower: " + tail.nodes[0].layer() + " (" + tail.nodes[0].type + ")",
                    "it stays in float, and the operators in float are not between one output of the program and the "
                    "outputs of the model; a program executes integers only");
    tail.target = quantized.target;
    tail.tensors = quantized.tensors;
    tail.inputs.assign(read.begin(), read.end());
    tail.outputs = quantized.outputs;
    return tail;
}

INTQ_INLINE std::shared_ptr<program::OwnedProgram> lower_steps(const QuantizedGraph& quantized,
                                                               const kernels::KernelTable& table,
                                                               const LoweringOptions& options,
                                                               const std::vector<int>& outputs,
                                                               const std::vector<StatefulGraph::Pair>& states,
                                                               std::vector<std::int32_t>& tensors) {
    Lowering lowering(quantized, table, options.max_batch, options.image_inputs);
    for (const int input : quantized.inputs) {
        const auto is_it = [&](const StatefulGraph::Pair& state) { return state.input == input; };
        if (std::any_of(states.begin(), states.end(), is_it))
            lowering.add_state(input);
        else
            lowering.add_input(input);
    }
    for (const QuantizedNode& node : quantized.nodes)
        if (!is_float_step(node)) node.step->lower(lowering, node);
    std::vector<std::int32_t> results;
    for (const int output : outputs) {
        if (std::find(quantized.inputs.begin(), quantized.inputs.end(), output) != quantized.inputs.end())
            throw Error("lower: the model returns its input; there is nothing to execute");
        results.push_back(lowering.output(output));
    }
    for (const StatefulGraph::Pair& state : states)
        lowering.builder().state_pair(lowering.output(state.input), lowering.output(state.output));
    for (std::size_t i = 0; i < quantized.tensors.size(); ++i)
        tensors.push_back(lowering.written(static_cast<int>(i)).value_or(-1));
    return lowering.builder().finish(std::move(results));
}

}  // namespace detail

INTQ_INLINE std::vector<InputThatIsNoState> inputs_that_are_no_state(const QuantizedGraph& quantized) {
    std::vector<InputThatIsNoState> result;
    for (const QuantizedNode& node : quantized.nodes) {
        if (node.as<IndexCopyStep>() == nullptr) continue;
        const detail::CopyEnds ends = detail::ends_of_copy(quantized, node);
        if (ends.input < 0) continue;
        const std::string reason = detail::reason_against_state(quantized, node, ends);
        const std::string& name = quantized.tensor(ends.input).name;
        const auto is_same = [&](const InputThatIsNoState& known) { return known.name == name; };
        if (!reason.empty() && std::none_of(result.begin(), result.end(), is_same)) result.push_back({name, reason});
    }
    return result;
}

INTQ_INLINE LoweredModel lower(const QuantizedGraph& given, const kernels::KernelTable& table,
                               const LoweringOptions& options) {
    const detail::StatefulGraph stateful =
        options.keeps_state ? detail::with_states(given) : detail::StatefulGraph{given, {}};
    const QuantizedGraph& quantized = stateful.graph;
    const QuantizedGraph tail = detail::split_tail(quantized);
    const std::vector<int>& outputs = tail.nodes.empty() ? quantized.outputs : tail.inputs;
    std::vector<std::int32_t> tensors;
    std::shared_ptr<program::OwnedProgram> program, whole;
    try {
        program = whole = detail::lower_steps(quantized, table, options, outputs, stateful.states, tensors);
        if (options.constant_channels == program::ConstantChannels::drop)
            program = program::drop_constant_channels(whole).program;
        if (options.rows.mode != program::RowMode::off)
            program = program::copy_program(program->program(), table, table, options.rows);
    } catch (const std::bad_alloc&) {
        throw Error("lower: there is no memory for a program of max_batch " + std::to_string(options.max_batch));
    }
    return {std::move(program), std::move(whole), tail.nodes.empty() ? nullptr : make_reference(tail), quantized,
            std::move(tensors)};
}

INTQ_INLINE LoweredModel lower(const QuantizedGraph& quantized, const kernels::KernelTable& table, index_t max_batch) {
    return lower(quantized, table, LoweringOptions{max_batch, {}});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_LOWER_HPP
