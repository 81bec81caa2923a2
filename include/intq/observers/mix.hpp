// SPDX-License-Identifier: MIT
//
// The percentile range of the least squared error, and whether a range stands on a cliff. Layer: observers
// (docs/workflow.md section 1).
#ifndef INTQ_OBSERVERS_MIX_HPP
#define INTQ_OBSERVERS_MIX_HPP

#include "intq/arith/ieee.hpp"
#include "intq/observers/percentile.hpp"
#include "intq/observers/quantization_error.hpp"

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// Percentiles that mix_range() tries unless told.
inline constexpr double mix_percentiles[] = {0.999, 0.9995, 0.9999, 0.99995, 0.99999, 0.999995};

/// What a small change of the percentile does to the error of a range.
struct Cliff {
    double tail = 0.0;  // the part of the values that is taken to lie outside
    ValueRange wider{}, narrower{};
    double least_error = 0.0, largest_error = 0.0;  // sums of squares of the range and its two neighbours

    /// The largest error is at least four times the least: 6 dB, one bit of resolution. Our threshold.
    INTQ_ALWAYS_INLINE bool is_cliff() const noexcept { return largest_error > arith::dmul(4.0, least_error); }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_ABI {

/// Of percentile ranges the one of the least error.
///
/// @pre histogram.seen(); arith::check_range_rule(); percentiles in [0, 1]
/// @return the range of the least quantization_error(), of equal ones the first; what that returns
///
/// Result   the same bits for any order of the data
/// Cost     O(bins · percentiles)
inline Result<ValueRange> mix_range(const GridHistogram& histogram, const arith::RangeRule& rule,
                                    std::span<const double> percentiles = mix_percentiles) INTQ_NOEXCEPT {
    return detail::least_error(histogram, rule, static_cast<index_t>(percentiles.size()), [&](index_t i) {
        return percentile_range(histogram, percentiles[static_cast<std::size_t>(i)]);
    });
}

/// Compares a range with its neighbours, the percentile ranges that leave out half and twice as many values.
///
///     tail     = max(the part of the values whose bin lies beyond the range, 1e-5)
///     wider    = percentile_range(1 - tail/2),  narrower = percentile_range(1 - 2·tail)
///
/// @pre histogram.seen(); arith::check_range_rule()
/// @return the comparison; what quantization_error() returns
inline Result<Cliff> find_cliff(const GridHistogram& histogram, const ValueRange& range,
                                const arith::RangeRule& rule) INTQ_NOEXCEPT {
    std::int64_t outside = 0;
    for (index_t bin = 0; bin < histogram.used(); ++bin) {
        const auto [from, to] = histogram.interval(bin);
        const double low = static_cast<double>(range.lowest), high = static_cast<double>(range.highest);
        if ((to > high && from >= high) || (from < low && to <= low))
            outside += histogram.counts()[static_cast<std::size_t>(bin)];
    }
    Cliff cliff{};
    cliff.tail = static_cast<double>(outside) / static_cast<double>(histogram.total());
    if (cliff.tail < 1e-5) cliff.tail = 1e-5;
    if (cliff.tail > 0.5) cliff.tail = 0.5;
    cliff.wider = percentile_range(histogram, 1.0 - arith::dmul(0.5, cliff.tail));
    cliff.narrower = percentile_range(histogram, 1.0 - arith::dmul(2.0, cliff.tail));
    const Result<double> first = quantization_error(histogram, range, rule);
    if (!first.ok()) return first.status();
    cliff.least_error = cliff.largest_error = *first;
    for (const ValueRange& neighbour : {cliff.wider, cliff.narrower}) {
        const Result<double> error = quantization_error(histogram, neighbour, rule);
        if (!error.ok()) return error.status();
        if (*error < cliff.least_error) cliff.least_error = *error;
        if (*error > cliff.largest_error) cliff.largest_error = *error;
    }
    return cliff;
}

}  // namespace INTQ_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_MIX_HPP
