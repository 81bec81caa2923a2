// SPDX-License-Identifier: MIT
//
// Version and build switches of intq. Every switch is always defined to a value.
// Layer: core (docs/design.md section 2).
#ifndef INTQ_CORE_CONFIG_HPP
#define INTQ_CORE_CONFIG_HPP

// The library is C++20. A compiler that is set to an older standard says so and stops: the file included below does not
// exist. Nothing else ends a unit before its includes cause hundreds of errors.
#if __cplusplus <= 201703L
#    error "intq needs C++20: compile with -std=c++20"
#    include <intq_needs_cpp20>
#endif

// The version is defined only here; CMake reads it.
#define INTQ_VERSION_MAJOR 0
#define INTQ_VERSION_MINOR 1
#define INTQ_VERSION_PATCH 0

// 0: preconditions are not checked. 1: checked, failure ends the program. 2: as 1, and functions that
// assert are not noexcept, so that a test can install a handler that throws.
#ifndef INTQ_ASSERT_LEVEL
#    ifdef NDEBUG
#        define INTQ_ASSERT_LEVEL 0
#    else
#        define INTQ_ASSERT_LEVEL 1
#    endif
#endif

// 1 makes the backend template simd::xsimd<Arch> available. CMake sets it where xsimd is found.
#ifndef INTQ_WITH_XSIMD
#    define INTQ_WITH_XSIMD 0
#endif

// 1 makes the backend simd::dsp available on any machine, with its instructions in C++: for tests, and for hosts that
// prepare a model for a board.
#ifndef INTQ_EMULATES_DSP
#    define INTQ_EMULATES_DSP 0
#endif

// The same of simd::helium.
#ifndef INTQ_EMULATES_HELIUM
#    define INTQ_EMULATES_HELIUM 0
#endif

// INTQ_SMALL is 1 where code is to be small rather than fast (-Os, -Oz): kernels then have no special paths for common
// shapes. Results are the same.
#ifndef INTQ_SMALL
#    if defined(__OPTIMIZE_SIZE__)
#        define INTQ_SMALL 1
#    else
#        define INTQ_SMALL 0
#    endif
#endif

// INTQ_UNROLLED 1 compiles separate code for the shapes of each layer of a generated model: faster and larger.
// Otherwise layers share the inner parts of kernels (docs/to_a_microcontroller.md). Results are the same.
#ifndef INTQ_UNROLLED
#    define INTQ_UNROLLED 0
#endif

// INTQ_CALL_UNOPTIMISED 1 lets units without optimisation call the functions of kernels, so that they compile in half
// to two thirds of the time. Units built with other flags would share these functions, and may not be linked with them.
#ifndef INTQ_CALL_UNOPTIMISED
#    define INTQ_CALL_UNOPTIMISED 0
#endif

// 0 for a program that reads no ONNX files, and so needs no protozero. CMake sets it to 1 where protozero is found.
#ifndef INTQ_WITH_PROTOZERO
#    define INTQ_WITH_PROTOZERO 1
#endif

// --- the compiled form (docs/design.md section 13) -------------------------------------------------------------------
// 0: header-only; every header holds its definitions. 1: the headers of the hosted half show declarations only, because
// their definitions are compiled once, into the library intq::compiled or by the one source file that includes
// intq/compiled.hpp. All units of a program agree on it.
#ifndef INTQ_COMPILED
#    define INTQ_COMPILED 0
#endif

// INTQ_DEFINES(room) is 1 where this unit holds the definitions of a room's headers: always when header-only; in the
// compiled form in the unit that defines INTQ_DEFINES_<room>, such as INTQ_DEFINES_quantization_prepare, as INTQ_YES,
// or INTQ_DEFINES_ALL as 1. A room is a folder below include/intq, its path joined by underscores.
//
// INTQ_INLINE precedes every function of the hosted half that is defined outside its class. That includes virtual ones:
// a virtual function that is not inline at the end of its class makes every unit emit the vtable and all that it refers
// to.
#if INTQ_COMPILED
#    ifndef INTQ_DEFINES_ALL
#        define INTQ_DEFINES_ALL 0
#    endif
// An undefined INTQ_DEFINES_<room> is dropped before #if reads the rest, so -Wundef does not warn.
#    define INTQ_YES ~, 1
#    define INTQ_DETAIL_SECOND(first, second, ...) second
#    define INTQ_DETAIL_IS_YES(...) INTQ_DETAIL_SECOND(__VA_ARGS__)
#    define INTQ_DEFINES(room) (INTQ_DEFINES_ALL || INTQ_DETAIL_IS_YES(INTQ_DEFINES_##room, 0, 0))
#    define INTQ_INLINE
#else
#    define INTQ_DEFINES(room) 1
#    define INTQ_INLINE inline
#endif

// ----------------------------------------------------------------------------------------------------------------------

// INTQ_NEVER_INLINE is for code that layers share, INTQ_OUT_OF_LINE for a loop that needs the registers to itself.
#if (defined(__GNUC__) || defined(__clang__)) && (!INTQ_CALL_UNOPTIMISED || defined(__OPTIMIZE__))
#    define INTQ_ALWAYS_INLINE inline __attribute__((always_inline))
#    define INTQ_ALWAYS_INLINE_LAMBDA __attribute__((always_inline))
#    if INTQ_UNROLLED
#        define INTQ_NEVER_INLINE
#    else
#        define INTQ_NEVER_INLINE __attribute__((noinline))
#    endif
#    define INTQ_OUT_OF_LINE __attribute__((noinline))
#    define INTQ_FLATTEN __attribute__((flatten))
#    define INTQ_COLD __attribute__((cold))
#else
#    define INTQ_ALWAYS_INLINE inline
#    define INTQ_ALWAYS_INLINE_LAMBDA
#    define INTQ_NEVER_INLINE
#    define INTQ_OUT_OF_LINE
#    define INTQ_FLATTEN
#    define INTQ_COLD
#endif

#if defined(__GNUC__) || defined(__clang__)
#    define INTQ_RESTRICT __restrict__
#else
#    define INTQ_RESTRICT
#endif

// Before a loop of constant bounds over registers: every index is then a constant. One body to compile until the
// optimiser unrolls it, where a function for each index takes several times as long.
#if defined(__clang__)
#    define INTQ_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#    define INTQ_UNROLL _Pragma("GCC unroll 64")
#else
#    define INTQ_UNROLL
#endif

// Before a loop of a few steps: where their number is known when a generated model compiles, nothing of it remains,
// even at -Os. Clang does so by itself.
#if defined(__GNUC__) && !defined(__clang__)
#    define INTQ_UNROLL_KNOWN _Pragma("GCC unroll 8")
#else
#    define INTQ_UNROLL_KNOWN
#endif

// In the body of a loop that g++ must not vectorize, because g++ 12 does so wrongly at -O3. It costs no instruction.
#if defined(__GNUC__) && !defined(__clang__)
#    define INTQ_KEEP_LOOP asm volatile("")
#else
#    define INTQ_KEEP_LOOP static_cast<void>(0)
#endif

#endif  // INTQ_CORE_CONFIG_HPP
