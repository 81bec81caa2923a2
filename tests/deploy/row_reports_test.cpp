// SPDX-License-Identifier: MIT
//
// What reports say of a program that runs row by row, beside what its schedule does.
#include <string>

#include "deploy/small_networks.hpp"
#include "intq/deploy/header_program.hpp"
#include "intq/deploy/memory_report.hpp"
#include "intq/deploy/pack_program.hpp"
#include "intq/quantization/convert/explain.hpp"
#include "intq/runtime/row_schedule.hpp"
#include "support/catch.hpp"

using namespace intq;

TEST_CASE("Reports name the groups that run row by row") {
    const test::NamedNetwork network = test::small_rows();
    const kernels::KernelTable& table = kernels::kernel_table<target::tflite<>, simd::scalar>;
    const auto prepared = quantization::prepare_calibration_fx(
        *network.model, quantization::get_default_qconfig_mapping(network.activations), table.policy());
    quantization::calibrate(*prepared, test::images_of(network, 2, 9), 1);
    const quantization::QuantizedGraph quantized = quantization::convert_fx(*prepared);
    const auto lowered = quantization::lower(quantized, table, {.rows = network.rows});
    const runtime::Program& program = lowered.program().program();

    const auto explained = quantization::explain(quantized, table, nullptr, network.rows);
    REQUIRE(explained.groups.size() == program.groups.size());
    REQUIRE(!program.groups.empty());
    for (std::size_t g = 0; g < program.groups.size(); ++g) {
        const program::RowSummary& group = explained.groups[g];
        const runtime::ProgramOperators operators{program, table};
        index_t steps = 0;
        runtime::RowSchedule schedule(program, operators, program.groups[g]);
        for (; schedule.next(); schedule.finish()) {
            ++steps;
            if (schedule.is_full(program.tensor(schedule.instruction().output).ring)) schedule.drop_rows();
        }
        CHECK(group.steps == steps);
        CHECK(group.rings < group.whole);
    }
    const std::string text = to_string(explained);
    CHECK_THAT(text, Catch::Contains("groups that run row by row") && Catch::Contains(explained.groups[0].last));
    CHECK_THAT(to_string(quantization::explain(quantized, table)), !Catch::Contains("row by row"));
    const std::string memory = deploy::memory_report(program, table).to_text();
    CHECK_THAT(memory, Catch::Contains("3 rows of features.1.expand.0") && Catch::Contains("1 row of"));
}

TEST_CASE("MobileNetV1 0.25 takes the arenas that the page on rows states") {
    const auto whole = test::lowered(test::mobilenet_v1());
    struct Arena {
        const char* backend;
        index_t on_whole, by_rows;
    };
    for (const Arena& arena :
         {Arena{"scalar", 55296, 15104}, Arena{"dsp", 56960, 16768}, Arena{"helium", 60032, 18688}}) {
        INFO(arena.backend);
        const kernels::KernelTable to = deploy::describe_kernels(whole->table(), arena.backend);
        for (const program::RowMode mode : {program::RowMode::off, program::RowMode::memory}) {
            const auto packed = deploy::pack_program(whole->program(), whole->table(), to, {mode});
            const auto header = deploy::header_program(packed->program(), to, deploy::GoldenRecord{});
            CHECK(header.program.arena_size <= (mode == program::RowMode::off ? arena.on_whole : arena.by_rows));
        }
    }
}
