// SPDX-License-Identifier: MIT
//
// The primitives in which every formula of arith/ is written, and their scalar meaning. Layer: arith.
//
// A formula is a template over a Lanes type. With scalar_lanes it is the specification, constexpr, one
// element at a time; with the lanes of a backend (simd/) it is the vector body of a kernel. So a formula is
// typed once, and a backend is right when each of its primitives equals the one below in every lane.
// After gemmlowp's fixedpoint.h, where one tanh runs on int32 and on a vector of eight.
#ifndef INTQ_ARITH_LANES_HPP
#define INTQ_ARITH_LANES_HPP

#include <bit>
#include <concepts>
#include <cstdint>

#include "intq/arith/ieee.hpp"
#include "intq/arith/rounding.hpp"
#include "intq/core/assert.hpp"
#include "intq/core/dtype.hpp"

namespace intq::arith {
inline namespace INTQ_ABI {

namespace detail {

/// a · b by products of 16 bits, for cores that have none of 64 (Armv6-M).
///
///     a = 2^16·high + low, low unsigned;  a·b = 2^32·high·high + 2^16·(high·low + low·high) + low·low
constexpr std::int64_t product_of_halves(std::int32_t a, std::int32_t b) noexcept {
    const std::int32_t a_high = a >> 16, b_high = b >> 16;
    const std::uint32_t a_low = static_cast<std::uint32_t>(a) & 0xffff, b_low = static_cast<std::uint32_t>(b) & 0xffff;
    const std::int64_t cross = std::int64_t{a_high * static_cast<std::int32_t>(b_low)} +
                               std::int64_t{b_high * static_cast<std::int32_t>(a_low)};
    const auto high = static_cast<std::uint64_t>(static_cast<std::uint32_t>(a_high * b_high)) << 32;
    return static_cast<std::int64_t>(high + (static_cast<std::uint64_t>(cross) << 16) + a_low * b_low);
}

}  // namespace detail

/// One element at a time. Each comment is the contract for one lane of any backend.
struct scalar_lanes {
    using i32 = std::int32_t;
    using i64 = std::int64_t;
    using f32 = float;

    /// Lanes of i32, i64 and f32 alike.
    static constexpr index_t width() noexcept { return 1; }

    // --- memory: `count` lanes, 0 <= count <= width(); no byte beyond them is touched -----------------------
    /// Widens int8, int16, int32; lanes from count on are 0.
    template <class T> static constexpr i32 load(const T* from, index_t count) noexcept {
        return count > 0 ? static_cast<i32>(*from) : 0;
    }
    static constexpr f32 load(const float* from, index_t count) noexcept { return count > 0 ? *from : 0.0f; }
    static constexpr i64 load_i64(const std::int64_t* from, index_t count) noexcept { return count > 0 ? *from : 0; }
    /// As load with count = width().
    template <class T> static constexpr auto load(const T* from) noexcept { return load(from, 1); }
    static constexpr i64 load_i64(const std::int64_t* from) noexcept { return *from; }
    /// Saturates to int8, int16 (int32: stores as is).
    static constexpr void store(std::int8_t* to, i32 x, index_t count) noexcept {
        if (count > 0) *to = static_cast<std::int8_t>((min)((max)(x, INT8_MIN), INT8_MAX));
    }
    static constexpr void store(std::int16_t* to, i32 x, index_t count) noexcept {
        if (count > 0) *to = static_cast<std::int16_t>((min)((max)(x, INT16_MIN), INT16_MAX));
    }
    static constexpr void store(std::int32_t* to, i32 x, index_t count) noexcept {
        if (count > 0) *to = x;
    }
    static constexpr void store(float* to, f32 x, index_t count) noexcept {
        if (count > 0) *to = x;
    }
    static constexpr void store_i64(std::int64_t* to, i64 x, index_t count) noexcept {
        if (count > 0) *to = x;
    }
    /// As store with count = width().
    template <class T> static constexpr void store(T* to, i32 x) noexcept { store(to, x, 1); }
    /// Four vectors, one behind the other; saturates to int8.
    static constexpr void store_four(std::int8_t* to, i32 a, i32 b, i32 c, i32 d) noexcept {
        store(to, a);
        store(to + 1, b);
        store(to + 2, c);
        store(to + 3, d);
    }
    /// sums[i] += (a[i] + b[i]) + (c[i] + d[i]) in binary64, for all lanes.
    static constexpr void add_to(double* sums, f32 a, f32 b, f32 c, f32 d) noexcept {
        *sums += (static_cast<double>(a) + static_cast<double>(b)) + (static_cast<double>(c) + static_cast<double>(d));
    }
    static constexpr void store(float* to, f32 x) noexcept { *to = x; }
    static constexpr void store_i64(std::int64_t* to, i64 x) noexcept { *to = x; }

    // --- codes as they lie in memory, int8 or int16: packed_width() of them in a vector --------------------------
    template <class T> using packed = T;
    template <class T> static constexpr index_t packed_width() noexcept { return 1; }
    /// 0 <= count <= packed_width(); no byte beyond them is touched, the other codes are 0.
    template <class T> static constexpr T load_packed(const T* from, index_t count) noexcept {
        return count > 0 ? *from : T{0};
    }
    template <class T> static constexpr T load_packed(const T* from) noexcept { return *from; }
    template <class T> static constexpr void store_packed(T* to, T x, index_t count) noexcept {
        if (count > 0) *to = x;
    }
    template <class T> static constexpr void store_packed(T* to, T x) noexcept { *to = x; }
    template <class T> static constexpr T set_packed(T value) noexcept { return value; }
    template <class T> static constexpr T min_packed(T a, T b) noexcept { return a < b ? a : b; }
    template <class T> static constexpr T max_packed(T a, T b) noexcept { return a > b ? a : b; }
    /// 256 codes, made ready once for many look-ups.
    struct table {
        const std::int8_t* entries;
    };
    /// @param entries  256, which outlive the table
    static constexpr table load_table(const std::int8_t* entries) noexcept { return {entries}; }
    /// entries[x + 128]
    static constexpr std::int8_t look_up(const table& t, std::int8_t x) noexcept { return t.entries[x + 128]; }
    /// from[index] in the lower sixteen bits, from[index + 1] in the upper ones.
    static constexpr i32 gather_pair(const std::int16_t* from, i32 index) noexcept {
        return static_cast<i32>(static_cast<std::uint32_t>(from[index + 1]) << 16 |
                                static_cast<std::uint16_t>(from[index]));
    }

    // --- int32, wrapping ------------------------------------------------------------------------------------
    static constexpr i32 set(std::int32_t value) noexcept { return value; }
    static constexpr i32 add(i32 a, i32 b) noexcept { return wrap(std::int64_t{a} + b); }
    static constexpr i32 sub(i32 a, i32 b) noexcept { return wrap(std::int64_t{a} - b); }
    /// Unsigned, so that cores without a 64-bit product take one instruction.
    static constexpr i32 mul(i32 a, i32 b) noexcept {
        return static_cast<i32>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
    }
    static constexpr i32(min)(i32 a, i32 b) noexcept { return a < b ? a : b; }
    static constexpr i32(max)(i32 a, i32 b) noexcept { return a > b ? a : b; }
    /// @pre 0 <= n <= 31
    static constexpr i32 shift_left(i32 a, i32 n) noexcept {
        return static_cast<i32>(static_cast<std::uint32_t>(a) << n);
    }
    /// fl(a / 2^n), @pre 0 <= n <= 31
    static constexpr i32 shift_right(i32 a, i32 n) noexcept { return a >> n; }

    // --- int64 ----------------------------------------------------------------------------------------------
    static constexpr i64 set_i64(std::int64_t value) noexcept { return value; }
    static constexpr i64 widen(i32 a) noexcept { return a; }
    /// Exact product of two int32.
    static constexpr i64 mul_wide(i32 a, i32 b) noexcept {
#if defined(__ARM_ARCH_6M__)
        return detail::product_of_halves(a, b);  // the compiler would call a function
#else
        return std::int64_t{a} * b;
#endif
    }
    /// Low 64 bits of the product.
    static constexpr i64 mul(i64 a, i64 b) noexcept {
        return static_cast<i64>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    }
    static constexpr i64 add(i64 a, i64 b) noexcept {
        return static_cast<i64>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    }
    /// @pre 0 <= n <= 63
    static constexpr i64 shift_left(i64 a, i64 n) noexcept {
        return static_cast<i64>(static_cast<std::uint64_t>(a) << n);
    }
    static constexpr i64 shift_right(i64 a, i64 n) noexcept { return a >> n; }
    /// Saturates to int32.
    static constexpr i32 narrow(i64 a) noexcept {
        return a < INT32_MIN ? INT32_MIN : a > INT32_MAX ? INT32_MAX : static_cast<i32>(a);
    }

    /// fl((a·b + 2^30) / 2^31): half the doubled product's high word, rounded; SQRDMULH of Arm, SRDHM of gemmlowp.
    /// @pre not both are -2^31, for which those saturate
    static constexpr i32 sqrdmulh(i32 a, i32 b) noexcept {
        return static_cast<i32>((mul_wide(a, b) + (std::int64_t{1} << 30)) >> 31);
    }
    /// a · b where both fill 16 bits. @pre -2^15 <= a < 2^15, 0 <= b < 2^15
    static constexpr i32 mul_short(i32 a, i32 b) noexcept { return a * b; }
    static constexpr i32 bit_and(i32 a, i32 b) noexcept { return a & b; }

    // --- float: each operation rounds once and is never contracted with another ----------------------------------
    static constexpr f32 set(float value) noexcept { return value; }
    static constexpr f32 add(f32 a, f32 b) noexcept { return fadd(a, b); }
    static constexpr f32 sub(f32 a, f32 b) noexcept { return fadd(a, -b); }
    static constexpr f32 mul(f32 a, f32 b) noexcept { return fmul(a, b); }
    static constexpr f32 div(f32 a, f32 b) noexcept { return fdiv(a, b); }
    /// a · b + c, rounded once.
    static constexpr f32 fma(f32 a, f32 b, f32 c) noexcept { return ffma(a, b, c); }
    /// b where either is NaN or the values are equal.
    static constexpr f32(min)(f32 a, f32 b) noexcept { return a < b ? a : b; }
    static constexpr f32(max)(f32 a, f32 b) noexcept { return a > b ? a : b; }
    /// fl(a), and the nearest integer with ties to even; NaN and infinities pass.
    static constexpr f32 floor(f32 a) noexcept { return arith::floor(a); }
    static constexpr f32 round_half_even(f32 a) noexcept { return arith::round_half_even(a); }
    /// b where a is NaN.
    static constexpr f32 replace_nan(f32 a, f32 b) noexcept { return is_nan(a) ? b : a; }
    /// b where low <= a <= high, else 0; 0 where a is NaN.
    static constexpr f32 keep_inside(f32 a, f32 low, f32 high, f32 b) noexcept {
        return a >= low && a <= high ? b : 0.0f;
    }
    /// b where low <= a <= high, else c; c where a is NaN.
    static constexpr f32 choose_inside(f32 a, f32 low, f32 high, f32 b, f32 c) noexcept {
        return a >= low && a <= high ? b : c;
    }

    // --- conversions ------------------------------------------------------------------------------------------
    /// Rounded once, to nearest even.
    static constexpr f32 to_f32(i32 a) noexcept { return static_cast<float>(a); }
    /// The same. @pre |a| <= 2^53
    static constexpr f32 to_f32(i64 a) noexcept { return static_cast<float>(a); }
    /// @pre a is integral, -2^31 <= a < 2^31
    static constexpr i32 to_i32(f32 a) noexcept { return static_cast<i32>(a); }
    /// The nearest integer, ties to even, saturated to [-2^31, 2^31 - 128], whose end is the largest float below 2^31.
    /// @pre a is not NaN
    static constexpr i32 round_to_i32(f32 a) noexcept {
        return to_i32(round_half_even((min)((max)(a, -2147483648.0f), 2147483520.0f)));
    }
    /// The same for |a| < 2^31, where nothing saturates.
    static constexpr i32 round_small_to_i32(f32 a) noexcept { return to_i32(round_half_even(a)); }
    /// The float with these bits.
    static constexpr f32 from_bits(i32 a) noexcept { return std::bit_cast<float>(a); }

    // --- reductions over all lanes ----------------------------------------------------------------------------
    /// @pre no lane is NaN. A zero comes out positive, whichever sign met the reduction first.
    static constexpr float reduce_min(f32 a) noexcept { return a + 0.0f; }
    static constexpr float reduce_max(f32 a) noexcept { return a + 0.0f; }
    /// Whether no lane is NaN or infinite.
    static constexpr bool all_finite(f32 a) noexcept { return is_finite(a); }

private:
    static constexpr i32 wrap(std::int64_t value) noexcept {
        return static_cast<i32>(static_cast<std::uint32_t>(value));
    }
};

// --- what a backend's lanes must have: every primitive above, in groups, so that an error names what is missing ------------

/// int8, int16, int32 and float from and to memory, whole vectors and parts.
template <class L>
concept LoadStoreLanes = requires(typename L::i32 i, typename L::i64 w, typename L::f32 f, const std::int8_t* from8,
                                  const std::int16_t* from16, const std::int32_t* from32, const std::int64_t* from64,
                                  const float* from_real, std::int8_t* to8, std::int16_t* to16, std::int32_t* to32,
                                  std::int64_t* to64, float* to_real, double* sums, index_t count) {
    { L::width() } -> std::same_as<index_t>;
    { L::load(from8, count) } -> std::same_as<typename L::i32>;
    { L::load(from16, count) } -> std::same_as<typename L::i32>;
    { L::load(from32, count) } -> std::same_as<typename L::i32>;
    { L::load(from_real, count) } -> std::same_as<typename L::f32>;
    { L::load_i64(from64, count) } -> std::same_as<typename L::i64>;
    { L::load(from8) } -> std::same_as<typename L::i32>;
    { L::load(from16) } -> std::same_as<typename L::i32>;
    { L::load(from32) } -> std::same_as<typename L::i32>;
    { L::load(from_real) } -> std::same_as<typename L::f32>;
    { L::load_i64(from64) } -> std::same_as<typename L::i64>;
    { L::store(to8, i, count) } -> std::same_as<void>;
    { L::store(to16, i, count) } -> std::same_as<void>;
    { L::store(to32, i, count) } -> std::same_as<void>;
    { L::store(to_real, f, count) } -> std::same_as<void>;
    { L::store_i64(to64, w, count) } -> std::same_as<void>;
    { L::store(to8, i) } -> std::same_as<void>;
    { L::store(to16, i) } -> std::same_as<void>;
    { L::store(to32, i) } -> std::same_as<void>;
    { L::store(to_real, f) } -> std::same_as<void>;
    { L::store_i64(to64, w) } -> std::same_as<void>;
    { L::store_four(to8, i, i, i, i) } -> std::same_as<void>;
    { L::add_to(sums, f, f, f, f) } -> std::same_as<void>;
};

/// Codes of one type as they lie in memory.
template <class L, class T>
concept PackedLanesOf = requires(typename L::template packed<T> x, const T* from, T* to, T value, index_t count) {
    { L::template packed_width<T>() } -> std::same_as<index_t>;
    { L::load_packed(from, count) } -> std::same_as<typename L::template packed<T>>;
    { L::load_packed(from) } -> std::same_as<typename L::template packed<T>>;
    { L::store_packed(to, x, count) } -> std::same_as<void>;
    { L::store_packed(to, x) } -> std::same_as<void>;
    { L::set_packed(value) } -> std::same_as<typename L::template packed<T>>;
    { L::min_packed(x, x) } -> std::same_as<typename L::template packed<T>>;
    { L::max_packed(x, x) } -> std::same_as<typename L::template packed<T>>;
};

/// Look-ups of codes in tables.
template <class L>
concept LookUpLanes = requires(const typename L::table& table, typename L::template packed<std::int8_t> x,
                               const std::int8_t* entries, const std::int16_t* from, typename L::i32 index) {
    { L::load_table(entries) } -> std::same_as<typename L::table>;
    { L::look_up(table, x) } -> std::same_as<typename L::template packed<std::int8_t>>;
    { L::gather_pair(from, index) } -> std::same_as<typename L::i32>;
};

/// int32, wrapping.
template <class L>
concept IntegerLanes = requires(typename L::i32 a, typename L::i32 b) {
    { L::set(std::int32_t{}) } -> std::same_as<typename L::i32>;
    { L::add(a, b) } -> std::same_as<typename L::i32>;
    { L::sub(a, b) } -> std::same_as<typename L::i32>;
    { L::mul(a, b) } -> std::same_as<typename L::i32>;
    { (L::min)(a, b) } -> std::same_as<typename L::i32>;
    { (L::max)(a, b) } -> std::same_as<typename L::i32>;
    { L::shift_left(a, b) } -> std::same_as<typename L::i32>;
    { L::shift_right(a, b) } -> std::same_as<typename L::i32>;
    { L::sqrdmulh(a, b) } -> std::same_as<typename L::i32>;
    { L::mul_short(a, b) } -> std::same_as<typename L::i32>;
    { L::bit_and(a, b) } -> std::same_as<typename L::i32>;
};

/// int64, and the way there and back.
template <class L>
concept WideIntegerLanes = requires(typename L::i32 a, typename L::i64 x, typename L::i64 y) {
    { L::set_i64(std::int64_t{}) } -> std::same_as<typename L::i64>;
    { L::widen(a) } -> std::same_as<typename L::i64>;
    { L::mul_wide(a, a) } -> std::same_as<typename L::i64>;
    { L::mul(x, y) } -> std::same_as<typename L::i64>;
    { L::add(x, y) } -> std::same_as<typename L::i64>;
    { L::shift_left(x, y) } -> std::same_as<typename L::i64>;
    { L::shift_right(x, y) } -> std::same_as<typename L::i64>;
    { L::narrow(x) } -> std::same_as<typename L::i32>;
};

/// binary32, each operation rounded once.
template <class L>
concept FloatLanes = requires(typename L::f32 a, typename L::f32 b, typename L::f32 c) {
    { L::set(float{}) } -> std::same_as<typename L::f32>;
    { L::add(a, b) } -> std::same_as<typename L::f32>;
    { L::sub(a, b) } -> std::same_as<typename L::f32>;
    { L::mul(a, b) } -> std::same_as<typename L::f32>;
    { L::div(a, b) } -> std::same_as<typename L::f32>;
    { L::fma(a, b, c) } -> std::same_as<typename L::f32>;
    { (L::min)(a, b) } -> std::same_as<typename L::f32>;
    { (L::max)(a, b) } -> std::same_as<typename L::f32>;
    { L::floor(a) } -> std::same_as<typename L::f32>;
    { L::round_half_even(a) } -> std::same_as<typename L::f32>;
    { L::replace_nan(a, b) } -> std::same_as<typename L::f32>;
    { L::keep_inside(a, b, c, a) } -> std::same_as<typename L::f32>;
    { L::choose_inside(a, b, c, a, b) } -> std::same_as<typename L::f32>;
};

/// Between integers and floats.
template <class L>
concept ConversionLanes = requires(typename L::i32 i, typename L::i64 w, typename L::f32 f) {
    { L::to_f32(i) } -> std::same_as<typename L::f32>;
    { L::to_f32(w) } -> std::same_as<typename L::f32>;
    { L::to_i32(f) } -> std::same_as<typename L::i32>;
    { L::round_to_i32(f) } -> std::same_as<typename L::i32>;
    { L::round_small_to_i32(f) } -> std::same_as<typename L::i32>;
    { L::from_bits(i) } -> std::same_as<typename L::f32>;
};

/// Over all lanes of a vector.
template <class L>
concept ReductionLanes = requires(typename L::f32 f) {
    { L::reduce_min(f) } -> std::same_as<float>;
    { L::reduce_max(f) } -> std::same_as<float>;
    { L::all_finite(f) } -> std::same_as<bool>;
};

/// The primitives that a formula may use. The tests of each backend check that each does what its comment says.
template <class L>
concept Lanes =
    LoadStoreLanes<L> && PackedLanesOf<L, std::int8_t> && PackedLanesOf<L, std::int16_t> && LookUpLanes<L> &&
    IntegerLanes<L> && WideIntegerLanes<L> && FloatLanes<L> && ConversionLanes<L> && ReductionLanes<L>;

/// Refuses lanes that lack a primitive. Each group has its own assertion, because compilers name the missing expression
/// of a concept, but not of a concept inside a concept.
template <class L> struct CheckLanes {
    static_assert(LoadStoreLanes<L>, "the lanes of a backend lack a load or a store of arith::scalar_lanes");
    static_assert(PackedLanesOf<L, std::int8_t>, "the lanes of a backend lack an operation on packed int8 codes");
    static_assert(PackedLanesOf<L, std::int16_t>, "the lanes of a backend lack an operation on packed int16 codes");
    static_assert(LookUpLanes<L>, "the lanes of a backend lack a look-up of arith::scalar_lanes");
    static_assert(IntegerLanes<L>, "the lanes of a backend lack an operation on int32 of arith::scalar_lanes");
    static_assert(WideIntegerLanes<L>, "the lanes of a backend lack an operation on int64 of arith::scalar_lanes");
    static_assert(FloatLanes<L>, "the lanes of a backend lack an operation on float of arith::scalar_lanes");
    static_assert(ConversionLanes<L>, "the lanes of a backend lack a conversion of arith::scalar_lanes");
    static_assert(ReductionLanes<L>, "the lanes of a backend lack a reduction of arith::scalar_lanes");
    static constexpr bool value = true;
};

static_assert(CheckLanes<scalar_lanes>::value && Lanes<scalar_lanes>);

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_LANES_HPP
