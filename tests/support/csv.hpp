// SPDX-License-Identifier: MIT
//
// A reader of CSV, written from the grammar of RFC 4180 section 2 and not from the writer.
#ifndef INTQ_TESTS_SUPPORT_CSV_HPP
#define INTQ_TESTS_SUPPORT_CSV_HPP

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace intq::test {

using CsvRows = std::vector<std::vector<std::string>>;

/// file = record *(CRLF record) [CRLF], record = field *("," field). Throws for anything else, and for records of
/// different length.
inline CsvRows read_csv(std::string_view text) {
    CsvRows rows;
    std::size_t at = 0;
    const auto refuse = [&](const char* what) {
        throw std::runtime_error("CSV, byte " + std::to_string(at) + ": " + what);
    };
    const auto is = [&](std::string_view word) { return text.substr(at, word.size()) == word; };
    const auto field = [&] {
        std::string value;
        if (!is("\"")) {
            while (at < text.size() && !is(",") && !is("\r\n")) {
                if (is("\"") || is("\r") || is("\n")) refuse("a quote or a line break in a field without quotes");
                value += text[at++];
            }
            return value;
        }
        for (++at;; ++at) {
            if (at >= text.size()) refuse("no closing quote");
            if (is("\"\""))
                value += text[at++];
            else if (is("\""))
                break;
            else
                value += text[at];
        }
        ++at;
        if (!is(",") && !is("\r\n")) refuse("a field goes on behind its closing quote");
        return value;
    };
    while (at < text.size()) {
        std::vector<std::string> row{field()};
        while (is(",")) {
            ++at;
            row.push_back(field());
        }
        if (!is("\r\n")) refuse("a record does not end with CR LF");
        at += 2;
        if (!rows.empty() && row.size() != rows.front().size()) refuse("a record of another length");
        rows.push_back(std::move(row));
    }
    return rows;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_SUPPORT_CSV_HPP
