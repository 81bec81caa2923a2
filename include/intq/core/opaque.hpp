// SPDX-License-Identifier: MIT
//
// opaque: a value that g++ may not look through, where it compiles a loop wrongly otherwise. Layer: core.
#ifndef INTQ_CORE_OPAQUE_HPP
#define INTQ_CORE_OPAQUE_HPP

#include "intq/core/config.hpp"

namespace intq {
inline namespace INTQ_ABI {

/// Returns its argument, an integer or a pointer, of which g++ knows nothing then.
///
/// Cost     no instruction; what the compiler would have known
template <class T> INTQ_ALWAYS_INLINE T opaque(T value) noexcept {
#if defined(__GNUC__) && !defined(__clang__)
    asm("" : "+r"(value));
#endif
    return value;
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_OPAQUE_HPP
