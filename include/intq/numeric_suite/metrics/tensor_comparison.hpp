// SPDX-License-Identifier: MIT
//
// TensorComparison: all metrics of two streams of tensors from one pass. Layer: numeric_suite
// (docs/workflow.md section 6).
#ifndef INTQ_NUMERIC_SUITE_METRICS_TENSOR_COMPARISON_HPP
#define INTQ_NUMERIC_SUITE_METRICS_TENSOR_COMPARISON_HPP

#include <cstdint>
#include <span>

#include "intq/core/abi.hpp"
#include "intq/core/shape.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

/// Sums over pairs of elements, from which every metric of metrics.hpp follows. Tensors are added one after the other
/// and are not kept, so any number of batches is compared in the memory of one.
///
/// Result   as the functions of metrics.hpp on all elements, in double
/// Memory   fixed
class TensorComparison {
public:
    /// @param x  the reference
    /// @throws Error when the sizes differ, or do not match the shape
    void add(std::span<const float> x, std::span<const float> y, const Shape& shape);

    std::int64_t count() const noexcept { return count_; }
    double cosine() const noexcept;
    double mse() const noexcept { return errors_ / static_cast<double>(count_); }
    double l1() const noexcept { return distances_ / static_cast<double>(count_); }
    double kl() const noexcept { return divergences_ / static_cast<double>(count_); }
    double sqnr() const noexcept;
    double atol() const noexcept { return static_cast<double>(atol_); }
    double rtol() const noexcept { return static_cast<double>(rtol_); }

private:
    std::int64_t count_ = 0;
    double xx_ = 0, yy_ = 0, xy_ = 0, errors_ = 0, distances_ = 0, divergences_ = 0;
    float atol_ = 0, rtol_ = 0;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_metrics)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>

#    include "intq/numeric_suite/metrics/metrics.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void TensorComparison::add(std::span<const float> x, std::span<const float> y, const Shape& shape) {
    divergences_ += detail::sum_of_divergences(x, y, shape);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
        xx_ += a * a;
        yy_ += b * b;
        xy_ += a * b;
        errors_ += (a - b) * (a - b);
        distances_ += (std::abs)(a - b);
        atol_ = detail::larger(atol_, (std::abs)(x[i] - y[i]));
        rtol_ = (std::max)(rtol_, detail::relative_error(x[i], y[i]));
    }
    count_ += static_cast<std::int64_t>(x.size());
}

INTQ_INLINE double TensorComparison::cosine() const noexcept { return detail::cosine_of(xx_, yy_, xy_); }

INTQ_INLINE double TensorComparison::sqnr() const noexcept { return detail::sqnr_of(xx_, errors_); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

#endif  // INTQ_DEFINES(numeric_suite_metrics)
#endif  // INTQ_NUMERIC_SUITE_METRICS_TENSOR_COMPARISON_HPP
