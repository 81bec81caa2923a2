// SPDX-License-Identifier: MIT
//
// The sensitivity list against whole passes with one quantizer on, its journal, and who reads it.
#include "intq/analysis/compare/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/models.hpp"
#include "intq/analysis/quant_analysis.hpp"
#include "intq/graph/operators.hpp"
#include "intq/improve/mixed_precision.hpp"
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/modules/prepared_layers.hpp"
#include "io/temporary_folder.hpp"
#include "support/catch.hpp"

using namespace intq;
using namespace intq::analysis;
using namespace intq::quantization;
using Catch::Matchers::Contains;
using test::message_of;

namespace {

int calls = 0;
int calls_until_failure = -1;

/// Counts the calls of layers, and fails when it is told to.
void count_call(nn::Module&, const nn::ModuleCall&) {
    if (calls_until_failure >= 0 && calls++ >= calls_until_failure) throw Error("the power went out");
    if (calls_until_failure < 0) ++calls;
}

std::size_t count_layer_calls(graph::GraphModule& model) {
    std::size_t count = 0;
    for (const graph::Node* node : model.graph().nodes()) {
        nn::Module* module = graph::module_of(*node, model);
        if (module == nullptr || dynamic_cast<Quantizer*>(module) != nullptr) continue;
        module->add_forward_pre_hook(&count_call);
        ++count;
    }
    return count;
}

struct Measured {
    std::string op, type;
    double metric;
    std::size_t before;  // layers that come before what is quantized
};

/// One whole pass for each row.
std::vector<Measured> by_brute_force(PreparedModel& model, const Tensor& x, const Tensor& expected) {
    const FloatSumsScope sums(FloatSums::reproducible);
    model.eval();
    set_fake_quantize(model, FakeQuantState::float_);
    std::vector<Measured> rows;
    std::size_t before = 0;
    const auto measure = [&](const std::string& op, const char* type, std::vector<FakeQuantize*> quantizers,
                             std::size_t own) {
        for (FakeQuantize* quantizer : quantizers) quantizer->enable_fake_quant(true);
        const Tensor y = model(x).tensor();
        for (FakeQuantize* quantizer : quantizers) quantizer->enable_fake_quant(false);
        rows.push_back({op, type,
                        static_cast<double>(numeric_suite::compute_l1(expected.flat<float>(), y.flat<float>())),
                        before + own});
    };
    for (const graph::Node* node : model.graph().nodes()) {
        nn::Module* module = graph::module_of(*node, model);
        if (dynamic_cast<Quantizer*>(module) != nullptr || node->op() == graph::Op::placeholder) continue;
        FakeQuantize* output = nullptr;
        if (node->users().size() == 1) output = dynamic_cast<FakeQuantize*>(graph::module_of(*node->users()[0], model));
        const auto* layer = dynamic_cast<PreparedWeight*>(module);
        const std::string name = node->op() == graph::Op::call_module ? node->target() : node->name();
        const std::size_t own = module != nullptr ? 1 : 0;
        if (output != nullptr) measure(name, "activation", {output}, own);
        if (layer != nullptr) measure(name, "weight", {&layer->weight_fake_quant()}, 0);
        if (output != nullptr && layer != nullptr) measure(name, "both", {output, &layer->weight_fake_quant()}, 0);
        before += own;
    }
    return rows;
}

struct Residual {
    std::shared_ptr<test::ResidualNet> net = std::make_shared<test::ResidualNet>();
    std::shared_ptr<PreparedModel> prepared = test::calibrated(*net, test::residual_shape);
    Tensor x = test::random_tensor(test::residual_shape, 5);
    nn::Value expected = (*net)(x);
};

SensitivityOptions quiet() { return {.show = io::ShowProgress::never}; }

}  // namespace

TEST_CASE("The list is that of whole passes, number by number, and runs no layer that comes before an operator again") {
    const Residual models;
    const auto twin =
        std::static_pointer_cast<PreparedModel>(nn::clone(static_cast<const nn::Module&>(*models.prepared)));
    auto rows = by_brute_force(*twin, models.x, models.expected.tensor());
    REQUIRE(rows.size() > 15);
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Measured& a, const Measured& b) { return a.metric > b.metric; });

    const std::size_t layers = count_layer_calls(*models.prepared);
    calls = 0;
    calls_until_failure = -1;
    const auto list = find_sensitive_operators(models.prepared, models.x, models.expected, quiet());
    REQUIRE(list.size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        INFO(i << ": " << rows[i].op << " " << rows[i].type);
        CHECK(list[i].op_name == rows[i].op);
        CHECK(list[i].sensitive_type == rows[i].type);
        CHECK(static_cast<float>(list[i].metric) == static_cast<float>(rows[i].metric));
        CHECK(rows[i].metric > 0);
    }
    // One pass to the last operator, and from each operator to the end.
    std::size_t from_operators = 0, to_last = 0;
    for (const Measured& row : rows) {
        from_operators += layers - row.before;
        to_last = std::max(to_last, row.before);
    }
    CHECK(static_cast<std::size_t>(calls) == to_last + from_operators);
}

TEST_CASE("Cosine and SQNR rise in the list, L1, MSE and KL fall, and reserve turns each around") {
    const Residual models;
    for (const char* metric : {"Cosine", "SQNR", "L1", "MSE", "KL"}) {
        INFO(metric);
        SensitivityOptions options = quiet();
        options.metric = metric;
        auto list = find_sensitive_operators(models.prepared, models.x, models.expected, options);
        const bool rises = std::string(metric) == "Cosine" || std::string(metric) == "SQNR";
        const auto by_metric = [&](const SensitiveOperator& a, const SensitiveOperator& b) {
            return rises ? a.metric < b.metric : a.metric > b.metric;
        };
        CHECK(std::is_sorted(list.begin(), list.end(), by_metric));
        options.reserve = true;
        list = find_sensitive_operators(models.prepared, models.x, models.expected, options);
        CHECK(std::is_sorted(list.rbegin(), list.rend(), by_metric));
    }
}

TEST_CASE("A search that was interrupted goes on from its journal, which is gone when the list is complete") {
    const test::TemporaryFolder folder;
    const Residual models;
    SensitivityOptions options = quiet();
    const auto whole = find_sensitive_operators(models.prepared, models.x, models.expected, options);
    options.journal = folder / "journal";
    count_layer_calls(*models.prepared);
    calls = 0;
    calls_until_failure = -1;
    find_sensitive_operators(models.prepared, models.x, models.expected, options);
    const int all_calls = calls;

    calls = 0;
    calls_until_failure = all_calls / 2;
    CHECK_THAT(
        message_of<Error>([&] { find_sensitive_operators(models.prepared, models.x, models.expected, options); }),
        Contains("the power went out"));
    CHECK(std::distance(std::filesystem::directory_iterator(folder / "journal"), {}) == 1);
    calls = 0;
    calls_until_failure = 2 * all_calls;
    const auto resumed = find_sensitive_operators(models.prepared, models.x, models.expected, options);
    CHECK(calls < 3 * all_calls / 4);
    CHECK(std::filesystem::is_empty(folder / "journal"));
    REQUIRE(resumed.size() == whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
        CHECK(resumed[i].op_name == whole[i].op_name);
        CHECK(resumed[i].metric == whole[i].metric);
    }
    calls_until_failure = -1;
}

TEST_CASE("The list feeds set_sensitive_operators and the choice of int8 and int16") {
    const test::TemporaryFolder folder;
    const Residual models;
    QuantAnalysis qa(models.net, models.prepared, "fake_quant", folder / "out");
    qa.set_bad_case(models.x);
    const auto list = qa.sensitivity(quiet());

    const auto read = read_sensitivity_list(folder / "out" / "sensitive_ops.txt");
    REQUIRE(read.size() == list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
        CHECK(read[i].op_name == list[i].op_name);
        CHECK(std::abs(read[i].metric - list[i].metric) <= 0.5e-7);
    }
    CHECK_THAT(test::text_of_file(folder / "out" / "sensitive_ops.txt"), Contains("op_name") && Contains("L1\n"));

    QConfigMapping mapping = get_default_qconfig_mapping(test::bayes);
    const auto names = set_sensitive_operators(mapping, list, {.top_k = 3});
    CHECK_FALSE(names.empty());
    const auto better = test::calibrated(*models.net, test::residual_shape, mapping);
    const auto l1 = [&](const std::shared_ptr<PreparedModel>& model) {
        model->eval();
        set_fake_quantize(*model, FakeQuantState::validation);
        return numeric_suite::compute_l1(models.expected.tensor().flat<float>(),
                                         (*model)(models.x).tensor().flat<float>());
    };
    CHECK(l1(better) < l1(models.prepared));

    std::vector<improve::LayerTimes> times;
    for (const SensitiveOperator& op : list)
        if (std::none_of(times.begin(), times.end(), [&](const auto& row) { return row.layer == op.op_name; }))
            times.push_back({op.op_name, 1.0, 2.0});
    const auto costs = improve::layer_costs(list, times);
    const auto best = improve::choose_within_seconds(costs, static_cast<double>(times.size()) + 1.0);
    REQUIRE(best.int16.size() == 1);
    CHECK(best.int16[0] == list[0].op_name);
}

TEST_CASE(
    "Sensitivity refuses a model of codes, one in float, unknown metrics and NaN, and leaves the model as it was") {
    const Residual models;
    const auto& table = program::best_table<target::bpu<march::bayes>>();
    const auto search = [&](const AnalysedModel& model, SensitivityOptions options, const nn::Value& expected) {
        return message_of<Error>([&] { find_sensitive_operators(model, models.x, expected, options); });
    };
    CHECK_THAT(search(exactly_simulated(*models.prepared, table, 2), quiet(), models.expected),
               Contains("computes on codes"));
    CHECK_THAT(search(models.net, quiet(), models.expected), Contains("no quantizers"));
    SensitivityOptions options = quiet();
    options.metric = "Cosinus";
    CHECK_THAT(search(models.prepared, options, models.expected),
               Contains("Cosinus") && Contains("Cosine, MSE, L1, KL, SQNR"));
    Tensor broken = models.expected.tensor().clone();
    broken.flat<float>()[1] = std::numeric_limits<float>::quiet_NaN();
    CHECK_THAT(search(models.prepared, quiet(), broken), Contains("output 0 of the baseline model") && Contains("NaN"));
    options = quiet();
    options.measures = [](std::size_t row) { return row == 0; };
    CHECK_THAT(search(models.prepared, options, models.expected), Contains("`join`"));
    options = quiet();
    options.output = "3";
    CHECK_THAT(search(models.prepared, options, models.expected), Contains("no output \"3\""));
    for (const auto& module : models.prepared->named_modules())
        if (const auto* quantizer = dynamic_cast<const FakeQuantize*>(module.value)) {
            CHECK(quantizer->fake_quant_enabled());
            CHECK_FALSE(quantizer->observer_enabled());
        }
}
