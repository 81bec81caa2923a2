// SPDX-License-Identifier: MIT
//
// What the documents of PyTorch and Horizon say of observers and fake-quantizers, each name in a program as a reader of
// the document would write it. The comment above a program quotes the document.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "intq/nn/model/repr.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/quantization/fake_quantize/lsq_fake_quantize.hpp"
#include "intq/quantization/fake_quantize/pact_fake_quantize.hpp"
#include "intq/quantization/observers/observer_modules.hpp"
#include "intq/quantization/qconfig/qconfig_factories.hpp"
#include "intq/training/autograd.hpp"
#include "intq/training/gradients/internal/quantize.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
using test::message_of;

namespace {

std::vector<float> values(const Tensor& x) { return {x.flat<float>().begin(), x.flat<float>().end()}; }

Tensor row(const std::vector<float>& numbers) { return Tensor::from(Shape(numbers.size()), numbers); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

FakeQuantizeOptions per_channel(int ch_axis = 0) {
    FakeQuantizeOptions options;
    options.observer = observer_factory<PerChannelMinMaxObserver>();
    options.observer_options.ch_axis = ch_axis;
    return options;
}

}  // namespace

// foo_builder = Foo.with_args(a=3, b=4).with_args(answer=42)
// foo_instance1 = foo_builder(); foo_instance2 = foo_builder(); id(foo_instance1) == id(foo_instance2): False
TEST_CASE("with_args is chained, and makes a new quantizer at each call") {
    const auto builder = FakeQuantize::with_args([](FakeQuantizeOptions& args) {
                             args.observer = observer_factory<MinMaxObserver>();
                             args.saturate = false;
                         }).with_args([](FakeQuantizeOptions& args) { args.observer_options.dtype = DType::int16; });
    const auto first = builder(), second = builder();
    CHECK(first != second);
    CHECK(first->observer().type_name() == "MinMaxObserver");
    CHECK_FALSE(first->saturates());
    CHECK(second->dtype() == DType::int16);
    // What was chained on is as it was.
    const auto eight_bits =
        builder.with_args([](FakeQuantizeOptions& args) { args.observer_options.dtype = DType::int8; });
    CHECK(eight_bits()->dtype() == DType::int8);
    CHECK(builder()->dtype() == DType::int16);
    // A qconfig takes it, and each class makes its own.
    const QConfig qconfig{std::nullopt, PACTFakeQuantize::with_args([](auto&) {}), builder};
    CHECK(qconfig.output->make({}, Compatibility::horizon)->type_name() == "FakeQuantize");
    CHECK((*qconfig.weight)()->type_name() == "PACTFakeQuantize");
    CHECK(LSQFakeQuantize::with_args([](auto&) {})()->type_name() == "LSQFakeQuantize");
    CHECK(CalibFakeQuantize::with_args([](auto&) {})()->type_name() == "CalibFakeQuantize");
}

// in_place – Whether use in place fake quantize.
TEST_CASE("in_place rounds in the memory of the input, but not while a gradient is recorded") {
    FakeQuantizeOptions options;
    options.in_place = true;
    FakeQuantize quantizer(options);
    quantizer.set_qparams(0.5f);
    const Tensor x = row({0.3f, -0.9f, 1000.0f});
    const Tensor y = quantizer(x).tensor();
    CHECK(y.shares_buffer_with(x));
    CHECK(values(x) == std::vector<float>{0.5f, -1.0f, 63.5f});
    CHECK(y.qparams()->scale() == 0.5f);

    quantizer.enable_fake_quant(false);
    const Tensor z = row({0.3f});
    quantizer(z);
    CHECK(values(z) == std::vector<float>{0.3f});

    quantizer.enable_fake_quant();
    nn::Tape tape;
    const nn::TapeScope recording(&tape);
    CHECK_FALSE(quantizer(z).tensor().shares_buffer_with(z));
    CHECK(values(z) == std::vector<float>{0.3f});
    options.in_place = false;
    FakeQuantize apart(options);
    CHECK_FALSE(apart(z).tensor().shares_buffer_with(z));
}

// channel_len – Size of data at channel dim.
TEST_CASE("channel_len says the number of channels before any data, and another number is refused") {
    FakeQuantizeOptions options = per_channel(1);
    options.channel_len = 3;
    FakeQuantize quantizer(options);
    CHECK(quantizer.qparams().scales == std::vector<float>{1.0f, 1.0f, 1.0f});
    CHECK(quantizer.qparams().axis == 1);
    CHECK(has(message_of<Error>([&] { quantizer(Tensor::zeros(Shape(2, 4))); }),
              "a tensor has 4 channels, channel_len says 3"));
    CHECK(has(message_of<Error>([&] {
                  quantizer.set_qparams(std::vector<float>{0.5f, 0.25f});
              }),
              "the grid has 2 scales, the quantizer 3 channels"));
    quantizer.set_qparams(0.5f);
    CHECK(quantizer.qparams().scales == std::vector<float>{0.5f, 0.5f, 0.5f});
    CHECK(values(quantizer(Tensor::from(Shape(1, 3), {0.3f, 0.8f, -0.3f})).tensor()) ==
          std::vector<float>{0.5f, 1.0f, -0.5f});
    options.channel_len = 0;
    CHECK_THROWS_AS(FakeQuantize(options), Error);
    CHECK(has(message_of<Error>([] { FakeQuantize({.channel_len = 2}); }), "given 2 with ch_axis -1"));
}

// set_qparams(scale: Union[torch.Tensor, Sequence, float], zero_point: Optional[Union[torch.Tensor, Sequence, int]])
// Set qparams, default symmetric.
TEST_CASE("set_qparams takes a number, a sequence or a tensor of scales") {
    FakeQuantize quantizer(per_channel());
    quantizer.set_qparams(Tensor::from(Shape(2), {0.5f, 0.25f}));
    CHECK(quantizer.qparams().scales == std::vector<float>{0.5f, 0.25f});
    CHECK(quantizer.qparams().axis == 0);
    CHECK(quantizer.qparams().zero_points.empty());
    CHECK(values(quantizer(Tensor::from(Shape(2, 1), {0.3f, 0.3f})).tensor()) == std::vector<float>{0.5f, 0.25f});
    FakeQuantizeOptions affine = per_channel();
    affine.observer_options.scheme = arith::QuantScheme::affine;
    FakeQuantize with_zeros(affine);
    with_zeros.set_qparams(std::vector<float>{1.0f, 2.0f}, std::vector<std::int32_t>{3, -4});
    CHECK(with_zeros.qparams().zero_points == std::vector<std::int32_t>{3, -4});
    CHECK(with_zeros.has_given_qparams());

    affine.observer = FakeQuantizeOptions{}.observer;
    affine.observer_options.ch_axis = -1;
    FakeQuantize single(affine);
    single.set_qparams(Tensor::from(Shape(1), {0.5f}), Tensor::from<std::int32_t>(Shape(1), {7}));
    CHECK(single.qparams().scale() == 0.5f);
    CHECK(single.qparams().zero_points == std::vector<std::int32_t>{7});
    const auto refusal = [&](FakeQuantize& q, const std::vector<float>& scales, std::vector<std::int32_t> zeros = {}) {
        return message_of<Error>([&] { q.set_qparams(scales, zeros); });
    };
    CHECK(has(refusal(single, {0.5f, 0.25f}), "the grid has 2 scales, the quantizer one"));
    CHECK(has(refusal(quantizer, {1.0f, 2.0f, 3.0f}), "the grid has 3 scales, the quantizer 2 channels"));
    CHECK(has(refusal(quantizer, {1.0f, 2.0f}, {1}), "the grid has 1 zero points for 2 scales"));
    CHECK(has(refusal(quantizer, {}), "the grid has no scale"));
    CHECK(has(message_of<Error>([&] { quantizer.set_qparams(Tensor::zeros(Shape(2, 2))); }), "given (2, 2)"));
    CHECK_THROWS_AS(quantizer.set_qparams(std::vector<float>{1.0f, -2.0f}), Error);
    CHECK(has(refusal(quantizer, {1.0f, 2.0f}, {3, -4}),
              "the zero point 3, and the scheme of the quantizer is symmetric"));
    CHECK(quantizer.qparams().scales == std::vector<float>{0.5f, 0.25f});
}

// extra_repr(): Set the extra representation of the module. To print customized extra information, you should
// re-implement this method in your own modules.
TEST_CASE("A model prints its quantizers and observers with what they hold") {
    const auto quantizer = std::make_shared<FakeQuantize>(FakeQuantizeOptions{});
    CHECK(quantizer->observer().extra_repr() == "min_val=[], max_val=[]");
    (*quantizer)(row({-1.0f, 127.5f}));
    const nn::Sequential model{std::make_shared<nn::ReLU>(), quantizer};
    CHECK(nn::to_string(model) ==
          "Sequential(\n"
          "  (0): ReLU()\n"
          "  (1): FakeQuantize(\n"
          "    fake_quant_enabled=true, observer_enabled=true, quant_min=-128, quant_max=127, dtype=int8, "
          "qscheme=per_tensor_symmetric, ch_axis=-1, scale=1, zero_point=0\n"
          "    (activation_post_process): MovingAverageMinMaxObserver(min_val=-1, max_val=127.5)\n"
          "  )\n"
          ")");
    PerChannelMinMaxObserver channels;
    channels(Tensor::from(Shape(2, 2), {0.5f, 1.0f, -2.0f, 0.25f}));
    CHECK(nn::to_string(channels) == "PerChannelMinMaxObserver(min_val=[0.5, -2], max_val=[1, 0.25])");
    CHECK(nn::to_string(FixedScaleObserver({.scheme = arith::QuantScheme::affine, .scale = 0.1f, .zero_point = 3})) ==
          "FixedScaleObserver(scale=0.1, zero_point=3)");
}

// reduce_range – If True, reduces the range of the quantized data type by 1 bit
TEST_CASE("reduce_range halves the codes, as PyTorch does") {
    const MinMaxObserver observer({.reduce_range = true});
    CHECK(observer.options().lowest() == -64);
    CHECK(observer.options().highest() == 63);
    MinMaxObserver seen({.reduce_range = true});
    seen(row({-1.0f, 2.0f}));
    CHECK(seen.calculate_qparams().scale() == 2.0f / 63.5f);
    CHECK(seen.calculate_qparams().quant_max == 63);
    // Custom ends are halved too; the whole range of a wider type stays; and int8's is what unsigned codes have.
    CHECK(ObserverOptions{.quant_min = -127, .quant_max = 127, .reduce_range = true}.lowest() == -64);
    CHECK(ObserverOptions{.dtype = DType::int16, .reduce_range = true}.highest() == 32767);
    CHECK(ObserverOptions{.dtype = DType::uint8, .reduce_range = true}.highest() == 127);
    // PyTorch 2.6: [-1, 2, 3.5] in affine quint8 with reduce_range has the scale 0x1.22448ap-5 and the zero point 28.
    MinMaxObserver affine({.dtype = DType::uint8, .reduce_range = true, .scheme = arith::QuantScheme::affine});
    affine(row({-1.0f, 2.0f, 3.5f}));
    CHECK(affine.calculate_qparams().scale() == 0x1.22448ap-5f);
    CHECK(affine.calculate_qparams().zero_points == std::vector<std::int32_t>{28});
    CHECK(has(message_of<Error>([] { MinMaxObserver({.dtype = DType::uint8, .reduce_range = true}); }),
              "reduce_range has no symmetric scheme for uint8"));
}

// weight_fake_quant – FakeQuantize type of weight, default is fake_quant. Avaliable items are fake_quant, lsq and pact.
TEST_CASE("Weights have pact with a bound for each channel") {
    const QConfig qconfig = get_default_qat_qconfig({.weight_fake_quant = "pact"});
    const auto quantizer = qconfig.weight->make({}, Compatibility::horizon);
    auto& pact = static_cast<PACTFakeQuantize&>(*quantizer);
    CHECK_FALSE(pact.has_qparams());
    const Tensor weight = Tensor::from(Shape(2, 3), {0.5f, -1.275f, 0.2f, 2.55f, 1.0f, -3.0f});
    const Tensor y = pact(weight).tensor();  // the first forward says where the bounds start
    CHECK(std::fabs(pact.alpha(0) - 1.275f) < 1e-6f);
    CHECK(std::fabs(pact.alpha(1) - 3.0f) < 1e-6f);
    CHECK(std::fabs(y.qparams()->scales[0] - 0.01f) < 1e-6f);
    CHECK(y.qparams()->axis == 0);

    // The bounds learn from what they clip, each from its own channel.
    pact.tensor("alpha") = row({1.0f, 2.0f});
    const std::array<nn::Value, 1> input{weight};
    const nn::Value output = pact(weight);
    const training::FinishedCall call{&pact, nn::Arguments(input), &output, {}};
    const Tensor dy = Tensor::from(Shape(2, 3), {1.0f, 2.0f, 4.0f, 8.0f, 16.0f, 32.0f});
    training::GradientContext context(call, std::span(&dy, 1), {});
    training::detail::pact_backward(context);
    CHECK(values(context.input_gradients()[0][0]) == std::vector<float>{1.0f, 0.0f, 4.0f, 0.0f, 16.0f, 0.0f});
    CHECK(values(context.parameter_gradients()[0].second) == std::vector<float>{-2.0f, 8.0f - 32.0f});
}

// qat_model.load_state_dict(calib_model.state_dict())
TEST_CASE("A quantizer that learns takes the state of a calibrated one with another observer") {
    FakeQuantizeOptions calibration;
    calibration.observer = observer_factory<PercentileObserver>();
    FakeQuantize calibrated(calibration);
    calibrated(row({-2.55f, 1.0f}));
    const float scale = calibrated.qparams().scale();
    const nn::StateDict state = nn::state_dict(calibrated);

    FakeQuantize qat{FakeQuantizeOptions{}};
    nn::load_state_dict(qat, state);
    CHECK(qat.qparams().scale() == scale);
    CHECK_FALSE(qat.observer().seen());  // a moving average cannot go on from a histogram
    LSQFakeQuantize lsq{FakeQuantizeOptions{}};
    nn::load_state_dict(lsq, state);
    CHECK(lsq.tensor("scale").flat<float>()[0] == scale);
    PACTFakeQuantize pact{FakeQuantizeOptions{}};
    nn::load_state_dict(pact, state);
    CHECK(pact.alpha() == scale * 127.5f);
    nn::load_state_dict(qat, nn::state_dict(pact));  // the way back
    CHECK(qat.qparams().scale() == scale * 127.5f / 127.5f);
}

TEST_CASE("A quantizer that learns its zero point takes the state of a calibrated one with the same observer") {
    PACTFakeQuantize pact{FakeQuantizeOptions{}};
    FakeQuantizeOptions affine;
    affine.observer_options.scheme = arith::QuantScheme::affine;
    FakeQuantize with_zero(affine);
    with_zero(row({0.0f, 2.55f}));
    LSQFakeQuantize learns_both(affine);
    nn::load_state_dict(learns_both, nn::state_dict(with_zero));
    CHECK(learns_both.qparams() == with_zero.qparams());
    CHECK(learns_both.observer().seen());
    CHECK(has(message_of<Error>([&] { nn::load_state_dict(pact, nn::state_dict(with_zero)); }), "zero point"));
}
