// SPDX-License-Identifier: MIT
//
// Sums of codes under double rounding, where the lanes have a short form of it. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_SHORT_SUM_HPP
#define INTQ_KERNELS_STREAMING_SHORT_SUM_HPP

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "intq/arith/elementwise.hpp"
#include "intq/core/config.hpp"
#include "intq/kernels/streaming/code_range.hpp"
#include "intq/simd/base/code_streams.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// Whether codes are shifted by `left` and added, the larger factor is 1/2, and the other one at most that.
inline bool has_half_factor(const arith::AddParams& p, std::int32_t left) noexcept {
    const auto is_half = [](const arith::ChannelWords& w) { return w[0] == 1 << 30 && w[1] == 0; };
    const auto is_at_most_half = [&](const arith::ChannelWords& w) {
        return is_half(w) || (w[1] <= -1 && w[1] >= -31);
    };
    return p.coefficient[0] == left && p.coefficient[1] == 1 && (is_half(p.input[0]) || is_half(p.input[1])) &&
           is_at_most_half(p.input[0]) && is_at_most_half(p.input[1]);
}

}  // namespace detail

/// Whether the short form of a sum of int8 codes is exact for its parameters: the larger factor is 1/2, the other one
/// at most that, and the sum, which is below 255·2^20 then, has a short form.
inline bool has_short_sum(const arith::AddParams& p) noexcept {
    using Rule = arith::fixed_point<arith::double_rounding>;
    return detail::has_half_factor(p, 20) && Rule::is_short(std::int64_t{255} << 20, p.output);
}
/// The same of int16 codes without zero points, for lanes whose loop needs no bound of the sum, which is at most 2^30.
inline bool has_short_int16_sum(const arith::AddParams& p) noexcept {
    return detail::has_half_factor(p, 15) && p.zero_point[0] == 0 && p.zero_point[1] == 0 && p.output[1] <= -1;
}

namespace detail {

template <class L> inline constexpr bool has_int16_sum_loop = requires(const simd::CodeSums& sums) {
    L::add_int16_codes(sums);
};

/// Whether lanes have the loop themselves.
template <class L> inline constexpr bool has_sum_loop = requires(const simd::CodeSums& sums) {
    L::template add_codes<simd::Saturation::any>(sums);
};

/// Whether lanes, policy and type of codes have one.
template <class L, class Policy, class Code> constexpr bool has_short_sums() noexcept {
    constexpr bool has_form = requires { typename L::ShortSum; };
    return std::is_same_v<Policy, arith::fixed_point<arith::double_rounding>> && std::is_same_v<Code, std::int8_t> &&
           (has_sum_loop<L> || (has_form && !INTQ_SMALL));
}

/// add_short_run() by the loop of lanes. Where the second factor is 1/2 as well, its sum is doubled and then halved.
///
/// @tparam Code  int8, or int16 of has_short_int16_sum()
template <class L, class Code>
void add_in_loop(const arith::AddParams& params, bool swaps, index_t count, const Code* a, const Code* b,
                 Code* out) noexcept {
    const arith::ChannelWords &of_b = params.input[swaps ? 0 : 1], &of_sum = params.output;
    const bool is_half = of_b[1] == 0;
    const std::int32_t left = params.coefficient[0], half = 1 << (left - 1);
    simd::CodeSums sums{};
    sums.a = a;
    sums.b = b;
    sums.out = out;
    sums.minus_zero_b = -params.zero_point[swaps ? 0 : 1];
    sums.left = is_half ? left + 1 : left;
    sums.multiplier_b = of_b[0];
    sums.minus_right_b = is_half ? -1 : of_b[1];
    sums.half = half;
    sums.minus_zero_a = -params.zero_point[swaps ? 1 : 0] * half;
    sums.multiplier = of_sum[0];
    sums.minus_right = of_sum[1];
    sums.zero_point = params.codes.zero_point;
    sums.count = static_cast<std::int32_t>(count);
    sums.lowest = params.codes.lowest;
    sums.highest = params.codes.highest;
    if constexpr (sizeof(Code) == 2)
        L::add_int16_codes(sums);
    else
        with_saturation(saturation_of(params.codes),
                        [&](auto bounds) INTQ_ALWAYS_INLINE_LAMBDA { L::template add_codes<bounds.value>(sums); });
}

/// out[i] = the code of x[i] and y[i]; out may be either.
///
/// @tparam Right  the right shift of the smaller factor: 0 where it is 1/2 too, 1, or 2 for all others
template <class L, int Right, CodeRange Range>
INTQ_OUT_OF_LINE void store_short_sums(const typename L::ShortSum& given, const arith::OutputCodes& codes,
                                       index_t count, const std::int8_t* a, const std::int8_t* b,
                                       std::int8_t* out) noexcept {
    const typename L::ShortSum sum = given;
    [[maybe_unused]] const std::int32_t lowest = codes.lowest, highest = codes.highest;
    const auto code = [&](auto index, std::int32_t x, std::int32_t y) INTQ_ALWAYS_INLINE_LAMBDA {
        const std::int32_t scaled = sum.template scaled<index.value, Right, Range>(x, y);
        return clamp_code<L, Range>(scaled, lowest, highest);
    };
    for (const std::int8_t* const end = a + count / 4 * 4; a != end; a += 4, b += 4, out += 4) {
        std::int32_t x, y;
        std::memcpy(&x, a, 4);
        std::memcpy(&y, b, 4);
        [&]<int... Index>(std::integer_sequence<int, Index...>) INTQ_ALWAYS_INLINE_LAMBDA {
            ((out[Index] = code(std::integral_constant<int, Index>{}, x, y)), ...);
        }
        (std::make_integer_sequence<int, 4>{});
    }
    for (count %= 4; count > 0; --count) *out++ = code(std::integral_constant<int, 0>{}, *a++, *b++);
}

/// @pre has_short_int16_sum(params)
template <class L>
void add_short_run(const arith::AddParams& params, index_t count, const std::int16_t* x, const std::int16_t* y,
                   std::int16_t* out) noexcept {
    const bool swaps = params.input[0][1] != 0;  // the first operand has the factor 1/2
    if (count > 0) add_in_loop<L>(params, swaps, count, swaps ? y : x, swaps ? x : y, out);
}

/// @pre has_short_sum(params)
template <class L>
void add_short_run(const arith::AddParams& params, index_t count, const std::int8_t* x, const std::int8_t* y,
                   std::int8_t* out) noexcept {
    const bool swaps = params.input[0][1] != 0;  // the first operand has the factor 1/2
    if constexpr (has_sum_loop<L>) {
        if (count > 0) add_in_loop<L>(params, swaps, count, swaps ? y : x, swaps ? x : y, out);
    } else {
        const arith::ChannelWords &of_b = params.input[swaps ? 0 : 1], &of_sum = params.output;
        const typename L::ShortRounding rounding(of_sum[0], of_sum[1], params.codes.zero_point);
        const typename L::ShortSum sum(params.zero_point[swaps ? 1 : 0], params.zero_point[swaps ? 0 : 1], of_b[0],
                                       -of_b[1], rounding);
        if (swaps) std::swap(x, y);
        with_range(params.codes, [&](auto range) INTQ_ALWAYS_INLINE_LAMBDA {
            if (of_b[1] == 0)
                store_short_sums<L, 0, range.value>(sum, params.codes, count, x, y, out);
            else if (of_b[1] == -1)
                store_short_sums<L, 1, range.value>(sum, params.codes, count, x, y, out);
            else
                store_short_sums<L, 2, range.value>(sum, params.codes, count, x, y, out);
        });
    }
}

}  // namespace detail
}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_SHORT_SUM_HPP
