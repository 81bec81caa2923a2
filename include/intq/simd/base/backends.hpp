// SPDX-License-Identifier: MIT
//
// The table of backends, best first: all data of a backend outside its file and its tag. Layer: simd.
//
// A row is X(tag, type, architecture, word, flags, guard, cpu, int8, int16, float32):
//
//     tag           its name; the struct in simd/base/tags.hpp
//     type          the same, as C++ spells it inside namespace intq::simd
//     architecture  x86, aarch64, arm (of 32 bits), riscv, wasm; any
//     word          of its level in INTQ_ABI (core/abi.hpp); none where it has no separate level
//     flags         of the compiler for its level
//     guard         the macros that its file asks for, all of them; alternatives are divided by |
//     cpu           features that the level's code needs when it runs, as simd/base/cpu.hpp knows them
//     int8 … float32  the loop of bench/support/peaks.cpp that its K loop is judged by; alternatives are divided by |,
//                   and the first that the CPU executes counts
//
// C++ reads it here, CMake in cmake/IntqBackends.cmake, which needs strings in quotes and rows that begin with X(.
#ifndef INTQ_SIMD_BASE_BACKENDS_HPP
#define INTQ_SIMD_BASE_BACKENDS_HPP

#include "intq/core/abi.hpp"

// clang-format off
#define INTQ_BACKENDS(X)                                                                                               \
    X(avx512vnni, avx512vnni, x86, avx512vnni,                                                                         \
      "-mavx2 -mfma -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl -mavx512vnni",                               \
      __AVX512VNNI__ __AVX512F__ __AVX512BW__ __AVX512DQ__ __AVX512VL__ __x86_64__,                                    \
      "avx2 fma avx512f avx512cd avx512bw avx512dq avx512vl avx512vnni",                                               \
      "vpdpbusd zmm", "vpdpwssd zmm", "vfmadd231ps zmm")                                                               \
    X(avx512bw, avx512bw, x86, avx512bw,                                                                               \
      "-mavx2 -mfma -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl",                                            \
      __AVX512F__ __AVX512BW__ __AVX512DQ__ __AVX512VL__ __x86_64__,                                                   \
      "avx2 fma avx512f avx512cd avx512bw avx512dq avx512vl",                                                          \
      "vpmaddwd+vpaddd zmm", "vpmaddwd+vpaddd zmm", "vfmadd231ps zmm")                                                 \
    X(avxvnni, avxvnni, x86, avxvnni, "-mavx2 -mfma -mavxvnni",                                                        \
      __AVXVNNI__ __AVX2__ __x86_64__ | __AVX512VNNI__ __AVX512VL__ __AVX2__ __x86_64__,                               \
      "avx2 fma avxvnni",                                                                                              \
      "vpdpbusd ymm (VEX)|vpdpbusd ymm", "vpdpwssd ymm (VEX)|vpdpwssd ymm", "vfmadd231ps ymm")                         \
    X(avx2, avx2, x86, avx2, "-mavx2 -mfma", __AVX2__ __x86_64__, "avx2 fma",                                          \
      "vpmaddwd+vpaddd ymm", "vpmaddwd+vpaddd ymm", "vfmadd231ps ymm")                                                 \
    X(sse41, sse41, x86, sse41, "-msse4.1", __SSE4_1__ __x86_64__, "sse4.1",                                           \
      "pmaddwd+paddd xmm", "pmaddwd+paddd xmm", "mulps+addps xmm")                                                     \
    X(i8mm, i8mm, aarch64, neon_dotprod_i8mm, "-march=armv8.2-a+dotprod+i8mm",                                         \
      __ARM_FEATURE_MATMUL_INT8 __ARM_FEATURE_DOTPROD __ARM_NEON __AARCH64EL__, "asimd asimddp i8mm",                  \
      "smmla", "smlal", "fmla")                                                                                        \
    X(dotprod, dotprod, aarch64, neon_dotprod, "-march=armv8.2-a+dotprod",                                             \
      __ARM_FEATURE_DOTPROD __ARM_NEON __AARCH64EL__, "asimd asimddp", "sdot", "smlal", "fmla")                        \
    X(neon, neon, aarch64, neon, "-march=armv8-a", __ARM_NEON __AARCH64EL__, "asimd", "smlal", "smlal", "fmla")        \
    X(rvv512, rvv512, riscv, rvv512, "-march=rv64gcv_zvl512b -mabi=lp64d -mrvv-vector-bits=zvl",                       \
      INTQ_DETAIL_RVV512_, "v vlen512", "vwmacc m1", "vwmacc m1", "vfmacc m1")                                         \
    X(rvv256, rvv256, riscv, rvv256, "-march=rv64gcv_zvl256b -mabi=lp64d -mrvv-vector-bits=zvl",                       \
      INTQ_DETAIL_RVV256_, "v vlen256", "vwmacc m2", "vwmacc m2", "vfmacc m2")                                         \
    X(rvv128, rvv128, riscv, rvv128, "-march=rv64gcv_zvl128b -mabi=lp64d -mrvv-vector-bits=zvl",                       \
      INTQ_DETAIL_RVV128_, "v vlen128", "vwmacc m4", "vwmacc m4", "vfmacc m4")                                         \
    X(wasm, wasm, wasm, simd128, "-msimd128", __wasm_simd128__, "", "", "", "")                                        \
    X(helium, helium, arm, none, "", INTQ_DETAIL_HELIUM_, "", "", "", "")                                              \
    X(dsp, dsp, arm, none, "", INTQ_DETAIL_DSP_, "", "", "", "")                                                       \
    X(xsimd, xsimd<>, any, none, "", INTQ_DETAIL_XSIMD_, "", "", "", "")                                               \
    X(scalar, scalar, any, baseline, "", , "", "", "", "")
// clang-format on

namespace intq::simd {
inline namespace INTQ_ABI {

/// A row of the table as strings, without its guard, which depends on the unit.
struct BackendRow {
    const char* name;
    const char* architecture;
    const char* word;
    const char* flags;
    const char* cpu;
    const char* int8_peak;
    const char* int16_peak;
    const char* float32_peak;
};

#define INTQ_DETAIL_ROW(tag, type, architecture, word, flags, guard, cpu, int8, int16, float32) \
    {#tag, #architecture, #word, flags, cpu, int8, int16, float32},

inline constexpr BackendRow backend_rows[] = {INTQ_BACKENDS(INTQ_DETAIL_ROW)};

#undef INTQ_DETAIL_ROW

namespace detail {

constexpr bool is_same_name(const char* a, const char* b) noexcept {
    for (; *a != '\0' && *a == *b; ++a, ++b) {
    }
    return *a == *b;
}

}  // namespace detail

/// The row of a name; null for one that the table does not have.
constexpr const BackendRow* find_backend(const char* name) noexcept {
    for (const BackendRow& row : backend_rows)
        if (detail::is_same_name(row.name, name)) return &row;
    return nullptr;
}

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_BASE_BACKENDS_HPP
