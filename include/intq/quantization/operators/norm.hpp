// SPDX-License-Identifier: MIT
//
// batch_norm2d that no convolution takes, with or without a clamp, on codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_NORM_HPP
#define INTQ_QUANTIZATION_OPERATORS_NORM_HPP

#include "intq/core/config.hpp"

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <memory>
#    include <string>
#    include <string_view>

#    include "intq/core/op_params.hpp"
#    include "intq/nn/layers/conv.hpp"
#    include "intq/nn/layers/norm.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/modules/fold_batch_norm.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/operator.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// An evaluated batch norm as the depthwise convolution that it is:
///
///     y[c] = x[c] · gamma[c] / sqrt(var[c] + eps) + (beta[c] - mean[c] · gamma[c] / sqrt(var[c] + eps))
///
/// Its integers are a convolution's, whose window is one pixel and whose codes are the largest, one scale a channel.
class BatchNormConv2d : public nn::Cloneable<BatchNormConv2d, nn::Conv2d> {
public:
    explicit BatchNormConv2d(const nn::BatchNorm& norm) : Cloneable(nn::Conv2d(options_of(norm.options()))) {
        set_weight(Tensor::full(weight().shape(), 1.0f));
        fold_batch_norm(*this, norm);
    }
    std::string type_name() const override { return fused_type_name({}); }
    static std::string fused_type_name(const nn::Fusion& fusion) {
        return fusion.activation == Activation::none ? "BatchNorm2d" : "BN" + name_of(fusion) + "2d";
    }

private:
    static nn::Conv2dOptions options_of(const nn::BatchNormOptions& options) {
        return {options.num_features, options.num_features, {}, options.num_features, true};
    }
};

namespace operators {

INTQ_INLINE std::shared_ptr<nn::Weighted> layer_of_norm(const nn::Module& module) {
    const auto& norm = dynamic_cast<const nn::BatchNorm&>(module);
    const BatchNormConv2d layer(norm);
    if (norm.activation() == Activation::none) return std::make_shared<BatchNormConv2d>(layer);
    return std::make_shared<nn::Fused<BatchNormConv2d>>(layer, nn::Fusion{false, norm.activation()});
}

inline constexpr QuantizedOperator batch_norm(std::string_view name) {
    return {.name = name,
            .role = Role::weighted,
            .kind = OpKind::conv2d,
            .prepare = &prepare_layer<BatchNormConv2d>,
            .as_layer = &layer_of_norm};
}

inline constexpr QuantizedOperator batch_norm2d = batch_norm("batch_norm2d");
inline constexpr QuantizedOperator bn_relu2d = batch_norm("BNReLU2d");
inline constexpr QuantizedOperator bn_relu62d = batch_norm("BNReLU62d");

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_NORM_HPP
