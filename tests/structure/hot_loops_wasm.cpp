// SPDX-License-Identifier: MIT
//
// The kernels whose loops check_hot_loops reads: int8 and int16 on the backend of WebAssembly.
#include "intq/kernels/table/kernel_table.hpp"
#include "intq/simd/wasm/wasm_tiles.hpp"

/// Keeps every kernel of the table in the object.
extern const intq::kernels::KernelTable* const hot_table;
const intq::kernels::KernelTable* const hot_table = &intq::kernels::kernel_table<intq::target::fp32, intq::simd::wasm>;
