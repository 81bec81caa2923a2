// SPDX-License-Identifier: MIT
//
// Staging of the lines of 3×3 depthwise layers on dsp. Layer: simd (docs/design.md sections 5, 11).
#ifndef INTQ_SIMD_ARM_DSP_LINES_HPP
#define INTQ_SIMD_ARM_DSP_LINES_HPP

#include "intq/simd/arm/dsp_words.hpp"

#if defined(INTQ_DETAIL_DSP_) && defined(__ARM_FEATURE_SIMD32)

#    include <cstddef>

#    include "intq/simd/tiles/paired_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

static_assert(sizeof(void*) == 4 && sizeof(PairedRows) == 44 && offsetof(PairedRows, rows) == 0);

#    ifdef __clang__
#        define INTQ_DETAIL_LINES_FUNCTION_ inline __attribute__((naked, noinline))
#    else
#        define INTQ_DETAIL_LINES_FUNCTION_ inline __attribute__((naked, noinline, noipa))
#    endif

/// Words of two rows in r0 and r1, at `to` and three more channels behind it.
#    define INTQ_DETAIL_PAIR_ROWS_(to)    \
        "sxtb16 r12, r0\n\t"              \
        "sxtb16 lr, r1\n\t"               \
        "sxtb16 r0, r0, ror #8\n\t"       \
        "sxtb16 r1, r1, ror #8\n\t"       \
        "pkhbt r3, r12, lr, lsl #16\n\t"  \
        "pkhtb r12, lr, r12, asr #16\n\t" \
        "str r3, [r2, #" to               \
        "]\n\t"                           \
        "str r12, [r2, #16 + " to         \
        "]\n\t"                           \
        "pkhbt r3, r0, r1, lsl #16\n\t"   \
        "pkhtb r0, r1, r0, asr #16\n\t"   \
        "str r3, [r2, #8 + " to           \
        "]\n\t"                           \
        "str r0, [r2, #24 + " to "]\n\t"

/// The words of a third row in a register, which have a half.
#    define INTQ_DETAIL_LONE_ROW_(row) \
        "sxtb16 r12, " row             \
        "\n\t"                         \
        "sxtb16 " row ", " row         \
        ", ror #8\n\t"                 \
        "str r12, [r2, #4]\n\t"        \
        "str " row                     \
        ", [r2, #12]\n\t"              \
        "asrs r12, r12, #16\n\t"       \
        "asrs " row ", " row           \
        ", #16\n\t"                    \
        "str r12, [r2, #20]\n\t"       \
        "str " row ", [r2, #28]\n\t"

/// Lines of pair_four(). Rows without padding are equally far apart and have one pointer, r4; otherwise r4 to r11 are
/// the four rows with their strides.
INTQ_DETAIL_LINES_FUNCTION_ void dsp_stage_four(const PairedRows*, index_t, std::int32_t*, index_t, index_t,
                                                index_t) noexcept {
    asm volatile(
        "push {r4-r11, lr}\n\t"
        "push {r0-r4}\n"
        "1:\n\t"
        "ldm sp, {r0, r1, r2}\n\t"
        "ldr r3, [sp, #56]\n\t"
        "ldm r0!, {r4-r11}\n\t"
        "adds r0, #12\n\t"
        "str r0, [sp]\n\t"
        "add r3, r2\n\t"
        "str r3, [sp, #16]\n\t"
        "add r4, r1\n\t"
        "cmp r5, r7\n\t"
        "itt eq\n\t"
        "cmpeq r5, r9\n\t"
        "cmpeq r5, r11\n\t"
        "beq 3f\n\t"
        "add r6, r1\n\t"
        "add r8, r1\n\t"
        "add r10, r1\n"
        "2:\n\t"
        "ldr r0, [r4]\n\t"
        "ldr r1, [r8]\n\t"
        "add r4, r5\n\t"
        "add r8, r9\n\t" INTQ_DETAIL_PAIR_ROWS_("0")
        "ldr r0, [r6]\n\t"
        "ldr r1, [r10]\n\t"
        "add r6, r7\n\t"
        "add r10, r11\n\t" INTQ_DETAIL_PAIR_ROWS_("4")
        "ldr r3, [sp, #16]\n\t"
        "adds r2, #32\n\t"
        "cmp r2, r3\n\t"
        "bne 2b\n\t"
        "b 5f\n"
        "3:\n\t"
        "sub r6, r6, r4\n\t"
        "add r6, r1\n\t"
        "add r8, r6, r6, lsl #1\n\t"
        "mov r7, r3\n"
        "4:\n\t"
        "ldr r0, [r4]\n\t"
        "ldr r1, [r4, r6, lsl #1]\n\t"
        "ldr r10, [r4, r6]\n\t"
        "ldr r11, [r4, r8]\n\t"
        "add r4, r5\n\t" INTQ_DETAIL_PAIR_ROWS_("0")
        "sxtb16 r12, r10\n\t"
        "sxtb16 lr, r11\n\t"
        "sxtb16 r10, r10, ror #8\n\t"
        "sxtb16 r11, r11, ror #8\n\t"
        "pkhbt r3, r12, lr, lsl #16\n\t"
        "pkhtb r12, lr, r12, asr #16\n\t"
        "str r3, [r2, #4]\n\t"
        "str r12, [r2, #20]\n\t"
        "pkhbt r3, r10, r11, lsl #16\n\t"
        "pkhtb r10, r11, r10, asr #16\n\t"
        "str r3, [r2, #12]\n\t"
        "str r10, [r2, #28]\n\t"
        "adds r2, #32\n\t"
        "cmp r2, r7\n\t"
        "bne 4b\n"
        "5:\n\t"
        "ldrd r2, r3, [sp, #8]\n\t"
        "ldr r0, [sp, #60]\n\t"
        "add r2, r0\n\t"
        "subs r3, #1\n\t"
        "strd r2, r3, [sp, #8]\n\t"
        "bne 1b\n\t"
        "add sp, #20\n\t"
        "pop {r4-r11, pc}" ::
            : "memory");
}

/// A line of pair_three(), up to its end: r4 to r9 are the three rows with their strides, or one pointer serves rows
/// of one stride.
INTQ_DETAIL_LINES_FUNCTION_ void dsp_stage_three(const PairedRows::Row*, std::int32_t*, std::int32_t*) noexcept {
    asm volatile(
        "push {r4-r11, lr}\n\t"
        "mov r10, r2\n\t"
        "mov r2, r1\n\t"
        "ldm r0, {r4-r9}\n\t"
        "cmp r5, r7\n\t"
        "it eq\n\t"
        "cmpeq r5, r9\n\t"
        "beq 2f\n"
        "1:\n\t"
        "ldr r0, [r4]\n\t"
        "ldr r1, [r6]\n\t"
        "ldr r11, [r8]\n\t"
        "add r4, r5\n\t"
        "add r6, r7\n\t"
        "add r8, r9\n\t" INTQ_DETAIL_PAIR_ROWS_("0") INTQ_DETAIL_LONE_ROW_("r11")
        "adds r2, #32\n\t"
        "cmp r2, r10\n\t"
        "bne 1b\n\t"
        "pop {r4-r11, pc}\n"
        "2:\n\t"
        "sub r6, r6, r4\n\t"
        "sub r8, r8, r4\n"
        "3:\n\t"
        "ldr r0, [r4]\n\t"
        "ldr r1, [r4, r6]\n\t"
        "ldr r11, [r4, r8]\n\t"
        "add r4, r5\n\t" INTQ_DETAIL_PAIR_ROWS_("0") INTQ_DETAIL_LONE_ROW_("r11")
        "adds r2, #32\n\t"
        "cmp r2, r10\n\t"
        "bne 3b\n\t"
        "pop {r4-r11, pc}" ::
            : "memory");
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

#    undef INTQ_DETAIL_PAIR_ROWS_
#    undef INTQ_DETAIL_LONE_ROW_
#    undef INTQ_DETAIL_LINES_FUNCTION_

#endif
#endif  // INTQ_SIMD_ARM_DSP_LINES_HPP
