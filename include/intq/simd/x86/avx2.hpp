// SPDX-License-Identifier: MIT
//
// The AVX2 backend: 8 lanes, and tiles of int16 pairs. Layer: simd (docs/design.md sections 5, 11).
// Long because a backend is one file, and this one has a body for every primitive.
#ifndef INTQ_SIMD_X86_AVX2_HPP
#define INTQ_SIMD_X86_AVX2_HPP

#if defined(__AVX2__) && defined(__x86_64__)

#    include <cstdint>

#    include "intq/simd/base/intrinsics.hpp"
#    include "intq/simd/tiles/dot_tiles.hpp"
#    include "intq/simd/tiles/generic_tile.hpp"

#    include "intq/arith/ieee.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// Eight lanes. An i64 is two registers, of the even and of the odd lanes: where vpmuldq puts its products.
/// Each function does in every lane what arith::scalar_lanes does.
struct avx2_lanes {
    struct i32 {
        __m256i v;
    };
    struct i64 {
        __m256i even, odd;
    };
    struct f32 {
        __m256 v;
    };

    static constexpr index_t width() noexcept { return 8; }
    /// Vector registers of the machine: bounds the rows of the portable tile.
    static constexpr int registers = 16;

    // --- memory ---------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from) noexcept {
        return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from) noexcept {
        return {_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from) noexcept { return {raw(from)}; }
    static INTQ_ALWAYS_INLINE f32 load(const float* from) noexcept { return {_mm256_loadu_ps(from)}; }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from) noexcept {
        return deinterleave(raw(from), raw(from + 4));
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from, index_t count) noexcept {
        return {_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(static_cast<long long>(detail::read_bytes(from, count))))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from, index_t count) noexcept {
        const detail::Bytes16 bytes = detail::read_bytes16(from, 2 * count);
        return {_mm256_cvtepi16_epi32(
            _mm_set_epi64x(static_cast<long long>(bytes.high), static_cast<long long>(bytes.low)))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from, index_t count) noexcept {
        return {_mm256_maskload_epi32(from, first(count))};
    }
    static INTQ_ALWAYS_INLINE f32 load(const float* from, index_t count) noexcept {
        return {_mm256_maskload_ps(from, first(count))};
    }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from, index_t count) noexcept {
        const auto* p = reinterpret_cast<const long long*>(from);
        return deinterleave(_mm256_maskload_epi64(p, first4(count)), _mm256_maskload_epi64(p + 4, first4(count - 4)));
    }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x) noexcept {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), narrow8(x));
    }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x) noexcept {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), narrow16(x));
    }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x) noexcept {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x.v);
    }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x) noexcept { _mm256_storeu_ps(to, x.v); }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x) noexcept {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), interleave_low(x));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 4), interleave_high(x));
    }
    /// Packing works in halves of a register: two steps leave the dwords of the four vectors interleaved.
    static INTQ_ALWAYS_INLINE void store_four(std::int8_t* to, i32 a, i32 b, i32 c, i32 d) noexcept {
        const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a.v, b.v), _mm256_packs_epi32(c.v, d.v));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                            _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    }
    static INTQ_ALWAYS_INLINE void store_triples(std::int8_t* to, i32 x) noexcept {
        // Three bytes of four in each half of the register, then three quarters of it.
        const __m256i bytes = _mm256_broadcastsi128_si256(_mm_setr_epi32(0x04020100, 0x09080605, 0x0e0d0c0a, -1));
        const __m256i order = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7);
        const __m256i codes = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(x.v, bytes), order);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(codes));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 16), _mm256_extracti128_si256(codes, 1));
    }
    static INTQ_ALWAYS_INLINE void add_to(double* sums, f32 a, f32 b, f32 c, f32 d) noexcept {
        add_half(sums, low_half(a), low_half(b), low_half(c), low_half(d));
        add_half(sums + 4, high_half(a), high_half(b), high_half(c), high_half(d));
    }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x, index_t count) noexcept {
        detail::write_bytes(to, static_cast<std::uint64_t>(_mm_cvtsi128_si64(narrow8(x))), count);
    }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x, index_t count) noexcept {
        detail::write_bytes16(to, words(narrow16(x)), 2 * count);
    }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x, index_t count) noexcept {
        _mm256_maskstore_epi32(to, first(count), x.v);
    }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x, index_t count) noexcept {
        _mm256_maskstore_ps(to, first(count), x.v);
    }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x, index_t count) noexcept {
        auto* p = reinterpret_cast<long long*>(to);
        _mm256_maskstore_epi64(p, first4(count), interleave_low(x));
        _mm256_maskstore_epi64(p + 4, first4(count - 4), interleave_high(x));
    }

    /// int8 codes of four vectors: narrowed together, and clamped as bytes.
    class CodeQuad {
    public:
        INTQ_ALWAYS_INLINE CodeQuad(std::int32_t zero_point, std::int32_t quant_min, std::int32_t quant_max) noexcept
            : zero_point_(_mm256_set1_epi16(static_cast<std::int16_t>(zero_point))),
              quant_min_(_mm256_set1_epi8(static_cast<std::int8_t>(quant_min))),
              quant_max_(_mm256_set1_epi8(static_cast<std::int8_t>(quant_max))) {}

        /// @param code  one to four vectors
        template <class... I32>
        INTQ_ALWAYS_INLINE void store(std::int8_t* to, index_t count, const I32&... code) const noexcept {
            constexpr int vectors = static_cast<int>(sizeof...(I32));
            static_assert(vectors >= 1 && vectors <= 4);
            const __m256i v[] = {code.v...};
            // Saturation to int16 leaves enough of a code of 8 bits, with a zero point of 8 bits too.
            const __m256i low = _mm256_adds_epi16(_mm256_packs_epi32(v[0], v[vectors > 1 ? 1 : 0]), zero_point_);
            __m256i high = low;
            if constexpr (vectors > 2)
                high = _mm256_adds_epi16(_mm256_packs_epi32(v[2], v[vectors > 3 ? 3 : 2]), zero_point_);
            const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            const __m256i codes = clamp(_mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
            if (vectors == 4 && count == 32) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), codes);
            const __m128i first = _mm256_castsi256_si128(codes);
            if (vectors == 1 || count < 16) return store_part(to, first, count);
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to), first);
            if constexpr (vectors > 2) {
                const __m128i rest = _mm256_extracti128_si256(codes, 1);
                if (count == 24) return _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 16), rest);
                store_part(to + 16, rest, count - 16);
            }
        }

        /// The vectors of two or four rows, `4 / Rows` each, narrowed as one.
        template <std::size_t Rows>
        INTQ_ALWAYS_INLINE void store_rows(std::int8_t* const (&to)[Rows], index_t count,
                                           const i32 (&code)[4]) const noexcept {
            const __m256i low = _mm256_adds_epi16(_mm256_packs_epi32(code[0].v, code[1].v), zero_point_);
            const __m256i high = _mm256_adds_epi16(_mm256_packs_epi32(code[2].v, code[3].v), zero_point_);
            const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            const __m256i codes = clamp(_mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
            const __m128i half[] = {_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1)};
            if constexpr (Rows == 2) {
                if (count == 16) {
                    INTQ_UNROLL
                    for (std::size_t r = 0; r < Rows; ++r) _mm_storeu_si128(reinterpret_cast<__m128i*>(to[r]), half[r]);
                } else {
                    INTQ_UNROLL
                    for (std::size_t r = 0; r < Rows; ++r) store_part(to[r], half[r], count);
                }
            } else {
                static_assert(Rows == 4);
                INTQ_UNROLL
                for (std::size_t r = 0; r < Rows; ++r) {
                    const __m128i row = r % 2 == 0 ? half[r / 2] : _mm_unpackhi_epi64(half[r / 2], half[r / 2]);
                    if (count == 8)
                        _mm_storel_epi64(reinterpret_cast<__m128i*>(to[r]), row);
                    else
                        detail::write_bytes(to[r], static_cast<std::uint64_t>(_mm_cvtsi128_si64(row)), count);
                }
            }
        }

        /// The codes of four whole vectors of reals, rounded to the nearest, ties to even; NaN is 0.
        INTQ_ALWAYS_INLINE void store_rounded(std::int8_t* to, f32 a, f32 b, f32 c, f32 d) const noexcept {
            __m256i low = _mm256_packs_epi32(convert(a), convert(b)), high = _mm256_packs_epi32(convert(c), convert(d));
            // Conversion returns -2^31 for NaN and for numbers that no int32 holds; few of the rest come near -2^15.
            const __m256i doubtful = _mm256_cmpeq_epi16(_mm256_min_epi16(low, high), _mm256_set1_epi16(INT16_MIN));
            if (_mm256_movemask_epi8(doubtful) != 0) {
                low = _mm256_packs_epi32(exact(a), exact(b));
                high = _mm256_packs_epi32(exact(c), exact(d));
            }
            const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            const __m256i codes =
                _mm256_packs_epi16(_mm256_adds_epi16(low, zero_point_), _mm256_adds_epi16(high, zero_point_));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), clamp(_mm256_permutevar8x32_epi32(codes, order)));
        }

    private:
        static INTQ_ALWAYS_INLINE __m256i convert(f32 a) noexcept {
            return _mm256_cvttps_epi32(_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        }
        static INTQ_ALWAYS_INLINE __m256i exact(f32 a) noexcept { return round_to_i32(replace_nan(a, set(0.0f))).v; }
        INTQ_ALWAYS_INLINE __m256i clamp(__m256i codes) const noexcept {
            return _mm256_min_epi8(_mm256_max_epi8(codes, quant_min_), quant_max_);
        }
        static INTQ_ALWAYS_INLINE void store_part(std::int8_t* to, __m128i codes, index_t count) noexcept {
            const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(codes));
            detail::write_bytes16(to, {low, static_cast<std::uint64_t>(_mm_extract_epi64(codes, 1))}, count);
        }

        __m256i zero_point_, quant_min_, quant_max_;
    };

    /// Sums of bytes in 16 bits.
    class ByteSums {
    public:
        INTQ_ALWAYS_INLINE void add(const std::int8_t* from) noexcept {
            const auto* const bytes = reinterpret_cast<const __m128i*>(from);
            low_ = _mm256_add_epi16(low_, _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes)));
            high_ = _mm256_add_epi16(high_, _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes + 1)));
        }
        template <int Vector> INTQ_ALWAYS_INLINE i32 vector() const noexcept {
            return {_mm256_cvtepi16_epi32(_mm256_extracti128_si256(Vector < 2 ? low_ : high_, Vector % 2))};
        }

    private:
        __m256i low_ = _mm256_setzero_si256(), high_ = _mm256_setzero_si256();
    };

    /// to[i] = from[i] ^ 0x80: two's complement bytes to offset-binary and back; any size.
    static INTQ_ALWAYS_INLINE void flip_top_bits(const std::uint8_t* from, std::uint8_t* to, index_t size) noexcept {
        const __m256i top = _mm256_set1_epi8(-128);
        index_t i = 0;
        for (; i + 32 <= size; i += 32) {
            const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_xor_si256(bytes, top));
        }
        for (; i < size; ++i) to[i] = static_cast<std::uint8_t>(from[i] ^ 0x80u);
    }

    static INTQ_ALWAYS_INLINE void widen_bytes(const std::int8_t* from, std::int16_t* to, index_t size) noexcept {
        index_t i = 0;
        for (; i + 16 <= size; i += 16) {
            const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_cvtepi8_epi16(bytes));
        }
        for (; i < size; ++i) to[i] = from[i];
    }

    // --- packed codes ---------------------------------------------------------------------------------------
    template <class T> struct packed { __m256i v; };
    template <class T> static constexpr index_t packed_width() noexcept { return index_t{32} / sizeof(T); }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> load_packed(const T* from) noexcept { return {raw(from)}; }
    template <class T> static INTQ_ALWAYS_INLINE void store_packed(T* to, packed<T> x) noexcept {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x.v);
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> load_packed(const T* from, index_t count) noexcept {
        const index_t bytes = count * index_t{sizeof(T)}, first = bytes < 16 ? bytes : 16;
        const auto* const p = reinterpret_cast<const unsigned char*>(from);
        const detail::Bytes16 low = detail::read_bytes16(p, first),
                              high = detail::read_bytes16(p + first, bytes - first);
        return {_mm256_set_epi64x(static_cast<long long>(high.high), static_cast<long long>(high.low),
                                  static_cast<long long>(low.high), static_cast<long long>(low.low))};
    }
    template <class T> static INTQ_ALWAYS_INLINE void store_packed(T* to, packed<T> x, index_t count) noexcept {
        const index_t bytes = count * index_t{sizeof(T)}, first = bytes < 16 ? bytes : 16;
        auto* const p = reinterpret_cast<unsigned char*>(to);
        detail::write_bytes16(p, words(_mm256_castsi256_si128(x.v)), first);
        detail::write_bytes16(p + first, words(_mm256_extracti128_si256(x.v, 1)), bytes - first);
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> set_packed(T value) noexcept {
        if constexpr (sizeof(T) == 1) {
            return {_mm256_set1_epi8(value)};
        } else {
            return {_mm256_set1_epi16(value)};
        }
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> min_packed(packed<T> a, packed<T> b) noexcept {
        if constexpr (sizeof(T) == 1) {
            return {_mm256_min_epi8(a.v, b.v)};
        } else {
            return {_mm256_min_epi16(a.v, b.v)};
        }
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> max_packed(packed<T> a, packed<T> b) noexcept {
        if constexpr (sizeof(T) == 1) {
            return {_mm256_max_epi8(a.v, b.v)};
        } else {
            return {_mm256_max_epi16(a.v, b.v)};
        }
    }
    struct table {
        const std::int8_t* entries;
    };
    static INTQ_ALWAYS_INLINE table load_table(const std::int8_t* entries) noexcept { return {entries}; }
    /// Four bits of a code choose in each sixteenth of the table, the other four choose among the sixteenths.
    static INTQ_ALWAYS_INLINE packed<std::int8_t> look_up(const table& t, packed<std::int8_t> x) noexcept {
        const __m256i index = _mm256_xor_si256(x.v, _mm256_set1_epi8(-128));
        return {part<128>(t.entries, index, _mm256_and_si256(index, _mm256_set1_epi8(15)))};
    }

    static INTQ_ALWAYS_INLINE i32 gather_pair(const std::int16_t* from, i32 index) noexcept {
        return {_mm256_i32gather_epi32(reinterpret_cast<const int*>(from), index.v, sizeof(std::int16_t))};
    }

    // --- int32 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 set(std::int32_t value) noexcept { return {_mm256_set1_epi32(value)}; }
    static INTQ_ALWAYS_INLINE i32 add(i32 a, i32 b) noexcept { return {_mm256_add_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 sub(i32 a, i32 b) noexcept { return {_mm256_sub_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 mul(i32 a, i32 b) noexcept { return {_mm256_mullo_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32(min)(i32 a, i32 b) noexcept { return {_mm256_min_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32(max)(i32 a, i32 b) noexcept { return {_mm256_max_epi32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 shift_left(i32 a, i32 n) noexcept { return {_mm256_sllv_epi32(a.v, n.v)}; }
    static INTQ_ALWAYS_INLINE i32 shift_right(i32 a, i32 n) noexcept { return {_mm256_srav_epi32(a.v, n.v)}; }

    // --- int64 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i64 set_i64(std::int64_t value) noexcept {
        const __m256i v = _mm256_set1_epi64x(value);
        return {v, v};
    }
    static INTQ_ALWAYS_INLINE i64 widen(i32 a) noexcept {
        const __m256i sign = _mm256_srai_epi32(a.v, 31);
        return {_mm256_blend_epi32(a.v, _mm256_slli_epi64(sign, 32), odd_lanes),
                _mm256_blend_epi32(_mm256_srli_epi64(a.v, 32), sign, odd_lanes)};
    }
    static INTQ_ALWAYS_INLINE i64 mul_wide(i32 a, i32 b) noexcept {
        return {_mm256_mul_epi32(a.v, b.v), _mm256_mul_epi32(_mm256_srli_epi64(a.v, 32), _mm256_srli_epi64(b.v, 32))};
    }
    static INTQ_ALWAYS_INLINE i64 mul(i64 a, i64 b) noexcept {
        return {mul_low(a.even, b.even), mul_low(a.odd, b.odd)};
    }
    static INTQ_ALWAYS_INLINE i64 add(i64 a, i64 b) noexcept {
        return {_mm256_add_epi64(a.even, b.even), _mm256_add_epi64(a.odd, b.odd)};
    }
    static INTQ_ALWAYS_INLINE i64 shift_left(i64 a, i64 n) noexcept {
        return {_mm256_sllv_epi64(a.even, n.even), _mm256_sllv_epi64(a.odd, n.odd)};
    }
    static INTQ_ALWAYS_INLINE i64 shift_right(i64 a, i64 n) noexcept {
        return {shift_right(a.even, n.even), shift_right(a.odd, n.odd)};
    }
    /// The low half is the result where the high half is its sign; else the sign of the high half saturates.
    static INTQ_ALWAYS_INLINE i32 narrow(i64 a) noexcept {
        const __m256i low = _mm256_blend_epi32(a.even, _mm256_slli_epi64(a.odd, 32), odd_lanes);
        const __m256i high = _mm256_blend_epi32(_mm256_srli_epi64(a.even, 32), a.odd, odd_lanes);
        const __m256i fits = _mm256_cmpeq_epi32(high, _mm256_srai_epi32(low, 31));
        const __m256i limit = _mm256_xor_si256(_mm256_srai_epi32(high, 31), _mm256_set1_epi32(INT32_MAX));
        return {_mm256_blendv_epi8(limit, low, fits)};
    }

    static INTQ_ALWAYS_INLINE i32 sqrdmulh(i32 a, i32 b) noexcept {
        const __m256i half = _mm256_set1_epi64x(std::int64_t{1} << 30);
        const i64 product = mul_wide(a, b);
        const __m256i even = _mm256_srli_epi64(_mm256_add_epi64(product.even, half), 31);
        const __m256i odd = _mm256_slli_epi64(_mm256_add_epi64(product.odd, half), 1);
        return {_mm256_blend_epi32(even, odd, 0xaa)};
    }
    /// The high halves of b are zero: a pair's sum is the product of the low ones.
    static INTQ_ALWAYS_INLINE i32 mul_short(i32 a, i32 b) noexcept { return {_mm256_madd_epi16(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 bit_and(i32 a, i32 b) noexcept { return {_mm256_and_si256(a.v, b.v)}; }

    // --- float ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 set(float value) noexcept { return {_mm256_set1_ps(value)}; }
    static INTQ_ALWAYS_INLINE f32 add(f32 a, f32 b) noexcept { return {_mm256_add_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 sub(f32 a, f32 b) noexcept { return {_mm256_sub_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 mul(f32 a, f32 b) noexcept { return barrier(_mm256_mul_ps(a.v, b.v)); }
    static INTQ_ALWAYS_INLINE f32 div(f32 a, f32 b) noexcept { return barrier(_mm256_div_ps(a.v, b.v)); }
    static INTQ_ALWAYS_INLINE f32(min)(f32 a, f32 b) noexcept { return {_mm256_min_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32(max)(f32 a, f32 b) noexcept { return {_mm256_max_ps(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 floor(f32 a) noexcept {
        return positive_zero(_mm256_round_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    }
    static INTQ_ALWAYS_INLINE f32 round_half_even(f32 a) noexcept {
        return positive_zero(_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    static INTQ_ALWAYS_INLINE f32 replace_nan(f32 a, f32 b) noexcept {
        return {_mm256_blendv_ps(a.v, b.v, _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q))};
    }
    static INTQ_ALWAYS_INLINE f32 keep_inside(f32 a, f32 low, f32 high, f32 b) noexcept {
        const __m256 inside =
            _mm256_and_ps(_mm256_cmp_ps(a.v, low.v, _CMP_GE_OQ), _mm256_cmp_ps(a.v, high.v, _CMP_LE_OQ));
        return {_mm256_and_ps(inside, b.v)};
    }
    static INTQ_ALWAYS_INLINE f32 choose_inside(f32 a, f32 low, f32 high, f32 b, f32 c) noexcept {
        const __m256 inside =
            _mm256_and_ps(_mm256_cmp_ps(a.v, low.v, _CMP_GE_OQ), _mm256_cmp_ps(a.v, high.v, _CMP_LE_OQ));
        return {_mm256_blendv_ps(c.v, b.v, inside)};
    }
    static INTQ_ALWAYS_INLINE f32 hold(f32 a) noexcept { return barrier(a.v); }
#    ifdef __FMA__
    static INTQ_ALWAYS_INLINE f32 fma(f32 a, f32 b, f32 c) noexcept { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
    /// a · b + c for sums whose bits are not promised.
    static INTQ_ALWAYS_INLINE f32 mul_add(f32 a, f32 b, f32 c) noexcept { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
#    else
    static INTQ_ALWAYS_INLINE f32 fma(f32 a, f32 b, f32 c) noexcept {
        alignas(32) float x[8], y[8], z[8];
        _mm256_store_ps(x, a.v);
        _mm256_store_ps(y, b.v);
        _mm256_store_ps(z, c.v);
        for (int i = 0; i < 8; ++i) z[i] = arith::ffma(x[i], y[i], z[i]);
        return {_mm256_load_ps(z)};
    }
#    endif

    // --- conversions and reductions -------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 to_f32(i32 a) noexcept { return {_mm256_cvtepi32_ps(a.v)}; }
    static INTQ_ALWAYS_INLINE f32 to_f32(i64 a) noexcept {
        const __m128 even = _mm256_cvtpd_ps(exact_double(a.even)), odd = _mm256_cvtpd_ps(exact_double(a.odd));
        return {_mm256_set_m128(_mm_unpackhi_ps(even, odd), _mm_unpacklo_ps(even, odd))};
    }
    static INTQ_ALWAYS_INLINE i32 to_i32(f32 a) noexcept { return {_mm256_cvttps_epi32(a.v)}; }
    static INTQ_ALWAYS_INLINE i32 round_to_i32(f32 a) noexcept {
        // Numbers that are too small become -2^31 by themselves.
        const __m256 below = _mm256_min_ps(a.v, _mm256_set1_ps(2147483520.0f));
        return {_mm256_cvttps_epi32(_mm256_round_ps(below, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))};
    }
    static INTQ_ALWAYS_INLINE i32 round_small_to_i32(f32 a) noexcept {
        return {_mm256_cvttps_epi32(_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))};
    }
    /// While it lives, its thread rounds to the nearest, ties to even.
    class NearestMode {
    public:
        NearestMode() noexcept : given_(_mm_getcsr()) {
            if (is_another()) _mm_setcsr(given_ & ~static_cast<unsigned>(_MM_ROUND_MASK));
        }
        ~NearestMode() {
            if (is_another()) _mm_setcsr(given_);
        }
        NearestMode(const NearestMode&) = delete;
        NearestMode& operator=(const NearestMode&) = delete;

    private:
        bool is_another() const noexcept { return (given_ & _MM_ROUND_MASK) != _MM_ROUND_NEAREST; }
        unsigned given_;
    };
    /// vcvtps2dq takes the mode of the thread; vroundps has one of its own, but leaves a float to convert.
    static INTQ_ALWAYS_INLINE i32 round_in_mode(f32 a) noexcept { return {_mm256_cvtps_epi32(a.v)}; }
    static INTQ_ALWAYS_INLINE f32 from_bits(i32 a) noexcept { return {_mm256_castsi256_ps(a.v)}; }
    static INTQ_ALWAYS_INLINE float reduce_min(f32 a) noexcept {
        __m128 m = _mm_min_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
        m = _mm_min_ps(m, _mm_movehl_ps(m, m));
        return _mm_cvtss_f32(_mm_min_ss(m, _mm_movehdup_ps(m))) + 0.0f;
    }
    static INTQ_ALWAYS_INLINE float reduce_max(f32 a) noexcept {
        __m128 m = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
        m = _mm_max_ps(m, _mm_movehl_ps(m, m));
        return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m))) + 0.0f;
    }
    static INTQ_ALWAYS_INLINE bool all_finite(f32 a) noexcept {
        const __m256i exponent = _mm256_set1_epi32(0x7f800000);
        const __m256i bits = _mm256_and_si256(_mm256_castps_si256(a.v), exponent);
        return _mm256_movemask_epi8(_mm256_cmpeq_epi32(bits, exponent)) == 0;
    }

private:
    static constexpr int odd_lanes = 0xaa;

    static INTQ_ALWAYS_INLINE __m256i raw(const void* from) noexcept {
        return _mm256_loadu_si256(static_cast<const __m256i*>(from));
    }
    /// All ones in the first `count` lanes; any count.
    static INTQ_ALWAYS_INLINE __m256i first(index_t count) noexcept {
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                                  _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    }
    static INTQ_ALWAYS_INLINE __m256i first4(index_t count) noexcept {
        return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
    }
    /// Entries[index mod 2 · Half] of 2 · Half entries, low being index mod 16.
    template <int Half>
    static INTQ_ALWAYS_INLINE __m256i part(const std::int8_t* entries, __m256i index, __m256i low) noexcept {
        if constexpr (Half == 8) {
            const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(entries));
            return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(sixteen), low);
        } else {
            constexpr int to_sign = Half == 128 ? 0 : Half == 64 ? 1 : Half == 32 ? 2 : 3;
            const __m256i upper = _mm256_slli_epi16(index, to_sign);  // its top bits are read, byte by byte
            return _mm256_blendv_epi8(part<Half / 2>(entries, index, low), part<Half / 2>(entries + Half, index, low),
                                      upper);
        }
    }
    static INTQ_ALWAYS_INLINE detail::Bytes16 words(__m128i x) noexcept {
        return {static_cast<std::uint64_t>(_mm_cvtsi128_si64(x)), static_cast<std::uint64_t>(_mm_extract_epi64(x, 1))};
    }
    static INTQ_ALWAYS_INLINE __m128i narrow16(i32 x) noexcept {
        return _mm_packs_epi32(_mm256_castsi256_si128(x.v), _mm256_extracti128_si256(x.v, 1));
    }
    static INTQ_ALWAYS_INLINE __m128i narrow8(i32 x) noexcept {
        const __m128i narrow = narrow16(x);
        return _mm_packs_epi16(narrow, narrow);
    }
    static INTQ_ALWAYS_INLINE __m256d low_half(f32 a) noexcept { return _mm256_cvtps_pd(_mm256_castps256_ps128(a.v)); }
    static INTQ_ALWAYS_INLINE __m256d high_half(f32 a) noexcept {
        return _mm256_cvtps_pd(_mm256_extractf128_ps(a.v, 1));
    }
    static INTQ_ALWAYS_INLINE void add_half(double* sums, __m256d a, __m256d b, __m256d c, __m256d d) noexcept {
        const __m256d four = _mm256_add_pd(_mm256_add_pd(a, b), _mm256_add_pd(c, d));
        _mm256_storeu_pd(sums, _mm256_add_pd(_mm256_loadu_pd(sums), four));
    }
    /// double(a), exactly, for |a| <= 2^53. The halves of a are the low bits of two doubles:
    /// (2^84 + 2^63 + 2^32·high - (2^84 + 2^63 + 2^52)) + (2^52 + low), whose difference and sum are exact.
    static INTQ_ALWAYS_INLINE __m256d exact_double(__m256i a) noexcept {
        const __m256i low = _mm256_blend_epi32(a, _mm256_set1_epi64x(0x4330000000000000), odd_lanes);
        const __m256i high = _mm256_xor_si256(_mm256_srli_epi64(a, 32), _mm256_set1_epi64x(0x4530000080000000));
        const __m256d rest = _mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(0x1.00000801p84));
        return _mm256_add_pd(rest, _mm256_castsi256_pd(low));
    }
    /// {0 1 2 3}, {4 5 6 7} -> {0 2 4 6}, {1 3 5 7}, and back.
    static INTQ_ALWAYS_INLINE i64 deinterleave(__m256i low, __m256i high) noexcept {
        return {_mm256_permute4x64_epi64(_mm256_unpacklo_epi64(low, high), 0xd8),
                _mm256_permute4x64_epi64(_mm256_unpackhi_epi64(low, high), 0xd8)};
    }
    static INTQ_ALWAYS_INLINE __m256i interleave_low(i64 x) noexcept {
        return _mm256_permute2x128_si256(_mm256_unpacklo_epi64(x.even, x.odd), _mm256_unpackhi_epi64(x.even, x.odd),
                                         0x20);
    }
    static INTQ_ALWAYS_INLINE __m256i interleave_high(i64 x) noexcept {
        return _mm256_permute2x128_si256(_mm256_unpacklo_epi64(x.even, x.odd), _mm256_unpackhi_epi64(x.even, x.odd),
                                         0x31);
    }
    /// AVX2 has no such product: low·low + ((low·high + high·low) << 32).
    static INTQ_ALWAYS_INLINE __m256i mul_low(__m256i a, __m256i b) noexcept {
        const __m256i cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b),
                                               _mm256_mul_epu32(a, _mm256_srli_epi64(b, 32)));
        return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(cross, 32));
    }
    /// AVX2 has no such shift: a negative value is complemented before and after a logical one.
    static INTQ_ALWAYS_INLINE __m256i shift_right(__m256i a, __m256i n) noexcept {
        const __m256i sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), a);
        return _mm256_xor_si256(_mm256_srlv_epi64(_mm256_xor_si256(a, sign), n), sign);
    }
    /// vroundps keeps the sign of a zero; the specification's zero is positive.
    static INTQ_ALWAYS_INLINE f32 positive_zero(__m256 a) noexcept { return {_mm256_add_ps(a, _mm256_setzero_ps())}; }
    /// As arith::value_barrier: compilers contract even intrinsics to fma.
    static INTQ_ALWAYS_INLINE f32 barrier(__m256 a) noexcept {
        asm("" : "+x"(a));
        return {a};
    }
};

template <> struct LanesOf<avx2> { using type = avx2_lanes; };

namespace detail {

/// Two products a lane and step, of int16 pairs. Only (-2^15)² + (-2^15)² wraps, in int32 as the tile's sum may.
struct Avx2PairDot {
    using activation = std::int16_t;
    using weight = std::int16_t;
    using lanes = avx2_lanes;
    using Vector = __m256i;
    static constexpr int vectors = 2;
    /// 12 sums, the weights of a step, 1 broadcast and 1 product of 16 registers.
    static constexpr int max_rows(int panel_vectors) noexcept { return 12 / panel_vectors; }

    static INTQ_ALWAYS_INLINE Vector load(const void* from) noexcept {
        return _mm256_loadu_si256(static_cast<const __m256i*>(from));
    }
    static INTQ_ALWAYS_INLINE Vector broadcast(std::int32_t pair) noexcept { return _mm256_set1_epi32(pair); }
    static INTQ_ALWAYS_INLINE Vector dot(Vector acc, Vector x, Vector w) noexcept {
        return _mm256_add_epi32(acc, _mm256_madd_epi16(x, w));
    }
};

/// Rows of int8 or int16 in pairs of int16. A whole block is 16 channels.
template <class X> struct Avx2PairRows {
    using element = X;
    static constexpr int vectors = 2;
    static constexpr index_t run = 8;
    static constexpr int kept_weights = 0;

    static INTQ_ALWAYS_INLINE std::int32_t zero_point(std::int32_t code) noexcept {
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(code) & 0xffffu) * 0x00010001u);
    }
    template <int Vectors, int Count>
    static INTQ_ALWAYS_INLINE void interleave(const X* const* rows, index_t channels, __m256i* to) noexcept {
        if constexpr (Vectors == 1) {
            const __m256i a = vector(rows[0], channels);
            to[0] = a;
            if constexpr (Count == 2)
                to[0] = _mm256_blend_epi16(a, _mm256_slli_epi32(vector(rows[1], channels), 16), 0xaa);
        } else {
            const __m256i a = block(rows[0], channels), b = Count == 2 ? block(rows[Count - 1], channels) : a;
            to[0] = _mm256_unpacklo_epi16(a, b);
            to[1] = _mm256_unpackhi_epi16(a, b);
        }
    }

private:
    static INTQ_ALWAYS_INLINE __m256i vector(const X* from, index_t channels) noexcept {
        return (channels == 8 ? avx2_lanes::load(from) : avx2_lanes::load(from, channels)).v;
    }
    /// Channels 0 … 3, 8 … 11 in the low half: unpacking then leaves them in order.
    static INTQ_ALWAYS_INLINE __m256i block(const std::int8_t* from, index_t channels) noexcept {
        const __m128i bytes =
            channels < 16 ? part(from, channels) : _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
        return _mm256_cvtepi8_epi16(_mm_shuffle_epi32(bytes, 0xd8));
    }
    /// @pre channels > 8, as in every whole block
    static INTQ_ALWAYS_INLINE __m256i block(const std::int16_t* from, index_t channels) noexcept {
        const __m256i words = channels < 16 ? _mm256_setr_m128i(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)),
                                                                part(from + 8, 2 * (channels - 8)))
                                            : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        return _mm256_permute4x64_epi64(words, 0xd8);
    }
    static INTQ_ALWAYS_INLINE __m128i part(const void* from, index_t bytes) noexcept {
        const Bytes16 read = read_bytes16(from, bytes);
        return _mm_set_epi64x(static_cast<long long>(read.high), static_cast<long long>(read.low));
    }
};

}  // namespace detail

template <> struct DotsOf<avx2> {
    using int8_dot = detail::Avx2PairDot;
    using int16_dot = detail::Avx2PairDot;
    using depthwise_int8 = GroupDepthwiseTile<detail::Avx2PairDot, detail::Avx2PairRows<std::int8_t>>;
    using depthwise_int16 = GroupDepthwiseTile<detail::Avx2PairDot, detail::Avx2PairRows<std::int16_t>>;
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __AVX2__ && __x86_64__

#endif  // INTQ_SIMD_X86_AVX2_HPP
