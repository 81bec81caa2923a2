// SPDX-License-Identifier: MIT
//
// Quotients of extents. Layer: core.
#ifndef INTQ_CORE_QUOTIENT_HPP
#define INTQ_CORE_QUOTIENT_HPP

#include "intq/core/abi.hpp"
#include "intq/core/dtype.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {
namespace detail {

/// floor(a / b), bit by bit.
INTQ_OUT_OF_LINE constexpr index_t long_division(index_t a, index_t b) noexcept {
    index_t part = b, bit = 1, sum = 0;
    for (; part <= a - part; part += part) bit += bit;
    for (; bit > 0; part >>= 1, bit >>= 1)
        if (part <= a) {
            a -= part;
            sum += bit;
        }
    return sum;
}

}  // namespace detail

/// floor(a / b) of extents and indices. A core without an instruction that divides gets a short loop: the compiler's
/// function would be most of what a small model takes of the compiler's library.
///
/// @pre a >= 0, b > 0
INTQ_ALWAYS_INLINE constexpr index_t quotient(index_t a, index_t b) noexcept {
#if defined(__ARM_ARCH_6M__)
    if (!__builtin_constant_p(b) || (b & (b - 1)) != 0) return detail::long_division(a, b);
#endif
    return a / b;
}

/// ceil(a / b). @pre a >= 0, b > 0
INTQ_ALWAYS_INLINE constexpr index_t quotient_up(index_t a, index_t b) noexcept { return quotient(a + b - 1, b); }

}  // namespace INTQ_CORE_ABI
}  // namespace intq

#endif  // INTQ_CORE_QUOTIENT_HPP
