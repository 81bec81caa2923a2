// SPDX-License-Identifier: MIT
//
// Operators that move codes: RESHAPE, SQUEEZE and EXPAND_DIMS, which need no instruction; TRANSPOSE, SLICE,
// STRIDED_SLICE and CONCATENATION. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_MOVE_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_MOVE_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void reshape(OperatorImport& node);
void transpose(OperatorImport& node);
void slice(OperatorImport& node);
void strided_slice(OperatorImport& node);
void concatenation(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <algorithm>
#    include <cstdint>
#    include <set>
#    include <string>
#    include <utility>

#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/interop/tflite/internal/nodes/pieces.hpp"
#    include "intq/interop/tflite/internal/operators/moved.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/operators/move.hpp"
#    include "intq/quantization/operators/moved_view.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

// The shape is the output's, which the file holds. A shape operand may leave one extent open.
INTQ_INLINE void reshape(OperatorImport& node) {
    node.require_same_qparams(node.input(), node.output());
    const Dims& out = node.output().dims;
    if (node.is_constant(1) && node.input(1).size() == static_cast<index_t>(out.size())) {
        const auto given = node.integers(1);
        for (std::size_t axis = 0; axis < out.size() && given.size() > 1; ++axis)
            if (given[axis] >= 0 && given[axis] != out[axis])
                throw Error("in the file its output has the shape " + describe_dims(out) +
                            ", but it produces another one");
    }
    node.set(node.written(0), node.output_dims());
}

INTQ_INLINE void transpose(OperatorImport& node) {
    node.require_inputs(2, 2);
    node.require_same_qparams(node.input(), node.output());
    const Dims dims = node.dims();
    const auto order = node.integers(1);
    const int added = node.added_axes(), rank = static_cast<int>(dims.size());
    if (static_cast<int>(order.size()) + added != rank)
        throw Error("it orders " + std::to_string(order.size()) + " axes of " + std::to_string(rank - added));
    Dims out;
    std::vector<int> axes(dims.size(), 0);
    std::vector<bool> seen(dims.size(), false);
    for (int axis = 0; axis < rank; ++axis) {
        const int from =
            axis < added ? axis : checked_axis(order[static_cast<std::size_t>(axis - added)], order.size()) + added;
        if (seen[static_cast<std::size_t>(from)]) throw Error("it names an axis twice");
        seen[static_cast<std::size_t>(from)] = true;
        out.push_back(dims[static_cast<std::size_t>(from)]);
        axes[static_cast<std::size_t>(program_axis(axis, dims.size()))] = program_axis(from, dims.size());
    }
    if (axes[0] != 0) throw Error("a program keeps axis 0, the samples, in its place");
    const std::int32_t x = node.x();
    set_view(node, OpKind::permute, quantization::MovedView(x, node.builder().at(x).shape).permuted(axes), out);
}

/// @param ranges  of the axes of dims()
/// @param gone    axes of which one element is taken, and which the output does not have
INTQ_INLINE void take_ranges(OperatorImport& node, const std::vector<AxisRange>& ranges,
                             const std::set<std::size_t>& gone = {}) {
    const Dims dims = node.dims();
    const std::int32_t x = node.x();
    quantization::MovedView view(x, node.builder().at(x).shape);
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        const AxisRange& range = ranges[axis];
        if (range.count < 1) throw Error("nothing is left of axis " + std::to_string(axis));
        if (axis == 0) {
            if (range.count != dims[0] || range.step != 1) throw Error("a program keeps axis 0, the samples, whole");
            continue;
        }
        const auto taken =
            view.sliced(program_axis(static_cast<int>(axis), dims.size()), range.first, range.count, range.step);
        if (!taken) throw Error("its codes come from more places than one instruction moves");
        view = *taken;
    }
    Dims out;
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
        if (gone.count(axis) == 0) out.push_back(ranges[axis].count);
    set_view(node, OpKind::slice, view, out);
}

INTQ_INLINE void slice(OperatorImport& node) {
    node.require_inputs(3, 3);
    node.require_same_qparams(node.input(), node.output());
    const Dims dims = node.dims();
    const auto begin = node.integers(1), size = node.integers(2);
    const auto added = static_cast<std::size_t>(node.added_axes());
    if (begin.size() + added != dims.size() || size.size() != begin.size())
        throw Error("it has " + std::to_string(begin.size()) + " begins and " + std::to_string(size.size()) +
                    " sizes for " + std::to_string(dims.size() - added) + " axes");
    std::vector<AxisRange> ranges(dims.size());
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        const std::int64_t first = axis < added ? 0 : begin[axis - added];
        const std::int64_t count = axis < added ? dims[axis] : size[axis - added];
        if (first < 0 || first > dims[axis] || count > dims[axis] - first || count < -1)
            throw Error("of axis " + std::to_string(axis) + " with " + std::to_string(dims[axis]) +
                        " elements it takes " + std::to_string(count) + " from " + std::to_string(first) + " on");
        ranges[axis] = {static_cast<index_t>(first), count < 0 ? dims[axis] - static_cast<index_t>(first) : count, 1};
    }
    take_ranges(node, ranges);
}

/// One entry of begin, end and strides, for an axis of `extent`.
INTQ_INLINE AxisRange strided_range(index_t extent, std::int64_t begin, std::int64_t end, std::int64_t step,
                                    bool from_begin, bool to_end, bool is_one) {
    if (step == 0 || step > extent || step < -extent) step = step < 0 ? -extent : step > 0 ? extent : 0;
    if (step == 0) throw Error("a stride of 0");
    const auto counted = [&](std::int64_t value) { return value < 0 ? value + extent : value; };
    const std::int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? extent : extent - 1;
    const std::int64_t first =
        from_begin ? (step > 0 ? 0 : extent - 1) : std::clamp<std::int64_t>(counted(begin), lowest, highest);
    if (is_one) {
        if (first < 0 || first >= extent)
            throw Error("there is no element " + std::to_string(begin) + " among " + std::to_string(extent));
        return {static_cast<index_t>(first), 1, 1};
    }
    const std::int64_t last =
        to_end ? (step > 0 ? extent : -1) : std::clamp<std::int64_t>(counted(end), lowest, highest);
    const std::int64_t span = step > 0 ? last - first : first - last, stride = step > 0 ? step : -step;
    const std::int64_t count = span > 0 ? (span + stride - 1) / stride : 0;
    return {static_cast<index_t>(first), static_cast<index_t>(count), static_cast<index_t>(count > 1 ? step : 1)};
}

INTQ_INLINE void strided_slice(OperatorImport& node) {
    using Options = fields::StridedSlice;
    node.require_inputs(4, 4);
    node.require_same_qparams(node.input(), node.output());
    if (node.options().flag(Options::is_offset)) throw Error("an end that is counted from the begin is not supported");
    if (node.option(Options::new_axis_mask, 0) != 0) throw Error("new axes are not supported");
    const Dims dims = node.dims();
    const auto begin = node.integers(1), end = node.integers(2), strides = node.integers(3);
    const auto added = static_cast<std::size_t>(node.added_axes());
    const std::size_t rank = dims.size() - added;
    const int ellipsis = node.option(Options::ellipsis_mask, 0);
    if ((ellipsis & (ellipsis - 1)) != 0) throw Error("it has more than one ellipsis");
    if (begin.size() != end.size() || begin.size() != strides.size() || begin.size() > rank + (ellipsis != 0 ? 1 : 0))
        throw Error("its begin, end and strides have " + std::to_string(begin.size()) + ", " +
                    std::to_string(end.size()) + " and " + std::to_string(strides.size()) + " elements for " +
                    std::to_string(rank) + " axes");
    std::vector<AxisRange> ranges(dims.size());
    for (std::size_t axis = 0; axis < dims.size(); ++axis) ranges[axis] = {0, dims[axis], 1};
    std::set<std::size_t> gone;
    std::size_t axis = added;
    for (std::size_t i = 0; i < begin.size() && axis < dims.size(); ++i) {
        const auto has_bit = [&](int field) { return (node.option(field, 0) >> i & 1) != 0; };
        if (has_bit(Options::ellipsis_mask)) {
            axis = dims.size() - (begin.size() - 1 - i);
            continue;
        }
        ranges[axis] = strided_range(dims[axis], begin[i], end[i], strides[i], has_bit(Options::begin_mask),
                                     has_bit(Options::end_mask), has_bit(Options::shrink_mask));
        if (has_bit(Options::shrink_mask)) gone.insert(axis);
        ++axis;
    }
    take_ranges(node, ranges, gone);
}

INTQ_INLINE void concatenation(OperatorImport& node) {
    using Options = fields::Concatenation;
    if (node.activation(Options::activation) != FusedActivation::none)
        throw Error("a fused activation after a concatenation is not supported");
    const std::size_t rank = node.output_dims().size();
    std::vector<std::int32_t> inputs;
    for (std::size_t i = 0; i < node.input_count(); ++i) {
        node.require_same_qparams(node.input(i), node.output());
        if (node.dims(i).size() != rank) throw Error("its inputs have different numbers of axes");
        inputs.push_back(node.x(i));
    }
    if (inputs.empty()) throw Error("it has no inputs");
    const int axis = checked_axis(node.option(Options::axis, 0), node.output().dims.size()) +
                     static_cast<int>(rank - node.output().dims.size());
    if (axis == 0) throw Error("samples cannot be concatenated");
    node.set(
        quantization::add_cat(node.builder(), inputs, program_axis(axis, rank), node.output_qparams(), node.layer()));
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_MOVE_HPP
