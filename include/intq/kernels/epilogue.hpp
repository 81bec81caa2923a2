// SPDX-License-Identifier: MIT
//
// What a kernel does to an accumulator before it stores: sumin, requantize, clamp, narrow. Layer: kernels.
//
// The bias is where the accumulator starts, so it costs nothing here. Composed at compile time: no branch.
#ifndef INTQ_KERNELS_EPILOGUE_HPP
#define INTQ_KERNELS_EPILOGUE_HPP

#include <type_traits>

#include "intq/arith/requantize.hpp"
#include "intq/kernels/packed_conv2d.hpp"

namespace intq::inline INTQ_ABI::kernels {

/// Marks an epilogue without a fused add.
struct no_sumin {};

/// y[n …] = Policy(acc, channel n …, sumin[n …]) for one vector of output channels.
///
/// @tparam Policy  requantize policy of arith/requantize.hpp
/// @tparam E       element type of the fused add's operand, or no_sumin
template <class L, class Policy, class Y, class E> class Epilogue {
    static constexpr bool adds = !std::is_same_v<E, no_sumin>;
    struct Nothing {};
    template <class P, bool Adds> struct SuminOf { using type = Nothing; };
    template <class P> struct SuminOf<P, true> { using type = typename P::template SuminChannel<L>; };

public:
    explicit INTQ_ALWAYS_INLINE Epilogue(const PackedConv2d& packed) noexcept
        : out_(packed.codes),
          words_(packed.words),
          sumin_words_(packed.sumin_words),
          stride_(packed.padded_outputs()) {}

    /// The parameters of the vector of channels that starts at padded channel `at`.
    struct Channels {
        typename Policy::template Channel<L> requantize;
        [[no_unique_address]] typename SuminOf<Policy, adds>::type sumin;
    };
    INTQ_ALWAYS_INLINE Channels channels(index_t at) const noexcept {
        if constexpr (adds) {
            return {Policy::template load<L>(words_ + at, stride_),
                    Policy::template load_sumin<L>(sumin_words_ + at, stride_)};
        } else {
            return {Policy::template load<L>(words_ + at, stride_), {}};
        }
    }

    /// @param e  operand of the fused add at the same place as y; not read without one
    template <class Acc>
    INTQ_ALWAYS_INLINE void store(const Acc& acc, const Channels& channels, const E* e, Y* y,
                                  index_t count) const noexcept {
        if constexpr (adds) {
            L::store(y,
                     Policy::template apply_sumin<L>(acc, L::load(e, count), channels.requantize, channels.sumin, out_),
                     count);
        } else {
            L::store(y, Policy::template apply<L>(acc, channels.requantize, out_), count);
        }
    }

private:
    arith::OutputLanes<L> out_;
    const std::int32_t* words_;
    const std::int32_t* sumin_words_;
    index_t stride_;
};

}  // namespace intq::inline INTQ_ABI::kernels

#endif  // INTQ_KERNELS_EPILOGUE_HPP
