// SPDX-License-Identifier: MIT
//
// The portable register tile: one multiply and one add a lane, for every backend and type. Layer: simd.
#ifndef INTQ_SIMD_TILES_GENERIC_TILE_HPP
#define INTQ_SIMD_TILES_GENERIC_TILE_HPP

#include <cstdint>
#include <type_traits>

#include "intq/simd/base/primitives.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

namespace detail {

/// The packing of a backend's tag for an operand and accumulator type.
template <class Backend, class X, class Acc> constexpr Packing packing_of() noexcept {
    if constexpr (std::is_same_v<X, float>) {
        return Backend::float_packing;
    } else if constexpr (std::is_same_v<Acc, std::int64_t>) {
        return sizeof(X) == 1 ? widened_for_int8(Backend::wide_packing) : Backend::wide_packing;
    } else if constexpr (sizeof(X) == 2) {
        return Backend::int16_packing;
    } else {
        return Backend::int8_packing;
    }
}

/// Lanes of the accumulator and of an operand, and the one step on them.
template <class L, class Acc> struct Accumulate;

template <class L> struct Accumulate<L, std::int32_t> {
    using type = typename L::i32;
    using operand = typename L::i32;
    static INTQ_ALWAYS_INLINE type load(const std::int32_t* from) { return L::load(from); }
    template <class X> static INTQ_ALWAYS_INLINE operand set(X x) { return L::set(static_cast<std::int32_t>(x)); }
    static INTQ_ALWAYS_INLINE type step(type acc, operand x, operand w) { return L::add(acc, L::mul(x, w)); }
};

template <class L> struct Accumulate<L, std::int64_t> {
    using type = typename L::i64;
    using operand = typename L::i32;
    static INTQ_ALWAYS_INLINE type load(const std::int64_t* from) { return L::load_i64(from); }
    template <class X> static INTQ_ALWAYS_INLINE operand set(X x) { return L::set(static_cast<std::int32_t>(x)); }
    static INTQ_ALWAYS_INLINE type step(type acc, operand x, operand w) { return L::add(acc, L::mul_wide(x, w)); }
};

template <class L> struct Accumulate<L, float> {
    using type = typename L::f32;
    using operand = typename L::f32;
    static INTQ_ALWAYS_INLINE type load(const float* from) { return L::load(from); }
    static INTQ_ALWAYS_INLINE operand set(float x) { return L::set(x); }
    static INTQ_ALWAYS_INLINE type step(type acc, operand x, operand w) { return add_product<L>(acc, x, w); }
};

/// Rows whose sums leave registers for the weights, a broadcast and a product: 1 to 6, for floats to 14.
template <class L, class Acc> constexpr int rows_that_fit(int vectors) noexcept {
    if constexpr (requires { L::registers; }) {
        const int row = vectors * (sizeof(Acc) == 8 ? 2 : 1);  // also the registers that the weights of a step fill
        const int rows = (L::registers - row - (sizeof(Acc) == 8 ? 4 : 2)) / row;
        const int most = std::is_same_v<Acc, float> ? 14 : 6;
        return rows < 1 ? 1 : rows > most ? most : rows;
    } else {
        return 2;
    }
}

}  // namespace detail

/// On simd::reproducible<Backend>, sums of floats have the same bits on every machine. On other backends the bits
/// depend on the backend.
/// @pre the tag's packing has depth 1, and columns and a step that are multiples of the lanes' width
template <class Backend, class X, class Weight, class Acc> struct Tile {
    using activation = X;
    using weight = Weight;
    using L = lanes<Backend>;
    using Step = detail::Accumulate<L, Acc>;
    static constexpr Packing packing = detail::packing_of<Backend, X, Acc>();
    static constexpr index_t columns = packing.columns;
    static constexpr index_t depth = packing.depth;
    static constexpr int vectors = static_cast<int>(columns / L::width());
    static constexpr int narrowest = static_cast<int>(packing.step / L::width());
    static constexpr int planes = 1;
    using shared = Tile;
    static constexpr int max_rows(int panel_vectors) noexcept { return detail::rows_that_fit<L, Acc>(panel_vectors); }
    static_assert(packing.depth == 1 && packing.staging == Staging::as_is,
                  "this backend's packing needs a tile of its own: specialise simd::Tile in its file");
    static_assert(columns % L::width() == 0 && packing.step % L::width() == 0, "a panel is a number of vectors");

    template <int Rows, int Vectors> struct Registers {
        INTQ_ALWAYS_INLINE void start(const Acc* bias) {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) {
                const auto first = Step::load(bias + v * L::width());
                INTQ_UNROLL
                for (int r = 0; r < Rows; ++r) acc[r][v] = first;
            }
        }
        /// Vectors hold the weights of a step and read each activation as it is multiplied. Single lanes hold the
        /// activations, which are fewer: weights of a whole panel would not stay in registers.
        INTQ_ALWAYS_INLINE void step(const X* const* x, index_t k, const Weight* w) {
            if constexpr (L::width() == 1) {
                typename Step::operand activation[array_size(Rows)];
                INTQ_UNROLL
                for (int r = 0; r < Rows; ++r) activation[r] = Step::set(x[r][k]);
                INTQ_UNROLL
                for (int v = 0; v < Vectors; ++v) {
                    const typename Step::operand weight_lanes = L::load(w + v * L::width());
                    INTQ_UNROLL
                    for (int r = 0; r < Rows; ++r) acc[r][v] = Step::step(acc[r][v], activation[r], weight_lanes);
                }
            } else {
                typename Step::operand panel[array_size(Vectors)];
                INTQ_UNROLL
                for (int v = 0; v < Vectors; ++v) panel[v] = L::load(w + v * L::width());
                INTQ_UNROLL
                for (int r = 0; r < Rows; ++r) {
                    const auto activation = Step::set(x[r][k]);
                    INTQ_UNROLL
                    for (int v = 0; v < Vectors; ++v) acc[r][v] = Step::step(acc[r][v], activation, panel[v]);
                }
            }
        }
        /// Never called: a group of depth 1 has no part.
        INTQ_ALWAYS_INLINE void step_part(const X* const*, index_t, index_t, const Weight*) {}
        INTQ_ALWAYS_INLINE auto drain(int row, int vector) const { return acc[row][vector]; }

        typename Step::type acc[array_size(Rows)][array_size(Vectors)];
    };
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_TILES_GENERIC_TILE_HPP
