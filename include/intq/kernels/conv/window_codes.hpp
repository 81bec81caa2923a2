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

/// Whether tiles of windows make the codes of a policy themselves: codes of the input's type without a fused add.
template <class Policy, class X, class Y, class Sumin> constexpr bool has_window_codes() noexcept {
    using Short =
        std::conditional_t<sizeof(X) == 1, arith::fixed_point<arith::double_rounding>, arith::wide_fixed_point>;
    return std::is_same_v<Policy, Short> && std::is_same_v<Y, X> && !std::is_arithmetic_v<Sumin>;
}

/// bias + sum, modulo 2^32 and 2^64 as all sums.
INTQ_ALWAYS_INLINE std::int32_t add_bias(std::int32_t bias, std::int32_t sum) noexcept {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(bias) + static_cast<std::uint32_t>(sum));
}
INTQ_ALWAYS_INLINE std::int64_t add_bias(std::int64_t bias, std::int64_t sum) noexcept {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(bias) + static_cast<std::uint64_t>(sum));
}

/// The sums of 64 bits of a tile of int16 codes, behind those of 32.
INTQ_ALWAYS_INLINE const std::int64_t* wide_window_sums(const std::int32_t* sums) noexcept {
    return reinterpret_cast<const std::int64_t*>(sums + simd::window_pixels * simd::window_channels);
}

/// A sum of a tile with its bias.
inline std::int32_t window_sum(const simd::WindowCodes& codes, index_t p, index_t c) noexcept {
    return add_bias(codes.bias[c], codes.sums[p * simd::window_channels + c]);
}
inline std::int64_t window_sum(const simd::Int16WindowCodes& codes, index_t p, index_t c) noexcept {
    const index_t at = p * simd::window_channels + c;
    return add_bias(codes.bias[c], codes.wide_sums != nullptr ? codes.wide_sums[at] : codes.sums[at]);
}

/// The outputs of channels without a short form, from those behind codes.quads on, of `pixels` pixels from element `to`
/// of the output on: by a policy.
template <class Codes>
using StoreWindowRest = void (*)(const ConvCall& call, const Codes& codes, index_t at, index_t count, index_t to,
                                 index_t pixels);

template <class L, class Policy, class Y, class Sumin, class Codes>
INTQ_NEVER_INLINE void store_window_rest(const ConvCall& call, const Codes& codes, index_t at, index_t count,
                                         index_t to, index_t pixels) INTQ_NOEXCEPT {
    constexpr bool adds = !std::is_same_v<Sumin, no_sumin>;
    const PackedConv2d& packed = *call.packed;
    const Epilogue<L, Policy, Y, Sumin> epilogue(packed);
    auto* const y = static_cast<Y*>(call.y) + to;
    const auto* const e = static_cast<const Sumin*>(call.sumin) + (adds ? to : 0);
    const index_t first = 4 * codes.quads, stride = packed.out_channels;
    for (index_t p = 0, place = 0; p < pixels; ++p, place += stride)
        for (index_t c = first; c < count; ++c)
            epilogue.store(window_sum(codes, p, c), epilogue.channels(at + c), e + (adds ? place + c : 0),
                           y + place + c, 1);
}

/// What of the outputs of a tile of codes X is not stored by the tile.
template <class X> struct WindowRest {
    using Codes = std::conditional_t<sizeof(X) == 1, simd::WindowCodes, simd::Int16WindowCodes>;
    bool is_short;  // the tile makes the codes of whole quads
    StoreWindowRest<Codes> store;

    template <class L, class Policy, class Y, class Sumin> static WindowRest of(const PackedConv2d& packed) noexcept {
        return {has_window_codes<Policy, X, Y, Sumin>() && packed.scaled_is_small,
                &store_window_rest<L, Policy, Y, Sumin, Codes>};
    }
};

/// The outputs of up to 32 channels of a tile.
template <class Backend, class X> class WindowEpilogue {
    using Tile = simd::WindowTile<Backend>;
    using Codes = typename WindowRest<X>::Codes;
    static constexpr bool is_int8 = sizeof(X) == 1;

public:
    /// @param at    the padded channel of the first sum
    /// @param sums  as WindowSums, and where they are not short behind them those of 64 bits of int16 codes
    INTQ_ALWAYS_INLINE WindowEpilogue(const PackedConv2d& packed, index_t at, index_t count, const std::int32_t* sums,
                                      const WindowRest<X>& rest) noexcept
        : packed_(packed), store_rest_(rest.store), at_(at), count_(count) {
        codes_.bias = static_cast<decltype(codes_.bias)>(packed.bias) + at;
        codes_.sums = sums;
        if (!rest.is_short) {
            if constexpr (!is_int8) codes_.wide_sums = wide_window_sums(sums);
            return;
        }
        codes_.multiplier = packed.words + at;
        codes_.shift = packed.words + packed.padded_outputs() + at;
        codes_.quads = static_cast<std::int32_t>(count / 4);
        codes_.lowest = packed.codes.lowest;
        codes_.highest = packed.codes.highest;
        if constexpr (is_int8) {
            codes_.zero_point = packed.codes.zero_point;
            range_ = saturation_of(packed.codes);
        }
    }

    /// Writes those of `pixels` pixels from element `to` of the output on.
    INTQ_ALWAYS_INLINE void store(const ConvCall& call, index_t to, index_t pixels) INTQ_NOEXCEPT {
        if (codes_.quads > 0) {
            auto* const y = static_cast<X*>(call.y) + to;
            for (index_t i = 0; i < simd::window_pixels; ++i)
                codes_.y[i] = y + (i < pixels ? i : 0) * packed_.out_channels;
            if constexpr (is_int8)
                with_saturation(range_, [&](auto range) INTQ_ALWAYS_INLINE_LAMBDA {
                    if (!INTQ_SMALL && pixels == 1)
                        Tile::template store_one<range.value>(codes_);
                    else
                        Tile::template store_codes<range.value>(codes_);
                });
            else
                Tile::store_int16(codes_);
        }
        if (4 * codes_.quads < count_) store_rest_(call, codes_, at_, count_, to, pixels);
    }

private:
    const PackedConv2d& packed_;
    StoreWindowRest<Codes> store_rest_;
    index_t at_, count_;
    Codes codes_{};
    simd::Saturation range_ = simd::Saturation::any;
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_WINDOW_CODES_HPP
