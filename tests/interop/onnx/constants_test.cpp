// SPDX-License-Identifier: MIT
//
// Nodes on constants alone, which are computed when a file is read.
#include <cmath>
#include <string>
#include <vector>

#include "interop/one_node.hpp"
#include "support/catch.hpp"

using namespace intq;
using Catch::Matchers::Contains;
using test::attribute;
using test::int64_tensor;
using test::Message;
using test::node;
using test::tensor;
using Floats = std::vector<float>;

namespace {

/// x (N, 2, 2) and the constant m that the nodes make.
test::ModelParts added(std::vector<Message> nodes, std::vector<Message> constants) {
    nodes.push_back(node("Add", {"x", "m"}, {"y"}));
    return {
        .nodes = std::move(nodes), .initializers = std::move(constants), .inputs = {test::value_info("x", {-1, 2, 2})}};
}
Floats computed(std::vector<Message> nodes, std::vector<Message> constants) {
    const auto module = test::import(added(std::move(nodes), std::move(constants)));
    const intq::Tensor y = (*module)(intq::Tensor::zeros(Shape(1, 2, 2))).tensor();
    return {y.flat<float>().begin(), y.flat<float>().end()};
}
Message indices(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& values) {
    return Message().integers(1, dims).integer(2, test::int64).integers(7, values).text(8, "i");
}

}  // namespace

TEST_CASE("Constants are multiplied, raised to a power and split") {
    const Message a = tensor("a", {2, 3}, {1, 2, 3, 4, 5, 6}), b = tensor("b", {3, 2}, {1, 0, 0, 1, 2, -1});
    CHECK(computed({node("MatMul", {"a", "b"}, {"m"})}, {a, b}) == Floats{7, -1, 16, -1});
    const Message lists = tensor("b", {2, 3, 1}, {1, 1, 1, 0, 0, 1});
    const Message shape = int64_tensor("shape", {2, 2});
    CHECK(computed({node("MatMul", {"a", "b"}, {"l"}), node("Reshape", {"l", "shape"}, {"m"})}, {a, lists, shape}) ==
          Floats{6, 15, 3, 6});
    CHECK_THAT(test::refusal(added({node("MatMul", {"a", "a"}, {"m"})}, {a})), Contains("are no matrices"));

    const Message base = tensor("c", {2, 1}, {2, 3}), exponent = tensor("d", {1, 2}, {2, -1});
    CHECK(computed({node("Pow", {"c", "d"}, {"m"})}, {base, exponent}) == Floats{4, 0.5f, 9, 1.0f / 3.0f});

    const Message whole = tensor("w", {2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), sizes = int64_tensor("sizes", {3, 2});
    CHECK(computed({node("Split", {"w", "sizes"}, {"p", "m"}, {attribute("axis", 1)})}, {whole, sizes}) ==
          Floats{3, 4, 8, 9});
    CHECK(computed({node("Split", {"w", "sizes"}, {"p", "m"}, {attribute("axis", 1)}), node("Identity", {"p"}, {"q"})},
                   {whole, sizes}) == Floats{3, 4, 8, 9});
}

TEST_CASE("Functions of one element are computed on constants") {
    const Message c = tensor("c", {2, 2}, {-1, 0.25f, 1, 4});
    const auto of = [&](const char* op) { return computed({node(op, {"c"}, {"m"})}, {c}); };
    CHECK(of("Relu") == Floats{0, 0.25f, 1, 4});
    CHECK(of("Abs") == Floats{1, 0.25f, 1, 4});
    CHECK(of("Reciprocal") == Floats{-1, 4, 1, 0.25f});
    const Floats sigmoid = of("Sigmoid"), exp = of("Exp"), tanh = of("Tanh");
    CHECK(sigmoid[0] == Approx(0.2689414f));
    CHECK(exp[3] == Approx(54.59815f));
    CHECK(tanh[1] == Approx(0.2449187f));
    const Message positive = tensor("c", {2, 2}, {1, 0.25f, 9, 4});
    CHECK(computed({node("Sqrt", {"c"}, {"m"})}, {positive}) == Floats{1, 0.5f, 3, 2});
    CHECK(computed({node("Log", {"c"}, {"m"})}, {positive})[2] == Approx(2.1972246f));
    CHECK_THAT(test::refusal(added({node("Exp", {"i"}, {"m"})}, {indices({2}, {1, 2})})),
               Contains("dtype int64, expected float32"));
}

TEST_CASE("Constants are reduced along axes") {
    const Message c = tensor("c", {2, 3, 2}, {1, -2, 3, 4, -5, 6, 7, 0.5f, -9, 10, 11, -12});
    const auto of = [&](const char* op, const std::vector<std::int64_t>& axes) {
        return computed({node(op, {"c"}, {"m"}, {attribute("axes", axes), attribute("keepdims", 0)})}, {c});
    };
    CHECK(of("ReduceMax", {1}) == Floats{3, 6, 11, 10});
    CHECK(of("ReduceMin", {-2}) == Floats{-5, -2, -9, -12});
    CHECK(of("ReduceMean", {1}) == Floats{-1.0f / 3.0f, 8.0f / 3.0f, 3, -0.5f});
    CHECK(of("ReduceMax", {1, 0}) == Floats{11, 10, 11, 10});
    CHECK(of("ReduceMax", {0, 1, 2}) == Floats{11, 11, 11, 11});
    const Message axes = int64_tensor("axes", {0, 1});
    CHECK(computed({node("ReduceSum", {"c", "axes"}, {"m"})}, {c, axes}) == Floats{8, 6.5f, 8, 6.5f});
    CHECK(of("ReduceProd", {1}) == Floats{-15, -48, -693, -60});
}

TEST_CASE("Elements of a constant are taken and replaced by lists of indices") {
    const Message data = tensor("d", {3, 2}, {0, 1, 2, 3, 4, 5});
    CHECK(computed({node("GatherND", {"d", "i"}, {"m"})}, {data, indices({2, 1}, {2, -3})}) == Floats{4, 5, 0, 1});
    CHECK(computed({node("GatherND", {"d", "i"}, {"m"})}, {data, indices({2, 2, 2}, {0, 1, 2, 0, 1, 1, -1, -1})}) ==
          Floats{1, 4, 3, 5});
    CHECK_THAT(test::refusal(added({node("GatherND", {"d", "i"}, {"m"})}, {data, indices({1, 1}, {3})})),
               Contains("the index 3 lies outside of axis 0"));
    CHECK_THAT(test::refusal(added({node("GatherND", {"d", "i"}, {"m"})}, {data, indices({1, 3}, {0, 0, 0})})),
               Contains("the indices have shape (1, 3)"));

    const Message square = tensor("d", {2, 2}, {0, 1, 2, 3});
    const auto scattered = [&](const Message& places, std::vector<std::int64_t> dims, const Floats& values,
                               std::vector<Message> attributes = {}) {
        return added({node("ScatterND", {"d", "i", "u"}, {"m"}, std::move(attributes))},
                     {square, places, tensor("u", std::move(dims), values)});
    };
    const auto result = [](const test::ModelParts& parts) {
        const intq::Tensor y = (*test::import(parts))(intq::Tensor::zeros(Shape(1, 2, 2))).tensor();
        return Floats{y.flat<float>().begin(), y.flat<float>().end()};
    };
    CHECK(result(scattered(indices({1, 1}, {-1}), {1, 2}, {7, 8})) == Floats{0, 1, 7, 8});
    CHECK(result(scattered(indices({2, 2}, {0, 1, 0, 1}), {2}, {7, 8})) == Floats{0, 8, 2, 3});
    CHECK_THAT(test::refusal(scattered(indices({1, 1}, {0}), {2}, {7, 8})),
               Contains("the updates have shape (2), expected (1, 2)"));
    CHECK_THAT(
        test::refusal(scattered(indices({1, 1}, {0}), {1, 2}, {7, 8}, {attribute("reduction", std::string("add"))})),
        Contains("the reduction \"add\""));
}
