// SPDX-License-Identifier: MIT
//
// Tables of int8 and int16 codes: entries against the functions in long double, the kernels against plain integers on
// every backend, the error of interpolation against its bounds.
#include "intq/kernels/streaming/unary.hpp"

#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <vector>

#include "reference/table_functions.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/odd_width.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using arith::CodesOf;
using intq::test::BackwardExecutor;
using intq::test::for_each_backend;
using intq::test::GuardedBuffer;
using intq_reference::all_functions;
using intq_reference::real_function;

/// Whether `code` is the nearest to `real`; where two are within 1e-9 either will do: binary64 cannot tell.
bool is_entry(long double real, std::int64_t code, std::int64_t low, std::int64_t high) {
    if (std::isnan(real)) return code == 0;
    if (real <= static_cast<long double>(low)) return code == low;
    if (real >= static_cast<long double>(high)) return code == high;
    return std::fabs(static_cast<long double>(code) - real) <= 0.5L + 1e-9L;
}

std::int64_t floor_shift(std::int64_t value, int bits) {
    const std::int64_t divisor = std::int64_t{1} << bits;
    return value >= 0 ? value / divisor : -((-value + divisor - 1) / divisor);
}

/// docs/arithmetic.md section 4, in plain integers.
std::int64_t plain_int16(const std::vector<std::int16_t>& entries, std::int64_t x) {
    const auto i = static_cast<std::size_t>(floor_shift(x, 7) + 256);
    const std::int64_t fraction = x - 128 * floor_shift(x, 7), rise = entries[i + 1] - entries[i];
    return entries[i] + floor_shift(rise * fraction + 64, 7);
}

/// TFLite's curve step by step as its kernels of int16 codes have it, in 64 bits: the value between two knots, which
/// are 2^15 larger there, and one rounding for each sign.
std::int64_t plain_curve(const std::vector<std::int16_t>& entries, const arith::TfliteCurve& curve, std::int64_t x) {
    const std::int64_t half = curve.shift > 0 ? std::int64_t{1} << (curve.shift - 1) : 0;
    const std::int64_t place = floor_shift(x * curve.multiplier + half, curve.shift), size = std::abs(place);
    const std::int64_t step = curve.is_tanh ? 256 : 512, knot = size / step, rest = size % step;
    const auto at = [&](std::int64_t i) { return std::int64_t{entries[static_cast<std::size_t>(i)]} + 32768; };
    const std::int64_t end = curve.is_tanh ? 0xFFFF << 8 : 0x7FFF << 10;
    const std::int64_t value = knot >= 255 ? end : at(knot) * step + (at(knot + 1) - at(knot)) * rest;
    if (curve.is_tanh) return floor_shift(place >= 0 ? value - 8388608 + 128 : 8388608 - value + 127, 8);
    return floor_shift(place >= 0 ? value + 512 : 33554432 - value + 511, 10);
}

std::vector<std::int16_t> random_entries() {
    std::mt19937 random(11);
    std::vector<std::int16_t> entries(arith::int16_table_size);
    for (auto& entry : entries) entry = static_cast<std::int16_t>(random());
    entries[7] = INT16_MIN;  // the widest steps
    entries[8] = INT16_MAX;
    entries[9] = INT16_MIN;
    return entries;
}

template <class Code, class Run>
void check_kernel(const std::vector<Code>& codes, const std::vector<Code>& expected, Run&& run) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{63}, std::size_t{64},
                                   std::size_t{65}, std::size_t{131}, codes.size()})
        for (const auto against : {GuardedBuffer::Against::end, GuardedBuffer::Against::begin}) {
            const std::size_t bytes = size * sizeof(Code);
            GuardedBuffer x(bytes, against), y(bytes, against);
            std::memcpy(x.as<Code>(), codes.data(), bytes);
            BackwardExecutor backward;
            const Executor executor = backward.executor();
            run(x.as<Code>(), y.as<Code>(), static_cast<index_t>(size), &executor);
            CHECK(std::memcmp(y.as<Code>(), expected.data(), bytes) == 0);
            CHECK(y.is_intact());
            run(x.as<Code>(), x.as<Code>(), static_cast<index_t>(size), &serial);
            CHECK(std::memcmp(x.as<Code>(), expected.data(), bytes) == 0);
        }
}

}  // namespace

TEST_CASE("Entries are the nearest codes of the function, for int8 and int16") {
    for (const TableFunction function : all_functions)
        for (const float s_in : {0.0625f, 0.03f, 0.3f})
            for (const float s_out : {0.0078125f, 0.1f, 0.011f}) {
                INFO("function " << static_cast<int>(function) << " scales " << s_in << ' ' << s_out);
                std::vector<std::int8_t> entries(arith::int8_table_size);
                index_t wrong = 0;
                for (const auto& [from, to] : {std::pair{0, 0}, {-128, 3}, {127, -128}, {5, 127}}) {
                    REQUIRE(arith::make_int8_table(function, {s_in, from, DType::int8}, {s_out, to, DType::int8},
                                                   entries, 0.3)
                                .ok());
                    for (int x = -128; x <= 127; ++x)
                        wrong +=
                            !is_entry(real_function(function, static_cast<long double>(x - from) * s_in, 0.3L) / s_out,
                                      entries[static_cast<std::size_t>(x + 128)] - to, -128 - to, 127 - to);
                }
                CHECK(wrong == 0);
                if (!arith::fits_int16_table(function)) continue;
                std::vector<std::int16_t> wide(arith::int16_table_size);
                const float fine_in = s_in / 256, fine_out = s_out / 256;
                REQUIRE(arith::make_int16_table(function, {fine_in, 0, DType::int16}, {fine_out, 0, DType::int16}, wide,
                                                0.3)
                            .ok());
                for (int i = 0; i <= 512; ++i)
                    wrong += !is_entry(
                        real_function(function, static_cast<long double>((i - 256) * 128) * fine_in, 0.3L) / fine_out,
                        wide[static_cast<std::size_t>(i)], -32768, 32767);
                CHECK(wrong == 0);
            }
}

TEST_CASE("Ties go up, NaN gives the zero point and infinities the ends") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const arith::CodesOf int8{1.0f, 0, DType::int8}, shifted{1.0f, -128, DType::int8}, int16{1.0f, 0, DType::int16};
    const arith::CodeRange bytes{-128, 127}, words{-32768, 32767}, narrow{-8, 3};
    CHECK(arith::table_entry(0.5, int8, bytes) == 1);
    CHECK(arith::table_entry(-0.5, int8, bytes) == 0);
    CHECK(arith::table_entry(-1.5, int8, bytes) == -1);
    CHECK(arith::table_entry(std::nan(""), int8, bytes) == 0);
    CHECK(arith::table_entry(infinity, int8, bytes) == 127);
    CHECK(arith::table_entry(-infinity, int16, words) == -32768);
    CHECK(arith::table_entry(1e300, {1e-30f, 0, DType::int16}, words) == 32767);
    CHECK(arith::table_entry(5.0, int8, narrow) == 3);
    CHECK(arith::table_entry(-infinity, int8, narrow) == -8);
    // The zero point comes after rounding, and is the code of what is no number.
    CHECK(arith::table_entry(2.5, shifted, bytes) == -125);
    CHECK(arith::table_entry(254.4, shifted, bytes) == 126);
    CHECK(arith::table_entry(254.5, shifted, bytes) == 127);
    CHECK(arith::table_entry(-0.6, shifted, bytes) == -128);
    CHECK(arith::table_entry(std::nan(""), shifted, bytes) == -128);
    CHECK(arith::table_entry(9.0, {1.0f, 1, DType::int8}, narrow) == 3);
    std::vector<std::int8_t> entries(256);
    REQUIRE(arith::make_int8_table(TableFunction::log, {1.0f, 0, DType::int8}, {1.0f, 0, DType::int8}, entries).ok());
    CHECK((entries[127] == 0 && entries[128] == -128 && entries[129] == 0 && entries[255] == 5));
}

TEST_CASE("Every backend looks int8 codes up, all of them, and int16 codes in plain integers, all of them") {
    std::vector<std::int8_t> bytes, entries(256), byte_results;
    std::vector<std::int16_t> words, word_results;
    for (int i = 0; i < 256; ++i) entries[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i * 91 + 5);
    for (int i = 0; i < 40000; ++i) {
        bytes.push_back(static_cast<std::int8_t>(i * 37));
        byte_results.push_back(entries[static_cast<std::size_t>(bytes.back() + 128)]);
    }
    const std::vector<std::int16_t> wide = random_entries();
    for (int x = -32768; x <= 32767; ++x) {
        words.push_back(static_cast<std::int16_t>(x * 77));
        word_results.push_back(static_cast<std::int16_t>(plain_int16(wide, words.back())));
    }
    for_each_backend(intq::test::all_backends{}, [&](auto backend) {
        using Backend = decltype(backend);
        std::cout << "lookup_table on " << Backend::name << "\n";
        INFO(Backend::name);
        check_kernel(bytes, byte_results, [&](const auto* x, auto* y, index_t size, const Executor* executor) {
            kernels::look_up_int8<Backend>({entries.data(), x, y, size, executor});
        });
        check_kernel(words, word_results, [&](const auto* x, auto* y, index_t size, const Executor* executor) {
            kernels::look_up_int16<Backend>({wide.data(), x, y, size, executor});
        });
    });
}

TEST_CASE("Every backend computes TFLite's curve of int16 codes in plain integers, all of them") {
    std::vector<std::int16_t> knots(arith::tflite_curve_size), words;
    REQUIRE(arith::make_tflite_curve_table(knots).ok());
    for (int x = -32768; x <= 32767; ++x) words.push_back(static_cast<std::int16_t>(x * 77));
    for (const arith::TfliteCurve& curve : {arith::TfliteCurve{3, 0, false},
                                            {3, 0, true},
                                            {6, 0, true},
                                            {30198, 13, false},
                                            {30198, 13, true},
                                            {65535, 0, false},
                                            {65535, 0, true},
                                            {32767, 1, true},
                                            {20132, 15, false},
                                            {26388, 31, true}}) {
        REQUIRE(arith::is_sound(curve));
        std::vector<std::int16_t> expected;
        for (const std::int16_t x : words) expected.push_back(static_cast<std::int16_t>(plain_curve(knots, curve, x)));
        for_each_backend(intq::test::all_backends{}, [&](auto backend) {
            using Backend = decltype(backend);
            INFO(Backend::name << " multiplier " << curve.multiplier << " shift " << curve.shift);
            check_kernel(words, expected, [&](const auto* x, auto* y, index_t size, const Executor* executor) {
                kernels::look_up_tflite_curve<Backend>({knots.data(), x, y, size, executor, curve});
            });
        });
    }
}

TEST_CASE("TFLite's curve follows from the scale, and lies near the function") {
    const auto curve = [](bool is_tanh, float scale) { return arith::make_tflite_curve(is_tanh, scale); };
    // Of LiteRT 2.3: scales next to a power of two count as one.
    CHECK(*curve(false, 1.0f / 4096) == arith::TfliteCurve{3, 0, false});
    CHECK(*curve(false, 1.0005f / 4096) == arith::TfliteCurve{3, 0, false});
    CHECK(*curve(false, 1.001f / 4096) == arith::TfliteCurve{24600, 13, false});
    CHECK(*curve(false, 1.0f / 2048) == arith::TfliteCurve{24576, 12, false});
    CHECK(*curve(true, 1.0f / 2048) == arith::TfliteCurve{6, 0, true});
    CHECK(*curve(true, 1e-10f) == arith::TfliteCurve{2638, 31, true});
    CHECK(*curve(true, 5.2f) == arith::TfliteCurve{63897, 0, true});
    CHECK(curve(true, 5.34f).status() ==
          Status{StatusCode::scale_out_of_range, OpKind::lookup_table, Field::scale, 65536, 65535});
    CHECK_FALSE(curve(true, 1e-20f).ok());
    std::vector<std::int16_t> knots(arith::tflite_curve_size);
    CHECK(arith::make_tflite_curve_table(std::span(knots).first(256)).field == Field::storage);
    REQUIRE(arith::make_tflite_curve_table(knots).ok());
    for (const bool is_tanh : {false, true}) {
        const float scale = 8.0f / 32768;
        const auto place = curve(is_tanh, scale);
        REQUIRE(place.ok());
        double worst = 0;
        for (int x = -32768; x <= 32767; ++x) {
            const double real = static_cast<double>(x) * static_cast<double>(scale);
            const double wanted = (is_tanh ? std::tanh(real) : 1 / (1 + std::exp(-real))) * 32768;
            const double y = arith::tflite_curve<arith::scalar_lanes>(knots.data(), *place, x);
            worst = std::fmax(worst, std::fabs(y - wanted));
        }
        INFO("worst " << worst);
        CHECK(worst <= (is_tanh ? 2.0 : 1.1));
    }
}

TEST_CASE("int16 tables of 513 entries over -8 to 8 stay within the published error of the function") {
    struct Bound {
        TableFunction function;
        double largest, codes;
    };
    const double e8 = std::exp(8.0);
    for (const Bound& bound : {Bound{TableFunction::sigmoid, 1.0, 1.4}, Bound{TableFunction::tanh, 1.0, 4.1},
                               Bound{TableFunction::silu, 8.0, 1.25}, Bound{TableFunction::gelu_erf, 8.0, 1.4},
                               Bound{TableFunction::exp, e8, 5.0}, Bound{TableFunction::erf, 1.0, 4.9}}) {
        const float s_in = 8.0f / 32768, s_out = static_cast<float>(bound.largest / 32767);
        std::vector<std::int16_t> entries(arith::int16_table_size);
        REQUIRE(
            arith::make_int16_table(bound.function, {s_in, 0, DType::int16}, {s_out, 0, DType::int16}, entries).ok());
        double worst = 0;
        for (int x = -32768; x <= 32767; ++x) {
            const long double real = real_function(bound.function, static_cast<long double>(x) * s_in, 1.0L) / s_out;
            const std::int32_t y = arith::interpolate_table<arith::scalar_lanes>(entries.data(), x);
            worst = std::fmax(worst, static_cast<double>(std::fabs(static_cast<long double>(y) - real)));
        }
        INFO("function " << static_cast<int>(bound.function) << " errs by " << worst);
        CHECK(worst <= bound.codes);
    }
}

TEST_CASE("Tables that have no meaning are refused") {
    std::vector<std::int8_t> entries(256);
    std::vector<std::int16_t> wide(513);
    const CodesOf good{0.1f, 0, DType::int8}, good16{0.1f, 0, DType::int16};
    const auto make = [&](const CodesOf& in, const CodesOf& out) {
        return arith::make_int8_table(TableFunction::tanh, in, out, entries);
    };
    CHECK(make(good, good).ok());
    CHECK(make(good16, good).code == StatusCode::dtype_mismatch);
    CHECK(make(good, good16).field == Field::output);
    CHECK(make({0.0f, 0, DType::int8}, good).code == StatusCode::scale_out_of_range);
    CHECK(make(good, {std::nanf(""), 0, DType::int8}) ==
          Status{StatusCode::not_finite, OpKind::none, Field::scale, -1, 0, Field::output});
    CHECK(make({0.1f, 3, DType::int8}, good).ok());
    CHECK(make({0.1f, 128, DType::int8}, good) ==
          Status{StatusCode::value_out_of_range, OpKind::none, Field::zero_point, 128, 127, Field::input});
    CHECK(arith::make_int16_table(TableFunction::tanh, {0.1f, 3, DType::int16}, {0.1f, 0, DType::int16}, wide) ==
          Status{StatusCode::value_out_of_range, OpKind::none, Field::zero_point, 3, 0, Field::input});
    CHECK(arith::make_int8_table(TableFunction::tanh, good, good, std::span(entries).first(255)) ==
          Status{StatusCode::shape_mismatch, OpKind::none, Field::storage, 255, 256});
    for (const TableFunction function : {TableFunction::log, TableFunction::sqrt, TableFunction::rsqrt,
                                         TableFunction::reciprocal, TableFunction::leaky_relu})
        CHECK(arith::make_int16_table(function, good16, good16, wide).code == StatusCode::unsupported);
    CHECK(arith::make_int16_table(TableFunction::hard_swish, good16, good16, wide).ok());
}
