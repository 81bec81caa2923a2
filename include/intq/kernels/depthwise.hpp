// SPDX-License-Identifier: MIT
//
// The depthwise skeleton: one filter a channel, channels in the lanes. Layer: kernels (DESIGN section 5).
#ifndef INTQ_KERNELS_DEPTHWISE_HPP
#define INTQ_KERNELS_DEPTHWISE_HPP

#include "intq/kernels/gemm.hpp"

namespace intq::inline INTQ_ABI::kernels {

/// y[p][c] = epilogue(bias[c] + sum over taps of x[tap of p][c] · w[tap][c])
///
/// The types are those of Gemm. Activations are read as they are: nothing is staged.
///
/// Memory   registers
/// Cost     2 · pixels · channels · taps operations
template <class Backend, class Policy, class X, class W, class Acc, class Y, class E> struct Depthwise {
    using L = simd::lanes<Backend>;
    using Sum = detail::LaneSum<L, Acc>;

    static void run(const ConvCall& call) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        INTQ_ASSERT(packed.is_depthwise && packed.has_sumin == !(std::is_same_v<E, no_sumin>));
        const ConvGeometry& geometry = *call.geometry;
        (*call.executor)(geometry.batch * geometry.out.height, [&](index_t row) {
            const index_t first = row * geometry.out.width;
            for (index_t c = 0; c < packed.out_channels; c += L::width())
                run_row(call, first, c, packed.out_channels - c < L::width() ? packed.out_channels - c : L::width());
        });
    }

private:
    /// One row of output pixels, one vector of channels.
    static void run_row(const ConvCall& call, index_t first, index_t c, index_t count) INTQ_NOEXCEPT {
        const PackedConv2d& packed = *call.packed;
        const ConvGeometry& geometry = *call.geometry;
        const Epilogue<L, Policy, Y, E> epilogue(packed);
        const auto channels = epilogue.channels(c);
        const W* const w = static_cast<const W*>(packed.weights) + c;
        const auto bias = Sum::load(static_cast<const Acc*>(packed.bias) + c);
        const index_t pixels = geometry.out_pixels();
        for (index_t slot = first; slot < first + geometry.out.width; ++slot) {
            const index_t image = slot / pixels, in_image = slot - image * pixels;
            const X* const x = static_cast<const X*>(call.x) + image * geometry.in_pixels() * packed.in_channels + c;
            auto acc = bias;
            for (index_t tap = 0; tap < geometry.taps; ++tap) {
                const index_t offset =
                    geometry.offsets == nullptr ? in_image : geometry.offsets[in_image * geometry.taps + tap];
                const X* const from =
                    offset < 0 ? static_cast<const X*>(packed.padding_row) + c : x + offset * packed.in_channels;
                acc = Sum::multiply_add(acc, L::load(from, count), L::load(w + tap * packed.padded_outputs()));
            }
            const index_t pixel = image * pixels + (geometry.pixels == nullptr ? in_image : geometry.pixels[in_image]);
            const index_t at = pixel * packed.out_channels + c;
            const E* const e = static_cast<const E*>(call.sumin) + (std::is_same_v<E, no_sumin> ? 0 : at);
            epilogue.store(acc, channels, e, static_cast<Y*>(call.y) + at, count);
        }
    }
};

}  // namespace intq::inline INTQ_ABI::kernels

#endif  // INTQ_KERNELS_DEPTHWISE_HPP
