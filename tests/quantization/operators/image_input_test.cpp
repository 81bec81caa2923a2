// SPDX-License-Identifier: MIT
//
// Images of bytes as the input of a program: every pixel against the arithmetic of real numbers, and whole networks
// against the same network on normalized images.
#include "intq/quantization/operators/image_input.hpp"

#include <limits>
#include <string>

#include "intq/deploy/program_writer.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "intq/tensor/images.hpp"
#include "io/temporary_folder.hpp"
#include "kernels/oracle_bridge.hpp"
#include "kernels/tables/tables.hpp"
#include "reference/quantize.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;
using test::same_bytes;

namespace {

const std::vector<float> mean{0.485f, 0.456f, 0.406f}, deviation{0.229f, 0.224f, 0.225f};

/// Random bytes (N, C, H, W), row_major.
intq::Tensor random_pixels(const Shape& shape, std::uint64_t seed) {
    intq::Tensor pixels = intq::Tensor::empty(shape, DType::uint8);
    test::Draw draw(seed);
    for (std::uint8_t& pixel : pixels.flat<std::uint8_t>()) pixel = static_cast<std::uint8_t>(draw.between(0, 255));
    return pixels;
}

/// All 256 values of a pixel in each of three channels through one instruction.
intq::Tensor codes_of_all_pixels(const kernels::KernelTable& table, const ImageInput& image,
                                 const OwnedQParams& codes) {
    program::ProgramBuilder builder(table, 1);
    const std::int32_t x = add_image_input(builder, image, Shape(index_t{3}, index_t{16}, index_t{16}), "x");
    const auto program = builder.finish({add_quantize_image(builder, x, image, codes, {"quant", "QuantStub"})});
    intq::Tensor pixels = intq::Tensor::empty(Shape(1, 3, 16, 16), DType::uint8);
    for (index_t i = 0; i < pixels.size(); ++i)
        pixels.flat<std::uint8_t>()[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i % 256);
    return program->run(pixels).contiguous();
}

std::int64_t code_at(const intq::Tensor& codes, index_t i) {
    const auto at = static_cast<std::size_t>(i);
    return codes.dtype() == DType::int8 ? codes.flat<std::int8_t>()[at] : codes.flat<std::int16_t>()[at];
}

/// A network for images of three channels.
QuantizedGraph network(const arith::PolicyRecord& target, DType dtype = DType::int8) {
    const test::ResidualNet model(4);
    const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(target, dtype), target);
    calibrate(*prepared, normalize_images(random_pixels(Shape(5, 3, 6, 6), 3), mean, deviation), 5);
    return convert_fx(*prepared);
}

ImageInput image_net(Layout layout = Layout::row_major) { return {"", mean, deviation, layout}; }

const kernels::KernelTable& fp32() { return *test::scalar_tables().tables[0]; }

/// What lower() says of a model and an input that do not fit.
std::string refusal(const QuantizedGraph& quantized, const ImageInput& image) {
    return message_of<Error>([&] { lower(quantized, fp32(), {1, {image}}); });
}

}  // namespace

TEST_CASE("The code of every pixel in every channel is that of the normalized real number, on every target") {
    int cases = 0;
    for (const test::BackendTables& backend : test::usable_backend_tables())
        for (std::size_t t = 0; t < backend.tables.size(); ++t)
            for (const DType dtype : {DType::int8, DType::int16})
                for (const Layout layout : {Layout::row_major, Layout::channels_last})
                    for (const bool is_one : {false, true}) {
                        const kernels::KernelTable& table = *backend.tables[t];
                        INFO(table.policy().name << "/" << table.backend << " " << name_of(dtype));
                        if (dtype == DType::int16 && test::oracle_targets()[t].widest_activation < 16) continue;
                        const std::int32_t zero_point = table.policy().zero_points && dtype == DType::int8 ? 5 : 0;
                        const OwnedQParams qparams{{dtype == DType::int8 ? 0.0187f : 0.00013f},
                                                   {zero_point},
                                                   -1,
                                                   lowest_code(dtype),
                                                   highest_code(dtype),
                                                   dtype};
                        const ImageInput image{"", is_one ? std::vector{0.5f} : mean,
                                               is_one ? std::vector{0.25f} : deviation, layout};
                        const intq::Tensor codes = codes_of_all_pixels(table, image, qparams);
                        const test::oracle::QParams expected =
                            test::Codes{qparams.scales[0], zero_point, dtype}.for_oracle();
                        int wrong = 0;
                        for (index_t c = 0; c < 3; ++c)
                            for (index_t pixel = 0; pixel < 256; ++pixel) {
                                const auto channel = static_cast<std::size_t>(is_one ? 0 : c);
                                const float share = static_cast<float>(pixel) / 255.0f;
                                const float centred = share - image.mean[channel];
                                const float x = centred / image.deviation[channel];
                                wrong += code_at(codes, c * 256 + pixel) != test::oracle::quantize(x, expected);
                            }
                        CHECK(wrong == 0);
                        ++cases;
                    }
    CHECK(cases >= 4 * 12);
}

TEST_CASE("A network on pixels gives the bytes of the network on normalized images, from its file as well") {
    const intq::Tensor pixels = random_pixels(Shape(5, 3, 6, 6), 8), real = normalize_images(pixels, mean, deviation);
    for (const kernels::KernelTable* table : test::scalar_tables().tables)
        for (const Layout layout : {Layout::row_major, Layout::channels_last}) {
            INFO(table->policy().name);
            const QuantizedGraph quantized = network(table->policy());
            const LoweredModel of_pixels =
                lower(quantized, *table, {.max_batch = 2, .image_inputs = {image_net(layout)}});
            const intq::Tensor expected = lower(quantized, *table, 2).run(real);
            CHECK(same_bytes(of_pixels.run(pixels), expected));
            const runtime::Program& program = of_pixels.program().program();
            CHECK(program.instructions[0].op == OpKind::quantize_image);
            CHECK(std::string(program.instructions[0].name) == "quant");
            CHECK(program.tensor(program.inputs[0]).dtype == DType::uint8);
            const test::TemporaryFolder folder;
            deploy::write_program(folder / "net.intq", of_pixels.program(),
                                  deploy::record_golden_runs(of_pixels.program(), std::span(&pixels, 1)));
            const deploy::ProgramOfFile read = deploy::read_program(folder / "net.intq", *table);
            CHECK(read.golden.count == 5);
            CHECK(same_bytes(read.program->run(pixels), expected));
        }
}

TEST_CASE("One number for all channels takes one table, and numbers for each channel take one each") {
    const QuantizedGraph quantized = network(fp32().policy());
    const auto tables_of = [&](const ImageInput& image) {
        const LoweredModel lowered = lower(quantized, fp32(), {1, {image}});
        return lowered.program().program().instructions[0].params_as<kernels::QuantizeImageParams>().tables;
    };
    CHECK(tables_of({"", {0.5f}, {0.25f}}) == 1);
    CHECK(tables_of({"", {0.5f}, deviation}) == 3);
    CHECK(tables_of({"", mean, {0.25f}}) == 3);
}

TEST_CASE("What an image input does not fit is refused by name") {
    const QuantizedGraph quantized = network(fp32().policy());
    const std::string name = quantized.tensor(quantized.inputs[0]).name;
    const auto with = [&](auto change) {
        ImageInput image = image_net();
        change(image);
        return refusal(quantized, image);
    };
    const std::string of_input = "lower: image input \"" + name + "\": ";
    CHECK(with([](ImageInput& i) { i.input = "picture"; }) ==
          "lower: image input \"picture\": the model has no such input; its inputs are \"" + name + "\"");
    CHECK(with([](ImageInput& i) { i.deviation = {0.2f, 0.0f, 0.2f}; }) == of_input + "a deviation is 0 or not finite");
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    CHECK(with([=](ImageInput& i) { i.deviation = {nan}; }) == of_input + "a deviation is 0 or not finite");
    CHECK(with([=](ImageInput& i) { i.mean = {infinity}; }) == of_input + "a mean is not finite");
    CHECK(with([](ImageInput& i) { i.mean.push_back(0.5f); })
              .find("mean has 4 numbers, expected one, or one for each "
                    "of 3 channels") != std::string::npos);
    CHECK(with([](ImageInput& i) { i.mean.clear(); }).find("mean has 0 numbers") != std::string::npos);
    CHECK(with([](ImageInput& i) { i.layout = Layout::strided; }).find("row_major or channels_last") !=
          std::string::npos);
    CHECK(message_of<Error>([&] {
              lower(quantized, fp32(), {1, {image_net(), image_net()}});
          }) == of_input + "it is given twice");

    QuantizedGraph changed = quantized;
    changed.outputs.push_back(changed.inputs[0]);
    CHECK(refusal(changed, image_net()).find("returns it as an output") != std::string::npos);
    changed = quantized;
    changed.nodes.push_back(changed.nodes[0]);
    REQUIRE(changed.nodes[0].inputs[0] == changed.inputs[0]);
    CHECK(refusal(changed, image_net()) == of_input +
                                               "several operators read it, quant (QuantStub) and quant (QuantStub); "
                                               "pixels are quantized once");
    changed = quantized;
    changed.nodes[0].step = quantized.nodes[1].step;
    CHECK(refusal(changed, image_net()) ==
          of_input + "quant (QuantStub) reads it as real numbers; pixels must be quantized first");
    changed = quantized;
    changed.nodes.erase(changed.nodes.begin());
    CHECK(refusal(changed, image_net()) == of_input + "nothing reads it");
    changed = quantized;
    changed.tensors[static_cast<std::size_t>(changed.inputs[0])].dtype = DType::int8;
    CHECK(refusal(changed, image_net()) == of_input + "the model takes it as codes of int8");
    changed = quantized;
    changed.tensors[static_cast<std::size_t>(changed.inputs[0])].shape = Shape(index_t{4});
    CHECK(refusal(changed, image_net()).find("images are (N, C, ...)") != std::string::npos);
}
