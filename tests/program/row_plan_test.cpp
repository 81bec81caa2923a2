// SPDX-License-Identifier: MIT
//
// Programs that run row by row: the bytes of the program that does not, in the arena that the page on rows states.
#include "intq/program/row_plan.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "intq/nn/layers/pool.hpp"
#include "intq/nn/model/container.hpp"
#include "intq/program/program_copy.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/tensor/thread_pool.hpp"
#include "program/row_networks.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::test;

namespace {

/// What was planned in all networks of a test, so that it can say that it saw enough.
struct RowCount {
    int with_groups = 0, smaller = 0, larger = 0;
    index_t rings = 0, sums = 0;

    void add(const program::OwnedProgram& whole, const program::OwnedProgram& rows) {
        with_groups += rows.program().groups.empty() ? 0 : 1;
        smaller += rows.arena_bytes() < whole.arena_bytes() ? 1 : 0;
        larger += rows.arena_bytes() > whole.arena_bytes() ? 1 : 0;
        for (const runtime::ProgramTensor& tensor : rows.program().tensors) {
            rings += tensor.ring > 0 ? 1 : 0;
            sums += tensor.holds_sums() ? 1 : 0;
        }
    }
};

}  // namespace

TEST_CASE("Row by row, random networks give the bytes of whole tensors on every backend") {
    for (const auto& backend : usable_backend_tables()) {
        RowCount count;
        for (const kernels::KernelTable* table : backend.tables) {
            const std::string_view target = table->policy().name;
            if (target != "fp32" && target != "tflite") continue;
            for (const DType dtype : {DType::int8, DType::int16})
                for (std::uint32_t seed = 1; seed <= 25; ++seed) {
                    INFO(backend.name << ", " << target << ", " << name_of(dtype) << ", seed " << seed);
                    Dice dice(seed);
                    const Network network = random_network(table->policy(), dtype, seed);
                    const NetworkProgram whole = build(network, *table, 3);
                    const auto rows =
                        program::copy_program(whole.program->program(), *table, *table, {program::RowMode::memory});
                    count.add(*whole.program, *rows);
                    const auto inputs = inputs_of(network, 2, dice);
                    const auto expected = whole.program->run(inputs), given = rows->run(inputs);
                    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same_bytes(given[i], expected[i]));
                }
        }
        INFO(backend.name);
        CHECK(count.with_groups >= 30);
        CHECK(count.smaller >= 30);
        CHECK(count.larger == 0);
        CHECK(count.rings >= 60);
        CHECK(count.sums >= 1);
    }
}

/// Tensors of 72 kB, with a skip.
static Network large_network(const arith::PolicyRecord& policy) {
    NetworkMaker maker(policy, DType::int8, 3);
    const int first = maker.conv(maker.input(3, {48, 64}), 24, row_window(3, 1));
    int x = maker.conv(maker.conv(first, 24, row_window(1, 1)), 24, row_window(3, 1), 24);
    x = maker.conv(maker.binary(OpKind::add, x, first), 16, row_window(3, 2));
    return maker.finish({maker.linear(maker.conv(x, 4, row_window(3, 2)), 3)});
}

static index_t group_steps(const runtime::Program& program) {
    index_t steps = 0;
    for (const runtime::Instruction& instruction : program.instructions)
        if (instruction.rows > 0) steps += runtime::steps_of(program, instruction);
    return steps;
}

TEST_CASE("For speed, rings stay in half of a cache, and the bytes are those of whole tensors") {
    for (const auto& backend : usable_backend_tables()) {
        INFO(backend.name);
        const auto& tables = backend.tables;
        const kernels::KernelTable& table = **std::ranges::find_if(
            tables, [](const auto* of) { return std::string_view(of->policy().name) == "tflite"; });
        const Network network = large_network(table.policy());
        const NetworkProgram whole = build(network, table, 1);
        Dice dice(1);
        const auto inputs = inputs_of(network, 1, dice);
        const auto expected = whole.program->run(inputs);
        for (const index_t cache : {65536, 131072, 1 << 30}) {
            INFO("a cache of " << cache << " bytes");
            const auto rows =
                program::copy_program(whole.program->program(), table, table, {program::RowMode::speed, 0, cache});
            CHECK(rows->program().groups.empty() == (cache == 1 << 30));
            const index_t steps = group_steps(rows->program());
            index_t in_groups = 0;
            for (const runtime::RowGroup& group : rows->program().groups) {
                index_t held = group.workspace;
                for (std::int32_t i = group.first; i <= group.last(); ++i, ++in_groups) {
                    const auto& of = rows->program().instructions[static_cast<std::size_t>(i)];
                    const auto& y = rows->program().tensor(of.output);
                    if (y.ring > 0) held += y.ring * y.elements_per_row() * size_of(y.dtype);
                }
                CHECK(held <= cache / 2);
            }
            if (cache < 1 << 30) CHECK(in_groups >= 2);
            // Threads meet behind each step, so that there are fewer.
            const auto shared =
                program::copy_program(whole.program->program(), table, table, {program::RowMode::speed, 0, cache, 2});
            if (cache == 65536) CHECK(group_steps(shared->program()) < steps);
            CHECK(group_steps(shared->program()) <= steps);
            ThreadPool pool(2);
            CHECK(same_bytes(shared->run(inputs, pool.executor())[0], expected[0]));
            if (cache == 131072) CHECK((in_groups >= 4 && steps <= 60));  // it has room for many rows at a time
            CHECK(same_bytes(rows->run(inputs)[0], expected[0]));
        }
    }
}

TEST_CASE("Options of rows that mean nothing are refused") {
    const kernels::KernelTable& table = scalar_table("tflite");
    const NetworkProgram whole = build(random_network(table.policy(), DType::int8, 7), table, 1);
    const auto copy = [&](const program::RowOptions& options) {
        return program::copy_program(whole.program->program(), table, table, options);
    };
    CHECK_THROWS_WITH(copy({program::RowMode::speed}), Catch::Contains("bytes of a cache, given 0"));
    CHECK_THROWS_WITH(copy({program::RowMode::speed, 0, 65536, 0}), Catch::Contains("a thread, given 0"));
    CHECK_THROWS_WITH(copy({static_cast<program::RowMode>(77)}), Catch::Contains("no mode 77"));
    CHECK_THROWS_WITH(copy({program::RowMode::memory, -1}), Catch::Contains("cannot have -1 bytes"));
}

TEST_CASE("MobileNetV2 0.35 on 144 x 144 pixels fits into 34 kB") { check_arena_of_mobilenet_v2(0.35, 144, 34000); }

TEST_CASE("A hook is refused where tensors are not whole") {
    const kernels::KernelTable& table = scalar_table("tflite");
    NetworkMaker maker(table.policy(), DType::int8, 2);
    int x = maker.conv(maker.input(3, {16, 16}), 8, row_window(3, 1));
    x = maker.conv(x, 8, row_window(3, 1));
    const Network network = maker.finish({maker.linear(maker.conv(x, 4, row_window(3, 2)), 3)});
    const NetworkProgram whole = build(network, table, 1);
    const auto rows = program::copy_program(whole.program->program(), table, table, {program::RowMode::memory});
    REQUIRE(!rows->program().groups.empty());
    CHECK(runtime::check_observable(whole.program->program()).ok());
    const Status status = runtime::check_observable(rows->program());
    CHECK(status.code == StatusCode::unsupported);
    CHECK(status.field == Field::tensor);
    Dice dice(1);
    const auto inputs = inputs_of(network, 1, dice);
    const runtime::InstructionHook hook{[](void*, const runtime::Program&, index_t, const void*, index_t) {}, nullptr};
    CHECK_THROWS_WITH(rows->run(inputs, serial, hook), Catch::Contains("runs by rows"));
}

TEST_CASE("Without rows a copy of a program is the program") {
    const kernels::KernelTable& table = scalar_table("tflite");
    const NetworkProgram whole = build(random_network(table.policy(), DType::int8, 7), table, 2);
    const auto rows = program::copy_program(whole.program->program(), table, table, {program::RowMode::memory});
    const auto off = program::copy_program(rows->program(), table, table, {});
    CHECK(off->program().groups.empty());
    CHECK(off->arena_bytes() == whole.program->arena_bytes());
    for (const runtime::Instruction& instruction : off->program().instructions) CHECK(instruction.rows == 0);
    for (const runtime::ProgramTensor& tensor : off->program().tensors) CHECK(tensor.ring == 0);
}

TEST_CASE("Averages of images without columns or rows are planned as others") {
    const kernels::KernelTable& table = scalar_table("tflite");
    const Tensor x = random_tensor(Shape(2, 3, 9), 1);
    for (const bool is_global : {false, true}) {
        nn::Sequential model;
        model.append(std::make_shared<nn::QuantStub>());
        if (is_global)
            model.append(std::make_shared<nn::AdaptiveAvgPool1d>(1));
        else
            model.append(std::make_shared<nn::AvgPool1d>(nn::PoolWindow1d{2, 2}));
        model.append(std::make_shared<nn::DeQuantStub>());
        using namespace quantization;
        const auto prepared =
            prepare_calibration_fx(model, get_default_qconfig_mapping(table.policy()), table.policy());
        calibrate(*prepared, x, 2);
        const QuantizedGraph quantized = convert_fx(*prepared);
        const Tensor whole = lower(quantized, table).run(x);
        const Tensor rows = lower(quantized, table, {.rows = {program::RowMode::memory}}).run(x);
        CHECK(std::memcmp(whole.data(), rows.data(), static_cast<std::size_t>(whole.bytes())) == 0);
    }
}
