// SPDX-License-Identifier: MIT
//
// Trains a small CNN on handwritten digits, quantizes it to 4 bits, and wins back by quantization-aware training what
// that lost, with each kind of fake-quantizer.
#include <cstdio>
#include <cstdlib>

#include "digits.hpp"

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/quantization/observers/observer_modules.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"

namespace {

using namespace intq;
using namespace train_digits;

/// Four bits for weights and activations, simulated in int8.
quantization::QConfigMapping four_bits(const char* activation_kind, const char* weight_kind) {
    quantization::QConfig qconfig = quantization::get_default_calib_qconfig();
    qconfig.weight->options.observer = quantization::observer_factory<quantization::MinMaxObserver>();
    qconfig.weight->options.observer_options.ch_axis = -1;
    for (auto* quantizer : {&*qconfig.weight, &*qconfig.output}) {
        quantizer->options.observer_options.quant_min = -8;
        quantizer->options.observer_options.quant_max = 7;
    }
    qconfig.output->fake_quantize = quantization::fake_quantize_kind(activation_kind);
    qconfig.weight->fake_quantize = quantization::fake_quantize_kind(weight_kind);
    return quantization::QConfigMapping().set_global(qconfig);
}

void train(graph::GraphModule& model, const Digits& digits, training::Optimizer& optimizer, double rate,
           std::int64_t epochs) {
    training::TrainerOptions options;
    options.epochs = epochs;
    options.batch_size = 32;
    options.seed = 1;
    const std::int64_t steps = epochs * (digits.train_images.extent(0) / options.batch_size);
    options.rate = training::warm_up(steps / 10, training::cosine_rate(rate, steps - steps / 10));
    training::Trainer(model, optimizer, options).fit(digits.train_images, [&](const auto& logits, auto samples) {
        return training::cross_entropy(logits, pick(digits.train_labels, samples), 0.05);
    });
}

int run() {
    const Digits digits = load_digits();
    manual_seed(1);
    const nn::ModulePtr network = make_network();
    const auto model = graph::symbolic_trace(network);
    training::Adam adam({.weight_decay = 1e-2, .decoupled = true});
    train(*model, digits, adam, 5e-3, 20);
    const double float_accuracy = accuracy(*model, digits);
    std::printf("float                       %6.2f %%\n", float_accuracy);

    quantization::add_stubs(*model);
    const auto& target = target::fp32::policy;
    const auto calibrated = quantization::prepare_calibration_fx(*model, four_bits("fake_quant", "fake_quant"), target);
    quantization::calibrate(*calibrated, digits.train_images.batch(0, 200), 20);
    const double lossy = accuracy(*calibrated, digits);
    std::printf("4 bits, calibrated          %6.2f %%\n", lossy);

    bool ok = float_accuracy >= 97.0 && lossy < float_accuracy - 2.0;
    for (const char* kind : {"fake_quant", "lsq", "pact"}) {
        const char* weight_kind = kind == std::string("lsq") ? "lsq" : "fake_quant";
        const auto qat = quantization::prepare_qat_fx(*model, four_bits(kind, weight_kind), target);
        quantization::load_calibration(*qat, *calibrated);
        training::Adam qat_adam;
        train(*qat, digits, qat_adam, 1e-3, 12);
        quantization::set_fake_quantize(*qat, quantization::FakeQuantState::validation);
        const double trained = accuracy(*qat, digits);
        std::printf("4 bits, trained, %-10s %6.2f %%, recovered %.0f %% of the loss\n", kind, trained,
                    100 * (trained - lossy) / (float_accuracy - lossy));
        ok = ok && trained >= (float_accuracy + lossy) / 2;
    }
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main() {
    try {
        return run();
    } catch (const Error& error) {
        std::fprintf(stderr, "train_digits: %s\n", error.what());
        return EXIT_FAILURE;
    }
}
