// SPDX-License-Identifier: MIT
//
// The proof that a sum of products cannot leave its accumulator. Layer: arith (docs/arithmetic.md section 3, step 4).
#ifndef INTQ_ARITH_ACCUMULATOR_BOUND_HPP
#define INTQ_ARITH_ACCUMULATOR_BOUND_HPP

#include <cstdint>

#include "intq/core/abi.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// A closed interval of integers.
struct SumRange {
    std::int64_t lowest = 0;
    std::int64_t highest = 0;

    INTQ_ALWAYS_INLINE constexpr std::int64_t largest_magnitude() const noexcept {
        return highest > -lowest ? highest : -lowest;
    }
    INTQ_ALWAYS_INLINE constexpr bool fits(int bits) const noexcept {
        if (bits >= 64) return true;
        const std::int64_t limit = std::int64_t{1} << (bits - 1);
        return lowest >= -limit && highest < limit;
    }
};

/// Collects the weights of one output channel and bounds its accumulator over all inputs.
///
///     highest = x_max·sum w⁺ + |x_min|·sum |w⁻| + bias + highest sumin
///     lowest  = x_min·sum w⁺ - x_max·sum |w⁻| + bias + lowest sumin
///
/// Range    exact while sum |w| · max |x| < 2^62: any layer whose weights fit in memory
class AccumulatorBound {
public:
    INTQ_ALWAYS_INLINE constexpr AccumulatorBound() = default;

    INTQ_ALWAYS_INLINE constexpr void add_weight(std::int64_t w) noexcept { (w > 0 ? positive_ : negative_) += w; }

    /// sum w, for folding zero points into a bias.
    INTQ_ALWAYS_INLINE constexpr std::int64_t weight_sum() const noexcept { return positive_ + negative_; }

    /// @param x  the input's codes less their zero point
    INTQ_ALWAYS_INLINE constexpr SumRange range(SumRange x, std::int64_t bias, SumRange sumin) const noexcept {
        return {x.lowest * positive_ + x.highest * negative_ + bias + sumin.lowest,
                x.highest * positive_ + x.lowest * negative_ + bias + sumin.highest};
    }

private:
    std::int64_t positive_ = 0;
    std::int64_t negative_ = 0;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_ACCUMULATOR_BOUND_HPP
