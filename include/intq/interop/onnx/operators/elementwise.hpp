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

INTQ_INLINE void add_values(NodeImport& node) {
    graph::Node &a = node.value(0), &b = node.value(1);
    const Dims &first = node.dims(0), &second = node.dims(1);
    Dims dims = first ? first : second;
    if (first && second) {
        bool equal = first->size() == second->size();
        for (std::size_t i = 0; equal && i < first->size(); ++i) {
            equal = (*first)[i] == (*second)[i] || (*first)[i] < 0 || (*second)[i] < 0;
            (*dims)[i] = std::max((*first)[i], (*second)[i]);  // the one that is known
        }
        if (!equal)
            throw Error("the shapes " + describe_shape(*first) + " and " + describe_shape(*second) +
                        " differ; broadcasting is supported for constants only");
    }
    node.call_module(std::make_shared<nn::FloatFunctional>(), {a, b}, std::move(dims), "add");
}

/// Whether a constant has one value for each of `channels`, broadcast along all other axes of `rank`.
INTQ_INLINE bool is_per_channel(const FileTensor& tensor, std::size_t rank, index_t channels) {
    if (tensor.size() != channels || tensor.dims.size() > rank) return false;
    const std::size_t left_out = rank - tensor.dims.size();
    return channels == 1 || (left_out <= 1 && tensor.dims[1 - left_out] == channels);
}

/// x + c. A vector behind a MatMul is the bias of that Linear; one value a channel is a batch norm that only adds,
/// which fusion folds into a convolution before it.
INTQ_INLINE void add_constant(NodeImport& node, std::size_t x, std::size_t c) {
    const FileTensor& constant = node.float_constant(c, "constant operand");
    graph::Node& value = node.value(x);
    const Dims& dims = node.dims(x);
    auto* const linear = node.producer<nn::Linear>(x);
    if (linear != nullptr && !linear->options().bias && node.is_only_user(x) &&
        constant.dims.size() <= (dims ? dims->size() : 1)) {
        linear->set_bias(broadcast_bias(constant, linear->options().out_features, 1.0f));
        return node.set_output({.node = &value, .dims = dims});
    }
    if (constant.size() == 1 && (!dims || constant.dims.size() <= dims->size()))
        return node.call_function(nn::add_function, {value, static_cast<double>(constant.as<float>()[0])}, dims);
    const index_t channels = node.extent(x, 1);
    if (!dims || channels < 1 || !is_per_channel(constant, dims->size(), channels))
        throw Error("the constant operand has shape " + describe_shape(constant.dims) + ", the other " +
                    (dims ? describe_shape(*dims) : "an unknown one") +
                    "; supported are one value, one a channel, and a vector behind a MatMul");
    const auto module = make_batch_norm(dims, {.num_features = channels, .eps = 0.0});
    module->tensor("bias") = to_tensor(constant, Shape(channels));
    node.call_module(module, {value}, dims);
}

INTQ_INLINE void add(NodeImport& node) {
    node.expect_inputs(2, 2);
    if (node.is_constant(1)) return add_constant(node, 0, 1);
    if (node.is_constant(0)) return add_constant(node, 1, 0);
    add_values(node);
}

/// Extents of two operands that are broadcast; nothing where a rank is not known.
INTQ_INLINE Dims broadcast_dims(const Dims& a, const Dims& b) {
    if (!a || !b) return std::nullopt;
    std::vector<index_t> result = a->size() < b->size() ? *b : *a;
    for (std::size_t back = 1; back <= std::min(a->size(), b->size()); ++back) {
        const index_t x = (*a)[a->size() - back], y = (*b)[b->size() - back];
        if (x >= 0 && y >= 0 && x != y && x != 1 && y != 1)
            throw Error("the shapes " + describe_shape(*a) + " and " + describe_shape(*b) + " cannot be broadcast");
        // An unknown extent is that of the other side, unless that is 1.
        result[result.size() - back] = x == 1 ? y : y == 1 ? x : std::max(x, y);
    }
    return result;
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

INTQ_INLINE void mul(NodeImport& node) { binary(node, nn::mul_function); }
INTQ_INLINE void sub(NodeImport& node) { binary(node, nn::sub_function); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_OPERATORS_ELEMENTWISE_HPP
