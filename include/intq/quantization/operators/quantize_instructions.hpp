// SPDX-License-Identifier: MIT
//
// The instructions quantize, dequantize, requantize and constant of a program. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_QUANTIZE_INSTRUCTIONS_HPP
#define INTQ_QUANTIZATION_OPERATORS_QUANTIZE_INSTRUCTIONS_HPP

#include <cstdint>
#include <optional>

#include "intq/arith/quantized_multiplier.hpp"
#include "intq/arith/requantize.hpp"
#include "intq/core/shape.hpp"
#include "intq/program/program_builder.hpp"
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
                          const program::LayerName& layer, Layout layout = Layout::channels_last);

std::int32_t add_dequantize(program::ProgramBuilder& builder, std::int32_t x, const program::LayerName& layer);

std::int32_t add_requantize(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& output,
                            const program::LayerName& layer);

/// The same with bounds, and with an external multiplier in place of the scales.
std::int32_t add_requantize(program::ProgramBuilder& builder, std::int32_t x, const OwnedQParams& output,
                            const arith::OutputCodes& codes,
                            const std::optional<arith::QuantizedMultiplier>& multiplier,
                            const program::LayerName& layer);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstring>

#    include "intq/core/layout.hpp"
#    include "intq/core/op_kind.hpp"
#    include "intq/core/workspace.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/operators/constant.hpp"
#    include "intq/kernels/streaming/quantize.hpp"

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
                                      const OwnedQParams& qparams, const program::LayerName& layer, Layout layout) {
    try {
        check_constant(codes.shape());
    } catch (const Error& error) {
        throw Error(layer.name, error.what());
    }
    Shape shape = codes.shape();
    shape[0] = builder.max_batch();
    const Tensor ordered = codes.to_layout(layout);
    const Workspace kept = builder.new_buffer(ordered.bytes());
    std::memcpy(kept.data, ordered.data(), static_cast<std::size_t>(ordered.bytes()));
    const auto* const params = builder.keep_params(kernels::ConstantParams{kept.data, ordered.size(), ordered.dtype()});
    return builder.push(OpKind::constant, {},
                        builder.tensor(qparams.dtype, shape, builder.keep(qparams), layer, layout), params, layer);
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
    return builder.push(OpKind::requantize, {x}, builder.tensor(output.dtype, shape, out, layer, builder.at(x).layout),
                        params, layer);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_QUANTIZE_INSTRUCTIONS_HPP
