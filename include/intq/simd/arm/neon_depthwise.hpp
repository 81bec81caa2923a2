// SPDX-License-Identifier: MIT
//
// The depthwise tiles of the NEON backend: a row of the window a step, in products of int16; and int8 3×3 windows in
// sums of two products, which int16 holds. Layer: simd (docs/design.md section 5).
#ifndef INTQ_SIMD_ARM_NEON_DEPTHWISE_HPP
#define INTQ_SIMD_ARM_NEON_DEPTHWISE_HPP

#if defined(__ARM_NEON) && defined(__AARCH64EL__)

#    include <concepts>

#    include "intq/simd/arm/column_loop.hpp"
#    include "intq/simd/arm/neon.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

/// @tparam X       int8 or int16, in memory
/// @tparam Weight  int8 or int16, as stored
/// @tparam Pairs   eight channels each. With one, the nine weights of a 3×3 window stay in registers
template <class X, class Weight, int Pairs> struct NeonDepthwiseTile {
    using element = X;
    using weight = Weight;
    using L = neon_lanes;
    static constexpr int vectors = 2 * Pairs;
    static constexpr index_t depth = 1, columns = 8 * Pairs, run = 4;
    static constexpr int kept_weights = 18;
    static constexpr bool unrolls_pixels = Pairs == 1;
    template <int Vectors> static constexpr int pairs_of = (Vectors + 1) / 2;

    template <int Vectors> struct Column {
        template <int Count> INTQ_ALWAYS_INLINE void load(const X* const* rows, index_t channels) noexcept {
            static_assert(Count == 1);
            INTQ_UNROLL
            for (int p = 0; p < pairs_of<Vectors>; ++p)
                group[p] = Vectors > 1 ? eight(rows[0] + 8 * p, channels - 8 * p) : four(rows[0], channels);
        }
        INTQ_ALWAYS_INLINE void fill(std::int32_t zero_point) noexcept {
            INTQ_UNROLL
            for (int p = 0; p < pairs_of<Vectors>; ++p) group[p] = vdupq_n_s16(static_cast<std::int16_t>(zero_point));
        }
        int16x8_t group[array_size(pairs_of<Vectors>)];
    };

    template <int Vectors> struct Weights {
        INTQ_ALWAYS_INLINE void load(const Weight* from) noexcept {
            INTQ_UNROLL
            for (int p = 0; p < pairs_of<Vectors>; ++p) group[p] = Vectors > 1 ? eight(from + 8 * p, 8) : four(from, 4);
        }
        int16x8_t group[array_size(pairs_of<Vectors>)];
    };

    template <int Vectors> struct Sums {
        INTQ_ALWAYS_INLINE void start(const std::int32_t* bias) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) acc[v] = vld1q_s32(bias + 4 * v);
        }
        INTQ_ALWAYS_INLINE void add(const Column<Vectors>& x, const Weights<Vectors>& w) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; v += 2) {
                acc[v] = vmlal_s16(acc[v], vget_low_s16(x.group[v / 2]), vget_low_s16(w.group[v / 2]));
                if constexpr (Vectors > 1) acc[v + 1] = vmlal_high_s16(acc[v + 1], x.group[v / 2], w.group[v / 2]);
            }
        }
        INTQ_ALWAYS_INLINE L::i32 drain(int vector) const noexcept { return {acc[vector]}; }

        int32x4_t acc[array_size(Vectors)];
    };

private:
    static INTQ_ALWAYS_INLINE int16x8_t eight(const std::int8_t* from, index_t count) noexcept {
        return vmovl_s8(count >= 8 ? vld1_s8(from) : vcreate_s8(count > 0 ? read_bytes(from, count) : 0));
    }
    static INTQ_ALWAYS_INLINE int16x8_t eight(const std::int16_t* from, index_t count) noexcept {
        return count >= 8 ? vld1q_s16(from) : vreinterpretq_s16_u8(L::part(from, 2 * count));
    }
    static INTQ_ALWAYS_INLINE int16x8_t four(const std::int8_t* from, index_t count) noexcept {
        return vmovl_s8(vcreate_s8(count >= 4 ? read<std::uint32_t>(from) : read_bytes(from, count)));
    }
    static INTQ_ALWAYS_INLINE int16x8_t four(const std::int16_t* from, index_t count) noexcept {
        const int16x4_t half = count >= 4 ? vld1_s16(from) : vcreate_s16(read_bytes(from, 2 * count));
        return vcombine_s16(half, half);
    }
};

// A column is its rows a and b interleaved, in two of v0 to v5, and its row c in one of v6 to v8. So are the weights:
// v16 to v21 of a and b in each column, v22 and v23 of c in the first two, interleaved, and v24 of c in the third. The
// sums are v25 to v28. A pixel that moves by one is 42 instructions, of which 18 multiply 144 products; one that moves
// by two 48. Products of int16 take 36, and widen what they load.
#    define INTQ_DETAIL_ZIPS_(low, high, a, b) \
        "zip1 v" #low ".16b, v" #a ".16b, v" #b ".16b\n zip2 v" #high ".16b, v" #a ".16b, v" #b ".16b\n"
#    define INTQ_DETAIL_LOAD_(low, high, c) INTQ_DETAIL_COLUMN_("16b", 29, 30, c) INTQ_DETAIL_ZIPS_(low, high, 29, 30)
#    define INTQ_DETAIL_PADDED_(low, high, c) "ldr q" #    c ", [x16]\n" INTQ_DETAIL_ZIPS_(low, high, c, c)
#    define INTQ_DETAIL_BYTE_PRODUCTS_(name, low, high, x, w) \
        name " v" #low ".8h, v" #x ".8b, v" #w ".8b\n" name "2 v" #high ".8h, v" #x ".16b, v" #w ".16b\n"
#    define INTQ_DETAIL_ADD_PRODUCTS_ \
        "sadalp v25.4s, v11.8h\n sadalp v26.4s, v12.8h\n sadalp v27.4s, v13.8h\n sadalp v28.4s, v14.8h\n"
#    define INTQ_DETAIL_FOUR_PRODUCTS_(x0, x1, w0, w1, y0, y1, v0, v1) \
        INTQ_DETAIL_BYTE_PRODUCTS_("smull", 11, 12, x0, w0)            \
        INTQ_DETAIL_BYTE_PRODUCTS_("smull", 13, 14, x1, w1)            \
        INTQ_DETAIL_BYTE_PRODUCTS_("smlal", 11, 12, y0, v0)            \
        INTQ_DETAIL_BYTE_PRODUCTS_("smlal", 13, 14, y1, v1) INTQ_DETAIL_ADD_PRODUCTS_
#    define INTQ_DETAIL_PIXEL_(x0, x1, xc, y0, y1, yc, z0, z1, zc)       \
        INTQ_DETAIL_BIAS_(25, 26, 27, 28)                                \
        INTQ_DETAIL_ZIPS_(9, 10, xc, yc)                                 \
        INTQ_DETAIL_FOUR_PRODUCTS_(x0, x1, 16, 17, y0, y1, 18, 19)       \
        INTQ_DETAIL_FOUR_PRODUCTS_(z0, z1, 20, 21, 9, 10, 22, 23)        \
        INTQ_DETAIL_BYTE_PRODUCTS_("smull", 11, 12, zc, 24)              \
        "saddw v25.4s, v25.4s, v11.4h\n saddw2 v26.4s, v26.4s, v11.8h\n" \
        "saddw v27.4s, v27.4s, v12.4h\n saddw2 v28.4s, v28.4s, v12.8h\n" INTQ_DETAIL_STORES_(25, 26, 27, 28)
#    define INTQ_DETAIL_WEIGHTS_                                                                             \
        "ldp q16, q17, [%2]\n ldp q18, q19, [%2, #32]\n ldp q20, q21, [%2, #64]\n ldp q22, q23, [%2, #96]\n" \
        "ldr q24, [%2, #128]\n"

/// Blocks of sixteen channels.
struct NeonByteDepthwiseTile : NeonDepthwiseTile<std::int8_t, std::int16_t, 2> {
    /// v16 to v24 of a block.
    struct ColumnWeights {
        int8x16_t vectors[9];

        /// @return  whether the products that are added in int16 fit: two of them do not only where both are 128²
        INTQ_ALWAYS_INLINE bool load(const std::int16_t* from) noexcept {
            int8x16_t taps[9];
            INTQ_UNROLL
            for (int i = 0; i < 9; ++i)
                taps[i] = vuzp1q_s8(vreinterpretq_s8_s16(vld1q_s16(from + 16 * i)),
                                    vreinterpretq_s8_s16(vld1q_s16(from + 16 * i + 8)));
            const auto interleave = [&](int to, int i, int j) INTQ_ALWAYS_INLINE_LAMBDA {
                vectors[to] = vzip1q_s8(taps[i], taps[j]);
                vectors[to + 1] = vzip2q_s8(taps[i], taps[j]);
            };
            interleave(0, 0, 1), interleave(2, 3, 4), interleave(4, 6, 7), interleave(6, 2, 5);
            vectors[8] = taps[8];
            const auto larger = [&](int i, int j) INTQ_ALWAYS_INLINE_LAMBDA { return vmaxq_s8(taps[i], taps[j]); };
            const int8x16_t least =
                vminq_s8(vminq_s8(larger(0, 3), larger(1, 4)), vminq_s8(larger(6, 2), larger(7, 5)));
            return vminvq_s8(least) > INT8_MIN;
        }
    };
    static INTQ_ALWAYS_INLINE void sum_columns_by_one(const ColumnWalk& walk, ColumnBlock& block) noexcept {
        INTQ_DETAIL_COLUMNS_BY_ONE_(walk, block, nullptr, INTQ_DETAIL_WEIGHTS_, INTQ_DETAIL_LOAD_(0, 1, 6),
                                    INTQ_DETAIL_PADDED_(0, 1, 6), INTQ_DETAIL_LOAD_(2, 3, 7),
                                    INTQ_DETAIL_LOAD_(4, 5, 8) INTQ_DETAIL_PIXEL_(0, 1, 6, 2, 3, 7, 4, 5, 8),
                                    INTQ_DETAIL_LOAD_(0, 1, 6) INTQ_DETAIL_PIXEL_(2, 3, 7, 4, 5, 8, 0, 1, 6),
                                    INTQ_DETAIL_LOAD_(2, 3, 7) INTQ_DETAIL_PIXEL_(4, 5, 8, 0, 1, 6, 2, 3, 7),
                                    INTQ_DETAIL_PADDED_(4, 5, 8) INTQ_DETAIL_PIXEL_(0, 1, 6, 2, 3, 7, 4, 5, 8),
                                    INTQ_DETAIL_PADDED_(0, 1, 6) INTQ_DETAIL_PIXEL_(2, 3, 7, 4, 5, 8, 0, 1, 6),
                                    INTQ_DETAIL_PADDED_(2, 3, 7) INTQ_DETAIL_PIXEL_(4, 5, 8, 0, 1, 6, 2, 3, 7));
    }
    static INTQ_ALWAYS_INLINE void sum_columns_by_two(const ColumnWalk& walk, ColumnBlock& block) noexcept {
        INTQ_DETAIL_COLUMNS_BY_TWO_(
            walk, block, nullptr, INTQ_DETAIL_WEIGHTS_, INTQ_DETAIL_LOAD_(0, 1, 6), INTQ_DETAIL_PADDED_(0, 1, 6),
            INTQ_DETAIL_LOAD_(2, 3, 7) INTQ_DETAIL_LOAD_(4, 5, 8) INTQ_DETAIL_PIXEL_(0, 1, 6, 2, 3, 7, 4, 5, 8),
            INTQ_DETAIL_LOAD_(2, 3, 7) INTQ_DETAIL_LOAD_(0, 1, 6) INTQ_DETAIL_PIXEL_(4, 5, 8, 2, 3, 7, 0, 1, 6),
            INTQ_DETAIL_LOAD_(2, 3, 7) INTQ_DETAIL_PADDED_(4, 5, 8) INTQ_DETAIL_PIXEL_(0, 1, 6, 2, 3, 7, 4, 5, 8),
            INTQ_DETAIL_LOAD_(2, 3, 7) INTQ_DETAIL_PADDED_(0, 1, 6) INTQ_DETAIL_PIXEL_(4, 5, 8, 2, 3, 7, 0, 1, 6));
    }
};

#    undef INTQ_DETAIL_WEIGHTS_
#    undef INTQ_DETAIL_WEIGHT_
#    undef INTQ_DETAIL_PIXEL_
#    undef INTQ_DETAIL_FOUR_PRODUCTS_
#    undef INTQ_DETAIL_ADD_PRODUCTS_
#    undef INTQ_DETAIL_BYTE_PRODUCTS_
#    undef INTQ_DETAIL_PADDED_
#    undef INTQ_DETAIL_LOAD_
#    undef INTQ_DETAIL_ZIPS_

}  // namespace detail

template <> struct DepthwiseTile<neon, std::int8_t, std::int8_t, std::int32_t> : detail::NeonByteDepthwiseTile {};
template <std::derived_from<neon> Backend, class Weight>
struct DepthwiseTile<Backend, std::int16_t, Weight, std::int32_t> : detail::NeonDepthwiseTile<std::int16_t, Weight, 1> {
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __ARM_NEON && __AARCH64EL__

#endif  // INTQ_SIMD_ARM_NEON_DEPTHWISE_HPP
