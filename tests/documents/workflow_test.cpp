// SPDX-License-Identifier: MIT
//
// What the documents of PyTorch and Horizon say of fusing, preparing, calibrating, training and converting, each name
// in a program as a reader of the document would write it. The comment above a program quotes the document.
#include <array>
#include <string>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/arith/march.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/quantization/convert/convert_custom.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/convert/quantized_model.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/fuse_eager.hpp"
#include "intq/quantization/eager/prepare_default_target.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/set_march.hpp"
#include "intq/quantization/qconfig/own_qconfig.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/quantization/qconfig/qconfig_presets.hpp"
#include "intq/tensor/quantize.hpp"
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

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const QConfigMapping defaults = QConfigMapping().set_global(get_default_calib_qconfig());

struct ResetMarch {
    ~ResetMarch() { quantization::detail::current_march() = 0; }
};

/// conv1-bn1-relu1 and fc, between stubs.
nn::ModulePtr small_model() {
    return test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                             {"conv1", test::make_conv(3, 4, 3, 1)},
                             {"bn1", test::make_batch_norm<nn::BatchNorm2d>(4, 2)},
                             {"relu1", std::make_shared<nn::ReLU>()},
                             {"flatten", std::make_shared<nn::Flatten>()},
                             {"fc", test::make_linear(4 * 16, 5, 3)},
                             {"dequant", std::make_shared<nn::DeQuantStub>()}},
                            [](test::LambdaModel& m, nn::Arguments x) {
                                const nn::Value y = m.call("conv1", m.call("quant", x[0]));
                                const nn::Value flat = m.call("flatten", m.call("relu1", m.call("bn1", y)));
                                return m.call("dequant", m.call("fc", flat));
                            });
}

/// A module of a user's, and its form on codes.
struct Twice : nn::Cloneable<Twice> {
    std::string type_name() const override { return "Twice"; }
    bool is_leaf() const override { return true; }
    nn::Value forward(nn::Arguments x) override { return x[0] * 2.0; }
};
struct ObservedTwice : nn::Cloneable<ObservedTwice, Twice> {
    std::string type_name() const override { return "ObservedTwice"; }
};
struct TwiceOnCodes : nn::Cloneable<TwiceOnCodes> {
    std::string type_name() const override { return "TwiceOnCodes"; }
    nn::Value forward(nn::Arguments x) override {
        return nn::Value(dequantize(x.tensor(0), *x.tensor(0).qparams())) * 2.0;
    }
};

const Tensor images = test::random_tensor(Shape(4, 3, 4, 4), 5);

/// Two convolutions whose outputs a FloatFunctional joins, the second one ten times as large.
nn::ModulePtr joined_model() {
    const auto wide = test::make_conv(3, 2, 1, 2);
    for (const char* name : {"weight", "bias"})
        for (float& value : wide->tensor(name).flat<float>()) value *= 10.0f;
    return test::stubbed({{"narrow", test::make_conv(3, 2, 1, 1)},
                          {"wide", wide},
                          {"pool", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))},
                          {"join", std::make_shared<nn::FloatFunctional>()}},
                         [](test::LambdaModel& m, nn::Arguments x) {
                             const nn::Value narrow = m.call("pool", m.call("narrow", x[0]));
                             return nn::call_cat(m, "join", {narrow, m.call("pool", m.call("wide", x[0]))}, 1);
                         });
}

/// a(x) + b(y), between stubs.
nn::ModulePtr model_of_two_inputs() {
    return test::make_model({{"quant_a", std::make_shared<nn::QuantStub>()},
                             {"quant_b", std::make_shared<nn::QuantStub>()},
                             {"a", test::make_linear(4, 3, 1)},
                             {"b", test::make_linear(2, 3, 2)},
                             {"sum", std::make_shared<nn::FloatFunctional>()},
                             {"dequant", std::make_shared<nn::DeQuantStub>()}},
                            [](test::LambdaModel& m, nn::Arguments x) {
                                const nn::Value a = m.call("a", m.call("quant_a", x[0]));
                                const nn::Value b = m.call("b", m.call("quant_b", x[1]));
                                return m.call("dequant", nn::call_add(m, "sum", a, b));
                            },
                            {"a", "b"});
}

/// An LSTM of two layers with dropout between them, and the layers as two.
struct LstmLayers {
    std::shared_ptr<nn::LSTM> both, first, second;

    LstmLayers()
        : both(std::make_shared<nn::LSTM>(
              nn::LSTMOptions{.input_size = 3, .hidden_size = 4, .num_layers = 2, .dropout = 0.5, .seed = 7})),
          first(std::make_shared<nn::LSTM>(nn::LSTMOptions{3, 4})),
          second(std::make_shared<nn::LSTM>(nn::LSTMOptions{4, 4})) {
        unsigned seed = 1;
        for (auto& parameter : both->parameters())
            parameter.value = test::random_tensor(parameter.value.shape(), seed++);
        for (const char* name : lstm_names) {
            first->tensor(std::string(name) + "0") = both->tensor(std::string(name) + "0").clone();
            second->tensor(std::string(name) + "0") = both->tensor(std::string(name) + "1").clone();
        }
    }
    static constexpr const char* lstm_names[] = {"weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l"};
};

}  // namespace

// modules_to_fuse = ['conv1', 'bn1', 'relu1']: Can also be a list of strings if there is only a single list of modules
// to fuse.
TEST_CASE("fuse_modules takes one list of names") {
    const nn::ModulePtr fused = fuse_modules(small_model(), {"conv1", "bn1", "relu1"});
    CHECK(fused->child("conv1")->type_name() == "ConvReLU2d");
    CHECK(fused->child("bn1")->type_name() == "Identity");
    CHECK(fused->child("relu1")->type_name() == "Identity");
}

// "additional_fuser_method_mapping": {(torch.nn.Conv2d, torch.nn.BatchNorm2d): fuse_conv_bn}
TEST_CASE("fuse_modules takes additional fusions by the types of the modules") {
    FuseCustomConfig config;
    config.additional_fuser_method_mapping[{"Linear", "Softmax"}] = [](const std::vector<nn::ModulePtr>& modules) {
        return std::make_shared<nn::Sequential>(std::initializer_list<nn::ModulePtr>{modules[0], modules[1]});
    };
    const auto model =
        test::make_model({{"fc", test::make_linear(4, 3, 1)}, {"softmax", std::make_shared<nn::Softmax>(1)}},
                         [](test::LambdaModel& m, nn::Arguments x) { return m.call("softmax", m.call("fc", x[0])); });
    const nn::ModulePtr fused = fuse_modules(model, {"fc", "softmax"}, false, {}, config);
    CHECK(fused->child("fc")->type_name() == "Sequential");
    CHECK(fused->child("softmax")->type_name() == "Identity");
    const Tensor x = test::random_tensor(Shape(2, 4), 3);
    CHECK(same_bytes((*fused)(x).tensor(), (*model)(x).tensor()));
    config.additional_fuser_method_mapping[{"Linear", "Softmax"}] = [](const auto&) { return nn::ModulePtr(); };
    CHECK(has(message_of<Error>([&] { fuse_modules(model, {"fc", "softmax"}, false, {}, config); }), "returned null"));
}

// Fuses only the following sequence of modules: [...] All other sequences are left unchanged.
TEST_CASE("fuse_modules leaves other sequences unchanged where it is told to") {
    const nn::ModulePtr model = small_model();
    FuseCustomConfig config;
    config.leave_others_unchanged = true;
    const nn::ModulePtr same = fuse_modules(model, {{"conv1", "bn1"}, {"relu1", "fc"}}, false, {}, config);
    CHECK(same->child("bn1")->type_name() == "Identity");
    CHECK(same->child("relu1")->type_name() == "ReLU");
    CHECK(same->child("fc")->type_name() == "Linear");
    CHECK(has(message_of<Error>([&] {
                  fuse_modules(model, {"relu1", "fc"});
              }),
              "no row of the table fuses relu-linear"));
    CHECK(has(message_of<Error>([&] {
                  fuse_modules(model, {"relu1", "fcc"}, false, {}, config);
              }),
              "no module \"fcc\""));
}

// Global march must be set before prepare: set_march(March.BAYES)
TEST_CASE("prepare_fx, prepare_qat_fx and the eager functions hear set_march") {
    const ResetMarch reset;
    const nn::ModulePtr model = small_model();
    CHECK(has(message_of<Error>([&] { prepare_qat(model, defaults); }), "no march is set: call set_march()"));
    set_march(March::bayes);
    CHECK(std::string(prepare_qat_fx(*model, defaults)->target().name) == "bayes");
    CHECK(std::string(prepare_fx(*model, defaults, {images})->target().name) == "bayes");
    const auto name_of_target = [](const nn::ModulePtr& prepared) {
        return std::string(prepared->attribute<arith::PolicyRecord>("prepared_target")->name);
    };
    CHECK(name_of_target(prepare_calibration(model, defaults)) == "bayes");
    CHECK(name_of_target(prepare_qat(model, defaults)) == "bayes");
    set_qconfig(*model, get_default_qat_qconfig());
    CHECK(prepare_qat_fx(*model)->training());
    CHECK(name_of_target(prepare_qat(model)) == "bayes");
    CHECK(name_of_target(prepare_calibration(model)) == "bayes");
    // A template argument names the target where no march is set; the macro INTQ_DEFAULT_TARGET is its default.
    quantization::detail::current_march() = 0;
    CHECK(std::string(prepare_qat_fx<target::fp32>(*model)->target().name) == "fp32");
    CHECK(std::string(default_target<target::bpu<march::meta>>().name) == "meta");
    static_assert(std::is_same_v<target::default_target, target::none>);
}

// prepare_fx(model, qconfig_mapping, example_inputs)
TEST_CASE("prepare_fx places quantizers as PyTorch does, and knows the shapes") {
    const auto model = test::make_model({{"fc", test::make_linear(4, 3, 1)}},
                                        [](test::LambdaModel& m, nn::Arguments x) { return m.call("fc", x[0]); });
    const Tensor x = test::random_tensor(Shape(8, 4), 2);
    const auto prepared = prepare_fx<target::fp32>(*model, defaults, {x});
    CHECK(prepared->options().compatibility == Compatibility::torch);
    (*prepared)(x);
    CHECK(test::largest_difference(lower(convert_fx(*prepared), test::scalar_table("fp32"), 8).run(x),
                                   (*model)(x).tensor()) < 0.1);
}

// quantize(model, run_fn, run_args): default_eval_fn takes a Dataset or a list of input Tensors and runs the model on
// it
TEST_CASE("default_eval_fn runs a model on every batch") {
    const std::vector<Tensor> data{images.batch(0, 2), images.batch(2, 2)};
    const kernels::KernelTable& table = test::scalar_table("bayes");
    const nn::ModulePtr fused = fuse_modules(small_model(), {"conv1", "bn1", "relu1"});
    const nn::ModulePtr quantized = quantize(fused, default_eval_fn, data, defaults, table);
    const nn::ModulePtr by_hand = quantize(
        fused, [&](nn::Module& prepared) { prepared(data[0]), prepared(data[1]); }, defaults, table);
    CHECK(same_bytes((*quantized)(images).tensor(), (*by_hand)(images).tensor()));
}

// mapping – dictionary that maps float modules to quantized modules to be replaced.
// mapping – a dictionary that maps from source module type to target module type, can be overwritten to allow swapping
// user defined Modules
TEST_CASE("prepare_qat and convert take a mapping by the types of modules") {
    const auto model =
        test::stubbed({{"conv", test::make_conv(3, 2, 3, 1)}, {"last", std::make_shared<nn::Identity>()}},
                      [](test::LambdaModel& m, nn::Arguments x) { return m.call("last", m.call("conv", x[0])); });
    const kernels::KernelTable& table = test::scalar_table("bayes");
    PrepareModulesOptions prepare;
    bool saw_qconfig = false;
    prepare.mapping["Identity"] = [&](const nn::Module& original) {
        saw_qconfig = own_qconfig(original) != nullptr && own_qconfig(original)->has_value();
        return std::make_shared<Twice>();
    };
    const nn::ModulePtr qat = prepare_qat(model, defaults, table.policy(), prepare);
    CHECK(saw_qconfig);
    CHECK(qat->find("last").type_name() == "Twice");
    (*qat)(images);
    ConvertModulesOptions options;
    options.mapping["Twice"] = [](const nn::Module&, const OwnedQParams&) { return std::make_shared<TwiceOnCodes>(); };
    const nn::ModulePtr quantized = convert(qat, table, options);
    CHECK(test::largest_difference((*quantized)(images).tensor(), nn::Value((*model)(images)*2.0).tensor()) < 0.2);
    CHECK(has(message_of<Error>([&] {
                  convert(qat, table, {.mapping = {{"Twce", options.mapping["Twice"]}}});
              }),
              "convert: mapping: no module has the name or type \"Twce\"; the nearest are \"Twice\""));
    prepare.mapping["Identty"] = prepare.mapping["Identity"];
    CHECK(has(message_of<Error>([&] { prepare_qat(model, defaults, table.policy(), prepare); }), "\"Identity\""));
}

// optimize_graph – [...] fix cat input scale (only used on Bernoulli)
TEST_CASE("optimize_graph gives the inputs of a cat its scale, so that no code is requantized") {
    const kernels::KernelTable& table = test::scalar_table("bernoulli2");
    const nn::ModulePtr model = joined_model();
    PrepareOptions options;
    options.optimize_graph = true;
    const auto prepared = prepare_calibration_fx(*model, defaults, table.policy(), options);
    calibrate(*prepared, images, 2);
    const QuantizedGraph quantized = convert_fx(*prepared);
    int cats = 0;
    for (const QuantizedNode& node : quantized.nodes) {
        if (node.type != "cat" && node.type != "FloatFunctional") continue;
        ++cats;
        for (std::size_t i = 0; i < node.inputs.size(); ++i)
            CHECK(quantized.input(node, i).qparams == quantized.output(node).qparams);
    }
    CHECK(cats == 1);
    // Without it, each input has a scale of its own.
    const auto without = prepare_calibration_fx(*model, defaults, table.policy());
    calibrate(*without, images, 2);
    const QuantizedGraph apart = convert_fx(*without);
    for (const QuantizedNode& node : apart.nodes)
        if (node.type == "FloatFunctional") CHECK_FALSE(apart.input(node, 0).qparams == apart.input(node, 1).qparams);
}

TEST_CASE("optimize_graph without a graph: all slots around a cat hold one quantizer") {
    const nn::ModulePtr model = joined_model();
    const kernels::KernelTable& table = test::scalar_table("bernoulli2");
    PrepareModulesOptions eager;
    eager.optimize_graph = true;
    const nn::ModulePtr modules = prepare_qat(model, defaults, table.policy(), eager);
    const auto& joined = modules->find_child("join.activation_post_process");
    CHECK(modules->find_child("narrow.activation_post_process") == joined);
    CHECK(modules->find_child("wide.activation_post_process") == joined);
    CHECK(modules->find_child("quant.activation_post_process") != joined);
}

// We automativally preserve all attributes, this option is just in case and not likely to be used.
TEST_CASE("A converted model keeps the attributes of the float model") {
    const nn::ModulePtr model = small_model();
    model->set_property("classes", nn::Value::Tuple{"cat", "dog"});
    const auto prepared = prepare_calibration_fx(*model, defaults, test::scalar_table("bayes").policy());
    calibrate(*prepared, images, 2);
    ConvertCustomConfig config;
    config.preserved_attributes = {"classes"};
    const auto quantized = convert_fx(*prepared, test::scalar_table("bayes"), config);
    CHECK(quantized->property("classes").tuple()[1].text() == "dog");
    CHECK(make_reference(convert_fx(*prepared))->has_property("classes"));
    CHECK(fuse_fx(*model)->has_property("classes"));
    config.preserved_attributes = {"clases"};
    CHECK(has(message_of<Error>([&] { convert_fx(*prepared, config); }), "no property \"clases\""));
}

// quantized_model = convert_fx(prepared_model): A quantized model (GraphModule)
TEST_CASE("A converted model is a module, whatever runs it, and stands in a slot of a float model") {
    const kernels::KernelTable& table = test::scalar_table("bayes");
    const auto calibrated = [&](const PrepareOptions& options) {
        const auto prepared = prepare_calibration_fx(*small_model(), defaults, table.policy(), options);
        calibrate(*prepared, images, 2);
        return prepared;
    };
    const auto plain = calibrated({});
    const std::shared_ptr<nn::Module> program = convert_fx(*plain, table);
    CHECK(same_bytes((*program)(images).tensor(), lower(convert_fx(*plain), table, 2).run(images)));
    PrepareOptions hybrid;
    hybrid.hybrid = true;
    hybrid.hybrid_dict.module_name = {"fc"};
    const auto parts = convert_fx(*calibrated(hybrid), table);
    CHECK(parts->hybrid() != nullptr);
    CHECK(same_bytes((*parts)(images).tensor(), HybridModel(convert_fx(*calibrated(hybrid)), table).run(images)));

    // In a float model: called, cloned and traced as any other module.
    const auto whole = test::make_model(
        {{"backbone", std::make_shared<nn::Identity>()}, {"head", test::make_linear(5, 2, 9)}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("head", m.call("backbone", x[0])); });
    whole->replace_child("backbone", program);
    const Tensor y = (*whole)(images).tensor();
    CHECK(same_bytes(y, (*nn::clone(nn::ModulePtr(whole)))(images).tensor()));
    CHECK(same_bytes(y, (*graph::symbolic_trace(whole))(images).tensor()));
    CHECK(same_bytes(y, (*whole->child("head"))((*program)(images)).tensor()));
    CHECK(has(message_of<Error>([&] { (*program)(images, images); }), "takes 1 inputs, given 2"));
}

// For BPU op, we should ensure the input of this op is quantized, the activation qconfig of its previous non-quantstub
// op should not be None even if its previous non-quantstub op is a CPU op.
TEST_CASE("Behind an operator on the host stands a quantizer of that operator's qconfig") {
    const auto model =
        test::stubbed({{"on_host", test::make_conv(3, 4, 3, 1)}, {"conv", test::make_conv(4, 2, 3, 2)}},
                      [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", m.call("on_host", x[0])); });
    QConfigMapping mapping = defaults;
    mapping.set_module_name("on_host", get_default_calib_qconfig({.activation_observer = "percentile"}));
    PrepareOptions options;
    options.hybrid = true;
    options.hybrid_dict.module_name = {"on_host"};
    const auto prepared = prepare_calibration_fx(*model, mapping, test::scalar_table("bayes").policy(), options);
    int percentiles = 0;
    for (const auto& module : prepared->named_modules())
        percentiles += module.value->type_name() == "PercentileObserver";
    CHECK(percentiles == 1);
    calibrate(*prepared, images, 2);
    CHECK_NOTHROW(convert_fx(*prepared, test::scalar_table("bayes")));
}

// qat_model.load_state_dict(calib_model.state_dict())
TEST_CASE("A model for training takes the state of a calibrated one") {
    const arith::PolicyRecord& target = test::scalar_table("bayes").policy();
    QConfigMapping calibration;
    calibration.set_global(default_calib_8bit_fake_quant_qconfig());  // percentiles
    const auto calibrated = prepare_calibration_fx(*small_model(), calibration, target);
    calibrate(*calibrated, images, 2);
    for (const char* kind : {"fake_quant", "lsq", "pact"}) {
        INFO(kind);
        QConfigMapping learning;
        learning.set_global(get_default_qat_qconfig({.activation_fake_quant = kind, .weight_fake_quant = kind}));
        const auto qat = prepare_qat_fx(*small_model(), learning, target);
        nn::load_state_dict(*qat, nn::state_dict(*calibrated));
        qat->eval();
        set_fake_quantize(*qat, FakeQuantState::validation);
        CHECK(test::largest_difference((*qat)(images).tensor(), (*calibrated)(images).tensor()) < 1e-4);
    }
}

// def forward(self, x, y) [...] calibrate: for data in loader: model(*data)
TEST_CASE("calibrate takes models with several inputs") {
    const std::vector<Tensor> samples{test::random_tensor(Shape(6, 4), 3), test::random_tensor(Shape(6, 2), 4)};
    const auto prepared = [] {
        return prepare_calibration_fx(*model_of_two_inputs(), defaults, test::scalar_table("fp32").policy());
    };
    const auto by_samples = prepared(), by_batches = prepared();
    CHECK(calibrate(*by_samples, batches_of(samples, 4)).done == 2);
    const std::vector<std::vector<Tensor>> batches{{samples[0].batch(0, 4), samples[1].batch(0, 4)},
                                                   {samples[0].batch(4, 2), samples[1].batch(4, 2)}};
    CHECK(calibrate(*by_batches, batches).complete());
    CHECK(same_bytes((*by_samples)(samples[0], samples[1]).tensor(), (*by_batches)(samples[0], samples[1]).tensor()));
    CHECK(has(message_of<Error>([&] {
                  calibrate(*by_batches, batches_of({samples[0], samples[1].batch(0, 5)}, 2));
              }),
              "input 2 has 5 samples, the first one 6"));
}

// for x, y, target in loader: optimizer.zero_grad(); loss = criterion(model(x, y), target); loss.backward()
TEST_CASE("Trainer takes models with several inputs") {
    const std::vector<Tensor> samples{test::random_tensor(Shape(6, 4), 3), test::random_tensor(Shape(6, 2), 4)};
    const auto qat = prepare_qat_fx(*model_of_two_inputs(), defaults, test::scalar_table("fp32").policy());
    training::SGD sgd({.momentum = 0.9});
    training::TrainerOptions options;
    options.epochs = 20;
    options.batch_size = 3;
    std::vector<double> losses;
    options.on_epoch = [&](const training::EpochReport& report) { losses.push_back(report.mean_loss); };
    training::Trainer trainer(*qat, sgd, options);
    const auto loss = [](const Tensor& y, std::span<const index_t>) {
        return training::mse_loss(y, Tensor::zeros(y.shape()));
    };
    trainer.fit(samples, loss);
    CHECK(losses.back() < 0.1 * losses.front());
    CHECK(has(message_of<Error>([&] {
                  trainer.fit(std::vector<Tensor>{samples[0], samples[1].batch(0, 5)}, loss);
              }),
              "input 2 is (5, 2), and the first input has 6 samples"));
}

// float_to_observed_custom_module_class: a model with a custom module is trained as any other
TEST_CASE("A custom module has the gradient that its author gives it") {
    const auto model =
        test::stubbed({{"conv", test::make_conv(3, 2, 3, 1)}, {"twice", std::make_shared<Twice>()}},
                      [](test::LambdaModel& m, nn::Arguments x) { return m.call("twice", m.call("conv", x[0])); });
    PrepareOptions prepare;
    prepare.custom.float_to_observed_custom_module_class[QuantType::static_]["Twice"] = [](const nn::Module&) {
        return std::make_shared<ObservedTwice>();
    };
    const auto qat = prepare_qat_fx(*model, defaults, test::scalar_table("bayes").policy(), prepare);
    training::SGD sgd({.momentum = 0.9});
    training::TrainerOptions options;
    options.batch_size = 4;
    options.epochs = 10;
    std::vector<double> losses;
    options.on_epoch = [&](const training::EpochReport& report) { losses.push_back(report.mean_loss); };
    options.autograd.more_rows = {{"ObservedTwice", [](training::GradientContext& c) {
                                       c.add_input(0, (nn::Value(c.gradient()) * 2.0).tensor());
                                   }}};
    training::Trainer(*qat, sgd, options).fit(images, [](const Tensor& y, std::span<const index_t>) {
        return training::mse_loss(y, Tensor::zeros(y.shape()));
    });
    CHECK(losses.back() < 0.5 * losses.front());
    options.autograd.more_rows.clear();
    CHECK(has(message_of<Error>([&] { training::Trainer(*qat, sgd, options); }), "ObservedTwice"));
}

// dropout – If non-zero, introduces a Dropout layer on the outputs of each LSTM layer except the last layer
TEST_CASE("An LSTM drops between its layers in training, and not in evaluation") {
    const LstmLayers layers;
    const Tensor x = test::random_tensor(Shape(5, 2, 3), 30);
    const auto output = [&] { return (*layers.both)(x)[0].tensor(); };
    layers.both->eval();
    CHECK(same_bytes(output(), (*layers.second)((*layers.first)(x)[0])[0].tensor()));
    layers.both->train();
    const Tensor first = output();
    CHECK_FALSE(same_bytes(output(), first));  // each call drops others
    CHECK(has(message_of<Error>([] { nn::LSTM({.num_layers = 2, .dropout = 1.0}); }),
              "dropout must be in [0, 1), given 1"));
}

TEST_CASE("The gradient of an LSTM has the masks of its dropout") {
    const LstmLayers layers;
    const Tensor x = test::random_tensor(Shape(5, 2, 3), 30), dy = test::random_tensor(Shape(5, 2, 4), 31);
    const Tensor mask = layers.both->dropout_mask(0, 0).apply_to<float>(Tensor::full(Shape(5, 2, 4), 1.0f));
    const auto model =
        test::make_model({{"lstm", layers.both}}, [](auto& m, nn::Arguments a) { return m.call("lstm", a[0])[0]; });
    const auto apart = test::make_model(
        {{"first", layers.first}, {"second", layers.second}},
        [&](auto& m, nn::Arguments a) { return m.call("second", m.call("first", a[0])[0] * mask)[0]; });
    const auto traced = graph::symbolic_trace(model), parts = graph::symbolic_trace(apart);
    traced->train();
    training::Autograd one(*traced), other(*parts);
    CHECK(same_bytes(one.forward(x).tensor(), other.forward(x).tensor()));
    const auto gradients = one.backward(dy).parameters, expected = other.backward(dy).parameters;
    for (const std::string name : LstmLayers::lstm_names) {
        const auto layer = [&](int k) { return gradients.at("lstm." + name + std::to_string(k)); };
        CHECK(test::largest_difference(layer(0), expected.at("first." + name + "0")) < 1e-5);
        CHECK(test::largest_difference(layer(1), expected.at("second." + name + "0")) < 1e-5);
    }
}
