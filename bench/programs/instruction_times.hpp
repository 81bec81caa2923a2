// SPDX-License-Identifier: MIT
//
// Where the time of a network goes: by instruction, and in shares by what the time is spent on.
#ifndef INTQ_BENCH_PROGRAMS_INSTRUCTION_TIMES_HPP
#define INTQ_BENCH_PROGRAMS_INSTRUCTION_TIMES_HPP

#include <string>
#include <vector>

#include "lowered_network.hpp"
#include "support/peaks.hpp"

namespace intq_bench {

/// Medians over runs.
struct InstructionTimes {
    std::vector<double> seconds;  // of each instruction, from the end of the one before it or the call of the run
    double behind = 0.0;          // seconds from the end of the last instruction to the return
    double peak_rate = 0.0;       // operations a second of the peak loop, just before each run; 0 without a loop
};

/// @param peak  may be null
InstructionTimes measure_instructions(const LoweredNetwork& network, const intq::Executor& executor,
                                      const PeakLoop* peak, int runs);

/// A line an instruction: time, rate and, unless `two` is null, how often two threads run it while one runs it once.
void print_instructions(const LoweredNetwork& network, const InstructionTimes& one, const InstructionTimes* two);

/// Shares of the time of one run, which add up to 1. Layers are convolutions and linear layers that are not depthwise.
///
///     dots      = operations of the layers / peak rate, taps on padding counted
///     around    = time of the layers - dots: loads, conversion, the epilogue, stores, the start of a layer
///
///     depthwise = time of the depthwise layers
///
///     memory    = time of quantize, dequantize and what only moves codes
///
///     rest      = time of all other instructions, which are pools here, and of the return
///
/// The peak is that of registers alone, so that `dots` is the least time of the products on this core. `around` is
/// below 0 where the peak loop met a lower clock than the layers.
struct TimeSplit {
    double dots = 0.0, around = 0.0, depthwise = 0.0, memory = 0.0, rest = 0.0;
};

/// @pre  times.peak_rate > 0
TimeSplit split_of(const LoweredNetwork& network, const InstructionTimes& times);

struct NamedSplit {
    std::string network;
    TimeSplit split;
};

/// A line a network, below the meaning of the columns.
void print_splits(const std::vector<NamedSplit>& splits);

}  // namespace intq_bench

#endif  // INTQ_BENCH_PROGRAMS_INSTRUCTION_TIMES_HPP
