// SPDX-License-Identifier: MIT
//
// ONNX operators that become moves, slices and products of matrices: their values against loops, and what is refused.
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
using test::int64_tensor;
using test::Message;
using test::node;
using test::OneNode;
using test::refusal;
using test::tensor;
using Ints = std::vector<std::int64_t>;

namespace {

Tensor numbers(const Shape& shape) {
    Tensor x = Tensor::zeros(shape);
    std::int64_t n = 0;
    for (float& value : x.flat<float>()) value = static_cast<float>(n++ * 37 % 101);
    return x;
}

std::vector<float> values_of(const Tensor& tensor) {
    const Tensor copy = tensor.contiguous();
    return {copy.flat<float>().begin(), copy.flat<float>().end()};
}

/// The elements of a result of these extents, each by its place.
std::vector<float> by_place(const Ints& extents, const std::function<float(const Ints&)>& element) {
    std::vector<float> values;
    Ints at(extents.size(), 0);
    for (bool goes_on = true; goes_on;) {
        values.push_back(element(at));
        goes_on = false;
        for (std::size_t axis = extents.size(); axis-- > 0 && !goes_on;) {
            goes_on = ++at[axis] < extents[axis];
            if (!goes_on) at[axis] = 0;
        }
    }
    return values;
}

float at(const Tensor& x, const Ints& place) {
    std::int64_t index = 0;
    for (std::size_t axis = 0; axis < place.size(); ++axis)
        index = index * x.extent(static_cast<int>(axis)) + place[axis];
    return x.flat<float>()[static_cast<std::size_t>(index)];
}

Message equation(const std::string& text) { return attribute("equation", text); }

/// A graph of an Einsum of x and of a second value or constant b.
test::ModelParts einsum(const std::string& text, const Ints& a, const Ints& b, bool is_constant) {
    test::ModelParts parts{.nodes = {node("Einsum", {"x", "b"}, {"y"}, {equation(text)}, "sum")},
                           .inputs = {test::value_info("x", a)}};
    if (!is_constant)
        parts.inputs.push_back(test::value_info("b", b));
    else {
        Shape shape;
        for (const std::int64_t extent : b) shape.extents[static_cast<std::size_t>(shape.rank++)] = extent;
        parts.initializers = {tensor("b", b, values_of(numbers(shape)))};
    }
    return parts;
}

}  // namespace

TEST_CASE("DepthToSpace and SpaceToDepth move blocks, of both orders, and refuse what has none") {
    const Tensor x = numbers(Shape(2, 12, 3, 2)), image = numbers(Shape(2, 3, 4, 6));
    for (const bool is_crd : {false, true}) {
        const OneNode one{
            .op_type = "DepthToSpace",
            .attributes = {attribute("blocksize", 2), attribute("mode", std::string(is_crd ? "CRD" : "DCR"))},
            .x_shape = {-1, 12, 3, 2}};
        const Tensor y = (*one.import())(x).tensor();
        CHECK(y.shape() == Shape(2, 3, 6, 4));
        CHECK(values_of(y) == by_place({2, 3, 6, 4}, [&](const Ints& p) {
                  const std::int64_t row = p[2] % 2, column = p[3] % 2;
                  const std::int64_t channel = is_crd ? p[1] * 4 + row * 2 + column : (row * 2 + column) * 3 + p[1];
                  return at(x, {p[0], channel, p[2] / 2, p[3] / 2});
              }));
    }
    const OneNode back{.op_type = "SpaceToDepth", .attributes = {attribute("blocksize", 2)}, .x_shape = {-1, 3, 4, 6}};
    const Tensor deep = (*back.import())(image).tensor();
    CHECK(deep.shape() == Shape(2, 12, 2, 3));
    CHECK(values_of(deep) == by_place({2, 12, 2, 3}, [&](const Ints& p) {
              const std::int64_t row = p[1] / 3 / 2, column = p[1] / 3 % 2;
              return at(image, {p[0], p[1] % 3, p[2] * 2 + row, p[3] * 2 + column});
          }));
    const auto refused = [](const char* op, std::int64_t block, Ints shape, const char* mode = "DCR") {
        OneNode one{.op_type = op, .attributes = {attribute("blocksize", block)}, .x_shape = std::move(shape)};
        if (std::string(op) == "DepthToSpace") one.attributes.push_back(attribute("mode", std::string(mode)));
        return refusal(one);
    };
    CHECK_THAT(refused("DepthToSpace", 2, {-1, 6, 2, 2}), Contains("6 channels are no blocks of 2 x 2"));
    CHECK_THAT(refused("DepthToSpace", 0, {-1, 4, 2, 2}), Contains("the blocksize 0 is not in [1, "));
    CHECK_THAT(refused("DepthToSpace", std::int64_t{1} << 40, {-1, 4, 2, 2}), Contains("is not in [1, "));
    CHECK_THAT(refused("DepthToSpace", 2, {-1, 4, 2}), Contains("expected rank 4"));
    CHECK_THAT(refused("DepthToSpace", 2, {-1, 4, -1, 2}), Contains("with extents that are known"));
    CHECK_THAT(refused("DepthToSpace", 2, {-1, 4, 2, 2}, "RCD"), Contains("the mode \"RCD\" is not DCR or CRD"));
    CHECK_THAT(refused("SpaceToDepth", 2, {-1, 4, 2, 3}), Contains("an image of 2 x 3 has no blocks of 2 x 2"));
}

TEST_CASE("Tile repeats axes behind the samples") {
    const auto tile = [](Ints times) {
        return OneNode{.op_type = "Tile", .constants = {int64_tensor("a", times)}, .x_shape = {-1, 2, 3, 2}};
    };
    const Tensor x = numbers(Shape(2, 2, 3, 2));
    const Tensor y = (*tile({1, 2, 1, 3}).import())(x).tensor();
    CHECK(y.shape() == Shape(2, 4, 3, 6));
    CHECK(values_of(y) == by_place({2, 4, 3, 6}, [&](const Ints& p) {
              return at(x, {p[0], p[1] % 2, p[2], p[3] % 2});
          }));
    CHECK(test::type_of(tile({1, 1, 1, 1})) == "Identity");
    CHECK_THAT(refusal(tile({2, 1, 1, 1})), Contains("it repeats the samples (axis 0), 2 times"));
    CHECK_THAT(refusal(tile({1, 0, 1, 1})), Contains("the repeat 0 is not in [1, "));
    CHECK_THAT(refusal(tile({1, 2})), Contains("there are 2 repeats for 4 axes"));
    CHECK_THAT(refusal(tile({1, 1 << 24, 1 << 24, 1})), Contains("would have shape"));
}

TEST_CASE("CumSum is a Linear along its axis, from either end, with its own element or without") {
    const auto cumsum = [](std::int64_t axis, bool exclusive, bool reverse, Ints shape = {-1, 2, 3, 4}) {
        return OneNode{.op_type = "CumSum",
                       .attributes = {attribute("exclusive", exclusive ? 1 : 0), attribute("reverse", reverse ? 1 : 0)},
                       .constants = {int64_tensor("a", {axis})},
                       .x_shape = std::move(shape)};
    };
    const Tensor x = numbers(Shape(2, 2, 3, 4));
    for (const std::int64_t axis : {1, 2, 3, -1})
        for (const int bits : {0, 1, 2, 3}) {
            const bool exclusive = (bits & 1) != 0, reverse = (bits & 2) != 0;
            INFO(axis << ' ' << exclusive << ' ' << reverse);
            const Tensor y = (*cumsum(axis, exclusive, reverse).import())(x).tensor();
            CHECK(y.shape() == x.shape());
            const auto along = static_cast<std::size_t>(axis < 0 ? axis + 4 : axis);
            CHECK(values_of(y) == by_place({2, 2, 3, 4}, [&](const Ints& p) {
                      float sum = 0;
                      Ints place = p;
                      for (std::int64_t i = 0; i < x.extent(static_cast<int>(along)); ++i) {
                          const bool counts = reverse ? i > p[along] : i < p[along];
                          place[along] = i;
                          if (counts || (i == p[along] && !exclusive)) sum += at(x, place);
                      }
                      return sum;
                  }));
        }
    CHECK(test::type_of(cumsum(-1, false, false)) == "Linear");
    CHECK_THAT(refusal(cumsum(0, false, false)), Contains("its axis is axis 0 of shape (?, 2, 3, 4), the samples"));
    CHECK_THAT(refusal(cumsum(4, false, false)), Contains("axis 4 does not exist"));
    CHECK_THAT(refusal(cumsum(1, false, false, {-1, 5000})), Contains("must have a known extent of 1 to 4096"));
    CHECK_THAT(refusal(cumsum(1, false, false, {-1, -1})), Contains("must have a known extent of 1 to 4096"));
}

TEST_CASE("A Gather of ranges of indices is a cat of slices, of 8 at most") {
    const auto gather = [](Ints indices, std::int64_t axis) {
        return OneNode{.op_type = "Gather",
                       .attributes = {attribute("axis", axis)},
                       .constants = {int64_tensor("a", indices)},
                       .x_shape = {-1, 20, 2}};
    };
    const Tensor x = numbers(Shape(2, 20, 2));
    for (const Ints& indices : {Ints{3, 1, 0, 7}, Ints{0, 2, 3, 5, 7, 8, 10}, Ints{4, 4, 4}, Ints{-1, 0, 1, 19, 17}}) {
        const auto count = static_cast<index_t>(indices.size());
        const Tensor y = (*gather(indices, 1).import())(x).tensor();
        CHECK(y.shape() == Shape(2, count, 2));
        CHECK(values_of(y) == by_place({2, count, 2}, [&](const Ints& p) {
                  const std::int64_t index = indices[static_cast<std::size_t>(p[1])];
                  return at(x, {p[0], index < 0 ? index + 20 : index, p[2]});
              }));
    }
    CHECK_THAT(refusal(gather(Ints(9, 4), 1)),
               Contains("its indices are 9 ranges of even steps; supported are at most 8"));
    CHECK_THAT(refusal(gather({0, 20}, 1)), Contains("the index 20 does not exist on an axis of 20"));
    // Windows that overlap: two axes of indices.
    OneNode windows = gather({0}, 1);
    windows.constants = {Message()
                             .integers(1, {3, 4})
                             .integer(2, test::int64)
                             .integers(7, {0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5})
                             .text(8, "a")};
    const Tensor y = (*windows.import())(x).tensor();
    CHECK(y.shape() == Shape(2, 3, 4, 2));
    CHECK(values_of(y) == by_place({2, 3, 4, 2}, [&](const Ints& p) { return at(x, {p[0], p[1] + p[2], p[3]}); }));
}

TEST_CASE("GatherND of axes that a Transpose puts first is a Gather of each") {
    const auto parts = [](const Ints& perm, const Ints& dims, const Ints& indices, const Ints& back) {
        return test::ModelParts{
            .nodes = {node("Transpose", {"x"}, {"t"}, {attribute("perm", perm)}),
                      node("GatherND", {"t", "i"}, {"g"}, {attribute("batch_dims", 0)}, "take"),
                      node("Transpose", {"g"}, {"y"}, {attribute("perm", back)})},
            .initializers = {Message().integers(1, dims).integer(2, test::int64).integers(7, indices).text(8, "i")},
            .inputs = {test::value_info("x", {-1, 2, 5, 4})}};
    };
    const Tensor x = numbers(Shape(3, 2, 5, 4));
    const auto rows = test::import(parts({2, 0, 1, 3}, {3, 1}, {4, 0, 1}, {1, 2, 0, 3}));
    const Ints rows_at{4, 0, 1}, columns_at{3, 1};
    CHECK(values_of((*rows)(x).tensor()) == by_place({3, 2, 3, 4}, [&](const Ints& p) {
              return at(x, {p[0], p[1], rows_at[static_cast<std::size_t>(p[2])], p[3]});
          }));
    const auto grid = test::import(parts({2, 3, 0, 1}, {3, 2, 2}, {4, 3, 4, 1, 0, 3, 0, 1, 1, 3, 1, 1}, {2, 3, 0, 1}));
    CHECK(values_of((*grid)(x).tensor()) == by_place({3, 2, 3, 2}, [&](const Ints& p) {
              return at(
                  x, {p[0], p[1], rows_at[static_cast<std::size_t>(p[2])], columns_at[static_cast<std::size_t>(p[3])]});
          }));
    // Places that are no grid, samples among the axes, and no Transpose.
    const char* const reason = "(GatherND \"take\"): it is no Gather of axes behind the samples";
    CHECK_THAT(refusal(parts({2, 3, 0, 1}, {3, 2, 2}, {4, 3, 4, 1, 0, 3, 0, 1, 1, 3, 1, 0}, {2, 3, 0, 1})),
               Contains(reason));
    CHECK_THAT(refusal(parts({2, 3, 0, 1}, {2, 2}, {4, 3, 0, 1}, {1, 2, 0})), Contains(reason));
    CHECK_THAT(refusal(parts({2, 0, 1, 3}, {1, 1, 2}, {4, 0}, {0, 1, 2, 3})), Contains(reason));
    CHECK_THAT(refusal({.op_type = "GatherND", .constants = {int64_tensor("a", {0})}}),
               Contains("it is no Gather of axes behind the samples"));
}

TEST_CASE("An Einsum of two values is a product of matrices, and of a constant a Linear") {
    const Tensor a = numbers(Shape(2, 3, 4, 5)), b = numbers(Shape(2, 6, 4, 5));
    const auto of_values = [&](const std::string& text, const Ints& dims,
                               const std::function<double(const Ints&)>& expected) {
        INFO(text);
        const auto module = test::import(einsum(text, {-1, 3, 4, 5}, {-1, 6, 4, 5}, false));
        CHECK_THAT(graph::to_string(module->graph()), Contains("target=matmul"));
        const Tensor y = (*module)(a, b).tensor();
        CHECK(values_of(y) == by_place(dims, [&](const Ints& p) { return static_cast<float>(expected(p)); }));
    };
    of_values("bihw,bjhw->bij", {2, 3, 6}, [&](const Ints& p) {
        double sum = 0;
        for (std::int64_t h = 0; h < 4; ++h)
            for (std::int64_t w = 0; w < 5; ++w)
                sum += static_cast<double>(at(a, {p[0], p[1], h, w})) * static_cast<double>(at(b, {p[0], p[2], h, w}));
        return sum;
    });
    of_values("bihw, bjhw -> bwji", {2, 5, 6, 3}, [&](const Ints& p) {
        double sum = 0;
        for (std::int64_t h = 0; h < 4; ++h)
            sum +=
                static_cast<double>(at(a, {p[0], p[3], h, p[1]})) * static_cast<double>(at(b, {p[0], p[2], h, p[1]}));
        return sum;
    });
    of_values("bihw,bjhw->bhwij", {2, 4, 5, 3, 6}, [&](const Ints& p) {
        return static_cast<double>(at(a, {p[0], p[3], p[1], p[2]})) *
               static_cast<double>(at(b, {p[0], p[4], p[1], p[2]}));
    });
    const Tensor weight = numbers(Shape(6, 3));
    const auto linear = test::import(einsum("nchw,kc->nkhw", {-1, 3, 4, 5}, {6, 3}, true));
    CHECK_THAT(graph::to_string(linear->graph()), !Contains("matmul"));
    CHECK(values_of((*linear)(a).tensor()) == by_place({2, 6, 4, 5}, [&](const Ints& p) {
              float sum = 0;
              for (std::int64_t c = 0; c < 3; ++c) sum += at(a, {p[0], c, p[2], p[3]}) * at(weight, {p[1], c});
              return sum;
          }));
    const Tensor cube = numbers(Shape(5, 2, 4));
    const auto joined = test::import(einsum("nchw,wah->nca", {-1, 3, 4, 5}, {5, 2, 4}, true));
    CHECK(values_of((*joined)(a).tensor()) == by_place({2, 3, 2}, [&](const Ints& p) {
              float sum = 0;
              for (std::int64_t h = 0; h < 4; ++h)
                  for (std::int64_t w = 0; w < 5; ++w) sum += at(a, {p[0], p[1], h, w}) * at(cube, {w, p[2], h});
              return sum;
          }));
}

TEST_CASE("An Einsum that moves the samples, sums one operand or is no equation is refused with its text") {
    const auto of_values = [](const std::string& text) {
        return refusal(einsum(text, {-1, 3, 4, 5}, {-1, 6, 4, 5}, false));
    };
    CHECK_THAT(of_values("bihw,bjhw->ijb"),
               Contains("(Einsum \"sum\"): the equation \"bihw,bjhw->ijb\" moves the samples"));
    CHECK_THAT(refusal(einsum("bihw,bjhw->bij", {-1, 3, -1, 5}, {-1, 6, 4, 5}, false)),
               Contains("expected extents that are known behind the samples"));
    CHECK_THAT(of_values("bihw,bjxw->bij"), Contains("sums the axis h of one operand"));
    CHECK_THAT(of_values("bihw,bjhw"), Contains("is not that of two operands and a result"));
    CHECK_THAT(of_values("b...,b...->b"), Contains("has another character than letters in \"b...\""));
    CHECK_THAT(of_values("bihh,bjhw->bij"), Contains("has the axis h twice in \"bihh\""));
    CHECK_THAT(of_values("bih,bjh->bij"), Contains("has 3 axes for a value of shape"));
    CHECK_THAT(of_values("bihw,bihw->bi"), Contains("has the axis i of 3 and of 6"));
    CHECK_THAT(of_values("bihw,bjhw->bijz"), Contains("has the axis z of no operand"));
    CHECK_THAT(of_values("bihw,bjhw->"), Contains("has an operand of 0 axes"));
    CHECK_THAT(of_values(std::string(1000, 'a') + ",b->a"), Contains("has an operand of 1000 axes"));
    CHECK_THAT(refusal(einsum("nchw,kd->nkchwd", {-1, 3, 4, 5}, {6, 3}, true)), Contains("sums no axis"));
    CHECK_THAT(refusal(einsum("nchw,kc->knhw", {2, 3, 4, 5}, {6, 3}, true)), Contains("moves the samples"));
    CHECK_THAT(refusal(einsum("nchw,kc->nckhw", {-1, 3, 4, 5}, {6, 3}, true)),
               Contains("has the axis c of a constant and of the result"));
    CHECK_THAT(refusal({.op_type = "Einsum", .attributes = {equation("abcd->abcd")}}),
               Contains("it has 1 operands; supported are 2"));
}

TEST_CASE("A ScatterND by a position copies a row of a cache, and has no axis of its own") {
    const auto copied = [](std::vector<Message> attributes) {
        return test::ModelParts{
            .nodes = {node("Transpose", {"cache"}, {"t"}, {attribute("perm", Ints{1, 0, 2})}),
                      node("Unsqueeze", {"position", "last"}, {"i"}),
                      node("ScatterND", {"t", "i", "row"}, {"s"}, std::move(attributes), "n"),
                      node("Transpose", {"s"}, {"y"}, {attribute("perm", Ints{1, 0, 2})})},
            .initializers = {test::int64_tensor("last", {-1})},
            .inputs = {test::value_info("cache", {1, 4, 2}), test::value_info("position", {1}, test::int64),
                       test::value_info("row", {1, 1, 2})}};
    };
    CHECK(test::refusal(copied({})) == "not refused");
    CHECK_THAT(test::refusal(copied({attribute("axis", 1)})),
               Contains("ScatterND \"n\"") && Contains("the attribute \"axis\" is not supported"));
}

TEST_CASE("Ids plus a number and clamped ids choose rows of a table") {
    const Ints given{0, 1, 2, 3, 4, 5};
    std::vector<float> table;
    for (int i = 0; i < 8; ++i) table.insert(table.end(), {static_cast<float>(i), static_cast<float>(-i)});
    const auto chosen = [&](std::vector<Message> nodes, int type) {
        const auto number = [&](const char* name, std::int64_t value) {
            return Message().integer(2, type).integers(type == test::int64 ? 7 : 5, {value}).text(8, name);
        };
        nodes.push_back(node("Gather", {"table", "i"}, {"y"}, {}, "n"));
        return test::ModelParts{.nodes = std::move(nodes),
                                .initializers = {tensor("table", {8, 2}, table), number("two", 2), number("five", 5),
                                                 number("minus", -1), number("nine", 9)},
                                .inputs = {test::value_info("x", {-1, 6}, type)}};
    };
    const auto check = [&](const std::vector<Message>& nodes, const std::function<std::int64_t(std::int64_t)>& row) {
        for (const int type : {static_cast<int>(test::int64), static_cast<int>(test::int32)}) {
            const auto module = test::import(chosen(nodes, type));
            Tensor ids = Tensor::zeros(Shape(1, 6), DType::int32);
            std::copy(given.begin(), given.end(), ids.flat<std::int32_t>().begin());
            std::vector<float> expected;
            for (const std::int64_t id : given)
                expected.insert(expected.end(), {static_cast<float>(row(id)), -static_cast<float>(row(id))});
            CHECK(values_of((*module)(ids).tensor()) == expected);
        }
    };
    check({node("Add", {"two", "x"}, {"i"})}, [](auto id) { return id + 2; });
    check({node("Sub", {"x", "two"}, {"i"})}, [](auto id) { return (id + 6) % 8; });  // from the end
    check({node("Clip", {"x", "two", "five"}, {"i"})}, [](auto id) { return std::clamp<std::int64_t>(id, 2, 5); });
    check({node("Max", {"x", "two"}, {"i"})}, [](auto id) { return (std::max)(id, std::int64_t{2}); });
    check({node("Min", {"two", "x"}, {"i"})}, [](auto id) { return (std::min)(id, std::int64_t{2}); });
    check({node("Min", {"x", "two"}, {"a"}), node("Add", {"a", "five"}, {"i"})},
          [](auto id) { return (std::min)(id, std::int64_t{2}) + 5; });
    check({node("Add", {"x", "two"}, {"a"}), node("Clip", {"a", "", "five"}, {"i"})},
          [](auto id) { return (std::min)(id + 2, std::int64_t{5}); });
    CHECK_THAT(refusal(chosen({node("Add", {"x", "nine"}, {"i"})}, test::int64)), Contains("beyond its 8 rows"));
    CHECK_THAT(refusal(chosen({node("Mul", {"x", "two"}, {"i"})}, test::int64)),
               Contains("ids or positions are multiplied"));
    CHECK_THAT(refusal(chosen({node("Add", {"x", "x"}, {"i"})}, test::int64)), Contains("no single number"));
}

namespace {

/// x (N, 1, 4) turned by the angles p · (1, 1/4) of its place p, and copied into a cache (N, 6, 4).
test::ModelParts turned(bool copies) {
    test::ModelParts parts{
        .nodes = {node("Cast", {"p"}, {"f"}, {attribute("to", 1)}), node("Unsqueeze", {"f", "last"}, {"u"}),
                  node("Mul", {"u", "w"}, {"a"}), node("Concat", {"a", "a"}, {"angles"}, {attribute("axis", -1)}),
                  node("Cos", {"angles"}, {"cos"}, {}, "cosine"), node("Sin", {"angles"}, {"sin"}),
                  node("Mul", {"x", "cos"}, {"xc"}), node("Neg", {"x"}, {"n"}), node("Mul", {"n", "sin"}, {"xs"}),
                  node("Add", {"xc", "xs"}, {copies ? "row" : "y"})},
        .initializers = {int64_tensor("last", {-1}), tensor("w", {2}, {1.0f, 0.25f})},
        .inputs = {test::value_info("x", {-1, 1, 4}), test::value_info("p", {1}, test::int64)}};
    if (!copies) return parts;
    const auto turn = [](const char* from, const char* to) {
        return node("Transpose", {from}, {to}, {attribute("perm", Ints{1, 0, 2})});
    };
    parts.inputs.push_back(test::value_info("cache", {-1, 6, 4}));
    parts.nodes.insert(parts.nodes.end(),
                       {turn("cache", "t"), turn("row", "r"), node("Unsqueeze", {"p", "last"}, {"i"}),
                        node("ScatterND", {"t", "i", "r"}, {"s"}), turn("s", "y")});
    parts.values = {test::value_info("t", {6, -1, 4})};
    return parts;
}

}  // namespace

TEST_CASE("Angles of a position that copies a row into a cache are rows of a table") {
    const auto module = test::import(turned(true));
    INFO(graph::to_string(module->graph()));
    const Tensor x = numbers(Shape(2, 1, 4)), cache = Tensor::zeros(Shape(2, 6, 4));
    for (const std::int32_t place : {0, 3, 5}) {
        Tensor places = Tensor::zeros(Shape(2, 1), DType::int32);
        places.flat<std::int32_t>()[0] = place;
        places.flat<std::int32_t>()[1] = 2;
        const Tensor y = (*module)(x, places, cache).tensor();
        for (std::size_t n = 0; n < 2; ++n)
            for (std::size_t c = 0; c < 4; ++c) {
                const double p = n == 0 ? place : 2, angle = p * (c % 2 == 0 ? 1.0 : 0.25);
                const double expected =
                    static_cast<double>(x.flat<float>()[n * 4 + c]) * (std::cos(angle) - std::sin(angle));
                const float given = values_of(y)[(n * 6 + static_cast<std::size_t>(p)) * 4 + c];
                CHECK(std::fabs(static_cast<double>(given) - expected) <= 1e-5 * (1.0 + std::fabs(expected)));
            }
    }
    CHECK_THAT(refusal(turned(false)),
               Contains("(Cos \"cosine\")") && Contains("gather rows of a constant table of cosines and sines"));
}

namespace {

/// Indices (0, w) of an image of one row.
Message pixels(const Ints& dims, const Ints& columns) {
    Ints values;
    for (const std::int64_t w : columns) values.insert(values.end(), {0, w});
    return Message().integers(1, dims).integer(2, test::int64).integers(7, values).text(8, "pixels");
}

/// Nodes behind the pixels (N, C, dims) of x (N, 2, 1, 6), which Where and Gather read.
test::ModelParts behind_pixels(Message at, std::vector<Message> nodes, std::vector<Message> constants) {
    std::vector<Message> all{node("Transpose", {"x"}, {"t"}, {attribute("perm", Ints{2, 3, 0, 1})}),
                             node("GatherND", {"t", "pixels"}, {"g"}, {}, "taken"),
                             node("Transpose", {"g"}, {"v"}, {attribute("perm", Ints{4, 5, 0, 1, 2, 3})})};
    all.insert(all.end(), nodes.begin(), nodes.end());
    constants.push_back(std::move(at));
    return {.nodes = std::move(all),
            .initializers = std::move(constants),
            .inputs = {test::value_info("x", {-1, 2, 1, 6})},
            .opset = 18};
}

}  // namespace

TEST_CASE("An average pool to a size that does not divide the image is read from its pixels") {
    const Tensor x = numbers(Shape(2, 2, 1, 6));
    const auto window_mean = [&](std::size_t line, std::size_t first, std::size_t count) {
        double sum = 0.0;
        for (std::size_t w = first; w < first + count; ++w) sum += static_cast<double>(x.flat<float>()[line * 6 + w]);
        return sum / static_cast<double>(count);
    };
    const std::size_t firsts[] = {0, 1, 3, 4}, counts[] = {2, 2, 2, 2};  // of 6 to 4
    const auto check = [&](const test::ModelParts& parts, const auto& first, const auto& count, std::size_t columns) {
        const auto module = test::import(parts);
        INFO(graph::to_string(module->graph()));
        const Tensor y = (*module)(x).tensor();
        REQUIRE(y.shape() == Shape(2, 2, 1, static_cast<index_t>(columns)));
        for (std::size_t i = 0; i < 4 * columns; ++i)
            CHECK(std::fabs(static_cast<double>(values_of(y)[i]) -
                            window_mean(i / columns, first[i % columns], count[i % columns])) <= 1e-4);
    };
    check(behind_pixels(pixels({1, 1, 4, 2, 2}, {0, 1, 1, 2, 3, 4, 4, 5}),
                        {node("ReduceMean", {"v", "axes"}, {"y"}, {attribute("keepdims", 0)})},
                        {int64_tensor("axes", {-1, -3})}),
          firsts, counts, 4);
    // Windows of 2, 3 and 4 columns: the fourth index of the first two is masked.
    const std::size_t some_firsts[] = {0, 1, 2}, some_counts[] = {2, 3, 4};
    const auto scalar = [](const char* name, std::int64_t value) {
        return Message().integer(2, test::int64).integers(7, {value}).text(8, name);
    };
    const auto taken = [](const char* from, const char* index, const char* to, int axis) {
        return node("Gather", {from, index}, {to}, {attribute("axis", axis)});
    };
    const std::vector<Message> sums{node("Where", {"hidden", "zero", "v"}, {"m"}),
                                    taken("m", "i0", "s", 3),
                                    taken("s", "i0", "s0", 4),
                                    taken("s", "i1", "s1", 4),
                                    taken("s", "i2", "s2", 4),
                                    taken("s", "i3", "s3", 4),
                                    node("Add", {"s0", "s1"}, {"a"}),
                                    node("Add", {"a", "s2"}, {"b"}),
                                    node("Add", {"b", "s3"}, {"c"}),
                                    node("Div", {"c", "counts"}, {"y"})};
    const auto divided_by = [&](const std::vector<float>& divisors) {
        return std::vector<Message>{Message()
                                        .integers(1, {3, 4})
                                        .integer(2, 9)
                                        .integers(5, {0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0})
                                        .text(8, "hidden"),
                                    tensor("zero", {}, {0.0f}),
                                    tensor("counts", {3}, divisors),
                                    scalar("i0", 0),
                                    scalar("i1", 1),
                                    scalar("i2", 2),
                                    scalar("i3", 3)};
    };
    const Message at = pixels({1, 1, 3, 4, 2}, {0, 1, 2, 2, 1, 2, 3, 3, 2, 3, 4, 5});
    check(behind_pixels(at, sums, divided_by({2, 3, 4})), some_firsts, some_counts, 3);
    CHECK_THAT(refusal(behind_pixels(at, sums, divided_by({2, 3, 8}))),
               Contains("GatherND \"taken\"") && Contains("it is no Gather of axes"));
    test::ModelParts large = behind_pixels(at, sums, divided_by({2, 3, 4}));
    large.inputs = {test::value_info("x", {-1, 2, 1 << 30, 1 << 30})};  // no matrices of such an image are made
    CHECK_THAT(refusal(large), Contains("x"));
}
