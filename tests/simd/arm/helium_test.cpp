// SPDX-License-Identifier: MIT
//
// The helium backend with its loops in C++: the codes of tiles against the oracle, where half-up stands in for half
// away from zero, and the groups of depthwise layers against plain loops. tests/conformance/differences.cpp runs the
// same tiles as instructions.
#include <array>
#include <cstdint>
#include <limits>
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

template <class Code = std::int8_t> Code any_code(Draw& draw) {
    constexpr std::int64_t lowest = std::numeric_limits<Code>::min(), highest = std::numeric_limits<Code>::max();
    const std::int64_t ends[] = {lowest, highest, 0, -1};
    return static_cast<Code>(draw.one_in(3) ? ends[draw.between(0, 3)] : draw.between(lowest, highest));
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

/// Three pixels of codes X by pairs of channels, and one pixel.
template <class X> bool tile_agrees(index_t steps, index_t pairs, Draw& draw) {
    constexpr index_t width = 16 / static_cast<index_t>(sizeof(X));
    const index_t depth = width * steps;
    std::vector<X> x(static_cast<std::size_t>(3 * depth));
    std::vector<std::int8_t> w(static_cast<std::size_t>(2 * pairs * depth));
    for (X& code : x) code = any_code<X>(draw);
    for (std::int8_t& code : w) code = any_code(draw);
    std::int32_t sums[3 * simd::window_channels] = {}, one[simd::window_channels] = {};
    const auto pixel = [&](index_t p) { return reinterpret_cast<const std::int8_t*>(x.data() + p * depth); };
    simd::WindowSums of{{pixel(0), pixel(1), pixel(2)},
                        w.data(),
                        sums,
                        static_cast<std::int32_t>(steps - 1),
                        static_cast<std::int32_t>(pairs)};
    sizeof(X) == 1 ? Tile::add(of) : Tile::add_int16(of);
    of.sums = one;
    sizeof(X) == 1 ? Tile::add_one(of) : Tile::add_one_int16(of);
    for (index_t p = 0; p < 3; ++p)
        for (index_t c = 0; c < 2 * pairs; ++c) {
            std::int32_t sum = 0;
            for (index_t k = 0; k < depth; ++k)
                sum += x[static_cast<std::size_t>(p * depth + k)] *
                       w[static_cast<std::size_t>((c / 2 * steps + k / width) * 2 * width + c % 2 * width + k % width)];
            if (sums[p * simd::window_channels + c] != sum || (p == 0 && one[c] != sum)) return false;
        }
    return true;
}

/// Rows of an image, staged, grouped and summed, with either stride.
template <int Stride> bool groups_agree(index_t groups, index_t channels, Draw& draw) {
    const index_t columns = Stride == 1 ? 2 * groups + 2 : 4 * groups + 4, all = Stride == 1 ? groups : groups + 1;
    std::vector<std::int8_t> x(static_cast<std::size_t>(4 * columns * channels)),
        w(static_cast<std::size_t>(9 * channels)), staged(static_cast<std::size_t>(columns * simd::column_bytes)),
        group(static_cast<std::size_t>(all * simd::group_bytes));
    for (std::int8_t& code : x) code = any_code(draw);
    for (std::int8_t& code : w) code = any_code(draw);
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
                               w[static_cast<std::size_t>(9 * c + 3 * kx + ky)];
                std::memcpy(&found, group.data() + g * simd::group_bytes + 16 * c + 4 * i, sizeof found);
                if (found != sum) return false;
            }
    return true;
}

}  // namespace

TEST_CASE("codes of int16 tiles are those of the formula in 64 bits, ties included") {
    using Wide = arith::wide_fixed_point;
    using L = arith::scalar_lanes;
    Draw draw(5);
    const arith::OutputLanes<L> all(codes_of(0, INT16_MIN, INT16_MAX)), some(codes_of(0, 0, 20000));
    for (std::int32_t shift = -17; shift <= -1; ++shift)
        for (int i = 0; i < 400; ++i) {
            const auto multiplier = static_cast<std::int32_t>(i < 9 ? 0x7fff - i : draw.between(0, 0x7fff));
            const arith::OutputLanes<L>& out = i % 2 == 0 ? all : some;
            std::int64_t sums[4] = {INT32_MAX, INT32_MIN + 1};
            for (int c = 0; c < 4 && i > 0; ++c) {
                // Near ties, and anywhere.
                const std::int64_t tie = ((2 * draw.between(-33000, 33000) + 1) << (14 - shift)) / (multiplier + 1);
                const bool is_tie = tie > INT32_MIN + 2 && tie < INT32_MAX - 2 && draw.one_in(2);
                sums[c] = is_tie ? tie + draw.between(-2, 2) : draw.between(INT32_MIN + 1, INT32_MAX);
            }
            alignas(16) std::int32_t block[3 * simd::window_channels] = {}, multipliers[4], shifts[4];
            alignas(16) std::int64_t bias[4];
            for (int c = 0; c < 4; ++c) {
                bias[c] = draw.between(-1000, 1000);
                multipliers[c] = multiplier;
                shifts[c] = shift;
                for (int p = 0; p < 3; ++p)
                    block[p * simd::window_channels + c] = static_cast<std::int32_t>(
                        static_cast<std::uint32_t>(sums[c]) - static_cast<std::uint32_t>(bias[c]));
            }
            std::int16_t y[3][4] = {};
            REQUIRE(Wide::is_short(INT32_MAX, {multiplier, shift}));
            Tile::store_int16({bias, multipliers, shifts, block, {y[0], y[1], y[2]}, 1, out.lowest, out.highest, {}});
            CAPTURE(shift, multiplier);
            for (int c = 0; c < 4; ++c) {
                const auto channel = Wide::set<L>({multiplier, shift});
                for (int p = 0; p < 3; ++p) CHECK(y[p][c] == Wide::apply<L>(sums[c], channel, out));
            }
        }
    CHECK(!Wide::is_short(INT32_MAX, {1, 0}));
    CHECK(!Wide::is_short(INT32_MAX, {1, -18}));
    CHECK(!Wide::is_short(std::int64_t{1} << 31, {1, -3}));
}

TEST_CASE("a tile of windows sums the products of plain loops") {
    Draw draw(2);
    for (index_t steps = 1; steps <= 5; ++steps)
        for (const index_t pairs : {1, 2, 7, 16}) {
            CAPTURE(steps, pairs);
            CHECK(tile_agrees<std::int8_t>(steps, pairs, draw));
            CHECK(tile_agrees<std::int16_t>(steps, pairs, draw));
        }
}

TEST_CASE("lists of taps sum the products of plain loops, on padding as well") {
    Draw draw(4);
    for (const index_t taps : {1, 9, 25})
        for (const index_t channels : {1, 7, 8, 19, 32}) {
            const index_t pixels = taps + 2, blocks = (channels + 7) / 8;
            std::vector<std::int16_t> x(static_cast<std::size_t>(pixels * channels));
            std::vector<std::int8_t> w(static_cast<std::size_t>(blocks * 8 * taps));
            for (std::int16_t& code : x) code = any_code<std::int16_t>(draw);
            for (std::int8_t& code : w) code = any_code(draw);
            const std::vector<std::int16_t> padding(static_cast<std::size_t>(channels));
            std::vector<std::int32_t> places(static_cast<std::size_t>(taps)), expected(32);
            for (index_t tap = 0; tap < taps; ++tap) {
                const index_t pixel = draw.between(0, pixels - 1);
                const bool is_padding = draw.one_in(4);
                places[static_cast<std::size_t>(tap)] = is_padding ? Tile::padding_place(x.data(), padding.data())
                                                                   : static_cast<std::int32_t>(2 * pixel * channels);
                for (index_t c = 0; c < channels && !is_padding; ++c)
                    expected[static_cast<std::size_t>(c)] +=
                        x[static_cast<std::size_t>(pixel * channels + c)] *
                        w[static_cast<std::size_t>((c / 8 * taps + tap) * 8 + c % 8)];
            }
            std::vector<std::int32_t> sums(32);
            Tile::add_taps({x.data(), places.data(), w.data(), sums.data(), static_cast<std::int32_t>(taps),
                            static_cast<std::int32_t>(channels), 0});
            sums.resize(static_cast<std::size_t>(channels));
            expected.resize(sums.size());
            CAPTURE(taps, channels);
            CHECK(sums == expected);
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
