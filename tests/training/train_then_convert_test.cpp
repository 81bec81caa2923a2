// SPDX-License-Identifier: MIT
//
// From training to the program without a call of the model in between: the shapes of all values are known from the
// first data on, whatever road it takes, from example_inputs, or from the state that was loaded.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "intq/nn.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/calibration_file.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/training/exact_forward.hpp"
#include "intq/training/trainer.hpp"
#include "io/temporary_folder.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
using test::message_of;
using test::same_bytes;
using test::stubbed;

namespace {

const kernels::KernelTable& bayes() { return *test::scalar_tables().tables[4]; }

/// Models whose steps need the shapes of values: windows, axes, flattened images, parts that are joined.
std::vector<std::pair<std::string, nn::ModulePtr>> models() {
    using test::LambdaModel, test::make_conv, test::make_linear;
    std::vector<std::pair<std::string, nn::ModulePtr>> all;
    all.emplace_back("conv-relu-conv",
                     stubbed({{"c", make_conv(3, 4, 3, 1)}, {"d", make_conv(4, 4, 3, 2)}},
                             [](LambdaModel& m, nn::Arguments x) { return m.call("d", nn::relu(m.call("c", x[0]))); }));
    all.emplace_back(
        "conv-relu-flatten-linear",
        stubbed({{"c", make_conv(3, 4, 3, 1)}, {"f", make_linear(144, 3, 2)}}, [](LambdaModel& m, nn::Arguments x) {
            return m.call("f", nn::flatten(nn::relu(m.call("c", x[0])), 1));
        }));
    all.emplace_back(
        "conv-relu-average",
        stubbed({{"c", make_conv(3, 4, 3, 1)}, {"g", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1})}},
                [](LambdaModel& m, nn::Arguments x) { return m.call("g", nn::relu(m.call("c", x[0]))); }));
    all.emplace_back(
        "conv-relu-cat-conv",
        stubbed({{"c", make_conv(3, 4, 3, 1)}, {"d", make_conv(7, 4, 3, 2)}}, [](LambdaModel& m, nn::Arguments x) {
            return m.call("d", nn::cat({nn::relu(m.call("c", x[0])), x[0]}, 1));
        }));
    all.emplace_back("conv-softmax", stubbed({{"c", make_conv(3, 4, 3, 1)}}, [](LambdaModel& m, nn::Arguments x) {
                         return nn::softmax(m.call("c", x[0]), 1);
                     }));
    return all;
}

std::shared_ptr<PreparedModel> prepared_of(const nn::Module& model, QATMode mode = QATMode::fuse_bn) {
    PrepareOptions options;
    options.qat_mode = mode;
    return prepare_qat_fx(model, QConfigMapping().set_global(get_default_qat_qconfig()), bayes().policy(), options);
}

training::TrainerOptions one_epoch() {
    training::TrainerOptions options;
    options.batch_size = 8;
    options.rate = training::constant_rate(0.001);
    options.progress = io::ShowProgress::never;
    return options;
}

training::Loss to_zero(const Tensor& y, std::span<const index_t>) {
    return training::mse_loss(y, Tensor::zeros(y.shape()));
}

void train(PreparedModel& model, const Tensor& x, const training::TrainerOptions& options = one_epoch()) {
    training::SGD sgd;
    training::Trainer(model, sgd, options).fit(x, &to_zero);
}

Tensor images() { return test::random_tensor(Shape(16, 3, 6, 6), 3); }

Tensor deployed(PreparedModel& model) { return lower(convert_fx(model), bayes(), 8).run(images()); }

}  // namespace

TEST_CASE("A model is trained and converted, and nothing is called in between") {
    for (const auto& [name, model] : models()) {
        INFO(name);
        const auto qat = prepared_of(*model);
        train(*qat, images());
        const Tensor without_call = deployed(*qat);
        qat->eval();
        set_fake_quantize(*qat, FakeQuantState::validation);
        (*qat)(images());
        CHECK(same_bytes(without_call, deployed(*qat)));
    }
    const auto residual = std::make_shared<test::ResidualNet>(4);
    for (const QATMode mode : {QATMode::fuse_bn, QATMode::with_bn, QATMode::with_bn_reverse_fold}) {
        const auto qat = prepared_of(*residual, mode);
        train(*qat, images());
        CHECK(deployed(*qat).extent(1) == 5);
    }
}

TEST_CASE("A state that was loaded brings the shapes: of a dictionary and of a checkpoint") {
    const test::TemporaryFolder folder;
    for (const auto& [name, model] : models()) {
        INFO(name);
        const auto trained = prepared_of(*model), from_dictionary = prepared_of(*model), resumed = prepared_of(*model);
        training::SGD sgd, other_sgd;
        training::TrainerOptions options = one_epoch();
        options.checkpoint = folder / name;
        training::Trainer(*trained, sgd, options).fit(images(), &to_zero);
        nn::load_state_dict(*from_dictionary, nn::state_dict(*trained));
        training::Trainer(*resumed, other_sgd, options).load(options.checkpoint);
        const Tensor expected = deployed(*trained);
        CHECK(same_bytes(deployed(*from_dictionary), expected));
        CHECK(same_bytes(deployed(*resumed), expected));
        // What was found on zeros is only shapes.
        CHECK(nn::state_dict(*from_dictionary).size() == nn::state_dict(*trained).size());
        for (const auto& item : nn::state_dict(*from_dictionary))
            CHECK(same_bytes(item.value, *trained->find_tensor(item.name)));
    }
}

TEST_CASE("A loaded state is of the size of its own data, not of what the model saw before") {
    const auto model = models()[2].second;  // an average of any image
    const auto large = prepared_of(*model), loaded = prepared_of(*model);
    train(*large, test::random_tensor(Shape(16, 3, 10, 10), 3));
    train(*loaded, images());
    nn::load_state_dict(*loaded, nn::state_dict(*large));
    const Tensor x = test::random_tensor(Shape(2, 3, 10, 10), 5);
    CHECK(same_bytes(lower(convert_fx(*loaded), bayes(), 2).run(x), lower(convert_fx(*large), bayes(), 2).run(x)));
}

TEST_CASE("Training in the target's integers knows the shapes as well, and so does calibration") {
    const auto model = models()[1].second;
    const auto qat = prepared_of(*model);
    training::ExactForward exact(*qat, bayes());
    training::TrainerOptions options = one_epoch();
    options.forward = std::ref(exact);
    train(*qat, images(), options);
    CHECK(deployed(*qat).shape() == Shape(16, 3));

    const auto calibrated = prepare_calibration_fx(*model, get_default_qconfig_mapping(), bayes().policy());
    calibrate(*calibrated, images(), 8);
    const auto untrained = prepare_qat_fx(*model, get_default_qconfig_mapping(), bayes().policy());
    load_calibration(*untrained, *calibrated);
    CHECK(same_bytes(deployed(*untrained), deployed(*calibrated)));

    const test::TemporaryFolder folder;
    save_calibration(folder / "calibration", *calibrated, 2);
    const auto restored = prepare_calibration_fx(*model, get_default_qconfig_mapping(), bayes().policy());
    CHECK(load_calibration(folder / "calibration", *restored) == 2);
    CHECK(same_bytes(deployed(*restored), deployed(*calibrated)));
}

TEST_CASE("example_inputs give the shapes, are not observed, and must fit the model") {
    const auto model = models()[1].second;
    PrepareOptions options;
    options.example_inputs = {Tensor::full(Shape(1, 3, 6, 6), 1000.0f)};
    const auto prepared = prepare_qat_fx(*model, get_default_qconfig_mapping(), bayes().policy(), options);
    CHECK(prepared->graph().find("f")->outputs()[0].shape == Shape(1, 3));
    CHECK(prepared->training());
    for (const auto& [name, quantizer] : quantization::detail::fake_quantizers(*prepared)) {
        INFO(name);
        CHECK_FALSE(quantizer->has_qparams());
        CHECK(quantizer->fake_quant_enabled());
    }
    // Given scales alone: no data has passed.
    for (const auto& [name, quantizer] : quantization::detail::fake_quantizers(*prepared))
        quantizer->set_qparams(0.05f);
    CHECK(deployed(*prepared).shape() == Shape(16, 3));

    options.example_inputs = {Tensor::zeros(Shape(1, 3, 7, 7))};
    const auto refused = [&] {
        return message_of<Error>(
            [&] { prepare_qat_fx(*model, get_default_qconfig_mapping(), bayes().policy(), options); });
    };
    CHECK(refused().find("prepare: example_inputs: node ") == 0);
    options.example_inputs = {images(), images()};
    CHECK(refused() == "prepare: example_inputs: the graph has 1 inputs, given 2");
}

TEST_CASE("Without data, or with shapes that are none, the message says so") {
    const auto model = models()[0].second;
    const auto prepared = prepared_of(*model);
    for (const auto& [name, quantizer] : quantization::detail::fake_quantizers(*prepared))
        quantizer->set_qparams(0.05f);
    CHECK(message_of<Error>([&] { convert_fx(*prepared); }) ==
          "convert: the shapes of its values are not known, since no data has passed yet: run the prepared model on "
          "data, or give prepare its example_inputs");
    (*prepared)(images());
    nn::StateDict state = nn::state_dict(*prepared);
    for (auto& item : state)
        if (item.name == "prepared_input_shapes") item.value.flat<std::int64_t>()[3] = -3;
    CHECK(message_of<Error>([&] { nn::load_state_dict(*prepared, state); }) ==
          "prepared_input_shapes: row 0 is not the shape of an input");
    CHECK(deployed(*prepared).shape() == Shape(16, 4, 6, 6));
}

TEST_CASE("A run that fails leaves the shapes of the run before") {
    const auto prepared = prepared_of(*models()[1].second);
    (*prepared)(images());
    CHECK_THROWS_AS((*prepared)(Tensor::zeros(Shape(1, 3, 5, 5))), Error);
    CHECK(prepared->graph().find("c")->outputs()[0].shape == Shape(16, 4, 6, 6));
    CHECK(deployed(*prepared).shape() == Shape(16, 3));
}
