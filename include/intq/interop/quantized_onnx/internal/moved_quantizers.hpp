// SPDX-License-Identifier: MIT
//
// Quantizers behind operators that only move or choose values, put in front of these. Layer: interop (docs/onnx.md).
#ifndef INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_MOVED_QUANTIZERS_HPP
#define INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_MOVED_QUANTIZERS_HPP

#include "intq/arith/target.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Puts the quantizer that the values of an operator lead to right behind the operator, where only moves, maxima and
/// bounds are in between.
///
///     QuantizeLinear(move(x)) = move(QuantizeLinear(x)),  QuantizeLinear(max(x, y)) = max of both codes
///
/// Thus the codes are the file's. A per-channel quantizer stays, because a move may change its axis; so do quantizers
/// of different grids.
void quantize_before_moves(quantization::PreparedModel& model, const arith::PolicyRecord& target);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_quantized_onnx)

#    include <algorithm>
#    include <string_view>

#    include "intq/graph/graph.hpp"
#    include "intq/graph/graph_module.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/graph/operator_rows.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/quantization/fake_quantize/quantizer.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/operator_table.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

class MovedQuantizers {
public:
    MovedQuantizers(quantization::PreparedModel& model, const arith::PolicyRecord& target)
        : model_(model), target_(target), operators_(model) {}

    void run() {
        for (graph::Node* node : model_.graph().nodes()) {
            if (quantizer(*node) != nullptr || !computes(operators_.of(*node))) continue;
            graph::Node& last = with_relu(*node);
            if (std::all_of(last.users().begin(), last.users().end(),
                            [&](const graph::Node* user) { return quantizer(*user) != nullptr; }))
                continue;
            const graph::Node* const wanted = leads_to(last);
            if (wanted == nullptr) continue;
            const auto at = model_.graph().after(last);
            graph::Node& call = model_.graph().call_module(wanted->target(), {last});
            call.outputs() = last.outputs();
            model_.graph().replace_all_uses(last, call);
        }
    }

private:
    using Row = quantization::QuantizedOperator;
    using Role = quantization::Role;

    const quantization::Quantizer* quantizer(const graph::Node& node) const {
        return dynamic_cast<const quantization::Quantizer*>(graph::module_of(node, model_));
    }

    bool changes_values(const Row& row) const { return row.keeps_scale != nullptr && row.keeps_scale(target_); }

    bool computes(const Row& row) const {
        return row.role == Role::own_output || row.role == Role::cat || row.role == Role::weighted ||
               (row.role == Role::shares_input && changes_values(row));
    }

    /// The relu that an operator takes in, which is part of it; without one the operator.
    graph::Node& with_relu(graph::Node& node) {
        if (!operators_.of(node).takes_relu || node.users().size() != 1) return node;
        const std::string_view name = operators_.of(*node.users()[0]).name;
        return name == "relu" || name == "relu6" ? *node.users()[0] : node;
    }

    /// The call of the quantizer whose grid all readers of a value have, behind operators that pass codes; or null.
    const graph::Node* leads_to(const graph::Node& node) {
        const graph::Node* found = nullptr;
        for (const graph::Node* user : node.users()) {
            const bool is_quantizer = quantizer(*user) != nullptr;
            if (!is_quantizer && !graph::passes_quantizers(graph::numbers_of(operators_.of(*user).name)))
                return nullptr;
            const graph::Node* const next = is_quantizer ? user : leads_to(*user);
            if (next == nullptr) return nullptr;
            const OwnedQParams grid = quantizer(*next)->qparams();
            if (grid.is_per_channel() || (found != nullptr && !(grid == quantizer(*found)->qparams()))) return nullptr;
            found = next;
        }
        return found;
    }

    quantization::PreparedModel& model_;
    const arith::PolicyRecord& target_;
    quantization::NodeOperators operators_;
};

}  // namespace detail

INTQ_INLINE void quantize_before_moves(quantization::PreparedModel& model, const arith::PolicyRecord& target) {
    detail::MovedQuantizers(model, target).run();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_quantized_onnx)
#endif  // INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_MOVED_QUANTIZERS_HPP
