// SPDX-License-Identifier: MIT
//
// The AVX-512 backend (F, BW, DQ, VL): 16 lanes, and a tile of int16 pairs. Layer: simd (DESIGN sections 5, 11).
#ifndef INTQ_SIMD_AVX512BW_HPP
#define INTQ_SIMD_AVX512BW_HPP

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__x86_64__)

#    include <immintrin.h>

#    include <cstdint>

#    include "intq/simd/depthwise_tile.hpp"
#    include "intq/simd/generic_tile.hpp"
#    include "intq/simd/group_tile.hpp"

namespace intq::inline INTQ_ABI::simd {

/// Sixteen lanes. An i64 is two registers, of the even and of the odd lanes: where vpmuldq puts its products.
/// Each function is what arith::scalar_lanes says of one lane. Float operations name their rounding: neither
/// the mode of the machine changes them, nor do compilers contract them to fma.
struct avx512_lanes {
    struct i32 {
        __m512i v;
    };
    struct i64 {
        __m512i even, odd;
    };
    struct f32 {
        __m512 v;
    };

    static constexpr index_t width() noexcept { return 16; }
    /// Vector registers of the machine: bounds the rows of the portable tile.
    static constexpr int registers = 32;

    // --- memory ---------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from) noexcept {
        return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from) noexcept {
        return {_mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from) noexcept { return {_mm512_loadu_si512(from)}; }
    static INTQ_ALWAYS_INLINE f32 load(const float* from) noexcept { return {_mm512_loadu_ps(from)}; }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from) noexcept {
        return deinterleave(_mm512_loadu_si512(from), _mm512_loadu_si512(from + 8));
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from, index_t count) noexcept {
        return {_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first(count), from))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from, index_t count) noexcept {
        return {_mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(first(count), from))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from, index_t count) noexcept {
        return {_mm512_maskz_loadu_epi32(first(count), from)};
    }
    static INTQ_ALWAYS_INLINE f32 load(const float* from, index_t count) noexcept {
        return {_mm512_maskz_loadu_ps(first(count), from)};
    }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from, index_t count) noexcept {
        return deinterleave(_mm512_maskz_loadu_epi64(low_half(count), from),
                            _mm512_maskz_loadu_epi64(high_half(count), from + 8));
    }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x) noexcept {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(x.v));
    }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x) noexcept {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtsepi32_epi16(x.v));
    }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x) noexcept { _mm512_storeu_si512(to, x.v); }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x) noexcept { _mm512_storeu_ps(to, x.v); }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x) noexcept {
        _mm512_storeu_si512(to, interleave_low(x));
        _mm512_storeu_si512(to + 8, interleave_high(x));
    }
    // The narrowing store with a mask is many times slower than a conversion and a masked store.
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x, index_t count) noexcept {
        _mm_mask_storeu_epi8(to, first(count), _mm512_cvtsepi32_epi8(x.v));
    }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x, index_t count) noexcept {
        _mm256_mask_storeu_epi16(to, first(count), _mm512_cvtsepi32_epi16(x.v));
    }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x, index_t count) noexcept {
        _mm512_mask_storeu_epi32(to, first(count), x.v);
    }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x, index_t count) noexcept {
        _mm512_mask_storeu_ps(to, first(count), x.v);
    }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x, index_t count) noexcept {
        _mm512_mask_storeu_epi64(to, low_half(count), interleave_low(x));
        _mm512_mask_storeu_epi64(to + 8, high_half(count), interleave_high(x));
    }

    /// int8 codes of four vectors: narrowed together, and clamped as bytes.
    class CodeQuad {
    public:
        INTQ_ALWAYS_INLINE CodeQuad(std::int32_t zero_point, std::int32_t lowest, std::int32_t highest) noexcept
            : zero_point_(_mm512_set1_epi16(static_cast<std::int16_t>(zero_point))),
              lowest_(_mm512_set1_epi8(static_cast<std::int8_t>(lowest))),
              highest_(_mm512_set1_epi8(static_cast<std::int8_t>(highest))) {}

        INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 a, i32 b, i32 c, i32 d, index_t count) const noexcept {
            const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            store_bytes(to, _mm512_permutexvar_epi32(order, pack(a, b, c, d)), count);
        }
        /// What unpacking has dealt out, packing collects.
        INTQ_ALWAYS_INLINE void store_runs(std::int8_t* to, i32 a, i32 b, i32 c, i32 d, index_t count) const noexcept {
            store_bytes(to, pack(a, b, c, d), count);
        }

    private:
        INTQ_ALWAYS_INLINE __m512i pack(i32 a, i32 b, i32 c, i32 d) const noexcept {
            // Saturation to int16 leaves enough of a code of 8 bits, with a zero point of 8 bits too.
            const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(a.v, b.v), zero_point_);
            const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(c.v, d.v), zero_point_);
            return _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(low, high), lowest_), highest_);
        }
        static INTQ_ALWAYS_INLINE void store_bytes(std::int8_t* to, __m512i codes, index_t count) noexcept {
            if (count == 64)
                _mm512_storeu_si512(to, codes);
            else
                _mm512_mask_storeu_epi8(to, (std::uint64_t{1} << count) - 1, codes);
        }

        __m512i zero_point_, lowest_, highest_;
    };

    /// to[i] = from[i] ^ 0x80: two's complement bytes to offset-binary and back; any size.
    static INTQ_ALWAYS_INLINE void flip_top_bits(const std::uint8_t* from, std::uint8_t* to, index_t size) noexcept {
        const __m512i top = _mm512_set1_epi8(-128);
        index_t i = 0;
        for (; i + 64 <= size; i += 64)
            _mm512_storeu_si512(to + i, _mm512_xor_si512(_mm512_loadu_si512(from + i), top));
        const __mmask64 rest = (std::uint64_t{1} << (size - i)) - 1;
        _mm512_mask_storeu_epi8(to + i, rest, _mm512_xor_si512(_mm512_maskz_loadu_epi8(rest, from + i), top));
    }

    // --- int32 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 set(std::int32_t value) noexcept { return {_mm512_set1_epi32(value)}; }
    static INTQ_ALWAYS_INLINE i32 add(i32 a, i32 b) noexcept { return {_mm512_add_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 sub(i32 a, i32 b) noexcept { return {_mm512_sub_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 mul(i32 a, i32 b) noexcept { return {_mm512_mullo_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 min(i32 a, i32 b) noexcept { return {_mm512_min_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 max(i32 a, i32 b) noexcept { return {_mm512_max_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 shift_left(i32 a, i32 n) noexcept { return {_mm512_sllv_epi32(a.v, n.v)}; }
    static INTQ_ALWAYS_INLINE i32 shift_right(i32 a, i32 n) noexcept { return {_mm512_srav_epi32(a.v, n.v)}; }

    // --- int64 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i64 set_i64(std::int64_t value) noexcept {
        const __m512i v = _mm512_set1_epi64(value);
        return {v, v};
    }
    static INTQ_ALWAYS_INLINE i64 widen(i32 a) noexcept {
        return {_mm512_srai_epi64(_mm512_slli_epi64(a.v, 32), 32), _mm512_srai_epi64(a.v, 32)};
    }
    static INTQ_ALWAYS_INLINE i64 mul_wide(i32 a, i32 b) noexcept {
        return {_mm512_mul_epi32(a.v, b.v), _mm512_mul_epi32(_mm512_srli_epi64(a.v, 32), _mm512_srli_epi64(b.v, 32))};
    }
    static INTQ_ALWAYS_INLINE i64 mul(i64 a, i64 b) noexcept {
        return {_mm512_mullo_epi64(a.even, b.even), _mm512_mullo_epi64(a.odd, b.odd)};
    }
    static INTQ_ALWAYS_INLINE i64 add(i64 a, i64 b) noexcept {
        return {_mm512_add_epi64(a.even, b.even), _mm512_add_epi64(a.odd, b.odd)};
    }
    static INTQ_ALWAYS_INLINE i64 shift_left(i64 a, i64 n) noexcept {
        return {_mm512_sllv_epi64(a.even, n.even), _mm512_sllv_epi64(a.odd, n.odd)};
    }
    static INTQ_ALWAYS_INLINE i64 shift_right(i64 a, i64 n) noexcept {
        return {_mm512_srav_epi64(a.even, n.even), _mm512_srav_epi64(a.odd, n.odd)};
    }
    /// The low half stands where the high half is its sign; else the sign of the high half saturates.
    static INTQ_ALWAYS_INLINE i32 narrow(i64 a) noexcept {
        const __m512i low = _mm512_mask_shuffle_epi32(a.even, 0xaaaa, a.odd, _MM_PERM_CCAA);
        const __m512i high = _mm512_mask_shuffle_epi32(a.odd, 0x5555, a.even, _MM_PERM_DDBB);
        const __mmask16 fits = _mm512_cmpeq_epi32_mask(high, _mm512_srai_epi32(low, 31));
        const __m512i limit = _mm512_xor_si512(_mm512_srai_epi32(high, 31), _mm512_set1_epi32(INT32_MAX));
        return {_mm512_mask_mov_epi32(limit, fits, low)};
    }

    // --- float ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 set(float value) noexcept { return {_mm512_set1_ps(value)}; }
    static INTQ_ALWAYS_INLINE f32 add(f32 a, f32 b) noexcept { return {_mm512_add_round_ps(a.v, b.v, nearest)}; }
    static INTQ_ALWAYS_INLINE f32 sub(f32 a, f32 b) noexcept { return {_mm512_sub_round_ps(a.v, b.v, nearest)}; }
    static INTQ_ALWAYS_INLINE f32 mul(f32 a, f32 b) noexcept { return {_mm512_mul_round_ps(a.v, b.v, nearest)}; }
    static INTQ_ALWAYS_INLINE f32 div(f32 a, f32 b) noexcept { return {_mm512_div_round_ps(a.v, b.v, nearest)}; }
    static INTQ_ALWAYS_INLINE f32 min(f32 a, f32 b) noexcept { return {_mm512_min_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 max(f32 a, f32 b) noexcept { return {_mm512_max_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 floor(f32 a) noexcept {
        return positive_zero(_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    }
    static INTQ_ALWAYS_INLINE f32 round_half_even(f32 a) noexcept {
        return positive_zero(_mm512_roundscale_ps(a.v, nearest));
    }
    static INTQ_ALWAYS_INLINE f32 replace_nan(f32 a, f32 b) noexcept {
        return {_mm512_mask_mov_ps(a.v, _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), b.v)};
    }
    static INTQ_ALWAYS_INLINE f32 keep_inside(f32 a, f32 low, f32 high, f32 b) noexcept {
        const __mmask16 above = _mm512_cmp_ps_mask(a.v, low.v, _CMP_GE_OQ);
        return {_mm512_maskz_mov_ps(_mm512_mask_cmp_ps_mask(above, a.v, high.v, _CMP_LE_OQ), b.v)};
    }
    /// a · b + c for sums whose bits nobody promises.
    static INTQ_ALWAYS_INLINE f32 mul_add(f32 a, f32 b, f32 c) noexcept { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

    // --- conversions and reductions -------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 to_f32(i32 a) noexcept { return {_mm512_cvt_roundepi32_ps(a.v, nearest)}; }
    static INTQ_ALWAYS_INLINE i32 to_i32(f32 a) noexcept { return {_mm512_cvttps_epi32(a.v)}; }
    static INTQ_ALWAYS_INLINE i32 round_to_i32(f32 a) noexcept {
        // What is too small gives -2^31 by itself.
        return {_mm512_cvt_roundps_epi32(_mm512_min_ps(a.v, _mm512_set1_ps(2147483520.0f)), nearest)};
    }
    static INTQ_ALWAYS_INLINE f32 from_bits(i32 a) noexcept { return {_mm512_castsi512_ps(a.v)}; }
    static INTQ_ALWAYS_INLINE float reduce_min(f32 a) noexcept {
        __m512 m = _mm512_min_ps(a.v, _mm512_shuffle_f32x4(a.v, a.v, 0x4e));
        m = _mm512_min_ps(m, _mm512_shuffle_f32x4(m, m, 0xb1));
        m = _mm512_min_ps(m, _mm512_shuffle_ps(m, m, 0x4e));
        m = _mm512_min_ps(m, _mm512_shuffle_ps(m, m, 0xb1));
        return _mm512_cvtss_f32(m) + 0.0f;
    }
    static INTQ_ALWAYS_INLINE float reduce_max(f32 a) noexcept {
        __m512 m = _mm512_max_ps(a.v, _mm512_shuffle_f32x4(a.v, a.v, 0x4e));
        m = _mm512_max_ps(m, _mm512_shuffle_f32x4(m, m, 0xb1));
        m = _mm512_max_ps(m, _mm512_shuffle_ps(m, m, 0x4e));
        m = _mm512_max_ps(m, _mm512_shuffle_ps(m, m, 0xb1));
        return _mm512_cvtss_f32(m) + 0.0f;
    }
    static INTQ_ALWAYS_INLINE bool all_finite(f32 a) noexcept {
        constexpr int nan_or_infinity = 0x99;  // quiet NaN, +infinity, -infinity, signalling NaN
        return _mm512_fpclass_ps_mask(a.v, nan_or_infinity) == 0;
    }

private:
    static constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

    /// The first `count` lanes, of 16 and of each half.
    static INTQ_ALWAYS_INLINE __mmask16 first(index_t count) noexcept {
        return static_cast<__mmask16>((1u << static_cast<unsigned>(count)) - 1u);
    }
    static INTQ_ALWAYS_INLINE __mmask8 low_half(index_t count) noexcept { return static_cast<__mmask8>(first(count)); }
    static INTQ_ALWAYS_INLINE __mmask8 high_half(index_t count) noexcept {
        return static_cast<__mmask8>(first(count) >> 8);
    }
    /// {0 … 7}, {8 … 15} -> {0 2 … 14}, {1 3 … 15}, and back.
    static INTQ_ALWAYS_INLINE i64 deinterleave(__m512i low, __m512i high) noexcept {
        return {_mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), high),
                _mm512_permutex2var_epi64(low, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), high)};
    }
    static INTQ_ALWAYS_INLINE __m512i interleave_low(i64 x) noexcept {
        return _mm512_permutex2var_epi64(x.even, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), x.odd);
    }
    static INTQ_ALWAYS_INLINE __m512i interleave_high(i64 x) noexcept {
        return _mm512_permutex2var_epi64(x.even, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), x.odd);
    }
    /// vrndscaleps keeps the sign of a zero; the specification's zero is positive.
    static INTQ_ALWAYS_INLINE f32 positive_zero(__m512 a) noexcept {
        return {_mm512_add_round_ps(a, _mm512_setzero_ps(), nearest)};
    }
};

template <> struct LanesOf<avx512bw> { using type = avx512_lanes; };

namespace detail {

/// Registers and memory of tiles of 6 × 64, 9 × 48, 14 × 32 and 14 × 16: at most 28 sums, with the weights of a step,
/// 1 broadcast and 1 product in 32 registers.
template <class Activation, class Weight> struct Avx512Dot {
    using activation = Activation;
    using weight = Weight;
    using lanes = avx512_lanes;
    using Vector = __m512i;
    static constexpr int vectors = 4;
    static constexpr int max_rows(int panel_vectors) noexcept {
        return panel_vectors == 4 ? 6 : panel_vectors == 3 ? 9 : 14;
    }

    static INTQ_ALWAYS_INLINE Vector load(const void* from) noexcept { return _mm512_loadu_si512(from); }
    static INTQ_ALWAYS_INLINE Vector broadcast(std::int32_t group) noexcept { return _mm512_set1_epi32(group); }
};

/// Two products a lane and step, of int16 pairs. (-2^15)² + (-2^15)² alone wraps, in int32 as the tile's sum may.
struct Avx512PairDot : Avx512Dot<std::int16_t, std::int16_t> {
    static INTQ_ALWAYS_INLINE Vector dot(Vector acc, Vector x, Vector w) noexcept {
        return _mm512_add_epi32(acc, _mm512_madd_epi16(x, w));
    }
};

/// Rows of int8 or int16 in pairs of int16. A whole block is 32 channels.
template <class X> struct Avx512PairRows {
    using element = X;
    static constexpr int vectors = 2;
    static constexpr index_t run = 16;
    static constexpr int kept_weights = 12;

    static INTQ_ALWAYS_INLINE std::int32_t zero_point(std::int32_t code) noexcept {
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(code) & 0xffffu) * 0x00010001u);
    }
    template <int Vectors, int Count>
    static INTQ_ALWAYS_INLINE void interleave(const X* const* rows, index_t channels, __m512i* to) noexcept {
        if constexpr (Vectors == 1) {
            const __m512i a = avx512_lanes::load(rows[0], channels).v;
            to[0] = a;
            if constexpr (Count == 2)
                to[0] = _mm512_mask_blend_epi16(0xaaaaaaaa, a,
                                                _mm512_slli_epi32(avx512_lanes::load(rows[1], channels).v, 16));
        } else {
            const auto mask = static_cast<__mmask32>((std::uint64_t{1} << channels) - 1);
            const __m512i a = load(mask, rows[0]), b = Count == 2 ? load(mask, rows[Count - 1]) : a;
            to[0] = _mm512_unpacklo_epi16(a, b);
            to[1] = _mm512_unpackhi_epi16(a, b);
        }
    }

private:
    /// Channels 4i … 4i + 3 and 16 + 4i … 16 + 4i + 3 in part i: what unpacking then gives is in order.
    static INTQ_ALWAYS_INLINE __m512i load(__mmask32 mask, const std::int8_t* from) noexcept {
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        return _mm512_cvtepi8_epi16(_mm256_permutevar8x32_epi32(_mm256_maskz_loadu_epi8(mask, from), order));
    }
    static INTQ_ALWAYS_INLINE __m512i load(__mmask32 mask, const std::int16_t* from) noexcept {
        const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
        return _mm512_permutexvar_epi64(order, _mm512_maskz_loadu_epi16(mask, from));
    }
};

}  // namespace detail

template <>
struct DepthwiseTile<avx512bw, std::int8_t, std::int8_t, std::int32_t>
    : GroupDepthwiseTile<detail::Avx512PairDot, detail::Avx512PairRows<std::int8_t>> {};
template <class W>
struct DepthwiseTile<avx512bw, std::int16_t, W, std::int32_t>
    : GroupDepthwiseTile<detail::Avx512PairDot, detail::Avx512PairRows<std::int16_t>> {};

template <> struct Tile<avx512bw, std::int8_t, std::int8_t, std::int32_t> : GroupTile<detail::Avx512PairDot> {};
template <> struct Tile<avx512bw, std::int16_t, std::int8_t, std::int32_t> : GroupTile<detail::Avx512PairDot> {};
template <> struct Tile<avx512bw, std::int16_t, std::int16_t, std::int32_t> : GroupTile<detail::Avx512PairDot> {};

}  // namespace intq::inline INTQ_ABI::simd

#endif  // AVX-512 F, BW, DQ, VL

#endif  // INTQ_SIMD_AVX512BW_HPP
