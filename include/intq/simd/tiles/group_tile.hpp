// SPDX-License-Identifier: MIT
//
// The register tile of ISAs that multiply and add a group of four bytes a lane. Layer: simd.
#ifndef INTQ_SIMD_TILES_GROUP_TILE_HPP
#define INTQ_SIMD_TILES_GROUP_TILE_HPP

#include <cstdint>

#include "intq/simd/base/partial.hpp"
#include "intq/simd/base/primitives.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// A Tile over one instruction.
///
///     lane of Dot::dot(acc, x, w) = acc + sum_{i < depth} x[i] · w[i],   depth = 4 / sizeof(activation)
///
/// @tparam Dot  has activation, weight, lanes, Vector, vectors, max_rows(vectors), load(address), broadcast(int32)
///              to every lane, and dot; lanes::i32 is an aggregate of one Vector
template <class Dot> struct GroupTile {
    using activation = typename Dot::activation;
    using weight = typename Dot::weight;
    using L = typename Dot::lanes;
    static constexpr int vectors = Dot::vectors;
    static constexpr int narrowest = 1;
    static constexpr int planes = 1;
    static constexpr index_t depth = 4 / static_cast<index_t>(sizeof(activation));
    static constexpr index_t columns = vectors * L::width();
    using shared = GroupTile;
    static constexpr bool asks_for_next_panel = true;
    static constexpr int max_rows(int panel_vectors) noexcept { return Dot::max_rows(panel_vectors); }

    template <int Rows, int Vectors> struct Registers {
        using Vector = typename Dot::Vector;

        INTQ_ALWAYS_INLINE void start(const std::int32_t* bias) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) {
                const Vector first = Dot::load(bias + v * L::width());
                INTQ_UNROLL
                for (int r = 0; r < Rows; ++r) acc[r][v] = first;
            }
        }
        INTQ_ALWAYS_INLINE void step(const activation* const* x, index_t k, const weight* w) noexcept {
            add_products(w, [&](int r) INTQ_ALWAYS_INLINE_LAMBDA { return detail::read<std::int32_t>(x[r] + k); });
        }
        INTQ_ALWAYS_INLINE void step_part(const activation* const* x, index_t k, index_t count,
                                          const weight* w) noexcept {
            add_products(w, [&](int r) INTQ_ALWAYS_INLINE_LAMBDA { return part_of_group(x[r] + k, count); });
        }
        INTQ_ALWAYS_INLINE typename L::i32 drain(int row, int vector) const noexcept { return {acc[row][vector]}; }

        template <class Group> INTQ_ALWAYS_INLINE void add_products(const weight* w, Group&& group) noexcept {
            Vector panel[array_size(Vectors)];
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) panel[v] = Dot::load(w + v * L::width() * depth);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) {
                const Vector x = Dot::broadcast(group(r));
                INTQ_UNROLL
                for (int v = 0; v < Vectors; ++v) acc[r][v] = Dot::dot(acc[r][v], x, panel[v]);
            }
        }

        Vector acc[array_size(Rows)][array_size(Vectors)];
    };

    /// The first `count` elements, 0 < count < depth, and zeros; the same three loads for every count.
    static INTQ_ALWAYS_INLINE std::int32_t part_of_group(const activation* x, index_t count) noexcept {
        if constexpr (depth == 2) {
            return static_cast<std::uint16_t>(*x);
        } else {
            const index_t middle = count / 2, last = count - 1;
            return static_cast<std::int32_t>(byte_at(x, 0) | byte_at(x, middle) | byte_at(x, last));
        }
    }
    static INTQ_ALWAYS_INLINE std::uint32_t byte_at(const activation* x, index_t i) noexcept {
        return std::uint32_t{static_cast<std::uint8_t>(x[i])} << static_cast<int>(8 * i);
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_TILES_GROUP_TILE_HPP
