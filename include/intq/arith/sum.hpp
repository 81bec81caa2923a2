// SPDX-License-Identifier: MIT
//
// Sums of many floats whose bits depend on nothing but the terms and their number. Layer: arith
// (docs/design.md section 8).
#ifndef INTQ_ARITH_SUM_HPP
#define INTQ_ARITH_SUM_HPP

#include "intq/arith/lanes.hpp"

namespace intq::arith {
inline namespace INTQ_ABI {

/// A sum in binary64, in sixteen stripes: as many additions can be under way, whatever the lanes of a backend are.
/// Terms come in blocks of 64; a last one is filled with zeros.
///
///     stripe[j] = sum over the blocks of (t[j] + t[16 + j]) + (t[32 + j] + t[48 + j])
///     total     = the stripes added in pairs: ((s[0] + s[8]) + (s[4] + s[12])) + …
///
/// Result   within n · 2^-53 · sum |t| of the sum of n terms; the same bits on every backend
/// Source   our own definition
struct StripedSum {
    static constexpr index_t stripes = 16;
    static constexpr index_t block = 64;
    /// Whether a backend can add vectors of terms; else it passes blocks in memory.
    template <Lanes L> static constexpr bool takes_vectors = stripes % L::width() == 0;

    alignas(64) double stripe[stripes] = {};

    /// @param a, b, c, d  the terms of a block from j, 16 + j, 32 + j and 48 + j on
    template <Lanes L>
    INTQ_ALWAYS_INLINE constexpr void add(index_t j, typename L::f32 a, typename L::f32 b, typename L::f32 c,
                                          typename L::f32 d) noexcept {
        L::add_to(stripe + j, a, b, c, d);
    }
    constexpr void add_block(const float* terms) noexcept {
        for (index_t j = 0; j < stripes; ++j)
            scalar_lanes::add_to(stripe + j, terms[j], terms[16 + j], terms[32 + j], terms[48 + j]);
    }
    constexpr double total() const noexcept {
        double part[stripes] = {};
        for (index_t j = 0; j < stripes; ++j) part[j] = stripe[j];
        for (index_t half = stripes / 2; half > 0; half /= 2)
            for (index_t j = 0; j < half; ++j) part[j] += part[j + half];
        return part[0];
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_SUM_HPP
