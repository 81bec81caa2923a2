// SPDX-License-Identifier: MIT
//
// The inner part of the depthwise skeleton: sums of a line of output pixels on a backend's tile. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_DEPTHWISE_LINE_HPP
#define INTQ_KERNELS_CONV_DEPTHWISE_LINE_HPP

#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/window/geometry.hpp"
#include "intq/simd/base/primitives.hpp"
#include "intq/simd/tiles/depthwise_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Output pixels whose sums wait for the epilogue together.
inline constexpr index_t depthwise_chunk = 32;

/// A line of `pixels` in equal parts of at most `most`.
constexpr index_t chunk_of_line(index_t pixels, index_t most = depthwise_chunk) noexcept {
    const index_t chunks = (pixels + most - 1) / most;
    return (pixels + chunks - 1) / chunks;
}

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

/// Where the windows of a line find a pixel, in each row of the window: in the image, or in the padding.
template <class X, int Rows> struct PixelPlaces {
    explicit INTQ_ALWAYS_INLINE PixelPlaces(const LineSource<X>& source) noexcept
        : padding(source.padding), width(source.width), stride(source.channels) {
        INTQ_UNROLL
        for (int r = 0; r < Rows; ++r) rows[r] = source.row(r);
    }
    static constexpr int pixels = 1;
    INTQ_ALWAYS_INLINE bool are_inside(index_t x) const noexcept { return x >= 0 && x < width; }
    INTQ_ALWAYS_INLINE const X* inside(int row, index_t x) const noexcept { return rows[row].at(x * stride); }
    INTQ_ALWAYS_INLINE const X* at(int row, index_t x) const noexcept {
        return are_inside(x) ? inside(row, x) : padding;
    }
    // By value: sums are stored between reads of these.
    typename LineSource<X>::Row rows[array_size(Rows)];
    const X* padding;
    index_t width, stride;
};

/// The same of two pixels at once, the second of which is `apart` to the right of the first.
template <class X, int Rows> struct PixelPairPlaces {
    static constexpr int pixels = 2;
    INTQ_ALWAYS_INLINE bool are_inside(index_t x) const noexcept { return x >= 0 && x + apart < places.width; }
    INTQ_ALWAYS_INLINE simd::PixelPair<X> inside(int row, index_t x) const noexcept {
        return {places.inside(row, x), places.inside(row, x + apart)};
    }
    INTQ_ALWAYS_INLINE simd::PixelPair<X> at(int row, index_t x) const noexcept {
        return {places.at(row, x), places.at(row, x + apart)};
    }
    PixelPlaces<X, Rows> places;
    index_t apart;
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
        std::int32_t zero_point;
    };

    template <int Vectors>
    static void run(const LineSource<X>& source, const Block& block, index_t first, index_t count, Acc* sums) noexcept {
        if (slides(source.window, 3)) {
            const PixelPlaces<X, 3> places(source);
            return slide_small<Vectors>(places, block, source.window, {first, count}, sums);
        }
        if (slides(source.window, 5)) {
            const PixelPlaces<X, 5> places(source);
            const index_t left = source.window.padding.left;
            return source.window.stride.width == 1 ? slide<5, 1, Vectors>(places, block, left, {first, count}, sums)
                                                   : slide<5, 2, Vectors>(places, block, left, {first, count}, sums);
        }
        visit<Vectors>(source, block, first, count, sums);
    }

    /// The same of two pixels at once, whose channels fill a block together: first + i, and first + i + apart.
    /// @pre slides(window, 3)
    static void run_pairs(const LineSource<X>& source, const Block& block, index_t first, index_t apart, index_t count,
                          Acc* sums) noexcept {
        const PixelPairPlaces<X, 3> places{PixelPlaces<X, 3>(source), apart * source.window.stride.width};
        slide_small<Tile::vectors>(places, block, source.window, {first, count}, sums);
    }

    /// Whether a square window moves over a line so that its pixels share columns.
    static bool slides(const Window2d& window, index_t kernel) noexcept {
        return window.dilation.width == 1 && window.stride.width <= 2 && window.kernel == Size2d{kernel, kernel};
    }

private:
    static constexpr int depth = static_cast<int>(Tile::depth);

    struct Pixels {
        index_t first, count;
    };

    template <int Vectors, class Places>
    static void slide_small(const Places& places, const Block& block, const Window2d& window, Pixels pixels,
                            Acc* sums) noexcept {
        const index_t left = window.padding.left;
        if (window.stride.width == 1) return slide<3, 1, Vectors>(places, block, left, pixels, sums);
        if constexpr (depth == 4)
            slide_by_two<Vectors>(places, block, left, pixels, sums);
        else
            slide<3, 2, Vectors>(places, block, left, pixels, sums);
    }

    /// A square window slides over the line: each column is interleaved once and added to all pixels in flight, of
    /// which the oldest is done with its last column.
    ///
    /// @param left  padding
    template <int Kernel, int Stride, int Vectors, class Places>
    static INTQ_NEVER_INLINE void slide(const Places& given, const Block& block, index_t left, Pixels pixels,
                                        Acc* sums) noexcept {
        constexpr int in_flight = (Kernel - 1) / Stride + 1, groups = (Kernel + depth - 1) / depth;
        constexpr bool keeps = Kernel * groups * Vectors <= Tile::kept_weights;
        // Pixels in flight take turns in the same registers, where the tile wants that, in a small window.
        constexpr bool unrolls = Kernel == 3 && Places::pixels == 1 && requires { requires Tile::unrolls_pixels; };
        using Column = typename Tile::template Column<Vectors>;
        typename Tile::template Weights<Vectors> kept[array_size(keeps ? Kernel * groups : 1)];
        if constexpr (keeps) {
            INTQ_UNROLL
            for (int i = 0; i < Kernel * groups; ++i) kept[i].load(block.weights + i * group_size<Vectors>);
        }
        typename Tile::template Sums<Vectors> pixel[array_size(in_flight)];
        // By value: sums are stored between reads of these.
        const Places places = given;
        const index_t channels = block.channels, count = pixels.count;
        const std::int32_t zero_point = block.zero_point;
        const Weight* const weights = block.weights;
        const Acc* const bias = block.bias;
        Column padding;
        padding.fill(zero_point);

        const auto load = [&](auto g, index_t x, bool are_inside, Column& column) INTQ_ALWAYS_INLINE_LAMBDA {
            constexpr int count_rows = Kernel - g * depth < depth ? Kernel - g * depth : depth;
            decltype(places.at(0, x)) from[array_size(count_rows)];
            INTQ_UNROLL
            for (int r = 0; r < count_rows; ++r)
                from[r] = are_inside ? places.inside(g * depth + r, x) : places.at(g * depth + r, x);
            column.template load<count_rows>(from, channels);
        };
        // Column `kx` of the oldest pixel is column kx - Stride of the next one, and so on.
        const auto add = [&](auto g, const Column& column, int last_kx, auto oldest) INTQ_ALWAYS_INLINE_LAMBDA {
            simd::unroll<in_flight>([&](auto p) INTQ_ALWAYS_INLINE_LAMBDA {
                auto& sums_of_pixel = pixel[(p + oldest) % in_flight];
                const int kx = last_kx - p * Stride;
                if (kx < 0) return;
                if (kx == 0 && g == 0) sums_of_pixel.start(bias);
                if constexpr (keeps) {
                    sums_of_pixel.add(column, kept[kx * groups + g]);
                } else {
                    typename Tile::template Weights<Vectors> of_column;
                    of_column.load(weights + (kx * groups + g) * group_size<Vectors>);
                    sums_of_pixel.add(column, of_column);
                }
            });
        };
        const auto add_column = [&](index_t x, int last_kx, auto oldest) INTQ_ALWAYS_INLINE_LAMBDA {
            const bool are_inside = places.are_inside(x);
            if constexpr (unrolls) {
                Column columns[array_size(groups)];
                if (are_inside)
                    simd::unroll<groups>([&](auto g) INTQ_ALWAYS_INLINE_LAMBDA { load(g, x, true, columns[g]); });
                else
                    simd::unroll<groups>([&](auto g) INTQ_ALWAYS_INLINE_LAMBDA { columns[g] = padding; });
                simd::unroll<groups>([&](auto g) INTQ_ALWAYS_INLINE_LAMBDA { add(g, columns[g], last_kx, oldest); });
            } else {
                simd::unroll<groups>([&](auto g) INTQ_ALWAYS_INLINE_LAMBDA {
                    Column column;
                    if (Places::pixels == 1 && !are_inside)
                        column = padding;
                    else
                        load(g, x, are_inside, column);
                    add(g, column, last_kx, oldest);
                });
            }
        };
        // Columns that the first pixel shares with none. In a large window they are not worth separate code: they are
        // then also added to pixels that are discarded.
        constexpr int shared = Kernel - Stride, unwanted = Kernel > 3 ? in_flight - 1 : 0;
        constexpr std::integral_constant<int, 0> first;
        INTQ_UNROLL
        for (int p = 0; p < unwanted; ++p) pixel[p].start(bias);
        index_t x = (pixels.first - unwanted) * Stride - left + shared;
        if constexpr (unwanted == 0) {
            INTQ_UNROLL
            for (int kx = 0; kx < shared; ++kx) add_column(x - shared + kx, kx, first);
        }
        index_t i = -unwanted;
        while (i < count)
            simd::unroll<unrolls ? in_flight : 1>([&](auto oldest) INTQ_ALWAYS_INLINE_LAMBDA {
                if (oldest > 0 && i >= count) return;
                INTQ_UNROLL
                for (int step = 0; step < Stride; ++step) add_column(x + step, shared + step, oldest);
                if (i >= 0) store<Vectors>(pixel[oldest], sums + i * Vectors * L::width());
                // By constant places: a loop, even unrolled, leaves the sums in memory (clang 19).
                if constexpr (!unrolls)
                    simd::unroll<in_flight - 1>([&](auto p) INTQ_ALWAYS_INLINE_LAMBDA { pixel[p] = pixel[p + 1]; });
                ++i, x += Stride;
            });
    }

    /// A 3×3 window that moves by two, where a group holds four rows. Two pixels take three groups in place of four:
    /// with columns a, b, c of a pixel, of which c is a of the next one,
    ///
    ///     first(p)  = a0 a1 a2 b0           and, with other weights, column c of the pixel before
    ///     middle(p) = b1 b2, and b1 b2 of p + 1
    template <int Vectors, class Places>
    static INTQ_NEVER_INLINE void slide_by_two(const Places& given, const Block& block, index_t left, Pixels pixels,
                                               Acc* sums) noexcept {
        using Column = typename Tile::template Column<Vectors>;
        using Weights = typename Tile::template Weights<Vectors>;
        Weights of_a, of_b, of_c;
        of_a.load(block.weights);
        of_b.load(block.weights + group_size<Vectors>);
        of_c.load(block.weights + 2 * group_size<Vectors>);
        of_a.add_bytes(of_b, 3);
        const Weights even = of_b.bytes_from(1), odd = even.bytes_up(2);

        const Places places = given;
        const index_t channels = block.channels, count = pixels.count;
        const Acc* const bias = block.bias;
        // Column a of a pixel at x, and the first row of its column b where that pixel exists.
        const auto first_group = [&](index_t x, bool exists) INTQ_ALWAYS_INLINE_LAMBDA {
            const decltype(places.at(0, x)) from[] = {places.at(0, x), places.at(1, x), places.at(2, x),
                                                      places.at(0, exists ? x + 1 : x)};
            Column column;
            column.template load<4>(from, channels);
            return column;
        };
        const auto middle_group = [&](index_t x, index_t next) INTQ_ALWAYS_INLINE_LAMBDA {
            const decltype(places.at(0, x)) from[] = {places.at(1, x), places.at(2, x), places.at(1, next),
                                                      places.at(2, next)};
            Column column;
            column.template load<4>(from, channels);
            return column;
        };
        index_t x = pixels.first * 2 - left, i = 0;
        typename Tile::template Sums<Vectors> pixel, next;
        pixel.start(bias);
        pixel.add(first_group(x, true), of_a);
        for (; i + 2 <= count; i += 2, x += 4) {
            const Column b = middle_group(x + 1, x + 3);
            pixel.add(b, even);
            next.start(bias);
            next.add(b, odd);
            const Column c = first_group(x + 2, true);
            pixel.add(c, of_c);
            store<Vectors>(pixel, sums + i * Vectors * L::width());
            next.add(c, of_a);
            const Column e = first_group(x + 4, i + 2 < count);
            next.add(e, of_c);
            store<Vectors>(next, sums + (i + 1) * Vectors * L::width());
            pixel.start(bias);
            pixel.add(e, of_a);
        }
        if (i == count) return;
        pixel.add(middle_group(x + 1, x + 1), even);
        pixel.add(first_group(x + 2, false), of_c);
        store<Vectors>(pixel, sums + i * Vectors * L::width());
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
