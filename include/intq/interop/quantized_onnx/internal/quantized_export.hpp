// SPDX-License-Identifier: MIT
//
// From a converted model to an ONNX model: float operators between DequantizeLinear and QuantizeLinear, or ONNX's and
// ONNX Runtime's operators on codes. Layer: interop.
#ifndef INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_QUANTIZED_EXPORT_HPP
#define INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_QUANTIZED_EXPORT_HPP

#include "intq/interop/onnx/export/export_options.hpp"
#include "intq/interop/onnx/read/model.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Makes an ONNX model of a converted one.
///
/// Weights are written as their codes, biases as the int32 codes of the accumulator where they fit. Target, march and
/// the grid of each value are in the file's metadata.
///
/// @throws Error naming the node: an operator without an ONNX operator, a custom module, codes that do not use the
///         whole range of their dtype, and whatever the options refuse
Model export_quantized(const quantization::QuantizedGraph& quantized, const ExportOptions& options = {});

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_quantized_onnx)

#    include "intq/interop/onnx/export/internal/finish_model.hpp"
#    include "intq/interop/onnx/export/internal/graph_writer.hpp"
#    include "intq/interop/quantized_onnx/internal/operator_form.hpp"
#    include "intq/interop/quantized_onnx/internal/quantized_exporter.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Model export_quantized(const quantization::QuantizedGraph& quantized, const ExportOptions& options) {
    const WriteOnCodes on_codes = options.form == QuantizedForm::operators ? &write_operator_form : nullptr;
    QuantizedExporter exporter(quantized, options, on_codes);
    return make_model(options, "graph", [&](GraphWriter& writer, Model& model) { exporter.write(writer, model); });
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_quantized_onnx)
#endif  // INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_QUANTIZED_EXPORT_HPP
