// SPDX-License-Identifier: MIT
//
// Tables that are open: rows by name, and what is near a name that is none. Layer: quantization.
#ifndef INTQ_QUANTIZATION_NAMED_TABLE_HPP
#define INTQ_QUANTIZATION_NAMED_TABLE_HPP

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "intq/io/error.hpp"

namespace intq::inline INTQ_ABI::quantization {

namespace detail {

/// Insertions, deletions and replacements that make one word the other.
inline std::size_t edit_distance(const std::string& a, const std::string& b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

/// Up to three names in the order of their distance.
inline std::string nearest_names(const std::string& key, const std::vector<std::string>& names) {
    std::set<std::pair<std::size_t, std::string>> by_distance;
    for (const std::string& name : names)
        if (!name.empty()) by_distance.emplace(edit_distance(key, name), name);
    std::string text;
    int count = 0;
    for (const auto& [distance, name] : by_distance)
        if (count++ < 3) text += (text.empty() ? "\"" : ", \"") + name + "\"";
    return text.empty() ? "none" : text;
}

}  // namespace detail

/// Rows with a member `name`, in the order in which they were added.
template <class Row> class NamedTable {
public:
    /// @param what  the kind of a row, for messages
    explicit NamedTable(std::string what) : what_(std::move(what)) {}

    /// Adds a row, or replaces that of its name.
    void add(Row row) {
        for (Row& known : rows_)
            if (known.name == row.name) {
                known = std::move(row);
                return;
            }
        rows_.push_back(std::move(row));
    }
    const std::vector<Row>& rows() const noexcept { return rows_; }
    /// Throws the Error with the nearest names where there is none.
    const Row& at(const std::string& name) const {
        std::vector<std::string> names;
        for (const Row& row : rows_) {
            if (row.name == name) return row;
            names.push_back(row.name);
        }
        throw Error("there is no " + what_ + " \"" + name + "\"; the nearest are " +
                    detail::nearest_names(name, names));
    }

private:
    std::string what_;
    std::vector<Row> rows_;
};

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_NAMED_TABLE_HPP
