// SPDX-License-Identifier: MIT
//
// Operators of a prepared model that could have been fused and were not. Layer: quantization (docs/workflow.md
// section 6).
#ifndef INTQ_QUANTIZATION_CHECK_INTERNAL_UNFUSED_HPP
#define INTQ_QUANTIZATION_CHECK_INTERNAL_UNFUSED_HPP

#include <string>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/graph/node.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Nodes that match a row of the fusion table, each read only by the next; quantizers between them are left out. They
/// are usually unfused because several nodes call one module.
using UnfusedGroup = std::vector<const graph::Node*>;

/// The groups in the order of their first nodes, each as long as the table allows. A node is in at most one group.
///
/// @param fused_add  whether the target has a fused add: PolicyRecord::fused_add
std::vector<UnfusedGroup> find_unfused(graph::GraphModule& model, bool fused_add);

namespace detail {

/// The nodes that read a value, seen through quantizers and Identity.
std::vector<const graph::Node*> readers_of(const graph::Node& node, nn::Module& root);
/// Whether a node passes its first input on: a quantizer, or Identity.
bool passes_value(const graph::Node& node, nn::Module& root);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_check)

#    include <algorithm>
#    include <cstddef>
#    include <set>

#    include "intq/graph/operators.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/fuse/fusion_table.hpp"
#    include "intq/quantization/modules/batch_norm_conv.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE bool passes_value(const graph::Node& node, nn::Module& root) {
    const nn::Module* const module = graph::module_of(node, root);
    return dynamic_cast<const Quantizer*>(module) != nullptr || dynamic_cast<const nn::Identity*>(module) != nullptr;
}

INTQ_INLINE std::vector<const graph::Node*> readers_of(const graph::Node& node, nn::Module& root) {
    std::vector<const graph::Node*> readers;
    for (const graph::Node* user : node.users()) {
        if (!passes_value(*user, root)) {
            readers.push_back(user);
            continue;
        }
        // A quantizer may also read a second value for its grid, but it passes on only its first argument.
        if (user->inputs().front() != &node) continue;
        for (const graph::Node* reader : readers_of(*user, root)) readers.push_back(reader);
    }
    return readers;
}

/// The operators of a node as the fusion rows name them; relu also means relu6. A prepared module counts as the layer
/// from which it was made. A layer or batch norm with a fused relu has two. A layer with a fused add or a kept batch
/// norm has none.
INTQ_INLINE std::vector<std::string> operators_of(const graph::Node& node, nn::Module& root) {
    const auto* layer = dynamic_cast<const nn::Weighted*>(graph::module_of(node, root));
    if (layer == nullptr) {
        const std::string name = graph::operator_of(node, root);
        return {name == "relu6" ? "relu" : name};
    }
    const nn::Fusion fusion = layer->fusion();
    const bool is_norm = dynamic_cast<const BatchNormConv2d*>(layer) != nullptr;
    if (fusion.add || (fusion.norm && !is_norm)) return {};
    std::vector<std::string> operators{is_norm ? "batch_norm2d" : layer->operator_name()};
    if (fusion.activation != Activation::none) operators.emplace_back("relu");
    return operators;
}

/// The only reader of a node, if its operators come next in a row, from `at` on; null otherwise.
INTQ_INLINE const graph::Node* next_in_group(const graph::Node& node, const FusionRow& row, std::size_t at,
                                             nn::Module& root) {
    const auto readers = readers_of(node, root);
    if (readers.size() != 1) return nullptr;
    const std::vector<std::string> given = operators_of(*readers[0], root);
    if (given.empty() || given.size() > row.operators.size() - at ||
        !std::equal(given.begin(), given.end(), row.operators.begin() + static_cast<std::ptrdiff_t>(at)))
        return nullptr;
    const auto& args = readers[0]->args();
    if (given[0] == "add" && (args.size() < 2 || args[0].node() == nullptr || args[1].node() == nullptr))
        return nullptr;
    return readers[0];
}

INTQ_INLINE UnfusedGroup match_row(const FusionRow& row, const graph::Node& first, nn::Module& root) {
    UnfusedGroup group{&first};
    for (std::size_t at = 1; at < row.operators.size();) {
        const graph::Node* next = next_in_group(*group.back(), row, at, root);
        if (next == nullptr) return {};
        group.push_back(next);
        at += operators_of(*next, root).size();
    }
    return group;
}

/// A batch norm normalizes axis 1, which holds a linear layer's features only if the output is (N, C).
INTQ_INLINE bool is_norm_of_other_axis(const FusionRow& row, const graph::Node& first) {
    const graph::OutputInfo& output = first.outputs()[0];
    return row.operators.front() == "linear" && row.operators[1] == "batch_norm1d" && output.dtype != DType::none &&
           output.shape.rank != 2;
}

}  // namespace detail

INTQ_INLINE std::vector<UnfusedGroup> find_unfused(graph::GraphModule& model, bool fused_add) {
    std::vector<UnfusedGroup> groups;
    std::set<const graph::Node*> grouped;
    for (const graph::Node* node : model.graph().nodes()) {
        const std::vector<std::string> own = detail::operators_of(*node, model);
        if (own.size() != 1 || grouped.count(node) != 0) continue;
        for (const FusionRow& row : fusion_table()) {
            const auto& operators = row.operators;
            const bool adds = std::find(operators.begin(), operators.end(), "add") != operators.end();
            if (operators.front() != own.front() || (adds && !fused_add) || detail::is_norm_of_other_axis(row, *node))
                continue;
            UnfusedGroup group = detail::match_row(row, *node, model);
            const auto is_taken = [&](const graph::Node* other) { return grouped.count(other) != 0; };
            if (group.empty() || std::any_of(group.begin(), group.end(), is_taken)) continue;
            grouped.insert(group.begin(), group.end());
            groups.push_back(std::move(group));
            break;
        }
    }
    return groups;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_check)
#endif  // INTQ_QUANTIZATION_CHECK_INTERNAL_UNFUSED_HPP
