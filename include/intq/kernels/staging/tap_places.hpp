// SPDX-License-Identifier: MIT
//
// Lists of the places that the windows of output pixels read, which all channels share, and layers that are computed by
// them. Layer: kernels.
#ifndef INTQ_KERNELS_STAGING_TAP_PLACES_HPP
#define INTQ_KERNELS_STAGING_TAP_PLACES_HPP

#include <cstdint>

#include "intq/kernels/packing/conv_call.hpp"
#include "intq/simd/tiles/tap_windows.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

inline constexpr index_t window_taps = simd::window_taps;

/// The places of 3×3 windows on int8, of `count` pixels from output pixel `first` on: [pixel][column][row].
///
/// Where the tile has move_places(), a pixel whose window has no column of padding, nor that before it, has the places
/// of the one before, moved.
template <class Tile>
INTQ_ALWAYS_INLINE void list_windows(const ConvCall& call, simd::TapOrigin origin, index_t first, index_t count,
                                     std::int32_t* to) noexcept {
    const Window2d window = call.packed->window;  // by value: places are stored between reads of it
    const Size2d in = call.geometry->in, out = call.geometry->out;
    const auto pixel = static_cast<std::int32_t>(call.packed->in_channels);
    const std::int32_t* const end = to + count * window_taps;
    // A negative coordinate is not inside either: unsigned, it is a large one.
    const auto is_in = [](index_t at, index_t size) INTQ_ALWAYS_INLINE_LAMBDA {
        return static_cast<std::size_t>(at) < static_cast<std::size_t>(size);
    };
    index_t line = first / out.width, column = first - line * out.width;
    for (; to != end; ++line, column = 0) {
        const index_t image = line / out.height, top = (line - image * out.height) * window.stride.height;
        std::int32_t place[3], mask[3];  // of the first pixel of a row; all ones, or zero where every pixel is padding
        for (index_t ky = 0, y = top - padding_above(window, *call.geometry); ky < 3;
             ++ky, y += window.dilation.height) {
            const bool is_inside = is_in(y, in.height);
            place[ky] = is_inside ? origin.image + static_cast<std::int32_t>((image * in.height + y) * in.width) * pixel
                                  : origin.padding;
            mask[ky] = is_inside ? -1 : 0;
        }
        for (; column < out.width && to != end; ++column) {
            const index_t left = column * window.stride.width - window.padding.left;
            for (index_t kx = 0, x = left; kx < 3; ++kx, x += window.dilation.width, to += 3) {
                const bool is_inside = is_in(x, in.width);
                for (index_t ky = 0; ky < 3; ++ky)
                    to[ky] = is_inside ? place[ky] + (static_cast<std::int32_t>(x) * pixel & mask[ky]) : origin.padding;
            }
            if constexpr (requires { Tile::move_places(to, mask, pixel, 1); }) {
                const index_t room = in.width - 1 - 2 * window.dilation.width - left;  // behind the window
                index_t more = left < 0 || room < 0 ? 0 : room / window.stride.width;
                if (more > out.width - 1 - column) more = out.width - 1 - column;
                if (more > (end - to) / window_taps) more = (end - to) / window_taps;
                if (more == 0) continue;
                Tile::move_places(to, mask, static_cast<std::int32_t>(window.stride.width) * pixel, more);
                to += more * window_taps;
                column += more;
            }
        }
    }
}

/// The same for tiles without it, whose lists are short: small code.
INTQ_COLD inline void list_few_windows(const ConvCall& call, simd::TapOrigin origin, index_t first, index_t count,
                                       std::int32_t* to) noexcept {
    list_windows<void>(call, origin, first, count, to);
}

/// Output pixels whose windows are to be listed at once for a loop over taps, or 0 where lines are long, channels are
/// no whole blocks, or the workspace is small.
///
/// @param room  bytes of the workspace for places
template <class Tile> INTQ_ALWAYS_INLINE index_t listed_pixels(const ConvCall& call, index_t room) noexcept {
    constexpr index_t few = 8;
    const PackedConv2d& packed = *call.packed;
    const Size2d out = call.geometry->out;
    if (!packed.scaled_is_small || packed.out_channels % Tile::tap_channels != 0) return 0;
    if (out.width > (packed.window.stride.width == 1 ? Tile::tap_line : Tile::tap_line_2)) return 0;
    const index_t most = (room - simd::moved_behind) / (window_taps * static_cast<index_t>(sizeof(std::int32_t)));
    const index_t all = call.geometry->batch * call.geometry->out_pixels();
    return most >= (all < few ? all : few) ? (all < most ? all : most) : 0;
}

/// The codes of all windows, some pixels at a time.
///
/// @param padding  a pixel of it
/// @param places   of `listed` pixels
/// @param store    store(TapWindows&): the tile's store_taps
template <class Tile, class Store>
INTQ_ALWAYS_INLINE void run_listed(const ConvCall& call, const std::int8_t* padding, std::int32_t* places,
                                   index_t listed, Store&& store) noexcept {
    const PackedConv2d& packed = *call.packed;
    const auto* const x = static_cast<const std::int8_t*>(call.x);
    const index_t pixels = call.geometry->batch * call.geometry->out_pixels();
    for (index_t first = 0; first < pixels; first += listed) {
        const index_t left = pixels - first, count = left < listed ? left : listed;
        if constexpr (requires(const std::int32_t(&mask)[3]) { Tile::move_places(places, mask, 0, count); })
            list_windows<Tile>(call, Tile::tap_origin(x, padding), first, count, places);
        else
            list_few_windows(call, Tile::tap_origin(x, padding), first, count, places);
        simd::TapWindows windows{places,
                                 static_cast<const std::int8_t*>(packed.weights),
                                 static_cast<const std::int32_t*>(packed.bias),
                                 packed.words,
                                 packed.words + packed.padded_outputs(),
                                 static_cast<std::int8_t*>(call.y) + first * packed.out_channels,
                                 static_cast<std::int32_t>(packed.out_channels / Tile::tap_channels),
                                 static_cast<std::int32_t>(count),
                                 static_cast<std::int32_t>(packed.out_channels),
                                 packed.codes.zero_point,
                                 packed.codes.lowest,
                                 packed.codes.highest,
                                 x,
                                 padding};
        store(windows);
    }
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STAGING_TAP_PLACES_HPP
