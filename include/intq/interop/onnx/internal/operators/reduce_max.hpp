// SPDX-License-Identifier: MIT
//
// ReduceMax, ReduceMin and GlobalMaxPool as max pools. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_REDUCE_MAX_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_REDUCE_MAX_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// A max pool whose window is the axes, of the image or of
///
///     reshape(x, (N, extents before, extents of the axes, extents behind))
///
/// The axes follow each other and do not hold the samples; the extents behind the samples are known. A minimum is that
/// of the negative value, negated.
void reduce_max(NodeImport& node);
void reduce_min(NodeImport& node);
void global_max_pool(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <cstddef>
#    include <cstdint>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/op_params.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/move.hpp"
#    include "intq/interop/onnx/internal/operators/rearrange.hpp"
#    include "intq/interop/onnx/internal/operators/reduce.hpp"
#    include "intq/interop/onnx/internal/operators/reshape.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/pool.hpp"
#    include "intq/nn/layers/unary.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// The axes from `first` to before `last`.
struct AxisRange {
    std::size_t first = 0, last = 0;
};

INTQ_INLINE AxisRange range_of_axes(const std::vector<std::int64_t>& axes, const std::vector<index_t>& dims) {
    std::vector<bool> is_there(dims.size(), axes.empty());
    for (const std::int64_t axis : axes) is_there[axis_in(axis, dims)] = true;
    AxisRange range;
    while (range.first < dims.size() && !is_there[range.first]) ++range.first;
    range.last = range.first;
    while (range.last < dims.size() && is_there[range.last]) ++range.last;
    for (std::size_t axis = range.last; axis < dims.size(); ++axis)
        if (is_there[axis])
            throw Error("its axes " + describe_shape(axes) + " do not follow each other in shape " +
                        describe_shape(dims));
    if (range.first == 0) throw Error("its axes hold axis 0 of shape " + describe_shape(dims) + ", the samples");
    return range;
}

INTQ_INLINE nn::ModulePtr max_pool_of(Size2d kernel) {
    check_extents({kernel.height, kernel.width}, "extent", 1);
    return make_as<nn::Module, nn::MaxPool2d>(
        Window2d{.kernel = kernel, .stride = kernel, .padding = {}, .dilation = {1, 1}});
}

/// The maximum of x, an input of the node or its negative, along the axes, which stay with extent 1.
INTQ_INLINE graph::Node& make_maximum(NodeImport& node, graph::Node& x, const std::vector<index_t>& dims,
                                      AxisRange axes) {
    if (dims.size() == 4 && axes.first >= 2) {
        const bool is_high = axes.first == 2, is_wide = axes.last == 4;
        return node.make_module(max_pool_of({is_high ? dims[2] : 1, is_wide ? dims[3] : 1}), {x});
    }
    const index_t before = product_of(dims, 1, axes.first), within = product_of(dims, axes.first, axes.last),
                  behind = product_of(dims, axes.last, dims.size());
    graph::Node& image = make_reshape(node, x, {dims[0], before, within, behind});
    return node.make_module(max_pool_of({within, 1}), {image});
}

INTQ_INLINE void reduce_to_extreme(NodeImport& node, bool is_maximum) {
    const ReducedAxes reduced = read_axes(node, 18);
    if (reduced.leaves) return call_identity(node);
    const std::vector<index_t> dims = dims_of_sample(node, 2);
    const AxisRange axes = range_of_axes(reduced.axes, dims);
    const auto negated = [&](graph::Node& x) -> graph::Node& {
        return is_maximum ? x : node.make_function(nn::unary_function<TableFunction::neg>, {x});
    };
    graph::Node& extreme = negated(make_maximum(node, negated(node.value(0)), dims, axes));
    const bool is_image = dims.size() == 4 && axes.first >= 2;
    std::vector<index_t> result = *reduced_dims(dims, reduced.axes, reduced.keepdim);
    if (is_image && reduced.keepdim) return node.set_output({.node = &extreme, .dims = std::move(result)});
    call_reshape_of(node, extreme, std::move(result), true);
}

INTQ_INLINE void reduce_max(NodeImport& node) { reduce_to_extreme(node, true); }
INTQ_INLINE void reduce_min(NodeImport& node) { reduce_to_extreme(node, false); }

INTQ_INLINE void global_max_pool(NodeImport& node) {
    node.expect_inputs(1, 1);
    std::vector<index_t> dims = dims_of_sample(node, 3);
    const bool is_image = dims.size() == 4;
    graph::Node& most = make_maximum(node, node.value(0), dims, {2, dims.size()});
    for (std::size_t axis = 2; axis < dims.size(); ++axis) dims[axis] = 1;
    if (is_image) return node.set_output({.node = &most, .dims = std::move(dims)});
    call_reshape_of(node, most, std::move(dims), true);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_REDUCE_MAX_HPP
