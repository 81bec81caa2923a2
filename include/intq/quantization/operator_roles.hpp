// SPDX-License-Identifier: MIT
//
// What each operator asks of the quantizers around it: one row an operator. Layer: quantization (WORKFLOW section 4).
#ifndef INTQ_QUANTIZATION_OPERATOR_ROLES_HPP
#define INTQ_QUANTIZATION_OPERATOR_ROLES_HPP

#include "intq/core/op_kind.hpp"
#include "intq/graph/operators.hpp"
#include "intq/nn/layers/conv.hpp"
#include "intq/nn/layers/linear.hpp"

namespace intq::inline INTQ_ABI::quantization {

enum class Role : std::uint8_t {
    boundary,      // placeholder, get_attr: real values
    output,        // of the model
    quant_stub,    // real values -> codes
    dequant_stub,  // codes -> real values
    weighted,      // a weight quantizer, and a quantizer on its output unless that is the accumulator
    own_output,    // a quantizer on its output
    cat,           // own_output in horizon mode; in torch mode the quantizer of its first input serves all
    shares_input,  // the scale of its input stays
    float_only     // no integer form
};

struct OperatorRole {
    Role role = Role::float_only;
    OpKind kind = OpKind::none;  // for the constraint table; none where there is nothing to ask
};

struct OperatorRoleRow {
    std::string_view name;  // of graph/operators.hpp
    OperatorRole role;
};

inline constexpr OperatorRoleRow operator_role_rows[] = {
    {"placeholder", {Role::boundary, OpKind::none}},
    {"get_attr", {Role::boundary, OpKind::none}},
    {"output", {Role::output, OpKind::none}},
    {"quant_stub", {Role::quant_stub, OpKind::quantize}},
    {"dequant_stub", {Role::dequant_stub, OpKind::dequantize}},
    {"add", {Role::own_output, OpKind::add}},
    {"avg_pool2d", {Role::own_output, OpKind::avg_pool2d}},
    {"adaptive_avg_pool2d", {Role::own_output, OpKind::avg_pool2d}},
    {"cat", {Role::cat, OpKind::cat}},
    {"relu", {Role::shares_input, OpKind::relu}},
    {"relu6", {Role::shares_input, OpKind::relu}},
    {"max_pool2d", {Role::shares_input, OpKind::max_pool2d}},
    {"flatten", {Role::shares_input, OpKind::flatten}},
    {"identity", {Role::shares_input, OpKind::none}},
    {"dropout", {Role::shares_input, OpKind::none}},
};

/// The role of a node. Layers with weights are known by their class, so that fused ones need no rows.
inline OperatorRole role_of(const graph::Node& node, nn::Module& root) {
    const nn::Module* module = graph::module_of(node, root);
    if (dynamic_cast<const nn::Conv2d*>(module) != nullptr) return {Role::weighted, OpKind::conv2d};
    if (dynamic_cast<const nn::Linear*>(module) != nullptr) return {Role::weighted, OpKind::linear};
    const std::string name = graph::operator_of(node, root);
    for (const OperatorRoleRow& row : operator_role_rows)
        if (row.name == name) return row.role;
    return {};
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_OPERATOR_ROLES_HPP
