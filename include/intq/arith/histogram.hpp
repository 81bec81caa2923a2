// SPDX-License-Identifier: MIT
//
// The bin of a value in a histogram of equal bins. Layer: arith (docs/workflow.md section 1).
#ifndef INTQ_ARITH_HISTOGRAM_HPP
#define INTQ_ARITH_HISTOGRAM_HPP

#include "intq/arith/lanes.hpp"
#include "intq/core/status.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Ends of a histogram; both belong to it.
struct HistogramRange {
    float lowest = 0.0f;
    float highest = 0.0f;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const HistogramRange&, const HistogramRange&) = default;
};

/// Most bins: their numbers, and one for values outside, are exact in binary32.
inline constexpr index_t most_histogram_bins = index_t{1} << 23;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// The range that data from lowest to highest is counted in: one of no width is widened by 1 to either side.
constexpr HistogramRange histogram_range(float lowest, float highest) noexcept {
    if (lowest < highest) return {lowest, highest};
    return {fadd(lowest, -1.0f), fadd(highest, 1.0f)};
}

/// Checks the number of bins and the range.
///
/// @return ok; value_out_of_range of channels (bins not in 1 … most_histogram_bins) or of input (lowest >= highest);
///         not_finite where an end, the width or width · bins is not a finite float
constexpr Status check_histogram(const HistogramRange& range, index_t bins) noexcept {
    constexpr OpKind op = OpKind::observe;
    if (bins < 1 || bins > most_histogram_bins)
        return {StatusCode::value_out_of_range, op, Field::channels, bins, bins < 1 ? 1 : most_histogram_bins};
    if (!is_finite(range.lowest) || !is_finite(range.highest)) return {StatusCode::not_finite, op, Field::input, 0, 0};
    if (!(range.lowest < range.highest)) return {StatusCode::value_out_of_range, op, Field::input, 0, 0};
    const float width = fadd(range.highest, -range.lowest);
    if (!is_finite(fmul(width, static_cast<float>(bins)))) return {StatusCode::not_finite, op, Field::input, 0, 0};
    return {};
}

/// Bins of the values in all lanes.
///
///     bin(x) = min(fl(fdiv(fmul(fadd(x, -lowest), bins), fadd(highest, -lowest))), bins - 1)   lowest <= x <= highest
///     bin(x) = bins                                                                           elsewhere, and NaN
///
/// @pre check_histogram() is ok
///
/// Result   exact; the bins of PyTorch
/// Source   PyTorch 2.6, torch.histc on CPU
template <Lanes L> struct HistogramBins {
    using f32 = typename L::f32;
    f32 lowest, highest, width, bins, last;

    static constexpr HistogramBins make(const HistogramRange& range, index_t bins) noexcept {
        return {L::set(range.lowest), L::set(range.highest), L::set(fadd(range.highest, -range.lowest)),
                L::set(static_cast<float>(bins)), L::set(static_cast<float>(bins - 1))};
    }
    INTQ_ALWAYS_INLINE constexpr typename L::i32 bin(f32 x) const noexcept {
        const f32 position = L::div(L::mul(L::sub(x, lowest), bins), width);
        // A quotient of x in the range is not negative, and the conversion truncates; for the rest any value will do.
        const f32 inside = L::to_f32(L::to_i32((L::min)((L::max)(position, L::set(0.0f)), last)));
        return L::to_i32(L::add(bins, L::keep_inside(x, lowest, highest, L::sub(inside, bins))));
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_HISTOGRAM_HPP
