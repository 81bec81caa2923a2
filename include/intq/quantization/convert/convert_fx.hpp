// SPDX-License-Identifier: MIT
//
// convert_fx: from a calibrated model to a QuantizedGraph, which the reference graph and the program are made of.
// Layer: quantization (docs/workflow.md section 4). Long because one walk over the graph, with one state, makes all
// steps.
#ifndef INTQ_QUANTIZATION_CONVERT_CONVERT_FX_HPP
#define INTQ_QUANTIZATION_CONVERT_CONVERT_FX_HPP

#include "intq/arith/target.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The steps of a prepared model, with all scales, the weights' codes under raised scales, and the real biases.
///
/// The prepared model stays as it is. The shapes of its values are those of its last run, of the example_inputs of
/// prepare, or of the state that was loaded. Throws the Error that names the first quantizer that has seen no data, and
/// that of a model whose shapes are not known.
///
/// @param target  the one that the model was prepared for, unless another with the same operators is wanted
QuantizedGraph convert_fx(PreparedModel& prepared, const arith::PolicyRecord& target);
QuantizedGraph convert_fx(PreparedModel& prepared);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <algorithm>
#    include <cstddef>
#    include <map>
#    include <memory>
#    include <string>
#    include <type_traits>
#    include <utility>
#    include <variant>
#    include <vector>

#    include "intq/graph/operators.hpp"
#    include "intq/graph/shape_arithmetic.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/quantize.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/grid_choice.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/modules/stubs.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/float_step.hpp"
#    include "intq/quantization/operators/operator_table.hpp"
#    include "intq/quantization/operators/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE QuantizedGraph convert_fx(PreparedModel& prepared) { return convert_fx(prepared, prepared.target()); }

namespace detail {

/// Walks a prepared graph. An operator whose quantizer is still to come is pending: its node is written when the
/// quantizer, or the dequantize step that reads its accumulator, says what its output is.
class Converter {
public:
    Converter(PreparedModel& model, const arith::PolicyRecord& target) : model_(model), operators_(model) {
        result_.target = target;
    }

    QuantizedGraph run() {
        choose_grids(model_);
        check_seen();
        ensure_shapes();
        for (graph::Node* node : model_.graph().nodes()) {
            current_ = node;
            convert(*node);
        }
        for (const auto& [node, tensor] : values_) result_.values[node->name()] = tensor;
        result_.properties = model_.properties();
        return std::move(result_);
    }

private:
    void check_seen() {
        for (const graph::Node* node : model_.graph().nodes()) {
            const auto* quantizer = dynamic_cast<Quantizer*>(graph::module_of(*node, model_));
            if (quantizer == nullptr || quantizer->has_qparams()) continue;
            current_ = node;
            throw error("no data was seen by the quantizer of %" + node->inputs()[0]->name() + run_it_first);
        }
    }

    void ensure_shapes() {
        try {
            model_.ensure_shapes();
        } catch (const Error& error) {
            throw Error("convert", error);
        }
    }

    void convert(graph::Node& node) {
        if (graph::gives_shape(node)) return;  // its readers take it by the shapes
        if (const auto* quantizer = dynamic_cast<Quantizer*>(graph::module_of(node, model_)))
            return convert_quantizer(node, *quantizer);
        switch (operators_.of(node).role) {
            case Role::boundary:
                return convert_boundary(node);
            case Role::output:
                for (const graph::Node* operand : node.operands()) result_.outputs.push_back(real_tensor(*operand));
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
            result_.nodes.push_back({node.name(),
                                     "",
                                     "get_attr",
                                     {},
                                     tensor,
                                     std::make_shared<ConstantStep>(*model_.find_tensor(node.target()))});
        }
    }

    // --- operators on codes -----------------------------------------------------------------------------------------

    void convert_quantizer(graph::Node& node, const Quantizer& quantizer) {
        const graph::Node& source = *node.inputs()[0];
        const OwnedQParams qparams = quantizer.qparams();
        if (pending_.count(&source) != 0) {
            const OwnedQParams given = output_of_pending(source, quantizer);
            values_[&node] = finish(source, given.dtype, given);
        }
        const int input = values_.at(&source);
        // The codes are on its grid already: it is the quantizer of the operator, or that of its input once more.
        if (!is_real(input) && result_.tensor(input).qparams == qparams) {
            values_[&node] = input;
            return;
        }
        const bool is_stub = calls<nn::QuantStub>(source, model_);
        const std::string name = is_stub ? source.name() : node.name(),
                          module = is_stub ? source.target() : node.target();
        if (is_real(input)) {
            values_[&node] = quantize(source, input, name, module, is_stub ? "QuantStub" : "Quantize", qparams);
            return;
        }
        const int output = add_tensor(source, qparams.dtype, qparams);
        result_.nodes.push_back({name, module, "Quantize", {input}, output, std::make_shared<RequantizeStep>()});
        result_.tensors.back().name = name;
        values_[&node] = output;
    }

    void convert_quantized(graph::Node& node) {
        const QuantizedOperator& row = operators_.of(node);
        const graph::Node& first = *node.inputs()[0];
        const bool is_pending = pending_.count(&first) != 0;
        if (is_pending && operators_.of(first).takes_relu && row.kind == OpKind::relu &&
            row.role == Role::shares_input) {
            QuantizedNode made = std::move(pending_.at(&first));
            pending_.erase(&first);
            made.step = made.step->with_activation(row.name == "relu6" ? Activation::relu6 : Activation::relu);
            pending_[&node] = std::move(made);
            return;
        }
        QuantizedNode made = node_of(node, plain_type(node));
        if (row.clip != nullptr && (is_pending || is_real(values_.at(&first))))
            return convert_bounds(node, std::move(made));
        for (const graph::Node* value : values_of(node)) made.inputs.push_back(tensor_of(*value));
        if (row.make_step == nullptr) {
            if (row.role == Role::float_only)
                throw error("it is to compute on codes, and has no integer form; was it replaced after prepare?");
            values_[&node] = made.inputs[0];
            return;
        }
        made.step = row.make_step(request_of(node, made));
        const bool shares_input = row.role == Role::shares_input || row.role == Role::item;
        if (!shares_input || asks_quantizer(node, row)) {
            pending_[&node] = std::move(made);
            return;
        }
        const QuantizedTensor& codes = result_.tensor(made.inputs[0]);
        made.output = add_tensor(node, codes.dtype, OwnedQParams(codes.qparams));
        values_[&node] = made.output;
        result_.nodes.push_back(std::move(made));
    }

    // A clip that bounds the codes of what alone it reads: it is written with that, whose quantizer stands behind it.
    void convert_bounds(const graph::Node& node, QuantizedNode made) {
        const QuantizedOperator& row = operators_.of(node);
        const StepRequest request = request_of(node, made);
        const std::optional<RealBounds> bounds = row.clip(request);
        if (!bounds) throw error("it reads real values, and has no integer form");
        made.step = std::make_shared<BoundStep>(request.call, *bounds);
        pending_[&node] = std::move(made);
    }

    // Of what keeps the grid of its input but not its values: whether quantizers alone read it, which decide its grid.
    bool asks_quantizer(const graph::Node& node, const QuantizedOperator& row) const {
        const bool keeps_scale = row.keeps_scale != nullptr && row.keeps_scale(result_.target);
        return keeps_scale && !node.users().empty() &&
               std::all_of(node.users().begin(), node.users().end(), [&](const graph::Node* user) {
                   return dynamic_cast<const Quantizer*>(graph::module_of(*user, model_)) != nullptr;
               });
    }

    StepRequest request_of(const graph::Node& node, const QuantizedNode& made) {
        StepRequest request{node, graph::module_of(node, model_), {}, node.outputs()[0].shape, result_.target, {}, {},
                            {}};
        for (const int input : made.inputs) request.inputs.push_back(&result_.tensor(input));
        int next = 0;
        request.call = float_call(node, [&](const graph::Node&) { return next++; });
        for (const FloatArgument& argument : request.call.arguments)
            request.constants.push_back(constant_of(argument, request));
        request.where = where(node);
        return request;
    }

    static nn::Value constant_of(const FloatArgument& argument, const StepRequest& request) {
        if (argument.extent_axis >= 0)
            return request.inputs.at(static_cast<std::size_t>(argument.input))->shape[argument.extent_axis];
        if (!argument.is_list) return argument.constant;
        nn::Value::Tuple items;
        for (const FloatArgument& item : argument.list) items.push_back(constant_of(item, request));
        return items;
    }

    static QuantizedNode node_of(const graph::Node& node, const std::string& type) {
        return {node.name(), node.op() == graph::Op::call_module ? node.target() : "", type, {}, 0, {}};
    }

    // Writes the node of a pending operator, now that its output is known.
    int finish(const graph::Node& node, DType dtype, const OwnedQParams& qparams) {
        QuantizedNode made = std::move(pending_.at(&node));
        pending_.erase(&node);
        if (made.inputs.empty()) made.inputs = {bounded_codes(*node.inputs()[0], dtype, qparams)};
        made.output = add_tensor(node, dtype, qparams);
        result_.nodes.push_back(std::move(made));
        return values_[&node] = static_cast<int>(result_.tensors.size()) - 1;
    }

    // The codes that a clip bounds: those of a pending operator, or of a QuantStub.
    int bounded_codes(const graph::Node& source, DType dtype, const OwnedQParams& qparams) {
        if (pending_.count(&source) != 0) return finish(source, dtype, qparams);
        return values_[&source] =
                   quantize(source, tensor_of(source), source.name(), source.target(), "QuantStub", qparams);
    }

    // Real values become codes.
    int quantize(const graph::Node& source, int input, const std::string& name, const std::string& module,
                 const std::string& type, const OwnedQParams& qparams) {
        const int output = add_tensor(source, qparams.dtype, qparams);
        result_.nodes.push_back({name, module, type, {input}, output, std::make_shared<QuantizeStep>()});
        result_.tensors.back().name = name;
        return output;
    }

    // The quantizer behind an operator decides its grid. One that follows the input gives the grid that the input has,
    // unless the operator before took this one in: then it is that of the operator.
    OwnedQParams output_of_pending(const graph::Node& node, const Quantizer& quantizer) const {
        const QuantizedNode& pending = pending_.at(&node);
        const bool is_taken_in = pending.name != node.name() || pending.inputs.empty();
        const bool follows = quantizer.follows_input() && !is_taken_in;
        return follows ? result_.tensor(pending.inputs[0]).qparams : quantizer.qparams();
    }

    int finish_accumulator(const graph::Node& node) {
        const QuantizedNode& made = pending_.at(&node);
        const auto qparams = made.inputs.empty() ? std::nullopt
                                                 : made.step->accumulator_qparams(result_.tensor(made.inputs[0]),
                                                                                  node.outputs()[0].shape);
        if (!qparams) throw error("the output of %" + node.name() + " has no quantizer");
        return finish(node, DType::int32, *qparams);
    }

    // --- real values ------------------------------------------------------------------------------------------------

    void convert_float(graph::Node& node) {
        if (node.outputs().size() != 1) throw error("an operator in float with several outputs cannot be converted");
        QuantizedNode made = node_of(node, graph::type_of(node, model_));
        made.step = std::make_shared<FloatStep>(float_call(node, [&](const graph::Node& source) {
            made.inputs.push_back(real_tensor(source));
            return static_cast<int>(made.inputs.size()) - 1;
        }));
        made.output = add_tensor(node, DType::float32, {});
        values_[&node] = made.output;
        result_.nodes.push_back(std::move(made));
    }

    // The node's call; `number(source)` says which input of the step a node of the graph is.
    template <class Number> FloatCall float_call(const graph::Node& node, const Number& number) {
        FloatCall call;
        // A module of its own: the prepared model may go on training. Layers with weights make theirs from their codes.
        const nn::Module* const module = graph::module_of(node, model_);
        if (module != nullptr && dynamic_cast<const PreparedWeight*>(module) == nullptr)
            call.module = nn::clone(*module);
        call.traced_hooks = node.traced_hooks();
        call.method = node.method();
        call.function = node.function();
        const std::vector<const graph::Node*> order = values_of(node);
        for (const graph::Argument& argument : node.args())
            call.arguments.push_back(float_argument(argument, number, order));
        return call;
    }

    // The values that a call reads, in the order in which its inputs are numbered.
    static std::vector<const graph::Node*> values_of(const graph::Node& node) {
        std::vector<const graph::Node*> values;
        for (const graph::Node* operand : node.operands())
            if (!graph::gives_shape(*operand)) values.push_back(operand);
        return values;
    }

    // The extent of an input stays one, for any number of samples. What else follows from shapes is a constant.
    FloatArgument shape_argument(const graph::Node& source, const std::vector<const graph::Node*>& order) const {
        FloatArgument result;
        if (const auto extent = graph::extent_of(source)) {
            const auto at = std::find(order.begin(), order.end(), extent->value);
            if (at != order.end()) {
                result.input = static_cast<int>(at - order.begin());
                result.extent_axis = extent->axis;
                return result;
            }
        }
        if (graph::reads_samples(source) && !model_.is_quantized(*current_))
            throw error("it stays in float and computes with the number of samples, %" + source.name() +
                        ", which a converted model leaves open; take the extent of its own input as it is, or flatten");
        result.constant = graph::shape_value(source);
        return result;
    }

    template <class Number>
    FloatArgument float_argument(const graph::Argument& argument, const Number& number,
                                 const std::vector<const graph::Node*>& order) {
        FloatArgument result;
        if (const graph::Node* source = argument.node()) {
            if (graph::gives_shape(*source)) return shape_argument(*source, order);
            result.input = number(*source);
        } else if (argument.list() != nullptr) {
            result.is_list = true;
            for (const graph::Argument& item : *argument.list())
                result.list.push_back(float_argument(item, number, order));
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
        result_.nodes.push_back({name, module, type, {input}, output, std::make_shared<DequantizeStep>()});
        return output;
    }

    // --- helpers ----------------------------------------------------------------------------------------------------

    int tensor_of(const graph::Node& node) {
        if (pending_.count(&node) != 0) return finish_accumulator(node);
        return values_.at(&node);
    }

    int add_tensor(const graph::Node& node, DType dtype, OwnedQParams qparams) {
        result_.tensors.push_back({node.name(), dtype, std::move(qparams), node.outputs()[0].shape});
        return static_cast<int>(result_.tensors.size()) - 1;
    }

    bool is_real(int tensor) const { return result_.tensor(tensor).dtype == DType::float32; }

    // "ConvReLU2d" for "qat.ConvReLU2d".
    std::string plain_type(const graph::Node& node) const {
        const std::string type = graph::type_of(node, model_);
        return type.rfind("qat.", 0) == 0 ? type.substr(4) : type;
    }

    std::string where(const graph::Node& node) const { return "convert: " + graph::place_of(node, model_); }
    Error error(const std::string& sentence) const { return Error(where(*current_), sentence); }

    PreparedModel& model_;
    NodeOperators operators_;
    QuantizedGraph result_;
    const graph::Node* current_ = nullptr;
    std::map<const graph::Node*, int> values_;
    std::map<const graph::Node*, QuantizedNode> pending_;
    std::map<int, int> dequantized_;
};

}  // namespace detail

INTQ_INLINE QuantizedGraph convert_fx(PreparedModel& prepared, const arith::PolicyRecord& target) {
    return detail::Converter(prepared, target).run();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_CONVERT_FX_HPP
