// SPDX-License-Identifier: MIT
//
// Float normalizations as plain loops: batch, layer, RMS and group norm. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_NORM_HPP
#define INTQ_NN_FLOAT_OPERATORS_NORM_HPP

#include <cstddef>
#include <span>
#include <vector>

#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// Mean and variance of each channel of (N, C, …).
struct ChannelMoments {
    std::vector<double> mean;
    std::vector<double> variance;  // divided by the count, not by count - 1
    index_t count = 0;             // elements of one channel
};

/// Elements of one channel of one sample of (N, C, …).
index_t inner_size(const Tensor& x);

namespace detail {

/// @param dtype  float32 or float64, the dtype of x
ChannelMoments channel_moments(const Tensor& x, DType dtype);

}  // namespace detail

/// What is normalized together in a row_major tensor: runs of elements that follow each other.
struct NormRuns {
    index_t length = 1;
    index_t weights = 1;  // how many there are
    index_t inner = 1;    // elements next to each other that share one

    std::size_t weight_of(std::size_t element) const noexcept {
        return element / static_cast<std::size_t>(inner) % static_cast<std::size_t>(weights);
    }
};

namespace detail {

/// The runs of layer_norm() and rms_norm(), and of group_norm(); `op` is for messages.
NormRuns last_axes_runs(const char* op, const Tensor& x, int axes);
NormRuns group_runs(const char* op, const Tensor& x, index_t groups);

}  // namespace detail

/// The moments of a batch.
///
/// @tparam T  float or double, the dtype of x
template <class T = float> ChannelMoments channel_moments(const Tensor& x) {
    return detail::channel_moments(x, dtype_of<T>);
}

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

/// Normalizes each run over the last `axes` axes by its own mean and variance (divided by the count).
///
///     y = (x - mean) / sqrt(variance + eps) · weight + bias
///
/// @param weight, bias  with the shape of those axes, or undefined for 1 and 0
///
/// Result   in double, rounded once
Tensor layer_norm(const Tensor& x, int axes, const Tensor& weight, const Tensor& bias, double eps);

/// Divides each run over the last `axes` axes by its root mean square.
///
///     y = x / sqrt(mean(x²) + eps) · weight
///
/// @param weight  with the shape of those axes, or undefined for 1
///
/// Result   in double, rounded once
/// Source   Zhang, Sennrich 2019
Tensor rms_norm(const Tensor& x, int axes, const Tensor& weight, double eps);

/// Normalizes each group of channels of a sample by its own mean and variance (divided by the count).
///
///     y = (x - mean) / sqrt(variance + eps) · weight[c] + bias[c]
///
/// @param x             (N, C, …), rank 2 to max_rank
/// @param groups        divides C; with C groups it is an instance norm
/// @param weight, bias  (C), or undefined for 1 and 0
///
/// Result   in double, rounded once
/// Source   Wu, He 2018; Ulyanov, Vedaldi, Lempitsky 2016
Tensor group_norm(const Tensor& x, index_t groups, const Tensor& weight, const Tensor& bias, double eps);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <cmath>
#    include <string>

#    include "intq/arith/ieee.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"
#    include "intq/tensor/current_executor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

template <class T> ChannelMoments moments_of(const Tensor& x) {
    const index_t channels = x.extent(1), inner = inner_size(x);
    ChannelMoments moments{std::vector<double>(static_cast<std::size_t>(channels)),
                           std::vector<double>(static_cast<std::size_t>(channels)), x.extent(0) * inner};
    if (moments.count == 0) throw Error("batch_norm: no elements to take statistics of, given " + to_string(x.shape()));
    const Tensor input = x.contiguous();
    const auto count = static_cast<double>(moments.count);
    current_executor()(channels, [&](index_t c) {
        const auto each = [&](const auto& visit) {
            for (index_t n = 0; n < x.extent(0); ++n) {
                const T* from = input.template flat<T>().data() + (n * channels + c) * inner;
                for (index_t i = 0; i < inner; ++i) visit(static_cast<double>(from[i]));
            }
        };
        double mean = 0, variance = 0;
        each([&](double value) { mean += value; });
        mean /= count;
        each([&](double value) { variance += arith::dmul(value - mean, value - mean); });
        moments.mean[static_cast<std::size_t>(c)] = mean;
        moments.variance[static_cast<std::size_t>(c)] = variance / count;
    });
    return moments;
}

INTQ_INLINE ChannelMoments channel_moments(const Tensor& x, DType dtype) {
    return dtype == DType::float64 ? moments_of<double>(x) : moments_of<float>(x);
}

}  // namespace detail

INTQ_INLINE index_t inner_size(const Tensor& x) {
    index_t inner = 1;
    for (int axis = 2; axis < x.rank(); ++axis) inner *= x.extent(axis);
    return inner;
}

INTQ_INLINE Tensor batch_norm(const Tensor& x, std::span<const double> mean, std::span<const double> variance,
                              const Tensor& weight, const Tensor& bias, double eps) {
    const index_t inner = inner_size(x);
    x.expect_dtype("flat", DType::float32);
    if (detail::is_of_shapes(x, weight, bias)) return Tensor::of_shape(x.shape());
    Tensor y = Tensor::empty(x.shape());
    const Tensor input = x.contiguous();
    const auto channels = static_cast<index_t>(mean.size());
    current_executor()(channels, [&](index_t channel) {
        const auto c = static_cast<std::size_t>(channel);
        const double gamma = weight.defined() ? static_cast<double>(weight.flat<float>()[c]) : 1.0;
        const double beta = bias.defined() ? static_cast<double>(bias.flat<float>()[c]) : 0.0;
        const double deviation = std::sqrt(variance[c] + eps);
        for (index_t n = 0; n < x.extent(0); ++n) {
            const index_t first = (n * channels + channel) * inner;
            const float* from = input.flat<float>().data() + first;
            float* to = y.flat<float>().data() + first;
            for (index_t i = 0; i < inner; ++i)
                to[i] =
                    static_cast<float>(arith::dmul((static_cast<double>(from[i]) - mean[c]) / deviation, gamma) + beta);
        }
    });
    return y;
}

namespace detail {

INTQ_INLINE NormRuns last_axes_runs(const char* op, const Tensor& x, int axes) {
    if (axes < 1 || axes > x.rank())
        throw Error(std::string(op) + ": the input " + to_string(x.shape()) + " does not have " + std::to_string(axes) +
                    " axes to normalize");
    const index_t run = extent_product(x.shape(), x.rank() - axes, x.rank());
    return {run, run, 1};
}

INTQ_INLINE NormRuns group_runs(const char* op, const Tensor& x, index_t groups) {
    if (x.rank() < 2 || groups < 1 || x.extent(1) < 1 || x.extent(1) % groups != 0)
        throw Error(std::string(op) + ": the channels of the input " + to_string(x.shape()) +
                    " are not a multiple of " + std::to_string(groups) + " groups");
    const index_t inner = inner_size(x);
    return {x.extent(1) / groups * inner, x.extent(1), inner};
}

/// y = (x - m) / sqrt(mean((x - m)²) + eps) · weight + bias over each run, where m is the mean, or 0 if not centered.
///
/// @param op  the operator, for messages
INTQ_INLINE Tensor normalize_runs(const char* op, const Tensor& x, const NormRuns& runs, const Tensor& weight,
                                  const Tensor& bias, double eps, bool is_centered) {
    for (const Tensor* tensor : {&weight, &bias})
        if (tensor->defined() && tensor->size() != runs.weights)
            throw Error(std::string(op) + (tensor == &weight ? ": the weight" : ": the bias") + " has the shape " +
                        to_string(tensor->shape()) + ", expected " + std::to_string(runs.weights) +
                        " elements for an input of " + to_string(x.shape()));
    x.expect_dtype("flat", DType::float32);
    if (is_of_shapes(x, weight, bias)) return Tensor::of_shape(x.shape());
    const Tensor input = x.contiguous();
    Tensor y = Tensor::empty(x.shape());
    const auto from = input.flat<float>();
    const auto to = y.flat<float>();
    const auto length = static_cast<std::size_t>(runs.length);
    const auto count = static_cast<double>(runs.length);
    for (std::size_t first = 0; first + length <= from.size() && length > 0; first += length) {
        double mean = 0, variance = 0;
        for (std::size_t i = 0; is_centered && i < length; ++i) mean += static_cast<double>(from[first + i]) / count;
        for (std::size_t i = 0; i < length; ++i) {
            const double distance = static_cast<double>(from[first + i]) - mean;
            variance += distance * distance / count;  // the sum takes a quotient: nothing to contract
        }
        for (std::size_t i = 0; i < length; ++i) {
            const std::size_t k = runs.weight_of(first + i);
            const double gamma = weight.defined() ? static_cast<double>(weight.flat<float>()[k]) : 1.0;
            const double beta = bias.defined() ? static_cast<double>(bias.flat<float>()[k]) : 0.0;
            const double normal = (static_cast<double>(from[first + i]) - mean) / std::sqrt(variance + eps);
            to[first + i] = static_cast<float>(arith::dmul(normal, gamma) + beta);
        }
    }
    return y;
}

}  // namespace detail

INTQ_INLINE Tensor layer_norm(const Tensor& x, int axes, const Tensor& weight, const Tensor& bias, double eps) {
    return detail::normalize_runs("layer_norm", x, detail::last_axes_runs("layer_norm", x, axes), weight, bias, eps,
                                  true);
}

INTQ_INLINE Tensor rms_norm(const Tensor& x, int axes, const Tensor& weight, double eps) {
    return detail::normalize_runs("rms_norm", x, detail::last_axes_runs("rms_norm", x, axes), weight, {}, eps, false);
}

INTQ_INLINE Tensor group_norm(const Tensor& x, index_t groups, const Tensor& weight, const Tensor& bias, double eps) {
    return detail::normalize_runs("group_norm", x, detail::group_runs("group_norm", x, groups), weight, bias, eps,
                                  true);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_NORM_HPP
