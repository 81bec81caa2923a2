// SPDX-License-Identifier: MIT
//
// The table of fusions: which operators in a row become one, and what replaces them. To add a fusion, add a row. Layer:
// quantization (docs/workflow.md section 4, docs/design.md section 6).
#ifndef INTQ_QUANTIZATION_FUSE_FUSION_TABLE_HPP
#define INTQ_QUANTIZATION_FUSE_FUSION_TABLE_HPP

#include <functional>
#include <string>
#include <vector>

#include "intq/graph/pattern.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The operators of a match, as a row's function sees them.
struct FusedOperator {
    std::string name;    // operator name of graph/operators.hpp
    nn::Module* module;  // null for a function
    /// For a batch norm: whether it becomes the child "bn" of the fused layer and goes on learning, instead of being
    /// folded into the weight.
    bool keeps_norm = false;
};

/// Makes the module that replaces a match; it takes the first operator's input, then the other operand of an add.
using FusionMaker = std::function<nn::ModulePtr(const std::vector<FusedOperator>& operators)>;

struct FusionRow {
    graph::OperatorSequence operators;
    FusionMaker make;
};

/// The library's rows, longest sequences first: convolutions and transposed convolutions in one, two and three
/// dimensions, and linear, each with bn, relu, bn-relu, add, bn-add, add-relu, bn-add-relu; a batch norm with relu;
/// relu means relu or relu6.
const std::vector<FusionRow>& fusion_table();

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fuse)

#    include <cstddef>

#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/nn/layers/conv.hpp"
#    include "intq/nn/layers/conv3d.hpp"
#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/norm.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/modules/fold_batch_norm.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE Activation activation_of(const FusedOperator& op) {
    return op.name == "relu" ? Activation::relu : op.name == "relu6" ? Activation::relu6 : Activation::none;
}

/// Not folded into anything: its statistics stay, in training too.
template <class Norm> nn::ModulePtr make_fused_norm(const std::vector<FusedOperator>& operators) {
    const auto* norm = dynamic_cast<const Norm*>(operators[0].module);
    if (norm == nullptr) throw Error("the first operator is not the layer that its name says");
    return make_as<nn::Module, nn::FusedBatchNorm<Norm>>(*norm, activation_of(operators[1]));
}

/// Layer is Conv2d or Linear; the rest of the sequence decides the fusion.
template <class Layer> nn::ModulePtr make_fused(const std::vector<FusedOperator>& operators) {
    const auto* first = dynamic_cast<const Layer*>(operators[0].module);
    if (first == nullptr) throw Error("the first operator is not the layer that its name says");
    Layer layer(*first);
    nn::Fusion fusion;
    for (const FusedOperator& op : operators) {
        if (op.name == "add") fusion.add = true;
        fusion.activation = activation_of(op);
        if (const auto* norm = dynamic_cast<const nn::BatchNorm*>(op.module)) {
            if (op.keeps_norm) {
                layer.add_child("bn", norm->copy());
                continue;
            }
            if (norm->training())
                throw Error("batch norm is folded in evaluation only; call eval() on the model first");
            fold_batch_norm(layer, *norm);
        }
    }
    if (!fusion.add && fusion.activation == Activation::none && layer.norm() == nullptr)
        return make_as<nn::Module, Layer>(layer);
    return make_as<nn::Module, nn::Fused<Layer>>(layer, fusion);
}

}  // namespace detail

INTQ_INLINE const std::vector<FusionRow>& fusion_table() {
    static const std::vector<FusionRow> rows = [] {
        struct Weighted {
            const char* name;
            const char* norm;
            FusionMaker make;
        };
        const Weighted layers[] = {{"conv2d", "batch_norm2d", &detail::make_fused<nn::Conv2d>},
                                   {"conv1d", "batch_norm1d", &detail::make_fused<nn::Conv1d>},
                                   {"conv3d", "batch_norm3d", &detail::make_fused<nn::Conv3d>},
                                   {"conv_transpose2d", "batch_norm2d", &detail::make_fused<nn::ConvTranspose2d>},
                                   {"conv_transpose1d", "batch_norm1d", &detail::make_fused<nn::ConvTranspose1d>},
                                   {"conv_transpose3d", "batch_norm3d", &detail::make_fused<nn::ConvTranspose3d>},
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
        for (const char* activation : {"relu", "relu6"}) {
            all.push_back({{"batch_norm2d", activation}, &detail::make_fused_norm<nn::BatchNorm2d>});
            all.push_back({{"batch_norm1d", activation}, &detail::make_fused_norm<nn::BatchNorm1d>});
            all.push_back({{"batch_norm3d", activation}, &detail::make_fused_norm<nn::BatchNorm3d>});
        }
        return all;
    }();
    return rows;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fuse)
#endif  // INTQ_QUANTIZATION_FUSE_FUSION_TABLE_HPP
