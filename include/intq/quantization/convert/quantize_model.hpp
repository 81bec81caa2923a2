// SPDX-License-Identifier: MIT
//
// quantize_fx: prepare, run, convert in one call. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_CONVERT_QUANTIZE_MODEL_HPP
#define INTQ_QUANTIZATION_CONVERT_QUANTIZE_MODEL_HPP

#include <functional>

#include "intq/arith/target.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Runs a model over the data that calibrates it.
using RunFunction = std::function<void(nn::Module& prepared)>;

/// A converted model: prepare_calibration_fx(), `run`, convert_fx().
///
/// @throws Error as those do; for a quantizer to which `run` shows no data, naming it
QuantizedGraph quantize_fx(const nn::Module& model, const RunFunction& run, const QConfigMapping& mapping,
                           const arith::PolicyRecord& target, const PrepareOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_convert)

#    include "intq/io/error.hpp"
#    include "intq/quantization/convert/convert_fx.hpp"
#    include "intq/quantization/prepare/prepare_fx.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE QuantizedGraph quantize_fx(const nn::Module& model, const RunFunction& run, const QConfigMapping& mapping,
                                       const arith::PolicyRecord& target, const PrepareOptions& options) {
    if (!run) throw Error("quantize_fx: run is empty; it must be a function that shows data to the model");
    const auto prepared = prepare_calibration_fx(model, mapping, target, options);
    run(*prepared);
    return convert_fx(*prepared);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_convert)
#endif  // INTQ_QUANTIZATION_CONVERT_QUANTIZE_MODEL_HPP
