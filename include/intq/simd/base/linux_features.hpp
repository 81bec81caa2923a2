// SPDX-License-Identifier: MIT
//
// What Linux says of the CPU's instructions, on architectures whose programs may not ask the CPU. Layer: simd.
#ifndef INTQ_SIMD_BASE_LINUX_FEATURES_HPP
#define INTQ_SIMD_BASE_LINUX_FEATURES_HPP

#include "intq/core/abi.hpp"

#if defined(__linux__) && (defined(__aarch64__) || defined(__riscv))

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

/// getauxval() under a name that no declaration of a C library contradicts.
unsigned long auxiliary_value(unsigned long type) noexcept asm("getauxval");

/// The two words that name features.
inline constexpr unsigned long hwcap = 16, hwcap2 = 26;

INTQ_ALWAYS_INLINE bool linux_has(unsigned long word, int bit) noexcept {
    return (auxiliary_value(word) >> bit & 1) != 0;
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // __linux__ && (__aarch64__ || __riscv)

#endif  // INTQ_SIMD_BASE_LINUX_FEATURES_HPP
