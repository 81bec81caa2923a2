// SPDX-License-Identifier: MIT
//
// KeptOutputs: the values of each instruction, of all samples whatever the batches, and no others.
#include "intq/program/kept_outputs.hpp"

#include <cstring>
#include <map>
#include <string>

#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/kept_tensors.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
    const Tensor x = a.contiguous(), y = b.contiguous();
    return x.shape() == y.shape() && x.dtype() == y.dtype() &&
           std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.bytes())) == 0;
}

/// fp32 has zero points, and an int32 accumulator in front of the DeQuantStub.
QuantizedGraph quantized_net(const kernels::KernelTable& table, const Tensor& x) {
    const auto prepared =
        prepare_calibration_fx(test::ResidualNet(), get_default_qconfig_mapping(table.policy()), table.policy());
    calibrate(*prepared, x, x.extent(0));
    return convert_fx(*prepared);
}

}  // namespace

TEST_CASE("What is kept is what each instruction wrote, of all samples whatever the batches") {
    const auto& table = test::scalar_table("fp32");
    const Tensor x = test::random_tensor(Shape(5, 3, 8, 8), 3);
    const QuantizedGraph quantized = quantized_net(table, x);
    const auto expected = test::run_and_keep(lower(quantized, table, 5), x);
    const auto lowered = lower(quantized, table, 2);
    const runtime::Program& all = lowered.program().program();
    program::KeptOutputs kept(all, 5);
    for (const runtime::Instruction& instruction : all.instructions) CHECK_FALSE(kept.tensor(instruction.output));
    const Tensor y = lowered.program().run(x, serial, kept.hook());
    std::map<std::string, Tensor> given;
    for (const runtime::Instruction& instruction : all.instructions) {
        INFO(instruction.name);
        const auto value = kept.tensor(instruction.output);
        REQUIRE(value);
        given[instruction.name] = *value;
        const runtime::ProgramTensor& known = all.tensor(instruction.output);
        REQUIRE(value->qparams().has_value() == (known.dtype != DType::float32));
        if (!value->qparams()) continue;
        const QParams qparams = value->qparams()->view();
        CHECK(value->qparams()->dtype == known.dtype);
        CHECK(qparams.is_per_channel() == known.qparams.is_per_channel());
        CHECK(qparams.axis() == known.qparams.axis());
        CHECK(qparams.quant_min() == known.qparams.quant_min());
        CHECK(qparams.quant_max() == known.qparams.quant_max());
        REQUIRE(qparams.count() == known.qparams.count());
        for (index_t c = 0; c < qparams.count(); ++c) {
            CHECK(qparams.scale(c) == known.qparams.scale(c));
            CHECK(qparams.zero_point(c) == known.qparams.zero_point(c));
        }
    }
    REQUIRE(given.size() == expected.size());
    for (const auto& [name, value] : given) {
        INFO(name);
        CHECK(same_bits(value, expected.at(name)));
    }
    CHECK(same_bits(kept.tensor(all.outputs[0]).value(), y));
    CHECK_FALSE(kept.tensor(all.inputs[0]));
}

TEST_CASE("A tensor that nobody asked for is not kept") {
    const auto& table = test::scalar_table("fp32");
    const Tensor x = test::random_tensor(Shape(3, 3, 8, 8), 3);
    const auto lowered = lower(quantized_net(table, x), table, 2);
    const runtime::Program& all = lowered.program().program();
    const std::int32_t asked[] = {-1, all.inputs[0], all.instructions[1].output};
    program::KeptOutputs kept(all, 3, asked);
    lowered.program().run(x, serial, kept.hook());
    for (const runtime::Instruction& instruction : all.instructions)
        CHECK(kept.tensor(instruction.output).has_value() == (&instruction == &all.instructions[1]));
    CHECK_FALSE(kept.tensor(all.inputs[0]));
    CHECK_FALSE(kept.tensor(-1));
}
