// SPDX-License-Identifier: MIT
//
// convert_fx of a model with custom modules. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_CONVERT_CONVERT_CUSTOM_HPP
#define INTQ_QUANTIZATION_CONVERT_CONVERT_CUSTOM_HPP

#include "intq/quantization/modules/custom_config.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// convert_fx(), and the FromObserved of each custom module.
///
/// @throws Error naming an observed custom module whose type the configuration lacks, or a preserved attribute that the
///         model lacks
QuantizedGraph convert_fx(PreparedModel& prepared, const ConvertCustomConfig& config);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include <memory>
#    include <string>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/quantization/convert/convert_fx.hpp"
#    include "intq/quantization/modules/custom_modules.hpp"
#    include "intq/quantization/operators/custom.hpp"
#    include "intq/quantization/operators/float_step.hpp"
#    include "intq/quantization/operators/internal/host_layer.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE QuantizedGraph convert_fx(PreparedModel& prepared, const ConvertCustomConfig& config) {
    for (const std::string& name : config.preserved_attributes) prepared.property(name);
    QuantizedGraph quantized = convert_fx(prepared);
    for (QuantizedNode& node : quantized.nodes) {
        if (node.as<HostLayerStep>() != nullptr) continue;  // it is converted already
        if (const auto* custom = node.as<CustomStep>()) {
            const std::string type = custom->module()->type_name(),
                              where = "convert: %" + node.name + " (" + type + ")";
            const FromObserved* make = from_observed(config, QuantType::static_, type);
            if (make == nullptr)
                throw Error(where, "observed_to_quantized_custom_module_class has no static entry of this type");
            const OwnedQParams& output = quantized.output(node).qparams;
            const auto module = std::make_shared<QuantizedCustomModule>(
                quantized_custom(where, *make, *custom->module(), output), output, quantized.target.quantize);
            node.step = std::make_shared<CustomStep>(module, true);
        } else if (const auto* in_float = node.as<FloatStep>(); in_float != nullptr && in_float->call().module) {
            FloatCall call = in_float->call();
            for (const QuantType mode : {QuantType::dynamic, QuantType::weight_only})
                if (const FromObserved* make = from_observed(config, mode, call.module->type_name())) {
                    call.traced_hooks = {};
                    call.module = quantized_custom("convert: %" + node.name + " (" + call.module->type_name() + ")",
                                                   *make, *call.module, OwnedQParams());
                }
            node.step = std::make_shared<FloatStep>(std::move(call));
        }
    }
    return quantized;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_CONVERT_CUSTOM_HPP
