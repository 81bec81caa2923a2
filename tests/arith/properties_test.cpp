// SPDX-License-Identifier: MIT
//
// The properties of docs/arithmetic.md section 6: what must hold for every requantization, whatever its parameters.
#include <iostream>

#include "arith/targets.hpp"
#include "intq/arith/conv.hpp"
#include "intq/arith/pool.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using arith::RequantizeSource;
using arith::ShiftRounding;
using arith::SumRange;
using arith::TwoStageParams;

constexpr arith::OutputCodes range_of(DType output) {
    return arith::make_output_codes(lowest_code(output), highest_code(output), 0, 1.0f, Activation::none);
}

template <class Acc>
std::int32_t two_stage(Acc acc, const TwoStageParams& p, ShiftRounding pre, ShiftRounding post, DType output) {
    const auto words = arith::two_stage::make(p.multiplier, p.pre, pre, p.post, post);
    return arith::two_stage::apply<scalar_lanes>(acc, arith::two_stage::load<scalar_lanes>(words.data(), 1),
                                                 arith::OutputLanes<scalar_lanes>(range_of(output)));
}

/// The bpu rule in 128 bits, with or without the 16-bit clamp in its middle.
std::int64_t in_wide_integers(std::int64_t acc, const TwoStageParams& p, ShiftRounding pre, ShiftRounding post,
                              DType output, bool clamp_16) {
    const auto shift = [](ref::wide x, int n, ShiftRounding rounding) {
        return rounding == ShiftRounding::floor ? ref::shift_floor(x, n) : ref::shift_half_up(x, n);
    };
    ref::wide a = shift(acc, p.pre, pre);
    if (clamp_16) a = ref::clamp_bits(a, 16);
    return ref::to_int64(ref::clamp(shift(a * p.multiplier, p.post, post), lowest_code(output), highest_code(output)));
}

struct Case {
    TwoStageParams params;
    DType output;
    ShiftRounding pre;
};

/// Random parameters of an accumulator's requantization, every pre and post that can occur among them.
Case random_case(Random& random, int pre_cap) {
    Case c;
    c.output = random.one_in(2) ? DType::int8 : DType::int16;
    c.params =
        *arith::make_two_stage(random.scale(-60, 14), 1.0f, c.output, RequantizeSource::gemm_accumulator, pre_cap);
    c.pre = c.output == DType::int16 || random.one_in(3) ? ShiftRounding::half_up : ShiftRounding::floor;
    return c;
}

}  // namespace

TEST_CASE("properties: floor <= half up <= floor + 1, inside the limits, on random parameters and accumulators") {
    Random random(61);
    std::int64_t points = 0, equal = 0, broken = 0;
    for (int i = 0; i < 20'000; ++i) {
        const Case c = random_case(random, 31);
        for (int k = 0; k < 50; ++k, ++points) {
            const auto acc =
                static_cast<std::int32_t>(std::clamp<std::int64_t>(random.integer(31), INT32_MIN, INT32_MAX));
            const std::int32_t floor = two_stage(acc, c.params, c.pre, ShiftRounding::floor, c.output);
            const std::int32_t half_up = two_stage(acc, c.params, c.pre, ShiftRounding::half_up, c.output);
            broken += !(floor <= half_up && half_up <= floor + 1);
            broken += floor < lowest_code(c.output) || half_up > highest_code(c.output);
            equal += floor == half_up;
        }
    }
    CHECK(broken == 0);
    CHECK(equal > points / 10);
    CHECK(equal < points * 9 / 10);
}

TEST_CASE("properties: a larger accumulator never gives a smaller code, on any target") {
    Random random(62);
    for_each_target([&](auto tag) {
        using TargetType = decltype(tag);
        using Acc = arith::Accumulator<TargetType, DType::int8>;
        int broken = 0, steps = 0;
        for (int i = 0; i < 3000; ++i) {
            const float s_acc = random.scale(-30, 4);
            const auto words = arith::make_requantize_words(TargetType::policy, RequantizeSource::gemm_accumulator,
                                                            {s_acc, 1.0f, s_acc * random.scale(0, 26)}, DType::int8,
                                                            DType::int8, SumRange{INT32_MIN, INT32_MAX});
            if (!words) continue;
            // Neighbours around a random place, then strides over the whole range.
            const std::int64_t start = std::clamp<std::int64_t>(random.integer(31), INT32_MIN, INT32_MAX - 200);
            std::int32_t last = INT32_MIN;
            for (std::int64_t acc = start; acc < start + 200; ++acc, ++steps) {
                const std::int32_t y = requantize<TargetType>(static_cast<Acc>(acc), *words, {});
                broken += y < last;
                last = y;
            }
            last = INT32_MIN;
            const std::int64_t stride = random.between(1 << 22, 1 << 25);
            for (std::int64_t acc = INT32_MIN; acc <= INT32_MAX; acc += stride, ++steps) {
                const std::int32_t y = requantize<TargetType>(static_cast<Acc>(acc), *words, {});
                broken += y < last;
                last = y;
            }
        }
        INFO(TargetType::policy.name);
        CHECK(broken == 0);
        CHECK(steps > 500'000);
    });
}

TEST_CASE("properties: equal scales and types are the identity for every code, on every target") {
    Random random(63);
    for_each_target([&](auto tag) {
        using TargetType = decltype(tag);
        for (const DType dtype : {DType::int8, DType::int16}) {
            if (!takes<TargetType>(dtype)) continue;
            int changed = 0;
            for (int i = 0; i < 10; ++i) {
                const float s = random.scale(-23, 10);
                const SumRange range{lowest_code(dtype), highest_code(dtype)};
                const auto words = arith::make_requantize_words(TargetType::policy, RequantizeSource::code,
                                                                {s, 1.0f, s}, dtype, dtype, range);
                REQUIRE(words.ok());
                for (std::int64_t code = range.lowest; code <= range.highest; ++code)
                    changed += requantize<TargetType>(static_cast<std::int32_t>(code), *words, range_of(dtype)) != code;
            }
            INFO(TargetType::policy.name << ' ' << name_of(dtype));
            CHECK(changed == 0);
        }
    });
}

TEST_CASE("properties: the 16-bit clamp is invisible whenever post <= P, and only then") {
    Random random(64);
    int visible = 0, points = 0, visible_beyond = 0;
    for (int i = 0; i < 30'000; ++i) {
        const Case c = random_case(random, random.one_in(2) ? 17 : 31);
        const int kept = c.output == DType::int8 ? 22 : 14;
        for (int k = 0; k < 20; ++k) {
            // Around the clamp's corners and anywhere, in 62 bits as for meta.
            const std::int64_t corner =
                (random.one_in(2) ? 32767 : -32768) * (std::int64_t{1} << std::min(c.params.pre, 40));
            const std::int64_t acc = random.one_in(2) ? corner + random.integer(c.params.pre + 2) : random.integer(62);
            for (const ShiftRounding post : {ShiftRounding::floor, ShiftRounding::half_up}) {
                const bool differs = in_wide_integers(acc, c.params, c.pre, post, c.output, true) !=
                                     in_wide_integers(acc, c.params, c.pre, post, c.output, false);
                (c.params.post <= kept ? visible : visible_beyond) += differs;
                points += c.params.post <= kept;
            }
        }
    }
    CHECK(visible == 0);
    CHECK(points > 300'000);
    CHECK(visible_beyond > 0);
}

TEST_CASE(
    "properties: 32-bit products of 16-bit lanes are the rule of wide integers, over a small domain and at random") {
    // Every 16-bit value that can leave PRE, at the multipliers of the ends and the middle, with every post.
    int differences = 0;
    for (const std::int32_t multiplier : {16384, 16385, 20972, 32766, 32767})
        for (const int post : {0, 1, 7, 13, 14, 15, 22, 24, 30, 31})
            for (std::int32_t acc = INT16_MIN - 2; acc <= INT16_MAX + 2; ++acc)
                for (const ShiftRounding rounding : {ShiftRounding::floor, ShiftRounding::half_up}) {
                    const TwoStageParams p{multiplier, 0, post};
                    const std::int64_t a = std::clamp(acc, INT16_MIN, INT16_MAX),
                                       half = rounding == ShiftRounding::half_up && post > 0
                                                  ? std::int64_t{1} << (post - 1)
                                                  : 0;
                    const std::int64_t y = std::clamp<std::int64_t>((a * multiplier + half) >> post, -128, 127);
                    differences += two_stage(acc, p, ShiftRounding::floor, rounding, DType::int8) != y;
                }
    CHECK(differences == 0);
    Random random(65);
    for (int i = 0; i < 20'000; ++i) {
        const Case c = random_case(random, 31);
        const auto post = random.one_in(2) ? ShiftRounding::floor : ShiftRounding::half_up;
        for (int k = 0; k < 100; ++k) {
            const auto acc =
                static_cast<std::int32_t>(std::clamp<std::int64_t>(random.integer(31), INT32_MIN, INT32_MAX));
            const std::int32_t narrow = two_stage(acc, c.params, c.pre, post, c.output);
            differences += narrow != two_stage(std::int64_t{acc}, c.params, c.pre, post, c.output);
            if (k < 10) differences += narrow != in_wide_integers(acc, c.params, c.pre, post, c.output, true);
        }
    }
    CHECK(differences == 0);
}

TEST_CASE("properties: SRDHM and RDBPOT are gemmlowp's, by nudge and truncation and by mask and threshold") {
    using Policy = arith::fixed_point<arith::double_rounding>;
    const auto by_nudge = [](std::int64_t a, std::int64_t b) -> std::int64_t {
        if (a == b && a == INT32_MIN) return INT32_MAX;
        const std::int64_t product = a * b, nudge = product >= 0 ? std::int64_t{1} << 30 : 1 - (std::int64_t{1} << 30);
        return (product + nudge) / (std::int64_t{1} << 31);
    };
    const auto by_threshold = [](std::int32_t x, int n) {
        const std::int64_t mask = (std::int64_t{1} << n) - 1, remainder = x & mask,
                           threshold = (mask >> 1) + (x < 0 ? 1 : 0);
        return (x >> n) + (remainder > threshold ? 1 : 0);
    };
    Random random(66);
    int differences = 0;
    for (int i = 0; i < 1'000'000; ++i) {
        const auto any = [&] {
            return static_cast<std::int32_t>(std::clamp<std::int64_t>(random.integer(31), INT32_MIN, INT32_MAX));
        };
        const std::int32_t a = any(), b = random.one_in(64) ? a : any();
        // A multiplier is never negative: the one product that gemmlowp saturates does not occur.
        if (b != INT32_MIN) differences += scalar_lanes::sqrdmulh(a, b) != by_nudge(a, b);
        const int n = static_cast<int>(random.between(0, 31));
        const std::int32_t x =
            random.one_in(2) || n == 0 ? a : static_cast<std::int32_t>((a >> n << n) ^ (1 << (n - 1)));  // ties
        const auto channel = Policy::set<scalar_lanes>(Policy::make({INT32_MAX, -n}));
        if (x != INT32_MIN)
            differences += Policy::round_by_power_of_two<scalar_lanes>(x, channel) != by_threshold(x, n);
    }
    CHECK(differences == 0);
}

TEST_CASE("properties: a fused add follows real rho from 1e-2 to 2^24 within half a unit and 2^-15 of itself") {
    Random random(67);
    double worst = 0.0;
    for (int i = 0; i < 200'000; ++i) {
        const float rho = random.scale(-6.6, 24);  // s_in = s_w = 1
        // The range of an operand that ends at e: its end is the term of e.
        const std::int64_t e = random.one_in(8) ? 32767 : random.between(1, 32767);
        const auto sumin = arith::make_sumin(target::bpu<march::meta>::policy, {rho, 0, -e, e}, 1.0f, 1.0f, 1.0f, 64);
        REQUIRE(sumin.ok());
        const double real = static_cast<double>(e) * static_cast<double>(rho);
        const double bound = 0.5 + real * 0x1p-15;
        worst = std::max(worst, std::fabs(static_cast<double>(sumin->range.highest) - real) / bound);
        worst = std::max(worst, std::fabs(static_cast<double>(sumin->range.lowest) + real) / bound);
    }
    std::cout << "sumin: largest error " << worst << " of its bound (seed 67)\n";
    CHECK(worst <= 1.0);
    CHECK(worst > 0.9);
}

TEST_CASE("properties: avg_pool is mean: requantizing the sum at s_in/N with a half-up PRE") {
    Random random(68);
    int differences = 0;
    const auto check = [&](auto tag, DType dtype) {
        using TargetType = decltype(tag);
        for (int i = 0; i < 2000; ++i) {
            const float s_in = random.scale(-12, 2), s_out = s_in * random.scale(-3, 3);
            const index_t cells = random.between(1, 65'536);
            const auto average = arith::make_average(TargetType::policy, {s_in, 0, dtype}, {s_out, 0, dtype},
                                                     range_of(dtype), cells, PoolDivisor::kernel_cells, false);
            const auto mean = arith::make_two_stage(arith::fdiv(s_in, static_cast<float>(cells)), s_out, dtype,
                                                    RequantizeSource::average_accumulator, TargetType::policy.pre_cap);
            REQUIRE(average.ok());
            REQUIRE(mean.ok());
            for (int k = 0; k < 50; ++k) {
                const auto sum =
                    static_cast<std::int32_t>(random.between(lowest_code(dtype) * cells, highest_code(dtype) * cells));
                const std::int32_t y = arith::Average<scalar_lanes>(*average).code(sum, cells, *average);
                differences += y != two_stage(sum, *mean, ShiftRounding::half_up, ShiftRounding::half_up, dtype);
            }
        }
    };
    check(target::bpu<march::bernoulli2>{}, DType::int8);
    check(target::bpu<march::bayes>{}, DType::int8);
    check(target::bpu<march::bayes>{}, DType::int16);
    check(target::bpu<march::meta>{}, DType::int16);
    CHECK(differences == 0);
}

TEST_CASE("properties: a scale is a quotient; a product with the reciprocal has other bits") {
    Random random(69);
    int quotients = 0, products_differ = 0;
    constexpr int ranges = 100'000;
    volatile float reciprocal = 1.0f / 127.5f;
    for (int i = 0; i < ranges; ++i) {
        const float reach = random.scale(-10, 10);
        const float scale = arith::qparams_from_range(-reach, reach * 0.5f, {INT8_MIN, INT8_MAX})->scale;
        quotients += scale == ref::fdiv(reach, 127.5f);
        products_differ += scale != ref::fmul(reach, reciprocal);
    }
    std::cout << "scale: of " << ranges << " ranges, " << products_differ
              << " get other bits from a reciprocal (seed 69)\n";
    CHECK(quotients == ranges);
    CHECK(products_differ > ranges / 20);
}
