// SPDX-License-Identifier: MIT
//
// The depthwise tile of the dotprod backend: rows of a column in groups of four bytes. Layer: simd (docs/design.md
// section 5).
#ifndef INTQ_SIMD_ARM_DOTPROD_DEPTHWISE_HPP
#define INTQ_SIMD_ARM_DOTPROD_DEPTHWISE_HPP

#if defined(__ARM_FEATURE_DOTPROD) && defined(__ARM_NEON) && defined(__AARCH64EL__)

#    include <concepts>

#    include "intq/simd/arm/column_loop.hpp"
#    include "intq/simd/arm/dotprod.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

/// Four products a lane and step, int8 · int8; the sum wraps. As GroupDepthwiseTile takes it.
struct NeonQuadDot {
    using activation = std::int8_t;
    using weight = std::int8_t;
    using lanes = neon_lanes;
    using Vector = int32x4_t;
    static INTQ_ALWAYS_INLINE Vector load(const void* from) noexcept {
        return vld1q_s32(static_cast<const std::int32_t*>(from));
    }
    static INTQ_ALWAYS_INLINE Vector broadcast(std::int32_t group) noexcept { return vdupq_n_s32(group); }
    static INTQ_ALWAYS_INLINE Vector dot(Vector acc, Vector x, Vector w) noexcept {
        return vdotq_s32(acc, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w));
    }
};

/// Rows in groups of four bytes. A whole block is 16 channels, and interleaving leaves them in order.
struct NeonByteRows {
    using element = std::int8_t;
    static constexpr int vectors = 4;
    static constexpr index_t run = 4;
    static constexpr int kept_weights = 12;

    static INTQ_ALWAYS_INLINE std::int32_t zero_point(std::int32_t code) noexcept {
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(code) & 0xffu) * 0x01010101u);
    }
    /// Bytes of two rows, then pairs of two pairs of rows.
    template <int Vectors, int Count>
    static INTQ_ALWAYS_INLINE void interleave(const std::int8_t* const* rows, index_t channels,
                                              int32x4_t* to) noexcept {
        const auto row = [&](int r) INTQ_ALWAYS_INLINE_LAMBDA { return load_row<Vectors>(rows[r], channels); };
        const uint8x16_t a = row(0), b = Count > 1 ? row(Count > 1 ? 1 : 0) : a;
        const uint8x16_t c = Count > 2 ? row(Count > 2 ? 2 : 0) : a, d = Count > 3 ? row(Count > 3 ? 3 : 0) : c;
        const auto ab = vreinterpretq_u16_u8(vzip1q_u8(a, b)), cd = vreinterpretq_u16_u8(vzip1q_u8(c, d));
        to[0] = vreinterpretq_s32_u16(vzip1q_u16(ab, cd));
        if constexpr (Vectors == 4) {
            to[1] = vreinterpretq_s32_u16(vzip2q_u16(ab, cd));
            const auto ab_high = vreinterpretq_u16_u8(vzip2q_u8(a, b)), cd_high = vreinterpretq_u16_u8(vzip2q_u8(c, d));
            to[2] = vreinterpretq_s32_u16(vzip1q_u16(ab_high, cd_high));
            to[3] = vreinterpretq_s32_u16(vzip2q_u16(ab_high, cd_high));
        }
    }

private:
    template <int Vectors>
    static INTQ_ALWAYS_INLINE uint8x16_t load_row(const std::int8_t* from, index_t channels) noexcept {
        if constexpr (Vectors == 4) return channels >= 16 ? neon_lanes::raw(from) : neon_lanes::part(from, channels);
        return vreinterpretq_u8_u32(vdupq_n_u32(
            channels >= 4 ? read<std::uint32_t>(from) : static_cast<std::uint32_t>(read_bytes(from, channels))));
    }
};

// The sums of a pixel are four of v0 to v11, three pixels in turn; the weights of column k of the window v(12 + 4k) to
// v(15 + 4k), the rows of a column v24 to v26. TBL interleaves these, from the places v27 to v30, by four instructions,
// where pairs take eight. A pixel that moves by one is 25 instructions, of which 12 multiply; one that moves by two 31.
#    define INTQ_DETAIL_DOT_(acc, w) "sdot v" #    acc ".4s, v31.16b, v" #    w ".16b\n"
#    define INTQ_DETAIL_DOTS_(a, b, c, d, w0, w1, w2, w3) \
        INTQ_DETAIL_DOT_(a, w0) INTQ_DETAIL_DOT_(b, w1) INTQ_DETAIL_DOT_(c, w2) INTQ_DETAIL_DOT_(d, w3)
#    define INTQ_DETAIL_GROUPS_(first, second, third, fourth)                                                \
        INTQ_DETAIL_COLUMN_("16b", 24, 25, 26)                                                               \
        "tbl v31.16b, {v24.16b-v26.16b}, v27.16b\n" first "tbl v31.16b, {v24.16b-v26.16b}, v28.16b\n" second \
        "tbl v31.16b, {v24.16b-v26.16b}, v29.16b\n" third "tbl v31.16b, {v24.16b-v26.16b}, v30.16b\n" fourth
#    define INTQ_DETAIL_WEIGHTS_                                                                             \
        "ldp q12, q13, [%2]\n ldp q14, q15, [%2, #32]\n ldp q16, q17, [%2, #64]\n ldp q18, q19, [%2, #96]\n" \
        "ldp q20, q21, [%2, #128]\n ldp q22, q23, [%2, #160]\n ldp q27, q28, [%5]\n ldp q29, q30, [%5, #32]\n"
#    define INTQ_DETAIL_FIRST_                                                                         \
        INTQ_DETAIL_BIAS_(0, 1, 2, 3)                                                                  \
        INTQ_DETAIL_GROUPS_(INTQ_DETAIL_DOT_(0, 12), INTQ_DETAIL_DOT_(1, 13), INTQ_DETAIL_DOT_(2, 14), \
                            INTQ_DETAIL_DOT_(3, 15))
// Bytes of a column of padding are all the same.
#    define INTQ_DETAIL_FIRST_PADDED_ \
        INTQ_DETAIL_BIAS_(0, 1, 2, 3) "ldr q31, [x16]\n" INTQ_DETAIL_DOTS_(0, 1, 2, 3, 12, 13, 14, 15)
#    define INTQ_DETAIL_LAST_PADDED_(a, b, c, d) \
        "ldr q31, [x16]\n" INTQ_DETAIL_DOTS_(a, b, c, d, 20, 21, 22, 23) INTQ_DETAIL_STORES_(a, b, c, d)
#    define INTQ_DETAIL_SECOND_                                                                               \
        INTQ_DETAIL_BIAS_(4, 5, 6, 7)                                                                         \
        INTQ_DETAIL_GROUPS_(                                                                                  \
            INTQ_DETAIL_DOT_(0, 16) INTQ_DETAIL_DOT_(4, 12), INTQ_DETAIL_DOT_(1, 17) INTQ_DETAIL_DOT_(5, 13), \
            INTQ_DETAIL_DOT_(2, 18) INTQ_DETAIL_DOT_(6, 14), INTQ_DETAIL_DOT_(3, 19) INTQ_DETAIL_DOT_(7, 15))
#    define INTQ_DETAIL_PIXEL_BY_ONE_(a, b, c, d, e, f, g, h, i, j, k, l)                            \
        INTQ_DETAIL_BIAS_(i, j, k, l)                                                                \
        INTQ_DETAIL_GROUPS_(INTQ_DETAIL_DOT_(a, 20) INTQ_DETAIL_DOT_(e, 16) INTQ_DETAIL_DOT_(i, 12), \
                            INTQ_DETAIL_DOT_(b, 21) INTQ_DETAIL_DOT_(f, 17) INTQ_DETAIL_DOT_(j, 13), \
                            INTQ_DETAIL_DOT_(c, 22) INTQ_DETAIL_DOT_(g, 18) INTQ_DETAIL_DOT_(k, 14), \
                            INTQ_DETAIL_DOT_(d, 23) INTQ_DETAIL_DOT_(h, 19) INTQ_DETAIL_DOT_(l, 15)) \
        INTQ_DETAIL_STORES_(a, b, c, d)
#    define INTQ_DETAIL_MIDDLE_(a, b, c, d)                                                            \
        INTQ_DETAIL_GROUPS_(INTQ_DETAIL_DOT_(a, 16), INTQ_DETAIL_DOT_(b, 17), INTQ_DETAIL_DOT_(c, 18), \
                            INTQ_DETAIL_DOT_(d, 19))
#    define INTQ_DETAIL_PIXEL_BY_TWO_(a, b, c, d, e, f, g, h)                                                 \
        INTQ_DETAIL_MIDDLE_(a, b, c, d)                                                                       \
        INTQ_DETAIL_BIAS_(e, f, g, h)                                                                         \
        INTQ_DETAIL_GROUPS_(                                                                                  \
            INTQ_DETAIL_DOT_(a, 20) INTQ_DETAIL_DOT_(e, 12), INTQ_DETAIL_DOT_(b, 21) INTQ_DETAIL_DOT_(f, 13), \
            INTQ_DETAIL_DOT_(c, 22) INTQ_DETAIL_DOT_(g, 14), INTQ_DETAIL_DOT_(d, 23) INTQ_DETAIL_DOT_(h, 15)) \
        INTQ_DETAIL_STORES_(a, b, c, d)

/// Where TBL finds the bytes of each channel in three rows: vector v, lane l has channel 4v + l. A place beyond the
/// rows gives 0, for the weight that is 0.
inline constexpr std::uint8_t interleaved_places[64] = {
    0,  16,  32, 255, 1,  17,  33, 255, 2,  18,  34, 255, 3,  19,  35, 255, 4,  20,  36, 255, 5,  21,
    37, 255, 6,  22,  38, 255, 7,  23,  39, 255, 8,  24,  40, 255, 9,  25,  41, 255, 10, 26,  42, 255,
    11, 27,  43, 255, 12, 28,  44, 255, 13, 29,  45, 255, 14, 30,  46, 255, 15, 31,  47, 255};

struct DotprodDepthwiseTile : GroupDepthwiseTile<NeonQuadDot, NeonByteRows> {
    static INTQ_ALWAYS_INLINE void sum_columns_by_one(const ColumnWalk& walk, ColumnBlock& block) noexcept {
        INTQ_DETAIL_COLUMNS_BY_ONE_(
            walk, block, interleaved_places, INTQ_DETAIL_WEIGHTS_, INTQ_DETAIL_FIRST_, INTQ_DETAIL_FIRST_PADDED_,
            INTQ_DETAIL_SECOND_, INTQ_DETAIL_PIXEL_BY_ONE_(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
            INTQ_DETAIL_PIXEL_BY_ONE_(4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3),
            INTQ_DETAIL_PIXEL_BY_ONE_(8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7), INTQ_DETAIL_LAST_PADDED_(0, 1, 2, 3),
            INTQ_DETAIL_LAST_PADDED_(4, 5, 6, 7), INTQ_DETAIL_LAST_PADDED_(8, 9, 10, 11));
    }
    static INTQ_ALWAYS_INLINE void sum_columns_by_two(const ColumnWalk& walk, ColumnBlock& block) noexcept {
        INTQ_DETAIL_COLUMNS_BY_TWO_(walk, block, interleaved_places, INTQ_DETAIL_WEIGHTS_, INTQ_DETAIL_FIRST_,
                                    INTQ_DETAIL_FIRST_PADDED_, INTQ_DETAIL_PIXEL_BY_TWO_(0, 1, 2, 3, 4, 5, 6, 7),
                                    INTQ_DETAIL_PIXEL_BY_TWO_(4, 5, 6, 7, 0, 1, 2, 3),
                                    INTQ_DETAIL_MIDDLE_(0, 1, 2, 3) INTQ_DETAIL_LAST_PADDED_(0, 1, 2, 3),
                                    INTQ_DETAIL_MIDDLE_(4, 5, 6, 7) INTQ_DETAIL_LAST_PADDED_(4, 5, 6, 7));
    }
};

#    undef INTQ_DETAIL_PIXEL_BY_TWO_
#    undef INTQ_DETAIL_MIDDLE_
#    undef INTQ_DETAIL_PIXEL_BY_ONE_
#    undef INTQ_DETAIL_SECOND_
#    undef INTQ_DETAIL_LAST_PADDED_
#    undef INTQ_DETAIL_FIRST_PADDED_
#    undef INTQ_DETAIL_FIRST_
#    undef INTQ_DETAIL_WEIGHTS_
#    undef INTQ_DETAIL_GROUPS_
#    undef INTQ_DETAIL_DOTS_
#    undef INTQ_DETAIL_DOT_

}  // namespace detail

template <std::derived_from<dotprod> Backend>
struct DepthwiseTile<Backend, std::int8_t, std::int8_t, std::int32_t> : detail::DotprodDepthwiseTile {};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __ARM_FEATURE_DOTPROD && __ARM_NEON && __AARCH64EL__

#endif  // INTQ_SIMD_ARM_DOTPROD_DEPTHWISE_HPP
