// SPDX-License-Identifier: MIT
//
// The depthwise skeleton of ISAs with tiles of windows, on int16: one filter a channel, channels in the lanes.
// Layer: kernels (docs/design.md section 5).
//
// A tile is three output pixels of a line by up to 32 channels, whose sums go through a block of memory as those of
// WindowGemm do. Each pixel has a list of places, one for each tap of its window, which all channels share.
#ifndef INTQ_KERNELS_CONV_TAP_DEPTHWISE_HPP
#define INTQ_KERNELS_CONV_TAP_DEPTHWISE_HPP

#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/window_codes.hpp"
#include "intq/kernels/packing/input_form.hpp"
#include "intq/simd/tiles/window_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// The skeleton, which all policies share.
template <class Backend> struct TapDepthwiseOf {
    using X = std::int16_t;
    using Tile = simd::WindowTile<Backend>;
    using Rest = WindowRest<X>;
    static constexpr index_t rows = simd::window_pixels, block = simd::window_channels;

    static INTQ_NEVER_INLINE void run(const ConvCall& call, const Rest& rest) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const Size2d out = call.geometry->out;
        auto* const places = reinterpret_cast<std::int32_t*>(call.workspace + window_sums_bytes_of(sizeof(X)));
        for (index_t line = 0; line < call.geometry->batch * out.height; ++line)
            for (index_t first = 0; first < out.width; first += rows) {
                const index_t count = out.width - first < rows ? out.width - first : rows;
                for (index_t p = 0; p < count; ++p) place_taps(call, line, first + p, places + p * packed.taps());
                run_tile(call, line * out.width + first, count, places, rest);
            }
    }

private:
    /// The place of each tap of a pixel, in bytes from the input.
    static void place_taps(const ConvCall& call, index_t line, index_t column, std::int32_t* to) noexcept {
        const PackedConv2d& packed = *call.packed;
        const auto& [kernel, stride, padding, dilation] = packed.window;
        const index_t above = padding_above(packed.window, *call.geometry);
        const Size2d in = call.geometry->in;
        const index_t image = line / call.geometry->out.height, row = line - image * call.geometry->out.height;
        const index_t top = row * stride.height - above, left = column * stride.width - padding.left;
        const index_t pixel = packed.in_channels * static_cast<index_t>(sizeof(X));
        const std::int32_t beside =
            Tile::padding_place(static_cast<const X*>(call.x), static_cast<const X*>(packed.padding_row));
        const index_t across = dilation.width * pixel, down = dilation.height * in.width * pixel;
        // A negative place is not that of an inside tap, so unsigned numbers compare both ends.
        const auto is_in = [](index_t at, index_t size) INTQ_ALWAYS_INLINE_LAMBDA {
            return static_cast<std::size_t>(at) < static_cast<std::size_t>(size);
        };
        index_t column_place = ((image * in.height + top) * in.width + left) * pixel;
        for (index_t kx = 0, x = left; kx < kernel.width; ++kx, x += dilation.width, column_place += across) {
            const bool has_column = is_in(x, in.width);
            index_t place = column_place;
            for (index_t ky = 0, y = top; ky < kernel.height; ++ky, y += dilation.height, place += down)
                *to++ = has_column && is_in(y, in.height) ? static_cast<std::int32_t>(place) : beside;
        }
    }

    /// All channels of `count` pixels from output pixel `first` on.
    static INTQ_NEVER_INLINE void run_tile(const ConvCall& call, index_t first, index_t count,
                                           const std::int32_t* places, const Rest& rest) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const index_t taps = packed.taps(), channels = packed.out_channels;
        auto* const sums = reinterpret_cast<std::int32_t*>(call.workspace);
        for (index_t c = 0; c < channels; c += block) {
            const index_t left = channels - c < block ? channels - c : block;
            simd::Int16TapSums tile{static_cast<const X*>(call.x) + c,
                                    places,
                                    static_cast<const std::int8_t*>(packed.weights) + c * taps,
                                    sums,
                                    static_cast<std::int32_t>(taps),
                                    static_cast<std::int32_t>(left),
                                    0};
            for (index_t p = 0; p < count; ++p) {
                tile.taps = places + p * taps;
                tile.sums = sums + p * block;
                if (rest.is_short)
                    Tile::add_taps(tile);
                else
                    add_wide(tile, const_cast<std::int64_t*>(wide_window_sums(sums)) + p * block);
            }
            WindowEpilogue<Backend, X>(packed, c, left, sums, rest).store(call, first * channels + c, count);
        }
    }

    /// In 64 bits: parts whose sums fit 32 are added up.
    static INTQ_NEVER_INLINE void add_wide(const simd::Int16TapSums& tile, std::int64_t* totals) noexcept {
        constexpr index_t most = simd::int16_products;
        simd::Int16TapSums part = tile;
        for (index_t c = 0; c < tile.channels; ++c) totals[c] = 0;
        for (index_t first = 0; first < tile.count; first += most) {
            part.count = static_cast<std::int32_t>(tile.count - first < most ? tile.count - first : most);
            part.between = 8 * (tile.count - part.count);
            part.taps = tile.taps + first;
            part.w = tile.w + 8 * first;
            Tile::add_taps(part);
            for (index_t c = 0; c < tile.channels; ++c) totals[c] += tile.sums[c];
        }
    }
};

}  // namespace detail

/// y[p][c] = epilogue(bias[c] + sum over taps of x[tap of p][c] · w[tap][c])
///
/// The types are those of WindowGemm on int16.
///
/// Result   exact: sums wrap, and the packer proved that the true sum fits
/// Memory   conv2d_workspace_size(): the sums and the taps of a tile. The calling thread does all work
/// Cost     2 · pixels · channels · taps operations; padding is multiplied like pixels
template <class Backend, class Policy, class X, class Y, class Sumin> struct TapDepthwise {
    static INTQ_NEVER_INLINE void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.lists_taps() && packed.depthwise == Backend::depthwise_int16x8_packing);
        INTQ_ASSERT(packed.has_sumin == (!std::is_same_v<Sumin, no_sumin>));
        detail::TapDepthwiseOf<Backend>::run(
            call, detail::WindowRest<X>::template of<simd::lanes<Backend>, Policy, Y, Sumin>(packed));
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_TAP_DEPTHWISE_HPP
