// SPDX-License-Identifier: MIT
//
// quantize_dynamic: int8 weights, and inputs that are quantized as they arrive. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_DYNAMIC_QUANTIZE_DYNAMIC_HPP
#define INTQ_QUANTIZATION_DYNAMIC_QUANTIZE_DYNAMIC_HPP

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "intq/nn/model/module.hpp"
#include "intq/quantization/dynamic/dynamic_matrix.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

using DynamicMaker = std::function<nn::ModulePtr(const nn::Module& module, const DynamicQConfig& qconfig)>;

/// From a type of module to the function that makes its dynamic counterpart.
using DynamicMapping = std::map<std::string, DynamicMaker>;

/// Linear, LinearReLU, LinearReLU6 and LSTM.
DynamicMapping default_dynamic_mapping();

struct QuantizeDynamicOptions {
    /// By type or qualified name of modules; none leaves them in float. Empty: all types of the mapping, by default.
    std::map<std::string, std::optional<DynamicQConfig>> qconfig_spec{};
    DynamicMapping mapping = default_dynamic_mapping();
    bool inplace = false;
};

/// A model whose layers of the mapping's types are quantized dynamically; no data is needed.
///
/// The numbers are PyTorch's: a scale of an input from its range, by its formula, with codes 0 … 127 where
/// reduce_range is set; weights symmetric by their range. The model's other modules are unchanged.
///
/// @throws Error for an entry of qconfig_spec that no module of the mapping matches, with the nearest names
nn::ModulePtr quantize_dynamic(const nn::ModulePtr& model, const QuantizeDynamicOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_dynamic)

#    include <memory>

#    include "intq/nn/layers/linear.hpp"
#    include "intq/nn/layers/lstm.hpp"
#    include "intq/quantization/dynamic/dynamic_modules.hpp"
#    include "intq/quantization/modules/replace_modules.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE DynamicMapping default_dynamic_mapping() {
    const DynamicMaker linear = [](const nn::Module& module, const DynamicQConfig& qconfig) -> nn::ModulePtr {
        return std::make_shared<DynamicLinear>(dynamic_cast<const nn::Linear&>(module), qconfig);
    };
    const DynamicMaker lstm = [](const nn::Module& module, const DynamicQConfig& qconfig) -> nn::ModulePtr {
        return std::make_shared<DynamicLSTM>(dynamic_cast<const nn::LSTM&>(module), qconfig);
    };
    return {{"Linear", linear}, {"LinearReLU", linear}, {"LinearReLU6", linear}, {"LSTM", lstm}};
}

INTQ_INLINE nn::ModulePtr quantize_dynamic(const nn::ModulePtr& model, const QuantizeDynamicOptions& options) {
    static_cast<void>(nn::given_model(model, "quantize_dynamic"));
    ModuleTable spec(options.qconfig_spec);
    const Replacements replacements =
        plan_replacements(options.inplace ? model : nn::clone(model),
                          [&](const std::string& name, const nn::ModulePtr& module) -> nn::ModulePtr {
                              const auto row = options.mapping.find(module->type_name());
                              if (row == options.mapping.end()) return nullptr;
                              if (options.qconfig_spec.empty()) return row->second(*module, DynamicQConfig{});
                              const auto* qconfig = spec.find(name, module->type_name());
                              return qconfig != nullptr && *qconfig ? row->second(*module, **qconfig) : module;
                          });
    spec.check_all_matched("quantize_dynamic");
    return replacements.apply();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_dynamic)
#endif  // INTQ_QUANTIZATION_DYNAMIC_QUANTIZE_DYNAMIC_HPP
