// SPDX-License-Identifier: MIT
//
// From ONNX to a graph of modules: outputs against those of other programs, and what is refused.
#include "intq/interop/onnx/import.hpp"
#include "intq/io/file.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "interop/one_node.hpp"
#include "intq/graph/print.hpp"
#include "intq/io/npy.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace onnx = interop::onnx;
using Catch::Matchers::Contains;
using Ints = std::vector<std::int64_t>;

namespace {

const std::filesystem::path models = std::string(INTQ_TESTS_DIR) + "/golden/models";

intq::Tensor read_tensor(const std::filesystem::path& path) {
    const io::NpyArray array = io::read_npy(path);
    Shape shape;
    for (const index_t extent : array.shape) shape.extents[static_cast<std::size_t>(shape.rank++)] = extent;
    return intq::Tensor::from(shape, array.as<float>());
}

void check_close(const intq::Tensor& given, const intq::Tensor& expected, float margin) {
    REQUIRE(given.shape() == expected.shape());
    float worst = 0.0f;
    for (std::size_t i = 0; i < expected.flat<float>().size(); ++i) {
        const float difference = std::abs(given.contiguous().flat<float>()[i] - expected.flat<float>()[i]);
        worst = difference <= worst ? worst : difference;  // keeps a NaN
    }
    CHECK(worst <= margin);
}

intq::Tensor run(graph::GraphModule& module, const intq::Tensor& x) { return module(x).tensor(); }

using test::import;
using test::OneNode;
using test::refusal;
using test::type_of;

}  // namespace

TEST_CASE("Every small model gives the outputs that PyTorch, onnx.reference and ONNX Runtime gave") {
    std::ifstream manifest(models / "manifest.txt");
    std::string line;
    int checked = 0;
    while (std::getline(manifest, line)) {
        std::istringstream words(line);
        std::string name, input, output;
        REQUIRE(words >> name >> input >> output);
        INFO(name);
        const auto module = onnx::import_file(models / (name + ".onnx"));
        module->graph().lint(module.get());
        check_close(run(*module, read_tensor(models / input)), read_tensor(models / output), 1e-5f);
        ++checked;
    }
    CHECK(checked == 238);
}

TEST_CASE("Modules are named after the nodes and typed after the operators") {
    const auto module = onnx::import_file(models / "small_cnn.onnx");
    CHECK_FALSE(module->training());
    CHECK(module->find("conv1").type_name() == "Conv2d");
    CHECK(module->find("bn1").type_name() == "BatchNorm2d");
    CHECK(module->find("relu6").type_name() == "ReLU6");
    CHECK(module->find("add").type_name() == "FloatFunctional");
    CHECK(module->find("fc2").type_name() == "Linear");
    CHECK(module->graph().size() == 24);  // 22 nodes, the input and the output
    CHECK_THAT(graph::to_string(module->graph()),
               Contains("%x : [num_users=1] = placeholder[target=x]") &&
                   Contains("%add : [num_users=1] = call_module[target=add, method=add](args = (%bn4, %relu3))") &&
                   Contains("call_module[target=concat, method=cat](args = ([%maxpool, %avgpool], 1))") &&
                   Contains("return fc2"));
}

TEST_CASE("The names of nodes become qualified names, each its own") {
    const auto name = [](const std::string& node_name) {
        return onnx::qualified_name_of({.op_type = "MaxPool",
                                        .name = node_name,
                                        .domain = {},
                                        .inputs = {},
                                        .outputs = {},
                                        .attributes = {},
                                        .position = 6});
    };
    CHECK(name("/stem/conv") == "stem.conv");
    CHECK(name("layer1.0.conv1") == "layer1.0.conv1");
    CHECK(name("//a//b/") == "a.b");
    CHECK(name("a b:0") == "a_b_0");
    CHECK(name("") == "maxpool_7");
    CHECK(name("/") == "maxpool_7");
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += "/a";
    CHECK(name(deep).find('.') == std::string::npos);

    const auto relus = [](const std::vector<std::string>& names) {
        test::ModelParts parts;
        for (std::size_t i = 0; i < names.size(); ++i)
            parts.nodes.push_back(test::node("Relu", {i == 0 ? "x" : std::to_string(i)},
                                             {i + 1 == names.size() ? "y" : std::to_string(i + 1)}, {}, names[i]));
        const auto module = import(parts);
        std::vector<std::string> targets;
        for (const graph::Node* node : module->graph().nodes())
            if (node->op() == graph::Op::call_module) targets.push_back(node->target());
        return targets;
    };
    CHECK(relus({"a", "a", "/a"}) == std::vector<std::string>{"a", "a_2", "a_3"});
    CHECK(relus({"a", "/a/b", "a_b"}) == std::vector<std::string>{"a", "a_b", "a_b_3"});
    CHECK(relus({"/a/b", "a", ""}) == std::vector<std::string>{"a.b", "a_2", "relu_3"});
}

TEST_CASE("An unsupported operator is named with its node and position") {
    CHECK_THROWS_WITH(
        onnx::import_file(models / "unsupported_op.onnx"),
        Contains(
            "unsupported_op.onnx: node 2 of 3 (Cos \"strange\"): the operator \"Cos\" is not supported in opset 17") &&
            Contains("gather rows of a constant table of cosines and sines"));
    CHECK_THAT(refusal({.op_type = "Atan"}), Contains("the operator \"Atan\" is not supported") &&
                                                 Contains("the nearest of those that are read are \"") &&
                                                 Contains(", and docs/onnx.md lists all"));
    for (const std::string op : {"LSTM", "GRU", "RNN"})
        CHECK_THAT(refusal({.op_type = op}), Contains("node 1 of 1 (" + op + " \"n\"): the operator \"" + op + "\"") &&
                                                 Contains("because a program has no loop over time steps; run the"));
    CHECK_THAT(
        refusal({.op_type = "ArgMin"}),
        Contains("\"ArgMin\" is not supported in opset 17; the place of the smallest is the ArgMax of the negated"));
    CHECK_THAT(refusal({.op_type = "TopK"}),
               Contains("\"TopK\" is not supported in opset 17, because a program sorts nothing"));
    test::Message fused = test::node("Conv", {"x"}, {"y"}).text(7, "com.microsoft");
    CHECK_THROWS_WITH(import({.nodes = {fused}}), Contains("\"com.microsoft.Conv\" is not supported"));
    CHECK_NOTHROW(import({.nodes = {test::node("Relu", {"x"}, {"y"}).text(7, "ai.onnx")}}));
}

TEST_CASE("A graph that is not in order is refused with the nodes that contradict each other") {
    CHECK_THROWS_WITH(onnx::import_file(models / "missing_initializer.onnx"),
                      Contains("node 1 of 1 (Conv \"conv\"): its input \"w\" is missing: no initializer"));
    const auto relu = [](const std::string& from, const std::string& to) {
        return test::node("Relu", {from}, {to}, {}, "to_" + to);
    };
    CHECK_THROWS_WITH(import({.nodes = {relu("a", "y"), relu("x", "a")}}),
                      Contains("node 1 of 2 (Relu \"to_y\"): its input \"a\" is made by node 2 of 2 (Relu \"to_a\"), "
                               "which does not come before it"));
    CHECK_THROWS_WITH(import({.nodes = {relu("y", "a"), relu("a", "y")}}), Contains("not sorted or has a cycle"));
    CHECK_THROWS_WITH(import({.nodes = {relu("y", "y")}}), Contains("not sorted or has a cycle"));
    CHECK_THROWS_WITH(import({.nodes = {relu("x", "y"), relu("x", "y")}}),
                      Contains("node 2 of 2") && Contains("a name that is taken"));
    CHECK_THROWS_WITH(import({.nodes = {relu("x", "x"), relu("x", "y")}}), Contains("a name that is taken"));
    CHECK_THROWS_WITH(import({.nodes = {relu("x", "z")}}), Contains("the graph's output \"y\" is made by no node"));
    CHECK_THROWS_WITH(import({.nodes = {relu("x", "y")}, .outputs = {}}), Contains("no output"));
    CHECK_THROWS_WITH(import({.nodes = {}, .initializers = {test::filled("y", {1})}}), Contains("\"y\" is a constant"));
    CHECK_THROWS_WITH(
        import({.nodes = {relu("x", "y")}, .initializers = {test::filled("a", {1}), test::filled("a", {1})}}),
        Contains("two initializers have the name \"a\""));
    CHECK_THROWS_WITH(import({.nodes = {relu("x", "y")}, .inputs = {}}), Contains("the graph has no input"));
    CHECK_THROWS_WITH(import({.nodes = {relu("x", "y")}, .inputs = {test::value_info("x"), test::value_info("x")}}),
                      Contains("two inputs"));
    CHECK_THROWS_WITH(import({.nodes = {relu("x", "y")}, .inputs = {test::value_info("x", {1}, test::int64)}}),
                      Contains("the input \"x\" holds integers, which a Gather of rows of a constant alone reads"));
    CHECK_THROWS_WITH(import({.nodes = {relu("x", "y")}, .inputs = {test::value_info("x", {1}, 9)}}),
                      Contains("the input \"x\" has dtype bool, expected float32, or int64 or int32 ids"));
    CHECK_THROWS_WITH(import({.nodes = {relu("x", "y")}, .inputs = {test::value_info("x", {1, 1, 1, 1, 1, 1, 1})}}),
                      Contains("more than 6 axes"));
}

TEST_CASE("An input of integers that is cast to real numbers is one of real numbers") {
    const std::vector<test::Message> nodes{test::node("Unsqueeze", {"m", "axes"}, {"u"}),
                                           test::node("Cast", {"u"}, {"c"}, {test::attribute("to", 1)}),
                                           test::node("Add", {"c", "x"}, {"y"})};
    const auto with = [&](std::vector<test::Message> given) {
        return onnx::parse_model(
            test::model({.nodes = std::move(given),
                         .initializers = {test::int64_tensor("axes", {1})},
                         .inputs = {test::value_info("x", {2, 1, 3}), test::value_info("m", {2, 3}, test::int64)}})
                .bytes(),
            "m.onnx");
    };
    const intq::Tensor x = intq::Tensor::full(Shape(2, 1, 3), 0.5f);
    const intq::Tensor m = intq::Tensor::from(Shape(2, 3), {0.0f, 1.0f, 2.0f, 3.0f, -4.0f, 5.0f});
    const intq::Tensor y = (*onnx::import_model(with(nodes)))(x, m).tensor();
    CHECK_FALSE(onnx::takes_ids(with(nodes), "m"));
    CHECK_FALSE(onnx::takes_ids(with(nodes), "x"));
    CHECK(y.shape() == Shape(2, 1, 3));
    CHECK(y.contiguous().flat<float>()[4] == -3.5f);
    std::vector<test::Message> others = nodes;
    others.push_back(test::node("Relu", {"u"}, {"r"}));
    others[2] = test::node("Add", {"c", "x"}, {"y0"});
    others.push_back(test::node("Add", {"r", "y0"}, {"y"}));
    CHECK(onnx::takes_ids(with(others), "m"));
    CHECK_THROWS_WITH(onnx::import_model(with(others)), Contains("its input holds integers that the model is given"));
}

TEST_CASE("Moves of integers that an enemy wrote take one pass") {
    std::vector<test::Message> loop{test::node("Identity", {"m"}, {"m"}), test::node("Cast", {"m"}, {"c"})};
    std::vector<test::Message> twice;  // each value is made of the one before by two nodes
    for (int k = 0; k < 64; ++k)
        for (int copy = 0; copy < 2; ++copy)
            twice.push_back(
                test::node("Identity", {k == 0 ? "m" : "v" + std::to_string(k - 1)}, {"v" + std::to_string(k)}));
    for (const auto& nodes : {loop, twice}) {
        const onnx::Model model = onnx::parse_model(
            test::model({.nodes = nodes, .inputs = {test::value_info("m", {2, 3}, test::int64)}}).bytes(), "m.onnx");
        CHECK(onnx::takes_ids(model, "m"));
        CHECK_THROWS_AS(onnx::import_model(model), Error);
    }
}

TEST_CASE("Positions take numbers of any size without an overflow") {
    const std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                       least = std::numeric_limits<std::int64_t>::min();
    const auto refusal = [](std::vector<std::int64_t> range, std::int64_t addend) {
        const auto count = static_cast<index_t>(range.size());
        return import({.nodes = {test::node("Add", {"p", "a"}, {"b"}), test::node("LessOrEqual", {"r", "b"}, {"c"}),
                                 test::node("Where", {"c", "x", "x"}, {"y"})},
                       .initializers = {test::int64_tensor("r", std::move(range)), test::int64_tensor("a", {addend})},
                       .inputs = {test::value_info("x", {1, 1, count}), test::value_info("p", {1}, test::int64)}});
    };
    CHECK_THROWS_WITH(refusal({0, 1}, most), Contains("addend"));
    CHECK_THROWS_WITH(refusal({0, 1}, least), Contains("addend"));
    CHECK_THROWS_WITH(refusal({least, most}, 0), Contains("no range"));
    CHECK_THROWS_WITH(refusal({most, least}, 0), Contains("no range"));
}

TEST_CASE("A graph may have several inputs and outputs") {
    const auto module = import({.nodes = {test::node("Add", {"a", "b"}, {"y"}), test::node("Relu", {"y"}, {"z"})},
                                .inputs = {test::value_info("a", {2}), test::value_info("b", {2})},
                                .outputs = {test::value_info("y"), test::value_info("z")}});
    const nn::Value result =
        (*module)(intq::Tensor::from(Shape(2), {1.0f, -3.0f}), intq::Tensor::from(Shape(2), {1.0f, 1.0f}));
    REQUIRE(result.is_tuple());
    CHECK(result.tuple()[0].tensor().flat<float>()[1] == -2.0f);
    CHECK(result.tuple()[1].tensor().flat<float>()[1] == 0.0f);
}

TEST_CASE("A second output may be there, but not be read") {
    const auto pool =
        test::node("MaxPool", {"x"}, {"y", "indices"}, {test::attribute("kernel_shape", Ints{2, 2})}, "pool");
    CHECK_NOTHROW(import({.nodes = {pool}}));
    CHECK_THROWS_WITH(
        import({.nodes = {pool, test::node("Relu", {"indices"}, {"z"})}, .outputs = {test::value_info("z")}}),
        Contains("node 2 of 2") &&
            Contains("the input \"indices\" is output 2 of node 1 of 2 (MaxPool \"pool\"), which is not supported"));
    CHECK_THROWS_WITH(import({.nodes = {pool}, .outputs = {test::value_info("indices")}}), Contains("not supported"));
}

TEST_CASE("An attribute that is not known, of another kind or there twice is refused") {
    CHECK_THAT(refusal({.op_type = "Relu", .attributes = {test::attribute("alpha", 1.0f)}}),
               Contains("node 1 of 1 (Relu \"n\"): the attribute \"alpha\" is not supported in opset 17"));
    CHECK_THAT(refusal({.op_type = "Flatten", .attributes = {test::attribute("axis", 1.0f)}}),
               Contains("the attribute axis is not an integer"));
    CHECK_THAT(refusal({.op_type = "Flatten", .attributes = {test::attribute("axis", 1), test::attribute("axis", 1)}}),
               Contains("twice"));
}

TEST_CASE("Conv refuses weights and attributes that contradict each other or the input") {
    const auto conv = [](std::vector<test::Message> constants, std::vector<test::Message> attributes = {}) {
        return refusal({.op_type = "Conv", .attributes = std::move(attributes), .constants = std::move(constants)});
    };
    const test::Message w = test::filled("a", {8, 4, 3, 3});
    CHECK(conv({w}) == "not refused");
    CHECK_THROWS_WITH(onnx::import_file(models / "wrong_rank.onnx"),
                      Contains("(Conv \"conv\"): the weight \"w\" has shape (4, 4, 3), expected rank 4"));
    CHECK_THAT(conv({test::filled("a", {8, 3, 3, 3})}), Contains("the input has 4 channels, the weight is for 3"));
    CHECK_THAT(conv({test::filled("a", {0, 4, 3, 3})}), Contains("without empty axes"));
    CHECK_THAT(conv({w}, {test::attribute("group", 3)}), Contains("8 output channels cannot be split into 3 groups"));
    CHECK_THAT(conv({w}, {test::attribute("group", 0)}), Contains("0 groups"));
    CHECK_THAT(conv({w}, {test::attribute("kernel_shape", Ints{3, 5})}),
               Contains("kernel_shape (3, 5) differs from the weight's"));
    CHECK_THAT(conv({w}, {test::attribute("strides", Ints{1})}), Contains("strides has 1 values, expected 2"));
    CHECK_THAT(conv({w}, {test::attribute("strides", Ints{1, 0})}), Contains("strides holds 0"));
    CHECK_THAT(conv({w}, {test::attribute("pads", Ints{0, 0, -1, 0})}), Contains("pads holds -1"));
    CHECK_THAT(conv({w}, {test::attribute("dilations", Ints{INT64_MAX, 1})}), Contains("dilations holds"));
    CHECK_THAT(conv({w}, {test::attribute("auto_pad", std::string("SAME"))}),
               Contains("auto_pad \"SAME\" is not supported"));
    CHECK_THAT(
        conv({w}, {test::attribute("auto_pad", std::string("VALID")), test::attribute("pads", Ints{1, 1, 1, 1})}),
        Contains("both pads and auto_pad"));
    CHECK_THAT(conv({test::filled("a", {8, 4, 7, 7})}),
               Contains("the window of 7 x 7 does not fit into the input of shape (?, 4, 6, 6)"));
    CHECK_THAT(conv({w, test::filled("b", {7})}), Contains("the bias has 7 elements, expected 8"));
    CHECK_THAT(conv({w, test::filled("b", {8, 1})}), Contains("the bias \"b\" has shape (8, 1), expected rank 1"));
    CHECK_THAT(conv({test::filled("a", {8, 4, 3, 3}, NAN)}), Contains("the weight \"a\" holds a NaN"));
    CHECK_THAT(conv({}), Contains("it has 1 inputs, expected 2 to 3"));
    const test::Message doubles =
        test::Message().integers(1, {1, 4, 1, 1}).integer(2, test::float64).text(9, std::string(32, '\0')).text(8, "a");
    CHECK_THAT(conv({doubles}), Contains("the weight \"a\" has dtype float64, expected float32"));
    CHECK_THAT(refusal({.op_type = "Conv", .constants = {w}, .x_shape = {4, 6, 6}}),
               Contains("the input \"x\" has shape (4, 6, 6), expected rank 4"));
    CHECK_THAT(refusal({.op_type = "Conv", .constants = {w}, .inputs = {"x", ""}}),
               Contains("the weight (input 2) is missing"));
    CHECK_THAT(refusal({.op_type = "Conv", .constants = {w}, .inputs = {"x", "x"}}),
               Contains("is computed when the model runs, expected a constant"));
    CHECK_THAT(refusal({.op_type = "Conv", .constants = {w}, .inputs = {"a", "x"}}),
               Contains("the input \"a\" is a constant"));
}

TEST_CASE("Padding that depends on the input needs its extents only where there is a stride") {
    const auto conv = [](Ints strides, Ints x_shape) {
        return refusal({.op_type = "Conv",
                        .attributes = {test::attribute("auto_pad", std::string("SAME_UPPER")),
                                       test::attribute("strides", strides)},
                        .constants = {test::filled("a", {8, 4, 3, 3})},
                        .x_shape = x_shape});
    };
    CHECK(conv({1, 1}, {}) == "not refused");
    CHECK(conv({2, 2}, {-1, 4, 9, 7}) == "not refused");
    CHECK_THAT(conv({2, 2}, {-1, 4, -1, -1}), Contains("needs height and width"));
}

TEST_CASE("Pools refuse windows that they cannot have") {
    const auto pool = [](std::vector<test::Message> attributes) {
        return refusal({.op_type = "MaxPool", .attributes = std::move(attributes)});
    };
    const test::Message two = test::attribute("kernel_shape", Ints{2, 2});
    CHECK(pool({two}) == "not refused");
    CHECK_THAT(pool({}), Contains("kernel_shape is missing"));
    CHECK_THAT(pool({test::attribute("kernel_shape", Ints{2})}), Contains("kernel_shape has 1 values, expected 2"));
    CHECK_THAT(pool({test::attribute("kernel_shape", Ints{2, 2, 2})}), Contains("has 3 values, expected 2"));
    CHECK_THAT(pool({two, test::attribute("pads", Ints{0, 0, 2, 0})}), Contains("lies in it entirely"));
    CHECK(pool({two, test::attribute("ceil_mode", 1), test::attribute("strides", Ints{2, 2})}) == "not refused");
    CHECK(pool({two, test::attribute("ceil_mode", 1), test::attribute("strides", Ints{3, 2})}) == "not refused");
    CHECK_THAT(refusal({.op_type = "GlobalAveragePool", .x_shape = {1, 4}}), Contains("expected rank 4"));
}

TEST_CASE("BatchNormalization refuses statistics that do not fit") {
    const auto batch_norm = [](std::int64_t channels, std::int64_t last, std::vector<test::Message> attributes = {}) {
        return refusal({.op_type = "BatchNormalization",
                        .attributes = std::move(attributes),
                        .constants = {test::filled("a", {channels}), test::filled("b", {channels}),
                                      test::filled("c", {channels}), test::filled("d", {last})}});
    };
    CHECK(batch_norm(4, 4) == "not refused");
    CHECK_THAT(batch_norm(3, 3), Contains("the input has shape (?, 4, 6, 6), expected 3 channels"));
    CHECK_THAT(batch_norm(4, 5), Contains("the running_var has 5 elements, expected 4"));
    CHECK_THAT(batch_norm(4, 4, {test::attribute("training_mode", 1)}), Contains("training_mode"));
}

TEST_CASE("BatchNormalization keeps its epsilon, and its momentum in PyTorch's sense") {
    const auto module = onnx::import_file(models / "batch_norm_epsilon_opset17.onnx");
    const auto& options = dynamic_cast<const nn::BatchNorm2d&>(module->find("batch_norm_epsilon")).options();
    CHECK(options.eps == 0.125);
    CHECK(options.momentum == 0.25);  // 1 - 0.75
}

TEST_CASE("Clip is ReLU, ReLU6 or nothing, and clamp with other limits") {
    const auto scalar = [](const std::string& name, float value) { return test::tensor(name, {}, {value}); };
    const auto clip = [&](std::vector<test::Message> limits) {
        return OneNode{.op_type = "Clip", .constants = std::move(limits)};
    };
    constexpr float infinity = std::numeric_limits<float>::infinity();
    CHECK(type_of(clip({scalar("a", 0), scalar("b", 6)})) == "ReLU6");
    CHECK(type_of(clip({scalar("a", 0)})) == "ReLU");
    CHECK(type_of(clip({scalar("a", 0), scalar("b", infinity)})) == "ReLU");
    CHECK(type_of(clip({scalar("a", 0), scalar("b", 3.402823466e38f)})) == "ReLU");
    CHECK(type_of(clip({})) == "Identity");
    CHECK(type_of(clip({scalar("a", -infinity)})) == "Identity");
    CHECK(graph::to_string(clip({scalar("a", 0), scalar("b", 1)}).import()->graph())
              .find("call_function[target=clamp](args = (%x, 0, 1))") != std::string::npos);
    CHECK(graph::to_string(clip({scalar("a", -1)}).import()->graph()).find("clamp](args = (%x, -1, None))") !=
          std::string::npos);
    CHECK_THAT(refusal(clip({scalar("a", NAN)})), Contains("the min is NaN"));
    CHECK_THAT(refusal(clip({test::filled("a", {2})})), Contains("the min has 2 elements, expected 1"));
}

TEST_CASE("Gemm and MatMul take constant matrices that fit") {
    const auto gemm = [](std::vector<test::Message> constants, std::vector<test::Message> attributes = {}) {
        return refusal({.op_type = "Gemm",
                        .attributes = std::move(attributes),
                        .constants = std::move(constants),
                        .x_shape = {-1, 6}});
    };
    CHECK(gemm({test::filled("a", {6, 5}), test::filled("b", {5})}) == "not refused");
    CHECK_THAT(gemm({test::filled("a", {5, 6})}), Contains("the input has shape (?, 6), expected 5 in the last axis"));
    CHECK_THAT(gemm({test::filled("a", {6, 5})}, {test::attribute("transA", 1)}), Contains("not refused"));
    CHECK_THAT(refusal({.op_type = "Gemm",
                        .attributes = {test::attribute("transA", 1)},
                        .constants = {test::filled("a", {6, 5})},
                        .x_shape = {7, 6}}),
               Contains("the input has shape (6, 7), expected 6 in the last axis"));
    CHECK_THAT(gemm({test::filled("a", {6, 5}), test::filled("b", {6})}),
               Contains("the bias has shape (6), expected (5)"));
    CHECK_THAT(gemm({test::filled("a", {6, 5}), test::filled("b", {5, 1})}), Contains("the bias has shape (5, 1)"));
    CHECK_THAT(gemm({test::filled("a", {6})}), Contains("expected rank 2"));
    CHECK_THAT(refusal({.op_type = "MatMul", .x_shape = {-1, 6}, .inputs = {"x"}}),
               Contains("it has 1 inputs, expected 2"));
    CHECK_THAT(refusal({.op_type = "MatMul",
                        .constants = {test::filled("a", {6, 5})},
                        .x_shape = {-1, 4, 6},
                        .inputs = {"x", "x"}}),
               Contains("matrices of shapes (?, 4, 6) and (?, 4, 6) cannot be multiplied"));
    // A constant for each matrix of a sample is no weight of a Linear.
    const OneNode by_constant{
        .op_type = "MatMul", .constants = {test::filled("a", {1, 4, 6, 3}, 0.5f)}, .x_shape = {-1, 4, 5, 6}};
    const auto module = by_constant.import();
    const intq::Tensor y = (*module)(intq::Tensor::full(Shape(2, 4, 5, 6), 2.0f)).tensor();
    CHECK(y.shape() == Shape(2, 4, 5, 3));
    CHECK(test::largest_difference(y, intq::Tensor::full(Shape(2, 4, 5, 3), 6.0f)) == 0.0);
    CHECK_THAT(refusal({.op_type = "MatMul", .constants = {test::filled("a", {1, 4, 7, 3})}, .x_shape = {-1, 4, 5, 6}}),
               Contains("cannot be multiplied"));
    CHECK_THAT(refusal({.op_type = "MatMul", .constants = {test::filled("a", {6})}, .x_shape = {-1, 4, 5, 6}}),
               Contains("expected rank 2"));
}

TEST_CASE("A bias that is added behind a MatMul goes into the Linear, but not when the product is used elsewhere") {
    const auto product = test::node("MatMul", {"x", "w"}, {"p"}, {}, "fc");
    const auto sum = test::node("Add", {"p", "b"}, {"y"}, {}, "bias");
    const std::vector<test::Message> constants{test::filled("w", {3, 2}, 1), test::tensor("b", {2}, {10, 20})};
    const std::vector<test::Message> inputs{test::value_info("x", {-1, 3})};
    const intq::Tensor x = intq::Tensor::from(Shape(1, 3), {1.0f, 2.0f, 3.0f});

    const auto folded = import({.nodes = {product, sum}, .initializers = constants, .inputs = inputs});
    CHECK(folded->graph().size() == 3);
    CHECK(run(*folded, x).flat<float>()[1] == 26.0f);

    const auto apart = import({.nodes = {product, sum},
                               .initializers = constants,
                               .inputs = inputs,
                               .outputs = {test::value_info("y"), test::value_info("p")}});
    CHECK(apart->graph().size() == 5);  // the constant is an operand
    const nn::Value both = (*apart)(x);
    CHECK(both.tuple()[0].tensor().flat<float>()[1] == 26.0f);
    CHECK(both.tuple()[1].tensor().flat<float>()[1] == 6.0f);
}

TEST_CASE("Add takes a number, one value a channel and whatever can be broadcast") {
    const auto add = [](test::Message constant, Ints x_shape = {-1, 4, 6, 6}) {
        return OneNode{.op_type = "Add", .constants = {std::move(constant)}, .x_shape = std::move(x_shape)};
    };
    CHECK(type_of(add(test::filled("a", {1, 4, 1, 1}))) == "BatchNorm2d");
    CHECK(type_of(add(test::filled("a", {4}), {-1, 4})).empty());
    CHECK(type_of(add(test::tensor("a", {}, {0.5f}))).empty());
    CHECK(
        run(*add(test::tensor("a", {}, {0.5f})).import(), intq::Tensor::full(Shape(1, 4, 6, 6), 1)).flat<float>()[0] ==
        1.5f);
    const auto shape_of = [&](test::Message constant) {
        return run(*add(std::move(constant)).import(), intq::Tensor::zeros(Shape(1, 4, 6, 6))).shape();
    };
    CHECK(shape_of(test::filled("a", {6})) == Shape(1, 4, 6, 6));
    CHECK(shape_of(test::filled("a", {1, 1, 1, 1, 1})) == Shape(1, 1, 4, 6, 6));
    CHECK_THAT(refusal(add(test::filled("a", {4, 1}))),
               Contains("the shapes (?, 4, 6, 6) and (4, 1) cannot be broadcast"));
    CHECK(type_of(add(test::filled("a", {4, 1, 1}), {})).empty());
    const auto two = [](Ints a, Ints b) {
        return import({.nodes = {test::node("Add", {"a", "b"}, {"y"})},
                       .inputs = {test::value_info("a", a), test::value_info("b", b)}});
    };
    CHECK_NOTHROW(two({-1, 4, 6, 6}, {2, 4, 6, -1}));
    CHECK_NOTHROW(two({-1, 4, 6, 6}, {-1, 4, 1, 1}));
    CHECK_NOTHROW(two({4, 6}, {6}));
    CHECK_THROWS_WITH(two({-1, 4, 6, 6}, {-1, 3, 6, 6}),
                      Contains("the shapes (?, 4, 6, 6) and (?, 3, 6, 6) cannot be broadcast"));
}

TEST_CASE("Flatten and Reshape keep the batch where the file does, whatever size of it the file has") {
    CHECK(type_of({.op_type = "Flatten"}) == "Flatten");
    CHECK_THAT(refusal({.op_type = "Flatten", .attributes = {test::attribute("axis", 5)}}),
               Contains("axis 5 does not exist in shape (?, 4, 6, 6)"));
    CHECK_THAT(refusal({.op_type = "Flatten", .x_shape = {5}}), Contains("expected rank 2 or more"));
    CHECK_THAT(refusal({.op_type = "Flatten", .attributes = {test::attribute("axis", 2)}, .x_shape = {}}),
               Contains("needs the rank of the input"));
    const auto reshape = [](Ints shape, Ints x_shape = {-1, 4, 6, 6}, std::vector<test::Message> attributes = {}) {
        return OneNode{.op_type = "Reshape",
                       .attributes = std::move(attributes),
                       .constants = {test::int64_tensor("a", shape)},
                       .x_shape = std::move(x_shape)};
    };
    for (const Ints& flat : {Ints{0, -1}, Ints{-1, 144}, Ints{0, 144}}) CHECK(type_of(reshape(flat)) == "Flatten");
    CHECK(type_of(reshape({1, -1}, {1, 4, 6, 6})) == "Flatten");
    CHECK(type_of(reshape({1, 144}, {1, 4, 6, 6})) == "Flatten");
    CHECK(type_of(reshape({0, -1}, {})) == "Flatten");
    // What became of three images.
    const auto shape_of = [&](const OneNode& one) {
        return intq::to_string(run(*one.import(), intq::Tensor::zeros(Shape(3, 4, 6, 6))).shape());
    };
    CHECK(shape_of(reshape({1, 2, 72}, {1, 4, 6, 6})) == "(3, 2, 72)");
    CHECK(shape_of(reshape({1, -1, 36}, {1, 4, 6, 6})) == "(3, 4, 36)");
    CHECK(shape_of(reshape({0, 2, -1})) == "(3, 2, 72)");
    CHECK(shape_of(reshape({-1, 72})) == "(6, 72)");
    CHECK(shape_of(reshape({1, -1})) == "(1, 432)");
    CHECK(shape_of(reshape({-1, 2, 72}, {})) == "(3, 2, 72)");
    CHECK_THAT(refusal(reshape({0, 72})), Contains("a value of shape (?, 4, 6, 6) cannot take the shape (0, 72)"));
    CHECK_THAT(refusal(reshape({1, 5, -1}, {1, 4, 6, 6})), Contains("cannot take the shape (1, 5, ?)"));
    CHECK_THAT(refusal(reshape({-1, -1})), Contains("leaves two extents open"));
    CHECK_THAT(refusal(reshape({-2, 4})), Contains("holds a negative extent"));
    CHECK_THAT(refusal(reshape({0, 0, 0, 0, 0})), Contains("the shape copies axis 4 of (?, 4, 6, 6)"));
    CHECK_THAT(refusal(reshape({1, 1, 1, 1, 1, 1, -1})), Contains("more than 6 axes"));
    CHECK_THAT(refusal(reshape({0, -1}, {-1, 4, 6, 6}, {test::attribute("allowzero", 1)})),
               Contains("leaves an extent open beside one of 0"));
}

TEST_CASE("Shape arithmetic is computed while the file is read") {
    const auto of_nodes = [](std::vector<test::Message> nodes, std::vector<test::Message> initializers,
                             Ints x_shape = {-1, 4, 6, 6}) {
        nodes.push_back(test::node("Reshape", {"x", "target"}, {"y"}, {}, "last"));
        return import({.nodes = std::move(nodes),
                       .initializers = std::move(initializers),
                       .inputs = {test::value_info("x", std::move(x_shape))}});
    };
    const auto refusal_of = [&](std::vector<test::Message> nodes, std::vector<test::Message> initializers,
                                Ints x_shape = {-1, 4, 6, 6}) {
        try {
            of_nodes(std::move(nodes), std::move(initializers), std::move(x_shape));
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("not refused");
    };
    const test::Message shape = test::node("Shape", {"x"}, {"extents"}),
                        gather = test::node("Gather", {"extents", "which"}, {"one"}),
                        join = test::node("Concat", {"one", "rest"}, {"target"}, {test::attribute("axis", 0)}, "join");
    // The batch is known by its name alone, and goes on to the Reshape.
    const auto view =
        of_nodes({shape, gather, join}, {test::int64_tensor("which", {0}), test::int64_tensor("rest", {-1})});
    CHECK(view->graph().size() == 3);
    CHECK(run(*view, intq::Tensor::zeros(Shape(5, 4, 6, 6))).shape() == Shape(5, 144));
    // An extent that is known may be computed with, one that is not may not.
    const test::Message twice = test::node("Mul", {"one", "two"}, {"target"}, {}, "twice");
    const std::vector<test::Message> numbers{test::int64_tensor("which", {1}), test::int64_tensor("two", {36})};
    CHECK(
        run(*of_nodes({shape, gather, twice}, numbers, {1, 4, 6, 6}), intq::Tensor::zeros(Shape(1, 4, 6, 6))).shape() ==
        Shape(144));
    CHECK_THAT(refusal_of({shape, gather, twice}, {test::int64_tensor("which", {0}), test::int64_tensor("two", {36})}),
               Contains("(Mul \"twice\"): it computes with an extent that is known only when the model runs"));
    // Another unknown extent is not the batch: which of the two is left open is not known.
    CHECK_THAT(refusal_of({shape, gather, join}, {test::int64_tensor("which", {2}), test::int64_tensor("rest", {-1})},
                          {1, 4, -1, 6}),
               Contains("more than one extent is not known"));
    // What is not constant, does not exist or is too much is named.
    CHECK_THAT(refusal({.op_type = "ReduceProd"}),
               Contains("the input \"x\" is computed when the model runs, expected a constant"));
    const auto fold = [&](const std::string& op, Ints a, Ints b) {
        return refusal_of({test::node(op, {"a", "b"}, {"target"}, {}, "fold")},
                          {test::int64_tensor("a", a), test::int64_tensor("b", b)}, {1, 4, 6, 6});
    };
    CHECK_THAT(fold("Div", {7}, {0}), Contains("(Div \"fold\"): it divides 7 by 0"));
    CHECK_THAT(fold("Div", {INT64_MIN + 1}, {-1}), Contains("computes with an extent") || Contains("shape"));
    CHECK_THAT(fold("Mul", {INT64_MAX}, {2}), Contains("its result overflows its dtype"));
    CHECK_THAT(fold("Add", {1, 2}, {1, 2, 3}), Contains("cannot be broadcast"));
    CHECK_THAT(fold("Gather", {1, 2}, {2}), Contains("the index 2 does not exist on axis 0 of (2)"));
    CHECK_THAT(
        refusal_of({test::node("ConstantOfShape", {"a"}, {"target"})}, {test::int64_tensor("a", {1 << 11, 1 << 10})}),
        Contains("has more than 1048576 elements"));
    CHECK_THAT(
        refusal_of({test::node("Range", {"a", "b", "c"}, {"target"})},
                   {test::int64_tensor("a", {0}), test::int64_tensor("b", {INT64_MAX}), test::int64_tensor("c", {1})}),
        Contains("too many elements"));
}

TEST_CASE("Concat joins values along any axis, and constants with them") {
    const auto concat = [](Ints a, Ints b, std::vector<test::Message> attributes) {
        return import({.nodes = {test::node("Concat", {"a", "b"}, {"y"}, attributes)},
                       .inputs = {test::value_info("a", a), test::value_info("b", b)}});
    };
    const std::vector<test::Message> channels{test::attribute("axis", 1)};
    CHECK_NOTHROW(concat({-1, 4, 6, 6}, {-1, 2, 6, 6}, channels));
    CHECK_NOTHROW(concat({-1, 4, 6, 6}, {-1, 4, 2, 6}, {test::attribute("axis", -2)}));
    CHECK_THROWS_WITH(concat({-1, 4, 6, 6}, {-1, 2, 6, 5}, channels),
                      Contains("the shapes (?, 4, 6, 6) and (?, 2, 6, 5) differ besides axis 1"));
    CHECK_THROWS_WITH(concat({-1, 4, 6, 6}, {-1, 2}, channels), Contains("differ besides axis 1"));
    CHECK_THROWS_WITH(concat({-1, 4, 6, 6}, {-1, 4, 6, 6}, {test::attribute("axis", 4)}),
                      Contains("axis 4 does not exist in shape (?, 4, 6, 6)"));
    CHECK_THROWS_WITH(concat({-1, 4, 6, 6}, {-1, 4, 6, 6}, {}), Contains("axis is missing"));
    const auto with_constant =
        OneNode{.op_type = "Concat", .attributes = channels, .constants = {test::filled("a", {2, 1, 6, 6}, 3.0f)}}
            .import();
    CHECK(run(*with_constant, intq::Tensor::zeros(Shape(2, 4, 6, 6))).shape() == Shape(2, 5, 6, 6));
}

TEST_CASE("Softmax, Dropout and Constant refuse what they do not have") {
    CHECK_THAT(refusal({.op_type = "Softmax", .attributes = {test::attribute("axis", 4)}}),
               Contains("axis 4 does not exist in shape (?, 4, 6, 6)"));
    CHECK_THAT(refusal({.op_type = "Dropout", .constants = {test::filled("a", {1}, 2.0f)}}),
               Contains("p must be in [0, 1)"));
    const test::Message on = test::Message().integer(2, test::boolean).integers(5, {1}).text(8, "b");
    CHECK_THAT(refusal({.op_type = "Dropout", .constants = {test::filled("a", {1}, 0.5f), on}}),
               Contains("training_mode is not supported"));
    CHECK_THROWS_WITH(
        import({.nodes = {test::node("Constant", {}, {"y"}, {test::attribute("value_string", std::string("s"))})}}),
        Contains("it holds none of value,"));
}

TEST_CASE("The shapes that the importer follows through a graph are those that come out") {
    // A wrong shape in between would be refused by the Gemm at the end, or let the wrong one pass.
    const auto network = [](std::int64_t features) {
        return import(
            {.nodes = {test::node("Conv", {"x", "w"}, {"1"},
                                  {test::attribute("strides", Ints{2, 1}), test::attribute("pads", Ints{1, 0, 1, 1})}),
                       test::node("MaxPool", {"1"}, {"2"}, {test::attribute("kernel_shape", Ints{2, 2})}),
                       test::node("Concat", {"2", "2"}, {"3"}, {test::attribute("axis", 1)}),
                       test::node("Flatten", {"3"}, {"4"}), test::node("Gemm", {"4", "m"}, {"y"}, {}, "fc")},
             .initializers = {test::filled("w", {3, 4, 3, 3}), test::filled("m", {features, 2})}});
    };
    // (N, 4, 6, 6) -> (N, 3, 3, 5) -> (N, 3, 2, 4) -> (N, 6, 2, 4) -> (N, 48)
    CHECK(run(*network(48), intq::Tensor::zeros(Shape(2, 4, 6, 6))).shape() == Shape(2, 2));
    CHECK_THROWS_WITH(network(47), Contains("node 5 of 5 (Gemm \"fc\"): the input has shape (?, 48), expected 47"));
}

TEST_CASE("What a few bytes of a file imply is bounded before it is used") {
    const auto refusal = [](const test::ModelParts& parts) {
        try {
            test::import(parts);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("not refused");
    };
    // Outputs of one node, and slices behind each other, become nodes of the graph.
    constexpr std::size_t many = 20000;
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < many; ++i) parts.push_back("o" + std::to_string(i));
    CHECK_THAT(refusal({.nodes = {test::node("Split", {"x"}, parts, {test::attribute("axis", 1)})},
                        .inputs = {test::value_info("x", {1, many, 1, 1})},
                        .outputs = {test::value_info("o0")}}),
               Contains("node 1 of 1 (Split): it makes more than 16384 nodes of the graph"));
    const std::vector<std::int64_t> zeros(many, 0), ones(many, 1);
    CHECK_THAT(refusal({.nodes = {test::node("Slice", {"x", "s", "e", "s", "e"}, {"y"})},
                        .initializers = {test::int64_tensor("s", zeros), test::int64_tensor("e", ones)}}),
               Contains("(Slice): it makes more than 16384 nodes"));
    std::vector<test::Message> inputs;
    for (std::size_t i = 0; i < many; ++i) inputs.push_back(test::value_info(parts[i], {1}));
    CHECK_THAT(refusal({.inputs = inputs, .outputs = {test::value_info("o0")}}), Contains("more than 16384 nodes"));

    // Extents grow from node to node.
    std::vector<test::Message> doubling, growing;
    for (int i = 0; i < 64; ++i) {
        const std::string from = i == 0 ? "x" : "v" + std::to_string(i - 1), to = "v" + std::to_string(i);
        doubling.push_back(test::node("Concat", {from, from}, {to}, {test::attribute("axis", 1)}));
        growing.push_back(test::node("ConvTranspose", {from, "w"}, {to},
                                     {test::attribute("strides", std::vector<std::int64_t>{1 << 24, 1 << 24})}));
    }
    CHECK_THAT(
        refusal(
            {.nodes = doubling, .inputs = {test::value_info("x", {1, 2, 1, 1})}, .outputs = {test::value_info("v63")}}),
        Contains("node 31 of 64 (Concat): its output would have shape (1, 4294967296, 1, 1), expected extents "
                 "up to 2147483648 and as many elements"));
    CHECK_THAT(refusal({.nodes = growing,
                        .initializers = {test::filled("w", {1, 1, 1, 1})},
                        .inputs = {test::value_info("x", {-1, 1, 3, 3})},
                        .outputs = {test::value_info("v63")}}),
               Contains("node 1 of 64 (ConvTranspose): its output would have shape (?, 1, 33554433, 33554433)"));
    CHECK_THAT(refusal({.nodes = {test::node("Relu", {"x"}, {"y"})},
                        .inputs = {test::value_info("x", {1, 1, 1LL << 31, 1LL << 31})}}),
               Contains("the input \"x\" would have shape (1, 1, 2147483648, 2147483648)"));
    CHECK_THAT(
        refusal({.nodes = {test::node("Relu", {"x"}, {"y"})}, .initializers = {test::filled("e", {0, 1LL << 40})}}),
        Contains("the initializer \"e\" would have shape (0, 1099511627776)"));

    // One constant that many nodes copy.
    std::vector<test::Message> copies;
    for (int i = 0; i < 6000; ++i)
        copies.push_back(
            test::node("Mul", {i == 0 ? "x" : "v" + std::to_string(i - 1), "c"}, {"v" + std::to_string(i)}));
    const auto copied = test::import({.nodes = copies,
                                      .initializers = {test::filled("c", {64, 64}, 1.0f)},
                                      .inputs = {test::value_info("x", {64, 64})},
                                      .outputs = {test::value_info("v5999")}});
    CHECK(copied->buffers().size() == 1);
    std::vector<test::Message> layers;
    for (int i = 0; i < 330; ++i)
        layers.push_back(
            test::node("MatMul", {i == 0 ? "x" : "v" + std::to_string(i - 1), "w"}, {"v" + std::to_string(i)}));
    CHECK_THAT(refusal({.nodes = layers,
                        .initializers = {test::filled("w", {512, 512})},
                        .inputs = {test::value_info("x", {1, 512})},
                        .outputs = {test::value_info("v329")}}),
               Contains("(MatMul): the nodes up to here copy more than 83886080 bytes of constants"));
}

TEST_CASE("Damaged models are refused or imported, and nothing else happens") {
    constexpr unsigned seed = 20240609;
    std::mt19937 random(seed);
    int refused = 0, imported = 0;
    for (const char* name :
         {"chain_opset17.onnx", "max_pool_opset17.onnx", "matmul_add_opset17.onnx", "reshape_constant_opset17.onnx"}) {
        const std::vector<std::byte> whole = io::read_file(models / name);
        for (int round = 0; round < 3000; ++round) {
            auto damaged = whole;
            for (int i = 0; i < 1 + round % 3; ++i)
                damaged[random() % damaged.size()] = static_cast<std::byte>(random());
            INFO("seed " << seed << ", " << name << ", round " << round);
            try {
                const auto module = onnx::import_model(onnx::parse_model(damaged, "m.onnx"));
                module->graph().lint(module.get());
                ++imported;
            } catch (const Error&) {
                ++refused;
            }
        }
    }
    CHECK(refused > 1000);
    CHECK(imported > 1000);
}
