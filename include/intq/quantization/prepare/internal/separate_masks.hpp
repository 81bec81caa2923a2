// SPDX-License-Identifier: MIT
//
// separate_masks: masks that a model adds to the scores of a softmax become calls of MaskedFill, so that no number that
// only says "not this one" is on a grid. Layer: quantization (docs/workflow.md section 4, "Masks").
#ifndef INTQ_QUANTIZATION_PREPARE_INTERNAL_SEPARATE_MASKS_HPP
#define INTQ_QUANTIZATION_PREPARE_INTERNAL_SEPARATE_MASKS_HPP

#include "intq/graph/graph_module.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Changes the model. With c a tensor of the model, and elements of c that are more than 80 below the largest of their
/// row, along the softmax's axis:
///
///     softmax(add(x, c))
///         softmax(MaskedFill(add(x, c without these))), or softmax(MaskedFill(x)) where nothing else is added
///     masked_fill(x, c, value)
///         MaskedFill
///
/// The probabilities differ by less than 2^-115. A row that has nothing but masks keeps its scores.
void separate_masks(graph::GraphModule& model);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <cstddef>
#    include <cstdint>
#    include <limits>
#    include <memory>
#    include <optional>
#    include <string>
#    include <vector>

#    include "intq/graph/operators.hpp"
#    include "intq/graph/rewrite.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/quantization/observers/internal/scores.hpp"
#    include "intq/quantization/operators/operator_table.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

class MaskSeparator {
public:
    explicit MaskSeparator(graph::GraphModule& model) : model_(model), operators_(model) {}

    void run() {
        for (graph::Node* node : model_.graph().nodes()) {
            if (node->op() != graph::Op::call_function && node->op() != graph::Op::call_method &&
                node->op() != graph::Op::call_module)
                continue;
            const std::string_view name = operators_.of(*node).name;
            if (name == "add") separate(*node);
            if (name == "masked_fill" && graph::module_of(*node, model_) == nullptr) give_module(*node);
        }
    }

private:
    struct Parts {
        Tensor mask, rest;  // uint8, and what is added to scores that are not masked
    };

    /// None for a tensor without masks.
    static std::optional<Parts> parts_of(const Tensor& c, int axis) {
        if (axis < 0 || axis >= c.rank()) return std::nullopt;
        Parts parts{Tensor::zeros(c.shape(), DType::uint8), c.contiguous().clone()};
        const auto masks = parts.mask.flat<std::uint8_t>();
        const auto values = parts.rest.flat<float>();
        bool any = false;
        for_each_row(c.shape(), axis, [&](const std::vector<std::size_t>& row) {
            float largest = values[row[0]];
            for (const std::size_t i : row) largest = (std::max)(largest, values[i]);
            const bool is_masked = largest < -masked_scores;  // as a whole: a softmax does not see what all have
            any = any || is_masked;
            for (const std::size_t i : row) {
                const bool is_mask = values[i] < largest - masked_scores;
                any = any || is_mask;
                masks[i] = is_mask ? 1 : 0;
                values[i] = is_mask ? 0.0f : is_masked ? values[i] - largest : values[i];
            }
        });
        return any ? std::optional(parts) : std::nullopt;
    }

    void separate(graph::Node& node) {
        if (node.args().size() != 2) return;
        for (const std::size_t c : {std::size_t{1}, std::size_t{0}}) {
            const graph::Node* const constant = node.args()[c].node();
            graph::Node* const x = node.args()[1 - c].node();
            if (constant == nullptr || x == nullptr || constant->op() != graph::Op::get_attr) continue;
            const Tensor* const values = model_.find_tensor(constant->target());
            if (values == nullptr || values->dtype() != DType::float32) continue;
            const auto axis = operators_.axis_of_scores(node);
            const int rank = rank_of(*x, *values);
            const std::optional<Parts> parts =
                axis ? parts_of(*values, *axis < 0 ? *axis + values->rank() : *axis - rank + values->rank())
                     : std::nullopt;
            if (parts) return replace(node, *x, c, *parts);
        }
    }

    /// Of the scores: that of the example, or of the constant.
    static int rank_of(const graph::Node& x, const Tensor& c) {
        return x.outputs()[0].dtype != DType::none ? (std::max)(x.outputs()[0].shape.rank, c.rank()) : c.rank();
    }

    void replace(graph::Node& node, graph::Node& x, std::size_t c, const Parts& parts) {
        const auto rest = parts.rest.flat<float>();
        const auto masks = parts.mask.flat<std::uint8_t>();
        graph::Node& constant = *node.args()[c].node();
        if (std::any_of(masks.begin(), masks.end(), [](std::uint8_t mask) { return mask != 0; }))
            insert(node, std::make_shared<nn::MaskedFill>(parts.mask, lowest));
        if (std::any_of(rest.begin(), rest.end(), [](float value) { return value != 0.0f; })) {
            const std::string name = "_without_mask_" + std::to_string(next_++);
            model_.add_buffer(name, parts.rest);
            const auto place = model_.graph().before(node);
            graph::ArgumentList args = node.args();
            args[c] = model_.graph().get_attr(name);
            node.set_args(std::move(args));
        } else {
            model_.graph().replace_all_uses(node, x);
            model_.graph().erase(node);
        }
        if (constant.users().empty()) model_.graph().erase(constant);
        operators_.forget();
    }

    /// Behind a node, under its name.
    void insert(graph::Node& node, nn::ModulePtr module) {
        const std::string path = node.op() == graph::Op::call_module ? node.target() : node.name();
        graph::insert_module(model_, node, path + "_masked", std::move(module)).set_scope(node.scope());
    }

    void give_module(graph::Node& node) {
        const graph::ArgumentList& args = node.args();
        graph::Node* const mask = args.size() == 3 ? args[1].node() : nullptr;
        const std::optional<double> value = mask != nullptr ? args[2].number() : std::nullopt;
        const bool is_constant = value && mask->op() == graph::Op::get_attr && args[0].node() != nullptr;
        const Tensor* const values = is_constant ? model_.find_tensor(mask->target()) : nullptr;
        if (values == nullptr) return;
        insert(node, std::make_shared<nn::MaskedFill>(*values, *value));
        model_.graph().replace_all_uses(node, *args[0].node());
        model_.graph().erase(node);
        if (mask->users().empty()) model_.graph().erase(*mask);
        operators_.forget();
    }

    static constexpr double lowest = static_cast<double>(std::numeric_limits<float>::lowest());
    graph::GraphModule& model_;
    mutable NodeOperators operators_;
    int next_ = 0;
};

INTQ_INLINE void separate_masks(graph::GraphModule& model) { MaskSeparator(model).run(); }

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_INTERNAL_SEPARATE_MASKS_HPP
