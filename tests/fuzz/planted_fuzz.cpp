// SPDX-License-Identifier: MIT
//
// A fuzz target with a fault behind four bytes: proof that the fuzzers search and that a fault ends them. Behind four
// other bytes memory is read that nothing has written.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace {

volatile std::size_t volatile_index = 0;
volatile int branch_taken = 0;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 4) return 0;
    const auto heap = std::make_unique_for_overwrite<std::uint8_t[]>(4);
    if (data[0] == 'i' && data[1] == 'n' && data[2] == 't' && data[3] == 'q') {
        volatile_index = size;
        heap[volatile_index] = 1;
    }
    if (std::memcmp(data, "read", 4) == 0 && heap[volatile_index % 4] == 1) branch_taken = 1;
    return 0;
}
