// SPDX-License-Identifier: MIT
//
// ONNX operators that change the shape of a value: Flatten, Reshape, Squeeze, Unsqueeze. Layer: interop.
//
// A file that was exported for one batch size has that size in its shapes. Where the first axis keeps its extent, the
// model keeps it for any batch.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_RESHAPE_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_RESHAPE_HPP

#include <cstdint>
#include <span>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/graph/node.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// The axes before `axis` become one, and the others another. For axis 1 it is nn::Flatten.
void flatten(NodeImport& node);

/// To (N, -1), in any form that exporters write, it is nn::Flatten; to another shape, a function.
void reshape(NodeImport& node);

void squeeze(NodeImport& node);
void unsqueeze(NodeImport& node);

/// The target of a Reshape as extents of the result: 0 is the input's extent where it refers to one, and -1 is computed
/// where all others are known.
std::vector<index_t> target_dims(NodeImport& node, std::span<const std::int64_t> shape);

/// Sets the node's output to a value that is reshaped to `dims`, one of which may be unknown.
///
/// @param keeps_batch  the first axis is the value's: with all others known it is the remainder, for any batch
void call_reshape_of(NodeImport& node, graph::Node& x, std::vector<index_t> dims, bool keeps_batch);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <span>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/fold_moves.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/move.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Product of the extents behind the first; -1 when one is not known.
INTQ_INLINE index_t sample_size(const Dims& dims) { return dims ? product_of(*dims, 1, dims->size()) : -1; }

INTQ_INLINE void call_flatten(NodeImport& node) {
    if (node.dims(0) && node.dims(0)->size() < 2)
        throw Error("the input has shape " + describe_shape(*node.dims(0)) + ", expected rank 2 or more");
    const index_t size = sample_size(node.dims(0));
    node.call_module(make_as<nn::Module, nn::Flatten>(1), {node.value(0)},
                     std::vector<index_t>{node.extent(0, 0), size});
}

INTQ_INLINE void call_reshape_of(NodeImport& node, graph::Node& x, std::vector<index_t> dims, bool keeps_batch) {
    if (dims.size() > static_cast<std::size_t>(max_rank))
        throw Error("the shape " + describe_shape(dims) + " has more than " + std::to_string(max_rank) + " axes");
    std::vector<index_t> target = dims;
    const bool rest_is_known =
        std::all_of(dims.begin() + (dims.empty() ? 0 : 1), dims.end(), [](index_t extent) { return extent > 0; });
    if (keeps_batch && rest_is_known) target[0] = -1;
    for (index_t& extent : target) extent = std::max<index_t>(extent, -1);
    if (std::count(target.begin(), target.end(), -1) > 1)
        throw Error("of the shape " + describe_shape(dims) + " more than one extent is not known");
    node.call_function(nn::reshape_function, {x, graph::ArgumentList(target.begin(), target.end())}, std::move(dims));
}

/// The same of input 0.
INTQ_INLINE void call_reshape(NodeImport& node, std::vector<index_t> dims, bool keeps_batch) {
    call_reshape_of(node, node.value(0), std::move(dims), keeps_batch);
}

/// The extent of the input that a target's 0 refers to.
INTQ_INLINE index_t copied_extent(const NodeImport& node, std::size_t axis) {
    const Dims& from = node.dims(0);
    if (!from) return -1;
    if (axis >= from->size())
        throw Error("the shape copies axis " + std::to_string(axis) + " of " + describe_shape(*from));
    return (*from)[axis];
}

/// Whether a target keeps the first axis.
INTQ_INLINE bool keeps_first(const Dims& from, std::span<const std::int64_t> shape, const std::vector<index_t>& dims) {
    if (shape.empty() || shape[0] == -1) return false;
    return from ? !from->empty() && dims[0] == (*from)[0] : shape[0] == 0 && dims[0] != 0;
}

INTQ_INLINE std::vector<index_t> target_dims(NodeImport& node, std::span<const std::int64_t> shape) {
    const bool zero_is_zero = node.opset() >= 14 && node.integer("allowzero", 0) != 0;
    const Dims& from = node.dims(0);
    std::vector<index_t> dims(shape.begin(), shape.end());
    std::size_t open = dims.size();
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == 0 && !zero_is_zero) dims[i] = copied_extent(node, i);
        if (dims[i] < -1 && !is_unknown_extent(dims[i]))
            throw Error("the shape " + describe_shape(shape) + " holds a negative extent");
        if (shape[i] == -1 && std::exchange(open, i) != dims.size())
            throw Error("the shape " + describe_shape(shape) + " leaves two extents open");
    }
    if (zero_is_zero && open < dims.size() && std::count(dims.begin(), dims.end(), 0) > 0)
        throw Error("the shape " + describe_shape(shape) + " leaves an extent open beside one of 0");
    const std::size_t first = keeps_first(from, shape, dims) ? 1 : 0;
    const index_t in = from ? product_of(*from, (std::min)(first, from->size()), from->size()) : -1;
    if (open < dims.size()) dims[open] = 1;
    const index_t out = product_of(dims, (std::min)(first, dims.size()), dims.size());
    if (open < dims.size()) dims[open] = in < 0 || out < 0 ? -1 : out > 0 ? in / out : 0;
    if (in >= 0 && out >= 0 && (open < dims.size() ? in % std::max<index_t>(out, 1) != 0 : in != out))
        throw Error("a value of shape " + describe_shape(*from) + " cannot take the shape " + describe_shape(shape));
    return dims;
}

INTQ_INLINE void flatten(NodeImport& node) {
    node.expect_inputs(1, 1);
    std::int64_t axis = node.integer("axis", 1);
    const Dims& dims = node.dims(0);
    if (axis == 1) return call_flatten(node);
    if (!dims) throw Error("axis " + std::to_string(axis) + " needs the rank of the input, which is not known");
    const auto rank = static_cast<std::int64_t>(dims->size());
    if (axis < -rank || axis > rank)
        throw Error("axis " + std::to_string(axis) + " does not exist in shape " + describe_shape(*dims));
    if (axis < 0) axis += rank;
    if (axis == 1) return call_flatten(node);
    const auto at = static_cast<std::size_t>(axis);
    call_reshape(node, {product_of(*dims, 0, at), product_of(*dims, at, dims->size())}, false);
}

/// Of matrices that were transposed as one list: they are transposed where they were, behind their samples.
///
///     Reshape(Transpose(Reshape(x, (-1, m, n)), (0, 2, 1)), (…, n, m))
///         permute(reshape(x, (…, m, n)), the last two axes exchanged)
///
/// @return false for another value
INTQ_INLINE bool call_transpose_of_matrices(NodeImport& node, const std::vector<index_t>& dims) {
    const MatrixList matrices = node.any_value(0, "input").matrices;
    const std::size_t rank = dims.size();
    if (matrices.x == nullptr || !matrices.is_transposed || rank < 3 || !node.dims(0)) return false;
    const std::vector<index_t>& list = *node.dims(0);
    if (list[1] != dims[rank - 2] || list[2] != dims[rank - 1]) return false;
    std::vector<index_t> before = dims;
    std::swap(before[rank - 2], before[rank - 1]);
    const Dims& of_x = matrices.dims;
    const bool keeps_batch = of_x && !of_x->empty() && product_of(before, 1, rank) > 0 &&
                             (before[0] == of_x->front() || product_of(before, 1, rank) == sample_size(of_x));
    if (!keeps_batch) return false;
    before[0] = of_x->front();
    graph::Node* x = matrices.x;
    if (before != *of_x) {
        graph::ArgumentList target(before.begin(), before.end());
        target[0] = std::int64_t{-1};
        x = &node.make_function(nn::reshape_function, {*x, std::move(target)});
    }
    graph::ArgumentList axes;
    for (std::size_t axis = 0; axis < rank; ++axis) axes.emplace_back(static_cast<std::int64_t>(axis));
    std::swap(axes[rank - 2], axes[rank - 1]);
    node.call_function(nn::permute_function, {*x, std::move(axes)}, dims);
    return true;
}

INTQ_INLINE void reshape(NodeImport& node) {
    node.expect_inputs(2, 2);
    const auto shape = node.constant(1, "shape").as<std::int64_t>();
    std::vector<index_t> dims = target_dims(node, shape);
    const Dims& from = node.dims(0);
    const bool keeps_batch = keeps_first(from, shape, dims);
    // (-1, all other elements of a sample) keeps the batch as well.
    const bool leaves_batch = from && !from->empty() && !dims.empty() && shape[0] == -1 && sample_size(from) > 0 &&
                              product_of(dims, 1, dims.size()) == sample_size(from);
    const bool is_flat = dims.size() == 2 && (!from || from->size() > 1);
    if (is_flat && (keeps_batch || leaves_batch)) return call_flatten(node);
    if (leaves_batch) dims[0] = (*from)[0];
    if (call_transpose_of_matrices(node, dims)) return;
    const bool is_list = from && dims.size() == 3 && !keeps_batch && !leaves_batch && dims[1] > 0 && dims[2] > 0;
    call_reshape(node, std::move(dims), keeps_batch || leaves_batch);
    if (is_list) node.mark_matrices({.x = &node.value(0), .dims = from});
}

/// Squeeze and Unsqueeze leave the batch in place, unless they remove it or put an axis before it.
INTQ_INLINE void call_with_axes(NodeImport& node,
                                std::vector<index_t> (*dims_of)(NodeImport&, const std::vector<index_t>&)) {
    if (!node.dims(0)) throw Error("the rank of the input is not known");
    const std::vector<index_t> from = *node.dims(0);
    std::vector<index_t> dims = dims_of(node, from);
    const bool keeps_batch = !from.empty() && !dims.empty() && dims[0] == from[0];
    call_reshape(node, std::move(dims), keeps_batch);
}

INTQ_INLINE void squeeze(NodeImport& node) { call_with_axes(node, &folding::squeezed_dims); }
INTQ_INLINE void unsqueeze(NodeImport& node) { call_with_axes(node, &folding::unsqueezed_dims); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_RESHAPE_HPP
