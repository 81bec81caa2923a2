// SPDX-License-Identifier: MIT
//
// The table of fusions: which operators in a row become one, and what replaces them. Adding a fusion is adding a row.
// Layer: quantization (WORKFLOW section 4, DESIGN section 6).
#ifndef INTQ_QUANTIZATION_FUSION_TABLE_HPP
#define INTQ_QUANTIZATION_FUSION_TABLE_HPP

#include "intq/arith/batch_norm.hpp"
#include "intq/graph/pattern.hpp"
#include "intq/nn/layers/batch_norm.hpp"
#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/linear.hpp"

namespace intq::inline INTQ_ABI::quantization {

/// The operators of a match, as a row's function sees them.
struct FusedOperator {
    std::string name;    // operator name of graph/operators.hpp
    nn::Module* module;  // null for a function
};

/// Makes the module that replaces a match; it takes the first operator's input, then the other operand of an add.
using FusionMaker = std::function<nn::ModulePtr(const std::vector<FusedOperator>& operators)>;

struct FusionRow {
    graph::OperatorSequence operators;
    FusionMaker make;
};

/// The library's rows, longest sequences first: conv2d, conv1d, conv_transpose2d and linear, each with bn, relu,
/// bn-relu, add, bn-add, add-relu, bn-add-relu; batch_norm2d with relu; relu stands for relu and relu6.
const std::vector<FusionRow>& fusion_table();

/// Folds an evaluated batch norm into weight and bias of the layer before it.
///
/// Result   the bits of PyTorch's fuse_conv_bn_weights and fuse_linear_bn_weights
void fold_batch_norm(nn::Weighted& layer, const nn::BatchNorm& norm);

// ---------------------------------------------------------------------------------------------------------------------

inline void fold_batch_norm(nn::Weighted& layer, const nn::BatchNorm& norm) {
    const nn::Tensor old_weight = layer.weight().contiguous(), old_bias = layer.bias();
    nn::Tensor weight = nn::Tensor::empty(old_weight.shape()), bias = nn::Tensor::empty(Shape(layer.out_channels()));
    // The groups of a transposed convolution lie one behind the other; other layers are one group here.
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
        const arith::BatchNorm statistics{channel_values("running_mean"), channel_values("running_var"),
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
}

namespace detail {

inline Activation activation_of(const FusedOperator& op) {
    return op.name == "relu" ? Activation::relu : op.name == "relu6" ? Activation::relu6 : Activation::none;
}

/// Not folded into anything: its statistics stay, in training too.
inline nn::ModulePtr make_fused_norm(const std::vector<FusedOperator>& operators) {
    const auto* norm = dynamic_cast<const nn::BatchNorm2d*>(operators[0].module);
    if (norm == nullptr) throw Error("the first operator is not the layer that its name says");
    return std::make_shared<nn::FusedBatchNorm2d>(*norm, activation_of(operators[1]));
}

/// Layer is Conv2d or Linear; what follows it in the sequence says the rest.
template <class Layer> nn::ModulePtr make_fused(const std::vector<FusedOperator>& operators) {
    const auto* first = dynamic_cast<const Layer*>(operators[0].module);
    if (first == nullptr) throw Error("the first operator is not the layer that its name says");
    Layer layer(*first);
    nn::Fusion fusion;
    for (const FusedOperator& op : operators) {
        if (op.name == "add") fusion.add = true;
        fusion.activation = activation_of(op);
        if (const auto* norm = dynamic_cast<const nn::BatchNorm*>(op.module)) {
            if (norm->training())
                throw Error("batch norm is folded in evaluation only; call eval() on the model first");
            fold_batch_norm(layer, *norm);
        }
    }
    if (!fusion.add && fusion.activation == Activation::none) return std::make_shared<Layer>(layer);
    return std::make_shared<nn::Fused<Layer>>(layer, fusion);
}

}  // namespace detail

inline const std::vector<FusionRow>& fusion_table() {
    static const std::vector<FusionRow> rows = [] {
        struct Weighted {
            const char* name;
            const char* norm;
            FusionMaker make;
        };
        const Weighted layers[] = {{"conv2d", "batch_norm2d", &detail::make_fused<nn::Conv2d>},
                                   {"conv1d", "batch_norm1d", &detail::make_fused<nn::Conv1d>},
                                   {"conv_transpose2d", "batch_norm2d", &detail::make_fused<nn::ConvTranspose2d>},
                                   {"linear", "batch_norm1d", &detail::make_fused<nn::Linear>}};
        std::vector<FusionRow> all;
        for (std::size_t length = 4; length >= 2; --length)
            for (const Weighted& layer : layers)
                for (const bool norm : {true, false})
                    for (const bool add : {true, false})
                        for (const char* activation : {"relu", "relu6", ""}) {
                            graph::OperatorSequence operators{layer.name};
                            if (norm) operators.emplace_back(layer.norm);
                            if (add) operators.emplace_back("add");
                            if (*activation != 0) operators.emplace_back(activation);
                            if (operators.size() == length) all.push_back({std::move(operators), layer.make});
                        }
        for (const char* activation : {"relu", "relu6"})
            all.push_back({{"batch_norm2d", activation}, &detail::make_fused_norm});
        return all;
    }();
    return rows;
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_FUSION_TABLE_HPP
