// SPDX-License-Identifier: MIT
//
// LOGISTIC, TANH, HARD_SWISH and LEAKY_RELU of int8 codes, which are tables of 256 entries. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_OPERATORS_UNARY_HPP
#define INTQ_INTEROP_TFLITE_OPERATORS_UNARY_HPP

#include "intq/interop/tflite/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void logistic(OperatorImport& node);
void tanh(OperatorImport& node);
void hard_swish(OperatorImport& node);
void leaky_relu(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <cstdint>
#    include <string>

#    include "intq/arith/tflite_functions.hpp"
#    include "intq/arith/unary.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/core/workspace.hpp"
#    include "intq/interop/tflite/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/unary.hpp"
#    include "intq/program/program_builder.hpp"
#    include "intq/quantization/operators/unary.hpp"
#    include "intq/tensor/owned_qparams.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

INTQ_INLINE void require_int8(const OperatorImport& node, const char* why) {
    node.require_inputs(1, 1);
    if (node.input().dtype == DType::int8 && node.output().dtype == DType::int8) return;
    throw Error("it has codes of " + describe_type(node.input()) + ", expected int8: " + why);
}

INTQ_INLINE void tabled(OperatorImport& node, TableFunction function) {
    require_int8(node, "the table of LiteRT's int16 form has other knots than a program's");
    const OwnedQParams out = node.output_qparams();
    const arith::FixedOutput* const fixed = arith::find_fixed_output(
        node.target().fixed_outputs, {OpKind::lookup_table, DType::int8, DType::none, DType::int8, {}, 1, function});
    if (fixed != nullptr && function == TableFunction::sigmoid && fixed->scale != out.scale())
        throw Error("its output has the scale " + std::to_string(out.scale()) + ", expected " +
                    std::to_string(fixed->scale));
    node.set(quantization::add_look_up(node.builder(), node.x(), {function, 1.0}, out, node.layer()));
}

INTQ_INLINE void logistic(OperatorImport& node) { tabled(node, TableFunction::sigmoid); }
INTQ_INLINE void tanh(OperatorImport& node) { tabled(node, TableFunction::tanh); }

INTQ_INLINE arith::CodesOf codes_of(const OwnedQParams& qparams) { return program::ProgramBuilder::codes_of(qparams); }

/// A table of a function of one code.
template <class Function> void add_table(OperatorImport& node, Function code_of) {
    const OwnedQParams out = node.output_qparams();
    const std::int32_t x = node.x();
    const Shape shape = node.builder().at(x).shape;
    kernels::LookUpParams step;
    step.size = static_cast<index_t>(arith::int8_table_size);
    const Workspace memory = node.builder().new_buffer(step.size);
    auto* const entries = reinterpret_cast<std::int8_t*>(memory.data);
    for (std::int32_t code = INT8_MIN; code <= INT8_MAX; ++code)
        entries[code - INT8_MIN] = static_cast<std::int8_t>(code_of(code));
    step.entries = memory.data;
    const program::LayerName name = node.layer();
    node.set(node.builder().push(OpKind::lookup_table, {x},
                                 node.builder().tensor(DType::int8, shape, node.builder().keep(out), name),
                                 node.builder().keep_params(step), name));
}

INTQ_INLINE void leaky_relu(OperatorImport& node) {
    require_int8(node, "a program has no int16 table that holds its bend");
    const float alpha = node.options().number<float>(fields::LeakyRelu::alpha, 0.0f);
    const auto params = value_or_throw(
        arith::make_leaky_relu(codes_of(node.qparams(node.input())), codes_of(node.output_qparams()), alpha),
        "its scales");
    add_table(node, [&](std::int32_t code) { return arith::leaky_relu_code(params, code); });
}

INTQ_INLINE void hard_swish(OperatorImport& node) {
    require_int8(node, "LiteRT has it for 8 bits alone");
    const auto params = value_or_throw(
        arith::make_hard_swish(codes_of(node.qparams(node.input())), codes_of(node.output_qparams())), "its scales");
    add_table(node, [&](std::int32_t code) { return arith::hard_swish_code(params, code); });
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_OPERATORS_UNARY_HPP
