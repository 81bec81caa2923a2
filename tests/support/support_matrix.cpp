// SPDX-License-Identifier: MIT
//
// Prints the support matrix of docs/support_matrix.md from the constraint tables and the registry, or compares it.
//
//   support_matrix                 prints it
//   support_matrix --compare FILE  exit status 1 where the file's matrix differs
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "intq/kernels/operators/operator_table.hpp"
#include "kernels/tables/tables.hpp"

namespace {

using namespace intq;
using namespace intq::test;
using kernels::KernelTable;

constexpr const char *begin_mark = "<!-- support matrix: printed by tests/support/support_matrix.cpp -->\n",
                     *end_mark = "<!-- end of the support matrix -->\n";

struct Row {
    OpKind op;
    DType input, weight, output;
    friend bool operator==(const Row&, const Row&) = default;
};

Row row_of(const arith::ConstraintRow& row) { return {row.op, row.input, row.weight, row.output}; }

/// Every operator and dtypes that some target accepts, in the order of their tables.
std::vector<Row> all_rows(const BackendTables& backend) {
    std::vector<Row> rows;
    for (int op = 0; op < static_cast<int>(OpKind::count_); ++op)
        for (const KernelTable* table : backend.tables)
            for (const arith::ConstraintRow& constraint : table->policy().constraints) {
                const Row row = row_of(constraint);
                bool known =
                    row.op != static_cast<OpKind>(op) || row.op == OpKind::flatten;  // a flatten computes nothing
                for (const Row& other : rows) known = known || other == row;
                if (!known) rows.push_back(row);
            }
    return rows;
}

bool accepts(const KernelTable& table, const Row& row) {
    for (const arith::ConstraintRow& constraint : table.policy().constraints)
        if (row_of(constraint) == row) return true;
    return false;
}

bool has_kernel(const KernelTable& table, const Row& row) {
    const kernels::ProgramOperator* const op = kernels::find_operator(row.op);
    return op != nullptr && op->has_kernel(table, {row.input, row.weight, row.output});
}

bool is_public(const BackendTables& backend) {
    return std::string_view(backend.name).find("odd_width") == std::string_view::npos;
}

/// "yes", "yes, and + add" or "–"; what only some backends have is named.
std::string cell(const std::vector<BackendTables>& backends, std::size_t target, const Row& row) {
    if (!accepts(*backends[0].tables[target], row)) return "–";
    std::string missing;
    bool fuses = row.op == OpKind::conv2d || row.op == OpKind::linear;
    for (const BackendTables& backend : backends) {
        if (!has_kernel(*backend.tables[target], row))
            missing += std::string(missing.empty() ? "not on " : ", ") + backend.name;
        fuses = fuses &&
                kernels::operators::has_conv(*backend.tables[target], {row.input, row.weight, row.output}, true, false);
    }
    if (!missing.empty()) return missing;
    return fuses ? "yes, + add" : "yes";
}

/// Operators that share dtypes and cells share a line.
struct Line {
    std::string operators, rest;
};

std::vector<Line> all_lines(const std::vector<BackendTables>& backends) {
    std::vector<Line> lines;
    for (const Row& row : all_rows(backends[0])) {
        std::string rest = std::string(" | ") + name_of(row.input) + " | " +
                           (row.weight == DType::none ? "" : name_of(row.weight)) + " | " + name_of(row.output) + " |";
        for (std::size_t target = 0; target < backends[0].tables.size(); ++target)
            rest += " " + cell(backends, target, row) + " |";
        bool merged = false;
        for (Line& line : lines)
            if (line.rest == rest) line.operators += std::string(", ") + name_of(row.op), merged = true;
        if (!merged) lines.push_back({name_of(row.op), rest});
    }
    return lines;
}

std::string matrix() {
    std::vector<BackendTables> backends;
    std::string names;
    for (const BackendTables& backend : all_backend_tables()) {
        if (!is_public(backend)) continue;
        names += std::string(names.empty() ? "" : ", ") + "`" + backend.name + "`";
        if (!backend.tables.empty()) backends.push_back(backend);
    }
    std::string text = "| operator | input | weight | output |", rule = "| --- | --- | --- | --- |";
    for (const KernelTable* table : backends[0].tables) {
        text += std::string(" ") + table->policy().name + " |";
        rule += " --- |";
    }
    text += "\n" + rule + "\n";
    for (const Line& line : all_lines(backends)) text += "| " + line.operators + line.rest + "\n";
    return text + "\n`+ add`: with a fused add. Backends: " + names + "; each runs every row, with the same bytes.\n";
}

int compare(const char* path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto begin = text.find(begin_mark), end = text.find(end_mark);
    if (begin == std::string::npos || end == std::string::npos || end < begin) {
        std::cerr << path << " has no support matrix between\n" << begin_mark << end_mark;
        return 1;
    }
    const auto first = begin + std::string_view(begin_mark).size();
    if (text.substr(first, end - first) == matrix()) return 0;
    std::cerr << path << ": the support matrix is not that of the registry, which is:\n"
              << begin_mark << matrix() << end_mark;
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 3 && std::string_view(argv[1]) == "--compare") return compare(argv[2]);
    if (argc != 1) {
        std::cerr << "usage: support_matrix [--compare FILE]\n";
        return 2;
    }
    std::cout << begin_mark << matrix() << end_mark;
}
