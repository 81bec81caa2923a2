// SPDX-License-Identifier: MIT
//
// quantize, dequantize, requantize: the steps between real values and codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_QUANTIZE_HPP
#define INTQ_QUANTIZATION_OPERATORS_QUANTIZE_HPP

#include <cstdint>
#include <optional>

#include "intq/arith/quantized_multiplier.hpp"
#include "intq/arith/requantize.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

std::int32_t add_quantize(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& qparams,
                          const program::LayerName& layer);

std::int32_t add_dequantize(program::ProgramBuilder& builder, std::int32_t x, const program::LayerName& layer);

std::int32_t add_requantize(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& output,
                            const program::LayerName& layer);

/// The same with given bounds, and a multiplier from outside in place of the scales.
std::int32_t add_requantize(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& output,
                            const arith::OutputCodes& codes,
                            const std::optional<arith::QuantizedMultiplier>& multiplier,
                            const program::LayerName& layer);

/// Real values -> codes.
struct QuantizeStep : Step {
    OpKind kind() const noexcept override { return OpKind::quantize; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;
};

/// Codes -> real values.
struct DequantizeStep : Step {
    OpKind kind() const noexcept override { return OpKind::dequantize; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;
};

/// Codes -> codes of another scale or type.
struct RequantizeStep : Step {
    OpKind kind() const noexcept override { return OpKind::requantize; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include "intq/kernels/streaming/quantize.hpp"
#    include "intq/quantization/operators/lowering.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/reference.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::int32_t add_quantize(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& qparams,
                                      const program::LayerName& layer) {
    const Shape shape = builder.at(x).shape;
    builder.check({OpKind::quantize, builder.at(x).dtype, DType::none, qparams.dtype}, layer);
    const QParams kept = builder.keep(qparams);
    throw_if_failed(kernels::check_quantize_params(kept, qparams.dtype, shape, builder.target().quantize), layer.name);
    return builder.push(OpKind::quantize, {x}, builder.tensor(qparams.dtype, shape, kept, layer), nullptr, layer);
}

INTQ_INLINE std::int32_t add_dequantize(program::ProgramBuilder& builder, std::int32_t x,
                                        const program::LayerName& layer) {
    const Shape shape = builder.at(x).shape;
    builder.check({OpKind::dequantize, builder.at(x).dtype, DType::none, DType::float32}, layer);
    const std::int32_t y = builder.tensor(DType::float32, shape, {}, layer, builder.at(x).layout);
    return builder.push(OpKind::dequantize, {x}, y, nullptr, layer);
}

INTQ_INLINE std::int32_t add_requantize(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& output,
                                        const program::LayerName& layer) {
    return add_requantize(builder, x, output, program::ProgramBuilder::output_codes(output.view()), std::nullopt,
                          layer);
}

INTQ_INLINE std::int32_t add_requantize(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& output,
                                        const arith::OutputCodes& codes,
                                        const std::optional<arith::QuantizedMultiplier>& multiplier,
                                        const program::LayerName& layer) {
    const Shape shape = builder.at(x).shape;
    builder.check({OpKind::requantize, builder.at(x).dtype, DType::none, output.dtype}, layer);
    const QParams out = builder.keep(output);
    const auto* const params = builder.keep_params(program::made_or_throw(
        kernels::make_requantize(builder.target(), builder.codes_of(x), program::ProgramBuilder::codes_of(output),
                                 codes, multiplier ? &*multiplier : nullptr),
        out, layer));
    return builder.push(OpKind::requantize, {x}, builder.tensor(output.dtype, shape, out, layer), params, layer);
}

INTQ_INLINE void QuantizeStep::lower(Lowering& l, const QuantizedNode& node) const {
    l.set(node, add_quantize(l.builder(), l.input(node), l.qparams(node), Lowering::layer(node)));
}

INTQ_INLINE void QuantizeStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    reference.quantize_output(node, reference.real_input(node, 0));
}

INTQ_INLINE void DequantizeStep::lower(Lowering& l, const QuantizedNode& node) const {
    const program::LayerName layer = Lowering::layer(node);
    if (l.is_by_rows(node.inputs[0]))
        l.set_rows(node, add_dequantize(l.builder(), l.rows(node.inputs[0], layer), layer));
    else
        l.set(node, add_dequantize(l.builder(), l.input(node), layer));
}

INTQ_INLINE void DequantizeStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    reference.set_real(node, reference.real_input(node, 0));
}

INTQ_INLINE void RequantizeStep::lower(Lowering& l, const QuantizedNode& node) const {
    l.set(node, add_requantize(l.builder(), l.input(node), l.qparams(node), Lowering::layer(node)));
}

INTQ_INLINE void RequantizeStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    reference.quantize_output(node, reference.real_input(node, 0));
}

namespace operators {

inline constexpr QuantizedOperator placeholder{"placeholder", Role::boundary};
inline constexpr QuantizedOperator get_attr{"get_attr", Role::boundary};
inline constexpr QuantizedOperator output{"output", Role::output};
inline constexpr QuantizedOperator quant_stub{"quant_stub", Role::quant_stub, OpKind::quantize};
inline constexpr QuantizedOperator dequant_stub{"dequant_stub", Role::dequant_stub, OpKind::dequantize};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_QUANTIZE_HPP
