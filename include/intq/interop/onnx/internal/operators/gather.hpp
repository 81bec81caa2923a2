// SPDX-License-Identifier: MIT
//
// Gather of rows of a constant by ids that the model is given; Gather and GatherND of constant indices. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_GATHER_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_GATHER_HPP

#include "intq/graph/node.hpp"
#include "intq/interop/onnx/internal/nodes/position_value.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// A call of the nn::Embedding of constant 0, which is a table, or of the rows of it that ids choose which were
/// changed: row i is row clamp(i + offset, low, high) of constant 0.
///
/// @throws Error for a change after which id 0 has no row
graph::Node& make_rows(NodeImport& node, graph::Node& ids, const PositionValue& changed = {});

/// Rows of a table by ids. Of constant indices a slice where they are equally spaced, else a cat of slices, of
/// max_index_ranges at most. A single number removes the axis.
void gather(NodeImport& node);

/// Refuses: what is a Gather of other axes than the samples has become one (nodes/samples_first.hpp).
void gather_nd(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <limits>
#    include <memory>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/move.hpp"
#    include "intq/interop/onnx/internal/operators/reshape.hpp"
#    include "intq/interop/onnx/internal/read/limits.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/embedding.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Slices of a Gather. Each reads the value once more, and a cat copies it.
inline constexpr std::size_t max_index_ranges = 8;

/// Equally spaced indices as start, stop and step of a slice.
struct IndexRange {
    std::int64_t start, stop, step;
};

/// The indices, counted from the front where the extent is known.
INTQ_INLINE std::vector<std::int64_t> checked_indices(const FileTensor& indices, index_t extent) {
    std::vector<std::int64_t> at;
    const auto take = [&](const auto values) { at.assign(values.begin(), values.end()); };
    if (indices.dtype == DType::int32)
        take(indices.as<std::int32_t>());
    else
        take(indices.as<std::int64_t>());
    for (std::int64_t& index : at) {
        if (extent >= 0 && (index < -extent || index >= extent))
            throw Error("the index " + std::to_string(index) + " does not exist on an axis of " +
                        std::to_string(extent));
        if (extent >= 0 && index < 0) index += extent;
        check_extents({index}, "index", -detail::max_window_extent);
    }
    return at;
}

INTQ_INLINE IndexRange range_to(std::int64_t first, std::int64_t last, std::int64_t step) {
    std::int64_t stop = last + (step > 0 ? 1 : -1);
    // Counted from the end, the end follows the last index; the front precedes index 0.
    if (step > 0 && stop == 0 && first < 0) stop = (std::numeric_limits<std::int64_t>::max)();
    if (step < 0 && stop == -1 && first >= 0) stop = (std::numeric_limits<std::int64_t>::min)();
    return {first, stop, step};
}

/// As few ranges as there are, each as long as it can be.
INTQ_INLINE std::vector<IndexRange> ranges_of_indices(const std::vector<std::int64_t>& at) {
    std::vector<IndexRange> ranges;
    std::size_t count = 0;
    for (std::size_t i = 0; i < at.size(); ++count) {
        std::size_t end = i + 1;
        const std::int64_t step = end < at.size() ? at[end] - at[i] : 1;
        const auto goes_on = [&] { return step != 0 && at[end] - at[end - 1] == step && (at[end] < 0) == (at[i] < 0); };
        while (end < at.size() && goes_on()) ++end;
        if (count < max_index_ranges) ranges.push_back(range_to(at[i], at[end - 1], end == i + 1 ? 1 : step));
        i = end;
    }
    if (count > max_index_ranges)
        throw Error("its indices are " + std::to_string(count) + " ranges of even steps; supported are at most " +
                    std::to_string(max_index_ranges) +
                    ". as_strided is written in this way: take its elements by reshapes, permutes and slices");
    return ranges;
}

/// The rows of a table that ids 0, 1, … choose, until one has no row. Behind an upper bound these are as many as the
/// table has.
INTQ_INLINE std::vector<std::int64_t> chosen_rows(index_t rows, const PositionValue& changed) {
    std::vector<std::int64_t> chosen;
    const auto no_row = [&] {
        return Error("its ids are changed by " + std::to_string(changed.offset) + " and bounds, so that id " +
                     std::to_string(chosen.size()) + " has no row of " + std::to_string(rows));
    };
    if (changed.offset < -rows || changed.offset > rows)
        throw Error("the number " + std::to_string(changed.offset) + " that is added to its ids is beyond its " +
                    std::to_string(rows) + " rows");
    for (std::int64_t id = 0;; ++id) {
        const std::int64_t bounded = (std::max)((std::min)(id + changed.offset, changed.high), changed.low);
        const std::int64_t row = bounded < 0 ? bounded + rows : bounded;  // from the end
        if (row < 0 || (row >= rows && id == 0)) throw no_row();
        if (row >= rows) return chosen;
        chosen.push_back(row);
        if (id + changed.offset >= changed.high && id + 1 >= rows) return chosen;
    }
}

/// Refuses a table of masks that holds no finite numbers, and says what does as well.
INTQ_INLINE void check_table_of_masks(const FileTensor& table) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const bool is_bool = table.dtype == DType::uint8;
    const bool has_infinity = table.dtype == DType::float32 && [&] {
        const auto values = table.as<float>();
        return std::find(values.begin(), values.end(), -infinity) != values.end();
    }();
    if (is_bool || has_infinity)
        throw Error(std::string("the table holds ") + (is_bool ? "bools" : "-inf") +
                    ", and its rows are numbers of the program; give it 0 and -1e9, and add its rows to the scores");
}

INTQ_INLINE graph::Node& make_rows(NodeImport& node, graph::Node& ids, const PositionValue& changed) {
    check_table_of_masks(node.constant(0, "data"));
    const FileTensor& table = node.float_constant(0, 2, "data");
    Tensor weight = to_tensor(table, Shape(table.dims[0], table.dims[1]));
    if (changed.offset != 0 || changed.is_bounded()) {
        const std::vector<std::int64_t> chosen = chosen_rows(table.dims[0], changed);
        const auto width = static_cast<std::size_t>(table.dims[1]);
        node.count_copied(chosen.size() * width * sizeof(float));
        const auto from = table.as<float>();
        weight = Tensor::zeros(Shape(static_cast<index_t>(chosen.size()), table.dims[1]));
        for (std::size_t i = 0; i < chosen.size(); ++i)
            std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(chosen[i]) * width), width,
                        weight.flat<float>().begin() + static_cast<std::ptrdiff_t>(i * width));
    }
    auto embedding = std::make_shared<nn::Embedding>(nn::EmbeddingOptions{weight.extent(0), weight.extent(1)});
    embedding->tensor("weight") = std::move(weight);
    return node.make_module(std::move(embedding), {ids});
}

INTQ_INLINE void gather_rows(NodeImport& node, graph::Node& ids) {
    const FileTensor& table = node.float_constant(0, 2, "data");
    if (axis_in(node.integer("axis", 0), table.dims) != 0)
        throw Error("it takes columns of a constant by given ids; supported are rows, of axis 0");
    Dims dims = node.any_value(1, "indices").dims;
    if (dims) dims->push_back(table.dims[1]);
    node.set_output({.node = &make_rows(node, ids), .dims = std::move(dims)});
}

INTQ_INLINE void gather(NodeImport& node) {
    node.expect_inputs(2, 2);
    if (graph::Node* const ids = node.ids(1)) return gather_rows(node, *ids);
    graph::Node& x = node.value(0, "data");
    const FileTensor& indices = node.constant(1, "indices");
    std::vector<index_t> dims = known_dims(node);
    const std::size_t axis = axis_in(node.integer("axis", 0), dims);
    if (indices.size() < 1) throw Error("it takes no element");
    node.count_copied(indices.data.size());
    const auto along = static_cast<std::int64_t>(axis);
    const std::vector<IndexRange> ranges = ranges_of_indices(checked_indices(indices, dims[axis]));
    const auto slice_of = [&](const IndexRange& range) {
        return graph::ArgumentList{x, along, range.start, range.stop, range.step};
    };
    dims[axis] = indices.size();
    const bool is_list = indices.dims.size() == 1;
    if (is_list && ranges.size() == 1)
        return node.call_function(nn::slice_function, slice_of(ranges[0]), std::move(dims));
    graph::ArgumentList slices;
    for (const IndexRange& range : ranges) slices.emplace_back(node.make_function(nn::slice_function, slice_of(range)));
    if (is_list)
        return node.call_module(make_as<nn::Module, nn::FloatFunctional>(), {std::move(slices), along}, std::move(dims),
                                "cat");
    graph::Node& taken =
        ranges.size() == 1 ? *slices[0].node() : node.make_function(nn::cat_function, {std::move(slices), along});
    const bool keeps_batch = axis > 0;
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), indices.dims.begin(), indices.dims.end());
    call_reshape_of(node, taken, std::move(dims), keeps_batch);
}

INTQ_INLINE void gather_nd(NodeImport&) {
    throw Error(
        "it is no Gather of axes behind the samples; supported are constant indices of such axes that a "
        "Transpose puts first, without batch_dims");
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_GATHER_HPP
