// SPDX-License-Identifier: MIT
//
// Registers of RISC-V vectors whose length the compiler is told, and the backend of that length. Layer: simd
// (docs/design.md sections 5, 11; docs/scalable_vectors.md).
//
// Sixteen lanes of 32 bits fill four registers, two or one. So every type has the same elements at each length, and
// the same code is compiled for all of them.
#ifndef INTQ_SIMD_RISCV_RVV_REGISTERS_HPP
#define INTQ_SIMD_RISCV_RVV_REGISTERS_HPP

#include "intq/core/abi.hpp"

#if defined(__riscv_v) && defined(__riscv_v_fixed_vlen) && __riscv_xlen == 64
#    if __riscv_v_fixed_vlen == 128
#        define INTQ_DETAIL_RVV128_ 1
#        define INTQ_DETAIL_RVV_ rvv128
#    elif __riscv_v_fixed_vlen == 256
#        define INTQ_DETAIL_RVV256_ 1
#        define INTQ_DETAIL_RVV_ rvv256
#    elif __riscv_v_fixed_vlen == 512
#        define INTQ_DETAIL_RVV512_ 1
#        define INTQ_DETAIL_RVV_ rvv512
#    endif
#endif

#ifdef INTQ_DETAIL_RVV_

#    include <riscv_vector.h>

// The registers of sixteen elements of 8, 16, 32 and 64 bits, as they end the name of an intrinsic.
#    if __riscv_v_fixed_vlen == 128
#        define INTQ_DETAIL_LMUL_8_ m1
#        define INTQ_DETAIL_LMUL_16_ m2
#        define INTQ_DETAIL_LMUL_32_ m4
#        define INTQ_DETAIL_LMUL_64_ m8
#    elif __riscv_v_fixed_vlen == 256
#        define INTQ_DETAIL_LMUL_8_ mf2
#        define INTQ_DETAIL_LMUL_16_ m1
#        define INTQ_DETAIL_LMUL_32_ m2
#        define INTQ_DETAIL_LMUL_64_ m4
#    else
#        define INTQ_DETAIL_LMUL_8_ mf4
#        define INTQ_DETAIL_LMUL_16_ mf2
#        define INTQ_DETAIL_LMUL_32_ m1
#        define INTQ_DETAIL_LMUL_64_ m2
#    endif
/// The name of an intrinsic on sixteen elements of so many bits, or on as many registers as those fill.
#    define INTQ_DETAIL_RVV_OF_(name, bits) INTQ_DETAIL_JOIN(name, INTQ_DETAIL_JOIN(INTQ_DETAIL_LMUL_, bits##_))
/// The type that such intrinsics take and return.
#    define INTQ_DETAIL_RVV_TYPE_(name, bits) INTQ_DETAIL_JOIN(INTQ_DETAIL_RVV_OF_(name, bits), _t)

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

/// Vectors with a size: members and array elements like any other type, which the intrinsics take.
using RvvWords = INTQ_DETAIL_RVV_TYPE_(vint32, 32) __attribute__((riscv_rvv_vector_bits(512)));
using RvvFloats = INTQ_DETAIL_RVV_TYPE_(vfloat32, 32) __attribute__((riscv_rvv_vector_bits(512)));
using RvvLongs = INTQ_DETAIL_RVV_TYPE_(vint64, 64) __attribute__((riscv_rvv_vector_bits(1024)));
using RvvHalves = INTQ_DETAIL_RVV_TYPE_(vint16, 16) __attribute__((riscv_rvv_vector_bits(256)));
/// Codes that fill as many registers as lanes do: 64 of int8, 32 of int16.
using RvvBytes64 = INTQ_DETAIL_RVV_TYPE_(vint8, 32) __attribute__((riscv_rvv_vector_bits(512)));
using RvvHalves32 = INTQ_DETAIL_RVV_TYPE_(vint16, 32) __attribute__((riscv_rvv_vector_bits(512)));

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_DETAIL_RVV_

#endif  // INTQ_SIMD_RISCV_RVV_REGISTERS_HPP
