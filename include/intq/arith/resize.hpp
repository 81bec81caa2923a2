// SPDX-License-Identifier: MIT
//
// Resizing of images of codes: where an output pixel lies, and the weighted mean of four cells. Layer: arith
// (docs/arithmetic.md section 4, interpolate).
#ifndef INTQ_ARITH_RESIZE_HPP
#define INTQ_ARITH_RESIZE_HPP

#include <bit>
#include <cstdint>

#include "intq/arith/codes.hpp"
#include "intq/arith/ieee.hpp"
#include "intq/arith/lanes.hpp"
#include "intq/arith/requantize.hpp"
#include "intq/core/op_params.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Which input an output coordinate means. align_corners and half_pixel are bilinear; nearest_half_down is ONNX's
/// default, the others are PyTorch's.
enum class Resize : std::uint8_t { nearest, nearest_exact, nearest_half_down, half_pixel, align_corners };

/// The source of the distance between output cells along an axis: the two extents, or a factor, by the rule of the
/// project that it comes from.
enum class ResizeOrigin : std::uint8_t { extents, torch_factor, onnx_factor };

/// Along one axis. The factor is not read for extents; ONNX has it in float32.
struct ResizeScale {
    ResizeOrigin origin = ResizeOrigin::extents;
    double factor = 0.0;
};

/// Of both axes.
struct ResizeScales {
    ResizeScale height{};
    ResizeScale width{};
};

/// The cells that an output cell is made of. One; or four, by weights that count 256ths or (as TFLite) 1024ths of a
/// step between two; or the real numbers of four int8 cells, by weights in float32, as ONNX Runtime.
enum class Blend : std::uint8_t { nearest, of_256ths, of_1024ths, of_values };

/// The two grids of Blend::of_values.
struct ResizeGrids {
    std::int32_t zero_point = 0;  // of the input
    float s_in = 1.0f;
    float s_out = 1.0f;
    OutputCodes codes{};
};

/// One output coordinate along one axis: cells first and second, and the parts of a step that the second weighs; of
/// Blend::of_values the bits of its weight.
struct ResizeTap {
    std::int32_t first = 0;
    std::int32_t second = 0;
    std::int32_t weight = 0;
    friend INTQ_ALWAYS_INLINE constexpr bool operator==(const ResizeTap&, const ResizeTap&) = default;
};

/// Largest extents along an axis: every product below stays in 64 bits, every cell number in 32.
inline constexpr index_t largest_resized = index_t{1} << 24;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Whether a rule takes one cell, and no mean of several.
constexpr bool is_nearest(Resize rule) noexcept {
    return rule == Resize::nearest || rule == Resize::nearest_exact || rule == Resize::nearest_half_down;
}

/// The largest weight of a tap: one part less than a whole step.
constexpr std::int32_t largest_weight(Blend blend) noexcept {
    if (blend == Blend::of_values) return std::bit_cast<std::int32_t>(1.0f) - 1;
    return blend == Blend::nearest ? 0 : blend == Blend::of_256ths ? 255 : 1023;
}

/// The extent after scaling by a factor; 0 where it is below 1 or above largest_resized.
///
///     torch  out = fl(in·f), in binary64        onnx  out = fl(fmul(in, f))
constexpr index_t resized_extent(const ResizeScale& scale, index_t in) noexcept {
    const double wanted = scale.origin == ResizeOrigin::torch_factor
                              ? dmul(static_cast<double>(in), scale.factor)
                              : static_cast<double>(fmul(static_cast<float>(in), static_cast<float>(scale.factor)));
    const bool fits = wanted >= 1.0 && wanted < static_cast<double>(largest_resized) + 1.0;
    return fits ? static_cast<index_t>(wanted) : index_t{0};
}

/// Whether the corners can be aligned: ONNX aligns them where the size is not rounded down.
constexpr bool aligns_corners(const ResizeScale& scale, index_t in) noexcept {
    if (scale.origin != ResizeOrigin::onnx_factor) return true;
    return fmul(static_cast<float>(in), static_cast<float>(scale.factor)) ==
           static_cast<float>(resized_extent(scale, in));
}

/// The scales to use from in to out: ONNX copies where no extent changes, whatever the factors are.
constexpr ResizeScales scales_between(const ResizeScales& scales, Size2d in, Size2d out) noexcept {
    const auto copies = [&](const ResizeScale& scale) {
        return scale.origin == ResizeOrigin::onnx_factor && in.height == out.height && in.width == out.width;
    };
    return {copies(scales.height) ? ResizeScale{} : scales.height, copies(scales.width) ? ResizeScale{} : scales.width};
}

/// The place of output coordinate d by a factor, between the cells 0 and in - 1, for half_pixel.
///
///     torch  p = fsub(fmul(s, fadd(d, 1/2)), 1/2),  s = float32(1/f);  p = d where out = in
///     onnx   p = fsub(fdiv(fadd(d, 1/2), f), 1/2)
constexpr float factor_position(const ResizeScale& scale, index_t d, index_t in, index_t out) noexcept {
    const bool torch = scale.origin == ResizeOrigin::torch_factor;
    if (torch && in == out) return static_cast<float>(d);
    const float centre = fadd(static_cast<float>(d), 0.5f);
    const float place = fadd(
        torch ? fmul(static_cast<float>(1.0 / scale.factor), centre) : fdiv(centre, static_cast<float>(scale.factor)),
        -0.5f);
    const auto last = static_cast<float>(in - 1);
    return place > 0.0f ? (place < last ? place : last) : 0.0f;
}

namespace detail {

constexpr std::int64_t floor_divide(std::int64_t a, std::int64_t b) noexcept { return a / b - (a % b < 0 ? 1 : 0); }

/// The centre of an output cell, rounded half down to a cell.
constexpr std::int64_t nearest_half_down(std::int64_t d, std::int64_t in, std::int64_t out,
                                         const ResizeScale& scale) noexcept {
    if (scale.origin == ResizeOrigin::extents) return ((2 * d + 1) * in - 1) / (2 * out);
    const float place = fadd(fdiv(fadd(static_cast<float>(d), 0.5f), static_cast<float>(scale.factor)), -0.5f);
    // Half down is the next integer above a half less.
    const double bound = static_cast<double>(place) - 0.5;
    if (bound <= 0.0) return 0;
    const auto below = static_cast<std::int64_t>(bound);
    return static_cast<double>(below) < bound ? below + 1 : below;
}

/// The cell of a nearest rule, not below 0, perhaps beyond the last.
constexpr std::int64_t nearest_cell(Resize rule, std::int64_t d, std::int64_t in, std::int64_t out,
                                    const ResizeScale& scale) noexcept {
    if (rule == Resize::nearest_half_down) return nearest_half_down(d, in, out, scale);
    const bool exact = rule == Resize::nearest_exact;
    if (scale.origin == ResizeOrigin::extents) return exact ? (2 * d + 1) * in / (2 * out) : d * in / out;
    const float at = exact ? fadd(static_cast<float>(d), 0.5f) : static_cast<float>(d);
    if (scale.origin == ResizeOrigin::onnx_factor)
        return static_cast<std::int64_t>(fdiv(at, static_cast<float>(scale.factor)));
    if (!exact && out == in) return d;
    if (!exact && out == 2 * in) return d / 2;
    return static_cast<std::int64_t>(fmul(at, static_cast<float>(1.0 / scale.factor)));
}

}  // namespace detail

/// The cells of output coordinate d.
///
///     half_pixel      c = clamp(fl((((2d + 1)·in - out)·2^7 + fl(out/2)) / out), 0, (in - 1)·2^8)
///     align_corners   c = fl((d·(in - 1)·2^8 + fl((out - 1)/2)) / (out - 1)), 0 where out = 1
///                     first = c >> 8,  second = min(first + 1, in - 1),  weight = c mod 256
///     nearest         first = fl(d·in / out)
///     nearest_exact   first = min(fl((2d + 1)·in / (2·out)), in - 1)
///     nearest_half_down  first = fl(((2d + 1)·in - 1) / (2·out)): the centre rounded half down, and not half up
///
/// By a factor f, with the float32 step s = float32(1/f):
///
///     half_pixel      c = rhu(p·2^8), p by factor_position()
///     nearest         torch  first = d where out = in, d >> 1 where out = 2·in, else min(fl(fmul(d, s)), in - 1)
///                     onnx   first = min(fl(fdiv(d, f)), in - 1)
///     nearest_exact   torch  first = min(fl(fmul(fadd(d, 1/2), s)), in - 1)
///                     onnx   first = min(fl(fdiv(fadd(d, 1/2), f)), in - 1)
///     nearest_half_down  first = clamp(rhd(fsub(fdiv(fadd(d, 1/2), f), 1/2)), 0, in - 1), rhd rounding half down
///
/// @param scale  of align_corners only the extents count
/// @pre 1 <= in, out <= largest_resized, 0 <= d < out; by a factor: out = resized_extent(scale, in)
///
/// Source   PyTorch 2 interpolate with a scale_factor; ONNX Runtime 1 Resize with scales
constexpr ResizeTap resize_tap(Resize rule, index_t d, index_t in, index_t out,
                               const ResizeScale& scale = {}) INTQ_NOEXCEPT {
    INTQ_ASSERT(in >= 1 && in <= largest_resized && out <= largest_resized && d >= 0 && d < out);
    const std::int64_t from = in, to = out, at = d;
    if (is_nearest(rule)) {
        const std::int64_t cell = detail::nearest_cell(rule, at, from, to, scale);
        const auto first = static_cast<std::int32_t>(cell < from ? cell : from - 1);
        return {first, first, 0};
    }
    std::int64_t position = 0;
    if (rule == Resize::half_pixel && scale.origin != ResizeOrigin::extents) {
        // Not negative, and exact in binary64: the cast rounds half up.
        position = static_cast<std::int64_t>(static_cast<double>(factor_position(scale, d, in, out)) * 256.0 + 0.5);
    } else if (rule == Resize::half_pixel) {
        position = detail::floor_divide(((2 * at + 1) * from - to) * 128 + to / 2, to);
    } else if (to > 1) {
        position = (at * (from - 1) * 256 + (to - 1) / 2) / (to - 1);
    }
    const std::int64_t last = (from - 1) * 256;
    position = position < 0 ? 0 : position > last ? last : position;
    const auto first = static_cast<std::int32_t>(position >> 8), end = static_cast<std::int32_t>(from - 1);
    return {first, first < end ? first + 1 : end, static_cast<std::int32_t>(position & 255)};
}

/// The cells of output coordinate d for Blend::of_values.
///
///     half_pixel     p = fsub(fdiv(fadd(d, 1/2), f), 1/2) in 0 … in - 1, f the given factor or fdiv(out, in);
///                    a factor of PyTorch's as factor_position() says
///     align_corners  p = fdiv(fmul(d, in - 1), out - 1), 0 where out = 1
///                    first = fl(p),  second = min(first + 1, in - 1),  weight = fsub(p, first), or 1/2 of one cell
///
/// @pre as resize_tap(), of a bilinear rule
///
/// Source   measured against ONNX Runtime 1.32's Resize (docs/arithmetic.md section 4)
constexpr ResizeTap resize_tap_of_values(Resize rule, index_t d, index_t in, index_t out,
                                         const ResizeScale& scale = {}) noexcept {
    float place = 0.0f;
    if (rule == Resize::align_corners) {
        if (out > 1) place = fdiv(fmul(static_cast<float>(d), static_cast<float>(in - 1)), static_cast<float>(out - 1));
    } else if (scale.origin == ResizeOrigin::extents) {
        const float factor = fdiv(static_cast<float>(out), static_cast<float>(in));
        place = factor_position({ResizeOrigin::onnx_factor, static_cast<double>(factor)}, d, in, out);
    } else {
        place = factor_position(scale, d, in, out);
    }
    const auto end = static_cast<std::int32_t>(in - 1);
    const auto cell = static_cast<std::int32_t>(place);
    const std::int32_t first = cell < end ? cell : end, second = first < end ? first + 1 : end;
    const float weight = first == second ? 0.5f : fadd(place, -static_cast<float>(first));
    return {first, second, std::bit_cast<std::int32_t>(weight)};
}

/// Checks grids from anywhere for Blend::of_values.
///
/// @return ok; unsupported of input for other codes than int8 and on a target that does not compute as ONNX; the errors
///         of check_zero_point(), check_output_codes() and check_scale(); scale_out_of_range of scale where a value is
///         no float
constexpr Status check_resize_grids(const PolicyRecord& policy, const ResizeGrids& grids, DType dtype) noexcept {
    constexpr OpKind op = OpKind::interpolate;
    if (dtype != DType::int8 || !policy.computes_as_onnx()) return {StatusCode::unsupported, op, Field::input, 0, 0};
    if (const Status status = check_zero_point(policy, grids.zero_point, dtype, op); !status) return status;
    if (const Status status = check_output_codes(policy, grids.codes, dtype, op); !status) return status;
    if (const Status status = check_scale(grids.s_in, op, Field::input); !status) return status;
    if (const Status status = check_scale(grids.s_out, op, Field::output); !status) return status;
    return is_finite(fmul(512.0f, grids.s_in)) ? Status{}
                                               : Status{StatusCode::scale_out_of_range, op, Field::scale, -1, 0};
}

/// Blend::of_values: the weighted mean of four real numbers, to the grid of the output.
///
///     r(q) = fmul(float(q - zp), s_in)
///     v    = fadd(fadd(fadd(fmul(w_a, r(a)), fmul(w_b, r(b))), fmul(w_c, r(c))), fmul(w_d, r(d)))
///     code = clamp(rhe(fdiv(v, s_out)) + zo)
///
/// with the weights w_a = fmul(1 - x, 1 - y), w_b = fmul(x, 1 - y), w_c = fmul(1 - x, y), w_d = fmul(x, y) of the upper
/// left, upper right, lower left and lower right cell.
template <Lanes L> struct BilinearOfValues {
    typename L::i32 zero_point;
    typename L::f32 s_in, s_out;
    OutputLanes<L> out;

    explicit constexpr BilinearOfValues(const ResizeGrids& grids) noexcept
        : zero_point(L::set(grids.zero_point)),
          s_in(L::set(grids.s_in)),
          s_out(L::set(grids.s_out)),
          out(grids.codes) {}

    /// Of one output pixel.
    struct Weights {
        typename L::f32 a, b, c, d;
    };
    static constexpr Weights weights(const ResizeTap& column, const ResizeTap& row) noexcept {
        const float x = std::bit_cast<float>(column.weight), y = std::bit_cast<float>(row.weight);
        const float left = fadd(1.0f, -x), upper = fadd(1.0f, -y);
        return {L::set(fmul(left, upper)), L::set(fmul(x, upper)), L::set(fmul(left, y)), L::set(fmul(x, y))};
    }
    INTQ_ALWAYS_INLINE constexpr typename L::i32 code(typename L::i32 a, typename L::i32 b, typename L::i32 c,
                                                      typename L::i32 d, const Weights& weights) const noexcept {
        const auto part = [&](typename L::i32 q, typename L::f32 weight) INTQ_ALWAYS_INLINE_LAMBDA {
            return L::mul(weight, L::mul(L::to_f32(L::sub(q, zero_point)), s_in));
        };
        const auto sum =
            L::add(L::add(L::add(part(a, weights.a), part(b, weights.b)), part(c, weights.c)), part(d, weights.d));
        return out.code(L::round_to_i32(L::div(sum, s_out)));
    }
};

/// The mean of four cells, weighted in 256ths along both axes; exact until the one rounding.
///
///     top = a·(256 - x) + b·x,  bottom = c·(256 - x) + d·x,  y = SH_R(top·(256 - y) + bottom·y, 16)
///
/// @param a, b, c, d  int8 or int16 codes: upper left, upper right, lower left, lower right
/// @param x, y        weights of the right and of the lower cells, 0 … 255
///
/// Result   exact: sums and differences may wrap, their result is below 2^31 in magnitude
template <Lanes L>
INTQ_ALWAYS_INLINE constexpr typename L::i32 bilinear(typename L::i32 a, typename L::i32 b, typename L::i32 c,
                                                      typename L::i32 d, typename L::i32 x,
                                                      typename L::i32 y) noexcept {
    const auto eight = L::set(std::int32_t{8});
    const auto mix = [&](auto low, auto high, auto weight) INTQ_ALWAYS_INLINE_LAMBDA {
        return L::add(L::shift_left(low, eight), L::mul(L::sub(high, low), weight));
    };
    const auto sum = mix(mix(a, b, x), mix(c, d, x), y);
    const auto one = L::set(std::int32_t{1});
    return L::shift_right(L::add(L::shift_right(sum, L::set(std::int32_t{15})), one), one);
}

/// The mean of four cells, weighted in 1024ths along both axes, as TFLite rounds it.
///
///     top = a·(1024 - x) + b·x,  bottom = c·(1024 - x) + d·x,  y = rhaz((top·(1024 - y) + bottom·y) / 2^20)
///
/// The sum has up to 35 bits. With top and bottom split at bit 10 it is H·2^10 + R, and for rhaz half is 2^19, less 1
/// where the sum is negative, so y = (H + ((R + half) >> 10)) >> 10 in 32 bits.
///
/// @param a, b, c, d  int8 or int16 codes: upper left, upper right, lower left, lower right
/// @param x, y        weights of the right and of the lower cells, 0 … 1023
///
/// Result   exact
/// Source   measured against LiteRT 2.3's RESIZE_BILINEAR (docs/arithmetic.md section 4)
template <Lanes L>
INTQ_ALWAYS_INLINE constexpr typename L::i32 bilinear_of_1024ths(typename L::i32 a, typename L::i32 b,
                                                                 typename L::i32 c, typename L::i32 d,
                                                                 typename L::i32 x, typename L::i32 y) noexcept {
    const auto ten = L::set(std::int32_t{10});
    const auto mix = [&](auto low, auto high, auto weight) INTQ_ALWAYS_INLINE_LAMBDA {
        return L::add(L::shift_left(low, ten), L::mul(L::sub(high, low), weight));
    };
    const auto top = mix(a, b, x), bottom = mix(c, d, x);
    const auto top_whole = L::shift_right(top, ten), bottom_whole = L::shift_right(bottom, ten);
    const auto whole = mix(top_whole, bottom_whole, y);
    const auto rest =
        mix(L::sub(top, L::shift_left(top_whole, ten)), L::sub(bottom, L::shift_left(bottom_whole, ten)), y);
    const auto sign = L::shift_right(L::add(whole, L::shift_right(rest, ten)), L::set(std::int32_t{31}));
    const auto rounded = L::add(L::add(rest, L::set(std::int32_t{1} << 19)), sign);
    return L::shift_right(L::add(whole, L::shift_right(rounded, ten)), ten);
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_RESIZE_HPP
