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
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

std::int32_t add_quantize(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& qparams,
                          const program::LayerName& layer);

/// @throws Error for a constant that is not the same for each sample: of a first extent other than 1
void check_constant(const Shape& shape);

/// Codes that are the same for each image.
///
/// @param codes  int8 or int16, of one image: (1, ...)
/// @throws Error as check_constant()
std::int32_t add_constant(program::ProgramBuilder& builder, const Tensor& codes, const OwnedQParams& qparams,
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

#    include <cstring>
#    include <string>

#    include "intq/core/layout.hpp"
#    include "intq/core/workspace.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/constant.hpp"
#    include "intq/kernels/streaming/quantize.hpp"
#    include "intq/quantization/operators/float_step.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/internal/on_grid.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/reference.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::int32_t add_quantize(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& qparams,
                                      const program::LayerName& layer) {
    const Shape shape = builder.at(x).shape;
    builder.check_use({OpKind::quantize, builder.at(x).dtype, DType::none, qparams.dtype}, layer);
    const QParams kept = builder.keep(qparams);
    throw_if_failed(kernels::check_quantize_params(kept, qparams.dtype, shape, builder.target().quantize), layer.name);
    return builder.push(OpKind::quantize, {x}, builder.tensor(qparams.dtype, shape, kept, layer), nullptr, layer);
}

INTQ_INLINE void check_constant(const Shape& shape) {
    if (shape.rank < 1 || shape[0] != 1)
        throw Error("a constant operand is the same for each sample: expected shape (1, ...), given " +
                    to_string(shape));
}

INTQ_INLINE std::int32_t add_constant(program::ProgramBuilder& builder, const Tensor& codes,
                                      const OwnedQParams& qparams, const program::LayerName& layer) {
    try {
        check_constant(codes.shape());
    } catch (const Error& error) {
        throw Error(layer.name, error.what());
    }
    Shape shape = codes.shape();
    shape[0] = builder.max_batch();
    const Tensor ordered = codes.to_layout(Layout::channels_last);
    const Workspace kept = builder.new_buffer(ordered.bytes());
    std::memcpy(kept.data, ordered.data(), static_cast<std::size_t>(ordered.bytes()));
    const auto* const params = builder.keep_params(kernels::ConstantParams{kept.data, ordered.size(), ordered.dtype()});
    return builder.push(OpKind::constant, {}, builder.tensor(qparams.dtype, shape, builder.keep(qparams), layer),
                        params, layer);
}

INTQ_INLINE std::int32_t add_dequantize(program::ProgramBuilder& builder, std::int32_t x,
                                        const program::LayerName& layer) {
    const Shape shape = builder.at(x).shape;
    builder.check_use({OpKind::dequantize, builder.at(x).dtype, DType::none, DType::float32}, layer);
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
    builder.check_use({OpKind::requantize, builder.at(x).dtype, DType::none, output.dtype}, layer);
    const QParams out = builder.keep(output);
    const auto* const params = builder.keep_params(program::made_or_throw(
        kernels::make_requantize(builder.target(), builder.codes_of(x), program::ProgramBuilder::codes_of(output),
                                 codes, multiplier ? &*multiplier : nullptr),
        out, layer));
    return builder.push(OpKind::requantize, {x}, builder.tensor(output.dtype, shape, out, layer), params, layer);
}

INTQ_INLINE void QuantizeStep::lower(Lowering& l, const QuantizedNode& node) const {
    if (const ConstantStep* constant = quantized_constant(l.quantized(), node)) {
        const OwnedQParams& qparams = l.qparams(node);
        const Tensor codes = quantize(constant->value(), qparams, l.builder().target().quantize);
        return l.set(node, add_constant(l.builder(), codes, qparams, Lowering::layer(node)));
    }
    if (const ImageInput* image = l.image(node.inputs[0]))
        return l.set(node,
                     add_quantize_image(l.builder(), l.input(node), *image, l.qparams(node), Lowering::layer(node)));
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
    l.set(node, add_on_grid(l.builder(), l.input(node), l.qparams(node), {}, Lowering::layer(node)));
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
