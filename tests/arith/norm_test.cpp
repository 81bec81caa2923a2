// SPDX-License-Identifier: MIT
//
// Batch norm folding against PyTorch's numbers, to the last bit.
#include "intq/arith/norm.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/golden.hpp"

namespace {

using nlohmann::json;
using namespace intq;
using intq::test::golden_float;
using intq::test::golden_floats;
using intq::test::same_bits;

std::vector<float> floats_or_none(const json& texts) {
    return texts.is_null() ? std::vector<float>{} : golden_floats(texts);
}

struct Folded {
    std::vector<float> weights, bias;
};

Folded fold(const ChannelBlocks& blocks, const std::vector<float>& weights, const std::vector<float>& bias,
            const arith::BatchNormTerms& norm, arith::BatchNormOrder order) {
    Folded folded{std::vector<float>(weights.size()), std::vector<float>(static_cast<std::size_t>(blocks.channels))};
    REQUIRE(arith::check_fold_batch_norm(blocks, weights, bias, norm, folded.weights, folded.bias).ok());
    arith::fold_batch_norm(blocks, weights, bias, norm, order, folded.weights, folded.bias);
    return folded;
}

}  // namespace

TEST_CASE("Folding equals PyTorch's on the golden cases, convolution and linear each in its own order") {
    const json cases = intq::test::golden_cases("folding");
    REQUIRE(cases.size() == 6);
    int orders_differ = 0;
    for (const json& row : cases) {
        const std::string kind = row.at("kind");
        INFO(kind << " " << row.at("name"));
        // A step of training moves the statistics; folding then starts from those.
        const bool trained = kind == "qat_conv_bn";
        const std::string suffix = trained ? "_after" : "";
        const std::vector<float> weights = golden_floats(row.at("weight").at("data")),
                                 bias = floats_or_none(row.at("bias"));
        const std::vector<float> mean = golden_floats(row.at("running_mean" + suffix));
        const std::vector<float> variance = golden_floats(row.at("running_var" + suffix));
        const std::vector<float> gamma = golden_floats(row.at("gamma")), beta = golden_floats(row.at("beta"));
        const arith::BatchNormTerms norm{mean, variance, gamma, beta, golden_float(row.at("eps"))};
        const auto channels = static_cast<index_t>(mean.size());
        const ChannelBlocks blocks{1, channels, static_cast<index_t>(weights.size()) / channels};
        const bool linear = kind == "linear_bn_fold";
        const auto order = linear ? arith::BatchNormOrder::linear : arith::BatchNormOrder::conv;
        const auto other = linear ? arith::BatchNormOrder::conv : arith::BatchNormOrder::linear;
        const Folded folded = fold(blocks, weights, bias, norm, order);
        CHECK(same_bits(folded.weights, golden_floats(row.at("folded_weight" + suffix))));
        CHECK(same_bits(folded.bias, golden_floats(row.at("folded_bias" + suffix))));
        orders_differ += !same_bits(folded.bias, fold(blocks, weights, bias, norm, other).bias);
    }
    CHECK(orders_differ > 0);
}

TEST_CASE("Channels may lie along any axis; gamma, beta and bias may be missing") {
    const std::vector<float> mean{1, 2}, variance{0.25f, 4}, gamma{3, 5}, weights{1, 2, 3, 4, 5, 6, 7, 8};
    // A transposed convolution: (in 2, out 2, 2), channels along axis 1. epsilon is 0: roots are exact.
    const ChannelBlocks blocks{2, 2, 2};
    const Folded plain = fold(blocks, weights, {}, {mean, variance, {}, {}, 0.0f}, arith::BatchNormOrder::conv);
    CHECK(plain.weights == std::vector<float>{2, 4, 1.5f, 2, 10, 12, 3.5f, 4});
    CHECK(plain.bias == std::vector<float>{-2, -1});
    const std::vector<float> bias{3, 4}, beta{0.5f, -1};
    const Folded full = fold(blocks, weights, bias, {mean, variance, gamma, beta, 0.0f}, arith::BatchNormOrder::linear);
    CHECK(full.weights == std::vector<float>{6, 12, 7.5f, 10, 30, 36, 17.5f, 20});
    CHECK(full.bias == std::vector<float>{12.5f, 4});
}

TEST_CASE("Folding rounds each product before it is added") {
    // A product of two floats is exact in double, so that one conversion rounds it once.
    std::mt19937 random(31);
    std::normal_distribution<float> normal;
    constexpr std::size_t channels = 2000;
    std::vector<float> mean, variance, gamma, beta, expected, weights(channels, 1.0f), folded(channels), bias(channels);
    int contracted_differ = 0;
    for (std::size_t c = 0; c < channels; ++c) {
        mean.push_back(normal(random));
        variance.push_back(normal(random) * normal(random) + 40.0f);
        gamma.push_back(normal(random));
        beta.push_back(normal(random));
        const double factor = static_cast<float>(static_cast<double>(gamma[c]) *
                                                 static_cast<double>(arith::inverse_deviation(variance[c], 1e-5f)));
        const double product = -static_cast<double>(mean[c]) * factor;
        const double rounded = static_cast<float>(product);
        expected.push_back(static_cast<float>(rounded + static_cast<double>(beta[c])));
        contracted_differ += expected[c] != static_cast<float>(product + static_cast<double>(beta[c]));
    }
    CHECK(contracted_differ > 100);
    const arith::BatchNormTerms norm{mean, variance, gamma, beta};
    arith::fold_batch_norm({1, channels, 1}, weights, {}, norm, arith::BatchNormOrder::linear, folded, bias);
    CHECK(same_bits(bias, expected));
}

TEST_CASE("The square root is the nearest float: every significand, subnormals, ends") {
    // One even and one odd exponent have all significands there are.
    std::uint32_t wrong = 0;
    for (std::uint32_t bits = std::bit_cast<std::uint32_t>(1.0f); bits < std::bit_cast<std::uint32_t>(4.0f); ++bits)
        wrong += arith::square_root(std::bit_cast<float>(bits)) != std::sqrt(std::bit_cast<float>(bits));
    CHECK(wrong == 0);
    for (std::uint32_t bits = 1; bits < 0x7f800000u; bits += 65521)
        wrong += arith::square_root(std::bit_cast<float>(bits)) != std::sqrt(std::bit_cast<float>(bits));
    CHECK(wrong == 0);
    CHECK(arith::square_root(0.0f) == 0.0f);
    CHECK(arith::square_root(std::numeric_limits<float>::denorm_min()) == 0x1.6a09e6p-75f);
    CHECK(arith::square_root(std::numeric_limits<float>::max()) == 0x1.fffffep+63f);
    static_assert(arith::square_root(2.0f) == 0x1.6a09e6p+0f);
}

TEST_CASE("Folding refuses extents that do not fit and variances without a root") {
    std::vector<float> weights(12), folded(12), folded_bias(3);
    const std::vector<float> three(3, 1.0f), two(2, 1.0f), none;
    const ChannelBlocks blocks{1, 3, 4};
    const auto check = [&](const arith::BatchNormTerms& norm, const std::vector<float>& bias) {
        return arith::check_fold_batch_norm(blocks, weights, bias, norm, folded, folded_bias);
    };
    CHECK(check({three, three, three, three}, three).ok());
    CHECK(check({three, three, none, none}, none).ok());
    const Status mismatch{StatusCode::shape_mismatch, OpKind::conv2d, Field::channels, 2, 3};
    CHECK(check({two, three, none, none}, none) == mismatch);
    CHECK(check({three, two, none, none}, none) == mismatch);
    CHECK(check({three, three, two, none}, none) == mismatch);
    CHECK(check({three, three, none, two}, none) == mismatch);
    CHECK(check({three, three, none, none}, two) == mismatch);
    weights.pop_back();
    CHECK(check({three, three, none, none}, none) ==
          Status{StatusCode::shape_mismatch, OpKind::conv2d, Field::weight, 11, 12});
    weights.push_back(0);
    for (const float bad :
         {-1.0f, -1e-5f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        const std::vector<float> variance{1.0f, bad, 1.0f};
        CHECK(check({three, variance, none, none}, none) ==
              Status{StatusCode::value_out_of_range, OpKind::conv2d, Field::input, 1, 0});
    }
}
