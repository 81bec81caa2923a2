// SPDX-License-Identifier: MIT
//
// The networks of MLPerf Tiny with random weights: DS-CNN, ResNet-8, MobileNetV1 0.25 on 96×96 pixels and the
// autoencoder; a small one that takes bytes, and one that runs row by row.
#ifndef INTQ_TESTS_DEPLOY_SMALL_NETWORKS_HPP
#define INTQ_TESTS_DEPLOY_SMALL_NETWORKS_HPP

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "deploy/pattern.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/tensor/images.hpp"
#include "kernels/oracle_bridge.hpp"

namespace intq::test {

/// Layers with weights of variance 2 / fan-in, so that activations keep their size (He et al. 2015).
class RandomLayers {
public:
    explicit RandomLayers(std::uint64_t seed) : draw_(seed) {}

    Tensor uniform(const Shape& shape, float limit) {
        Tensor tensor = Tensor::empty(shape);
        for (float& value : tensor.flat<float>()) value = draw_.real(-limit, limit);
        return tensor;
    }
    nn::ModulePtr conv(index_t in, index_t out, const Window2d& window, index_t groups = 1) {
        auto layer = std::make_shared<nn::Conv2d>(nn::Conv2dOptions{in, out, window, groups, true});
        const index_t fan_in = in / groups * window.kernel.height * window.kernel.width;
        layer->set_weight(uniform(layer->weight().shape(), std::sqrt(6.0f / static_cast<float>(fan_in))));
        layer->set_bias(uniform(Shape(out), 0.1f));
        return layer;
    }
    nn::ModulePtr conv_relu(index_t in, index_t out, const Window2d& window, index_t groups = 1) {
        return std::make_shared<nn::Sequential>(
            std::initializer_list<nn::ModulePtr>{conv(in, out, window, groups), std::make_shared<nn::ReLU>()});
    }
    nn::ModulePtr linear(index_t in, index_t out) {
        auto layer = std::make_shared<nn::Linear>(nn::LinearOptions{in, out});
        layer->set_weight(uniform(Shape(out, in), std::sqrt(3.0f / static_cast<float>(in))));
        layer->set_bias(uniform(Shape(out), 0.1f));
        return layer;
    }

private:
    Draw draw_;
};

/// Padded as TensorFlow's SAME pads images whose size is a multiple of the stride: the larger half below and at the
/// right.
inline Window2d square(index_t kernel, index_t stride = 1) {
    const index_t padding = std::max(kernel - stride, index_t{0}), before = padding / 2, behind = padding - before;
    return {{kernel, kernel}, {stride, stride}, {before, before, behind, behind}, {1, 1}};
}

/// The same padding on all sides, as torchvision pads.
inline Window2d centered(index_t kernel, index_t stride = 1) {
    const index_t padding = kernel / 2;
    return {{kernel, kernel}, {stride, stride}, {padding, padding, padding, padding}, {1, 1}};
}

/// Features between stubs; where there is a classifier, behind their average over the image.
struct SmallNetwork : nn::Cloneable<SmallNetwork> {
    explicit SmallNetwork(const nn::ModulePtr& features, const nn::ModulePtr& classifier = nullptr) {
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("features", features);
        if (classifier != nullptr) {
            add_child("avgpool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}));
            add_child("flatten", std::make_shared<nn::Flatten>());
            add_child("classifier", classifier);
        }
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "SmallNetwork"; }
    nn::Value forward(nn::Arguments x) override {
        nn::Value y = call("features", call("quant", x[0]));
        if (has_child("classifier")) y = call("classifier", call("flatten", call("avgpool", y)));
        return call("dequant", y);
    }
};

/// A block of ResNet-8: two convolutions, and the input, through a convolution where the shape changes, added.
struct ResidualBlock : nn::Cloneable<ResidualBlock> {
    ResidualBlock(RandomLayers& random, index_t in, index_t out, index_t stride) {
        add_child("first", random.conv_relu(in, out, square(3, stride)));
        add_child("second", random.conv(out, out, square(3)));
        if (in != out || stride != 1) add_child("shortcut", random.conv(in, out, square(1, stride)));
        add_child("sum", std::make_shared<nn::FloatFunctional>());
        add_child("relu", std::make_shared<nn::ReLU>());
    }
    std::string type_name() const override { return "ResidualBlock"; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value y = call("second", call("first", x[0]));
        const nn::Value shortcut = has_child("shortcut") ? call("shortcut", x[0]) : x[0];
        return call("relu", nn::call_add(*this, "sum", y, shortcut));
    }
};

/// A block of MobileNetV2: to more channels, depthwise, and to fewer ones; with its input added where the shape stays.
struct InvertedResidual : nn::Cloneable<InvertedResidual> {
    InvertedResidual(RandomLayers& random, index_t in, index_t out, index_t stride, index_t expansion) {
        const index_t inner = in * expansion;
        if (expansion > 1) add_child("expand", random.conv_relu(in, inner, square(1)));
        add_child("depthwise", random.conv_relu(inner, inner, centered(3, stride), inner));
        add_child("project", random.conv(inner, out, square(1)));
        if (stride == 1 && in == out) add_child("sum", std::make_shared<nn::FloatFunctional>());
    }
    std::string type_name() const override { return "InvertedResidual"; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value inner = has_child("expand") ? call("expand", x[0]) : x[0];
        const nn::Value y = call("project", call("depthwise", inner));
        return has_child("sum") ? nn::call_add(*this, "sum", y, x[0]) : y;
    }
};

/// A transformer block on 12 tokens of 8 features, and functions whose int16 tables have blocks behind it.
struct SmallAttention : nn::Cloneable<SmallAttention> {
    static constexpr index_t tokens = 12, features = 8, width = 32, heads = 4;

    explicit SmallAttention(RandomLayers& random) {
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("embed", random.linear(features, width));
        for (const char* name : {"query", "key", "value", "out"}) add_child(name, random.linear(width, width));
        for (const char* name : {"norm1", "norm2"}) add_child(name, std::make_shared<nn::LayerNorm>(Shape(width)));
        add_child("up", random.linear(width, 2 * width));
        add_child("gelu", std::make_shared<nn::GELU>());
        add_child("down", random.linear(2 * width, width));
        add_child("head", random.linear(width, 4));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "SmallAttention"; }
    nn::Value forward(nn::Arguments x) override {
        nn::Value y = call("embed", nn::reshape(call("quant", x[0]), {-1, tokens, features}));
        y = y + attend(call("norm1", y));
        y = y + call("down", call("gelu", call("up", call("norm2", y))));
        y = nn::mean(nn::sqrt(nn::abs(nn::tanh(y * 2.0))), {1});
        return call("dequant", nn::softmax(call("head", y), -1));
    }

private:
    nn::Value attend(const nn::Value& x) {
        const auto heads_of = [&](const char* layer) {
            return nn::permute(nn::reshape(call(layer, x), {-1, tokens, heads, width / heads}), {0, 2, 1, 3});
        };
        const nn::Value scores = nn::matmul(heads_of("query"), nn::transpose(heads_of("key"), -1, -2));
        const nn::Value mixed = nn::matmul(nn::softmax(scores, -1), heads_of("value"));
        return call("out", nn::reshape(nn::permute(mixed, {0, 2, 1, 3}), {-1, tokens, width}));
    }
};

struct NamedNetwork {
    std::string name;
    nn::ModulePtr model;
    Shape image;
    bool takes_pixels = false;  // its program, channels last
    DType activations = DType::int8;
    program::RowOptions rows{};
};

/// 49 frames of 10 features to 12 words.
inline NamedNetwork ds_cnn() {
    RandomLayers random(1);
    auto features = std::make_shared<nn::Sequential>();
    features->append(random.conv_relu(1, 64, {{10, 4}, {2, 2}, {4, 1, 5, 1}, {1, 1}}));
    for (int i = 0; i < 4; ++i) {
        features->append(random.conv_relu(64, 64, square(3), 64));
        features->append(random.conv_relu(64, 64, square(1)));
    }
    return {"ds_cnn", std::make_shared<SmallNetwork>(features, random.linear(64, 12)),
            Shape(index_t{1}, index_t{49}, index_t{10})};
}

/// CIFAR-10's pictures.
inline NamedNetwork resnet_8() {
    RandomLayers random(2);
    auto features = std::make_shared<nn::Sequential>();
    features->append(random.conv_relu(3, 16, square(3)));
    features->append(std::make_shared<ResidualBlock>(random, 16, 16, 1));
    features->append(std::make_shared<ResidualBlock>(random, 16, 32, 2));
    features->append(std::make_shared<ResidualBlock>(random, 32, 64, 2));
    return {"resnet_8", std::make_shared<SmallNetwork>(features, random.linear(64, 10)),
            Shape(index_t{3}, index_t{32}, index_t{32})};
}

/// Matmul, softmax, layer norm and tables.
inline NamedNetwork small_attention() {
    RandomLayers random(8);
    return {"small_attention", std::make_shared<SmallAttention>(random),
            Shape(index_t{1}, SmallAttention::tokens, SmallAttention::features)};
}

/// A network with activations of int16, as `<name>_int16`.
inline NamedNetwork with_int16(NamedNetwork network) {
    network.name += "_int16";
    network.activations = DType::int16;
    return network;
}

/// Howard et al. 2017 with a quarter of the channels.
inline NamedNetwork mobilenet_v1() {
    RandomLayers random(3);
    auto features = std::make_shared<nn::Sequential>();
    features->append(random.conv_relu(3, 8, square(3, 2)));
    index_t in = 8;
    struct Step {
        index_t outputs, stride;
    };
    for (const auto& [outputs, stride] :
         {Step{16, 1}, Step{32, 2}, Step{32, 1}, Step{64, 2}, Step{64, 1}, Step{128, 2}, Step{128, 1}, Step{128, 1},
          Step{128, 1}, Step{128, 1}, Step{128, 1}, Step{256, 2}, Step{256, 1}}) {
        features->append(random.conv_relu(in, in, square(3, stride), in));
        features->append(random.conv_relu(in, outputs, square(1)));
        in = outputs;
    }
    return {"mobilenet_v1", std::make_shared<SmallNetwork>(features, random.linear(256, 2)),
            Shape(index_t{3}, index_t{96}, index_t{96})};
}

/// Five spectra of 128 bands to themselves.
inline NamedNetwork autoencoder() {
    RandomLayers random(5);
    auto layers = std::make_shared<nn::Sequential>();
    index_t in = 640;
    for (const index_t outputs : {128, 128, 128, 128, 8, 128, 128, 128, 128}) {
        layers->append(random.linear(in, outputs));
        layers->append(std::make_shared<nn::ReLU>());
        in = outputs;
    }
    layers->append(random.linear(in, 640));
    return {"autoencoder", std::make_shared<SmallNetwork>(layers), Shape(index_t{640})};
}

/// Two layers on pictures of bytes.
inline NamedNetwork small_image() {
    RandomLayers random(4);
    auto features = std::make_shared<nn::Sequential>();
    features->append(random.conv_relu(3, 8, square(3, 2)));
    return {"small_image", std::make_shared<SmallNetwork>(features, random.linear(8, 4)),
            Shape(index_t{3}, index_t{12}, index_t{10}), true};
}

/// A few layers that run row by row: their inner tensors are larger than the image, and the average is added up.
inline NamedNetwork small_rows() {
    RandomLayers random(6);
    auto features = std::make_shared<nn::Sequential>();
    features->append(random.conv_relu(3, 8, square(3)));
    features->append(std::make_shared<InvertedResidual>(random, 8, 8, 1, 6));
    features->append(std::make_shared<InvertedResidual>(random, 8, 16, 2, 6));
    features->append(std::make_shared<ResidualBlock>(random, 16, 24, 2));
    features->append(random.conv_relu(24, 640, square(1)));
    return {"small_rows",
            std::make_shared<SmallNetwork>(features, random.linear(640, 4)),
            Shape(index_t{3}, index_t{20}, index_t{12}),
            false,
            DType::int8,
            {program::RowMode::memory}};
}

/// Sandler et al. 2018 with 0.35 of the channels, on 144 × 144 pixels.
inline NamedNetwork mobilenet_v2() {
    RandomLayers random(7);
    auto features = std::make_shared<nn::Sequential>();
    features->append(random.conv_relu(3, 16, centered(3, 2)));
    index_t in = 16;
    struct Stage {
        index_t expansion, outputs, blocks, stride;
    };
    for (const Stage& stage : {Stage{1, 8, 1, 1}, Stage{6, 8, 2, 2}, Stage{6, 16, 3, 2}, Stage{6, 24, 4, 2},
                               Stage{6, 32, 3, 1}, Stage{6, 56, 3, 2}, Stage{6, 112, 1, 1}})
        for (index_t block = 0; block < stage.blocks; ++block) {
            const index_t stride = block == 0 ? stage.stride : 1;
            features->append(std::make_shared<InvertedResidual>(random, in, stage.outputs, stride, stage.expansion));
            in = stage.outputs;
        }
    features->append(random.conv_relu(in, 1280, square(1)));
    return {"mobilenet_v2", std::make_shared<SmallNetwork>(features, random.linear(1280, 1000)),
            Shape(index_t{3}, index_t{144}, index_t{144})};
}
/// The same row by row, in an arena of 34 kB.
inline NamedNetwork mobilenet_v2_rows() {
    NamedNetwork network = mobilenet_v2();
    network.name += "_rows";
    network.rows = {program::RowMode::memory, 34000};
    return network;
}

/// What its pixels are normalized with.
inline const std::vector<float> image_mean{0.485f, 0.456f, 0.406f}, image_deviation{0.229f, 0.224f, 0.225f};

/// Images of a network, as its program takes them.
inline Tensor images_of(const NamedNetwork& network, index_t count, std::uint64_t seed) {
    const Shape& image = network.image;
    const Shape shape = image.rank == 1 ? Shape(count, image[0]) : Shape(count, image[0], image[1], image[2]);
    if (!network.takes_pixels) return RandomLayers(seed).uniform(shape, 1.0f);
    Tensor pixels = Tensor::empty(shape, DType::uint8);
    Draw draw(seed);
    for (std::uint8_t& pixel : pixels.flat<std::uint8_t>()) pixel = static_cast<std::uint8_t>(draw.between(0, 255));
    return pixels;
}

/// Calibrated on random images, in the arithmetic of TFLite, with all channels: what is counted of these networks is
/// compared with that of others, and random weights leave a channel of DS-CNN constant.
inline std::shared_ptr<program::OwnedProgram> lowered(
    const NamedNetwork& network,
    const kernels::KernelTable& table = kernels::kernel_table<target::tflite<>, simd::scalar>) {
    using namespace quantization;
    const auto prepared =
        prepare_calibration_fx(*network.model, get_default_qconfig_mapping(network.activations), table.policy());
    const Tensor images = images_of(network, 2, 9);
    if (!network.takes_pixels) {
        calibrate(*prepared, images, 1);
        return lower(convert_fx(*prepared), table,
                     {.constant_channels = program::ConstantChannels::keep, .rows = network.rows})
            .shared_program();
    }
    calibrate(*prepared, normalize_images(images, image_mean, image_deviation), 1);
    const ImageInput input{"", image_mean, image_deviation, Layout::channels_last};
    return lower(convert_fx(*prepared), table, {1, {input}, program::ConstantChannels::keep}).shared_program();
}

}  // namespace intq::test

#endif  // INTQ_TESTS_DEPLOY_SMALL_NETWORKS_HPP
