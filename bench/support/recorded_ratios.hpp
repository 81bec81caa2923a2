// SPDX-License-Identifier: MIT
//
// Ratios to the peak that were reached before, by CPU and label, and whether they still are.
#ifndef INTQ_BENCH_SUPPORT_RECORDED_RATIOS_HPP
#define INTQ_BENCH_SUPPORT_RECORDED_RATIOS_HPP

#include <functional>
#include <string>
#include <vector>

#include "results.hpp"

namespace intq_bench {

/// A line `cpu label ratio` of the file; # starts a comment.
struct RecordedRatio {
    std::string cpu, label;
    double ratio = 0.0;
};

/// What a ratio may lose before the check fails.
inline constexpr double allowed_drop = 0.10;

/// What a check ends with where the file has no line for the CPU.
inline constexpr int nothing_recorded = 4;

/// Measures the rows that the file names for this CPU, and prints each beside its record. A row that fell is measured
/// twice more and the best counts, because a neighbour on the machine can only lower it.
///
/// @param measure  the rows whose labels a regular expression matches whole
/// @return 0; 1 where a ratio fell by more than allowed_drop, or a named row is gone; nothing_recorded
int check_recorded_ratios(const std::string& path, const std::string& cpu,
                          const std::function<std::vector<Row>(const std::string& filter)>& measure);

/// Measures three times and writes the best ratios: they replace those of the same CPU and label, all others stay.
///
/// @throws Error where the file cannot be written, or nothing has a ratio
void record_ratios(const std::string& path, const std::string& cpu, const std::function<std::vector<Row>()>& measure);

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_RECORDED_RATIOS_HPP
