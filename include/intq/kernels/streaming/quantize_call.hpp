// SPDX-License-Identifier: MIT
//
// The check of quantize's parameters, and the rows of quantize and dequantize. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_QUANTIZE_CALL_HPP
#define INTQ_KERNELS_STREAMING_QUANTIZE_CALL_HPP

#include "intq/arith/quantize.hpp"
#include "intq/core/channel_blocks.hpp"
#include "intq/core/executor.hpp"
#include "intq/core/qparams.hpp"
#include "intq/core/shape.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Checks qparams for quantize and fake_quantize.
///
/// @param dtype  type of the codes; int32 where they are not stored
/// @param shape  of the tensor
/// @return ok; axis; the errors of check_qparams(); quant_range or zero_point beyond ±largest_quantized_code, where
///         binary32 is not exact; scale_out_of_range for a channel whose reciprocal is infinite
constexpr Status check_quantize_params(const QParams& qparams, DType dtype, const Shape& shape,
                                       arith::QuantizeRule rule = {}, OpKind op = OpKind::quantize) noexcept {
    if (qparams.is_per_channel() && qparams.axis() < 0)
        return {StatusCode::value_out_of_range, op, Field::axis, qparams.axis(), 0};
    if (qparams.axis() >= shape.rank)
        return {StatusCode::value_out_of_range, op, Field::axis, qparams.axis(), shape.rank - 1};
    const index_t channels = qparams.is_per_channel() ? shape.extents[static_cast<std::size_t>(qparams.axis())] : 1;
    const Status status = check_qparams(qparams, dtype, channels, op);
    if (!status.ok()) return status;
    if (qparams.quant_min() < -arith::largest_quantized_code)
        return {StatusCode::value_out_of_range, op, Field::quant_range, qparams.quant_min(),
                -arith::largest_quantized_code};
    if (qparams.quant_max() > arith::largest_quantized_code)
        return {StatusCode::value_out_of_range, op, Field::quant_range, qparams.quant_max(),
                arith::largest_quantized_code};
    if (rule.by == arith::QuantizeBy::reciprocal)
        for (index_t channel = 0; channel < qparams.count(); ++channel)
            if (!arith::is_finite(arith::fdiv(1.0f, qparams.scale(channel))))
                return {StatusCode::scale_out_of_range, op, Field::scale, channel, 0};
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

namespace intq::kernels {
inline namespace INTQ_CORE_ABI {

/// Per tensor or per channel, on contiguous memory, by the target's rule.
struct QuantizeRow {
    DType output;
    void (*run)(const float* x, const ChannelBlocks& blocks, const QParams& qparams, void* y, const Executor& executor);
    /// Row-major images of `pixels` each, whose planes are `plane` elements apart, to channels last.
    void (*run_nchw)(const float* x, index_t images, index_t channels, index_t pixels, index_t plane,
                     const QParams& qparams, void* y, const Executor& executor);
};

struct DequantizeRow {
    DType input;
    void (*run)(const void* x, const ChannelBlocks& blocks, const QParams& qparams, float* y, const Executor& executor);
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_QUANTIZE_CALL_HPP
