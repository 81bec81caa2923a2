// SPDX-License-Identifier: MIT
//
// ONNX operators on pairs of elements: Add, Mul, Sub. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_OPERATORS_ELEMENTWISE_HPP
#define INTQ_INTEROP_ONNX_OPERATORS_ELEMENTWISE_HPP

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

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstddef>
#    include <memory>
#    include <optional>
#    include <string_view>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/nodes/dims.hpp"
#    include "intq/interop/onnx/nodes/node_import.hpp"
#    include "intq/interop/onnx/operators/conv.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/functional/arithmetic.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/model/recorder.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Whether a constant has one value for each of `channels`, broadcast along all other axes of `rank`.
INTQ_INLINE bool is_per_channel(const FileTensor& tensor, std::size_t rank, index_t channels) {
    if (tensor.size() != channels || tensor.dims.size() > rank) return false;
    const std::size_t left_out = rank - tensor.dims.size();
    return channels == 1 || (left_out <= 1 && tensor.dims[1 - left_out] == channels);
}

/// x + c. A vector behind a MatMul is the bias of that Linear; one value a channel is a batch norm that only adds,
/// which fusion folds into a convolution before it; any other tensor is a buffer.
INTQ_INLINE void add_constant(NodeImport& node, std::size_t x, std::size_t c) {
    constexpr std::string_view what = "constant operand";
    const FileTensor& constant = node.constant(c, what);
    graph::Node& value = node.value(x);
    const Dims& dims = node.dims(x);
    const bool fits_rank = !dims || constant.dims.size() <= dims->size();
    auto* const linear = node.producer<nn::Linear>(x);
    if (linear != nullptr && !linear->options().bias && node.is_only_user(x) &&
        (dims ? fits_rank : constant.dims.size() < 2) && is_bias_of(constant, linear->options().out_features)) {
        linear->set_bias(broadcast_bias(node.float_constant(c, what), linear->options().out_features, 1.0f));
        if (constant.size() == linear->options().out_features) node.note_bias(x, c);
        return node.set_output({.node = &value, .dims = dims});
    }
    if (constant.size() == 1 && fits_rank)
        return node.call_function(nn::add_function,
                                  {value, static_cast<double>(node.float_constant(c, what).as<float>()[0])}, dims);
    const index_t channels = node.extent(x, 1);
    if (dims && dims->size() <= 4 && channels >= 1 && is_per_channel(constant, dims->size(), channels)) {
        const auto module = make_batch_norm(dims, {.num_features = channels, .eps = 0.0});
        module->tensor("bias") = to_tensor(node.float_constant(c, what), Shape(channels));
        return node.call_module(module, {value}, dims);
    }
    Dims sum = broadcast_dims(dims, constant.dims);
    node.call_function(nn::add_function, {value, node.add_buffer(c, what)}, std::move(sum));
}

/// An operand: a value, a number, or a tensor that becomes a buffer.
INTQ_INLINE graph::Argument operand(NodeImport& node, std::size_t i) {
    if (!node.is_constant(i)) return node.value(i);
    constexpr std::string_view what = "constant operand";
    if (!node.constant(i, what).dims.empty()) return node.add_buffer(i, what);
    return static_cast<double>(node.float_constant(i, what).as<float>()[0]);
}

/// Two values are a method of a FloatFunctional, so that the result has a name; a constant makes it a function.
INTQ_INLINE void binary(NodeImport& node, const nn::Function& function) {
    node.expect_inputs(2, 2);
    Dims dims = broadcast_dims(node.dims(0), node.dims(1));
    if (node.is_constant(0) && node.is_constant(1)) throw Error("both operands are constants");
    if (node.is_constant(0) || node.is_constant(1)) {
        graph::Argument a = operand(node, 0), b = operand(node, 1);
        return node.call_function(function, {std::move(a), std::move(b)}, std::move(dims));
    }
    node.call_module(std::make_shared<nn::FloatFunctional>(), {node.value(0), node.value(1)}, std::move(dims),
                     function.name);
}

INTQ_INLINE void add(NodeImport& node) {
    node.expect_inputs(2, 2);
    if (node.is_constant(1)) return add_constant(node, 0, 1);
    if (node.is_constant(0)) return add_constant(node, 1, 0);
    binary(node, nn::add_function);
}

INTQ_INLINE void mul(NodeImport& node) { binary(node, nn::mul_function); }
INTQ_INLINE void sub(NodeImport& node) { binary(node, nn::sub_function); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_OPERATORS_ELEMENTWISE_HPP
