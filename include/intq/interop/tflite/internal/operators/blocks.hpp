// SPDX-License-Identifier: MIT
//
// Other moves of codes: DEPTH_TO_SPACE, SPACE_TO_DEPTH, BROADCAST_TO and REVERSE_V2. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_BLOCKS_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_BLOCKS_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void depth_to_space(OperatorImport& node);
void space_to_depth(OperatorImport& node);
void broadcast_to(OperatorImport& node);
void reverse(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <set>
#    include <string>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/tflite/internal/nodes/pieces.hpp"
#    include "intq/interop/tflite/internal/operators/moved.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/operators/moved_view.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

/// The extents of an image of int8 codes, which alone LiteRT moves by blocks.
INTQ_INLINE Dims block_image(OperatorImport& node) {
    node.require_inputs(1, 1);
    node.require_same_qparams(node.input(), node.output());
    if (node.input().dtype != DType::int8)
        throw Error("it has codes of " + describe_type(node.input()) +
                    ", expected int8: LiteRT has it for 8 bits alone");
    const Dims in = node.dims();
    if (in.size() != 4) throw Error("its input has the shape " + describe_dims(in) + ", expected 4 axes");
    return in;
}

/// The operand as six axes, of which the third and the fourth are exchanged.
INTQ_INLINE quantization::MovedView exchanged(OperatorImport& node, const Dims& dims) {
    const int axes[] = {program_axis(0, 6), program_axis(5, 6), program_axis(1, 6),
                        program_axis(3, 6), program_axis(2, 6), program_axis(4, 6)};
    return view_of(node, 0, dims).permuted(axes);
}

/// (n, h, w, b·b·c) becomes (n, h·b, w·b, c).
INTQ_INLINE void depth_to_space(OperatorImport& node) {
    const Dims in = block_image(node);
    const index_t block = block_of<fields::DepthToSpace>(node.options());
    if (block > in[3] || in[3] % (block * block) != 0)
        throw Error("blocks of " + std::to_string(block) + " by " + std::to_string(block) +
                    " cells do not divide the " + std::to_string(in[3]) + " channels of the input");
    const index_t channels = in[3] / (block * block);
    set_view(node, OpKind::permute, exchanged(node, {in[0], in[1], in[2], block, block, channels}),
             {in[0], in[1] * block, in[2] * block, channels});
}

/// (n, h·b, w·b, c) becomes (n, h, w, b·b·c).
INTQ_INLINE void space_to_depth(OperatorImport& node) {
    const Dims in = block_image(node);
    const index_t block = block_of<fields::SpaceToDepth>(node.options());
    if (in[1] % block != 0 || in[2] % block != 0)
        throw Error("blocks of " + std::to_string(block) + " by " + std::to_string(block) +
                    " cells do not divide an image of " + std::to_string(in[1]) + " by " + std::to_string(in[2]));
    set_view(node, OpKind::permute, exchanged(node, {in[0], in[1] / block, block, in[2] / block, block, in[3]}),
             {in[0], in[1] / block, in[2] / block, block * block * in[3]});
}

/// Extents of 1 are repeated; those that the operand lacks come first.
INTQ_INLINE void broadcast_to(OperatorImport& node) {
    node.require_inputs(2, 2);
    node.require_same_qparams(node.input(), node.output());
    const Dims out = node.output_dims();
    const Dims& file = node.output().dims;
    const auto given = node.integers(1);
    if (!std::equal(given.begin(), given.end(), file.begin(), file.end()))
        throw Error("its output has the shape " + describe_dims(file) + ", and it is told another one");
    Dims in = node.input().dims;
    if (in.size() < out.size()) in.insert(in.begin(), out.size() - in.size(), 1);
    const auto fits = [](index_t from, index_t to) { return from == to || from == 1; };
    if (!std::equal(in.begin(), in.end(), out.begin(), out.end(), fits))
        throw Error("an operand of shape " + describe_dims(node.input().dims) + " cannot be repeated to " +
                    describe_dims(file));
    if (in[0] != out[0])
        throw Error("the operand " + in_quotes(node.input().name) + " of shape " + describe_dims(node.input().dims) +
                    " is repeated for each sample, which a program does not do");
    set_view(node, OpKind::reshape, view_of(node, 0, in).expanded(program_shape(out)), out);
}

/// Each axis runs from its last element to its first.
INTQ_INLINE void reverse(OperatorImport& node) {
    node.require_inputs(2, 2);
    node.require_same_qparams(node.input(), node.output());
    const Dims in = node.dims();
    const int added = node.added_axes();
    std::set<int> axes;
    for (const std::int64_t axis : node.integers(1))
        if (!axes.insert(checked_axis(axis, node.input().dims.size()) + added).second)
            throw Error("it names an axis twice");
    quantization::MovedView view = view_of(node, 0, in);
    for (const int axis : axes) {
        if (axis == 0) throw Error("a program keeps axis 0, the samples, in its order");
        const index_t extent = in[static_cast<std::size_t>(axis)];
        view = taken(view, axis, {extent - 1, extent, -1});
    }
    set_view(node, OpKind::slice, view, in);
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_BLOCKS_HPP
