// SPDX-License-Identifier: MIT
//
// libFuzzer target: any bytes are a .npy file or an Error. Built with clang only:
//
//     clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude tests/fuzz/npy_fuzz.cpp -o npy_fuzz
//     ./npy_fuzz -max_total_time=60 <corpus folder>
#include <cstddef>
#include <cstdint>
#include <span>

#include "intq/io/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    intq::io::NpyArray array;
    try {
        array = intq::io::parse_npy(std::as_bytes(std::span(data, size)), "fuzz");
    } catch (const intq::Error&) {
        return 0;
    }
    // What was read keeps its promises: it is written, and read again to the same array. An Error here is a fault.
    const intq::io::NpyArray again = intq::io::parse_npy(intq::io::serialize_npy(array), "again");
    if (again.dtype != array.dtype || again.shape != array.shape || again.bytes != array.bytes) __builtin_trap();
    return 0;
}
