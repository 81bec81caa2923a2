// SPDX-License-Identifier: MIT
//
// The portable backend over the batches of the xsimd library, 8.1 and newer. Layer: simd (docs/design.md section 11).
//
// It uses only operations whose results are the same in every version and architecture; a minimum, for one, is a
// comparison and a selection, because versions disagree about NaN. ARMv7 is left out: it flushes subnormal floats
// and has no division. So is clang without exceptions before version 14, whose headers throw.
#ifndef INTQ_SIMD_PORTABLE_XSIMD_HPP
#define INTQ_SIMD_PORTABLE_XSIMD_HPP

#include "intq/arith/lanes.hpp"
#include "intq/core/config.hpp"
#include "intq/simd/base/intrinsics.hpp"  // before xsimd includes them with their warnings

#if INTQ_WITH_XSIMD && (defined(__SSE4_1__) || defined(__aarch64__))
#    include <xsimd/config/xsimd_config.hpp>
#    if !defined(__clang__) || defined(__cpp_exceptions) || XSIMD_VERSION_MAJOR >= 14
#        define INTQ_DETAIL_XSIMD_ 1
#    endif
#endif

#ifdef INTQ_DETAIL_XSIMD_

#    include <bit>
#    include <cstdint>

#    include <xsimd/xsimd.hpp>

#    include "intq/simd/tiles/generic_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

static_assert(std::endian::native == std::endian::little,
              "xsimd_lanes takes the low half of an int64 for its even lane");

/// As many lanes as a register has 32-bit elements. An i64 is two batches, of the even and of the odd lanes.
/// Each function does in every lane what arith::scalar_lanes does.
template <class Arch> struct xsimd_lanes {
    using i32 = ::xsimd::batch<std::int32_t, Arch>;
    using f32 = ::xsimd::batch<float, Arch>;
    using b64 = ::xsimd::batch<std::int64_t, Arch>;
    struct i64 {
        b64 even, odd;
    };

    static constexpr int lane_count = static_cast<int>(i32::size);
    static constexpr index_t width() noexcept { return lane_count; }
    /// Vector registers of the machine: bounds the rows of the portable tile.
#    if defined(__aarch64__)
    static constexpr int registers = 32;
#    else
    static constexpr int registers = sizeof(f32) == 64 ? 32 : 16;
#    endif

    // --- memory ---------------------------------------------------------------------------------------------
    template <class T> static INTQ_ALWAYS_INLINE i32 load(const T* from, index_t count) noexcept {
        Memory<std::int32_t> memory{};
        for (index_t i = 0; i < count; ++i) memory.lane[i] = from[i];
        return i32::load_aligned(memory.lane);
    }
    static INTQ_ALWAYS_INLINE f32 load(const float* from, index_t count) noexcept {
        Memory<float> memory{};
        for (index_t i = 0; i < count; ++i) memory.lane[i] = from[i];
        return f32::load_aligned(memory.lane);
    }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from, index_t count) noexcept {
        Memory<std::int64_t> memory{};
        for (index_t i = 0; i < count; ++i) memory.lane[i % 2 * (width() / 2) + i / 2] = from[i];
        return {b64::load_aligned(memory.lane), b64::load_aligned(memory.lane + width() / 2)};
    }
    template <class T> static INTQ_ALWAYS_INLINE i32 load(const T* from) noexcept { return load(from, width()); }
    static INTQ_ALWAYS_INLINE i32 load(const std::int32_t* from) noexcept { return i32::load_unaligned(from); }
    static INTQ_ALWAYS_INLINE f32 load(const float* from) noexcept { return f32::load_unaligned(from); }
    static INTQ_ALWAYS_INLINE i64 load_i64(const std::int64_t* from) noexcept { return load_i64(from, width()); }
    static INTQ_ALWAYS_INLINE void store(std::int8_t* to, i32 x, index_t count) noexcept {
        store_narrow(to, (min)((max)(x, set(INT8_MIN)), set(INT8_MAX)), count);
    }
    static INTQ_ALWAYS_INLINE void store(std::int16_t* to, i32 x, index_t count) noexcept {
        store_narrow(to, (min)((max)(x, set(INT16_MIN)), set(INT16_MAX)), count);
    }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x, index_t count) noexcept {
        store_narrow(to, x, count);
    }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x, index_t count) noexcept {
        Memory<float> memory;
        x.store_aligned(memory.lane);
        for (index_t i = 0; i < count; ++i) to[i] = memory.lane[i];
    }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x, index_t count) noexcept {
        Memory<std::int64_t> memory;
        x.even.store_aligned(memory.lane);
        x.odd.store_aligned(memory.lane + width() / 2);
        for (index_t i = 0; i < count; ++i) to[i] = memory.lane[i % 2 * (width() / 2) + i / 2];
    }
    template <class T> static INTQ_ALWAYS_INLINE void store(T* to, i32 x) noexcept { store(to, x, width()); }
    static INTQ_ALWAYS_INLINE void store(std::int32_t* to, i32 x) noexcept { x.store_unaligned(to); }
    static INTQ_ALWAYS_INLINE void store(float* to, f32 x) noexcept { x.store_unaligned(to); }
    static INTQ_ALWAYS_INLINE void store_i64(std::int64_t* to, i64 x) noexcept { store_i64(to, x, width()); }
    static INTQ_ALWAYS_INLINE void store_four(std::int8_t* to, i32 a, i32 b, i32 c, i32 d) noexcept {
        store(to, a);
        store(to + width(), b);
        store(to + 2 * width(), c);
        store(to + 3 * width(), d);
    }
    static INTQ_ALWAYS_INLINE void add_to(double* sums, f32 a, f32 b, f32 c, f32 d) noexcept {
        Memory<float> w, x, y, z;
        a.store_aligned(w.lane);
        b.store_aligned(x.lane);
        c.store_aligned(y.lane);
        d.store_aligned(z.lane);
        for (int i = 0; i < lane_count; ++i)
            arith::scalar_lanes::add_to(sums + i, w.lane[i], x.lane[i], y.lane[i], z.lane[i]);
    }

    // Plain loops: as many codes as a register has bytes for, which compilers turn into its instructions.
    // --- packed codes ---------------------------------------------------------------------------------------
    template <class T> struct packed { T code[std::size_t{4 * lane_count} / sizeof(T)]; };
    template <class T> static constexpr index_t packed_width() noexcept {
        return index_t{std::size_t{4 * lane_count} / sizeof(T)};
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> load_packed(const T* from, index_t count) noexcept {
        packed<T> x{};
        for (index_t i = 0; i < count; ++i) x.code[i] = from[i];
        return x;
    }
    template <class T> static INTQ_ALWAYS_INLINE void store_packed(T* to, packed<T> x, index_t count) noexcept {
        for (index_t i = 0; i < count; ++i) to[i] = x.code[i];
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> load_packed(const T* from) noexcept {
        return load_packed(from, packed_width<T>());
    }
    template <class T> static INTQ_ALWAYS_INLINE void store_packed(T* to, packed<T> x) noexcept {
        store_packed(to, x, packed_width<T>());
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> set_packed(T value) noexcept {
        packed<T> x;
        for (T& code : x.code) code = value;
        return x;
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> min_packed(packed<T> a, packed<T> b) noexcept {
        for (index_t i = 0; i < packed_width<T>(); ++i)
            a.code[i] = arith::scalar_lanes::min_packed(a.code[i], b.code[i]);
        return a;
    }
    template <class T> static INTQ_ALWAYS_INLINE packed<T> max_packed(packed<T> a, packed<T> b) noexcept {
        for (index_t i = 0; i < packed_width<T>(); ++i)
            a.code[i] = arith::scalar_lanes::max_packed(a.code[i], b.code[i]);
        return a;
    }
    using table = arith::scalar_lanes::table;
    static INTQ_ALWAYS_INLINE table load_table(const std::int8_t* entries) noexcept { return {entries}; }
    static INTQ_ALWAYS_INLINE packed<std::int8_t> look_up(const table& t, packed<std::int8_t> x) noexcept {
        for (std::int8_t& code : x.code) code = arith::scalar_lanes::look_up(t, code);
        return x;
    }

    static INTQ_ALWAYS_INLINE i32 gather_pair(const std::int16_t* from, i32 index) noexcept {
        Memory<std::int32_t> memory;
        index.store_aligned(memory.lane);
        for (std::int32_t& lane : memory.lane) lane = arith::scalar_lanes::gather_pair(from, lane);
        return i32::load_aligned(memory.lane);
    }

    // --- int32 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i32 set(std::int32_t value) noexcept { return i32(value); }
    static INTQ_ALWAYS_INLINE i32 add(i32 a, i32 b) noexcept { return a + b; }
    static INTQ_ALWAYS_INLINE i32 sub(i32 a, i32 b) noexcept { return a - b; }
    static INTQ_ALWAYS_INLINE i32 mul(i32 a, i32 b) noexcept { return a * b; }
    static INTQ_ALWAYS_INLINE i32(min)(i32 a, i32 b) noexcept { return (::xsimd::min)(a, b); }
    static INTQ_ALWAYS_INLINE i32(max)(i32 a, i32 b) noexcept { return (::xsimd::max)(a, b); }
    static INTQ_ALWAYS_INLINE i32 shift_left(i32 a, i32 n) noexcept { return a << n; }
    static INTQ_ALWAYS_INLINE i32 shift_right(i32 a, i32 n) noexcept { return a >> n; }

    // --- int64 ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE i64 set_i64(std::int64_t value) noexcept { return {b64(value), b64(value)}; }
    static INTQ_ALWAYS_INLINE i64 widen(i32 a) noexcept {
        const b64 pairs = cast<std::int64_t>(a);
        return {(pairs << 32) >> 32, pairs >> 32};
    }
    static INTQ_ALWAYS_INLINE i32 sqrdmulh(i32 a, i32 b) noexcept {
        return narrow(shift_right(add(mul_wide(a, b), set_i64(std::int64_t{1} << 30)), set_i64(31)));
    }
    static INTQ_ALWAYS_INLINE i32 mul_short(i32 a, i32 b) noexcept { return mul(a, b); }
    static INTQ_ALWAYS_INLINE i32 bit_and(i32 a, i32 b) noexcept { return a & b; }
    static INTQ_ALWAYS_INLINE i64 mul_wide(i32 a, i32 b) noexcept { return mul(widen(a), widen(b)); }
    static INTQ_ALWAYS_INLINE i64 mul(i64 a, i64 b) noexcept { return {a.even * b.even, a.odd * b.odd}; }
    static INTQ_ALWAYS_INLINE i64 add(i64 a, i64 b) noexcept { return {a.even + b.even, a.odd + b.odd}; }
    static INTQ_ALWAYS_INLINE i64 shift_left(i64 a, i64 n) noexcept { return {a.even << n.even, a.odd << n.odd}; }
    static INTQ_ALWAYS_INLINE i64 shift_right(i64 a, i64 n) noexcept { return {a.even >> n.even, a.odd >> n.odd}; }
    /// The low half is the result where the high half is its sign; else the sign of the high half saturates. (No int32
    /// selection: version 8.1 with g++ and AVX-512 compiles none without optimisation.)
    static INTQ_ALWAYS_INLINE i32 narrow(i64 a) noexcept {
        const b64 low_half(std::int64_t{0xffffffff});
        const i32 low = cast<std::int32_t>((a.even & low_half) | (a.odd << 32));
        const i32 high = cast<std::int32_t>(((a.even >> 32) & low_half) | (a.odd & ~low_half));
        const i32 rest = high ^ (low >> 31), saturates = (rest | (set(0) - rest)) >> 31;
        return low ^ ((low ^ (high >> 31) ^ set(INT32_MAX)) & saturates);
    }

    // --- float ----------------------------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 set(float value) noexcept { return f32(value); }
    static INTQ_ALWAYS_INLINE f32 add(f32 a, f32 b) noexcept { return a + b; }
    static INTQ_ALWAYS_INLINE f32 sub(f32 a, f32 b) noexcept { return a - b; }
    static INTQ_ALWAYS_INLINE f32 mul(f32 a, f32 b) noexcept { return barrier(a * b); }
    static INTQ_ALWAYS_INLINE f32 div(f32 a, f32 b) noexcept { return barrier(a / b); }
    /// Lane by lane: xsimd's own rounds twice where the architecture has no such instruction.
    static INTQ_ALWAYS_INLINE f32 fma(f32 a, f32 b, f32 c) noexcept {
        Memory<float> x, y, z;
        a.store_aligned(x.lane);
        b.store_aligned(y.lane);
        c.store_aligned(z.lane);
        for (int i = 0; i < lane_count; ++i) z.lane[i] = arith::ffma(x.lane[i], y.lane[i], z.lane[i]);
        return f32::load_aligned(z.lane);
    }
    static INTQ_ALWAYS_INLINE f32(min)(f32 a, f32 b) noexcept { return ::xsimd::select(a < b, a, b); }
    static INTQ_ALWAYS_INLINE f32(max)(f32 a, f32 b) noexcept { return ::xsimd::select(a > b, a, b); }
    // The sum turns -0, which the instructions keep, into the specification's 0.
    static INTQ_ALWAYS_INLINE f32 floor(f32 a) noexcept { return ::xsimd::floor(a) + set(0.0f); }
    static INTQ_ALWAYS_INLINE f32 round_half_even(f32 a) noexcept { return ::xsimd::nearbyint(a) + set(0.0f); }
    static INTQ_ALWAYS_INLINE f32 replace_nan(f32 a, f32 b) noexcept { return ::xsimd::select(a == a, a, b); }
    static INTQ_ALWAYS_INLINE f32 keep_inside(f32 a, f32 low, f32 high, f32 b) noexcept {
        return ::xsimd::select((a >= low) & (a <= high), b, set(0.0f));
    }
    static INTQ_ALWAYS_INLINE f32 choose_inside(f32 a, f32 low, f32 high, f32 b, f32 c) noexcept {
        return ::xsimd::select((a >= low) & (a <= high), b, c);
    }
    /// a · b + c for sums whose bits are not promised.
    static INTQ_ALWAYS_INLINE f32 mul_add(f32 a, f32 b, f32 c) noexcept { return ::xsimd::fma(a, b, c); }

    // --- conversions and reductions -------------------------------------------------------------------------
    static INTQ_ALWAYS_INLINE f32 to_f32(i32 a) noexcept { return ::xsimd::to_float(a); }
    /// Lane by lane: few architectures have such an instruction.
    static INTQ_ALWAYS_INLINE f32 to_f32(i64 a) noexcept {
        Memory<std::int64_t> sums;
        Memory<float> reals;
        store_i64(sums.lane, a);
        for (int i = 0; i < lane_count; ++i) reals.lane[i] = static_cast<float>(sums.lane[i]);
        return f32::load_aligned(reals.lane);
    }
    static INTQ_ALWAYS_INLINE i32 to_i32(f32 a) noexcept { return ::xsimd::to_int(a); }
    static INTQ_ALWAYS_INLINE i32 round_to_i32(f32 a) noexcept {
        return to_i32(round_half_even((min)((max)(a, set(-2147483648.0f)), set(2147483520.0f))));
    }
    static INTQ_ALWAYS_INLINE i32 round_small_to_i32(f32 a) noexcept { return to_i32(round_half_even(a)); }
    static INTQ_ALWAYS_INLINE f32 from_bits(i32 a) noexcept { return cast<float>(a); }
    static INTQ_ALWAYS_INLINE float reduce_min(f32 a) noexcept {
        return reduce(a, [](float x, float y) INTQ_ALWAYS_INLINE_LAMBDA { return x < y ? x : y; });
    }
    static INTQ_ALWAYS_INLINE float reduce_max(f32 a) noexcept {
        return reduce(a, [](float x, float y) INTQ_ALWAYS_INLINE_LAMBDA { return x > y ? x : y; });
    }
    static INTQ_ALWAYS_INLINE bool all_finite(f32 a) noexcept {
        const i32 exponent(0x7f800000);
        return !::xsimd::any((cast<std::int32_t>(a) & exponent) == exponent);
    }

private:
    template <class T> struct Memory { alignas(64) T lane[static_cast<std::size_t>(lane_count)]; };

    template <class T> static INTQ_ALWAYS_INLINE void store_narrow(T* to, i32 x, index_t count) noexcept {
        Memory<std::int32_t> memory;
        x.store_aligned(memory.lane);
        for (index_t i = 0; i < count; ++i) to[i] = static_cast<T>(memory.lane[i]);
    }
    template <class Function> static INTQ_ALWAYS_INLINE float reduce(f32 a, Function&& function) noexcept {
        Memory<float> memory;
        a.store_aligned(memory.lane);
        float result = memory.lane[0];
        for (int i = 1; i < lane_count; ++i) result = function(memory.lane[i], result);
        return result + 0.0f;
    }
    /// The same bits as elements of type To.
    template <class To, class From>
    static INTQ_ALWAYS_INLINE ::xsimd::batch<To, Arch> cast(::xsimd::batch<From, Arch> a) noexcept {
#    if XSIMD_VERSION_MAJOR >= 11
        return ::xsimd::bitwise_cast<To>(a);
#    else
        return ::xsimd::bitwise_cast<::xsimd::batch<To, Arch>>(a);
#    endif
    }
    /// As arith::value_barrier: compilers contract even intrinsics to fma.
    static INTQ_ALWAYS_INLINE f32 barrier(f32 a) noexcept {
#    if defined(__aarch64__)
        asm("" : "+w"(a.data));
#    elif defined(__AVX512F__)
        asm("" : "+v"(a.data));
#    else
        asm("" : "+x"(a.data));
#    endif
        return a;
    }
};

template <class Arch>
requires(Arch::supported()) struct LanesOf<xsimd<Arch>> {
    using type = xsimd_lanes<Arch>;
};

template <> struct LanesOf<xsimd<best_arch>> { using type = xsimd_lanes<::xsimd::default_arch>; };

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_DETAIL_XSIMD_

#endif  // INTQ_SIMD_PORTABLE_XSIMD_HPP
