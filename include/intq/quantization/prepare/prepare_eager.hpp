// SPDX-License-Identifier: MIT
//
// prepare_calibration and prepare_qat: quantizers behind the modules of a model, without a graph. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_PREPARE_PREPARE_EAGER_HPP
#define INTQ_QUANTIZATION_PREPARE_PREPARE_EAGER_HPP

#include <string>

#include "intq/arith/target.hpp"
#include "intq/graph/graph.hpp"
#include "intq/nn/model/container.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

struct PrepareModulesOptions {
    bool inplace = false;  // false: a clone is prepared; true: what throws leaves the model as it was
    Compatibility compatibility = Compatibility::horizon;
    bool strict = false;           // a layer with a qconfig that has no integer form is an error
    PrepareCustomConfig custom{};  // its part on tracing is not read
    bool hybrid = false;           // the modules of hybrid_dict stay in float, between the user's own stubs
    HybridDict hybrid_dict{};
};

/// A model with a quantizer behind each module that will give codes, as its child activation_post_process: QuantStub,
/// layers with weights, FloatFunctional, pools that average. The quantizers observe (FakeQuantState::calibration).
///
/// The model's own forward says what follows what, so it must hold the stubs, and use FloatFunctional for what has no
/// module. A layer whose qconfig has no output quantizer gives its accumulator, which a DeQuantStub must read. What has
/// no qconfig stays in float.
///
/// @param mapping  by name and type of modules; the qconfigs that modules carry (set_qconfig()) stand above it
/// @throws Error for a model that is prepared already; for a key of the mapping that matches nothing
nn::ModulePtr prepare_calibration(const nn::ModulePtr& model, const QConfigMapping& mapping,
                                  const arith::PolicyRecord& target, const PrepareModulesOptions& options = {});
/// For modules that carry their qconfigs.
nn::ModulePtr prepare_calibration(const nn::ModulePtr& model, const arith::PolicyRecord& target,
                                  const PrepareModulesOptions& options = {});

/// The same for training: in training mode, quantizers that observe and round (FakeQuantState::qat).
nn::ModulePtr prepare_qat(const nn::ModulePtr& model, const QConfigMapping& mapping, const arith::PolicyRecord& target,
                          const PrepareModulesOptions& options = {});
nn::ModulePtr prepare_qat(const nn::ModulePtr& model, const arith::PolicyRecord& target,
                          const PrepareModulesOptions& options = {});

/// Takes the qconfigs from all modules that carry one.
void remove_qconfig(nn::Module& model);

namespace detail {

/// A graph that calls one method of one module: what the rows of operators are asked with.
struct SingleCall {
    nn::ModuleDict root;
    graph::Graph graph;
    graph::Node* node = nullptr;

    SingleCall(const nn::ModulePtr& module, const std::string& method);
    const QuantizedOperator& row();
};

/// The quantizer behind a module; null without one.
Quantizer* output_quantizer(const nn::Module& module);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <memory>
#    include <optional>
#    include <utility>
#    include <vector>

#    include "intq/io/error.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/fusion.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/modules/custom_modules.hpp"
#    include "intq/quantization/modules/replace_modules.hpp"
#    include "intq/quantization/operators/operator_table.hpp"
#    include "intq/quantization/prepare/hybrid_dict.hpp"
#    include "intq/quantization/prepare/prepare_layer.hpp"
#    include "intq/quantization/qconfig/qconfig_dict.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE nn::ModulePtr prepare_calibration(const nn::ModulePtr& model, const arith::PolicyRecord& target,
                                              const PrepareModulesOptions& options) {
    return prepare_calibration(model, QConfigMapping(), target, options);
}

INTQ_INLINE nn::ModulePtr prepare_qat(const nn::ModulePtr& model, const arith::PolicyRecord& target,
                                      const PrepareModulesOptions& options) {
    return prepare_qat(model, QConfigMapping(), target, options);
}

INTQ_INLINE void remove_qconfig(nn::Module& model) {
    for (const auto& module : model.named_modules()) module.value->set_attribute("qconfig", {});
}

namespace detail {

INTQ_INLINE SingleCall::SingleCall(const nn::ModulePtr& module, const std::string& method) {
    root.add_child("layer", module);
    node = &graph.call_module("layer", {graph.placeholder("x")}, method);
}

INTQ_INLINE const QuantizedOperator& SingleCall::row() { return quantized_operator(*node, root); }

INTQ_INLINE Quantizer* output_quantizer(const nn::Module& module) {
    return module.has_child("activation_post_process")
               ? dynamic_cast<Quantizer*>(module.child("activation_post_process").get())
               : nullptr;
}

INTQ_INLINE nn::Value call_output_quantizer(nn::Module& module, const nn::Value& result) {
    return module.call("activation_post_process", result);
}

/// Says what takes the place of each module; the quantizers behind them are put in at the end.
class ModulePreparer {
public:
    ModulePreparer(const QConfigMapping& mapping, const arith::PolicyRecord& target,
                   const PrepareModulesOptions& options)
        : mapping_(mapping), target_(target), options_(options) {}

    nn::ModulePtr replace(const std::string& name, const nn::ModulePtr& module) {
        if (dynamic_cast<Quantizer*>(module.get()) != nullptr) throw Error(name, "the model is prepared already");
        if (dynamic_cast<nn::FloatFunctional*>(module.get()) != nullptr)
            return observed(name, module, choice_of(name, *module));
        const QuantizedOperator& row = SingleCall(module, "forward").row();
        if (row.role == Role::float_only && !module->is_leaf()) return nullptr;
        const FusedChoice choice = choice_of(name, *module);
        if (!choice.qconfig()) return module;
        switch (row.role) {
            case Role::float_only:
                if (options_.strict) throw Error(name, module->type_name() + " has no integer form, and strict is on");
                return module;
            case Role::weighted:
                return weighted(name, *module, row, choice);
            case Role::quant_stub:
                return observed(name, module, choice);
            case Role::own_output:
                return row.keeps_scale != nullptr && row.keeps_scale(target_) ? module : observed(name, module, choice);
            default:
                return module;
        }
    }

    void put_quantizers() const {
        for (const auto& [module, quantizer] : quantizers_) {
            module->add_child("activation_post_process", quantizer);
            module->add_forward_hook(&call_output_quantizer);
        }
    }

private:
    // An entry that switches quantization off has its effect here.
    FusedChoice choice_of(const std::string& name, const nn::Module& module) const {
        const nn::FusedMember whole{name, module.type_name(), ""};
        std::vector<nn::FusedMember> members{whole};
        const auto* fused = dynamic_cast<const nn::FusedFrom*>(&module);
        if (fused != nullptr && !fused->members().empty()) members = fused->members_at(name);
        FusedChoice choice = mapping_.find_fused(whole, members, options_.compatibility);
        if (!choice.qconfig()) mapping_.mark_switched_off(choice);
        return choice;
    }

    nn::ModulePtr observed(const std::string& name, const nn::ModulePtr& module, const FusedChoice& choice) {
        const std::optional<QConfig> qconfig = choice.qconfig();
        if (qconfig) mapping_.mark_used(choice.last);
        if (qconfig && qconfig->output)
            quantizers_.emplace_back(
                module, make_activation_quantizer(name, *qconfig->output, target_, options_.compatibility));
        return module;
    }

    nn::ModulePtr weighted(const std::string& name, const nn::Module& module, const QuantizedOperator& row,
                           const FusedChoice& choice) {
        const std::optional<QuantizerConfig> weight = choice.qconfig()->weight;
        if (!weight) throw Error(name, "its qconfig has no weight quantizer");
        const std::shared_ptr<nn::Weighted> made = row.as_layer == nullptr ? nullptr : layer_of(name, module, row);
        const auto& layer = made == nullptr ? dynamic_cast<const nn::Weighted&>(module) : *made;
        mapping_.mark_used(choice.first);
        return observed(name, with_weight_quantizer(name, layer, row, *weight, target_, options_.compatibility),
                        choice);
    }

    std::vector<std::pair<nn::ModulePtr, nn::ModulePtr>> quantizers_{};
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
    const QConfigMapping all = with_hybrid(with_own_qconfigs(mapping, *model), *model, options.hybrid_dict);
    ModulePreparer preparer(all, target, options);
    const Replacements replacements = plan_replacements(
        model, [&](const std::string& name, const nn::ModulePtr& module) { return preparer.replace(name, module); });
    all.check_all_used(names, types);
    preparer.put_quantizers();
    return replacements.apply();
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
    return prepared;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_PREPARE_EAGER_HPP
