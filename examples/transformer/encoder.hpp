// SPDX-License-Identifier: MIT
//
// A small transformer encoder, which reads an image of 8 x 8 pixels as a sequence of 8 rows.
#ifndef INTQ_EXAMPLES_TRANSFORMER_ENCODER_HPP
#define INTQ_EXAMPLES_TRANSFORMER_ENCODER_HPP

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>

#include "intq/nn.hpp"

namespace transformer {

namespace nn = intq::nn;
using intq::index_t;
using intq::Shape;
using intq::Tensor;

inline constexpr index_t tokens = 8, pixels = 8, classes = 10;
inline constexpr index_t width = 32, heads = 4, hidden = 64;
inline constexpr int blocks = 2;

inline nn::ModulePtr make_linear(index_t in, index_t out) {
    return std::make_shared<nn::Linear>(nn::LinearOptions{in, out});
}

/// What is added to scores so that nobody attends to the last tokens: 0 for those that are seen, -1e9 for the others.
inline Tensor mask_behind(index_t seen) {
    Tensor mask = Tensor::zeros(Shape(1, 1, 1, tokens));  // of samples, heads and queries any number
    for (index_t token = seen; token < tokens; ++token) mask.flat<float>()[static_cast<std::size_t>(token)] = -1e9f;
    return mask;
}

/// softmax(q k^T / sqrt(width / heads) + mask) v for each head.
class Attention : public nn::Cloneable<Attention> {
public:
    /// @param mask  empty: none
    explicit Attention(const Tensor& mask) : is_masked_(mask.size() > 0) {
        for (const char* name : {"query", "key", "value", "out"}) add_child(name, make_linear(width, width));
        if (is_masked_) add_buffer("mask", mask, false);
    }
    std::string type_name() const override { return "Attention"; }
    nn::Value forward(nn::Arguments x) override {
        const auto heads_of = [&](const char* layer) {  // (N, heads, tokens, width / heads)
            return nn::permute(nn::reshape(call(layer, x[0]), {-1, tokens, heads, width / heads}), {0, 2, 1, 3});
        };
        const double scale = 1.0 / std::sqrt(static_cast<double>(width / heads));
        nn::Value scores = nn::matmul(heads_of("query"), nn::transpose(heads_of("key"), -1, -2)) * scale;
        if (is_masked_) scores = scores + tensor("mask");
        const nn::Value mixed = nn::matmul(nn::softmax(scores, -1), heads_of("value"));
        return call("out", nn::reshape(nn::permute(mixed, {0, 2, 1, 3}), {-1, tokens, width}));
    }

private:
    bool is_masked_;
};

/// Attention and a perceptron, each with a norm in front and an add behind.
class Block : public nn::Cloneable<Block> {
public:
    explicit Block(const Tensor& mask) {
        add_child("norm1", std::make_shared<nn::LayerNorm>(Shape(width)));
        add_child("attention", std::make_shared<Attention>(mask));
        add_child("norm2", std::make_shared<nn::LayerNorm>(Shape(width)));
        add_child("up", make_linear(width, hidden));
        add_child("gelu", std::make_shared<nn::GELU>());
        add_child("down", make_linear(hidden, width));
    }
    std::string type_name() const override { return "Block"; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value y = x[0] + call("attention", call("norm1", x[0]));
        return y + call("down", call("gelu", call("up", call("norm2", y))));
    }
};

/// Images (N, 1, 8, 8) in, logits (N, 10) out.
class Encoder : public nn::Cloneable<Encoder> {
public:
    explicit Encoder(const Tensor& mask = {}) {
        add_child("embed", make_linear(pixels, width));
        add_parameter("position", nn::initial_uniform(Shape(1, tokens, width), width));
        for (int i = 0; i < blocks; ++i) add_child("block" + std::to_string(i), std::make_shared<Block>(mask));
        add_child("norm", std::make_shared<nn::LayerNorm>(Shape(width)));
        add_child("head", make_linear(width, classes));
    }
    std::string type_name() const override { return "Encoder"; }
    nn::Value forward(nn::Arguments x) override {
        nn::Value y = call("embed", nn::reshape(x[0], {-1, tokens, pixels})) + tensor("position");
        for (int i = 0; i < blocks; ++i) y = call("block" + std::to_string(i), y);
        return call("head", nn::mean(call("norm", y), {1}));
    }
};

}  // namespace transformer

#endif  // INTQ_EXAMPLES_TRANSFORMER_ENCODER_HPP
