// SPDX-License-Identifier: MIT
//
// Every register tile of every usable backend against plain loops: each number of rows, whole and partial groups,
// operands at the ends of their types, and activation rows that end at a page without access.
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/odd_width.hpp"

namespace {

using intq::index_t;
using intq::simd::Staging;
using intq::test::GuardedBuffer;
constexpr std::uint32_t seed = 7;

/// Random values, a third of them the ends of the type; floats in [-1, 1).
template <class T> T random_value(std::mt19937& bits) {
    const std::uint32_t word = static_cast<std::uint32_t>(bits());
    if constexpr (std::is_same_v<T, float>) {
        return static_cast<float>(static_cast<std::int32_t>(word)) * 0x1p-31f;
    } else if (word % 6 == 0) {
        return std::numeric_limits<T>::min();
    } else if (word % 6 == 1) {
        return std::numeric_limits<T>::max();
    } else {
        return static_cast<T>(word >> 8);
    }
}

template <class Tile, class Acc> struct Problem {
    index_t columns;  // of the panel: whole or narrower
    using X = typename Tile::activation;
    using W = typename Tile::weight;
    index_t depth_of_k;                                // K
    std::vector<Acc> bias;                             // (columns)
    std::vector<W> weights;                            // packed[k / depth][column][k % depth], zero beyond K
    std::vector<std::unique_ptr<GuardedBuffer>> rows;  // K activations each

    Problem(index_t panel_columns, index_t k_count, std::mt19937& bits) : columns(panel_columns), depth_of_k(k_count) {
        const index_t depth = Tile::depth;
        for (index_t c = 0; c < columns; ++c)
            bias.push_back(std::is_same_v<Acc, float> ? static_cast<Acc>(random_value<float>(bits))
                                                      : static_cast<Acc>(random_value<std::int32_t>(bits)));
        weights.resize(static_cast<std::size_t>((k_count + depth - 1) / depth * depth * columns));
        for (index_t k = 0; k < k_count; ++k)
            for (index_t c = 0; c < columns; ++c) weight(k, c) = random_value<W>(bits);
        for (int r = 0; r < Tile::max_rows(Tile::narrowest); ++r) {
            rows.push_back(std::make_unique<GuardedBuffer>(static_cast<std::size_t>(k_count) * sizeof(X)));
            for (index_t k = 0; k < k_count; ++k) rows.back()->template as<X>()[k] = random_value<X>(bits);
        }
    }
    W& weight(index_t k, index_t c) {
        return weights[static_cast<std::size_t>((k / Tile::depth * columns + c) * Tile::depth + k % Tile::depth)];
    }
    X x(int row, index_t k) { return rows[static_cast<std::size_t>(row)]->template as<X>()[k]; }

    /// Integers exactly, modulo the accumulator; floats in double.
    auto expected(int row, index_t c) {
        if constexpr (std::is_same_v<Acc, float>) {
            double sum = bias[static_cast<std::size_t>(c)];
            for (index_t k = 0; k < depth_of_k; ++k) sum += double{x(row, k)} * double{weight(k, c)};
            return sum;
        } else {
            auto sum = static_cast<std::uint64_t>(std::int64_t{bias[static_cast<std::size_t>(c)]});
            for (index_t k = 0; k < depth_of_k; ++k)
                sum += static_cast<std::uint64_t>(std::int64_t{x(row, k)} * std::int64_t{weight(k, c)});
            return static_cast<Acc>(sum);
        }
    }
};

/// As the GEMM skeleton runs a tile. Wrong results of `Rows` rows.
template <class L, class Tile, class Acc, int Rows, int Vectors>
std::size_t wrong_results(Problem<Tile, Acc>& problem) {
    using X = typename Tile::activation;
    const X* rows[Rows];
    for (std::size_t r = 0; r < Rows; ++r) rows[r] = problem.rows[r]->template as<const X>();
    typename Tile::template Registers<Rows, Vectors> registers;
    registers.start(problem.bias.data());
    const auto* w = problem.weights.data();
    index_t k = 0;
    for (; k + Tile::depth <= problem.depth_of_k; k += Tile::depth, w += Tile::depth * problem.columns)
        registers.step(rows, k, w);
    if (k < problem.depth_of_k) registers.step_part(rows, k, problem.depth_of_k - k, w);

    std::vector<Acc> result(static_cast<std::size_t>(Rows * problem.columns));
    intq::simd::unroll<Rows>([&](auto r) {
        intq::simd::unroll<Vectors>([&](auto v) {
            Acc* const to = result.data() + r * problem.columns + v * L::width();
            if constexpr (std::is_same_v<Acc, std::int64_t>) {
                L::store_i64(to, registers.template drain<r, v>());
            } else {
                L::store(to, registers.template drain<r, v>());
            }
        });
    });

    std::size_t wrong = 0;
    for (int r = 0; r < Rows; ++r)
        for (index_t c = 0; c < problem.columns; ++c) {
            const Acc got = result[static_cast<std::size_t>(r * problem.columns + c)];
            if constexpr (std::is_same_v<Acc, float>) {
                const double bound =
                    static_cast<double>(problem.depth_of_k + 1) * 0x1p-24 * static_cast<double>(problem.depth_of_k + 1);
                wrong += !(std::fabs(double{got} - problem.expected(r, c)) <= bound);
            } else {
                wrong += got != problem.expected(r, c);
            }
        }
    return wrong;
}

template <class Backend, class X, class W, class Acc> void tile_conforms(const char* types) {
    using Tile = intq::simd::Tile<Backend, X, W, Acc>;
    using L = intq::simd::lanes<Backend>;
    constexpr intq::simd::Packing packing = intq::simd::detail::packing_of<Backend, X, Acc>();
    INFO(Backend::name << ' ' << types << ", up to " << Tile::max_rows(Tile::narrowest) << " rows, seed " << seed);

    // What the packer and the stager believe of this tile.
    CHECK(Tile::columns == packing.columns);
    CHECK(Tile::depth == packing.depth);
    CHECK(Tile::columns == Tile::vectors * L::width());
    CHECK(packing.step == Tile::narrowest * L::width());
    using Staged = std::conditional_t<packing.staging == Staging::offset_binary, std::uint8_t,
                                      std::conditional_t<packing.staging == Staging::widened, std::int16_t, X>>;
    using Stored =
        std::conditional_t<packing.depth == 1, W, std::conditional_t<sizeof(Staged) == 2, std::int16_t, std::int8_t>>;
    CHECK(std::is_same_v<typename Tile::activation, Staged>);
    CHECK(std::is_same_v<typename Tile::weight, Stored>);

    std::mt19937 bits(seed);
    for (const index_t k : {0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 63, 257}) {
        intq::simd::unroll<Tile::vectors - Tile::narrowest + 1>([&](auto beyond_narrowest) {
            constexpr int vectors = beyond_narrowest + Tile::narrowest, most = Tile::max_rows(vectors);
            Problem<Tile, Acc> problem(vectors * L::width(), k, bits);
            intq::simd::unroll<most>([&](auto last_row) {
                // Each number of rows that the skeleton has code for.
                if constexpr (last_row < 6 || last_row + 1 == most) {
                    INFO("K = " << k << ", rows = " << last_row + 1 << ", vectors = " << vectors);
                    CHECK(wrong_results<L, Tile, Acc, last_row + 1, vectors>(problem) == 0);
                }
            });
        });
    }
}

}  // namespace

TEST_CASE("every register tile of every backend sums the products of its panel") {
    intq::test::for_each_backend(intq::test::all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        SECTION(Backend::name) {
            std::cout << "tiles of " << Backend::name << std::endl;
            tile_conforms<Backend, std::int8_t, std::int8_t, std::int32_t>("int8 × int8 -> int32");
            tile_conforms<Backend, std::int16_t, std::int8_t, std::int32_t>("int16 × int8 -> int32");
            tile_conforms<Backend, std::int16_t, std::int16_t, std::int32_t>("int16 × int16 -> int32");
            tile_conforms<Backend, std::int16_t, std::int8_t, std::int64_t>("int16 × int8 -> int64");
            tile_conforms<Backend, std::int16_t, std::int16_t, std::int64_t>("int16 × int16 -> int64");
            tile_conforms<Backend, float, float, float>("float");
        }
    });
}

TEST_CASE("a pair of products of -32768 wraps in int32 as the tile's contract says") {
    intq::test::for_each_backend(intq::test::all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        using Tile = intq::simd::Tile<Backend, std::int16_t, std::int16_t, std::int32_t>;
        std::mt19937 bits(seed);
        Problem<Tile, std::int32_t> problem(Tile::columns, 4, bits);
        for (auto& w : problem.weights) w = INT16_MIN;
        for (index_t k = 0; k < 4; ++k) problem.rows[0]->template as<std::int16_t>()[k] = INT16_MIN;
        INFO(Backend::name);
        CHECK(wrong_results<intq::simd::lanes<Backend>, Tile, std::int32_t, 1, Tile::vectors>(problem) == 0);
    });
}
