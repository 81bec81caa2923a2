// SPDX-License-Identifier: MIT
//
// Hidden test cases that support/check_counts.cmake runs on purpose; two of them fail.
#include "support/catch.hpp"

TEST_CASE("an assertion that holds passes", "[.][counts]") { CHECK(1 + 1 == 2); }

TEST_CASE("an assertion that does not hold fails", "[.][counts]") { CHECK(1 + 1 == 3); }

TEST_CASE("a case without an assertion fails", "[.][counts]") {}

TEST_CASE("a case that is left early is skipped", "[.][counts]") {
    INTQ_SKIP("the reason of the case");
    FAIL("not reached");
}

TEST_CASE("an item that is skipped twice counts once, beside its case", "[.][counts]") {
    for (int i = 0; i < 2; ++i) intq::test::skip_item("the reason of the item");
    CHECK(true);
}
