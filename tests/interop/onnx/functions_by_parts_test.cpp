// SPDX-License-Identifier: MIT
//
// Functions of one element that a file writes in several nodes: what is read as one, with its values, and what is not.
#include "intq/interop/onnx/internal/nodes/functions_by_parts.hpp"

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "interop/one_node.hpp"
#include "intq/graph/print.hpp"
#include "support/catch.hpp"

using namespace intq;
using Catch::Matchers::Contains;
using test::attribute;
using test::Message;
using test::node;
using test::refusal;
using test::tensor;

namespace {

/// A graph of x (N, 8) with these nodes and numbers, of which the last node makes y.
struct Parts {
    std::vector<Message> nodes;
    std::vector<std::pair<const char*, float>> numbers{};

    test::ModelParts model() const {
        test::ModelParts parts{.nodes = nodes, .inputs = {test::value_info("x", {-1, 8})}, .opset = 18};
        for (const auto& [name, value] : numbers) parts.initializers.push_back(tensor(name, {}, {value}));
        return parts;
    }
    std::string text() const { return graph::to_string(test::import(model())->graph()); }
};

/// One node of the model computes the parts, and has these values.
void check(const Parts& parts, const std::string& type, const std::function<double(double)>& expected) {
    const auto module = test::import(parts.model());
    INFO(graph::to_string(module->graph()));
    CHECK(module->graph().size() == 3);
    std::string found;
    for (const graph::Node* one : module->graph().nodes())
        if (one->op() == graph::Op::call_module) found = module->find(one->target()).type_name();
    CHECK(found == type);
    const intq::Tensor x = intq::Tensor::from(Shape(1, 8), {-30.0f, -2.5f, -0.5f, 0.0f, 0.25f, 1.5f, 12.0f, 25.0f});
    const intq::Tensor y = (*module)(x).tensor();
    for (std::size_t i = 0; i < 8; ++i) {
        const double wanted = expected(static_cast<double>(x.flat<float>()[i]));
        CHECK(std::fabs(static_cast<double>(y.flat<float>()[i]) - wanted) <= 1e-6 * (1.0 + std::fabs(wanted)));
    }
}

double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

Message where(const std::string& above, const std::string& below) { return node("Where", {"c", above, below}, {"y"}); }

Parts softplus_parts(float beta, float threshold) {
    return {{node("Mul", {"x", "beta"}, {"bx"}), node("Softplus", {"bx"}, {"s"}), node("Div", {"s", "beta"}, {"q"}),
             node("Greater", {"bx", "most"}, {"c"}), where("x", "q")},
            {{"beta", beta}, {"most", threshold}}};
}

Parts where_parts(const std::string& comparison, const std::vector<std::string>& operands, const std::string& above,
                  const std::string& below) {
    return {{node(comparison, operands, {"c"}), node("Mul", {"x", "a"}, {"ax"}), where(above, below)},
            {{"zero", 0.0f}, {"a", 0.25f}, {"t", 0.5f}}};
}

Parts shrink_parts(float limit, float step, const std::string& between) {
    return {{node("Abs", {"x"}, {"size"}), node("Greater", {"size", "l"}, {"c"}), node("Sign", {"x"}, {"sign"}),
             node("Mul", {"sign", "step"}, {"steps"}), node("Sub", {"x", "steps"}, {"less"}),
             node("Mul", {"x", "zero"}, {"nothing"}), where("less", between)},
            {{"l", limit}, {"step", step}, {"zero", 0.0f}}};
}

}  // namespace

TEST_CASE("Softplus with PyTorch's threshold is one function, with and without beta") {
    check({{node("Softplus", {"x"}, {"s"}), node("Greater", {"x", "most"}, {"c"}), where("x", "s")}, {{"most", 20.0f}}},
          "Softplus", softplus);
    check(softplus_parts(2.0f, 20.0f), "Softplus", [](double x) { return softplus(2.0 * x) / 2.0; });
    // Another threshold, another factor behind it, and another value above it.
    CHECK_THAT(refusal(softplus_parts(2.0f, 1.0f).model()), Contains("(Greater)") && Contains("expected a constant"));
    Parts other = softplus_parts(2.0f, 20.0f);
    other.nodes[2] = node("Mul", {"s", "beta"}, {"q"});
    CHECK_THAT(refusal(other.model()), Contains("(Greater)"));
    other = softplus_parts(2.0f, 20.0f);
    other.nodes[4] = where("bx", "q");
    CHECK_THAT(refusal(other.model()), Contains("(Greater)"));
}

TEST_CASE("A value or its multiple, by the sign of the value, is LeakyReLU, and with 0 ReLU") {
    const auto leaky = [](double x) { return x > 0.0 ? x : 0.25 * x; };
    check(where_parts("Greater", {"x", "zero"}, "x", "ax"), "LeakyReLU", leaky);
    check(where_parts("Less", {"zero", "x"}, "x", "ax"), "LeakyReLU", leaky);
    check(where_parts("LessOrEqual", {"x", "zero"}, "ax", "x"), "LeakyReLU", leaky);
    Parts negated = where_parts("Greater", {"x", "zero"}, "ax", "x");
    negated.nodes.insert(negated.nodes.begin() + 1, node("Not", {"c"}, {"n"}));
    negated.nodes.back() = node("Where", {"n", "ax", "x"}, {"y"});
    check(negated, "LeakyReLU", leaky);
    check({{node("Mul", {"a", "x"}, {"ax"}), node("Max", {"ax", "x"}, {"y"})}, {{"a", 0.25f}}}, "LeakyReLU", leaky);
    const auto relu = [](double x) { return x > 0.0 ? x : 0.0; };
    check(where_parts("GreaterOrEqual", {"x", "zero"}, "x", "zero"), "ReLU", relu);
    check({{node("Greater", {"x", "zero"}, {"c"}), node("Cast", {"c"}, {"f"}, {attribute("to", 1)}),
            node("Mul", {"f", "x"}, {"y"})},
           {{"zero", 0.0f}}},
          "ReLU", relu);
    CHECK_THAT(where_parts("Greater", {"x", "t"}, "x", "t").text(), Contains("[target=clamp](args = (%x, 0.5, None))"));
    CHECK_THAT(where_parts("Less", {"x", "t"}, "x", "t").text(), Contains("[target=clamp](args = (%x, None, 0.5))"));
    // A jump at the threshold, and a slope that is beyond the value.
    CHECK_THAT(refusal(where_parts("Greater", {"x", "t"}, "x", "zero").model()), Contains("(Greater)"));
    CHECK_THAT(refusal(where_parts("Greater", {"x", "t"}, "x", "ax").model()), Contains("(Greater)"));
    CHECK_THAT(refusal(where_parts("Less", {"x", "zero"}, "x", "ax").model()), Contains("(Less)"));
    const Parts steep{{node("Mul", {"a", "x"}, {"ax"}), node("Max", {"ax", "x"}, {"y"})}, {{"a", 2.0f}}};
    CHECK_THAT(steep.text(), Contains("[target=maximum]"));
}

TEST_CASE("ELU, softsign and Softshrink in parts are one function") {
    const auto elu = [](const std::string& op, float one) {
        return Parts{{node("Greater", {"x", "zero"}, {"c"}), node("Exp", {"x"}, {"e"}), node(op, {"e", "one"}, {"m"}),
                      node("Mul", {"m", "alpha"}, {"am"}), where("x", "am")},
                     {{"zero", 0.0f}, {"one", one}, {"alpha", 0.5f}}};
    };
    for (const auto& parts : {elu("Sub", 1.0f), elu("Add", -1.0f)})
        check(parts, "ELU", [](double x) { return x > 0.0 ? x : 0.5 * std::expm1(x); });
    CHECK_THAT(refusal(elu("Add", 1.0f).model()), Contains("(Greater)"));
    const auto softsign = [](float one) {
        return Parts{{node("Abs", {"x"}, {"s"}), node("Add", {"one", "s"}, {"o"}), node("Div", {"x", "o"}, {"y"})},
                     {{"one", one}}};
    };
    check(softsign(1.0f), "Softsign", [](double x) { return x / (1.0 + std::fabs(x)); });
    const auto shrunk = [](double x) { return x > 1.0 ? x - 1.0 : x < -1.0 ? x + 1.0 : 0.0; };
    for (const char* between : {"nothing", "zero"}) {
        const auto module = test::import(shrink_parts(1.0f, 1.0f, between).model());
        CHECK_THAT(graph::to_string(module->graph()), Contains("[target=clamp](args = (%x, -1, 1))"));
        const intq::Tensor x = intq::Tensor::from(Shape(1, 8), {-3.0f, -1.0f, -0.5f, 0.0f, 0.25f, 1.5f, 2.0f, 9.0f});
        const intq::Tensor y = (*module)(x).tensor();
        for (std::size_t i = 0; i < 8; ++i)
            CHECK(static_cast<double>(y.flat<float>()[i]) == shrunk(static_cast<double>(x.flat<float>()[i])));
    }
    CHECK_THAT(refusal(shrink_parts(1.0f, 0.5f, "zero").model()), Contains("(Greater)"));
    CHECK_THAT(refusal({.op_type = "Shrink", .attributes = {attribute("lambd", 0.5f)}}),
               Contains("bias is 0 and lambd 0.5; supported is a bias that equals a positive lambd"));
}

TEST_CASE("GELU's approximation with Tanh is one function, whatever the order of its factors") {
    const auto gelu = [](double x) {
        const double root = std::sqrt(2.0 / std::acos(-1.0));
        return 0.5 * x * (1.0 + std::tanh(root * (x + 0.044715 * x * x * x)));
    };
    const std::vector<std::pair<const char*, float>> numbers{{"half", 0.5f},   {"three", 3.0f},         {"two", 2.0f},
                                                             {"c", 0.044715f}, {"root", 0.7978845608f}, {"one", 1.0f}};
    const std::vector<Message> end{node("Tanh", {"arg"}, {"t"}), node("Add", {"one", "t"}, {"u"}),
                                   node("Mul", {"x", "half"}, {"hx"}), node("Mul", {"hx", "u"}, {"y"})};
    const auto with_end = [&](std::vector<Message> nodes) {
        nodes.insert(nodes.end(), end.begin(), end.end());
        return Parts{std::move(nodes), numbers};
    };
    const Message sum = node("Add", {"x", "p"}, {"s"}), scaled = node("Mul", {"root", "s"}, {"arg"});
    const Parts of_pow = with_end({node("Pow", {"x", "three"}, {"q"}), node("Mul", {"q", "c"}, {"p"}), sum, scaled});
    check(of_pow, "GELU", gelu);
    check(with_end({node("Mul", {"x", "c"}, {"cx"}), node("Mul", {"cx", "x"}, {"cxx"}),
                    node("Mul", {"x", "cxx"}, {"p"}), sum, scaled}),
          "GELU", gelu);
    check(with_end({node("Mul", {"x", "x"}, {"xx"}), node("Mul", {"c", "xx"}, {"q"}), node("Add", {"one", "q"}, {"o"}),
                    node("Mul", {"x", "root"}, {"rx"}), node("Mul", {"rx", "o"}, {"arg"})}),
          "GELU", gelu);
    Parts other = of_pow;  // another power, another factor, and another curve
    other.nodes[0] = node("Pow", {"x", "two"}, {"q"});
    CHECK_THAT(other.text(), Contains("Tanh") || Contains("tanh"));
    other = of_pow;
    other.nodes[3] = node("Mul", {"one", "s"}, {"arg"});
    CHECK_THAT(other.text(), Contains("tanh"));
    other = of_pow;
    other.nodes[4] = node("Sigmoid", {"arg"}, {"t"});
    CHECK_THAT(other.text(), Contains("sigmoid"));
}

TEST_CASE("A value's sign times its size is the value") {
    check({{node("Sign", {"x"}, {"s"}), node("Abs", {"x"}, {"a"}), node("Relu", {"a"}, {"r"}),
            node("Mul", {"s", "r"}, {"y"})}},
          "Identity", [](double x) { return x; });
}

TEST_CASE("Conditions on constants are computed, whatever function they write") {
    test::ModelParts parts{.nodes = {node("Greater", {"k", "zero"}, {"c"}), node("Where", {"c", "k", "zero"}, {"m"}),
                                     node("Add", {"x", "m"}, {"y"})},
                           .initializers = {tensor("k", {2}, {-1.0f, 2.0f}), tensor("zero", {}, {0.0f})},
                           .inputs = {test::value_info("x", {-1, 2})}};
    const intq::Tensor y = (*test::import(parts))(intq::Tensor::zeros(Shape(1, 2))).tensor();
    CHECK(y.flat<float>()[0] == 0.0f);
    CHECK(y.flat<float>()[1] == 2.0f);
}

TEST_CASE("A vector over its length is one norm along the last axis, and along others its parts") {
    const auto parts = [](std::int64_t axis, float least, std::vector<Message> length = {}) {
        test::ModelParts made{
            .nodes = {node("ReduceL2", {"x", "axis"}, {"l"}), node("Clip", {"l", "least"}, {"c"}),
                      node("Expand", {"c", "shape"}, {"e"}), node("Div", {"x", "e"}, {"y"}, {}, "unit")},
            .initializers = {test::int64_tensor("axis", {axis}), test::int64_tensor("shape", {1, 2, 3}),
                             tensor("least", {}, {least})},
            .inputs = {test::value_info("x", {-1, 2, 3})},
            .opset = 18};
        if (!length.empty()) made.nodes[3] = length[0];
        return made;
    };
    const auto types = [](const test::ModelParts& made) {
        const auto module = test::import(made);
        std::string found;
        for (const graph::Node* one : module->graph().nodes())
            found += one->op() == graph::Op::call_module ? module->find(one->target()).type_name() + " " : "";
        return found;
    };
    const auto module = test::import(parts(-1, 1e-12f));
    CHECK(types(parts(-1, 1e-12f)) == "RMSNorm ");
    const intq::Tensor y =
        (*module)(intq::Tensor::from(Shape(1, 2, 3), {3.0f, 0.0f, -4.0f, 1.0f, 2.0f, 2.0f})).tensor();
    const float expected[] = {0.6f, 0.0f, -0.8f, 1.0f / 3.0f, 2.0f / 3.0f, 2.0f / 3.0f};
    for (std::size_t i = 0; i < 6; ++i) CHECK(y.flat<float>()[i] == Approx(expected[i]));
    CHECK(types(parts(1, 1e-12f)).find("RMSNorm") == std::string::npos);
    CHECK(types(parts(-1, 0.5f)).find("RMSNorm") == std::string::npos);
    CHECK(types(parts(-1, 1e-12f, {node("Div", {"e", "x"}, {"y"})})).find("RMSNorm") == std::string::npos);

    const auto lp = [](std::int64_t axis, std::int64_t p) {
        return test::ModelParts{
            .nodes = {node("LpNormalization", {"x"}, {"y"}, {attribute("axis", axis), attribute("p", p)})},
            .inputs = {test::value_info("x", {-1, 2, 3})},
            .opset = 18};
    };
    CHECK(types(lp(2, 2)) == "RMSNorm ");
    CHECK_THAT(refusal(lp(1, 2)), Contains("expected 2 and the last one"));
    CHECK_THAT(refusal(lp(2, 1)), Contains("expected 2 and the last one"));
}
