// SPDX-License-Identifier: MIT
//
// Bins of a width that is a power of two, anchored at 0: a grid whose bins join to coarser ones exactly.
// Layer: arith (docs/workflow.md section 1).
#ifndef INTQ_ARITH_VALUE_GRID_HPP
#define INTQ_ARITH_VALUE_GRID_HPP

#include <limits>

#include "intq/arith/histogram.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// A window of bins of width 2^exponent: the numbers first, first + 1, …
struct ValueGrid {
    std::int32_t exponent = -126;
    std::int32_t first = 0;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const ValueGrid&, const ValueGrid&) = default;
};

/// Fewest bins of a grid: with them 2^exponent and its reciprocal are normal for every range of floats.
inline constexpr index_t fewest_grid_bins = 16;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// The bin of the values in all lanes.
///
///     bin(x) =  fl( x / 2^exponent)        0 <= x:  the bin k holds  k·w <= x < (k+1)·w
///     bin(x) = -fl(-x / 2^exponent) - 1    x < 0:   the bin k holds  k·w < x <= (k+1)·w, 0 excepted
///
/// A bin of a grid lies in one bin of any coarser grid: bin(x) at exponent + 1 is fl(bin(x) / 2). So the counts of a
/// fine grid determine a coarse grid's, whatever the order of the data.
///
/// @pre |x| < 2^(exponent + 24); -126 <= exponent <= 125
///
/// Result   exact
/// Source   our derivation: a quotient by a power of two is exact, or too small to matter to its floor
template <Lanes L> struct GridBins {
    using f32 = typename L::f32;
    f32 inverse_width;
    typename L::i32 first;

    static constexpr GridBins make(const ValueGrid& grid) noexcept {
        return {L::set(static_cast<float>(power_of_two(-grid.exponent))), L::set(grid.first)};
    }
    /// bin(x) - first
    INTQ_ALWAYS_INLINE constexpr typename L::i32 bin(f32 x) const noexcept {
        const f32 position = L::mul(x, inverse_width), zero = L::set(0.0f);
        const f32 below = L::floor((L::max)(position, L::sub(zero, position)));
        const f32 largest = L::set((std::numeric_limits<float>::max)());
        const f32 bin = L::choose_inside(x, zero, largest, below, L::sub(L::set(-1.0f), below));
        return L::sub(L::to_i32(bin), first);
    }
};

/// The number of the bin of one value.
constexpr std::int32_t grid_bin(float x, std::int32_t exponent) noexcept {
    return GridBins<scalar_lanes>::make({exponent, 0}).bin(x);
}

/// The finest grid that holds a range in a number of bins.
///
///     exponent = the least e >= max(exponent of the largest magnitude - 23, -126)
///                with bin(highest) - bin(lowest) < bins
///     first    = bin(lowest)
///
/// A wider range never has a finer grid: growing step by step ends at the grid of the whole range.
///
/// @pre finite, lowest <= highest, bins >= fewest_grid_bins
constexpr ValueGrid grid_of_range(float lowest, float highest, index_t bins) noexcept {
    const float largest = -lowest > highest ? -lowest : highest;
    ValueGrid grid{};
    // A float has 24 bits: finer bins than its last one would be empty.
    const int exponent = arith::frexp(static_cast<double>(largest)).exponent - 24;
    if (largest > 0.0f && exponent > grid.exponent) grid.exponent = exponent;
    while (index_t{grid_bin(highest, grid.exponent)} - grid_bin(lowest, grid.exponent) >= bins) ++grid.exponent;
    grid.first = grid_bin(lowest, grid.exponent);
    return grid;
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_VALUE_GRID_HPP
