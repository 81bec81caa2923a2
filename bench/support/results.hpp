// SPDX-License-Identifier: MIT
//
// What a bench found, one row a kernel; printed as tables, written as JSON and as a roofline.
#ifndef INTQ_BENCH_SUPPORT_RESULTS_HPP
#define INTQ_BENCH_SUPPORT_RESULTS_HPP

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "machine.hpp"
#include "sampling.hpp"

namespace intq_bench {

/// Another library's time for the same work, taken in the same rounds.
struct PeerTime {
    std::string name;
    double seconds = 0.0;
    std::optional<double> ratio;  // its time / ours
};

/// One kernel on one shape, or, where `refused` says why, only its peers.
struct Row {
    std::string group;  // the file of shapes that the row comes from: one table each
    std::string op, types, granularity, target, backend, layer;
    bool is_depthwise = false;
    double operations = 0.0, bytes = 0.0;  // of one call
    double seconds = 0.0;                  // median
    double spread = 0.0;                   // of the samples, relative
    std::string peak;                      // name of the peak loop; empty without one
    std::optional<double> part_of_peak, part_of_limit;
    std::optional<double> arena;  // bytes that a run of a program needs beside its constants
    std::vector<PeerTime> peers;
    std::string refused;

    /// op/types/granularity/target/backend/layer
    std::string label() const {
        return op + "/" + types + "/" + granularity + "/" + target + "/" + backend + "/" + layer;
    }
};

/// Time, spread and, where there is a peak, the part of it, from the samples of the row.
void fill(Row& row, const Measurement& own, const PeakLoop* peak);

/// Numbers beside the time of a row, by name.
using Counters = std::vector<std::pair<std::string, double>>;

/// Rate, spread, parts of the peak and of the limit, arena, and the ratio to each other library, as far as the row has
/// them.
Counters counters_of(const Row& row);

struct Results {
    Machine machine;
    std::vector<std::string> peers;  // names and versions, or why one is missing
    std::vector<Row> rows;
};

/// What the columns of the tables mean.
void print_legend();

/// The rows of one group as a table for each combination of types.
void print_group(const Results& results, const std::string& group);

/// Geometric means and minima over all rows, depthwise apart, by types, target and backend.
void print_summary(const Results& results);

/// @throws Error where the file cannot be written
void write_json(const Results& results, const std::string& path);

/// Arithmetic intensity against GOP/s, with the roofs of the instructions and of each level of memory, one dot a row.
///
/// @throws Error where the file cannot be written
void write_roofline(const Results& results, const std::string& path);

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_RESULTS_HPP
