// SPDX-License-Identifier: MIT
//
// Exact simulation: a prepared graph whose quantized operators are run by the kernels of a program. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_CONVERT_EXACT_SIMULATION_HPP
#define INTQ_QUANTIZATION_CONVERT_EXACT_SIMULATION_HPP

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "intq/kernels/table/rows.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The forward pass of a prepared model in the target's integers, one operator at a time.
///
/// The model is read once, when the simulation is made: weights and scales are those of that moment. Each step is a
/// separate program, so that every value between two operators can be read. The codes are the same as the whole
/// program's, whose fusions, layouts and memory plan change no bit.
///
/// A run keeps its values in the object, so each thread needs its own object.
class ExactSimulation {
public:
    /// Throws as convert_fx() and lower() do.
    ///
    /// @param table      kernels of the target that the model was prepared for
    /// @param max_batch  samples of one run
    ExactSimulation(PreparedModel& model, const kernels::KernelTable& table, index_t max_batch);
    /// The same for a converted model.
    ExactSimulation(QuantizedGraph quantized, const kernels::KernelTable& table, index_t max_batch);

    /// @param inputs  one float32 tensor for each input of the model, at most max_batch samples
    /// @return the model's outputs
    std::vector<Tensor> run(std::span<const Tensor> inputs);
    /// The same, step by step: begin(), step() for each node of quantized() in order, and outputs().
    void begin(std::span<const Tensor> inputs);
    void step(std::size_t node);
    std::vector<Tensor> outputs() const;

    /// A tensor of quantized() in the last run.
    const Tensor& tensor(int index) const { return value(index).tensor(); }
    /// The same, but an operator in float may have returned a tuple.
    const nn::Value& value(int index) const { return values_.at(static_cast<std::size_t>(index)); }
    /// The value of a node of the prepared graph in the last run: codes, accumulators, or real values. An operator and
    /// the quantizer behind it share their codes; a QuantStub passes real values on. Throws for a node without such a
    /// value, such as one in float that returns a tuple.
    Tensor codes_of(const std::string& node) const;
    /// The same as real numbers, carrying their qparams: the node's value in the simulation, if that is a tensor.
    std::optional<Tensor> value_of(const std::string& node) const;

    const QuantizedGraph& quantized() const noexcept { return quantized_; }

private:
    std::optional<Tensor> real(int tensor) const;
    Tensor for_each_sample(const Tensor& constant) const;

    QuantizedGraph quantized_;
    std::vector<std::shared_ptr<program::OwnedProgram>> programs_;  // by node; null for a node in float
    std::vector<nn::Value> values_;                                 // by tensor; tuples of operators in float
};

/// One step as a program.
std::shared_ptr<program::OwnedProgram> lower_step(const QuantizedGraph& quantized, const QuantizedNode& node,
                                                  const kernels::KernelTable& table, index_t max_batch);

/// A float operator, which may return a tuple, or a custom module on the values of its inputs; empty for a step that a
/// program executes.
///
/// @param value_of  an input as it is: real values or codes
std::optional<nn::Value> run_on_host(const QuantizedGraph& quantized, const QuantizedNode& node,
                                     const std::function<nn::Value(int tensor)>& value_of);

/// Whether no program executes a step.
bool runs_on_host(const QuantizedGraph& quantized, const QuantizedNode& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <algorithm>
#    include <set>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/nn/float_operators/move.hpp"
#    include "intq/quantization/convert/convert_fx.hpp"
#    include "intq/quantization/convert/lower.hpp"
#    include "intq/quantization/operators/custom.hpp"
#    include "intq/quantization/operators/float_step.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/quantize.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::shared_ptr<program::OwnedProgram> lower_step(const QuantizedGraph& quantized,
                                                              const QuantizedNode& node,
                                                              const kernels::KernelTable& table, index_t max_batch) {
    Lowering lowering(quantized, table, max_batch);
    const std::set<int> inputs(node.inputs.begin(), node.inputs.end());
    for (const int input : inputs) lowering.add_input(input);
    node.step->lower(lowering, node);
    return lowering.builder().finish({lowering.output(node.output)});
}

INTQ_INLINE std::optional<nn::Value> run_on_host(const QuantizedGraph& quantized, const QuantizedNode& node,
                                                 const std::function<nn::Value(int tensor)>& value_of) {
    if (const auto* constant = node.as<ConstantStep>()) return constant->value();
    if (const auto* custom = node.as<CustomStep>()) {
        std::vector<Tensor> codes;
        for (const int input : node.inputs) codes.push_back(value_of(input).tensor());
        return custom->run(quantized, node, codes);
    }
    const auto* in_float = node.as<FloatStep>();
    if (in_float == nullptr) return std::nullopt;
    const std::function<nn::Value(const FloatArgument&)> resolve = [&](const FloatArgument& argument) -> nn::Value {
        if (argument.input >= 0) {
            nn::Value value = value_of(node.inputs.at(static_cast<std::size_t>(argument.input)));
            return argument.extent_axis < 0 ? value : nn::Value(value.tensor().extent(argument.extent_axis));
        }
        if (argument.is_samples) return value_of(quantized.inputs.at(0)).tensor().extent(0);
        if (!argument.is_list) return argument.constant;
        nn::Value::Tuple items;
        for (const FloatArgument& item : argument.list) items.push_back(resolve(item));
        return items;
    };
    const FloatCall& call = in_float->call();
    std::vector<nn::Value> arguments;
    for (const FloatArgument& argument : call.arguments) arguments.push_back(resolve(argument));
    return call.module != nullptr ? call.module->dispatch(call.method, arguments, call.traced_hooks)
                                  : call.function->evaluate(arguments);
}

INTQ_INLINE bool runs_on_host(const QuantizedGraph& quantized, const QuantizedNode& node) {
    return (detail::is_float_step(node) && !is_constant_of_codes(quantized, node)) || node.as<CustomStep>() != nullptr;
}

INTQ_INLINE ExactSimulation::ExactSimulation(PreparedModel& model, const kernels::KernelTable& table, index_t max_batch)
    : ExactSimulation(convert_fx(model), table, max_batch) {}

INTQ_INLINE ExactSimulation::ExactSimulation(QuantizedGraph quantized, const kernels::KernelTable& table,
                                             index_t max_batch)
    : quantized_(std::move(quantized)), values_(quantized_.tensors.size(), nn::Value(Tensor())) {
    for (const QuantizedNode& node : quantized_.nodes)
        programs_.push_back(runs_on_host(quantized_, node) || node.as<ConstantStep>() != nullptr
                                ? nullptr
                                : lower_step(quantized_, node, table, max_batch));
}

INTQ_INLINE std::optional<Tensor> ExactSimulation::real(int tensor) const {
    const nn::Value& value = values_.at(static_cast<std::size_t>(tensor));
    const QuantizedTensor& known = quantized_.tensor(tensor);
    if (!value.is_tensor() || !value.tensor().defined()) return std::nullopt;
    if (known.dtype == DType::float32 || known.is_ids) return value.tensor();
    Tensor result = dequantize(value.tensor(), known.qparams);
    if (known.dtype != DType::int32) result.set_qparams(known.qparams);
    return result;
}

INTQ_INLINE std::vector<Tensor> ExactSimulation::run(std::span<const Tensor> inputs) {
    begin(inputs);
    for (std::size_t i = 0; i < quantized_.nodes.size(); ++i) step(i);
    return outputs();
}

INTQ_INLINE void ExactSimulation::begin(std::span<const Tensor> inputs) {
    if (inputs.size() != quantized_.inputs.size())
        throw Error("ExactSimulation: the model takes " + std::to_string(quantized_.inputs.size()) + " inputs, given " +
                    std::to_string(inputs.size()));
    std::fill(values_.begin(), values_.end(), Tensor());
    for (std::size_t i = 0; i < inputs.size(); ++i)
        values_[static_cast<std::size_t>(quantized_.inputs[i])] = inputs[i].contiguous();
}

INTQ_INLINE void ExactSimulation::step(std::size_t at) {
    const QuantizedNode& node = quantized_.nodes.at(at);
    nn::Value& output = values_[static_cast<std::size_t>(node.output)];
    const auto value_of = [&](int tensor) { return values_[static_cast<std::size_t>(tensor)]; };
    if (auto on_host = run_on_host(quantized_, node, value_of)) {
        output = *std::move(on_host);
    } else {
        std::vector<Tensor> operands;
        const std::set<int> distinct(node.inputs.begin(), node.inputs.end());
        for (const int input : distinct) operands.push_back(value_of(input).tensor());
        if (quantized_constant(quantized_, node) != nullptr) operands[0] = for_each_sample(operands[0]);
        output = programs_[at]->run(operands)[0];
    }
}

INTQ_INLINE Tensor ExactSimulation::for_each_sample(const Tensor& constant) const {
    const nn::Value& input = values_[static_cast<std::size_t>(quantized_.inputs.at(0))];
    const index_t samples = input.tensor().extent(0);
    if (samples < 2) return constant;
    return nn::float_operators::cat(std::vector<Tensor>(static_cast<std::size_t>(samples), constant), 0);
}

INTQ_INLINE std::vector<Tensor> ExactSimulation::outputs() const {
    std::vector<Tensor> outputs;
    for (const int output : quantized_.outputs)
        for (const Tensor& tensor : nn::tensors_of(values_[static_cast<std::size_t>(output)]))
            outputs.push_back(tensor);
    return outputs;
}

INTQ_INLINE Tensor ExactSimulation::codes_of(const std::string& node) const {
    const auto found = quantized_.values.find(node);
    if (found == quantized_.values.end()) {
        std::vector<std::string> names;
        for (const auto& [name, value] : quantized_.values) names.push_back(name);
        throw Error("the simulation has no value of a node \"" + node + "\"; the nearest are " +
                    nearest_names(node, names));
    }
    const nn::Value& value = values_.at(static_cast<std::size_t>(found->second));
    if (!value.is_tensor())
        throw Error("the simulation: %" + node + " stays in float and returns " + value.kind_name());
    return value.tensor();
}

INTQ_INLINE std::optional<Tensor> ExactSimulation::value_of(const std::string& node) const {
    const auto found = quantized_.values.find(node);
    if (found == quantized_.values.end()) return std::nullopt;
    return real(found->second);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_EXACT_SIMULATION_HPP
