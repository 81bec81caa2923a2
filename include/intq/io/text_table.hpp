// SPDX-License-Identifier: MIT
//
// Tables of text for a terminal or a file. Layer: io.
#ifndef INTQ_IO_TEXT_TABLE_HPP
#define INTQ_IO_TEXT_TABLE_HPP

#include <cstddef>
#include <string>
#include <vector>

#include "intq/io/error.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

enum class Align { left, right };

/// How a table is drawn: a grid as psql's, or columns with a dashed line below the header.
enum class TableStyle { psql, simple };

/// Rows of text below a header, with aligned columns.
///
///     +--------+-------+          name    SQNR
///     | name   |  SQNR |          ------  -----
///     |--------+-------|          conv1   41.20
///     | conv1  | 41.20 |
///     +--------+-------+
class TextTable {
public:
    struct Column {
        std::string title;
        Align align = Align::left;
    };

    explicit TextTable(std::vector<Column> columns);

    /// @throws Error when the number of cells is not the number of columns
    void add_row(std::vector<std::string> cells);

    std::size_t row_count() const noexcept { return rows_.size(); }

    /// The whole table; every line ends with a line break, and without a space before it.
    std::string str(TableStyle style = TableStyle::psql) const;

private:
    std::vector<std::size_t> widths() const;
    std::string line_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                        TableStyle style) const;

    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

#    include <algorithm>
#    include <string_view>
#    include <utility>

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Columns that a text takes on a terminal: one a code point of UTF-8.
INTQ_INLINE std::size_t display_width(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

INTQ_INLINE std::string padded(const std::string& text, std::size_t width, Align align) {
    const std::string spaces(width - display_width(text), ' ');
    return align == Align::left ? text + spaces : spaces + text;
}

/// `left` ---- `middle` ---- `right`, with dashes for each column.
INTQ_INLINE std::string rule(const std::vector<std::size_t>& widths, std::string_view left, std::string_view middle,
                             std::string_view right, std::size_t margin) {
    std::string line(left);
    for (std::size_t i = 0; i < widths.size(); ++i) {
        if (i > 0) line += middle;
        line.append(widths[i] + 2 * margin, '-');
    }
    return line.append(right) + '\n';
}

}  // namespace detail

INTQ_INLINE std::vector<std::size_t> TextTable::widths() const {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        std::size_t width = detail::display_width(columns_[i].title);
        for (const auto& row : rows_) width = (std::max)(width, detail::display_width(row[i]));
        result.push_back(width);
    }
    return result;
}

INTQ_INLINE std::string TextTable::line_of(const std::vector<std::string>& cells,
                                           const std::vector<std::size_t>& widths, TableStyle style) const {
    std::string line = style == TableStyle::psql ? "| " : "";
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (i > 0) line += style == TableStyle::psql ? " | " : "  ";
        line += detail::padded(cells[i], widths[i], columns_[i].align);
    }
    if (style == TableStyle::psql) return line + " |\n";
    line.erase(line.find_last_not_of(' ') + 1);
    return line + '\n';
}

INTQ_INLINE std::string TextTable::str(TableStyle style) const {
    const std::vector<std::size_t> width = widths();
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.push_back(column.title);

    const bool grid = style == TableStyle::psql;
    const std::string edge = grid ? detail::rule(width, "+", "+", "+", 1) : "";
    std::string text = edge + line_of(titles, width, style);
    text += grid ? detail::rule(width, "|", "+", "|", 1) : detail::rule(width, "", "  ", "", 0);
    for (const auto& row : rows_) text += line_of(row, width, style);
    return text + edge;
}

INTQ_INLINE TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

INTQ_INLINE void TextTable::add_row(std::vector<std::string> cells) {
    if (cells.size() != columns_.size())
        throw Error("a table row has " + std::to_string(cells.size()) + " cells, expected " +
                    std::to_string(columns_.size()));
    // A control character would break the columns, and a name from a file may hold a terminal's escape sequence.
    for (std::string& cell : cells) cell = printable(cell);
    rows_.push_back(std::move(cells));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#endif  // INTQ_DEFINES(io)
#endif  // INTQ_IO_TEXT_TABLE_HPP
