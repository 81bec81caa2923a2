// SPDX-License-Identifier: MIT
//
// Whether this CPU executes a backend's instructions, asked when the program runs. Layer: simd.
#ifndef INTQ_SIMD_BASE_CPU_HPP
#define INTQ_SIMD_BASE_CPU_HPP

#include <type_traits>

#include "intq/simd/base/tags.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

template <class Backend> bool cpu_runs() noexcept {
    if constexpr (std::is_same_v<Backend, scalar>) return true;
#if defined(__x86_64__) || defined(__i386__)
    if constexpr (std::is_same_v<Backend, sse41>) return __builtin_cpu_supports("sse4.1");
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if constexpr (std::is_same_v<Backend, avx2>) return has_avx2;
    const bool has_bw = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if constexpr (std::is_same_v<Backend, avx512bw>) return has_bw;
    if constexpr (std::is_same_v<Backend, avx512vnni>) return has_bw && __builtin_cpu_supports("avx512vnni");
#endif
    return false;
}

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_BASE_CPU_HPP
