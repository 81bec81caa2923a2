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
#include "intq/core/workspace.hpp"
#include "intq/kernels/streaming/softmax_call.hpp"
#include "intq/simd/select.hpp"

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

// --- TFLite's softmax of int8 codes in lanes -----------------------------------------------------------------------

/// Lanes that read a table at the places that bytes say: their gather_below and largest_packed.
template <class L>
inline constexpr bool reads_softmax_tables = requires(const std::int32_t* table, const std::int8_t* codes) {
    L::gather_below(table, std::int32_t{}, codes);
    L::largest_packed(L::load_packed(codes));
};

/// Calls four(k) for each k that begins four vectors, then one(k) for each vector, then rest(k) for each element.
template <class L, class Four, class One, class Rest>
INTQ_ALWAYS_INLINE void by_four_vectors(index_t count, Four&& four, One&& one, Rest&& rest) noexcept {
    constexpr index_t width = L::width();
    index_t k = 0;
    for (; k + 4 * width <= count; k += 4 * width) four(k);
    for (; k + width <= count; k += width) one(k);
    for (; k < count; ++k) rest(k);
}

template <class L> std::int32_t largest_of_row(const std::int8_t* x, index_t count) noexcept {
    constexpr index_t width = L::template packed_width<std::int8_t>();
    std::int32_t largest = *x;
    index_t k = 0;
    if (count >= width) {
        auto most = L::load_packed(x);
        for (k = width; k + width <= count; k += width) most = L::max_packed(most, L::load_packed(x + k));
        largest = L::largest_packed(most);
    }
    for (; k < count; ++k)
        if (x[k] > largest) largest = x[k];
    return largest;
}

inline constexpr index_t most_kept_exponentials = 256;

/// y = the probabilities of a row, by arith::FixedPointSoftmax
///
/// @tparam Keeps  whether exponentials are kept between the two passes, 1 KiB on the stack, and not read again.
///                @pre count <= most_kept_exponentials
template <class L, class Code, bool Keeps>
void softmax_in_lanes(const arith::SoftmaxTables& tables, const std::int8_t* x, Code* y, index_t count) noexcept {
    using arith::FixedPointSoftmax;
    using I32 = typename L::i32;
    constexpr index_t width = L::width();
    using Codes = FixedPointSoftmax::Codes<L, Code>;
    const std::int32_t largest = largest_of_row<L>(x, count);
    const auto* const exponentials = reinterpret_cast<const std::int32_t*>(tables.term);
    alignas(buffer_alignment) std::int32_t kept[array_size(Keeps ? most_kept_exponentials : 1)];

    I32 sums = L::set(std::int32_t{0});
    std::int32_t sum = 0;
    const auto add = [&](index_t k) INTQ_ALWAYS_INLINE_LAMBDA {
        const I32 e = L::gather_below(exponentials, largest, x + k);
        if constexpr (Keeps) L::store(kept + k, e);
        sums = L::add(sums, FixedPointSoftmax::term<L>(e));
    };
    by_four_vectors<L>(
        count,
        [&](index_t k) INTQ_ALWAYS_INLINE_LAMBDA {
            simd::unroll<4>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { add(k + v * width); });
        },
        add, [&](index_t k) INTQ_ALWAYS_INLINE_LAMBDA { sum += FixedPointSoftmax::term(tables.term[largest - x[k]]); });
    std::int32_t lanes[array_size(width)];
    L::store(lanes, sums);
    for (const std::int32_t lane : lanes) sum += lane;

    const FixedPointSoftmax reciprocal = FixedPointSoftmax::of(sum);
    const Codes codes(reciprocal);
    const auto exponential = [&](index_t k) INTQ_ALWAYS_INLINE_LAMBDA {
        return Keeps ? L::load(kept + k) : L::gather_below(exponentials, largest, x + k);
    };
    const auto store = [&](index_t k) INTQ_ALWAYS_INLINE_LAMBDA { L::store(y + k, codes.code(exponential(k))); };
    by_four_vectors<L>(
        count,
        [&](index_t k) INTQ_ALWAYS_INLINE_LAMBDA {
            if constexpr (std::is_same_v<Code, std::int8_t> && requires { typename L::CodeQuad; }) {
                const auto steps = [&](index_t at) INTQ_ALWAYS_INLINE_LAMBDA { return codes.steps(exponential(at)); };
                const typename L::CodeQuad quad(Codes::lowest, Codes::lowest, Codes::highest);
                quad.store(y + k, 4 * width, steps(k), steps(k + width), steps(k + 2 * width), steps(k + 3 * width));
            } else {
                simd::unroll<4>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { store(k + v * width); });
            }
        },
        store,
        [&](index_t k)
            INTQ_ALWAYS_INLINE_LAMBDA { y[k] = reciprocal.template code<Code>(tables.term[largest - x[k]]); });
}

// --- the softmax by two tables in lanes ----------------------------------------------------------------------------

/// Lanes that read entries of 64 bits at the places that bytes say, and add them.
template <class L> inline constexpr bool adds_entries = requires { typename L::EntrySums; };

/// Fewer codes than this do not pay for the table of entries.
inline constexpr index_t least_codes_by_entries = 1024;

/// Both tables by code: a term in the lower 48 bits, and a probability above them. So a sum of entries has the sum of
/// terms in its lower 48 bits.
class SoftmaxEntries {
public:
    explicit SoftmaxEntries(const arith::SoftmaxTables& tables) noexcept {
        for (int d = 0; d < 256; ++d)
            entry_[255 - d] = tables.term[d] | static_cast<std::uint64_t>(tables.probability[d]) << 48;
    }
    /// @return where the entry of code 0 would be: that of each code up to the largest of a row is there
    const std::uint64_t* of_row(std::int32_t largest) const noexcept { return entry_ + (255 - largest); }

    static constexpr std::uint64_t term(std::uint64_t entry) noexcept { return entry << 16 >> 16; }
    static constexpr std::int16_t probability(std::uint64_t entry) noexcept {
        return static_cast<std::int16_t>(entry >> 48);
    }

private:
    std::uint64_t entry_[256];
};

/// y = the probabilities of a row, by arith::SoftmaxReciprocal. Between the two passes y holds those of the table.
template <class L>
void softmax_by_entries(const SoftmaxEntries& entries, const std::int8_t* x, std::int16_t* y, index_t count) noexcept {
    constexpr index_t width = L::width(), together = 8;
    const std::uint64_t* const entry = entries.of_row(largest_of_row<L>(x, count));
    typename L::EntrySums sums;
    index_t k = 0;
    for (; k + 2 * together <= count; k += 2 * together) {
        sums.add(entry, x + k, y + k);
        sums.add(entry, x + k + together, y + k + together);
    }
    if (k + together <= count) {
        sums.add(entry, x + k, y + k);
        k += together;
    }
    std::uint64_t sum = sums.total();
    for (; k < count; ++k) {
        sum += entry[x[k]];
        y[k] = SoftmaxEntries::probability(entry[x[k]]);
    }
    const auto reciprocal = arith::SoftmaxReciprocal::of(SoftmaxEntries::term(sum));
    const arith::SoftmaxReciprocal::Codes<L> codes(reciprocal);
    const auto store = [&](index_t at) INTQ_ALWAYS_INLINE_LAMBDA { L::store(y + at, codes.code(L::load(y + at))); };
    by_four_vectors<L>(
        count,
        [&](index_t at) INTQ_ALWAYS_INLINE_LAMBDA {
            simd::unroll<4>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { store(at + v * width); });
        },
        store, [&](index_t at) INTQ_ALWAYS_INLINE_LAMBDA { y[at] = reciprocal.code(y[at]); });
}

}  // namespace detail

/// y = the probabilities of the rows, by the formula of arith/softmax.hpp
///
/// @tparam Backend  in whose lanes rows of elements that follow each other are computed, if they add entries
/// @pre 1 <= count <= arith::softmax_most_terms; are_softmax_tables(*tables); y must not overlap x
///
/// Result   exact
/// Memory   no scratch; in lanes 2 KiB on the stack
/// Cost     O(n): two passes of table reads over each row, in lanes one
template <class Backend> void softmax_codes(const SoftmaxCall& call) INTQ_NOEXCEPT {
    const arith::SoftmaxTables& tables = *call.tables;
    using L = simd::lanes<Backend>;
    if constexpr (detail::adds_entries<L>)
        if (call.inner == 1 && call.rows * call.count >= detail::least_codes_by_entries) {
            const detail::SoftmaxEntries entries(tables);
            const auto* const x = static_cast<const std::int8_t*>(call.x);
            auto* const y = static_cast<std::int16_t*>(call.y);
            const index_t count = call.count;
            return (*call.executor)(call.rows, [&entries, x, y, count](index_t row) {
                detail::softmax_by_entries<L>(entries, x + row * count, y + row * count, count);
            });
        }
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
/// @tparam Backend  in whose lanes rows of elements that follow each other are computed, if they read tables
/// @tparam Code     int8 or int16
/// @pre 1 <= count <= arith::fixed_point_softmax_most_terms; are_fixed_point_softmax_tables(*tables); y must not
///      overlap x
///
/// Result, memory and cost as softmax_codes()
template <class Backend, class Code> void fixed_point_softmax_codes(const SoftmaxCall& call) INTQ_NOEXCEPT {
    const arith::SoftmaxTables& tables = *call.tables;
    using L = simd::lanes<Backend>;
    if constexpr (detail::reads_softmax_tables<L>) {
        const bool keeps = call.count <= detail::most_kept_exponentials;
        const auto row = keeps ? &detail::softmax_in_lanes<L, Code, true> : &detail::softmax_in_lanes<L, Code, false>;
        if (call.inner == 1)
            return detail::for_each_softmax<std::int8_t, Code>(
                call, [&](const std::int8_t* x, Code* y, index_t) { row(tables, x, y, call.count); });
    }
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

template <class TargetType, class Backend = simd::scalar> constexpr auto softmax_rows_of() noexcept {
    using arith::SoftmaxRule;
    if constexpr (TargetType::policy.softmax == SoftmaxRule::requantized) {
        constexpr SoftmaxRow narrow{SoftmaxRule::requantized, DType::int8, DType::int16, true, &softmax_codes<Backend>};
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
                       &fixed_point_softmax_codes<Backend, std::int8_t>},
            SoftmaxRow{SoftmaxRule::fixed_point, DType::int8, DType::int16, false,
                       &fixed_point_softmax_codes<Backend, std::int16_t>},
            SoftmaxRow{SoftmaxRule::fixed_point, DType::int16, DType::int16, false, &wide_softmax_codes<is_single>}};
    }
}

template <class TargetType, class Backend> inline constexpr auto softmax_rows = softmax_rows_of<TargetType, Backend>();

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
