// SPDX-License-Identifier: MIT
//
// Every register tile of every usable backend against plain loops: each number of rows, whole and partial groups,
// operands at the ends of their types, and activation rows that end at a page without access.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "intq/kernels/conv/depthwise.hpp"
#include "intq/simd/tiles/matrix_tile.hpp"
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

/// @tparam Given  the type that weights have before they are packed
template <class Tile, class Acc, class Given = typename Tile::weight> struct Problem {
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
        weights.resize(static_cast<std::size_t>((k_count + depth - 1) / depth * depth * columns * Tile::planes));
        for (index_t k = 0; k < k_count; ++k)
            for (index_t c = 0; c < columns; ++c) set_weight(k, c, random_value<Given>(bits));
        for (int r = 0; r < Tile::max_rows(Tile::narrowest); ++r) {
            rows.push_back(std::make_unique<GuardedBuffer>(static_cast<std::size_t>(k_count) * sizeof(X)));
            for (index_t k = 0; k < k_count; ++k) rows.back()->template as<X>()[k] = random_value<X>(bits);
        }
    }
    W* weight_at(index_t k, index_t c) {
        const index_t group = k / Tile::depth * Tile::planes * columns;
        return weights.data() + (group + c) * Tile::depth + k % Tile::depth;
    }
    /// In two planes, w = 256·high + low with low in [-128, 127].
    void set_weight(index_t k, index_t c, W value) {
        W* const at = weight_at(k, c);
        if constexpr (Tile::planes == 1) {
            *at = value;
        } else {
            const int high = (value + 128) >> 8;
            at[0] = static_cast<W>(value - 256 * high);
            at[columns * Tile::depth] = static_cast<W>(high);
        }
    }
    W weight(index_t k, index_t c) {
        const W* const at = weight_at(k, c);
        if constexpr (Tile::planes == 1) {
            return *at;
        } else {
            return static_cast<W>(256 * at[columns * Tile::depth] + at[0]);
        }
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

/// How the groups of a problem are added: one by one; as many together as the tile can; by the loop over taps, of which
/// there are four in two rows, visited in the order 1, 0, 3, 2, from rows anywhere or from equally spaced ones.
enum class Adding { steps, together, taps, spaced_taps };

template <int Rows, class Tile, class Acc, class Given, class Registers>
void add_taps(Problem<Tile, Acc, Given>& problem, Registers& registers, bool are_spaced) {
    using X = typename Tile::activation;
    const index_t depth = problem.depth_of_k / 4, weights = depth * problem.columns;
    constexpr index_t together = Tile::groups_together * Tile::depth;
    intq::simd::TapWalk walk{};
    walk.first = problem.bias.data();
    walk.weights = problem.weights.data() + weights;
    walk.taps = 4, walk.row_taps = 2;
    walk.registers = depth / together, walk.groups = depth % together / Tile::depth;
    walk.x_step = -2 * depth * index_t{sizeof(X)}, walk.x_jump = -walk.x_step;
    walk.weight_step = -2 * weights * index_t{sizeof(typename Tile::weight)}, walk.weight_jump = -walk.weight_step;
    if (are_spaced) {
        const std::size_t size = static_cast<std::size_t>(problem.depth_of_k), apart = size + 5;
        std::vector<X> spaced(Rows * apart);
        for (std::size_t r = 0; r < Rows; ++r)
            std::copy_n(problem.rows[r]->template as<const X>(), size, spaced.data() + r * apart);
        return registers.sum_taps(walk, {spaced.data() + depth, static_cast<index_t>(apart * sizeof(X))});
    }
    intq::simd::ListedRows<Rows> rows;
    for (std::size_t r = 0; r < Rows; ++r) rows.at[r] = problem.rows[r]->template as<const X>() + depth;
    registers.sum_taps(walk, rows);
}

/// As the GEMM skeleton runs a tile. Wrong results of `Rows` rows.
template <class L, int Rows, int Vectors, class Tile, class Acc, class Given>
std::size_t wrong_results(Problem<Tile, Acc, Given>& problem, Adding adding = Adding::steps) {
    using X = typename Tile::activation;
    const X* rows[Rows];
    for (std::size_t r = 0; r < Rows; ++r) rows[r] = problem.rows[r]->template as<const X>();
    typename Tile::template Registers<Rows, Vectors> registers;
    if constexpr (requires { requires Tile::template Registers<Rows, Vectors>::has_loop; })
        if (adding >= Adding::taps) add_taps<Rows>(problem, registers, adding == Adding::spaced_taps);
    if (adding < Adding::taps) {
        registers.start(problem.bias.data());
        const auto* w = problem.weights.data();
        const index_t group = Tile::depth * Tile::planes * problem.columns;
        index_t k = 0;
        if constexpr (requires { Tile::groups_together; }) {
            constexpr index_t together = Tile::groups_together;
            if (adding == Adding::together)
                for (; k + together * Tile::depth <= problem.depth_of_k; k += together * Tile::depth) {
                    registers.steps(rows, k, w);
                    w += together * group;
                }
        }
        for (; k + Tile::depth <= problem.depth_of_k; k += Tile::depth, w += group) registers.step(rows, k, w);
        if (k < problem.depth_of_k) registers.step_part(rows, k, problem.depth_of_k - k, w);
    }

    std::vector<Acc> result(static_cast<std::size_t>(Rows * problem.columns));
    intq::simd::unroll<Rows>([&](auto r) {
        intq::simd::unroll<Vectors>([&](auto v) {
            Acc* const to = result.data() + r * problem.columns + v * L::width();
            if constexpr (std::is_same_v<Acc, std::int64_t>) {
                L::store_i64(to, registers.drain(r, v));
            } else {
                L::store(to, registers.drain(r, v));
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

template <class Backend, class X, class W, class Acc> void register_tile_conforms(const char* types) {
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
                                      std::conditional_t<intq::simd::widens(packing.staging), std::int16_t, X>>;
    constexpr bool keeps_weights =
        (packing.depth == 1 && packing.staging != Staging::widened) || packing.staging == Staging::widened_beside_bytes;
    using Stored =
        std::conditional_t<keeps_weights, W, std::conditional_t<sizeof(Staged) == 2, std::int16_t, std::int8_t>>;
    CHECK(std::is_same_v<typename Tile::activation, Staged>);
    CHECK(std::is_same_v<typename Tile::weight, Stored>);

    std::mt19937 bits(seed);
    for (const index_t k : {0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 63, 257, 1200}) {
        intq::simd::unroll<Tile::vectors - Tile::narrowest + 1>([&](auto beyond_narrowest) {
            constexpr int vectors = beyond_narrowest + Tile::narrowest, most = Tile::max_rows(vectors);
            Problem<Tile, Acc, W> problem(vectors * L::width(), k, bits);
            intq::simd::unroll<most>([&](auto last_row) {
                // Each number of rows that the skeleton has code for.
                if constexpr (last_row < 6 || last_row + 1 == most) {
                    INFO("K = " << k << ", rows = " << last_row + 1 << ", vectors = " << vectors);
                    CHECK(wrong_results<L, last_row + 1, vectors>(problem) == 0);
                    if constexpr (requires { Tile::groups_together; }) {
                        CHECK(wrong_results<L, last_row + 1, vectors>(problem, Adding::together) == 0);
                        if constexpr (Tile::template Registers<last_row + 1, vectors>::has_loop)
                            if (k > 0 && k % (4 * Tile::depth) == 0)
                                for (const Adding adding : {Adding::taps, Adding::spaced_taps})
                                    CHECK(wrong_results<L, last_row + 1, vectors>(problem, adding) == 0);
                    }
                }
            });
        });
    }
}

// --- matrices --------------------------------------------------------------------------------------------------------

/// Wrong sums of a tile of 2·Pairs rows by 4·Vectors columns, whose rows end at a page without access.
template <class Tile, int Pairs, int Vectors> std::size_t wrong_matrix_sums(index_t groups, std::mt19937& bits) {
    constexpr index_t rows = intq::simd::matrix_rows, depth = intq::simd::matrix_depth, columns = 4 * Vectors;
    const index_t size = groups * depth;
    std::vector<std::unique_ptr<GuardedBuffer>> given;
    const std::int8_t* from[rows];
    for (const std::int8_t*& row : from) {
        given.push_back(std::make_unique<GuardedBuffer>(static_cast<std::size_t>(size)));
        for (index_t k = 0; k < size; ++k) given.back()->as<std::int8_t>()[k] = random_value<std::int8_t>(bits);
        row = given.back()->as<const std::int8_t>();
    }
    GuardedBuffer x(static_cast<std::size_t>(rows * size)), w(static_cast<std::size_t>(columns * size));
    GuardedBuffer sums(static_cast<std::size_t>(2 * Pairs * columns) * sizeof(std::int32_t));
    for (index_t i = 0; i < columns * size; ++i) w.as<std::int8_t>()[i] = random_value<std::int8_t>(bits);
    std::int32_t bias[columns], spread[2 * columns];
    for (std::int32_t& b : bias) b = random_value<std::int32_t>(bits);
    Tile::template spread_columns<Vectors>(bias, spread);
    Tile::interleave(from, size, x.as<std::int8_t>());
    Tile::template add<Pairs, Vectors>(
        {x.as<const std::int8_t>(), w.as<const std::int8_t>(), groups, spread, sums.as<std::int32_t>()});
    std::size_t wrong = 0;
    for (index_t r = 0; r < 2 * Pairs; ++r)
        for (index_t c = 0; c < columns; ++c) {
            std::int64_t sum = bias[c];
            for (index_t k = 0; k < size; ++k)
                sum += from[r][k] * w.as<const std::int8_t>()[k / depth * columns * depth + c * depth + k % depth];
            wrong += sums.as<const std::int32_t>()[r * columns + c] !=
                     static_cast<std::int32_t>(static_cast<std::uint32_t>(sum));
        }
    return wrong + !sums.is_intact() + !x.is_intact();
}

template <class Backend> void matrix_tile_conforms() {
    constexpr intq::simd::Packing packing = Backend::int8_packing;
    CHECK((packing.columns == intq::simd::matrix_columns && packing.depth == intq::simd::matrix_depth &&
           packing.step == 4));
    std::mt19937 bits(seed);
    for (const index_t groups : {0, 1, 2, 3, 4, 7, 150})
        intq::simd::unroll<4>([&](auto p) {
            intq::simd::unroll<3>([&](auto v) {
                INFO(Backend::name << ", groups = " << groups << ", pairs = " << p + 1 << ", vectors = " << v + 1);
                CHECK(wrong_matrix_sums<intq::simd::MatrixTile<Backend>, p + 1, v + 1>(groups, bits) == 0);
            });
        });
}

template <class Backend, class X, class W, class Acc> void tile_conforms(const char* types) {
    if constexpr (intq::simd::detail::packing_of<Backend, X, Acc>().staging == Staging::interleaved)
        matrix_tile_conforms<Backend>();
    else
        register_tile_conforms<Backend, X, W, Acc>(types);
}

// --- depthwise -------------------------------------------------------------------------------------------------------

/// Where the packing's own equation puts channel i of a block of so many vectors.
template <class Tile, int Vectors> index_t lane_of(index_t i) {
    const index_t width = Tile::L::width(), run = Vectors > 1 ? Tile::run : width;
    return i / run % Vectors * width + i / (run * Vectors) * run + i % run;
}

/// One group of `Rows` rows of `channels` channels, and a column of padding. Wrong sums.
template <class Tile, int Vectors, int Rows>
std::size_t wrong_depthwise_sums(const intq::simd::DepthwisePacking& packing, index_t channels, std::mt19937& bits) {
    using X = typename Tile::element;
    using W = typename Tile::weight;
    const index_t width = Tile::L::width(), lanes = Vectors * width,
                  offset = packing.staging == Staging::offset_binary ? 128 : 0;
    std::vector<std::unique_ptr<GuardedBuffer>> rows;
    const X* pointers[Rows];
    for (int r = 0; r < Rows; ++r) {
        rows.push_back(std::make_unique<GuardedBuffer>(static_cast<std::size_t>(channels) * sizeof(X)));
        for (index_t c = 0; c < channels; ++c) rows.back()->as<X>()[c] = random_value<X>(bits);
        pointers[r] = rows.back()->as<const X>();
    }
    std::vector<W> weights(static_cast<std::size_t>(lanes * packing.depth));
    std::vector<std::int32_t> bias(static_cast<std::size_t>(lanes));
    for (auto& b : bias) b = random_value<std::int32_t>(bits);
    const auto weight = [&](index_t lane, index_t r) -> W& {
        return weights[static_cast<std::size_t>(lane * packing.depth + r)];
    };
    for (index_t lane = 0; lane < lanes; ++lane)
        for (index_t r = 0; r < Rows; ++r) weight(lane, r) = random_value<W>(bits);
    const auto zero_point = static_cast<std::int32_t>(random_value<X>(bits));

    typename Tile::template Weights<Vectors> w;
    w.load(weights.data());
    std::vector<std::int32_t> result[2];
    for (int is_padding = 0; is_padding < 2; ++is_padding) {
        typename Tile::template Column<Vectors> x;
        if (is_padding == 1)
            x.fill(zero_point);
        else
            x.template load<Rows>(pointers, channels);
        typename Tile::template Sums<Vectors> sums;
        sums.start(bias.data());
        sums.add(x, w);
        result[is_padding].resize(bias.size());
        intq::simd::unroll<Vectors>(
            [&](auto v) { Tile::L::store(result[is_padding].data() + v * width, sums.drain(v), width); });
    }
    std::size_t wrong = 0;
    for (index_t c = 0; c < channels; ++c)
        for (const bool is_padding : {false, true}) {
            const index_t lane = lane_of<Tile, Vectors>(c);
            std::int64_t sum = bias[static_cast<std::size_t>(lane)];
            for (index_t r = 0; r < Rows; ++r) {
                const std::int64_t code = is_padding ? zero_point : std::int64_t{pointers[r][c]};
                sum += (code + offset) * std::int64_t{weight(lane, r)};
            }
            wrong += result[is_padding ? 1 : 0][static_cast<std::size_t>(lane)] !=
                     static_cast<std::int32_t>(static_cast<std::uint32_t>(sum));
        }
    return wrong;
}

/// Whole and narrow blocks of every number of channels. Where a step is a whole block, there are no narrow ones.
template <class Tile, int Rows>
void depthwise_rows_conform(const char* backend, const intq::simd::DepthwisePacking& packing) {
    INFO(backend << " depthwise, rows = " << Rows << ", seed " << seed);
    std::mt19937 bits(seed);
    const bool has_narrow = packing.step < packing.columns;
    for (index_t channels = has_narrow ? packing.columns / 2 + 1 : 1; channels <= packing.columns; ++channels)
        CHECK(wrong_depthwise_sums<Tile, Tile::vectors, Rows>(packing, channels, bits) == 0);
    for (index_t channels = 1; has_narrow && channels <= packing.step; ++channels)
        CHECK(wrong_depthwise_sums<Tile, 1, Rows>(packing, channels, bits) == 0);
}

/// @return whether the backend has such a tile
template <class Backend, class X, class W> bool depthwise_tile_conforms() {
    constexpr intq::simd::DepthwisePacking packing =
        intq::kernels::detail::depthwise_packing_of<Backend, X, W, std::int32_t>();
    if constexpr (packing.columns == 0) {
        return false;
    } else {
        using Tile = intq::simd::DepthwiseTile<Backend, X, W, std::int32_t>;
        CHECK((Tile::columns == packing.columns && Tile::depth == packing.depth && Tile::run == packing.run));
        CHECK(packing.columns == Tile::vectors * Tile::L::width());
        CHECK((packing.step == Tile::L::width() || packing.step == packing.columns));
        depthwise_rows_conform<Tile, 1>(Backend::name, packing);
        if constexpr (packing.depth > 1) depthwise_rows_conform<Tile, 2>(Backend::name, packing);
        if constexpr (packing.depth > 2) {
            depthwise_rows_conform<Tile, 3>(Backend::name, packing);
            depthwise_rows_conform<Tile, 4>(Backend::name, packing);
        }
        static_assert(packing.depth == 1 || packing.depth == 2 || packing.depth == 4);
        return true;
    }
}

}  // namespace

TEST_CASE("every depthwise tile of every backend sums a group of rows channel by channel") {
    int tiles = 0;
    intq::test::for_each_backend(intq::test::all_backends{}, [&](auto backend) {
        using Backend = decltype(backend);
        tiles += depthwise_tile_conforms<Backend, std::int8_t, std::int8_t>();
        tiles += depthwise_tile_conforms<Backend, std::int16_t, std::int8_t>();
        tiles += depthwise_tile_conforms<Backend, std::int16_t, std::int16_t>();
    });
    std::cout << tiles << " depthwise tiles" << std::endl;
    CHECK(tiles >= 3);  // those of odd_width<5>, on every machine
}

TEST_CASE("every register tile of every backend sums the products of its panel") {
    intq::test::for_each_backend(intq::test::all_backends{}, [](auto backend) {
        using Backend = decltype(backend);
        SECTION(Backend::name) {
            std::cout << "tiles of " << Backend::name << std::endl;
            tile_conforms<Backend, std::int8_t, std::int8_t, std::int32_t>("int8 × int8 -> int32");
            tile_conforms<Backend, std::int16_t, std::int8_t, std::int32_t>("int16 × int8 -> int32");
            tile_conforms<Backend, std::int16_t, std::int16_t, std::int32_t>("int16 × int16 -> int32");
            tile_conforms<Backend, std::int8_t, std::int8_t, std::int64_t>("int8 × int8 -> int64");
            tile_conforms<Backend, std::int8_t, std::int16_t, std::int64_t>("int8 × int16 -> int64");
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
        CHECK(wrong_results<intq::simd::lanes<Backend>, 1, Tile::vectors>(problem) == 0);
    });
}
