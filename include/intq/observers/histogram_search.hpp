// SPDX-License-Identifier: MIT
//
// PyTorch's search for the part of a histogram that quantizes best. Layer: observers (docs/workflow.md section 1).
#ifndef INTQ_OBSERVERS_HISTOGRAM_SEARCH_HPP
#define INTQ_OBSERVERS_HISTOGRAM_SEARCH_HPP

#include "intq/arith/ieee.hpp"
#include "intq/observers/grid_histogram.hpp"

namespace intq::observers {
inline namespace INTQ_CORE_ABI {

/// Counts in equal bins between two values.
struct FloatHistogram {
    std::span<const float> counts;
    float lowest = 0.0f;
    float highest = 0.0f;
    INTQ_ALWAYS_INLINE index_t bins() const noexcept { return static_cast<index_t>(counts.size()); }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::observers

namespace intq::observers {
inline namespace INTQ_ABI {

namespace detail {

/// Error of quantizing bins [first, last] of a histogram to `codes` equal steps, the rest clamped to them.
class HistogramError {
public:
    HistogramError(const FloatHistogram& histogram, std::int64_t codes) noexcept
        : histogram_(histogram),
          codes_(static_cast<double>(codes)),
          width_((static_cast<double>(histogram.highest) - static_cast<double>(histogram.lowest)) /
                 static_cast<double>(histogram.bins())) {}

    double operator()(index_t first, index_t last) const noexcept {
        const double step_width = arith::dmul(width_, static_cast<double>(last - first + 1)) / codes_;
        if (step_width == 0.0) return 0.0;
        const auto step = static_cast<float>(step_width), half = static_cast<float>(step_width / 2.0);
        const auto width = static_cast<float>(width_), most = static_cast<float>(codes_ - 1.0);
        double total = 0.0;
        for (index_t i = 0; i < histogram_.bins(); ++i) {
            const float begin = fmul(static_cast<float>(i - first), width), end = fadd(begin, width);
            const float d0 = clamp(arith::floor(fdiv(begin, step)), most),
                        d1 = clamp(arith::floor(fdiv(end, step)), most);
            const float density = fdiv(histogram_.counts[static_cast<std::size_t>(i)], width);
            float error = norm(density, fadd(begin, -fmul(fadd(d0, 0.5f), step)), half);
            error = fadd(error, fmul(fadd(fadd(d1, -d0), -1.0f), norm(density, -half, half)));
            error = fadd(error, norm(density, -half, fadd(end, -fadd(fmul(d1, step), half))));
            total += static_cast<double>(error);
        }
        return total;
    }

private:
    static float fadd(float a, float b) noexcept { return arith::fadd(a, b); }
    static float fmul(float a, float b) noexcept { return arith::fmul(a, b); }
    static float fdiv(float a, float b) noexcept { return arith::fdiv(a, b); }
    static float clamp(float x, float most) noexcept { return x < 0.0f ? 0.0f : x > most ? most : x; }
    static float cube(float x) noexcept { return fmul(fmul(x, x), x); }
    /// density · integral of x² from a to b
    static float norm(float density, float a, float b) noexcept {
        return fmul(density, fdiv(fadd(cube(b), -cube(a)), 3.0f));
    }

    FloatHistogram histogram_;
    double codes_, width_;
};

}  // namespace detail

/// Cuts a histogram from its ends while the error falls.
///
/// The bins at the ends are offered in steps of 1e-5 of the values, at the end where more bins hold that many. The
/// search stops at the first cut that errs more than the one before. The whole range is never weighed: the first cut is
/// always taken.
///
/// @param codes    number of codes: 256 for 8-bit types, whatever range of them is used
/// @param running  (bins) of scratch
/// @pre at least one count is not 0
///
/// Result   the bits of PyTorch
/// Cost     O(bins²) at most
/// Source   PyTorch 2.6, HistogramObserver._non_linear_param_search
inline ValueRange search_histogram(const FloatHistogram& histogram, std::int64_t codes,
                                   std::span<float> running) noexcept {
    const detail::HistogramError error(histogram, codes);
    double total = 0.0;
    float sum = 0.0f;
    for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
        total += static_cast<double>(histogram.counts[i]);
        running[i] = sum = arith::fadd(sum, histogram.counts[i]);
    }
    const auto at = [&](index_t i) { return running[static_cast<std::size_t>(i)]; };
    constexpr double step = 1e-5;
    double alpha = 0.0, beta = 1.0, best = std::numeric_limits<double>::infinity();
    index_t first = 0, last = histogram.bins() - 1;
    while (alpha < beta) {
        const double next_alpha = alpha + step, next_beta = beta - step;
        const auto low = static_cast<float>(arith::dmul(next_alpha, total));
        const auto high = static_cast<float>(arith::dmul(next_beta, total));
        index_t left = first, right = last, next_first = first, next_last = last;
        while (left < last && at(left) < low) ++left;
        while (right > first && at(right) > high) --right;
        if (left - first > last - right) {
            next_first = left;
            alpha = next_alpha;
        } else {
            next_last = right;
            beta = next_beta;
        }
        if (next_first == first && next_last == last) continue;
        const double now = error(next_first, next_last);
        if (now > best) break;
        best = now;
        first = next_first;
        last = next_last;
    }
    const float width =
        arith::fdiv(arith::fadd(histogram.highest, -histogram.lowest), static_cast<float>(histogram.bins()));
    const auto edge = [&](index_t bin) {
        return arith::fadd(histogram.lowest, arith::fmul(width, static_cast<float>(bin)));
    };
    return {edge(first), edge(last + 1)};
}

/// The same search over the counts of a grid, which do not depend on the order of the data. The bins start and end at
/// the bins of the extremes; the result is clipped to the extremes.
///
/// @param scratch  2 · histogram.bins() floats
/// @pre histogram.seen()
inline ValueRange search_range(const GridHistogram& histogram, std::int64_t codes,
                               std::span<float> scratch) INTQ_NOEXCEPT {
    INTQ_ASSERT(histogram.seen() && static_cast<index_t>(scratch.size()) >= 2 * histogram.bins());
    const auto used = static_cast<std::size_t>(histogram.used());
    const ValueRange& data = histogram.range();
    if (data.lowest == data.highest) return data;
    for (std::size_t i = 0; i < used; ++i) scratch[i] = static_cast<float>(histogram.counts()[i]);
    // The search cubes floats. Very large and very small data are searched at another scale, which changes nothing
    // else.
    const float largest = -data.lowest > data.highest ? -data.lowest : data.highest;
    const int exponent = arith::frexp(static_cast<double>(largest)).exponent;
    const int shift = exponent > 30 || exponent < -30 ? exponent : 0;
    const auto edge = [&](index_t bin) {
        return static_cast<float>(static_cast<double>(histogram.state().grid.first + bin) *
                                  arith::dmul(histogram.width(), arith::power_of_two(-shift)));
    };
    const FloatHistogram bins{scratch.first(used), edge(0), edge(histogram.used())};
    const ValueRange scaled = search_histogram(bins, codes, scratch.subspan(used, used));
    const double low = arith::dmul(static_cast<double>(scaled.lowest), arith::power_of_two(shift)),
                 high = arith::dmul(static_cast<double>(scaled.highest), arith::power_of_two(shift));
    // In double, because the end of the last bin may lie beyond the largest float.
    return {low < static_cast<double>(data.lowest) ? data.lowest : static_cast<float>(low),
            high > static_cast<double>(data.highest) ? data.highest : static_cast<float>(high)};
}

}  // namespace INTQ_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_HISTOGRAM_SEARCH_HPP
