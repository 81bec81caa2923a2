// SPDX-License-Identifier: MIT
//
// Float linear layer as plain loops. Layer: nn (DESIGN section 6).
#ifndef INTQ_NN_FUNCTIONAL_LINEAR_HPP
#define INTQ_NN_FUNCTIONAL_LINEAR_HPP

#include "intq/nn/tensor.hpp"

namespace intq::inline INTQ_ABI::nn::functional {

/// Linear layer on the last axis.
///
///     y[…, o] = b[o] + sum_i w[o,i] · x[…, i]
///
/// @param x       (…, I), row_major, rank 1 to max_rank
/// @param weight  (O, I)
/// @param bias    (O), or undefined
///
/// Result   sums in double, rounded once
inline Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    if (weight.rank() != 2 || x.rank() < 1 || x.extent(-1) != weight.extent(1))
        throw Error("linear: the input " + to_string(x.shape()) + " does not fit the weight " +
                    to_string(weight.shape()) + "; the last extents must be equal");
    const index_t out_features = weight.extent(0), in_features = weight.extent(1);
    if (bias.defined() && !(bias.shape() == Shape(out_features)))
        throw Error("linear: the bias has shape " + to_string(bias.shape()) + ", expected " +
                    to_string(Shape(out_features)));
    Shape shape = x.shape();
    shape[shape.rank - 1] = out_features;
    Tensor y = Tensor::empty(shape);

    const Tensor input = x.contiguous();
    const float* from = input.flat<float>().data();
    const float* const w = weight.flat<float>().data();
    float* to = y.flat<float>().data();
    const index_t rows = in_features == 0 ? y.size() / std::max<index_t>(out_features, 1) : x.size() / in_features;
    for (index_t row = 0; row < rows; ++row, from += in_features, to += out_features)
        for (index_t o = 0; o < out_features; ++o) {
            double sum = bias.defined() ? static_cast<double>(bias.flat<float>()[static_cast<std::size_t>(o)]) : 0.0;
            for (index_t i = 0; i < in_features; ++i)
                sum += static_cast<double>(w[o * in_features + i]) * static_cast<double>(from[i]);
            to[o] = static_cast<float>(sum);
        }
    return y;
}

}  // namespace intq::inline INTQ_ABI::nn::functional

#endif  // INTQ_NN_FUNCTIONAL_LINEAR_HPP
