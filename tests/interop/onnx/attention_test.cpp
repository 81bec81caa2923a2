// SPDX-License-Identifier: MIT
//
// Attention and RotaryEmbedding of opset 23: the values that the equations say, and what is refused.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "interop/one_node.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using Catch::Matchers::Contains;
using test::attribute;
using test::Message;
using test::node;
using test::value_info;
using Floats = std::vector<float>;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

constexpr std::size_t queries = 3, keys = 4, past = 2, q_heads = 4, kv_heads = 2, size = 2, value_size = 3;

/// softmax(scale · q kᵀ, capped, + mask) v of a head, for rows of numbers.
struct Head {
    std::function<double(std::size_t, std::size_t)> q, k, v;
    double scale = 1.0 / std::sqrt(static_cast<double>(size)), cap = 0.0;
    std::function<bool(std::size_t, std::size_t)> sees = [](std::size_t, std::size_t) { return true; };
    std::size_t keys = 0;

    double operator()(std::size_t row, std::size_t channel) const {
        double sum = 0.0, mixed = 0.0;
        for (std::size_t j = 0; j < keys; ++j) {
            if (!sees(row, j)) continue;
            double score = 0.0;
            for (std::size_t c = 0; c < size; ++c) score += q(row, c) * k(j, c);
            score *= scale;
            if (cap > 0.0) score = cap * std::tanh(score / cap);
            sum += std::exp(score);
            mixed += std::exp(score) * v(j, channel);
        }
        return mixed / sum;
    }
};

test::ModelParts attention(std::vector<std::string> inputs, std::vector<Message> attributes,
                           std::vector<std::string> outputs = {"y"}) {
    return {.nodes = {node("Attention", std::move(inputs), std::move(outputs), std::move(attributes), "n")},
            .opset = 24};
}

double at(const intq::Tensor& x, std::size_t i) { return static_cast<double>(x.flat<float>()[i]); }

}  // namespace

TEST_CASE(
    "Attention without an axis of heads mixes the values of keys that a query sees, by the heads that share them") {
    test::ModelParts parts =
        attention({"q", "k", "v"}, {attribute("q_num_heads", static_cast<int>(q_heads)),
                                    attribute("kv_num_heads", static_cast<int>(kv_heads)), attribute("is_causal", 1)});
    parts.inputs = {value_info("q", {-1, 3, 8}), value_info("k", {-1, 4, 4}), value_info("v", {-1, 4, 6})};
    const intq::Tensor q = test::random_tensor(Shape(2, queries, q_heads * size), 1),
                       k = test::random_tensor(Shape(2, keys, kv_heads * size), 2),
                       v = test::random_tensor(Shape(2, keys, kv_heads * value_size), 3);
    const intq::Tensor y = (*test::import(parts))(q, k, v).tensor();
    REQUIRE(y.shape() == Shape(2, queries, q_heads * value_size));
    for (std::size_t n = 0; n < 2; ++n)
        for (std::size_t h = 0; h < q_heads; ++h) {
            const std::size_t shared = h / 2;
            Head head;
            head.q = [&](auto i, auto c) { return at(q, (n * queries + i) * 8 + h * size + c); };
            head.k = [&](auto j, auto c) { return at(k, (n * keys + j) * 4 + shared * size + c); };
            head.v = [&](auto j, auto c) { return at(v, (n * keys + j) * 6 + shared * value_size + c); };
            head.sees = [](auto i, auto j) { return j <= i; };
            head.keys = keys;
            for (std::size_t i = 0; i < queries; ++i)
                for (std::size_t c = 0; c < value_size; ++c)
                    CHECK(at(y, (n * queries + i) * 12 + h * value_size + c) == Approx(head(i, c)).margin(1e-6));
        }
}

TEST_CASE("Attention of heads puts keys of the past in front, caps its scores and has a window") {
    test::ModelParts parts = attention({"q", "k", "v", "", "pk", "pv"},
                                       {attribute("softcap", 0.5f), attribute("scale", 0.75f),
                                        attribute("is_causal", 1), attribute("left_window_size", 2)},
                                       {"y", "present", ""});
    parts.inputs = {value_info("q", {-1, 2, 3, 2}), value_info("k", {-1, 2, 4, 2}), value_info("v", {-1, 2, 4, 3}),
                    value_info("pk", {-1, 2, 2, 2}), value_info("pv", {-1, 2, 2, 3})};
    parts.outputs = {value_info("y"), value_info("present")};
    const intq::Tensor q = test::random_tensor(Shape(1, 2, queries, size), 1),
                       k = test::random_tensor(Shape(1, 2, keys, size), 2),
                       v = test::random_tensor(Shape(1, 2, keys, value_size), 3),
                       pk = test::random_tensor(Shape(1, 2, past, size), 4),
                       pv = test::random_tensor(Shape(1, 2, past, value_size), 5);
    const nn::Value both = (*test::import(parts))(q, k, v, pk, pv);
    const intq::Tensor y = both.tuple()[0].tensor(), present = both.tuple()[1].tensor();
    REQUIRE(present.shape() == Shape(1, 2, past + keys, size));
    for (std::size_t h = 0; h < 2; ++h) {
        Head head;
        head.q = [&](auto i, auto c) { return at(q, (h * queries + i) * size + c); };
        head.k = [&](auto j, auto c) {
            return j < past ? at(pk, (h * past + j) * size + c) : at(k, (h * keys + j - past) * size + c);
        };
        head.v = [&](auto j, auto c) {
            return j < past ? at(pv, (h * past + j) * value_size + c) : at(v, (h * keys + j - past) * value_size + c);
        };
        head.scale = 0.75, head.cap = 0.5, head.keys = past + keys;
        head.sees = [](auto i, auto j) { return j <= i + past && i + past <= j + 2; };
        for (std::size_t i = 0; i < queries; ++i)
            for (std::size_t c = 0; c < value_size; ++c)
                CHECK(at(y, (h * queries + i) * value_size + c) == Approx(head(i, c)).margin(1e-6));
        for (std::size_t j = 0; j < past + keys; ++j)
            for (std::size_t c = 0; c < size; ++c)
                CHECK(at(present, (h * (past + keys) + j) * size + c) == head.k(j, c));
    }
}

TEST_CASE("Masks of Attention are added, or say which keys are seen") {
    const auto masked = [](Message mask) {
        test::ModelParts parts = attention({"q", "q", "q", "m"}, {});
        parts.inputs = {value_info("q", {-1, 1, 3, 2})};
        parts.initializers = {std::move(mask)};
        const intq::Tensor q = test::random_tensor(Shape(1, 1, 3, 2), 1);
        return (*test::import(parts))(q).tensor();
    };
    const intq::Tensor q = test::random_tensor(Shape(1, 1, 3, 2), 1);
    Head head;
    head.q = head.k = head.v = [&](auto i, auto c) { return at(q, i * 2 + c); };
    head.keys = 3, head.sees = [](auto, auto j) { return j != 1; };
    const intq::Tensor added = masked(test::tensor("m", {1, 3}, {0, -1e9f, 0}));
    const intq::Tensor chosen = masked(Message().integers(1, {1, 3}).integer(2, 9).integers(5, {1, 0, 1}).text(8, "m"));
    for (std::size_t i = 0; i < 6; ++i) {
        CHECK(at(added, i) == Approx(head(i / 2, i % 2)).margin(1e-6));
        CHECK(at(chosen, i) == Approx(head(i / 2, i % 2)).margin(1e-6));
    }
}

TEST_CASE("A row of Attention is 0 where constants hide all of its keys") {
    const float lowest = -std::numeric_limits<float>::infinity();
    const intq::Tensor q = test::random_tensor(Shape(1, 1, 3, 2), 1);
    Head head;
    head.q = head.k = head.v = [&](auto i, auto c) { return at(q, i * 2 + c); };
    head.keys = 3;
    const auto check = [&](Message mask, bool is_causal, auto sees) {
        test::ModelParts parts = attention({"q", "q", "q", "m"}, {attribute("is_causal", is_causal ? 1 : 0)});
        parts.inputs = {value_info("q", {-1, 1, 3, 2})};
        parts.initializers = {std::move(mask)};
        const intq::Tensor y = (*test::import(parts))(q).tensor();
        head.sees = [&](auto i, auto j) { return sees(i, j) && (!is_causal || j <= i); };
        for (std::size_t i = 0; i < 3; ++i)
            for (std::size_t c = 0; c < 2; ++c) {
                const bool any = head.sees(i, 0) || head.sees(i, 1) || head.sees(i, 2);
                CHECK(at(y, i * 2 + c) == (any ? Approx(head(i, c)).margin(1e-6) : Approx(0.0)));
            }
    };
    const auto bools = [](std::vector<std::int64_t> dims, const std::vector<std::int64_t>& values) {
        return Message().integers(1, dims).integer(2, 9).integers(5, values).text(8, "m");
    };
    check(bools({3, 3}, {0, 0, 0, 1, 0, 1, 1, 1, 1}), false,
          [](auto i, auto j) { return i == 2 || (i == 1 && j != 1); });
    check(bools({3, 3}, {0, 1, 1, 1, 1, 1, 0, 1, 1}), true, [](auto i, auto j) { return i == 1 || j > 0; });
    check(bools({1, 3}, {0, 0, 1}), true, [](auto, auto j) { return j == 2; });
    check(test::tensor("m", {1, 1, 3, 3}, {0, 0, lowest, lowest, lowest, lowest, lowest, 0, 0}), false,
          [](auto i, auto j) { return (i == 0 && j < 2) || (i == 2 && j > 0); });
    check(test::tensor("m", {1, 3}, {lowest, lowest, lowest}), false, [](auto, auto) { return false; });
}

TEST_CASE("What Attention is refused for is named") {
    const auto refusal = [](std::vector<std::string> inputs, std::vector<std::string> outputs = {"y"},
                            std::vector<Message> attributes = {}) {
        test::ModelParts parts = attention(std::move(inputs), std::move(attributes), std::move(outputs));
        parts.inputs = {value_info("x", {-1, 2, 3, 2}), value_info("u")};
        return test::refusal(parts);
    };
    CHECK_THAT(refusal({"x", "x", "x", "", "", "", "x"}), Contains("nonpad_kv_seqlen"));
    CHECK_THAT(refusal({"x", "x", "x", "", "x"}), Contains("past_key or past_value, expected both"));
    CHECK_THAT(refusal({"x", "x", "x"}, {"y", "", "", "z"}), Contains("the output qk_matmul_output is not supported"));
    CHECK_THAT(refusal({"u", "u", "u"}), Contains("does not say the shapes of its queries"));
    CHECK(refusal({"x", "x", "x"}) == "not refused");
    const auto of_attribute = [&](Message one) { return refusal({"x", "x", "x"}, {"y"}, {std::move(one)}); };
    CHECK_THAT(of_attribute(attribute("is_causal", 7)), Contains("\"is_causal\" is 7, expected 0 or 1"));
    CHECK_THAT(of_attribute(attribute("is_causal", 1.0F)), Contains("\"is_causal\" is no integer"));
    CHECK_THAT(of_attribute(attribute("softcap", nan)), Contains("\"softcap\" is nan, expected a finite number"));
    CHECK_THAT(of_attribute(attribute("softcap", -2.0F)), Contains("\"softcap\" is -2, expected 0 or more"));
    CHECK_THAT(of_attribute(attribute("scale", nan)), Contains("\"scale\" is nan"));
    CHECK_THAT(of_attribute(attribute("interleaved", 1)), Contains("\"interleaved\" is not supported"));
    CHECK(of_attribute(attribute("is_causal", 1)) == "not refused");
    CHECK(of_attribute(attribute("scale", -0.5F)) == "not refused");
}

TEST_CASE("What RotaryEmbedding is refused for is named") {
    const auto refusal = [](Message one) {
        return test::refusal({.nodes = {node("RotaryEmbedding", {"x", "c", "s"}, {"y"}, {std::move(one)}, "n")},
                              .initializers = {test::filled("c", {1, 3, 2}), test::filled("s", {1, 3, 2})},
                              .inputs = {value_info("x", {-1, 2, 3, 4})},
                              .opset = 23});
    };
    CHECK_THAT(refusal(attribute("interleaved", 2)), Contains("\"interleaved\" is 2, expected 0 or 1"));
    CHECK_THAT(refusal(attribute("axis", 1)), Contains("\"axis\" is not supported"));
    CHECK(refusal(attribute("interleaved", 1)) == "not refused");
}

TEST_CASE("RotaryEmbedding turns pairs of numbers by the angles of their tokens") {
    constexpr std::size_t heads = 2, tokens = 3, width = 6;
    const intq::Tensor x = test::random_tensor(Shape(2, heads, tokens, width), 7);
    const auto turned = [&](bool is_interleaved, std::size_t rotated, bool has_positions) {
        const std::size_t half = rotated / 2, rows = has_positions ? 5 : tokens;
        Floats cosines, sines;
        for (std::size_t i = 0; i < rows * half; ++i) {
            cosines.push_back(static_cast<float>(std::cos(0.3 * static_cast<double>(i))));
            sines.push_back(static_cast<float>(std::sin(0.3 * static_cast<double>(i))));
        }
        const auto dims = [&] {
            std::vector<std::int64_t> result{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(half)};
            if (!has_positions) result.insert(result.begin(), 1);
            return result;
        }();
        test::ModelParts parts{
            .nodes = {node(
                "RotaryEmbedding",
                has_positions ? std::vector<std::string>{"x", "c", "s", "p"} : std::vector<std::string>{"x", "c", "s"},
                {"y"},
                {attribute("interleaved", is_interleaved ? 1 : 0),
                 attribute("rotary_embedding_dim", rotated == width ? 0 : static_cast<int>(rotated))},
                "n")},
            .initializers = {test::tensor("c", dims, cosines), test::tensor("s", dims, sines),
                             Message().integers(1, {1, 3}).integer(2, test::int64).integers(7, {4, 0, 2}).text(8, "p")},
            .inputs = {value_info("x", {-1, 2, 3, 6})},
            .opset = 23};
        const intq::Tensor y = (*test::import(parts))(x).tensor();
        const std::size_t positions[] = {4, 0, 2};
        for (std::size_t row = 0; row < 2 * heads * tokens; ++row)
            for (std::size_t c = 0; c < width; ++c) {
                double expected = at(x, row * width + c);
                if (c < rotated) {
                    const std::size_t pair = is_interleaved ? c / 2 : c % half;
                    const bool is_second = is_interleaved ? c % 2 == 1 : c >= half;
                    const std::size_t first = is_interleaved ? 2 * pair : pair,
                                      second = is_interleaved ? first + 1 : pair + half;
                    const std::size_t token = row % tokens, place = has_positions ? positions[token] : token;
                    const double angle = 0.3 * static_cast<double>(place * half + pair);
                    const double a = at(x, row * width + first), b = at(x, row * width + second);
                    expected = is_second ? a * std::sin(angle) + b * std::cos(angle)
                                         : a * std::cos(angle) - b * std::sin(angle);
                }
                CHECK(at(y, row * width + c) == Approx(expected).margin(1e-6));
            }
    };
    turned(false, width, false);
    turned(true, width, false);
    turned(false, 4, true);
    turned(true, 4, true);
}
