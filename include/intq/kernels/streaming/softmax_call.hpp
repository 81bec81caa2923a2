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
    const arith::SoftmaxTables* tables = nullptr;  // of int8 codes
    arith::QuantizedMultiplier input{};            // of int16 codes
    const void* x = nullptr;
    void* y = nullptr;
    index_t rows = 0;
    index_t count = 0;
    index_t inner = 1;
    const Executor* executor = nullptr;
};
/// Under SoftmaxRule::requantized the output is int16 probabilities of 2^-15, for whoever requantizes them; under
/// fixed_point it is what the operator gives.
struct SoftmaxRow {
    arith::SoftmaxRule rule;
    DType input, output;
    void (*run)(const SoftmaxCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_SOFTMAX_CALL_HPP
