// SPDX-License-Identifier: MIT
//
// Shared by the headers that deploy/generate_cpp.hpp writes. Layer: runtime.
#ifndef INTQ_RUNTIME_GENERATED_HPP
#define INTQ_RUNTIME_GENERATED_HPP

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "intq/kernels/operators/operator_table.hpp"
#include "intq/kernels/operators/param_sum.hpp"
#include "intq/runtime/self_test.hpp"
#include "intq/runtime/stated_bounds.hpp"

namespace intq::runtime {
inline namespace INTQ_CORE_ABI {

using kernels::ConstantArray;

/// The result of a generated model's self test.
struct SelfTestResult {
    bool tables_are_whole = true;     // false: a number or a pointer in them differs, and nothing was run
    bool constants_are_whole = true;  // false: their checksum differs, and nothing was run
    Difference difference{};          // the first instruction whose golden codes differ, and in which run
    const char* layer = "";           // its layer; "tables" where they are not whole

    INTQ_ALWAYS_INLINE constexpr bool ok() const noexcept {
        return tables_are_whole && constants_are_whole && difference.is_none();
    }
    INTQ_ALWAYS_INLINE constexpr explicit operator bool() const noexcept { return ok(); }
};

/// The lists of a generated program, whose places the compiler knows.
struct ProgramLists {
    std::span<const Instruction> instructions{};
    std::span<const ProgramTensor> tensors{};
    std::span<const std::int32_t> operands{}, inputs{}, outputs{};
};

/// Adds the numbers of a tensor to a sum. Nothing is read through a pointer.
///
/// @param scales  place(pointer) of its scales by channel; 0 for one scale
INTQ_ALWAYS_INLINE void add_numbers(kernels::NumberSum& sum, const ProgramTensor& tensor, std::int32_t scales) {
    const QParams& q = tensor.qparams;
    sum.add(tensor.dtype, tensor.layout, tensor.shape.rank, tensor.offset, scales, q.axis(), q.count(), q.quant_min(),
            q.quant_max(), tensor.has_stated_bounds);
    for (int axis = 0; axis < max_rank; ++axis)
        sum.add(axis < tensor.shape.rank ? tensor.shape.extents[static_cast<std::size_t>(axis)] : 0);
    if (q.is_per_channel())
        sum.add(q.zero_point_count());  // 0, because a header holds no zero points by channel
    else
        sum.add(std::bit_cast<std::uint32_t>(q.scale()), q.zero_point());
}

/// The same for an instruction.
///
/// @param name  the place of its name in the text of all names
INTQ_ALWAYS_INLINE void add_numbers(kernels::NumberSum& sum, const Instruction& instruction, index_t name) {
    sum.add(instruction.op, instruction.output, instruction.first_operand, instruction.operand_count,
            instruction.params.kind, name);
}

/// The same for the rest of a program, without its lists.
INTQ_ALWAYS_INLINE void add_numbers(kernels::NumberSum& sum, const Program& program) {
    sum.add(program.workspace_offset, program.workspace_size, program.arena_size, program.max_batch);
    const auto add_list = [&sum](std::span<const std::int32_t> list) {
        for (const std::int32_t index : list) sum.add(index);
    };
    add_list(program.operands);
    add_list(program.inputs);
    add_list(program.outputs);
}

/// The hook that a generated model calls after each instruction.
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

/// Sets a field to its value: a number, or an array of numbers or of arrays in the order of their memory.
template <class T, class Value, std::size_t Count> constexpr void set(T& field, const Value (&values)[Count]) noexcept {
    detail::fill(field, values);
}

namespace detail {

/// An instruction on one image.
template <const Program& Model, const kernels::KernelTable& Table, std::size_t Index>
INTQ_ALWAYS_INLINE kernels::OperatorCall step_call(std::byte* arena) noexcept {
    kernels::OperatorCall call = runtime::detail::call_of(Model, Table, Model.instructions[Index]);
    call.batch = 1;
    call.arena = arena;
    call.workspace = {arena + Model.workspace_offset, Model.workspace_size};
    call.executor = &serial;
    return call;
}

}  // namespace detail

/// Runs an instruction on one image. The compiler knows all of the instruction: no other operator is linked, and
/// nothing is looked up that its parameters and shapes decide.
template <const Program& Model, const kernels::KernelTable& Table, std::size_t Index>
INTQ_FLATTEN void run_step(std::byte* arena) noexcept {
    constexpr auto run = kernels::find_operator(Model.instructions[Index].op)->run;
    run(detail::step_call<Model, Table, Index>(arena));
}
/// The same for an instruction that reads an input outside the arena. With this argument g++ specializes kernels less.
///
/// @param given  for each input of the program, where its caller has it
template <const Program& Model, const kernels::KernelTable& Table, std::size_t Index>
INTQ_FLATTEN void run_step(std::byte* arena, const void* const* given) noexcept {
    constexpr auto run = kernels::find_operator(Model.instructions[Index].op)->run;
    kernels::OperatorCall call = detail::step_call<Model, Table, Index>(arena);
    call.given = given;
    run(call);
}

/// The checksum of arrays, one behind the other.
inline std::uint32_t checksum_of(std::span<const ConstantArray> arrays) noexcept {
    std::uint32_t sum = 0;
    for (const ConstantArray& array : arrays)
        sum = crc32({static_cast<const std::byte*>(array.data), static_cast<std::size_t>(array.bytes)}, sum);
    return sum;
}

/// Sums up the tables of a generated header as they are in memory. Every pointer of them is compared with the places of
/// the header's arrays before it is followed, so a fault changes the sum and does no other harm.
class TableReader {
public:
    /// @param arrays  the arrays of constants
    explicit TableReader(std::span<const ConstantArray> arrays) noexcept : arrays_(in_memory(arrays)), sum_(arrays_) {}

    /// The structs of all instructions.
    ///
    /// @tparam Params   their types
    /// @param  structs  where each instruction's are
    template <class... Params>
    void params(std::span<const Instruction> instructions, std::span<const ConstantArray> structs) noexcept {
        const ConstantArray* place = in_memory(structs).data();
        for (const Instruction& instruction : in_memory(instructions)) {
            const kernels::InstructionParams& given = instruction.params;
            is_whole_ = is_whole_ && given.data == place->data && given.size == place->bytes;
            if (!is_whole_) return;
            (add_structs<Params>(given), ...);
            ++place;
        }
    }
    /// All the rest.
    ///
    /// @param names  the text of all names, an array of the list
    void program(const Program& program, const ProgramLists& lists, const char* names) noexcept {
        const Program& given = in_memory(program);
        const auto expect_list = [this](auto list, auto expected) {
            is_whole_ = is_whole_ && list.data() == expected.data() && list.size() == expected.size();
        };
        expect_list(given.instructions, lists.instructions);
        expect_list(given.tensors, lists.tensors);
        expect_list(given.operands, lists.operands);
        expect_list(given.inputs, lists.inputs);
        expect_list(given.outputs, lists.outputs);
        if (!is_whole_) return;
        kernels::NumberSum& numbers = sum_.numbers();
        for (const ProgramTensor& tensor : given.tensors)
            add_numbers(numbers, tensor, sum_.place_of(tensor.qparams.channel_scales().data()));
        for (const Instruction& instruction : given.instructions)
            add_numbers(numbers, instruction,
                        static_cast<index_t>(reinterpret_cast<std::uintptr_t>(instruction.name) -
                                             reinterpret_cast<std::uintptr_t>(names)));
        add_numbers(numbers, given);
        for (const ConstantArray& array : arrays_) numbers.add(array.bytes);
        numbers.add(sum_.place_of(names));
    }
    /// Whether the tables are those whose sum this is.
    bool holds(std::uint32_t sum) const noexcept { return is_whole_ && sum_.value() == sum; }

private:
    /// The compiler knows what constants are, and may not use that here.
    template <class T> static const T& in_memory(const T& object) noexcept {
        const T* const volatile place = &object;
        return *place;
    }
    template <class T> static std::span<const T> in_memory(std::span<const T> list) noexcept {
        return {list.empty() ? nullptr : &in_memory(list.front()), list.size()};
    }
    template <class Params> void add_structs(const kernels::InstructionParams& given) noexcept {
        if (given.kind != kernels::param_kind<Params>) return;
        constexpr auto size = static_cast<index_t>(sizeof(Params));
        // Descriptions take structs that they could write; a sum only reads.
        auto* structs = const_cast<Params*>(static_cast<const Params*>(given.data));
        for (index_t left = given.size; left >= size; left -= size) {
            Params& fields = *structs++;
            describe_params(fields, sum_);
            if constexpr (requires { describe_memory(fields, sum_); }) describe_memory(fields, sum_);
        }
    }

    std::span<const ConstantArray> arrays_;
    kernels::ParamSum sum_;
    bool is_whole_ = true;
};

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
        const bool has_pattern = self.pattern() < 0 || !reads_given(self.program, instruction);
        if (self.result.ok() && has_pattern && output_check(y, self.arena + y.offset) != self.golden.checks[at]) {
            self.result.difference = {self.run, index};
            self.result.layer = instruction.name;
        }
        self.write_operands(index + 1);
    }
};

}  // namespace detail

/// Repeats golden runs, and then the runs on patterns. An instruction that reads an input where its caller has it has
/// no pattern: it reads the last image again.
///
/// @param given    room for a pointer to each input
/// @param run_all  runs the model, and calls the hook after each instruction
inline SelfTestResult self_test(const Program& program, const GoldenRuns& golden, std::byte* arena, const void** given,
                                void (*run_all)(const void* const* given, const StepHook&)) INTQ_NOEXCEPT {
    for (index_t run = 0; run < golden.runs(); ++run) {
        detail::GoldenRun test{program, golden, arena, run};
        if (run < golden.count)
            write_inputs(program, arena, golden.inputs + run * golden.input_bytes, given);
        else
            test.write_operands(0);
        run_all(given, {&detail::GoldenRun::see, &test});
        if (!test.result.ok()) return test.result;
    }
    return SelfTestResult{};
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime::generated

#endif  // INTQ_RUNTIME_GENERATED_HPP
