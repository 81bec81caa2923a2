// SPDX-License-Identifier: MIT
//
// Where paired activations lie in the workspace. Layer: kernels.
#ifndef INTQ_KERNELS_PACKING_PAIRED_LAYOUT_HPP
#define INTQ_KERNELS_PACKING_PAIRED_LAYOUT_HPP

#include <cstdint>

#include "intq/arith/target.hpp"
#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/kernels/window/geometry.hpp"
#include "intq/simd/base/tags.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Whether a layer has one pixel, whose window is runs of whole words in the image, as a linear layer's.
constexpr bool is_one_window(const PackedConv2d& packed, const ConvGeometry& geometry) noexcept {
    const Window2d& window = packed.window;
    return geometry.batch == 1 && geometry.out_pixels() == 1 && packed.groups == 1 && !pads(window) &&
           window.dilation.width == 1 && window.kernel.width * packed.in_channels % 4 == 0;
}

/// Bytes of a tile of paired activations.
constexpr index_t paired_words_bytes(const PackedConv2d& packed, const ConvGeometry& geometry) noexcept {
    return (is_one_window(packed, geometry) ? 1 : simd::paired_rows) * packed.column_size() * 2;
}

/// The same with the codes of a window, which are gathered where its parts are no whole words.
constexpr index_t paired_input_bytes(const PackedConv2d& packed, const ConvGeometry& geometry) noexcept {
    const index_t gathered = packed.group_inputs() % 4 == 0 ? 0 : packed.column_size() + 4;
    return paired_words_bytes(packed, geometry) + gathered * size_of(packed.input_dtype);
}

/// Whole panels of a group, whose short words lie side by side for all tiles; of layers that have whole tiles.
constexpr index_t paired_panels(const PackedConv2d& packed, const ConvGeometry& geometry) noexcept {
    const bool is_int16 = has_16_bit_multipliers(packed) && packed.output_dtype == DType::int16;
    const bool is_int8 =
        packed.requantize == arith::RequantizeRule::double_rounding && packed.output_dtype == DType::int8;
    return (is_int8 || is_int16) && !packed.has_sumin && geometry.batch * geometry.out_pixels() >= simd::paired_rows
               ? packed.group_outputs() / 2
               : 0;
}

/// All that a run stages.
constexpr index_t paired_bytes(const PackedConv2d& packed, const ConvGeometry& geometry) noexcept {
    return paired_input_bytes(packed, geometry) +
           paired_panels(packed, geometry) * static_cast<index_t>(sizeof(simd::PairedChannels));
}

/// Channels of a depthwise layer that are staged together: the bytes of a word.
inline constexpr index_t paired_channels = 4;

/// The staged lines of a depthwise layer, and behind them the weights of one channel as pairs.
///
///     [line][column][channel][pair of rows]
///
/// A line holds the columns that an output line reads, margins included; the next one begins in the margin that both
/// have. With windows of 3×3 that move by one or two lines, it has their four or five rows and serves two output lines.
/// One output line has one that serves it alone.
struct PairedLineLayout {
    bool slides;     // 3×3 windows, which move by one or two
    index_t served;  // output lines of a staged one
    index_t rows;    // of the image in a staged line
    index_t lines;   // staged together: for a channel's parameters to serve some pixels where lines are short
    index_t groups;  // pairs of a column's rows
    index_t column;  // words of a column, with all channels
    index_t line;    // words from a line to the next
    index_t before;  // columns of a line before those of the image, and those
    index_t inside;
    index_t all_columns;  // of a line, with both margins
    index_t words;        // of all lines

    static constexpr index_t most_lines = 8;

    constexpr PairedLineLayout(const Window2d& window, const ConvGeometry& geometry) noexcept {
        constexpr index_t wanted_pixels = 64;
        const index_t stride = window.stride.width, out = geometry.out.width;
        slides = window.kernel == Size2d{3, 3} && window.dilation == Size2d{1, 1} && stride <= 2 &&
                 window.stride.height == stride;
        served = slides && geometry.out.height > 1 ? 2 : 1;
        rows = window.kernel.height + (served - 1) * stride;
        const index_t wanted = (wanted_pixels + out * served - 1) / (out * served);
        const index_t most = (geometry.out.height + served - 1) / served;
        const index_t times = (most + smaller(wanted, most_lines) - 1) / smaller(wanted, most_lines);
        lines = (most + times - 1) / times;
        groups = (rows + 1) / 2;
        column = groups * paired_channels;
        all_columns = (out - 1) * stride + (window.kernel.width - 1) * window.dilation.width + 1;
        before = smaller(window.padding.left, all_columns);
        inside = smaller(geometry.in.width, all_columns - before);
        const index_t pitch = all_columns - smaller(before, all_columns - before - inside);
        line = pitch * column;
        words = ((lines - 1) * pitch + all_columns) * column;
    }
    /// Whether the rows of a pair are neighbours; otherwise those of a word are g and g + 2.
    constexpr bool pairs_neighbours(const Window2d& window) const noexcept {
        return !slides || window.stride.height == 2;
    }
    constexpr index_t weights(const Window2d& window) const noexcept { return window.kernel.width * groups; }
    constexpr index_t bytes(const Window2d& window) const noexcept {
        return (words + weights(window)) * static_cast<index_t>(sizeof(std::int32_t));
    }

private:
    static constexpr index_t smaller(index_t a, index_t b) noexcept { return a < b ? a : b; }
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_PACKING_PAIRED_LAYOUT_HPP
