// SPDX-License-Identifier: MIT
//
// Tables as CSV, which pandas, Python's csv and spreadsheets read. Layer: io.
#ifndef INTQ_IO_CSV_HPP
#define INTQ_IO_CSV_HPP

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "intq/io/error.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

/// Records with commas between their fields, each ended by CR LF. A field that holds a comma, a quote or a line break
/// is put in quotes, in which a quote is doubled.
///
/// @param rows  the titles first
/// @throws Error for rows of different length
///
/// Source   RFC 4180
std::string csv_text(std::span<const std::vector<std::string>> rows);

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

namespace detail {

INTQ_INLINE std::string csv_field(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + '"';
}

}  // namespace detail

INTQ_INLINE std::string csv_text(std::span<const std::vector<std::string>> rows) {
    std::string text;
    for (const std::vector<std::string>& row : rows) {
        if (row.size() != rows.front().size())
            throw Error("a CSV row has " + std::to_string(row.size()) + " fields, expected " +
                        std::to_string(rows.front().size()));
        for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + detail::csv_field(row[i]);
        text += "\r\n";
    }
    return text;
}

#endif  // INTQ_DEFINES(io)

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#endif  // INTQ_IO_CSV_HPP
