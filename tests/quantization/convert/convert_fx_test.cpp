// SPDX-License-Identifier: MIT
#include "intq/quantization/convert/convert_fx.hpp"

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/graph/operators.hpp"
#include "intq/graph/print.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/elementwise.hpp"
#include "intq/quantization/operators/move.hpp"
#include "intq/quantization/operators/pool.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;

namespace {

constexpr arith::PolicyRecord bayes = target::bpu<march::bayes>::policy;
constexpr arith::PolicyRecord tflite = target::tflite<>::policy;
constexpr arith::PolicyRecord fp32 = target::fp32::policy;

std::shared_ptr<PreparedModel> calibrated(const nn::Module& model, const arith::PolicyRecord& target,
                                          const intq::Tensor& x, DType dtype = DType::int8,
                                          const PrepareOptions& options = {}) {
    const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(dtype), target, options);
    calibrate(*prepared, x, 2);
    return prepared;
}

const QuantizedNode& node_of(const QuantizedGraph& quantized, const std::string& name) {
    for (const QuantizedNode& node : quantized.nodes)
        if (node.name == name) return node;
    throw Error("no node " + name);
}

std::string types_of(const QuantizedGraph& quantized) {
    std::string text;
    for (const QuantizedNode& node : quantized.nodes)
        text += node.type + ">" + name_of(quantized.output(node).dtype) + " ";
    return text;
}

}  // namespace

TEST_CASE("A converted network is a typed list in the order of the graph") {
    test::ResidualNet model(4);
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 3);
    const QuantizedGraph quantized = convert_fx(*calibrated(model, bayes, x));
    CHECK(types_of(quantized) ==
          "QuantStub>int8 ConvReLU2d>int8 ConvReLU2d>int8 ConvAddReLU2d>int8 ConvReLU2d>int8 ConvAddReLU2d>int8 "
          "ConvReLU62d>int8 "
          "AdaptiveAvgPool2d>int8 Flatten>int8 Linear>int32 DeQuantStub>float32 ");
    REQUIRE(quantized.inputs.size() == 1);
    REQUIRE(quantized.outputs.size() == 1);
    CHECK(quantized.tensor(quantized.inputs[0]).shape == Shape(2, 3, 6, 6));

    const auto& block = node_of(quantized, "layer1_0_conv2").step_as<WeightedStep>();
    CHECK(block.sumin);
    CHECK(block.activation == Activation::relu);
    CHECK(block.op == OpKind::conv2d);
    CHECK(block.weight.dtype() == DType::int8);
    CHECK(node_of(quantized, "layer1_0_conv2").module == "layer1.0.conv2");
    CHECK(node_of(quantized, "depthwise").step_as<WeightedStep>().groups == 4);
    CHECK(node_of(quantized, "pool").step_as<AvgPoolStep>().window().kernel == Size2d{3, 3});
    CHECK(node_of(quantized, "flatten").step_as<FlattenStep>().end_axis() == 3);
    CHECK(node_of(quantized, "fc").step->kind() == OpKind::linear);

    // s_acc[c] = fmul(s_in, s_w[c])
    const QuantizedNode& fc = node_of(quantized, "fc");
    const auto& weight_scales = fc.step_as<WeightedStep>().weight_qparams.scales;
    const intq::OwnedQParams& accumulator = quantized.output(fc).qparams;
    REQUIRE(accumulator.scales.size() == 5);
    for (std::size_t c = 0; c < 5; ++c)
        CHECK(accumulator.scales[c] == quantized.input(fc, 0).qparams.scale() * weight_scales[c]);
    CHECK(accumulator.axis == 1);
}

TEST_CASE("Weights are quantized with scales that were raised for bias and fused add") {
    // One channel's weights are almost zero, its bias is not.
    const auto conv = test::make_conv(1, 2, 1, 1);
    conv->set_weight(intq::Tensor::from(Shape(2, 1, 1, 1), {1.0f, 1e-12f}));
    conv->set_bias(intq::Tensor::from(Shape(2), {0.5f, 100.0f}));
    const auto model = test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                         {"conv", conv},
                                         {"dequant", std::make_shared<nn::DeQuantStub>()}},
                                        [](test::LambdaModel& m, nn::Arguments x) {
                                            const nn::Value q = m.call("quant", x[0]);
                                            return m.call("dequant", nn::relu(m.call("conv", q)));
                                        });
    const intq::Tensor x = intq::Tensor::from(Shape(1, 1, 1, 2), {-1.0f, 1.0f});
    const QuantizedGraph quantized = convert_fx(*calibrated(*model, bayes, x));
    const auto& step = node_of(quantized, "conv").step_as<WeightedStep>();
    const double input_scale = static_cast<double>(quantized.input(node_of(quantized, "conv"), 0).qparams.scale());
    CHECK(step.weight_qparams.scales[0] == 1.0f / 127.5f);
    const double least = 100.0 / (std::ldexp(1.0, 30) * input_scale);
    CHECK(static_cast<double>(step.weight_qparams.scales[1]) >= least);
    CHECK(static_cast<double>(step.weight_qparams.scales[1]) < least * 1.000001);
    // The bias fits the accumulator: at most 2^30.
    CHECK(100.0 / (input_scale * static_cast<double>(step.weight_qparams.scales[1])) <= std::ldexp(1.0, 30));
    CHECK(step.weight.flat<std::int8_t>()[0] == 127);
    CHECK(step.weight.flat<std::int8_t>()[1] == 0);

    // For an add the operand's reach is part of it, except for fp32, which adds after the scaling.
    const auto with_add = test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                            {"conv", conv},
                                            {"dequant", std::make_shared<nn::DeQuantStub>()},
                                            {"pad", test::make_conv(1, 2, 1, 3)}},
                                           [](test::LambdaModel& m, nn::Arguments a) {
                                               const nn::Value q = m.call("quant", a[0]);
                                               return m.call("dequant", nn::relu(m.call("conv", q) + m.call("pad", q)));
                                           });
    const QuantizedGraph summed = convert_fx(*calibrated(*with_add, bayes, x)),
                         scaled = convert_fx(*calibrated(*with_add, fp32, x));
    const QuantizedNode& node = node_of(summed, "conv");
    const double reach = 100.0 + 128.0 * static_cast<double>(summed.input(node, 1).qparams.scale());
    CHECK(static_cast<double>(node.step_as<WeightedStep>().weight_qparams.scales[1]) >=
          reach / (std::ldexp(1.0, 30) * input_scale));
    CHECK(node_of(scaled, "conv").step_as<WeightedStep>().weight_qparams.scales[1] == step.weight_qparams.scales[1]);
}

TEST_CASE("The reference graph computes what the prepared model simulates") {
    test::ResidualNet model(4);
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 3);
    for (const arith::PolicyRecord* target : {&bayes, &tflite, &fp32})
        for (const DType dtype : {DType::int8, DType::int16}) {
            const auto prepared = calibrated(model, *target, x, dtype);
            const QuantizedGraph quantized = convert_fx(*prepared);
            const auto reference = make_reference(quantized);
            INFO(target->name << " " << name_of(dtype));
            CHECK(test::largest_difference((*prepared)(x).tensor(), (*reference)(x).tensor()) == 0);
            CHECK(test::largest_difference(model(x).tensor(), (*reference)(x).tensor()) > 0);
            CHECK(reference->find("layer1.0.conv1").type_name() == "ConvReLU2d");
        }
}

TEST_CASE("An edge of the reference graph holds codes of the type and range that it says") {
    test::ResidualNet model(4);
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 3);
    const auto reference = make_reference(convert_fx(*calibrated(model, bayes, x, DType::int16)));
    const std::array<nn::Value, 1> inputs{nn::Value(x)};
    int edges = 0;
    reference->run(inputs, [&](const graph::Node& node, const nn::Value& value) {
        if (node.op() != graph::Op::call_module || graph::type_of(node, *reference) != "Quantize") return;
        CHECK(value.tensor().dtype() == DType::int16);
        CHECK(value.tensor().qparams().has_value());
        ++edges;
    });
    CHECK(edges == 9);
}

TEST_CASE("Add with its relu, cat, pools and clamps convert; float operators stay between dequantize steps") {
    const auto model = test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                         {"dequant", std::make_shared<nn::DeQuantStub>()},
                                         {"largest", std::make_shared<nn::MaxPool2d>(nn::square_window(2))},
                                         {"avg", std::make_shared<nn::AvgPool2d>(nn::square_window(2))},
                                         {"softmax", std::make_shared<nn::Softmax>(1)}},
                                        [](test::LambdaModel& m, nn::Arguments x) {
                                            const nn::Value q = m.call("quant", x[0]);
                                            const nn::Value pooled = m.call("avg", q), maximum = m.call("largest", q);
                                            const nn::Value sum = nn::relu6(pooled + maximum);
                                            const nn::Value joined = nn::cat({sum, nn::relu(pooled)}, -3);
                                            return m.call("softmax", m.call("dequant", nn::flatten(joined, 1)));
                                        });
    const intq::Tensor x = test::random_tensor(Shape(2, 2, 3, 3), 5, 3.0f);
    const auto prepared = calibrated(*model, bayes, x);
    const QuantizedGraph quantized = convert_fx(*prepared);
    CHECK(types_of(quantized) ==
          "QuantStub>int8 AvgPool2d>int8 MaxPool2d>int8 add>int8 relu>int8 cat>int8 flatten>int8 DeQuantStub>float32 "
          "Softmax>float32 ");
    CHECK(node_of(quantized, "add").step_as<AddStep>().activation() == Activation::relu6);
    CHECK(node_of(quantized, "relu").step_as<ClampStep>().activation() == Activation::relu);
    CHECK(node_of(quantized, "cat").step_as<CatStep>().axis() == 1);
    CHECK(node_of(quantized, "flatten").step_as<FlattenStep>().start_axis() == 1);
    CHECK(quantized.output(node_of(quantized, "largest")).qparams ==
          quantized.input(node_of(quantized, "largest"), 0).qparams);
    CHECK_FALSE(quantized.output(node_of(quantized, "avg")).qparams ==
                quantized.input(node_of(quantized, "avg"), 0).qparams);
    const auto reference = make_reference(quantized);
    CHECK(test::largest_difference((*prepared)(x).tensor(), (*reference)(x).tensor()) < 1e-6);

    const auto divided = calibrated(*model, tflite, x);
    const QuantizedGraph same_scale = convert_fx(*divided);
    CHECK(same_scale.output(node_of(same_scale, "avg")).qparams ==
          same_scale.input(node_of(same_scale, "avg"), 0).qparams);
}

TEST_CASE("A part without qconfig stays in float, with its constants, and runs in the reference graph") {
    const auto model = test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                         {"dequant", std::make_shared<nn::DeQuantStub>()},
                                         {"a", test::make_conv(2, 2, 3, 1)},
                                         {"b", test::make_conv(2, 2, 3, 2)},
                                         {"c", test::make_conv(2, 2, 3, 3)}},
                                        [](test::LambdaModel& m, nn::Arguments x) {
                                            const nn::Value real =
                                                m.call("b", m.call("a", m.call("quant", x[0]))) + 0.5;
                                            return m.call("dequant", m.call("c", real));
                                        });
    const auto mapping = get_default_qconfig_mapping().set_module_name("b", std::nullopt);
    const auto prepared = prepare_calibration_fx(*model, mapping, bayes);
    const intq::Tensor x = test::random_tensor(Shape(1, 2, 5, 5), 5);
    calibrate(*prepared, x, 1);
    const QuantizedGraph quantized = convert_fx(*prepared);
    CHECK(types_of(quantized) ==
          "QuantStub>int8 Conv2d>int8 DeQuantize>float32 Conv2d>float32 Quantize>int8 add>int8 Conv2d>int32 "
          "DeQuantStub>float32 ");
    CHECK(test::largest_difference((*prepared)(x).tensor(), (*make_reference(quantized))(x).tensor()) < 1e-6);
}

TEST_CASE("Torch mode needs no stubs: inputs are quantized and outputs dequantized of themselves") {
    const auto model =
        test::make_model({{"conv", test::make_conv(2, 2, 3, 1)}},
                         [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("conv", x[0])); });
    const intq::Tensor x = test::random_tensor(Shape(1, 2, 5, 5), 5);
    PrepareOptions options;
    options.compatibility = Compatibility::torch;
    const auto prepared = calibrated(*model, fp32, x, DType::int8, options);
    const QuantizedGraph quantized = convert_fx(*prepared);
    CHECK(types_of(quantized) == "Quantize>int8 ConvReLU2d>int8 DeQuantize>float32 ");
    CHECK(test::largest_difference((*prepared)(x).tensor(), (*make_reference(quantized))(x).tensor()) < 1e-6);
}

TEST_CASE("A quantizer that is called again adds no step; one of another scale behind what keeps its own does") {
    const auto model = test::make_model({{"a", test::make_conv(2, 2, 3, 1)},
                                         {"b", test::make_conv(2, 2, 3, 2)},
                                         {"pool", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 1))},
                                         {"drop", std::make_shared<nn::Dropout>()}},
                                        [](test::LambdaModel& m, nn::Arguments x) {
                                            const nn::Value a = m.call("pool", nn::clamp(m.call("a", x[0]), -1, 1.5));
                                            const nn::Value b = m.call("pool", nn::clamp(m.call("b", x[0]), -2, 1));
                                            return m.call("drop", nn::mean(nn::cat({a, b}, 1), {2, 3}));
                                        });
    model->eval();
    const intq::Tensor x = test::random_tensor(Shape(2, 2, 5, 5), 5);
    PrepareOptions options;
    options.compatibility = Compatibility::torch;
    for (const arith::PolicyRecord& target : {fp32, tflite, bayes}) {
        INFO(target.name);
        const auto prepared = calibrated(*model, target, x, DType::int8, options);
        const QuantizedGraph quantized = convert_fx(*prepared);
        // Of b's the pool is the last before cat, whose scale is a's; the one of dropout is PyTorch's.
        CHECK(types_of(quantized) ==
              "Quantize>int8 Conv2d>int8 clamp>int8 MaxPool2d>int8 Conv2d>int8 clamp>int8 MaxPool2d>int8 Quantize>int8 "
              "cat>int8 mean>int8 Quantize>int8 DeQuantize>float32 ");
        CHECK(node_of(quantized, "clamp_1").as<BoundStep>() != nullptr);
        const auto scale = [&](const char* node) { return quantized.output(node_of(quantized, node)).qparams.scale(); };
        CHECK(scale("pool") == scale("a"));
        CHECK(scale("cat") == scale("a"));
        CHECK(scale("mean") == scale("a"));
        CHECK(scale("pool_1") == scale("b"));
        CHECK(scale("pool_1") != scale("a"));
        const intq::Tensor simulated = (*prepared)(x).tensor();
        CHECK(test::largest_difference(simulated, (*make_reference(quantized))(x).tensor()) < 1e-6);
    }
}

TEST_CASE("Converting before calibrating names the node; so does a wrong shape of a fused add") {
    test::ResidualNet model(4);
    const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(), bayes);
    CHECK(message_of<Error>([&] { convert_fx(*prepared); }) ==
          "convert: %activation_post_process_0 (FakeQuantize): no data was seen by the quantizer of %quant: run the "
          "prepared model on samples first (calibrate() does, and so does a training), or load the state of one that "
          "ran");
    calibrate(*prepared, test::random_tensor(Shape(1, 3, 6, 6), 3), 1);
    CHECK(message_of<Error>([&] {
              convert_fx(*prepared, tflite);
          }).find("layer1.0.conv2 (%layer1_0_conv2, qat.ConvAddReLU2d): the target tflite has no fused add") !=
          std::string::npos);
    CHECK_NOTHROW(convert_fx(*prepared, fp32));
}

TEST_CASE("Weight qparams stay as they were calibrated or set, because a forward in validation uses them") {
    const auto model = test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                         {"conv", test::make_conv(2, 2, 3, 1)},
                                         {"dequant", std::make_shared<nn::DeQuantStub>()}},
                                        [](test::LambdaModel& m, nn::Arguments x) {
                                            return m.call("dequant", nn::relu(m.call("conv", m.call("quant", x[0]))));
                                        });
    const intq::Tensor x = test::random_tensor(Shape(1, 2, 5, 5), 5);
    const auto prepared = calibrated(*model, bayes, x);
    const auto scales = [&] {
        return node_of(convert_fx(*prepared), "conv").step_as<WeightedStep>().weight_qparams.scales;
    };
    const std::vector<float> before = scales();
    for (float& weight : prepared->find("conv").tensor("weight").flat<float>()) weight *= 0.5f;
    CHECK(scales() == before);
    auto& quantizer = dynamic_cast<FakeQuantize&>(prepared->find("conv.weight_fake_quant"));
    quantizer.observe_anew(prepared->find("conv").tensor("weight"));  // as a tool that changes weights does
    CHECK(scales() == std::vector<float>{before[0] * 0.5f, before[1] * 0.5f});
    quantizer.set_qparams(0.25f);
    quantizer.observe_anew(prepared->find("conv").tensor("weight"));
    CHECK(scales() == std::vector<float>{0.25f, 0.25f});
}
