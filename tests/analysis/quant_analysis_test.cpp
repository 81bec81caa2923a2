// SPDX-License-Identifier: MIT
//
// QuantAnalysis: its numbers against arithmetic by hand and against runs of its own models, its files word for word,
// and its refusals.
#include "intq/analysis/quant_analysis.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <limits>
#include <map>

#include "analysis/models.hpp"
#include "intq/analysis/causes/error_split.hpp"
#include "intq/analysis/compare/tensor_statistics.hpp"
#include "intq/analysis/internal/compare_tables.hpp"
#include "intq/analysis/model_profiler.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/io/json_text.hpp"
#include "intq/nn.hpp"
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/eager/convert_eager.hpp"
#include "intq/quantization/eager/prepare_eager.hpp"
#include "intq/quantization/prepare/prepare_qat.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"
#include "support/csv.hpp"

using namespace intq;
using namespace intq::analysis;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using test::message_of;
using test::random_tensor;
using test::text_of_file;

namespace {

const kernels::KernelTable& bayes_table() { return program::best_table<target::bpu<march::bayes>>(); }

const LayerComparison& row_of(const std::vector<LayerComparison>& rows, const std::string& mod_name,
                              const std::string& type) {
    for (const LayerComparison& row : rows)
        if (row.mod_name == mod_name && row.base_op_type == type) return row;
    throw Error("no row " + mod_name + " " + type);
}

bool is_near(double value, double expected) { return std::abs(value - expected) <= 1e-6 * std::abs(expected); }

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
        lines.push_back(text.substr(start, end - start));
    return lines;
}

/// quant, a 1 x 1 convolution that gives its input, dequant; the input's scale is 0.5.
struct ByHand {
    nn::ModulePtr net;
    std::shared_ptr<PreparedModel> prepared;
    Tensor x = Tensor::from<float>(Shape(1, 1, 1, 4), {0.2f, 0.7f, -1.1f, 3.0f});

    ByHand() {
        const auto conv = test::make_conv(1, 1, 1, 1, 1, 1, false);
        conv->set_weight(Tensor::full(Shape(1, 1, 1, 1), 1.0f));
        net =
            test::stubbed({{"conv", conv}}, [](test::LambdaModel& m, nn::Arguments a) { return m.call("conv", a[0]); });
        prepared = prepare_calibration_fx(*net, test::bayes);
        dynamic_cast<FakeQuantize&>(prepared->find("activation_post_process_0")).set_qparams(0.5f);
        calibrate(*prepared, std::vector<Tensor>{x});
    }
};

struct Residual {
    std::shared_ptr<test::ResidualNet> net = std::make_shared<test::ResidualNet>();
    std::shared_ptr<PreparedModel> prepared = test::calibrated(*net, test::residual_shape);
    Tensor x = random_tensor(test::residual_shape, 5);
};

/// The values of all nodes of a model.
std::map<std::string, Tensor> values_of(graph::GraphModule& model, const Tensor& x) {
    std::map<std::string, Tensor> values;
    const std::vector<nn::Value> inputs{x};
    model.run(inputs, [&](const graph::Node& node, const nn::Value& value) {
        if (value.is_tensor()) values[node.name()] = value.tensor();
    });
    return values;
}

const std::vector<std::string> columns{"",
                                       "mod_name",
                                       "base_op_type",
                                       "analy_op_type",
                                       "shape",
                                       "quant_dtype",
                                       "qscale",
                                       "Cosine",
                                       "MSE",
                                       "L1",
                                       "KL",
                                       "SQNR",
                                       "Atol",
                                       "Rtol",
                                       "base_model_min",
                                       "analy_model_min",
                                       "base_model_max",
                                       "analy_model_max",
                                       "base_model_mean",
                                       "analy_model_mean",
                                       "base_model_var",
                                       "analy_model_var"};

std::vector<std::string> first_of(const std::vector<std::string>& row, std::size_t count) {
    return {row.begin(), row.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

TEST_CASE("A row is the arithmetic of its values, to seven decimals, in the documents' columns and files") {
    // x = 0.2, 0.7, -1.1, 3 on the grid of 0.5: 0, 0.5, -1, 3. Errors 0.2, 0.2, -0.1, 0.
    const test::TemporaryFolder folder;
    const ByHand models;
    QuantAnalysis qa(models.net, models.prepared, "fake_quant", folder / "out");
    qa.set_bad_case(models.x);
    qa.run();
    const auto& rows = qa.compare_per_layer();
    REQUIRE(rows.size() == 3);
    const double xx = 0.04 + 0.49 + 1.21 + 9, yy = 0.25 + 1 + 9, xy = 0.35 + 1.1 + 9, ee = 0.09;
    CHECK(is_near(rows[0].metrics.cosine(), xy / std::sqrt(xx * yy)));
    CHECK(is_near(rows[0].metrics.sqnr(), 10 * std::log10(xx / ee)));
    CHECK(rows[0].metrics.rtol() == 1.0);

    const test::CsvRows csv = test::read_csv(text_of_file(folder / "out" / "compare_per_layer_out.csv"));
    REQUIRE(csv.size() == 4);
    CHECK(csv[0] == columns);
    CHECK(first_of(csv[1], 7) ==
          std::vector<std::string>{"0", "quant", "QuantStub", "QuantStub", "(1, 1, 1, 4)", "qint8", "0.5"});
    CHECK(first_of(csv[2], 7) ==
          std::vector<std::string>{"1", "conv", "Conv2d", "qat.Conv2d", "(1, 1, 1, 4)", "float32", ""});
    CHECK(first_of(csv[3], 7) ==
          std::vector<std::string>{"2", "dequant", "DeQuantStub", "DeQuantStub", "(1, 1, 1, 4)", "float32", ""});
    // Cosine, MSE, L1. KL is a logarithm. SQNR, Atol, Rtol, and of both models minimum, maximum, mean 0.7 and 0.625,
    // and variance: deviations 0.5 0 1.8 2.3 and 0.625 0.125 1.625 2.375, squared, over 3.
    const double numbers[] = {xy / std::sqrt(xx * yy), ee / 4, 0.5 / 4};
    for (std::size_t i = 0; i < 3; ++i) CHECK(is_near(std::stod(csv[1][7 + i]), numbers[i]));
    const double more[] = {10 * std::log10(xx / ee), 0.2, 1.0, -1.1, -1, 3, 3, 0.7, 0.625, 8.78 / 3, 8.6875 / 3};
    for (std::size_t i = 0; i < std::size(more); ++i) CHECK(is_near(std::stod(csv[1][11 + i]), more[i]));

    const auto text = lines_of(text_of_file(folder / "out" / "compare_per_layer_out.txt"));
    REQUIRE(text.size() == 7);
    std::size_t at = 0;
    for (const std::string& title : std::span(columns).subspan(1)) {  // of the first one, the title is empty
        INFO(title);
        const std::size_t found = text[1].find(" " + title + " ", at);
        CHECK(found != std::string::npos);
        at = found == std::string::npos ? at : found;
    }
    CHECK_THAT(text[3], Contains("| 0 | quant") && Contains("| (1, 1, 1, 4) |") && Contains("| 0.5000000 |") &&
                            Contains(" | 0.0225000 | 0.1250000 | ") && Contains(" -1.1000000 | ") &&
                            Contains("2.9266667") && Contains("2.8958333"));
    for (const char* name : {"baseline_model", "analysis_model"})
        CHECK_THAT(text_of_file(folder / "out" / name / "statistic.txt"), Contains("| Index | Op Name"));
    CHECK_THAT(text_of_file(folder / "out" / "abnormal_layer_advisor.txt"),
               Contains("| mod_name | op_type | abnormal_info | advice |"));
}

// check_tables.cmake lets pandas read the files: INTQ_TABLES names the folder.
TEST_CASE("Every table is written as CSV that an RFC 4180 reader takes") {
    const test::TemporaryFolder folder;
    const char* const given = std::getenv("INTQ_TABLES");
    const std::filesystem::path root = given != nullptr ? std::filesystem::path(given) : folder / "tables";
    const std::string name = "conv,\"first\"";
    const auto conv = test::make_conv(1, 2, 1, 1);
    const auto net =
        test::stubbed({{name, conv}}, [&](test::LambdaModel& m, nn::Arguments a) { return m.call(name, a[0]); });
    const auto prepared = prepare_calibration_fx(*net, test::bayes);
    const Tensor x = Tensor::from<float>(Shape(1, 1, 1, 4), {0.5f, 1.0f, -1.0f, 3.0f});
    dynamic_cast<FakeQuantize&>(prepared->find("activation_post_process_0")).set_qparams(0.5f);
    calibrate(*prepared, std::vector<Tensor>{x});
    QuantAnalysis qa(net, prepared, "fake_quant", root / "out");
    qa.set_bad_case(x);
    qa.run();
    qa.compare_per_layer();
    qa.sensitivity();

    std::string all;
    for (const char* table : {"compare_per_layer_out", "abnormal_layer_advisor", "sensitive_ops",
                              "baseline_model/statistic", "analysis_model/statistic"}) {
        INFO(table);
        const std::string file = std::string("out/") + table + ".csv";
        const test::CsvRows rows = test::read_csv(text_of_file(root / file));
        CHECK(std::filesystem::exists(root / (std::string("out/") + table + ".txt")));
        const auto holds = [&](const std::string& text) {
            return std::any_of(rows.begin(), rows.end(),
                               [&](const auto& row) { return std::find(row.begin(), row.end(), text) != row.end(); });
        };
        CHECK((holds(name) || std::string(table) == "abnormal_layer_advisor"));
        if (file == "out/compare_per_layer_out.csv") CHECK(holds("inf"));  // the input is on the grid
        std::string text;
        for (const auto& row : rows) {
            std::string cells;
            for (const std::string& cell : row) cells += (cells.empty() ? "" : ", ") + io::write_json_string(cell);
            text += (text.empty() ? "[" : ",\n [") + cells + "]";
        }
        all += (all.empty() ? "" : ",\n") + io::write_json_string(file) + ": [" + text + "]";
    }
    io::write_file(root / "expected.json", "{" + all + "}\n");
}

TEST_CASE("The statistics of tensors are those of the golden cases, in one piece or in several") {
    const std::vector<float> values{-3, 1, 4, 1, -5, 9, 2};
    TensorStatistics whole, parts;
    whole.add(values);
    for (const std::size_t i : {0u, 3u}) parts.add(std::span(values).subspan(i, i == 0 ? 3 : 4));
    for (const TensorStatistics& s : {whole, parts}) {
        CHECK(s.min() == -5.0);
        CHECK(s.max() == 9.0);
        CHECK(is_near(s.mean(), 9.0 / 7));
        // Sum of squares 137, less 81 / 7, over 6.
        CHECK(is_near(s.var(), (137.0 - 81.0 / 7) / 6));
    }
    parts.add(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN(), 2});
    CHECK(std::isnan(parts.min()));
    CHECK(std::isnan(parts.var()));
    CHECK(std::isnan(TensorStatistics().mean()));
}

TEST_CASE("A fused layer is compared where its last operator stands, with what runs of the two models give there") {
    const test::TemporaryFolder folder;
    const Residual models;
    const auto traced = graph::symbolic_trace(nn::ModulePtr(models.net));
    const auto in_float = values_of(*traced, models.x), rounded = values_of(*models.prepared, models.x);
    QuantAnalysis qa(models.net, models.prepared, "fake_quant", folder / "out");
    qa.set_bad_case(models.x);
    qa.run();
    const auto rows = qa.compare_per_layer();

    // conv1 - bn1 - relu of the first block; conv2 - bn2 - skip_add - relu.
    CHECK_FALSE(row_of(rows, "layer1.0.conv1", "Conv2d").has_metrics());
    CHECK(row_of(rows, "layer1.0.conv1", "Conv2d").analy_op_type == "qat.ConvReLU2d");
    CHECK_FALSE(row_of(rows, "layer1.0.bn1", "BatchNorm2d").has_metrics());
    std::size_t compared = 0;
    for (const LayerComparison& row : rows) {
        if (!row.has_metrics()) continue;
        const auto base = AnalysedModel(models.net).operators()[row.pair.baseline];
        const auto other = AnalysedModel(models.prepared).operators()[row.pair.analysis];
        const graph::Node* node = models.prepared->graph().find(other.node);
        REQUIRE(node != nullptr);
        const bool has_quantizer =
            node->users().size() == 1 && node->users()[0]->target().rfind("activation_post_process", 0) == 0;
        const Tensor& x = in_float.at(base.node);
        const Tensor& y = rounded.at(has_quantizer ? node->users()[0]->name() : node->name());
        INFO(row.mod_name << " " << row.base_op_type);
        CHECK(static_cast<float>(row.metrics.l1()) == numeric_suite::compute_l1(x.flat<float>(), y.flat<float>()));
        CHECK(static_cast<float>(row.metrics.cosine()) ==
              numeric_suite::compute_cosine_similarity(x.flat<float>(), y.flat<float>()));
        CHECK(row.metrics.cosine() > 0.9);
        ++compared;
    }
    CHECK(compared >= 10);
    // The second block's relu closes its fused add.
    const auto csv = text_of_file(folder / "out" / "compare_per_layer_out.csv");
    CHECK_THAT(csv, Contains(",layer1.1.relu,ReLU,qat.ConvAddReLU2d,\"(2, 8, 12, 12)\",qint8,"));
    CHECK_THAT(csv, Contains(",layer1.0.conv1,Conv2d,qat.ConvReLU2d,,qint8,"));
}

TEST_CASE("What convert_fx with kernels gives is analysed as what runs it") {
    const test::TemporaryFolder folder;
    const Residual models;
    const auto converted = convert_fx(*models.prepared, bayes_table());
    const auto table_of = [&](const AnalysedModel& analysis) {
        QuantAnalysis qa(models.net, analysis, "quantized", folder / "out");
        qa.set_bad_case(models.x);
        qa.run();
        return comparison_table(qa.compare_per_layer()).csv();
    };
    REQUIRE(converted->lowered() != nullptr);
    CHECK(table_of(converted) == table_of(*converted->lowered()));
    const auto hybrid = std::make_shared<QuantizedModel>(HybridModel(*converted->quantized(), bayes_table(), 2));
    CHECK(table_of(hybrid) == table_of(exactly_simulated(*converted->quantized(), bayes_table(), 2)));

    ModelProfiler profiler(converted, folder / "profile"), by_program(*converted->lowered(), folder / "program");
    for (ModelProfiler* one : {&profiler, &by_program}) (*one)(models.x);
    CHECK(profiler.get_info_manager().table() == by_program.get_info_manager().table());
    // A quantized type has one name in both spellings.
    CHECK_NOTHROW(analysis::detail::check_filter("type", {"quantized.Conv2d"}, {"QuantizedConv2d"}, false));
    CHECK_THROWS_AS(analysis::detail::check_filter("type", {"quantized.Conv1d"}, {"QuantizedConv2d"}, false), Error);
}

TEST_CASE(
    "Float, calibrated, trained, simulated, lowered, modules, and mixtures of int8 and int16 are compared in pairs") {
    const test::TemporaryFolder folder;
    const Residual models;
    QConfigMapping mixed = get_default_qconfig_mapping(test::bayes);
    mixed.set_module_name("layer1.0.conv1", get_default_calib_qconfig(DType::int16, DType::int8));
    const auto mixture = test::calibrated(*models.net, test::residual_shape, mixed);
    const auto trained = prepare_qat_fx(*models.net, test::bayes);
    (*trained)(models.x);
    const auto simulated = exactly_simulated(*models.prepared, bayes_table(), 2);
    const auto converted = exactly_simulated(convert_fx(*models.prepared), bayes_table(), 2);
    const AnalysedModel lowered(lower(convert_fx(*models.prepared), bayes_table(), 1));

    const auto compare = [&](const AnalysedModel& baseline, const AnalysedModel& analysis, const std::string& type) {
        QuantAnalysis qa(baseline, analysis, type, folder / "out");
        qa.set_bad_case(models.x);
        qa.run({.show = io::ShowProgress::never});
        return qa.compare_per_layer();
    };
    for (const AnalysedModel& baseline : {AnalysedModel(models.net), AnalysedModel(mixture), AnalysedModel(trained)}) {
        CHECK(compare(baseline, models.prepared, "fake_quant").size() >= 8);
        for (const AnalysedModel& analysis : {simulated, converted, lowered}) {
            const auto rows = compare(baseline, analysis, "quantized");
            CHECK(rows.size() >= 8);
            for (const LayerComparison& row : rows)
                if (row.has_metrics()) CHECK(row.metrics.cosine() > 0.9);
        }
    }
    // What a simulation, the converted graph and the program give is the same, number by number.
    const auto a = compare(models.prepared, simulated, "quantized"),
               b = compare(models.prepared, converted, "quantized"), c = compare(models.prepared, lowered, "quantized");
    REQUIRE(a.size() == b.size());
    std::size_t same = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        CHECK(a[i].metrics.l1() == b[i].metrics.l1());
        for (const LayerComparison& row : c)
            if (row.mod_name == a[i].mod_name && row.has_metrics() && a[i].has_metrics()) {
                INFO(row.mod_name);
                CHECK(row.metrics.l1() == a[i].metrics.l1());
                CHECK(row.analy.max() == a[i].analy.max());
                ++same;
            }
    }
    CHECK(same >= 7);
    const auto rows = compare(models.prepared, mixture, "fake_quant");
    CHECK(row_of(rows, "layer1.0.conv1", "qat.ConvReLU2d").qparams->dtype == DType::int16);
    CHECK(compare(mixture, exactly_simulated(*mixture, bayes_table(), 2), "quantized").size() >= 8);
}

TEST_CASE("Modules that were prepared and converted without a graph are compared as well") {
    const test::TemporaryFolder folder;
    const auto model =
        test::stubbed({{"first", test::make_conv(3, 4, 3, 1)}, {"second", test::make_conv(4, 4, 3, 2)}},
                      [](test::LambdaModel& m, nn::Arguments x) { return m.call("second", m.call("first", x[0])); });
    const Tensor x = random_tensor(Shape(1, 3, 6, 6), 8);
    const nn::ModulePtr prepared = prepare_calibration(model, test::bayes);
    (*prepared)(x);
    const nn::ModulePtr converted = convert(prepared, bayes_table());
    QuantAnalysis first(model, prepared, "fake_quant", folder / "out");
    first.set_bad_case(x);
    first.run();
    CHECK(first.compare_per_layer().size() == 4);
    QuantAnalysis second(prepared, converted, "quantized", folder / "out");
    second.set_bad_case(x);
    second.run();
    const auto rows = second.compare_per_layer();
    CHECK(rows.size() == 4);
    CHECK(row_of(rows, "first", "qat.Conv2d").analy_op_type == "QuantizedConv2d");
    CHECK(row_of(rows, "first", "qat.Conv2d").metrics.cosine() > 0.999);
}

TEST_CASE("The bad case is the one whose outputs are farthest apart, by any metric, and a user's") {
    const test::TemporaryFolder folder;
    const Residual models;
    std::vector<Tensor> batches;
    for (unsigned i = 0; i < 4; ++i) batches.push_back(random_tensor(test::residual_shape, 20 + i));
    for (float& value : batches[2].flat<float>()) value *= 30.0f;  // outside of what calibration saw
    const CaseSource data = cases_of(batches_of(batches));
    QuantAnalysis qa(models.net, models.prepared, "fake_quant", folder / "out");
    for (const char* metric : {"L1", "MSE", "Cosine", "SQNR", "Atol"}) {
        INFO(metric);
        const BadCase found = qa.auto_find_bad_case(data, {.metric = metric, .show = io::ShowProgress::never});
        CHECK(found.index == 2);
        REQUIRE(found.metrics.size() == 4);
        CHECK(found.metric == found.metrics[2]);
    }
    CHECK(qa.bad_case().in_order({})[0].tensor().shares_buffer_with(batches[2]));
    CHECK(qa.auto_find_bad_case(data, {.num_steps = 2}).index < 2);

    // By how much the baseline is above the analysed model anywhere, so the order of the arguments counts.
    const CustomMetric largest_loss = [](const Tensor& baseline, const Tensor& analysis) {
        float largest = 0;
        for (std::size_t i = 0; i < baseline.flat<float>().size(); ++i)
            largest = std::max(largest, baseline.flat<float>()[i] - analysis.flat<float>()[i]);
        return static_cast<double>(largest);
    };
    FindBadCaseOptions custom{.custom_metric_func = largest_loss};
    CHECK(qa.auto_find_bad_case(data, custom).index == 2);
    custom.custom_metric_order_seq = "ascending";
    CHECK(qa.auto_find_bad_case(data, custom).index != 2);
    // The documents' metric "custom" is that function, and is nothing without it.
    custom.metric = "custom";
    CHECK(qa.auto_find_bad_case(data, custom).index != 2);
    CHECK_THAT(message_of<Error>([&] { qa.auto_find_bad_case(data, {.metric = "custom"}); }),
               Contains("custom_metric_func"));
    CHECK_THAT(message_of<Error>([&] { qa.sensitivity({.metric = "custom"}); }), Contains("the metrics are Cosine"));
    custom.custom_metric_order_seq = "up";
    CHECK_THAT(message_of<Error>([&] { qa.auto_find_bad_case(data, custom); }), Contains("custom_metric_order_seq"));
    CHECK_THAT(message_of<Error>([&] { qa.auto_find_bad_case({}, {}); }), Contains("there is no data"));
}

namespace {

/// Two inputs, the second a pair; two outputs, the second a tuple.
nn::ModulePtr model_of_pairs() {
    const auto model =
        test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                          {"quant2", std::make_shared<nn::QuantStub>()},
                          {"conv", test::make_conv(3, 4, 3, 1)},
                          {"conv2", test::make_conv(3, 4, 3, 2)},
                          {"dequant", std::make_shared<nn::DeQuantStub>()},
                          {"dequant2", std::make_shared<nn::DeQuantStub>()}},
                         [](test::LambdaModel& m, nn::Arguments x) {
                             const nn::Value a = m.call("dequant", m.call("conv", m.call("quant", x[0])));
                             const nn::Value b = m.call("dequant2", m.call("conv2", m.call("quant2", x[1])));
                             return nn::Value(nn::Value::Tuple{a, nn::Value(nn::Value::Tuple{b})});
                         },
                         {"image", "other"});
    return model;
}

}  // namespace

TEST_CASE("Several, named and nested inputs and outputs are found, saved, loaded and run") {
    const test::TemporaryFolder folder;
    const nn::ModulePtr net = model_of_pairs();
    const auto prepared = prepare_calibration_fx(*net, test::bayes);
    const Tensor a = random_tensor(Shape(1, 3, 5, 5), 1), b = random_tensor(Shape(1, 3, 5, 5), 2),
                 wide = random_tensor(Shape(1, 3, 5, 5), 3, 40.0f);
    (*prepared)(a, b);
    QuantAnalysis qa(net, prepared, "fake_quant", folder / "out");
    const CaseSource data = cases_of({CallInputs(std::vector<nn::Value>{a, b}),
                                      CallInputs(CallInputs::Named{{"other", wide}, {"image", a}}),
                                      CallInputs(std::vector<nn::Value>{wide, b})});
    CHECK(qa.auto_find_bad_case(data, {.output = "1.0"}).index == 1);
    CHECK(qa.auto_find_bad_case(data, {.output = "0"}).index == 2);
    CHECK_THAT(message_of<Error>([&] { qa.auto_find_bad_case(data, {.output = "2"}); }),
               Contains("case 0") && Contains("no output \"2\"") && Contains("\"1.0\""));

    qa.set_bad_case(CallInputs(CallInputs::Named{{"other", wide}, {"image", a}}));
    qa.save_bad_case();
    QuantAnalysis again(net, prepared, "fake_quant", folder / "out");
    again.load_bad_case();
    const auto inputs = again.bad_case().in_order({"image", "other"});
    CHECK(test::largest_difference(inputs[0].tensor(), a) == 0);
    CHECK(test::largest_difference(inputs[1].tensor(), wide) == 0);
    again.run();
    CHECK(again.compare_per_layer().size() == 6);

    const CallInputs nested(
        std::vector<nn::Value>{a, nn::Value(nn::Value::Tuple{b, nn::Value(nn::Value::Tuple{wide})})});
    nested.save(folder / "nested.safetensors");
    const auto loaded = CallInputs::load(folder / "nested.safetensors").in_order({});
    REQUIRE(loaded.size() == 2);
    CHECK(test::largest_difference(loaded[1].tuple()[1].tuple()[0].tensor(), wide) == 0);

    CHECK_THAT(message_of<Error>([&] {
                   qa.set_bad_case(CallInputs::Named{{"imagee", a}});
               }),
               Contains("imagee") && Contains("\"image\""));
    CHECK_THAT(message_of<Error>([&] { CallInputs(std::vector<nn::Value>{nn::Value(3)}).save(folder / "x"); }),
               Contains("an integer"));
    io::write_file(folder / "text", "no case");
    CHECK_THAT(message_of<Error>([&] { qa.load_bad_case(folder / "text"); }), Contains("text"));
}

TEST_CASE("Saved activations of two profilers are compared as a run is, and clean() leaves the tables") {
    const test::TemporaryFolder folder;
    const Residual models;
    QuantAnalysis qa(models.net, models.prepared, "fake_quant", folder / "out");
    qa.set_bad_case(models.x);
    qa.run({.save_activations = true});
    qa.compare_per_layer();
    const std::string expected = text_of_file(folder / "out" / "compare_per_layer_out.csv");
    CHECK(std::filesystem::exists(folder / "out" / "baseline_model" / "op_infos" / "000000.safetensors"));

    const ModelProfilerOptions saving{.save_activations = true};
    ModelProfiler baseline(models.net, folder / "baseline", saving),
        analysis(models.prepared, folder / "analysis", saving);
    baseline(models.x);
    analysis(models.x);
    QuantAnalysis other(models.net, models.prepared, "fake_quant", folder / "other");
    other.set_model_profiler_dir(folder / "baseline", folder / "analysis");
    other.compare_per_layer();
    CHECK(text_of_file(folder / "other" / "compare_per_layer_out.csv") == expected);

    qa.clean();
    CHECK_FALSE(std::filesystem::exists(folder / "out" / "baseline_model"));
    CHECK_FALSE(std::filesystem::exists(folder / "out" / "analysis_model"));
    CHECK(text_of_file(folder / "out" / "compare_per_layer_out.csv") == expected);
    // Of another case; of a run that was stopped; and none of a former run beside the tables of this one.
    ModelProfiler(models.prepared, folder / "analysis", saving)(random_tensor(models.x.shape(), 77));
    CHECK_THAT(message_of<Error>([&] { other.set_model_profiler_dir(folder / "baseline", folder / "analysis"); }),
               Contains("other inputs") && Contains((folder / "baseline").string()));
    qa.run({.save_activations = true});
    qa.run();
    CHECK_FALSE(std::filesystem::exists(folder / "out" / "baseline_model" / "op_infos"));
    CHECK_FALSE(std::filesystem::exists(folder / "out" / "analysis_model" / "op_infos"));
    std::filesystem::path last;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "analysis" / "op_infos"))
        last = std::max(last, entry.path());
    std::filesystem::remove(last);
    CHECK_THAT(message_of<Error>([&] { other.set_model_profiler_dir(folder / "baseline", folder / "analysis"); }),
               Contains((folder / "analysis").string()) && Contains("did not come to its end"));
    std::filesystem::remove(folder / "baseline" / "op_infos" / "000003.safetensors");
    CHECK_THAT(message_of<Error>([&] { other.set_model_profiler_dir(folder / "baseline", folder / "analysis"); }),
               Contains("000004") && Contains("missing"));
    CHECK_THAT(message_of<Error>([&] { other.set_model_profiler_dir(folder / "nothing", folder / "analysis"); }),
               Contains("nothing") && Contains("no activations"));
}

TEST_CASE("Advice follows the documents' rules, and names the layer") {
    const auto advice_on = [](const std::function<void(Tensor&)>& change, float scale) {
        const test::TemporaryFolder folder;
        ByHand models;
        dynamic_cast<FakeQuantize&>(models.prepared->find("activation_post_process_0")).set_qparams(scale);
        change(models.x);
        QuantAnalysis qa(models.net, models.prepared, "fake_quant", folder / "out");
        qa.set_bad_case(models.x);
        qa.run();
        qa.compare_per_layer();
        std::string text;
        for (const LayerAdvice& row : qa.advice()) text += row.mod_name + ": " + row.abnormal_info + "\n";
        const std::string file = text_of_file(folder / "out" / "abnormal_layer_advisor.txt");
        for (const LayerAdvice& row : qa.advice())
            CHECK_THAT(file, Contains(row.abnormal_info) && Contains(row.advice));
        return text;
    };
    const auto as_it_is = [](Tensor&) {};
    CHECK(advice_on(as_it_is, 0.03f).empty());
    CHECK_THAT(advice_on([](Tensor& x) { x.flat<float>()[2] = 1.0f; }, 0.03f),
               Contains("quant: input is all of one sign"));
    CHECK_THAT(advice_on([](Tensor& x) { x.flat<float>()[0] = 130.0f; }, 1.1f),
               Contains("quant: magnitude 130.0000000 exceeds 128 in int8"));
    CHECK_THAT(advice_on([](Tensor& x) { x.flat<float>()[0] = 40000.0f; }, 400.0f),
               Contains("quant: magnitude 40000.0000000 exceeds 32768"));
    // 127 * 0.02 = 2.54; 3 is more than a step above, and 2.55 is not.
    CHECK_THAT(advice_on(as_it_is, 0.02f), Contains("quant: values from -1.1000000 to 3.0000000, codes from -2.5"));
    CHECK_THAT(advice_on([](Tensor& x) { x.flat<float>()[3] = 2.55f; }, 0.02f), !Contains("codes from"));
    CHECK_THAT(advice_on(as_it_is, 2.0f), Contains("quant: Cosine 0.9"));
    CHECK_THAT(advice_on([](Tensor& x) { x.flat<float>()[1] = std::numeric_limits<float>::infinity(); }, 0.5f),
               Contains("inf/nan output"));
}

TEST_CASE("Wrong use is an error that says what to do, and what was written before stays complete") {
    const test::TemporaryFolder folder;
    const Residual models;
    const ByHand other;
    CHECK_THAT(message_of<Error>([&] { QuantAnalysis(models.net, other.prepared); }),
               Contains("do not correspond") && Contains("\"stem\"") && Contains("baseline"));
    CHECK_THAT(message_of<Error>([&] { QuantAnalysis(models.net, models.prepared, "qat"); }), Contains("\"qat\""));
    CHECK_THAT(message_of<Error>([&] { QuantAnalysis(models.net, models.net); }), Contains("no quantizers"));
    CHECK_THAT(message_of<Error>([&] { QuantAnalysis(models.net, models.prepared, "quantized"); }),
               Contains("say \"fake_quant\""));
    const auto uncalibrated = prepare_calibration_fx(*models.net, test::bayes);
    QuantAnalysis raw(models.net, uncalibrated, "fake_quant", folder / "out");
    raw.set_bad_case(models.x);
    CHECK_THAT(message_of<Error>([&] { raw.run(); }), Contains("stem.weight_fake_quant") && Contains("calibrate"));

    QuantAnalysis qa(models.net, models.prepared, "fake_quant", folder / "out");
    CHECK_THAT(message_of<Error>([&] { qa.run(); }), Contains("no bad case") && Contains("auto_find_bad_case"));
    CHECK_THAT(message_of<Error>([&] { qa.sensitivity(); }), Contains("no bad case"));
    CHECK_THAT(message_of<Error>([&] { qa.save_bad_case(); }), Contains("no bad case"));
    CHECK_THAT(message_of<Error>([&] { qa.compare_per_layer(); }), Contains("run()"));
    qa.set_bad_case(models.x);
    qa.run();
    qa.compare_per_layer();
    CHECK_THAT(message_of<Error>([&] { qa.compare_per_layer({"layer2"}); }),
               Contains("layer2") && Contains("\"layer1\""));
    CHECK_THAT(message_of<Error>([&] { qa.compare_per_layer({}, {"Conv3d"}); }),
               Contains("Conv3d") && Contains("Conv2d"));
    for (const LayerComparison& row : qa.compare_per_layer({"layer1.0"}, {"BatchNorm2d"}))
        CHECK(row.base_op_type == "BatchNorm2d");
    qa.compare_per_layer();
    const std::string before = text_of_file(folder / "out" / "compare_per_layer_out.csv");
    const std::string statistic = text_of_file(folder / "out" / "analysis_model" / "statistic.txt");
    qa.set_bad_case(random_tensor(Shape(1, 4, 12, 12), 3));
    CHECK_THAT(message_of<Error>([&] { qa.run(); }), Contains("stem"));
    CHECK(text_of_file(folder / "out" / "compare_per_layer_out.csv") == before);
    CHECK(text_of_file(folder / "out" / "analysis_model" / "statistic.txt") == statistic);

    Tensor broken = models.x.clone();
    broken.flat<float>()[7] = std::numeric_limits<float>::quiet_NaN();
    CHECK_THAT(message_of<Error>([&] {
                   qa.auto_find_bad_case(cases_of(batches_of(std::vector<Tensor>{models.x, broken})));
               }),
               Contains("case 1") && Contains("NaN"));
    const CaseSource throwing{2, [&](std::size_t i) -> CallInputs {
                                  if (i == 1) throw std::runtime_error("the disk is gone");
                                  return models.x;
                              }};
    CHECK_THAT(message_of<Error>([&] { qa.auto_find_bad_case(throwing); }),
               Contains("case 1") && Contains("the disk is gone"));
    CHECK_THAT(message_of<Error>([&] {
                   qa.auto_find_bad_case(
                       cases_of(batches_of(std::vector<Tensor>{models.x, random_tensor(Shape(1, 4, 12, 12), 3)})));
               }),
               Contains("case 1") && Contains("stem"));
    CHECK_THAT(message_of<Error>([&] { qa.auto_find_bad_case(throwing, {.num_steps = 0}); }), Contains("num_steps"));
    CHECK_THAT(message_of<Error>([&] { qa.auto_find_bad_case(CaseSource{3, {}}); }), Contains("`at`"));
    CHECK_THAT(message_of<Error>([&] { qa.set_bad_case(Tensor()); }), Contains("input 0") && Contains("undefined"));
    CHECK_THAT(message_of<Error>([&] { qa.set_bad_case(Tensor::zeros(Shape(0, 3, 12, 12))); }),
               Contains("input 0") && Contains("(0, 3, 12, 12)"));
    CHECK_THAT(message_of<Error>([&] {
                   CallInputs(CallInputs::Named{{"a/b", models.x}}).save(folder / "case");
               }),
               Contains("\"a/b\""));
    io::write_file(folder / "file", "text");
    QuantAnalysis nowhere(models.net, models.prepared, "fake_quant", folder / "file" / "out");
    nowhere.set_bad_case(models.x);
    CHECK_THAT(message_of<Error>([&] { nowhere.run(); }), Contains("file/out"));
    CHECK_THAT(message_of<Error>([&] { nowhere.sensitivity(); }), Contains("file/out"));
}

TEST_CASE("Another bad case needs another run") {
    const test::TemporaryFolder folder;
    const Residual models;
    QuantAnalysis qa(models.net, models.prepared, "fake_quant", folder / "out");
    qa.set_bad_case(models.x);
    qa.run();
    const double first = qa.compare_per_layer().front().base.max();
    const Tensor other = random_tensor(models.x.shape(), 1234);
    qa.set_bad_case(other);
    CHECK_THAT(message_of<Error>([&] { qa.compare_per_layer(); }), Contains("run()"));
    qa.run();
    CHECK(qa.compare_per_layer().front().base.max() != first);
    qa.auto_find_bad_case(cases_of(batches_of(std::vector<Tensor>{models.x})));
    CHECK_THAT(message_of<Error>([&] { qa.compare_per_layer(); }), Contains("run()"));
}

TEST_CASE("Models whose layers have other widths do not correspond, and the layer is named") {
    const auto net_of = [](index_t channels) {
        const auto conv = std::make_shared<nn::Conv2d>(nn::Conv2dOptions{3, channels, nn::square_window(3), 1, true});
        return test::make_model({{"quant", std::make_shared<nn::QuantStub>()},
                                 {"conv", conv},
                                 {"dequant", std::make_shared<nn::DeQuantStub>()}},
                                [](test::LambdaModel& m, nn::Arguments x) {
                                    return m.call("dequant", m.call("conv", m.call("quant", x[0])));
                                });
    };
    const Shape shape(index_t{2}, index_t{3}, index_t{6}, index_t{6});
    const nn::ModulePtr wide = net_of(8);
    const auto narrow = test::calibrated(*net_of(4), shape);
    const Tensor x = random_tensor(shape, 9);
    const test::TemporaryFolder folder;
    QuantAnalysis qa(wide, narrow, "fake_quant", folder / "out");
    qa.set_bad_case(x);
    CHECK_THAT(message_of<Error>([&] { qa.run(); }),
               Contains("do not correspond: conv returns (2, 8, ") && Contains("(2, 4, "));
    CHECK_THAT(
        message_of<Error>([&] { split_error(wide, narrow, program::best_table<target::bpu<march::bayes>>(), x); }),
        Contains("do not correspond: conv"));
}

TEST_CASE("A run leaves modes and quantizers as they were") {
    const test::TemporaryFolder folder;
    const Residual models;
    const auto trained = prepare_qat_fx(*models.net, test::bayes);
    (*trained)(models.x);
    auto& quantizer = dynamic_cast<FakeQuantize&>(trained->find("activation_post_process_1"));
    quantizer.enable_observer(false);
    const OwnedQParams before = quantizer.qparams();
    QuantAnalysis qa(models.net, trained, "fake_quant", folder / "out");
    qa.set_bad_case(random_tensor(test::residual_shape, 9, 5.0f));
    qa.run();
    CHECK(trained->training());
    CHECK(quantizer.training());
    CHECK_FALSE(quantizer.observer_enabled());
    CHECK(dynamic_cast<FakeQuantize&>(trained->find("activation_post_process_0")).observer_enabled());
    CHECK(quantizer.qparams() == before);
}
