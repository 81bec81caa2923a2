// SPDX-License-Identifier: MIT
//
// self_test: whether a deployed program gives the codes that it gave where it was made. Layer: runtime.
#ifndef INTQ_RUNTIME_SELF_TEST_HPP
#define INTQ_RUNTIME_SELF_TEST_HPP

#include <cstring>

#include "intq/kernels/operators/operator_table.hpp"
#include "intq/runtime/checksum.hpp"
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

/// The checksum of one image of an output.
inline std::uint32_t output_check(const ProgramTensor& tensor, const void* output) noexcept {
    const index_t bytes = tensor.elements_per_image() * size_of(tensor.dtype);
    return crc32({static_cast<const std::byte*>(output), static_cast<std::size_t>(bytes)});
}

/// Copies the inputs of one image, one behind the other, to their places in an arena.
inline void write_inputs(const Program& program, std::byte* arena, const std::byte* inputs) noexcept {
    for (const std::int32_t index : program.inputs) {
        const ProgramTensor& tensor = program.tensor(index);
        const index_t bytes = tensor.elements_per_image() * size_of(tensor.dtype);
        std::memcpy(tensor_data(program, arena, index), inputs, static_cast<std::size_t>(bytes));
        inputs += bytes;
    }
}

namespace detail {

struct SelfTest {
    const std::uint32_t* checks;
    index_t first_wrong;

    static void see(void* context, const Program& program, index_t instruction, const void* output, index_t) {
        auto& self = *static_cast<SelfTest*>(context);
        if (self.first_wrong >= 0) return;
        const Instruction& step = program.instructions[static_cast<std::size_t>(instruction)];
        if (output_check(program.tensor(step.output), output) != self.checks[instruction])
            self.first_wrong = instruction;
    }
};

}  // namespace detail

/// Repeats the golden runs of a program, one image each, and compares what every instruction gives.
///
/// @param arena  program.arena_size bytes at buffer_alignment
/// @return the first run and its first instruction whose output differs
/// @pre  check_program() is ok, and golden is that of the program
///
/// Memory   the arena alone
inline Difference self_test(const Program& program, const GoldenRuns& golden, const kernels::KernelTable& table,
                            std::byte* arena, const Executor& executor = serial) INTQ_NOEXCEPT {
    for (index_t run = 0; run < golden.count; ++run) {
        write_inputs(program, arena, golden.inputs + run * golden.input_bytes);
        detail::SelfTest test{golden.checks + run * static_cast<index_t>(program.instructions.size()), -1};
        execute(program, table, arena, 1, executor, {&detail::SelfTest::see, &test});
        if (test.first_wrong >= 0) return {run, test.first_wrong};
    }
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime

#endif  // INTQ_RUNTIME_SELF_TEST_HPP
