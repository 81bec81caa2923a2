// SPDX-License-Identifier: MIT
//
// ONNX operators of one element: Relu, Clip, and the table of nn/float_operators/unary.hpp. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_UNARY_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_UNARY_HPP

#include <cstddef>
#include <optional>

#include "intq/core/op_params.hpp"
#include "intq/interop/onnx/internal/nodes/node_import.hpp"
#include "intq/io/make_as.hpp"
#include "intq/nn/float_operators/unary.hpp"
#include "intq/nn/layers/unary.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

/// A function that has a module and no attribute.
template <TableFunction function> void unary_module(NodeImport& node) {
    node.expect_inputs(1, 1);
    node.call_module(make_as<nn::Module, nn::UnaryLayer<function>>(), {node.value(0)}, node.dims(0));
}

/// A function without a module in PyTorch.
template <TableFunction function> void unary_function(NodeImport& node) {
    node.expect_inputs(1, 1);
    node.call_function(nn::unary_function<function>, {node.value(0)}, node.dims(0));
}

/// A function with the attribute alpha: LeakyRelu, Elu and Celu.
template <TableFunction function> void unary_with_alpha(NodeImport& node) {
    node.expect_inputs(1, 1);
    const auto otherwise = static_cast<float>(nn::float_operators::unary_row(function).default_parameter);
    const auto alpha = static_cast<double>(node.number("alpha", otherwise));
    node.call_module(make_as<nn::Module, nn::UnaryLayer<function>>(alpha), {node.value(0)}, node.dims(0));
}

void relu(NodeImport& node);
void clip(NodeImport& node);

/// Input x of the node between bounds, by the closest module or function.
void keep_between(NodeImport& node, std::size_t x, std::optional<float> low, std::optional<float> high);

/// clamp(alpha·x + beta, 0, 1) with beta = 1/2, the default; PyTorch's has alpha = 1/6.
void hard_sigmoid(NodeImport& node);

void gelu(NodeImport& node);

/// With the constants of PyTorch, the default.
void selu(NodeImport& node);

/// PyTorch's module, with the attribute beta that ONNX's operator does not have.
void softplus_of_product(NodeImport& node);

/// x - clamp(x, -lambd, lambd): PyTorch's Softshrink. Another bias than lambd is refused, because the function jumps.
void shrink(NodeImport& node);

/// x to the power of 2, 1/2, 1 or -1.
void pow(NodeImport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_operators)

#    include <cmath>
#    include <limits>
#    include <span>
#    include <string>

#    include "intq/arith/unary.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/interop/onnx/internal/operators/quantize.hpp"
#    include "intq/interop/onnx/read/model.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/move.hpp"

namespace intq::interop::onnx::operators {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void relu(NodeImport& node) {
    node.expect_inputs(1, 1);
    node.call_module(make_as<nn::Module, nn::ReLU>(), {node.value(0)}, node.dims(0));
}

/// A limit of Clip. A limit that no finite number crosses does not count.
INTQ_INLINE std::optional<float> clip_limit(const NodeImport& node, std::size_t i, const char* what, float none) {
    if (!node.has_input(i)) return std::nullopt;
    const FileTensor& tensor = node.constant(i, what);
    const std::span<const float> values = tensor.as<float>();
    if (values.size() != 1)
        throw Error(std::string("the ") + what + " has " + std::to_string(values.size()) + " elements, expected 1");
    if (std::isnan(values[0])) throw Error(std::string("the ") + what + " is NaN");
    return none > 0 ? (values[0] >= none ? std::nullopt : std::optional(values[0]))
                    : (values[0] <= none ? std::nullopt : std::optional(values[0]));
}

INTQ_INLINE void keep_between(NodeImport& node, std::size_t x, std::optional<float> low, std::optional<float> high) {
    const bool from_zero = low && *low == 0.0f;
    nn::ModulePtr module;
    if (from_zero && high && *high == 6.0f) module = make_as<nn::Module, nn::ReLU6>();
    if (from_zero && !high) module = make_as<nn::Module, nn::ReLU>();
    if (!low && !high) module = make_as<nn::Module, nn::Identity>();
    if (module == nullptr) {
        const auto limit = [](std::optional<float> value) {
            return value ? graph::Argument(static_cast<double>(*value)) : graph::Argument();
        };
        return node.call_function(nn::clamp_function, {node.value(x), limit(low), limit(high)}, node.dims(x));
    }
    node.call_module(module, {node.value(x)}, node.dims(x));
}

INTQ_INLINE void clip(NodeImport& node) {
    node.expect_inputs(1, 3);
    if (node.any_value(0, "input").codes != DType::none) return clip_codes(node);
    constexpr float largest = (std::numeric_limits<float>::max)();
    const auto low = clip_limit(node, 1, "min", -largest), high = clip_limit(node, 2, "max", largest);
    keep_between(node, 0, low, high);
}

INTQ_INLINE void hard_sigmoid(NodeImport& node) {
    node.expect_inputs(1, 1);
    const float alpha = node.number("alpha", 0.2f), beta = node.number("beta", 0.5f);
    if (!(alpha > 0.0f && std::isfinite(alpha)) || beta != 0.5f)
        throw Error("alpha is " + std::to_string(alpha) + " and beta " + std::to_string(beta) +
                    "; supported are a positive alpha and the beta 1/2");
    // The float of 1/6 is PyTorch's, whose slope is exact.
    const double slope = alpha == 1.0f / 6 ? 1.0 : 6.0 * static_cast<double>(alpha);
    node.call_module(make_as<nn::Module, nn::Hardsigmoid>(slope), {node.value(0)}, node.dims(0));
}

INTQ_INLINE void gelu(NodeImport& node) {
    node.expect_inputs(1, 1);
    node.call_module(make_as<nn::Module, nn::GELU>(node.text("approximate", "none")), {node.value(0)}, node.dims(0));
}

INTQ_INLINE void selu(NodeImport& node) {
    constexpr auto default_alpha = static_cast<float>(arith::selu_alpha);
    constexpr auto default_gamma = static_cast<float>(arith::selu_scale);
    const float alpha = node.number("alpha", default_alpha), gamma = node.number("gamma", default_gamma);
    if (alpha != default_alpha || gamma != default_gamma)
        throw Error("alpha is " + std::to_string(alpha) + " and gamma " + std::to_string(gamma) +
                    "; supported are the defaults, 1.67326319217681884765625 and 1.05070102214813232421875");
    unary_module<TableFunction::selu>(node);
}

INTQ_INLINE void softplus_of_product(NodeImport& node) {
    node.expect_inputs(1, 1);
    const auto beta = static_cast<double>(node.number("beta", 1.0f));
    node.call_module(make_as<nn::Module, nn::Softplus>(beta), {node.value(0)}, node.dims(0));
}

INTQ_INLINE void shrink(NodeImport& node) {
    node.expect_inputs(1, 1);
    const float bias = node.number("bias", 0.0f), limit = node.number("lambd", 0.5f);
    if (!(limit > 0.0f && std::isfinite(limit)) || bias != limit)
        throw Error("bias is " + shortest_text(bias) + " and lambd " + shortest_text(limit) +
                    "; supported is a bias that equals a positive lambd");
    graph::Node& x = node.value(0);
    const auto most = static_cast<double>(limit);
    graph::Node& middle = node.make_function(nn::clamp_function, {x, -most, most});
    node.call_module(make_as<nn::Module, nn::FloatFunctional>(), {x, middle}, node.dims(0), "sub");
}

INTQ_INLINE void pow(NodeImport& node) {
    node.expect_inputs(2, 2);
    const FileTensor& exponent = node.constant(1, "exponent");
    const std::span<const float> values = exponent.as<float>();
    if (values.size() != 1)
        throw Error("the exponent has the shape " + describe_shape(exponent.dims) + "; supported is one number");
    if (values[0] == 2.0f)
        return node.call_function(nn::unary_function<TableFunction::square>, {node.value(0)}, node.dims(0));
    if (values[0] == 0.5f)
        return node.call_function(nn::unary_function<TableFunction::sqrt>, {node.value(0)}, node.dims(0));
    if (values[0] == -1.0f)
        return node.call_function(nn::unary_function<TableFunction::reciprocal>, {node.value(0)}, node.dims(0));
    if (values[0] == 3.0f) {
        graph::Node& square = node.make_function(nn::unary_function<TableFunction::square>, {node.value(0)});
        return node.call_module(make_as<nn::Module, nn::FloatFunctional>(), {node.value(0), square}, node.dims(0),
                                "mul");
    }
    if (values[0] == 1.0f) return node.call_module(make_as<nn::Module, nn::Identity>(), {node.value(0)}, node.dims(0));
    throw Error("the exponent is " + std::to_string(values[0]) + "; supported are 3, 2, 1, 1/2 and -1");
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::operators

#endif  // INTQ_DEFINES(interop_onnx_operators)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_OPERATORS_UNARY_HPP
