// SPDX-License-Identifier: MIT
//
// LOGISTIC, TANH, HARD_SWISH and LEAKY_RELU. For int8 codes they are tables of 256 entries. For int16 codes LOGISTIC
// and TANH are TFLite's curve, and LEAKY_RELU is the sum of its two halves. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_UNARY_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_UNARY_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

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

#    include <cstddef>
#    include <cstdint>
#    include <span>
#    include <string>

#    include "intq/arith/quantized_multiplier.hpp"
#    include "intq/arith/requantize.hpp"
#    include "intq/arith/tflite_curve.hpp"
#    include "intq/arith/tflite_functions.hpp"
#    include "intq/arith/tflite_tables.hpp"
#    include "intq/arith/unary.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/op_params.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/core/status.hpp"
#    include "intq/core/workspace.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/unary.hpp"
#    include "intq/program/program_builder.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"
#    include "intq/tensor/owned_qparams.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

INTQ_INLINE bool is_from_to(const OperatorImport& node, DType dtype) {
    return node.input().dtype == dtype && node.output().dtype == dtype;
}

INTQ_INLINE void require_int8(const OperatorImport& node, const char* why) {
    node.require_inputs(1, 1);
    if (is_from_to(node, DType::int8)) return;
    throw Error("it has codes of " + describe_type(node.input()) + ", expected int8" + why);
}

/// The scale 2^-15 and no zero points, which LiteRT's kernel of int16 codes demands.
INTQ_INLINE void require_symmetric(const OwnedQParams& in, const OwnedQParams& out) {
    if (in.zero_points[0] != 0 || out.zero_points[0] != 0)
        throw Error("int16 codes with zero points " + std::to_string(in.zero_points[0]) + " and " +
                    std::to_string(out.zero_points[0]) + ", expected 0");
    if (out.scale() != 1.0f / 32768.0f)
        throw Error("its output has the scale " + std::to_string(out.scale()) + ", expected 2^-15");
}

/// A look-up instruction with a table in memory of the program.
INTQ_INLINE void push_table(OperatorImport& node, const kernels::LookUpParams& step, const OwnedQParams& out) {
    const std::int32_t x = node.x();
    const Shape shape = node.builder().at(x).shape;
    const program::LayerName name = node.layer();
    node.set(node.builder().push(OpKind::lookup_table, {x},
                                 node.builder().tensor(out.dtype, shape, node.builder().keep(out), name),
                                 node.builder().keep_params(step), name));
}

/// sigmoid or tanh of int16 codes.
INTQ_INLINE void add_curve(OperatorImport& node, bool is_tanh) {
    const OwnedQParams in = node.qparams(node.input()), out = node.output_qparams();
    require_symmetric(in, out);
    kernels::LookUpParams step;
    step.size = static_cast<index_t>(arith::tflite_curve_size);
    const auto curve = arith::make_tflite_curve(is_tanh, in.scale());
    if (!curve)
        throw Error("its input has the scale " + std::to_string(in.scale()) +
                    (in.scale() > 1.0f || in.scale() < 1e-9f
                         ? ", with which LiteRT's kernel leaves 32 bits"
                         : ", which LiteRT may or may not take for a power of two"));
    step.curve = *curve;
    const Workspace memory = node.builder().new_buffer(step.size * size_of(DType::int16));
    throw_if_failed(
        arith::make_tflite_curve_table({reinterpret_cast<std::int16_t*>(memory.data), arith::tflite_curve_size}),
        "its table");
    step.entries = memory.data;
    node.builder().check_use({OpKind::lookup_table, in.dtype, DType::none, out.dtype}, node.layer());
    push_table(node, step, out);
}

INTQ_INLINE arith::CodesOf codes_of(const OwnedQParams& qparams) { return program::ProgramBuilder::codes_of(qparams); }

/// A table of `Code` that make(in, out, entries) writes.
template <class Code, class Make> void add_made_table(OperatorImport& node, std::size_t size, Make make) {
    const OwnedQParams in = node.qparams(node.input()), out = node.output_qparams();
    node.builder().check_use({OpKind::lookup_table, in.dtype, DType::none, out.dtype}, node.layer());
    kernels::LookUpParams step;
    step.size = static_cast<index_t>(size);
    const Workspace memory = node.builder().new_buffer(step.size * size_of(in.dtype));
    const Status status =
        make(codes_of(in), codes_of(out), std::span<Code>(reinterpret_cast<Code*>(memory.data), size));
    if (status.code == StatusCode::value_out_of_range && status.field == Field::output)
        throw Error(
            "a value of its table lies so near the middle of two codes that the last bit of LiteRT's math "
            "library decides between them");
    throw_if_failed(status, "its table");
    step.entries = memory.data;
    push_table(node, step, out);
}

template <class Make> void add_int8_table(OperatorImport& node, Make make) {
    add_made_table<std::int8_t>(node, arith::int8_table_size, make);
}

INTQ_INLINE void tabled(OperatorImport& node, TableFunction function) {
    node.require_inputs(1, 1);
    if (is_from_to(node, DType::int16)) return add_curve(node, function == TableFunction::tanh);
    require_int8(node, " or int16 on both sides");
    const OwnedQParams out = node.output_qparams();
    const arith::FixedOutput* const fixed = arith::find_fixed_output(
        node.target().fixed_outputs, {OpKind::lookup_table, DType::int8, DType::none, DType::int8, {}, 1, function});
    if (fixed != nullptr && function == TableFunction::sigmoid && fixed->scale != out.scale())
        throw Error("its output has the scale " + std::to_string(out.scale()) + ", expected " +
                    std::to_string(fixed->scale));
    add_int8_table(node, [&](const auto& from, const auto& to, const auto& entries) {
        return arith::make_tflite_int8_table(function, from, to, entries);
    });
}

INTQ_INLINE void logistic(OperatorImport& node) { tabled(node, TableFunction::sigmoid); }
INTQ_INLINE void tanh(OperatorImport& node) { tabled(node, TableFunction::tanh); }

/// A table of a function of one code.
template <class Function> void add_table(OperatorImport& node, Function code_of) {
    kernels::LookUpParams step;
    step.size = static_cast<index_t>(arith::int8_table_size);
    const Workspace memory = node.builder().new_buffer(step.size);
    auto* const entries = reinterpret_cast<std::int8_t*>(memory.data);
    for (std::int32_t code = INT8_MIN; code <= INT8_MAX; ++code)
        entries[code - INT8_MIN] = static_cast<std::int8_t>(code_of(code));
    step.entries = memory.data;
    push_table(node, step, node.output_qparams());
}

/// For int16 codes: from 0 on by one multiplier and below by the other, each clamped at 0, and their sum.
/// The sum of two int16 tensors of one scale is exact under TFLite's rules, since its multipliers are powers of two.
INTQ_INLINE void add_wide_leaky_relu(OperatorImport& node, float alpha) {
    const OwnedQParams in = node.qparams(node.input()), out = node.output_qparams();
    if (in.zero_points[0] != 0 || out.zero_points[0] != 0) throw Error("int16 codes must have the zero point 0");
    const std::int32_t x = node.x();
    if (!(alpha >= 0.0f)) throw Error("int16 codes need a factor of at least 0, given " + std::to_string(alpha));
    const auto half = [&](float ratio, arith::OutputCodes codes, const char* part) {
        const auto multiplier = value_or_throw(arith::quantize_multiplier(static_cast<double>(ratio)), "its scales");
        return quantization::add_requantize(node.builder(), x, out, codes, multiplier, node.layer(part));
    };
    arith::OutputCodes above = node.codes(FusedActivation::none), below = above;
    above.lowest = 0;
    below.highest = 0;
    const std::int32_t positive = half(arith::fdiv(in.scale(), out.scale()), above, "positive");
    const std::int32_t negative = half(arith::fdiv(arith::fmul(in.scale(), alpha), out.scale()), below, "negative");
    node.set(quantization::add_sum(node.builder(), OpKind::add, positive, negative, out,
                                   node.codes(FusedActivation::none), node.layer()));
}

INTQ_INLINE void leaky_relu(OperatorImport& node) {
    node.require_inputs(1, 1);
    const float alpha = node.options().number<float>(fields::LeakyRelu::alpha, 0.0f);
    if (is_from_to(node, DType::int16)) return add_wide_leaky_relu(node, alpha);
    require_int8(node, " or int16 on both sides");
    const auto params = value_or_throw(
        arith::make_leaky_relu(codes_of(node.qparams(node.input())), codes_of(node.output_qparams()), alpha),
        "its scales");
    add_table(node, [&](std::int32_t code) { return arith::leaky_relu_code(params, code); });
}

INTQ_INLINE void hard_swish(OperatorImport& node) {
    require_int8(node, ": LiteRT has it for 8 bits alone");
    const auto params = value_or_throw(
        arith::make_hard_swish(codes_of(node.qparams(node.input())), codes_of(node.output_qparams())), "its scales");
    add_table(node, [&](std::int32_t code) { return arith::hard_swish_code(params, code); });
}

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_UNARY_HPP
