// SPDX-License-Identifier: MIT
//
// libFuzzer target: any bytes are a safetensors file or an Error. Built as npy_fuzz.cpp is.
#include <cstddef>
#include <cstdint>
#include <span>

#include "intq/io/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    intq::io::Safetensors content;
    try {
        content = intq::io::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
    } catch (const intq::Error&) {
        return 0;
    }
    // What was read keeps its promises: it is written, and read again to the same arrays. An Error here is a fault.
    const auto again = intq::io::parse_safetensors(intq::io::serialize_safetensors(content), "again");
    if (again.metadata != content.metadata || again.arrays.size() != content.arrays.size()) __builtin_trap();
    for (const intq::io::NamedArray& item : content.arrays) {
        const intq::io::NpyArray& other = again.at(item.name);
        if (other.dtype != item.array.dtype || other.shape != item.array.shape || other.bytes != item.array.bytes)
            __builtin_trap();
    }
    return 0;
}
