// SPDX-License-Identifier: MIT
//
// Oracle for argmax, written from docs/arithmetic.md section 4. Namespace intq_reference, without anything from intq.
#ifndef INTQ_TESTS_REFERENCE_ARGMAX_HPP
#define INTQ_TESTS_REFERENCE_ARGMAX_HPP

#include <algorithm>
#include <cstdint>
#include <vector>

namespace intq_reference {

/// The index of the first element that no other one exceeds.
inline std::int64_t argmax(const std::vector<std::int64_t>& line) {
    return std::max_element(line.begin(), line.end()) - line.begin();
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_ARGMAX_HPP
