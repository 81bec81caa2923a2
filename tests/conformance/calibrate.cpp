// SPDX-License-Identifier: MIT
//
// Calibrates a small network with every observer and prints checksums of the bits: of all scales, of the validated
// output, of the reference graph's, and of each float operator. All machines print the same, with FMA and without.
//
// INTQ_FAULT == 1 sums as training does.
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "intq/arith/bpu.hpp"
#include "intq/nn.hpp"
#include "intq/nn/float_operators/softmax.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/observers/observer_modules.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/tensor/float_sums.hpp"
#include "intq/tensor/random.hpp"

#ifndef INTQ_FAULT
#    define INTQ_FAULT 0
#endif

namespace {

using namespace intq;
using namespace intq::quantization;

/// Values in [-range, range) that no math library made.
Tensor random_values(const Shape& shape, std::uint64_t seed, float range) {
    Tensor tensor = Tensor::empty(shape);
    std::uint64_t position = 0;
    for (float& value : tensor.flat<float>()) {
        const auto bits = static_cast<std::int32_t>(random_bits(seed, position++) >> 40) - (1 << 23);
        value = arith::fmul(static_cast<float>(bits) * 0x1p-23f, range);
    }
    return tensor;
}

class Checksum {
public:
    void add(const void* data, std::size_t size) {
        for (std::size_t i = 0; i < size; ++i)
            hash_ = (hash_ ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
    }
    void add(const Tensor& tensor) {
        const Tensor plain = tensor.contiguous();
        add(plain.data(), static_cast<std::size_t>(plain.bytes()));
    }
    void print(const std::string& name) {
        std::printf("%-32s %08x\n", name.c_str(), static_cast<unsigned>(hash_ ^ hash_ >> 32));
        hash_ = empty;
    }

private:
    static constexpr std::uint64_t empty = 14695981039346656037u;
    std::uint64_t hash_ = empty;
};
Checksum checksum;

// --- the network -------------------------------------------------------------------------------------------------------

std::shared_ptr<nn::Conv2d> conv(index_t in, index_t out, index_t kernel, index_t groups, std::uint64_t seed) {
    auto layer = std::make_shared<nn::Conv2d>(
        nn::Conv2dOptions{in, out, nn::square_window(kernel, 1, kernel / 2), groups, true});
    layer->set_weight(random_values(layer->weight().shape(), seed, 0.5f));
    layer->set_bias(random_values(Shape(out), seed + 1, 1.0f));
    return layer;
}

struct Network : nn::Cloneable<Network> {
    Network() {
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("stem", conv(3, 24, 3, 1, 10));
        auto norm = std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{24});
        norm->tensor("running_mean") = random_values(Shape(24), 20, 1.0f);
        for (float& value : norm->tensor("running_var").flat<float>()) value = 1.7f;
        add_child("norm", norm);
        add_child("depthwise", conv(24, 24, 3, 24, 30));
        add_child("point", conv(24, 70, 1, 1, 40));
        add_child("head", std::make_shared<nn::Linear>(nn::LinearOptions{70, 5}));
        auto& head = static_cast<nn::Linear&>(*child("head"));
        head.set_weight(random_values(Shape(5, 70), 50, 0.5f));
        head.set_bias(random_values(Shape(5), 51, 1.0f));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "Network"; }
    nn::Value forward(nn::Arguments arguments) override {
        nn::Value x = nn::relu(call("norm", call("stem", call("quant", arguments[0]))));
        x = nn::add(x, nn::sigmoid(call("depthwise", x)));
        x = nn::tanh(call("point", x));
        return call("dequant", call("head", nn::mean(x, {2, 3})));
    }
};

Tensor images() { return random_values(Shape(12, 3, 9, 7), 1, 2.0f); }

void add_scales(PreparedModel& model) {
    for (const auto& module : model.named_modules())
        if (const auto* quantizer = dynamic_cast<const FakeQuantize*>(module.value);
            quantizer && quantizer->has_qparams())
            for (const char* name : {"scale", "zero_point"})
                if (quantizer->tensor(name).defined()) checksum.add(quantizer->tensor(name));
}

void calibrate_with(const NamedObserver& row) {
    QConfig qconfig = get_default_calib_qconfig();
    qconfig.output->options.observer = row.per_tensor;
    ObserverOptions& options = qconfig.output->options.observer_options;
    options.xmax = -(options.xmin = -4.0f);
    options.scale = options.xmax / 127.0f;
    const auto prepared =
        prepare_calibration_fx(Network(), QConfigMapping().set_global(qconfig), target::bpu<march::bayes>::policy);
    calibrate(*prepared, images(), 4);
    add_scales(*prepared);
    checksum.print(std::string(row.name) + " scales");
    const Tensor x = images().batch(0, 2);
    checksum.add((*prepared)(x).tensor());
    checksum.add((*make_reference(convert_fx(*prepared)))(x).tensor());
    checksum.print(std::string(row.name) + " outputs");
}

// --- float operators --------------------------------------------------------------------------------------------------

void float_operators() {
    namespace ops = nn::float_operators;
    const FloatSumsScope scope(INTQ_FAULT == 1 ? FloatSums::fast : FloatSums::reproducible);
    const Tensor x = random_values(Shape(2, 24, 9, 8), 60, 3.0f);
    const auto show = [](const char* name, const Tensor& y) {
        checksum.add(y);
        checksum.print(name);
    };
    show("conv2d", ops::conv2d(x, random_values(Shape(33, 24, 3, 3), 61, 1.0f), random_values(Shape(33), 62, 1.0f),
                               nn::square_window(3, 1, 1)));
    for (const index_t kernel : {3, 5, 4})
        show("depthwise conv2d", ops::conv2d(x, random_values(Shape(24, 1, kernel, kernel), 63, 1.0f), {},
                                             nn::square_window(kernel, 2, 1), 24));
    show("conv_transpose2d",
         ops::conv_transpose2d(x, random_values(Shape(24, 5, 3, 3), 64, 1.0f), {}, nn::square_window(3, 2, 1)));
    show("linear", ops::linear(x, random_values(Shape(19, 8), 65, 1.0f), random_values(Shape(19), 66, 1.0f)));
    show("matmul", ops::matmul(x, random_values(Shape(2, 24, 8, 6), 67, 1.0f)));
    const ops::ChannelMoments moments = ops::channel_moments(x);
    show("batch_norm", ops::batch_norm(x, moments.mean, moments.variance, random_values(Shape(24), 68, 2.0f),
                                       random_values(Shape(24), 69, 2.0f), 1e-5));
    show("layer_norm",
         ops::layer_norm(x, 1, random_values(Shape(8), 70, 2.0f), random_values(Shape(8), 71, 2.0f), 1e-5));
    show("softmax", ops::softmax(x, 1));
    show("mean", ops::mean(x));
    show("avg_pool2d", ops::avg_pool2d(x, nn::square_window(3, 1, 1), PoolDivisor::valid_cells));
    show("interpolate", ops::interpolate(x, {.size = Size2d{13, 5}, .rule = ops::Resize::half_pixel}));
    const Tensor positive = ops::clamp(x, 1e-3, std::nullopt);
    for (const ops::UnaryRow& row : ops::unary_rows) {
        const bool is_root = row.function == TableFunction::sqrt || row.function == TableFunction::rsqrt;
        show(std::string(row.name).c_str(),
             ops::unary(row.function, is_root || row.function == TableFunction::log ? positive : x,
                        row.default_parameter));
    }
    const Tensor state = random_values(Shape(24, 6), 72, 1.0f);
    const ops::LstmWeights weights{random_values(Shape(24, 8), 73, 1.0f), random_values(Shape(24, 6), 74, 1.0f),
                                   random_values(Shape(24), 75, 1.0f), random_values(Shape(24), 76, 1.0f)};
    show("lstm", ops::lstm_layer(x.reshape(Shape(18, 24, 8)), weights, state, state).output);
}

}  // namespace

int main() {
    try {
        float_operators();
        for (const NamedObserver& row : observer_table().rows()) calibrate_with(row);
        return 0;
    } catch (const std::exception& error) {
        std::printf("failed: %s\n", error.what());
        return 1;
    }
}
