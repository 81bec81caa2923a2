// SPDX-License-Identifier: MIT
//
// Min and Max, element by element: a number is a bound, values are compared by a max pool. Layer: interop.
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

/// A clamp for constants of one element. Of k values, with the images under each other:
///
///     max(a, b, …) = max_pool(cat((a, b, …), 2), kernel (k, 1), dilation (height, 1))
///     min(a, b, …) = -max(-a, -b, …)
///
/// The features of the last axis are the channels of such an image where the rank is not 4.
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

#    include "intq/core/op_params.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/expand.hpp"
#    include "intq/interop/onnx/internal/operators/move.hpp"
#    include "intq/interop/onnx/internal/operators/rearrange.hpp"
#    include "intq/interop/onnx/internal/operators/reshape.hpp"
#    include "intq/interop/onnx/internal/operators/unary.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/pool.hpp"
#    include "intq/nn/layers/unary.hpp"

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

/// The largest of values of one shape.
INTQ_INLINE graph::Node& make_largest(NodeImport& node, const std::vector<graph::Node*>& values,
                                      const std::vector<index_t>& dims) {
    const bool is_image = dims.size() == 4;
    const index_t features = dims.back(), rows = is_image ? dims[2] : product_of(dims, 1, dims.size() - 1);
    check_extents({rows, static_cast<std::int64_t>(values.size())}, "extent", 1);
    graph::ArgumentList images;
    for (graph::Node* const x : values) {
        if (is_image) {
            images.emplace_back(*x);
            continue;
        }
        graph::Node& turned = make_permute(node, make_reshape(node, *x, {dims[0], rows, features}), {0, 2, 1});
        images.emplace_back(make_reshape(node, turned, {dims[0], features, rows, 1}));
    }
    graph::Node& joined = node.make_function(nn::cat_function, {std::move(images), std::int64_t{2}});
    const Window2d window{{static_cast<index_t>(values.size()), 1}, {1, 1}, {}, {rows, 1}};
    graph::Node& largest = node.make_module(make_as<nn::Module, nn::MaxPool2d>(window), {joined});
    if (is_image) return largest;
    graph::Node& turned = make_permute(node, make_reshape(node, largest, {dims[0], features, rows}), {0, 2, 1});
    return make_reshape(node, turned, dims);
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
    const auto negated = [&](graph::Node& x) -> graph::Node& {
        return is_maximum ? x : node.make_function(nn::unary_function<TableFunction::neg>, {x});
    };
    graph::Node* of_samples = nullptr;
    for (const std::size_t i : compared.values)
        if (!node.is_constant(i)) of_samples = &node.value(i);
    std::vector<graph::Node*> values;
    for (const std::size_t i : compared.values)
        values.push_back(&negated(make_repeated_operand(node, i, dims, *of_samples)));
    graph::Node* result = &negated(make_largest(node, values, dims));
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
