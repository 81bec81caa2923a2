// SPDX-License-Identifier: MIT
//
// What a calibration warns of: data of one number, ranges that keep little; and histograms of any finite data.
#include <cmath>
#include <vector>

#include "intq/arith/bpu.hpp"
#include "intq/nn/float_operators/elementwise.hpp"
#include "intq/quantization/observers/observer_modules.hpp"
#include "intq/quantization/observers/statistics_observers.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using intq::Tensor;
using test::message_of;

namespace {

CalibrationReport report_of(const nn::Module& model, const QConfig& qconfig, const Tensor& samples) {
    const auto prepared = prepare_calibration_fx(model, QConfigMapping().set_global(qconfig), march::bayes::policy);
    return calibrate(*prepared, std::vector<Tensor>{samples});
}

float scale_of(const char* observer, const Tensor& x, Compatibility compatibility = Compatibility::horizon) {
    ObserverOptions options;
    options.compatibility = compatibility;
    const auto made = observer_table().at(observer).per_tensor(options);
    made->observe(x);
    return made->calculate_qparams().scale();
}

}  // namespace

TEST_CASE("A quantizer to which all data was one number is named: samples of zeros, constant samples, a dead layer") {
    const auto dead = test::make_conv(2, 3, 1, 1);
    dead->set_bias(Tensor::from(Shape(3), {-1e6f, -1e6f, -1e6f}));
    const auto behind = test::make_conv(3, 2, 1, 2);
    behind->set_bias(Tensor::from(Shape(2), {0.5f, 1.0f}));
    const auto model = test::stubbed({{"a", dead}, {"b", behind}, {"c", test::make_conv(2, 2, 1, 3)}},
                                     [](test::LambdaModel& m, nn::Arguments x) {
                                         const nn::Value y = m.call("b", nn::relu(m.call("a", x[0])));
                                         return m.call("c", nn::relu(y));
                                     });
    const Tensor alive = test::random_tensor(Shape(2, 2, 3, 3), 3);
    for (const char* observer : {"min_max", "moving_average", "histogram", "percentile", "mse"}) {
        CAPTURE(observer);
        const QConfig qconfig = get_default_calib_qconfig({.activation_observer = observer});
        const CalibrationReport of_dead = report_of(*model, qconfig, alive);
        REQUIRE(of_dead.constants.size() == 1);  // behind the relu of a; behind b each channel has a number of its own
        CHECK(of_dead.constants[0].quantizer == "activation_post_process_1");
        CHECK(of_dead.constants[0].value == 0.0f);
        for (const float value : {0.0f, 0.25f}) {
            Tensor samples = Tensor::zeros(alive.shape());
            for (float& x : samples.flat<float>()) x = value;
            const CalibrationReport report = report_of(*model, qconfig, samples);
            REQUIRE(report.constants.size() == 2);
            CHECK(report.constants[0].quantizer == "activation_post_process_0");
            CHECK(report.constants[0].value == value);
            CHECK_THAT(to_string(report), Contains("activation_post_process_0 (after quant): all data was the number"));
        }
    }
}

TEST_CASE("A percentile whose range keeps little of the data's is named, whatever the sums of squares say") {
    const auto model = test::stubbed({{"a", test::make_conv(1, 1, 1, 1)}},
                                     [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("a", x[0])); });
    const QConfig qconfig = get_default_calib_qconfig({.activation_observer = "percentile"});
    const struct {
        float near;  // the deviation of all values but two
        index_t rows;
        bool keeps_little, costs_more;
    } cases[] = {{0.001f, 250, true, true}, {0.015f, 2500, true, false}, {0.04f, 250, false, true}};
    for (const auto& c : cases) {
        CAPTURE(c.near);
        Tensor samples = test::random_tensor(Shape(1, 1, c.rows, 400), 3, c.near);
        samples.flat<float>()[77] = samples.flat<float>()[88] = 5.0f;
        const CalibrationReport report = report_of(*model, qconfig, samples);
        bool is_named = false;
        for (const CliffWarning& warning : report.cliffs) {
            if (warning.quantizer != "activation_post_process_0") continue;
            is_named = warning.choice.cliff.keeps_little();
            CHECK((warning.choice.cliff.error > warning.choice.cliff.whole_error) == c.costs_more);
        }
        CHECK(is_named == c.keeps_little);
        if (!is_named) continue;
        CHECK_THAT(to_string(report), Contains("activation_post_process_0 (after quant), channel 0: the range [") &&
                                          Contains(" % of the range of its data, and its squared error is"));
        CHECK_THAT(to_string(report), !Contains("keeps 0 %"));
    }
    CHECK(report_of(*model, qconfig, test::random_tensor(Shape(1, 1, 250, 400), 3)).cliffs.empty());
}

TEST_CASE("Moving averages over few batches are named with what is left of the first") {
    const auto model = test::stubbed({{"a", test::make_conv(1, 1, 1, 1)}},
                                     [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("a", x[0])); });
    const auto report = [&](const char* observer, float constant, std::size_t batches) {
        QConfig qconfig = get_default_calib_qconfig({.activation_observer = observer});
        qconfig.output->options.observer_options.averaging_constant = constant;
        const auto prepared =
            prepare_calibration_fx(*model, QConfigMapping().set_global(qconfig), march::bayes::policy);
        return calibrate(*prepared, std::vector<Tensor>(batches, test::random_tensor(Shape(1, 1, 4, 4), 3)));
    };
    const CalibrationReport few = report("moving_average", 0.01f, 10);
    REQUIRE(few.few_batches.size() == 1);
    CHECK(few.few_batches[0].quantizers == 2);
    CHECK(few.few_batches[0].batches == 10);
    CHECK_THAT(to_string(few), Contains("the ranges of 2 quantizers are moving averages over 10 batches, 91 % of each "
                                        "is that of the first batch; take the observer min_max, or an "
                                        "averaging_constant near 0.1"));
    CHECK(report("moving_average", 0.01f, 1).few_batches.empty());  // of one batch nothing else could be seen
    CHECK(report("moving_average", 0.01f, 71).few_batches.empty());
    CHECK(report("moving_average", 0.1f, 10).few_batches.empty());
    CHECK(report("min_max", 0.01f, 10).few_batches.empty());
}

TEST_CASE("A histogram takes data of any finite magnitude: near the largest float as near 1") {
    // The lowest float itself is a mask, which enters no range.
    const Tensor mask = Tensor::from(Shape(3), {-3.4028235f, -3.4028232e38f, -0.0f});
    CHECK(scale_of("histogram", mask) <= scale_of("min_max", mask));
    CHECK(scale_of("histogram", mask) > 0.99f * scale_of("min_max", mask));
    const Tensor masked = Tensor::from(Shape(3), {-3.4028235f, -3.4028235e38f, -0.0f});
    CHECK(scale_of("min_max", masked) < 0.1f);
    const Tensor both = Tensor::from(Shape(3), {3.4028235e38f, -3.4028232e38f, 1.0f});
    CHECK(std::isfinite(scale_of("histogram", both)));
    // By a power of two nothing changes but the magnitude.
    const Tensor x = test::random_tensor(Shape(20000), 4);
    for (const int exponent : {40, 90, 120}) {
        CAPTURE(exponent);
        Tensor far = x.clone();
        for (float& value : far.flat<float>()) value = std::ldexp(value, exponent);
        CHECK(scale_of("histogram", far) == std::ldexp(scale_of("histogram", x), exponent));
    }
    // PyTorch's own counts have no bins of such a width; the reason is said where it is observed.
    CHECK_THAT(message_of<Error>([&] { scale_of("histogram", mask, Compatibility::torch); }),
               Contains("the range of the data is too wide for a histogram of 2048 bins"));
    CHECK_THAT(message_of<Error>([&] {
                   scale_of("histogram", Tensor::from(Shape(2), {std::nanf(""), 1.0f}), Compatibility::torch);
               }),
               Contains("NaN or infinite"));
}
