// SPDX-License-Identifier: MIT
//
// How far a tensor is from its reference: SQNR, cosine, normalized L2 error, MSE and L1.
// Layer: numeric_suite (docs/workflow.md section 5).
//
// Sums are taken in double and the result is rounded to float once, so it does not depend on the order of the
// elements in a way that shows. A NaN in either operand gives NaN. All take tensors of any shape, flattened.
#ifndef INTQ_NUMERIC_SUITE_METRICS_HPP
#define INTQ_NUMERIC_SUITE_METRICS_HPP

#include <span>

#include "intq/core/abi.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

/// Signal to quantization noise ratio in dB.
///
///     20·log10(|x| / |x - y|)
///
/// @param x  the reference
/// @param y  as many elements
/// @return infinity when equal, -infinity when only x is 0, NaN when both are 0 or empty
/// @throws Error when the sizes differ; so do the others
///
/// Result   within 1 ULP of the formula on exact sums
/// Cost     O(n); no memory
/// Source   torch.ao.ns.fx.utils.compute_sqnr
float compute_sqnr(std::span<const float> x, std::span<const float> y);

/// Cosine of the angle between x and y.
///
///     sum x·y / (max(|x|, 1e-8) · max(|y|, 1e-8))
///
/// @return 1 when equal and not 0; 0 when one of them is 0
///
/// Source   torch.ao.ns.fx.utils.compute_cosine_similarity
float compute_cosine_similarity(std::span<const float> x, std::span<const float> y);

/// Length of the error, measured by the reference.
///
///     sqrt(sum (x - y)² / sum x²)
///
/// @return 0 when equal, infinity when only x is 0, NaN when both are 0 or empty
///
/// Source   torch.ao.ns.fx.utils.compute_normalized_l2_error
float compute_normalized_l2_error(std::span<const float> x, std::span<const float> y);

/// Mean squared error, sum (x - y)² / n; NaN when empty.
float compute_mse(std::span<const float> x, std::span<const float> y);

/// Mean absolute error, sum |x - y| / n; NaN when empty.
float compute_l1(std::span<const float> x, std::span<const float> y);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite)

#    include <cmath>
#    include <cstddef>
#    include <string>

#    include "intq/io/error.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Sums of `term(x[i], y[i])` in double. Squares of floats, and sums of as many as memory holds, do not overflow.
template <class Term> double sum_over(std::span<const float> x, std::span<const float> y, Term term) {
    if (x.size() != y.size())
        throw Error("a metric compares tensors of one size, given " + std::to_string(x.size()) + " and " +
                    std::to_string(y.size()) + " elements");
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += term(static_cast<double>(x[i]), static_cast<double>(y[i]));
    return sum;
}

INTQ_INLINE double sum_of_products(std::span<const float> x, std::span<const float> y) {
    return sum_over(x, y, [](double a, double b) { return a * b; });
}

INTQ_INLINE double sum_of_squared_errors(std::span<const float> x, std::span<const float> y) {
    return sum_over(x, y, [](double a, double b) { return (a - b) * (a - b); });
}

}  // namespace detail

INTQ_INLINE float compute_sqnr(std::span<const float> x, std::span<const float> y) {
    return static_cast<float>(10.0 * std::log10(detail::sum_of_products(x, x) / detail::sum_of_squared_errors(x, y)));
}

INTQ_INLINE float compute_cosine_similarity(std::span<const float> x, std::span<const float> y) {
    constexpr double least_length = 1e-8;
    const auto length = [](std::span<const float> v) {
        const double squared = detail::sum_of_products(v, v);
        // std::max would drop a NaN.
        return squared < least_length * least_length ? least_length : std::sqrt(squared);
    };
    return static_cast<float>(detail::sum_of_products(x, y) / (length(x) * length(y)));
}

INTQ_INLINE float compute_normalized_l2_error(std::span<const float> x, std::span<const float> y) {
    return static_cast<float>(std::sqrt(detail::sum_of_squared_errors(x, y) / detail::sum_of_products(x, x)));
}

INTQ_INLINE float compute_mse(std::span<const float> x, std::span<const float> y) {
    return static_cast<float>(detail::sum_of_squared_errors(x, y) / static_cast<double>(x.size()));
}

INTQ_INLINE float compute_l1(std::span<const float> x, std::span<const float> y) {
    const double sum = detail::sum_over(x, y, [](double a, double b) { return std::abs(a - b); });
    return static_cast<float>(sum / static_cast<double>(x.size()));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

#endif  // INTQ_DEFINES(numeric_suite)
#endif  // INTQ_NUMERIC_SUITE_METRICS_HPP
