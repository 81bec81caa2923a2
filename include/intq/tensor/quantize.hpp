// SPDX-License-Identifier: MIT
//
// Quantize, dequantize and fake-quantize of Tensors: the kernels behind a hosted signature. Layer: quantization.
#ifndef INTQ_TENSOR_QUANTIZE_HPP
#define INTQ_TENSOR_QUANTIZE_HPP

#include "intq/kernels/streaming/dequantize.hpp"
#include "intq/kernels/streaming/fake_quantize.hpp"
#include "intq/kernels/streaming/quantize.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::inline INTQ_ABI::quantization {

/// Codes of a float32 tensor, row_major, of dtype qparams.dtype (int8, int16 or uint8), carrying the qparams.
nn::Tensor quantize(const nn::Tensor& x, const nn::OwnedQParams& qparams, arith::QuantizeRule rule);

/// The real values of codes, row_major.
nn::Tensor dequantize(const nn::Tensor& codes, const nn::OwnedQParams& qparams);

/// dequantize(quantize(x)), carrying the qparams.
nn::Tensor fake_quantize(const nn::Tensor& x, const nn::OwnedQParams& qparams, arith::QuantizeRule rule);

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

/// (outer, channels, inner): a row_major tensor seen from its channel axis; (1, 1, size) per tensor.
inline Shape blocks_around(const nn::Tensor& x, int axis) {
    if (axis < 0) return Shape(1, 1, x.size());
    index_t outer = 1, inner = 1;
    for (int i = 0; i < axis; ++i) outer *= x.extent(i);
    for (int i = axis + 1; i < x.rank(); ++i) inner *= x.extent(i);
    return Shape(outer, x.extent(axis), inner);
}

/// The same parameters for a tensor of the shape blocks_around() gives.
inline QParams blocks_qparams(const nn::OwnedQParams& qparams) {
    if (!qparams.is_per_channel()) return qparams.view();
    return QParams::per_channel(qparams.scales, qparams.zero_points, 1, qparams.quant_min, qparams.quant_max);
}

template <class Code>
void quantize_into(const nn::Tensor& x, const QParams& qparams, arith::QuantizeRule rule, nn::Tensor& out) {
    const auto from = x.view<float, 3>();
    const auto to = out.view<Code, 3>();
    throw_if_failed(kernels::check_quantize(from, qparams, rule, to));
    kernels::quantize(from, qparams, rule, to);
}

template <class Code> void dequantize_into(const nn::Tensor& codes, const QParams& qparams, nn::Tensor& out) {
    const auto from = codes.view<Code, 3>();
    const auto to = out.view<float, 3>();
    throw_if_failed(kernels::check_dequantize(from, qparams, to));
    kernels::dequantize(from, qparams, to);
}

}  // namespace detail

inline nn::Tensor quantize(const nn::Tensor& x, const nn::OwnedQParams& qparams, arith::QuantizeRule rule) {
    nn::Tensor codes = nn::Tensor::empty(x.shape(), qparams.dtype);
    const Shape blocks = detail::blocks_around(x, qparams.axis);
    const nn::Tensor from = x.reshape(blocks);
    nn::Tensor to = codes.reshape(blocks);
    const QParams view = detail::blocks_qparams(qparams);
    switch (qparams.dtype) {
        case DType::int8:
            detail::quantize_into<std::int8_t>(from, view, rule, to);
            break;
        case DType::int16:
            detail::quantize_into<std::int16_t>(from, view, rule, to);
            break;
        default:
            throw Error(std::string("quantize: codes of dtype ") + name_of(qparams.dtype) + "; int8 and int16 exist");
    }
    codes.set_qparams(qparams);
    return codes;
}

inline nn::Tensor dequantize(const nn::Tensor& codes, const nn::OwnedQParams& qparams) {
    nn::Tensor out = nn::Tensor::empty(codes.shape());
    const Shape blocks = detail::blocks_around(codes, qparams.axis);
    const nn::Tensor from = codes.reshape(blocks);
    nn::Tensor to = out.reshape(blocks);
    const QParams view = detail::blocks_qparams(qparams);
    switch (codes.dtype()) {
        case DType::int8:
            detail::dequantize_into<std::int8_t>(from, view, to);
            break;
        case DType::int16:
            detail::dequantize_into<std::int16_t>(from, view, to);
            break;
        case DType::int32:
            detail::dequantize_into<std::int32_t>(from, view, to);
            break;
        default:
            throw Error(std::string("dequantize: codes of dtype ") + name_of(codes.dtype()) +
                        "; int8, int16 and int32 exist");
    }
    return out;
}

inline nn::Tensor fake_quantize(const nn::Tensor& x, const nn::OwnedQParams& qparams, arith::QuantizeRule rule) {
    nn::Tensor out = nn::Tensor::empty(x.shape());
    const Shape blocks = detail::blocks_around(x, qparams.axis);
    const nn::Tensor source = x.reshape(blocks);
    nn::Tensor target = out.reshape(blocks);
    const auto from = source.view<float, 3>();
    const auto to = target.view<float, 3>();
    const QParams view = detail::blocks_qparams(qparams);
    throw_if_failed(kernels::check_fake_quantize(from, view, rule, to));
    kernels::fake_quantize(from, view, rule, to);
    out.set_qparams(qparams);
    return out;
}

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_TENSOR_QUANTIZE_HPP
