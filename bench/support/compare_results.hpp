// SPDX-License-Identifier: MIT
//
// Two files of results beside each other: of two machines, two compilers or two commits.
#ifndef INTQ_BENCH_SUPPORT_COMPARE_RESULTS_HPP
#define INTQ_BENCH_SUPPORT_COMPARE_RESULTS_HPP

#include <string>
#include <vector>

namespace intq_bench {

/// The time of one row.
struct RowTime {
    std::string label;
    double seconds = 0.0;  // median of its repetitions
    double spread = 0.0;   // of the repetitions, relative
};

/// The rows of a file that a bench wrote: results.json, or one in Google Benchmark's form, of which the repetitions of
/// a benchmark are one row. Rows without a time are left out.
///
/// @throws Error where the file cannot be read, is no JSON or has neither form
std::vector<RowTime> read_row_times(const std::string& path);

/// A table of the rows of both files, in the first one's order: both times and second / first, marked where it is off 1
/// by more than both spreads; then the geometric mean, and what only one file has.
///
/// @throws Error where no row is in both
std::string compare_results(const std::vector<RowTime>& first, const std::vector<RowTime>& second);

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_COMPARE_RESULTS_HPP
