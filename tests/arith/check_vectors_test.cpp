// SPDX-License-Identifier: MIT
//
// The check vectors of docs/arithmetic.md section 2.3, and vectors worked out by hand for sections 2.1 and 2.2, as
// static_asserts: the specification runs in the compiler, so a wrong formula does not even build.
#include "arith/targets.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using arith::QuantizedMultiplier;
using arith::RequantizeSource;
using arith::scalar_lanes;
using arith::ShiftRounding;
using arith::SumRange;
using arith::TwoStageParams;

// --- 2.3: bpu --------------------------------------------------------------------------------------------------------
constexpr auto accumulator = RequantizeSource::gemm_accumulator;
constexpr auto code = RequantizeSource::code;

constexpr TwoStageParams params(float s_acc, float s_out, DType output, RequantizeSource source = accumulator,
                                int pre_cap = 17) {
    return *arith::make_two_stage(s_acc, s_out, output, source, pre_cap);
}

constexpr std::int32_t y(const TwoStageParams& p, DType output, std::int32_t acc, ShiftRounding post) {
    const auto pre = output == DType::int16 ? ShiftRounding::half_up : ShiftRounding::floor;
    const auto words = arith::two_stage::make(p.multiplier, p.pre, pre, p.post, post);
    const arith::OutputCodes codes =
        arith::make_output_codes(lowest_code(output), highest_code(output), 0, 1.0f, Activation::none);
    return arith::two_stage::apply<scalar_lanes>(acc, arith::two_stage::load<scalar_lanes>(words.data(), 1),
                                                 arith::OutputLanes<scalar_lanes>(codes));
}
/// Both columns of the table: SH_R / SH_F as POST.
constexpr bool gives(const TwoStageParams& p, DType output, std::int32_t acc, std::int32_t half_up,
                     std::int32_t floor) {
    return y(p, output, acc, ShiftRounding::half_up) == half_up && y(p, output, acc, ShiftRounding::floor) == floor;
}

constexpr auto row_1 = params(1e-4f, 0.02f, DType::int8);
static_assert(row_1 == TwoStageParams{20972, 0, 22});
static_assert(gives(row_1, DType::int8, 12345, 62, 61));
static_assert(gives(row_1, DType::int8, -12345, -62, -62));
static_assert(gives(row_1, DType::int8, 25500, 127, 127));
static_assert(gives(row_1, DType::int8, -25600, -128, -128));
static_assert(gives(row_1, DType::int8, 100, 1, 0));

constexpr auto row_2 = params(3e-5f, 0.05f, DType::int8);
static_assert(row_2 == TwoStageParams{20133, 3, 22});
static_assert(gives(row_2, DType::int8, 100000, 60, 60));
static_assert(gives(row_2, DType::int8, -100000, -60, -61));
static_assert(gives(row_2, DType::int8, 5000000, 127, 127));

constexpr auto row_3 = params(2e-6f, 1e-3f, DType::int16);
static_assert(row_3 == TwoStageParams{16777, 9, 14});
static_assert(gives(row_3, DType::int16, 7654321, 15309, 15308));
static_assert(gives(row_3, DType::int16, -7654321, -15309, -15309));

constexpr auto row_4 = params(0.5f, 0.25f, DType::int8);
static_assert(row_4 == TwoStageParams{16384, 0, 13});
static_assert(gives(row_4, DType::int8, 3, 6, 6));
static_assert(gives(row_4, DType::int8, -3, -6, -6));
static_assert(gives(row_4, DType::int8, 64, 127, 127));

constexpr auto row_5 = params(1e-9f, 0.1f, DType::int8);
constexpr auto row_5_cap_31 = params(1e-9f, 0.1f, DType::int8, accumulator, 31);
static_assert(row_5 == TwoStageParams{21990, 17, 24});
static_assert(row_5_cap_31 == TwoStageParams{21990, 19, 22});
static_assert(gives(row_5, DType::int8, 1 << 30, 11, 10));
static_assert(gives(row_5, DType::int8, -(1 << 30), -11, -11));
static_assert(gives(row_5_cap_31, DType::int8, 1 << 30, 11, 10));
static_assert(gives(row_5_cap_31, DType::int8, -(1 << 30), -11, -11));

constexpr auto row_6 = params(0.02f, 0.05f, DType::int8, code);
static_assert(row_6 == TwoStageParams{26214, 0, 16});
static_assert(gives(row_6, DType::int8, -128, -51, -52));
static_assert(gives(row_6, DType::int8, -5, -2, -2));
static_assert(gives(row_6, DType::int8, -1, 0, -1));
static_assert(gives(row_6, DType::int8, 1, 0, 0));
static_assert(gives(row_6, DType::int8, 3, 1, 1));
static_assert(gives(row_6, DType::int8, 5, 2, 1));
static_assert(gives(row_6, DType::int8, 127, 51, 50));

// PRE rounds at the top of int32: (2^31 - 1)/2 + 1/2 is 2^30, which clamp_16 makes 32767; it must not wrap.
static_assert(y(TwoStageParams{16384, 1, 15}, DType::int16, INT32_MAX, ShiftRounding::half_up) == 16384);
static_assert(y(TwoStageParams{16384, 1, 15}, DType::int16, INT32_MIN, ShiftRounding::half_up) == -16384);

// --- 2.1: fp32 -------------------------------------------------------------------------------------------------------
constexpr arith::OutputCodes with_zero_point(std::int32_t zero_point) {
    return arith::make_output_codes(-128, 127, zero_point, 1.0f, Activation::none);
}
constexpr std::int32_t fp32(std::int32_t acc, float scale, std::int32_t zero_point = 0) {
    const auto words = arith::float_scale::make(scale);
    return arith::float_scale::apply<scalar_lanes>(acc, arith::float_scale::load<scalar_lanes>(words.data(), 1),
                                                   arith::OutputLanes<scalar_lanes>(with_zero_point(zero_point)));
}
static_assert(fp32(5, 0.5f) == 2);  // 2.5 to even
static_assert(fp32(7, 0.5f) == 4);  // 3.5 to even
static_assert(fp32(-5, 0.5f) == -2);
static_assert(fp32(5, 0.5f, 1) == 3);  // the zero point comes after rounding: rhe(3.5) would be 4
static_assert(fp32(1000, 1.0f) == 127);
static_assert(fp32(-1000, 1.0f, 10) == -128);
static_assert(fp32(INT32_MAX, 0x1p-30f) == 2);
static_assert(fp32(16777217, 0x1p-18f) == 64);     // float32(2^24 + 1) is 2^24
static_assert(fp32(INT32_MIN, 1e28f, 5) == -128);  // clamped before it is converted

// --- 2.2: tflite -----------------------------------------------------------------------------------------------------
static_assert(*arith::quantize_multiplier(0.5) == QuantizedMultiplier{1 << 30, 0});
static_assert(*arith::quantize_multiplier(1.0) == QuantizedMultiplier{1 << 30, 1});
static_assert(*arith::quantize_multiplier(0.75) == QuantizedMultiplier{1610612736, 0});
static_assert(*arith::quantize_multiplier(0.0025) == QuantizedMultiplier{1374389535, -8});  // 0.64·2^31 = 1374389534.72
static_assert(*arith::quantize_multiplier(1.0 - 0x1p-33) == QuantizedMultiplier{1 << 30, 1});  // rounds to 2^31
static_assert(*arith::quantize_multiplier(0x1p-32) == QuantizedMultiplier{1 << 30, -31});
static_assert(*arith::quantize_multiplier(0x1p-33) == QuantizedMultiplier{0, 0});  // shift -32
static_assert(*arith::quantize_multiplier(0x1p29) == QuantizedMultiplier{1 << 30, 30});
static_assert(*arith::quantize_multiplier(0x1p30) == QuantizedMultiplier{INT32_MAX, 30});  // shift 31
static_assert(!arith::is_saturated(0x1p29) && !arith::is_saturated(0x1.fffffp29) && arith::is_saturated(0x1p30));
static_assert(arith::is_saturated(0x1.fffffffffffffp29));  // rounds to 2^31, so shift 31
static_assert(!arith::quantize_multiplier(-1.0).ok());

template <class Rule> constexpr std::int32_t tflite(std::int32_t acc, double real, std::int32_t zero_point = 0) {
    using Policy = arith::fixed_point<Rule>;
    const auto words = Policy::make(*arith::quantize_multiplier(real));
    return Policy::template apply<scalar_lanes>(acc, Policy::template load<scalar_lanes>(words.data(), 1),
                                                arith::OutputLanes<scalar_lanes>(with_zero_point(zero_point)));
}
constexpr auto twice = [](std::int32_t acc, double real, std::int32_t zp = 0) {
    return tflite<arith::double_rounding>(acc, real, zp);
};
constexpr auto once = [](std::int32_t acc, double real, std::int32_t zp = 0) {
    return tflite<arith::single_rounding>(acc, real, zp);
};
static_assert(once(12345, 0.0025) == 31 && twice(12345, 0.0025) == 31);  // 30.8625: the worked example
static_assert(once(10, 0.25) == 3 && twice(10, 0.25) == 3);              // 2.5: up, and away from zero
static_assert(once(-10, 0.25) == -2 && twice(-10, 0.25) == -3);
static_assert(once(5, 0.5) == 3 && twice(5, 0.5) == 3);  // no second rounding from 1/2 up: both are half up
static_assert(once(-5, 0.5) == -2 && twice(-5, 0.5) == -2);
// 7·0.2 = 1.4; M = 0.8·2^31, shift -2: SRDHM gives rhu(5.6) = 6, and 6/4 = 1.5 goes to 2. Two roundings, another
// result.
static_assert(once(7, 0.2) == 1 && twice(7, 0.2) == 2);
static_assert(once(10, 0.25, -3) == 0 && twice(-10, 0.25, 7) == 4);  // the zero point after rounding
static_assert(once(100, 8.0) == 127 && twice(-100, 8.0) == -128);
static_assert(once(INT32_MAX, 0x1p30, 100) == 127 && once(INT32_MIN, 0x1p30, -100) == -128);
// Shift -31: SRDHM halves 2^31 - 1 to 2^30, and 2^30/2^31 is a tie; one more and M is 0.
static_assert(once(INT32_MAX, 0x1p-32) == 0 && twice(INT32_MAX, 0x1p-32) == 1);
static_assert(once(INT32_MIN, 0x1p-32) == 0 && twice(INT32_MIN, 0x1p-32) == -1);
static_assert(once(INT32_MIN, 0x1p-33) == 0 && twice(INT32_MIN, 0x1p-33) == 0);

constexpr std::int32_t wide(std::int64_t acc, double real, std::int32_t zero_point = 0) {
    using Policy = arith::wide_fixed_point;
    const auto words = Policy::make(*arith::quantize_multiplier(real));
    return Policy::apply<scalar_lanes>(
        acc, Policy::load<scalar_lanes>(words.data(), 1),
        arith::OutputLanes<scalar_lanes>(arith::make_output_codes(-32768, 32767, zero_point, 1.0f, Activation::none)));
}
static_assert(arith::reduce_multiplier_to_16_bits(1 << 30) == 0x4000);
static_assert(arith::reduce_multiplier_to_16_bits(0x7FFEFFFF) == 0x7FFF);
static_assert(arith::reduce_multiplier_to_16_bits(0x7FFF0000) ==
              0x7FFF);  // (M + 2^15) >> 16 would be 2^15 from 0x7FFF8000
static_assert(arith::reduce_multiplier_to_16_bits(INT32_MAX) == 0x7FFF);
static_assert(wide(10, 0.25) == 3 && wide(-10, 0.25) == -2);  // half up
static_assert(wide((std::int64_t{1} << 40), 0x1p-30) == 1024);
static_assert(wide((std::int64_t{1} << 47) - 1, 64.0) == 32767);  // shift 7, saturated after 64 bits
static_assert(wide(-(std::int64_t{1} << 47) + 1, 64.0) == -32768);
static_assert(wide((std::int64_t{1} << 47) - 1, 0x1p-32) == 32767);  // shift -31: 32768 before the clamp
static_assert(wide(3, 0.5, -7) == -5);

constexpr Status wide_status(double real, std::int64_t acc) {
    const auto words =
        arith::make_requantize_words(target::tflite<>::policy, accumulator, {static_cast<float>(real), 1.0f, 1.0f},
                                     DType::int16, DType::int16, SumRange{-acc, acc});
    return words.status();
}
static_assert(wide_status(64.0, 1).ok() && !wide_status(128.0, 1).ok());  // shifts 7 and 8
static_assert(wide_status(128.0, 1).given == 8 && wide_status(128.0, 1).expected == 7);
static_assert(wide_status(1.0, (std::int64_t{1} << 47) - 1).ok() && !wide_status(1.0, std::int64_t{1} << 47).ok());
static_assert(wide_status(1.0, std::int64_t{1} << 47).code == StatusCode::accumulator_overflow);

}  // namespace

TEST_CASE("check vectors: the table of section 2.3 gives the same values when the program runs") {
    // What the compiler evaluated above, evaluated by the machine, where barriers and flags could change it.
    volatile float s_acc = 1e-4f, s_out = 0.02f;
    const auto made = arith::make_two_stage(s_acc, s_out, DType::int8, accumulator, 17);
    REQUIRE(made.ok());
    CHECK(*made == row_1);
    volatile std::int32_t acc = 12345;
    CHECK(y(*made, DType::int8, acc, ShiftRounding::half_up) == 62);
    CHECK(y(*made, DType::int8, acc, ShiftRounding::floor) == 61);
    volatile std::int32_t five = 5;
    CHECK(fp32(five, 0.5f, 1) == 3);
    CHECK(fp32(five, 3e38f, 5) == 127);  // infinity is clamped before it is converted
    volatile double fifth = 0.2;
    CHECK(once(7, fifth) == 1);
    CHECK(twice(7, fifth) == 2);
    CHECK(wide(10, fifth) == 2);
}

TEST_CASE("check vectors: the targets choose the roundings of the table") {
    const auto words = [](const arith::PolicyRecord& policy, RequantizeSource source) {
        return *arith::make_requantize_words(policy, source, {1e-4f, 1.0f, 0.02f}, DType::int8, DType::int8,
                                             SumRange{-1, 1});
    };
    constexpr auto bernoulli2 = target::bpu<march::bernoulli2>::policy;
    constexpr auto bayes = target::bpu<march::bayes>::policy;
    CHECK(test::requantize<target::bpu<march::bernoulli2>>(12345, words(bernoulli2, accumulator), {}) == 61);
    CHECK(test::requantize<target::bpu<march::bayes>>(12345, words(bayes, accumulator), {}) == 62);
    CHECK(test::requantize<target::bpu<march::meta>>(std::int64_t{12345},
                                                     words(target::bpu<march::meta>::policy, accumulator), {}) == 62);
    CHECK(test::requantize<target::bpu<march::bernoulli2>>(100, words(bernoulli2, code), {}) ==
          1);  // POST of the others is SH_R
}
