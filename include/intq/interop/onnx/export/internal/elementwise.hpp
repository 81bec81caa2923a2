// SPDX-License-Identifier: MIT
//
// How operators of elements are written: Add, Sub, Mul, MatMul, Relu, Clip, Softmax, LogSoftmax, and the functions of
// the table of nn/float_operators/unary.hpp. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_EXPORT_INTERNAL_ELEMENTWISE_HPP
#define INTQ_INTEROP_ONNX_EXPORT_INTERNAL_ELEMENTWISE_HPP

#include <cstdint>

#include "intq/core/op_params.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {
class NodeExport;
}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

namespace intq::interop::onnx::exports {
inline namespace INTQ_HOSTED_ABI {

/// The operator that the call's row names, of one operand without attributes.
void plain(NodeExport& node);
/// The same for two operands, one of which may be a number.
void binary(NodeExport& node);
void add_relu(NodeExport& node);
void relu6(NodeExport& node);
void clamp(NodeExport& node);
void softmax(NodeExport& node);
void log_softmax(NodeExport& node);
/// A Where, whose condition is a Cast of numbers.
void masked_fill(NodeExport& node);
void causal_fill(NodeExport& node);
/// silu is x times Sigmoid, hardtanh a Clip, rsqrt the Reciprocal of a Sqrt: ONNX has no operator for them.
void unary(NodeExport& node);

/// Which function a call computes, and its parameter.
struct UnaryCall {
    TableFunction function = TableFunction::sigmoid;
    double parameter = 1.0;
};
UnaryCall unary_call(const NodeExport& node);

/// The axis of a softmax, counted from the front.
///
/// @throws Error for one over several axes
std::int64_t softmax_axis(const NodeExport& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::exports

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_export)

#    include <cstddef>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/arith/unary.hpp"
#    include "intq/interop/onnx/export/internal/node_export.hpp"
#    include "intq/nn/float_operators/unary.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/softmax.hpp"
#    include "intq/nn/layers/unary.hpp"
#    include "intq/nn/model/call.hpp"

namespace intq::interop::onnx::exports {
inline namespace INTQ_HOSTED_ABI {

/// An operand: a tensor, or a number as an initializer.
INTQ_INLINE std::string operand(NodeExport& node, std::size_t i) {
    if (node.is_value(i)) return node.value(i);
    return node.number(i == 0 ? "left" : "right", static_cast<float>(node.argument(i).constant.number()));
}

INTQ_INLINE void plain(NodeExport& node) { node.set_result(node.add(node.op_type(), {node.value()})); }

INTQ_INLINE std::string write_binary(NodeExport& node) {
    std::string left = operand(node, 0), right = operand(node, 1);
    return node.add(node.op_type(), {std::move(left), std::move(right)});
}

INTQ_INLINE void binary(NodeExport& node) { node.set_result(write_binary(node)); }

INTQ_INLINE void add_relu(NodeExport& node) {
    const std::string sum = write_binary(node);
    node.set_result(node.add_part("relu", "Relu", {sum}));
}

INTQ_INLINE std::string write_clip(NodeExport& node, std::optional<float> low, std::optional<float> high) {
    std::vector<std::string> inputs{node.value()};
    if (low || high) inputs.push_back(low ? node.number("min", *low) : std::string());
    if (high) inputs.push_back(node.number("max", *high));
    return node.add("Clip", std::move(inputs));
}

INTQ_INLINE void relu6(NodeExport& node) { node.set_result(write_clip(node, 0.0f, 6.0f)); }

INTQ_INLINE void clamp(NodeExport& node) {
    const std::vector<nn::Value> values = node.constants();
    const auto bound = [&](std::size_t i) -> std::optional<float> {
        const auto number = nn::Arguments(values).optional_number(i);
        return number ? std::optional(static_cast<float>(*number)) : std::nullopt;
    };
    node.set_result(write_clip(node, bound(1), bound(2)));
}

INTQ_INLINE void masked_fill(NodeExport& node) {
    constexpr std::int64_t bool_code = 9;
    const auto* module = node.module_if<nn::MaskedFill>();
    const std::string mask = module != nullptr ? node.parameter("mask", module->mask()) : node.value(1);
    const double value = module != nullptr ? module->value() : node.argument(2).constant.number();
    const std::string condition = node.add_part("condition", "Cast", {mask}, {integer_attribute("to", bool_code)});
    const std::string fill = node.number("value", static_cast<float>(value));
    node.set_result(node.add(node.op_type(), {condition, fill, node.value()}));
}

INTQ_INLINE void causal_fill(NodeExport& node) {
    node.need(12, "LessOrEqual");
    const Shape &x = node.shape(), &position = node.shape(1);
    std::vector<std::int64_t> dims(static_cast<std::size_t>(x.rank), 1), columns;
    if (position.rank == 2) dims[0] = 0;  // copied
    dims[dims.size() - 2] = position[position.rank - 1];
    for (index_t column = 0; column < x[x.rank - 1]; ++column) columns.push_back(column);
    const std::string rows = node.add_part("rows", "Reshape", {node.value(1), node.integers("behind", dims)});
    const std::string seen = node.add_part("seen", "LessOrEqual", {node.integers("columns", columns), rows});
    const std::string fill = node.number("value", static_cast<float>(node.argument(2).constant.number()));
    node.set_result(node.add(node.op_type(), {seen, node.value(), fill}));
}

INTQ_INLINE std::int64_t softmax_axis(const NodeExport& node) {
    const auto* module = node.module_if<nn::Softmax>();
    const std::int64_t axis = node.axis(module != nullptr ? module->axis() : node.argument(1).constant.integer());
    if (module != nullptr && module->is_from_axis() && axis + 1 != node.shape().rank)
        throw node.error("a softmax over several axes is an operator of opset 12 and below, and is not written");
    return axis;
}

INTQ_INLINE void softmax(NodeExport& node) {
    const std::int64_t axis = softmax_axis(node);
    if (axis + 1 != node.shape().rank) node.need(13, "a softmax along an axis that is not the last");
    // Up to opset 12 all axes from this one on were one; the last axis means the same in every opset.
    node.set_result(node.add("Softmax", {node.value()}, {integer_attribute("axis", axis)}));
}

INTQ_INLINE void log_softmax(NodeExport& node) {
    const auto* module = node.module_if<nn::LogSoftmax>();
    const std::int64_t axis = node.axis(module != nullptr ? module->axis() : node.argument(1).constant.integer());
    if (axis + 1 != node.shape().rank) node.need(13, "a log-softmax along an axis that is not the last");
    node.set_result(node.add("LogSoftmax", {node.value()}, {integer_attribute("axis", axis)}));
}

INTQ_INLINE UnaryCall unary_call(const NodeExport& node) {
    if (const auto* module = node.module_if<nn::Unary>()) return {module->function(), module->parameter()};
    const std::vector<nn::Value> values = node.constants();
    const nn::Arguments arguments(values);
    const std::string& name = node.call().op;
    if (name == "gelu") return {nn::gelu_of(arguments.has(1) ? arguments[1].text() : "none"), 1.0};
    for (const auto& row : nn::float_operators::unary_rows)
        if (row.name == name) return {row.function, arguments.optional_number(1).value_or(row.default_parameter)};
    throw node.error("no table of functions has " + name);
}

INTQ_INLINE std::string write_hard_sigmoid(NodeExport& node, double parameter) {
    // The import takes the float of 1/6 for the exact slope.
    const float slope = parameter == 1.0 ? 1.0f / 6 : static_cast<float>(parameter / 6.0);
    return node.add("HardSigmoid", {node.value()}, {number_attribute("alpha", slope), number_attribute("beta", 0.5f)});
}

INTQ_INLINE std::string write_gelu(NodeExport& node, const char* approximate) {
    node.need(20, "Gelu");
    return node.add("Gelu", {node.value()}, {text_attribute("approximate", approximate)});
}

INTQ_INLINE std::string write_softplus(NodeExport& node, float beta) {
    if (beta == 1.0f) return node.add("Softplus", {node.value()});
    const std::string factor = node.number("beta", beta);
    const std::string scaled = node.add_part("scaled", "Mul", {node.value(), factor});
    return node.add("Div", {node.add_part("softplus", "Softplus", {scaled}), factor});
}

INTQ_INLINE std::string write_unary(NodeExport& node) {
    const UnaryCall call = unary_call(node);
    switch (call.function) {
        case TableFunction::sigmoid:
        case TableFunction::tanh:
        case TableFunction::exp:
        case TableFunction::erf:
        case TableFunction::log:
        case TableFunction::sqrt:
        case TableFunction::reciprocal:
        case TableFunction::softsign:
        case TableFunction::abs:
        case TableFunction::neg:
            return node.add(node.op_type(), {node.value()});
        case TableFunction::mish:
            node.need(18, "Mish");
            return node.add(node.op_type(), {node.value()});
        case TableFunction::softplus:
            return write_softplus(node, static_cast<float>(call.parameter));
        case TableFunction::selu:
            return node.add(node.op_type(), {node.value()},
                            {number_attribute("alpha", static_cast<float>(arith::selu_alpha)),
                             number_attribute("gamma", static_cast<float>(arith::selu_scale))});
        case TableFunction::tanhshrink: {
            const std::string less = node.add_part("tanh", "Tanh", {node.value()});
            return node.add("Sub", {node.value(), less});
        }
        case TableFunction::square:
            return node.add("Pow", {node.value(), node.number("exponent", 2.0f)});
        case TableFunction::celu:
            node.need(12, "Celu");
            [[fallthrough]];
        case TableFunction::leaky_relu:
        case TableFunction::elu:
            return node.add(node.op_type(), {node.value()},
                            {number_attribute("alpha", static_cast<float>(call.parameter))});
        case TableFunction::hard_sigmoid:
            return write_hard_sigmoid(node, call.parameter);
        case TableFunction::hard_swish:
            node.need(14, "HardSwish");
            return node.add(node.op_type(), {node.value()});
        case TableFunction::gelu_erf:
            return write_gelu(node, "none");
        case TableFunction::gelu_tanh:
            return write_gelu(node, "tanh");
        case TableFunction::hard_tanh:
            return write_clip(node, -1.0f, 1.0f);
        case TableFunction::silu: {
            const std::string factor = node.add_part("sigmoid", "Sigmoid", {node.value()});
            return node.add("Mul", {node.value(), factor});
        }
        case TableFunction::rsqrt: {
            const std::string root = node.add_part("sqrt", "Sqrt", {node.value()});
            return node.add("Reciprocal", {root});
        }
        default:
            throw node.error("its function has no ONNX operator");
    }
}

INTQ_INLINE void unary(NodeExport& node) { node.set_result(write_unary(node)); }

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx::exports

#endif  // INTQ_DEFINES(interop_onnx_export)
#endif  // INTQ_INTEROP_ONNX_EXPORT_INTERNAL_ELEMENTWISE_HPP
