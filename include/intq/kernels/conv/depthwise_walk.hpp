// SPDX-License-Identifier: MIT
//
// Lines of a 3×3 depthwise window that a tile sums in a loop of its own. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_DEPTHWISE_WALK_HPP
#define INTQ_KERNELS_CONV_DEPTHWISE_WALK_HPP

#include "intq/kernels/conv/depthwise_line.hpp"
#include "intq/simd/tiles/depthwise_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// sums[line][pixel][channel] of a block, as DepthwiseLine computes them, for a few short lines or for a part of a long
/// one. Where the rows lie is found once for all blocks.
///
/// @tparam Tile  with sum_columns_by_one and sum_columns_by_two
template <class Tile, class Acc> struct DepthwiseWalk {
    using X = typename Tile::element;
    static constexpr index_t most_lines = 8;
    /// Pixels whose sums wait for the epilogue together.
    static constexpr index_t most_pixels = 64;

    /// Whether the windows of a line meet at most one column of padding at either end.
    static bool takes(const Window2d& window, index_t in_width, index_t out_width) noexcept {
        return DepthwiseLine<Tile, Acc>::slides(window, 3) && window.padding.left <= 1 &&
               (out_width - 1) * window.stride.width + 3 - window.padding.left - in_width <= 1;
    }

    /// Lines of a task: as many as fill a chunk, but among several threads no more than leave them tasks.
    static index_t lines_together(index_t lines, index_t out_width, bool is_serial) noexcept {
        constexpr index_t wanted_tasks = 8;
        if (2 * out_width > most_pixels) return 1;
        const index_t fitting = quotient(most_pixels, out_width);
        const index_t shared = is_serial || lines < wanted_tasks ? 1 : quotient(lines, wanted_tasks);
        const index_t wanted = is_serial ? most_lines : shared;
        const index_t most = fitting < most_lines ? fitting : most_lines;
        return wanted < most ? wanted : most;
    }

    /// @param source   of the next line, at channel 0
    /// @param behind  elements of the input that follow the line's image, or fewer
    /// @pre    takes(), and fewer than most_lines lines before
    void add_line(const LineSource<X>& source, index_t behind, index_t first, index_t count) noexcept {
        const PixelPlaces<X, 3> places(source);
        const index_t below = source.height - 1 - source.top - 2 * source.window.dilation.height;  // rows
        if (below > 0) behind += below * source.width * source.channels;
        if (lines_before_end_ == lines_ && behind >= Tile::columns - 1) ++lines_before_end_;
        const index_t stride = source.window.stride.width, begin = first * stride - source.window.padding.left;
        const index_t end = begin + (count - 1) * stride + 3;
        simd::ColumnWalk& walk = walks_[lines_++];
        walk.left = begin < 0 ? 1 : 0;
        walk.right = end > source.width ? 1 : 0;
        walk.pixels = count - walk.right;
        walk.padding = source.padding;
        for (int r = 0; r < 3; ++r) {
            walk.rows[r] = places.inside(r, begin + walk.left);
            walk.steps[r] = places.rows[r].mask & (source.channels * index_t{sizeof(X)});
        }
    }

    /// The first lines that can sum a block: all, or where channels are missing those behind whose last pixel the input
    /// has as many elements. They find the bytes of another pixel in place of these channels.
    index_t lines_of(index_t channels) const noexcept { return channels < Tile::columns ? lines_before_end_ : lines_; }

    /// The first `lines` lines, one behind the other.
    INTQ_NEVER_INLINE void sum(const simd::ColumnBlock& given, index_t stride, index_t lines) const noexcept {
        simd::ColumnBlock block = given;
        if (stride == 1)
            for (index_t line = 0; line < lines; ++line) Tile::sum_columns_by_one(walks_[line], block);
        else
            for (index_t line = 0; line < lines; ++line) Tile::sum_columns_by_two(walks_[line], block);
    }

private:
    simd::ColumnWalk walks_[array_size(most_lines)];
    index_t lines_ = 0, lines_before_end_ = 0;
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_DEPTHWISE_WALK_HPP
