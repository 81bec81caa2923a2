// SPDX-License-Identifier: MIT
//
// The skeleton of convolutions and linear layers on tiles of matrix products. Layer: kernels (docs/gemm.md).
#ifndef INTQ_KERNELS_CONV_INTERLEAVED_GEMM_HPP
#define INTQ_KERNELS_CONV_INTERLEAVED_GEMM_HPP

#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/conv/gemm_tasks.hpp"
#include "intq/kernels/packing/interleaved_layout.hpp"
#include "intq/kernels/staging/interleaved_stage.hpp"
#include "intq/simd/base/primitives.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// y = epilogue(bias + sum over the window and channels of x·w) for the types of one registry row.
///
/// @tparam Y      public type of the output
/// @tparam Sumin  element type of the fused add, or no_sumin
///
/// Result   exact: sums wrap, and the packer proved that the true sum fits
/// Memory   on the stack, or for long columns conv2d_workspace_size(): tiles of staged windows
/// Cost     2 · pixels · channels · window operations; padding is multiplied like pixels
template <class Backend, class Policy, class Y, class Sumin> struct InterleavedGemm {
    static INTQ_NEVER_INLINE void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.packing == Backend::int8_packing && !packed.is_depthwise && packed.has_sumin == adds);
        if (!detail::fits_interleaved_block(packed)) return run_long(call);
        detail::GemmWork work;
        work.rows = call.geometry->batch * call.geometry->out_pixels();
        work.panels = packed.panels();
        work.row_bytes = packed.column_size();
        work.panel_bytes = packed.panel_size();
        work.converts = true;
        work.is_serial = call.executor->is_serial();
        const detail::GemmTasks tasks(work);
        (*call.executor)(packed.groups * tasks.count(), [&](index_t index) {
            const index_t group = packed.groups == 1 ? 0 : quotient(index, tasks.count());
            run_task(call, group, tasks.task(work, index - group * tasks.count()));
        });
    }

private:
    using L = simd::lanes<Backend>;
    using Tile = simd::MatrixTile<Backend>;
    using Stager = detail::InterleavedStager<Backend>;
    static constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;
    static constexpr index_t rows = simd::matrix_rows, columns = simd::matrix_columns;
    static constexpr int vectors = static_cast<int>(columns / L::width());

    /// Pixels that are staged, and where.
    struct Rows {
        const std::int8_t* x;
        index_t first, count, group;
    };

    /// As many tiles at a time as the stack holds.
    static INTQ_NEVER_INLINE void run_task(const ConvCall& call, index_t group,
                                           const detail::GemmTasks::Task& task) INTQ_NOEXCEPT {
        [[maybe_unused]] const simd::NearestMode<L> mode;
        alignas(buffer_alignment) std::int8_t staged[detail::interleaved_block_bytes];
        const Stager stager(call, group);
        const index_t column = call.packed->column_size(), most = detail::interleaved_block_rows(column);
        for (index_t first = task.first_row; first < task.last_row; first += most) {
            const index_t count = task.last_row - first < most ? task.last_row - first : most;
            for (index_t r = 0; r < count; r += rows)
                stager.write(first + r, count - r < rows ? count - r : rows, staged + r * column);
            for (index_t panel = task.first_panel; panel < task.last_panel; ++panel)
                run_panel(call, {staged, first, count, group}, panel);
        }
    }
    /// A tile at a time in the workspace: threads share its panels.
    static INTQ_NEVER_INLINE void run_long(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        auto* const staged = reinterpret_cast<std::int8_t*>(call.workspace);
        const index_t pixels = call.geometry->batch * call.geometry->out_pixels();
        for (index_t group = 0; group < packed.groups; ++group) {
            const Stager stager(call, group);
            for (index_t first = 0; first < pixels; first += rows) {
                const index_t count = pixels - first < rows ? pixels - first : rows;
                stager.write(first, count, staged);
                (*call.executor)(packed.panels(), [&](index_t panel) {
                    [[maybe_unused]] const simd::NearestMode<L> mode;
                    run_panel(call, {staged, first, count, group}, panel);
                });
            }
        }
    }

    static void run_panel(const ConvCall& call, const Rows& staged, index_t panel) INTQ_NOEXCEPT {
        const index_t left = call.packed->group_stride - panel * columns;
        simd::unroll<vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
            if (v + 1 == vectors ? left >= columns : left == (v + 1) * L::width())
                run_tiles<v + 1>(call, staged, panel);
        });
    }

    template <int Vectors>
    static INTQ_NEVER_INLINE void run_tiles(const ConvCall& call, const Rows& staged, index_t panel) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const index_t column = packed.column_size(), c = panel * columns;
        const index_t channel = staged.group * packed.group_stride + c, outputs = packed.group_outputs() - c;
        constexpr index_t width = Vectors * L::width();
        alignas(buffer_alignment) std::int32_t sums[array_size(rows * width)];
        simd::MatrixSums tile{};
        tile.x = staged.x;
        tile.w = static_cast<const std::int8_t*>(packed.weights) + staged.group * packed.group_weights() + c * column;
        tile.groups = column / simd::matrix_depth;
        std::int32_t bias[array_size(2 * width)];
        Tile::template spread_columns<Vectors>(static_cast<const std::int32_t*>(packed.bias) + channel, bias);
        tile.bias = bias;
        tile.sums = sums;
        Store to{sums, staged.first * packed.out_channels + staged.group * packed.group_outputs() + c, 0, channel,
                 outputs < width ? outputs : width};
        index_t r = 0;
        if constexpr (Vectors == vectors && Epilogue<L, Policy, Y, Sumin>::has_paired_rows)
            if (to.count == columns) {
                const index_t whole = staged.count / rows * rows;
                if (packed.scaled_is_small)
                    run_pairs<simd::NearestLanes<L>>(call, tile, whole, to);
                else
                    run_pairs<L>(call, tile, whole, to);
                to.at += whole * packed.out_channels, r = whole;
            }
        for (; r < staged.count; r += rows, to.at += rows * packed.out_channels) {
            to.rows = staged.count - r < rows ? staged.count - r : rows;
            tile.x = staged.x + r * column;
            add<Vectors>(tile, to.rows);
            if (packed.scaled_is_small)
                store<Vectors, simd::NearestLanes<L>>(call, to);
            else
                store<Vectors, L>(call, to);
        }
    }

    template <int Vectors>
    static INTQ_ALWAYS_INLINE void add(const simd::MatrixSums& tile, index_t count) INTQ_NOEXCEPT {
        simd::unroll<4>([&](auto p) INTQ_ALWAYS_INLINE_LAMBDA {
            if ((count + 1) / 2 == p + 1) Tile::template add<p + 1, Vectors>(tile);
        });
    }

    /// The sums of a tile, and where its codes go.
    struct Store {
        const std::int32_t* sums;
        index_t at, rows;  // element of y
        index_t channel, count;
    };

    /// Whole tiles of a panel of all columns, whose sums stay in registers and become codes in pairs of rows.
    ///
    /// @param count  pixels
    template <class Lanes>
    static INTQ_ALWAYS_INLINE void run_pairs(const ConvCall& call, simd::MatrixSums tile, index_t count,
                                             const Store& to) INTQ_NOEXCEPT {
        using Out = Epilogue<Lanes, Policy, Y, Sumin>;
        constexpr index_t pair = 2 * columns;
        constexpr int pair_vectors = static_cast<int>(pair / L::width());
        const PackedConv2d& packed = *call.packed;
        std::int32_t words[array_size(Policy::words * pair)];
        for (index_t w = 0; w < Policy::words; ++w)
            Tile::template spread_columns<vectors>(packed.words + w * packed.padded_outputs() + to.channel,
                                                   words + w * pair);
        const Out epilogue(packed, words, pair);
        typename Out::Channels channels[array_size(pair_vectors)];
        simd::unroll<pair_vectors>([&](auto v)
                                       INTQ_ALWAYS_INLINE_LAMBDA { channels[v] = epilogue.channels(v * L::width()); });
        const index_t step = packed.out_channels, tile_bytes = rows * packed.column_size();
        Y* y = static_cast<Y*>(call.y) + to.at;
        for (index_t left = count; left > 0; left -= rows, tile.x += tile_bytes) {
            typename L::i32 sums[array_size(rows / 2 * pair_vectors)];
            Tile::add_in_pairs(tile, sums);
            simd::unroll<rows / 4>([&](auto half) INTQ_ALWAYS_INLINE_LAMBDA {
                Y* const second = y + step;
                Y* const third = second + step;
                epilogue.store_paired_rows([&](auto v)
                                               INTQ_ALWAYS_INLINE_LAMBDA { return sums[half * 2 * pair_vectors + v]; },
                                           channels, {y, second, third, third + step});
                y = third + 2 * step;
            });
        }
    }

    template <int Vectors, class Lanes>
    static INTQ_ALWAYS_INLINE void store(const ConvCall& call, const Store& to) INTQ_NOEXCEPT {
        using Out = Epilogue<Lanes, Policy, Y, Sumin>;
        const Out epilogue(*call.packed);
        typename Out::Channels channels[array_size(Vectors)];
        simd::unroll<Vectors>(
            [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { channels[v] = epilogue.channels(to.channel + v * L::width()); });
        const index_t step = call.packed->out_channels, count = to.count;
        Y* y = static_cast<Y*>(call.y) + to.at;
        const Sumin* e = static_cast<const Sumin*>(call.sumin) + (adds ? to.at : 0);
        const std::int32_t* sums = to.sums;
        constexpr index_t width = Vectors * L::width();
        const auto store_row = [&](index_t r, index_t codes) INTQ_ALWAYS_INLINE_LAMBDA {
            epilogue.template store_channels<Vectors>(
                [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { return L::load(sums + (r * width + v * L::width())); },
                channels, e + (adds ? r * step : 0), y + r * step, codes);
        };
        if (to.rows == rows && count == width)
            return simd::unroll<rows>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA { store_row(r, width); });
        for (index_t r = 0; r < to.rows; ++r) store_row(r, count);
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_INTERLEAVED_GEMM_HPP
