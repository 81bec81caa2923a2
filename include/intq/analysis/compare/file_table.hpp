// SPDX-License-Identifier: MIT
//
// A table that is written for people and for programs. Layer: analysis (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_COMPARE_FILE_TABLE_HPP
#define INTQ_ANALYSIS_COMPARE_FILE_TABLE_HPP

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "intq/io/text_table.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// A text, or a number: seven decimals for people, as in the documents, and all digits for programs.
struct TableCell {
    TableCell(const char* words) : text(words), csv(words) {}
    TableCell(std::string words) : text(std::move(words)), csv(text) {}
    TableCell(double number);

    std::string text, csv;
};

/// One scale, or the least and the largest of several.
TableCell cell_of_scales(const std::vector<float>& scales);

/// Rows that become two files: `.txt` with aligned columns, and `.csv` after RFC 4180 (io::csv_text()), which pandas
/// and Python's csv read.
class FileTable {
public:
    explicit FileTable(std::vector<io::TextTable::Column> columns, io::TableStyle style = io::TableStyle::psql);

    /// @throws Error when the numbers of cells and columns differ
    void add_row(std::vector<TableCell> cells);

    std::string text() const { return text_.str(style_); }
    std::string csv() const;
    /// @throws Error as io::write_file()
    void write(const std::filesystem::path& folder, const std::string& stem) const;

private:
    io::TextTable text_;
    io::TableStyle style_;
    std::vector<std::vector<std::string>> csv_;  // the titles, and the rows
};

namespace detail {

std::string seven_decimals(double value);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_compare)

#    include <algorithm>
#    include <cstddef>
#    include <cstdio>

#    include "intq/io/csv.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/file.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::string seven_decimals(double value) {
    if (value != value) return "nan";  // to which printf may add a sign
    char buffer[400];
    const int length = std::snprintf(buffer, sizeof buffer, "%.7f", value);
    return std::string(buffer, static_cast<std::size_t>(length));
}

}  // namespace detail

INTQ_INLINE TableCell::TableCell(double number) : text(detail::seven_decimals(number)), csv(shortest_text(number)) {}

INTQ_INLINE TableCell cell_of_scales(const std::vector<float>& scales) {
    if (scales.empty()) return "";
    const auto [least, largest] = std::minmax_element(scales.begin(), scales.end());
    TableCell cell(static_cast<double>(*least));
    if (scales.size() == 1) return cell;
    const TableCell last(static_cast<double>(*largest));
    cell.text += " ... " + last.text;
    cell.csv += " ... " + last.csv;
    return cell;
}

INTQ_INLINE FileTable::FileTable(std::vector<io::TextTable::Column> columns, io::TableStyle style)
    : text_(columns), style_(style), csv_(1) {
    for (io::TextTable::Column& column : columns) csv_.front().push_back(std::move(column.title));
}

INTQ_INLINE void FileTable::add_row(std::vector<TableCell> cells) {
    std::vector<std::string> text, csv;
    for (TableCell& cell : cells) {
        text.push_back(std::move(cell.text));
        csv.push_back(std::move(cell.csv));
    }
    text_.add_row(std::move(text));
    csv_.push_back(std::move(csv));
}

INTQ_INLINE std::string FileTable::csv() const { return io::csv_text(csv_); }

INTQ_INLINE void FileTable::write(const std::filesystem::path& folder, const std::string& stem) const {
    io::write_file(folder / (stem + ".txt"), text());
    io::write_file(folder / (stem + ".csv"), csv());
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_compare)
#endif  // INTQ_ANALYSIS_COMPARE_FILE_TABLE_HPP
