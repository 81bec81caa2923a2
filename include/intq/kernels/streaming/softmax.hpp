// SPDX-License-Identifier: MIT
//
// softmax of codes along one axis, by the rule of a target, and its logarithm. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_SOFTMAX_HPP
#define INTQ_KERNELS_STREAMING_SOFTMAX_HPP

#include <array>

#include "intq/arith/constraints.hpp"
#include "intq/arith/fixed_point_log_softmax.hpp"
#include "intq/arith/fixed_point_softmax.hpp"
#include "intq/arith/lanes.hpp"
#include "intq/arith/log_softmax.hpp"
#include "intq/arith/softmax.hpp"
#include "intq/arith/target.hpp"
#include "intq/kernels/streaming/softmax_call.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// Calls line(x, y, stride) for the elements of each sum: count of them, stride apart.
template <class X, class Y, class Line> void for_each_softmax(const SoftmaxCall& call, Line&& line) INTQ_NOEXCEPT {
    const auto* const x = static_cast<const X*>(call.x);
    auto* const y = static_cast<Y*>(call.y);
    const index_t size = call.count * call.inner;
    (*call.executor)(call.rows, [&](index_t row) {
        for (index_t i = 0; i < call.inner; ++i) line(x + row * size + i, y + row * size + i, call.inner);
    });
}

template <class X> std::int32_t largest_of(const X* x, index_t count, index_t stride) noexcept {
    std::int32_t largest = *x;
    for (index_t k = 1; k < count; ++k)
        if (x[k * stride] > largest) largest = x[k * stride];
    return largest;
}

}  // namespace detail

/// y = the probabilities of the rows, by the formula of arith/softmax.hpp
///
/// @pre 1 <= count <= arith::softmax_most_terms; are_softmax_tables(*tables); y must not overlap x
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(n): two passes of table reads over each row
inline void softmax_codes(const SoftmaxCall& call) INTQ_NOEXCEPT {
    const arith::SoftmaxTables& tables = *call.tables;
    detail::for_each_softmax<std::int8_t, std::int16_t>(
        call, [&](const std::int8_t* x, std::int16_t* y, index_t stride) {
            const std::int32_t largest = detail::largest_of(x, call.count, stride);
            std::uint64_t sum = 0;
            for (index_t k = 0; k < call.count; ++k) sum += tables.term[largest - x[k * stride]];
            const auto reciprocal = arith::SoftmaxReciprocal::of(sum);
            for (index_t k = 0; k < call.count; ++k)
                y[k * stride] = reciprocal.code(tables.probability[largest - x[k * stride]]);
        });
}

/// y = the probabilities of rows of int8 codes, by arith::FixedPointSoftmax
///
/// @tparam Code  int8 or int16
/// @pre 1 <= count <= arith::fixed_point_softmax_most_terms; are_fixed_point_softmax_tables(*tables); y must not
///      overlap x
///
/// Result, memory and cost as softmax_codes()
template <class Code> void fixed_point_softmax_codes(const SoftmaxCall& call) INTQ_NOEXCEPT {
    const arith::SoftmaxTables& tables = *call.tables;
    detail::for_each_softmax<std::int8_t, Code>(call, [&](const std::int8_t* x, Code* y, index_t stride) {
        const std::int32_t largest = detail::largest_of(x, call.count, stride);
        std::int32_t sum = 0;
        for (index_t k = 0; k < call.count; ++k)
            sum += arith::FixedPointSoftmax::term(tables.term[largest - x[k * stride]]);
        const auto reciprocal = arith::FixedPointSoftmax::of(sum);
        for (index_t k = 0; k < call.count; ++k)
            y[k * stride] = reciprocal.template code<Code>(tables.term[largest - x[k * stride]]);
    });
}

/// y = the probabilities of rows of int16 codes, by arith::WideSoftmax
///
/// @tparam IsSingle  whether the distances are scaled with single rounding
/// @pre 1 <= count <= arith::softmax_most_terms; input made by make_wide_softmax_multiplier(); y must not overlap x
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(n): three passes over each row
template <bool IsSingle> void wide_softmax_codes(const SoftmaxCall& call) INTQ_NOEXCEPT {
    using arith::WideSoftmax;
    detail::for_each_softmax<std::int16_t, std::int16_t>(
        call, [&](const std::int16_t* x, std::int16_t* y, index_t stride) {
            const std::int32_t largest = detail::largest_of(x, call.count, stride);
            std::int32_t sum = 0;
            for (index_t k = 0; k < call.count; ++k) {
                const std::int32_t e = WideSoftmax::exponential(call.input, IsSingle, x[k * stride] - largest);
                y[k * stride] = static_cast<std::int16_t>(e);
                sum += e;
            }
            const auto reciprocal = WideSoftmax::of(sum);
            for (index_t k = 0; k < call.count; ++k) y[k * stride] = reciprocal.code(y[k * stride]);
        });
}

/// y = the requantized probabilities of rows of int16 codes, by arith::Int16Softmax
///
/// @tparam Policy  requantize policy for sums of 32 bits
/// @pre 1 <= count <= arith::softmax_most_terms; are_int16_softmax_tables(entries); y must not overlap x
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(n): three passes over each row, and a division
template <class Policy> void int16_softmax_codes(const SoftmaxCall& call) INTQ_NOEXCEPT {
    using L = arith::scalar_lanes;
    using arith::Int16Softmax;
    const arith::OutputLanes<L> out(*call.codes);
    const auto channel = Policy::template load<L>(call.words->data(), 1);
    detail::for_each_softmax<std::int16_t, std::int16_t>(
        call, [&](const std::int16_t* x, std::int16_t* y, index_t stride) {
            const std::int32_t largest = detail::largest_of(x, call.count, stride);
            std::uint64_t sum = 0;
            for (index_t k = 0; k < call.count; ++k) sum += Int16Softmax::term(call.entries, largest - x[k * stride]);
            const auto reciprocal = Int16Softmax::of(sum);
            for (index_t k = 0; k < call.count; ++k) {
                const std::uint64_t term = Int16Softmax::term(call.entries, largest - x[k * stride]);
                y[k * stride] =
                    static_cast<std::int16_t>(Policy::template apply<L>(reciprocal.accumulator(term), channel, out));
            }
        });
}

/// y = the requantized logarithms of the probabilities of rows of codes, by arith::LogSoftmax
///
/// @tparam Policy  requantize policy for sums of 32 bits
/// @tparam Code    int8 or int16
/// @pre 1 <= count <= arith::softmax_most_terms; are_log_softmax_tables(entries); is_log_softmax_step(step); y is x or
///      does not overlap it
///
/// Result   exact
/// Memory   no scratch
/// Cost     O(n): three passes over each row
template <class Policy, class Code> void log_softmax_codes(const SoftmaxCall& call) INTQ_NOEXCEPT {
    using L = arith::scalar_lanes;
    using arith::LogSoftmax;
    constexpr DType type = dtype_of<Code>;
    const arith::OutputLanes<L> out(*call.codes);
    const auto channel = Policy::template load<L>(call.words->data(), 1);
    const std::uint32_t* const logs = call.entries + arith::exponential_entries(type);
    detail::for_each_softmax<Code, Code>(call, [&](const Code* x, Code* y, index_t stride) {
        const std::int32_t largest = detail::largest_of(x, call.count, stride);
        std::uint64_t sum = 0;
        for (index_t k = 0; k < call.count; ++k) sum += LogSoftmax::term<type>(call.entries, largest - x[k * stride]);
        const std::int64_t log = LogSoftmax::log_of(logs, sum);
        for (index_t k = 0; k < call.count; ++k) {
            const std::int32_t acc = LogSoftmax::accumulator(largest - x[k * stride], call.step, log);
            y[k * stride] = static_cast<Code>(Policy::template apply<L>(acc, channel, out));
        }
    });
}

/// y = the logarithms of the probabilities of rows of int8 codes, by arith::FixedPointLogSoftmax
///
/// @pre 1 <= count <= arith::fixed_point_softmax_most_terms; are_fixed_point_log_softmax_entries(entries); y is x or
///      does not overlap it
///
/// Result, memory and cost as softmax_codes()
inline void fixed_point_log_softmax_codes(const SoftmaxCall& call) INTQ_NOEXCEPT {
    using arith::FixedPointLogSoftmax;
    const std::uint32_t* const values = call.entries + arith::fixed_point_log_softmax_entries / 2;
    detail::for_each_softmax<std::int8_t, std::int8_t>(call, [&](const std::int8_t* x, std::int8_t* y, index_t stride) {
        const std::int32_t largest = detail::largest_of(x, call.count, stride);
        std::int32_t sum = 0;
        for (index_t k = 0; k < call.count; ++k)
            sum += arith::FixedPointSoftmax::term(call.entries[largest - x[k * stride]]);
        const std::int32_t log = FixedPointLogSoftmax::log_of(sum);
        for (index_t k = 0; k < call.count; ++k)
            y[k * stride] = FixedPointLogSoftmax::code(values[largest - x[k * stride]], log);
    });
}

namespace detail {

template <class TargetType> constexpr auto softmax_rows_of() noexcept {
    using arith::SoftmaxRule;
    if constexpr (TargetType::policy.softmax == SoftmaxRule::requantized) {
        constexpr SoftmaxRow narrow{SoftmaxRule::requantized, DType::int8, DType::int16, true, &softmax_codes};
        constexpr arith::OperatorUse of_int16{.op = OpKind::softmax, .input = DType::int16, .output = DType::int16};
        if constexpr (arith::check_constraints(TargetType::policy.constraints, of_int16).ok()) {
            using Policy = arith::RequantizePolicy<TargetType, std::int32_t>;
            return std::array{narrow, SoftmaxRow{SoftmaxRule::requantized, DType::int16, DType::int16, false,
                                                 &int16_softmax_codes<Policy>}};
        } else {
            return std::array{narrow};
        }
    } else {
        constexpr bool is_single = TargetType::policy.requantize == arith::RequantizeRule::single_rounding;
        return std::array{
            SoftmaxRow{SoftmaxRule::fixed_point, DType::int8, DType::int8, false,
                       &fixed_point_softmax_codes<std::int8_t>},
            SoftmaxRow{SoftmaxRule::fixed_point, DType::int8, DType::int16, false,
                       &fixed_point_softmax_codes<std::int16_t>},
            SoftmaxRow{SoftmaxRule::fixed_point, DType::int16, DType::int16, false, &wide_softmax_codes<is_single>}};
    }
}

// The same code for every backend.
template <class TargetType, class Backend> inline constexpr auto softmax_rows = softmax_rows_of<TargetType>();

template <class TargetType, class Backend>
inline constexpr auto log_softmax_rows = [] {
    using Policy = arith::RequantizePolicy<TargetType, std::int32_t>;
    using arith::SoftmaxRule;
    constexpr LogSoftmaxRow narrow{SoftmaxRule::requantized, DType::int8, &log_softmax_codes<Policy, std::int8_t>},
        wide{SoftmaxRule::requantized, DType::int16, &log_softmax_codes<Policy, std::int16_t>};
    if constexpr (TargetType::policy.softmax == SoftmaxRule::fixed_point)
        return std::array{narrow, wide,
                          LogSoftmaxRow{SoftmaxRule::fixed_point, DType::int8, &fixed_point_log_softmax_codes}};
    else
        return std::array{narrow, wide};
}();

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_SOFTMAX_HPP
