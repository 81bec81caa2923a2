// SPDX-License-Identifier: MIT
//
// Functions of int16 codes: every table against the function in long double, over all codes; tables of blocks against
// plain integers on every backend, and their refusals.
#include "intq/arith/block_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "intq/kernels/streaming/unary.hpp"
#include "reference/table_functions.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/odd_width.hpp"
#include "support/tensors.hpp"

namespace {

using namespace intq;
using arith::CodesOf;
using intq::test::for_each_backend;
using intq::test::GuardedBuffer;
using intq_reference::nearest_code;
using intq_reference::real_function;

/// A function with its parameter, and the ends of its inputs that docs/arithmetic.md section 7 states.
struct Stated {
    TableFunction function;
    const char* name;
    double slope;
    std::vector<double> ends;
    bool has_pole = false;
};

const std::vector<Stated>& stated() {
    static const std::vector<double> ends{1.0, 8.0, 16.0, 64.0};
    static const std::vector<Stated> rows{{TableFunction::sigmoid, "sigmoid", 1.0, ends},
                                          {TableFunction::tanh, "tanh", 1.0, ends},
                                          {TableFunction::exp, "exp", 1.0, ends},
                                          {TableFunction::erf, "erf", 1.0, ends},
                                          {TableFunction::gelu_erf, "gelu_erf", 1.0, ends},
                                          {TableFunction::gelu_tanh, "gelu_tanh", 1.0, ends},
                                          {TableFunction::silu, "silu", 1.0, ends},
                                          {TableFunction::elu, "elu", 1.5, ends},
                                          {TableFunction::celu, "celu", 0.5, ends},
                                          {TableFunction::selu, "selu", 1.0, ends},
                                          {TableFunction::softplus, "softplus", 2.0, ends},
                                          {TableFunction::mish, "mish", 1.0, ends},
                                          {TableFunction::softsign, "softsign", 1.0, ends},
                                          {TableFunction::tanhshrink, "tanhshrink", 1.0, ends},
                                          {TableFunction::hard_sigmoid, "hard_sigmoid", 1.2, ends},
                                          {TableFunction::hard_tanh, "hard_tanh", 1.0, ends},
                                          {TableFunction::hard_swish, "hard_swish", 1.0, ends},
                                          {TableFunction::abs, "abs", 1.0, ends},
                                          {TableFunction::neg, "neg", 1.0, ends},
                                          {TableFunction::square, "square", 1.0, ends},
                                          {TableFunction::leaky_relu, "leaky_relu", 0.01, ends},
                                          {TableFunction::log, "log", 1.0, ends, true},
                                          {TableFunction::sqrt, "sqrt", 1.0, ends},
                                          {TableFunction::rsqrt, "rsqrt", 1.0, ends, true},
                                          {TableFunction::reciprocal, "reciprocal", 1.0, ends, true}};
    return rows;
}

/// One function between two grids, and its reals in long double for all codes.
struct Grids {
    CodesOf in, out;
    std::vector<long double> reals;
};

/// The output's grid holds `part` of the largest value, near a pole that from a thousandth of the range on.
Grids grids_of(const Stated& row, double end, double part) {
    Grids made{{static_cast<float>(end / 32767), 0, DType::int16}, {1.0f, 0, DType::int16}, {}};
    long double largest = 0.0L;
    for (int x = -32768; x <= 32767; ++x) {
        made.reals.push_back(real_function(row.function, static_cast<long double>(x) * made.in.scale, row.slope));
        const long double size = std::fabs(made.reals.back());
        if (std::isfinite(size) && (!row.has_pole || std::abs(x) >= 33)) largest = std::max(largest, size);
    }
    made.out.scale = static_cast<float>(part * static_cast<double>(largest) / 32767);
    return made;
}

/// The largest distance in codes of a table from the nearest ones, over all inputs.
template <class LookUp> std::int64_t largest_distance(const Grids& grids, LookUp&& look_up) {
    std::int64_t worst = 0;
    for (int x = -32768; x <= 32767; ++x) {
        const std::int64_t nearest =
            nearest_code(grids.reals[static_cast<std::size_t>(x + 32768)], grids.out.scale, -32768, 32767);
        worst = std::max(worst, std::abs(std::clamp<std::int64_t>(look_up(x), -32768, 32767) - nearest));
    }
    return worst;
}

std::int64_t floor_shift(std::int64_t value, std::int64_t bits) {
    const std::int64_t divisor = std::int64_t{1} << bits;
    return value >= 0 ? value / divisor : -((-value + divisor - 1) / divisor);
}

/// docs/arithmetic.md section 4, "int16 table of blocks", in plain integers.
std::int64_t plain_blocks(const std::vector<std::int16_t>& words, std::int64_t x) {
    const std::int64_t block = floor_shift(x, 7), rest = x - 128 * block;
    const std::int64_t word = words[static_cast<std::size_t>(block + 256)] & 0xffff, k = word % 8;
    const std::int64_t step = std::int64_t{1} << k, u = rest % step;
    const auto knot = [&](std::int64_t j) {
        const std::size_t at = 512 + 2 * static_cast<std::size_t>(j);
        return (words[at] & 0xffff) + 65536 * std::int64_t{words[at + 1]};
    };
    const std::int64_t j = word / 8 + rest / step;
    return floor_shift(knot(j) + floor_shift((knot(j + 1) - knot(j)) * u, k) + 128, 8);
}

/// Blocks of every step anywhere among random knots, the widest rises among them.
std::vector<std::int16_t> random_blocks() {
    std::mt19937 random(12);
    const std::size_t knots = 3000;
    std::vector<std::int16_t> words(512 + 2 * knots);
    for (std::size_t b = 0; b < 512; ++b) {
        const std::uint32_t k = random() % 8, most = static_cast<std::uint32_t>(knots) - (128u >> k);
        words[b] = static_cast<std::int16_t>(8 * (b % 5 == 0 ? most - 1 : random() % most) + k);
    }
    for (std::size_t j = 0; j < knots; ++j) {
        const std::int32_t ends[] = {-256 * 32768, 256 * 32767};
        const std::int32_t knot = j % 3 == 0 ? ends[j % 2] : static_cast<std::int32_t>(random() % 16777216) - 8388608;
        words[512 + 2 * j] = static_cast<std::int16_t>(knot & 0xffff);
        words[513 + 2 * j] = static_cast<std::int16_t>(knot >> 16);
    }
    return words;
}

}  // namespace

TEST_CASE("Every function of int16 codes is at most one code from the nearest one, for all inputs of stated ranges") {
    std::vector<std::int16_t> words(arith::largest_block_table_size), entries(arith::int16_table_size);
    std::printf("%-14s %5s %12s %8s\n", "function", "end", "513 entries", "bytes");
    for (const Stated& row : stated())
        for (const double end : row.ends)
            for (const double part : {1.0, 0.4}) {                               // of 0.4, many codes saturate
                if (row.function == TableFunction::exp && end > 16.0) continue;  // a few codes hold all of it
                INFO(row.name << " to " << end << ", " << part << " of its values");
                const Grids grids = grids_of(row, end, part);
                const auto function = [&](double x) { return arith::table_function(row.function, x, row.slope); };
                const auto made = arith::make_table_within_a_code(grids.in, grids.out, words, function);
                REQUIRE(made.ok());
                const bool has_blocks = *made != arith::int16_table_size;
                CHECK(has_blocks == arith::is_block_table(std::span(words).first(*made)));
                CHECK(largest_distance(grids, [&](int x) {
                          return has_blocks ? arith::interpolate_blocks<arith::scalar_lanes>(words.data(), x)
                                            : arith::interpolate_table<arith::scalar_lanes>(words.data(), x);
                      }) <= 1);
                REQUIRE(arith::make_int16_table(grids.in, grids.out, std::span(entries), function).ok());
                const std::int64_t coarse = largest_distance(
                    grids, [&](int x) { return arith::interpolate_table<arith::scalar_lanes>(entries.data(), x); });
                CHECK(has_blocks == (coarse > 1));
                CHECK(2 * *made <= 6000);
                if (part == 1.0)
                    std::printf("%-14s %5g %12lld %8zu\n", row.name, end, static_cast<long long>(coarse), 2 * *made);
            }
}

TEST_CASE("A table of blocks holds the bounds of its output, and is the same where they are not reached") {
    std::vector<std::int16_t> words(arith::largest_block_table_size);
    const CodesOf in{16.0f / 32767, 0, DType::int16}, out{1.0f / 32767, 0, DType::int16};
    const auto tanh = [](double x) { return arith::table_function(TableFunction::tanh, x); };
    const auto made = arith::make_block_table(in, out, words, tanh, {-1000, 20000});
    REQUIRE(made.ok());
    for (int x = -32768; x <= 32767; ++x) {
        const std::int32_t y = arith::interpolate_blocks<arith::scalar_lanes>(words.data(), x);
        const std::int64_t nearest = nearest_code(
            real_function(TableFunction::tanh, static_cast<long double>(x) * in.scale, 1.0L), out.scale, -1000, 20000);
        if (y < -1000 || y > 20000 || std::abs(y - nearest) > 1) FAIL("code " << x << " gives " << y);
    }
}

TEST_CASE("Every backend interpolates tables of blocks in plain integers, all codes") {
    const std::vector<std::int16_t> words = random_blocks();
    REQUIRE(arith::is_block_table(words));
    std::vector<std::int16_t> codes, expected;
    for (int x = -32768; x <= 32767; ++x) {
        codes.push_back(static_cast<std::int16_t>(x * 77));
        expected.push_back(static_cast<std::int16_t>(plain_blocks(words, codes.back())));
    }
    GuardedBuffer table(2 * words.size(), GuardedBuffer::Against::end);
    std::memcpy(table.as<std::int16_t>(), words.data(), 2 * words.size());
    for_each_backend(intq::test::all_backends{}, [&](auto backend) {
        using Backend = decltype(backend);
        INFO(Backend::name);
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{63},
                                       std::size_t{64}, std::size_t{65}, std::size_t{131}, codes.size()}) {
            GuardedBuffer x(2 * size, GuardedBuffer::Against::end), y(2 * size, GuardedBuffer::Against::end);
            std::memcpy(x.as<std::int16_t>(), codes.data(), 2 * size);
            const auto count = static_cast<index_t>(size);
            kernels::look_up_blocks<Backend>(
                {table.as<std::int16_t>(), x.as<std::int16_t>(), y.as<std::int16_t>(), count, &serial});
            CHECK(std::memcmp(y.as<std::int16_t>(), expected.data(), 2 * size) == 0);
            CHECK(y.is_intact());
            kernels::look_up_blocks<Backend>(
                {table.as<std::int16_t>(), x.as<std::int16_t>(), x.as<std::int16_t>(), count, &serial});
            CHECK(std::memcmp(x.as<std::int16_t>(), expected.data(), 2 * size) == 0);
        }
    });
}

TEST_CASE("Tables of blocks that have no meaning are refused") {
    std::vector<std::int16_t> words(arith::largest_block_table_size);
    const CodesOf good{0.001f, 0, DType::int16};
    const auto line = [](double x) { return x; };
    CHECK(arith::make_block_table({0.001f, 0, DType::int8}, good, words, line).status().code ==
          StatusCode::dtype_mismatch);
    CHECK(arith::make_block_table({0.001f, 3, DType::int16}, good, words, line).status() ==
          Status{StatusCode::value_out_of_range, OpKind::none, Field::zero_point, 3, 0, Field::input});
    CHECK(arith::make_block_table(good, {0.0f, 0, DType::int16}, words, line).status().code ==
          StatusCode::scale_out_of_range);
    // A line takes two knots a block, which neighbours share; fewer words do not hold them.
    const auto of_line = arith::make_block_table(good, good, words, line);
    REQUIRE(of_line.ok());
    CHECK(*of_line == 512 + 2 * 513);
    CHECK(arith::make_block_table(good, good, std::span(words).first(1000), line).status() ==
          Status{StatusCode::shape_mismatch, OpKind::lookup_table, Field::storage, 1000, 1002});
    CHECK(arith::make_table_within_a_code(good, good, std::span(words).first(513), line).ok());
    // What bends at every code needs more knots than the words can name.
    const auto noise = [](double x) { return 20.0 * std::sin(1e7 * x); };
    CHECK(arith::make_block_table(good, good, words, noise).status() ==
          Status{StatusCode::value_out_of_range, OpKind::lookup_table, Field::storage, 64 * 128, 8191});
    // Sizes, and words whose knots are not there.
    for (const index_t size : {0, 513, 514, 515, 517, 512 + 2 * 8320 + 2})
        CHECK_FALSE(arith::is_block_table_size(size));
    std::vector<std::int16_t> table(512 + 2 * 3);
    CHECK_FALSE(arith::is_block_table(table));  // step 1 takes 129 knots
    std::fill_n(table.begin(), 512, std::int16_t{7});
    CHECK(arith::is_block_table(table));
    table[511] = 8 + 7;
    CHECK(arith::is_block_table(table));
    table[511] = 16 + 7;
    CHECK_FALSE(arith::is_block_table(table));
    table[511] = static_cast<std::int16_t>(0xfff8 + 7);
    CHECK_FALSE(arith::is_block_table(table));
}
