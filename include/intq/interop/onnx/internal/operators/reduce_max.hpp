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
/// one for each run of axes that follow each other. They do not hold the samples; the extents behind the samples are
/// known. A minimum is that of the negative value, negated.
void reduce_max(NodeImport& node);
void reduce_min(NodeImport& node);
void global_max_pool(NodeImport& node);

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

/// The runs of axes that follow each other, of all axes for none.
INTQ_INLINE std::vector<AxisRange> ranges_of_axes(const std::vector<std::int64_t>& axes,
                                                  const std::vector<index_t>& dims) {
    std::vector<bool> is_there(dims.size(), axes.empty());
    for (const std::int64_t axis : axes) is_there[axis_in(axis, dims)] = true;
    if (is_there[0]) throw Error("its axes hold axis 0 of shape " + describe_shape(dims) + ", the samples");
    std::vector<AxisRange> ranges;
    for (std::size_t axis = 1; axis < dims.size(); ++axis) {
        if (!is_there[axis]) continue;
        if (ranges.empty() || ranges.back().last != axis) ranges.push_back({axis, axis});
        ++ranges.back().last;
    }
    return ranges;
}

INTQ_INLINE nn::ModulePtr max_pool_of(Size2d kernel) {
    check_extents({kernel.height, kernel.width}, "extent", 1);
    return make_as<nn::Module, nn::MaxPool2d>(
        Window2d{.kernel = kernel, .stride = kernel, .padding = {}, .dilation = {1, 1}});
}

/// Whether the axes are those of an image, height, width or both.
INTQ_INLINE bool is_of_image(const std::vector<index_t>& dims, AxisRange axes) {
    return dims.size() == 4 && axes.first >= 2;
}

/// The maximum of x along the axes: with them where is_of_image(), else (N, extents before, 1, extents behind).
INTQ_INLINE graph::Node& make_maximum(NodeImport& node, graph::Node& x, const std::vector<index_t>& dims,
                                      AxisRange axes) {
    if (is_of_image(dims, axes)) {
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
    std::vector<index_t> dims = dims_of_sample(node, 2);
    std::vector<index_t> result = *reduced_dims(dims, reduced.axes, reduced.keepdim);
    const auto negated = [&](graph::Node& x) -> graph::Node& {
        return is_maximum ? x : node.make_function(nn::unary_function<TableFunction::neg>, {x});
    };
    graph::Node* extreme = &negated(node.value(0));
    bool has_dims = true;  // whether it has those of x, with 1 for axes that are gone
    for (const AxisRange& axes : ranges_of_axes(reduced.axes, dims)) {
        extreme = &make_maximum(node, has_dims ? *extreme : make_reshape(node, *extreme, dims), dims, axes);
        has_dims = is_of_image(dims, axes);
        std::fill(dims.begin() + static_cast<std::ptrdiff_t>(axes.first),
                  dims.begin() + static_cast<std::ptrdiff_t>(axes.last), 1);
    }
    extreme = &negated(*extreme);
    if (has_dims && reduced.keepdim) return node.set_output({.node = extreme, .dims = std::move(result)});
    call_reshape_of(node, *extreme, std::move(result), true);
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
