// SPDX-License-Identifier: MIT
//
// Float linear layer. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_FLOAT_OPERATORS_LINEAR_HPP
#define INTQ_NN_FLOAT_OPERATORS_LINEAR_HPP

#include "intq/nn/float_operators/float_layer_cache.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

/// Linear layer on the last axis.
///
///     y[…, o] = b[o] + sum_i w[o,i] · x[…, i]
///
/// @param x       (…, I), row_major, rank 1 to max_rank
/// @param weight  (O, I)
/// @param bias    (O), or undefined
/// @param cache   of a layer that is called again: keeps packed weights while their values stay; null: nothing is kept
///
/// Result   as kernels::run_float_conv2d on simd::default_backend: other last bits on other backends
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, FloatLayerCache* cache = nullptr);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_float_operators)

#    include <string>

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/axes.hpp"
#    include "intq/nn/float_operators/float_layer.hpp"

namespace intq::nn::float_operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, FloatLayerCache* cache) {
    if (weight.rank() != 2 || x.rank() < 1 || x.extent(-1) != weight.extent(1))
        throw Error("linear: the input " + to_string(x.shape()) + " does not fit the weight " +
                    to_string(weight.shape()) + "; the last extents must be equal");
    const index_t out_features = weight.extent(0), in_features = weight.extent(1);
    if (bias.defined() && !(bias.shape() == Shape(out_features)))
        throw Error("linear: the bias has shape " + to_string(bias.shape()) + ", expected " +
                    to_string(Shape(out_features)));
    Shape shape = x.shape();
    shape[shape.rank - 1] = out_features;
    if (detail::is_of_shapes(x, weight, bias)) return x.expect_dtype("view", DType::float32), Tensor::of_shape(shape);
    Tensor y = Tensor::empty(shape);
    if (y.size() == 0) return y;
    // Each row of features is an image of one pixel: both layouts are the same.
    const index_t rows = y.size() / out_features;
    Tensor images = y.reshape(Shape(rows, out_features, 1, 1));
    FloatLayerSpec spec;
    spec.conv.op = OpKind::linear;
    spec.conv.in_channels = in_features;
    spec.conv.out_channels = out_features;
    detail::run_float_layer(spec, x.reshape(Shape(rows, in_features, 1, 1)), weight, bias, images, cache);
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn::float_operators

#endif  // INTQ_DEFINES(nn_float_operators)
#endif  // INTQ_NN_FLOAT_OPERATORS_LINEAR_HPP
