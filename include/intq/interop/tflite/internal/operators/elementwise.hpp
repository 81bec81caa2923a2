// SPDX-License-Identifier: MIT
//
// ADD, SUB, MUL and SQUARED_DIFFERENCE, one operand of which may be a constant; RELU and its like. Layer: interop.
#ifndef INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_ELEMENTWISE_HPP
#define INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_ELEMENTWISE_HPP

#include "intq/interop/tflite/internal/nodes/operator_import.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

void add(OperatorImport& node);
void sub(OperatorImport& node);
void mul(OperatorImport& node);
void squared_difference(OperatorImport& node);
void relu(OperatorImport& node);
void relu6(OperatorImport& node);
void relu_n1_to_1(OperatorImport& node);

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_tflite_operators)

#    include <algorithm>
#    include <optional>
#    include <string>

#    include "intq/arith/elementwise.hpp"
#    include "intq/arith/ieee.hpp"
#    include "intq/arith/make_requantize.hpp"
#    include "intq/arith/requantize.hpp"
#    include "intq/arith/tflite_functions.hpp"
#    include "intq/core/dtype.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/interop/tflite/internal/operators/constant_operand.hpp"
#    include "intq/interop/tflite/internal/read/fields.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/streaming/elementwise_call.hpp"
#    include "intq/program/program_builder.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"
#    include "intq/tensor/owned_qparams.hpp"

namespace intq::interop::tflite {
inline namespace INTQ_HOSTED_ABI {

namespace operators {

/// Both operands with the same rank: TFLite puts extents of 1 before the shorter shape.
INTQ_INLINE std::pair<std::int32_t, std::int32_t> operands(OperatorImport& node) {
    node.require_inputs(2, 2);
    if (node.is_constant(0) && node.is_constant(1)) throw Error("both operands are constants");
    const std::size_t rank = node.output_dims().size();
    const auto operand = [&](std::size_t i) {
        if (node.is_constant(i)) return constant_operand(node, i, rank, node.input(i).dtype);
        Dims dims = node.input(i).dims;
        if (dims.size() < rank) {
            const bool is_batched = !dims.empty() && dims.size() + 1 < rank && dims[0] != 1;
            if (is_batched && node.output_dims()[0] != 1)
                throw Error("the operand " + in_quotes(node.input(i).name) + " of shape " + describe_dims(dims) +
                            " does not keep axis 0, the samples, as a program does");
            dims.insert(dims.begin(), rank - dims.size(), 1);
        } else {
            dims = node.dims(i);
        }
        if (dims[0] != node.output_dims()[0])
            throw Error("the operand " + in_quotes(node.input(i).name) + " of shape " + describe_dims(dims) +
                        " is repeated for each sample, which a program does not do");
        return node.shaped(i, dims);
    };
    const std::int32_t x = operand(0);
    return {x, operand(1)};
}

INTQ_INLINE void sum(OperatorImport& node, OpKind op, int activation_field, int powers_field) {
    if (node.output().dtype == DType::int16 && node.options().flag(powers_field, true))
        throw Error(std::string("an int16 ") + name_of(op) +
                    " with scales that are powers of two (pot_scale_int16) has other arithmetic than a program; "
                    "convert the model without it");
    const auto [x, y] = operands(node);
    node.set(quantization::add_sum(node.builder(), op, x, y, node.output_qparams(),
                                   node.codes(node.activation(activation_field)), node.layer()));
}

INTQ_INLINE void add(OperatorImport& node) {
    sum(node, OpKind::add, fields::Add::activation, fields::Add::powers_of_two);
}
INTQ_INLINE void sub(OperatorImport& node) {
    sum(node, OpKind::sub, fields::Sub::activation, fields::Sub::powers_of_two);
}

INTQ_INLINE void mul(OperatorImport& node) {
    const auto [x, y] = operands(node);
    // LiteRT multiplies and divides the scales in float32.
    const float s_x = node.builder().at(x).qparams.scale(), s_y = node.builder().at(y).qparams.scale();
    const float real = arith::fdiv(arith::fmul(s_x, s_y), node.output_qparams().scale());
    const auto multiplier = value_or_throw(arith::quantize_multiplier(static_cast<double>(real)), "its scales");
    node.set(quantization::add_mul(node.builder(), x, y, node.output_qparams(),
                                   node.codes(node.activation(fields::Mul::activation)), multiplier, node.layer()));
}

/// int8 codes less their zero point times 2^7 in 16 bits, scaled by the factor of a squared difference.
/// @param unit  the scale of the result
INTQ_INLINE std::int32_t widened(OperatorImport& node, std::int32_t x, const arith::QuantizedMultiplier& factor,
                                 float unit, const std::string& part) {
    constexpr int shift = 7;
    const auto requantized = [&](std::int32_t from, float scale, const arith::QuantizedMultiplier& by,
                                 const std::string& name) {
        const OwnedQParams grid = OwnedQParams::per_tensor(scale, DType::int16);
        return quantization::add_requantize(node.builder(), from, grid,
                                            program::ProgramBuilder::output_codes(grid.view()), by,
                                            node.layer(name.c_str()));
    };
    constexpr arith::QuantizedMultiplier half{1 << 30, 0};
    if (factor == half) return requantized(x, unit, {half.multiplier, shift}, part);  // exact
    const float fine = arith::fdiv(node.builder().at(x).qparams.scale(), 128.0f);
    const std::int32_t wide = requantized(x, fine, {half.multiplier, shift + 1}, part + "_wide");
    return requantized(wide, unit, factor, part);
}

/// The difference of int16 codes of one scale is exact, and so are the int8 codes of the clamped product.
INTQ_INLINE void squared_difference(OperatorImport& node) {
    const auto [x, y] = operands(node);
    const OwnedQParams out = node.output_qparams();
    if (node.builder().at(x).dtype != DType::int8 || node.builder().at(y).dtype != DType::int8 ||
        out.dtype != DType::int8)
        throw Error("it has other codes than int8: LiteRT has it for int8 alone");
    const float s_x = node.builder().at(x).qparams.scale(), s_y = node.builder().at(y).qparams.scale();
    const auto factors = value_or_throw(arith::make_squared_difference(s_x, s_y, out.scale()), "its scales");
    const float unit = arith::fdiv((std::max)(s_x, s_y), 64.0f);
    const std::int32_t difference = quantization::add_sum(
        node.builder(), OpKind::sub, widened(node, x, factors.x, unit, "x"), widened(node, y, factors.y, unit, "y"),
        OwnedQParams::per_tensor(unit, DType::int16), Activation::none, node.layer("difference"));
    OwnedQParams wide = OwnedQParams::per_tensor(out.scale(), DType::int16);
    wide.zero_points = out.zero_points;
    const arith::OutputCodes codes = node.codes(FusedActivation::none);
    const std::int32_t square = quantization::add_mul(node.builder(), difference, difference, wide, codes,
                                                      factors.square, node.layer("square"));
    node.set(quantization::add_requantize(node.builder(), square, out, codes, arith::QuantizedMultiplier{1 << 30, 1},
                                          node.layer()));
}

// An output of another scale is requantized by the quotient of the scales in float32, and clamped.
INTQ_INLINE void clamp_codes(OperatorImport& node, FusedActivation activation) {
    node.require_inputs(1, 1);
    const OwnedQParams in = node.qparams(node.input()), out = node.output_qparams();
    const arith::OutputCodes codes = node.codes(activation);
    if (in == out) return node.set(quantization::add_clamp(node.builder(), node.x(), codes, node.layer()));
    const auto multiplier = value_or_throw(
        arith::quantize_multiplier(static_cast<double>(arith::fdiv(in.scale(), out.scale()))), "its scales");
    node.set(quantization::add_requantize(node.builder(), node.x(), out, codes, multiplier, node.layer()));
}

INTQ_INLINE void relu(OperatorImport& node) { clamp_codes(node, FusedActivation::relu); }
INTQ_INLINE void relu6(OperatorImport& node) { clamp_codes(node, FusedActivation::relu6); }
INTQ_INLINE void relu_n1_to_1(OperatorImport& node) { clamp_codes(node, FusedActivation::relu_n1_to_1); }

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::tflite

#endif  // INTQ_DEFINES(interop_tflite_operators)
#endif  // INTQ_INTEROP_TFLITE_INTERNAL_OPERATORS_ELEMENTWISE_HPP
