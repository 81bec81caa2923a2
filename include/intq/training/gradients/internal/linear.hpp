// SPDX-License-Identifier: MIT
//
// Products of matrices and linear layers for gradients: float32 by the kernels of inference. Layer: training.
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_LINEAR_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_LINEAR_HPP

#include <cstddef>
#include <type_traits>

#include "intq/core/dtype.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/float_operators/linear.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/gradients/internal/conv_products.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// y[r, s] = sum_k a[r, k] · b[s, k], on float32 by the kernels, on double by plain loops.
template <class T> Tensor multiply_rows(const Tensor& a, const Tensor& b);

/// (C, R) of (R, C).
template <class T> Tensor transpose(const Tensor& matrix);

/// A linear layer on the last axis: nn::float_operators::linear, or the same in double.
template <class T> Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// The gradients of a layer's product: y = product(x, weight) + bias.
struct ProductGradients {
    Tensor input, weight, bias;
};

/// Which of them are needed; the others may stay undefined.
struct ProductNeeds {
    bool input = true, bias = true;
};

/// Gradients of a linear layer on the last axis.
///
///     dx = dy · W,   dW = dy^T · x,   db = sum dy
template <class T>
ProductGradients linear_gradients(const Tensor& x, const Tensor& weight, const Tensor& dy, ProductNeeds needs = {});

// ---------------------------------------------------------------------------------------------------------------------

template <class T> Tensor multiply_rows(const Tensor& a, const Tensor& b) {
    if constexpr (std::is_same_v<T, float>) return nn::float_operators::linear(a, b, {});
    // A matrix product is a convolution of images of one pixel.
    const Tensor images = a.reshape(Shape(a.extent(0), a.extent(1), 1, 1));
    const Tensor kernels = b.reshape(Shape(b.extent(0), b.extent(1), 1, 1));
    return convolve<T>(images, kernels, {}, 1).reshape(Shape(a.extent(0), b.extent(0)));
}

template <class T> Tensor transpose(const Tensor& matrix) {
    const index_t rows = matrix.extent(0), columns = matrix.extent(1);
    Tensor result = Tensor::empty(Shape(columns, rows), dtype_of<T>);
    const auto from = matrix.view<T, 2>();
    const auto to = result.view<T, 2>();
    for (index_t i = 0; i < rows; ++i)
        for (index_t j = 0; j < columns; ++j) to(j, i) = from(i, j);
    return result;
}

template <class T> Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    if constexpr (std::is_same_v<T, float>) return nn::float_operators::linear(x, weight, bias);
    const index_t inputs = weight.extent(1), outputs = weight.extent(0);
    Shape shape = x.shape();
    shape[shape.rank - 1] = outputs;
    Tensor y = multiply_rows<T>(x.reshape(Shape(x.size() / inputs, inputs)), weight).reshape(shape);
    const auto sums = y.template flat<T>();
    for (std::size_t i = 0; bias.defined() && i < sums.size(); ++i)
        sums[i] += bias.template flat<T>()[i % static_cast<std::size_t>(outputs)];
    return y;
}

template <class T>
ProductGradients linear_gradients(const Tensor& x, const Tensor& weight, const Tensor& dy, ProductNeeds needs) {
    const index_t outputs = weight.extent(0), inputs = weight.extent(1), rows = dy.size() / outputs;
    const Tensor gradient = dy.reshape(Shape(rows, outputs));
    ProductGradients gradients;
    if (needs.input) gradients.input = multiply_rows<T>(gradient, transpose<T>(weight.contiguous())).reshape(x.shape());
    gradients.weight = multiply_rows<T>(transpose<T>(gradient), transpose<T>(x.reshape(Shape(rows, inputs))));
    if (needs.bias) gradients.bias = channel_sums<T>(gradient);
    return gradients;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_LINEAR_HPP
