// SPDX-License-Identifier: MIT
//
// What was validated is what is deployed: the grids of all weights and activations, to the bit, after the last step of
// an optimizer, for each kind of fake-quantizer, on graphs and module by module; and the accuracy of both.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "intq/graph/operators.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/convert/quantized_module.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/fuse_eager.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/training/trainer.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;

namespace {

constexpr index_t classes = 8;

/// Stripes under noise; the class is their angle.
struct Stripes {
    Tensor images;
    std::vector<index_t> labels;

    Stripes(index_t count, std::uint32_t seed) : images(Tensor::empty(Shape(count, 1, 8, 8))) {
        std::mt19937 bits(seed);
        const auto uniform = [&] { return static_cast<float>(bits() >> 8) * 0x1p-24f; };
        float* pixel = images.flat<float>().data();
        for (index_t i = 0; i < count; ++i) {
            labels.push_back(static_cast<index_t>(bits() % classes));
            const float angle = 3.14159f * static_cast<float>(labels.back()) / classes, phase = 6.28f * uniform();
            for (int h = 0; h < 8; ++h)
                for (int w = 0; w < 8; ++w, ++pixel) {
                    const float along =
                        static_cast<float>(h) * std::cos(angle) + static_cast<float>(w) * std::sin(angle);
                    *pixel = 1.5f * std::sin(1.2f * along + phase) + 2.0f * (uniform() - 0.5f);
                }
        }
    }
    double accuracy(const Tensor& logits) const {
        double correct = 0;
        for (std::size_t i = 0; i < labels.size(); ++i) {
            const float* scores = logits.flat<float>().data() + i * classes;
            correct += std::max_element(scores, scores + classes) - scores == labels[i];
        }
        return 100 * correct / static_cast<double>(labels.size());
    }
};

nn::ModulePtr network() {
    return test::stubbed({{"conv1", test::make_conv(1, 8, 3, 1)},
                          {"relu1", std::make_shared<nn::ReLU>()},
                          {"conv2", test::make_conv(8, 8, 3, 2)},
                          {"relu2", std::make_shared<nn::ReLU>()},
                          {"pool", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))},
                          {"flatten", std::make_shared<nn::Flatten>()},
                          {"fc", test::make_linear(8 * 16, classes, 3)}},
                         [](test::LambdaModel& m, nn::Arguments x) {
                             const nn::Value a = m.call("relu1", m.call("conv1", x[0]));
                             const nn::Value b = m.call("relu2", m.call("conv2", a));
                             return m.call("fc", m.call("flatten", m.call("pool", b)));
                         });
}

void train(graph::GraphModule& model, const Stripes& data, std::int64_t epochs, double rate) {
    training::Adam adam;
    training::TrainerOptions options;
    options.epochs = epochs;
    options.rate = training::constant_rate(rate);
    training::Trainer(model, adam, options).fit(data.images, [&](const auto& logits, auto samples) {
        std::vector<index_t> labels;
        for (const index_t i : samples) labels.push_back(data.labels[static_cast<std::size_t>(i)]);
        return training::cross_entropy(logits, labels);
    });
}

/// The grids on which a forward rounds, by module: its weight, and what it gives.
struct Grids {
    std::map<std::string, OwnedQParams> weights, outputs;
};

Grids grids_of_forward(graph::GraphModule& model, const Tensor& x) {
    std::map<const graph::Node*, nn::Value> values;
    const nn::Value input(x);
    Grids grids;
    model.run(std::span(&input, 1), [&](const graph::Node& node, const nn::Value& value) {
        values[&node] = value;
        const nn::Module* const module = graph::module_of(node, model);
        if (dynamic_cast<const Quantizer*>(module) != nullptr)
            grids.outputs[node.inputs()[0]->target()] = value.tensor().qparams().value();
        const auto* prepared = dynamic_cast<const PreparedWeight*>(module);
        if (prepared == nullptr) return;
        const std::vector<nn::Value> inputs = graph::Interpreter::resolve(node.args(), values);
        grids.weights[node.target()] = prepared->quantized_weight(nn::Arguments(inputs)).qparams().value();
    });
    return grids;
}

QConfigMapping weights_of(int bits, const char* activation_kind, const char* weight_kind) {
    QConfig config =
        get_default_qat_qconfig({.activation_fake_quant = activation_kind, .weight_fake_quant = weight_kind});
    config.weight->options.observer_options.quant_min = -(1 << (bits - 1));
    config.weight->options.observer_options.quant_max = (1 << (bits - 1)) - 1;
    return QConfigMapping().set_global(config);
}

void check_same(const OwnedQParams& deployed, const OwnedQParams& validated) {
    CHECK(deployed.scales == validated.scales);
    CHECK(deployed.zero_points == validated.zero_points);
    CHECK(deployed.quant_min == validated.quant_min);
    CHECK(deployed.quant_max == validated.quant_max);
    CHECK(deployed.dtype == validated.dtype);
}

/// Every layer is deployed on the grids that forward uses.
void check_grids(PreparedModel& model, const QuantizedGraph& quantized, const Tensor& x) {
    const Grids validated = grids_of_forward(model, x);
    CHECK(validated.weights.size() == 3);
    CHECK(validated.outputs.size() == 3);  // the last layer gives its accumulator
    std::size_t weights = 0, outputs = 0;
    for (const QuantizedNode& node : quantized.nodes) {
        INFO(node.module);
        if (const auto* step = node.as<WeightedStep>()) {
            check_same(step->weight_qparams, validated.weights.at(node.module));
            ++weights;
        }
        if (const auto output = validated.outputs.find(node.module); output != validated.outputs.end()) {
            check_same(quantized.output(node).qparams, output->second);
            ++outputs;
        }
    }
    CHECK(weights == validated.weights.size());
    CHECK(outputs == validated.outputs.size());
}

/// The same for modules that were converted one by one.
void check_grids(graph::GraphModule& traced, nn::Module& converted, const Tensor& x) {
    const Grids validated = grids_of_forward(traced, x);
    CHECK(validated.weights.size() == 3);
    CHECK(validated.outputs.size() == 4);
    converted(x);
    for (const auto& [name, grid] : validated.weights) {
        INFO(name);
        check_same(dynamic_cast<const QuantizedModule&>(converted.find(name)).weight_qparams(), grid);
    }
    for (const auto& [name, grid] : validated.outputs) {
        INFO(name);
        const auto* module = dynamic_cast<const QuantizedModule*>(&converted.find(name));
        check_same(module != nullptr ? module->output_qparams() : converted.find(name)(x).tensor().qparams().value(),
                   grid);
    }
}

struct Accuracy {
    double validated = 0, deployed = 0;
};

/// Trained on a graph. Nothing is run between the last step of the optimizer and convert.
Accuracy on_graph(const nn::Module& net, const QConfigMapping& mapping, const kernels::KernelTable& table,
                  const Stripes& data, const Stripes& held_out) {
    const auto qat = prepare_qat_fx(net, mapping, table.policy());
    train(*qat, data, 2, 1e-3);
    const auto quantized = convert_fx(*qat);
    qat->eval();
    set_fake_quantize(*qat, FakeQuantState::validation);
    check_grids(*qat, quantized, held_out.images.batch(0, 20));
    return {held_out.accuracy((*qat)(held_out.images).tensor()),
            held_out.accuracy(lower(quantized, table, 100).run(held_out.images))};
}

/// Trained module by module.
Accuracy on_modules(const nn::ModulePtr& net, const QConfigMapping& mapping, const kernels::KernelTable& table,
                    const Stripes& data, const Stripes& held_out) {
    const nn::ModulePtr fused = fuse_modules(net, {{"conv1", "relu1"}, {"conv2", "relu2"}});
    const nn::ModulePtr qat = prepare_qat(fused, mapping, table.policy());
    const auto traced = graph::symbolic_trace(qat);
    train(*traced, data, 2, 1e-3);
    const nn::ModulePtr converted = convert(qat, table);
    qat->eval();
    set_fake_quantize(*qat, FakeQuantState::validation);
    check_grids(*traced, *converted, held_out.images.batch(0, 20));
    return {held_out.accuracy((*qat)(held_out.images).tensor()),
            held_out.accuracy((*converted)(held_out.images).tensor())};
}

}  // namespace

TEST_CASE("Scales are deployed as they were validated, at 2, 3, 4 and 8 bits, on graphs and module by module") {
    const Stripes data(1200, 1), held_out(600, 2);
    const auto net = network();
    manual_seed(3);  // layers as a training begins with them
    for (const char* name : {"conv1", "conv2"})
        net->replace_child(name,
                           std::make_shared<nn::Conv2d>(dynamic_cast<const nn::Conv2d&>(net->find(name)).options()));
    net->replace_child("fc", std::make_shared<nn::Linear>(dynamic_cast<const nn::Linear&>(net->find("fc")).options()));
    train(*graph::symbolic_trace(net), data, 8, 3e-3);
    net->eval();
    const double in_float = held_out.accuracy((*net)(held_out.images).tensor());
    std::cout << "float " << in_float << " %\n";
    CHECK(in_float > 90);

    for (const std::size_t target : {std::size_t{0}, std::size_t{4}})  // fp32, bayes
        for (const int bits : {2, 3, 4, 8})
            for (const auto& [activation, weight] :
                 {std::pair("fake_quant", "fake_quant"), std::pair("lsq", "lsq"), std::pair("pact", "fake_quant")})
                for (const bool modules : {false, true}) {
                    if (modules && target == 0) continue;  // the rules of bayes raise scales as well
                    const kernels::KernelTable& table = *test::scalar_tables().tables[target];
                    const QConfigMapping mapping = weights_of(bits, activation, weight);
                    const std::string what = std::string(table.policy().name) + ", " + std::to_string(bits) +
                                             " bits of weight, " + activation + (modules ? ", modules" : ", graph");
                    INFO(what);
                    const Accuracy accuracy = modules ? on_modules(net, mapping, table, data, held_out)
                                                      : on_graph(*net, mapping, table, data, held_out);
                    std::cout << what << ": validated " << accuracy.validated << " %, deployed " << accuracy.deployed
                              << " %\n";
                    CHECK(std::abs(accuracy.validated - accuracy.deployed) <= 0.5);
                }
}

TEST_CASE("A scale that was given to a weight is deployed, whether it was given before or after calibration") {
    const auto net = network();
    net->eval();
    const Tensor x = test::random_tensor(Shape(20, 1, 8, 8), 5);
    const kernels::KernelTable& table = *test::scalar_tables().tables[4];
    for (const bool before : {true, false}) {
        const auto prepared = prepare_calibration_fx(*net, get_default_qconfig_mapping(), table.policy());
        auto& quantizer = dynamic_cast<FakeQuantize&>(prepared->find("conv2.weight_fake_quant"));
        if (before) quantizer.set_qparams(0.03125f);
        calibrate(*prepared, x, 10);
        if (!before) quantizer.set_qparams(0.03125f);
        INFO((before ? "before" : "after"));
        const auto quantized = convert_fx(*prepared);
        check_grids(*prepared, quantized, x);
        CHECK(grids_of_forward(*prepared, x).weights.at("conv2").scales[0] == 0.03125f);
    }
}

TEST_CASE("A weight that changes behind its quantizer stays on the validated grid") {
    const auto net = network();
    net->eval();
    const Tensor x = test::random_tensor(Shape(20, 1, 8, 8), 5);
    const kernels::KernelTable& table = *test::scalar_tables().tables[0];
    const auto prepared = prepare_calibration_fx(*net, get_default_qconfig_mapping(), table.policy());
    calibrate(*prepared, x, 10);
    for (float& w : prepared->find_tensor("conv1.weight")->flat<float>()) w *= 1.5f;  // as a step of an optimizer
    set_fake_quantize(*prepared, FakeQuantState::validation);
    check_grids(*prepared, convert_fx(*prepared), x);
}
