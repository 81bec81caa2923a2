// SPDX-License-Identifier: MIT
//
// libFuzzer target of TFLite files: any bytes become a program that passes its check, a graph, or an Error, and a small
// file takes little memory.
//
//     tflite_fuzz -malloc_limit_mb=64 -max_total_time=60 <corpus folder> tests/golden/tflite
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>

#include "intq/arith/litert.hpp"
#include "intq/interop/tflite/float_model.hpp"
#include "intq/interop/tflite/import.hpp"
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/runtime/check.hpp"
#include "intq/simd/base/tags.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace intq;
    constexpr interop::tflite::Limits limits{.tensor_bytes = 1 << 20, .total_bytes = 1 << 22, .copied_bytes = 1 << 20};
    const auto& table = kernels::kernel_table<target::litert, simd::scalar>;
    try {
        const auto model = interop::tflite::parse_model(std::as_bytes(std::span(data, size)), "fuzz");
        try {
            const auto module = interop::tflite::import_float_model(model, limits);
            module->graph().lint(module.get());
        } catch (const Error&) {  // a model of codes, as most are
        }
        const auto imported = interop::tflite::import_program(model, table, limits);
        if (runtime::check_program(imported.program->program(), table).ok()) return 0;
        std::fputs("broken: an imported program passes its check\n", stderr);
        __builtin_trap();
    } catch (const Error&) {
    }
    return 0;
}
