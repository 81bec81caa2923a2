// SPDX-License-Identifier: MIT
//
// A self test finds single-bit faults of weights, biases, multipliers, shifts and tables.
#include "deploy/faults.hpp"

using namespace intq;

TEST_CASE("of 1,000 faults in DS-CNN the checksum finds all, and the vectors alone 85 % in the right layer") {
    test::check_faults(test::ds_cnn(), 1000);
}

TEST_CASE("faults in the tables of pixels are found as well") { test::check_faults(test::small_image(), 1000); }
