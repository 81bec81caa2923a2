// SPDX-License-Identifier: MIT
//
// Whether a grid fits a quantizer, and whether a run can produce a state. Layer: quantization
// (docs/workflow.md section 2).
#ifndef INTQ_QUANTIZATION_FAKE_QUANTIZE_INTERNAL_CHECK_GRID_HPP
#define INTQ_QUANTIZATION_FAKE_QUANTIZE_INTERNAL_CHECK_GRID_HPP

#include <cstddef>

#include "intq/quantization/observers/observer.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Throws the Error that says how the channels of a grid differ from a quantizer's.
///
/// @param axis      of the channels that have a scale each; -1 per tensor
/// @param channels  0 if not known yet
void check_channels(const OwnedQParams& grid, int axis, std::size_t channels);

/// Throws the Error that says what else differs from the quantizer's: type and range of the codes, zero points, scales.
void check_codes(const OwnedQParams& grid, const ObserverOptions& own);

/// Throws for a number of scales that no run of a quantizer produces.
///
/// @param channels    of the layer whose weight it quantizes; 0 if there is none
/// @param is_given    one scale may serve all channels
/// @param is_decided  data does not change the scales: for a quantizer per tensor they may come from a folded weight
void check_scale_count(std::size_t count, int axis, std::size_t channels, bool is_given, bool is_decided);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_fake_quantize)

#    include <cstdint>
#    include <string>

#    include "intq/arith/quantize.hpp"
#    include "intq/io/error.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::string codes_text(DType dtype, std::int64_t lowest, std::int64_t highest) {
    return std::string(name_of(dtype)) + " from " + std::to_string(lowest) + " to " + std::to_string(highest);
}

INTQ_INLINE std::string channels_text(int axis) {
    return axis < 0 ? "per tensor" : "per channel of axis " + std::to_string(axis);
}

INTQ_INLINE void check_channels(const OwnedQParams& grid, int axis, std::size_t channels) {
    if (grid.scales.empty()) throw Error("the grid has no scale");
    if (grid.axis != axis)
        throw Error("the grid is " + channels_text(grid.axis) + ", the quantizer " + channels_text(axis));
    if (channels != 0 && grid.scales.size() != channels)
        throw Error("the grid has " + std::to_string(grid.scales.size()) + " scales, the quantizer " +
                    (axis < 0 ? "one" : std::to_string(channels) + " channels"));
}

INTQ_INLINE void check_codes(const OwnedQParams& grid, const ObserverOptions& own) {
    if (grid.dtype != own.dtype || grid.quant_min != own.lowest() || grid.quant_max != own.highest())
        throw Error("the grid's codes are " + codes_text(grid.dtype, grid.quant_min, grid.quant_max) +
                    ", the quantizer's " + codes_text(own.dtype, own.lowest(), own.highest()));
    if (!grid.zero_points.empty() && grid.zero_points.size() != grid.scales.size())
        throw Error("the grid has " + std::to_string(grid.zero_points.size()) + " zero points for " +
                    std::to_string(grid.scales.size()) + (grid.scales.size() == 1 ? " scale" : " scales"));
    const std::int32_t fixed = own.rule().symmetric_zero_point;
    for (const std::int32_t zero_point : grid.zero_points)
        if (own.scheme == arith::QuantScheme::symmetric && zero_point != 0 && zero_point != fixed)
            throw Error("the grid has the zero point " + std::to_string(zero_point) +
                        ", and the scheme of the quantizer is symmetric");
    throw_if_failed(
        check_qparams(grid.view(), own.dtype, static_cast<index_t>(grid.scales.size()), OpKind::fake_quantize));
}

INTQ_INLINE void check_scale_count(std::size_t count, int axis, std::size_t channels, bool is_given, bool is_decided) {
    const bool is_one = axis < 0 || is_given || channels <= 1;
    const bool are_all = (channels == 0 || count == channels) && (axis >= 0 || (channels != 0 && is_decided));
    if (count == 1 ? is_one : are_all) return;
    throw Error("it has " + std::to_string(count) + " scales and is " + channels_text(axis) +
                (channels == 0 ? "" : ", of " + std::to_string(channels) + " channels"));
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_fake_quantize)
#endif  // INTQ_QUANTIZATION_FAKE_QUANTIZE_INTERNAL_CHECK_GRID_HPP
