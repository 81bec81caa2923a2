// SPDX-License-Identifier: MIT
//
// Our command line for a bench that Google Benchmark runs: kernels that are compared with nothing else in turns.
//
//     CLI::App app("...");
//     intq_bench::Arguments arguments;
//     intq_bench::add_options(app, arguments);
//     CLI11_PARSE(app, argc, argv);
//     if (arguments.check || arguments.record) return 0;  // it has no recorded ratios
//     intq_bench::initialize_google_benchmark(argv[0], arguments);
#ifndef INTQ_BENCH_SUPPORT_GOOGLE_ARGUMENTS_HPP
#define INTQ_BENCH_SUPPORT_GOOGLE_ARGUMENTS_HPP

#include <benchmark/benchmark.h>

#include <filesystem>

#include "arguments.hpp"

namespace intq_bench {

/// Hands filter, sample length and output folder to Google Benchmark, which writes <folder>/<program>.json. Backends,
/// targets, types and shapes are for the bench to respect where it registers its rows.
inline void initialize_google_benchmark(const char* program, const Arguments& arguments) {
    const std::string name = std::filesystem::path(program).filename().string();
    std::filesystem::create_directories(arguments.output);
    // Google Benchmark keeps pointers into its words.
    static std::vector<std::string> words;
    words = {program, "--benchmark_out=" + arguments.output + "/" + name + ".json", "--benchmark_out_format=json"};
    if (!arguments.filter.empty()) words.push_back("--benchmark_filter=" + arguments.filter);
    if (arguments.quick) words.push_back("--benchmark_min_time=0.02");
    static std::vector<char*> pointers;
    pointers.clear();
    for (std::string& word : words) pointers.push_back(word.data());
    int count = static_cast<int>(pointers.size());
    benchmark::Initialize(&count, pointers.data());
}

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_GOOGLE_ARGUMENTS_HPP
