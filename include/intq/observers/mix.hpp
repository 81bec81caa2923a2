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

/// How a small change of the percentile, and the values that are left out, affect the error of a range.
struct Cliff {
    double tail = 0.0;  // the part of the values that is taken to lie outside
    ValueRange wider{}, narrower{};
    double least_error = 0.0, largest_error = 0.0;  // sums of squares of the range and its two neighbours
    double kept = 1.0;                              // the part of the data's range, from 0 on, that lies inside
    double error = 0.0, whole_error = 0.0;          // sums of squares of the range and of the data's own range

    /// The largest error is at least four times the least: 6 dB, one bit of resolution. Our threshold.
    INTQ_ALWAYS_INLINE bool is_cliff() const noexcept { return largest_error > arith::dmul(4.0, least_error); }
    /// Less than half of the data's range is left, and clipping costs more than the finer steps save. Neighbours
    /// may be as bad, so such a range need not stand on a cliff.
    INTQ_ALWAYS_INLINE bool clips_most() const noexcept { return kept < 0.5 && error > whole_error; }
    /// Less than a 32nd of the data's range is left. Whatever sums of squares say of few values, they lose five bits of
    /// magnitude, which no percentile shows. Our threshold.
    INTQ_ALWAYS_INLINE bool keeps_little() const noexcept { return kept < 1.0 / 32.0; }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_ABI {

/// The percentile range of the least error.
///
/// @pre histogram.seen(); arith::check_range_rule(); percentiles in [0, 1]
/// @return the range of the least quantization_error(), of equal ones the first; its errors
///
/// Result   the same bits for any order of the data
/// Cost     O(bins · percentiles)
inline Result<ValueRange> mix_range(const GridHistogram& histogram, const arith::RangeRule& rule,
                                    std::span<const double> percentiles = mix_percentiles) INTQ_NOEXCEPT {
    return detail::least_error(histogram, rule, static_cast<index_t>(percentiles.size()), [&](index_t i) {
        return percentile_range(histogram, percentiles[static_cast<std::size_t>(i)]);
    });
}

namespace detail {

/// The part of the data's range, widened to hold 0, that lies in a range; 1 for data of zeros.
inline double kept_part(const ValueRange& data, const ValueRange& range) noexcept {
    const auto high = [](const ValueRange& r) { return r.highest > 0.0f ? static_cast<double>(r.highest) : 0.0; };
    const auto low = [](const ValueRange& r) { return r.lowest < 0.0f ? static_cast<double>(r.lowest) : 0.0; };
    const double top = high(range) < high(data) ? high(range) : high(data);
    const double bottom = low(range) > low(data) ? low(range) : low(data);
    const double length = high(data) - low(data);
    return length > 0.0 ? (top - bottom) / length : 1.0;
}

}  // namespace detail

/// Compares a range with its neighbours, the percentile ranges that leave out half and twice as many values, and with
/// the range of the data.
///
///     tail     = max(the part of the values whose bin lies beyond the range, 1e-5)
///     wider    = percentile_range(1 - tail/2),  narrower = percentile_range(1 - 2·tail)
///     kept     = length of (range and 0) inside (data and 0) / length of (data and 0)
///
/// @pre histogram.seen(); arith::check_range_rule()
/// @return the comparison; the errors of quantization_error()
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
    const Result<double> whole = quantization_error(histogram, histogram.range(), rule);
    if (!whole.ok()) return whole.status();
    cliff.kept = detail::kept_part(histogram.range(), range);
    cliff.error = cliff.least_error = cliff.largest_error = *first;
    cliff.whole_error = *whole;
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
