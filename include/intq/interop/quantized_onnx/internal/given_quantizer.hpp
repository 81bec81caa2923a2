// SPDX-License-Identifier: MIT
//
// The quantizer of a grid from a file. Layer: interop (docs/onnx.md).
#ifndef INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_GIVEN_QUANTIZER_HPP
#define INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_GIVEN_QUANTIZER_HPP

#include <memory>

#include "intq/arith/quantize.hpp"
#include "intq/quantization/fake_quantize/fake_quantize.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// A quantizer whose grid is fixed.
std::shared_ptr<quantization::FakeQuantize> given_quantizer(const OwnedQParams& grid, const arith::QuantizeRule& rule);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_quantized_onnx)

#    include "intq/quantization/observers/range_observers.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::shared_ptr<quantization::FakeQuantize> given_quantizer(const OwnedQParams& grid,
                                                                        const arith::QuantizeRule& rule) {
    quantization::FakeQuantizeOptions options;
    options.observer_options.dtype = grid.dtype;
    options.observer_options.quant_min = grid.quant_min;
    options.observer_options.quant_max = grid.quant_max;
    options.observer_options.ch_axis = grid.axis;
    if (!grid.zero_points.empty()) options.observer_options.scheme = arith::QuantScheme::affine;
    if (grid.is_per_channel())
        options.observer = quantization::observer_factory<quantization::MovingAveragePerChannelMinMaxObserver>();
    options.channel_len = grid.is_per_channel() ? static_cast<index_t>(grid.scales.size()) : 1;
    options.rule = rule;
    auto quantizer = std::make_shared<quantization::FakeQuantize>(options);
    quantizer->set_qparams(grid);
    return quantizer;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_quantized_onnx)
#endif  // INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_GIVEN_QUANTIZER_HPP
