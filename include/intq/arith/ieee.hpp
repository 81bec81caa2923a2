// SPDX-License-Identifier: MIT
//
// Single float operations whose bits no compiler flag changes, and the parts of a float. Layer: arith
// (docs/design.md section 8, docs/arithmetic.md section 0).
#ifndef INTQ_ARITH_IEEE_HPP
#define INTQ_ARITH_IEEE_HPP

#include <bit>
#include <cstdint>
#include <type_traits>

#include "intq/core/abi.hpp"

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#    error "intq promises the bits of scales, quantize and fake-quantize: compile without -ffast-math and its parts"
#endif
#if defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ < 0 || __FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2)
#    error "intq promises the bits of scales: on 32-bit x86 compile with -msse2 -mfpmath=sse, because x87 rounds twice"
#endif

namespace intq::arith {
inline namespace INTQ_ABI {

/// Returns its argument; the compiler cannot look through it, so a product that passes it is rounded before a
/// sum sees it (no contraction to fma) at the cost of no instruction.
template <class T> INTQ_ALWAYS_INLINE constexpr T value_barrier(T value) noexcept {
    static_assert(std::is_floating_point_v<T>, "value_barrier guards float and double values");
    if (!std::is_constant_evaluated()) {
#if defined(__SSE2_MATH__)
        asm("" : "+x"(value));
#elif defined(__aarch64__)
        asm("" : "+w"(value));
#elif defined(__riscv_flen) && __riscv_flen >= 64
        asm("" : "+f"(value));
#elif defined(__ARM_FP) && !defined(__aarch64__) && (__ARM_FP & 12) == 12
        asm("" : "+w"(value));
#elif defined(__ARM_FP) && !defined(__aarch64__) && (__ARM_FP & 4) != 0
        if constexpr (sizeof(value) == 4)
            asm("" : "+t"(value));
        else
            asm("" : "+r"(value));
#elif defined(__wasm__)
        asm("" : "+r"(value));
#else
        asm("" : "+m"(value));
#endif
    }
    return value;
}

/// One binary32 product, one quotient, one sum: rounded to nearest even, never contracted.
INTQ_ALWAYS_INLINE constexpr float fmul(float a, float b) noexcept { return value_barrier(a * b); }
INTQ_ALWAYS_INLINE constexpr float fdiv(float a, float b) noexcept {
    return value_barrier(value_barrier(a) / value_barrier(b));
}
INTQ_ALWAYS_INLINE constexpr float fadd(float a, float b) noexcept { return value_barrier(a + b); }

/// The same for binary64.
INTQ_ALWAYS_INLINE constexpr double dmul(double a, double b) noexcept { return value_barrier(a * b); }

constexpr bool is_nan(float value) noexcept {
    return (std::bit_cast<std::uint32_t>(value) & 0x7fffffffu) > 0x7f800000u;
}
constexpr bool is_finite(float value) noexcept {
    return (std::bit_cast<std::uint32_t>(value) & 0x7f800000u) != 0x7f800000u;
}
constexpr bool is_finite(double value) noexcept {
    return (std::bit_cast<std::uint64_t>(value) & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}

/// Whether a scale's product or quotient is positive and keeps its value where denormal numbers are flushed to zero.
constexpr bool is_positive_normal(float value) noexcept { return value >= 0x1p-126f && is_finite(value); }

/// a · b + c, rounded once.
constexpr float ffma(float a, float b, float c) noexcept {
    // The product of two binary32 is exact in binary64. A sum that is not exact is rounded to odd: then the second
    // rounding, to less than half of the bits, is as good as the only one (Boldo and Melquiond 2008).
    const double product = static_cast<double>(a) * static_cast<double>(b), addend = static_cast<double>(c);
    const double sum = value_barrier(product + addend);
    const double part = value_barrier(sum - product);
    const double error = value_barrier(product - value_barrier(sum - part)) + value_barrier(addend - part);
    auto bits = std::bit_cast<std::uint64_t>(sum);
    if (is_finite(sum) && error != 0.0 && bits % 2 == 0) bits += (error > 0.0) == (sum > 0.0) ? 1u : ~std::uint64_t{0};
    return static_cast<float>(std::bit_cast<double>(bits));
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// value = mantissa · 2^exponent, 1/2 <= mantissa < 1 (0 and 0 for 0).
struct Frexp {
    double mantissa;
    int exponent;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// @pre value is finite and not negative
constexpr Frexp frexp(double value) noexcept {
    if (value == 0.0) return {0.0, 0};
    auto bits = std::bit_cast<std::uint64_t>(value);
    int exponent = static_cast<int>((bits >> 52) & 0x7ff);
    int correction = 0;
    if (exponent == 0) {  // subnormal: bring the leading bit into place first
        bits = std::bit_cast<std::uint64_t>(value * 0x1p64);
        exponent = static_cast<int>((bits >> 52) & 0x7ff);
        correction = -64;
    }
    bits = (bits & 0x800fffffffffffffu) | (std::uint64_t{1022} << 52);
    return {std::bit_cast<double>(bits), exponent - 1022 + correction};
}

/// 2^exponent in binary64, for -1022 <= exponent <= 1023.
constexpr double power_of_two(int exponent) noexcept {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// The smallest binary32 that is not below a positive `value`.
constexpr float round_up_to_float(double value) noexcept {
    const float nearest = static_cast<float>(value);
    if (static_cast<double>(nearest) >= value) return nearest;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) + 1u);
}

/// Number of bits of |value|: bit_length(0) = 0, bit_length(255) = 8.
constexpr int bit_length(std::int64_t value) noexcept {
    const auto magnitude =
        value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    return static_cast<int>(std::bit_width(magnitude));
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_IEEE_HPP
