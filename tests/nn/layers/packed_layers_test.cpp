// SPDX-License-Identifier: MIT
//
// What convolutions and Linear keep between calls: packed once, never out of date, the bits of the free functions.
#include <functional>
#include <thread>

#include "intq/nn/float_operators/conv.hpp"
#include "intq/nn/float_operators/float_layer.hpp"
#include "intq/nn/float_operators/linear.hpp"
#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/linear.hpp"
#include "support/catch.hpp"
#include "support/same_bytes.hpp"
#include "support/small_models.hpp"

using namespace intq;
using test::same_bytes;

namespace {

/// A layer, and the free function that keeps nothing.
struct Case {
    std::string name;
    std::shared_ptr<nn::Weighted> layer;
    Shape input, larger;
    std::function<intq::Tensor(const intq::Tensor& x)> free_function;
};

template <class Layer> std::shared_ptr<Layer> filled(const std::shared_ptr<Layer>& layer, unsigned seed) {
    layer->set_weight(test::random_tensor(layer->weight().shape(), seed));
    layer->set_bias(test::random_tensor(Shape(layer->out_channels()), seed + 1));
    return layer;
}

std::vector<Case> cases() {
    const Window2d window{{3, 2}, {2, 1}, {1, 0, 1, 2}, {1, 2}};
    const auto conv2d = filled(std::make_shared<nn::Conv2d>(nn::Conv2dOptions{6, 4, window, 2}), 1);
    const auto depthwise = filled(std::make_shared<nn::Conv2d>(nn::Conv2dOptions{5, 5, window, 5}), 2);
    const auto conv1d = filled(std::make_shared<nn::Conv1d>(nn::Conv1dOptions{3, 4, 3, 1, 1}), 3);
    const auto transposed = filled(
        std::make_shared<nn::ConvTranspose2d>(nn::ConvTranspose2dOptions{4, 6, {{3, 3}, {2, 2}, {1, 1, 1, 1}}, {1, 1}}),
        4);
    const auto linear = filled(std::make_shared<nn::Linear>(nn::LinearOptions{7, 9}), 5);
    return {
        {"Conv2d", conv2d, Shape(1, 6, 7, 5), Shape(1, 6, 9, 8),
         [=](const auto& x) { return nn::float_operators::conv2d(x, conv2d->weight(), conv2d->bias(), window, 2); }},
        {"depthwise Conv2d", depthwise, Shape(1, 5, 7, 5), Shape(1, 5, 9, 8),
         [=](const auto& x) {
             return nn::float_operators::conv2d(x, depthwise->weight(), depthwise->bias(), window, 5);
         }},
        {"Conv1d", conv1d, Shape(1, 3, 8), Shape(1, 3, 11),
         [=](const auto& x) {
             return nn::float_operators::conv1d(x, conv1d->weight(), conv1d->bias(), conv1d->window());
         }},
        {"ConvTranspose2d", transposed, Shape(1, 4, 4, 3), Shape(1, 4, 5, 6),
         [=](const auto& x) {
             return nn::float_operators::conv_transpose2d(x, transposed->weight(), transposed->bias(),
                                                          transposed->options().window,
                                                          transposed->options().output_padding);
         }},
        // Rows are its only size.
        {"Linear", linear, Shape(1, 7), Shape(4, 3, 7),
         [=](const auto& x) { return nn::float_operators::linear(x, linear->weight(), linear->bias()); }}};
}

}  // namespace

TEST_CASE("A layer packs at its first call, and the second runs what the first packed, with the same bits") {
    for (const Case& one : cases()) {
        INFO(one.name);
        nn::Weighted& layer = *one.layer;
        CHECK(layer.packed() == nullptr);
        const intq::Tensor x = test::random_tensor(one.input, 7);
        const intq::Tensor y = layer(x).tensor();
        CHECK(same_bytes(y, one.free_function(x)));
        const auto packed = layer.packed();
        REQUIRE(packed != nullptr);
        CHECK(same_bytes(layer(x).tensor(), y));
        CHECK(layer.packed() == packed);
        // The batch is no part of it.
        Shape images = one.input;
        images[0] = 3;
        const intq::Tensor batch = test::random_tensor(images, 8);
        CHECK(same_bytes(layer(batch).tensor(), one.free_function(batch)));
        CHECK(layer.packed() == packed);
    }
}

TEST_CASE("A weight or bias that changed is packed anew, also one that was written in place") {
    for (const Case& one : cases()) {
        INFO(one.name);
        nn::Weighted& layer = *one.layer;
        const intq::Tensor x = test::random_tensor(one.input, 7);
        const auto check_new = [&](const char* what) {
            INFO(what);
            const auto before = layer.packed();
            CHECK(same_bytes(layer(x).tensor(), one.free_function(x)));
            CHECK(layer.packed() != before);
        };
        check_new("first call");
        const auto weight = layer.tensor("weight").flat<float>();
        weight.back() += 0.5f;
        check_new("last weight");
        weight.front() = 0.0f;
        check_new("zero");
        weight.front() = -0.0f;
        check_new("other sign of zero");
        layer.tensor("bias").flat<float>()[1] += 0.25f;
        check_new("bias");
        layer.set_weight(test::random_tensor(layer.weight().shape(), 20));
        check_new("another tensor");
        // Other memory with the same values is the same weight.
        const auto packed = layer.packed();
        layer.set_weight(layer.weight().clone());
        layer.set_bias(layer.bias().clone());
        CHECK(same_bytes(layer(x).tensor(), one.free_function(x)));
        CHECK(layer.packed() == packed);
        // A weight of another type is refused as at a first call.
        layer.set_weight(intq::Tensor::zeros(layer.weight().shape(), DType::int32));
        CHECK_THROWS_AS(layer(x), Error);
    }
}

TEST_CASE("A bias that comes later is added") {
    nn::Linear layer({3, 2, false});
    layer.set_weight(intq::Tensor::from(Shape(2, 3), {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}));
    const intq::Tensor x = intq::Tensor::full(Shape(1, 3), 1.0f);
    CHECK(layer(x).tensor().flat<float>()[1] == 15.0f);
    layer.set_bias(intq::Tensor::from(Shape(2), {10.0f, 20.0f}));
    CHECK(layer(x).tensor().flat<float>()[1] == 35.0f);
}

TEST_CASE("Another size of the input takes the packed weight, with a geometry of its own") {
    for (const Case& one : cases()) {
        INFO(one.name);
        nn::Weighted& layer = *one.layer;
        const intq::Tensor small = test::random_tensor(one.input, 7), large = test::random_tensor(one.larger, 8);
        layer(small);
        const auto first = layer.packed();
        CHECK(same_bytes(layer(large).tensor(), one.free_function(large)));
        const auto second = layer.packed();
        CHECK((second != first) == (one.name != "Linear"));
        CHECK(&second->weight() == &first->weight());
        CHECK(same_bytes(layer(small).tensor(), one.free_function(small)));
        CHECK(&layer.packed()->weight() == &first->weight());
    }
}

TEST_CASE("A clone and a copy of a layer begin with nothing packed, and each keeps its own") {
    for (const Case& one : cases()) {
        INFO(one.name);
        nn::Weighted& layer = *one.layer;
        const intq::Tensor x = test::random_tensor(one.input, 7);
        const intq::Tensor y = layer(x).tensor();
        const auto packed = layer.packed();
        const auto clone = nn::clone(one.layer);
        const auto copy = std::static_pointer_cast<nn::Weighted>(layer.copy());
        CHECK(clone->packed() == nullptr);
        CHECK(copy->packed() == nullptr);
        CHECK(same_bytes((*clone)(x).tensor(), y));
        clone->tensor("weight").flat<float>()[0] += 1.0f;
        CHECK_FALSE(same_bytes((*clone)(x).tensor(), y));
        CHECK(same_bytes((*copy)(x).tensor(), y));
        CHECK(clone->packed() != packed);
        CHECK(copy->packed() != packed);
        CHECK(layer.packed() == packed);
        CHECK(same_bytes(layer(x).tensor(), y));
    }
}

TEST_CASE("Two threads may call one layer, with inputs of different sizes") {
    for (const Case& one : cases()) {
        INFO(one.name);
        nn::Weighted& layer = *one.layer;
        const intq::Tensor small = test::random_tensor(one.input, 7), large = test::random_tensor(one.larger, 8);
        const intq::Tensor expected_small = one.free_function(small), expected_large = one.free_function(large);
        int wrong = 0, other_wrong = 0;
        const auto call = [&](const intq::Tensor& x, const intq::Tensor& expected, int& count) {
            for (int i = 0; i < 100; ++i) count += same_bytes(layer(x).tensor(), expected) ? 0 : 1;
        };
        std::thread other([&] { call(large, expected_large, other_wrong); });
        call(small, expected_small, wrong);
        other.join();
        CHECK(wrong == 0);
        CHECK(other_wrong == 0);
    }
}

TEST_CASE("A cache that two functions share serves each of them") {
    const intq::Tensor weight = test::random_tensor(Shape(3, 3, 3, 3), 1),
                       x = test::random_tensor(Shape(2, 3, 6, 6), 2);
    const Window2d window{{3, 3}, {1, 1}, {}, {1, 1}};
    nn::float_operators::FloatLayerCache cache;
    for (int i = 0; i < 2; ++i) {
        CHECK(same_bytes(nn::float_operators::conv2d(x, weight, {}, window, 1, &cache),
                         nn::float_operators::conv2d(x, weight, {}, window)));
        CHECK(same_bytes(nn::float_operators::conv_transpose2d(x, weight, {}, window, {0, 0}, 1, &cache),
                         nn::float_operators::conv_transpose2d(x, weight, {}, window)));
    }
}
