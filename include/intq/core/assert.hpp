// SPDX-License-Identifier: MIT
//
// INTQ_ASSERT: preconditions of functions that run, checked at assert level 1 and 2 (DESIGN section 7).
// Layer: core.
#ifndef INTQ_CORE_ASSERT_HPP
#define INTQ_CORE_ASSERT_HPP

#include "intq/core/abi.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Receives a broken precondition. May not return at level 1; may throw at level 2.
using AssertHandler = void (*)(const char* condition, const char* file, int line);

namespace detail {

inline void trap_on_failed_assert(const char*, const char*, int) { __builtin_trap(); }

inline AssertHandler assert_handler = &trap_on_failed_assert;

}  // namespace detail

/// Installs a handler for failed preconditions and returns the former one. Not thread-safe: call it at start.
inline AssertHandler set_assert_handler(AssertHandler handler) noexcept {
    AssertHandler former = detail::assert_handler;
    detail::assert_handler = handler != nullptr ? handler : &detail::trap_on_failed_assert;
    return former;
}

}  // namespace INTQ_CORE_ABI
}  // namespace intq

#if INTQ_ASSERT_LEVEL > 0
#    define INTQ_ASSERT(condition) \
        ((condition) ? static_cast<void>(0) : ::intq::detail::assert_handler(#condition, __FILE__, __LINE__))
#else
#    define INTQ_ASSERT(condition) static_cast<void>(0)
#endif

/// noexcept, except at the assert level at which a handler may throw.
#define INTQ_NOEXCEPT noexcept(INTQ_ASSERT_LEVEL < 2)

#endif  // INTQ_CORE_ASSERT_HPP
