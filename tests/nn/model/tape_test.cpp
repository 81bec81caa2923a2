// SPDX-License-Identifier: MIT
#include "intq/nn/model/tape.hpp"

#include <thread>

#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/move.hpp"
#include "intq/nn/layers/norm.hpp"
#include "intq/nn/model/module.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;

namespace {

std::vector<float> values(const intq::Tensor& tensor) {
    return {tensor.flat<float>().begin(), tensor.flat<float>().end()};
}

std::shared_ptr<nn::Conv2d> conv_with_norm() {
    const auto conv = test::make_conv(2, 3, 3, 1);
    conv->add_child("bn", test::make_batch_norm<nn::BatchNorm2d>(3, 2));
    return conv;
}

/// A user's layer that drops twice, and keeps a number of its own in between.
struct DropsTwice : nn::Cloneable<DropsTwice> {
    DropsTwice() {
        add_child("first", std::make_shared<nn::Dropout>(0.5, 1));
        add_child("second", std::make_shared<nn::Dropout>(0.5, 2));
    }
    std::string type_name() const override { return "DropsTwice"; }
    bool is_leaf() const override { return true; }
    nn::Value forward(nn::Arguments x) override {
        const nn::Value y = call("first", x[0]);
        nn::keep_on_tape(*this, "call", 17);
        return call("second", y);
    }
};

}  // namespace

TEST_CASE("A layer keeps its values on the tape of its thread, and nowhere without one") {
    const auto conv = conv_with_norm();
    const intq::Tensor x = test::random_tensor(Shape(1, 2, 5, 5), 3), other = test::random_tensor(Shape(1, 2, 5, 5), 4);
    CHECK(nn::current_tape() == nullptr);
    nn::Tape tape;
    {
        const nn::TapeScope recording(&tape);
        CHECK(nn::current_tape() == &tape);
        (*conv)(x);
    }
    CHECK(nn::current_tape() == nullptr);
    (*conv)(other);  // not recorded

    const nn::KeptValues kept = tape.take(*conv);
    REQUIRE(kept.size() == 2);
    CHECK(kept.at("weight").tensor().shares_buffer_with(conv->weight()));
    CHECK(values(kept.at("product").tensor()) == values(conv->apply(x, conv->weight())));
    CHECK(tape.take(*conv).empty());

    // A layer without batch norm needs no more than its inputs.
    const auto plain = test::make_conv(2, 3, 3, 1);
    const nn::TapeScope recording(&tape);
    (*plain)(x);
    CHECK(tape.take(*plain).empty());
}

TEST_CASE("What the modules below keep stands apart from what the outer module keeps") {
    DropsTwice drops;
    const intq::Tensor x = test::random_tensor(Shape(50), 3);
    nn::Tape tape;
    const nn::TapeScope recording(&tape);
    drops(x);
    drops(x);
    CHECK(tape.take(drops).at("call").integer() == 17);
    CHECK(tape.take(*drops.child("first")).at("call").integer() == 1);
    tape.clear();
    CHECK(tape.take(*drops.child("second")).empty());
}

TEST_CASE("Scopes nest, a scope without a tape pauses the recording, and other threads have tapes of their own") {
    nn::Dropout dropout(0.5, 5);
    const intq::Tensor x = test::random_tensor(Shape(20), 3);
    nn::Tape outer, inner;
    const nn::TapeScope recording(&outer);
    dropout(x);
    {
        const nn::TapeScope nested(&inner);
        dropout(x);
        {
            const nn::TapeScope unrecorded(nullptr);
            dropout(x);
        }
    }
    bool has_tape = true;
    std::thread([&] { has_tape = nn::current_tape() != nullptr; }).join();
    CHECK_FALSE(has_tape);
    CHECK(nn::current_tape() == &outer);
    CHECK(outer.take(dropout).at("call").integer() == 0);
    CHECK(inner.take(dropout).at("call").integer() == 1);
    CHECK(dropout.calls() == 3);
}
