// SPDX-License-Identifier: MIT
//
// Time and medians.
#ifndef INTQ_BENCH_SUPPORT_CLOCK_HPP
#define INTQ_BENCH_SUPPORT_CLOCK_HPP

#include <algorithm>
#include <chrono>
#include <vector>

namespace intq_bench {

/// Seconds from a fixed moment; never goes back.
inline double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The value below which `part` of the others lie; 0 without values.
inline double quantile(std::vector<double> values, double part) {
    if (values.empty()) return 0.0;
    const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1) + 0.5);
    std::nth_element(values.begin(), values.begin() + at, values.end());
    return values[static_cast<std::size_t>(at)];
}

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_CLOCK_HPP
