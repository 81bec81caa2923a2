// SPDX-License-Identifier: MIT
//
// softmax of int8 codes along one axis, to probabilities of 2^-15 a code. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_SOFTMAX_HPP
#define INTQ_KERNELS_STREAMING_SOFTMAX_HPP

#include "intq/arith/softmax.hpp"
#include "intq/kernels/streaming/softmax_call.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// y = the probabilities of the rows, by the formula of arith/softmax.hpp
///
/// @pre 1 <= count <= arith::softmax_most_terms; are_softmax_tables(*tables); y must not overlap x
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(n): two passes of table reads over each row
inline void softmax_codes(const SoftmaxCall& call) INTQ_NOEXCEPT {
    const arith::SoftmaxTables& tables = *call.tables;
    (*call.executor)(call.rows, [&](index_t row) {
        const index_t size = call.count * call.inner;
        for (index_t i = 0; i < call.inner; ++i) {
            const std::int8_t* const x = call.x + row * size + i;
            std::int16_t* const y = call.y + row * size + i;
            std::int32_t largest = INT8_MIN;
            for (index_t k = 0; k < call.count; ++k)
                if (x[k * call.inner] > largest) largest = x[k * call.inner];
            std::uint64_t sum = 0;
            for (index_t k = 0; k < call.count; ++k) sum += tables.term[largest - x[k * call.inner]];
            const auto reciprocal = arith::SoftmaxReciprocal::of(sum);
            for (index_t k = 0; k < call.count; ++k)
                y[k * call.inner] = reciprocal.code(tables.probability[largest - x[k * call.inner]]);
        }
    });
}

namespace detail {

// The same code for every backend.
template <class Backend> inline constexpr SoftmaxRow softmax_rows[] = {{DType::int8, &softmax_codes}};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_SOFTMAX_HPP
