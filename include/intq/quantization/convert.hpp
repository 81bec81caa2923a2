// SPDX-License-Identifier: MIT
//
// convert_fx: from a calibrated model to a QuantizedGraph, which the reference graph and the program are made of.
// Layer: quantization (WORKFLOW section 4).
#ifndef INTQ_QUANTIZATION_CONVERT_HPP
#define INTQ_QUANTIZATION_CONVERT_HPP

#include "intq/arith/ieee.hpp"
#include "intq/nn/layers/pool.hpp"
#include "intq/nn/layers/shape.hpp"
#include "intq/quantization/operator_roles.hpp"
#include "intq/quantization/prepared_model.hpp"
#include "intq/quantization/prepared_modules.hpp"
#include "intq/quantization/quantized_graph.hpp"
#include "intq/quantization/stubs.hpp"

namespace intq::inline INTQ_ABI::quantization {

/// The steps of a prepared model, with all scales, the weights' codes under raised scales, and the real biases.
///
/// The prepared model stays as it is. Throws the Error that names the first quantizer that has seen no data.
///
/// @param target  the one that the model was prepared for, unless another with the same operators is wanted
QuantizedGraph convert_fx(PreparedModel& prepared, const arith::PolicyRecord& target);
inline QuantizedGraph convert_fx(PreparedModel& prepared) { return convert_fx(prepared, prepared.target()); }

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

/// Walks a prepared graph. An operator whose quantizer is still to come is pending: its node is written when the
/// quantizer, or the dequantize step that reads its accumulator, says what its output is.
class Converter {
public:
    Converter(PreparedModel& model, const arith::PolicyRecord& target) : model_(model) { result_.target = target; }

    QuantizedGraph run() {
        for (graph::Node* node : model_.graph().nodes()) {
            current_ = node;
            convert(*node);
        }
        return std::move(result_);
    }

private:
    void convert(graph::Node& node) {
        if (const auto* quantizer = dynamic_cast<Quantizer*>(graph::module_of(node, model_)))
            return convert_quantizer(node, *quantizer);
        switch (role_of(node, model_).role) {
            case Role::boundary:
                return convert_boundary(node);
            case Role::output:
                for (const graph::Node* input : node.inputs()) result_.outputs.push_back(real_tensor(*input));
                return;
            case Role::dequant_stub: {
                const int input = tensor_of(*node.inputs()[0]);
                values_[&node] = is_real(input) ? input : dequantize(input, node.name(), node.target(), "DeQuantStub");
                return;
            }
            case Role::quant_stub:
                values_[&node] = tensor_of(*node.inputs()[0]);
                return;
            default:
                break;
        }
        if (model_.is_quantized(node)) return convert_quantized(node);
        convert_float(node);
    }

    void convert_boundary(graph::Node& node) {
        const int tensor = add_tensor(node, DType::float32, {});
        values_[&node] = tensor;
        if (node.op() == graph::Op::placeholder) {
            result_.inputs.push_back(tensor);
        } else {
            result_.nodes.push_back(
                {node.name(), "", "get_attr", {}, tensor, ConstantStep{*model_.find_tensor(node.target())}});
        }
    }

    // --- operators on codes -----------------------------------------------------------------------------------------

    void convert_quantizer(graph::Node& node, const Quantizer& quantizer) {
        const graph::Node& source = *node.inputs()[0];
        if (!quantizer.has_qparams())
            throw error("no data was seen by the quantizer of %" + source.name() + "; run calibrate() first");
        const nn::OwnedQParams qparams = quantizer.qparams();
        if (pending_.count(&source) != 0) {
            values_[&node] = finish(source, qparams.dtype, qparams);
            return;
        }
        const int input = values_.at(&source);
        const int output = add_tensor(source, qparams.dtype, qparams);
        const bool is_stub = calls<nn::QuantStub>(source, model_);
        const std::string name = is_stub ? source.name() : node.name(),
                          module = is_stub ? source.target() : node.target();
        const Step step = is_real(input) ? Step(QuantizeStep{}) : Step(RequantizeStep{});
        result_.nodes.push_back({name, module, is_stub ? "QuantStub" : "Quantize", {input}, output, step});
        result_.tensors.back().name = name;
        values_[&node] = output;
    }

    void convert_quantized(graph::Node& node) {
        const OperatorRole role = role_of(node, model_);
        const graph::Node& first = *node.inputs()[0];
        if (role.kind == OpKind::relu && pending_.count(&first) != 0) {
            QuantizedNode add = std::move(pending_.at(&first));
            pending_.erase(&first);
            std::get<AddStep>(add.step).activation = activation_of(node);
            pending_[&node] = std::move(add);
            return;
        }
        QuantizedNode made{
            node.name(), node.op() == graph::Op::call_module ? node.target() : "", plain_type(node), {}, 0, {}};
        for (const graph::Argument& argument : node.args()) collect_inputs(argument, made.inputs);
        made.step = step_of(node, role.kind, made);
        if (role.role != Role::shares_input) {
            pending_[&node] = std::move(made);
        } else if (role.kind == OpKind::none) {
            values_[&node] = made.inputs[0];
        } else {
            const QuantizedTensor& codes = result_.tensor(made.inputs[0]);
            made.output = add_tensor(node, codes.dtype, nn::OwnedQParams(codes.qparams));
            values_[&node] = made.output;
            result_.nodes.push_back(std::move(made));
        }
    }

    Step step_of(const graph::Node& node, OpKind kind, const QuantizedNode& made) const {
        const nn::Module* module = graph::module_of(node, model_);
        const Shape& in = result_.tensor(made.inputs[0]).shape;
        switch (kind) {
            case OpKind::conv2d:
            case OpKind::linear:
                return weighted_step(dynamic_cast<const PreparedWeight&>(*module), kind, made);
            case OpKind::add:
                return AddStep{};
            case OpKind::relu:
                return ClampStep{activation_of(node)};
            case OpKind::max_pool2d:
                return MaxPoolStep{dynamic_cast<const nn::MaxPool2d&>(*module).window()};
            case OpKind::cat:
                return CatStep{positive(integer(node, 1, 0), in.rank)};
            case OpKind::avg_pool2d:
                return average_step(*module, in);
            case OpKind::flatten:
                if (const auto* flatten = dynamic_cast<const nn::Flatten*>(module))
                    return FlattenStep{positive(flatten->start_axis(), in.rank),
                                       positive(flatten->end_axis(), in.rank)};
                return FlattenStep{positive(integer(node, 1, 0), in.rank), positive(integer(node, 2, -1), in.rank)};
            default:
                return RequantizeStep{};  // identity and dropout: not written
        }
    }

    Step average_step(const nn::Module& module, const Shape& in) const {
        if (const auto* pool = dynamic_cast<const nn::AvgPool2d*>(&module))
            return AvgPoolStep{pool->window(), pool->divisor()};
        const Size2d out = dynamic_cast<const nn::AdaptiveAvgPool2d&>(module).output();
        if (in[2] % out.height != 0 || in[3] % out.width != 0)
            throw error("an adaptive average pool from " + nn::to_string(in) + " to " + std::to_string(out.height) +
                        " x " + std::to_string(out.width) +
                        " has windows of different size; only even splits have an integer form");
        const Size2d kernel{in[2] / out.height, in[3] / out.width};
        return AvgPoolStep{{kernel, kernel, {}, {1, 1}}, PoolDivisor::kernel_cells};
    }

    Step weighted_step(const PreparedWeight& prepared, OpKind kind, const QuantizedNode& made) const {
        const nn::Weighted& layer = prepared.layer();
        WeightedStep step;
        step.kind = kind;
        if (const auto* conv = dynamic_cast<const nn::Conv2d*>(&layer)) {
            step.window = conv->options().window;
            step.groups = conv->options().groups;
        }
        step.bias = layer.bias();
        step.sumin = layer.fusion().add;
        step.activation = layer.fusion().activation;
        const nn::OwnedQParams* operand = nullptr;
        if (step.sumin) {
            if (!result_.target.fused_add)
                throw error(std::string("the target ") + result_.target.name + " has no fused add");
            const QuantizedTensor& sumin = result_.tensor(made.inputs.at(1));
            const Shape& out = current_->outputs()[0].shape;
            if (!(sumin.shape == out))
                throw error("the fused add needs an operand of the output's shape " + nn::to_string(out) + ", given " +
                            nn::to_string(sumin.shape));
            operand = &sumin.qparams;
        }
        step.weight_qparams = raise_weight_scales(result_.target, weight_qparams(prepared), step.bias,
                                                  result_.tensor(made.inputs[0]).qparams, operand);
        step.weight = quantize(layer.weight(), step.weight_qparams, result_.target.quantize);
        return step;
    }

    // A fresh look at the weight, which may have changed since calibration; but qparams that were set stay.
    nn::OwnedQParams weight_qparams(const PreparedWeight& prepared) const {
        FakeQuantize& quantizer = prepared.weight_fake_quant();
        if (quantizer.has_qparams() && !quantizer.observer().seen()) return quantizer.qparams();
        const auto fresh = nn::clone(static_cast<const nn::Module&>(quantizer));
        auto& copy = static_cast<FakeQuantize&>(*fresh);
        copy.observer().reset_min_max_vals();
        copy.observe(prepared.layer().weight());
        return copy.qparams();
    }

    // Writes the node of a pending operator, now that its output is known.
    int finish(const graph::Node& node, DType dtype, const nn::OwnedQParams& qparams) {
        QuantizedNode made = std::move(pending_.at(&node));
        pending_.erase(&node);
        made.output = add_tensor(node, dtype, qparams);
        result_.nodes.push_back(std::move(made));
        return values_[&node] = static_cast<int>(result_.tensors.size()) - 1;
    }

    // s_acc[c] = fmul(s_in, s_w[c])
    int finish_accumulator(const graph::Node& node) {
        const QuantizedNode& made = pending_.at(&node);
        const auto* step = std::get_if<WeightedStep>(&made.step);
        if (step == nullptr) throw error("the output of %" + node.name() + " has no quantizer");
        const float input_scale = result_.tensor(made.inputs[0]).qparams.scale();
        nn::OwnedQParams qparams = nn::OwnedQParams::per_channel(
            {}, step->kind == OpKind::linear ? node.outputs()[0].shape.rank - 1 : 1, DType::int32);
        for (index_t c = 0; c < step->weight.extent(0); ++c)
            qparams.scales.push_back(arith::fmul(
                input_scale,
                step->weight_qparams.scales[step->weight_qparams.is_per_channel() ? static_cast<std::size_t>(c) : 0]));
        return finish(node, DType::int32, qparams);
    }

    // --- real values ------------------------------------------------------------------------------------------------

    void convert_float(graph::Node& node) {
        if (node.outputs().size() != 1) throw error("an operator in float with several outputs cannot be converted");
        FloatStep step;
        if (node.op() == graph::Op::call_module) step.module = model_.find_child(node.target());
        step.method = node.method();
        step.function = node.function();
        QuantizedNode made{
            node.name(), node.op() == graph::Op::call_module ? node.target() : "", graph::type_of(node, model_), {}, 0,
            {}};
        for (const graph::Argument& argument : node.args())
            step.arguments.push_back(float_argument(argument, made.inputs));
        made.step = std::move(step);
        made.output = add_tensor(node, DType::float32, {});
        values_[&node] = made.output;
        result_.nodes.push_back(std::move(made));
    }

    FloatArgument float_argument(const graph::Argument& argument, std::vector<int>& inputs) {
        FloatArgument result;
        if (const graph::Node* source = argument.node()) {
            result.input = static_cast<int>(inputs.size());
            inputs.push_back(real_tensor(*source));
        } else if (argument.list() != nullptr) {
            result.is_list = true;
            for (const graph::Argument& item : *argument.list()) result.list.push_back(float_argument(item, inputs));
        } else {
            std::visit(
                [&](const auto& content) {
                    if constexpr (std::is_constructible_v<nn::Value, decltype(content)>)
                        result.constant = nn::Value(content);
                },
                argument.content());
        }
        return result;
    }

    // The node's value as real numbers; one dequantize step serves all its readers.
    int real_tensor(const graph::Node& node) {
        const int tensor = tensor_of(node);
        if (is_real(tensor)) return tensor;
        const auto known = dequantized_.find(tensor);
        if (known != dequantized_.end()) return known->second;
        return dequantized_[tensor] =
                   dequantize(tensor, "dequantize_" + std::to_string(dequantized_.size()), "", "DeQuantize");
    }

    int dequantize(int input, const std::string& name, const std::string& module, const std::string& type) {
        QuantizedTensor real{name, DType::float32, {}, result_.tensor(input).shape};
        result_.tensors.push_back(std::move(real));
        const int output = static_cast<int>(result_.tensors.size()) - 1;
        result_.nodes.push_back({name, module, type, {input}, output, DequantizeStep{}});
        return output;
    }

    // --- helpers ----------------------------------------------------------------------------------------------------

    int tensor_of(const graph::Node& node) {
        if (pending_.count(&node) != 0) return finish_accumulator(node);
        return values_.at(&node);
    }

    void collect_inputs(const graph::Argument& argument, std::vector<int>& inputs) {
        if (const graph::Node* source = argument.node()) inputs.push_back(tensor_of(*source));
        if (argument.list() != nullptr)
            for (const graph::Argument& item : *argument.list()) collect_inputs(item, inputs);
    }

    int add_tensor(const graph::Node& node, DType dtype, nn::OwnedQParams qparams) {
        result_.tensors.push_back({node.name(), dtype, std::move(qparams), node.outputs()[0].shape});
        return static_cast<int>(result_.tensors.size()) - 1;
    }

    bool is_real(int tensor) const { return result_.tensor(tensor).dtype == DType::float32; }

    // "ConvReLU2d" for "qat.ConvReLU2d".
    std::string plain_type(const graph::Node& node) const {
        const std::string type = graph::type_of(node, model_);
        return type.rfind("qat.", 0) == 0 ? type.substr(4) : type;
    }

    Activation activation_of(const graph::Node& node) const {
        return graph::operator_of(node, model_) == "relu6" ? Activation::relu6 : Activation::relu;
    }

    static int integer(const graph::Node& node, std::size_t argument, int otherwise) {
        if (argument >= node.args().size()) return otherwise;
        const auto* value = std::get_if<std::int64_t>(&node.args()[argument].content());
        return value != nullptr ? static_cast<int>(*value) : otherwise;
    }

    int positive(int axis, int rank) const {
        const int result = axis < 0 ? axis + rank : axis;
        if (result < 0 || result >= rank)
            throw error("axis " + std::to_string(axis) + " does not exist in rank " + std::to_string(rank));
        return result;
    }

    Error error(const std::string& sentence) const {
        return Error("convert: %" + current_->name() + " (" + graph::type_of(*current_, model_) + ")", sentence);
    }

    PreparedModel& model_;
    QuantizedGraph result_;
    const graph::Node* current_ = nullptr;
    std::map<const graph::Node*, int> values_;
    std::map<const graph::Node*, QuantizedNode> pending_;
    std::map<int, int> dequantized_;
};

}  // namespace detail

inline QuantizedGraph convert_fx(PreparedModel& prepared, const arith::PolicyRecord& target) {
    return detail::Converter(prepared, target).run();
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_CONVERT_HPP
