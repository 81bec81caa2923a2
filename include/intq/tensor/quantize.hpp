// SPDX-License-Identifier: MIT
//
// Quantize, dequantize and fake-quantize of Tensors: the kernels behind a hosted signature. Layer: tensor.
#ifndef INTQ_TENSOR_QUANTIZE_HPP
#define INTQ_TENSOR_QUANTIZE_HPP

#include "intq/arith/quantize.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

/// Codes of a float32 tensor, row_major, of dtype qparams.dtype (int8, int16 or uint8), carrying the qparams.
Tensor quantize(const Tensor& x, const OwnedQParams& qparams, arith::QuantizeRule rule);

/// The real values of codes, row_major.
Tensor dequantize(const Tensor& codes, const OwnedQParams& qparams);

/// dequantize(quantize(x)), carrying the qparams.
Tensor fake_quantize(const Tensor& x, const OwnedQParams& qparams, arith::QuantizeRule rule);

/// The same in the memory of x, which every handle of it sees; x is row_major.
void fake_quantize_in_place(Tensor& x, const OwnedQParams& qparams, arith::QuantizeRule rule);

namespace tensor_detail {

/// (outer, channels, inner): a row_major tensor seen from its channel axis; (1, 1, size) per tensor.
Shape blocks_around(const Tensor& x, int axis);

/// The same parameters for a tensor of blocks_around()'s shape.
QParams blocks_qparams(const OwnedQParams& qparams);

}  // namespace tensor_detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(tensor)

#    include <string>

#    include "intq/io/error.hpp"
#    include "intq/kernels/streaming/dequantize.hpp"
#    include "intq/kernels/streaming/fake_quantize.hpp"
#    include "intq/kernels/streaming/quantize.hpp"

namespace intq {
inline namespace INTQ_HOSTED_ABI {

namespace tensor_detail {

INTQ_INLINE Shape blocks_around(const Tensor& x, int axis) {
    if (axis < 0) return Shape(1, 1, x.size());
    index_t outer = 1, inner = 1;
    for (int i = 0; i < axis; ++i) outer *= x.extent(i);
    for (int i = axis + 1; i < x.rank(); ++i) inner *= x.extent(i);
    return Shape(outer, x.extent(axis), inner);
}

INTQ_INLINE QParams blocks_qparams(const OwnedQParams& qparams) {
    if (!qparams.is_per_channel()) return qparams.view();
    return QParams::per_channel(qparams.scales, qparams.zero_points, 1, qparams.quant_min, qparams.quant_max);
}

template <class Code>
void quantize_into(const Tensor& x, const QParams& qparams, arith::QuantizeRule rule, Tensor& out) {
    const auto from = x.view<float, 3>();
    const auto to = out.view<Code, 3>();
    throw_if_failed(kernels::check_quantize(from, qparams, rule, to));
    kernels::quantize(from, qparams, rule, to);
}

INTQ_INLINE void fake_quantize_into(const Tensor& x, const OwnedQParams& qparams, arith::QuantizeRule rule,
                                    Tensor& out) {
    const Shape blocks = blocks_around(x, qparams.axis);
    const Tensor source = x.reshape(blocks);
    Tensor target = out.reshape(blocks);
    const auto from = source.view<float, 3>();
    const auto to = target.view<float, 3>();
    const QParams view = blocks_qparams(qparams);
    throw_if_failed(kernels::check_fake_quantize(from, view, rule, to));
    kernels::fake_quantize(from, view, rule, to);
    out.set_qparams(qparams);
}

template <class Code> void dequantize_into(const Tensor& codes, const QParams& qparams, Tensor& out) {
    const auto from = codes.view<Code, 3>();
    const auto to = out.view<float, 3>();
    throw_if_failed(kernels::check_dequantize(from, qparams, to));
    kernels::dequantize(from, qparams, to);
}

}  // namespace tensor_detail

INTQ_INLINE Tensor quantize(const Tensor& x, const OwnedQParams& qparams, arith::QuantizeRule rule) {
    Tensor codes = Tensor::empty(x.shape(), qparams.dtype);
    const Shape blocks = tensor_detail::blocks_around(x, qparams.axis);
    const Tensor from = x.reshape(blocks);
    Tensor to = codes.reshape(blocks);
    const QParams view = tensor_detail::blocks_qparams(qparams);
    switch (qparams.dtype) {
        case DType::int8:
            tensor_detail::quantize_into<std::int8_t>(from, view, rule, to);
            break;
        case DType::int16:
            tensor_detail::quantize_into<std::int16_t>(from, view, rule, to);
            break;
        default:
            throw Error(std::string("quantize: codes of dtype ") + name_of(qparams.dtype) + "; int8 and int16 exist");
    }
    codes.set_qparams(qparams);
    return codes;
}

INTQ_INLINE Tensor dequantize(const Tensor& codes, const OwnedQParams& qparams) {
    Tensor out = Tensor::empty(codes.shape());
    const Shape blocks = tensor_detail::blocks_around(codes, qparams.axis);
    const Tensor from = codes.reshape(blocks);
    Tensor to = out.reshape(blocks);
    const QParams view = tensor_detail::blocks_qparams(qparams);
    switch (codes.dtype()) {
        case DType::int8:
            tensor_detail::dequantize_into<std::int8_t>(from, view, to);
            break;
        case DType::int16:
            tensor_detail::dequantize_into<std::int16_t>(from, view, to);
            break;
        case DType::int32:
            tensor_detail::dequantize_into<std::int32_t>(from, view, to);
            break;
        default:
            throw Error(std::string("dequantize: codes of dtype ") + name_of(codes.dtype()) +
                        "; int8, int16 and int32 exist");
    }
    return out;
}

INTQ_INLINE Tensor fake_quantize(const Tensor& x, const OwnedQParams& qparams, arith::QuantizeRule rule) {
    Tensor out = Tensor::empty(x.shape());
    tensor_detail::fake_quantize_into(x, qparams, rule, out);
    return out;
}

INTQ_INLINE void fake_quantize_in_place(Tensor& x, const OwnedQParams& qparams, arith::QuantizeRule rule) {
    if (x.layout() != Layout::row_major) throw Error("fake_quantize_in_place: the tensor must be row_major");
    tensor_detail::fake_quantize_into(x, qparams, rule, x);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq

#endif  // INTQ_DEFINES(tensor)
#endif  // INTQ_TENSOR_QUANTIZE_HPP
