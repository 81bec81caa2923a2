// SPDX-License-Identifier: MIT
//
// Check of the groups of a program, which run row by row: no row is read before it is written, and none is overwritten
// while it is needed. Layer: runtime (docs/rows.md).
#ifndef INTQ_RUNTIME_CHECK_ROWS_HPP
#define INTQ_RUNTIME_CHECK_ROWS_HPP

#include <cstdint>

#include "intq/kernels/operators/operator.hpp"
#include "intq/runtime/row_schedule.hpp"

namespace intq::runtime {
inline namespace INTQ_ABI {

namespace detail {

/// Whether groups lie in a program one behind the other, and exactly their instructions state rows.
inline Status check_group_places(const Program& program) noexcept {
    const auto count = static_cast<std::int32_t>(program.instructions.size());
    std::int32_t next = 0;  // the first instruction that no group before may have
    const auto check_whole = [&](std::int32_t end) -> Status {
        for (; next < end; ++next)
            if (program.instructions[static_cast<std::size_t>(next)].rows != 0)
                return kernels::corrupt(OpKind::program, Field::instruction, next, 0);
        return {};
    };
    for (const RowGroup& group : program.groups) {
        if (group.first < next || group.count < 1 || group.count > most_group_instructions ||
            group.first > count - group.count || group.workspace < 0 || group.workspace > program.workspace_size)
            return kernels::corrupt(OpKind::program, Field::instruction, group.first, group.count);
        if (const Status status = check_whole(group.first); !status) return status;
        for (; next <= group.last(); ++next) {
            const std::int32_t rows = program.instructions[static_cast<std::size_t>(next)].rows;
            if (rows < 1) return kernels::corrupt(OpKind::program, Field::instruction, next, rows);
        }
    }
    return check_whole(count);
}

/// A ring is written by one instruction of a group, and read behind it in the same group alone.
inline Status check_ring(const Program& program, std::int32_t tensor) noexcept {
    const ProgramTensor& ring = program.tensor(tensor);
    const Status refused = kernels::corrupt(OpKind::program, Field::tensor, tensor, ring.ring);
    if (ring.has_stated_bounds || contains(program.inputs, tensor) || contains(program.outputs, tensor)) return refused;
    const RowGroup* group = nullptr;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        const Instruction& instruction = program.instructions[i];
        const RowGroup* const of = program.group_of(static_cast<std::int32_t>(i));
        if (contains(program.operands_of(instruction), tensor) && (group == nullptr || of != group)) return refused;
        if (instruction.output != tensor) continue;
        if (of == nullptr || group != nullptr) return refused;
        group = of;
    }
    return group != nullptr ? Status{} : refused;
}

/// Sums are written by one instruction, which can add up rows in a group, where nobody else reads them.
inline Status check_sums(const Program& program, const kernels::KernelTable& table, std::int32_t tensor) noexcept {
    const Status refused = kernels::corrupt(OpKind::program, Field::tensor, tensor, 0);
    if (contains(program.inputs, tensor)) return refused;
    const RowGroup* group = nullptr;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        const Instruction& instruction = program.instructions[i];
        const RowGroup* const of = program.group_of(static_cast<std::int32_t>(i));
        if (contains(program.operands_of(instruction), tensor) && (group == nullptr || of == group)) return refused;
        if (instruction.output != tensor) continue;
        const kernels::ProgramOperator* const row = kernels::find_operator(instruction.op);
        if (of == nullptr || group != nullptr || row->adds_rows == nullptr ||
            !row->adds_rows(call_of(program, table, instruction)))
            return refused;
        group = of;
    }
    return group != nullptr ? Status{} : refused;
}

/// All tensors of a group, and its scratch, lie apart: any of them may be written while any other is needed.
inline Status check_apart(const Program& program, const RowGroup& group) noexcept {
    const ArenaRange scratch{program.workspace_offset, program.workspace_offset + group.workspace};
    const auto for_each = [&](auto&& visit) -> Status {
        for (std::int32_t i = group.first; i <= group.last(); ++i) {
            const Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
            if (const Status status = visit(instruction.output); !status) return status;
            for (const std::int32_t operand : program.operands_of(instruction))
                if (const Status status = visit(operand); !status) return status;
        }
        return {};
    };
    return for_each([&](std::int32_t a) -> Status {
        const ArenaRange range = range_of(program, a);
        if (range.overlaps(scratch)) return kernels::corrupt(OpKind::program, Field::workspace, a, 0);
        for (std::int32_t i = group.first; i <= group.last(); ++i) {
            const std::int32_t b = program.instructions[static_cast<std::size_t>(i)].output;
            if (a != b && range.overlaps(range_of(program, b)))
                return kernels::corrupt(OpKind::program, Field::arena, a, b);
        }
        return {};
    });
}

/// No instruction of a group writes what another one of it writes, or what one before it reads.
inline Status check_writers(const Program& program, const RowGroup& group) noexcept {
    for (std::int32_t i = group.first; i <= group.last(); ++i) {
        const std::int32_t output = program.instructions[static_cast<std::size_t>(i)].output;
        for (std::int32_t k = group.first; k <= i; ++k) {
            const Instruction& before = program.instructions[static_cast<std::size_t>(k)];
            if ((k < i && before.output == output) || contains(program.operands_of(before), output))
                return kernels::corrupt(OpKind::program, Field::output, i, k);
        }
    }
    return {};
}

inline Status check_group(const Program& program, const kernels::KernelTable& table, const RowGroup& group) noexcept {
    for (std::int32_t i = group.first; i <= group.last(); ++i)
        if (const Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
            !runs_by_rows(program, table, instruction))
            return {StatusCode::unsupported, instruction.op, Field::instruction, i, 0};
    if (const Status status = check_writers(program, group); !status) return status;
    RowNeeds needs[most_group_instructions];
    measure_group(program, table, group, needs);
    index_t workspace = 0;
    for (std::int32_t i = 0; i < group.count; ++i) {
        const std::int32_t output = program.instructions[static_cast<std::size_t>(group.first + i)].output;
        const index_t ring = program.tensor(output).ring;
        if (ring > 0 && needs[i].rows > ring)
            return {StatusCode::buffer_too_small, OpKind::program, Field::tensor, ring, needs[i].rows};
        if (needs[i].workspace > workspace) workspace = needs[i].workspace;
    }
    if (workspace > group.workspace)
        return {StatusCode::buffer_too_small, OpKind::program, Field::workspace, group.workspace, workspace};
    return check_apart(program, group);
}

}  // namespace detail

/// Checks the groups of a program, and its rings.
///
/// @pre   every instruction and every tensor was checked by itself
/// @return ok; corrupt: instruction (a group that is none), tensor (a ring that others use), output (two writers), or
///         arena and workspace (bytes that are needed otherwise); unsupported instruction: it does not run by rows;
///         buffer_too_small: tensor (a ring without room for the rows that are needed), or workspace
///
/// Cost     a comparison for each step of each group
inline Status check_rows(const Program& program, const kernels::KernelTable& table) noexcept {
    if (const Status status = detail::check_group_places(program); !status) return status;
    for (std::size_t i = 0; i < program.tensors.size(); ++i) {
        const auto tensor = static_cast<std::int32_t>(i);
        if (program.tensors[i].ring > 0)
            if (const Status status = detail::check_ring(program, tensor); !status) return status;
        if (program.tensors[i].holds_sums())
            if (const Status status = detail::check_sums(program, table, tensor); !status) return status;
    }
    for (const RowGroup& group : program.groups)
        if (const Status status = detail::check_group(program, table, group); !status) return status;
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_CHECK_ROWS_HPP
