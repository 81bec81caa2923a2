// SPDX-License-Identifier: MIT
//
// The two inline namespaces that keep differently built object files apart (DESIGN section 11).
// Layer: core.
//
// INTQ_CORE_ABI carries version and assert level; views and statuses live there and pass between units that
// were built for different instruction sets. INTQ_ABI adds the instruction set and the default backend; all
// from arith on lives there, so that the linker never merges a kernel with its namesake from another unit.
#ifndef INTQ_CORE_ABI_HPP
#define INTQ_CORE_ABI_HPP

#include "intq/core/config.hpp"

#define INTQ_DETAIL_JOIN_(a, b) a##b
#define INTQ_DETAIL_JOIN(a, b) INTQ_DETAIL_JOIN_(a, b)
#define INTQ_DETAIL_VERSION_ \
    INTQ_DETAIL_JOIN(INTQ_DETAIL_JOIN(v, INTQ_VERSION_MAJOR), INTQ_DETAIL_JOIN(_, INTQ_VERSION_MINOR))
#define INTQ_DETAIL_ASSERT_ INTQ_DETAIL_JOIN(_assert, INTQ_ASSERT_LEVEL)

// What the compiler may emit in this unit; finer than the backends, because one backend's code compiled with
// and without, say, FMA differs too.
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#    define INTQ_DETAIL_ISA_ _avx512vnni
#elif defined(__AVX512BW__)
#    define INTQ_DETAIL_ISA_ _avx512bw
#elif defined(__AVXVNNI__)
#    define INTQ_DETAIL_ISA_ _avxvnni
#elif defined(__AVX2__)
#    define INTQ_DETAIL_ISA_ _avx2
#elif defined(__SSE4_1__)
#    define INTQ_DETAIL_ISA_ _sse41
#else
#    define INTQ_DETAIL_ISA_ _baseline
#endif

// FMA changes what float sums compile to, xsimd which backend is the best one.
#if defined(__FMA__)
#    define INTQ_DETAIL_FMA_ _fma
#else
#    define INTQ_DETAIL_FMA_
#endif
#if INTQ_WITH_XSIMD
#    define INTQ_DETAIL_WITH_XSIMD_ _xsimd
#else
#    define INTQ_DETAIL_WITH_XSIMD_
#endif

// The default backend of this unit: a tag of namespace intq::simd, or `native` for the best that the
// compiler's flags allow.
#ifndef INTQ_DEFAULT_BACKEND
#    define INTQ_DEFAULT_BACKEND native
#endif

#define INTQ_CORE_ABI INTQ_DETAIL_JOIN(core_, INTQ_DETAIL_JOIN(INTQ_DETAIL_VERSION_, INTQ_DETAIL_ASSERT_))
#define INTQ_ABI                                                               \
    INTQ_DETAIL_JOIN(                                                          \
        INTQ_DETAIL_JOIN(INTQ_DETAIL_VERSION_, INTQ_DETAIL_ASSERT_),           \
        INTQ_DETAIL_JOIN(INTQ_DETAIL_JOIN(INTQ_DETAIL_ISA_, INTQ_DETAIL_FMA_), \
                         INTQ_DETAIL_JOIN(INTQ_DETAIL_WITH_XSIMD_, INTQ_DETAIL_JOIN(_, INTQ_DEFAULT_BACKEND))))

// The hosted half. Its compiled form serves units of any flags, so that nothing of those stands in its names.
#if INTQ_COMPILED
#    define INTQ_HOSTED_ABI INTQ_DETAIL_JOIN(INTQ_DETAIL_VERSION_, _compiled)
#else
#    define INTQ_HOSTED_ABI INTQ_ABI
#endif

#endif  // INTQ_CORE_ABI_HPP
