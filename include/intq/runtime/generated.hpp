// SPDX-License-Identifier: MIT
//
// What headers that deploy/generate_cpp.hpp writes share. Layer: runtime.
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

/// An array of constants of a generated model.
struct ConstantArray {
    const void* data = nullptr;
    index_t bytes = 0;
};

/// What the self test of a generated model found.
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
    if (!q.is_per_channel()) sum.add(std::bit_cast<std::uint32_t>(q.scale()), q.zero_point());
}

/// The same of an instruction.
///
/// @param name  the place of its name in the text of all names
INTQ_ALWAYS_INLINE void add_numbers(kernels::NumberSum& sum, const Instruction& instruction, index_t name) {
    sum.add(instruction.op, instruction.output, instruction.first_operand, instruction.operand_count,
            instruction.params.kind, name);
}

/// The same of what a program holds beside its lists.
INTQ_ALWAYS_INLINE void add_numbers(kernels::NumberSum& sum, const Program& program) {
    sum.add(program.workspace_offset, program.workspace_size, program.arena_size, program.max_batch);
    for (const auto list : {program.operands, program.inputs, program.outputs})
        for (const std::int32_t index : list) sum.add(index);
}

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

/// Sums up the tables of a generated header as they are in memory. Every pointer of them is compared with the places of
/// the header's arrays, and none is followed, so a fault gives another sum and nothing worse.
class TableReader {
public:
    /// @param arrays  the arrays of constants; pointers count as their number in this list, from 1, and null as 0
    explicit TableReader(std::span<const ConstantArray> arrays) noexcept
        : arrays_(arrays.empty() ? nullptr : &in_memory(arrays.front()), arrays.size()) {}

    /// The structs of an instruction.
    template <class Params, std::size_t Count>
    void params(const Instruction& instruction, const Params (&structs)[Count]) noexcept {
        const Instruction& step = in_memory(instruction);
        is_whole_ =
            is_whole_ && step.params.data == structs && step.params.size == static_cast<index_t>(sizeof structs);
        const auto place = [this](const void* pointer) { return place_of(pointer); };
        for (const Params& given : in_memory(structs)) {
            Params copy{};
            std::memcpy(&copy, &given, sizeof copy);  // as bytes: what stands in place of a bool is anything
            kernels::ParamSum fields(sum_, place);
            describe_params(copy, fields);
            if constexpr (requires { describe_memory(copy, fields); }) describe_memory(copy, fields);
        }
    }
    /// All the rest.
    ///
    /// @param names  the text of all names, an array of the list
    void program(const Program& program, const ProgramLists& lists, const char* names) noexcept {
        const Program& given = in_memory(program);
        const auto is_at = [](auto list, auto expected) {
            return list.data() == expected.data() && list.size() == expected.size();
        };
        is_whole_ = is_whole_ && is_at(given.instructions, lists.instructions) && is_at(given.tensors, lists.tensors) &&
                    is_at(given.operands, lists.operands) && is_at(given.inputs, lists.inputs) &&
                    is_at(given.outputs, lists.outputs);
        if (!is_whole_) return;
        for (const ProgramTensor& tensor : given.tensors) {
            add_numbers(sum_, tensor, place_of(tensor.qparams.channel_scales().data()));
            // A header holds no zero points by channel.
            is_whole_ = is_whole_ && (!tensor.qparams.is_per_channel() || tensor.qparams.zero_point_count() == 0);
        }
        for (const Instruction& instruction : given.instructions)
            add_numbers(sum_, instruction,
                        static_cast<index_t>(reinterpret_cast<std::uintptr_t>(instruction.name) -
                                             reinterpret_cast<std::uintptr_t>(names)));
        add_numbers(sum_, given);
        for (const ConstantArray& array : arrays_) sum_.add(array.bytes);
        sum_.add(place_of(names));
    }
    /// Whether the tables are those whose sum this is.
    bool holds(std::uint32_t sum) const noexcept { return is_whole_ && sum_.value() == sum; }

private:
    /// The compiler knows what constants are, and may not use that here.
    template <class T> static const T& in_memory(const T& object) noexcept {
        const T* const volatile place = &object;
        return *place;
    }
    std::int32_t place_of(const void* pointer) const noexcept {
        std::int32_t place = 0;
        if (pointer == nullptr) return place;
        for (const ConstantArray& array : arrays_) {
            ++place;
            if (array.data == pointer) return place;
        }
        return INT32_MAX;
    }

    std::span<const ConstantArray> arrays_;
    kernels::NumberSum sum_{};
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
