// SPDX-License-Identifier: MIT
//
// The portable register tile: one multiply and one add a lane, for every backend and type. Layer: simd.
#ifndef INTQ_SIMD_GENERIC_TILE_HPP
#define INTQ_SIMD_GENERIC_TILE_HPP

#include <cstdint>
#include <type_traits>

#include "intq/simd/primitives.hpp"

namespace intq::inline INTQ_ABI::simd {

namespace detail {

/// The packing that a backend's tag gives for an operand and accumulator type.
template <class Backend, class X, class Acc> constexpr Packing packing_of() noexcept {
    if constexpr (std::is_same_v<X, float>) {
        return Backend::float_packing;
    } else if constexpr (std::is_same_v<Acc, std::int64_t>) {
        return Backend::wide_packing;
    } else if constexpr (sizeof(X) == 2) {
        return Backend::int16_packing;
    } else {
        return Backend::int8_packing;
    }
}

/// Lanes of the accumulator and the one step on them.
template <class L, class Acc> struct Accumulate;

template <class L> struct Accumulate<L, std::int32_t> {
    using type = typename L::i32;
    static INTQ_ALWAYS_INLINE type load(const std::int32_t* from) { return L::load(from); }
    template <class X, class W> static INTQ_ALWAYS_INLINE type step(type acc, X x, const W* w) {
        return L::add(acc, L::mul(L::set(static_cast<std::int32_t>(x)), L::load(w)));
    }
};

template <class L> struct Accumulate<L, std::int64_t> {
    using type = typename L::i64;
    static INTQ_ALWAYS_INLINE type load(const std::int64_t* from) { return L::load_i64(from); }
    template <class X, class W> static INTQ_ALWAYS_INLINE type step(type acc, X x, const W* w) {
        return L::add(acc, L::mul_wide(L::set(static_cast<std::int32_t>(x)), L::load(w)));
    }
};

template <class L> struct Accumulate<L, float> {
    using type = typename L::f32;
    static INTQ_ALWAYS_INLINE type load(const float* from) { return L::load(from); }
    static INTQ_ALWAYS_INLINE type step(type acc, float x, const float* w) {
        if constexpr (requires { L::mul_add(acc, acc, acc); }) {
            return L::mul_add(L::set(x), L::load(w), acc);
        } else {
            return L::add(acc, L::mul(L::set(x), L::load(w)));
        }
    }
};

/// Rows whose sums leave registers for the weights, a broadcast and a product: 1 to 6.
template <class L, class Acc> constexpr int rows_that_fit(int vectors) noexcept {
    if constexpr (requires { L::registers; }) {
        const int row = vectors * (sizeof(Acc) == 8 ? 2 : 1);  // also what the weights of a step fill
        const int rows = (L::registers - row - (sizeof(Acc) == 8 ? 4 : 2)) / row;
        return rows < 1 ? 1 : rows > 6 ? 6 : rows;
    } else {
        return 2;
    }
}

}  // namespace detail

/// Float sums are fused (lanes::mul_add) where the lanes offer that: their bits are not promised.
/// @pre the tag's packing has depth 1 and columns that are a multiple of the lanes' width, or any columns:
///      the last vector of a panel is then loaded in part
template <class Backend, class X, class W, class Acc> struct Tile {
    using activation = X;
    using weight = W;
    using L = lanes<Backend>;
    using Step = detail::Accumulate<L, Acc>;
    static constexpr Packing packing = detail::packing_of<Backend, X, Acc>();
    static constexpr index_t columns = packing.columns;
    static constexpr index_t depth = packing.depth;
    static constexpr int vectors = static_cast<int>(columns / L::width());
    static constexpr int narrowest = vectors;
    using shared = Tile;
    static constexpr int max_rows(int panel_vectors) noexcept { return detail::rows_that_fit<L, Acc>(panel_vectors); }
    static_assert(packing.depth == 1 && packing.staging == Staging::as_is,
                  "this backend's packing needs a tile of its own: specialise simd::Tile in its file");
    static_assert(columns % L::width() == 0 && packing.step == columns, "all panels are one number of vectors");

    template <int Rows, int Vectors> struct Registers {
        INTQ_ALWAYS_INLINE void start(const Acc* bias) {
            unroll<Vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                const auto first = Step::load(bias + v * L::width());
                unroll<Rows>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA { acc[r][v] = first; });
            });
        }
        INTQ_ALWAYS_INLINE void step(const X* const* x, index_t k, const W* w) {
            unroll<Rows>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA {
                unroll<Vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                    acc[r][v] = Step::step(acc[r][v], x[r][k], w + v * L::width());
                });
            });
        }
        /// Never called: a group of depth 1 has no part.
        INTQ_ALWAYS_INLINE void step_part(const X* const*, index_t, index_t, const W*) {}
        template <int Row, int Vector> INTQ_ALWAYS_INLINE auto drain() const { return acc[Row][Vector]; }

        typename Step::type acc[Rows][Vectors];
    };
};

}  // namespace intq::inline INTQ_ABI::simd

#endif  // INTQ_SIMD_GENERIC_TILE_HPP
