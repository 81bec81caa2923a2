// SPDX-License-Identifier: MIT
//
// The arena of a large network that runs row by row.
#include "program/row_networks.hpp"

using namespace intq::test;

TEST_CASE("MobileNetV2 on 224 x 224 pixels fits into 165 kB") { check_arena_of_mobilenet_v2(1.0, 224, 165000); }
