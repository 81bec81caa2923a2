// SPDX-License-Identifier: MIT
//
// int16 codes from sums of 32 bits whose requantization is proven to be a high product. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_HIGH_PRODUCT_CODES_HPP
#define INTQ_KERNELS_CONV_HIGH_PRODUCT_CODES_HPP

#include <cstdint>
#include <type_traits>

#include "intq/arith/requantize.hpp"
#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/simd/base/code_streams.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Whether a layer's sums may be of 32 bits although its accumulator has 64, and the lanes have their codes.
template <class L, class Policy, class Y, class Sumin> constexpr bool has_high_product_codes() noexcept {
    return std::is_same_v<Policy, arith::wide_fixed_point> && std::is_same_v<Y, std::int16_t> &&
           !std::is_arithmetic_v<Sumin> && requires {
        typename L::HighProduct;
    };
}

/// The range of int16 codes: positive, or any.
constexpr simd::CodeRange int16_range(const arith::OutputCodes& codes) noexcept {
    const bool is_positive = !INTQ_SMALL && codes.lowest == 0 && codes.highest == INT16_MAX;
    return is_positive ? simd::CodeRange::positive : simd::CodeRange::any;
}

/// The codes of one output channel, whose zero point is 0.
///
/// @tparam Range  of int16_range()
/// @pre    packed.scaled_is_small
template <class L, simd::CodeRange Range> class HighProductCodes {
public:
    /// @param at  the padded channel
    INTQ_ALWAYS_INLINE HighProductCodes(const PackedConv2d& packed, index_t at) noexcept
        : product_(
              arith::wide_fixed_point::short_multiplier(packed.words[at], packed.words[at + packed.padded_outputs()])),
          lowest_(packed.codes.lowest),
          highest_(packed.codes.highest) {}

    INTQ_ALWAYS_INLINE std::int16_t code(std::int32_t sum) const noexcept {
        const std::int32_t code = product_.scaled(sum);
        if constexpr (Range == simd::CodeRange::positive)
            return static_cast<std::int16_t>(L::HighProduct::clamp_positive(code));
        return static_cast<std::int16_t>(code < lowest_ ? lowest_ : code > highest_ ? highest_ : code);
    }

private:
    typename L::HighProduct product_;
    std::int32_t lowest_, highest_;
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_HIGH_PRODUCT_CODES_HPP
