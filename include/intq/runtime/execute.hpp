// SPDX-License-Identifier: MIT
//
// Execution of a program in a caller's arena. Layer: runtime. Allocates nothing; checks only stated bounds of codes.
#ifndef INTQ_RUNTIME_EXECUTE_HPP
#define INTQ_RUNTIME_EXECUTE_HPP

#include "intq/core/executor.hpp"
#include "intq/kernels/operators/operator.hpp"
#include "intq/runtime/check.hpp"
#include "intq/runtime/run_rows.hpp"
#include "intq/runtime/stated_bounds.hpp"

namespace intq::runtime {
inline namespace INTQ_ABI {

/// Address of a tensor in the arena. Write inputs there before a run; read outputs there after it.
/// @pre not is_given()
inline void* tensor_data(const Program& program, std::byte* arena, std::int32_t tensor) noexcept {
    return arena + program.tensor(tensor).offset;
}

namespace detail {

inline void run_operator(const kernels::OperatorCall& call) INTQ_NOEXCEPT {
    const kernels::ProgramOperator* const row = kernels::find_operator(call.op);
    INTQ_ASSERT(row != nullptr && "the program was not checked");
    row->run(call);
}

/// Runs one instruction.
inline void run_instruction(const Program& program, const kernels::KernelTable& table, std::byte* arena, index_t batch,
                            const Executor& executor, InstructionHook hook, std::size_t index,
                            const void* const* given = nullptr) INTQ_NOEXCEPT {
    const Instruction& instruction = program.instructions[index];
    kernels::OperatorCall call = call_of(program, table, instruction);
    call.batch = batch;
    call.arena = arena;
    call.workspace = {arena + program.workspace_offset, program.workspace_size};
    call.executor = &executor;
    call.given = given;
    run_operator(call);
    if (hook.function != nullptr)
        hook.function(hook.context, program, static_cast<index_t>(index), call.y_data(), batch);
}

/// Runs a group on all images of the batch.
inline void run_group_on_batch(const Program& program, const kernels::KernelTable& table, const RowGroup& group,
                               std::byte* arena, index_t batch, const Executor& executor,
                               const void* const* given) INTQ_NOEXCEPT {
    for (index_t image = 0; image < batch; ++image)
        run_group(program, table, group, arena, image, executor, given, ProgramOperators{program, table},
                  [](std::int32_t, const std::byte*, index_t) {});
}

}  // namespace detail

/// Whether a hook can see the output of every instruction.
///
/// @return ok; unsupported, with the first tensor that is never whole
inline Status check_observable(const Program& program) noexcept {
    for (std::size_t i = 0; i < program.tensors.size(); ++i)
        if (program.tensors[i].ring > 0)
            return {StatusCode::unsupported, OpKind::program, Field::tensor, static_cast<std::int64_t>(i),
                    program.tensors[i].ring};
    if (program.groups.empty()) return {};
    return {StatusCode::unsupported, OpKind::program, Field::instruction, program.groups[0].first, 0};
}

/// Begins a new sequence: all state (Program::states) becomes codes of 0. Not needed where a caller writes the inputs
/// that are state.
///
/// @param arena  program.arena_size bytes at buffer_alignment, which later runs keep state in
inline void reset_states(const Program& program, std::byte* arena) noexcept {
    for (const StatePair& state : program.states) {
        const ProgramTensor& tensor = program.tensor(state.input);
        const std::int32_t zero = tensor.qparams.zero_point();
        const auto set_all = [&]<class Code>(Code) {
            auto* const codes = reinterpret_cast<Code*>(arena + tensor.offset);
            for (index_t i = 0; i < tensor.shape.size(); ++i) codes[i] = static_cast<Code>(zero);
        };
        tensor.dtype == DType::int8 ? set_all(std::int8_t{}) : set_all(std::int16_t{});
    }
}

/// Runs a program on the inputs that lie in its arena. State is there already, from the run before or reset_states().
///
/// @param arena  program.arena_size bytes at buffer_alignment; holds the input tensors' data
/// @param batch  1 … program.max_batch
/// @param hook   called after every instruction, before its output's bytes are used again; it must not throw. None
///               where tensors are not whole: see check_observable()
/// @param given  for each input of the program a pointer, which is read where the tensor is_given(); null where none is
/// @return ok, always if the program states no bounds of codes; or the first tensor that left its bounds. No later
///         instruction ran, so the outputs are not valid
/// @pre  check_program() is ok for this table
///
/// Result   exact; the same bytes on every backend, executor and batch
/// Memory   only the arena
inline RunResult execute(const Program& program, const kernels::KernelTable& table, std::byte* arena, index_t batch,
                         const Executor& executor = serial, InstructionHook hook = {},
                         const void* const* given = nullptr) INTQ_NOEXCEPT {
    INTQ_ASSERT(arena != nullptr && is_aligned(arena) && batch >= 1 && batch <= program.max_batch);
    INTQ_ASSERT(hook.function == nullptr || check_observable(program).ok());
    if (const RunResult result = check_input_bounds(program, arena, batch); !result) return result;
    const RowGroup* group = program.groups.data();
    for (std::size_t i = 0; i < program.instructions.size();) {
        std::size_t end = i + 1;
        if (program.instructions[i].rows > 0) {
            detail::run_group_on_batch(program, table, *group, arena, batch, executor, given);
            end = static_cast<std::size_t>(group++->last() + 1);
        } else {
            detail::run_instruction(program, table, arena, batch, executor, hook, i, given);
        }
        for (; i < end; ++i)
            if (const RunResult result = check_bounds(program, arena, program.instructions[i].output, batch); !result)
                return result;
    }
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_EXECUTE_HPP
