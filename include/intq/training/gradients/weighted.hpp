// SPDX-License-Identifier: MIT
//
// Gradients of the layers with weights: plain, fused with add and activation, and prepared with a fake-quantized
// weight. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_WEIGHTED_HPP
#define INTQ_TRAINING_GRADIENTS_WEIGHTED_HPP

#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/linear.hpp"
#include "intq/quantization/prepared_modules.hpp"
#include "intq/training/gradients/convolution.hpp"
#include "intq/training/gradients/elementwise.hpp"

namespace intq::inline INTQ_ABI::training {

/// y[r, s] = sum_k a[r, k] · b[s, k], on float32 by the kernels, on double by plain loops.
template <class T> nn::Tensor multiply_rows(const nn::Tensor& a, const nn::Tensor& b);
/// (C, R) of (R, C).
template <class T> nn::Tensor transpose(const nn::Tensor& matrix);

namespace detail {

/// What the product of a layer gives: y = product(x, weight).
struct ProductGradients {
    nn::Tensor input, weight, bias;
};

/// Which of them are of use; the others may stay undefined.
struct ProductNeeds {
    bool input = true, bias = true;
};

/// The gradient of a layer of any form, from that of its product alone.
///
///     y = activation(product(x, fake_quantize(weight)) + bias [+ second argument])
template <class T, class Product> void weighted_backward(GradientContext& context, const Product& product) {
    auto& layer = context.module_as<nn::Weighted>();
    const nn::Tensor dy = clamp_gradient<T>(context.output(), context.gradient(), layer.fusion().activation);
    if (layer.fusion().add && context.wants(1)) context.add_input(1, dy);

    const auto* prepared = dynamic_cast<const quantization::PreparedWeight*>(&layer);
    const nn::Tensor weight = prepared != nullptr ? prepared->quantized_weight(context.inputs()) : layer.weight();
    ProductGradients gradients = product(context.input(0), weight, dy, {context.wants(0), layer.has_bias()});
    if (context.wants(0)) context.add_input(0, std::move(gradients.input));
    if (layer.has_bias()) context.add_parameter(layer.bias(), std::move(gradients.bias));
    if (prepared == nullptr) return context.add_parameter(layer.weight(), std::move(gradients.weight));

    // The gradient goes on through the quantizer of the weight, as if it stood on an edge of its own.
    quantization::FakeQuantize& quantizer = prepared->weight_fake_quant();
    const GradientRow* row = find_gradient(context.rows(), quantizer.type_name(), &quantizer);
    if (row == nullptr) throw Error("weight_fake_quant", "there is no gradient of a " + quantizer.type_name());
    const std::array<nn::Value, 1> inputs{layer.weight()};
    const nn::Value output(weight);
    const OperatorCall call{&quantizer, nn::Arguments(inputs), &output, {}};
    GradientContext inner(call, std::span(&gradients.weight, 1), context.rows());
    row->backward(inner);
    for (const auto& [parameter, gradient] : inner.parameter_gradients()) context.add_parameter(parameter, gradient);
    context.add_parameter(layer.weight(), inner.input_gradients().at(0).at(0));
}

template <class T> void conv2d_backward(GradientContext& context) {
    const nn::Conv2dOptions& options = context.module_as<nn::Conv2d>().options();
    weighted_backward<T>(
        context, [&](const nn::Tensor& x, const nn::Tensor& weight, const nn::Tensor& dy, ProductNeeds needs) {
            ProductGradients gradients;
            if (needs.input)
                gradients.input =
                    conv2d_input_gradient<T>(dy, weight, options.window, options.groups, {x.extent(2), x.extent(3)});
            gradients.weight = conv2d_weight_gradient<T>(x, dy, options.window, options.groups);
            if (needs.bias) gradients.bias = channel_sums<T>(dy);
            return gradients;
        });
}

template <class T> void linear_backward(GradientContext& context) {
    weighted_backward<T>(
        context, [](const nn::Tensor& x, const nn::Tensor& weight, const nn::Tensor& dy, ProductNeeds needs) {
            const index_t outputs = weight.extent(0), inputs = weight.extent(1), rows = dy.size() / outputs;
            const nn::Tensor gradient = dy.reshape(Shape(rows, outputs)), by_output = transpose<T>(gradient);
            ProductGradients gradients;
            if (needs.input)
                gradients.input = multiply_rows<T>(gradient, transpose<T>(weight.contiguous())).reshape(x.shape());
            gradients.weight = multiply_rows<T>(by_output, transpose<T>(x.reshape(Shape(rows, inputs))));
            if (needs.bias) gradients.bias = channel_sums<T>(gradient);
            return gradients;
        });
}

}  // namespace detail

template <class T> nn::Tensor multiply_rows(const nn::Tensor& a, const nn::Tensor& b) {
    if constexpr (std::is_same_v<T, float>) return nn::functional::linear(a, b, {});
    // A matrix product is a convolution of images of one pixel.
    const nn::Tensor images = a.reshape(Shape(a.extent(0), a.extent(1), 1, 1));
    const nn::Tensor kernels = b.reshape(Shape(b.extent(0), b.extent(1), 1, 1));
    return convolve<T>(images, kernels, {}, 1).reshape(Shape(a.extent(0), b.extent(0)));
}

template <class T> nn::Tensor transpose(const nn::Tensor& matrix) {
    const index_t rows = matrix.extent(0), columns = matrix.extent(1);
    nn::Tensor result = nn::Tensor::empty(Shape(columns, rows), dtype_of<T>);
    const auto from = matrix.view<T, 2>();
    const auto to = result.view<T, 2>();
    for (index_t i = 0; i < rows; ++i)
        for (index_t j = 0; j < columns; ++j) to(j, i) = from(i, j);
    return result;
}

}  // namespace intq::inline INTQ_ABI::training

#endif  // INTQ_TRAINING_GRADIENTS_WEIGHTED_HPP
