// SPDX-License-Identifier: MIT
//
// ONNX operators of two tensors beside Add: Mul, Sub, ReduceMean, ReduceSum. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_OPERATORS_BINARY_HPP
#define INTQ_INTEROP_ONNX_OPERATORS_BINARY_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

void mul(NodeImport& node);
void sub(NodeImport& node);
void reduce_mean(NodeImport& node);
void reduce_sum(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <memory>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/nodes/node_import.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/functional/arithmetic.hpp"
#    include "intq/nn/functional/move.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/model/recorder.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

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
    const FileTensor& constant = node.float_constant(i, "constant operand");
    if (constant.dims.empty()) return static_cast<double>(constant.as<float>()[0]);
    return node.add_buffer(constant);
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

/// What is left of the extents; nothing where the rank is not known.
INTQ_INLINE Dims reduced_dims(const Dims& dims, const std::vector<std::int64_t>& axes, bool keepdim) {
    if (!dims) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(dims->size());
    std::vector<bool> gone(dims->size(), axes.empty());
    for (const std::int64_t axis : axes) {
        if (axis < -rank || axis >= rank)
            throw Error("axis " + std::to_string(axis) + " does not exist in shape " + describe_shape(*dims));
        gone[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
    }
    std::vector<index_t> result;
    for (std::size_t i = 0; i < dims->size(); ++i)
        if (!gone[i] || keepdim) result.push_back(gone[i] ? 1 : (*dims)[i]);
    return result;
}

/// Axes are an attribute up to the opset before `input_since`, an input from there on.
INTQ_INLINE void reduce(NodeImport& node, const nn::Function& function, std::int64_t input_since) {
    const bool as_input = node.opset() >= input_since;
    node.expect_inputs(1, as_input ? 2 : 1);
    std::vector<std::int64_t> axes;
    if (!as_input) axes = node.integers("axes", {});
    if (as_input && node.has_input(1)) {
        const auto given = node.constant(1, "axes").as<std::int64_t>();
        axes.assign(given.begin(), given.end());
    }
    const bool keepdim = node.integer("keepdims", 1) != 0;
    if (as_input && axes.empty() && node.integer("noop_with_empty_axes", 0) != 0)
        throw Error("noop_with_empty_axes is not supported");
    graph::ArgumentList list(axes.begin(), axes.end());
    Dims dims = reduced_dims(node.dims(0), axes, keepdim);
    node.call_function(function, {node.value(0), std::move(list), keepdim}, std::move(dims));
}

INTQ_INLINE void reduce_mean(NodeImport& node) { reduce(node, nn::mean_function, 18); }
INTQ_INLINE void reduce_sum(NodeImport& node) { reduce(node, nn::sum_function, 13); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_OPERATORS_BINARY_HPP
