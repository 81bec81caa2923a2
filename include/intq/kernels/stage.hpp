// SPDX-License-Identifier: MIT
//
// Staging: an input in the form that a backend's tile reads, converted once a run. Layer: kernels.
#ifndef INTQ_KERNELS_STAGE_HPP
#define INTQ_KERNELS_STAGE_HPP

#include "intq/core/executor.hpp"
#include "intq/kernels/geometry.hpp"
#include "intq/kernels/packed_conv2d.hpp"
#include "intq/simd/primitives.hpp"

namespace intq::inline INTQ_ABI::kernels::detail {

/// Elements that one task converts.
inline constexpr index_t stage_chunk = 16 * 1024;

/// Flips the top bit of each byte: two's complement to offset-binary.
inline void flip_top_bits(const std::uint8_t* from, std::uint8_t* to, index_t size) noexcept {
    for (index_t i = 0; i < size; ++i) to[i] = static_cast<std::uint8_t>(from[i] ^ 0x80u);
}

template <class Backend> void widen(const std::int8_t* from, std::int16_t* to, index_t size) noexcept {
    using L = simd::lanes<Backend>;
    for (index_t i = 0; i < size; i += L::width()) {
        const index_t count = size - i < L::width() ? size - i : L::width();
        L::store(to + i, L::load(from + i, count), count);
    }
}

/// The input as the packed layer's tile wants it: itself, or a copy in the workspace.
/// @pre workspace.size >= conv2d_workspace_size()
template <class Backend>
const void* stage_input(const PackedConv2d& packed, const ConvGeometry& geometry, const void* x, Workspace workspace,
                        const Executor& executor) INTQ_NOEXCEPT {
    if (packed.packing.staging == simd::Staging::as_is) return x;
    const index_t size = geometry.batch * geometry.in_pixels() * packed.in_channels;
    executor((size + stage_chunk - 1) / stage_chunk, [&](index_t chunk) {
        const index_t first = chunk * stage_chunk, count = size - first < stage_chunk ? size - first : stage_chunk;
        if (packed.packing.staging == simd::Staging::widened) {
            widen<Backend>(static_cast<const std::int8_t*>(x) + first,
                           reinterpret_cast<std::int16_t*>(workspace.data) + first, count);
        } else {
            flip_top_bits(static_cast<const std::uint8_t*>(x) + first,
                          reinterpret_cast<std::uint8_t*>(workspace.data) + first, count);
        }
    });
    return workspace.data;
}

}  // namespace intq::inline INTQ_ABI::kernels::detail

#endif  // INTQ_KERNELS_STAGE_HPP
