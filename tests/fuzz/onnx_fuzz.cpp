// SPDX-License-Identifier: MIT
//
// libFuzzer target: any bytes become a graph or an Error. Built with clang only:
//
//     clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -DFMT_HEADER_ONLY=1 -Iinclude
//         tests/fuzz/onnx_fuzz.cpp -o onnx_fuzz
//     ./onnx_fuzz -max_total_time=60 <corpus folder> tests/golden/models
#include <cstddef>
#include <cstdint>
#include <span>

#include "intq/interop/onnx/import.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const auto module = intq::interop::onnx::import_model(
            intq::interop::onnx::parse_model(std::as_bytes(std::span(data, size)), "fuzz"));
        module->graph().lint(module.get());
    } catch (const intq::Error&) {
    }
    return 0;
}
