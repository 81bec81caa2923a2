// SPDX-License-Identifier: MIT
#include "intq/quantization/fake_quantize/fake_quantize.hpp"

#include <cstring>
#include <limits>
#include <memory>

#include "intq/nn/model/container.hpp"
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

TEST_CASE("A state whose zero points are 0 loads into a quantizer that has others") {
    const FakeQuantizeOptions options{.observer_options = {.scheme = arith::QuantScheme::affine}};
    const auto made = [&](float low, float high) {
        auto quantizer = std::make_shared<CalibFakeQuantize>(options);
        (*quantizer)(range(low, high));
        return quantizer;
    };
    const auto even = made(-128.0f, 127.0f), shifted = made(0.0f, 51.0f);
    REQUIRE(even->qparams().zero_points.empty());
    REQUIRE(shifted->qparams().zero_points == std::vector<std::int32_t>{-128});
    nn::load_state_dict(*shifted, nn::state_dict(*even));
    CHECK(shifted->qparams() == even->qparams());
    nn::load_state_dict(*shifted, nn::state_dict(*made(0.0f, 51.0f)));
    CHECK(shifted->qparams().zero_points == std::vector<std::int32_t>{-128});
}

TEST_CASE("A grid that is not the quantizer's own is refused, says what differs, and changes nothing") {
    using intq::OwnedQParams;
    const auto channels = [] {
        FakeQuantizeOptions options;
        options.observer = observer_factory<PerChannelMinMaxObserver>();
        return FakeQuantize(options);
    };
    const auto refusal = [](FakeQuantize& quantizer, const OwnedQParams& grid) {
        const OwnedQParams before = quantizer.qparams();
        const std::string message = message_of<Error>([&] { quantizer.set_qparams(grid); });
        CHECK(quantizer.qparams() == before);
        CHECK_FALSE(quantizer.has_given_qparams());
        CHECK(quantizer.observer_enabled());
        return message;
    };
    FakeQuantize one(FakeQuantizeOptions{}), each = channels();
    OwnedQParams grid = OwnedQParams::per_tensor(0.1f, DType::int8);
    grid.scales = {};
    CHECK(refusal(one, grid) == "FakeQuantize::set_qparams: the grid has no scale");
    grid.scales = {1.0f, 2.0f, 3.0f};
    CHECK(refusal(one, grid) == "FakeQuantize::set_qparams: the grid has 3 scales, the quantizer one");
    grid.axis = 0;
    CHECK(refusal(one, grid) ==
          "FakeQuantize::set_qparams: the grid is per channel of axis 0, the quantizer per tensor");
    CHECK(refusal(each, OwnedQParams::per_tensor(0.1f, DType::int8)) ==
          "FakeQuantize::set_qparams: the grid is per tensor, the quantizer per channel of axis 0");
    grid.axis = 1;
    CHECK(refusal(each, grid) ==
          "FakeQuantize::set_qparams: the grid is per channel of axis 1, the quantizer per channel of axis 0");
    CHECK(refusal(one, OwnedQParams::per_tensor(0.1f, DType::int16)) ==
          "FakeQuantize::set_qparams: the grid's codes are int16 from -32768 to 32767, the quantizer's "
          "int8 from -128 to 127");
    grid = OwnedQParams::per_tensor(0.1f, DType::int8);
    grid.quant_min = -8;
    grid.quant_max = 7;
    CHECK(refusal(one, grid).find("int8 from -8 to 7, the quantizer's int8 from -128 to 127") != std::string::npos);
    grid = OwnedQParams::per_tensor(0.1f, DType::int8);
    grid.zero_points = {1, 2};
    CHECK(refusal(one, grid) == "FakeQuantize::set_qparams: the grid has 2 zero points for 1 scale");
    grid.zero_points = {5};
    CHECK(refusal(one, grid) ==
          "FakeQuantize::set_qparams: the grid has the zero point 5, and the scheme of the quantizer is symmetric");
    FakeQuantizeOptions affine;
    affine.observer_options.scheme = arith::QuantScheme::affine;
    FakeQuantize(affine).set_qparams(grid);
    PACTFakeQuantize pact(FakeQuantizeOptions{});
    CHECK(refusal(pact, grid).find("PACTFakeQuantize::set_qparams: the grid has the zero point 5") == 0);
    CHECK(refusal(pact, OwnedQParams::per_tensor(0x1p125f, DType::int8)).find("beyond the largest number") !=
          std::string::npos);

    // The channels are known from the data, and from the layer whose weight it is.
    each.observe(intq::Tensor::from(Shape(3, 1), {1.0f, 2.0f, 3.0f}));
    CHECK(refusal(each, OwnedQParams::per_channel({1.0f, 2.0f}, 0, DType::int8)) ==
          "FakeQuantize::set_qparams: the grid has 2 scales, the quantizer 3 channels");
    each.set_qparams(OwnedQParams::per_channel({1.0f, 2.0f, 3.0f}, 0, DType::int8));
    FakeQuantize weight = channels();
    weight.set_weight_channels(0, 3);
    CHECK(refusal(weight, OwnedQParams::per_channel({1.0f, 2.0f}, 0, DType::int8)).find("the quantizer 3 channels") !=
          std::string::npos);
    weight.set_qparams(0.5f);
    CHECK(weight.qparams().scales == std::vector<float>(3, 0.5f));
    // One scale before any data serves all channels, and can be given again.
    FakeQuantize fresh = channels();
    fresh.set_qparams(0.5f);
    CHECK(values(fresh(intq::Tensor::from(Shape(2, 1), {0.7f, 1.2f})).tensor()) == std::vector<float>{0.5f, 1.0f});
    fresh.set_qparams(fresh.qparams());
}

TEST_CASE("A state that no run makes is refused with the quantizer's name, and changes nothing") {
    const auto channels = [] {
        FakeQuantizeOptions options;
        options.observer = observer_factory<PerChannelMinMaxObserver>();
        return options;
    };
    FakeQuantizeOptions affine;
    affine.observer_options.scheme = arith::QuantScheme::affine;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const intq::Tensor x = intq::Tensor::from(Shape(2, 1), {-1.0f, 3.0f});
    const auto refusal = [&](const std::shared_ptr<FakeQuantize>& quantizer, const std::string& name,
                             const intq::Tensor& value) {
        nn::Sequential model{quantizer};
        quantizer->observe(x);
        nn::StateDict state = nn::state_dict(model);
        std::erase_if(state, [&](const auto& item) { return item.name == "0." + name; });
        if (value.defined()) state.push_back({"0." + name, value});
        quantizer->observer().reset_min_max_vals();
        const auto before = nn::state_dict(model);
        const std::string message = message_of<Error>([&] { nn::load_state_dict(model, state); });
        CHECK(message_of<Error>([&] { nn::check_state_dict(model, state); }) == message);
        const auto after = nn::state_dict(model);
        REQUIRE(after.size() == before.size());
        for (std::size_t i = 0; i < after.size(); ++i)
            CHECK(std::memcmp(after[i].value.data(), before[i].value.data(),
                              static_cast<std::size_t>(after[i].value.bytes())) == 0);
        return message;
    };
    const auto plain = [&] { return std::make_shared<FakeQuantize>(FakeQuantizeOptions{}); };
    const auto numbers = [](std::initializer_list<float> values) {
        return intq::Tensor::from(Shape(static_cast<index_t>(values.size())), std::vector<float>(values));
    };
    for (const float scale : {nan, -1.0f, 0.0f}) {
        const std::string message = refusal(plain(), "scale", numbers({scale}));
        CHECK(message.find("0: FakeQuantize: ") == 0);
        CHECK(message.find(scale == scale ? "the scale is out of range" : "the scale is NaN") != std::string::npos);
    }
    CHECK(refusal(plain(), "zero_point", intq::Tensor::from<std::int32_t>(Shape(1), {5})).find("symmetric") !=
          std::string::npos);
    CHECK(refusal(plain(), "qparams_given", intq::Tensor::from<std::uint8_t>(Shape(1), {std::uint8_t{2}}))
              .find("qparams_given") != std::string::npos);
    CHECK(refusal(std::make_shared<LSQFakeQuantize>(FakeQuantizeOptions{}), "scale", numbers({nan})) ==
          "0.scale: element 0 is NaN or infinite");
    CHECK(refusal(std::make_shared<LSQFakeQuantize>(affine), "zero_point", {}).find("0.zero_point") == 0);
    CHECK(refusal(std::make_shared<PACTFakeQuantize>(FakeQuantizeOptions{}), "alpha", numbers({nan})) ==
          "0.alpha: element 0 is NaN or infinite");
    const std::string observer = "activation_post_process.";
    CHECK(refusal(plain(), observer + "min_val", numbers({nan})) ==
          "0.activation_post_process: MovingAverageMinMaxObserver: the range of channel 0 is from nan to 3.000000");
    CHECK(refusal(plain(), observer + "min_val", numbers({4.0f})).find("is from 4.000000 to 3.000000") !=
          std::string::npos);
    CHECK(refusal(plain(), observer + "min_val", {}).find("only one is there") != std::string::npos);
    CHECK(refusal(plain(), observer + "max_val", {}).find("only one is there") != std::string::npos);
    CHECK(refusal(plain(), observer + "min_val", numbers({-1.0f, -1.0f})).find("expected float32 (1)") !=
          std::string::npos);

    // Of a quantizer that has no scale yet, a state may say any number of channels that its kind and layer can have.
    const auto fresh_refusal = [&](const std::shared_ptr<FakeQuantize>& quantizer, const intq::Tensor& scale) {
        nn::Sequential model{quantizer};
        nn::StateDict state = nn::state_dict(model);
        state.push_back({"0.scale", scale});
        return message_of<Error>([&] { nn::load_state_dict(model, state); });
    };
    CHECK(fresh_refusal(plain(), numbers({1.0f, 2.0f})) == "0: FakeQuantize: it has 2 scales and is per tensor");
    CHECK(fresh_refusal(plain(), numbers({})) == "0: FakeQuantize: it has no scale");
    const auto weight = std::make_shared<FakeQuantize>(channels());
    weight->set_weight_channels(0, 3);
    CHECK(fresh_refusal(weight, numbers({1.0f, 2.0f})) ==
          "0: FakeQuantize: it has 2 scales and is per channel of axis 0, of 3 channels");
    CHECK(fresh_refusal(weight, numbers({1.0f, 2.0f, 3.0f})) == "nothing was thrown");
    // The sign of a learned scale is that of a step that no forward has seen yet.
    const auto learned = std::make_shared<LSQFakeQuantize>(FakeQuantizeOptions{});
    CHECK(fresh_refusal(learned, numbers({-0.5f})) == "nothing was thrown");
    CHECK(learned->qparams().scale() == 0.5f);
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
