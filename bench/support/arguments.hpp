// SPDX-License-Identifier: MIT
//
// The command line that all benches share; ./dev bench hands its arguments to each.
//
//     int main(int argc, char** argv) { return run_bench(argc, argv, "Measures ...", run); }
#ifndef INTQ_BENCH_SUPPORT_ARGUMENTS_HPP
#define INTQ_BENCH_SUPPORT_ARGUMENTS_HPP

#include <string>
#include <vector>

#include "sampling.hpp"

namespace intq_bench {

struct Arguments {
    std::string program;  // argv[0]
    std::string filter;
    std::vector<std::string> backends, targets, types, shapes;
    std::string output = "build/bench", peer_isa;
    bool quick = false, check = false, record = false;
    bool alone = false;  // without peers

    // What Google Benchmark is given; its filter and its time are ours to respect.
    std::vector<std::string> google;
    std::string google_filter;
    double google_seconds = 0.0;

    Sampling sampling() const;

    /// Whether both filters choose a label. That of Google Benchmark may begin with - for all others, and finds what
    /// stands in the label or behind it ("/manual_time").
    bool matches(const std::string& label) const;

    /// Whether the bench shows its tables; otherwise Google Benchmark prints, as it was asked to.
    bool prints_tables() const;

    /// Whether the labels are listed and nothing is measured.
    bool only_lists() const;
};

/// Reads the command line and runs the bench; an exception ends it with its sentence and status 1.
///
/// @param run  its result is the status
/// @return the status for main()
int run_bench(int argc, char** argv, const char* description, int (*run)(const Arguments& arguments));

/// What a bench ends with where the arguments choose nothing of it: ./dev bench then goes on to the next one.
inline constexpr int nothing_chosen = 3;

/// Says so, and gives that status back.
int report_nothing_chosen(const Arguments& arguments, const std::vector<std::string>& has_backends);

/// Whether a name was asked for, by itself or by `all`; without a wish the names of `otherwise` are.
bool is_chosen(const std::vector<std::string>& wishes, const std::vector<std::string>& otherwise,
               const std::string& name);

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_ARGUMENTS_HPP
