// SPDX-License-Identifier: MIT
//
// Gradients of batch, layer, RMS and group normalization. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_NORM_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_NORM_HPP

#include <cmath>
#include <cstddef>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/float_operators/norm.hpp"
#include "intq/nn/layers/norm.hpp"
#include "intq/tensor/current_executor.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/gradients/context.hpp"
#include "intq/training/gradients/internal/elementwise.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// The gradients of a normalization's input and parameters.
struct NormGradients {
    Tensor input, weight, bias;
};

/// With m and v the mean and variance that forward used, and n = (x - m) / sqrt(v + eps):
///
///     dweight[c] = sum dy · n,   dbias[c] = sum dy
///     dx = weight / sqrt(v + eps) · (dy - mean(dy) - n · mean(dy · n))     training: m and v depend on x
///     dx = weight / sqrt(v + eps) · dy                                     evaluation, and frozen statistics
///
/// Source   Ioffe, Szegedy 2015, section 3
template <class T>
NormGradients batch_norm_gradients(const nn::BatchNorm& norm, const Tensor& input, const Tensor& gradient);

namespace detail {

template <class T> void batch_norm_backward(GradientContext& context) {
    auto& norm = context.module_as<nn::BatchNorm>();
    const Tensor dy = clamp_gradient<T>(context.output(), context.gradient(), norm.activation());
    NormGradients gradients = batch_norm_gradients<T>(norm, context.input(0), dy);
    context.add_input(0, std::move(gradients.input));
    context.add_parameter(norm.tensor("weight"), std::move(gradients.weight));
    context.add_parameter(norm.tensor("bias"), std::move(gradients.bias));
}

/// With the mean m and variance v of a run, n = (x - m) / sqrt(v + eps), and g = dy · weight:
///
///     dweight = sum of dy · n,   dbias = sum of dy,   of the elements that share them
///     dx = (g - mean(g) - n · mean(g · n)) / sqrt(v + eps)
///
/// Without centering, m and mean(g) are 0, and there is no bias.
///
/// Source   Ba, Kiros, Hinton 2016; Zhang, Sennrich 2019; Wu, He 2018
template <class T> void run_norm_backward(GradientContext& context) {
    auto& norm = context.module_as<nn::RunNorm>();
    const bool is_centered = norm.is_centered();
    const Tensor x = context.input(0).contiguous(), dy = context.gradient().contiguous();
    const nn::float_operators::NormRuns runs = norm.runs_of(x);
    const Tensor weight = norm.has_weight() ? norm.tensor("weight") : Tensor();
    const auto length = static_cast<std::size_t>(runs.length), weights = static_cast<std::size_t>(runs.weights);
    const auto count = static_cast<double>(length);
    Tensor dx = Tensor::empty(x.shape(), dtype_of<T>);
    std::vector<double> dweight(weights), dbias(weights), normal(length), scaled(length);
    for (std::size_t first = 0; first < x.flat<T>().size(); first += length) {
        const auto from = x.flat<T>().subspan(first, length), gradient = dy.flat<T>().subspan(first, length);
        double mean = 0, variance = 0, sum = 0, product = 0;
        for (const T value : from) mean += is_centered ? static_cast<double>(value) / count : 0.0;
        for (const T value : from) variance += std::pow(static_cast<double>(value) - mean, 2) / count;
        const double inverse = 1.0 / std::sqrt(variance + norm.eps());
        for (std::size_t i = 0; i < length; ++i) {
            const auto d = static_cast<double>(gradient[i]);
            const std::size_t k = runs.weight_of(first + i);
            normal[i] = (static_cast<double>(from[i]) - mean) * inverse;
            scaled[i] = d * (weight.defined() ? static_cast<double>(weight.flat<T>()[k]) : 1.0);
            sum += is_centered ? scaled[i] : 0.0;
            product += scaled[i] * normal[i];
            dweight[k] += d * normal[i];
            dbias[k] += d;
        }
        for (std::size_t i = 0; i < length; ++i)
            dx.flat<T>()[first + i] = static_cast<T>((scaled[i] - sum / count - normal[i] * product / count) * inverse);
    }
    context.add_input(0, dx);
    if (!norm.has_weight()) return;
    context.add_parameter(weight, Tensor::from(weight.shape(), std::vector<T>(dweight.begin(), dweight.end())));
    if (!norm.has_bias()) return;
    context.add_parameter(norm.tensor("bias"),
                          Tensor::from(weight.shape(), std::vector<T>(dbias.begin(), dbias.end())));
}

}  // namespace detail

template <class T>
NormGradients batch_norm_gradients(const nn::BatchNorm& norm, const Tensor& input, const Tensor& gradient) {
    const Tensor x = input.contiguous(), dy = gradient.contiguous();
    const bool of_batch = norm.uses_batch_statistics();
    nn::float_operators::ChannelMoments moments;
    if (of_batch) {
        moments = nn::float_operators::channel_moments<T>(x);
    } else {
        const auto mean = norm.tensor("running_mean").flat<float>(),
                   variance = norm.tensor("running_var").flat<float>();
        moments.mean.assign(mean.begin(), mean.end());
        moments.variance.assign(variance.begin(), variance.end());
    }
    const index_t channels = x.extent(1), inner = nn::float_operators::inner_size(x);
    Tensor dx = Tensor::empty(x.shape(), dtype_of<T>);
    Tensor dweight = Tensor::empty(Shape(channels), dtype_of<T>), dbias = dweight.clone();
    const Tensor weight = norm.tensor("weight");
    current_executor()(channels, [&](index_t c) {
        const auto k = static_cast<std::size_t>(c);
        const double mean = moments.mean[k], inverse = 1.0 / std::sqrt(moments.variance[k] + norm.options().eps);
        const auto each = [&](const auto& visit) {
            for (index_t n = 0; n < x.extent(0); ++n)
                for (index_t i = (n * channels + c) * inner; i < (n * channels + c + 1) * inner; ++i) {
                    const auto at = static_cast<std::size_t>(i);
                    visit(at, (static_cast<double>(x.flat<T>()[at]) - mean) * inverse,
                          static_cast<double>(dy.flat<T>()[at]));
                }
        };
        double sum = 0, product = 0;
        each([&](std::size_t, double normal, double slope) {
            sum += slope;
            product += slope * normal;
        });
        dbias.flat<T>()[k] = static_cast<T>(sum);
        dweight.flat<T>()[k] = static_cast<T>(product);
        const double share = of_batch ? 1.0 / static_cast<double>(moments.count) : 0.0;
        const double factor = static_cast<double>(weight.flat<T>()[k]) * inverse;
        each([&](std::size_t at, double normal, double slope) {
            dx.flat<T>()[at] = static_cast<T>(factor * (slope - share * (sum + normal * product)));
        });
    });
    return {dx, dweight, dbias};
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_NORM_HPP
