// SPDX-License-Identifier: MIT
//
// The same as row_groups_test.cpp for more networks.
#include "program/row_group_checks.hpp"

using namespace intq;
using namespace intq::test;

TEST_CASE("Random groups of 1000 more networks give the bytes of the whole program") {
    CHECK(check_random_groups(10001, 11000, 3).programs == 6000);
}

TEST_CASE("Damaged plans of 1000 more networks are refused, or give the bytes of the whole program") {
    const DamageCount count = check_damaged_groups(11001, 12000, 50);
    CHECK(count.accepted >= 5000);
    CHECK(count.refused >= 25000);
}

TEST_CASE("Self tests by rows of 500 more networks name the layer with a fault") {
    CHECK(check_row_faults(12001, 12500, 4).inside >= 1500);
}
