// SPDX-License-Identifier: MIT
//
// ONNX reductions that become pools or several functions, and quotients of two values: their values against loops, and
// what is refused.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "interop/one_node.hpp"
#include "intq/graph/print.hpp"
#include "support/catch.hpp"

using namespace intq;
using Catch::Matchers::Contains;
using test::attribute;
using test::filled;
using test::int64_tensor;
using test::node;
using test::OneNode;
using test::refusal;
using test::tensor;
using Ints = std::vector<std::int64_t>;

namespace {

Tensor numbers(const Shape& shape) {
    Tensor x = Tensor::zeros(shape);
    std::int64_t n = 0;
    for (float& value : x.flat<float>()) value = static_cast<float>(n++ * 37 % 101) - 50.0f;
    return x;
}

OneNode reduction(const std::string& op, const Ints& axes, bool keeps, Ints shape) {
    return {.op_type = op,
            .attributes = {attribute("axes", axes), attribute("keepdims", keeps ? 1 : 0)},
            .x_shape = std::move(shape)};
}

/// What joins the elements of x whose other indices are equal; the results in their order.
std::vector<float> joined(const Tensor& x, const Ints& axes, float first,
                          const std::function<float(float, float)>& join) {
    const int rank = x.shape().rank;
    std::vector<bool> is_joined(static_cast<std::size_t>(rank));
    for (const std::int64_t axis : axes) is_joined[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
    std::size_t count = 1;
    for (int i = 0; i < rank; ++i)
        if (!is_joined[static_cast<std::size_t>(i)]) count *= static_cast<std::size_t>(x.extent(i));
    std::vector<float> result(count, first);
    for (std::size_t i = 0; i < x.flat<float>().size(); ++i) {
        std::size_t rest = i, place = 0, step = 1;
        for (int axis = rank; axis-- > 0;) {
            const auto extent = static_cast<std::size_t>(x.extent(axis));
            if (!is_joined[static_cast<std::size_t>(axis)]) {
                place += rest % extent * step;
                step *= extent;
            }
            rest /= extent;
        }
        result[place] = join(result[place], x.flat<float>()[i]);
    }
    return result;
}

std::vector<float> values_of(const Tensor& tensor) {
    const Tensor copy = tensor.contiguous();
    return {copy.flat<float>().begin(), copy.flat<float>().end()};
}

}  // namespace

TEST_CASE("ReduceMax and ReduceMin of axes behind the samples are max pools") {
    struct Case {
        Shape shape;
        Ints open, axes;
        Shape kept, gone;
    };
    const Case cases[] = {{Shape(2, 3, 4, 5), {-1, 3, 4, 5}, {2, 3}, Shape(2, 3, 1, 1), Shape(2, 3)},
                          {Shape(2, 3, 4, 5), {-1, 3, 4, 5}, {-1}, Shape(2, 3, 4, 1), Shape(2, 3, 4)},
                          {Shape(2, 3, 4, 5), {-1, 3, 4, 5}, {-2}, Shape(2, 3, 1, 5), Shape(2, 3, 5)},
                          {Shape(2, 3, 4, 5), {-1, 3, 4, 5}, {1}, Shape(2, 1, 4, 5), Shape(2, 4, 5)},
                          {Shape(2, 3, 4, 5), {-1, 3, 4, 5}, {1, 2, 3}, Shape(2, 1, 1, 1), Shape(2)},
                          {Shape(2, 7, 5), {-1, 7, 5}, {1}, Shape(2, 1, 5), Shape(2, 5)},
                          {Shape(2, 7), {-1, 7}, {1}, Shape(2, 1), Shape(2)},
                          {Shape(2, 3, 2, 2, 3), {-1, 3, 2, 2, 3}, {2, 3}, Shape(2, 3, 1, 1, 3), Shape(2, 3, 3)},
                          {Shape(2, 3, 4, 5), {-1, 3, 4, 5}, {1, 3}, Shape(2, 1, 4, 1), Shape(2, 4)},
                          {Shape(2, 3, 4, 5), {-1, 3, 4, 5}, {-1, 1}, Shape(2, 1, 4, 1), Shape(2, 4)},
                          {Shape(2, 3, 2, 2, 3), {-1, 3, 2, 2, 3}, {2, 4}, Shape(2, 3, 1, 2, 1), Shape(2, 3, 2)},
                          {Shape(2, 3, 2, 2, 3), {-1, 3, 2, 2, 3}, {1, 3, 4}, Shape(2, 1, 2, 1, 1), Shape(2, 2)}};
    for (const Case& one : cases) {
        const Tensor x = numbers(one.shape);
        for (const bool keeps : {true, false}) {
            INFO(intq::to_string(one.shape) << " to " << intq::to_string(keeps ? one.kept : one.gone));
            const Tensor most = (*reduction("ReduceMax", one.axes, keeps, one.open).import())(x).tensor();
            CHECK(most.shape() == (keeps ? one.kept : one.gone));
            CHECK(values_of(most) == joined(x, one.axes, -1e9f, [](float a, float b) { return (std::max)(a, b); }));
            const Tensor least = (*reduction("ReduceMin", one.axes, keeps, one.open).import())(x).tensor();
            CHECK(least.shape() == (keeps ? one.kept : one.gone));
            CHECK(values_of(least) == joined(x, one.axes, 1e9f, [](float a, float b) { return (std::min)(a, b); }));
        }
    }
    CHECK(test::type_of(reduction("ReduceMax", {2, 3}, true, {-1, 3, 4, 5})) == "MaxPool2d");
    const OneNode whole{.op_type = "GlobalMaxPool"};
    CHECK(test::type_of(whole) == "MaxPool2d");
    CHECK((*whole.import())(numbers(Shape(2, 4, 6, 6))).tensor().shape() == Shape(2, 4, 1, 1));
    const OneNode line{.op_type = "GlobalMaxPool", .x_shape = {-1, 4, 6}};
    CHECK((*line.import())(numbers(Shape(2, 4, 6))).tensor().shape() == Shape(2, 4, 1));
}

TEST_CASE("A ReduceMax of the samples or of unknown extents is refused") {
    const auto reason = [](const Ints& axes, Ints shape) {
        return refusal(reduction("ReduceMax", axes, true, std::move(shape)));
    };
    CHECK_THAT(reason({0}, {-1, 3, 4, 5}), Contains("its axes hold axis 0 of shape (?, 3, 4, 5), the samples"));
    CHECK_THAT(reason({}, {-1, 3, 4, 5}), Contains("hold axis 0"));
    CHECK_THAT(reason({2}, {-1, 3, -1, 5}), Contains("with extents that are known behind the samples"));
    CHECK_THAT(reason({4}, {-1, 3, 4, 5}), Contains("axis 4 does not exist"));
    CHECK_THAT(reason({1}, {-1, std::int64_t{1} << 25}), Contains("the extent 33554432 is not in [1, "));
    CHECK(test::type_of({.op_type = "ReduceMax", .attributes = {attribute("noop_with_empty_axes", 1)}, .opset = 18}) ==
          "Identity");
}

TEST_CASE("Max and Min of values compare them, and numbers among them are bounds") {
    const auto of = [](const char* op, std::vector<std::string> inputs, Ints shape, Ints other,
                       std::vector<test::Message> constants = {}) {
        test::ModelParts parts{.nodes = {node(op, std::move(inputs), {"y"}, {}, "n")},
                               .initializers = std::move(constants),
                               .inputs = {test::value_info("x", shape)}};
        if (!other.empty()) parts.inputs.push_back(test::value_info("b", other));
        return parts;
    };
    const auto negative = [](Tensor x) {
        for (float& value : x.flat<float>()) value = -0.5f * value - 3.0f;
        return x;
    };
    struct Case {
        Shape shape;
        Ints open;
    };
    for (const Case& one : {Case{Shape(2, 3, 4, 5), {-1, 3, 4, 5}},
                            {Shape(2, 7, 5), {-1, 7, 5}},
                            {Shape(3, 6), {-1, 6}},
                            {Shape(2, 2, 3, 2, 2), {-1, 2, 3, 2, 2}}}) {
        INFO(intq::to_string(one.shape));
        const Tensor x = numbers(one.shape), b = negative(numbers(one.shape));
        for (const bool is_max : {true, false}) {
            const auto module = test::import(of(is_max ? "Max" : "Min", {"x", "b"}, one.open, one.open));
            const Tensor y = (*module)(x, b).tensor();
            REQUIRE(y.shape() == one.shape);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < y.flat<float>().size(); ++i) {
                const float p = x.flat<float>()[i], q = b.flat<float>()[i];
                wrong += values_of(y)[i] != (is_max ? (std::max)(p, q) : (std::min)(p, q)) ? 1 : 0;
            }
            CHECK(wrong == 0);
        }
    }
    const Tensor x = numbers(Shape(2, 3, 4, 5));
    // A map of one value for each channel, which is repeated, and the tighter of two numbers.
    const auto mapped = test::import(of("Max", {"x", "map", "low", "lower"}, {-1, 3, 4, 5}, {},
                                        {tensor("map", {3, 1, 1}, {-20.0f, 0.0f, 20.0f}), tensor("low", {}, {-10.0f}),
                                         tensor("lower", {1}, {-30.0f})}));
    const Tensor y = (*mapped)(x).tensor();
    REQUIRE(y.shape() == x.shape());
    for (std::size_t i = 0; i < 120; ++i) {
        const float bound = static_cast<float>(i / 20 % 3) * 20.0f - 20.0f;
        CHECK(values_of(y)[i] == (std::max)({x.flat<float>()[i], bound, -10.0f}));
    }
    const auto two = test::import(of("Min", {"x", "b"}, {-1, 3, 4, 5}, {-1, 3, 1, 1}));
    CHECK((*two)(x, numbers(Shape(2, 3, 1, 1))).tensor().shape() == x.shape());
    const auto reason = [&](Ints shape, Ints other) { return refusal(of("Max", {"x", "b"}, shape, other)); };
    CHECK_THAT(reason({-1, 3, 4, 5}, {3, 4, 5}), Contains("a value of shape (3, 4, 5) is compared with one of rank 4"));
    CHECK_THAT(reason({-1, 3, -1, 5}, {-1, 3, -1, 5}), Contains("with extents that are known behind the samples"));
    CHECK_THAT(reason({-1, 3}, {-1, 4}), Contains("cannot be broadcast"));
    CHECK_THAT(refusal(of("Max", {"x", "nan"}, {-1, 3}, {}, {tensor("nan", {}, {std::nanf("")})})),
               Contains("the bound is NaN"));
}

TEST_CASE("ReduceL2 is the root of a mean of squares, and a quotient of values a product with a reciprocal") {
    const Tensor x = numbers(Shape(2, 3, 4, 5));
    for (const Ints& axes : {Ints{1}, Ints{2, 3}, Ints{-1}}) {
        const Tensor y = (*reduction("ReduceL2", axes, false, {-1, 3, 4, 5}).import())(x).tensor();
        const std::vector<float> sums = joined(x, axes, 0.0f, [](float a, float b) { return a + b * b; });
        REQUIRE(y.flat<float>().size() == sums.size());
        for (std::size_t i = 0; i < sums.size(); ++i)
            CHECK(std::fabs(y.flat<float>()[i] - std::sqrt(sums[i])) <= 1e-6f * std::sqrt(sums[i]));
    }
    CHECK_THAT(refusal(reduction("ReduceL2", {2}, true, {-1, 3, -1, 5})),
               Contains("the axes (2) of shape (?, 3, ?, 5) hold a number of elements that is not known"));
    CHECK_THAT(refusal(reduction("ReduceL2", {7}, true, {-1, 3, 4, 5})), Contains("axis 7 does not exist"));
    const auto quotient = [](std::vector<std::string> inputs) {
        return test::ModelParts{.nodes = {node("Exp", {"x"}, {"e"}), node("Div", std::move(inputs), {"y"}, {}, "n")},
                                .initializers = {tensor("one", {}, {1.0f}), tensor("two", {}, {2.0f}),
                                                 tensor("row", {3}, {1.0f, 2.0f, 4.0f})},
                                .inputs = {test::value_info("x", {-1, 3})}};
    };
    const auto module = test::import(quotient({"x", "e"}));
    CHECK_THAT(graph::to_string(module->graph()), Contains("target=reciprocal") && Contains("target=n, method=mul"));
    const Tensor a = Tensor::from(Shape(1, 3), {-1.0f, 0.5f, 2.0f});
    const auto near = [&](std::vector<std::string> inputs, const std::function<float(float, std::size_t)>& expected) {
        const Tensor y = (*test::import(quotient(std::move(inputs))))(a).tensor();
        for (std::size_t i = 0; i < 3; ++i)
            CHECK(std::fabs(y.flat<float>()[i] - expected(a.flat<float>()[i], i)) < 1e-5f);
    };
    near({"x", "e"}, [](float v, std::size_t) { return v / std::exp(v); });
    near({"one", "e"}, [](float v, std::size_t) { return 1.0f / std::exp(v); });
    near({"two", "e"}, [](float v, std::size_t) { return 2.0f / std::exp(v); });
    near({"row", "e"}, [](float v, std::size_t i) { return static_cast<float>(1 << i) / std::exp(v); });
}

// --- argmax ----------------------------------------------------------------------------------------------------------

namespace {

/// The indices of the largest along axis 1 of x (2, 3, 2, 2), by loops.
std::vector<std::int64_t> places_of_channels(const Tensor& x) {
    std::vector<std::int64_t> places;
    for (std::size_t n = 0; n < 2; ++n)
        for (std::size_t i = 0; i < 4; ++i) {
            std::size_t place = 0;
            for (std::size_t c = 1; c < 3; ++c)
                if (x.flat<float>()[(n * 3 + c) * 4 + i] > x.flat<float>()[(n * 3 + place) * 4 + i]) place = c;
            places.push_back(static_cast<std::int64_t>(place));
        }
    return places;
}

/// Behind an ArgMax of the channels of x (N, 3, 2, 2): other nodes, the last of which makes y.
test::ModelParts behind_argmax(std::vector<test::Message> nodes, std::vector<test::Message> constants = {}) {
    nodes.insert(nodes.begin(), node("ArgMax", {"x"}, {"i"}, {attribute("axis", 1), attribute("keepdims", 0)}));
    return {.nodes = std::move(nodes),
            .initializers = std::move(constants),
            .inputs = {test::value_info("x", {-1, 3, 2, 2})}};
}

}  // namespace

TEST_CASE("ArgMax gives int64 indices along its axis, the first of equal elements, with the axis or without") {
    Tensor x = numbers(Shape(2, 3, 2, 2));
    x.flat<float>()[0] = x.flat<float>()[4] = 90.0f;  // equal, of channels 0 and 1
    const std::vector<std::int64_t> expected = places_of_channels(x);
    CHECK(expected[0] == 0);
    for (const bool keeps : {false, true})
        for (const std::int64_t axis : {1, -3}) {
            const OneNode one{.op_type = "ArgMax",
                              .attributes = {attribute("axis", axis), attribute("keepdims", keeps ? 1 : 0)},
                              .x_shape = {-1, 3, 2, 2}};
            const Tensor y = (*one.import())(x).tensor();
            CHECK(y.shape() == (keeps ? Shape(2, 1, 2, 2) : Shape(2, 2, 2)));
            const auto given = y.flat<std::int64_t>();
            CHECK(std::vector<std::int64_t>(given.begin(), given.end()) == expected);
        }
    const OneNode last{.op_type = "ArgMax",
                       .attributes = {attribute("axis", 1), attribute("select_last_index", 1)},
                       .x_shape = {-1, 3, 2, 2}};
    CHECK_THAT(refusal(last), Contains("select_last_index is not supported: of equal elements the first one counts"));
    CHECK_THAT(refusal({.op_type = "ArgMax", .attributes = {attribute("axis", 4)}}),
               Contains("axis 4 does not exist in shape"));
}

TEST_CASE("Indices pass moves and casts, and any other operator that reads them is refused") {
    const Tensor x = numbers(Shape(2, 3, 2, 2));
    const std::vector<std::int64_t> expected = places_of_channels(x);
    const std::vector<test::Message> shape{int64_tensor("s", {0, -1})}, axes{int64_tensor("s", {1})};
    const std::vector<std::pair<test::Message, std::vector<test::Message>>> moves{
        {node("Reshape", {"i", "s"}, {"y"}), shape},
        {node("Unsqueeze", {"i", "s"}, {"y"}), axes},
        {node("Flatten", {"i"}, {"y"}), {}},
        {node("Identity", {"i"}, {"y"}), {}},
        {node("Cast", {"i"}, {"y"}, {attribute("to", 1)}), {}},
        {node("Cast", {"i"}, {"y"}, {attribute("to", 6)}), {}},
        {node("Cast", {"i"}, {"y"}, {attribute("to", 7)}), {}}};
    for (const auto& [move, constants] : moves) {
        const Tensor y = (*test::import(behind_argmax({move}, constants)))(x).tensor().contiguous();
        const auto given = y.flat<std::int64_t>();
        CHECK(std::vector<std::int64_t>(given.begin(), given.end()) == expected);
    }
    const std::string refused = "holds indices, which are no numbers on a grid";
    CHECK_THAT(refusal(behind_argmax({node("Relu", {"i"}, {"y"})})), Contains(refused));
    CHECK_THAT(refusal(behind_argmax({node("Identity", {"i"}, {"m"}), node("Add", {"m", "m"}, {"y"})})),
               Contains(refused));
    CHECK_THAT(refusal(behind_argmax({node("Cast", {"i"}, {"m"}, {attribute("to", 1)}), node("Relu", {"m"}, {"y"})})),
               Contains(refused));
    CHECK_THAT(refusal(behind_argmax({node("Cast", {"i"}, {"y"}, {attribute("to", 2)})})),
               Contains("indices are cast to") && Contains("expected int32, int64 or float32"));
}
