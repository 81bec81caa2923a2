// SPDX-License-Identifier: MIT
//
// What convolution and linear compute when they are made (docs/arithmetic.md section 3, steps 0 to 4), against the
// oracle: raised scales, bias codes, the fused add and the accumulator's bound.
#include "intq/arith/conv.hpp"

#include <iostream>
#include <sstream>

#include "arith/targets.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using namespace intq::test;

constexpr PolicyRecord bernoulli2 = target::bpu<march::bernoulli2>::policy;
constexpr PolicyRecord bayes = target::bpu<march::bayes>::policy;
constexpr PolicyRecord meta = target::bpu<march::meta>::policy;

ref::WeightedLayer layer_of_one_channel(float s_in, float s_w, float bias) {
    ref::WeightedLayer layer;
    layer.in = layer.out = ref::int8(s_in);
    layer.weights.real = {0.0f};
    layer.weights.scale = {s_w};
    layer.weights.bias_real = {bias};
    return layer;
}

arith::SuminOperand operand(const ref::QParams& q) {
    return {q.scale, static_cast<std::int32_t>(q.zero_point), q.qmin, q.qmax};
}

/// The value that the library adds to a zero accumulator for the operand's code e, read off its words.
std::int64_t sumin_value(const arith::Sumin& sumin, std::int64_t e) {
    const auto [k, right, left] = sumin.words;
    return arith::shift_half_up(e * k, right) * (std::int64_t{1} << left);
}

}  // namespace

TEST_CASE("gemm: a raised weight scale is the oracle's, with and without a fused add") {
    Random random(31);
    int raised = 0, fused = 0;
    for_each_target([&](auto tag) {
        using TargetType = decltype(tag);
        int differences = 0;
        for (int i = 0; i < 50'000; ++i) {
            const float s_in = random.scale(-20, 4), s_w = random.scale(-23, 0);
            const float bias =
                random.scale(-30, 20) * (random.one_in(2) ? -1.0f : 1.0f) * (random.one_in(8) ? 0.0f : 1.0f);
            ref::WeightedLayer layer = layer_of_one_channel(s_in, s_w, bias);
            const ref::QParams e =
                random.one_in(2) ? ref::int8(random.scale(-20, 20)) : ref::int16(random.scale(-30, 10));
            if (TargetType::policy.fused_add && random.one_in(2)) layer.sumin = e;
            const arith::SuminOperand given = operand(e);
            const float scale = arith::raise_weight_scale(TargetType::policy, s_w, static_cast<double>(bias), s_in,
                                                          layer.sumin ? &given : nullptr);
            const float expected = ref::raise_scales(Pair<TargetType>::reference(), layer).front();
            differences += std::bit_cast<std::uint32_t>(scale) != std::bit_cast<std::uint32_t>(expected);
            raised += expected > s_w;
            fused += expected > s_w && layer.sumin;
        }
        INFO(TargetType::policy.name);
        CHECK(differences == 0);
    });
    CHECK(raised > 5000);
    CHECK(fused > 5000);
}

TEST_CASE("gemm: bias codes and their refusals are the oracle's") {
    Random random(32);
    int refused = 0;
    for_each_target([&](auto tag) {
        using TargetType = decltype(tag);
        int differences = 0;
        for (int i = 0; i < 50'000; ++i) {
            const float s_in = random.scale(-10, 2), s_w = random.scale(-20, 0);
            const double unit = static_cast<double>(s_in) * static_cast<double>(s_w);
            // Ties, the limits of 15, 30, 31 bits, and any size; beyond 2^62 see below.
            const auto steps = static_cast<double>(random.integer(random.one_in(2) ? 17 : 35)) +
                               0.5 * static_cast<double>(random.between(0, 1));
            const auto bias = static_cast<float>(steps * unit);
            const auto code = arith::quantize_bias(TargetType::policy, static_cast<double>(bias), s_in, s_w);
            int shift = 0;
            const auto expected =
                unless_refused([&] { return ref::make_bias(Pair<TargetType>::reference(), bias, s_in, s_w, shift); });
            differences += code.ok() != expected.has_value() || (expected && *code != *expected);
            refused += !expected;
        }
        INFO(TargetType::policy.name);
        CHECK(differences == 0);
    });
    CHECK(refused > 1000);
    const auto status = arith::quantize_bias(bayes, 1e6, 1e-3f, 1e-3f).status();
    CHECK(status.code == StatusCode::bias_out_of_range);
    CHECK(status.field == Field::bias);
}

TEST_CASE("gemm: a bias at the exact ends of its type") {
    const auto code = [](const PolicyRecord& policy, double bias) {
        return arith::quantize_bias(policy, bias, 1.0f, 1.0f);
    };
    CHECK(*code(bayes, 0x1p31 - 1) == INT32_MAX);
    CHECK_FALSE(code(bayes, 0x1p31 - 0.5).ok());  // rounds half up to 2^31
    CHECK(*code(bayes, -0x1p31 - 0.5) == INT32_MIN);
    CHECK_FALSE(code(bayes, -0x1p31 - 0.75).ok());
    CHECK(*code(bernoulli2, 0x1p30 - 1) == 0x3fff8000);  // (B >> 15) << 15
    CHECK_FALSE(code(bernoulli2, 0x1p30 - 0.5).ok());
    CHECK(*code(bernoulli2, -0x1p30 + 1) == -0x40000000);
    CHECK_FALSE(code(bernoulli2, -0x1p30).ok());
    CHECK(*code(bernoulli2, 32769) == 32768);
    CHECK(*code(bernoulli2, -32769) == -32770);  // the shift floors
    CHECK(*code(bernoulli2, 32767) == 32767);
    CHECK(*code(meta, 0x1p61) == std::int64_t{1} << 61);
    // The proof of step 4 adds in 64 bits, so the library keeps two bits free where the type of meta would not.
    CHECK_FALSE(code(meta, 0x1p62).ok());
    CHECK_FALSE(code(meta, 1e300).ok());
    CHECK_FALSE(code(meta, std::numeric_limits<double>::quiet_NaN()).ok());
}

TEST_CASE("gemm: the words of a fused add mean the oracle's term, and refusals are the same") {
    Random random(33);
    std::int64_t points = 0, refusals = 0, differences = 0;
    std::string first;
    for (const auto& [policy, target] :
         {std::pair{bernoulli2, ref::bernoulli2()}, std::pair{bayes, ref::bayes()}, std::pair{meta, ref::meta()}})
        for (int i = 0; i < 20'000; ++i) {
            const ref::QParams e =
                random.one_in(2) ? ref::int8(random.scale(-20, 10)) : ref::int16(random.scale(-30, 10));
            const float s_in = random.scale(-12, 2);
            const float s_w = e.scale / s_in * random.scale(-48, 12);  // rho from 2^-12 to 2^48
            const auto sumin = arith::make_sumin(policy, operand(e), s_in, s_w, 1.0f, target.accumulator_bits);
            const auto differs = [&] {
                if (differences++ > 0) return;
                std::ostringstream text;
                text << policy.name << std::hexfloat << ' ' << e.scale << ' ' << s_in << ' ' << s_w;
                first = text.str();
            };
            std::optional<ref::BpuMultiplier> expected;
            try {
                expected = ref::make_sumin(target, e, s_in, s_w);
            } catch (const ref::Refused&) {
                ++refusals;
            }
            if (sumin.ok() != expected.has_value()) differs();
            if (!sumin || !expected) continue;
            if (sumin->range.lowest != ref::sumin_term(e.qmin, *expected) ||
                sumin->range.highest != ref::sumin_term(e.qmax, *expected))
                differs();
            for (int k = 0; k < 8; ++k, ++points) {
                const std::int64_t code = random.code(e);
                if (sumin_value(*sumin, code) != ref::sumin_term(code, *expected)) differs();
            }
        }
    INFO(first);
    CHECK(differences == 0);
    CHECK(refusals > 1000);
    std::cout << "sumin: " << points << " terms and " << refusals << " refusals equal the oracle's (seed 33)\n";
}

TEST_CASE("gemm: a fused add is in the accumulator of bpu, beside it on fp32, and absent on tflite") {
    Random random(34);
    std::int64_t differences = 0;
    const auto check = [&](auto tag) {
        using TargetType = decltype(tag);
        using Acc = arith::Accumulator<TargetType, DType::int8>;
        using Policy = arith::RequantizePolicy<TargetType, Acc>;
        const ref::Target target = Pair<TargetType>::reference();
        for (int i = 0; i < 5000; ++i) {
            const float s_in = random.scale(-12, 2), s_w = random.scale(-14, 0);
            const bool has_zero_point = TargetType::policy.zero_points && random.one_in(2);
            const ref::QParams e =
                ref::int8(s_in * s_w * random.scale(-7, 20), has_zero_point ? random.between(-128, 127) : 0);
            const ref::QParams out =
                ref::int8(e.scale * random.scale(-3, 3), has_zero_point ? random.between(-128, 127) : 0);
            const auto sumin =
                arith::make_sumin(TargetType::policy, operand(e), s_in, s_w, out.scale, target.accumulator_bits);
            const arith::SumRange range{-(1 << 24), 1 << 24};
            const auto words =
                arith::make_requantize_words(TargetType::policy, arith::RequantizeSource::gemm_accumulator,
                                             {s_in, s_w, out.scale}, DType::int8, DType::int8, range);
            if (!sumin || !words) continue;
            arith::OutputCodes codes = output_codes(out);
            codes.sumin_zero_point = static_cast<std::int32_t>(e.zero_point);
            const auto channel = Policy::template load<scalar_lanes>(words->data(), 1);
            const auto sumin_channel = Policy::template load_sumin<scalar_lanes>(sumin->words.data(), 1);
            for (int k = 0; k < 20; ++k) {
                const std::int64_t acc = random.integer(24), code = random.code(e);
                const auto y = Policy::template apply_sumin<scalar_lanes>(
                    static_cast<Acc>(acc), static_cast<std::int32_t>(code), channel, sumin_channel,
                    arith::OutputLanes<scalar_lanes>(codes));
                const std::int64_t expected =
                    is_bpu<TargetType> ? ref::requantize_accumulator(
                                             target, acc + ref::sumin_term(code, ref::make_sumin(target, e, s_in, s_w)),
                                             s_in, s_w, 8, out)
                                       : ref::requantize_fp32_sumin(acc, s_in, s_w, code, e, out);
                differences += y != expected;
            }
        }
    };
    check(target::fp32{});
    check(target::bpu<march::bernoulli2>{});
    check(target::bpu<march::bayes>{});
    check(target::bpu<march::meta>{});
    CHECK(differences == 0);
    const auto refused = arith::make_sumin(target::tflite<>::policy, {1.0f}, 1.0f, 1.0f, 1.0f, 32);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().code == StatusCode::unsupported);
    CHECK(refused.status().field == Field::sumin);
}

TEST_CASE("gemm: an operand without negative codes cannot hide how far a fused add reaches") {
    // |qmin|·rho is 0 here; the positive end alone leaves every accumulator.
    const auto sumin = arith::make_sumin(bayes, {1.0f, 0, 0, 127}, 1e-20f, 1e-20f, 1.0f, 32);
    REQUIRE_FALSE(sumin.ok());
    CHECK(sumin.status().code == StatusCode::scale_out_of_range);
}

TEST_CASE("gemm: an all-zero channel with bias and fused add is never refused after step 0") {
    Random random(35);
    int refused = 0;
    for (const PolicyRecord& policy : {bernoulli2, bayes, meta})
        for (int i = 0; i < 20'000; ++i) {
            const float s_in = random.scale(-12, 2), bias = random.scale(-20, 8) * (random.one_in(2) ? -1.0f : 1.0f);
            const ref::QParams e = policy.accumulator_bits_int8 == 64 && random.one_in(2)
                                       ? ref::int16(random.scale(-24, 4))
                                       : ref::int8(random.scale(-16, 4));
            const arith::SuminOperand given = operand(e);
            const float s_w = arith::raise_weight_scale(policy, 0x1p-23f, static_cast<double>(bias), s_in, &given);
            const auto code = arith::quantize_bias(policy, static_cast<double>(bias), s_in, s_w);
            const auto sumin = arith::make_sumin(policy, given, s_in, s_w, 1.0f, policy.accumulator_bits_int8);
            if (!code || !sumin) {
                ++refused;
                continue;
            }
            const arith::SumRange range = arith::AccumulatorBound{}.range({-128, 127}, *code, sumin->range);
            const std::int64_t products = std::int64_t{65'534} * 128 * 128;  // room that other channels need
            refused +=
                !arith::SumRange{range.lowest - products, range.highest + products}.fits(policy.accumulator_bits_int8);
        }
    CHECK(refused == 0);
}

TEST_CASE("gemm: the accumulator's bound is reached by an input, and no input passes it") {
    Random random(36);
    for (int i = 0; i < 2000; ++i) {
        arith::AccumulatorBound bound;
        std::int64_t lowest = 0, highest = 0, sum = 0;
        const std::int64_t bias = random.integer(30);
        const arith::SumRange x{random.between(-255, 0), random.between(0, 255)};
        for (int n = 0; n < 20; ++n) {
            const std::int64_t w = random.between(-128, 127);
            bound.add_weight(w);
            sum += w;
            lowest += std::min(w * x.lowest, w * x.highest);
            highest += std::max(w * x.lowest, w * x.highest);
        }
        const arith::SumRange range = bound.range(x, bias, {-5, 7});
        REQUIRE(range.lowest == lowest + bias - 5);
        REQUIRE(range.highest == highest + bias + 7);
        REQUIRE(bound.weight_sum() == sum);
    }
    CHECK(arith::SumRange{INT32_MIN, INT32_MAX}.fits(32));
    CHECK_FALSE(arith::SumRange{INT32_MIN - std::int64_t{1}, 0}.fits(32));
    CHECK_FALSE(arith::SumRange{0, INT32_MAX + std::int64_t{1}}.fits(32));
    CHECK(arith::SumRange{-7, 3}.largest_magnitude() == 7);
}
