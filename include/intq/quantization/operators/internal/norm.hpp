// SPDX-License-Identifier: MIT
//
// batch_norm2d that no convolution takes, with or without a clamp, on codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_INTERNAL_NORM_HPP
#define INTQ_QUANTIZATION_OPERATORS_INTERNAL_NORM_HPP

#include "intq/core/config.hpp"

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <memory>
#    include <string_view>
#    include <utility>

#    include "intq/arith/target.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/nn/layers/norm.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/modules/batch_norm_conv.hpp"
#    include "intq/quantization/operators/operator.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

INTQ_INLINE std::shared_ptr<nn::Weighted> layer_of_norm(const nn::Module& module, QATMode mode) {
    const auto& norm = dynamic_cast<const nn::BatchNorm2d&>(module);
    const BatchNormConv2d layer(norm, mode);
    if (norm.activation() == Activation::none) return std::make_shared<BatchNormConv2d>(layer);
    return std::make_shared<nn::Fused<BatchNormConv2d>>(layer, nn::Fusion{false, norm.activation()});
}

INTQ_INLINE std::shared_ptr<nn::Weighted> prepare_norm(const nn::Weighted& layer, std::shared_ptr<FakeQuantize> weight,
                                                       const arith::PolicyRecord& target) {
    return std::make_shared<PreparedBatchNorm2d>(dynamic_cast<const BatchNormConv2d&>(layer), layer.fusion(),
                                                 std::move(weight), target);
}

inline constexpr QuantizedOperator batch_norm(std::string_view name) {
    return {.name = name,
            .role = Role::weighted,
            .kind = OpKind::conv2d,
            .prepare = &prepare_norm,
            .as_layer = &layer_of_norm};
}

inline constexpr QuantizedOperator batch_norm2d = batch_norm("batch_norm2d");
inline constexpr QuantizedOperator bn_relu2d = batch_norm("BNReLU2d");
inline constexpr QuantizedOperator bn_relu62d = batch_norm("BNReLU62d");

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_INTERNAL_NORM_HPP
