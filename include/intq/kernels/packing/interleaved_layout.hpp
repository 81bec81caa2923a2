// SPDX-License-Identifier: MIT
//
// Where tiles of interleaved windows lie: on the stack, or in the workspace. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_INTERLEAVED_LAYOUT_HPP
#define INTQ_KERNELS_PACKING_INTERLEAVED_LAYOUT_HPP

#include "intq/kernels/packing/packed_conv2d.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Rows of a tile of matrix products.
inline constexpr index_t interleaved_tile_rows = 8;
/// Bytes of tiles on the stack; and those that stay near while the panels pass.
inline constexpr index_t interleaved_block_bytes = 64 * 1024, near_interleaved_bytes = 32 * 1024;

/// Bytes of a tile, and behind it of the window of a pixel, where it is gathered.
constexpr index_t interleaved_tile_bytes(index_t column) noexcept { return (interleaved_tile_rows + 1) * column; }

/// Whether a tile fits on the stack.
constexpr bool fits_interleaved_block(const PackedConv2d& packed) noexcept {
    return interleaved_tile_bytes(packed.column_size()) <= interleaved_block_bytes;
}

/// Rows that are staged together: whole tiles.
constexpr index_t interleaved_block_rows(index_t column) noexcept {
    const index_t tiles = (near_interleaved_bytes - column) / (interleaved_tile_rows * column);
    return interleaved_tile_rows * (tiles > 1 ? tiles : 1);
}

/// Bytes of workspace.
constexpr index_t interleaved_bytes(const PackedConv2d& packed) noexcept {
    return fits_interleaved_block(packed) ? 0 : interleaved_tile_bytes(packed.column_size());
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_INTERLEAVED_LAYOUT_HPP
