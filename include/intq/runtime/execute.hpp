// SPDX-License-Identifier: MIT
//
// Execution of a program in a caller's arena. Layer: runtime. Allocates nothing, checks nothing but asserts.
#ifndef INTQ_RUNTIME_EXECUTE_HPP
#define INTQ_RUNTIME_EXECUTE_HPP

#include <cstring>

#include "intq/core/executor.hpp"
#include "intq/runtime/check.hpp"

namespace intq::inline INTQ_ABI::runtime {

/// Called after each instruction: loggers, profilers and tests look at its output.
struct InstructionHook {
    using Function = void (*)(void* context, const Program& program, index_t instruction, const void* output,
                              index_t batch);
    Function function = nullptr;
    void* context = nullptr;
};

namespace detail {

/// One run: where the tensors are and how many images they hold.
struct Run {
    const Program& program;
    const kernels::KernelTable& table;
    std::byte* arena;
    index_t batch;
    const Executor& executor;

    void* data(std::int32_t tensor) const noexcept { return arena + program.tensor(tensor).offset; }
    index_t size(std::int32_t tensor) const noexcept { return program.tensor(tensor).elements_per_image() * batch; }
};

template <class Row, class Matches> const Row& find_row(std::span<const Row> rows, Matches&& matches) INTQ_NOEXCEPT {
    for (const Row& row : rows)
        if (matches(row)) return row;
    INTQ_ASSERT(false && "the program was checked against another kernel table");
    return rows[0];
}

/// Extents of a tensor for per-channel parameters, in the order of its bytes.
inline ChannelBlocks blocks_of(const ProgramTensor& tensor, index_t size) noexcept {
    if (!tensor.qparams.is_per_channel()) return {1, 1, size};
    const index_t channels = tensor.shape[1];
    return {size / channels, channels, 1};  // channels last, or (N, C)
}

inline void run_conv(const Run& run, const Instruction& instruction) INTQ_NOEXCEPT {
    const ConvStep& step = *instruction.params.conv;
    kernels::ConvGeometry geometry = step.geometry;
    geometry.batch = run.batch;
    const auto operands = run.program.operands_of(instruction);
    const Workspace workspace{run.arena + run.program.workspace_offset, run.program.workspace_size};
    const void* const x = run.table.stage(step.packed, geometry, run.data(operands[0]), workspace, run.executor);
    const kernels::ConvRow* const row = kernels::find_conv(run.table, step.packed);
    INTQ_ASSERT(row != nullptr);
    row->run({&step.packed, &geometry, x, step.packed.has_sumin ? run.data(operands[1]) : nullptr,
              run.data(instruction.output), &run.executor});
}

inline void run_add(const Run& run, const Instruction& instruction) INTQ_NOEXCEPT {
    const auto operands = run.program.operands_of(instruction);
    const DType dtype = run.program.tensor(instruction.output).dtype;
    const auto& row = find_row(run.table.add, [&](const kernels::AddRow& r) { return r.dtype == dtype; });
    row.run({instruction.params.add, run.data(operands[0]), run.data(operands[1]), run.data(instruction.output),
             run.size(instruction.output), &run.executor});
}

/// requantize: one operand as one row; cat: each operand into its slice of the channels.
inline void run_requantize(const Run& run, const Instruction& instruction) INTQ_NOEXCEPT {
    const ProgramTensor& y = run.program.tensor(instruction.output);
    const auto operands = run.program.operands_of(instruction);
    const bool is_cat = instruction.op == OpKind::cat;
    index_t at = 0;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const ProgramTensor& x = run.program.tensor(operands[i]);
        const auto& row = find_row(run.table.requantize, [&](const kernels::RequantizeRow& r) {
            return r.input == x.dtype && r.output == y.dtype;
        });
        const index_t columns = is_cat ? x.shape[1] : run.size(operands[i]);
        const index_t stride = is_cat ? y.shape[1] : columns;
        auto* const to = static_cast<std::byte*>(run.data(instruction.output)) + at * size_of(y.dtype);
        row.run({instruction.params.requantize + i, run.data(operands[i]), to, run.size(operands[i]) / columns, columns,
                 columns, stride, &run.executor});
        at += columns;
    }
}

inline void run_pool(const Run& run, const Instruction& instruction) INTQ_NOEXCEPT {
    const PoolStep& step = *instruction.params.pool;
    const ProgramTensor& x = run.program.tensor(run.program.operands_of(instruction)[0]);
    const ProgramTensor& y = run.program.tensor(instruction.output);
    const auto& row = find_row(run.table.pool,
                               [&](const kernels::PoolRow& r) { return r.op == instruction.op && r.dtype == x.dtype; });
    row.run({&step.window,
             &step.average,
             run.data(run.program.operands_of(instruction)[0]),
             run.data(instruction.output),
             run.batch,
             x.shape[1],
             {x.shape[2], x.shape[3]},
             {y.shape[2], y.shape[3]},
             &run.executor});
}

inline void run_clamp(const Run& run, const Instruction& instruction) INTQ_NOEXCEPT {
    const DType dtype = run.program.tensor(instruction.output).dtype;
    const auto& row = find_row(run.table.clamp, [&](const kernels::ClampRow& r) { return r.dtype == dtype; });
    row.run({*instruction.params.clamp, run.data(run.program.operands_of(instruction)[0]), run.data(instruction.output),
             run.size(instruction.output), &run.executor});
}

inline void run_quantize(const Run& run, const Instruction& instruction) INTQ_NOEXCEPT {
    const std::int32_t operand = run.program.operands_of(instruction)[0];
    const ProgramTensor& y = run.program.tensor(instruction.output);
    const auto& row = find_row(run.table.quantize, [&](const kernels::QuantizeRow& r) { return r.output == y.dtype; });
    const auto* const x = static_cast<const float*>(run.data(operand));
    if (run.program.tensor(operand).layout == Layout::row_major)
        return row.run_planes(x, run.batch, y.shape[1], y.elements_per_image() / y.shape[1], y.qparams,
                              run.table.policy().quantize, run.data(instruction.output), run.executor);
    row.run(x, blocks_of(y, run.size(operand)), y.qparams, run.table.policy().quantize, run.data(instruction.output),
            run.executor);
}

inline void run_dequantize(const Run& run, const Instruction& instruction) INTQ_NOEXCEPT {
    const std::int32_t operand = run.program.operands_of(instruction)[0];
    const ProgramTensor& x = run.program.tensor(operand);
    const auto& row =
        find_row(run.table.dequantize, [&](const kernels::DequantizeRow& r) { return r.input == x.dtype; });
    row.run(run.data(operand), blocks_of(x, run.size(operand)), x.qparams,
            static_cast<float*>(run.data(instruction.output)), run.executor);
}

/// (N, C, H, W) from channels last to row-major when the output has rank 2 (a Flatten), else the other way:
/// float images of the caller become channels last.
inline void run_layout_change(const Run& run, const Instruction& instruction) noexcept {
    const std::int32_t operand = run.program.operands_of(instruction)[0];
    const ProgramTensor& x = run.program.tensor(operand);
    const bool flattens = run.program.tensor(instruction.output).shape.rank == 2;
    const index_t channels = x.shape[1], pixels = x.elements_per_image() / channels;
    const auto bytes = static_cast<std::size_t>(size_of(x.dtype));
    const auto* from = static_cast<const std::byte*>(run.data(operand));
    auto* to = static_cast<std::byte*>(run.data(instruction.output));
    for (index_t image = 0; image < run.batch; ++image)
        for (index_t c = 0; c < channels; ++c)
            for (index_t p = 0; p < pixels; ++p) {
                const index_t planar = (image * channels + c) * pixels + p, last = (image * pixels + p) * channels + c;
                const auto target = static_cast<std::size_t>(flattens ? planar : last),
                           source = static_cast<std::size_t>(flattens ? last : planar);
                std::memcpy(to + target * bytes, from + source * bytes, bytes);
            }
}

inline void run_instruction(const Run& run, const Instruction& instruction) INTQ_NOEXCEPT {
    switch (instruction.op) {
        case OpKind::conv2d:
        case OpKind::linear:
            return run_conv(run, instruction);
        case OpKind::add:
            return run_add(run, instruction);
        case OpKind::requantize:
        case OpKind::cat:
            return run_requantize(run, instruction);
        case OpKind::max_pool2d:
        case OpKind::avg_pool2d:
            return run_pool(run, instruction);
        case OpKind::relu:
            return run_clamp(run, instruction);
        case OpKind::quantize:
            return run_quantize(run, instruction);
        case OpKind::dequantize:
            return run_dequantize(run, instruction);
        case OpKind::layout_change:
            return run_layout_change(run, instruction);
        default:
            INTQ_ASSERT(false && "the program was not checked");
    }
}

}  // namespace detail

/// Address of a tensor in the arena: inputs are written there before, outputs read there after a run.
inline void* tensor_data(const Program& program, std::byte* arena, std::int32_t tensor) noexcept {
    return arena + program.tensor(tensor).offset;
}

/// Runs a program on the inputs that lie in its arena.
///
/// @param arena  program.arena_size bytes at buffer_alignment; holds the input tensors' data
/// @param batch  1 … program.max_batch
/// @param hook   called after every instruction, before its output's bytes are used again
/// @pre  check_program() is ok for this table
///
/// Result   exact; the same bytes on every backend, executor and batch
/// Memory   the arena alone
inline void execute(const Program& program, const kernels::KernelTable& table, std::byte* arena, index_t batch,
                    const Executor& executor = serial, InstructionHook hook = {}) INTQ_NOEXCEPT {
    INTQ_ASSERT(arena != nullptr && is_aligned(arena) && batch >= 1 && batch <= program.max_batch);
    const detail::Run run{program, table, arena, batch, executor};
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        const Instruction& instruction = program.instructions[i];
        detail::run_instruction(run, instruction);
        if (hook.function != nullptr)
            hook.function(hook.context, program, static_cast<index_t>(i), run.data(instruction.output), batch);
    }
}

}  // namespace intq::inline INTQ_ABI::runtime

#endif  // INTQ_RUNTIME_EXECUTE_HPP
