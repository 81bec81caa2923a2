// SPDX-License-Identifier: MIT
//
// Lowering: the program has the instructions of the model, and its numbers are near those of the reference graph.
// That they are exactly those of the arithmetic is held against the oracle elsewhere.
#include "intq/quantization/convert/lower.hpp"

#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/exact_simulation.hpp"
#include "intq/quantization/convert/hybrid.hpp"
#include "intq/quantization/operators/conv.hpp"
#include "intq/quantization/operators/reference.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::message_of;
using test::stubbed;

namespace {

const kernels::KernelTable& table_of(std::string_view target) {
    const auto scalar = test::scalar_tables();
    for (const kernels::KernelTable* table : scalar.tables)
        if (target == table->policy().name) return *table;
    throw Error("no kernels of target " + std::string(target));
}

QuantizedGraph convert(const nn::Module& model, std::string_view target, const intq::Tensor& x,
                       DType dtype = DType::int8) {
    const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(dtype), table_of(target).policy());
    calibrate(*prepared, x, 2);
    return convert_fx(*prepared);
}

std::string instructions_of(const LoweredModel& model) {
    std::string text;
    for (const runtime::Instruction& instruction : model.program().program().instructions)
        text += std::string(instruction.name) + ":" + name_of(instruction.op) + " ";
    return text;
}

}  // namespace

TEST_CASE("A residual network becomes a program with the names of its modules") {
    test::ResidualNet model(4);
    const intq::Tensor x = test::random_tensor(Shape(5, 3, 6, 6), 3);
    const LoweredModel lowered = lower(convert(model, "bayes", x), table_of("bayes"), 2);
    CHECK(instructions_of(lowered) ==
          "quant:quantize stem:conv2d layer1.0.conv1:conv2d layer1.0.conv2:conv2d "
          "layer1.1.conv1:conv2d layer1.1.conv2:conv2d "
          "depthwise:conv2d pool:avg_pool2d fc:linear dequant:dequantize ");
    CHECK(lowered.tail() == nullptr);
    CHECK(std::string_view(lowered.program().program().instructions[3].type) == "ConvAddReLU2d");
}

TEST_CASE("The program's output is near the reference graph's, for every target and type that takes the model") {
    test::ResidualNet model(4);
    const intq::Tensor x = test::random_tensor(Shape(5, 3, 6, 6), 3);
    const intq::Tensor exact = model(x).tensor();
    double reach = 0;
    for (const float value : exact.flat<float>()) reach = std::max(reach, std::abs(static_cast<double>(value)));
    struct Row {
        const char* target;
        DType dtype;
        double bound;  // of the distance from the reference graph, as a part of the largest output
    };
    // bernoulli2 rounds down behind every layer: half a code a layer that float rounding does not lose.
    for (const Row& row :
         {Row{"fp32", DType::int8, 0.001}, Row{"tflite", DType::int8, 0.05}, Row{"bayes", DType::int8, 0.05},
          Row{"bernoulli2", DType::int8, 0.2}, Row{"meta", DType::int8, 0.05}, Row{"bayes", DType::int16, 0.001},
          Row{"meta", DType::int16, 0.001}}) {
        INFO(row.target << " " << name_of(row.dtype));
        const QuantizedGraph quantized = convert(model, row.target, x, row.dtype);
        const intq::Tensor reference = (*make_reference(quantized))(x).tensor();
        const intq::Tensor y = lower(quantized, table_of(row.target), 2).run(x);
        CHECK(test::largest_difference(y, reference) < row.bound * reach);
    }
}

TEST_CASE("A linear layer behind a flatten reads the image, whose order is not the vector's") {
    const auto model = stubbed({{"conv", test::make_conv(2, 3, 3, 1)},
                                {"flat", std::make_shared<nn::Flatten>()},
                                {"fc", test::make_linear(3 * 4 * 5, 4, 2)}},
                               [](test::LambdaModel& m, nn::Arguments x) {
                                   return m.call("fc", m.call("flat", nn::relu(m.call("conv", x[0]))));
                               });
    const intq::Tensor x = test::random_tensor(Shape(3, 2, 4, 5), 3);
    const QuantizedGraph quantized = convert(*model, "fp32", x);
    const LoweredModel lowered = lower(quantized, table_of("fp32"), 3);
    CHECK(instructions_of(lowered) == "quant:quantize conv:conv2d fc:linear dequant:dequantize ");
    // The bias is a code in the program and real in the reference graph: half a step of the accumulator.
    float step = 0;
    for (const QuantizedTensor& tensor : quantized.tensors)
        if (tensor.dtype == DType::int32)
            step = *std::max_element(tensor.qparams.scales.begin(), tensor.qparams.scales.end());
    CHECK(step > 0);
    CHECK(test::largest_difference(lowered.run(x), (*make_reference(quantized))(x).tensor()) <
          0.51 * static_cast<double>(step));
}

TEST_CASE("The scratch of one layer may lie where a tensor lay before: the layers of that tensor need none") {
    const auto model = stubbed({{"wide", test::make_conv(3, 11, 1, 1)},
                                {"pool", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))},
                                {"middle", test::make_conv(11, 13, 3, 2)},
                                {"last", test::make_conv(13, 11, 1, 3)}},
                               [](test::LambdaModel& m, nn::Arguments x) {
                                   return m.call("last", m.call("middle", m.call("pool", m.call("wide", x[0]))));
                               });
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 14, 9), 3);
    const QuantizedGraph quantized = convert(*model, "fp32", x);
    const intq::Tensor expected = lower(quantized, table_of("fp32"), 1).run(x);
    for (const test::BackendTables& backend : test::usable_backend_tables())
        for (const kernels::KernelTable* table : backend.tables)
            if (std::string_view(table->policy().name) == "fp32") {
                INFO(backend.name);
                CHECK(test::largest_difference(lower(quantized, *table, 1).run(x), expected) < 1e-12);
            }
}

TEST_CASE("A flatten that something else reads is written") {
    const auto model = stubbed({{"flat", std::make_shared<nn::Flatten>()}, {"fc", test::make_linear(12, 3, 2)}},
                               [](test::LambdaModel& m, nn::Arguments x) {
                                   const nn::Value flat = m.call("flat", x[0]);
                                   return nn::cat({nn::relu(flat), nn::relu6(flat)}, 1);
                               });
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 2, 2), 3);
    const QuantizedGraph quantized = convert(*model, "fp32", x);
    const LoweredModel lowered = lower(quantized, table_of("fp32"), 1);
    CHECK(instructions_of(lowered) ==
          "quant:quantize flat:layout_change relu:relu relu6:relu cat:cat dequant:dequantize ");
    CHECK(test::largest_difference(lowered.run(x), (*make_reference(quantized))(x).tensor()) < 1e-6);
}

TEST_CASE("Pools, add with relu6 and cat run in a program as in the reference graph") {
    const auto model = stubbed({{"max", std::make_shared<nn::MaxPool2d>(nn::square_window(2))},
                                {"avg", std::make_shared<nn::AvgPool2d>(nn::square_window(2))}},
                               [](test::LambdaModel& m, nn::Arguments x) {
                                   const nn::Value pooled = m.call("avg", x[0]);
                                   return nn::cat({nn::relu6(pooled + m.call("max", x[0])), nn::relu(pooled)}, 1);
                               });
    const intq::Tensor x = test::random_tensor(Shape(2, 2, 5, 4), 5, 4.0f);
    // One code apart where integers and floats round to different sides of a tie; behind two such steps, two codes.
    for (const auto& [target, codes] : {std::pair{"fp32", 0.01}, std::pair{"tflite", 2.01}, std::pair{"bayes", 2.01}}) {
        INFO(target);
        const QuantizedGraph quantized = convert(*model, target, x);
        const intq::Tensor reference = (*make_reference(quantized))(x).tensor();
        const double step = static_cast<double>(quantized.input(quantized.nodes.back(), 0).qparams.scale());
        CHECK(test::largest_difference(lower(quantized, table_of(target), 2).run(x), reference) < codes * step);
    }
}

TEST_CASE("A softmax behind the DeQuantStub becomes the tail; what stays in float in the middle is refused by name") {
    const auto last = test::make_model(
        {{"net", std::make_shared<test::ResidualNet>(4)}, {"softmax", std::make_shared<nn::Softmax>(1)}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("softmax", m.call("net", x[0])); });
    const intq::Tensor x = test::random_tensor(Shape(3, 3, 6, 6), 3);
    const QuantizedGraph quantized = convert(*last, "fp32", x);
    const LoweredModel lowered = lower(quantized, table_of("fp32"), 3);
    REQUIRE(lowered.tail() != nullptr);
    CHECK(test::largest_difference(lowered.run(x), (*make_reference(quantized))(x).tensor()) < 1e-4);

    const auto middle =
        stubbed({{"own", test::make_user_layer()}, {"conv", test::make_conv(3, 2, 3, 1)}},
                [](test::LambdaModel& m, nn::Arguments v) { return m.call("conv", m.call("own", v[0])); });
    const std::string message = message_of<Error>([&] { lower(convert(*middle, "bayes", x), table_of("bayes")); });
    CHECK(message.find("it reads \"own\", which stays in float; a program executes integers only") !=
          std::string::npos);
}

TEST_CASE("Codes of fewer bits than their type stay in their range, behind a table and where scales are equal") {
    const auto model = stubbed({}, [](test::LambdaModel&, nn::Arguments x) {
        return nn::cat({nn::tanh(x[0]), x[0]}, 1);
    });
    const intq::Tensor x = test::random_tensor(Shape(2, 2, 5, 4), 5, 2.0f);
    QConfig wide = get_default_calib_qconfig(), narrow = wide;
    narrow.output->options.observer_options.quant_min = -8;
    narrow.output->options.observer_options.quant_max = 7;
    for (const char* target : {"fp32", "tflite", "bayes"}) {
        INFO(target);
        const auto mapping = QConfigMapping().set_global(narrow).set_module_name("quant", wide);
        const auto prepared = prepare_calibration_fx(*model, mapping, table_of(target).policy());
        calibrate(*prepared, x, 2);
        for (const auto& module : prepared->named_modules())
            if (auto* quantizer = dynamic_cast<FakeQuantize*>(module.value)) quantizer->set_qparams(0.05f);
        const QuantizedGraph quantized = convert_fx(*prepared);
        const intq::Tensor reference = (*make_reference(quantized))(x).tensor();
        CHECK(test::largest_difference(lower(quantized, table_of(target), 2).run(x), reference) < 0.0501);
        for (const float value : reference.flat<float>()) REQUIRE(std::fabs(value) < 0.401f);
    }
}

TEST_CASE("A batch that no program can hold is refused") {
    test::ResidualNet model(4);
    const QuantizedGraph quantized = convert(model, "bayes", test::random_tensor(Shape(2, 3, 6, 6), 3));
    for (const index_t batch : {index_t{0}, std::numeric_limits<index_t>::max() / 8})
        CHECK(message_of<Error>([&] { lower(quantized, table_of("bayes"), batch); }) ==
              "a program needs a batch from 1 to 1073741824, given " + std::to_string(batch));
}

TEST_CASE("Kernels of another target are refused") {
    test::ResidualNet model(4);
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 6, 6), 3);
    CHECK(message_of<Error>([&] { lower(convert(model, "bayes", x), table_of("meta")); }) ==
          "lower: the model was converted for the target bayes, the kernels are for meta");
    const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(), table_of("bayes").policy());
    calibrate(*prepared, x, 2);
    CHECK(message_of<Error>([&] { ExactSimulation(*prepared, table_of("meta"), 2); }) ==
          "lower: the model was converted for the target bayes, the kernels are for meta");
}

TEST_CASE("A model of several inputs and outputs gives all of them; a run of one tensor refuses it") {
    const auto model = test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                         {"first", std::make_shared<nn::DeQuantStub>()},
                                         {"second", std::make_shared<nn::DeQuantStub>()},
                                         {"conv", test::make_conv(3, 4, 3, 1)}},
                                        [](test::LambdaModel& m, nn::Arguments x) {
                                            const nn::Value image = m.call("quant", x[0]);
                                            return nn::Value(nn::Value::Tuple{m.call("first", m.call("conv", image)),
                                                                              m.call("second", nn::relu6(image))});
                                        });
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 4, 5), 3);
    const QuantizedGraph quantized = convert(*model, "bayes", x);
    const LoweredModel lowered = lower(quantized, table_of("bayes"), 2);
    const std::vector<intq::Tensor> outputs = lowered.run(std::span(&x, 1));
    const nn::Value expected = (*make_reference(quantized))(x);
    REQUIRE(outputs.size() == 2);
    for (std::size_t i = 0; i < 2; ++i)
        CHECK(test::largest_difference(outputs[i], expected.tuple()[i].tensor()) < 0.02);
    const std::string refused = " has 2 outputs; run it on a span of inputs, which returns all of them";
    CHECK(message_of<Error>([&] { lowered.run(x); }) == "the model" + refused);
    CHECK(message_of<Error>([&] { lowered.program().run(x); }) == "the program" + refused);
    CHECK(message_of<Error>([&] { HybridModel(quantized, table_of("bayes"), 2).run(x); }) ==
          "HybridModel: the model" + refused);
}

TEST_CASE("A layer whose output was 0 in all data is refused in words that say so") {
    const auto part = test::make_conv(3, 4, 3, 1);
    part->set_bias(intq::Tensor::full(Shape(4), -1000.0f));
    const auto model =
        stubbed({{"zero", part}, {"conv", test::make_conv(3, 4, 3, 2)}, {"last", test::make_conv(8, 4, 3, 3)}},
                [](test::LambdaModel& m, nn::Arguments x) {
                    const nn::Value zero = nn::relu(m.call("zero", x[0]));
                    return m.call("last", nn::cat({zero, nn::relu(m.call("conv", x[0]))}, 1));
                });
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 4, 5), 3);
    for (const char* target : {"fp32", "bayes", "bernoulli2", "meta"}) {
        INFO(target);
        const QuantizedGraph quantized = convert(*model, target, x);
        const intq::Tensor expected = (*make_reference(quantized))(x).tensor();
        const double reach = test::largest_difference(expected, intq::Tensor::zeros(expected.shape()));
        CHECK(test::largest_difference(lower(quantized, table_of(target), 2).run(x), expected) < 0.05 * reach);
    }
    const std::string message = message_of<Error>([&] { lower(convert(*model, "tflite", x), table_of("tflite"), 2); });
    CHECK(message.find("zero: conv2d: the accumulator could reach") == 0);
    CHECK(message.find("its output was 0 in all data that its scale comes from") != std::string::npos);
    CHECK(message.find("64-bit") == std::string::npos);
}

TEST_CASE("A converted model gives a value as often as the model does, also an alias of it and inside tuples") {
    const intq::Tensor x = test::random_tensor(Shape(3, 3, 5, 5), 3);
    const auto check = [&](const test::LambdaModel::Forward& body, std::size_t count, bool has_tail) {
        const auto model = test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                             {"conv", test::make_conv(3, 4, 3, 1)},
                                             {"once", std::make_shared<nn::DeQuantStub>()},
                                             {"again", std::make_shared<nn::DeQuantStub>()},
                                             {"alias", std::make_shared<nn::Identity>()}},
                                            body);
        REQUIRE(nn::tensors_of((*model)(x)).size() == count);
        PrepareOptions options;
        options.high_precision_output = false;  // the codes are those of the simulation
        const auto prepared =
            prepare_calibration_fx(*model, get_default_qconfig_mapping(), table_of("fp32").policy(), options);
        calibrate(*prepared, x, 3);
        const QuantizedGraph quantized = convert_fx(*prepared);
        const LoweredModel lowered = lower(quantized, table_of("fp32"), 2);
        CHECK((lowered.tail() != nullptr) == has_tail);
        const auto all = [&](const std::vector<intq::Tensor>& outputs) {
            REQUIRE(outputs.size() == count);
            for (const intq::Tensor& output : outputs) CHECK(test::largest_difference(output, outputs[0]) == 0);
        };
        all(nn::tensors_of((*make_reference(quantized))(x)));
        all(lowered.run({&x, 1}));
        all(HybridModel(quantized, table_of("fp32"), 2).run({&x, 1}));
        all(ExactSimulation(*prepared, table_of("fp32"), 3).run({&x, 1}));
        if (count > 1) {
            const std::string sentence = "the model has " + std::to_string(count) + " outputs; run it on a span";
            CHECK(message_of<Error>([&] { lowered.run(x); }).find(sentence) == 0);
        }
    };
    using nn::Value;
    const auto conv = [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", m.call("quant", x[0])); };
    check(
        [&](auto& m, auto x) {
            const Value y = m.call("once", conv(m, x));
            return Value(Value::Tuple{y, y});
        },
        2, false);
    check(
        [&](auto& m, auto x) {
            const Value codes = conv(m, x), y = m.call("once", codes);
            return Value(Value::Tuple{y, Value::Tuple{m.call("again", codes), y}, y});
        },
        4, false);
    // Behind a DeQuantStub an alias is an operator in float, the tail of the program.
    check(
        [&](auto& m, auto x) {
            const Value y = m.call("once", conv(m, x));
            return Value(Value::Tuple{y, m.call("alias", y), y});
        },
        3, true);
    check(
        [&](auto& m, auto x) {
            const Value codes = conv(m, x);
            return Value(Value::Tuple{m.call("once", m.call("alias", codes)), m.call("again", codes)});
        },
        2, false);
    CHECK(message_of<Error>([&] {
              check([&](auto& m, auto x) { return Value(Value::Tuple{m.call("once", conv(m, x)), 3.0}); }, 1, false);
          }).find("the model returns a constant") != std::string::npos);
}

TEST_CASE("At 2 bits an accumulator's program differs from the simulation by the rounding of the bias, and no more") {
    const auto model = test::stubbed({{"conv", test::make_conv(3, 8, 3, 1)}},
                                     [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", x[0]); });
    QConfig qconfig = get_default_calib_qconfig();
    for (auto* options : {&qconfig.output->options, &qconfig.weight->options}) {
        options->observer_options.quant_min = -2;
        options->observer_options.quant_max = 1;
    }
    const intq::Tensor x = test::random_tensor(Shape(2, 3, 5, 5), 3);
    for (const char* target : {"bayes", "fp32", "meta"}) {
        INFO(target);
        const auto prepared =
            prepare_calibration_fx(*model, QConfigMapping().set_global(qconfig), table_of(target).policy());
        calibrate(*prepared, x, 2);
        const QuantizedGraph quantized = convert_fx(*prepared);
        const intq::Tensor simulated = (*prepared)(x).tensor().contiguous(),
                           executed = lower(quantized, table_of(target), 2).run(x).contiguous();
        const QuantizedNode* conv = nullptr;
        for (const QuantizedNode& node : quantized.nodes)
            if (node.as<WeightedStep>() != nullptr) conv = &node;
        REQUIRE(conv != nullptr);
        const auto& scales = quantized.output(*conv).qparams.scales;
        const auto bias = conv->step_as<WeightedStep>().bias.flat<float>();
        const auto plane = static_cast<std::size_t>(simulated.extent(2) * simulated.extent(3));
        double worst = 0, beyond = 0;
        for (std::size_t i = 0; i < executed.flat<float>().size(); ++i) {
            const std::size_t c = i / plane % bias.size();
            const double s = static_cast<double>(scales[c]), b = static_cast<double>(bias[c]);
            const double moved = std::floor(b / s + 0.5) * s - b;  // a bias is rounded half up
            const double found =
                static_cast<double>(executed.flat<float>()[i]) - static_cast<double>(simulated.flat<float>()[i]);
            worst = std::max(worst, std::abs(found) / s);
            beyond = std::max(beyond, std::abs(found - moved));
        }
        CHECK(beyond < 1e-5);
        CHECK(worst <= 0.5 + 1e-4);
        CHECK(worst > 0.2);  // it shows
    }
}
