// SPDX-License-Identifier: MIT
//
// ONNX operators that move values: Concat, Transpose, Slice, Gather, Split, Pad; and those that leave them:
// Identity, Dropout, Constant. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_MOVE_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_MOVE_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeImport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Along any axis; a constant part becomes a buffer, which is repeated for the samples of the other parts.
void concat(NodeImport& node);
void identity(NodeImport& node);
void dropout_with_attribute(NodeImport& node);
void dropout(NodeImport& node);
void constant(NodeImport& node);

/// Real numbers to float32, and ids to int32 or int64: they stay the same.
void cast(NodeImport& node);

void transpose(NodeImport& node);

/// One slice for each axis, one after the other.
void slice(NodeImport& node);

/// Sizes are an attribute up to opset 12, an input from 13 on; without sizes the parts are equal.
void split(NodeImport& node);

/// Constant padding; ONNX writes all beginnings, then all ends, in the order of the axes.
void pad(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <limits>
#    include <numeric>
#    include <span>
#    include <string>
#    include <string_view>
#    include <utility>
#    include <variant>
#    include <vector>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/nodes/dims.hpp"
#    include "intq/interop/onnx/internal/nodes/node_import.hpp"
#    include "intq/interop/onnx/internal/operators/expand.hpp"
#    include "intq/interop/onnx/internal/operators/fold_moves.hpp"
#    include "intq/interop/onnx/internal/operators/reshape.hpp"
#    include "intq/interop/onnx/internal/read/element_types.hpp"
#    include "intq/interop/onnx/internal/read/limits.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/float_operators/move.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/move.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// Joins the known extents of one more part.
INTQ_INLINE void join_dims(Dims& joined, const Dims& part, std::size_t axis) {
    if (!joined || !part) return joined.reset();
    std::vector<index_t> result = *joined;
    bool fits = result.size() == part->size();
    for (std::size_t k = 0; fits && k < part->size(); ++k) {
        index_t& extent = result[k];
        const index_t other = (*part)[k];
        if (k == axis) {
            extent = extent < 0 || other < 0 ? -1 : extent + other;
        } else {
            fits = extent < 0 || other < 0 || extent == other;
            extent = (std::max)(extent, other);  // the one that is known
        }
    }
    if (!fits)
        throw Error("the shapes " + describe_shape(*joined) + " and " + describe_shape(*part) +
                    " differ besides axis " + std::to_string(axis));
    joined = std::move(result);
}

/// A constant part of a Concat, for any number of samples where it is the same for each: one that has one sample, or as
/// many equal ones as the file fixes. Another one is as it is.
INTQ_INLINE graph::Node& constant_part(NodeImport& node, std::size_t i, std::int64_t axis, std::size_t computed) {
    const std::size_t rank = node.dims(i)->size();
    const index_t samples = node.extent(i, 0);
    if (axis == 0 || samples < 1 || computed == node.input_count()) return node.add_buffer(i, "constant part");
    if (samples == 1) return for_samples_of(node, node.add_buffer(i, "constant part"), rank, node.value(computed));
    const FileTensor& all = node.float_constant(i, "constant part");
    const auto values = all.as<float>();
    const std::size_t size = values.size() / static_cast<std::size_t>(samples);
    const bool are_equal = std::equal(values.begin() + static_cast<std::ptrdiff_t>(size), values.end(), values.begin());
    if (!are_equal || samples != node.extent(computed, 0)) return node.add_buffer(i, "constant part");
    graph::Node& one = node.add_made_buffer(folding::elements_along(all, 0, 0, 1, 1));
    return for_samples_of(node, one, rank, node.value(computed));
}

INTQ_INLINE void concat(NodeImport& node) {
    node.expect_inputs(1, (std::numeric_limits<std::size_t>::max)());
    if (node.raw_attribute("axis") == nullptr) throw Error("the attribute axis is missing");
    std::int64_t axis = node.integer("axis", 1);
    Dims dims = node.dims(0);
    if (dims) axis = static_cast<std::int64_t>(axis_in(axis, *dims));
    if (axis < 0)
        throw Error("axis " + std::to_string(axis) + " needs the rank of the first input, which is not known");
    graph::ArgumentList parts;
    std::size_t first = 0;  // that is computed
    while (first < node.input_count() && node.is_constant(first)) ++first;
    for (std::size_t i = 0; i < node.input_count(); ++i) {
        parts.emplace_back(node.is_constant(i) ? constant_part(node, i, axis, first) : node.value(i));
        if (i > 0) join_dims(dims, node.dims(i), static_cast<std::size_t>(axis));
    }
    node.call_module(make_as<nn::Module, nn::FloatFunctional>(), {std::move(parts), axis}, std::move(dims), "cat");
}

INTQ_INLINE void identity(NodeImport& node) {
    node.expect_inputs(1, 1);
    if (node.has_elements(0)) return node.set_output(node.any_value(0, "input"));
    node.call_module(make_as<nn::Module, nn::Identity>(), {node.value(0)}, node.dims(0));
}

INTQ_INLINE void cast(NodeImport& node) {
    node.expect_inputs(1, 1);
    graph::Node* const ids = node.ids(0);
    graph::Node& x = ids != nullptr ? *ids : node.value(0);
    node.integer("saturate", 1);    // concerns float8 only
    node.text("round_mode", "up");  // the same
    constexpr std::int64_t float_code = 1, int32_code = 6, int64_code = 7;
    if (const std::int64_t to = node.integer("to", 0); node.reads_indices()) {
        if (to == float_code || to == int32_code || to == int64_code)
            return node.set_output(node.any_value(0, "input"));
        throw Error("indices are cast to " + detail::describe_element_type(to) +
                    "; expected int32, int64 or float32, of which a program gives int32");
    }
    if (const std::int64_t to = node.integer("to", 0); ids != nullptr && (to == int32_code || to == int64_code))
        return node.set_output(node.any_value(0, "input"));
    if (ids != nullptr)
        throw Error("integers that are given to the model are cast to real numbers, which is not supported");
    if (const std::int64_t code = node.integer("to", 0); code != float_code)
        throw Error("a value is cast to " + detail::describe_element_type(code) +
                    ", which is not supported; expected float32");
    node.set_output({.node = &x, .dims = node.dims(0)});
}

INTQ_INLINE void call_dropout(NodeImport& node, float ratio) {
    node.call_module(make_as<nn::Module, nn::Dropout>(static_cast<double>(ratio)), {node.value(0)}, node.dims(0));
}

INTQ_INLINE void dropout_with_attribute(NodeImport& node) {
    node.expect_inputs(1, 1);
    call_dropout(node, node.number("ratio", 0.5f));
}

INTQ_INLINE void dropout(NodeImport& node) {
    node.expect_inputs(1, 3);
    node.integer("seed", 0);
    float ratio = 0.5f;
    if (node.has_input(1)) {
        const FileTensor& given = node.float_constant(1, "ratio");
        if (given.size() != 1) throw Error("the ratio has " + std::to_string(given.size()) + " elements, expected 1");
        ratio = given.as<float>()[0];
    }
    if (node.has_input(2)) {
        const FileTensor& training = node.constant(2, "training_mode");
        if (training.size() != 1 || training.data[0] != std::byte{0}) throw Error("training_mode is not supported");
    }
    call_dropout(node, ratio);
}

template <class T> FileTensor make_constant(const std::vector<T>& values, std::vector<index_t> dims) {
    const auto bytes = std::as_bytes(std::span<const T>(values));
    return {.name = "", .dtype = dtype_of<T>, .dims = std::move(dims), .data = {bytes.begin(), bytes.end()}};
}

INTQ_INLINE void constant(NodeImport& node) {
    node.expect_inputs(0, 0);
    const auto count = [](const auto& values) { return static_cast<index_t>(values.size()); };
    if (const auto* value = node.raw_attribute("value");
        value != nullptr && std::holds_alternative<FileTensor>(*value)) {
        node.set_constant(std::get<FileTensor>(*value));
    } else if (node.raw_attribute("value_float") != nullptr) {
        node.set_constant(make_constant<float>({node.number("value_float", 0)}, {}));
    } else if (node.raw_attribute("value_int") != nullptr) {
        node.set_constant(make_constant<std::int64_t>({node.integer("value_int", 0)}, {}));
    } else if (node.raw_attribute("value_ints") != nullptr) {
        const auto values = node.integers("value_ints", {});
        node.set_constant(make_constant<std::int64_t>(values, {count(values)}));
    } else if (const auto* floats = node.raw_attribute("value_floats");
               floats != nullptr && std::holds_alternative<std::vector<float>>(*floats)) {
        const auto& values = std::get<std::vector<float>>(*floats);
        node.set_constant(make_constant<float>(values, {count(values)}));
    } else {
        throw Error("it holds none of value, value_float, value_floats, value_int and value_ints");
    }
}

/// The integers of a constant input; empty where it is left out.
INTQ_INLINE std::vector<std::int64_t> constant_integers(const NodeImport& node, std::size_t i, std::string_view what) {
    if (!node.has_input(i)) return {};
    const auto values = node.constant(i, what).as<std::int64_t>();
    return {values.begin(), values.end()};
}

/// Throws for a number that no image needs.
INTQ_INLINE void check_extents(const std::vector<std::int64_t>& values, const char* what, std::int64_t least) {
    for (const std::int64_t value : values)
        if (value < least || value > detail::max_window_extent)
            throw Error("the " + std::string(what) + " " + std::to_string(value) + " is not in [" +
                        std::to_string(least) + ", " + std::to_string(detail::max_window_extent) + "]");
}

/// The extents of an input whose rank must be known.
INTQ_INLINE const std::vector<index_t>& known_dims(const NodeImport& node) {
    if (!node.dims(0)) throw Error("the rank of the input is not known");
    return *node.dims(0);
}

INTQ_INLINE void transpose(NodeImport& node) {
    node.expect_inputs(1, 1);
    const std::vector<index_t>& dims = known_dims(node);
    const std::vector<std::int64_t> axes = folding::permutation(node, dims);
    std::vector<index_t> result;
    for (const std::int64_t axis : axes) result.push_back(dims[static_cast<std::size_t>(axis)]);
    node.call_function(nn::permute_function, {node.value(0), graph::ArgumentList(axes.begin(), axes.end())},
                       std::move(result));
    MatrixList matrices = node.any_value(0, "input").matrices;
    if (matrices.x == nullptr || axes != std::vector<std::int64_t>{0, 2, 1}) return;
    matrices.is_transposed = !matrices.is_transposed;
    node.mark_matrices(matrices);
}

INTQ_INLINE void slice(NodeImport& node) {
    node.expect_inputs(3, 5);
    std::vector<index_t> dims = known_dims(node);
    const auto starts = constant_integers(node, 1, "starts"), stops = constant_integers(node, 2, "ends");
    auto axes = constant_integers(node, 3, "axes"), steps = constant_integers(node, 4, "steps");
    if (!node.has_input(3)) {
        axes.resize(starts.size());
        std::iota(axes.begin(), axes.end(), 0);
    }
    if (!node.has_input(4)) steps.assign(starts.size(), 1);
    if (starts.empty() || stops.size() != starts.size() || axes.size() != starts.size() ||
        steps.size() != starts.size())
        throw Error("starts, ends, axes and steps have " + std::to_string(starts.size()) + ", " +
                    std::to_string(stops.size()) + ", " + std::to_string(axes.size()) + " and " +
                    std::to_string(steps.size()) + " elements");
    graph::Node* value = &node.value(0);
    for (std::size_t i = 0; i < starts.size(); ++i) {
        if (steps[i] == 0) throw Error("the step is 0");
        index_t& extent = dims[axis_in(axes[i], dims)];
        extent = extent < 0 ? -1 : nn::float_operators::slice_range(extent, starts[i], stops[i], steps[i]).count;
        const graph::ArgumentList args{*value, axes[i], starts[i], stops[i], steps[i]};
        if (i + 1 == starts.size()) return node.call_function(nn::slice_function, args, std::move(dims));
        value = &node.make_function(nn::slice_function, args);
    }
}

INTQ_INLINE void split_constant(NodeImport& node, std::size_t axis, const std::vector<std::int64_t>& sizes) {
    index_t first = 0;
    for (std::size_t i = 0; i < sizes.size(); first += sizes[i++])
        node.set_folded(folding::elements_along(node.constant(0, "input"), axis, first, 1, sizes[i]), {}, i);
}

INTQ_INLINE void split(NodeImport& node) {
    const bool as_input = node.opset() >= 13;
    node.expect_inputs(1, as_input ? 2 : 1);
    const std::vector<index_t>& dims = known_dims(node);
    const std::size_t axis = axis_in(node.integer("axis", 0), dims), parts = node.node().outputs.size();
    std::vector<std::int64_t> sizes = as_input ? constant_integers(node, 1, "split") : node.integers("split", {});
    if (node.opset() >= 18 && sizes.empty() &&
        node.integer("num_outputs", static_cast<std::int64_t>(parts)) != static_cast<std::int64_t>(parts))
        throw Error("num_outputs is not the number of its outputs, " + std::to_string(parts));
    if (parts < 1) throw Error("it has no outputs");
    if (sizes.empty()) {
        if (dims[axis] < 0) throw Error("the extent of the axis is not known");
        const auto count = static_cast<index_t>(parts);
        sizes.assign(parts, (dims[axis] + count - 1) / count);
        sizes.back() = dims[axis] - sizes.front() * (count - 1);
    }
    check_extents(sizes, "size", 0);
    const bool whole = dims[axis] < 0 || std::accumulate(sizes.begin(), sizes.end(), index_t{0}) == dims[axis];
    if (sizes.size() != parts || !whole || std::any_of(sizes.begin(), sizes.end(), [](auto size) { return size < 0; }))
        throw Error("the sizes " + describe_shape(sizes) + " of " + std::to_string(parts) +
                    " outputs do not make up axis " + std::to_string(axis) + " of " + describe_shape(dims));
    if (node.is_constant(0)) return split_constant(node, axis, sizes);
    graph::Node& pieces = node.make_function(
        nn::split_function,
        {node.value(0), graph::ArgumentList(sizes.begin(), sizes.end()), static_cast<std::int64_t>(axis)}, true);
    std::vector<Dims> results;
    for (const std::int64_t size : sizes) {
        std::vector<index_t> result = dims;
        result[axis] = size;
        results.emplace_back(std::move(result));
    }
    node.set_items(pieces, results);
}

/// Pads by pairs of numbers, from the last axis on. Axes behind the samples and before the last, such as the tokens of
/// (N, T, C) or height and width of (N, H, W, C), are padded as the last ones of a permuted value.
INTQ_INLINE void call_pad(NodeImport& node, std::vector<std::int64_t> numbers, const std::string& mode, double value,
                          std::vector<index_t> dims) {
    const std::size_t rank = dims.size();
    const bool comes_before_last =
        (rank == 3 || rank == 4) && numbers.size() == 2 * (rank - 1) && numbers[0] == 0 && numbers[1] == 0;
    graph::Node* x = &node.value(0);
    const auto last = static_cast<std::int64_t>(rank) - 1;
    if (comes_before_last) {
        numbers.erase(numbers.begin(), numbers.begin() + 2);
        graph::ArgumentList axes{std::int64_t{0}, last};
        for (std::int64_t axis = 1; axis < last; ++axis) axes.emplace_back(axis);
        x = &node.make_function(nn::permute_function, {*x, std::move(axes)});
    }
    graph::ArgumentList arguments{*x, graph::ArgumentList(numbers.begin(), numbers.end()),
                                  mode == "edge" ? "replicate" : mode};
    if (mode == "constant") arguments.emplace_back(value);
    if (!comes_before_last) return node.call_function(nn::pad_function, std::move(arguments), std::move(dims));
    graph::ArgumentList back{std::int64_t{0}};
    for (std::int64_t axis = 2; axis <= last; ++axis) back.emplace_back(axis);
    back.emplace_back(std::int64_t{1});
    graph::Node& padded = node.make_function(nn::pad_function, std::move(arguments));
    node.call_function(nn::permute_function, {padded, std::move(back)}, std::move(dims));
}

INTQ_INLINE void pad(NodeImport& node) {
    node.expect_inputs(2, 4);
    const std::string mode = node.text("mode", "constant");
    if (mode != "constant" && mode != "reflect" && mode != "edge")
        throw Error("the mode " + in_quotes(mode) + " is not supported; expected constant, reflect or edge");
    std::vector<index_t> dims = known_dims(node);
    const auto pads = constant_integers(node, 1, "pads");
    auto axes = constant_integers(node, 3, "axes");
    if (!node.has_input(3)) {
        axes.resize(dims.size());
        std::iota(axes.begin(), axes.end(), 0);
    }
    check_extents(pads, "pad", mode == "constant" ? -detail::max_window_extent : 0);
    if (pads.size() != 2 * axes.size())
        throw Error("there are " + std::to_string(pads.size()) + " pads for " + std::to_string(axes.size()) + " axes");
    double value = 0;
    if (node.has_input(2)) {
        const FileTensor& given = node.constant(2, "value");
        const auto values = given.as<float>();
        if (given.size() != 1) throw Error("the value has " + std::to_string(given.size()) + " elements, expected 1");
        value = static_cast<double>(values[0]);
        // -inf is a mask: no maximum sees it.
        if (std::isnan(value) || value == std::numeric_limits<double>::infinity())
            throw Error("the value is NaN or infinity; supported are finite ones and -infinity");
    }
    std::vector<std::int64_t> numbers(2 * dims.size(), 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const std::size_t axis = axis_in(axes[i], dims), from_the_end = dims.size() - 1 - axis;
        numbers[2 * from_the_end] = pads[i];
        numbers[2 * from_the_end + 1] = pads[axes.size() + i];
        if (mode == "reflect" && dims[axis] >= 0 && (std::max)(pads[i], pads[axes.size() + i]) >= dims[axis])
            throw Error("the mode \"reflect\" takes pads below the extent " + std::to_string(dims[axis]) + " of axis " +
                        std::to_string(axis) + ", given " + std::to_string(pads[i]) + " and " +
                        std::to_string(pads[axes.size() + i]));
        if (dims[axis] >= 0) dims[axis] += pads[i] + pads[axes.size() + i];
    }
    while (numbers.size() > 2 && numbers.back() == 0 && numbers[numbers.size() - 2] == 0)
        numbers.resize(numbers.size() - 2);
    call_pad(node, std::move(numbers), mode, value, std::move(dims));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_MOVE_HPP
