// SPDX-License-Identifier: MIT
//
// What a result says about where it was measured, and the roofs of that machine.
#ifndef INTQ_BENCH_SUPPORT_MACHINE_HPP
#define INTQ_BENCH_SUPPORT_MACHINE_HPP

#include <string>
#include <vector>

#include "bandwidth.hpp"
#include "peaks.hpp"

namespace intq_bench {

/// Binds the process to the last of the processors that it may use, where the system can: what is measured then stays
/// in one core's caches. A process that was started on one processor (taskset) stays there.
///
/// @return the processor; -1 where the system cannot
int pin_to_one_processor();

/// Rate of a peak loop, or why there is none.
struct PeakRate {
    std::string name;
    double operations = 0.0;  // a second; 0 where skipped
    std::string skipped;      // the reason
};

struct Machine {
    int processor = -1;   // that the process is bound to
    std::string cpu;      // the model's name
    std::string cpu_key;  // vendor-family-model, for comparing with recorded ratios
    std::string compiler;
    std::vector<PeakRate> peaks;
    std::vector<MemoryLevel> memory;
};

/// Pins the process, then measures the machine; takes about five seconds, `quick` one.
Machine measure_machine(bool quick);

/// Prints peaks and bandwidths, with the reason of everything skipped.
void print_machine(const Machine& machine);

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_MACHINE_HPP
