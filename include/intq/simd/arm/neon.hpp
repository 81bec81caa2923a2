// SPDX-License-Identifier: MIT
//
// The NEON backend of AArch64: 4 lanes, and tiles of int16 products. Layer: simd (docs/design.md sections 5, 11).
// Long because the lanes are one struct, and this one has a body for every primitive.
#ifndef INTQ_SIMD_ARM_NEON_HPP
#define INTQ_SIMD_ARM_NEON_HPP

#if defined(__ARM_NEON) && defined(__AARCH64EL__)

#    include <arm_neon.h>

#    include <cstdint>

#    include "intq/simd/base/partial.hpp"
#    include "intq/simd/base/primitives.hpp"
#    include "intq/simd/tiles/depthwise_tile.hpp"
#    include "intq/simd/tiles/generic_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// Four lanes. An i64 is two registers, of the lower and of the upper two lanes.
/// Each function does in every lane what arith::scalar_lanes does.
struct neon_lanes {
    struct i32 {
        int32x4_t v;
    };
    struct i64 {
        int64x2_t low, high;
    };
    struct f32 {
        float32x4_t v;
    };

    static constexpr index_t width() noexcept { return 4; }
    /// Vector registers of the machine: bounds the rows of the portable tile.
    static constexpr int registers = 32;
    static constexpr bool has_whole_loops = true;

    // --- memory ---------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from) noexcept {
        return {widen8(detail::read<std::uint32_t>(from))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from) noexcept { return {vmovl_s16(vld1_s16(from))}; }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from) noexcept { return {vld1q_s32(from)}; }
    static INTQ_ALWAYS_INLINE f32 load(const float* from) noexcept { return {vld1q_f32(from)}; }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from) noexcept {
        return {vld1q_s64(from), vld1q_s64(from + 2)};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from, index_t count) noexcept {
        return {widen8(static_cast<std::uint32_t>(detail::read_bytes(from, count)))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from, index_t count) noexcept {
        return {vmovl_s16(vcreate_s16(detail::read_bytes(from, 2 * count)))};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from, index_t count) noexcept {
        return {vreinterpretq_s32_u8(part(from, 4 * count))};
    }
    static INTQ_ALWAYS_INLINE f32 load(const float* from, index_t count) noexcept {
        return {vreinterpretq_f32_u8(part(from, 4 * count))};
    }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from, index_t count) noexcept {
        const index_t low = count < 2 ? count : 2;
        return {vreinterpretq_s64_u8(part(from, 8 * low)), vreinterpretq_s64_u8(part(from + low, 8 * (count - low)))};
    }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x) noexcept {
        detail::write(to, static_cast<std::uint32_t>(narrow8(x)));
    }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x) noexcept { vst1_s16(to, vqmovn_s32(x.v)); }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x) noexcept { vst1q_s32(to, x.v); }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x) noexcept { vst1q_f32(to, x.v); }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x) noexcept {
        vst1q_s64(to, x.low);
        vst1q_s64(to + 2, x.high);
    }
    static INTQ_ALWAYS_INLINE void store_four(std::int8_t* to, i32 a, i32 b, i32 c, i32 d) noexcept {
        vst1q_s8(to, narrow8(narrow16(a, b), narrow16(c, d)));
    }
    static INTQ_ALWAYS_INLINE void store_triples(std::int8_t* to, i32 x) noexcept {
        static constexpr std::uint8_t order[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 255, 255, 255, 255};
        const uint8x16_t codes = vqtbl1q_u8(vreinterpretq_u8_s32(x.v), vld1q_u8(order));
        detail::write(to, vgetq_lane_u64(vreinterpretq_u64_u8(codes), 0));
        detail::write(to + 8, vgetq_lane_u32(vreinterpretq_u32_u8(codes), 2));
    }
    static INTQ_ALWAYS_INLINE void add_to(double* sums, f32 a, f32 b, f32 c, f32 d) noexcept {
        const auto low = [](f32 x) INTQ_ALWAYS_INLINE_LAMBDA { return vcvt_f64_f32(vget_low_f32(x.v)); };
        const auto high = [](f32 x) INTQ_ALWAYS_INLINE_LAMBDA { return vcvt_high_f64_f32(x.v); };
        const float64x2_t first = vaddq_f64(vaddq_f64(low(a), low(b)), vaddq_f64(low(c), low(d)));
        const float64x2_t second = vaddq_f64(vaddq_f64(high(a), high(b)), vaddq_f64(high(c), high(d)));
        vst1q_f64(sums, vaddq_f64(vld1q_f64(sums), first));
        vst1q_f64(sums + 2, vaddq_f64(vld1q_f64(sums + 2), second));
    }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x, index_t count) noexcept {
        detail::write_bytes(to, narrow8(x), count);
    }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x, index_t count) noexcept {
        detail::write_bytes(to, vget_lane_u64(vreinterpret_u64_s16(vqmovn_s32(x.v)), 0), 2 * count);
    }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x, index_t count) noexcept {
        put_part(to, vreinterpretq_u8_s32(x.v), 4 * count);
    }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x, index_t count) noexcept {
        put_part(to, vreinterpretq_u8_f32(x.v), 4 * count);
    }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x, index_t count) noexcept {
        const index_t low = count < 2 ? count : 2;
        put_part(to, vreinterpretq_u8_s64(x.low), 8 * low);
        put_part(to + low, vreinterpretq_u8_s64(x.high), 8 * (count - low));
    }

    /// int8 codes of four vectors: narrowed together, and clamped as bytes.
    class CodeQuad {
    public:
        INTQ_ALWAYS_INLINE CodeQuad(std::int32_t zero_point, std::int32_t quant_min, std::int32_t quant_max) noexcept
            : zero_point_(vdupq_n_s16(static_cast<std::int16_t>(zero_point))),
              quant_min_(vdupq_n_s8(static_cast<std::int8_t>(quant_min))),
              quant_max_(vdupq_n_s8(static_cast<std::int8_t>(quant_max))) {}

        /// @param code  one to four vectors
        template <class... I32>
        INTQ_ALWAYS_INLINE void store(std::int8_t* to, index_t count, const I32&... code) const noexcept {
            constexpr int vectors = static_cast<int>(sizeof...(I32));
            static_assert(vectors >= 1 && vectors <= 4);
            const i32 v[] = {code...};
            if constexpr (vectors <= 2) {
                const int8x8_t codes = narrow(v[0], v[vectors - 1]);
                if (vectors == 2 && count == 8) return vst1_s8(to, codes);
                detail::write_bytes(to, vget_lane_u64(vreinterpret_u64_s8(codes), 0), count);
            } else {
                const int8x16_t codes = narrow(v[0], v[1], v[2], v[vectors - 1]);
                if (vectors == 4 && count == 16) return vst1q_s8(to, codes);
                if (vectors == 3 && count == 12) {
                    vst1_s8(to, vget_low_s8(codes));
                    return vst1q_lane_s32(reinterpret_cast<std::int32_t*>(to + 8), vreinterpretq_s32_s8(codes), 2);
                }
                put_part(to, vreinterpretq_u8_s8(codes), count);
            }
        }
        INTQ_ALWAYS_INLINE void store_runs(std::int8_t* to, i32 a, i32 b, i32 c, i32 d, index_t count) const noexcept {
            store(to, count, a, b, c, d);  // runs of four are vectors
        }
        template <std::size_t Rows>
        INTQ_ALWAYS_INLINE void store_rows(std::int8_t* const (&to)[Rows], index_t count,
                                           const i32 (&code)[4]) const noexcept {
            static_assert(Rows == 2 || Rows == 4);
            const auto codes = vreinterpretq_u64_s8(narrow(code[0], code[1], code[2], code[3]));
            if constexpr (Rows == 2) {
                put_row(to[0], vgetq_lane_u64(codes, 0), count);
                put_row(to[1], vgetq_lane_u64(codes, 1), count);
            } else {
                const auto quarters = vreinterpretq_u32_u64(codes);
                if (count == 4) {
                    vst1q_lane_u32(reinterpret_cast<std::uint32_t*>(to[0]), quarters, 0);
                    vst1q_lane_u32(reinterpret_cast<std::uint32_t*>(to[1]), quarters, 1);
                    vst1q_lane_u32(reinterpret_cast<std::uint32_t*>(to[2]), quarters, 2);
                    vst1q_lane_u32(reinterpret_cast<std::uint32_t*>(to[3]), quarters, 3);
                } else {
                    detail::write_bytes(to[0], vgetq_lane_u32(quarters, 0), count);
                    detail::write_bytes(to[1], vgetq_lane_u32(quarters, 1), count);
                    detail::write_bytes(to[2], vgetq_lane_u32(quarters, 2), count);
                    detail::write_bytes(to[3], vgetq_lane_u32(quarters, 3), count);
                }
            }
        }
        INTQ_ALWAYS_INLINE void store_paired_rows(std::int8_t* const (&to)[4], const i32 (&code)[12]) const noexcept {
            const auto of_columns = [&](int a, int b, int c, int d) INTQ_ALWAYS_INLINE_LAMBDA {
                return vreinterpretq_u16_s8(narrow(code[a], code[b], code[c], code[d]));
            };
            const uint16x8_t first = of_columns(0, 1, 2, 3), second = of_columns(6, 7, 8, 9);  // eight columns
            const uint16x8_t last = of_columns(4, 5, 10, 11);                                  // four, of all rows
            put_twelve<2>(to[0], vuzp1q_u16(first, last));
            put_twelve<2>(to[1], vuzp2q_u16(first, last));
            put_twelve<3>(to[2], vuzp1q_u16(second, last));
            put_twelve<3>(to[3], vuzp2q_u16(second, last));
        }
        /// Conversion saturates, and returns 0 for NaN.
        INTQ_ALWAYS_INLINE void store_rounded(std::int8_t* to, f32 a, f32 b, f32 c, f32 d) const noexcept {
            vst1q_s8(
                to, narrow({vcvtnq_s32_f32(a.v)}, {vcvtnq_s32_f32(b.v)}, {vcvtnq_s32_f32(c.v)}, {vcvtnq_s32_f32(d.v)}));
        }

    private:
        /// Saturation to int16 leaves enough of a code of 8 bits, with a zero point of 8 bits too.
        INTQ_ALWAYS_INLINE int8x16_t narrow(i32 a, i32 b, i32 c, i32 d) const noexcept {
            const int16x8_t low = vqaddq_s16(narrow16(a, b), zero_point_);
            const int16x8_t high = vqaddq_s16(narrow16(c, d), zero_point_);
            return vminq_s8(vmaxq_s8(narrow8(low, high), quant_min_), quant_max_);
        }
        INTQ_ALWAYS_INLINE int8x8_t narrow(i32 a, i32 b) const noexcept {
            const int8x8_t codes = vqmovn_s16(vqaddq_s16(narrow16(a, b), zero_point_));
            return vmin_s8(vmax_s8(codes, vget_low_s8(quant_min_)), vget_low_s8(quant_max_));
        }
        /// The lower half, and a quarter.
        template <int Quarter> static INTQ_ALWAYS_INLINE void put_twelve(std::int8_t* to, uint16x8_t codes) noexcept {
            vst1_s8(to, vreinterpret_s8_u16(vget_low_u16(codes)));
            vst1q_lane_s32(reinterpret_cast<std::int32_t*>(to + 8), vreinterpretq_s32_u16(codes), Quarter);
        }
        static INTQ_ALWAYS_INLINE void put_row(std::int8_t* to, std::uint64_t codes, index_t count) noexcept {
            if (count == 8)
                detail::write(to, codes);
            else
                detail::write_bytes(to, codes, count);
        }

        int16x8_t zero_point_;
        int8x16_t quant_min_, quant_max_;
    };

    /// Sums of 16 bits hold 256 codes.
    class ByteSums {
    public:
        INTQ_ALWAYS_INLINE void add(const std::int8_t* from) noexcept {
            const int8x16_t codes = vld1q_s8(from);
            low_ = vaddw_s8(low_, vget_low_s8(codes));
            high_ = vaddw_high_s8(high_, codes);
        }
        template <int Vector> INTQ_ALWAYS_INLINE i32 vector() const noexcept {
            const int16x8_t of = Vector < 2 ? low_ : high_;
            return {Vector % 2 == 0 ? vmovl_s16(vget_low_s16(of)) : vmovl_high_s16(of)};
        }

    private:
        int16x8_t low_ = vdupq_n_s16(0), high_ = vdupq_n_s16(0);
    };

    static INTQ_ALWAYS_INLINE void widen_bytes(const std::int8_t* from, std::int16_t* to, index_t size) noexcept {
        index_t i = 0;
        for (; i + 16 <= size; i += 16) {
            const int8x16_t bytes = vld1q_s8(from + i);
            vst1q_s16(to + i, vmovl_s8(vget_low_s8(bytes)));
            vst1q_s16(to + i + 8, vmovl_high_s8(bytes));
        }
        for (; i < size; ++i) to[i] = from[i];
    }

    // --- packed codes ---------------------------------------------------------------------------------------
    template <class T> struct packed { uint8x16_t v; };
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
    static INTQ_ALWAYS_INLINE bytes set_packed(std::int8_t value) noexcept {
        return {vreinterpretq_u8_s8(vdupq_n_s8(value))};
    }
    static INTQ_ALWAYS_INLINE words set_packed(std::int16_t value) noexcept {
        return {vreinterpretq_u8_s16(vdupq_n_s16(value))};
    }
    static INTQ_ALWAYS_INLINE bytes min_packed(bytes a, bytes b) noexcept {
        return {vreinterpretq_u8_s8(vminq_s8(vreinterpretq_s8_u8(a.v), vreinterpretq_s8_u8(b.v)))};
    }
    static INTQ_ALWAYS_INLINE bytes max_packed(bytes a, bytes b) noexcept {
        return {vreinterpretq_u8_s8(vmaxq_s8(vreinterpretq_s8_u8(a.v), vreinterpretq_s8_u8(b.v)))};
    }
    static INTQ_ALWAYS_INLINE words min_packed(words a, words b) noexcept {
        return {vreinterpretq_u8_s16(vminq_s16(vreinterpretq_s16_u8(a.v), vreinterpretq_s16_u8(b.v)))};
    }
    static INTQ_ALWAYS_INLINE words max_packed(words a, words b) noexcept {
        return {vreinterpretq_u8_s16(vmaxq_s16(vreinterpretq_s16_u8(a.v), vreinterpretq_s16_u8(b.v)))};
    }
    /// The entries in half of the registers, 64 of them in the reach of one TBL.
    struct table {
        uint8x16x4_t quarter[4];
    };
    static INTQ_ALWAYS_INLINE table load_table(const std::int8_t* entries) noexcept {
        const auto quarter = [&](int q) INTQ_ALWAYS_INLINE_LAMBDA {
            return uint8x16x4_t{{raw(entries + 64 * q), raw(entries + 64 * q + 16), raw(entries + 64 * q + 32),
                                 raw(entries + 64 * q + 48)}};
        };
        return {{quarter(0), quarter(1), quarter(2), quarter(3)}};
    }
    /// TBX leaves what is out of its reach.
    static INTQ_ALWAYS_INLINE bytes look_up(const table& t, bytes x) noexcept {
        const uint8x16_t index = veorq_u8(x.v, vdupq_n_u8(128));
        uint8x16_t found = vqtbl4q_u8(t.quarter[0], index);
        found = vqtbx4q_u8(found, t.quarter[1], vsubq_u8(index, vdupq_n_u8(64)));
        found = vqtbx4q_u8(found, t.quarter[2], x.v);  // index - 128
        return {vqtbx4q_u8(found, t.quarter[3], vsubq_u8(x.v, vdupq_n_u8(64)))};
    }
    static INTQ_ALWAYS_INLINE i32 gather_pair(const std::int16_t* from, i32 index) noexcept {
        const auto pair = [&](int i) INTQ_ALWAYS_INLINE_LAMBDA { return detail::read<std::int32_t>(from + i); };
        int32x4_t pairs = vdupq_n_s32(pair(vgetq_lane_s32(index.v, 0)));
        pairs = vsetq_lane_s32(pair(vgetq_lane_s32(index.v, 1)), pairs, 1);
        pairs = vsetq_lane_s32(pair(vgetq_lane_s32(index.v, 2)), pairs, 2);
        return {vsetq_lane_s32(pair(vgetq_lane_s32(index.v, 3)), pairs, 3)};
    }

    /// Addresses are integers, so that a load takes one subtraction.
    static INTQ_ALWAYS_INLINE i32 gather_below(const std::int32_t* table, std::int32_t from,
                                               const std::int8_t* index) noexcept {
        const std::intptr_t first = reinterpret_cast<std::intptr_t>(table) + 4 * std::intptr_t{from};
        const auto at = [&](int i) INTQ_ALWAYS_INLINE_LAMBDA {
            return reinterpret_cast<const std::int32_t*>(first - 4 * std::intptr_t{index[i]});
        };
        int32x4_t found = vld1q_dup_s32(at(0));
        found = vld1q_lane_s32(at(1), found, 1);
        found = vld1q_lane_s32(at(2), found, 2);
        return {vld1q_lane_s32(at(3), found, 3)};
    }
    /// A load that scales its place fills the lower half, and one from an address the upper half.
    class EntrySums {
    public:
        INTQ_ALWAYS_INLINE void add(const std::uint64_t* entries, const std::int8_t* index,
                                    std::int16_t* high) noexcept {
            const auto pair = [&](int i) INTQ_ALWAYS_INLINE_LAMBDA {
                const uint64x1_t low = vld1_u64(entries + index[i]);
                const uint64x2_t both = vld1q_lane_u64(entries + index[i + 1], vcombine_u64(low, vdup_n_u64(0)), 1);
                sums_ = vaddq_u64(sums_, both);
                return vreinterpretq_u16_u64(both);
            };
            const uint16x8_t first = pair(0), second = pair(2), third = pair(4), last = pair(6);
            const uint16x8_t quarters = vuzp2q_u16(vuzp2q_u16(first, second), vuzp2q_u16(third, last));
            vst1q_s16(high, vreinterpretq_s16_u16(quarters));
        }
        INTQ_ALWAYS_INLINE std::uint64_t total() const noexcept { return vaddvq_u64(sums_); }

    private:
        uint64x2_t sums_ = vdupq_n_u64(0);
    };
    static INTQ_ALWAYS_INLINE std::int32_t largest_packed(bytes codes) noexcept {
        return vmaxvq_s8(vreinterpretq_s8_u8(codes.v));
    }

    // --- int32 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 set(std::int32_t value) noexcept { return {vdupq_n_s32(value)}; }
    static INTQ_ALWAYS_INLINE i32 add(i32 a, i32 b) noexcept { return {vaddq_s32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 sub(i32 a, i32 b) noexcept { return {vsubq_s32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 mul(i32 a, i32 b) noexcept { return {vmulq_s32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32(min)(i32 a, i32 b) noexcept { return {vminq_s32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32(max)(i32 a, i32 b) noexcept { return {vmaxq_s32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 bit_and(i32 a, i32 b) noexcept { return {vandq_s32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 shift_left(i32 a, i32 n) noexcept { return {vshlq_s32(a.v, n.v)}; }
    static INTQ_ALWAYS_INLINE i32 shift_right(i32 a, i32 n) noexcept { return {vshlq_s32(a.v, vnegq_s32(n.v))}; }
    static INTQ_ALWAYS_INLINE i32 sqrdmulh(i32 a, i32 b) noexcept { return {vqrdmulhq_s32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE i32 mul_short(i32 a, i32 b) noexcept { return mul(a, b); }

    // --- int64 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i64 set_i64(std::int64_t value) noexcept {
        return {vdupq_n_s64(value), vdupq_n_s64(value)};
    }
    static INTQ_ALWAYS_INLINE i64 widen(i32 a) noexcept { return {vmovl_s32(vget_low_s32(a.v)), vmovl_high_s32(a.v)}; }
    static INTQ_ALWAYS_INLINE i64 mul_wide(i32 a, i32 b) noexcept {
        return {vmull_s32(vget_low_s32(a.v), vget_low_s32(b.v)), vmull_high_s32(a.v, b.v)};
    }
    static INTQ_ALWAYS_INLINE i64 mul(i64 a, i64 b) noexcept {
        return {mul_low(a.low, b.low), mul_low(a.high, b.high)};
    }
    static INTQ_ALWAYS_INLINE i64 add(i64 a, i64 b) noexcept {
        return {vaddq_s64(a.low, b.low), vaddq_s64(a.high, b.high)};
    }
    static INTQ_ALWAYS_INLINE i64 shift_left(i64 a, i64 n) noexcept {
        return {vshlq_s64(a.low, n.low), vshlq_s64(a.high, n.high)};
    }
    static INTQ_ALWAYS_INLINE i64 shift_right(i64 a, i64 n) noexcept {
        return {vshlq_s64(a.low, vnegq_s64(n.low)), vshlq_s64(a.high, vnegq_s64(n.high))};
    }
    static INTQ_ALWAYS_INLINE i32 narrow(i64 a) noexcept { return {vqmovn_high_s64(vqmovn_s64(a.low), a.high)}; }

    // --- float ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 set(float value) noexcept { return {vdupq_n_f32(value)}; }
    static INTQ_ALWAYS_INLINE f32 add(f32 a, f32 b) noexcept { return {vaddq_f32(a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 sub(f32 a, f32 b) noexcept { return {vsubq_f32(a.v, b.v)}; }
    /// Written as an instruction, which no compiler contracts. A barrier would copy products of sums in registers.
    static INTQ_ALWAYS_INLINE f32 mul(f32 a, f32 b) noexcept {
        f32 product;
        asm("fmul %0.4s, %1.4s, %2.4s" : "=w"(product.v) : "w"(a.v), "w"(b.v));
        return product;
    }
    static INTQ_ALWAYS_INLINE f32 div(f32 a, f32 b) noexcept { return barrier(vdivq_f32(a.v, b.v)); }
    static INTQ_ALWAYS_INLINE f32 fma(f32 a, f32 b, f32 c) noexcept { return {vfmaq_f32(c.v, a.v, b.v)}; }
    /// a · b + c for sums whose bits are not promised.
    static INTQ_ALWAYS_INLINE f32 mul_add(f32 a, f32 b, f32 c) noexcept { return fma(a, b, c); }
    static INTQ_ALWAYS_INLINE f32(min)(f32 a, f32 b) noexcept { return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32(max)(f32 a, f32 b) noexcept { return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)}; }
    static INTQ_ALWAYS_INLINE f32 floor(f32 a) noexcept { return positive_zero(vrndmq_f32(a.v)); }
    static INTQ_ALWAYS_INLINE f32 round_half_even(f32 a) noexcept { return positive_zero(vrndnq_f32(a.v)); }
    static INTQ_ALWAYS_INLINE f32 replace_nan(f32 a, f32 b) noexcept {
        return {vbslq_f32(vceqq_f32(a.v, a.v), a.v, b.v)};
    }
    static INTQ_ALWAYS_INLINE f32 keep_inside(f32 a, f32 low, f32 high, f32 b) noexcept {
        return {vreinterpretq_f32_u32(vandq_u32(inside(a, low, high), vreinterpretq_u32_f32(b.v)))};
    }
    static INTQ_ALWAYS_INLINE f32 choose_inside(f32 a, f32 low, f32 high, f32 b, f32 c) noexcept {
        return {vbslq_f32(inside(a, low, high), b.v, c.v)};
    }

    // --- conversions and reductions -------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 to_f32(i32 a) noexcept { return {vcvtq_f32_s32(a.v)}; }
    /// By way of binary64, which holds |a| <= 2^53 exactly.
    static INTQ_ALWAYS_INLINE f32 to_f32(i64 a) noexcept {
        return {vcvt_high_f32_f64(vcvt_f32_f64(vcvtq_f64_s64(a.low)), vcvtq_f64_s64(a.high))};
    }
    static INTQ_ALWAYS_INLINE i32 to_i32(f32 a) noexcept { return {vcvtq_s32_f32(a.v)}; }
    /// Conversion saturates below by itself.
    static INTQ_ALWAYS_INLINE i32 round_to_i32(f32 a) noexcept {
        return {vcvtnq_s32_f32(vminq_f32(a.v, vdupq_n_f32(2147483520.0f)))};
    }
    static INTQ_ALWAYS_INLINE i32 round_small_to_i32(f32 a) noexcept { return {vcvtnq_s32_f32(a.v)}; }
    static INTQ_ALWAYS_INLINE f32 from_bits(i32 a) noexcept { return {vreinterpretq_f32_s32(a.v)}; }
    static INTQ_ALWAYS_INLINE float reduce_min(f32 a) noexcept { return vminvq_f32(a.v) + 0.0f; }
    static INTQ_ALWAYS_INLINE float reduce_max(f32 a) noexcept { return vmaxvq_f32(a.v) + 0.0f; }
    static INTQ_ALWAYS_INLINE bool all_finite(f32 a) noexcept {
        return vmaxvq_u32(vreinterpretq_u32_f32(vabsq_f32(a.v))) < 0x7f800000u;
    }

    // --- registers and bytes, also for the tiles ------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE uint8x16_t raw(const void* from) noexcept {
        return vld1q_u8(static_cast<const std::uint8_t*>(from));
    }
    static INTQ_ALWAYS_INLINE void put(void* to, uint8x16_t x) noexcept { vst1q_u8(static_cast<std::uint8_t*>(to), x); }
    /// The first `size` bytes, and zeros.
    static INTQ_ALWAYS_INLINE uint8x16_t part(const void* from, index_t size) noexcept {
        const detail::Bytes16 read = detail::read_bytes16(from, size);
        return vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(read.low), vcreate_u64(read.high)));
    }
    static INTQ_ALWAYS_INLINE void put_part(void* to, uint8x16_t x, index_t size) noexcept {
        const uint64x2_t halves = vreinterpretq_u64_u8(x);
        detail::write_bytes16(to, {vgetq_lane_u64(halves, 0), vgetq_lane_u64(halves, 1)}, size);
    }

private:
    static INTQ_ALWAYS_INLINE int32x4_t widen8(std::uint32_t bytes) noexcept {
        return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(bytes)))));
    }
    /// Both halves in one statement: g++ 12 copies the lower one before it adds the upper one.
    static INTQ_ALWAYS_INLINE int16x8_t narrow16(i32 a, i32 b) noexcept {
        int16x8_t both;
        asm("sqxtn %0.4h, %1.4s\n sqxtn2 %0.8h, %2.4s" : "=&w"(both) : "w"(a.v), "w"(b.v));
        return both;
    }
    static INTQ_ALWAYS_INLINE int8x16_t narrow8(int16x8_t a, int16x8_t b) noexcept {
        int8x16_t both;
        asm("sqxtn %0.8b, %1.8h\n sqxtn2 %0.16b, %2.8h" : "=&w"(both) : "w"(a), "w"(b));
        return both;
    }
    static INTQ_ALWAYS_INLINE std::uint32_t narrow8(i32 x) noexcept {
        return vget_lane_u32(vreinterpret_u32_s8(vqmovn_s16(narrow16(x, x))), 0);
    }
    static INTQ_ALWAYS_INLINE uint32x4_t inside(f32 a, f32 low, f32 high) noexcept {
        return vandq_u32(vcgeq_f32(a.v, low.v), vcleq_f32(a.v, high.v));
    }
    /// NEON has no such product: low·low + ((low·high + high·low) << 32).
    static INTQ_ALWAYS_INLINE int64x2_t mul_low(int64x2_t a, int64x2_t b) noexcept {
        const uint32x4_t x = vreinterpretq_u32_s64(a), y = vreinterpretq_u32_s64(b);
        const uint64x2_t cross = vpaddlq_u32(vmulq_u32(vrev64q_u32(x), y));
        const uint32x2_t x_low = vmovn_u64(vreinterpretq_u64_s64(a)), y_low = vmovn_u64(vreinterpretq_u64_s64(b));
        return vreinterpretq_s64_u64(vmlal_u32(vshlq_n_u64(cross, 32), x_low, y_low));
    }
    /// Rounding keeps the sign of a zero; the specification's zero is positive.
    static INTQ_ALWAYS_INLINE f32 positive_zero(float32x4_t a) noexcept { return {vaddq_f32(a, vdupq_n_f32(0.0f))}; }
    /// As arith::value_barrier: compilers contract even intrinsics to fma.
    static INTQ_ALWAYS_INLINE f32 barrier(float32x4_t a) noexcept {
        asm("" : "+w"(a));
        return {a};
    }
};

template <> struct LanesOf<neon> { using type = neon_lanes; };

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __ARM_NEON && __AARCH64EL__

#endif  // INTQ_SIMD_ARM_NEON_HPP
