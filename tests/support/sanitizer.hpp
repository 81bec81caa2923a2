// SPDX-License-Identifier: MIT
//
// INTQ_TEST_ADDRESS_SANITIZER: 1 in a unit compiled with AddressSanitizer, which g++ says by a macro and clang by a
// feature; else 0.
#ifndef INTQ_TESTS_SUPPORT_SANITIZER_HPP
#define INTQ_TESTS_SUPPORT_SANITIZER_HPP

#define INTQ_TEST_ADDRESS_SANITIZER 0
#if defined(__SANITIZE_ADDRESS__)
#    undef INTQ_TEST_ADDRESS_SANITIZER
#    define INTQ_TEST_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        undef INTQ_TEST_ADDRESS_SANITIZER
#        define INTQ_TEST_ADDRESS_SANITIZER 1
#    endif
#endif

#endif  // INTQ_TESTS_SUPPORT_SANITIZER_HPP
