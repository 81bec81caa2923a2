// SPDX-License-Identifier: MIT
//
// QuantizeDequantize: the effect of a QuantizeLinear and its DequantizeLinear on the values of a model. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_QUANTIZE_DEQUANTIZE_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_QUANTIZE_DEQUANTIZE_HPP

#include <string>

#include "intq/arith/quantize.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// Rounds real numbers to a grid from a file, as QuantizeLinear does: by division.
class QuantizeDequantize : public nn::Cloneable<QuantizeDequantize> {
public:
    explicit QuantizeDequantize(OwnedQParams grid);

    INTQ_INLINE std::string type_name() const override;
    bool is_leaf() const override { return true; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    const OwnedQParams& grid() const noexcept { return grid_; }
    INTQ_INLINE void set_grid(OwnedQParams grid);

private:
    OwnedQParams grid_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <utility>

#    include "intq/nn/model/value.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE QuantizeDequantize::QuantizeDequantize(OwnedQParams grid) : grid_(std::move(grid)) {}

INTQ_INLINE void QuantizeDequantize::set_grid(OwnedQParams grid) { grid_ = std::move(grid); }

INTQ_INLINE std::string QuantizeDequantize::type_name() const { return "QuantizeDequantize"; }

INTQ_INLINE nn::Value QuantizeDequantize::forward(nn::Arguments arguments) {
    return fake_quantize(arguments.tensor(0), grid_, {arith::Rounding::half_even, arith::QuantizeBy::divide});
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_QUANTIZE_DEQUANTIZE_HPP
