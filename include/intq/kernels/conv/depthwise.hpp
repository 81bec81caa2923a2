// SPDX-License-Identifier: MIT
//
// The depthwise skeleton: one filter a channel, channels in the lanes. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_CONV_DEPTHWISE_HPP
#define INTQ_KERNELS_CONV_DEPTHWISE_HPP

#include "intq/kernels/conv/depthwise_line.hpp"
#include "intq/kernels/conv/depthwise_pairs.hpp"
#include "intq/kernels/conv/depthwise_walk.hpp"
#include "intq/kernels/conv/gemm.hpp"
#include "intq/simd/tiles/depthwise_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// The packing of a backend's tag for depthwise layers of these types; without columns where there is no tile.
template <class Backend, class X, class Weight, class Acc>
constexpr simd::DepthwisePacking depthwise_packing_of() noexcept {
    if constexpr (std::is_same_v<X, float>) {
        return Backend::depthwise_float_packing;
    } else if constexpr (!std::is_same_v<Acc, std::int32_t>) {
        return {};
    } else if constexpr (std::is_same_v<X, std::int16_t>) {
        return Backend::depthwise_int16_packing;
    } else if constexpr (std::is_same_v<X, std::uint8_t>) {
        return simd::without_conversion(Backend::depthwise_int8_packing);
    } else if constexpr (std::is_same_v<Weight, std::int8_t>) {
        return Backend::depthwise_int8_packing;
    } else {
        return {};
    }
}

}  // namespace detail

/// y[p][c] = epilogue(bias[c] + sum over taps of x[tap of p][c] · w[tap][c])
///
/// The types are those of Gemm, and uint8 for int8 codes that are never negative where the tile reads unsigned bytes.
/// Activations are read as they are: nothing is staged. A backend with a DepthwiseTile sums the rows of a column of the
/// window together; any other multiplies lane by lane.
///
/// Memory   a chunk of sums on the stack
/// Cost     2 · pixels · channels · taps operations
template <class Backend, class Policy, class X, class Weight, class Acc, class Y, class Sumin> struct Depthwise {
    using L = simd::lanes<Backend>;
    using Sum = detail::LaneSum<L, Acc>;
    static constexpr simd::DepthwisePacking packing = detail::depthwise_packing_of<Backend, X, Weight, Acc>();

    static INTQ_NEVER_INLINE void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.is_depthwise && packed.has_sumin == adds);
        if constexpr (packing.staging == simd::Staging::offset_binary)
            if (packed.depthwise.staging == simd::Staging::as_is)
                return Depthwise<Backend, Policy, std::uint8_t, Weight, Acc, Y, Sumin>::run(call);
        INTQ_ASSERT(packed.depthwise == packing);
        const ConvGeometry& geometry = *call.geometry;
        const index_t lines = geometry.batch * geometry.out.height;
        if constexpr (walks) {
            if (Walk::takes(packed.window, geometry.in.width, geometry.out.width)) {
                const index_t together = Walk::lines_together(lines, geometry.out.width, call.executor->is_serial());
                return (*call.executor)(quotient_up(lines, together), [&](index_t task) {
                    const index_t line = task * together, left = lines - line;
                    run_lines(call, line, left < together ? left : together);
                });
            }
        }
        (*call.executor)(lines, [&](index_t line) {
            if constexpr (packing.columns > 0) {
                [[maybe_unused]] const simd::NearestMode<L> mode;
                run_blocks(call, line);
            } else {
                constexpr index_t block = lane_vectors * L::width();
                index_t c = 0;
                for (; c + block <= packed.out_channels; c += block)
                    run_pixels<lane_vectors>(call, line, c, L::width());
                for (; c < packed.out_channels; c += L::width())
                    run_pixels<1>(call, line, c,
                                  packed.out_channels - c < L::width() ? packed.out_channels - c : L::width());
            }
        });
    }

private:
    static constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;
    using Out = Epilogue<L, Policy, Y, Sumin>;

    /// The input of a line of output pixels, counted through all images, from channel c on.
    static detail::LineSource<X> line_source(const ConvCall& call, index_t line, index_t c) noexcept {
        const PackedConv2d& packed = *call.packed;
        const ConvGeometry& geometry = *call.geometry;
        const index_t image = geometry.batch == 1 ? 0 : quotient(line, geometry.out.height);
        const index_t oy = line - image * geometry.out.height;
        return {static_cast<const X*>(call.x) + image * geometry.in_pixels() * packed.in_channels + c,
                packed.padding_row == nullptr ? nullptr : static_cast<const X*>(packed.padding_row) + c,
                packed.window,
                packed.in_channels,
                geometry.in.height,
                geometry.in.width,
                oy * packed.window.stride.height - detail::padding_above(packed.window, geometry),
                packed.input_zero_point};
    }

    // --- with a tile ------------------------------------------------------------------------------------------------

    using Tile = simd::DepthwiseTile<Backend, X, Weight, Acc>;
    using Walk = detail::DepthwiseWalk<Tile, Acc>;
    static constexpr bool walks = [] {
        if constexpr (packing.columns > 0) {
            return requires(const simd::ColumnWalk& walk, simd::ColumnBlock& block) {
                Tile::sum_columns_by_one(walk, block);
                Tile::sum_columns_by_two(walk, block);
            };
        } else {
            return false;
        }
    }();

    /// Some lines of output pixels, in the loops of the tile.
    static void run_lines(const ConvCall& call, index_t line, index_t lines) INTQ_NOEXCEPT {
        [[maybe_unused]] const simd::NearestMode<L> mode;
        const PackedConv2d& packed = *call.packed;
        const ConvGeometry& geometry = *call.geometry;
        const index_t channels = packed.out_channels, depthwise_weights = packed.depthwise_weights();
        const index_t out_width = geometry.out.width, last_image = (geometry.batch - 1) * geometry.out.height;
        const index_t image = geometry.in_pixels() * packed.in_channels;  // elements
        const index_t chunk = detail::chunk_of_line(out_width, Walk::most_pixels);
        alignas(buffer_alignment) Acc sums[array_size(Walk::most_pixels * Tile::columns)];
        for (index_t first = 0; first < out_width; first += chunk) {
            const index_t count = out_width - first < chunk ? out_width - first : chunk;
            Walk walk;
            for (index_t i = line; i < line + lines; ++i)
                walk.add_line(line_source(call, i, 0), i < last_image ? image : 0, first, count);
            const index_t at = (line * out_width + first) * channels;
            for (index_t c = 0; c < channels; c += Tile::columns) {
                const index_t left = channels - c, of_block = left < Tile::columns ? left : Tile::columns;
                const simd::ColumnBlock block{
                    static_cast<const typename Tile::weight*>(packed.weights) + c * depthwise_weights,
                    static_cast<const Acc*>(packed.bias) + c, sums, c * index_t{sizeof(X)}};
                const index_t walked = sum_lines(walk, block, packed.window.stride.width, walk.lines_of(of_block));
                if (walked > 0) store<Tile::vectors>(call, {sums, at + c, walked * count, c, of_block});
                for (index_t i = walked; first == 0 && i < lines; ++i) run_block<Tile::vectors>(call, line + i, c);
            }
        }
    }

    /// @return  how many lines it sums: `lines`, or none where the loops are not exact for the weights
    static INTQ_ALWAYS_INLINE index_t sum_lines(const Walk& walk, simd::ColumnBlock block, index_t stride,
                                                index_t lines) noexcept {
        if constexpr (requires { typename Tile::ColumnWeights; }) {
            typename Tile::ColumnWeights of_columns;
            if (!of_columns.load(static_cast<const typename Tile::weight*>(block.weights))) return 0;
            block.weights = &of_columns;
            walk.sum(block, stride, lines);
        } else {
            walk.sum(block, stride, lines);
        }
        return lines;
    }

    static void run_blocks(const ConvCall& call, index_t line) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        for (index_t c = 0; c < packed.out_channels;) {
            if constexpr (!adds) {
                using Pairs = detail::DepthwisePairs<Backend, Policy, X, Weight, Acc, Y>;
                if constexpr (Pairs::exists) {
                    const index_t left = packed.out_channels - c;
                    if (Pairs::takes(call, left)) return Pairs::run(call, line_source(call, line, c), line, c, left);
                }
            }
            const DepthwiseBlock block = depthwise_block(packing, c, packed.out_channels);
            if (block.is_whole)
                run_block<Tile::vectors>(call, line, c);
            else
                run_block<static_cast<int>(packing.step / L::width())>(call, line, c);
            c += block.padded;
        }
    }

    /// One line of output pixels, the block of channels from c on.
    template <int Vectors> static void run_block(const ConvCall& call, index_t line, index_t c) INTQ_NOEXCEPT {
        using Line = detail::DepthwiseLine<Tile, Acc>;
        constexpr index_t width = Vectors * L::width();
        const PackedConv2d& packed = *call.packed;
        const ConvGeometry& geometry = *call.geometry;
        const detail::LineSource<X> source = line_source(call, line, c);
        const index_t left = packed.out_channels - c, channels = left < width ? left : width;
        const typename Line::Block block{
            static_cast<const typename Tile::weight*>(packed.weights) + c * packed.depthwise_weights(),
            static_cast<const Acc*>(packed.bias) + c, channels, packed.input_zero_point};
        alignas(buffer_alignment) Acc sums[array_size(detail::depthwise_chunk * width)];
        const index_t out_width = geometry.out.width;
        const index_t chunk = detail::chunk_of_line(out_width);
        for (index_t first = 0; first < out_width; first += chunk) {
            const index_t count = out_width - first < chunk ? out_width - first : chunk;
            Line::template run<Vectors>(source, block, first, count, sums);
            store<Vectors>(call, {sums, (line * out_width + first) * packed.out_channels + c, count, c, channels});
        }
    }

    /// For use while run() holds the mode.
    using NearestOut = Epilogue<simd::NearestLanes<L>, Policy, Y, Sumin>;

    /// Sums of consecutive pixels, and where their codes go.
    struct Store {
        const Acc* sums;
        index_t first;  // element of y
        index_t pixels;
        index_t c, channels;  // the first one, and how many
    };

    template <int Vectors> static void store(const ConvCall& call, const Store& at) INTQ_NOEXCEPT {
        if constexpr (simd::has_whole_loops<L> && Vectors == 4 && packing.run == L::width()) {
            if (at.channels <= L::width()) return store_vectors<1, Vectors>(call, at);
            if (at.channels <= 2 * L::width()) return store_vectors<2, Vectors>(call, at);
        }
        store_vectors<Vectors, Vectors>(call, at);
    }

    /// @tparam Apart  vectors from a pixel to the next one
    template <int Vectors, int Apart> static void store_vectors(const ConvCall& call, const Store& at) INTQ_NOEXCEPT {
        if constexpr (Out::has_quads)
            if (call.packed->scaled_is_small) return store_pixels<Vectors, Apart, NearestOut>(call, at);
        store_pixels<Vectors, Apart, Out>(call, at);
    }

    template <int Vectors, int Apart, class EpilogueType>
    static INTQ_NEVER_INLINE void store_pixels(const ConvCall& call, const Store& at) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const EpilogueType epilogue(packed);
        typename EpilogueType::Channels parameters[array_size(Vectors)];
        simd::unroll<Vectors>(
            [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { parameters[v] = epilogue.channels(at.c + v * L::width()); });
        const index_t step = packed.out_channels, channels = at.channels;
        constexpr index_t width = Vectors * L::width(), apart = Apart * L::width();
        const index_t pixels = at.pixels;
        const Acc* sums = at.sums;
        Y* y = static_cast<Y*>(call.y) + at.first;
        const Sumin* e = static_cast<const Sumin*>(call.sumin) + (adds ? at.first : 0);
        index_t i = 0;
        if constexpr (constexpr int together = EpilogueType::template rows_together<Vectors>();
                      EpilogueType::has_quads && Vectors == 1 && together > 1) {
            index_t places[array_size(together)];
            INTQ_UNROLL
            for (int r = 0; r < together; ++r) places[r] = r * step;
            for (; i + together <= pixels; i += together) {
                epilogue.template store_rows<1>([&](int r, int)
                                                    INTQ_ALWAYS_INLINE_LAMBDA { return Sum::load(sums + r * apart); },
                                                at.c, e, y, places, channels);
                sums += together * apart;
                y += together * step;
                e += adds ? together * step : 0;
            }
        } else if constexpr (constexpr index_t pair = 2; simd::has_whole_loops<L>) {
            if (channels == width) {
                i = pixels / pair * pair;
                for (const Acc* const end = sums + i * apart; sums != end; sums += pair * apart) {
                    simd::unroll<pair>([&](auto pixel) INTQ_ALWAYS_INLINE_LAMBDA {
                        store_pixel<Vectors>(epilogue, sums + pixel * apart, parameters, e + (adds ? pixel * step : 0),
                                             y + pixel * step, width);
                    });
                    y += pair * step, e += adds ? pair * step : 0;
                }
            }
        }
        for (; i < pixels; ++i, sums += apart, y += step, e += adds ? step : 0)
            store_pixel<Vectors>(epilogue, sums, parameters, e, y, channels);
    }

    template <int Vectors, class EpilogueType>
    static INTQ_ALWAYS_INLINE void store_pixel(const EpilogueType& epilogue, const Acc* sums,
                                               const typename EpilogueType::Channels* parameters, const Sumin* e, Y* y,
                                               index_t channels) noexcept {
        // Of two vectors, more than half of whose channels exist, only the last one may lack lanes.
        constexpr bool in_order = Vectors == 1 || (Vectors == 2 && packing.run == L::width());
        Sumin operand[adds && !in_order ? Vectors * L::width() : 1] = {};
        if constexpr (adds && !in_order) {
            for_each_run(channels, [&](index_t from, index_t to, index_t count) INTQ_ALWAYS_INLINE_LAMBDA {
                for (index_t k = 0; k < count; ++k) operand[to + k] = e[from + k];
            });
            e = operand;
        }
        const auto sum = [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { return Sum::load(sums + v * L::width()); };
        if constexpr (in_order && Vectors == 2 && EpilogueType::has_quads)
            epilogue.template store_channels<Vectors>(sum, parameters, e, y, channels);
        else if constexpr (in_order)
            simd::unroll<Vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                const index_t at_lane = v * L::width(), rest = channels - at_lane;
                epilogue.store(sum(v), parameters[v], e + (adds ? at_lane : 0), y + at_lane,
                               v + 1 < Vectors || rest >= L::width() ? L::width() : rest);
            });
        else if constexpr (Vectors == 4 && EpilogueType::has_quads && EpilogueType::has_run_quads)
            epilogue.store_runs(sum, parameters, e, y, channels);
        else
            store_in_order<Vectors>(epilogue, sums, parameters, e, y, channels);
    }

    /// The codes of a whole block, brought back to the order of channels in memory.
    template <int Vectors, class EpilogueType>
    static INTQ_ALWAYS_INLINE void store_in_order(const EpilogueType& epilogue, const Acc* sums,
                                                  const typename EpilogueType::Channels* parameters, const Sumin* e,
                                                  Y* y, index_t channels) noexcept {
        constexpr index_t width = L::width();
        alignas(buffer_alignment) Y codes[array_size(Vectors * width)];
        simd::unroll<Vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
            epilogue.store(Sum::load(sums + v * width), parameters[v], e + (adds ? v * width : 0), codes + v * width,
                           width);
        });
        for_each_run(channels, [&](index_t to, index_t from, index_t count) INTQ_ALWAYS_INLINE_LAMBDA {
            for (index_t k = 0; k < count; ++k) y[to + k] = codes[from + k];
        });
    }

    /// function(first channel in memory, its place in the block, channels) for each run of a whole block.
    template <class Function> static INTQ_ALWAYS_INLINE void for_each_run(index_t channels, Function&& function) {
        index_t i = 0;
        for (; i + packing.run <= channels; i += packing.run) function(i, depthwise_lane(packing, i), packing.run);
        if (i < channels) function(i, depthwise_lane(packing, i), channels - i);
    }

    // --- lane by lane -----------------------------------------------------------------------------------------------

    static constexpr int lane_vectors = 4;

    /// One line of output pixels, some vectors of channels: a tap is looked up once for all of them.
    ///
    /// @param count  channels of each vector: fewer than its width only for a single one
    template <int Vectors>
    static void run_pixels(const ConvCall& call, index_t line, index_t c, index_t count) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const ConvGeometry& geometry = *call.geometry;
        const Out epilogue(packed);
        typename Out::Channels channels[array_size(Vectors)];
        for (index_t v = 0; v < Vectors; ++v) channels[v] = epilogue.channels(c + v * L::width());
        const detail::LineSource<X> source = line_source(call, line, c);
        index_t at = line * geometry.out.width * packed.out_channels + c;
        for (index_t ox = 0; ox < geometry.out.width; ++ox, at += packed.out_channels) {
            Acc sums[Vectors * L::width()];
            sum_window<Vectors>(packed, source, ox, c, count, sums);
            for (index_t v = 0; v < Vectors; ++v) {
                const index_t to = at + v * L::width();
                const Sumin* const e = static_cast<const Sumin*>(call.sumin) + (adds ? to : 0);
                epilogue.store(Sum::load(sums + v * L::width()), channels[v], e, static_cast<Y*>(call.y) + to, count);
            }
        }
    }

    /// The sums of an output pixel. Column by column, as DepthwiseLine sums: floats then have one order on all
    /// backends.
    template <int Vectors>
    static INTQ_ALWAYS_INLINE void sum_window(const PackedConv2d& packed, const detail::LineSource<X>& source,
                                              index_t ox, index_t c, index_t count, Acc* sums) noexcept {
        const Window2d& window = packed.window;
        const index_t weight_stride = packed.padded_outputs(), lanes = Vectors > 1 ? L::width() : count;
        decltype(Sum::load(sums)) acc[array_size(Vectors)];
        simd::unroll<Vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
            acc[v] = Sum::load(static_cast<const Acc*>(packed.bias) + c + v * L::width());
        });
        index_t x = ox * window.stride.width - window.padding.left;
        for (index_t kx = 0; kx < window.kernel.width; ++kx, x += window.dilation.width) {
            const bool is_inside = x >= 0 && x < source.width;
            const Weight* w = static_cast<const Weight*>(packed.weights) + c + kx * weight_stride;
            for (index_t ky = 0; ky < window.kernel.height; ++ky, w += window.kernel.width * weight_stride) {
                const X* const from = is_inside ? source.row(ky).at(x * source.channels) : source.padding;
                simd::unroll<Vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                    const index_t at = v * L::width();
                    acc[v] = Sum::multiply_add(acc[v], L::load(from + at, lanes), L::load(w + at));
                });
            }
        }
        simd::unroll<Vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { Sum::store(sums + v * L::width(), acc[v]); });
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_DEPTHWISE_HPP
