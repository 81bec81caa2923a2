// SPDX-License-Identifier: MIT
//
// The register tile of 64-bit sums of int16 products, on ISAs that multiply and add pairs into 32 bits. Layer: simd.
//
// A product of two int16 fills 31 bits, so that even a pair overflows 32. A product with a byte fills 23: weights of
// int16 are packed as two planes of bytes, w = 256·high + low, and each plane is summed in 32 bits for as many steps
// as cannot overflow. Then both move into 64 bits, in memory.
#ifndef INTQ_SIMD_TILES_WIDE_GROUP_TILE_HPP
#define INTQ_SIMD_TILES_WIDE_GROUP_TILE_HPP

#include <cstdint>

#include "intq/core/workspace.hpp"
#include "intq/simd/base/partial.hpp"
#include "intq/simd/base/primitives.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// A Tile over one instruction.
///
///     lane of Dot::dot(acc, x, w) = acc + x[0]·w[0] + x[1]·w[1]     (int16 pairs)
///
/// @tparam Dot     as for GroupTile
/// @tparam Planes  2 where weights are split into bytes, 1 where they are bytes
template <class Dot, int Planes> struct WideGroupTile {
    using activation = std::int16_t;
    using weight = std::int16_t;
    using L = typename Dot::lanes;
    using shared = WideGroupTile;
    static constexpr int vectors = 2;
    static constexpr int narrowest = 1;
    static constexpr int planes = Planes;
    static constexpr index_t depth = 2;
    static constexpr index_t columns = vectors * L::width();
    /// One step adds at most 2 · 2^15 · 2^7 to a lane: 255 of them stay below 2^31.
    static constexpr int steps_that_fit = 255;
    static constexpr int max_rows(int panel_vectors) noexcept { return Dot::max_rows(panel_vectors * Planes); }

    template <int Rows, int Vectors> struct Registers {
        using Vector = typename Dot::Vector;

        INTQ_ALWAYS_INLINE void start(const std::int64_t* bias) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) {
                const auto first = L::load_i64(bias + v * L::width());
                INTQ_UNROLL
                for (int r = 0; r < Rows; ++r) L::store_i64(wide_at(r, v), first);
            }
            clear();
        }
        INTQ_ALWAYS_INLINE void step(const std::int16_t* const* x, index_t k, const std::int16_t* w) noexcept {
            add_products(w, [&](int r) INTQ_ALWAYS_INLINE_LAMBDA { return detail::read<std::int32_t>(x[r] + k); });
        }
        INTQ_ALWAYS_INLINE void step_part(const std::int16_t* const* x, index_t k, index_t,
                                          const std::int16_t* w) noexcept {
            add_products(w, [&](int r) INTQ_ALWAYS_INLINE_LAMBDA {
                return static_cast<std::int32_t>(static_cast<std::uint16_t>(x[r][k]));
            });
        }
        INTQ_ALWAYS_INLINE typename L::i64 drain(int row, int vector) const noexcept {
            return L::add(L::load_i64(wide_at(row, vector)), narrow_sum(row, vector));
        }

    private:
        template <class Pair> INTQ_ALWAYS_INLINE void add_products(const std::int16_t* w, Pair&& pair) noexcept {
            if (++steps > steps_that_fit) flush();
            Vector panel[array_size(Planes)][array_size(Vectors)];
            INTQ_UNROLL
            for (int p = 0; p < Planes; ++p) {
                INTQ_UNROLL
                for (int v = 0; v < Vectors; ++v) panel[p][v] = Dot::load(w + (p * Vectors + v) * L::width() * depth);
            }
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) {
                const Vector x = Dot::broadcast(pair(r));
                INTQ_UNROLL
                for (int p = 0; p < Planes; ++p) {
                    INTQ_UNROLL
                    for (int v = 0; v < Vectors; ++v) acc[p][r][v] = Dot::dot(acc[p][r][v], x, panel[p][v]);
                }
            }
        }
        /// Moves the sums of 32 bits into memory.
        INTQ_ALWAYS_INLINE void flush() noexcept {
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) {
                INTQ_UNROLL
                for (int v = 0; v < Vectors; ++v) L::store_i64(wide_at(r, v), drain(r, v));
            }
            clear();
            steps = 1;
        }
        INTQ_ALWAYS_INLINE void clear() noexcept {
            INTQ_UNROLL
            for (int p = 0; p < Planes; ++p) {
                INTQ_UNROLL
                for (int r = 0; r < Rows; ++r) {
                    INTQ_UNROLL
                    for (int v = 0; v < Vectors; ++v) acc[p][r][v] = Dot::broadcast(0);
                }
            }
        }
        INTQ_ALWAYS_INLINE typename L::i64 narrow_sum(int row, int vector) const noexcept {
            const auto low = L::widen(typename L::i32{acc[0][row][vector]});
            if constexpr (Planes == 1) {
                return low;
            } else {
                const auto high = L::widen(typename L::i32{acc[1][row][vector]});
                return L::add(low, L::shift_left(high, L::set_i64(8)));
            }
        }
        INTQ_ALWAYS_INLINE std::int64_t* wide_at(int row, int vector) noexcept {
            return wide + (row * Vectors + vector) * L::width();
        }
        INTQ_ALWAYS_INLINE const std::int64_t* wide_at(int row, int vector) const noexcept {
            return wide + (row * Vectors + vector) * L::width();
        }

        Vector acc[array_size(Planes)][array_size(Rows)][array_size(Vectors)];
        int steps = 0;
        alignas(buffer_alignment) std::int64_t wide[Rows * Vectors * L::width()];
    };
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_TILES_WIDE_GROUP_TILE_HPP
