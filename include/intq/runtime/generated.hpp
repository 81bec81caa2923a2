// SPDX-License-Identifier: MIT
//
// What headers that deploy/generate_cpp.hpp writes share. Layer: runtime.
#ifndef INTQ_RUNTIME_GENERATED_HPP
#define INTQ_RUNTIME_GENERATED_HPP

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "intq/kernels/operators/operator_table.hpp"
#include "intq/runtime/self_test.hpp"
#include "intq/runtime/stated_bounds.hpp"

namespace intq::runtime {
inline namespace INTQ_CORE_ABI {

/// An array of constants of a generated model.
struct ConstantArray {
    const void* data = nullptr;
    index_t bytes = 0;
};

/// What the self test of a generated model found.
struct SelfTestResult {
    bool constants_are_whole = true;  // false: their checksum differs, and nothing was run
    Difference difference{};          // the first instruction whose golden codes differ, and in which run
    const char* layer = "";           // its layer

    INTQ_ALWAYS_INLINE constexpr bool ok() const noexcept { return constants_are_whole && difference.is_none(); }
    INTQ_ALWAYS_INLINE constexpr explicit operator bool() const noexcept { return ok(); }
};

/// What a generated model calls behind each instruction.
struct StepHook {
    void (*after)(void* context, std::size_t instruction) = nullptr;
    void* context = nullptr;

    INTQ_ALWAYS_INLINE void operator()(std::size_t instruction) const {
        if (after != nullptr) after(context, instruction);
    }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::runtime

namespace intq::runtime::generated {
inline namespace INTQ_ABI {

namespace detail {

template <class T, class Value> constexpr const Value* fill(T& field, const Value* from) noexcept {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
        field = static_cast<T>(*from);
        return from + 1;
    } else {
        for (auto& element : field) from = fill(element, from);
        return from;
    }
}

}  // namespace detail

/// Gives a field its value: a number, or an array of numbers or of arrays in the order of their memory.
template <class T, class Value, std::size_t Count> constexpr void set(T& field, const Value (&values)[Count]) noexcept {
    detail::fill(field, values);
}

/// Runs an instruction on one image. The compiler knows all of the instruction: no other operator is linked, and
/// nothing is looked up that its parameters and shapes decide.
template <const Program& Model, const kernels::KernelTable& Table, std::size_t Index>
INTQ_FLATTEN void run_step(std::byte* arena) noexcept {
    constexpr auto run = kernels::find_operator(Model.instructions[Index].op)->run;
    kernels::OperatorCall call = runtime::detail::call_of(Model, Table, Model.instructions[Index]);
    call.batch = 1;
    call.arena = arena;
    call.workspace = {arena + Model.workspace_offset, Model.workspace_size};
    call.executor = &serial;
    run(call);
}

/// The checksum of arrays, one behind the other.
inline std::uint32_t checksum_of(std::span<const ConstantArray> arrays) noexcept {
    std::uint32_t sum = 0;
    for (const ConstantArray& array : arrays)
        sum = crc32({static_cast<const std::byte*>(array.data), static_cast<std::size_t>(array.bytes)}, sum);
    return sum;
}

namespace detail {

/// A golden run, on an image or on a pattern.
struct GoldenRun {
    const Program& program;
    const GoldenRuns& golden;
    std::byte* arena;
    index_t run;
    SelfTestResult result{};

    index_t pattern() const noexcept { return run - golden.count; }  // below 0 on an image
    void write_operands(index_t instruction) const {
        if (pattern() >= 0 && instruction < static_cast<index_t>(program.instructions.size()))
            write_pattern(program, arena, instruction, pattern());
    }
    static void see(void* context, std::size_t step) {
        auto& self = *static_cast<GoldenRun*>(context);
        const auto index = static_cast<index_t>(step);
        const Instruction& instruction = self.program.instructions[step];
        const ProgramTensor& y = self.program.tensor(instruction.output);
        const index_t at = self.run * static_cast<index_t>(self.program.instructions.size()) + index;
        if (self.result.ok() && output_check(y, self.arena + y.offset) != self.golden.checks[at]) {
            self.result.difference = {self.run, index};
            self.result.layer = instruction.name;
        }
        self.write_operands(index + 1);
    }
};

}  // namespace detail

/// Repeats golden runs, and then those on patterns. `run_all` runs the model, and calls the hook behind each
/// instruction.
inline SelfTestResult self_test(const Program& program, const GoldenRuns& golden, std::byte* arena,
                                void (*run_all)(const StepHook&)) INTQ_NOEXCEPT {
    for (index_t run = 0; run < golden.runs(); ++run) {
        detail::GoldenRun test{program, golden, arena, run};
        if (run < golden.count)
            write_inputs(program, arena, golden.inputs + run * golden.input_bytes);
        else
            test.write_operands(0);
        run_all({&detail::GoldenRun::see, &test});
        if (!test.result.ok()) return test.result;
    }
    return SelfTestResult{};
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime::generated

#endif  // INTQ_RUNTIME_GENERATED_HPP
