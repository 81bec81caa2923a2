// SPDX-License-Identifier: MIT
//
// The AVX-512 backend (F, BW, DQ, VL): 16 lanes, and tiles of int16 pairs. Layer: simd (docs/design.md sections 5, 11).
// Long because a backend is one file, and this one has a body for every primitive.
#ifndef INTQ_SIMD_X86_AVX512BW_HPP
#define INTQ_SIMD_X86_AVX512BW_HPP

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__x86_64__)

#    include <cstddef>
#    include <cstdint>

#    include "intq/simd/base/intrinsics.hpp"
#    include "intq/simd/tiles/dot_tiles.hpp"
#    include "intq/simd/tiles/generic_tile.hpp"

// Without optimisation these intrinsics of g++ 12 are macros that make a mask of -1.
#    if defined(__GNUC__) && !defined(__clang__)
#        pragma GCC diagnostic push
#        pragma GCC diagnostic ignored "-Wsign-conversion"
#    endif

namespace intq::simd {
inline namespace INTQ_ABI {

/// Sixteen lanes. An i64 is two registers, of the even and of the odd lanes: where vpmuldq puts its products.
/// Each function does in every lane what arith::scalar_lanes does. Float operations name their rounding: neither
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
    static INTQ_ALWAYS_INLINE void store_four(std::int8_t* to, i32 a, i32 b, i32 c, i32 d) noexcept {
        _mm512_storeu_si512(to, pack(_mm512_packs_epi32(a.v, b.v), _mm512_packs_epi32(c.v, d.v)));
    }
    /// In each half of the register quarter `Quarter` of a, then of b.
    template <int Quarter> static INTQ_ALWAYS_INLINE i32 quarters(i32 a, i32 b) noexcept {
        constexpr int q = 4 * Quarter;
        const __m512i order = _mm512_setr_epi32(q, q + 1, q + 2, q + 3, q + 16, q + 17, q + 18, q + 19, q, q + 1, q + 2,
                                                q + 3, q + 16, q + 17, q + 18, q + 19);
        return {_mm512_permutex2var_epi32(a.v, order, b.v)};
    }
    static INTQ_ALWAYS_INLINE void store_triples(std::int8_t* to, i32 x) noexcept {
        // Three bytes of four in each quarter of the register, then three quarters of it.
        const __m512i bytes = _mm512_set4_epi32(-1, 0x0e0d0c0a, 0x09080605, 0x04020100);
        const __m512i order = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 15, 15, 15, 15);
        _mm512_mask_storeu_epi32(to, 0x0fff, _mm512_permutexvar_epi32(order, _mm512_shuffle_epi8(x.v, bytes)));
    }
    static INTQ_ALWAYS_INLINE void add_to(double* sums, f32 a, f32 b, f32 c, f32 d) noexcept {
        add_half(sums, low_half(a), low_half(b), low_half(c), low_half(d));
        add_half(sums + 8, high_half(a), high_half(b), high_half(c), high_half(d));
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

    // --- packed codes ---------------------------------------------------------------------------------------
    template <class T> struct packed { __m512i v; };
    template <class T> static constexpr index_t packed_width() noexcept { return index_t{64} / sizeof(T); }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> load_packed(const T* from) noexcept {
        return {_mm512_loadu_si512(from)};
    }
    template <class T> static INTQ_ALWAYS_INLINE void store_packed(T* to, packed<T> x) noexcept {
        _mm512_storeu_si512(to, x.v);
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> load_packed(const T* from, index_t count) noexcept {
        return {_mm512_maskz_loadu_epi8(first_bytes(count * index_t{sizeof(T)}), from)};
    }
    template <class T> static INTQ_ALWAYS_INLINE void store_packed(T* to, packed<T> x, index_t count) noexcept {
        _mm512_mask_storeu_epi8(to, first_bytes(count * index_t{sizeof(T)}), x.v);
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> set_packed(T value) noexcept {
        if constexpr (sizeof(T) == 1) {
            return {_mm512_set1_epi8(value)};
        } else {
            return {_mm512_set1_epi16(value)};
        }
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> min_packed(packed<T> a, packed<T> b) noexcept {
        if constexpr (sizeof(T) == 1) {
            return {_mm512_min_epi8(a.v, b.v)};
        } else {
            return {_mm512_min_epi16(a.v, b.v)};
        }
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> max_packed(packed<T> a, packed<T> b) noexcept {
        if constexpr (sizeof(T) == 1) {
            return {_mm512_max_epi8(a.v, b.v)};
        } else {
            return {_mm512_max_epi16(a.v, b.v)};
        }
    }
#    ifdef __AVX512VBMI__
    struct table {
        __m512i quarter[4];
    };
    static INTQ_ALWAYS_INLINE table load_table(const std::int8_t* entries) noexcept {
        return {{_mm512_loadu_si512(entries), _mm512_loadu_si512(entries + 64), _mm512_loadu_si512(entries + 128),
                 _mm512_loadu_si512(entries + 192)}};
    }
    /// Seven bits of a code choose in half a table, its sign chooses the half.
    static INTQ_ALWAYS_INLINE packed<std::int8_t> look_up(const table& t, packed<std::int8_t> x) noexcept {
        const __m512i negative = _mm512_permutex2var_epi8(t.quarter[0], x.v, t.quarter[1]);
        const __m512i positive = _mm512_permutex2var_epi8(t.quarter[2], x.v, t.quarter[3]);
        return {_mm512_mask_mov_epi8(positive, _mm512_movepi8_mask(x.v), negative)};
    }
#    else
    /// Words of the entries of code j, low, and of code j - 128, high, for j from 0 to 127.
    struct table {
        __m512i quarter[4];
    };
    static INTQ_ALWAYS_INLINE table load_table(const std::int8_t* entries) noexcept {
        return {{words(entries), words(entries + 32), words(entries + 64), words(entries + 96)}};
    }
    /// Words are looked up for the codes of even and of odd places, by seven bits; the sign chooses the byte.
    static INTQ_ALWAYS_INLINE packed<std::int8_t> look_up(const table& t, packed<std::int8_t> x) noexcept {
        const __m512i low_bytes = _mm512_set1_epi16(0x00ff);
        const __m512i even = table_word(t, x.v, _mm512_test_epi16_mask(x.v, _mm512_set1_epi16(0x0040)));
        const __m512i odd =
            table_word(t, _mm512_srli_epi16(x.v, 8), _mm512_test_epi16_mask(x.v, _mm512_set1_epi16(0x4000)));
        constexpr int choose = 0xe4;  // bits of the first where the third is set, else of the second
        const __m512i positive = _mm512_ternarylogic_epi32(even, _mm512_slli_epi16(odd, 8), low_bytes, choose);
        const __m512i negative = _mm512_ternarylogic_epi32(_mm512_srli_epi16(even, 8), odd, low_bytes, choose);
        return {_mm512_mask_mov_epi8(positive, _mm512_movepi8_mask(x.v), negative)};
    }
#    endif

    static INTQ_ALWAYS_INLINE i32 gather_pair(const std::int16_t* from, i32 index) noexcept {
        return {_mm512_i32gather_epi32(index.v, from, sizeof(std::int16_t))};
    }

    /// int8 codes of four vectors: narrowed together, and clamped as bytes.
    class CodeQuad {
    public:
        INTQ_ALWAYS_INLINE CodeQuad(std::int32_t zero_point, std::int32_t quant_min, std::int32_t quant_max) noexcept
            // Repeated to 32 bits first: such a broadcast from memory costs only a load.
            : zero_point_(
                  _mm512_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(zero_point & 0xffff) * 0x10001u))),
              quant_min_(
                  _mm512_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(quant_min & 0xff) * 0x1010101u))),
              quant_max_(
                  _mm512_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(quant_max & 0xff) * 0x1010101u))),
              has_all_codes_(quant_min == INT8_MIN && quant_max == INT8_MAX) {}

        /// @param code  one to four vectors
        template <class... I32>
        INTQ_ALWAYS_INLINE void store(std::int8_t* to, index_t count, const I32&... code) const noexcept {
            constexpr int vectors = static_cast<int>(sizeof...(I32));
            static_assert(vectors >= 1 && vectors <= 4);
            const __m512i v[] = {code.v...};
            // Saturation to int16 leaves enough of a code of 8 bits, with a zero point of 8 bits too.
            const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(v[0], v[vectors > 1 ? 1 : 0]), zero_point_);
            __m512i high = low;
            if constexpr (vectors > 2)
                high = _mm512_adds_epi16(_mm512_packs_epi32(v[2], v[vectors > 3 ? 3 : 2]), zero_point_);
            const __m512i codes = clamp(pack(low, high));
            if (count == 16 * vectors)
                store_whole<vectors>(to, codes);
            else
                _mm512_mask_storeu_epi8(to, (std::uint64_t{1} << count) - 1, codes);
        }

        /// The codes of four whole vectors of reals, rounded to the nearest, ties to even; NaN is 0.
        INTQ_ALWAYS_INLINE void store_rounded(std::int8_t* to, f32 a, f32 b, f32 c, f32 d) const noexcept {
            const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            _mm512_storeu_si512(to, clamp(_mm512_permutexvar_epi32(order, round_and_pack(a, b, c, d))));
        }

        /// The vectors of two or four rows, `4 / Rows` each, narrowed as one.
        template <std::size_t Rows>
        INTQ_ALWAYS_INLINE void store_rows(std::int8_t* const (&to)[Rows], index_t count,
                                           const i32 (&code)[4]) const noexcept {
            const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(code[0].v, code[1].v), zero_point_);
            const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(code[2].v, code[3].v), zero_point_);
            const __m512i codes = clamp(pack(low, high));
            const std::uint64_t mask = (std::uint64_t{1} << count) - 1;
            if constexpr (Rows == 2) {
                const __m256i row[] = {_mm512_castsi512_si256(codes), _mm512_extracti64x4_epi64(codes, 1)};
                INTQ_UNROLL
                for (std::size_t r = 0; r < Rows; ++r)
                    _mm256_mask_storeu_epi8(to[r], static_cast<__mmask32>(mask), row[r]);
            } else {
                static_assert(Rows == 4);
                const __m128i row[] = {_mm512_castsi512_si128(codes), _mm512_extracti32x4_epi32(codes, 1),
                                       _mm512_extracti32x4_epi32(codes, 2), _mm512_extracti32x4_epi32(codes, 3)};
                INTQ_UNROLL
                for (std::size_t r = 0; r < Rows; ++r)
                    _mm_mask_storeu_epi8(to[r], static_cast<__mmask16>(mask), row[r]);
            }
        }

        /// Packing collects the elements that unpacking dealt out.
        INTQ_ALWAYS_INLINE void store_runs(std::int8_t* to, i32 a, i32 b, i32 c, i32 d, index_t count) const noexcept {
            const __m512i codes = runs(a, b, c, d);
            if (count == 64)
                _mm512_storeu_si512(to, codes);
            else
                _mm512_mask_storeu_epi8(to, (std::uint64_t{1} << count) - 1, codes);
        }

        INTQ_ALWAYS_INLINE void store_pair(std::int8_t* low, std::int8_t* high, i32 a, i32 b, i32 c, i32 d,
                                           index_t count) const noexcept {
            const __m512i codes = runs(a, b, c, d);
            const __m256i halves[] = {_mm512_castsi512_si256(codes), _mm512_extracti64x4_epi64(codes, 1)};
            std::int8_t* const to[] = {low, high};
            const auto mask = static_cast<__mmask32>((std::uint64_t{1} << count) - 1);
            INTQ_UNROLL
            for (int i = 0; i < 2; ++i)
                if (count == 32)
                    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to[i]), halves[i]);
                else
                    _mm256_mask_storeu_epi8(to[i], mask, halves[i]);
        }

    private:
        INTQ_ALWAYS_INLINE __m512i runs(i32 a, i32 b, i32 c, i32 d) const noexcept {
            const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(a.v, b.v), zero_point_);
            const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(c.v, d.v), zero_point_);
            return clamp(_mm512_packs_epi16(low, high));
        }
        static INTQ_ALWAYS_INLINE __m512i convert(f32 a) noexcept { return _mm512_cvt_roundps_epi32(a.v, nearest); }
        static INTQ_ALWAYS_INLINE __m512i exact(f32 a) noexcept { return round_to_i32(replace_nan(a, set(0.0f))).v; }
        /// In each quarter of the register, four codes of a, of b, of c and of d, before the clamp.
        INTQ_ALWAYS_INLINE __m512i round_and_pack(f32 a, f32 b, f32 c, f32 d) const noexcept {
            __m512i low = _mm512_packs_epi32(convert(a), convert(b)), high = _mm512_packs_epi32(convert(c), convert(d));
            // Conversion returns -2^31 for NaN and for numbers that no int32 holds; few of the rest come near -2^15.
            if (_mm512_cmpeq_epi16_mask(_mm512_min_epi16(low, high), _mm512_set1_epi16(INT16_MIN)) != 0) {
                low = _mm512_packs_epi32(exact(a), exact(b));
                high = _mm512_packs_epi32(exact(c), exact(d));
            }
            return _mm512_packs_epi16(_mm512_adds_epi16(low, zero_point_), _mm512_adds_epi16(high, zero_point_));
        }
        /// Packing saturates to all codes of int8, so that nothing is left to do where a layer has them all.
        INTQ_ALWAYS_INLINE __m512i clamp(__m512i codes) const noexcept {
            if (has_all_codes_) return codes;
            return _mm512_min_epi8(_mm512_max_epi8(codes, quant_min_), quant_max_);
        }
        template <int Vectors> static INTQ_ALWAYS_INLINE void store_whole(std::int8_t* to, __m512i codes) noexcept {
            if constexpr (Vectors == 4)
                _mm512_storeu_si512(to, codes);
            else if constexpr (Vectors == 3)
                _mm512_mask_storeu_epi8(to, 0xffffffffffff, codes);
            else if constexpr (Vectors == 2)
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(codes));
            else
                _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_castsi512_si128(codes));
        }

        __m512i zero_point_, quant_min_, quant_max_;
        bool has_all_codes_;
    };

    /// Sums of bytes in 16 bits.
    class ByteSums {
    public:
        INTQ_ALWAYS_INLINE void add(const std::int8_t* from) noexcept {
            const auto* const bytes = reinterpret_cast<const __m256i*>(from);
            low_ = _mm512_add_epi16(low_, _mm512_cvtepi8_epi16(_mm256_loadu_si256(bytes)));
            high_ = _mm512_add_epi16(high_, _mm512_cvtepi8_epi16(_mm256_loadu_si256(bytes + 1)));
        }
        template <int Vector> INTQ_ALWAYS_INLINE i32 vector() const noexcept {
            return {_mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(Vector < 2 ? low_ : high_, Vector % 2))};
        }

    private:
        __m512i low_ = _mm512_setzero_si512(), high_ = _mm512_setzero_si512();
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

    static INTQ_ALWAYS_INLINE void widen_bytes(const std::int8_t* from, std::int16_t* to, index_t size) noexcept {
        for (index_t i = 0; i < size; i += 32) {
            const auto mask = size - i < 32 ? (std::uint32_t{1} << (size - i)) - 1 : ~std::uint32_t{0};
            _mm512_mask_storeu_epi16(to + i, mask, _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, from + i)));
        }
    }

    // --- int32 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 set(std::int32_t value) noexcept { return {_mm512_set1_epi32(value)}; }
    static INTQ_ALWAYS_INLINE i32 add(i32 a, i32 b) noexcept { return {_mm512_add_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 sub(i32 a, i32 b) noexcept { return {_mm512_sub_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 mul(i32 a, i32 b) noexcept { return {_mm512_mullo_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32(min)(i32 a, i32 b) noexcept { return {_mm512_min_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32(max)(i32 a, i32 b) noexcept { return {_mm512_max_epi32(a.v, b.v)}; }
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
    /// The low half is the result where the high half is its sign; else the sign of the high half saturates.
    static INTQ_ALWAYS_INLINE i32 narrow(i64 a) noexcept {
        const __m512i low = _mm512_mask_shuffle_epi32(a.even, 0xaaaa, a.odd, _MM_PERM_CCAA);
        const __m512i high = _mm512_mask_shuffle_epi32(a.odd, 0x5555, a.even, _MM_PERM_DDBB);
        const __mmask16 fits = _mm512_cmpeq_epi32_mask(high, _mm512_srai_epi32(low, 31));
        const __m512i limit = _mm512_xor_si512(_mm512_srai_epi32(high, 31), _mm512_set1_epi32(INT32_MAX));
        return {_mm512_mask_mov_epi32(limit, fits, low)};
    }

    static INTQ_ALWAYS_INLINE i32 sqrdmulh(i32 a, i32 b) noexcept {
        const __m512i half = _mm512_set1_epi64(std::int64_t{1} << 30);
        const i64 product = mul_wide(a, b);
        const __m512i even = _mm512_srli_epi64(_mm512_add_epi64(product.even, half), 31);
        const __m512i odd = _mm512_slli_epi64(_mm512_add_epi64(product.odd, half), 1);
        return {_mm512_mask_mov_epi32(odd, 0x5555, even)};
    }
    /// The high halves of b are zero: a pair's sum is the product of the low ones.
    static INTQ_ALWAYS_INLINE i32 mul_short(i32 a, i32 b) noexcept { return {_mm512_madd_epi16(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 bit_and(i32 a, i32 b) noexcept { return {_mm512_and_si512(a.v, b.v)}; }

    // --- float ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 set(float value) noexcept { return {_mm512_set1_ps(value)}; }
    static INTQ_ALWAYS_INLINE f32 add(f32 a, f32 b) noexcept { return {_mm512_add_round_ps(a.v, b.v, nearest)}; }
    static INTQ_ALWAYS_INLINE f32 sub(f32 a, f32 b) noexcept { return {_mm512_sub_round_ps(a.v, b.v, nearest)}; }
    static INTQ_ALWAYS_INLINE f32 mul(f32 a, f32 b) noexcept { return {_mm512_mul_round_ps(a.v, b.v, nearest)}; }
    static INTQ_ALWAYS_INLINE f32 div(f32 a, f32 b) noexcept { return {_mm512_div_round_ps(a.v, b.v, nearest)}; }
    static INTQ_ALWAYS_INLINE f32 fma(f32 a, f32 b, f32 c) noexcept {
        return {_mm512_fmadd_round_ps(a.v, b.v, c.v, nearest)};
    }
    static INTQ_ALWAYS_INLINE f32(min)(f32 a, f32 b) noexcept { return {_mm512_min_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32(max)(f32 a, f32 b) noexcept { return {_mm512_max_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 floor(f32 a) noexcept {
        return positive_zero(_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    }
    static INTQ_ALWAYS_INLINE f32 round_half_even(f32 a) noexcept {
        return positive_zero(_mm512_roundscale_ps(a.v, nearest));
    }
    /// A table of what to do by class of a: keep b for the two kinds of NaN, take a for the other six.
    static INTQ_ALWAYS_INLINE f32 replace_nan(f32 a, f32 b) noexcept {
        return {_mm512_fixupimm_ps(b.v, a.v, _mm512_set1_epi32(0x11111100), 0)};
    }
    static INTQ_ALWAYS_INLINE f32 keep_inside(f32 a, f32 low, f32 high, f32 b) noexcept {
        const __mmask16 above = _mm512_cmp_ps_mask(a.v, low.v, _CMP_GE_OQ);
        return {_mm512_maskz_mov_ps(_mm512_mask_cmp_ps_mask(above, a.v, high.v, _CMP_LE_OQ), b.v)};
    }
    static INTQ_ALWAYS_INLINE f32 choose_inside(f32 a, f32 low, f32 high, f32 b, f32 c) noexcept {
        const __mmask16 above = _mm512_cmp_ps_mask(a.v, low.v, _CMP_GE_OQ);
        return {_mm512_mask_mov_ps(c.v, _mm512_mask_cmp_ps_mask(above, a.v, high.v, _CMP_LE_OQ), b.v)};
    }
    static INTQ_ALWAYS_INLINE f32 hold(f32 a) noexcept {
        asm("" : "+v"(a.v));
        return a;
    }
    /// a · b + c for sums whose bits are not promised.
    static INTQ_ALWAYS_INLINE f32 mul_add(f32 a, f32 b, f32 c) noexcept { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

    // --- conversions and reductions -------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 to_f32(i32 a) noexcept { return {_mm512_cvt_roundepi32_ps(a.v, nearest)}; }
    static INTQ_ALWAYS_INLINE f32 to_f32(i64 a) noexcept {
        const __m512 even = _mm512_castps256_ps512(_mm512_cvt_roundepi64_ps(a.even, nearest));
        const __m512 odd = _mm512_castps256_ps512(_mm512_cvt_roundepi64_ps(a.odd, nearest));
        const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        return {_mm512_permutex2var_ps(even, order, odd)};
    }
    static INTQ_ALWAYS_INLINE i32 to_i32(f32 a) noexcept { return {_mm512_cvttps_epi32(a.v)}; }
    static INTQ_ALWAYS_INLINE i32 round_to_i32(f32 a) noexcept {
        // Numbers that are too small become -2^31 by themselves.
        return {_mm512_cvt_roundps_epi32(_mm512_min_ps(a.v, _mm512_set1_ps(2147483520.0f)), nearest)};
    }
    static INTQ_ALWAYS_INLINE i32 round_small_to_i32(f32 a) noexcept {
        return {_mm512_cvt_roundps_epi32(a.v, nearest)};
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
    /// int8 codes of two registers from _mm512_packs_epi32: it and this pack work in quarters of a register, which
    /// leaves the dwords of the four vectors interleaved.
    static INTQ_ALWAYS_INLINE __m512i pack(__m512i low, __m512i high) noexcept {
        const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        return _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
    }
#    ifndef __AVX512VBMI__
    /// entries[128 + i] and entries[i] as the low and the high byte of word i, for i < 32.
    static INTQ_ALWAYS_INLINE __m512i words(const std::int8_t* entries) noexcept {
        const auto widened = [](const std::int8_t* from) INTQ_ALWAYS_INLINE_LAMBDA {
            return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
        };
        return _mm512_or_si512(widened(entries + 128), _mm512_slli_epi16(widened(entries), 8));
    }
    /// The word that the lower seven bits of an index name; `upper` has the seventh.
    static INTQ_ALWAYS_INLINE __m512i table_word(const table& t, __m512i index, __mmask32 upper) noexcept {
        return _mm512_mask_mov_epi16(_mm512_permutex2var_epi16(t.quarter[0], index, t.quarter[1]), upper,
                                     _mm512_permutex2var_epi16(t.quarter[2], index, t.quarter[3]));
    }
#    endif
    static INTQ_ALWAYS_INLINE __mmask64 first_bytes(index_t count) noexcept {
        return count < 64 ? (__mmask64{1} << static_cast<unsigned>(count)) - 1 : ~__mmask64{0};
    }
    static INTQ_ALWAYS_INLINE __mmask8 low_half(index_t count) noexcept { return static_cast<__mmask8>(first(count)); }
    static INTQ_ALWAYS_INLINE __mmask8 high_half(index_t count) noexcept {
        return static_cast<__mmask8>(first(count) >> 8);
    }
    static INTQ_ALWAYS_INLINE __m512d low_half(f32 a) noexcept { return _mm512_cvtps_pd(_mm512_castps512_ps256(a.v)); }
    static INTQ_ALWAYS_INLINE __m512d high_half(f32 a) noexcept {
        return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a.v, 1));
    }
    static INTQ_ALWAYS_INLINE void add_half(double* sums, __m512d a, __m512d b, __m512d c, __m512d d) noexcept {
        const __m512d four =
            _mm512_add_round_pd(_mm512_add_round_pd(a, b, nearest), _mm512_add_round_pd(c, d, nearest), nearest);
        _mm512_storeu_pd(sums, _mm512_add_round_pd(_mm512_loadu_pd(sums), four, nearest));
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

/// Registers and memory of tiles of 6 × 64, 9 × 48, 14 × 32 and 16 × 16: at most 28 sums, with the weights of a step,
/// 1 broadcast and 1 product in 32 registers.
template <class Activation, class Weight> struct Avx512Dot {
    using activation = Activation;
    using weight = Weight;
    using lanes = avx512_lanes;
    using Vector = __m512i;
    static constexpr int vectors = 4;
    static constexpr int max_rows(int panel_vectors) noexcept {
        return panel_vectors == 4 ? 6 : panel_vectors == 3 ? 9 : panel_vectors == 2 ? 14 : 16;
    }

    static INTQ_ALWAYS_INLINE Vector load(const void* from) noexcept { return _mm512_loadu_si512(from); }
    static INTQ_ALWAYS_INLINE Vector broadcast(std::int32_t group) noexcept { return _mm512_set1_epi32(group); }
};

/// Two products a lane and step, of int16 pairs. Only (-2^15)² + (-2^15)² wraps, in int32 as the tile's sum may.
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
    /// Channels 4i … 4i + 3 and 16 + 4i … 16 + 4i + 3 in part i: unpacking then leaves them in order.
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

template <> struct DotsOf<avx512bw> {
    using int8_dot = detail::Avx512PairDot;
    using int16_dot = detail::Avx512PairDot;
    using depthwise_int8 = GroupDepthwiseTile<detail::Avx512PairDot, detail::Avx512PairRows<std::int8_t>>;
    using depthwise_int16 = GroupDepthwiseTile<detail::Avx512PairDot, detail::Avx512PairRows<std::int16_t>>;
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#    if defined(__GNUC__) && !defined(__clang__)
#        pragma GCC diagnostic pop
#    endif

#endif  // AVX-512 F, BW, DQ, VL

#endif  // INTQ_SIMD_X86_AVX512BW_HPP
