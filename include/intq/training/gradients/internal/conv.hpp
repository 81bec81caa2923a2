// SPDX-License-Identifier: MIT
//
// Gradients of the layers with weights: plain, fused with add and activation, and prepared with a fake-quantized
// weight. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_CONV_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_CONV_HPP

#include <span>
#include <utility>

#include "intq/core/dtype.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/float_operators/conv.hpp"
#include "intq/nn/float_operators/conv3d.hpp"
#include "intq/nn/float_operators/move.hpp"
#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/conv3d.hpp"
#include "intq/nn/layers/linear.hpp"
#include "intq/nn/layers/norm.hpp"
#include "intq/nn/layers/weighted.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/gradients/context.hpp"
#include "intq/training/gradients/internal/conv_products.hpp"
#include "intq/training/gradients/internal/elementwise.hpp"
#include "intq/training/gradients/internal/linear.hpp"
#include "intq/training/gradients/internal/norm.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The weight that the product of a call took: the one on the tape of a layer that keeps a batch norm, the quantized
/// one of a prepared layer, or the layer's.
Tensor weight_of_call(const GradientContext& context, const nn::Weighted& layer);

/// Adds the gradient of a layer's weight; in a prepared layer it goes through the quantizer first.
///
/// @param weight    weight_of_call()
/// @param gradient  of that
void add_weight_gradient(GradientContext& context, const nn::Weighted& layer, const Tensor& weight, Tensor gradient);

/// Whether a layer that keeps a batch norm is only a batch norm: its product returns its input.
bool is_norm_alone(const nn::Weighted& layer);

/// The gradient of a layer of any form, from its product's gradient.
///
///     y = activation([norm](product(x, fake_quantize(weight)) + bias) [+ second argument])
template <class T, class Product> void weighted_backward(GradientContext& context, const Product& product) {
    auto& layer = context.module_as<nn::Weighted>();
    Tensor dy = clamp_gradient<T>(context.output(), context.gradient(), layer.fusion().activation);
    if (layer.fusion().add && context.wants(1)) context.add_input(1, dy);

    if (nn::BatchNorm* const norm = layer.norm()) {
        NormGradients gradients = batch_norm_gradients<T>(*norm, context.kept_tensor("product"), dy);
        context.add_parameter(norm->tensor("weight"), std::move(gradients.weight));
        context.add_parameter(norm->tensor("bias"), std::move(gradients.bias));
        dy = std::move(gradients.input);
        if (is_norm_alone(layer)) {
            if (context.wants(0)) context.add_input(0, std::move(dy));
            return;
        }
    }
    const Tensor weight = weight_of_call(context, layer);
    ProductGradients gradients = product(context.input(0), weight, dy, {context.wants(0), layer.has_bias()});
    if (context.wants(0)) context.add_input(0, std::move(gradients.input));
    if (layer.has_bias()) context.add_parameter(layer.bias(), std::move(gradients.bias));
    add_weight_gradient(context, layer, weight, std::move(gradients.weight));
}

template <class T>
ProductGradients conv2d_gradients(const Tensor& x, const Tensor& weight, const Tensor& dy, const Window2d& window,
                                  index_t groups, ProductNeeds needs) {
    ProductGradients gradients;
    if (needs.input) gradients.input = conv2d_input_gradient<T>(dy, weight, window, groups, {x.extent(2), x.extent(3)});
    gradients.weight = conv2d_weight_gradient<T>(x, dy, window, groups);
    if (needs.bias) gradients.bias = channel_sums<T>(dy);
    return gradients;
}

template <class T> void conv2d_backward(GradientContext& context) {
    const nn::Conv2dOptions& options = context.module_as<nn::Conv2d>().options();
    weighted_backward<T>(context, [&](const Tensor& x, const Tensor& weight, const Tensor& dy, ProductNeeds needs) {
        return conv2d_gradients<T>(x, weight, dy, options.window, options.groups, needs);
    });
}

/// The gradient of conv2d on images of one row.
template <class T> void conv1d_backward(GradientContext& context) {
    const auto& conv = context.module_as<nn::Conv1d>();
    const auto as_images = &nn::float_operators::images_of_rows;
    weighted_backward<T>(context, [&](const Tensor& x, const Tensor& weight, const Tensor& dy, ProductNeeds needs) {
        ProductGradients gradients = conv2d_gradients<T>(as_images(x), as_images(weight), as_images(dy), conv.window(),
                                                         conv.options().groups, needs);
        if (needs.input) gradients.input = gradients.input.reshape(x.shape());
        gradients.weight = gradients.weight.reshape(weight.shape());
        return gradients;
    });
}

/// Forward is conv2d's gradient for its input. So the gradient for the input is conv2d, and the gradient for the weight
/// is conv2d's with input and gradient exchanged.
template <class T>
ProductGradients conv_transpose2d_gradients(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                            const Window2d& window, index_t groups, ProductNeeds needs) {
    ProductGradients gradients;
    if (needs.input) {
        // With an output padding of a whole stride, conv2d has more outputs than x has cells: the first are x's.
        const Tensor all = convolve<T>(dy, weight, window, groups);
        const Tensor rows = nn::float_operators::slice(all, 2, 0, x.extent(2));
        gradients.input = nn::float_operators::slice(rows, 3, 0, x.extent(3));
    }
    gradients.weight = conv2d_weight_gradient<T>(dy, x, window, groups);
    if (needs.bias) gradients.bias = channel_sums<T>(dy);
    return gradients;
}

template <class T> void conv_transpose2d_backward(GradientContext& context) {
    const nn::ConvTranspose2dOptions& options = context.module_as<nn::ConvTranspose2d>().options();
    weighted_backward<T>(context, [&](const Tensor& x, const Tensor& weight, const Tensor& dy, ProductNeeds needs) {
        return conv_transpose2d_gradients<T>(x, weight, dy, options.window, options.groups, needs);
    });
}

/// The gradient of conv_transpose2d on images of one row.
template <class T> void conv_transpose1d_backward(GradientContext& context) {
    const nn::ConvTranspose2dOptions options = context.module_as<nn::ConvTranspose1d>().as_2d();
    const auto as_images = &nn::float_operators::images_of_rows;
    weighted_backward<T>(context, [&](const Tensor& x, const Tensor& weight, const Tensor& dy, ProductNeeds needs) {
        ProductGradients gradients = conv_transpose2d_gradients<T>(as_images(x), as_images(weight), as_images(dy),
                                                                   options.window, options.groups, needs);
        if (needs.input) gradients.input = gradients.input.reshape(x.shape());
        gradients.weight = gradients.weight.reshape(weight.shape());
        return gradients;
    });
}

/// The gradient of conv2d on images whose channels are the slices that the window sees.
template <class T> void conv3d_backward(GradientContext& context) {
    namespace volumes = nn::float_operators;
    const nn::Conv3dOptions& options = context.module_as<nn::Conv3d>().options();
    weighted_backward<T>(context, [&](const Tensor& x, const Tensor& weight, const Tensor& dy, ProductNeeds needs) {
        const index_t positions = dy.extent(2);
        const Tensor images = volumes::unfold_depth<T>(x, options.depth, positions);
        ProductGradients gradients =
            conv2d_gradients<T>(images, volumes::weight_of_images(weight), volumes::images_of_volume(dy),
                                options.window, options.groups, {needs.input, needs.bias});
        if (needs.input)
            gradients.input = volumes::fold_depth<T>(gradients.input, options.depth, positions, x.extent(2));
        gradients.weight = gradients.weight.reshape(weight.shape());
        return gradients;
    });
}

/// The gradient of conv_transpose2d to images; each slice of the output is a sum of them.
template <class T> void conv_transpose3d_backward(GradientContext& context) {
    namespace volumes = nn::float_operators;
    const nn::ConvTranspose3dOptions& options = context.module_as<nn::ConvTranspose3d>().options();
    weighted_backward<T>(context, [&](const Tensor& x, const Tensor& weight, const Tensor& dy, ProductNeeds needs) {
        const index_t positions = x.extent(2);
        const Tensor images = volumes::unfold_depth<T>(dy, options.depth, positions);
        ProductGradients gradients =
            conv_transpose2d_gradients<T>(volumes::images_of_volume(x), volumes::weight_of_images(weight), images,
                                          options.window, options.groups, {needs.input, false});
        if (needs.input) gradients.input = volumes::volume_of_images(gradients.input, positions);
        gradients.weight = gradients.weight.reshape(weight.shape());
        if (needs.bias) gradients.bias = channel_sums<T>(dy);
        return gradients;
    });
}

template <class T> void linear_backward(GradientContext& context) {
    weighted_backward<T>(context, &linear_gradients<T>);
}

/// linear() with the weight, and perhaps a bias, as arguments.
template <class T> void functional_linear_backward(GradientContext& context) {
    const bool has_bias = context.inputs().has(2);
    ProductGradients gradients =
        linear_gradients<T>(context.input(0), context.input(1), context.gradient(), {context.wants(0), has_bias});
    if (context.wants(0)) context.add_input(0, std::move(gradients.input));
    context.add_input(1, std::move(gradients.weight));
    if (has_bias) context.add_input(2, std::move(gradients.bias));
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training_gradients)

#    include <array>
#    include <cstddef>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/batch_norm_conv.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/training/gradients/internal/quantize.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The gradient through the quantizer of the weight, as if it were on its own edge; adds the gradients of its
/// parameters.
INTQ_INLINE Tensor weight_quantizer_gradient(GradientContext& context, const quantization::PreparedWeight& prepared,
                                             const Tensor& observed, const Tensor& rounded, const Tensor& gradient) {
    quantization::FakeQuantize& quantizer = prepared.weight_fake_quant();
    const std::span<const GradientRow> row = held_quantizer_row(context.rows(), &context.module());
    const std::array<nn::Value, 1> inputs{observed};
    const nn::Value output(rounded);
    const FinishedCall call{&quantizer, nn::Arguments(inputs), &output, {}};
    GradientContext inner(call, std::span(&gradient, 1), context.rows());
    row.front().backward(inner);
    for (const auto& [parameter, own] : inner.parameter_gradients()) context.add_parameter(parameter, own);
    return inner.input_gradients().at(0).at(0);
}

/// Through W = FQ(w·k) / k, k = gamma · r, for output channels c whose k is not 0; W = w where k is 0.
///
///     g = gradient through FQ of dW / k,   dw = g · k,   dgamma[c] += r · sum over the channel of g · w - dW · W / k
INTQ_INLINE Tensor reverse_fold_gradient(GradientContext& context, const quantization::PreparedWeight& prepared,
                                         const Tensor& weight_taken, const Tensor& gradient) {
    const nn::Weighted& layer = prepared.layer();
    const Tensor kept_factors = context.kept_tensor("factors");
    const auto factors = kept_factors.flat<float>();
    const auto scaled = [&](const Tensor& t, bool divide) {
        return quantization::scaled_channels(layer, t, [&](std::size_t c) {
            return factors[c] == 0.0f ? 0.0f : divide ? 1.0f / factors[c] : factors[c];
        });
    };
    const Tensor through = weight_quantizer_gradient(context, prepared, context.kept_tensor("folded"),
                                                     context.kept_tensor("rounded"), scaled(gradient, true));
    Tensor dw = scaled(through, false);
    const Tensor weight = layer.weight().contiguous();
    const auto gamma = layer.norm()->tensor("weight").flat<float>();
    std::vector<double> dgamma(factors.size());
    for (std::size_t i = 0; i < dw.flat<float>().size(); ++i) {
        const auto c = static_cast<std::size_t>(layer.output_channel_of(static_cast<index_t>(i)));
        const auto at = [i](const Tensor& t) { return static_cast<double>(t.flat<float>()[i]); };
        if (factors[c] == 0.0f) {
            dw.flat<float>()[i] = gradient.flat<float>()[i];
            continue;
        }
        const double k = static_cast<double>(factors[c]), r = k / static_cast<double>(gamma[c]);
        dgamma[c] += r * (at(through) * at(weight) - at(gradient) * at(weight_taken) / k);
    }
    context.add_parameter(
        layer.norm()->tensor("weight"),
        Tensor::from(Shape(static_cast<index_t>(dgamma.size())), std::vector<float>(dgamma.begin(), dgamma.end())));
    return dw;
}

INTQ_INLINE bool is_norm_alone(const nn::Weighted& layer) {
    return dynamic_cast<const quantization::PreparedBatchNorm2d*>(&layer) != nullptr;
}

INTQ_INLINE Tensor weight_of_call(const GradientContext& context, const nn::Weighted& layer) {
    if (layer.norm() != nullptr) return context.kept_tensor("weight");
    const auto* prepared = dynamic_cast<const quantization::PreparedWeight*>(&layer);
    return prepared != nullptr ? prepared->quantized_weight(context.inputs()) : layer.weight();
}

INTQ_INLINE void add_weight_gradient(GradientContext& context, const nn::Weighted& layer, const Tensor& weight,
                                     Tensor gradient) {
    const auto* prepared = dynamic_cast<const quantization::PreparedWeight*>(&layer);
    if (prepared != nullptr && !context.kept("factors").is_none())
        gradient = reverse_fold_gradient(context, *prepared, weight, gradient);
    else if (prepared != nullptr)
        gradient = weight_quantizer_gradient(context, *prepared, layer.weight(), weight, gradient);
    context.add_parameter(layer.weight(), std::move(gradient));
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training_gradients)
#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_CONV_HPP
