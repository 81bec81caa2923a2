// SPDX-License-Identifier: MIT
//
// The inner part of the depthwise skeleton: sums of a line of output pixels on a backend's tile. Layer: kernels.
#ifndef INTQ_KERNELS_DEPTHWISE_LINE_HPP
#define INTQ_KERNELS_DEPTHWISE_LINE_HPP

#include "intq/kernels/epilogue.hpp"
#include "intq/kernels/geometry.hpp"
#include "intq/simd/primitives.hpp"

namespace intq::inline INTQ_ABI::kernels::detail {

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
        index_t mask;  // all ones, or zero where every pixel is that of padding
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
/// @tparam Tile  the register tile, simd::DepthwiseTile<…>: keyed on operand types alone, so that code stays small
template <class Tile, class Acc> struct DepthwiseLine {
    using X = typename Tile::element;
    using W = typename Tile::weight;
    using L = typename Tile::L;

    /// One block of channels of the packed layer.
    struct Block {
        const W* weights;
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
        constexpr int in_flight = (Kernel - 1) / Stride + 1, shared = Kernel - Stride;
        constexpr int groups = (Kernel + depth - 1) / depth;
        constexpr bool keeps = Kernel * groups * Vectors <= Tile::kept_weights;
        typename Tile::template Weights<Vectors> kept[keeps ? Kernel * groups : 1];
        if constexpr (keeps)
            simd::unroll<Kernel * groups>(
                [&](auto i) INTQ_ALWAYS_INLINE_LAMBDA { kept[i].load(block.weights + i * group_size<Vectors>); });
        typename LineSource<X>::Row rows[Kernel];
        simd::unroll<Kernel>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA { rows[r] = source.row(r); });
        typename Tile::template Sums<Vectors> pixel[in_flight];
        // By value: sums are stored between reads of these.
        const index_t width = source.width, stride = source.channels, channels = block.channels;
        const Acc* const bias = block.bias;
        typename Tile::template Column<Vectors> padding;
        padding.fill(source.zero_point);
        index_t x = first * Stride - source.window.padding.left;

        // Column `i` of the oldest pixel is column i - Stride of the next one, and so on.
        const auto add_column = [&](auto i) INTQ_ALWAYS_INLINE_LAMBDA {
            const bool is_inside = x >= 0 && x < width;
            const index_t offset = x * stride;
            simd::unroll<groups>([&](auto g) INTQ_ALWAYS_INLINE_LAMBDA {
                constexpr int count_rows = Kernel - g * depth < depth ? Kernel - g * depth : depth;
                typename Tile::template Column<Vectors> column;
                if (is_inside) {
                    const X* from[count_rows];
                    simd::unroll<count_rows>(
                        [&](auto r) INTQ_ALWAYS_INLINE_LAMBDA { from[r] = rows[g * depth + r].at(offset); });
                    column.template load<count_rows>(from, channels);
                } else {
                    column = padding;
                }
                simd::unroll<in_flight>([&](auto p) INTQ_ALWAYS_INLINE_LAMBDA {
                    constexpr int kx = i - p * Stride;
                    if constexpr (kx >= 0) {
                        if constexpr (kx == 0 && g == 0) pixel[p].start(bias);
                        if constexpr (keeps) {
                            pixel[p].add(column, kept[kx * groups + g]);
                        } else {
                            typename Tile::template Weights<Vectors> weights;
                            weights.load(block.weights + (kx * groups + g) * group_size<Vectors>);
                            pixel[p].add(column, weights);
                        }
                    }
                });
            });
            ++x;
        };
        simd::unroll<shared>(add_column);
        for (index_t i = 0; i < count; ++i, sums += Vectors * L::width()) {
            simd::unroll<Stride>(
                [&](auto step) INTQ_ALWAYS_INLINE_LAMBDA { add_column(std::integral_constant<int, shared + step>{}); });
            store<Vectors>(pixel[0], sums);
            simd::unroll<in_flight - 1>([&](auto p) INTQ_ALWAYS_INLINE_LAMBDA { pixel[p] = pixel[p + 1]; });
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
            const W* w = block.weights;
            index_t x = (first + i) * window.stride.width - window.padding.left;
            for (index_t kx = 0; kx < window.kernel.width; ++kx, x += window.dilation.width) {
                const bool is_inside = x >= 0 && x < source.width;
                for (index_t ky = 0; ky < window.kernel.height; ky += depth, w += group_size<Vectors>) {
                    typename Tile::template Column<Vectors> column;
                    if (is_inside) {
                        const X* from[depth];
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
        simd::unroll<Vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
            LaneSum<L, Acc>::store(sums + v * L::width(), pixel.template drain<v>());
        });
    }

    /// Weights of one group of rows.
    template <int Vectors> static constexpr index_t group_size = Vectors* L::width() * Tile::depth;
};

}  // namespace intq::inline INTQ_ABI::kernels::detail

#endif  // INTQ_KERNELS_DEPTHWISE_LINE_HPP
