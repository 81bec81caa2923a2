// SPDX-License-Identifier: MIT
//
// The GEMM skeleton: convolution, linear and matmul, int8, int16 and float, on a backend's register tile.
// Layer: kernels (docs/design.md section 5).
//
// Implicit GEMM: a row is an output pixel, a column an output channel; for each tap of the window a row of
// activations is a pointer, computed from the first. Nothing is copied or padded.
#ifndef INTQ_KERNELS_CONV_GEMM_HPP
#define INTQ_KERNELS_CONV_GEMM_HPP

#include "intq/arith/lanes.hpp"
#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/gemm_tasks.hpp"
#include "intq/kernels/conv/gemm_tile.hpp"
#include "intq/kernels/conv/stage.hpp"
#include "intq/kernels/packing/conv_call.hpp"
#include "intq/simd/tiles/generic_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// y = epilogue(sums) for the rows and panels of a task. It does not know the public type of the input: layers whose
/// tiles read the same staged type share this code.
///
/// @tparam Inner  a GemmTile
/// @tparam Sumin  element type of the fused add, or no_sumin
///
/// Memory   one tile of sums on the stack
template <class Inner, class Policy, class Y, class Sumin> struct GemmRows {
    using L = typename Inner::L;
    using Acc = typename Inner::Accumulator;
    using Panel = typename Inner::Panel;

    static INTQ_NEVER_INLINE void run(const ConvCall& call, typename Inner::Source& source, index_t group,
                                      const detail::GemmTasks::Task& task) INTQ_NOEXCEPT {
        alignas(buffer_alignment) Acc sums[array_size(largest_tile)];
        for (index_t index = task.first_panel; index < task.last_panel; ++index) {
            const Panel panel(*call.packed, source, group, index);
            for (index_t slot = task.first_row; slot < task.last_row;) {
                const index_t left = source.enter(slot, task.last_row) - slot;
                const index_t rows = Inner::tile_rows(panel.vectors, left, !has_fused || call.packed->scaled_is_small);
                if constexpr (std::is_same_v<Y, float>) prefetch(call, panel, rows);
                if (const index_t end = run_fused(call, panel, slot, rows, slot + left); end != slot) {
                    slot = end;
                    continue;
                }
                Inner::template run<!has_fused>(panel, rows, sums);
                store(call, panel, sums, rows);
                slot += rows;
            }
        }
    }

private:
    /// Whether the largest tiles have their epilogue in registers. A layer whose requantization is not proven to stay
    /// in range then runs in tiles of fewer rows: no other code needs the largest ones with their sums in memory.
    static constexpr bool has_fused = Epilogue<L, Policy, Y, Sumin>::has_quads;

    /// Asks for the lines of y that a tile will write. A panel writes a piece of each pixel: strides that the machine
    /// does not predict, while stores wait for their lines in order.
    static void prefetch(const ConvCall& call, const Panel& panel, index_t rows) noexcept {
        constexpr index_t line = buffer_alignment / static_cast<index_t>(sizeof(Y));
        index_t at[array_size(most_rows)];
        find_places(call, panel, rows, at);
        for (index_t r = 0; r < rows; ++r)
            for (index_t c = 0; c < panel.count; c += line) simd::prefetch(static_cast<const Y*>(call.y) + at[r] + c);
    }

    static constexpr index_t most_rows = [] {
        index_t most = 6;
        for (int v = 1; v <= Inner::vectors; ++v)
            if (Inner::max_rows(v) > most) most = Inner::max_rows(v);
        return most;
    }();

    /// Sums of the largest tile.
    static constexpr index_t largest_tile = [] {
        index_t most = 0;
        for (int v = 1; v <= Inner::vectors; ++v)
            if (const index_t sums = v * Inner::max_rows(v) * L::width(); sums > most) most = sums;
        return most;
    }();

    /// Runs a tile of the most rows with its epilogue in registers, where there is code for that: for the layers whose
    /// requantization is proven to stay in range. Of equally spaced rows, all such tiles before `last`.
    ///
    /// @return the slot behind them
    static index_t run_fused(const ConvCall& call, const Panel& panel, index_t slot, index_t rows,
                             index_t last) INTQ_NOEXCEPT {
        index_t end = slot;
        if constexpr (has_fused)
            simd::unroll<Inner::vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                constexpr int vectors = v + 1, most = Inner::max_rows(vectors);
                if (panel.vectors != vectors || rows != most || !call.packed->scaled_is_small) return;
                const index_t spaced_end = panel.source.spaced_end(last);
                const bool is_stored_whole = !stores_whole_rows || panel.count == vectors * L::width();
                if (spaced_end - slot >= most && panel.whole >= panel.depth && panel.source.has_taps() &&
                    is_stored_whole) {
                    end = fused_spaced<most, vectors>(call, panel, slot, spaced_end, last);
                } else {
                    fused<most, vectors>(call, panel);
                    end = slot + most;
                }
            });
        return end;
    }

    static constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;

    /// For use while run_task() holds the mode.
    using FusedEpilogue = Epilogue<simd::NearestLanes<L>, Policy, Y, Sumin>;

    template <int Rows, int Vectors>
    static INTQ_NEVER_INLINE void fused(const ConvCall& call, const Panel& panel) INTQ_NOEXCEPT {
        index_t at[array_size(Rows)];  // found beforehand: a call among sums in registers would store them all
        find_places(call, panel, Rows, at);
        Inner::template compute<Rows, Vectors>(panel, [&](const auto& registers) INTQ_ALWAYS_INLINE_LAMBDA {
            const FusedEpilogue epilogue(*call.packed);
            // All reads from memory come first: to the compiler, a store of byte codes may change any of it.
            const index_t channel = panel.channel, count = panel.count;
            store_registers<Rows, Vectors>(registers, epilogue, channel, count, static_cast<const Sumin*>(call.sumin),
                                           static_cast<Y*>(call.y), at);
        });
    }

    /// Tiles of equally spaced rows before `spaced_end`, as many as tile_rows() makes of `Rows` rows.
    ///
    /// @return the slot behind them
    template <int Rows, int Vectors>
    static INTQ_NEVER_INLINE index_t fused_spaced(const ConvCall& call, const Panel& panel, index_t slot,
                                                  index_t spaced_end, index_t last) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const typename Inner::SpacedRows spaced(panel);
        typename Inner::template Asking<Vectors> asking(panel.next);
        const index_t channel = panel.channel, count = panel.count, step = packed.out_channels;
        const index_t first = place(call, panel);
        const Sumin* sumin = sumin_at(call, first);
        Y* y = static_cast<Y*>(call.y) + first;
        const typename Inner::Activation* x = panel.source.spaced_start() + panel.in_channel;
        const index_t x_step = Rows * panel.source.spaced_step();
        const index_t sumin_step = adds ? step : 0;
        const index_t tiles = Inner::whole_tiles(Vectors, last - slot, spaced_end - slot);
        const auto run_tiles = [&](auto&& store) INTQ_ALWAYS_INLINE_LAMBDA {
            for (index_t tile = 0; tile < tiles; ++tile) {
                Inner::template compute_spaced<Rows, Vectors>(spaced, x, asking, store);
                x += x_step;
            }
        };
        if constexpr (stores_whole_rows) {
            const FusedEpilogue epilogue(packed);
            const PanelChannels<Vectors> channels(epilogue, channel);
            run_tiles([&](const auto& registers) INTQ_ALWAYS_INLINE_LAMBDA {
                store_whole_rows<Rows, Vectors>(registers, epilogue, channels, [&]() INTQ_ALWAYS_INLINE_LAMBDA {
                    const RowPlace row{sumin, y};
                    sumin += sumin_step, y += step;
                    return row;
                });
            });
        } else {
            index_t at[array_size(Rows)];
            INTQ_UNROLL
            for (int r = 0; r < Rows; ++r) at[r] = r * step;
            run_tiles([&](const auto& registers) INTQ_ALWAYS_INLINE_LAMBDA {
                // Made for each tile: among the sums, its lanes would find no registers.
                const FusedEpilogue epilogue(packed);
                store_registers<Rows, Vectors>(registers, epilogue, channel, count, sumin, y, at);
                sumin += Rows * sumin_step, y += Rows * step;
            });
        }
        asking.give_back(panel.next);
        return slot + tiles * Rows;
    }

    /// Where a row goes, and the fused add's operand of it.
    struct RowPlace {
        const Sumin* sumin;
        Y* y;
    };
    /// The parameters of the columns of a panel.
    template <int Vectors> struct PanelChannels {
        INTQ_ALWAYS_INLINE PanelChannels(const FusedEpilogue& epilogue, index_t channel) noexcept {
            simd::unroll<Vectors>(
                [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { of[v] = epilogue.channels(channel + v * L::width()); });
        }
        typename FusedEpilogue::Channels of[array_size(Vectors)];
    };
    /// Whether whole rows have code of their own.
    static constexpr bool stores_whole_rows = simd::has_whole_loops<L>;

    /// A tile of sums in registers through the epilogue, if its columns are whole vectors.
    ///
    /// @param next_row  next_row() returns the RowPlace of each row in turn
    template <int Rows, int Vectors, class Registers, class NextRow>
    static INTQ_ALWAYS_INLINE void store_whole_rows(const Registers& registers, const FusedEpilogue& epilogue,
                                                    const PanelChannels<Vectors>& channels,
                                                    NextRow&& next_row) noexcept {
        constexpr int together = FusedEpilogue::template rows_together<Vectors>();
        constexpr index_t whole = Vectors * L::width();
        constexpr int grouped = together == 1 ? 0 : Rows / together * together;
        simd::unroll<grouped / together>([&](auto group) INTQ_ALWAYS_INLINE_LAMBDA {
            constexpr int first = group * together;
            const RowPlace row = next_row();
            index_t places[array_size(together)] = {};
            simd::unroll<together - 1>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA { places[r + 1] = next_row().y - row.y; });
            epilogue.template store_rows<Vectors>(
                [&](int r, int v) INTQ_ALWAYS_INLINE_LAMBDA { return registers.drain(first + r, v); }, channels.of,
                row.sumin, row.y, places, whole);
        });
        simd::unroll<Rows - grouped>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA {
            const RowPlace row = next_row();
            epilogue.template store_channels<Vectors>(
                [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { return registers.drain(grouped + r, v); }, channels.of,
                row.sumin, row.y, whole);
        });
    }

    /// A tile of sums in registers through the epilogue; row r goes to at[r].
    template <int Rows, int Vectors, class Registers>
    static INTQ_ALWAYS_INLINE void store_registers(const Registers& registers, const FusedEpilogue& epilogue,
                                                   index_t channel, index_t count, const Sumin* sumin, Y* y,
                                                   const index_t (&at)[array_size(Rows)]) noexcept {
        constexpr int together = FusedEpilogue::template rows_together<Vectors>();
        if constexpr (stores_whole_rows)
            if (count == Vectors * L::width()) {
                int r = 0;
                return store_whole_rows<Rows, Vectors>(registers, epilogue, PanelChannels<Vectors>(epilogue, channel),
                                                       [&]() INTQ_ALWAYS_INLINE_LAMBDA {
                                                           const index_t to = at[r++];
                                                           return RowPlace{sumin + (adds ? to : 0), y + to};
                                                       });
            }
        if constexpr (together > 1) {
            INTQ_UNROLL
            for (int r = 0; r + together <= Rows; r += together)
                epilogue.template store_rows<Vectors>(
                    [&](int row, int v) INTQ_ALWAYS_INLINE_LAMBDA { return registers.drain(r + row, v); }, channel,
                    sumin, y, at + r, count);
        }
        INTQ_UNROLL
        for (int r = together > 1 ? Rows / together * together : 0; r < Rows; ++r)
            epilogue.template store_quad<Vectors>([&](int v)
                                                      INTQ_ALWAYS_INLINE_LAMBDA { return registers.drain(r, v); },
                                                  channel, sumin + (adds ? at[r] : 0), y + at[r], count);
    }

    /// A tile of sums through the epilogue.
    static void store(const ConvCall& call, const Panel& panel, const Acc* sums, index_t rows) INTQ_NOEXCEPT {
        index_t at[array_size(most_rows)];
        find_places(call, panel, rows, at);
        if constexpr (Epilogue<L, Policy, Y, Sumin>::has_quads) {
            simd::unroll<Inner::vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                if (panel.vectors == v + 1) store_quads<v + 1>(call, panel, sums, at, rows);
            });
        } else {
            store_vectors(call, panel, sums, at, rows);
        }
    }

    template <int Vectors>
    static void store_quads(const ConvCall& call, const Panel& panel, const Acc* sums, const index_t* places,
                            index_t rows) INTQ_NOEXCEPT {
        const Epilogue<L, Policy, Y, Sumin> epilogue(*call.packed);
        for (index_t r = 0; r < rows; ++r) {
            const index_t at = places[r];
            const Acc* const from = sums + r * Vectors * L::width();
            epilogue.template store_quad<Vectors>(
                [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { return detail::LaneSum<L, Acc>::load(from + v * L::width()); },
                panel.channel, sumin_at(call, at), static_cast<Y*>(call.y) + at, panel.count);
        }
    }

    static void store_vectors(const ConvCall& call, const Panel& panel, const Acc* sums, const index_t* places,
                              index_t rows) INTQ_NOEXCEPT {
        const Epilogue<L, Policy, Y, Sumin> epilogue(*call.packed);
        for (index_t lane = 0; lane < panel.count; lane += L::width()) {
            const index_t count = panel.count - lane < L::width() ? panel.count - lane : L::width();
            const auto channels = epilogue.channels(panel.channel + lane);
            for (index_t r = 0; r < rows; ++r) {
                const index_t at = places[r] + lane;
                epilogue.store(detail::LaneSum<L, Acc>::load(sums + r * panel.vectors * L::width() + lane), channels,
                               sumin_at(call, at), static_cast<Y*>(call.y) + at, count);
            }
        }
    }

    /// The element of y where the source's slot goes; and where it and those that follow it go.
    static INTQ_ALWAYS_INLINE index_t place(const ConvCall& call, const Panel& panel) noexcept {
        return panel.source.pixel() * call.packed->out_channels + panel.offset;
    }
    static INTQ_ALWAYS_INLINE void find_places(const ConvCall& call, const Panel& panel, index_t rows,
                                               index_t* at) noexcept {
        if (!panel.source.is_in_order()) return look_up_places(call, panel, rows, at);
        const index_t first = place(call, panel), step = call.packed->out_channels;
        INTQ_UNROLL_KNOWN
        for (index_t r = 0; r < rows; ++r) at[r] = first + r * step;
    }
    static INTQ_NEVER_INLINE void look_up_places(const ConvCall& call, const Panel& panel, index_t rows,
                                                 index_t* at) noexcept {
        panel.source.pixels(rows, at);
        for (index_t r = 0; r < rows; ++r) at[r] = at[r] * call.packed->out_channels + panel.offset;
    }
    static INTQ_ALWAYS_INLINE const Sumin* sumin_at(const ConvCall& call, index_t at) noexcept {
        return static_cast<const Sumin*>(call.sumin) + (adds ? at : 0);
    }
};

/// y = epilogue(sum over taps and channels of x·w) for the types of one registry row.
///
/// @tparam X, W, Acc, Y  public types of input, weight, accumulator and output; float throughout, or integers
/// @tparam E             element type of the fused add, or no_sumin
///
/// Result   exact for integers: sums wrap, and the packer proved that the true sum fits
/// Memory   one tile of sums on the stack
/// Cost     2 · rows · columns · taps · channels operations; taps that fall on padding are skipped
template <class Backend, class Policy, class X, class Weight, class Acc, class Y, class Sumin> struct Gemm {
    using L = simd::lanes<Backend>;
    using Inner = GemmTile<Backend, typename simd::Tile<Backend, X, Weight, Acc>::shared, Acc>;
    using Rows = GemmRows<Inner, Policy, Y, Sumin>;

    static INTQ_NEVER_INLINE void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.packing.columns == Inner::columns);
        INTQ_ASSERT(packed.has_sumin == !(std::is_same_v<Sumin, no_sumin>));
        detail::GemmWork work;
        work.rows = call.geometry->batch * call.geometry->out_pixels();
        work.panels = packed.panels();
        work.row_bytes =
            packed.tap_count() * packed.tap_depth() * static_cast<index_t>(sizeof(typename Inner::Activation));
        work.panel_bytes = packed.panel_size() * static_cast<index_t>(sizeof(typename Inner::Weight));
        work.converts = converts_blocks(call);
        work.is_serial = call.executor->is_serial();
        const detail::GemmTasks tasks(work);
        (*call.executor)(packed.groups * tasks.count(), [&](index_t index) {
            const index_t group = packed.groups == 1 ? 0 : quotient(index, tasks.count());
            run_task(call, group, tasks.task(work, index - group * tasks.count()));
        });
    }

private:
    using Task = detail::GemmTasks::Task;

    /// Whether rows are converted as the kernel comes to them.
    static bool converts_blocks(const ConvCall& call) noexcept {
        return !std::is_same_v<X, typename Inner::Activation> &&
               detail::input_form(*call.packed) == detail::InputForm::blocks;
    }

    static INTQ_NEVER_INLINE void run_task(const ConvCall& call, index_t group, const Task& task) INTQ_NOEXCEPT {
        [[maybe_unused]] const simd::NearestMode<L> mode;
        if (!std::is_same_v<X, typename Inner::Activation> && converts_blocks(call))
            return run_staged_blocks(call, group, task);
        typename Inner::Source source(*call.packed, *call.geometry,
                                      static_cast<const typename Inner::Activation*>(call.x));
        Rows::run(call, source, group, task);
    }

    /// Repeatedly converts as many rows as the stack holds, and runs them.
    static void run_staged_blocks(const ConvCall& call, index_t group, const Task& task) INTQ_NOEXCEPT {
        using Activation = typename Inner::Activation;
        constexpr auto size = detail::staged_block_bytes / static_cast<index_t>(sizeof(Activation));
        alignas(buffer_alignment) Activation staged[size + Inner::Tile::depth];
        const index_t channels = call.packed->in_channels, rows = task.last_row - task.first_row;
        const index_t nearby = detail::near_block_elements(channels, static_cast<index_t>(sizeof(Activation)));
        const index_t panel = call.packed->group_stride / L::width();  // vectors of the first one, where it is narrow
        const index_t tile = Inner::max_rows(panel < Inner::vectors ? static_cast<int>(panel) : Inner::vectors);
        const index_t most = rows * channels <= nearby ? rows : nearby / channels / tile * tile;
        const detail::Stager<Backend> stager(*call.packed, call.x, staged);
        for (index_t from = task.first_row; from < task.last_row; from += most) {
            const index_t to = from + most < task.last_row ? from + most : task.last_row;
            stager.copy(from * channels, 0, (to - from) * channels);
            stager.fill((to - from) * channels, Inner::Tile::depth, 0);
            typename Inner::Source source(*call.packed, *call.geometry, staged, from);
            Rows::run(call, source, group, {from, to, task.first_panel, task.last_panel});
        }
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_GEMM_HPP
