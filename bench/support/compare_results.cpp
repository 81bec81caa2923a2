// SPDX-License-Identifier: MIT
#include "compare_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "intq/io/describe.hpp"
#include "intq/io/error.hpp"

namespace intq_bench {

namespace {

using nlohmann::json;

std::vector<RowTime> rows_of(const json& file) {
    std::vector<RowTime> rows;
    for (const json& row : file.at("rows"))
        if (row.contains("us"))
            rows.push_back({row.at("label").get<std::string>(), row.at("us").get<double>() * 1e-6,
                            row.at("spread").get<double>()});
    return rows;
}

double seconds_of(const json& benchmark) {
    static const std::map<std::string, double> units{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}};
    return benchmark.at("real_time").get<double>() * units.at(benchmark.value("time_unit", "ns"));
}

/// The rows' labels are the names of benchmarks, behind which Google Benchmark writes how it took the time.
std::string label_of(const json& benchmark) {
    std::string name = benchmark.contains("run_name") ? benchmark.at("run_name").get<std::string>()
                                                      : benchmark.at("name").get<std::string>();
    if (const std::size_t at = name.rfind("/manual_time"); at != std::string::npos) name.resize(at);
    return name;
}

std::vector<RowTime> benchmarks_of(const json& file) {
    std::vector<std::string> labels;
    std::map<std::string, std::vector<double>> times;
    for (const json& benchmark : file.at("benchmarks")) {
        const bool is_aggregate = benchmark.value("run_type", "iteration") != "iteration";
        if (is_aggregate || benchmark.value("error_occurred", false)) continue;
        const std::string label = label_of(benchmark);
        if (times.count(label) == 0) labels.push_back(label);
        times[label].push_back(seconds_of(benchmark));
    }
    std::vector<RowTime> rows;
    for (const std::string& label : labels) {
        std::vector<double>& taken = times[label];
        std::sort(taken.begin(), taken.end());
        const double median = (taken[(taken.size() - 1) / 2] + taken[taken.size() / 2]) / 2.0;
        rows.push_back({label, median, (taken.back() - taken.front()) / median});
    }
    return rows;
}

/// The rows of a file by label; of rows with one label the first.
using Index = std::map<std::string_view, const RowTime*>;

Index index_of(const std::vector<RowTime>& rows) {
    Index index;
    for (const RowTime& row : rows) index.try_emplace(row.label, &row);
    return index;
}

std::string only_in(const char* which, const std::vector<RowTime>& rows, const Index& others) {
    std::string text;
    for (const RowTime& row : rows)
        if (others.count(row.label) == 0) text += fmt::format("only in the {}: {}\n", which, row.label);
    return text;
}

}  // namespace

std::vector<RowTime> read_row_times(const std::string& path) {
    std::ifstream stream(path);
    if (!stream || std::filesystem::is_directory(path)) throw intq::Error(path, "cannot be read");
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    try {
        const json file = json::parse(text);
        std::vector<RowTime> rows = file.contains("rows") ? rows_of(file) : benchmarks_of(file);
        for (RowTime& row : rows) row.label = intq::printable(row.label);
        std::erase_if(rows, [](const RowTime& row) { return !(row.seconds > 0.0) || !std::isfinite(row.seconds); });
        return rows;
    } catch (const std::exception& error) {
        throw intq::Error(
            path, std::string("is no results.json of ./dev bench and no file of Google Benchmark: ") + error.what());
    }
}

std::string compare_results(const std::vector<RowTime>& first, const std::vector<RowTime>& second) {
    std::size_t width = 3;
    for (const RowTime& row : first) width = std::max(width, row.label.size());
    std::string text =
        fmt::format("{:<{}}  {:>11}  {:>11}  {:>14}\n", "row", width, "first, us", "second, us", "second / first");
    const Index of_second = index_of(second);
    double logarithms = 0.0;
    int rows = 0, changed = 0;
    for (const RowTime& row : first) {
        const auto found = of_second.find(row.label);
        if (found == of_second.end()) continue;
        const RowTime* const other = found->second;
        const double logarithm = std::log(other->seconds / row.seconds);
        const bool is_change = std::abs(logarithm) > row.spread + other->spread;
        text += fmt::format("{:<{}}  {:>11.3f}  {:>11.3f}  {:>13.3f}{}\n", row.label, width, row.seconds * 1e6,
                            other->seconds * 1e6, std::exp(logarithm), is_change ? '*' : ' ');
        logarithms += logarithm;
        changed += is_change;
        ++rows;
    }
    if (rows == 0) throw intq::Error("compare", "no row is in both files");
    text += fmt::format("geometric mean of {} rows: {:.3f}; * {} changed by more than both spreads\n", rows,
                        std::exp(logarithms / rows), changed);
    return text + only_in("first", first, of_second) + only_in("second", second, index_of(first));
}

}  // namespace intq_bench
