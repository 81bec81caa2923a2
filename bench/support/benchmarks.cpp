// SPDX-License-Identifier: MIT
#include "benchmarks.hpp"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "intq/io/error.hpp"

namespace intq_bench {

namespace {

/// Prints nothing: the bench has tables of its own.
class Silent : public benchmark::BenchmarkReporter {
public:
    bool ReportContext(const Context&) override { return true; }
    void ReportRuns(const std::vector<Run>&) override {}
};

/// The number of the row that runs, where a person looks on.
void show_progress(const std::string& label, std::size_t done, std::size_t all) {
    if (isatty(STDERR_FILENO) == 0) return;
    if (done < all)
        std::fprintf(stderr, "\r%zu/%zu %s\033[K", done + 1, all, label.c_str());
    else
        std::fprintf(stderr, "\r\033[K");
    std::fflush(stderr);
}

}  // namespace

std::vector<Measurement> merged(std::span<const std::vector<Measurement>> measurements) {
    std::vector<Measurement> all;
    for (const std::vector<Measurement>& measurement : measurements) {
        all.resize(measurement.size());
        for (std::size_t i = 0; i < all.size(); ++i) all[i].append(measurement[i]);
    }
    return all;
}

struct Benchmarks::Added {
    Turns turns;
    std::size_t first_row = 0;
    std::vector<Contender> contenders{};               // while it is the current one
    std::vector<std::vector<Measurement>> measured{};  // one a repetition
    std::vector<std::size_t> taken{};                  // of these, by each row
    std::vector<benchmark::IterationCount> calls{};    // in a batch, by each row; 0 before its first
};

Benchmarks::Benchmarks(const Arguments& arguments) : arguments_(arguments) {
    std::filesystem::create_directories(arguments.output);
    const std::string name = std::filesystem::path(arguments.program).filename().string();
    // Google Benchmark keeps pointers into its words.
    static std::vector<std::string> words;
    // Each call of a benchmark is a whole measurement, so that the first one always suffices.
    words = {arguments.program, "--benchmark_min_time=0.000000001"};
    const auto is_out = [](const std::string& word) { return word.starts_with("--benchmark_out="); };
    if (std::none_of(arguments.google.begin(), arguments.google.end(), is_out)) {
        words.push_back("--benchmark_out=" + arguments.output + "/" + name + ".json");
        words.push_back("--benchmark_out_format=json");
    }
    words.insert(words.end(), arguments.google.begin(), arguments.google.end());
    static std::vector<char*> pointers;
    pointers.clear();
    for (std::string& word : words) pointers.push_back(word.data());
    int count = static_cast<int>(pointers.size());
    benchmark::Initialize(&count, pointers.data());
    if (count > 1) throw intq::Error(pointers[1], "is no argument of Google Benchmark");
}

Benchmarks::~Benchmarks() {
    benchmark::ClearRegisteredBenchmarks();
    benchmark::Shutdown();
}

void Benchmarks::add(Turns turns) {
    if (turns.labels.empty()) return;
    added_.push_back(std::make_unique<Added>(Added{std::move(turns), rows_}));
    Added& added = *added_.back();
    added.taken.resize(added.turns.labels.size());
    added.calls.resize(added.turns.labels.size());
    for (std::size_t row = 0; row < added.turns.labels.size(); ++row)
        benchmark::RegisterBenchmark(added.turns.labels[row].c_str(),
                                     [this, &added, row](benchmark::State& state) { run_row(state, added, row); })
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
    rows_ += added.turns.labels.size();
}

void Benchmarks::describe(const std::string& key, const std::string& value) { benchmark::AddCustomContext(key, value); }

void Benchmarks::run() {
    Silent silent;
    if (arguments_.prints_tables())
        benchmark::RunSpecifiedBenchmarks(&silent);
    else
        benchmark::RunSpecifiedBenchmarks();
    finish_current();
    show_progress("", rows_, rows_);
}

void Benchmarks::start(Added& added) {
    finish_current();
    current_ = &added;
    added.contenders = added.turns.prepare();
}

void Benchmarks::finish_current() {
    if (current_ == nullptr) return;
    current_->contenders.clear();
    current_->turns.finish(merged(current_->measured));
    current_ = nullptr;
}

void Benchmarks::run_row(benchmark::State& state, Added& added, std::size_t row) {
    show_progress(added.turns.labels[row], added.first_row + row, rows_);
    if (current_ != &added) start(added);
    if (added.taken[row] == added.measured.size()) {
        added.measured.push_back(measure_in_turns(added.contenders, arguments_.sampling()));
        if (added.turns.beside) added.turns.beside();
    }
    const std::vector<Measurement>& measured = added.measured[added.taken[row]++];
    const Contender& own = added.contenders[row];
    if (!own.run) return state.SkipWithError(own.refused.c_str());

    const double seconds = measured[row].median_seconds();
    // The same in every repetition: Google Benchmark aborts where two differ in their number of iterations.
    benchmark::IterationCount& calls = added.calls[row];
    if (calls == 0)
        calls = std::max(benchmark::IterationCount{1},
                         static_cast<benchmark::IterationCount>(arguments_.sampling().sample_seconds / seconds));
    own.run();
    while (state.KeepRunningBatch(calls)) {
        for (benchmark::IterationCount call = 0; call < calls; ++call) own.run();
        state.SetIterationTime(seconds * static_cast<double>(calls));
    }
    for (const auto& [name, value] : added.turns.counters(row, measured)) state.counters[name] = value;
}

}  // namespace intq_bench
