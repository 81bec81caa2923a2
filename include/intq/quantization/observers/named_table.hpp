// SPDX-License-Identifier: MIT
//
// Extensible tables: rows by name. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OBSERVERS_NAMED_TABLE_HPP
#define INTQ_QUANTIZATION_OBSERVERS_NAMED_TABLE_HPP

#include <string>
#include <utility>
#include <vector>

#include "intq/core/abi.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Throws the Error with the nearest names.
[[noreturn]] void throw_unknown_row(const std::string& what, const std::string& name,
                                    const std::vector<std::string>& names);

}  // namespace detail

/// Rows with a member `name`, in the order in which they were added.
template <class Row> class NamedTable {
public:
    /// @param what  the kind of a row, for messages
    explicit NamedTable(std::string what) : what_(std::move(what)) {}

    /// Adds a row, or replaces the one of its name.
    void add(Row row) {
        for (Row& known : rows_)
            if (known.name == row.name) {
                known = std::move(row);
                return;
            }
        rows_.push_back(std::move(row));
    }
    const std::vector<Row>& rows() const noexcept { return rows_; }
    /// Throws the Error with the nearest names if there is none.
    const Row& at(const std::string& name) const {
        std::vector<std::string> names;
        for (const Row& row : rows_) {
            if (row.name == name) return row;
            names.push_back(row.name);
        }
        detail::throw_unknown_row(what_, name, names);
    }

private:
    std::string what_;
    std::vector<Row> rows_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_observers)

#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void throw_unknown_row(const std::string& what, const std::string& name,
                                   const std::vector<std::string>& names) {
    throw Error("there is no " + what + " \"" + name + "\"; the nearest are " + nearest_names(name, names));
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_observers)
#endif  // INTQ_QUANTIZATION_OBSERVERS_NAMED_TABLE_HPP
