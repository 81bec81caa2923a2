// SPDX-License-Identifier: MIT
//
// ConvertedModel: a converted model as a graph whose nodes are its steps, for tools that work on graphs. Layer:
// numeric_suite (docs/workflow.md section 5).
//
// Its integers are the program's: a run executes the program once, and a hook hands each node the values that its
// step's instruction wrote.
#ifndef INTQ_NUMERIC_SUITE_FX_CONVERTED_MODEL_HPP
#define INTQ_NUMERIC_SUITE_FX_CONVERTED_MODEL_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/convert/quantized_model.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/runtime/program.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

/// A step of a converted model as a module: codes that carry their scale, or real values, in and out.
class ConvertedStep : public nn::Cloneable<ConvertedStep> {
public:
    ConvertedStep(std::shared_ptr<const quantization::QuantizedGraph> quantized, std::size_t step,
                  const kernels::KernelTable& table);

    /// "quantized.ConvReLU2d", "quantized.add_relu", "quantize_per_tensor", "dequantize"; else the step's own type,
    /// such as "MaxPool2d" and "flatten", which PyTorch's converted models keep too.
    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    /// The value set by set_value(), once; without one, the result of a program of only this step.
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    void set_value(std::optional<Tensor> value) { value_ = std::move(value); }

    const quantization::QuantizedNode& node() const { return quantized_->nodes.at(step_); }
    const quantization::QuantizedGraph& quantized() const noexcept { return *quantized_; }
    const quantization::QuantizedTensor& output() const { return quantized_->output(node()); }
    /// The codes of the weight, or its real values where a layer's program has them in another order (a transposed
    /// convolution). Undefined for a step without a weight.
    Tensor weight() const;

private:
    std::shared_ptr<const quantization::QuantizedGraph> quantized_;
    std::size_t step_;
    const kernels::KernelTable* table_;
    std::shared_ptr<program::OwnedProgram> program_;
    std::optional<Tensor> value_;
};

/// The steps of a converted model as a graph, with PyTorch's names for what its converted models have: nodes are named
/// by the modules and functions that they come from, and an operator and its quantizer are one node.
///
/// A run keeps values in the steps: each thread needs a clone.
///
/// Memory   all values of one run, until each one has been read
class ConvertedModel : public nn::Cloneable<ConvertedModel, graph::GraphModule> {
public:
    /// For a model that lowers to one program, which this runs.
    ///
    /// @param lowered  lower(quantized, …)
    /// @throws Error for a lowered model that was not made by lower(), or belongs to another converted model
    ConvertedModel(const quantization::QuantizedGraph& quantized, const quantization::LoweredModel& lowered);
    /// For a model with parts that stay in float (HybridModel): each step on codes is a separate program, as in
    /// ExactSimulation.
    ConvertedModel(const quantization::QuantizedGraph& quantized, const kernels::KernelTable& table);
    /// For the result of convert_fx() with kernels, as it runs: its program, or in parts.
    ///
    /// @throws Error for one that was made from only a program
    explicit ConvertedModel(const quantization::QuantizedModel& model);

    std::string type_name() const override { return "ConvertedModel"; }
    INTQ_INLINE nn::Value run(std::span<const nn::Value> inputs, const graph::NodeHook& hook,
                              const graph::ValueHook& value_of = {}) override;
    const quantization::QuantizedGraph& quantized() const noexcept { return *quantized_; }

private:
    ConvertedModel(std::shared_ptr<const quantization::QuantizedGraph> quantized, const kernels::KernelTable& table,
                   std::optional<quantization::LoweredModel> lowered);
    void run_program(std::span<const nn::Value> inputs);

    std::shared_ptr<const quantization::QuantizedGraph> quantized_;
    std::optional<quantization::LoweredModel> lowered_;
};

/// The argument type of the suite's functions: a graph, or the result of convert_fx() with kernels, which they see as a
/// ConvertedModel.
class ComparedModel {
public:
    ComparedModel(graph::GraphModule& model) : model_(&model) {}
    ComparedModel(const quantization::QuantizedModel& model)
        : own_(std::make_shared<ConvertedModel>(model)), model_(own_.get()) {}

    graph::GraphModule& operator*() const noexcept { return *model_; }

private:
    std::shared_ptr<ConvertedModel> own_{};
    graph::GraphModule* model_;
};

/// The step that a node of a converted model calls; null for other nodes.
const ConvertedStep* step_of(const graph::Node& node, nn::Module& root);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include <algorithm>
#    include <map>
#    include <set>
#    include <utility>

#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/move.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/nn/model/container.hpp"
#    include "intq/program/kept_outputs.hpp"
#    include "intq/quantization/convert/exact_simulation.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/quantize.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

using quantization::QuantizedGraph;
using quantization::QuantizedNode;

INTQ_INLINE std::string arithmetic_type(const QuantizedNode& node) {
    const OpKind kind = node.step->kind();
    if (kind == OpKind::add || kind == OpKind::sub) {
        const auto* sum = node.as<quantization::AddStep>();
        const Activation activation = sum == nullptr ? Activation::none : sum->activation();
        const char* clamp = activation == Activation::relu ? "_relu" : activation == Activation::relu6 ? "_relu6" : "";
        return std::string("quantized.") + name_of(kind) + clamp;
    }
    return kind == OpKind::mul ? "quantized.mul" : "";
}

INTQ_INLINE std::string type_of_step(const QuantizedNode& node) {
    const OpKind kind = node.step->kind();
    if (kind == OpKind::quantize || kind == OpKind::requantize) return "quantize_per_tensor";
    if (kind == OpKind::dequantize) return "dequantize";
    if (node.as<quantization::WeightedStep>() != nullptr) return "quantized." + node.type;
    const std::string arithmetic = arithmetic_type(node);
    if (arithmetic.empty() && node.type == "FloatFunctional") return name_of(kind);  // cat, matmul, …
    return arithmetic.empty() ? node.type : arithmetic;
}

/// Builds the graph of a converted model.
class ConvertedGraphBuilder {
public:
    ConvertedGraphBuilder(const std::shared_ptr<const QuantizedGraph>& quantized, const kernels::KernelTable& table)
        : quantized_(quantized), table_(table) {}

    graph::GraphModule run() {
        for (const int input : quantized_->inputs) set(input, graph_.placeholder(quantized_->tensor(input).name));
        for (std::size_t i = 0; i < quantized_->nodes.size(); ++i) add(i);
        graph::ArgumentList outputs;
        for (const int output : quantized_->outputs) outputs.emplace_back(*values_.at(output));
        graph_.output(outputs.size() == 1 ? outputs[0] : graph::Argument(outputs));
        root_.eval();
        return graph::GraphModule(root_, std::move(graph_));
    }

private:
    void add(std::size_t i) {
        const QuantizedNode& node = quantized_->nodes[i];
        const std::string slot = free_slot(wanted_slot(node));
        nn::add_module(root_, slot, std::make_shared<ConvertedStep>(quantized_, i, table_));
        graph::ArgumentList arguments;
        for (const int input : node.inputs) arguments.emplace_back(*values_.at(input));
        graph::Node& made = graph_.call_module(slot, std::move(arguments));
        made.set_scope({node.module, node.type});
        set(node.output, made);
    }

    void set(int tensor, graph::Node& node) {
        node.outputs()[0] = {quantized_->tensor(tensor).shape, quantized_->tensor(tensor).dtype};
        values_[tensor] = &node;
    }

    static std::string wanted_slot(const QuantizedNode& node) {
        const std::string type = type_of_step(node);
        if (node.type == "Quantize" || (node.module.empty() && type == "dequantize")) return type;
        if (!node.module.empty()) return node.module;
        const std::string arithmetic = arithmetic_type(node);
        return arithmetic.ends_with("relu") || arithmetic.ends_with("relu6")
                   ? arithmetic.substr(arithmetic.find('.') + 1)
                   : node.name;
    }

    std::string free_slot(const std::string& wanted) {
        std::string name = wanted;
        for (int k = 1; !slots_.insert(name).second; ++k) name = wanted + "_" + std::to_string(k);
        return name;
    }

    std::shared_ptr<const QuantizedGraph> quantized_;
    const kernels::KernelTable& table_;
    nn::ModuleDict root_;
    graph::Graph graph_;
    std::map<int, graph::Node*> values_;
    std::set<std::string> slots_;
};

/// A tensor of the model in logical order; none if no instruction wrote it in the run.
INTQ_INLINE std::optional<Tensor> value_of(const quantization::QuantizedTensor& model, std::int32_t program_tensor,
                                           const program::KeptOutputs& kept) {
    const std::optional<Tensor> written = kept.tensor(program_tensor);
    if (!written) return std::nullopt;
    Shape shape = model.shape;
    if (shape.rank > 0) shape[0] = written->extent(0);
    if (shape.size() != written->size()) return std::nullopt;
    Tensor result = written->contiguous().reshape(shape);
    if (result.dtype() != DType::float32) result.set_qparams(model.qparams);
    return result;
}

}  // namespace detail

INTQ_INLINE ConvertedStep::ConvertedStep(std::shared_ptr<const quantization::QuantizedGraph> quantized,
                                         std::size_t step, const kernels::KernelTable& table)
    : quantized_(std::move(quantized)), step_(step), table_(&table) {}

INTQ_INLINE std::string ConvertedStep::type_name() const { return detail::type_of_step(node()); }

INTQ_INLINE nn::Value ConvertedStep::forward(nn::Arguments arguments) {
    if (value_) {
        Tensor value = *std::move(value_);
        value_.reset();
        return value;
    }
    std::map<int, nn::Value> inputs;
    for (std::size_t i = 0; i < node().inputs.size(); ++i) inputs[node().inputs[i]] = arguments[i];
    const auto on_host = quantization::run_on_host(*quantized_, node(), [&](int tensor) { return inputs.at(tensor); });
    if (on_host) return *on_host;
    std::vector<Tensor> operands;
    index_t samples = 1;
    for (const auto& [tensor, value] : inputs) {
        operands.push_back(value.tensor());
        if (operands.back().rank() > 0) samples = (std::max)(samples, operands.back().extent(0));
    }
    for (Tensor& operand : operands) {
        if (operand.rank() == 0 || operand.extent(0) != 1 || samples == 1) continue;
        Shape shape = operand.shape();  // the codes of a constant, which are one sample
        shape[0] = samples;
        operand = nn::float_operators::expand(operand, shape);
    }
    if (program_ == nullptr) program_ = quantization::lower_step(*quantized_, node(), *table_, samples);
    Tensor result = program_->run(operands)[0];
    if (result.dtype() != DType::float32) result.set_qparams(output().qparams);
    return result;
}

INTQ_INLINE Tensor ConvertedStep::weight() const {
    const auto* weighted = node().as<quantization::WeightedStep>();
    if (weighted == nullptr) return {};
    if (weighted->spread)
        if (const auto* layer = dynamic_cast<const nn::Weighted*>(weighted->layer.get())) return layer->weight();
    Tensor weight = weighted->weight;
    weight.set_qparams(weighted->weight_qparams);
    return weight;
}

INTQ_INLINE ConvertedModel::ConvertedModel(std::shared_ptr<const quantization::QuantizedGraph> quantized,
                                           const kernels::KernelTable& table,
                                           std::optional<quantization::LoweredModel> lowered)
    : Cloneable(detail::ConvertedGraphBuilder(quantized, table).run()),
      quantized_(std::move(quantized)),
      lowered_(std::move(lowered)) {}

INTQ_INLINE ConvertedModel::ConvertedModel(const quantization::QuantizedGraph& quantized,
                                           const kernels::KernelTable& table)
    : ConvertedModel(std::make_shared<quantization::QuantizedGraph>(quantized), table, std::nullopt) {}

INTQ_INLINE ConvertedModel::ConvertedModel(const quantization::QuantizedGraph& quantized,
                                           const quantization::LoweredModel& lowered)
    : ConvertedModel(std::make_shared<quantization::QuantizedGraph>(quantized), lowered.whole_program().table(),
                     lowered) {
    if (!lowered.is_made_of(quantized))
        throw Error(
            "ConvertedModel: the lowered model was made of another one; give what lower() made of this "
            "converted model");
}

namespace detail {

INTQ_INLINE const kernels::KernelTable& table_of(const quantization::QuantizedModel& model) {
    if (model.quantized() == nullptr)
        throw Error(
            "ConvertedModel: the QuantizedModel was made of a program alone; give what convert_fx(prepared, kernels) "
            "made");
    return model.lowered() != nullptr ? model.lowered()->whole_program().table() : model.hybrid()->table();
}

}  // namespace detail

INTQ_INLINE ConvertedModel::ConvertedModel(const quantization::QuantizedModel& model)
    : ConvertedModel(model.quantized(), detail::table_of(model),
                     model.lowered() != nullptr ? std::optional(*model.lowered()) : std::nullopt) {}

INTQ_INLINE void ConvertedModel::run_program(std::span<const nn::Value> inputs) {
    std::vector<Tensor> tensors;
    for (const nn::Value& input : inputs) tensors.push_back(input.tensor());
    if (tensors.empty() || tensors[0].rank() == 0) return;
    const runtime::Program& program = lowered_->whole_program().program();
    const std::vector<std::int32_t>& wanted = lowered_->program_tensors();
    program::KeptOutputs kept(program, tensors[0].extent(0), wanted);
    lowered_->whole_program().run(tensors, serial, kept.hook());
    for (const graph::Node* node : graph().nodes()) {
        auto* step = const_cast<ConvertedStep*>(step_of(*node, *this));
        if (step == nullptr) continue;
        const auto tensor = static_cast<std::size_t>(step->node().output);
        step->set_value(detail::value_of(quantized_->tensors[tensor], wanted[tensor], kept));
    }
}

INTQ_INLINE nn::Value ConvertedModel::run(std::span<const nn::Value> inputs, const graph::NodeHook& hook,
                                          const graph::ValueHook& value_of) {
    if (lowered_ && nn::find_recorder(inputs) == nullptr) run_program(inputs);
    return GraphModule::run(inputs, hook, value_of);
}

INTQ_INLINE const ConvertedStep* step_of(const graph::Node& node, nn::Module& root) {
    return dynamic_cast<const ConvertedStep*>(graph::module_of(node, root));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_CONVERTED_MODEL_HPP
