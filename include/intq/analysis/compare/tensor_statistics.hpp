// SPDX-License-Identifier: MIT
//
// TensorStatistics: least, largest, mean and variance of a stream of tensors. Layer: analysis
// (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_COMPARE_TENSOR_STATISTICS_HPP
#define INTQ_ANALYSIS_COMPARE_TENSOR_STATISTICS_HPP

#include <cstdint>
#include <limits>
#include <span>

#include "intq/core/abi.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// Statistics of all values that were added. A NaN among them makes each of them NaN.
///
/// Result   sums in double; the variance by the deviations from the mean of each tensor, joined as Chan et al. do
/// Memory   fixed
/// Source   Chan, Golub, LeVeque 1979: Updating formulae and a pairwise algorithm for computing sample variances
class TensorStatistics {
public:
    void add(std::span<const float> values);
    void merge(const TensorStatistics& other);

    std::int64_t count() const noexcept { return count_; }
    /// NaN before any value.
    double(min)() const noexcept { return count_ == 0 ? not_a_number : static_cast<double>(min_); }
    double(max)() const noexcept { return count_ == 0 ? not_a_number : static_cast<double>(max_); }
    double mean() const noexcept { return count_ == 0 ? not_a_number : mean_; }
    /// Divided by n - 1; NaN for a single value.
    double var() const noexcept { return count_ < 2 ? not_a_number : squares_ / static_cast<double>(count_ - 1); }

private:
    static constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

    std::int64_t count_ = 0;
    float min_ = 0, max_ = 0;
    double mean_ = 0;
    double squares_ = 0;  // sum of squared deviations from the mean
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_compare)

#    include <cmath>

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void TensorStatistics::add(std::span<const float> values) {
    if (values.empty()) return;
    TensorStatistics one;
    one.count_ = static_cast<std::int64_t>(values.size());
    one.min_ = one.max_ = values.front();
    double sum = 0;
    for (const float value : values) {
        // A comparison with NaN is false, so that a NaN stays once it is there.
        if (value < one.min_ || std::isnan(value)) one.min_ = value;
        if (value > one.max_ || std::isnan(value)) one.max_ = value;
        sum += static_cast<double>(value);
    }
    one.mean_ = sum / static_cast<double>(one.count_);
    for (const float value : values) {
        const double deviation = static_cast<double>(value) - one.mean_;
        one.squares_ += deviation * deviation;
    }
    merge(one);
}

INTQ_INLINE void TensorStatistics::merge(const TensorStatistics& other) {
    if (other.count_ == 0) return;
    if (count_ == 0) {
        *this = other;
        return;
    }
    if (other.min_ < min_ || std::isnan(other.min_)) min_ = other.min_;
    if (other.max_ > max_ || std::isnan(other.max_)) max_ = other.max_;
    const double a = static_cast<double>(count_), b = static_cast<double>(other.count_);
    const double difference = other.mean_ - mean_;
    squares_ += other.squares_ + difference * difference * a * b / (a + b);
    mean_ += difference * b / (a + b);
    count_ += other.count_;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_compare)
#endif  // INTQ_ANALYSIS_COMPARE_TENSOR_STATISTICS_HPP
