// SPDX-License-Identifier: MIT
//
// sigmoid and tanh of int16 codes as TFLite's kernels compute them: one table of 256 knots for both, and straight
// pieces between. Layer: arith (docs/arithmetic.md section 4).
//
// It differs from the int16 tables of arith/unary.hpp in the places of its knots: they lie 1/24 apart, whatever the
// scale of the input is, so the code is scaled first. Both functions follow from tanh(x/2) = 2·sigmoid(x) - 1, which is
// odd, so the table holds its positive half.
#ifndef INTQ_ARITH_TFLITE_CURVE_HPP
#define INTQ_ARITH_TFLITE_CURVE_HPP

#include <cstdint>
#include <span>

#include "intq/arith/ieee.hpp"
#include "intq/arith/lanes.hpp"
#include "intq/arith/real_functions.hpp"
#include "intq/arith/rounding.hpp"
#include "intq/core/status.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Entries of the table: 256 knots, and the last one again, which a vector reads beside it.
inline constexpr std::size_t tflite_curve_size = 257;

/// How a code finds its place on the curve, and which of the two functions it is.
struct TfliteCurve {
    std::int32_t multiplier = 0;
    std::int32_t shift = 0;
    bool is_tanh = false;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const TfliteCurve&, const TfliteCurve&) = default;
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Numbers with which every step of tflite_curve() stays in 32 bits.
constexpr bool is_sound(const TfliteCurve& curve) noexcept {
    return curve.multiplier >= 1 && curve.multiplier <= (curve.shift == 0 ? 65535 : 32767) && curve.shift >= 0 &&
           curve.shift <= 31;
}

/// The knots of the curve, with sigma the sigmoid and sigma'' its second derivative.
///
///     x = i/24,  entries[i] = rhu(2^16·(sigma(x) - sigma''(x)/(16·24^2))) - 2^15,   i = 0 … 254
///     entries[255] = entries[256] = 2^15 - 1
///
/// The second term is half of the largest error of a straight piece there.
///
/// @param entries  tflite_curve_size
/// @return ok; shape_mismatch of storage
///
/// Source   the 256 knots of LiteRT 2.3, read off its TANH kernel; the formula, which reproduces all of them, is ours
constexpr Status make_tflite_curve_table(std::span<std::int16_t> entries) noexcept {
    if (entries.size() != tflite_curve_size)
        return {StatusCode::shape_mismatch, OpKind::lookup_table, Field::storage,
                static_cast<std::int64_t>(entries.size()), static_cast<std::int64_t>(tflite_curve_size)};
    for (std::size_t i = 0; i < 255; ++i) {
        const double sigma = 1.0 / (1.0 + real_exp(-static_cast<double>(i) / 24.0));
        const double bend = dmul(dmul(sigma, 1.0 - sigma), 1.0 - dmul(2.0, sigma));
        entries[i] = static_cast<std::int16_t>(round_half_up(dmul(65536.0, sigma - bend / 9216.0)) - 32768);
    }
    entries[255] = entries[256] = INT16_MAX;
    return {};
}

/// The place of a code on the curve.
///
///     M = 3·2^k, shift = 0       where s = 2^(k - 12), k = 0, or 1 for tanh, up to a thousandth of a power of two
///     M = fl(s·12288·2^shift)    elsewhere, with the least shift that makes it larger than 16383.5, at most 31
///
/// @param s  scale of the input; its zero point is 0
/// @return scale_out_of_range of scale: M above 65535, or a scale for which the logarithm that LiteRT takes in float32
///         may or may not be near enough to a power of two
constexpr Result<TfliteCurve> make_tflite_curve(bool is_tanh, float s) noexcept {
    const auto refusal = [](std::int64_t given, std::int64_t expected) {
        return Status{StatusCode::scale_out_of_range, OpKind::lookup_table, Field::scale, given, expected};
    };
    for (int power = 0; power <= (is_tanh ? 1 : 0); ++power) {
        const double off = real_log(static_cast<double>(s) * (power == 0 ? 4096.0 : 2048.0)) / 0.69314718055994530942;
        const double size = off < 0.0 ? -off : off;
        if (size > 0.00099 && size < 0.00101) return refusal(0, 0);
        if (size < 0.001) return TfliteCurve{3 << power, 0, is_tanh};
    }
    double multiplier = static_cast<double>(s) * 12288.0;
    std::int32_t shift = 0;
    for (; multiplier <= 16383.5 && shift <= 30; ++shift) multiplier = multiplier * 2.0;
    if (!(multiplier < 65536.0)) return refusal(65536, 65535);
    const TfliteCurve curve{static_cast<std::int32_t>(multiplier), shift, is_tanh};
    return is_sound(curve) ? Result<TfliteCurve>(curve) : refusal(curve.multiplier, 1);
}

/// y of int16 codes.
///
///     p = (x·M + fl(2^(shift - 1))) >> shift,   f = 8 for tanh, 9 for sigmoid
///     a = min(abs(p), 255·2^8 for tanh, 254·2^9 for sigmoid),  i = a >> f,  u = a mod 2^f
///     r = sign(p)·(T[i]·2^f + (T[i + 1] - T[i])·u)
///     tanh:     y = (r + 2^7 - (p < 0)) >> 8
///     sigmoid:  y = (r + 2^24 + 2^9 - (p < 0)) >> 10
///
/// @param entries  tflite_curve_size, made by make_tflite_curve_table()
/// @pre is_sound(curve)
template <Lanes L>
INTQ_ALWAYS_INLINE constexpr typename L::i32 tflite_curve(const std::int16_t* entries, const TfliteCurve& curve,
                                                          typename L::i32 x) noexcept {
    const std::int32_t fraction = curve.is_tanh ? 8 : 9, last = fraction + (curve.is_tanh ? 0 : 1);
    const std::int32_t half = curve.shift > 0 ? std::int32_t{1} << (curve.shift - 1) : 0;
    const auto f = L::set(fraction), sixteen = L::set(std::int32_t{16});
    const auto p = L::shift_right(L::add(L::mul(x, L::set(curve.multiplier)), L::set(half)), L::set(curve.shift));
    const auto negative = L::shift_right(p, L::set(std::int32_t{31}));  // -1 or 0
    const auto end = L::set(std::int32_t{curve.is_tanh ? 255 << 8 : 254 << 9});
    const auto size = (L::min)((L::max)(p, L::sub(L::set(std::int32_t{0}), p)), end);
    const auto place = L::shift_right(size, f);
    const auto rest = L::sub(size, L::shift_left(place, f));
    const auto pair = L::gather_pair(entries, place);
    const auto first = L::shift_right(L::shift_left(pair, sixteen), sixteen), second = L::shift_right(pair, sixteen);
    const auto line = L::add(L::shift_left(first, f), L::mul(L::sub(second, first), rest));
    const auto sign = L::add(L::shift_left(negative, L::set(std::int32_t{1})), L::set(std::int32_t{1}));
    const std::int32_t middle = (curve.is_tanh ? 0 : std::int32_t{1} << 24) + (std::int32_t{1} << (last - 1));
    return L::shift_right(L::add(L::add(L::mul(line, sign), negative), L::set(middle)), L::set(last));
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_TFLITE_CURVE_HPP
