// SPDX-License-Identifier: MIT
#include "intq/quantization/prepare/prepare_fx.hpp"

#include <map>

#include "intq/arith/bpu.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/graph/operators.hpp"
#include "intq/graph/print.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/observers/range_observers.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "intq/quantization/prepare/qconfig_rules.hpp"
#include "intq/quantization/qconfig/own_qconfig.hpp"
#include "intq/tensor/float_sums.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using test::make_model;
using test::message_of;

namespace {

constexpr arith::PolicyRecord bernoulli2 = target::bpu<march::bernoulli2>::policy;
constexpr arith::PolicyRecord bayes = target::bpu<march::bayes>::policy;
constexpr arith::PolicyRecord meta = target::bpu<march::meta>::policy;
constexpr arith::PolicyRecord tflite = target::tflite<>::policy;
constexpr arith::PolicyRecord fp32 = target::fp32::policy;

PrepareOptions torch_mode() {
    PrepareOptions options;
    options.compatibility = Compatibility::torch;
    return options;
}

// "producer>type" for each quantizer, in the order of the graph.
std::string quantizers_of(PreparedModel& model) {
    std::string text;
    for (const graph::Node* node : model.graph().nodes())
        if (const auto* quantizer = dynamic_cast<Quantizer*>(graph::module_of(*node, model)))
            text += node->inputs()[0]->name() + ">" + name_of(quantizer->dtype()) + " ";
    return text;
}

std::shared_ptr<PreparedModel> prepare(const nn::Module& model, const arith::PolicyRecord& target,
                                       DType dtype = DType::int8, const PrepareOptions& options = {}) {
    return prepare_calibration_fx(model, get_default_qconfig_mapping(dtype), target, options);
}

// quant, then the body, then dequant.
nn::ModulePtr stubbed(std::initializer_list<std::pair<std::string, nn::ModulePtr>> children,
                      test::LambdaModel::Forward body) {
    const auto model = make_model(children, [body](test::LambdaModel& m, nn::Arguments x) {
        const std::array<nn::Value, 1> inner{m.call("quant", x[0])};
        return m.call("dequant", body(m, nn::Arguments(inner)));
    });
    model->add_child("quant", std::make_shared<nn::QuantStub>());
    model->add_child("dequant", std::make_shared<nn::DeQuantStub>());
    model->eval();
    return model;
}

/// The averaging constant of the quantizer behind a node.
float output_constant(PreparedModel& model, const char* node) {
    const graph::Node& behind = *model.graph().find(node)->users()[0];
    return dynamic_cast<FakeQuantize&>(*graph::module_of(behind, model)).observer().options().averaging_constant;
}

/// Three convolutions, each with its relu.
nn::ModulePtr three_layers() {
    return stubbed({{"conv1", test::make_conv(3, 4, 3, 1)},
                    {"relu1", std::make_shared<nn::ReLU>()},
                    {"conv2", test::make_conv(4, 4, 3, 2)},
                    {"relu2", std::make_shared<nn::ReLU>()},
                    {"conv3", test::make_conv(4, 4, 3, 3)},
                    {"relu3", std::make_shared<nn::ReLU>()}},
                   [](test::LambdaModel& m, nn::Arguments x) {
                       const nn::Value a = m.call("relu1", m.call("conv1", x[0]));
                       return m.call("relu3", m.call("conv3", m.call("relu2", m.call("conv2", a))));
                   });
}

}  // namespace

TEST_CASE(
    "In a residual network quantizers stand behind the stub, each fused layer and the average, not behind what keeps "
    "its scale") {
    test::ResidualNet model(4);
    const auto prepared = prepare(model, bayes);
    CHECK(quantizers_of(*prepared) ==
          "quant>int8 stem>int8 layer1_0_conv1>int8 layer1_0_conv2>int8 layer1_1_conv1>int8 layer1_1_conv2>int8 "
          "depthwise>int8 pool>int8 ");
    CHECK(prepared->find("layer1.0.conv2").type_name() == "qat.ConvAddReLU2d");
    CHECK(prepared->report().fallbacks.empty());
    // The residual's operand is the quantized one that the block's input reads, too.
    const graph::Node& fused = *prepared->graph().find("layer1_0_conv2");
    CHECK(fused.inputs()[1] == prepared->graph().find("layer1_0_conv1")->inputs()[0]);
    // The classifier feeds a DeQuantStub only: its accumulator is the output.
    CHECK(prepared->graph().find("dequant")->inputs()[0]->name() == "fc");
    CHECK(model.find("stem").type_name() == "Conv2d");
}

TEST_CASE("A weight's ch_axis counts its output channels, or is -1; another one is refused with the node") {
    const auto up = std::make_shared<nn::ConvTranspose2d>(nn::ConvTranspose2dOptions{3, 4, nn::square_window(2, 2)});
    const auto model = test::stubbed(
        {{"up", up}, {"conv", test::make_conv(4, 4, 3, 1)}},
        [](test::LambdaModel& m, nn::Arguments x) { return nn::relu(m.call("conv", nn::relu(m.call("up", x[0])))); });
    const auto prepared = [&](int axis) {
        QConfig qconfig = get_default_calib_qconfig();
        qconfig.weight->options.observer_options.ch_axis = axis;
        const auto result = prepare_calibration_fx(*model, QConfigMapping().set_global(qconfig), bayes);
        const auto axis_of = [&](const char* layer) {
            const auto& quantizer = dynamic_cast<const FakeQuantize&>(*result->find(layer).child("weight_fake_quant"));
            return quantizer.observer().options().ch_axis;
        };
        return std::pair(axis_of("up"), axis_of("conv"));
    };
    // What is 0 for all layers means the output channels, which a transposed convolution has on axis 1.
    CHECK(prepared(0) == std::pair(1, 0));
    CHECK(prepared(-1) == std::pair(1, 0));  // the observer is per channel
    CHECK(message_of<Error>([&] { prepared(1); }).find("%conv") != std::string::npos);
    CHECK(message_of<Error>([&] { prepared(3); })
              .find("its weight has a scale for each output channel, which axis 1 counts, or one for the tensor "
                    "(ch_axis -1); its qconfig has ch_axis 3") != std::string::npos);
    CHECK(message_of<Error>([&] { prepared(-2); }).find("(ch_axis -1); its qconfig has ch_axis -2") !=
          std::string::npos);
    QConfig whole = default_qconfig();
    whole.weight->options.observer = observer_factory<MinMaxObserver>();
    whole.weight->options.observer_options.ch_axis = -1;
    const auto per_tensor = prepare_calibration_fx(*model, QConfigMapping().set_global(whole), bayes);
    const auto& weight = dynamic_cast<const FakeQuantize&>(*per_tensor->find("up").child("weight_fake_quant"));
    CHECK(weight.observer().options().ch_axis == -1);
    QConfig activation = default_qconfig();
    activation.output->options.observer_options.ch_axis = -2;
    CHECK(message_of<Error>([&] {
              prepare_calibration_fx(*model, QConfigMapping().set_global(activation), bayes);
          }).find("activations are quantized per tensor") != std::string::npos);
}

TEST_CASE("Example inputs are seen before the fusion, so that a batch norm of another axis stays apart") {
    const auto model =
        test::stubbed({{"fc", test::make_linear(5, 4, 1)}, {"bn", test::make_batch_norm<nn::BatchNorm1d>(4, 2)}},
                      [](test::LambdaModel& m, nn::Arguments x) { return m.call("bn", m.call("fc", x[0])); });
    const intq::Tensor rows = test::random_tensor(Shape(2, 4, 5), 3);
    for (const bool training : {false, true}) {
        model->train(training);
        PrepareOptions options;
        options.qat_mode = training ? QATMode::with_bn : QATMode::fuse_bn;
        options.example_inputs = {rows};
        const auto apart = prepare_calibration_fx(*model, get_default_qconfig_mapping(), bayes, options);
        CHECK(apart->report().fusion.fused.empty());
        REQUIRE(apart->report().fusion.blocked.size() == 1);
        CHECK(apart->report().fusion.blocked[0].node == "bn");
        CHECK(test::largest_difference(apart->find("bn").tensor("running_mean"),
                                       model->find("bn").tensor("running_mean")) == 0.0);
        options.example_inputs.clear();
        const auto together = prepare_calibration_fx(*model, get_default_qconfig_mapping(), bayes, options);
        CHECK(message_of<Error>([&] {
                  calibrate(*together, rows, 2);
              }).find("given (2, 4, 5), of which the batch norm") != std::string::npos);
        CHECK_NOTHROW(calibrate(*apart, rows, 2));
    }
}

TEST_CASE("High precision can be switched off, by option and by an entry with the module's name") {
    test::ResidualNet model(4);
    PrepareOptions options;
    options.high_precision_output = false;
    const auto behind_fc = [](PreparedModel& prepared) {
        return prepared.graph().find("dequant")->inputs()[0]->inputs()[0]->name() == "fc";
    };
    CHECK(behind_fc(*prepare(model, bayes, DType::int8, options)));
    const auto by_name =
        prepare_calibration_fx(model, get_default_qconfig_mapping().set_module_name("fc", default_qconfig()), bayes);
    CHECK(behind_fc(*by_name));
    const auto asked = prepare_calibration_fx(
        model, get_default_qconfig_mapping().set_module_name("fc", get_default_calib_out_qconfig()), bayes);
    CHECK_FALSE(behind_fc(*asked));
}

TEST_CASE(
    "tflite keeps the add apart with a quantizer before it and one behind its relu, and its average has a grid to "
    "choose") {
    test::ResidualNet model(4);
    const auto prepared = prepare(model, tflite);
    CHECK(quantizers_of(*prepared) ==
          "quant>int8 stem>int8 layer1_0_conv1>int8 layer1_0_conv2>int8 layer1_0_relu_1>int8 layer1_1_conv1>int8 "
          "layer1_1_conv2>int8 "
          "layer1_1_relu_1>int8 depthwise>int8 pool>int8 ");
    const graph::Node& behind_pool = *prepared->graph().find("flatten")->inputs()[0];
    CHECK(graph::type_of(behind_pool, *prepared) == "GridChoiceFakeQuantize");
}

TEST_CASE("Pools, relu, flatten, identity and dropout share the scale of their input") {
    const auto model = stubbed({{"conv", test::make_conv(2, 2, 3, 1)},
                                {"max", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))},
                                {"id", std::make_shared<nn::Identity>()},
                                {"drop", std::make_shared<nn::Dropout>()},
                                {"flat", std::make_shared<nn::Flatten>()}},
                               [](test::LambdaModel& m, nn::Arguments x) {
                                   const nn::Value pooled = m.call("max", m.call("conv", x[0]));
                                   return m.call("flat", m.call("drop", m.call("id", nn::relu(pooled))));
                               });
    CHECK(quantizers_of(*prepare(*model, bayes)) == "quant>int8 conv>int8 ");
    CHECK(quantizers_of(*prepare(*model, bayes, DType::int16)) == "quant>int16 conv>int16 ");
}

TEST_CASE("cat has an observer of its own in horizon mode and shares its first input's in torch mode") {
    const auto model =
        stubbed({{"a", test::make_conv(2, 2, 3, 1)},
                 {"b", test::make_conv(2, 2, 3, 2)},
                 {"join", std::make_shared<nn::FloatFunctional>()}},
                [](test::LambdaModel& m, nn::Arguments x) {
                    return nn::call_cat(m, "join", {nn::relu(m.call("a", x[0])), m.call("b", x[0]), x[0]}, 1);
                });
    const auto instances = [](PreparedModel& prepared) {
        std::map<std::string, const nn::Module*> result;
        for (const graph::Node* node : prepared.graph().nodes())
            if (dynamic_cast<Quantizer*>(graph::module_of(*node, prepared)) != nullptr)
                result[node->inputs()[0]->name()] = graph::module_of(*node, prepared);
        return result;
    };
    const auto horizon = prepare(*model, bayes);
    CHECK(quantizers_of(*horizon) == "quant>int8 a>int8 b>int8 join>int8 ");
    auto own = instances(*horizon);
    CHECK(std::set<const nn::Module*>{own["quant"], own["a"], own["b"], own["join"]}.size() == 4);

    const auto torch = prepare(*model, bayes, DType::int8, torch_mode());
    auto shared = instances(*torch);
    CHECK(shared["a"] == shared["b"]);
    CHECK(shared["a"] == shared["quant"]);
    CHECK(shared["a"] == shared["join"]);
}

TEST_CASE("A batch norm of its own is a depthwise convolution: a weight quantizer, and one on its output") {
    const auto model = stubbed({{"norm", test::make_batch_norm<nn::BatchNorm2d>(2, 1)},
                                {"relu", std::make_shared<nn::ReLU>()},
                                {"conv", test::make_conv(2, 2, 3, 1)},
                                {"last", test::make_batch_norm<nn::BatchNorm2d>(2, 2)},
                                {"relu6", std::make_shared<nn::ReLU6>()}},
                               [](test::LambdaModel& m, nn::Arguments x) {
                                   const nn::Value y = nn::relu(m.call("conv", m.call("relu", m.call("norm", x[0]))));
                                   return m.call("relu6", m.call("last", y));
                               });
    QConfig by_relu = default_qconfig();
    by_relu.output->options.observer_options.averaging_constant = 0.5f;
    const auto mapping = get_default_qconfig_mapping().set_module_name("relu", by_relu);
    const auto prepared = prepare_calibration_fx(*model, mapping, bayes);
    CHECK(quantizers_of(*prepared) == "quant>int8 norm>int8 conv>int8 last>int8 ");
    CHECK(prepared->find("norm").type_name() == "qat.BNReLU2d");
    CHECK(prepared->find("last").type_name() == "qat.BNReLU62d");
    CHECK(prepared->report().fallbacks.empty());
    const graph::Node& behind = *prepared->graph().find("norm")->users()[0];
    CHECK(dynamic_cast<FakeQuantize&>(*graph::module_of(behind, *prepared)).observer().options().averaging_constant ==
          0.5f);
    const intq::Tensor x = test::random_tensor(Shape(2, 2, 5, 5), 3, 2.0f);
    CHECK(test::largest_difference((*prepared)(x).tensor(), (*model)(x).tensor()) < 1e-5);

    // By the mapping it stays what it was.
    const auto in_float = get_default_qconfig_mapping().set_module_name("norm", std::nullopt);
    CHECK(prepare_calibration_fx(*model, in_float, bayes)->find("norm").type_name() == "BNReLU2d");
    model->train();
    CHECK(message_of<Error>([&] { prepare(*model, bayes); }) ==
          "prepare: %norm (BNReLU2d): it becomes a layer with weights in evaluation only; call eval() on the model "
          "first");
}

TEST_CASE("A batch norm that is called twice becomes one layer, whatever was asked about its second call before") {
    // Whether the add's reader is a relu is asked before the norm becomes a convolution at its first call.
    const auto model =
        stubbed({{"norm", test::make_batch_norm<nn::BatchNorm2d>(2, 1)}}, [](test::LambdaModel& m, nn::Arguments x) {
            const nn::Value sum = x[0] + x[0], once = m.call("norm", x[0]);
            return m.call("norm", sum) + once;
        });
    const auto prepared = prepare(*model, tflite);
    CHECK(prepared->find("norm").type_name() == "qat.BatchNorm2d");
    CHECK(quantizers_of(*prepared) == "quant>int8 add>int8 norm>int8 norm_1>int8 add_1>int8 ");
    const intq::Tensor x = test::random_tensor(Shape(2, 2, 5, 5), 3, 2.0f);
    CHECK(test::largest_difference((*prepared)(x).tensor(), (*model)(x).tensor()) < 1e-5);
}

TEST_CASE("A clamp behind an add that nobody else reads bounds its codes: no quantizer stands between") {
    const auto model = stubbed({{"conv", test::make_conv(2, 2, 3, 1)}}, [](test::LambdaModel& m, nn::Arguments x) {
        return nn::clamp(nn::relu(m.call("conv", x[0])) + x[0], -0.5, 0.25);
    });
    CHECK(quantizers_of(*prepare(*model, tflite)) == "quant>int8 conv>int8 clamp>int8 ");
}

TEST_CASE("A cat of torch mode changes the quantizer before it and no other, as prepare_fx does") {
    // PyTorch 2.15's prepare_fx of cat([c1(x), pool(c2(x))]): observers 0 of x, 1 of c1, 2 of c2, 1 of pool, 1 of cat.
    const auto model = make_model({{"c1", test::make_conv(2, 2, 1, 1)},
                                   {"c2", test::make_conv(2, 2, 1, 2)},
                                   {"pool", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 1))}},
                                  [](test::LambdaModel& m, nn::Arguments x) {
                                      const nn::Value a = m.call("pool", m.call("c1", x[0]));
                                      return nn::cat({a, m.call("pool", m.call("c2", x[0]))}, 1);
                                  });
    const auto prepared = prepare(*model, bayes, DType::int8, torch_mode());
    CHECK(quantizers_of(*prepared) == "x>int8 c1>int8 pool>int8 c2>int8 pool_1>int8 cat>int8 ");
    const auto quantizer = [&](const char* producer) {
        return graph::module_of(*prepared->graph().find(producer)->users()[0], *prepared);
    };
    CHECK(quantizer("pool") == quantizer("c1"));
    CHECK(quantizer("pool_1") == quantizer("c1"));
    CHECK(quantizer("cat") == quantizer("c1"));
    CHECK(quantizer("c2") != quantizer("c1"));
}

TEST_CASE("Without stubs: an error in horizon mode with the ways out, quantizers of their own in torch mode") {
    const auto model = make_model({{"conv", test::make_conv(2, 2, 3, 1)}, {"next", test::make_conv(2, 2, 3, 2)}},
                                  [](test::LambdaModel& m, nn::Arguments x) {
                                      return m.call("next", nn::relu(m.call("conv", x[0]))) + m.call("conv", x[0]);
                                  });
    CHECK(message_of<Error>([&] { prepare(*model, bayes); }) ==
          "prepare: %conv (Conv2d): it takes the real values of %x: put a QuantStub between, call add_stubs(), or use "
          "torch compatibility");
    const auto simple =
        make_model({{"conv", test::make_conv(2, 2, 3, 1)}, {"quant", std::make_shared<nn::QuantStub>()}},
                   [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", m.call("quant", x[0])); });
    CHECK(message_of<Error>([&] {
              prepare(*simple, bayes);
          }).find("the output %activation_post_process_1 is quantized: put a DeQuantStub after it") !=
          std::string::npos);

    const auto torch = prepare(*model, bayes, DType::int8, torch_mode());
    CHECK(quantizers_of(*torch).find("x>int8 ") == 0);
    CHECK(quantizers_of(*torch).find("x>int8 ", 1) == std::string::npos);

    const auto traced = graph::symbolic_trace(simple);
    add_stubs(*traced);
    CHECK(quantizers_of(*prepare(*traced, bayes)) == "quant>int8 ");
}

TEST_CASE("A fused layer takes its weight's quantizer from its first operator and its output's from its last") {
    test::ResidualNet model(4);
    QConfig by_relu = default_qconfig(), by_conv = default_qconfig();
    by_relu.output->options.observer_options.averaging_constant = 0.5f;
    by_conv.weight->options.observer = observer_factory<MovingAveragePerChannelMinMaxObserver>();
    by_conv.output->options.observer_options.averaging_constant = 0.25f;
    const auto mapping =
        get_default_qconfig_mapping().set_module_name("layer1.0.relu", by_relu).set_object_type("Conv2d", by_conv);
    const auto prepared = prepare_calibration_fx(model, mapping, bayes);
    CHECK(output_constant(*prepared, "layer1_0_conv2") == 0.5f);
    auto& layer = dynamic_cast<PreparedWeight&>(prepared->find("layer1.0.conv2"));
    CHECK(layer.weight_fake_quant().observer().type_name() == "MovingAveragePerChannelMinMaxObserver");
    // Fusing beforehand loses nothing of it.
    const auto fused_before = prepare_calibration_fx(*fuse_fx(model), mapping, bayes);
    CHECK(graph::to_string(fused_before->graph()) == graph::to_string(prepared->graph()));
}

TEST_CASE("An entry with a fused layer's own name, which tools print, decides weight, input and output of it") {
    const auto model = three_layers();
    const QConfig wide = get_default_calib_qconfig(DType::int16);
    const auto with = [](const char* name, const QConfig& qconfig) {
        return get_default_qconfig_mapping().set_module_name(name, qconfig);
    };
    const auto of = [&](const QConfigMapping& mapping, const nn::Module& network) {
        return quantizers_of(*prepare_calibration_fx(network, mapping, bayes));
    };
    const std::string second_is_wide = "quant>int8 conv1>int8 conv2>int16 conv3>int8 ";
    CHECK(of(with("conv2", wide), *model) == second_is_wide);
    CHECK(of(with("conv2", wide), *fuse_fx(*model)) == second_is_wide);
    CHECK(of(with("relu2", wide), *model) == second_is_wide);
    // Above its members' names and types, below what a member carries itself.
    CHECK(of(with("conv2", wide).set_object_type("ReLU", default_qconfig()), *model) == second_is_wide);
    CHECK(message_of<Error>([&] {
              of(with("conv2", wide).set_module_name("relu2", default_qconfig()), *model);
          }).find("the module name \"relu2\" changes nothing. It matches relu2 (ReLU)") != std::string::npos);
    const auto own = nn::clone(model);
    set_qconfig(own->find("relu2"), default_qconfig());
    CHECK(of(with("conv2", wide), *own) == "quant>int8 conv1>int8 conv2>int8 conv3>int8 ");
    set_qconfig(own->find("conv2"), wide);
    set_qconfig(own->find("conv1"), wide);
    CHECK(of(get_default_qconfig_mapping(), *own) == "quant>int8 conv1>int16 conv2>int16 conv3>int8 ");
    // Its weight and its input too.
    QConfig all = wide;
    all.input = default_activation(DType::int16);
    all.weight->options.observer = observer_factory<MovingAveragePerChannelMinMaxObserver>();
    const auto prepared = prepare_calibration_fx(
        *model, with("conv2", all).set_module_name("conv1", std::nullopt).set_module_name("relu1", std::nullopt),
        bayes);
    CHECK(quantizers_of(*prepared) == "quant>int8 conv1>int16 conv2>int16 conv3>int8 ");
    CHECK(dynamic_cast<PreparedWeight&>(prepared->find("conv2")).weight_fake_quant().observer().type_name() ==
          "MovingAveragePerChannelMinMaxObserver");
}

TEST_CASE("Tools that name fused layers configure them: sensitive operators") {
    const auto model = three_layers();
    const SensitiveOperator list[] = {{"conv2", "activation", "ConvReLU2d", 0.5}, {"conv3", "both", "ConvReLU2d", 0.4}};
    QConfigMapping mapping = get_default_qconfig_mapping();
    CHECK(set_sensitive_operators(mapping, list, {.top_k = 2}) == std::vector<std::string>{"conv2", "conv3"});
    CHECK(quantizers_of(*prepare_calibration_fx(*model, mapping, bayes)) ==
          "quant>int8 conv1>int8 conv2>int16 conv3>int16 ");
}

TEST_CASE("An add with the relu behind it is configured by its own name too, a function by that of its node") {
    const auto model =
        stubbed({{"skip", std::make_shared<nn::FloatFunctional>()}, {"relu", std::make_shared<nn::ReLU>()}},
                [](test::LambdaModel& m, nn::Arguments x) {
                    const nn::Value sum = m.call("relu", nn::call_add(m, "skip", x[0], x[0]));
                    return nn::relu(sum + x[0]);
                });
    const auto of = [&](const char* name) {
        return quantizers_of(*prepare_calibration_fx(
            *model, get_default_qconfig_mapping().set_module_name(name, get_default_calib_qconfig(DType::int16)),
            tflite));
    };
    CHECK(of("skip") == of("relu"));
    CHECK(of("skip").find("relu>int16") != std::string::npos);
    CHECK(of("add").find("relu_1>int16") != std::string::npos);
    CHECK(of("relu_1") == of("add"));
}

TEST_CASE("In torch mode the own name of a fused layer alone counts, as in PyTorch") {
    // PyTorch 2.15: prepare_fx of this model with set_module_name and a qconfig of its own for each name.
    const auto model = three_layers();
    const QConfig wide = get_default_calib_qconfig(DType::int16);
    const auto prepared = prepare_calibration_fx(*model, get_default_qconfig_mapping().set_module_name("conv2", wide),
                                                 bayes, torch_mode());
    CHECK(quantizers_of(*prepared).find("conv2>int16") != std::string::npos);
    CHECK(message_of<Error>([&] {
              prepare_calibration_fx(*model, get_default_qconfig_mapping().set_module_name("relu2", wide), bayes,
                                     torch_mode());
          }).find("the module name \"relu2\" changes nothing") != std::string::npos);
}

TEST_CASE("A regex that matches the own name of a fused layer configures the whole, as that name does") {
    const auto model = three_layers();
    const QConfig wide = get_default_calib_qconfig(DType::int16);
    const auto of = [&](const QConfigMapping& mapping, const nn::Module& network) {
        return quantizers_of(*prepare_calibration_fx(network, mapping, bayes));
    };
    const std::string second_is_wide = "quant>int8 conv1>int8 conv2>int16 conv3>int8 ";
    const auto mapping = [&] { return get_default_qconfig_mapping(); };
    CHECK(of(mapping().set_module_name_regex("conv2$", wide), *model) == second_is_wide);
    CHECK(of(mapping().set_module_name_regex(".*2", wide), *model) == second_is_wide);
    CHECK(of(mapping().set_module_name_regex("relu2$", wide), *model) == second_is_wide);
    // Of several, the first; and a name stands above.
    CHECK(of(mapping().set_module_name_regex("relu2", wide).set_module_name_regex(".*", default_qconfig()), *model) ==
          second_is_wide);
    CHECK(of(mapping().set_module_name_regex("conv2$", default_qconfig()).set_module_name("relu2", wide), *model) ==
          second_is_wide);
    CHECK(message_of<Error>([&] {
              of(mapping().set_module_name_regex("conv2$", wide).set_module_name_regex("relu2$", default_qconfig()),
                 *model);
          }).find("the module name regex \"relu2$\" changes nothing") != std::string::npos);

    // A layer that was fused before it stood in its slot, whose members have other names.
    const auto block =
        fuse_fx(*make_model({{"0", test::make_conv(2, 2, 3, 1)}, {"1", std::make_shared<nn::ReLU>()}},
                            [](test::LambdaModel& m, nn::Arguments x) { return m.call("1", m.call("0", x[0])); }));
    const auto nested =
        stubbed({{"c1", block->child("0")}}, [](test::LambdaModel& m, nn::Arguments x) { return m.call("c1", x[0]); });
    for (const char* regex : {"c1$", "c1"}) {
        INFO(regex);
        CHECK(of(mapping().set_module_name_regex(regex, wide), *nested) == "quant>int8 c1>int16 ");
    }
    CHECK(of(mapping().set_module_name("c1", wide), *nested) == "quant>int8 c1>int16 ");
}

TEST_CASE("relu6 behind a pool has a grid to choose, because 6 is rarely on that of its input") {
    const auto pooled = [](nn::Value (*f)(const nn::Value&)) {
        return stubbed({{"max", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))}},
                       [f](test::LambdaModel& m, nn::Arguments x) { return f(m.call("max", x[0])); });
    };
    const auto six = prepare(*pooled(&nn::relu6), bayes);
    CHECK(quantizers_of(*six) == "quant>int8 relu6>int8 ");
    CHECK(graph::type_of(*six->graph().find("relu6")->users()[0], *six) == "GridChoiceFakeQuantize");
    CHECK(quantizers_of(*prepare(*pooled(&nn::relu), bayes)) == "quant>int8 ");

    dynamic_cast<FakeQuantize&>(six->find("activation_post_process_0")).set_qparams(0.7f);
    set_fake_quantize(*six, FakeQuantState::validation);
    const auto y = (*six)(intq::Tensor::full(Shape(1, 1, 2, 2), 9.0f)).tensor();
    CHECK(y.flat<float>()[0] == 9 * 0.7f);  // 6 / 0.7 = 8.57

    // A sum takes it in, as before.
    const auto sum = stubbed({}, [](test::LambdaModel&, nn::Arguments x) { return nn::relu6(x[0] + nn::tanh(x[0])); });
    CHECK(quantizers_of(*prepare(*sum, bayes)) == "quant>int8 tanh>int8 relu6>int8 ");
}

TEST_CASE("A part that was fused before it became a part is configured by the names that it has now") {
    const auto part = fuse_fx(
        *make_model({{"conv", test::make_conv(2, 2, 3, 1)}, {"relu", std::make_shared<nn::ReLU>()}},
                    [](test::LambdaModel& m, nn::Arguments x) { return m.call("relu", m.call("conv", x[0])); }));
    const auto model =
        stubbed({{"part", part}}, [](test::LambdaModel& m, nn::Arguments x) { return m.call("part", x[0]); });
    const QConfig wide = get_default_calib_qconfig(DType::int16);
    for (const char* name : {"part", "part.conv", "part.relu"}) {
        INFO(name);
        CHECK(quantizers_of(*prepare_calibration_fx(*model, get_default_qconfig_mapping().set_module_name(name, wide),
                                                    bayes)) == "quant>int8 part_conv>int16 ");
    }
}

TEST_CASE("An entry that changes nothing is an error, as one that matches nothing is") {
    const auto model = stubbed({{"conv", test::make_conv(2, 2, 3, 1)},
                                {"norm", test::make_batch_norm<nn::BatchNorm2d>(2, 2)},
                                {"max", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))},
                                {"own", test::make_user_layer()}},
                               [](test::LambdaModel& m, nn::Arguments x) {
                                   const nn::Value y = nn::relu(m.call("norm", m.call("conv", x[0])));
                                   return m.call("own", m.call("max", y));
                               });
    const QConfig wide = get_default_calib_qconfig(DType::int16);
    const auto refusal = [&](const QConfigMapping& mapping) {
        return message_of<Error>([&] { prepare_calibration_fx(*model, mapping, bayes); });
    };
    const auto mapping = get_default_qconfig_mapping();
    const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
    CHECK(has(refusal(QConfigMapping(mapping).set_module_name("norm", wide)), "\"norm\" changes nothing"));
    CHECK(
        has(refusal(QConfigMapping(mapping).set_object_type("BatchNorm2d", wide)), "\"BatchNorm2d\" changes nothing"));
    CHECK(has(refusal(QConfigMapping(mapping).set_module_name("max", wide)), "\"max\" changes nothing"));
    CHECK(has(refusal(QConfigMapping(mapping).set_module_name("own", wide)), "\"own\" changes nothing"));
    CHECK(has(refusal(QConfigMapping(mapping).set_module_name_regex("m.x", wide)), "regex \"m.x\" changes nothing"));
    CHECK(has(refusal(QConfigMapping(mapping).set_object_type("Conv2d", wide).set_module_name("conv", wide)),
              "the object type \"Conv2d\" changes nothing. It matches conv (Conv2d)"));
    // Off is off, and says what happens to an operator without an integer form anyway.
    for (const char* name : {"max", "own"})
        CHECK(refusal(QConfigMapping(mapping).set_module_name(name, std::nullopt)) == "nothing was thrown");
    CHECK(refusal(QConfigMapping(mapping).set_module_name("conv", wide)) == "nothing was thrown");
}

TEST_CASE("FloatFunctional::add_relu is an add with its relu: fused into a convolution, or a sum on codes") {
    const auto model = [](bool together) {
        return stubbed({{"conv", test::make_conv(2, 2, 3, 1)},
                        {"other", test::make_conv(2, 2, 3, 2)},
                        {"skip", std::make_shared<nn::FloatFunctional>()},
                        {"join", std::make_shared<nn::FloatFunctional>()}},
                       [together](test::LambdaModel& m, nn::Arguments x) {
                           const auto sum = [&](const char* name, const nn::Value& a, const nn::Value& b) {
                               if (together) return nn::call_float(m, name, "add_relu", a, b);
                               return nn::relu(nn::call_add(m, name, a, b));
                           };
                           const nn::Value y = sum("skip", m.call("conv", x[0]), x[0]);
                           return m.call("other", sum("join", y, x[0]));
                       });
    };
    for (const arith::PolicyRecord& target : {bernoulli2, bayes, meta, tflite, fp32}) {
        INFO(target.name);
        const auto prepared = prepare(*model(true), target), apart = prepare(*model(false), target);
        CHECK(prepared->report().fallbacks.empty());
        CHECK(quantizers_of(*prepared).size() == quantizers_of(*apart).size());
        if (target.fused_add) CHECK(prepared->find("conv").type_name() == "qat.ConvAddReLU2d");
        const intq::Tensor x = test::random_tensor(Shape(2, 2, 5, 5), 3);
        calibrate(*prepared, x, 2);
        calibrate(*apart, x, 2);
        set_fake_quantize(*prepared, FakeQuantState::validation);
        set_fake_quantize(*apart, FakeQuantState::validation);
        CHECK(test::largest_difference((*prepared)(x).tensor(), (*apart)(x).tensor()) == 0);
    }
    const auto named = prepare_calibration_fx(
        *model(true), get_default_qconfig_mapping().set_module_name("join", get_default_calib_qconfig(DType::int16)),
        bayes);
    CHECK(quantizers_of(*named).find("relu_1>int16") != std::string::npos);
}

TEST_CASE("A key that matches nothing is an error that names the nearest") {
    test::ResidualNet model(4);
    CHECK(message_of<Error>([&] {
              prepare_calibration_fx(
                  model, get_default_qconfig_mapping().set_module_name("layer1.0.conv9", std::nullopt), bayes);
          })
              .find("no operator matches the module name \"layer1.0.conv9\"; the nearest are \"layer1.0.conv1\", "
                    "\"layer1.0.conv2\"") != std::string::npos);
    CHECK(message_of<Error>([&] {
              prepare_calibration_fx(model, get_default_qconfig_mapping().set_object_type("Conv3d", std::nullopt),
                                     bayes);
          }).find("\"Conv2d\"") != std::string::npos);
    // Ancestors count.
    prepare_calibration_fx(model, get_default_qconfig_mapping().set_module_name("layer1", default_qconfig()), bayes);
}

TEST_CASE("Without a qconfig an operator stays in float and is listed; strict makes it an error") {
    test::ResidualNet model(4);
    const auto mapping = get_default_qconfig_mapping().set_module_name("layer1.1", std::nullopt);
    const auto prepared = prepare_calibration_fx(model, mapping, bayes);
    CHECK(quantizers_of(*prepared).find("layer1_1_conv1>") == std::string::npos);
    CHECK(prepared->find("layer1.1.conv1").type_name() == "ConvReLU2d");
    REQUIRE(prepared->report().fallbacks.size() == 2);
    CHECK(prepared->report().fallbacks[0].node == "layer1_1_conv1");
    CHECK(prepared->report().fallbacks[0].reason == "its qconfig is none");
    // The next quantized operator gets a quantizer on its input.
    CHECK(graph::type_of(*prepared->graph().find("depthwise")->inputs()[0], *prepared) == "FakeQuantize");
    PrepareOptions strict;
    strict.strict = true;
    CHECK(message_of<Error>([&] {
              prepare_calibration_fx(model, mapping, bayes, strict);
          }).find("layer1.1.conv1 (%layer1_1_conv1, ConvReLU2d): it stays in float, because its qconfig is none") !=
          std::string::npos);
}

TEST_CASE("An operator without an integer form is listed where it reads codes, not behind a DeQuantStub") {
    const auto outside =
        make_model({{"net", std::make_shared<test::ResidualNet>(4)}, {"softmax", std::make_shared<nn::Softmax>(1)}},
                   [](test::LambdaModel& m, nn::Arguments x) { return m.call("softmax", m.call("net", x[0])); });
    CHECK(prepare(*outside, bayes)->report().fallbacks.empty());
    const auto inside =
        stubbed({{"own", test::make_user_layer()}, {"conv", test::make_conv(2, 2, 3, 1)}},
                [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", m.call("own", x[0])); });
    const auto prepared = prepare(*inside, bayes);
    REQUIRE(prepared->report().fallbacks.size() == 1);
    CHECK(prepared->report().fallbacks[0].type == "UserLayer");
    CHECK(quantizers_of(*prepared) == "quant>int8 own>int8 ");
}

TEST_CASE("What the target's table refuses is an error with the node and the target") {
    test::ResidualNet model(4);
    CHECK(message_of<Error>([&] {
              prepare(model, bernoulli2, DType::int16);
          }).find("prepare: %quant (QuantStub): quantize") == 0);
    CHECK(message_of<Error>([&] { prepare(model, bernoulli2, DType::int16); }).find("(target bernoulli2)") !=
          std::string::npos);
    CHECK(message_of<Error>([&] {
              prepare_calibration_fx(model, get_default_qconfig_mapping(DType::int16, DType::int16), bayes);
          }).find("the weight") != std::string::npos);
    prepare_calibration_fx(model, get_default_qconfig_mapping(DType::int16, DType::int16), meta);
    QConfig affine = default_qconfig();
    affine.output->options.observer_options.scheme = arith::QuantScheme::affine;
    CHECK(message_of<Error>([&] {
              prepare_calibration_fx(model, QConfigMapping().set_global(affine), bayes);
          }).find("has no zero points") != std::string::npos);
    prepare_calibration_fx(model, QConfigMapping().set_global(affine), fp32);
    CHECK(message_of<Error>([&] { prepare(*prepare(model, bayes), bayes); }).find("prepared already") !=
          std::string::npos);
}

TEST_CASE("Operands of another type are requantized to the operator's") {
    const auto model = stubbed(
        {{"a", test::make_conv(2, 2, 3, 1)}, {"b", test::make_conv(2, 2, 3, 2)}, {"last", test::make_conv(2, 2, 3, 3)}},
        [](test::LambdaModel& m, nn::Arguments x) {
            const nn::Value a = nn::relu6(m.call("a", x[0]));
            const nn::Value b = nn::relu6(m.call("b", x[0]));
            return nn::relu6(m.call("last", nn::relu(a + b)));
        });
    // The add and its relu are one: the type of the relu's output decides. tflite's next convolution wants one type.
    const auto wide = get_default_qconfig_mapping().set_object_type("relu", get_default_calib_qconfig(DType::int16));
    CHECK(quantizers_of(*prepare_calibration_fx(*model, wide, tflite)) ==
          "quant>int8 a>int8 activation_post_process_1>int16 b>int8 activation_post_process_2>int16 relu>int16 "
          "activation_post_process_5>int8 last>int8 ");
    // bayes takes int16 into a convolution that gives int8.
    CHECK(quantizers_of(*prepare_calibration_fx(*model, wide, bayes)) ==
          "quant>int8 a>int8 activation_post_process_1>int16 b>int8 activation_post_process_2>int16 relu>int16 "
          "last>int8 ");
    const auto first = get_default_qconfig_mapping().set_module_name("quant", get_default_calib_qconfig(DType::int16));
    CHECK(quantizers_of(*prepare_calibration_fx(*model, first, bayes)) ==
          "quant>int16 a>int8 b>int8 relu>int8 last>int8 ");
}

TEST_CASE("Calibration observes and changes nothing, validation rounds; shapes are recorded") {
    test::ResidualNet model(4);
    const auto prepared = prepare(model, bayes);
    const intq::Tensor x = test::random_tensor(Shape(4, 3, 6, 6), 3);
    const auto fused = fuse_fx(model);
    {
        const FloatSumsScope as_a_model_with_observers(FloatSums::reproducible);
        CHECK(test::largest_difference((*prepared)(x).tensor(), (*fused)(x).tensor()) == 0);
    }
    std::size_t calls = 0;
    calibrate(*prepared, x, 3, [&](std::size_t done, std::size_t total) {
        CHECK(done == ++calls);
        CHECK(total == 2);
    });
    CHECK(calls == 2);
    CHECK(prepared->graph().find("depthwise")->outputs()[0].shape == Shape(1, 4, 3, 3));
    const double difference = test::largest_difference((*prepared)(x).tensor(), model(x).tensor());
    CHECK(difference > 0);
    CHECK(difference < 0.5);
    const auto copy = nn::clone(prepared);
    CHECK(test::largest_difference((*prepared)(x).tensor(), (*copy)(x).tensor()) == 0);
}

TEST_CASE("A mapping or a model of which nothing would be quantized is an error that names a node") {
    test::ResidualNet model(4);
    for (const PrepareOptions& options : {PrepareOptions{}, torch_mode()})
        CHECK(message_of<Error>([&] { prepare_calibration_fx(model, QConfigMapping(), bayes, options); }) ==
              "prepare: %quant (QuantStub): its qconfig is none, as is every other operator's, and nothing would be "
              "quantized; give the mapping a global qconfig, or one for a module");
    const auto pools = make_model({{"pool", std::make_shared<nn::MaxPool2d>(nn::square_window(2, 2))}},
                                  [](test::LambdaModel& m, nn::Arguments x) { return m.call("pool", x[0]); });
    CHECK(message_of<Error>([&] { prepare(*pools, bayes); }) ==
          "prepare: %x (placeholder): no QuantStub takes it, and nothing would be quantized; put one after it, or "
          "call add_stubs()");
}

TEST_CASE("Weights and statistics that are not numbers are errors with the node, wherever they are met") {
    const intq::Tensor x = test::random_tensor(Shape(1, 3, 6, 6), 3);
    const auto message_with = [&](const char* module, const char* tensor, float value, bool after = false) {
        test::ResidualNet model(4);
        if (!after) model.find(module).tensor(tensor).flat<float>()[1] = value;
        return message_of<Error>([&] {
            const auto prepared = prepare(model, bayes);
            calibrate(*prepared, x, 1);
            if (after) prepared->find(module).tensor(tensor).flat<float>()[1] = value;
            convert_fx(*prepared);
        });
    };
    const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    const std::string weight = message_with("depthwise", "weight", nan);
    CHECK(has(weight, "%depthwise = call_module"));
    CHECK(has(weight, "element 1 of the input is NaN or infinite"));
    CHECK(has(message_with("depthwise", "bias", nan), "(%depthwise)"));  // at the quantizer behind it
    // relu6 hides an infinity from the quantizer; the classifier gives its accumulator, which no quantizer sees.
    CHECK(has(message_with("depthwise", "bias", infinity),
              "prepare: %depthwise (qat.ConvReLU62d): element 1 of the bias is NaN or infinite"));
    CHECK(has(message_with("fc", "bias", nan), "prepare: %fc (qat.Linear): element 1 of the bias is NaN or infinite"));
    CHECK(message_with("fc", "weight", infinity, true) ==
          "convert: %fc (qat.Linear): element 1 of the weight is NaN or infinite");
    CHECK(message_with("bn", "running_var", -1.0f) ==
          "fuse: conv2d-batch_norm2d-relu of %stem: BatchNorm2d: running_var of channel 1 is -1.000000; with eps it "
          "must be a positive number");
    CHECK(has(message_with("layer1.1.bn2", "running_var", nan), "of %layer1_1_conv2: BatchNorm2d: running_var of"));
}

TEST_CASE("In training bad data names the node; a model that saw none is not converted") {
    test::ResidualNet model(4);
    const auto prepared = prepare_qat_fx(model, get_default_qconfig_mapping(), bayes);
    CHECK(message_of<Error>([&] { convert_fx(*prepared); }) ==
          "convert: %activation_post_process_0 (FakeQuantize): no data was seen by the quantizer of %quant: run the "
          "prepared model on samples first (calibrate() does, and so does a training), or load the state of one that "
          "ran");
    intq::Tensor bad = test::random_tensor(Shape(1, 3, 6, 6), 3);
    bad.flat<float>()[5] = std::numeric_limits<float>::infinity();
    const std::string message = message_of<Error>([&] { (*prepared)(bad); });
    CHECK(message.find("%activation_post_process_0 = call_module[activation_post_process_0] (%quant)") !=
          std::string::npos);
    CHECK(message.find("element 5 of the input is NaN or infinite") != std::string::npos);
    const auto without_stubs = make_model({{"conv", test::make_conv(3, 2, 3, 1)}},
                                          [](test::LambdaModel& m, nn::Arguments x) { return m.call("conv", x[0]); });
    CHECK(message_of<Error>([&] { prepare_qat_fx(*without_stubs, get_default_qconfig_mapping(), bayes); }) ==
          "prepare: %conv (Conv2d): it takes the real values of %x: put a QuantStub between, call add_stubs(), or use "
          "torch compatibility");
}

TEST_CASE("Bad calibration data is an error that says where") {
    test::ResidualNet model(4);
    const auto prepared = prepare(model, bayes);
    CHECK(message_of<Error>([&] {
              calibrate(*prepared, std::span<const intq::Tensor>());
          }).find("the calibration set is empty") != std::string::npos);
    CHECK(message_of<Error>([&] {
              calibrate(*prepared, intq::Tensor::zeros(Shape(0, 3, 6, 6)), 4);
          }).find("the calibration set is empty") != std::string::npos);
    intq::Tensor bad = test::random_tensor(Shape(1, 3, 6, 6), 3);
    bad.flat<float>()[17] = std::numeric_limits<float>::quiet_NaN();
    const std::string message = message_of<Error>([&] { calibrate(*prepared, bad, 1); });
    CHECK(message.find("%activation_post_process_0 = call_module[activation_post_process_0] (%quant)") !=
          std::string::npos);
    CHECK(message.find("element 17 of the input is NaN or infinite") != std::string::npos);
}

TEST_CASE("A function is known by its name, wherever the name is stored") {
    // Two units of a program may have a literal each, at addresses of their own.
    static char stored[] = "sigmoid";
    static const nn::Function own{stored, nn::unary_function<TableFunction::sigmoid>.evaluate};
    const auto model = stubbed({}, [](test::LambdaModel&, nn::Arguments x) { return nn::call(own, x[0]); });
    const auto prepared = prepare(*model, tflite);
    calibrate(*prepared, test::random_tensor(Shape(2, 3, 4, 4), 7), 2);
    const graph::Node& behind = *prepared->graph().find("sigmoid")->users()[0];
    const auto& quantizer = dynamic_cast<Quantizer&>(*graph::module_of(behind, *prepared));
    CHECK(quantizer.qparams().scales == std::vector<float>{1.0f / 256.0f});
}

TEST_CASE("A clamp whose bound is NaN is refused by prepare") {
    const auto model = stubbed({}, [](test::LambdaModel&, nn::Arguments x) {
        return nn::clamp(x[0], std::numeric_limits<double>::quiet_NaN(), 1.0);
    });
    for (const arith::PolicyRecord* target : {&fp32, &tflite, &bayes})
        CHECK(message_of<Error>([&] { prepare(*model, *target); }).find("a bound is NaN") != std::string::npos);
}
