// SPDX-License-Identifier: MIT
//
// Lifetimes of a program: which bytes each instruction needs, and which tensors may take the place of another.
// Layer: program.
#ifndef INTQ_PROGRAM_LIFETIMES_HPP
#define INTQ_PROGRAM_LIFETIMES_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "intq/kernels/table/rows.hpp"
#include "intq/runtime/memory_plan.hpp"
#include "intq/runtime/program.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// The input of a memory plan. An input tensor lives from -1 on, an output to the number of instructions.
struct ProgramLifetimes {
    std::vector<runtime::Lifetime> tensors;  // of each tensor by itself
    std::vector<runtime::Lifetime> edges;    // as placed: tensors that share a place are one; scratch is last
    std::vector<std::size_t> edge_of;        // of each tensor
    std::vector<index_t> workspaces;         // of each instruction
};

/// Lifetimes of a program whose offsets need not be known, but for those of inputs that a caller gives: they take no
/// bytes.
///
/// An operator that can (ProgramOperator::runs_in_place) writes its output over an operand of the same size that
/// nothing reads afterwards, and state lies over its input. The scratch, which all instructions share, lives from the
/// first to the last one that needs it.
ProgramLifetimes lifetimes_of(const runtime::Program& program, const kernels::KernelTable& table);

/// Places the edges; returns the bytes of the arena. The scratch has one offset for all instructions: it is an edge of
/// the largest size, or lies below all tensors, and each tensor above the scratch of the instructions during which it
/// lives. The smaller arena wins.
index_t plan(ProgramLifetimes& lifetimes);

/// Sets the offsets of the tensors, which are the program's, and of its scratch, and the sizes of scratch and arena, by
/// a plan. Inputs that a caller gives stay where they are.
void place_in_arena(runtime::Program& program, std::span<runtime::ProgramTensor> tensors,
                    const kernels::KernelTable& table);

/// The most bytes that one instruction needs: its own scratch, and the edges that live then. No plan is smaller that
/// keeps each tensor where it was written.
index_t lower_bound_of(const ProgramLifetimes& lifetimes, index_t alignment = buffer_alignment);

/// Bytes that an instruction needs; see lower_bound_of().
index_t needed_at(const ProgramLifetimes& lifetimes, std::int32_t instruction, index_t alignment = buffer_alignment);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>
#    include <memory>

#    include "intq/runtime/data_flow.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::vector<runtime::Lifetime> tensor_lives(const runtime::Program& program) {
    const auto end = static_cast<std::int32_t>(program.instructions.size());
    std::vector<runtime::Lifetime> lives;
    for (const runtime::ProgramTensor& tensor : program.tensors) lives.push_back({tensor.arena_bytes(), end, -1, 0});
    const auto touch = [&](std::int32_t tensor, std::int32_t when) {
        runtime::Lifetime& life = lives[static_cast<std::size_t>(tensor)];
        life.first = (std::min)(life.first, when);
        life.last = (std::max)(life.last, when);
    };
    for (const std::int32_t tensor : program.inputs) touch(tensor, -1);
    for (const std::int32_t tensor : program.outputs) touch(tensor, end);
    // State stays from run to run.
    for (const runtime::StatePair& state : program.states)
        for (const std::int32_t tensor : {state.input, state.output}) touch(tensor, -1), touch(tensor, end);
    for (std::int32_t i = 0; i < end; ++i) {
        const runtime::Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
        // All of a group is needed as long as any of it runs.
        const runtime::RowGroup* const group = instruction.rows > 0 ? program.group_of(i) : nullptr;
        for (const std::int32_t when : {group != nullptr ? group->first : i, group != nullptr ? group->last() : i}) {
            touch(instruction.output, when);
            for (const std::int32_t operand : program.operands_of(instruction)) touch(operand, when);
        }
    }
    return lives;
}

/// The operand whose place the output of an instruction may take; the output itself where there is none.
INTQ_INLINE std::int32_t place_of_output(const runtime::Program& program, const ProgramLifetimes& lives,
                                         std::size_t at) {
    const runtime::Instruction& instruction = program.instructions[at];
    const kernels::ProgramOperator* const row = kernels::find_operator(instruction.op);
    if (row == nullptr || row->runs_in_place == nullptr || instruction.rows > 0 ||
        !row->runs_in_place(instruction.params))
        return instruction.output;
    const auto operands = program.operands_of(instruction);
    for (const std::int32_t operand : row->in_place_of_first ? operands.first(1) : operands) {
        const runtime::Lifetime& life = lives.tensors[static_cast<std::size_t>(operand)];
        if (program.tensor(operand).is_given() || program.tensor(operand).holds_sums()) continue;
        const bool dies = life.last == static_cast<std::int32_t>(at) && operand != instruction.output;
        if (dies && life.bytes == lives.tensors[static_cast<std::size_t>(instruction.output)].bytes) return operand;
    }
    return instruction.output;
}

}  // namespace detail

INTQ_INLINE ProgramLifetimes lifetimes_of(const runtime::Program& program, const kernels::KernelTable& table) {
    ProgramLifetimes lives;
    lives.tensors = detail::tensor_lives(program);
    lives.edges = lives.tensors;
    for (std::size_t i = 0; i < lives.tensors.size(); ++i) lives.edge_of.push_back(i);
    for (const runtime::StatePair& state : program.states) {
        lives.edge_of[static_cast<std::size_t>(state.output)] = static_cast<std::size_t>(state.input);
        lives.edges[static_cast<std::size_t>(state.output)].bytes = 0;
    }
    runtime::Lifetime scratch{0, static_cast<std::int32_t>(program.instructions.size()), -1, 0};
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        const runtime::Instruction& instruction = program.instructions[i];
        const auto output = static_cast<std::size_t>(instruction.output);
        const auto place = static_cast<std::size_t>(detail::place_of_output(program, lives, i));
        if (place != output && lives.edge_of[output] == output) {
            const std::size_t edge = lives.edge_of[output] = lives.edge_of[place];
            lives.edges[edge].last = (std::max)(lives.edges[edge].last, lives.tensors[output].last);
            lives.edges[output].bytes = 0;
        }
        const runtime::ArenaRange range = runtime::workspace_of(program, table, instruction);
        lives.workspaces.push_back(range.last - range.first);
        if (lives.workspaces.back() == 0) continue;
        scratch.bytes = (std::max)(scratch.bytes, lives.workspaces.back());
        scratch.first = (std::min)(scratch.first, static_cast<std::int32_t>(i));
        scratch.last = (std::max)(scratch.last, static_cast<std::int32_t>(i));
    }
    lives.edges.push_back(scratch);
    return lives;
}

namespace detail {

INTQ_INLINE index_t place_edges(std::vector<runtime::Lifetime>& edges) {
    const auto placed = std::make_unique<bool[]>(edges.size());
    return runtime::plan_memory(edges, std::span<bool>(placed.get(), edges.size()));
}

/// The edges with the scratch at offset 0, and the bytes of their arena.
INTQ_INLINE index_t place_above_scratch(const std::vector<index_t>& workspaces, std::vector<runtime::Lifetime>& edges) {
    for (runtime::Lifetime& edge : edges)
        for (std::size_t i = 0; i < workspaces.size(); ++i)
            if (edge.lives_at(static_cast<std::int32_t>(i)))
                edge.lowest = (std::max)(edge.lowest, round_up(workspaces[i], buffer_alignment));
    runtime::Lifetime& scratch = edges.back();
    const index_t bytes = scratch.bytes;
    scratch.bytes = scratch.lowest = 0;
    const index_t arena = place_edges(edges);
    scratch.bytes = bytes;
    scratch.offset = 0;
    return (std::max)(arena, round_up(bytes, buffer_alignment));
}

}  // namespace detail

INTQ_INLINE index_t plan(ProgramLifetimes& lives) {
    std::vector<runtime::Lifetime> above = lives.edges;
    index_t arena = detail::place_edges(lives.edges);
    if (const index_t other = detail::place_above_scratch(lives.workspaces, above); other < arena) {
        lives.edges = above;
        arena = other;
    }
    for (std::size_t i = 0; i < lives.tensors.size(); ++i)
        lives.tensors[i].offset = lives.edges[lives.edge_of[i]].offset;
    return arena;
}

INTQ_INLINE void place_in_arena(runtime::Program& program, std::span<runtime::ProgramTensor> tensors,
                                const kernels::KernelTable& table) {
    ProgramLifetimes lives = lifetimes_of(program, table);
    program.arena_size = plan(lives);
    for (std::size_t i = 0; i < tensors.size(); ++i)
        if (!tensors[i].is_given()) tensors[i].offset = lives.tensors[i].offset;
    program.workspace_size = lives.edges.back().bytes;
    program.workspace_offset = lives.edges.back().offset;
}

INTQ_INLINE index_t needed_at(const ProgramLifetimes& lives, std::int32_t instruction, index_t alignment) {
    const std::span<const runtime::Lifetime> edges(lives.edges.data(), lives.edges.size() - 1);
    const bool is_one = instruction >= 0 && static_cast<std::size_t>(instruction) < lives.workspaces.size();
    const index_t scratch = is_one ? lives.workspaces[static_cast<std::size_t>(instruction)] : 0;
    return runtime::live_bytes(edges, instruction, alignment) + round_up(scratch, alignment);
}

INTQ_INLINE index_t lower_bound_of(const ProgramLifetimes& lives, index_t alignment) {
    index_t most = 0;
    for (std::int32_t i = -1; i <= static_cast<std::int32_t>(lives.workspaces.size()); ++i)
        most = (std::max)(most, needed_at(lives, i, alignment));
    return most;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_LIFETIMES_HPP
