// SPDX-License-Identifier: MIT
//
// Min and Max, element by element: a number is a bound. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EXTREMES_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EXTREMES_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// A clamp for constants of one element, and maximum() and minimum() of values and maps, which are expanded to one
/// shape.
///
/// @throws Error for values that a broadcast gives another rank, and for unknown extents behind the samples
void minimum(NodeImport& node);
void maximum(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <limits>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/expand.hpp"
#    include "intq/interop/onnx/internal/operators/unary.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/move.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Whether input i is one number for all elements.
INTQ_INLINE bool is_bound(const NodeImport& node, std::size_t i) {
    return node.is_constant(i) && node.constant(i, "bound").size() == 1;
}

/// The inputs of a node of which an extreme is taken.
struct Compared {
    std::vector<std::size_t> values;  // others than numbers
    std::optional<float> bound;       // the tightest number
    Dims dims;                        // of the result
};

INTQ_INLINE Compared compared_inputs(const NodeImport& node, bool is_maximum) {
    node.expect_inputs(1, (std::numeric_limits<std::size_t>::max)());
    Compared compared{.values = {}, .bound = {}, .dims = node.dims(0)};
    bool is_computed = false;
    for (std::size_t i = 0; i < node.input_count(); ++i) {
        compared.dims = broadcast_dims(compared.dims, node.dims(i));
        is_computed = is_computed || !node.is_constant(i);
        if (!is_bound(node, i)) {
            compared.values.push_back(i);
            continue;
        }
        const float bound = node.constant(i, "bound").as<float>()[0];
        if (std::isnan(bound)) throw Error("the bound is NaN");
        const bool is_tighter = !compared.bound || (is_maximum ? bound > *compared.bound : bound < *compared.bound);
        if (is_tighter) compared.bound = bound;
    }
    if (!is_computed) throw Error("all its operands are constants");
    // A bound that no finite number crosses does not count.
    if (compared.bound && std::fabs(*compared.bound) >= (std::numeric_limits<float>::max)()) compared.bound.reset();
    return compared;
}

/// Operand i with the extents of the result.
INTQ_INLINE graph::Node& make_repeated_operand(NodeImport& node, std::size_t i, const std::vector<index_t>& dims,
                                               graph::Node& of_samples) {
    const bool is_constant = node.is_constant(i);
    graph::Node& x = is_constant ? node.add_buffer(i, "operand", dims.size()) : node.value(i, "operand");
    std::vector<index_t> from = *node.dims(i);
    if (is_constant) from.insert(from.begin(), dims.size() - from.size(), 1);
    if (from.size() != dims.size())
        throw Error("a value of shape " + describe_shape(from) + " is compared with one of rank " +
                    std::to_string(dims.size()) + ", expected one rank");
    graph::ArgumentList extents(dims.size(), std::int64_t{-1});
    bool repeats = is_constant && dims[0] != 1;
    if (is_constant) extents[0] = node.make_size(of_samples, 0);
    for (std::size_t axis = 1; axis < dims.size(); ++axis) {
        if (from[axis] == dims[axis]) continue;
        extents[axis] = dims[axis];
        repeats = true;
    }
    return repeats ? node.make_function(nn::expand_function, {x, std::move(extents)}) : x;
}

INTQ_INLINE void extreme(NodeImport& node, bool is_maximum) {
    const Compared compared = compared_inputs(node, is_maximum);
    const std::optional<float> none;
    if (compared.values.size() == 1 && !node.is_constant(compared.values[0])) {
        const auto& bound = compared.bound;
        return keep_between(node, compared.values[0], is_maximum ? bound : none, is_maximum ? none : bound);
    }
    if (!compared.dims) throw Error("the rank of an operand is not known");
    const std::vector<index_t>& dims = *compared.dims;
    if (dims.size() < 2 || product_of(dims, 1, dims.size()) < 1)
        throw Error("values of the shape " + describe_shape(dims) +
                    " are compared, expected rank 2 or more, with extents that are known behind the samples");
    graph::Node* of_samples = nullptr;
    for (const std::size_t i : compared.values)
        if (!node.is_constant(i)) of_samples = &node.value(i);
    const nn::Function& function = is_maximum ? nn::maximum_function : nn::minimum_function;
    graph::Node* result = nullptr;
    for (const std::size_t i : compared.values) {
        graph::Node& x = make_repeated_operand(node, i, dims, *of_samples);
        result = result == nullptr ? &x : &node.make_function(function, {*result, x});
    }
    if (compared.bound) {
        const auto limit = static_cast<double>(*compared.bound);
        graph::Argument low, high;
        (is_maximum ? low : high) = limit;
        result = &node.make_function(nn::clamp_function, {*result, std::move(low), std::move(high)});
    }
    node.set_output({.node = result, .dims = dims});
}

INTQ_INLINE void minimum(NodeImport& node) { extreme(node, false); }
INTQ_INLINE void maximum(NodeImport& node) { extreme(node, true); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EXTREMES_HPP
