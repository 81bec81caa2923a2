// SPDX-License-Identifier: MIT
//
// The dotprod backend of AArch64: the lanes of neon, tiles of SDOT. Layer: simd (docs/design.md sections 5, 11).
#ifndef INTQ_SIMD_ARM_DOTPROD_HPP
#define INTQ_SIMD_ARM_DOTPROD_HPP

#if defined(__ARM_FEATURE_DOTPROD) && defined(__ARM_NEON) && defined(__AARCH64EL__)

#    include "intq/simd/arm/lane_loop.hpp"
#    include "intq/simd/arm/neon.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

template <> struct LanesOf<dotprod> { using type = neon_lanes; };

namespace detail {

// The largest tile: 112 instructions for 16 channels of 6 rows by 16 columns, 0.073 a product, of which 96 multiply.
#    define INTQ_DETAIL_SDOT_(acc, w, x, i) "sdot %" #    acc ".4s, v" #    w ".16b, v" #    x ".4b[" #    i "]\n"
#    define INTQ_DETAIL_BYTES_(i)                                                                                  \
        "ldp q6, q7, [x8], #32\n" INTQ_DETAIL_LANE_COLUMN_0_(INTQ_DETAIL_SDOT_, 6, i) INTQ_DETAIL_LANE_COLUMN_1_(  \
            INTQ_DETAIL_SDOT_, 7, i) "ldp q6, q7, [x8], #32\n" INTQ_DETAIL_LANE_COLUMN_2_(INTQ_DETAIL_SDOT_, 6, i) \
            INTQ_DETAIL_LANE_COLUMN_3_(INTQ_DETAIL_SDOT_, 7, i)
#    define INTQ_DETAIL_SDOT_LOOP_(begin, x, apart)                                              \
        INTQ_DETAIL_LANE_LOOP_(walk, begin, x, apart, acc,                                       \
                               INTQ_DETAIL_BYTES_(0) INTQ_DETAIL_BYTES_(1) INTQ_DETAIL_BYTES_(2) \
                                   INTQ_DETAIL_BYTES_(3),                                        \
                               INTQ_DETAIL_BYTES_(0), INTQ_DETAIL_LANE_LOADS_("s", "4"))

/// Four products a lane and step, int8 · int8; the sum wraps.
struct NeonByteDot {
    using activation = std::int8_t;
    using weight = std::int8_t;
    using lanes = neon_lanes;
    static constexpr int vectors = 4, groups = 4, loop_rows = 6;
    static constexpr index_t depth = 4;
    /// Sums and the rows' activations leave registers for a panel.
    static constexpr int max_rows(int panel_vectors) noexcept { return panel_vectors > 2 ? 6 : 8; }

    static INTQ_ALWAYS_INLINE int8x16_t load(const std::int8_t* x) noexcept { return vld1q_s8(x); }
    static INTQ_ALWAYS_INLINE int8x16_t load_group(const std::int8_t* x) noexcept {
        return vreinterpretq_s8_s32(vdupq_n_s32(read<std::int32_t>(x)));
    }
    static INTQ_ALWAYS_INLINE int8x16_t part_of_group(const std::int8_t* x, index_t count) noexcept {
        return vreinterpretq_s8_s32(vdupq_n_s32(static_cast<std::int32_t>(read_bytes(x, count))));
    }

    template <int Vectors> struct Panel {
        INTQ_ALWAYS_INLINE void load(const std::int8_t* from) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) group[v] = vld1q_s8(from + 16 * v);
        }
        template <int Lane>
        INTQ_ALWAYS_INLINE void add(int32x4_t (&acc)[array_size(Vectors)], int8x16_t x) const noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) acc[v] = vdotq_laneq_s32(acc[v], group[v], x, Lane);
        }

    private:
        int8x16_t group[array_size(Vectors)];
    };

    static INTQ_ALWAYS_INLINE void sum_taps(const TapWalk& walk, const ListedRows<6>& rows,
                                            int32x4_t (&acc)[6][4]) noexcept {
        INTQ_DETAIL_SDOT_LOOP_(INTQ_DETAIL_LANE_LISTED_ROWS_, rows.at, 0);
    }
    static INTQ_ALWAYS_INLINE void sum_taps(const TapWalk& walk, const SpacedRows& rows,
                                            int32x4_t (&acc)[6][4]) noexcept {
        INTQ_DETAIL_SDOT_LOOP_(INTQ_DETAIL_LANE_SPACED_ROWS_, rows.first, rows.apart);
    }
};

#    undef INTQ_DETAIL_SDOT_LOOP_
#    undef INTQ_DETAIL_BYTES_
#    undef INTQ_DETAIL_SDOT_

}  // namespace detail

template <> struct Tile<dotprod, std::int8_t, std::int8_t, std::int32_t> : LaneTile<detail::NeonByteDot> {};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __ARM_FEATURE_DOTPROD && __ARM_NEON && __AARCH64EL__

#endif  // INTQ_SIMD_ARM_DOTPROD_HPP
