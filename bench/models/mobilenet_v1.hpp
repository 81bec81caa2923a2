// SPDX-License-Identifier: MIT
//
// MobileNetV1 with random weights, all of its channels. Howard et al. 2017, "MobileNets"; the activations are ReLU6, as
// its authors' own code has them.
#ifndef INTQ_BENCH_MODELS_MOBILENET_V1_HPP
#define INTQ_BENCH_MODELS_MOBILENET_V1_HPP

#include "models/random_layers.hpp"

namespace intq_bench {

/// From (N, 3, H, W) images to 1000 logits.
struct MobileNetV1 : intq::nn::Cloneable<MobileNetV1> {
    explicit MobileNetV1(unsigned seed = 1) {
        RandomLayers random(seed);
        add_child("quant", std::make_shared<intq::nn::QuantStub>());
        auto features = std::make_shared<intq::nn::Sequential>();
        features->append(random.conv_bn_relu6(3, 32, 3, 2));
        intq::index_t in = 32;
        for (const Pair& pair : pairs) {
            features->append(random.conv_bn_relu6(in, in, 3, pair.stride, in));
            features->append(random.conv_bn_relu6(in, pair.outputs, 1));
            in = pair.outputs;
        }
        add_child("features", features);
        add_child("avgpool", std::make_shared<intq::nn::AdaptiveAvgPool2d>(intq::Size2d{1, 1}));
        add_child("flatten", std::make_shared<intq::nn::Flatten>());
        add_child("classifier", random.linear(in, 1000));
        add_child("dequant", std::make_shared<intq::nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "MobileNetV1"; }
    intq::nn::Value forward(intq::nn::Arguments images) override {
        const intq::nn::Value x = call("features", call("quant", images[0]));
        return call("dequant", call("classifier", call("flatten", call("avgpool", x))));
    }

private:
    /// Two rows of the paper's table 1: depthwise 3×3, then 1×1.
    struct Pair {
        intq::index_t outputs, stride;
    };
    static constexpr Pair pairs[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                                     {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
};

}  // namespace intq_bench

#endif  // INTQ_BENCH_MODELS_MOBILENET_V1_HPP
