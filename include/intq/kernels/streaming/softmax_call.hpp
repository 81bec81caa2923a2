// SPDX-License-Identifier: MIT
//
// One run of a softmax, as a function pointer takes it, and its row. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_SOFTMAX_CALL_HPP
#define INTQ_KERNELS_STREAMING_SOFTMAX_CALL_HPP

#include "intq/arith/softmax.hpp"
#include "intq/core/executor.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// One run of a softmax: `rows` blocks of count·inner codes; the elements of one sum lie `inner` apart.
struct SoftmaxCall {
    const arith::SoftmaxTables* tables = nullptr;
    const std::int8_t* x = nullptr;
    std::int16_t* y = nullptr;
    index_t rows = 0;
    index_t count = 0;
    index_t inner = 1;
    const Executor* executor = nullptr;
};
/// Probabilities are int16 codes of 2^-15.
struct SoftmaxRow {
    DType input;
    void (*run)(const SoftmaxCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_SOFTMAX_CALL_HPP
