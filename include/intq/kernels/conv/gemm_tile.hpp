// SPDX-License-Identifier: MIT
//
// GemmTile: sums of a tile of output pixels by one packed panel, the inner part of the GEMM skeleton. Layer: kernels
// (docs/gemm.md).
#ifndef INTQ_KERNELS_CONV_GEMM_TILE_HPP
#define INTQ_KERNELS_CONV_GEMM_TILE_HPP

#include <type_traits>

#include "intq/arith/lanes.hpp"
#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/gemm_input.hpp"
#include "intq/simd/base/primitives.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// The inner part, keyed only on operand types: sums of a tile of output pixels by one packed panel.
///
///     sums[r][c] = bias[c] + sum over taps and k of x[tap of row r][k] · w[tap][k][c]
///
/// A target has many epilogues but few of these, which hold the unrolled code, so instantiations stay few.
///
/// @tparam TileType  the register tile, simd::Tile<…>::shared
template <class Backend, class TileType, class Acc> struct GemmTile {
    using Tile = TileType;
    using L = simd::lanes<Backend>;
    using Activation = typename Tile::activation;
    using Weight = typename Tile::weight;
    using Source = detail::RowSource<Activation>;
    static constexpr index_t columns = Tile::columns;
    static constexpr int vectors = Tile::vectors;
    static constexpr int max_rows(int panel_vectors) noexcept { return Tile::max_rows(panel_vectors); }
    static constexpr int most_rows = Tile::max_rows(Tile::narrowest);

    /// Shared by all tiles of one panel and block of rows: read from the packed layer once.
    struct Panel {
        const Source& source;
        const Weight* weights;
        const Acc* bias;
        const Acc* padding;  // the term of a tap on padding, by tap; null where that is 0
        index_t padding_stride;
        index_t vectors;
        index_t taps, depth;  // of a tap
        index_t whole;        // the part of depth that is taken in whole groups
        index_t tap_weights;  // elements
        index_t run_width;    // taps that follow each other read elements that follow each other: how many at most
        index_t in_channel;   // the first of the group
        index_t channel;      // the first output channel, among the padded ones
        index_t offset;       // and in an output pixel
        index_t count;        // output channels: the rest of the panel is padding

        Panel(const PackedConv2d& packed, const Source& rows, index_t group, index_t index) noexcept
            : source(rows),
              padding_stride(packed.padded_outputs()),
              taps(packed.tap_count()),
              depth(packed.tap_depth()) {
            const index_t first = index * columns, left = packed.group_stride - first;
            const index_t width = left < columns ? left : columns, outputs = packed.group_outputs() - first;
            vectors = width / L::width();
            channel = group * packed.group_stride + first;
            offset = group * packed.group_outputs() + first;
            count = outputs < width ? outputs : width;
            in_channel = group * packed.group_inputs();
            // A staged copy may be read beyond the last channel.
            const index_t rounded = round_up(depth, Tile::depth);
            whole = detail::is_staged(packed) ? rounded : depth / Tile::depth * Tile::depth;
            tap_weights = rounded * width * Tile::planes;
            // A group must not straddle two taps: packed weights are rounded up where it would.
            const bool runs = packed.groups == 1 && packed.window.dilation.width == 1 && depth % Tile::depth == 0;
            run_width = runs && !packed.merges_row ? packed.window.kernel.width : 1;
            weights = static_cast<const Weight*>(packed.weights) + group * packed.group_weights() +
                      index * packed.panel_size();
            bias = static_cast<const Acc*>(packed.bias) + channel;
            padding = packed.tap_bias == nullptr || !source.has_padding()
                          ? nullptr
                          : static_cast<const Acc*>(packed.tap_bias) + channel;
        }
    };

    /// Rows of the next tile, of `left` rows that are padded alike: at most as many as fit; the last tiles have one
    /// size.
    ///
    /// @param takes_most  whether a tile may have the most rows that fit
    static index_t tile_rows(index_t panel_vectors, index_t left, bool takes_most) noexcept {
        const auto width = static_cast<int>(panel_vectors);
        const index_t most = Tile::max_rows(width), few = small_rows(width);
        if (takes_most && (left >= 2 * most || (left >= most && most > few))) return most;
        const index_t limit = takes_most ? (most < few ? most : few) : rows_below_most(width);
        const index_t tiles = (left + limit - 1) / limit;
        return (left + tiles - 1) / tiles;
    }

    /// Sums of `rows` slots from `slot` on, tile_rows() of them: `panel.vectors` vectors a row.
    ///
    /// @tparam TakesMost  as of tile_rows(): without it the largest tiles are not compiled
    template <bool TakesMost> static void run(const Panel& panel, index_t slot, index_t rows, Acc* sums) noexcept {
        simd::unroll<Tile::vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
            constexpr int count = v + 1;
            if constexpr (count >= Tile::narrowest)
                if (panel.vectors == count) select_rows<count, TakesMost>(panel, slot, rows, sums);
        });
    }

    /// Sums of `Rows` slots in registers, and then finish(registers).
    template <int Rows, int Vectors, class Finish>
    static INTQ_ALWAYS_INLINE void compute(const Panel& panel, index_t slot, Finish&& finish) noexcept {
        constexpr index_t step = step_weights<Vectors>;
        const detail::RowPointers<Activation, Rows> rows(panel.source, panel.in_channel, slot);
        typename Tile::template Registers<Rows, Vectors> registers;
        alignas(buffer_alignment) Acc start[Vectors * L::width()];
        registers.start(panel.padding == nullptr ? panel.bias : first_sums(panel, rows.first_offsets(), start));
        const Weight* tap_weights = panel.weights;
        index_t taps = 1;
        for (index_t tap = 0; tap < panel.taps; tap += taps, tap_weights += taps * panel.tap_weights) {
            taps = 1;
            if (rows.is_padding(tap)) continue;
            const Activation* x[array_size(Rows)];
            rows.at(tap, x);
            taps = rows.valid_taps(tap, panel.run_width);
            const Weight* w = tap_weights;
            for (index_t k = 0; k < taps * panel.whole; k += Tile::depth, w += step) registers.step(x, k, w);
            if constexpr (!is_always_staged)
                if (panel.whole < panel.depth) registers.step_part(x, panel.whole, panel.depth - panel.whole, w);
        }
        finish(registers);
    }

    /// Equally spaced rows, the first of them at x, whose taps are whole groups, and the panel.
    struct SpacedRows {
        const Activation* x;
        index_t stride;
        index_t taps, tap_stride;
        index_t depth;  // of a tap
        const Weight* weights;
        const Acc* bias;

        SpacedRows(const Panel& panel, index_t slot) noexcept
            : x(panel.source.spaced_row(slot) + panel.in_channel),
              stride(panel.source.row_stride()),
              taps(panel.taps),
              tap_stride(panel.source.tap_stride()),
              depth(panel.whole),
              weights(panel.weights),
              bias(panel.bias) {}
    };

    /// Sums of the first `Rows` of them in registers, and then finish(registers). Nothing is looked up.
    template <int Rows, int Vectors, class Finish>
    static INTQ_ALWAYS_INLINE void compute_spaced(const SpacedRows& spaced, Finish&& finish) noexcept {
        constexpr index_t step = step_weights<Vectors>;
        typename Tile::template Registers<Rows, Vectors> registers;
        registers.start(spaced.bias);
        const Weight* w = spaced.weights;
        const Activation* first = spaced.x;
        for (index_t tap = 0; tap < spaced.taps; ++tap, first += spaced.tap_stride) {
            const Activation* x[array_size(Rows)];
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) x[r] = first + r * spaced.stride;
            for (index_t k = 0; k < spaced.depth; k += Tile::depth, w += step) registers.step(x, k, w);
        }
        finish(registers);
    }

private:
    /// Weights that a step reads.
    template <int Vectors> static constexpr index_t step_weights = Vectors* L::width() * Tile::depth* Tile::planes;
    /// Each number of rows up to this one has its own code. Above it, only the largest tile that fits does. A layer
    /// has at most one panel that is narrower, and each number of rows costs compile time.
    static constexpr int small_rows(int panel_vectors) noexcept { return panel_vectors == Tile::vectors ? 6 : 4; }
    /// The most rows with their own code, apart from the largest tile's.
    static constexpr int rows_below_most(int panel_vectors) noexcept {
        const int below = Tile::max_rows(panel_vectors) - 1, few = small_rows(panel_vectors);
        return below < 1 ? 1 : below < few ? below : few;
    }
    /// Offset-binary activations exist in staged copies only.
    static constexpr bool is_always_staged = std::is_same_v<Activation, std::uint8_t>;

    template <int Vectors, bool TakesMost>
    static void select_rows(const Panel& panel, index_t slot, index_t rows, Acc* sums) noexcept {
        constexpr int most = Tile::max_rows(Vectors);
        if constexpr (TakesMost)
            if (rows == most) return run_rows<most, Vectors>(panel, slot, sums);
        simd::unroll<rows_below_most(Vectors)>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA {
            if (rows == r + 1) run_rows<r + 1, Vectors>(panel, slot, sums);
        });
    }

    template <int Rows, int Vectors>
    static INTQ_NEVER_INLINE void run_rows(const Panel& panel, index_t slot, Acc* sums) noexcept {
        compute<Rows, Vectors>(panel, slot, [&](const auto& registers) INTQ_ALWAYS_INLINE_LAMBDA {
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) {
                INTQ_UNROLL
                for (int v = 0; v < Vectors; ++v)
                    detail::LaneSum<L, Acc>::store(sums + (r * Vectors + v) * L::width(), registers.drain(r, v));
            }
        });
    }

    /// The bias, with the terms that the padded taps would have added.
    static INTQ_NEVER_INLINE const Acc* first_sums(const Panel& panel, const std::int32_t* offsets,
                                                   Acc* start) noexcept {
        const Acc* from = panel.bias;
        if constexpr (std::is_same_v<Acc, std::int32_t>)
            for (index_t tap = 0; tap < panel.taps; ++tap) {
                if (offsets[tap] >= 0) continue;
                const Acc* const more = panel.padding + tap * panel.padding_stride;
                for (index_t c = 0; c < panel.vectors * L::width(); c += L::width())
                    L::store(start + c, L::add(L::load(from + c), L::load(more + c)));
                from = start;
            }
        return from;
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_GEMM_TILE_HPP
