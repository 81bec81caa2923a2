// SPDX-License-Identifier: MIT
//
// Tables that are open: rows by name. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OBSERVERS_NAMED_TABLE_HPP
#define INTQ_QUANTIZATION_OBSERVERS_NAMED_TABLE_HPP

#include <string>
#include <utility>
#include <vector>

#include "intq/io/error.hpp"
#include "intq/io/nearest_names.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

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
        throw Error("there is no " + what_ + " \"" + name + "\"; the nearest are " + nearest_names(name, names));
    }

private:
    std::string what_;
    std::vector<Row> rows_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_QUANTIZATION_OBSERVERS_NAMED_TABLE_HPP
