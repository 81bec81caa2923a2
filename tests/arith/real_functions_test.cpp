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
    {"exp", &arith::real_exp, [](long double x) { return std::exp(x); }, -708.0, 709.0, 2.0},
    {"expm1", &arith::real_expm1, [](long double x) { return std::expm1(x); }, -40.0, 40.0, 4.0},
    {"tanh", &arith::real_tanh, [](long double x) { return std::tanh(x); }, -20.0, 20.0, 6.0},
    {"log1p", &arith::real_log1p, [](long double x) { return std::log1p(x); }, 1e-30, 1.0, 5.0},
    {"log", &arith::real_log, [](long double x) { return std::log(x); }, 1e-30, 1e30, 3.0},
    {"sqrt", &arith::real_sqrt, [](long double x) { return std::sqrt(x); }, 1e-30, 1e30, 0.5},
};

double ulp_of(long double value) {
    int exponent = 0;
    std::frexp(value, &exponent);
    return std::ldexp(1.0, exponent - 53);
}

/// Points of every magnitude in [least, most], around 1 and around the powers of two as well.
template <class Visit> void for_each_point(double least, double most, Visit visit) {
    std::mt19937_64 random(20240701);
    for (int i = 0; i < 40000; ++i) {
        const double magnitude = std::exp2(std::uniform_real_distribution<>(-100.0, 100.0)(random));
        const double near_one = 1.0 + std::ldexp(static_cast<double>(random() % 2000) - 1000.0, -11 - i % 40);
        for (const double x : {magnitude, -magnitude, near_one, std::uniform_real_distribution<>(least, most)(random)})
            if (x >= least && x <= most) visit(x);
    }
    for (int exponent = -60; exponent <= 60; ++exponent)
        for (const double x : {std::ldexp(1.0, exponent), -std::ldexp(1.0, exponent)})
            for (const double near : {x, std::nextafter(x, infinity), std::nextafter(x, -infinity)})
                if (near >= least && near <= most) visit(near);
}

constexpr std::array points{-700.0, -30.25,  -5.5, -1.0,   -0.5, -0.3, -1e-9, 0.0, 1e-300, 1e-9,
                            0.1,    0.34375, 0.51, 0.6875, 1.0,  2.75, 5.9,   6.0, 80.125, 700.0};

using Bits = std::array<std::array<std::uint64_t, 7>, points.size()>;
constexpr Bits bits_of_all() {
    Bits bits{};
    for (std::size_t i = 0; i < points.size(); ++i) {
        const double x = arith::value_barrier(points[i]);
        // A NaN's bits are not promised.
        bits[i] = {std::bit_cast<std::uint64_t>(arith::real_exp(x)),
                   std::bit_cast<std::uint64_t>(arith::real_expm1(x)),
                   std::bit_cast<std::uint64_t>(arith::real_tanh(x)),
                   std::bit_cast<std::uint64_t>(arith::real_erf(x)),
                   std::bit_cast<std::uint64_t>(arith::real_log(x < 0.0 ? -x : x)),
                   std::bit_cast<std::uint64_t>(arith::real_sqrt(x < 0.0 ? -x : x)),
                   std::bit_cast<std::uint64_t>(arith::real_log1p(arith::real_exp(x < 0.0 ? x : -x)))};
    }
    return bits;
}

}  // namespace

TEST_CASE("Each function is as close to the real number as its header says") {
    if (std::numeric_limits<long double>::digits < 64) {
        WARN("long double has no more bits than double here");
        return;
    }
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
            std::fabs(static_cast<long double>(arith::real_erf(x)) - std::erf(static_cast<long double>(x)));
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
        if (std::isfinite(x) && x >= std::numeric_limits<double>::min() && arith::real_sqrt(x) != std::sqrt(x)) ++wrong;
    }
    for (double x = 1.0; x < 5000.0; x += 1.0) {
        wrong += arith::real_sqrt(x * x) != x;
        wrong += arith::real_sqrt(x) != std::sqrt(x);
    }
    CHECK(wrong == 0);
}

TEST_CASE("Ends of the domains") {
    CHECK(arith::real_exp(infinity) == infinity);
    CHECK(arith::real_exp(709.5) == infinity);
    CHECK(arith::real_exp(-infinity) == 0.0);
    CHECK(std::isnan(arith::real_exp(NAN)));
    CHECK(arith::real_exp(0.0) == 1.0);
    CHECK(arith::real_expm1(-infinity) == -1.0);
    CHECK(std::isnan(arith::real_expm1(NAN)));
    CHECK(arith::real_tanh(infinity) == 1.0);
    CHECK(arith::real_tanh(-1e30) == -1.0);
    CHECK((arith::real_tanh(-0.0) == 0.0 && std::signbit(arith::real_tanh(-0.0))));
    CHECK(std::isnan(arith::real_tanh(NAN)));
    CHECK(arith::real_erf(infinity) == 1.0);
    CHECK(arith::real_erf(-6.0) == -1.0);
    CHECK(std::isnan(arith::real_erf(NAN)));
    CHECK(arith::real_log1p(0.0) == 0.0);
    CHECK(arith::real_log1p(1e-300) == 1e-300);
    CHECK(std::isnan(arith::real_log1p(NAN)));
    CHECK(arith::real_log(0.0) == -infinity);
    CHECK(arith::real_log(infinity) == infinity);
    CHECK(std::isnan(arith::real_log(-1.0)));
    CHECK(arith::real_log(1.0) == 0.0);
    CHECK(arith::real_sqrt(0.0) == 0.0);
    CHECK(arith::real_sqrt(infinity) == infinity);
    CHECK(std::isnan(arith::real_sqrt(-1.0)));
}

TEST_CASE("What runs has the bits that the compiler computes, whatever flags it was given") {
    static constexpr Bits expected = bits_of_all();
    CHECK(bits_of_all() == expected);
}
