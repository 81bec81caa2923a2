// SPDX-License-Identifier: MIT
//
// The backend of RISC-V vectors (RVV 1.0): 16 lanes at each length of a register. Layer: simd
// (docs/design.md sections 5, 11; docs/scalable_vectors.md).
//
// Compilers do not contract intrinsics of these vectors, so products need no barrier.
// Long because the lanes are one struct, and this one has a body for every primitive.
#ifndef INTQ_SIMD_RISCV_RVV_HPP
#define INTQ_SIMD_RISCV_RVV_HPP

#include "intq/simd/riscv/rvv_registers.hpp"

#ifdef INTQ_DETAIL_RVV_

#    include <cstddef>
#    include <cstdint>
#    include <limits>
#    include <type_traits>

#    include "intq/simd/base/primitives.hpp"
#    include "intq/simd/tiles/depthwise_tile.hpp"
#    include "intq/simd/tiles/generic_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// Sixteen lanes, in as many registers as they fill.
/// Each function does in every lane what arith::scalar_lanes does.
struct rvv_lanes {
    struct i32 {
        detail::RvvWords v;
    };
    struct i64 {
        detail::RvvLongs v;
    };
    struct f32 {
        detail::RvvFloats v;
    };

    static constexpr index_t width() noexcept { return 16; }
    /// Vectors that the registers of the machine hold: bounds the rows of the portable tile.
    static constexpr int registers = __riscv_v_fixed_vlen / 16;
    static constexpr bool has_whole_loops = true;

    // --- memory ---------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from) noexcept { return widened(raw8(from)); }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from) noexcept { return widened(raw16(from)); }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vle32_v_i32, 32)(from, vl)};
    }
    static INTQ_ALWAYS_INLINE f32 load(const float* from) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vle32_v_f32, 32)(from, vl)};
    }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vle64_v_i64, 64)(from, vl)};
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int8_t* from, index_t count) noexcept {
        return widened(part8(from, count));
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int16_t* from, index_t count) noexcept {
        return widened(part16(from, count));
    }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from, index_t count) noexcept {
        return {__riscv_vle32_tu(set(std::int32_t{0}).v, from, size(count))};
    }
    static INTQ_ALWAYS_INLINE f32 load(const float* from, index_t count) noexcept {
        return {__riscv_vle32_tu(set(0.0f).v, from, size(count))};
    }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from, index_t count) noexcept {
        return {__riscv_vle64_tu(set_i64(0).v, from, size(count))};
    }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x) noexcept { store(to, x, width()); }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x) noexcept { store(to, x, width()); }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x) noexcept { store(to, x, width()); }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x) noexcept { store(to, x, width()); }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x) noexcept { store_i64(to, x, width()); }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x, index_t count) noexcept {
        __riscv_vse8(to, narrow8(narrow16(x)), size(count));
    }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x, index_t count) noexcept {
        __riscv_vse16(to, narrow16(x), size(count));
    }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x, index_t count) noexcept {
        __riscv_vse32(to, x.v, size(count));
    }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x, index_t count) noexcept {
        __riscv_vse32(to, x.v, size(count));
    }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x, index_t count) noexcept {
        __riscv_vse64(to, x.v, size(count));
    }
    static INTQ_ALWAYS_INLINE void store_four(std::int8_t* to, i32 a, i32 b, i32 c, i32 d) noexcept {
        const auto a16 = narrow16(a), b16 = narrow16(b), c16 = narrow16(c), d16 = narrow16(d);
        __riscv_vse8(to, narrow8(a16), vl);
        __riscv_vse8(to + width(), narrow8(b16), vl);
        __riscv_vse8(to + 2 * width(), narrow8(c16), vl);
        __riscv_vse8(to + 3 * width(), narrow8(d16), vl);
    }
    static INTQ_ALWAYS_INLINE void add_to(double* sums, f32 a, f32 b, f32 c, f32 d) noexcept {
        const auto first = __riscv_vfwadd_vv(a.v, b.v, vl), second = __riscv_vfwadd_vv(c.v, d.v, vl);
        const auto sum = __riscv_vfadd(first, second, vl);
        __riscv_vse64(sums, __riscv_vfadd(INTQ_DETAIL_RVV_OF_(__riscv_vle64_v_f64, 64)(sums, vl), sum, vl), vl);
    }

    /// int8 codes, narrowed by way of int16: that leaves enough of a code of 8 bits, with a zero point of 8 bits too.
    class CodeQuad {
    public:
        INTQ_ALWAYS_INLINE CodeQuad(std::int32_t zero_point, std::int32_t quant_min, std::int32_t quant_max) noexcept
            : zero_point_(static_cast<std::int16_t>(zero_point)),
              quant_min_(static_cast<std::int8_t>(quant_min)),
              quant_max_(static_cast<std::int8_t>(quant_max)) {}

        /// @param code  one to four vectors
        template <class... I32>
        INTQ_ALWAYS_INLINE void store(std::int8_t* to, index_t count, const I32&... code) const noexcept {
            constexpr int vectors = static_cast<int>(sizeof...(I32));
            static_assert(vectors >= 1 && vectors <= 4);
            const i32 v[] = {code...};
            unroll<vectors>([&](auto i) INTQ_ALWAYS_INLINE_LAMBDA {
                const index_t left = count - i * width();
                if (i + 1 < vectors || left >= width())
                    __riscv_vse8(to + i * width(), codes(v[i]), vl);
                else if (left > 0)
                    __riscv_vse8(to + i * width(), codes(v[i]), size(left));
            });
        }
#    if __riscv_v_fixed_vlen == 128
        /// Four rows are narrowed in one group of registers.
        INTQ_ALWAYS_INLINE void store_rows(std::int8_t* const (&to)[4], index_t count,
                                           const i32 (&code)[4]) const noexcept {
            constexpr std::size_t all = 4 * vl;
            const auto halves = __riscv_vsadd(__riscv_vcreate_v_i16m2_i16m8(narrow16(code[0]), narrow16(code[1]),
                                                                            narrow16(code[2]), narrow16(code[3])),
                                              zero_point_, all);
            const auto bytes = __riscv_vnclip(halves, 0, __RISCV_VXRM_RNU, all);
            const auto codes = __riscv_vmin(__riscv_vmax(bytes, quant_min_, all), quant_max_, all);
            const std::size_t left = size(count);
            __riscv_vse8(to[0], __riscv_vget_v_i8m4_i8m1(codes, 0), left);
            __riscv_vse8(to[1], __riscv_vget_v_i8m4_i8m1(codes, 1), left);
            __riscv_vse8(to[2], __riscv_vget_v_i8m4_i8m1(codes, 2), left);
            __riscv_vse8(to[3], __riscv_vget_v_i8m4_i8m1(codes, 3), left);
        }
#    endif
        INTQ_ALWAYS_INLINE void store_rounded(std::int8_t* to, f32 a, f32 b, f32 c, f32 d) const noexcept {
            store(to, 4 * width(), round_number(a), round_number(b), round_number(c), round_number(d));
        }

    private:
        /// 0 for NaN, which the conversion would make the largest integer.
        static INTQ_ALWAYS_INLINE i32 round_number(f32 a) noexcept {
            return round_small_to_i32(replace_nan(a, set(0.0f)));
        }
        INTQ_ALWAYS_INLINE INTQ_DETAIL_RVV_TYPE_(vint8, 8) codes(i32 x) const noexcept {
            const auto narrow = narrow8(__riscv_vsadd(narrow16(x), zero_point_, vl));
            return __riscv_vmin(__riscv_vmax(narrow, quant_min_, vl), quant_max_, vl);
        }

        std::int16_t zero_point_;
        std::int8_t quant_min_, quant_max_;
    };

    static INTQ_ALWAYS_INLINE void widen_bytes(const std::int8_t* from, std::int16_t* to, index_t size) noexcept {
        for (index_t i = 0; i < size; i += 2 * width()) {
            const std::size_t count = static_cast<std::size_t>(size - i < 2 * width() ? size - i : 2 * width());
            __riscv_vse16(to + i, __riscv_vsext_vf2(INTQ_DETAIL_RVV_OF_(__riscv_vle8_v_i8, 16)(from + i, count), count),
                          count);
        }
    }

    // --- packed codes ---------------------------------------------------------------------------------------
    template <class T> struct packed { std::conditional_t<sizeof(T) == 1, detail::RvvBytes64, detail::RvvHalves32> v; };
    using bytes = packed<std::int8_t>;
    using words = packed<std::int16_t>;
    template <class T> static constexpr index_t packed_width() noexcept { return index_t{64} / sizeof(T); }
    static INTQ_ALWAYS_INLINE bytes load_packed(const std::int8_t* from) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vle8_v_i8, 32)(from, 64)};
    }
    static INTQ_ALWAYS_INLINE words load_packed(const std::int16_t* from) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vle16_v_i16, 32)(from, 32)};
    }
    static INTQ_ALWAYS_INLINE bytes load_packed(const std::int8_t* from, index_t count) noexcept {
        return {__riscv_vle8_tu(set_packed(std::int8_t{0}).v, from, size(count))};
    }
    static INTQ_ALWAYS_INLINE words load_packed(const std::int16_t* from, index_t count) noexcept {
        return {__riscv_vle16_tu(set_packed(std::int16_t{0}).v, from, size(count))};
    }
    static INTQ_ALWAYS_INLINE void store_packed(std::int8_t* to, bytes x) noexcept { store_packed(to, x, 64); }
    static INTQ_ALWAYS_INLINE void store_packed(std::int16_t* to, words x) noexcept { store_packed(to, x, 32); }
    static INTQ_ALWAYS_INLINE void store_packed(std::int8_t* to, bytes x, index_t count) noexcept {
        __riscv_vse8(to, x.v, size(count));
    }
    static INTQ_ALWAYS_INLINE void store_packed(std::int16_t* to, words x, index_t count) noexcept {
        __riscv_vse16(to, x.v, size(count));
    }
    static INTQ_ALWAYS_INLINE bytes set_packed(std::int8_t value) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vmv_v_x_i8, 32)(value, 64)};
    }
    static INTQ_ALWAYS_INLINE words set_packed(std::int16_t value) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vmv_v_x_i16, 32)(value, 32)};
    }
    static INTQ_ALWAYS_INLINE bytes min_packed(bytes a, bytes b) noexcept { return {__riscv_vmin(a.v, b.v, 64)}; }
    static INTQ_ALWAYS_INLINE bytes max_packed(bytes a, bytes b) noexcept { return {__riscv_vmax(a.v, b.v, 64)}; }
    static INTQ_ALWAYS_INLINE words min_packed(words a, words b) noexcept { return {__riscv_vmin(a.v, b.v, 32)}; }
    static INTQ_ALWAYS_INLINE words max_packed(words a, words b) noexcept { return {__riscv_vmax(a.v, b.v, 32)}; }
    static INTQ_ALWAYS_INLINE std::int32_t largest_packed(bytes codes) noexcept {
        const auto lowest = __riscv_vmv_s_x_i8m1(INT8_MIN, 1);
        return __riscv_vmv_x(__riscv_vredmax(codes.v, lowest, 64));
    }
    /// In memory: 256 entries fill half of the registers of 256 bits, and all of 128.
    struct table {
        const std::int8_t* entries;
    };
    static INTQ_ALWAYS_INLINE table load_table(const std::int8_t* entries) noexcept { return {entries}; }
    static INTQ_ALWAYS_INLINE bytes look_up(const table& t, bytes x) noexcept {
        const auto index = __riscv_vxor(INTQ_DETAIL_RVV_OF_(__riscv_vreinterpret_u8, 32)(x.v), 128, 64);
        return {__riscv_vluxei8(t.entries, index, 64)};
    }
    /// Places are in bytes. Elements of 32 bits at such places would not be aligned.
    static INTQ_ALWAYS_INLINE i32 gather_pair(const std::int16_t* from, i32 index) noexcept {
        const auto* const first = reinterpret_cast<const std::uint16_t*>(from);
        const auto place = unsigned_of(__riscv_vsll(index.v, 1, vl));
        const auto low = __riscv_vzext_vf2(__riscv_vluxei32(first, place, vl), vl);
        const auto high = __riscv_vzext_vf2(__riscv_vluxei32(first + 1, place, vl), vl);
        return signed_of(__riscv_vor(low, __riscv_vsll(high, 16, vl), vl));
    }
    static INTQ_ALWAYS_INLINE i32 gather_below(const std::int32_t* table, std::int32_t from,
                                               const std::int8_t* index) noexcept {
        const auto place = __riscv_vsll(__riscv_vrsub(load(index).v, from, vl), 2, vl);
        return {__riscv_vluxei32(table, unsigned_of(place), vl)};
    }

    // --- int32 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 set(std::int32_t value) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vmv_v_x_i32, 32)(value, vl)};
    }
    static INTQ_ALWAYS_INLINE i32 add(i32 a, i32 b) noexcept { return {__riscv_vadd(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE i32 sub(i32 a, i32 b) noexcept { return {__riscv_vsub(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE i32 mul(i32 a, i32 b) noexcept { return {__riscv_vmul(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE i32(min)(i32 a, i32 b) noexcept { return {__riscv_vmin(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE i32(max)(i32 a, i32 b) noexcept { return {__riscv_vmax(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE i32 bit_and(i32 a, i32 b) noexcept { return {__riscv_vand(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE i32 shift_left(i32 a, i32 n) noexcept {
        return {__riscv_vsll(a.v, unsigned_of(n.v), vl)};
    }
    static INTQ_ALWAYS_INLINE i32 shift_right(i32 a, i32 n) noexcept {
        return {__riscv_vsra(a.v, unsigned_of(n.v), vl)};
    }
    static INTQ_ALWAYS_INLINE i32 sqrdmulh(i32 a, i32 b) noexcept {
        return {__riscv_vsmul(a.v, b.v, __RISCV_VXRM_RNU, vl)};
    }
    static INTQ_ALWAYS_INLINE i32 mul_short(i32 a, i32 b) noexcept { return mul(a, b); }
    /// fl((2·|a| + n) / 2n), with the sign of a.
    static INTQ_ALWAYS_INLINE i32 divide_half_away(i32 a, std::int32_t n) noexcept {
        const auto sign = __riscv_vsra(a.v, 31, vl);  // -1 or 0
        const auto magnitude = unsigned_of(__riscv_vsub(__riscv_vxor(a.v, sign, vl), sign, vl));
        const auto divisor = static_cast<std::uint32_t>(n);
        const auto quotient = __riscv_vdivu(__riscv_vadd(magnitude, divisor / 2, vl), divisor, vl);
        return {__riscv_vsub(__riscv_vxor(signed_of(quotient).v, sign, vl), sign, vl)};
    }

    // --- int64 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i64 set_i64(std::int64_t value) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vmv_v_x_i64, 64)(value, vl)};
    }
    static INTQ_ALWAYS_INLINE i64 widen(i32 a) noexcept { return {__riscv_vsext_vf2(a.v, vl)}; }
    static INTQ_ALWAYS_INLINE i64 mul_wide(i32 a, i32 b) noexcept { return {__riscv_vwmul(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE i64 mul(i64 a, i64 b) noexcept { return {__riscv_vmul(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE i64 add(i64 a, i64 b) noexcept { return {__riscv_vadd(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE i64 shift_left(i64 a, i64 n) noexcept {
        return {__riscv_vsll(a.v, INTQ_DETAIL_RVV_OF_(__riscv_vreinterpret_u64, 64)(n.v), vl)};
    }
    static INTQ_ALWAYS_INLINE i64 shift_right(i64 a, i64 n) noexcept {
        return {__riscv_vsra(a.v, INTQ_DETAIL_RVV_OF_(__riscv_vreinterpret_u64, 64)(n.v), vl)};
    }
    static INTQ_ALWAYS_INLINE i32 narrow(i64 a) noexcept { return {__riscv_vnclip(a.v, 0, __RISCV_VXRM_RNU, vl)}; }

    // --- float ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 set(float value) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vfmv_v_f_f32, 32)(value, vl)};
    }
    static INTQ_ALWAYS_INLINE f32 add(f32 a, f32 b) noexcept { return {__riscv_vfadd(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE f32 sub(f32 a, f32 b) noexcept { return {__riscv_vfsub(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE f32 mul(f32 a, f32 b) noexcept { return {__riscv_vfmul(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE f32 div(f32 a, f32 b) noexcept { return {__riscv_vfdiv(a.v, b.v, vl)}; }
    static INTQ_ALWAYS_INLINE f32 fma(f32 a, f32 b, f32 c) noexcept { return {__riscv_vfmacc(c.v, a.v, b.v, vl)}; }
    /// a · b + c for sums whose bits are not promised.
    static INTQ_ALWAYS_INLINE f32 mul_add(f32 a, f32 b, f32 c) noexcept { return fma(a, b, c); }
    static INTQ_ALWAYS_INLINE f32(min)(f32 a, f32 b) noexcept {
        return {__riscv_vmerge(b.v, a.v, __riscv_vmflt(a.v, b.v, vl), vl)};
    }
    static INTQ_ALWAYS_INLINE f32(max)(f32 a, f32 b) noexcept {
        return {__riscv_vmerge(b.v, a.v, __riscv_vmfgt(a.v, b.v, vl), vl)};
    }
    static INTQ_ALWAYS_INLINE f32 floor(f32 a) noexcept {
        return integral(a, {__riscv_vfcvt_x(a.v, __RISCV_FRM_RDN, vl)});
    }
    static INTQ_ALWAYS_INLINE f32 round_half_even(f32 a) noexcept { return integral(a, round_small_to_i32(a)); }
    static INTQ_ALWAYS_INLINE f32 replace_nan(f32 a, f32 b) noexcept {
        return {__riscv_vmerge(b.v, a.v, __riscv_vmfeq(a.v, a.v, vl), vl)};
    }
    static INTQ_ALWAYS_INLINE f32 keep_inside(f32 a, f32 low, f32 high, f32 b) noexcept {
        return choose_inside(a, low, high, b, set(0.0f));
    }
    static INTQ_ALWAYS_INLINE f32 choose_inside(f32 a, f32 low, f32 high, f32 b, f32 c) noexcept {
        const auto inside = __riscv_vmand(__riscv_vmfge(a.v, low.v, vl), __riscv_vmfle(a.v, high.v, vl), vl);
        return {__riscv_vmerge(c.v, b.v, inside, vl)};
    }

    // --- conversions and reductions -------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 to_f32(i32 a) noexcept { return {__riscv_vfcvt_f(a.v, vl)}; }
    static INTQ_ALWAYS_INLINE f32 to_f32(i64 a) noexcept { return {__riscv_vfncvt_f(a.v, vl)}; }
    /// Of an integral number, in any mode; QEMU 7.2 stops at the conversion that truncates.
    static INTQ_ALWAYS_INLINE i32 to_i32(f32 a) noexcept { return {__riscv_vfcvt_x(a.v, vl)}; }
    /// Conversion saturates below by itself.
    static INTQ_ALWAYS_INLINE i32 round_to_i32(f32 a) noexcept {
        return round_small_to_i32({__riscv_vfmin(a.v, 2147483520.0f, vl)});
    }
    static INTQ_ALWAYS_INLINE i32 round_small_to_i32(f32 a) noexcept {
        return {__riscv_vfcvt_x(a.v, __RISCV_FRM_RNE, vl)};
    }
    /// The mode of a conversion is that of the thread: one of its own takes two instructions more.
    class NearestMode {
    public:
        NearestMode() noexcept { asm volatile("fsrmi %0, 0" : "=r"(given_) : : "memory"); }
        ~NearestMode() { asm volatile("fsrm %0" : : "r"(given_) : "memory"); }
        NearestMode(const NearestMode&) = delete;
        NearestMode& operator=(const NearestMode&) = delete;

    private:
        std::size_t given_;
    };
    static INTQ_ALWAYS_INLINE i32 round_in_mode(f32 a) noexcept { return {__riscv_vfcvt_x(a.v, vl)}; }
    static INTQ_ALWAYS_INLINE f32 from_bits(i32 a) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vreinterpret_f32, 32)(a.v)};
    }
    static INTQ_ALWAYS_INLINE float reduce_min(f32 a) noexcept {
        const auto most = __riscv_vfmv_s_f_f32m1(std::numeric_limits<float>::infinity(), 1);
        return __riscv_vfmv_f(__riscv_vfredmin(a.v, most, vl)) + 0.0f;
    }
    static INTQ_ALWAYS_INLINE float reduce_max(f32 a) noexcept {
        const auto least = __riscv_vfmv_s_f_f32m1(-std::numeric_limits<float>::infinity(), 1);
        return __riscv_vfmv_f(__riscv_vfredmax(a.v, least, vl)) + 0.0f;
    }
    static INTQ_ALWAYS_INLINE bool all_finite(f32 a) noexcept {
        const auto bits = INTQ_DETAIL_RVV_OF_(__riscv_vreinterpret_u32, 32)(__riscv_vfabs(a.v, vl));
        return __riscv_vmv_x(__riscv_vredmaxu(bits, __riscv_vmv_s_x_u32m1(0, 1), vl)) < 0x7f800000u;
    }

    // --- sixteen codes as they lie in memory, also for the tiles ------------------------------------------------
    static constexpr std::size_t vl = 16;
    using Bytes = INTQ_DETAIL_RVV_TYPE_(vint8, 8);
    using Halves = INTQ_DETAIL_RVV_TYPE_(vint16, 16);
    static INTQ_ALWAYS_INLINE Bytes raw8(const std::int8_t* from) noexcept {
        return INTQ_DETAIL_RVV_OF_(__riscv_vle8_v_i8, 8)(from, vl);
    }
    static INTQ_ALWAYS_INLINE Halves raw16(const std::int16_t* from) noexcept {
        return INTQ_DETAIL_RVV_OF_(__riscv_vle16_v_i16, 16)(from, vl);
    }

    /// Some of them, and zeros, as int16.
    static INTQ_ALWAYS_INLINE Halves part16(const std::int8_t* from, index_t count) noexcept {
        return __riscv_vsext_vf2(part8(from, count), vl);
    }
    static INTQ_ALWAYS_INLINE Halves part16(const std::int16_t* from, index_t count) noexcept {
        return INTQ_DETAIL_JOIN(INTQ_DETAIL_RVV_OF_(__riscv_vle16_v_i16, 16), _tu)(
            INTQ_DETAIL_RVV_OF_(__riscv_vmv_v_x_i16, 16)(0, vl), from, size(count));
    }

private:
    using Words = INTQ_DETAIL_RVV_TYPE_(vint32, 32);
    using UnsignedWords = INTQ_DETAIL_RVV_TYPE_(vuint32, 32);

    static constexpr std::size_t size(index_t count) noexcept { return static_cast<std::size_t>(count); }
    static INTQ_ALWAYS_INLINE Bytes part8(const std::int8_t* from, index_t count) noexcept {
        return INTQ_DETAIL_JOIN(INTQ_DETAIL_RVV_OF_(__riscv_vle8_v_i8, 8), _tu)(
            INTQ_DETAIL_RVV_OF_(__riscv_vmv_v_x_i8, 8)(0, vl), from, size(count));
    }
    static INTQ_ALWAYS_INLINE i32 widened(Bytes codes) noexcept { return {__riscv_vsext_vf4(codes, vl)}; }
    static INTQ_ALWAYS_INLINE i32 widened(Halves codes) noexcept { return {__riscv_vsext_vf2(codes, vl)}; }
    static INTQ_ALWAYS_INLINE Halves narrow16(i32 x) noexcept { return __riscv_vnclip(x.v, 0, __RISCV_VXRM_RNU, vl); }
    static INTQ_ALWAYS_INLINE Bytes narrow8(Halves x) noexcept { return __riscv_vnclip(x, 0, __RISCV_VXRM_RNU, vl); }
    static INTQ_ALWAYS_INLINE UnsignedWords unsigned_of(Words x) noexcept {
        return INTQ_DETAIL_RVV_OF_(__riscv_vreinterpret_u32, 32)(x);
    }
    static INTQ_ALWAYS_INLINE i32 signed_of(UnsignedWords x) noexcept {
        return {INTQ_DETAIL_RVV_OF_(__riscv_vreinterpret_i32, 32)(x)};
    }
    /// The integer that a float below 2^23 was rounded to, whose zero is positive; others are integral, or NaN.
    static INTQ_ALWAYS_INLINE f32 integral(f32 a, i32 rounded) noexcept {
        const auto is_small = __riscv_vmflt(__riscv_vfabs(a.v, vl), 8388608.0f, vl);
        return {__riscv_vmerge(a.v, to_f32(rounded).v, is_small, vl)};
    }
};

template <> struct LanesOf<INTQ_DETAIL_RVV_> { using type = rvv_lanes; };

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_DETAIL_RVV_

#endif  // INTQ_SIMD_RISCV_RVV_HPP
