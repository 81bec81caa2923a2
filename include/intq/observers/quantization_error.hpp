// SPDX-License-Identifier: MIT
//
// The error that fake-quantization with a given range would make on observed data. Layer: observers
// (docs/workflow.md section 1).
#ifndef INTQ_OBSERVERS_QUANTIZATION_ERROR_HPP
#define INTQ_OBSERVERS_QUANTIZATION_ERROR_HPP

#include "intq/arith/ieee.hpp"
#include "intq/observers/grid_histogram.hpp"

namespace intq::observers {
inline namespace INTQ_ABI {

namespace detail {

/// Integral of the squared error of rounding and clamping to the integers of [lowest, highest], from 0 to u.
///
///     F(u) = m/12 + (u - m)^3/3,  m = fl(u + 1/2)                  lowest <= u <= highest
///     F(u) = F(end) + (u - end)^3/3                                beyond that end
constexpr double squared_error_integral(double u, double lowest, double highest) noexcept {
    const auto third_of_cube = [](double x) { return arith::dmul(arith::dmul(arith::dmul(x, x), x), 1.0 / 3.0); };
    const auto inside = [&](double x) {
        const double m = arith::floor(x + 0.5);
        return arith::dmul(m, 1.0 / 12.0) + third_of_cube(x - m);
    };
    if (u > highest) return inside(highest) + third_of_cube(u - highest);
    if (u < lowest) return inside(lowest) + third_of_cube(u - lowest);
    return inside(u);
}

}  // namespace detail

/// Sum of squared errors of a grid of codes on data whose values lie evenly in each bin.
///
///     sum over bins of  n · s² · mean of (u - clamp(R(u)))² over the bin,   u = x / s
///
/// @param range  the scale is made from it
/// @pre histogram.seen(); arith::check_range_rule()
/// @return the sum; the errors of arith::qparams_from_range()
///
/// Result   of the data to the width of a bin: exact where a bin holds one value; the same bits on every backend
/// Cost     O(bins)
/// Source   our derivation
inline Result<double> quantization_error(const GridHistogram& histogram, const ValueRange& range,
                                         const arith::RangeRule& rule) noexcept {
    const Result<arith::ScaleZeroPoint> qparams = arith::qparams_from_range(range.lowest, range.highest, rule);
    if (!qparams.ok()) return qparams.status();
    const double scale = static_cast<double>(qparams->scale);
    const double lowest = static_cast<double>(rule.quant_min - qparams->zero_point);
    const double highest = static_cast<double>(rule.quant_max - qparams->zero_point);
    double sum = 0.0;
    for (index_t bin = 0; bin < histogram.used(); ++bin) {
        const std::int64_t count = histogram.counts()[static_cast<std::size_t>(bin)];
        if (count == 0) continue;
        const auto [from, to] = histogram.interval(bin);
        const double a = from / scale, b = to / scale;
        double mean;
        if (b - a > 1e-9) {
            mean = (detail::squared_error_integral(b, lowest, highest) -
                    detail::squared_error_integral(a, lowest, highest)) /
                   (b - a);
        } else {
            const double code = arith::round_half_even(a);
            const double error = a - (code < lowest ? lowest : code > highest ? highest : code);
            mean = arith::dmul(error, error);
        }
        sum += arith::dmul(static_cast<double>(count), mean);
    }
    return arith::dmul(sum, arith::dmul(scale, scale));
}

namespace detail {

/// The candidate with the least error; of equal ones the first.
template <class Candidate>
Result<ValueRange> least_error(const GridHistogram& histogram, const arith::RangeRule& rule, index_t candidates,
                               Candidate&& candidate) noexcept {
    ValueRange best = histogram.range();
    double least = -1.0;
    for (index_t i = 0; i < candidates; ++i) {
        const ValueRange range = candidate(i);
        const Result<double> error = quantization_error(histogram, range, rule);
        if (!error.ok()) return error.status();
        if (least >= 0.0 && *error >= least) continue;
        least = *error;
        best = range;
    }
    return best;
}

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::observers

#endif  // INTQ_OBSERVERS_QUANTIZATION_ERROR_HPP
