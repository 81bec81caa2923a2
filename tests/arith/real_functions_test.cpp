// SPDX-License-Identifier: MIT
//
// The functions of real_functions.hpp against those of the math library in long double.
#include "intq/arith/real_functions.hpp"

#include <cmath>
#include <limits>
#include <random>

#include "support/catch.hpp"

namespace {

using namespace intq;

/// |a - exact| in units of the last place of the exact value.
double distance(double a, long double exact) {
    int exponent = 0;
    (void)std::frexp(static_cast<double>(exact), &exponent);
    const int place = std::max(exponent - 53, -1074);
    return static_cast<double>(std::fabs(static_cast<long double>(a) - exact) / std::ldexp(1.0L, place));
}

/// The largest distance over arguments between the bounds, and over small ones.
template <class Function, class Exact>
double worst(const Function& function, const Exact& exact, double low, double high) {
    std::mt19937_64 random(5);
    std::uniform_real_distribution<double> value(low, high), exponent(-60.0, 0.0);
    double largest = 0.0;
    for (int i = 0; i < 200000; ++i) {
        double x = value(random);
        if (i % 2 == 1) x = std::fmin(std::fmax(x * std::exp2(exponent(random)), low), high);
        largest = std::fmax(largest, distance(function(x), exact(static_cast<long double>(x))));
    }
    return largest;
}

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("real functions are near the exact ones") {
    if (std::numeric_limits<long double>::digits < 64) {
        WARN("long double has no more bits than double here");
        return;
    }
    CHECK(worst(
              arith::real_exp, [](long double x) { return std::exp(x); }, -708.0, 709.0) <= 2.0);
    CHECK(worst(
              arith::real_expm1, [](long double x) { return std::expm1(x); }, -40.0, 40.0) <= 4.0);
    CHECK(worst(
              arith::real_tanh, [](long double x) { return std::tanh(x); }, -25.0, 25.0) <= 8.0);
    CHECK(worst(
              arith::real_log, [](long double x) { return std::log(x); }, 1e-300, 20.0) <= 4.0);
    CHECK(worst(
              arith::real_log, [](long double x) { return std::log(x); }, 0.9, 1.1) <= 4.0);
    CHECK(worst(
              arith::real_erf, [](long double x) { return std::erf(x); }, -7.0, 7.0) <= 16.0);
}

TEST_CASE("real functions know zeros, infinities and NaN") {
    for (const auto function : {arith::real_exp, arith::real_expm1, arith::real_tanh, arith::real_log, arith::real_erf})
        CHECK(std::isnan(function(not_a_number)));
    CHECK(arith::real_exp(infinity) == infinity);
    CHECK(arith::real_exp(-infinity) == 0.0);
    CHECK(arith::real_exp(0.0) == 1.0);
    CHECK(arith::real_exp(-745.0) == 0x1p-1074);
    CHECK(arith::real_expm1(-infinity) == -1.0);
    CHECK(arith::real_tanh(-infinity) == -1.0);
    CHECK((arith::real_tanh(-0.0) == 0.0 && std::signbit(arith::real_tanh(-0.0))));
    CHECK(arith::real_erf(-infinity) == -1.0);
    CHECK(arith::real_log(0.0) == -infinity);
    CHECK(std::isnan(arith::real_log(-1.0)));
    CHECK(arith::real_log(infinity) == infinity);
    CHECK(arith::real_log(1.0) == 0.0);
    static_assert(arith::real_exp(1.0) > 2.718281828459 && arith::real_exp(1.0) < 2.71828182846);
}
