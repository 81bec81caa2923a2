// SPDX-License-Identifier: MIT
//
// Whole networks as programs: one instruction a fused layer and nothing between them; the oracle's bytes; the same
// bytes on any number of threads.
#include <cstring>
#include <set>

#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/tensor/thread_pool.hpp"
#include "kernels/tables/tables.hpp"
#include "models/mobilenet_v2.hpp"
#include "models/resnet.hpp"
#include "quantization/convert/oracle_program.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using intq_bench::RandomLayers;

/// The parts of ResNet-18 and MobileNetV2 in little: a strided stem, max pooling with padding, residual blocks with and
/// without a convolution in the skip, an inverted residual with a depthwise convolution, global average, classifier.
struct SmallNetwork : nn::Cloneable<SmallNetwork> {
    SmallNetwork() {
        RandomLayers random(5);
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("stem", random.conv_bn_relu6(3, 9, 7, 2));
        add_child("maxpool", std::make_shared<nn::MaxPool2d>(nn::square_window(3, 2, 1)));
        add_child("same", std::make_shared<intq_bench::BasicBlock>(random, 9, 9, 1));
        add_child("halved", std::make_shared<intq_bench::BasicBlock>(random, 9, 20, 2));
        add_child("inverted", std::make_shared<intq_bench::InvertedResidual>(random, 20, 20, 1, 4));
        add_child("avgpool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}));
        add_child("flatten", std::make_shared<nn::Flatten>());
        add_child("fc", random.linear(20, 7));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "SmallNetwork"; }
    nn::Value forward(nn::Arguments images) override {
        nn::Value x = call("quant", images[0]);
        for (const char* layer : {"stem", "maxpool", "same", "halved", "inverted", "avgpool", "flatten", "fc"})
            x = call(layer, x);
        return call("dequant", x);
    }
};

intq::Tensor random_images(index_t count, index_t height, index_t width) {
    return RandomLayers(3).normal(Shape(count, 3, height, width), 0.0, 1.0);
}

quantization::QuantizedGraph convert(const nn::Module& model, const arith::PolicyRecord& policy,
                                     const intq::Tensor& images) {
    const auto prepared = quantization::prepare_calibration_fx(model, policy);
    quantization::calibrate(*prepared, images, images.extent(0));
    return quantization::convert_fx(*prepared);
}

/// How many instructions of each kind a program has; "add" in front where a convolution has a fused add.
std::map<std::string, int> count_instructions(const runtime::Program& program) {
    std::map<std::string, int> counts;
    for (const runtime::Instruction& instruction : program.instructions) {
        const bool adds =
            instruction.op == OpKind::conv2d && instruction.params_as<intq::kernels::ConvParams>().packed.has_sumin;
        ++counts[std::string(adds ? "add " : "") + name_of(instruction.op)];
    }
    return counts;
}

using Counts = std::map<std::string, int>;

/// The bytes of every instruction's output, one after the other.
struct Recorded {
    std::string bytes;
    static void take(void* context, const runtime::Program& program, index_t index, const void* output, index_t batch) {
        const auto& tensor = program.tensor(program.instructions[static_cast<std::size_t>(index)].output);
        static_cast<Recorded*>(context)->bytes.append(
            static_cast<const char*>(output),
            static_cast<std::size_t>(tensor.elements_per_image() * batch * size_of(tensor.dtype)));
    }
};

std::string bytes_of(const quantization::LoweredModel& lowered, const intq::Tensor& images, const Executor& executor) {
    Recorded recorded;
    lowered.run(images, executor, {&Recorded::take, &recorded});
    return recorded.bytes;
}

}  // namespace

TEST_CASE("ResNet-18 is lowered to one instruction a layer: nothing is copied, added or requantized on its own") {
    const kernels::KernelTable& table = *scalar_tables().tables[0];
    const intq::Tensor image = random_images(1, 64, 64);
    const auto lowered = quantization::lower(convert(intq_bench::ResNet18(), table.policy(), image), table);
    CHECK(count_instructions(lowered.program().program()) == Counts{{"quantize", 1},
                                                                    {"conv2d", 12},
                                                                    {"add conv2d", 8},
                                                                    {"max_pool2d", 1},
                                                                    {"avg_pool2d", 1},
                                                                    {"linear", 1},
                                                                    {"dequantize", 1}});
}

TEST_CASE("MobileNetV2 is lowered to one instruction a layer: nothing is copied, added or requantized on its own") {
    const kernels::KernelTable& table = *scalar_tables().tables[0];
    const intq::Tensor image = random_images(1, 32, 32);
    const auto lowered = quantization::lower(convert(intq_bench::MobileNetV2(), table.policy(), image), table);
    CHECK(
        count_instructions(lowered.program().program()) ==
        Counts{
            {"quantize", 1}, {"conv2d", 42}, {"add conv2d", 10}, {"avg_pool2d", 1}, {"linear", 1}, {"dequantize", 1}});
}

TEST_CASE("A small network of their blocks gives the oracle's bytes on every target and backend, on three threads") {
    intq::ThreadPool pool(3);
    const SmallNetwork model;
    const intq::Tensor images = random_images(2, 41, 37);
    int compared = 0;
    for (std::size_t target = 0; target < scalar_tables().tables.size(); ++target) {
        const arith::PolicyRecord& policy = scalar_tables().tables[target]->policy();
        const quantization::QuantizedGraph quantized = convert(model, policy, images);
        const auto fused = quantization::fuse_fx(*quantization::traced_clone(model), {.fused_add = policy.fused_add});
        const auto layers = OracleLayerMaker(quantized, *fused).run();
        const auto results = oracle::evaluate(oracle_targets()[target], layers, {oracle_tensor(images)});
        std::string expected;
        for (std::size_t i = 0; i < layers.size(); ++i) {
            const DType dtype = quantized.output(quantized.nodes[i]).dtype;
            if (quantized.nodes[i].as<quantization::FlattenStep>() != nullptr) continue;
            if (dtype == DType::float32) {
                const auto& reals = results[i].reals.values;
                expected.append(reinterpret_cast<const char*>(reals.data()), reals.size() * sizeof(float));
            } else {
                const auto bytes = channels_last_bytes(results[i].codes, dtype);
                expected.append(bytes.begin(), bytes.end());
            }
        }
        for (const BackendTables& backend : usable_backend_tables()) {
            INFO("target " << policy.name << ", backend " << backend.name);
            const auto lowered = quantization::lower(quantized, *backend.tables[target], images.extent(0));
            CHECK((bytes_of(lowered, images, serial) == expected));
            CHECK((bytes_of(lowered, images, pool.executor()) == expected));
            ++compared;
        }
    }
    CHECK(compared >= least_backends() * 6);
}

TEST_CASE("Two threads give the bytes of one in every instruction of ResNet-18 and MobileNetV2") {
    intq::ThreadPool pool(2);
    BackendTables best = scalar_tables();
    for (const BackendTables& backend : {tables_of("avx2"), tables_of("avx512vnni")})
        if (!backend.tables.empty()) best = backend;
    const kernels::KernelTable& table = *best.tables[0];
    const auto check = [&](const nn::Module& model, index_t side) {
        const intq::Tensor image = random_images(1, side, side);
        const auto lowered = quantization::lower(convert(model, table.policy(), image), table);
        const std::string one = bytes_of(lowered, image, serial);
        CHECK(one.size() > 100000);
        CHECK((bytes_of(lowered, image, pool.executor()) == one));
    };
    check(intq_bench::ResNet18(), 96);
    check(intq_bench::MobileNetV2(), 96);
}
