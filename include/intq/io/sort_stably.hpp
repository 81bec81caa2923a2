// SPDX-License-Identifier: MIT
//
// A stable sort for lists of layers. Layer: io.
#ifndef INTQ_IO_SORT_STABLY_HPP
#define INTQ_IO_SORT_STABLY_HPP

#include <algorithm>
#include <iterator>

#include "intq/core/abi.hpp"

namespace intq::io {
inline namespace INTQ_HOSTED_ABI {

/// Sorts, and keeps the order of equivalent elements. std::stable_sort would cause a warning in every program:
/// libstdc++'s calls a function that C++17 deprecates.
///
/// @param comes_before  a strict weak order
///
/// Memory   none
/// Cost     O(n log n) comparisons, O(n²) moves
template <class Elements, class ComesBefore> void sort_stably(Elements& elements, const ComesBefore& comes_before) {
    for (auto it = std::begin(elements); it != std::end(elements); ++it)
        std::rotate(std::upper_bound(std::begin(elements), it, *it, comes_before), it, std::next(it));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::io

#endif  // INTQ_IO_SORT_STABLY_HPP
