// SPDX-License-Identifier: MIT
//
// Whether the machine has vectors of the length that a unit was compiled for. Layer: simd (docs/scalable_vectors.md).
#ifndef INTQ_SIMD_BASE_VECTOR_LENGTH_HPP
#define INTQ_SIMD_BASE_VECTOR_LENGTH_HPP

#include "intq/core/status.hpp"
#include "intq/simd/base/linux_features.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {
namespace detail {

#if defined(__riscv)
/// The letter in the word of features.
inline constexpr int riscv_v_bit = 'v' - 'a';

/// Bits of a vector register. The machine is asked: to the compiler, the length would be that of the unit's flags.
/// @pre the machine has vectors
INTQ_ALWAYS_INLINE index_t riscv_vector_bits() noexcept {
    unsigned long bytes = 0;
    asm volatile("csrr %0, 0xc22" : "=r"(bytes));  // vlenb, by its number: the flags of the unit may lack vectors
    return static_cast<index_t>(8 * bytes);
}
#endif

}  // namespace detail

/// Whether the machine has vectors of the unit's length. A program whose flags fix one calls it before any other code
/// of the unit: compilers copy structs and run loops in vectors of that length. Other flags need no check.
///
///     int main() {
///         if (const intq::Status status = intq::simd::check_vector_length(); !status) return 1;
///
/// @pre   the machine has vectors, or Linux says that it has none
/// @return ok; unsupported with the bits of the machine's vectors, 0 without, and of the unit's
INTQ_ALWAYS_INLINE Status check_vector_length() noexcept {
#if defined(__riscv_v_fixed_vlen)
    index_t bits = 0;
#    if defined(__linux__)
    if (detail::linux_has(detail::hwcap, detail::riscv_v_bit))
#    endif
        bits = detail::riscv_vector_bits();
    if (bits != __riscv_v_fixed_vlen)
        return {StatusCode::unsupported, OpKind::none, Field::none, bits, __riscv_v_fixed_vlen};
#endif
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_BASE_VECTOR_LENGTH_HPP
