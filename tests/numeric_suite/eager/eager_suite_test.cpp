// SPDX-License-Identifier: MIT
//
// The eager numeric suite on the two models of PyTorch's tutorial: a residual network with FloatFunctional.add_relu,
// and Embedding, LSTM, Linear. Keys and shapes are PyTorch's (golden/ns_eager.json), except where the comments say so.
#include "intq/arith/fp32.hpp"
#include "intq/nn.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/numeric_suite/eager/compare_outputs.hpp"
#include "intq/numeric_suite/eager/compare_stub.hpp"
#include "intq/numeric_suite/eager/compare_weights.hpp"
#include "intq/numeric_suite/fx/node_types.hpp"
#include "intq/numeric_suite/loggers/layer_types.hpp"
#include "intq/numeric_suite/loggers/value_metrics.hpp"
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/quantization/convert/quantized_module.hpp"
#include "intq/quantization/dynamic/quantize_dynamic.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/fuse_eager.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
namespace ns = intq::numeric_suite;
using nlohmann::ordered_json;
using test::LanguageModel;
using test::message_of;
using test::same_bytes;

namespace {

struct Block : nn::Cloneable<Block> {
    explicit Block(unsigned seed) {
        add_child("conv1", test::make_conv(3, 3, 1, seed));
        add_child("bn1", test::make_batch_norm<nn::BatchNorm2d>(3, seed + 1));
        add_child("relu", std::make_shared<nn::ReLU>());
        add_child("conv2", test::make_conv(3, 3, 1, seed + 2));
        add_child("ff", std::make_shared<nn::FloatFunctional>());
    }
    std::string type_name() const override { return "Block"; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value y = call("conv2", call("relu", call("bn1", call("conv1", x[0]))));
        return nn::call_float(*this, "ff", "add_relu", y, x[0]);
    }
};

struct Net : nn::Cloneable<Net> {
    Net() {
        add_child("quant", std::make_shared<nn::QuantStub>());
        add_child("conv", test::make_conv(3, 3, 1, 1));
        add_child("layer1", std::make_shared<nn::Sequential>(std::initializer_list<nn::ModulePtr>{
                                std::make_shared<Block>(10), std::make_shared<Block>(20)}));
        add_child("pool", std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{1, 1}));
        add_child("fc", test::make_linear(3, 2, 30));
        add_child("dequant", std::make_shared<nn::DeQuantStub>());
        eval();
    }
    std::string type_name() const override { return "Net"; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value y = call("pool", call("layer1", call("conv", call("quant", x[0]))));
        return call("dequant", call("fc", nn::flatten(y, 1)));
    }
};

struct Pair {
    nn::ModulePtr float_model, quantized;
    std::vector<nn::Value> data;
};

Pair conv_pair(index_t batch) {
    const auto fused = fuse_modules(std::make_shared<Net>(), {{"layer1.0.conv1", "layer1.0.bn1", "layer1.0.relu"},
                                                              {"layer1.1.conv1", "layer1.1.bn1", "layer1.1.relu"}});
    const Tensor x = test::random_tensor(Shape(batch, 3, 4, 4), 5);
    const auto& table = *test::scalar_tables().tables[0];
    PrepareModulesOptions torch;
    torch.compatibility = Compatibility::torch;
    const auto quantized = quantize(
        fused, [&](nn::Module& prepared) { prepared(x); }, get_default_qconfig_mapping(table.policy()), table, torch);
    return {fused, quantized, {x}};
}

Pair lstm_pair() {
    const auto model = std::make_shared<LanguageModel>();
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 12; ++i) ids.push_back(i * 7 % 10);
    const Tensor zero = Tensor::zeros(Shape(2, 3, 6));
    return {model, quantize_dynamic(model), {Tensor::from(Shape(4, 3), ids), nn::Value(nn::Value::Tuple{zero, zero})}};
}

/// PyTorch's activations are quint8, and ours int8. Its fused float layers log every run twice.
ordered_json ours(ordered_json golden) {
    for (auto& [key, lists] : golden.items())
        for (auto& [which, list] : lists.items()) {
            if (which == "float" && list.is_array() && list.size() == 2 && list[0] == list[1]) list.erase(1);
            if (!list.is_array()) continue;
            for (auto& tensor : list)
                if (tensor.is_object() && tensor["dtype"] == "quint8") tensor["dtype"] = "qint8";
        }
    return golden;
}

ordered_json golden_of(const std::string& name) {
    std::ifstream file(std::string(INTQ_TESTS_DIR) + "/golden/ns_eager.json");
    const auto cases = ordered_json::parse(file).at("cases");
    for (const auto& row : cases)
        if (row.at("name") == name) return row.at("result");
    throw std::runtime_error("no case " + name);
}

const ns::LoggerFactory torch_shadow = [] { return std::make_shared<ns::ShadowLogger>(ns::ShadowRule::torch); };

double sqnr(const nn::Value& x, const nn::Value& y) { return ns::compare_values(ns::compute_sqnr, x, y).number(); }

}  // namespace

TEST_CASE("compare_weights has PyTorch's keys and shapes on the residual network") {
    const Pair pair = conv_pair(2);
    (*pair.quantized).dispatch("forward", pair.data);
    const auto weights =
        ns::compare_weights(nn::state_dict(*pair.float_model), ns::quantized_state_dict(*pair.quantized));
    CHECK(ordered_json::parse(ns::to_json(weights)) == golden_of("conv_net:compare_weights"));
    for (const auto& [name, weight] : weights) {
        INFO(name);
        CHECK(sqnr(weight.float_, weight.quantized) > 30.0);
    }
}

TEST_CASE("The weights of a converted model are the codes that its program computes with") {
    const Pair pair = conv_pair(2);
    const auto& conv = dynamic_cast<const QuantizedModule&>(*pair.quantized->child("conv"));
    const Tensor before = conv.weight_codes();
    CHECK(conv.known_output_qparams().has_value());
    (*pair.quantized).dispatch("forward", pair.data);
    CHECK(conv.weight_codes().qparams()->scales == conv.weight_qparams().scales);
    CHECK(before.shape() == conv.weight_codes().shape());
    CHECK(*conv.known_output_qparams() == conv.output_qparams());
    CHECK(message_of<Error>([&] {
              dynamic_cast<const QuantizedModule&>(*pair.quantized->child("pool")).weight_codes();
          }).find("it has no weight") != std::string::npos);
}

TEST_CASE("compare_weights has PyTorch's keys and shapes on the LSTM, and the weights of the input besides") {
    const Pair pair = lstm_pair();
    const auto weights =
        ns::compare_weights(nn::state_dict(*pair.float_model), ns::quantized_state_dict(*pair.quantized));
    auto found = ordered_json::parse(ns::to_json(weights));
    // PyTorch overwrites them by those of the state, under one key.
    for (const auto& [key, inputs] :
         {std::pair{"rnn._all_weight_values.0.param_ih", 8}, std::pair{"rnn._all_weight_values.1.param_ih", 6}}) {
        CHECK(found.at(key).at("float").at("shape") == ordered_json::array({24, inputs}));
        found.erase(key);
    }
    CHECK(found == golden_of("lstm:compare_weights"));
    const auto& hidden = weights.at("rnn._all_weight_values.0.param");
    CHECK(same_bytes(hidden.float_, pair.float_model->find("rnn").tensor("weight_hh_l0")));
    CHECK(sqnr(hidden.float_, hidden.quantized) > 30.0);
    CHECK(std::isinf(sqnr(weights.at("encoder.weight").float_, weights.at("encoder.weight").quantized)));
}

TEST_CASE("find_match takes the parts of names as they are") {
    using Names = std::vector<std::string>;
    for (const auto& row : test::golden_cases("ns_eager")) {
        if (row.at("name") != "find_match") continue;
        const auto key = row.at("key").get<std::string>();
        const auto found = ns::find_match(row.at("candidates").get<Names>(), key, row.at("postfix").get<std::string>());
        INFO(key);
        // PyTorch glues the parts together, so that a.bc is ab.c.
        if (key == "a.bc.weight" || row.at("result").is_null())
            CHECK(!found);
        else
            CHECK(found.value() == row.at("result").get<std::string>());
    }
    CHECK(!ns::find_match({"conv.weight"}, "conv.bias", "weight"));
    CHECK(!ns::find_match({"fc.weight"}, "_packed_params", "_packed_params"));
    CHECK(ns::find_match({"fc.weight", "weight"}, "_packed_params._packed_params", "_packed_params") == "weight");
}

TEST_CASE("compare_model_outputs has PyTorch's keys and shapes on the residual network") {
    const Pair pair = conv_pair(2);
    const auto expected = pair.quantized->dispatch("forward", pair.data);
    const auto outputs = ns::compare_model_outputs(*pair.float_model, *pair.quantized, pair.data);
    CHECK(ordered_json::parse(ns::to_json(outputs)) == ours(golden_of("conv_net:compare_model_outputs")));
    for (const auto& [name, lists] : outputs) {
        INFO(name);
        CHECK(sqnr(lists.at("float")[0], lists.at("quantized")[0]) > 15.0);
    }
    // Loggers change nothing, and a second run is logged behind the first one.
    CHECK(same_bytes(pair.quantized->dispatch("forward", pair.data).tensor(), expected.tensor()));
    CHECK(ns::get_logger_dict(*pair.quantized).at("conv.stats").at("tensor_val").size() == 2);
}

TEST_CASE("The default list is PyTorch's for the layers that there are") {
    const auto list = ns::get_default_compare_output_module_list();
    for (const char* type : {"Conv1d", "ConvReLU3d", "ConvTranspose1d", "qat.ConvTranspose3d", "QuantizedConv3d",
                             "BatchNorm3d", "BNReLU2d", "dynamic.LSTM", "Hardswish", "DeQuantStub", "Sequential"})
        CHECK(list.count(type) == 1);
    for (const char* type : {"ReLU", "Sigmoid", "Tanh", "SiLU", "GELU", "Hardsigmoid", "Hardtanh", "BatchNorm1d",
                             "MaxPool2d", "Flatten", "Identity", "Softmax"})
        CHECK(list.count(type) == 0);
}

TEST_CASE("compare_model_outputs compares the types of a list, and FloatFunctional always") {
    const Pair pair = conv_pair(2);
    ns::CompareOutputsOptions options;
    options.allow_list = {"Conv2d", "QuantizedConv2d"};
    const auto outputs = ns::compare_model_outputs(*pair.float_model, *pair.quantized, pair.data, options);
    CHECK(ordered_json::parse(ns::to_json(outputs)) ==
          ours(golden_of("conv_net:compare_model_outputs(allow_list=Conv2d)")));
}

TEST_CASE("compare_model_outputs has PyTorch's keys and shapes on the LSTM, whose entries are tuples") {
    const Pair pair = lstm_pair();
    const auto outputs = ns::compare_model_outputs(*pair.float_model, *pair.quantized, pair.data);
    CHECK(ordered_json::parse(ns::to_json(outputs)) == golden_of("lstm:compare_model_outputs"));
    // The tutorial's [0][0]: the output of the first run.
    CHECK(sqnr(outputs.at("rnn.stats").at("float")[0].tuple()[0],
               outputs.at("rnn.stats").at("quantized")[0].tuple()[0]) > 20.0);
}

TEST_CASE("compare_model_stub has PyTorch's keys and shapes, with its rule of the first sample") {
    for (const index_t batch : {1, 2}) {
        const Pair pair = conv_pair(batch);
        const auto shadows =
            ns::compare_model_stub(*pair.float_model, *pair.quantized, {"Block"}, pair.data, torch_shadow);
        CHECK(ordered_json::parse(ns::to_json(shadows)) ==
              ours(golden_of("conv_net:compare_model_stub(Block) batch=" + std::to_string(batch))));
    }
    const Pair pair = conv_pair(2);
    const auto layers = ns::compare_model_stub(*pair.float_model, *pair.quantized,
                                               {"Conv2d", "Linear", "FloatFunctional"}, pair.data, torch_shadow);
    CHECK(ordered_json::parse(ns::to_json(layers)) ==
          ours(golden_of("conv_net:compare_model_stub(Conv2d,Linear,FloatFunctional)")));
    const Pair rnn = lstm_pair();
    const auto of_lstm =
        ns::compare_model_stub(*rnn.float_model, *rnn.quantized, {"Linear", "LSTM"}, rnn.data, torch_shadow);
    CHECK(ordered_json::parse(ns::to_json(of_lstm)) == golden_of("lstm:compare_model_stub"));
}

TEST_CASE("A shadow runs the float module on the real values of the quantized one's inputs, and changes nothing") {
    const Pair pair = conv_pair(2), plain = conv_pair(2);
    const auto expected = plain.quantized->dispatch("forward", plain.data).tensor();
    const auto outputs = ns::compare_model_outputs(*plain.float_model, *plain.quantized, plain.data);
    const auto shadows = ns::compare_model_stub(*pair.float_model, *pair.quantized, {"Conv2d"}, pair.data);
    CHECK(same_bytes(pair.quantized->dispatch("forward", pair.data).tensor(), expected));
    const auto& lists = shadows.at("conv.stats");
    CHECK(same_bytes(lists.at("quantized")[0].tensor(), outputs.at("conv.stats").at("quantized")[0].tensor()));
    const auto input = ns::dequantized(outputs.at("quant.stats").at("quantized")[0]);
    const auto by_hand = std::make_shared<Net>()->child("conv")->dispatch("forward", std::array{input});
    CHECK(test::largest_difference(lists.at("float")[0].tensor(), by_hand.tensor()) < 1e-5);
    // Whole tensors, unlike PyTorch's first samples.
    CHECK(lists.at("float")[0].tensor().shape() == Shape(2, 3, 4, 4));
}

namespace {

/// A logger of one's own: the largest magnitude of both.
struct LargestError : nn::Cloneable<LargestError, ns::Logger> {
    nn::Value forward(nn::Arguments x) override {
        const Tensor quantized = ns::dequantized(x[0]).tensor();
        stats()["largest"].push_back(test::largest_difference(quantized, x[1].tensor()));
        return x[0];
    }
};

struct Counter : nn::Cloneable<Counter, ns::Logger> {
    nn::Value forward(nn::Arguments x) override {
        stats()["calls"].push_back(1);
        return x[0];
    }
};

}  // namespace

TEST_CASE("A logger of one's own keeps what it wants") {
    const Pair pair = conv_pair(2);
    const auto errors = ns::compare_model_stub(*pair.float_model, *pair.quantized, {"Conv2d"}, pair.data,
                                               ns::logger_factory<LargestError>());
    const double largest = errors.at("conv.stats").at("largest")[0].number();
    CHECK(largest > 0.0);
    CHECK(largest < 0.5);

    const Pair counted = conv_pair(1);
    ns::CompareOutputsOptions options;
    options.logger_cls = ns::logger_factory<Counter>();
    CHECK(message_of<Error>([&] {
              ns::compare_model_outputs(*counted.float_model, *counted.quantized, counted.data, options);
          }).find("the logger has no list \"tensor_val\"; it has \"calls\"") != std::string::npos);
    CHECK(ns::get_logger_dict(*counted.quantized).at("fc.stats").at("calls").size() == 1);
}

TEST_CASE("A quantized type has one name in both spellings") {
    const auto outputs_of = [](const ns::ModuleTypes& allowed) {
        const Pair pair = conv_pair(2);
        ns::CompareOutputsOptions options;
        options.allow_list = allowed;
        return ns::to_json(ns::compare_model_outputs(*pair.float_model, *pair.quantized, pair.data, options));
    };
    CHECK(outputs_of({"Linear", "quantized.Linear"}) == outputs_of({"Linear", "QuantizedLinear"}));
    CHECK_THAT(outputs_of({"Linear", "quantized.Linear"}), Catch::Matchers::Contains("fc.stats"));
    CHECK(ns::type_word("QuantizedLinear") == "quantized.Linear");
    CHECK(ns::type_word("Quantized") == "Quantized");
    CHECK(ns::type_word("Linear") == "Linear");
    auto sets = ns::fx::get_base_name_to_sets_of_related_ops();
    CHECK(ns::fx::get_base_name_for_op(sets, "QuantizedConvReLU2d") == "conv2d");
    CHECK(ns::fx::get_base_name_for_op(sets, "quantized.ConvReLU2d") == "conv2d");
}

TEST_CASE("The eager suite does not compare a layer with one that another operator was fused into") {
    // The float model's convolution has no relu, the quantized one's has.
    const auto refused = [](const auto& compare) {
        const Pair pair = conv_pair(1);
        return message_of<Error>([&] { compare(*std::make_shared<Net>(), *pair.quantized, pair.data); });
    };
    for (const std::string& message :
         {refused([](auto&a, auto&b, const auto&data) { ns::compare_model_outputs(a, b, data); }),
          refused([](auto&a, auto&b, const auto&data) { ns::compare_model_stub(a, b, {"Conv2d"}, data); })})
        CHECK_THAT(message, Catch::Matchers::Contains("conv1\"") && Catch::Matchers::Contains(" is Conv2d, ") &&
                                Catch::Matchers::Contains(" is QuantizedConvReLU2d, ") &&
                                Catch::Matchers::Contains("fuse_modules()"));
}

TEST_CASE("Wrong use of the eager suite is refused with what is wrong") {
    const Pair pair = conv_pair(1);
    // The state_dict() of a converted model, or of a float one, is no quantized_state_dict().
    for (const nn::ModulePtr& model : {pair.quantized, pair.float_model})
        CHECK_THAT(
            message_of<Error>([&] { ns::compare_weights(nn::state_dict(*pair.float_model), nn::state_dict(*model)); }),
            Catch::Matchers::Contains("give quantized_state_dict(*model) of the converted model"));
    ns::CompareOutputsOptions options;
    options.allow_list = {"Conv2D"};
    CHECK(message_of<Error>([&] {
              ns::prepare_model_outputs(*pair.float_model, *pair.quantized, options);
          }).find("neither model has a module of the type \"Conv2D\" of the list; the nearest are \"Conv2d\"") !=
          std::string::npos);
    CHECK(message_of<Error>([&] {
              ns::get_matching_activations(*pair.float_model, *pair.quantized);
          }).find("call prepare_model_outputs() on both models") != std::string::npos);
    CHECK(message_of<Error>([&] {
              ns::prepare_model_outputs(*pair.float_model, *pair.float_model);
          }).find("one object") != std::string::npos);
    CHECK(message_of<Error>([&] {
              ns::compare_values(ns::compute_mse, test::random_tensor(Shape(2), 1), test::random_tensor(Shape(3), 1));
          }) == "a metric compares tensors of one shape, or of shapes that broadcast, given (2) and (3)");
    ns::prepare_model_outputs(*pair.float_model, *pair.quantized);
    CHECK(message_of<Error>([&] {
              ns::get_matching_activations(*pair.float_model, *pair.quantized);
          }).find("run both models on data first") != std::string::npos);
    CHECK(message_of<Error>([&] {
              ns::prepare_model_outputs(*pair.float_model, *pair.quantized);
          }).find("start from clones of models without loggers") != std::string::npos);

    CHECK(message_of<Error>([&] {
              ns::prepare_model_with_stubs(*pair.float_model, *pair.quantized, {"Conv2d"});
          }).find("prepare_model_with_stubs: there is a logger in \"") != std::string::npos);
    pair.float_model->dispatch("forward", pair.data);
    pair.float_model->dispatch("forward", pair.data);
    pair.quantized->dispatch("forward", pair.data);
    CHECK(message_of<Error>([&] { ns::get_matching_activations(*pair.float_model, *pair.quantized); }) ==
          "get_matching_activations: quant.stats: the float model was called 2 times, the quantized one 1; run "
          "both on the same data");

    const Pair other = lstm_pair();
    CHECK(message_of<Error>([&] {
              ns::compare_weights(nn::state_dict(*pair.float_model), ns::quantized_state_dict(*other.quantized));
          }).find("the models do not correspond") != std::string::npos);
    CHECK(message_of<Error>([&] {
              ns::prepare_model_with_stubs(*other.float_model, *other.quantized, {"Lstm"});
          }).find("no module of the type \"Lstm\" of the list; the nearest are \"LSTM\"") != std::string::npos);
    CHECK(message_of<Error>([&] {
              ns::prepare_model_with_stubs(*other.float_model, *other.quantized, {"Embedding"});
          }).find("either the models do not correspond or none of these modules is quantized") != std::string::npos);
}
