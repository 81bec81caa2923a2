// SPDX-License-Identifier: MIT
//
// The two inline namespaces that keep differently built object files apart (docs/design.md section 11).
// Layer: core.
//
// INTQ_CORE_ABI carries the version. It holds the types and constants that pass between units: views, statuses, the
// records of a target, a program. Their member functions are always inlined and emit nothing, so that neither the
// instruction set nor the assert level of a unit is part of them, and the linker has no copy to choose from.
// INTQ_ABI adds the assert level, the instruction set, the default backend, INTQ_SMALL and INTQ_UNROLLED. Every
// function lives there, so that the linker never merges it with its namesake from another unit and never keeps AVX-512
// code for everyone. Types that only one backend has live there, too.
//
// An aggregate cannot declare its constructor, so nothing makes the implicit one inline: write `Window2d w{}`, not
// `Window2d w`. The braces initialize without a call.
#ifndef INTQ_CORE_ABI_HPP
#define INTQ_CORE_ABI_HPP

#include "intq/core/config.hpp"

#define INTQ_DETAIL_JOIN_(a, b) a##b
#define INTQ_DETAIL_JOIN(a, b) INTQ_DETAIL_JOIN_(a, b)
#define INTQ_DETAIL_VERSION_ \
    INTQ_DETAIL_JOIN(INTQ_DETAIL_JOIN(v, INTQ_VERSION_MAJOR), INTQ_DETAIL_JOIN(_, INTQ_VERSION_MINOR))
#define INTQ_DETAIL_ASSERT_ INTQ_DETAIL_JOIN(_assert, INTQ_ASSERT_LEVEL)

// --- the instruction set ---------------------------------------------------------------------------------------------
// The instructions that the compiler may emit in this unit: finer than the backends, because one backend's code also
// differs with and without, say, FMA. The level is one word, with the length of vectors where that is part of the code;
// words for further extensions follow it.
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)
#    if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#        define INTQ_DETAIL_LEVEL_ _avx512vnni
#    elif defined(__AVX512BW__)
#        define INTQ_DETAIL_LEVEL_ _avx512bw
#    elif defined(__AVX512F__)
#        define INTQ_DETAIL_LEVEL_ _avx512f
#    elif defined(__AVXVNNI__)
#        define INTQ_DETAIL_LEVEL_ _avxvnni
#    elif defined(__AVX2__)
#        define INTQ_DETAIL_LEVEL_ _avx2
#    elif defined(__AVX__)
#        define INTQ_DETAIL_LEVEL_ _avx
#    elif defined(__SSE4_2__)
#        define INTQ_DETAIL_LEVEL_ _sse42
#    elif defined(__SSE4_1__)
#        define INTQ_DETAIL_LEVEL_ _sse41
#    elif defined(__SSSE3__)
#        define INTQ_DETAIL_LEVEL_ _ssse3
#    endif
#elif defined(__aarch64__) || defined(__arm__)
#    if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS + 0 > 0
#        define INTQ_DETAIL_LEVEL_ INTQ_DETAIL_JOIN(_sve, __ARM_FEATURE_SVE_BITS)
#    elif defined(__ARM_FEATURE_SVE)
#        define INTQ_DETAIL_LEVEL_ _sve
#    elif defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE >= 2
#        define INTQ_DETAIL_LEVEL_ _mve_float
#    elif defined(__ARM_FEATURE_MVE)
#        define INTQ_DETAIL_LEVEL_ _mve
#    elif defined(__ARM_NEON)
#        define INTQ_DETAIL_LEVEL_ _neon
#    endif
#elif defined(__riscv)
#    if defined(__riscv_v_fixed_vlen)
#        define INTQ_DETAIL_LEVEL_ INTQ_DETAIL_JOIN(_rvv, __riscv_v_fixed_vlen)
#    elif defined(__riscv_vector)
#        define INTQ_DETAIL_LEVEL_ _rvv
#    endif
#elif defined(__wasm__)
#    if defined(__wasm_relaxed_simd__)
#        define INTQ_DETAIL_LEVEL_ _relaxed_simd128
#    elif defined(__wasm_simd128__)
#        define INTQ_DETAIL_LEVEL_ _simd128
#    endif
#endif
#ifndef INTQ_DETAIL_LEVEL_
#    define INTQ_DETAIL_LEVEL_ _baseline
#endif

// FMA changes what float sums compile to. Where the architecture always has it, it needs no word.
#if defined(__FMA__) || (defined(__arm__) && defined(__ARM_FEATURE_FMA))
#    define INTQ_DETAIL_FMA_ _fma
#else
#    define INTQ_DETAIL_FMA_
#endif

// Integer products: on x86 the VEX form beside AVX-512, on Arm products of four bytes.
#if defined(__AVXVNNI__) && defined(__AVX512F__)
#    define INTQ_DETAIL_PRODUCTS_ _avxvnni
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#    define INTQ_DETAIL_PRODUCTS_ _dotprod_i8mm
#elif defined(__ARM_FEATURE_DOTPROD)
#    define INTQ_DETAIL_PRODUCTS_ _dotprod
#elif defined(__arm__) && defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP + 0 > 0
#    define INTQ_DETAIL_PRODUCTS_ _dsp
#else
#    define INTQ_DETAIL_PRODUCTS_
#endif

// Extensions that compilers use unasked at one level, and a CPU of that level may lack.
#if defined(__AVX512FP16__)
#    define INTQ_DETAIL_MORE_ _bmi_vbmi_fp16
#elif defined(__AVX512VBMI__)
#    define INTQ_DETAIL_MORE_ _bmi_vbmi
#elif defined(__BMI2__)
#    define INTQ_DETAIL_MORE_ _bmi
#elif defined(__ARM_FEATURE_SVE2)
#    define INTQ_DETAIL_MORE_ _sve2
#elif defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
#    define INTQ_DETAIL_MORE_ _fp16
#elif defined(__arm__)
#    define INTQ_DETAIL_MORE_ INTQ_DETAIL_JOIN(_v, __ARM_ARCH)
#elif defined(__riscv_zbb)
#    define INTQ_DETAIL_MORE_ _zbb
#else
#    define INTQ_DETAIL_MORE_
#endif

#define INTQ_DETAIL_ISA_                                                     \
    INTQ_DETAIL_JOIN(INTQ_DETAIL_JOIN(INTQ_DETAIL_LEVEL_, INTQ_DETAIL_FMA_), \
                     INTQ_DETAIL_JOIN(INTQ_DETAIL_PRODUCTS_, INTQ_DETAIL_MORE_))

// --- what else there is ----------------------------------------------------------------------------------------------
// Which backend is the best one depends on xsimd, too, and on an emulated one.
#if INTQ_EMULATES_DSP && INTQ_EMULATES_HELIUM
#    define INTQ_DETAIL_EMULATES_ _dsp_helium
#elif INTQ_EMULATES_DSP
#    define INTQ_DETAIL_EMULATES_ _dsp
#elif INTQ_EMULATES_HELIUM
#    define INTQ_DETAIL_EMULATES_ _helium
#else
#    define INTQ_DETAIL_EMULATES_
#endif
#if INTQ_WITH_XSIMD
#    define INTQ_DETAIL_WITH_XSIMD_ INTQ_DETAIL_JOIN(_xsimd, INTQ_DETAIL_EMULATES_)
#else
#    define INTQ_DETAIL_WITH_XSIMD_ INTQ_DETAIL_EMULATES_
#endif

// The default backend of this unit: a tag of namespace intq::simd, or `native` for the best that the
// compiler's flags allow.
#ifndef INTQ_DEFAULT_BACKEND
#    define INTQ_DEFAULT_BACKEND native
#endif

#if INTQ_SMALL
#    define INTQ_DETAIL_SMALL_ _small
#else
#    define INTQ_DETAIL_SMALL_
#endif
#if INTQ_UNROLLED
#    define INTQ_DETAIL_UNROLLED_ _unrolled
#else
#    define INTQ_DETAIL_UNROLLED_
#endif
#define INTQ_DETAIL_UNIT_                                                         \
    INTQ_DETAIL_JOIN(INTQ_DETAIL_JOIN(INTQ_DETAIL_VERSION_, INTQ_DETAIL_ASSERT_), \
                     INTQ_DETAIL_JOIN(INTQ_DETAIL_SMALL_, INTQ_DETAIL_UNROLLED_))
#define INTQ_ABI                                                                                  \
    INTQ_DETAIL_JOIN(INTQ_DETAIL_UNIT_,                                                           \
                     INTQ_DETAIL_JOIN(INTQ_DETAIL_ISA_, INTQ_DETAIL_JOIN(INTQ_DETAIL_WITH_XSIMD_, \
                                                                         INTQ_DETAIL_JOIN(_, INTQ_DEFAULT_BACKEND))))

// The hosted half, and core beside it. The compiled form serves units of any flags, so its names contain none of them.
#if INTQ_COMPILED
#    define INTQ_HOSTED_ABI INTQ_DETAIL_JOIN(INTQ_DETAIL_VERSION_, _compiled)
#    define INTQ_CORE_ABI INTQ_DETAIL_JOIN(core_, INTQ_DETAIL_JOIN(INTQ_DETAIL_VERSION_, _compiled))
#else
#    define INTQ_HOSTED_ABI INTQ_ABI
#    define INTQ_CORE_ABI INTQ_DETAIL_JOIN(core_, INTQ_DETAIL_VERSION_)
#endif

#endif  // INTQ_CORE_ABI_HPP
