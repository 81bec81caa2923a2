// SPDX-License-Identifier: MIT
//
// The moves of TFLite that ONNX writes as slices, joins and reshapes, in models of real numbers: SPLIT, SPLIT_V, PACK,
// UNPACK, GATHER, DEPTH_TO_SPACE, SPACE_TO_DEPTH, BROADCAST_TO, REVERSE_V2. Layer: interop (docs/design.md section 10).
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_FLOAT_MODEL_PIECES_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_FLOAT_MODEL_PIECES_HPP

#include "intq/interop/tflite/internal/float_model/float_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace float_model {

void split(FloatImport& node);
void split_v(FloatImport& node);
void pack(FloatImport& node);
void unpack(FloatImport& node);
void gather(FloatImport& node);
void depth_to_space(FloatImport& node);
void space_to_depth(FloatImport& node);
void broadcast_to(FloatImport& node);
void reverse(FloatImport& node);

}  // namespace float_model

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_float_model)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <set>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/interop/tflite/internal/nodes/pieces.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace float_model {

/// Copies of a value that are joined.
inline constexpr index_t max_copies = 64;

/// A part of an axis of a value of `extent` elements there.
INTQ_INLINE std::string sliced(FloatImport& node, const std::string& name, std::int64_t axis, index_t extent,
                               const AxisRange& range) {
    const std::int64_t end = range.first + range.count * range.step;
    return node.node("Slice", {name, node.whole("starts", {range.first}),
                               node.whole("ends", {end < 0 ? -std::int64_t{extent} - 1 : end}),
                               node.whole("axes", {axis}), node.whole("steps", {range.step})});
}

INTQ_INLINE std::string joined(FloatImport& node, std::vector<std::string> parts, std::int64_t axis) {
    return parts.size() == 1 ? parts[0] : node.node("Concat", std::move(parts), {{"axis", axis}});
}

INTQ_INLINE std::string repeated(FloatImport& node, const std::string& name, std::int64_t axis, index_t copies) {
    if (copies > max_copies)
        throw Error("it repeats an element " + std::to_string(copies) + " times, more than the " +
                    std::to_string(max_copies) + " copies that are joined");
    return joined(node, std::vector<std::string>(static_cast<std::size_t>(copies), name), axis);
}

INTQ_INLINE std::string reshaped(FloatImport& node, const std::string& name, const Dims& dims) {
    return node.node("Reshape", {name, node.whole("shape", Integers(dims.begin(), dims.end()))});
}

INTQ_INLINE std::size_t axis_of(const FloatImport& node, std::size_t i, std::int64_t axis) {
    return static_cast<std::size_t>(checked_axis(axis, node.input(i).dims.size()));
}

INTQ_INLINE std::int64_t one_integer(const FloatImport& node, std::size_t i) {
    const Integers numbers = node.integers(i);
    if (numbers.size() != 1)
        throw Error("its input " + in_quotes(node.input(i).name) + " has another number of elements than 1");
    return numbers[0];
}

INTQ_INLINE void set_pieces(FloatImport& node, std::size_t i, std::size_t axis, const std::vector<AxisRange>& pieces) {
    if (pieces.size() != node.output_count())
        throw Error("it makes " + std::to_string(pieces.size()) + " pieces and writes " +
                    std::to_string(node.output_count()) + " tensors");
    const Dims& dims = node.input(i).dims;
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
        node.select_output(piece);
        if (node.output().dims.size() == dims.size()) {
            const int at = program_axis(static_cast<int>(axis), dims.size());
            node.set(sliced(node, node.value(i), at, dims[axis], pieces[piece]));
        } else {
            const std::string part =
                sliced(node, node.in_file_order(i), static_cast<std::int64_t>(axis), dims[axis], pieces[piece]);
            node.set_from_file_order(reshaped(node, part, node.output().dims));
        }
    }
}

INTQ_INLINE void split(FloatImport& node) {
    const std::size_t axis = axis_of(node, 1, one_integer(node, 0));
    set_pieces(node, 1, axis, equal_pieces(node.input(1).dims[axis], node.output_count()));
}

INTQ_INLINE void split_v(FloatImport& node) {
    const std::size_t axis = axis_of(node, 0, one_integer(node, 2));
    set_pieces(node, 0, axis, pieces_of_sizes(node.input().dims[axis], node.integers(1)));
}

INTQ_INLINE void unpack(FloatImport& node) {
    const std::size_t axis = axis_of(node, 0, node.option(fields::Unpack::axis, 0));
    if (static_cast<std::size_t>(node.input().dims[axis]) != node.output_count())
        throw Error("it writes " + std::to_string(node.output_count()) + " tensors of an axis of " +
                    std::to_string(node.input().dims[axis]) + " elements");
    set_pieces(node, 0, axis, equal_pieces(node.input().dims[axis], node.output_count()));
}

INTQ_INLINE void pack(FloatImport& node) {
    const Dims file = node.input().dims;
    const int axis = checked_axis(node.option(fields::Pack::axis, 0), file.size() + 1);
    Dims part = file;
    part.insert(part.begin() + axis, 1);
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < node.input_count(); ++i) {
        if (node.input(i).dims != file)
            throw Error("its inputs have the shapes " + describe_dims(file) + " and " +
                        describe_dims(node.input(i).dims) + ", expected one shape");
        parts.push_back(node.input(i).is_constant() ? node.floats("operand", node.elements(i), part)
                                                    : reshaped(node, node.in_file_order(i), part));
    }
    node.set_from_file_order(joined(node, std::move(parts), axis));
}

INTQ_INLINE void gather(FloatImport& node) {
    if (node.option(fields::Gather::batch_axes, 0) != 0) throw Error("batch_dims other than 0 are not supported");
    const Dims& dims = node.input().dims;
    const std::size_t axis = axis_of(node, 0, node.option(fields::Gather::axis, 0));
    const auto at = static_cast<std::int64_t>(axis);
    const std::string x = node.in_file_order();
    std::vector<std::string> parts;
    for (const AxisRange& range : ranges_of_indices(dims[axis], node.integers(1)))
        parts.push_back(range.step != 0
                            ? sliced(node, x, at, dims[axis], range)
                            : repeated(node, sliced(node, x, at, dims[axis], {range.first, 1, 1}), at, range.count));
    std::string y = joined(node, std::move(parts), at);
    Dims out = dims;
    const Dims& places = node.input(1).dims;
    out.insert(out.erase(out.begin() + at), places.begin(), places.end());
    if (places.size() != 1) y = reshaped(node, y, out);
    node.set_from_file_order(y);
}

INTQ_INLINE Dims block_image(const FloatImport& node) {
    const Dims& dims = node.input().dims;
    if (dims.size() != 4) throw Error("its input has the shape " + describe_dims(dims) + ", expected 4 axes");
    return dims;
}

/// Six axes, of which the third and the fourth are exchanged, in another shape.
INTQ_INLINE void exchange(FloatImport& node, const Dims& dims, const Dims& out) {
    const std::string x = reshaped(node, node.in_file_order(), dims);
    node.set_from_file_order(reshaped(node, node.permute(x, {0, 1, 3, 2, 4, 5}), out));
}

INTQ_INLINE void depth_to_space(FloatImport& node) {
    const Dims in = block_image(node);
    const index_t block = block_of<fields::DepthToSpace>(node.options());
    if (block > in[3] || in[3] % (block * block) != 0)
        throw Error("blocks of " + std::to_string(block) + " cells do not divide the channels of " + describe_dims(in));
    const index_t channels = in[3] / (block * block);
    exchange(node, {in[0], in[1], in[2], block, block, channels}, {in[0], in[1] * block, in[2] * block, channels});
}

INTQ_INLINE void space_to_depth(FloatImport& node) {
    const Dims in = block_image(node);
    const index_t block = block_of<fields::SpaceToDepth>(node.options());
    if (in[1] % block != 0 || in[2] % block != 0)
        throw Error("blocks of " + std::to_string(block) + " cells do not divide an image of " + describe_dims(in));
    exchange(node, {in[0], in[1] / block, block, in[2] / block, block, in[3]},
             {in[0], in[1] / block, in[2] / block, block * block * in[3]});
}

INTQ_INLINE void broadcast_to(FloatImport& node) {
    const Dims& out = node.output().dims;
    Dims in = node.input().dims;
    if (in.size() < out.size()) in.insert(in.begin(), out.size() - in.size(), 1);
    const auto fits = [](index_t from, index_t to) { return from == to || from == 1; };
    if (!std::equal(in.begin(), in.end(), out.begin(), out.end(), fits))
        throw Error("an operand of shape " + describe_dims(node.input().dims) + " cannot be repeated to " +
                    describe_dims(out));
    std::string x = node.in_file_order();
    if (in.size() != node.input().dims.size()) x = reshaped(node, x, in);
    for (std::size_t axis = 0; axis < in.size(); ++axis)
        if (in[axis] != out[axis]) x = repeated(node, x, static_cast<std::int64_t>(axis), out[axis]);
    node.set_from_file_order(x);
}

INTQ_INLINE void reverse(FloatImport& node) {
    const Dims& dims = node.input().dims;
    std::set<std::size_t> axes;
    for (const std::int64_t axis : node.integers(1))
        if (!axes.insert(axis_of(node, 0, axis)).second) throw Error("it names an axis twice");
    std::string x = node.value();
    for (const std::size_t axis : axes)
        x = sliced(node, x, program_axis(static_cast<int>(axis), dims.size()), dims[axis],
                   {dims[axis] - 1, dims[axis], -1});
    node.set(x);
}

}  // namespace float_model

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_float_model)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_FLOAT_MODEL_PIECES_HPP
