// SPDX-License-Identifier: MIT
//
// The requantize policies: accumulator or narrow code -> narrow code, with the parameters of one output
// channel in 32-bit words. Layer: arith (docs/arithmetic.md section 2).
//
// Long because it holds all policies side by side. Kernels are keyed on a policy, not on a target: differences between
// two marches (rounding of a shift, caps) are in the words. Every formula is a template over Lanes; with scalar_lanes
// it is the specification.
#ifndef INTQ_ARITH_REQUANTIZE_HPP
#define INTQ_ARITH_REQUANTIZE_HPP

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "intq/arith/fixed_point.hpp"
#include "intq/arith/lanes.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// The parameters of one output channel; the policy decides how many words count and what they mean.
using ChannelWords = std::array<std::int32_t, 5>;

/// The range of a layer's output codes: zero point, and the clamp of dtype and activation together.
struct OutputCodes {
    std::int32_t zero_point = 0;
    std::int32_t lowest = INT8_MIN;
    std::int32_t highest = INT8_MAX;
    std::int32_t sumin_zero_point = 0;
    float lowest_real = -3.402823466e38f;  // of a float output
    float highest_real = 3.402823466e38f;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// OutputCodes in every lane.
template <class L> struct OutputLanes {
    typename L::i32 zero_point, lowest, highest, sumin_zero_point;
    typename L::f32 lowest_real, highest_real;

    explicit constexpr OutputLanes(const OutputCodes& codes) noexcept
        : zero_point(L::set(codes.zero_point)),
          lowest(L::set(codes.lowest)),
          highest(L::set(codes.highest)),
          sumin_zero_point(L::set(codes.sumin_zero_point)),
          lowest_real(L::set(codes.lowest_real)),
          highest_real(L::set(codes.highest_real)) {}

    constexpr typename L::i32 clamp(typename L::i32 code) const noexcept {
        return (L::min)((L::max)(code, lowest), highest);
    }
    /// clamp(value + zero_point), without overflow.
    constexpr typename L::i32 code(typename L::i32 value) const noexcept {
        const auto low = L::sub(lowest, zero_point), high = L::sub(highest, zero_point);
        return L::add((L::min)((L::max)(value, low), high), zero_point);
    }
};

namespace detail {

/// SH_R or SH_F as data: fl((fl(x / 2^floor_bits) + round_bit) / 2^round_bit), round_bit 0 or 1; exact below 2^30,
/// and not below 2^29 elsewhere: the caller saturates to 16 bits.
template <class L>
constexpr typename L::i32 shift_by_words(typename L::i32 x, typename L::i32 floor_bits,
                                         typename L::i32 round_bit) noexcept {
    // 2^31 - 1 with floor_bits 0 has no successor.
    const auto floored = (L::min)(L::shift_right(x, floor_bits), L::set(std::int32_t{INT32_MAX - 1}));
    return L::shift_right(L::add(floored, round_bit), round_bit);
}
template <class L>
requires(!std::same_as<typename L::i32, typename L::i64>) constexpr typename L::i64
    shift_by_words(typename L::i64 x, typename L::i32 floor_bits, typename L::i32 round_bit) noexcept {
    const auto bit = L::widen(round_bit);
    return L::shift_right(L::add(L::shift_right(x, L::widen(floor_bits)), bit), bit);
}

template <class L> constexpr typename L::i32 narrow(typename L::i32 x) noexcept { return x; }
template <class L> constexpr typename L::i32 narrow(typename L::i64 x) noexcept { return L::narrow(x); }

}  // namespace detail

/// The last step of every policy: zero point and clamp of its scaled value.
///
///     apply(acc) = clamp(scaled(acc) + zero_point);  apply_sumin(acc, e) the same with the operand of a fused add
///
/// A kernel that narrows many codes at once takes `scaled` and does the rest itself.
template <class Policy> struct RequantizedCode {
    template <class L, class Acc, class Channel>
    static constexpr typename L::i32 apply(Acc acc, const Channel& channel, const OutputLanes<L>& out) noexcept {
        return out.code(Policy::template scaled<L>(acc, channel, out));
    }
    template <class L, class Acc, class Channel, class SuminChannel>
    static constexpr typename L::i32 apply_sumin(Acc acc, typename L::i32 e, const Channel& channel,
                                                 const SuminChannel& sumin, const OutputLanes<L>& out) noexcept {
        return out.code(Policy::template scaled_sumin<L>(acc, e, channel, sumin, out));
    }
};

// --- float_scale: target::fp32 ---------------------------------------------------------------------------------

/// y = clamp(rhe(fmul(float32(acc), scale)) + zero_point)
///
/// Words    0: scale (bits of a float).  Sumin words  0: s_e / s_out (bits of a float)
/// @pre     |acc| <= 2^53 for a sum of 64 bits
/// Source   ONNX Runtime's requantization; docs/arithmetic.md section 2.1
struct float_scale : RequantizedCode<float_scale> {
    static constexpr const char* name = "float_scale";
    static constexpr int words = 1;
    static constexpr int sumin_words = 1;
    template <class L> struct Channel { typename L::f32 scale; };
    template <class L> using SuminChannel = Channel<L>;

    template <class L> static constexpr Channel<L> load(const std::int32_t* from, index_t) noexcept {
        return {L::from_bits(L::load(from))};
    }
    /// The same parameters in every lane.
    template <class L> static constexpr Channel<L> set(const ChannelWords& values) noexcept {
        return {L::from_bits(L::set(values[0]))};
    }
    template <class L> static constexpr SuminChannel<L> load_sumin(const std::int32_t* from, index_t) noexcept {
        return {L::from_bits(L::load(from))};
    }
    static constexpr ChannelWords make(float scale) noexcept { return {std::bit_cast<std::int32_t>(scale)}; }
    /// Whether words from anywhere keep the formula inside its types.
    static constexpr bool are_words(const ChannelWords& w, int) noexcept {
        return std::bit_cast<float>(w[0]) >= 0.0f && is_finite(std::bit_cast<float>(w[0]));
    }
    static constexpr bool are_sumin_words(const ChannelWords& w, int) noexcept {
        return std::bit_cast<float>(w[0]) >= 0.0f && is_finite(fmul(std::bit_cast<float>(w[0]), 65536.0f));
    }

    template <class L, class Acc>
    static constexpr typename L::i32 scaled(Acc acc, const Channel<L>& channel, const OutputLanes<L>&) noexcept {
        return L::round_to_i32(L::mul(L::to_f32(acc), channel.scale));
    }
    template <class L, class Acc>
    static constexpr typename L::i32 scaled_sumin(Acc acc, typename L::i32 e, const Channel<L>& channel,
                                                  const SuminChannel<L>& sumin, const OutputLanes<L>& out) noexcept {
        const auto addend = L::mul(L::to_f32(L::sub(e, out.sumin_zero_point)), sumin.scale);
        return L::round_to_i32(L::add(L::mul(L::to_f32(acc), channel.scale), addend));
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

// --- fixed_point: target::tflite ---------------------------------------------------------------------------------

struct single_rounding {};
struct double_rounding {};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

namespace detail {

/// To 2^30 in magnitude, so that two can be added.
template <class L> constexpr typename L::i32 saturate(typename L::i32 x) noexcept {
    return (L::min)((L::max)(x, L::set(-(std::int32_t{1} << 30))), L::set(std::int32_t{1} << 30));
}

}  // namespace detail

/// single_rounding:  y = clamp(((acc·M + 2^(30-shift)) >> (31-shift)) + zero_point), in 64 bits
/// double_rounding:  y = clamp(RDBPOT(SRDHM(acc·2^max(shift,0), M), max(-shift,0)) + zero_point)
///
/// Words    0: M.  1: shift, -31 <= shift <= 30
/// @pre     double_rounding: |acc|·2^left < 2^31, proven when the operator is made
/// Source   TensorFlow Lite, MultiplyByQuantizedMultiplier; gemmlowp, fixedpoint.h; docs/arithmetic.md section 2.2
template <class RoundingRule> struct fixed_point;

template <> struct fixed_point<single_rounding> : RequantizedCode<fixed_point<single_rounding>> {
    static constexpr const char* name = "single_rounding";
    static constexpr int words = 2;
    static constexpr int sumin_words = 0;
    template <class L> struct Channel { typename L::i32 multiplier, shift; };

    template <class L> static constexpr Channel<L> load(const std::int32_t* from, index_t stride) noexcept {
        return {L::load(from), L::load(from + stride)};
    }
    /// The same parameters in every lane.
    template <class L> static constexpr Channel<L> set(const ChannelWords& values) noexcept {
        return {L::set(values[0]), L::set(values[1])};
    }
    static constexpr ChannelWords make(const QuantizedMultiplier& real) noexcept {
        return {real.multiplier, real.shift};
    }
    static constexpr bool are_words(const ChannelWords& w, int) noexcept {
        return w[0] >= 0 && w[1] >= -31 && w[1] <= 30;
    }

    template <class L>
    static constexpr typename L::i32 scaled(typename L::i32 acc, const Channel<L>& channel,
                                            const OutputLanes<L>&) noexcept {
        return scale<L>(acc, channel);
    }

    /// The scaled value, saturated to 2^30 in magnitude.
    template <class L> static constexpr typename L::i32 scale(typename L::i32 acc, const Channel<L>& channel) noexcept {
        return detail::saturate<L>(rounded<L>(acc, channel));
    }

    /// The scaled value, saturated to 32 bits.
    template <class L>
    static constexpr typename L::i32 rounded(typename L::i32 acc, const Channel<L>& channel) noexcept {
        const auto right = L::widen(L::sub(L::set(std::int32_t{31}), channel.shift));
        const auto half = L::shift_left(L::set_i64(1), L::widen(L::sub(L::set(std::int32_t{30}), channel.shift)));
        const auto product = L::mul_wide(acc, channel.multiplier);
        return L::narrow(L::shift_right(L::add(product, half), right));
    }
};

template <> struct fixed_point<double_rounding> : RequantizedCode<fixed_point<double_rounding>> {
    static constexpr const char* name = "double_rounding";
    static constexpr int words = 2;
    static constexpr int sumin_words = 0;
    /// left = max(shift, 0), right = max(-shift, 0), has_last = 1 where right > 0, last = right - has_last.
    template <class L> struct Channel { typename L::i32 multiplier, left, right, last, has_last; };

    template <class L> static constexpr Channel<L> load(const std::int32_t* from, index_t stride) noexcept {
        return of_shift<L>(L::load(from), L::load(from + stride));
    }
    /// The same parameters in every lane.
    template <class L> static constexpr Channel<L> set(const ChannelWords& values) noexcept {
        return of_shift<L>(L::set(values[0]), L::set(values[1]));
    }
    static constexpr ChannelWords make(const QuantizedMultiplier& real) noexcept {
        return {real.multiplier, real.shift};
    }
    static constexpr bool are_words(const ChannelWords& w, int) noexcept {
        return w[0] >= 0 && w[1] >= -31 && w[1] <= 30;
    }
    /// Whether |acc| < 2^30, M >= 2^30 and shift <= -2 for sums up to a magnitude: in 32-bit registers the formula is
    /// then smmlar(x + (x >> 31), 2^(32+shift), zero point) with x = smmlar(acc, 2·M - 2^32, acc), and nothing wraps.
    ///
    ///     smmlar(a, b, c) = c + fl((a·b + 2^31) / 2^32)
    static constexpr bool is_short(std::int64_t largest_sum, const ChannelWords& w) noexcept {
        constexpr std::int32_t half = 1 << 30;
        return w[0] >= half && w[1] <= -2 && w[1] >= -31 && largest_sum < half;
    }

    template <class L>
    static constexpr typename L::i32 scaled(typename L::i32 acc, const Channel<L>& channel,
                                            const OutputLanes<L>&) noexcept {
        return round_by_power_of_two<L>(L::sqrdmulh(L::shift_left(acc, channel.left), channel.multiplier), channel);
    }

    /// The scaled value, saturated to 2^30 in magnitude.
    template <class L> static constexpr typename L::i32 scale(typename L::i32 acc, const Channel<L>& channel) noexcept {
        return detail::saturate<L>(scaled<L>(acc, channel, OutputLanes<L>(OutputCodes{})));
    }

    /// RDBPOT(x, n) = x / 2^n, ties away from zero: half-up with one taken off first where x is negative. Half-up is
    /// the shifted value and the last bit that the shift dropped; nothing overflows.
    /// @pre x > -2^31, as every product of sqrdmulh with a multiplier below 2^31 is
    template <class L>
    static constexpr typename L::i32 round_by_power_of_two(typename L::i32 x, const Channel<L>& channel) noexcept {
        const auto is_negative = L::bit_and(L::shift_right(x, L::set(std::int32_t{31})), channel.has_last);
        const auto nudged = L::sub(x, is_negative);
        const auto last_bit = L::bit_and(L::shift_right(nudged, channel.last), channel.has_last);
        return L::add(L::shift_right(nudged, channel.right), last_bit);
    }

private:
    template <class L>
    static constexpr Channel<L> of_shift(typename L::i32 multiplier, typename L::i32 shift) noexcept {
        const auto left = (L::max)(shift, L::set(std::int32_t{0})), right = L::sub(left, shift);
        const auto has_last = (L::min)(right, L::set(std::int32_t{1}));
        return {multiplier, left, right, L::sub(right, has_last), has_last};
    }
};

/// y = clamp(((acc·M16 + 2^(14-shift)) >> (15-shift)) + zero_point), 64 bits until saturated to 32
///
/// Words    0: M16.  1: shift, -31 <= shift <= 7
/// @pre     |acc| < 2^47
/// Source   TensorFlow Lite, MultiplyByQuantizedMultiplier for int64; docs/arithmetic.md section 2.2
struct wide_fixed_point : RequantizedCode<wide_fixed_point> {
    static constexpr const char* name = "wide_fixed_point";
    static constexpr int words = 2;
    static constexpr int sumin_words = 0;
    template <class L> struct Channel { typename L::i32 multiplier, shift; };

    template <class L> static constexpr Channel<L> load(const std::int32_t* from, index_t stride) noexcept {
        return {L::load(from), L::load(from + stride)};
    }
    /// The same parameters in every lane.
    template <class L> static constexpr Channel<L> set(const ChannelWords& values) noexcept {
        return {L::set(values[0]), L::set(values[1])};
    }
    static constexpr ChannelWords make(const QuantizedMultiplier& real) noexcept {
        return {reduce_multiplier_to_16_bits(real.multiplier), real.shift};
    }
    static constexpr bool are_words(const ChannelWords& w, int) noexcept {
        return w[0] >= 0 && w[0] <= INT16_MAX && w[1] >= -31 && w[1] <= 7;
    }
    /// Whether sums up to a magnitude fit 32 bits, and the shift is one of a high product of 32 bits: the formula is
    /// then fl((acc·short_multiplier(w) + 2^31) / 2^32), which saturates nothing.
    static constexpr bool is_short(std::int64_t largest_sum, const ChannelWords& w) noexcept {
        return largest_sum <= INT32_MAX && w[1] >= -17 && w[1] <= -1;
    }
    static constexpr std::int32_t short_multiplier(std::int32_t multiplier, std::int32_t shift) noexcept {
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(multiplier) << (17 + shift));
    }
    template <class L>
    static constexpr typename L::i32 scaled(typename L::i64 acc, const Channel<L>& channel,
                                            const OutputLanes<L>&) noexcept {
        const auto half = L::shift_left(L::set_i64(1), L::widen(L::sub(L::set(std::int32_t{14}), channel.shift)));
        const auto right = L::widen(L::sub(L::set(std::int32_t{15}), channel.shift));
        const auto product = L::mul(acc, L::widen(channel.multiplier));
        return L::narrow(L::shift_right(L::add(product, half), right));
    }
};

// --- binary64: the linear layers of target::litert -------------------------------------------------------------------

/// y = clamp(rhaz(dmul(double(acc), r)) + zero_point),  r = double(s_in)·double(s_w) / double(s_out)
///
/// One lane after the other: no lanes have binary64, and this is the last step of a long sum.
///
/// Words    0, 1: the lower and the upper half of r's bits
/// Source   LiteRT 2.3, reference kernels of fully connected layers; docs/arithmetic.md section 2.2
struct binary64 : RequantizedCode<binary64> {
    static constexpr const char* name = "binary64";
    static constexpr int words = 2;
    static constexpr int sumin_words = 0;
    template <class L> struct Channel { typename L::i32 low, high; };

    template <class L> static constexpr Channel<L> load(const std::int32_t* from, index_t stride) noexcept {
        return {L::load(from), L::load(from + stride)};
    }
    /// The same parameters in every lane.
    template <class L> static constexpr Channel<L> set(const ChannelWords& values) noexcept {
        return {L::set(values[0]), L::set(values[1])};
    }
    static constexpr ChannelWords make(double real) noexcept {
        const auto bits = std::bit_cast<std::uint64_t>(real);
        return {static_cast<std::int32_t>(static_cast<std::uint32_t>(bits)),
                static_cast<std::int32_t>(static_cast<std::uint32_t>(bits >> 32))};
    }
    static constexpr bool are_words(const ChannelWords& w, int) noexcept {
        const double real = from_words(w[0], w[1]);
        return real >= 0.0 && is_finite(real);
    }

    template <class L>
    static constexpr typename L::i32 scaled(typename L::i32 acc, const Channel<L>& channel,
                                            const OutputLanes<L>&) noexcept {
        std::int32_t sums[static_cast<std::size_t>(L::width())] = {};
        L::store(sums, acc);
        return lane_by_lane<L>(sums, channel);
    }
    template <class L>
    static constexpr typename L::i32 scaled(typename L::i64 acc, const Channel<L>& channel,
                                            const OutputLanes<L>&) noexcept {
        std::int64_t sums[static_cast<std::size_t>(L::width())] = {};
        L::store_i64(sums, acc);
        return lane_by_lane<L>(sums, channel);
    }

private:
    static constexpr double from_words(std::int32_t low, std::int32_t high) noexcept {
        return std::bit_cast<double>(std::uint64_t{static_cast<std::uint32_t>(high)} << 32 |
                                     static_cast<std::uint32_t>(low));
    }
    /// Saturated to 32 bits.
    static constexpr std::int32_t scale(std::int64_t acc, double real) noexcept {
        const double rounded = round_half_away(dmul(static_cast<double>(acc), real));
        return rounded <= -2147483648.0  ? INT32_MIN
               : rounded >= 2147483647.0 ? INT32_MAX
                                         : static_cast<std::int32_t>(rounded);
    }
    template <class L, class Sum>
    static constexpr typename L::i32 lane_by_lane(const Sum* sums, const Channel<L>& channel) noexcept {
        constexpr auto width = static_cast<std::size_t>(L::width());
        std::int32_t low[width] = {}, high[width] = {}, scaled[width] = {};
        L::store(low, channel.low);
        L::store(high, channel.high);
        for (std::size_t i = 0; i < width; ++i) scaled[i] = scale(sums[i], from_words(low[i], high[i]));
        return L::load(static_cast<const std::int32_t*>(scaled));
    }
};

// --- two_stage: target::bpu ----------------------------------------------------------------------------------------

/// a = clamp_16(PRE(acc, pre));  y = clamp(POST(a·M, post) + zero_point)
///
/// Words    0: M (at most 32767).  1, 2: pre as floor bits and round bit.  3: post.  4: 2^(post-1) or 0
/// Sumin    acc += SH_R(e·k, n), or (e·k) << -n.  Words  0: k.  1: n right, >= 0.  2: -n left, >= 0
/// Source   our own definition; docs/arithmetic.md section 2.3
struct two_stage : RequantizedCode<two_stage> {
    static constexpr const char* name = "two_stage";
    static constexpr int words = 5;
    static constexpr int sumin_words = 3;
    template <class L> struct Channel { typename L::i32 multiplier, pre_floor, pre_round, post, post_half; };
    template <class L> struct SuminChannel { typename L::i32 coefficient, right, left; };

    template <class L> static constexpr Channel<L> load(const std::int32_t* from, index_t stride) noexcept {
        return {L::load(from), L::load(from + stride), L::load(from + 2 * stride), L::load(from + 3 * stride),
                L::load(from + 4 * stride)};
    }
    /// The same parameters in every lane.
    template <class L> static constexpr Channel<L> set(const ChannelWords& values) noexcept {
        return {L::set(values[0]), L::set(values[1]), L::set(values[2]), L::set(values[3]), L::set(values[4])};
    }
    template <class L> static constexpr SuminChannel<L> load_sumin(const std::int32_t* from, index_t stride) noexcept {
        return {L::load(from), L::load(from + stride), L::load(from + 2 * stride)};
    }
    static constexpr ChannelWords make(std::int32_t multiplier, int pre, ShiftRounding pre_rounding, int post,
                                       ShiftRounding post_rounding) noexcept {
        const int round_bit = pre_rounding == ShiftRounding::half_up && pre > 0 ? 1 : 0;
        const bool half = post_rounding == ShiftRounding::half_up && post > 0;
        return {multiplier, pre - round_bit, round_bit, post, half ? std::int32_t{1} << (post - 1) : 0};
    }
    static constexpr bool are_words(const ChannelWords& w, int bits) noexcept {
        return (w[0] & ~INT16_MAX) == 0 && w[1] >= 0 && w[1] < bits && (w[2] & ~1) == 0 && (w[3] & ~31) == 0 &&
               (w[4] == 0 || (w[3] > 0 && w[4] == std::int32_t{1} << (w[3] - 1)));
    }
    static constexpr bool are_sumin_words(const ChannelWords& w, int bits) noexcept {
        return w[0] >= 0 && w[0] <= INT16_MAX && w[1] >= 0 && w[1] <= 31 && w[2] >= 0 && w[2] < bits;
    }

    template <class L, class Acc>
    static constexpr typename L::i32 scaled(Acc acc, const Channel<L>& channel, const OutputLanes<L>&) noexcept {
        const auto shifted = detail::narrow<L>(detail::shift_by_words<L>(acc, channel.pre_floor, channel.pre_round));
        const auto a = (L::min)((L::max)(shifted, L::set(std::int32_t{INT16_MIN})), L::set(std::int32_t{INT16_MAX}));
        const auto product = L::add(L::mul_short(a, channel.multiplier), channel.post_half);
        return L::shift_right(product, channel.post);
    }
    template <class L, class Acc>
    static constexpr typename L::i32 scaled_sumin(Acc acc, typename L::i32 e, const Channel<L>& channel,
                                                  const SuminChannel<L>& sumin, const OutputLanes<L>& out) noexcept {
        return scaled<L>(L::add(acc, sumin_term<L>(e, sumin, acc)), channel, out);
    }
    /// The term of a fused add's operand in the accumulator; the last argument says its type.
    template <class L>
    static constexpr typename L::i32 sumin_term(typename L::i32 e, const SuminChannel<L>& sumin,
                                                typename L::i32) noexcept {
        return L::shift_left(rounded_term<L>(e, sumin), sumin.left);
    }
    template <class L>
    static constexpr typename L::i64 sumin_term(typename L::i32 e, const SuminChannel<L>& sumin,
                                                typename L::i64) noexcept {
        return L::shift_left(L::widen(rounded_term<L>(e, sumin)), L::widen(sumin.left));
    }

private:
    template <class L>
    static constexpr typename L::i32 rounded_term(typename L::i32 e, const SuminChannel<L>& sumin) noexcept {
        const auto half = L::shift_right(L::shift_left(L::set(std::int32_t{1}), sumin.right), L::set(std::int32_t{1}));
        // For right = 31 the shift above wraps to the sign bit: mask it back to 2^30.
        const auto positive_half = (L::max)(half, L::sub(L::set(std::int32_t{0}), half));
        return L::shift_right(L::add(L::mul(e, sumin.coefficient), positive_half), sumin.right);
    }
};

// --- outputs that are not requantized -------------------------------------------------------------------------------

/// The accumulator is the output, int32 with scale s_acc per channel; only clamped (ReLU).
///
/// Sumin    as two_stage, the one policy that adds the operand in the accumulator
struct keep_accumulator : RequantizedCode<keep_accumulator> {
    static constexpr const char* name = "accumulator";
    static constexpr int words = 0;
    static constexpr int sumin_words = two_stage::sumin_words;
    template <class L> struct Channel {};
    template <class L> using SuminChannel = two_stage::SuminChannel<L>;
    template <class L> static constexpr Channel<L> load(const std::int32_t*, index_t) noexcept { return {}; }
    template <class L> static constexpr Channel<L> set(const ChannelWords&) noexcept { return {}; }
    template <class L> static constexpr SuminChannel<L> load_sumin(const std::int32_t* from, index_t stride) noexcept {
        return two_stage::load_sumin<L>(from, stride);
    }
    template <class L, class Acc>
    static constexpr typename L::i32 scaled(Acc acc, const Channel<L>&, const OutputLanes<L>&) noexcept {
        return detail::narrow<L>(acc);
    }
    template <class L, class Acc>
    static constexpr typename L::i32 scaled_sumin(Acc acc, typename L::i32 e, const Channel<L>& channel,
                                                  const SuminChannel<L>& sumin, const OutputLanes<L>& out) noexcept {
        return scaled<L>(L::add(acc, two_stage::sumin_term<L>(e, sumin, acc)), channel, out);
    }
};

/// A float accumulator, only clamped: the float layers of calibration and baselines. NaN passes.
struct keep_real {
    static constexpr const char* name = "real";
    static constexpr int words = 0;
    static constexpr int sumin_words = 0;
    template <class L> struct Channel {};
    template <class L> using SuminChannel = Channel<L>;
    template <class L> static constexpr Channel<L> load(const std::int32_t*, index_t) noexcept { return {}; }
    template <class L> static constexpr SuminChannel<L> load_sumin(const std::int32_t*, index_t) noexcept { return {}; }
    template <class L>
    static constexpr typename L::f32 apply(typename L::f32 acc, const Channel<L>&, const OutputLanes<L>& out) noexcept {
        // min and max return the second operand for NaN.
        return (L::min)(out.highest_real, (L::max)(out.lowest_real, acc));
    }
    template <class L>
    static constexpr typename L::f32 apply_sumin(typename L::f32 acc, typename L::f32 e, const Channel<L>& channel,
                                                 const SuminChannel<L>&, const OutputLanes<L>& out) noexcept {
        return apply<L>(L::add(acc, e), channel, out);
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_REQUANTIZE_HPP
