// SPDX-License-Identifier: MIT
//
// One run of a function of one code, as a function pointer takes it, and its row. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_UNARY_CALL_HPP
#define INTQ_KERNELS_STREAMING_UNARY_CALL_HPP

#include "intq/arith/tflite_curve.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/status.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// One run of a table, as a function pointer takes it.
struct LookUpCall {
    const void* entries = nullptr;  // 256 int8; int16: 513, those of blocks, or 257 of TFLite's curve
    const void* x = nullptr;
    void* y = nullptr;
    index_t size = 0;
    const Executor* executor = nullptr;
    arith::TfliteCurve curve{};  // of 257 entries
};

/// A table of 256 int8, of 513 or 257 int16 entries, or of blocks.
struct LookUpRow {
    DType dtype;
    std::size_t size;  // entries; of tables of blocks, which have different numbers, the least
    void (*run)(const LookUpCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_UNARY_CALL_HPP
