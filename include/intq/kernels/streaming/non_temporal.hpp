// SPDX-License-Identifier: MIT
//
// Large results of streaming kernels, written by non-temporal stores, which go past the caches. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_NON_TEMPORAL_HPP
#define INTQ_KERNELS_STREAMING_NON_TEMPORAL_HPP

#include "intq/core/workspace.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/simd/base/non_temporal_store.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Results of these sizes, in bytes, are written by non-temporal stores. The reader of a smaller result finds it in a
/// cache. Beyond the maximum, plain stores were measured to be as fast (bench/RESULTS.md has both).
inline constexpr index_t min_non_temporal = index_t{8} << 20;
inline constexpr index_t max_non_temporal = index_t{64} << 20;

constexpr bool is_non_temporal(index_t bytes) noexcept {
    return simd::has_non_temporal_store && bytes >= min_non_temporal && bytes <= max_non_temporal;
}

/// Calls body(first, count, to) for the pieces of [0, size), each computed into a block that stays in the nearest
/// cache, and writes them to out. body reads nothing of out beyond its own piece.
template <class T, class Body> void write_non_temporal(T* out, index_t size, Body&& body) {
    if constexpr (simd::has_non_temporal_store) {
        constexpr index_t block_size = 4096 / static_cast<index_t>(sizeof(T));
        alignas(buffer_alignment) T block[array_size(block_size)];
        for (index_t first = 0; first < size; first += block_size) {
            const index_t count = smaller(block_size, size - first);
            body(first, count, block);
            simd::store_non_temporal(out + first, block, count * static_cast<index_t>(sizeof(T)));
        }
        simd::store_fence();
    }
}

/// An operation of channel_walk.hpp with one input, its output written past the caches.
template <class Op> struct NonTemporal {
    const Op& op;

    template <class X, class Y> void run(index_t channel, index_t count, const X* x, Y* out) const {
        write_non_temporal(out, count,
                           [&](index_t first, index_t piece, Y* to) { op.run(channel, piece, x + first, to); });
    }
    /// A block would hold too few rows to pay for fetching the parameters of their channels again.
    template <class X, class Y> void rows(index_t first, index_t channels, index_t rows, const X* x, Y* out) const {
        op.rows(first, channels, rows, x, out);
    }
};

/// walk_blocks() of an operation with one input, by the size of its result.
template <class Op, class X, class Y>
void walk_blocks_to(const Op& op, const ChannelBlocks& blocks, const Executor& executor, const X* x, Y* out) {
    if constexpr (simd::has_non_temporal_store)
        if (is_non_temporal(blocks.size() * static_cast<index_t>(sizeof(Y))))
            return walk_blocks(NonTemporal<Op>{op}, blocks, executor, x, out);
    walk_blocks(op, blocks, executor, x, out);
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_NON_TEMPORAL_HPP
