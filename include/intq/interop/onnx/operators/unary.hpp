// SPDX-License-Identifier: MIT
//
// ONNX operators of one element, by the table of nn/float_operators/unary.hpp. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_OPERATORS_UNARY_HPP
#define INTQ_INTEROP_ONNX_OPERATORS_UNARY_HPP

#include <memory>

#include "intq/arith/unary.hpp"
#include "intq/interop/onnx/nodes/node_import.hpp"
#include "intq/nn/float_operators/unary.hpp"
#include "intq/nn/functional/unary.hpp"
#include "intq/nn/layers/unary.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// A function with a module of its own and no attribute.
template <nn::TableFunction function> void unary_module(NodeImport& node) {
    node.expect_inputs(1, 1);
    node.call_module(std::make_shared<nn::UnaryLayer<function>>(), {node.value(0)}, node.dims(0));
}

/// A function that PyTorch has no module for.
template <nn::TableFunction function> void unary_function(NodeImport& node) {
    node.expect_inputs(1, 1);
    node.call_function(nn::unary_function<function>, {node.value(0)}, node.dims(0));
}

/// A function with the attribute alpha: LeakyRelu and Elu.
template <nn::TableFunction function> void unary_with_alpha(NodeImport& node) {
    node.expect_inputs(1, 1);
    const auto otherwise = static_cast<float>(nn::functional::unary_row(function).default_parameter);
    const auto alpha = static_cast<double>(node.number("alpha", otherwise));
    node.call_module(std::make_shared<nn::UnaryLayer<function>>(alpha), {node.value(0)}, node.dims(0));
}

/// clamp(alpha·x + beta, 0, 1); PyTorch's is the one of alpha = 1/6 and beta = 1/2.
void hard_sigmoid(NodeImport& node);

void gelu(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <string>

#    include "intq/io/error.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void hard_sigmoid(NodeImport& node) {
    const float alpha = node.number("alpha", 0.2f), beta = node.number("beta", 0.5f);
    if (alpha < 0.16666f || alpha > 0.16667f || beta != 0.5f)
        throw Error("alpha is " + std::to_string(alpha) + " and beta " + std::to_string(beta) +
                    "; supported are 1/6 and 1/2 (Hardsigmoid)");
    unary_module<nn::TableFunction::hard_sigmoid>(node);
}

INTQ_INLINE void gelu(NodeImport& node) {
    node.expect_inputs(1, 1);
    node.call_module(std::make_shared<nn::GELU>(node.text("approximate", "none")), {node.value(0)}, node.dims(0));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_OPERATORS_UNARY_HPP
