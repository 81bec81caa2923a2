// SPDX-License-Identifier: MIT
//
// DynamicMatrix: the int8 weight of a linear product whose input is quantized as it arrives. Layer: quantization
// (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_DYNAMIC_DYNAMIC_MATRIX_HPP
#define INTQ_QUANTIZATION_DYNAMIC_DYNAMIC_MATRIX_HPP

#include <cstdint>
#include <vector>

#include "intq/arith/fp32.hpp"
#include "intq/core/shape.hpp"
#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// How a layer is quantized dynamically.
struct DynamicQConfig {
    bool per_channel = false;  // a scale for each output channel of the weight; PyTorch's default is one scale for all
    /// Codes 0 … 127 instead of 0 … 255: PyTorch's rule on x86 (its engines x86, fbgemm and onednn), whose kernels
    /// without VNNI add pairs in 16 bits. Ours never do; the narrow range is only for equal results.
    bool reduce_range = true;
};

/// y = x · weight^T + bias, with x quantized by its own range.
///
/// Packed once; immutable afterwards, so that copies and threads may share one.
///
/// Result   PyTorch's, except for the last bits of a float; the same bytes on every backend
class DynamicMatrix {
public:
    /// @param weight  (O, I), int8 codes that carry their qparams
    /// @param bias    (O), or undefined
    DynamicMatrix(const Tensor& weight, const Tensor& bias, bool reduce_range);

    /// @param x  (…, I), float32, row_major; one scale and zero point for all of it. Throws for NaN and infinity
    Tensor operator()(const Tensor& x) const;

    index_t in_features() const noexcept { return packed_.in_channels; }
    index_t out_features() const noexcept { return packed_.out_channels; }
    index_t packed_bytes() const noexcept { return storage_.bytes(); }

private:
    using Target = target::fp32;
    /// Sums over the codes, without subtracting the zero point: (rows, O), int32.
    Tensor accumulate(const Tensor& codes) const;

    Tensor storage_, bias_;
    kernels::PackedConv2d packed_{};
    std::vector<float> scales_;
    std::vector<std::int64_t> sums_;  // of each row of codes
    std::int32_t quant_max_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_dynamic)

#    include <cstddef>
#    include <string>

#    include "intq/arith/dynamic_qparams.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/conv/conv2d.hpp"
#    include "intq/observers/min_max.hpp"
#    include "intq/tensor/current_executor.hpp"
#    include "intq/tensor/owned_qparams.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE DynamicMatrix::DynamicMatrix(const Tensor& weight, const Tensor& bias, bool reduce_range)
    : bias_(bias.defined() ? bias.clone() : bias), quant_max_(reduce_range ? 127 : 255) {
    if (weight.rank() != 2 || weight.dtype() != DType::int8 || !weight.qparams())
        throw Error("DynamicMatrix: the weight must be int8 codes (O, I) that carry their qparams, given " +
                    std::string(name_of(weight.dtype())) + " " + to_string(weight.shape()));
    const index_t out = weight.extent(0), in = weight.extent(1);
    kernels::Conv2dSpec spec;
    spec.op = OpKind::linear;
    spec.in_channels = in;
    spec.out_channels = out;
    spec.output_dtype = DType::int32;
    spec.input = QParams::per_tensor(1.0f, 0, DType::int8);
    spec.weight = weight.qparams()->view();
    spec.weight_codes = weight.data();
    storage_ = Tensor::empty(Shape(kernels::conv2d_storage_size<Target>(spec)), DType::int8);
    packed_ = value_or_throw(kernels::make_conv2d<Target>(spec, {storage_.data(), storage_.bytes()}), "DynamicMatrix");
    const auto codes = weight.flat<std::int8_t>();
    for (index_t o = 0; o < out; ++o) {
        scales_.push_back(
            weight.qparams()->scales[weight.qparams()->is_per_channel() ? static_cast<std::size_t>(o) : 0]);
        std::int64_t sum = 0;
        for (const std::int8_t code : codes.subspan(static_cast<std::size_t>(o * in), static_cast<std::size_t>(in)))
            sum += code;
        sums_.push_back(sum);
    }
}

INTQ_INLINE Tensor DynamicMatrix::accumulate(const Tensor& codes) const {
    const index_t rows = codes.extent(0);
    Tensor sums = Tensor::empty(Shape(rows, out_features(), 1, 1), DType::int32);
    const kernels::ConvGeometry geometry =
        value_or_throw(kernels::make_conv2d_geometry(packed_.window, rows, {1, 1}), "DynamicMatrix");
    const index_t bytes = kernels::conv2d_workspace_size(packed_, geometry);
    Tensor workspace = Tensor::empty(Shape(bytes), DType::int8);
    Tensor images = codes.reshape(Shape(rows, in_features(), 1, 1));
    const ImageView<const std::int8_t> x = images.view<std::int8_t, 4, channels_last>();
    kernels::run_conv2d<Target>(packed_, geometry, x, sums.view<std::int32_t, 4, channels_last>(),
                                {workspace.data(), bytes}, current_executor());
    return sums;
}

INTQ_INLINE Tensor DynamicMatrix::operator()(const Tensor& x) const {
    if (x.rank() < 1 || x.extent(-1) != in_features())
        throw Error("linear: the input " + to_string(x.shape()) + " does not end in " + std::to_string(in_features()) +
                    " features");
    Shape shape = x.shape();
    shape[shape.rank - 1] = out_features();
    Tensor y = Tensor::empty(shape);
    if (y.size() == 0) return y;
    const index_t rows = y.size() / out_features();
    const Tensor flat = x.reshape(Shape(rows, in_features()));
    float memory[4];
    observers::MinMaxRange range(memory);
    throw_if_failed(range.update(flat.view<float, 2>()), "dynamic quantization of a tensor " + to_string(x.shape()));
    const auto [scale, zero_point] =
        value_or_throw(arith::dynamic_qparams(range.lowest()[0], range.highest()[0], quant_max_), "DynamicMatrix");
    // PyTorch's codes are unsigned: ours are 128 lower.
    OwnedQParams qparams = OwnedQParams::per_tensor(scale, DType::int8);
    qparams.zero_points = {zero_point - 128};
    const Tensor sums = accumulate(quantize(flat, qparams, {}));
    const auto columns = static_cast<std::size_t>(out_features());
    const std::int32_t* from = sums.flat<std::int32_t>().data();
    const float* const bias = bias_.defined() ? bias_.flat<float>().data() : nullptr;
    float* to = y.flat<float>().data();
    for (index_t row = 0; row < rows; ++row, from += columns, to += columns)
        for (std::size_t o = 0; o < columns; ++o)
            to[o] = arith::dynamic_output(from[o], zero_point - 128, sums_[o], scale, scales_[o],
                                          bias != nullptr ? bias[o] : 0.0f);
    return y;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_dynamic)
#endif  // INTQ_QUANTIZATION_DYNAMIC_DYNAMIC_MATRIX_HPP
