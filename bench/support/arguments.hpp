// SPDX-License-Identifier: MIT
//
// The command line that all benches share; ./dev bench hands its arguments to each.
#ifndef INTQ_BENCH_SUPPORT_ARGUMENTS_HPP
#define INTQ_BENCH_SUPPORT_ARGUMENTS_HPP

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "sampling.hpp"

namespace intq_bench {

struct Arguments {
    std::string filter;
    std::vector<std::string> backends, targets, types, shapes;
    std::string output = "build/bench", peer_isa;
    bool quick = false, check = false, record = false;
    bool alone = false;  // without peers

    Sampling sampling() const { return quick ? Sampling{0.04, 1e-4, 5} : Sampling{}; }
};

/// What a bench ends with where the arguments choose nothing of it: ./dev bench then goes on to the next one.
inline constexpr int nothing_chosen = 3;

/// Says so, and gives that status back.
inline int report_nothing_chosen(const char* bench, const Arguments& a, const std::vector<std::string>& has_backends) {
    const auto list = [](const std::vector<std::string>& names) {
        std::string text;
        for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
        return text;
    };
    std::printf("%s: nothing measured", bench);
    if (!a.filter.empty()) std::printf("; no label that was asked for matches the filter %s", a.filter.c_str());
    if (!a.backends.empty())
        std::printf("; the backend asked for is %s, those that it measures are %s", list(a.backends).c_str(),
                    list(has_backends).c_str());
    std::printf("\n");
    return nothing_chosen;
}

/// Whether a name was asked for, by itself or by `all`; without a wish the names of `otherwise` are.
inline bool is_chosen(const std::vector<std::string>& wishes, const std::vector<std::string>& otherwise,
                      const std::string& name) {
    const std::vector<std::string>& wanted = wishes.empty() ? otherwise : wishes;
    return std::any_of(wanted.begin(), wanted.end(),
                       [&](const std::string& word) { return word == name || word == "all"; });
}

inline void add_options(CLI::App& app, Arguments& a) {
    app.add_option("--filter", a.filter,
                   "Only labels (op/types/granularity/target/backend/layer) in which this is found")
        ->type_name("REGEX");
    app.add_option("--backend", a.backends, "Backends by name, or `all`; without it the best that this CPU executes")
        ->type_name("NAME");
    app.add_option("--target", a.targets, "Targets by name, or `all`; without it fp32")->type_name("NAME");
    app.add_option("--types", a.types,
                   "Element types, or `all`; without it s8s8s8, s16s8s16, f32f32f32 and f32f32f32_reproducible")
        ->type_name("NAME");
    app.add_option("--shapes", a.shapes, "Files of shapes, by path or by name in bench/shapes; without it all of them")
        ->type_name("FILE");
    app.add_option("--peer-isa", a.peer_isa,
                   "Limits other libraries to an instruction set: sse41, avx2, avx512_core, avx512_core_vnni")
        ->type_name("NAME");
    app.add_option("--output", a.output, "Folder for what the bench writes; without it build/bench")
        ->type_name("FOLDER");
    app.add_flag("--quick", a.quick, "Short samples, and list.txt alone: for a look, not for a table");
    app.add_flag("--check", a.check,
                 "Measure only what bench/recorded_ratios.txt names, and fail where a ratio to the peak fell by more "
                 "than 10 %");
    app.add_flag("--record", a.record,
                 "Write the ratios that --check compares, the best of three measurements, to bench/recorded_ratios.txt")
        ->excludes("--check");
}

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_ARGUMENTS_HPP
