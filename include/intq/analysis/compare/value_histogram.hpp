// SPDX-License-Identifier: MIT
//
// ValueHistogram: counts of values by magnitude, without a range known in advance. Layer: analysis.
#ifndef INTQ_ANALYSIS_COMPARE_VALUE_HISTOGRAM_HPP
#define INTQ_ANALYSIS_COMPARE_VALUE_HISTOGRAM_HPP

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "intq/core/abi.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// Counts of values by sign, power of two and eighth of it, so a bucket's width is at most an eighth of its values'
/// magnitude. Only buckets with values take memory. Infinities and NaN are not counted.
class ValueHistogram {
public:
    /// Values from `lowest` to below `highest`; of negative values from above `lowest` to `highest`.
    struct Bucket {
        double lowest = 0, highest = 0;
        std::int64_t count = 0;
    };

    void add(std::span<const float> values);
    /// In rising order.
    std::vector<Bucket> buckets() const;
    std::int64_t count() const noexcept { return count_; }
    double sum() const noexcept { return sum_; }
    double sum_of_squares() const noexcept { return sum_of_squares_; }

private:
    std::vector<std::pair<std::int32_t, std::int64_t>> counts_;  // by the number of the bucket, rising
    std::int64_t count_ = 0;
    double sum_ = 0, sum_of_squares_ = 0;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_compare)

#    include <algorithm>
#    include <bit>
#    include <cmath>
#    include <cstddef>

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

// The upper 11 bits of a magnitude (exponent, and three bits of the mantissa) number its bucket, from 0 on.
inline constexpr int bucket_bits = 31 - 20;
inline constexpr std::int32_t bucket_count = 1 << bucket_bits;

/// Negative values have the numbers -1 - bucket of the magnitude.
INTQ_INLINE std::int32_t bucket_of(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const auto magnitude = static_cast<std::int32_t>((bits & 0x7fffffffu) >> 20);
    return bits >> 31 != 0 ? -1 - magnitude : magnitude;
}

/// The least magnitude of a bucket.
INTQ_INLINE double edge_of(std::int32_t bucket) {
    const float edge = std::bit_cast<float>(static_cast<std::uint32_t>(bucket) << 20);
    return static_cast<double>(edge);
}

}  // namespace detail

INTQ_INLINE void ValueHistogram::add(std::span<const float> values) {
    std::vector<std::int64_t> counts(2 * static_cast<std::size_t>(detail::bucket_count), 0);
    for (const float value : values) {
        if (!std::isfinite(value)) continue;
        ++counts[static_cast<std::size_t>(detail::bucket_of(value) + detail::bucket_count)];
        ++count_;
        sum_ += static_cast<double>(value);
        sum_of_squares_ += static_cast<double>(value) * static_cast<double>(value);
    }
    for (const auto& [bucket, count] : counts_)
        counts[static_cast<std::size_t>(bucket + detail::bucket_count)] += count;
    counts_.clear();
    for (std::size_t i = 0; i < counts.size(); ++i)
        if (counts[i] != 0) counts_.emplace_back(static_cast<std::int32_t>(i) - detail::bucket_count, counts[i]);
}

INTQ_INLINE std::vector<ValueHistogram::Bucket> ValueHistogram::buckets() const {
    std::vector<Bucket> buckets;
    for (const auto& [bucket, count] : counts_) {
        if (bucket >= 0)
            buckets.push_back({detail::edge_of(bucket), detail::edge_of(bucket + 1), count});
        else
            buckets.push_back({-detail::edge_of(-bucket), -detail::edge_of(-1 - bucket), count});
    }
    return buckets;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_compare)
#endif  // INTQ_ANALYSIS_COMPARE_VALUE_HISTOGRAM_HPP
