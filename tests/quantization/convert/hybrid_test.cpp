// SPDX-License-Identifier: MIT
//
// Hybrid models, custom modules and explain(): what runs outside of a program, and what is said of it.
#include "intq/quantization/convert/hybrid.hpp"

#include <iostream>

#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_custom.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/explain.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/dynamic/weight_only.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/modules/custom_modules.hpp"
#include "intq/quantization/operators/custom.hpp"
#include "intq/quantization/operators/float_step.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/own_qconfig.hpp"
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

std::shared_ptr<PreparedModel> calibrated(const nn::Module& model, const Tensor& x, const PrepareOptions& options,
                                          const char* target = "bayes") {
    const auto prepared =
        prepare_calibration_fx(model, get_default_qconfig_mapping(), test::scalar_table(target).policy(), options);
    calibrate(*prepared, x, x.extent(0));
    return prepared;
}

// --- a custom module: y = |x|, which the library has no operator for --------------------------------------------

struct Magnitude : nn::Cloneable<Magnitude> {
    std::string type_name() const override { return "Magnitude"; }
    nn::Value forward(nn::Arguments arguments) override {
        Tensor y = arguments.tensor(0).clone();
        for (float& value : y.flat<float>()) value = std::abs(value);
        y.set_qparams(std::nullopt);
        return y;
    }
};
struct ObservedMagnitude : nn::Cloneable<ObservedMagnitude, Magnitude> {
    std::string type_name() const override { return "ObservedMagnitude"; }
    bool is_leaf() const override { return true; }
};
/// On codes: the magnitude in steps of the input, rounded to steps of the output.
struct QuantizedMagnitude : nn::Cloneable<QuantizedMagnitude> {
    explicit QuantizedMagnitude(intq::OwnedQParams output) : output(std::move(output)) {}
    std::string type_name() const override { return "QuantizedMagnitude"; }
    bool is_leaf() const override { return true; }
    nn::Value forward(nn::Arguments arguments) override {
        Tensor y = arguments.tensor(0).contiguous().clone();
        const float ratio = y.qparams().value().scale() / output.scale();
        for (std::int8_t& code : y.flat<std::int8_t>())
            code =
                static_cast<std::int8_t>(std::min(127.0f, std::nearbyint(std::abs(static_cast<float>(code)) * ratio)));
        y.set_qparams(output);
        ++calls;
        return y;
    }
    intq::OwnedQParams output;
    inline static int calls = 0;
};

PrepareCustomConfig prepare_config() {
    PrepareCustomConfig config;
    config.float_to_observed_custom_module_class[QuantType::static_]["Magnitude"] = [](const nn::Module&) {
        return std::make_shared<ObservedMagnitude>();
    };
    return config;
}
ConvertCustomConfig convert_config() {
    ConvertCustomConfig config;
    config.observed_to_quantized_custom_module_class[QuantType::static_]["ObservedMagnitude"] =
        [](const nn::Module&, const intq::OwnedQParams& output) {
            return std::make_shared<QuantizedMagnitude>(output);
        };
    return config;
}

nn::ModulePtr magnitude_model() {
    return test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                             {"conv1", test::make_conv(3, 4, 3, 1)},
                             {"magnitude", std::make_shared<Magnitude>()},
                             {"conv2", test::make_conv(4, 2, 3, 2)},
                             {"dequant", std::make_shared<nn::DeQuantStub>()}},
                            [](test::LambdaModel& m, nn::Arguments x) {
                                const nn::Value y = m.call("magnitude", m.call("conv1", m.call("quant", x[0])));
                                return m.call("dequant", m.call("conv2", y));
                            });
}

}  // namespace

TEST_CASE("A hybrid model runs named modules in float, and the rest as the program would") {
    const test::ResidualNet model(4);
    const Tensor x = test::random_tensor(Shape(3, 3, 6, 6), 3);
    PrepareOptions options;
    options.hybrid = true;
    const auto whole = calibrated(model, x, options);
    const HybridModel all(convert_fx(*whole), test::scalar_table("bayes"), 2);
    CHECK(all.program_count() == 1);
    CHECK(same_bytes(all.run(x), lower(convert_fx(*whole), test::scalar_table("bayes"), 2).run(x)));
    CHECK_NOTHROW(check_deployable(all.quantized()));

    // A name covers what is below; fused modules are named by their parts.
    options.hybrid_dict = {{"AdaptiveAvgPool2d"}, {"layer1.0.conv2", "depthwise"}};
    const auto prepared = calibrated(model, x, options);
    const HybridModel hybrid(convert_fx(*prepared), test::scalar_table("bayes"), 2);
    std::string in_float;
    for (const QuantizedNode& node : hybrid.quantized().nodes)
        if (node.as<FloatStep>() != nullptr) in_float += node.module + " ";
    CHECK(in_float == "layer1.0.conv2 depthwise pool flatten ");  // a flatten keeps what it gets
    CHECK(hybrid.program_count() == 3);
    const Tensor y = hybrid.run(x), exact = (*nn::clone(model))(x).tensor();
    const double reach = test::largest_difference(exact, Tensor::zeros(exact.shape()));
    CHECK(test::largest_difference(y, (*make_reference(hybrid.quantized()))(x).tensor()) < 0.05 * reach);
    CHECK_FALSE(same_bytes(y, all.run(x)));
    CHECK(same_bytes(y.batch(2, 1), hybrid.run(x.batch(2, 1))));

    CHECK(message_of<Error>([&] { check_deployable(hybrid.quantized()); }) ==
          "the model is hybrid and not deployable to the target bayes; outside of a program run: layer1.0.conv2 "
          "(ConvAddReLU2d), depthwise (ConvReLU62d), pool (AdaptiveAvgPool2d), flatten (Flatten)");
    CHECK(message_of<Error>([&] { lower(hybrid.quantized(), test::scalar_table("bayes")); }).find("stays in float") !=
          std::string::npos);
}

// y = conv(x) + row, with one row for all samples.
struct WithRow : nn::Cloneable<WithRow> {
    WithRow() {
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("conv", test::make_conv(3, 4, 3, 1));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        add_parameter("row", test::random_tensor(Shape(1, 4, 1, 6), 5));
    }
    std::string type_name() const override { return "WithRow"; }
    nn::Value forward(nn::Arguments x) override {
        return call("dequant", call("conv", call("quant", x[0])) + nn::Value(tensor("row")));
    }
};

TEST_CASE("A tensor of the model is an operand of each sample, and a constant of the program") {
    const WithRow model;
    const Tensor x = test::random_tensor(Shape(3, 3, 6, 6), 3);
    for (const char* target : {"fp32", "tflite", "litert", "bayes"}) {
        CAPTURE(target);
        const auto prepared = calibrated(model, x, {}, target);
        const QuantizedGraph quantized = convert_fx(*prepared);
        const Tensor y = lower(quantized, test::scalar_table(target), 2).run(x),
                     exact = (*nn::clone(model))(x).tensor();
        const double reach = test::largest_difference(exact, Tensor::zeros(exact.shape()));
        CHECK(test::largest_difference(y, exact) < 0.05 * reach);
        const HybridModel hybrid(quantized, test::scalar_table(target), 2);
        CHECK(hybrid.program_count() == 1);
        CHECK(same_bytes(y, hybrid.run(x)));
        CHECK(same_bytes(y, ExactSimulation(quantized, test::scalar_table(target), 2).run(std::span(&x, 1))[0]));
        CHECK(same_bytes(y.batch(2, 1), hybrid.run(x.batch(2, 1))));
    }
    // Beside a layer in float: each program has the constant as its own.
    PrepareOptions options;
    options.hybrid = true;
    options.hybrid_dict = {{}, {"conv"}};
    const auto prepared = calibrated(model, x, options);
    const HybridModel hybrid(convert_fx(*prepared), test::scalar_table("bayes"), 2);
    const Tensor y = hybrid.run(x), reference = (*make_reference(hybrid.quantized()))(x).tensor();
    const double reach = test::largest_difference(y, Tensor::zeros(y.shape()));
    CHECK(test::largest_difference(y, reference) < 0.05 * reach);  // a tie may fall to the other side in float
    CHECK(same_bytes(y.batch(2, 1), hybrid.run(x.batch(2, 1))));
}

TEST_CASE("A tensor of the model that differs from sample to sample is refused by prepare") {
    WithRow model;
    model.tensor("row") = test::random_tensor(Shape(3, 4, 1, 6), 5);
    CHECK(message_of<Error>([&] {
              prepare_calibration_fx(model, get_default_qconfig_mapping(), test::scalar_table("bayes").policy(),
                                     {.example_inputs = {test::random_tensor(Shape(3, 3, 6, 6), 3)}});
          }).find("a constant operand is the same for each sample: expected shape (1, ...), given (3, 4, 1, 6)") !=
          std::string::npos);
}

TEST_CASE("A hybrid_dict stands above the modules' own qconfigs, and must be asked for with names that exist") {
    test::ResidualNet model(4);
    const Tensor x = test::random_tensor(Shape(2, 3, 6, 6), 3);
    set_qconfig(model, default_qconfig());
    set_qconfig(*model.child("fc"), default_qconfig());
    PrepareOptions options;
    options.hybrid_dict.module_name = {"fc"};
    CHECK(message_of<Error>([&] { calibrated(model, x, options); }) ==
          "prepare: there is a hybrid_dict, but hybrid is off; a hybrid model must be asked for");
    options.hybrid = true;
    const auto prepared = calibrated(model, x, options);
    CHECK_FALSE(prepared->is_quantized(*prepared->graph().find("fc")));
    CHECK(prepared->is_quantized(*prepared->graph().find("depthwise")));
    options.hybrid_dict.module_name = {"layer1.0.con"};
    const std::string unknown = message_of<Error>([&] { calibrated(model, x, options); });
    CAPTURE(unknown);
    CHECK(unknown.find("hybrid_dict: the model has no module \"layer1.0.con\"; the nearest are ") == 0);
    CHECK(unknown.find("\"layer1.0.conv1\"") != std::string::npos);
    options.hybrid_dict = {{"Conv3d"}, {}};
    CHECK(message_of<Error>([&] { calibrated(model, x, options); }).find("\"Conv3d\"") != std::string::npos);
}

TEST_CASE("A hybrid_dict finds a type that is part of a fused batch norm") {
    const auto model =
        test::stubbed({{"norm", test::make_batch_norm<nn::BatchNorm2d>(3, 2)}, {"relu", std::make_shared<nn::ReLU>()}},
                      [](test::LambdaModel& m, nn::Arguments v) { return m.call("relu", m.call("norm", v[0])); });
    model->eval();
    const Tensor x = test::random_tensor(Shape(2, 3, 4, 4), 3);
    PrepareOptions options;
    options.hybrid = true;
    CHECK(calibrated(*model, x, options)->report().fallbacks.empty());
    options.hybrid_dict.module_type = {"ReLU"};
    CHECK_FALSE(calibrated(*model, x, options)->report().fallbacks.empty());
}

TEST_CASE("A custom module is observed, quantized by its author's class, and runs on codes") {
    const nn::ModulePtr model = magnitude_model();
    const Tensor x = test::random_tensor(Shape(3, 3, 5, 5), 9);
    PrepareOptions options;
    options.custom = prepare_config();
    const auto prepared = calibrated(*model, x, options, "fp32");
    CHECK(prepared->report().fallbacks.empty());
    CHECK(prepared->find("magnitude").type_name() == "ObservedMagnitude");
    QuantizedMagnitude::calls = 0;
    const QuantizedGraph quantized = convert_fx(*prepared, convert_config());
    const HybridModel hybrid(quantized, test::scalar_table("fp32"), 3);
    CHECK(hybrid.program_count() == 2);
    const Tensor y = hybrid.run(x);
    CHECK(QuantizedMagnitude::calls == 1);
    const Tensor exact = (*model)(x).tensor();
    const double reach = test::largest_difference(exact, Tensor::zeros(exact.shape()));
    CHECK(test::largest_difference(y, exact) < 0.05 * reach);
    CHECK(test::largest_difference(y, exact) > 0);
    CHECK(test::largest_difference(y, (*make_reference(quantized))(x).tensor()) < 0.01 * reach);

    // Without a graph: the same bits.
    PrepareModulesOptions eager;
    eager.custom = prepare_config();
    QConfigMapping mapping = get_default_qconfig_mapping();
    mapping.set_module_name("conv2", get_default_calib_out_qconfig());
    const nn::ModulePtr by_modules = prepare_calibration(model, mapping, test::scalar_table("fp32").policy(), eager);
    (*by_modules)(x);
    const nn::ModulePtr converted = convert(by_modules, test::scalar_table("fp32"), {.custom = convert_config()});
    CHECK(same_bytes((*converted)(x).tensor(), y));
    CHECK(converted->child("magnitude")->type_name() == "QuantizedMagnitude");

    CHECK(message_of<Error>([&] { convert(by_modules, test::scalar_table("fp32")); }) ==
          "convert: magnitude (ObservedMagnitude): observed_to_quantized_custom_module_class has no static entry of "
          "this type");
    CHECK(message_of<Error>([&] {
              convert_fx(*prepared, ConvertCustomConfig{});
          }).find("convert: %magnitude (ObservedMagnitude)") == 0);
    CHECK(message_of<Error>([&] {
              HybridModel(convert_fx(*prepared), test::scalar_table("fp32"), 3).run(x);
          }).find("the custom module is observed only") != std::string::npos);
    CHECK(message_of<Error>([&] { lower(quantized, test::scalar_table("fp32")); }).find("it is a custom module") !=
          std::string::npos);
    options.custom.float_to_observed_custom_module_class[QuantType::static_]["Magnitude"] = [](const nn::Module&) {
        return std::make_shared<Magnitude>();
    };
    CHECK(message_of<Error>([&] { calibrated(*model, x, options, "fp32"); }).find("must be a leaf") !=
          std::string::npos);
}

TEST_CASE("A custom module whose result is real is quantized; codes of other qparams are refused") {
    const Tensor codes =
        quantize(test::random_tensor(Shape(2, 8), 3), intq::OwnedQParams::per_tensor(0.02f, DType::int8), {});
    const intq::OwnedQParams output = intq::OwnedQParams::per_tensor(0.05f, DType::int8);
    struct Gives : nn::Cloneable<Gives> {
        explicit Gives(Tensor value) : value(std::move(value)) {}
        std::string type_name() const override { return "Gives"; }
        nn::Value forward(nn::Arguments) override { return value; }
        Tensor value;
    };
    const Tensor real = test::random_tensor(Shape(2, 8), 4);
    QuantizedCustomModule quantized(std::make_shared<Gives>(real), output, {});
    CHECK(same_bytes(quantized(codes).tensor(), quantize(real, output, {})));
    QuantizedCustomModule wrong(std::make_shared<Gives>(codes), output, {});
    CHECK(message_of<Error>([&] { wrong(codes); }).find("codes of its output's qparams") != std::string::npos);
}

TEST_CASE("Dynamic and weight-only custom modules keep real values on both sides") {
    const nn::ModulePtr model = magnitude_model();
    const Tensor x = test::random_tensor(Shape(2, 3, 5, 5), 9);
    PrepareOptions options;
    options.custom.non_traceable_module_class = {"Magnitude"};
    const auto prepared = calibrated(*model, x, options, "fp32");
    CHECK(prepared->report().fallbacks.size() == 1);
    for (const QuantType mode : {QuantType::dynamic, QuantType::weight_only}) {
        int made = 0;
        ConvertCustomConfig config;
        config.observed_to_quantized_custom_module_class[mode]["Magnitude"] = [&](const nn::Module&,
                                                                                  const intq::OwnedQParams&) {
            ++made;
            return std::make_shared<nn::Tanh>();
        };
        const QuantizedGraph quantized = convert_fx(*prepared, config);
        CHECK(made == 1);
        const HybridModel changed(quantized, test::scalar_table("fp32"), 2),
            plain(convert_fx(*prepared), test::scalar_table("fp32"), 2);
        CHECK_FALSE(same_bytes(changed.run(x), plain.run(x)));
    }
}

TEST_CASE("A from_observed that gives no module is refused by the name of its module") {
    const nn::ModulePtr model = magnitude_model();
    const Tensor x = test::random_tensor(Shape(2, 3, 5, 5), 9);
    const kernels::KernelTable& table = test::scalar_table("fp32");
    const auto nothing = [](const nn::Module&, const intq::OwnedQParams&) { return nn::ModulePtr(); };
    PrepareOptions options;
    options.custom.non_traceable_module_class = {"Magnitude"};
    const auto in_float = calibrated(*model, x, options, "fp32");
    options.custom = prepare_config();
    const auto observed = calibrated(*model, x, options, "fp32");
    const nn::ModulePtr eager_in_float = prepare_calibration(model, get_default_qconfig_mapping(), table.policy());
    const nn::ModulePtr eager_observed =
        prepare_calibration(model, get_default_qconfig_mapping(), table.policy(), {.custom = prepare_config()});
    for (const auto& module : {eager_in_float, eager_observed}) (*module)(x);

    ConvertCustomConfig config;
    config.observed_to_quantized_custom_module_class[QuantType::static_]["ObservedMagnitude"] = nothing;
    CHECK(message_of<Error>([&] { convert_fx(*observed, config); }) ==
          "convert: %magnitude (ObservedMagnitude): its from_observed returned no module");
    CHECK(message_of<Error>([&] { convert(eager_observed, table, {.custom = config}); }) ==
          "convert: magnitude (ObservedMagnitude): its from_observed returned no module");
    for (const QuantType mode : {QuantType::dynamic, QuantType::weight_only}) {
        config = {};
        config.observed_to_quantized_custom_module_class[mode]["Magnitude"] = nothing;
        CHECK(message_of<Error>([&] { convert_fx(*in_float, config); }) ==
              "convert: %magnitude (Magnitude): its from_observed returned no module");
        CHECK(message_of<Error>([&] { convert(eager_in_float, table, {.custom = config}); }) ==
              "convert: magnitude (Magnitude): its from_observed returned no module");
    }
    // In place, what throws leaves the float module.
    CHECK_THROWS_AS(prepare_calibration(model, get_default_qconfig_mapping().set_module_name("conv3", std::nullopt),
                                        table.policy(), {.inplace = true, .custom = prepare_config()}),
                    Error);
    CHECK(model->child("magnitude")->type_name() == "Magnitude");
    const intq::OwnedQParams qparams = intq::OwnedQParams::per_tensor(0.05f, DType::int8);
    CHECK(message_of<Error>([&] { QuantizedCustomModule(nullptr, qparams, {}); }) ==
          "a quantized custom module: the child \"module\" is null");
    CHECK(message_of<Error>([&] { CustomOnReals(nullptr, qparams, {}); }) ==
          "a quantized custom module: the child \"module\" is null");
}

TEST_CASE("A prepared layer that becomes one in float is refused by convert, and by quantize_weight_only") {
    const nn::ModulePtr model = magnitude_model();
    PrepareOptions options;
    options.custom.non_traceable_module_class = {"Magnitude"};
    const auto prepared = calibrated(*model, test::random_tensor(Shape(2, 3, 5, 5), 9), options, "fp32");
    CHECK(
        message_of<Error>([&] { quantize_weight_only(prepared, {.inplace = true}); }) ==
        "quantize_weight_only: conv1 (qat.Conv2d): the model is prepared already; quantize its weights first, prepare "
        "leaves them so");
    CHECK_NOTHROW(convert_fx(*prepared));
    prepared->replace_child("conv1", quantize_weight_only(model)->child("conv1"));
    CHECK(message_of<Error>([&] {
              convert_fx(*prepared);
          }).find("it is to compute on codes, and has no integer form") != std::string::npos);
}

TEST_CASE("explain names the larger table of an int16 function, which one that a target pins does not have") {
    const auto model = test::stubbed(
        {{"conv", test::make_conv(3, 4, 1, 1)}},
        [](test::LambdaModel& m, nn::Arguments v) { return nn::tanh(nn::sqrt(nn::abs(m.call("conv", v[0]))) * 20.0); });
    const Tensor x = test::random_tensor(Shape(2, 3, 9, 9), 3);
    const auto reason_of = [&](const kernels::KernelTable& table, const std::string& node) {
        const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping(DType::int16), table.policy());
        calibrate(*prepared, x, 2);
        for (const ExplainedStep& step : explain(convert_fx(*prepared), table).steps)
            if (step.node == node) return step.reason;
        throw Error("no step " + node);
    };
    const std::string larger = "bytes: with one of 1026 codes would be more than one off";
    for (const char* target : {"fp32", "litert", "bayes"}) {
        INFO(target);
        CHECK_THAT(reason_of(test::scalar_table(target), "sqrt"), Catch::Contains(larger));
        CHECK(reason_of(test::scalar_table(target), "abs_1").empty());
    }
    CHECK_THAT(reason_of(test::scalar_table("fp32"), "tanh"), Catch::Contains(larger));
    CHECK(reason_of(test::scalar_table("litert"), "tanh").empty());  // pinned
}

TEST_CASE("explain names types, kernel, backend and reason of each step; strict refuses what no kernel runs") {
    const Tensor x = test::random_tensor(Shape(2, 3, 6, 6), 3);
    const auto whole = calibrated(test::ResidualNet(4), x, {});
    const Explanation all = explain(convert_fx(*whole), test::scalar_table("bayes"), &whole->report());
    const auto step = [](const Explanation& explanation, const std::string& node) {
        for (const ExplainedStep& found : explanation.steps)
            if (found.node == node) return found;
        throw Error("no step " + node);
    };
    CHECK(all.target == "bayes");
    CHECK(all.backend == "scalar");
    CHECK_FALSE(all.has_fallback());
    CHECK_NOTHROW(all.check_strict());
    CHECK(step(all, "quant").kernel == "quantize/f32s8");
    CHECK(step(all, "stem").kernel == "gemm/s8s8s8/per_channel");
    CHECK(step(all, "stem").dtypes == "int8 x int8 -> int8");
    CHECK(step(all, "depthwise").kernel == "depthwise/s8s8s8/per_channel");
    CHECK(step(all, "fc").kernel == "gemm/s8s8s32/per_channel");
    CHECK(step(all, "fc").backend == "scalar");
    CHECK(step(all, "pool").kernel == "avg_pool2d/s8s8");

    const auto model = test::stubbed({{"grouped", test::make_conv(3, 6, 3, 1, 1, 3)},
                                      {"own", test::make_user_layer()},
                                      {"conv", test::make_conv(6, 2, 1, 2)},
                                      {"wide", std::make_shared<nn::AvgPool2d>(nn::square_window(8, 1))}},
                                     [](test::LambdaModel& m, nn::Arguments v) {
                                         const nn::Value y = m.call("conv", m.call("own", m.call("grouped", v[0])));
                                         return m.call("wide", y);
                                     });
    const auto prepared = calibrated(*model, test::random_tensor(Shape(2, 3, 9, 9), 3), {});
    // Prepared for a target that takes the window, and converted for one that does not.
    const kernels::KernelTable& narrow = test::scalar_table("bernoulli2");
    const Explanation mixed = explain(convert_fx(*prepared, narrow.policy()), narrow, &prepared->report());
    CHECK(step(mixed, "grouped").reason ==
          "a gemm for each of 3 groups: the depthwise kernel needs as many output channels as groups");
    CHECK(step(mixed, "own").kernel == "float");
    CHECK(step(mixed, "own").reason == "it has no integer form");
    CHECK(step(mixed, "own").dtypes == "float32 -> float32");
    CHECK(step(mixed, "wide").kernel == "none");
    CHECK(step(mixed, "wide").reason.find("the kernel is out of range: given 8") != std::string::npos);
    CHECK(mixed.has_fallback());
    const std::string strict = message_of<Error>([&] { mixed.check_strict(); });
    CHECK(strict.find("own (UserLayer): float, because it has no integer form") != std::string::npos);
    CHECK(strict.find("wide (AvgPool2d): none, because ") != std::string::npos);
    CHECK(strict.find("grouped") == std::string::npos);
    std::cout << to_string(mixed);
    CHECK(to_string(mixed).find("target bernoulli2, backend scalar\n") == 0);
    CHECK(message_of<Error>([&] { calibrated(*model, x, {.strict = true}); }).find("strict is on") !=
          std::string::npos);
}
