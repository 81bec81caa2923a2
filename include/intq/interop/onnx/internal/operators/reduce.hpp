// SPDX-License-Identifier: MIT
//
// ONNX operators that reduce axes: ReduceMean, ReduceSum, ArgMax. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_REDUCE_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_REDUCE_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

void reduce_mean(NodeImport& node);
void reduce_sum(NodeImport& node);

/// Indices, which moves and outputs of the model read. Of equal elements the first; select_last_index is refused.
void argmax(NodeImport& node);

/// sqrt(mean(x²)) · sqrt(n), of n elements whose number is known.
void reduce_l2(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/argmax.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/reduce.hpp"
#    include "intq/nn/layers/unary.hpp"
#    include "intq/nn/model/recorder.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// The extents that are left; nothing where the rank is not known.
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

/// The axes of a reduction; none are all.
struct ReducedAxes {
    std::vector<std::int64_t> axes;
    bool keepdim = true;
    bool leaves = false;  // the value as it is
};

/// @param input_since  the opset in which the axes became an input
INTQ_INLINE ReducedAxes read_axes(NodeImport& node, std::int64_t input_since) {
    const bool as_input = node.opset() >= input_since;
    node.expect_inputs(1, as_input ? 2 : 1);
    ReducedAxes reduced;
    if (!as_input) reduced.axes = node.integers("axes", {});
    if (as_input && node.has_input(1)) {
        const auto given = node.constant(1, "axes").as<std::int64_t>();
        reduced.axes.assign(given.begin(), given.end());
    }
    reduced.keepdim = node.integer("keepdims", 1) != 0;
    reduced.leaves = as_input && node.integer("noop_with_empty_axes", 0) != 0 && reduced.axes.empty();
    return reduced;
}

INTQ_INLINE void call_identity(NodeImport& node) {
    node.call_module(make_as<nn::Module, nn::Identity>(), {node.value(0)}, node.dims(0));
}

INTQ_INLINE void reduce(NodeImport& node, const nn::Function& function, std::int64_t input_since) {
    const ReducedAxes reduced = read_axes(node, input_since);
    if (reduced.leaves) return call_identity(node);
    graph::ArgumentList list(reduced.axes.begin(), reduced.axes.end());
    Dims dims = reduced_dims(node.dims(0), reduced.axes, reduced.keepdim);
    node.call_function(function, {node.value(0), std::move(list), reduced.keepdim}, std::move(dims));
}

/// The elements that a reduction joins to one.
INTQ_INLINE index_t count_of(const NodeImport& node, const ReducedAxes& reduced) {
    if (!node.dims(0)) throw Error("the rank of the input is not known");
    const std::vector<index_t>& dims = *node.dims(0);
    std::vector<bool> is_joined(dims.size(), reduced.axes.empty());
    for (const std::int64_t axis : reduced.axes) is_joined[axis_in(axis, dims)] = true;
    std::vector<index_t> joined;
    for (std::size_t i = 0; i < dims.size(); ++i)
        if (is_joined[i]) joined.push_back(dims[i]);
    const index_t count = product_of(joined, 0, joined.size());
    if (count < 1)
        throw Error("the axes " + describe_shape(reduced.axes) + " of shape " + describe_shape(dims) +
                    " hold a number of elements that is not known, or none");
    return count;
}

INTQ_INLINE void reduce_l2(NodeImport& node) {
    const ReducedAxes reduced = read_axes(node, 18);
    if (reduced.leaves) throw Error("noop_with_empty_axes is not supported");
    const auto root = std::sqrt(static_cast<double>(count_of(node, reduced)));
    const graph::ArgumentList axes(reduced.axes.begin(), reduced.axes.end());
    graph::Node& square = node.make_function(nn::unary_function<TableFunction::square>, {node.value(0)});
    graph::Node& mean = node.make_function(nn::mean_function, {square, axes, reduced.keepdim});
    graph::Node& length = node.make_function(nn::unary_function<TableFunction::sqrt>, {mean});
    node.call_function(nn::mul_function, {length, root}, reduced_dims(node.dims(0), reduced.axes, reduced.keepdim));
}

INTQ_INLINE void argmax(NodeImport& node) {
    node.expect_inputs(1, 1);
    const std::int64_t axis = node.integer("axis", 0);
    const bool keepdim = node.integer("keepdims", 1) != 0;
    if (node.opset() >= 12 && node.integer("select_last_index", 0) != 0)
        throw Error("select_last_index is not supported: of equal elements the first one counts");
    Dims dims = reduced_dims(node.dims(0), {axis}, keepdim);
    node.call_function(nn::argmax_function, {node.value(0), axis, keepdim}, std::move(dims));
    node.mark_indices();
}

INTQ_INLINE void reduce_mean(NodeImport& node) { reduce(node, nn::mean_function, 18); }
INTQ_INLINE void reduce_sum(NodeImport& node) { reduce(node, nn::sum_function, 13); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_REDUCE_HPP
