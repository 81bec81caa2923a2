// SPDX-License-Identifier: MIT
//
// Codes of an operand in other places, as one instruction of a program. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_MOVED_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_MOVED_HPP

#include <cstddef>
#include <cstdint>

#include "intq/core/op_kind.hpp"
#include "intq/interop/tflite/internal/nodes/operator_import.hpp"
#include "intq/interop/tflite/internal/nodes/pieces.hpp"
#include "intq/quantization/operators/moved_view.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

/// An instruction that writes a view as a tensor of these extents, which counts the samples first.
/// @return the tensor
std::int32_t add_view(OperatorImport& node, OpKind op, const quantization::MovedView& view, const Dims& dims,
                      const char* part = nullptr);

/// Writes a view of the operand as the operator's output.
/// @param dims  the output's, which the file must agree with
void set_view(OperatorImport& node, OpKind op, const quantization::MovedView& view, const Dims& dims);

/// An operand in other extents of the same elements, as it lies in memory.
quantization::MovedView view_of(OperatorImport& node, std::size_t i, const Dims& dims);

/// A part of one axis of a view; the axis is numbered as the file does. An element may repeat, with a step of 0.
/// @pre the elements exist
quantization::MovedView taken(const quantization::MovedView& view, int axis, const AxisRange& range);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <optional>

#    include "intq/core/dtype.hpp"
#    include "intq/core/layout.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/operator.hpp"
#    include "intq/program/program_builder.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

INTQ_INLINE std::int32_t add_view(OperatorImport& node, OpKind op, const quantization::MovedView& view,
                                  const Dims& dims, const char* part) {
    const auto move = view.move();
    if (!move) throw Error("its codes come from more places than one instruction moves");
    const program::LayerName name = node.layer(part);
    const kernels::ArenaTensor from = node.builder().at(view.source());
    node.builder().check_use({op, from.dtype, DType::none, from.dtype}, name);
    return node.builder().push(op, {view.source()},
                               node.builder().tensor(from.dtype, program_shape(dims), from.qparams, name),
                               node.builder().keep_params(*move), name);
}

INTQ_INLINE void set_view(OperatorImport& node, OpKind op, const quantization::MovedView& view, const Dims& dims) {
    node.require_output(dims);
    node.set(add_view(node, op, view, node.output_dims()), dims);
}

INTQ_INLINE quantization::MovedView view_of(OperatorImport& node, std::size_t i, const Dims& dims) {
    const kernels::ArenaTensor& in = node.builder().at(node.written(i));
    const std::int32_t x = in.layout == Layout::channels_last ? node.written(i) : node.x(i);
    const Shape shape = program_shape(dims);
    if (node.builder().at(x).shape.size() != shape.size())
        throw Error("a tensor of shape " + to_string(in.shape) + " cannot be read as " + describe_dims(dims));
    return {x, shape};
}

INTQ_INLINE quantization::MovedView taken(const quantization::MovedView& view, int axis, const AxisRange& range) {
    const int at = program_axis(axis, static_cast<std::size_t>(view.shape().rank));
    if (view.shape()[at] == 1) {  // repeated, where it is taken more than once
        Shape shape = view.shape();
        shape[at] = range.count;
        return view.expanded(shape);
    }
    const std::optional<quantization::MovedView> result = view.sliced(at, range.first, range.count, range.step);
    if (!result) throw Error("its codes come from more places than one instruction moves");
    return *result;
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_MOVED_HPP
