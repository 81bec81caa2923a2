// SPDX-License-Identifier: MIT
//
// The view that an operator's export row has of a call: its arguments, its module, and a graph to write into.
// Layer: interop.
//
// A row does not know whether the call is a node of a float model or a step of a converted one.
#ifndef INTQ_INTEROP_ONNX_EXPORT_INTERNAL_NODE_EXPORT_HPP
#define INTQ_INTEROP_ONNX_EXPORT_INTERNAL_NODE_EXPORT_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/shape.hpp"
#include "intq/interop/onnx/export/internal/graph_writer.hpp"
#include "intq/interop/onnx/internal/nodes/layer_codes.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// An argument of a call: a tensor of the file, a constant, or a list of arguments.
struct ExportArgument {
    std::vector<std::string> values{};  // of the file: one, or those of a tuple; none for a constant
    Shape shape{};
    nn::Value constant{};
    std::vector<ExportArgument> list{};
    bool is_list = false;
    // Of a constant that was computed from the shapes of values:
    bool follows_shape = false, follows_samples = false;  // from any extent, and from an extent of axis 0
    int copied_axis = -1;                                 // this axis of argument 0, whose extent it copies
    std::string extent_of{};                              // a value of the file whose axis 0 it is, if it is that alone
};

/// A call of an operator.
struct ExportedCall {
    std::string op{};     // of graph/operators.hpp; for a layer with weights its operator_name()
    std::string name{};   // of the module, or of the graph's node
    std::string where{};  // for messages: "%conv1 (Conv2d)"
    const nn::Module* module = nullptr;
    std::vector<ExportArgument> arguments{};
    Shape output{};
    LayerCodes layer{};  // without a grid, the weight is written as real numbers, and so is a bias without codes
    Activation activation = Activation::none;  // behind the operator, where its module does not have it
};

/// Sets the module of a call. A layer with weights brings operator, weight and bias, whatever is fused into it.
void set_module(ExportedCall& call, const nn::Module* module);

class NodeExport {
public:
    NodeExport(const ExportedCall& call, GraphWriter& writer) : call_(call), writer_(writer) {}

    const ExportedCall& call() const noexcept { return call_; }
    GraphWriter& writer() noexcept { return writer_; }
    std::int64_t opset() const noexcept { return writer_.opset(); }
    const OpenExtents& open() const noexcept { return writer_.open(); }
    /// Whether an argument is a number that differs where the file leaves extents open.
    bool is_open(const ExportArgument& argument) const noexcept;
    /// Says that the nodes written here need an opset.
    void need(std::int64_t opset, const std::string& what);
    Error error(const std::string& sentence) const { return Error(call_.where, sentence); }

    /// The module as the class of the row.
    ///
    /// @throws Error for another class
    template <class T> const T& module() const {
        if (const auto* typed = dynamic_cast<const T*>(call_.module)) return *typed;
        throw error("its module is of another class than its operator");
    }
    template <class T> const T* module_if() const noexcept { return dynamic_cast<const T*>(call_.module); }

    /// Argument i as a value of the file.
    ///
    /// @throws Error for a constant
    const std::string& value(std::size_t i = 0) const;
    const Shape& shape(std::size_t i = 0) const;
    const Shape& output_shape() const noexcept { return call_.output; }
    /// Whether argument i is a tensor.
    bool is_value(std::size_t i) const;
    const ExportArgument& argument(std::size_t i) const;
    /// The constant arguments, as a function reads them.
    std::vector<nn::Value> constants() const;
    /// A given axis, counted from the front.
    std::int64_t axis(std::int64_t given) const;

    /// The ONNX operator that the call's row in graph/operator_rows.hpp names first.
    std::string op_type() const;
    /// Adds the node that represents the call; the first such node has the call's name.
    std::string add(const std::string& op_type, std::vector<std::string> inputs,
                    std::vector<Attribute> attributes = {});
    std::vector<std::string> add_tuple(const std::string& op_type, std::vector<std::string> inputs,
                                       std::vector<Attribute> attributes, std::size_t outputs);
    /// Adds one more node, named after the call with a suffix.
    std::string add_part(const std::string& part, const std::string& op_type, std::vector<std::string> inputs,
                         std::vector<Attribute> attributes = {});
    /// Adds an initializer named after the call with a suffix.
    template <class T>
    std::string constant(const std::string& part, std::vector<index_t> dims, const std::vector<T>& values) {
        return writer_.add_constant<T>(name() + "_" + part, std::move(dims), values);
    }
    /// The same for a parameter of the model.
    std::string parameter(const std::string& part, const Tensor& tensor);
    std::string integers(const std::string& part, const std::vector<std::int64_t>& values) {
        return constant<std::int64_t>(part, {static_cast<index_t>(values.size())}, values);
    }
    std::string number(const std::string& part, float value) { return constant<float>(part, {}, {value}); }

    /// The name of the call's node.
    const std::string& name();

    void set_result(std::string value) { results_ = {std::move(value)}; }
    void set_results(std::vector<std::string> values) { results_ = std::move(values); }
    const std::vector<std::string>& results() const noexcept { return results_; }

private:
    const ExportedCall& call_;
    GraphWriter& writer_;
    std::string name_;
    bool is_named_ = false;
    std::vector<std::string> results_;
};

Attribute integer_attribute(const std::string& name, std::int64_t value);
Attribute integers_attribute(const std::string& name, std::vector<std::int64_t> values);
Attribute number_attribute(const std::string& name, float value);
Attribute text_attribute(const std::string& name, const std::string& value);

/// A tensor as the file holds it.
FileTensor to_file_tensor(const std::string& name, const Tensor& tensor);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_export)

#    include <algorithm>
#    include <utility>

#    include "intq/graph/operator_rows.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/weighted.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void set_module(ExportedCall& call, const nn::Module* module) {
    call.module = module;
    const auto* const layer = dynamic_cast<const nn::Weighted*>(module);
    if (layer == nullptr) return;
    call.op = layer->operator_name();
    call.layer.weight = layer->weight();
    call.layer.bias = layer->bias();
}

INTQ_INLINE bool NodeExport::is_open(const ExportArgument& argument) const noexcept {
    if (argument.is_list)
        return std::any_of(argument.list.begin(), argument.list.end(),
                           [&](const ExportArgument& item) { return is_open(item); });
    return (argument.follows_samples && open().samples) || (argument.follows_shape && open().others);
}

INTQ_INLINE Attribute integer_attribute(const std::string& name, std::int64_t value) { return {name, value}; }
INTQ_INLINE Attribute integers_attribute(const std::string& name, std::vector<std::int64_t> values) {
    return {name, std::move(values)};
}
INTQ_INLINE Attribute number_attribute(const std::string& name, float value) { return {name, value}; }
INTQ_INLINE Attribute text_attribute(const std::string& name, const std::string& value) { return {name, value}; }

INTQ_INLINE FileTensor to_file_tensor(const std::string& name, const Tensor& tensor) {
    const Tensor rows = tensor.contiguous();
    FileTensor result{.name = name, .dtype = rows.dtype(), .dims = {}, .data = {}};
    for (int axis = 0; axis < rows.rank(); ++axis) result.dims.push_back(rows.extent(axis));
    result.data.assign(rows.data(), rows.data() + rows.bytes());
    return result;
}

INTQ_INLINE void NodeExport::need(std::int64_t opset, const std::string& what) {
    writer_.need(opset, what + " of " + call_.where);
}

INTQ_INLINE const ExportArgument& NodeExport::argument(std::size_t i) const {
    if (i >= call_.arguments.size()) throw error("argument " + std::to_string(i + 1) + " is missing");
    return call_.arguments[i];
}

INTQ_INLINE bool NodeExport::is_value(std::size_t i) const {
    return i < call_.arguments.size() && !call_.arguments[i].values.empty();
}

INTQ_INLINE const std::string& NodeExport::value(std::size_t i) const {
    if (!is_value(i)) throw error("argument " + std::to_string(i + 1) + " is a constant, expected a tensor");
    return argument(i).values.front();
}

INTQ_INLINE const Shape& NodeExport::shape(std::size_t i) const { return argument(i).shape; }

namespace detail {

INTQ_INLINE nn::Value constant_of(const ExportArgument& argument) {
    if (!argument.is_list) return argument.constant;
    nn::Value::Tuple items;
    for (const ExportArgument& item : argument.list) items.push_back(constant_of(item));
    return items;
}

}  // namespace detail

INTQ_INLINE std::vector<nn::Value> NodeExport::constants() const {
    std::vector<nn::Value> result;
    for (const ExportArgument& argument : call_.arguments) result.push_back(detail::constant_of(argument));
    return result;
}

INTQ_INLINE std::int64_t NodeExport::axis(std::int64_t given) const {
    const std::int64_t rank = shape().rank, result = given < 0 ? given + rank : given;
    if (result < 0 || result >= rank)
        throw error("axis " + std::to_string(given) + " does not exist in " + to_string(shape()));
    return result;
}

INTQ_INLINE const std::string& NodeExport::name() {
    if (!is_named_) name_ = writer_.node_name(call_.name);
    is_named_ = true;
    return name_;
}

INTQ_INLINE std::string NodeExport::op_type() const {
    const graph::OperatorRow* const row = graph::find_operator_row(call_.op);
    if (row == nullptr || row->onnx.empty()) throw error("no ONNX operator is known of " + call_.op);
    return std::string(graph::first_word(row->onnx));
}

INTQ_INLINE std::string NodeExport::add(const std::string& op_type, std::vector<std::string> inputs,
                                        std::vector<Attribute> attributes) {
    return writer_.add_node(name(), op_type, std::move(inputs), std::move(attributes));
}

INTQ_INLINE std::vector<std::string> NodeExport::add_tuple(const std::string& op_type, std::vector<std::string> inputs,
                                                           std::vector<Attribute> attributes, std::size_t outputs) {
    return writer_.add_node_of(name(), op_type, std::move(inputs), outputs, std::move(attributes));
}

INTQ_INLINE std::string NodeExport::add_part(const std::string& part, const std::string& op_type,
                                             std::vector<std::string> inputs, std::vector<Attribute> attributes) {
    return writer_.add_node(writer_.node_name(name() + "_" + part), op_type, std::move(inputs), std::move(attributes));
}

INTQ_INLINE std::string NodeExport::parameter(const std::string& part, const Tensor& tensor) {
    return writer_.add_parameter(to_file_tensor(name() + "_" + part, tensor));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_export)
#endif  // INTQ_INTEROP_ONNX_EXPORT_INTERNAL_NODE_EXPORT_HPP
