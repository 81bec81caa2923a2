// SPDX-License-Identifier: MIT
//
// The inner part of the depthwise skeleton: sums of a line of output pixels on a backend's tile. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_DEPTHWISE_LINE_HPP
#define INTQ_KERNELS_CONV_DEPTHWISE_LINE_HPP

#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/window/geometry.hpp"
#include "intq/simd/base/primitives.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Where the windows of one line of output pixels find their elements, for the channels from one on.
template <class X> struct LineSource {
    const X* image;    // of the batch, at the first channel
    const X* padding;  // a pixel of zero points, at the same channel
    const Window2d& window;
    index_t channels, height, width;
    index_t top;  // the image's row, or one above or below it, of the window's first
    std::int32_t zero_point;

    struct Row {
        const X* from;
        index_t mask;  // all ones, or zero where every pixel is padding
        INTQ_ALWAYS_INLINE const X* at(index_t offset) const noexcept { return from + (offset & mask); }
    };
    INTQ_ALWAYS_INLINE Row row(index_t ky) const noexcept {
        const index_t y = top + ky * window.dilation.height;
        if (y < 0 || y >= height) return {padding, 0};
        return {image + y * width * channels, -1};
    }
};

/// sums[pixel][place] = bias[place] + sum over the window of x·w, for pixels [first, first + count) of a line, in the
/// order of the packing.
///
/// @tparam Tile  the register tile, simd::DepthwiseTile<…>: keyed only on operand types, so that code stays small
template <class Tile, class Acc> struct DepthwiseLine {
    using X = typename Tile::element;
    using Weight = typename Tile::weight;
    using L = typename Tile::L;

    /// One block of channels of the packed layer.
    struct Block {
        const Weight* weights;
        const Acc* bias;
        index_t channels;  // those that exist
    };

    template <int Vectors>
    static void run(const LineSource<X>& source, const Block& block, index_t first, index_t count, Acc* sums) noexcept {
        const Window2d& window = source.window;
        if (window.dilation.width == 1 && window.stride.width <= 2) {
            const bool once = window.stride.width == 1;
            if (window.kernel == Size2d{3, 3})
                return once ? slide<3, 1, Vectors>(source, block, first, count, sums)
                            : slide<3, 2, Vectors>(source, block, first, count, sums);
            if (window.kernel == Size2d{5, 5})
                return once ? slide<5, 1, Vectors>(source, block, first, count, sums)
                            : slide<5, 2, Vectors>(source, block, first, count, sums);
        }
        visit<Vectors>(source, block, first, count, sums);
    }

private:
    static constexpr int depth = static_cast<int>(Tile::depth);

    /// A square window slides over the line: each column is interleaved once and added to all pixels in flight, of
    /// which the oldest is done with its last column.
    template <int Kernel, int Stride, int Vectors>
    static INTQ_NEVER_INLINE void slide(const LineSource<X>& source, const Block& block, index_t first, index_t count,
                                        Acc* sums) noexcept {
        constexpr int in_flight = (Kernel - 1) / Stride + 1, groups = (Kernel + depth - 1) / depth;
        constexpr bool keeps = Kernel * groups * Vectors <= Tile::kept_weights;
        typename Tile::template Weights<Vectors> kept[array_size(keeps ? Kernel * groups : 1)];
        if constexpr (keeps) {
            INTQ_UNROLL
            for (int i = 0; i < Kernel * groups; ++i) kept[i].load(block.weights + i * group_size<Vectors>);
        }
        typename LineSource<X>::Row rows[array_size(Kernel)];
        INTQ_UNROLL
        for (int r = 0; r < Kernel; ++r) rows[r] = source.row(r);
        typename Tile::template Sums<Vectors> pixel[array_size(in_flight)];
        // By value: sums are stored between reads of these.
        const index_t width = source.width, stride = source.channels, channels = block.channels;
        const Weight* const weights = block.weights;
        const Acc* const bias = block.bias;
        typename Tile::template Column<Vectors> padding;
        padding.fill(source.zero_point);

        // Column `kx` of the oldest pixel is column kx - Stride of the next one, and so on.
        const auto add_column = [&](index_t x, int last_kx) INTQ_ALWAYS_INLINE_LAMBDA {
            const bool is_inside = x >= 0 && x < width;
            const index_t offset = x * stride;
            simd::unroll<groups>([&](auto g) INTQ_ALWAYS_INLINE_LAMBDA {
                constexpr int count_rows = Kernel - g * depth < depth ? Kernel - g * depth : depth;
                typename Tile::template Column<Vectors> column;
                if (is_inside) {
                    const X* from[array_size(count_rows)];
                    INTQ_UNROLL
                    for (int r = 0; r < count_rows; ++r) from[r] = rows[g * depth + r].at(offset);
                    column.template load<count_rows>(from, channels);
                } else {
                    column = padding;
                }
                INTQ_UNROLL
                for (int p = 0; p < in_flight; ++p) {
                    const int kx = last_kx - p * Stride;
                    if (kx < 0) continue;
                    if (kx == 0 && g == 0) pixel[p].start(bias);
                    if constexpr (keeps) {
                        pixel[p].add(column, kept[kx * groups + g]);
                    } else {
                        typename Tile::template Weights<Vectors> of_column;
                        of_column.load(weights + (kx * groups + g) * group_size<Vectors>);
                        pixel[p].add(column, of_column);
                    }
                }
            });
        };
        // Columns that the first pixel shares with none. In a large window they are not worth separate code: they are
        // then also added to pixels that are discarded.
        constexpr int shared = Kernel - Stride, unwanted = Kernel > 3 ? in_flight - 1 : 0;
        INTQ_UNROLL
        for (int p = 0; p < unwanted; ++p) pixel[p].start(bias);
        index_t x = (first - unwanted) * Stride - source.window.padding.left + shared;
        if constexpr (unwanted == 0) {
            INTQ_UNROLL
            for (int kx = 0; kx < shared; ++kx) add_column(x - shared + kx, kx);
        }
        for (index_t i = -unwanted; i < count; ++i, x += Stride) {
            INTQ_UNROLL
            for (int step = 0; step < Stride; ++step) add_column(x + step, shared + step);
            if (i >= 0) store<Vectors>(pixel[0], sums + i * Vectors * L::width());
            INTQ_UNROLL
            for (int p = 0; p + 1 < in_flight; ++p) pixel[p] = pixel[p + 1];
        }
    }

    /// Any window, pixel by pixel.
    template <int Vectors>
    static INTQ_NEVER_INLINE void visit(const LineSource<X>& source, const Block& block, index_t first, index_t count,
                                        Acc* sums) noexcept {
        const Window2d& window = source.window;
        for (index_t i = 0; i < count; ++i, sums += Vectors * L::width()) {
            typename Tile::template Sums<Vectors> pixel;
            pixel.start(block.bias);
            const Weight* w = block.weights;
            index_t x = (first + i) * window.stride.width - window.padding.left;
            for (index_t kx = 0; kx < window.kernel.width; ++kx, x += window.dilation.width) {
                const bool is_inside = x >= 0 && x < source.width;
                for (index_t ky = 0; ky < window.kernel.height; ky += depth, w += group_size<Vectors>) {
                    typename Tile::template Column<Vectors> column;
                    if (is_inside) {
                        const X* from[array_size(depth)];
                        for (index_t r = 0; r < depth; ++r)
                            from[r] = ky + r < window.kernel.height ? source.row(ky + r).at(x * source.channels)
                                                                    : source.padding;
                        column.template load<depth>(from, block.channels);
                    } else {
                        column.fill(source.zero_point);
                    }
                    typename Tile::template Weights<Vectors> weights;
                    weights.load(w);
                    pixel.add(column, weights);
                }
            }
            store<Vectors>(pixel, sums);
        }
    }

    template <int Vectors>
    static INTQ_ALWAYS_INLINE void store(const typename Tile::template Sums<Vectors>& pixel, Acc* sums) noexcept {
        INTQ_UNROLL
        for (int v = 0; v < Vectors; ++v) LaneSum<L, Acc>::store(sums + v * L::width(), pixel.drain(v));
    }

    /// Weights of one group of rows.
    template <int Vectors> static constexpr index_t group_size = Vectors* L::width() * Tile::depth;
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_DEPTHWISE_LINE_HPP
