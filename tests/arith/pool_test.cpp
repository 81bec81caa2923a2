// SPDX-License-Identifier: MIT
//
// Averages of codes by the library against the oracle, for every target: codes, refusals, full-scale sums.
#include "intq/arith/pool.hpp"

#include <algorithm>
#include <iostream>
#include <sstream>
#include <vector>

#include "arith/targets.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using namespace intq::test;

struct Found {
    std::int64_t points = 0, refusals = 0, differences = 0;
    std::string first;
};

struct AverageCase {
    ref::QParams in, out;
    index_t kernel_cells = 1;
    PoolDivisor divisor = PoolDivisor::kernel_cells;
    bool has_padding = false;
    bool is_mean = false;  // made by make_mean
};

arith::CodesOf given(const ref::QParams& q) {
    return {q.scale, static_cast<std::int32_t>(q.zero_point), q.bits == 16 ? DType::int16 : DType::int8};
}

template <class TargetType> Result<arith::AverageParams> make(const AverageCase& c) {
    const auto& policy = TargetType::policy;
    if (c.is_mean) return arith::make_mean(policy, given(c.in), given(c.out), output_codes(c.out), c.kernel_cells);
    return arith::make_average(policy, given(c.in), given(c.out), output_codes(c.out), c.kernel_cells, c.divisor,
                               c.has_padding);
}

/// The oracle's code of `valid` cells with this sum, the rest of the window being padding.
template <class TargetType>
std::optional<std::int64_t> reference(const AverageCase& c, std::int64_t sum, index_t valid) {
    const std::int64_t padded = c.divisor == PoolDivisor::kernel_cells ? c.kernel_cells - valid : 0;
    const bool requantizes =
        Pair<TargetType>::reference().is_tflite() && !c.has_padding && (c.is_mean || !ref::keeps_grid(c.in, c.out));
    return unless_refused([&] {
        if (requantizes) return ref::mean_code(Pair<TargetType>::reference(), sum, valid, c.in, c.out);
        return ref::average_code(Pair<TargetType>::reference(), sum + padded * c.in.zero_point, valid + padded, c.in,
                                 c.out);
    });
}

template <class TargetType> void check_average(const AverageCase& c, int points, Random& random, Found& found) {
    const auto differs = [&](auto... part) {
        if (found.differences++ > 0) return;
        std::ostringstream text;
        text << std::hexfloat << c.in.scale << ' ' << c.out.scale << " cells " << c.kernel_cells << ' ';
        ((text << part << ' '), ...);
        found.first = text.str();
    };
    const auto params = make<TargetType>(c);
    const bool wrong_divisor =
        c.has_padding && ((is_bpu<TargetType> && c.divisor == PoolDivisor::valid_cells) ||
                          (Pair<TargetType>::reference().is_tflite() && c.divisor == PoolDivisor::kernel_cells));
    const bool refused = wrong_divisor || !reference<TargetType>(c, 0, c.kernel_cells);
    if (params.ok() == refused) differs("refusal: library", params.ok());
    if (refused || !params) {
        ++found.refusals;
        return;
    }
    const arith::Average<scalar_lanes> average(*params);
    for (int i = 0; i < points; ++i) {
        const index_t valid = c.has_padding ? random.between(1, c.kernel_cells) : c.kernel_cells;
        const std::int64_t sum = i == 0   ? valid * c.in.qmin
                                 : i == 1 ? valid * c.in.qmax
                                          : random.between(valid * c.in.qmin, valid * c.in.qmax);
        const std::int32_t code = average.code(static_cast<std::int32_t>(sum), valid, *params);
        ++found.points;
        const auto expected = reference<TargetType>(c, sum, valid);
        if (code != expected.value_or(INT64_MAX)) differs("sum", sum, "of", valid, "->", code, "expected", *expected);
    }
}

template <class TargetType> AverageCase random_case(DType dtype, Random& random) {
    AverageCase c;
    const bool has_zero_point = TargetType::policy.zero_points && random.one_in(2);
    c.in = codes_of(dtype, random.scale(-20, 4), has_zero_point ? random.between(-128, 127) : 0);
    c.out = c.in;
    if (!random.one_in(3)) {
        c.out.scale = random.one_in(8) ? random.scale(-60, 40) : c.in.scale * random.scale(-3, 3);
        c.out.zero_point = has_zero_point ? random.between(-128, 127) : 0;
    }
    const index_t side = random.between(1, 40);
    c.kernel_cells =
        random.one_in(4) ? random.between(1, dtype == DType::int8 ? 8'000'000 : 32'767) : side * random.between(1, 40);
    c.has_padding = random.one_in(2);
    if (Pair<TargetType>::reference().is_tflite() && !random.one_in(c.has_padding ? 8 : 2)) c.out = c.in;
    c.is_mean = !c.has_padding && random.one_in(2);
    c.divisor = random.one_in(2) ? PoolDivisor::kernel_cells : PoolDivisor::valid_cells;
    return c;
}

constexpr index_t full_cells = 256 * 256;

}  // namespace

TEST_CASE("average: codes and refusals are the oracle's, on every target and type, padded or not") {
    Found total;
    for_each_target([&](auto tag) {
        using TargetType = decltype(tag);
        for (const DType dtype : {DType::int8, DType::int16}) {
            if (!takes<TargetType>(dtype)) continue;
            Random random(21);
            Found found;
            for (int i = 0; i < 2000; ++i)
                check_average<TargetType>(random_case<TargetType>(dtype, random), 50, random, found);
            INFO(TargetType::policy.name << ' ' << name_of(dtype) << ": " << found.first);
            CHECK(found.differences == 0);
            CHECK(found.points > 20'000);
            total.points += found.points;
            total.refusals += found.refusals;
        }
    });
    std::cout << "average: " << total.points << " points and " << total.refusals
              << " refusals equal the oracle's (seed 21)\n";
    CHECK(total.refusals > 1000);
}

TEST_CASE("average: a full-scale 256x256 int16 window is the oracle's on every target, and a cell more is refused") {
    for_each_target([&](auto tag) {
        using TargetType = decltype(tag);
        if (!takes<TargetType>(DType::int16)) return;
        AverageCase c;
        c.in = c.out = ref::int16(1e-3f);
        c.kernel_cells = full_cells;
        INFO(TargetType::policy.name);
        const auto params = make<TargetType>(c);
        REQUIRE(params.ok());
        const arith::Average<scalar_lanes> average(*params);
        for (const std::int64_t code : {-32768, -32767, -1, 0, 1, 32767})
            for (const std::int64_t more : {-full_cells / 2, -full_cells / 2 + 1, index_t{-1}, index_t{0}, index_t{1},
                                            full_cells / 2 - 1, full_cells / 2}) {
                const std::int64_t sum = code * full_cells + more;
                if (sum < -32768 * full_cells || sum > 32767 * full_cells) continue;
                CAPTURE(sum);
                CHECK(average.code(static_cast<std::int32_t>(sum), full_cells, *params) ==
                      reference<TargetType>(c, sum, full_cells).value());
            }
        if (Pair<TargetType>::reference().is_tflite()) {
            c.is_mean = true;
            c.out.scale = 3e-4f;
            const auto mean = make<TargetType>(c);
            REQUIRE(mean.ok());
            for (const std::int64_t sum : {-32768 * full_cells, index_t{-1}, index_t{1}, 32767 * full_cells})
                CHECK(arith::Average<scalar_lanes>(*mean).code(static_cast<std::int32_t>(sum), full_cells, *mean) ==
                      reference<TargetType>(c, sum, full_cells).value());
            c.is_mean = false;
            c.out = c.in;
        }
        c.kernel_cells = full_cells + 1;
        const auto refused = make<TargetType>(c);
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.status().code == StatusCode::accumulator_overflow);
        CHECK(refused.status().given == 32768 * (full_cells + 1));
    });
}

TEST_CASE(
    "average: with padding tflite keeps scale and zero point, and each rule has its padding; the refusal names "
    "the field") {
    using Lite = target::tflite<>;
    const ref::QParams q = ref::int8(0.5f, 3);
    const auto field = [](const auto& result) { return result.ok() ? Field::none : result.status().field; };
    CHECK(field(make<Lite>({q, ref::int8(0.25f, 3), 4, PoolDivisor::valid_cells, true})) == Field::scale);
    CHECK(field(make<Lite>({q, ref::int8(0.5f, 2), 4, PoolDivisor::valid_cells, true})) == Field::zero_point);
    for (const PoolDivisor divisor : {PoolDivisor::valid_cells, PoolDivisor::kernel_cells}) {
        CHECK(make<Lite>({q, ref::int8(0.25f, 3), 4, divisor, false}).ok());
        CHECK(make<Lite>({q, ref::int8(0.5f, 2), 4, divisor, false}).ok());
    }
    CHECK(field(make<Lite>({q, q, 4, PoolDivisor::kernel_cells, true})) == Field::divisor);
    CHECK(field(make<target::bpu<march::bayes>>({ref::int8(1), ref::int8(1), 4, PoolDivisor::valid_cells, true})) ==
          Field::divisor);
    CHECK(make<Lite>({q, q, 4, PoolDivisor::valid_cells, true}).ok());
}

TEST_CASE("average: a target has its own rules and no others, and words that its formula can compute with") {
    for_each_target([&](auto tag) {
        using TargetType = decltype(tag);
        using enum arith::AverageRule;
        const arith::PolicyRecord& policy = TargetType::policy;
        INFO(policy.name);
        const ref::QParams q = ref::int8(0.5f);
        const bool is_single = policy.requantize == arith::RequantizeRule::single_rounding;
        std::vector<arith::AverageRule> own{policy.average};
        if (Pair<TargetType>::reference().is_tflite())
            own.push_back(is_single ? single_rounding_sum : double_rounding_sum);
        const auto mean = make<TargetType>({q, q, 4, PoolDivisor::kernel_cells, false, true});
        REQUIRE(mean.ok());
        CHECK(mean->rule == own.back());
        CHECK(make<TargetType>({q, q, 4})->rule == own.front());
        CHECK(make<TargetType>({q, ref::int8(0.25f), 4})->rule == own.back());
        const auto status = [&](const arith::AverageParams& params, bool has_padding = false) {
            return arith::check_average_params(policy, params, DType::int8, has_padding);
        };
        for (const auto rule : {requantize_sum, float_scale_sum, divide_codes, double_rounding_sum, single_rounding_sum,
                                sum_of_values, static_cast<arith::AverageRule>(6)}) {
            arith::AverageParams params = *mean;
            params.rule = rule;
            const bool is_own =
                std::find(own.begin(), own.end(), rule) != own.end() ||
                (rule == sum_of_values && Pair<TargetType>::reference().kind == ref::Target::Kind::fp32);
            CHECK(status(params).ok() == is_own);
            if (!is_own) CHECK(status(params).field == Field::scale);
        }
        if (own.size() == 1) return;
        CHECK(status(*mean, true) == Status{StatusCode::unsupported, OpKind::avg_pool2d, Field::padding, 1, 0});
        const auto with_words = [&](arith::ChannelWords words) {
            arith::AverageParams params = *mean;
            params.words = words;
            return status(params);
        };
        const Status corrupt{StatusCode::corrupt, OpKind::avg_pool2d, Field::scale, 0, 0};
        if (is_single) {
            CHECK(with_words({1 << 30, 30}).ok());
            CHECK(with_words({1 << 30, 31}) == corrupt);
            CHECK(with_words({1 << 30, -32}) == corrupt);
            CHECK(with_words({-1, 0}) == corrupt);
        } else {
            CHECK(with_words({1 << 30, 22}).ok());  // 4 · -128 · 2^22 is the lowest int32
            CHECK(with_words({1 << 30, 23}) == corrupt);
            CHECK(with_words({1 << 30, -31}).ok());
            CHECK(with_words({1 << 30, -32}) == corrupt);
            CHECK(with_words({-1, 0}) == corrupt);
        }
    });
}

TEST_CASE("average: division rounds half away from zero for every small divisor and around every tie") {
    const auto is_right = [](std::int32_t sum, std::int32_t n) {  // with floats, and with a bit at a time
        const auto expected = ref::divide_half_away(sum, n);
        return arith::Average<scalar_lanes>::divide_half_away(sum, n) == expected &&
               arith::detail::divide_half_away_by_bits(sum, n) == expected;
    };
    bool same = true;
    for (std::int32_t n = 1; n <= 300; ++n)
        for (std::int32_t sum = -3000; sum <= 3000; ++sum) same = same && is_right(sum, n);
    CHECK(same);
    Random random(22);
    for (int i = 0; i < 500'000; ++i) {
        const std::int64_t n = random.between(1, 1 << static_cast<int>(random.between(1, 23)));
        const std::int64_t quotient = random.between(std::max<std::int64_t>(-32768, -(std::int64_t{1} << 31) / n),
                                                     std::min<std::int64_t>(32767, INT32_MAX / n));
        const std::int64_t sum =
            std::clamp<std::int64_t>(quotient * n + n / 2 + random.between(-2, 2), INT32_MIN, INT32_MAX);
        if (std::abs(sum) / n > 32767) continue;
        same = same && is_right(static_cast<std::int32_t>(sum), static_cast<std::int32_t>(n));
    }
    CHECK(same);
}

TEST_CASE("average of values: refused for int16, for scales whose sums are no floats and where no runtime has it") {
    const arith::CodesOf q{0.5f, 3, DType::int8};
    const arith::OutputCodes codes = arith::make_output_codes(-128, 127, 3, 0.5f, Activation::none);
    const auto make = [&](const arith::PolicyRecord& policy, const arith::CodesOf& in) {
        return arith::make_average_of_values(policy, in, in, codes, 9, PoolDivisor::valid_cells, true).status();
    };
    CHECK(make(target::fp32::policy, q).ok());
    CHECK(make(target::fp32::policy, {0x1p116f, 3, DType::int8}).ok());
    CHECK(make(target::fp32::policy, {0x1p117f, 3, DType::int8}) ==
          Status{StatusCode::scale_out_of_range, OpKind::avg_pool2d, Field::scale, -1, 0});
    const arith::AverageParams params =
        *arith::make_average_of_values(target::fp32::policy, q, q, codes, 9, PoolDivisor::valid_cells, true);
    CHECK(arith::check_average_params(target::fp32::policy, params, DType::int16, true) ==
          Status{StatusCode::unsupported, OpKind::avg_pool2d, Field::input, 0, 0});
    CHECK(make(target::tflite<>::policy, q).field == Field::scale);
}
