// SPDX-License-Identifier: MIT
//
// The tiles of the NEON backend: products of int16 by one lane, four at a time. Layer: simd (docs/design.md section 5).
#ifndef INTQ_SIMD_ARM_NEON_TILE_HPP
#define INTQ_SIMD_ARM_NEON_TILE_HPP

#if defined(__ARM_NEON) && defined(__AARCH64EL__)

#    include <concepts>
#    include <type_traits>

#    include "intq/simd/arm/lane_loop.hpp"
#    include "intq/simd/arm/neon.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

// The largest tile: 208 instructions for 8 channels of 6 rows by 16 columns, 0.271 a product, of which 192 multiply.
#    define INTQ_DETAIL_SMLAL_(acc, w, x, i) "smlal %" #    acc ".4s, v" #    w ".4h, v" #    x ".h[" #    i "]\n"
#    define INTQ_DETAIL_SMLAL2_(acc, w, x, i) "smlal2 %" #    acc ".4s, v" #    w ".8h, v" #    x ".h[" #    i "]\n"
#    define INTQ_DETAIL_PRODUCTS_OF_(i)                       \
        INTQ_DETAIL_LANE_COLUMN_0_(INTQ_DETAIL_SMLAL_, 6, i)  \
        INTQ_DETAIL_LANE_COLUMN_1_(INTQ_DETAIL_SMLAL2_, 6, i) \
        INTQ_DETAIL_LANE_COLUMN_2_(INTQ_DETAIL_SMLAL_, 7, i)  \
        INTQ_DETAIL_LANE_COLUMN_3_(INTQ_DETAIL_SMLAL2_, 7, i)
#    define INTQ_DETAIL_WORDS_(i) "ldp q6, q7, [x8], #32\n" INTQ_DETAIL_PRODUCTS_OF_(i)
#    define INTQ_DETAIL_BYTES_(i) \
        "ldr q7, [x8], #16\n sshll v6.8h, v7.8b, #0\n sshll2 v7.8h, v7.16b, #0\n" INTQ_DETAIL_PRODUCTS_OF_(i)
#    define INTQ_DETAIL_EIGHT_(of) of(0) of(1) of(2) of(3) of(4) of(5) of(6) of(7)
#    define INTQ_DETAIL_SMLAL_LOOP_(begin, x, apart, of)                                  \
        INTQ_DETAIL_LANE_LOOP_(walk, begin, x, apart, acc, INTQ_DETAIL_EIGHT_(of), of(0), \
                               INTQ_DETAIL_LANE_LOADS_("h", "2"))

/// One product a lane and step, of int16.
///
/// @tparam Weight  int16, or int8, which a step widens
template <class Weight> struct NeonWordDot {
    using activation = std::int16_t;
    using weight = Weight;
    using lanes = neon_lanes;
    static constexpr int vectors = 4, groups = 8, loop_rows = 6;
    static constexpr index_t depth = 1;
    /// Sums and the rows' activations leave registers for a panel.
    static constexpr int max_rows(int panel_vectors) noexcept { return panel_vectors > 2 ? 6 : 8; }

    static INTQ_ALWAYS_INLINE int16x8_t load(const std::int16_t* x) noexcept { return vld1q_s16(x); }
    static INTQ_ALWAYS_INLINE int16x8_t load_group(const std::int16_t* x) noexcept { return vld1q_dup_s16(x); }
    /// Never called: a group of depth 1 has no part.
    static INTQ_ALWAYS_INLINE int16x8_t part_of_group(const std::int16_t* x, index_t) noexcept {
        return vld1q_dup_s16(x);
    }

    template <int Vectors> struct Panel {
        INTQ_ALWAYS_INLINE void load(const Weight* from) noexcept {
            INTQ_UNROLL
            for (int v = 0; v + 2 <= Vectors; v += 2) pair[v / 2] = eight(from + 4 * v);
            if constexpr (Vectors % 2 == 1) last = four(from + 4 * (Vectors - 1));
        }
        template <int Lane>
        INTQ_ALWAYS_INLINE void add(int32x4_t (&acc)[array_size(Vectors)], int16x8_t x) const noexcept {
            INTQ_UNROLL
            for (int v = 0; v + 2 <= Vectors; v += 2) {
                acc[v] = vmlal_laneq_s16(acc[v], vget_low_s16(pair[v / 2]), x, Lane);
                acc[v + 1] = vmlal_high_laneq_s16(acc[v + 1], pair[v / 2], x, Lane);
            }
            if constexpr (Vectors % 2 == 1) acc[Vectors - 1] = vmlal_laneq_s16(acc[Vectors - 1], last, x, Lane);
        }

    private:
        static INTQ_ALWAYS_INLINE int16x8_t eight(const std::int16_t* from) noexcept { return vld1q_s16(from); }
        static INTQ_ALWAYS_INLINE int16x8_t eight(const std::int8_t* from) noexcept { return vmovl_s8(vld1_s8(from)); }
        static INTQ_ALWAYS_INLINE int16x4_t four(const std::int16_t* from) noexcept { return vld1_s16(from); }
        static INTQ_ALWAYS_INLINE int16x4_t four(const std::int8_t* from) noexcept {
            return vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(read<std::uint32_t>(from)))));
        }

        int16x8_t pair[array_size(Vectors > 1 ? Vectors / 2 : 1)];
        int16x4_t last;
    };

    static INTQ_ALWAYS_INLINE void sum_taps(const TapWalk& walk, const ListedRows<6>& rows,
                                            int32x4_t (&acc)[6][4]) noexcept {
        if constexpr (std::is_same_v<Weight, std::int16_t>)
            INTQ_DETAIL_SMLAL_LOOP_(INTQ_DETAIL_LANE_LISTED_ROWS_, rows.at, 0, INTQ_DETAIL_WORDS_);
        else
            INTQ_DETAIL_SMLAL_LOOP_(INTQ_DETAIL_LANE_LISTED_ROWS_, rows.at, 0, INTQ_DETAIL_BYTES_);
    }
    static INTQ_ALWAYS_INLINE void sum_taps(const TapWalk& walk, const SpacedRows& rows,
                                            int32x4_t (&acc)[6][4]) noexcept {
        if constexpr (std::is_same_v<Weight, std::int16_t>)
            INTQ_DETAIL_SMLAL_LOOP_(INTQ_DETAIL_LANE_SPACED_ROWS_, rows.first, rows.apart, INTQ_DETAIL_WORDS_);
        else
            INTQ_DETAIL_SMLAL_LOOP_(INTQ_DETAIL_LANE_SPACED_ROWS_, rows.first, rows.apart, INTQ_DETAIL_BYTES_);
    }
};

#    undef INTQ_DETAIL_SMLAL_LOOP_
#    undef INTQ_DETAIL_EIGHT_
#    undef INTQ_DETAIL_BYTES_
#    undef INTQ_DETAIL_WORDS_
#    undef INTQ_DETAIL_PRODUCTS_OF_
#    undef INTQ_DETAIL_SMLAL2_
#    undef INTQ_DETAIL_SMLAL_

}  // namespace detail

template <> struct Tile<neon, std::int8_t, std::int8_t, std::int32_t> : LaneTile<detail::NeonWordDot<std::int16_t>> {};
template <std::derived_from<neon> Backend, class Weight>
struct Tile<Backend, std::int16_t, Weight, std::int32_t> : LaneTile<detail::NeonWordDot<Weight>> {};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __ARM_NEON && __AARCH64EL__

#endif  // INTQ_SIMD_ARM_NEON_TILE_HPP
