// SPDX-License-Identifier: MIT
//
// The rows of quantize and dequantize. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_QUANTIZE_CALL_HPP
#define INTQ_KERNELS_STREAMING_QUANTIZE_CALL_HPP

#include "intq/arith/quantize.hpp"
#include "intq/core/channel_blocks.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/qparams.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Per tensor or per channel, on contiguous memory.
struct QuantizeRow {
    DType output;
    void (*run)(const float* x, const ChannelBlocks& blocks, const QParams& qparams, arith::QuantizeRule rule, void* y,
                const Executor& executor);
    /// Row-major images of `pixels` each to channels last.
    void (*run_nchw)(const float* x, index_t images, index_t channels, index_t pixels, const QParams& qparams,
                     arith::QuantizeRule rule, void* y, const Executor& executor);
};

struct DequantizeRow {
    DType input;
    void (*run)(const void* x, const ChannelBlocks& blocks, const QParams& qparams, float* y, const Executor& executor);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_QUANTIZE_CALL_HPP
