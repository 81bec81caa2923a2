// SPDX-License-Identifier: MIT
//
// How far a tensor is from its reference: SQNR, cosine, normalized L2 error, MSE, L1, KL, Atol and Rtol.
// Layer: numeric_suite (docs/workflow.md section 5).
//
// Sums are taken in double and the result is rounded to float once, so the order of the elements makes no visible
// difference. A NaN in either operand makes the result NaN, except for Rtol. All take tensors of any shape, flattened;
// only KL needs the shape.
#ifndef INTQ_NUMERIC_SUITE_METRICS_METRICS_HPP
#define INTQ_NUMERIC_SUITE_METRICS_METRICS_HPP

#include <span>

#include "intq/core/abi.hpp"
#include "intq/core/shape.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

/// Signal to quantization noise ratio in dB.
///
///     20·log10(|x| / |x - y|)
///
/// @param x  the reference
/// @param y  as many elements
/// @return infinity when equal, -infinity when only x is 0, NaN when both are 0 or empty
/// @throws Error when the sizes differ, as the other metrics do
///
/// Result   within 1 ULP of the formula on exact sums
/// Cost     O(n); no memory
/// Source   torch.ao.ns.fx.utils.compute_sqnr
float compute_sqnr(std::span<const float> x, std::span<const float> y);

/// Cosine of the angle between x and y.
///
///     sum x·y / (max(|x|, 1e-8) · max(|y|, 1e-8))
///
/// @return 1 when equal and of length 1e-8 or more; 0 when one of them is 0
///
/// Source   torch.ao.ns.fx.utils.compute_cosine_similarity
float compute_cosine_similarity(std::span<const float> x, std::span<const float> y);

/// Length of the error, relative to the length of the reference.
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

/// Divergence of the softmax of y from the softmax of x, averaged over the elements.
///
///     sum p·(log p - log q) / n,    p = softmax(x), q = softmax(y)
///
/// @param shape  of both; the softmax runs along axis 1 where the rank is above 2, and along the last axis otherwise
/// @return 0 when equal; NaN when empty
///
/// Source   the accuracy tool of Horizon's plug-in
float compute_kl(std::span<const float> x, std::span<const float> y, const Shape& shape);

/// Largest absolute error, max |x - y|, in float; 0 when empty.
float compute_atol(std::span<const float> x, std::span<const float> y);

/// Largest relative error, max |(x - y) / x|, in float. 0 / 0 and NaN count as 0, infinity as the largest float.
float compute_rtol(std::span<const float> x, std::span<const float> y);

namespace detail {

/// The metrics from sums over the elements: xx of x², yy of y², xy of x·y, errors of (x - y)².
double sqnr_of(double xx, double errors) noexcept;
double cosine_of(double xx, double yy, double xy) noexcept;
/// sum p·(log p - log q) over the elements.
double sum_of_divergences(std::span<const float> x, std::span<const float> y, const Shape& shape);
/// |(x - y) / x| as Rtol counts it.
float relative_error(float x, float y) noexcept;
/// The larger one; NaN if either is.
float larger(float a, float b) noexcept;

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_metrics)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <limits>
#    include <string>
#    include <vector>

#    include "intq/io/error.hpp"

namespace intq::numeric_suite {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void check_sizes(std::span<const float> x, std::span<const float> y) {
    if (x.size() != y.size())
        throw Error("a metric compares tensors of one size, given " + std::to_string(x.size()) + " and " +
                    std::to_string(y.size()) + " elements");
}

/// Sums of `term(x[i], y[i])` in double. Squares of floats, and sums of as many as memory holds, do not overflow.
template <class Term> double sum_over(std::span<const float> x, std::span<const float> y, Term term) {
    check_sizes(x, y);
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

INTQ_INLINE double sqnr_of(double xx, double errors) noexcept { return 10.0 * std::log10(xx / errors); }

INTQ_INLINE double cosine_of(double xx, double yy, double xy) noexcept {
    constexpr double least_length = 1e-8;
    // std::max would drop a NaN.
    const auto length = [](double squared) {
        return squared < least_length * least_length ? least_length : std::sqrt(squared);
    };
    return xy / (length(xx) * length(yy));
}

/// log(sum exp(at(i))), without overflow; `at(i)` returns value i of a row. Subtracting this from a value yields the
/// logarithm of its softmax.
template <class At> double log_of_powers(std::size_t count, const At& at) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < count; ++i) largest = at(i) > largest || std::isnan(at(i)) ? at(i) : largest;
    double sum = 0.0;
    for (std::size_t i = 0; i < count; ++i) sum += std::exp(at(i) - largest);
    return largest + std::log(sum);
}

INTQ_INLINE double sum_of_divergences(std::span<const float> x, std::span<const float> y, const Shape& shape) {
    check_sizes(x, y);
    if (shape.size() != static_cast<index_t>(x.size()))
        throw Error("KL: the shape holds " + std::to_string(shape.size()) + " elements, given " +
                    std::to_string(x.size()));
    if (x.empty()) return 0.0;
    const int axis = shape.rank > 2 ? 1 : shape.rank - 1;
    std::size_t inner = 1;
    for (int i = axis + 1; i < shape.rank; ++i) inner *= static_cast<std::size_t>(shape[i]);
    const std::size_t count = axis < 0 ? 1 : static_cast<std::size_t>(shape[axis]);
    double sum = 0.0;
    for (std::size_t block = 0; block < x.size(); block += count * inner)
        for (std::size_t first = block; first < block + inner; ++first) {
            const auto at = [&](std::span<const float> v) {
                return [=](std::size_t i) { return static_cast<double>(v[first + i * inner]); };
            };
            const auto a = at(x), b = at(y);
            const double of_x = log_of_powers(count, a), of_y = log_of_powers(count, b);
            for (std::size_t i = 0; i < count; ++i) {
                const double log_p = a(i) - of_x;
                sum += std::exp(log_p) * (log_p - (b(i) - of_y));
            }
        }
    return sum;
}

INTQ_INLINE float larger(float a, float b) noexcept { return a > b || std::isnan(a) ? a : b; }

INTQ_INLINE float relative_error(float x, float y) noexcept {
    const float error = (std::abs)((x - y) / x);
    return std::isnan(error) ? 0.0f : (std::min)(error, (std::numeric_limits<float>::max)());
}

}  // namespace detail

INTQ_INLINE float compute_sqnr(std::span<const float> x, std::span<const float> y) {
    return static_cast<float>(detail::sqnr_of(detail::sum_of_products(x, x), detail::sum_of_squared_errors(x, y)));
}

INTQ_INLINE float compute_cosine_similarity(std::span<const float> x, std::span<const float> y) {
    const double xx = detail::sum_of_products(x, x), yy = detail::sum_of_products(y, y);
    return static_cast<float>(detail::cosine_of(xx, yy, detail::sum_of_products(x, y)));
}

INTQ_INLINE float compute_normalized_l2_error(std::span<const float> x, std::span<const float> y) {
    return static_cast<float>(std::sqrt(detail::sum_of_squared_errors(x, y) / detail::sum_of_products(x, x)));
}

INTQ_INLINE float compute_mse(std::span<const float> x, std::span<const float> y) {
    return static_cast<float>(detail::sum_of_squared_errors(x, y) / static_cast<double>(x.size()));
}

INTQ_INLINE float compute_l1(std::span<const float> x, std::span<const float> y) {
    const double sum = detail::sum_over(x, y, [](double a, double b) { return (std::abs)(a - b); });
    return static_cast<float>(sum / static_cast<double>(x.size()));
}

INTQ_INLINE float compute_kl(std::span<const float> x, std::span<const float> y, const Shape& shape) {
    return static_cast<float>(detail::sum_of_divergences(x, y, shape) / static_cast<double>(x.size()));
}

INTQ_INLINE float compute_atol(std::span<const float> x, std::span<const float> y) {
    detail::check_sizes(x, y);
    float largest = 0.0f;
    for (std::size_t i = 0; i < x.size(); ++i) largest = detail::larger(largest, (std::abs)(x[i] - y[i]));
    return largest;
}

INTQ_INLINE float compute_rtol(std::span<const float> x, std::span<const float> y) {
    detail::check_sizes(x, y);
    float largest = 0.0f;
    for (std::size_t i = 0; i < x.size(); ++i) largest = (std::max)(largest, detail::relative_error(x[i], y[i]));
    return largest;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite

#endif  // INTQ_DEFINES(numeric_suite_metrics)
#endif  // INTQ_NUMERIC_SUITE_METRICS_METRICS_HPP
