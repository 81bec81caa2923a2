// SPDX-License-Identifier: MIT
//
// Custom modules: from float to observed, from observed to quantized. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_MODULES_CUSTOM_MODULES_HPP
#define INTQ_QUANTIZATION_MODULES_CUSTOM_MODULES_HPP

#include <string>

#include "intq/arith/quantize.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/modules/replace_modules.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Whether a module was made by a FromFloat.
bool is_observed_custom(const nn::Module& module);

/// The observed form of a module whose type the configuration names; null for others.
nn::ModulePtr observed_custom(const nn::Module& module, const PrepareCustomConfig& config);

/// Observed custom modules for the slots of those that the configuration names.
Replacements plan_observed_custom(const nn::ModulePtr& model, const PrepareCustomConfig& config);

/// The model with observed custom modules in their slots; the model itself if the configuration names none.
nn::ModulePtr with_observed_custom(const nn::ModulePtr& model, const PrepareCustomConfig& config);

/// The FromObserved for a type; null if there is none.
const FromObserved* from_observed(const ConvertCustomConfig& config, QuantType mode, const std::string& type);

/// Applies a FromObserved to a module.
///
/// @param where  the module, for messages
nn::ModulePtr quantized_custom(const std::string& where, const FromObserved& make, const nn::Module& module,
                               const OwnedQParams& output);

/// The type name for the wrapper of a custom module, even if the module is missing.
std::string custom_type(const nn::ModulePtr& module);

/// A quantized custom module with the qparams that its output must have.
class QuantizedCustomModule : public nn::Cloneable<QuantizedCustomModule> {
public:
    QuantizedCustomModule(nn::ModulePtr module, OwnedQParams output, arith::QuantizeRule rule);
    std::string type_name() const override { return type_; }
    bool is_leaf() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;

private:
    std::string type_;
    OwnedQParams output_;
    arith::QuantizeRule rule_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_modules)

#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE bool is_observed_custom(const nn::Module& module) {
    return module.attribute<bool>("observed_custom_module") != nullptr;
}

INTQ_INLINE nn::ModulePtr observed_custom(const nn::Module& module, const PrepareCustomConfig& config) {
    const auto mode = config.float_to_observed_custom_module_class.find(QuantType::static_);
    if (mode == config.float_to_observed_custom_module_class.end()) return nullptr;
    const auto row = mode->second.find(module.type_name());
    if (row == mode->second.end()) return nullptr;
    const nn::ModulePtr observed = row->second(module);
    if (observed == nullptr) throw Error("from_float of " + module.type_name() + " returned no module");
    if (!observed->is_leaf())
        throw Error("the observed custom module " + observed->type_name() + " must be a leaf: make it an nn::Leaf");
    observed->set_attribute("observed_custom_module", true);
    observed->train(module.training());
    return observed;
}

INTQ_INLINE Replacements plan_observed_custom(const nn::ModulePtr& model, const PrepareCustomConfig& config) {
    return plan_replacements(
        model, [&](const std::string&, const nn::ModulePtr& module) { return observed_custom(*module, config); });
}

INTQ_INLINE nn::ModulePtr with_observed_custom(const nn::ModulePtr& model, const PrepareCustomConfig& config) {
    return plan_observed_custom(model, config).apply();
}

INTQ_INLINE const FromObserved* from_observed(const ConvertCustomConfig& config, QuantType mode,
                                              const std::string& type) {
    const auto rows = config.observed_to_quantized_custom_module_class.find(mode);
    if (rows == config.observed_to_quantized_custom_module_class.end()) return nullptr;
    const auto row = rows->second.find(type);
    return row == rows->second.end() ? nullptr : &row->second;
}

INTQ_INLINE nn::ModulePtr quantized_custom(const std::string& where, const FromObserved& make, const nn::Module& module,
                                           const OwnedQParams& output) {
    if (make == nullptr) throw Error(where, "its from_observed is no function");
    nn::ModulePtr quantized = make(module, output);
    if (quantized == nullptr) throw Error(where, "its from_observed returned no module");
    return quantized;
}

INTQ_INLINE std::string custom_type(const nn::ModulePtr& module) {
    return module == nullptr ? "a quantized custom module" : module->type_name();
}

INTQ_INLINE QuantizedCustomModule::QuantizedCustomModule(nn::ModulePtr module, OwnedQParams output,
                                                         arith::QuantizeRule rule)
    : type_(custom_type(module)), output_(std::move(output)), rule_(rule) {
    add_child("module", std::move(module));
}

INTQ_INLINE nn::Value QuantizedCustomModule::forward(nn::Arguments arguments) {
    const Tensor y = child("module")->dispatch("forward", arguments.values()).tensor();
    if (y.dtype() == DType::float32) return quantize(y, output_, rule_);
    if (!y.qparams() || !(*y.qparams() == output_))
        throw Error(type_name(), "a quantized custom module returns real values, or codes of its output's qparams");
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_modules)
#endif  // INTQ_QUANTIZATION_MODULES_CUSTOM_MODULES_HPP
