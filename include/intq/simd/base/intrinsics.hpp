// SPDX-License-Identifier: MIT
//
// The intrinsics of x86, without the warnings of g++ 12 about them. Layer: simd.
//
// Its AVX-512 intrinsics begin with uninitialized registers, and it warns of them where they are inlined.
#ifndef INTQ_SIMD_BASE_INTRINSICS_HPP
#define INTQ_SIMD_BASE_INTRINSICS_HPP

#if defined(__x86_64__) || defined(__i386__)
#    if defined(__GNUC__) && !defined(__clang__)
#        pragma GCC diagnostic push
#        pragma GCC diagnostic ignored "-Wuninitialized"
#        pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#    endif
#    include <immintrin.h>
#    if defined(__GNUC__) && !defined(__clang__)
#        pragma GCC diagnostic pop
#    endif
#endif

#endif  // INTQ_SIMD_BASE_INTRINSICS_HPP
