// SPDX-License-Identifier: MIT
//
// The code of a sum never falls while the sum or the operand of a fused add grows: what the bounds of channels rely on
// (docs/constant_channels.md).
#include "intq/arith/requantize_sum.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "intq/arith/make_requantize.hpp"
#include "support/catch.hpp"

using namespace intq;
using arith::RequantizeRule;

namespace {

constexpr arith::OutputCodes int16_codes{.zero_point = -5, .lowest = INT16_MIN, .highest = INT16_MAX};

/// Words of a rule, of any size that it takes.
arith::ChannelWords random_words(RequantizeRule rule, int bits, std::mt19937& random) {
    const auto between = [&](int low, int high) { return low + static_cast<int>(random() % unsigned(high - low + 1)); };
    const auto multiplier = static_cast<std::int32_t>((1u << 30) + random() % (1u << 30));
    switch (rule) {
        case RequantizeRule::float_scale:
            return arith::float_scale::make(static_cast<float>(random()) * 0x1p-50f);
        case RequantizeRule::two_stage:
            return arith::two_stage::make(
                between(0, INT16_MAX), between(0, 20),
                random() % 2 != 0 ? arith::ShiftRounding::half_up : arith::ShiftRounding::floor, between(0, 20),
                arith::ShiftRounding::half_up);
        case RequantizeRule::binary64:
            return arith::binary64::make(static_cast<double>(random()) * 0x1p-50);
        case RequantizeRule::double_rounding:
            if (bits == 64) break;
            return arith::fixed_point<arith::double_rounding>::make({multiplier, between(-25, 0)});
        case RequantizeRule::single_rounding:
            if (bits == 64) break;
            return arith::fixed_point<arith::single_rounding>::make({multiplier, between(-25, 0)});
    }
    return arith::wide_fixed_point::make({multiplier, between(-30, 0)});
}

}  // namespace

TEST_CASE("The code of a sum never falls while the sum or the operand of a fused add grows") {
    std::mt19937 random(1);
    std::size_t falls = 0, rises = 0;
    for (const RequantizeRule rule :
         {RequantizeRule::float_scale, RequantizeRule::single_rounding, RequantizeRule::double_rounding,
          RequantizeRule::two_stage, RequantizeRule::binary64})
        for (const int bits : {32, 64})
            for (int repetition = 0; repetition < 400; ++repetition) {
                arith::RequantizedSum sum{.rule = rule, .bits = bits};
                sum.words = random_words(rule, bits, random);
                REQUIRE(arith::are_words(rule, sum.words, bits));
                // Neighbours and far sums, within a 31-bit range that grows with the repetition.
                const std::int64_t reach = std::int64_t{1} << (4 + repetition % 26);
                std::vector<std::int64_t> sums;
                for (int i = 0; i < 200; ++i) {
                    sums.push_back(static_cast<std::int64_t>(random() % (2 * std::uint64_t(reach))) - reach);
                    sums.push_back(sums.back() + 1);
                }
                std::sort(sums.begin(), sums.end());
                std::int32_t before = INT32_MIN;
                for (const std::int64_t each : sums) {
                    sum.sum = each;
                    const std::int32_t code = arith::requantized_code(sum, int16_codes);
                    falls += code < before;
                    rises += before != INT32_MIN && code > before;
                    before = code;
                }
                if (arith::sumin_words_of(rule) == 0) continue;
                sum.has_sumin = true;
                sum.sumin_words = rule == RequantizeRule::float_scale
                                      ? std::array<std::int32_t, 3>{arith::float_scale::make(0.7f)[0]}
                                      : std::array<std::int32_t, 3>{1 + static_cast<std::int32_t>(random() % 99), 2, 0};
                for (std::int32_t e = -128, last = INT32_MIN; e < 128; ++e) {
                    sum.sumin = e;
                    const std::int32_t code = arith::requantized_code(sum, int16_codes);
                    falls += code < last;
                    last = code;
                }
            }
    CHECK(falls == 0);
    CHECK(rises > 10000);
}
