// SPDX-License-Identifier: MIT
//
// Ranges that leave out a part of the values: by percentile, by standard deviations, by fixed bounds. Layer: observers
// (docs/workflow.md section 1).
#ifndef INTQ_OBSERVERS_PERCENTILE_HPP
#define INTQ_OBSERVERS_PERCENTILE_HPP

#include "intq/arith/ieee.hpp"
#include "intq/arith/real_functions.hpp"
#include "intq/observers/grid_histogram.hpp"

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// Mean and standard deviation of the data, whose values lie evenly in each bin.
struct Moments {
    double mean = 0.0;
    double deviation = 0.0;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_ABI {

/// A range cut to [-threshold, threshold].
constexpr ValueRange clip_range(const ValueRange& range, float lowest, float highest) noexcept {
    const auto clamp = [&](float x) { return x < lowest ? lowest : x > highest ? highest : x; };
    return {clamp(range.lowest), clamp(range.highest)};
}

/// The range that leaves out the values of the largest magnitude.
///
///     threshold = the least upper end t of a bin of |x| such that at most (1 - part) · total values have |x| > t
///     range     = [max(lowest, -threshold), min(highest, threshold)]
///
/// @param part  of the values that stay, in [0, 1]: 0.9999 for the percentile 99.99
/// @pre histogram.seen()
///
/// Result   the threshold to the width of a bin; the same bits for any order of the data
/// Cost     O(bins)
inline ValueRange percentile_range(const GridHistogram& histogram, double part) INTQ_NOEXCEPT {
    INTQ_ASSERT(histogram.seen() && part >= 0.0 && part <= 1.0);
    const double may_leave = arith::dmul(1.0 - part, static_cast<double>(histogram.total()));
    const std::int64_t first = histogram.state().grid.first;
    index_t low = 0, high = histogram.used() - 1;
    std::int64_t left = 0;
    // From both ends inwards, the bins of one magnitude together: bin k >= 0 pairs with bin -k - 1.
    const auto magnitude = [&](index_t bin) { return first + bin >= 0 ? first + bin : -(first + bin) - 1; };
    while (low <= high) {
        const std::int64_t outermost = magnitude(low) > magnitude(high) ? magnitude(low) : magnitude(high);
        std::int64_t here = 0;
        index_t next_low = low, next_high = high;
        if (magnitude(low) == outermost) here += histogram.counts()[static_cast<std::size_t>(next_low++)];
        if (magnitude(high) == outermost && next_low <= high)
            here += histogram.counts()[static_cast<std::size_t>(next_high--)];
        if (static_cast<double>(left + here) > may_leave || next_low > next_high) {
            const auto threshold = static_cast<float>(static_cast<double>(outermost + 1) * histogram.width());
            return clip_range(histogram.range(), -threshold, threshold);
        }
        left += here;
        low = next_low;
        high = next_high;
    }
    return histogram.range();
}

/// @pre histogram.seen()
///
/// Result   the mean to half the width of a bin; the same bits for any order of the data
inline Moments moments(const GridHistogram& histogram) INTQ_NOEXCEPT {
    INTQ_ASSERT(histogram.seen());
    const auto sum = [&](auto&& value) {
        double total = 0.0;
        for (index_t bin = 0; bin < histogram.used(); ++bin) {
            const std::int64_t count = histogram.counts()[static_cast<std::size_t>(bin)];
            if (count != 0) total += arith::dmul(static_cast<double>(count), value(histogram.interval(bin)));
        }
        return total / static_cast<double>(histogram.total());
    };
    using Interval = GridHistogram::Interval;
    const double mean = sum([](const Interval& bin) { return arith::dmul(bin.from, 0.5) + arith::dmul(bin.to, 0.5); });
    const double variance = sum([&](const Interval& bin) {
        const double a = bin.from - mean, b = bin.to - mean;  // the mean of y² over [a, b]
        return arith::dmul(arith::dmul(a, a) + arith::dmul(a, b) + arith::dmul(b, b), 1.0 / 3.0);
    });
    return {mean, arith::real_sqrt(variance > 0.0 ? variance : 0.0)};
}

/// mean ± deviations · standard deviation, inside the range of the data.
///
/// @pre histogram.seen(), deviations > 0
inline ValueRange clip_std_range(const GridHistogram& histogram, double deviations = 3.0) INTQ_NOEXCEPT {
    const Moments m = moments(histogram);
    const double reach = arith::dmul(deviations, m.deviation);
    const auto within = [&](double x) {
        const double low = static_cast<double>(histogram.range().lowest);
        const double high = static_cast<double>(histogram.range().highest);
        return static_cast<float>(x < low ? low : x > high ? high : x);
    };
    return {within(m.mean - reach), within(m.mean + reach)};
}

}  // namespace INTQ_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_PERCENTILE_HPP
