// SPDX-License-Identifier: MIT
//
// default_qconfig(): PyTorch's, with the scheme that mode and target decide; and prepare without any qconfig.
#include <vector>

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/own_qconfig.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using intq::Tensor;
using test::message_of;

namespace {

nn::ModulePtr one_conv() {
    return test::stubbed({{"conv", test::make_conv(2, 3, 1, 1)}},
                         [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("conv", x[0])); });
}

Tensor filled(float value) {
    Tensor x = Tensor::zeros(Shape(1, 2, 2, 2));
    x.flat<float>()[0] = value;
    return x;
}

FakeQuantize& quantizer_of(nn::Module& model, const std::string& name) {
    return dynamic_cast<FakeQuantize&>(model.find(name));
}

}  // namespace

TEST_CASE("default_qconfig keeps the extremes of all batches, with one scale for a tensor") {
    const auto model = one_conv();
    const std::vector<Tensor> batches{filled(0.1536f), filled(-0.22f)};
    const auto prepared =
        prepare_calibration_fx(*model, QConfigMapping().set_global(default_qconfig()), march::bayes::policy);
    calibrate(*prepared, batches);
    const FakeQuantize& input = quantizer_of(*prepared, "activation_post_process_0");
    CHECK(input.observer().type_name() == "MinMaxObserver");
    // A moving average forgets nearly all of the second batch, and clips -0.22 to -0.1536.
    CHECK(input.qparams().scale() == Approx(0.22 / 127.5).epsilon(1e-6));
    CHECK(input.qparams().zero_points.empty());
    const FakeQuantize& weight = dynamic_cast<PreparedWeight&>(prepared->find("conv")).weight_fake_quant();
    CHECK(weight.observer().type_name() == "MinMaxObserver");
    CHECK(weight.qparams().scales.size() == 1);
    const QConfig qconfig = default_qconfig();
    CHECK(qconfig.output->dtype() == DType::int8);
    CHECK(qconfig.weight->options.observer_options.ch_axis == -1);
}

TEST_CASE("default_qconfig is affine in torch mode on targets with zero points, and symmetric elsewhere") {
    const auto model = one_conv();
    const struct {
        arith::PolicyRecord target;
        Compatibility compatibility;
        bool is_affine;
    } cases[] = {{target::fp32::policy, Compatibility::torch, true},
                 {target::tflite<>::policy, Compatibility::torch, true},
                 {march::bayes::policy, Compatibility::torch, false},
                 {target::fp32::policy, Compatibility::horizon, false},
                 {march::bayes::policy, Compatibility::horizon, false}};
    for (const auto& c : cases) {
        CAPTURE(c.target.name, c.compatibility == Compatibility::torch);
        PrepareOptions options;
        options.compatibility = c.compatibility;
        PrepareModulesOptions eager;
        eager.compatibility = c.compatibility;
        set_qconfig(*model, default_qconfig());  // by the modules' own, too
        const auto graph = prepare_calibration_fx(*model, QConfigMapping(), c.target, options);
        const auto modules = prepare_calibration(model, QConfigMapping(), c.target, eager);
        for (const auto& module : {static_cast<nn::ModulePtr>(graph), modules}) {
            (*module)(filled(3.0f));
            int activations = 0;
            for (const auto& each : module->named_modules())
                if (const auto* quantizer = dynamic_cast<const FakeQuantize*>(each.value)) {
                    const auto scheme = quantizer->options().observer_options.scheme;
                    const bool is_weight = each.name.find("weight_fake_quant") != std::string::npos;
                    activations += !is_weight;
                    CHECK((scheme == arith::QuantScheme::affine) == (c.is_affine && !is_weight));
                    // PyTorch's 0 … 127 is not copied.
                    if (!is_weight) CHECK(quantizer->qparams().quant_max - quantizer->qparams().quant_min == 255);
                }
            CHECK(activations == 2);
        }
    }
}

TEST_CASE("An empty mapping on a model without qconfigs is refused by eager prepare and quantize, as by FX") {
    const auto& table = program::best_table<target::fp32>();
    const auto run = [](nn::Module& model) { model(filled(1.0f)); };
    const auto model = one_conv();
    for (const std::string& message :
         {message_of<Error>([&] { prepare_calibration(model, QConfigMapping(), table.policy()); }),
          message_of<Error>([&] { prepare_qat(model, QConfigMapping(), table.policy()); }),
          message_of<Error>([&] { quantize(model, run, QConfigMapping(), table); }),
          message_of<Error>([&] { prepare_calibration_fx(*model, QConfigMapping(), table.policy()); })})
        CHECK_THAT(message,
                   Contains("its qconfig is none, as is every other") && Contains("nothing would be quantized"));
    CHECK_THAT(message_of<Error>([&] { prepare_calibration(model, QConfigMapping(), table.policy()); }),
               Contains("prepare: "));
    // A key that matches nothing is the likelier cause, whatever kind it is of.
    const QConfig qconfig = default_qconfig();
    for (const QConfigMapping& mistyped :
         {QConfigMapping().set_module_name("conw", qconfig), QConfigMapping().set_module_name_regex("conw.*", qconfig),
          QConfigMapping().set_object_type("Conw2d", qconfig),
          QConfigMapping().set_global(std::nullopt).set_module_name("conw", qconfig)})
        for (const std::string& message :
             {message_of<Error>([&] { prepare_calibration(model, mistyped, table.policy()); }),
              message_of<Error>([&] { prepare_qat(model, mistyped, table.policy()); }),
              message_of<Error>([&] { prepare_calibration_fx(*model, mistyped, table.policy()); }),
              message_of<Error>([&] { prepare_qat_fx(*model, mistyped, table.policy()); })})
            CHECK_THAT(message, Contains("no operator matches") && Contains("conw", Catch::CaseSensitive::No) &&
                                    Contains("nearest are") && Contains("conv", Catch::CaseSensitive::No));
    // Without a mapping, and with modules that carry one, all is as before.
    CHECK(prepare_calibration(model, table.policy())->find("conv").has_child("weight_fake_quant"));
    set_qconfig(*model->child("conv"), default_qconfig());
    set_qconfig(*model->child("quant"), default_qconfig());
    CHECK(prepare_calibration(model, QConfigMapping(), table.policy())->find("conv").has_child("weight_fake_quant"));
}
