// SPDX-License-Identifier: MIT
//
// Add and sub of codes by the library against the oracle, for every target: codes and refusals.
#include "intq/arith/elementwise.hpp"

#include <iostream>
#include <sstream>

#include "arith/targets.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
using namespace intq::test;

struct Found {
    std::int64_t points = 0, refusals = 0, differences = 0;
    std::string first;
};

struct AddCase {
    ref::QParams x, y, out;
};

template <class TargetType> AddCase random_case(DType dtype, Random& random) {
    const bool has_zero_points = TargetType::policy.zero_points && random.one_in(2);
    const auto zero_point = [&] { return has_zero_points ? random.between(-128, 127) : 0; };
    const float s_x = random.scale(-20, 4);
    const float s_y = random.one_in(8) ? s_x : random.one_in(8) ? random.scale(-40, 10) : s_x * random.scale(-6, 6);
    const float larger = std::max(s_x, s_y);
    const float s_out = random.one_in(8) ? random.scale(-40, 30) : larger * random.scale(-4, 4);
    return {codes_of(dtype, s_x, zero_point()), codes_of(dtype, s_y, zero_point()),
            codes_of(dtype, s_out, zero_point())};
}

arith::CodesOf given(const ref::QParams& q) {
    return {q.scale, static_cast<std::int32_t>(q.zero_point), q.bits == 16 ? DType::int16 : DType::int8};
}

template <class TargetType> Result<arith::AddParams> make(const AddCase& c, bool subtract) {
    return (subtract ? arith::make_sub : arith::make_add)(TargetType::policy, given(c.x), given(c.y), given(c.out),
                                                          output_codes(c.out));
}

template <class TargetType> void check_add(const AddCase& c, bool subtract, int points, Random& random, Found& found) {
    using Policy = arith::RequantizePolicy<TargetType, std::int32_t>;
    const auto differs = [&](auto... part) {
        if (found.differences++ > 0) return;
        std::ostringstream text;
        text << std::hexfloat << c.x.scale << ' ' << c.y.scale << ' ' << c.out.scale << ' ';
        ((text << part << ' '), ...);
        found.first = text.str();
    };
    const auto reference = [&](std::int64_t x, std::int64_t y) {
        return unless_refused(
            [&] { return ref::add_codes(Pair<TargetType>::reference(), x, c.x, y, c.y, c.out, subtract); });
    };
    const auto params = make<TargetType>(c, subtract);
    const bool refused = !reference(0, 0);
    if (params.ok() == refused) differs("refusal: library", params.ok());
    if (refused || !params) {
        ++found.refusals;
        return;
    }
    const arith::AddLanes<Policy, scalar_lanes> formula(*params);
    for (int i = 0; i < points; ++i) {
        const std::int64_t x = random.code(c.x), y = random.code(c.y);
        const std::int32_t code = formula.code(static_cast<std::int32_t>(x), static_cast<std::int32_t>(y));
        ++found.points;
        if (code != reference(x, y).value_or(INT64_MAX))
            differs("codes", x, y, "->", code, "expected", *reference(x, y));
    }
}

}  // namespace

TEST_CASE("add and sub: codes and refusals are the oracle's, on every target and type") {
    const bool subtract = GENERATE(false, true);
    Found total;
    for_each_target([&](auto tag) {
        using TargetType = decltype(tag);
        for (const DType dtype : {DType::int8, DType::int16}) {
            if (!takes<TargetType>(dtype)) continue;
            Random random(11);
            Found found;
            for (int i = 0; i < 1000; ++i)
                check_add<TargetType>(random_case<TargetType>(dtype, random), subtract, 60, random, found);
            INFO(TargetType::policy.name << ' ' << name_of(dtype) << ": " << found.first);
            CHECK(found.differences == 0);
            CHECK(found.points > 40'000);
            total.points += found.points;
            total.refusals += found.refusals;
        }
    });
    std::cout << (subtract ? "sub: " : "add: ") << total.points << " points and " << total.refusals
              << " refusals equal the oracle's (seed 11)\n";
    CHECK(total.refusals > 20);
}

TEST_CASE("add and sub: every pair of int8 codes, at scales of a network") {
    const bool subtract = GENERATE(false, true);
    Found found;
    for_each_target([&](auto tag) {
        using TargetType = decltype(tag);
        using Policy = arith::RequantizePolicy<TargetType, std::int32_t>;
        const AddCase c{ref::int8(0.0231f), ref::int8(0.0107f), ref::int8(0.0271f)};
        const auto params = make<TargetType>(c, subtract);
        REQUIRE(params.ok());
        const arith::AddLanes<Policy, scalar_lanes> formula(*params);
        for (std::int32_t x = -128; x <= 127; ++x)
            for (std::int32_t y = -128; y <= 127; ++y)
                found.differences += formula.code(x, y) !=
                                     ref::add_codes(Pair<TargetType>::reference(), x, c.x, y, c.y, c.out, subtract);
    });
    CHECK(found.differences == 0);
}

TEST_CASE("add and sub: tiny operands on meta shift by more than 32 bits and still give the oracle's codes") {
    // pre_cap is 47, but the sum of an add has 32 bits: a shift beyond them is a shift by all of them.
    Found found;
    Random random(12);
    for (const DType dtype : {DType::int8, DType::int16})
        for (int i = 0; i < 200; ++i) {
            const float s = random.scale(-40, -24);
            check_add<target::bpu<march::meta>>(
                {codes_of(dtype, s), codes_of(dtype, s * 0.7f), codes_of(dtype, random.scale(-6, 20))}, i % 2 != 0, 40,
                random, found);
        }
    INFO(found.first);
    CHECK(found.points == 2 * 200 * 40);
    CHECK(found.differences == 0);
}

TEST_CASE("add: fp32 refuses a factor that is infinite in float32") {
    const auto params = arith::make_add(target::fp32::policy, {1e30f, 0, DType::int8}, {1.0f, 0, DType::int8},
                                        {1e-30f, 0, DType::int8}, {});
    REQUIRE_FALSE(params.ok());
    CHECK(params.status() == Status{StatusCode::scale_out_of_range, OpKind::add, Field::scale_ratio, -1, 0});
}
