// SPDX-License-Identifier: MIT
//
// Shapes without values: every operator gives for shapes the shape that it computes, and takes no memory for it.
#include <functional>

#include "intq/graph/graph_module.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using nn::Value;

namespace {

/// One operator, and the shapes of what it reads.
struct Case {
    std::string name;
    std::vector<Shape> inputs;
    std::function<Value(const std::vector<Value>&)> function;
};

template <class Layer> Case layer(const std::string& name, const Shape& input, const std::shared_ptr<Layer>& module) {
    module->eval();
    return {name, {input}, [module](const std::vector<Value>& x) { return (*module)(x[0]); }};
}

template <class Function> Case unary(const std::string& name, const Shape& input, Function function) {
    return {name, {input}, [function](const std::vector<Value>& x) -> Value { return function(x[0]); }};
}

/// Ids of the same shape, with values where the tensor has some.
Value ids_like(const Value& x) {
    const Shape& shape = x.tensor().shape();
    return x.tensor().lacks_values() ? intq::Tensor::of_shape(shape, DType::int64)
                                     : intq::Tensor::zeros(shape, DType::int64);
}

std::vector<Case> all_cases() {
    const Shape image(2, 4, 9, 7), rows(2, 5, 6), line(2, 4, 9), volume(2, 4, 5, 6, 7);
    const Window2d window{{3, 2}, {2, 1}, {1, 0, 0, 1}, {1, 2}};
    const Window2d cells{{2, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}};
    nn::LSTMOptions lstm{.input_size = 6, .hidden_size = 3, .num_layers = 2};
    lstm.bidirectional = true;
    std::vector<Case> cases{
        layer("conv2d", image, std::make_shared<nn::Conv2d>(nn::Conv2dOptions{4, 6, window, 2})),
        layer("conv1d", line,
              std::make_shared<nn::Conv1d>(
                  nn::Conv1dOptions{.in_channels = 4, .out_channels = 3, .kernel = 3, .stride = 2})),
        layer("conv3d", volume,
              std::make_shared<nn::Conv3d>(nn::Conv3dOptions{4, 3, {2, 2, 1, 1}, {{2, 2}, {1, 2}, {}, {1, 1}}})),
        layer("conv_transpose2d", image,
              std::make_shared<nn::ConvTranspose2d>(
                  nn::ConvTranspose2dOptions{4, 6, {{3, 2}, {3, 2}, {1, 0, 0, 1}, {1, 1}}, {1, 1}, 2})),
        layer("conv_transpose1d", line,
              std::make_shared<nn::ConvTranspose1d>(
                  nn::ConvTranspose1dOptions{.in_channels = 4, .out_channels = 3, .kernel = 3, .stride = 2})),
        layer("conv_transpose3d", volume,
              std::make_shared<nn::ConvTranspose3d>(
                  nn::ConvTranspose3dOptions{4, 3, {2, 2, 1, 1}, {{2, 2}, {1, 2}, {}, {1, 1}}})),
        layer("linear", rows, std::make_shared<nn::Linear>(nn::LinearOptions{6, 8})),
        layer("batch_norm1d", line, std::make_shared<nn::BatchNorm1d>(nn::BatchNormOptions{4})),
        layer("batch_norm3d", volume, std::make_shared<nn::BatchNorm3d>(nn::BatchNormOptions{4})),
        layer("batch_norm2d", image, std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{4})),
        layer("layer_norm", rows, std::make_shared<nn::LayerNorm>(Shape(index_t{5}, index_t{6}))),
        layer("rms_norm", rows, std::make_shared<nn::RMSNorm>(Shape(index_t{6}))),
        layer("group_norm", image, std::make_shared<nn::GroupNorm>(2, 4)),
        layer("instance_norm", image, std::make_shared<nn::InstanceNorm2d>(nn::InstanceNormOptions{4})),
        layer("max_pool2d", image, std::make_shared<nn::MaxPool2d>(cells, true)),
        layer("avg_pool2d", image, std::make_shared<nn::AvgPool2d>(cells)),
        layer("adaptive_avg_pool2d", image, std::make_shared<nn::AdaptiveAvgPool2d>(Size2d{3, 2})),
        layer("softmax", rows, std::make_shared<nn::Softmax>(-1)),
        layer("log_softmax", rows, std::make_shared<nn::LogSoftmax>(-1)),
        layer("identity", image, std::make_shared<nn::Identity>()),
        layer("dropout", image, std::make_shared<nn::Dropout>()),
        layer("lstm", rows, std::make_shared<nn::LSTM>(lstm)),
        unary("relu", image, [](const Value& x) { return nn::relu(x); }),
        unary("relu6", image, [](const Value& x) { return nn::relu6(x); }),
        unary("clamp", image, [](const Value& x) { return nn::clamp(x, -1.0, {}); }),
        layer("masked_fill", rows,
              std::make_shared<nn::MaskedFill>(Tensor::zeros(Shape(index_t{6}), DType::uint8), -1e9)),
        unary("causal_fill", rows,
              [](const Value& x) { return nn::causal_fill(x, intq::Tensor::zeros(Shape(2, 5), DType::int32), -1e9); }),
        unary("sigmoid", image, [](const Value& x) { return nn::sigmoid(x); }),
        unary("gelu", image, [](const Value& x) { return nn::gelu(x); }),
        unary("add a number", image, [](const Value& x) { return nn::add(x, 2.0); }),
        unary("sub from a number", image, [](const Value& x) { return nn::sub(2.0, x); }),
        unary("mul by a number", image, [](const Value& x) { return nn::mul(x, 2.0); }),
        unary("sum", image,
              [](const Value& x) {
                  return nn::sum(x, {1, -1}, false);
              }),
        unary("mean", image,
              [](const Value& x) {
                  return nn::mean(x, {2, 3}, true);
              }),
        unary("flatten", image, [](const Value& x) { return nn::flatten(x, 1); }),
        unary("reshape", image,
              [](const Value& x) {
                  return nn::reshape(x, {2, 6, -1});
              }),
        unary("permute", image,
              [](const Value& x) {
                  return nn::permute(x, {0, 2, 3, 1});
              }),
        unary("expand", image,
              [](const Value& x) {
                  return nn::expand(nn::slice(x, 2, 1, 2), {-1, -1, 5, -1});
              }),
        unary("transpose", image, [](const Value& x) { return nn::transpose(x, 1, 3); }),
        unary("slice", image, [](const Value& x) { return nn::slice(x, 2, 1, -1, 3); }),
        unary("getitem", image, [](const Value& x) { return x[1]; }),
        unary("split", image, [](const Value& x) { return nn::split(x, 3, 2); }),
        unary("chunk", image, [](const Value& x) { return nn::chunk(x, 3, 2); }),
        unary("pad", image,
              [](const Value& x) {
                  return nn::pad(x, {1, 2, -1, 3});
              }),
        unary("pad that reflects", image,
              [](const Value& x) {
                  return nn::pad(x, {1, 2, 0, 3}, "reflect");
              }),
        unary("size", image, [](const Value& x) { return nn::size(x); }),
        {"cat", {image, Shape(2, 3, 9, 7)}, [](const std::vector<Value>& x) { return nn::cat({x[0], x[1]}, 1); }},
        {"matmul",
         {Shape(2, 1, 5, 6), Shape(3, 6, 4)},
         [](const std::vector<Value>& x) { return nn::matmul(x[0], x[1]); }},
        {"add", {image, Shape(4, 1, 7)}, [](const std::vector<Value>& x) { return nn::add(x[0], x[1]); }},
        {"maximum", {Shape(4, 1, 7), image}, [](const std::vector<Value>& x) { return nn::maximum(x[0], x[1]); }},
        {"minimum", {Shape(4, 1, 7), image}, [](const std::vector<Value>& x) { return nn::minimum(x[0], x[1]); }},
        {"sub", {Shape(4, 1, 7), image}, [](const std::vector<Value>& x) { return nn::sub(x[0], x[1]); }},
        {"mul", {image, image}, [](const std::vector<Value>& x) { return nn::mul(x[0], x[1]); }},
        {"add_relu",
         {image, Shape(4, 1, 7)},
         [functional = std::make_shared<nn::FloatFunctional>()](const std::vector<Value>& x) {
             return functional->dispatch("add_relu", x);
         }},
        unary("embedding", rows,
              [table = std::make_shared<nn::Embedding>(nn::EmbeddingOptions{7, 3})](const Value& x) {
                  return (*table)(ids_like(x));
              }),
        unary("functional_embedding", rows,
              [](const Value& x) { return nn::embedding(ids_like(x), intq::Tensor::zeros(Shape(7, 3))); }),
        {"index_copy",
         {image, Shape(2, 4, 3, 7)},
         [](const std::vector<Value>&
                x) { return nn::index_copy(x[0], 2, intq::Tensor::zeros(Shape(2, 3), DType::int32), x[1]); }},
        unary("argmax", image, [](const Value& x) { return nn::argmax(x, 1); }),
        unary("argmax", image, [](const Value& x) { return nn::argmax(x, -1, true); }),
        {"functional_linear",
         {rows, Shape(index_t{8}, index_t{6})},
         [](const std::vector<Value>& x) { return nn::linear(x[0], x[1]); }},
    };
    for (const char* mode : {"nearest", "bilinear"})
        cases.push_back(layer("interpolate", image,
                              std::make_shared<nn::Upsample>(nn::InterpolateOptions{
                                  Size2d{12, 5}, {}, nn::float_operators::resize_rule(mode, false)})));
    return cases;
}

void expect_same_shapes(const Value& computed, const Value& inferred) {
    REQUIRE(computed.is_tuple() == inferred.is_tuple());
    if (computed.is_tuple()) {
        REQUIRE(computed.tuple().size() == inferred.tuple().size());
        for (std::size_t i = 0; i < computed.tuple().size(); ++i)
            expect_same_shapes(computed.tuple()[i], inferred.tuple()[i]);
        return;
    }
    REQUIRE(computed.is_tensor() == inferred.is_tensor());
    if (!computed.is_tensor()) return;
    CHECK(computed.tensor().shape() == inferred.tensor().shape());
    CHECK(computed.tensor().dtype() == inferred.tensor().dtype());
    CHECK(inferred.tensor().lacks_values());
    CHECK_FALSE(computed.tensor().lacks_values());
}

/// A function that looks at its data.
intq::Tensor largest_only(const intq::Tensor& x) {
    intq::Tensor y = x.clone();
    for (float& value : y.flat<float>()) value = value > 0.5f ? 1.0f : 0.0f;
    return y;
}
inline constexpr nn::Wrapped<"largest_only", &largest_only> largest_only_function;

/// Doubles height and width, 18 times, and asks for data in the middle of it.
struct Grower : nn::Cloneable<Grower> {
    explicit Grower(int times) : times_(times) {
        add_child("up", std::make_shared<nn::ConvTranspose2d>(
                            nn::ConvTranspose2dOptions{1, 1, {{2, 2}, {2, 2}, {}, {1, 1}}}));
    }
    std::string type_name() const override { return "Grower"; }
    Value forward(nn::Arguments x) override {
        Value y = largest_only_function(x[0]);
        for (int i = 0; i < times_; ++i) y = nn::relu(call("up", y));
        return nn::mean(y, {2, 3});
    }

private:
    int times_;
};

}  // namespace

TEST_CASE("Every operator gives for shapes the shape that it computes") {
    for (const Case& one : all_cases()) {
        INFO(one.name);
        std::vector<Value> values, shapes;
        for (const Shape& shape : one.inputs) {
            values.emplace_back(test::random_tensor(shape, 3));
            shapes.emplace_back(intq::Tensor::of_shape(shape));
        }
        expect_same_shapes(one.function(values), one.function(shapes));
        // What is refused is refused for both.
        for (Value& value : values) value = intq::Tensor::zeros(value.tensor().shape(), DType::int32);
        for (Value& value : shapes) value = intq::Tensor::of_shape(value.tensor().shape(), DType::int32);
        const auto is_refused = [&](const std::vector<Value>& x) {
            try {
                one.function(x);
                return false;
            } catch (const Error&) {
                return true;
            }
        };
        CHECK(is_refused(values) == is_refused(shapes));
    }
}

TEST_CASE("Shapes of values that fit in no memory are inferred, and a function that asks for data gets zeros") {
    const auto traced = graph::symbolic_trace(std::make_shared<Grower>(18));
    const Value input(intq::Tensor::of_shape(Shape(1, 1, 1, 1)));
    graph::propagate_shapes(*traced, std::span(&input, 1));
    const auto nodes = traced->graph().nodes();
    CHECK(nodes[nodes.size() - 3]->outputs()[0].shape == Shape(1, 1, 1 << 18, 1 << 18));
    CHECK(nodes[1]->name() == "largest_only");
    CHECK(nodes[1]->outputs()[0].shape == Shape(1, 1, 1, 1));
    // The shape alone is too large.
    const auto beyond = graph::symbolic_trace(std::make_shared<Grower>(21));
    CHECK(test::message_of<Error>([&] {
              graph::propagate_shapes(*beyond, std::span(&input, 1));
          }).find("would have 4398046511104 bytes") != std::string::npos);
}

TEST_CASE("A tensor of a shape has no elements to ask for") {
    const intq::Tensor shape = intq::Tensor::of_shape(Shape(2, 3, 4, 5), DType::int8, Layout::channels_last);
    CHECK(shape.lacks_values());
    CHECK_FALSE(intq::Tensor().lacks_values());
    CHECK_THROWS_AS(shape.flat<std::int8_t>(), ValuesNeeded);
    CHECK_THROWS_AS(shape.data(), ValuesNeeded);
    CHECK(test::message_of<Error>([&] { shape.flat<float>(); }).find("asked for float32") != std::string::npos);
    for (const intq::Tensor& other :
         {shape.clone(), shape.contiguous(), shape.batch(1, 1), shape.reshape(Shape(6, 20))})
        CHECK(other.lacks_values());
    CHECK(shape.batch(1, 1).shape() == Shape(1, 3, 4, 5));
    CHECK_THROWS_AS(intq::Tensor::of_shape(Shape(1 << 20, 1 << 20, 2)), Error);
}
