// SPDX-License-Identifier: MIT
//
// SPLIT, SPLIT_V, UNPACK and GATHER, which are slices along one axis, and PACK, which is a join along a new one. Layer:
// interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_PIECES_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_PIECES_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void split(OperatorImport& node);
void split_v(OperatorImport& node);
void pack(OperatorImport& node);
void unpack(OperatorImport& node);
void gather(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <cstddef>
#    include <cstdint>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/core/op_kind.hpp"
#    include "intq/interop/tflite/internal/nodes/pieces.hpp"
#    include "intq/interop/tflite/internal/operators/embedding.hpp"
#    include "intq/interop/tflite/internal/operators/moved.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/operators/move.hpp"
#    include "intq/quantization/operators/moved_view.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

/// An operand as (samples, before, extent, behind), around an axis of the file that does not count the samples.
struct AroundAxis {
    std::size_t axis;  // of the file's
    Dims dims;
    index_t extent() const { return dims[2]; }
};

INTQ_INLINE AroundAxis around_axis(const OperatorImport& node, std::size_t i, std::int64_t given) {
    const Dims& file = node.input(i).dims;
    const auto axis = static_cast<std::size_t>(checked_axis(given, file.size()));
    const Dims dims = node.dims(i);
    const std::size_t at = axis + static_cast<std::size_t>(node.added_axes(i));
    if (at == 0) throw Error("a program keeps axis 0, the samples, whole");
    AroundAxis around{axis, {dims[0], 1, dims[at], 1}};
    for (std::size_t k = 1; k < dims.size(); ++k)
        if (k != at) around.dims[k < at ? 1 : 3] *= dims[k];
    return around;
}

/// The one number of an operand.
INTQ_INLINE std::int64_t one_integer(const OperatorImport& node, std::size_t i) {
    const auto numbers = node.integers(i);
    if (numbers.size() != 1)
        throw Error("its input " + in_quotes(node.input(i).name) + " has " + std::to_string(numbers.size()) +
                    " elements, expected the number of an axis");
    return numbers[0];
}

/// Writes a piece of an axis as each output.
/// @param keeps_axis  whether the outputs have the axis
INTQ_INLINE void set_pieces(OperatorImport& node, std::size_t i, const AroundAxis& around,
                            const std::vector<AxisRange>& pieces, bool keeps_axis) {
    if (pieces.size() != node.output_count())
        throw Error("it makes " + std::to_string(pieces.size()) + " pieces and writes " +
                    std::to_string(node.output_count()) + " tensors");
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
        node.select_output(piece);
        node.require_same_qparams(node.input(i), node.output());
        Dims dims = node.input(i).dims;
        dims[around.axis] = pieces[piece].count;
        if (!keeps_axis) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(around.axis));
        set_view(node, OpKind::slice, taken(view_of(node, i, around.dims), 2, pieces[piece]), dims);
    }
}

INTQ_INLINE void split(OperatorImport& node) {
    node.require_inputs(2, 2);
    if (const std::int32_t pieces = node.option(fields::Split::pieces, 0);
        pieces < 1 || static_cast<std::size_t>(pieces) != node.output_count())
        throw Error("it has " + std::to_string(pieces) + " pieces and writes " + std::to_string(node.output_count()) +
                    " tensors");
    const AroundAxis around = around_axis(node, 1, one_integer(node, 0));
    set_pieces(node, 1, around, equal_pieces(around.extent(), node.output_count()), true);
}

INTQ_INLINE void split_v(OperatorImport& node) {
    node.require_inputs(3, 3);
    const AroundAxis around = around_axis(node, 0, one_integer(node, 2));
    set_pieces(node, 0, around, pieces_of_sizes(around.extent(), node.integers(1)), true);
}

INTQ_INLINE void unpack(OperatorImport& node) {
    node.require_inputs(1, 1);
    const AroundAxis around = around_axis(node, 0, node.option(fields::Unpack::axis, 0));
    if (const std::int32_t pieces = node.option(fields::Unpack::pieces, 0); pieces != around.extent())
        throw Error("it has " + std::to_string(pieces) + " pieces of an axis of " + std::to_string(around.extent()) +
                    " elements");
    set_pieces(node, 0, around, equal_pieces(around.extent(), node.output_count()), false);
}

// Each operand has the new axis with one element.
INTQ_INLINE void pack(OperatorImport& node) {
    const Dims file = node.input().dims;
    const auto axis = static_cast<std::size_t>(checked_axis(node.option(fields::Pack::axis, 0), file.size() + 1));
    Dims out = file;
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<index_t>(node.input_count()));
    node.require_output(out);
    if (const std::int32_t parts = node.option(fields::Pack::parts, 0);
        parts < 1 || static_cast<std::size_t>(parts) != node.input_count())
        throw Error("it has " + std::to_string(node.input_count()) + " inputs, and its options say " +
                    std::to_string(parts));
    const index_t samples = node.dims()[0];
    if (axis == 0 && samples != 1) throw Error("a program keeps axis 0, the samples, in its place");
    index_t before = 1, behind = 1;
    for (std::size_t k = 0; k < file.size(); ++k) (k < axis ? before : behind) *= file[k];
    std::vector<std::int32_t> parts;
    for (std::size_t i = 0; i < node.input_count(); ++i) {
        node.require_same_qparams(node.input(i), node.output());
        if (node.input(i).dims != file)
            throw Error("its inputs have the shapes " + describe_dims(file) + " and " +
                        describe_dims(node.input(i).dims) + ", expected one shape");
        parts.push_back(node.shaped(i, {samples, before / samples, 1, behind}));
    }
    node.set(quantization::add_cat(node.builder(), parts, program_axis(2, 4), node.output_qparams(), node.layer()),
             out);
}

/// Equally spaced indices are one slice; a few ranges of them are joined. Ids that are an input choose rows of a table.
INTQ_INLINE void gather(OperatorImport& node) {
    node.require_inputs(2, 2);
    node.require_same_qparams(node.input(), node.output());
    if (node.option(fields::Gather::batch_axes, 0) != 0) throw Error("batch_dims other than 0 are not supported");
    if (node.is_constant(0) && !node.is_constant(1) && node.option(fields::Gather::axis, 0) == 0)
        return look_up_rows(node, 0, 1);
    const AroundAxis around = around_axis(node, 0, node.option(fields::Gather::axis, 0));
    const auto ranges = ranges_of_indices(around.extent(), node.integers(1));
    Dims out = node.input().dims;
    const auto at = out.begin() + static_cast<std::ptrdiff_t>(around.axis);
    const Dims& places = node.input(1).dims;
    out.insert(out.erase(at), places.begin(), places.end());
    const quantization::MovedView view = view_of(node, 0, around.dims);
    if (ranges.size() == 1) return set_view(node, OpKind::slice, taken(view, 2, ranges[0]), out);
    node.require_output(out);
    std::vector<std::int32_t> parts;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        Dims part = around.dims;
        part[2] = ranges[i].count;
        const std::string name = "part" + std::to_string(i);
        parts.push_back(add_view(node, OpKind::slice, taken(view, 2, ranges[i]), part, name.c_str()));
    }
    node.set(quantization::add_cat(node.builder(), parts, program_axis(2, 4), node.output_qparams(), node.layer()),
             out);
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_PIECES_HPP
