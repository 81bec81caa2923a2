// SPDX-License-Identifier: MIT
//
// What the loops of the Helium backend share. Layer: simd (docs/design.md sections 5, 11).
//
// They are functions of assembly: a sum of VMLADAV is in an even register, which neither g++ 12 nor clang 19 keeps
// there over a loop; g++ 12 moves four vectors of VLD4 through memory; and both have faults with predicates.
#ifndef INTQ_SIMD_ARM_HELIUM_STEPS_HPP
#define INTQ_SIMD_ARM_HELIUM_STEPS_HPP

#include "intq/core/config.hpp"

#if (defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE + 0 > 0 && !defined(__ARM_BIG_ENDIAN)) || INTQ_EMULATES_HELIUM
#    define INTQ_DETAIL_HELIUM_ 1
#endif

// Nothing may be concluded from a body that the compiler does not read.
#ifdef __clang__
#    define INTQ_DETAIL_ASSEMBLY_ inline __attribute__((naked, noinline))
#else
#    define INTQ_DETAIL_ASSEMBLY_ inline __attribute__((naked, noinline, noipa))
#endif

// One off a negative product turns half-up into half away from zero; nothing where no negative product is a code.
#define INTQ_DETAIL_AWAY_(q, sign) "vshr.s32 " sign ", " q ", #31\n\tvadd.i32 " q ", " q ", " sign "\n\t"
#define INTQ_DETAIL_HALF_UP_(q, sign) ""

// The zero point and the bounds of a code: int8, as the lowest byte of each lane; 0 to a highest, whose zero point is
// 0; any, from registers. For the latter two also from vectors. Additions saturate, as reals do that become integers.
#define INTQ_DETAIL_SATURATE_(q, zero_point, ...) \
    "vqadd.s32 " q ", " q ", " zero_point "\n\tvqmovnb.s32 " q ", " q "\n\tvqmovnb.s16 " q ", " q "\n\t"
#define INTQ_DETAIL_POSITIVE_(q, zero_point, held, ...) \
    "vmin.s32 " q ", " q ", " held "\n\tvqmovunb.s32 " q ", " q "\n\t"
#define INTQ_DETAIL_BOUNDS_(q, zero_point, other, lowest, highest)                                             \
    "vqadd.s32 " q ", " q ", " zero_point "\n\tvdup.32 " other ", " lowest "\n\tvmax.s32 " q ", " q ", " other \
    "\n\tvdup.32 " other ", " highest "\n\tvmin.s32 " q ", " q ", " other "\n\t"
#define INTQ_DETAIL_HELD_POSITIVE_(q, zero_point, lowest, highest) INTQ_DETAIL_POSITIVE_(q, zero_point, highest)
#define INTQ_DETAIL_HELD_BOUNDS_(q, zero_point, lowest, highest)                                                     \
    "vqadd.s32 " q ", " q ", " zero_point "\n\tvmax.s32 " q ", " q ", " lowest "\n\tvmin.s32 " q ", " q ", " highest \
    "\n\t"

// The code of a sum in vector q: VQRDMULH is SRDHM, and VRSHL half-up.
#define INTQ_DETAIL_CODE_(q, bias, multiplier, shift, zero_point, away, keep, other, lowest, highest) \
    "vadd.i32 " q ", " q ", " bias                                                                    \
    "\n\t"                                                                                            \
    "vqrdmulh.s32 " q ", " q ", " multiplier "\n\t" away(q, other) "vrshl.s32 " q ", " q ", " shift   \
                                                                   "\n\t" keep(q, zero_point, other, lowest, highest)

#endif  // INTQ_SIMD_ARM_HELIUM_STEPS_HPP
