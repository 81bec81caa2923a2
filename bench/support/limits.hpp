// SPDX-License-Identifier: MIT
//
// The time that a layer needs at least, as a part of the peak of its dot-product instruction.
#ifndef INTQ_BENCH_SUPPORT_LIMITS_HPP
#define INTQ_BENCH_SUPPORT_LIMITS_HPP

#include <optional>

#include "intq/core/dtype.hpp"
#include "peaks.hpp"
#include "shapes.hpp"

namespace intq_bench {

/// Highest rate that a layer can reach, divided by the rate of the loop; nothing where no formula is known.
///
///     convolution, linear   nominal dots / (dots + e/i · vectors),  vectors = pixels · ceil(outputs / lanes)
///     depthwise 3×3, int8   9 / (12 + u + 15) where a dot is one instruction of depth 4, for 9 · 64 multiplications:
///                           12 dots, u = 8 instructions that interleave four rows of a column, and an epilogue of 15;
///                           with stride 2 u = 12, because a pixel shares one column of three with the next
///
/// A dot takes `i` instructions and adds `depth` products in each lane. The taps of one row of the window are
/// contiguous, so a row takes ceil(taps · channels / depth) dots; taps on padding are skipped, but counted in the
/// nominal operations, so that the limit can exceed 1. The epilogue of a vector takes e = 3.75 instructions (two
/// conversions, a multiply-add, two thirds of a pack; float: 2, the clamps).
///
/// An instruction of the epilogue is counted as long as one of the dot. That holds where both use the same ports
/// (Intel's cores with AVX-512); where the epilogue's have more, the true limit is higher by at most what e adds.
std::optional<double> limit_of_peak(const LayerShape& shape, intq::DType input, const PeakLoop& loop);

/// Bytes that a layer touches: input, weights and output once each.
double bytes_of(const LayerShape& shape, intq::DType input, intq::DType weight, intq::DType output);

}  // namespace intq_bench

#endif  // INTQ_BENCH_SUPPORT_LIMITS_HPP
