// SPDX-License-Identifier: MIT
//
// A module whose forward depends on data cannot be traced: it becomes a non-traceable leaf, stays in float, and the
// rest of the model is quantized around it. A small function is wrapped instead. A property of the model survives.
#include <cstdio>

#include "intq/arith/bpu.hpp"
#include "intq/graph/print.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"

using namespace intq;
using intq::Tensor;

// Stretches an image to [0, 1], unless it is flat: an if on data.
class Stretch : public nn::Cloneable<Stretch> {
public:
    std::string type_name() const override { return "Stretch"; }
    nn::Value forward(nn::Arguments arguments) override {
        const nn::Value x = arguments[0];
        if (nn::mean(x * x) - nn::mean(x) * nn::mean(x) < 1e-6) return x;
        return nn::sigmoid(x * 2.0);
    }
};

// The same as a function: a trace records one call of "halve_peaks" and does not look inside.
static Tensor compute_halved_peaks(const Tensor& x, double limit) {
    Tensor y = x.clone();
    for (float& value : y.flat<float>())
        if (static_cast<double>(value) > limit) value *= 0.5f;
    return y;
}
constexpr nn::Wrapped<"halve_peaks", &compute_halved_peaks> halve_peaks;

class Net : public nn::Cloneable<Net> {
public:
    Net() {
        const auto conv = [](index_t in, index_t out) {
            auto layer = std::make_shared<nn::Conv2d>(nn::Conv2dOptions{in, out, nn::square_window(3, 1, 1)});
            auto weight = layer->tensor("weight").flat<float>();
            for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i * 37 % 19) * 0.02f - 0.18f;
            return layer;
        };
        add_child("stretch", std::make_shared<Stretch>());
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("conv1", conv(1, 4));
        add_child("conv2", conv(4, 2));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        set_property("classes", nn::Value::Tuple{"cat", "dog"});
        eval();
    }
    std::string type_name() const override { return "Net"; }
    nn::Value forward(nn::Arguments arguments) override {
        const nn::Value x = halve_peaks(call("stretch", arguments[0]), 0.9);
        const nn::Value y = call("conv2", nn::relu(call("conv1", call("quant", x))));
        return nn::mean(call("dequant", y), {2, 3});
    }
};

int main() try {
    const Net net;
    try {
        graph::symbolic_trace(*nn::clone(net));
    } catch (const nn::TracingError& error) {
        std::printf("without a leaf: %s\n\n", error.what());
    }
    quantization::PrepareCustomConfig config;
    config.non_traceable_module_name = {"stretch"};
    config.preserved_attributes = {"classes"};
    quantization::PrepareOptions options;
    options.trace = quantization::trace_options(config);
    const auto prepared = quantization::prepare_calibration_fx(net, quantization::get_default_qconfig_mapping(),
                                                               target::bpu<march::bayes>::policy, options);
    Tensor image = Tensor::empty(Shape(1, 1, 4, 4));
    for (std::size_t i = 0; i < 16; ++i) image.flat<float>()[i] = static_cast<float>(i) * 0.25f - 2.0f;
    quantization::calibrate(*prepared, image, 1);
    std::printf("%s", graph::to_string(prepared->graph()).c_str());
    const nn::Value scores = (*prepared)(image)[0], classes = prepared->property("classes");
    for (int i = 0; i < 2; ++i) std::printf("%s %.3f\n", classes[i].text().c_str(), scores[i].number());
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
