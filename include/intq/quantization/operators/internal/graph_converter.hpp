// SPDX-License-Identifier: MIT
//
// GraphConverter: the walk from a graph with quantizers on its edges to a QuantizedGraph, by which convert makes steps
// and prepare asks whether they can be made. Layer: quantization (docs/workflow.md section 4). Long because one walk
// with one state makes all steps.
#ifndef INTQ_QUANTIZATION_OPERATORS_INTERNAL_GRAPH_CONVERTER_HPP
#define INTQ_QUANTIZATION_OPERATORS_INTERNAL_GRAPH_CONVERTER_HPP

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/core/dtype.hpp"
#include "intq/graph/graph_module.hpp"
#include "intq/graph/node.hpp"
#include "intq/io/error.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/quantization/fake_quantize/quantizer.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/operators/operator_table.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Makes the steps of a graph whose edges hold quantizers, in the order of its nodes. A derived class decides where
/// scales come from, which nodes compute on codes, and what is checked of each step.
///
/// An operator whose quantizer is still to come is pending: its node is written when the quantizer, or the dequantize
/// step that reads its accumulator, says what its output is.
class GraphConverter {
public:
    /// @pre  the shapes of the values are known; the model outlives this
    GraphConverter(graph::GraphModule& model, const arith::PolicyRecord& target);
    virtual ~GraphConverter() = default;
    GraphConverter(const GraphConverter&) = delete;
    GraphConverter& operator=(const GraphConverter&) = delete;

protected:
    /// Converts each node, by visit().
    void walk();

    /// Whether a node computes on codes; the others stay in float.
    virtual bool is_quantized(const graph::Node& node) const = 0;
    virtual OwnedQParams qparams_of(const Quantizer& quantizer) const = 0;
    /// Whether a quantizer takes the grid of the operator's input.
    virtual bool follows_input(const Quantizer& quantizer) const = 0;
    /// How the errors of a node begin; may be empty.
    virtual std::string where(const graph::Node& node) const = 0;
    /// The module that a step calls in float; may be null.
    virtual nn::ModulePtr module_of_step(const nn::Module& module) const = 0;
    virtual void visit(graph::Node& node) { convert(node); }
    /// A step on codes is about to be written.
    ///
    /// @param node  the operator, or the quantizer that becomes a step
    virtual INTQ_INLINE void check_step(const graph::Node& node, const QuantizedNode& made,
                                        const QuantizedTensor& output);

    void convert(graph::Node& node);
    /// Whether an operator or its quantizer became a tensor, or will when its quantizer is met.
    bool has_value(const graph::Node& node) const;
    /// Leaves an operator to its quantizer, as convert() does with one that has a step.
    void set_pending(const graph::Node& node, QuantizedNode made);
    void set_tensor(const graph::Node& node, DType dtype, OwnedQParams qparams);
    static QuantizedNode node_of(const graph::Node& node, const std::string& type);

    graph::GraphModule& model() const noexcept { return model_; }
    const QuantizedOperator& operator_of(const graph::Node& node) const { return operators_.of(node); }
    QuantizedGraph& result() noexcept { return result_; }
    const QuantizedGraph& result() const noexcept { return result_; }
    /// The tensors that the nodes became so far.
    const std::map<const graph::Node*, int>& values() const noexcept { return values_; }

private:
    /// An operator whose output is not known yet.
    struct Pending {
        const graph::Node* node;  // the operator, whose relu may be another
        QuantizedNode made;
    };
    /// The input of a step that a node of the graph is.
    using InputNumber = std::function<int(const graph::Node&)>;

    void convert_boundary(const graph::Node& node);
    void convert_quantizer(const graph::Node& node, const Quantizer& quantizer);
    void convert_quantized(const graph::Node& node);
    bool take_in_relu(const graph::Node& node, const QuantizedOperator& row);
    void convert_bounds(const graph::Node& node, QuantizedNode made);
    void convert_float(const graph::Node& node);
    bool counts_samples(const graph::Node& source) const;
    bool asks_quantizer(const graph::Node& node, const QuantizedOperator& row) const;

    StepRequest request_of(const graph::Node& node, const QuantizedNode& made);
    static nn::Value constant_of(const FloatArgument& argument, const StepRequest& request);
    FloatCall float_call(const graph::Node& node, const InputNumber& number);
    FloatArgument float_argument(const graph::Argument& argument, const InputNumber& number,
                                 const std::vector<const graph::Node*>& order);
    FloatArgument shape_argument(const graph::Node& source, const std::vector<const graph::Node*>& order) const;

    int finish(const graph::Node& node, DType dtype, const OwnedQParams& qparams);
    int finish_accumulator(const graph::Node& node);
    int bounded_codes(const graph::Node& source, DType dtype, const OwnedQParams& qparams);
    OwnedQParams output_of_pending(const graph::Node& node, const Quantizer& quantizer) const;
    int quantize(const graph::Node& source, int input, QuantizedNode made, const OwnedQParams& qparams);
    int dequantize(int input, QuantizedNode made);
    int real_tensor(const graph::Node& node);
    // The tensor of a value, for a reader that takes accumulators.
    int tensor_of(const graph::Node& node);
    int write(const graph::Node& node, QuantizedNode made, QuantizedTensor output);
    int add_tensor(QuantizedTensor tensor);
    static QuantizedTensor tensor_for(const graph::Node& node, DType dtype, OwnedQParams qparams);
    bool is_real(int tensor) const { return result_.tensor(tensor).dtype == DType::float32; }
    std::string plain_type(const graph::Node& node) const;
    Error error(const std::string& sentence) const { return Error(where(*current_), sentence); }

    graph::GraphModule& model_;
    mutable NodeOperators operators_;
    QuantizedGraph result_;
    const graph::Node* current_ = nullptr;
    std::map<const graph::Node*, int> values_;
    std::map<const graph::Node*, Pending> pending_;
    std::map<int, int> dequantized_;
};

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <cstddef>
#    include <optional>
#    include <utility>

#    include "intq/graph/interpreter.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/graph/shape_arithmetic.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/modules/quantizer_of.hpp"
#    include "intq/quantization/modules/stubs.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/float_step.hpp"
#    include "intq/quantization/operators/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The values that a call reads, in the order in which its inputs are numbered.
INTQ_INLINE std::vector<const graph::Node*> values_of(const graph::Node& node) {
    std::vector<const graph::Node*> values;
    for (const graph::Node* operand : node.operands())
        if (!graph::gives_shape(*operand)) values.push_back(operand);
    return values;
}

INTQ_INLINE GraphConverter::GraphConverter(graph::GraphModule& model, const arith::PolicyRecord& target)
    : model_(model), operators_(model) {
    result_.target = target;
}

INTQ_INLINE void GraphConverter::walk() {
    for (graph::Node* node : model_.graph().nodes()) {
        current_ = node;
        visit(*node);
    }
}

INTQ_INLINE void GraphConverter::check_step(const graph::Node&, const QuantizedNode&, const QuantizedTensor&) {}

INTQ_INLINE bool GraphConverter::has_value(const graph::Node& node) const {
    return values_.count(&node) != 0 || pending_.count(&node) != 0;
}

INTQ_INLINE void GraphConverter::set_pending(const graph::Node& node, QuantizedNode made) {
    pending_[&node] = {&node, std::move(made)};
}

INTQ_INLINE void GraphConverter::set_tensor(const graph::Node& node, DType dtype, OwnedQParams qparams) {
    values_[&node] = add_tensor(tensor_for(node, dtype, std::move(qparams)));
}

INTQ_INLINE void GraphConverter::convert(graph::Node& node) {
    if (graph::gives_shape(node)) return;  // its readers take it by the shapes
    if (const Quantizer* quantizer = quantizer_of(node, model_)) return convert_quantizer(node, *quantizer);
    switch (operators_.of(node).role) {
        case Role::boundary:
            return convert_boundary(node);
        case Role::output:
            for (const graph::Node* operand : node.operands()) result_.outputs.push_back(real_tensor(*operand));
            return;
        case Role::dequant_stub: {
            const int input = tensor_of(*node.inputs()[0]);
            const bool passes = is_real(input) || result_.tensor(input).is_ids;
            values_[&node] = passes ? input : dequantize(input, node_of(node, "DeQuantStub"));
            return;
        }
        case Role::quant_stub:
            values_[&node] = tensor_of(*node.inputs()[0]);
            return;
        default:
            break;
    }
    if (is_quantized(node)) return convert_quantized(node);
    convert_float(node);
}

INTQ_INLINE void GraphConverter::convert_boundary(const graph::Node& node) {
    set_tensor(node, DType::float32, {});
    const int tensor = values_.at(&node);
    if (node.op() == graph::Op::placeholder) {
        const auto takes_ids = [&](const graph::Node* user) {
            return graph::takes_as_ids(*user, operators_.of(*user).name, node);
        };
        if (!node.users().empty() && std::all_of(node.users().begin(), node.users().end(), takes_ids)) {
            result_.tensors[static_cast<std::size_t>(tensor)].dtype = DType::int32;
            result_.tensors[static_cast<std::size_t>(tensor)].is_ids = true;
        }
        result_.inputs.push_back(tensor);
        return;
    }
    QuantizedNode made = node_of(node, "get_attr");
    made.output = tensor;
    made.step = make_as<Step, ConstantStep>(*model_.find_tensor(node.target()));
    result_.nodes.push_back(std::move(made));
}

// --- operators on codes ----------------------------------------------------------------------------------------------

INTQ_INLINE void GraphConverter::convert_quantizer(const graph::Node& node, const Quantizer& quantizer) {
    const graph::Node& source = *node.inputs()[0];
    const OwnedQParams qparams = qparams_of(quantizer);
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
    QuantizedNode made = node_of(is_stub ? source : node, is_stub ? "QuantStub" : "Quantize");
    made.module = is_stub ? source.target() : node.target();
    if (is_real(input)) {
        values_[&node] = quantize(source, input, std::move(made), qparams);
        return;
    }
    QuantizedTensor output = tensor_for(source, qparams.dtype, qparams);
    output.name = made.name;
    made.type = "Quantize";
    made.inputs = {input};
    made.step = make_as<Step, RequantizeStep>();
    values_[&node] = write(node, std::move(made), std::move(output));
}

INTQ_INLINE void GraphConverter::convert_quantized(const graph::Node& node) {
    const QuantizedOperator& row = operators_.of(node);
    if (take_in_relu(node, row)) return;
    QuantizedNode made = node_of(node, plain_type(node));
    const graph::Node& first = *node.inputs()[0];
    if (row.clip != nullptr && (pending_.count(&first) != 0 || is_real(values_.at(&first))))
        return convert_bounds(node, std::move(made));
    for (const graph::Node* value : values_of(node)) made.inputs.push_back(tensor_of(*value));
    if (row.make_step == nullptr) {
        if (row.role == Role::float_only)
            throw error("it is to compute on codes, and has no integer form; was it replaced after prepare?");
        values_[&node] = made.inputs[0];
        return;
    }
    made.step = row.make_step(request_of(node, made));
    if (row.role == Role::gives_ids) {
        QuantizedTensor ids = tensor_for(node, DType::int32, OwnedQParams::per_tensor(1.0f, DType::int32));
        ids.is_ids = true;
        values_[&node] = write(node, std::move(made), std::move(ids));
        return;
    }
    const bool shares_input = row.role == Role::shares_input || row.role == Role::copies_into || row.role == Role::item;
    if (!shares_input || asks_quantizer(node, row)) return set_pending(node, std::move(made));
    const QuantizedTensor& codes = result_.tensor(made.inputs[0]);
    QuantizedTensor output = tensor_for(node, codes.dtype, codes.qparams);
    output.is_ids = codes.is_ids;
    values_[&node] = write(node, std::move(made), std::move(output));
}

// A relu whose operator takes it in: the quantizer behind it is the operator's.
INTQ_INLINE bool GraphConverter::take_in_relu(const graph::Node& node, const QuantizedOperator& row) {
    const auto taking = pending_.find(node.inputs()[0]);
    if (taking == pending_.end() || !operators_.of(*taking->first).takes_relu || row.kind != OpKind::relu ||
        row.role != Role::shares_input)
        return false;
    Pending taken = std::move(taking->second);
    pending_.erase(taking);
    taken.made.step = taken.made.step->with_activation(row.name == "relu6" ? Activation::relu6 : Activation::relu);
    pending_[&node] = std::move(taken);
    return true;
}

// A clip that bounds the codes of an operator that only it reads: it is written with the operator, whose quantizer is
// behind the clip.
INTQ_INLINE void GraphConverter::convert_bounds(const graph::Node& node, QuantizedNode made) {
    const QuantizedOperator& row = operators_.of(node);
    const StepRequest request = request_of(node, made);
    const std::optional<RealBounds> bounds = row.clip(request);
    if (!bounds) throw error("it reads real values, and has no integer form");
    made.step = make_as<Step, BoundStep>(request.call, *bounds);
    set_pending(node, std::move(made));
}

// Of an operator that keeps the grid of its input but not its values: whether quantizers alone read it, which decide
// its grid.
INTQ_INLINE bool GraphConverter::asks_quantizer(const graph::Node& node, const QuantizedOperator& row) const {
    const bool keeps_scale = row.keeps_scale != nullptr && row.keeps_scale(result_.target);
    return keeps_scale && !node.users().empty() &&
           std::all_of(node.users().begin(), node.users().end(),
                       [&](const graph::Node* user) { return quantizer_of(*user, model_) != nullptr; });
}

INTQ_INLINE StepRequest GraphConverter::request_of(const graph::Node& node, const QuantizedNode& made) {
    StepRequest request{node, graph::module_of(node, model_), {}, node.outputs()[0].shape, result_.target, {}, {}, {}};
    for (const int input : made.inputs) request.inputs.push_back(&result_.tensor(input));
    int next = 0;
    request.call = float_call(node, [&](const graph::Node&) { return next++; });
    for (const FloatArgument& argument : request.call.arguments)
        request.constants.push_back(constant_of(argument, request));
    request.where = where(node);
    return request;
}

INTQ_INLINE nn::Value GraphConverter::constant_of(const FloatArgument& argument, const StepRequest& request) {
    if (argument.extent_axis >= 0)
        return request.inputs.at(static_cast<std::size_t>(argument.input))->shape[argument.extent_axis];
    if (!argument.is_list) return argument.constant;
    nn::Value::Tuple items;
    for (const FloatArgument& item : argument.list) items.push_back(constant_of(item, request));
    return items;
}

INTQ_INLINE QuantizedNode GraphConverter::node_of(const graph::Node& node, const std::string& type) {
    return {node.name(), node.op() == graph::Op::call_module ? node.target() : "", type, {}, 0, {}};
}

// Writes the node of a pending operator, now that its output is known.
INTQ_INLINE int GraphConverter::finish(const graph::Node& node, DType dtype, const OwnedQParams& qparams) {
    Pending pending = std::move(pending_.at(&node));
    pending_.erase(&node);
    if (pending.made.inputs.empty()) pending.made.inputs = {bounded_codes(*node.inputs()[0], dtype, qparams)};
    return values_[&node] = write(*pending.node, std::move(pending.made), tensor_for(node, dtype, qparams));
}

// The codes that a clip bounds: those of a pending operator, or of a QuantStub.
INTQ_INLINE int GraphConverter::bounded_codes(const graph::Node& source, DType dtype, const OwnedQParams& qparams) {
    if (pending_.count(&source) != 0) return finish(source, dtype, qparams);
    const int input = tensor_of(source);
    QuantizedNode made = node_of(source, "QuantStub");
    made.module = source.target();
    return values_[&source] = quantize(source, input, std::move(made), qparams);
}

// Real values become codes.
INTQ_INLINE int GraphConverter::quantize(const graph::Node& source, int input, QuantizedNode made,
                                         const OwnedQParams& qparams) {
    QuantizedTensor output = tensor_for(source, qparams.dtype, qparams);
    output.name = made.name;
    made.inputs = {input};
    made.step = make_as<Step, QuantizeStep>();
    return write(*current_, std::move(made), std::move(output));
}

// The quantizer behind an operator decides its grid. One that follows the input takes the grid that the input has,
// unless the operator before took this one in: then it is that of the operator.
INTQ_INLINE OwnedQParams GraphConverter::output_of_pending(const graph::Node& node, const Quantizer& quantizer) const {
    const QuantizedNode& made = pending_.at(&node).made;
    const bool is_taken_in = made.name != node.name() || made.inputs.empty();
    const bool follows = follows_input(quantizer) && !is_taken_in;
    return follows ? result_.tensor(made.inputs[0]).qparams : qparams_of(quantizer);
}

INTQ_INLINE int GraphConverter::finish_accumulator(const graph::Node& node) {
    const QuantizedNode& made = pending_.at(&node).made;
    const auto qparams = made.inputs.empty()
                             ? std::nullopt
                             : made.step->accumulator_qparams(result_.tensor(made.inputs[0]), node.outputs()[0].shape);
    if (!qparams) throw error("the output of %" + node.name() + " has no quantizer");
    return finish(node, DType::int32, *qparams);
}

// --- real values -----------------------------------------------------------------------------------------------------

INTQ_INLINE void GraphConverter::convert_float(const graph::Node& node) {
    if (node.outputs().size() != 1) throw error("an operator in float with several outputs cannot be converted");
    QuantizedNode made = node_of(node, graph::type_of(node, model_));
    made.step = make_as<Step, FloatStep>(float_call(node, [&](const graph::Node& source) {
        made.inputs.push_back(real_tensor(source));
        return static_cast<int>(made.inputs.size()) - 1;
    }));
    set_tensor(node, DType::float32, {});
    made.output = values_.at(&node);
    result_.nodes.push_back(std::move(made));
}

// The node's call; `number(source)` says which input of the step a node of the graph is.
INTQ_INLINE FloatCall GraphConverter::float_call(const graph::Node& node, const InputNumber& number) {
    FloatCall call;
    // Layers with weights make their module from the weights' codes.
    const nn::Module* const module = graph::module_of(node, model_);
    if (module != nullptr && dynamic_cast<const PreparedWeight*>(module) == nullptr)
        call.module = module_of_step(*module);
    call.traced_hooks = node.traced_hooks();
    call.method = node.method();
    call.function = node.function();
    const std::vector<const graph::Node*> order = values_of(node);
    for (const graph::Argument& argument : node.args())
        call.arguments.push_back(float_argument(argument, number, order));
    return call;
}

INTQ_INLINE FloatArgument GraphConverter::float_argument(const graph::Argument& argument, const InputNumber& number,
                                                         const std::vector<const graph::Node*>& order) {
    FloatArgument result;
    if (const graph::Node* source = argument.node()) {
        if (graph::gives_shape(*source)) return shape_argument(*source, order);
        result.input = number(*source);
    } else if (argument.list() != nullptr) {
        result.is_list = true;
        for (const graph::Argument& item : *argument.list()) result.list.push_back(float_argument(item, number, order));
    } else {
        result.constant = graph::Interpreter::resolve(argument, {});
    }
    return result;
}

// The extent of an input stays one, for any number of samples. Other arguments that follow from shapes are constants.
INTQ_INLINE FloatArgument GraphConverter::shape_argument(const graph::Node& source,
                                                         const std::vector<const graph::Node*>& order) const {
    FloatArgument result;
    if (const auto extent = graph::extent_of(source)) {
        const auto at = std::find(order.begin(), order.end(), extent->value);
        if (at != order.end()) {
            result.input = static_cast<int>(at - order.begin());
            result.extent_axis = extent->axis;
            return result;
        }
    }
    result.constant = graph::shape_value(source);
    result.is_samples = counts_samples(source);
    if (result.is_samples) return result;
    if (graph::reads_samples(source) && !is_quantized(*current_))
        throw error("it stays in float and computes with the number of samples, %" + source.name() +
                    ", which a converted model leaves open; take the extent of its own input as it is, or flatten");
    return result;
}

// Whether a node is axis 0 of an input of the model or of codes, that are not a tensor of the model.
INTQ_INLINE bool GraphConverter::counts_samples(const graph::Node& source) const {
    const auto extent = graph::extent_of(source);
    if (!extent || extent->axis != 0) return false;
    if (extent->value->op() == graph::Op::placeholder || pending_.count(extent->value) != 0) return true;
    const auto found = values_.find(extent->value);
    if (found == values_.end() || result_.tensor(found->second).dtype == DType::float32) return false;
    const auto makes_it = [&](const QuantizedNode& made) { return made.output == found->second; };
    const auto made = std::find_if(result_.nodes.begin(), result_.nodes.end(), makes_it);
    return made == result_.nodes.end() || quantized_constant(result_, *made) == nullptr;
}

// The node's value as real numbers; one dequantize step serves all its readers.
INTQ_INLINE int GraphConverter::real_tensor(const graph::Node& node) {
    const int tensor = tensor_of(node);
    if (is_real(tensor) || result_.tensor(tensor).is_ids) return tensor;
    const auto known = dequantized_.find(tensor);
    if (known != dequantized_.end()) return known->second;
    const std::string name = "dequantize_" + std::to_string(dequantized_.size());
    return dequantized_[tensor] = dequantize(tensor, {name, "", "DeQuantize"});
}

INTQ_INLINE int GraphConverter::dequantize(int input, QuantizedNode made) {
    made.inputs = {input};
    made.output = add_tensor({made.name, DType::float32, {}, result_.tensor(input).shape});
    made.step = make_as<Step, DequantizeStep>();
    result_.nodes.push_back(std::move(made));
    return result_.nodes.back().output;
}

// --- helpers ---------------------------------------------------------------------------------------------------------

INTQ_INLINE int GraphConverter::tensor_of(const graph::Node& node) {
    if (pending_.count(&node) != 0) return finish_accumulator(node);
    return values_.at(&node);
}

INTQ_INLINE int GraphConverter::write(const graph::Node& node, QuantizedNode made, QuantizedTensor output) {
    check_step(node, made, output);
    made.output = add_tensor(std::move(output));
    result_.nodes.push_back(std::move(made));
    return result_.nodes.back().output;
}

INTQ_INLINE int GraphConverter::add_tensor(QuantizedTensor tensor) {
    result_.tensors.push_back(std::move(tensor));
    return static_cast<int>(result_.tensors.size()) - 1;
}

INTQ_INLINE QuantizedTensor GraphConverter::tensor_for(const graph::Node& node, DType dtype, OwnedQParams qparams) {
    // An input is known by the name that the model gives it, which need not be a name of Python.
    const bool is_input = node.op() == graph::Op::placeholder;
    return {is_input ? node.target() : node.name(), dtype, std::move(qparams), node.outputs()[0].shape};
}

// "ConvReLU2d" for "qat.ConvReLU2d".
INTQ_INLINE std::string GraphConverter::plain_type(const graph::Node& node) const {
    const std::string type = graph::type_of(node, model_);
    return type.rfind("qat.", 0) == 0 ? type.substr(4) : type;
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_INTERNAL_GRAPH_CONVERTER_HPP
