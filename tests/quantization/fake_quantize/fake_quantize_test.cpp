// SPDX-License-Identifier: MIT
#include "intq/quantization/fake_quantize/fake_quantize.hpp"

#include "intq/nn/model/state_dict.hpp"
#include "intq/quantization/fake_quantize/lsq_fake_quantize.hpp"
#include "intq/quantization/fake_quantize/pact_fake_quantize.hpp"
#include "intq/quantization/observers/range_observers.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;

namespace {

intq::Tensor range(float low, float high) { return intq::Tensor::from(Shape(2), {low, high}); }

std::vector<float> values(const intq::Tensor& x) { return {x.flat<float>().begin(), x.flat<float>().end()}; }

}  // namespace

TEST_CASE("Observers keep min and max, move an average, and work per channel") {
    MinMaxObserver min_max;
    CHECK_FALSE(min_max.seen());
    CHECK(min_max.calculate_qparams().scale() == 1.0f);
    min_max(range(-1.0f, 2.0f));
    min_max(range(-3.0f, 1.0f));
    CHECK(min_max.calculate_qparams().scale() == 3.0f / 127.5f);

    MovingAverageMinMaxObserver average({.dtype = DType::int16, .averaging_constant = 0.5f});
    average(range(-1.0f, 2.0f));
    average(range(-1.0f, 4.0f));
    CHECK(average.calculate_qparams().scale() == 3.0f / 32767.5f);

    PerChannelMinMaxObserver channels({.ch_axis = 1});
    channels(intq::Tensor::from(Shape(1, 2, 2), {1.0f, -2.0f, 5.0f, 0.0f}));
    const intq::OwnedQParams qparams = channels.calculate_qparams();
    CHECK(qparams.scales == std::vector<float>{2.0f / 127.5f, 5.0f / 127.5f});
    CHECK(qparams.axis == 1);
    CHECK_THROWS_AS(MinMaxObserver({.ch_axis = 0}), Error);
}

TEST_CASE("Observers refuse NaN, infinity and another number of channels, and stay as they were") {
    MovingAveragePerChannelMinMaxObserver observer({.ch_axis = 0});
    observer(intq::Tensor::from(Shape(2, 1), {1.0f, 2.0f}));
    const intq::OwnedQParams before = observer.calculate_qparams();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    CHECK(message_of<Error>([&] {
              observer(intq::Tensor::from(Shape(2, 2), {1.0f, 2.0f, nan, 0.0f}));
          }).find("element 2 of the input is NaN or infinite") != std::string::npos);
    CHECK(message_of<Error>([&] {
              observer(intq::Tensor::zeros(Shape(3, 1)));
          }).find("has 3 channels, the ones before had 2") != std::string::npos);
    observer(intq::Tensor::zeros(Shape(0, 1)));
    CHECK(observer.calculate_qparams() == before);
    observer.reset_min_max_vals();
    CHECK_FALSE(observer.seen());
}

TEST_CASE("The state of an observer is cloned with it and then its own") {
    MinMaxObserver observer;
    observer(range(-1.0f, 2.0f));
    const auto copy = std::dynamic_pointer_cast<MinMaxObserver>(nn::clone(static_cast<const nn::Module&>(observer)));
    CHECK(copy->calculate_qparams() == observer.calculate_qparams());
    (*copy)(range(-9.0f, 0.0f));
    CHECK(observer.calculate_qparams().scale() == 2.0f / 127.5f);
}

TEST_CASE("FakeQuantize observes, computes the scale, rounds with the fresh scale, and says it") {
    FakeQuantize quantizer(FakeQuantizeOptions{});
    CHECK_FALSE(quantizer.has_qparams());
    const intq::Tensor y = quantizer(range(-127.5f, 3.3f)).tensor();
    CHECK(values(y) == std::vector<float>{-128.0f, 3.0f});
    REQUIRE(y.qparams().has_value());
    CHECK(y.qparams()->scale() == 1.0f);
    CHECK(y.qparams()->dtype == DType::int8);

    quantizer.set_qparams(0.5f);
    CHECK(values(quantizer(range(-1.3f, 1000.0f)).tensor()) == std::vector<float>{-1.5f, 63.5f});
    CHECK_FALSE(quantizer.observer_enabled());
    CHECK_THROWS_AS(quantizer.set_qparams(-1.0f), Error);
    CHECK_THROWS_AS(quantizer.set_qparams(1.0f, 300), Error);
}

TEST_CASE("Given scales stay given in the model that a state is loaded into") {
    FakeQuantizeOptions options;
    const auto check = [&](auto make) {
        const auto given = make(), loaded = make(), observed = make();
        given->set_qparams(0.5f);
        nn::load_state_dict(*loaded, nn::state_dict(*given));
        INFO(loaded->type_name());
        CHECK(loaded->has_given_qparams());
        loaded->train();
        (*loaded)(range(-3.0f, 100.0f));
        CHECK(loaded->qparams() == given->qparams());
        CHECK(loaded->qparams().scale() == 0.5f);
        CHECK(static_cast<FakeQuantize&>(*nn::clone(loaded)).has_given_qparams());

        // And those of the data take their place with a state of data.
        (*observed)(range(-1.0f, 1.0f));
        CHECK_FALSE(observed->has_given_qparams());
        nn::load_state_dict(*loaded, nn::state_dict(*observed));
        CHECK_FALSE(loaded->has_given_qparams());
        CHECK(loaded->qparams() == observed->qparams());
    };
    check([&] { return std::make_shared<FakeQuantize>(options); });
    check([&] { return std::make_shared<LSQFakeQuantize>(options); });
    check([&] { return std::make_shared<PACTFakeQuantize>(options); });
}

TEST_CASE("States of a model switch observing and rounding of all quantizers") {
    nn::Sequential model{std::make_shared<FakeQuantize>(FakeQuantizeOptions{}),
                         std::make_shared<CalibFakeQuantize>(FakeQuantizeOptions{})};
    model.eval();
    auto& first = dynamic_cast<FakeQuantize&>(model.find("0"));
    auto& second = dynamic_cast<FakeQuantize&>(model.find("1"));
    set_fake_quantize(model, FakeQuantState::calibration);
    const intq::Tensor y = model(range(-1.0f, 0.3f)).tensor();
    CHECK(values(y) == std::vector<float>{-1.0f, 0.3f});
    CHECK(y.qparams().has_value());
    CHECK(first.has_qparams());
    const intq::OwnedQParams calibrated = first.qparams();

    set_fake_quantize(model, FakeQuantState::validation);
    CHECK(values(model(range(-2.0f, 0.3f)).tensor())[0] == -128 * calibrated.scale());
    CHECK(first.qparams() == calibrated);
    CHECK_FALSE(second.fake_quant_enabled());

    set_fake_quantize(model, FakeQuantState::float_);
    CHECK(values(model(range(-2.0f, 0.3f)).tensor()) == std::vector<float>{-2.0f, 0.3f});
    CHECK(first.qparams() == calibrated);
}

TEST_CASE("With rounding on, evaluation observes in torch mode only") {
    for (const Compatibility compatibility : {Compatibility::horizon, Compatibility::torch}) {
        FakeQuantizeOptions options;
        options.compatibility = compatibility;
        FakeQuantize quantizer(options);
        quantizer.eval();
        quantizer(range(-1.0f, 1.0f));
        CHECK(quantizer.has_qparams() == (compatibility == Compatibility::torch));
        quantizer.train();
        quantizer(range(-1.0f, 1.0f));
        CHECK(quantizer.has_qparams());
    }
}

TEST_CASE("A following quantizer rounds to the grid of its source") {
    const auto source = std::make_shared<FakeQuantize>(FakeQuantizeOptions{});
    source->set_qparams(2.0f);
    FollowingFakeQuantize following(source);
    CHECK(values(following(range(3.2f, -0.9f)).tensor()) == std::vector<float>{4.0f, -0.0f});
    source->enable_fake_quant(false);
    CHECK(values(following(range(3.2f, -0.9f)).tensor()) == std::vector<float>{3.2f, -0.9f});
}
