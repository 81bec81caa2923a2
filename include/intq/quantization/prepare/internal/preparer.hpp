// SPDX-License-Identifier: MIT
//
// Preparer: the walk that decides which values of a model become codes. Layer: quantization (docs/workflow.md section
// 4). Long because the roles of operators share one state.
#ifndef INTQ_QUANTIZATION_PREPARE_INTERNAL_PREPARER_HPP
#define INTQ_QUANTIZATION_PREPARE_INTERNAL_PREPARER_HPP

#include "intq/core/config.hpp"

#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <cstddef>
#    include <optional>
#    include <set>
#    include <string>
#    include <vector>

#    include "intq/arith/constraints.hpp"
#    include "intq/arith/target.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/graph/shape_arithmetic.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/fusion.hpp"
#    include "intq/nn/layers/quantize.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/modules/quantizer_of.hpp"
#    include "intq/quantization/modules/stubs.hpp"
#    include "intq/quantization/operators/internal/constant_operand.hpp"
#    include "intq/quantization/operators/internal/host_layer.hpp"
#    include "intq/quantization/operators/internal/trial.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/prepare/internal/prepare_context.hpp"
#    include "intq/quantization/prepare/internal/quantizer_placement.hpp"
#    include "intq/quantization/prepare/prepare_layer.hpp"
#    include "intq/quantization/prepare/prepared_model.hpp"
#    include "intq/quantization/prepare/refusal.hpp"
#    include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Walks a graph, and prepares each node by the role of its operator.
class Preparer : private QuantizerPlacement {
public:
    /// @param without_hybrid  the mapping without the entries of hybrid_dict
    /// @param refusals        null, or receives the refusals of operators, each of which then counts as one in float
    Preparer(PreparedModel& model, const QConfigMapping& mapping, const QConfigMapping& without_hybrid,
             std::vector<Refusal>* refusals)
        : QuantizerPlacement(model, mapping, without_hybrid), refusals_(refusals) {}

    /// @param names, types  the names that keys of the mapping may have
    void run(const std::vector<std::string>& names, const std::vector<std::string>& types) {
        for (const graph::Node* node : graph_.nodes())
            if (quantizer_of(*node, model_) != nullptr) throw error(*node, "the model is prepared already");
        for (graph::Node* node : graph_.nodes())
            if (!note_refusals(refusals_, *node, model_, [&] { states_[node] = prepare(*node); }))
                states_[node] = count_as_float(*node);
        if (!is_any_quantized_) {
            mapping_.check_all_matched(names, types);  // a mistyped key is the likelier cause
            refuse_or_note_nothing();
        }
        keep_what_others_read();
        graph_.lint(&model_);
    }

private:
    EdgeState prepare(graph::Node& node) {
        if (graph::gives_shape(node)) return states_.at(node.inputs()[0]);  // no data: it belongs to its input
        const QuantizedOperator& row = row_of(node);
        switch (row.role) {
            case Role::boundary:
                return real(node);
            case Role::output:
                return prepare_output(node);
            case Role::dequant_stub:
                return prepare_dequant_stub(node);
            case Role::item:
                return prepare_item(node);
            default:
                break;
        }
        if (const graph::Node* const ids = ids_read_by(node)) return prepare_move_of_ids(node, *ids, row);
        const Config config = config_of(node);
        if (role_of(row) == Role::float_only || !config.qconfig) mapping_.mark_switched_off(config.choice);
        if (role_of(row) == Role::float_only) return stay_float(node, "it has no integer form");
        if (!config.qconfig) return stay_float(node, no_qconfig, true);
        const EdgeState state = prepare_quantized(node, row, config);
        if (state.is_codes) model_.mark_quantized(node);
        is_any_quantized_ = is_any_quantized_ || state.is_codes;
        return state;
    }

    // A quantizer may round in place only values that an operator computed for it alone. Others may belong to the
    // caller or the model, have further readers, or share memory with values that do.
    void keep_what_others_read() const {
        for (const graph::Node* node : graph_.nodes()) {
            auto* quantizer = dynamic_cast<FakeQuantize*>(graph::module_of(*node, model_));
            if (quantizer == nullptr) continue;
            const graph::Node& source = *node->inputs()[0];
            const QuantizedOperator& row = row_of(source);
            const bool computes =
                (row.role == Role::weighted || row.role == Role::own_output || row.role == Role::cat) &&
                row.make_step != nullptr;
            if (!computes || source.users().size() > 1) quantizer->set_in_place(false);
        }
    }

    // An operator noted as refused, or as in float: operators that share its output are checked as if it returned
    // codes.
    EdgeState count_as_float(const graph::Node& node) {
        if (refusals_ != nullptr) noted_.insert(&node);
        return real(node);
    }

    // If operators were refused, it is no surprise that nothing is quantized.
    void refuse_or_note_nothing() const {
        if (refusals_ == nullptr) return refuse_nothing();
        if (!refusals_->empty()) return;
        try {
            refuse_nothing();
        } catch (const NodeError& error) {
            add_refusal(*refusals_, error.node(), model_, error.sentence());
        }
    }

    // A mapping without a qconfig for any operator, or a model without stubs whose operators need none.
    void refuse_nothing() const {
        for (const FloatFallback& fallback : model_.report().fallbacks)
            if (fallback.reason == no_qconfig)
                throw error(*graph_.find(fallback.node),
                            "its qconfig is none, as is every other operator's, and nothing would be quantized; give "
                            "the mapping a global qconfig, or one for a module");
        if (is_torch()) return;
        for (const graph::Node* input : graph_.placeholders())
            throw error(*input,
                        "no QuantStub takes it, and nothing would be quantized; put one after it, or call "
                        "add_stubs()");
    }

    EdgeState prepare_quantized(graph::Node& node, const QuantizedOperator& row, const Config& config) {
        switch (role_of(row)) {
            case Role::quant_stub:
                return prepare_quant_stub(node, config);
            case Role::weighted:
                return prepare_weighted(node, row, config);
            case Role::own_output:
                return prepare_own_output(node, row, config);
            case Role::cat:
                return prepare_cat(node, config);
            case Role::copies_into:
                return prepare_copying(node, row, config);
            case Role::gives_ids:
                return prepare_giving_ids(node, config);
            default:
                if (row.gives_tuple && !is_read_by_items(node))
                    return stay_float(node, "its pieces are read as a whole");
                return prepare_sharing(node, row.kind, config);
        }
    }

    // --- the roles ------------------------------------------------------------------------------------------------

    EdgeState prepare_output(graph::Node& node) {
        if (node.args()[0].has_constant())
            throw error(node, "the model returns a constant, or nothing; a converted model returns tensors alone");
        if (!is_torch())
            for (const graph::Node* input : node.inputs())
                if (states_.at(input).is_codes && !states_.at(input).is_ids)
                    throw error(
                        node,
                        "the output %" + input->name() +
                            " is quantized: put a DeQuantStub after it, call add_stubs(), or use torch compatibility");
        return real(node);
    }

    EdgeState prepare_dequant_stub(graph::Node& node) {
        const EdgeState& input = state_of(node, 0);
        if (input.is_ids) return input;  // they have no scale
        if (input.is_codes) check_use(node, {OpKind::dequantize, input.dtype, DType::none, DType::float32});
        return real(node);
    }

    EdgeState prepare_quant_stub(graph::Node& node, const Config& config) {
        if (state_of(node, 0).is_codes) throw error(node, "a QuantStub takes real values, given codes");
        mapping_.mark_used(config.choice.last);
        if (const graph::Node* clip = only_reader_if_clip(node))
            return leave_to_clip(node, *clip, OpKind::quantize, DType::float32);
        return add_output_quantizer(node, output_of(node, *config.qconfig), OpKind::quantize, DType::float32);
    }

    EdgeState prepare_weighted(graph::Node& node, const QuantizedOperator& row, const Config& config) {
        const QConfig& qconfig = *config.qconfig;
        if (!qconfig.weight) throw error(node, "its qconfig has no weight quantizer");
        if (row.as_layer != nullptr) {
            model_.report().batch_norms.push_back(
                {node.name(), graph::type_of(node, model_), treatment_of_norm(options_.qat_mode)});
            model_.replace_child(
                node.target(), weighted_layer_of(where(node), *graph::module_of(node, model_), row, options_.qat_mode));
            operators_.forget();  // the layer has its own row
        }
        const bool wants_accumulator =
            !qconfig.output || (options_.high_precision_output && feeds_dequant_only(node) &&
                                (!config.choice.is_by_name() || qconfig.keeps_high_precision));
        const DType weight = qconfig.weight->dtype();
        const graph::Node* const clip = qconfig.output ? only_reader_if_clip(node) : nullptr;
        const DType narrow = clip != nullptr  ? config_of(*clip).qconfig->output->dtype()
                             : qconfig.output ? qconfig.output->dtype()
                                              : DType::int32;
        const auto accepts = [&](DType input, DType output) {
            return arith::check_constraints(target_.constraints, use(node, input, weight, output)).ok();
        };
        if (row.on_host) report_on_host(node, qconfig);
        ensure_codes(node, 0, config, DType::none);
        const auto& layer = dynamic_cast<const nn::Weighted&>(*graph::module_of(node, model_));
        // A 64-bit sum that may leave 32 bits is not an int32 output, and neither are the layers that a target widens;
        // asked for by name, the program refuses it with numbers.
        const auto may_exceed = [&](DType given) {
            return (target_.accumulator_bits(given) == 64 && may_exceed_int32(layer, given, weight)) ||
                   (target_.widens_int16 && given == DType::int16);
        };
        const bool adds_behind = layer.fusion().add && !target_.adds_in_accumulator();
        const auto gives_accumulator = [&](DType given) {
            return wants_accumulator &&
                   (!qconfig.output || (layer.fusion().activation == Activation::none && !may_exceed(given) &&
                                        !adds_behind && accepts(given, DType::int32)));
        };
        // A producer whose codes would be requantized for the narrow output is so for the accumulator too.
        if (const DType given = state_of(node, 0).dtype;
            qconfig.output && !gives_accumulator(given) && gives_accumulator(narrow) && !accepts(given, narrow))
            ensure_codes(node, 0, config, narrow);
        const bool is_accumulator = gives_accumulator(state_of(node, 0).dtype);
        if (is_accumulator) check_accumulator(node, layer.fusion());
        const DType output = is_accumulator ? DType::int32 : narrow;
        // A producer of another type than the target takes is requantized to the type of this operator's output.
        if (!accepts(state_of(node, 0).dtype, output) && qconfig.output && accepts(narrow, output))
            ensure_codes(node, 0, config, narrow);
        check_use(node, use(node, state_of(node, 0).dtype, weight, output));
        if (layer.fusion().add) {
            if (!target_.fused_add)
                throw error(node,
                            std::string("the target ") + target_.name + " has no fused add; fuse for this target");
            ensure_codes(node, 1, config, state_of(node, 0).dtype);
        }
        give_weight_quantizer(node, row, *qconfig.weight);
        if (is_accumulator) dynamic_cast<PreparedWeight&>(*graph::module_of(node, model_)).set_hands_out_accumulator();
        mapping_.mark_used(config.choice.first);
        if (!is_accumulator || !qconfig.output) mapping_.mark_used(config.choice.last);
        if (is_accumulator) return {true, DType::int32, {}, {}, {}, nullptr};
        if (clip != nullptr) return leave_to_clip(node, *clip, OpKind::none, DType::none);
        return add_output_quantizer(node, *qconfig.output, OpKind::none, DType::none);
    }

    // A relu or clip that bounds the codes of its input: the input's quantizer is behind it, or behind the next.
    EdgeState bound_codes(graph::Node& node, std::size_t operand) {
        if (const graph::Node* next = only_reader_if_clip(node))
            return leave_to_clip(node, *next, OpKind::none, DType::none);
        const QuantizerConfig behind = *state_of(node, operand).behind_clip;
        return add_output_quantizer(node, behind, OpKind::none, DType::none);
    }

    // The quantizer of a producer of codes is behind the clip that is its only reader.
    EdgeState leave_to_clip(const graph::Node& node, const graph::Node& clip, OpKind op, DType from) {
        const Config config = config_of(clip);
        if (op != OpKind::none) check_use(node, {op, from, DType::none, config.qconfig->output->dtype()});
        mapping_.mark_used(config.choice.last);
        EdgeState state{true, config.qconfig->output->dtype(), {}, {}, config.qconfig->output, nullptr};
        return state;
    }

    // It trains quantized and stays where it is, so it is a fallback that computes between codes.
    void report_on_host(const graph::Node& node, const QConfig& qconfig) const {
        if (!qconfig.output)
            throw error(node, "its qconfig has no output quantizer, and it has no integer form, so no accumulator");
        if (options_.strict) throw error(node, std::string(no_integer_form) + ", and strict is on");
        model_.report().fallbacks.push_back({node.name(), graph::type_of(node, model_), no_integer_form});
    }

    // A qconfig without output quantizer requires an accumulator that not every layer has.
    void check_accumulator(const graph::Node& node, const nn::Fusion& fusion) const {
        if (fusion.activation == Activation::relu6)
            throw error(node, "its qconfig has no output quantizer, and an accumulator takes relu, but no relu6");
        if (fusion.add && !target_.adds_in_accumulator())
            throw error(node, std::string("its qconfig has no output quantizer, but the target ") + target_.name +
                                  (target_.fused_add ? " adds the operand of a fused add after the accumulator"
                                                     : " has no fused add; fuse for this target"));
    }

    EdgeState prepare_own_output(graph::Node& node, const QuantizedOperator& row, const Config& config) {
        const std::optional<ConstantOperand> constant =
            row.operands == 2 && !is_torch() ? constant_operand(node) : std::nullopt;
        std::vector<std::size_t> operands;  // arguments that are codes
        for (std::size_t i = 0; i < static_cast<std::size_t>(row.operands); ++i) {
            if (constant && constant->is_first == (i == 0)) continue;
            if (i >= node.args().size() || node.args()[i].node() == nullptr)
                return stay_float(node, "an operand that is a constant number has no integer form");
            operands.push_back(i);
        }
        const bool takes_ids = row.operands == 0;
        if (is_outside(node)) return stay_float(node, "it is not between QuantStub and DeQuantStub");
        if (gives_sum(node, row, config)) {
            ensure_codes(node, 0, config, DType::none);
            if (state_of(node, 0).dtype == DType::int8) {
                check_arguments(node, DType::int8, false);
                check_use(node, {OpKind::conv2d, DType::int8, DType::int8, DType::int32});
                mapping_.mark_used(config.choice.first);
                return {true, DType::int32, {}, {}, {}, nullptr};
            }
        }
        if (!takes_ids && state_of(node, operands[0]).behind_clip) return bound_codes(node, operands[0]);
        const graph::Node* const relu = row.takes_relu ? only_reader_if_relu(node) : nullptr;
        const graph::Node* const clip = relu == nullptr ? only_reader_if_clip(node) : nullptr;
        const QuantizerConfig output =
            clip != nullptr ? *config_of(*clip).qconfig->output : output_of(node, *config.qconfig);
        const DType input = takes_ids ? DType::int32 : operand_dtype(node, row, output.dtype());
        if (row.may_end_in_float && is_at_end(node)) {
            const Status status =
                arith::check_constraints(target_.constraints, use(node, input, DType::none, output.dtype()));
            if (!status.ok()) return stay_float(node, describe(status) + rows_of(target_, row.kind));
        }
        check_arguments(node, output.dtype(), output.options.observer_options.scheme == arith::QuantScheme::affine);
        for (const std::size_t operand : operands) ensure_codes(node, operand, config, input);
        if (row.kind != OpKind::none) check_use(node, use(node, input, DType::none, output.dtype()));
        if (row.keeps_scale != nullptr && row.keeps_scale(target_)) return keep_or_choose(node, row, config);
        // The codes of the input would have the range of the mask's number.
        const bool is_mask = operators_.factor_of_mask(node).has_value();
        if (constant && row.kind == OpKind::mul && constant->number > 0.0 && relu == nullptr && clip == nullptr &&
            !is_mask && state_of(node, operands[0]).quantizer != nullptr) {
            GridUse scaled;
            scaled.factor = static_cast<float>(constant->number);
            return add_choice(node, operands[0], output, scaled, config);
        }
        mapping_.mark_used(config.choice.last);
        if (clip != nullptr) return leave_to_clip(node, *clip, OpKind::none, DType::none);
        if (relu != nullptr) return {true, output.dtype(), {}, {}, output, nullptr};
        // In a converted model, an operator without its own step becomes the requantize of its quantizer.
        const DType dtype = output.dtype();
        const EdgeState state =
            add_output_quantizer(node, with_fixed_output(output, target_, use(node, input, DType::none, dtype)),
                                 row.make_step == nullptr ? OpKind::requantize : OpKind::none, input);
        if (row.table != nullptr) give_grid_of_table(*state.quantizer, row.table(*graph::module_of(node, model_)));
        return state;
    }

    /// The type of the operands' codes: the output's, or a single operand's if the target takes that.
    DType operand_dtype(const graph::Node& node, const QuantizedOperator& row, DType output) {
        if (row.operands != 1 || row.kind == OpKind::none || is_torch()) return output;
        const EdgeState& input = state_of(node, 0);
        if (!input.is_codes || input.dtype == output) return output;
        const Status status =
            arith::check_constraints(target_.constraints, use(node, input.dtype, DType::none, output));
        return status.ok() ? input.dtype : output;
    }

    // An average that only DeQuantStubs read returns its sum, like the accumulators of layers.
    bool gives_sum(const graph::Node& node, const QuantizedOperator& row, const Config& config) const {
        return row.gives_sum != nullptr && !is_torch() && options_.high_precision_output && config.qconfig->output &&
               config.qconfig->output->dtype() == DType::int8 && !config.choice.is_by_name() &&
               leads_to_dequant_only(node) && operators_.gives_sum(node, recorded_shape(*node.operands()[0]), target_);
    }

    EdgeState prepare_cat(graph::Node& node, const Config& config) {
        const graph::ArgumentList* parts = node.args()[0].list();
        if (parts == nullptr || parts->empty()) throw error(node, "cat needs a list of values");
        const QuantizerConfig& output = output_of(node, *config.qconfig);
        check_arguments(node, output.dtype(), false);
        for (graph::Node* part : node.inputs()) ensure_codes(node, *part, config, output.dtype());
        check_use(node, use(node, output.dtype(), DType::none, output.dtype()));
        if (!is_torch()) {
            mapping_.mark_used(config.choice.last);
            if (const graph::Node* clip = only_reader_if_clip(node))
                return leave_to_clip(node, *clip, OpKind::none, DType::none);
            return add_output_quantizer(node, output, OpKind::none, DType::none);
        }

        const EdgeState first = states_.at(node.inputs()[0]);
        for (const graph::Node* part : node.inputs()) {
            const std::string target = states_.at(part).quantizer_target;
            model_.replace_child(target, first.quantizer);
            for (auto& [other, state] : states_)
                if (state.quantizer_target == target) state.quantizer = first.quantizer;
        }
        return add_quantizer(node, first.quantizer, {});
    }

    EdgeState prepare_sharing(graph::Node& node, OpKind kind, const Config& config) {
        const EdgeState input = state_of(node, 0);
        if (!input.is_codes && !is_torch() && noted_.count(input.origin) == 0) return real(node, input.origin);
        if (input.is_codes && input.dtype == DType::int32 && passes_accumulator(row_of(node))) return input;
        if (input.behind_clip) return bound_codes(node, 0);
        ensure_codes(node, 0, config, DType::none);
        const EdgeState codes = state_of(node, 0);
        check_arguments(node, codes.dtype, false);
        if (kind != OpKind::none) check_use(node, use(node, codes.dtype, DType::none, codes.dtype));
        const QuantizedOperator& row = row_of(node);
        const bool is_between_codes = row.keeps_scale != nullptr && row.keeps_scale(target_);
        if (is_torch()) return follow_input(node);
        return is_between_codes ? keep_or_choose(node, row, config) : codes;
    }

    // Codes that others are copied into. Those of an input are on the grid of what is copied: data of the input may
    // hold few rows, or none, while each row was copied once.
    EdgeState prepare_copying(graph::Node& node, const QuantizedOperator& row, const Config& config) {
        const auto source = static_cast<std::size_t>(row.source);
        if (is_outside(node)) return stay_float(node, "it is not between QuantStub and DeQuantStub");
        ensure_codes(node, 0, config, DType::none);
        const graph::Node& x = *node.args()[0].node();
        const bool is_input =
            quantizer_of(x, model_) != nullptr && calls<nn::QuantStub>(*x.inputs()[0], model_) && x.users().size() == 1;
        ensure_codes(node, source, config, is_input ? DType::none : state_of(node, 0).dtype);
        const EdgeState copied = state_of(node, source);
        const DType dtype = is_input ? copied.dtype : state_of(node, 0).dtype;
        check_arguments(node, dtype, false);
        check_use(node, use(node, dtype, DType::none, dtype));
        if (is_input && copied.quantizer != nullptr) {
            const auto following = std::make_shared<FollowingFakeQuantize>(copied.quantizer);
            model_.replace_child(state_of(node, 0).quantizer_target, following);
            states_.at(&x).quantizer = following;
            states_.at(&x).dtype = dtype;
        }
        return follow_input(node);
    }

    // Indices of codes. Nobody rounds them.
    EdgeState prepare_giving_ids(graph::Node& node, const Config& config) {
        if (is_outside(node)) return stay_float(node, "it is not between QuantStub and DeQuantStub");
        ensure_codes(node, 0, config, DType::none);
        const DType codes = state_of(node, 0).dtype;
        check_arguments(node, codes, false);
        check_use(node, use(node, codes, DType::none, DType::int32));
        return {.is_codes = true, .dtype = DType::int32, .is_ids = true};
    }

    // The operand of a node that is indices; null for none.
    const graph::Node* ids_read_by(const graph::Node& node) const {
        for (const graph::Node* input : node.inputs())
            if (states_.at(input).is_ids) return input;
        return nullptr;
    }

    EdgeState prepare_move_of_ids(graph::Node& node, const graph::Node& ids, const QuantizedOperator& row) {
        if (row.role != Role::shares_input || graph::numbers_of(row.name) != graph::Numbers::moved)
            throw error(node,
                        "it reads %" + ids.name() +
                            ", which is indices and no numbers on a grid: the model may return them, as they are, "
                            "in another shape or order; compute the rest behind the program");
        check_arguments(node, DType::int32, false);
        if (row.kind != OpKind::none) check_use(node, use(node, DType::int32, DType::none, DType::int32));
        model_.mark_quantized(node);
        return states_.at(&ids);
    }

    // One output of an operator that has several. It holds codes if the operator's outputs do.
    EdgeState prepare_item(graph::Node& node) {
        const graph::Node* source = node.args()[0].node();
        if (source == nullptr || !row_of(*source).gives_tuple) return stay_float(node, "it has no integer form");
        const EdgeState state = states_.at(source);
        if (state.is_codes) model_.mark_quantized(node);
        return state;
    }

    bool is_read_by_items(const graph::Node& node) const {
        return std::all_of(node.users().begin(), node.users().end(),
                           [&](const graph::Node* user) { return row_of(*user).role == Role::item; });
    }

    // Whether the user left the quantized part of the model for this operator: all its inputs are real values from
    // behind a DeQuantStub, or inputs of a horizon model that no QuantStub took.
    bool is_outside(const graph::Node& node) const {
        auto inputs = node.inputs();
        std::erase_if(inputs,
                      [&](const graph::Node* input) { return graph::takes_as_ids(node, row_of(node).name, *input); });
        return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [&](const graph::Node* input) {
            const EdgeState& state = states_.at(input);
            return !state.is_codes && (calls<nn::DeQuantStub>(*state.origin, model_) ||
                                       (!is_torch() && state.origin->op() == graph::Op::placeholder));
        });
    }

    // In float, by the mapping or without an integer form. It is reported, unless the user left the quantized part of
    // the model for it.
    EdgeState stay_float(graph::Node& node, const std::string& reason, bool by_mapping = false) {
        if (node.outputs().size() != 1)
            throw error(node, "it stays in float, because " + reason +
                                  ", and an operator in float with several outputs cannot be converted");
        const bool outside = is_outside(node);
        if (by_mapping || !outside) {
            if (options_.strict) throw error(node, "it stays in float, because " + reason + ", and strict is on");
            model_.report().fallbacks.push_back({node.name(), graph::type_of(node, model_), reason});
            if (!outside) return count_as_float(node);
        }
        return real(node, outside ? states_.at(node.inputs()[0]).origin : nullptr);
    }

    // Turns the value that an argument reads into codes, of type `wanted` unless that is none.
    void ensure_codes(graph::Node& node, std::size_t argument, const Config& config, DType wanted) {
        graph::Node* producer = argument < node.args().size() ? node.args()[argument].node() : nullptr;
        if (producer == nullptr)
            throw error(node, "argument " + std::to_string(argument + 1) + " is not a value of the graph");
        ensure_codes(node, *producer, config, wanted);
    }

    void ensure_codes(graph::Node& node, graph::Node& producer, const Config& config, DType wanted) {
        if (!states_.at(&producer).is_codes && !is_torch()) quantize_before_moves(producer, config, wanted);
        quantize_edge(node, producer, config, wanted);
    }

    // Moves of a tensor of the model become moves of its codes: its quantizer is before them.
    void quantize_before_moves(graph::Node& moved, const Config& asked, DType wanted) {
        const QuantizedOperator& row = row_of(moved);
        const bool moves = row.role == Role::shares_input && row.make_step != nullptr &&
                           graph::moves_codes(graph::numbers_of(row.name)) && moved.users().size() == 1;
        graph::Node* const source = moved.args().empty() ? nullptr : moved.args()[0].node();
        if (!moves || source == nullptr || !config_of(moved).qconfig || states_.at(source).is_codes) return;
        if (source->op() == graph::Op::get_attr)
            ensure_codes(moved, *source, asked, wanted);
        else
            quantize_before_moves(*source, asked, wanted);
        states_[&moved] = prepare_sharing(moved, row.kind, config_of(moved));
        if (states_[&moved].is_codes) model_.mark_quantized(moved);
    }

    bool is_any_quantized_ = false;
    std::vector<Refusal>* refusals_;
    std::set<const graph::Node*> noted_;
    static constexpr const char* no_qconfig = "its qconfig is none";
};

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_INTERNAL_PREPARER_HPP
