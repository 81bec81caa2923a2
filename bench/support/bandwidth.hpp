// SPDX-License-Identifier: MIT
//
// How fast one core reads and copies in each level of memory.
#ifndef INTQ_BENCH_SUPPORT_BANDWIDTH_HPP
#define INTQ_BENCH_SUPPORT_BANDWIDTH_HPP

#include <cstddef>
#include <string>
#include <vector>

namespace intq_bench {

/// A level of memory and what was measured with half of it as working set (four times the last cache for DRAM).
struct MemoryLevel {
    std::string name;
    std::size_t size = 0;         // bytes; 0: without limit
    std::size_t working_set = 0;  // bytes that were read, and in two halves copied
    double read = 0.0;            // bytes a second
    double copy = 0.0;            // bytes copied a second, by memcpy
};

/// L1, L2, L3 as far as the system tells their sizes, and DRAM; not measured yet.
std::vector<MemoryLevel> memory_levels();

/// Fills in `read` and `copy`; takes about `seconds` a figure, or as long as `least_samples` passes over the memory
/// take.
void measure_bandwidth(std::vector<MemoryLevel>& levels, double seconds, std::size_t least_samples);

/// Bytes a second of reading the same `bytes` again and again: a working set between two levels has a rate of its own.
double read_rate(std::size_t bytes, double seconds);

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_BANDWIDTH_HPP
