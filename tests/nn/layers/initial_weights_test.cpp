// SPDX-License-Identifier: MIT
//
// What new layers begin with, against PyTorch's documents of each layer: kaiming_uniform_(a = sqrt(5)) of a fan-in that
// is written here by hand.
#include "intq/nn/layers/initial_weights.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "support/catch.hpp"
#include "support/small_models.hpp"

using namespace intq;
using intq::Tensor;

namespace {

// Made before anything seeds the generator.
const nn::Linear first_layer({64, 64});

std::vector<double> sorted(const Tensor& tensor) {
    const auto values = tensor.flat<float>();
    std::vector<double> result(values.begin(), values.end());
    std::sort(result.begin(), result.end());
    return result;
}

/// The largest distance of the empirical distribution to another one (Kolmogorov and Smirnov), times the root of the
/// number of values; 1.95 is exceeded once in a thousand.
double distance(const Tensor& tensor, const std::function<double(double)>& distribution) {
    const std::vector<double> values = sorted(tensor);
    const double n = static_cast<double>(values.size());
    double largest = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double expected = distribution(values[i]);
        largest = std::max({largest, std::abs(expected - static_cast<double>(i) / n),
                            std::abs(expected - static_cast<double>(i + 1) / n)});
    }
    return largest * std::sqrt(n);
}

/// torch.nn.init: gain = sqrt(2/(1 + a²)), std = gain/sqrt(fan), bound = sqrt(3)·std.
double kaiming_bound(double a, double fan) { return std::sqrt(3.0) * std::sqrt(2.0 / (1.0 + a * a)) / std::sqrt(fan); }

void check_uniform(const Tensor& tensor, double bound) {
    const std::vector<double> values = sorted(tensor);
    CHECK(std::max(-values.front(), values.back()) <= bound * (1.0 + 1e-7));
    CHECK(distance(tensor, [&](double x) { return std::clamp((x / bound + 1.0) / 2.0, 0.0, 1.0); }) < 1.95);
    double mean = 0.0, square = 0.0;
    for (const double value : values) mean += value, square += value * value;
    const double n = static_cast<double>(values.size());
    mean /= n, square /= n;
    CHECK(std::abs(mean) < 4.0 * bound / std::sqrt(3.0 * n));
    // The variance of x² of a uniform x is 4/45·bound⁴.
    CHECK(std::abs(square - bound * bound / 3.0) < 4.0 * bound * bound * std::sqrt(4.0 / 45.0 / n));
}

struct Layer {
    const char* name;
    nn::ModulePtr module;
    double fan_in;  // as PyTorch counts it: size(1) of the weight times the window, transposed or not
};

}  // namespace

TEST_CASE("Weights and biases of new layers have the distributions and bounds of PyTorch's") {
    const nn::float_operators::DepthWindow depth{2};
    const Layer layers[] = {
        {"Linear", std::make_shared<nn::Linear>(nn::LinearOptions{48, 96}), 48},
        {"Conv1d", std::make_shared<nn::Conv1d>(nn::Conv1dOptions{.in_channels = 24, .out_channels = 96, .kernel = 5}),
         24 * 5},
        {"Conv2d, groups", std::make_shared<nn::Conv2d>(nn::Conv2dOptions{24, 96, {{3, 2}, {1, 1}, {}, {1, 1}}, 4}),
         6 * 3 * 2},
        {"Conv3d", std::make_shared<nn::Conv3d>(nn::Conv3dOptions{8, 64, depth, nn::square_window(3)}), 8 * 2 * 9},
        {"ConvTranspose1d", std::make_shared<nn::ConvTranspose1d>(nn::ConvTranspose1dOptions{24, 64, 5}), 64 * 5},
        {"ConvTranspose2d, groups",
         std::make_shared<nn::ConvTranspose2d>(nn::ConvTranspose2dOptions{24, 64, nn::square_window(3), {}, 4}),
         16 * 9},
        {"ConvTranspose3d",
         std::make_shared<nn::ConvTranspose3d>(nn::ConvTranspose3dOptions{8, 64, depth, nn::square_window(3)}),
         64 * 2 * 9},
    };
    for (const Layer& layer : layers) {
        INFO(layer.name);
        const double bound = kaiming_bound(std::sqrt(5.0), layer.fan_in);
        CHECK(std::abs(bound - 1.0 / std::sqrt(layer.fan_in)) < 1e-12);
        check_uniform(layer.module->tensor("weight"), bound);
        check_uniform(layer.module->tensor("bias"), 1.0 / std::sqrt(layer.fan_in));
    }
    nn::LSTM lstm({24, 36, 2, true, false, true});
    CHECK(lstm.parameters().size() == 16);
    for (const auto& parameter : lstm.parameters()) {
        INFO(parameter.name);
        check_uniform(parameter.value, 1.0 / 6.0);
    }
    const Tensor normal = nn::Embedding({400, 30}).weight();
    CHECK(distance(normal, [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2.0; }) < 1.95);

    for (const nn::ModulePtr& norm : {nn::ModulePtr(std::make_shared<nn::BatchNorm2d>(nn::BatchNormOptions{3})),
                                      nn::ModulePtr(std::make_shared<nn::LayerNorm>(Shape(3)))})
        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(norm->tensor("weight").flat<float>()[i] == 1.0f);
            CHECK(norm->tensor("bias").flat<float>()[i] == 0.0f);
        }
}

TEST_CASE("A model that is built from scratch computes something") {
    nn::Sequential model{std::make_shared<nn::Conv2d>(nn::Conv2dOptions{1, 4, nn::square_window(3)}),
                         std::make_shared<nn::ReLU>(), std::make_shared<nn::Flatten>(),
                         std::make_shared<nn::Linear>(nn::LinearOptions{16, 2})};
    const Tensor y = model(test::random_tensor(Shape(2, 1, 4, 4), 1)).tensor();
    CHECK(y.flat<float>()[0] != 0.0f);
    CHECK(y.flat<float>()[0] != y.flat<float>()[2]);
}

TEST_CASE("manual_seed decides the weights of the layers that follow, and is 0 without a call") {
    const auto weights = [] {
        const nn::Linear one({64, 64}), other({64, 64});
        CHECK(test::largest_difference(one.weight(), other.weight()) > 0);
        return std::vector{one.weight(), one.bias(), other.weight(), other.bias()};
    };
    manual_seed(0);
    const auto by_default = weights();
    manual_seed(7);
    const auto first = weights(), next = weights();
    manual_seed(7);
    const auto again = weights();
    CHECK(test::largest_difference(first_layer.weight(), by_default[0]) == 0);
    for (std::size_t i = 0; i < first.size(); ++i) {
        CHECK(test::largest_difference(first[i], again[i]) == 0);
        CHECK(test::largest_difference(first[i], next[i]) > 0);
        CHECK(test::largest_difference(first[i], by_default[i]) > 0);
    }
}

TEST_CASE("In a SkipInitScope layers begin with zeros and take nothing from the generator") {
    manual_seed(3);
    const nn::Linear expected({8, 8});
    manual_seed(3);
    {
        const nn::SkipInitScope scope;
        for (const nn::ModulePtr& layer :
             {nn::ModulePtr(std::make_shared<nn::Conv2d>(nn::Conv2dOptions{2, 2, nn::square_window(3)})),
              nn::ModulePtr(std::make_shared<nn::Embedding>(nn::EmbeddingOptions{4, 2})),
              nn::ModulePtr(std::make_shared<nn::LSTM>(nn::LSTMOptions{2, 2}))})
            for (const auto& parameter : layer->parameters())
                for (const float value : parameter.value.flat<float>()) CHECK(value == 0.0f);
    }
    CHECK(test::largest_difference(nn::Linear({8, 8}).weight(), expected.weight()) == 0);
}
