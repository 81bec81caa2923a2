// SPDX-License-Identifier: MIT
//
// Functions of TFLite's kernels beside requantization: hard swish and leaky relu of int8 codes, the multipliers of a
// mean and of a squared difference, the cells of a resized image. Layer: arith (docs/arithmetic.md section 4).
//
// An import makes tables and multipliers of them once, so they are scalar.
#ifndef INTQ_ARITH_TFLITE_FUNCTIONS_HPP
#define INTQ_ARITH_TFLITE_FUNCTIONS_HPP

#include <cstdint>

#include "intq/arith/codes.hpp"
#include "intq/arith/fixed_point.hpp"
#include "intq/arith/ieee.hpp"
#include "intq/arith/resize.hpp"
#include "intq/arith/rounding.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// A factor of a code; the multiplier may be negative.
struct SignedMultiplier {
    std::int32_t multiplier = 0;
    int shift = 0;
};

struct LeakyReluParams {
    std::int32_t zero_point_in = 0, zero_point_out = 0;
    SignedMultiplier identity{}, negative{};
};

struct HardSwishParams {
    std::int32_t zero_point_in = 0, zero_point_out = 0;
    std::int32_t output = 0, reluish = 0;  // multipliers of 16 bits
    int output_shift = 0, reluish_shift = 0;
};

/// The factors of a squared difference: of both operands, and of the square.
struct SquaredDifference {
    QuantizedMultiplier x{}, y{}, square{};
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

namespace detail {

constexpr std::int64_t clamped(std::int64_t value, std::int64_t lowest, std::int64_t highest) noexcept {
    return value < lowest ? lowest : value > highest ? highest : value;
}
constexpr std::int64_t clamp_16_bits(std::int64_t value) noexcept { return clamped(value, INT16_MIN, INT16_MAX); }

/// rhaz(x / 2^n)
constexpr std::int64_t divide_by_power(std::int64_t x, int n) noexcept {
    if (n == 0) return x;
    const std::int64_t half = std::int64_t{1} << (n - 1);
    return x < 0 ? -((-x + half) >> n) : (x + half) >> n;
}

/// rhu(a·b / 2^15), and the largest number for two lowest ones.
constexpr std::int64_t high_product_16(std::int64_t a, std::int64_t b) noexcept {
    return clamp_16_bits((a * b + (1 << 14)) >> 15);
}

/// A code of 9 bits is shifted left by at most 22 without leaving 32 bits.
constexpr Result<SignedMultiplier> signed_multiplier(float real) noexcept {
    const auto made = quantize_multiplier(static_cast<double>(real < 0.0f ? -real : real));
    if (!made) return made.status();
    if (made->shift > 22)
        return Status{StatusCode::scale_out_of_range, OpKind::lookup_table, Field::scale_ratio, made->shift, 22};
    return SignedMultiplier{real < 0.0f ? -made->multiplier : made->multiplier, made->shift};
}

}  // namespace detail

/// RDBPOT(SRDHM(x·2^max(shift, 0), M), max(-shift, 0)), the rule of double rounding with a signed multiplier.
/// @pre x·2^max(shift, 0) fits 32 bits
constexpr std::int32_t scale_code(std::int32_t x, const SignedMultiplier& by) noexcept {
    const std::int64_t shifted = std::int64_t{x} << (by.shift > 0 ? by.shift : 0);
    const std::int64_t high = (shifted * by.multiplier + (std::int64_t{1} << 30)) >> 31;
    return static_cast<std::int32_t>(detail::divide_by_power(high, by.shift < 0 ? -by.shift : 0));
}

/// Factors s_in/s_out and s_in·alpha/s_out, in float32.
/// @return scale_out_of_range of scale_ratio
constexpr Result<LeakyReluParams> make_leaky_relu(const CodesOf& in, const CodesOf& out, float alpha) noexcept {
    const auto identity = detail::signed_multiplier(fdiv(in.scale, out.scale));
    if (!identity) return identity.status();
    const auto negative = detail::signed_multiplier(fdiv(fmul(in.scale, alpha), out.scale));
    if (!negative) return negative.status();
    return LeakyReluParams{in.zero_point, out.zero_point, *identity, *negative};
}

constexpr std::int32_t leaky_relu_code(const LeakyReluParams& params, std::int32_t code) noexcept {
    const std::int32_t x = code - params.zero_point_in;
    const std::int32_t y = scale_code(x, x >= 0 ? params.identity : params.negative);
    return static_cast<std::int32_t>(
        detail::clamped(std::int64_t{params.zero_point_out} + y, lowest_code(DType::int8), highest_code(DType::int8)));
}

/// Multipliers of 16 bits of s_in/128/s_out and s_in/128/(3/32768), in float32.
/// @return scale_out_of_range of scale_ratio: an output whose scale is below s_in/128
constexpr Result<HardSwishParams> make_hard_swish(const CodesOf& in, const CodesOf& out) noexcept {
    const float fine = fmul(1.0f / 128.0f, in.scale);
    const auto output = quantize_multiplier(static_cast<double>(fdiv(fine, out.scale)));
    if (!output) return output.status();
    const auto reluish = quantize_multiplier(static_cast<double>(fdiv(fine, 3.0f / 32768.0f)));
    if (!reluish) return reluish.status();
    if (output->shift > 0)
        return Status{StatusCode::scale_out_of_range, OpKind::lookup_table, Field::scale_ratio, output->shift, 0};
    return HardSwishParams{in.zero_point,
                           out.zero_point,
                           reduce_multiplier_to_16_bits(output->multiplier),
                           reduce_multiplier_to_16_bits(reluish->multiplier),
                           output->shift,
                           reluish->shift};
}

/// x·relu6(x + 3)/6 in 16 bits.
constexpr std::int32_t hard_swish_code(const HardSwishParams& params, std::int32_t code) noexcept {
    using detail::clamp_16_bits;
    const std::int64_t x = std::int64_t{code - params.zero_point_in} * 128;
    const std::int64_t y = detail::high_product_16(x, params.output);
    const int left = params.reluish_shift;
    std::int64_t gate = left > 0 ? clamp_16_bits(x * (std::int64_t{1} << (left - 1))) : x;
    gate = detail::high_product_16(gate, params.reluish);
    if (left > 0) gate = clamp_16_bits(gate * 2);
    if (left < 0) gate = detail::divide_by_power(gate, -left);
    gate = (gate + 32768) >> 1;
    const std::int64_t product = gate * y / 32768;  // towards zero
    return static_cast<std::int32_t>(
        detail::clamped(detail::divide_by_power(product, -params.output_shift) + params.zero_point_out,
                        lowest_code(DType::int8), highest_code(DType::int8)));
}

/// The multiplier and shift of a sum of n codes from those of one code, as LiteRT's MEAN divides by n:
/// k = fl(log2 n), at most 32 and 31 + e, fl(M·2^k / n) and e - k.
/// @param of_code  M at least 0, e at least -31
/// @param count    1 … 2^30
constexpr QuantizedMultiplier divide_multiplier(const QuantizedMultiplier& of_code, index_t count) noexcept {
    int bits = 0;
    while (count >> (bits + 1) != 0) ++bits;
    if (bits > 31 + of_code.shift) bits = 31 + of_code.shift;
    const std::int64_t shared = (std::int64_t{of_code.multiplier} << bits) / static_cast<std::int64_t>(count);
    return {static_cast<std::int32_t>(shared), of_code.shift - bits};
}

/// The multiplier and shift of a mean over n codes: divide_multiplier() of (M, e) = quantize_multiplier(s_in/s_out).
/// @param count  1 … 2^30
constexpr Result<QuantizedMultiplier> make_mean_multiplier(float s_in, float s_out, index_t count) noexcept {
    const auto made = quantize_multiplier(static_cast<double>(s_in) / static_cast<double>(s_out));
    if (!made) return made.status();
    return divide_multiplier(*made, count);
}

/// The multipliers of LiteRT's SQUARED_DIFFERENCE, in double, with T = 2·max(s_x, s_y):
/// s_x/T and s_y/T of codes times 2^7, T²/(2^14·s_out) of the square.
/// @return scale_out_of_range of scale_ratio: a factor of the square of 1 and more, which LiteRT does not take
constexpr Result<SquaredDifference> make_squared_difference(float s_x, float s_y, float s_out) noexcept {
    const double twice = 2.0 * static_cast<double>(s_x > s_y ? s_x : s_y);
    const auto x = quantize_multiplier(static_cast<double>(s_x) / twice);
    const auto y = quantize_multiplier(static_cast<double>(s_y) / twice);
    const auto square = quantize_multiplier(twice * twice / (16384.0 * static_cast<double>(s_out)));
    for (const auto* const made : {&x, &y, &square})
        if (!*made) return made->status();
    if (square->shift > 0)
        return Status{StatusCode::scale_out_of_range, OpKind::mul, Field::scale_ratio, square->shift, 0};
    return SquaredDifference{*x, *y, *square};
}

/// The cell of an axis that RESIZE_NEAREST_NEIGHBOR reads, in float32.
///
///     s = (in - 1)/(out - 1) with corners and out > 1, else in/out;   p = (d + 1/2)·s with half_pixel, else d·s
///     cell = clamp(rhaz(p)) with corners, else clamp(fl(p))
///
/// @pre 1 <= in, out <= 2^24
constexpr index_t tflite_nearest_cell(index_t d, index_t in, index_t out, bool corners, bool half_pixel) noexcept {
    const bool by_ends = corners && out > 1;
    const float scale = by_ends ? fdiv(static_cast<float>(in - 1), static_cast<float>(out - 1))
                                : fdiv(static_cast<float>(in), static_cast<float>(out));
    const float position = fmul(half_pixel ? fadd(static_cast<float>(d), 0.5f) : static_cast<float>(d), scale);
    const auto cell = static_cast<index_t>(corners ? round_half_away(position) : floor(position));
    return cell < 0 ? 0 : cell >= in ? in - 1 : cell;
}

/// The cells of an axis that RESIZE_BILINEAR reads, in integers.
///
///     s      = fl((2^10·(in - 1) + fl((out - 1)/2)) / (out - 1)) with corners and out > 1,
///              else fl((2^10·in + fl(out/2)) / out)
///     p      = d·s + fl(s/2) - 2^9 with half_pixel, else d·s
///     first  = max(fl(p / 2^10), 0),  second = min(first + 1, in - 1),  weight = p mod 2^10;  0 for p < 0
///
/// @pre 1 <= in, out <= 2^24, 0 <= d < out
/// @return value_out_of_range of input where the rounding of s takes the cell beyond the last one, which LiteRT then
///         reads out of bounds
constexpr Result<ResizeTap> tflite_bilinear_tap(index_t d, index_t in, index_t out, bool corners,
                                                bool half_pixel) noexcept {
    const std::int64_t from = in, to = out;
    const std::int64_t step =
        corners && to > 1 ? (1024 * (from - 1) + (to - 1) / 2) / (to - 1) : (1024 * from + to / 2) / to;
    const std::int64_t position = std::int64_t{d} * step + (half_pixel ? step / 2 - 512 : 0);
    if (position < 0) return ResizeTap{};
    const std::int64_t first = position / 1024;
    if (first >= from)
        return Status{StatusCode::value_out_of_range, OpKind::interpolate, Field::input, first, from - 1};
    const auto cell = static_cast<std::int32_t>(first);
    if (first + 1 == from) return ResizeTap{cell, cell, 0};
    return ResizeTap{cell, cell + 1, static_cast<std::int32_t>(position % 1024)};
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_TFLITE_FUNCTIONS_HPP
