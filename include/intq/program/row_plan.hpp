// SPDX-License-Identifier: MIT
//
// The planner of rows: which instructions of a program run row by row together, so that tensors between them are rings
// of a few rows. Layer: program (docs/rows.md).
#ifndef INTQ_PROGRAM_ROW_PLAN_HPP
#define INTQ_PROGRAM_ROW_PLAN_HPP

#include <cstdint>
#include <span>
#include <vector>

#include "intq/kernels/table/rows.hpp"
#include "intq/runtime/program.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// Whether instructions of a program run row by row.
enum class RowMode : std::uint8_t {
    off,     // one instruction after the other, on whole tensors
    memory,  // groups that make the arena small
    speed    // groups whose rings and weights stay in a cache, where tensors do not
};

struct RowOptions {
    RowMode mode = RowMode::off;
    index_t arena = 0;  // of memory: bytes that the arena may have; where no plan is as small, the smallest is taken
    index_t cache = 0;  // of speed: bytes of the cache, as L2 of one core; nothing asks the machine
    int threads = 1;    // of speed: that share each call of a kernel, and so each step of a group
};

/// The groups of a program, and what they change of its instructions and tensors.
struct RowPlan {
    std::vector<runtime::RowGroup> groups;
    std::vector<std::int16_t> rows;   // of each instruction
    std::vector<std::int16_t> rings;  // of each tensor

    /// Writes the plan into the lists of a program; their owner plans the arena then.
    void apply(std::span<runtime::Instruction> instructions, std::span<runtime::ProgramTensor> tensors) const;
};

/// Finds the plan with the least memory, or with the least time.
///
///     bytes of a group = tensors that live then, rings of its other tensors, and the scratch of a step
///     time of a run    = bytes of whole tensors that it reads and writes beyond the cache + steps · step_bytes
///
/// A group is a run of instructions. For memory, a dynamic program over where a run ends finds the smallest peak, and
/// then, among the plans with that peak or as many bytes as the arena may have, the one with the fewest steps. Last,
/// instructions make as many rows at a time as that allows.
///
/// For speed, the dynamic program finds the least time, for one row at a time and for 2, 4, … 64. A run's whole tensors
/// are beyond the cache where what lives then, and its weights, are larger than the cache. Rings, scratch and weights
/// of a group take half of the cache at most. A step costs as much as moving 8 KiB; where threads share it, 40, because
/// they meet behind it. No thread has rings of its own: a step has the rows that keep all of them busy, and nothing is
/// computed twice.
///
/// @param program  its groups and rings are not read; an input that a caller gives takes no bytes
/// @return no groups where the arena on whole tensors is as small, or has no more than RowOptions::arena; for speed,
///         where no group saves time
/// @throws Error for a mode that is none, a negative arena, and speed without the bytes of a cache or without a thread
/// @pre  every instruction is checked
///
/// Cost  a few schedules for each instruction
RowPlan plan_rows(const runtime::Program& program, const kernels::KernelTable& table, const RowOptions& options);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>
#    include <string>

#    include "intq/io/error.hpp"
#    include "intq/program/internal/row_costs.hpp"
#    include "intq/program/lifetimes.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Sets the rows, rings, sums and scratch of a group of a plan.
INTQ_INLINE void fill(const RowCosts& costs, RowPlan& plan, runtime::RowGroup& group) {
    const auto needs = costs.needs(group);
    group.workspace = 0;
    for (std::int32_t i = group.first; i <= group.last(); ++i) {
        const runtime::RowNeeds& of = needs[static_cast<std::size_t>(i - group.first)];
        const runtime::Instruction& instruction = costs.program().instructions[static_cast<std::size_t>(i)];
        const auto output = static_cast<std::size_t>(instruction.output);
        plan.rows[static_cast<std::size_t>(i)] = instruction.rows;
        group.workspace = (std::max)(group.workspace, of.workspace);
        if (costs.is_inner(group, instruction.output))
            plan.rings[output] = static_cast<std::int16_t>(of.rows);
        else if (costs.program().tensors[output].holds_sums())
            plan.rings[output] = kernels::sums_of_rows;
    }
}

/// A run of instructions that ends a plan: a group, or one instruction alone, of count 1 and without rows.
struct RowChoice {
    std::int32_t first = 0;
    bool is_group = false;
    RowCost cost{};  // of all instructions up to its end: the peak, and the sum of steps
};

enum class RowGoal : std::uint8_t { bytes, steps, time };  // bytes: and then steps

/// The best choice for each end, where no run may need more than `most` bytes.
INTQ_INLINE std::vector<RowChoice> choose_runs(RowCosts& costs, index_t most, RowGoal goal) {
    const auto is_better = [goal](const RowCost& a, const RowCost& b) {
        if (goal == RowGoal::time) return a.moved < b.moved;
        if (goal == RowGoal::bytes && a.bytes != b.bytes) return a.bytes < b.bytes;
        return a.steps < b.steps;
    };
    std::vector<RowChoice> best(static_cast<std::size_t>(costs.size()));
    for (std::int32_t last = 0; last < costs.size(); ++last) {
        RowChoice& chosen = best[static_cast<std::size_t>(last)];
        chosen.cost.bytes = PTRDIFF_MAX;
        const auto consider = [&](std::int32_t first, bool is_group, RowCost cost) {
            const RowCost before = first == 0 ? RowCost{} : best[static_cast<std::size_t>(first - 1)].cost;
            if (cost.bytes > most || before.bytes == PTRDIFF_MAX || cost.moved >= PTRDIFF_MAX / 2) return;
            const RowCost all{(std::max)(before.bytes, cost.bytes), before.steps + cost.steps,
                              before.moved + cost.moved};
            if (chosen.cost.bytes == PTRDIFF_MAX || is_better(all, chosen.cost)) chosen = {first, is_group, all};
        };
        consider(last, false, costs.alone(last));
        const std::int32_t first = costs.first_of(last);
        if (first >= last) continue;
        const auto needs = costs.needs({first, last - first + 1});
        for (std::int32_t begin = last - 1; begin >= first; --begin) {
            const runtime::RowGroup group{begin, last - begin + 1};
            if (costs.reads_sums(group)) break;
            consider(begin, true, costs.cost(group, needs));
        }
    }
    return best;
}

/// The groups of the chosen runs, with the rows that their instructions make now.
INTQ_INLINE RowPlan plan_of(const RowCosts& costs, const std::vector<RowChoice>& chosen) {
    RowPlan plan;
    for (std::int32_t last = costs.size() - 1; last >= 0;) {
        const RowChoice& run = chosen[static_cast<std::size_t>(last)];
        if (run.is_group) plan.groups.insert(plan.groups.begin(), {run.first, last - run.first + 1});
        last = run.first - 1;
    }
    plan.rows.resize(static_cast<std::size_t>(costs.size()));
    plan.rings.resize(costs.program().tensors.size());
    for (runtime::RowGroup& group : plan.groups) fill(costs, plan, group);
    return plan;
}

/// The bytes of the arena of a plan.
INTQ_INLINE index_t arena_of(const runtime::Program& program, const kernels::KernelTable& table, const RowPlan& plan) {
    std::vector<runtime::Instruction> instructions(program.instructions.begin(), program.instructions.end());
    std::vector<runtime::ProgramTensor> tensors(program.tensors.begin(), program.tensors.end());
    plan.apply(instructions, tensors);
    runtime::Program planned = program;
    planned.instructions = instructions;
    planned.tensors = tensors;
    planned.groups = plan.groups;
    ProgramLifetimes lives = lifetimes_of(planned, table);
    return program::plan(lives);
}

/// Lets an instruction make twice as many rows at a time, if the arena has no more than `most` bytes then.
INTQ_INLINE bool raise_rows_of(RowCosts& costs, const runtime::Program& program, const kernels::KernelTable& table,
                               RowPlan& plan, std::int32_t instruction, index_t most) {
    std::int16_t& rows = costs.rows(instruction);
    const std::int16_t before = rows;
    if (before >= costs.height(instruction)) return false;
    const RowPlan tried = plan;
    rows = static_cast<std::int16_t>((std::min)(index_t{before} * 2, costs.height(instruction)));
    for (runtime::RowGroup& group : plan.groups)
        if (group.first <= instruction && instruction <= group.last()) fill(costs, plan, group);
    if (arena_of(program, table, plan) <= most) return true;
    rows = before;
    plan = tried;
    return false;
}

/// Lets instructions make more rows at a time: first as many as their kernels compute together, then twice as many in
/// each round.
INTQ_INLINE void raise_rows(RowCosts& costs, const runtime::Program& program, const kernels::KernelTable& table,
                            RowPlan& plan, index_t most) {
    for (bool has_changed = true, is_first = true; has_changed || is_first; is_first = false) {
        has_changed = false;
        for (std::size_t g = 0; g < plan.groups.size(); ++g)
            for (std::int32_t i = plan.groups[g].last(); i >= plan.groups[g].first; --i)
                if (!is_first || costs.rows(i) < costs.rows_together(i))
                    has_changed |= raise_rows_of(costs, program, table, plan, i, most);
    }
}

INTQ_INLINE RowPlan plan_for_memory(const runtime::Program& program, const kernels::KernelTable& table, index_t most,
                                    const RowPlan& whole) {
    RowCosts costs(program, table);
    const index_t least = choose_runs(costs, PTRDIFF_MAX - 1, RowGoal::bytes).back().cost.bytes;
    RowPlan plan = plan_of(costs, choose_runs(costs, least, RowGoal::steps));
    const index_t smallest = arena_of(program, table, plan);
    if (smallest < most) {
        const RowPlan larger = plan_of(costs, choose_runs(costs, most, RowGoal::steps));
        if (arena_of(program, table, larger) <= most) plan = larger;
    }
    raise_rows(costs, program, table, plan, (std::max)(smallest, most));
    const index_t arena = arena_of(program, table, plan), on_whole = arena_of(program, table, whole);
    return on_whole <= (std::max)(arena, most) ? whole : plan;
}

INTQ_INLINE RowPlan plan_for_speed(const runtime::Program& program, const kernels::KernelTable& table,
                                   const RowOptions& options) {
    constexpr index_t most_rows = 64;
    RowCosts costs(program, table, {options.cache, step_bytes(options.threads)});
    RowPlan best;
    index_t least = PTRDIFF_MAX;
    for (index_t rows = 1; rows <= most_rows; rows *= 2) {
        costs.set_rows(rows);
        const std::vector<RowChoice> chosen = choose_runs(costs, PTRDIFF_MAX - 1, RowGoal::time);
        if (chosen.back().cost.moved >= least) continue;
        least = chosen.back().cost.moved;
        best = plan_of(costs, chosen);
    }
    return best;
}

}  // namespace detail

INTQ_INLINE void RowPlan::apply(std::span<runtime::Instruction> instructions,
                                std::span<runtime::ProgramTensor> tensors) const {
    for (std::size_t i = 0; i < instructions.size(); ++i) instructions[i].rows = rows.at(i);
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].ring = rings.at(i);
}

INTQ_INLINE RowPlan plan_rows(const runtime::Program& program, const kernels::KernelTable& table,
                              const RowOptions& options) {
    const RowPlan whole{
        {}, std::vector<std::int16_t>(program.instructions.size()), std::vector<std::int16_t>(program.tensors.size())};
    if (options.mode != RowMode::off && options.mode != RowMode::memory && options.mode != RowMode::speed)
        throw Error("rows have no mode " + std::to_string(static_cast<int>(options.mode)));
    if (options.arena < 0)
        throw Error("the arena of rows cannot have " + std::to_string(options.arena) + " bytes; 0 is the smallest");
    if (options.mode == RowMode::speed && options.cache < 1)
        throw Error("rows for speed need the bytes of a cache, given " + std::to_string(options.cache));
    if (options.mode == RowMode::speed && options.threads < 1)
        throw Error("rows for speed need a thread, given " + std::to_string(options.threads));
    if (options.mode == RowMode::off || program.instructions.empty()) return whole;
    return options.mode == RowMode::speed ? detail::plan_for_speed(program, table, options)
                                          : detail::plan_for_memory(program, table, options.arena, whole);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_ROW_PLAN_HPP
