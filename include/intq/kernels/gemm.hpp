// SPDX-License-Identifier: MIT
//
// The GEMM skeleton: convolution, linear and matmul, int8, int16 and float, on a backend's register tile.
// Layer: kernels (DESIGN section 5).
//
// Implicit GEMM: a row is an output pixel, a column an output channel; for each tap of the window a row of
// activations is a pointer, looked up in the geometry. Nothing is copied or padded.
#ifndef INTQ_KERNELS_GEMM_HPP
#define INTQ_KERNELS_GEMM_HPP

#include "intq/core/executor.hpp"
#include "intq/kernels/epilogue.hpp"
#include "intq/kernels/gemm_input.hpp"
#include "intq/simd/generic_tile.hpp"

namespace intq::inline INTQ_ABI::kernels {

/// One run of a packed layer, as a function pointer takes it.
struct ConvCall {
    const PackedConv2d* packed = nullptr;
    const ConvGeometry* geometry = nullptr;
    const void* x = nullptr;      // channels last, of the layer's input type; staged for gemm
    const void* sumin = nullptr;  // as y in shape, of the layer's input type
    void* y = nullptr;
    const Executor* executor = nullptr;
};

namespace detail {

/// Bytes of activations that a block of rows should keep inside the L2 cache.
inline constexpr index_t row_block_bytes = 256 * 1024;

}  // namespace detail

/// The inner part, keyed on operand types alone: sums of a tile of output pixels by one packed panel.
///
///     sums[r][c] = bias[c] + sum over taps and k of x[tap of row r][k] · w[tap][k][c]
///
/// A target has many epilogues but few of these, which hold the unrolled code: so instantiations stay few.
///
/// @tparam Tile  the register tile, simd::Tile<…>::shared
template <class Backend, class Tile, class Acc> struct GemmTile {
    using L = simd::lanes<Backend>;
    using Activation = typename Tile::activation;
    using Weight = typename Tile::weight;
    using Source = detail::RowSource<Activation>;
    static constexpr index_t columns = Tile::columns;
    static constexpr int most_rows = Tile::max_rows(Tile::narrowest);

    /// One packed panel of one group.
    struct Panel {
        const Weight* weights;
        const Acc* bias;
        const Acc* padding;  // what a tap adds where it falls on padding, by tap; null where that is nothing
        index_t vectors;
    };
    static Panel panel(const PackedConv2d& packed, index_t group, index_t index) noexcept {
        const index_t at = group * packed.group_stride + index * columns, left = packed.group_stride - index * columns;
        return {
            static_cast<const Weight*>(packed.weights) + group * packed.group_weights() + index * packed.panel_size(),
            static_cast<const Acc*>(packed.bias) + at,
            packed.tap_bias == nullptr ? nullptr : static_cast<const Acc*>(packed.tap_bias) + at,
            (left < columns ? left : columns) / L::width()};
    }

    /// Rows of the next tile, of `left` rows that are padded alike: at most what fits, the last tiles of one size.
    static index_t tile_rows(index_t vectors, index_t left) noexcept {
        const index_t most = Tile::max_rows(static_cast<int>(vectors));
        if (left >= 2 * most || (left >= most && most > small_rows)) return most;
        const index_t limit = most < small_rows ? most : small_rows, tiles = (left + limit - 1) / limit;
        return (left + tiles - 1) / tiles;
    }

    /// Sums of `rows` slots from `slot` on, tile_rows() of them, in `vectors` vectors a row.
    static void run(const PackedConv2d& packed, const Source& source, const Panel& panel, index_t group, index_t slot,
                    index_t rows, Acc* sums) noexcept {
        simd::unroll<Tile::vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
            constexpr int vectors = v + 1;
            if constexpr (vectors >= Tile::narrowest)
                if (panel.vectors == vectors)
                    select_rows<vectors>(packed, source, panel, group * packed.group_inputs(), slot, rows, sums);
        });
    }

private:
    /// Every number of rows up to this has code of its own; above it only the most that fit.
    static constexpr int small_rows = 6;

    template <int Vectors>
    static void select_rows(const PackedConv2d& packed, const Source& source, const Panel& panel, index_t channel,
                            index_t slot, index_t rows, Acc* sums) noexcept {
        constexpr int most = Tile::max_rows(Vectors);
        if (rows == most) return run_rows<most, Vectors>(packed, source, panel, channel, slot, sums);
        constexpr int below = most - 1 < small_rows ? most - 1 : small_rows;
        simd::unroll<below>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA {
            if (rows == r + 1) run_rows<r + 1, Vectors>(packed, source, panel, channel, slot, sums);
        });
    }

    template <int Rows, int Vectors>
    static INTQ_NEVER_INLINE void run_rows(const PackedConv2d& packed, const Source& source, const Panel& panel,
                                           index_t channel, index_t slot, Acc* sums) noexcept {
        constexpr index_t step = Vectors * L::width() * Tile::depth;
        const index_t depth = packed.tap_depth();
        // A staged copy may be read beyond the last channel.
        const index_t whole = packed.packing.staging == simd::Staging::as_is ? depth / Tile::depth * Tile::depth
                                                                             : round_up(depth, Tile::depth);
        const detail::RowPointers<Activation, Rows> rows(source, channel, slot);
        typename Tile::template Registers<Rows, Vectors> registers;
        alignas(buffer_alignment) Acc start[Vectors * L::width()];
        registers.start(first_sums<Vectors>(packed, panel, rows, start));
        const Weight* w = panel.weights;
        // Taps that follow each other in a row of the window read elements that follow each other.
        const bool joins = Tile::depth == 1 && packed.groups == 1 && packed.window.dilation.width == 1;
        const index_t width = joins ? packed.window.kernel.width : 1;
        index_t taps = 1;
        for (index_t tap = 0; tap < packed.tap_count(); tap += taps) {
            taps = 1;
            if (rows.is_padding(tap)) {
                w += round_up(depth, Tile::depth) / Tile::depth * step;
                continue;
            }
            const Activation* x[Rows];
            rows.at(tap, x);
            if constexpr (Tile::depth == 1) taps = rows.valid_taps(tap, width);
            for (index_t k = 0; k < taps * whole; k += Tile::depth, w += step) registers.step(x, k, w);
            if (whole < depth) {
                registers.step_part(x, whole, depth - whole, w);
                w += step;
            }
        }
        simd::unroll<Rows>([&](auto r) INTQ_ALWAYS_INLINE_LAMBDA {
            simd::unroll<Vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                detail::LaneSum<L, Acc>::store(sums + (r * Vectors + v) * L::width(), registers.template drain<r, v>());
            });
        });
    }

    /// The bias, with what the padded taps would have added.
    template <int Vectors, class Rows>
    static INTQ_ALWAYS_INLINE const Acc* first_sums(const PackedConv2d& packed, const Panel& panel, const Rows& rows,
                                                    Acc* start) noexcept {
        if constexpr (std::is_same_v<Acc, std::int32_t>) {
            bool adds = false;
            for (index_t tap = 0; panel.padding != nullptr && tap < packed.tap_count(); ++tap) {
                if (!rows.is_padding(tap)) continue;
                const Acc* const from = adds ? start : panel.bias;
                adds = true;
                for (index_t c = 0; c < Vectors * L::width(); c += L::width())
                    L::store(start + c,
                             L::add(L::load(from + c), L::load(panel.padding + tap * packed.padded_outputs() + c)));
            }
            return adds ? start : panel.bias;
        } else {
            return panel.bias;
        }
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
template <class Backend, class Policy, class X, class W, class Acc, class Y, class E> struct Gemm {
    using L = simd::lanes<Backend>;
    using Inner = GemmTile<Backend, typename simd::Tile<Backend, X, W, Acc>::shared, Acc>;

    static void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.packing.columns == Inner::columns);
        INTQ_ASSERT(packed.has_sumin == !(std::is_same_v<E, no_sumin>));
        const index_t rows = call.geometry->batch * call.geometry->out_pixels();
        const index_t row_bytes =
            packed.tap_count() * packed.tap_depth() * static_cast<index_t>(sizeof(typename Inner::Activation));
        // Each block reads a panel anew: the rows it serves are then twice the panel, though they leave the L2 cache.
        const index_t panel_bytes = packed.panel_size() * static_cast<index_t>(sizeof(typename Inner::Weight));
        const index_t block_bytes =
            2 * panel_bytes > detail::row_block_bytes ? 2 * panel_bytes : detail::row_block_bytes;
        index_t block = block_bytes / (row_bytes > 0 ? row_bytes : 1);
        block = round_up(block < 1 ? 1 : block, Inner::most_rows);
        const index_t blocks = (rows + block - 1) / block;
        (*call.executor)(packed.groups * blocks, [&](index_t task) {
            const index_t first = task % blocks * block;
            run_block(call, task / blocks, first, first + block < rows ? first + block : rows);
        });
    }

private:
    static INTQ_NEVER_INLINE void run_block(const ConvCall& call, index_t group, index_t first,
                                            index_t last) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const typename Inner::Source source(packed, *call.geometry,
                                            static_cast<const typename Inner::Activation*>(call.x));
        alignas(buffer_alignment) Acc sums[largest_tile];
        for (index_t index = 0; index < packed.panels(); ++index) {
            const typename Inner::Panel panel = Inner::panel(packed, group, index);
            for (index_t slot = first; slot < last;) {
                const index_t rows = Inner::tile_rows(panel.vectors, source.run_end(slot, last) - slot);
                if constexpr (std::is_same_v<Y, float>) prefetch(call, source, group, index, panel.vectors, slot, rows);
                Inner::run(packed, source, panel, group, slot, rows, sums);
                store(call, source, sums, group, index, panel.vectors, slot, rows);
                slot += rows;
            }
        }
    }

    /// Asks for the lines of y that a tile will write. A panel writes a piece of each pixel: strides that the machine
    /// does not foresee, while stores wait for their lines in order.
    static void prefetch(const ConvCall& call, const typename Inner::Source& source, index_t group, index_t panel,
                         index_t vectors, index_t slot, index_t rows) noexcept {
        constexpr index_t line = buffer_alignment / static_cast<index_t>(sizeof(Y));
        const Place to = place(*call.packed, group, panel, vectors * L::width());
        index_t pixels[Inner::most_rows];
        source.pixels(slot, rows, pixels);
        for (index_t r = 0; r < rows; ++r)
            for (index_t c = 0; c < to.count; c += line)
                simd::prefetch(static_cast<const Y*>(call.y) + pixels[r] * call.packed->out_channels + to.offset + c);
    }

    /// Sums of the tile that has most.
    static constexpr index_t largest_tile = [] {
        index_t most = 0;
        for (int v = 1; v <= static_cast<int>(Inner::columns / L::width()); ++v)
            if (const index_t sums = v * simd::Tile<Backend, X, W, Acc>::max_rows(v) * L::width(); sums > most)
                most = sums;
        return most;
    }();

    /// A tile of sums through the epilogue.
    static void store(const ConvCall& call, const typename Inner::Source& source, const Acc* sums, index_t group,
                      index_t panel, index_t vectors, index_t slot, index_t rows) INTQ_NOEXCEPT {
        index_t pixels[Inner::most_rows];
        source.pixels(slot, rows, pixels);
        if constexpr (Epilogue<L, Policy, Y, E>::has_quads) {
            simd::unroll<4>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                if (vectors == v + 1) store_quads<v + 1>(call, sums, group, panel, pixels, rows);
            });
        } else {
            store_vectors(call, sums, group, panel, vectors, pixels, rows);
        }
    }

    /// Where a row of a tile goes: output channels of this group from the panel's first on.
    struct Place {
        index_t channel;  // among the padded ones
        index_t offset;   // in a pixel
        index_t count;    // the rest of the panel is padding
    };
    static Place place(const PackedConv2d& packed, index_t group, index_t panel, index_t width) noexcept {
        const index_t first = panel * Inner::columns, left = packed.group_outputs() - first;
        return {group * packed.group_stride + first, group * packed.group_outputs() + first,
                left < width ? left : width};
    }
    static const E* sumin_at(const ConvCall& call, index_t at) noexcept {
        return static_cast<const E*>(call.sumin) + (std::is_same_v<E, no_sumin> ? 0 : at);
    }

    template <int Vectors>
    static void store_quads(const ConvCall& call, const Acc* sums, index_t group, index_t panel, const index_t* pixels,
                            index_t rows) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        constexpr index_t width = Vectors * L::width();
        const Place to = place(packed, group, panel, width);
        const Epilogue<L, Policy, Y, E> epilogue(packed);
        typename Epilogue<L, Policy, Y, E>::Channels channels[Vectors];
        simd::unroll<Vectors>(
            [&](auto v) INTQ_ALWAYS_INLINE_LAMBDA { channels[v] = epilogue.channels(to.channel + v * L::width()); });
        for (index_t r = 0; r < rows; ++r) {
            const index_t at = pixels[r] * packed.out_channels + to.offset;
            epilogue.template store_quad<Vectors>(sums + r * width, channels, sumin_at(call, at),
                                                  static_cast<Y*>(call.y) + at, to.count);
        }
    }

    static void store_vectors(const ConvCall& call, const Acc* sums, index_t group, index_t panel, index_t vectors,
                              const index_t* pixels, index_t rows) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const index_t width = vectors * L::width();
        const Place to = place(packed, group, panel, width);
        const Epilogue<L, Policy, Y, E> epilogue(packed);
        for (index_t lane = 0; lane < to.count; lane += L::width()) {
            const index_t count = to.count - lane < L::width() ? to.count - lane : L::width();
            const auto channels = epilogue.channels(to.channel + lane);
            for (index_t r = 0; r < rows; ++r) {
                const index_t at = pixels[r] * packed.out_channels + to.offset + lane;
                epilogue.store(detail::LaneSum<L, Acc>::load(sums + r * width + lane), channels, sumin_at(call, at),
                               static_cast<Y*>(call.y) + at, count);
            }
        }
    }
};

}  // namespace intq::inline INTQ_ABI::kernels

#endif  // INTQ_KERNELS_GEMM_HPP
