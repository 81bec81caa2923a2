// SPDX-License-Identifier: MIT
//
// Kernels with the multipliers and shifts of another engine, against TFLite's published formulas: the oracle here is
// written from those, with 64-bit integers and loops, and shares nothing with the library.
#include "intq/kernels/views/given.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/arith/litert.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/arith/tflite_functions.hpp"
#include "intq/kernels/views/views.hpp"
#include "kernels/oracle_bridge.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using arith::CodesOf;
using arith::QuantizedMultiplier;
using test::Draw;
using Wide = std::int64_t;

// --- TFLite's formulas ----------------------------------------------------------------------------------------------

Wide saturate(Wide x) { return std::clamp<Wide>(x, INT32_MIN, INT32_MAX); }

/// SaturatingRoundingDoublingHighMul
Wide srdhm(Wide a, Wide b) {
    if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;
    const Wide product = a * b, nudge = product >= 0 ? Wide{1} << 30 : 1 - (Wide{1} << 30);
    return (product + nudge) / (Wide{1} << 31);
}

/// RoundingDivideByPOT
Wide rdbpot(Wide x, int exponent) {
    const Wide mask = (Wide{1} << exponent) - 1, rest = x & mask, threshold = (mask >> 1) + (x < 0 ? 1 : 0);
    return (x >> exponent) + (rest > threshold ? 1 : 0);
}

/// MultiplyByQuantizedMultiplier, in both ways that the library is built.
Wide scaled(bool once, Wide x, const QuantizedMultiplier& by) {
    if (once) {
        const int total = 31 - by.shift;
        return saturate((x * by.multiplier + (Wide{1} << (total - 1))) >> total);
    }
    const int left = std::max(by.shift, 0), right = std::max(-by.shift, 0);
    return rdbpot(srdhm(x * (Wide{1} << left), by.multiplier), right);
}

/// MultiplyByQuantizedMultiplier of a sum of 64 bits: the multiplier is rounded to 16 bits.
Wide scaled_wide(Wide x, const QuantizedMultiplier& by) {
    const Wide reduced = by.multiplier < 0x7FFF0000 ? (Wide{by.multiplier} + (1 << 15)) >> 16 : 0x7FFF;
    const int total = 15 - by.shift;
    return (x * reduced + (Wide{1} << (total - 1))) >> total;
}

/// SaturatingRoundingMultiplyByPOT of a positive exponent.
Wide times_power(Wide x, int exponent) { return saturate(x * (Wide{1} << exponent)); }

/// exp of a number <= 0 with 5 bits before the point, as a number of 31 bits behind it.
Wide exp_on_negative_values(Wide a) {
    const Wide quarter = Wide{1} << 24;
    const Wide within = (a & (quarter - 1)) - quarter;  // -1/4 <= within < 0
    // exp on the interval, around -1/8: a series of the fourth order.
    const Wide x = times_power(within, 5) + (Wide{1} << 28);
    const Wide x2 = srdhm(x, x), x3 = srdhm(x2, x), x4 = srdhm(x2, x2);
    const Wide part = rdbpot(srdhm(rdbpot(x4, 2) + x3, 715827883) + x2, 1);
    Wide result = 1895147668 + srdhm(1895147668, x + part);
    const Wide remainder = within - a;
    const Wide factors[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    for (int i = 0; i < 7; ++i)
        if ((remainder & (Wide{1} << (24 + i))) != 0) result = srdhm(result, factors[i]);
    return a == 0 ? INT32_MAX : result;
}

/// 1/(1 + x) of a number in [0, 1): three steps of Newton and Raphson's method.
Wide one_over_one_plus_x(Wide a) {
    const Wide sum = a + INT32_MAX, half = (sum + (sum >= 0 ? 1 : -1)) / 2;  // RoundingHalfSum(a, 1)
    Wide x = 1515870810 + srdhm(half, -1010580540);
    for (int i = 0; i < 3; ++i) x += times_power(srdhm(x, (Wide{1} << 29) - srdhm(half, x)), 2);
    return times_power(x, 1);
}

/// reference_ops::Softmax of one row, to codes of `bits` bits.
std::vector<Wide> softmax(bool once, const std::vector<Wide>& x, const arith::GivenSoftmax& by, int bits) {
    const Wide largest = *std::max_element(x.begin(), x.end()), lowest = -(Wide{1} << (bits - 1));
    Wide sum = 0;
    for (const Wide code : x)
        if (code - largest >= by.diff_min)
            sum += rdbpot(exp_on_negative_values(scaled(once, code - largest, by.input)), 12);
    int headroom = 0;  // leading zeros of 32 bits
    while ((sum << headroom & 0x80000000) == 0) ++headroom;
    const Wide scale = one_over_one_plus_x((sum << headroom) - (Wide{1} << 31));
    std::vector<Wide> result;
    for (const Wide code : x) {
        Wide y = lowest;
        if (code - largest >= by.diff_min) {
            const Wide part = srdhm(scale, exp_on_negative_values(scaled(once, code - largest, by.input)));
            y = std::clamp(rdbpot(part, 12 - headroom + 31 - bits) + lowest, lowest, -lowest - 1);
        }
        result.push_back(y);
    }
    return result;
}

// --- drawing --------------------------------------------------------------------------------------------------------

QuantizedMultiplier draw_multiplier(Draw& draw, int lowest, int highest) {
    return {static_cast<std::int32_t>(draw.between(Wide{1} << 30, INT32_MAX)),
            static_cast<int>(draw.between(lowest, highest))};
}

template <class Code> CodesOf draw_codes(Draw& draw) {
    // A scale that is none shows that nobody reads it.
    const bool has_zero_point = std::is_same_v<Code, std::int8_t>;
    const auto zero_point = static_cast<std::int32_t>(has_zero_point ? draw.between(-128, 127) : 0);
    return {std::numeric_limits<float>::quiet_NaN(), zero_point, dtype_of<Code>};
}

template <class Code> kernels::CodeBounds draw_bounds(Draw& draw, bool all) {
    const auto lowest = static_cast<std::int32_t>(lowest_code(dtype_of<Code>)),
               highest = static_cast<std::int32_t>(highest_code(dtype_of<Code>));
    if (all) return {lowest, highest};
    return {static_cast<std::int32_t>(draw.between(lowest, 0)), static_cast<std::int32_t>(draw.between(1, highest))};
}

template <class Code> std::vector<Code> draw_data(Draw& draw, index_t count) {
    std::vector<Code> data;
    for (index_t i = 0; i < count; ++i)
        data.push_back(
            static_cast<Code>(i == 0   ? lowest_code(dtype_of<Code>)
                              : i == 1 ? highest_code(dtype_of<Code>)
                                       : draw.between(lowest_code(dtype_of<Code>), highest_code(dtype_of<Code>))));
    return data;
}

template <class Code> using Row = TensorView<Code, 2>;
template <class Code> Row<const Code> reader(const std::vector<Code>& data) {
    return Row<const Code>(data.data(), {1, static_cast<index_t>(data.size())});
}
template <class Code> Row<Code> writer(std::vector<Code>& data) {
    return Row<Code>(data.data(), {1, static_cast<index_t>(data.size())});
}

Wide finish(Wide value, const CodesOf& out, const kernels::CodeBounds& bounds) {
    return std::clamp<Wide>(value + out.zero_point, bounds.lowest, bounds.highest);
}

/// Calls visit(target, code, whether it rounds once).
template <class Visit> void for_each_kind(Visit&& visit) {
    visit(target::tflite<>{}, std::int8_t{}, false);
    visit(target::tflite<arith::single_rounding>{}, std::int8_t{}, true);
    visit(target::litert{}, std::int8_t{}, false);
    visit(target::tflite<>{}, std::int16_t{}, false);
    visit(target::tflite<arith::single_rounding>{}, std::int16_t{}, true);
}

}  // namespace

TEST_CASE("add, sub, mul, requantize and matmul take multipliers and shifts as they are, and give TFLite's codes") {
    for_each_kind([](auto target_tag, auto code, bool once) {
        using Target = decltype(target_tag);
        using Code = decltype(code);
        const bool is_wide = std::is_same_v<Code, std::int16_t>;
        int wrong = 0;
        for (std::uint64_t seed = 0; seed < 200; ++seed) {
            Draw draw(seed);
            const CodesOf of_x = draw_codes<Code>(draw), of_y = draw_codes<Code>(draw), of_z = draw_codes<Code>(draw);
            const kernels::CodeBounds bounds = draw_bounds<Code>(draw, seed % 2 == 0);
            const int left = is_wide ? 15 : static_cast<int>(draw.between(10, 20));
            const arith::GivenAdd by{left, draw_multiplier(draw, -3, 0), draw_multiplier(draw, -3, 0),
                                     draw_multiplier(draw, -left - 2, is_wide ? -13 : -left + 4)};
            const QuantizedMultiplier product = draw_multiplier(draw, is_wide ? -18 : -9, is_wide ? -12 : -3),
                                      code_by = draw_multiplier(draw, -3, 3);
            const std::vector<Code> x = draw_data<Code>(draw, 300), y = draw_data<Code>(draw, 300);
            std::vector<Code> z(x.size());

            const auto sum = kernels::make_given_add<Target>(of_x, of_y, of_z, by, bounds);
            const auto less = kernels::make_given_sub<Target>(of_x, of_y, of_z, by, bounds);
            const auto times = kernels::make_given_mul<Target>(of_x, of_y, of_z, product, bounds);
            const auto again = kernels::make_given_requantize<Target>(of_x, of_z, code_by, bounds);
            REQUIRE((sum.ok() && less.ok() && times.ok() && again.ok()));
            const auto check = [&](auto expected) {
                for (std::size_t i = 0; i < x.size(); ++i)
                    wrong += z[i] !=
                             finish(expected(Wide{x[i]} - of_x.zero_point, Wide{y[i]} - of_y.zero_point), of_z, bounds);
            };
            const auto operand = [&](Wide of, const QuantizedMultiplier& m) {
                return scaled(once, of * (Wide{1} << left), m);
            };
            kernels::add<Target>(reader(x), reader(y), *sum, writer(z));
            check([&](Wide a, Wide b) { return scaled(once, operand(a, by.x) + operand(b, by.y), by.output); });
            kernels::add<Target>(reader(x), reader(y), *less, writer(z));
            check([&](Wide a, Wide b) { return scaled(once, operand(a, by.x) - operand(b, by.y), by.output); });
            kernels::mul<Target>(reader(x), reader(y), *times, writer(z));
            check([&](Wide a, Wide b) { return scaled(once, a * b, product); });
            kernels::requantize<Target>(reader(x), *again, writer(z));
            check([&](Wide a, Wide) { return scaled(once, a, code_by); });

            constexpr index_t rows = 4, inner = 15, columns = 20;
            const auto matrix = kernels::make_given_matmul<Target>(of_x, of_y, of_z, inner, product, bounds);
            REQUIRE(matrix.ok());
            const Row<const Code> left_view(x.data(), {rows, inner}), right_view(y.data(), {inner, columns});
            const Row<Code> to(z.data(), {rows, columns});
            alignas(buffer_alignment) std::byte scratch[16384];
            REQUIRE(kernels::matmul_workspace_size(left_view, right_view) <= static_cast<index_t>(sizeof scratch));
            REQUIRE(kernels::check_matmul<Target>(left_view, right_view, *matrix, to).ok());
            kernels::matmul<Target>(left_view, right_view, *matrix, to, {scratch, sizeof scratch});
            for (index_t i = 0; i < rows; ++i)
                for (index_t j = 0; j < columns; ++j) {
                    Wide total = 0;
                    for (index_t k = 0; k < inner; ++k)
                        total += (Wide{left_view(i, k)} - of_x.zero_point) * (right_view(k, j) - of_y.zero_point);
                    const Wide expected = is_wide ? scaled_wide(total, product) : scaled(once, total, product);
                    wrong += to(i, j) != finish(expected, of_z, bounds);
                }
        }
        INFO(Target::policy.name << " " << name_of(dtype_of<Code>));
        CHECK(wrong == 0);
    });
}

TEST_CASE("A difference subtracts what it scaled, as LiteRT does: a negated multiplier would round ties otherwise") {
    // Real scales 1, 1/2 + 2^-21 and 1. LiteRT 2.3 gives these codes for y = 5, and a multiplier of -2^30 - 2^10 for y
    // would give 1, 2, 3, 4, 5 for the last five.
    const arith::GivenAdd by{20, {1 << 30, 0}, {(1 << 30) + (1 << 10), -1}, {1 << 30, -18}};
    const CodesOf codes{};
    std::vector<std::int8_t> x, y(16, 5), z(16);
    for (int i = -8; i < 8; ++i) x.push_back(static_cast<std::int8_t>(i));
    const auto less = kernels::make_given_sub<target::tflite<>>(codes, codes, codes, by, {-128, 127});
    REQUIRE(less.ok());
    kernels::add<target::tflite<>>(reader(x), reader(y), *less, writer(z));
    CHECK(z == std::vector<std::int8_t>{-11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4});
}

TEST_CASE("A mean takes a multiplier and a shift, of the sum or of a code") {
    for_each_kind([](auto target_tag, auto code, bool once) {
        using Target = decltype(target_tag);
        using Code = decltype(code);
        int wrong = 0;
        for (std::uint64_t seed = 0; seed < 60; ++seed) {
            Draw draw(seed);
            const index_t height = draw.between(1, 7), width = draw.between(1, 9), channels = draw.between(1, 20);
            const CodesOf in = draw_codes<Code>(draw), out = draw_codes<Code>(draw);
            const kernels::CodeBounds bounds = draw_bounds<Code>(draw, seed % 2 == 0);
            const QuantizedMultiplier of_code = draw_multiplier(draw, -4, 0);
            // LiteRT's MEAN: as many bits as the count has, and the quotient.
            const index_t cells = height * width;
            int bits = 0;
            while ((cells >> (bits + 1)) > 0) ++bits;
            bits = std::min({bits, 32, 31 + of_code.shift});
            const QuantizedMultiplier of_sum{static_cast<std::int32_t>((Wide{of_code.multiplier} << bits) / cells),
                                             of_code.shift - bits};
            CHECK(arith::divide_multiplier(of_code, cells) == of_sum);

            const Window2d window{{height, width}, {height, width}, {}, {1, 1}};
            const auto mean = kernels::make_given_mean<Target>(window, in, out, of_sum, bounds);
            REQUIRE(mean.ok());
            const std::vector<Code> x = draw_data<Code>(draw, cells * channels);
            std::vector<Code> y(static_cast<std::size_t>(channels));
            kernels::avg_pool2d<Target>(ImageView<const Code>(x.data(), {1, channels, height, width}), window, *mean,
                                        ImageView<Code>(y.data(), {1, channels, 1, 1}));
            for (index_t c = 0; c < channels; ++c) {
                Wide sum = 0;
                for (index_t i = 0; i < cells; ++i)
                    sum += x[static_cast<std::size_t>(i * channels + c)] - in.zero_point;
                wrong += y[static_cast<std::size_t>(c)] != finish(scaled(once, sum, of_sum), out, bounds);
            }
        }
        INFO(Target::policy.name << " " << name_of(dtype_of<Code>));
        CHECK(wrong == 0);
    });
}

TEST_CASE("softmax takes input_multiplier, input_left_shift and diff_min, whatever beta they contain") {
    const auto check = [](auto target_tag, auto out_code, bool once) {
        using Target = decltype(target_tag);
        using Out = decltype(out_code);
        int wrong = 0, beyond = 0;
        for (std::uint64_t seed = 0; seed < 120; ++seed) {
            Draw draw(seed);
            const int shift = static_cast<int>(draw.between(18, 29));
            const arith::GivenSoftmax by{draw_multiplier(draw, shift, shift),
                                         // TFLite's CalculateInputRadius of 5 bits; and narrower ones.
                                         seed % 3 == 0
                                             ? -static_cast<std::int32_t>(draw.between(0, 31 * (1 << 26) >> shift))
                                             : -static_cast<std::int32_t>((Wide{31} << 26) >> shift)};
            const auto numbers = kernels::make_given_softmax<Target>(by);
            REQUIRE(numbers.ok());
            const index_t terms = draw.between(2, 40);
            std::vector<std::int8_t> x = draw_data<std::int8_t>(draw, terms);
            if (seed % 2 == 0)
                for (std::int8_t& each : x) each = static_cast<std::int8_t>(each / 16);
            std::vector<Out> y(x.size());
            kernels::softmax<Target>(reader(x), *numbers, 1, writer(y));
            const std::vector<Wide> expected =
                softmax(once, {x.begin(), x.end()}, by, static_cast<int>(8 * sizeof(Out)));
            for (std::size_t i = 0; i < x.size(); ++i) {
                wrong += y[i] != expected[i];
                beyond += expected[i] == std::numeric_limits<Out>::lowest();
            }
        }
        INFO(Target::policy.name << " " << name_of(dtype_of<Out>));
        CHECK(wrong == 0);
        CHECK(beyond > 0);
    };
    check(target::tflite<>{}, std::int8_t{}, false);
    check(target::tflite<>{}, std::int16_t{}, false);
    check(target::litert{}, std::int8_t{}, false);
    check(target::tflite<arith::single_rounding>{}, std::int8_t{}, true);
}

TEST_CASE("softmax of int16 codes takes its multiplier and shift as it makes them") {
    using Target = target::tflite<>;
    const CodesOf codes{0.0007f, 0, DType::int16};
    const auto made = kernels::make_softmax<Target, std::int16_t>(codes);
    REQUIRE(made.ok());
    const auto given = kernels::make_given_softmax<Target, std::int16_t>({*made, 0});
    REQUIRE(given.ok());
    CHECK(*given == *made);
}

TEST_CASE("Given integers that are none, or that leave 32 bits, are refused with what was given") {
    using Target = target::tflite<>;
    const CodesOf codes{}, wide{1.0f, 0, DType::int16};
    const kernels::CodeBounds all{-128, 127};
    const QuantizedMultiplier half{1 << 30, 0};
    const auto is = [](const Status& status, StatusCode code, Field field, std::int64_t given) {
        INFO(name_of(status.code) << " of " << name_of(status.field) << ": " << status.given);
        CHECK((status.code == code && status.field == field && status.given == given));
    };
    const auto add = [&](const arith::GivenAdd& by, const CodesOf& of) {
        return kernels::make_given_add<Target>(of, of, of, by, all).status();
    };
    is(add({20, {-5, 0}, half, half}, codes), StatusCode::value_out_of_range, Field::multiplier, -5);
    is(add({20, half, {-6, 0}, half}, codes), StatusCode::value_out_of_range, Field::multiplier, -6);
    is(add({20, half, half, {-7, 0}}, codes), StatusCode::value_out_of_range, Field::multiplier, -7);
    is(add({20, {1 << 30, -32}, half, half}, codes), StatusCode::value_out_of_range, Field::shift, -32);
    is(add({21, half, half, half}, codes), StatusCode::value_out_of_range, Field::shift, 21);
    is(add({-1, half, half, half}, codes), StatusCode::value_out_of_range, Field::shift, -1);
    is(add({16, half, half, half}, wide), StatusCode::accumulator_overflow, Field::shift, Wide{65535} << 16);
    CHECK(add({20, {INT32_MAX, 4}, half, half}, codes).code == StatusCode::accumulator_overflow);
    // Each operand fits, and their sum does not.
    CHECK(add({20, {INT32_MAX, 3}, {INT32_MAX, 3}, half}, {1.0f, -128, DType::int8}).code ==
          StatusCode::accumulator_overflow);
    CHECK(add({20, half, half, {1 << 30, 5}}, codes).code == StatusCode::accumulator_overflow);
    CHECK(add({20, {-5, 0}, half, half}, codes).op == OpKind::add);
    CHECK(kernels::make_given_sub<Target>(codes, codes, codes, {20, {-5, 0}, half, half}, all).status().op ==
          OpKind::sub);
    is(kernels::make_given_mul<Target>(codes, codes, codes, {-1, 0}, all).status(), StatusCode::value_out_of_range,
       Field::multiplier, -1);
    is(kernels::make_given_matmul<Target>(codes, codes, codes, 8, {-1, 0}, all).status(),
       StatusCode::value_out_of_range, Field::multiplier, -1);
    is(kernels::make_given_matmul<Target>(codes, codes, codes, 0, half, all).status(), StatusCode::value_out_of_range,
       Field::kernel, 0);
    is(kernels::make_given_requantize<Target>(codes, codes, {1 << 30, 31}, all).status(),
       StatusCode::value_out_of_range, Field::shift, 31);
    is(kernels::make_given_requantize<Target>(codes, codes, half, {5, 4}).status(), StatusCode::value_out_of_range,
       Field::quant_range, 5);
    const Window2d window{{2, 2}, {2, 2}, {}, {1, 1}}, padded{{2, 2}, {2, 2}, {1, 0, 0, 0}, {1, 1}};
    is(kernels::make_given_mean<Target>(window, codes, codes, {-3, 0}, all).status(), StatusCode::value_out_of_range,
       Field::multiplier, -3);
    is(kernels::make_given_mean<Target>(padded, codes, codes, half, all).status(), StatusCode::unsupported,
       Field::padding, 1);
    is(kernels::make_given_softmax<Target>({{-2, 20}, -9}).status(), StatusCode::value_out_of_range, Field::multiplier,
       -2);
    is(kernels::make_given_softmax<Target>({{1 << 30, -1}, -9}).status(), StatusCode::value_out_of_range, Field::shift,
       -1);
    is(kernels::make_given_softmax<Target>({{1 << 30, 20}, 9}).status(), StatusCode::value_out_of_range, Field::input,
       9);
    is(kernels::make_given_softmax<Target>({{1 << 30, 29}, -9}).status(), StatusCode::accumulator_overflow,
       Field::shift, Wide{9} << 29);
    is(kernels::make_given_softmax<Target, std::int16_t>({{1 << 30, 16}, 0}).status(), StatusCode::value_out_of_range,
       Field::shift, 16);
    // A target that has no multipliers.
    using Other = target::fp32;
    CHECK(kernels::make_given_add<Other>(codes, codes, codes, {20, half, half, half}, all).status().code ==
          StatusCode::unsupported);
    CHECK(kernels::make_given_mul<Other>(codes, codes, codes, half, all).status().code == StatusCode::unsupported);
    CHECK(kernels::make_given_matmul<Other>(codes, codes, codes, 8, half, all).status().code ==
          StatusCode::unsupported);
    CHECK(kernels::make_given_requantize<Other>(codes, codes, half, all).status().code == StatusCode::unsupported);
    CHECK(kernels::make_given_mean<Other>(window, codes, codes, half, all).status().code == StatusCode::unsupported);
    CHECK(kernels::make_given_softmax<Other>({half, -9}).status().code == StatusCode::unsupported);
}
