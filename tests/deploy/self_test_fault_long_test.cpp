// SPDX-License-Identifier: MIT
//
// The faults of self_test_fault_test.cpp in larger networks.
#include "deploy/faults.hpp"

using namespace intq;

TEST_CASE("of 1,000 faults in ResNet-8 the checksum finds all, and the vectors alone 85 % in the right layer") {
    test::check_faults(test::resnet_8(), 1000);
}

TEST_CASE("of 1,000 faults in MobileNetV1 the checksum finds all, and the vectors alone 85 % in the right layer") {
    test::check_faults(test::mobilenet_v1(), 1000);
}
