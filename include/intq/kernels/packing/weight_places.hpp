// SPDX-License-Identifier: MIT
//
// The place of each weight and channel in a packed layer, in the orders of simd::Packing and simd::DepthwisePacking.
// What packs and what reads packed weights again relies on it alone. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_WEIGHT_PLACES_HPP
#define INTQ_KERNELS_PACKING_WEIGHT_PLACES_HPP

#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// The two planes of an int16 weight, 256·high + low: bytes, of which the low one is in -128 … 127.
constexpr std::int64_t low_plane(std::int64_t weight) noexcept { return ((weight + 128) & 255) - 128; }
constexpr std::int64_t high_plane(std::int64_t weight) noexcept { return (weight - low_plane(weight)) / 256; }

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

/// Position of an output channel among the padded channels.
constexpr index_t padded_index(const PackedConv2d& packed, index_t channel) noexcept {
    if (packed.is_depthwise) return depthwise_index(packed, channel);
    return channel / packed.group_outputs() * packed.group_stride + channel % packed.group_outputs();
}

/// The places of one channel's weights, in elements of stored_weight().
class WeightPlaces {
public:
    constexpr WeightPlaces(const PackedConv2d& packed, index_t channel) noexcept
        : packed_(&packed), kernel_(packed.window.kernel) {
        if (packed.is_depthwise)
            of_depthwise(channel);
        else
            of_panel(channel);
    }

    /// @param k    input channel in the group; 0 of a depthwise layer
    /// @param tap  of the window, row by row
    constexpr index_t at(index_t k, index_t tap) const noexcept {
        const index_t y = tap / kernel_.width, x = tap % kernel_.width;
        if (packed_->is_depthwise) {
            if (packed_->depthwise.columns == 0) return first_ + tap * step_;
            const index_t depth = packed_->depthwise.depth;
            return first_ + (x * groups_ + y / depth) * step_ * depth + y % depth;
        }
        const index_t depth = packed_->packing.depth;
        const index_t t = packed_->has_whole_windows() ? 0 : packed_->merges_row ? y : tap;
        const index_t place = packed_->is_paired() || packed_->interleaves_rows() ? tap
                              : packed_->stages_windows()                         ? x * kernel_.height + y
                              : packed_->merges_row                               ? x
                                                                                  : 0;
        const index_t d = place * packed_->group_inputs() + k;
        const index_t in_group = packed_->has_given_pairs() ? swap_middle(d % depth) : d % depth;
        return first_ + (t * groups_ + d / depth) * step_ + in_group;
    }
    /// From the low byte of a weight to its high one, where they are in two planes.
    constexpr index_t plane() const noexcept { return plane_; }

private:
    /// Of four weights, so that even and odd bytes of their word are pairs of neighbours.
    static constexpr index_t swap_middle(index_t k) noexcept { return k == 1 ? 2 : k == 2 ? 1 : k; }

    constexpr void of_depthwise(index_t channel) noexcept {
        if (packed_->depthwise.columns == 0) {
            first_ = channel;
            step_ = packed_->padded_outputs();
            return;
        }
        const index_t depth = packed_->depthwise.depth;
        const DepthwisePlace place = depthwise_place(*packed_, channel);
        groups_ = round_up(kernel_.height, depth) / depth;
        first_ = place.block.first * packed_->depthwise_weights() + place.lane * depth;
        step_ = place.block.padded;
    }
    constexpr void of_panel(index_t channel) noexcept {
        const index_t columns = packed_->packing.columns, depth = packed_->packing.depth;
        const index_t group = channel / packed_->group_outputs(), column = channel % packed_->group_outputs();
        const index_t panel = column / columns, left = packed_->group_stride - panel * columns;
        plane_ = (left < columns ? left : columns) * depth;
        groups_ = round_up(packed_->tap_depth(), depth) / depth;
        step_ = packed_->planes() * plane_;
        first_ = group * packed_->group_weights() + panel * packed_->panel_size() + column % columns * depth;
    }

    const PackedConv2d* packed_;
    Size2d kernel_;
    index_t first_ = 0;   // the channel's first weight
    index_t groups_ = 1;  // of a tap; depthwise: of a column of the window
    index_t step_ = 1;    // from a group to the next; depthwise: in groups of rows
    index_t plane_ = 0;
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_WEIGHT_PLACES_HPP
