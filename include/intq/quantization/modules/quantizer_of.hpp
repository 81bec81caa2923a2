// SPDX-License-Identifier: MIT
//
// quantizer_of: the quantizer that a node of a prepared graph calls. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_MODULES_QUANTIZER_OF_HPP
#define INTQ_QUANTIZATION_MODULES_QUANTIZER_OF_HPP

#include "intq/graph/node.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/fake_quantize/quantizer.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Null for a node that calls another module, or none.
Quantizer* quantizer_of(const graph::Node& node, nn::Module& root);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_modules)

#    include "intq/graph/operators.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Quantizer* quantizer_of(const graph::Node& node, nn::Module& root) {
    return dynamic_cast<Quantizer*>(graph::module_of(node, root));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_modules)
#endif  // INTQ_QUANTIZATION_MODULES_QUANTIZER_OF_HPP
