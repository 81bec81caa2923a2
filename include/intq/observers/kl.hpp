// SPDX-License-Identifier: MIT
//
// The range whose quantized distribution diverges least from the data's. Layer: observers
// (docs/workflow.md section 1).
#ifndef INTQ_OBSERVERS_KL_HPP
#define INTQ_OBSERVERS_KL_HPP

#include "intq/arith/ieee.hpp"
#include "intq/arith/real_functions.hpp"
#include "intq/observers/percentile.hpp"

namespace intq::observers {
inline namespace INTQ_ABI {

namespace detail {

/// x · ln(x), 0 for 0.
constexpr double x_log_x(double x) noexcept { return x > 0.0 ? arith::dmul(x, arith::real_log(x)) : 0.0; }

/// Sums of the bins of |x| before each one: of counts, of x_log_x(count) and of bins that are not empty.
struct MagnitudeSums {
    std::span<double> counts, logs, filled;
    double width = 0.0;
    index_t bins = 0;

    /// @param scratch  3 · (histogram.bins() + 1) numbers
    MagnitudeSums(const GridHistogram& histogram, std::span<double> scratch) noexcept {
        const auto stride = static_cast<std::size_t>(histogram.bins() + 1);
        counts = scratch.subspan(0, stride);
        logs = scratch.subspan(stride, stride);
        filled = scratch.subspan(2 * stride, stride);
        for (double& value : counts) value = 0.0;
        const std::int64_t first = histogram.state().grid.first, last = first + histogram.used() - 1;
        const auto magnitude = [](std::int64_t bin) { return bin >= 0 ? bin : -bin - 1; };
        const std::int64_t largest = magnitude(first) > magnitude(last) ? magnitude(first) : magnitude(last);
        // Data far from 0 have more magnitudes than bins: they are joined, as a wider grid would.
        int shift = 0;
        while ((largest >> shift) >= histogram.bins()) ++shift;
        bins = static_cast<index_t>(largest >> shift) + 1;
        width = arith::dmul(histogram.width(), arith::power_of_two(shift));
        for (index_t i = 0; i < histogram.used(); ++i)
            counts[static_cast<std::size_t>((magnitude(first + i) >> shift) + 1)] +=
                static_cast<double>(histogram.counts()[static_cast<std::size_t>(i)]);
        // Zero is a code of every grid, and the zeros of a ReLU would outweigh all else.
        if (bins > 1) counts[1] = counts[2];
        logs[0] = filled[0] = 0.0;
        for (std::size_t i = 1; i <= static_cast<std::size_t>(bins); ++i) {
            logs[i] = logs[i - 1] + x_log_x(counts[i]);
            filled[i] = filled[i - 1] + (counts[i] > 0.0 ? 1.0 : 0.0);
            counts[i] += counts[i - 1];
        }
    }

    /// Divergence of the first `length` bins from their quantized form, less the terms that are the same for all
    /// lengths; a negative number means that it is infinite.
    ///
    ///     P = the counts, those beyond added to the last bin;  Q = in each of `levels` groups the mean of its counts
    ///     total · KL(P, Q) = sum P ln P - sum P ln Q, Q normalized to the sum of P
    double divergence(index_t length, index_t levels, bool& infinite) const noexcept {
        const auto at = [](index_t i) { return static_cast<std::size_t>(i); };
        const double total = counts[at(bins)], kept = counts[at(length)], outside = total - kept;
        const double last = kept - counts[at(length - 1)];
        double sum = logs[at(length - 1)] + x_log_x(last + outside);
        infinite = kept == 0.0;
        for (index_t level = 0; level < levels && !infinite; ++level) {
            const index_t from = length * level / levels, to = length * (level + 1) / levels;
            const double mass = counts[at(to)] - counts[at(from)];
            const double p = mass + (to == length ? outside : 0.0);
            if (p == 0.0) continue;
            const double places =
                filled[at(to)] - filled[at(from)] + (to == length && last == 0.0 && outside > 0.0 ? 1.0 : 0.0);
            infinite = mass == 0.0;
            if (!infinite) sum -= arith::dmul(p, arith::real_log(arith::dmul(mass / places, total / kept)));
        }
        return sum;
    }
};

}  // namespace detail

/// Numbers of scratch that kl_range() needs for a histogram of `bins` bins.
constexpr index_t kl_scratch_size(index_t bins) noexcept { return 3 * (bins + 1); }

/// The symmetric range whose quantized distribution of |x| has the least Kullback-Leibler divergence.
///
///     lengths i = max(levels, 128), …, bins of |x|;  levels = fl((quant_max - quant_min + 1) / 2)
///     threshold = i · width for the i of the least divergence, the shortest of equal ones
///     range     = [max(lowest, -threshold), min(highest, threshold)]
///
/// The bin of 0 counts as many values as the next one: zeros are quantized without error, and after a ReLU they would
/// outweigh all else. With no more bins than levels the whole range is kept: such a histogram cannot tell (int16).
///
/// @param scratch  kl_scratch_size(histogram.bins()) numbers
/// @pre histogram.seen()
///
/// Result   the threshold to the width of a bin; the same bits for any order of the data and every standard library
/// Cost     O(bins · levels)
/// Source   entropy calibration: Migacz, "8-bit inference with TensorRT", 2017; the bin of 0 as in NVIDIA's
///          pytorch-quantization
inline ValueRange kl_range(const GridHistogram& histogram, const arith::RangeRule& rule,
                           std::span<double> scratch) INTQ_NOEXCEPT {
    INTQ_ASSERT(histogram.seen() && static_cast<index_t>(scratch.size()) >= kl_scratch_size(histogram.bins()));
    const detail::MagnitudeSums sums(histogram, scratch);
    const auto levels = static_cast<index_t>((rule.quant_max - rule.quant_min + 1) / 2);
    index_t best = sums.bins;
    double least = 0.0;
    bool found = false;
    for (index_t length = levels < 128 ? 128 : levels; length <= sums.bins; ++length) {
        bool infinite = false;
        const double divergence = sums.divergence(length, levels, infinite);
        if (infinite || (found && divergence >= least)) continue;
        least = divergence;
        best = length;
        found = true;
    }
    const auto threshold = static_cast<float>(arith::dmul(static_cast<double>(best), sums.width));
    return clip_range(histogram.range(), -threshold, threshold);
}

}  // namespace INTQ_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_KL_HPP
