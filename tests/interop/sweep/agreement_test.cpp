// SPDX-License-Identifier: MIT
//
// What is said of a model before any data is what quantizing it says: of single operators, of the models of
// golden/models and of those of PyTorch's traces, for every target in int8 and int16. The sweep asks its graphs, too.
#include "interop/sweep/agreement.hpp"

#include "interop/onnx_builder.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/interop/onnx/read/read.hpp"
#include "support/catch.hpp"
#include "support/torch_zoo.hpp"

using namespace intq;
using namespace intq::quantization;
namespace onnx = interop::onnx;
using test::node;

namespace {

const kernels::KernelTable& table_of(const std::string& target) {
    const program::BackendTables best = program::runnable_tables().front();
    for (const kernels::KernelTable* table : best.tables)
        if (table->policy().name == target) return *table;
    throw Error("no table of " + target);
}

/// A model of (N, 3, 8, 8), behind a convolution with 4 outputs, c.
test::ModelParts parts_of(std::vector<test::Message> nodes) {
    test::ModelParts parts;
    parts.nodes = {node("Conv", {"x", "w"}, {"c"}, {}, "/a/conv")};
    parts.nodes.insert(parts.nodes.end(), nodes.begin(), nodes.end());
    std::vector<float> w;
    for (int i = 0; i < 4 * 3 * 3 * 3; ++i) w.push_back(static_cast<float>(i * 7 % 13 - 6) / 8.0f);
    parts.initializers = {test::tensor("w", {4, 3, 3, 3}, w)};
    parts.inputs = {test::value_info("x", {-1, 3, 8, 8})};
    return parts;
}

std::shared_ptr<graph::GraphModule> imported(const test::ModelParts& parts) {
    const auto model = onnx::import_model(onnx::parse_model(test::model(parts).bytes(), "model"));
    add_stubs(*model);
    return model;
}

LoweringReport report_of(const test::ModelParts& parts, const char* target = "tflite") {
    return test::report_without_data(*imported(parts), table_of(target), DType::int8,
                                     {intq::Tensor::zeros(Shape(2, 3, 8, 8))});
}

/// "layer (type)" of each row.
std::vector<std::string> rows_of(const std::vector<Refusal>& list) {
    std::vector<std::string> rows;
    for (const Refusal& item : list) rows.push_back(item.layer + " (" + item.type + ")");
    return rows;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("Each operator that does not lower is named by its layer") {
    auto parts = parts_of({node("Softmax", {"c"}, {"d"}, {test::attribute("axis", 0)}, "/b/soft"),
                           node("Relu", {"d"}, {"e"}, {}, "/b/relu"),
                           node("Softmax", {"e"}, {"f"}, {test::attribute("axis", 0)}, "/b/again"),
                           node("Flatten", {"f"}, {"y"}, {test::attribute("axis", 0)}, "/b/flat")});
    for (const char* target : {"fp32", "tflite", "litert", "bayes", "meta"}) {
        INFO(target);
        CHECK(rows_of(report_of(parts, target).refusals) ==
              Names{"b.soft (Softmax)", "b.again (Softmax)", "b_flat (reshape)"});
    }
}

TEST_CASE("A flatten of the samples is refused by shapes of two samples") {
    const auto report = report_of(parts_of({node("Flatten", {"c"}, {"y"}, {test::attribute("axis", 0)}, "/b/flat")}));
    REQUIRE(report.refusals.size() == 1);
    CHECK_THAT(report.refusals[0].reason, Catch::Matchers::Contains("axis 0, the samples"));
}

TEST_CASE("Several outputs lower, also one that is the input; one without stubs is named") {
    auto parts = parts_of({node("Relu", {"c"}, {"y"}, {}, "/a/relu"), node("Sigmoid", {"c"}, {"z"}, {}, "/b/sigmoid")});
    parts.outputs = {test::value_info("y"), test::value_info("z")};
    CHECK(report_of(parts).lowers());
    parts.outputs = {test::value_info("y"), test::value_info("x")};
    CHECK(report_of(parts).lowers());
    Names wrong;
    test::compare_verdicts("x, rounded", *imported(parts), {test::random_tensor(Shape(4, 3, 8, 8), 3)}, wrong);
    const auto model = test::make_model(
        {{"quant", std::make_shared<nn::QuantStub>()},
         {"conv", test::make_conv(3, 4, 3, 1)},
         {"dequant", std::make_shared<nn::DeQuantStub>()}},
        [](test::LambdaModel& m, nn::Arguments x) {
            return nn::Value(nn::Value::Tuple{m.call("dequant", m.call("conv", m.call("quant", x[0]))), x[0]});
        });
    const auto traced = graph::symbolic_trace(*model);
    const std::vector<intq::Tensor> samples{test::random_tensor(Shape(4, 3, 8, 8), 3)};
    const auto report = test::report_without_data(*traced, table_of("tflite"), DType::int8, samples);
    CHECK(rows_of(report.refusals) == Names{"x (placeholder)"});
    test::compare_verdicts("x given back", *traced, samples, wrong);
    CHECK(wrong == Names{});
}

TEST_CASE("Every node that the import refuses is named, with the nearest operators that are read") {
    auto parts = parts_of({node("Floor", {"c"}, {"d"}, {}, "/b/floor"), node("Foo", {"x"}, {"e"}, {}, "/b/foo"),
                           node("Add", {"d", "e"}, {"f"}, {}, "/b/add"), node("Bar", {"f"}, {"y"}, {}, "/c/bar")});
    const auto refused = onnx::find_refused_nodes(onnx::parse_model(test::model(parts).bytes(), "model"));
    Names names;
    for (const onnx::RefusedNode& each : refused) names.push_back(each.layer + " (" + each.op_type + ")");
    CHECK(names == Names{"b.floor (Floor)", "b.foo (Foo)", "c.bar (Bar)"});
    REQUIRE(refused.size() == 3);
    CHECK_THAT(refused[1].reason, Catch::Matchers::Contains("the nearest of those that are read are \"") &&
                                      Catch::Matchers::EndsWith("docs/onnx.md lists all"));
    CHECK(refused[1].reason.size() < 200);
    parts.nodes = {node("Relu", {"x"}, {"y"})};
    CHECK(onnx::find_refused_nodes(onnx::parse_model(test::model(parts).bytes(), "model")).empty());
}

TEST_CASE("A norm in parts of a value that is refused is not refused for its own") {
    auto parts = parts_of({node("Foo", {"x"}, {"e"}, {}, "/b/foo"), node("Mul", {"e", "e"}, {"s"}),
                           node("ReduceMean", {"s"}, {"m"}, {test::attribute("axes", std::vector<std::int64_t>{-1})}),
                           node("Add", {"m", "eps"}, {"a"}), node("Sqrt", {"a"}, {"r"}), node("Div", {"e", "r"}, {"n"}),
                           node("Mul", {"n", "w8"}, {"y"}, {}, "/c/norm")});
    parts.initializers = {test::tensor("eps", {}, {1e-5f}), test::filled("w8", {8}, 2.0f)};
    const auto refused = onnx::find_refused_nodes(onnx::parse_model(test::model(parts).bytes(), "model"));
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].layer == "b.foo");
}

TEST_CASE("What only scales decide is named with the scales that are taken") {
    const auto report = report_of(parts_of({node("Relu", {"c"}, {"y"}, {}, "/a/relu")}), "bayes");
    CHECK(report.lowers());
    for (const Refusal& each : report.undecided)
        CHECK_THAT(each.reason, Catch::Matchers::Contains("the scale of its output, which must be "));
}

TEST_CASE("Of models of several makings, the report and quantizing say the same") {
    Names wrong;
    CHECK(test::compare_golden_models(wrong) == 238);
    for (const test::TorchModel& each : test::torch_zoo()) {
        const auto traced = graph::symbolic_trace(*each.make());
        traced->eval();
        add_stubs(*traced);
        test::compare_verdicts(each.name, *traced, {test::samples_like(intq::Tensor::zeros(each.input), 11)}, wrong);
    }
    CHECK(wrong == Names{});
}

TEST_CASE("A report that says something else than the data is caught") {
    const LoweringReport nothing, refusal{{{"a.conv", "Conv2d", "because"}}, {}}, open{{}, {{"a.conv", "Conv2d", "s"}}};
    CHECK(test::disagreement(nothing, "").empty());
    CHECK(!test::disagreement(nothing, "convert: a.conv (Conv2d): because").empty());
    CHECK(!test::disagreement(refusal, "").empty());
    CHECK(test::disagreement(open, "a.conv: because").empty());
    CHECK(!test::disagreement(open, "b.conv: because").empty());
}
