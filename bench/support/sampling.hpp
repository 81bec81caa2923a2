// SPDX-License-Identifier: MIT
//
// Times several functions in alternating samples of one process, each beside the machine's peak of that moment.
//
//     round:   for each contender:  a few calls, unmeasured  |  peak loop  |  calls for at least 0.2 ms
//
// The unmeasured calls bring code and operands back into the caches that the other contenders used.
#ifndef INTQ_BENCH_SUPPORT_SAMPLING_HPP
#define INTQ_BENCH_SUPPORT_SAMPLING_HPP

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "peaks.hpp"

namespace intq_bench {

struct Contender {
    std::function<void()> run;       // empty where a kernel refuses the layer: it gets no samples
    const PeakLoop* peak = nullptr;  // what it is divided by; null: nothing
    std::string refused{};           // the reason
};

struct Sampling {
    double seconds = 0.25;         // for each contender
    double sample_seconds = 2e-4;  // the least length of a sample
    std::size_t rounds = 7;        // the least number
};

/// The samples of one contender, in the order of the rounds.
struct Measurement {
    std::vector<double> seconds;     // of one call
    std::vector<double> peak_rates;  // operations a second of the loop just before; empty without a loop

    double median_seconds() const;
    /// (90 % quantile - 10 % quantile) / median.
    double spread() const;
    /// Median of operations / (time · peak of the same moment); 0 without a loop.
    double part_of_peak(double operations) const;
    /// Adds the samples of another measurement of the same contender.
    void append(const Measurement& other);
};

/// A measurement of each contender, in their order.
std::vector<Measurement> measure_in_turns(std::span<const Contender> contenders, const Sampling& sampling);

/// Median over the rounds of other's time divided by ours: above 1 where ours is faster.
double median_ratio(const Measurement& other, const Measurement& ours);

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_SAMPLING_HPP
