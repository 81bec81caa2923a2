// SPDX-License-Identifier: MIT
//
// The same as constant_channels_test.cpp for ten times as many networks.
#include "program/dropped_network.hpp"

using namespace intq;
using namespace intq::test;

TEST_CASE("Planted channels go in 500 more networks of each target") {
    for (const Case& of : cases_of_dropped_networks) {
        INFO(of.target << ", " << name_of(of.dtype));
        CHECK(check_dropped_networks(of, 1001, 1500).networks == 500);
    }
}
