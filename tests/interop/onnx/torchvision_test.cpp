// SPDX-License-Identifier: MIT
//
// Networks as PyTorch exports them today: imported, equal to ONNX Runtime, quantized whole, and not worse than ONNX
// Runtime's own quantization. A small one is stored; the twelve of torchvision are made by
// tests/golden/make_torchvision_networks.py, in the folder that INTQ_TORCHVISION_NETWORKS names.
#include "interop/onnx/torchvision.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "intq/program/backends/best_table.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace onnx = interop::onnx;

namespace {

const std::filesystem::path models = std::string(INTQ_TESTS_DIR) + "/golden/models";

constexpr std::array networks{"resnet18",        "resnet50",           "mobilenet_v2",   "mobilenet_v3_small",
                              "efficientnet_b0", "shufflenet_v2_x1_0", "regnet_x_400mf", "regnet_y_400mf",
                              "densenet121",     "squeezenet1_1",      "googlenet",      "mnasnet0_5"};

intq::Tensor run_float(graph::GraphModule& model, const intq::Tensor& images) {
    std::vector<float> rows;
    Shape shape;
    for (index_t i = 0; i < images.extent(0); ++i) {
        const intq::Tensor y = model(images.batch(i, 1)).tensor().contiguous();
        rows.insert(rows.end(), y.flat<float>().begin(), y.flat<float>().end());
        shape = y.shape();
    }
    shape[0] = images.extent(0);
    return intq::Tensor::from(shape, rows);
}

}  // namespace

TEST_CASE("A network of today's exporter becomes one program, which moves the codes of a channel shuffle once") {
    const auto model = onnx::import_file(models / "exported_block.onnx");
    const intq::Tensor images = test::read_floats(models / "exported_block_input.npy");
    const intq::Tensor expected = test::read_floats(models / "exported_block.npy");
    CHECK(test::relative_error(expected, (*model)(images).tensor()) < 1e-5);
    const kernels::KernelTable& table = program::best_table<target::fp32>();
    const std::map<DType, double> least{{DType::int8, 20.0}, {DType::int16, 35.0}};
    for (const auto& [dtype, decibels] : least) {
        INFO(name_of(dtype));
        const auto quantized =
            test::quantized_whole(*model, images, dtype, arith::QuantScheme::symmetric, images.extent(0));
        const auto lowered = quantization::lower(quantized, table, images.extent(0));
        CHECK(lowered.tail() == nullptr);
        const intq::Tensor result = lowered.run(images);
        CHECK(test::decibels(expected, result) > decibels);
        int moves = 0;
        for (const auto& instruction : lowered.program().program().instructions)
            moves += instruction.op == OpKind::slice || instruction.op == OpKind::permute ||
                     instruction.op == OpKind::reshape;
        CHECK(moves == 2);  // the two halves of the shuffled channels
    }
}

TEST_CASE("Twelve networks of torchvision are quantized whole, as well as by ONNX Runtime") {
    const char* const given = std::getenv("INTQ_TORCHVISION_NETWORKS");
    if (given == nullptr)
        INTQ_SKIP("INTQ_TORCHVISION_NETWORKS names no folder that tests/golden/make_torchvision_networks.py made");
    const std::filesystem::path folder = given;
    const intq::Tensor images = test::read_floats(folder / "images.npy");
    const kernels::KernelTable& table = program::best_table<target::fp32>();
    const std::map<DType, std::string> kinds{{DType::int8, "int8"}, {DType::int16, "int16"}};
    std::map<DType, double> sum;
    int count = 0;
    for (const char* name : networks) {
        INFO(name);
        const auto model = onnx::import_file(folder / (std::string(name) + ".onnx"));
        const intq::Tensor expected = test::read_floats(folder / (std::string(name) + "_float.npy"));
        const intq::Tensor real = run_float(*model, images);
        const double error = test::relative_error(expected, real);
        CHECK(error < 2e-5);
        std::printf("%-20s float within %.1e", name, error);
        ++count;
        for (const auto& [dtype, kind] : kinds) {
            const intq::Tensor theirs = test::read_floats(folder / (std::string(name) + "_" + kind + ".npy"));
            const auto quantized = test::quantized_whole(
                *model, images, dtype,
                dtype == DType::int8 ? arith::QuantScheme::affine : arith::QuantScheme::symmetric, 8);
            const auto lowered = quantization::lower(quantized, table, 1);
            CHECK(lowered.tail() == nullptr);
            const double ours = test::decibels(expected, lowered.run(images));
            const double gain = ours - test::decibels(expected, theirs);
            std::printf("   %s %6.2f dB (%+.2f)", kind.c_str(), ours, gain);
            CHECK(gain > -1.5);
            sum[dtype] += gain;
        }
        std::printf("\n");
        std::fflush(stdout);
    }
    for (const auto& [dtype, gain] : sum) {
        std::printf("mean of %s over ONNX Runtime: %+.2f dB\n", kinds.at(dtype).c_str(), gain / count);
        CHECK(gain / count > -0.5);
    }
    CHECK(count > 0);
}
