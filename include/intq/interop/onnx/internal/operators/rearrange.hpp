// SPDX-License-Identifier: MIT
//
// ONNX operators that are reshapes around another move: DepthToSpace, SpaceToDepth, Tile. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_REARRANGE_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_REARRANGE_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Reshape, permute, reshape. All extents but the batch must be known.
void depth_to_space(NodeImport& node);
void space_to_depth(NodeImport& node);

/// For each axis that is repeated: reshape, expand, reshape. The samples cannot be repeated.
void tile(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/move.hpp"
#    include "intq/interop/onnx/internal/operators/reshape.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/move.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// The shape of input 0, whose extents behind the samples are known and not 0.
INTQ_INLINE std::vector<index_t> dims_of_sample(const NodeImport& node, std::size_t least_rank) {
    const std::vector<index_t>& dims = known_dims(node);
    if (dims.size() < least_rank ||
        std::any_of(dims.begin() + 1, dims.end(), [](index_t extent) { return extent < 1; }))
        throw Error("the input has shape " + describe_shape(dims) + ", expected rank " + std::to_string(least_rank) +
                    " or more, with extents that are known behind the samples");
    return dims;
}

/// A value with other extents behind its samples.
INTQ_INLINE graph::Node& make_reshape(NodeImport& node, graph::Node& x, std::vector<index_t> dims) {
    check_dims("its result", dims);
    if (dims.empty() || dims.size() > static_cast<std::size_t>(max_rank))
        throw Error("it passes the shape " + describe_shape(dims) + ", expected 1 to " + std::to_string(max_rank) +
                    " axes");
    dims[0] = -1;
    return node.make_function(nn::reshape_function, {x, graph::ArgumentList(dims.begin(), dims.end())});
}

INTQ_INLINE graph::Node& make_permute(NodeImport& node, graph::Node& x, const std::vector<std::int64_t>& axes) {
    if (std::is_sorted(axes.begin(), axes.end())) return x;
    return node.make_function(nn::permute_function, {x, graph::ArgumentList(axes.begin(), axes.end())});
}

INTQ_INLINE index_t block_size(NodeImport& node) {
    const std::int64_t block = node.integer("blocksize", 0);
    check_extents({block}, "blocksize", 1);
    if (node.dims(0) && node.dims(0)->size() != 4)
        throw Error("the input has shape " + describe_shape(*node.dims(0)) + ", expected rank 4");
    return block;
}

INTQ_INLINE void depth_to_space(NodeImport& node) {
    node.expect_inputs(1, 1);
    const index_t b = block_size(node);
    const std::vector<index_t> dims = dims_of_sample(node, 4);
    const std::string mode = node.text("mode", "DCR");
    if (mode != "DCR" && mode != "CRD") throw Error("the mode " + in_quotes(mode) + " is not DCR or CRD");
    const index_t channels = dims[1] / (b * b), height = dims[2], width = dims[3];
    if (dims[1] % (b * b) != 0)
        throw Error(std::to_string(dims[1]) + " channels are no blocks of " + std::to_string(b) + " x " +
                    std::to_string(b));
    const bool channels_last = mode == "DCR";  // among the numbers that a channel of the input is made of
    const std::vector<index_t> apart = channels_last ? std::vector<index_t>{dims[0], b, b, channels, height, width}
                                                     : std::vector<index_t>{dims[0], channels, b, b, height, width};
    const std::vector<std::int64_t> order =
        channels_last ? std::vector<std::int64_t>{0, 3, 4, 1, 5, 2} : std::vector<std::int64_t>{0, 1, 4, 2, 5, 3};
    graph::Node& turned = make_permute(node, make_reshape(node, node.value(0), apart), order);
    call_reshape_of(node, turned, {dims[0], channels, height * b, width * b}, true);
}

INTQ_INLINE void space_to_depth(NodeImport& node) {
    node.expect_inputs(1, 1);
    const index_t b = block_size(node);
    const std::vector<index_t> dims = dims_of_sample(node, 4);
    if (dims[2] % b != 0 || dims[3] % b != 0)
        throw Error("an image of " + std::to_string(dims[2]) + " x " + std::to_string(dims[3]) + " has no blocks of " +
                    std::to_string(b) + " x " + std::to_string(b));
    const index_t height = dims[2] / b, width = dims[3] / b;
    graph::Node& apart = make_reshape(node, node.value(0), {dims[0], dims[1], height, b, width, b});
    graph::Node& turned = make_permute(node, apart, {0, 3, 5, 1, 2, 4});
    call_reshape_of(node, turned, {dims[0], dims[1] * b * b, height, width}, true);
}

/// Repeats an axis behind the samples; `dims` is the shape of x.
INTQ_INLINE graph::Node& make_repeated(NodeImport& node, graph::Node& x, std::vector<index_t>& dims, std::size_t axis,
                                       std::int64_t times) {
    const index_t before = product_of(dims, 1, axis), within = product_of(dims, axis, dims.size());
    graph::Node& apart = make_reshape(node, x, {dims[0], before, 1, within});
    const graph::ArgumentList extents{std::int64_t{-1}, std::int64_t{-1}, times, std::int64_t{-1}};
    graph::Node& repeated = node.make_function(nn::expand_function, {apart, extents}, true);
    dims[axis] *= times;
    return make_reshape(node, repeated, dims);
}

INTQ_INLINE void tile(NodeImport& node) {
    node.expect_inputs(2, 2);
    const std::vector<std::int64_t> times = constant_integers(node, 1, "repeats");
    std::vector<index_t> dims = dims_of_sample(node, 1);
    if (times.size() != dims.size())
        throw Error("there are " + std::to_string(times.size()) + " repeats for " + std::to_string(dims.size()) +
                    " axes");
    check_extents(times, "repeat", 1);
    if (times[0] != 1) throw Error("it repeats the samples (axis 0), " + std::to_string(times[0]) + " times");
    graph::Node* x = &node.value(0);
    for (std::size_t axis = 1; axis < dims.size(); ++axis)
        if (times[axis] > 1) x = &make_repeated(node, *x, dims, axis, times[axis]);
    if (x == &node.value(0)) return node.call_module(make_as<nn::Module, nn::Identity>(), {*x}, std::move(dims));
    node.set_output({.node = x, .dims = std::move(dims)});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_REARRANGE_HPP
