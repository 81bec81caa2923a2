// SPDX-License-Identifier: MIT
//
// The tiles of RISC-V vectors: the weights of a channel, 16 columns, by the activation of each row in a scalar
// register. Layer: simd (docs/design.md section 5).
#ifndef INTQ_SIMD_RISCV_RVV_TILE_HPP
#define INTQ_SIMD_RISCV_RVV_TILE_HPP

#include "intq/simd/riscv/rvv_registers.hpp"

#ifdef INTQ_DETAIL_RVV_

#    include <concepts>
#    include <type_traits>

#    include "intq/simd/riscv/rvv.hpp"
#    include "intq/simd/riscv/rvv_loop.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

// Sixteen weights as int16 and as int32, which a tile multiplies.
INTQ_ALWAYS_INLINE auto rvv_halves(const std::int8_t* from) noexcept {
    return __riscv_vsext_vf2(rvv_lanes::raw8(from), rvv_lanes::vl);
}
INTQ_ALWAYS_INLINE auto rvv_halves(const std::int16_t* from) noexcept { return rvv_lanes::raw16(from); }

#    define INTQ_DETAIL_RVV_BYTE_BY_BYTE_(at) INTQ_DETAIL_RVV_BYTES_ INTQ_DETAIL_RVV_CHANNEL_("lb", at)
#    define INTQ_DETAIL_RVV_HALF_BY_BYTE_(at) INTQ_DETAIL_RVV_BYTES_ INTQ_DETAIL_RVV_CHANNEL_("lh", at)
#    define INTQ_DETAIL_RVV_HALF_BY_HALF_(at) INTQ_DETAIL_RVV_HALVES_ INTQ_DETAIL_RVV_CHANNEL_("lh", at)
#    define INTQ_DETAIL_RVV_SEVEN_SUMS_ \
        "=&vr"(s0), "=&vr"(s1), "=&vr"(s2), "=&vr"(s3), "=&vr"(s4), "=&vr"(s5), "=&vr"(s6)
#    if __riscv_v_fixed_vlen == 128
#        define INTQ_DETAIL_RVV_SUMS_ INTQ_DETAIL_RVV_SEVEN_SUMS_
#    else
#        define INTQ_DETAIL_RVV_SUMS_                                                                               \
            INTQ_DETAIL_RVV_SEVEN_SUMS_, "=&vr"(s7), "=&vr"(s8), "=&vr"(s9), "=&vr"(s10), "=&vr"(s11), "=&vr"(s12), \
                "=&vr"(s13)
#    endif
#    define INTQ_DETAIL_RVV_LOOP_OF_(begin, at, distance, eight, step, next_eight, next)                \
        INTQ_DETAIL_RVV_LOOP_(walk, begin, at, distance, eight(step) INTQ_DETAIL_RVV_ROWS_(next_eight), \
                              step("0") INTQ_DETAIL_RVV_ROWS_(next), INTQ_DETAIL_RVV_SUMS_)
// The body of sum_taps(walk, rows).
#    define INTQ_DETAIL_RVV_SUM_TAPS_(begin, at, distance)                                                             \
        Sum s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13;                                                \
        if constexpr (sizeof(X) == 1)                                                                                  \
            INTQ_DETAIL_RVV_LOOP_OF_(begin, at, distance, INTQ_DETAIL_RVV_EIGHT_BYTES_, INTQ_DETAIL_RVV_BYTE_BY_BYTE_, \
                                     INTQ_DETAIL_RVV_NEXT_BYTES_, INTQ_DETAIL_RVV_NEXT_BYTE_);                         \
        else if constexpr (sizeof(Weight) == 1)                                                                        \
            INTQ_DETAIL_RVV_LOOP_OF_(begin, at, distance, INTQ_DETAIL_RVV_EIGHT_HALVES_,                               \
                                     INTQ_DETAIL_RVV_HALF_BY_BYTE_, INTQ_DETAIL_RVV_NEXT_HALVES_,                      \
                                     INTQ_DETAIL_RVV_NEXT_HALF_);                                                      \
        else                                                                                                           \
            INTQ_DETAIL_RVV_LOOP_OF_(begin, at, distance, INTQ_DETAIL_RVV_EIGHT_HALVES_,                               \
                                     INTQ_DETAIL_RVV_HALF_BY_HALF_, INTQ_DETAIL_RVV_NEXT_HALVES_,                      \
                                     INTQ_DETAIL_RVV_NEXT_HALF_);                                                      \
        acc[0] = s0, acc[1] = s1, acc[2] = s2, acc[3] = s3, acc[4] = s4, acc[5] = s5, acc[6] = s6;                     \
        if constexpr (Rows > 7)                                                                                        \
        acc[7] = s7, acc[8] = s8, acc[9] = s9, acc[10] = s10, acc[11] = s11, acc[12] = s12, acc[13] = s13

/// Sums of 32 bits.
///
///     vwmacc:  acc[c] + x·w[c],  x and w of int16
///
/// @tparam X, Weight  int8 or int16, in memory
template <class X, class Weight> struct RvvTile {
    using activation = X;
    using weight = Weight;
    using L = rvv_lanes;
    using shared = RvvTile;
    static constexpr index_t columns = 16, depth = 1;
    static constexpr int vectors = 1, narrowest = 1, planes = 1;
    static constexpr int groups_together = 8, loop_rows = rvv_loop_rows;
    static constexpr int max_rows(int) noexcept { return loop_rows; }

    template <int Rows, int Vectors> struct Registers {
        static_assert(Vectors == 1);
        using Sum = INTQ_DETAIL_RVV_TYPE_(vint32, 32);
        static constexpr bool has_loop = Rows == loop_rows;

        INTQ_ALWAYS_INLINE void start(const std::int32_t* bias) noexcept {
            const L::i32 first = L::load(bias);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) acc[r] = first.v;
        }
        INTQ_ALWAYS_INLINE void step(const X* const* x, index_t k, const Weight* w) noexcept {
            const auto panel = rvv_halves(w);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) acc[r] = __riscv_vwmacc(acc[r], std::int16_t{x[r][k]}, panel, L::vl);
        }
        /// Never called: a group of depth 1 has no part.
        INTQ_ALWAYS_INLINE void step_part(const X* const*, index_t, index_t, const Weight*) noexcept {}
        /// groups_together steps.
        INTQ_ALWAYS_INLINE void steps(const X* const* x, index_t k, const Weight* w) noexcept {
            INTQ_UNROLL
            for (int i = 0; i < groups_together; ++i) step(x, k + i, w + i * columns);
        }
        /// All taps, in place of start() and steps.
        INTQ_ALWAYS_INLINE void sum_taps(const TapWalk& walk, const ListedRows<Rows>& rows) noexcept {
            INTQ_DETAIL_RVV_SUM_TAPS_(INTQ_DETAIL_RVV_LISTED_ROWS_, rows.at, 0);
        }
        INTQ_ALWAYS_INLINE void sum_taps(const TapWalk& walk, const SpacedRows& rows) noexcept {
            INTQ_DETAIL_RVV_SUM_TAPS_(INTQ_DETAIL_RVV_SPACED_ROWS_, rows.first, rows.apart);
        }
        INTQ_ALWAYS_INLINE L::i32 drain(int row, int) const noexcept { return {acc[row]}; }

        RvvWords acc[array_size(Rows)];
    };
};

#    undef INTQ_DETAIL_RVV_SUM_TAPS_
#    undef INTQ_DETAIL_RVV_LOOP_OF_
#    undef INTQ_DETAIL_RVV_SUMS_
#    undef INTQ_DETAIL_RVV_SEVEN_SUMS_
#    undef INTQ_DETAIL_RVV_HALF_BY_HALF_
#    undef INTQ_DETAIL_RVV_HALF_BY_BYTE_
#    undef INTQ_DETAIL_RVV_BYTE_BY_BYTE_

/// Sums of 64 bits.
///
///     vwmacc:  acc[c] + x·w[c],  x and w of int32
template <class X, class Weight> struct RvvWideTile {
    using activation = X;
    using weight = Weight;
    using L = rvv_lanes;
    using shared = RvvWideTile;
    static constexpr index_t columns = 16, depth = 1;
    static constexpr int vectors = 1, narrowest = 1, planes = 1;
    /// A row fills a quarter of the registers of 128 bits, an eighth of 256; one row's share is for the weights.
    static constexpr int max_rows(int) noexcept { return __riscv_v_fixed_vlen == 128 ? 3 : 6; }

    template <int Rows, int Vectors> struct Registers {
        static_assert(Vectors == 1);

        INTQ_ALWAYS_INLINE void start(const std::int64_t* bias) noexcept {
            const L::i64 first = L::load_i64(bias);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) acc[r] = first.v;
        }
        INTQ_ALWAYS_INLINE void step(const X* const* x, index_t k, const Weight* w) noexcept {
            const L::i32 panel = L::load(w);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) acc[r] = __riscv_vwmacc(acc[r], std::int32_t{x[r][k]}, panel.v, L::vl);
        }
        /// Never called: a group of depth 1 has no part.
        INTQ_ALWAYS_INLINE void step_part(const X* const*, index_t, index_t, const Weight*) noexcept {}
        INTQ_ALWAYS_INLINE L::i64 drain(int row, int) const noexcept { return {acc[row]}; }

        RvvLongs acc[array_size(Rows)];
    };
};

/// Sums of floats, rounded as add_product() of the lanes rounds.
template <class L> struct RvvFloatTile {
    using activation = float;
    using weight = float;
    using shared = RvvFloatTile;
    static constexpr index_t columns = 16, depth = 1;
    static constexpr int vectors = 1, narrowest = 1, planes = 1;
    static constexpr bool fuses = requires(typename L::f32 x) { L::mul_add(x, x, x); };
    /// Two vectors are for the weights, and for a product that is rounded by itself.
    static constexpr int max_rows(int) noexcept { return __riscv_v_fixed_vlen == 128 ? (fuses ? 6 : 5) : 14; }

    template <int Rows, int Vectors> struct Registers {
        static_assert(Vectors == 1);

        INTQ_ALWAYS_INLINE void start(const float* bias) noexcept {
            const typename L::f32 first = L::load(bias);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) acc[r] = first.v;
        }
        INTQ_ALWAYS_INLINE void step(const float* const* x, index_t k, const float* w) noexcept {
            const typename L::f32 panel = L::load(w);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) {
                if constexpr (fuses)
                    acc[r] = __riscv_vfmacc(acc[r], x[r][k], panel.v, L::vl);
                else
                    acc[r] = __riscv_vfadd(acc[r], __riscv_vfmul(panel.v, x[r][k], L::vl), L::vl);
            }
        }
        /// Never called: a group of depth 1 has no part.
        INTQ_ALWAYS_INLINE void step_part(const float* const*, index_t, index_t, const float*) noexcept {}
        INTQ_ALWAYS_INLINE typename L::f32 drain(int row, int) const noexcept { return {acc[row]}; }

        RvvFloats acc[array_size(Rows)];
    };
};

}  // namespace detail

template <>
struct Tile<INTQ_DETAIL_RVV_, std::int8_t, std::int8_t, std::int32_t> : detail::RvvTile<std::int8_t, std::int8_t> {};
template <class Weight>
struct Tile<INTQ_DETAIL_RVV_, std::int16_t, Weight, std::int32_t> : detail::RvvTile<std::int16_t, Weight> {};
template <std::integral X, std::integral Weight>
struct Tile<INTQ_DETAIL_RVV_, X, Weight, std::int64_t> : detail::RvvWideTile<X, Weight> {};
template <std::derived_from<INTQ_DETAIL_RVV_> Backend>
struct Tile<Backend, float, float, float> : detail::RvvFloatTile<lanes<Backend>> {};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_DETAIL_RVV_

#endif  // INTQ_SIMD_RISCV_RVV_TILE_HPP
