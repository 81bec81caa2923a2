// SPDX-License-Identifier: MIT
//
// Depthwise layers whose last channels fill half of a block: two pixels of a line at once. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_DEPTHWISE_PAIRS_HPP
#define INTQ_KERNELS_CONV_DEPTHWISE_PAIRS_HPP

#include "intq/kernels/conv/depthwise_line.hpp"
#include "intq/kernels/packing/conv_call.hpp"
#include "intq/simd/tiles/depthwise_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// y[p][c] and y[p + apart][c] of a line, as Depthwise computes them, for 17 to 32 channels: the first half of a block
/// is those of one pixel, the second those of the other. A 3×3 window that moves by one or two, and int8 codes without
/// a fused add.
///
/// The layer is packed as two blocks of one vector, whose weights, bias and words are brought into the block's order
/// once a line.
template <class Backend, class Policy, class X, class Weight, class Acc, class Y> struct DepthwisePairs {
    using L = simd::lanes<Backend>;
    using Tile = simd::DepthwiseTile<Backend, X, Weight, Acc>;
    using Line = DepthwiseLine<Tile, Acc>;
    static constexpr index_t width = L::width(), block = Tile::columns;
    static constexpr bool exists = [] {
        if constexpr (requires { requires Tile::takes_pairs; })
            return Epilogue<L, Policy, Y, no_sumin>::has_pair_quads;
        else
            return false;
    }();

    static bool takes(const ConvCall& call, index_t channels) noexcept {
        return channels > width && channels <= 2 * width && call.geometry->out.width > 1 &&
               Line::slides(call.packed->window, 3);
    }

    /// One line, the `channels` from c on.
    ///
    /// @param source  at channel c
    static void run(const ConvCall& call, const LineSource<X>& source, index_t line, index_t c,
                    index_t channels) INTQ_NOEXCEPT {
        using Out = Epilogue<L, Policy, Y, no_sumin>;
        using NearestOut = Epilogue<simd::NearestLanes<L>, Policy, Y, no_sumin>;
        if (call.packed->scaled_is_small)
            run_line<NearestOut>(call, source, line, c, channels);
        else
            run_line<Out>(call, source, line, c, channels);
    }

private:
    template <class Out>
    static void run_line(const ConvCall& call, const LineSource<X>& source, index_t line, index_t c,
                         index_t channels) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const Parameters parameters(packed, c);
        const typename Line::Block pairs{parameters.weights, parameters.bias, channels, packed.input_zero_point};
        alignas(buffer_alignment) Acc sums[array_size(depthwise_chunk * block)];
        const index_t out_width = call.geometry->out.width, apart = (out_width + 1) / 2;
        const index_t step = packed.out_channels;
        Y* const y = static_cast<Y*>(call.y) + line * out_width * step + c;
        const index_t chunk = chunk_of_line(apart);
        for (index_t first = 0; first < apart; first += chunk) {
            const index_t count = apart - first < chunk ? apart - first : chunk;
            Line::run_pairs(source, pairs, first, apart, count, sums);
            const index_t both = out_width - apart - first < count ? out_width - apart - first : count;
            store<Out>(parameters, packed, sums, y + first * step, {count, both, apart * step, channels});
        }
    }

    /// What a block of the two pixels multiplies and adds, in its order.
    struct Parameters {
        alignas(buffer_alignment) Weight weights[3 * array_size(block * Tile::depth)];
        alignas(buffer_alignment) Acc bias[array_size(block)];
        alignas(buffer_alignment) std::int32_t words[array_size(block * Policy::words)];

        Parameters(const PackedConv2d& packed, index_t c) noexcept {
            const index_t vector = width * Tile::depth, stride = packed.padded_outputs();
            const Weight* const from = static_cast<const Weight*>(packed.weights) + c * packed.depthwise_weights();
            for (index_t column = 0; column < 3; ++column)
                spread(from + column * vector, from + (3 + column) * vector, weights + column * block * Tile::depth);
            spread(static_cast<const Acc*>(packed.bias) + c, static_cast<const Acc*>(packed.bias) + c + width, bias);
            for (index_t word = 0; word < Policy::words; ++word) {
                const std::int32_t* const channel = packed.words + word * stride + c;
                spread(channel, channel + width, words + word * block);
            }
        }

    private:
        /// Quarter v of a, of b, and both again: vector v of the block. Of four bytes a lane.
        static void spread(const void* a, const void* b, void* to) noexcept {
            const auto from_a = L::load(static_cast<const std::int32_t*>(a));
            const auto from_b = L::load(static_cast<const std::int32_t*>(b));
            simd::unroll<Tile::vectors>([&](auto v) INTQ_ALWAYS_INLINE_LAMBDA {
                L::store(static_cast<std::int32_t*>(to) + v * width, L::template quarters<v>(from_a, from_b));
            });
        }
    };

    struct Run {
        index_t count, both;  // pixels, and those with a partner
        index_t apart;        // elements of y
        index_t channels;
    };

    template <class Out>
    static INTQ_NEVER_INLINE void store(const Parameters& given, const PackedConv2d& packed, const Acc* sums, Y* y,
                                        const Run& run) INTQ_NOEXCEPT {
        const Out epilogue(packed, given.words, block);
        typename Out::Channels parameters[array_size(Tile::vectors)];
        simd::unroll<Tile::vectors>([&](auto v)
                                        INTQ_ALWAYS_INLINE_LAMBDA { parameters[v] = epilogue.channels(v * width); });
        const index_t step = packed.out_channels, count = run.count, both = run.both, apart = run.apart;
        const index_t channels = run.channels;
        Y none[array_size(2 * width)];
        for (index_t i = 0; i < count; ++i, sums += block, y += step)
            epilogue.store_pair([&](auto v)
                                    INTQ_ALWAYS_INLINE_LAMBDA { return LaneSum<L, Acc>::load(sums + v * width); },
                                parameters, y, i < both ? y + apart : none, channels);
    }
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_DEPTHWISE_PAIRS_HPP
