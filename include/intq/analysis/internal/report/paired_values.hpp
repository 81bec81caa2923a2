// SPDX-License-Identifier: MIT
//
// One layer of a report in two models: histograms on one grid, the range of each channel, and the channels with the
// largest error. Layer: analysis/report.
#ifndef INTQ_ANALYSIS_INTERNAL_REPORT_PAIRED_VALUES_HPP
#define INTQ_ANALYSIS_INTERNAL_REPORT_PAIRED_VALUES_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "intq/core/shape.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// Counts of two sets of values in bins of one width, from `lowest` to `highest`.
struct PairedHistogram {
    double lowest = 0.0, highest = 0.0;
    std::vector<std::int64_t> baseline{}, analysis{};
};

/// Neighbouring channels in both models; one channel, unless there are more than a report shows.
struct ChannelRanges {
    index_t first = 0, count = 1;
    float baseline_min = 0, baseline_max = 0, analysis_min = 0, analysis_max = 0;
};

struct WorstChannel {
    index_t channel = 0;
    double error = 0.0;  // square root of the mean squared difference
    PairedHistogram histogram{};
};

/// The data kept of the outputs of a layer. Values that are not finite are counted, but enter nothing else.
struct PairedValues {
    static constexpr std::size_t bins = 48;
    static constexpr std::size_t most_ranges = 128;
    static constexpr std::size_t most_worst = 8;

    std::int64_t not_finite_baseline = 0, not_finite_analysis = 0;
    PairedHistogram all{};
    std::vector<ChannelRanges> channels{};       // empty of vectors
    std::vector<WorstChannel> worst_channels{};  // the largest error first; none without an error

    bool empty() const noexcept { return all.baseline.empty(); }
};

/// @param shape  of both; axis 1 holds the channels; with one or two axes, the last one
///
/// Memory   the result, and two numbers per channel
/// Cost     three passes over the values, and one more over the worst channels
PairedValues pair_values(std::span<const float> baseline, std::span<const float> analysis, const Shape& shape);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_report)

#    include <algorithm>
#    include <cmath>

#    include "intq/core/assert.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The values of one channel lie in runs: `inner` values, `stride` apart.
struct ChannelPlaces {
    index_t outer = 1, channels = 1, inner = 1;

    explicit ChannelPlaces(const Shape& shape) {
        if (shape.rank == 0) return;
        const int axis = shape.rank > 1 ? 1 : 0;
        channels = shape[axis];
        for (int i = 0; i < axis; ++i) outer *= shape[i];
        for (int i = axis + 1; i < shape.rank; ++i) inner *= shape[i];
    }
    /// visit(first) for the first place of each run of a channel.
    template <class Visit> void for_each_run(index_t channel, Visit&& visit) const {
        for (index_t o = 0; o < outer; ++o) visit((o * channels + channel) * inner);
    }
    /// visit(place) for each value of a channel.
    template <class Visit> void for_each(index_t channel, Visit&& visit) const {
        for_each_run(channel, [&](index_t first) {
            for (index_t i = 0; i < inner; ++i) visit(static_cast<std::size_t>(first + i));
        });
    }
};

/// The range of finite values; empty while `min` is above `max`.
struct FiniteRange {
    float min = INFINITY, max = -INFINITY;

    void add(float value) {
        if (!std::isfinite(value)) return;
        min = (std::min)(min, value);
        max = (std::max)(max, value);
    }
    void add(const FiniteRange& other) {
        min = (std::min)(min, other.min);
        max = (std::max)(max, other.max);
    }
    bool empty() const { return min > max; }
};

class PairedHistogramMaker {
public:
    explicit PairedHistogramMaker(const FiniteRange& range) {
        result_.lowest = range.empty() ? 0.0 : static_cast<double>(range.min);
        result_.highest = range.empty() ? 0.0 : static_cast<double>(range.max);
        result_.baseline.assign(PairedValues::bins, 0);
        result_.analysis.assign(PairedValues::bins, 0);
        const double width = result_.highest - result_.lowest;
        per_unit_ = width > 0.0 ? static_cast<double>(PairedValues::bins) / width : 0.0;
    }
    void add(float baseline, float analysis) {
        count(result_.baseline, baseline);
        count(result_.analysis, analysis);
    }
    PairedHistogram take() { return std::move(result_); }

private:
    void count(std::vector<std::int64_t>& counts, float value) const {
        if (!std::isfinite(value)) return;
        const double at = (static_cast<double>(value) - result_.lowest) * per_unit_;
        ++counts[(std::min)(static_cast<std::size_t>((std::max)(at, 0.0)), PairedValues::bins - 1)];
    }
    PairedHistogram result_;
    double per_unit_ = 0.0;
};

/// The channels with an error, the largest first; equal ones in channel order.
INTQ_INLINE std::vector<index_t> worst_of(const std::vector<double>& errors) {
    std::vector<index_t> order;
    for (std::size_t c = 0; c < errors.size(); ++c)
        if (errors[c] > 0.0) order.push_back(static_cast<index_t>(c));
    std::sort(order.begin(), order.end(), [&](index_t a, index_t b) {
        const double x = errors[static_cast<std::size_t>(a)], y = errors[static_cast<std::size_t>(b)];
        return x != y ? x > y : a < b;
    });
    if (order.size() > PairedValues::most_worst) order.resize(PairedValues::most_worst);
    return order;
}

struct PairedChannelNumbers {
    std::vector<FiniteRange> baseline, analysis;
    std::vector<double> errors;
};

INTQ_INLINE PairedChannelNumbers numbers_of_channels(std::span<const float> x, std::span<const float> y,
                                                     const ChannelPlaces& places) {
    PairedChannelNumbers numbers;
    for (index_t c = 0; c < places.channels; ++c) {
        FiniteRange of_x, of_y;
        double squares = 0.0;
        places.for_each(c, [&](std::size_t i) {
            of_x.add(x[i]);
            of_y.add(y[i]);
            const double error = static_cast<double>(y[i]) - static_cast<double>(x[i]);
            if (std::isfinite(error)) squares += error * error;
        });
        numbers.baseline.push_back(of_x);
        numbers.analysis.push_back(of_y);
        numbers.errors.push_back(
            std::sqrt(squares / static_cast<double>(std::max<index_t>(places.outer * places.inner, 1))));
    }
    return numbers;
}

/// Ranges of channels, merged as far as the report's limit requires.
INTQ_INLINE std::vector<ChannelRanges> ranges_of(const PairedChannelNumbers& numbers) {
    const std::size_t channels = numbers.baseline.size();
    const std::size_t shared = (channels + PairedValues::most_ranges - 1) / PairedValues::most_ranges;
    std::vector<ChannelRanges> ranges;
    for (std::size_t first = 0; first < channels; first += shared) {
        const std::size_t last = (std::min)(first + shared, channels);
        FiniteRange x, y;
        for (std::size_t c = first; c < last; ++c) {
            x.add(numbers.baseline[c]);
            y.add(numbers.analysis[c]);
        }
        if (x.empty()) x = {0.0f, 0.0f};
        if (y.empty()) y = {0.0f, 0.0f};
        ranges.push_back({static_cast<index_t>(first), static_cast<index_t>(last - first), x.min, x.max, y.min, y.max});
    }
    return ranges;
}

}  // namespace detail

INTQ_INLINE PairedValues pair_values(std::span<const float> baseline, std::span<const float> analysis,
                                     const Shape& shape) {
    INTQ_ASSERT(baseline.size() == analysis.size() && static_cast<std::size_t>(shape.size()) == baseline.size());
    PairedValues values;
    if (baseline.empty()) return values;
    const detail::ChannelPlaces places(shape);
    const detail::PairedChannelNumbers numbers = detail::numbers_of_channels(baseline, analysis, places);
    detail::FiniteRange range;
    for (std::size_t c = 0; c < numbers.baseline.size(); ++c) {
        range.add(numbers.baseline[c]);
        range.add(numbers.analysis[c]);
    }
    detail::PairedHistogramMaker all(range);
    for (std::size_t i = 0; i < baseline.size(); ++i) {
        values.not_finite_baseline += std::isfinite(baseline[i]) ? 0 : 1;
        values.not_finite_analysis += std::isfinite(analysis[i]) ? 0 : 1;
        all.add(baseline[i], analysis[i]);
    }
    values.all = all.take();
    if (shape.rank < 2) return values;
    values.channels = detail::ranges_of(numbers);
    for (const index_t channel : detail::worst_of(numbers.errors)) {
        const auto c = static_cast<std::size_t>(channel);
        detail::FiniteRange of_channel = numbers.baseline[c];
        of_channel.add(numbers.analysis[c]);
        detail::PairedHistogramMaker histogram(of_channel);
        places.for_each(channel, [&](std::size_t i) { histogram.add(baseline[i], analysis[i]); });
        values.worst_channels.push_back({channel, numbers.errors[c], histogram.take()});
    }
    return values;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_report)
#endif  // INTQ_ANALYSIS_INTERNAL_REPORT_PAIRED_VALUES_HPP
