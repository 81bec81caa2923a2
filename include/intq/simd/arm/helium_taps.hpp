// SPDX-License-Identifier: MIT
//
// The loop of the Helium backend for 3×3 depthwise layers that are read tap by tap. Layer: simd (docs/design.md
// sections 5, 11).
//
// A product of two int8 has 16 bits, and a sum of nine of them 18. VMULLB and VMULLT give eight products each, whose
// sum is known modulo 2^16. VMULH gives the upper bytes of sixteen products, whose sum says which multiple of 2^16 is
// missing.
//
//     c = the tree of the upper bytes h of eight products, each level halved:
//                                              sum of eight = 1024 c + e,       0 <= e < 4096
//     v = floor((c - floor(low / 2^10)) / 2),  low = the sum of nine mod 2^16
//     the sum of nine = 2^16 floor((v + 16) / 32) + low,
//                                              for |2^16 · that - 2048 v| <= 2^14 + 4088 + 2^10 < 2^15
//
// At the first level, 64 + 64 saturates to 127, which adds 256 to e; both are in its bound.
#ifndef INTQ_SIMD_ARM_HELIUM_TAPS_HPP
#define INTQ_SIMD_ARM_HELIUM_TAPS_HPP

#include "intq/simd/arm/helium_steps.hpp"

#if defined(INTQ_DETAIL_HELIUM_) && defined(__ARM_FEATURE_MVE)

#    include <cstddef>
#    include <cstdint>

#    include "intq/simd/tiles/tap_windows.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

static_assert(sizeof(void*) == 4 && offsetof(TapWindows, blocks) == 24 && offsetof(TapWindows, zero_point) == 36);

/// WindowTile::move_places, with the steps twice: a pixel in 7 instructions.
INTQ_DETAIL_ASSEMBLY_ void helium_move_places(std::int32_t*, const std::int32_t*, std::int32_t) noexcept {
    asm volatile(
        "push {r4, lr}\n\t"
        "vpush {d8-d11}\n\t"
        "vldrw.u32 q3, [r1]\n\t"
        "vldrw.u32 q4, [r1, #4]\n\t"
        "vldrw.u32 q5, [r1, #8]\n\t"
        "vldrw.u32 q0, [r0, #-36]\n\t"
        "vldrw.u32 q1, [r0, #-20]\n\t"
        "vldrw.u32 q2, [r0, #-4]\n\t"
        "dls lr, r2\n"
        "1:\n\t"
        "vadd.i32 q0, q0, q3\n\t"
        "vadd.i32 q1, q1, q4\n\t"
        "vadd.i32 q2, q2, q5\n\t"
        "vstrw.32 q0, [r0], #16\n\t"
        "vstrw.32 q1, [r0], #16\n\t"
        "vstrw.32 q2, [r0], #4\n\t"
        "le lr, 1b\n\t"
        "vpop {d8-d11}\n\t"
        "pop {r4, pc}" ::
            : "memory");
}

/// Sixteen codes and weights of a tap, in q5 and q6. Their products are added to q0, of channels 0, 2, … 14, and q1, of
/// 1, 3, … 15.
#    define INTQ_DETAIL_LOAD_(at, weights) "vldrb.u8 q5, [" at "], #16\n\tvldrw.u32 q6, [sp, #" weights "]\n\t"
#    define INTQ_DETAIL_TAP_(at, weights) \
        INTQ_DETAIL_LOAD_(at, weights)    \
        "vmullb.s8 q7, q5, q6\n\t"        \
        "vadd.i16 q0, q0, q7\n\t"         \
        "vmullt.s8 q7, q5, q6\n\t"        \
        "vadd.i16 q1, q1, q7\n\t"
/// Two taps, of which the sum of upper bytes is q.
#    define INTQ_DETAIL_TAPS_(q, at, weights, other_at, other_weights)                                              \
        INTQ_DETAIL_TAP_(at, weights)                                                                               \
        "vmulh.s8 " q ", q5, q6\n\t" INTQ_DETAIL_TAP_(other_at, other_weights) "vmulh.s8 q5, q5, q6\n\tvqadd.s8 " q \
                                                                               ", " q ", q5\n\t"

/// A step of the codes of four channels each: its vector lies in the block.
#    define INTQ_DETAIL_STEP_(instruction, at)             \
        "vldrw.u32 q0, [sp, #" at "]\n\t" instruction      \
        " q4, q4, q0\n\t"                                  \
        "vldrw.u32 q0, [sp, #" at " + 16]\n\t" instruction \
        " q5, q5, q0\n\t"                                  \
        "vldrw.u32 q0, [sp, #" at " + 32]\n\t" instruction \
        " q6, q6, q0\n\t"                                  \
        "vldrw.u32 q0, [sp, #" at " + 48]\n\t" instruction " q7, q7, q0\n\t"

/// WindowTile::store_taps: the weights of a block, tap by tap, lie at sp, and behind them its biases, multipliers and
/// shifts, each as channels {0, 4, 8, 12}, {1, 5, …}, {2, 6, …}, {3, 7, …}, which is the order of sums.
#    define INTQ_DETAIL_STORE_TAPS_(name, away)                              \
        INTQ_DETAIL_ASSEMBLY_ void name(TapWindows*) noexcept {              \
            asm volatile(                                                  \
                "push {r4-r11, lr}\n\t"                                    \
                "vpush {d8-d15}\n\t"                                       \
                "sub sp, sp, #340\n\t"                                     \
                "add r12, r0, #36\n"                                       \
                "1:\n\t"                                                   \
                "adr r0, 9f\n\t"                                           \
                "vldrw.u32 q4, [r0]\n\t"                                   \
                "ldr r1, [r12, #-32]\n\t"                                  \
                "mov r2, sp\n\t"                                           \
                "movs r0, #9\n\t"                                          \
                "dls lr, r0\n"                                             \
                "2:\n\t"                                                   \
                "vldrb.u8 q0, [r1, q4]\n\t"                                \
                "adds r1, #1\n\t"                                          \
                "vstrw.32 q0, [r2], #16\n\t"                               \
                "le lr, 2b\n\t"                                            \
                "adds r1, #135\n\t"                                        \
                "str r1, [r12, #-32]\n\t"                                  \
                "sub r3, r12, #28\n\t"                                     \
                "movs r0, #3\n\t"                                          \
                "dls lr, r0\n"                                             \
                "3:\n\t"                                                   \
                "ldr r1, [r3]\n\t"                                         \
                "vld40.32 {q0, q1, q2, q3}, [r1]\n\t"                      \
                "vld41.32 {q0, q1, q2, q3}, [r1]\n\t"                      \
                "vld42.32 {q0, q1, q2, q3}, [r1]\n\t"                      \
                "vld43.32 {q0, q1, q2, q3}, [r1]!\n\t"                     \
                "str r1, [r3], #4\n\t"                                     \
                "vstrw.32 q0, [r2], #16\n\t"                               \
                "vstrw.32 q1, [r2], #16\n\t"                               \
                "vstrw.32 q2, [r2], #16\n\t"                               \
                "vstrw.32 q3, [r2], #16\n\t"                               \
                "le lr, 3b\n\t"                                            \
                "ldr r10, [r3]\n\t"                                        \
                "ldr r0, [r12, #-36]\n\t"                                  \
                "add r1, r10, #16\n\t"                                     \
                "str r1, [r3]\n\t"                                         \
                "ldrd r1, r11, [r3, #8]\n\t"                               \
                "dls lr, r1\n"                                             \
                "4:\n\t"                                                   \
                "ldm r0, {r1-r9}\n\t"                                      \
                INTQ_DETAIL_LOAD_("r1", "0")                               \
                "vmullb.s8 q0, q5, q6\n\t"                                 \
                "vmullt.s8 q1, q5, q6\n\t"                                 \
                "vmulh.s8 q2, q5, q6\n\t"                                  \
                INTQ_DETAIL_TAP_("r2", "16")                               \
                "vmulh.s8 q5, q5, q6\n\t"                                  \
                "vqadd.s8 q2, q2, q5\n\t"                                  \
                INTQ_DETAIL_TAPS_("q3", "r3", "32", "r4", "48")            \
                "vhadd.s8 q2, q2, q3\n\t"                                  \
                INTQ_DETAIL_TAPS_("q3", "r5", "64", "r6", "80")            \
                INTQ_DETAIL_TAPS_("q4", "r7", "96", "r8", "112")           \
                "vhadd.s8 q3, q3, q4\n\t"                                  \
                "vhadd.s8 q2, q2, q3\n\t"                                  \
                INTQ_DETAIL_TAP_("r9", "128")                              \
                "stm r0!, {r1-r9}\n\t"                                     \
                "vshrnb.i16 q3, q0, #8\n\t"                                \
                "vshrnt.i16 q3, q1, #8\n\t"                                \
                "vshr.u8 q3, q3, #2\n\t"                                   \
                "vhsub.s8 q2, q2, q3\n\t"                                  \
                "vrshr.s8 q2, q2, #5\n\t"                                  \
                "vmovlb.s8 q6, q2\n\t"                                     \
                "vmovlt.s8 q7, q2\n\t"                                     \
                "vmov q4, q0\n\t"                                          \
                "vmov q5, q1\n\t"                                          \
                "vsli.32 q4, q6, #16\n\t"                                  \
                "vsli.32 q5, q7, #16\n\t"                                  \
                "vsri.32 q6, q0, #16\n\t"                                  \
                "vsri.32 q7, q1, #16\n\t"                                  \
                INTQ_DETAIL_STEP_("vadd.i32", "144")                       \
                INTQ_DETAIL_STEP_("vqrdmulh.s32", "208")                   \
                away("q4", "q0") away("q5", "q0") away("q6", "q0") away("q7", "q0") \
                INTQ_DETAIL_STEP_("vrshl.s32", "272")                      \
                "ldm r12, {r1, r2, r3}\n\t"                                \
                "vqmovnb.s32 q0, q4\n\t"                                   \
                "vqmovnt.s32 q0, q6\n\t"                                   \
                "vqmovnb.s32 q1, q5\n\t"                                   \
                "vqmovnt.s32 q1, q7\n\t"                                   \
                "vqadd.s16 q0, q0, r1\n\t"                                 \
                "vqadd.s16 q1, q1, r1\n\t"                                 \
                "vqmovnb.s16 q0, q0\n\t"                                   \
                "vqmovnt.s16 q0, q1\n\t"                                   \
                "vdup.8 q1, r2\n\t"                                        \
                "vmax.s8 q0, q0, q1\n\t"                                   \
                "vdup.8 q1, r3\n\t"                                        \
                "vmin.s8 q0, q0, q1\n\t"                                   \
                "vstrb.8 q0, [r10]\n\t"                                    \
                "add r10, r11\n\t"                                         \
                "le lr, 4b\n\t"                                            \
                "ldr r1, [r12, #-12]\n\t"                                  \
                "subs r1, #1\n\t"                                          \
                "str r1, [r12, #-12]\n\t"                                  \
                "bne.w 1b\n\t"                                             \
                "add sp, sp, #340\n\t"                                     \
                "vpop {d8-d15}\n\t"                                        \
                "pop {r4-r11, pc}\n\t"                                     \
                ".balign 4\n"                                              \
                "9:\n\t"                                                   \
                ".byte 0, 9, 18, 27, 36, 45, 54, 63, 72, 81, 90, 99, 108, 117, 126, 135" :: \
                    : "memory"); \
        }
INTQ_DETAIL_STORE_TAPS_(helium_store_taps_half_up, INTQ_DETAIL_HALF_UP_)
INTQ_DETAIL_STORE_TAPS_(helium_store_taps_away, INTQ_DETAIL_AWAY_)
#    undef INTQ_DETAIL_STORE_TAPS_
#    undef INTQ_DETAIL_STEP_
#    undef INTQ_DETAIL_TAPS_
#    undef INTQ_DETAIL_TAP_
#    undef INTQ_DETAIL_LOAD_

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif
#endif  // INTQ_SIMD_ARM_HELIUM_TAPS_HPP
