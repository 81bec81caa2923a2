// SPDX-License-Identifier: MIT
//
// QuantizedModule: a module that computes on codes, each call by the kernels of a program. Layer: quantization.
#ifndef INTQ_QUANTIZATION_CONVERT_QUANTIZED_MODULE_HPP
#define INTQ_QUANTIZATION_CONVERT_QUANTIZED_MODULE_HPP

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/core/shape.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/program/owned_program.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Takes codes that carry their qparams, and gives such. A program is made at the first call with other qparams or
/// shapes, and kept. A module that keeps the scale of its input computes real values in float.
///
/// A call changes the object: threads need a clone each.
class QuantizedModule : public nn::Cloneable<QuantizedModule> {
public:
    /// @param prepared  what prepare_calibration() made of the module, calibrated; it is not changed
    /// @param name      the module's qualified name, for messages
    QuantizedModule(const nn::Module& prepared, const arith::PolicyRecord& target, const kernels::KernelTable& table,
                    std::string name);

    /// "QuantizedConvReLU2d": PyTorch's name.
    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    INTQ_INLINE nn::Value invoke(std::string_view method, nn::Arguments arguments) override;
    const kernels::KernelTable& table() const noexcept { return *table_; }

    /// The grid of the codes that the last call gave.
    ///
    /// @throws Error before the first call
    const OwnedQParams& output_qparams() const { return last().output; }
    /// The grid of the weight's codes in the program of the last call.
    ///
    /// @throws Error before the first call, and for a module without a weight
    const OwnedQParams& weight_qparams() const;

private:
    /// A program for one method and what its operands look like; without a program the codes pass as they are.
    struct Compiled {
        std::string method;
        std::vector<Shape> shapes;  // with a batch of 1
        std::vector<OwnedQParams> qparams;
        std::vector<std::string> constants;
        std::shared_ptr<program::OwnedProgram> program;
        OwnedQParams output;
        std::optional<OwnedQParams> weight;
    };
    /// Programs are not copied: they hold the memory that they run in.
    struct Programs {
        std::vector<std::shared_ptr<const Compiled>> all{};
        const Compiled* last = nullptr;  // of the last call
        Programs() = default;
        Programs(const Programs&) noexcept {}
        Programs& operator=(const Programs&) noexcept { return *this; }
    };
    const Compiled& compiled(const std::string& method, nn::Arguments arguments, const std::vector<Tensor>& operands);
    Compiled compile(const std::string& method, nn::Arguments arguments, const std::vector<Tensor>& operands) const;
    const Compiled& last() const;

    nn::ModulePtr prepared_;
    std::string plain_type_, name_;
    arith::PolicyRecord target_;
    const kernels::KernelTable* table_;
    Programs programs_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <algorithm>
#    include <cstddef>
#    include <utility>

#    include "intq/graph/graph.hpp"
#    include "intq/graph/graph_module.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/functional/arithmetic.hpp"
#    include "intq/nn/model/container.hpp"
#    include "intq/quantization/convert/convert_fx.hpp"
#    include "intq/quantization/convert/exact_simulation.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/operator_table.hpp"
#    include "intq/quantization/prepare/prepare_eager.hpp"
#    include "intq/quantization/prepare/prepared_model.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string QuantizedModule::type_name() const { return "Quantized" + plain_type_; }

INTQ_INLINE nn::Value QuantizedModule::forward(nn::Arguments arguments) { return invoke("forward", arguments); }

namespace detail {

INTQ_INLINE void collect_tensors(const nn::Value& value, std::vector<Tensor>& out) {
    if (value.is_tensor()) out.push_back(value.tensor());
    if (value.is_tuple())
        for (const nn::Value& item : value.tuple()) collect_tensors(item, out);
}

/// What is not a tensor, as text to compare.
INTQ_INLINE void collect_constants(const nn::Value& value, std::vector<std::string>& out) {
    if (value.is_tuple())
        for (const nn::Value& item : value.tuple()) collect_constants(item, out);
    if (value.is_number()) out.push_back(std::to_string(value.number()));
    if (value.is_bool()) out.push_back(value.boolean() ? "true" : "false");
    if (value.is_text()) out.push_back(value.text());
}

INTQ_INLINE std::shared_ptr<FakeQuantize> fixed_quantizer(const OwnedQParams& qparams,
                                                          const arith::QuantizeRule& rule) {
    FakeQuantizeOptions options;
    options.rule = rule;
    options.observer_options.dtype = qparams.dtype;
    options.observer_options.quant_min = qparams.quant_min;
    options.observer_options.quant_max = qparams.quant_max;
    auto quantizer = std::make_shared<FakeQuantize>(options);
    quantizer->adopt(qparams);
    quantizer->enable_observer(false);
    return quantizer;
}

/// A prepared graph of one call: quantizers of given qparams, the call, and the quantizer behind it.
class SingleCallGraph {
public:
    SingleCallGraph(nn::ModulePtr layer, const std::string& method, nn::Arguments arguments,
                    const std::vector<Tensor>& operands, const arith::PolicyRecord& target)
        : target_(target), operands_(operands) {
        root_.add_child("layer", layer);
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const std::string name = "input_" + std::to_string(i);
            root_.add_child(name, fixed_quantizer(*operands[i].qparams(), target.quantize));
            quantizers_.push_back(&graph_.call_module(name, {graph_.placeholder("x_" + std::to_string(i))}));
        }
        graph::ArgumentList list;
        for (const nn::Value& value : arguments.values()) list.push_back(argument_of(value));
        const bool adds_relu = method == "add_relu";
        call_ = &graph_.call_module("layer", std::move(list), adds_relu ? "add" : method);
        graph::Node* last = adds_relu ? &graph_.call_function(nn::relu_function, {*call_}) : call_;
        quantized_ = {call_->name(), last->name()};
        const QuantizedOperator& row = quantized_operator(*call_, root_);
        if (operands.size() < static_cast<std::size_t>(row.operands))
            throw Error("a constant operand has no integer form");
        std::shared_ptr<Quantizer> output;
        if (const Quantizer* quantizer = output_quantizer(*layer))
            output = fixed_quantizer(quantizer->qparams(), target.quantize);
        else if (row.keeps_scale != nullptr && row.keeps_scale(target))
            output =
                std::make_shared<FollowingFakeQuantize>(std::static_pointer_cast<Quantizer>(root_.child("input_0")));
        if (output != nullptr) {
            root_.add_child("output", output);
            last = &graph_.call_module("output", {*last});
        }
        graph_.output(*last);
        root_.eval();
    }

    /// The steps, for operands of these shapes.
    QuantizedGraph convert() {
        PreparedModel model(graph::GraphModule(root_, std::move(graph_)), target_, {});
        for (const std::string& name : quantized_) model.mark_quantized(*model.graph().find(name));
        std::vector<nn::Value> reals;
        for (const Tensor& codes : operands_) reals.emplace_back(dequantize(codes, *codes.qparams()));
        model.forward(nn::Arguments(reals));
        return convert_fx(model);
    }
    /// The node of the call; of a relu behind it.
    const std::string& node() const noexcept { return quantized_.back(); }
    const std::string& call_node() const noexcept { return quantized_.front(); }

private:
    graph::Argument argument_of(const nn::Value& value) {
        if (value.is_tensor()) return *quantizers_.at(next_++);
        if (value.is_integer()) return value.integer();
        if (value.is_number()) return value.number();
        if (value.is_bool()) return value.boolean();
        if (value.is_text()) return value.text();
        if (!value.is_tuple()) return {};
        graph::ArgumentList list;
        for (const nn::Value& item : value.tuple()) list.push_back(argument_of(item));
        return list;
    }

    const arith::PolicyRecord& target_;
    const std::vector<Tensor>& operands_;
    nn::ModuleDict root_;
    graph::Graph graph_;
    std::vector<graph::Node*> quantizers_;
    graph::Node* call_ = nullptr;
    std::vector<std::string> quantized_;
    std::size_t next_ = 0;
};

}  // namespace detail

INTQ_INLINE QuantizedModule::QuantizedModule(const nn::Module& prepared, const arith::PolicyRecord& target,
                                             const kernels::KernelTable& table, std::string name)
    : prepared_(nn::clone(prepared)),
      plain_type_(prepared.type_name()),
      name_(std::move(name)),
      target_(target),
      table_(&table) {
    if (plain_type_.rfind("qat.", 0) == 0) plain_type_ = plain_type_.substr(4);
    for (const auto& module : prepared_->named_modules())
        if (const auto* quantizer = dynamic_cast<const Quantizer*>(module.value);
            quantizer != nullptr && !quantizer->has_qparams() && module.name == "activation_post_process")
            throw Error("convert: " + name_, "no data was seen by its quantizer; run the prepared model on data first");
    set_fake_quantize(*prepared_, FakeQuantState::validation);
    prepared_->eval();
}

INTQ_INLINE QuantizedModule::Compiled QuantizedModule::compile(const std::string& method, nn::Arguments arguments,
                                                               const std::vector<Tensor>& operands) const {
    detail::SingleCallGraph single(nn::clone(prepared_), method, arguments, operands, target_);
    const QuantizedGraph quantized = single.convert();
    Compiled result;
    for (const QuantizedNode& node : quantized.nodes)
        if (node.name == single.node() || node.name == single.call_node()) {
            result.program = detail::lower_step(quantized, node, *table_, std::max<index_t>(1, operands[0].extent(0)));
            result.output = quantized.output(node).qparams;
            if (const auto* weighted = node.as<WeightedStep>()) result.weight = weighted->weight_qparams;
        }
    if (result.program == nullptr) throw Error("it has no integer form");
    return result;
}

INTQ_INLINE const QuantizedModule::Compiled& QuantizedModule::compiled(const std::string& method,
                                                                       nn::Arguments arguments,
                                                                       const std::vector<Tensor>& operands) {
    auto wanted = std::make_shared<Compiled>();
    wanted->method = method;
    for (const Tensor& operand : operands) {
        wanted->shapes.push_back(operand.shape());
        if (operand.rank() > 0) wanted->shapes.back()[0] = 1;
        wanted->qparams.push_back(*operand.qparams());
    }
    for (const nn::Value& value : arguments.values()) detail::collect_constants(value, wanted->constants);
    for (const auto& known : programs_.all)
        if (known->method == wanted->method && known->shapes == wanted->shapes && known->qparams == wanted->qparams &&
            known->constants == wanted->constants)
            return *known;
    Compiled made = compile(method, arguments, operands);
    wanted->program = std::move(made.program);
    wanted->output = std::move(made.output);
    wanted->weight = std::move(made.weight);
    programs_.all.push_back(std::move(wanted));
    return *programs_.all.back();
}

INTQ_INLINE const QuantizedModule::Compiled& QuantizedModule::last() const {
    if (programs_.last == nullptr) throw Error(name_ + " (" + type_name() + ")", "it was not called yet");
    return *programs_.last;
}

INTQ_INLINE const OwnedQParams& QuantizedModule::weight_qparams() const {
    if (!last().weight) throw Error(name_ + " (" + type_name() + ")", "it has no weight");
    return *last().weight;
}

INTQ_INLINE nn::Value QuantizedModule::invoke(std::string_view method, nn::Arguments arguments) {
    std::vector<Tensor> operands;
    for (const nn::Value& value : arguments.values()) detail::collect_tensors(value, operands);
    const bool takes_codes = std::all_of(operands.begin(), operands.end(), [](const Tensor& operand) {
        return operand.dtype() != DType::float32 && operand.qparams();
    });
    const auto where = [&] {
        return name_ + " (" + type_name() + (method == "forward" ? "" : "." + std::string(method)) + ")";
    };
    if (operands.empty() || !takes_codes) {
        const bool keeps_scale = detail::output_quantizer(*prepared_) == nullptr &&
                                 dynamic_cast<const PreparedWeight*>(prepared_.get()) == nullptr;
        if (keeps_scale && !operands.empty()) return prepared_->dispatch(method, arguments.values());
        throw Error(where(), "it takes codes, given real values: put a QuantStub before it, or give it no qconfig");
    }
    try {
        const Compiled& call = compiled(std::string(method), arguments, operands);
        programs_.last = &call;
        Tensor result = call.program->run(operands)[0];
        result.set_qparams(call.output);
        return result;
    } catch (const Error& error) {
        throw Error(where(), error);
    }
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_QUANTIZED_MODULE_HPP
