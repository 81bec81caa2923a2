// SPDX-License-Identifier: MIT
//
// The codes in an ONNX file: of a constant, and of a layer's weight and bias. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_LAYER_CODES_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_LAYER_CODES_HPP

#include <cstdint>
#include <optional>
#include <vector>

#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// A constant that DequantizeLinear made of codes.
struct CodedConstant {
    OwnedQParams grid;                // of int8, int16 or int32 codes; uint8 codes are shifted by 128
    std::vector<std::int32_t> codes;  // only of int32
};

/// Weight and bias of a layer, as an import finds them and as an export writes them.
struct LayerCodes {
    Tensor weight{}, bias{};                 // real numbers; the bias undefined where codes or the layer have it
    std::optional<OwnedQParams> grid{};      // of the weight, whose real numbers lie on it
    std::vector<std::int32_t> bias_codes{};  // empty where the file has none
    std::vector<float> bias_scales{};        // one, or one for each channel
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_LAYER_CODES_HPP
