// SPDX-License-Identifier: MIT
//
// The SSE4.1 backend: 4 lanes, and tiles of int16 pairs. Layer: simd (docs/design.md sections 5, 11).
// Long because a backend is one file, and this one has a body for every primitive.
#ifndef INTQ_SIMD_X86_SSE41_HPP
#define INTQ_SIMD_X86_SSE41_HPP

#if defined(__SSE4_1__) && defined(__x86_64__)

#    include <cstdint>

#    include "intq/simd/base/intrinsics.hpp"
#    include "intq/simd/tiles/dot_tiles.hpp"
#    include "intq/simd/tiles/generic_tile.hpp"

#    include "intq/arith/ieee.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// Four lanes. An i64 is two registers, of the even and of the odd lanes: where pmuldq puts its products.
/// Each function does in every lane what arith::scalar_lanes does.
struct sse41_lanes {
    struct i32 {
        __m128i v;
    };
    struct i64 {
        __m128i even, odd;
    };
    struct f32 {
        __m128 v;
    };

    static constexpr index_t width() noexcept { return 4; }
    /// Vector registers of the machine: bounds the rows of the portable tile.
    static constexpr int registers = 16;

    // --- memory ---------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from) noexcept {
        return {_mm_cvtepi8_epi32(_mm_cvtsi32_si128(detail::read<std::int32_t>(from)))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from) noexcept {
        return {_mm_cvtepi16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from) noexcept { return {raw(from)}; }
    static INTQ_ALWAYS_INLINE f32 load(const float* from) noexcept { return {_mm_loadu_ps(from)}; }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from) noexcept {
        return transpose(raw(from), raw(from + 2));
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from, index_t count) noexcept {
        return {_mm_cvtepi8_epi32(part(from, count))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from, index_t count) noexcept {
        return {_mm_cvtepi16_epi32(part(from, 2 * count))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from, index_t count) noexcept {
        return {part(from, 4 * count)};
    }
    static INTQ_ALWAYS_INLINE f32 load(const float* from, index_t count) noexcept {
        return {_mm_castsi128_ps(part(from, 4 * count))};
    }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from, index_t count) noexcept {
        const index_t low = count < 2 ? count : 2;
        return transpose(part(from, 8 * low), part(from + low, 8 * (count - low)));
    }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x) noexcept {
        detail::write(to, _mm_cvtsi128_si32(narrow8(x)));
    }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x) noexcept {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), narrow16(x));
    }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x) noexcept { put(to, x.v); }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x) noexcept { _mm_storeu_ps(to, x.v); }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x) noexcept {
        const i64 pairs = transpose(x.even, x.odd);
        put(to, pairs.even);
        put(to + 2, pairs.odd);
    }
    static INTQ_ALWAYS_INLINE void store_four(std::int8_t* to, i32 a, i32 b, i32 c, i32 d) noexcept {
        put(to, _mm_packs_epi16(_mm_packs_epi32(a.v, b.v), _mm_packs_epi32(c.v, d.v)));
    }
    static INTQ_ALWAYS_INLINE void store_triples(std::int8_t* to, i32 x) noexcept {
        const __m128i codes = _mm_shuffle_epi8(x.v, _mm_setr_epi32(0x04020100, 0x09080605, 0x0e0d0c0a, -1));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), codes);
        const std::int32_t last = _mm_extract_epi32(codes, 2);
        std::memcpy(to + 8, &last, sizeof last);
    }
    static INTQ_ALWAYS_INLINE void add_to(double* sums, f32 a, f32 b, f32 c, f32 d) noexcept {
        add_half(sums, a.v, b.v, c.v, d.v);
        add_half(sums + 2, upper(a), upper(b), upper(c), upper(d));
    }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x, index_t count) noexcept {
        put_part(to, narrow8(x), count);
    }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x, index_t count) noexcept {
        put_part(to, narrow16(x), 2 * count);
    }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x, index_t count) noexcept {
        put_part(to, x.v, 4 * count);
    }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x, index_t count) noexcept {
        put_part(to, _mm_castps_si128(x.v), 4 * count);
    }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x, index_t count) noexcept {
        const i64 pairs = transpose(x.even, x.odd);
        const index_t low = count < 2 ? count : 2;
        put_part(to, pairs.even, 8 * low);
        put_part(to + low, pairs.odd, 8 * (count - low));
    }

    /// int8 codes of four vectors: narrowed together, and clamped as bytes.
    class CodeQuad {
    public:
        INTQ_ALWAYS_INLINE CodeQuad(std::int32_t zero_point, std::int32_t quant_min, std::int32_t quant_max) noexcept
            : zero_point_(_mm_set1_epi16(static_cast<std::int16_t>(zero_point))),
              quant_min_(_mm_set1_epi8(static_cast<std::int8_t>(quant_min))),
              quant_max_(_mm_set1_epi8(static_cast<std::int8_t>(quant_max))) {}

        /// @param code  one to four vectors
        template <class... I32>
        INTQ_ALWAYS_INLINE void store(std::int8_t* to, index_t count, const I32&... code) const noexcept {
            constexpr int vectors = static_cast<int>(sizeof...(I32));
            static_assert(vectors >= 1 && vectors <= 4);
            const __m128i v[] = {code.v...};
            // Saturation to int16 leaves enough of a code of 8 bits, with a zero point of 8 bits too.
            const __m128i low = _mm_adds_epi16(_mm_packs_epi32(v[0], v[vectors > 1 ? 1 : 0]), zero_point_);
            __m128i high = low;
            if constexpr (vectors > 2)
                high = _mm_adds_epi16(_mm_packs_epi32(v[2], v[vectors > 3 ? 3 : 2]), zero_point_);
            const __m128i codes = _mm_min_epi8(_mm_max_epi8(_mm_packs_epi16(low, high), quant_min_), quant_max_);
            if (vectors == 4 && count == 16) return put(to, codes);
            if (vectors >= 2 && count == 8) return _mm_storel_epi64(reinterpret_cast<__m128i*>(to), codes);
            put_part(to, codes, count);
        }

    private:
        __m128i zero_point_, quant_min_, quant_max_;
    };

    /// to[i] = from[i] ^ 0x80: two's complement bytes to offset-binary and back; any size.
    static INTQ_ALWAYS_INLINE void flip_top_bits(const std::uint8_t* from, std::uint8_t* to, index_t size) noexcept {
        const __m128i top = _mm_set1_epi8(-128);
        index_t i = 0;
        for (; i + 16 <= size; i += 16) put(to + i, _mm_xor_si128(raw(from + i), top));
        for (; i < size; ++i) to[i] = static_cast<std::uint8_t>(from[i] ^ 0x80u);
    }

    static INTQ_ALWAYS_INLINE void widen_bytes(const std::int8_t* from, std::int16_t* to, index_t size) noexcept {
        index_t i = 0;
        for (; i + 8 <= size; i += 8)
            put(to + i, _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i))));
        for (; i < size; ++i) to[i] = from[i];
    }

    // --- packed codes ---------------------------------------------------------------------------------------
    template <class T> struct packed { __m128i v; };
    template <class T> static constexpr index_t packed_width() noexcept { return index_t{16} / sizeof(T); }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> load_packed(const T* from) noexcept { return {raw(from)}; }
    template <class T> static INTQ_ALWAYS_INLINE void store_packed(T* to, packed<T> x) noexcept { put(to, x.v); }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> load_packed(const T* from, index_t count) noexcept {
        return {part(from, count * index_t{sizeof(T)})};
    }
    template <class T> static INTQ_ALWAYS_INLINE void store_packed(T* to, packed<T> x, index_t count) noexcept {
        put_part(to, x.v, count * index_t{sizeof(T)});
    }
    static INTQ_ALWAYS_INLINE packed<std::int8_t> set_packed(std::int8_t value) noexcept {
        return {_mm_set1_epi8(value)};
    }
    static INTQ_ALWAYS_INLINE packed<std::int16_t> set_packed(std::int16_t value) noexcept {
        return {_mm_set1_epi16(value)};
    }
    using bytes = packed<std::int8_t>;
    using words = packed<std::int16_t>;
    static INTQ_ALWAYS_INLINE bytes min_packed(bytes a, bytes b) noexcept { return {_mm_min_epi8(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE bytes max_packed(bytes a, bytes b) noexcept { return {_mm_max_epi8(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE words min_packed(words a, words b) noexcept { return {_mm_min_epi16(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE words max_packed(words a, words b) noexcept { return {_mm_max_epi16(a.v, b.v)}; }
    struct table {
        const std::int8_t* entries;
    };
    static INTQ_ALWAYS_INLINE table load_table(const std::int8_t* entries) noexcept { return {entries}; }
    /// Four bits of a code choose in each sixteenth of the table, the other four choose among the sixteenths.
    static INTQ_ALWAYS_INLINE bytes look_up(const table& t, bytes x) noexcept {
        const __m128i index = _mm_xor_si128(x.v, _mm_set1_epi8(-128));
        return {entry<128>(t.entries, index, _mm_and_si128(index, _mm_set1_epi8(15)))};
    }
    static INTQ_ALWAYS_INLINE i32 gather_pair(const std::int16_t* from, i32 index) noexcept {
        const auto pair = [&](int i) INTQ_ALWAYS_INLINE_LAMBDA { return detail::read<std::int32_t>(from + i); };
        return {_mm_setr_epi32(pair(_mm_cvtsi128_si32(index.v)), pair(_mm_extract_epi32(index.v, 1)),
                               pair(_mm_extract_epi32(index.v, 2)), pair(_mm_extract_epi32(index.v, 3)))};
    }

    // --- int32 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 set(std::int32_t value) noexcept { return {_mm_set1_epi32(value)}; }
    static INTQ_ALWAYS_INLINE i32 add(i32 a, i32 b) noexcept { return {_mm_add_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 sub(i32 a, i32 b) noexcept { return {_mm_sub_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 mul(i32 a, i32 b) noexcept { return {_mm_mullo_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32(min)(i32 a, i32 b) noexcept { return {_mm_min_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32(max)(i32 a, i32 b) noexcept { return {_mm_max_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 bit_and(i32 a, i32 b) noexcept { return {_mm_and_si128(a.v, b.v)}; }
    /// SSE has no shift by lane: a product with the float 2^n as an integer, which is -2^31 for n = 31.
    static INTQ_ALWAYS_INLINE i32 shift_left(i32 a, i32 n) noexcept {
        const __m128i power = _mm_add_epi32(_mm_slli_epi32(n.v, 23), _mm_set1_epi32(127 << 23));
        return {_mm_mullo_epi32(a.v, _mm_cvttps_epi32(_mm_castsi128_ps(power)))};
    }
    /// Four shifts of the whole register, one lane kept of each.
    static INTQ_ALWAYS_INLINE i32 shift_right(i32 a, i32 n) noexcept {
        const __m128i low = _mm_cvtepu32_epi64(n.v), high = _mm_unpackhi_epi32(n.v, _mm_setzero_si128());
        const __m128i by_0 = _mm_sra_epi32(a.v, low), by_1 = _mm_sra_epi32(a.v, _mm_unpackhi_epi64(low, low)),
                      by_2 = _mm_sra_epi32(a.v, high), by_3 = _mm_sra_epi32(a.v, _mm_unpackhi_epi64(high, high));
        return {_mm_blend_epi16(_mm_blend_epi16(by_0, by_2, 0xf0), _mm_blend_epi16(by_1, by_3, 0xf0), odd_lanes)};
    }

    // --- int64 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i64 set_i64(std::int64_t value) noexcept {
        const __m128i v = _mm_set1_epi64x(value);
        return {v, v};
    }
    static INTQ_ALWAYS_INLINE i64 widen(i32 a) noexcept {
        const __m128i sign = _mm_srai_epi32(a.v, 31);
        return {_mm_blend_epi16(a.v, _mm_slli_epi64(sign, 32), odd_lanes),
                _mm_blend_epi16(_mm_srli_epi64(a.v, 32), sign, odd_lanes)};
    }
    static INTQ_ALWAYS_INLINE i64 mul_wide(i32 a, i32 b) noexcept {
        return {_mm_mul_epi32(a.v, b.v), _mm_mul_epi32(_mm_srli_epi64(a.v, 32), _mm_srli_epi64(b.v, 32))};
    }
    static INTQ_ALWAYS_INLINE i64 mul(i64 a, i64 b) noexcept {
        return {mul_low(a.even, b.even), mul_low(a.odd, b.odd)};
    }
    static INTQ_ALWAYS_INLINE i64 add(i64 a, i64 b) noexcept {
        return {_mm_add_epi64(a.even, b.even), _mm_add_epi64(a.odd, b.odd)};
    }
    static INTQ_ALWAYS_INLINE i64 shift_left(i64 a, i64 n) noexcept {
        const auto shift = [](__m128i x, __m128i by) INTQ_ALWAYS_INLINE_LAMBDA {
            return _mm_blend_epi16(_mm_sll_epi64(x, by), _mm_sll_epi64(x, _mm_unpackhi_epi64(by, by)), 0xf0);
        };
        return {shift(a.even, n.even), shift(a.odd, n.odd)};
    }
    /// SSE has no arithmetic shift of int64: a negative value is complemented before and after a logical one.
    static INTQ_ALWAYS_INLINE i64 shift_right(i64 a, i64 n) noexcept {
        const auto shift = [](__m128i x, __m128i by) INTQ_ALWAYS_INLINE_LAMBDA {
            const __m128i sign = _mm_shuffle_epi32(_mm_srai_epi32(x, 31), 0xf5), y = _mm_xor_si128(x, sign);
            const __m128i both =
                _mm_blend_epi16(_mm_srl_epi64(y, by), _mm_srl_epi64(y, _mm_unpackhi_epi64(by, by)), 0xf0);
            return _mm_xor_si128(both, sign);
        };
        return {shift(a.even, n.even), shift(a.odd, n.odd)};
    }
    /// The low half is the result where the high half is its sign; else the sign of the high half saturates.
    static INTQ_ALWAYS_INLINE i32 narrow(i64 a) noexcept {
        const __m128i low = _mm_blend_epi16(a.even, _mm_slli_epi64(a.odd, 32), odd_lanes);
        const __m128i high = _mm_blend_epi16(_mm_srli_epi64(a.even, 32), a.odd, odd_lanes);
        const __m128i fits = _mm_cmpeq_epi32(high, _mm_srai_epi32(low, 31));
        const __m128i limit = _mm_xor_si128(_mm_srai_epi32(high, 31), _mm_set1_epi32(INT32_MAX));
        return {_mm_blendv_epi8(limit, low, fits)};
    }
    static INTQ_ALWAYS_INLINE i32 sqrdmulh(i32 a, i32 b) noexcept {
        const i64 sum = add(mul_wide(a, b), set_i64(std::int64_t{1} << 30));
        return {_mm_blend_epi16(_mm_srli_epi64(sum.even, 31), _mm_slli_epi64(sum.odd, 1), odd_lanes)};
    }
    /// The high halves of b are zero: a pair's sum is the product of the low ones.
    static INTQ_ALWAYS_INLINE i32 mul_short(i32 a, i32 b) noexcept { return {_mm_madd_epi16(a.v, b.v)}; }

    // --- float ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 set(float value) noexcept { return {_mm_set1_ps(value)}; }
    static INTQ_ALWAYS_INLINE f32 add(f32 a, f32 b) noexcept { return {_mm_add_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 sub(f32 a, f32 b) noexcept { return {_mm_sub_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 mul(f32 a, f32 b) noexcept { return barrier(_mm_mul_ps(a.v, b.v)); }
    static INTQ_ALWAYS_INLINE f32 div(f32 a, f32 b) noexcept { return barrier(_mm_div_ps(a.v, b.v)); }
    static INTQ_ALWAYS_INLINE f32(min)(f32 a, f32 b) noexcept { return {_mm_min_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32(max)(f32 a, f32 b) noexcept { return {_mm_max_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 floor(f32 a) noexcept {
        return positive_zero(_mm_round_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    }
    static INTQ_ALWAYS_INLINE f32 round_half_even(f32 a) noexcept {
        return positive_zero(_mm_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    static INTQ_ALWAYS_INLINE f32 replace_nan(f32 a, f32 b) noexcept {
        return {_mm_blendv_ps(a.v, b.v, _mm_cmpunord_ps(a.v, a.v))};
    }
    static INTQ_ALWAYS_INLINE f32 keep_inside(f32 a, f32 low, f32 high, f32 b) noexcept {
        return {_mm_and_ps(inside(a, low, high), b.v)};
    }
    static INTQ_ALWAYS_INLINE f32 choose_inside(f32 a, f32 low, f32 high, f32 b, f32 c) noexcept {
        return {_mm_blendv_ps(c.v, b.v, inside(a, low, high))};
    }
    /// Lane by lane: CPUs of this level have no such instruction; those that have it use AVX2's backend.
    static INTQ_ALWAYS_INLINE f32 fma(f32 a, f32 b, f32 c) noexcept {
        alignas(16) float x[4], y[4], z[4];
        _mm_store_ps(x, a.v);
        _mm_store_ps(y, b.v);
        _mm_store_ps(z, c.v);
        for (int i = 0; i < 4; ++i) z[i] = arith::ffma(x[i], y[i], z[i]);
        return {_mm_load_ps(z)};
    }

    // --- conversions and reductions -------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 to_f32(i32 a) noexcept { return {_mm_cvtepi32_ps(a.v)}; }
    static INTQ_ALWAYS_INLINE f32 to_f32(i64 a) noexcept {
        return {_mm_unpacklo_ps(_mm_cvtpd_ps(exact_double(a.even)), _mm_cvtpd_ps(exact_double(a.odd)))};
    }
    static INTQ_ALWAYS_INLINE i32 to_i32(f32 a) noexcept { return {_mm_cvttps_epi32(a.v)}; }
    static INTQ_ALWAYS_INLINE i32 round_to_i32(f32 a) noexcept {
        // Numbers that are too small become -2^31 by themselves.
        const __m128 below = _mm_min_ps(a.v, _mm_set1_ps(2147483520.0f));
        return {_mm_cvttps_epi32(_mm_round_ps(below, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))};
    }
    static INTQ_ALWAYS_INLINE i32 round_small_to_i32(f32 a) noexcept {
        return {_mm_cvttps_epi32(_mm_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))};
    }
    static INTQ_ALWAYS_INLINE f32 from_bits(i32 a) noexcept { return {_mm_castsi128_ps(a.v)}; }
    static INTQ_ALWAYS_INLINE float reduce_min(f32 a) noexcept {
        const __m128 m = _mm_min_ps(a.v, upper(a));
        return _mm_cvtss_f32(_mm_min_ss(m, _mm_movehdup_ps(m))) + 0.0f;
    }
    static INTQ_ALWAYS_INLINE float reduce_max(f32 a) noexcept {
        const __m128 m = _mm_max_ps(a.v, upper(a));
        return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m))) + 0.0f;
    }
    static INTQ_ALWAYS_INLINE bool all_finite(f32 a) noexcept {
        const __m128i exponent = _mm_set1_epi32(0x7f800000);
        const __m128i bits = _mm_and_si128(_mm_castps_si128(a.v), exponent);
        return _mm_movemask_epi8(_mm_cmpeq_epi32(bits, exponent)) == 0;
    }

    // --- registers and bytes, also for the tiles ------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE __m128i raw(const void* from) noexcept {
        return _mm_loadu_si128(static_cast<const __m128i*>(from));
    }
    static INTQ_ALWAYS_INLINE void put(void* to, __m128i x) noexcept { _mm_storeu_si128(static_cast<__m128i*>(to), x); }
    /// The first `size` bytes, and zeros.
    static INTQ_ALWAYS_INLINE __m128i part(const void* from, index_t size) noexcept {
        const detail::Bytes16 read = detail::read_bytes16(from, size);
        return _mm_set_epi64x(static_cast<long long>(read.high), static_cast<long long>(read.low));
    }
    static INTQ_ALWAYS_INLINE void put_part(void* to, __m128i x, index_t size) noexcept {
        const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(x));
        detail::write_bytes16(to, {low, static_cast<std::uint64_t>(_mm_extract_epi64(x, 1))}, size);
    }

private:
    static constexpr int odd_lanes = 0xcc;  // of words

    /// double(a), exactly, for |a| <= 2^53. The halves of a are the low bits of two doubles:
    /// (2^84 + 2^63 + 2^32·high - (2^84 + 2^63 + 2^52)) + (2^52 + low), whose difference and sum are exact.
    static INTQ_ALWAYS_INLINE __m128d exact_double(__m128i a) noexcept {
        const __m128i low = _mm_blend_epi16(a, _mm_set1_epi64x(0x4330000000000000), odd_lanes);
        const __m128i high = _mm_xor_si128(_mm_srli_epi64(a, 32), _mm_set1_epi64x(0x4530000080000000));
        const __m128d rest = _mm_sub_pd(_mm_castsi128_pd(high), _mm_set1_pd(0x1.00000801p84));
        return _mm_add_pd(rest, _mm_castsi128_pd(low));
    }
    /// {0 1}, {2 3} -> {0 2}, {1 3}, and back.
    static INTQ_ALWAYS_INLINE i64 transpose(__m128i low, __m128i high) noexcept {
        return {_mm_unpacklo_epi64(low, high), _mm_unpackhi_epi64(low, high)};
    }
    static INTQ_ALWAYS_INLINE __m128i narrow16(i32 x) noexcept { return _mm_packs_epi32(x.v, x.v); }
    static INTQ_ALWAYS_INLINE __m128i narrow8(i32 x) noexcept {
        const __m128i narrow = narrow16(x);
        return _mm_packs_epi16(narrow, narrow);
    }
    static INTQ_ALWAYS_INLINE __m128 upper(f32 a) noexcept { return _mm_movehl_ps(a.v, a.v); }
    static INTQ_ALWAYS_INLINE void add_half(double* sums, __m128 a, __m128 b, __m128 c, __m128 d) noexcept {
        const __m128d two =
            _mm_add_pd(_mm_add_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b)), _mm_add_pd(_mm_cvtps_pd(c), _mm_cvtps_pd(d)));
        _mm_storeu_pd(sums, _mm_add_pd(_mm_loadu_pd(sums), two));
    }
    static INTQ_ALWAYS_INLINE __m128 inside(f32 a, f32 low, f32 high) noexcept {
        return _mm_and_ps(_mm_cmpge_ps(a.v, low.v), _mm_cmple_ps(a.v, high.v));
    }
    /// Entries[index mod 2 · Half] of 2 · Half entries, low being index mod 16.
    template <int Half>
    static INTQ_ALWAYS_INLINE __m128i entry(const std::int8_t* entries, __m128i index, __m128i low) noexcept {
        if constexpr (Half == 8) {
            return _mm_shuffle_epi8(raw(entries), low);
        } else {
            constexpr int to_sign = Half == 128 ? 0 : Half == 64 ? 1 : Half == 32 ? 2 : 3;
            const __m128i chosen = _mm_slli_epi16(index, to_sign);  // its top bits are read, byte by byte
            return _mm_blendv_epi8(entry<Half / 2>(entries, index, low), entry<Half / 2>(entries + Half, index, low),
                                   chosen);
        }
    }
    /// SSE has no such product: low·low + ((low·high + high·low) << 32).
    static INTQ_ALWAYS_INLINE __m128i mul_low(__m128i a, __m128i b) noexcept {
        const __m128i cross =
            _mm_add_epi64(_mm_mul_epu32(_mm_srli_epi64(a, 32), b), _mm_mul_epu32(a, _mm_srli_epi64(b, 32)));
        return _mm_add_epi64(_mm_mul_epu32(a, b), _mm_slli_epi64(cross, 32));
    }
    /// roundps keeps the sign of a zero; the specification's zero is positive.
    static INTQ_ALWAYS_INLINE f32 positive_zero(__m128 a) noexcept { return {_mm_add_ps(a, _mm_setzero_ps())}; }
    /// As arith::value_barrier: compilers contract even intrinsics to fma.
    static INTQ_ALWAYS_INLINE f32 barrier(__m128 a) noexcept {
        asm("" : "+x"(a));
        return {a};
    }
};

template <> struct LanesOf<sse41> { using type = sse41_lanes; };

namespace detail {

/// Two products a lane and step, of int16 pairs. Only (-2^15)² + (-2^15)² wraps, in int32 as the tile's sum may.
struct Sse41PairDot {
    using activation = std::int16_t;
    using weight = std::int16_t;
    using lanes = sse41_lanes;
    using Vector = __m128i;
    static constexpr int vectors = 2;
    /// 12 sums, the weights of a step, 1 broadcast and 1 product of 16 registers.
    static constexpr int max_rows(int panel_vectors) noexcept { return 12 / panel_vectors; }

    static INTQ_ALWAYS_INLINE Vector load(const void* from) noexcept { return sse41_lanes::raw(from); }
    static INTQ_ALWAYS_INLINE Vector broadcast(std::int32_t pair) noexcept { return _mm_set1_epi32(pair); }
    static INTQ_ALWAYS_INLINE Vector dot(Vector acc, Vector x, Vector w) noexcept {
        return _mm_add_epi32(acc, _mm_madd_epi16(x, w));
    }
};

/// Rows of int8 or int16 in pairs of int16. A whole block is 8 channels, and unpacking leaves them in order.
template <class X> struct Sse41PairRows {
    using element = X;
    static constexpr int vectors = 2;
    static constexpr index_t run = 4;
    static constexpr int kept_weights = 0;

    static INTQ_ALWAYS_INLINE std::int32_t zero_point(std::int32_t code) noexcept {
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(code) & 0xffffu) * 0x00010001u);
    }
    template <int Vectors, int Count>
    static INTQ_ALWAYS_INLINE void interleave(const X* const* rows, index_t channels, __m128i* to) noexcept {
        const __m128i a = row(rows[0], channels), b = Count == 2 ? row(rows[Count - 1], channels) : a;
        to[0] = _mm_unpacklo_epi16(a, b);
        if constexpr (Vectors == 2) to[1] = _mm_unpackhi_epi16(a, b);
    }

private:
    static INTQ_ALWAYS_INLINE __m128i row(const std::int8_t* from, index_t channels) noexcept {
        return _mm_cvtepi8_epi16(channels == 8 ? _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))
                                               : sse41_lanes::part(from, channels));
    }
    static INTQ_ALWAYS_INLINE __m128i row(const std::int16_t* from, index_t channels) noexcept {
        return channels == 8 ? sse41_lanes::raw(from) : sse41_lanes::part(from, 2 * channels);
    }
};

}  // namespace detail

template <> struct DotsOf<sse41> {
    using int8_dot = detail::Sse41PairDot;
    using int16_dot = detail::Sse41PairDot;
    using depthwise_int8 = GroupDepthwiseTile<detail::Sse41PairDot, detail::Sse41PairRows<std::int8_t>>;
    using depthwise_int16 = GroupDepthwiseTile<detail::Sse41PairDot, detail::Sse41PairRows<std::int16_t>>;
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __SSE4_1__ && __x86_64__

#endif  // INTQ_SIMD_X86_SSE41_HPP
