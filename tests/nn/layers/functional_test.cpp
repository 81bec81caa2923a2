// SPDX-License-Identifier: MIT
//
// Float layers against numbers that were worked out by hand, and against loops that are written another way.
#include "intq/nn.hpp"

#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using intq::Tensor;
using test::message_of;

namespace {

std::vector<float> values(const Tensor& tensor) {
    const Tensor rows = tensor.contiguous();
    return {rows.flat<float>().begin(), rows.flat<float>().end()};
}

// y[n,o,i,j] element by element, straight from the definition.
Tensor definition_of_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window2d& w,
                          index_t groups) {
    const Size2d out = output_size(w, {x.extent(2), x.extent(3)});
    Tensor y = Tensor::empty(Shape(x.extent(0), weight.extent(0), out.height, out.width));
    const auto in = x.view<const float, 4>(), k = weight.view<const float, 4>();
    const auto to = y.view<float, 4>();
    for (index_t n = 0; n < y.extent(0); ++n)
        for (index_t o = 0; o < y.extent(1); ++o)
            for (index_t i = 0; i < out.height; ++i)
                for (index_t j = 0; j < out.width; ++j) {
                    double sum = static_cast<double>(bias.flat<float>()[static_cast<std::size_t>(o)]);
                    for (index_t c = 0; c < weight.extent(1); ++c)
                        for (index_t u = 0; u < w.kernel.height; ++u)
                            for (index_t v = 0; v < w.kernel.width; ++v) {
                                const index_t h = i * w.stride.height + u * w.dilation.height - w.padding.top;
                                const index_t l = j * w.stride.width + v * w.dilation.width - w.padding.left;
                                const index_t channel = o / (weight.extent(0) / groups) * weight.extent(1) + c;
                                if (h >= 0 && h < x.extent(2) && l >= 0 && l < x.extent(3))
                                    sum +=
                                        static_cast<double>(k(o, c, u, v)) * static_cast<double>(in(n, channel, h, l));
                            }
                    to(n, o, i, j) = static_cast<float>(sum);
                }
    return y;
}

}  // namespace

TEST_CASE("conv2d by hand: a 2x2 kernel over a 3x3 image") {
    const Tensor x = Tensor::from(Shape(1, 1, 3, 3), {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f, 9.0f});
    const Tensor w = Tensor::from(Shape(1, 1, 2, 2), {1.0f, 0.0f, 0.0f, -1.0f});
    CHECK(values(nn::float_operators::conv2d(x, w, Tensor::full(Shape(1), 0.5f), nn::square_window(2))) ==
          std::vector<float>{-3.5f, -3.5f, -3.5f, -3.5f});
    // One row above and two columns to the right are zeros.
    const Window2d padded{{2, 2}, {1, 1}, {1, 0, 0, 2}, {1, 1}};
    CHECK(values(nn::float_operators::conv2d(x, w, {}, padded)) ==
          std::vector<float>{-2, -3, 0, 0, -4, -4, 3, 0, -4, -4, 6, 0});
}

TEST_CASE("conv2d equals its definition for stride, dilation, padding and groups") {
    unsigned seed = 1;
    for (const index_t groups : {1, 2, 4})
        for (const Window2d& window :
             {Window2d{{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}, Window2d{{3, 2}, {2, 3}, {0, 2, 1, 0}, {1, 1}},
              Window2d{{3, 3}, {1, 2}, {2, 3, 4, 1}, {2, 3}}, Window2d{{1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}}}) {
            const Tensor x = test::random_tensor(Shape(2, 4, 9, 8), ++seed);
            const Tensor w =
                test::random_tensor(Shape(8, 4 / groups, window.kernel.height, window.kernel.width), ++seed);
            const Tensor b = test::random_tensor(Shape(8), ++seed);
            CHECK(test::largest_difference(nn::float_operators::conv2d(x, w, b, window, groups),
                                           definition_of_conv(x, w, b, window, groups)) < 1e-5);
        }
}

TEST_CASE("linear by hand, on vectors and on rows of a higher rank") {
    const Tensor w = Tensor::from(Shape(2, 3), {1.0f, 2.0f, 3.0f, -1.0f, 0.0f, 1.0f});
    const Tensor b = Tensor::from(Shape(2), {10.0f, 20.0f});
    const Tensor x = Tensor::from(Shape(1, 2, 3), {1.0f, 1.0f, 1.0f, 2.0f, 0.0f, -2.0f});
    const Tensor y = nn::float_operators::linear(x, w, b);
    CHECK(y.shape() == Shape(1, 2, 2));
    CHECK(values(y) == std::vector<float>{16, 20, 6, 16});
}

TEST_CASE("Batch norm uses running statistics in evaluation and those of the batch in training") {
    nn::BatchNorm1d norm({2, 0.0, 0.5});
    norm.tensor("weight") = Tensor::from(Shape(2), {2.0f, 1.0f});
    norm.tensor("bias") = Tensor::from(Shape(2), {0.0f, 3.0f});
    norm.tensor("running_mean") = Tensor::from(Shape(2), {1.0f, 0.0f});
    norm.tensor("running_var") = Tensor::from(Shape(2), {4.0f, 1.0f});
    const Tensor x = Tensor::from(Shape(2, 2), {1.0f, 5.0f, 3.0f, 7.0f});
    norm.eval();
    CHECK(values(norm(x).tensor()) == std::vector<float>{0, 8, 2, 10});
    norm.train();
    CHECK(values(norm(x).tensor()) == std::vector<float>{-2, 2, 2, 4});
    // mean 2 and 6, variance by n-1: 2; momentum a half.
    CHECK(values(norm.tensor("running_mean")) == std::vector<float>{1.5f, 3.0f});
    CHECK(values(norm.tensor("running_var")) == std::vector<float>{3.0f, 1.5f});
    CHECK(message_of<Error>([&] { norm(Tensor::zeros(Shape(1, 3))); }).find("expected 2 channels") !=
          std::string::npos);
}

TEST_CASE("Pools by hand") {
    const Tensor x = Tensor::from(Shape(1, 1, 2, 3), {-1.0f, -2.0f, -3.0f, -4.0f, -5.0f, -7.0f});
    const Window2d padded = nn::square_window(2, 1, 1);
    // Padding never wins a maximum, though all values are negative.
    CHECK(values(nn::float_operators::max_pool2d(x, padded)) ==
          std::vector<float>{-1, -1, -2, -3, -1, -1, -2, -3, -4, -4, -5, -7});
    CHECK(values(nn::float_operators::avg_pool2d(x, nn::square_window(2))) == std::vector<float>{-3, -4.25f});
    const Window2d corner{{2, 2}, {2, 2}, {1, 1, 0, 0}, {1, 1}};
    CHECK(values(nn::float_operators::avg_pool2d(x, corner, PoolDivisor::kernel_cells)) ==
          std::vector<float>{-0.25f, -1.25f});
    CHECK(values(nn::float_operators::avg_pool2d(x, corner, PoolDivisor::valid_cells)) ==
          std::vector<float>{-1, -2.5f});
    // Cells two apart: of the first window only the right lower one is in the image.
    const Window2d apart{{2, 2}, {1, 1}, {1, 1, 1, 1}, {2, 2}};
    CHECK(values(nn::float_operators::avg_pool2d(x, apart, PoolDivisor::kernel_cells)) ==
          std::vector<float>{-1.25f, -2.75f, -1.25f, -0.5f, -1.0f, -0.5f});
    CHECK(values(nn::float_operators::avg_pool2d(x, apart, PoolDivisor::valid_cells)) ==
          std::vector<float>{-5, -5.5f, -5, -2, -2, -2});
    CHECK_THROWS_AS(nn::float_operators::avg_pool2d(x, {{2, 2}, {1, 1}, {2, 2, 2, 2}, {3, 3}}), Error);
    CHECK(values(nn::float_operators::adaptive_avg_pool2d(x, {1, 1})) ==
          std::vector<float>{static_cast<float>(-22.0 / 6)});
    CHECK(values(nn::float_operators::adaptive_avg_pool2d(x, {2, 2})) ==
          std::vector<float>{-1.5f, -2.5f, -4.5f, -6.0f});
    CHECK_THROWS_AS(nn::float_operators::max_pool2d(x, nn::square_window(2, 1, 2)), Error);
}

TEST_CASE("Element-wise operators by hand") {
    const Tensor x = Tensor::from(Shape(1, 3), {-1.0f, 4.0f, 8.0f}), y = Tensor::from(Shape(1, 3), {1.0f, 1.0f, 1.0f});
    CHECK(values(nn::float_operators::relu(x)) == std::vector<float>{0, 4, 8});
    CHECK(values(nn::float_operators::relu6(x)) == std::vector<float>{0, 4, 6});
    CHECK(values(nn::float_operators::add(x, y)) == std::vector<float>{0, 5, 9});
    CHECK(values((nn::Value(x) + 0.5).tensor()) == std::vector<float>{-0.5f, 4.5f, 8.5f});
    CHECK(values(nn::cat({x, y}, 1).tensor()) == std::vector<float>{-1, 4, 8, 1, 1, 1});
    CHECK(nn::cat({x, y}, 0).tensor().shape() == Shape(2, 3));
    CHECK(nn::flatten(Tensor::zeros(Shape(2, 3, 4, 5)), 1).tensor().shape() == Shape(2, 60));
    CHECK(nn::flatten(Tensor::zeros(Shape(2, 3, 4, 5)), 1, 2).tensor().shape() == Shape(2, 12, 5));
    CHECK(message_of<Error>([&] { nn::float_operators::add(x, Tensor::zeros(Shape(2))); }) ==
          "add: the operands have shapes (1, 3) and (2); counted from the end their extents must be equal or 1");
    CHECK_THROWS_AS(nn::cat({x, Tensor::zeros(Shape(2, 3))}, 1), Error);
}

TEST_CASE("Softmax sums to 1, does not overflow, and follows its axis") {
    const Tensor x = Tensor::from(Shape(1, 2, 2), {1000.0f, 0.0f, 1000.0f, 0.0f});
    CHECK(values(nn::float_operators::softmax(x, 1)) == std::vector<float>{0.5f, 0.5f, 0.5f, 0.5f});
    CHECK(values(nn::float_operators::softmax(x, -1)) == std::vector<float>{1, 0, 1, 0});
    CHECK(values(nn::Softmax(1, true)(Tensor::zeros(Shape(1, 2, 2))).tensor()) ==
          std::vector<float>{0.25f, 0.25f, 0.25f, 0.25f});
}

TEST_CASE("Operators that only move or clamp values keep the qparams of their input, others do not") {
    Tensor x = test::random_tensor(Shape(1, 2, 4, 4), 3);
    x.set_qparams(intq::OwnedQParams::per_tensor(0.5f, DType::int8));
    CHECK(nn::float_operators::relu(x).qparams() == x.qparams());
    CHECK(nn::float_operators::max_pool2d(x, nn::square_window(2)).qparams() == x.qparams());
    CHECK(nn::float_operators::flatten(x).qparams() == x.qparams());
    CHECK_FALSE(nn::float_operators::avg_pool2d(x, nn::square_window(2)).qparams().has_value());
    CHECK_FALSE(nn::DeQuantStub()(x).tensor().qparams().has_value());
}

TEST_CASE("Codes are padded with the code of 0, and with nothing else") {
    intq::Tensor codes = intq::Tensor::from<std::int8_t>(Shape(1, 1, 1, 2), {5, -7});
    const index_t around[] = {1, 2};
    CHECK_THROWS_AS(nn::float_operators::pad(codes, around), Error);
    OwnedQParams qparams = OwnedQParams::per_tensor(0.5f, DType::int8);
    qparams.zero_points = {3};
    codes.set_qparams(qparams);
    const intq::Tensor padded = nn::float_operators::pad(codes, around);
    const auto values = padded.flat<std::int8_t>();
    CHECK(std::vector<std::int8_t>(values.begin(), values.end()) == std::vector<std::int8_t>{3, 5, -7, 3, 3});
    CHECK(padded.qparams() == codes.qparams());
    CHECK_THROWS_AS(nn::float_operators::pad(codes, around, 1.0), Error);
}

TEST_CASE("Dropout passes in evaluation; in training it drops about p of the elements and scales the others") {
    nn::Dropout dropout(0.25);
    const Tensor x = Tensor::full(Shape(10000), 3.0f);
    const std::vector<float> y = values(dropout(x).tensor());
    const auto dropped = std::count(y.begin(), y.end(), 0.0f);
    CHECK(dropped > 2300);
    CHECK(dropped < 2700);
    CHECK(std::count(y.begin(), y.end(), 4.0f) == 10000 - dropped);
    dropout.eval();
    CHECK(dropout(x).tensor().shares_buffer_with(x));
}
