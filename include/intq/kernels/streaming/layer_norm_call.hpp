// SPDX-License-Identifier: MIT
//
// One run of a layer norm, as a function pointer takes it, and its row. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_LAYER_NORM_CALL_HPP
#define INTQ_KERNELS_STREAMING_LAYER_NORM_CALL_HPP

#include "intq/arith/layer_norm.hpp"
#include "intq/core/executor.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// One run of a layer norm. A pixel has `groups` times `count` codes, which follow each other; the `count` codes of a
/// group in `pixels` pixels that follow each other are normalized together.
struct LayerNormCall {
    const arith::LayerNormParams* params = nullptr;
    const std::int32_t* weight = nullptr;  // of each code of a pixel, of 2^LayerNormScale::weight()
    const std::int32_t* bias = nullptr;    // of 2^LayerNormScale::accumulator()
    const void* x = nullptr;
    void* y = nullptr;
    index_t samples = 0;
    index_t pixels = 1;
    index_t groups = 1;
    index_t count = 0;
    const Executor* executor = nullptr;
};
struct LayerNormRow {
    DType input, output;
    void (*run)(const LayerNormCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_LAYER_NORM_CALL_HPP
