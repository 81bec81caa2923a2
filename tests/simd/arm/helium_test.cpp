// SPDX-License-Identifier: MIT
//
// The helium backend with its loops in C++: the codes of tiles against the oracle, where half-up stands in for half
// away from zero, and the groups of depthwise layers against plain loops. tests/conformance/differences.cpp runs the
// same tiles as instructions.
#include <array>
#include <cstdint>
#include <vector>

#include "intq/kernels/streaming/code_range.hpp"
#include "intq/simd/select.hpp"
#include "kernels/oracle_bridge.hpp"
#include "reference/fixed_point.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
namespace ref = intq_reference;
using intq::test::Draw;
using Tile = simd::WindowTile<simd::helium>;
using Rule = arith::fixed_point<arith::double_rounding>;

std::int8_t any_code(Draw& draw) {
    const std::int64_t ends[] = {-128, 127, 0, -1};
    return static_cast<std::int8_t>(draw.one_in(3) ? ends[draw.between(0, 3)] : draw.between(-128, 127));
}

/// Whether four codes of three pixels are those of the oracle.
bool codes_agree(const std::array<std::int32_t, 4>& sums, std::int32_t multiplier, std::int32_t shift,
                 const arith::OutputCodes& codes) {
    alignas(16) std::int32_t block[3 * simd::window_channels] = {}, bias[4], multipliers[4], shifts[4];
    for (std::size_t c = 0; c < 4; ++c) {
        bias[c] = static_cast<std::int32_t>(c) * 1000 - 700;
        multipliers[c] = multiplier;
        shifts[c] = shift;
        for (std::size_t p = 0; p < 3; ++p) block[p * simd::window_channels + c] = sums[c] - bias[c];
    }
    std::int8_t y[3][4] = {};
    const simd::WindowCodes of{bias, multipliers,      shifts,       block,        {y[0], y[1], y[2]},
                               1,    codes.zero_point, codes.lowest, codes.highest};
    kernels::detail::with_saturation(kernels::detail::saturation_of(codes),
                                     [&](auto bounds) { Tile::store_codes<bounds.value>(of); });
    for (std::size_t p = 0; p < 3; ++p)
        for (std::size_t c = 0; c < 4; ++c) {
            REQUIRE(Rule::is_short(sums[c] < 0 ? -std::int64_t{sums[c]} : sums[c], {multiplier, shift}));
            const std::int64_t scaled =
                static_cast<std::int64_t>(ref::multiply_double_rounding(sums[c], {multiplier, shift}));
            const std::int64_t code =
                std::min<std::int64_t>(std::max<std::int64_t>(scaled + codes.zero_point, codes.lowest), codes.highest);
            if (y[p][c] != code) return false;
        }
    return true;
}

arith::OutputCodes codes_of(std::int32_t zero_point, std::int32_t lowest, std::int32_t highest) {
    arith::OutputCodes codes{};
    codes.zero_point = zero_point;
    codes.lowest = lowest;
    codes.highest = highest;
    return codes;
}

}  // namespace

TEST_CASE("the bounds of codes choose the loop that makes them") {
    using simd::Saturation, kernels::detail::saturation_of;
    CHECK(saturation_of(codes_of(-128, -128, 127)) == Saturation::rectified);
    CHECK(saturation_of(codes_of(0, 0, 127)) == Saturation::positive);
    CHECK(saturation_of(codes_of(0, 0, 90)) == Saturation::positive);
    CHECK(saturation_of(codes_of(3, -128, 127)) == Saturation::int8);
    CHECK(saturation_of(codes_of(-128, -128, 90)) == Saturation::any);
    CHECK(saturation_of(codes_of(1, 0, 127)) == Saturation::any);
}

TEST_CASE("codes of tiles are the oracle's, ties included") {
    Draw draw(1);
    const arith::OutputCodes all[] = {codes_of(-128, -128, 127), codes_of(0, 0, 127),     codes_of(0, 0, 60),
                                      codes_of(-5, -128, 127),   codes_of(-5, -5, 127),   codes_of(17, -20, 100),
                                      codes_of(-128, -128, 12),  codes_of(127, -128, 127)};
    const std::int32_t ends[] = {1 << 30, (1 << 30) + 1, INT32_MAX, 0x60000000};
    for (const arith::OutputCodes& codes : all)
        for (std::int32_t shift = -31; shift <= -2; ++shift)
            for (int i = 0; i < 40; ++i) {
                const auto multiplier = i < 4 ? ends[i] : static_cast<std::int32_t>(draw.between(1 << 30, INT32_MAX));
                std::array<std::int32_t, 4> sums{};
                for (std::int32_t& sum : sums) {
                    // Near ties of the second rounding, near zero, and anywhere.
                    const double tie = (2.0 * static_cast<double>(draw.between(-300, 300)) + 1.0) *
                                       std::ldexp(1.0, -shift - 1) / multiplier * 0x1p31;
                    const bool fits = tie > -0x1p29 && tie < 0x1p29;
                    sum = fits && draw.one_in(2)
                              ? static_cast<std::int32_t>(tie + static_cast<double>(draw.between(-2, 2)))
                          : draw.one_in(3)
                              ? static_cast<std::int32_t>(draw.between(-40, 40))
                              : static_cast<std::int32_t>(draw.between(-(1 << 29), 1 << 29) >> draw.between(0, 28));
                }
                CAPTURE(shift, multiplier, codes.zero_point, codes.lowest, codes.highest, sums);
                REQUIRE(codes_agree(sums, multiplier, shift, codes));
            }
}

namespace {

/// Three pixels by pairs of channels, and one pixel.
bool tile_agrees(index_t steps, index_t pairs, Draw& draw) {
    const index_t depth = 16 * steps;
    std::vector<std::int8_t> x(static_cast<std::size_t>(3 * depth)), w(static_cast<std::size_t>(2 * pairs * depth));
    for (std::int8_t& code : x) code = any_code(draw);
    for (std::int8_t& code : w) code = any_code(draw);
    std::int32_t sums[3 * simd::window_channels] = {}, one[simd::window_channels] = {};
    simd::WindowSums of{{x.data(), x.data() + depth, x.data() + 2 * depth},
                        w.data(),
                        sums,
                        static_cast<std::int32_t>(steps - 1),
                        static_cast<std::int32_t>(pairs)};
    Tile::add(of);
    of.sums = one;
    Tile::add_one(of);
    for (index_t p = 0; p < 3; ++p)
        for (index_t c = 0; c < 2 * pairs; ++c) {
            std::int32_t sum = 0;
            for (index_t k = 0; k < depth; ++k)
                sum += x[static_cast<std::size_t>(p * depth + k)] *
                       w[static_cast<std::size_t>((c / 2 * steps + k / 16) * 32 + c % 2 * 16 + k % 16)];
            if (sums[p * simd::window_channels + c] != sum || (p == 0 && one[c] != sum)) return false;
        }
    return true;
}

/// Rows of an image, staged, grouped and summed, with either stride.
template <int Stride> bool groups_agree(index_t groups, index_t channels, Draw& draw) {
    const index_t columns = Stride == 1 ? 2 * groups + 2 : 4 * groups + 4, all = Stride == 1 ? groups : groups + 1;
    std::vector<std::int8_t> x(static_cast<std::size_t>(4 * columns * channels)),
        w(static_cast<std::size_t>(12 * channels)), staged(static_cast<std::size_t>(columns * simd::column_bytes)),
        group(static_cast<std::size_t>(all * simd::group_bytes));
    for (std::int8_t& code : x) code = any_code(draw);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = i % 4 == 3 ? std::int8_t{0} : any_code(draw);
    const auto step = static_cast<std::int32_t>(channels), row = static_cast<std::int32_t>(columns * channels);
    Tile::stage_rows({{x.data(), x.data() + row, x.data() + 2 * row, x.data() + 3 * row},
                      {step, step, step, step},
                      staged.data(),
                      static_cast<std::int32_t>(columns),
                      step});
    Tile::stage_groups({staged.data(), group.data(), static_cast<std::int32_t>(all), (step + 3) / 4,
                        (Stride == 1 ? 2 : 4) * simd::column_bytes});
    Tile::add_groups<Stride>({group.data(), w.data(), static_cast<std::int32_t>(groups), step});
    for (index_t g = 0; g < groups; ++g)
        for (index_t c = 0; c < channels; ++c)
            for (index_t i = 0; i < (Stride == 1 ? 4 : 2); ++i) {
                const index_t left = Stride == 1 ? 2 * g + i / 2 : 4 * g + 2 * i, top = Stride == 1 ? i % 2 : 0;
                std::int32_t sum = 0, found = 0;
                for (index_t kx = 0; kx < 3; ++kx)
                    for (index_t ky = 0; ky < 3; ++ky)
                        sum += x[static_cast<std::size_t>((top + ky) * row + (left + kx) * channels + c)] *
                               w[static_cast<std::size_t>(12 * c + 4 * kx + ky)];
                std::memcpy(&found, group.data() + g * simd::group_bytes + 16 * c + 4 * i, sizeof found);
                if (found != sum) return false;
            }
    return true;
}

}  // namespace

TEST_CASE("a tile of windows sums the products of plain loops") {
    Draw draw(2);
    for (index_t steps = 1; steps <= 5; ++steps)
        for (const index_t pairs : {1, 2, 7, 16}) {
            CAPTURE(steps, pairs);
            CHECK(tile_agrees(steps, pairs, draw));
        }
}

TEST_CASE("groups of depthwise rows hold the windows of plain loops") {
    Draw draw(3);
    for (index_t groups = 1; groups <= 5; ++groups)
        for (const index_t channels : {1, 3, 4, 9, 16}) {
            CAPTURE(groups, channels);
            CHECK(groups_agree<1>(groups, channels, draw));
            CHECK(groups_agree<2>(groups, channels, draw));
        }
}
