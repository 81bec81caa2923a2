// SPDX-License-Identifier: MIT
//
// The loops of the Helium backend for layers of int16 activations. Layer: simd (docs/design.md sections 5, 11).
#ifndef INTQ_SIMD_ARM_HELIUM_INT16_HPP
#define INTQ_SIMD_ARM_HELIUM_INT16_HPP

#include "intq/simd/arm/helium_steps.hpp"

#if defined(INTQ_DETAIL_HELIUM_) && defined(__ARM_FEATURE_MVE)

#    include <cstddef>
#    include <cstdint>

#    include "intq/simd/tiles/window_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

static_assert(sizeof(void*) == 4 && offsetof(Int16WindowCodes, highest) == 36 && offsetof(Int16TapSums, between) == 24);

/// WindowTile::store_int16: VRMULH by multiplier·2^(17 + shift) is the rounding product; of a bias, the low word
/// counts.
#    define INTQ_DETAIL_PIXEL_(from, to) \
        "vldrw.u32 q0, " from            \
        "\n\t"                           \
        "vadd.i32 q0, q0, q2\n\t"        \
        "vrmulh.s32 q0, q0, q1\n\t"      \
        "vmax.s32 q0, q0, q4\n\t"        \
        "vmin.s32 q0, q0, q5\n\t"        \
        "vstrh.32 q0, [" to "], #8\n\t"
INTQ_DETAIL_ASSEMBLY_ void helium_store_int16(const Int16WindowCodes*) noexcept {
    asm volatile(
        "push {r4-r8, lr}\n\t"
        "vpush {d8-d11}\n\t"
        "ldrd r1, r2, [r0, #32]\n\t"
        "vdup.32 q4, r1\n\t"
        "vdup.32 q5, r2\n\t"
        "ldr lr, [r0, #28]\n\t"
        "ldm r0, {r1-r7}\n\t"
        "mov r8, #17\n\t"
        "dls lr, lr\n"
        "1:\n\t"
        "vld20.32 {q2, q3}, [r1]\n\t"
        "vld21.32 {q2, q3}, [r1]!\n\t"
        "vldrw.u32 q1, [r2], #16\n\t"
        "vldrw.u32 q3, [r3], #16\n\t"
        "vadd.i32 q3, q3, r8\n\t"
        "vshl.s32 q1, q1, q3\n\t"
        INTQ_DETAIL_PIXEL_("[r4, #128]", "r6")
        INTQ_DETAIL_PIXEL_("[r4, #256]", "r7")
        INTQ_DETAIL_PIXEL_("[r4], #16", "r5")
        "le lr, 1b\n\t"
        "vpop {d8-d11}\n\t"
        "pop {r4-r8, pc}" ::
            : "memory");
}
#    undef INTQ_DETAIL_PIXEL_

/// WindowTile::add_taps: eight products in 9 instructions, in 10 where less than eight channels are left.
#    define INTQ_DETAIL_TAPS_(load)  \
        "dls lr, r5\n"               \
        "2:\n\t"                     \
        "ldr r9, [r8], #4\n\t"       \
        "add r9, r1\n\t" load        \
        "vldrb.s16 q1, [r3], #8\n\t" \
        "vmullb.s16 q4, q0, q1\n\t"  \
        "vmullt.s16 q1, q0, q1\n\t"  \
        "vadd.i32 q2, q2, q4\n\t"    \
        "vadd.i32 q3, q3, q1\n\t"    \
        "le lr, 2b\n\t"
INTQ_DETAIL_ASSEMBLY_ void helium_add_taps(const Int16TapSums*) noexcept {
    asm volatile(
        "push {r4-r9, lr}\n\t"
        "vpush {d8-d9}\n\t"
        "ldm r0, {r1-r7}\n"
        "1:\n\t"
        "mov r8, r2\n\t"
        "vmov.i32 q2, #0\n\t"
        "vmov.i32 q3, #0\n\t"
        "cmp r6, #8\n\t"
        "blt 3f\n\t"
        INTQ_DETAIL_TAPS_("vldrh.u16 q0, [r9]\n\t")
        "b 4f\n"
        "3:\n\t"
        "vctp.16 r6\n\t"
        INTQ_DETAIL_TAPS_("vpst\n\tvldrht.u16 q0, [r9]\n\t")
        "\n4:\n\t"
        "vst20.32 {q2, q3}, [r4]\n\t"
        "vst21.32 {q2, q3}, [r4]!\n\t"
        "add r1, r1, #16\n\t"
        "add r3, r7\n\t"
        "subs r6, r6, #8\n\t"
        "bgt 1b\n\t"
        "vpop {d8-d9}\n\t"
        "pop {r4-r9, pc}" ::
            : "memory");
}
#    undef INTQ_DETAIL_TAPS_

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif
#endif  // INTQ_SIMD_ARM_HELIUM_INT16_HPP
