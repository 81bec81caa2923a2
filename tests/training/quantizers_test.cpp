// SPDX-License-Identifier: MIT
//
// Fake-quantizers in training: gradients against surrogates and PyTorch's numbers, and how their parameters live.
#include "intq/training/autograd.hpp"

#include <functional>

#include "intq/arith/fp32.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/fake_quantize/lsq_fake_quantize.hpp"
#include "intq/quantization/fake_quantize/pact_fake_quantize.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/observers/range_observers.hpp"
#include "intq/quantization/observers/statistics_observers.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/training/trainer.hpp"
#include "io/temporary_folder.hpp"
#include "support/golden.hpp"
#include "support/small_models.hpp"
#include "training/gradient_check.hpp"

using namespace intq;
using Catch::Matchers::Contains;
using intq::Tensor;
using nlohmann::json;
using quantization::FakeQuantize;
using quantization::FakeQuantizeOptions;
using quantization::LSQFakeQuantize;
using quantization::PACTFakeQuantize;
using test::Numbers;
using test::numbers_of;
using test::relative_error;

namespace {

struct QuantizerGradients {
    Tensor output, input;
    std::map<std::string, Tensor> parameters;
};

/// Forward, then the quantizer's row.
QuantizerGradients run(quantization::Quantizer& quantizer, const Tensor& x, const Tensor& dy) {
    const nn::Value output = quantizer(x);
    const auto rows = training::all_gradient_rows();
    const training::GradientRow* row = training::find_gradient(rows, quantizer.type_name(), &quantizer);
    REQUIRE(row != nullptr);
    const std::vector<nn::Value> inputs{x};
    const training::FinishedCall call{&quantizer, nn::Arguments(inputs), &output, {}};
    training::GradientContext context(call, std::span(&dy, 1), rows);
    row->backward(context);
    QuantizerGradients result{output.tensor(), context.input_gradients().at(0).at(0), {}};
    for (const auto& [parameter, gradient] : context.parameter_gradients())
        for (const auto& known : quantizer.parameters())
            if (known.value.shares_buffer_with(parameter)) result.parameters.emplace(known.name, gradient);
    return result;
}

FakeQuantizeOptions options_of(std::int64_t low, std::int64_t high) {
    FakeQuantizeOptions options;
    options.observer_options.quant_min = low;
    options.observer_options.quant_max = high;
    options.use_grad_scaling = false;
    return options;
}

Tensor from(const Numbers& numbers) {
    return test::tensor_of<float>(Shape(static_cast<index_t>(numbers.size())), numbers);
}

/// Values between the ties, inside and outside of [-8, 7] steps. Not on the outermost codes, where the surrogate has a
/// kink; that the gradient passes there is in PyTorch's numbers.
Numbers values_between_ties(double scale, index_t count, double zero_point = 0) {
    std::mt19937 generator(3);
    Numbers result;
    while (static_cast<index_t>(result.size()) < count) {
        const double part = 0.1 + 0.35 * static_cast<double>(generator() % 1000) / 1000;
        const double code = static_cast<double>(generator() % 24) - 12;
        if (code + zero_point == -8 || code + zero_point == 7) continue;
        const double step = code + (result.size() % 2 == 0 ? part : -part);
        result.push_back(static_cast<double>(static_cast<float>(step * scale)));
    }
    return result;
}

}  // namespace

TEST_CASE("The gradient of fake-quantize is that of the surrogate whose rounding residue is held constant") {
    for (const bool saturate : {true, false}) {
        FakeQuantizeOptions options = options_of(-8, 7);
        options.saturate = saturate;
        FakeQuantize quantizer(options);
        quantizer.set_qparams(0.3f);
        const auto s = static_cast<double>(0.3f);
        const Numbers x = values_between_ties(s, 200), dy = test::random_numbers(200, 5);
        // y = s · clamp(x/s + r), r = round(x/s) - x/s held; without saturation the clamp's residue is held too.
        const auto surrogate = [&](const std::vector<Numbers>& leaves) {
            Numbers y;
            for (std::size_t i = 0; i < leaves[0].size(); ++i) {
                const double residue = std::nearbyint(x[i] / s) - x[i] / s, steps = leaves[0][i] / s + residue;
                y.push_back(saturate ? s * std::clamp(steps, -8.0, 7.0) : s * steps);
            }
            return y;
        };
        const auto found = run(quantizer, from(x), from(dy));
        CHECK(relative_error(numbers_of(found.input), test::differences(surrogate, {x}, 0, dy)) < 1e-3);
        CHECK(found.parameters.empty());
        quantizer.enable_fake_quant(false);
        CHECK(numbers_of(run(quantizer, from(x), from(dy)).input) == dy);
    }
}

TEST_CASE("The gradients of LSQ are those of the surrogate whose rounding residue is held constant") {
    for (const bool affine : {false, true}) {
        FakeQuantizeOptions options = options_of(-8, 7);
        if (affine) options.observer_options.scheme = arith::QuantScheme::affine;
        LSQFakeQuantize quantizer(options);
        quantizer.set_qparams(0.3f, affine ? std::optional<std::int32_t>(2) : std::nullopt);
        const auto s = static_cast<double>(0.3f), z = affine ? 2.0 : 0.0;
        const Numbers x = values_between_ties(s, 300, z), dy = test::random_numbers(300, 5);
        const auto surrogate = [&](const std::vector<Numbers>& leaves) {
            Numbers y;
            const double scale = leaves[1][0], zero = leaves[2][0];
            for (std::size_t i = 0; i < x.size(); ++i) {
                const double residue = std::nearbyint(x[i] / s) - x[i] / s;
                y.push_back(scale * (std::clamp(leaves[0][i] / scale + residue + zero, -8.0, 7.0) - zero));
            }
            return y;
        };
        const auto found = run(quantizer, from(x), from(dy));
        const std::vector<Numbers> leaves{x, {s}, {z}};
        CHECK(relative_error(numbers_of(found.input), test::differences(surrogate, leaves, 0, dy)) < 1e-3);
        CHECK(relative_error(numbers_of(found.parameters.at("scale")), test::differences(surrogate, leaves, 1, dy)) <
              1e-3);
        CHECK(found.parameters.count("zero_point") == (affine ? 1 : 0));
        if (affine)
            CHECK(relative_error(numbers_of(found.parameters.at("zero_point")),
                                 test::differences(surrogate, leaves, 2, dy)) < 1e-3);
    }
}

TEST_CASE("The gradients of PACT are those of the surrogate whose rounding residue and scale are held constant") {
    FakeQuantizeOptions options = options_of(-8, 7);
    options.alpha = 2.25f;
    PACTFakeQuantize quantizer(options);
    const auto s = static_cast<double>(quantizer.qparams().scale());
    CHECK(s == Approx(0.3));
    const Numbers x = values_between_ties(s, 300), dy = test::random_numbers(300, 5);
    const auto found = run(quantizer, from(x), from(dy));
    // y = clamp(x, -alpha, alpha) + r, with r what forward added to the clipped value.
    const Numbers output = numbers_of(found.output);
    const auto surrogate = [&](const std::vector<Numbers>& leaves) {
        Numbers y;
        for (std::size_t i = 0; i < x.size(); ++i)
            y.push_back(std::clamp(leaves[0][i], -leaves[1][0], leaves[1][0]) + output[i] -
                        std::clamp(x[i], -2.25, 2.25));
        return y;
    };
    const std::vector<Numbers> leaves{x, {2.25}};
    CHECK(relative_error(numbers_of(found.input), test::differences(surrogate, leaves, 0, dy)) < 1e-3);
    CHECK(relative_error(numbers_of(found.parameters.at("alpha")), test::differences(surrogate, leaves, 1, dy)) < 1e-3);
    for (const double y : output) CHECK(std::fabs(y) <= 8 * s + 1e-6);
}

TEST_CASE("The row of fake-quantize gives PyTorch's gradients") {
    int cases = 0;
    for (const json& row : test::golden_cases("fake_quantize")) {
        if (row.at("kind") != "per_tensor" || row.contains("error") || row.contains("note")) continue;
        INFO(row.at("name").get<std::string>());
        FakeQuantizeOptions options = options_of(row.at("quant_min"), row.at("quant_max"));
        options.observer_options.dtype = DType::int16;  // wide enough for every range of the file
        options.observer_options.scheme = arith::QuantScheme::affine;
        FakeQuantize quantizer(options);
        quantizer.set_qparams(test::golden_float(row.at("scale")), row.at("zero_point").get<std::int32_t>());
        const auto x = test::golden_floats(row.at("x")), dy = test::golden_floats(row.at("grad_y"));
        const Shape shape(static_cast<index_t>(x.size()));
        const auto found = run(quantizer, Tensor::from(shape, x), Tensor::from(shape, dy));
        CHECK(numbers_of(found.output) == numbers_of(Tensor::from(shape, test::golden_floats(row.at("y")))));
        CHECK(numbers_of(found.input) == numbers_of(Tensor::from(shape, test::golden_floats(row.at("grad_x")))));
        ++cases;
    }
    CHECK(cases >= 10);
}

TEST_CASE("The LSQ module gives the outputs and gradients of PyTorch's module") {
    int cases = 0;
    for (const json& row : test::golden_cases("learnable")) {
        if (row.at("kind") != "module") continue;
        const std::string name = row.at("name");
        INFO(name);
        FakeQuantizeOptions options;
        options.observer_options.dtype = name.starts_with("s16") ? DType::int16 : DType::int8;
        const auto x = test::golden_floats(row.at("x"));
        const float factor = test::golden_float(row.at("grad_factor"));
        options.use_grad_scaling = factor != 1.0f;
        LSQFakeQuantize quantizer(options);
        const Shape shape(static_cast<index_t>(x.size()));
        const Tensor input = Tensor::from(shape, x), dy = Tensor::full(shape, 1.0f);
        CHECK(quantizer.grad_factor(input) == factor);
        const auto found = run(quantizer, input, dy);  // the first forward takes its scale from the observer
        CHECK(quantizer.qparams().scale() == test::golden_float(row.at("observed_scale")));
        CHECK(numbers_of(found.output) == numbers_of(Tensor::from(shape, test::golden_floats(row.at("y_learning")))));
        CHECK(numbers_of(found.input) == numbers_of(Tensor::from(shape, test::golden_floats(row.at("grad_x")))));
        // PyTorch adds in float: the difference is a few roundings of the largest partial sum.
        const json& expected = row.at("grad_scale");
        const float theirs = test::golden_float(expected.is_array() ? expected[0] : expected);
        CHECK(found.parameters.at("scale").flat<float>()[0] == Approx(theirs).epsilon(1e-4).margin(1e-5));
        ++cases;
    }
    CHECK(cases > 0);
}

TEST_CASE("LSQ observes once, learns its scale and keeps it positive") {
    LSQFakeQuantize quantizer(options_of(-8, 7));
    CHECK_FALSE(quantizer.has_qparams());
    CHECK(quantizer.parameters().size() == 1);
    quantizer(Tensor::from(Shape(2), {-1.5f, 0.5f}));
    CHECK(quantizer.qparams().scale() == 0.2f);
    quantizer(Tensor::full(Shape(2), 100.0f));
    CHECK(quantizer.qparams().scale() == 0.2f);
    quantizer.tensor("scale").flat<float>()[0] = -0.25f;
    CHECK(quantizer(Tensor::full(Shape(1), 0.3f)).tensor().flat<float>()[0] == 0.25f);
    quantizer.tensor("scale").flat<float>()[0] = 0.0f;
    quantizer(Tensor::full(Shape(1), 0.3f));
    CHECK(quantizer.qparams().scale() == 0x1p-23f);
    // Calibration observes as often as it is asked.
    quantizer.enable_fake_quant(false);
    quantizer(Tensor::full(Shape(2), 3.0f));
    CHECK(quantizer.qparams().scale() == Approx((1.5 - 0.01 * 4.5) / 7.5));  // the observer's moving average
}

TEST_CASE("PACT takes its scale from alpha, and alpha from calibration") {
    FakeQuantizeOptions options = options_of(-128, 127);
    options.alpha = 2.0f;
    PACTFakeQuantize quantizer(options);
    CHECK(quantizer.qparams().scale() == 2.0f / 127.5f);
    quantizer(Tensor::full(Shape(2), 100.0f));
    CHECK(quantizer.alpha() == 2.0f);
    quantizer.tensor("alpha").flat<float>()[0] = -3.0f;
    quantizer(Tensor::full(Shape(2), 1.0f));
    CHECK(quantizer.alpha() == 3.0f);
    quantizer.enable_fake_quant(false);
    quantizer(Tensor::full(Shape(2), 5.1f));
    CHECK(quantizer.alpha() == Approx(5.1f));
    options.alpha = 0.0f;
    CHECK_THROWS_WITH(PACTFakeQuantize(options), Contains("alpha must be positive"));
    options.alpha = 1.0f;
    options.observer_options.scheme = arith::QuantScheme::affine;
    CHECK_THROWS_WITH(PACTFakeQuantize(options), Contains("the scheme must be symmetric"));
    CHECK_THROWS_WITH(quantization::fake_quantize_kind("dorefa"),
                      Contains("there is no kind of fake-quantizer \"dorefa\""));
}

namespace {

std::shared_ptr<test::LambdaModel> float_model() {
    return test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                             {"conv", test::make_conv(2, 4, 3, 1)},
                             {"norm", test::make_batch_norm<nn::BatchNorm2d>(4, 3)},
                             {"relu", std::make_shared<nn::ReLU>()},
                             {"skip", test::make_conv(2, 4, 1, 2)},
                             {"skip_add", std::make_shared<nn::FloatFunctional>()},
                             {"dequant", std::make_shared<nn::DeQuantStub>()}},
                            [](test::LambdaModel& m, nn::Arguments x) {
                                const nn::Value q = m.call("quant", x[0]);
                                const nn::Value a = m.call("relu", m.call("norm", m.call("conv", q)));
                                return m.call("dequant", nn::call_add(m, "skip_add", m.call("skip", q), a));
                            });
}

quantization::QConfigMapping mapping_of(const char* activation, const char* weight) {
    quantization::QConfig qconfig = quantization::get_default_calib_qconfig();
    qconfig.output->fake_quantize = quantization::fake_quantize_kind(activation);
    qconfig.weight->fake_quantize = quantization::fake_quantize_kind(weight);
    return quantization::QConfigMapping().set_global(qconfig);
}

}  // namespace

TEST_CASE("A model that is prepared for training has gradients of its weights and of what its quantizers learn") {
    const auto model = float_model();
    const std::vector<Tensor> batches{test::random_tensor(Shape(3, 2, 5, 5), 8)};
    const auto calibrated =
        quantization::prepare_calibration_fx(*model, mapping_of("fake_quant", "fake_quant"), target::fp32::policy);
    quantization::calibrate(*calibrated, batches);
    const Tensor expected = (*calibrated)(batches[0]).tensor();
    for (const char* kind : {"fake_quant", "lsq", "pact"}) {
        INFO(kind);
        const bool lsq = kind == std::string("lsq"), pact = kind == std::string("pact");
        const auto qat =
            quantization::prepare_qat_fx(*model, mapping_of(kind, lsq ? "lsq" : "fake_quant"), target::fp32::policy);
        CHECK(qat->training());
        quantization::load_calibration(*qat, *calibrated);
        training::Autograd autograd(*qat);
        const Tensor y = autograd.forward(batches[0]).tensor();
        CHECK(relative_error(numbers_of(y), numbers_of(expected)) < 0.05);
        const Tensor dy = test::random_tensor(y.shape(), 9);
        const auto gradients = autograd.backward(dy).parameters;
        CHECK(gradients.count("conv.weight") == 1);
        CHECK(gradients.count("skip.bias") == 1);
        std::size_t learnt = 0;
        for (const auto& [name, gradient] : gradients) {
            learnt += name.ends_with(".scale") || name.ends_with(".alpha") ? 1 : 0;
            for (const float value : gradient.flat<float>()) CHECK(std::isfinite(value));
        }
        std::size_t holders = 0;
        for (const auto& [name, quantizer] : quantization::detail::fake_quantizers(*qat))
            holders += quantizer->type_name() == "LSQFakeQuantize" || quantizer->type_name() == "PACTFakeQuantize";
        CHECK(holders == learnt);
        CHECK((learnt > 0) == (lsq || pact));
        // What was trained converts: the reference graph gives what the rounding model gave.
        qat->eval();
        quantization::set_fake_quantize(*qat, quantization::FakeQuantState::validation);
        const Tensor simulated = (*qat)(batches[0]).tensor();
        const auto reference = quantization::make_reference(quantization::convert_fx(*qat));
        CHECK(relative_error(numbers_of((*reference)(batches[0]).tensor()), numbers_of(simulated)) < 1e-3);
    }
}

TEST_CASE("The gradient of a prepared layer is that of the float layer at its rounded weight, masked where it clamps") {
    const auto model = float_model();
    const auto qat = quantization::prepare_qat_fx(*model, mapping_of("fake_quant", "fake_quant"), target::fp32::policy);
    const Tensor x = test::random_tensor(Shape(3, 2, 5, 5), 8);
    (*qat)(x);  // each quantizer has seen data
    // A scale that clamps a good part of the weight.
    auto& prepared = dynamic_cast<quantization::PreparedConv2d&>(qat->find("skip"));
    prepared.weight_fake_quant().set_qparams(0.002f);
    training::Autograd autograd(*qat);
    std::map<std::string, Tensor> values;
    autograd.set_value_of([&](const graph::Node& node, const nn::Value& value) {
        if (value.is_tensor()) values[node.target()] = value.tensor();
        return std::optional<nn::Value>();
    });
    autograd.forward(x);
    const Tensor dy = test::random_tensor(Shape(3, 4, 5, 5), 9);
    const Tensor found = autograd.backward(dy).parameters.at("skip.weight");

    // The add was fused into skip, which gives its accumulator to the DeQuantStub: dy reaches its product as it is.
    const Tensor& image = values.at("activation_post_process_0");
    Tensor expected = training::conv2d_weight_gradient<float>(image, dy, prepared.options().window, 1);
    const std::vector<nn::Value> inputs{image, values.at("activation_post_process_1")};
    const Tensor weight = prepared.quantized_weight(nn::Arguments(inputs));
    REQUIRE(weight.qparams()->is_per_channel());
    int clamped = 0;
    for (std::size_t i = 0; i < 8; ++i) {
        const float steps = std::nearbyint(prepared.weight().flat<float>()[i] / weight.qparams()->scales[i / 2]);
        if (steps >= -128.0f && steps <= 127.0f) continue;
        expected.flat<float>()[i] = 0.0f;
        ++clamped;
    }
    CHECK(clamped > 0);
    CHECK(clamped < 8);
    CHECK(relative_error(numbers_of(found), numbers_of(expected)) < 1e-5);
}

TEST_CASE("Calibrated scales reach the quantizers of a model in training, or an error names the one that lacks them") {
    const auto model = float_model();
    const auto empty =
        quantization::prepare_calibration_fx(*model, mapping_of("fake_quant", "fake_quant"), target::fp32::policy);
    const auto qat = quantization::prepare_qat_fx(*model, mapping_of("lsq", "lsq"), target::fp32::policy);
    CHECK_THROWS_WITH(quantization::load_calibration(*qat, *empty), Contains("saw no data; calibrate first"));
    const std::vector<Tensor> batches{test::random_tensor(Shape(3, 2, 5, 5), 8)};
    quantization::calibrate(*empty, batches);
    quantization::load_calibration(*qat, *empty);
    for (const auto& [name, quantizer] : quantization::detail::fake_quantizers(*qat)) {
        INFO(name);
        CHECK(quantizer->qparams().scales == quantization::detail::fake_quantizers(*empty).at(name)->qparams().scales);
    }
    const auto other = quantization::prepare_calibration_fx(
        *test::make_model(
            {{"quant", std::make_shared<nn::QuantStub>()}, {"dequant", std::make_shared<nn::DeQuantStub>()}},
            [](test::LambdaModel& m, nn::Arguments x) { return m.call("dequant", m.call("quant", x[0])); }),
        mapping_of("fake_quant", "fake_quant"), target::fp32::policy);
    quantization::calibrate(*other, batches);
    CHECK_THROWS_WITH(quantization::load_calibration(*qat, *other), Contains("has no such quantizer"));
}

TEST_CASE("A calibration whose grids do not fit the model is refused by name, and nothing of it is loaded") {
    const auto model =
        test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                          {"conv", test::make_conv(2, 4, 3, 1)},
                          {"relu", std::make_shared<nn::ReLU>()},
                          {"dequant", std::make_shared<nn::DeQuantStub>()}},
                         [](test::LambdaModel& m, nn::Arguments x) {
                             return m.call("dequant", m.call("relu", m.call("conv", m.call("quant", x[0]))));
                         });
    using Change = std::function<void(quantization::QConfig&)>;
    const auto mapping = [](const Change& change) {
        quantization::QConfig qconfig = quantization::get_default_calib_qconfig();
        change(qconfig);
        return quantization::QConfigMapping().set_global(qconfig);
    };
    const auto per_tensor_weight = [](quantization::QConfig& qconfig) {
        qconfig.weight->options.observer = quantization::observer_factory<quantization::MinMaxObserver>();
        qconfig.weight->options.observer_options.ch_axis = -1;
    };
    const auto four_bits = [](quantization::QConfig& qconfig) {
        for (auto* options : {&qconfig.output->options, &qconfig.weight->options}) {
            options->observer_options.quant_min = -8;
            options->observer_options.quant_max = 7;
        }
    };
    const auto affine = [](quantization::QConfig& qconfig) {
        qconfig.output->options.observer_options.scheme = arith::QuantScheme::affine;
    };
    const auto kind = [](const char* name) {
        return Change([name](quantization::QConfig& qconfig) {
            qconfig.output->fake_quantize = quantization::fake_quantize_kind(name);
        });
    };
    const auto kl = [](index_t bins) {
        return Change([bins](quantization::QConfig& qconfig) {
            qconfig.output->options.observer = quantization::observer_factory<quantization::KLObserver>();
            qconfig.output->options.observer_options.bins = bins;
        });
    };
    const Change plain = [](quantization::QConfig&) {};
    struct Row {
        Change calibrated, model;
        const char* message;
    };
    // Ends that are not 0, so that an affine zero point is no 0.
    Tensor batch = test::random_tensor(Shape(3, 2, 5, 5), 8);
    for (float& value : batch.flat<float>()) value = value * 0.3f + 1.0f;
    const std::vector<Tensor> batches{batch};
    for (const Row& row :
         {Row{per_tensor_weight, plain,
              "conv.weight_fake_quant: load_calibration: the grid is per tensor, the quantizer per channel of axis 0"},
          Row{plain, per_tensor_weight,
              "conv.weight_fake_quant: load_calibration: the grid is per channel of axis 0, the quantizer per tensor"},
          Row{four_bits, plain,
              "activation_post_process_0: load_calibration: the grid's codes are int8 from -8 to 7, the quantizer's "
              "int8 from -128 to 127"},
          Row{affine, plain,
              "activation_post_process_0: load_calibration: the grid has the zero point -128, and the "
              "scheme of the quantizer is symmetric"},
          Row{affine, kind("lsq"), "the scheme of the quantizer is symmetric"},
          Row{affine, kind("pact"), "the scheme of the quantizer is symmetric"},
          Row{kl(1024), kl(2048), "activation_post_process_0: load_calibration: KLObserver: the buffer histogram"}}) {
        INFO(row.message);
        const auto calibrated =
            quantization::prepare_calibration_fx(*model, mapping(row.calibrated), target::tflite<>::policy);
        quantization::calibrate(*calibrated, batches);
        const auto qat = quantization::prepare_qat_fx(*model, mapping(row.model), target::tflite<>::policy);
        const auto before = nn::state_dict(*qat);
        CHECK_THROWS_WITH(quantization::load_calibration(*qat, *calibrated), Contains(row.message));
        const auto after = nn::state_dict(*qat);
        CHECK(after.size() == before.size());  // the buffers of an observer exist once it saw data
        for (const auto& [name, quantizer] : quantization::detail::fake_quantizers(*qat))
            CHECK((quantizer->type_name() == "PACTFakeQuantize" || !quantizer->has_qparams()));
    }
    // A symmetric grid is one of the affine scheme as well, and other kinds take it.
    for (const Change& taker : {Change(affine), kind("lsq"), kind("pact")}) {
        const auto calibrated = quantization::prepare_calibration_fx(*model, mapping(plain), target::tflite<>::policy);
        quantization::calibrate(*calibrated, batches);
        const auto qat = quantization::prepare_qat_fx(*model, mapping(taker), target::tflite<>::policy);
        CHECK_NOTHROW(quantization::load_calibration(*qat, *calibrated));
    }
}

TEST_CASE("Scales that were given before calibration stay given in a model that is trained") {
    const auto model = float_model();
    const auto calibrated =
        quantization::prepare_calibration_fx(*model, mapping_of("fake_quant", "fake_quant"), target::fp32::policy);
    dynamic_cast<FakeQuantize&>(calibrated->find("activation_post_process_0")).set_qparams(0.25f);
    const std::vector<Tensor> batches{test::random_tensor(Shape(3, 2, 5, 5), 8)};
    quantization::calibrate(*calibrated, batches);
    const auto qat = quantization::prepare_qat_fx(*model, mapping_of("fake_quant", "fake_quant"), target::fp32::policy);
    quantization::load_calibration(*qat, *calibrated);
    (*qat)(test::random_tensor(Shape(3, 2, 5, 5), 9, 10.0f));
    CHECK(dynamic_cast<FakeQuantize&>(qat->find("activation_post_process_0")).qparams().scale() == 0.25f);
    CHECK_FALSE(dynamic_cast<FakeQuantize&>(qat->find("activation_post_process_1")).has_given_qparams());
}

TEST_CASE("A weight quantizer without a gradient is named when the training is set up") {
    struct Odd : nn::Cloneable<Odd, FakeQuantize> {
        using Cloneable::Cloneable;
        std::string type_name() const override { return "OddFakeQuantize"; }
    };
    const auto qat =
        quantization::prepare_qat_fx(*float_model(), mapping_of("fake_quant", "fake_quant"), target::fp32::policy);
    std::string layer;
    for (const auto& module : qat->named_modules())
        if (layer.empty() && dynamic_cast<quantization::PreparedWeight*>(module.value) != nullptr) layer = module.name;
    qat->replace_child(layer + ".weight_fake_quant", std::make_shared<Odd>(FakeQuantizeOptions{}));
    CHECK_THROWS_WITH(training::Autograd(*qat),
                      Contains("call_module[" + layer + "]") && Contains("weight_fake_quant: there is no gradient of a "
                                                                         "OddFakeQuantize"));
}

TEST_CASE("The training of a prepared model resumes to the same bits, learnt scales and observed ranges included") {
    const auto model = float_model();
    const Tensor images = test::random_tensor(Shape(8, 2, 5, 5), 8);
    const auto loss = [](const Tensor& y, std::span<const index_t>) {
        return training::mse_loss(y, Tensor::zeros(y.shape()));
    };
    struct Run {
        std::shared_ptr<quantization::PreparedModel> qat;
        training::Adam adam;
        training::Trainer trainer;
        Run(const nn::Module& float_model, const char* kind, std::int64_t epochs)
            : qat(quantization::prepare_qat_fx(float_model,
                                               mapping_of(kind, kind == std::string("lsq") ? "lsq" : "fake_quant"),
                                               target::fp32::policy)),
              trainer(*qat, adam, [&] {
                  training::TrainerOptions options;
                  options.epochs = epochs;
                  options.batch_size = 4;
                  options.progress = io::ShowProgress::never;
                  return options;
              }()) {}
        std::vector<std::byte> state() {
            return io::serialize_safetensors(training::make_checkpoint(*qat, adam, trainer.position()));
        }
    };
    const test::TemporaryFolder folder;
    for (const char* kind : {"fake_quant", "lsq", "pact"}) {
        INFO(kind);
        Run whole(*model, kind, 3), first(*model, kind, 1), second(*model, kind, 3);
        whole.trainer.fit(images, loss);
        first.trainer.fit(images, loss);
        first.trainer.save(folder / kind);
        second.trainer.load(folder / kind);
        CHECK(second.state() == first.state());
        second.trainer.fit(images, loss);
        CHECK(second.state() == whole.state());
        CHECK(second.state() != first.state());
    }
}
