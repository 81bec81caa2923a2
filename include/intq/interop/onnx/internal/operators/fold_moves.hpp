// SPDX-License-Identifier: MIT
//
// Constants whose elements a node moves: Concat, Expand, Gather, GatherND, ScatterND, Slice, Transpose, Reshape,
// Flatten, Squeeze, Unsqueeze. Long because each is a short separate function. Layer: interop.
//
// PyTorch writes elements of a constant by lists of indices as GatherND and ScatterND: Swin takes its biases of
// positions and makes its masks of shifted windows so.
//
// An unknown extent is an element like others here.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_FOLD_MOVES_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_FOLD_MOVES_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/io/describe.hpp"
#include "intq/io/error.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

namespace folding {

/// A constant that is computed; zeros.
/// @throws Error for more than max_folded elements
FileTensor folded(DType dtype, std::vector<index_t> dims);

template <class T> std::span<T> elements(FileTensor& tensor) {
    return {reinterpret_cast<T*>(tensor.data.data()), static_cast<std::size_t>(tensor.size())};
}

/// Copies `count` elements; neither range is checked.
void copy_elements(const FileTensor& from, index_t at, FileTensor& to, index_t to_at, index_t count);

/// The element of a broadcast operand that belongs to element `at` of the result.
std::size_t broadcast_index(index_t at, const std::vector<index_t>& result, const std::vector<index_t>& operand);

/// The constant that a node makes of its constants by moving their elements.
FileTensor fold_concat(NodeImport& node);
FileTensor fold_expand(NodeImport& node, std::span<const std::int64_t> shape);
FileTensor fold_flatten(NodeImport& node);
FileTensor fold_gather(NodeImport& node);
FileTensor fold_reshape(NodeImport& node);
FileTensor fold_slice(NodeImport& node);
FileTensor fold_squeeze(NodeImport& node);
FileTensor fold_transpose(NodeImport& node);
FileTensor fold_unsqueeze(NodeImport& node);

/// The elements at the places that the indices name.
///
///     result[i] = data[indices[i]], for each row i of indices (…, k)
///
/// @throws Error for indices outside of the data, other shapes, and batch_dims
FileTensor fold_gather_nd(NodeImport& node);

/// The constant with other elements at the places that the indices name, in their order.
///
///     result = data, and for each row i of indices (…, k):  result[indices[i]] = updates[i]
///
/// @throws Error for indices outside of the data, other shapes, and a reduction
FileTensor fold_scatter_nd(NodeImport& node);

/// `count` of the places of an axis, from `first` on; they are not checked.
FileTensor elements_along(const FileTensor& data, std::size_t axis, index_t first, std::int64_t step, index_t count);

/// For each axis of a Transpose's output, the axis of its input.
std::vector<std::int64_t> permutation(NodeImport& node, const std::vector<index_t>& from);

/// The axis that counts the channels of a constant behind a Transpose, or behind a node that changes its shape; nothing
/// where none does.
std::optional<int> transposed_axis(NodeImport& node, int axis, const FileTensor& from, const FileTensor& to);
std::optional<int> reshaped_axis(NodeImport& node, int axis, const FileTensor& from, const FileTensor& to);

/// The extents of a value behind Unsqueeze and Squeeze.
std::vector<index_t> unsqueezed_dims(NodeImport& node, const std::vector<index_t>& from);
std::vector<index_t> squeezed_dims(NodeImport& node, const std::vector<index_t>& from);

}  // namespace folding

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstring>
#    include <numeric>
#    include <utility>

#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/read/limits.hpp"
#    include "intq/nn/float_operators/move.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

namespace folding {

using detail::max_folded;

INTQ_INLINE FileTensor folded(DType dtype, std::vector<index_t> dims) {
    check_dims("its result", dims);
    const index_t size = product_of(dims, 0, dims.size());
    if (size > max_folded)
        throw Error("its result, a constant of shape " + describe_shape(dims) + ", has more than " +
                    std::to_string(max_folded) + " elements");
    FileTensor result{.name = "", .dtype = dtype, .dims = std::move(dims), .data = {}};
    result.data.resize(static_cast<std::size_t>(size * size_of(dtype)));
    return result;
}

INTQ_INLINE void copy_elements(const FileTensor& from, index_t at, FileTensor& to, index_t to_at, index_t count) {
    const index_t unit = size_of(from.dtype);
    if (count > 0)
        std::memcpy(to.data.data() + to_at * unit, from.data.data() + at * unit,
                    static_cast<std::size_t>(count * unit));
}

INTQ_INLINE FileTensor with_dims(const FileTensor& tensor, std::vector<index_t> dims) {
    FileTensor result = tensor;
    result.dims = std::move(dims);
    return result;
}

INTQ_INLINE FileTensor fold_concat(NodeImport& node) {
    const FileTensor& first = node.constant(0, "input");
    std::vector<index_t> dims = first.dims;
    if (node.raw_attribute("axis") == nullptr) throw Error("the attribute axis is missing");
    const std::size_t axis = axis_in(node.integer("axis", 0), dims);
    dims[axis] = 0;
    for (std::size_t i = 0; i < node.input_count(); ++i) {
        const FileTensor& part = node.constant(i, "input");
        std::vector<index_t> expected = part.dims;
        if (axis < expected.size()) expected[axis] = dims[axis];
        if (expected != dims || part.dtype != first.dtype)
            throw Error("the constants of shapes " + describe_shape(first.dims) + " and " + describe_shape(part.dims) +
                        " cannot be joined along axis " + std::to_string(axis));
        if (__builtin_add_overflow(dims[axis], part.dims[axis], &dims[axis])) throw Error("its result is too large");
    }
    FileTensor result = folded(first.dtype, dims);
    const index_t outer = product_of(dims, 0, axis), step = product_of(dims, axis, dims.size());
    index_t at = 0;
    for (std::size_t i = 0; i < node.input_count(); ++i) {
        const FileTensor& part = node.constant(i, "input");
        const index_t run = product_of(part.dims, axis, dims.size());
        for (index_t o = 0; o < outer; ++o) copy_elements(part, o * run, result, o * step + at, run);
        at += run;
    }
    return result;
}

INTQ_INLINE std::size_t broadcast_index(index_t at, const std::vector<index_t>& result,
                                        const std::vector<index_t>& operand) {
    index_t index = 0, step = 1;
    for (std::size_t back = 1; back <= result.size(); ++back) {
        const index_t extent = result[result.size() - back], place = at % extent;
        at /= extent;
        if (back > operand.size()) continue;
        const index_t own = operand[operand.size() - back];
        if (own != 1) index += place * step;
        step *= own;
    }
    return static_cast<std::size_t>(index);
}

INTQ_INLINE FileTensor fold_expand(NodeImport& node, std::span<const std::int64_t> shape) {
    const FileTensor& data = node.constant(0, "input");
    FileTensor result =
        folded(data.dtype, *broadcast_dims(data.dims, std::vector<index_t>(shape.begin(), shape.end())));
    for (index_t i = 0; i < result.size(); ++i)
        copy_elements(data, static_cast<index_t>(broadcast_index(i, result.dims, data.dims)), result, i, 1);
    return result;
}

INTQ_INLINE FileTensor fold_gather(NodeImport& node) {
    node.expect_inputs(2, 2);
    const FileTensor &data = node.constant(0, "data"), &indices = node.constant(1, "indices");
    const std::size_t axis = axis_in(node.integer("axis", 0), data.dims);
    const index_t extent = data.dims[axis], inner = product_of(data.dims, axis + 1, data.dims.size());
    std::vector<index_t> dims(data.dims.begin(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis));
    dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
    dims.insert(dims.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.dims.end());
    FileTensor result = folded(data.dtype, dims);
    const auto at = indices.as<std::int64_t>();
    const index_t outer = product_of(data.dims, 0, axis);
    index_t to = 0;
    for (index_t o = 0; o < outer; ++o)
        for (const std::int64_t given : at) {
            if (given < -extent || given >= extent)
                throw Error("the index " + std::to_string(given) + " does not exist on axis " + std::to_string(axis) +
                            " of " + describe_shape(data.dims));
            copy_elements(data, (o * extent + (given < 0 ? given + extent : given)) * inner, result, to, inner);
            to += inner;
        }
    return result;
}

/// The axes of Squeeze and Unsqueeze: an attribute up to opset 12, an input from 13 on.
INTQ_INLINE std::vector<std::int64_t> squeezed_axes(NodeImport& node) {
    const bool as_input = node.opset() >= 13;
    node.expect_inputs(1, as_input ? 2 : 1);
    if (!as_input) return node.integers("axes", {});
    if (!node.has_input(1)) return {};
    const auto given = node.constant(1, "axes").as<std::int64_t>();
    return {given.begin(), given.end()};
}

INTQ_INLINE std::vector<index_t> unsqueezed_dims(NodeImport& node, const std::vector<index_t>& from) {
    const std::vector<std::int64_t> axes = squeezed_axes(node);
    if (axes.empty() || from.size() + axes.size() > detail::max_dims)
        throw Error("there are " + std::to_string(axes.size()) + " axes to add to " + describe_shape(from));
    std::vector<index_t> dims(from.size() + axes.size(), 0);
    for (const std::int64_t axis : axes)
        if (std::exchange(dims[axis_in(axis, dims)], 1) == 1)
            throw Error("the axes " + describe_shape(axes) + " name one twice");
    std::size_t next = 0;
    for (index_t& extent : dims)
        if (extent == 0) extent = from[next++];
    return dims;
}

INTQ_INLINE std::vector<index_t> squeezed_dims(NodeImport& node, const std::vector<index_t>& from) {
    const std::vector<std::int64_t> axes = squeezed_axes(node);
    std::vector<bool> gone(from.size(), false);
    for (std::size_t i = 0; i < from.size() && axes.empty(); ++i) {
        if (from[i] < 0) throw Error("it has no axes, and the extents of " + describe_shape(from) + " are not known");
        gone[i] = from[i] == 1;
    }
    for (const std::int64_t axis : axes) {
        const std::size_t at = axis_in(axis, from);
        if (from[at] >= 0 && from[at] != 1)
            throw Error("axis " + std::to_string(axis) + " of " + describe_shape(from) + " is not 1");
        gone[at] = true;
    }
    std::vector<index_t> dims;
    for (std::size_t i = 0; i < from.size(); ++i)
        if (!gone[i]) dims.push_back(from[i]);
    return dims;
}

INTQ_INLINE FileTensor fold_unsqueeze(NodeImport& node) {
    const FileTensor& data = node.constant(0, "data");
    return with_dims(data, unsqueezed_dims(node, data.dims));
}

INTQ_INLINE FileTensor fold_squeeze(NodeImport& node) {
    const FileTensor& data = node.constant(0, "data");
    return with_dims(data, squeezed_dims(node, data.dims));
}

INTQ_INLINE FileTensor fold_reshape(NodeImport& node) {
    node.expect_inputs(2, 2);
    const FileTensor& data = node.constant(0, "data");
    const auto target = node.constant(1, "shape").as<std::int64_t>();
    const bool zero_is_zero = node.opset() >= 14 && node.integer("allowzero", 0) != 0;
    std::vector<index_t> dims(target.begin(), target.end());
    if (dims.size() > detail::max_dims) throw Error("the shape has " + std::to_string(dims.size()) + " axes");
    std::size_t open = dims.size();
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == 0 && !zero_is_zero && i < data.dims.size()) dims[i] = data.dims[i];
        if (dims[i] == -1 && open == dims.size()) {
            open = i;
            dims[i] = 1;
        }
    }
    const bool is_good = std::all_of(dims.begin(), dims.end(), [](index_t extent) { return extent >= 0; });
    const index_t size = is_good ? product_of(dims, 0, dims.size()) : 0;
    if (is_good && open < dims.size() && size > 0) dims[open] = data.size() / size;
    if (!is_good || product_of(dims, 0, dims.size()) != data.size())
        throw Error("a constant of shape " + describe_shape(data.dims) + " cannot take the shape " +
                    describe_shape(target));
    return with_dims(data, std::move(dims));
}

INTQ_INLINE FileTensor fold_flatten(NodeImport& node) {
    node.expect_inputs(1, 1);
    const FileTensor& data = node.constant(0, "data");
    const std::int64_t given = node.integer("axis", 1);
    const auto rank = static_cast<std::int64_t>(data.dims.size());
    const std::size_t axis = given == rank ? data.dims.size() : axis_in(given, data.dims);
    return with_dims(data, {product_of(data.dims, 0, axis), product_of(data.dims, axis, data.dims.size())});
}

INTQ_INLINE std::vector<std::int64_t> permutation(NodeImport& node, const std::vector<index_t>& from) {
    std::vector<std::int64_t> turned(from.size());
    std::iota(turned.rbegin(), turned.rend(), 0);
    const auto axes = node.integers("perm", turned);
    std::vector<std::int64_t> sorted = axes;
    std::sort(sorted.begin(), sorted.end());
    if (!std::equal(sorted.begin(), sorted.end(), turned.rbegin(), turned.rend()))
        throw Error("perm " + describe_shape(axes) + " does not name each axis of " + describe_shape(from) + " once");
    return axes;
}

INTQ_INLINE FileTensor fold_transpose(NodeImport& node) {
    node.expect_inputs(1, 1);
    const FileTensor& data = node.constant(0, "data");
    FileTensor result = data;
    const std::size_t rank = data.dims.size();
    std::vector<index_t> steps(rank), place(rank, 0);  // steps in the input along the axes of the result
    const std::vector<std::int64_t> axes = permutation(node, data.dims);
    for (std::size_t k = 0; k < rank; ++k) {
        const auto axis = static_cast<std::size_t>(axes[k]);
        result.dims[k] = data.dims[axis];
        steps[k] = product_of(data.dims, axis + 1, rank);
    }
    index_t from = 0;
    for (index_t to = 0; to < result.size(); ++to) {
        copy_elements(data, from, result, to, 1);
        for (std::size_t k = rank; k-- > 0;) {
            from += steps[k];
            if (++place[k] < result.dims[k]) break;
            from -= steps[k] * std::exchange(place[k], 0);
        }
    }
    return result;
}

INTQ_INLINE std::optional<int> transposed_axis(NodeImport& node, int axis, const FileTensor& from, const FileTensor&) {
    const std::vector<std::int64_t> axes = permutation(node, from.dims);
    return static_cast<int>(std::find(axes.begin(), axes.end(), axis) - axes.begin());
}

INTQ_INLINE std::optional<int> reshaped_axis(NodeImport&, int axis, const FileTensor& from, const FileTensor& to) {
    const auto at = static_cast<std::size_t>(axis);
    const index_t before = product_of(from.dims, 0, at);
    for (std::size_t k = 0; k < to.dims.size(); ++k)
        if (to.dims[k] == from.dims[at] && product_of(to.dims, 0, k) == before) return static_cast<int>(k);
    return std::nullopt;
}

INTQ_INLINE FileTensor elements_along(const FileTensor& data, std::size_t axis, index_t first, std::int64_t step,
                                      index_t count) {
    std::vector<index_t> dims = data.dims;
    dims[axis] = count;
    FileTensor result = folded(data.dtype, dims);
    const index_t outer = product_of(dims, 0, axis), inner = product_of(dims, axis + 1, dims.size());
    for (index_t o = 0; o < outer; ++o)
        for (index_t i = 0; i < count; ++i)
            copy_elements(data, (o * data.dims[axis] + first + i * step) * inner, result, (o * count + i) * inner,
                          inner);
    return result;
}

INTQ_INLINE FileTensor fold_slice(NodeImport& node) {
    node.expect_inputs(3, 5);
    const FileTensor& data = node.constant(0, "data");
    const auto one = [&](std::size_t i, const char* what, std::int64_t otherwise) {
        if (!node.has_input(i)) return otherwise;
        const auto values = node.constant(i, what).as<std::int64_t>();
        if (values.size() != 1)
            throw Error(std::string("constants are sliced along one axis, given ") + std::to_string(values.size()) +
                        " " + what);
        return values[0];
    };
    const std::size_t axis = axis_in(one(3, "axes", 0), data.dims);
    const std::int64_t step = one(4, "steps", 1);
    if (step == 0) throw Error("the step is 0");
    const nn::float_operators::SliceRange range =
        nn::float_operators::slice_range(data.dims[axis], one(1, "starts", 0), one(2, "ends", 0), step);
    return elements_along(data, axis, range.first, step, range.count);
}

/// Where the blocks of the data lie that rows of indices name.
struct Places {
    std::vector<index_t> first;  // elements of each block, from the front of the data
    std::vector<index_t> dims;   // of all blocks
    index_t block = 0;           // elements
};
INTQ_INLINE Places places_in(const FileTensor& data, const FileTensor& indices) {
    const auto given = indices.as<std::int64_t>();
    const std::size_t depth = indices.dims.empty() ? 0 : static_cast<std::size_t>(indices.dims.back());
    if (depth < 1 || depth > data.dims.size())
        throw Error("the indices have shape " + describe_shape(indices.dims) + " for data of shape " +
                    describe_shape(data.dims));
    Places places{.first = {},
                  .dims = {indices.dims.begin(), indices.dims.end() - 1},
                  .block = product_of(data.dims, depth, data.dims.size())};
    places.dims.insert(places.dims.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(depth), data.dims.end());
    for (std::size_t row = 0; row < given.size() / depth; ++row) {
        index_t place = 0;
        for (std::size_t axis = 0; axis < depth; ++axis) {
            const std::int64_t index = given[row * depth + axis];
            const index_t extent = data.dims[axis];
            if (index < -extent || index >= extent)
                throw Error("the index " + std::to_string(index) + " lies outside of axis " + std::to_string(axis) +
                            " of shape " + describe_shape(data.dims));
            place = place * extent + (index < 0 ? index + extent : index);
        }
        places.first.push_back(place * places.block);
    }
    return places;
}

INTQ_INLINE FileTensor fold_gather_nd(NodeImport& node) {
    node.expect_inputs(2, 2);
    if (node.integer("batch_dims", 0) != 0) throw Error("batch_dims of constants are not supported");
    const FileTensor& data = node.constant(0, "data");
    const Places places = places_in(data, node.constant(1, "indices"));
    FileTensor result = folded(data.dtype, places.dims);
    for (std::size_t i = 0; i < places.first.size(); ++i)
        copy_elements(data, places.first[i], result, static_cast<index_t>(i) * places.block, places.block);
    return result;
}

INTQ_INLINE FileTensor fold_scatter_nd(NodeImport& node) {
    node.expect_inputs(3, 3);
    if (const std::string reduction = node.text("reduction", "none"); reduction != "none")
        throw Error("the reduction " + in_quotes(reduction) + " of constants is not supported; expected none");
    const FileTensor &data = node.constant(0, "data"), &updates = node.constant(2, "updates");
    const Places places = places_in(data, node.constant(1, "indices"));
    updates.check_dtype(data.dtype);
    if (updates.dims != places.dims)
        throw Error("the updates have shape " + describe_shape(updates.dims) + ", expected " +
                    describe_shape(places.dims));
    FileTensor result = data;
    for (std::size_t i = 0; i < places.first.size(); ++i)
        copy_elements(updates, static_cast<index_t>(i) * places.block, result, places.first[i], places.block);
    return result;
}

}  // namespace folding

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_FOLD_MOVES_HPP
