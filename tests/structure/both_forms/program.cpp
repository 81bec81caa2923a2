// SPDX-License-Identifier: MIT
//
// From a float model to the bytes of a program, with training between: prints a hash of each stage. Built header-only
// and with the compiled form, whose outputs are compared.
#include <cstdio>
#include <cstring>
#include <string>

#include "intq/intq.hpp"
#include "support/small_models.hpp"

namespace {

using namespace intq;
using namespace intq::quantization;

/// FNV-1a over bytes.
std::uint64_t hash_of(const Tensor& tensor) {
    const Tensor plain = tensor.contiguous();
    const auto* bytes = reinterpret_cast<const unsigned char*>(plain.data());
    std::uint64_t hash = 14695981039346656037u;
    for (index_t i = 0; i < plain.bytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

void show(const std::string& stage, const Tensor& tensor) {
    std::printf("%-40s %016llx\n", stage.c_str(), static_cast<unsigned long long>(hash_of(tensor)));
}

nn::ModulePtr make_network() {
    return test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                             {"conv1", test::make_conv(3, 8, 3, 1)},
                             {"bn1", test::make_batch_norm<nn::BatchNorm2d>(8, 2)},
                             {"conv2", test::make_conv(8, 8, 3, 3)},
                             {"pool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1})},
                             {"fc", test::make_linear(8, 5, 4)},
                             {"dequant", std::make_shared<nn::DeQuantStub>()}},
                            [](test::LambdaModel& m, nn::Arguments x) {
                                const nn::Value first = nn::relu(m.call("bn1", m.call("conv1", m.call("quant", x[0]))));
                                const nn::Value sum = nn::relu(nn::add(m.call("conv2", first), first));
                                return m.call("dequant", m.call("fc", nn::flatten(m.call("pool", sum), 1)));
                            });
}

template <class Target> void run_target(const nn::Module& model, const Tensor& images) {
    const std::string name = Target::policy.name;
    const auto prepared = prepare_qat_fx(model, get_default_qconfig_mapping(), Target::policy);
    set_fake_quantize(*prepared, FakeQuantState::calibration);
    (*prepared)(images);
    set_fake_quantize(*prepared, FakeQuantState::qat);
    prepared->train();
    training::SGD sgd({.momentum = 0.9});
    training::TrainerOptions options;
    options.rate = training::constant_rate(1e-3);
    options.batch_size = 4;
    const std::vector<index_t> labels{0, 1, 2, 3, 4, 0, 1, 2};
    training::Trainer(*prepared, sgd, options).fit(images, [&](const auto& logits, auto samples) {
        std::vector<index_t> batch;
        for (const auto sample : samples) batch.push_back(labels[static_cast<std::size_t>(sample)]);
        return training::cross_entropy(logits, batch);
    });
    prepared->eval();
    set_fake_quantize(*prepared, FakeQuantState::validation);
    show(name + " validated", (*prepared)(images).tensor());
    const auto lowered = lower(convert_fx(*prepared), program::best_table<Target>(), 4);
    show(name + " program", lowered.run(images));
}

int run() {
#if INTQ_COMPILED
    std::fprintf(stderr, "%s\n", program::describe_backends().c_str());
#endif
    const auto model = make_network();
    const Tensor images = test::random_tensor(Shape(8, 3, 9, 9), 11);
    show("float", (*model)(images).tensor());
    run_target<target::fp32>(*model, images);
    run_target<target::bpu<march::bayes>>(*model, images);
    return 0;
}

}  // namespace

int main() try { return run(); } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
