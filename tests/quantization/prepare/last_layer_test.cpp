// SPDX-License-Identifier: MIT
//
// The last layer, whose accumulator is the output: what fits the 32 bits of it, and who may take it away.
#include <memory>
#include <vector>

#include "intq/arith/bpu.hpp"
#include "intq/improve/mixed_precision.hpp"
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using intq::Tensor;
using meta = target::bpu<march::meta>;
using test::message_of;

namespace {

/// A convolution between stubs.
nn::ModulePtr last_layer(const nn::ModulePtr& conv) {
    return test::stubbed({{"conv", conv}}, [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", x[0]); });
}

std::shared_ptr<PreparedModel> calibrated(const nn::Module& model, const QConfigMapping& mapping, const Tensor& x) {
    auto prepared = prepare_calibration_fx(model, mapping, meta::policy);
    calibrate(*prepared, std::vector<Tensor>{x});
    return prepared;
}

/// SQNR of the program's integers.
double sqnr_of(PreparedModel& prepared, nn::Module& model, const Tensor& x) {
    const Tensor y = lower(convert_fx(prepared), program::best_table<meta>(), x.extent(0)).run(x).contiguous();
    const Tensor exact = model(x).tensor().contiguous();
    return static_cast<double>(numeric_suite::compute_sqnr(exact.flat<float>(), y.flat<float>()));
}

bool gives_accumulator(PreparedModel& prepared, const std::string& layer) {
    const graph::Node& reader = *prepared.graph().find(layer)->users().at(0);
    return dynamic_cast<const Quantizer*>(graph::module_of(reader, prepared)) == nullptr;
}

}  // namespace

TEST_CASE("A dead channel with a bias: an accumulator of 64 bits that is handed out has its scale raised to fit 32") {
    const auto conv = test::make_conv(3, 4, 3, 1);
    Tensor weight = conv->weight().clone();
    for (std::size_t i = 0; i < 27; ++i) weight.flat<float>()[i] = 0.0f;
    conv->set_weight(weight);
    conv->set_bias(Tensor::from(Shape(4), {-1.25f, 0.5f, 3.0f, -2.0f}));
    const auto model = last_layer(conv);
    const Tensor x = test::random_tensor(Shape(4, 3, 8, 8), 3);
    const auto prepared = calibrated(*model, get_default_qconfig_mapping(DType::int16), x);
    CHECK(gives_accumulator(*prepared, "conv"));
    CHECK(sqnr_of(*prepared, *model, x) > 40.0);
    // Fake quantization rounds with the same raised scale.
    const auto& layer = dynamic_cast<const PreparedWeight&>(prepared->find("conv"));
    CHECK(layer.hands_out_accumulator());
    Tensor input = x.clone();
    input.set_qparams(intq::OwnedQParams::per_tensor(1e-4f, DType::int16));
    const std::vector<nn::Value> inputs{input};
    const Tensor rounded = layer.quantized_weight(nn::Arguments(inputs));
    CHECK(rounded.qparams()->scales.at(0) >= 1.25f / (0x1p30f * 1e-4f));
}

TEST_CASE(
    "A last layer whose products may leave 32 bits keeps its quantizer, where lower would refuse the accumulator") {
    const auto conv = std::make_shared<nn::Conv2d>(nn::Conv2dOptions{600, 2, nn::square_window(1), 1, true});
    Tensor weight = Tensor::empty(conv->weight().shape());
    for (std::size_t i = 0; i < weight.flat<float>().size(); ++i) weight.flat<float>()[i] = i % 2 == 0 ? 0.5f : -0.5f;
    conv->set_weight(weight);
    conv->set_bias(Tensor::from(Shape(2), {0.25f, -0.5f}));
    const auto model = last_layer(conv);
    const Tensor x = test::random_tensor(Shape(2, 600, 2, 2), 3);
    const auto prepared = calibrated(*model, get_default_qconfig_mapping(DType::int16), x);
    CHECK_FALSE(gives_accumulator(*prepared, "conv"));
    CHECK(sqnr_of(*prepared, *model, x) > 45.0);  // 0.5 is 127 of 127.5 steps
    // Asked for, it is refused with the numbers and the ways out.
    QConfig high = get_default_calib_qconfig(DType::int16, DType::int8);
    high.input = high.output;
    high.output.reset();
    const QConfigMapping asked = get_default_qconfig_mapping(DType::int16).set_module_name("conv", high);
    CHECK_THAT(message_of<Error>([&] { calibrated(*model, asked, x); }),
               Contains("the largest that fits is 2147483647") && Contains("a quantizer of the output"));
}

TEST_CASE("Sensitive operators and mixed precision leave the last layer its accumulator") {
    const auto model =
        test::stubbed({{"a", test::make_conv(3, 8, 3, 1)}, {"b", test::make_conv(8, 4, 3, 2)}},
                      [](test::LambdaModel& m, nn::Arguments x) { return m.call("b", nn::relu(m.call("a", x[0]))); });
    const Tensor x = test::random_tensor(Shape(4, 3, 8, 8), 3);
    const double plain = sqnr_of(*calibrated(*model, get_default_qconfig_mapping(), x), *model, x);
    const auto check = [&](const QConfigMapping& mapping, DType weight) {
        const auto prepared = calibrated(*model, mapping, x);
        CHECK(gives_accumulator(*prepared, "b"));
        CHECK(dynamic_cast<const PreparedWeight&>(prepared->find("b")).weight_fake_quant().dtype() == weight);
        CHECK(sqnr_of(*prepared, *model, x) > plain - 0.05);
    };
    for (const char* type : {"weight", "activation", "both"}) {
        CAPTURE(type);
        const std::vector<SensitiveOperator> list{{"b", type, "Conv2d", 1.0}};
        QConfigMapping mapping = get_default_qconfig_mapping();
        CHECK(set_sensitive_operators(mapping, list, {.top_k = 1, .int16_weights = true}).size() == 1);
        check(mapping, std::string(type) == "activation" ? DType::int8 : DType::int16);
    }
    QConfigMapping mapping = get_default_qconfig_mapping();
    improve::MixedPrecision choice;
    choice.int16 = {"b"};
    improve::set_mixed_precision(mapping, choice);
    check(mapping, DType::int8);
    // An entry of one's own by name says what the output is, as before.
    mapping.set_module_name("b", get_default_calib_qconfig(DType::int16));
    CHECK_FALSE(gives_accumulator(*calibrated(*model, mapping, x), "b"));
}
