// SPDX-License-Identifier: MIT
//
// Version and build switches of intq. Every switch is always defined to a value.
// Layer: core (DESIGN section 2).
#ifndef INTQ_CORE_CONFIG_HPP
#define INTQ_CORE_CONFIG_HPP

// The version stands here only; CMake reads it.
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

// Stands before every function of the hosted half that is defined outside its class, also where a class declares it
// virtual: a virtual function that is not inline at the end of its class makes every unit emit the vtable and all that
// hangs on it.
#define INTQ_INLINE inline

#if defined(__GNUC__) || defined(__clang__)
#    define INTQ_ALWAYS_INLINE inline __attribute__((always_inline))
#    define INTQ_ALWAYS_INLINE_LAMBDA __attribute__((always_inline))
#    define INTQ_NEVER_INLINE __attribute__((noinline))
#    define INTQ_RESTRICT __restrict__
#else
#    define INTQ_ALWAYS_INLINE inline
#    define INTQ_ALWAYS_INLINE_LAMBDA
#    define INTQ_NEVER_INLINE
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

#endif  // INTQ_CORE_CONFIG_HPP
