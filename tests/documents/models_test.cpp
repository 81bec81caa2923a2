// SPDX-License-Identifier: MIT
//
// What the documents of PyTorch and Horizon let a model hold: shapes that it computes with, and layers in one and three
// dimensions. The comment above a program quotes the document.
#include <string>
#include <vector>

#include "intq/graph/print.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/explain.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/convert/quantized_model.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/fuse_eager.hpp"
#include "intq/quantization/fuse/fuse_fx.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/training/autograd.hpp"
#include "intq/training/loss.hpp"
#include "intq/training/trainer.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
using test::message_of;
using test::same_bytes;

namespace {

const kernels::KernelTable& bayes() { return test::scalar_table("bayes"); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const QConfigMapping defaults = QConfigMapping().set_global(get_default_calib_qconfig());

std::shared_ptr<PreparedModel> calibrated(const nn::Module& model, const Tensor& data, PrepareOptions options = {}) {
    const auto prepared = prepare_calibration_fx(model, defaults, bayes().policy(), options);
    calibrate(*prepared, data, data.extent(0));
    return prepared;
}

/// conv, then `middle`, then fc.
nn::ModulePtr classifier(const std::function<nn::Value(const nn::Value&)>& middle, index_t features) {
    return test::stubbed(
        {{"conv", test::make_conv(3, 4, 3, 1)}, {"fc", test::make_linear(features, 5, 2)}},
        [=](test::LambdaModel& m, nn::Arguments x) { return m.call("fc", middle(nn::relu(m.call("conv", x[0])))); });
}

/// A layer in three dimensions with a batch norm and a relu behind it.
nn::ModulePtr volume_model() {
    const nn::DepthWindow depth{.kernel = 3, .padding = 1};
    const auto conv = std::make_shared<nn::Conv3d>(nn::Conv3dOptions{2, 3, depth, nn::square_window(3, 1, 1)});
    const auto back = std::make_shared<nn::ConvTranspose3d>(nn::ConvTranspose3dOptions{3, 2, depth, {}});
    for (const auto& layer : std::vector<std::shared_ptr<nn::Weighted>>{conv, back}) {
        layer->set_weight(test::random_tensor(layer->weight().shape(), 7, 0.3f));
        layer->set_bias(test::random_tensor(layer->bias().shape(), 8, 0.3f));
    }
    return test::stubbed({{"conv", conv},
                          {"norm", test::make_batch_norm<nn::BatchNorm3d>(3, 3)},
                          {"relu", std::make_shared<nn::ReLU>()},
                          {"back", back}},
                         [](test::LambdaModel& m, nn::Arguments x) {
                             return m.call("back", m.call("relu", m.call("norm", m.call("conv", x[0]))));
                         });
}

const Tensor images = test::random_tensor(Shape(4, 3, 4, 4), 5);
const Tensor volumes = test::random_tensor(Shape(4, 2, 3, 4, 5), 6);

}  // namespace

// x = x.view(x.size(0), -1)
TEST_CASE("A traced forward may ask for the size of a value, and a converted model takes any number of samples") {
    const auto by_size = classifier([](const nn::Value& y) { return nn::reshape(y, {nn::size(y, 0), -1}); }, 4 * 16);
    const auto by_flatten = classifier([](const nn::Value& y) { return nn::flatten(y, 1); }, 4 * 16);
    const auto traced = graph::symbolic_trace(by_size);
    CHECK(has(graph::to_string(traced->graph()), "size"));
    CHECK(same_bytes((*traced)(images).tensor(), (*by_size)(images).tensor()));
    CHECK(same_bytes((*traced)(images.batch(0, 1)).tensor(), (*by_flatten)(images.batch(0, 1)).tensor()));

    const auto prepared = calibrated(*by_size, images), expected = calibrated(*by_flatten, images);
    CHECK(prepared->report().fallbacks.empty());
    const LoweredModel program = lower(convert_fx(*prepared), bayes(), 2);
    for (const index_t samples : {1, 3, 4}) {
        const Tensor x = images.batch(0, samples);
        CHECK(same_bytes(program.run(x), lower(convert_fx(*expected), bayes(), 2).run(x)));
        CHECK(same_bytes((*make_reference(convert_fx(*prepared)))(x).tensor(),
                         (*make_reference(convert_fx(*expected)))(x).tensor()));
    }
    const auto qat = prepare_qat_fx(*by_size, defaults, bayes().policy());
    training::Autograd autograd(*qat);
    const Tensor y = autograd.forward(images).tensor();
    CHECK(autograd.backward(y).parameters.count("conv.weight") == 1);
}

// n, c, h, w = x.shape; x[:, : c // 2]
TEST_CASE("Shape arithmetic in a traced forward is constant in a converted model") {
    const auto by_shape = classifier(
        [](const nn::Value& y) {
            const nn::Value shape = nn::size(y);
            const nn::Value half = nn::slice(y, 1, 0, nn::floordiv(shape[1], 2));
            return nn::reshape(half, {shape[0], shape[2] * shape[3] * 2 + 0});
        },
        2 * 16);
    const auto by_numbers =
        classifier([](const nn::Value& y) { return nn::flatten(nn::slice(y, 1, 0, 2), 1); }, 2 * 16);
    const auto prepared = calibrated(*by_shape, images), expected = calibrated(*by_numbers, images);
    CHECK(prepared->report().fallbacks.empty());
    for (const index_t samples : {1, 4}) {
        const Tensor x = images.batch(0, samples);
        CHECK(same_bytes(lower(convert_fx(*prepared), bayes()).run(x), lower(convert_fx(*expected), bayes()).run(x)));
    }
    CHECK(nn::floordiv(-7, 2).integer() == -4);
    CHECK(nn::floordiv(7, 2).integer() == 3);
    CHECK(has(message_of<Error>([] { nn::floordiv(1, 0); }), "1 is divided by 0"));
}

// In hybrid mode, ops which aren’t supported by BPU and ops which are specified by the user will run on CPU.
TEST_CASE("What stays in float takes the size of its own input, and refuses other numbers of samples") {
    const auto in_float = [](bool doubled) {
        return classifier(
            [doubled](const nn::Value& y) {
                const nn::Value exponential = nn::exp(y * 0.1);  // computed on the host
                const nn::Value samples = nn::size(exponential, 0);
                return nn::reshape(exponential, {doubled ? nn::floordiv(samples * 2, 2) : samples, -1});
            },
            4 * 16);
    };
    PrepareOptions options;
    options.hybrid = true;
    options.hybrid_dict.module_type = {"mul", "exp", "reshape"};
    const auto model = convert_fx(*calibrated(*in_float(false), images, options), bayes());
    const Tensor all = (*model)(images).tensor();
    CHECK(same_bytes((*model)(images.batch(0, 1)).tensor(), all.batch(0, 1)));
    CHECK(
        message_of<Error>([&] { calibrated(*in_float(true), images, options); })
            .find("calibrate: batch 0: prepare: %reshape (reshape): it stays in float and computes with the number of "
                  "samples, %floordiv, which a converted model leaves open") == 0);
}

// Fuses only the following sequence of modules: conv, bn; conv, bn, relu; […] for conv1d, conv2d, conv3d
TEST_CASE("conv3d is fused, trained quantized, and computed in float between its codes") {
    const nn::ModulePtr model = volume_model();
    CHECK(fuse_fx(*model)->find("conv").type_name() == "ConvReLU3d");
    const auto qat = prepare_qat_fx(*model, defaults, bayes().policy());
    CHECK(qat->find("conv").type_name() == "qat.ConvReLU3d");
    REQUIRE(qat->report().fallbacks.size() == 2);
    CHECK(has(qat->report().fallbacks[0].reason, "it has no integer form"));
    training::SGD sgd({.momentum = 0.9});
    training::TrainerOptions options;
    options.epochs = 10;
    options.batch_size = 4;
    std::vector<double> losses;
    options.on_epoch = [&](const training::EpochReport& report) { losses.push_back(report.mean_loss); };
    training::Trainer(*qat, sgd, options).fit(volumes, [](const Tensor& y, std::span<const index_t>) {
        return training::mse_loss(y, Tensor::zeros(y.shape()));
    });
    CHECK(losses.back() < 0.8 * losses.front());
    // What was validated is what runs, to the bit: the host computes it as validation does.
    qat->eval();
    set_fake_quantize(*qat, FakeQuantState::validation);
    const auto quantized = convert_fx(*qat, bayes());
    REQUIRE(quantized->hybrid() != nullptr);
    CHECK(same_bytes((*quantized)(volumes).tensor(), (*qat)(volumes).tensor()));
    CHECK(same_bytes((*make_reference(convert_fx(*qat)))(volumes).tensor(), (*qat)(volumes).tensor()));
    CHECK(has(message_of<Error>([&] { lower(convert_fx(*qat), bayes()); }), "a HybridModel computes it"));
    CHECK(explain(convert_fx(*qat), bayes()).has_fallback());
}

TEST_CASE("conv3d without a graph, and what it refuses") {
    const nn::ModulePtr fused = fuse_modules(volume_model(), {"conv", "norm", "relu"});
    const nn::ModulePtr prepared = prepare_calibration(fused, defaults, bayes().policy());
    (*prepared)(volumes);
    set_fake_quantize(*prepared, FakeQuantState::validation);
    const nn::ModulePtr quantized = convert(prepared, bayes());
    CHECK(same_bytes((*quantized)(volumes).tensor(), (*prepared)(volumes).tensor()));
    PrepareOptions strict;
    strict.strict = true;
    CHECK(has(message_of<Error>([&] { prepare_calibration_fx(*volume_model(), defaults, bayes().policy(), strict); }),
              "and strict is on"));
    QConfigMapping accumulators;
    accumulators.set_global(get_default_calib_qconfig()).set_module_name("back", get_default_calib_out_qconfig());
    CHECK(has(message_of<Error>([&] { prepare_calibration_fx(*volume_model(), accumulators, bayes().policy()); }),
              "no integer form, so no accumulator"));
    CHECK(has(message_of<Error>([] {
                  nn::float_operators::conv3d(Tensor::zeros(Shape(1, 1, 2, 2, 2)), Tensor::zeros(Shape(1, 1, 3, 1, 1)),
                                              {}, {.kernel = 3}, {});
              }),
              "the kernel does not fit into the depth of (1, 1, 2, 2, 2)"));
}

// torch.nn.intrinsic.BNReLU3d: fuses only the following sequence of modules: bn, relu
TEST_CASE("bn-relu is fused in one dimension and in three") {
    const auto fused = [](const nn::ModulePtr& norm, const Tensor& x) {
        const auto model = test::make_model(
            {{"bn", norm}, {"relu", std::make_shared<nn::ReLU>()}},
            [](test::LambdaModel& m, nn::Arguments in) { return m.call("relu", m.call("bn", in[0])); });
        const nn::ModulePtr result = fuse_modules(model, {"bn", "relu"});
        CHECK(same_bytes((*result)(x).tensor(), (*model)(x).tensor()));
        CHECK(result->child("relu")->type_name() == "Identity");
        return result->child("bn")->type_name();
    };
    CHECK(fused(test::make_batch_norm<nn::BatchNorm1d>(2, 1), test::random_tensor(Shape(4, 2, 9), 6)) == "BNReLU1d");
    CHECK(fused(test::make_batch_norm<nn::BatchNorm3d>(2, 1), volumes) == "BNReLU3d");
}

// torch.nn.ConvTranspose1d(in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1)
TEST_CASE("A transposed convolution of rows runs in integers") {
    const auto up = std::make_shared<nn::ConvTranspose1d>(
        nn::ConvTranspose1dOptions{.in_channels = 3, .out_channels = 4, .kernel = 4, .stride = 2, .padding = 1});
    up->set_weight(test::random_tensor(up->weight().shape(), 7, 0.3f));
    up->set_bias(test::random_tensor(Shape(4), 8, 0.3f));
    const auto model =
        test::stubbed({{"up", up}, {"relu", std::make_shared<nn::ReLU>()}},
                      [](test::LambdaModel& m, nn::Arguments x) { return m.call("relu", m.call("up", x[0])); });
    const Tensor rows = test::random_tensor(Shape(4, 3, 8), 6);
    CHECK((*model)(rows).tensor().shape() == Shape(4, 4, 16));
    const auto prepared = calibrated(*model, rows);
    CHECK(prepared->report().fallbacks.empty());
    CHECK(test::largest_difference(lower(convert_fx(*prepared), bayes()).run(rows), (*model)(rows).tensor()) < 0.1);
    const auto qat = prepare_qat_fx(*model, defaults, bayes().policy());
    CHECK(qat->find("up").type_name() == "qat.ConvTransposeReLU1d");
    training::Autograd autograd(*qat);
    CHECK(autograd.backward(autograd.forward(rows).tensor()).parameters.count("up.weight") == 1);
}

// torch.nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1)
TEST_CASE("A transposed convolution of volumes is trained quantized") {
    const auto up = std::make_shared<nn::ConvTranspose3d>(
        nn::ConvTranspose3dOptions{2, 3, {.kernel = 2, .stride = 2}, {.kernel = {2, 2}, .stride = {2, 2}}});
    up->set_weight(test::random_tensor(up->weight().shape(), 7, 0.3f));
    up->set_bias(test::random_tensor(Shape(3), 8, 0.3f));
    const auto model =
        test::stubbed({{"up", up}}, [](test::LambdaModel& m, nn::Arguments x) { return m.call("up", x[0]); });
    CHECK((*model)(volumes).tensor().shape() == Shape(4, 3, 6, 8, 10));
    const auto qat = prepare_qat_fx(*model, defaults, bayes().policy());
    training::Autograd autograd(*qat);
    const Tensor y = autograd.forward(volumes).tensor();
    CHECK(autograd.backward(y).parameters.count("up.weight") == 1);
    qat->eval();
    set_fake_quantize(*qat, FakeQuantState::validation);
    CHECK(same_bytes((*convert_fx(*qat, bayes()))(volumes).tensor(), (*qat)(volumes).tensor()));
}
