// SPDX-License-Identifier: MIT
//
// From the grid of an operator's input to its output's, between two real numbers. Layer: quantization
// (docs/arithmetic.md section 4, exact on codes).
#ifndef INTQ_QUANTIZATION_OPERATORS_INTERNAL_ON_GRID_HPP
#define INTQ_QUANTIZATION_OPERATORS_INTERNAL_ON_GRID_HPP

#include <cstdint>
#include <functional>
#include <optional>

#include "intq/arith/target.hpp"
#include "intq/core/dtype.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/qparams.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

RealBounds bounds_of(Activation activation);

/// Whether a step between two types has the codes QuantizeLinear(f(DequantizeLinear(q))) by a table.
bool has_onnx_table(const arith::PolicyRecord& target, DType in, DType out);

/// Those codes, for a function float -> float.
///
///     entries[q + 128] = QuantizeLinear(f(DequantizeLinear(q)))
///
/// @pre has_onnx_table()
std::int32_t add_onnx_table(program::ProgramBuilder& builder, std::int32_t x, const std::function<float(float)>& f,
                            const OwnedQParams& output, const program::LayerName& layer);

/// Codes kept between two codes; the scale stays.
std::int32_t add_clamp(program::ProgramBuilder& builder, std::int32_t x, const arith::OutputCodes& codes,
                       const program::LayerName& layer);

/// The same codes on another grid, whose zero point is the input's.
std::int32_t add_scaled(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& output,
                        const program::LayerName& layer);

/// The values of codes as codes of another grid, between bounds.
///
///     fp32, int8 -> int8   a table of QuantizeLinear(min(max(DequantizeLinear(q), low), high))
///     otherwise            requantize, whose codes are kept between the codes of the bounds: code_of_bound()
///
/// Codes already on the grid are only clamped, and are unchanged without bounds.
std::int32_t add_on_grid(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& output,
                         const RealBounds& bounds, const program::LayerName& layer);

/// The values of int8 codes as int16 codes of the scale s / 128 without zero point, whose means can be rounded to
/// another grid in one step; the same codes if the target does not take int16 codes of `op`.
std::int32_t add_fine_codes(program::ProgramBuilder& builder, std::int32_t x, OpKind op, const OwnedQParams& output,
                            const program::LayerName& layer);

/// The code of a bound: QuantizeLinear's on fp32 for int8, otherwise zp + rhu(bound / s) in double.
std::int32_t code_of_bound(const arith::PolicyRecord& target, double bound, const QParams& grid, DType dtype);

/// The code of an operator's own value: QuantizeLinear's on fp32 for int8, otherwise by the target's rule.
std::int32_t code_of_value(const arith::PolicyRecord& target, double value, const QParams& grid, DType dtype);

/// The codes of a grid between bounds. A low bound above the high one yields to it.
arith::OutputCodes codes_between(const arith::PolicyRecord& target, const RealBounds& bounds, const OwnedQParams& grid);

/// Whether the first input of a step and its output have one grid.
bool keeps_grid(const QuantizedGraph& quantized, const QuantizedNode& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <cstddef>
#    include <span>

#    include "intq/arith/constraints.hpp"
#    include "intq/arith/ieee.hpp"
#    include "intq/arith/quantize.hpp"
#    include "intq/arith/requantize.hpp"
#    include "intq/arith/rounding.hpp"
#    include "intq/arith/unary.hpp"
#    include "intq/core/workspace.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/unary.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::int32_t onnx_code(double value, const QParams& grid) {
    return arith::quantize(static_cast<float>(value), {grid.scale(), grid.zero_point()},
                           {grid.quant_min(), grid.quant_max()}, arith::onnx_quantize_rule);
}

INTQ_INLINE bool is_same_grid(const kernels::ArenaTensor& in, const OwnedQParams& output) {
    const QParams &from = in.qparams, to = output.view();
    return in.dtype == output.dtype && from.scale() == to.scale() && from.zero_point() == to.zero_point() &&
           from.quant_min() == to.quant_min() && from.quant_max() == to.quant_max();
}

}  // namespace detail

INTQ_INLINE RealBounds bounds_of(Activation activation) {
    RealBounds bounds;
    if (activation != Activation::none) bounds.low = 0.0;
    if (activation == Activation::relu6) bounds.high = 6.0;
    return bounds;
}

INTQ_INLINE bool has_onnx_table(const arith::PolicyRecord& target, DType in, DType out) {
    return target.computes_as_onnx() && in == DType::int8 && out == DType::int8;
}

INTQ_INLINE std::int32_t add_onnx_table(program::ProgramBuilder& builder, std::int32_t x,
                                        const std::function<float(float)>& f, const OwnedQParams& output,
                                        const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    builder.check_use({OpKind::lookup_table, in.dtype, DType::none, output.dtype}, layer);
    kernels::LookUpParams step;
    step.size = static_cast<index_t>(arith::int8_table_size);
    const Workspace memory = builder.new_buffer(step.size);
    step.entries = memory.data;
    const std::span<std::int8_t> entries(reinterpret_cast<std::int8_t*>(memory.data), arith::int8_table_size);
    throw_if_failed(arith::make_int8_table_in_float32(builder.codes_of(x), program::ProgramBuilder::codes_of(output),
                                                      entries, f, {output.quant_min, output.quant_max}),
                    layer.name);
    return builder.push(OpKind::lookup_table, {x},
                        builder.tensor(output.dtype, in.shape, builder.keep(output), layer, in.layout),
                        builder.keep_params(step), layer);
}

INTQ_INLINE std::int32_t add_clamp(program::ProgramBuilder& builder, std::int32_t x, const arith::OutputCodes& codes,
                                   const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    builder.check_use({OpKind::relu, in.dtype, DType::none, in.dtype}, layer);
    return builder.push(OpKind::relu, {x}, builder.tensor(in.dtype, in.shape, in.qparams, layer, in.layout),
                        builder.keep_params(codes), layer);
}

INTQ_INLINE std::int32_t add_scaled(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& output,
                                    const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    builder.check_use({OpKind::relu, in.dtype, DType::none, in.dtype}, layer);
    // A clamp that cuts nothing: it may write where it reads.
    const QParams out = builder.keep(output);
    return builder.push(OpKind::relu, {x}, builder.tensor(in.dtype, in.shape, out, layer, in.layout),
                        builder.keep_params(program::ProgramBuilder::output_codes(out)), layer);
}

INTQ_INLINE std::int32_t add_on_grid(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& output,
                                     const RealBounds& bounds, const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    const arith::PolicyRecord& target = builder.target();
    if (detail::is_same_grid(in, output))
        return bounds.any() ? add_clamp(builder, x, codes_between(target, bounds, output), layer) : x;
    if (!has_onnx_table(target, in.dtype, output.dtype))
        return add_requantize(builder, x, output, codes_between(target, bounds, output), std::nullopt, layer);
    const auto clamped = [&](float value) {
        if (bounds.low) value = (std::max)(value, static_cast<float>(*bounds.low));
        if (bounds.high) value = (std::min)(value, static_cast<float>(*bounds.high));
        return value;
    };
    return add_onnx_table(builder, x, clamped, output, layer);
}

INTQ_INLINE std::int32_t add_fine_codes(program::ProgramBuilder& builder, std::int32_t x, OpKind op,
                                        const OwnedQParams& output, const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    const auto takes = [&](OpKind by, DType from, DType to) {
        return arith::check_constraints(builder.target().constraints, {by, from, DType::none, to}).ok();
    };
    const bool is_possible = in.dtype == DType::int8 && takes(OpKind::requantize, DType::int8, DType::int16) &&
                             takes(op, DType::int16, DType::int16) &&
                             takes(OpKind::requantize, DType::int16, output.dtype);
    if (!is_possible) return x;
    const OwnedQParams fine = OwnedQParams::per_tensor(arith::fdiv(in.qparams.scale(), 128.0f), DType::int16);
    return add_requantize(builder, x, fine, layer);
}

INTQ_INLINE arith::OutputCodes codes_between(const arith::PolicyRecord& target, const RealBounds& bounds,
                                             const OwnedQParams& grid) {
    const QParams view = grid.view();
    arith::OutputCodes codes = program::ProgramBuilder::output_codes(view);
    const std::int32_t low = bounds.low ? code_of_bound(target, *bounds.low, view, grid.dtype) : codes.lowest;
    const std::int32_t high = bounds.high ? code_of_bound(target, *bounds.high, view, grid.dtype) : codes.highest;
    codes.lowest = (std::min)(low, high);
    codes.highest = high;
    return codes;
}

INTQ_INLINE std::int32_t code_of_bound(const arith::PolicyRecord& target, double bound, const QParams& grid,
                                       DType dtype) {
    if (has_onnx_table(target, dtype, dtype)) return detail::onnx_code(bound, grid);
    const arith::OutputCodes codes = program::ProgramBuilder::output_codes(grid);
    const double steps = std::clamp(bound / static_cast<double>(grid.scale()), -65536.0, 65536.0);
    return std::clamp(grid.zero_point() + static_cast<std::int32_t>(arith::round_half_up(steps)), codes.lowest,
                      codes.highest);
}

INTQ_INLINE std::int32_t code_of_value(const arith::PolicyRecord& target, double value, const QParams& grid,
                                       DType dtype) {
    if (has_onnx_table(target, dtype, dtype)) return detail::onnx_code(value, grid);
    return arith::quantize(static_cast<float>(value), {grid.scale(), grid.zero_point()},
                           {grid.quant_min(), grid.quant_max()}, target.quantize);
}

INTQ_INLINE bool keeps_grid(const QuantizedGraph& quantized, const QuantizedNode& node) {
    return quantized.input(node, 0).qparams == quantized.output(node).qparams;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_INTERNAL_ON_GRID_HPP
