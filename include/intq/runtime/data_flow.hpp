// SPDX-License-Identifier: MIT
//
// The data flow of a program: whether each operand, when read, still holds its producer's output.
// Layer: runtime (docs/design.md section 1: a wrong input is an error message, never a wrong number).
#ifndef INTQ_RUNTIME_DATA_FLOW_HPP
#define INTQ_RUNTIME_DATA_FLOW_HPP

#include "intq/kernels/operators/operator_table.hpp"
#include "intq/runtime/program.hpp"

namespace intq::runtime {
inline namespace INTQ_CORE_ABI {

/// Bytes of the arena, from first up to but without last.
struct ArenaRange {
    index_t first = 0;
    index_t last = 0;
    /// Whether a byte is in both; an empty range has none, wherever it lies.
    INTQ_ALWAYS_INLINE constexpr bool overlaps(const ArenaRange& other) const noexcept {
        return (first > other.first ? first : other.first) < (last < other.last ? last : other.last);
    }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::runtime

namespace intq::runtime {
inline namespace INTQ_ABI {

namespace detail {

constexpr ArenaRange range_of(const Program& program, std::int32_t tensor) noexcept {
    const ProgramTensor& t = program.tensor(tensor);
    return t.is_given() ? ArenaRange{} : ArenaRange{t.offset, t.offset + t.arena_bytes()};
}

constexpr bool contains(std::span<const std::int32_t> list, std::int32_t tensor) noexcept {
    for (const std::int32_t entry : list)
        if (entry == tensor) return true;
    return false;
}

inline std::int32_t index_of(const Program& program, const Instruction& instruction) noexcept {
    return static_cast<std::int32_t>(&instruction - program.instructions.data());
}

}  // namespace detail

/// The instruction as its operator sees it, without an arena.
inline kernels::OperatorCall call_of(const Program& program, const kernels::KernelTable& table,
                                     const Instruction& instruction) noexcept {
    return {table,
            instruction.op,
            program.tensors,
            program.operands_of(instruction),
            instruction.output,
            instruction.params.data,
            program.max_batch};
}

/// The scratch that an instruction writes; empty for most. Of one in a group, that of the group.
inline ArenaRange workspace_of(const Program& program, const kernels::KernelTable& table,
                               const Instruction& instruction) noexcept {
    const kernels::ProgramOperator* const row = kernels::find_operator(instruction.op);
    if (row == nullptr || row->workspace_size == nullptr) return {};
    if (instruction.rows > 0)
        if (const RowGroup* const group = program.group_of(detail::index_of(program, instruction)))
            return {program.workspace_offset, program.workspace_offset + group->workspace};
    const index_t bytes = row->workspace_size(call_of(program, table, instruction));
    return {program.workspace_offset, program.workspace_offset + bytes};
}

namespace detail {

inline bool overwrites(const Program& program, const kernels::KernelTable& table, const Instruction& instruction,
                       const ArenaRange& range) noexcept {
    return range_of(program, instruction.output).overlaps(range) ||
           workspace_of(program, table, instruction).overlaps(range);
}

/// The last instruction before `end` that writes the tensor; -1 for an input of the program, -2 for none.
inline std::int64_t producer_of(const Program& program, std::int32_t tensor, std::size_t end) noexcept {
    for (std::size_t i = end; i-- > 0;)
        if (program.instructions[i].output == tensor) return static_cast<std::int64_t>(i);
    return contains(program.inputs, tensor) ? -1 : -2;
}

/// Whether `tensor`, read before instruction `end`, was written, and its bytes were not touched since.
inline Status check_alive(const Program& program, const kernels::KernelTable& table, std::int32_t tensor,
                          std::size_t end, OpKind reader) noexcept {
    const std::int64_t producer = producer_of(program, tensor, end);
    if (producer == -2) return {StatusCode::corrupt, reader, Field::input, tensor, producer};
    for (auto i = static_cast<std::size_t>(producer + 1); i < end; ++i)
        if (overwrites(program, table, program.instructions[i], range_of(program, tensor)))
            return {StatusCode::corrupt, reader, Field::arena, tensor, static_cast<std::int64_t>(i)};
    return {};
}

inline Status check_own_ranges(const Program& program, const kernels::KernelTable& table,
                               const Instruction& instruction) noexcept {
    const kernels::ProgramOperator* const row = kernels::find_operator(instruction.op);
    const bool runs_in_place =
        row != nullptr && row->runs_in_place != nullptr && row->runs_in_place(instruction.params);
    const ArenaRange output = range_of(program, instruction.output);
    const ArenaRange workspace = workspace_of(program, table, instruction);
    if (workspace.overlaps(output))
        return {StatusCode::corrupt, instruction.op, Field::workspace, instruction.output, 0};
    for (const std::int32_t operand : program.operands_of(instruction)) {
        const ArenaRange range = range_of(program, operand);
        if (workspace.overlaps(range)) return {StatusCode::corrupt, instruction.op, Field::workspace, operand, 0};
        // An operand that is broadcast is read after its place in the output was written. It has fewer bytes than the
        // output, except that sums took.
        const bool may_take =
            runs_in_place && (!row->in_place_of_first || operand == program.operands_of(instruction)[0]);
        const bool in_place = may_take && range.first == output.first && range.last == output.last &&
                              !program.tensor(operand).holds_sums();
        if (output.overlaps(range) && !in_place)
            return {StatusCode::corrupt, instruction.op, Field::arena, operand, instruction.output};
    }
    return {};
}

}  // namespace detail

/// The lowest code that a tensor may hold when instruction `end` reads it, by what is known of the instruction that
/// wrote it (ProgramOperator::lowest_code): of codes that a caller writes the lowest of their type.
///
/// @pre   the instructions before `end` were checked
///
/// Cost   O(instructions)
inline std::int64_t lowest_code_of(const Program& program, const kernels::KernelTable& table, std::int32_t tensor,
                                   std::size_t end) noexcept {
    const DType dtype = program.tensor(tensor).dtype;
    for (std::int64_t at = detail::producer_of(program, tensor, end); at >= 0;
         at = detail::producer_of(program, tensor, end)) {
        const Instruction& producer = program.instructions[static_cast<std::size_t>(at)];
        const kernels::ProgramOperator* const row = kernels::find_operator(producer.op);
        if (row == nullptr || row->lowest_code == nullptr) break;
        const std::int64_t lowest = row->lowest_code(call_of(program, table, producer));
        if (lowest != kernels::codes_of_operand) return lowest;
        tensor = program.operands_of(producer)[0];
        end = static_cast<std::size_t>(at);
    }
    return lowest_code(dtype);
}

namespace detail {

/// Whether an instruction that was made for an operand without negative codes has one.
inline Status check_signs(const Program& program, const kernels::KernelTable& table, std::size_t at) noexcept {
    const Instruction& instruction = program.instructions[at];
    const kernels::ProgramOperator* const row = kernels::find_operator(instruction.op);
    if (row == nullptr || row->needs_nonnegative == nullptr ||
        !row->needs_nonnegative(call_of(program, table, instruction)))
        return {};
    const std::int64_t lowest = lowest_code_of(program, table, program.operands_of(instruction)[0], at);
    return lowest >= 0 ? Status{} : kernels::corrupt(instruction.op, Field::input, lowest, 0);
}

}  // namespace detail

/// Whether the pairs of state are inputs and outputs with one place, of which the caller writes neither: the input is
/// no instruction's output, and the output is one. That each read of the old codes comes before they are written over,
/// and that the new ones stay to the end, is the data flow of the operands and of the outputs.
///
/// @pre   every index and every offset of the program was checked
/// @return ok; corrupt tensor: given = the input, expected = the output
inline Status check_states(const Program& program) noexcept {
    for (std::size_t i = 0; i < program.states.size(); ++i) {
        const StatePair& state = program.states[i];
        const Status refused{StatusCode::corrupt, OpKind::program, Field::tensor, state.input, state.output};
        if (!detail::contains(program.inputs, state.input) || !detail::contains(program.outputs, state.output))
            return refused;
        for (std::size_t k = 0; k < i; ++k)
            if (program.states[k].input == state.input || program.states[k].output == state.output) return refused;
        const ProgramTensor &x = program.tensor(state.input), &y = program.tensor(state.output);
        const bool are_codes = x.dtype == DType::int8 || x.dtype == DType::int16;
        const bool is_one_form = x.dtype == y.dtype && x.shape == y.shape && x.layout == y.layout;
        const bool is_one_grid = !x.qparams.is_per_channel() && !y.qparams.is_per_channel() &&
                                 x.qparams.scale() == y.qparams.scale() &&
                                 x.qparams.zero_point() == y.qparams.zero_point();
        const bool is_one_place = !x.is_given() && x.offset == y.offset && x.ring == 0 && y.ring == 0;
        const std::size_t end = program.instructions.size();
        const bool is_written = detail::producer_of(program, state.input, end) == -1 &&
                                detail::producer_of(program, state.output, end) >= 0;
        if (!are_codes || !is_one_form || !is_one_grid || !is_one_place || !is_written) return refused;
    }
    return {};
}

/// Whether every operand is written before it is read and not overwritten in between, and has no negative codes where
/// its reader was made for that.
///
/// @pre   every index and every offset of the program was checked
/// @return ok; corrupt: input (an operand that nothing wrote), arena (a tensor whose bytes another one takes while it
///         is needed), workspace (scratch over a tensor); given = the tensor, expected = the offender. Corrupt input of
///         an operand that may have negative codes: given = the lowest of them, expected = 0
///
/// Cost     O(instructions² · operands) in the worst case
inline Status check_data_flow(const Program& program, const kernels::KernelTable& table) noexcept {
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
        for (std::size_t k = 0; k < i; ++k)
            if (detail::range_of(program, program.inputs[i]).overlaps(detail::range_of(program, program.inputs[k])))
                return {StatusCode::corrupt, OpKind::program, Field::arena, program.inputs[i], program.inputs[k]};
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        const Instruction& instruction = program.instructions[i];
        for (const std::int32_t operand : program.operands_of(instruction))
            if (const Status status = detail::check_alive(program, table, operand, i, instruction.op); !status)
                return status;
        if (const Status status = detail::check_own_ranges(program, table, instruction); !status) return status;
        if (const Status status = detail::check_signs(program, table, i); !status) return status;
    }
    for (const std::int32_t output : program.outputs)
        if (const Status status =
                detail::check_alive(program, table, output, program.instructions.size(), OpKind::program);
            !status)
            return status;
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_DATA_FLOW_HPP
