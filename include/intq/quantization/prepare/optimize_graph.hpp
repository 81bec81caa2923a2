// SPDX-License-Identifier: MIT
//
// unify_cat_scales: the documents' optimize_graph. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_OPTIMIZE_GRAPH_HPP
#define INTQ_QUANTIZATION_PREPARE_OPTIMIZE_GRAPH_HPP

#include "intq/graph/graph_module.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Replaces the quantizers of each cat's inputs by the cat's, so that all have one scale and the codes are moved
/// unchanged.
///
/// The quantizer of an input belongs to the operator that sets the input's scale, before operators that move or select
/// codes or keep their scale. An input of another type than the cat, or whose scale is fixed, keeps its own and is
/// requantized.
///
/// @param model   prepared, with a graph or without
/// @param traced  its graph; the model itself if it has one
/// @return the number of quantizers that were replaced
int unify_cat_scales(nn::Module& model, graph::GraphModule& traced);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <cstddef>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/graph/operators.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/grid_choice.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/operator_table.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The call of the quantizer that sets the scale of a value; null if the value is real.
INTQ_INLINE const graph::Node* scale_giver(const graph::Node* value, graph::GraphModule& traced,
                                           NodeOperators& operators) {
    for (;;) {
        const nn::Module* const module = graph::module_of(*value, traced);
        if (dynamic_cast<const FakeQuantize*>(module) != nullptr) return value;
        if (dynamic_cast<const FollowingFakeQuantize*>(module) != nullptr ||
            (dynamic_cast<const GridChoiceFakeQuantize*>(module) != nullptr && value->inputs().size() == 1)) {
            value = value->inputs()[0]->inputs()[0];
            continue;
        }
        if (dynamic_cast<const InputGridFakeQuantize*>(module) != nullptr ||
            dynamic_cast<const GridChoiceFakeQuantize*>(module) != nullptr) {
            value = value->inputs()[1];
            continue;
        }
        const Role role = operators.of(*value).role;
        const bool keeps_grid = role == Role::shares_input || role == Role::copies_into || role == Role::item;
        if (!keeps_grid || value->inputs().empty()) return nullptr;
        value = value->inputs()[0];
    }
}

/// Puts another module into every slot that holds `former`.
INTQ_INLINE void replace_everywhere(nn::Module& model, const nn::ModulePtr& former, const nn::ModulePtr& next) {
    std::vector<std::pair<nn::Module*, std::string>> places;
    for (const auto& module : model.named_modules())
        for (const auto& child : module.value->children())
            if (child.value == former) places.emplace_back(module.value, child.name);
    for (const auto& [parent, name] : places) parent->replace_child(name, next);
}

}  // namespace detail

INTQ_INLINE int unify_cat_scales(nn::Module& model, graph::GraphModule& traced) {
    NodeOperators operators(traced);
    int replaced = 0;
    for (const graph::Node* node : traced.graph().nodes()) {
        if (operators.of(*node).role != Role::cat || node->users().size() != 1) continue;
        const graph::Node& reader = *node->users()[0];
        if (dynamic_cast<FakeQuantize*>(graph::module_of(reader, traced)) == nullptr) continue;
        const nn::ModulePtr own = traced.find_child(reader.target());
        for (const graph::Node* input : node->inputs()) {
            const graph::Node* giver = detail::scale_giver(input, traced, operators);
            if (giver == nullptr) continue;
            const nn::ModulePtr former = traced.find_child(giver->target());
            const auto& quantizer = static_cast<const FakeQuantize&>(*former);
            if (former == own || quantizer.has_given_qparams() || quantizer.observer().seen() ||
                quantizer.dtype() != static_cast<const FakeQuantize&>(*own).dtype())
                continue;
            detail::replace_everywhere(model, former, own);
            if (&traced != &model) detail::replace_everywhere(traced, former, own);
            ++replaced;
        }
    }
    return replaced;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_OPTIMIZE_GRAPH_HPP
