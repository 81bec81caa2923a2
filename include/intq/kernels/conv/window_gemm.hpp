// SPDX-License-Identifier: MIT
//
// The GEMM skeleton of ISAs that sum the products of two vectors in a general register: convolution and linear on int8,
// and on int16 with weights of int8. Layer: kernels (docs/design.md section 5).
//
// A tile is three output pixels by up to 32 output channels, two at a time. Its sums go through a block of memory,
// where four channels become codes at once. Windows of one tap are read where they lie; others are staged for some
// pixels of a line, which share their columns.
#ifndef INTQ_KERNELS_CONV_WINDOW_GEMM_HPP
#define INTQ_KERNELS_CONV_WINDOW_GEMM_HPP

#include <cstring>

#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/window_codes.hpp"
#include "intq/kernels/staging/window_stage.hpp"
#include "intq/simd/tiles/window_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// The skeleton, which all policies share.
template <class Backend, class X> struct WindowGemmOf {
    using Tile = simd::WindowTile<Backend>;
    using Rest = WindowRest<X>;
    static constexpr index_t rows = simd::window_pixels, block = simd::window_channels;
    static constexpr index_t element = static_cast<index_t>(sizeof(X)), products = 16 / element;  // of a vector
    static_assert(rows == window_tile_pixels && rows * block * 4 == window_sums_bytes);

    static INTQ_NEVER_INLINE void run(const ConvCall& call, const Rest& rest) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const ConvGeometry& geometry = *call.geometry;
        if constexpr (!INTQ_SMALL)
            if (packed.taps() == 1 && geometry.batch * geometry.in_pixels() == 1 && packed.groups == 1 &&
                geometry.out_pixels() == 1 && packed.column_size() == packed.in_channels)
                return run_vector(call, rest);
        run_windows(call, rest);
    }

private:
    /// One code for all layers of a network: known extents would save 2 % of its instructions.
    static INTQ_OUT_OF_LINE void run_windows(const ConvCall& call, const Rest& rest) INTQ_NOEXCEPT {
        for_each_window_run<Backend, X>(call,
                                        [&](index_t group, const WindowRun& run, const WindowLayout& layout)
                                            INTQ_ALWAYS_INLINE_LAMBDA { run_pixels(call, group, run, layout, rest); });
    }
    /// A linear layer on one vector.
    static INTQ_NEVER_INLINE void run_vector(const ConvCall& call, const Rest& rest) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        simd::WindowSums tile{};
        for (const std::int8_t*& x : tile.x) x = static_cast<const std::int8_t*>(call.x);  // parts of 504 read all
        tile.w = static_cast<const std::int8_t*>(packed.weights);
        tile.sums = reinterpret_cast<std::int32_t*>(call.workspace);
        tile.steps = static_cast<std::int32_t>(packed.in_channels / products - 1);
        for (index_t c = 0; c < packed.out_channels; c += block) {
            const index_t count = packed.out_channels - c < block ? packed.out_channels - c : block;
            tile.pairs = static_cast<std::int32_t>((count + 1) / 2);
            add(tile, 1, rest);
            WindowEpilogue<Backend, X>(packed, c, count, tile.sums, rest).store(call, c, 1);
            tile.w += block * packed.in_channels;
        }
    }

    static INTQ_OUT_OF_LINE void run_pixels(const ConvCall& call, index_t group, const WindowRun& pixels,
                                            const WindowLayout& layout, const Rest& rest) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        auto* const sums = reinterpret_cast<std::int32_t*>(call.workspace);
        const index_t outputs = packed.group_outputs(), stride = packed.out_channels;
        for (index_t c = 0; c < outputs; c += block) {
            const index_t count = outputs - c < block ? outputs - c : block, at = group * packed.group_stride + c;
            simd::WindowSums tile{};
            tile.w = static_cast<const std::int8_t*>(packed.weights) + at * packed.column_size();
            tile.sums = sums;
            tile.steps = static_cast<std::int32_t>(layout.row / 16 - 1);
            tile.pairs = static_cast<std::int32_t>((count + 1) / 2);
            WindowEpilogue<Backend, X> epilogue(packed, at, count, sums, rest);
            index_t to = pixels.first * stride + group * outputs + c;
            const std::int8_t* x = pixels.x;
            for (index_t p = 0; p < pixels.count; p += rows, x += rows * pixels.pitch, to += rows * stride) {
                const index_t left = pixels.count - p < rows ? pixels.count - p : rows;
                for (index_t i = 0; i < rows; ++i) tile.x[i] = x + (i < left ? i : 0) * pixels.pitch;
                if (layout.in_place) keep_inside(call, layout, left, tile);
                add(tile, left, rest);
                epilogue.store(call, to, left);
            }
        }
    }

    /// The sums of a tile, of which `left` pixels are wanted.
    static INTQ_ALWAYS_INLINE void add(const simd::WindowSums& tile, index_t left, const Rest& rest) noexcept {
        if constexpr (element == 1) {
            if (!INTQ_SMALL && left == 1)
                Tile::add_one(tile);
            else
                Tile::add(tile);
        } else if (!rest.is_short) {
            add_wide(tile);
        } else if (!INTQ_SMALL && left == 1) {
            Tile::add_one_int16(tile);
        } else {
            Tile::add_int16(tile);
        }
    }
    /// In 64 bits: parts whose sums fit 32 are added up, a pair of channels at a time.
    static INTQ_NEVER_INLINE void add_wide(const simd::WindowSums& tile) noexcept {
        constexpr index_t most = simd::int16_products / products;
        const index_t vectors = tile.steps + 1;
        simd::WindowSums part = tile;
        part.pairs = 1;
        for (index_t pair = 0; pair < tile.pairs; ++pair) {
            std::int64_t totals[rows][2] = {};
            for (index_t first = 0; first < vectors; first += most) {
                part.steps = static_cast<std::int32_t>((vectors - first < most ? vectors - first : most) - 1);
                for (index_t p = 0; p < rows; ++p) part.x[p] = tile.x[p] + 16 * first;
                part.w = tile.w + 2 * products * (pair * vectors + first);
                Tile::add_int16(part);
                for (index_t p = 0; p < rows; ++p)
                    for (index_t c = 0; c < 2; ++c) totals[p][c] += tile.sums[p * block + c];
            }
            auto* const wide = const_cast<std::int64_t*>(wide_window_sums(tile.sums)) + 2 * pair;
            for (index_t p = 0; p < rows; ++p)
                for (index_t c = 0; c < 2; ++c) wide[p * block + c] = totals[p][c];
        }
    }

    /// Replaces rows that are read beyond the input's end, where the weights are zero, by copies.
    static INTQ_ALWAYS_INLINE void keep_inside(const ConvCall& call, const WindowLayout& layout, index_t left,
                                               simd::WindowSums& tile) noexcept {
        const PackedConv2d& packed = *call.packed;
        const index_t inputs = packed.group_inputs() * element;
        if (inputs == layout.row) return;
        const index_t size = call.geometry->batch * call.geometry->in_pixels() * packed.in_channels * element;
        const std::int8_t* const end = static_cast<const std::int8_t*>(call.x) + size;
        if (end - tile.x[left - 1] >= layout.row) return;
        auto* to = reinterpret_cast<std::int8_t*>(call.workspace) + layout.sums;
        for (index_t i = 0; i < rows; ++i, to += layout.row) {
            std::memcpy(to, tile.x[i], static_cast<std::size_t>(inputs));
            tile.x[i] = to;
        }
    }
};

}  // namespace detail

/// y = epilogue(bias + sum over the window and channels of x·w) for the types of one registry row.
///
/// @tparam X  type of the input
/// @tparam Y  public type of the output
/// @tparam E  element type of the fused add, or no_sumin
///
/// Result   exact: sums wrap, and the packer proved that the true sum fits
/// Memory   conv2d_workspace_size(): the staged columns and the sums of a tile. The calling thread does all work
/// Cost     2 · pixels · channels · window operations; padding is multiplied like pixels
template <class Backend, class Policy, class X, class Y, class Sumin> struct WindowGemm {
    static INTQ_NEVER_INLINE void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.packing == (sizeof(X) == 1 ? Backend::int8_packing : Backend::int16x8_packing));
        INTQ_ASSERT(!packed.is_depthwise && packed.has_sumin == (!std::is_same_v<Sumin, no_sumin>));
        using Rest = detail::WindowRest<X>;
        detail::WindowGemmOf<Backend, X>::run(call, Rest::template of<simd::lanes<Backend>, Policy, Y, Sumin>(packed));
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_WINDOW_GEMM_HPP
