// SPDX-License-Identifier: MIT
//
// SOFTMAX and LOG_SOFTMAX along the last axis. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_SOFTMAX_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_SOFTMAX_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void softmax(OperatorImport& node);
void log_softmax(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <string>

#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/error.hpp"
#    include "intq/quantization/operators/softmax.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

INTQ_INLINE void softmax(OperatorImport& node) {
    node.require_inputs(1, 1);
    const float beta = node.options().number<float>(fields::Softmax::beta, 0.0f);
    if (beta != 1.0f)
        throw Error("its beta is " + std::to_string(beta) + ", expected 1: the softmax of a program has none");
    static_cast<void>(node.qparams(node.input()));
    if (node.dims().size() < 2) throw Error("a softmax over the samples has no integer form");
    node.set(quantization::add_softmax(node.builder(), node.x(), 1, node.output_qparams(), node.layer()));
}

INTQ_INLINE void log_softmax(OperatorImport& node) {
    node.require_inputs(1, 1);
    static_cast<void>(node.qparams(node.input()));
    if (node.dims().size() < 2) throw Error("a log-softmax over the samples has no integer form");
    node.set(
        quantization::add_fixed_point_log_softmax(node.builder(), node.x(), 1, node.output_qparams(), node.layer()));
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_SOFTMAX_HPP
