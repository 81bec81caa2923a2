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
// assembly for the reason of lane_loop.hpp. The sums of rows 2p, 2p + 1 and columns 2c, 2c + 1 are v(8 + 6p + c), the
// rows v0 to v3, columns v4 to v7.
#    define INTQ_DETAIL_SMMLA_(acc, x, w) "smmla v" #    acc ".4s, v" #    x ".16b, v" #    w ".16b\n"
#    define INTQ_DETAIL_COLUMNS_(a, b, c, d, w) \
        INTQ_DETAIL_SMMLA_(a, 0, w) INTQ_DETAIL_SMMLA_(b, 1, w) INTQ_DETAIL_SMMLA_(c, 2, w) INTQ_DETAIL_SMMLA_(d, 3, w)
#    define INTQ_DETAIL_GROUP_                                                                                         \
        "ldp q0, q1, [x9], #32\n ldp q4, q5, [x10], #32\n ldp q2, q3, [x9], #32\n" INTQ_DETAIL_COLUMNS_(               \
            8, 14, 20, 26, 4) "ldp q6, q7, [x10], #32\n" INTQ_DETAIL_COLUMNS_(9, 15, 21, 27, 5)                        \
            INTQ_DETAIL_COLUMNS_(10, 16, 22, 28, 6) "ldp q4, q5, [x10], #32\n" INTQ_DETAIL_COLUMNS_(11, 17, 23, 29, 7) \
                INTQ_DETAIL_COLUMNS_(12, 18, 24, 30, 4) INTQ_DETAIL_COLUMNS_(13, 19, 25, 31, 5)
#    define INTQ_DETAIL_START_(a, b, w) \
        "zip1 v" #a ".2d, v" #w ".2d, v" #w ".2d\n zip2 v" #b ".2d, v" #w ".2d, v" #w ".2d\n"
#    define INTQ_DETAIL_COPY_(to, from) "mov v" #    to ".16b, v" #    from ".16b\n"
#    define INTQ_DETAIL_COPIES_(a, b, c, d, e, f) \
        INTQ_DETAIL_COPY_(a, 8)                   \
        INTQ_DETAIL_COPY_(b, 9)                   \
        INTQ_DETAIL_COPY_(c, 10) INTQ_DETAIL_COPY_(d, 11) INTQ_DETAIL_COPY_(e, 12) INTQ_DETAIL_COPY_(f, 13)
#    define INTQ_DETAIL_PAIR_STORES_(a, b, c, d, e, f) \
        "stp q" #a ", q" #b ", [x11], #32\n stp q" #c ", q" #d ", [x11], #32\n stp q" #e ", q" #f ", [x11], #32\n"

/// A register of two rows by two columns of sums, from eight products each.
struct I8mmTile {
    template <int Pairs, int Vectors> static INTQ_ALWAYS_INLINE void add(const MatrixSums& tile) noexcept {
        if constexpr (Pairs == 4 && Vectors == 3) {
            add_in_pairs(tile);
            order_rows(tile.sums);
        } else {
            add_part<Pairs, Vectors>(tile);
        }
    }
    static INTQ_ALWAYS_INLINE void interleave(const std::int8_t* const* rows, index_t bytes, std::int8_t* to) noexcept {
        index_t i = 0;
        for (; i + 16 <= bytes; i += 16, to += 128) {
            INTQ_UNROLL
            for (int r = 0; r < 8; r += 2) {
                const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(rows[r] + i));
                const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(rows[r + 1] + i));
                vst1q_s8(to + 8 * r, vreinterpretq_s8_s64(vzip1q_s64(a, b)));
                vst1q_s8(to + 64 + 8 * r, vreinterpretq_s8_s64(vzip2q_s64(a, b)));
            }
        }
        if (i < bytes)
            for (int r = 0; r < 8; ++r) vst1_s8(to + 8 * r, vld1_s8(rows[r] + i));
    }

    static INTQ_ALWAYS_INLINE void spread_columns(const std::int32_t* from, std::int32_t* to) noexcept {
        INTQ_UNROLL
        for (int v = 0; v < 3; ++v) {
            const int64x2_t pairs = vreinterpretq_s64_s32(vld1q_s32(from + 4 * v));
            vst1q_s32(to + 8 * v, vreinterpretq_s32_s64(vzip1q_s64(pairs, pairs)));
            vst1q_s32(to + 8 * v + 4, vreinterpretq_s32_s64(vzip2q_s64(pairs, pairs)));
        }
    }
    static INTQ_ALWAYS_INLINE void add_in_pairs(const MatrixSums& tile) noexcept {
        asm volatile(
            "ldp x9, x10, [%0]\n"
            "ldp x12, x6, [%0, #16]\n"
            "ldr x11, [%0, #32]\n"
            "ldp q0, q1, [x6]\n"
            "ldr q2, [x6, #32]\n"                                                                    //
            INTQ_DETAIL_START_(8, 9, 0) INTQ_DETAIL_START_(10, 11, 1) INTQ_DETAIL_START_(12, 13, 2)  //
            INTQ_DETAIL_COPIES_(14, 15, 16, 17, 18, 19) INTQ_DETAIL_COPIES_(20, 21, 22, 23, 24, 25)  //
            INTQ_DETAIL_COPIES_(26, 27, 28, 29, 30, 31)                                              //
            "lsr x7, x12, #1\n"
            "cbz x7, 2f\n"
            "1:\n"  //
            INTQ_DETAIL_GROUP_ INTQ_DETAIL_GROUP_
            "subs x7, x7, #1\n"
            "b.ne 1b\n"
            "2:\n"
            "tbz x12, #0, 3f\n"        //
            INTQ_DETAIL_GROUP_ "3:\n"  //
            INTQ_DETAIL_PAIR_STORES_(8, 9, 10, 11, 12, 13) INTQ_DETAIL_PAIR_STORES_(14, 15, 16, 17, 18, 19)
                INTQ_DETAIL_PAIR_STORES_(20, 21, 22, 23, 24, 25) INTQ_DETAIL_PAIR_STORES_(26, 27, 28, 29, 30, 31)
            :
            : "r"(&tile)
            : "memory", "cc", "x6", "x7", "x9", "x10", "x11", "x12", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
              "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",
              "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
    }

private:
    /// From pairs of rows to rows.
    static INTQ_ALWAYS_INLINE void order_rows(std::int32_t* sums) noexcept {
        INTQ_UNROLL
        for (int p = 0; p < 4; ++p, sums += 24) {
            int64x2_t pairs[6];
            INTQ_UNROLL
            for (int c = 0; c < 6; ++c) pairs[c] = vreinterpretq_s64_s32(vld1q_s32(sums + 4 * c));
            INTQ_UNROLL
            for (int v = 0; v < 3; ++v) {
                vst1q_s32(sums + 4 * v, vreinterpretq_s32_s64(vzip1q_s64(pairs[2 * v], pairs[2 * v + 1])));
                vst1q_s32(sums + 12 + 4 * v, vreinterpretq_s32_s64(vzip2q_s64(pairs[2 * v], pairs[2 * v + 1])));
            }
        }
    }

    template <int Pairs, int Vectors> static INTQ_ALWAYS_INLINE void add_part(const MatrixSums& tile) noexcept {
        constexpr int columns = 2 * Vectors;  // in pairs
        int32x4_t acc[array_size(Pairs)][array_size(columns)];
        INTQ_UNROLL
        for (int c = 0; c < columns; ++c) {
            const int32x2_t bias = vld1_s32(tile.bias + 2 * c);
            INTQ_UNROLL
            for (int p = 0; p < Pairs; ++p) acc[p][c] = vcombine_s32(bias, bias);
        }
        const std::int8_t *x = tile.x, *w = tile.w;
        for (std::int64_t g = 0; g < tile.groups; ++g, x += 64, w += 16 * columns) {
            int8x16_t rows[array_size(Pairs)];
            INTQ_UNROLL
            for (int p = 0; p < Pairs; ++p) rows[p] = vld1q_s8(x + 16 * p);
            INTQ_UNROLL
            for (int c = 0; c < columns; ++c) {
                const int8x16_t of_columns = vld1q_s8(w + 16 * c);
                INTQ_UNROLL
                for (int p = 0; p < Pairs; ++p) acc[p][c] = vmmlaq_s32(acc[p][c], rows[p], of_columns);
            }
        }
        std::int32_t* to = tile.sums;
        INTQ_UNROLL
        for (int p = 0; p < Pairs; ++p, to += 4 * columns) {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) {
                const int64x2_t a = vreinterpretq_s64_s32(acc[p][2 * v]), b = vreinterpretq_s64_s32(acc[p][2 * v + 1]);
                vst1q_s32(to + 4 * v, vreinterpretq_s32_s64(vzip1q_s64(a, b)));
                vst1q_s32(to + 2 * columns + 4 * v, vreinterpretq_s32_s64(vzip2q_s64(a, b)));
            }
        }
    }
};

#    undef INTQ_DETAIL_PAIR_STORES_
#    undef INTQ_DETAIL_COPIES_
#    undef INTQ_DETAIL_COPY_
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
