// SPDX-License-Identifier: MIT
//
// give_inputs: inputs of a program that are read where its caller has them. Layer: program.
#ifndef INTQ_PROGRAM_GIVEN_INPUTS_HPP
#define INTQ_PROGRAM_GIVEN_INPUTS_HPP

#include <cstdint>
#include <vector>

#include "intq/runtime/program.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

/// Whether a run may read an input of a program where its caller has it: operators with ProgramOperator::reads_given
/// alone read it, as quantize does, it is no output, and no bounds were stated for its codes.
///
/// @pre check_program() is ok
bool can_be_given(const runtime::Program& program, std::int32_t input);

/// The tensors of a program, with is_given() where an input can_be_given(): runtime::execute() then reads it through
/// `given`, and the program's other places in the arena stay what they are.
///
/// @pre check_program() is ok
std::vector<runtime::ProgramTensor> give_inputs(const runtime::Program& program);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(program)

#    include <algorithm>
#    include <cstddef>

#    include "intq/kernels/operators/operator_table.hpp"

namespace intq::program {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE bool can_be_given(const runtime::Program& program, std::int32_t input) {
    if (program.tensor(input).has_stated_bounds || std::ranges::count(program.outputs, input) > 0) return false;
    return std::ranges::all_of(program.instructions, [&](const runtime::Instruction& instruction) {
        return std::ranges::count(program.operands_of(instruction), input) == 0 ||
               kernels::find_operator(instruction.op)->reads_given;
    });
}

INTQ_INLINE std::vector<runtime::ProgramTensor> give_inputs(const runtime::Program& program) {
    std::vector<runtime::ProgramTensor> tensors(program.tensors.begin(), program.tensors.end());
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
        if (can_be_given(program, program.inputs[i]))
            tensors[static_cast<std::size_t>(program.inputs[i])].offset =
                kernels::offset_of_given(static_cast<index_t>(i));
    return tensors;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::program

#endif  // INTQ_DEFINES(program)
#endif  // INTQ_PROGRAM_GIVEN_INPUTS_HPP
