// SPDX-License-Identifier: MIT
//
// The view that an operator's row has of its operator while a TFLite model becomes a program: operands, constants,
// options, and a program to write into. Long because a row gets all of it from one class. Layer: interop.
//
// TFLite's tensors are NHWC. A tensor of a program has the same bytes in the same order and the logical shape
// (N, C, H, W): the last axis comes second. A reshape moves nothing; where an operator reads a tensor in another shape
// than it was written in, its codes are copied.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_NODES_OPERATOR_IMPORT_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_NODES_OPERATOR_IMPORT_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "intq/arith/requantize.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/shape.hpp"
#include "intq/interop/tflite/internal/read/model.hpp"
#include "intq/interop/tflite/read/limits.hpp"
#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

/// Extents in TFLite's order.
using Dims = std::vector<index_t>;

/// "(1, 8, 8, 3)"
std::string describe_dims(const Dims& dims);
index_t count_of(const Dims& dims);

/// Bounds of codes by the name of a tensor.
using StatedBounds = std::map<std::string, kernels::CodeBounds, std::less<>>;

/// The program under construction, and which of its tensors each tensor of the file became.
struct ProgramState {
    ProgramState(const Model& from, const Limits& most, const StatedBounds& stated_bounds,
                 const kernels::KernelTable& table, index_t samples)
        : model(from),
          limits(most),
          bounds(stated_bounds),
          builder(table, samples),
          batch(samples),
          tensors(from.tensors.size(), -1) {
        builder.limit_buffers(static_cast<index_t>(most_copied(most, *from.file)));
    }

    /// States the caller's bounds for the name, if any, for a tensor of the program.
    void state_bounds(std::string_view name, std::int32_t tensor);

    const Model& model;
    const Limits& limits;
    const StatedBounds& bounds;
    std::set<std::string, std::less<>> stated;  // names of bounds that found a tensor
    program::ProgramBuilder builder;
    index_t batch;
    std::vector<std::int32_t> tensors;  // -1: none yet
    std::uint64_t copied = 0;           // bytes of weights
};

/// One operator. All functions throw Error, to which the caller adds the operator.
class OperatorImport {
public:
    OperatorImport(ProgramState& state, const FileOperator& op, const char* name);

    program::ProgramBuilder& builder() noexcept { return state_.builder; }
    const arith::PolicyRecord& target() const noexcept { return state_.builder.target(); }
    const io::FlatTable& options() const noexcept { return op_.options; }
    /// Named after the tensor that the operator writes.
    program::LayerName layer(const char* part = nullptr) const;

    // --- operands ----------------------------------------------------------------------------------------------------

    void require_inputs(std::size_t least, std::size_t most) const;
    std::size_t input_count() const noexcept { return op_.inputs.size(); }
    bool has(std::size_t i) const { return i < op_.inputs.size() && op_.inputs[i] >= 0; }
    const FileTensor& input(std::size_t i = 0) const;
    /// The output that is being written: the only one, or that of select_output().
    const FileTensor& output() const;
    std::size_t output_count() const noexcept { return op_.outputs.size(); }
    /// For an operator that writes several tensors: which of them the functions below mean by its output.
    void select_output(std::size_t i);
    /// Whether an operand is a constant of the file.
    bool is_constant(std::size_t i) const { return has(i) && input(i).is_constant(); }
    /// Extents of an operand, the first of which counts the samples: a batch of one sample may be left out.
    Dims dims(std::size_t i = 0) const { return batched(input(i)); }
    Dims output_dims() const { return batched(output()); }
    /// How many axes dims() puts before the file's.
    int added_axes(std::size_t i = 0) const { return static_cast<int>(dims(i).size() - input(i).dims.size()); }
    /// The program's tensor of an operand, in the shape of its own extents.
    std::int32_t x(std::size_t i = 0) { return shaped(i, dims(i)); }
    /// The same in another shape with as many elements.
    std::int32_t shaped(std::size_t i, const Dims& dims);
    /// The program's tensor of an operand as it was written.
    std::int32_t written(std::size_t i) const;

    /// The one scale and zero point of a tensor of codes.
    OwnedQParams qparams(const FileTensor& tensor) const;
    OwnedQParams output_qparams() const { return qparams(output()); }
    /// Whether two tensors have the same scale and zero point, which some operators demand.
    void require_same_qparams(const FileTensor& a, const FileTensor& b) const;

    // --- constants ---------------------------------------------------------------------------------------------------

    /// Elements of a constant int32 or int64 tensor.
    std::vector<std::int64_t> integers(std::size_t i) const;
    /// A tensor of integers that the program needs at once counts against the bytes that operators may copy.
    void count_copied(std::uint64_t bytes);

    // --- options -----------------------------------------------------------------------------------------------------

    std::int32_t option(int field, std::int32_t otherwise) const { return op_.options.number(field, otherwise); }
    FusedActivation activation(int field) const;
    /// Codes of the output with a fused activation, by TFLite's rounding.
    arith::OutputCodes codes(FusedActivation activation) const;

    // --- results -----------------------------------------------------------------------------------------------------

    /// Says which tensor of the program is the output, and checks it against the type and the shape in the file: TFLite
    /// itself computes shapes anew.
    void set(std::int32_t tensor);
    /// The same for a tensor of the program that has the elements of another shape.
    /// @param dims  the operator's output
    void set(std::int32_t tensor, Dims dims);
    /// Throws unless the output has this shape in the file. An axis of one sample may be left out.
    void require_output(const Dims& dims) const;
    /// A copy of a tensor of the program, in another shape of the same memory.
    std::int32_t copy(std::int32_t tensor, const Shape& shape, const char* part, Layout layout = Layout::channels_last);
    /// The same, unless it has that shape already.
    std::int32_t reshaped(std::int32_t tensor, const Dims& dims, const char* part);

private:
    Dims batched(const FileTensor& tensor) const;
    std::int32_t output_index() const;
    std::string other_shape(const Dims& dims) const;

    ProgramState& state_;
    const FileOperator& op_;
    const char* name_;
    std::optional<std::size_t> selected_;
};

/// The logical shape of a tensor of a program: the last axis comes second.
Shape program_shape(const Dims& dims);
/// The axis of program_shape() that an axis of the file became.
int program_axis(int axis, std::size_t rank);
/// Elements of a constant int32 or int64 tensor of at most 64.
std::vector<std::int64_t> constant_integers(const FileTensor& tensor);
/// Throws where operators copied more of a file's constants than allowed.
void check_copied(std::uint64_t copied, const Limits& limits, const std::vector<std::byte>& file);
/// The activation that an option names.
FusedActivation fused_activation(const io::FlatTable& options, int field);
/// An axis that may be counted from the end.
int checked_axis(std::int64_t axis, std::size_t rank);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_nodes)

#    include <algorithm>
#    include <utility>

#    include "intq/arith/ieee.hpp"
#    include "intq/arith/rounding.hpp"
#    include "intq/interop/tflite/internal/read/names.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/streaming/move_call.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string describe_dims(const Dims& dims) {
    std::string text = "(";
    for (std::size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
    return text + ")";
}

INTQ_INLINE index_t count_of(const Dims& dims) {
    index_t product = 1;
    for (const index_t extent : dims) product *= extent;
    return product;
}

INTQ_INLINE Shape program_shape(const Dims& dims) {
    Shape shape;
    shape.rank = static_cast<int>(dims.size());
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
        shape[program_axis(static_cast<int>(axis), dims.size())] = dims[axis];
    return shape;
}

INTQ_INLINE int program_axis(int axis, std::size_t rank) {
    if (axis == 0) return 0;
    return axis == static_cast<int>(rank) - 1 ? 1 : axis + 1;
}

INTQ_INLINE int checked_axis(std::int64_t axis, std::size_t rank) {
    const auto count = static_cast<std::int64_t>(rank);
    if (axis < -count || axis >= count)
        throw Error("there is no axis " + std::to_string(axis) + " among " + std::to_string(rank));
    return static_cast<int>(axis < 0 ? axis + count : axis);
}

INTQ_INLINE OperatorImport::OperatorImport(ProgramState& state, const FileOperator& op, const char* name)
    : state_(state), op_(op), name_(name) {}

INTQ_INLINE program::LayerName OperatorImport::layer(const char* part) const {
    std::string name(output().name);
    if (name.empty()) name = "operator" + std::to_string(op_.position);
    return {part == nullptr ? name : name + "." + part, name_};
}

INTQ_INLINE void OperatorImport::require_inputs(std::size_t least, std::size_t most) const {
    std::size_t given = 0;
    while (has(given)) ++given;
    if (given < least || op_.inputs.size() > most)
        throw Error("it has " + std::to_string(op_.inputs.size()) + " inputs, expected " + std::to_string(least) +
                    (most == least ? "" : " to " + std::to_string(most)));
}

INTQ_INLINE const FileTensor& OperatorImport::input(std::size_t i) const {
    if (!has(i)) throw Error("its input " + std::to_string(i) + " is missing");
    return state_.model.tensors[static_cast<std::size_t>(op_.inputs[i])];
}

INTQ_INLINE void OperatorImport::select_output(std::size_t i) { selected_ = i; }

INTQ_INLINE std::int32_t OperatorImport::output_index() const {
    if (op_.outputs.size() != 1 && !selected_)
        throw Error("it writes " + std::to_string(op_.outputs.size()) + " tensors, expected 1");
    const std::size_t i = selected_.value_or(0);
    if (i >= op_.outputs.size() || op_.outputs[i] < 0) throw Error("its output " + std::to_string(i) + " is missing");
    return op_.outputs[i];
}

INTQ_INLINE const FileTensor& OperatorImport::output() const {
    return state_.model.tensors[static_cast<std::size_t>(output_index())];
}

INTQ_INLINE Dims OperatorImport::batched(const FileTensor& tensor) const {
    Dims dims = tensor.dims;
    if (dims.empty() || dims[0] != state_.batch) {
        if (state_.batch != 1)
            throw Error("the tensor " + in_quotes(tensor.name) + " of shape " + describe_dims(tensor.dims) +
                        " does not keep axis 0, the " + std::to_string(state_.batch) + " samples, as a program does");
        dims.insert(dims.begin(), 1);
    }
    if (dims.size() > static_cast<std::size_t>(max_rank))
        throw Error("the tensor " + in_quotes(tensor.name) + " of shape " + describe_dims(tensor.dims) +
                    " has more axes than a program takes, which is " + std::to_string(max_rank));
    return dims;
}

INTQ_INLINE std::int32_t OperatorImport::written(std::size_t i) const {
    const FileTensor& tensor = input(i);
    const std::int32_t made = state_.tensors[static_cast<std::size_t>(op_.inputs[i])];
    if (made >= 0) return made;
    throw Error("its input " + in_quotes(tensor.name) +
                (tensor.is_constant() ? " is a constant, which this operator cannot take in a program"
                                      : " is made by no operator before it, and is no input of the model"));
}

INTQ_INLINE std::int32_t OperatorImport::copy(std::int32_t tensor, const Shape& shape, const char* part,
                                              Layout layout) {
    const kernels::ArenaTensor from = builder().at(tensor);
    kernels::MoveParams move;
    move.extents[0] = shape.size() / shape[0];
    move.steps[0] = 1;
    const program::LayerName name = layer(part);
    builder().check_use({OpKind::reshape, from.dtype, DType::none, from.dtype}, name);
    return builder().push(OpKind::reshape, {tensor}, builder().tensor(from.dtype, shape, from.qparams, name, layout),
                          builder().keep_params(move), name);
}

INTQ_INLINE std::int32_t OperatorImport::reshaped(std::int32_t tensor, const Dims& dims, const char* part) {
    const Shape shape = program_shape(dims);
    const kernels::ArenaTensor from = builder().at(tensor);
    if (from.shape == shape && from.layout == Layout::channels_last) return tensor;
    if (from.shape.size() != shape.size())
        throw Error("a tensor of shape " + to_string(from.shape) + " cannot be read as " + describe_dims(dims));
    return copy(tensor, shape, part, Layout::channels_last);
}

INTQ_INLINE std::int32_t OperatorImport::shaped(std::size_t i, const Dims& dims) {
    const std::string part = "input" + std::to_string(i);
    return reshaped(written(i), dims, part.c_str());
}

INTQ_INLINE OwnedQParams OperatorImport::qparams(const FileTensor& tensor) const {
    if (tensor.unsupported != nullptr) throw Error("the tensor " + in_quotes(tensor.name) + " " + tensor.unsupported);
    if (tensor.dtype != DType::int8 && tensor.dtype != DType::int16)
        throw Error("the tensor " + in_quotes(tensor.name) + " has " + describe_type(tensor) +
                    ", expected codes of int8, uint8 or int16");
    if (tensor.scales.size() != 1 || tensor.zero_points.size() > 1)
        throw Error("the tensor " + in_quotes(tensor.name) + " has " + std::to_string(tensor.scales.size()) +
                    " scales and " + std::to_string(tensor.zero_points.size()) + " zero points, expected one of each");
    const std::int64_t in_file = tensor.zero_points.empty() ? 0 : tensor.zero_points[0];
    const std::int64_t lowest = lowest_code(tensor.dtype), highest = highest_code(tensor.dtype);
    if (in_file < lowest - tensor.offset || in_file > highest - tensor.offset)
        throw Error("the zero point " + std::to_string(in_file) + " of the tensor " + in_quotes(tensor.name) +
                    " is no code");
    const float scale = tensor.scales[0];
    if (!(scale > 0.0f) || !arith::is_finite(scale))
        throw Error("the scale of the tensor " + in_quotes(tensor.name) + " is not positive and finite");
    OwnedQParams result = OwnedQParams::per_tensor(scale, tensor.dtype);
    result.zero_points = {static_cast<std::int32_t>(in_file + tensor.offset)};
    return result;
}

INTQ_INLINE void OperatorImport::require_same_qparams(const FileTensor& a, const FileTensor& b) const {
    if (qparams(a) == qparams(b)) return;
    throw Error("the tensors " + in_quotes(a.name) + " and " + in_quotes(b.name) +
                " must have one dtype, scale and zero point, because the operator moves codes as they are");
}

INTQ_INLINE std::vector<std::int64_t> OperatorImport::integers(std::size_t i) const {
    return constant_integers(input(i));
}

INTQ_INLINE std::vector<std::int64_t> constant_integers(const FileTensor& tensor) {
    if (!tensor.is_constant())
        throw Error("its input " + in_quotes(tensor.name) +
                    " must be a constant, because a program's shapes are fixed");
    if (tensor.dtype != DType::int32 && tensor.dtype != DType::int64)
        throw Error("its input " + in_quotes(tensor.name) + " has " + describe_type(tensor) +
                    ", expected int32 or int64");
    if (tensor.size() > 64) throw Error("its input " + in_quotes(tensor.name) + " has more than 64 elements");
    const io::FlatBytes bytes(tensor.data);
    std::vector<std::int64_t> result;
    for (std::uint64_t at = 0; at < static_cast<std::uint64_t>(tensor.size()); ++at)
        result.push_back(tensor.dtype == DType::int32 ? bytes.number<std::int32_t>(4 * at)
                                                      : bytes.number<std::int64_t>(8 * at));
    return result;
}

INTQ_INLINE void check_copied(std::uint64_t copied, const Limits& limits, const std::vector<std::byte>& file) {
    const std::uint64_t most = most_copied(limits, file);
    if (copied > most)
        throw Error("the operators copy more than " + std::to_string(most) +
                    " bytes of constants, which the limits of the import do not allow");
}

INTQ_INLINE void OperatorImport::count_copied(std::uint64_t bytes) {
    check_copied(state_.copied += bytes, state_.limits, *state_.model.file);
}

INTQ_INLINE FusedActivation OperatorImport::activation(int field) const { return fused_activation(op_.options, field); }

INTQ_INLINE FusedActivation fused_activation(const io::FlatTable& options, int field) {
    const auto number = options.number<std::int8_t>(field, 0);
    if (number < 0 || number > static_cast<std::int8_t>(FusedActivation::relu6))
        throw Error("the fused activation " + activation_name(number) +
                    " is not supported; supported are none, RELU, RELU_N1_TO_1 and RELU6");
    return static_cast<FusedActivation>(number);
}

INTQ_INLINE arith::OutputCodes OperatorImport::codes(FusedActivation activation) const {
    const OwnedQParams qparams = output_qparams();
    arith::OutputCodes codes;
    codes.zero_point = qparams.zero_points[0];
    codes.lowest = static_cast<std::int32_t>(qparams.quant_min);
    codes.highest = static_cast<std::int32_t>(qparams.quant_max);
    // The bound is a quotient of float32, rounded half away from zero.
    const auto code_of = [&](float bound) {
        const double steps = static_cast<double>(arith::fdiv(bound, qparams.scale()));
        const double code = static_cast<double>(codes.zero_point) + arith::round_half_away(steps);
        return static_cast<std::int32_t>(
            std::clamp(code, static_cast<double>(qparams.quant_min), static_cast<double>(qparams.quant_max)));
    };
    if (activation == FusedActivation::relu || activation == FusedActivation::relu6) codes.lowest = code_of(0.0f);
    if (activation == FusedActivation::relu_n1_to_1) codes.lowest = code_of(-1.0f);
    if (activation == FusedActivation::relu_n1_to_1) codes.highest = code_of(1.0f);
    if (activation == FusedActivation::relu6) codes.highest = code_of(6.0f);
    return codes;
}

INTQ_INLINE void ProgramState::state_bounds(std::string_view name, std::int32_t tensor) {
    const auto found = bounds.find(name);
    if (found == bounds.end()) return;
    stated.emplace(name);
    builder.state_bounds(tensor, found->second.lowest, found->second.highest);
}

INTQ_INLINE void OperatorImport::set(std::int32_t tensor) {
    const Shape shape = builder().at(tensor).shape;
    Dims dims;
    for (int axis = 0; axis < shape.rank; ++axis)
        dims.push_back(shape[program_axis(axis, static_cast<std::size_t>(shape.rank))]);
    set(tensor, std::move(dims));
}

INTQ_INLINE std::string OperatorImport::other_shape(const Dims& dims) const {
    return "in the file its output has the shape " + describe_dims(output().dims) + ", but it produces " +
           describe_dims(dims);
}

INTQ_INLINE void OperatorImport::require_output(const Dims& dims) const {
    const auto bare = [](Dims from) {
        from.erase(from.begin(), std::find_if(from.begin(), from.end(), [](index_t extent) { return extent != 1; }));
        return from;
    };
    if (bare(dims) != bare(output_dims())) throw Error(other_shape(dims));
}

INTQ_INLINE void OperatorImport::set(std::int32_t tensor, Dims dims) {
    const FileTensor& file = output();
    std::int32_t& known_as = state_.tensors[static_cast<std::size_t>(output_index())];
    if (known_as >= 0 || file.is_constant())
        throw Error("its output " + in_quotes(file.name) + " is written twice, or a constant");
    const kernels::ArenaTensor& made = builder().at(tensor);
    if (made.dtype != file.dtype)
        throw Error("in the file its output is " + describe_type(file) + ", but it produces " + name_of(made.dtype));
    if (made.shape.size() != count_of(dims)) throw Error(other_shape(dims));
    require_output(dims);
    if (state_.bounds.find(file.name) != state_.bounds.end()) {
        // Bounds belong to the tensor of their name, so a reshape, which only reads another tensor, writes it here.
        const auto& known = state_.tensors;
        if (std::find(known.begin(), known.end(), tensor) != known.end())
            tensor = copy(tensor, program_shape(dims), nullptr);
        state_.state_bounds(file.name, tensor);
    }
    known_as = tensor;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_nodes)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_NODES_OPERATOR_IMPORT_HPP
