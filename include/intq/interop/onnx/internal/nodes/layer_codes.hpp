// SPDX-License-Identifier: MIT
//
// The codes in an ONNX file: of a constant, of a layer's weight and bias, and of a weight whose quantizer an exporter
// computed, which leaves no trace of its scale. Layer: interop.
#ifndef INTQ_INTEROP_ONNX_INTERNAL_NODES_LAYER_CODES_HPP
#define INTQ_INTEROP_ONNX_INTERNAL_NODES_LAYER_CODES_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

/// int8 codes and their scales: one, or one for each channel.
struct WeightGrid {
    std::vector<float> scales;
    std::vector<std::int8_t> codes;
};

/// Finds codes and a scale of which real numbers are the products.
///
///     values[i] = codes[i] · scale, up to 2^-21 of the largest |value|
///
/// The error is that of x + (q - x) in float32, which is q to whoever wrote it. Of several scales it is the largest, so
/// that the codes have no common factor, and one without any error where there is one. Numbers of which few lie in a
/// group always have a grid.
///
/// @param values  of `blocks` × `channels` × `inner` elements
/// @return one scale for all, else one for each channel; none where a channel has no grid
///
/// Cost     O(n) for each of up to 129 scales, of which most fail at the first elements
/// Source   our own
std::optional<WeightGrid> find_weight_grid(std::span<const float> values, std::size_t channels, std::size_t inner);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_onnx_nodes)

#    include <algorithm>
#    include <cmath>
#    include <limits>

#    include "intq/arith/ieee.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

inline constexpr float grid_tolerance = 0x1p-21F;  // of the largest value

/// Whether all values are whole numbers of -128 to 127 times a scale, up to a tolerance.
INTQ_INLINE bool lie_on(std::span<const float> values, float scale, float tolerance) {
    return std::all_of(values.begin(), values.end(), [&](float value) {
        const float code = std::nearbyint(value / scale);
        return code >= -128.0F && code <= 127.0F && std::fabs(arith::fmul(code, scale) - value) <= tolerance;
    });
}

/// The largest scale of a grid on which all values lie; none where there is none.
INTQ_INLINE std::optional<float> scale_of(std::span<const float> values) {
    float largest = 0.0F;
    for (const float value : values) {
        if (!std::isfinite(value)) return std::nullopt;
        largest = (std::max)(largest, std::fabs(value));
    }
    if (largest == 0.0F) return 1.0F;
    constexpr int most = 128;
    for (int code = 1; code <= most; ++code) {
        const float quotient = largest / static_cast<float>(code);
        if (!(quotient > 0.0F) || !lie_on(values, quotient, largest * grid_tolerance)) continue;
        constexpr int ulps = 4;
        float scale = quotient;
        for (int i = 0; i < ulps; ++i) scale = std::nextafter(scale, 0.0F);
        for (int i = 0; i <= 2 * ulps; ++i, scale = std::nextafter(scale, (std::numeric_limits<float>::max)()))
            if (scale > 0.0F && lie_on(values, scale, 0.0F)) return scale;
        return quotient;
    }
    return std::nullopt;
}

}  // namespace detail

INTQ_INLINE std::optional<WeightGrid> find_weight_grid(std::span<const float> values, std::size_t channels,
                                                       std::size_t inner) {
    WeightGrid grid;
    const auto channel_of = [&](std::size_t i) { return grid.scales.size() == 1 ? 0 : i / inner % channels; };
    if (const auto scale = detail::scale_of(values)) {
        grid.scales = {*scale};
    } else {
        std::vector<std::vector<float>> of_channels(channels);
        for (std::size_t i = 0; i < values.size(); ++i) of_channels[i / inner % channels].push_back(values[i]);
        for (const std::vector<float>& channel : of_channels) {
            const auto own = detail::scale_of(channel);
            if (!own) return std::nullopt;
            grid.scales.push_back(*own);
        }
    }
    for (std::size_t i = 0; i < values.size(); ++i)
        grid.codes.push_back(static_cast<std::int8_t>(std::nearbyint(values[i] / grid.scales[channel_of(i)])));
    return grid;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_onnx_nodes)
#endif  // INTQ_INTEROP_ONNX_INTERNAL_NODES_LAYER_CODES_HPP
