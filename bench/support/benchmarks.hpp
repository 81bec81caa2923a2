// SPDX-License-Identifier: MIT
//
// The rows of a bench as benchmarks of Google Benchmark, so that its filter, repetitions, JSON and compare.py work.
//
//     name         the row's label
//     manual time  of one call: the median over the rounds in which the row and what it is compared with ran in turns
//     CPU time     of one call, in a sample behind these rounds
//     counters     the row's ratios to other libraries and to the limits, from the same rounds
//
// A repetition is a measurement of its own. <output>/<program>.json holds what Google Benchmark writes.
#ifndef INTQ_BENCH_SUPPORT_BENCHMARKS_HPP
#define INTQ_BENCH_SUPPORT_BENCHMARKS_HPP

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "results.hpp"

namespace benchmark {
class State;
}

namespace intq_bench {

/// Rows that are measured together, in alternating samples.
struct Turns {
    std::vector<std::string> labels;
    /// Makes ready what runs: ours in the order of the labels, then what they are compared with.
    std::function<std::vector<Contender>()> prepare;
    /// What is reported of a row beside its time, from one measurement.
    std::function<Counters(std::size_t row, std::span<const Measurement>)> counters;
    /// Called when all repetitions are done, with the samples of all.
    std::function<void(std::span<const Measurement>)> finish;
    /// Called behind each measurement, for what cannot run in turns; may be empty.
    std::function<void()> beside{};
};

/// The samples of several measurements of the same contenders.
std::vector<Measurement> merged(std::span<const std::vector<Measurement>> measurements);

/// The benchmarks of a program. Google Benchmark keeps them in one list, so that there is one object of this class.
class Benchmarks {
public:
    explicit Benchmarks(const Arguments& arguments);
    Benchmarks(const Benchmarks&) = delete;
    Benchmarks& operator=(const Benchmarks&) = delete;
    ~Benchmarks();

    /// Adds a benchmark for each label; without labels nothing.
    void add(Turns turns);

    /// Tells the JSON file something about the run.
    static void describe(const std::string& key, const std::string& value);

    /// How many were added.
    std::size_t size() const noexcept { return rows_; }

    /// Runs all of them, in the order in which they were added, or lists them.
    void run();

private:
    struct Added;

    void run_row(benchmark::State& state, Added& added, std::size_t row);
    void start(Added& added);
    void finish_current();

    Arguments arguments_;
    std::vector<std::unique_ptr<Added>> added_;
    Added* current_ = nullptr;
    std::size_t rows_ = 0;
};

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_BENCHMARKS_HPP
