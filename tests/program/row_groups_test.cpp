// SPDX-License-Identifier: MIT
//
// Random plans of programs that run row by row, and damaged ones: the bytes of the whole program, on every backend.
#include "program/row_group_checks.hpp"

using namespace intq;
using namespace intq::test;

TEST_CASE("Random groups of random networks give the bytes of the whole program") {
    const RowGroupCount count = check_random_groups(1, 200, 1);
    CHECK(count.programs == 400);
    CHECK(count.groups >= 700);
    CHECK(count.instructions >= 2500);
    CHECK(count.rings >= 1200);
    CHECK(count.short_rings >= 300);
    CHECK(count.skips >= 150);
    CHECK(count.sums >= 40);
    CHECK(count.strides >= 200);
    CHECK(count.pools >= 60);
    CHECK(count.cats >= 150);
    CHECK(count.pads >= 10);
    CHECK(count.resizes >= 10);
    CHECK(count.slices >= 10);
    CHECK(count.planes >= 40);
    CHECK(count.given >= 25);
    for (const BackendTables& backend : board_tables()) CHECK(count.backends.contains(backend.name));
    for (const char* target : {"fp32", "tflite"}) CHECK(count.targets.contains(target));
}

TEST_CASE("A damaged plan is refused, or gives the bytes of the whole program") {
    const DamageCount count = check_damaged_groups(1001, 1120, 20);
    CHECK(count.accepted >= 250);
    CHECK(count.refused >= 1200);
    for (const PlanNumber kind : {PlanNumber::rows, PlanNumber::ring, PlanNumber::end, PlanNumber::workspace,
                                  PlanNumber::offset, PlanNumber::workspace_offset}) {
        INFO(plan_numbers[static_cast<std::size_t>(kind)]);
        CHECK(count.kinds[static_cast<std::size_t>(kind)] >= 10);
    }
}

TEST_CASE("A self test by rows has the whole program's checks, and names the layer with a fault") {
    const RowFaultCount count = check_row_faults(2001, 2060, 4);
    CHECK(count.planted >= 500);
    CHECK(count.found_by_images >= 100);
    CHECK(count.found_by_patterns >= 150);
    CHECK(count.inside >= 150);
}

TEST_CASE("What reads the sums of a group does not take their place") {
    // 11 sums of 32 bits have the bytes of 22 codes of 16 bits.
    const kernels::KernelTable& table = scalar_table("fp32");
    NetworkMaker maker(table.policy(), DType::int16, 1);
    const int x = maker.relu(maker.input(11, {1, 2}));
    const int average = maker.avg_pool(x, {{1, 2}, {1, 1}, {}, {1, 1}});
    const int out = maker.binary(OpKind::mul, x, average);
    const auto whole = build(maker.finish({out, x}), table, 1).program;  // so that the product cannot lie over x
    GroupedProgram grouped(whole->program());
    REQUIRE(grouped.instructions.size() == 3);
    grouped.groups = {{0, 2, 0}};
    grouped.instruction(0).rows = grouped.instruction(1).rows = 1;
    runtime::ProgramTensor &sums = grouped.output(1), &product = grouped.output(2);
    sums.ring = kernels::sums_of_rows;
    REQUIRE(sums.arena_bytes() == product.arena_bytes());
    grouped.place(table);
    REQUIRE(runtime::check_program(grouped.program(), table).ok());
    Dice dice(1);
    const RunInputs inputs = random_inputs(whole->program(), 1, dice);
    CHECK(guarded_outputs_of(grouped.program(), table, inputs, 1, 0x81) ==
          guarded_outputs_of(whole->program(), table, inputs, 1, 0x5a));
    product.offset = sums.offset;
    const Status status = runtime::check_program(grouped.program(), table);
    CHECK(status.code == StatusCode::corrupt);
    CHECK(status.field == Field::arena);
}

TEST_CASE("A group in which an instruction writes what another one writes and a third one reads is refused") {
    const kernels::KernelTable& table = scalar_table("fp32");
    NetworkMaker maker(table.policy(), DType::int8, 1);
    const auto whole =
        build(maker.finish({maker.relu(maker.relu(maker.relu(maker.input(3, {4, 4}))))}), table, 1).program;
    GroupedProgram grouped(whole->program());
    REQUIRE(grouped.instructions.size() == 3);
    grouped.instruction(2).output = grouped.instruction(0).output;
    const std::vector<std::int32_t> outputs{grouped.instruction(0).output};
    grouped.rest.outputs = outputs;
    grouped.place(table);
    CHECK(runtime::check_program(grouped.program(), table).ok());
    for (std::int32_t i = 0; i < 3; ++i) grouped.instruction(i).rows = 1;
    grouped.groups = {{0, 3, 0}};
    grouped.place(table);
    const Status status = runtime::check_program(grouped.program(), table);
    CHECK(status.code == StatusCode::corrupt);
    CHECK(status.op == OpKind::program);
    CHECK(status.field == Field::output);
}

namespace {
struct SeenSums {
    int steps = 0, between_words = 0;
};
SeenSums seen_sums;
void see_sums(const kernels::PoolCall&, const kernels::PoolSums& part) {
    ++seen_sums.steps;
    seen_sums.between_words += reinterpret_cast<std::uintptr_t>(part.sums) % alignof(std::int32_t) != 0 ? 1 : 0;
}
}  // namespace

TEST_CASE("The sums of every image of a batch begin at a word") {
    // Of 3 codes of one byte, the second image's begin at byte 3.
    kernels::KernelTable table = scalar_table("tflite");
    std::vector<kernels::PoolSumRow> pools(table.pool_sums.begin(), table.pool_sums.end());
    for (kernels::PoolSumRow& row : pools) row.run = &see_sums;
    table.pool_sums = pools;
    NetworkMaker maker(table.policy(), DType::int8, 1);
    const int x = maker.relu(maker.input(3, {4, 2}));
    const auto whole = build(maker.finish({maker.avg_pool(x, {{4, 2}, {1, 1}, {}, {1, 1}})}), table, 3).program;
    GroupedProgram grouped(whole->program());
    grouped.groups = {{0, 2, 0}};
    grouped.instruction(0).rows = grouped.instruction(1).rows = 1;
    grouped.output(1).ring = kernels::sums_of_rows;
    grouped.place(table);
    REQUIRE(runtime::check_program(grouped.program(), table).ok());
    Dice dice(1);
    guarded_outputs_of(grouped.program(), table, random_inputs(whole->program(), 3, dice), 3, 0x81);
    CHECK(seen_sums.steps == 12);
    CHECK(seen_sums.between_words == 0);
}
