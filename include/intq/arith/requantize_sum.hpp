// SPDX-License-Identifier: MIT
//
// The code of a sum where the rule is known only when it runs: for what reads packed layers and has no kernel at hand.
// Layer: arith (docs/arithmetic.md section 2).
#ifndef INTQ_ARITH_REQUANTIZE_SUM_HPP
#define INTQ_ARITH_REQUANTIZE_SUM_HPP

#include "intq/arith/conv.hpp"
#include "intq/arith/lanes.hpp"
#include "intq/arith/requantize.hpp"
#include "intq/arith/target.hpp"

namespace intq::arith {
inline namespace INTQ_ABI {

/// A sum, the words of its channel and the codes of its output, as a packed layer has them.
struct RequantizedSum {
    RequantizeRule rule = RequantizeRule::float_scale;
    int bits = 32;  // of the accumulator
    std::int64_t sum = 0;
    ChannelWords words{};
    bool has_sumin = false;
    std::int32_t sumin = 0;                     // a code of a fused add's operand
    std::array<std::int32_t, 3> sumin_words{};  // of Sumin
};

namespace detail {

template <class Policy, class Acc> constexpr std::int32_t code_of(const RequantizedSum& s, const OutputCodes& codes) {
    using L = scalar_lanes;
    const OutputLanes<L> out(codes);
    const auto sum = static_cast<Acc>(s.sum);
    const auto channel = Policy::template load<L>(s.words.data(), 1);
    if constexpr (Policy::sumin_words > 0) {
        if (s.has_sumin) {
            const auto sumin = Policy::template load_sumin<L>(s.sumin_words.data(), 1);
            return Policy::template apply_sumin<L>(sum, s.sumin, channel, sumin, out);
        }
    }
    return Policy::template apply<L>(sum, channel, out);
}

}  // namespace detail

/// The code that a layer's kernel writes for a sum. It never falls while the sum or the code of the fused add grows:
/// every step of every rule is a product with a number that is not negative, a shift, a rounding, a sum or a clamp.
///
/// @pre  the sum fits the accumulator, and the words are of this rule
constexpr std::int32_t requantized_code(const RequantizedSum& s, const OutputCodes& codes) noexcept {
    const bool is_wide = s.bits == 64;
    switch (s.rule) {
        case RequantizeRule::float_scale:
            return is_wide ? detail::code_of<float_scale, std::int64_t>(s, codes)
                           : detail::code_of<float_scale, std::int32_t>(s, codes);
        case RequantizeRule::two_stage:
            return is_wide ? detail::code_of<two_stage, std::int64_t>(s, codes)
                           : detail::code_of<two_stage, std::int32_t>(s, codes);
        case RequantizeRule::binary64:
            return is_wide ? detail::code_of<binary64, std::int64_t>(s, codes)
                           : detail::code_of<binary64, std::int32_t>(s, codes);
        case RequantizeRule::double_rounding:
            if (!is_wide) return detail::code_of<fixed_point<double_rounding>, std::int32_t>(s, codes);
            break;
        case RequantizeRule::single_rounding:
            if (!is_wide) return detail::code_of<fixed_point<single_rounding>, std::int32_t>(s, codes);
            break;
    }
    return detail::code_of<wide_fixed_point, std::int64_t>(s, codes);
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_REQUANTIZE_SUM_HPP
