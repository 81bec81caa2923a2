// SPDX-License-Identifier: MIT
//
// Functions of real numbers against long double, and against themselves as the compiler evaluates them.
#include "intq/arith/real_functions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "support/catch.hpp"

using namespace intq;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct RealFunction {
    const char* name;
    double (*ours)(double);
    long double (*theirs)(long double);
    double least, most;
    double ulps;
};

constexpr RealFunction functions[] = {
    {"exp", &arith::exponential, [](long double x) { return std::exp(x); }, -708.0, 709.0, 2.0},
    {"expm1", &arith::exponential_less_one, [](long double x) { return std::expm1(x); }, -40.0, 40.0, 4.0},
    {"tanh", &arith::hyperbolic_tangent, [](long double x) { return std::tanh(x); }, -20.0, 20.0, 6.0},
    {"log", &arith::natural_log, [](long double x) { return std::log(x); }, 1e-30, 1e30, 3.0},
    {"sqrt", &arith::square_root, [](long double x) { return std::sqrt(x); }, 1e-30, 1e30, 0.5},
};

double ulp_of(long double value) {
    int exponent = 0;
    std::frexp(value, &exponent);
    return std::ldexp(1.0, exponent - 53);
}

/// Points of every magnitude in [least, most], around the powers of two as well.
template <class Visit> void for_each_point(double least, double most, Visit visit) {
    std::mt19937_64 random(20240701);
    for (int i = 0; i < 40000; ++i) {
        const double magnitude = std::exp2(std::uniform_real_distribution<>(-100.0, 100.0)(random));
        for (const double x : {magnitude, -magnitude, std::uniform_real_distribution<>(least, most)(random)})
            if (x >= least && x <= most) visit(x);
    }
    for (int exponent = -60; exponent <= 60; ++exponent)
        for (const double x : {std::ldexp(1.0, exponent), -std::ldexp(1.0, exponent)})
            for (const double near : {x, std::nextafter(x, infinity), std::nextafter(x, -infinity)})
                if (near >= least && near <= most) visit(near);
}

constexpr std::array points{-700.0, -30.25,  -5.5, -1.0,   -0.5, -0.3, -1e-9, 0.0, 1e-300, 1e-9,
                            0.1,    0.34375, 0.51, 0.6875, 1.0,  2.75, 5.9,   6.0, 80.125, 700.0};

using Bits = std::array<std::array<std::uint64_t, 6>, points.size()>;
constexpr Bits bits_of_all() {
    Bits bits{};
    for (std::size_t i = 0; i < points.size(); ++i) {
        const double x = arith::value_barrier(points[i]);
        // A NaN's bits are not promised.
        bits[i] = {std::bit_cast<std::uint64_t>(arith::exponential(x)),
                   std::bit_cast<std::uint64_t>(arith::exponential_less_one(x)),
                   std::bit_cast<std::uint64_t>(arith::hyperbolic_tangent(x)),
                   std::bit_cast<std::uint64_t>(arith::error_function(x)),
                   std::bit_cast<std::uint64_t>(arith::natural_log(x < 0.0 ? -x : x)),
                   std::bit_cast<std::uint64_t>(arith::square_root(x < 0.0 ? -x : x))};
    }
    return bits;
}

}  // namespace

TEST_CASE("Each function is as close to the real number as its header says") {
    for (const RealFunction& f : functions) {
        double worst = 0.0, at = 0.0;
        for_each_point(f.least, f.most, [&](double x) {
            const long double expected = f.theirs(static_cast<long double>(x));
            const double error =
                static_cast<double>(std::fabs(static_cast<long double>(f.ours(x)) - expected)) / ulp_of(expected);
            if (!(error <= worst)) worst = error, at = x;
        });
        INFO(f.name << ": " << worst << " ULP at " << at);
        CHECK(worst <= f.ulps);
    }
    double worst = 0.0;
    for_each_point(-7.0, 7.0, [&](double x) {
        const long double error =
            std::fabs(static_cast<long double>(arith::error_function(x)) - std::erf(static_cast<long double>(x)));
        worst = std::max(worst, static_cast<double>(error));
    });
    INFO("erf: " << worst);
    CHECK(worst <= 0x1p-48);
}

TEST_CASE("The square root is the nearest number, bit for bit") {
    std::mt19937_64 random(7);
    int wrong = 0;
    for (int i = 0; i < 300000; ++i) {
        const double x = std::bit_cast<double>(random() >> 1);
        if (std::isfinite(x) && x >= std::numeric_limits<double>::min() && arith::square_root(x) != std::sqrt(x))
            ++wrong;
    }
    for (double x = 1.0; x < 5000.0; x += 1.0) {
        wrong += arith::square_root(x * x) != x;
        wrong += arith::square_root(x) != std::sqrt(x);
    }
    CHECK(wrong == 0);
}

TEST_CASE("Ends of the domains") {
    CHECK(arith::exponential(infinity) == infinity);
    CHECK(arith::exponential(709.5) == infinity);
    CHECK(arith::exponential(-infinity) == 0.0);
    CHECK(std::isnan(arith::exponential(NAN)));
    CHECK(arith::exponential_less_one(-infinity) == -1.0);
    CHECK(arith::hyperbolic_tangent(infinity) == 1.0);
    CHECK(arith::hyperbolic_tangent(-1e30) == -1.0);
    CHECK(std::isnan(arith::hyperbolic_tangent(NAN)));
    CHECK(arith::error_function(infinity) == 1.0);
    CHECK(arith::error_function(-6.0) == -1.0);
    CHECK(std::isnan(arith::error_function(NAN)));
    CHECK(arith::natural_log(0.0) == -infinity);
    CHECK(arith::natural_log(infinity) == infinity);
    CHECK(std::isnan(arith::natural_log(-1.0)));
    CHECK(arith::natural_log(1.0) == 0.0);
    CHECK(arith::square_root(0.0) == 0.0);
    CHECK(arith::square_root(infinity) == infinity);
    CHECK(std::isnan(arith::square_root(-1.0)));
}

TEST_CASE("What runs has the bits that the compiler computes, whatever flags it was given") {
    static constexpr Bits expected = bits_of_all();
    CHECK(bits_of_all() == expected);
}
