// SPDX-License-Identifier: MIT
//
// Misuses of the workflow: qconfigs, prepare, calibrate, convert, lower and run, in a wrong order or on wrong data.
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/arith/march.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/hybrid.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/convert/quantize_model.hpp"
#include "intq/quantization/dynamic/quantize_dynamic.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/fuse_eager.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/fake_quantize/pact_fake_quantize.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/observers/observer_modules.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/calibration_file.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"
#include "intq/quantization/prepare/set_march.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/quantization/qconfig/qconfig_presets.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"
#include "usage/misuse.hpp"

namespace {

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
using test::make_conv;
using test::make_linear;
using test::make_model;
using test::random_tensor;
using test::refusal;
using test::stubbed;

constexpr auto& fp32 = target::fp32::policy;

const kernels::KernelTable& table() { return program::best_table<target::fp32>(); }

/// conv1 -> relu -> conv2 between stubs.
nn::ModulePtr stubbed_model() {
    return stubbed(
        {{"conv1", make_conv(3, 4, 3, 1)}, {"relu", std::make_shared<nn::ReLU>()}, {"conv2", make_conv(4, 2, 3, 2)}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv2", m.call("relu", m.call("conv1", x[0]))); });
}

nn::ModulePtr model_without_stubs() {
    return make_model({{"conv1", make_conv(3, 4, 3, 1)}},
                      [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv1", x[0]); });
}

Tensor images(index_t count = 4, index_t size = 6) { return random_tensor(Shape(count, 3, size, size), 5); }

std::shared_ptr<PreparedModel> prepared() {
    return prepare_calibration_fx(*stubbed_model(), get_default_qconfig_mapping(), fp32);
}

std::shared_ptr<PreparedModel> calibrated() {
    const auto model = prepared();
    calibrate(*model, images(), 2);
    return model;
}

/// What prepare says of a mapping for stubbed_model().
std::string mapped(const QConfigMapping& mapping, const arith::PolicyRecord& target = fp32) {
    return refusal([&] { prepare_calibration_fx(*stubbed_model(), mapping, target); });
}

QConfigMapping all(const QConfig& qconfig) { return QConfigMapping().set_global(qconfig); }

/// What making a quantizer of these options says.
template <class Quantizer = FakeQuantize, class Change> std::string quantizer_of(const Change& change) {
    return refusal([&] {
        FakeQuantizeOptions options;
        change(options);
        Quantizer quantizer(options);
    });
}

}  // namespace

TEST_CASE("bad usage: who is quantized, and how") {
    const QConfig qconfig = get_default_calib_qconfig();
    test::check_misuses({
        {"a mapping names a module with a typo",
         [&] { return mapped(all(qconfig).set_module_name("conv3", qconfig)); },
         {"conv3", "conv1", "conv2"}},
        {"a mapping of nothing but a typo",
         [&] { return mapped(QConfigMapping().set_module_name("conv3", qconfig)); },
         {"no operator matches", "module name \"conv3\"", "conv1", "conv2"}},
        {"a mapping names a DeQuantStub",
         [&] { return mapped(all(qconfig).set_module_name("dequant", qconfig)); },
         {"module name \"dequant\"", "changes nothing", "no operator of it that takes a qconfig"}},
        {"an entry that another one overrides",
         [&] { return mapped(all(qconfig).set_module_name_regex("conv2", qconfig).set_module_name("conv2", qconfig)); },
         {"regex \"conv2\"", "changes nothing", "conv2 (Conv2d)", "the module name \"conv2\" decides"}},
        {"a mapping names a type that no module has",
         [&] { return mapped(all(qconfig).set_object_type("Conv2D", qconfig)); },
         {"Conv2D", "Conv2d"}},
        {"a regex that does not begin at the start of the name",
         [&] { return mapped(all(qconfig).set_module_name_regex("onv", qconfig)); },
         {"onv", "start of the name", "conv1"}},
        {"a regex that is none",
         [&] { return refusal([&] { all(qconfig).set_module_name_regex("conv(", qconfig); }); },
         {"conv("}},
        {"a mapping that quantizes nothing",
         [] { return mapped(QConfigMapping()); },
         {"prepare", "qconfig is none", "global qconfig"}},
        {"int16 on an accelerator of int8",
         [] { return mapped(get_default_qconfig_mapping(DType::int16), target::bpu<march::bernoulli2>::policy); },
         {"int16", "bernoulli2", "int8"}},
        {"int16 weights on tflite",
         [] { return mapped(get_default_qconfig_mapping(DType::int8, DType::int16), target::tflite<>::policy); },
         {"conv1", "weight", "int16", "tflite"}},
        {"affine activations on a symmetric accelerator",
         [] {
             QConfig affine = get_default_calib_qconfig();
             affine.output->options.observer_options.scheme = arith::QuantScheme::affine;
             return mapped(all(affine), target::bpu<march::bayes>::policy);
         },
         {"%quant", "bayes", "symmetric"}},
        {"unsigned activations",
         [] {
             QConfig unsigned_codes = get_default_calib_qconfig();
             unsigned_codes.output->options.observer_options.dtype = DType::uint8;
             return mapped(all(unsigned_codes));
         },
         {"uint8"}},
        {"a preset with a typo",
         [] { return refusal([] { qconfig_preset("default_qat_8bit_qconfig"); }); },
         {"default_qat_8bit_qconfig", "nearest"}},
        {"a kind of fake-quantizer that does not exist",
         [] { return refusal([] { get_default_qat_qconfig({.activation_fake_quant = "lsq+"}); }); },
         {"lsq+", "lsq", "pact", "fake_quant"}},
        {"an observer that does not exist",
         [] { return refusal([] { get_default_calib_qconfig({.activation_observer = "minmax"}); }); },
         {"minmax", "min_max"}},
        {"a march that does not exist",
         [] { return refusal([] { set_march("bays"); }); },
         {"bays", "bayes", "bernoulli2", "meta"}},
        {"PACT for affine activations",
         [] {
             QConfig pact = get_default_calib_qconfig();
             pact.output->fake_quantize = fake_quantize_factory<PACTFakeQuantize>();
             pact.output->options.observer_options.scheme = arith::QuantScheme::affine;
             return mapped(all(pact));
         },
         {"PACT", "must be symmetric"}},
        {"PACT for a weight by channel, with a bound for each of other channels",
         [] {
             return refusal([] {
                 FakeQuantizeOptions options;
                 options.observer = observer_factory<PerChannelMinMaxObserver>();
                 options.observer_options.ch_axis = 0;
                 options.channel_len = 3;
                 PACTFakeQuantize pact(options);
                 pact.set_qparams(std::vector<float>{0.5f, 0.25f});
             });
         },
         {"PACT", "2 scales", "3 channels"}},
        {"a range of codes without 0",
         [] {
             return quantizer_of([](auto& o) { o.observer_options.quant_min = 1, o.observer_options.quant_max = 255; });
         },
         {"quant_min", "given 1", "-128"}},
        {"an averaging constant above 1",
         [] {
             return quantizer_of([](auto& o) {
                 o.observer = observer_factory<MovingAverageMinMaxObserver>();
                 o.observer_options.averaging_constant = 1.5f;
             });
         },
         {"averaging_constant", "1.5", "0", "1"}},
        {"a percentile above 100",
         [] {
             return quantizer_of([](auto& o) {
                 o.observer = observer_factory<PercentileObserver>();
                 o.observer_options.percentile = 101;
             });
         },
         {"percentile", "101", "100"}},
        {"a histogram without bins",
         [] {
             return quantizer_of([](auto& o) {
                 o.observer = observer_factory<HistogramObserver>();
                 o.observer_options.bins = 0;
             });
         },
         {"bins", "0"}},
        {"a fixed scale of 0",
         [] {
             return quantizer_of([](auto& o) {
                 o.observer = observer_factory<FixedScaleObserver>();
                 o.observer_options.scale = 0;
             });
         },
         {"FixedScaleObserver", "scale", "2^-100"}},
        {"set_qparams with NaN",
         [] { return refusal([] { FakeQuantize({}).set_qparams(std::nanf("")); }); },
         {"set_qparams", "scale", "NaN"}},
        {"set_qparams with a zero point that is no code",
         [] {
             return refusal([] {
                 FakeQuantizeOptions affine;
                 affine.observer_options.scheme = arith::QuantScheme::affine;
                 FakeQuantize(affine).set_qparams(0.1f, 200);
             });
         },
         {"set_qparams", "zero point", "200", "127"}},
        {"set_qparams with a scale of another dtype",
         [] { return refusal([] { FakeQuantize({}).set_qparams(Tensor::zeros(Shape(1), DType::int64)); }); },
         {"set_qparams", "scale", "int64", "float32"}},
        {"an observer for real values",
         [] { return refusal([] { MinMaxObserver({.dtype = DType::float32}); }); },
         {"Observer", "dtype", "float32", "codes"}},
        {"a mapping of prepare without a function",
         [] {
             return refusal([] {
                 PrepareModulesOptions options;
                 options.mapping["Conv2d"] = {};
                 prepare_qat(stubbed_model(), fp32, options);
             });
         },
         {"prepare", "mapping", "Conv2d", "function"}},
        {"set_qparams with a zero point in a symmetric scheme",
         [] { return refusal([] { FakeQuantize({}).set_qparams(0.1f, 5); }); },
         {"set_qparams", "zero point 5", "symmetric"}},
        {"a sensitive rule without a number",
         [] {
             return refusal([] {
                 QConfigMapping mapping;
                 const std::vector<SensitiveOperator> list{{"conv1", "activation", "Conv2d", 1.0}};
                 set_sensitive_operators(mapping, list, {});
             });
         },
         {"top_k", "ratio"}},
    });
}

TEST_CASE("bad usage: prepare and fuse") {
    test::check_misuses({
        {"a model without stubs",
         [] {
             return refusal(
                 [] { prepare_calibration_fx(*model_without_stubs(), get_default_qconfig_mapping(), fp32); });
         },
         {"QuantStub", "add_stubs", "x"}},
        {"a model that is prepared already",
         [] { return refusal([] { prepare_calibration_fx(*prepared(), get_default_qconfig_mapping(), fp32); }); },
         {"prepared", "already"}},
        {"an example of another shape",
         [] {
             return refusal([] {
                 PrepareOptions options;
                 options.example_inputs = {random_tensor(Shape(1, 4, 6, 6), 1)};
                 prepare_calibration_fx(*stubbed_model(), get_default_qconfig_mapping(), fp32, options);
             });
         },
         {"example_inputs", "conv1", "(1, 4, 6, 6)"}},
        {"a hybrid part that does not exist",
         [] {
             return refusal([] {
                 PrepareOptions options;
                 options.hybrid = true;
                 options.hybrid_dict.module_name = {"conv_1"};
                 prepare_calibration_fx(*stubbed_model(), get_default_qconfig_mapping(), fp32, options);
             });
         },
         {"conv_1", "conv1"}},
        {"an average over windows of different sizes on integers",
         [] {
             return refusal([] {
                 const auto model = stubbed({{"pool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{4, 4})}},
                                            [](test::LambdaModel& m, nn::Arguments x) { return m.call("pool", x[0]); });
                 PrepareOptions options;
                 options.example_inputs = {images(1, 6)};
                 prepare_calibration_fx(*model, get_default_qconfig_mapping(), fp32, options);
             });
         },
         {"pool", "6", "4"}},
        {"fuse names a module that does not exist",
         [] { return refusal([] {
                  fuse_modules(stubbed_model(), {{"conv1", "bn1"}});
              }); },
         {"bn1", "conv1"}},
        {"fuse gets a sequence that is in no table",
         [] { return refusal([] {
                  fuse_modules(stubbed_model(), {{"relu", "conv1"}});
              }); },
         {"fuse_modules", "relu-conv2d"}},
        {"prepare gets no model",
         [] { return refusal([] { prepare_calibration(nullptr, get_default_qconfig_mapping(), fp32); }); },
         {"prepare_calibration", "null"}},
        {"fuse gets no model",
         [] { return refusal([] {
                  fuse_modules(nullptr, {{"conv1", "relu"}});
              }); },
         {"fuse_modules", "null"}},
        {"dynamic quantization of a module that does not exist",
         [] {
             return refusal([] {
                 QuantizeDynamicOptions options;
                 options.qconfig_spec = {{"fc", std::nullopt}};
                 quantize_dynamic(stubbed_model(), options);
             });
         },
         {"fc", "no module that this function replaces"}},
    });
}

TEST_CASE("bad usage: calibrate") {
    const auto with_nan = [] {
        Tensor x = images();
        x.flat<float>()[300] = std::numeric_limits<float>::quiet_NaN();
        return x;
    };
    test::check_misuses({
        {"NaN in a calibration image",
         [&] { return refusal([&] { calibrate(*prepared(), with_nan(), 2); }); },
         {"quant", "NaN"}},
        {"no images",
         [] { return refusal([] { calibrate(*prepared(), Tensor::zeros(Shape(0, 3, 6, 6)), 2); }); },
         {"calibrat", "empty"}},
        {"a batch of 0 images", [] { return refusal([] { calibrate(*prepared(), images(), 0); }); }, {"batch", "0"}},
        {"images with another number of channels",
         [] { return refusal([] { calibrate(*prepared(), random_tensor(Shape(4, 1, 6, 6), 1), 2); }); },
         {"conv1", "(2, 1, 6, 6)"}},
        {"going on behind the last batch",
         [] {
             return refusal([] {
                 const Tensor x = images();
                 calibrate(*prepared(), batches_of(x, 2), {.first = 9});
             });
         },
         {"9", "2"}},
        {"a source of batches without a function",
         [] { return refusal([] { calibrate(*prepared(), BatchSource{3}); }); },
         {"BatchSource", "batch"}},
        {"observers of other classes are merged",
         [] {
             return refusal([] {
                 MinMaxObserver a{ObserverOptions()};
                 PercentileObserver b{ObserverOptions()};
                 a.merge(b);
             });
         },
         {"MinMaxObserver", "PercentileObserver"}},
        {"moving averages are merged",
         [] {
             return refusal([] {
                 MovingAverageMinMaxObserver a{ObserverOptions()}, b{ObserverOptions()};
                 a.observe(images());
                 b.observe(images());
                 a.merge(b);
             });
         },
         {"MovingAverageMinMaxObserver", "order"}},
    });
}

TEST_CASE("bad usage: convert, lower and run") {
    const LoweredModel lowered = lower(convert_fx(*calibrated()), table(), 2);
    const auto run = [&](const Tensor& x) { return refusal([&] { static_cast<void>(lowered.run(x)); }); };
    test::check_misuses({
        {"convert before any data", [] { return refusal([] { convert_fx(*prepared()); }); }, {"calibrate", "quant"}},
        {"exact simulation before any data",
         [] { return refusal([] { ExactSimulation(*prepared(), table(), 1); }); },
         {"calibrate"}},
        {"lower with the kernels of another target",
         [] {
             return refusal([] { lower(convert_fx(*calibrated()), program::best_table<target::bpu<march::bayes>>()); });
         },
         {"fp32", "bayes"}},
        {"lower for no image at a time",
         [] { return refusal([] { lower(convert_fx(*calibrated()), table(), 0); }); },
         {"batch from 1", "given 0"}},
        {"convert of a model that was never prepared",
         [] { return refusal([] { convert(stubbed_model(), table()); }); },
         {"prepare"}},
        {"convert of no model", [] { return refusal([] { convert(nullptr, table()); }); }, {"convert", "null"}},
        {"quantize without a function that runs the model",
         [] { return refusal([] { quantize_fx(*stubbed_model(), nullptr, get_default_qconfig_mapping(), fp32); }); },
         {"quantize_fx", "run", "function"}},
        {"the program gets images of another size", [&] { return run(images(2, 8)); }, {"(2, 3, 8, 8)", "6"}},
        {"the program gets codes",
         [&] { return run(Tensor::zeros(Shape(2, 3, 6, 6), DType::int8)); },
         {"int8", "float32"}},
        {"the program gets two inputs",
         [&] { return refusal([&] {
                   lowered.run(std::vector<Tensor>{images(), images()});
               }); },
         {"2", "1", "input"}},
        {"the program gets a tensor that was never made",
         [&] { return run(Tensor()); },
         {"input 0", "undefined", "float32", "(?, 3, 6, 6)"}},
        {"a hybrid model is deployed",
         [] {
             return refusal([] {
                 PrepareOptions options;
                 options.hybrid = true;
                 options.hybrid_dict.module_name = {"conv1"};
                 const auto model =
                     prepare_calibration_fx(*stubbed_model(), get_default_qconfig_mapping(), fp32, options);
                 calibrate(*model, images(), 2);
                 check_deployable(convert_fx(*model));
             });
         },
         {"hybrid", "fp32", "conv1"}},
        {"the value of a node that does not exist",
         [] {
             return refusal([] {
                 const auto model = calibrated();
                 ExactSimulation exact(*model, table(), 2);
                 const Tensor x = images(2);
                 exact.run(std::span(&x, 1));
                 exact.codes_of("conv9");
             });
         },
         {"conv9", "conv1"}},
        {"a target of one's own under the name of another",
         [] {
             return refusal([] {
                 arith::PolicyRecord mine = fp32;
                 mine.zero_points = false;
                 program::best_table(mine);
             });
         },
         {"fp32", "name"}},
        {"a target that the program does not hold",
         [] {
             return refusal([] {
                 arith::PolicyRecord mine = fp32;
                 mine.name = "mine";
                 program::best_table(mine);
             });
         },
         {"mine", "fp32", "tflite"}},
    });
}
