// SPDX-License-Identifier: MIT
//
// Codes from the sums of a tile of windows. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_WINDOW_CODES_HPP
#define INTQ_KERNELS_CONV_WINDOW_CODES_HPP

#include <cstdint>
#include <type_traits>

#include "intq/arith/requantize.hpp"
#include "intq/kernels/conv/epilogue.hpp"
#include "intq/kernels/packing/conv_call.hpp"
#include "intq/kernels/streaming/code_range.hpp"
#include "intq/simd/tiles/window_tile.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Whether tiles of windows make the codes of a policy themselves: an output of int8 without a fused add.
template <class Policy, class Y, class Sumin> constexpr bool has_window_codes() noexcept {
    return std::is_same_v<Policy, arith::fixed_point<arith::double_rounding>> && std::is_same_v<Y, std::int8_t> &&
           !std::is_arithmetic_v<Sumin>;
}

/// bias + sum, modulo 2^32 as all sums.
INTQ_ALWAYS_INLINE std::int32_t add_bias(std::int32_t bias, std::int32_t sum) noexcept {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(bias) + static_cast<std::uint32_t>(sum));
}

/// The outputs of channels without a short form, from those behind codes.quads on, of `pixels` pixels from element `to`
/// of the output on: by a policy.
using StoreWindowRest = void (*)(const ConvCall& call, const simd::WindowCodes& codes, index_t at, index_t count,
                                 index_t to, index_t pixels);

template <class L, class Policy, class Y, class Sumin>
INTQ_NEVER_INLINE void store_window_rest(const ConvCall& call, const simd::WindowCodes& codes, index_t at,
                                         index_t count, index_t to, index_t pixels) INTQ_NOEXCEPT {
    constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;
    const PackedConv2d& packed = *call.packed;
    const Epilogue<L, Policy, Y, Sumin> epilogue(packed);
    auto* const y = static_cast<Y*>(call.y) + to;
    const auto* const e = static_cast<const Sumin*>(call.sumin) + (adds ? to : 0);
    const std::int32_t *const sums = codes.sums, *const bias = codes.bias;
    const index_t first = 4 * codes.quads, stride = packed.out_channels;
    for (index_t p = 0, place = 0; p < pixels; ++p, place += stride)
        for (index_t c = first; c < count; ++c)
            epilogue.store(add_bias(bias[c], sums[p * simd::window_channels + c]), epilogue.channels(at + c),
                           e + (adds ? place + c : 0), y + place + c, 1);
}

/// The outputs of up to 32 channels of a tile.
template <class Backend> class WindowEpilogue {
    using Tile = simd::WindowTile<Backend>;

public:
    /// @param at    the padded channel of the first sum
    /// @param sums  as WindowSums
    INTQ_ALWAYS_INLINE WindowEpilogue(const PackedConv2d& packed, index_t at, index_t count, const std::int32_t* sums,
                                      bool is_short, StoreWindowRest rest) noexcept
        : packed_(packed), rest_(rest), at_(at), count_(count) {
        codes_.bias = static_cast<const std::int32_t*>(packed.bias) + at;
        codes_.sums = sums;
        if (!is_short) return;
        codes_.multiplier = packed.words + at;
        codes_.shift = packed.words + packed.padded_outputs() + at;
        codes_.quads = static_cast<std::int32_t>(count / 4);
        codes_.zero_point = packed.codes.zero_point;
        codes_.lowest = packed.codes.lowest;
        codes_.highest = packed.codes.highest;
        range_ = saturation_of(packed.codes);
    }

    /// Writes those of `pixels` pixels from element `to` of the output on.
    INTQ_ALWAYS_INLINE void store(const ConvCall& call, index_t to, index_t pixels) INTQ_NOEXCEPT {
        if (codes_.quads > 0) {
            auto* const y = static_cast<std::int8_t*>(call.y) + to;
            for (index_t i = 0; i < simd::window_pixels; ++i)
                codes_.y[i] = y + (i < pixels ? i : 0) * packed_.out_channels;
            with_saturation(range_, [&](auto range) INTQ_ALWAYS_INLINE_LAMBDA {
                if (!INTQ_SMALL && pixels == 1)
                    Tile::template store_one<range.value>(codes_);
                else
                    Tile::template store_codes<range.value>(codes_);
            });
        }
        if (4 * codes_.quads < count_) rest_(call, codes_, at_, count_, to, pixels);
    }

private:
    const PackedConv2d& packed_;
    StoreWindowRest rest_;
    index_t at_, count_;
    simd::WindowCodes codes_{};
    simd::Saturation range_ = simd::Saturation::any;
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_WINDOW_CODES_HPP
