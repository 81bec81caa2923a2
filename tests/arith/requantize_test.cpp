// SPDX-License-Identifier: MIT
//
// Requantize of the library against the oracle, for every target: parameters, codes and refusals.
#include <algorithm>
#include <iostream>
#include <sstream>

#include "arith/targets.hpp"
#include "intq/arith/quantized_multiplier.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using arith::RequantizeSource;
using arith::SumRange;

/// The first difference of a loop, so that millions of points are one assertion.
struct Difference {
    std::int64_t points = 0, refusals = 0, differences = 0;
    std::string first;

    template <class... Part> void add(const Part&... part) {
        if (differences++ > 0) return;
        std::ostringstream text;
        text << std::hexfloat;
        ((text << part << ' '), ...);
        first = text.str();
    }
};

template <class TargetType, class Acc> class AccumulatorCheck {
public:
    AccumulatorCheck(DType input, DType output, std::uint64_t seed) : input_(input), output_(output), random_(seed) {}

    Difference run(int scales, int points) {
        for (int i = 0; i < scales; ++i) check_scales(points);
        return found_;
    }

private:
    void check_scales(int points) {
        const float s_in = random_.scale(-20, 4), s_w = random_.scale(-20, 4);
        const bool extreme = random_.one_in(8);
        // Mostly ratios that leave codes inside the range; some beyond every limit.
        const float s_out = extreme ? random_.scale(-60, 60) : s_in * s_w * random_.scale(-6, 24);
        const bool has_zero_point = TargetType::policy.zero_points && input_ == DType::int8 && random_.one_in(2);
        const ref::QParams out = codes_of(output_, s_out, has_zero_point ? random_.between(-128, 127) : 0);
        const int wide = is_bpu<TargetType> ? 62 : TargetType::policy.widens_int16 ? 53 : 47;
        const int bits = sizeof(Acc) == 8 ? wide : 31;
        SumRange range{random_.integer(bits), random_.integer(bits)};
        if (range.lowest > range.highest) std::swap(range.lowest, range.highest);
        if (sizeof(Acc) == 4) {
            range.lowest = std::clamp<std::int64_t>(range.lowest, INT32_MIN, INT32_MAX);
            range.highest = std::clamp<std::int64_t>(range.highest, INT32_MIN, INT32_MAX);
        } else if (bits == 53) {
            range.lowest = std::max<std::int64_t>(range.lowest, -(std::int64_t{1} << 53));
            range.highest = std::min<std::int64_t>(range.highest, std::int64_t{1} << 53);
        }

        const auto words = arith::make_requantize_words(TargetType::policy, RequantizeSource::gemm_accumulator,
                                                        {s_in, s_w, s_out}, input_, output_, range);
        const auto reference = [&](std::int64_t acc) {
            return unless_refused([&] {
                return ref::requantize_accumulator(Pair<TargetType>::reference(), acc, s_in, s_w,
                                                   8 * static_cast<int>(size_of(input_)), out);
            });
        };
        bool refused = !reference(range.lowest) || !reference(range.highest);
        if (TargetType::policy.requantize == arith::RequantizeRule::float_scale) {
            const float factor = ref::fp32_ratio(s_in, s_w, out);
            refused = refused || !(factor > 0.0f) || std::isinf(factor);  // the library's own refusal; see below
        }
        if (words.ok() == refused)
            found_.add("refusal: library", words.ok(), "s_in, s_w, s_out", s_in, s_w, s_out, "range", range.lowest,
                       range.highest);
        if (refused || !words) {
            ++found_.refusals;
            return;
        }
        const arith::OutputCodes codes = output_codes(out);
        const double ratio = static_cast<double>(s_in) * static_cast<double>(s_w) / static_cast<double>(s_out);
        for (int i = 0; i < points; ++i) {
            const std::int64_t acc = point(i, range, ratio);
            const std::int32_t given = requantize<TargetType>(static_cast<Acc>(acc), *words, codes);
            const auto expected = reference(acc);
            ++found_.points;
            if (given != expected.value_or(INT64_MAX))
                found_.add("code", given, "expected", expected.value_or(INT64_MAX), "acc", acc, "s_in, s_w, s_out",
                           s_in, s_w, s_out);
        }
    }

    std::int64_t point(int i, SumRange range, double ratio) {
        if (i == 0) return range.lowest;
        if (i == 1) return range.highest;
        if (i % 2 == 0) {  // near a tie between two codes, so that the last bit of every parameter counts
            const double steps = static_cast<double>(random_.between(-200, 200)) + 0.5;
            const double acc = std::floor(steps / ratio) + static_cast<double>(random_.between(-1, 1));
            if (acc >= static_cast<double>(range.lowest) && acc <= static_cast<double>(range.highest))
                return std::min(std::max(static_cast<std::int64_t>(acc), range.lowest), range.highest);
        }
        return random_.between(range.lowest, range.highest);
    }

    DType input_, output_;
    Random random_;
    Difference found_;
};

template <class TargetType, DType Input, class Acc = arith::Accumulator<TargetType, Input>>
void check_accumulators(DType output, std::uint64_t seed, Difference& total) {
    const Difference found = AccumulatorCheck<TargetType, Acc>(Input, output, seed).run(2000, 100);
    INFO(TargetType::policy.name << ' ' << name_of(Input) << " -> " << name_of(output) << ": " << found.first);
    CHECK(found.differences == 0);
    CHECK(found.points > 100'000);
    total.points += found.points;
    total.refusals += found.refusals;
}

template <class TargetType> void check_codes(DType input, DType output, std::uint64_t seed, Difference& found) {
    Random random(seed);
    for (int i = 0; i < 300; ++i) {
        const bool has_zero_point = TargetType::policy.zero_points && random.one_in(2);
        const float s_in = random.scale(-20, 4);
        const float s_out = i % 16 == 0 ? s_in : i % 16 == 1 ? random.scale(-60, 30) : s_in * random.scale(-8, 8);
        const ref::QParams in = codes_of(input, s_in, has_zero_point ? random.between(-128, 127) : 0);
        const ref::QParams out = codes_of(output, s_out, has_zero_point ? random.between(-128, 127) : 0);
        const SumRange range{in.qmin - in.zero_point, in.qmax - in.zero_point};
        const auto words = arith::make_requantize_words(TargetType::policy, RequantizeSource::code, {s_in, 1.0f, s_out},
                                                        input, output, range);
        const auto reference = [&](std::int64_t code) {
            return unless_refused([&] { return ref::requantize_code(Pair<TargetType>::reference(), code, in, out); });
        };
        const bool refused = !reference(in.qmin) || !reference(in.qmax);
        if (words.ok() == refused) found.add("refusal: library", words.ok(), "s_in, s_out", s_in, s_out, in.zero_point);
        if (!words || refused) {
            ++found.refusals;
            continue;
        }
        const std::int64_t step = input == DType::int8 ? 1 : random.between(97, 331);
        for (std::int64_t code = in.qmin; code <= in.qmax; code += step) {
            const auto given =
                requantize<TargetType>(static_cast<std::int32_t>(code - in.zero_point), *words, output_codes(out));
            const auto expected = reference(code);
            ++found.points;
            if (given != expected.value_or(INT64_MAX))
                found.add("code", code, "->", given, "expected", expected.value_or(INT64_MAX), "s_in, s_out", s_in,
                          s_out);
        }
    }
}

}  // namespace

TEST_CASE("requantize: an accumulator becomes the oracle's code, on every target and type, and refusals are the same") {
    Difference total;
    for_each_target([&](auto tag) {
        using TargetType = decltype(tag);
        check_accumulators<TargetType, DType::int8>(DType::int8, 1, total);
        if (!takes<TargetType>(DType::int16)) return;
        check_accumulators<TargetType, DType::int8>(DType::int16, 2, total);
        check_accumulators<TargetType, DType::int16>(DType::int8, 3, total);
        check_accumulators<TargetType, DType::int16>(DType::int16, 4, total);
        if constexpr (TargetType::policy.widens_int16)
            check_accumulators<TargetType, DType::int16, std::int64_t>(DType::int16, 6, total);
    });
    std::cout << "requantize, accumulator -> code: " << total.points << " points and " << total.refusals
              << " refusals equal the oracle's (seeds 1 to 4 and 6)\n";
    CHECK(total.refusals > 1000);
}

TEST_CASE(
    "requantize: a code becomes the oracle's code, on every target and pair of types, and refusals are the same") {
    Difference total;
    for_each_target([&](auto tag) {
        using TargetType = decltype(tag);
        for (const DType input : {DType::int8, DType::int16})
            for (const DType output : {DType::int8, DType::int16}) {
                if (!takes<TargetType>(input) || !takes<TargetType>(output)) continue;
                Difference found;
                check_codes<TargetType>(input, output, 5, found);
                INFO(TargetType::policy.name << ' ' << name_of(input) << " -> " << name_of(output) << ": "
                                             << found.first);
                CHECK(found.differences == 0);
                CHECK(found.points > 10'000);
                total.points += found.points;
                total.refusals += found.refusals;
            }
    });
    std::cout << "requantize, code -> code: " << total.points << " points and " << total.refusals
              << " refusals equal the oracle's (seed 5)\n";
    CHECK(total.refusals > 20);
}

TEST_CASE("requantize: the bpu multiplier and shifts are the oracle's, and a ratio of 2^15 is refused") {
    Random random(6);
    bool same = true;
    for (int i = 0; i < 200'000; ++i) {
        const float s_acc = random.scale(-100, 30), s_out = random.scale(-60, 30);
        for (const DType output : {DType::int8, DType::int16})
            for (const auto& [source, role] : {std::pair{RequantizeSource::gemm_accumulator, ref::Role::gemm},
                                               std::pair{RequantizeSource::code, ref::Role::code}}) {
                const auto params = arith::make_two_stage(s_acc, s_out, output, source, 17);
                std::optional<ref::BpuRequantize> expected;
                if (const float r = ref::fdiv(s_acc, s_out); r >= 0x1p-126f && r < 32768.0f)
                    expected = ref::make_bpu_requantize(ref::bayes(), s_acc, codes_of(output, s_out), role);
                same = same && params.ok() == expected.has_value();
                if (params.ok() && expected)
                    same = same && params->multiplier == expected->multiplier && params->pre == expected->pre &&
                           params->post == expected->post;
            }
    }
    CHECK(same);
    const auto refused = [](float r) {
        const auto params = arith::make_two_stage(r, 1.0f, DType::int8, RequantizeSource::gemm_accumulator, 17);
        return !params.ok() && params.status().code == StatusCode::scale_out_of_range &&
               params.status().field == Field::scale_ratio;
    };
    CHECK(refused(32768.0f));
    CHECK(refused(0.0f));
    CHECK(refused(-1.0f));
    CHECK(refused(std::numeric_limits<float>::infinity()));
    CHECK(refused(std::numeric_limits<float>::quiet_NaN()));
    CHECK_FALSE(refused(std::nextafter(32768.0f, 0.0f)));
    CHECK_FALSE(refused(std::numeric_limits<float>::min()));
    CHECK(refused(std::numeric_limits<float>::denorm_min()));
}

TEST_CASE("requantize: fp32 refuses a factor that is zero or infinite in float32") {
    const auto make = [](float s_in, float s_w, float s_out) {
        return arith::make_requantize_words(target::fp32::policy, RequantizeSource::gemm_accumulator,
                                            {s_in, s_w, s_out}, DType::int8, DType::int8, SumRange{-1, 1});
    };
    CHECK(make(1e-30f, 1e-30f, 1.0f).status().code == StatusCode::scale_out_of_range);
    CHECK(make(1e30f, 1e30f, 1.0f).status().code == StatusCode::scale_out_of_range);
    CHECK(make(1e-2f, 1e-2f, 1.0f).ok());
}

TEST_CASE("requantize: a multiplication that shifts left is refused exactly where 32 bits end") {
    const auto make = [](const PolicyRecord& policy, double r, SumRange range) {
        return arith::make_requantize_words(policy, RequantizeSource::gemm_accumulator,
                                            {static_cast<float>(r), 1.0f, 1.0f}, DType::int8, DType::int8, range);
    };
    constexpr auto twice = target::tflite<arith::double_rounding>::policy;
    constexpr auto once = target::tflite<arith::single_rounding>::policy;
    // r = 0.75·2^4: shift 4, so -2^27 <= acc < 2^27.
    CHECK(make(twice, 12.0, {-(1 << 27), (1 << 27) - 1}).ok());
    CHECK_FALSE(make(twice, 12.0, {-(1 << 27) - 1, 0}).ok());
    CHECK_FALSE(make(twice, 12.0, {0, 1 << 27}).ok());
    CHECK(make(once, 12.0, {INT32_MIN, INT32_MAX}).ok());
    // Shifts of 30 and 31: the second is refused with double rounding whatever the accumulator is.
    CHECK(make(twice, 0x1.8p29, {-1, 1}).ok());
    CHECK_FALSE(make(twice, 0x1.8p30, {0, 0}).ok());
    CHECK(make(once, 0x1.8p30, {INT32_MIN, INT32_MAX}).ok());
}

TEST_CASE("requantize: multiply_by_quantized_multiplier is the oracle's, for any multiplier and shift") {
    static_assert(arith::multiply_by_quantized_multiplier<arith::double_rounding>(7, 1717986918, -2) == 2);
    static_assert(arith::multiply_by_quantized_multiplier<arith::single_rounding>(7, 1717986918, -2) == 1);
    static_assert(arith::multiply_by_quantized_multiplier(std::int64_t{7654321}, 1374389535, -8) == 19136);
    Random random(11);
    Difference found;
    for (int i = 0; i < 200'000; ++i) {
        const int shift = static_cast<int>(random.between(-31, 30));
        const auto multiplier = static_cast<std::int32_t>(random.one_in(3) ? random.between(0, INT32_MAX)
                                                                           : random.between(1 << 30, INT32_MAX));
        const ref::TfliteMultiplier given{multiplier, shift};
        const auto x = static_cast<std::int32_t>(std::clamp<std::int64_t>(random.integer(31), INT32_MIN, INT32_MAX));
        ++found.points;
        const auto once = unless_refused([&] { return ref::to_int64(ref::multiply_single_rounding(x, given)); });
        const auto saturated = ref::to_int64(ref::clamp(*once, INT32_MIN, INT32_MAX));
        if (arith::multiply_by_quantized_multiplier<arith::single_rounding>(x, multiplier, shift) != saturated)
            found.add("single", x, multiplier, shift);
        const auto twice = unless_refused([&] { return ref::to_int64(ref::multiply_double_rounding(x, given)); });
        if (twice && arith::multiply_by_quantized_multiplier<arith::double_rounding>(x, multiplier, shift) != *twice)
            found.add("double", x, multiplier, shift);
        const std::int64_t sum = random.integer(47);
        const auto wide = unless_refused([&] { return ref::to_int64(ref::multiply_int64_accumulator(sum, given)); });
        if (!wide) continue;
        const auto narrowed = ref::to_int64(ref::clamp(*wide, INT32_MIN, INT32_MAX));
        if (arith::multiply_by_quantized_multiplier(sum, multiplier, shift) != narrowed)
            found.add("int64", sum, multiplier, shift);
    }
    INFO(found.first);
    CHECK(found.differences == 0);
}

TEST_CASE("requantize: relu and relu6 bounds are the oracle's") {
    Random random(7);
    bool same = true;
    for (int i = 0; i < 50'000; ++i) {
        const DType dtype = random.one_in(2) ? DType::int8 : DType::int16;
        ref::QParams out = codes_of(dtype, random.scale(-24, 6), random.between(-128, 127));
        if (random.one_in(4)) out.scale = 6.0f / (static_cast<float>(random.between(1, 127)) + 0.5f);  // ties of 6/s
        for (const auto& [activation, expected] :
             {std::pair{Activation::none, ref::Activation::none}, std::pair{Activation::relu, ref::Activation::relu},
              std::pair{Activation::relu6, ref::Activation::relu6}}) {
            const auto codes = arith::make_output_codes(out.qmin, out.qmax, static_cast<std::int32_t>(out.zero_point),
                                                        out.scale, activation);
            same = same && codes.lowest == ref::apply_activation(out.qmin, expected, out) &&
                   codes.highest == ref::apply_activation(out.qmax, expected, out) &&
                   codes.zero_point == out.zero_point;
        }
    }
    CHECK(same);
}
