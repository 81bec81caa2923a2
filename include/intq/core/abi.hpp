// SPDX-License-Identifier: MIT
//
// The two inline namespaces that keep differently built object files apart (DESIGN section 11).
// Layer: core.
//
// INTQ_CORE_ABI carries the version. Types and constants live there that pass between units: views, statuses, the
// records of a target, a program. Their member functions are always inlined and emit nothing, so that neither the
// instruction set nor the assert level of a unit is part of them, and the linker has no copy to choose from.
// INTQ_ABI adds the assert level, the instruction set and the default backend. Every function lives there, so that the
// linker never merges it with its namesake from another unit and never keeps AVX-512 code for everyone; with the
// functions live the types that only one backend has.
//
// An aggregate cannot declare its constructor, so that nothing makes the implicit one inline: write `Window2d w{}`, not
// `Window2d w`. The braces initialize without a call.
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

#define INTQ_ABI                                                               \
    INTQ_DETAIL_JOIN(                                                          \
        INTQ_DETAIL_JOIN(INTQ_DETAIL_VERSION_, INTQ_DETAIL_ASSERT_),           \
        INTQ_DETAIL_JOIN(INTQ_DETAIL_JOIN(INTQ_DETAIL_ISA_, INTQ_DETAIL_FMA_), \
                         INTQ_DETAIL_JOIN(INTQ_DETAIL_WITH_XSIMD_, INTQ_DETAIL_JOIN(_, INTQ_DEFAULT_BACKEND))))

// The hosted half, and core beside it. The compiled form serves units of any flags, so that nothing of those stands in
// its names.
#if INTQ_COMPILED
#    define INTQ_HOSTED_ABI INTQ_DETAIL_JOIN(INTQ_DETAIL_VERSION_, _compiled)
#    define INTQ_CORE_ABI INTQ_DETAIL_JOIN(core_, INTQ_DETAIL_JOIN(INTQ_DETAIL_VERSION_, _compiled))
#else
#    define INTQ_HOSTED_ABI INTQ_ABI
#    define INTQ_CORE_ABI INTQ_DETAIL_JOIN(core_, INTQ_DETAIL_VERSION_)
#endif

#endif  // INTQ_CORE_ABI_HPP
