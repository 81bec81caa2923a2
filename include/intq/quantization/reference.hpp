// SPDX-License-Identifier: MIT
//
// The reference graph: dequantize, float operator, quantize for every step of a converted model. Layer: quantization
// (WORKFLOW section 4).
//
// It runs in the interpreter and shares nothing with the integer kernels, so that a wrong result can be blamed on the
// scales (both are wrong) or on the integers (they differ).
#ifndef INTQ_QUANTIZATION_REFERENCE_HPP
#define INTQ_QUANTIZATION_REFERENCE_HPP

#include "intq/graph/graph_module.hpp"
#include "intq/nn/container.hpp"
#include "intq/nn/layers/activation.hpp"
#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/linear.hpp"
#include "intq/nn/layers/pool.hpp"
#include "intq/nn/layers/shape.hpp"
#include "intq/quantization/quantized_graph.hpp"
#include "intq/quantization/tensor_kernels.hpp"

namespace intq::inline INTQ_ABI::quantization {

/// Real values to codes.
class Quantize : public nn::Cloneable<Quantize> {
public:
    Quantize(nn::OwnedQParams qparams, arith::QuantizeRule rule) : qparams_(std::move(qparams)), rule_(rule) {}
    std::string type_name() const override { return "Quantize"; }
    bool is_leaf() const override { return true; }
    nn::Value forward(nn::Arguments arguments) override { return quantize(arguments.tensor(0), qparams_, rule_); }
    const nn::OwnedQParams& qparams() const noexcept { return qparams_; }

private:
    nn::OwnedQParams qparams_;
    arith::QuantizeRule rule_;
};

/// Codes to the real values that their qparams say.
class DeQuantize : public nn::Cloneable<DeQuantize> {
public:
    std::string type_name() const override { return "DeQuantize"; }
    bool is_leaf() const override { return true; }
    nn::Value forward(nn::Arguments arguments) override {
        const nn::Tensor& codes = arguments.tensor(0);
        if (!codes.qparams()) throw Error("DeQuantize: the tensor carries no qparams");
        return dequantize(codes, *codes.qparams());
    }
};

/// A runnable graph of a converted model. Operators keep the names of their nodes and modules; the weights of its
/// layers are those that the codes stand for. A step whose output is an accumulator gives its real value.
std::shared_ptr<graph::GraphModule> make_reference(const QuantizedGraph& quantized);

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

class ReferenceBuilder {
public:
    explicit ReferenceBuilder(const QuantizedGraph& quantized) : quantized_(quantized) {}

    std::shared_ptr<graph::GraphModule> run() {
        for (const int input : quantized_.inputs) real_[input] = &graph_.placeholder(quantized_.tensor(input).name);
        for (const QuantizedNode& node : quantized_.nodes)
            std::visit([&](const auto& step) { add(node, step); }, node.step);
        graph::ArgumentList outputs;
        for (const int output : quantized_.outputs) outputs.emplace_back(*real_.at(output));
        graph_.output(outputs.size() == 1 ? outputs[0] : graph::Argument(outputs));
        root_.eval();
        return std::make_shared<graph::GraphModule>(root_, std::move(graph_), std::move(constants_));
    }

private:
    void add(const QuantizedNode& node, const QuantizeStep&) { quantize_output(node, *real_.at(node.inputs[0])); }
    void add(const QuantizedNode& node, const RequantizeStep&) { quantize_output(node, real_input(node, 0)); }
    void add(const QuantizedNode& node, const DequantizeStep&) { real_[node.output] = &real_input(node, 0); }

    void add(const QuantizedNode& node, const WeightedStep& step) {
        const nn::Tensor weight = dequantize(step.weight, step.weight_qparams);
        const nn::Fusion fusion{step.sumin, step.activation};
        graph::ArgumentList args{real_input(node, 0)};
        if (step.sumin) args.emplace_back(real_input(node, 1));
        if (step.kind == OpKind::conv2d) {
            nn::Conv2d conv(
                {weight.extent(1) * step.groups, weight.extent(0), step.window, step.groups, step.bias.defined()});
            call(node, layer(conv, fusion, weight, step.bias), std::move(args));
        } else {
            nn::Linear linear({weight.extent(1), weight.extent(0), step.bias.defined()});
            call(node, layer(linear, fusion, weight, step.bias), std::move(args));
        }
    }

    template <class Layer>
    static nn::ModulePtr layer(Layer& plain, const nn::Fusion& fusion, const nn::Tensor& weight,
                               const nn::Tensor& bias) {
        plain.set_weight(weight);
        if (bias.defined()) plain.set_bias(bias);
        if (!fusion.add && fusion.activation == Activation::none) return std::make_shared<Layer>(plain);
        return std::make_shared<nn::Fused<Layer>>(plain, fusion);
    }

    void add(const QuantizedNode& node, const AddStep& step) {
        graph::Node* sum = &graph_.call_function(nn::add_function, {real_input(node, 0), real_input(node, 1)});
        if (step.activation == Activation::relu) sum = &graph_.call_function(nn::relu_function, {*sum});
        if (step.activation == Activation::relu6) sum = &graph_.call_function(nn::relu6_function, {*sum});
        quantize_output(node, *sum);
    }

    void add(const QuantizedNode& node, const ClampStep& step) {
        const nn::Function& function = step.activation == Activation::relu6 ? nn::relu6_function : nn::relu_function;
        quantize_output(node, graph_.call_function(function, {real_input(node, 0)}));
    }

    void add(const QuantizedNode& node, const MaxPoolStep& step) {
        call(node, std::make_shared<nn::MaxPool2d>(step.window), {real_input(node, 0)});
    }
    void add(const QuantizedNode& node, const AvgPoolStep& step) {
        call(node, std::make_shared<nn::AvgPool2d>(step.window, step.divisor), {real_input(node, 0)});
    }
    void add(const QuantizedNode& node, const FlattenStep& step) {
        call(node, std::make_shared<nn::Flatten>(step.start_axis, step.end_axis), {real_input(node, 0)});
    }

    void add(const QuantizedNode& node, const CatStep& step) {
        graph::ArgumentList parts;
        for (std::size_t i = 0; i < node.inputs.size(); ++i) parts.emplace_back(real_input(node, i));
        quantize_output(node, graph_.call_function(nn::cat_function, {parts, step.axis}));
    }

    void add(const QuantizedNode& node, const FloatStep& step) {
        graph::ArgumentList args;
        for (const FloatArgument& argument : step.arguments) args.push_back(argument_of(node, argument));
        if (step.module != nullptr) {
            real_[node.output] = &graph_.call_module(place(node, step.module), std::move(args), step.method);
        } else {
            real_[node.output] = &graph_.call_function(*step.function, std::move(args));
        }
    }

    void add(const QuantizedNode& node, const ConstantStep& step) {
        const std::string name = "_tensor_constant" + std::to_string(constants_.size());
        constants_.push_back({name, step.value});
        real_[node.output] = &graph_.get_attr(name);
    }

    graph::Argument argument_of(const QuantizedNode& node, const FloatArgument& argument) {
        if (argument.input >= 0) return real_input(node, static_cast<std::size_t>(argument.input));
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

    // A slot for a module: the node's own, or one with its name where that is taken (a module that is called twice).
    std::string place(const QuantizedNode& node, const nn::ModulePtr& module) {
        std::string path = node.module.empty() ? node.name : node.module;
        if (!used_.insert(path).second) used_.insert(path = node.name + "_call");
        nn::add_module(root_, path, module);
        return path;
    }

    void call(const QuantizedNode& node, const nn::ModulePtr& module, graph::ArgumentList args) {
        graph::Node& result = graph_.call_module(place(node, module), std::move(args));
        if (quantized_.output(node).dtype == DType::int32) {
            real_[node.output] = &result;
        } else {
            quantize_output(node, result);
        }
    }

    void quantize_output(const QuantizedNode& node, graph::Node& value) {
        const std::string number = std::to_string(quantizers_++);
        nn::add_module(root_, "quantize_" + number,
                       std::make_shared<Quantize>(quantized_.output(node).qparams, quantized_.target.quantize));
        codes_[node.output] = &graph_.call_module("quantize_" + number, {value});
    }

    // The real value of an input; codes are dequantized once for all readers.
    graph::Node& real_input(const QuantizedNode& node, std::size_t i) {
        const int tensor = node.inputs.at(i);
        graph::Node*& known = real_[tensor];
        if (known != nullptr) return *known;
        const std::string name = "dequantize_" + std::to_string(dequantizers_++);
        nn::add_module(root_, name, std::make_shared<DeQuantize>());
        return *(known = &graph_.call_module(name, {*codes_.at(tensor)}));
    }

    const QuantizedGraph& quantized_;
    nn::ModuleDict root_;
    graph::Graph graph_;
    std::map<int, graph::Node*> real_, codes_;
    std::set<std::string> used_;
    std::vector<nn::Named<nn::Tensor>> constants_;
    int quantizers_ = 0;
    int dequantizers_ = 0;
};

}  // namespace detail

inline std::shared_ptr<graph::GraphModule> make_reference(const QuantizedGraph& quantized) {
    return detail::ReferenceBuilder(quantized).run();
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_REFERENCE_HPP
