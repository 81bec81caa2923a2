// SPDX-License-Identifier: MIT
//
// Layers behind codes that are never negative, which tiles of unsigned bytes read without a conversion: scalar's bytes,
// the same layers by every way to the program, and none where an instruction may write a negative code.
#include <map>
#include <set>
#include <string>

#include "intq/deploy/program_writer.hpp"
#include "intq/program/constant_channels.hpp"
#include "intq/program/program_copy.hpp"
#include "program/row_groups.hpp"

using namespace intq;
using namespace intq::test;
using kernels::KernelTable;

namespace {

/// Layers of four to twenty channels, between poolings and sums, a half of them with a clamp.
Network draw_network(const KernelTable& table, std::uint32_t seed) {
    NetworkMaker maker(table.policy(), DType::int8, seed);
    Dice& dice = maker.dice();
    int x = maker.input(4 * dice.between(1, 4), {9, 7});
    for (int layer = 0; layer < 6; ++layer) {
        const index_t channels = dice.percent(80) ? 4 * dice.between(1, 5) : dice.between(1, 9);
        const Window2d window = dice.percent(50) ? Window2d{} : Window2d{{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
        const int y = maker.conv(x, channels, window, 1, -1);
        if (dice.percent(20))
            x = maker.max_pool(y, {{2, 2}, {1, 1}, {1, 1, 0, 0}, {1, 1}});
        else if (dice.percent(20))
            x = maker.binary(OpKind::add, y, maker.conv(x, channels, window, 1, -1));
        else
            x = dice.percent(40) ? maker.relu(y) : y;
    }
    return maker.finish({x});
}

/// The layers that need an input without negative codes, and the operators that write the inputs of these.
struct Layers {
    int direct = 0, others = 0;
    std::map<std::string, int> writers{};

    void add(const runtime::Program& program, const KernelTable& table) {
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            const runtime::Instruction& instruction = program.instructions[i];
            if (instruction.op != OpKind::conv2d) continue;
            const auto call = runtime::call_of(program, table, instruction);
            const bool is_direct = kernels::find_operator(instruction.op)->needs_nonnegative(call);
            (is_direct ? direct : others) += 1;
            const std::int64_t writer = runtime::detail::producer_of(program, program.operands_of(instruction)[0], i);
            REQUIRE((writer >= 0 || !is_direct));
            if (is_direct) ++writers[name_of(program.instructions[static_cast<std::size_t>(writer)].op)];
        }
    }
};

/// The backends whose tiles read unsigned bytes, by target.
std::vector<const KernelTable*> tables_of_unsigned_tiles() {
    std::vector<const KernelTable*> tables;
    for (const BackendTables& backend : usable_backend_tables())
        for (const KernelTable* const table : backend.tables)
            if (table->packing.int8_packing.staging == simd::Staging::offset_binary &&
                (std::string_view(table->policy().name) == "fp32" ||
                 std::string_view(table->policy().name) == "tflite"))
                tables.push_back(table);
    return tables;
}

bool skips(const std::vector<const KernelTable*>& tables) {
    if (tables.empty()) skip_item("no backend in this build has tiles of unsigned bytes that this CPU executes");
    return tables.empty();
}

}  // namespace

TEST_CASE("Layers behind codes that are never negative have scalar's bytes, lowered, packed and copied") {
    const std::vector<const KernelTable*> tables = tables_of_unsigned_tiles();
    if (skips(tables)) return;
    Layers layers;
    for (const KernelTable* const table : tables)
        for (std::uint32_t seed = 1; seed <= 60; ++seed) {
            const KernelTable& scalar = scalar_table(table->policy().name);
            INFO(table->policy().name << ", " << seed);
            const Network network = draw_network(scalar, seed);
            const auto lowered = build(network, *table, 2).program, plain = build(network, scalar, 2).program;
            layers.add(lowered->program(), *table);
            Dice dice(seed);
            const RunInputs inputs = random_inputs(plain->program(), 2, dice);
            const auto expected = guarded_outputs_of(plain->program(), scalar, inputs, 2, 0x5a);
            CHECK(guarded_outputs_of(lowered->program(), *table, inputs, 2, 0x81) == expected);

            const auto file = deploy::serialize_program(lowered->program(), *table, {});
            const auto packed = program::copy_program(plain->program(), scalar, *table, {});
            CHECK(deploy::serialize_program(packed->program(), *table, {}) == file);
            const auto back = program::copy_program(lowered->program(), *table, scalar, {});
            CHECK(deploy::serialize_program(back->program(), scalar, {}) ==
                  deploy::serialize_program(plain->program(), scalar, {}));
            const auto dropped = program::drop_constant_channels(lowered).program;
            CHECK(guarded_outputs_of(dropped->program(), *table, inputs, 2, 0x7e) == expected);
        }
    CHECK(layers.direct >= 100);
    CHECK(layers.others >= 100);
    for (const char* writer : {"conv2d", "max_pool2d", "add", "relu"}) {
        INFO(writer);
        CHECK(layers.writers[writer] >= 5);
    }
}

TEST_CASE("A layer that was made for codes that are never negative is refused behind others") {
    const std::vector<const KernelTable*> tables = tables_of_unsigned_tiles();
    if (skips(tables)) return;
    const KernelTable& table = *tables[0];
    NetworkMaker maker(table.policy(), DType::int8, 1);
    Network network = maker.finish({maker.conv(maker.relu(maker.input(8, {4, 4})), 8, {})});
    for (NetworkTensor& tensor : network.tensors) tensor.qparams.zero_points.clear();
    network.layers[0].lowest = 0;
    const auto whole = build(network, table, 1).program;
    GroupedProgram changed(whole->program());
    REQUIRE(changed.instructions.size() == 2);
    const auto reader = runtime::call_of(whole->program(), table, whole->program().instructions[1]);
    REQUIRE(kernels::find_operator(OpKind::conv2d)->needs_nonnegative(reader));
    REQUIRE(runtime::check_program(changed.program(), table).ok());
    const auto refusal = [&] { return runtime::check_program(changed.program(), table); };
    const auto refused = [](std::int64_t lowest) {
        return Status{StatusCode::corrupt, OpKind::conv2d, Field::input, lowest, 0};
    };
    auto clamp = changed.instruction(0).params_as<arith::OutputCodes>();
    SECTION("a clamp that lets them through") {
        clamp.lowest = -1;
        changed.instruction(0).params.data = &clamp;
        CHECK(refusal() == refused(-1));
    }
    SECTION("codes of the caller") {
        const std::vector<std::int32_t> operands{whole->program().inputs[0], whole->program().inputs[0]};
        changed.rest.operands = operands;
        changed.place(table);
        CHECK(refusal() == refused(INT8_MIN));
    }
}
