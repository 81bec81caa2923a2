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

/// Where sums of lines of pixels of one output channel lie, and their codes.
struct SumLines {
    index_t width;
    index_t next_sum;  // from the end of a line to the next one
    index_t y_step;    // from a pixel to the next
};

/// The codes of `count` output lines, of which a staged line has two, from sums of two pixels and two lines in turn.
/// Where the last staged line has one output line, the codes of a second one are overwritten.
template <class L, CodeRange Range>
INTQ_OUT_OF_LINE void store_two_rows(const ShortCodes<L, Range>& given, const SumLines& of, index_t count,
                                     const std::int32_t* sums, std::int8_t* y) noexcept {
    const ShortCodes<L, Range> codes = given;
    const index_t step = of.y_step, row = of.width * step, quads = (of.width & ~index_t{1}) * 2, next_sum = of.next_sum;
    [[maybe_unused]] const bool is_odd = (of.width & 1) != 0;
    for (; count > 0; count -= 2, sums += next_sum, y += 2 * row) {
        std::int8_t *upper = y, *lower = count > 1 ? y + row : y;
        if constexpr (INTQ_SMALL) {
            for (index_t p = 0; p < of.width; ++p, upper += step, lower += step) {
                const std::int32_t* const at = sums + 2 * p - p % 2;
                *lower = codes.code(at[2]);
                *upper = codes.code(at[0]);
            }
            sums += quads;
        } else {
            for (const std::int32_t* const end = sums + quads; sums != end;
                 sums += 4, upper += 2 * step, lower += 2 * step) {
                *lower = codes.code(sums[2]);
                lower[step] = codes.code(sums[3]);
                *upper = codes.code(sums[0]);
                upper[step] = codes.code(sums[1]);
            }
            if (is_odd) {
                *lower = codes.code(sums[2]);
                *upper = codes.code(sums[0]);
            }
        }
    }
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_CONV_SHORT_CODES_HPP
