// SPDX-License-Identifier: MIT
//
// n-shadows: several qconfigs beside a float model in one pass. Keys are PyTorch's (golden/ns_fx.json).
#include "intq/numeric_suite/fx/n_shadows.hpp"

#include <fstream>

#include "intq/arith/tflite.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/numeric_suite/fx/converted_model.hpp"
#include "intq/numeric_suite/fx/n_shadows_comparison.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/small_models.hpp"

using namespace intq;
using namespace intq::quantization;
using intq::Tensor;
namespace ns = intq::numeric_suite::fx;
using nlohmann::ordered_json;
using test::message_of;

namespace {

QConfig with_activation_type(DType dtype) { return get_default_calib_qconfig(dtype); }

nn::ModulePtr linear_relu_linear() {
    auto model = std::make_shared<nn::Sequential>(std::initializer_list<nn::ModulePtr>{
        test::make_linear(3, 3, 1), std::make_shared<nn::ReLU>(), test::make_linear(3, 2, 2)});
    model->eval();
    return model;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

nlohmann::json plain(ordered_json results) {
    for (auto& [layer, kinds] : results.items())
        for (auto& [kind, models] : kinds.items())
            for (auto& [model, list] : models.items())
                for (auto& result : list) {
                    for (const char* key : {"prev_node_target_type", "ref_node_target_type"})
                        result[key] = last_part(result.at(key).get<std::string>());
                    result.erase("qconfig_str");
                    if (result.at("comparisons").is_array()) result["comparisons"] = result.at("comparisons").size();
                }
    return nlohmann::json::parse(results.dump());
}

struct Run {
    std::shared_ptr<graph::GraphModule> model;
    Tensor x;
};

/// Calibrated, converted, and run twice, as the golden results were made.
Run run_twice(const ns::QConfigMultiMapping& mapping) {
    const auto& table = test::scalar_table("tflite");
    const Tensor x = test::random_tensor(Shape(4, 3), 5);
    const auto prepared = ns::prepare_n_shadows_model(*linear_relu_linear(), {x}, mapping, table.policy());
    (*prepared)(x);
    const auto converted = ns::convert_n_shadows_model(prepared, table);
    ns::loggers_set_enabled(*converted, true);
    (*converted)(x), (*converted)(x);
    return {converted, x};
}

ns::QConfigMultiMapping two_candidates() {
    return ns::QConfigMultiMapping()
        .set_global({with_activation_type(DType::int8), with_activation_type(DType::int16)})
        .set_module_name("2", {with_activation_type(DType::int8)});
}

}  // namespace

TEST_CASE("n-shadows give PyTorch's results key for key") {
    std::ifstream file(std::string(INTQ_TESTS_DIR) + "/golden/ns_fx.json");
    const ordered_json cases = ordered_json::parse(file).at("cases");
    ordered_json golden;
    for (const auto& row : cases)
        if (row.at("name") == "n_shadows:linear_relu_linear") golden = row.at("results");
    const Run run = run_twice(two_candidates());
    const auto results = ns::extract_results_n_shadows_model(*run.model);
    CHECK(plain(ordered_json::parse(ns::to_json(results))) == plain(golden));

    const auto& first = results.at("model").at("node_output").at("subgraph_0_1")[0];
    CHECK(first.qconfig_str->find("int8") != std::string::npos);
    CHECK(results.at("model").at("node_output").at("subgraph_0_0")[0].qconfig_str == "");
}

TEST_CASE("The model computes what it did, and its shadows run on the program's integers") {
    const Run run = run_twice(two_candidates());
    const auto plain_model = linear_relu_linear();
    CHECK(test::largest_difference((*run.model)(run.x).tensor(), (*plain_model)(run.x).tensor()) == 0.0);
    for (const char* name : {"shadow_wrapper_0_1", "shadow_wrapper_0_2", "shadow_wrapper_1_1"})
        CHECK(dynamic_cast<ns::ConvertedModel*>(run.model->child(name).get()) != nullptr);
    CHECK(!run.model->has_child("shadow_wrapper_1_2"));
}

TEST_CASE("More bits are closer to the float layer, in the table too") {
    const Run run = run_twice(two_candidates());
    const auto results = ns::extract_results_n_shadows_model(*run.model);
    const auto comparisons = ns::create_results_comparison(results);
    REQUIRE(comparisons.keys() == std::vector<std::string>{"subgraph_0", "subgraph_1"});
    const auto& layer = comparisons.at("subgraph_0");
    CHECK(layer.ref_node_name == "_0");
    CHECK(layer.fqn == "0");
    CHECK(layer.candidates.at("1").cmp_raw.size() == 2);
    CHECK(layer.candidates.at("1").cmp_mean > 20.0);
    CHECK(layer.candidates.at("2").cmp_mean > layer.candidates.at("1").cmp_mean);
    CHECK(!comparisons.at("subgraph_1").candidates.contains("2"));

    const std::string table = ns::comparisons_n_shadows_table(results);
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < table.size();) {
        const auto end = table.find('\n', at);
        lines.push_back(table.substr(at, end - at));
        at = end + 1;
    }
    REQUIRE(lines.size() == 4);
    CHECK(lines[0].starts_with("node_name"));
    CHECK(lines[0].find("fqn") != std::string::npos);
    CHECK(lines[2].starts_with("_0"));
    CHECK(lines[3].starts_with("_2"));
    CHECK(lines[2].find('.') == lines[3].find('.'));  // decimal points below each other
    CHECK(ordered_json::parse(numeric_suite::to_json(comparisons)).at("subgraph_0").at("candidates").size() == 2);
}

TEST_CASE("Lists of qconfigs become mappings as in PyTorch") {
    const auto a = with_activation_type(DType::int8), b = with_activation_type(DType::int16);
    using List = ns::QConfigMultiMapping::List;
    const auto linear_of = [](const QConfigMapping& mapping) {
        return mapping.find(nn::FusedMember{"fc", "Linear", "", "fc"}).qconfig;
    };
    const auto conv_of = [](const QConfigMapping& mapping) {
        return mapping.find(nn::FusedMember{"conv", "Conv2d", "", "conv"}).qconfig;
    };
    const auto text = [](const std::optional<QConfig>& qconfig) {
        return qconfig ? ns::to_string(*qconfig) : std::string("none");
    };
    ns::QConfigMultiMapping mapping;
    mapping.set_global({a, b}).set_object_type("Linear", {b});
    REQUIRE(mapping.qconfig_mappings_list().size() == 2);
    CHECK(text(conv_of(mapping.qconfig_mappings_list()[0])) == ns::to_string(a));
    CHECK(text(linear_of(mapping.qconfig_mappings_list()[0])) == ns::to_string(b));
    CHECK(text(conv_of(mapping.qconfig_mappings_list()[1])) == ns::to_string(b));
    CHECK(text(linear_of(mapping.qconfig_mappings_list()[1])) == "none");

    // Duplicates go, and the first none with what would have been behind it moving up.
    ns::QConfigMultiMapping odd;
    odd.set_global(List{a, a, std::nullopt, b, std::nullopt});
    REQUIRE(odd.qconfig_mappings_list().size() == 3);
    CHECK(text(conv_of(odd.qconfig_mappings_list()[1])) == ns::to_string(b));
    CHECK(text(conv_of(odd.qconfig_mappings_list()[2])) == "none");

    // A longer list makes mappings in which the keys before it have none.
    ns::QConfigMultiMapping longer;
    longer.set_object_type("Linear", {a}).set_global({a, b});
    REQUIRE(longer.qconfig_mappings_list().size() == 2);
    CHECK(text(linear_of(longer.qconfig_mappings_list()[1])) == "none");
    CHECK(text(conv_of(longer.qconfig_mappings_list()[1])) == ns::to_string(b));
}

TEST_CASE("Custom functions prepare and convert the copies, with their arguments") {
    const auto& table = test::scalar_table("tflite");
    const Tensor x = test::random_tensor(Shape(4, 3), 5);
    ns::PrepareNShadowsOptions options;
    options.custom_prepare_kwargs["factor"] = 3;
    options.custom_prepare_fn = [](graph::GraphModule& layer, const QConfig&, const std::vector<Tensor>& inputs,
                                   const ns::CustomKwargs& kwargs) {
        CHECK(kwargs.at("factor").integer() == 3);
        CHECK(inputs.size() == 1);
        return std::static_pointer_cast<graph::GraphModule>(layer.copy());
    };
    const auto prepared = ns::prepare_n_shadows_model(
        *linear_relu_linear(), {x}, ns::QConfigMultiMapping().set_global({with_activation_type(DType::int8)}),
        table.policy(), options);
    CHECK(message_of<Error>([&] {
              ns::convert_n_shadows_model(prepared, table);
          }).find("shadow_wrapper_0_1: it is no prepared model") != std::string::npos);
    int converted = 0;
    ns::ConvertNShadowsOptions convert;
    convert.custom_convert_fn = [&](const nn::ModulePtr& module, const ns::CustomKwargs&) {
        ++converted;
        return module;
    };
    ns::convert_n_shadows_model(prepared, table, convert);
    CHECK(converted == 2);
    ns::loggers_set_enabled(*prepared, true);
    (*prepared)(x);
    const auto comparisons = ns::create_results_comparison(ns::extract_results_n_shadows_model(*prepared));
    CHECK(std::isinf(comparisons.at("subgraph_0").candidates.at("1").cmp_mean));  // the layer beside itself
}

TEST_CASE("A layer of several operators and a layer of two inputs are copied whole") {
    const auto& table = test::scalar_table("tflite");
    const auto model = test::make_model({{"conv", test::make_conv(3, 3, 3, 1)},
                                         {"bn", test::make_batch_norm<nn::BatchNorm2d>(3, 2)},
                                         {"relu", std::make_shared<nn::ReLU>()}},
                                        [](test::LambdaModel& m, nn::Arguments x) {
                                            return m.call("relu", m.call("bn", m.call("conv", x[0]))) + x[0];
                                        });
    const Tensor x = test::random_tensor(Shape(2, 3, 6, 6), 5);
    const auto prepared = ns::prepare_n_shadows_model(
        *model, {x}, ns::QConfigMultiMapping().set_global({with_activation_type(DType::int8)}), table.policy());
    CHECK(prepared->graph().find("shadow_wrapper_1_1")->args().size() == 2);
    (*prepared)(x);
    const auto converted = ns::convert_n_shadows_model(prepared, table);
    ns::loggers_set_enabled(*converted, true);
    CHECK(test::largest_difference((*converted)(x).tensor(), (*model)(x).tensor()) == 0.0);
    const auto comparisons = ns::create_results_comparison(ns::extract_results_n_shadows_model(*converted));
    CHECK(comparisons.at("subgraph_0").ref_node_name == "conv");
    CHECK(comparisons.at("subgraph_1").ref_node_target_type == "add");
    for (const auto& [name, comparison] : comparisons) CHECK(comparison.candidates.at("1").cmp_mean > 20.0);
}

TEST_CASE("Wrong use of n-shadows is refused with what is wrong") {
    const auto& table = test::scalar_table("tflite");
    const Tensor x = test::random_tensor(Shape(4, 3), 5);
    const auto int8 = with_activation_type(DType::int8);
    const auto prepare = [&](const ns::QConfigMultiMapping& mapping) {
        return ns::prepare_n_shadows_model(*linear_relu_linear(), {x}, mapping, table.policy());
    };
    CHECK(message_of<Error>([&] { prepare({}); }).find("the mapping has no qconfigs") != std::string::npos);
    CHECK(message_of<Error>([&] {
              prepare(ns::QConfigMultiMapping().set_module_name("3", {int8}));
          }).find("nothing in the model matches the key \"3\"") != std::string::npos);
    CHECK(message_of<Error>([&] {
              prepare(ns::QConfigMultiMapping().set_object_type("Linaer", {int8}));
          }).find("the nearest are \"Linear\"") != std::string::npos);
    const auto prepared = prepare(ns::QConfigMultiMapping().set_global({int8}));
    CHECK(message_of<Error>([&] {
              ns::convert_n_shadows_model(prepared, table);
          }).find("convert_n_shadows_model: shadow_wrapper_0_1: ") != std::string::npos);
    CHECK(message_of<Error>([&] { ns::extract_results_n_shadows_model(*prepared); }).find("nothing was logged") !=
          std::string::npos);
    (*prepared)(x);  // loggers are off
    CHECK_THROWS_AS(ns::extract_results_n_shadows_model(*prepared), Error);
    ns::convert_n_shadows_model(prepared, table);
    CHECK(message_of<Error>([&] { ns::convert_n_shadows_model(prepared, table); }) ==
          "convert_n_shadows_model: shadow_wrapper_0_1: it is converted already");
    // bayes has no zero points, so it refuses what both layers are asked for.
    QConfig affine = int8;
    affine.output->options.observer_options.scheme = arith::QuantScheme::affine;
    CHECK(message_of<Error>([&] {
              ns::prepare_n_shadows_model(*linear_relu_linear(), {x}, ns::QConfigMultiMapping().set_global({affine}),
                                          test::scalar_table("bayes").policy());
          }).find("no layer of the model gets a shadow; the reasons are in `skipped`, such as _0: candidate 1: ") !=
          std::string::npos);
    CHECK(message_of<Error>([&] { ns::convert_n_shadows_model(nullptr, table); }) ==
          "convert_n_shadows_model: the model is null");
    const auto training = linear_relu_linear();
    training->train();
    CHECK(message_of<Error>([&] {
              ns::prepare_n_shadows_model(*training, {x}, ns::QConfigMultiMapping().set_global({int8}), table.policy());
          }).find("call eval() on it first") != std::string::npos);
    const auto traced = graph::symbolic_trace(linear_relu_linear());
    CHECK(message_of<Error>([&] { ns::convert_n_shadows_model(traced, table); }).find("has no shadows") !=
          std::string::npos);
}

TEST_CASE("A candidate that the target refuses leaves its cell empty, and a NaN is a word") {
    const Tensor x = test::random_tensor(Shape(4, 3), 5);
    const auto int8 = with_activation_type(DType::int8);
    QConfig affine = int8;
    affine.output->options.observer_options.scheme = arith::QuantScheme::affine;
    const auto& table = test::scalar_table("bayes");
    std::vector<ns::SkippedShadow> skipped;
    const auto prepared = ns::prepare_n_shadows_model(
        *linear_relu_linear(), {x}, ns::QConfigMultiMapping().set_global({affine, int8}), table.policy(), {}, &skipped);
    REQUIRE(skipped.size() == 2);
    CHECK(skipped[0].reason.starts_with("candidate 1: "));
    (*prepared)(x);
    const auto converted = ns::convert_n_shadows_model(prepared, table);
    ns::loggers_set_enabled(*converted, true);
    (*converted)(x);
    const auto results = ns::extract_results_n_shadows_model(*converted);
    const auto comparisons = ns::create_results_comparison(results);
    CHECK(comparisons.at("subgraph_0").candidates.keys() == std::vector<std::string>{"2"});
    CHECK(comparisons.at("subgraph_0").candidates.at("2").cmp_mean > 20.0);

    ns::NSResults odd = results;
    odd.at("model").at("node_output").at("subgraph_0_2")[0].comparisons = {-std::nan("")};
    CHECK(ns::comparisons_n_shadows_table(odd).find("-nan") == std::string::npos);
    CHECK(ns::comparisons_n_shadows_table(odd).find("nan") != std::string::npos);
}

TEST_CASE("A layer behind an LSTM has shadows on the LSTM's output, of a model with a tuple among its inputs") {
    const auto& table = test::scalar_table("fp32");
    const auto rnn = std::make_shared<nn::LSTM>(nn::LSTMOptions{.input_size = 4, .hidden_size = 3});
    unsigned seed = 50;
    for (const auto& parameter : rnn->named_parameters())
        *parameter.value = test::random_tensor(parameter.value->shape(), seed++);
    const auto model = test::make_model(
        {{"rnn", rnn}, {"fc", test::make_linear(3, 2, 1)}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("fc", m.call("rnn", x[0], x[1]).tuple()[0]); },
        {"x", "hidden"});
    const Tensor zero = Tensor::zeros(Shape(1, 3, 3));
    const std::vector<nn::Value> inputs{test::random_tensor(Shape(2, 3, 4), 5),
                                        nn::Value(nn::Value::Tuple{zero, zero})};
    const auto prepared = ns::prepare_n_shadows_model(
        *model, inputs, ns::QConfigMultiMapping().set_global({with_activation_type(DType::int8)}), table.policy());
    prepared->dispatch("forward", inputs);
    const auto converted = ns::convert_n_shadows_model(prepared, table);
    ns::loggers_set_enabled(*converted, true);
    converted->dispatch("forward", inputs);
    const auto comparisons = ns::create_results_comparison(ns::extract_results_n_shadows_model(*converted));
    CHECK(comparisons.at("subgraph_0").ref_node_name == "fc");
    CHECK(comparisons.at("subgraph_0").candidates.at("1").cmp_mean > 20.0);
}

TEST_CASE("Layers without a qconfig have no shadow, and the reason is given") {
    const auto& table = test::scalar_table("tflite");
    const Tensor x = test::random_tensor(Shape(4, 3), 5);
    std::vector<ns::SkippedShadow> skipped;
    const auto mapping = ns::QConfigMultiMapping().set_module_name("2", {with_activation_type(DType::int8)});
    const auto model = ns::prepare_n_shadows_model(*linear_relu_linear(), {x}, mapping, table.policy(), {}, &skipped);
    REQUIRE(skipped.size() == 1);
    CHECK(skipped[0].node == "_0");
    CHECK(skipped[0].reason == "no candidate has a qconfig for it");
    CHECK(model->graph().find("shadow_wrapper_0_1")->args()[0].node()->name() == "_1");
}
