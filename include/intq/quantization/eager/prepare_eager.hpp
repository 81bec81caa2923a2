// SPDX-License-Identifier: MIT
//
// prepare_calibration and prepare_qat: quantizers behind the modules of a model, without a graph. Long because a
// module's replacement and the quantizer behind it are one decision. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_EAGER_PREPARE_EAGER_HPP
#define INTQ_QUANTIZATION_EAGER_PREPARE_EAGER_HPP

#include <map>
#include <string>

#include "intq/arith/target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/modules/qat_mode.hpp"
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

struct PrepareModulesOptions {
    /// The replacement of a float module, by its type: a layer with weights, which then gets its quantizers; a layer
    /// with its weight quantizer; or any other module, which gets a quantizer behind it and whose integer form
    /// ConvertModulesOptions::mapping provides. own_qconfig() of the function's argument is the qconfig in force.
    std::map<std::string, FromFloat> mapping{};
    bool inplace = false;  // false: a clone is prepared; true: an exception leaves the model as it was
    /// The inputs of each cat take its quantizer, so that none is requantized (unify_cat_scales()). The forward must be
    /// one that a trace can follow.
    bool optimize_graph = false;
    Compatibility compatibility = Compatibility::horizon;
    bool strict = false;                // a layer with a qconfig but no integer form is an error
    PrepareCustomConfig custom{};       // its tracing part is ignored
    QATMode qat_mode = get_qat_mode();  // for batch norms that no layer takes, and those that fused layers keep
    bool hybrid = false;                // the modules of hybrid_dict stay in float, between the user's own stubs
    HybridDict hybrid_dict{};
    int verbose = 0;  // 1: prepare_qat prints what check_qat_model() finds
};

/// A model with a quantizer behind each module that will return codes, as its child activation_post_process: QuantStub,
/// layers with weights, FloatFunctional, pools that average. The quantizers observe (FakeQuantState::calibration).
/// Modules that keep the scale of their input, but not its values, have the child input_grid instead: ReLU6, Upsample,
/// and the averages of a target that divides codes (AvgPool2d, AdaptiveAvgPool2d, FloatFunctional's mean). It rounds to
/// the grid of that input or to its own, as chosen when calibration ends (GridChoiceFakeQuantize).
///
/// The model's own forward defines the order, so it must hold the stubs, and use FloatFunctional for operators without
/// a module. A layer whose qconfig has no output quantizer returns its accumulator, which a DeQuantStub must read.
/// Modules without a qconfig stay in float. A batch norm that was not fused is one that no layer takes
/// (PrepareModulesOptions::qat_mode).
///
/// Anything that convert or a run of the converted model would refuse is refused early, with the name of the layer and
/// the rows of the target's constraint table. The type and the qconfig of a layer are checked here; its arguments,
/// types and shapes are checked by its first call on codes. A module that stays in float is refused too, if codes reach
/// it.
///
/// @param mapping  by name and type of modules; the qconfigs that modules carry (set_qconfig()) take precedence
/// @throws Error for a model that is prepared already; for a key of the mapping that matches nothing; where no module
/// has a qconfig, because nothing would be quantized
nn::ModulePtr prepare_calibration(const nn::ModulePtr& model, const QConfigMapping& mapping,
                                  const arith::PolicyRecord& target, const PrepareModulesOptions& options = {});
/// For modules that carry their qconfigs. If none does, with get_default_qconfig_mapping() of the target; for training
/// below, get_default_qat_qconfig_mapping().
nn::ModulePtr prepare_calibration(const nn::ModulePtr& model, const arith::PolicyRecord& target,
                                  const PrepareModulesOptions& options = {});

/// The same for training: in training mode, quantizers that observe and round (FakeQuantState::qat).
nn::ModulePtr prepare_qat(const nn::ModulePtr& model, const QConfigMapping& mapping, const arith::PolicyRecord& target,
                          const PrepareModulesOptions& options = {});
nn::ModulePtr prepare_qat(const nn::ModulePtr& model, const arith::PolicyRecord& target,
                          const PrepareModulesOptions& options = {});

/// Takes the qconfigs from all modules that carry one.
void remove_qconfig(nn::Module& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_eager)

#    include <algorithm>
#    include <iterator>
#    include <memory>
#    include <optional>
#    include <set>
#    include <utility>
#    include <vector>

#    include "intq/graph/operators.hpp"
#    include "intq/graph/tracer.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/fusion.hpp"
#    include "intq/nn/layers/quantize.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/check/check_qat_model.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/modules/custom_modules.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/quantization/modules/replace_modules.hpp"
#    include "intq/quantization/operators/internal/trial.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/prepare/internal/hybrid_dict.hpp"
#    include "intq/quantization/prepare/internal/prepared_call.hpp"
#    include "intq/quantization/prepare/optimize_graph.hpp"
#    include "intq/quantization/prepare/prepare_layer.hpp"
#    include "intq/quantization/qconfig/own_qconfig.hpp"
#    include "intq/quantization/qconfig/target_defaults.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE nn::ModulePtr prepare_calibration(const nn::ModulePtr& model, const arith::PolicyRecord& target,
                                              const PrepareModulesOptions& options) {
    const nn::Module& given = *nn::given_model(model, "prepare_calibration");
    return prepare_calibration(model, detail::mapping_where_none_is_given(given, get_default_qconfig_mapping(target)),
                               target, options);
}

INTQ_INLINE nn::ModulePtr prepare_qat(const nn::ModulePtr& model, const arith::PolicyRecord& target,
                                      const PrepareModulesOptions& options) {
    const nn::Module& given = *nn::given_model(model, "prepare_qat");
    return prepare_qat(model, detail::mapping_where_none_is_given(given, get_default_qat_qconfig_mapping(target)),
                       target, options);
}

INTQ_INLINE void remove_qconfig(nn::Module& model) {
    nn::for_each_module(model, [](const std::string&, nn::Module& module) { module.set_attribute("qconfig", {}); });
}

namespace detail {

/// Chooses the replacement of each module; the quantizers behind them are put in at the end.
class ModulePreparer {
public:
    ModulePreparer(const QConfigMapping& mapping, const arith::PolicyRecord& target,
                   const PrepareModulesOptions& options)
        : mapping_(mapping), target_(target), options_(options) {
        for (const auto& [type, make] : options_.mapping)
            if (make == nullptr) throw Error("prepare: the mapping of " + type + " has no function");
    }

    nn::ModulePtr replace(const std::string& name, const nn::ModulePtr& module) {
        if (dynamic_cast<Quantizer*>(module.get()) != nullptr) throw Error(name, "the model is prepared already");
        if (dynamic_cast<nn::FloatFunctional*>(module.get()) != nullptr)
            return functional(name, module, choice_of(name, *module));
        if (const auto mapped = options_.mapping.find(module->type_name()); mapped != options_.mapping.end())
            return mapped_module(name, module, mapped->second);
        SingleCall call(module, "forward");
        const QuantizedOperator& row = call.row();
        if (row.role == Role::float_only && !module->is_leaf()) return nullptr;
        const FusedChoice choice = choice_of(name, *module);
        if (row.role == Role::shares_input || keeps_scale(row)) return sharing(name, module, row, *call.node, choice);
        if (!choice.qconfig()) return without_qconfig(name, module);
        switch (row.role) {
            case Role::float_only:
                if (options_.strict) throw Error(name, module->type_name() + " has no integer form, and strict is on");
                return in_float(name, module);
            case Role::weighted:
                return weighted(name, *module, row, choice);
            case Role::quant_stub:
            case Role::own_output:
                check_layer(name, *call.node, *module, row, *choice.qconfig());
                return observed(name, module, with_fixed(choice, row, *call.node, *module));
            default:
                return module;
        }
    }

    void check_mapping(const std::vector<std::string>& types) const {
        for (const auto& [type, make] : options_.mapping)
            if (std::find(types.begin(), types.end(), type) == types.end())
                throw_unmatched_key("prepare: mapping", type, {}, {types.begin(), types.end()});
    }

    // For qconfigs that leave the model without a quantizer.
    void refuse_nothing() const {
        if (is_any_quantized_ || without_qconfig_.empty()) return;
        throw Error("prepare: " + without_qconfig_,
                    "its qconfig is none, as is every other module's, and nothing would be quantized; give the mapping "
                    "a global qconfig, or one for a module, or call the overload without a mapping");
    }

    void put_quantizers() const {
        for (const auto& [module, place] : places_) {
            module->set_attribute(prepared_place, place);
            module->add_forward_pre_hook(&check_prepared_call);
        }
        for (const auto& [module, quantizer] : quantizers_) module->add_child("activation_post_process", quantizer);
        for (const auto& [module, methods, quantizer] : following_) {
            module->add_child("input_grid", quantizer);
            module->set_attribute("methods_on_input_grid", methods);
        }
        for (const nn::ModulePtr& module : hooked_) module->add_forward_hook(&call_quantizer);
    }

private:
    bool keeps_scale(const QuantizedOperator& row) const {
        return row.keeps_scale != nullptr && row.keeps_scale(target_);
    }

    void place(const std::string& name, const nn::ModulePtr& module, bool computes_on_codes) {
        places_.emplace_back(module, std::make_shared<PreparedPlace>(name, target_, computes_on_codes));
    }

    void hook(const nn::ModulePtr& module) {
        if (hooked_.empty() || hooked_.back() != module) hooked_.push_back(module);
    }

    nn::ModulePtr without_qconfig(const std::string& name, const nn::ModulePtr& module) {
        if (without_qconfig_.empty())
            without_qconfig_ = name.empty() ? module->type_name() : name + " (" + module->type_name() + ")";
        return in_float(name, module);
    }

    // Modules that the library knows do not take codes. A user's leaf decides for itself.
    nn::ModulePtr in_float(const std::string& name, const nn::ModulePtr& module) {
        const auto& rows = graph::operator_spellings;
        const auto spells = [&](const graph::OperatorSpelling& row) {
            return row.op == graph::Op::call_module && row.key == module->type_name();
        };
        // A fused batch norm has a name that appears nowhere.
        const bool is_known = dynamic_cast<const nn::BatchNorm*>(module.get()) != nullptr ||
                              std::any_of(std::begin(rows), std::end(rows), spells);
        const Role role = SingleCall(module, "forward").row().role;
        const bool is_stub = role == Role::quant_stub || role == Role::dequant_stub;
        if ((is_known || role != Role::float_only) && !is_stub && !is_observed_custom(*module))
            place(name, module, false);
        return module;
    }

    // The input's scale stays, or the scale is chosen when calibration ends.
    nn::ModulePtr sharing(const std::string& name, const nn::ModulePtr& module, const QuantizedOperator& row,
                          const graph::Node& node, const FusedChoice& choice) {
        if (row.make_step != nullptr) place(name, module, true);
        if (keeps_scale(row)) {
            following_.push_back({module, {"forward"}, grid_behind(name, row, node, module.get(), choice)});
            hook(module);
        }
        return module;
    }

    // The quantizer of an operator that keeps its input's grid: one that chooses if keeping can cost anything.
    nn::ModulePtr grid_behind(const std::string& name, const QuantizedOperator& row, const graph::Node& node,
                              const nn::Module* module, const FusedChoice& choice) const {
        const std::optional<QConfig> qconfig = choice.qconfig();
        const auto following = std::make_shared<InputGridFakeQuantize>(target_.quantize);
        if (options_.compatibility == Compatibility::torch || row.grid_use == nullptr || !qconfig || !qconfig->output)
            return following;
        const DType dtype = qconfig->output->dtype();
        const QuantizedTensor codes = stand_in(OwnedQParams::per_tensor(1.0f, dtype), false, {});
        std::optional<GridUse> use = row.grid_use(trial_request(node, module, {&codes}, {}, target_));
        if (!use) return following;
        mapping_.mark_used(choice.last);
        use->may_own = use->may_own && can_requantize(target_, dtype);
        const auto own = make_activation_quantizer(name, *qconfig->output, target_, options_.compatibility);
        return std::make_shared<GridChoiceFakeQuantize>(name, own, nullptr, *use);
    }

    // Whose methods are operators.
    nn::ModulePtr functional(const std::string& name, const nn::ModulePtr& module, const FusedChoice& choice) {
        if (!choice.qconfig()) return without_qconfig(name, module);
        for (const graph::OperatorSpelling& spelling : graph::operator_spellings) {
            if (spelling.op != graph::Op::call_module || spelling.key != module->type_name()) continue;
            SingleCall call(module, std::string(spelling.method));
            if (!keeps_scale(call.row())) continue;
            const std::string method(spelling.method);
            following_.push_back({module, {method}, grid_behind(name, call.row(), *call.node, module.get(), choice)});
        }
        return observed(name, module, choice);
    }

    // Checks the type and the qconfig of a module, independently of its calls.
    void check_layer(const std::string& name, const graph::Node& node, const nn::Module& module,
                     const QuantizedOperator& row, const QConfig& qconfig) const {
        if (!qconfig.output || row.kind == OpKind::none) return;
        const DType dtype = qconfig.output->dtype();
        const bool is_affine = qconfig.output->options.observer_options.scheme == arith::QuantScheme::affine;
        const bool is_stub = row.role == Role::quant_stub;
        try {
            check_types({is_stub ? OpKind::quantize : row.kind, is_stub ? DType::float32 : dtype, DType::none, dtype},
                        target_);
            check_arguments(row, node, &module, dtype, is_affine, target_);
        } catch (const Error& refusal) {
            throw Error("prepare: " + name + " (" + module.type_name() + ")", refusal.what());
        }
    }

    // An entry that switches quantization off takes effect here.
    FusedChoice choice_of(const std::string& name, const nn::Module& module) const {
        const nn::FusedMember whole{name, module.type_name(), ""};
        std::vector<nn::FusedMember> members{whole};
        const auto* fused = dynamic_cast<const nn::FusedFrom*>(&module);
        if (fused != nullptr && !fused->members().empty()) members = fused->members_at(name);
        FusedChoice choice = mapping_.find_fused(whole, members, options_.compatibility);
        if (!choice.qconfig()) mapping_.mark_switched_off(choice);
        return choice;
    }

    FusedChoice with_fixed(FusedChoice choice, const QuantizedOperator& row, const graph::Node& node,
                           const nn::Module& module) const {
        std::optional<QuantizerConfig>& output = choice.last.qconfig->output;
        if (!output) return choice;
        arith::OperatorUse use{row.kind, output->dtype(), DType::none, output->dtype()};
        if (row.function != nullptr) use.function = row.function(node, &module);
        output = with_fixed_output(*output, target_, use);
        return choice;
    }

    nn::ModulePtr mapped_module(const std::string& name, const nn::ModulePtr& module, const FromFloat& make) {
        const FusedChoice choice = choice_of(name, *module);
        if (!choice.qconfig()) return without_qconfig(name, module);
        const nn::ModulePtr with_qconfig = module->copy();
        set_qconfig(*with_qconfig, choice.qconfig());
        const nn::ModulePtr made = make(*with_qconfig);
        if (made == nullptr) throw Error(name, "the mapping of " + module->type_name() + " returned no module");
        made->train(module->training());
        mapping_.mark_used(choice.first);
        if (dynamic_cast<PreparedWeight*>(made.get()) != nullptr) return observed(name, made, choice);
        if (dynamic_cast<nn::Weighted*>(made.get()) != nullptr)
            return weighted(name, *made, SingleCall(made, "forward").row(), choice);
        made->set_attribute("observed_custom_module", true);
        return observed(name, made, choice);
    }

    // A module that a mapping or a custom configuration made decides itself about codes.
    static bool computes_by_table(const nn::ModulePtr& module) {
        if (is_observed_custom(*module)) return false;
        if (dynamic_cast<const nn::FloatFunctional*>(module.get()) != nullptr) return true;
        const Role role = SingleCall(module, "forward").row().role;
        return role != Role::quant_stub && role != Role::float_only;
    }

    nn::ModulePtr observed(const std::string& name, const nn::ModulePtr& module, const FusedChoice& choice) {
        const std::optional<QConfig> qconfig = choice.qconfig();
        if (qconfig) mapping_.mark_used(choice.last);
        if (!qconfig) return module;
        is_any_quantized_ = true;
        if (computes_by_table(module)) place(name, module, true);
        if (auto* const layer = dynamic_cast<PreparedWeight*>(module.get()); layer != nullptr && !qconfig->output)
            layer->set_hands_out_accumulator();
        if (!qconfig->output) return module;
        const auto quantizer = make_activation_quantizer(name, *qconfig->output, target_, options_.compatibility);
        // Only values that a layer computed may be rounded in place; a stub returns the caller's own tensor.
        const bool computes = dynamic_cast<nn::Weighted*>(module.get()) != nullptr ||
                              dynamic_cast<nn::FloatFunctional*>(module.get()) != nullptr;
        if (!computes) quantizer->set_in_place(false);
        quantizers_.emplace_back(module, quantizer);
        hook(module);
        return module;
    }

    nn::ModulePtr weighted(const std::string& name, const nn::Module& module, const QuantizedOperator& row,
                           const FusedChoice& choice) {
        const std::optional<QuantizerConfig> weight = choice.qconfig()->weight;
        if (!weight) throw Error(name, "its qconfig has no weight quantizer");
        const std::shared_ptr<nn::Weighted> made =
            row.as_layer == nullptr ? nullptr : weighted_layer_of(name, module, row, options_.qat_mode);
        const auto& layer = made == nullptr ? dynamic_cast<const nn::Weighted&>(module) : *made;
        mapping_.mark_used(choice.first);
        const auto prepared = with_weight_quantizer(name, layer, row, *weight, target_, options_.compatibility);
        dynamic_cast<PreparedWeight&>(*prepared).set_qat_mode(options_.qat_mode);
        return observed(name, prepared, choice);
    }

    std::vector<std::pair<nn::ModulePtr, std::shared_ptr<PreparedPlace>>> places_{};
    std::vector<std::pair<nn::ModulePtr, nn::ModulePtr>> quantizers_{};
    struct Following {
        nn::ModulePtr module;
        std::set<std::string> methods;
        nn::ModulePtr quantizer;
    };
    std::vector<Following> following_{};
    std::vector<nn::ModulePtr> hooked_{};
    std::string without_qconfig_{};  // the first such module
    bool is_any_quantized_ = false;
    const QConfigMapping& mapping_;
    const arith::PolicyRecord& target_;
    const PrepareModulesOptions& options_;
};

/// Prepares in place, or leaves the model as it is and throws.
INTQ_INLINE nn::ModulePtr prepare_modules(const nn::ModulePtr& model, const QConfigMapping& mapping,
                                          const arith::PolicyRecord& target, const PrepareModulesOptions& options) {
    std::vector<std::string> names, types;
    for (const auto& module : model->named_modules()) {
        names.push_back(module.name);
        types.push_back(module.value->type_name());
        if (dynamic_cast<Quantizer*>(module.value) != nullptr)
            throw Error("prepare: " + module.name, "the model is prepared already");
    }
    if (!options.hybrid && !options.hybrid_dict.empty())
        throw Error("prepare: there is a hybrid_dict, but hybrid is off; a hybrid model must be asked for");
    if (options.optimize_graph) graph::symbolic_trace(model);  // throws while the model is as it was
    const QConfigMapping own = in_mode(with_own_qconfigs(mapping, *model), target, options.compatibility),
                         all = with_hybrid(own, *model, options.hybrid_dict);
    ModulePreparer preparer(all, target, options);
    const Replacements replacements = plan_replacements(
        model, [&](const std::string& name, const nn::ModulePtr& module) { return preparer.replace(name, module); });
    preparer.check_mapping(types);
    all.check_all_matched(names, types);  // a mistyped key is likelier than a mapping of nothing
    preparer.refuse_nothing();
    all.check_all_used(names, types);
    preparer.put_quantizers();
    const nn::ModulePtr prepared = replacements.apply();
    if (options.optimize_graph) unify_cat_scales(*prepared, *graph::symbolic_trace(prepared));
    return prepared;
}

}  // namespace detail

INTQ_INLINE nn::ModulePtr prepare_calibration(const nn::ModulePtr& model, const QConfigMapping& mapping,
                                              const arith::PolicyRecord& target, const PrepareModulesOptions& options) {
    static_cast<void>(nn::given_model(model, "prepare_calibration"));
    const Replacements custom = plan_observed_custom(options.inplace ? model : nn::clone(model), options.custom);
    nn::ModulePtr result = custom.apply();
    try {
        result = detail::prepare_modules(result, mapping, target, options);
    } catch (...) {
        custom.undo();
        throw;
    }
    result->set_attribute("prepared_target", target);
    set_fake_quantize(*result, FakeQuantState::calibration);
    return result;
}

INTQ_INLINE nn::ModulePtr prepare_qat(const nn::ModulePtr& model, const QConfigMapping& mapping,
                                      const arith::PolicyRecord& target, const PrepareModulesOptions& options) {
    nn::ModulePtr prepared = prepare_calibration(nn::given_model(model, "prepare_qat"), mapping, target, options);
    prepared->train();
    set_fake_quantize(*prepared, FakeQuantState::qat);
    if (options.verbose > 0) check_qat_model(*prepared);
    return prepared;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_eager)
#endif  // INTQ_QUANTIZATION_EAGER_PREPARE_EAGER_HPP
