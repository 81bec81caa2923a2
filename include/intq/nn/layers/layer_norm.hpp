// SPDX-License-Identifier: MIT
//
// LayerNorm. Layer: nn (docs/design.md section 6).
#ifndef INTQ_NN_LAYERS_LAYER_NORM_HPP
#define INTQ_NN_LAYERS_LAYER_NORM_HPP

#include <string>

#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// Normalizes over the last axes, which have the shape `normalized_shape`. Parameters weight, which starts as 1, and
/// bias, which starts as 0, of that shape.
class LayerNorm : public Cloneable<LayerNorm> {
public:
    explicit LayerNorm(const Shape& normalized_shape, double eps = 1e-5);

    std::string type_name() const override { return "LayerNorm"; }
    bool is_leaf() const override { return true; }
    const Shape& normalized_shape() const noexcept { return normalized_shape_; }
    double eps() const noexcept { return eps_; }
    INTQ_INLINE Value forward(Arguments arguments) override;

private:
    Shape normalized_shape_;
    double eps_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_layers)

#    include "intq/io/error.hpp"
#    include "intq/nn/float_operators/norm.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE LayerNorm::LayerNorm(const Shape& normalized_shape, double eps)
    : normalized_shape_(normalized_shape), eps_(eps) {
    if (normalized_shape.rank < 1 || normalized_shape.size() < 1)
        throw Error("LayerNorm: the normalized shape " + to_string(normalized_shape) + " has no elements");
    add_parameter("weight", Tensor::full(normalized_shape, 1.0f));
    add_parameter("bias", Tensor::zeros(normalized_shape));
}

INTQ_INLINE Value LayerNorm::forward(Arguments arguments) {
    const Tensor& x = arguments.tensor(0);
    const int axes = normalized_shape_.rank;
    for (int axis = 1; axis <= axes; ++axis)
        if (axis > x.rank() || x.extent(-axis) != normalized_shape_[axes - axis])
            throw Error("LayerNorm: the input has shape " + to_string(x.shape()) + ", expected " +
                        to_string(normalized_shape_) + " at its end");
    return functional::layer_norm(x, axes, tensor("weight"), tensor("bias"), eps_);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_layers)
#endif  // INTQ_NN_LAYERS_LAYER_NORM_HPP
