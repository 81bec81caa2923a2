// SPDX-License-Identifier: MIT
//
// The loops of the Helium backend over tiles of windows. Layer: simd (docs/design.md sections 5, 11).
#ifndef INTQ_SIMD_ARM_HELIUM_TILE_HPP
#define INTQ_SIMD_ARM_HELIUM_TILE_HPP

#include "intq/simd/arm/helium_steps.hpp"

#if defined(INTQ_DETAIL_HELIUM_) && defined(__ARM_FEATURE_MVE)

#    include <cstddef>
#    include <cstdint>

#    include "intq/simd/tiles/window_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

static_assert(sizeof(void*) == 4 && offsetof(WindowSums, pairs) == 24 && offsetof(WindowCodes, highest) == 40);

/// WindowTile::copy_cells.
INTQ_DETAIL_ASSEMBLY_ void helium_copy_cells(const std::int8_t*, std::int8_t*, std::int32_t, std::int32_t, std::int32_t,
                                             std::int32_t) noexcept {
    asm volatile(
        "push {r4, lr}\n\t"
        "ldrd r12, r4, [sp, #8]\n\t"
        "vctp.8 r4\n\t"
        "dls lr, r2\n"
        "1:\n\t"
        "vpstt\n\t"
        "vldrbt.u8 q0, [r0]\n\t"
        "vstrbt.8 q0, [r1]\n\t"
        "add r0, r3\n\t"
        "add r1, r12\n\t"
        "le lr, 1b\n\t"
        "pop {r4, pc}" ::
            : "memory");
}

/// WindowTile::add. Seven sums fit, lr counts: two channels by three pixels take 12 instructions for 96 products, or
/// for 48 of int16, whose weights are widened as they are loaded.
#    define INTQ_DETAIL_ADD_(name, weights, sum, more)                \
        INTQ_DETAIL_ASSEMBLY_ void name(const WindowSums*) noexcept { \
            asm volatile(                                         \
                "push {r4-r11, lr}\n\t"                           \
                "mov r12, r0\n\t"                                 \
                "ldrd r7, r9, [r12, #12]\n\t"                     \
                "ldr r11, [r12, #24]\n"                           \
                "1:\n\t"                                          \
                "ldm r12, {r1, r3, r5}\n\t"                       \
                "ldr lr, [r12, #20]\n\t"                          \
                INTQ_DETAIL_SIX_(weights, sum)                    \
                "wls lr, lr, 3f\n"                                \
                "2:\n\t"                                          \
                INTQ_DETAIL_SIX_(weights, more)                   \
                "le lr, 2b\n"                                     \
                "3:\n\t"                                          \
                "strd r4, r6, [r9, #128]\n\t"                     \
                "strd r8, r10, [r9, #256]\n\t"                    \
                "strd r0, r2, [r9], #8\n\t"                       \
                "subs r11, r11, #1\n\t"                           \
                "bne 1b\n\t"                                      \
                "pop {r4-r11, pc}" ::                             \
                    : "memory");   \
        }
#    define INTQ_DETAIL_SIX_(weights, sum)                                                               \
        "vldrb.u8 q0, [r1], #16\n\t"                                                                     \
        "vldrb.u8 q1, [r3], #16\n\t"                                                                     \
        "vldrb.u8 q2, [r5], #16\n\t" weights("q3", "r7") sum " r0, q0, q3\n\t" sum " r4, q1, q3\n\t" sum \
                                                             " r8, q2, q3\n\t" weights("q3", "r7") sum   \
            " r2, q0, q3\n\t" sum " r6, q1, q3\n\t" sum " r10, q2, q3\n\t"

/// WindowTile::add_one: 6 instructions for 32 products, or 16 of int16.
#    define INTQ_DETAIL_ADD_ONE_(name, weights, sum, more)            \
        INTQ_DETAIL_ASSEMBLY_ void name(const WindowSums*) noexcept { \
            asm volatile(                                         \
                "push {r4-r7, lr}\n\t"                            \
                "ldr r1, [r0]\n\t"                                \
                "ldrd r3, r4, [r0, #12]\n\t"                      \
                "ldrd r5, r6, [r0, #20]\n"                        \
                "1:\n\t"                                          \
                "mov r7, r1\n\t"                                  \
                INTQ_DETAIL_TWO_(weights, sum)                    \
                "wls lr, r5, 3f\n"                                \
                "2:\n\t"                                          \
                INTQ_DETAIL_TWO_(weights, more)                   \
                "le lr, 2b\n"                                     \
                "3:\n\t"                                          \
                "strd r0, r2, [r4], #8\n\t"                       \
                "subs r6, r6, #1\n\t"                             \
                "bne 1b\n\t"                                      \
                "pop {r4-r7, pc}" ::                              \
                    : "memory");   \
        }
#    define INTQ_DETAIL_TWO_(weights, sum)                                                             \
        "vldrb.u8 q0, [r7], #16\n\t" weights("q1", "r3") weights("q2", "r3") sum " r0, q0, q1\n\t" sum \
                                                                                 " r2, q0, "           \
                                                                                 "q2\n\t"

#    define INTQ_DETAIL_BYTES_(q, from) "vldrb.u8 " q ", [" from "], #16\n\t"
#    define INTQ_DETAIL_WIDENED_(q, from) "vldrb.s16 " q ", [" from "], #8\n\t"
INTQ_DETAIL_ADD_(helium_add, INTQ_DETAIL_BYTES_, "vmladav.s8", "vmladava.s8")
INTQ_DETAIL_ADD_(helium_add_int16, INTQ_DETAIL_WIDENED_, "vmladav.s16", "vmladava.s16")
INTQ_DETAIL_ADD_ONE_(helium_add_one, INTQ_DETAIL_BYTES_, "vmladav.s8", "vmladava.s8")
INTQ_DETAIL_ADD_ONE_(helium_add_one_int16, INTQ_DETAIL_WIDENED_, "vmladav.s16", "vmladava.s16")
#    undef INTQ_DETAIL_WIDENED_
#    undef INTQ_DETAIL_BYTES_
#    undef INTQ_DETAIL_TWO_
#    undef INTQ_DETAIL_ADD_ONE_
#    undef INTQ_DETAIL_SIX_
#    undef INTQ_DETAIL_ADD_

/// WindowTile::store_codes.
#    define INTQ_DETAIL_PIXEL_(from, to, away, keep)                                                         \
        "vldrw.u32 q0, " from "\n\t" INTQ_DETAIL_CODE_("q0", "q2", "q3", "q4", "r8", away, keep, "q1", "r9", \
                                                       "r10") "vstrb.32 q0, [" to "], #4\n\t"
#    define INTQ_DETAIL_THREE_(away, keep)                 \
        INTQ_DETAIL_PIXEL_("[r4, #128]", "r6", away, keep) \
        INTQ_DETAIL_PIXEL_("[r4, #256]", "r7", away, keep) INTQ_DETAIL_PIXEL_("[r4], #16", "r5", away, keep)
#    define INTQ_DETAIL_ONE_(away, keep) INTQ_DETAIL_PIXEL_("[r4], #16", "r5", away, keep)
#    define INTQ_DETAIL_STORE_(name, pixels, away, keep)                                              \
        INTQ_DETAIL_ASSEMBLY_ void name(const WindowCodes*) noexcept {                                \
            asm volatile(                                                                           \
                "push {r4-r10, lr}\n\t"                                                             \
                "vpush {d8-d9}\n\t"                                                                 \
                "ldrd r9, r10, [r0, #36]\n\t"                                                       \
                "vdup.32 q1, r10\n\t" "ldrd lr, r8, [r0, #28]\n\t"                                                        \
                "ldm r0, {r1-r7}\n\t"                                                               \
                "dls lr, lr\n"                                                                      \
                "1:\n\t"                                                                            \
                "vldrw.u32 q2, [r1], #16\n\t"                                                       \
                "vldrw.u32 q3, [r2], #16\n\t"                                                       \
                "vldrw.u32 q4, [r3], #16\n\t"                                                       \
                pixels(away, keep) \
                "le lr, 1b\n\t"                                                                     \
                "vpop {d8-d9}\n\t"                                                                  \
                "pop {r4-r10, pc}" ::                                                               \
                    : "memory"); \
        }
INTQ_DETAIL_STORE_(helium_store_rectified, INTQ_DETAIL_THREE_, INTQ_DETAIL_HALF_UP_, INTQ_DETAIL_SATURATE_)
INTQ_DETAIL_STORE_(helium_store_one_rectified, INTQ_DETAIL_ONE_, INTQ_DETAIL_HALF_UP_, INTQ_DETAIL_SATURATE_)
INTQ_DETAIL_STORE_(helium_store_positive, INTQ_DETAIL_THREE_, INTQ_DETAIL_HALF_UP_, INTQ_DETAIL_POSITIVE_)
INTQ_DETAIL_STORE_(helium_store_one_positive, INTQ_DETAIL_ONE_, INTQ_DETAIL_HALF_UP_, INTQ_DETAIL_POSITIVE_)
INTQ_DETAIL_STORE_(helium_store_int8, INTQ_DETAIL_THREE_, INTQ_DETAIL_AWAY_, INTQ_DETAIL_SATURATE_)
INTQ_DETAIL_STORE_(helium_store_one_int8, INTQ_DETAIL_ONE_, INTQ_DETAIL_AWAY_, INTQ_DETAIL_SATURATE_)
INTQ_DETAIL_STORE_(helium_store_any, INTQ_DETAIL_THREE_, INTQ_DETAIL_AWAY_, INTQ_DETAIL_BOUNDS_)
INTQ_DETAIL_STORE_(helium_store_one_any, INTQ_DETAIL_ONE_, INTQ_DETAIL_AWAY_, INTQ_DETAIL_BOUNDS_)
#    undef INTQ_DETAIL_STORE_
#    undef INTQ_DETAIL_ONE_
#    undef INTQ_DETAIL_THREE_
#    undef INTQ_DETAIL_PIXEL_

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif
#endif  // INTQ_SIMD_ARM_HELIUM_TILE_HPP
