// SPDX-License-Identifier: MIT
//
// The register tile of ISAs that multiply by one lane of a register: a load of activations serves several groups.
// Layer: simd.
#ifndef INTQ_SIMD_TILES_LANE_TILE_HPP
#define INTQ_SIMD_TILES_LANE_TILE_HPP

#include <cstdint>

#include "intq/simd/base/primitives.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// The taps of the rows of a tile and a panel, for a loop that is written in assembly: all numbers in bytes but counts.
/// After a tap the rows and the weights stand behind it; the steps lead on from there.
///
///     sums[r] = first + sum over taps, and over whole registers and single groups of a tap, of x · w
struct TapWalk {
    const std::int32_t* first;  // one value a column
    const void* weights;
    std::int64_t taps, registers, groups;  // registers of activations, then groups, of each tap
    std::int64_t row_taps;                 // of a row of the window
    std::int64_t x_step, weight_step;      // from behind a tap to the next one of its row
    std::int64_t x_jump, weight_jump;      // from behind the last one of a row to the first one of the next
};
/// Where the first taps of its rows are: anywhere, or `apart` bytes from one to the next.
template <int Rows> struct ListedRows { const void* at[array_size(Rows)]; };
struct SpacedRows {
    const void* first;
    std::int64_t apart;
};

/// A Tile over one instruction.
///
///     lane of Panel::add<i>(acc, x) = acc + sum_{k < depth} x[depth·i + k] · w[k]
///
/// @tparam Dot  has activation, weight, lanes, depth, groups (of a register X of activations), vectors,
///              max_rows(vectors), load(address) and load_group(address) -> X, part_of_group(address, count) -> X, and
///              Panel<vectors> with load(address) and add<i>(acc, X); and the number of rows and the body of the loop
///              over all taps of a whole panel, loop_rows and sum_taps(walk, rows, acc)
template <class Dot> struct LaneTile {
    using activation = typename Dot::activation;
    using weight = typename Dot::weight;
    using L = typename Dot::lanes;
    static constexpr int vectors = Dot::vectors;
    static constexpr int narrowest = 1;
    static constexpr int planes = 1;
    static constexpr index_t depth = Dot::depth;
    static constexpr index_t columns = vectors * L::width();
    using shared = LaneTile;
    static constexpr int max_rows(int panel_vectors) noexcept { return Dot::max_rows(panel_vectors); }
    /// Groups that Registers::steps() adds.
    static constexpr int groups_together = Dot::groups;
    static constexpr int loop_rows = Dot::loop_rows;

    template <int Rows, int Vectors> struct Registers {
        using Vector = decltype(L::i32::v);
        using Panel = typename Dot::template Panel<Vectors>;
        static constexpr bool has_loop = Rows == Dot::loop_rows && Vectors == vectors;

        INTQ_ALWAYS_INLINE void start(const std::int32_t* bias) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) {
                const Vector first = L::load(bias + v * L::width()).v;
                INTQ_UNROLL
                for (int r = 0; r < Rows; ++r) acc[r][v] = first;
            }
        }
        INTQ_ALWAYS_INLINE void step(const activation* const* x, index_t k, const weight* w) noexcept {
            add_group(w, [&](int r) INTQ_ALWAYS_INLINE_LAMBDA { return Dot::load_group(x[r] + k); });
        }
        INTQ_ALWAYS_INLINE void step_part(const activation* const* x, index_t k, index_t count,
                                          const weight* w) noexcept {
            add_group(w, [&](int r) INTQ_ALWAYS_INLINE_LAMBDA { return Dot::part_of_group(x[r] + k, count); });
        }
        /// groups_together steps.
        INTQ_ALWAYS_INLINE void steps(const activation* const* x, index_t k, const weight* w) noexcept {
            decltype(Dot::load(x[0])) group[array_size(Rows)];
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) group[r] = Dot::load(x[r] + k);
            unroll<groups_together>([&](auto i) INTQ_ALWAYS_INLINE_LAMBDA {
                Panel panel;
                panel.load(w + i * Vectors * L::width() * depth);
                INTQ_UNROLL
                for (int r = 0; r < Rows; ++r) panel.template add<i>(acc[r], group[r]);
            });
        }
        /// All taps, in place of start() and steps.
        INTQ_ALWAYS_INLINE void sum_taps(const TapWalk& walk, const ListedRows<Rows>& rows) noexcept {
            Dot::sum_taps(walk, rows, acc);
        }
        INTQ_ALWAYS_INLINE void sum_taps(const TapWalk& walk, const SpacedRows& rows) noexcept {
            Dot::sum_taps(walk, rows, acc);
        }
        INTQ_ALWAYS_INLINE typename L::i32 drain(int row, int vector) const noexcept { return {acc[row][vector]}; }

    private:
        template <class Group> INTQ_ALWAYS_INLINE void add_group(const weight* w, Group&& group) noexcept {
            Panel panel;
            panel.load(w);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) panel.template add<0>(acc[r], group(r));
        }

        Vector acc[array_size(Rows)][array_size(Vectors)];
    };
};

/// What of this any tile has: how many groups it adds together, and whether it has the loop over the taps of a shape.
template <class Tile> struct TapLoopOf {
    static constexpr int groups_together = 1;
    struct Walk {};
    template <int Rows, int Vectors> static constexpr bool exists = false;
};
template <class Tile>
requires requires { Tile::loop_rows; }
struct TapLoopOf<Tile> {
    static constexpr int groups_together = Tile::groups_together;
    using Walk = TapWalk;
    template <int Rows, int Vectors> static constexpr bool exists = Tile::template Registers<Rows, Vectors>::has_loop;
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_TILES_LANE_TILE_HPP
