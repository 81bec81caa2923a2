// SPDX-License-Identifier: MIT
//
// Packing of a depthwise layer: channels in the order of a backend's lanes. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_PACK_DEPTHWISE_HPP
#define INTQ_KERNELS_CONV_PACK_DEPTHWISE_HPP

#include "intq/kernels/conv/describe_packed.hpp"
#include "intq/kernels/conv/packed_conv2d.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

inline std::int64_t weight_code(const Conv2dSpec& spec, index_t index) noexcept {
    return spec.weight_dtype == DType::int16 ? static_cast<const std::int16_t*>(spec.weight_codes)[index]
                                             : static_cast<const std::int8_t*>(spec.weight_codes)[index];
}

template <class Stored> Stored stored_weight_at(const Conv2dSpec& spec, index_t index) noexcept {
    if constexpr (std::is_same_v<Stored, float>)
        return static_cast<const float*>(spec.weight_codes)[index];
    else
        return static_cast<Stored>(weight_code(spec, index));
}

/// Where the first vectors of a channel's block lie, and which place in a vector-by-vector count is the channel's.
struct DepthwisePlace {
    DepthwiseBlock block;
    index_t lane;  // counted through the block's vectors
};
constexpr DepthwisePlace depthwise_place(const PackedConv2d& packed, index_t channel) noexcept {
    const simd::DepthwisePacking& packing = packed.depthwise;
    DepthwiseBlock block = depthwise_block(packing, channel / packing.columns * packing.columns, packed.out_channels);
    const index_t i = channel - block.first;
    if (!block.is_whole)
        return {{block.first + i / packing.step * packing.step, packing.step, false}, i % packing.step};
    return {block, depthwise_lane(packing, i)};
}

/// Position of a channel among the padded ones.
constexpr index_t depthwise_index(const PackedConv2d& packed, index_t channel) noexcept {
    if (packed.depthwise.columns == 0) return channel;
    const DepthwisePlace place = depthwise_place(packed, channel);
    return place.block.first + place.lane;
}

/// In the order of simd::DepthwisePacking; [tap][channel] where there are no blocks.
template <class Stored>
void write_depthwise_weights(const Conv2dSpec& spec, const PackedConv2d& packed, Stored* to) noexcept {
    const Size2d kernel = packed.window.kernel;
    const index_t depth = packed.depthwise.depth, groups = round_up(kernel.height, depth) / depth;
    for (index_t channel = 0; channel < packed.out_channels; ++channel)
        for (index_t y = 0; y < kernel.height; ++y)
            for (index_t x = 0; x < kernel.width; ++x) {
                const index_t tap = y * kernel.width + x;
                index_t at = tap * packed.padded_outputs() + channel;
                if (packed.depthwise.columns > 0) {
                    const DepthwisePlace place = depthwise_place(packed, channel);
                    const index_t group = (x * groups + y / depth) * place.block.padded + place.lane;
                    at = place.block.first * packed.depthwise_weights() + group * depth + y % depth;
                }
                to[at] = stored_weight_at<Stored>(spec, channel * packed.taps() + tap);
            }
}

inline void write_padding_row(const Conv2dSpec& spec, const PackedConv2d& packed, std::byte* to) noexcept {
    for (index_t i = 0; i < padding_row_size(packed); ++i) {
        if (packed.input_dtype == DType::int16) {
            reinterpret_cast<std::int16_t*>(to)[i] = static_cast<std::int16_t>(spec.input.zero_point());
        } else {
            reinterpret_cast<std::int8_t*>(to)[i] = static_cast<std::int8_t>(spec.input.zero_point());
        }
    }
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_PACK_DEPTHWISE_HPP
