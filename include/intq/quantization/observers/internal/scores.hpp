// SPDX-License-Identifier: MIT
//
// Masks among the scores of a softmax. Layer: quantization (docs/workflow.md section 4, "Masks").
#ifndef INTQ_QUANTIZATION_OBSERVERS_INTERNAL_SCORES_HPP
#define INTQ_QUANTIZATION_OBSERVERS_INTERNAL_SCORES_HPP

#include <cstddef>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/core/shape.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Scores that are this far below the largest of their row are masks: their probability is below 2^-115.
inline constexpr float masked_scores = 80.0f;
/// A row, or a number that is added to a row, that is this far below the largest of all is a mask.
inline constexpr float masked_row = 1000.0f;

/// Calls visit(places) for each row along an axis; places of elements in row_major order, of which there is one at
/// least.
template <class Visit> void for_each_row(const Shape& shape, int axis, const Visit& visit) {
    const auto count = static_cast<std::size_t>(shape[axis]), size = static_cast<std::size_t>(shape.size());
    std::size_t inner = 1;
    for (int other = axis + 1; other < shape.rank; ++other) inner *= static_cast<std::size_t>(shape[other]);
    std::vector<std::size_t> places(count);
    for (std::size_t row = 0; count > 0 && row < size / count; ++row) {
        for (std::size_t i = 0; i < count; ++i) places[i] = (row / inner * count + i) * inner + row % inner;
        visit(places);
    }
}

/// Scores along the axis of a softmax, with masks where they have no effect any more: all n of a row together have less
/// than half a code of probability.
///
///     x'[i] = max(x) - ln(2·codes·n)  for x[i] < max(x) - 80;  x[i] otherwise
///
/// A row that is as a whole 1000 below the largest score of all has masks alone, which a softmax gives equal parts; it
/// is observed at max - ln(2·codes·n) of all. A tensor without masks stays.
Tensor scores_in_reach(const Tensor& x, int axis, DType dtype);

/// Numbers that are added to scores, with masks where they still hide what they are added to. For y = factor·x, with m
/// the largest of all y:
///
///     y'[i] = min of the others - 80  for y[i] < m - 1000;  y[i] otherwise
///
/// So a mask is more than 80 below every other number, and its score below the others of its row. The numbers of a
/// tensor without masks stay.
///
/// @param factor  not 0: what becomes of 1 on the way to the softmax
Tensor masks_in_reach(const Tensor& x, double factor);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_observers)

#    include <algorithm>
#    include <cmath>
#    include <limits>

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Tensor scores_in_reach(const Tensor& x, int axis, DType dtype) {
    const int along = axis < 0 ? axis + x.rank() : axis;
    if (along < 0 || along >= x.rank()) return x;
    Tensor result = x.contiguous().clone();
    const auto values = result.flat<float>();
    const double codes = std::ldexp(1.0, 8 * static_cast<int>(size_of(dtype)));
    const auto reach = static_cast<float>(std::log(2.0 * codes * static_cast<double>(x.extent(along))));
    const float most = values.empty() ? 0.0f : *std::max_element(values.begin(), values.end());
    for_each_row(x.shape(), along, [&](const std::vector<std::size_t>& row) {
        float largest = values[row[0]];
        for (const std::size_t i : row) largest = (std::max)(largest, values[i]);
        if (largest < most - masked_row) largest = most;
        for (const std::size_t i : row)
            if (values[i] < largest - masked_scores) values[i] = largest - reach;
    });
    return result;
}

INTQ_INLINE Tensor masks_in_reach(const Tensor& x, double factor) {
    Tensor result = x.contiguous().clone();
    const auto values = result.flat<float>();
    const auto arriving = [&](float value) { return factor * static_cast<double>(value); };
    double most = -std::numeric_limits<double>::infinity(), least = std::numeric_limits<double>::infinity();
    for (const float value : values) most = (std::max)(most, arriving(value));
    const auto is_mask = [&](float value) { return arriving(value) < most - static_cast<double>(masked_row); };
    for (const float value : values)
        if (!is_mask(value)) least = (std::min)(least, arriving(value));
    for (float& value : values)
        if (is_mask(value)) value = static_cast<float>((least - static_cast<double>(masked_scores)) / factor);
    return result;
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_observers)
#endif  // INTQ_QUANTIZATION_OBSERVERS_INTERNAL_SCORES_HPP
