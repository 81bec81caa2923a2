// SPDX-License-Identifier: MIT
//
// Losses, optimizers and schedules against PyTorch's numbers.
#include "intq/training/optimizer.hpp"

#include <cmath>
#include <limits>

#include "intq/training/loss.hpp"
#include "intq/training/schedule.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/golden_tensor.hpp"

using namespace intq;
using Catch::Matchers::Contains;
using intq::Tensor;
using nlohmann::json;
using test::golden_tensor;

namespace {

double number(const json& text) { return std::strtod(text.get<std::string>().c_str(), nullptr); }

void check_near(const Tensor& tensor, const json& expected, double bound) {
    REQUIRE(static_cast<std::size_t>(tensor.size()) == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(std::fabs(static_cast<double>(tensor.flat<float>()[i]) - number(expected[i])) <=
              bound * std::max(1.0, std::fabs(number(expected[i]))));
}

std::unique_ptr<training::Optimizer> optimizer_of(const std::string& name) {
    using training::AdamOptions;
    using training::SGDOptions;
    if (name == "sgd") return std::make_unique<training::SGD>();
    if (name == "sgd_momentum") return std::make_unique<training::SGD>(SGDOptions{0.9, 0.0, 0.01, false});
    if (name == "sgd_dampening") return std::make_unique<training::SGD>(SGDOptions{0.8, 0.3, 0.0, false});
    if (name == "sgd_nesterov") return std::make_unique<training::SGD>(SGDOptions{0.9, 0.0, 0.1, true});
    if (name == "adam") return std::make_unique<training::Adam>();
    if (name == "adam_decay") return std::make_unique<training::Adam>(AdamOptions{0.8, 0.99, 1e-4, 0.1, false});
    REQUIRE(name == "adamw");
    return std::make_unique<training::Adam>(AdamOptions{0.9, 0.999, 1e-8, 0.1, true});
}

}  // namespace

TEST_CASE("The losses and their gradients equal PyTorch's") {
    const json golden = test::golden_cases("training").at("losses");
    const Tensor logits = golden_tensor(golden.at("logits"));
    const auto labels = golden.at("labels").get<std::vector<index_t>>();
    int cases = 0;
    for (const json& row : golden.at("rows")) {
        const std::string name = row.at("name");
        INFO(name);
        training::Loss loss;
        if (name == "cross_entropy") loss = training::cross_entropy(logits, labels);
        if (name == "cross_entropy_smoothed") loss = training::cross_entropy(logits, labels, 0.1);
        if (name == "mse") loss = training::mse_loss(logits, golden_tensor(golden.at("target")));
        if (name == "distillation")
            loss = training::distillation_loss(logits, golden_tensor(golden.at("teacher")), 2.0);
        REQUIRE(loss.gradient.defined());
        CHECK(std::fabs(loss.value - number(row.at("value"))) < 1e-12 * std::fabs(loss.value));
        check_near(loss.gradient, row.at("gradient"), 1e-7);
        ++cases;
    }
    CHECK(cases == 4);
}

TEST_CASE("Two losses combine") {
    const Tensor a = Tensor::from(Shape(1, 2), {1.0f, 2.0f}), b = Tensor::from(Shape(1, 2), {0.0f, 0.0f});
    const training::Loss loss = training::combine(training::mse_loss(a, b), 0.5, training::mse_loss(b, a), 2.0);
    CHECK(loss.value == 0.5 * 2.5 + 2.0 * 2.5);
    CHECK(loss.gradient.flat<float>()[1] == 0.5f * 2.0f - 2.0f * 2.0f);
}

TEST_CASE("Wrong arguments of a loss are refused") {
    const Tensor logits = Tensor::full(Shape(2, 3), 1.0f);
    const std::vector<index_t> good{0, 2}, high{0, 3}, low{-1, 0}, few{0};
    CHECK(training::cross_entropy(logits, good).value == Approx(std::log(3.0)));
    CHECK_THROWS_WITH(training::cross_entropy(logits, high), Contains("label of sample 1 is 3, expected 0 to 2"));
    CHECK_THROWS_WITH(training::cross_entropy(logits, low), Contains("label of sample 0 is -1"));
    CHECK_THROWS_WITH(training::cross_entropy(logits, few), Contains("1 labels given for 2"));
    CHECK_THROWS_WITH(training::cross_entropy(logits, good, 1.5), Contains("label smoothing"));
    CHECK_THROWS_WITH(training::cross_entropy(Tensor::full(Shape(2), 1.0f), good), Contains("expected (N, classes)"));
    CHECK_THROWS_WITH(training::mse_loss(logits, Tensor::full(Shape(3, 2), 1.0f)), Contains("must be equal"));
    CHECK_THROWS_WITH(training::distillation_loss(logits, logits, 0.0), Contains("temperature must be positive"));
}

TEST_CASE("The optimizers step as PyTorch's do") {
    const json golden = test::golden_cases("training").at("optimizers");
    int cases = 0;
    for (const json& row : golden.at("rows")) {
        INFO(row.at("name").get<std::string>());
        const auto optimizer = optimizer_of(row.at("name"));
        Tensor first = golden_tensor(golden.at("start")[0]), second = golden_tensor(golden.at("start")[1]);
        const std::vector<nn::Named<Tensor*>> parameters{{"first", &first}, {"second", &second}};
        for (std::size_t step = 0; step < row.at("steps").size(); ++step) {
            const json& gradient = golden.at("gradients")[step];
            optimizer->step(parameters,
                            {{"first", Tensor::from(first.shape(), test::golden_floats(gradient[0]))},
                             {"second", Tensor::from(second.shape(), test::golden_floats(gradient[1]))}},
                            number(golden.at("rates")[step]));
            check_near(first, row.at("steps")[step][0], 1e-6);
            check_near(second, row.at("steps")[step][1], 1e-6);
        }
        ++cases;
    }
    CHECK(cases == 7);
}

TEST_CASE("A parameter without a gradient keeps its value and state; a chosen one is not decayed") {
    training::Adam adam({0.9, 0.999, 1e-8, 0.5, true});
    adam.set_decays([](const std::string& name) { return name != "free"; });
    Tensor held = Tensor::full(Shape(1), 1.0f), free = held.clone(), decayed = held.clone();
    const Tensor zero = Tensor::zeros(Shape(1));
    adam.step({{"held", &held}, {"free", &free}, {"decayed", &decayed}}, {{"free", zero}, {"decayed", zero}}, 0.1);
    CHECK(held.flat<float>()[0] == 1.0f);
    CHECK(free.flat<float>()[0] == 1.0f);
    CHECK(decayed.flat<float>()[0] == Approx(0.95));
    CHECK(adam.state().count("held") == 0);
    CHECK_THROWS_WITH(
        adam.step({{"free", &free}, {"held", &held}}, {{"held", Tensor::zeros(Shape(2))}, {"free", held}}, 1.0),
        Contains("held: the gradient has shape (2)"));
    CHECK(free.flat<float>()[0] == 1.0f);
    CHECK_THROWS_WITH(training::SGD({0.0, 0.0, 0.0, true}), Contains("nesterov needs momentum"));
}

TEST_CASE("Options and rates that no optimizer can use are refused") {
    const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
    for (const double bad : {-3.0, nan, infinite}) {
        CHECK_THROWS_WITH(training::SGD({.momentum = bad}), Contains("SGD: momentum must be 0 or above and finite"));
        CHECK_THROWS_WITH(training::SGD({.dampening = bad}), Contains("SGD: dampening"));
        CHECK_THROWS_WITH(training::SGD({.weight_decay = bad}), Contains("SGD: weight_decay"));
        CHECK_THROWS_WITH(training::Adam({.beta1 = bad}), Contains("beta1 must be at least 0 and below 1"));
        CHECK_THROWS_WITH(training::Adam({.eps = bad}), Contains("Adam: eps"));
        CHECK_THROWS_WITH(training::Adam({.weight_decay = bad}), Contains("Adam: weight_decay"));
        training::SGD sgd;
        Tensor weight = Tensor::full(Shape(2), 1.0f);
        CHECK_THROWS_WITH(sgd.step({{"weight", &weight}}, {{"weight", weight.clone()}}, bad), Contains("the rate"));
        CHECK(weight.flat<float>()[0] == 1.0f);
    }
    CHECK_THROWS_WITH(training::Adam({.beta2 = 1.0}), Contains("given 1.0"));
}

TEST_CASE("The schedules equal PyTorch's, and a warm-up comes before one") {
    const json golden = test::golden_cases("training").at("schedules");
    const auto check = [](const training::Schedule& schedule, const json& rates) {
        for (std::size_t i = 0; i < rates.size(); ++i)
            CHECK(schedule(static_cast<std::int64_t>(i)) == Approx(number(rates[i])).epsilon(1e-12));
    };
    check(training::step_rate(0.4, 4, 0.3), golden.at("step"));
    check(training::cosine_rate(0.4, 10, 0.05), golden.at("cosine"));
    CHECK(training::cosine_rate(0.4, 10, 0.05)(50) == Approx(0.05));
    CHECK(training::constant_rate(0.3)(1000) == 0.3);
    const training::Schedule warm = training::warm_up(3, training::step_rate(0.8, 2, 0.5));
    const double expected[] = {0.2, 0.4, 0.6, 0.8, 0.8, 0.4};
    for (std::int64_t i = 0; i < 6; ++i) CHECK(warm(i) == Approx(expected[i]));
    CHECK_THROWS_WITH(training::step_rate(1.0, 0, 0.5), Contains("at least 1"));
    CHECK_THROWS_WITH(training::cosine_rate(1.0, 0), Contains("at least 1"));
    CHECK_THROWS_WITH(training::warm_up(-1, training::constant_rate(1.0)), Contains("must not be negative"));
}
