// SPDX-License-Identifier: MIT
//
// HybridModel: a converted model with parts that stay in float. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_CONVERT_HYBRID_HPP
#define INTQ_QUANTIZATION_CONVERT_HYBRID_HPP

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "intq/core/executor.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Alternates programs with steps on the host: float operators and custom modules.
///
/// Neighbouring steps that a program can execute are one program. It runs here; check_deployable() reports the steps
/// that no accelerator runs.
///
/// Immutable, so any number of threads may run one object, if its custom modules allow it.
class HybridModel {
public:
    /// Throws as lower() does for the steps on codes.
    ///
    /// @param table      kernels of the target that the model was converted for
    /// @param max_batch  samples that one run of a program holds
    HybridModel(QuantizedGraph quantized, const kernels::KernelTable& table, index_t max_batch = 1);

    /// @param inputs  one tensor for each input of the model, with the same number of samples
    std::vector<Tensor> run(std::span<const Tensor> inputs, const Executor& executor = serial) const;
    /// The same for one input and one output.
    ///
    /// @throws Error for a model with a different number of inputs or outputs
    Tensor run(const Tensor& input, const Executor& executor = serial) const;

    const QuantizedGraph& quantized() const noexcept { return quantized_; }
    const kernels::KernelTable& table() const noexcept { return *table_; }
    index_t max_batch() const noexcept { return max_batch_; }
    std::size_t program_count() const noexcept;

private:
    /// Either one step of the host, or a program of several.
    struct Part {
        std::size_t on_host = 0;  // the node, where there is no program
        std::vector<int> inputs{}, outputs{};
        std::shared_ptr<program::OwnedProgram> program{};
    };
    Part program_of(std::span<const QuantizedNode> nodes, const kernels::KernelTable& table, index_t max_batch) const;

    QuantizedGraph quantized_;
    const kernels::KernelTable* table_;
    index_t max_batch_;
    std::vector<Part> parts_;
};

/// Throws the Error that lists the steps that a program cannot execute; a hybrid model is not deployable to an
/// accelerator.
void check_deployable(const QuantizedGraph& quantized);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <algorithm>
#    include <cstdint>
#    include <iterator>
#    include <map>
#    include <set>
#    include <string>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/nn/model/value.hpp"
#    include "intq/quantization/convert/exact_simulation.hpp"
#    include "intq/quantization/operators/float_step.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Tensor HybridModel::run(const Tensor& input, const Executor& executor) const {
    const std::vector<Tensor> outputs = run(std::span<const Tensor>(&input, 1), executor);
    if (outputs.size() == 1) return outputs.front();
    throw Error("HybridModel: the model has " + std::to_string(outputs.size()) +
                " outputs; run it on a span of inputs, which returns all of them");
}

INTQ_INLINE void check_deployable(const QuantizedGraph& quantized) {
    std::string names;
    for (const QuantizedNode& node : quantized.nodes)
        if (runs_on_host(quantized, node) && node.as<ConstantStep>() == nullptr)
            names += (names.empty() ? "" : ", ") + node.layer() + " (" + node.type + ")";
    if (!names.empty())
        throw Error(std::string("the model is hybrid and not deployable to the target ") + quantized.target.name +
                    "; outside of a program run: " + names);
}

namespace detail {

/// Whether a step is part of a constant in codes, which each program that reads it has a copy of.
INTQ_INLINE bool makes_constant(const QuantizedGraph& quantized, const QuantizedNode& node) {
    return is_constant_of_codes(quantized, node) || quantized_constant(quantized, node) != nullptr;
}

}  // namespace detail

INTQ_INLINE HybridModel::HybridModel(QuantizedGraph quantized, const kernels::KernelTable& table, index_t max_batch)
    : quantized_(std::move(quantized)), table_(&table), max_batch_(max_batch) {
    const std::vector<QuantizedNode>& nodes = quantized_.nodes;
    const auto makes_constant = [&](const QuantizedNode& node) { return detail::makes_constant(quantized_, node); };
    const auto is_host_step = [&](const QuantizedNode& node) {
        return runs_on_host(quantized_, node) && !makes_constant(node);
    };
    for (auto first = nodes.begin(); first != nodes.end();) {
        const auto end = std::find_if(first, nodes.end(), is_host_step);
        if (!std::all_of(first, end, makes_constant)) parts_.push_back(program_of({first, end}, table, max_batch));
        if (end == nodes.end()) break;
        parts_.emplace_back();
        parts_.back().on_host = static_cast<std::size_t>(end - nodes.begin());
        first = std::next(end);
    }
}

INTQ_INLINE HybridModel::Part HybridModel::program_of(std::span<const QuantizedNode> nodes,
                                                      const kernels::KernelTable& table, index_t max_batch) const {
    std::set<int> made, read, wanted(quantized_.outputs.begin(), quantized_.outputs.end());
    for (const QuantizedNode& node : nodes) {
        if (detail::makes_constant(quantized_, node)) continue;
        for (const int input : node.inputs)
            if (made.count(input) == 0) read.insert(input);
        made.insert(node.output);
    }
    for (const QuantizedNode& node : quantized_.nodes)
        if (made.count(node.output) == 0) wanted.insert(node.inputs.begin(), node.inputs.end());
    Lowering lowering(quantized_, table, max_batch);
    for (const QuantizedNode& node : quantized_.nodes)
        if (quantized_constant(quantized_, node) != nullptr && read.erase(node.output) != 0)
            node.step->lower(lowering, node);
    Part part;
    part.inputs.assign(read.begin(), read.end());
    std::set_intersection(made.begin(), made.end(), wanted.begin(), wanted.end(), std::back_inserter(part.outputs));
    for (const int input : part.inputs) lowering.add_input(input);
    for (const QuantizedNode& node : nodes)
        if (!detail::makes_constant(quantized_, node)) node.step->lower(lowering, node);
    std::vector<std::int32_t> outputs;
    for (const int output : part.outputs) outputs.push_back(lowering.output(output));
    part.program = lowering.builder().finish(std::move(outputs));
    return part;
}

INTQ_INLINE std::size_t HybridModel::program_count() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(parts_.begin(), parts_.end(), [](const Part& part) { return part.program != nullptr; }));
}

INTQ_INLINE std::vector<Tensor> HybridModel::run(std::span<const Tensor> inputs, const Executor& executor) const {
    if (inputs.size() != quantized_.inputs.size())
        throw Error("HybridModel: the model takes " + std::to_string(quantized_.inputs.size()) + " inputs, given " +
                    std::to_string(inputs.size()));
    std::map<int, nn::Value> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) values[quantized_.inputs[i]] = inputs[i].contiguous();
    const auto value_of = [&](int tensor) { return values.at(tensor); };
    for (const Part& part : parts_) {
        if (part.program == nullptr) {
            const QuantizedNode& node = quantized_.nodes[part.on_host];
            values[node.output] = run_on_host(quantized_, node, value_of).value();
            continue;
        }
        std::vector<Tensor> operands;
        for (const int input : part.inputs) operands.push_back(value_of(input).tensor());
        const std::vector<Tensor> results = part.program->run(operands, executor);
        for (std::size_t i = 0; i < results.size(); ++i) values[part.outputs[i]] = results[i];
    }
    std::vector<Tensor> outputs;
    for (const int output : quantized_.outputs)
        for (const Tensor& tensor : nn::tensors_of(value_of(output))) outputs.push_back(tensor);
    return outputs;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_HYBRID_HPP
