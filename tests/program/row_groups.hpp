// SPDX-License-Identifier: MIT
//
// Random plans of programs that run row by row: groups that no planner would choose, and plans with damaged numbers.
#ifndef INTQ_TESTS_PROGRAM_ROW_GROUPS_HPP
#define INTQ_TESTS_PROGRAM_ROW_GROUPS_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "intq/io/describe.hpp"
#include "intq/kernels/operators/conv.hpp"
#include "intq/kernels/operators/pool.hpp"
#include "intq/program/given_inputs.hpp"
#include "intq/program/lifetimes.hpp"
#include "intq/runtime/check.hpp"
#include "intq/runtime/execute.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/random_program.hpp"

namespace intq::test {

/// What plans were made of, so that a test can say that it saw enough.
struct RowGroupCount {
    int programs = 0, groups = 0, instructions = 0;
    int rings = 0, short_rings = 0;  // tensors; of fewer rows than the image
    int skips = 0;                   // rings that two instructions read
    int sums = 0, strides = 0, pools = 0, cats = 0, pads = 0, resizes = 0, slices = 0, planes = 0, given = 0;
    std::set<std::string> backends{}, targets{};
};

/// A program that runs in groups. Its constants are the whole program's.
struct GroupedProgram {
    runtime::Program rest;  // whose instructions, tensors and groups are not read
    std::vector<runtime::Instruction> instructions;
    std::vector<runtime::ProgramTensor> tensors;
    std::vector<runtime::RowGroup> groups{};

    explicit GroupedProgram(const runtime::Program& whole)
        : rest(whole),
          instructions(whole.instructions.begin(), whole.instructions.end()),
          tensors(whole.tensors.begin(), whole.tensors.end()) {}
    /// A view of this object.
    runtime::Program program() const {
        runtime::Program view = rest;
        view.instructions = instructions;
        view.tensors = tensors;
        view.groups = groups;
        return view;
    }
    runtime::Instruction& instruction(std::int32_t i) { return instructions.at(static_cast<std::size_t>(i)); }
    runtime::ProgramTensor& output(std::int32_t i) {
        return tensors.at(static_cast<std::size_t>(instruction(i).output));
    }
    void place(const kernels::KernelTable& table) {
        runtime::Program placed = program();
        program::place_in_arena(placed, tensors, table);
        rest.arena_size = placed.arena_size;
        rest.workspace_offset = placed.workspace_offset;
        rest.workspace_size = placed.workspace_size;
    }
};

namespace detail {

/// The instructions that read a tensor.
inline std::vector<std::int32_t> readers_of(const runtime::Program& program, std::int32_t tensor) {
    std::vector<std::int32_t> readers;
    for (std::size_t i = 0; i < program.instructions.size(); ++i)
        if (std::ranges::count(program.operands_of(program.instructions[i]), tensor) > 0)
            readers.push_back(static_cast<std::int32_t>(i));
    return readers;
}

/// Chooses groups, rows, rings and sums of a program at random, within what a plan may do.
class RandomGroups {
public:
    RandomGroups(const runtime::Program& whole, const kernels::KernelTable& table, Dice& dice, bool may_give_inputs)
        : made_(whole), table_(table), dice_(dice) {
        if (may_give_inputs) made_.tensors = program::give_inputs(whole);
    }
    GroupedProgram run() {
        const auto end = static_cast<std::int32_t>(made_.instructions.size());
        for (std::int32_t first = 0; first < end;) {
            const std::int32_t count = dice_.percent(15) ? 0 : choose_run(first);
            if (count > 0) add_group({first, count});
            first += (std::max)(count, 1);
        }
        made_.place(table_);
        return made_;
    }

private:
    /// Instructions from one on that can be a group; chooses which of them add up.
    std::int32_t choose_run(std::int32_t first) {
        const auto end = static_cast<std::int32_t>(made_.instructions.size());
        const auto most =
            static_cast<std::int32_t>(dice_.percent(50) ? runtime::most_group_instructions : dice_.between(1, 6));
        std::int32_t i = first;
        for (; i < end && i - first < most; ++i) {
            const runtime::Program program = made_.program();
            if (!runtime::runs_by_rows(program, table_, made_.instruction(i)) || reads_sums(first, i)) break;
            const auto adds_rows = kernels::find_operator(made_.instruction(i).op)->adds_rows;
            const bool can_add =
                adds_rows != nullptr && adds_rows(runtime::call_of(program, table_, made_.instruction(i)));
            if (can_add && dice_.percent(60)) made_.output(i).ring = kernels::sums_of_rows;
        }
        return i - first;
    }
    bool reads_sums(std::int32_t first, std::int32_t reader) {
        for (std::int32_t i = first; i < reader; ++i)
            if (made_.output(i).holds_sums() &&
                std::ranges::count(made_.program().operands_of(made_.instruction(reader)),
                                   made_.instruction(i).output) > 0)
                return true;
        return false;
    }
    /// Whether only a group needs the output of one of its instructions.
    bool is_inner(const runtime::RowGroup& group, std::int32_t writer) {
        const std::int32_t tensor = made_.instruction(writer).output;
        const runtime::ProgramTensor& of = made_.output(writer);
        return !of.has_stated_bounds && !of.holds_sums() && std::ranges::count(made_.rest.outputs, tensor) == 0 &&
               std::ranges::all_of(readers_of(made_.rest, tensor),
                                   [&](std::int32_t reader) { return reader <= group.last(); });
    }
    void add_group(runtime::RowGroup group) {
        const bool by_single_rows = dice_.percent(30);
        for (std::int32_t i = group.first; i <= group.last(); ++i) {
            const index_t height = runtime::height_of(made_.program(), made_.instruction(i));
            const bool is_one = by_single_rows || dice_.percent(40);
            made_.instruction(i).rows = static_cast<std::int16_t>(is_one ? 1 : dice_.between(1, height));
        }
        std::vector<runtime::RowNeeds> needs(static_cast<std::size_t>(group.count));
        runtime::measure_group(made_.program(), table_, group, needs.data());
        for (std::int32_t i = group.first; i <= group.last(); ++i) {
            const runtime::RowNeeds& of = needs[static_cast<std::size_t>(i - group.first)];
            group.workspace = (std::max)(group.workspace, of.workspace);
            if (!is_inner(group, i) || dice_.percent(10)) continue;
            const index_t more = dice_.percent(15) ? dice_.between(1, 2) : 0;
            made_.output(i).ring = static_cast<std::int16_t>((std::min)(of.rows + more, made_.output(i).shape[2]));
        }
        made_.groups.push_back(group);
    }

    GroupedProgram made_;
    const kernels::KernelTable& table_;
    Dice& dice_;
};

inline const Window2d* window_of(const runtime::Instruction& instruction) {
    if (instruction.op == OpKind::conv2d) return &instruction.params_as<kernels::ConvParams>().packed.window;
    if (instruction.op == OpKind::max_pool2d || instruction.op == OpKind::avg_pool2d)
        return &instruction.params_as<kernels::PoolParams>().window;
    return nullptr;
}

}  // namespace detail

/// A plan that check_program() must accept.
///
/// @param may_give_inputs  inputs may lie where their caller has them
inline GroupedProgram random_groups(const runtime::Program& whole, const kernels::KernelTable& table, Dice& dice,
                                    bool may_give_inputs) {
    return detail::RandomGroups(whole, table, dice, may_give_inputs).run();
}

inline void count_groups(const GroupedProgram& of, RowGroupCount& count) {
    const runtime::Program program = of.program();
    ++count.programs;
    count.groups += static_cast<int>(program.groups.size());
    for (const std::int32_t input : program.inputs) count.given += program.tensor(input).is_given() ? 1 : 0;
    for (const runtime::Instruction& instruction : program.instructions) {
        if (instruction.rows == 0) continue;
        const runtime::ProgramTensor& y = program.tensor(instruction.output);
        const Window2d* const window = detail::window_of(instruction);
        ++count.instructions;
        count.sums += y.holds_sums() ? 1 : 0;
        count.strides += window != nullptr && window->stride.height > 1 && y.shape[2] > 1 ? 1 : 0;
        count.pools += window != nullptr && instruction.op != OpKind::conv2d && y.shape[2] > 1 ? 1 : 0;
        count.cats += instruction.op == OpKind::cat ? 1 : 0;
        count.pads += instruction.op == OpKind::pad ? 1 : 0;
        count.resizes += instruction.op == OpKind::interpolate ? 1 : 0;
        count.slices += instruction.op == OpKind::slice ? 1 : 0;
        for (const std::int32_t x : program.operands_of(instruction))
            count.planes += program.tensor(x).layout == Layout::row_major ? 1 : 0;
        if (y.ring <= 0) continue;
        ++count.rings;
        count.short_rings += y.ring < y.shape[2] ? 1 : 0;
        count.skips += detail::readers_of(program, instruction.output).size() > 1 ? 1 : 0;
    }
}

/// Numbers that the caller of a program writes: of each of its inputs, for some images.
using RunInputs = std::vector<std::vector<std::byte>>;

inline RunInputs random_inputs(const runtime::Program& program, index_t images, Dice& dice) {
    RunInputs inputs;
    for (const std::int32_t index : program.inputs) {
        const runtime::ProgramTensor& x = program.tensor(index);
        std::vector<std::byte>& bytes = inputs.emplace_back();
        const auto size = static_cast<std::size_t>(size_of(x.dtype));
        for (index_t i = 0; i < x.elements_per_image() * images; ++i) {
            const auto code = static_cast<std::int16_t>(
                x.dtype == DType::float32 ? 0 : dice.between(x.qparams.quant_min(), x.qparams.quant_max()));
            const auto narrow = static_cast<std::int8_t>(code);
            const float real = static_cast<float>(dice.between(-1000, 1000)) * 0.01f;
            const void* const from = x.dtype == DType::float32 ? static_cast<const void*>(&real)
                                     : x.dtype == DType::int8  ? static_cast<const void*>(&narrow)
                                                               : &code;
            bytes.resize(bytes.size() + size);
            std::memcpy(bytes.data() + bytes.size() - size, from, size);
        }
    }
    return inputs;
}

/// The bytes of all outputs of a run in an arena.
inline std::vector<std::byte> outputs_of(const runtime::Program& program, const kernels::KernelTable& table,
                                         std::byte* arena, const RunInputs& inputs, index_t images) {
    std::vector<const void*> given;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        given.push_back(inputs[k].data());
        if (!program.tensor(program.inputs[k]).is_given())
            std::memcpy(runtime::tensor_data(program, arena, program.inputs[k]), inputs[k].data(), inputs[k].size());
    }
    CHECK(runtime::execute(program, table, arena, images, serial, {}, given.data()).ok());
    std::vector<std::byte> bytes;
    for (const std::int32_t output : program.outputs) {
        const runtime::ProgramTensor& y = program.tensor(output);
        const auto* const first = static_cast<const std::byte*>(runtime::tensor_data(program, arena, output));
        bytes.insert(bytes.end(), first, first + y.elements_per_image() * images * size_of(y.dtype));
    }
    return bytes;
}

/// The bytes of all outputs of a run in an arena that was filled with a byte, and that ends or begins beside memory
/// that nothing may touch.
inline std::vector<std::byte> guarded_outputs_of(const runtime::Program& program, const kernels::KernelTable& table,
                                                 const RunInputs& inputs, index_t images, int poison) {
    const auto against = poison % 2 == 0 ? GuardedBuffer::Against::end : GuardedBuffer::Against::begin;
    GuardedBuffer arena(static_cast<std::size_t>(program.arena_size), against);
    std::memset(arena.as<std::byte>(), poison, arena.size());
    const auto outputs = outputs_of(program, table, arena.as<std::byte>(), inputs, images);
    CHECK(arena.is_intact());
    return outputs;
}

/// Kernels, and the type of the codes of the networks that they run.
struct RowCase {
    const char* backend;
    const kernels::KernelTable* table;
    DType dtype;
};

/// Backends by targets; those of the BPU and of LiteRT have int8 alone.
inline std::vector<RowCase> cases_of_rows() {
    std::vector<RowCase> cases;
    for (const BackendTables& backend : usable_backend_tables())
        for (const kernels::KernelTable* const table : backend.tables) {
            const std::string_view target = table->policy().name;
            const bool has_int16 = target == "fp32" || target == "tflite";
            if (has_int16 || target == "bayes" || target == "litert")
                cases.push_back({backend.name, table, DType::int8});
            if (has_int16) cases.push_back({backend.name, table, DType::int16});
        }
    return cases;
}

inline std::string to_string(const RowCase& of) {
    return std::string(of.backend) + ", " + of.table->policy().name + ", " + name_of(of.dtype);
}

/// A program that runs whole, and random plans of it.
class RowNetwork {
public:
    RowNetwork(const RowCase& of, std::uint32_t seed)
        : table_(*of.table),
          dice_(seed + 7000),
          network_(random_network(table_.policy(), of.dtype, seed, {12, seed % 3 == 0 ? 17 : 9, 4, 11})),
          whole_(build(network_, table_, dice_.between(1, 3)).program) {}

    const Network& network() const { return network_; }
    const kernels::KernelTable& table() const { return table_; }
    const program::OwnedProgram& whole() const { return *whole_; }
    Dice& dice() { return dice_; }

    /// A plan, which check_program() accepts.
    GroupedProgram plan(RowGroupCount& count, bool may_give_inputs) {
        const GroupedProgram grouped = random_groups(whole_->program(), table_, dice_, may_give_inputs);
        INFO(describe(runtime::check_program(grouped.program(), table_)));
        REQUIRE(runtime::check_program(grouped.program(), table_).ok());
        count_groups(grouped, count);
        return grouped;
    }
    RunInputs inputs(index_t images) { return random_inputs(whole_->program(), images, dice_); }
    /// The outputs that any plan must give.
    std::vector<std::byte> expected(const RunInputs& inputs, index_t images) const {
        return guarded_outputs_of(whole_->program(), table_, inputs, images, 0x5a);
    }

private:
    const kernels::KernelTable& table_;
    Dice dice_;
    Network network_;
    std::shared_ptr<program::OwnedProgram> whole_;
};

}  // namespace intq::test

#endif  // INTQ_TESTS_PROGRAM_ROW_GROUPS_HPP
