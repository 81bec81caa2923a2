// SPDX-License-Identifier: MIT
//
// The reference graph: dequantize, float operator, quantize for every step of a converted model. Layer: quantization
// (docs/workflow.md section 4).
//
// It runs in the interpreter and shares nothing with the integer kernels, so that a wrong result can be blamed on the
// scales (both are wrong) or on the integers (they differ).
#ifndef INTQ_QUANTIZATION_OPERATORS_REFERENCE_HPP
#define INTQ_QUANTIZATION_OPERATORS_REFERENCE_HPP

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "intq/arith/quantize.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/nn/model/container.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Real values to codes.
class Quantize : public nn::Cloneable<Quantize> {
public:
    Quantize(OwnedQParams qparams, arith::QuantizeRule rule);
    std::string type_name() const override { return "Quantize"; }
    bool is_leaf() const override { return true; }
    bool needs_reproducible_sums() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    const OwnedQParams& qparams() const noexcept { return qparams_; }

private:
    OwnedQParams qparams_;
    arith::QuantizeRule rule_;
};

/// Codes to the real values given by their qparams.
class DeQuantize : public nn::Cloneable<DeQuantize> {
public:
    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
};

/// A runnable graph of a converted model. Operators keep the names of their nodes and modules; the weights of its
/// layers are the values of the codes. A step whose output is an accumulator returns its real value.
std::shared_ptr<graph::GraphModule> make_reference(const QuantizedGraph& quantized);

/// Builds a reference graph, to which each Step adds itself.
class ReferenceBuilder {
public:
    explicit ReferenceBuilder(const QuantizedGraph& quantized) : quantized_(quantized) {}

    std::shared_ptr<graph::GraphModule> run();

    const QuantizedGraph& quantized() const noexcept { return quantized_; }
    graph::Graph& graph() noexcept { return graph_; }

    /// The real value of an input; codes are dequantized once for all readers.
    graph::Node& real_input(const QuantizedNode& node, std::size_t i);

    /// Makes a node of the graph the real value of the step's output.
    void set_real(const QuantizedNode& node, graph::Node& value);

    /// Puts a quantizer behind the value; it is the step's output.
    void quantize_output(const QuantizedNode& node, graph::Node& value);

    /// A call of a module in the node's own slot.
    graph::Node& call(const QuantizedNode& node, const nn::ModulePtr& module, graph::ArgumentList args,
                      const std::string& method = "forward") {
        return graph_.call_module(place(node, module), std::move(args), method);
    }
    /// A float operator on the real values of the inputs.
    graph::Node& call(const QuantizedNode& node, const FloatCall& call_of);
    /// The graph's own tensor.
    graph::Node& constant(const Tensor& value);

private:
    graph::Argument argument_of(const QuantizedNode& node, const FloatArgument& argument);

    // A slot for a module: the node's own, or one with its name if that is taken (a module that is called twice).
    std::string place(const QuantizedNode& node, const nn::ModulePtr& module);

    const QuantizedGraph& quantized_;
    nn::ModuleDict root_;
    graph::Graph graph_;
    std::map<int, graph::Node*> real_, codes_;
    std::set<std::string> used_;
    std::vector<nn::Named<Tensor>> constants_;
    int quantizers_ = 0;
    int dequantizers_ = 0;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstdint>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Quantize::Quantize(OwnedQParams qparams, arith::QuantizeRule rule)
    : qparams_(std::move(qparams)), rule_(rule) {}

INTQ_INLINE nn::Value Quantize::forward(nn::Arguments arguments) {
    return quantize(arguments.tensor(0), qparams_, rule_);
}

INTQ_INLINE std::string DeQuantize::type_name() const { return "DeQuantize"; }

INTQ_INLINE nn::Value DeQuantize::forward(nn::Arguments arguments) {
    const Tensor& codes = arguments.tensor(0);
    if (!codes.qparams()) throw Error("DeQuantize: the tensor carries no qparams");
    return dequantize(codes, *codes.qparams());
}

INTQ_INLINE std::shared_ptr<graph::GraphModule> ReferenceBuilder::run() {
    for (const int input : quantized_.inputs) real_[input] = &graph_.placeholder(quantized_.tensor(input).name);
    for (const QuantizedNode& node : quantized_.nodes) node.step->add_reference(*this, node);
    graph::ArgumentList outputs;
    for (const int output : quantized_.outputs) outputs.emplace_back(*real_.at(output));
    graph_.output(outputs.size() == 1 ? outputs[0] : graph::Argument(outputs));
    root_.eval();
    auto reference = std::make_shared<graph::GraphModule>(root_, std::move(graph_), std::move(constants_));
    for (const auto& property : quantized_.properties) reference->set_property(property.name, property.value);
    return reference;
}

INTQ_INLINE graph::Node& ReferenceBuilder::real_input(const QuantizedNode& node, std::size_t i) {
    const int tensor = node.inputs.at(i);
    graph::Node*& known = real_[tensor];
    if (known != nullptr) return *known;
    const std::string name = "dequantize_" + std::to_string(dequantizers_++);
    nn::add_module(root_, name, std::make_shared<DeQuantize>());
    return *(known = &graph_.call_module(name, {*codes_.at(tensor)}));
}

INTQ_INLINE void ReferenceBuilder::set_real(const QuantizedNode& node, graph::Node& value) {
    real_[node.output] = &value;
}

INTQ_INLINE void ReferenceBuilder::quantize_output(const QuantizedNode& node, graph::Node& value) {
    const std::string number = std::to_string(quantizers_++);
    nn::add_module(root_, "quantize_" + number,
                   std::make_shared<Quantize>(quantized_.output(node).qparams, quantized_.target.quantize));
    codes_[node.output] = &graph_.call_module("quantize_" + number, {value});
}

INTQ_INLINE graph::Node& ReferenceBuilder::call(const QuantizedNode& node, const FloatCall& call_of) {
    graph::ArgumentList args;
    for (const FloatArgument& argument : call_of.arguments) args.push_back(argument_of(node, argument));
    if (call_of.module != nullptr) {
        graph::Node& made = call(node, call_of.module, std::move(args), call_of.method);
        made.set_traced_hooks(call_of.traced_hooks);
        return made;
    }
    return graph_.call_function(*call_of.function, std::move(args));
}

INTQ_INLINE graph::Node& ReferenceBuilder::constant(const Tensor& value) {
    const std::string name = "_tensor_constant" + std::to_string(constants_.size());
    constants_.push_back({name, value});
    return graph_.get_attr(name);
}

INTQ_INLINE graph::Argument ReferenceBuilder::argument_of(const QuantizedNode& node, const FloatArgument& argument) {
    if (argument.input >= 0) {
        graph::Node& value = real_input(node, static_cast<std::size_t>(argument.input));
        if (argument.extent_axis < 0) return value;
        return graph_.call_method(nn::size_function, {value, std::int64_t{argument.extent_axis}});
    }
    if (argument.is_samples)
        return graph_.call_method(nn::size_function, {*real_.at(quantized_.inputs.at(0)), std::int64_t{0}});
    if (argument.is_list) {
        graph::ArgumentList items;
        for (const FloatArgument& item : argument.list) items.push_back(argument_of(node, item));
        return items;
    }
    const nn::Value& value = argument.constant;
    if (value.is_integer()) return value.integer();
    if (value.is_number()) return value.number();
    if (value.is_bool()) return value.boolean();
    if (value.is_text()) return value.text();
    return {};
}

INTQ_INLINE std::string ReferenceBuilder::place(const QuantizedNode& node, const nn::ModulePtr& module) {
    std::string path = node.module.empty() ? node.name : node.module;
    if (!used_.insert(path).second) used_.insert(path = node.name + "_call");
    nn::add_module(root_, path, module);
    return path;
}

INTQ_INLINE std::shared_ptr<graph::GraphModule> make_reference(const QuantizedGraph& quantized) {
    return ReferenceBuilder(quantized).run();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_REFERENCE_HPP
