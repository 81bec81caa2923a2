// SPDX-License-Identifier: MIT
//
// The loops of the Helium backend over runs of codes. Layer: simd (docs/design.md sections 5, 11).
#ifndef INTQ_SIMD_ARM_HELIUM_STREAMS_HPP
#define INTQ_SIMD_ARM_HELIUM_STREAMS_HPP

#include "intq/simd/arm/helium_steps.hpp"

#if defined(INTQ_DETAIL_HELIUM_) && defined(__ARM_FEATURE_MVE)

#    include <cstddef>
#    include <cstdint>

#    include "intq/simd/base/code_streams.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

static_assert(sizeof(void*) == 4 && offsetof(CodeSums, highest) == 56 && offsetof(CodeQuantizer, highest) == 32);
static_assert(offsetof(CodeCells, sums) == 20 && offsetof(CodeAverages, zero_point) == 36);

/// add_codes and add_int16_codes of lanes. The vector of codes is `bytes` long.
#    define INTQ_DETAIL_SUMS_(name, load, store, bytes, away, keep)        \
        INTQ_DETAIL_ASSEMBLY_ void name(const CodeSums*) noexcept {        \
            asm volatile(                                                \
                "push {r4-r12, lr}\n\t"                                  \
                "vpush {d8-d15}\n\t"                                     \
                "ldrd r1, r2, [r0, #52]\n\t"                             \
                "vdup.32 q6, r1\n\t"                                     \
                "vdup.32 q7, r2\n\t"                                     \
                "ldm r0, {r1-r12, lr}\n\t"                               \
                "dlstp.32 lr, lr\n"                                      \
                "1:\n\t"                                                 \
                load " q1, [r2], #" bytes "\n\t"                         \
                load " q0, [r1], #" bytes "\n\t"                         \
                "vadd.i32 q1, q1, r4\n\t"                                \
                "vshl.s32 q1, r5\n\t"                                    \
                "vqrdmulh.s32 q1, q1, r6\n\t"                            \
                INTQ_DETAIL_AWAY_("q1", "q2")                            \
                "vrshl.s32 q1, r7\n\t"                                   \
                "vadd.i32 q1, q1, r9\n\t"                                \
                "vmla.s32 q1, q0, r8\n\t"                                \
                "vqrdmulh.s32 q1, q1, r10\n\t"                           \
                away("q1", "q2")                                         \
                "vrshl.s32 q1, r11\n\t"                                  \
                keep("q1", "r12", "q6", "q7")                            \
                store " q1, [r3], #" bytes "\n\t"                        \
                "letp lr, 1b\n\t"                                        \
                "vpop {d8-d15}\n\t"                                      \
                "pop {r4-r12, pc}" ::                                    \
                    : "memory"); \
        }
#    define INTQ_DETAIL_INT8_SUMS_(name, away, keep) INTQ_DETAIL_SUMS_(name, "vldrb.s32", "vstrb.32", "4", away, keep)
INTQ_DETAIL_INT8_SUMS_(helium_add_rectified, INTQ_DETAIL_HALF_UP_, INTQ_DETAIL_SATURATE_)
INTQ_DETAIL_INT8_SUMS_(helium_add_positive, INTQ_DETAIL_HALF_UP_, INTQ_DETAIL_HELD_POSITIVE_)
INTQ_DETAIL_INT8_SUMS_(helium_add_int8, INTQ_DETAIL_AWAY_, INTQ_DETAIL_SATURATE_)
INTQ_DETAIL_INT8_SUMS_(helium_add_any, INTQ_DETAIL_AWAY_, INTQ_DETAIL_HELD_BOUNDS_)
INTQ_DETAIL_SUMS_(helium_add_int16_codes, "vldrh.s32", "vstrh.32", "8", INTQ_DETAIL_AWAY_, INTQ_DETAIL_HELD_BOUNDS_)
#    undef INTQ_DETAIL_INT8_SUMS_
#    undef INTQ_DETAIL_SUMS_

/// sum_cells of lanes: sixteen channels of a cell in 6 instructions.
INTQ_DETAIL_ASSEMBLY_ void helium_sum_cells(const CodeCells*) noexcept {
    asm volatile(
        "push {r4-r6, lr}\n\t"
        "ldm r0, {r1, r2, r3, r4, r5, r6}\n\t"
        "vmov.i32 q0, #0\n\t"
        "vmov.i32 q1, #0\n"
        "1:\n\t"
        "mov r0, r1\n\t"
        "dls lr, r3\n"
        "2:\n\t"
        "vldrb.s16 q2, [r0]\n\t"
        "vldrb.s16 q3, [r0, #8]\n\t"
        "add r0, r5\n\t"
        "vadd.i16 q0, q0, q2\n\t"
        "vadd.i16 q1, q1, q3\n\t"
        "le lr, 2b\n\t"
        "add r1, r4\n\t"
        "subs r2, r2, #1\n\t"
        "bne 1b\n\t"
        "vstrw.32 q0, [r6]\n\t"
        "vstrw.32 q1, [r6, #16]\n\t"
        "pop {r4-r6, pc}" ::
            : "memory");
}

/// scale_sums of lanes.
INTQ_DETAIL_ASSEMBLY_ void helium_scale_sums(const CodeAverages*) noexcept {
    asm volatile(
        "push {r4-r10, lr}\n\t"
        "vpush {d8-d9}\n\t"
        "ldm r0, {r1-r10}\n\t"
        "vdup.32 q3, r5\n\t"
        "vdup.32 q4, r6\n\t"
        "movs r3, #4\n\t"
        "dls lr, r3\n"
        "1:\n\t"
        "vldrh.s32 q0, [r1], #8\n\t"
        "vadd.i32 q0, q0, r7\n\t"
        "vqrdmulh.s32 q0, q0, r8\n\t" INTQ_DETAIL_AWAY_("q0", "q1") "vrshl.s32 q0, r9\n\t"
        INTQ_DETAIL_HELD_BOUNDS_("q0", "r10", "q3", "q4")
        "vstrb.32 q0, [r2], #4\n\t"
        "le lr, 1b\n\t"
        "vpop {d8-d9}\n\t"
        "pop {r4-r10, pc}" ::
            : "memory");
}

/// divide_sums of lanes.
INTQ_DETAIL_ASSEMBLY_ void helium_divide_sums(const CodeAverages*) noexcept {
    asm volatile(
        "push {r4-r7, lr}\n\t"
        "vpush {d8-d11}\n\t"
        "ldm r0, {r1, r2, r3, r4, r5, r6}\n\t"
        "vdup.32 q3, r4\n\t"
        "vdup.32 q4, r5\n\t"
        "vdup.32 q5, r6\n\t"
        "movs r7, #4\n\t"
        "dls lr, r7\n"
        "1:\n\t"
        "vldrh.s32 q0, [r1], #8\n\t"
        "vshr.s32 q1, q0, #31\n\t"
        "vabs.s32 q0, q0\n\t"
        "vadd.i32 q0, q0, q0\n\t"
        "vadd.i32 q0, q0, r3\n\t"
        "vmulh.u32 q0, q0, q3\n\t"
        "veor q0, q0, q1\n\t"
        "vsub.i32 q0, q0, q1\n\t"
        "vmax.s32 q0, q0, q4\n\t"
        "vmin.s32 q0, q0, q5\n\t"
        "vstrb.32 q0, [r2], #4\n\t"
        "le lr, 1b\n\t"
        "vpop {d8-d11}\n\t"
        "pop {r4-r7, pc}" ::
            : "memory");
}

#    if __ARM_FEATURE_MVE & 2

/// VCVTN rounds to the nearest even, keeps what does not fit at the ends of int32, and makes 0 of NaN.
#        define INTQ_DETAIL_REAL_(q, x, inverse) \
            "vldrw.u32 " q ", [" x "], #16\n\tvmul.f32 " q ", " q ", " inverse "\n\tvcvtn.s32.f32 " q ", " q "\n\t"
#        define INTQ_DETAIL_QUANTIZE_(name, keep)                                   \
            INTQ_DETAIL_ASSEMBLY_ void name(const CodeQuantizer*) noexcept {        \
                asm volatile(                                                     \
                    "push {r4-r6, lr}\n\t"                                        \
                    "ldrd r4, r5, [r0, #28]\n\t"                                  \
                    "vdup.32 q2, r4\n\t"                                          \
                    "vdup.32 q3, r5\n\t"                                          \
                    "ldr r1, [r0]\n\t"                                            \
                    "ldrd r2, r3, [r0, #12]\n\t"                                  \
                    "ldrd r4, r5, [r0, #20]\n\t"                                  \
                    "dlstp.32 lr, r5\n"                                           \
                    "1:\n\t"                                                      \
                    INTQ_DETAIL_REAL_("q0", "r1", "r3") keep("q0", "r4", "q2", "q3") \
                    "vstrb.32 q0, [r2], #4\n\t"                                   \
                    "letp lr, 1b\n\t"                                             \
                    "pop {r4-r6, pc}" ::                                          \
                        : "memory"); \
            }
INTQ_DETAIL_QUANTIZE_(helium_quantize_int8, INTQ_DETAIL_SATURATE_)
INTQ_DETAIL_QUANTIZE_(helium_quantize_any, INTQ_DETAIL_HELD_BOUNDS_)
#        undef INTQ_DETAIL_QUANTIZE_

/// Four pixels in 27 instructions: three codes are one word, whose fourth byte the next pixel overwrites.
INTQ_DETAIL_ASSEMBLY_ void helium_quantize_three(const CodeQuantizer*) noexcept {
    asm volatile(
        "push {r4-r11, lr}\n\t"
        "ldm r0, {r1-r7}\n\t"
        "dls lr, r7\n"
        "1:\n\t" INTQ_DETAIL_REAL_("q0", "r1", "r5") INTQ_DETAIL_SATURATE_("q0", "r6")
            INTQ_DETAIL_REAL_("q1", "r2", "r5") INTQ_DETAIL_SATURATE_("q1", "r6")
                INTQ_DETAIL_REAL_("q2", "r3", "r5") INTQ_DETAIL_SATURATE_("q2", "r6")
        "vsli.32 q0, q1, #8\n\t"
        "vsli.32 q0, q2, #16\n\t"
        "vmov r8, r9, d0\n\t"
        "vmov r10, r11, d1\n\t"
        "str r8, [r4], #3\n\t"
        "str r9, [r4], #3\n\t"
        "str r10, [r4], #3\n\t"
        "str r11, [r4], #3\n\t"
        "le lr, 1b\n\t"
        "pop {r4-r11, pc}" ::
            : "memory");
}
#        undef INTQ_DETAIL_REAL_

#    endif

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif
#endif  // INTQ_SIMD_ARM_HELIUM_STREAMS_HPP
