// SPDX-License-Identifier: MIT
//
// Check of a program before it runs: every index, shape, type and offset. Layer: runtime. A program may come
// from a file, so nothing in it is believed; what packed weights and pointers hold is their maker's word.
#ifndef INTQ_RUNTIME_CHECK_HPP
#define INTQ_RUNTIME_CHECK_HPP

#include "intq/runtime/data_flow.hpp"

namespace intq::inline INTQ_ABI::runtime {

namespace detail {

constexpr Status corrupt(OpKind op, Field field, std::int64_t given, std::int64_t expected) noexcept {
    return {StatusCode::corrupt, op, field, given, expected};
}
constexpr Status wrong_shape(OpKind op, Field field, std::int64_t given, std::int64_t expected) noexcept {
    return {StatusCode::shape_mismatch, op, field, given, expected};
}
constexpr Status wrong_dtype(OpKind op, Field field, DType given, DType expected) noexcept {
    return {StatusCode::dtype_mismatch, op, field, static_cast<std::int64_t>(given),
            static_cast<std::int64_t>(expected)};
}

// --- tensors
// ----------------------------------------------------------------------------------------------------------

/// Rank, extents and place. No product here can overflow: the arena bounds them all.
inline Status check_tensor(const Program& program, const ProgramTensor& tensor, std::int64_t index) noexcept {
    const index_t element = size_of(tensor.dtype);
    if (element == 0) return corrupt(OpKind::program, Field::tensor, index, 0);
    if (tensor.shape.rank < 1 || tensor.shape.rank > max_rank || tensor.shape[0] != program.max_batch)
        return corrupt(OpKind::program, Field::tensor, index, program.max_batch);
    index_t bytes = element;
    for (int axis = 0; axis < tensor.shape.rank; ++axis) {
        const index_t extent = tensor.shape[axis];
        if (extent < 1) return corrupt(OpKind::program, Field::tensor, index, 1);
        if (bytes > program.arena_size / extent)
            return corrupt(OpKind::program, Field::arena, index, program.arena_size);
        bytes *= extent;
    }
    if (tensor.offset < 0 || tensor.offset % buffer_alignment != 0 || tensor.offset > program.arena_size - bytes)
        return corrupt(OpKind::program, Field::arena, tensor.offset, program.arena_size - bytes);
    return {};
}

inline bool is_tensor(const Program& program, std::int32_t index) noexcept {
    return index >= 0 && static_cast<std::size_t>(index) < program.tensors.size();
}

/// Qparams that an instruction reads.
inline Status check_tensor_qparams(const ProgramTensor& tensor, OpKind op) noexcept {
    const bool per_channel = tensor.qparams.is_per_channel();
    if (per_channel && (tensor.qparams.axis() != 1 || tensor.shape.rank < 2))
        return corrupt(op, Field::axis, tensor.qparams.axis(), 1);
    return check_qparams(tensor.qparams, tensor.dtype, per_channel ? tensor.shape[1] : 1, op);
}

// --- instructions
// -----------------------------------------------------------------------------------------------------

/// What the check of one instruction looks at.
struct Checked {
    const Program& program;
    const kernels::KernelTable& table;
    const Instruction& instruction;

    std::span<const std::int32_t> operands() const noexcept { return program.operands_of(instruction); }
    const ProgramTensor& x(std::size_t operand = 0) const noexcept { return program.tensor(operands()[operand]); }
    const ProgramTensor& y() const noexcept { return program.tensor(instruction.output); }
    OpKind op() const noexcept { return instruction.op; }
};

template <class Row, class Matches> constexpr bool has_any(std::span<const Row> rows, Matches&& matches) noexcept {
    for (const Row& row : rows)
        if (matches(row)) return true;
    return false;
}

constexpr Status no_kernel(OpKind op, DType given) noexcept {
    return {StatusCode::unsupported, op, Field::input, static_cast<std::int64_t>(given), 0};
}

inline Status check_same_size(const Checked& c, const ProgramTensor& x, Field field) noexcept {
    return x.shape.size() == c.y().shape.size() ? Status{}
                                                : wrong_shape(c.op(), field, x.shape.size(), c.y().shape.size());
}

/// Without weights, sizes kept: dtypes and a row.
inline Status check_elementwise(const Checked& c) noexcept {
    if (const Status status = check_same_size(c, c.x(), Field::input); !status) return status;
    const DType x = c.x().dtype, y = c.y().dtype;
    switch (c.op()) {
        case OpKind::add:
            if (const Status status = check_same_size(c, c.x(1), Field::second_input); !status) return status;
            if (c.x(1).dtype != y) return wrong_dtype(c.op(), Field::second_input, c.x(1).dtype, y);
            if (x != y) return wrong_dtype(c.op(), Field::input, x, y);
            return has_any(c.table.add, [&](const auto& row) { return row.dtype == y; }) ? Status{}
                                                                                         : no_kernel(c.op(), y);
        case OpKind::relu:
            if (x != y) return wrong_dtype(c.op(), Field::output, y, x);
            return has_any(c.table.clamp, [&](const auto& row) { return row.dtype == y; }) ? Status{}
                                                                                           : no_kernel(c.op(), y);
        case OpKind::requantize:
            return has_any(c.table.requantize, [&](const auto& row) { return row.input == x && row.output == y; })
                       ? Status{}
                       : no_kernel(c.op(), x);
        case OpKind::quantize:
            if (x != DType::float32) return wrong_dtype(c.op(), Field::input, x, DType::float32);
            if (!has_any(c.table.quantize, [&](const auto& row) { return row.output == y; }))
                return no_kernel(c.op(), y);
            return check_tensor_qparams(c.y(), c.op());
        case OpKind::dequantize:
            if (y != DType::float32) return wrong_dtype(c.op(), Field::output, y, DType::float32);
            if (!has_any(c.table.dequantize, [&](const auto& row) { return row.input == x; }))
                return no_kernel(c.op(), x);
            return check_tensor_qparams(c.x(), c.op());
        default:
            break;
    }
    if (x != y) return wrong_dtype(c.op(), Field::output, y, x);
    return c.x().shape.rank >= 2 ? Status{} : wrong_shape(c.op(), Field::input, c.x().shape.rank, 2);
}

inline Status check_cat(const Checked& c) noexcept {
    const ProgramTensor& y = c.y();
    if (y.shape.rank < 2) return wrong_shape(c.op(), Field::output, y.shape.rank, 2);
    index_t channels = 0;
    for (std::size_t i = 0; i < c.operands().size(); ++i) {
        const ProgramTensor& x = c.x(i);
        if (x.shape.rank < 2) return wrong_shape(c.op(), Field::input, x.shape.rank, 2);
        if (x.shape.size() / x.shape[1] != y.shape.size() / y.shape[1])
            return wrong_shape(c.op(), Field::input, x.shape.size() / x.shape[1], y.shape.size() / y.shape[1]);
        if (!has_any(c.table.requantize,
                     [&](const auto& row) { return row.input == x.dtype && row.output == y.dtype; }))
            return no_kernel(c.op(), x.dtype);
        channels += x.shape[1];
    }
    return channels == y.shape[1] ? Status{} : wrong_shape(c.op(), Field::channels, channels, y.shape[1]);
}

inline Status check_pool(const Checked& c) noexcept {
    const ProgramTensor &x = c.x(), &y = c.y();
    const PoolStep& step = *c.instruction.params.pool;
    if (x.shape.rank != 4) return wrong_shape(c.op(), Field::input, x.shape.rank, 4);
    if (y.dtype != x.dtype) return wrong_dtype(c.op(), Field::output, y.dtype, x.dtype);
    const Size2d in{x.shape[2], x.shape[3]};
    if (const Status status = kernels::check_pool(step.window, in, c.op()); !status) return status;
    const Size2d out = output_size(step.window, in);
    const Shape expected{x.shape[0], x.shape[1], out.height, out.width};
    if (!(y.shape == expected)) return wrong_shape(c.op(), Field::output, y.shape.size(), expected.size());
    const index_t cells = step.window.kernel.height * step.window.kernel.width;
    if (c.op() == OpKind::avg_pool2d && step.average.kernel_cells != cells)
        return corrupt(c.op(), Field::kernel, step.average.kernel_cells, cells);
    const bool has_row =
        has_any(c.table.pool, [&](const auto& row) { return row.op == c.op() && row.dtype == x.dtype; });
    return has_row ? Status{} : no_kernel(c.op(), x.dtype);
}

inline Status check_conv(const Checked& c) noexcept {
    const kernels::PackedConv2d& packed = c.instruction.params.conv->packed;
    kernels::ConvGeometry geometry = c.instruction.params.conv->geometry;
    const index_t operands = packed.has_sumin ? 2 : 1, given = static_cast<index_t>(c.operands().size());
    if (given != operands) return corrupt(c.op(), Field::sumin, given, operands);
    if (packed.weights == nullptr || packed.bias == nullptr || (packed.is_depthwise && packed.padding_row == nullptr))
        return corrupt(c.op(), Field::weight, 0, 1);
    if (kernels::find_conv(c.table, packed) == nullptr) return no_kernel(c.op(), packed.input_dtype);
    if (c.x().dtype != packed.input_dtype) return wrong_dtype(c.op(), Field::input, c.x().dtype, packed.input_dtype);
    if (c.y().dtype != packed.output_dtype) return wrong_dtype(c.op(), Field::output, c.y().dtype, packed.output_dtype);
    if (!kernels::is_geometry_of(packed.window, geometry))
        return wrong_shape(c.op(), Field::geometry, geometry.taps, packed.taps());
    geometry.batch = c.program.max_batch;
    const index_t in = geometry.batch * packed.in_channels * geometry.in_pixels();
    const index_t out = geometry.batch * packed.out_channels * geometry.out_pixels();
    if (c.x().shape.size() != in) return wrong_shape(c.op(), Field::input, c.x().shape.size(), in);
    if (c.y().shape.size() != out) return wrong_shape(c.op(), Field::output, c.y().shape.size(), out);
    if (packed.has_sumin && c.x(1).shape.size() != out)
        return wrong_shape(c.op(), Field::sumin, c.x(1).shape.size(), out);
    if (packed.has_sumin && c.x(1).dtype != packed.input_dtype)
        return wrong_dtype(c.op(), Field::sumin, c.x(1).dtype, packed.input_dtype);
    const index_t workspace = kernels::conv2d_workspace_size(packed, geometry);
    if (workspace > c.program.workspace_size)
        return {StatusCode::buffer_too_small, c.op(), Field::workspace, c.program.workspace_size, workspace};
    return {};
}

/// Planes are read by quantize and layout_change alone, and written by the caller alone.
inline Status check_layouts(const Checked& c) noexcept {
    if (c.y().layout != Layout::channels_last)
        return corrupt(c.op(), Field::output, static_cast<std::int64_t>(c.y().layout), 0);
    const bool reads_planes = c.op() == OpKind::quantize || c.op() == OpKind::layout_change;
    for (std::size_t i = 0; i < c.operands().size(); ++i)
        if (c.x(i).layout != Layout::channels_last && (!reads_planes || c.x(i).shape.rank != 4))
            return corrupt(c.op(), Field::input, static_cast<std::int64_t>(c.x(i).layout), 0);
    return {};
}

/// Operands an instruction needs at least; and whether it needs parameters.
struct Arity {
    std::int32_t operands;
    bool exact;
    bool params;
};
constexpr Arity arity_of(OpKind op) noexcept {
    switch (op) {
        case OpKind::quantize:
        case OpKind::dequantize:
        case OpKind::layout_change:
            return {1, true, false};
        case OpKind::conv2d:
        case OpKind::linear:
            return {1, false, true};
        case OpKind::add:
            return {2, true, true};
        case OpKind::requantize:
        case OpKind::relu:
        case OpKind::max_pool2d:
        case OpKind::avg_pool2d:
            return {1, true, true};
        case OpKind::cat:
            return {1, false, true};
        default:
            return {-1, false, false};
    }
}

inline Status check_instruction(const Program& program, const kernels::KernelTable& table,
                                const Instruction& instruction) noexcept {
    const OpKind op = instruction.op;
    const Arity arity = arity_of(op);
    if (arity.operands < 0) return {StatusCode::unsupported, op, Field::instruction, 0, 0};
    const std::int64_t end = std::int64_t{instruction.first_operand} + instruction.operand_count;
    if (instruction.first_operand < 0 || instruction.operand_count < arity.operands ||
        (arity.exact && instruction.operand_count != arity.operands) ||
        end > static_cast<std::int64_t>(program.operands.size()))
        return corrupt(op, Field::instruction, instruction.operand_count, arity.operands);
    if (!is_tensor(program, instruction.output)) return corrupt(op, Field::output, instruction.output, 0);
    for (const std::int32_t operand : program.operands_of(instruction))
        if (!is_tensor(program, operand)) return corrupt(op, Field::input, operand, 0);
    if (arity.params && instruction.params.none == nullptr) return corrupt(op, Field::instruction, 0, 1);
    const Checked checked{program, table, instruction};
    if (const Status status = check_layouts(checked); !status) return status;
    switch (op) {
        case OpKind::conv2d:
        case OpKind::linear:
            return check_conv(checked);
        case OpKind::max_pool2d:
        case OpKind::avg_pool2d:
            return check_pool(checked);
        case OpKind::cat:
            return check_cat(checked);
        default:
            return check_elementwise(checked);
    }
}

}  // namespace detail

/// Checks a program against the kernels that shall run it.
///
/// @return ok; corrupt, shape_mismatch, dtype_mismatch, unsupported, buffer_too_small, or what check_qparams and
///         check_pool say, naming operator and field
///
/// Cost     O(instructions² · operands) in the worst case, for the data flow
inline Status check_program(const Program& program, const kernels::KernelTable& table) noexcept {
    if (program.max_batch < 1) return detail::corrupt(OpKind::program, Field::input, program.max_batch, 1);
    if (program.arena_size < 0) return detail::corrupt(OpKind::program, Field::arena, program.arena_size, 0);
    if (program.workspace_size < 0 || program.workspace_size > program.arena_size)
        return detail::corrupt(OpKind::program, Field::workspace, program.workspace_size, program.arena_size);
    const std::int64_t last_offset = program.arena_size - program.workspace_size;
    if (program.workspace_offset < 0 || program.workspace_offset % buffer_alignment != 0 ||
        program.workspace_offset > last_offset)
        return detail::corrupt(OpKind::program, Field::workspace, program.workspace_offset, last_offset);
    for (std::size_t i = 0; i < program.tensors.size(); ++i)
        if (const Status status = detail::check_tensor(program, program.tensors[i], static_cast<std::int64_t>(i));
            !status)
            return status;
    for (const auto list : {program.inputs, program.outputs})
        for (const std::int32_t index : list)
            if (!detail::is_tensor(program, index)) return detail::corrupt(OpKind::program, Field::tensor, index, 0);
    for (const Instruction& instruction : program.instructions)
        if (const Status status = detail::check_instruction(program, table, instruction); !status) return status;
    return check_data_flow(program);
}

}  // namespace intq::inline INTQ_ABI::runtime

#endif  // INTQ_RUNTIME_CHECK_HPP
