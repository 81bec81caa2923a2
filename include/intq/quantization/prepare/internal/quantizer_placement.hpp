// SPDX-License-Identifier: MIT
//
// Where prepare puts quantizers, and with which settings. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_INTERNAL_QUANTIZER_PLACEMENT_HPP
#define INTQ_QUANTIZATION_PREPARE_INTERNAL_QUANTIZER_PLACEMENT_HPP

#include "intq/core/config.hpp"

#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <functional>
#    include <map>
#    include <memory>
#    include <optional>
#    include <string>
#    include <utility>

#    include "intq/arith/constraints.hpp"
#    include "intq/arith/target.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/graph/graph.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/nn/layers/quantize.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/grid_choice.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/modules/quantizer_of.hpp"
#    include "intq/quantization/operators/internal/trial.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/prepare/internal/prepare_context.hpp"
#    include "intq/quantization/prepare/prepare_layer.hpp"
#    include "intq/quantization/prepare/prepared_model.hpp"
#    include "intq/quantization/qconfig/qconfig_mapping.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Puts quantizers into the graph of a model that is being prepared: on an edge that a node reads, behind a node, and
/// on weights. Which nodes have one, the roles of the operators decide (preparer.hpp).
class QuantizerPlacement : protected PrepareContext {
protected:
    /// @param without_hybrid  the mapping without the entries of hybrid_dict
    QuantizerPlacement(PreparedModel& model, const QConfigMapping& mapping, const QConfigMapping& without_hybrid)
        : PrepareContext(model, mapping), without_hybrid_(without_hybrid) {}

    // A quantizer on the edge from a producer to a node, whose codes have type `wanted` unless that is none; nothing
    // where the producer gives such codes.
    void quantize_edge(graph::Node& node, graph::Node& producer, const Config& asked, DType wanted) {
        const EdgeState state = states_.at(&producer);
        if (state.is_codes && state.dtype == DType::int32)
            throw error(node, "%" + producer.name() + " outputs its accumulator, which only a DeQuantStub can read");
        if (state.is_codes && (wanted == DType::none || wanted == state.dtype)) return;
        if (!state.is_codes && !is_torch() &&
            (state.origin->op() == graph::Op::placeholder || calls<nn::DeQuantStub>(*state.origin, model_)))
            throw error(node, "it takes the real values of %" + state.origin->name() +
                                  ": put a QuantStub between, call add_stubs(), or use torch compatibility");

        const QConfig& qconfig = *asked.qconfig;
        bool is_output = !qconfig.input;  // whether the output's configuration is used for the input
        if (wanted != DType::none && !is_output && qconfig.input->dtype() != wanted)
            is_output = qconfig.output.has_value();
        const std::optional<Config> host = state.is_codes || qconfig.input ? std::nullopt : config_on_host(producer);
        QuantizerConfig config = host ? *host->qconfig->output : is_output ? output_of(node, qconfig) : *qconfig.input;
        if (wanted != DType::none && config.dtype() != wanted) {
            ObserverOptions& observer = config.options.observer_options;
            observer.quant_min = observer.quant_max = 0;
            observer.dtype = wanted;
            if (wanted == DType::int16) observer.scheme = arith::QuantScheme::symmetric;
        }
        mapping_.mark_used(host ? host->choice.last : is_output ? asked.choice.last : asked.choice.first);
        const auto key = std::pair(&producer, config.dtype());
        auto known = converters_.find(key);
        if (known == converters_.end()) {
            const OpKind op = state.is_codes ? OpKind::requantize : OpKind::quantize;
            check_use(producer, {op, state.dtype, DType::none, config.dtype()});
            graph::Node* converter = nullptr;
            states_[&producer] = state;
            const EdgeState made = add_quantizer(
                producer, make_quantizer(node, config, producer),
                [&](const graph::Node& user) { return &user == &node; }, &converter);
            states_[converter] = made;
            known = converters_.emplace(key, converter).first;
        } else {
            node.replace_input(producer, *known->second);
        }
    }

    EdgeState add_output_quantizer(graph::Node& node, const QuantizerConfig& config, OpKind op, DType from) {
        if (op != OpKind::none) check_use(node, {op, from, DType::none, config.dtype()});
        return add_quantizer(node, make_quantizer(node, config, node), {});
    }

    // Behind an operator that keeps its input's grid: a quantizer that chooses between that grid and its own, if
    // keeping can cost anything (docs/workflow.md section 4, "Whose grid"). On a target without a requantize for these
    // codes there is no choice, and the report states the cost.
    EdgeState keep_or_choose(graph::Node& node, const QuantizedOperator& row, const Config& config) {
        if (row.kind == OpKind::pad && !is_torch()) clip_fill(node);
        const std::shared_ptr<Quantizer>& source = state_of(node, 0).quantizer;
        const std::optional<QuantizerConfig>& output = config.qconfig->output;
        if (is_torch() || row.grid_use == nullptr || source == nullptr || !output || output->dtype() != source->dtype())
            return follow_input(node);
        const QuantizedTensor codes = stand_in(source->qparams(), false, recorded_shape(*node.operands()[0]));
        std::optional<GridUse> use = row.grid_use(request_of(node, codes));
        if (!use) return follow_input(node);
        use->may_own = use->may_own && can_requantize(target_, source->dtype());
        return add_choice(node, 0, *output, *use, config);
    }

    EdgeState add_choice(graph::Node& node, std::size_t operand, const QuantizerConfig& output, const GridUse& use,
                         const Config& config) {
        mapping_.mark_used(config.choice.last);
        const auto own = make_quantizer(node, output, node);
        const std::shared_ptr<Quantizer>& source = state_of(node, operand).quantizer;
        return add_quantizer(node, std::make_shared<GridChoiceFakeQuantize>(graph::layer_name(node), own, source, use),
                             {});
    }

    EdgeState follow_input(graph::Node& node) {
        const std::shared_ptr<Quantizer>& source = state_of(node, 0).quantizer;
        return add_quantizer(node, is_torch() ? source : std::make_shared<FollowingFakeQuantize>(source), {});
    }

    // A call of the quantizer behind `node`, read by the users that `filter` accepts.
    EdgeState add_quantizer(graph::Node& node, std::shared_ptr<Quantizer> quantizer,
                            const std::function<bool(const graph::Node&)>& filter, graph::Node** made = nullptr) {
        const std::string target = "activation_post_process_" + std::to_string(next_quantizer_++);
        model_.add_child(target, quantizer);
        const auto at = graph_.after(node);
        graph::Node& call = graph_.call_module(target, {node});
        call.set_scope(node.scope());
        graph_.replace_all_uses(node, call, filter);
        const EdgeState state{true, quantizer->dtype(), quantizer, target, {}, nullptr};
        states_[&call] = state;
        if (made != nullptr) *made = &call;
        return state;
    }

    void give_weight_quantizer(graph::Node& node, const QuantizedOperator& row, const QuantizerConfig& config) {
        nn::Module* module = graph::module_of(node, model_);
        if (dynamic_cast<PreparedWeight*>(module) != nullptr) return;  // a shared layer, prepared at its first call
        const auto prepared = with_weight_quantizer(where(node), dynamic_cast<const nn::Weighted&>(*module), row,
                                                    config, target_, options_.compatibility);
        dynamic_cast<PreparedWeight&>(*prepared).set_qat_mode(options_.qat_mode);
        model_.replace_child(node.target(), prepared);
    }

    /// Data shows only some rows of a table; the grid is that of all.
    static void give_grid_of_table(Quantizer& quantizer, const Tensor& table) {
        auto* const fake_quantize = dynamic_cast<FakeQuantize*>(&quantizer);
        if (fake_quantize == nullptr) return;
        fake_quantize->observe(table);
        fake_quantize->set_qparams(fake_quantize->calculate_qparams());
    }

    // The shape of a value on the example; rank 0 if there was none.
    Shape recorded_shape(const graph::Node& node) const {
        if (node.outputs()[0].dtype != DType::none) return node.outputs()[0].shape;
        return quantizer_of(node, model_) != nullptr ? recorded_shape(*node.inputs()[0]) : Shape{};
    }

private:
    /// @param node   whose configuration it has, for messages
    /// @param value  what it quantizes: the node, or a producer that the node reads
    std::shared_ptr<FakeQuantize> make_quantizer(const graph::Node& node, const QuantizerConfig& config,
                                                 const graph::Node& value) const {
        QuantizerConfig own = config;
        if (!is_torch()) {
            own.options.observer_options.softmax_axis = operators_.axis_of_scores(value);
            own.options.observer_options.mask_factor = operators_.factor_of_mask(value);
        }
        // int16 codes that are the output: other data may reach further, and a bit of 16 is not missed.
        const bool is_output = options_.high_precision_output && !is_torch() && leads_to_dequant_only(value);
        if (is_output && config.dtype() == DType::int16) own.options.observer_options.headroom = 2.0f;
        return make_activation_quantizer(where(node), own, target_, options_.compatibility);
    }

    // In a hybrid model, the config of an operator in float if it were not in the hybrid_dict; none for a stub.
    std::optional<Config> config_on_host(const graph::Node& producer) const {
        const Role role = row_of(producer).role;
        if (!options_.hybrid || role == Role::boundary || role == Role::quant_stub || role == Role::dequant_stub)
            return std::nullopt;
        Config config = config_of(producer, without_hybrid_);
        return config.qconfig && config.qconfig->output ? std::optional(std::move(config)) : std::nullopt;
    }

    // The fill of a pad, clipped by a clip that is the pad's only reader: a range must not hold values that nobody
    // sees.
    void clip_fill(graph::Node& node) {
        if (node.users().size() != 1 || node.args().size() < 4) return;
        const graph::Node& reader = *node.users()[0];
        if (row_of(reader).clip == nullptr) return;
        const auto bounds =
            row_of(reader).clip(request_of(reader, stand_in(state_of(node, 0).quantizer->qparams(), false, {})));
        const std::optional<double> fill = node.args()[3].number();
        if (!bounds || !fill || *fill == 0.0) return;
        graph::ArgumentList args = node.args();
        args[3] = (std::min)((std::max)(*fill, bounds->low.value_or(*fill)), bounds->high.value_or(HUGE_VAL));
        node.set_args(std::move(args));
    }

    std::map<std::pair<graph::Node*, DType>, graph::Node*> converters_;
    int next_quantizer_ = 0;
    const QConfigMapping& without_hybrid_;
};

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_INTERNAL_QUANTIZER_PLACEMENT_HPP
