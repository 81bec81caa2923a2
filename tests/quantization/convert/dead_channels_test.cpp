// SPDX-License-Identifier: MIT
//
// Dead channels on a user's way: from a float model to codes, what the reports say, whoever looks at the layers, files
// and headers.
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include "intq/deploy/generate_cpp.hpp"
#include "intq/deploy/program_writer.hpp"
#include "intq/program/dropped_channels.hpp"
#include "intq/program/kept_outputs.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/explain.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using intq::Tensor;

namespace {

struct Converted {
    std::shared_ptr<PreparedModel> prepared;
    QuantizedGraph quantized;
    Tensor x;
};

Converted convert_for(const kernels::KernelTable& table) {
    Converted made;
    made.x = test::random_tensor(Shape(6, 3, 7, 7), 9);
    made.prepared =
        prepare_calibration_fx(test::HalfDeadNet(), get_default_qconfig_mapping(table.policy()), table.policy());
    calibrate(*made.prepared, made.x, made.x.extent(0));
    made.quantized = convert_fx(*made.prepared);
    return made;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
    const Tensor x = a.contiguous(), y = b.contiguous();
    return x.shape() == y.shape() && std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.bytes())) == 0;
}

/// What a layer lost.
std::optional<program::DroppedOfLayer> lost_by(const program::DroppedWork& work, const std::string& name) {
    for (const program::DroppedOfLayer& layer : work.layers)
        if (layer.name == name) return layer;
    return std::nullopt;
}

}  // namespace

TEST_CASE("Dead channels of a float model are not in its program, whose codes are those of the exact simulation") {
    for (const char* target : {"fp32", "tflite", "litert", "bayes", "meta"}) {
        INFO(target);
        const kernels::KernelTable& table = test::scalar_table(target);
        const Converted made = convert_for(table);
        const LoweredModel lowered = lower(made.quantized, table, 4);
        const runtime::Program& program = lowered.program().program();
        const program::DroppedWork work = program::dropped_work(program);
        const auto first = lost_by(work, "first"), second = lost_by(work, "second");
        REQUIRE(first);
        CHECK(first->channels == 8);
        CHECK(first->constant == 3);
        CHECK(first->codes.size() == 2);
        REQUIRE(second);
        CHECK(second->unread == 1);
        CHECK(second->constant == 0);
        CHECK_FALSE(lost_by(work, "third"));
        CHECK(work.multiplications == 49 * (5 * 27 + 5 * 5 + 5 * 45) + 5 * 4);
        CHECK(work.whole_multiplications == 49 * (8 * 27 + 6 * 8 + 5 * 54) + 5 * 4);

        const Tensor expected = lowered.whole_program().run(made.x);
        CHECK(same_bytes(lowered.run(made.x), expected));
        CHECK(same_bytes(ExactSimulation(made.quantized, table, made.x.extent(0)).run(std::span(&made.x, 1)).front(),
                         expected));
        const LoweredModel kept =
            lower(made.quantized, table, {.max_batch = 4, .constant_channels = program::ConstantChannels::keep});
        CHECK(kept.program().program().dropped.empty());
        CHECK(&kept.program() == &kept.whole_program());
        CHECK(same_bytes(kept.run(made.x), expected));
    }
}

TEST_CASE("Kept outputs have the channels that a program does without") {
    const kernels::KernelTable& table = test::scalar_table("fp32");
    const Converted made = convert_for(table);
    const LoweredModel lowered = lower(made.quantized, table, 4);
    REQUIRE_FALSE(lowered.program().program().dropped.empty());
    // Constant channels are known from the program alone; of one that nobody reads there are no values.
    program::KeptOutputs kept(lowered.program().program(), made.x.extent(0)),
        whole(lowered.whole_program().program(), made.x.extent(0));
    lowered.program().run(made.x, serial, kept.hook());
    lowered.whole_program().run(made.x, serial, whole.hook());
    for (const runtime::Instruction& instruction : lowered.program().program().instructions)
        for (const runtime::Instruction& other : lowered.whole_program().program().instructions) {
            if (std::string_view(instruction.name) != other.name || instruction.op != other.op) continue;
            INFO(instruction.name);
            const Tensor given = kept.tensor(instruction.output).value(), expected = whole.tensor(other.output).value();
            REQUIRE(given.shape() == expected.shape());
            if (std::string_view(instruction.name) != "second") CHECK(same_bytes(given, expected));
        }
}

TEST_CASE("Reports, files and headers name the channels that a program does without") {
    const kernels::KernelTable& table = test::scalar_table("tflite");
    const Converted made = convert_for(table);
    const std::string text = to_string(explain(made.quantized, table));
    CHECK_THAT(text, Contains("channels that no output depends on are left out"));
    CHECK_THAT(text, Contains("first"));
    const LoweredModel lowered = lower(made.quantized, table, 1);
    const runtime::Program& program = lowered.program().program();

    const auto path = std::filesystem::temp_directory_path() / "intq_constant_channels.intq";
    deploy::write_program(path, lowered.program(), deploy::record_golden_runs(lowered.program(), {}));
    const deploy::ProgramOfFile read = deploy::read_program(path, table);
    std::filesystem::remove(path);
    const auto& dropped = read.program->program().dropped;
    CHECK(std::vector(dropped.begin(), dropped.end()) == std::vector(program.dropped.begin(), program.dropped.end()));
    CHECK(program::to_string(program::dropped_work(read.program->program())) ==
          program::to_string(program::dropped_work(program)));
    CHECK(same_bytes(read.program->run(made.x), lowered.run(made.x)));

    const std::string header = deploy::generate_cpp(program, table);
    CHECK_THAT(header, Contains("inline constexpr intq::runtime::DroppedChannel dropped[] = {"));
    const LoweredModel kept = lower(made.quantized, table, {.constant_channels = program::ConstantChannels::keep});
    CHECK_THAT(deploy::generate_cpp(kept.program().program(), table), !Contains("DroppedChannel"));
}

TEST_CASE("A linear layer of one feature, whose outputs are no channels of its image, keeps them all") {
    const kernels::KernelTable& table = test::scalar_table("tflite");
    nn::Sequential model;
    model.append(std::make_shared<nn::QuantStub>());
    model.append(std::make_shared<nn::Linear>(nn::LinearOptions{1, 4, true}));
    model.append(std::make_shared<nn::Conv2d>(nn::Conv2dOptions{3, 2, nn::square_window(1)}));
    model.append(std::make_shared<nn::DeQuantStub>());
    const Tensor x = test::random_tensor(Shape(2, 3, 4, 1), 4);
    const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(table.policy()), table.policy());
    calibrate(*prepared, x, x.extent(0));
    const QuantizedGraph quantized = convert_fx(*prepared);
    const LoweredModel all = lower(quantized, table, {.constant_channels = program::ConstantChannels::keep});
    CHECK(same_bytes(lower(quantized, table).run(x), all.run(x)));
}
