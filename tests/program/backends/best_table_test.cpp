// SPDX-License-Identifier: MIT
//
// best_table: a target is found by its name, and one that borrows the name of another is refused.
#include "intq/program/backends/best_table.hpp"

#include "intq/arith/target.hpp"
#include "intq/arith/tflite.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "support/catch.hpp"

using namespace intq;
using Catch::Matchers::Contains;

TEST_CASE("The table of a shipped target has that target's rules") {
    CHECK(program::best_table<target::tflite<>>().policy().same_arithmetic(target::tflite<>::policy));
    arith::PolicyRecord stricter = target::tflite<>::policy;
    stricter.constraints = {};
    CHECK(&program::best_table(stricter) == &program::best_table<target::tflite<>>());
}

TEST_CASE("A target of other rules is refused, whether its name is new or borrowed") {
    arith::PolicyRecord mine = target::tflite<>::policy;
    mine.headroom -= 1;
    CHECK_THROWS_WITH(program::best_table(mine), Contains("a target of the library, and other rules"));
    mine.name = "mine";
    CHECK_THROWS_WITH(program::best_table(mine), Contains("the target mine has no kernels in this program"));
}

TEST_CASE("Every rule of a target counts where two are compared") {
    const arith::PolicyRecord base{};
    int rules = 0;
    const auto differs = [&](auto change) {
        arith::PolicyRecord other = base;
        change(other);
        ++rules;
        return !base.same_arithmetic(other) && !other.same_arithmetic(base);
    };
    CHECK(base.same_arithmetic(base));
    CHECK(differs([](auto& p) { p.requantize = arith::RequantizeRule::two_stage; }));
    CHECK(differs([](auto& p) { p.accumulator_bits_int8 = 40; }));
    CHECK(differs([](auto& p) { p.accumulator_bits_int16 = 40; }));
    CHECK(differs([](auto& p) { p.widens_int16 = !p.widens_int16; }));
    CHECK(differs([](auto& p) { p.pre_cap = 1; }));
    CHECK(differs([](auto& p) { p.post_gemm = arith::ShiftRounding::floor; }));
    CHECK(differs([](auto& p) { p.post_other = arith::ShiftRounding::floor; }));
    CHECK(differs([](auto& p) { p.bias = arith::BiasRule::int64; }));
    CHECK(differs([](auto& p) { p.headroom = 29; }));
    CHECK(differs([](auto& p) { p.zero_points = true; }));
    CHECK(differs([](auto& p) { p.fused_add = true; }));
    CHECK(differs([](auto& p) { p.average = arith::AverageRule::divide_codes; }));
    CHECK(differs([](auto& p) { p.quantize.by = arith::QuantizeBy::divide; }));
    CHECK(differs([](auto& p) { p.linear_in_binary64 = true; }));
    CHECK(differs([](auto& p) { p.mul_ratio_in_float32 = true; }));
    CHECK(differs([](auto& p) { p.softmax = arith::SoftmaxRule::fixed_point; }));
    // All members of the record but its name, its schemes, its constraints and its fixed outputs; a member more does
    // not compile.
    [[maybe_unused]] const auto& [name, requantize, linear_in_binary64, in_float32, bits_int8, bits_int16, widens_int16,
                                  pre_cap, post_gemm, post_other, bias, headroom, zero_points, fused_add, average,
                                  softmax, quantize, weights, activations, constraints, fixed_outputs] = base;
    CHECK(rules == 21 - 5);
}
