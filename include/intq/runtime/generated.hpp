// SPDX-License-Identifier: MIT
//
// Shared by the headers that deploy/generate_cpp.hpp writes. Layer: runtime.
#ifndef INTQ_RUNTIME_GENERATED_HPP
#define INTQ_RUNTIME_GENERATED_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "intq/kernels/operators/operator_table.hpp"
#include "intq/kernels/operators/param_sum.hpp"
#include "intq/runtime/run_rows.hpp"
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
    std::span<const RowGroup> groups{};
    std::span<const StatePair> states{};
};

/// Adds the numbers of a tensor to a sum. Nothing is read through a pointer.
///
/// @param scales  place(pointer) of its scales by channel; 0 for one scale
INTQ_ALWAYS_INLINE void add_numbers(kernels::NumberSum& sum, const ProgramTensor& tensor, std::int32_t scales) {
    const QParams& q = tensor.qparams;
    sum.add(tensor.dtype, tensor.layout, tensor.shape.rank, tensor.offset, scales, q.axis(), q.count(), q.quant_min(),
            q.quant_max(), tensor.has_stated_bounds, tensor.ring);
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
    sum.add(instruction.op, instruction.rows, instruction.output, instruction.first_operand, instruction.operand_count,
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
    for (const RowGroup& group : program.groups) sum.add(group.first, group.count, group.workspace);
    for (const StatePair& state : program.states) sum.add(state.input, state.output);
}

/// An instruction of a group: what ProgramOperators would find.
struct GroupStep {
    RowRange (*rows)(index_t operand, RowRange rows) = nullptr;
    void (*run)(const kernels::OperatorCall& step) = nullptr;
};

/// The hook that a generated model calls after each instruction.
struct StepHook {
    void (*after)(void* context, std::size_t instruction) = nullptr;
    void* context = nullptr;
    /// Runs a group in place of the model; null: the model does.
    ///
    /// @param steps  the instructions of the group
    void (*run_group)(void* context, const RowGroup& group, const GroupStep* steps) = nullptr;

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
    kernels::OperatorCall call = runtime::call_of(Model, Table, Model.instructions[Index]);
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

namespace detail {

/// The same step with all that the compiler knows of its instruction.
template <const Program& Model, const kernels::KernelTable& Table, std::size_t Index>
INTQ_FLATTEN void run_rows_of(const kernels::OperatorCall& step) noexcept {
    constexpr auto run = kernels::find_operator(Model.instructions[Index].op)->run;
    kernels::OperatorCall call = step_call<Model, Table, Index>(step.arena);
    call.band = step.band;
    run(call);
}

template <const Program& Model, const kernels::KernelTable& Table, std::size_t Index>
RowRange rows_of_step(index_t operand, RowRange rows) noexcept {
    constexpr const Instruction& instruction = Model.instructions[Index];
    if constexpr (Model.tensor(instruction.output).holds_sums()) return rows;
    constexpr auto of_operator = kernels::find_operator(instruction.op)->rows_of_operand;
    const kernels::OperatorCall call = step_call<Model, Table, Index>(nullptr);
    if constexpr (of_operator != nullptr)
        return of_operator(call, operand, rows);
    else
        return same_rows(call, operand, rows);
}

template <const Program& Model, const kernels::KernelTable& Table, std::size_t First, std::size_t... Steps>
constexpr std::array<GroupStep, sizeof...(Steps)> steps_from(std::index_sequence<Steps...>) noexcept {
    return {GroupStep{&rows_of_step<Model, Table, First + Steps>, &run_rows_of<Model, Table, First + Steps>}...};
}

/// The instructions of a group.
template <const Program& Model, const kernels::KernelTable& Table, std::size_t Index>
inline constexpr auto group_steps = steps_from<Model, Table, static_cast<std::size_t>(Model.groups[Index].first)>(
    std::make_index_sequence<static_cast<std::size_t>(Model.groups[Index].count)>{});

/// The operators of a group, as run_group() takes them.
struct GroupOperators {
    const GroupStep* steps;
    std::int32_t first;

    RowRange rows(std::int32_t instruction, index_t operand, RowRange rows) const noexcept {
        return steps[instruction - first].rows(operand, rows);
    }
    void run(std::int32_t instruction, const kernels::OperatorCall& step) const {
        steps[instruction - first].run(step);
    }
};

/// The steps know their kernels, and the program's table would link those of every row.
inline constexpr kernels::KernelTable no_kernels{};

/// One code for all groups.
INTQ_OUT_OF_LINE inline void run_group_steps(const Program& program, const RowGroup& group, std::byte* arena,
                                             const void* const* given, const GroupStep* steps) noexcept {
    run_group(program, no_kernels, group, arena, 0, serial, given, GroupOperators{steps, group.first},
              [](std::int32_t, const std::byte*, index_t) {});
}

}  // namespace detail

/// Runs a group on one image, row by row.
///
/// @param given  for each input of the program, where its caller has it
template <const Program& Model, const kernels::KernelTable& Table, std::size_t Index>
void run_rows(std::byte* arena, const void* const* given, const StepHook& hook) noexcept {
    const GroupStep* const steps = detail::group_steps<Model, Table, Index>.data();
    if (hook.run_group != nullptr) return hook.run_group(hook.context, Model.groups[Index], steps);
    detail::run_group_steps(Model, Model.groups[Index], arena, given, steps);
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
        expect_list(given.groups, lists.groups);
        expect_list(given.states, lists.states);
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
template <bool HasGroups> struct GoldenRun {
    const Program& program;
    const GoldenRuns& golden;
    std::byte* arena;
    const void* const* given;
    index_t run;
    SelfTestResult result{};

    index_t pattern() const noexcept { return run - golden.count; }  // below 0 on an image
    void write_operands(std::size_t instruction) const {
        if (pattern() < 0 || instruction >= program.instructions.size()) return;
        if constexpr (HasGroups)
            if (program.instructions[instruction].rows != 0) return;  // run_rows() writes them
        write_pattern(program, arena, static_cast<index_t>(instruction), pattern());
    }
    void compare(std::size_t step, std::uint32_t check) {
        const Instruction& instruction = program.instructions[step];
        const auto index = static_cast<index_t>(step);
        const index_t at = run * static_cast<index_t>(program.instructions.size()) + index;
        const bool has_pattern = pattern() < 0 || !reads_given(program, instruction);
        if (!result.ok() || !has_pattern || check == golden.checks[at]) return;
        result.difference = {run, index};
        result.layer = instruction.name;
    }
    static void see(void* context, std::size_t step) {
        auto& self = *static_cast<GoldenRun*>(context);
        const ProgramTensor& y = self.program.tensor(self.program.instructions[step].output);
        self.compare(step, output_check(y, self.arena + y.offset));
        self.write_operands(step + 1);
    }
    static void run_rows(void* context, const RowGroup& group, const GroupStep* steps) {
        auto& self = *static_cast<GoldenRun*>(context);
        auto compare = [&self](index_t index, std::uint32_t check) {
            self.compare(static_cast<std::size_t>(index), check);
        };
        runtime::detail::GoldenSteps<decltype(compare)>{
            self.program, no_kernels, self.arena, self.pattern() < 0 ? -1 : self.pattern(), serial, compare}
            .run(group, self.given, GroupOperators{steps, group.first});
        self.write_operands(static_cast<std::size_t>(group.last() + 1));
    }
};

}  // namespace detail

/// Repeats golden runs, and then the runs on patterns. An instruction that reads an input where its caller has it has
/// no pattern: it reads the last image again.
///
/// @tparam HasGroups  whether the program has groups: others need not link what runs them
/// @param given    room for a pointer to each input
/// @param run_all  runs the model, and calls the hook after each instruction
template <bool HasGroups = false>
SelfTestResult self_test(const Program& program, const GoldenRuns& golden, std::byte* arena, const void** given,
                         void (*run_all)(const void* const* given, const StepHook&)) INTQ_NOEXCEPT {
    for (index_t run = 0; run < golden.runs(); ++run) {
        detail::GoldenRun<HasGroups> test{program, golden, arena, given, run};
        if (run < golden.count)
            write_inputs(program, arena, golden.inputs + run * golden.input_bytes, given);
        else
            test.write_operands(0);
        StepHook hook{&detail::GoldenRun<HasGroups>::see, &test};
        if constexpr (HasGroups) hook.run_group = &detail::GoldenRun<HasGroups>::run_rows;
        run_all(given, hook);
        if (!test.result.ok()) return test.result;
    }
    return SelfTestResult{};
}

}  // namespace INTQ_ABI
}  // namespace intq::runtime::generated

#endif  // INTQ_RUNTIME_GENERATED_HPP
