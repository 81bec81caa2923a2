// SPDX-License-Identifier: MIT
//
// The loops of a 3×3 depthwise window that moves by one or by two over a line, on AArch64, in assembly. Layer: simd.
//
// Weights, the sums of the pixels in flight and a column are all that the machine has: g++ 12 spills. A backend gives
// what a column adds; the loops are the same.
#ifndef INTQ_SIMD_ARM_COLUMN_LOOP_HPP
#define INTQ_SIMD_ARM_COLUMN_LOOP_HPP

#if defined(__ARM_NEON) && defined(__AARCH64EL__)

#    include <arm_neon.h>

#    include <cstddef>

#    include "intq/simd/tiles/depthwise_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

static_assert(offsetof(ColumnWalk, steps) == 24 && offsetof(ColumnWalk, padding) == 48 &&
              offsetof(ColumnWalk, pixels) == 56 && offsetof(ColumnWalk, left) == 64 &&
              offsetof(ColumnWalk, right) == 72);

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

/// Loads a pixel of each row, and moves on to the next column.
#    define INTQ_DETAIL_COLUMN_(size, a, b, c)                                                         \
        "ld1 {v" #a "." size "}, [x10], x13\n ld1 {v" #b "." size "}, [x11], x14\n ld1 {v" #c "." size \
        "}, [x12], "                                                                                   \
        "x15\n"
#    define INTQ_DETAIL_BIAS_(a, b, c, d) "ldp q" #    a ", q" #    b ", [%3]\n ldp q" #    c ", q" #    d ", [%3, #32]\n"
#    define INTQ_DETAIL_STORES_(a, b, c, d) "stp q" #    a ", q" #    b ", [%0], #32\n stp q" #    c ", q" #    d ", [%0], #32\n"

/// The rows stand in x10 to x12 and their steps in x13 to x15; padding is at x16.
#    define INTQ_DETAIL_COLUMN_HEAD_                                                                        \
        "ldp x10, x11, [%1]\n ldp x12, x13, [%1, #16]\n ldp x14, x15, [%1, #32]\n ldp x16, x9, [%1, #48]\n" \
        "ldp x17, x8, [%1, #64]\n add x10, x10, %4\n add x11, x11, %4\n add x12, x12, %4\n add x16, x16, %4\n"
#    define INTQ_DETAIL_COLUMN_CLOBBERS_                                                                              \
        "memory", "cc", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "v0", "v1", "v2", "v3",   \
            "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", \
            "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

/// A statement for windows that move by one, over three pixels that take turns: texts of
///
/// @param kept                   what is loaded first, from the weights at %2 and from `given` at %5
/// @param first, first_padded    bias, and the first column of the first pixel
/// @param second                 the second one, and the first one of the second pixel with its bias
/// @param one, two, three        the last column of each pixel, whose sums are stored, and the columns of the next two
/// @param last_one, last_two, last_three  a last column that is padding, for the last pixel
#    define INTQ_DETAIL_COLUMNS_BY_ONE_(walk, block, given, kept, first, first_padded, second, one, two, three,   \
                                        last_one, last_two, last_three)                                           \
        asm volatile(INTQ_DETAIL_COLUMN_HEAD_ kept "cbnz x17, 1f\n" first "b 2f\n1:\n" first_padded "2:\n" second \
                                                   "cbz x9, 4f\n"                                                 \
                                                   "3:\n" one "subs x9, x9, #1\n b.eq 5f\n" two                   \
                                                   "subs x9, x9, #1\n b.eq 6f\n" three                            \
                                                   "subs x9, x9, #1\n b.ne 3b\n"                                  \
                                                   "4:\n cbz x8, 7f\n" last_one                                   \
                                                   "b 7f\n"                                                       \
                                                   "5:\n cbz x8, 7f\n" last_two                                   \
                                                   "b 7f\n"                                                       \
                                                   "6:\n cbz x8, 7f\n" last_three "7:\n"                          \
                     : "+&r"((block).sums)                                                                        \
                     : "r"(&walk), "r"((block).weights), "r"((block).bias), "r"((block).bytes), "r"(given)        \
                     : INTQ_DETAIL_COLUMN_CLOBBERS_)

/// And by two, over two pixels: each statement adds two columns.
#    define INTQ_DETAIL_COLUMNS_BY_TWO_(walk, block, given, kept, first, first_padded, one, two, last_one, last_two) \
        asm volatile(INTQ_DETAIL_COLUMN_HEAD_ kept "cbnz x17, 1f\n" first "b 2f\n1:\n" first_padded                  \
                                                   "2:\n"                                                            \
                                                   "cbz x9, 4f\n"                                                    \
                                                   "3:\n" one "subs x9, x9, #1\n b.eq 5f\n" two                      \
                                                   "subs x9, x9, #1\n b.ne 3b\n"                                     \
                                                   "4:\n cbz x8, 7f\n" last_one                                      \
                                                   "b 7f\n"                                                          \
                                                   "5:\n cbz x8, 7f\n" last_two "7:\n"                               \
                     : "+&r"((block).sums)                                                                           \
                     : "r"(&walk), "r"((block).weights), "r"((block).bias), "r"((block).bytes), "r"(given)           \
                     : INTQ_DETAIL_COLUMN_CLOBBERS_)

#endif  // __ARM_NEON && __AARCH64EL__

#endif  // INTQ_SIMD_ARM_COLUMN_LOOP_HPP
