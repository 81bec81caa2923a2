// SPDX-License-Identifier: MIT
//
// The dsp backend with its instructions in C++: each against its definition, the short form of double rounding against
// the oracle, and the tiles against plain loops. tests/conformance/differences.cpp runs the same tiles as
// instructions.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "intq/arith/pool.hpp"
#include "intq/kernels/staging/paired_lines.hpp"
#include "intq/simd/select.hpp"
#include "kernels/oracle_bridge.hpp"
#include "reference/fixed_point.hpp"
#include "support/catch.hpp"

namespace {

using namespace intq;
namespace ref = intq_reference;
using intq::test::Draw;
using simd::DspWords;
using Tile = simd::PairedTile<simd::dsp>;
using Rule = arith::fixed_point<arith::double_rounding>;

std::int32_t word_of(int low, int high) {
    return static_cast<std::int32_t>((static_cast<std::uint32_t>(high) << 16) |
                                     (static_cast<std::uint32_t>(low) & 0xffffu));
}
int low_of(std::int32_t word) { return static_cast<std::int16_t>(word & 0xffff); }
int high_of(std::int32_t word) { return word >> 16; }
std::int32_t word_of_bytes(const std::int8_t* bytes) {
    std::uint32_t word = 0;
    for (int i = 3; i >= 0; --i) word = word << 8 | static_cast<std::uint8_t>(bytes[i]);
    return static_cast<std::int32_t>(word);
}

/// Random words, a third of them ends of their halves.
std::int32_t any_word(Draw& draw) {
    const auto half = [&] {
        const std::int64_t ends[] = {-32768, 32767, -128, 127, 0, -1, 1};
        return static_cast<int>(draw.one_in(3) ? ends[draw.between(0, 6)] : draw.between(-32768, 32767));
    };
    const int low = half();
    return word_of(low, half());
}
std::int8_t any_code(Draw& draw) {
    const std::int64_t ends[] = {-128, 127, 0, -1};
    return static_cast<std::int8_t>(draw.one_in(3) ? ends[draw.between(0, 3)] : draw.between(-128, 127));
}
std::int32_t wrapped(std::int64_t sum) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(sum)); }

/// fl((a·b + 2^31) / 2^32), over the integers.
std::int64_t high_product(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(
        ref::floor_divide(ref::wide{a} * b + ref::power_of_two(31), ref::power_of_two(32)));
}

}  // namespace

TEST_CASE("each instruction of dsp is what its manual says") {
    Draw draw(1);
    for (int i = 0; i < 100000; ++i) {
        const std::int32_t a = any_word(draw), b = any_word(draw), c = any_word(draw);
        const std::int64_t products = std::int64_t{low_of(a)} * low_of(b) + std::int64_t{high_of(a)} * high_of(b);
        bool holds = DspWords::smlad(c, a, b) == wrapped(c + products);
        std::int8_t bytes[4];
        for (std::int8_t& byte : bytes) byte = any_code(draw);
        holds = holds && DspWords::even_bytes(word_of_bytes(bytes)) == word_of(bytes[0], bytes[2]);
        holds = holds && DspWords::odd_bytes(word_of_bytes(bytes)) == word_of(bytes[1], bytes[3]);
        holds = holds && DspWords::low_halves(a, b) == word_of(low_of(a), low_of(b));
        holds = holds && DspWords::high_halves(a, b) == word_of(high_of(a), high_of(b));
        holds = holds && DspWords::smmulr(a, b) == high_product(a, b);
        holds = holds && DspWords::smmlar(a, b, c) == wrapped(c + high_product(a, b));
        holds = holds && DspWords::ssat8(a) == std::min(std::max(a, -128), 127);
        holds = holds && DspWords::usat7(a) == std::min(std::max(a, 0), 127);
        const std::int32_t codes = word_of_bytes(bytes);
        holds = holds && DspWords::add_even_bytes(a, codes) == word_of(low_of(a) + bytes[0], high_of(a) + bytes[2]);
        holds = holds && DspWords::add_odd_bytes(a, codes) == word_of(low_of(a) + bytes[1], high_of(a) + bytes[3]);
        holds = holds && DspWords::add_saturated(a, b) == arith::scalar_lanes::narrow(std::int64_t{a} + b);
        std::int8_t put[4], larger[4], smaller[4];
        for (int k = 0; k < 4; ++k) {
            const auto other = static_cast<std::int8_t>(a >> (8 * k) & 0xff);
            put[k] = k == 2 ? static_cast<std::int8_t>(b & 0xff) : other;
            larger[k] = std::max(bytes[k], other);
            smaller[k] = std::min(bytes[k], other);
        }
        holds = holds && DspWords::put_byte<2>(a, b) == word_of_bytes(put);
        holds = holds && DspWords::larger_bytes(codes, a) == word_of_bytes(larger);
        holds = holds && DspWords::smaller_bytes(codes, a) == word_of_bytes(smaller);
        CAPTURE(a, b, c);
        REQUIRE(holds);
    }
}

TEST_CASE("four codes of dsp are those of one at a time") {
    Draw draw(5);
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    const float specials[] = {nan,   -nan, infinity, -infinity, 0.0f,   -0.0f,  0.5f,    -0.5f,   1.5f,     2.5f,
                              -2.5f, 3e9f, -3e9f,    1e-40f,    127.5f, 128.5f, -129.5f, 0x1p31f, -0x1p31f, 8388609.0f};
    for (int i = 0; i < 20000; ++i) {
        const int zero_point = static_cast<int>(draw.between(-128, 127)),
                  lowest = static_cast<int>(draw.between(-128, 0));
        const int highest = static_cast<int>(draw.between(lowest, 127));
        const simd::DspCodeQuad quad(zero_point, lowest, highest);
        float reals[4];
        std::int32_t steps[4];
        for (int k = 0; k < 4; ++k) {
            reals[k] =
                draw.one_in(3) ? specials[draw.between(0, 19)] : static_cast<float>(draw.between(-1200, 1200)) * 0.25f;
            steps[k] = draw.one_in(3) ? any_word(draw) : static_cast<std::int32_t>(draw.between(-400, 400));
        }
        std::int8_t rounded[4], stored[5] = {0, 0, 0, 0, 77};
        quad.store_rounded(rounded, reals[0], reals[1], reals[2], reals[3]);
        const index_t count = draw.between(0, 4);
        quad.store(stored, count, steps[0], steps[1], steps[2], steps[3]);
        bool holds = stored[4] == 77;
        for (int k = 0; k < 4; ++k) {
            const auto code = [&](double value) { return std::clamp(value + zero_point, 1.0 * lowest, 1.0 * highest); };
            const double real = std::isnan(reals[k]) ? 0.0 : std::nearbyint(static_cast<double>(reals[k]));
            holds = holds && rounded[k] == static_cast<std::int8_t>(code(real));
            holds = holds && stored[k] == (k < count ? static_cast<std::int8_t>(code(steps[k])) : 0);
        }
        CAPTURE(zero_point, lowest, highest, count);
        REQUIRE(holds);
    }
}

TEST_CASE("256 codes of each byte fill the sums of dsp") {
    for (const int code : {-128, 127, -1}) {
        const std::int8_t bytes[] = {static_cast<std::int8_t>(code), -128, 127, static_cast<std::int8_t>(code)};
        simd::DspByteSums sums;
        for (int i = 0; i < 256; ++i) sums.add(bytes);
        CHECK(sums.vector<0>() == 256 * code);
        CHECK(sums.vector<1>() == 256 * -128);
        CHECK(sums.vector<2>() == 256 * 127);
        CHECK(sums.vector<3>() == 256 * code);
    }
}

TEST_CASE("the division of dsp rounds half away as that of floats does") {
    Draw draw(6);
    using Specification = arith::AverageDivision<arith::scalar_lanes>;
    for (int i = 0; i < 100000; ++i) {
        const auto n = static_cast<std::int32_t>(draw.between(1, draw.one_in(2) ? 70 : 1 << 24));
        const std::int64_t bound = std::min<std::int64_t>(std::int64_t{n} << 15, INT32_MAX);
        std::int64_t sum = draw.between(-bound, bound);
        if (draw.one_in(2)) sum = sum / n * n + n / 2 + draw.between(-1, 1);  // about a tie
        sum = std::clamp(sum, -bound, bound);
        CAPTURE(n, sum);
        const auto dividend = static_cast<std::int32_t>(sum);
        REQUIRE(simd::dsp_lanes::divide_half_away(dividend, n) == Specification::divide_half_away(dividend, n));
    }
}

// --- double rounding -------------------------------------------------------------------------------------------------

namespace {

/// Compares the short form with gemmlowp's over the integers; the sums must be in its range.
class RoundingCheck {
public:
    RoundingCheck(std::int32_t multiplier, int shift, int zero_point)
        : words_(Rule::make({multiplier, shift})),
          short_(words_[0], words_[1], zero_point),
          positive_(words_[0], words_[1], 0),
          shift_(shift),
          zero_point_(zero_point) {}

    static std::int64_t limit() { return (std::int64_t{1} << 30) - 1; }
    bool agrees(std::int64_t acc) const {
        REQUIRE(Rule::is_short(acc < 0 ? -acc : acc, words_));
        const auto expected =
            static_cast<std::int64_t>(ref::multiply_double_rounding(acc, {words_[0], shift_})) + zero_point_;
        const auto sum = static_cast<std::int32_t>(acc);
        // Where no code is negative, a negative number only has to stay one, or 0.
        const std::int64_t positive = positive_.scaled<simd::CodeRange::positive>(sum);
        return short_.scaled(sum) == expected &&
               std::max<std::int64_t>(positive, 0) == std::max<std::int64_t>(expected - zero_point_, 0);
    }
    /// Sums whose second rounding is a tie, and their neighbours.
    bool agrees_on_ties(int count) const {
        const int right = -shift_;
        for (int k = -count; k <= count; ++k) {
            // SRDHM(acc, M) = (2k + 1)·2^(right - 1), as near as acc comes to it
            const double wanted = (2.0 * k + 1.0) * std::ldexp(1.0, right - 1);
            const auto acc = static_cast<std::int64_t>(wanted / words_[0] * 0x1p31);
            for (std::int64_t near = acc - 3; near <= acc + 3; ++near)
                if (near >= -limit() && near <= limit() && !agrees(near)) return false;
        }
        return true;
    }

private:
    arith::ChannelWords words_;
    simd::dsp_lanes::ShortRounding short_, positive_;
    int shift_, zero_point_;
};

}  // namespace

TEST_CASE("the short form of double rounding is exact wherever is_short() says so") {
    Draw draw(2);
    const std::int32_t ends[] = {1 << 30, (1 << 30) + 1, INT32_MAX, INT32_MAX - 1, 0x60000000};
    std::int64_t points = 0;
    for (int shift = -31; shift <= -2; ++shift)
        for (int i = 0; i < 12; ++i) {
            const auto multiplier = i < 5 ? ends[i] : static_cast<std::int32_t>(draw.between(1 << 30, INT32_MAX));
            const int zero_point = static_cast<int>(draw.between(-128, 127));
            CAPTURE(shift, multiplier, zero_point);
            const RoundingCheck check(multiplier, shift, zero_point);
            REQUIRE(check.agrees_on_ties(40));
            for (std::int64_t near = 0; near < 40; ++near)
                for (const std::int64_t acc : {near, -near, check.limit() - near, near - check.limit()}) {
                    if (!check.agrees(acc)) FAIL("sum " << acc);
                    ++points;
                }
            for (int n = 0; n < 400; ++n, ++points) {
                const std::int64_t acc = draw.between(-check.limit(), check.limit()) >> draw.between(0, 29);
                if (!check.agrees(acc)) FAIL("sum " << acc);
            }
        }
    CHECK(points == 30 * 12 * 560);
}

TEST_CASE("the short form of double rounding is exact for each sum of 17 bits") {
    const std::int32_t multipliers[] = {1 << 30, 1395864371, INT32_MAX};
    for (const std::int32_t multiplier : multipliers)
        for (int shift = -2; shift >= -11; shift -= 3) {
            const RoundingCheck check(multiplier, shift, -128);
            for (std::int64_t acc = -65536; acc < 65536; ++acc)
                if (!check.agrees(acc)) FAIL("shift " << shift << ", multiplier " << multiplier << ", sum " << acc);
        }
}

TEST_CASE("is_short() refuses what the short form gets wrong") {
    const arith::ChannelWords quarter = Rule::make({1 << 30, -2}), half = Rule::make({1 << 30, -1});
    CHECK(Rule::is_short((1 << 30) - 1, quarter));
    CHECK_FALSE(Rule::is_short(1 << 30, quarter));
    CHECK_FALSE(Rule::is_short(0, half));
    CHECK_FALSE(Rule::is_short(0, Rule::make({0, 0})));
    CHECK_FALSE(Rule::is_short(0, Rule::make({(1 << 30) - 1, -2})));
    CHECK_FALSE(Rule::is_short(1 << 29, Rule::make({1 << 30, 1})));
    // 2^31 is no power, and twice a multiplier below 2^30 is not negative.
    const auto expected = [](std::int64_t acc, int shift) {
        return static_cast<std::int64_t>(ref::multiply_double_rounding(acc, {1 << 30, shift}));
    };
    CHECK(simd::dsp_lanes::ShortRounding(1 << 30, -1, 0).scaled(1000) != expected(1000, -1));
    const auto small = static_cast<std::int64_t>(ref::multiply_double_rounding(1000000, {(1 << 30) - 1, -2}));
    CHECK(simd::dsp_lanes::ShortRounding((1 << 30) - 1, -2, 0).scaled(1000000) != small);
}

// --- tiles -----------------------------------------------------------------------------------------------------------

namespace {

template <int Rows, int Columns> bool tile_agrees(index_t depth, Draw& draw) {
    std::vector<std::int8_t> x(static_cast<std::size_t>(Rows * depth)), w(static_cast<std::size_t>(Columns * depth));
    std::vector<std::int32_t> staged(static_cast<std::size_t>(Rows * depth / 2));
    for (std::int8_t& code : x) code = any_code(draw);
    for (std::int8_t& code : w) code = any_code(draw);
    for (index_t k = 0; k < depth; k += 4)
        for (int r = 0; r < Rows; ++r) Tile::stage(x.data() + r * depth + k, staged.data() + k / 2 * Rows + r, Rows);
    std::int32_t acc[Rows * Columns], expected[Rows * Columns];
    for (int i = 0; i < Rows * Columns; ++i) {
        acc[i] = static_cast<std::int32_t>(draw.bits());
        std::int64_t sum = acc[i];
        for (index_t k = 0; k < depth; ++k)
            sum += x[static_cast<std::size_t>(i % Rows * depth + k)] *
                   w[static_cast<std::size_t>((k / 4 * Columns + i / Rows) * 4 + k % 4)];
        expected[i] = wrapped(sum);
    }
    Tile::add<Rows, Columns>(staged.data(), w.data(), depth, acc);
    return std::equal(acc, acc + Rows * Columns, expected);
}

/// Codes of windows of two lines, or of one, over columns of four or five rows of four channels; or of one by itself,
/// over columns of three rows.
template <int Stride, simd::CodeRange Range>
bool windows_agree(index_t width, index_t lines, bool by_itself, Draw& draw) {
    constexpr index_t channels = 4;
    const index_t rows = by_itself ? 3 : 3 + Stride, words = by_itself ? 2 : 1 + Stride;
    const index_t columns = (width - 1) * Stride + 3;
    std::vector<std::int8_t> x(static_cast<std::size_t>(columns * channels * rows)), w(9 * channels);
    for (std::int8_t& code : x) code = any_code(draw);  // [column][row][channel]
    for (std::int8_t& weight : w) weight = any_code(draw);
    std::vector<std::int32_t> staged(static_cast<std::size_t>(columns * channels * words));
    for (index_t i = 0; i < columns; ++i) {
        const auto word = [&](index_t row) { return word_of_bytes(x.data() + channels * (rows * i + row)); };
        std::int32_t* const to = staged.data() + channels * words * i;
        if (by_itself)
            Tile::pair_three(word(0), word(Stride == 1 ? 2 : 1), word(Stride), to);
        else if constexpr (Stride == 1)
            Tile::pair_four(word(0), word(1), word(2), word(3), to);
        else
            Tile::pair_five(word(0), word(1), word(2), word(3), word(4), to);
    }
    std::int32_t biases[channels], multipliers[channels], shifts[channels];
    for (index_t c = 0; c < channels; ++c) {
        biases[c] = static_cast<std::int32_t>(draw.between(-100000, 100000));
        multipliers[c] = static_cast<std::int32_t>(draw.between(1 << 30, INT32_MAX));
        shifts[c] = static_cast<std::int32_t>(draw.between(-12, -2));
    }
    std::vector<std::int8_t> y(static_cast<std::size_t>(lines * width * channels), 99);
    simd::PairedWindows of;
    of.zero_point = Range == simd::CodeRange::positive ? 0 : 5;
    of.lowest = Range == simd::CodeRange::positive ? 0 : Range == simd::CodeRange::int8 ? -128 : -70;
    of.highest = Range == simd::CodeRange::any ? 90 : 127;
    of.step = of.channels = channels;
    of.line = width * channels;
    of.x = staged.data();
    of.y = y.data();
    of.w = w.data();
    of.biases = biases;
    of.multipliers = multipliers;
    of.shifts = shifts;
    of.lines = by_itself ? simd::PairedWindows::one_of_three_rows : lines;
    of.next_bytes = 0;
    const index_t step = by_itself ? simd::PairedWindows::line_step_pixels : simd::PairedWindows::step_pixels;
    of.steps = width / step * step * channels;
    of.odd_step = width % step * channels;
    if (by_itself)
        Tile::store_line<simd::dsp_lanes, Stride, Range>(of);
    else
        Tile::store_windows<simd::dsp_lanes, Stride, Range>(of);
    for (index_t i = 0; i < lines * width * channels; ++i) {
        const index_t c = i % channels, column = i / channels % width * Stride, row = i / channels / width * Stride;
        std::int64_t sum = biases[c];
        for (index_t k = 0; k < 9; ++k)
            sum += x[static_cast<std::size_t>(channels * (rows * (column + k / 3) + row + k % 3) + c)] *
                   w[static_cast<std::size_t>(9 * c + k)];
        const auto scaled = static_cast<std::int64_t>(ref::multiply_double_rounding(sum, {multipliers[c], shifts[c]}));
        const auto code = std::clamp<std::int64_t>(scaled + of.zero_point, of.lowest, of.highest);
        if (y[static_cast<std::size_t>(i)] != code) return false;
    }
    return true;
}

}  // namespace

TEST_CASE("a high product is the code of an int16 layer wherever is_short() says so") {
    using Wide = arith::wide_fixed_point;
    Draw draw(11);
    const auto compare = [](std::int32_t sum, std::int32_t multiplier, std::int32_t shift) {
        const simd::dsp_lanes::HighProduct product(Wide::short_multiplier(multiplier, shift));
        const auto expected = ref::floor_divide(ref::wide{sum} * multiplier + ref::power_of_two(14 - shift),
                                                ref::power_of_two(15 - shift));
        return ref::wide{product.scaled(sum)} == expected;
    };
    int wrong = 0;
    for (std::int32_t shift = -17; shift <= -1; ++shift) {
        CHECK(Wide::is_short(INT32_MAX, {1, shift}));
        for (int i = 0; i < 20000; ++i) {
            const auto multiplier = static_cast<std::int32_t>(i < 2 ? i * INT16_MAX : draw.between(0, INT16_MAX));
            for (const std::int64_t sum : {draw.between(-INT32_MAX, INT32_MAX), draw.between(-70000, 70000),
                                           std::int64_t{INT32_MAX}, -std::int64_t{INT32_MAX}})
                wrong += !compare(static_cast<std::int32_t>(sum), multiplier, shift);
        }
        // Ties: an odd multiple of half a step, by a multiplier that is a power of two.
        for (std::int32_t k = -99; k <= 99; k += 2) wrong += !compare(k * (1 << -shift), 1 << 14, shift);
    }
    CHECK(wrong == 0);
    CHECK_FALSE(Wide::is_short(std::int64_t{INT32_MAX} + 1, {1, -5}));
    CHECK_FALSE(Wide::is_short(1, {1, 0}));
    CHECK_FALSE(Wide::is_short(1, {1, -18}));
}

TEST_CASE("a tile of staged pixels sums the products of plain loops") {
    Draw draw(3);
    for (index_t depth = 4; depth <= 80; depth += 4) {
        CAPTURE(depth);
        CHECK(tile_agrees<1, 1>(depth, draw));
        CHECK(tile_agrees<2, 1>(depth, draw));
        CHECK(tile_agrees<3, 1>(depth, draw));
        CHECK(tile_agrees<1, 2>(depth, draw));
        CHECK(tile_agrees<2, 2>(depth, draw));
        CHECK(tile_agrees<3, 2>(depth, draw));
    }
}

TEST_CASE("codes of 3×3 windows on staged columns are those of plain loops") {
    Draw draw(4);
    using enum simd::CodeRange;
    for (index_t width = 1; width <= 9; ++width)
        for (index_t lines = 0; lines <= 2; ++lines) {
            CAPTURE(width, lines);
            const bool by_itself = lines == 0;
            const auto agree = [&]<int stride, simd::CodeRange range>() {
                return windows_agree<stride, range>(width, by_itself ? 1 : lines, by_itself, draw);
            };
            CHECK(agree.operator()<1, any>());
            CHECK(agree.operator()<1, int8>());
            CHECK(agree.operator()<1, positive>());
            CHECK(agree.operator()<2, any>());
            CHECK(agree.operator()<2, int8>());
            CHECK(agree.operator()<2, positive>());
        }
}
