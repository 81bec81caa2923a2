// SPDX-License-Identifier: MIT
//
// get_transformer_qconfig_mapping: the residual stream of a transformer in int16, its products in int8. Layer:
// quantization (docs/workflow.md section 3).
#ifndef INTQ_QUANTIZATION_PREPARE_TRANSFORMER_MAPPING_HPP
#define INTQ_QUANTIZATION_PREPARE_TRANSFORMER_MAPPING_HPP

#include <string>
#include <vector>

#include "intq/arith/target.hpp"
#include "intq/core/dtype.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// A layer of the residual stream.
struct StreamLayer {
    std::string name;    // of its module, or of its node: what set_module_name() takes
    const char* reason;  // "residual add", "norm", "source of the stream"
};

/// The layers of a model that carry its residual stream, in the order of the graph.
///
///     residual add   an add of two values, one of which is computed from the other through layers with weights
///     norm           a LayerNorm or RMSNorm, where the target has it in int16
///     source         adds, cats and embeddings from which a residual add takes what it passes on, through moves
///
/// @throws Error for a target without int16 adds
///
/// Cost     O(residual adds · nodes)
std::vector<StreamLayer> residual_stream(const nn::Module& model, const arith::PolicyRecord& target);

/// The norms of a model that residual_stream() leaves out, because the target has no row for their int16 codes. They
/// stay in int8, and so does what they read.
std::vector<StreamLayer> norms_outside_stream(const nn::Module& model, const arith::PolicyRecord& target);

/// get_default_qconfig_mapping() in int8, with the layers of residual_stream() in int16. What each block adds to the
/// stream is small beside what it passes on, and a norm enlarges what rounding left, so int8 loses most there; linear
/// layers and attention stay in int8. On a target with a fused add, the layers whose add is fused read int16.
QConfigMapping get_transformer_qconfig_mapping(const nn::Module& model, const arith::PolicyRecord& target,
                                               DType weight_dtype = DType::int8);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <map>
#    include <memory>
#    include <set>
#    include <string_view>
#    include <utility>

#    include "intq/arith/constraints.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/graph/graph_module.hpp"
#    include "intq/graph/operator_rows.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/graph/shape_arithmetic.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/fuse/fuse_fx.hpp"
#    include "intq/quantization/qconfig/target_defaults.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Marks the layers of one graph.
class ResidualStream {
public:
    ResidualStream(graph::GraphModule& model, const arith::PolicyRecord& target) : model_(model), names_(model) {
        const auto accepts = [&](OpKind op) {
            return arith::check_constraints(target.constraints, {op, DType::int16, DType::none, DType::int16}).ok();
        };
        if (!accepts(OpKind::add))
            throw Error(std::string("residual_stream: the target ") + target.name +
                        " has no add of int16 codes, so its residual stream stays in int8");
        has_norm_ = accepts(OpKind::layer_norm);
    }

    std::vector<StreamLayer> run() {
        const std::vector<graph::Node*> nodes = model_.graph().nodes();
        for (const graph::Node* node : nodes) {
            const std::string& op = names_.of(*node);
            if (has_norm_ && is_norm(*node)) mark(*node, "norm");
            if (op == "add" || op == "add_relu") mark_residual(*node);
        }
        std::vector<StreamLayer> layers;
        for (const graph::Node* node : nodes) {
            const auto found = reasons_.find(node);
            if (found != reasons_.end()) layers.push_back({graph::layer_name(*node), found->second});
        }
        return layers;
    }

    std::vector<StreamLayer> left_norms() {
        std::vector<StreamLayer> layers;
        for (const graph::Node* node : model_.graph().nodes())
            if (!has_norm_ && is_norm(*node)) layers.push_back({graph::layer_name(*node), "norm"});
        return layers;
    }

private:
    bool is_norm(const graph::Node& node) {
        const std::string& op = names_.of(node);
        return op == "layer_norm" || op == "rms_norm";
    }

    void mark(const graph::Node& node, const char* reason) { reasons_.emplace(&node, reason); }

    /// The values that a node computes with.
    static std::vector<const graph::Node*> values_of(const graph::Node& node) {
        std::vector<const graph::Node*> values;
        for (const graph::Node* operand : node.operands())
            if (!graph::gives_shape(*operand) && operand->op() != graph::Op::get_attr) values.push_back(operand);
        return values;
    }

    /// Whether `late` is computed from `early` through a layer with weights.
    bool is_branch(const graph::Node& late, const graph::Node& early) const {
        std::set<const graph::Node*> before{&late};
        std::vector<const graph::Node*> open{&late};
        while (!open.empty()) {
            const graph::Node* const node = open.back();
            open.pop_back();
            for (const graph::Node* value : values_of(*node))
                if (before.insert(value).second) open.push_back(value);
        }
        if (before.count(&early) == 0) return false;
        std::set<const graph::Node*> between;
        open = {&early};
        while (!open.empty()) {
            const graph::Node* const node = open.back();
            open.pop_back();
            for (const graph::Node* user : node->users()) {
                if (before.count(user) == 0 || !between.insert(user).second) continue;
                if (dynamic_cast<const nn::Weighted*>(graph::module_of(*user, model_)) != nullptr) return true;
                open.push_back(user);
            }
        }
        return false;
    }

    void mark_residual(const graph::Node& node) {
        const auto values = values_of(node);
        if (values.size() != 2 || values[0] == values[1]) return;
        for (const std::size_t passed : {std::size_t{0}, std::size_t{1}}) {
            if (!is_branch(*values[1 - passed], *values[passed])) continue;
            // A relu that alone reads the add has its quantizer.
            const bool has_relu = node.users().size() == 1 && names_.of(*node.users()[0]).starts_with("relu");
            mark(has_relu ? *node.users()[0] : node, "residual add");
            return mark_sources(*values[passed]);
        }
    }

    void mark_sources(const graph::Node& from) {
        std::vector<const graph::Node*> open{&from};
        while (!open.empty()) {
            const graph::Node* const node = open.back();
            open.pop_back();
            if (!visited_.insert(node).second) continue;
            const std::string& op = names_.of(*node);
            const bool moves = graph::moves_codes(graph::numbers_of(op));
            const bool makes = op == "add" || op == "cat" || op == "embedding" || op == "quant_stub";
            if (makes) mark(*node, "source of the stream");
            if (op != "embedding" && op != "quant_stub" && (moves || makes))
                for (const graph::Node* value : values_of(*node)) open.push_back(value);
        }
    }

    graph::GraphModule& model_;
    graph::OperatorNames names_;
    bool has_norm_ = false;
    std::map<const graph::Node*, const char*> reasons_;
    std::set<const graph::Node*> visited_;
};

}  // namespace detail

INTQ_INLINE std::vector<StreamLayer> residual_stream(const nn::Module& model, const arith::PolicyRecord& target) {
    const auto traced = traced_clone(model);
    return detail::ResidualStream(*traced, target).run();
}

INTQ_INLINE std::vector<StreamLayer> norms_outside_stream(const nn::Module& model, const arith::PolicyRecord& target) {
    const auto traced = traced_clone(model);
    return detail::ResidualStream(*traced, target).left_norms();
}

INTQ_INLINE QConfigMapping get_transformer_qconfig_mapping(const nn::Module& model, const arith::PolicyRecord& target,
                                                           DType weight_dtype) {
    QConfigMapping mapping = get_default_qconfig_mapping(target, DType::int8, weight_dtype);
    for (const StreamLayer& layer : residual_stream(model, target))
        mapping.set_module_name(layer.name, get_default_qconfig(target, DType::int16, weight_dtype));
    return mapping;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_TRANSFORMER_MAPPING_HPP
