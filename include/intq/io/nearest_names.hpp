// SPDX-License-Identifier: MIT
//
// Which known names a name that matches nothing may have meant. Layer: io.
#ifndef INTQ_IO_NEAREST_NAMES_HPP
#define INTQ_IO_NEAREST_NAMES_HPP

#include <cstddef>
#include <string>
#include <vector>

#include "intq/core/abi.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Insertions, deletions and replacements that make one word the other.
std::size_t edit_distance(const std::string& a, const std::string& b);

/// Up to three names in quotes in the order of their distance to `key`; "none" when there are none.
std::string nearest_names(const std::string& key, const std::vector<std::string>& names);

}  // namespace INTQ_CORE_ABI
}  // namespace intq

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(io)

#    include <algorithm>
#    include <set>
#    include <utility>

namespace intq {
inline namespace INTQ_CORE_ABI {

INTQ_INLINE std::size_t edit_distance(const std::string& a, const std::string& b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = (std::min)({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

INTQ_INLINE std::string nearest_names(const std::string& key, const std::vector<std::string>& names) {
    std::set<std::pair<std::size_t, std::string>> by_distance;
    for (const std::string& name : names)
        if (!name.empty()) by_distance.emplace(edit_distance(key, name), name);
    std::string text;
    int count = 0;
    for (const auto& [distance, name] : by_distance)
        if (count++ < 3) text += (text.empty() ? "\"" : ", \"") + name + "\"";
    return text.empty() ? "none" : text;
}

}  // namespace INTQ_CORE_ABI
}  // namespace intq

#endif  // INTQ_DEFINES(io)
#endif  // INTQ_IO_NEAREST_NAMES_HPP
