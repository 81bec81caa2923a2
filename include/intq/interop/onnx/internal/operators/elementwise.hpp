// SPDX-License-Identifier: MIT
//
// ONNX operators on pairs of elements: Add, Mul, Sub, Div. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_ELEMENTWISE_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_ELEMENTWISE_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

void add(NodeImport& node);
void mul(NodeImport& node);
void sub(NodeImport& node);

/// By a constant without zeros: a product with its reciprocals.
void div(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <functional>
#    include <memory>
#    include <optional>
#    include <span>
#    include <string>
#    include <string_view>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/nodes/quantize_dequantize.hpp"
#    include "intq/interop/onnx/internal/operators/conv.hpp"
#    include "intq/interop/onnx/internal/operators/norm.hpp"
#    include "intq/interop/onnx/internal/operators/where.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/norm.hpp"
#    include "intq/nn/layers/unary.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/nn/model/recorder.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

inline constexpr std::string_view constant_operand = "constant operand";

/// Whether a constant has one value for each of `channels`, broadcast along all other axes of `rank`.
INTQ_INLINE bool is_per_channel(const FileTensor& tensor, std::size_t rank, index_t channels) {
    if (tensor.size() != channels || tensor.dims.size() > rank) return false;
    const std::size_t left_out = rank - tensor.dims.size();
    return channels == 1 || (left_out <= 1 && tensor.dims[1 - left_out] == channels);
}

/// Whether a batch norm of a value has an integer form: on images as a separate layer, on lines and vectors where
/// fusion folds it into the layer before it.
INTQ_INLINE bool has_norm(const NodeImport& node, std::size_t x) {
    const std::size_t rank = node.dims(x)->size();
    if (rank == 4) return true;
    if (!node.is_only_user(x)) return false;
    if (rank == 2) return node.producer<nn::Linear>(x) != nullptr;
    return rank == 3 && (node.producer<nn::Conv1d>(x) != nullptr || node.producer<nn::ConvTranspose1d>(x) != nullptr);
}

/// The batch norm, of weight 1 and bias 0, that may compute with a constant of one value for each channel; fusion folds
/// it into a convolution before it. Null for a constant of another shape, and where an operand is better.
INTQ_INLINE std::shared_ptr<nn::BatchNorm> norm_of_channels(const NodeImport& node, std::size_t x, std::size_t c) {
    const Dims& dims = node.dims(x);
    const index_t channels = node.extent(x, 1);
    if (!dims || channels < 1 || !has_norm(node, x) ||
        !is_per_channel(node.constant(c, constant_operand), dims->size(), channels))
        return nullptr;
    return make_batch_norm(dims, {.num_features = channels, .eps = 0.0});
}

/// Whether a constant is one number for all elements of x.
INTQ_INLINE bool is_number(const NodeImport& node, std::size_t x, std::size_t c) {
    const FileTensor& constant = node.constant(c, constant_operand);
    return constant.size() == 1 && (!node.dims(x) || constant.dims.size() <= node.dims(x)->size());
}

/// The rank that a constant needs beside operand x, because operators on codes broadcast operands of equal rank.
INTQ_INLINE std::size_t rank_of(const NodeImport& node, std::size_t x) {
    return node.dims(x) ? node.dims(x)->size() : 0;
}

/// Values of a constant, each mapped by a function.
template <class Function> std::vector<float> mapped(const NodeImport& node, std::size_t c, const Function& function) {
    std::vector<float> values;
    for (const float value : node.float_constant(c, constant_operand).as<float>()) values.push_back(function(value));
    return values;
}
template <class Function> Tensor mapped_constant(const NodeImport& node, std::size_t c, const Function& function) {
    const std::vector<float> values = mapped(node, c, function);
    return Tensor::from(Shape(static_cast<index_t>(values.size())), values);
}

/// Whether a constant that the file holds as codes stays an operand: a layer that computes x takes the constant in.
INTQ_INLINE bool stays_codes(const NodeImport& node, std::size_t x, std::size_t c) {
    const CodedConstant* const coded = node.coded_constant(c);
    return coded != nullptr && !coded->grid.is_per_channel() &&
           (coded->grid.dtype == DType::int8 || coded->grid.dtype == DType::int16) &&
           node.producer<nn::Weighted>(x) == nullptr;
}

/// Such a constant as a tensor of the model, rounded to the file's grid; null for other constants.
INTQ_INLINE graph::Node* operand_of_codes(NodeImport& node, std::size_t x, std::size_t c) {
    if (!stays_codes(node, x, c)) return nullptr;
    graph::Node& constant = node.add_buffer(c, constant_operand, rank_of(node, x));
    return &node.make_module(make_as<nn::Module, QuantizeDequantize>(node.coded_constant(c)->grid), {constant});
}

/// x + c. A vector behind a MatMul is the bias of that Linear; a tensor that is neither one value for all nor one for
/// each channel is a buffer.
INTQ_INLINE void add_constant(NodeImport& node, std::size_t x, std::size_t c) {
    const FileTensor& constant = node.constant(c, constant_operand);
    graph::Node& value = node.value(x);
    const Dims& dims = node.dims(x);
    const bool fits_rank = !dims || constant.dims.size() <= dims->size();
    auto* const linear = node.producer<nn::Linear>(x);
    if (linear != nullptr && !linear->options().bias && node.is_only_user(x) &&
        (dims ? fits_rank : constant.dims.size() < 2) && is_bias_of(constant, linear->options().out_features)) {
        linear->set_bias(
            broadcast_bias(node.float_constant(c, constant_operand), linear->options().out_features, 1.0f));
        if (constant.size() == linear->options().out_features) node.note_bias(x, c);
        return node.set_output({.node = &value, .dims = dims});
    }
    if (graph::Node* const codes = operand_of_codes(node, x, c))
        return node.call_function(nn::add_function, {value, *codes}, broadcast_dims(dims, constant.dims));
    if (is_number(node, x, c))
        return node.call_function(nn::add_function,
                                  {value, static_cast<double>(node.float_constant(c, constant_operand).as<float>()[0])},
                                  dims);
    if (const auto norm = norm_of_channels(node, x, c)) {
        norm->tensor("bias") = mapped_constant(node, c, std::identity());
        return node.call_constant_norm(norm, {value}, dims);
    }
    Dims sum = broadcast_dims(dims, constant.dims);
    node.call_function(nn::add_function, {value, add_buffer_of_masks(node, c, rank_of(node, x))}, std::move(sum));
}

/// The operand paired with operand `other`: a value, a number, or a tensor that becomes a buffer.
INTQ_INLINE graph::Argument operand(NodeImport& node, std::size_t i, std::size_t other) {
    if (!node.is_constant(i)) return node.value(i);
    if (graph::Node* const codes = operand_of_codes(node, other, i)) return *codes;
    if (!is_number(node, other, i)) return node.add_buffer(i, constant_operand, rank_of(node, other));
    return static_cast<double>(node.float_constant(i, constant_operand).as<float>()[0]);
}

/// Two values are a method of a FloatFunctional, so that the result has a name; a constant makes it a function.
INTQ_INLINE void binary(NodeImport& node, const nn::Function& function) {
    node.expect_inputs(2, 2);
    Dims dims = broadcast_dims(node.dims(0), node.dims(1));
    if (node.is_constant(0) && node.is_constant(1)) throw Error("both operands are constants");
    if (node.is_constant(0) || node.is_constant(1)) {
        graph::Argument a = operand(node, 0, 1), b = operand(node, 1, 0);
        return node.call_function(function, {std::move(a), std::move(b)}, std::move(dims));
    }
    node.call_module(make_as<nn::Module, nn::FloatFunctional>(), {node.value(0), node.value(1)}, std::move(dims),
                     std::string(function.name));
}

INTQ_INLINE void add(NodeImport& node) {
    node.expect_inputs(2, 2);
    if (node.is_constant(1)) return add_constant(node, 0, 1);
    if (node.is_constant(0)) return add_constant(node, 1, 0);
    binary(node, nn::add_function);
}

/// One value for all stays a number: a batch norm would be a convolution.
INTQ_INLINE std::shared_ptr<nn::BatchNorm> norm_of(const NodeImport& node, std::size_t x, std::size_t c) {
    if (node.is_constant(x) || !node.is_constant(c) || is_number(node, x, c)) return nullptr;
    if (stays_codes(node, x, c)) return nullptr;
    return norm_of_channels(node, x, c);
}

INTQ_INLINE void mul(NodeImport& node) {
    node.expect_inputs(2, 2);
    const std::size_t c = node.is_constant(0) ? 0 : 1;
    const auto norm = norm_of(node, 1 - c, c);
    if (norm == nullptr) return binary(node, nn::mul_function);
    norm->tensor("weight") = mapped_constant(node, c, std::identity());
    node.call_constant_norm(norm, {node.value(1 - c)}, node.dims(1 - c));
}

INTQ_INLINE void sub(NodeImport& node) {
    node.expect_inputs(2, 2);
    const std::size_t c = node.is_constant(0) ? 0 : 1;
    const auto norm = norm_of(node, 1 - c, c);
    if (norm == nullptr) return binary(node, nn::sub_function);
    if (c == 0) norm->tensor("weight") = mapped_constant(node, c, [](float) { return -1.0f; });
    norm->tensor("bias") = mapped_constant(node, c, [c](float value) { return c == 0 ? value : -value; });
    node.call_constant_norm(norm, {node.value(1 - c)}, node.dims(1 - c));
}

/// By a value that is computed: x · (1 / y), where 1 is x.
INTQ_INLINE void div_by_value(NodeImport& node) {
    Dims dims = broadcast_dims(node.dims(0), node.dims(1));
    const bool is_one =
        node.is_constant(0) && is_number(node, 1, 0) && node.float_constant(0, "dividend").as<float>()[0] == 1.0f;
    if (is_one)
        return node.call_function(nn::unary_function<TableFunction::reciprocal>, {node.value(1)}, std::move(dims));
    graph::Argument x = operand(node, 0, 1);
    graph::Node& inverse = node.make_function(nn::unary_function<TableFunction::reciprocal>, {node.value(1)});
    if (node.is_constant(0)) return node.call_function(nn::mul_function, {std::move(x), inverse}, std::move(dims));
    node.call_module(make_as<nn::Module, nn::FloatFunctional>(), {std::move(x), inverse}, std::move(dims), "mul");
}

INTQ_INLINE void div(NodeImport& node) {
    node.expect_inputs(2, 2);
    if (!node.has_elements(1)) return div_by_value(node);
    graph::Node& x = node.value(0, "dividend");
    const auto values = node.float_constant(1, "divisor").as<float>();
    const auto reciprocal = [](float value) { return 1.0f / value; };
    for (const float value : values)
        if (!std::isfinite(reciprocal(value)))
            throw Error("the divisor has the value " + shortest_text(value) + ", which has no reciprocal");
    if (is_number(node, 0, 1))
        return node.call_function(nn::mul_function, {x, 1.0 / static_cast<double>(values[0])}, node.dims(0));
    if (const auto norm = norm_of_channels(node, 0, 1)) {
        norm->tensor("weight") = mapped_constant(node, 1, reciprocal);
        return node.call_constant_norm(norm, {x}, node.dims(0));
    }
    FileTensor factors = node.float_constant(1, "divisor");
    const std::vector<float> numbers = mapped(node, 1, reciprocal);
    const auto bytes = std::as_bytes(std::span<const float>(numbers));
    factors.data.assign(bytes.begin(), bytes.end());
    Dims dims = broadcast_dims(node.dims(0), factors.dims);
    node.call_function(nn::mul_function, {x, node.add_made_buffer(std::move(factors), rank_of(node, 0))},
                       std::move(dims));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_ELEMENTWISE_HPP
