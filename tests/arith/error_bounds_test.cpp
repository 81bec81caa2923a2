// SPDX-License-Identifier: MIT
//
// docs/arithmetic.md section 7, measured again: errors of the definitions against real arithmetic, in output codes,
// where nothing saturates. And how often the targets disagree with each other. Prints what it measures.
#include <cmath>
#include <cstdio>

#include "arith/targets.hpp"
#include "intq/arith/conv.hpp"
#include "intq/arith/elementwise.hpp"
#include "intq/arith/pool.hpp"
#include "intq/arith/quantized_multiplier.hpp"
#include "intq/arith/tflite_functions.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using arith::RequantizeSource;
using arith::ShiftRounding;
using arith::SumRange;

/// The largest errors of both signs; a code at an end of its range may be saturated and does not count.
class Errors {
public:
    explicit Errors(DType output) : lowest_(lowest_code(output)), highest_(highest_code(output)) {}

    void add(std::int32_t code, double real) {
        if (code <= lowest_ || code >= highest_) return;
        const double error = static_cast<double>(code) - real;
        below = std::min(below, error);
        above = std::max(above, error);
        ++points;
    }
    /// Prints, and checks that the bounds hold and that the points came near enough to them to mean something.
    void check(const char* what, double lowest, double highest, double reached = 0.75) const {
        std::printf("error of %-44s %+.4f .. %+.4f  (bound %+.4f .. %+.4f, %ld points)\n", what, below, above, lowest,
                    highest, static_cast<long>(points));
        INFO(what);
        CHECK(points > 200'000);
        CHECK(below >= lowest);
        CHECK(above <= highest);
        CHECK((below <= reached * lowest || above >= reached * highest));
    }

    double below = 0.0, above = 0.0;
    std::int64_t points = 0;

private:
    std::int64_t lowest_, highest_;
};

/// A ratio whose 16-bit multiplier is as wrong as it can be, or any.
float hard_ratio(Random& random, double low, double high) {
    const float r = random.scale(low, high);
    if (!random.one_in(2)) return r;
    int exponent = 0;
    std::frexp(r, &exponent);
    const auto k = static_cast<float>(random.one_in(2) ? random.between(16384, 16400) : random.between(16384, 32767));
    return std::ldexp((k + (random.one_in(2) ? 0.5f : 0.498046875f)) * 0x1p-15f, exponent);
}

/// An accumulator whose real result lies anywhere in the output's range.
std::int64_t accumulator_for(Random& random, double r, DType output, std::int64_t limit) {
    const double reach = static_cast<double>(highest_code(output)) / r;
    const double most = std::min(reach, static_cast<double>(limit));
    const auto bound = std::max<std::int64_t>(1, static_cast<std::int64_t>(most));
    if (random.one_in(4)) {  // the largest codes feel the multiplier's error most
        const std::int64_t acc = bound - random.between(0, bound / 64);
        return random.one_in(2) ? acc : -acc;
    }
    return random.between(-bound, bound);
}

Errors measure_accumulator(DType output, ShiftRounding post, std::uint64_t seed) {
    Random random(seed);
    Errors errors(output);
    for (int i = 0; i < 30'000; ++i) {
        const float r = hard_ratio(random, -26, 4);
        const auto params = arith::make_two_stage(r, 1.0f, output, RequantizeSource::gemm_accumulator, 17);
        const auto pre = output == DType::int16 ? ShiftRounding::half_up : ShiftRounding::floor;
        const auto words = arith::two_stage::make(params->multiplier, params->pre, pre, params->post, post);
        const auto codes =
            arith::make_output_codes(lowest_code(output), highest_code(output), 0, 1.0f, Activation::none);
        for (int k = 0; k < 40; ++k) {
            const std::int64_t acc = accumulator_for(random, static_cast<double>(r), output, INT32_MAX);
            errors.add(requantize<target::bpu<march::bayes>>(static_cast<std::int32_t>(acc), words, codes),
                       static_cast<double>(acc) * static_cast<double>(r));
        }
    }
    return errors;
}

Errors measure_code(DType output, std::uint64_t seed) {
    Random random(seed);
    Errors errors(output);
    for (int i = 0; i < 30'000; ++i) {
        const DType input = random.one_in(2) ? DType::int8 : DType::int16;
        const float r = hard_ratio(random, -8, 8);
        const auto words = *arith::make_requantize_words(target::bpu<march::bayes>::policy, RequantizeSource::code,
                                                         {r, 1.0f, 1.0f}, input, output, 0);
        const auto codes =
            arith::make_output_codes(lowest_code(output), highest_code(output), 0, 1.0f, Activation::none);
        for (int k = 0; k < 40; ++k) {
            const std::int64_t code = accumulator_for(random, static_cast<double>(r), output, highest_code(input));
            errors.add(requantize<target::bpu<march::bayes>>(static_cast<std::int32_t>(code), words, codes),
                       static_cast<double>(code) * static_cast<double>(r));
        }
    }
    return errors;
}

Errors measure_add(DType dtype, std::uint64_t seed) {
    Random random(seed);
    Errors errors(dtype);
    for (int i = 0; i < 20'000; ++i) {
        const float s_x = random.scale(-8, 0), s_y = s_x * random.scale(-3, 3);
        const float s_out = std::max(s_x, s_y) * random.scale(-1, 1);
        const auto codes =
            arith::make_output_codes(lowest_code(dtype), highest_code(dtype), 0, s_out, Activation::none);
        const auto params = arith::make_add(target::bpu<march::bayes>::policy, {s_x, 0, dtype}, {s_y, 0, dtype},
                                            {s_out, 0, dtype}, codes);
        const arith::AddLanes<arith::two_stage, scalar_lanes> formula(*params);
        const ref::QParams any = codes_of(dtype, 1.0f);
        for (int k = 0; k < 100; ++k) {
            const auto x = static_cast<std::int32_t>(random.code(any)), y = static_cast<std::int32_t>(random.code(any));
            const double real =
                static_cast<double>(x) * static_cast<double>(s_x) + static_cast<double>(y) * static_cast<double>(s_y);
            errors.add(formula.code(x, y), real / static_cast<double>(s_out));
        }
    }
    return errors;
}

/// Products of two codes of one type, to a grid that holds from an eighth of the largest one to all of it.
template <class TargetType> Errors measure_mul(DType in, DType out, std::uint64_t seed) {
    using Policy = arith::RequantizePolicy<TargetType, std::int32_t>;
    Random random(seed);
    Errors errors(out);
    const double largest =
        std::pow(static_cast<double>(highest_code(in)), 2.0) / static_cast<double>(highest_code(out));
    for (int i = 0; i < 20'000; ++i) {
        const float s_x = random.scale(-8, 0), s_y = random.scale(-8, 0);
        const float s_out = static_cast<float>(largest * static_cast<double>(s_x * s_y)) * random.scale(-3, 0);
        const auto codes = arith::make_output_codes(lowest_code(out), highest_code(out), 0, s_out, Activation::none);
        const auto params = arith::make_mul(TargetType::policy, {s_x, 0, in}, {s_y, 0, in}, {s_out, 0, out}, codes);
        if (!params.ok()) continue;
        const arith::MulLanes<Policy, scalar_lanes> formula(
            *params, Policy::template load<scalar_lanes>(params->words.data(), 1));
        const ref::QParams any = codes_of(in, 1.0f);
        for (int k = 0; k < 60; ++k) {
            const auto x = static_cast<std::int32_t>(random.code(any)), y = static_cast<std::int32_t>(random.code(any));
            errors.add(formula.code(x, y), static_cast<double>(x) * static_cast<double>(y) * static_cast<double>(s_x) *
                                               static_cast<double>(s_y) / static_cast<double>(s_out));
        }
    }
    return errors;
}

Errors measure_average(DType dtype, std::uint64_t seed) {
    Random random(seed);
    Errors errors(dtype);
    for (int i = 0; i < 20'000; ++i) {
        const index_t cells = random.one_in(4) ? 65'536 : random.between(1, 300);
        const float s_in = random.scale(-8, 0), s_out = s_in / hard_ratio(random, 0, 1);
        const auto codes =
            arith::make_output_codes(lowest_code(dtype), highest_code(dtype), 0, s_out, Activation::none);
        const auto params = arith::make_average(target::bpu<march::bayes>::policy, {s_in, 0, dtype}, {s_out, 0, dtype},
                                                codes, cells, PoolDivisor::kernel_cells, false);
        const arith::Average<scalar_lanes> average(*params);
        for (int k = 0; k < 60; ++k) {
            const std::int64_t sum = random.between(lowest_code(dtype) * cells, highest_code(dtype) * cells);
            errors.add(average.code(static_cast<std::int32_t>(sum), cells, *params),
                       static_cast<double>(sum) * static_cast<double>(s_in) /
                           (static_cast<double>(cells) * static_cast<double>(s_out)));
        }
    }
    return errors;
}

/// To the grids that TFLite's files have: no code of the output is coarser than 8 of the input's.
template <class TargetType> Errors measure_mean(DType dtype, std::uint64_t seed) {
    Random random(seed);
    Errors errors(dtype);
    for (int i = 0; i < 20'000; ++i) {
        const index_t cells = random.one_in(4) ? 65'536 : random.between(1, 300);
        const float s_in = random.scale(-8, 0), s_out = s_in * random.scale(-6, 3);
        const auto codes =
            arith::make_output_codes(lowest_code(dtype), highest_code(dtype), 0, s_out, Activation::none);
        const auto params = arith::make_mean(TargetType::policy, {s_in, 0, dtype}, {s_out, 0, dtype}, codes, cells);
        const arith::Average<scalar_lanes> average(*params);
        const double ratio = static_cast<double>(s_in) / (static_cast<double>(cells) * static_cast<double>(s_out));
        const auto reach = std::min(static_cast<std::int64_t>(1.0 + static_cast<double>(highest_code(dtype)) / ratio),
                                    std::int64_t{highest_code(dtype)} * cells);
        for (int k = 0; k < 60; ++k) {
            const std::int64_t sum = random.between(-reach, reach);
            errors.add(average.code(static_cast<std::int32_t>(sum), cells, *params), static_cast<double>(sum) * ratio);
        }
    }
    return errors;
}

/// As many cells as a sum may have without leaving 32 bits, to grids on which the largest codes are sums of some cells.
template <class TargetType> Errors measure_sum(DType dtype, std::uint64_t seed) {
    Random random(seed);
    Errors errors(dtype);
    for (int i = 0; i < 20'000; ++i) {
        const index_t cells = random.one_in(4) ? 65'536 : random.between(1, 300);
        const float s_in = random.scale(-8, 0), s_out = s_in * static_cast<float>(cells) * random.scale(-6, 3);
        const auto codes =
            arith::make_output_codes(lowest_code(dtype), highest_code(dtype), 0, s_out, Activation::none);
        const auto params = arith::make_sum(TargetType::policy, {s_in, 0, dtype}, {s_out, 0, dtype}, codes, cells);
        const arith::Average<scalar_lanes> average(*params);
        const double ratio = static_cast<double>(s_in) / static_cast<double>(s_out);
        const auto reach = std::min(static_cast<std::int64_t>(1.0 + static_cast<double>(highest_code(dtype)) / ratio),
                                    std::int64_t{highest_code(dtype)} * cells);
        for (int k = 0; k < 60; ++k) {
            const std::int64_t sum = random.between(-reach, reach);
            errors.add(average.code(static_cast<std::int32_t>(sum), cells, *params), static_cast<double>(sum) * ratio);
        }
    }
    return errors;
}

/// In bounds of section "Squared difference of TFLite": of codes of one scale these are codes, else parts of the bound.
Errors measure_squared_difference(bool is_one_scale, std::uint64_t seed) {
    const auto scaled = [](std::int32_t x, const arith::QuantizedMultiplier& by) {
        return arith::multiply_by_quantized_multiplier<arith::double_rounding>(x, by.multiplier, by.shift);
    };
    Random random(seed);
    Errors errors(DType::int8);
    for (int i = 0; i < 20'000; ++i) {
        const float s_x = random.scale(-8, 0), s_y = is_one_scale ? s_x : s_x * random.scale(-4, 4);
        const float unit = std::max(s_x, s_y) / 64.0f, s_out = unit * unit * random.scale(4, 24);
        const auto by = *arith::make_squared_difference(s_x, s_y, s_out);
        for (int k = 0; k < 60; ++k) {
            const auto x = static_cast<std::int32_t>(random.between(-255, 255)),
                       y = static_cast<std::int32_t>(random.between(-255, 255));
            const std::int32_t d = scaled(x * 128, by.x) - scaled(y * 128, by.y), code = scaled(d * d, by.square);
            const double real = static_cast<double>(x) * static_cast<double>(s_x) -
                                static_cast<double>(y) * static_cast<double>(s_y),
                         steps = real * real / static_cast<double>(s_out), u = static_cast<double>(unit);
            const double bound = 0.7501 + (1.5 * std::fabs(real) * u + 0.57 * u * u) / static_cast<double>(s_out);
            errors.add(code, is_one_scale ? steps : code - (code - steps) / bound);
        }
    }
    return errors;
}

Errors measure_fp32_sumin(DType dtype, std::uint64_t seed) {
    using arith::float_scale;
    Random random(seed);
    Errors errors(dtype);
    for (int i = 0; i < 20'000; ++i) {
        const float s_in = random.scale(-8, 0), s_w = random.scale(-12, -4), s_out = random.scale(-8, 0),
                    s_e = s_out * random.scale(-2, 1);
        const double r = static_cast<double>(s_in) * static_cast<double>(s_w) / static_cast<double>(s_out);
        const auto words = *arith::make_requantize_words(target::fp32::policy, RequantizeSource::gemm_accumulator,
                                                         {s_in, s_w, s_out}, dtype, dtype, 0);
        const auto sumin = *arith::make_sumin(target::fp32::policy, {s_e}, s_in, s_w, s_out, 32);
        const auto codes =
            arith::make_output_codes(lowest_code(dtype), highest_code(dtype), 0, s_out, Activation::none);
        for (int k = 0; k < 60; ++k) {
            const std::int64_t acc = accumulator_for(random, r, dtype, INT32_MAX),
                               e = random.between(lowest_code(dtype), highest_code(dtype));
            const auto y = float_scale::apply_sumin<scalar_lanes>(
                static_cast<std::int32_t>(acc), static_cast<std::int32_t>(e),
                float_scale::load<scalar_lanes>(words.data(), 1),
                float_scale::load_sumin<scalar_lanes>(sumin.words.data(), 1), arith::OutputLanes<scalar_lanes>(codes));
            errors.add(y, static_cast<double>(acc) * r +
                              static_cast<double>(e) * static_cast<double>(s_e) / static_cast<double>(s_out));
        }
    }
    return errors;
}

}  // namespace

TEST_CASE("errors: requantizing an accumulator stays inside the bounds of section 7") {
    measure_accumulator(DType::int8, ShiftRounding::half_up, 71).check("accumulator -> int8, SH_R", -0.512, 0.504);
    measure_accumulator(DType::int16, ShiftRounding::half_up, 72).check("accumulator -> int16, SH_R", -2.0, 2.0);
    measure_accumulator(DType::int8, ShiftRounding::floor, 73).check("accumulator -> int8, SH_F", -1.012, 0.004);
    measure_accumulator(DType::int16, ShiftRounding::floor, 74).check("accumulator -> int16, SH_F", -2.5, 1.5);
}

TEST_CASE("errors: a code in, add, average stay inside the bounds of section 7") {
    measure_code(DType::int8, 75).check("code -> int8", -0.504, 0.504);
    measure_code(DType::int16, 76).check("code -> int16", -1.5, 1.5);
    measure_add(DType::int8, 77).check("add, int8", -0.516, 0.508);
    measure_add(DType::int16, 78).check("add, int16", -3.0, 3.0, 0.6);
    measure_average(DType::int8, 79).check("average, int8", -0.508, 0.508);
    measure_average(DType::int16, 80).check("average, int16", -2.01, 2.01);
    for (const DType dtype : {DType::int8, DType::int16}) {
        measure_mean<target::tflite<>>(dtype, 87).check("mean of tflite", -0.7501, 0.7501);
        measure_mean<target::tflite<arith::single_rounding>>(dtype, 88).check("mean of tflite, single rounding",
                                                                              -0.5001, 0.5001);
        measure_sum<target::tflite<>>(dtype, 89).check("sum of tflite", -0.7501, 0.7501);
        measure_sum<target::tflite<arith::single_rounding>>(dtype, 90).check("sum of tflite, single rounding", -0.5001,
                                                                             0.5001);
    }
    measure_sum<target::fp32>(DType::int8, 91).check("sum of fp32, int8", -0.5001, 0.5001);
    measure_sum<target::fp32>(DType::int16, 92).check("sum of fp32, int16", -0.51, 0.51);
    measure_sum<target::bpu<march::bayes>>(DType::int8, 93).check("sum of bayes, int8", -0.512, 0.504);
    measure_sum<target::bpu<march::bayes>>(DType::int16, 94).check("sum of bayes, int16", -2.01, 2.01);
}

TEST_CASE("errors: mul stays inside the bounds of section 7") {
    using bayes = target::bpu<march::bayes>;
    measure_mul<bayes>(DType::int8, DType::int8, 89).check("mul of bpu, int8", -0.512, 0.504);
    measure_mul<bayes>(DType::int16, DType::int16, 90).check("mul of bpu, int16", -2.01, 2.01, 0.6);
    measure_mul<target::fp32>(DType::int8, DType::int8, 91).check("mul of fp32, int8", -0.5001, 0.5001);
    measure_mul<target::fp32>(DType::int16, DType::int16, 92).check("mul of fp32, int16", -0.51, 0.51);
    measure_mul<target::tflite<>>(DType::int8, DType::int8, 93).check("mul of tflite, int8", -0.7501, 0.7501, 0.6);
    measure_mul<target::tflite<>>(DType::int16, DType::int16, 94).check("mul of tflite, int16", -0.51, 0.51);
    measure_squared_difference(true, 95).check("squared difference of tflite, one scale", -0.5313, 0.5313);
    measure_squared_difference(false, 96).check("squared difference of tflite, part of its bound", -1.0, 1.0);
}

TEST_CASE("errors: fp32 with a fused add stays inside the bounds of section 7") {
    measure_fp32_sumin(DType::int8, 81).check("fp32 with sumin, int8", -0.5001, 0.5001);
    measure_fp32_sumin(DType::int16, 82).check("fp32 with sumin, int16", -0.51, 0.51);
}

TEST_CASE("disagreements: targets differ by at most one code, some often, some hardly ever") {
    constexpr int points = 1'000'000;
    Random random(83);
    std::array<std::array<int, 5>, 5> differ{};
    int far = 0, lite_above_half = 0, lite_below = 0, lite_below_points = 0;
    for (int i = 0; i < points / 100; ++i) {
        const float s_in = random.scale(-8, 0), s_w = random.scale(-12, -6), s_out = s_in * s_w * random.scale(-1, 14);
        const double r = static_cast<double>(s_in) * static_cast<double>(s_w) / static_cast<double>(s_out);
        const auto words = [&](const PolicyRecord& policy) {
            return *arith::make_requantize_words(policy, RequantizeSource::gemm_accumulator, {s_in, s_w, s_out},
                                                 DType::int8, DType::int8, SumRange{-(1 << 24), 1 << 24});
        };
        const auto fp32 = words(target::fp32::policy), lite = words(target::tflite<>::policy),
                   once = words(target::tflite<arith::single_rounding>::policy),
                   bernoulli2 = words(target::bpu<march::bernoulli2>::policy),
                   bayes = words(target::bpu<march::bayes>::policy);
        for (int k = 0; k < 100; ++k) {
            const auto acc = static_cast<std::int32_t>(accumulator_for(random, r, DType::int8, 1 << 24));
            const std::array<std::int32_t, 5> y{requantize<target::fp32>(acc, fp32, {}),
                                                requantize<target::tflite<>>(acc, lite, {}),
                                                requantize<target::tflite<arith::single_rounding>>(acc, once, {}),
                                                requantize<target::bpu<march::bernoulli2>>(acc, bernoulli2, {}),
                                                requantize<target::bpu<march::bayes>>(acc, bayes, {})};
            for (std::size_t a = 0; a < y.size(); ++a)
                for (std::size_t b = 0; b < y.size(); ++b) {
                    differ[a][b] += y[a] != y[b];
                    far += std::abs(y[a] - y[b]) > 1;
                }
            (r >= 0.5 ? lite_above_half : lite_below) += y[1] != y[2];
            lite_below_points += r < 0.5;
        }
    }
    const char* const names[] = {"fp32", "tflite", "tflite_single", "bernoulli2", "bayes"};
    std::printf("of %d accumulators to int8, disagreements between targets:\n%16s", points, "");
    for (const char* name : names) std::printf("%16s", name);
    for (std::size_t a = 0; a < differ.size(); ++a) {
        std::printf("\n%16s", names[a]);
        for (const int count : differ[a]) std::printf("%16d", count);
    }
    std::printf("\ntflite's two roundings below r = 1/2: %.2f %%\n", 100.0 * lite_below / lite_below_points);
    CHECK(far == 0);
    CHECK(lite_above_half == 0);
    CHECK(lite_below > lite_below_points / 200);
    CHECK(lite_below < lite_below_points / 10);
    CHECK(differ[3][4] > points / 3);   // floor against half up
    CHECK(differ[0][4] < points / 20);  // fp32 against bayes: 16-bit multiplier and PRE only
    CHECK(differ[0][4] > 0);
    CHECK(differ[0][2] < points / 100);
}

TEST_CASE("disagreements: tflite's roundings differ in a few percent of results below r = 1/2") {
    Random random(84);
    int differ = 0, points = 0;
    for (int i = 0; i < 10'000; ++i) {
        const float r = random.scale(-12, -1.001);
        const auto make = [&](const PolicyRecord& policy) {
            return *arith::make_requantize_words(policy, RequantizeSource::gemm_accumulator, {r, 1.0f, 1.0f},
                                                 DType::int8, DType::int8, SumRange{-(1 << 24), 1 << 24});
        };
        const auto twice = make(target::tflite<>::policy), once = make(target::tflite<arith::single_rounding>::policy);
        for (int k = 0; k < 100; ++k, ++points) {
            const auto acc =
                static_cast<std::int32_t>(accumulator_for(random, static_cast<double>(r), DType::int8, 1 << 24));
            differ += requantize<target::tflite<>>(acc, twice, {}) !=
                      requantize<target::tflite<arith::single_rounding>>(acc, once, {});
        }
    }
    std::printf("tflite's two roundings, r from 2^-12 to 2^-1: %.2f %%\n", 100.0 * differ / points);
    CHECK(differ > points * 2 / 100);
    CHECK(differ < points * 8 / 100);
}
