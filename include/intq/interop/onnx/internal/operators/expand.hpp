// SPDX-License-Identifier: MIT
//
// The ONNX operator Expand, and constants that are repeated for the samples of a value. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EXPAND_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EXPAND_HPP

#include <cstddef>

#include "intq/graph/node.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// To a shape whose extents may be those of other values.
void expand(NodeImport& node);

/// One sample, repeated for the samples of another value.
graph::Node& for_samples_of(NodeImport& node, graph::Node& part, std::size_t rank, graph::Node& value);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstdint>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/fold_moves.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/move.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE graph::Node& for_samples_of(NodeImport& node, graph::Node& part, std::size_t rank, graph::Node& value) {
    graph::ArgumentList extents(rank, std::int64_t{-1});
    extents[0] = node.make_size(value, 0);
    return node.make_function(nn::expand_function, {part, std::move(extents)});
}

INTQ_INLINE void expand(NodeImport& node) {
    node.expect_inputs(2, 2);
    const auto target = node.constant(1, "shape").as<std::int64_t>();
    if (!node.dims(0)) throw Error("the rank of the input is not known");
    std::vector<index_t> from = *node.dims(0);
    const bool is_known = std::none_of(target.begin(), target.end(), is_unknown_extent);
    for (const std::int64_t extent : target)
        if (extent < 0 && !is_unknown_extent(extent))
            throw Error("the shape " + describe_shape(target) + " holds a negative extent");
    if (is_known && node.is_constant(0)) return node.set_folded(folding::fold_expand(node, target));
    std::vector<index_t> dims = *broadcast_dims(from, std::vector<index_t>(target.begin(), target.end()));
    if (dims.size() > static_cast<std::size_t>(max_rank))
        throw Error("the shape " + describe_shape(dims) + " has more than " + std::to_string(max_rank) + " axes");
    if (node.is_constant(0)) from.insert(from.begin(), dims.size() - from.size(), 1);  // the samples are axis 0
    graph::Node& x = node.is_constant(0) ? node.add_buffer(0, "input", dims.size()) : node.value(0);
    const std::size_t added = dims.size() - from.size();
    graph::ArgumentList extents;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        const bool stays = i >= added && dims[i] == from[i - added];
        extents.emplace_back(stays ? std::int64_t{-1} : dims[i]);
        if (!stays && is_unknown_extent(dims[i])) extents.back() = node.make_extent(dims[i]);
    }
    node.call_function(nn::expand_function, {x, std::move(extents)}, std::move(dims));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_EXPAND_HPP
