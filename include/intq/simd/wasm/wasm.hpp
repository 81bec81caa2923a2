// SPDX-License-Identifier: MIT
//
// The lanes of the WebAssembly backend: 4 of them, in the vectors of 128 bits. Layer: simd (docs/design.md sections 5,
// 11).
// Long because the lanes are one struct, and this one has a body for every primitive.
#ifndef INTQ_SIMD_WASM_WASM_HPP
#define INTQ_SIMD_WASM_WASM_HPP

#if defined(__wasm_simd128__)

#    include <wasm_simd128.h>

#    include <cstdint>
#    include <limits>

#    include "intq/arith/ieee.hpp"
#    include "intq/simd/base/code_streams.hpp"
#    include "intq/simd/base/partial.hpp"
#    include "intq/simd/base/primitives.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// Four lanes. An i64 is two vectors, of the lower and of the upper two lanes.
/// Each function does in every lane what arith::scalar_lanes does.
struct wasm_lanes {
    struct i32 {
        v128_t v;
    };
    struct i64 {
        v128_t low, high;
    };
    struct f32 {
        v128_t v;
    };

    static constexpr index_t width() noexcept { return 4; }
    /// Vector registers of the machines that have the fewest: bounds the rows of the portable tile.
    static constexpr int registers = 16;
    static constexpr bool has_whole_loops = true;

    // --- memory ---------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from) noexcept {
        return {widen8(wasm_v128_load32_zero(from))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from) noexcept { return {wasm_i32x4_load16x4(from)}; }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from) noexcept { return {raw(from)}; }
    static INTQ_ALWAYS_INLINE f32 load(const float* from) noexcept { return {raw(from)}; }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from) noexcept { return {raw(from), raw(from + 2)}; }
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from, index_t count) noexcept {
        return {widen8(part(from, count))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from, index_t count) noexcept {
        return {wasm_i32x4_extend_low_i16x8(part(from, 2 * count))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from, index_t count) noexcept {
        return {part(from, 4 * count)};
    }
    static INTQ_ALWAYS_INLINE f32 load(const float* from, index_t count) noexcept { return {part(from, 4 * count)}; }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from, index_t count) noexcept {
        const index_t low = count < 2 ? count : 2;
        return {part(from, 8 * low), part(from + low, 8 * (count - low))};
    }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x) noexcept { wasm_v128_store32_lane(to, narrow8(x), 0); }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x) noexcept {
        wasm_v128_store64_lane(to, narrow16(x, x), 0);
    }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x) noexcept { put(to, x.v); }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x) noexcept { put(to, x.v); }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x) noexcept {
        put(to, x.low);
        put(to + 2, x.high);
    }
    static INTQ_ALWAYS_INLINE void store_four(std::int8_t* to, i32 a, i32 b, i32 c, i32 d) noexcept {
        put(to, wasm_i8x16_narrow_i16x8(narrow16(a, b), narrow16(c, d)));
    }
    static INTQ_ALWAYS_INLINE void store_triples(std::int8_t* to, i32 x) noexcept {
        const v128_t codes =
            wasm_i8x16_swizzle(x.v, wasm_i8x16_const(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
        wasm_v128_store64_lane(to, codes, 0);
        wasm_v128_store32_lane(to + 8, codes, 2);
    }
    static INTQ_ALWAYS_INLINE void add_to(double* sums, f32 a, f32 b, f32 c, f32 d) noexcept {
        add_half(sums, a.v, b.v, c.v, d.v);
        add_half(sums + 2, upper(a.v), upper(b.v), upper(c.v), upper(d.v));
    }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x, index_t count) noexcept {
        put_part(to, narrow8(x), count);
    }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x, index_t count) noexcept {
        put_part(to, narrow16(x, x), 2 * count);
    }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x, index_t count) noexcept {
        put_part(to, x.v, 4 * count);
    }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x, index_t count) noexcept { put_part(to, x.v, 4 * count); }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x, index_t count) noexcept {
        const index_t low = count < 2 ? count : 2;
        put_part(to, x.low, 8 * low);
        put_part(to + low, x.high, 8 * (count - low));
    }

    /// int8 codes of four vectors: narrowed together, and clamped as bytes.
    class CodeQuad {
    public:
        INTQ_ALWAYS_INLINE CodeQuad(std::int32_t zero_point, std::int32_t quant_min, std::int32_t quant_max) noexcept
            : zero_point_(wasm_i16x8_splat(static_cast<std::int16_t>(zero_point))),
              quant_min_(wasm_i8x16_splat(static_cast<std::int8_t>(quant_min))),
              quant_max_(wasm_i8x16_splat(static_cast<std::int8_t>(quant_max))) {}

        /// @param code  one to four vectors
        template <class... I32>
        INTQ_ALWAYS_INLINE void store(std::int8_t* to, index_t count, const I32&... code) const noexcept {
            constexpr int vectors = static_cast<int>(sizeof...(I32));
            static_assert(vectors >= 1 && vectors <= 4);
            const i32 v[] = {code...};
            const v128_t codes = narrow(v[0], v[vectors > 1 ? 1 : 0], v[vectors > 2 ? 2 : 0], v[vectors - 1]);
            if (vectors == 4 && count == 16) return put(to, codes);
            if (vectors >= 2 && count == 8) return wasm_v128_store64_lane(to, codes, 0);
            put_part(to, codes, count);
        }
        INTQ_ALWAYS_INLINE void store_rows(std::int8_t* const (&to)[2], index_t count,
                                           const i32 (&code)[4]) const noexcept {
            const v128_t codes = narrow(code[0], code[1], code[2], code[3]);
            if (count == 8) {
                wasm_v128_store64_lane(to[0], codes, 0);
                wasm_v128_store64_lane(to[1], codes, 1);
            } else {
                put_part(to[0], codes, count);
                put_part(to[1], upper(codes), count);
            }
        }
        /// Conversion saturates, and returns 0 for NaN.
        INTQ_ALWAYS_INLINE void store_rounded(std::int8_t* to, f32 a, f32 b, f32 c, f32 d) const noexcept {
            put(to, narrow(nearest(a), nearest(b), nearest(c), nearest(d)));
        }

    private:
        static INTQ_ALWAYS_INLINE i32 nearest(f32 x) noexcept { return round_small_to_i32(x); }
        /// Saturation to int16 leaves enough of a code of 8 bits, with a zero point of 8 bits too.
        INTQ_ALWAYS_INLINE v128_t narrow(i32 a, i32 b, i32 c, i32 d) const noexcept {
            const v128_t low = wasm_i16x8_add_sat(narrow16(a, b), zero_point_);
            const v128_t high = wasm_i16x8_add_sat(narrow16(c, d), zero_point_);
            return wasm_i8x16_min(wasm_i8x16_max(wasm_i8x16_narrow_i16x8(low, high), quant_min_), quant_max_);
        }

        v128_t zero_point_, quant_min_, quant_max_;
    };

    /// Sums of 16 bits hold 256 codes.
    class ByteSums {
    public:
        INTQ_ALWAYS_INLINE void add(const std::int8_t* from) noexcept {
            low_ = wasm_i16x8_add(low_, wasm_i16x8_load8x8(from));
            high_ = wasm_i16x8_add(high_, wasm_i16x8_load8x8(from + 8));
        }
        template <int Vector> INTQ_ALWAYS_INLINE i32 vector() const noexcept {
            const v128_t of = Vector < 2 ? low_ : high_;
            return {Vector % 2 == 0 ? wasm_i32x4_extend_low_i16x8(of) : wasm_i32x4_extend_high_i16x8(of)};
        }

    private:
        v128_t low_ = wasm_i16x8_const_splat(0), high_ = wasm_i16x8_const_splat(0);
    };

    static INTQ_ALWAYS_INLINE void widen_bytes(const std::int8_t* from, std::int16_t* to, index_t size) noexcept {
        index_t i = 0;
        for (; i + 8 <= size; i += 8) put(to + i, wasm_i16x8_load8x8(from + i));
        for (; i < size; ++i) to[i] = from[i];
    }

    // --- packed codes ---------------------------------------------------------------------------------------
    template <class T> struct packed { v128_t v; };
    template <class T> static constexpr index_t packed_width() noexcept { return index_t{16} / sizeof(T); }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> load_packed(const T* from) noexcept { return {raw(from)}; }
    template <class T> static INTQ_ALWAYS_INLINE void store_packed(T* to, packed<T> x) noexcept { put(to, x.v); }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> load_packed(const T* from, index_t count) noexcept {
        return {part(from, count * index_t{sizeof(T)})};
    }
    template <class T> static INTQ_ALWAYS_INLINE void store_packed(T* to, packed<T> x, index_t count) noexcept {
        put_part(to, x.v, count * index_t{sizeof(T)});
    }
    using bytes = packed<std::int8_t>;
    using words = packed<std::int16_t>;
    static INTQ_ALWAYS_INLINE bytes set_packed(std::int8_t value) noexcept { return {wasm_i8x16_splat(value)}; }
    static INTQ_ALWAYS_INLINE words set_packed(std::int16_t value) noexcept { return {wasm_i16x8_splat(value)}; }
    static INTQ_ALWAYS_INLINE bytes min_packed(bytes a, bytes b) noexcept { return {wasm_i8x16_min(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE bytes max_packed(bytes a, bytes b) noexcept { return {wasm_i8x16_max(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE words min_packed(words a, words b) noexcept { return {wasm_i16x8_min(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE words max_packed(words a, words b) noexcept { return {wasm_i16x8_max(a.v, b.v)}; }
    struct table {
        v128_t sixteenth[16];
    };
    static INTQ_ALWAYS_INLINE table load_table(const std::int8_t* entries) noexcept {
        table t;
        INTQ_UNROLL
        for (int i = 0; i < 16; ++i) t.sixteenth[i] = raw(entries + 16 * i);
        return t;
    }
    /// A swizzle gives 0 for what is out of its reach.
    static INTQ_ALWAYS_INLINE bytes look_up(const table& t, bytes x) noexcept {
        const v128_t index = wasm_v128_xor(x.v, wasm_i8x16_const_splat(-128));
        v128_t found = wasm_i8x16_swizzle(t.sixteenth[0], index);
        INTQ_UNROLL
        for (int i = 1; i < 16; ++i) {
            const v128_t first = wasm_i8x16_splat(static_cast<std::int8_t>(16 * i));
            found = wasm_v128_or(found, wasm_i8x16_swizzle(t.sixteenth[i], wasm_i8x16_sub(index, first)));
        }
        return {found};
    }
    static INTQ_ALWAYS_INLINE void scale_codes(const CodeScale& scale, const std::int8_t* x, std::int8_t* out,
                                               index_t count) noexcept {
        if (scale.correction[0] == 0)
            scale_codes_by<false>(scale, x, out, count);
        else
            scale_codes_by<true>(scale, x, out, count);
    }
    static INTQ_ALWAYS_INLINE i32 gather_pair(const std::int16_t* from, i32 index) noexcept {
        v128_t pairs = wasm_v128_load32_zero(from + wasm_i32x4_extract_lane(index.v, 0));
        pairs = wasm_v128_load32_lane(from + wasm_i32x4_extract_lane(index.v, 1), pairs, 1);
        pairs = wasm_v128_load32_lane(from + wasm_i32x4_extract_lane(index.v, 2), pairs, 2);
        return {wasm_v128_load32_lane(from + wasm_i32x4_extract_lane(index.v, 3), pairs, 3)};
    }
    static INTQ_ALWAYS_INLINE i32 gather_below(const std::int32_t* table, std::int32_t from,
                                               const std::int8_t* index) noexcept {
        const std::int32_t* const first = table + from;
        v128_t found = wasm_v128_load32_zero(first - index[0]);
        found = wasm_v128_load32_lane(first - index[1], found, 1);
        found = wasm_v128_load32_lane(first - index[2], found, 2);
        return {wasm_v128_load32_lane(first - index[3], found, 3)};
    }
    static INTQ_ALWAYS_INLINE std::int32_t largest_packed(bytes codes) noexcept {
        v128_t most = wasm_i8x16_max(codes.v, upper(codes.v));
        most = wasm_i8x16_max(most, wasm_i32x4_shuffle(most, most, 1, 1, 1, 1));
        most = wasm_i8x16_max(most, wasm_i16x8_shr(most, 8));  // bytes 0 and 2 hold the largest of theirs and the next
        most = wasm_i8x16_max(most, wasm_u32x4_shr(most, 16));
        return wasm_i8x16_extract_lane(most, 0);
    }

    // --- int32 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 set(std::int32_t value) noexcept { return {wasm_i32x4_splat(value)}; }
    static INTQ_ALWAYS_INLINE i32 add(i32 a, i32 b) noexcept { return {wasm_i32x4_add(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 sub(i32 a, i32 b) noexcept { return {wasm_i32x4_sub(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 mul(i32 a, i32 b) noexcept { return {wasm_i32x4_mul(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32(min)(i32 a, i32 b) noexcept { return {wasm_i32x4_min(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32(max)(i32 a, i32 b) noexcept { return {wasm_i32x4_max(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 bit_and(i32 a, i32 b) noexcept { return {wasm_v128_and(a.v, b.v)}; }
    /// Instructions shift all lanes by one number. The compiler takes one where the lanes of n are the same, else it
    /// shifts lane by lane.
    static INTQ_ALWAYS_INLINE i32 shift_left(i32 a, i32 n) noexcept { return {a.v << n.v}; }
    static INTQ_ALWAYS_INLINE i32 shift_right(i32 a, i32 n) noexcept { return {a.v >> n.v}; }
    /// Bits 31 to 62 of the products.
    static INTQ_ALWAYS_INLINE i32 sqrdmulh(i32 a, i32 b) noexcept {
        const i64 sum = add(mul_wide(a, b), set_i64(std::int64_t{1} << 30));
        return {wasm_i32x4_shuffle(wasm_u64x2_shr(sum.low, 31), wasm_u64x2_shr(sum.high, 31), 0, 2, 4, 6)};
    }
    /// The high halves of b are zero: a pair's sum is the product of the low ones.
    static INTQ_ALWAYS_INLINE i32 mul_short(i32 a, i32 b) noexcept { return {wasm_i32x4_dot_i16x8(a.v, b.v)}; }

    // --- int64 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i64 set_i64(std::int64_t value) noexcept {
        const v128_t v = wasm_i64x2_splat(value);
        return {v, v};
    }
    static INTQ_ALWAYS_INLINE i64 widen(i32 a) noexcept {
        return {wasm_i64x2_extend_low_i32x4(a.v), wasm_i64x2_extend_high_i32x4(a.v)};
    }
    /// The compiler widens an operand before a loop that does not change it, and then multiplies by all 64 bits, which
    /// machines lack. So the second operand is, to the compiler, a shuffle of both.
    static INTQ_ALWAYS_INLINE i64 mul_wide(i32 a, i32 b) noexcept {
        const v128_t again = wasm_i8x16_shuffle(b.v, a.v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        return {wasm_i64x2_extmul_low_i32x4(a.v, again), wasm_i64x2_extmul_high_i32x4(a.v, again)};
    }
    static INTQ_ALWAYS_INLINE i64 mul(i64 a, i64 b) noexcept {
        return {wasm_i64x2_mul(a.low, b.low), wasm_i64x2_mul(a.high, b.high)};
    }
    static INTQ_ALWAYS_INLINE i64 add(i64 a, i64 b) noexcept {
        return {wasm_i64x2_add(a.low, b.low), wasm_i64x2_add(a.high, b.high)};
    }
    static INTQ_ALWAYS_INLINE i64 shift_left(i64 a, i64 n) noexcept {
        return {of_pairs(pairs(a.low) << pairs(n.low)), of_pairs(pairs(a.high) << pairs(n.high))};
    }
    static INTQ_ALWAYS_INLINE i64 shift_right(i64 a, i64 n) noexcept {
        return {of_pairs(pairs(a.low) >> pairs(n.low)), of_pairs(pairs(a.high) >> pairs(n.high))};
    }
    /// The low half is the result where the high half is its sign; else the sign of the high half saturates.
    static INTQ_ALWAYS_INLINE i32 narrow(i64 a) noexcept {
        const v128_t low = wasm_i32x4_shuffle(a.low, a.high, 0, 2, 4, 6);
        const v128_t high = wasm_i32x4_shuffle(a.low, a.high, 1, 3, 5, 7);
        const v128_t fits = wasm_i32x4_eq(high, wasm_i32x4_shr(low, 31));
        const v128_t limit = wasm_v128_xor(wasm_i32x4_shr(high, 31), wasm_i32x4_const_splat(INT32_MAX));
        return {wasm_v128_bitselect(low, limit, fits)};
    }

    // --- float: no instruction rounds a product and a sum once, so that nothing is contracted -----------------------
    static INTQ_ALWAYS_INLINE f32 set(float value) noexcept { return {wasm_f32x4_splat(value)}; }
    static INTQ_ALWAYS_INLINE f32 add(f32 a, f32 b) noexcept { return {wasm_f32x4_add(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 sub(f32 a, f32 b) noexcept { return {wasm_f32x4_sub(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 mul(f32 a, f32 b) noexcept { return {wasm_f32x4_mul(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 div(f32 a, f32 b) noexcept { return {wasm_f32x4_div(a.v, b.v)}; }
    /// pmin(x, y) is y < x ? y : x.
    static INTQ_ALWAYS_INLINE f32(min)(f32 a, f32 b) noexcept { return {wasm_f32x4_pmin(b.v, a.v)}; }
    static INTQ_ALWAYS_INLINE f32(max)(f32 a, f32 b) noexcept { return {wasm_f32x4_pmax(b.v, a.v)}; }
    static INTQ_ALWAYS_INLINE f32 floor(f32 a) noexcept { return positive_zero(wasm_f32x4_floor(a.v)); }
    static INTQ_ALWAYS_INLINE f32 round_half_even(f32 a) noexcept { return positive_zero(wasm_f32x4_nearest(a.v)); }
    static INTQ_ALWAYS_INLINE f32 replace_nan(f32 a, f32 b) noexcept {
        return {wasm_v128_bitselect(a.v, b.v, wasm_f32x4_eq(a.v, a.v))};
    }
    static INTQ_ALWAYS_INLINE f32 keep_inside(f32 a, f32 low, f32 high, f32 b) noexcept {
        return {wasm_v128_and(inside(a, low, high), b.v)};
    }
    static INTQ_ALWAYS_INLINE f32 choose_inside(f32 a, f32 low, f32 high, f32 b, f32 c) noexcept {
        return {wasm_v128_bitselect(b.v, c.v, inside(a, low, high))};
    }
    /// Lane by lane: vectors of 128 bits have no such instruction.
    static INTQ_ALWAYS_INLINE f32 fma(f32 a, f32 b, f32 c) noexcept {
        float x[4], y[4], z[4];
        put(x, a.v);
        put(y, b.v);
        put(z, c.v);
        for (int i = 0; i < 4; ++i) z[i] = arith::ffma(x[i], y[i], z[i]);
        return {raw(z)};
    }

    // --- conversions and reductions -------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 to_f32(i32 a) noexcept { return {wasm_f32x4_convert_i32x4(a.v)}; }
    /// By way of binary64, which holds |a| <= 2^53 exactly.
    static INTQ_ALWAYS_INLINE f32 to_f32(i64 a) noexcept {
        return {wasm_i32x4_shuffle(wasm_f32x4_demote_f64x2_zero(exact_double(a.low)),
                                   wasm_f32x4_demote_f64x2_zero(exact_double(a.high)), 0, 1, 4, 5)};
    }
    static INTQ_ALWAYS_INLINE i32 to_i32(f32 a) noexcept { return {wasm_i32x4_trunc_sat_f32x4(a.v)}; }
    /// Conversion saturates below by itself.
    static INTQ_ALWAYS_INLINE i32 round_to_i32(f32 a) noexcept {
        return round_small_to_i32({wasm_f32x4_pmin(a.v, wasm_f32x4_const_splat(2147483520.0f))});
    }
    static INTQ_ALWAYS_INLINE i32 round_small_to_i32(f32 a) noexcept {
        return {wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(a.v))};
    }
    static INTQ_ALWAYS_INLINE f32 from_bits(i32 a) noexcept { return {a.v}; }
    static INTQ_ALWAYS_INLINE float reduce_min(f32 a) noexcept {
        const v128_t m = wasm_f32x4_pmin(a.v, upper(a.v));
        return wasm_f32x4_extract_lane(wasm_f32x4_pmin(m, wasm_i32x4_shuffle(m, m, 1, 1, 1, 1)), 0) + 0.0f;
    }
    static INTQ_ALWAYS_INLINE float reduce_max(f32 a) noexcept {
        const v128_t m = wasm_f32x4_pmax(a.v, upper(a.v));
        return wasm_f32x4_extract_lane(wasm_f32x4_pmax(m, wasm_i32x4_shuffle(m, m, 1, 1, 1, 1)), 0) + 0.0f;
    }
    static INTQ_ALWAYS_INLINE bool all_finite(f32 a) noexcept {
        const v128_t infinity = wasm_f32x4_const_splat(std::numeric_limits<float>::infinity());
        return wasm_i32x4_all_true(wasm_f32x4_lt(wasm_f32x4_abs(a.v), infinity));
    }

    // --- vectors and bytes, also for the tiles --------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE v128_t raw(const void* from) noexcept { return wasm_v128_load(from); }
    static INTQ_ALWAYS_INLINE void put(void* to, v128_t x) noexcept { wasm_v128_store(to, x); }
    /// The first `size` bytes, and zeros.
    static INTQ_ALWAYS_INLINE v128_t part(const void* from, index_t size) noexcept {
        const detail::Bytes16 read = detail::read_bytes16(from, size);
        return wasm_u64x2_make(read.low, read.high);
    }
    static INTQ_ALWAYS_INLINE void put_part(void* to, v128_t x, index_t size) noexcept {
        detail::write_bytes16(to, {wasm_u64x2_extract_lane(x, 0), wasm_u64x2_extract_lane(x, 1)}, size);
    }

private:
    template <bool Corrects>
    static INTQ_ALWAYS_INLINE void scale_codes_by(const CodeScale& scale, const std::int8_t* x, std::int8_t* out,
                                                  index_t count) noexcept {
        const CodeScaler<Corrects> scaler(scale);
        index_t i = 0;
        for (; i + 16 <= count; i += 16) put(out + i, scaler(raw(x + i)));
        if (i < count) put_part(out + i, scaler(part(x + i, count - i)), count - i);
    }
    /// Sixteen codes of scale_codes().
    template <bool Corrects> class CodeScaler {
    public:
        explicit INTQ_ALWAYS_INLINE CodeScaler(const CodeScale& s) noexcept
            : left_(static_cast<std::uint32_t>(s.left)),
              zero_x_(wasm_i16x8_splat(s.zero_x)),
              multiplier_(wasm_i16x8_splat(s.multiplier)),
              zero_point_(wasm_i16x8_splat(s.zero_point)),
              lowest_(wasm_i8x16_splat(static_cast<std::int8_t>(s.lowest))),
              highest_(wasm_i8x16_splat(static_cast<std::int8_t>(s.highest))),
              corrected_{wasm_i8x16_splat(s.corrected[0]), wasm_i8x16_splat(s.corrected[1])},
              correction_{wasm_i8x16_splat(s.correction[0]), wasm_i8x16_splat(s.correction[1])} {}

        INTQ_ALWAYS_INLINE v128_t operator()(v128_t x) const noexcept {
            const v128_t low = scaled(wasm_i16x8_extend_low_i8x16(x)), high = scaled(wasm_i16x8_extend_high_i8x16(x));
            const v128_t y = wasm_i8x16_max(wasm_i8x16_min(wasm_i8x16_narrow_i16x8(low, high), highest_), lowest_);
            return Corrects ? wasm_i8x16_add(wasm_i8x16_add(y, correction(x, 0)), correction(x, 1)) : y;
        }

    private:
        INTQ_ALWAYS_INLINE v128_t scaled(v128_t x) const noexcept {
            const v128_t factor = wasm_i16x8_shl(wasm_i16x8_sub(x, zero_x_), left_);
            return wasm_i16x8_add_sat(wasm_i16x8_q15mulr_sat(factor, multiplier_), zero_point_);
        }
        INTQ_ALWAYS_INLINE v128_t correction(v128_t x, int i) const noexcept {
            return wasm_v128_and(wasm_i8x16_eq(x, corrected_[i]), correction_[i]);
        }

        std::uint32_t left_;
        v128_t zero_x_, multiplier_, zero_point_, lowest_, highest_, corrected_[2], correction_[2];
    };
    static INTQ_ALWAYS_INLINE v128_t upper(v128_t x) noexcept { return wasm_i64x2_shuffle(x, x, 1, 1); }
    static INTQ_ALWAYS_INLINE v128_t widen8(v128_t bytes) noexcept {
        return wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(bytes));
    }
    static INTQ_ALWAYS_INLINE v128_t narrow16(i32 a, i32 b) noexcept { return wasm_i16x8_narrow_i32x4(a.v, b.v); }
    static INTQ_ALWAYS_INLINE v128_t narrow8(i32 x) noexcept {
        const v128_t narrow = narrow16(x, x);
        return wasm_i8x16_narrow_i16x8(narrow, narrow);
    }
    using Pair = std::int64_t __attribute__((vector_size(16)));
    static INTQ_ALWAYS_INLINE Pair pairs(v128_t x) noexcept { return reinterpret_cast<Pair>(x); }
    static INTQ_ALWAYS_INLINE v128_t of_pairs(Pair x) noexcept { return reinterpret_cast<v128_t>(x); }
    /// double(a), exactly, for |a| <= 2^53. The halves of a are the low bits of two doubles:
    /// (2^84 + 2^63 + 2^32·high - (2^84 + 2^63 + 2^52)) + (2^52 + low), whose difference and sum are exact.
    static INTQ_ALWAYS_INLINE v128_t exact_double(v128_t a) noexcept {
        const v128_t low = wasm_i32x4_shuffle(a, wasm_i32x4_const_splat(0x43300000), 0, 4, 2, 6);
        const v128_t high = wasm_v128_xor(wasm_u64x2_shr(a, 32), wasm_i64x2_const_splat(0x4530000080000000));
        return wasm_f64x2_add(wasm_f64x2_sub(high, wasm_f64x2_const_splat(0x1.00000801p84)), low);
    }
    static INTQ_ALWAYS_INLINE void add_half(double* sums, v128_t a, v128_t b, v128_t c, v128_t d) noexcept {
        const auto real = [](v128_t x) INTQ_ALWAYS_INLINE_LAMBDA { return wasm_f64x2_promote_low_f32x4(x); };
        const v128_t two = wasm_f64x2_add(wasm_f64x2_add(real(a), real(b)), wasm_f64x2_add(real(c), real(d)));
        put(sums, wasm_f64x2_add(raw(sums), two));
    }
    static INTQ_ALWAYS_INLINE v128_t inside(f32 a, f32 low, f32 high) noexcept {
        return wasm_v128_and(wasm_f32x4_ge(a.v, low.v), wasm_f32x4_le(a.v, high.v));
    }
    /// Rounding keeps the sign of a zero; the specification's zero is positive.
    static INTQ_ALWAYS_INLINE f32 positive_zero(v128_t a) noexcept {
        return {wasm_f32x4_add(a, wasm_f32x4_const_splat(0.0f))};
    }
};

template <> struct LanesOf<wasm> { using type = wasm_lanes; };

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __wasm_simd128__

#endif  // INTQ_SIMD_WASM_WASM_HPP
