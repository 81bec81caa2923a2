// SPDX-License-Identifier: MIT
//
// The loop over all taps of the largest tile of RISC-V vectors, in assembly. Layer: simd.
//
// Seven rows of 16 columns have 28 sums of 128 bits, fourteen as many of 256; weights take what is left. The loop adds
// eight channels before a pointer moves: an activation is loaded by its offset, which a compiler forgoes for the sum of
// a pointer and an index. 145 instructions for 896 products at 128 bits, 264 for 1,792 at 256 and 512.
#ifndef INTQ_SIMD_RISCV_RVV_LOOP_HPP
#define INTQ_SIMD_RISCV_RVV_LOOP_HPP

#include "intq/simd/riscv/rvv_registers.hpp"

#ifdef INTQ_DETAIL_RVV_

#    include <cstddef>

#    include "intq/simd/tiles/lane_tile.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

inline constexpr int rvv_loop_rows = __riscv_v_fixed_vlen == 128 ? 7 : 14;
static_assert(offsetof(TapWalk, weights) == 8 && offsetof(TapWalk, registers) == 24 &&
              offsetof(TapWalk, row_taps) == 40 && offsetof(TapWalk, x_step) == 48 && offsetof(TapWalk, x_jump) == 64);

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

// The sums of row r are operand r, and the row stands in the r-th of a0 to a7 and s2 to s7. The weights stand in t0,
// and those of a channel are in v2, as int16. An activation passes through t1 to t4.
#    define INTQ_DETAIL_RVV_PRODUCTS_(load, at, r0, p0, r1, p1, r2, p2, r3, p3)                                       \
        load " t1, " at "(" p0 ")\n" load " t2, " at "(" p1 ")\n" load " t3, " at "(" p2 ")\n" load " t4, " at "(" p3 \
             ")\n vwmacc.vx %" r0 ", t1, v2\n vwmacc.vx %" r1 ", t2, v2\n vwmacc.vx %" r2 ", t3, v2\n vwmacc.vx %" r3 \
             ", t4, v2\n"
// Where the rows begin: at the addresses in a list, or equally spaced.
#    define INTQ_DETAIL_RVV_ROW_(r, p) "ld " p ", 8 * " r "(%[x])\n"
#    define INTQ_DETAIL_RVV_LISTED_ROWS_ INTQ_DETAIL_RVV_ROWS_(INTQ_DETAIL_RVV_ROW_)
#    define INTQ_DETAIL_RVV_SEVEN_ROWS_                                                      \
        "mv a0, %[x]\n add a1, a0, %[apart]\n add a2, a1, %[apart]\n add a3, a2, %[apart]\n" \
        "add a4, a3, %[apart]\n add a5, a4, %[apart]\n add a6, a5, %[apart]\n"
#    if __riscv_v_fixed_vlen == 128
#        define INTQ_DETAIL_RVV_ROWS_(of) \
            of("0", "a0") of("1", "a1") of("2", "a2") of("3", "a3") of("4", "a4") of("5", "a5") of("6", "a6")
#        define INTQ_DETAIL_RVV_CHANNEL_(load, at)                                          \
            INTQ_DETAIL_RVV_PRODUCTS_(load, at, "0", "a0", "1", "a1", "2", "a2", "3", "a3") \
            load " t1, " at "(a4)\n" load " t2, " at "(a5)\n" load " t3, " at               \
                 "(a6)\n vwmacc.vx %4, t1, v2\n vwmacc.vx %5, t2, v2\n vwmacc.vx %6, t3, v2\n"
#        define INTQ_DETAIL_RVV_SPACED_ROWS_ INTQ_DETAIL_RVV_SEVEN_ROWS_
#        define INTQ_DETAIL_RVV_WIDTH_ "vsetivli zero, 16, e16, m2, ta, ma\n"
#        define INTQ_DETAIL_RVV_COPY_(r, p) "vmv4r.v %" r ", %0\n"
#    else
#        define INTQ_DETAIL_RVV_ROWS_(of)                                                                     \
            of("0", "a0") of("1", "a1") of("2", "a2") of("3", "a3") of("4", "a4") of("5", "a5") of("6", "a6") \
                of("7", "a7") of("8", "s2") of("9", "s3") of("10", "s4") of("11", "s5") of("12", "s6") of("13", "s7")
#        define INTQ_DETAIL_RVV_CHANNEL_(load, at)                                            \
            INTQ_DETAIL_RVV_PRODUCTS_(load, at, "0", "a0", "1", "a1", "2", "a2", "3", "a3")   \
            INTQ_DETAIL_RVV_PRODUCTS_(load, at, "4", "a4", "5", "a5", "6", "a6", "7", "a7")   \
            INTQ_DETAIL_RVV_PRODUCTS_(load, at, "8", "s2", "9", "s3", "10", "s4", "11", "s5") \
            load " t1, " at "(s6)\n" load " t2, " at "(s7)\n vwmacc.vx %12, t1, v2\n vwmacc.vx %13, t2, v2\n"
#        define INTQ_DETAIL_RVV_SPACED_ROWS_                                                              \
            INTQ_DETAIL_RVV_SEVEN_ROWS_                                                                   \
            "add a7, a6, %[apart]\n add s2, a7, %[apart]\n add s3, s2, %[apart]\n add s4, s3, %[apart]\n" \
            "add s5, s4, %[apart]\n add s6, s5, %[apart]\n add s7, s6, %[apart]\n"
#        if __riscv_v_fixed_vlen == 256
#            define INTQ_DETAIL_RVV_WIDTH_ "vsetivli zero, 16, e16, m1, ta, ma\n"
#            define INTQ_DETAIL_RVV_COPY_(r, p) "vmv2r.v %" r ", %0\n"
#        else
#            define INTQ_DETAIL_RVV_WIDTH_ "vsetivli zero, 16, e16, mf2, ta, ma\n"
#            define INTQ_DETAIL_RVV_COPY_(r, p) "vmv1r.v %" r ", %0\n"
#        endif
#    endif

#    define INTQ_DETAIL_RVV_BYTES_ "vle8.v v0, (t0)\n addi t0, t0, 16\n vsext.vf2 v2, v0\n"
#    define INTQ_DETAIL_RVV_HALVES_ "vle16.v v2, (t0)\n addi t0, t0, 32\n"
// What takes the places of eight codes of int8, or of int16.
#    define INTQ_DETAIL_RVV_EIGHT_BYTES_(of) of("0") of("1") of("2") of("3") of("4") of("5") of("6") of("7")
#    define INTQ_DETAIL_RVV_EIGHT_HALVES_(of) of("0") of("2") of("4") of("6") of("8") of("10") of("12") of("14")
#    define INTQ_DETAIL_RVV_NEXT_BYTE_(r, p) "addi " p ", " p ", 1\n"
#    define INTQ_DETAIL_RVV_NEXT_BYTES_(r, p) "addi " p ", " p ", 8\n"
#    define INTQ_DETAIL_RVV_NEXT_HALF_(r, p) "addi " p ", " p ", 2\n"
#    define INTQ_DETAIL_RVV_NEXT_HALVES_(r, p) "addi " p ", " p ", 16\n"
#    define INTQ_DETAIL_RVV_NEXT_TAP_(r, p) "add " p ", " p ", t1\n"

/// A statement that sets the operands, the sums of the rows, as TapWalk says.
///
/// @param begin  the text that finds the rows, of `at` and `distance`: a list, or the first one and the bytes between
/// two
/// @param eight  the text that adds eight channels of each row and moves on, and `one` that adds one
/// @param ...    the operands
#    define INTQ_DETAIL_RVV_LOOP_(taps, begin, at, distance, eight, one, ...) \
        asm(INTQ_DETAIL_RVV_WIDTH_                                                                                    \
            "ld t1, 0(%[walk])\n ld t0, 8(%[walk])\n ld t6, 16(%[walk])\n ld s8, 40(%[walk])\n"                       \
            "vle32.v %0, (t1)\n" INTQ_DETAIL_RVV_ROWS_(INTQ_DETAIL_RVV_COPY_) begin                                   \
            "beqz t6, 6f\n"                                                                                           \
            "1:\n"                                                                                                    \
            "ld t5, 24(%[walk])\n"                                                                                    \
            "beqz t5, 3f\n"                                                                                           \
            "2:\n" eight                                                                                              \
            "addi t5, t5, -1\n"                                                                                       \
            "bnez t5, 2b\n"                                                                                           \
            "3:\n"                                                                                                    \
            "ld t5, 32(%[walk])\n"                                                                                    \
            "beqz t5, 5f\n"                                                                                           \
            "4:\n" one                                                                                                \
            "addi t5, t5, -1\n"                                                                                       \
            "bnez t5, 4b\n"                                                                                           \
            "5:\n"                                                                                                    \
            "addi t6, t6, -1\n"                                                                                       \
            "beqz t6, 6f\n"                                                                                           \
            "addi s8, s8, -1\n"                                                                                       \
            "ld t1, 48(%[walk])\n ld t2, 56(%[walk])\n"                                                              \
            "bnez s8, 7f\n"                                                                                           \
            "ld t1, 64(%[walk])\n ld t2, 72(%[walk])\n ld s8, 40(%[walk])\n"                                         \
            "7:\n"                                                                                                    \
            "add t0, t0, t2\n" INTQ_DETAIL_RVV_ROWS_(INTQ_DETAIL_RVV_NEXT_TAP_)                                       \
            "j 1b\n"                                                                                                  \
            "6:\n"                                                                                                    \
            : __VA_ARGS__                                                                                             \
            : [walk] "r"(&taps), [x] "r"(at), [apart] "r"(distance)                                                   \
            : "memory", "vl", "vtype", "v0", "v1", "v2", "v3", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a0", "a1",  \
              "a2", "a3", "a4", "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8")

#endif  // INTQ_DETAIL_RVV_

#endif  // INTQ_SIMD_RISCV_RVV_LOOP_HPP
