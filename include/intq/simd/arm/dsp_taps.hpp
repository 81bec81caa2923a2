// SPDX-License-Identifier: MIT
//
// The loop of 3×3 depthwise layers on dsp that are read tap by tap. Layer: simd (docs/design.md sections 5, 11).
#ifndef INTQ_SIMD_ARM_DSP_TAPS_HPP
#define INTQ_SIMD_ARM_DSP_TAPS_HPP

#include "intq/simd/arm/dsp_words.hpp"

#ifdef INTQ_DETAIL_DSP_

#    include <cstddef>
#    include <cstdint>

#    include "intq/simd/base/code_streams.hpp"
#    include "intq/simd/tiles/tap_windows.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

#    if defined(__ARM_FEATURE_SIMD32)
namespace detail {

static_assert(sizeof(void*) == 4 && offsetof(TapWindows, blocks) == 24 && offsetof(TapWindows, zero_point) == 36);

// Nothing may be concluded from a body that the compiler does not read.
#        ifdef __clang__
#            define INTQ_DETAIL_TAPS_FUNCTION_ inline __attribute__((naked, noinline))
#        else
#            define INTQ_DETAIL_TAPS_FUNCTION_ inline __attribute__((naked, noinline, noipa))
#        endif

/// The weights of two channels, whose bytes begin at `from` of r1 and 18 behind it: of four taps, pairs to every second
/// word from `to` of r12 on.
#        define INTQ_DETAIL_PAIRS_(from, to) \
            "ldr r2, [r1, #" from            \
            "]\n\t"                          \
            "ldr r3, [r1, #18 + " from       \
            "]\n\t"                          \
            "sxtb16 r4, r2\n\t"              \
            "sxtb16 r5, r3\n\t"              \
            "sxtb16 r2, r2, ror #8\n\t"      \
            "sxtb16 r3, r3, ror #8\n\t"      \
            "pkhbt r6, r4, r5, lsl #16\n\t"  \
            "pkhtb r4, r5, r4, asr #16\n\t"  \
            "pkhbt r5, r2, r3, lsl #16\n\t"  \
            "pkhtb r2, r3, r2, asr #16\n\t"  \
            "str r6, [r12, #" to             \
            "]\n\t"                          \
            "str r5, [r12, #8 + " to         \
            "]\n\t"                          \
            "str r4, [r12, #16 + " to        \
            "]\n\t"                          \
            "str r2, [r12, #24 + " to "]\n\t"

/// Four channels of the tap at x: their products with the pairs of channels 0 and 2, and 1 and 3, are added to r0 to
/// r3.
#        define INTQ_DETAIL_FOUR_(x, even, odd) \
            "ldr " x ", [" x                    \
            ", lr]\n\t"                         \
            "sxtb16 r10, " x                    \
            ", ror #8\n\t"                      \
            "sxtb16 " x ", " x                  \
            "\n\t"                              \
            "smlabb r0, " x ", " even           \
            ", r0\n\t"                          \
            "smlatt r2, " x ", " even           \
            ", r2\n\t"                          \
            "smlabb r1, r10, " odd              \
            ", r1\n\t"                          \
            "smlatt r3, r10, " odd ", r3\n\t"
#        define INTQ_DETAIL_TWO_TAPS_ \
            "ldm r11!, {r8, r9}\n\t"  \
            "ldm r12!, {r4-r7}\n\t" INTQ_DETAIL_FOUR_("r8", "r4", "r5") INTQ_DETAIL_FOUR_("r9", "r6", "r7")

/// The bytes of a word from the sums in r0 to r3, with the multipliers and powers at r12.
#        define INTQ_DETAIL_EACH_(instruction) ".irp i, 0, 1, 2, 3\n\t" instruction "\n\t.endr\n\t"
#        define INTQ_DETAIL_WORD_positive_ \
            "ldm r12!, {r4-r7}\n\t"                                    \
            "smmlar r0, r0, r4, r0\n\t"                                \
            "smmlar r1, r1, r5, r1\n\t"                                \
            "smmlar r2, r2, r6, r2\n\t"                                \
            "smmlar r3, r3, r7, r3\n\t"                                \
            "ldm r12, {r4-r7}\n\t"                                     \
            "smmulr r0, r0, r4\n\t"                                    \
            "smmulr r1, r1, r5\n\t"                                    \
            "smmulr r2, r2, r6\n\t"                                    \
            "smmulr r3, r3, r7\n\t"                                    \
            INTQ_DETAIL_EACH_("usat r\\i, #7, r\\i")                   \
            "orr r0, r0, r1, lsl #8\n\t"                               \
            "orr r2, r2, r3, lsl #8\n\t"                               \
            "orr r0, r0, r2, lsl #16\n\t"                              \
            "ldm sp, {r4, r5, r6}\n\t"
#        define INTQ_DETAIL_WORD_any_ \
            "ldm r12!, {r4-r7}\n\t"                                    \
            "smmlar r0, r0, r4, r0\n\t"                                \
            "smmlar r1, r1, r5, r1\n\t"                                \
            "smmlar r2, r2, r6, r2\n\t"                                \
            "smmlar r3, r3, r7, r3\n\t"                                \
            INTQ_DETAIL_EACH_("add r\\i, r\\i, r\\i, asr #31")         \
            "ldm r12, {r4-r7}\n\t"                                     \
            "ldr r8, [sp, #12]\n\t"                                    \
            "smmlar r0, r0, r4, r8\n\t"                                \
            "smmlar r1, r1, r5, r8\n\t"                                \
            "smmlar r2, r2, r6, r8\n\t"                                \
            "smmlar r3, r3, r7, r8\n\t"                                \
            INTQ_DETAIL_EACH_("ssat r\\i, #8, r\\i")                   \
            "bfi r0, r1, #8, #8\n\t"                                   \
            "bfi r0, r2, #16, #8\n\t"                                  \
            "bfi r0, r3, #24, #8\n\t"                                  \
            "ldm sp, {r4-r9}\n\t"                                      \
            "ssub8 r1, r0, r8\n\t"                                     \
            "sel r0, r0, r8\n\t"                                       \
            "ssub8 r1, r9, r0\n\t"                                     \
            "sel r0, r0, r9\n\t"

/// PairedTile::store_taps: at sp are y with its step, the end of the places, the zero point and the bounds of four
/// bytes, then the structure and the first channel; at sp + 40 the biases, the weights as pairs, tap by tap, the
/// multipliers, doubled as smmlar wants them, and the powers of two.
#        define INTQ_DETAIL_STORE_TAPS_(range)                                             \
            INTQ_DETAIL_TAPS_FUNCTION_ void dsp_store_taps_##range(TapWindows*) noexcept { \
                asm volatile(                                                            \
                    "push {r4-r11, lr}\n\t"                                              \
                    "sub sp, #164\n\t"                                                   \
                    "add r1, r0, #32\n\t"                                                \
                    "ldm r1, {r5, r7, r8, r9}\n\t"                                       \
                    "ldr r4, [r0]\n\t"                                              \
                    "ldr r6, [r0, #28]\n\t"                                              \
                    "add r6, r6, r6, lsl #3\n\t"                                         \
                    "add r6, r4, r6, lsl #2\n\t"                                         \
                    "uxtb r8, r8\n\t"                                                    \
                    "orr r8, r8, r8, lsl #8\n\t"                                         \
                    "orr r8, r8, r8, lsl #16\n\t"                                        \
                    "uxtb r9, r9\n\t"                                                    \
                    "orr r9, r9, r9, lsl #8\n\t"                                         \
                    "orr r9, r9, r9, lsl #16\n\t"                                        \
                    "mov r10, r0\n\t"                                                    \
                    "movs r11, #0\n\t"                                                   \
                    "stm sp, {r4-r11}\n"                                                 \
                    "1:\n\t"                                                             \
                    "ldr r0, [sp, #24]\n\t"                                              \
                    "ldr r1, [r0, #4]\n\t"                                               \
                    "add r2, r1, #36\n\t"                                                \
                    "str r2, [r0, #4]\n\t"                                               \
                    "add r12, sp, #56\n\t"                                               \
                    "add r7, r1, #8\n"                                                   \
                    "3:\n\t"                                                             \
                    INTQ_DETAIL_PAIRS_("0", "0")                                         \
                    INTQ_DETAIL_PAIRS_("9", "4")                                         \
                    "add r12, #32\n\t"                                                   \
                    "adds r1, #4\n\t"                                                    \
                    "cmp r1, r7\n\t"                                                     \
                    "bne 3b\n\t"                                                         \
                    "ldrsb r2, [r1]\n\t"                                             \
                    "ldrsb r3, [r1, #18]\n\t"                                            \
                    "ldrsb r4, [r1, #9]\n\t"                                            \
                    "ldrsb r5, [r1, #27]\n\t"                                            \
                    "pkhbt r2, r2, r3, lsl #16\n\t"                                      \
                    "pkhbt r4, r4, r5, lsl #16\n\t"                                      \
                    "strd r2, r4, [sp, #120]\n\t"                                        \
                    "add r1, r0, #8\n\t"                                                 \
                    "ldm r1, {r8-r11}\n\t"                                               \
                    "str r11, [sp]\n\t"                                                  \
                    "add r11, #4\n\t"                                                   \
                    "add r12, sp, #40\n\t"                                               \
                    "ldm r8!, {r2-r5}\n\t"                                               \
                    "stm r12, {r2-r5}\n\t"                                               \
                    "ldm r9!, {r2-r5}\n\t"                                               \
                    "lsls r2, #1\n\t"                                                    \
                    "lsls r3, #1\n\t"                                                    \
                    "lsls r4, #1\n\t"                                                    \
                    "lsls r5, #1\n\t"                                                    \
                    "add r12, sp, #128\n\t"                                              \
                    "stm r12!, {r2-r5}\n\t"                                              \
                    "ldm r10!, {r2-r5}\n\t"                                              \
                    "stm r1, {r8-r11}\n\t"                                               \
                    "movs r6, #1\n\t"                                                    \
                    ".irp i, 2, 3, 4, 5\n\t"                                             \
                    "add r\\i, #32\n\t"                                                 \
                    "lsl r\\i, r6, r\\i\n\t"                                             \
                    ".endr\n\t"                                                          \
                    "stm r12, {r2-r5}\n\t"                                               \
                    "ldr r11, [r0]\n\t"                                                  \
                    "ldr lr, [sp, #28]\n"                                                \
                    "2:\n\t"                                                             \
                    "add r12, sp, #40\n\t"                                               \
                    "ldm r12!, {r0-r3}\n\t"                                              \
                    INTQ_DETAIL_TWO_TAPS_ INTQ_DETAIL_TWO_TAPS_                          \
                    INTQ_DETAIL_TWO_TAPS_ INTQ_DETAIL_TWO_TAPS_                          \
                    "ldr r8, [r11], #4\n\t"                                              \
                    "ldm r12!, {r4, r5}\n\t"                                             \
                    INTQ_DETAIL_FOUR_("r8", "r4", "r5") INTQ_DETAIL_WORD_##range##_      \
                    "str r0, [r4]\n\t"                                                   \
                    "add r4, r5\n\t"                                                     \
                    "str r4, [sp]\n\t"                                                   \
                    "cmp r11, r6\n\t"                                                    \
                    "bne 2b\n\t"                                                         \
                    "ldrd r0, r1, [sp, #24]\n\t"                                         \
                    "adds r1, #4\n\t"                                                    \
                    "str r1, [sp, #28]\n\t"                                              \
                    "ldr r2, [r0, #24]\n\t"                                              \
                    "subs r2, #1\n\t"                                                    \
                    "str r2, [r0, #24]\n\t"                                              \
                    "bne 1b\n\t"                                                         \
                    "add sp, #164\n\t"                                                   \
                    "pop {r4-r11, pc}" ::                                                \
                        : "memory"); \
            }
INTQ_DETAIL_STORE_TAPS_(positive)
INTQ_DETAIL_STORE_TAPS_(any)

#        undef INTQ_DETAIL_STORE_TAPS_
#        undef INTQ_DETAIL_WORD_positive_
#        undef INTQ_DETAIL_WORD_any_
#        undef INTQ_DETAIL_EACH_
#        undef INTQ_DETAIL_TWO_TAPS_
#        undef INTQ_DETAIL_FOUR_
#        undef INTQ_DETAIL_PAIRS_
#        undef INTQ_DETAIL_TAPS_FUNCTION_

}  // namespace detail
#    endif

/// PairedTile::store_taps(). A word of the input is four channels of a tap, which two instructions unpack and four
/// multiply: 98 for four codes, of which 63 are these and 11 load places, weights and biases.
struct DspTaps {
    static INTQ_ALWAYS_INLINE TapOrigin origin(const std::int8_t* x, const std::int8_t* padding) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        return TapOrigin::addresses(x, padding);
#    else
        static_cast<void>(x);
        static_cast<void>(padding);
        return counted_taps;
#    endif
    }
    template <class Lanes, CodeRange Range> static INTQ_ALWAYS_INLINE void store(TapWindows& taps) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        Range == CodeRange::positive ? detail::dsp_store_taps_positive(&taps) : detail::dsp_store_taps_any(&taps);
#    else
        for (std::int32_t c = 0; c < taps.blocks * 4; ++c) {
            const typename Lanes::ShortRounding rounding(taps.multiplier[c], taps.shift[c], taps.zero_point);
            for (std::int32_t p = 0; p < taps.pixels; ++p) {
                std::int32_t sum = taps.bias[c];
                for (int t = 0; t < window_taps; ++t)
                    sum = DspWords::smlabb(sum, taps.code_at(taps.places[window_taps * p + t], c),
                                           taps.w[window_taps * c + t]);
                const std::int32_t code = rounding.template scaled<Range>(sum);
                taps.y[p * taps.channels + c] = static_cast<std::int8_t>(code < taps.lowest    ? taps.lowest
                                                                         : code > taps.highest ? taps.highest
                                                                                               : code);
            }
        }
#    endif
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif
#endif  // INTQ_SIMD_ARM_DSP_TAPS_HPP
