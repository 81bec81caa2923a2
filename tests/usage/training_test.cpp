// SPDX-License-Identifier: MIT
//
// Misuses of training, losses, optimizers, schedules and the improvements.
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/improve/adaround.hpp"
#include "intq/improve/bias_correction.hpp"
#include "intq/improve/mixed_precision.hpp"
#include "intq/nn.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"
#include "intq/training/autograd.hpp"
#include "intq/training/batches.hpp"
#include "intq/training/exact_forward.hpp"
#include "intq/training/loss.hpp"
#include "intq/training/optimizer.hpp"
#include "intq/training/schedule.hpp"
#include "intq/training/trainer.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"
#include "usage/misuse.hpp"

namespace {

using namespace intq;
using namespace intq::training;
using intq::Tensor;
using test::make_conv;
using test::make_linear;
using test::make_model;
using test::random_tensor;
using test::refusal;

constexpr auto& fp32 = target::fp32::policy;

/// conv -> relu -> fc: 6 classes of 1 x 4 x 4 images.
std::shared_ptr<graph::GraphModule> network() {
    return graph::symbolic_trace(make_model({{"conv", make_conv(1, 2, 3, 1)}, {"fc", make_linear(32, 6, 2)}},
                                            [](test::LambdaModel& m, nn::Arguments x) {
                                                return m.call("fc", nn::flatten(nn::relu(m.call("conv", x[0])), 1));
                                            }));
}

Tensor images(index_t count = 8) { return random_tensor(Shape(count, 1, 4, 4), 7); }

Loss zero_labels(const Tensor& logits, std::span<const index_t> samples) {
    return cross_entropy(logits, std::vector<index_t>(samples.size(), 0));
}

/// What a training says whose model, data, loss or options `change` has spoilt.
struct Course {
    std::shared_ptr<graph::GraphModule> model = network();
    Tensor data = images();
    LossFunction loss = zero_labels;
    SGD optimizer{};
    TrainerOptions options{};
};
template <class Change> std::string trained_with(const Change& change) {
    Course course;
    course.options.batch_size = 4;
    course.options.progress = io::ShowProgress::never;
    change(course);
    return refusal([&] { Trainer(*course.model, course.optimizer, course.options).fit(course.data, course.loss); });
}

/// conv between stubs, prepared.
std::shared_ptr<quantization::PreparedModel> prepared(bool for_training) {
    const auto model = test::stubbed({{"conv", make_conv(1, 2, 3, 1)}},
                                     [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", x[0]); });
    const auto mapping = quantization::get_default_qconfig_mapping();
    return for_training ? quantization::prepare_qat_fx(*model, mapping, fp32)
                        : quantization::prepare_calibration_fx(*model, mapping, fp32);
}

/// A layer of one's own that no gradient is known of.
struct Own : nn::Cloneable<Own> {
    std::string type_name() const override { return "Own"; }
    bool is_leaf() const override { return true; }
    nn::Value forward(nn::Arguments x) override { return x.tensor(0).clone(); }
};

}  // namespace

TEST_CASE("bad usage: losses and optimizers") {
    const Tensor logits = random_tensor(Shape(4, 6), 1);
    test::check_misuses({
        {"three labels for four samples",
         [&] { return refusal([&] {
                   cross_entropy(logits, std::vector<index_t>{0, 1, 2});
               }); },
         {"cross_entropy", "label", "3", "4"}},
        {"a label that is no class",
         [&] { return refusal([&] {
                   cross_entropy(logits, std::vector<index_t>{0, 1, 2, 6});
               }); },
         {"cross_entropy", "label", "6"}},
        {"images instead of logits",
         [] { return refusal([] {
                  cross_entropy(images(4), std::vector<index_t>{0, 1, 2, 3});
              }); },
         {"cross_entropy", "(4, 1, 4, 4)"}},
        {"a target of another shape",
         [&] { return refusal([&] { mse_loss(logits, random_tensor(Shape(4, 5), 1)); }); },
         {"mse_loss", "(4, 6)", "(4, 5)"}},
        {"a temperature of 0",
         [&] { return refusal([&] { distillation_loss(logits, logits, 0.0); }); },
         {"distillation_loss", "temperature", "0"}},
        {"a negative momentum", [] { return refusal([] { SGD({.momentum = -0.9}); }); }, {"SGD", "momentum", "-0.9"}},
        {"Nesterov's momentum without momentum",
         [] { return refusal([] { SGD({.nesterov = true}); }); },
         {"SGD", "nesterov", "momentum"}},
        {"a beta of 1", [] { return refusal([] { Adam({.beta1 = 1.0}); }); }, {"Adam", "beta1", "1"}},
        {"a cosine of no steps", [] { return refusal([] { cosine_rate(0.1, 0); }); }, {"cosine_rate", "steps", "0"}},
        {"a step size of NaN",
         [] { return trained_with([](Course& c) { c.options.rate = constant_rate(std::nan("")); }); },
         {"rate"}},
    });
}

TEST_CASE("bad usage: a training") {
    const test::TemporaryFolder folder;
    test::check_misuses({
        {"batches larger than the data",
         [] { return trained_with([](Course& c) { c.options.batch_size = 32; }); },
         {"batch", "32", "8"}},
        {"batches of 0", [] { return trained_with([](Course& c) { c.options.batch_size = 0; }); }, {"batch_size", "0"}},
        {"a negative number of epochs",
         [] { return trained_with([](Course& c) { c.options.epochs = -1; }); },
         {"epochs", "-1"}},
        {"no loss function", [] { return trained_with([](Course& c) { c.loss = nullptr; }); }, {"loss"}},
        {"no rate", [] { return trained_with([](Course& c) { c.options.rate = nullptr; }); }, {"rate"}},
        {"a loss without a gradient",
         [] {
             return trained_with([](Course& c) {
                 c.loss = [](const Tensor&, std::span<const index_t>) { return Loss{1.0, {}}; };
             });
         },
         {"epoch 1", "batch 1", "loss", "gradient"}},
        {"a gradient of another shape than the output",
         [] {
             return trained_with([](Course& c) {
                 c.loss = [](const Tensor&, std::span<const index_t>) { return Loss{1.0, Tensor::zeros(Shape(2, 2))}; };
             });
         },
         {"gradient", "(2, 2)", "(4, 6)"}},
        {"data with a NaN",
         [] { return trained_with([](Course& c) { c.data.flat<float>()[20] = std::nanf(""); }); },
         {"epoch 1", "batch 1", "not finite", "placeholder[x]"}},
        {"images of another size",
         [] { return trained_with([](Course& c) { c.data = random_tensor(Shape(8, 1, 5, 5), 1); }); },
         {"epoch 1", "fc", "32", "50"}},
        {"images of uint8",
         [] { return trained_with([](Course& c) { c.data = Tensor::zeros(Shape(8, 1, 4, 4), DType::uint8); }); },
         {"uint8", "float32"}},
        {"a rate that explodes",
         [] { return trained_with([](Course& c) { c.options.rate = constant_rate(1e38), c.options.epochs = 9; }); },
         {"epoch", "batch", "finite"}},
        {"an operator without a gradient",
         [] {
             return trained_with([](Course& c) {
                 c.model = graph::symbolic_trace(make_model(
                     {{"conv", make_conv(1, 2, 3, 1)}, {"own", std::make_shared<Own>()}},
                     [](test::LambdaModel& m, nn::Arguments x) { return m.call("own", m.call("conv", x[0])); }));
             });
         },
         {"own", "Own", "gradient"}},
        {"a checkpoint that does not exist",
         [&] {
             return refusal([&] {
                 const auto model = network();
                 SGD sgd;
                 Trainer(*model, sgd, {}).load(folder / "none");
             });
         },
         {"none", "No such file"}},
        {"a checkpoint of another optimizer",
         [&] {
             return refusal([&] {
                 const auto model = network();
                 SGD sgd;
                 Adam adam;
                 Trainer(*model, sgd, {}).save(folder / "sgd");
                 Trainer(*model, adam, {}).load(folder / "sgd");
             });
         },
         {"sgd", "SGD", "Adam"}},
        {"a checkpoint of a training with another seed",
         [&] {
             return refusal([&] {
                 const auto model = network();
                 SGD sgd;
                 TrainerOptions first, second;
                 first.seed = 1, second.seed = 2;
                 Trainer(*model, sgd, first).save(folder / "seed");
                 Trainer(*model, sgd, second).load(folder / "seed");
             });
         },
         {"seed", "1", "2"}},
        {"a checkpoint in a folder that does not exist",
         [&] { return trained_with([&](Course& c) { c.options.checkpoint = folder / "nowhere" / "state"; }); },
         {"nowhere", "No such file"}},
        {"backward before forward",
         [] {
             return refusal([] {
                 const auto model = network();
                 Autograd(*model).backward(random_tensor(Shape(4, 6), 1));
             });
         },
         {"backward", "forward"}},
        {"the calibration of another model",
         [] {
             return refusal([] {
                 const auto other = quantization::prepare_calibration_fx(
                     *test::stubbed({{"other", make_conv(1, 2, 3, 1)}},
                                    [](test::LambdaModel& m, nn::Arguments x) { return m.call("other", x[0]); }),
                     quantization::get_default_qconfig_mapping(), fp32);
                 quantization::calibrate(*other, images(), 4);
                 quantization::load_calibration(*prepared(true), *other);
             });
         },
         {"conv.weight_fake_quant", "no such quantizer"}},
        {"no sample of a batch", [] { return refusal([] { gather(images(), std::vector<index_t>{9}); }); }, {"9", "8"}},
    });
}

TEST_CASE("bad usage: improvements") {
    test::check_misuses({
        {"AdaRound before any calibration",
         [] { return refusal([] { improve::adaround(*prepared(false), quantization::batches_of(images(), 4)); }); },
         {"conv.weight_fake_quant", "no data", "calibrate"}},
        {"AdaRound of a layer that does not exist",
         [] {
             return refusal([] {
                 const auto model = prepared(false);
                 quantization::calibrate(*model, images(), 4);
                 improve::AdaRoundOptions options;
                 options.layers = {"conv1"};
                 improve::adaround(*model, quantization::batches_of(images(), 4), options);
             });
         },
         {"conv1", "conv"}},
        {"AdaRound of no iterations",
         [] {
             return refusal([] {
                 const auto model = prepared(false);
                 quantization::calibrate(*model, images(), 4);
                 improve::AdaRoundOptions options;
                 options.iterations = 0;
                 improve::adaround(*model, quantization::batches_of(images(), 4), options);
             });
         },
         {"iterations", "0"}},
        {"bias correction without data",
         [] {
             return refusal([] {
                 const auto model = prepared(false);
                 quantization::calibrate(*model, images(), 4);
                 improve::correct_bias(*model, quantization::BatchSource());
             });
         },
         {"correct_bias", "batch"}},
    });
}
