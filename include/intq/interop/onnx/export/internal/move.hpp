// SPDX-License-Identifier: MIT
//
// How operators that move values are written: Concat, Transpose, Slice, Split, Pad, Reshape, Flatten; and Identity,
// which leaves them. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_EXPORT_INTERNAL_MOVE_HPP
#define INTQ_INTEROP_ONNX_EXPORT_INTERNAL_MOVE_HPP

#include "intq/core/abi.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeExport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::exports {
inline namespace INTQ_HOSTED_ABI {

void cat(NodeExport& node);
void flatten(NodeExport& node);
/// To the shape of the output; the number of samples stays open.
void reshape(NodeExport& node);
void permute(NodeExport& node);
void expand(NodeExport& node);
/// A Gather of rows.
void embedding(NodeExport& node);
/// ScatterElements, whose indices are repeated to the shape of the source.
void index_copy(NodeExport& node);
void transpose(NodeExport& node);
void slice(NodeExport& node);
/// split and chunk.
void split(NodeExport& node);
/// One output of a Split, which is a value already.
void getitem(NodeExport& node);
void pad(NodeExport& node);
/// Also a dropout, which does nothing in evaluation.
/// A stub passes its value on.
void stub(NodeExport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::exports

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_export)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <limits>
#    include <numeric>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/interop/onnx/export/internal/node_export.hpp"
#    include "intq/nn/float_operators/move.hpp"
#    include "intq/nn/layers/embedding.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/model/call.hpp"

namespace intq::interop::onnx::exports {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void cat(NodeExport& node) {
    std::vector<std::string> inputs;
    for (const ExportArgument& part : node.argument(0).list) {
        if (part.values.empty()) throw node.error("a part is a constant, expected a tensor");
        inputs.push_back(part.values.front());
    }
    const std::vector<nn::Value> values = node.constants();
    std::int64_t axis = nn::Arguments(values).integer(1, 0);
    if (axis < 0) axis += node.output_shape().rank;
    node.set_result(node.add("Concat", std::move(inputs), {integer_attribute("axis", axis)}));
}

INTQ_INLINE void write_flatten(NodeExport& node) {
    node.set_result(node.add("Flatten", {node.value()}, {integer_attribute("axis", 1)}));
}

/// The extents that a call passes to a reshape, one by one.
INTQ_INLINE std::vector<ExportArgument> target_of(const NodeExport& node) {
    const std::vector<ExportArgument>& arguments = node.call().arguments;
    if (arguments.size() != 2) return {arguments.begin() + 1, arguments.end()};
    if (!arguments[1].constant.is_tuple()) return arguments[1].is_list ? arguments[1].list : std::vector{arguments[1]};
    std::vector<ExportArgument> target;
    for (const nn::Value& extent : arguments[1].constant.tuple()) {
        target.push_back({.constant = extent, .follows_shape = arguments[1].follows_shape});
        target.back().follows_samples = arguments[1].follows_samples && target.size() == 1;
    }
    return target;
}

/// Fills a target where extents stay open: 0 copies an extent of the input, and -1 is the remainder.
///
/// @param target  the target of the call
/// @param dims    its extents in the example
INTQ_INLINE void leave_open(const NodeExport& node, const std::vector<ExportArgument>& target,
                            std::vector<std::int64_t>& dims) {
    const OpenExtents& open = node.open();
    const auto is_left = [&](std::size_t i) { return !target[i].follows_shape && target[i].constant.integer() == -1; };
    std::size_t left = 0;
    while (left < target.size() && !is_left(left)) ++left;
    const bool has_left = left < target.size();
    // A 1 beside a -1 in the call is a separate axis, also where the example is one sample.
    const bool is_one = has_left && left != 0 && !target[0].follows_shape && dims[0] == 1;
    bool keeps_samples = node.shape().rank > 0 && node.shape()[0] == dims[0] && !(open.samples && is_one);
    if (open.others && left == 0) keeps_samples = false;
    if (keeps_samples) dims[0] = 0;
    std::size_t computed = dims.size();
    for (std::size_t i = keeps_samples ? 1 : 0; i < dims.size(); ++i) {
        if (!node.is_open(target[i])) continue;
        const bool copies = target[i].copied_axis == static_cast<int>(i);
        if (!copies && std::exchange(computed, i) != dims.size())
            throw node.error("two extents of its target are computed from what dynamic_axes leaves open");
        dims[i] = copies ? 0 : -1;
    }
    if (!has_left || computed < dims.size() || (left == 0 && keeps_samples)) return;
    if (open.others || (open.samples && !keeps_samples)) dims[left] = -1;
}

INTQ_INLINE void write_target(NodeExport& node, const std::vector<std::int64_t>& dims) {
    if (node.shape().rank > 1 && dims.size() == 2 && dims[0] == 0) return write_flatten(node);
    const std::string shape = node.integers("shape", dims);
    node.set_result(node.add("Reshape", {node.value(), shape}));
}

INTQ_INLINE std::vector<std::int64_t> extents_of(const Shape& shape) {
    return {shape.extents.begin(), shape.extents.begin() + shape.rank};
}

INTQ_INLINE void reshape(NodeExport& node) {
    std::vector<std::int64_t> dims = extents_of(node.output_shape());
    if (!dims.empty()) leave_open(node, target_of(node), dims);
    write_target(node, dims);
}

INTQ_INLINE void flatten(NodeExport& node) {
    const auto* module = node.module_if<nn::Flatten>();
    const std::vector<nn::Value> values = node.constants();
    const nn::Arguments arguments(values);
    const std::int64_t start = module != nullptr ? module->start_axis() : arguments.integer(1, 0);
    const std::int64_t end = module != nullptr ? module->end_axis() : arguments.integer(2, -1);
    const std::int64_t rank = node.shape().rank;
    if (rank > 1 && node.axis(start) == 1 && node.axis(end) == rank - 1) return write_flatten(node);
    std::vector<std::int64_t> dims = extents_of(node.output_shape());
    if (rank > 0 && node.shape()[0] == dims[0])
        dims[0] = 0;  // copied
    else if (rank > 0 && node.open().samples)
        dims[0] = -1;  // joined with others
    if (rank > 0 && node.open().others && dims[0] == 0) {
        const auto first = dims.begin() + node.axis(start);
        std::fill(dims.begin(), first, 0);
        *first = -1;
    }
    write_target(node, dims);
}

INTQ_INLINE void write_transpose(NodeExport& node, std::vector<std::int64_t> axes) {
    node.set_result(node.add("Transpose", {node.value()}, {integers_attribute("perm", std::move(axes))}));
}

INTQ_INLINE void permute(NodeExport& node) {
    const std::vector<nn::Value> values = node.constants();
    std::vector<std::int64_t> axes;
    for (const index_t axis : nn::integers_after(nn::Arguments(values), 1)) axes.push_back(node.axis(axis));
    write_transpose(node, std::move(axes));
}

INTQ_INLINE void transpose(NodeExport& node) {
    const std::vector<nn::Value> values = node.constants();
    const nn::Arguments arguments(values);
    std::vector<std::int64_t> axes(static_cast<std::size_t>(node.shape().rank));
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
    std::swap(axes.at(static_cast<std::size_t>(node.axis(arguments.integer(1, 0)))),
              axes.at(static_cast<std::size_t>(node.axis(arguments.integer(2, 0)))));
    write_transpose(node, std::move(axes));
}

INTQ_INLINE void slice(NodeExport& node) {
    const std::vector<nn::Value> values = node.constants();
    const nn::Arguments arguments(values);
    const std::int64_t step = arguments.integer(4, 1);
    const std::int64_t open =
        step < 0 ? (std::numeric_limits<std::int64_t>::min)() : (std::numeric_limits<std::int64_t>::max)();
    const std::string starts = node.integers("starts", {arguments.integer(2, 0)}),
                      ends = node.integers("ends", {arguments.has(3) ? arguments[3].integer() : open}),
                      axes = node.integers("axes", {node.axis(arguments.integer(1, 0))}),
                      steps = node.integers("steps", {step});
    node.set_result(node.add("Slice", {node.value(), starts, ends, axes, steps}));
}

INTQ_INLINE void expand(NodeExport& node) {
    std::vector<std::int64_t> dims = extents_of(node.output_shape());
    const std::vector<ExportArgument> target = target_of(node);
    const std::size_t added = dims.size() - static_cast<std::size_t>(node.shape().rank);
    std::string samples;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        const int own = static_cast<int>(i) - static_cast<int>(added);
        const bool is_one_left = !target[i].follows_shape && target[i].constant.integer() == -1;
        const bool is_equal = own >= 0 && !node.is_open(target[i]) && dims[i] == node.shape()[own];
        const bool stays = is_one_left || is_equal || (own >= 0 && target[i].copied_axis == own);
        if (stays) dims[i] = 1;  // an extent of the input stays, whatever it is
        if (stays || !node.is_open(target[i])) continue;
        if (i != 0 || target[i].extent_of.empty())
            throw node.error("an extent of its target is computed from what dynamic_axes leaves open");
        samples = target[i].extent_of;
    }
    if (samples.empty()) return node.set_result(node.add("Expand", {node.value(), node.integers("shape", dims)}));
    const std::string all = node.add_part("extents", "Shape", {samples});
    const std::string first =
        node.add_part("samples", "Slice", {all, node.integers("from", {0}), node.integers("to", {1})});
    const std::string rest = node.integers("rest", {dims.begin() + 1, dims.end()});
    const std::string shape = node.add_part("shape", "Concat", {first, rest}, {integer_attribute("axis", 0)});
    node.set_result(node.add("Expand", {node.value(), shape}));
}

INTQ_INLINE void embedding(NodeExport& node) {
    const std::string table = node.parameter("weight", node.module<nn::Embedding>().weight());
    node.set_result(node.add("Gather", {table, node.value()}));
}

INTQ_INLINE void index_copy(NodeExport& node) {
    const std::int64_t axis = node.axis(node.argument(1).constant.integer());
    const Shape& index = node.shape(2);
    std::vector<std::int64_t> dims(static_cast<std::size_t>(node.shape().rank), 1);
    if (index.rank == 2) dims[0] = 0;  // copied
    dims[static_cast<std::size_t>(axis)] = index[index.rank - 1];
    const std::string rows = node.add_part("rows", "Reshape", {node.value(2), node.integers("along", dims)});
    const std::string shape = node.add_part("extents", "Shape", {node.value(3)});
    const std::string indices = node.add_part("indices", "Expand", {rows, shape});
    node.set_result(
        node.add(node.op_type(), {node.value(), indices, node.value(3)}, {integer_attribute("axis", axis)}));
}

INTQ_INLINE void split(NodeExport& node) {
    const std::vector<nn::Value> values = node.constants();
    const nn::Arguments arguments(values);
    const std::int64_t axis = node.axis(arguments.integer(2, 0));
    const index_t extent = node.shape()[static_cast<int>(axis)];
    std::vector<index_t> sizes;
    if (arguments[1].is_tuple())
        sizes = nn::integers_of(arguments[1]);
    else if (node.call().op == "chunk")
        sizes =
            nn::float_operators::piece_sizes(extent, nn::float_operators::chunk_size(extent, arguments[1].integer()));
    else
        sizes = nn::float_operators::piece_sizes(extent, arguments[1].integer());
    std::vector<std::string> inputs{node.value()};
    std::vector<Attribute> attributes{integer_attribute("axis", axis)};
    const std::size_t count = sizes.size();
    if (node.opset() < 13)
        attributes.push_back(integers_attribute("split", std::move(sizes)));
    else
        inputs.push_back(node.integers("split", sizes));
    node.set_results(node.add_tuple("Split", std::move(inputs), std::move(attributes), count));
}

INTQ_INLINE void getitem(NodeExport& node) {
    const std::vector<std::string>& items = node.argument(0).values;
    const std::int64_t given = node.argument(1).constant.integer(), count = static_cast<std::int64_t>(items.size());
    const std::int64_t at = given < 0 ? given + count : given;
    if (at < 0 || at >= count) throw node.error("item " + std::to_string(given) + " does not exist");
    node.set_result(items[static_cast<std::size_t>(at)]);
}

INTQ_INLINE void pad(NodeExport& node) {
    const std::vector<nn::Value> values = node.constants();
    const nn::Arguments arguments(values);
    const auto rank = static_cast<std::size_t>(node.shape().rank);
    std::vector<std::int64_t> pads(2 * rank, 0);
    const std::vector<index_t> sides = nn::integers_of(arguments[1]);
    for (std::size_t i = 0; i < sides.size(); ++i)
        pads.at((i % 2 == 0 ? 0 : rank) + rank - 1 - i / 2) = sides[i];  // counted from the last axis
    const std::string numbers = node.integers("pads", pads);
    const PadMode mode = nn::pad_mode(arguments);
    if (mode != PadMode::constant) {
        const std::string word = mode == PadMode::reflect ? "reflect" : "edge";
        return node.set_result(node.add("Pad", {node.value(), numbers}, {{"mode", word}}));
    }
    const auto fill = static_cast<float>(arguments.optional_number(3).value_or(0.0));
    node.set_result(node.add("Pad", {node.value(), numbers, node.number("value", fill)}));
}

INTQ_INLINE void stub(NodeExport& node) { node.set_result(node.value()); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::exports

#endif  // INTQ_DEFINES(interop_onnx_export)
#endif  // INTQ_INTEROP_ONNX_EXPORT_INTERNAL_MOVE_HPP
