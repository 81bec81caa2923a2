// SPDX-License-Identifier: MIT
//
// Windows and heads that a file folds into the axis of the samples: the values stay, and programs take them.
#include "intq/interop/onnx/internal/nodes/folded_samples.hpp"

#include <cmath>
#include <functional>

#include "interop/one_node.hpp"
#include "intq/arith/fp32.hpp"
#include "intq/interop/onnx/internal/nodes/sample_axis.hpp"
#include "intq/nn.hpp"
#include "intq/quantization/convert/convert_fx.hpp"
#include "intq/quantization/convert/lower.hpp"
#include "intq/quantization/modules/stubs.hpp"
#include "intq/quantization/prepare/calibrate.hpp"
#include "intq/quantization/prepare/prepare_fx.hpp"
#include "intq/quantization/qconfig/target_defaults.hpp"
#include "kernels/tables/tables.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using interop::onnx::reshaped;
using interop::onnx::SampleAxis;
using test::attribute;
using test::int64_tensor;
using test::Message;
using test::node;
using test::value_info;
using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

namespace {

Message transpose(const std::string& from, const std::string& to, Ints perm) {
    return node("Transpose", {from}, {to}, {attribute("perm", std::move(perm))}, to);
}
Message reshape(const std::string& from, const std::string& target, const std::string& to) {
    return node("Reshape", {from, target}, {to}, {attribute("allowzero", 1)}, to);
}

/// softmax over the first axis of (rows, columns), in place.
void softmax_columns(Floats& x, std::size_t rows, std::size_t columns) {
    for (std::size_t c = 0; c < columns; ++c) {
        double sum = 0.0;
        for (std::size_t r = 0; r < rows; ++r) sum += std::exp(static_cast<double>(x[r * columns + c]));
        for (std::size_t r = 0; r < rows; ++r)
            x[r * columns + c] = static_cast<float>(std::exp(static_cast<double>(x[r * columns + c])) / sum);
    }
}

// Windows of 2 by 3 pixels in an image of 4 by 6, two channels. The number of samples is that of the file, or -1.
constexpr std::size_t height = 4, width = 6, high = 2, wide = 3, channels = 2, tokens = high * wide;

test::ModelParts windows(std::int64_t n) {
    const std::int64_t folded = n < 0 ? -1 : 4 * n;
    test::ModelParts parts{
        .nodes = {reshape("x", "split", "r"), transpose("r", "t", {0, 1, 3, 2, 4, 5}), reshape("t", "list", "w"),
                  node("Add", {"w", "bias"}, {"b"}, {}, "b"),
                  node("Softmax", {"b"}, {"s"}, {attribute("axis", 1)}, "s"),
                  node("MatMul", {"s", "weight"}, {"m"}, {}, "m"), reshape("m", "back", "u"),
                  transpose("u", "v", {0, 1, 3, 2, 4, 5}), reshape("v", "whole", "y")},
        .initializers = {int64_tensor("split", {n, 2, 2, 2, 3, 2}), int64_tensor("list", {folded, 6, 2}),
                         int64_tensor("back", {n, 2, 2, 2, 3, 2}), int64_tensor("whole", {n, 4, 6, 2}),
                         test::tensor("bias", {1, 6, 1}, {0, 1, 2, -1, 0.5f, 3}),
                         test::tensor("weight", {2, 2}, {1, 2, -3, 4})},
        .inputs = {value_info("x", {n, 4, 6, 2})}};
    parts.values = {value_info("r", {n, 2, 2, 2, 3, 2}), value_info("w", {folded, 6, 2})};
    return parts;
}

Tensor windows_of(const Tensor& x) {
    constexpr float bias[] = {0, 1, 2, -1, 0.5f, 3};
    constexpr std::size_t size = height * width * channels;
    const auto in = x.flat<float>();
    Floats out(in.size());
    const auto at = [](std::size_t sample, std::size_t window, std::size_t token, std::size_t channel) {
        const std::size_t row = window / 2 * high + token / wide, column = window % 2 * wide + token % wide;
        return sample * size + (row * width + column) * channels + channel;
    };
    for (std::size_t sample = 0; sample < in.size() / size; ++sample)
        for (std::size_t window = 0; window < 4; ++window) {
            Floats part;
            for (std::size_t token = 0; token < tokens; ++token)
                for (std::size_t c = 0; c < channels; ++c)
                    part.push_back(in[at(sample, window, token, c)] + bias[token]);
            softmax_columns(part, tokens, channels);
            for (std::size_t token = 0; token < tokens; ++token) {
                const float a = part[token * 2], b = part[token * 2 + 1];
                out[at(sample, window, token, 0)] = a - 3 * b;
                out[at(sample, window, token, 1)] = 2 * a + 4 * b;
            }
        }
    return Tensor::from(x.shape(), out);
}

// Tokens in front of the samples, and heads beside them, as nn.MultiheadAttention has them: each head is multiplied by
// its own products of tokens.
constexpr std::size_t length = 3, heads = 2, depth = 2;

test::ModelParts attention(std::int64_t n) {
    const std::int64_t folded = n < 0 ? -1 : 2 * n, listed = n < 0 ? -1 : 3 * n;
    test::ModelParts parts{
        .nodes = {transpose("x", "t", {1, 0, 2}), reshape("t", "split", "h"), transpose("h", "q", {1, 0, 2}),
                  transpose("q", "k", {0, 2, 1}), node("MatMul", {"q", "k"}, {"scores"}, {}, "scores"),
                  node("Softmax", {"scores"}, {"p"}, {attribute("axis", -2)}, "p"),
                  node("MatMul", {"p", "q"}, {"mixed"}, {}, "mixed"), transpose("mixed", "moved", {1, 0, 2}),
                  reshape("moved", "list", "rows"),
                  node("Gemm", {"rows", "weight", "bias"}, {"g"}, {attribute("transB", 1)}, "g"),
                  reshape("g", "back", "u"), transpose("u", "y", {1, 0, 2})},
        .initializers = {int64_tensor("split", {3, folded, 2}), int64_tensor("list", {listed, 4}),
                         int64_tensor("back", {3, n, 4}),
                         test::tensor("weight", {4, 4}, {1, 2, 0, 0, 0, 1, 0, -1, 2, 0, 1, 0, 0, 0, 3, 1}),
                         test::tensor("bias", {4}, {1, 0, -1, 2})},
        .inputs = {value_info("x", {n, 3, 4})}};
    parts.values = {value_info("t", {3, n, 4})};
    return parts;
}

Tensor attention_of(const Tensor& x) {
    constexpr std::size_t size = length * heads * depth;
    constexpr float weight[4][4] = {{1, 2, 0, 0}, {0, 1, 0, -1}, {2, 0, 1, 0}, {0, 0, 3, 1}}, bias[] = {1, 0, -1, 2};
    const auto in = x.flat<float>();
    Floats out(in.size());
    for (std::size_t sample = 0; sample < in.size() / size; ++sample) {
        const auto of = [&](std::size_t token, std::size_t channel) { return in[sample * size + token * 4 + channel]; };
        Floats mixed(size);
        for (std::size_t head = 0; head < heads; ++head) {
            Floats p(length * length);
            for (std::size_t i = 0; i < length; ++i)
                for (std::size_t j = 0; j < length; ++j)
                    p[i * length + j] = of(i, head * 2) * of(j, head * 2) + of(i, head * 2 + 1) * of(j, head * 2 + 1);
            softmax_columns(p, length, length);
            for (std::size_t i = 0; i < length; ++i)
                for (std::size_t c = 0; c < depth; ++c)
                    for (std::size_t j = 0; j < length; ++j)
                        mixed[i * 4 + head * 2 + c] += p[i * length + j] * of(j, head * 2 + c);
        }
        for (std::size_t i = 0; i < length; ++i)
            for (std::size_t o = 0; o < 4; ++o) {
                float sum = bias[o];
                for (std::size_t c = 0; c < 4; ++c) sum += weight[o][c] * mixed[i * 4 + c];
                out[sample * size + i * 4 + o] = sum;
            }
    }
    return Tensor::from(x.shape(), out);
}

bool is_rewritten(const test::ModelParts& parts) {
    return interop::onnx::with_samples_unfolded(interop::onnx::parse_model(test::model(parts).bytes(), "m"))
        .has_value();
}

/// The model and its program compute `expected` of three samples.
void check(const test::ModelParts& parts, const Shape& sample, const std::function<Tensor(const Tensor&)>& expected) {
    CHECK(is_rewritten(parts));
    const auto module = test::import(parts);
    Shape shape = sample;
    shape.extents[0] = 3;
    const Tensor x = test::random_tensor(shape, 4);
    const Tensor y = expected(x);
    CHECK(test::largest_difference((*module)(x).tensor(), y) < 1e-5);
    quantization::add_stubs(*module);
    const kernels::KernelTable& table = *test::scalar_tables().tables[0];
    const auto prepared = quantization::prepare_calibration_fx(
        *module, quantization::get_default_qconfig_mapping(table.policy(), DType::int8), table.policy());
    quantization::calibrate(*prepared, x, 2);
    const auto lowered = quantization::lower(quantization::convert_fx(*prepared), table, 3);
    CHECK(test::sqnr(y, lowered.run(x)) > 20.0);  // a softmax of three to six tokens, with eight bits
}

}  // namespace

TEST_CASE("Windows in the axis of the samples are computed behind it, whatever number of samples a file fixes") {
    for (const std::int64_t n : {-1, 1, 2, 3, 5}) check(windows(n), Shape(1, height, width, channels), windows_of);
}

TEST_CASE("Samples behind the tokens and beside the heads are computed in front of them") {
    for (const std::int64_t n : {-1, 1, 2, 3, 5}) check(attention(n), Shape(1, length, heads * depth), attention_of);
}

TEST_CASE("The place of the samples follows them through a reshape") {
    const SampleAxis first{{1, 4, 6}, 0, 1};
    CHECK(reshaped(first, {-1, 6}, -1) == SampleAxis{{4, 6}, 0, 1});  // N · 4
    CHECK(reshaped(first, {8, 6}, 2) == SampleAxis{{4, 6}, 0, 1});
    CHECK(reshaped(first, {2, 24}, 2) == SampleAxis{{1, 24}, 0, 1});
    CHECK(reshaped(first, {2, -1}, 2) == SampleAxis{{1, 24}, 0, 1});
    CHECK(reshaped(first, {4, 6}, 1) == SampleAxis{{4, 6}, SampleAxis::nowhere, 1});
    CHECK(reshaped(first, {4, 1, 6}, 1) == SampleAxis{{4, 1, 6}, 1, 1});
    const SampleAxis behind{{4, 1, 6}, 1, 1};
    CHECK(reshaped(behind, {-1, 6}, -1) == SampleAxis{{4, 6}, 0, 4});        // 4 · N
    CHECK(reshaped(behind, {4, -1, 3}, -1) == SampleAxis{{4, 2, 3}, 1, 1});  // N · 2
    CHECK(reshaped(behind, {2, -1, 6}, -1) == SampleAxis{{2, 2, 6}, 1, 2});  // 2 · N
    CHECK(reshaped(behind, {20, 6}, 5) == SampleAxis{{4, 6}, 0, 4});
    CHECK(reshaped({{4, 6}, 0, 4}, {4, -1, 6}, -1) == behind);
    CHECK_FALSE(reshaped(behind, {-1, 4, 6}, -1));   // 4 · N elements in front, and N is not there
    CHECK_FALSE(reshaped(behind, {10, 12}, 5));      // splits the samples
    CHECK_FALSE(reshaped(behind, {-1, -1, 6}, -1));  // not known
    CHECK_FALSE(reshaped(behind, {4, 6}, -1));       // no axis for the samples
    CHECK_FALSE(reshaped(behind, {4, 5, 7}, 5));     // other elements
    CHECK_FALSE(reshaped(behind, {0, -1}, 5));
}

TEST_CASE("What does not fold the samples, or may not be followed, stays as it is written") {
    const auto with = [](std::vector<Message> nodes, std::vector<Message> inputs = {value_info("x", {-1, 4, 6})}) {
        test::ModelParts parts{.nodes = std::move(nodes),
                               .initializers = {int64_tensor("flat", {-1, 24}), int64_tensor("rows", {-1, 6}),
                                                int64_tensor("back", {-1, 4, 6}), int64_tensor("zero", {0})},
                               .inputs = std::move(inputs)};
        return is_rewritten(parts);
    };
    CHECK(with({reshape("x", "rows", "r"), node("Relu", {"r"}, {"s"}), reshape("s", "back", "y")}));
    CHECK_FALSE(with({reshape("x", "flat", "r"), node("Relu", {"r"}, {"y"})}));
    CHECK_FALSE(with({node("Foo", {"x"}, {"f"}), reshape("f", "rows", "r"), reshape("r", "back", "y")}));
    // Samples of two numbers, and an axis that is not known.
    CHECK_FALSE(with({reshape("x", "rows", "r"), node("Relu", {"r"}, {"s"}), reshape("s", "back", "y")},
                     {value_info("x", {2, 4, 6}), value_info("z", {3, 4, 6})}));
    CHECK_FALSE(with({reshape("x", "rows", "r"), node("Relu", {"r"}, {"s"}), reshape("s", "back", "y")},
                     {value_info("x", {-1, -1, 6})}));
}
