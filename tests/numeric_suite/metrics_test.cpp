// SPDX-License-Identifier: MIT
#include "intq/numeric_suite/metrics/metrics.hpp"
#include "intq/numeric_suite/metrics/tensor_comparison.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "intq/io/error.hpp"
#include "support/catch.hpp"

using namespace intq::numeric_suite;
using nlohmann::json;

namespace {

// Hexadecimal floats, "nan" and "inf" alike.
double number(const json& text) { return std::strtod(text.get<std::string>().c_str(), nullptr); }

std::vector<float> floats(const json& tensor) {
    std::vector<float> result;
    for (const json& text : tensor.at("data")) result.push_back(static_cast<float>(number(text)));
    return result;
}

void check_near(float actual, double expected, double margin) {
    if (std::isnan(expected)) {
        CHECK(std::isnan(actual));
    } else if (std::isinf(expected)) {
        CHECK(static_cast<double>(actual) == expected);
    } else {
        CHECK(std::abs(static_cast<double>(actual) - expected) <= margin);
    }
}

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("The metrics equal PyTorch's on the golden cases") {
    // PyTorch sums in float32, so its own last digits differ between versions; the margins cover just that.
    constexpr double decibels = 2e-5, ratio = 3e-6;
    std::ifstream file(std::string(INTQ_TESTS_DIR) + "/golden/metrics.json");
    const json cases = json::parse(file).at("cases");
    REQUIRE(cases.size() == 20);
    for (const json& row : cases) {
        INFO(row.at("name"));
        const std::vector<float> x = floats(row.at("a")), y = floats(row.at("b"));
        check_near(compute_sqnr(x, y), number(row.at("sqnr")), decibels);
        check_near(compute_normalized_l2_error(x, y), number(row.at("normalized_l2")), ratio);
        check_near(compute_cosine_similarity(x, y), number(row.at("cosine").at(0)), ratio);
        const json& horizon = row.at("horizon");
        check_near(compute_sqnr(x, y), number(horizon.at("SQNR")), decibels);
        check_near(compute_cosine_similarity(x, y), number(horizon.at("Cosine")), ratio);
        check_near(compute_mse(x, y), number(horizon.at("MSE")), ratio * std::abs(number(horizon.at("MSE"))));
        check_near(compute_l1(x, y), number(horizon.at("L1")), ratio * std::abs(number(horizon.at("L1"))));
        intq::Shape shape;
        for (const json& extent : row.at("a").at("shape")) shape[shape.rank++] = extent.get<intq::index_t>();
        const double kl = number(horizon.at("KL"));
        check_near(compute_kl(x, y, shape), kl, 1e-6 * std::abs(kl) + 1e-12);
        check_near(compute_atol(x, y), number(horizon.at("Atol")), 0.0);
        check_near(compute_rtol(x, y), number(horizon.at("Rtol")), 0.0);

        TensorComparison all;
        all.add(x, y, shape);
        check_near(static_cast<float>(all.mse()), static_cast<double>(compute_mse(x, y)), 0.0);
        check_near(static_cast<float>(all.cosine()), static_cast<double>(compute_cosine_similarity(x, y)), 0.0);
        check_near(static_cast<float>(all.l1()), static_cast<double>(compute_l1(x, y)), 0.0);
        check_near(static_cast<float>(all.kl()), static_cast<double>(compute_kl(x, y, shape)), 0.0);
        check_near(static_cast<float>(all.sqnr()), static_cast<double>(compute_sqnr(x, y)), 0.0);
        check_near(static_cast<float>(all.atol()), static_cast<double>(compute_atol(x, y)), 0.0);
        check_near(static_cast<float>(all.rtol()), static_cast<double>(compute_rtol(x, y)), 0.0);
    }
}

TEST_CASE("The metrics are those of their formulas, worked out by hand") {
    const std::vector<float> x{3, 4}, y{3, 3};
    check_near(compute_sqnr(x, y), 20 * std::log10(5.0), 2e-6);
    check_near(compute_normalized_l2_error(x, y), 0.2, 2e-6);
    check_near(compute_cosine_similarity(x, y), 21 / (5 * std::sqrt(18.0)), 2e-6);
    CHECK(compute_mse(x, y) == 0.5f);
    CHECK(compute_l1(x, y) == 0.5f);
    CHECK(compute_l1(y, x) == 0.5f);
}

TEST_CASE("KL takes the softmax along the channels of images and along the last axis elsewhere") {
    // softmax (0, ln 3) = (1/4, 3/4) against (1/2, 1/2): 1/4 ln 1/2 + 3/4 ln 3/2, over two elements.
    const float three = std::log(3.0f);
    const double expected = (0.25 * std::log(0.5) + 0.75 * std::log(1.5)) / 2;
    check_near(compute_kl(std::vector<float>{0, three}, std::vector<float>{5, 5}, intq::Shape(1, 2)), expected, 1e-7);
    check_near(compute_kl(std::vector<float>{0, three}, std::vector<float>{5, 5}, intq::Shape(1, 2, 1, 1)), expected,
               1e-7);
    // Two pixels of one channel: each softmax is 1.
    check_near(compute_kl(std::vector<float>{0, three}, std::vector<float>{5, 5}, intq::Shape(1, 1, 1, 2)), 0.0, 1e-12);
    CHECK_THROWS_AS(compute_kl(std::vector<float>{0, 1}, std::vector<float>{0, 1}, intq::Shape(3)), intq::Error);
}

TEST_CASE("A comparison of two streams is that of all their elements") {
    const std::vector<float> x{1, 2, 3, 4}, y{1, 2.5f, 3, 3};
    TensorComparison parts, whole;
    whole.add(x, y, intq::Shape(2, 2));
    for (const std::size_t at : {0u, 2u})
        parts.add(std::span(x).subspan(at, 2), std::span(y).subspan(at, 2), intq::Shape(1, 2));
    CHECK(parts.count() == 4);
    CHECK(parts.mse() == whole.mse());
    CHECK(parts.kl() == whole.kl());
    CHECK(parts.mse() == 1.25 / 4);
    CHECK(parts.l1() == 1.5 / 4);
    CHECK(parts.atol() == 1.0);
    CHECK(parts.rtol() == 0.25);
}

TEST_CASE("Squares that overflow float do not overflow the metrics, and small ones are not lost") {
    const std::vector<float> x{1e30f, -2e30f}, y{1e30f, -1e30f};
    check_near(compute_sqnr(x, y), 10 * std::log10(5.0), 2e-6);
    check_near(compute_normalized_l2_error(x, y), std::sqrt(0.2), 2e-6);
    check_near(compute_cosine_similarity(x, y), 3 / std::sqrt(10.0), 2e-6);
    const std::vector<float> tiny{1e-30f, 0}, half{5e-31f, 0};
    check_near(compute_sqnr(tiny, half), 20 * std::log10(2.0), 2e-6);
    check_near(compute_cosine_similarity(tiny, tiny), 0.0, 1e-40);  // by the clamp of its length
}

TEST_CASE("A long sum keeps its digits") {
    const std::vector<float> x(1 << 22, 0.1f), y(1 << 22, 0.0f);
    CHECK(compute_l1(x, y) == 0.1f);
    check_near(compute_mse(x, y), 0.01, 1e-8);
}

TEST_CASE("Equal, zero, empty and NaN operands give the documented values") {
    const std::vector<float> x{1, 2}, zero{0, 0}, bad{1, not_a_number}, none;
    CHECK(compute_sqnr(x, x) == infinity);
    CHECK(compute_sqnr(zero, x) == -infinity);
    CHECK(std::isnan(compute_sqnr(zero, zero)));
    CHECK(compute_normalized_l2_error(zero, x) == infinity);
    CHECK(compute_cosine_similarity(x, zero) == 0.0f);
    for (const auto metric :
         {compute_sqnr, compute_cosine_similarity, compute_normalized_l2_error, compute_mse, compute_l1}) {
        CHECK(std::isnan(metric(bad, x)));
        CHECK(std::isnan(metric(x, bad)));
    }
    CHECK(std::isnan(compute_sqnr(none, none)));
    CHECK(std::isnan(compute_mse(none, none)));
    CHECK(std::isnan(compute_l1(none, none)));
}

TEST_CASE("Operands of different size are refused with both sizes") {
    const std::vector<float> x{1, 2}, y{1};
    for (const auto metric :
         {compute_sqnr, compute_cosine_similarity, compute_normalized_l2_error, compute_mse, compute_l1})
        CHECK_THROWS_WITH(metric(x, y), "a metric compares tensors of one size, given 2 and 1 elements");
}
