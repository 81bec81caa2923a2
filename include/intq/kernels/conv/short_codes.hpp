// SPDX-License-Identifier: MIT
//
// Codes from sums whose requantization is proven to have a short form. Layer: kernels.
#ifndef INTQ_KERNELS_CONV_SHORT_CODES_HPP
#define INTQ_KERNELS_CONV_SHORT_CODES_HPP

#include <cstdint>
#include <type_traits>

#include "intq/arith/requantize.hpp"
#include "intq/kernels/packing/packed_conv2d.hpp"
#include "intq/kernels/streaming/code_range.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {
namespace detail {

/// Whether the lanes have a short form of a policy, for an output of int8 without a fused add.
template <class L, class Policy, class Y, class Sumin> constexpr bool has_short_codes() noexcept {
    return std::is_same_v<Policy, arith::fixed_point<arith::double_rounding>> && std::is_same_v<Y, std::int8_t> &&
           !std::is_arithmetic_v<Sumin> && requires {
        typename L::ShortRounding;
    };
}

/// The codes of one output channel.
///
/// @pre  packed.scaled_is_small
template <class L, CodeRange Range> class ShortCodes {
public:
    /// @param at  the padded channel
    INTQ_ALWAYS_INLINE ShortCodes(const PackedConv2d& packed, index_t at) noexcept
        : rounding_(packed.words[at], packed.words[at + packed.padded_outputs()], packed.codes.zero_point),
          lowest_(packed.codes.lowest),
          highest_(packed.codes.highest) {}

    INTQ_ALWAYS_INLINE std::int8_t code(std::int32_t sum) const noexcept {
        return clamp_code<L, Range>(rounding_.template scaled<Range>(sum), lowest_, highest_);
    }

private:
    typename L::ShortRounding rounding_;
    std::int32_t lowest_, highest_;
};

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_SHORT_CODES_HPP
