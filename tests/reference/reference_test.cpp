// SPDX-License-Identifier: MIT
//
// The oracle itself, numbers: rounding, shifts, multipliers, quantize, requantize. Expectations come from
// docs/arithmetic.md's check vectors, from arithmetic done by hand, from other projects' definitions and from PyTorch.
#include "support/catch.hpp"

#include <cmath>
#include <limits>
#include <random>

#include "reference/fixed_point.hpp"
#include "reference/quantize.hpp"
#include "reference/requantize.hpp"
#include "reference/rounding.hpp"

using namespace intq_reference;

namespace {

std::int64_t pick(std::mt19937_64& random, std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random);
}

double pick_real(std::mt19937_64& random, double lowest, double highest) {
    return std::uniform_real_distribution<double>(lowest, highest)(random);
}

constexpr std::int64_t int32_min = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t int32_max = std::numeric_limits<std::int32_t>::max();
constexpr double tau = 1e-9;  // slack for evaluating a bound in double

Target bpu_with_post(ShiftRounding post, int pre_cap = 17) {
    Target t = bayes();
    t.pre_cap = pre_cap;
    t.post_gemm = post;
    t.post_other = post;
    return t;
}

QParams narrow(int bits, float scale) { return bits == 8 ? int8(scale) : int16(scale); }

}  // namespace

// --- rounding --------------------------------------------------------------------------------------------------------

TEST_CASE("reference: the three roundings of reals agree with values worked out by hand") {
    struct Row {
        double x, even, away, up;
    };
    const Row rows[] = {
        {0.0, 0, 0, 0},
        {0.5, 0, 1, 1},
        {-0.5, 0, -1, 0},
        {1.5, 2, 2, 2},
        {-1.5, -2, -2, -1},
        {2.5, 2, 3, 3},
        {-2.5, -2, -3, -2},
        {0.25, 0, 0, 0},
        {-0.75, -1, -1, -1},
        {static_cast<double>(0.49999997F), 0, 0, 0},  // floorf(v + 0.5f) gives 1
        {0.49999999999999994, 0, 0, 0},               // floor(v + 0.5) gives 1
        {-0.49999999999999994, 0, 0, 0},
        {-0.50000000000000011, -1, -1, -1},
        {127.49999999999999, 127, 127, 127},
        {4503599627370497.0, 4503599627370497.0, 4503599627370497.0, 4503599627370497.0},
        {-2251799813685248.5, -2251799813685248.0, -2251799813685249.0, -2251799813685248.0},
    };
    for (const Row& row : rows) {
        CAPTURE(row.x);
        CHECK(round_half_even(row.x) == row.even);
        CHECK(round_half_away(row.x) == row.away);
        CHECK(round_half_up(row.x) == row.up);
    }
    CHECK(to_int64(to_wide(-8388607.0)) == -8388607);
    CHECK(to_wide(std::numeric_limits<double>::infinity()) == power_of_two(100));
    CHECK_THROWS_AS(to_wide(std::nan("")), Refused);
}

TEST_CASE("reference: SH_F is the arithmetic shift and SH_R the int32 formula of docs/arithmetic.md section 0") {
    CHECK(to_int64(shift_floor(-1, 1)) == -1);
    CHECK(to_int64(shift_half_up(-1, 1)) == 0);
    CHECK(to_int64(shift_half_up(1, 1)) == 1);
    CHECK(to_int64(shift_half_up(-3, 1)) == -1);
    CHECK(to_int64(shift_half_up(5, 0)) == 5);
    CHECK(to_int64(floor_divide(-7, 2)) == -4);
    CHECK(to_int64(divide_half_away(-5, 2)) == -3);
    CHECK(to_int64(divide_half_away(5, 2)) == 3);
    CHECK(to_int64(divide_half_away(-4, 3)) == -1);
    std::mt19937_64 random(1);
    bool floor_agrees = true;
    bool half_up_agrees = true;
    for (int i = 0; i < 20000; ++i) {
        const std::int64_t edges[] = {int32_min, int32_max, 0, 1, -1, int32_min + 1};
        const std::int64_t x = i < 6 ? edges[i] : pick(random, int32_min, int32_max);  // 64 bits: see the last check
        for (int n = 1; n <= 31; ++n) {
            floor_agrees &= to_int64(shift_floor(x, n)) == (x >> n);
            half_up_agrees &= to_int64(shift_half_up(x, n)) == ((x >> (n - 1)) + 1) >> 1;
        }
    }
    CHECK(floor_agrees);
    CHECK(half_up_agrees);
    CHECK(to_int64(shift_half_up(int32_max, 1)) == 1 << 30);  // the formula's (x >> 0) + 1 would leave int32 here
}

TEST_CASE("reference: saturation and bit length") {
    CHECK(to_int64(clamp_bits(32768, 16)) == 32767);
    CHECK(to_int64(clamp_bits(-32769, 16)) == -32768);
    CHECK(to_int64(clamp_bits(-32768, 16)) == -32768);
    CHECK(bit_length(0) == 0);
    CHECK(bit_length(1) == 1);
    CHECK(bit_length(-32768) == 16);
    CHECK(bit_length(32767) == 15);
    CHECK(fits_signed(-128, 8));
    CHECK_FALSE(fits_signed(128, 8));
    CHECK(to_text(-1200) == "-1200");
}

TEST_CASE("reference: an integer becomes a float32 with one rounding, as the hardware does it") {
    std::mt19937_64 random(2);
    bool agrees = true;
    for (int i = 0; i < 200000; ++i) {
        const std::int64_t x =
            pick(random, std::numeric_limits<std::int64_t>::min() + 1, std::numeric_limits<std::int64_t>::max()) >>
            pick(random, 0, 62);
        agrees &= to_float32(x) == static_cast<float>(x);
    }
    CHECK(agrees);
    CHECK(to_float32(16777217) == 16777216.0F);  // ties to even, both ways
    CHECK(to_float32(16777219) == 16777220.0F);
    CHECK(to_float32(-16777219) == -16777220.0F);
    CHECK(to_float32(33554431) == 33554432.0F);
    const std::int64_t above_tie = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;  // a double drops the last 1
    CHECK(to_float32(above_tie) == std::ldexp(8388609.0F, 37));
    CHECK(static_cast<float>(static_cast<double>(above_tie)) == std::ldexp(8388608.0F, 37));
    CHECK(to_float32_rounded_up(0.1) >= 0.1);
    CHECK(to_float32_rounded_up(0.3) == 0.3F);  // 0.3F lies above 0.3 already
    CHECK(to_float32_rounded_up(0.7) == std::nextafter(0.7F, 1.0F));
}

TEST_CASE("reference: a product and a sum are two roundings whatever the compiler may contract") {
    volatile float a = 1.0F + std::ldexp(1.0F, -12);
    volatile float c = -(1.0F + std::ldexp(1.0F, -11));
    const float x = a;
    const float y = c;
    CHECK(fadd(fmul(x, x), y) == 0.0F);                 // x² = 1 + 2^-11 + 2^-24 is a tie, to even
    CHECK(std::fma(x, x, y) == std::ldexp(1.0F, -24));  // what one rounding would give
    CHECK(fdiv(1.0F, 3.0F) == 0x1.555556p-2F);
}

// --- fixed point -----------------------------------------------------------------------------------------------------

TEST_CASE("reference: SRDHM equals gemmlowp's definition by nudge and truncation") {
    std::mt19937_64 random(3);
    bool agrees = true;
    const std::int64_t edges[] = {int32_min, int32_min + 1, int32_max, 0, 1, -1, 1 << 30, -(1 << 30)};
    for (int i = 0; i < 300000; ++i) {
        const std::int64_t a = i < 64 ? edges[i / 8] : pick(random, int32_min, int32_max);
        const std::int64_t b = i < 64 ? edges[i % 8] : i % 3 == 0 ? edges[i % 8] : pick(random, int32_min, int32_max);
        const std::int64_t product = a * b;
        const std::int64_t nudge = product >= 0 ? (1 << 30) : 1 - (1 << 30);
        const std::int64_t expected =
            a == int32_min && b == int32_min ? int32_max : (product + nudge) / (std::int64_t{1} << 31);
        agrees &= to_int64(saturating_rounding_doubling_high_mul(a, b)) == expected;
    }
    CHECK(agrees);
    CHECK(to_int64(saturating_rounding_doubling_high_mul(int32_min, int32_min)) == int32_max);
}

TEST_CASE("reference: RDBPOT equals gemmlowp's definition by mask and threshold") {
    std::mt19937_64 random(4);
    bool agrees = true;
    for (int i = 0; i < 30000; ++i) {
        const std::int64_t x = i < 64 ? i - 32 : i == 64 ? int32_min : pick(random, int32_min, int32_max);
        for (int n = 0; n <= 31; ++n) {
            const std::int64_t mask = (std::int64_t{1} << n) - 1;
            const std::int64_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
            const std::int64_t expected = (x >> n) + ((x & mask) > threshold ? 1 : 0);
            agrees &= to_int64(rounding_divide_by_power_of_two(x, n)) == expected;
        }
    }
    CHECK(agrees);
    CHECK(to_int64(rounding_divide_by_power_of_two(-6, 2)) == -2);  // -1.5, away from zero
    CHECK(to_int64(rounding_divide_by_power_of_two(6, 2)) == 2);
}

TEST_CASE("reference: tflite multipliers at the edges of their shift") {
    struct Row {
        double r;
        std::int64_t multiplier;
        int shift;
    };
    const std::int64_t half = std::int64_t{1} << 30;
    const Row rows[] = {{0.5, half, 0},
                        {1.0, half, 1},
                        {0.75, 3 * (half / 2), 0},
                        {1.0 - std::ldexp(1.0, -33), half, 1},  // rounds to 2^31, so it is halved
                        {std::ldexp(1.0, -32), half, -31},
                        {std::ldexp(1.0, -33), 0, 0},  // shift -32
                        {std::ldexp(1.0, 29), half, 30}};
    for (const Row& row : rows) {
        CAPTURE(row.r);
        const TfliteMultiplier m = make_tflite_multiplier(row.r, false);
        CHECK(to_int64(m.multiplier) == row.multiplier);
        CHECK(m.shift == row.shift);
    }
    CHECK_THROWS_AS(make_tflite_multiplier(std::ldexp(1.0, 30), false), Refused);  // shift 31
    const TfliteMultiplier capped = make_tflite_multiplier(std::ldexp(1.0, 30), true);
    CHECK(capped.shift == 30);
    CHECK(to_int64(capped.multiplier) == int32_max);
    CHECK(to_int64(multiply_single_rounding(1, capped)) == std::int64_t{1} << 30);
    CHECK_THROWS_AS(make_tflite_multiplier(0.0, true), Refused);
    CHECK_THROWS_AS(make_tflite_multiplier(std::nan(""), true), Refused);
}

TEST_CASE("reference: tflite's two roundings at shift -31 and 30") {
    const TfliteMultiplier low = make_tflite_multiplier(std::ldexp(1.0, -32), false);
    CHECK(to_int64(multiply_double_rounding(int32_min, low)) == -1);  // -1/2 away from zero
    CHECK(to_int64(multiply_single_rounding(int32_min, low)) == 0);   // -1/2 up
    CHECK(to_int64(multiply_double_rounding(int32_max, low)) == 1);   // SRDHM has rounded to 2^30 before
    CHECK(to_int64(multiply_single_rounding(int32_max, low)) == 0);
    const TfliteMultiplier high = make_tflite_multiplier(std::ldexp(1.0, 29), false);
    CHECK(to_int64(multiply_double_rounding(1, high)) == std::int64_t{1} << 29);
    CHECK(to_int64(multiply_double_rounding(-2, high)) == -(std::int64_t{1} << 30));
    CHECK_THROWS_AS(multiply_double_rounding(2, high), Refused);  // 2·2^30 leaves int32
    CHECK(to_int64(multiply_single_rounding(2, high)) == std::int64_t{1} << 30);
}

TEST_CASE("reference: tflite's roundings agree from 1/2 up and differ by one in about 3 % below") {
    std::mt19937_64 random(5);
    int differing = 0;
    int differing_above = 0;
    std::int64_t largest = 0;
    const int count = 200000;
    for (int i = 0; i < count; ++i) {
        const double below = std::exp2(pick_real(random, -12.0, -1.0));
        const double above = std::exp2(pick_real(random, -1.0, 3.0));
        const std::int64_t y = pick(random, -200, 200);
        const auto acc = static_cast<std::int64_t>(static_cast<double>(y) / below) + pick(random, -9, 9);
        const wide d = multiply_double_rounding(acc, make_tflite_multiplier(below, false)) -
                       multiply_single_rounding(acc, make_tflite_multiplier(below, true));
        differing += d == 0 ? 0 : 1;
        largest = std::max(largest, std::abs(to_int64(d)));
        const std::int64_t any = pick(random, -100000000, 100000000);
        differing_above += multiply_double_rounding(any, make_tflite_multiplier(above, false)) ==
                                   multiply_single_rounding(any, make_tflite_multiplier(above, true))
                               ? 0
                               : 1;
    }
    const double share = static_cast<double>(differing) / count;
    CAPTURE(share);
    CHECK(differing_above == 0);
    CHECK(largest == 1);
    CHECK(share > 0.01);
    CHECK(share < 0.06);
}

TEST_CASE("reference: tflite's 16-bit multiplier for int64 accumulators, from shift -31 to 7") {
    CHECK(to_int64(reduce_to_16_bits(0x40000000)) == 0x4000);
    CHECK(to_int64(reduce_to_16_bits(0x40008000)) == 0x4001);
    CHECK(to_int64(reduce_to_16_bits(0x40007FFF)) == 0x4000);
    CHECK(to_int64(reduce_to_16_bits(0x7FFEFFFF)) == 0x7FFF);
    CHECK(to_int64(reduce_to_16_bits(0x7FFF0000)) == 0x7FFF);
    CHECK(to_int64(reduce_to_16_bits(0x7FFFFFFF)) == 0x7FFF);  // rounding would give 0x8000
    const TfliteMultiplier by_64 = make_tflite_multiplier(64.0, false);
    CHECK(by_64.shift == 7);
    CHECK(to_int64(multiply_int64_accumulator(-3, by_64)) == -192);
    CHECK_THROWS_AS(multiply_int64_accumulator(1, make_tflite_multiplier(128.0, false)), Refused);  // shift 8
    const TfliteMultiplier low = make_tflite_multiplier(std::ldexp(1.0, -32), false);               // shift -31
    CHECK(to_int64(multiply_int64_accumulator(std::int64_t{1} << 31, low)) == 1);
    CHECK(to_int64(multiply_int64_accumulator((std::int64_t{1} << 31) - 1, low)) == 0);
    CHECK(to_int64(multiply_int64_accumulator(1LL << 40, make_tflite_multiplier(std::ldexp(1.0, -33), false))) == 0);
    const wide limit = power_of_two(47);
    CHECK_THROWS_AS(multiply_int64_accumulator(limit, low), Refused);
    CHECK_THROWS_AS(multiply_int64_accumulator(-limit, low), Refused);
    CHECK(to_int64(multiply_int64_accumulator(limit - 1, low)) == 32768);
}

// --- quantize --------------------------------------------------------------------------------------------------------

TEST_CASE("reference: a scale is the range divided by half of qmax - qmin") {
    CHECK(symmetric_scale(-1.0F, 127.5F, -128, 127) == 1.0F);
    CHECK(symmetric_scale(-32767.5F, 3.0F, -32768, 32767) == 1.0F);
    CHECK(symmetric_scale(-2.0F, 254.0F, -127, 127) == 2.0F);
    CHECK(symmetric_scale(0.0F, 0.0F, -128, 127) == std::ldexp(1.0F, -23));
    CHECK(symmetric_scale(2.0F, 3.0F, -128, 127) == fdiv(3.0F, 127.5F));
    CHECK(symmetric_scale(-3.0F, -2.0F, -128, 127) == fdiv(3.0F, 127.5F));
    CHECK(std::fabs(symmetric_scale(-0.5F, 0.9990171F, -128, 127) - 0.0078354F) < 5e-8F);  // as Horizon prints it
    CHECK_THROWS_AS(symmetric_scale(1.0F, 0.0F, -128, 127), Refused);
    CHECK_THROWS_AS(symmetric_scale(std::nanf(""), 0.0F, -128, 127), Refused);
    std::mt19937_64 random(6);
    int other_bits = 0;
    for (int i = 0; i < 10000; ++i) {
        const auto range = static_cast<float>(pick_real(random, 0.001, 100.0));
        other_bits += symmetric_scale(-range, 0.0F, -128, 127) == fmul(range, fdiv(1.0F, 127.5F)) ? 0 : 1;
    }
    CHECK(other_bits > 100);  // so a reciprocal multiply would be noticed
    const QParams affine = affine_qparams(-1.0F, 1.0F, 8, 0, 255);
    CHECK(affine.scale == fdiv(2.0F, 255.0F));
    CHECK(affine.zero_point == 127);  // PyTorch 2.6: 127 for the range -1..1
    CHECK(affine_qparams(5.0F, 5.0F, 8, 0, 255).zero_point == 0);
}

TEST_CASE("reference: quantize rounds ties by its policy and adds the zero point after rounding") {
    const float x[] = {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 3.5F, 126.5F, 127.5F, -128.5F, -129.5F};
    const std::int64_t even[] = {0, 2, 2, 0, -2, -2, 4, 126, 127, -128, -128};  // PyTorch 2.6, quantize.json "ties"
    const std::int64_t even_plus_3[] = {3, 5, 5, 3, 1, 1, 7, 127, 127, -125, -127};
    const std::int64_t up[] = {1, 2, 3, 0, -1, -2, 4, 127, 127, -128, -128};
    for (std::size_t i = 0; i < 11; ++i) {
        CAPTURE(x[i]);
        CHECK(quantize(x[i], int8(1.0F)) == even[i]);
        CHECK(quantize(x[i], int8(1.0F, 3)) == even_plus_3[i]);
        CHECK(quantize(x[i], int8(1.0F), {QuantizeRounding::half_up, QuantizeBy::reciprocal}) == up[i]);
    }
    CHECK(quantize(0.49999997F, int8(1.0F), {QuantizeRounding::half_up, QuantizeBy::divide}) == 0);
}

TEST_CASE("reference: quantize multiplies by the reciprocal or divides, which differ") {
    const QParams q{0x1.199d54p-9F, 0, 8, 0, 255};
    CHECK(quantize(0x1.1883b6p-2F, q) == 128);  // PyTorch 2.6, quantize.json "multiply_by_reciprocal_not_divide"
    CHECK(quantize(0x1.1883b6p-2F, q, {QuantizeRounding::half_even, QuantizeBy::divide}) == 127);
}

TEST_CASE("reference: NaN becomes the zero point, infinities and large numbers saturate") {
    const float infinity = std::numeric_limits<float>::infinity();
    const QParams q = int8(0.5F, -7);
    CHECK(quantize(std::nanf(""), q) == -7);
    CHECK(quantize(infinity, q) == 127);
    CHECK(quantize(-infinity, q) == -128);
    CHECK(quantize(1e30F, q) == 127);
    CHECK(quantize(-3e38F, int16(0.5F)) == -32768);
}

TEST_CASE("reference: quantize refuses what the type cannot hold") {
    CHECK_THROWS_AS(quantize(1.0F, int8(1.0F, 128)), Refused);
    CHECK_THROWS_AS(quantize(1.0F, QParams{1.0F, 0, 8, 1, 127}), Refused);
    CHECK_THROWS_AS(quantize(1.0F, QParams{1.0F, 0, 8, -129, 127}), Refused);
    CHECK_THROWS_AS(quantize(1.0F, QParams{1.0F, 0, 16, -32768, 32768}), Refused);
    CHECK_THROWS_AS(quantize(1.0F, int8(0.0F)), Refused);
    CHECK_THROWS_AS(quantize(1.0F, int8(std::nanf(""))), Refused);
    CHECK(quantize(-9.0F, QParams{1.0F, 0, 8, -8, 7}) == -8);  // a custom range clamps
}

TEST_CASE("reference: dequantize and fake-quantize, forward and backward") {
    CHECK(dequantize(-3, int8(0.25F, 5)) == -2.0F);
    CHECK(dequantize(127, int8(0.1F)) == fmul(127.0F, 0.1F));
    CHECK(fake_quantize(0.3F, int8(0.25F)) == 0.25F);
    CHECK(fake_quantize(100.0F, int8(0.25F)) == 31.75F);
    // PyTorch 2.6, fake_quantize.json "mask_edges" and "int16_edges": the gradient passes inside after rounding
    const float inside[] = {126.4F, 126.5F, 127.4F, -128.4F, -128.5F};
    const float outside[] = {127.5F, 127.6F, -128.6F, std::numeric_limits<float>::infinity(), std::nanf("")};
    for (const float x : inside) {
        CAPTURE(x);
        CHECK(fake_quantize_backward(x, 2.5F, int8(1.0F), true) == 2.5F);
    }
    for (const float x : outside) {
        CAPTURE(x);
        CHECK(fake_quantize_backward(x, 2.5F, int8(1.0F), true) == 0.0F);
        CHECK(fake_quantize_backward(x, 2.5F, int8(1.0F), false) == 2.5F);
    }
    CHECK(std::signbit(fake_quantize_backward(200.0F, -2.5F, int8(1.0F), true)));
    CHECK(fake_quantize_backward(32767.5F, 1.0F, int16(1.0F), true) == 0.0F);
    CHECK(fake_quantize_backward(-32768.5F, 1.0F, int16(1.0F), true) == 1.0F);
    CHECK(fake_quantize_backward(126.5F, 1.0F, int8(1.0F, 1), true) == 1.0F);  // 126 + 1
    CHECK(fake_quantize_backward(127.0F, 1.0F, int8(1.0F, 1), true) == 0.0F);  // 127 + 1
}

TEST_CASE("reference: a channel axis anywhere takes its own scale") {
    const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
    const std::vector<QParams> q = {int8(1.0F), int8(0.5F)};
    CHECK(quantize(x, q, 4) == std::vector<std::int64_t>{1, 2, 3, 4, 10, 12, 14, 16});
    CHECK(quantize(x, q, 2) == std::vector<std::int64_t>{1, 2, 6, 8, 5, 6, 14, 16});
    CHECK(quantize(x, q, 1) == std::vector<std::int64_t>{1, 4, 3, 8, 5, 12, 7, 16});
    CHECK(fake_quantize(x, q, 1) == x);
    CHECK(dequantize({1, 1, 1, 1}, q, 2) == std::vector<float>{1.0F, 1.0F, 0.5F, 0.5F});
    CHECK(fake_quantize_backward({100, 100}, {3, 3}, q, 1, true) == std::vector<float>{3, 0});
}

// --- requantize: bpu -------------------------------------------------------------------------------------------------

namespace {

struct CheckVector {
    float s_acc, s_out;
    int bits;
    std::int64_t multiplier;
    int pre, post;
    std::vector<std::vector<std::int64_t>> results;  // acc, y with SH_R, y with SH_F
};

void check_vector(const CheckVector& v, Role role, int pre_cap) {
    CAPTURE(v.s_acc, v.s_out, pre_cap);
    const QParams out = narrow(v.bits, v.s_out);
    const Target half_up = bpu_with_post(ShiftRounding::half_up, pre_cap);
    const Target floor = bpu_with_post(ShiftRounding::floor, pre_cap);
    const BpuRequantize p = make_bpu_requantize(half_up, v.s_acc, out, role);
    CHECK(to_int64(p.multiplier) == v.multiplier);
    CHECK(p.pre == v.pre);
    CHECK(p.post == v.post);
    for (const auto& row : v.results) {
        CAPTURE(row[0]);
        CHECK(requantize_bpu(half_up, row[0], v.s_acc, out, role) == row[1]);
        CHECK(requantize_bpu(floor, row[0], v.s_acc, out, role) == row[2]);
    }
}

}  // namespace

TEST_CASE("reference: the check vectors of docs/arithmetic.md section 2.3") {
    const CheckVector accumulators[] = {
        {1e-4F,
         0.02F,
         8,
         20972,
         0,
         22,
         {{12345, 62, 61}, {-12345, -62, -62}, {25500, 127, 127}, {-25600, -128, -128}, {100, 1, 0}}},
        {3e-5F, 0.05F, 8, 20133, 3, 22, {{100000, 60, 60}, {-100000, -60, -61}, {5000000, 127, 127}}},
        {2e-6F, 1e-3F, 16, 16777, 9, 14, {{7654321, 15309, 15308}, {-7654321, -15309, -15309}}},
        {0.5F, 0.25F, 8, 16384, 0, 13, {{3, 6, 6}, {-3, -6, -6}, {64, 127, 127}}},
        {1e-9F, 0.1F, 8, 21990, 17, 24, {{1 << 30, 11, 10}, {-(1 << 30), -11, -11}}}};
    for (const CheckVector& v : accumulators) check_vector(v, Role::gemm, 17);
    CheckVector deep = accumulators[4];
    deep.pre = 19;
    deep.post = 22;
    check_vector(deep, Role::gemm, 31);
    check_vector({0.02F,
                  0.05F,
                  8,
                  26214,
                  0,
                  16,
                  {{-128, -51, -52}, {-5, -2, -2}, {-1, 0, -1}, {1, 0, 0}, {3, 1, 1}, {5, 2, 1}, {127, 51, 50}}},
                 Role::code, 17);
}

TEST_CASE("reference: PRE is half up for int16 output and averages, and POST comes from the table") {
    const auto pre = [](const Target& t, int bits, Role role) {
        return make_bpu_requantize(t, 1e-6F, narrow(bits, 0.1F), role).pre_rounding;
    };
    const auto post = [](const Target& t, Role role) {
        return make_bpu_requantize(t, 1e-6F, int8(0.1F), role).post_rounding;
    };
    for (const Target& t : {bernoulli2(), bayes(), meta()}) {
        CHECK(pre(t, 8, Role::gemm) == ShiftRounding::floor);
        CHECK(pre(t, 8, Role::element) == ShiftRounding::floor);
        CHECK(pre(t, 8, Role::average) == ShiftRounding::half_up);
        CHECK(pre(t, 16, Role::gemm) == ShiftRounding::half_up);
        CHECK(post(t, Role::element) == ShiftRounding::half_up);
        CHECK(post(t, Role::average) == ShiftRounding::half_up);
        CHECK(post(t, Role::code) == ShiftRounding::half_up);
    }
    CHECK(post(bernoulli2(), Role::gemm) == ShiftRounding::floor);
    CHECK(post(bayes(), Role::gemm) == ShiftRounding::half_up);
    CHECK(post(meta(), Role::gemm) == ShiftRounding::half_up);
    const float tiny = std::ldexp(1.0F, -60);
    CHECK(make_bpu_requantize(bernoulli2(), tiny, int8(1.0F), Role::gemm).pre == 31);
    CHECK(make_bpu_requantize(bayes(), tiny, int8(1.0F), Role::gemm).pre == 17);
    CHECK(make_bpu_requantize(meta(), tiny, int8(1.0F), Role::gemm).pre == 47);
    CHECK(make_bpu_requantize(bayes(), tiny, int8(1.0F), Role::gemm).post == 31);
    CHECK(make_bpu_requantize(meta(), tiny, int16(1.0F), Role::code).pre == 0);
}

TEST_CASE("reference: bpu refuses a ratio of 2^15, of 0 or of nothing, and codes it does not have") {
    const Target t = bayes();
    CHECK_THROWS_AS(requantize_bpu(t, 1, 32768.0F, int16(1.0F), Role::gemm), Refused);
    CHECK(requantize_bpu(t, 1, std::nextafter(32768.0F, 0.0F), int16(1.0F), Role::gemm) == 32767);
    CHECK_THROWS_AS(requantize_bpu(t, 1, 1e-30F, int16(1e30F), Role::gemm), Refused);  // underflows to 0
    CHECK_THROWS_AS(requantize_bpu(t, 1, std::nanf(""), int16(1.0F), Role::gemm), Refused);
    CHECK_THROWS_AS(requantize_bpu(t, 1, 0.1F, int8(1.0F, 1), Role::gemm), Refused);
    CHECK_THROWS_AS(requantize_bpu(t, 1, 0.1F, QParams{1.0F, 0, 8, 0, 255}, Role::gemm), Refused);
    CHECK_THROWS_AS(requantize_bpu(bernoulli2(), 1, 0.1F, int16(1.0F), Role::gemm), Refused);
}

TEST_CASE("reference: bpu requantization is monotone, inside its limits, and floor <= half up <= floor + 1") {
    std::mt19937_64 random(7);
    bool monotone = true;
    bool ordered = true;
    bool inside = true;
    bool clamp_invisible = true;
    for (int i = 0; i < 40000; ++i) {
        const int bits = i % 2 == 0 ? 8 : 16;
        const int cap = i % 3 == 0 ? 31 : i % 3 == 1 ? 17 : 47;
        const QParams out = narrow(bits, 1.0F);
        const auto s_acc = static_cast<float>(std::exp2(pick_real(random, -50.0, 14.9)));
        const Role role = i % 5 == 0 ? Role::average : Role::gemm;
        const BpuRequantize up = make_bpu_requantize(bpu_with_post(ShiftRounding::half_up, cap), s_acc, out, role);
        BpuRequantize down = up;
        down.post_rounding = ShiftRounding::floor;
        const std::int64_t centre = pick(random, int32_min, int32_max) >> pick(random, 0, 31);
        wide last = -power_of_two(40);
        for (std::int64_t acc = centre - 3; acc <= centre + 3; ++acc) {
            const wide a = apply_bpu_requantize(acc, up);
            const wide b = apply_bpu_requantize(acc, down);
            monotone &= a >= last;
            ordered &= b <= a && a <= b + 1;
            last = a;
            const wide y = clamp(a, out.qmin, out.qmax);
            inside &= y >= out.qmin && y <= out.qmax && fits_signed(a, 32);
            if (up.post <= (bits == 8 ? 22 : 14)) {
                const wide wide_a = shift_right(acc, up.pre, up.pre_rounding);
                const wide unclamped = shift_right(wide_a * up.multiplier, up.post, up.post_rounding);
                clamp_invisible &= clamp(unclamped, out.qmin, out.qmax) == y;
            }
        }
    }
    CHECK(monotone);
    CHECK(ordered);
    CHECK(inside);
    CHECK(clamp_invisible);
}

TEST_CASE("reference: errors of bpu requantization stay inside the bounds of docs/arithmetic.md section 7") {
    struct Row {
        int bits;
        Role role;
        ShiftRounding post;
        double lowest, highest;
    };
    const Row rows[] = {
        {8, Role::gemm, ShiftRounding::half_up, -0.512, 0.504},   {8, Role::gemm, ShiftRounding::floor, -1.012, 0.004},
        {16, Role::gemm, ShiftRounding::half_up, -2.0, 2.0},      {16, Role::gemm, ShiftRounding::floor, -2.5, 1.5},
        {8, Role::code, ShiftRounding::half_up, -0.504, 0.504},   {16, Role::code, ShiftRounding::half_up, -1.5, 1.5},
        {8, Role::average, ShiftRounding::half_up, -0.508, 0.508}};
    std::mt19937_64 random(8);
    for (const Row& row : rows) {
        double lowest = 0.0;
        double highest = 0.0;
        const Target t = bpu_with_post(row.post, 31);
        for (int i = 0; i < 60000; ++i) {
            const float s_out = 1.0F;
            const auto s_in =
                static_cast<float>(std::exp2(pick_real(random, row.role == Role::code ? -6.0 : -22.0, 2.0)));
            const QParams out = narrow(row.bits, s_out);
            const double target = pick_real(random, static_cast<double>(out.qmin), static_cast<double>(out.qmax));
            auto acc = static_cast<std::int64_t>(target / static_cast<double>(s_in));
            if (row.role == Role::code) acc = to_int64(clamp_bits(acc, row.bits));
            const double real = static_cast<double>(acc) * static_cast<double>(s_in);
            if (real < static_cast<double>(out.qmin) || real > static_cast<double>(out.qmax)) continue;
            const double error = static_cast<double>(requantize_bpu(t, acc, s_in, out, row.role)) - real;
            lowest = std::min(lowest, error);
            highest = std::max(highest, error);
        }
        CAPTURE(row.bits, static_cast<int>(row.role), lowest, highest);
        CHECK(lowest >= row.lowest - tau);
        CHECK(highest <= row.highest + tau);
        CHECK(highest - lowest > 0.8);  // so the rows really round
    }
}

// --- requantize: fp32, tflite, and all -------------------------------------------------------------------------------

TEST_CASE("reference: fp32 requantizes by one float multiply, half to even, zero point after") {
    const Target t = fp32();
    const auto y = [&](std::int64_t acc, const QParams& out) {
        return requantize_accumulator(t, acc, 0.5F, 0.25F, 8, out);
    };
    CHECK(y(3, int8(0.25F)) == 2);  // 1.5
    CHECK(y(5, int8(0.25F)) == 2);  // 2.5
    CHECK(y(-5, int8(0.25F)) == -2);
    CHECK(y(5, int8(0.25F, 11)) == 13);
    CHECK(y(5, int8(0.25F, -11)) == -9);
    CHECK(y(1000, int8(0.25F)) == 127);
    CHECK(y(-2000000000, int8(0.25F, 100)) == -128);
    // 64.5 + 2^-18 in real numbers; float32(acc) drops the last 1 first, and the tie goes to 64
    const std::int64_t acc = (1 << 24) + (1 << 17) + 1;
    CHECK(requantize_accumulator(t, acc, std::ldexp(1.0F, -18), 1.0F, 8, int8(1.0F)) == 64);
    // 0.1·0.1/0.3 in float32 steps, and not in another order
    CHECK(fp32_ratio(0.1F, 0.1F, int8(0.3F)) == fdiv(fmul(0.1F, 0.1F), 0.3F));
}

TEST_CASE("reference: tflite requantizes with ties up or away, zero point after") {
    const auto y = [](const Target& t, std::int64_t acc, std::int64_t zp) {
        return requantize_accumulator(t, acc, 0.25F, 1.0F, 8, int8(1.0F, zp));
    };
    CHECK(y(tflite_double(), 6, 0) == 2);  // 1.5
    CHECK(y(tflite_single(), 6, 0) == 2);
    CHECK(y(tflite_double(), -6, 0) == -2);  // -1.5 away from zero
    CHECK(y(tflite_single(), -6, 0) == -1);  // -1.5 up
    CHECK(y(tflite_double(), -6, 10) == 8);
    CHECK(y(tflite_single(), -6, 10) == 9);
    CHECK(y(tflite_double(), 1 << 20, 0) == 127);
    CHECK(requantize_accumulator(tflite_double(), -6, 0.25F, 1.0F, 16, int16(1.0F)) == -1);  // 16-bit rule: up
    CHECK(requantize_accumulator(tflite_single(), power_of_two(40), std::ldexp(1.0F, -30), 1.0F, 16, int16(1.0F)) ==
          1024);
    CHECK_THROWS_AS(requantize_accumulator(tflite_single(), power_of_two(31), 0.25F, 1.0F, 8, int8(1.0F)), Refused);
    CHECK_THROWS_AS(requantize_accumulator(tflite_double(), 1 << 30, 4.0F, 1.0F, 8, int8(1.0F)), Refused);
}

TEST_CASE("reference: a code requantized to its own scale and type is itself, on every target") {
    for (const Target& t : {fp32(), tflite_double(), tflite_single(), bernoulli2(), bayes(), meta()}) {
        for (const float s : {0.3F, 1.0F, 1e-6F, 77.7F}) {
            bool same = true;
            for (std::int64_t q = -128; q <= 127; ++q) same &= requantize_code(t, q, int8(s), int8(s)) == q;
            for (std::int64_t q = -32768; q <= 32767 && t.widest_activation == 16; q += 61) {
                same &= requantize_code(t, q, int16(s), int16(s)) == q;
            }
            CAPTURE(static_cast<int>(t.kind), s);
            CHECK(same);
        }
    }
}

TEST_CASE("reference: a code changes its scale, its zero point and its width") {
    CHECK(requantize_code(fp32(), 13, int8(0.5F, 3), int8(1.0F, -4)) == 1);         // 5 - 4
    CHECK(requantize_code(fp32(), 14, int8(0.5F, 3), int8(1.0F, -4)) == 2);         // 5.5 -> 6
    CHECK(requantize_code(fp32(), 12, int8(0.5F, 3), int8(1.0F, -4)) == 0);         // 4.5 -> 4
    CHECK(requantize_code(tflite_double(), -3, int8(0.25F, 3), int8(1.0F)) == -2);  // -1.5 away
    CHECK(requantize_code(tflite_single(), -3, int8(0.25F, 3), int8(1.0F)) == -1);  // -1.5 up
    CHECK(requantize_code(tflite_double(), -2, int8(0.5F, 3), int8(1.0F)) == -2);   // -2.5: from r = 1/2 both go up
    CHECK(requantize_code(bayes(), -5, int8(0.5F), int8(1.0F)) == -2);              // -2.5 up
    CHECK(requantize_code(bernoulli2(), -5, int8(0.5F), int8(1.0F)) == -2);         // POST of cat is SH_R there too
    CHECK(requantize_code(bayes(), 100, int8(1.0F), int16(0.01F)) == 10000);
    CHECK(requantize_code(bayes(), -20000, int16(0.01F), int8(1.0F)) == -128);
    CHECK_THROWS_AS(requantize_code(tflite_double(), 0, int16(4096.0F), int16(0.03125F)), Refused);  // 2^17·2^15
    const float high = std::ldexp(1.0F, 23);  // code·2^24: -129 leaves int32, -128 and 127 do not
    CHECK_THROWS_AS(requantize_code(tflite_double(), 0, int8(high, 1), int8(1.0F)), Refused);
    CHECK_THROWS_AS(requantize_code(tflite_double(), 0, int8(high, -1), int8(1.0F)), Refused);
    CHECK(requantize_code(tflite_double(), -1, int8(high), int8(1.0F)) == -128);
    CHECK_THROWS_AS(requantize_code(bayes(), 0, int8(1.0F, 1), int8(1.0F)), Refused);
    CHECK_THROWS_AS(requantize_code(bernoulli2(), 0, int16(1.0F), int8(1.0F)), Refused);
}

TEST_CASE("reference: the clamps of ReLU and ReLU6") {
    CHECK(apply_activation(-5, Activation::none, int8(0.1F)) == -5);
    CHECK(apply_activation(-5, Activation::relu, int8(0.1F)) == 0);
    CHECK(apply_activation(-5, Activation::relu, int8(0.1F, -3)) == -3);
    CHECK(apply_activation(-5, Activation::relu6, int8(0.1F, -3)) == -3);
    CHECK(apply_activation(127, Activation::relu6, int8(0.1F)) == 60);
    CHECK(apply_activation(127, Activation::relu6, int8(0.1F, 10)) == 70);
    CHECK(apply_activation(127, Activation::relu6, int8(0.1F, 100)) == 127);
    CHECK(apply_activation(127, Activation::relu6, int8(4.0F)) == 2);  // 1.5 -> 2
    CHECK(apply_activation(127, Activation::relu6, int8(2.4F)) == 2);  // 2.4999999006...
    CHECK(apply_activation(127, Activation::relu, int8(0.1F)) == 127);
}
