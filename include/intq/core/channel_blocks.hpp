// SPDX-License-Identifier: MIT
//
// ChannelBlocks: a contiguous tensor seen from its channel axis. Layer: core.
#ifndef INTQ_CORE_CHANNEL_BLOCKS_HPP
#define INTQ_CORE_CHANNEL_BLOCKS_HPP

#include "intq/core/tensor_view.hpp"

namespace intq {
inline namespace INTQ_CORE_ABI {

/// Three extents that say which channel each element in memory belongs to, whatever the layout.
///
///     channel(i) = (i / inner) mod channels,   0 <= i < outer · channels · inner
///
/// Per tensor is channels = 1. Channels-last activations have inner = 1; weights with axis 0 have outer = 1.
struct ChannelBlocks {
    index_t outer = 1;
    index_t channels = 1;
    index_t inner = 0;

    INTQ_ALWAYS_INLINE constexpr index_t size() const noexcept { return outer * channels * inner; }
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const ChannelBlocks&, const ChannelBlocks&) = default;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq

namespace intq {
inline namespace INTQ_ABI {

/// The blocks of a view.
///
/// @param axis  the channel axis, or negative for per tensor
/// @pre   view.is_contiguous(), axis < rank
template <class T, int Rank, class LayoutTag, class ExtentsType>
constexpr ChannelBlocks channel_blocks(const TensorView<T, Rank, LayoutTag, ExtentsType>& view,
                                       int axis) INTQ_NOEXCEPT {
    INTQ_ASSERT(view.is_contiguous() && axis < Rank);
    const index_t size = view.size();
    if (axis < 0 || size == 0) return {1, 1, size};
    const index_t channels = view.extent(axis), inner = view.stride(axis);
    if (channels == 1) return {1, 1, size};
    return {size / (channels * inner), channels, inner};
}

}  // namespace INTQ_ABI
}  // namespace intq

#endif  // INTQ_CORE_CHANNEL_BLOCKS_HPP
