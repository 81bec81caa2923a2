// SPDX-License-Identifier: MIT
//
// The i8mm backend of AArch64: the lanes of neon, tiles of SMMLA. Layer: simd (docs/design.md sections 5, 11).
#ifndef INTQ_SIMD_ARM_I8MM_HPP
#define INTQ_SIMD_ARM_I8MM_HPP

#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_DOTPROD) && defined(__ARM_NEON) && \
    defined(__AARCH64EL__)

#    include "intq/simd/arm/dotprod.hpp"
#    include "intq/simd/tiles/matrix_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

template <> struct LanesOf<i8mm> { using type = neon_lanes; };

namespace detail {

// The largest tile: 60 instructions for 16 products of 8 rows by 12 columns, 0.039 a product, of which 48 multiply. In
// assembly for the reason of lane_loop.hpp. The sums of rows 2p, 2p + 1 and columns 2c, 2c + 1 are operand 6·p + c, the
// rows v0 to v3, columns v4 to v7.
#    define INTQ_DETAIL_SMMLA_(acc, x, w) "smmla %" #    acc ".4s, v" #    x ".16b, v" #    w ".16b\n"
#    define INTQ_DETAIL_COLUMNS_(a, b, c, d, w) \
        INTQ_DETAIL_SMMLA_(a, 0, w) INTQ_DETAIL_SMMLA_(b, 1, w) INTQ_DETAIL_SMMLA_(c, 2, w) INTQ_DETAIL_SMMLA_(d, 3, w)
#    define INTQ_DETAIL_GROUP_                                                                                     \
        "ldp q0, q1, [x9], #32\n ldp q4, q5, [x10], #32\n ldp q2, q3, [x9], #32\n" INTQ_DETAIL_COLUMNS_(           \
            0, 6, 12, 18, 4) "ldp q6, q7, [x10], #32\n" INTQ_DETAIL_COLUMNS_(1, 7, 13, 19, 5)                      \
            INTQ_DETAIL_COLUMNS_(2, 8, 14, 20, 6) "ldp q4, q5, [x10], #32\n" INTQ_DETAIL_COLUMNS_(3, 9, 15, 21, 7) \
                INTQ_DETAIL_COLUMNS_(4, 10, 16, 22, 4) INTQ_DETAIL_COLUMNS_(5, 11, 17, 23, 5)
#    define INTQ_DETAIL_START_(a, b, c, d, e, f) \
        "ldp %q" #a ", %q" #b ", [x6]\n ldp %q" #c ", %q" #d ", [x6, #32]\n ldp %q" #e ", %q" #f ", [x6, #64]\n"

/// A register of two rows by two columns of sums, from eight products each.
struct I8mmTile {
    template <int Pairs, int Vectors> static INTQ_ALWAYS_INLINE void add(const MatrixSums& tile) noexcept {
        if constexpr (Pairs == 4 && Vectors == 3) {
            neon_lanes::i32 sums[24];
            add_in_pairs(tile, sums);
            store_rows<Pairs, Vectors>(sums, tile.sums);
        } else {
            add_part<Pairs, Vectors>(tile);
        }
    }
    static INTQ_ALWAYS_INLINE void interleave(const std::int8_t* const* rows, index_t bytes, std::int8_t* to) noexcept {
        const std::int8_t* from[8];  // where no store reaches them
        unroll<8>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA { from[r] = rows[r]; });
        index_t i = 0;
        for (; i + 16 <= bytes; i += 16, to += 128) {
            int8x16_t low[4], high[4];  // of pairs of rows
            unroll<4>([&](auto p) INTQ_ALWAYS_INLINE_LAMBDA {
                const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(from[2 * p] + i));
                const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(from[2 * p + 1] + i));
                low[p] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
                high[p] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
            });
            unroll<4>([&](auto p) INTQ_ALWAYS_INLINE_LAMBDA { vst1q_s8(to + 16 * p, low[p]); });
            unroll<4>([&](auto p) INTQ_ALWAYS_INLINE_LAMBDA { vst1q_s8(to + 64 + 16 * p, high[p]); });
        }
        if (i < bytes) unroll<8>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA { vst1_s8(to + 8 * r, vld1_s8(from[r] + i)); });
    }

    template <int Vectors>
    static INTQ_ALWAYS_INLINE void spread_columns(const std::int32_t* from, std::int32_t* to) noexcept {
        INTQ_UNROLL
        for (int v = 0; v < Vectors; ++v) {
            const int64x2_t pairs = vreinterpretq_s64_s32(vld1q_s32(from + 4 * v));
            vst1q_s32(to + 8 * v, vreinterpretq_s32_s64(vzip1q_s64(pairs, pairs)));
            vst1q_s32(to + 8 * v + 4, vreinterpretq_s32_s64(vzip2q_s64(pairs, pairs)));
        }
    }
    static INTQ_ALWAYS_INLINE void add_in_pairs(const MatrixSums& tile, neon_lanes::i32 (&sums)[24]) noexcept {
        asm("ldp x9, x10, [%24]\n"
            "ldp x7, x6, [%24, #16]\n"                                                             //
            INTQ_DETAIL_START_(0, 1, 2, 3, 4, 5) INTQ_DETAIL_START_(6, 7, 8, 9, 10, 11)            //
            INTQ_DETAIL_START_(12, 13, 14, 15, 16, 17) INTQ_DETAIL_START_(18, 19, 20, 21, 22, 23)  //
            "tbz x7, #0, 1f\n"                                                                     //
            INTQ_DETAIL_GROUP_                                                                     //
            "1:\n"
            "lsr x7, x7, #1\n"
            "cbz x7, 3f\n"
            "2:\n"                                 //
            INTQ_DETAIL_GROUP_ INTQ_DETAIL_GROUP_  //
            "subs x7, x7, #1\n"
            "b.ne 2b\n"
            "3:\n"
            : "=&w"(sums[0].v), "=&w"(sums[1].v), "=&w"(sums[2].v), "=&w"(sums[3].v), "=&w"(sums[4].v),
              "=&w"(sums[5].v), "=&w"(sums[6].v), "=&w"(sums[7].v), "=&w"(sums[8].v), "=&w"(sums[9].v),
              "=&w"(sums[10].v), "=&w"(sums[11].v), "=&w"(sums[12].v), "=&w"(sums[13].v), "=&w"(sums[14].v),
              "=&w"(sums[15].v), "=&w"(sums[16].v), "=&w"(sums[17].v), "=&w"(sums[18].v), "=&w"(sums[19].v),
              "=&w"(sums[20].v), "=&w"(sums[21].v), "=&w"(sums[22].v), "=&w"(sums[23].v)
            : "r"(&tile)
            : "memory", "cc", "x6", "x7", "x9", "x10", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7");
    }

private:
    /// From pairs of rows and columns to rows in memory.
    template <int Pairs, int Vectors>
    static INTQ_ALWAYS_INLINE void store_rows(const neon_lanes::i32* sums, std::int32_t* to) noexcept {
        constexpr int columns = 2 * Vectors, width = 4 * Vectors;  // in pairs; and not
        unroll<Pairs * Vectors>([&](auto i) INTQ_ALWAYS_INLINE_LAMBDA {
            constexpr int p = i / Vectors, v = i % Vectors;
            const int64x2_t a = vreinterpretq_s64_s32(sums[columns * p + 2 * v].v);
            const int64x2_t b = vreinterpretq_s64_s32(sums[columns * p + 2 * v + 1].v);
            vst1q_s32(to + 2 * p * width + 4 * v, vreinterpretq_s32_s64(vzip1q_s64(a, b)));
            vst1q_s32(to + (2 * p + 1) * width + 4 * v, vreinterpretq_s32_s64(vzip2q_s64(a, b)));
        });
    }

    /// Two groups at a time.
    template <int Pairs, int Vectors> static INTQ_ALWAYS_INLINE void add_part(const MatrixSums& tile) noexcept {
        constexpr int columns = 2 * Vectors;  // in pairs
        neon_lanes::i32 sums[array_size(Pairs * columns)];
        unroll<columns>([&](auto c) INTQ_ALWAYS_INLINE_LAMBDA {
            const int32x4_t bias = vld1q_s32(tile.bias + 4 * c);
            unroll<Pairs>([&](auto p) INTQ_ALWAYS_INLINE_LAMBDA { sums[columns * p + c].v = bias; });
        });
        const std::int8_t *x = tile.x, *w = tile.w;
        const auto add_group = [&]() INTQ_ALWAYS_INLINE_LAMBDA {
            int8x16_t rows[array_size(Pairs)];
            unroll<Pairs>([&](auto p) INTQ_ALWAYS_INLINE_LAMBDA { rows[p] = vld1q_s8(x + 16 * p); });
            unroll<columns>([&](auto c) INTQ_ALWAYS_INLINE_LAMBDA {
                const int8x16_t of_columns = vld1q_s8(w + 16 * c);
                unroll<Pairs>([&](auto p) INTQ_ALWAYS_INLINE_LAMBDA {
                    auto& sum = sums[columns * p + c].v;
                    sum = vmmlaq_s32(sum, rows[p], of_columns);
                });
            });
            x += 64, w += 16 * columns;
        };
        if (tile.groups % 2 != 0) add_group();
        for (std::int64_t pairs = tile.groups / 2; pairs > 0; --pairs) {
            add_group();
            add_group();
        }
        store_rows<Pairs, Vectors>(sums, tile.sums);
    }
};

#    undef INTQ_DETAIL_START_
#    undef INTQ_DETAIL_GROUP_
#    undef INTQ_DETAIL_COLUMNS_
#    undef INTQ_DETAIL_SMMLA_

}  // namespace detail

template <> struct MatrixTile<i8mm> : detail::I8mmTile {};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __ARM_FEATURE_MATMUL_INT8 && __ARM_FEATURE_DOTPROD && __ARM_NEON && __AARCH64EL__

#endif  // INTQ_SIMD_ARM_I8MM_HPP
