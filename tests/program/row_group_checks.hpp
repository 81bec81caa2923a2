// SPDX-License-Identifier: MIT
//
// What holds for every plan of rows: the bytes of the whole program, for sound plans and for damaged ones that
// check_program() accepts, and a self test that names the layer with a fault.
#ifndef INTQ_TESTS_PROGRAM_ROW_GROUP_CHECKS_HPP
#define INTQ_TESTS_PROGRAM_ROW_GROUP_CHECKS_HPP

#include <array>
#include <cstring>

#include "intq/deploy/program_writer.hpp"
#include "intq/program/program_copy.hpp"
#include "intq/runtime/self_test.hpp"
#include "program/row_groups.hpp"

namespace intq::test {

/// Calls check(case, network) with random networks, each with the kernels of some cases: all cases, one after another.
template <class Check>
void for_each_row_network(std::uint32_t first_seed, std::uint32_t last_seed, std::size_t cases_of_each, Check check) {
    const std::vector<RowCase> cases = cases_of_rows();
    std::size_t next = 0;
    for (std::uint32_t seed = first_seed; seed <= last_seed; ++seed)
        for (std::size_t i = 0; i < cases_of_each; ++i, next = (next + 1) % cases.size()) {
            INFO(to_string(cases[next]) << ", seed " << seed);
            RowNetwork network(cases[next], seed);
            INFO(to_string(network.network()));
            check(cases[next], network);
        }
}

/// Runs random plans of random networks, and counts what they were made of.
inline RowGroupCount check_random_groups(std::uint32_t first_seed, std::uint32_t last_seed, std::size_t cases_of_each) {
    RowGroupCount count;
    for_each_row_network(first_seed, last_seed, cases_of_each, [&](const RowCase& of, RowNetwork& network) {
        count.backends.insert(of.backend);
        count.targets.insert(of.table->policy().name);
        for (int plan = 0; plan < 2; ++plan) {
            const GroupedProgram grouped = network.plan(count, plan == 1);
            for (index_t images = 1; images <= network.whole().max_batch(); ++images) {
                const RunInputs inputs = network.inputs(images);
                CHECK(guarded_outputs_of(grouped.program(), network.table(), inputs, images, 0x81) ==
                      network.expected(inputs, images));
            }
        }
    });
    return count;
}

// --- damaged plans ---------------------------------------------------------------------------------------------------

/// The numbers of a plan.
enum class PlanNumber { rows, ring, first, count, end, workspace, offset, workspace_offset };
inline constexpr std::array<const char*, 8> plan_numbers{"rows", "ring",      "first",  "count",
                                                         "end",  "workspace", "offset", "workspace offset"};

/// Another number near one, or any one of a range.
inline std::int64_t damaged(std::int64_t number, std::int64_t lowest, std::int64_t highest, Dice& dice) {
    std::int64_t other = number;
    while (other == number)
        other = dice.percent(60) ? number + (dice.percent(50) ? 1 : -1) : dice.between(lowest, highest);
    return other;
}

/// Lets a group begin or end one instruction earlier or later, of which that one then states rows or none.
inline void move_end(GroupedProgram& of, runtime::RowGroup& group, Dice& dice) {
    const bool grows = dice.percent(50), at_begin = dice.percent(50);
    const std::int32_t moved = at_begin ? group.first - (grows ? 1 : 0) : group.last() + (grows ? 1 : 0);
    if (moved < 0 || moved >= static_cast<std::int32_t>(of.instructions.size())) return;
    of.instruction(moved).rows = static_cast<std::int16_t>(grows ? dice.between(1, 3) : 0);
    if (!grows && dice.percent(50)) of.output(moved).ring = 0;
    group.count += grows ? 1 : -1;
    if (at_begin) group.first = grows ? moved : moved + 1;
}

/// Gives one number of a plan, which has a group, another value.
inline PlanNumber damage(GroupedProgram& of, Dice& dice) {
    const auto kind = static_cast<PlanNumber>(dice.between(0, static_cast<std::int64_t>(plan_numbers.size()) - 1));
    runtime::RowGroup& group =
        of.groups[static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(of.groups.size()) - 1))];
    const auto end = static_cast<std::int64_t>(of.instructions.size());
    const auto instruction = static_cast<std::int32_t>(dice.between(0, end - 1));
    runtime::ProgramTensor& y = of.output(instruction);
    const index_t height = y.shape.rank == 4 ? y.shape[2] : 1;
    const std::int64_t places = of.rest.arena_size / buffer_alignment;
    switch (kind) {
        case PlanNumber::rows: {
            std::int16_t& rows = of.instruction(instruction).rows;
            rows = static_cast<std::int16_t>(damaged(rows, -1, height + 2, dice));
            break;
        }
        case PlanNumber::ring:
            y.ring = static_cast<std::int16_t>(damaged(y.ring, -2, height + 1, dice));
            break;
        case PlanNumber::first:
            group.first = static_cast<std::int32_t>(damaged(group.first, -1, end, dice));
            break;
        case PlanNumber::count:
            group.count = static_cast<std::int32_t>(damaged(group.count, -1, end + 1, dice));
            break;
        case PlanNumber::end:
            move_end(of, group, dice);
            break;
        case PlanNumber::workspace:
            group.workspace = damaged(group.workspace, -1, of.rest.workspace_size + 1, dice);
            break;
        case PlanNumber::offset: {
            runtime::ProgramTensor& tensor =
                of.tensors[static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(of.tensors.size()) - 1))];
            tensor.offset = damaged(tensor.offset / buffer_alignment, 0, places, dice) * buffer_alignment;
            break;
        }
        case PlanNumber::workspace_offset:
            of.rest.workspace_offset =
                damaged(of.rest.workspace_offset / buffer_alignment, 0, places, dice) * buffer_alignment;
    }
    return kind;
}

/// Whether the damaged sizes are bytes, so that the memory can be planned by them.
inline bool has_sizes(const GroupedProgram& of) {
    return std::ranges::all_of(of.tensors, [](const auto& x) { return x.ring == 0 || x.shape.rank == 4; }) &&
           std::ranges::all_of(of.groups, [](const auto& group) { return group.workspace >= 0; });
}

struct DamageCount {
    int accepted = 0, refused = 0;
    std::array<int, plan_numbers.size()> kinds{};  // of the accepted
};

/// Damages numbers of random plans. One that check_program() still accepts gives the bytes of the whole program in its
/// arena, whatever the arena holds before.
inline DamageCount check_damaged_groups(std::uint32_t first_seed, std::uint32_t last_seed, int damages) {
    DamageCount count;
    RowGroupCount of_plans;
    const auto check = [&](const RowCase&, RowNetwork& network) {
        const GroupedProgram plan = network.plan(of_plans, false);
        const index_t images = network.whole().max_batch();
        const std::array<RunInputs, 2> inputs{network.inputs(images), network.inputs(images)};
        const std::array expected{network.expected(inputs[0], images), network.expected(inputs[1], images)};
        for (int i = 0; i < damages && !plan.groups.empty(); ++i) {
            GroupedProgram damaged = plan;
            Dice& dice = network.dice();
            if (dice.percent(40)) damaged.rest.arena_size += dice.between(1, 8) * buffer_alignment;
            const auto kind = damage(damaged, dice);
            if (dice.percent(40)) damage(damaged, dice);
            // With the smallest arena for the wrong sizes, tensors lie in what is missing of others.
            if (dice.percent(40) && has_sizes(damaged)) damaged.place(network.table());
            INFO("damage " << i << " of " << plan_numbers[static_cast<std::size_t>(kind)]);
            const runtime::Program program = damaged.program();
            if (!runtime::check_program(program, network.table())) {
                ++count.refused;
                continue;
            }
            ++count.accepted;
            ++count.kinds[static_cast<std::size_t>(kind)];
            for (const std::size_t run : {0u, 1u})
                CHECK(guarded_outputs_of(program, network.table(), inputs[run], images, run == 0 ? 0x7e : 0x81) ==
                      expected[run]);
        }
    };
    for_each_row_network(first_seed, last_seed, 1, check);
    return count;
}

// --- faults ----------------------------------------------------------------------------------------------------------

struct RowFaultCount {
    int planted = 0, found_by_images = 0, found_by_patterns = 0;
    int inside = 0;  // found, in a layer whose output is a ring
};

namespace detail {

inline intq::Tensor as_tensor(const runtime::ProgramTensor& x, const std::vector<std::byte>& bytes, index_t images) {
    Shape shape = x.shape;
    shape[0] = images;
    intq::Tensor tensor = intq::Tensor::empty(shape, x.dtype);
    std::memcpy(tensor.data(), bytes.data(), bytes.size());
    return tensor;
}

/// A bit of a layer's constants, which belong to a ProgramCopy.
class LayerFault {
public:
    /// Chooses a bit of a weight, or a low one of a bias; none of what fills vectors, which meets any bytes.
    LayerFault(const kernels::PackedConv2d& constants, Dice& dice) {
        const auto pick = [&](const void* data, index_t bytes) {
            place_ = static_cast<std::byte*>(const_cast<void*>(data)) + dice.between(0, bytes - 1);
            bit_ = std::byte(1 << dice.between(0, 6));
        };
        if (constants.bias != nullptr && dice.percent(50)) {
            const index_t size = constants.accumulator_bits == 64 ? 8 : 4;
            pick(constants.bias, 1);
            place_ += dice.between(0, constants.out_channels - 1) * size + (is_little_endian ? 0 : size - 1);
            return;
        }
        const index_t weights = constants.is_depthwise ? constants.depthwise_weights() * constants.padded_outputs()
                                                       : constants.groups * constants.group_weights();
        const std::vector<std::byte> before = program::weight_codes_of(constants);
        for (bool is_weight = false; !is_weight; flip()) {
            pick(constants.weights, weights);
            flip();
            is_weight = program::weight_codes_of(constants) != before;
        }
    }
    /// Flips it; a second time takes it back.
    void flip() const { *place_ ^= bit_; }

private:
    std::byte* place_ = nullptr;
    std::byte bit_{};
};

/// Plants a fault in one layer of a plan, and compares what a self test finds in the plan and in the whole program.
inline void check_fault(const GroupedProgram& plan, const runtime::Program& whole, const kernels::KernelTable& table,
                        const deploy::GoldenRecord& golden, std::int32_t layer, Dice& dice, RowFaultCount& count) {
    const runtime::Instruction& instruction = plan.instructions[static_cast<std::size_t>(layer)];
    const auto& constants = instruction.params_as<kernels::ConvParams>().packed;
    const LayerFault fault(constants, dice);
    const program::AlignedBytes arena(plan.rest.arena_size), whole_arena(whole.arena_size);
    fault.flip();
    const runtime::Difference of_rows = runtime::self_test(plan.program(), golden.view(), table, arena.data());
    const runtime::Difference expected = runtime::self_test(whole, golden.view(), table, whole_arena.data());
    fault.flip();
    INFO("fault in instruction " << layer);
    ++count.planted;
    CHECK(of_rows.run == expected.run);
    CHECK(of_rows.instruction == expected.instruction);
    if (of_rows.is_none()) return;
    CHECK(of_rows.instruction == layer);
    ++(of_rows.run < golden.count ? count.found_by_images : count.found_by_patterns);
    count.inside += plan.tensors[static_cast<std::size_t>(instruction.output)].ring > 0 ? 1 : 0;
}

}  // namespace detail

/// A plan passes the golden runs of the whole program, and those of the plan are the same. With a fault in a layer of a
/// group the self test names that layer.
inline RowFaultCount check_row_faults(std::uint32_t first_seed, std::uint32_t last_seed, int faults) {
    RowFaultCount count;
    RowGroupCount of_plans;
    const auto check = [&](const RowCase&, RowNetwork& network) {
        const kernels::KernelTable& table = network.table();
        const auto copy = program::copy_program(network.whole().program(), table, table, {});  // for its own constants
        const runtime::Program& whole = copy->program();
        const GroupedProgram plan = random_groups(whole, table, network.dice(), false);
        REQUIRE(runtime::check_program(plan.program(), table).ok());
        count_groups(plan, of_plans);
        std::vector<intq::Tensor> inputs;
        const RunInputs numbers = network.inputs(2);
        for (std::size_t k = 0; k < numbers.size(); ++k)
            inputs.push_back(detail::as_tensor(whole.tensor(whole.inputs[k]), numbers[k], 2));
        const auto both = deploy::record_golden_runs(whole, table, inputs, 2);
        const auto of_rows = deploy::record_golden_runs(plan.program(), table, inputs, 2);
        CHECK(of_rows.checks == both.checks);
        CHECK(of_rows.outputs == both.outputs);
        const auto patterns = deploy::record_golden_runs(whole, table, {}, 2);
        const program::AlignedBytes arena(plan.rest.arena_size);
        CHECK(runtime::self_test(plan.program(), both.view(), table, arena.data()).is_none());
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(plan.instructions.size()); ++i) {
            const runtime::Instruction& layer = plan.instructions[static_cast<std::size_t>(i)];
            if (layer.rows == 0 || layer.params.kind != kernels::ParamKind::conv) continue;
            for (int fault = 0; fault < faults; ++fault)
                detail::check_fault(plan, whole, table, fault % 2 == 0 ? both : patterns, i, network.dice(), count);
        }
    };
    for_each_row_network(first_seed, last_seed, 1, check);
    return count;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_PROGRAM_ROW_GROUP_CHECKS_HPP
