// SPDX-License-Identifier: MIT
//
// self_test: whether a deployed program computes the same codes as where it was made. Layer: runtime.
#ifndef INTQ_RUNTIME_SELF_TEST_HPP
#define INTQ_RUNTIME_SELF_TEST_HPP

#include <cstring>

#include "intq/core/checksum.hpp"
#include "intq/kernels/operators/operator_table.hpp"
#include "intq/runtime/execute.hpp"
#include "intq/runtime/program_file.hpp"

namespace intq::runtime {
inline namespace INTQ_CORE_ABI {

/// The first difference that a self test found; of -1 where there is none.
struct Difference {
    index_t run = -1;
    index_t instruction = -1;
    INTQ_ALWAYS_INLINE constexpr bool is_none() const noexcept { return instruction < 0; }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::runtime

namespace intq::runtime {
inline namespace INTQ_ABI {

/// The checksum of one image of an output, of little-endian numbers.
inline std::uint32_t output_check(const ProgramTensor& tensor, const void* output) noexcept {
    const index_t count = tensor.elements_per_image(), size = size_of(tensor.dtype);
    const auto* const bytes = static_cast<const std::byte*>(output);
    if (is_little_endian || size == 1) return crc32({bytes, static_cast<std::size_t>(count * size)});
    std::uint32_t sum = 0;
    for (index_t i = 0; i < count; ++i) {
        std::byte number[8];
        copy_little_endian(number, bytes + i * size, 1, size);
        sum = crc32({number, static_cast<std::size_t>(size)}, sum);
    }
    return sum;
}

/// Copies the inputs of one image, one behind the other and little-endian, to their places in an arena.
///
/// @param given  receives a pointer to each input; not written where null
inline void write_inputs(const Program& program, std::byte* arena, const std::byte* inputs,
                         const void** given = nullptr) noexcept {
    for (const std::int32_t index : program.inputs) {
        const ProgramTensor& tensor = program.tensor(index);
        const index_t count = tensor.elements_per_image(), size = size_of(tensor.dtype);
        if (given != nullptr) *given++ = inputs;
        if (!tensor.is_given()) copy_little_endian(tensor_data(program, arena, index), inputs, count, size);
        inputs += count * size;
    }
}

namespace detail {

/// Of the numbers of a pattern; the bytes of a code are the low ones of its int32.
struct PatternRange {
    std::int32_t lowest;
    std::uint32_t count;  // at most 2^16
};

/// Codes that the operands of a sound program may have: those of their quantizer, else 16 bits.
constexpr PatternRange pattern_range(const ProgramTensor& tensor) noexcept {
    if (tensor.dtype == DType::uint8) return {0, 256};
    if (tensor.dtype != DType::int8 && tensor.dtype != DType::int16) return {INT16_MIN, 1u << 16};
    const QParams& q = tensor.qparams;
    return {static_cast<std::int32_t>(q.quant_min()), static_cast<std::uint32_t>(q.quant_max() - q.quant_min() + 1)};
}

}  // namespace detail

/// Whether an operand of an instruction is an input outside the arena.
inline bool reads_given(const Program& program, const Instruction& instruction) noexcept {
    for (const std::int32_t index : program.operands_of(instruction))
        if (program.tensor(index).is_given()) return true;
    return false;
}

/// Fills the operands of an instruction in the arena, of one image each, with its pattern: codes over the whole range
/// of their type, floats from -1 to 1. All machines write the same numbers.
///
/// @param pattern  which of the patterns, from 0
inline void write_pattern(const Program& program, std::byte* arena, index_t instruction, index_t pattern) noexcept {
    auto state = static_cast<std::uint32_t>(instruction) * 0x85ebca6bu + static_cast<std::uint32_t>(pattern + 1);
    for (const std::int32_t index : program.operands_of(program.instructions[static_cast<std::size_t>(instruction)])) {
        const ProgramTensor& tensor = program.tensor(index);
        if (tensor.is_given()) continue;
        auto* to = static_cast<std::byte*>(tensor_data(program, arena, index));
        const detail::PatternRange range = detail::pattern_range(tensor);
        for (index_t i = 0; i < tensor.elements_per_image(); ++i, to += size_of(tensor.dtype)) {
            // Numerical Recipes' generator; the upper half of its state, because the lower bits repeat soon.
            state = state * 1664525u + 1013904223u;
            const std::int32_t code = range.lowest + static_cast<std::int32_t>(((state >> 16) * range.count) >> 16);
            const float real = static_cast<float>(code) * 0x1p-15f;
            const auto size = static_cast<std::size_t>(size_of(tensor.dtype));
            const auto* const low_bytes =
                reinterpret_cast<const std::byte*>(&code) + (is_little_endian ? 0 : sizeof code - size);
            std::memcpy(to, tensor.dtype == DType::float32 ? static_cast<const void*>(&real) : low_bytes, size);
        }
    }
}

/// Runs a program on the contents of its arena, or each instruction on its own pattern, and passes the checksum of each
/// output to take(instruction, check).
///
/// @param pattern  -1: none
template <class Take>
void run_golden(const Program& program, const kernels::KernelTable& table, std::byte* arena, index_t pattern,
                const Executor& executor, Take take) INTQ_NOEXCEPT {
    struct Context {
        std::byte* arena;
        index_t pattern;
        Take* take;
        static void see(void* context, const Program& program, index_t instruction, const void* output, index_t) {
            const auto& self = *static_cast<Context*>(context);
            const Instruction& step = program.instructions[static_cast<std::size_t>(instruction)];
            (*self.take)(instruction, output_check(program.tensor(step.output), output));
            const index_t next = instruction + 1;
            if (self.pattern >= 0 && next < static_cast<index_t>(program.instructions.size()))
                write_pattern(program, self.arena, next, self.pattern);
        }
    } context{arena, pattern, &take};
    if (pattern >= 0 && !program.instructions.empty()) write_pattern(program, arena, 0, pattern);
    detail::run_instructions(program, table, arena, 1, executor, {&Context::see, &context});
}

/// Repeats the golden runs of a program, one image each, and then the runs on patterns, and compares the output of
/// every instruction.
///
/// @param arena  program.arena_size bytes at buffer_alignment
/// @return the first run and its first instruction whose output differs; patterns are counted behind the images
/// @pre  check_program() is ok, and golden is the program's
///
/// Memory   only the arena
inline Difference self_test(const Program& program, const GoldenRuns& golden, const kernels::KernelTable& table,
                            std::byte* arena, const Executor& executor = serial) INTQ_NOEXCEPT {
    for (index_t run = 0; run < golden.runs(); ++run) {
        const bool is_image = run < golden.count;
        if (is_image) write_inputs(program, arena, golden.inputs + run * golden.input_bytes);
        const std::uint32_t* const checks = golden.checks + run * static_cast<index_t>(program.instructions.size());
        index_t first_wrong = -1;
        run_golden(program, table, arena, is_image ? -1 : run - golden.count, executor,
                   [&](index_t instruction, std::uint32_t check) {
                       if (first_wrong < 0 && check != checks[instruction]) first_wrong = instruction;
                   });
        if (first_wrong >= 0) return {run, first_wrong};
    }
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_SELF_TEST_HPP
