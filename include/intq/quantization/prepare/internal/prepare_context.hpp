// SPDX-License-Identifier: MIT
//
// The state of prepare while it walks a graph, and queries on it. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_INTERNAL_PREPARE_CONTEXT_HPP
#define INTQ_QUANTIZATION_PREPARE_INTERNAL_PREPARE_CONTEXT_HPP

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "intq/arith/constraints.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/dtype.hpp"
#include "intq/graph/graph.hpp"
#include "intq/io/error.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/operators/operator_table.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/quantization/prepare/refusal.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The facts about a node's value during prepare.
struct EdgeState {
    bool is_codes = false;
    DType dtype = DType::float32;
    std::shared_ptr<Quantizer> quantizer{};  // whose scale the codes have
    std::string quantizer_target{};          // its slot
    // For a producer whose relu or clip comes next and bounds its codes: the quantizer behind that.
    std::optional<QuantizerConfig> behind_clip{};
    const graph::Node* origin = nullptr;  // of real values: the node that they come from
    bool is_ids = false;                  // of int32: indices, no accumulator
};

/// The state of a walk over the nodes of a model that is being prepared; changes nothing itself.
class PrepareContext {
protected:
    PrepareContext(PreparedModel& model, const QConfigMapping& mapping);

    bool is_torch() const noexcept { return options_.compatibility == Compatibility::torch; }
    const QuantizedOperator& row_of(const graph::Node& node) const { return operators_.of(node); }
    Role role_of(const QuantizedOperator& row) const;

    struct Config {
        std::optional<QConfig> qconfig;
        FusedChoice choice;
    };

    /// For a fused layer, or an add with its relu, the result of find_fused() for the whole.
    Config config_of(const graph::Node& node) const { return config_of(node, mapping_); }
    Config config_of(const graph::Node& node, const QConfigMapping& mapping) const;

    const QuantizerConfig& output_of(const graph::Node& node, const QConfig& qconfig) const;

    arith::OperatorUse use(const graph::Node& node, DType input, DType weight, DType output) const;

    void check_use(const graph::Node& node, const arith::OperatorUse& use) const;
    /// Throws for arguments of an operator on codes that have no integer form, whatever the shapes.
    void check_arguments(const graph::Node& node, DType dtype, bool is_affine) const;

    bool feeds_dequant_only(const graph::Node& node) const;
    /// The same, or it feeds only the output of the model.
    bool is_at_end(const graph::Node& node) const;
    // The same, also through operators that an accumulator passes unchanged.
    bool leads_to_dequant_only(const graph::Node& node) const;
    // Flatten, and operators that leave no trace.
    static bool passes_accumulator(const QuantizedOperator& row) noexcept {
        return row.role == Role::shares_input && (row.kind == OpKind::flatten || row.kind == OpKind::none);
    }

    // The relu, with a qconfig, that is the only reader of an add: the add's quantizer is behind it.
    const graph::Node* only_reader_if_relu(const graph::Node& node) const;
    /// The clip, with an output quantizer, that is the only reader of a producer of codes: it bounds these codes.
    const graph::Node* only_reader_if_clip(const graph::Node& node) const;
    /// A request for the rows of operators about a node whose shapes are not yet known.
    ///
    /// @param codes  represent its inputs
    StepRequest request_of(const graph::Node& node, const QuantizedTensor& codes) const;

    const EdgeState& state_of(const graph::Node& node, std::size_t argument) const;

    static EdgeState real(const graph::Node& node, const graph::Node* origin = nullptr);

    std::string where(const graph::Node& node) const;
    NodeError error(const graph::Node& node, const std::string& sentence) const;

    PreparedModel& model_;
    mutable NodeOperators operators_;
    graph::Graph& graph_;
    const arith::PolicyRecord& target_;
    const PrepareOptions& options_;
    const QConfigMapping& mapping_;
    std::map<const graph::Node*, EdgeState> states_;
};

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <vector>

#    include "intq/graph/operators.hpp"
#    include "intq/nn/layers/fusion.hpp"
#    include "intq/nn/layers/quantize.hpp"
#    include "intq/quantization/fuse/fuse_fx.hpp"
#    include "intq/quantization/modules/stubs.hpp"
#    include "intq/quantization/operators/internal/trial.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE PrepareContext::PrepareContext(PreparedModel& model, const QConfigMapping& mapping)
    : model_(model),
      operators_(model),
      graph_(model.graph()),
      target_(model.target()),
      options_(model.options()),
      mapping_(mapping) {}

INTQ_INLINE Role PrepareContext::role_of(const QuantizedOperator& row) const {
    return is_torch() && row.torch_role ? *row.torch_role : row.role;
}

INTQ_INLINE PrepareContext::Config PrepareContext::config_of(const graph::Node& node,
                                                             const QConfigMapping& mapping) const {
    const auto* fused = dynamic_cast<const nn::FusedFrom*>(graph::module_of(node, model_));
    const nn::FusedMember whole = member_of(node, model_);
    std::vector<nn::FusedMember> members{whole};
    Config config;
    if (fused != nullptr && !fused->members().empty()) {
        members = fused->members_at(whole.module);
        config.choice = mapping.find_fused(whole, members, options_.compatibility);
    } else if (const graph::Node* relu = row_of(node).takes_relu ? only_reader_if_relu(node) : nullptr) {
        members.push_back(member_of(*relu, model_));
        config.choice = mapping.find_fused(whole, members, Compatibility::horizon);
        // In PyTorch they are not modules, and only the relu determines its quantizer.
        if (is_torch()) config.choice.last = config.choice.members.back();
    } else {
        config.choice = mapping.find_fused(whole, members, options_.compatibility);
    }
    config.qconfig = config.choice.qconfig();
    return config;
}

INTQ_INLINE const QuantizerConfig& PrepareContext::output_of(const graph::Node& node, const QConfig& qconfig) const {
    if (qconfig.output) return *qconfig.output;
    throw error(node, "its qconfig has no output quantizer; only conv and linear can output their accumulator");
}

INTQ_INLINE arith::OperatorUse PrepareContext::use(const graph::Node& node, DType input, DType weight,
                                                   DType output) const {
    const QuantizedOperator& row = row_of(node);
    const nn::Module* const module = graph::module_of(node, model_);
    arith::OperatorUse result = use_of(row, module, input, weight, output);
    if (row.function != nullptr) result.function = row.function(node, module);
    return result;
}

INTQ_INLINE void PrepareContext::check_use(const graph::Node& node, const arith::OperatorUse& use) const {
    try {
        check_types(use, target_);
    } catch (const Error& refusal) {
        throw error(node, refusal.what());
    }
}

INTQ_INLINE void PrepareContext::check_arguments(const graph::Node& node, DType dtype, bool is_affine) const {
    try {
        detail::check_arguments(row_of(node), node, graph::module_of(node, model_), dtype, is_affine, target_);
    } catch (const Error& refusal) {
        throw error(node, refusal.what());
    }
}

INTQ_INLINE bool PrepareContext::feeds_dequant_only(const graph::Node& node) const {
    const auto& users = node.users();
    return !users.empty() && std::all_of(users.begin(), users.end(), [&](const graph::Node* user) {
        return calls<nn::DeQuantStub>(*user, model_);
    });
}

INTQ_INLINE bool PrepareContext::is_at_end(const graph::Node& node) const {
    return std::all_of(node.users().begin(), node.users().end(), [&](const graph::Node* user) {
        return user->op() == graph::Op::output || calls<nn::DeQuantStub>(*user, model_);
    });
}

INTQ_INLINE bool PrepareContext::leads_to_dequant_only(const graph::Node& node) const {
    const auto& users = node.users();
    return !users.empty() && std::all_of(users.begin(), users.end(), [&](const graph::Node* user) {
        return calls<nn::DeQuantStub>(*user, model_) ||
               (passes_accumulator(row_of(*user)) && leads_to_dequant_only(*user));
    });
}

INTQ_INLINE const graph::Node* PrepareContext::only_reader_if_relu(const graph::Node& node) const {
    if (node.users().size() != 1) return nullptr;
    const graph::Node& reader = *node.users()[0];
    const QuantizedOperator& row = row_of(reader);
    const bool is_relu = row.kind == OpKind::relu && row.role == Role::shares_input;  // a clamp may have any bounds
    return is_relu && config_of(reader).qconfig ? &reader : nullptr;
}

INTQ_INLINE StepRequest PrepareContext::request_of(const graph::Node& node, const QuantizedTensor& codes) const {
    return trial_request(node, graph::module_of(node, model_), {&codes}, {}, target_);
}

INTQ_INLINE const graph::Node* PrepareContext::only_reader_if_clip(const graph::Node& node) const {
    const QuantizedOperator& row = row_of(node);
    const bool makes_codes = row.takes_clip || row.role == Role::quant_stub || row.role == Role::cat ||
                             (row.role == Role::weighted && !row.on_host);
    const bool keeps_scale = row.keeps_scale != nullptr && row.keeps_scale(target_);
    // A clip that bounds the codes before it passes them on to the next one.
    const bool bounds_codes = row.clip != nullptr && state_of(node, 0).behind_clip.has_value();
    if (is_torch() || !(bounds_codes || (makes_codes && !keeps_scale)) || node.users().size() != 1) return nullptr;
    const graph::Node& reader = *node.users()[0];
    // A relu keeps the grid of its input, unless that is a clip with its own grid.
    const bool is_relu = row_of(reader).kind == OpKind::relu && row_of(reader).grid_use == nullptr;
    if (row_of(reader).clip == nullptr || (is_relu && !bounds_codes)) return nullptr;
    const QuantizedTensor codes = stand_in(OwnedQParams::per_tensor(1.0f, DType::int8), false, {});
    if (!row_of(reader).clip(request_of(reader, codes))) return nullptr;
    const Config config = config_of(reader);
    return config.qconfig && config.qconfig->output ? &reader : nullptr;
}

INTQ_INLINE const EdgeState& PrepareContext::state_of(const graph::Node& node, std::size_t argument) const {
    const graph::Node* producer = argument < node.args().size() ? node.args()[argument].node() : nullptr;
    if (producer == nullptr)
        throw error(node, "argument " + std::to_string(argument + 1) + " is not a value of the graph");
    return states_.at(producer);
}

INTQ_INLINE EdgeState PrepareContext::real(const graph::Node& node, const graph::Node* origin) {
    EdgeState state;
    state.origin = origin != nullptr ? origin : &node;
    return state;
}

INTQ_INLINE std::string PrepareContext::where(const graph::Node& node) const {
    return "prepare: " + graph::place_of(node, model_);
}

INTQ_INLINE NodeError PrepareContext::error(const graph::Node& node, const std::string& sentence) const {
    return {node, where(node), sentence};
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_INTERNAL_PREPARE_CONTEXT_HPP
