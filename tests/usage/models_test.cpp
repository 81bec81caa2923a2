// SPDX-License-Identifier: MIT
//
// Misuses of tensors, values, layers, functions and graphs.
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/graph/tracer.hpp"
#include "intq/nn.hpp"
#include "intq/nn/model/container.hpp"
#include "intq/nn/model/state_dict.hpp"
#include "intq/tensor/quantize.hpp"
#include "intq/tensor/tensor.hpp"
#include "support/catch.hpp"
#include "support/small_models.hpp"
#include "usage/misuse.hpp"

namespace {

using namespace intq;
using intq::Tensor;
using test::make_conv;
using test::make_linear;
using test::make_model;
using test::random_tensor;
using test::refusal;

const Tensor& image() {
    static const Tensor x = random_tensor(Shape(1, 3, 8, 8), 1);
    return x;
}

/// "features.conv" -> "head", without stubs.
nn::ModulePtr small_model() {
    const auto features = std::make_shared<nn::Sequential>(
        std::initializer_list<nn::ModulePtr>{make_conv(3, 4, 3, 1), std::make_shared<nn::ReLU>()});
    return make_model(
        {{"features", features}, {"head", make_linear(256, 5, 2)}},
        [](test::LambdaModel& m, nn::Arguments x) { return m.call("head", nn::flatten(m.call("features", x[0]), 1)); });
}

}  // namespace

TEST_CASE("bad usage: tensors") {
    const Tensor floats = random_tensor(Shape(2, 3), 1);
    test::check_misuses({
        {"a float tensor is viewed as codes",
         [&] { return refusal([&] { floats.view<std::int8_t, 2>(); }); },
         {"float32", "int8", "(2, 3)"}},
        {"an image is viewed with three axes",
         [] { return refusal([] { image().view<float, 3>(); }); },
         {"rank 3", "(1, 3, 8, 8)"}},
        {"a row-major image is viewed as NHWC",
         [] { return refusal([] { image().view<float, 4, channels_last>(); }); },
         {"channels_last", "row_major", "to_layout"}},
        {"the elements of a tensor that was never made",
         [] { return refusal([] { Tensor().flat<float>(); }); },
         {"flat", "float32", "undefined"}},
        {"five values for six elements",
         [] { return refusal([] {
                  Tensor::from(Shape(2, 3), {1.f, 2.f, 3.f, 4.f, 5.f});
              }); },
         {"(2, 3)", "6", "5"}},
        {"a reshape to another number of elements",
         [&] { return refusal([&] { static_cast<void>(floats.reshape(Shape(4, 2))); }); },
         {"reshape", "(2, 3)", "(4, 2)"}},
        {"a batch beyond the samples",
         [&] { return refusal([&] { static_cast<void>(floats.batch(1, 4)); }); },
         {"batch", "samples 1 to 5", "(2, 3)"}},
        {"an axis that a tensor does not have",
         [&] { return refusal([&] { static_cast<void>(floats.extent(2)); }); },
         {"axis 2", "(2, 3)"}},
        {"a negative extent", [] { return refusal([] { Tensor::zeros(Shape(2, -3)); }); }, {"(2, -3)", "negative"}},
        {"quantize by three scales along an axis of two",
         [&] {
             return refusal([&] {
                 static_cast<void>(quantize(floats, OwnedQParams::per_channel({.1f, .1f, .1f}, 0, DType::int8), {}));
             });
         },
         {"quantize", "3 scales", "2"}},
        {"quantize by a scale of 0",
         [&] {
             return refusal(
                 [&] { static_cast<void>(quantize(floats, OwnedQParams::per_tensor(0.0f, DType::int8), {})); });
         },
         {"quantize", "scale", "2^-100"}},
        {"dequantize real numbers",
         [&] {
             return refusal(
                 [&] { static_cast<void>(dequantize(floats, OwnedQParams::per_tensor(0.1f, DType::int8))); });
         },
         {"dequantize", "float32", "int8"}},
        {"the one scale of a weight that has three",
         [] { return refusal([] {
                  OwnedQParams::per_channel({.1f, .1f, .1f}, 0, DType::int8).scale();
              }); },
         {"scale", "per channel", "3"}},
    });
}

TEST_CASE("bad usage: layers and functions") {
    const Tensor vectors = random_tensor(Shape(4, 16), 3);
    test::check_misuses({
        {"a convolution gets an image with another number of channels",
         [] { return refusal([] { (*make_conv(4, 6, 3, 1))(image()); }); },
         {"conv2d", "3", "4", "(1, 3, 8, 8)", "(6, 4, 3, 3)"}},
        {"a convolution gets an image without a batch axis",
         [] { return refusal([] { (*make_conv(3, 6, 3, 1))(random_tensor(Shape(3, 8, 8), 1)); }); },
         {"conv2d", "rank 4", "(3, 8, 8)"}},
        {"an image that is smaller than the kernel",
         [] {
             return refusal([] {
                 nn::Conv2d conv({3, 4, nn::square_window(5), 1, true});
                 conv(random_tensor(Shape(1, 3, 4, 4), 1));
             });
         },
         {"conv2d", "window", "5", "4"}},
        {"groups that do not divide the channels",
         [] { return refusal([] {
                  nn::Conv2d({4, 6, nn::square_window(3), 3, true});
              }); },
         {"Conv2d", "groups", "3", "4"}},
        {"a linear layer gets another number of features",
         [&] { return refusal([&] { (*make_linear(10, 5, 1))(vectors); }); },
         {"linear", "10", "16", "(4, 16)"}},
        {"uint8 pixels go straight into a model",
         [] { return refusal([] { (*make_conv(3, 4, 3, 1))(Tensor::zeros(Shape(1, 3, 8, 8), DType::uint8)); }); },
         {"conv2d", "uint8", "float32"}},
        {"a weight in TensorFlow's order",
         [] { return refusal([] { make_conv(3, 6, 5, 1)->set_weight(random_tensor(Shape(6, 5, 5, 3), 1)); }); },
         {"weight", "(6, 5, 5, 3)", "(6, 3, 5, 5)"}},
        {"a batch norm for other channels",
         [] { return refusal([] { (*test::make_batch_norm<nn::BatchNorm2d>(8, 1))(image()); }); },
         {"BatchNorm2d", "8", "3"}},
        {"a sum of shapes that do not broadcast",
         [&] { return refusal([&] { nn::add(vectors, random_tensor(Shape(4, 15), 1)); }); },
         {"add", "(4, 16)", "(4, 15)"}},
        {"a product of matrices that do not fit",
         [&] { return refusal([&] { nn::matmul(vectors, random_tensor(Shape(15, 2), 1)); }); },
         {"matmul", "(4, 16)", "(15, 2)"}},
        {"images of another height are concatenated by channels",
         [] { return refusal([] {
                  nn::cat({image(), random_tensor(Shape(1, 3, 7, 8), 1)}, 1);
              }); },
         {"cat", "(1, 3, 8, 8)", "(1, 3, 7, 8)", "axis 1"}},
        {"softmax over an axis that does not exist",
         [&] { return refusal([&] { nn::softmax(vectors, 2); }); },
         {"softmax", "axis 2", "rank 2"}},
        {"token ids as floats",
         [] {
             return refusal([] {
                 nn::Embedding table({10, 4});
                 table(random_tensor(Shape(1, 5), 1));
             });
         },
         {"embedding", "float32", "int64"}},
        {"a token beyond the table",
         [] {
             return refusal([] {
                 nn::Embedding table({10, 4});
                 table(Tensor::from(Shape(1, 2), std::vector<std::int64_t>{3, 10}));
             });
         },
         {"embedding", "id 10", "[0, 10)"}},
        {"an interpolation that does not exist",
         [] { return refusal([] { nn::interpolate(image(), 16, {}, "bicubic"); }); },
         {"interpolate", "bicubic", "nearest", "bilinear"}},
        {"a pool whose padding is as large as its window",
         [] { return refusal([] {
                  nn::MaxPool2d({{2, 2}, {2, 2}, {2, 2, 2, 2}, {1, 1}})(image());
              }); },
         {"max_pool2d", "padding (2, 2)", "2 x 2"}},
        {"a permutation that names an axis twice",
         [&] { return refusal([&] {
                   nn::permute(vectors, {0, 0});
               }); },
         {"permute", "axis 0", "(4, 16)"}},
        {"a dropout that keeps nothing and more",
         [] { return refusal([] { nn::Dropout(1.5); }); },
         {"Dropout", "1.5", "0", "1"}},
    });
}

TEST_CASE("bad usage: modules and graphs") {
    test::check_misuses({
        {"a module that does not exist",
         [] { return refusal([] { small_model()->find("features.conv1"); }); },
         {"features.conv1", "features", "0, 1"}},
        {"two children of one name",
         [] { return refusal([] { small_model()->add_child("head", make_linear(1, 1, 1)); }); },
         {"head", "already"}},
        {"a child that is null",
         [] { return refusal([] { small_model()->add_child("tail", nullptr); }); },
         {"tail", "null"}},
        {"a parameter that does not exist",
         [] { return refusal([] { small_model()->find("head").tensor("wieght"); }); },
         {"wieght", "weight"}},
        {"a state of another model",
         [] {
             return refusal([] {
                 const nn::ModulePtr model = small_model();
                 nn::StateDict state = nn::state_dict(*model);
                 state.pop_back();
                 nn::load_state_dict(*model, state);
             });
         },
         {"head.bias", "lacks"}},
        {"a state with another shape",
         [] {
             return refusal([] {
                 const nn::ModulePtr model = small_model();
                 nn::StateDict state = nn::state_dict(*model);
                 state.back().value = Tensor::zeros(Shape(6));
                 nn::load_state_dict(*model, state);
             });
         },
         {"head.bias", "(6)", "(5)"}},
        {"a condition on data in a traced forward",
         [] {
             return refusal([] {
                 const auto model =
                     make_model({{"conv", make_conv(3, 4, 3, 1)}}, [](test::LambdaModel& m, nn::Arguments x) {
                         const nn::Value y = m.call("conv", x[0]);
                         return y > 0 ? y : nn::relu(y);
                     });
                 graph::symbolic_trace(model);
             });
         },
         {"comparison", "symbolically traced", "root module", "leaf"}},
        {"a leaf that the model does not have",
         [] {
             return refusal([] {
                 graph::TraceOptions options;
                 options.leaf_modules = {"feature"};
                 graph::symbolic_trace(small_model(), options);
             });
         },
         {"feature", "features"}},
        {"a traced model without an input",
         [] { return refusal([] { (*graph::symbolic_trace(small_model()))(); }); },
         {"input", "x"}},
        {"a traced model with an input too many",
         [] { return refusal([] { (*graph::symbolic_trace(small_model()))(image(), image()); }); },
         {"2", "1"}},
        {"a traced model with an image of another size",
         [] { return refusal([] { (*graph::symbolic_trace(small_model()))(random_tensor(Shape(1, 3, 9, 9), 1)); }); },
         {"head", "linear", "256", "324"}},
        {"a trace of no model", [] { return refusal([] { graph::symbolic_trace(nn::ModulePtr()); }); }, {"null"}},
    });
}
