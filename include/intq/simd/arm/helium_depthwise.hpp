// SPDX-License-Identifier: MIT
//
// The loops of the Helium backend for depthwise layers. Layer: simd (docs/design.md sections 5, 11).
#ifndef INTQ_SIMD_ARM_HELIUM_DEPTHWISE_HPP
#define INTQ_SIMD_ARM_HELIUM_DEPTHWISE_HPP

#include "intq/simd/arm/helium_steps.hpp"

#if defined(INTQ_DETAIL_HELIUM_) && defined(__ARM_FEATURE_MVE)

#    include <cstddef>
#    include <cstdint>

#    include "intq/simd/tiles/window_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

static_assert(sizeof(void*) == 4 && offsetof(DepthwiseRows, channels) == 40 && offsetof(DepthwiseGroups, step) == 16);
static_assert(offsetof(DepthwiseSums, channels) == 12 && offsetof(DepthwiseCodes, quads) == 52);

/// WindowTile::stage_rows: sixteen channels of a column in 13 instructions, fewer in 14, as all are where code is to be
/// small.
INTQ_DETAIL_ASSEMBLY_ void helium_stage_rows(const DepthwiseRows*) noexcept {
    asm volatile(
        "push {r4-r11, lr}\n\t"
        "ldrd r10, r12, [r0, #32]\n\t"
        "ldr r11, [r0, #40]\n\t"
        "ldm r0, {r1-r8}\n\t"
        "dls lr, r12\n\t"
#    if !INTQ_SMALL
        "cmp r11, #16\n\t"
        "bne 2f\n"
        "1:\n\t"
        "vldrb.u8 q0, [r1]\n\t"
        "vldrb.u8 q1, [r2]\n\t"
        "vldrb.u8 q2, [r3]\n\t"
        "vldrb.u8 q3, [r4]\n\t"
        "add r1, r5\n\t"
        "add r2, r6\n\t"
        "add r3, r7\n\t"
        "add r4, r8\n\t"
        "vst40.8 {q0, q1, q2, q3}, [r10]\n\t"
        "vst41.8 {q0, q1, q2, q3}, [r10]\n\t"
        "vst42.8 {q0, q1, q2, q3}, [r10]\n\t"
        "vst43.8 {q0, q1, q2, q3}, [r10]!\n\t"
        "le lr, 1b\n\t"
        "pop {r4-r11, pc}\n"
        "2:\n\t"
#    endif
        "vctp.8 r11\n"
        "3:\n\t"
        "vpstttt\n\t"
        "vldrbt.u8 q0, [r1]\n\t"
        "vldrbt.u8 q1, [r2]\n\t"
        "vldrbt.u8 q2, [r3]\n\t"
        "vldrbt.u8 q3, [r4]\n\t"
        "add r1, r5\n\t"
        "add r2, r6\n\t"
        "add r3, r7\n\t"
        "add r4, r8\n\t"
        "vst40.8 {q0, q1, q2, q3}, [r10]\n\t"
        "vst41.8 {q0, q1, q2, q3}, [r10]\n\t"
        "vst42.8 {q0, q1, q2, q3}, [r10]\n\t"
        "vst43.8 {q0, q1, q2, q3}, [r10]!\n\t"
        "le lr, 3b\n\t"
        "pop {r4-r11, pc}" ::
            : "memory");
}

/// WindowTile::stage_groups: four channels of a group in 11 instructions, sixteen in 34 where code need not be small.
INTQ_DETAIL_ASSEMBLY_ void helium_stage_groups(const DepthwiseGroups*) noexcept {
    asm volatile(
        "push {r4-r7, lr}\n\t"
        "ldm r0, {r1-r4, r7}\n"
#    if !INTQ_SMALL
        "cmp r4, #4\n\t"
        "bne 1f\n\t"
        "mov r5, r1\n\t"
        "mov r6, r2\n\t"
        "dls lr, r3\n"
        "3:\n\t"
        "vldrw.u32 q0, [r5]\n\t"
        "vldrw.u32 q1, [r5, #64]\n\t"
        "vldrw.u32 q2, [r5, #128]\n\t"
        "vldrw.u32 q3, [r5, #192]\n\t"
        "vst40.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst41.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst42.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst43.32 {q0, q1, q2, q3}, [r6]!\n\t"
        "vldrw.u32 q0, [r5, #16]\n\t"
        "vldrw.u32 q1, [r5, #80]\n\t"
        "vldrw.u32 q2, [r5, #144]\n\t"
        "vldrw.u32 q3, [r5, #208]\n\t"
        "vst40.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst41.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst42.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst43.32 {q0, q1, q2, q3}, [r6]!\n\t"
        "vldrw.u32 q0, [r5, #32]\n\t"
        "vldrw.u32 q1, [r5, #96]\n\t"
        "vldrw.u32 q2, [r5, #160]\n\t"
        "vldrw.u32 q3, [r5, #224]\n\t"
        "vst40.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst41.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst42.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst43.32 {q0, q1, q2, q3}, [r6]!\n\t"
        "vldrw.u32 q0, [r5, #48]\n\t"
        "vldrw.u32 q1, [r5, #112]\n\t"
        "vldrw.u32 q2, [r5, #176]\n\t"
        "vldrw.u32 q3, [r5, #240]\n\t"
        "vst40.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst41.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst42.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst43.32 {q0, q1, q2, q3}, [r6]!\n\t"
        "add r5, r7\n\t"
        "le lr, 3b\n\t"
        "pop {r4-r7, pc}\n"
#    endif
        "1:\n\t"
        "mov r5, r1\n\t"
        "mov r6, r2\n\t"
        "dls lr, r3\n"
        "2:\n\t"
        "vldrw.u32 q0, [r5]\n\t"
        "vldrw.u32 q1, [r5, #64]\n\t"
        "vldrw.u32 q2, [r5, #128]\n\t"
        "vldrw.u32 q3, [r5, #192]\n\t"
        "vst40.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst41.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst42.32 {q0, q1, q2, q3}, [r6]\n\t"
        "vst43.32 {q0, q1, q2, q3}, [r6]\n\t"
        "add r5, r7\n\t"
        "add r6, r6, #256\n\t"
        "le lr, 2b\n\t"
        "add r1, r1, #16\n\t"
        "add r2, r2, #64\n\t"
        "subs r4, r4, #1\n\t"
        "bne 1b\n\t"
        "pop {r4-r7, pc}" ::
            : "memory");
}

// The nine weights of a channel, three for a column of four bytes, whose last one is zero: gathered by their places.
#    define INTQ_DETAIL_WEIGHT_PLACES_(q, r) \
        "movw " r ", #0x0777\n\tvmsr p0, " r "\n\tadr " r ", 9f\n\tvldrw.u32 " q ", [" r "]\n\t"
#    define INTQ_DETAIL_WEIGHTS_(q, from, places) \
        "vpst\n\tvldrbt.u8 " q ", [" from ", " places "]\n\tadd " from ", " from ", #9\n\t"
#    define INTQ_DETAIL_PLACES_OF_WEIGHTS_ ".balign 4\n9:\n\t.word 0x00020100, 0x00050403, 0x00080706, 0"

/// WindowTile::add_groups<1>: the four sums of a group in 8 instructions. A window that begins a row lower is the same
/// vector a byte further, one that begins a column later 32 bits further; only zeros leave it.
INTQ_DETAIL_ASSEMBLY_ void helium_add_groups(const DepthwiseSums*) noexcept {
    asm volatile(
        "push {r4-r11, lr}\n\t"
        "vpush {d8-d11}\n\t"
        "ldrd r1, r3, [r0]\n\t"
        "ldrd r5, r7, [r0, #8]\n\t" INTQ_DETAIL_WEIGHT_PLACES_("q5", "r9")
        "mov r9, #0\n"
        "1:\n\t" INTQ_DETAIL_WEIGHTS_("q1", "r3", "q5")
        "vmov q2, q1\n\t"
        "vmov q3, q1\n\t"
        "vshlc q2, r9, #8\n\t"
        "vshlc q3, r9, #32\n\t"
        "vmov q4, q2\n\t"
        "vshlc q4, r9, #32\n\t"
        "mov r11, r1\n\t"
        "dls lr, r5\n"
        "2:\n\t"
        "vldrw.u32 q0, [r11]\n\t"
        "vmladav.s8 r0, q0, q1\n\t"
        "vmladav.s8 r2, q0, q2\n\t"
        "vmladav.s8 r4, q0, q3\n\t"
        "vmladav.s8 r6, q0, q4\n\t"
        "strd r4, r6, [r11, #8]\n\t"
        "strd r0, r2, [r11], #256\n\t"
        "le lr, 2b\n\t"
        "add r1, r1, #16\n\t"
        "subs r7, r7, #1\n\t"
        "bne 1b\n\t"
        "vpop {d8-d11}\n\t"
        "pop {r4-r11, pc}\n\t" INTQ_DETAIL_PLACES_OF_WEIGHTS_ ::
            : "memory");
}

/// WindowTile::add_groups<2>: two sums in 6 instructions. The second window lacks its last column in the group,
/// which is the first one of the next group.
INTQ_DETAIL_ASSEMBLY_ void helium_add_groups_2(const DepthwiseSums*) noexcept {
    asm volatile(
        "push {r4-r7, lr}\n\t"
        "vpush {d8-d9}\n\t"
        "ldm r0, {r1, r3, r5, r7}\n\t" INTQ_DETAIL_WEIGHT_PLACES_("q4", "r6")
        "1:\n\t" INTQ_DETAIL_WEIGHTS_("q1", "r3", "q4")
        "vmov q2, q1\n\t"
        "movs r4, #0\n\t"
        "vmov.i32 q3, #0\n\t"
        "vshlc q2, r4, #32\n\t"
        "vshlc q2, r4, #32\n\t"
        "vmov.32 q3[0], r4\n\t"
        "mov r6, r1\n\t"
        "vldrw.u32 q0, [r6]\n\t"
        "dls lr, r5\n"
        "2:\n\t"
        "vmladav.s8 r0, q0, q1\n\t"
        "vmladav.s8 r2, q0, q2\n\t"
        "vldrw.u32 q0, [r6, #256]\n\t"
        "vmladava.s8 r2, q0, q3\n\t"
        "strd r0, r2, [r6], #256\n\t"
        "le lr, 2b\n\t"
        "add r1, r1, #16\n\t"
        "subs r7, r7, #1\n\t"
        "bne 1b\n\t"
        "vpop {d8-d9}\n\t"
        "pop {r4-r7, pc}\n\t" INTQ_DETAIL_PLACES_OF_WEIGHTS_ ::
            : "memory");
}
#    undef INTQ_DETAIL_PLACES_OF_WEIGHTS_
#    undef INTQ_DETAIL_WEIGHT_PLACES_
#    undef INTQ_DETAIL_WEIGHTS_

/// WindowTile::store_group_codes: four channels of four pixels, or of two, at a time.
#    define INTQ_DETAIL_PIXEL_(q, to, away, keep)                                   \
        INTQ_DETAIL_CODE_(q, "q6", "q4", "q5", "r11", away, keep, "q7", "r1", "r2") \
        "vstrb.32 " q ", [" to "]\n\tadd " to ", r10\n\t"
#    define INTQ_DETAIL_FOUR_(away, keep)          \
        INTQ_DETAIL_PIXEL_("q3", "r7", away, keep) \
        INTQ_DETAIL_PIXEL_("q2", "r6", away, keep) \
        INTQ_DETAIL_PIXEL_("q1", "r5", away, keep) INTQ_DETAIL_PIXEL_("q0", "r0", away, keep)
#    define INTQ_DETAIL_TWO_(away, keep) \
        INTQ_DETAIL_PIXEL_("q1", "r5", away, keep) INTQ_DETAIL_PIXEL_("q0", "r0", away, keep)
#    define INTQ_DETAIL_STORE_(name, pixels, away, keep)                    \
        INTQ_DETAIL_ASSEMBLY_ void name(const DepthwiseCodes*) noexcept {   \
            asm volatile(                                                 \
                "push {r4-r11, lr}\n\t"                                   \
                "vpush {d8-d15}\n\t"                                      \
                "mov r3, r0\n\t"                                          \
                "ldrd r9, r10, [r3, #32]\n\t"                             \
                "ldr r11, [r3, #40]\n\t"                                  \
                "ldr r4, [r3, #52]\n\t"                                   \
                "ldr r12, [r3, #48]\n\t" "vdup.32 q7, r12\n\t" "mov r12, #0\n"                                           \
                "1:\n\t"                                                  \
                "ldm r3, {r0, r1, r2, r8}\n\t"                            \
                "add r0, r0, r12, lsl #2\n\t"                             \
                "add r1, r1, r12, lsl #2\n\t"                             \
                "add r2, r2, r12, lsl #2\n\t"                             \
                "add r8, r8, r12, lsl #4\n\t"                             \
                "vldrw.u32 q6, [r0]\n\t"                                  \
                "vldrw.u32 q4, [r1]\n\t"                                  \
                "vldrw.u32 q5, [r2]\n\t"                                  \
                "ldrd r0, r5, [r3, #16]\n\t"                              \
                "ldrd r6, r7, [r3, #24]\n\t"                              \
                "ldrd r1, r2, [r3, #44]\n\t"                              \
                "add r0, r12\n\t"                                         \
                "add r5, r12\n\t"                                         \
                "add r6, r12\n\t"                                         \
                "add r7, r12\n\t"                                         \
                "add r12, r12, #4\n\t"                                    \
                "dls lr, r9\n"                                            \
                "2:\n\t"                                                  \
                "vld40.32 {q0, q1, q2, q3}, [r8]\n\t"                     \
                "vld41.32 {q0, q1, q2, q3}, [r8]\n\t"                     \
                "vld42.32 {q0, q1, q2, q3}, [r8]\n\t"                     \
                "vld43.32 {q0, q1, q2, q3}, [r8]\n\t"                     \
                "sub r8, r8, #256\n\t" pixels(away, keep)                 \
                "le lr, 2b\n\t"                                           \
                "subs r4, r4, #1\n\t"                                     \
                "bne 1b\n\t"                                              \
                "vpop {d8-d15}\n\t"                                       \
                "pop {r4-r11, pc}" ::                                     \
                    : "memory"); \
        }
INTQ_DETAIL_STORE_(helium_store_groups_rectified, INTQ_DETAIL_FOUR_, INTQ_DETAIL_HALF_UP_, INTQ_DETAIL_SATURATE_)
INTQ_DETAIL_STORE_(helium_store_groups_positive, INTQ_DETAIL_FOUR_, INTQ_DETAIL_HALF_UP_, INTQ_DETAIL_POSITIVE_)
INTQ_DETAIL_STORE_(helium_store_groups_int8, INTQ_DETAIL_FOUR_, INTQ_DETAIL_AWAY_, INTQ_DETAIL_SATURATE_)
INTQ_DETAIL_STORE_(helium_store_groups_any, INTQ_DETAIL_FOUR_, INTQ_DETAIL_AWAY_, INTQ_DETAIL_BOUNDS_)
INTQ_DETAIL_STORE_(helium_store_groups_2_rectified, INTQ_DETAIL_TWO_, INTQ_DETAIL_HALF_UP_, INTQ_DETAIL_SATURATE_)
INTQ_DETAIL_STORE_(helium_store_groups_2_positive, INTQ_DETAIL_TWO_, INTQ_DETAIL_HALF_UP_, INTQ_DETAIL_POSITIVE_)
INTQ_DETAIL_STORE_(helium_store_groups_2_int8, INTQ_DETAIL_TWO_, INTQ_DETAIL_AWAY_, INTQ_DETAIL_SATURATE_)
INTQ_DETAIL_STORE_(helium_store_groups_2_any, INTQ_DETAIL_TWO_, INTQ_DETAIL_AWAY_, INTQ_DETAIL_BOUNDS_)
#    undef INTQ_DETAIL_STORE_
#    undef INTQ_DETAIL_TWO_
#    undef INTQ_DETAIL_FOUR_
#    undef INTQ_DETAIL_PIXEL_

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif
#endif  // INTQ_SIMD_ARM_HELIUM_DEPTHWISE_HPP
