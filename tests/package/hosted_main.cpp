// SPDX-License-Identifier: MIT
//
// A program that reads ONNX files, which need another library's headers. That every header is installed is seen by
// comparing lists; that they all compile is what structure/ checks.
#include <cstdio>

#include "intq/onnx.hpp"

int main() {
    const float data[4] = {1, 2, 3, 4};
    const intq::TensorView<const float, 2> view(data, {2, 2});
    std::printf("intq %d.%d.%d: %d\n", INTQ_VERSION_MAJOR, INTQ_VERSION_MINOR, INTQ_VERSION_PATCH,
                static_cast<int>(view(1, 1)));
}
