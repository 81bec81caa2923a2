// SPDX-License-Identifier: MIT
//
// Catch2 for the tests: one include for its versions 2 (Debian 12) and 3, and ways to skip that are counted.
// Tests say `Catch::Approx`, never a bare `Approx`.
//
//     TEST_CASE("...") {
//         if (!machine_can) INTQ_SKIP("why not");        // leaves the test case; it counts as skipped
//         ...
//         if (!row_can) intq::test::skip_item("why not");  // one item of a table; counts besides the test case
//     }
//
// Every skip is printed with its reason. A test case or section without an assertion fails.
#ifndef INTQ_TESTS_SUPPORT_CATCH_HPP
#define INTQ_TESTS_SUPPORT_CATCH_HPP

#if __has_include(<catch2/catch_all.hpp>)
#    include <catch2/catch_all.hpp>
#else
#    include <catch2/catch.hpp>
#endif

#include <string>

namespace intq::test {

/// Records and prints that one item of the running test case was not checked. Repetitions count once.
void skip_item(const std::string& reason);

/// Records and prints that the running test case cannot be checked here; the caller returns.
void skip_case(const std::string& reason);

}  // namespace intq::test

#define INTQ_SKIP(reason)                \
    do {                                 \
        ::intq::test::skip_case(reason); \
        SUCCEED(reason);                 \
        return;                          \
    } while (false)

#endif  // INTQ_TESTS_SUPPORT_CATCH_HPP
