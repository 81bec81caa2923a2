// SPDX-License-Identifier: MIT
//
// A fuzz target with a fault behind four bytes: proof that the fuzzers search and that a fault ends them.
#include <cstddef>
#include <cstdint>
#include <memory>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 4 || data[0] != 'i' || data[1] != 'n' || data[2] != 't' || data[3] != 'q') return 0;
    const auto heap = std::make_unique<std::uint8_t[]>(4);
    volatile std::size_t index = size;
    heap[index] = 1;
    return heap[0];
}
