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

/// The library's rows, longest sequences first: conv2d and linear, each with bn, relu, bn-relu, add, bn-add, add-relu,
/// bn-add-relu; relu stands for relu and relu6.
const std::vector<FusionRow>& fusion_table();

/// Folds an evaluated batch norm into weight and bias of the layer before it.
///
/// Result   the bits of PyTorch's fuse_conv_bn_weights and fuse_linear_bn_weights
void fold_batch_norm(nn::Weighted& layer, const nn::BatchNorm& norm);

// ---------------------------------------------------------------------------------------------------------------------

inline void fold_batch_norm(nn::Weighted& layer, const nn::BatchNorm& norm) {
    const auto values = [&](const char* name) { return norm.tensor(name).flat<float>(); };
    const nn::Tensor old_weight = layer.weight().contiguous(), old_bias = layer.bias();
    nn::Tensor weight = nn::Tensor::empty(old_weight.shape()), bias = nn::Tensor::empty(Shape(layer.out_channels()));
    const ChannelBlocks blocks{1, layer.out_channels(), old_weight.size() / layer.out_channels()};
    const std::span<const float> old_bias_values =
        old_bias.defined() ? old_bias.flat<float>() : std::span<const float>();
    const arith::BatchNorm statistics{values("running_mean"), values("running_var"), values("weight"), values("bias"),
                                      static_cast<float>(norm.options().eps)};
    const auto order = old_weight.rank() == 2 ? arith::BatchNormOrder::linear : arith::BatchNormOrder::conv;
    throw_if_failed(arith::check_fold_batch_norm(blocks, old_weight.flat<float>(), old_bias_values, statistics,
                                                 weight.flat<float>(), bias.flat<float>()),
                    "folding " + norm.type_name());
    arith::fold_batch_norm(blocks, old_weight.flat<float>(), old_bias_values, statistics, order, weight.flat<float>(),
                           bias.flat<float>());
    layer.set_weight(std::move(weight));
    layer.set_bias(std::move(bias));
}

namespace detail {

/// Layer is Conv2d or Linear; what follows it in the sequence says the rest.
template <class Layer> nn::ModulePtr make_fused(const std::vector<FusedOperator>& operators) {
    const auto* first = dynamic_cast<const Layer*>(operators[0].module);
    if (first == nullptr) throw Error("fuse: the first operator is not the layer that its name says");
    Layer layer(*first);
    nn::Fusion fusion;
    for (const FusedOperator& op : operators) {
        if (op.name == "add") fusion.add = true;
        if (op.name == "relu") fusion.activation = Activation::relu;
        if (op.name == "relu6") fusion.activation = Activation::relu6;
        if (const auto* norm = dynamic_cast<const nn::BatchNorm*>(op.module)) {
            if (norm->training())
                throw Error("fuse: batch norm is folded in evaluation only; call eval() on the model first");
            fold_batch_norm(layer, *norm);
        }
    }
    if (!fusion.add && fusion.activation == Activation::none) return std::make_shared<Layer>(layer);
    return std::make_shared<nn::Fused<Layer>>(layer, fusion);
}

}  // namespace detail

inline const std::vector<FusionRow>& fusion_table() {
    static const FusionMaker conv = &detail::make_fused<nn::Conv2d>, linear = &detail::make_fused<nn::Linear>;
    static const std::vector<FusionRow> rows = {
        {{"conv2d", "batch_norm2d", "add", "relu"}, conv},
        {{"conv2d", "batch_norm2d", "add", "relu6"}, conv},
        {{"linear", "batch_norm1d", "add", "relu"}, linear},
        {{"linear", "batch_norm1d", "add", "relu6"}, linear},
        {{"conv2d", "batch_norm2d", "add"}, conv},
        {{"conv2d", "batch_norm2d", "relu"}, conv},
        {{"conv2d", "batch_norm2d", "relu6"}, conv},
        {{"conv2d", "add", "relu"}, conv},
        {{"conv2d", "add", "relu6"}, conv},
        {{"linear", "batch_norm1d", "add"}, linear},
        {{"linear", "batch_norm1d", "relu"}, linear},
        {{"linear", "batch_norm1d", "relu6"}, linear},
        {{"linear", "add", "relu"}, linear},
        {{"linear", "add", "relu6"}, linear},
        {{"conv2d", "batch_norm2d"}, conv},
        {{"conv2d", "add"}, conv},
        {{"conv2d", "relu"}, conv},
        {{"conv2d", "relu6"}, conv},
        {{"linear", "batch_norm1d"}, linear},
        {{"linear", "add"}, linear},
        {{"linear", "relu"}, linear},
        {{"linear", "relu6"}, linear},
    };
    return rows;
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_FUSION_TABLE_HPP
