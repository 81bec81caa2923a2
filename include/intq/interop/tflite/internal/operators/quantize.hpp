// SPDX-License-Identifier: MIT
//
// QUANTIZE between codes, and DEQUANTIZE. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_QUANTIZE_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_QUANTIZE_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void quantize(OperatorImport& node);
void dequantize(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include "intq/core/dtype.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

INTQ_INLINE void quantize(OperatorImport& node) {
    node.require_inputs(1, 1);
    if (node.input().dtype == DType::float32)
        throw Error(
            "it quantizes real numbers inside the model, which LiteRT rounds by other rules than a program; "
            "only the inputs of a model may be real numbers");
    static_cast<void>(node.qparams(node.input()));
    node.set(quantization::add_requantize(node.builder(), node.x(), node.output_qparams(), node.layer()));
}

INTQ_INLINE void dequantize(OperatorImport& node) {
    node.require_inputs(1, 1);
    static_cast<void>(node.qparams(node.input()));
    node.set(quantization::add_dequantize(node.builder(), node.x(), node.layer()));
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_QUANTIZE_HPP
