// SPDX-License-Identifier: MIT
//
// Planted fault: names that other headers define as macros. The last lines are right.
#ifndef INTQ_CORE_PLANTED_HPP
#define INTQ_CORE_PLANTED_HPP

#include <limits>

namespace intq {
inline int planted_largest() { return std::numeric_limits<int>::max(); }
inline int planted_distance(int near) { return near; }
inline bool check(int x) { return x > 0; }
template <class W> W planted_weight(W x) { return x; }

// min(a, b) and near in a comment, "max(a, b)" in a literal
inline int planted_least() { return (std::numeric_limits<int>::min)(); }
struct Planted {
    int min = 0, max = 0, check = 0;
};
template <class T> T planted_value(T x) { return x; }
}  // namespace intq

#endif  // INTQ_CORE_PLANTED_HPP
