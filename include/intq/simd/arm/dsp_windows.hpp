// SPDX-License-Identifier: MIT
//
// The loops of 3×3 depthwise layers on dsp. Layer: simd (docs/design.md sections 5, 11).
//
// Long because the loops over two lines and over one share the parts of a channel, which are macros.
#ifndef INTQ_SIMD_ARM_DSP_WINDOWS_HPP
#define INTQ_SIMD_ARM_DSP_WINDOWS_HPP

#include "intq/simd/arm/dsp_words.hpp"

#ifdef INTQ_DETAIL_DSP_

#    include <cstddef>
#    include <cstdint>

#    include "intq/simd/base/code_streams.hpp"
#    include "intq/simd/tiles/paired_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

#    if defined(__ARM_FEATURE_SIMD32)
namespace detail {

static_assert(sizeof(void*) == 4 && offsetof(PairedWindows, x) == 32 && sizeof(PairedWindows) == 80);

// Nothing may be concluded from a body that the compiler does not read.
#        ifdef __clang__
#            define INTQ_DETAIL_WINDOWS_FUNCTION_ inline __attribute__((naked, noinline))
#        else
#            define INTQ_DETAIL_WINDOWS_FUNCTION_ inline __attribute__((naked, noinline, noipa))
#        endif

/// The weights of a channel, from r2, r3 and r4, which hold its bytes 0 to 3, 3 to 6 and 5 to 8. The middle row of the
/// first two columns is r5, and of the third r6; r2, r3 and r4 are the outer rows of each column.
#        define INTQ_DETAIL_WEIGHTS_1_  \
            "sxtb16 r5, r2, ror #8\n\t" \
            "sxtb16 r8, r3, ror #8\n\t" \
            "sxtb16 r2, r2\n\t"         \
            "sxtb16 r3, r3\n\t"         \
            "sxtb r6, r4, ror #16\n\t"  \
            "sxtb16 r4, r4, ror #8\n\t" \
            "pkhbt r5, r5, r8, lsl #16\n\t"
/// The same where r2, r3 and r4 are the first two rows, r5 the third row of two columns, and the upper half of r6 that
/// of the third column.
#        define INTQ_DETAIL_WEIGHTS_2_      \
            "sxtb16 r8, r2, ror #8\n\t"     \
            "sxtb16 r2, r2\n\t"             \
            "sxtb16 r9, r3, ror #8\n\t"     \
            "sxtb16 r3, r3\n\t"             \
            "sxtb16 r6, r4, ror #8\n\t"     \
            "sxtb16 r4, r4\n\t"             \
            "pkhtb r5, r3, r2, asr #16\n\t" \
            "pkhbt r2, r2, r8, lsl #16\n\t" \
            "pkhbt r3, r3, r9, lsl #16\n\t" \
            "pkhbt r4, r6, r4\n\t"

/// A column of pixels in two lines, whose words {0, 2} and {1, 3} are r8 and r9: the sums of the upper and the lower
/// window, by the outer rows and a half of `middle`.
#        define INTQ_DETAIL_COLUMN_1_                                                          \
            ".macro intq_column upper, upper_from, lower, lower_from, outer, half, middle\n\t" \
            "smlad \\upper, r8, \\outer, \\upper_from\n\t"                                     \
            "smlat\\half \\lower, r8, \\middle, \\lower_from\n\t"                              \
            "smlab\\half \\upper, r9, \\middle, \\upper\n\t"                                   \
            "smlad \\lower, r9, \\outer, \\lower\n\t"                                          \
            ".endm\n\t"
/// The same of words {0, 1} and {2, 3}, where the lower window begins with the second word; it lacks its last row.
#        define INTQ_DETAIL_COLUMN_2_                                                       \
            ".macro intq_column upper, upper_from, lower, lower_from, rows, half, last\n\t" \
            "smlad \\upper, r8, \\rows, \\upper_from\n\t"                                   \
            "smlad \\lower, r9, \\rows, \\lower_from\n\t"                                   \
            "smlab\\half \\upper, r9, \\last, \\upper\n\t"                                  \
            ".endm\n\t"

/// Sums of two pixels of each line: r10 and r11 of the upper line, r12 and lr of the lower one. Of one pixel: r10, r12.
#        define INTQ_DETAIL_PAIR_1_                         \
            "ldrd r8, r9, [r0], #32\n\t"                    \
            "ldr lr, [sp]\n\t"                              \
            "intq_column r10, lr, r12, lr, r2, b, r5\n\t"   \
            "ldrd r8, r9, [r0], #32\n\t"                    \
            "intq_column r10, r10, r12, r12, r3, t, r5\n\t" \
            "intq_column r11, lr, lr, lr, r2, b, r5\n\t"    \
            "ldrd r8, r9, [r0]\n\t"                         \
            "intq_column r10, r10, r12, r12, r4, b, r6\n\t" \
            "intq_column r11, r11, lr, lr, r3, t, r5\n\t"   \
            "ldrd r8, r9, [r0, #32]\n\t"                    \
            "intq_column r11, r11, lr, lr, r4, b, r6\n\t"
#        define INTQ_DETAIL_ONE_1_                          \
            "ldrd r8, r9, [r0]\n\t"                         \
            "ldr lr, [sp]\n\t"                              \
            "intq_column r10, lr, r12, lr, r2, b, r5\n\t"   \
            "ldrd r8, r9, [r0, #32]\n\t"                    \
            "intq_column r10, r10, r12, r12, r3, t, r5\n\t" \
            "ldrd r8, r9, [r0, #64]\n\t"                    \
            "intq_column r10, r10, r12, r12, r4, b, r6\n\t"
#        define INTQ_DETAIL_PAIR_2_                         \
            "ldrd r8, r9, [r0]\n\t"                         \
            "ldr lr, [sp]\n\t"                              \
            "intq_column r10, lr, r12, lr, r2, b, r5\n\t"   \
            "ldr r8, [r0, #8]\n\t"                          \
            "smlabb r12, r8, r5, r12\n\t"                   \
            "ldrd r8, r9, [r0, #48]\n\t"                    \
            "intq_column r10, r10, r12, r12, r3, t, r5\n\t" \
            "ldr r8, [r0, #56]\n\t"                         \
            "smlabt r12, r8, r5, r12\n\t"                   \
            "ldrd r8, r9, [r0, #96]\n\t"                    \
            "intq_column r10, r10, r12, r12, r4, t, r6\n\t" \
            "intq_column r11, lr, lr, lr, r2, b, r5\n\t"    \
            "ldr r8, [r0, #104]\n\t"                        \
            "smlabt r12, r8, r6, r12\n\t"                   \
            "smlabb lr, r8, r5, lr\n\t"                     \
            "ldrd r8, r9, [r0, #144]\n\t"                   \
            "intq_column r11, r11, lr, lr, r3, t, r5\n\t"   \
            "ldr r8, [r0, #152]\n\t"                        \
            "smlabt lr, r8, r5, lr\n\t"                     \
            "ldrd r8, r9, [r0, #192]!\n\t"                  \
            "intq_column r11, r11, lr, lr, r4, t, r6\n\t"   \
            "ldr r8, [r0, #8]\n\t"                          \
            "smlabt lr, r8, r6, lr\n\t"
#        define INTQ_DETAIL_ONE_2_                          \
            "ldrd r8, r9, [r0]\n\t"                         \
            "ldr lr, [sp]\n\t"                              \
            "intq_column r10, lr, r12, lr, r2, b, r5\n\t"   \
            "ldr r8, [r0, #8]\n\t"                          \
            "smlabb r12, r8, r5, r12\n\t"                   \
            "ldrd r8, r9, [r0, #48]\n\t"                    \
            "intq_column r10, r10, r12, r12, r3, t, r5\n\t" \
            "ldr r8, [r0, #56]\n\t"                         \
            "smlabt r12, r8, r5, r12\n\t"                   \
            "ldrd r8, r9, [r0, #96]\n\t"                    \
            "intq_column r10, r10, r12, r12, r4, t, r6\n\t" \
            "ldr r8, [r0, #104]\n\t"                        \
            "smlabt r12, r8, r6, r12\n\t"

/// Of one pixel of the upper line: r10.
#        define INTQ_DETAIL_UPPER_1_      \
            "ldrd r8, r9, [r0]\n\t"       \
            "ldr lr, [sp]\n\t"            \
            "smlad r10, r8, r2, lr\n\t"   \
            "smlabb r10, r9, r5, r10\n\t" \
            "ldrd r8, r9, [r0, #32]\n\t"  \
            "smlad r10, r8, r3, r10\n\t"  \
            "smlabt r10, r9, r5, r10\n\t" \
            "ldrd r8, r9, [r0, #64]\n\t"  \
            "smlad r10, r8, r4, r10\n\t"  \
            "smlabb r10, r9, r6, r10\n\t"
#        define INTQ_DETAIL_UPPER_2_      \
            "ldrd r8, r9, [r0]\n\t"       \
            "ldr lr, [sp]\n\t"            \
            "smlad r10, r8, r2, lr\n\t"   \
            "smlabb r10, r9, r5, r10\n\t" \
            "ldrd r8, r9, [r0, #48]\n\t"  \
            "smlad r10, r8, r3, r10\n\t"  \
            "smlabt r10, r9, r5, r10\n\t" \
            "ldrd r8, r9, [r0, #96]\n\t"  \
            "smlad r10, r8, r4, r10\n\t"  \
            "smlabt r10, r9, r6, r10\n\t"
/// The same where a column has r12 bytes; r0 is then the next pixel's.
#        define INTQ_DETAIL_UPPER_OF_ANY_ \
            "ldrd r8, r9, [r0]\n\t"       \
            "ldr lr, [sp]\n\t"            \
            "add r0, r12\n\t"             \
            "smlad r10, r8, r2, lr\n\t"   \
            "smlabb r10, r9, r5, r10\n\t" \
            "ldrd r8, r9, [r0]\n\t"       \
            "add r0, r12\n\t"             \
            "smlad r10, r8, r3, r10\n\t"  \
            "smlabt r10, r9, r5, r10\n\t" \
            "ldrd r8, r9, [r0]\n\t"       \
            "smlad r10, r8, r4, r10\n\t"  \
            "smlabt r10, r9, r6, r10\n\t"
/// The pixels of a line alone, up to r7; where code is to be small, also of one that has words of three rows.
#        define INTQ_DETAIL_UPPER_PIXELS_(stride, range) \
            "8:\n\t" INTQ_DETAIL_UPPER_##stride##_ INTQ_DETAIL_CODES_##range##_("r10") \
            "ldr r8, [sp, #16]\n\t"                                             \
            "adds r0, #16 * " #stride " * (1 + " #stride ")\n\t"
#        define INTQ_DETAIL_UPPER_PIXELS_1_(range) INTQ_DETAIL_UPPER_PIXELS_(1, range)
#        if INTQ_SMALL
#            define INTQ_DETAIL_UPPER_PIXELS_2_(range) \
                "cmp r9, #1\n\t"                       \
                "ite lt\n\t"                           \
                "movlt r12, #32\n\t"                   \
                "movge r12, #48\n"                     \
                "8:\n\t" INTQ_DETAIL_UPPER_OF_ANY_ INTQ_DETAIL_CODES_##range##_("r10") "ldr r8, [sp, #16]\n\t"
#            define INTQ_DETAIL_NEXT_WORDS_2_ \
                "ldr r9, [sp, #60]\n\t"       \
                "cmp r9, #1\n\t"              \
                "ite lt\n\t"                  \
                "addlt r0, #8\n\t"            \
                "addge r0, #12\n\t"
#        else
#            define INTQ_DETAIL_UPPER_PIXELS_2_(range) INTQ_DETAIL_UPPER_PIXELS_(2, range)
#            define INTQ_DETAIL_NEXT_WORDS_2_ "adds r0, #12\n\t"
#        endif
#        define INTQ_DETAIL_NEXT_WORDS_1_ "adds r0, #8\n\t"

/// A column of pixels in three lines, whose words {0, 2} and {1}, or {0, 1} and {2}, are r8 and r9.
#        define INTQ_DETAIL_TAP_                              \
            ".macro intq_tap sum, from, rows, half, last\n\t" \
            "smlad \\sum, r8, \\rows, \\from\n\t"             \
            "smlab\\half \\sum, r9, \\last, \\sum\n\t"        \
            ".endm\n\t"
/// Sums of a pixel of one line: r10.
#        define INTQ_DETAIL_ALONE_(third)      \
            "ldrd r8, r9, [r0]\n\t"            \
            "ldr lr, [sp]\n\t"                 \
            "intq_tap r10, lr, r2, b, r5\n\t"  \
            "ldrd r8, r9, [r0, #32]\n\t"       \
            "intq_tap r10, r10, r3, t, r5\n\t" \
            "ldrd r8, r9, [r0, #64]\n\t"       \
            "intq_tap r10, r10, r4, " third ", r6\n\t"
#        define INTQ_DETAIL_ALONE_1_ INTQ_DETAIL_ALONE_("b")
#        define INTQ_DETAIL_ALONE_2_ INTQ_DETAIL_ALONE_("t")
/// Of four pixels: r10, r11, r12 and lr.
#        define INTQ_DETAIL_FOUR_1_            \
            "ldrd r8, r9, [r0]\n\t"            \
            "ldr lr, [sp]\n\t"                 \
            "intq_tap r10, lr, r2, b, r5\n\t"  \
            "ldrd r8, r9, [r0, #32]\n\t"       \
            "intq_tap r10, r10, r3, t, r5\n\t" \
            "intq_tap r11, lr, r2, b, r5\n\t"  \
            "ldrd r8, r9, [r0, #64]\n\t"       \
            "intq_tap r10, r10, r4, b, r6\n\t" \
            "intq_tap r11, r11, r3, t, r5\n\t" \
            "intq_tap r12, lr, r2, b, r5\n\t"  \
            "ldrd r8, r9, [r0, #96]\n\t"       \
            "intq_tap r11, r11, r4, b, r6\n\t" \
            "intq_tap r12, r12, r3, t, r5\n\t" \
            "intq_tap lr, lr, r2, b, r5\n\t"   \
            "ldrd r8, r9, [r0, #128]\n\t"      \
            "intq_tap r12, r12, r4, b, r6\n\t" \
            "intq_tap lr, lr, r3, t, r5\n\t"   \
            "ldrd r8, r9, [r0, #160]\n\t"      \
            "intq_tap lr, lr, r4, b, r6\n\t"
#        define INTQ_DETAIL_FOUR_2_            \
            "ldrd r8, r9, [r0]\n\t"            \
            "ldr lr, [sp]\n\t"                 \
            "intq_tap r10, lr, r2, b, r5\n\t"  \
            "ldrd r8, r9, [r0, #32]\n\t"       \
            "intq_tap r10, r10, r3, t, r5\n\t" \
            "ldrd r8, r9, [r0, #64]\n\t"       \
            "intq_tap r10, r10, r4, t, r6\n\t" \
            "intq_tap r11, lr, r2, b, r5\n\t"  \
            "ldrd r8, r9, [r0, #96]\n\t"       \
            "intq_tap r11, r11, r3, t, r5\n\t" \
            "ldrd r8, r9, [r0, #128]\n\t"      \
            "intq_tap r11, r11, r4, t, r6\n\t" \
            "intq_tap r12, lr, r2, b, r5\n\t"  \
            "ldrd r8, r9, [r0, #160]\n\t"      \
            "intq_tap r12, r12, r3, t, r5\n\t" \
            "ldrd r8, r9, [r0, #192]\n\t"      \
            "intq_tap r12, r12, r4, t, r6\n\t" \
            "intq_tap lr, lr, r2, b, r5\n\t"   \
            "ldrd r8, r9, [r0, #224]\n\t"      \
            "intq_tap lr, lr, r3, t, r5\n\t"   \
            "ldrd r8, r9, [r0, #256]\n\t"      \
            "intq_tap lr, lr, r4, t, r6\n\t"

/// Codes of the sums in a list of registers, with r8 and r9 as scratch.
#        define INTQ_DETAIL_CODES_positive_(sums) \
            "ldrd r8, r9, [sp, #4]\n\t"           \
            ".irp sum, " sums                     \
            "\n\t"                                \
            "smmlar \\sum, \\sum, r8, \\sum\n\t"  \
            "smmulr \\sum, \\sum, r9\n\t"         \
            "usat \\sum, #7, \\sum\n\t"           \
            ".endr\n\t"
#        define INTQ_DETAIL_ROUNDED_(sums, saturated) \
            "ldr r8, [sp, #4]\n\t"                    \
            ".irp sum, " sums                         \
            "\n\t"                                    \
            "smmlar \\sum, \\sum, r8, \\sum\n\t"      \
            "add \\sum, \\sum, \\sum, asr #31\n\t"    \
            ".endr\n\t"                               \
            "ldrd r8, r9, [sp, #8]\n\t"               \
            ".irp sum, " sums                         \
            "\n\t"                                    \
            "smmlar \\sum, \\sum, r8, r9\n\t" saturated ".endr\n\t"
#        define INTQ_DETAIL_CODES_int8_(sums) INTQ_DETAIL_ROUNDED_(sums, "ssat \\sum, #8, \\sum\n\t")
#        define INTQ_DETAIL_CODES_any_(sums) \
            INTQ_DETAIL_ROUNDED_(sums, "")   \
            "ldrd r8, r9, [sp, #24]\n\t"     \
            ".irp code, " sums               \
            "\n\t"                           \
            "cmp \\code, r8\n\t"             \
            "it lt\n\t"                      \
            "movlt \\code, r8\n\t"           \
            "cmp \\code, r9\n\t"             \
            "it gt\n\t"                      \
            "movgt \\code, r9\n\t"           \
            ".endr\n\t"

/// The pixels of two lines up to r7, where the steps end, and the one that may follow. One by one where code is to be
/// small.
#        if INTQ_SMALL
#            define INTQ_DETAIL_PIXELS_(stride, range) \
                "3:\n\t" INTQ_DETAIL_ONE_##stride##_ INTQ_DETAIL_CODES_##range##_("r10, r12")                     \
                    "ldrd r8, r9, [sp, #16]\n\t"                                                                      \
                    "adds r0, #16 * " #stride " * (1 + " #stride ")\n\t"                                              \
                    "strb r12, [r1, r9]\n\t"                                                                          \
                    "strb r10, [r1]\n\t"                                                                              \
                    "add r1, r8\n\t"                                                                                  \
                    "cmp r1, r7\n\t"                                                                                  \
                    "bne 3b\n"
#        else
#            define INTQ_DETAIL_PIXELS_(stride, range) \
                "cmp r1, r7\n\t"                                                                                  \
                    "beq 4f\n"                                                                                        \
                    "3:\n\t" INTQ_DETAIL_PAIR_##stride##_ INTQ_DETAIL_CODES_##range##_("r10, r11, r12, lr")           \
                    "ldrd r8, r9, [sp, #16]\n\t"                                                                      \
                    "strb r12, [r1, r9]\n\t"                                                                          \
                    "strb r10, [r1]\n\t"                                                                              \
                    "add r1, r8\n\t"                                                                                  \
                    "strb lr, [r1, r9]\n\t"                                                                           \
                    "strb r11, [r1]\n\t"                                                                              \
                    "add r1, r8\n\t"                                                                                  \
                    "cmp r1, r7\n\t"                                                                                  \
                    "bne 3b\n"                                                                                        \
                    "4:\n\t"                                                                                          \
                    "ldr r8, [sp, #76]\n\t"                                                                           \
                    "cmp r8, #0\n\t"                                                                                  \
                    "beq 5f\n\t" INTQ_DETAIL_ONE_##stride##_                                                          \
                    INTQ_DETAIL_CODES_##range##_("r10, r12")                                                          \
                    "ldrd r8, r9, [sp, #16]\n\t"                                                                      \
                    "strb r12, [r1, r9]\n\t"                                                                          \
                    "strb r10, [r1]\n\t"                                                                              \
                    "add r1, r8\n"
#        endif

/// A channel's parameters in a copy of PairedWindows, its weights, r0 as x and r1 as y. At the end the next one.
#        define INTQ_DETAIL_CHANNELS_ \
            "add r12, r0, #40\n\t"    \
            "ldm r12, {r1-r10}\n\t"   \
            "push {r1-r10}\n\t"       \
            "ldm r0, {r1-r10}\n\t"    \
            "push {r1-r10}\n"
#        define INTQ_DETAIL_CHANNEL_(weights) \
            "add r8, sp, #40\n\t"             \
            "ldm r8, {r1, r9, r10, r11}\n\t"  \
            "ldr r2, [r1]\n\t"                \
            "ldr r3, [r1, #3]\n\t"            \
            "ldr r4, [r1, #5]\n\t"            \
            "adds r1, #9\n\t"                 \
            "ldr r5, [r9], #4\n\t"            \
            "ldr r6, [r10], #4\n\t"           \
            "ldr r7, [r11], #4\n\t"           \
            "stm r8, {r1, r9, r10, r11}\n\t"  \
            "lsls r6, r6, #1\n\t"             \
            "adds r7, #32\n\t"                \
            "movs r1, #1\n\t"                 \
            "lsls r1, r7\n\t"                 \
            "str r5, [sp]\n\t"                \
            "str r6, [sp, #4]\n\t"            \
            "str r1, [sp, #8]\n\t" weights "ldrd r0, r1, [sp, #32]\n\t"
#        define INTQ_DETAIL_NEXT_CHANNEL_(words) \
            "ldrd r0, r1, [sp, #32]\n\t"         \
            "ldr r8, [sp, #56]\n\t" words        \
            "adds r1, #1\n\t"                    \
            "strd r0, r1, [sp, #32]\n\t"         \
            "subs r8, #1\n\t"                    \
            "str r8, [sp, #56]\n\t"              \
            "bne 1b\n\t"                         \
            "add sp, #80\n\t"                    \
            "pop {r4-r11, pc}\n\t"

/// Lines in twos, of which the last one may be alone.
#        define INTQ_DETAIL_WINDOWS_(stride, range)                                                              \
            INTQ_DETAIL_WINDOWS_FUNCTION_ void dsp_windows_##stride##_##range(const PairedWindows*) noexcept {   \
                asm volatile(                                                                                  \
                    "push {r4-r11, lr}\n\t" INTQ_DETAIL_COLUMN_##stride##_ INTQ_DETAIL_CHANNELS_               \
                    "1:\n\t" INTQ_DETAIL_CHANNEL_(INTQ_DETAIL_WEIGHTS_##stride##_)                             \
                    "ldr r8, [sp, #60]\n"                                                                      \
                    "2:\n\t"                                                                                   \
                    "cmp r8, #1\n\t"                                                                           \
                    "ble 7f\n\t"                                                                               \
                    "str r8, [sp, #64]\n\t"                                                                    \
                    "ldr r7, [sp, #72]\n\t"                                                                    \
                    "add r7, r1\n\t"                                                                           \
                    INTQ_DETAIL_PIXELS_(stride, range)                                                         \
                    "5:\n\t"                                                                                   \
                    "ldr r8, [sp, #64]\n\t"                                                                    \
                    "subs r8, #2\n\t"                                                                          \
                    "ble 6f\n\t"                                                                               \
                    "ldr r9, [sp, #20]\n\t"                                                                    \
                    "ldr r10, [sp, #68]\n\t"                                                                   \
                    "add r1, r9\n\t"                                                                           \
                    "add r0, r10\n\t"                                                                          \
                    "b 2b\n"                                                                                   \
                    "7:\n\t"                                                                                   \
                    "mov r9, r8\n\t"                                                                           \
                    "ldr r7, [sp, #72]\n\t"                                                                    \
                    "ldr r8, [sp, #76]\n\t"                                                                    \
                    "add r7, r1\n\t"                                                                           \
                    "add r7, r8\n"                                                                             \
                    INTQ_DETAIL_UPPER_PIXELS_##stride##_(range)                                                \
                    "strb r10, [r1]\n\t"                                                                       \
                    "add r1, r8\n\t"                                                                           \
                    "cmp r1, r7\n\t"                                                                           \
                    "bne 8b\n"                                                                                 \
                    "6:\n\t" INTQ_DETAIL_NEXT_CHANNEL_(INTQ_DETAIL_NEXT_WORDS_##stride##_)                          \
                    ".purgem intq_column" ::                                                                   \
                        : "memory"); \
            }
INTQ_DETAIL_WINDOWS_(1, positive)
INTQ_DETAIL_WINDOWS_(1, int8)
INTQ_DETAIL_WINDOWS_(1, any)
INTQ_DETAIL_WINDOWS_(2, positive)
INTQ_DETAIL_WINDOWS_(2, int8)
INTQ_DETAIL_WINDOWS_(2, any)

#        if !INTQ_SMALL
/// One line: its pixels up to r7 in fours, and those that follow.
#            define INTQ_DETAIL_FOURS_(stride, range) \
                "cmp r1, r7\n\t"                                                                             \
                "beq 3f\n"                                                                                   \
                "2:\n\t" INTQ_DETAIL_FOUR_##stride##_ INTQ_DETAIL_CODES_##range##_("r10, r11, r12, lr")      \
                "ldr r8, [sp, #16]\n\t"                                                                      \
                "adds r0, #128 * " #stride "\n\t"                                                            \
                "strb r10, [r1]\n\t"                                                                         \
                "strb r11, [r1, r8]\n\t"                                                                     \
                "add r1, r1, r8, lsl #1\n\t"                                                                 \
                "strb r12, [r1]\n\t"                                                                         \
                "strb lr, [r1, r8]\n\t"                                                                      \
                "add r1, r1, r8, lsl #1\n\t"                                                                 \
                "cmp r1, r7\n\t"                                                                             \
                "bne 2b\n"
#            define INTQ_DETAIL_LINE_(stride, range)                                                              \
                INTQ_DETAIL_WINDOWS_FUNCTION_ void dsp_line_##stride##_##range(const PairedWindows*) noexcept {   \
                    asm volatile(                                                                               \
                    "push {r4-r11, lr}\n\t" INTQ_DETAIL_TAP_ INTQ_DETAIL_CHANNELS_                          \
                    "1:\n\t" INTQ_DETAIL_CHANNEL_(INTQ_DETAIL_WEIGHTS_##stride##_)                            \
                    "ldr r7, [sp, #72]\n\t"                                                                 \
                    "add r7, r1\n\t"                                                                        \
                    INTQ_DETAIL_FOURS_(stride, range)                                                       \
                    "3:\n\t"                                                                                \
                    "ldr r8, [sp, #76]\n\t"                                                                 \
                    "add r7, r8\n\t"                                                                        \
                    "cmp r1, r7\n\t"                                                                        \
                    "beq 5f\n"                                                                              \
                    "4:\n\t" INTQ_DETAIL_ALONE_##stride##_ INTQ_DETAIL_CODES_##range##_("r10")              \
                    "ldr r8, [sp, #16]\n\t"                                                                 \
                    "adds r0, #32 * " #stride "\n\t"                                                        \
                    "strb r10, [r1]\n\t"                                                                    \
                    "add r1, r8\n\t"                                                                        \
                    "cmp r1, r7\n\t"                                                                        \
                    "bne 4b\n"                                                                              \
                    "5:\n\t" INTQ_DETAIL_NEXT_CHANNEL_(INTQ_DETAIL_NEXT_WORDS_1_)                                    \
                    ".purgem intq_tap" ::                                                                   \
                        : "memory"); \
                }
INTQ_DETAIL_LINE_(1, positive)
INTQ_DETAIL_LINE_(1, int8)
INTQ_DETAIL_LINE_(1, any)
INTQ_DETAIL_LINE_(2, positive)
INTQ_DETAIL_LINE_(2, int8)
INTQ_DETAIL_LINE_(2, any)
#        endif

}  // namespace detail
#    endif

/// PairedTile::store_windows() and store_line(). A column of words serves the windows of both lines and pixels that it
/// lies in: 24 products of pairs are four sums, whose codes are made at once. One line has four pixels at once.
struct DspWindows {
    template <class Lanes, int Stride, CodeRange Range>
    static INTQ_ALWAYS_INLINE void store(const PairedWindows& windows) noexcept {
#    if defined(__ARM_FEATURE_SIMD32)
        if constexpr (Range == CodeRange::positive)
            Stride == 1 ? detail::dsp_windows_1_positive(&windows) : detail::dsp_windows_2_positive(&windows);
        else if constexpr (Range == CodeRange::int8)
            Stride == 1 ? detail::dsp_windows_1_int8(&windows) : detail::dsp_windows_2_int8(&windows);
        else
            Stride == 1 ? detail::dsp_windows_1_any(&windows) : detail::dsp_windows_2_any(&windows);
#    else
        const index_t words = windows.lines == PairedWindows::one_of_three_rows ? 2 : 1 + Stride;
        PairedWindows of = windows;
        for (; of.channels > 0; --of.channels, of.x += words, of.w += 9, ++of.y)
            store_channel<Lanes, Stride, Range>(
                of, words, *of.biases++, typename Lanes::ShortRounding(*of.multipliers++, *of.shifts++, of.zero_point));
#    endif
    }
    template <class Lanes, int Stride, CodeRange Range>
    static INTQ_ALWAYS_INLINE void store_line(const PairedWindows& windows) noexcept {
#    if defined(__ARM_FEATURE_SIMD32) && !INTQ_SMALL
        if constexpr (Range == CodeRange::positive)
            Stride == 1 ? detail::dsp_line_1_positive(&windows) : detail::dsp_line_2_positive(&windows);
        else if constexpr (Range == CodeRange::int8)
            Stride == 1 ? detail::dsp_line_1_int8(&windows) : detail::dsp_line_2_int8(&windows);
        else
            Stride == 1 ? detail::dsp_line_1_any(&windows) : detail::dsp_line_2_any(&windows);
#    else
        store<Lanes, Stride, Range>(windows);
#    endif
    }

#    if !defined(__ARM_FEATURE_SIMD32)
private:
    /// @param words  of a column of a channel
    template <class Lanes, int Stride, CodeRange Range>
    static void store_channel(const PairedWindows& of, index_t words, std::int32_t bias,
                              const typename Lanes::ShortRounding& rounding) noexcept {
        const index_t pixel = Stride * 4 * words;
        const index_t pixels = (of.steps + of.odd_step) / of.step;
        const index_t next = of.steps / of.step * pixel + of.next_bytes / 4;
        const std::int32_t* x = of.x;
        std::int8_t* y = of.y;
        for (index_t left = of.lines < 1 ? 1 : of.lines; left > 0; left -= 2, x += next, y += 2 * of.line)
            for (index_t p = 0; p < pixels; ++p)
                for (index_t line = 0; line < (left > 1 ? 2 : 1); ++line) {
                    const std::int32_t* const from = x + p * pixel;
                    const std::int32_t sum =
                        bias + (Stride == 2 ? neighbours(from, words, of.w, line) : outer_and_middle(from, of.w, line));
                    const std::int32_t code = rounding.template scaled<Range>(sum);
                    y[p * of.step + line * of.line] = static_cast<std::int8_t>(code < of.lowest    ? of.lowest
                                                                               : code > of.highest ? of.highest
                                                                                                   : code);
                }
    }
    /// The window of a line in words {0, 1} and {2, …}, of which the next line's begins with the second.
    static std::int32_t neighbours(const std::int32_t* x, index_t words, const std::int8_t* w, index_t line) noexcept {
        std::int32_t sum = 0;
        for (int k = 0; k < 3; ++k, x += 4 * words, w += 3) {
            sum = DspWords::smlad(sum, x[line], DspWords::low_halves(w[0], w[1]));
            sum = DspWords::smlabb(sum, x[1 + line], w[2]);
        }
        return sum;
    }
    /// That of words {0, 2} and {1, 3}.
    static std::int32_t outer_and_middle(const std::int32_t* x, const std::int8_t* w, index_t line) noexcept {
        std::int32_t sum = 0;
        for (int k = 0; k < 3; ++k, x += 8, w += 3) {
            sum = DspWords::smlad(sum, x[line], DspWords::low_halves(w[0], w[2]));
            sum = DspWords::smlabb(sum, line != 0 ? x[0] >> 16 : x[1], w[1]);
        }
        return sum;
    }
#    endif
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#    undef INTQ_DETAIL_WINDOWS_FUNCTION_
#    undef INTQ_DETAIL_WEIGHTS_1_
#    undef INTQ_DETAIL_WEIGHTS_2_
#    undef INTQ_DETAIL_COLUMN_1_
#    undef INTQ_DETAIL_COLUMN_2_
#    undef INTQ_DETAIL_PAIR_1_
#    undef INTQ_DETAIL_PAIR_2_
#    undef INTQ_DETAIL_ONE_1_
#    undef INTQ_DETAIL_ONE_2_
#    undef INTQ_DETAIL_UPPER_1_
#    undef INTQ_DETAIL_UPPER_2_
#    undef INTQ_DETAIL_UPPER_OF_ANY_
#    undef INTQ_DETAIL_UPPER_PIXELS_
#    undef INTQ_DETAIL_UPPER_PIXELS_1_
#    undef INTQ_DETAIL_UPPER_PIXELS_2_
#    undef INTQ_DETAIL_NEXT_WORDS_1_
#    undef INTQ_DETAIL_NEXT_WORDS_2_
#    undef INTQ_DETAIL_TAP_
#    undef INTQ_DETAIL_ALONE_
#    undef INTQ_DETAIL_ALONE_1_
#    undef INTQ_DETAIL_ALONE_2_
#    undef INTQ_DETAIL_FOUR_1_
#    undef INTQ_DETAIL_FOUR_2_
#    undef INTQ_DETAIL_CODES_positive_
#    undef INTQ_DETAIL_CODES_int8_
#    undef INTQ_DETAIL_CODES_any_
#    undef INTQ_DETAIL_ROUNDED_
#    undef INTQ_DETAIL_PIXELS_
#    undef INTQ_DETAIL_CHANNELS_
#    undef INTQ_DETAIL_CHANNEL_
#    undef INTQ_DETAIL_NEXT_CHANNEL_
#    undef INTQ_DETAIL_WINDOWS_
#    undef INTQ_DETAIL_FOURS_
#    undef INTQ_DETAIL_LINE_

#endif
#endif  // INTQ_SIMD_ARM_DSP_WINDOWS_HPP
