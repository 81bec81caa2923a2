// SPDX-License-Identifier: MIT
//
// One run of a softmax, as a function pointer takes it, its row, and the checks of its numbers. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_SOFTMAX_CALL_HPP
#define INTQ_KERNELS_STREAMING_SOFTMAX_CALL_HPP

#include "intq/arith/fixed_point_softmax.hpp"
#include "intq/arith/softmax.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/executor.hpp"

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// One run of a softmax: `rows` blocks of count·inner codes; the elements of one sum lie `inner` apart.
struct SoftmaxCall {
    const arith::SoftmaxTables* tables = nullptr;  // of int8 codes
    arith::QuantizedMultiplier input{};            // of int16 codes, where the rule is fixed_point
    const void* x = nullptr;
    void* y = nullptr;
    index_t rows = 0;
    index_t count = 0;
    index_t inner = 1;
    const Executor* executor = nullptr;
    // Of int16 codes, where the rule is requantized:
    const std::uint32_t* entries = nullptr;
    const arith::ChannelWords* words = nullptr;
    const arith::OutputCodes* codes = nullptr;
    std::int64_t step = 0;  // of a log-softmax, which has entries, words and codes of either type
};
struct SoftmaxRow {
    arith::SoftmaxRule rule;
    DType input, output;
    bool gives_probabilities;  // of 2^-15 in int16, still to be requantized; else it gives the operator's output
    void (*run)(const SoftmaxCall&);
};
struct LogSoftmaxRow {
    arith::SoftmaxRule rule;  // fixed_point: TFLite's, whose output has a fixed scale
    DType dtype;              // of both
    void (*run)(const SoftmaxCall&);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_ABI {

/// The most terms of one sum, by rule and type of input.
constexpr index_t most_softmax_terms(arith::SoftmaxRule rule, DType input) noexcept {
    const bool is_fixed_point = rule == arith::SoftmaxRule::fixed_point && input == DType::int8;
    return is_fixed_point ? arith::fixed_point_softmax_most_terms : arith::softmax_most_terms;
}

/// Whether tables of int8 codes, which may come from anywhere, are such that the formula keeps its bits.
constexpr bool are_softmax_tables(arith::SoftmaxRule rule, const arith::SoftmaxTables& tables) noexcept {
    return rule == arith::SoftmaxRule::fixed_point ? arith::are_fixed_point_softmax_tables(tables)
                                                   : arith::are_softmax_tables(tables);
}

/// The same for the multiplier of int16 codes.
constexpr bool is_softmax_multiplier(const arith::QuantizedMultiplier& input) noexcept {
    return input.multiplier >= 0 && input.shift >= -31 && input.shift <= 15;
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_SOFTMAX_CALL_HPP
