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

/// The codes of up to 32 channels of a tile.
template <class Backend, class Policy, class Y, class Sumin> class WindowEpilogue {
    using Tile = simd::WindowTile<Backend>;
    static constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;
    static constexpr bool has_short = has_window_codes<Policy, Y, Sumin>();

public:
    /// @param at    the padded channel of the first sum
    /// @param sums  as WindowSums
    WindowEpilogue(const PackedConv2d& packed, index_t at, index_t count, const std::int32_t* sums) noexcept
        : packed_(packed), epilogue_(packed), at_(at), count_(count) {
        codes_.bias = static_cast<const std::int32_t*>(packed.bias) + at;
        codes_.sums = sums;
        if constexpr (has_short) {
            codes_.multiplier = packed.words + at;
            codes_.shift = packed.words + packed.padded_outputs() + at;
            codes_.quads = packed.scaled_is_small ? static_cast<std::int32_t>(count / 4) : 0;
            codes_.zero_point = packed.codes.zero_point;
            codes_.lowest = packed.codes.lowest;
            codes_.highest = packed.codes.highest;
            range_ = saturation_of(packed.codes);
        }
    }

    /// Writes those of `pixels` pixels from element `to` of the output on.
    INTQ_ALWAYS_INLINE void store(const ConvCall& call, index_t to, index_t pixels) INTQ_NOEXCEPT {
        if constexpr (has_short) {
            if (codes_.quads > 0) {
                auto* const y = static_cast<std::int8_t*>(call.y) + to;
                for (index_t i = 0; i < simd::window_pixels; ++i)
                    codes_.y[i] = y + (i < pixels ? i : 0) * packed_.out_channels;
                with_saturation(range_, [&](auto range) INTQ_ALWAYS_INLINE_LAMBDA {
                    pixels == 1 ? Tile::template store_one<range.value>(codes_)
                                : Tile::template store_codes<range.value>(codes_);
                });
            }
        }
        if (4 * codes_.quads < count_) store_rest(call, to, pixels);
    }

private:
    INTQ_NEVER_INLINE void store_rest(const ConvCall& call, index_t to, index_t pixels) const INTQ_NOEXCEPT {
        auto* const y = static_cast<Y*>(call.y) + to;
        const auto* const e = static_cast<const Sumin*>(call.sumin) + (adds ? to : 0);
        for (index_t c = 4 * codes_.quads; c < count_; ++c) {
            const auto channel = epilogue_.channels(at_ + c);
            for (index_t p = 0; p < pixels; ++p) {
                const index_t place = p * packed_.out_channels + c;
                const std::int32_t sum = codes_.sums[p * simd::window_channels + c];
                epilogue_.store(add_bias(codes_.bias[c], sum), channel, e + (adds ? place : 0), y + place, 1);
            }
        }
    }

    const PackedConv2d& packed_;
    Epilogue<simd::lanes<Backend>, Policy, Y, Sumin> epilogue_;
    index_t at_, count_;
    simd::WindowCodes codes_{};
    simd::Saturation range_ = simd::Saturation::any;
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_WINDOW_CODES_HPP
