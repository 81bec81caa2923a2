// SPDX-License-Identifier: MIT
//
// Recomputes the figures of README.md from the tables of bench/RESULTS.md, and names each row of the README that does
// not follow from them. A mean that one or two rows carry is a fault too: without them it may move by 5 % at most.
//
//     check_figures <README.md> <RESULTS.md>
//
// A row of the README's tables of figures has its claim here, by the text of its first cell; whoever adds a row adds
// the claim.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "structure/process.hpp"

namespace {

namespace fs = std::filesystem;

// --- tables of a page ------------------------------------------------------------------------------------------------
struct Table {
    std::string heading;  // of its section
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows;
    std::vector<std::size_t> lines;  // of the rows, counted from 1

    std::size_t column(const std::string& name) const {
        const auto found = std::find(columns.begin(), columns.end(), name);
        if (found == columns.end()) throw std::runtime_error("a table of \"" + heading + "\" has no column " + name);
        return static_cast<std::size_t>(found - columns.begin());
    }
    /// The rows whose first cell a condition chooses.
    template <class Condition> Table where(const Condition& condition) const {
        Table chosen{heading, columns, {}, {}};
        for (const std::vector<std::string>& row : rows)
            if (condition(row[0])) chosen.rows.push_back(row);
        return chosen;
    }
    std::vector<double> numbers(const std::string& name) const {
        std::vector<double> numbers;
        for (const std::vector<std::string>& row : rows) numbers.push_back(std::stod(row.at(column(name))));
        if (numbers.empty()) throw std::runtime_error("a table of \"" + heading + "\" has none of the rows asked for");
        return numbers;
    }
    double cell(const std::string& row, const std::string& name) const {
        return where([&](const std::string& first) { return first == row; }).numbers(name).front();
    }
};

std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells{""};
    for (std::size_t i = 1; i + 1 < line.size(); ++i) {
        if (line[i] == '|')
            cells.emplace_back();
        else
            cells.back() += line[i];
    }
    for (std::string& cell : cells) {
        cell.erase(0, cell.find_first_not_of(' '));
        cell.erase(cell.find_last_not_of(' ') + 1);
    }
    return cells;
}

std::vector<Table> tables_of(const fs::path& page) {
    std::vector<Table> tables;
    std::string heading;
    std::size_t number = 0;
    bool is_inside = false;
    for (const std::string& line : intq::test::read_lines(page)) {
        ++number;
        if (line.starts_with("## ") || line.starts_with("### ")) heading = line.substr(line.find(' ') + 1);
        const bool is_row = line.starts_with("|");
        if (is_row && !is_inside) {
            tables.push_back({heading, cells_of(line), {}, {}});
        } else if (is_row && !line.starts_with("| ---")) {
            tables.back().rows.push_back(cells_of(line));
            tables.back().lines.push_back(number);
        }
        is_inside = is_row;
    }
    return tables;
}

/// @param at  which one of the section, from 0
const Table& find_table(const std::vector<Table>& tables, const std::string& heading, int at = 0) {
    for (const Table& table : tables)
        if (table.heading == heading && at-- == 0) return table;
    throw std::runtime_error("there is no such table below \"" + heading + "\"");
}

// --- figures ---------------------------------------------------------------------------------------------------------
std::string text(double value, int digits) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
    return buffer;
}

double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }
double most(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

double mean(const std::vector<double>& values) {
    double logarithms = 0.0;
    for (const double value : values) logarithms += std::log(value);
    return std::exp(logarithms / static_cast<double>(values.size()));
}

/// The geometric mean.
///
/// @throws std::runtime_error where two rows move it by more than 5 %: a mean says nothing of the others then
double fair_mean(std::vector<double> values) {
    const double all = mean(values);
    for (int left_out = 0; left_out < 2; ++left_out) {
        const auto further = [&](double a, double b) {
            return std::fabs(std::log(a / all)) < std::fabs(std::log(b / all));
        };
        values.erase(std::max_element(values.begin(), values.end(), further));
        if (std::fabs(mean(values) / all - 1.0) > 0.05)
            throw std::runtime_error("its mean of " + text(all, 2) + " is carried by " + std::to_string(left_out + 1) +
                                     " of the rows; without, it is " + text(mean(values), 2));
    }
    return all;
}

std::size_t count_below(const std::vector<double>& values, double bound) {
    return static_cast<std::size_t>(
        std::count_if(values.begin(), values.end(), [&](double value) { return value < bound; }));
}

std::string range(const std::vector<double>& values, int digits) {
    return text(least(values), digits) + " to " + text(most(values), digits);
}

/// What the cells of a row behind its first one must be, separated by " | ".
using Claim = std::function<std::string()>;

std::map<std::string, Claim> performance_claims(const std::vector<Table>& results) {
    const std::string s8 = "oneDNN s8 / ours", u8 = "oneDNN u8 / ours", f32 = "oneDNN f32 / ours";
    const auto network = [&](const std::string& name) {
        const Table& table = find_table(results, "Networks, one image, random weights, signed int8, target fp32");
        return text(table.cell(name, "ours, ms"), 1) + " ms; " + text(table.cell(name, "ONNX Runtime 1.31, u8"), 2) +
               " × ONNX Runtime with unsigned, " + text(table.cell(name, "ONNX Runtime 1.31, s8"), 1) +
               " × with signed codes";
    };
    return {
        {"int8 convolutions and matrix products, 19 shapes",
         [=, &results] {
             const Table& table = find_table(results, "int8 × int8 -> int8");
             if (table.rows.size() != 19) throw std::runtime_error("the table has other than 19 rows");
             return text(fair_mean(table.numbers("% of limit")), 0) + " % of the limit of the CPU, " +
                    text(fair_mean(table.numbers(s8)), 2) + " × oneDNN (" + range(table.numbers(s8), 2) + ")";
         }},
        {"depthwise 3×3, stride 1, int8",
         [=, &results] {
             const Table stride_1 = find_table(results, "Depthwise").where([](const std::string& layer) {
                 return layer.find("dw3x3_") != std::string::npos;
             });
             return range(stride_1.numbers(s8), 2) + " × oneDNN";
         }},
        {"int16 × int8",
         [=, &results] {
             const std::vector<double> ratios =
                 find_table(results, "int16 × int8 -> int16 (weights such that 32-bit sums are proven)").numbers(f32);
             return text(fair_mean(ratios), 2) + " × oneDNN's float32 (" + range(ratios, 2) + ")";
         }},
        {"int8 on AVX2, 17 convolutions and matrix products",
         [=, &results] {
             const Table& table = find_table(results, "AVX-VNNI and AVX2", 1);
             const auto is_vector = [](const std::string& layer) { return layer.starts_with("fc_1x"); };
             const Table rest = table.where([&](const std::string& layer) { return !is_vector(layer); });
             if (rest.rows.size() != 17) throw std::runtime_error("the table has other than 17 such rows");
             const std::vector<double> ratios = rest.numbers(s8), of_vectors = table.where(is_vector).numbers(s8);
             return text(fair_mean(ratios), 2) +
                    " × oneDNN limited to AVX2, whose pair sums saturate: " + range(ratios, 2) + ", and " +
                    std::to_string(count_below(ratios, 1.0)) + " of 17 are slower. With unsigned input " +
                    text(fair_mean(rest.numbers(u8)), 2) +
                    " ×. Its two fully connected layers: " + text(of_vectors.at(0), 1) + " and " +
                    text(of_vectors.at(1), 1) + " ×";
         }},
        {"ResNet-18, int8", [=] { return network("ResNet-18"); }},
        {"MobileNetV2, int8", [=] { return network("MobileNetV2"); }},
        {"fake-quantize, forward and backward",
         [=, &results] {
             const Table both = find_table(results, "PyTorch").where([](const std::string& row) {
                 return row.starts_with("forward_backward/");
             });
             return range(both.numbers("PyTorch / ours"), 0) + " × PyTorch";
         }},
    };
}

std::map<std::string, Claim> compiling_claims(const std::vector<Table>& results) {
    const Table& costs = find_table(results, "What the templates cost");
    const auto row = [&costs](std::vector<std::string> names) {
        return [&costs, names = std::move(names)] {
            std::string seconds, megabytes;
            for (const std::string& name : names) {
                const std::string separator = seconds.empty() ? "" : "; ";
                seconds += separator + text(costs.cell(name, "user s"), 1);
                megabytes += separator + text(costs.cell(name, "MB"), 0);
            }
            return seconds + " | " + megabytes;
        };
    };
    return {
        {"15 standard headers, for comparison", row({"15 standard headers, `-O2`"})},
        {"`embedded.hpp`; with `-march=native`",
         row({"empty main, `embedded.hpp`, `-O2`", "empty main, `embedded.hpp`, `-O2 -march=native`"})},
        {"one convolution; with `-march=native`",
         row({"one convolution, `-O2`", "one convolution, `-O2 -march=native`"})},
        {"the program for a board above; with `-march=native`",
         row({"the README's program for a board, `-O2`", "the README's program for a board, `-O2 -march=native`"})},
        {"`first.hpp`, header-only", row({"empty main, `first.hpp`, `-O2`"})},
        {"`first.hpp`, compiled form",
         [&costs] {  // the second row of this name: it follows that of first.hpp
             for (std::size_t i = 1; i < costs.rows.size(); ++i)
                 if (costs.rows[i - 1][0] == "empty main, `first.hpp`, `-O2`")
                     return text(std::stod(costs.rows[i].at(1)), 1) + " | " + costs.rows[i].at(3);
             throw std::runtime_error("the table has no row of first.hpp");
         }},
        {"`intq.hpp`, header-only", row({"empty main, `intq.hpp`, `-O2`"})},
        {"`intq.hpp`, compiled form", row({"the same with INTQ_COMPILED, `-O2`"})},
        {"`examples/fx_workflow`, compiled form", row({"`examples/fx_workflow`, INTQ_COMPILED, `-O2`"})},
    };
}

// --- the README ------------------------------------------------------------------------------------------------------
std::string joined(const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 1; i < cells.size(); ++i) text += (i > 1 ? " | " : "") + cells[i];
    return text;
}

/// Prints the rows that do not follow, and returns their number.
int check(const Table& table, const std::map<std::string, Claim>& claims) {
    int faults = 0;
    const auto report = [&](std::size_t line, const std::string& what, const std::string& why) {
        std::cout << "README.md:" << line << ": \"" << what << "\": " << why << '\n';
        ++faults;
    };
    std::size_t found = 0;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
        const std::string &what = table.rows[i][0], says = joined(table.rows[i]);
        const auto claim = claims.find(what);
        if (claim == claims.end()) {
            report(table.lines[i], what, "check_figures.cpp has no claim for this row");
            continue;
        }
        ++found;
        try {
            if (const std::string follows = claim->second(); follows != says)
                report(table.lines[i], what, "says \"" + says + "\", and from RESULTS.md follows \"" + follows + "\"");
        } catch (const std::exception& error) {
            report(table.lines[i], what, error.what());
        }
    }
    if (found != claims.size()) report(table.lines.back(), table.heading, "the table lacks a row that has a claim");
    return faults;
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 3) throw std::runtime_error("usage: check_figures <README.md> <RESULTS.md>");
    const std::vector<Table> readme = tables_of(argv[1]), results = tables_of(argv[2]);
    const Table& performance = find_table(readme, "Performance");
    const Table& compiling = find_table(readme, "Compilers, and what compiling costs", 1);
    const int faults = check(performance, performance_claims(results)) + check(compiling, compiling_claims(results));
    std::cout << performance.rows.size() + compiling.rows.size() << " rows, " << faults << " faults\n";
    return faults == 0 ? 0 : 1;
} catch (const std::exception& error) {
    std::cerr << "check_figures: " << error.what() << '\n';
    return 1;
}
