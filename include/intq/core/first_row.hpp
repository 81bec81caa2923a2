// SPDX-License-Identifier: MIT
//
// The search among the few rows of a table. Layer: core (docs/design.md section 5).
#ifndef INTQ_CORE_FIRST_ROW_HPP
#define INTQ_CORE_FIRST_ROW_HPP

#include <cstddef>
#include <span>

#include "intq/core/abi.hpp"
#include "intq/core/config.hpp"

namespace intq {
inline namespace INTQ_ABI {

/// The first row that matches; null where none does.
///
/// Where a generated model's rows are constants, so is the result. The first four rows, as many as most models have,
/// are no loop: g++ 12 unrolls loops behind the passes that inline, and would link a layer's kernel for any parameters.
///
/// @param matches  matches(row)
///
/// Cost  O(rows)
template <class Row, class Matches>
INTQ_ALWAYS_INLINE constexpr const Row* find_first(std::span<const Row> rows, Matches&& matches) noexcept {
    if (rows.size() > 0 && matches(rows[0])) return &rows[0];
    if (rows.size() > 1 && matches(rows[1])) return &rows[1];
    if (rows.size() > 2 && matches(rows[2])) return &rows[2];
    if (rows.size() > 3 && matches(rows[3])) return &rows[3];
    for (std::size_t i = 4; i < rows.size(); ++i)
        if (matches(rows[i])) return &rows[i];
    return nullptr;
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_FIRST_ROW_HPP
