// SPDX-License-Identifier: MIT
//
// Where int16 activations of a paired depthwise layer lie in the workspace. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_INT16_LINE_LAYOUT_HPP
#define INTQ_KERNELS_PACKING_INT16_LINE_LAYOUT_HPP

#include <cstdint>

#include "intq/kernels/window/geometry.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Channels of an int16 depthwise layer that are staged together: the codes of a word.
inline constexpr index_t int16_channels = 2;

/// The staged windows of some output lines, and behind them the weights of one channel.
///
///     [line][channel][column][pair of rows]
struct Int16LineLayout {
    index_t groups;   // pairs of a column's rows
    index_t columns;  // that an output line reads, with both margins
    index_t before;   // of them before those of the image, and those
    index_t inside;
    index_t line;   // words from a line to the next
    index_t lines;  // staged together: for a channel's parameters to serve some pixels where lines are short
    index_t words;  // of all lines

    constexpr Int16LineLayout(const Window2d& window, const ConvGeometry& geometry) noexcept {
        constexpr index_t wanted_pixels = 64;
        const index_t width = geometry.out.width, wanted = (wanted_pixels + width - 1) / width;
        groups = (window.kernel.height + 1) / 2;
        columns = (width - 1) * window.stride.width + (window.kernel.width - 1) * window.dilation.width + 1;
        before = smaller(window.padding.left, columns);
        inside = smaller(geometry.in.width, columns - before);
        line = int16_channels * columns * groups;
        lines = smaller(wanted, geometry.out.height);
        words = lines * line;
    }
    constexpr index_t bytes(const Window2d& window) const noexcept {
        return (words + window.kernel.width * groups) * static_cast<index_t>(sizeof(std::int32_t));
    }

private:
    static constexpr index_t smaller(index_t a, index_t b) noexcept { return a < b ? a : b; }
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_INT16_LINE_LAYOUT_HPP
