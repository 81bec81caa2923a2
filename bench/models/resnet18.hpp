// SPDX-License-Identifier: MIT
//
// ResNet-18 with random weights, its slots named as torchvision's. He et al. 2016, "Deep residual learning".
#ifndef INTQ_BENCH_MODELS_RESNET18_HPP
#define INTQ_BENCH_MODELS_RESNET18_HPP

#include "models/random_layers.hpp"

namespace intq_bench {

/// relu(bn2(conv2(relu(bn1(conv1(x))))) + x), the last x through a strided 1×1 convolution where the shape changes.
struct BasicBlock : intq::nn::Cloneable<BasicBlock> {
    BasicBlock(RandomLayers& random, intq::index_t in, intq::index_t out, intq::index_t stride) {
        add_child("conv1", random.conv(in, out, 3, stride));
        add_child("bn1", random.batch_norm(out));
        add_child("relu", std::make_shared<intq::nn::ReLU>());
        add_child("conv2", random.conv(out, out, 3));
        add_child("bn2", random.batch_norm(out));
        add_child("skip_add", std::make_shared<intq::nn::FloatFunctional>());
        if (stride != 1 || in != out)
            add_child("downsample", std::make_shared<intq::nn::Sequential>(std::initializer_list<intq::nn::ModulePtr>{
                                        random.conv(in, out, 1, stride), random.batch_norm(out)}));
    }
    std::string type_name() const override { return "BasicBlock"; }
    intq::nn::Value forward(intq::nn::Arguments x) override {
        const intq::nn::Value skip = has_child("downsample") ? call("downsample", x[0]) : x[0];
        const intq::nn::Value inner = call("relu", call("bn1", call("conv1", x[0])));
        return call("relu", intq::nn::call_add(*this, "skip_add", call("bn2", call("conv2", inner)), skip));
    }
};

/// From (N, 3, H, W) images to 1000 logits.
struct ResNet18 : intq::nn::Cloneable<ResNet18> {
    explicit ResNet18(unsigned seed = 18) {
        RandomLayers random(seed);
        add_child("quant", std::make_shared<intq::nn::QuantStub>());
        add_child("conv1", random.conv(3, 64, 7, 2));
        add_child("bn1", random.batch_norm(64));
        add_child("relu", std::make_shared<intq::nn::ReLU>());
        add_child("maxpool", std::make_shared<intq::nn::MaxPool2d>(intq::nn::square_window(3, 2, 1)));
        intq::index_t in = 64;
        for (int stage = 1; stage <= 4; ++stage) {
            const intq::index_t out = intq::index_t{32} << stage, stride = stage == 1 ? 1 : 2;
            add_child("layer" + std::to_string(stage),
                      std::make_shared<intq::nn::Sequential>(std::initializer_list<intq::nn::ModulePtr>{
                          std::make_shared<BasicBlock>(random, in, out, stride),
                          std::make_shared<BasicBlock>(random, out, out, 1)}));
            in = out;
        }
        add_child("avgpool", std::make_shared<intq::nn::AdaptiveAvgPool2d>(intq::Size2d{1, 1}));
        add_child("flatten", std::make_shared<intq::nn::Flatten>());
        add_child("fc", random.linear(512, 1000));
        add_child("dequant", std::make_shared<intq::nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "ResNet18"; }
    intq::nn::Value forward(intq::nn::Arguments images) override {
        intq::nn::Value x = call("relu", call("bn1", call("conv1", call("quant", images[0]))));
        x = call("maxpool", x);
        for (const char* stage : {"layer1", "layer2", "layer3", "layer4"}) x = call(stage, x);
        return call("dequant", call("fc", call("flatten", call("avgpool", x))));
    }
};

}  // namespace intq_bench

#endif  // INTQ_BENCH_MODELS_RESNET18_HPP
