// SPDX-License-Identifier: MIT
//
// What runs of instructions cost as groups of rows: memory, calls, and the bytes that a cache does not hold.
// Layer: program (docs/rows.md).
#ifndef INTQ_PROGRAM_INTERNAL_ROW_COSTS_HPP
#define INTQ_PROGRAM_INTERNAL_ROW_COSTS_HPP

#include <cstdint>
#include <span>
#include <vector>

#include "intq/program/lifetimes.hpp"
#include "intq/runtime/row_schedule.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

/// What a plan takes: bytes, calls of operators, and for speed the bytes that its time is counted in.
struct RowCost {
    index_t bytes = 0;
    index_t steps = 0;
    index_t moved = 0;
};
/// Bytes that move from beyond a cache while a step begins: a quarter of a microsecond of a large core. Threads that
/// share it meet behind it, which takes another one to two microseconds (ThreadPool).
constexpr index_t step_bytes(int threads) noexcept { return threads > 1 ? 40960 : 8192; }

/// What costs of time depend on.
struct TimeModel {
    index_t cache = 0;       // bytes; 0: no time is asked for
    index_t step_bytes = 0;  // that move while a step begins
};

/// Costs of runs of instructions.
class RowCosts {
public:
    RowCosts(const runtime::Program& program, const kernels::KernelTable& table, const TimeModel& time = {});

    std::int32_t size() const { return static_cast<std::int32_t>(instructions_.size()); }
    const runtime::Program& program() const { return program_; }
    /// The first instruction of the longest run that ends with one and can be a group.
    std::int32_t first_of(std::int32_t last) const;
    /// Of one instruction that is in no group.
    RowCost alone(std::int32_t instruction) const;
    /// What the instructions of a group need where they make one row at a time, or rows(): also that of every group
    /// which begins behind its first one.
    std::vector<runtime::RowNeeds> needs(const runtime::RowGroup& group) const;
    RowCost cost(const runtime::RowGroup& group, std::span<const runtime::RowNeeds> needs) const;
    /// Lets every instruction make so many rows at a time, or all of an image.
    void set_rows(index_t rows);
    /// Rows of a group's instruction, at a time.
    std::int16_t& rows(std::int32_t instruction) { return instructions_[static_cast<std::size_t>(instruction)].rows; }
    index_t height(std::int32_t instruction) const {
        const runtime::Instruction& of = instructions_[static_cast<std::size_t>(instruction)];
        return program_.tensor(of.output).shape.rank == 4 ? runtime::height_of(program_, of) : 1;
    }
    /// Rows that the kernel of an instruction computes together.
    index_t rows_together(std::int32_t instruction) const;
    /// Whether an instruction of a group reads what the first one adds up.
    bool reads_sums(const runtime::RowGroup& group) const;
    /// Whether only the instructions of a group need a tensor, of which then some rows are enough.
    bool is_inner(const runtime::RowGroup& group, std::int32_t tensor) const;

private:
    /// Bytes of an instruction's arrays of constants.
    index_t weights_of(const runtime::Instruction& instruction) const;
    /// Bytes of the whole tensors that an instruction of a group reads and writes; of one alone, of all.
    index_t whole_bytes(const runtime::Instruction& instruction, const runtime::RowGroup& group) const;

    std::vector<runtime::Instruction> instructions_;
    std::vector<runtime::ProgramTensor> tensors_;
    runtime::Program program_;
    const kernels::KernelTable& table_;
    TimeModel time_;
    ProgramLifetimes lives_;
    std::vector<index_t> weights_;  // bytes of each instruction's
};

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>

#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/operator_table.hpp"
#    include "intq/runtime/program_file.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {
namespace detail {

INTQ_INLINE RowCosts::RowCosts(const runtime::Program& program, const kernels::KernelTable& table,
                               const TimeModel& time)
    : instructions_(program.instructions.begin(), program.instructions.end()),
      tensors_(program.tensors.begin(), program.tensors.end()),
      program_(program),
      table_(table),
      time_(time) {
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
        if (time.cache > 0) weights_.push_back(weights_of(instruction));
    }
}

INTQ_INLINE void RowCosts::set_rows(index_t rows) {
    for (std::int32_t i = 0; i < size(); ++i)
        this->rows(i) = static_cast<std::int16_t>((std::min)(rows, (std::max)(height(i), index_t{1})));
}

INTQ_INLINE index_t RowCosts::weights_of(const runtime::Instruction& instruction) const {
    index_t bytes = 0;
    const auto add = [](void* sum, const kernels::ParamField& field) {
        if (field.memory != nullptr && *field.memory != nullptr)
            *static_cast<index_t*>(sum) += field.count * size_of(field.type);
    };
    const kernels::ProgramOperator& row = *kernels::find_operator(instruction.op);
    for (index_t i = 0; i < runtime::param_structs(row, instruction.operand_count); ++i)
        throw_if_failed(row.params.visit(static_cast<const std::byte*>(instruction.params.data) + i * row.params.size,
                                         nullptr, {&table_.packing}, {&bytes, add, nullptr}),
                        instruction.name);
    return bytes;
}

INTQ_INLINE index_t RowCosts::whole_bytes(const runtime::Instruction& instruction,
                                          const runtime::RowGroup& group) const {
    index_t bytes = 0;
    const auto add = [&](std::int32_t tensor) {
        if (group.count == 1 || !is_inner(group, tensor))
            bytes += lives_.tensors[static_cast<std::size_t>(tensor)].bytes;
    };
    for (const std::int32_t operand : program_.operands_of(instruction)) add(operand);
    add(instruction.output);
    return bytes;
}

INTQ_INLINE RowCost RowCosts::alone(std::int32_t instruction) const {
    const index_t bytes = needed_at(lives_, instruction);
    if (time_.cache == 0) return {bytes, 1};
    const bool fits = bytes + weights_[static_cast<std::size_t>(instruction)] <= time_.cache;
    const runtime::Instruction& of = instructions_[static_cast<std::size_t>(instruction)];
    return {bytes, 1, time_.step_bytes + (fits ? 0 : whole_bytes(of, {instruction, 1}))};
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
    index_t workspace = 0, weights = 0, whole = 0;
    for (std::int32_t i = group.first; i <= group.last(); ++i) {
        const runtime::Instruction& instruction = instructions_[static_cast<std::size_t>(i)];
        const runtime::RowNeeds& of = needs[needs.size() - static_cast<std::size_t>(group.last() - i + 1)];
        const runtime::ProgramTensor& y = program_.tensor(instruction.output);
        workspace = (std::max)(workspace, of.workspace);
        cost.steps += runtime::steps_of(program_, instruction);
        if (time_.cache > 0) {
            weights += weights_[static_cast<std::size_t>(i)];
            whole += whole_bytes(instruction, group);
        }
        if (is_inner(group, instruction.output))
            cost.bytes += round_up(of.rows * y.elements_per_row() * size_of(y.dtype), buffer_alignment);
    }
    const index_t held = cost.bytes + workspace + weights;
    for (std::size_t i = 0; i < lives_.tensors.size(); ++i) {
        const runtime::Lifetime& life = lives_.tensors[i];
        if (life.first > group.last() || life.last < group.first || is_inner(group, static_cast<std::int32_t>(i)))
            continue;
        const bool are_sums = program_.tensors[i].holds_sums() && life.first >= group.first;
        cost.bytes += round_up(are_sums ? program_.tensors[i].arena_bytes() : life.bytes, buffer_alignment);
    }
    cost.bytes += round_up(workspace, buffer_alignment);
    if (time_.cache > 0) {
        cost.moved = cost.steps * time_.step_bytes + (cost.bytes + weights <= time_.cache ? 0 : whole);
        if (held > time_.cache / 2) cost.moved = PTRDIFF_MAX / 2;
    }
    return cost;
}

INTQ_INLINE index_t RowCosts::rows_together(std::int32_t instruction) const {
    const runtime::Instruction& of = instructions_[static_cast<std::size_t>(instruction)];
    const auto together = kernels::find_operator(of.op)->rows_together;
    return together == nullptr ? 1 : together(runtime::call_of(program_, table_, of));
}

}  // namespace detail
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_INTERNAL_ROW_COSTS_HPP
