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
    off,    // one instruction after the other, on whole tensors
    memory  // groups that make the arena small
};

struct RowOptions {
    RowMode mode = RowMode::off;
    index_t arena = 0;  // bytes that the arena may have; where no plan is as small, the smallest is taken
};

/// The groups of a program, and what they change of its instructions and tensors.
struct RowPlan {
    std::vector<runtime::RowGroup> groups;
    std::vector<std::int16_t> rows;   // of each instruction
    std::vector<std::int16_t> rings;  // of each tensor

    /// Writes the plan into the lists of a program; their owner plans the arena then.
    void apply(std::span<runtime::Instruction> instructions, std::span<runtime::ProgramTensor> tensors) const;
};

/// Finds the plan with the least memory.
///
///     bytes of a group = tensors that live then, rings of its other tensors, and the scratch of a step
///
/// A group is a run of instructions. A dynamic program over where a run ends finds the smallest peak, and then, among
/// the plans with that peak or as many bytes as the arena may have, the one with the fewest steps. Last, instructions
/// make as many rows at a time as that allows.
///
/// @param program  its groups and rings are not read; an input that a caller gives takes no bytes
/// @param most     bytes that the arena may have
/// @return no groups where the arena on whole tensors is as small, or has no more than `most` bytes
/// @pre  every instruction is checked
///
/// Cost  a few schedules for each instruction
RowPlan plan_rows(const runtime::Program& program, const kernels::KernelTable& table, index_t most = 0);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>

#    include "intq/program/lifetimes.hpp"
#    include "intq/runtime/row_schedule.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// What a plan takes: bytes, and calls of operators.
struct RowCost {
    index_t bytes = 0;
    index_t steps = 0;
};

/// Costs of runs of instructions.
class RowCosts {
public:
    RowCosts(const runtime::Program& program, const kernels::KernelTable& table);

    std::int32_t size() const { return static_cast<std::int32_t>(instructions_.size()); }
    const runtime::Program& program() const { return program_; }
    /// The first instruction of the longest run that ends with one and can be a group.
    std::int32_t first_of(std::int32_t last) const;
    /// Of one instruction that is in no group.
    RowCost alone(std::int32_t instruction) const { return {needed_at(lives_, instruction), 1}; }
    /// What the instructions of a group need where they make one row at a time, or rows(): also that of every group
    /// which begins behind its first one.
    std::vector<runtime::RowNeeds> needs(const runtime::RowGroup& group) const;
    RowCost cost(const runtime::RowGroup& group, std::span<const runtime::RowNeeds> needs) const;
    /// Rows of a group's instruction, at a time.
    std::int16_t& rows(std::int32_t instruction) { return instructions_[static_cast<std::size_t>(instruction)].rows; }
    index_t height(std::int32_t instruction) const {
        return runtime::height_of(program_, instructions_[static_cast<std::size_t>(instruction)]);
    }
    /// Rows that the kernel of an instruction computes together.
    index_t rows_together(std::int32_t instruction) const;
    /// Sets the rows, rings, sums and scratch of a group of a plan.
    void fill(RowPlan& plan, runtime::RowGroup& group) const;
    /// Whether an instruction of a group reads what the first one adds up.
    bool reads_sums(const runtime::RowGroup& group) const;
    /// Whether only the instructions of a group need a tensor, of which then some rows are enough.
    bool is_inner(const runtime::RowGroup& group, std::int32_t tensor) const;

private:
    std::vector<runtime::Instruction> instructions_;
    std::vector<runtime::ProgramTensor> tensors_;
    runtime::Program program_;
    const kernels::KernelTable& table_;
    ProgramLifetimes lives_;
};

INTQ_INLINE RowCosts::RowCosts(const runtime::Program& program, const kernels::KernelTable& table)
    : instructions_(program.instructions.begin(), program.instructions.end()),
      tensors_(program.tensors.begin(), program.tensors.end()),
      program_(program),
      table_(table) {
    for (runtime::Instruction& instruction : instructions_) instruction.rows = 0;
    for (runtime::ProgramTensor& tensor : tensors_) tensor.ring = 0;
    program_.instructions = instructions_;
    program_.tensors = tensors_;
    program_.groups = {};
    lives_ = lifetimes_of(program_, table);
    for (runtime::Instruction& instruction : instructions_) {
        instruction.rows = 1;
        const kernels::ProgramOperator& row = *kernels::find_operator(instruction.op);
        if (row.adds_rows != nullptr && row.adds_rows(runtime::call_of(program_, table, instruction)))
            tensors_[static_cast<std::size_t>(instruction.output)].ring = kernels::sums_of_rows;
    }
}

INTQ_INLINE bool RowCosts::reads_sums(const runtime::RowGroup& group) const {
    const std::int32_t sums = instructions_[static_cast<std::size_t>(group.first)].output;
    if (!program_.tensor(sums).holds_sums()) return false;
    for (std::int32_t i = group.first; i <= group.last(); ++i)
        if (std::ranges::count(program_.operands_of(instructions_[static_cast<std::size_t>(i)]), sums) > 0) return true;
    return false;
}

INTQ_INLINE std::int32_t RowCosts::first_of(std::int32_t last) const {
    std::int32_t first = last + 1;
    while (first > 0 && last - first + 2 <= runtime::most_group_instructions &&
           runtime::runs_by_rows(program_, table_, instructions_[static_cast<std::size_t>(first - 1)]))
        --first;
    return first;
}

INTQ_INLINE std::vector<runtime::RowNeeds> RowCosts::needs(const runtime::RowGroup& group) const {
    std::vector<runtime::RowNeeds> needs(static_cast<std::size_t>(group.count));
    runtime::measure_group(program_, table_, group, needs.data());
    return needs;
}

INTQ_INLINE bool RowCosts::is_inner(const runtime::RowGroup& group, std::int32_t tensor) const {
    const runtime::Lifetime& life = lives_.tensors[static_cast<std::size_t>(tensor)];
    const runtime::ProgramTensor& of = program_.tensor(tensor);
    return life.first >= group.first && life.last <= group.last() && !of.has_stated_bounds && !of.holds_sums();
}

INTQ_INLINE RowCost RowCosts::cost(const runtime::RowGroup& group, std::span<const runtime::RowNeeds> needs) const {
    RowCost cost;
    index_t workspace = 0;
    for (std::int32_t i = group.first; i <= group.last(); ++i) {
        const runtime::Instruction& instruction = instructions_[static_cast<std::size_t>(i)];
        const runtime::RowNeeds& of = needs[needs.size() - static_cast<std::size_t>(group.last() - i + 1)];
        const runtime::ProgramTensor& y = program_.tensor(instruction.output);
        workspace = (std::max)(workspace, of.workspace);
        cost.steps += (height(i) + instruction.rows - 1) / instruction.rows;
        if (is_inner(group, instruction.output))
            cost.bytes += round_up(of.rows * y.elements_per_row() * size_of(y.dtype), buffer_alignment);
    }
    for (std::size_t i = 0; i < lives_.tensors.size(); ++i) {
        const runtime::Lifetime& life = lives_.tensors[i];
        if (life.first > group.last() || life.last < group.first || is_inner(group, static_cast<std::int32_t>(i)))
            continue;
        const bool are_sums = program_.tensors[i].holds_sums() && life.first >= group.first;
        cost.bytes += round_up(are_sums ? program_.tensors[i].arena_bytes() : life.bytes, buffer_alignment);
    }
    cost.bytes += round_up(workspace, buffer_alignment);
    return cost;
}

INTQ_INLINE index_t RowCosts::rows_together(std::int32_t instruction) const {
    const runtime::Instruction& of = instructions_[static_cast<std::size_t>(instruction)];
    const auto together = kernels::find_operator(of.op)->rows_together;
    return together == nullptr ? 1 : together(runtime::call_of(program_, table_, of));
}

INTQ_INLINE void RowCosts::fill(RowPlan& plan, runtime::RowGroup& group) const {
    const auto needs = this->needs(group);
    group.workspace = 0;
    for (std::int32_t i = group.first; i <= group.last(); ++i) {
        const runtime::RowNeeds& of = needs[static_cast<std::size_t>(i - group.first)];
        const runtime::Instruction& instruction = instructions_[static_cast<std::size_t>(i)];
        const auto output = static_cast<std::size_t>(instruction.output);
        plan.rows[static_cast<std::size_t>(i)] = instruction.rows;
        group.workspace = (std::max)(group.workspace, of.workspace);
        if (is_inner(group, instruction.output))
            plan.rings[output] = static_cast<std::int16_t>(of.rows);
        else if (program_.tensors[output].holds_sums())
            plan.rings[output] = kernels::sums_of_rows;
    }
}

/// A run of instructions that ends a plan: a group, or one instruction alone, of count 1 and without rows.
struct RowChoice {
    std::int32_t first = 0;
    bool is_group = false;
    RowCost cost{};  // of all instructions up to its end: the peak, and the sum of steps
};

/// The best choice for each end, where no run may need more than `most` bytes; by bytes and then by steps, or by steps.
INTQ_INLINE std::vector<RowChoice> choose_runs(RowCosts& costs, index_t most, bool by_steps) {
    std::vector<RowChoice> best(static_cast<std::size_t>(costs.size()));
    for (std::int32_t last = 0; last < costs.size(); ++last) {
        RowChoice& chosen = best[static_cast<std::size_t>(last)];
        chosen.cost.bytes = PTRDIFF_MAX;
        const auto consider = [&](std::int32_t first, bool is_group, RowCost cost) {
            const RowCost before = first == 0 ? RowCost{} : best[static_cast<std::size_t>(first - 1)].cost;
            const RowCost all{(std::max)(before.bytes, cost.bytes), before.steps + cost.steps};
            if (cost.bytes > most || before.bytes == PTRDIFF_MAX) return;
            const bool is_smaller = all.bytes < chosen.cost.bytes, is_equal = all.bytes == chosen.cost.bytes;
            const bool has_fewer = all.steps < chosen.cost.steps;
            if (chosen.cost.bytes == PTRDIFF_MAX || (by_steps ? has_fewer : is_smaller || (is_equal && has_fewer)))
                chosen = {first, is_group, all};
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
    for (runtime::RowGroup& group : plan.groups) costs.fill(plan, group);
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
        if (group.first <= instruction && instruction <= group.last()) costs.fill(plan, group);
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

}  // namespace detail

INTQ_INLINE void RowPlan::apply(std::span<runtime::Instruction> instructions,
                                std::span<runtime::ProgramTensor> tensors) const {
    for (std::size_t i = 0; i < instructions.size(); ++i) instructions[i].rows = rows.at(i);
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].ring = rings.at(i);
}

INTQ_INLINE RowPlan plan_rows(const runtime::Program& program, const kernels::KernelTable& table, index_t most) {
    detail::RowCosts costs(program, table);
    const RowPlan whole{
        {}, std::vector<std::int16_t>(program.instructions.size()), std::vector<std::int16_t>(program.tensors.size())};
    if (costs.size() == 0) return whole;
    const index_t least = detail::choose_runs(costs, PTRDIFF_MAX - 1, false).back().cost.bytes;
    RowPlan plan = detail::plan_of(costs, detail::choose_runs(costs, least, true));
    const index_t smallest = detail::arena_of(program, table, plan);
    if (smallest < most) {
        const RowPlan larger = detail::plan_of(costs, detail::choose_runs(costs, most, true));
        if (detail::arena_of(program, table, larger) <= most) plan = larger;
    }
    detail::raise_rows(costs, program, table, plan, (std::max)(smallest, most));
    const index_t arena = detail::arena_of(program, table, plan), on_whole = detail::arena_of(program, table, whole);
    return on_whole <= (std::max)(arena, most) ? whole : plan;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_ROW_PLAN_HPP
