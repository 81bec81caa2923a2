// SPDX-License-Identifier: MIT
//
// ONNX operators that reduce axes: ReduceMean, ReduceSum. Layer: interop.
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

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <cstddef>
#    include <cstdint>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/reduce.hpp"
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

/// Axes are an attribute up to the opset before `input_since`, an input from there on. No axes mean all of them, unless
/// noop_with_empty_axes is set.
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
    const bool leaves = as_input && node.integer("noop_with_empty_axes", 0) != 0;
    if (axes.empty() && leaves)
        return node.call_module(make_as<nn::Module, nn::Identity>(), {node.value(0)}, node.dims(0));
    graph::ArgumentList list(axes.begin(), axes.end());
    Dims dims = reduced_dims(node.dims(0), axes, keepdim);
    node.call_function(function, {node.value(0), std::move(list), keepdim}, std::move(dims));
}

INTQ_INLINE void reduce_mean(NodeImport& node) { reduce(node, nn::mean_function, 18); }
INTQ_INLINE void reduce_sum(NodeImport& node) { reduce(node, nn::sum_function, 13); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_REDUCE_HPP
