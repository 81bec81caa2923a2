// SPDX-License-Identifier: MIT
//
// One run of a packed layer, as a function pointer takes it, and its row. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_CONV_CALL_HPP
#define INTQ_KERNELS_PACKING_CONV_CALL_HPP

#include <span>

#include "intq/arith/target.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/first_row.hpp"
#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/kernels/window/geometry.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// One run of a packed layer, as a function pointer takes it.
struct ConvCall {
    const PackedConv2d* packed = nullptr;
    const ConvGeometry* geometry = nullptr;
    const void* x = nullptr;      // channels last, of the layer's input type; staged for gemm
    const void* sumin = nullptr;  // as y in shape, of the layer's input type
    void* y = nullptr;
    const Executor* executor = nullptr;
    std::byte* workspace = nullptr;  // conv2d_workspace_size() bytes, for a kernel that stages by itself
};

/// A convolution kernel: GEMM or depthwise.
struct ConvRow {
    DType input, weight, output;
    int accumulator_bits;
    bool has_sumin;
    bool is_depthwise;
    arith::RequantizeRule requantize;
    const char* policy;
    void (*run)(const ConvCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// The row that runs a packed layer; null where there is none.
INTQ_ALWAYS_INLINE constexpr const ConvRow* find_conv(std::span<const ConvRow> rows,
                                                      const PackedConv2d& packed) noexcept {
    return find_first(rows, [&](const ConvRow& row) INTQ_ALWAYS_INLINE_LAMBDA {
        return row.input == packed.input_dtype && row.weight == packed.weight_dtype &&
               row.output == packed.output_dtype && row.has_sumin == packed.has_sumin &&
               row.is_depthwise == packed.is_depthwise && row.accumulator_bits == packed.accumulator_bits &&
               row.requantize == packed.requantize;
    });
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_CONV_CALL_HPP
