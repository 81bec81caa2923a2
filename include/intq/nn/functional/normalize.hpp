// SPDX-License-Identifier: MIT
//
// Float batch normalization as plain loops. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_FUNCTIONAL_NORMALIZE_HPP
#define INTQ_NN_FUNCTIONAL_NORMALIZE_HPP

#include <cmath>
#include <vector>

#include "intq/nn/tensor.hpp"

namespace intq::inline INTQ_ABI::nn::functional {

/// Mean and variance of each channel of (N, C, …).
struct ChannelMoments {
    std::vector<double> mean;
    std::vector<double> variance;  // divided by the count, not by count - 1
    index_t count = 0;             // elements of one channel
};
/// @tparam T  float or double, the dtype of x
template <class T = float> ChannelMoments channel_moments(const Tensor& x);

/// Normalizes channels.
///
///     y[n,c,…] = (x[n,c,…] - mean[c]) / sqrt(variance[c] + eps) · weight[c] + bias[c]
///
/// @param x             (N, C, …), rank 2 to max_rank, row_major
/// @param weight, bias  (C), or undefined for 1 and 0
///
/// Result   in double, rounded once
Tensor batch_norm(const Tensor& x, std::span<const double> mean, std::span<const double> variance, const Tensor& weight,
                  const Tensor& bias, double eps);

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

inline index_t inner_size(const Tensor& x) {
    index_t inner = 1;
    for (int axis = 2; axis < x.rank(); ++axis) inner *= x.extent(axis);
    return inner;
}

}  // namespace detail

template <class T> ChannelMoments channel_moments(const Tensor& x) {
    const auto channels = static_cast<std::size_t>(x.extent(1));
    const index_t inner = detail::inner_size(x);
    ChannelMoments moments{std::vector<double>(channels), std::vector<double>(channels), x.extent(0) * inner};
    if (moments.count == 0) throw Error("batch_norm: no elements to take statistics of, given " + to_string(x.shape()));
    const Tensor input = x.contiguous();
    const auto each = [&](const auto& visit) {
        const T* from = input.template flat<T>().data();
        for (index_t n = 0; n < x.extent(0); ++n)
            for (std::size_t c = 0; c < channels; ++c)
                for (index_t i = 0; i < inner; ++i) visit(c, static_cast<double>(*from++));
    };
    const auto count = static_cast<double>(moments.count);
    each([&](std::size_t c, double value) { moments.mean[c] += value; });
    for (double& mean : moments.mean) mean /= count;
    each([&](std::size_t c, double value) {
        moments.variance[c] += (value - moments.mean[c]) * (value - moments.mean[c]);
    });
    for (double& variance : moments.variance) variance /= count;
    return moments;
}

inline Tensor batch_norm(const Tensor& x, std::span<const double> mean, std::span<const double> variance,
                         const Tensor& weight, const Tensor& bias, double eps) {
    const index_t inner = detail::inner_size(x);
    Tensor y = Tensor::empty(x.shape());
    const Tensor input = x.contiguous();
    const float* from = input.flat<float>().data();
    float* to = y.flat<float>().data();
    for (index_t n = 0; n < x.extent(0); ++n)
        for (std::size_t c = 0; c < mean.size(); ++c) {
            const double gamma = weight.defined() ? static_cast<double>(weight.flat<float>()[c]) : 1.0;
            const double beta = bias.defined() ? static_cast<double>(bias.flat<float>()[c]) : 0.0;
            const double deviation = std::sqrt(variance[c] + eps);
            for (index_t i = 0; i < inner; ++i)
                *to++ = static_cast<float>((static_cast<double>(*from++) - mean[c]) / deviation * gamma + beta);
        }
    return y;
}

}  // namespace intq::inline INTQ_ABI::nn::functional

#endif  // INTQ_NN_FUNCTIONAL_NORMALIZE_HPP
