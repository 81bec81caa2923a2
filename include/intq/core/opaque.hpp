// SPDX-License-Identifier: MIT
//
// opaque: a value that g++ for AArch64 may not look through, where it compiles a loop wrongly. Layer: core.
#ifndef INTQ_CORE_OPAQUE_HPP
#define INTQ_CORE_OPAQUE_HPP

#include "intq/core/config.hpp"

namespace intq {
inline namespace INTQ_ABI {

/// Returns its argument, an integer or a pointer, of which g++ for AArch64 knows nothing then.
///
/// Cost     no instruction; what the compiler would have known
template <class T> INTQ_ALWAYS_INLINE T opaque(T value) noexcept {
#if defined(__aarch64__) && !defined(__clang__)
    asm("" : "+r"(value));
#endif
    return value;
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_OPAQUE_HPP
