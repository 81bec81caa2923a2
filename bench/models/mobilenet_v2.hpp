// SPDX-License-Identifier: MIT
//
// MobileNetV2 with random weights, its slots named as torchvision's. Sandler et al. 2018, "MobileNetV2".
#ifndef INTQ_BENCH_MODELS_MOBILENET_V2_HPP
#define INTQ_BENCH_MODELS_MOBILENET_V2_HPP

#include "models/random_layers.hpp"

namespace intq_bench {

/// 1×1 to `in · expansion` channels, depthwise 3×3, 1×1 to `out` without an activation; with the input added where the
/// shape stays.
struct InvertedResidual : intq::nn::Cloneable<InvertedResidual> {
    InvertedResidual(RandomLayers& random, intq::index_t in, intq::index_t out, intq::index_t stride,
                     intq::index_t expansion) {
        const intq::index_t inner = in * expansion;
        auto layers = std::make_shared<intq::nn::Sequential>();
        if (expansion != 1) layers->append(random.conv_bn_relu6(in, inner, 1));
        layers->append(random.conv_bn_relu6(inner, inner, 3, stride, inner));
        layers->append(random.conv(inner, out, 1));
        layers->append(random.batch_norm(out));
        add_child("conv", layers);
        if (stride == 1 && in == out) add_child("skip_add", std::make_shared<intq::nn::FloatFunctional>());
    }
    std::string type_name() const override { return "InvertedResidual"; }
    intq::nn::Value forward(intq::nn::Arguments x) override {
        const intq::nn::Value y = call("conv", x[0]);
        return has_child("skip_add") ? intq::nn::call_add(*this, "skip_add", y, x[0]) : y;
    }
};

/// From (N, 3, H, W) images to 1000 logits.
struct MobileNetV2 : intq::nn::Cloneable<MobileNetV2> {
    explicit MobileNetV2(unsigned seed = 2) {
        RandomLayers random(seed);
        add_child("quant", std::make_shared<intq::nn::QuantStub>());
        auto features = std::make_shared<intq::nn::Sequential>();
        features->append(random.conv_bn_relu6(3, 32, 3, 2));
        intq::index_t in = 32;
        for (const Stage& stage : stages)
            for (int i = 0; i < stage.blocks; ++i) {
                features->append(std::make_shared<InvertedResidual>(random, in, stage.outputs,
                                                                    i == 0 ? stage.stride : 1, stage.expansion));
                in = stage.outputs;
            }
        features->append(random.conv_bn_relu6(in, 1280, 1));
        add_child("features", features);
        add_child("avgpool", std::make_shared<intq::nn::AdaptiveAvgPool2d>(intq::Size2d{1, 1}));
        add_child("flatten", std::make_shared<intq::nn::Flatten>());
        add_child("classifier", random.linear(1280, 1000));
        add_child("dequant", std::make_shared<intq::nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "MobileNetV2"; }
    intq::nn::Value forward(intq::nn::Arguments images) override {
        const intq::nn::Value x = call("features", call("quant", images[0]));
        return call("dequant", call("classifier", call("flatten", call("avgpool", x))));
    }

private:
    /// A row of the paper's table 2.
    struct Stage {
        intq::index_t expansion, outputs;
        int blocks;
        intq::index_t stride;
    };
    static constexpr Stage stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                       {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
};

}  // namespace intq_bench

#endif  // INTQ_BENCH_MODELS_MOBILENET_V2_HPP
