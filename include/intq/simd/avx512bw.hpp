// SPDX-License-Identifier: MIT
//
// The AVX-512 backend (F, BW, DQ, VL): 16 lanes, and a tile of int16 pairs. Layer: simd (DESIGN sections 5, 11).
#ifndef INTQ_SIMD_AVX512BW_HPP
#define INTQ_SIMD_AVX512BW_HPP

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__x86_64__)

#    include <immintrin.h>

#    include <cstdint>

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
    static INTQ_ALWAYS_INLINE f32 fma(f32 a, f32 b, f32 c) noexcept {
        return {_mm512_fmadd_round_ps(a.v, b.v, c.v, nearest)};
    }
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

/// Registers and memory of a 6 × 64 tile: 24 sums, 4 weights, 1 broadcast, 1 product of 32 registers.
template <class Activation, class Weight> struct Avx512Dot {
    using activation = Activation;
    using weight = Weight;
    using lanes = avx512_lanes;
    using Vector = __m512i;
    static constexpr int vectors = 4;
    static constexpr int max_rows = 6;

    static INTQ_ALWAYS_INLINE Vector load(const void* from) noexcept { return _mm512_loadu_si512(from); }
    static INTQ_ALWAYS_INLINE Vector broadcast(std::int32_t group) noexcept { return _mm512_set1_epi32(group); }
};

/// Two products a lane and step, of int16 pairs. (-2^15)² + (-2^15)² alone wraps, in int32 as the tile's sum may.
struct Avx512PairDot : Avx512Dot<std::int16_t, std::int16_t> {
    static INTQ_ALWAYS_INLINE Vector dot(Vector acc, Vector x, Vector w) noexcept {
        return _mm512_add_epi32(acc, _mm512_madd_epi16(x, w));
    }
};

}  // namespace detail

template <> struct Tile<avx512bw, std::int8_t, std::int8_t, std::int32_t> : GroupTile<detail::Avx512PairDot> {};
template <> struct Tile<avx512bw, std::int16_t, std::int8_t, std::int32_t> : GroupTile<detail::Avx512PairDot> {};
template <> struct Tile<avx512bw, std::int16_t, std::int16_t, std::int32_t> : GroupTile<detail::Avx512PairDot> {};

}  // namespace intq::inline INTQ_ABI::simd

#endif  // AVX-512 F, BW, DQ, VL

#endif  // INTQ_SIMD_AVX512BW_HPP
