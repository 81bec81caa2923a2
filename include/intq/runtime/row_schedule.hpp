// SPDX-License-Identifier: MIT
//
// The order in which a group of instructions makes its rows, and the rows that its rings hold. Layer: runtime
// (docs/rows.md).
//
// The last instruction is asked for rows. An instruction that lacks rows of an operand asks the one that makes them,
// and so on: a row is made as late as possible, and a ring holds it no longer than its slowest reader needs it. What
// plans the rings, what checks them and what runs them follow this one schedule.
#ifndef INTQ_RUNTIME_ROW_SCHEDULE_HPP
#define INTQ_RUNTIME_ROW_SCHEDULE_HPP

#include <cstdint>

#include "intq/kernels/operators/operator_table.hpp"
#include "intq/runtime/data_flow.hpp"
#include "intq/runtime/program.hpp"

namespace intq::runtime {
inline namespace INTQ_CORE_ABI {

using kernels::RowBand;
using kernels::RowRange;

/// Instructions of a group, and operands of one of them. A run keeps its state on the stack.
inline constexpr std::int32_t most_group_instructions = 32;
inline constexpr std::int32_t most_row_operands = 8;
/// Rows of an image that a group takes: a check follows every step.
inline constexpr index_t most_group_rows = INT16_MAX;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::runtime

namespace intq::runtime {
inline namespace INTQ_ABI {

/// Whether an instruction can be one of a group: it reads and writes images, of which it writes them channels last, and
/// its operator computes some rows alone.
///
/// @pre the operator's check is ok
inline bool runs_by_rows(const Program& program, const kernels::KernelTable& table,
                         const Instruction& instruction) noexcept {
    const kernels::ProgramOperator* const row = kernels::find_operator(instruction.op);
    if (row == nullptr || row->runs_by_rows == nullptr || instruction.operand_count > most_row_operands) return false;
    const kernels::OperatorCall call = call_of(program, table, instruction);
    const auto is_image = [](const ProgramTensor& tensor) {
        return tensor.shape.rank == 4 && tensor.shape[2] <= most_group_rows;
    };
    if (!is_image(call.y()) || call.y().layout != Layout::channels_last) return false;
    for (index_t i = 0; i < call.operand_count(); ++i) {
        const ProgramTensor& x = call.x(i);
        if (!is_image(x)) return false;
        if (row->rows_of_operand == nullptr && x.shape[2] != 1 && x.shape[2] != call.y().shape[2]) return false;
    }
    return row->runs_by_rows(call);
}

/// Rows that an instruction of a group makes, or adds up.
inline index_t height_of(const Program& program, const Instruction& instruction) noexcept {
    const ProgramTensor& y = program.tensor(instruction.output);
    return (y.holds_sums() ? program.tensor(program.operands_of(instruction)[0]) : y).shape[2];
}

/// Calls in which an instruction of a group makes them, for one image.
inline index_t steps_of(const Program& program, const Instruction& instruction) noexcept {
    return (height_of(program, instruction) + instruction.rows - 1) / instruction.rows;
}

/// The rows of an operand that is read row for row; all of one with one row.
inline RowRange same_rows(const kernels::OperatorCall& call, index_t operand, RowRange rows) noexcept {
    return call.x(operand).shape[2] == 1 ? RowRange{0, 1} : rows;
}

/// The rows of an operand that a step of an instruction of a group reads.
inline RowRange rows_of_operand(const kernels::OperatorCall& call, index_t operand, RowRange rows) noexcept {
    if (call.y().holds_sums()) return rows;
    const kernels::ProgramOperator* const row = kernels::find_operator(call.op);
    return row->rows_of_operand != nullptr ? row->rows_of_operand(call, operand, rows) : same_rows(call, operand, rows);
}

/// The instructions of a program, as what runs a group asks for them: by the table of operators. A generated header has
/// another one, which links no operator that its model lacks.
struct ProgramOperators {
    const Program& program;
    const kernels::KernelTable& table;

    /// The rows of an operand that a step of an instruction reads.
    RowRange rows(std::int32_t instruction, index_t operand, RowRange rows) const noexcept {
        const Instruction& given = program.instructions[static_cast<std::size_t>(instruction)];
        return rows_of_operand(call_of(program, table, given), operand, rows);
    }
    /// Computes a step.
    static void run(std::int32_t, const kernels::OperatorCall& step) INTQ_NOEXCEPT {
        kernels::find_operator(step.op)->run(step);
    }
};

/// The steps of one run of a group: next() finds one, and finish() notes that its rows are made.
///
/// @tparam Operators  rows(instruction, operand, rows), as of ProgramOperators
///
/// Cost  some comparisons a step; less than 1 KB of the stack
template <class Operators> class RowSchedule {
public:
    /// @pre the group has at most most_group_instructions, all of which can be one of a group and state how many rows
    ///      they make at a time; an operand that one of them writes is read behind it
    RowSchedule(const Program& program, const Operators& operators, const RowGroup& group) noexcept
        : program_(program), operators_(operators), group_(group), root_(group.count - 1), current_(group.count - 1) {
        for (std::int32_t i = 0; i < group.count; ++i) {
            done_[i] = front_[i] = 0;
            height_[i] = static_cast<std::uint16_t>(height_of(program, instruction(i)));
            last_reader_[i] = static_cast<std::uint8_t>(i);
            for (const std::int32_t operand : program.operands_of(instruction(i)))
                if (const std::int32_t maker = maker_of(operand, i); maker >= 0)
                    last_reader_[maker] = static_cast<std::uint8_t>(i);
        }
    }

    /// Finds the next step; false behind the last one.
    bool next() noexcept {
        if (current_ != root_ && done_[current_] >= wanted_[current_]) current_ = asker_[current_];
        while (done_[root_] == height_[root_]) {
            if (root_ == 0) return false;
            current_ = --root_;
        }
        for (std::int32_t maker = lacking(); maker >= 0; maker = lacking()) {
            asker_[maker] = static_cast<std::uint8_t>(current_);
            current_ = maker;
        }
        return true;
    }
    void finish() noexcept { done_[current_] = static_cast<std::uint16_t>(rows_.last); }

    // --- of the step -------------------------------------------------------------------------------------------------

    /// Of the program.
    std::int32_t index() const noexcept { return group_.first + current_; }
    const Instruction& instruction() const noexcept { return instruction(current_); }
    /// Of the output; of the operand, where it is added up.
    RowRange rows() const noexcept { return rows_; }
    /// That operand i is read in.
    RowRange operand_rows(index_t i) const noexcept { return operand_rows_[i]; }
    const RowRange* operand_rows() const noexcept { return operand_rows_; }
    /// The first row that the ring of operand i holds, or that of the output.
    index_t front_of_operand(index_t i) const noexcept {
        const std::int32_t maker = maker_of(program_.operands_of(instruction())[static_cast<std::size_t>(i)], current_);
        return maker < 0 ? 0 : front_[maker];
    }
    index_t front() const noexcept { return front_[current_]; }
    /// Rows of the output that a ring must hold when the step is done: its own, and all before them from the first one
    /// on that a reader still needs.
    index_t rows_held() const noexcept { return rows_.last - first_needed(); }
    /// Whether a ring of so many rows must give up its first ones before the step.
    bool is_full(index_t ring) const noexcept { return rows_.last - front_[current_] > ring; }
    /// Gives up the rows that no reader needs any more.
    ///
    /// @return their number
    index_t drop_rows() noexcept {
        const index_t before = front_[current_], needed = first_needed();
        front_[current_] = static_cast<std::uint16_t>(needed);
        return needed - before;
    }

private:
    const Instruction& instruction(std::int32_t i) const noexcept {
        return program_.instructions[static_cast<std::size_t>(group_.first + i)];
    }
    /// The instruction of the group before `reader` that writes a tensor; -1 for none.
    std::int32_t maker_of(std::int32_t tensor, std::int32_t reader) const noexcept {
        while (--reader >= 0)
            if (instruction(reader).output == tensor) return reader;
        return -1;
    }
    /// Sets the rows of the current instruction's next step, and finds one that has to make some of them first.
    std::int32_t lacking() noexcept {
        const Instruction& given = instruction(current_);
        const index_t first = done_[current_], left = height_[current_] - first;
        rows_ = {first, first + (left < given.rows ? left : given.rows)};
        const auto operands = program_.operands_of(given);
        for (std::size_t i = 0; i < operands.size(); ++i) {
            operand_rows_[i] = operators_.rows(index(), static_cast<index_t>(i), rows_);
            const std::int32_t maker = maker_of(operands[i], current_);
            if (maker < 0 || done_[maker] >= operand_rows_[i].last) continue;
            wanted_[maker] = static_cast<std::uint16_t>(operand_rows_[i].last);
            return maker;
        }
        return -1;
    }
    /// The first row of the current instruction's output that a reader reads in its next step; those that are made
    /// where all have read all.
    index_t first_needed() const noexcept {
        const std::int32_t tensor = instruction().output;
        index_t needed = done_[current_];
        for (std::int32_t reader = current_ + 1; reader <= last_reader_[current_]; ++reader) {
            const auto operands = program_.operands_of(instruction(reader));
            for (std::size_t i = 0; i < operands.size(); ++i) {
                if (operands[i] != tensor || done_[reader] == height_[reader]) continue;
                const index_t row = done_[reader];
                const RowRange next{row, row + 1};
                const index_t first = operators_.rows(group_.first + reader, static_cast<index_t>(i), next).first;
                if (first < needed) needed = first;
            }
        }
        return needed;
    }

    const Program& program_;
    const Operators& operators_;
    RowGroup group_;
    std::int32_t root_, current_;  // the instruction that is asked for all its rows, and that of the step
    RowRange rows_{};
    RowRange operand_rows_[most_row_operands];
    std::uint16_t done_[most_group_instructions], front_[most_group_instructions], height_[most_group_instructions],
        wanted_[most_group_instructions];  // rows
    std::uint8_t asker_[most_group_instructions], last_reader_[most_group_instructions];
};

/// What a group needs for one of its instructions.
struct RowNeeds {
    index_t rows = 0;       // that a ring of its output holds at most
    index_t workspace = 0;  // bytes of scratch of a step
};

/// Follows a schedule to its end.
///
/// @param needs  receives those of each instruction of the group
/// @pre as RowSchedule
inline void measure_group(const Program& program, const kernels::KernelTable& table, const RowGroup& group,
                          RowNeeds* needs) noexcept {
    const ProgramOperators operators{program, table};
    RowSchedule schedule(program, operators, group);
    for (; schedule.next(); schedule.finish()) {
        RowNeeds& of = needs[schedule.index() - group.first];
        if (schedule.rows_held() > of.rows) of.rows = schedule.rows_held();
        schedule.drop_rows();
        const kernels::ProgramOperator* const row = kernels::find_operator(schedule.instruction().op);
        if (row->workspace_size == nullptr) continue;
        kernels::OperatorCall call = call_of(program, table, schedule.instruction());
        const RowBand band{schedule.rows(), nullptr, schedule.operand_rows(), nullptr};
        call.batch = 1;
        call.band = &band;
        if (const index_t bytes = row->workspace_size(call); bytes > of.workspace) of.workspace = bytes;
    }
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_ROW_SCHEDULE_HPP
