// SPDX-License-Identifier: MIT
//
// The view that an operator's row has while a TFLite model of real numbers becomes an ONNX model. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_FLOAT_MODEL_FLOAT_IMPORT_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_FLOAT_MODEL_FLOAT_IMPORT_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "intq/interop/onnx/read/model.hpp"
#include "intq/interop/tflite/internal/nodes/operator_import.hpp"
#include "intq/interop/tflite/internal/read/model.hpp"
#include "intq/interop/tflite/read/limits.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

using Integers = std::vector<std::int64_t>;

/// The ONNX model that is being made, and the name of each tensor of the file in it.
struct FloatState {
    FloatState(const Model& from, const Limits& most);
    void add_input(std::int32_t index);
    void add_output(std::int32_t index);
    std::string fresh(const std::string& base) { return base + "." + std::to_string(++made); }

    const Model& model;
    const Limits& limits;
    onnx::Model result;
    std::vector<std::string> names;  // empty: written by no operator yet
    std::size_t made = 0;
    std::uint64_t copied = 0;  // bytes of constants
};

class FloatImport {
public:
    FloatImport(FloatState& state, const FileOperator& op) : state_(state), op_(op) {}

    const io::FlatTable& options() const noexcept { return op_.options; }
    std::size_t input_count() const noexcept { return op_.inputs.size(); }
    bool has(std::size_t i) const { return i < op_.inputs.size() && op_.inputs[i] >= 0; }
    const FileTensor& input(std::size_t i = 0) const;
    /// The output that is being written: the only one, or that of select_output().
    const FileTensor& output() const { return state_.model.tensors[static_cast<std::size_t>(output_index())]; }
    std::size_t output_count() const noexcept { return op_.outputs.size(); }
    void select_output(std::size_t i) { selected_ = i; }
    /// Elements of a constant int32 or int64 tensor.
    Integers integers(std::size_t i) const;
    std::int32_t option(int field, std::int32_t otherwise) const { return op_.options.number(field, otherwise); }

    /// The name of an operand in ONNX, with the last axis second. A constant has the rank of the output, with extents
    /// of 1 before its own.
    std::string value(std::size_t i = 0);
    /// The same with the axes of the file, as a reshape reads them.
    std::string in_file_order(std::size_t i = 0);

    /// Each adds a constant and returns its name.
    std::string floats(const char* what, std::vector<float> values, Dims dims);
    std::string whole(const char* what, const Integers& values);
    /// Elements of a float32 constant of the file.
    std::vector<float> elements(std::size_t i) const;

    /// Adds a node, and returns the name of its output.
    std::string node(const char* op_type, std::vector<std::string> inputs,
                     std::vector<onnx::Attribute> attributes = {});
    /// Moves axes; a permutation that leaves all in place adds no node.
    std::string permute(const std::string& name, const Integers& order);
    /// Sets the output by name, behind a fused activation.
    void set(const std::string& name, FusedActivation activation = FusedActivation::none);
    /// The same for a result with the axes in the order of the file.
    void set_from_file_order(const std::string& name);
    FusedActivation activation(int field) const;

private:
    std::int32_t output_index() const;

    FloatState& state_;
    const FileOperator& op_;
    std::optional<std::size_t> selected_;
};

/// A constant whose axes are moved: axis i of the result is axis order[i].
std::vector<float> moved(const std::vector<float>& values, const Dims& dims, const Integers& order);

/// The position of each axis of the library's order in the file's, and back.
Integers to_channels_second(std::size_t rank);
Integers to_file_order(std::size_t rank);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_float_model)

#    include <algorithm>
#    include <cstring>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/flatbuffer.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Integers to_channels_second(std::size_t rank) {
    Integers order(rank);
    for (std::size_t axis = 0; axis < rank; ++axis)
        order[static_cast<std::size_t>(program_axis(static_cast<int>(axis), rank))] = static_cast<std::int64_t>(axis);
    return order;
}

INTQ_INLINE Integers to_file_order(std::size_t rank) {
    Integers order;
    for (std::size_t axis = 0; axis < rank; ++axis) order.push_back(program_axis(static_cast<int>(axis), rank));
    return order;
}

INTQ_INLINE std::vector<float> moved(const std::vector<float>& values, const Dims& dims, const Integers& order) {
    Dims steps(dims.size(), 1), to(dims.size());
    for (std::size_t axis = dims.size(); axis-- > 1;) steps[axis - 1] = steps[axis] * dims[axis];
    for (std::size_t axis = 0; axis < dims.size(); ++axis) to[axis] = dims[static_cast<std::size_t>(order[axis])];
    std::vector<float> result(values.size());
    for (std::size_t at = 0; at < result.size(); ++at) {
        auto rest = static_cast<index_t>(at);
        index_t from = 0;
        for (std::size_t axis = dims.size(); axis-- > 0; rest /= to[axis])
            from += rest % to[axis] * steps[static_cast<std::size_t>(order[axis])];
        result[at] = values[static_cast<std::size_t>(from)];
    }
    return result;
}

INTQ_INLINE FloatState::FloatState(const Model& from, const Limits& most)
    : model(from), limits(most), names(from.tensors.size()) {
    result.ir_version = 8;
    result.opset = 20;
}

INTQ_INLINE void FloatState::add_input(std::int32_t index) {
    if (index < 0) throw Error("an input of the model is missing");
    const FileTensor& tensor = model.tensors[static_cast<std::size_t>(index)];
    if (tensor.dtype != DType::float32)
        throw Error("the input " + in_quotes(tensor.name) + " has " + describe_type(tensor) +
                    ", expected float32 in a model of real numbers");
    onnx::ValueInfo info;
    info.name = tensor.name.empty() ? "input" + std::to_string(index) : std::string(tensor.name);
    info.dtype = DType::float32;
    info.has_shape = true;
    info.shape.resize(tensor.dims.size());
    for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis)
        info.shape[static_cast<std::size_t>(program_axis(static_cast<int>(axis), tensor.dims.size()))] =
            tensor.dims[axis];
    names[static_cast<std::size_t>(index)] = info.name;
    result.graph.inputs.push_back(std::move(info));
}

INTQ_INLINE void FloatState::add_output(std::int32_t index) {
    if (index < 0 || names[static_cast<std::size_t>(index)].empty())
        throw Error("an output of the model is made by no operator");
    onnx::ValueInfo info;
    info.name = names[static_cast<std::size_t>(index)];
    info.dtype = DType::float32;
    result.graph.outputs.push_back(std::move(info));
}

INTQ_INLINE std::int32_t FloatImport::output_index() const {
    const std::size_t i = selected_.value_or(0);
    if ((op_.outputs.size() != 1 && !selected_) || i >= op_.outputs.size() || op_.outputs[i] < 0)
        throw Error("it writes another number of tensors than 1, or leaves one out");
    return op_.outputs[i];
}

INTQ_INLINE const FileTensor& FloatImport::input(std::size_t i) const {
    if (!has(i)) throw Error("its input " + std::to_string(i) + " is missing");
    const FileTensor& tensor = state_.model.tensors[static_cast<std::size_t>(op_.inputs[i])];
    if (tensor.unsupported != nullptr) throw Error("the tensor " + in_quotes(tensor.name) + " " + tensor.unsupported);
    return tensor;
}

INTQ_INLINE Integers FloatImport::integers(std::size_t i) const { return constant_integers(input(i)); }

INTQ_INLINE std::vector<float> FloatImport::elements(std::size_t i) const {
    const FileTensor& tensor = input(i);
    if (!tensor.is_constant() || tensor.dtype != DType::float32)
        throw Error("its input " + in_quotes(tensor.name) + " has " + describe_type(tensor) +
                    ", expected a constant of float32");
    check_copied(state_.copied += tensor.data.size(), state_.limits, *state_.model.file);
    std::vector<float> values(static_cast<std::size_t>(tensor.size()));
    const io::FlatBytes bytes(tensor.data);
    for (std::size_t at = 0; at < values.size(); ++at) values[at] = bytes.number<float>(4 * at);
    return values;
}

INTQ_INLINE std::string FloatImport::floats(const char* what, std::vector<float> values, Dims dims) {
    onnx::FileTensor tensor;
    tensor.name = state_.fresh(std::string(output().name) + "." + what);
    tensor.dtype = DType::float32;
    tensor.dims = std::move(dims);
    tensor.data.resize(values.size() * sizeof(float));
    if (!values.empty()) std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
    state_.result.graph.initializers.push_back(std::move(tensor));
    return state_.result.graph.initializers.back().name;
}

INTQ_INLINE std::string FloatImport::whole(const char* what, const Integers& values) {
    onnx::FileTensor tensor;
    tensor.name = state_.fresh(std::string(output().name) + "." + what);
    tensor.dtype = DType::int64;
    tensor.dims = {static_cast<index_t>(values.size())};
    tensor.data.resize(values.size() * sizeof(std::int64_t));
    if (!values.empty()) std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
    state_.result.graph.initializers.push_back(std::move(tensor));
    return state_.result.graph.initializers.back().name;
}

INTQ_INLINE std::string FloatImport::value(std::size_t i) {
    const FileTensor& tensor = input(i);
    const std::string& known = state_.names[static_cast<std::size_t>(op_.inputs[i])];
    const std::size_t rank = output().dims.size();
    if (!tensor.is_constant()) {
        if (known.empty()) throw Error("its input " + in_quotes(tensor.name) + " is made by no operator before it");
        return known;
    }
    // A constant operand of an image of rank r: (1, …, C) in the file's order, moved as its axes are.
    Dims dims = tensor.dims;
    if (dims.size() < rank) dims.insert(dims.begin(), rank - dims.size(), 1);
    const Integers order = to_channels_second(dims.size());
    Dims to(dims.size());
    for (std::size_t axis = 0; axis < dims.size(); ++axis) to[axis] = dims[static_cast<std::size_t>(order[axis])];
    return floats("operand", moved(elements(i), dims, order), std::move(to));
}

INTQ_INLINE std::string FloatImport::node(const char* op_type, std::vector<std::string> inputs,
                                          std::vector<onnx::Attribute> attributes) {
    onnx::Graph& graph = state_.result.graph;
    onnx::Node made;
    made.op_type = op_type;
    made.name = std::string(output().name);
    made.inputs = std::move(inputs);
    made.outputs = {state_.fresh(made.name.empty() ? "value" : made.name)};
    made.attributes = std::move(attributes);
    made.position = graph.nodes.size();
    graph.nodes.push_back(std::move(made));
    return graph.nodes.back().outputs[0];
}

INTQ_INLINE std::string FloatImport::permute(const std::string& name, const Integers& order) {
    if (std::is_sorted(order.begin(), order.end())) return name;
    return node("Transpose", {name}, {{"perm", order}});
}

INTQ_INLINE std::string FloatImport::in_file_order(std::size_t i) {
    return permute(value(i), to_file_order(input(i).dims.size()));
}

INTQ_INLINE void FloatImport::set(const std::string& name, FusedActivation activation) {
    std::string made = name;
    if (activation == FusedActivation::relu) made = node("Relu", {name});
    if (activation == FusedActivation::relu6)
        made = node("Clip", {name, floats("lowest", {0.0f}, {}), floats("highest", {6.0f}, {})});
    if (activation == FusedActivation::relu_n1_to_1)
        made = node("Clip", {name, floats("lowest", {-1.0f}, {}), floats("highest", {1.0f}, {})});
    std::string& known = state_.names[static_cast<std::size_t>(output_index())];
    if (!known.empty()) throw Error("its output " + in_quotes(output().name) + " is written twice");
    if (output().dtype != DType::float32)
        throw Error("its output " + in_quotes(output().name) + " has " + describe_type(output()) +
                    ", expected float32 in a model of real numbers");
    known = made;
}

INTQ_INLINE void FloatImport::set_from_file_order(const std::string& name) {
    set(permute(name, to_channels_second(output().dims.size())));
}

INTQ_INLINE FusedActivation FloatImport::activation(int field) const { return fused_activation(op_.options, field); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_float_model)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_FLOAT_MODEL_FLOAT_IMPORT_HPP
