// SPDX-License-Identifier: MIT
//
// The loop over all taps of a tile of 6 rows by 4 vectors of columns on AArch64, in assembly. Layer: simd.
//
// Its 24 sums, 6 registers of activations and 2 of weights are all that the machine has: g++ 12 spills at every level,
// clang 19 at -O1. The sums come out in registers. A backend gives the instruction; the loop is the same.
#ifndef INTQ_SIMD_ARM_LANE_LOOP_HPP
#define INTQ_SIMD_ARM_LANE_LOOP_HPP

#if defined(__ARM_NEON) && defined(__AARCH64EL__)

#    include <arm_neon.h>

#    include <cstddef>

#    include "intq/simd/tiles/lane_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

using LaneWalk = TapWalk<6>;
static_assert(offsetof(LaneWalk, registers) == 24 && offsetof(LaneWalk, row_taps) == 40 &&
              offsetof(LaneWalk, x_step) == 48 && offsetof(LaneWalk, x_jump) == 64 && offsetof(LaneWalk, rows) == 80);

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

// The sums of row r and vector v are operand 4·r + v, the rows' registers of activations v0 to v5, weights v6 and v7.
// The rows stand in x10 to x15, the weights in x8.
#    define INTQ_DETAIL_LANE_ROWS_(of, a, b, c, d, e, f, w, i) \
        of(a, w, 0, i) of(b, w, 1, i) of(c, w, 2, i) of(d, w, 3, i) of(e, w, 4, i) of(f, w, 5, i)
#    define INTQ_DETAIL_LANE_COLUMN_0_(of, w, i) INTQ_DETAIL_LANE_ROWS_(of, 0, 4, 8, 12, 16, 20, w, i)
#    define INTQ_DETAIL_LANE_COLUMN_1_(of, w, i) INTQ_DETAIL_LANE_ROWS_(of, 1, 5, 9, 13, 17, 21, w, i)
#    define INTQ_DETAIL_LANE_COLUMN_2_(of, w, i) INTQ_DETAIL_LANE_ROWS_(of, 2, 6, 10, 14, 18, 22, w, i)
#    define INTQ_DETAIL_LANE_COLUMN_3_(of, w, i) INTQ_DETAIL_LANE_ROWS_(of, 3, 7, 11, 15, 19, 23, w, i)
#    define INTQ_DETAIL_LANE_LOADS_(name, size)                                                            \
        "ldr " name "0, [x10], #" size "\n ldr " name "1, [x11], #" size "\n ldr " name "2, [x12], #" size \
        "\n ldr " name "3, [x13], #" size "\n ldr " name "4, [x14], #" size "\n ldr " name "5, [x15], #" size "\n"

/// A statement that sets acc[6][4] as TapWalk says.
///
/// @param whole  the text of the instructions that add a register of activations of each row, of `groups` groups
/// @param one    those that add a group, in lane 0
/// @param load   the name of a register that holds a group, and its bytes
#    define INTQ_DETAIL_LANE_LOOP_(walk, acc, whole, one, load)                                                     \
        asm("ldp x6, x8, [%24]\n"                                                                                   \
            "ldp %q0, %q1, [x6]\n"                                                                                  \
            "ldp %q2, %q3, [x6, #32]\n"                                                                             \
            "mov %4.16b, %0.16b\n mov %5.16b, %1.16b\n mov %6.16b, %2.16b\n mov %7.16b, %3.16b\n"                   \
            "mov %8.16b, %0.16b\n mov %9.16b, %1.16b\n mov %10.16b, %2.16b\n mov %11.16b, %3.16b\n"                 \
            "mov %12.16b, %0.16b\n mov %13.16b, %1.16b\n mov %14.16b, %2.16b\n mov %15.16b, %3.16b\n"               \
            "mov %16.16b, %0.16b\n mov %17.16b, %1.16b\n mov %18.16b, %2.16b\n mov %19.16b, %3.16b\n"               \
            "mov %20.16b, %0.16b\n mov %21.16b, %1.16b\n mov %22.16b, %2.16b\n mov %23.16b, %3.16b\n"               \
            "ldr x9, [%24, #16]\n"                                                                                  \
            "ldp x10, x11, [%24, #80]\n"                                                                            \
            "ldp x12, x13, [%24, #96]\n"                                                                            \
            "ldp x14, x15, [%24, #112]\n"                                                                           \
            "ldr x17, [%24, #40]\n"                                                                                 \
            "cbz x9, 6f\n"                                                                                          \
            "1:\n"                                                                                                  \
            "ldp x16, x7, [%24, #24]\n"                                                                             \
            "cbz x16, 3f\n"                                                                                         \
            "2:\n" INTQ_DETAIL_LANE_LOADS_("q", "16") whole                                                         \
            "subs x16, x16, #1\n"                                                                                   \
            "b.ne 2b\n"                                                                                             \
            "3:\n"                                                                                                  \
            "cbz x7, 5f\n"                                                                                          \
            "4:\n" load one                                                                                         \
            "subs x7, x7, #1\n"                                                                                     \
            "b.ne 4b\n"                                                                                             \
            "5:\n"                                                                                                  \
            "subs x9, x9, #1\n"                                                                                     \
            "b.eq 6f\n"                                                                                             \
            "subs x17, x17, #1\n"                                                                                   \
            "ldp x6, x7, [%24, #48]\n"                                                                              \
            "b.ne 7f\n"                                                                                             \
            "ldp x6, x7, [%24, #64]\n"                                                                              \
            "ldr x17, [%24, #40]\n"                                                                                 \
            "7:\n"                                                                                                  \
            "add x8, x8, x7\n"                                                                                      \
            "add x10, x10, x6\n add x11, x11, x6\n add x12, x12, x6\n"                                              \
            "add x13, x13, x6\n add x14, x14, x6\n add x15, x15, x6\n"                                              \
            "b 1b\n"                                                                                                \
            "6:\n"                                                                                                  \
            : "=&w"(acc[0][0]), "=&w"(acc[0][1]), "=&w"(acc[0][2]), "=&w"(acc[0][3]), "=&w"(acc[1][0]),             \
              "=&w"(acc[1][1]), "=&w"(acc[1][2]), "=&w"(acc[1][3]), "=&w"(acc[2][0]), "=&w"(acc[2][1]),             \
              "=&w"(acc[2][2]), "=&w"(acc[2][3]), "=&w"(acc[3][0]), "=&w"(acc[3][1]), "=&w"(acc[3][2]),             \
              "=&w"(acc[3][3]), "=&w"(acc[4][0]), "=&w"(acc[4][1]), "=&w"(acc[4][2]), "=&w"(acc[4][3]),             \
              "=&w"(acc[5][0]), "=&w"(acc[5][1]), "=&w"(acc[5][2]), "=&w"(acc[5][3])                                \
            : "r"(&walk)                                                                                            \
            : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "x6", "x7", "x8", "x9", "x10", "x11", \
              "x12", "x13", "x14", "x15", "x16", "x17")

#endif  // __ARM_NEON && __AARCH64EL__

#endif  // INTQ_SIMD_ARM_LANE_LOOP_HPP
