// SPDX-License-Identifier: MIT
//
// Sums of many floats whose bits depend on nothing but the terms and their number. Layer: arith (DESIGN section 8).
#ifndef INTQ_ARITH_SUM_HPP
#define INTQ_ARITH_SUM_HPP

#include "intq/arith/ieee.hpp"
#include "intq/core/dtype.hpp"

namespace intq::inline INTQ_ABI::arith {

/// A sum in binary64 in sixteen stripes: as many additions can be under way, whatever the lanes of a backend are.
///
///     stripe[j] = t[j] + t[16 + j] + t[32 + j] + …      for each call of add()
///     total     = ((stripe[0] + stripe[8]) + (stripe[4] + stripe[12])) + …
///
/// Result   within n · 2^-53 · sum |t| of the sum of n terms; the same bits on every backend
/// Source   our own definition
struct StripedSum {
    static constexpr index_t stripes = 16;
    /// Terms that add_block() takes.
    static constexpr index_t block = 64;

    double stripe[16] = {};

    INTQ_ALWAYS_INLINE constexpr void add_block(const float* terms) noexcept {
        for (index_t first = 0; first < block; first += stripes)
            for (index_t j = 0; j < stripes; ++j) stripe[j] += static_cast<double>(terms[first + j]);
    }
    constexpr void add(const float* terms, index_t count) noexcept {
        for (index_t i = 0; i < count; ++i) stripe[i % stripes] += static_cast<double>(terms[i]);
    }
    constexpr double total() const noexcept {
        double half[8] = {};
        for (int j = 0; j < 8; ++j) half[j] = stripe[j] + stripe[j + 8];
        return ((half[0] + half[4]) + (half[2] + half[6])) + ((half[1] + half[5]) + (half[3] + half[7]));
    }
};

}  // namespace intq::inline INTQ_ABI::arith

#endif  // INTQ_ARITH_SUM_HPP
