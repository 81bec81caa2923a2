// SPDX-License-Identifier: MIT
//
// GemmTile: sums of a tile of output pixels by one packed panel, the inner part of the GEMM skeleton. Layer: kernels
// (docs/gemm.md).
#ifndef INTQ_KERNELS_CONV_GEMM_TILE_HPP
#define INTQ_KERNELS_CONV_GEMM_TILE_HPP

#include <type_traits>

#include "intq/arith/lanes.hpp"
#include "intq/core/quotient.hpp"
#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/gemm_input.hpp"
#include "intq/simd/base/primitives.hpp"
#include "intq/simd/tiles/lane_tile.hpp"

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
    using Accumulator = Acc;
    using TapLoop = simd::TapLoopOf<Tile>;
    using Activation = typename Tile::activation;
    using Weight = typename Tile::weight;
    using Source = detail::RowSource<Activation, detail::stages_input<Backend>>;
    static constexpr index_t columns = Tile::columns;
    static constexpr int vectors = Tile::vectors;
    static constexpr int max_rows(int panel_vectors) noexcept { return Tile::max_rows(panel_vectors); }
    static constexpr int most_rows = Tile::max_rows(Tile::narrowest);

    /// How far the weights of the next panel were asked for: while the tiles of a panel are summed, each step of a
    /// whole tile asks for a line of the next. A layer's weights often lie beyond the second cache, and the prefetch of
    /// the machine ends at each page.
    class NextPanel {
    public:
        NextPanel() = default;
        /// @param panel     the weights of the panel in use, behind which the next one lies
        /// @param is_there  whether there is a next one
        NextPanel(const Weight* panel, index_t bytes, bool is_there) noexcept
            : panel_(reinterpret_cast<std::uintptr_t>(panel)),
              at_(panel_ + static_cast<std::uintptr_t>(bytes)),
              end_(is_there ? at_ + static_cast<std::uintptr_t>(bytes) : 0) {}

        /// Where the next tile begins to ask. Once all is asked for it is the panel in use, which is near.
        INTQ_ALWAYS_INLINE std::uintptr_t begin() const noexcept { return at_ < end_ ? at_ : panel_; }
        INTQ_ALWAYS_INLINE void end(std::uintptr_t at) noexcept {
            if (at_ < end_) at_ = at;
        }

    private:
        std::uintptr_t panel_ = 0, at_ = 0, end_ = 0;
    };
    struct NoNextPanel {};
    static constexpr bool asks_for_next_panel = requires { Tile::asks_for_next_panel; };
    using Next = std::conditional_t<asks_for_next_panel, NextPanel, NoNextPanel>;

    /// What the tiles of a panel ask for, held where no store can change it. Only a whole panel has a next one, and in
    /// the loop of a narrow tile the address would find no register.
    class AskingForNext {
    public:
        explicit INTQ_ALWAYS_INLINE AskingForNext(const Next& next) noexcept : next_(next) {}
        INTQ_ALWAYS_INLINE void begin_tile() noexcept { at_ = next_.begin(); }
        INTQ_ALWAYS_INLINE void step() noexcept {
            simd::prefetch_for_reading(at_);
            at_ += buffer_alignment;
        }
        INTQ_ALWAYS_INLINE void end_tile() noexcept { next_.end(at_); }
        INTQ_ALWAYS_INLINE void give_back(Next& next) const noexcept { next = next_; }

    private:
        Next next_;
        std::uintptr_t at_ = 0;
    };
    struct AskingForNothing {
        explicit INTQ_ALWAYS_INLINE AskingForNothing(const Next&) noexcept {}
        INTQ_ALWAYS_INLINE void begin_tile() noexcept {}
        INTQ_ALWAYS_INLINE void step() noexcept {}
        INTQ_ALWAYS_INLINE void end_tile() noexcept {}
        INTQ_ALWAYS_INLINE void give_back(Next&) const noexcept {}
    };
    template <int Vectors>
    using Asking = std::conditional_t<asks_for_next_panel && Vectors == Tile::vectors, AskingForNext, AskingForNothing>;

    /// Shared by all tiles of one panel and block of rows: read from the packed layer once.
    struct Panel {
        const Source& source;
        const Weight* weights;
        const Acc* bias;
        const Acc* padding;  // the term of a tap on padding, by tap; null where that is 0
        index_t padding_stride;
        index_t vectors;
        index_t kernel_rows;
        index_t row_taps;     // of the window
        index_t depth;        // of a tap
        index_t whole;        // the part of depth that is taken in whole groups
        index_t tap_weights;  // elements
        bool is_point;        // the window is one tap, which is never on padding
        bool joins_taps;      // the taps of a row of the window read elements that follow each other
        index_t in_channel;   // the first of the group
        index_t channel;      // the first output channel, among the padded ones
        index_t offset;       // and in an output pixel
        index_t count;        // output channels: the rest of the panel is padding
        [[no_unique_address]] mutable Next next;

        Panel(const PackedConv2d& packed, const Source& rows, index_t group, index_t index) noexcept
            : source(rows),
              padding_stride(packed.padded_outputs()),
              row_taps(packed.merges_row ? 1 : packed.window.kernel.width),
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
            joins_taps = packed.groups == 1 && packed.window.dilation.width == 1 && depth % Tile::depth == 0;
            weights = static_cast<const Weight*>(packed.weights) + group * packed.group_weights() +
                      index * packed.panel_size();
            bias = static_cast<const Acc*>(packed.bias) + channel;
            if constexpr (asks_for_next_panel)
                next = NextPanel(weights, packed.panel_size() * static_cast<index_t>(sizeof(Weight)),
                                 packed.group_stride - first > columns);
            padding = packed.tap_bias == nullptr ? nullptr : static_cast<const Acc*>(packed.tap_bias) + channel;
            kernel_rows = packed.window.kernel.height;
            is_point = packed.taps() == 1 && !detail::pads(packed.window);
        }
        /// Whether taps of the source's slot fall on padding, and each has a term.
        INTQ_ALWAYS_INLINE bool is_padded() const noexcept { return padding != nullptr && source.has_padding(); }
    };

    /// Rows of the next tile, of `left` rows that are padded alike: at most as many as fit. The last tiles have one size
    /// unless the largest is the best for any of them.
    /// @param takes_most  whether a tile may have the most rows that fit
    static index_t tile_rows(index_t panel_vectors, index_t left, bool takes_most) noexcept {
        const auto width = static_cast<int>(panel_vectors);
        const index_t most = Tile::max_rows(width), few = small_rows(width);
        const bool is_best = most > few || (width == vectors && TapLoop::groups_together > 1);  // it has a loop
        if (takes_most && (left >= 2 * most || (left >= most && is_best))) return most;
        const index_t limit = takes_most ? (most < few ? most : few) : rows_below_most(width);
        return quotient_up(left, quotient_up(left, limit));
    }

    /// Tiles of the most rows that tile_rows() makes one after the other of `left` rows, of which the first `spaced`
    /// are equally spaced: at least one.
    ///
    /// @pre  the first is such a tile
    static index_t whole_tiles(index_t panel_vectors, index_t left, index_t spaced) noexcept {
        const index_t most = Tile::max_rows(static_cast<int>(panel_vectors)), fit = quotient(spaced, most);
        const index_t certain = quotient(left, most) - 1;
        index_t tiles = certain < 1 ? 1 : certain < fit ? certain : fit;
        while (tiles < fit && tile_rows(panel_vectors, left - tiles * most, true) == most) ++tiles;
        return tiles;
    }

    /// Sums of `rows` slots from the source's on, tile_rows() of them: `panel.vectors` vectors a row.
    ///
    /// @tparam TakesMost  as of tile_rows(): without it the largest tiles are not compiled
    template <bool TakesMost> static void run(const Panel& panel, index_t rows, Acc* sums) noexcept {
        simd::unroll<Tile::vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
            constexpr int count = v + 1;
            if constexpr (count >= Tile::narrowest)
                if (panel.vectors == count) select_rows<count, TakesMost>(panel, rows, sums);
        });
    }

    /// Sums of `Rows` slots from the source's on in registers, and then finish(registers).
    template <int Rows, int Vectors, class Finish>
    static INTQ_ALWAYS_INLINE void compute(const Panel& panel, Finish&& finish) noexcept {
        const Source& source = panel.source;
        const Activation* start[array_size(Rows)];
        if (source.is_line_of(Rows)) {
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r)
                start[r] = source.spaced_start() + (panel.in_channel + r * source.spaced_step());
        } else {
            const Activation* found[array_size(Rows)];  // in memory, so that `start` need not be
            source.starts(panel.in_channel, Rows, found);
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) start[r] = found[r];
        }
        typename Tile::template Registers<Rows, Vectors> registers;
        alignas(buffer_alignment) Acc padded[Vectors * L::width()];
        const Acc* const first = panel.is_padded() ? first_sums(panel, padded) : panel.bias;
        if constexpr (TapLoop::template exists<Rows, Vectors>)
            if (panel.whole >= panel.depth) {
                simd::ListedRows<Rows> rows;
                INTQ_UNROLL
                for (int r = 0; r < Rows; ++r) rows.at[r] = start[r];
                registers.sum_taps(walk_of(Taps(panel), first), rows);
                return finish(registers);
            }
        registers.start(first);
        // One loop: g++ keeps the sums of a tile in registers over one loop of taps, and not over two.
        Taps taps(panel);
        Asking<Vectors> asking(panel.next);
        asking.begin_tile();
        index_t at = 0;
        for (index_t left = taps.count; left > 0; at += taps.advance()) {
            const Activation* x[array_size(Rows)];
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) x[r] = start[r] + at;
            const Weight* const w = add_groups<Vectors>(registers, x, taps, asking);
            if constexpr (!is_always_staged)
                if (panel.whole < panel.depth) registers.step_part(x, panel.whole, panel.depth - panel.whole, w);
            if (--left == 0) break;
        }
        asking.end_tile();
        asking.give_back(panel.next);
        finish(registers);
    }

    /// Goes over the taps of a window that are inside the image; those of a row are one where they can be joined.
    struct Taps {
        index_t count;          // of all, where those of a row are joined of the rows
        index_t whole;          // of a tap
        const Weight* weights;  // of this tap
        index_t row_taps, column = 0;
        index_t column_step, column_weights;  // to the next tap of the row
        index_t row_jump, row_jump_weights;   // from the last one of a row to the first one of the next

        explicit INTQ_ALWAYS_INLINE Taps(const Panel& panel) noexcept : whole(panel.whole), weights(panel.weights) {
            if (panel.is_point) {  // a single tap, which a compiler that knows the layer need not loop over
                count = row_taps = 1;
                column_step = column_weights = row_jump = row_jump_weights = 0;
                return;
            }
            const ValidTaps& valid_rows = panel.source.rows();
            const ValidTaps& valid_columns = panel.source.columns();
            const index_t inside = valid_columns.last - valid_columns.first;
            row_taps = panel.joins_taps ? 1 : inside;
            count = inside > 0 ? (valid_rows.last - valid_rows.first) * row_taps : 0;
            if (panel.joins_taps) whole *= inside;
            weights += (valid_rows.first * panel.row_taps + valid_columns.first) * panel.tap_weights;
            column_step = panel.source.column_step();
            column_weights = panel.tap_weights;
            row_jump = panel.source.row_step() - (row_taps - 1) * column_step;
            row_jump_weights = (panel.row_taps - row_taps + 1) * column_weights;
        }
        /// Goes to the next tap.
        ///
        /// @return the activations between the two
        INTQ_ALWAYS_INLINE index_t advance() noexcept {
            const bool ends = ++column == row_taps;
            if (ends) column = 0;
            weights += ends ? row_jump_weights : column_weights;
            return ends ? row_jump : column_step;
        }
    };

    /// Equally spaced rows whose taps are whole groups, and the panel.
    struct SpacedRows {
        index_t step;
        Taps taps;
        alignas(buffer_alignment) Acc padded[Tile::vectors * L::width()];
        const Acc* bias;
        [[no_unique_address]] typename TapLoop::Walk walk;

        explicit SpacedRows(const Panel& panel) noexcept
            : step(panel.source.spaced_step()),
              taps(panel),
              bias(panel.is_padded() ? first_sums(panel, padded) : panel.bias) {
            if constexpr (TapLoop::groups_together > 1) walk = walk_of(taps, bias);
        }
    };

    /// Sums of `Rows` of them in registers, and then finish(registers). Nothing is looked up.
    ///
    /// @param first   the first row
    /// @param asking  made of the panel's `next`
    template <int Rows, int Vectors, class Finish>
    static INTQ_ALWAYS_INLINE void compute_spaced(const SpacedRows& spaced, const Activation* first,
                                                  Asking<Vectors>& asking, Finish&& finish) noexcept {
        typename Tile::template Registers<Rows, Vectors> registers;
        if constexpr (TapLoop::template exists<Rows, Vectors>) {
            registers.sum_taps(spaced.walk, {first, spaced.step * index_t{sizeof(Activation)}});
            return finish(registers);
        }
        registers.start(spaced.bias);
        Taps taps = spaced.taps;
        asking.begin_tile();
        for (index_t left = taps.count;; first += taps.advance()) {
            const Activation* x[array_size(Rows)];
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) x[r] = first + r * spaced.step;
            add_groups<Vectors>(registers, x, taps, asking);
            if (--left == 0) break;
        }
        asking.end_tile();
        finish(registers);
    }

private:
    /// Weights that a step reads.
    template <int Vectors> static constexpr index_t step_weights = Vectors* L::width() * Tile::depth* Tile::planes;
    /// The walk of that loop.
    static INTQ_ALWAYS_INLINE typename TapLoop::Walk walk_of(const Taps& taps, const Acc* first) noexcept {
        constexpr index_t together = TapLoop::groups_together * Tile::depth;
        constexpr index_t weight{sizeof(Weight)}, element{sizeof(Activation)};
        const index_t weights = taps.whole / Tile::depth * step_weights<Tile::vectors>;
        typename TapLoop::Walk walk;
        walk.first = first, walk.weights = taps.weights;
        walk.taps = taps.count, walk.row_taps = taps.row_taps;
        walk.registers = taps.whole / together, walk.groups = taps.whole % together / Tile::depth;
        walk.x_step = (taps.column_step - taps.whole) * element;
        walk.weight_step = (taps.column_weights - weights) * weight;
        walk.x_jump = (taps.row_jump - taps.whole) * element;
        walk.weight_jump = (taps.row_jump_weights - weights) * weight;
        return walk;
    }

    /// Adds the whole groups of a tap.
    ///
    /// @return the weights behind them
    template <int Vectors, class Registers>
    static INTQ_ALWAYS_INLINE const Weight* add_groups(Registers& registers, const Activation* const* x,
                                                       const Taps& taps, Asking<Vectors>& asking) noexcept {
        constexpr index_t step = step_weights<Vectors>;
        const Weight* w = taps.weights;
        index_t k = 0;
        if constexpr (constexpr index_t together = TapLoop::groups_together; together > 1)
            for (; k + together * Tile::depth <= taps.whole; k += together * Tile::depth, w += together * step)
                registers.steps(x, k, w);
        for (; k < taps.whole; k += Tile::depth, w += step) {
            asking.step();
            registers.step(x, k, w);
        }
        return w;
    }

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
    static void select_rows(const Panel& panel, index_t rows, Acc* sums) noexcept {
        constexpr int most = Tile::max_rows(Vectors);
        if constexpr (TakesMost)
            if (rows == most) return run_rows<most, Vectors>(panel, sums);
        simd::unroll<rows_below_most(Vectors)>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA {
            if (rows == r + 1) run_rows<r + 1, Vectors>(panel, sums);
        });
    }

    template <int Rows, int Vectors> static INTQ_NEVER_INLINE void run_rows(const Panel& panel, Acc* sums) noexcept {
        compute<Rows, Vectors>(panel, [&](const auto& registers) INTQ_ALWAYS_INLINE_LAMBDA {
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) {
                INTQ_UNROLL
                for (int v = 0; v < Vectors; ++v)
                    detail::LaneSum<L, Acc>::store(sums + (r * Vectors + v) * L::width(), registers.drain(r, v));
            }
        });
    }

    /// The bias, with the terms that the taps on padding would have added.
    static INTQ_NEVER_INLINE const Acc* first_sums(const Panel& panel, Acc* start) noexcept {
        const Acc* from = panel.bias;
        if constexpr (std::is_same_v<Acc, std::int32_t>) {
            const ValidTaps &valid_rows = panel.source.rows(), &valid_columns = panel.source.columns();
            const Acc* more = panel.padding;
            for (index_t row = 0; row < panel.kernel_rows; ++row)
                for (index_t column = 0; column < panel.row_taps; ++column, more += panel.padding_stride) {
                    if (row >= valid_rows.first && row < valid_rows.last && column >= valid_columns.first &&
                        column < valid_columns.last)
                        continue;
                    for (index_t c = 0; c < panel.vectors * L::width(); c += L::width())
                        L::store(start + c, L::add(L::load(from + c), L::load(more + c)));
                    from = start;
                }
        }
        return from;
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_GEMM_TILE_HPP
