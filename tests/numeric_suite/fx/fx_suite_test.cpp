// SPDX-License-Identifier: MIT
//
// The FX numeric suite against PyTorch's results, key for key (golden/ns_fx.json), on the models of torch_zoo(), and on
// a network in horizon mode.
#include <fstream>

#include "intq/arith/bpu.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/numeric_suite/fx/add_loggers.hpp"
#include "intq/numeric_suite/fx/converted_model.hpp"
#include "intq/numeric_suite/fx/extract_weights.hpp"
#include "intq/numeric_suite/fx/match.hpp"
#include "intq/numeric_suite/fx/ns_tracer.hpp"
#include "intq/numeric_suite/fx/shadow_loggers.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/dynamic/quantize_dynamic.hpp"
#include "intq/quantization/fuse/fuse_fx.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"
#include "support/torch_zoo.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
namespace ns = intq::numeric_suite::fx;
using nlohmann::ordered_json;
using test::LanguageModel;
using test::message_of;
using test::same_bytes;

namespace {

/// A float model, prepared and calibrated, and converted, with the input that it was calibrated on.
struct Stages {
    std::shared_ptr<PreparedModel> prepared;
    std::shared_ptr<ns::ConvertedModel> converted;
    Tensor x;
};

Stages stages_of(const nn::Module& model, const Tensor& x, const kernels::KernelTable& table,
                 Compatibility compatibility) {
    PrepareOptions options;
    options.compatibility = compatibility;
    const auto prepared = prepare_calibration_fx(model, get_default_qconfig_mapping(), table.policy(), options);
    calibrate(*prepared, x, x.extent(0));
    const QuantizedGraph quantized = convert_fx(*prepared);
    const auto lowered = lower(quantized, table, x.extent(0));
    return {prepared, std::make_shared<ns::ConvertedModel>(quantized, lowered), x};
}

Stages torch_stages(const std::string& name) {
    for (const test::TorchModel& model : test::torch_zoo())
        if (model.name == name)
            return stages_of(*model.make(), test::random_tensor(model.input, 3), test::scalar_table("tflite"),
                             Compatibility::torch);
    throw Error("no model " + name);
}

Stages network_stages() {
    return stages_of(test::ResidualNet(), test::random_tensor(Shape(3, 3, 8, 8), 3), test::scalar_table("bayes"),
                     Compatibility::horizon);
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// PyTorch's observers are quantizers here, its activations are quint8, and its modules stand in folders.
void make_ours(ordered_json& result) {
    for (const char* key : {"prev_node_target_type", "ref_node_target_type"}) {
        std::string type = last_part(result.at(key).get<std::string>());
        if (type.ends_with("Observer") || type.ends_with("FakeQuantize")) type = "quantizer";
        result[key] = type;
    }
    for (auto& value : result.at("values")) {
        if (value.at("dtype") == "quint8") value["dtype"] = "qint8";
        value.erase("data");
    }
    result.erase("qconfig_str");
    for (const char* key : {"comparisons", "sqnr"})
        if (result.contains(key) && result.at(key).is_array()) result[key] = result.at(key).size();
}

/// Keys and results, whatever the order of the keys of one result.
nlohmann::json plain(ordered_json results) {
    for (auto& [layer, kinds] : results.items())
        for (auto& [kind, models] : kinds.items())
            for (auto& [model, list] : models.items())
                for (auto& result : list) make_ours(result);
    return nlohmann::json::parse(results.dump());
}

std::vector<std::string> layers_of(const ordered_json& results) {
    std::vector<std::string> names;
    for (const auto& [layer, kinds] : results.items()) names.push_back(layer);
    return names;
}

void check_equal(const ns::NSResults& found, const ordered_json& golden) {
    const auto ours = ordered_json::parse(ns::to_json(found));
    CHECK(layers_of(ours) == layers_of(golden));
    const auto expected = plain(golden), actual = plain(ours);
    CHECK(actual == expected);
    if (actual != expected) UNSCOPED_INFO(nlohmann::json::diff(expected, actual).dump(1));
}

ordered_json golden_of(const std::string& name) {
    std::ifstream file(std::string(INTQ_TESTS_DIR) + "/golden/ns_fx.json");
    const auto cases = ordered_json::parse(file).at("cases");
    for (const auto& row : cases)
        if (row.at("name") == name) return row;
    throw std::runtime_error("no case " + name);
}

/// functional_linear_relu is not among them: a linear function stays in float here.
const std::vector<std::string> models{"conv",     "residual_block",    "cat_conv",
                                      "add_relu", "conv_maxpool_conv", "shared_module"};

}  // namespace

TEST_CASE("extract_weights gives PyTorch's results key for key") {
    for (const std::string& name : models) {
        INFO(name);
        const Stages model = torch_stages(name);
        auto results = ns::extract_weights("a", *model.prepared, "b", *model.converted);
        ns::extend_logger_results_with_comparison(results, "a", "b", ns::compute_sqnr, "sqnr");
        check_equal(results, golden_of(name).at("weights"));
        for (const auto& [layer, kinds] : results) CHECK(kinds.at("weight").at("b")[0].at("sqnr")[0].number() > 30.0);
    }
}

TEST_CASE("Loggers give PyTorch's results key for key") {
    for (const std::string& name : models) {
        INFO(name);
        const ordered_json golden = golden_of(name);
        const Stages model = torch_stages(name);
        ns::AddLoggersOptions options;
        options.should_log_inputs = golden.at("should_log_inputs").get<bool>();
        const auto logged = ns::add_loggers("a", *model.prepared, "b", *model.converted, options);
        const auto without = (*model.converted)(model.x).tensor();
        (*logged.a)(model.x);
        CHECK(same_bytes((*logged.b)(model.x).tensor(), without));
        auto results = ns::extract_logger_info(*logged.a, *logged.b, "b");
        ns::extend_logger_results_with_comparison(results, "a", "b", ns::compute_sqnr, "sqnr");
        check_equal(results, golden.at("loggers"));
    }
}

TEST_CASE("Shadow loggers give PyTorch's results key for key") {
    for (const std::string& name : models) {
        INFO(name);
        const ordered_json golden = golden_of(name);
        const Stages model = torch_stages(name);
        ns::AddShadowLoggersOptions options;
        options.should_log_inputs = golden.at("should_log_inputs").get<bool>();
        const auto shadowed = ns::add_shadow_loggers("a", *model.prepared, "b", *model.converted, options);
        CHECK(same_bytes((*shadowed)(model.x).tensor(), (*model.converted)(model.x).tensor()));
        auto results = ns::extract_shadow_logger_info(*shadowed, "b");
        ns::extend_logger_results_with_comparison(results, "a", "b", ns::compute_sqnr, "sqnr");
        check_equal(results, golden.at("shadow"));
    }
}

TEST_CASE("A max pool that is shadowed by itself has no error of its own") {
    const Stages model = torch_stages("conv_maxpool_conv");
    const auto shadowed = ns::add_shadow_loggers("a", *model.prepared, "b", *model.converted);
    (*shadowed)(model.x);
    auto results = ns::extract_shadow_logger_info(*shadowed, "b");
    ns::extend_logger_results_with_comparison(results, "a", "b", ns::compute_sqnr, "sqnr");
    CHECK(std::isinf(results.at("_1").at("node_output").at("b")[0].at("sqnr")[0].number()));
}

TEST_CASE("The suite compares the stages of a network in horizon mode, float, prepared and converted") {
    const Stages net = network_stages();
    const auto fused = fuse_fx(test::ResidualNet());
    // Float against prepared, and unfused float against prepared too: relu6 and add count as parts of layers then.
    const auto traced = graph::symbolic_trace(*std::make_shared<test::ResidualNet>());
    for (const auto& model : {fused, traced}) {
        const auto logged = ns::add_loggers("fp32", *model, "prepared", *net.prepared);
        (*logged.a)(net.x), (*logged.b)(net.x);
        auto results = ns::extract_logger_info(*logged.a, *logged.b, "prepared");
        ns::extend_logger_results_with_comparison(results, "fp32", "prepared", ns::compute_sqnr, "sqnr");
        CHECK(results.size() >= 7);
        for (const auto& [layer, kinds] : results) {
            INFO(layer);
            CHECK(kinds.at("node_output").at("prepared")[0].at("sqnr")[0].number() > 10.0);
        }
    }
    const auto logged = ns::add_loggers("prepared", *net.prepared, "int8", *net.converted);
    (*logged.a)(net.x), (*logged.b)(net.x);
    auto results = ns::extract_logger_info(*logged.a, *logged.b, "int8");
    ns::extend_logger_results_with_comparison(results, "prepared", "int8", ns::compute_cosine_similarity, "cosine");
    ns::extend_logger_results_with_comparison(results, "prepared", "int8", ns::compute_normalized_l2_error, "l2");
    for (const auto& [layer, kinds] : results) {
        const auto& result = kinds.at("node_output").at("int8")[0];
        INFO(layer);
        CHECK(result.at("cosine")[0].number() > 0.99);
        CHECK(result.at("l2")[0].number() < 0.15);
    }
    const auto weights = ns::extract_weights("prepared", *net.prepared, "int8", *net.converted);
    CHECK(weights.size() == 7);  // stem, two blocks of two, depthwise, fc
}

TEST_CASE("Loggers can be off, keep nothing, and be of one's own class") {
    struct Silent : nn::Cloneable<Silent, ns::OutputLogger> {
        explicit Silent(const ns::OutputLoggerFields& fields) : Cloneable(ns::OutputLogger(fields)) {}
        nn::Value forward(nn::Arguments x) override {
            add_comparison(1.0);
            return x[0];
        }
        std::string comparison_fn_name() const override { return "one"; }
    };
    const Stages model = torch_stages("conv");
    ns::AddLoggersOptions options;
    options.logger_cls = ns::output_logger_factory<Silent>();
    const auto own = ns::add_loggers("a", *model.prepared, "b", *model.converted, options);
    (*own.a)(model.x), (*own.b)(model.x);
    const auto results = ns::extract_logger_info(*own.a, *own.b, "b");
    CHECK(results.at("_0").at("node_output").at("b")[0].comparisons.size() == 1);
    CHECK(results.at("_0").at("node_output").at("b")[0].comparison_fn_name == "one");

    const auto logged = ns::add_loggers("a", *model.prepared, "b", *model.converted);
    ns::loggers_set_save_activations(*logged.a, false);
    ns::loggers_set_enabled(*logged.b, false);
    (*logged.a)(model.x), (*logged.b)(model.x);
    CHECK(message_of<Error>([&] { ns::extract_logger_info(*logged.a, *logged.b, "b"); }) ==
          "extract_logger_info: nothing was logged; run the models on data first, with their loggers enabled");
}

TEST_CASE("Weights of types of one's own are extracted by a function of one's own, and related by name") {
    const Stages model = torch_stages("conv");
    ns::ExtractWeightsOptions options;
    options.op_to_type_to_weight_extraction_fn["call_module"]["qat.Conv2d"] =
        [](const graph::Node&, graph::GraphModule&) { return nn::Value(Tensor::full(Shape(1), 2.0f)); };
    const auto results = ns::extract_weights("a", *model.prepared, "b", *model.converted, options);
    CHECK(results.at("_0").at("weight").at("a")[0].values[0].tensor().shape() == Shape(1));

    auto sets = ns::get_base_name_to_sets_of_related_ops();
    CHECK(ns::get_base_name_for_op(sets, "quantized.ConvReLU2d") == "conv2d");
    CHECK(ns::get_base_name_for_op(sets, "quantized.ConvReLU3d") == "conv3d");
    CHECK(ns::get_base_name_for_op(sets, "qat.ConvTranspose1d") == "conv_transpose1d");
    CHECK(ns::get_base_name_for_op(sets, "quantized.BatchNorm3d") == "batch_norm3d");
    CHECK(ns::get_base_name_for_op(sets, "FloatFunctional.add_relu") == "add");
    CHECK(ns::get_base_name_for_op(sets, "MyConv") == std::nullopt);
    ns::add_op_to_sets_of_related_ops(sets, "MyConv", "Conv2d");
    CHECK(ns::get_base_name_for_op(sets, "MyConv") == "conv2d");
    ns::add_op_to_sets_of_related_ops(sets, "MyOther", std::nullopt);
    CHECK(ns::get_base_name_for_op(sets, "MyOther") == "MyOther");
    CHECK(message_of<Error>([&] {
              ns::add_op_to_sets_of_related_ops(sets, "Mine", "Conv2D");
          }).find("no set has the type \"Conv2D\"") != std::string::npos);
}

TEST_CASE("What cannot be shadowed is listed with the reason") {
    const Stages model = torch_stages("residual_block");
    std::vector<ns::SkippedShadow> skipped;
    ns::add_shadow_loggers("a", *model.prepared, "b", *model.converted, {}, &skipped);
    std::vector<std::string> names;
    for (const auto& one : skipped) names.push_back(one.node);
    CHECK(names == std::vector<std::string>{"add_relu", "pool", "flatten"});
    CHECK(skipped.at(1).reason.find("node_type_to_io_type_map") != std::string::npos);

    // Who says what an add gives has shadows of what reads it.
    ns::AddShadowLoggersOptions options;
    options.node_type_to_io_type_map["funs_io_type_fp32"].insert("add");
    options.node_type_to_io_type_map["funs_io_type_int8"].insert("quantized.add_relu");
    skipped.clear();
    const auto shadowed = ns::add_shadow_loggers("a", *model.prepared, "b", *model.converted, options, &skipped);
    CHECK(skipped.size() == 1);
    (*shadowed)(model.x);
    CHECK(ns::extract_shadow_logger_info(*shadowed, "b").contains("flatten"));
}

TEST_CASE("Codes shadow real values through a quantize") {
    const Stages model = torch_stages("conv");
    const auto shadowed = ns::add_shadow_loggers("int8", *model.converted, "fp32", *model.prepared);
    (*shadowed)(model.x);
    const auto results = ns::extract_shadow_logger_info(*shadowed, "fp32");
    const auto& by_model = results.begin()->second.at("node_output");
    CHECK(numeric_suite::dtype_word(by_model.at("int8")[0].values.at(0).tensor()) == "qint8");
    CHECK(ns::compute_sqnr(by_model.at("fp32")[0].values[0], by_model.at("int8")[0].values[0]).number() > 20.0);
}

TEST_CASE("A dynamic LSTM has its weights as one list, and its outputs as tuples") {
    const auto model = std::make_shared<LanguageModel>();
    const auto a = graph::symbolic_trace(*model);
    const auto b = graph::symbolic_trace(*quantize_dynamic(model));
    auto weights = ns::extract_weights("fp32", *a, "int8", *b);
    ns::extend_logger_results_with_comparison(weights, "fp32", "int8", ns::compute_sqnr, "sqnr");
    CHECK(weights.keys() == std::vector<std::string>{"rnn", "decoder"});
    const auto& rnn = weights.at("rnn").at("weight").at("int8")[0];
    REQUIRE(rnn.values.at(0).tuple().size() == 4);  // ih and hh of two layers
    CHECK(rnn.values[0].tuple()[3].tensor().shape() == Shape(24, 6));
    CHECK(rnn.at("sqnr")[0].tuple()[3].number() > 30.0);

    const auto logged = ns::add_loggers("fp32", *a, "int8", *b);
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 0; i < 12; ++i) tokens.push_back(i * 7 % 10);
    const Tensor ids = Tensor::from(Shape(4, 3), tokens), zero = Tensor::zeros(Shape(2, 3, 6));
    const nn::Value hidden = nn::Value::Tuple{zero, zero};
    (*logged.a)(ids, hidden), (*logged.b)(ids, hidden);
    auto results = ns::extract_logger_info(*logged.a, *logged.b, "int8");
    ns::extend_logger_results_with_comparison(results, "fp32", "int8", ns::compute_sqnr, "sqnr");
    const auto& output = results.at("rnn").at("node_output").at("int8")[0];
    CHECK(output.values.at(0).tuple().at(1).tuple().size() == 2);
    CHECK(output.at("sqnr")[0].tuple()[0].number() > 20.0);
    CHECK(results.at("decoder").at("node_output").at("int8")[0].at("sqnr")[0].number() > 20.0);
}

TEST_CASE("A layer that reads one of several values is logged and shadowed on that one") {
    const auto rnn = std::make_shared<nn::LSTM>(nn::LSTMOptions{.input_size = 4, .hidden_size = 3});
    unsigned seed = 50;
    for (const auto& parameter : rnn->named_parameters())
        *parameter.value = test::random_tensor(parameter.value->shape(), seed++);
    const auto model = test::make_model(
        {{"rnn", rnn}, {"fc", test::make_linear(3, 2, 1)}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("fc", m.call("rnn", x[0]).tuple()[0]); });
    const auto a = graph::symbolic_trace(*model), b = graph::symbolic_trace(*model);
    const Tensor x = test::random_tensor(Shape(2, 3, 4), 5);
    ns::AddLoggersOptions options;
    options.should_log_inputs = true;
    const auto logged = ns::add_loggers("a", *a, "b", *b, options);
    (*logged.a)(x), (*logged.b)(x);
    const auto results = ns::extract_logger_info(*logged.a, *logged.b, "b");
    const auto& input = results.at("fc").at("node_input").at("b")[0];
    REQUIRE(input.values.size() == 1);
    CHECK(test::largest_difference(input.values[0].tensor(), (*rnn)(x).tuple()[0].tensor()) == 0.0);

    ns::AddShadowLoggersOptions with_inputs;
    with_inputs.should_log_inputs = true;
    const auto shadowed = ns::add_shadow_loggers("a", *a, "b", *b, with_inputs);
    CHECK(same_bytes((*shadowed)(x).tensor(), (*model)(x).tensor()));
    auto shadows = ns::extract_shadow_logger_info(*shadowed, "b");
    ns::extend_logger_results_with_comparison(shadows, "a", "b", ns::compute_normalized_l2_error, "l2");
    for (const char* kind : {"node_input", "node_output"})
        CHECK(shadows.at("fc").at(kind).at("b")[0].at("l2")[0].number() == 0.0);
}

TEST_CASE("A FloatFunctional's cat is the same layer in a converted model") {
    const auto model = test::make_model({{"c", test::make_conv(3, 3, 1, 1)},
                                         {"f", test::make_conv(6, 2, 1, 6)},
                                         {"cc", std::make_shared<nn::FloatFunctional>()}},
                                        [](test::LambdaModel& m, nn::Arguments x) {
                                            const nn::Value both = nn::Value::Tuple{m.call("c", x[0]), x[0]};
                                            return m.call("f", nn::call_float(m, "cc", "cat", both, 1));
                                        });
    const Stages stages = stages_of(*model, test::random_tensor(Shape(2, 3, 4, 4), 3), test::scalar_table("tflite"),
                                    Compatibility::torch);
    ns::AddLoggersOptions options;
    options.should_log_inputs = true;
    const auto logged = ns::add_loggers("a", *stages.prepared, "b", *stages.converted, options);
    (*logged.a)(stages.x), (*logged.b)(stages.x);
    auto results = ns::extract_logger_info(*logged.a, *logged.b, "b");
    ns::extend_logger_results_with_comparison(results, "a", "b", ns::compute_sqnr, "sqnr");
    CHECK(results.at("cc").at("node_input").at("b").size() == 2);
    CHECK(results.at("cc").at("node_output").at("b")[0].at("sqnr")[0].number() > 20.0);
}

TEST_CASE("Dropout is a layer where both models have it, and passed over where one has") {
    const auto with = test::make_model(
        {{"fc", test::make_linear(3, 2, 1)},
         {"drop", std::make_shared<nn::Dropout>()},
         {"out", test::make_linear(2, 2, 2)}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("out", m.call("drop", m.call("fc", x[0]))); });
    const auto without =
        test::make_model({{"fc", test::make_linear(3, 2, 1)}, {"out", test::make_linear(2, 2, 2)}},
                         [](test::LambdaModel& m, nn::Arguments x) { return m.call("out", m.call("fc", x[0])); });
    const auto a = graph::symbolic_trace(*with), b = graph::symbolic_trace(*without);
    CHECK(ns::get_matching_subgraph_pairs(*a, *a).size() == 3);
    CHECK(ns::get_matching_subgraph_pairs(*a, *b).size() == 2);
}

TEST_CASE("Wrong use of the FX suite is refused with what is wrong") {
    const Stages conv = torch_stages("conv"), other = torch_stages("conv_maxpool_conv");
    CHECK(message_of<ns::GraphMatchingException>([&] {
              ns::add_loggers("a", *conv.prepared, "b", *other.converted);
          }).find("the models do not correspond: ") != std::string::npos);
    CHECK_THROWS_AS(ns::extract_weights("a", *conv.prepared, "b", *other.converted), ns::GraphMatchingException);
    CHECK(message_of<Error>([&] {
              ns::add_loggers("a", *conv.prepared, "a", *conv.converted);
          }).find("both models are named \"a\"") != std::string::npos);
    CHECK(message_of<Error>([&] { ns::extract_logger_info(*conv.prepared, *conv.converted, "a"); }) ==
          "extract_logger_info: there are no loggers in the model");
    const auto logged = ns::add_loggers("fp32", *conv.prepared, "int8", *conv.converted);
    CHECK(message_of<Error>([&] {
              ns::extract_logger_info(*logged.a, *logged.b, "int8");
          }).find("nothing was logged") != std::string::npos);
    (*logged.a)(conv.x);
    CHECK(message_of<Error>([&] {
              ns::extract_logger_info(*logged.a, *logged.b, "int9");
          }).find("no logger is of a model \"int9\"; the nearest are \"int8\"") != std::string::npos);
    auto results = ns::extract_logger_info(*logged.a, *logged.b, "int8");
    const auto extend = [&](const char* a, const char* b) {
        return message_of<Error>(
            [&] { ns::extend_logger_results_with_comparison(results, a, b, ns::compute_sqnr, "sqnr"); });
    };
    CHECK(extend("fp32", "int8").find("_0 (node_output): one model has 1 values, the other 0") != std::string::npos);
    CHECK(message_of<Error>([&] { ns::extend_logger_results_with_comparison(results, "fp32", "int8", {}, "none"); }) ==
          "extend_logger_results_with_comparison: the comparison function is empty");
    ns::AddLoggersOptions nothing;
    nothing.logger_cls = {};
    CHECK(message_of<Error>([&] {
              ns::add_loggers("a", *conv.prepared, "b", *conv.converted, nothing);
          }).find("logger_cls makes no logger") == 0);
    CHECK(extend("fp16", "int8").find("there are no results of a model \"fp16\"") != std::string::npos);
    CHECK(message_of<Error>([&] {
              (void)results.at("_0").at("node_output").at("int8")[0].at("sqnr");
          }).find("there is no \"sqnr\"") != std::string::npos);
}

TEST_CASE("Results of a list of twelve inputs stand in the order of the list") {
    ns::NSResults results;
    for (const int index : {10, 2, 0, 11, 1}) {
        ns::NSSingleResult result;
        result.index_within_arg = index;
        results["cat"]["node_input"]["a"].push_back(result);
    }
    ns::detail::complete_results(results);
    std::vector<int> order;  // PyTorch sorts them as text: 0, 1, 10, 11, 2
    for (const auto& result : results.at("cat").at("node_input").at("a")) order.push_back(result.index_within_arg);
    CHECK(order == std::vector<int>{0, 1, 2, 10, 11});
}

TEST_CASE("NSTracer keeps quantizers and what is skipped as nodes") {
    const auto model = std::make_shared<test::ResidualNet>();
    const auto traced = ns::NSTracer(*model, {"layer1.0"}, {"BasicBlock"}).trace();
    int blocks = 0;
    for (const graph::Node* node : traced->graph().nodes())
        blocks += graph::type_of(*node, *traced) == "BasicBlock" ? 1 : 0;
    CHECK(blocks == 2);
}
