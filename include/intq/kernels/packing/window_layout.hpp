// SPDX-License-Identifier: MIT
//
// Where the staged windows of a layer lie in the workspace. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_WINDOW_LAYOUT_HPP
#define INTQ_KERNELS_PACKING_WINDOW_LAYOUT_HPP

#include <cstdint>

#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/kernels/window/geometry.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Sums of a tile of windows, in bytes: three pixels by 32 channels. Behind those of int16 codes are as many of 64
/// bits, for layers whose sums may leave 32.
inline constexpr index_t window_sums_bytes = 384;
constexpr index_t window_sums_bytes_of(index_t element) noexcept {
    return element == 2 ? 3 * window_sums_bytes : window_sums_bytes;
}
/// Pixels of a tile of windows.
inline constexpr index_t window_tile_pixels = 3;

/// The columns that some output pixels of a line read, behind the sums of a tile.
///
///     [column][row of the window][channel of the group]
///
/// A window is a run of columns, which neighbours share. Where taps of a row are not beside each other, or windows are,
/// each pixel has its own columns. A window of one tap is read where it lies, and only a tile whose last rows would be
/// read beyond the input is copied.
struct WindowLayout {
    bool in_place;
    bool shares;      // columns between pixels
    index_t column;   // bytes
    index_t pitch;    // columns from a pixel to the next
    index_t pixels;   // staged together
    index_t columns;  // of all of them
    index_t row;      // bytes of a tile's row
    index_t sums;     // bytes of the sums of a tile

    /// @param element  bytes of a code of the input
    constexpr WindowLayout(const PackedConv2d& packed, const ConvGeometry& geometry, index_t element) noexcept {
        constexpr index_t wanted_bytes = 4096;
        const Window2d& window = packed.window;
        const index_t width = window.kernel.width;
        in_place = packed.taps() == 1 && !detail::pads(window);
        shares = window.dilation.width == 1 && window.stride.width <= width;
        column = window.kernel.height * packed.group_inputs() * element;
        pitch = shares ? window.stride.width : width;
        row = packed.column_size() * element;
        sums = window_sums_bytes_of(element);
        pixels = window_tile_pixels;
        while (pixels < geometry.out.width && (columns_of(pixels + window_tile_pixels, width)) * column <= wanted_bytes)
            pixels += window_tile_pixels;
        columns = columns_of(pixels, width);
    }
    constexpr index_t bytes() const noexcept {
        return sums + (in_place ? window_tile_pixels * row : columns * column + row);
    }

private:
    constexpr index_t columns_of(index_t count, index_t width) const noexcept { return (count - 1) * pitch + width; }
};

/// The sums of a tile of a depthwise layer of int16, and behind them the places of its pixels' taps, of 32 bits.
///
///     [pixel][column of the window][row]
constexpr index_t window_taps_bytes(const PackedConv2d& packed) noexcept {
    return window_sums_bytes_of(size_of(DType::int16)) + window_tile_pixels * packed.taps() * 4;
}

/// The columns of a depthwise layer with windows of 3×3, sixteen channels of each, and behind them groups
/// (simd::WindowTile), which the sums replace.
///
/// Groups of a few sets of rows are summed together, so that a channel's weights serve some of them where lines are
/// short. A set of rows gives one output line, or two with a stride of 1.
struct DepthwiseWindowLayout {
    static constexpr index_t channels = depthwise_window_channels, column_bytes = 4 * channels,
                             group_bytes = 16 * channels;
    bool slides;
    index_t served;   // output lines of a set of rows
    index_t groups;   // of a set, for as many pairs of output columns
    index_t pitch;    // of a set: its groups, and with a stride of 2 the columns behind them
    index_t sets;     // summed together
    index_t columns;  // of a set

    constexpr DepthwiseWindowLayout(const Window2d& window, const ConvGeometry& geometry) noexcept {
        const index_t most = geometry.out.height == 1 ? 8 : 12;  // one line is a band, which shall be small
        const index_t stride = window.stride.width, extra = stride == 1 ? 0 : 1;
        slides = window.kernel == Size2d{3, 3} && window.dilation == Size2d{1, 1} && stride <= 2 &&
                 window.stride.height == stride;
        served = stride == 1 ? 2 : 1;
        const index_t pairs = (geometry.out.width + 1) / 2, parts = (pairs + most - extra - 1) / (most - extra);
        groups = (pairs + parts - 1) / parts;
        pitch = groups + extra;
        const index_t all = (geometry.out.height + served - 1) / served;
        sets = most / pitch < all ? most / pitch : all;
        columns = stride == 1 ? 2 * groups + 2 : 4 * pitch;
    }
    constexpr index_t bytes() const noexcept {
        return slides ? columns * column_bytes + sets * pitch * group_bytes : 0;
    }
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_WINDOW_LAYOUT_HPP
