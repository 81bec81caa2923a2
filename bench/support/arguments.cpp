// SPDX-License-Identifier: MIT
#include "arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <string_view>

#include "intq/io/error.hpp"

namespace intq_bench {

namespace {

/// What stands behind `--benchmark_<name>=`; null where the word is another one.
const char* value_of(const char* word, std::string_view name) {
    const std::string_view text(word);
    return text.size() > name.size() && text.starts_with(name) && text[name.size()] == '=' ? word + name.size() + 1
                                                                                           : nullptr;
}

/// Seconds as Google Benchmark writes them: "0.5" or "0.5s".
double seconds_of(const std::string& text) {
    std::size_t end = 0;
    const double seconds = std::stod(text, &end);
    if (!(seconds > 0.0) || (end != text.size() && text.substr(end) != "s"))
        throw intq::Error("--benchmark_min_time", "takes seconds above 0, given: " + text);
    return seconds;
}

void take_google_argument(const char* word, Arguments& a) {
    for (const char* name : {"--benchmark_enable_random_interleaving", "--benchmark_min_warmup_time"})
        if (std::string_view(word).starts_with(name))
            throw intq::Error(name,
                              "is not taken: a row, other libraries and the peak run in turns already, and each "
                              "sample is warmed");
    if (const char* const filter = value_of(word, "--benchmark_filter"))
        a.google_filter = filter;
    else if (const char* const seconds = value_of(word, "--benchmark_min_time"))
        a.google_seconds = seconds_of(seconds);
    else
        a.google.push_back(word);
}

/// Takes the words of Google Benchmark (--benchmark_...) out of a command line.
///
/// @return the other words
/// @throws Error for a word of Google Benchmark that the sampling cannot respect
std::vector<char*> take_google_arguments(int argc, char** argv, Arguments& a) {
    std::vector<char*> own;
    for (int i = 0; i < argc; ++i) {
        if (i > 0 && std::string_view(argv[i]).starts_with("--benchmark_"))
            take_google_argument(argv[i], a);
        else
            own.push_back(argv[i]);
    }
    return own;
}

void add_options(CLI::App& app, Arguments& a) {
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
                 "than 10 %; of whole networks, fail where the bytes are not those of scalar");
    app.add_flag("--record", a.record,
                 "Write the ratios that --check compares, the best of three measurements, to bench/recorded_ratios.txt")
        ->excludes("--check");
}

std::string name_of_program(const std::string& path) { return std::filesystem::path(path).filename().string(); }

}  // namespace

Sampling Arguments::sampling() const {
    Sampling sampling = quick ? Sampling{0.04, 1e-4, 5} : Sampling{};
    if (google_seconds > 0.0) sampling.seconds = google_seconds;
    return sampling;
}

bool Arguments::matches(const std::string& label) const {
    if (!std::regex_search(label, std::regex(filter))) return false;
    const bool others = google_filter.starts_with('-');
    const std::string wanted = google_filter.substr(others ? 1 : 0);
    if (wanted.empty() || wanted == "all") return !others;
    const std::regex expression(wanted);
    return others != (std::regex_search(label, expression) || std::regex_search(label + "/manual_time", expression));
}

bool Arguments::prints_tables() const {
    return std::all_of(google.begin(), google.end(), [](const std::string& word) {
        return word.starts_with("--benchmark_out") || word.starts_with("--benchmark_context");
    });
}

bool Arguments::only_lists() const {
    return std::any_of(google.begin(), google.end(), [](const std::string& word) {
        return word == "--benchmark_list_tests" || word == "--benchmark_list_tests=true";
    });
}

int run_bench(int argc, char** argv, const char* description, int (*run)(const Arguments& arguments)) try {
    CLI::App app(std::string(description) +
                 " Takes the words of Google Benchmark too, such as --benchmark_repetitions=5 and "
                 "--benchmark_format=json.");
    Arguments arguments;
    arguments.program = argv[0];
    add_options(app, arguments);
    const std::vector<char*> own = take_google_arguments(argc, argv, arguments);
    CLI11_PARSE(app, static_cast<int>(own.size()), own.data());
    return run(arguments);
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name_of_program(argv[0]).c_str(), error.what());
    return 1;
}

int report_nothing_chosen(const Arguments& arguments, const std::vector<std::string>& has_backends) {
    const auto list = [](const std::vector<std::string>& names) {
        std::string text;
        for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
        return text;
    };
    std::fprintf(stderr, "%s: nothing measured", name_of_program(arguments.program).c_str());
    for (const std::string& filter : {arguments.filter, arguments.google_filter})
        if (!filter.empty())
            std::fprintf(stderr, "; no label that was asked for matches the filter %s", filter.c_str());
    if (!arguments.backends.empty())
        std::fprintf(stderr, "; the backend asked for is %s, those that it measures are %s",
                     list(arguments.backends).c_str(), list(has_backends).c_str());
    std::fprintf(stderr, "\n");
    return nothing_chosen;
}

bool is_chosen(const std::vector<std::string>& wishes, const std::vector<std::string>& otherwise,
               const std::string& name) {
    const std::vector<std::string>& wanted = wishes.empty() ? otherwise : wishes;
    return std::any_of(wanted.begin(), wanted.end(),
                       [&](const std::string& word) { return word == name || word == "all"; });
}

}  // namespace intq_bench
