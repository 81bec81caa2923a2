// SPDX-License-Identifier: MIT
#include "recorded_ratios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "intq/io/error.hpp"
#include "intq/io/text_table.hpp"

namespace intq_bench {

namespace {

constexpr const char* heading =
    "# Parts of the peak that kernels reached, by CPU (vendor-family-model) and label; ./dev bench --check compares,\n"
    "# ./dev bench --record (with --filter, --shapes, --types) writes.\n";

std::vector<RecordedRatio> read_ratios(const std::string& path) {
    std::vector<RecordedRatio> ratios;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line.substr(0, line.find('#')));
        RecordedRatio ratio;
        if (!(words >> ratio.cpu)) continue;
        if (!(words >> ratio.label >> ratio.ratio) || !(ratio.ratio > 0.0))
            throw intq::Error(path, "not a recorded ratio: " + line);
        ratios.push_back(ratio);
    }
    return ratios;
}

/// Labels hold letters, digits, _ and /; a dot is the one character of a name that an expression would misread.
std::string escaped(const std::string& label) {
    std::string text;
    for (const char c : label) text += c == '.' ? std::string("\\.") : std::string(1, c);
    return text;
}

std::string filter_of(const std::vector<RecordedRatio>& ratios) {
    std::string labels;
    for (const RecordedRatio& ratio : ratios) labels += (labels.empty() ? "" : "|") + escaped(ratio.label);
    return "^(" + labels + ")$";
}

bool has_fallen(const RecordedRatio& recorded, const std::map<std::string, double>& best) {
    const auto found = best.find(recorded.label);
    return found == best.end() || found->second < recorded.ratio * (1.0 - allowed_drop);
}

std::vector<RecordedRatio> fallen(const std::vector<RecordedRatio>& ratios, const std::map<std::string, double>& best) {
    std::vector<RecordedRatio> result;
    std::copy_if(ratios.begin(), ratios.end(), std::back_inserter(result),
                 [&](const RecordedRatio& ratio) { return has_fallen(ratio, best); });
    return result;
}

void keep_best(const std::vector<Row>& rows, std::map<std::string, double>& best) {
    for (const Row& row : rows)
        if (row.part_of_peak) best[row.label()] = std::max(best[row.label()], *row.part_of_peak);
}

void print_comparison(const std::vector<RecordedRatio>& ratios, const std::map<std::string, double>& best) {
    using intq::io::Align;
    intq::io::TextTable table({{"label"}, {"recorded %", Align::right}, {"now %", Align::right}, {""}});
    for (const RecordedRatio& ratio : ratios) {
        const auto found = best.find(ratio.label);
        table.add_row({ratio.label, fmt::format("{:.1f}", ratio.ratio * 100.0),
                       found == best.end() ? std::string("-") : fmt::format("{:.1f}", found->second * 100.0),
                       found == best.end()       ? "not measured: no such kernel or layer"
                       : has_fallen(ratio, best) ? "fell by more than 10 %"
                                                 : "ok"});
    }
    fmt::print("\n{}", table.str(intq::io::TableStyle::simple));
}

}  // namespace

int check_recorded_ratios(const std::string& path, const std::string& cpu,
                          const std::function<std::vector<Row>(const std::string& filter)>& measure) {
    std::vector<RecordedRatio> ratios = read_ratios(path);
    std::erase_if(ratios, [&](const RecordedRatio& ratio) { return ratio.cpu != cpu; });
    if (ratios.empty()) {
        fmt::print("{} has no line for {}; ./dev bench --record writes them\n", path, cpu);
        return nothing_recorded;
    }
    std::map<std::string, double> best;
    std::vector<RecordedRatio> open = ratios;
    for (int attempt = 0; attempt < 3 && !open.empty(); ++attempt, open = fallen(ratios, best))
        keep_best(measure(filter_of(open)), best);
    print_comparison(ratios, best);
    return open.empty() ? 0 : 1;
}

void record_ratios(const std::string& path, const std::string& cpu, const std::function<std::vector<Row>()>& measure) {
    std::map<std::string, double> best;
    for (int attempt = 0; attempt < 3; ++attempt) keep_best(measure(), best);
    if (best.empty()) throw intq::Error(path, "nothing to record: no row has a ratio to the peak");
    std::map<std::pair<std::string, std::string>, double> lines;
    for (const RecordedRatio& ratio : read_ratios(path)) lines[{ratio.cpu, ratio.label}] = ratio.ratio;
    for (const auto& [label, ratio] : best) lines[{cpu, label}] = ratio;
    std::ofstream file(path);
    file << heading;
    for (const auto& [key, ratio] : lines) file << fmt::format("{} {} {:.3f}\n", key.first, key.second, ratio);
    if (!file.flush()) throw intq::Error(path, "cannot be written");
}

}  // namespace intq_bench
