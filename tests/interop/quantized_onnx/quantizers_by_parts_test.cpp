// SPDX-License-Identifier: MIT
//
// Quantizers that a file writes as a division, a rounding, a clamp and a product: what is read as one, with its values,
// what is not, and weights whose quantizers an exporter computed.
#include "intq/interop/onnx/internal/nodes/quantizers_by_parts.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "interop/one_node.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/graph/print.hpp"
#include "intq/interop/onnx/import.hpp"
#include "intq/interop/onnx/internal/nodes/layer_codes.hpp"
#include "intq/interop/quantized_onnx/import_quantized.hpp"
#include "intq/program/backends/best_table.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "support/catch.hpp"

using namespace intq;
namespace onnx = interop::onnx;
using Catch::Matchers::Contains;
using test::Message;
using test::node;
using test::tensor;

namespace {

onnx::Model parse(const test::ModelParts& parts) { return onnx::parse_model(test::model(parts).bytes(), "m.onnx"); }

/// A graph of x (1, 8) with numbers s, z, low and high.
struct Parts {
    std::vector<Message> nodes;
    float scale = 0.25f, zero = 0.0f, low = -128.0f, high = 127.0f, other = 0.0f;

    test::ModelParts model() const {
        return {.nodes = nodes,
                .initializers = {tensor("s", {}, {scale}), tensor("z", {}, {zero}), tensor("low", {}, {low}),
                                 tensor("high", {}, {high}), tensor("t", {}, {other})},
                .inputs = {test::value_info("x", {1, 8})}};
    }
};

const std::vector<Message> plain{node("Div", {"x", "s"}, {"d"}), node("Round", {"d"}, {"r"}, {}, "rounding"),
                                 node("Clip", {"r", "low", "high"}, {"c"}), node("Mul", {"c", "s"}, {"y"})};
const std::vector<Message> with_zero{node("Div", {"x", "s"}, {"d"}), node("Round", {"d"}, {"r"}, {}, "rounding"),
                                     node("Add", {"z", "r"}, {"a"}), node("Clip", {"a", "low", "high"}, {"c"}),
                                     node("Sub", {"c", "z"}, {"b"}), node("Mul", {"s", "b"}, {"y"})};

/// The model is one quantizer, which computes (clamp(round(x / s) + z, low, high) - z) · s with ties to even.
void check(const Parts& parts) {
    const auto module = test::import(parts.model());
    INFO(graph::to_string(module->graph()));
    CHECK(module->graph().size() == 3);
    CHECK(onnx::is_quantized(parse(parts.model())));
    const std::vector<float> values{-1000.0f, -3.1f, -0.375f, 0.0f, 0.125f, 0.376f, 17.0f, 1e6f};
    const intq::Tensor given = (*module)(intq::Tensor::from(Shape(1, 8), values)).tensor();
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double s = static_cast<double>(parts.scale), z = static_cast<double>(parts.zero);
        const double code = std::clamp(std::nearbyint(static_cast<double>(values[i]) / s) + z,
                                       static_cast<double>(parts.low), static_cast<double>(parts.high));
        CHECK(given.flat<float>()[i] == static_cast<float>((code - z) * s));
    }
}

/// x (1, 2, 4, 4), a quantizer of scale 1/16, a convolution to 3 channels with this weight, and the quantizer again.
test::ModelParts convolution(std::vector<Message> weight_nodes, std::vector<Message> constants, bool in_parts) {
    std::vector<Message> nodes = std::move(weight_nodes);
    const auto quantize = [&](const std::string& x, const std::string& y) {
        if (in_parts) {
            nodes.push_back(node("Div", {x, "s"}, {y + "d"}));
            nodes.push_back(node("Round", {y + "d"}, {y + "r"}));
            nodes.push_back(node("Clip", {y + "r", "low", "high"}, {y + "c"}));
            nodes.push_back(node("Mul", {y + "c", "s"}, {y}));
        } else {
            nodes.push_back(node("QuantizeLinear", {x, "s", "z"}, {y + "q"}));
            nodes.push_back(node("DequantizeLinear", {y + "q", "s", "z"}, {y}));
        }
    };
    quantize("x", "v");
    nodes.push_back(node("Conv", {"v", "w", "bias"}, {"o"}));
    quantize("o", "y");
    for (Message constant : {tensor("s", {}, {0.0625f}), tensor("low", {}, {-128.0f}), tensor("high", {}, {127.0f}),
                             test::codes_tensor("z", {}, {0}), tensor("bias", {3}, {0.3f, -0.1f, 0.7f})})
        constants.push_back(std::move(constant));
    return {.nodes = nodes, .initializers = constants, .inputs = {test::value_info("x", {1, 2, 4, 4})}};
}

constexpr std::size_t channel_size = 2 * 2 * 2;
const std::vector<float> channel_scales{0.011f, 0.0037f, 0.0123f};

std::vector<float> random_numbers(std::size_t count, float range, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> number(-range, range);
    std::vector<float> numbers(count);
    for (float& value : numbers) value = number(random);
    return numbers;
}

/// The real numbers of a weight's codes, as float32 has them: of one scale for each channel.
std::vector<float> rounded(const std::vector<float>& weight) {
    std::vector<float> real;
    for (std::size_t i = 0; i < weight.size(); ++i) {
        const float s = channel_scales[i / channel_size];
        real.push_back(std::clamp(std::nearbyint(weight[i] / s), -128.0f, 127.0f) * s);
    }
    return real;
}

std::vector<float> run(const test::ModelParts& parts) {
    const auto lowered = quantization::lower(onnx::import_quantized(parse(parts)), program::best_table<target::fp32>());
    const intq::Tensor y =
        lowered.run(intq::Tensor::from(Shape(1, 2, 4, 4), random_numbers(2 * 4 * 4, 6.0f, 3))).contiguous();
    return {y.flat<float>().begin(), y.flat<float>().end()};
}

}  // namespace

TEST_CASE("A quantizer that is written in parts is one") {
    check({plain});
    check({with_zero, 0.25f, 7.0f});
    check({with_zero, 0.25f, 100.0f, 0.0f, 255.0f});
    check({plain, 0.1f, 0.0f, 0.0f, 15.0f});
    check({plain, 0.1f, 0.0f, -7.0f, 7.0f});
    check({plain, 0.001f, 0.0f, -32768.0f, 32767.0f});
    check({{node("Div", {"x", "s"}, {"d"}), node("Clip", {"d", "low", "high"}, {"c"}), node("Round", {"c"}, {"r"}),
            node("Mul", {"s", "r"}, {"y"})}});
    check({{node("Mul", {"x", "t"}, {"d"}), node("Round", {"d"}, {"r"}), node("Clip", {"r", "low", "high"}, {"c"}),
            node("Mul", {"c", "s"}, {"y"})},
           0.125f,
           0.0f,
           -128.0f,
           127.0f,
           8.0f});
}

TEST_CASE("An estimator that lets gradients through is its quantizer") {
    for (const bool swapped : {false, true}) {
        std::vector<Message> nodes(plain.begin(), plain.end() - 1);
        nodes.push_back(node("Mul", {"c", "s"}, {"q"}));
        nodes.push_back(node("Sub", {"q", "x"}, {"e"}));
        nodes.push_back(swapped ? node("Add", {"e", "x"}, {"y"}) : node("Add", {"x", "e"}, {"y"}));
        const auto module = test::import(Parts{nodes}.model());
        const intq::Tensor y =
            (*module)(intq::Tensor::from(Shape(1, 8), {0.1f, 0.2f, 0.3f, -7.7f, 1e6f, -40.0f, 0.0f, 5.1f})).tensor();
        CHECK(std::vector<float>(y.flat<float>().begin(), y.flat<float>().end()) ==
              std::vector<float>{0.0f, 0.25f, 0.25f, -7.75f, 31.75f, -32.0f, 0.0f, 5.0f});
    }
}

TEST_CASE("What is nearly a quantizer is refused by its rounding, with what is one") {
    const auto refused = [](const Parts& parts) {
        CHECK_FALSE(onnx::is_quantized(parse(parts.model())));
        CHECK_THAT(test::refusal(parts.model()),
                   Contains("Round") && Contains("(Clip(Round(x / s) + z, low, high) - z) * s"));
    };
    refused({plain, 0.25f, 0.0f, -128.5f, 127.0f});
    refused({plain, 0.25f, 0.0f, -40000.0f, 127.0f});
    refused({plain, -0.25f});
    refused({with_zero, 0.25f, 0.5f});
    refused({with_zero, 0.25f, -3.0f, 0.0f, 255.0f});
    const auto changed = [](std::vector<Message> nodes, std::size_t i, const Message& other) {
        nodes[i] = other;
        return nodes;
    };
    refused({changed(plain, 3, node("Mul", {"c", "t"}, {"y"})), 0.25f, 0.0f, -128.0f, 127.0f, 0.5f});
    refused({changed(plain, 0, node("Mul", {"x", "t"}, {"d"})), 0.1f, 0.0f, -128.0f, 127.0f, 10.0f});
    refused({changed(plain, 2, node("Identity", {"r"}, {"c"}))});
    refused({changed(with_zero, 4, node("Sub", {"c", "t"}, {"b"})), 0.25f, 7.0f, -128.0f, 127.0f, 8.0f});
    refused(
        {{node("Div", {"x", "s"}, {"d"}), node("Add", {"d", "z"}, {"a"}), node("Round", {"a"}, {"r"}),
          node("Clip", {"r", "low", "high"}, {"c"}), node("Sub", {"c", "z"}, {"b"}), node("Mul", {"b", "s"}, {"y"})},
         0.25f,
         7.0f});
}

TEST_CASE("Weights of quantizers in parts compute the bytes of QuantizeLinear") {
    std::vector<float> weight = random_numbers(3 * channel_size, 0.6f, 5);
    weight[3] = 5.1234f;  // clamped so far that x + (q - x) is not q in float32
    const std::vector<std::int64_t> dims{3, 2, 2, 2};
    const std::vector<float> expected = run(convolution(
        {node("QuantizeLinear", {"real", "ws", "wz"}, {"wq"}, {test::attribute("axis", 0)}),
         node("DequantizeLinear", {"wq", "ws", "wz"}, {"w"}, {test::attribute("axis", 0)})},
        {tensor("real", dims, weight), tensor("ws", {3}, channel_scales), test::codes_tensor("wz", {3}, {0, 0, 0})},
        false));
    SECTION("where the file has the parts") {
        CHECK(run(convolution({node("Div", {"real", "ws"}, {"wd"}), node("Round", {"wd"}, {"wr"}),
                               node("Clip", {"wr", "low", "high"}, {"wc"}), node("Mul", {"wc", "ws"}, {"w"})},
                              {tensor("real", dims, weight), tensor("ws", {3, 1, 1, 1}, channel_scales)}, true)) ==
              expected);
    }
    SECTION("where an exporter computed them") {
        CHECK(run(convolution({}, {tensor("w", dims, rounded(weight))}, true)) == expected);
    }
    SECTION("where it computed an estimator") {
        std::vector<float> sums;
        const std::vector<float> real = rounded(weight);
        for (std::size_t i = 0; i < real.size(); ++i) {
            const float error = real[i] - weight[i];
            sums.push_back(weight[i] + error);
        }
        REQUIRE(sums != real);
        CHECK(run(convolution({}, {tensor("w", dims, sums)}, true)) == expected);
    }
}

TEST_CASE("A scale that nodes make of the weight is computed with the file") {
    const std::vector<float> weight = random_numbers(3 * channel_size, 0.6f, 5);
    std::vector<float> scales;
    for (std::size_t c = 0; c < 3; ++c) {
        float most = 0.0f;
        for (std::size_t i = 0; i < channel_size; ++i) most = std::max(most, std::fabs(weight[c * channel_size + i]));
        scales.push_back(most / 127.0f);
    }
    const std::vector<std::int64_t> dims{3, 2, 2, 2};
    const std::vector<float> expected = run(convolution(
        {node("QuantizeLinear", {"real", "ws", "wz"}, {"wq"}, {test::attribute("axis", 0)}),
         node("DequantizeLinear", {"wq", "ws", "wz"}, {"w"}, {test::attribute("axis", 0)})},
        {tensor("real", dims, weight), tensor("ws", {3}, scales), test::codes_tensor("wz", {3}, {0, 0, 0})}, false));
    test::ModelParts parts = convolution(
        {node("Abs", {"real"}, {"wa"}),
         node("ReduceMax", {"wa"}, {"wm"}, {test::attribute("axes", std::vector<std::int64_t>{1, 2, 3})}),
         node("Div", {"wm", "most"}, {"ws"}), node("Div", {"real", "ws"}, {"wd"}), node("Round", {"wd"}, {"wr"}),
         node("Clip", {"wr", "low", "high"}, {"wc"}), node("Mul", {"wc", "ws"}, {"w"})},
        {tensor("real", dims, weight), tensor("most", {}, {127.0f})}, true);
    parts.values = {test::value_info("ws", {3, 1, 1, 1})};
    CHECK(run(parts) == expected);
}

TEST_CASE("A scale of which a file says too many channels makes no quantizer") {
    Parts parts{plain};
    parts.nodes[0] = node("Div", {"x", "made"}, {"d"});
    parts.nodes[3] = node("Mul", {"c", "made"}, {"y"});
    parts.nodes.insert(parts.nodes.begin(), node("Abs", {"s"}, {"made"}));
    test::ModelParts model = parts.model();
    model.inputs = {test::value_info("x", {1, std::int64_t{1} << 40})};
    model.values = {test::value_info("made", {std::int64_t{1} << 40})};
    CHECK_FALSE(onnx::is_quantized(parse(model)));
}

TEST_CASE("Numbers of a weight have a grid where they are whole numbers of one scale") {
    const std::vector<float> on_grid{-0.5f, 0.25f, 0.75f, 0.0f};
    const auto found = onnx::find_weight_grid(on_grid, 1, 4);
    REQUIRE(found);
    CHECK(found->scales == std::vector<float>{0.25f});
    CHECK(found->codes == std::vector<std::int8_t>{-2, 1, 3, 0});
    const auto two = onnx::find_weight_grid(std::vector<float>{-1.28f, 0.01f, 127.0f, -1.0f}, 2, 2);
    REQUIRE(two);
    CHECK(two->scales == std::vector<float>{0.01f, 1.0f});
    CHECK(two->codes == std::vector<std::int8_t>{-128, 1, 127, -1});
    CHECK_FALSE(onnx::find_weight_grid(std::vector<float>{1.28f, 0.01f, 0.03f}, 1, 3));
    CHECK_FALSE(onnx::find_weight_grid(random_numbers(9, 1.0f, 11), 1, 9));
    CHECK_FALSE(onnx::find_weight_grid(std::vector<float>{1.0f, std::nanf("")}, 1, 2));
    const auto zero = onnx::find_weight_grid(std::vector<float>{0.0f, 0.0f}, 1, 2);
    REQUIRE(zero);
    CHECK(zero->codes == std::vector<std::int8_t>{0, 0});
}
