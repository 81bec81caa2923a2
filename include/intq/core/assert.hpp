// SPDX-License-Identifier: MIT
//
// INTQ_ASSERT: preconditions of functions that run, checked at assert level 1 and 2 (docs/design.md section 7).
// Layer: core.
#ifndef INTQ_CORE_ASSERT_HPP
#define INTQ_CORE_ASSERT_HPP

#include "intq/core/abi.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Receives a broken precondition. May not return at level 1; may throw at level 2.
using AssertHandler = void (*)(const char* condition, const char* file, int line);

namespace detail {

/// One for the whole program, whatever its units were built for. Null: a failure prints, where that is possible, and
/// traps.
inline AssertHandler assert_handler = nullptr;

#if defined(__linux__)
/// The C library's dprintf, or null in a program without it. No header is included, and no symbol required, for it.
__attribute__((weakref("dprintf"))) static int print_to(int file, const char* format, ...) noexcept;
#endif

}  // namespace detail

}  // namespace INTQ_CORE_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_ABI {

/// Installs a handler for failed preconditions and returns the former one; null means the standard one in both. That
/// prints condition, file and line to the standard error, where Linux and the C library are available, and traps. Not
/// thread-safe: call it at start.
inline AssertHandler set_assert_handler(AssertHandler handler) noexcept {
    AssertHandler former = detail::assert_handler;
    detail::assert_handler = handler;
    return former;
}

/// Called by a failed INTQ_ASSERT.
inline void fail_assert(const char* condition, const char* file, int line) {
    if (detail::assert_handler == nullptr) {
#if defined(__linux__)
        if (detail::print_to != nullptr)
            detail::print_to(2, "%s:%d: a precondition does not hold: %s\n", file, line, condition);
#endif
        __builtin_trap();
    }
    detail::assert_handler(condition, file, line);
}

}  // namespace INTQ_ABI
}  // namespace intq

#if INTQ_ASSERT_LEVEL > 0
#    define INTQ_ASSERT(condition) \
        ((condition) ? static_cast<void>(0) : ::intq::fail_assert(#condition, __FILE__, __LINE__))
#else
#    define INTQ_ASSERT(condition) static_cast<void>(0)
#endif

/// noexcept, except at the assert level at which a handler may throw.
#define INTQ_NOEXCEPT noexcept(INTQ_ASSERT_LEVEL < 2)

#endif  // INTQ_CORE_ASSERT_HPP
