// SPDX-License-Identifier: MIT
//
// Check of a program before it runs: every index, shape, type and offset. Layer: runtime. A program may come
// from a file, so nothing in it is trusted, except that its pointers point to as many bytes as their description says:
// its maker or reader vouches for that. The bytes themselves are checked.
#ifndef INTQ_RUNTIME_CHECK_HPP
#define INTQ_RUNTIME_CHECK_HPP

#include <cstdint>

#include "intq/kernels/operators/operator.hpp"
#include "intq/runtime/check_rows.hpp"
#include "intq/runtime/data_flow.hpp"

namespace intq::runtime {
inline namespace INTQ_ABI {

namespace detail {

using kernels::corrupt;

/// Whether a tensor that lies outside the arena is the input that its offset names.
inline bool is_named_input(const Program& program, const ProgramTensor& tensor, std::int64_t index) noexcept {
    return tensor.given_input() < static_cast<index_t>(program.inputs.size()) &&
           program.inputs[static_cast<std::size_t>(tensor.given_input())] == index;
}

/// Whether two bounds of codes are codes of their type, in order.
constexpr bool are_codes_of(DType dtype, std::int64_t lowest, std::int64_t highest) noexcept {
    return lowest_code(dtype) <= lowest && lowest <= highest && highest <= highest_code(dtype);
}

/// Rank, extents and place. No product here can overflow: the arena bounds them all, or memory.
inline Status check_tensor(const Program& program, const ProgramTensor& tensor, std::int64_t index) noexcept {
    const index_t element = size_of(tensor.dtype);
    if (element == 0 || tensor.layout == Layout::strided) return corrupt(OpKind::program, Field::tensor, index, 0);
    if (tensor.shape.rank < 1 || tensor.shape.rank > max_rank || tensor.shape[0] != program.max_batch)
        return corrupt(OpKind::program, Field::tensor, index, program.max_batch);
    const bool is_ring = tensor.ring != 0 && !tensor.holds_sums();
    if (is_ring && (tensor.ring < 0 || tensor.shape.rank != 4 || tensor.ring > tensor.shape[2] || tensor.is_given()))
        return corrupt(OpKind::program, Field::tensor, index, tensor.ring);
    const index_t most_bytes = tensor.is_given() || is_ring ? PTRDIFF_MAX : program.arena_size;
    index_t bytes = element;
    for (int axis = 0; axis < tensor.shape.rank; ++axis) {
        const index_t extent = tensor.shape[axis];
        if (extent < 1) return corrupt(OpKind::program, Field::tensor, index, 1);
        if (bytes > most_bytes / extent) return corrupt(OpKind::program, Field::arena, index, most_bytes);
        bytes *= extent;
    }
    const bool are_codes = tensor.dtype == DType::int8 || tensor.dtype == DType::int16;
    const bool are_numbers = are_codes || (tensor.dtype == DType::int32 && tensor.has_stated_bounds);
    if (tensor.has_stated_bounds && (!are_numbers || tensor.qparams.is_per_channel()))
        return corrupt(OpKind::program, Field::quant_range, index, 0);
    if (are_numbers && !are_codes_of(tensor.dtype, tensor.qparams.quant_min(), tensor.qparams.quant_max()))
        return corrupt(OpKind::program, Field::quant_range, index, 0);
    const index_t most_sums = most_bytes / index_t{sizeof(std::int32_t)};
    if (tensor.holds_sums() && (tensor.is_given() || tensor.shape.rank != 4 || bytes / element > most_sums))
        return corrupt(OpKind::program, Field::tensor, index, 0);
    if (is_ring || tensor.holds_sums()) bytes = tensor.arena_bytes();
    const bool is_placed = tensor.is_given()
                               ? is_named_input(program, tensor, index) && !tensor.has_stated_bounds
                               : tensor.offset % buffer_alignment == 0 && tensor.offset <= program.arena_size - bytes;
    return is_placed ? Status{} : corrupt(OpKind::program, Field::arena, tensor.offset, program.arena_size - bytes);
}

inline bool is_tensor(const Program& program, std::int32_t index) noexcept {
    return index >= 0 && static_cast<std::size_t>(index) < program.tensors.size();
}

/// Only operators that say so read planes, and only the caller writes them; rows are read and written by operators that
/// say so.
inline Status check_layouts(const kernels::ProgramOperator& row, const kernels::OperatorCall& call) noexcept {
    const auto refused = [&](Field field, const ProgramTensor& tensor) {
        return corrupt(call.op, field, static_cast<std::int64_t>(tensor.layout), 0);
    };
    const bool rows = call.y().layout != Layout::channels_last;
    if (rows && (call.y().shape.rank < 3 || !(row.takes_rows || row.writes_rows)))
        return refused(Field::output, call.y());
    for (index_t i = 0; i < call.operand_count(); ++i) {
        const ProgramTensor& x = call.x(i);
        const bool planes = x.layout != Layout::channels_last;
        const bool fits = row.takes_rows ? planes == rows : !planes || row.reads_nchw;
        if (!fits || (planes && x.shape.rank < 3)) return refused(Field::input, x);
    }
    return {};
}

/// Nobody writes an input that a caller gives, and only operators that say so read one.
inline Status check_given(const kernels::ProgramOperator& row, const kernels::OperatorCall& call) noexcept {
    if (call.y().is_given()) return corrupt(call.op, Field::output, call.y().offset, 0);
    for (index_t i = 0; i < call.operand_count(); ++i)
        if (call.x(i).is_given() && !row.reads_given) return corrupt(call.op, Field::input, call.x(i).offset, 0);
    return {};
}

/// Whether the parameters are the operator's: kind, size, place.
inline Status check_params_kind(const kernels::ProgramOperator& row, const Instruction& instruction) noexcept {
    const kernels::InstructionParams& given = instruction.params;
    const kernels::ParamStruct& expected = row.params;
    if (given.kind != expected.kind)
        return corrupt(row.op, Field::instruction, static_cast<std::int64_t>(given.kind),
                       static_cast<std::int64_t>(expected.kind));
    if (expected.kind == kernels::ParamKind::none) return {};
    const std::int64_t structs = row.has_params_by_operand ? instruction.operand_count : 1;
    if (given.size != structs * expected.size)
        return corrupt(row.op, Field::instruction, given.size, structs * expected.size);
    const auto address = reinterpret_cast<std::uintptr_t>(given.data);
    if (given.data == nullptr || address % static_cast<std::uintptr_t>(expected.alignment) != 0)
        return corrupt(row.op, Field::instruction, 0, expected.alignment);
    return {};
}

/// Walks the description of the parameters, which refuses numbers that the operator cannot take.
/// @pre check_params_kind()
inline Status check_params(const kernels::KernelTable& table, const kernels::ProgramOperator& row,
                           const Instruction& instruction, kernels::ParamVisitor::Demands demands) noexcept {
    if (row.params.visit == nullptr) return {};
    const kernels::ParamContext context{&table.packing};
    const kernels::ParamVisitor visitor{nullptr, [](void*, const kernels::ParamField&) {}, nullptr, demands};
    const auto* const first = static_cast<const std::byte*>(instruction.params.data);
    for (index_t at = 0; at < instruction.params.size; at += row.params.size)
        if (Status status = row.params.visit(first + at, nullptr, context, visitor); !status) {
            status.op = row.op;
            return status;
        }
    return {};
}

inline Status check_instruction(const Program& program, const kernels::KernelTable& table,
                                const Instruction& instruction) noexcept {
    using Demands = kernels::ParamVisitor::Demands;
    const OpKind op = instruction.op;
    const kernels::ProgramOperator* const row = kernels::find_operator(op);
    if (row == nullptr) return {StatusCode::unsupported, op, Field::instruction, 0, 0};
    const std::int64_t end = std::int64_t{instruction.first_operand} + instruction.operand_count;
    if (instruction.first_operand < 0 || instruction.operand_count < row->operands ||
        (!row->takes_more && instruction.operand_count != row->operands) ||
        end > static_cast<std::int64_t>(program.operands.size()))
        return corrupt(op, Field::instruction, instruction.operand_count, row->operands);
    if (!is_tensor(program, instruction.output)) return corrupt(op, Field::output, instruction.output, 0);
    for (const std::int32_t operand : program.operands_of(instruction))
        if (!is_tensor(program, operand)) return corrupt(op, Field::input, operand, 0);
    if (const Status status = check_params_kind(*row, instruction); !status) return status;
    const kernels::OperatorCall call = call_of(program, table, instruction);
    if (const Status status = check_layouts(*row, call); !status) return status;
    if (const Status status = check_given(*row, call); !status) return status;
    if (const Status status = check_params(table, *row, instruction, Demands::numbers); !status) return status;
    if (const Status status = (*row->check)(call); !status) return status;
    // Only now is it known how many bytes lie behind the pointers.
    if (const Status status = check_params(table, *row, instruction, Demands::memory); !status) return status;
    const bool has_scratch = row->workspace_size != nullptr && instruction.rows == 0;  // else see check_rows()
    const index_t workspace = has_scratch ? row->workspace_size(call) : 0;
    if (workspace > program.workspace_size)
        return {StatusCode::buffer_too_small, op, Field::workspace, program.workspace_size, workspace};
    return {};
}

/// Each dropped channel is one of a tensor of codes with all its channels, by tensor and then by channel, and its code
/// one of the tensor's type.
inline Status check_dropped(const Program& program) noexcept {
    index_t of_tensor = 0;
    for (std::size_t i = 0; i < program.dropped.size(); ++i) {
        const DroppedChannel& dropped = program.dropped[i];
        const Status refused = corrupt(OpKind::program, Field::channels, dropped.tensor, dropped.channel);
        if (!is_tensor(program, dropped.tensor)) return refused;
        const ProgramTensor& tensor = program.tensor(dropped.tensor);
        const DroppedChannel* const before = i == 0 ? nullptr : &program.dropped[i - 1];
        const bool is_same = before != nullptr && before->tensor == dropped.tensor;
        of_tensor = is_same ? of_tensor + 1 : 1;
        const bool is_behind =
            before == nullptr || before->tensor < dropped.tensor || (is_same && before->channel < dropped.channel);
        const bool are_codes = tensor.dtype == DType::int8 || tensor.dtype == DType::int16;
        const bool is_end = contains(program.inputs, dropped.tensor) || contains(program.outputs, dropped.tensor);
        if (!is_behind || !are_codes || is_end || tensor.shape.rank < 2 || dropped.channel < 0 ||
            !are_codes_of(tensor.dtype, dropped.code, dropped.code))
            return refused;
        // With as many kept channels before it as there are, it is the last one.
        if (dropped.channel >= tensor.shape[tensor.channel_axis()] + of_tensor) return refused;
    }
    return {};
}

}  // namespace detail

/// Checks a program against the kernels that will run it.
///
/// @return ok; corrupt, shape_mismatch, dtype_mismatch, unsupported, buffer_too_small, or an error of the operator's
///         own check, naming operator and field
///
/// Cost     O(instructions² · operands) in the worst case, for the data flow; O(words and geometries) for parameters
inline Status check_program(const Program& program, const kernels::KernelTable& table) noexcept {
    if (program.max_batch < 1) return kernels::corrupt(OpKind::program, Field::input, program.max_batch, 1);
    if (program.arena_size < 0) return kernels::corrupt(OpKind::program, Field::arena, program.arena_size, 0);
    if (program.workspace_size < 0 || program.workspace_size > program.arena_size)
        return kernels::corrupt(OpKind::program, Field::workspace, program.workspace_size, program.arena_size);
    const std::int64_t last_offset = program.arena_size - program.workspace_size;
    if (program.workspace_offset < 0 || program.workspace_offset % buffer_alignment != 0 ||
        program.workspace_offset > last_offset)
        return kernels::corrupt(OpKind::program, Field::workspace, program.workspace_offset, last_offset);
    for (std::size_t i = 0; i < program.tensors.size(); ++i)
        if (const Status status = detail::check_tensor(program, program.tensors[i], static_cast<std::int64_t>(i));
            !status)
            return status;
    for (const auto list : {program.inputs, program.outputs})
        for (const std::int32_t index : list)
            if (!detail::is_tensor(program, index)) return kernels::corrupt(OpKind::program, Field::tensor, index, 0);
    for (const std::int32_t index : program.outputs)
        if (program.tensor(index).is_given())
            return kernels::corrupt(OpKind::program, Field::output, index, program.tensor(index).given_input());
    for (const Instruction& instruction : program.instructions)
        if (const Status status = detail::check_instruction(program, table, instruction); !status) return status;
    if (const Status status = detail::check_dropped(program); !status) return status;
    if (const Status status = check_rows(program, table); !status) return status;
    if (const Status status = check_states(program); !status) return status;
    return check_data_flow(program, table);
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_CHECK_HPP
