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

static_assert(offsetof(TapWalk, registers) == 24 && offsetof(TapWalk, row_taps) == 40 &&
              offsetof(TapWalk, x_step) == 48 && offsetof(TapWalk, x_jump) == 64);

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

// Where the rows begin: at the addresses in a list, or equally spaced.
#    define INTQ_DETAIL_LANE_LISTED_ROWS_ "ldp x10, x11, [%25]\n ldp x12, x13, [%25, #16]\n ldp x14, x15, [%25, #32]\n"
#    define INTQ_DETAIL_LANE_SPACED_ROWS_                                                                \
        "mov x10, %25\n add x11, x10, %26\n add x12, x11, %26\n add x13, x12, %26\n add x14, x13, %26\n" \
        "add x15, x14, %26\n"
#    define INTQ_DETAIL_LANE_START_(a, b, c, d) "ldp %q" #    a ", %q" #    b ", [x6]\n ldp %q" #    c ", %q" #    d ", [x6, #32]\n"

/// A statement that sets acc[6][4] as TapWalk says.
///
/// @param begin    the text that finds the rows, of `x` and `apart`: a list, or the first one and the bytes between two
/// @param whole    the text of the instructions that add a register of activations of each row, of `groups` groups
/// @param one      those that add a group, in lane 0
/// @param load     the name of a register that holds a group, and its bytes
#    define INTQ_DETAIL_LANE_LOOP_(walk, begin, x, apart, acc, whole, one, load)                                    \
        asm("ldp x6, x8, [%24]\n" INTQ_DETAIL_LANE_START_(0, 1, 2, 3) INTQ_DETAIL_LANE_START_(4, 5, 6, 7)           \
                INTQ_DETAIL_LANE_START_(8, 9, 10, 11) INTQ_DETAIL_LANE_START_(12, 13, 14, 15)                       \
                    INTQ_DETAIL_LANE_START_(16, 17, 18, 19) INTQ_DETAIL_LANE_START_(20, 21, 22, 23) begin           \
            "ldr x9, [%24, #16]\n"                                                                                  \
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
            : "r"(&walk), "r"(x), "r"(apart)                                                                        \
            : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "x6", "x7", "x8", "x9", "x10", "x11", \
              "x12", "x13", "x14", "x15", "x16", "x17")

#endif  // __ARM_NEON && __AARCH64EL__

#endif  // INTQ_SIMD_ARM_LANE_LOOP_HPP
