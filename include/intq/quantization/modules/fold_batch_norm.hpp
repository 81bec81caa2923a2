// SPDX-License-Identifier: MIT
//
// fold_batch_norm: a layer with weights takes over the batch norm behind it. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_MODULES_FOLD_BATCH_NORM_HPP
#define INTQ_QUANTIZATION_MODULES_FOLD_BATCH_NORM_HPP

#include <memory>
#include <vector>

#include "intq/nn/layers/norm.hpp"
#include "intq/nn/layers/weighted.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Folds an evaluated batch norm into weight and bias of the layer before it.
///
/// Result   the bits of PyTorch's fuse_conv_bn_weights and fuse_linear_bn_weights
void fold_batch_norm(nn::Weighted& layer, const nn::BatchNorm& norm);

/// A copy of a layer that keeps its batch norm, with the norm folded; the layer itself is not changed.
std::shared_ptr<nn::Weighted> with_folded_norm(const nn::Weighted& layer);

/// The factors by which folding multiplies each output channel's weights.
///
///     k[c] = gamma[c] / sqrt(running_var[c] + eps)
///
/// Result   the factor of fold_batch_norm(), to the bit
std::vector<float> fold_factors(const nn::BatchNorm& norm);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_modules)

#    include <cstddef>
#    include <span>
#    include <string>
#    include <utility>

#    include "intq/arith/norm.hpp"
#    include "intq/io/error.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void fold_batch_norm(nn::Weighted& layer, const nn::BatchNorm& norm) {
    if (norm.options().num_features != layer.out_channels())
        throw Error(norm.type_name() + " of " + std::to_string(norm.options().num_features) + " channels after " +
                    layer.type_name() + " of " + std::to_string(layer.out_channels()));
    const Tensor old_weight = layer.weight().contiguous(), old_bias = layer.bias();
    Tensor weight = Tensor::empty(old_weight.shape()), bias = Tensor::empty(Shape(layer.out_channels()));
    // The groups of a transposed convolution are stored one after the other; other layers are one group here.
    const int axis = layer.weight_channel_axis();
    const index_t channels = old_weight.extent(axis), groups = layer.out_channels() / channels;
    const ChannelBlocks blocks{axis == 0 ? 1 : old_weight.extent(0) / groups, channels,
                               old_weight.size() / (axis == 0 ? channels : old_weight.extent(0) * channels)};
    const auto order = old_weight.rank() == 2 ? arith::BatchNormOrder::linear : arith::BatchNormOrder::conv;
    const auto of_group = [](auto values, index_t group, index_t size) {
        return values.empty() ? values
                              : values.subspan(static_cast<std::size_t>(group * size), static_cast<std::size_t>(size));
    };
    for (index_t g = 0; g < groups; ++g) {
        const auto channel_values = [&](const char* name) {
            return of_group(norm.tensor(name).flat<float>(), g, channels);
        };
        const arith::BatchNormTerms statistics{channel_values("running_mean"), channel_values("running_var"),
                                               channel_values("weight"), channel_values("bias"),
                                               static_cast<float>(norm.options().eps)};
        const auto old_bias_values =
            old_bias.defined() ? of_group(old_bias.flat<float>(), g, channels) : std::span<const float>();
        const auto from = of_group(old_weight.flat<float>(), g, blocks.size());
        const auto to = of_group(weight.flat<float>(), g, blocks.size());
        const auto new_bias = of_group(bias.flat<float>(), g, channels);
        const Status status = arith::check_fold_batch_norm(blocks, from, old_bias_values, statistics, to, new_bias);
        if (status.code == StatusCode::value_out_of_range)
            throw Error(norm.type_name() + ": running_var of channel " + std::to_string(g * channels + status.given) +
                        " is " + std::to_string(statistics.variance[static_cast<std::size_t>(status.given)]) +
                        "; with eps it must be a positive number");
        throw_if_failed(status, "folding " + norm.type_name());
        arith::fold_batch_norm(blocks, from, old_bias_values, statistics, order, to, new_bias);
    }
    layer.set_weight(std::move(weight));
    layer.set_bias(std::move(bias));
    layer.set_folded_norm();
}

INTQ_INLINE std::shared_ptr<nn::Weighted> with_folded_norm(const nn::Weighted& layer) {
    auto folded = std::static_pointer_cast<nn::Weighted>(layer.copy());
    fold_batch_norm(*folded, *layer.norm());
    folded->remove_norm();
    return folded;
}

INTQ_INLINE std::vector<float> fold_factors(const nn::BatchNorm& norm) {
    const auto gamma = norm.tensor("weight").flat<float>(), variance = norm.tensor("running_var").flat<float>();
    std::vector<float> factors;
    for (std::size_t c = 0; c < gamma.size(); ++c)
        factors.push_back(
            arith::fmul(gamma[c], arith::inverse_deviation(variance[c], static_cast<float>(norm.options().eps))));
    return factors;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_modules)
#endif  // INTQ_QUANTIZATION_MODULES_FOLD_BATCH_NORM_HPP
