// SPDX-License-Identifier: MIT
//
// The instructions of the DSP extension, as functions. Layer: simd (docs/design.md sections 5, 11).
#ifndef INTQ_SIMD_ARM_DSP_WORDS_HPP
#define INTQ_SIMD_ARM_DSP_WORDS_HPP

#include "intq/core/config.hpp"

#if (defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32) && __ARM_ARCH_PROFILE == 'M') || INTQ_EMULATES_DSP
#    define INTQ_DETAIL_DSP_ 1
#endif

#ifdef INTQ_DETAIL_DSP_

#    include <bit>
#    include <cstdint>

#    if defined(__ARM_FEATURE_SIMD32)
#        include <arm_acle.h>
#    endif

#    include "intq/arith/lanes.hpp"
#    include "intq/core/abi.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// The instructions, each as its manual defines it. Sums wrap.
struct DspWords {
    /// acc + x[0]·w[0] + x[1]·w[1] over the int16 halves of two words.
    static INTQ_ALWAYS_INLINE std::int32_t smlad(std::int32_t acc, std::int32_t x, std::int32_t w) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        return __smlad(x, w, acc);
#    else
        const auto low = [](std::int32_t word) { return std::int64_t{static_cast<std::int16_t>(word)}; };
        return static_cast<std::int32_t>(acc + low(x) * low(w) + std::int64_t{x >> 16} * (w >> 16));
#    endif
    }
    /// The same in 64 bits.
    static INTQ_ALWAYS_INLINE std::int64_t smlad(std::int64_t acc, std::int32_t x, std::int32_t w) noexcept {
        const auto low = [](std::int32_t word) { return std::int64_t{static_cast<std::int16_t>(word & 0xffff)}; };
        return acc + low(x) * low(w) + std::int64_t{x >> 16} * (w >> 16);
    }
    /// acc + x·w over the lower halves.
    static INTQ_ALWAYS_INLINE std::int32_t smlabb(std::int32_t acc, std::int32_t x, std::int32_t w) noexcept {
        const std::int32_t product = static_cast<std::int16_t>(x & 0xffff) * static_cast<std::int16_t>(w & 0xffff);
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(acc) + static_cast<std::uint32_t>(product));
    }
    /// Bytes 0 and 2 of a word as two int16.
    static INTQ_ALWAYS_INLINE std::int32_t even_bytes(std::int32_t word) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        return __sxtb16(word);
#    else
        return ((word << 24 >> 24) & 0xffff) | (word << 8 >> 24 << 16);
#    endif
    }
    /// Bytes 1 and 3.
    static INTQ_ALWAYS_INLINE std::int32_t odd_bytes(std::int32_t word) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        std::int32_t result;  // one instruction, which no intrinsic names
        asm("sxtb16 %0, %1, ror #8" : "=r"(result) : "r"(word));
        return result;
#    else
        return even_bytes(static_cast<std::int32_t>(std::rotr(static_cast<std::uint32_t>(word), 8)));
#    endif
    }
    /// The int16 halves of a, plus bytes 0 and 2 of a word, or bytes 1 and 3; each half wraps.
    static INTQ_ALWAYS_INLINE std::int32_t add_even_bytes(std::int32_t a, std::int32_t word) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        return __sxtab16(a, word);
#    else
        return add_halves(a, even_bytes(word));
#    endif
    }
    static INTQ_ALWAYS_INLINE std::int32_t add_odd_bytes(std::int32_t a, std::int32_t word) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        std::int32_t result;
        asm("sxtab16 %0, %1, %2, ror #8" : "=r"(result) : "r"(a), "r"(word));
        return result;
#    else
        return add_halves(a, odd_bytes(word));
#    endif
    }
    /// The lower halves of two words, or the upper ones: PKHBT, PKHTB.
    static INTQ_ALWAYS_INLINE std::int32_t low_halves(std::int32_t a, std::int32_t b) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        std::int32_t result;  // g++ 12 takes two instructions for each
        asm("pkhbt %0, %1, %2, lsl #16" : "=r"(result) : "r"(a), "r"(b));
        return result;
#    else
        return (a & 0xffff) | static_cast<std::int32_t>(static_cast<std::uint32_t>(b) << 16);
#    endif
    }
    static INTQ_ALWAYS_INLINE std::int32_t high_halves(std::int32_t a, std::int32_t b) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        std::int32_t result;
        asm("pkhtb %0, %1, %2, asr #16" : "=r"(result) : "r"(b), "r"(a));
        return result;
#    else
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) >> 16) | (b & ~0xffff);
#    endif
    }
    /// a + byte Index of a word.
    template <int Index> static INTQ_ALWAYS_INLINE std::int32_t add_byte(std::int32_t a, std::int32_t word) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        std::int32_t result;
        asm("sxtab %0, %1, %2, ror %3" : "=r"(result) : "r"(a), "r"(word), "i"(8 * Index));
        return result;
#    else
        return a + static_cast<std::int8_t>(word >> (8 * Index) & 0xff);
#    endif
    }
    /// fl((a·b + 2^31) / 2^32)
    static INTQ_ALWAYS_INLINE std::int32_t smmulr(std::int32_t a, std::int32_t b) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        std::int32_t result;
        asm("smmulr %0, %1, %2" : "=r"(result) : "r"(a), "r"(b));
        return result;
#    else
        return static_cast<std::int32_t>((std::int64_t{a} * b + (std::int64_t{1} << 31)) >> 32);
#    endif
    }
    /// c + fl((a·b + 2^31) / 2^32)
    static INTQ_ALWAYS_INLINE std::int32_t smmlar(std::int32_t a, std::int32_t b, std::int32_t c) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        std::int32_t result;
        asm("smmlar %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(c));
        return result;
#    else
        return static_cast<std::int32_t>(std::int64_t{c} + smmulr(a, b));
#    endif
    }
    /// a + b, saturated to int32.
    static INTQ_ALWAYS_INLINE std::int32_t add_saturated(std::int32_t a, std::int32_t b) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        return __qadd(a, b);
#    else
        return arith::scalar_lanes::narrow(std::int64_t{a} + b);
#    endif
    }
    /// A word with its byte Index replaced by the lowest one of a code.
    template <int Index>
    static INTQ_ALWAYS_INLINE std::int32_t put_byte(std::int32_t word, std::int32_t code) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        asm("bfi %0, %1, %2, #8" : "+r"(word) : "r"(code), "i"(8 * Index));
        return word;
#    else
        const std::uint32_t mask = 0xffu << (8 * Index);
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(word) & ~mask) |
                                         (static_cast<std::uint32_t>(code) << (8 * Index) & mask));
#    endif
    }
    /// The larger and the smaller one of each pair of bytes. Both instructions stand together: the flags that join them
    /// are no operand.
    static INTQ_ALWAYS_INLINE std::int32_t larger_bytes(std::int32_t a, std::int32_t b) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        std::int32_t result;
        asm("ssub8 %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(result) : "r"(a), "r"(b) : "cc");
        return result;
#    else
        return choose_bytes(a, b, a, b);
#    endif
    }
    static INTQ_ALWAYS_INLINE std::int32_t smaller_bytes(std::int32_t a, std::int32_t b) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        std::int32_t result;
        asm("ssub8 %0, %2, %1\n\tsel %0, %1, %2" : "=&r"(result) : "r"(a), "r"(b) : "cc");
        return result;
#    else
        return choose_bytes(b, a, a, b);
#    endif
    }
    /// The nearest integer, ties to even, saturated to int32; 0 of NaN. VCVTR rounds as the unit is set, which is to
    /// the nearest, as for every product.
    static INTQ_ALWAYS_INLINE std::int32_t rounded(float a) noexcept {
#    if defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FP) && (__ARM_FP & 4) != 0
        float bits;
        asm("vcvtr.s32.f32 %0, %1" : "=t"(bits) : "t"(a));
        return std::bit_cast<std::int32_t>(bits);
#    else
        return arith::scalar_lanes::round_to_i32(arith::scalar_lanes::replace_nan(a, 0.0f));
#    endif
    }
    /// Saturates to 0 … 127.
    static INTQ_ALWAYS_INLINE std::int32_t usat7(std::int32_t a) noexcept {
#    if defined(__ARM_FEATURE_SAT)
        return static_cast<std::int32_t>(__usat(a, 7));
#    else
        return a < 0 ? 0 : a > INT8_MAX ? INT8_MAX : a;
#    endif
    }
    /// Saturates to 0 … 32767.
    static INTQ_ALWAYS_INLINE std::int32_t usat15(std::int32_t a) noexcept {
#    if defined(__ARM_FEATURE_SAT)
        return static_cast<std::int32_t>(__usat(a, 15));
#    else
        return a < 0 ? 0 : a > INT16_MAX ? INT16_MAX : a;
#    endif
    }
    /// Saturates to int8.
    static INTQ_ALWAYS_INLINE std::int32_t ssat8(std::int32_t a) noexcept {
#    if defined(__ARM_FEATURE_SAT)
        std::int32_t result;  // the macro of g++ 12 converts signs inside
        asm("ssat %0, #8, %1" : "=r"(result) : "r"(a));
        return result;
#    else
        return a < INT8_MIN ? INT8_MIN : a > INT8_MAX ? INT8_MAX : a;
#    endif
    }

#    if !defined(__ARM_FEATURE_SIMD32)
private:
    static INTQ_ALWAYS_INLINE std::int32_t add_halves(std::int32_t a, std::int32_t b) noexcept {
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b)) & 0xffff) |
               static_cast<std::int32_t>((static_cast<std::uint32_t>(a >> 16) + static_cast<std::uint32_t>(b >> 16))
                                         << 16);
    }
    /// Bytes of `one` where x >= y, and of `other` elsewhere.
    static INTQ_ALWAYS_INLINE std::int32_t choose_bytes(std::int32_t x, std::int32_t y, std::int32_t one,
                                                        std::int32_t other) noexcept {
        std::uint32_t mask = 0;
        for (int at = 0; at < 32; at += 8)
            if (static_cast<std::int8_t>(x >> at & 0xff) >= static_cast<std::int8_t>(y >> at & 0xff))
                mask |= 0xffu << at;
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(one) & mask) |
                                         (static_cast<std::uint32_t>(other) & ~mask));
    }
#    endif
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif
#endif  // INTQ_SIMD_ARM_DSP_WORDS_HPP
