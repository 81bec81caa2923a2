// SPDX-License-Identifier: MIT
//
// ResNet-18 and ResNet-50 with random weights, their slots named as torchvision's. He et al. 2016, "Deep residual
// learning"; the stride of a bottleneck is in its 3×3 convolution, as torchvision has it.
#ifndef INTQ_BENCH_MODELS_RESNET_HPP
#define INTQ_BENCH_MODELS_RESNET_HPP

#include <array>

#include "models/random_layers.hpp"

namespace intq_bench {

/// The slots that add the input: through a strided 1×1 convolution where the shape changes.
inline void add_skip(intq::nn::Module& block, RandomLayers& random, intq::index_t in, intq::index_t out,
                     intq::index_t stride) {
    block.add_child("skip_add", std::make_shared<intq::nn::FloatFunctional>());
    if (stride != 1 || in != out)
        block.add_child("downsample", std::make_shared<intq::nn::Sequential>(std::initializer_list<intq::nn::ModulePtr>{
                                          random.conv(in, out, 1, stride), random.batch_norm(out)}));
}

/// relu(bn2(conv2(relu(bn1(conv1(x))))) + x)
struct BasicBlock : intq::nn::Cloneable<BasicBlock> {
    static constexpr intq::index_t expansion = 1;

    BasicBlock(RandomLayers& random, intq::index_t in, intq::index_t width, intq::index_t stride) {
        add_child("conv1", random.conv(in, width, 3, stride));
        add_child("bn1", random.batch_norm(width));
        add_child("relu", std::make_shared<intq::nn::ReLU>());
        add_child("conv2", random.conv(width, width, 3));
        add_child("bn2", random.batch_norm(width));
        add_skip(*this, random, in, width, stride);
    }
    std::string type_name() const override { return "BasicBlock"; }
    intq::nn::Value forward(intq::nn::Arguments x) override {
        const intq::nn::Value skip = has_child("downsample") ? call("downsample", x[0]) : x[0];
        const intq::nn::Value inner = call("relu", call("bn1", call("conv1", x[0])));
        return call("relu", intq::nn::call_add(*this, "skip_add", call("bn2", call("conv2", inner)), skip));
    }
};

/// relu(bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))) + x), of which conv2 alone is 3×3.
struct Bottleneck : intq::nn::Cloneable<Bottleneck> {
    static constexpr intq::index_t expansion = 4;

    Bottleneck(RandomLayers& random, intq::index_t in, intq::index_t width, intq::index_t stride) {
        const intq::index_t out = width * expansion;
        add_child("conv1", random.conv(in, width, 1));
        add_child("bn1", random.batch_norm(width));
        add_child("conv2", random.conv(width, width, 3, stride));
        add_child("bn2", random.batch_norm(width));
        add_child("conv3", random.conv(width, out, 1));
        add_child("bn3", random.batch_norm(out));
        add_child("relu", std::make_shared<intq::nn::ReLU>());
        add_skip(*this, random, in, out, stride);
    }
    std::string type_name() const override { return "Bottleneck"; }
    intq::nn::Value forward(intq::nn::Arguments x) override {
        const intq::nn::Value skip = has_child("downsample") ? call("downsample", x[0]) : x[0];
        const intq::nn::Value first = call("relu", call("bn1", call("conv1", x[0])));
        const intq::nn::Value second = call("relu", call("bn2", call("conv2", first)));
        return call("relu", intq::nn::call_add(*this, "skip_add", call("bn3", call("conv3", second)), skip));
    }
};

/// From (N, 3, H, W) images to 1000 logits.
///
/// @tparam Self   the network that derives from it
/// @tparam Block  what its stages are made of
template <class Self, class Block> struct ResNet : intq::nn::Cloneable<Self> {
    /// @param blocks  of each stage
    ResNet(unsigned seed, const std::array<int, 4>& blocks) {
        RandomLayers random(seed);
        this->add_child("quant", std::make_shared<intq::nn::QuantStub>());
        this->add_child("conv1", random.conv(3, 64, 7, 2));
        this->add_child("bn1", random.batch_norm(64));
        this->add_child("relu", std::make_shared<intq::nn::ReLU>());
        this->add_child("maxpool", std::make_shared<intq::nn::MaxPool2d>(intq::nn::square_window(3, 2, 1)));
        intq::index_t in = 64, width = 64;
        for (int stage = 1; stage <= 4; ++stage, width *= 2) {
            auto layer = std::make_shared<intq::nn::Sequential>();
            for (int i = 0; i < blocks[static_cast<std::size_t>(stage - 1)]; ++i) {
                layer->append(std::make_shared<Block>(random, in, width, i == 0 && stage > 1 ? 2 : 1));
                in = width * Block::expansion;
            }
            this->add_child("layer" + std::to_string(stage), layer);
        }
        this->add_child("avgpool", std::make_shared<intq::nn::AdaptiveAvgPool2d>(intq::Size2d{1, 1}));
        this->add_child("flatten", std::make_shared<intq::nn::Flatten>());
        this->add_child("fc", random.linear(in, 1000));
        this->add_child("dequant", std::make_shared<intq::nn::DeQuantStub>());
        this->eval();
    }
    intq::nn::Value forward(intq::nn::Arguments images) override {
        const auto then = [this](const char* child, const intq::nn::Value& x) { return this->call(child, x); };
        intq::nn::Value x = then("relu", then("bn1", then("conv1", then("quant", images[0]))));
        for (const char* child : {"maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool", "flatten", "fc"})
            x = then(child, x);
        return then("dequant", x);
    }
};

struct ResNet18 : ResNet<ResNet18, BasicBlock> {
    explicit ResNet18(unsigned seed = 18) : ResNet(seed, {2, 2, 2, 2}) {}
    std::string type_name() const override { return "ResNet18"; }
};

struct ResNet50 : ResNet<ResNet50, Bottleneck> {
    explicit ResNet50(unsigned seed = 50) : ResNet(seed, {3, 4, 6, 3}) {}
    std::string type_name() const override { return "ResNet50"; }
};

}  // namespace intq_bench

#endif  // INTQ_BENCH_MODELS_RESNET_HPP
