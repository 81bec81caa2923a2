// SPDX-License-Identifier: MIT
//
// The depthwise tiles: of ISAs that multiply and add a group of four bytes a lane, and of floats. Layer: simd.
#ifndef INTQ_SIMD_TILES_DEPTHWISE_TILE_HPP
#define INTQ_SIMD_TILES_DEPTHWISE_TILE_HPP

#include <cstdint>

#include "intq/simd/base/primitives.hpp"

namespace intq::simd {
inline namespace INTQ_ABI {

/// Two pixels, the first half and the second of a block.
template <class T> struct PixelPair { const T *low, *high; };

/// Pixels of a line and the columns that a 3×3 window visits for them, for a loop that is written in assembly: all
/// numbers in bytes but counts. The first column and the last one may be padding; at least one is in the image.
struct ColumnWalk {
    const void* rows[3];       // the first column that is no padding, at channel 0
    std::int64_t steps[3];     // to the next one; 0 where the row is padding
    const void* padding;       // a pixel of it
    std::int64_t pixels;       // without one whose last column is padding
    std::int64_t left, right;  // columns of padding, 0 or 1
};

/// A whole block of channels for such a loop, which moves `sums` on behind the pixels.
struct ColumnBlock {
    const void* weights;
    const std::int32_t* bias;
    std::int32_t* sums;
    std::int64_t bytes;  // of a pixel, before the block
};

/// A DepthwiseTile over one instruction and one way to interleave rows.
///
///     lane of Dot::dot(acc, x, w) = acc + sum_{i < depth} x[i] · w[i],   depth = 4 / sizeof(weight)
///
/// @tparam Dot   as GroupTile takes it
/// @tparam Rows  has element, vectors, run, kept_weights,
///               interleave<Vectors, Count>(rows, channels, Vector* groups), and zero_point(code), a group of it;
///               with takes_pairs also interleave of PixelPair rows, each with `channels` channels; unrolls_pixels
///               as of a DepthwiseTile
template <class Dot, class Rows> struct GroupDepthwiseTile {
    using element = typename Rows::element;
    using weight = typename Dot::weight;
    using L = typename Dot::lanes;
    using Vector = typename Dot::Vector;
    static constexpr int vectors = Rows::vectors;
    static constexpr index_t depth = 4 / static_cast<index_t>(sizeof(weight));
    static constexpr index_t columns = vectors * L::width();
    static constexpr index_t run = Rows::run;
    static constexpr int kept_weights = Rows::kept_weights;
    static constexpr bool takes_pairs = requires { Rows::takes_pairs; };
    static constexpr bool unrolls_pixels = requires { Rows::unrolls_pixels; };

    template <int Vectors> struct Column {
        /// @param rows  pointers, or pairs of them where the rows take pairs
        template <int Count, class Place> INTQ_ALWAYS_INLINE void load(const Place* rows, index_t channels) noexcept {
            Rows::template interleave<Vectors, Count>(rows, channels, group);
        }
        INTQ_ALWAYS_INLINE void fill(std::int32_t zero_point) noexcept {
            const Vector padding = Dot::broadcast(Rows::zero_point(zero_point));
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) group[v] = padding;
        }
        Vector group[array_size(Vectors)];
    };

    template <int Vectors> struct Weights {
        INTQ_ALWAYS_INLINE void load(const weight* from) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) group[v] = Dot::load(from + v * L::width() * depth);
        }
        /// The weights of a group of bytes without its first `count`, then zeros. @pre the last one is zero
        INTQ_ALWAYS_INLINE Weights bytes_from(int count) const noexcept {
            return changed([n = L::set(std::int32_t{8 * count})](auto lanes)
                               INTQ_ALWAYS_INLINE_LAMBDA { return L::shift_right(lanes, n); });
        }
        /// `count` zeros, then the first weights of each group.
        INTQ_ALWAYS_INLINE Weights bytes_up(int count) const noexcept {
            return changed([n = L::set(std::int32_t{8 * count})](auto lanes)
                               INTQ_ALWAYS_INLINE_LAMBDA { return L::shift_left(lanes, n); });
        }
        /// Adds the groups of other.bytes_up(count). @pre they are zero here
        INTQ_ALWAYS_INLINE void add_bytes(const Weights& other, int count) noexcept {
            const Weights up = other.bytes_up(count);
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v)
                group[v] = L::add(typename L::i32{group[v]}, typename L::i32{up.group[v]}).v;
        }
        Vector group[array_size(Vectors)];

    private:
        template <class Change> INTQ_ALWAYS_INLINE Weights changed(Change&& change) const noexcept {
            Weights to;
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) to.group[v] = change(typename L::i32{group[v]}).v;
            return to;
        }
    };

    template <int Vectors> struct Sums {
        INTQ_ALWAYS_INLINE void start(const std::int32_t* bias) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) acc[v] = Dot::load(bias + v * L::width());
        }
        INTQ_ALWAYS_INLINE void add(const Column<Vectors>& x, const Weights<Vectors>& w) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) acc[v] = Dot::dot(acc[v], x.group[v], w.group[v]);
        }
        INTQ_ALWAYS_INLINE typename L::i32 drain(int vector) const noexcept { return {acc[vector]}; }

        Vector acc[array_size(Vectors)];
    };
};

/// Float channels in natural order, one row of the window a step; only from the lanes.
///
/// @pre the tag's depthwise_float_packing has depth 1, and runs and a step of the lanes' width
template <class Backend> struct DepthwiseTile<Backend, float, float, float> {
    using element = float;
    using weight = float;
    using L = lanes<Backend>;
    using F32 = typename L::f32;
    static constexpr DepthwisePacking packing = Backend::depthwise_float_packing;
    static constexpr int vectors = static_cast<int>(packing.columns / L::width());
    static constexpr index_t depth = packing.depth, columns = packing.columns, run = packing.run;
    /// Registers also hold three pixels in flight, a column, and padding.
    static constexpr int kept_weights = [] {
        if constexpr (requires { L::registers; }) {
            return L::registers - 5 * vectors;
        } else {
            return 0;
        }
    }();
    static_assert(depth == 1 && packing.step == L::width() && run == L::width() && columns % L::width() == 0);

    template <int Vectors> struct Column {
        template <int Count> INTQ_ALWAYS_INLINE void load(const float* const* rows, index_t channels) noexcept {
            static_assert(Count == 1);
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) {
                const index_t left = channels - v * L::width();
                group[v] = v + 1 < Vectors || left >= L::width() ? L::load(rows[0] + v * L::width())
                                                                 : L::load(rows[0] + v * L::width(), left);
            }
        }
        INTQ_ALWAYS_INLINE void fill(std::int32_t) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) group[v] = L::set(0.0f);
        }
        F32 group[array_size(Vectors)];
    };

    template <int Vectors> struct Weights {
        INTQ_ALWAYS_INLINE void load(const float* from) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) group[v] = L::load(from + v * L::width());
        }
        F32 group[array_size(Vectors)];
    };

    template <int Vectors> struct Sums {
        INTQ_ALWAYS_INLINE void start(const float* bias) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) acc[v] = L::load(bias + v * L::width());
        }
        INTQ_ALWAYS_INLINE void add(const Column<Vectors>& x, const Weights<Vectors>& w) noexcept {
            INTQ_UNROLL
            for (int v = 0; v < Vectors; ++v) acc[v] = add_product<L>(acc[v], x.group[v], w.group[v]);
        }
        INTQ_ALWAYS_INLINE F32 drain(int vector) const noexcept { return acc[vector]; }

        F32 acc[array_size(Vectors)];
    };
};

}  // namespace INTQ_ABI
}  // namespace intq::simd

#endif  // INTQ_SIMD_TILES_DEPTHWISE_TILE_HPP
