// SPDX-License-Identifier: MIT
//
// header_program: the program that a generated header holds, whose inputs are read where their caller has them.
// Layer: deploy.
#ifndef INTQ_DEPLOY_HEADER_PROGRAM_HPP
#define INTQ_DEPLOY_HEADER_PROGRAM_HPP

#include <vector>

#include "intq/deploy/program_writer.hpp"
#include "intq/kernels/table/rows.hpp"
#include "intq/program/row_plan.hpp"
#include "intq/runtime/program.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

/// A program with tensors, instructions and groups of its own; all else is that of the program from which it was made,
/// which must outlive it.
struct HeaderProgram {
    std::vector<runtime::ProgramTensor> tensors;
    std::vector<runtime::Instruction> instructions;
    std::vector<runtime::RowGroup> groups;
    runtime::Program program{};

    HeaderProgram() = default;
    HeaderProgram(HeaderProgram&&) noexcept = default;
    HeaderProgram& operator=(HeaderProgram&&) noexcept = default;
    HeaderProgram(const HeaderProgram&) = delete;
    HeaderProgram& operator=(const HeaderProgram&) = delete;
};

/// The same program with an arena that holds no input which can be read where the caller of run() has it
/// (program::can_be_given()). The self test reads such an input in the golden image, so all of them stay in the arena
/// where there are golden runs on patterns alone.
///
/// @param table   the kernels that the program was packed for
/// @param golden  the golden runs that the header will hold
/// @param rows    of a program with groups, which is planned again
/// @pre  check_program() is ok
///
/// Result   tensors with is_given(), the offsets of a new memory plan, and of a program with groups the groups of a new
///          plan of rows; the instructions compute the same
HeaderProgram header_program(const runtime::Program& program, const kernels::KernelTable& table,
                             const GoldenRecord& golden, const program::RowOptions& rows = {program::RowMode::memory});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(deploy)

#    include <utility>

#    include "intq/program/given_inputs.hpp"
#    include "intq/program/lifetimes.hpp"

namespace intq::deploy {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE HeaderProgram header_program(const runtime::Program& program, const kernels::KernelTable& table,
                                         const GoldenRecord& golden, const program::RowOptions& rows) {
    HeaderProgram result;
    result.tensors.assign(program.tensors.begin(), program.tensors.end());
    result.instructions.assign(program.instructions.begin(), program.instructions.end());
    result.groups.assign(program.groups.begin(), program.groups.end());
    result.program = program;
    result.program.tensors = result.tensors;
    result.program.instructions = result.instructions;
    result.program.groups = result.groups;
    if (golden.count == 0 && golden.patterns > 0) return result;
    index_t place = 0;  // of the input among those of a golden run, which lie one behind the other
    const index_t run_bytes = golden.view().input_bytes;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
        const std::int32_t input = program.inputs[i];
        runtime::ProgramTensor& tensor = result.tensors[static_cast<std::size_t>(input)];
        const index_t element = size_of(tensor.dtype);
        const bool is_aligned = place % element == 0 && run_bytes % element == 0;
        place += tensor.elements_per_image() * element;
        if (is_aligned && program::can_be_given(program, input))
            tensor.offset = kernels::offset_of_given(static_cast<index_t>(i));
    }
    if (!program.groups.empty()) {  // inputs that take no memory may leave room for other groups
        program::RowPlan plan = program::plan_rows(result.program, table, rows);
        plan.apply(result.instructions, result.tensors);
        result.groups = std::move(plan.groups);
        result.program.groups = result.groups;
    }
    program::place_in_arena(result.program, result.tensors, table);
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::deploy

#endif  // INTQ_DEFINES(deploy)
#endif  // INTQ_DEPLOY_HEADER_PROGRAM_HPP
