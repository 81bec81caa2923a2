// SPDX-License-Identifier: MIT
//
// A program that includes everything.
#include <cstdio>

#include "intq/intq.hpp"

int main() {
    const float data[4] = {1, 2, 3, 4};
    const intq::TensorView<const float, 2> view(data, {2, 2});
    std::printf("intq %d.%d.%d: %d\n", INTQ_VERSION_MAJOR, INTQ_VERSION_MINOR, INTQ_VERSION_PATCH,
                static_cast<int>(view(1, 1)));
}
