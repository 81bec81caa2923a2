// SPDX-License-Identifier: MIT
//
// Functions of one code: tables of 256 entries for int8, of 513 and interpolation for int16. Layer: arith
// (docs/arithmetic.md section 4).
#ifndef INTQ_ARITH_UNARY_HPP
#define INTQ_ARITH_UNARY_HPP

#include <span>

#include "intq/arith/elementwise.hpp"
#include "intq/arith/quantize.hpp"
#include "intq/arith/real_functions.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Entries of the two kinds of table.
inline constexpr std::size_t int8_table_size = 256;
inline constexpr std::size_t int16_table_size = 513;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// The constants of SELU (Klambauer et al. 2017), in whose fixed point means are 0 and variances 1.
inline constexpr double selu_alpha = 1.6732632423543772848, selu_scale = 1.0507009873554804934;

/// Above it softplus is its argument, as PyTorch has it.
inline constexpr double softplus_threshold = 20.0;

/// ln(1 + exp(slope·x))/slope, and x itself where slope·x is above the threshold.
constexpr double softplus(double x, double slope = 1.0) noexcept {
    const double t = dmul(slope, x);
    if (t > softplus_threshold) return x;
    return ((t > 0.0 ? t : 0.0) + real_log1p(real_exp(t > 0.0 ? -t : t))) / slope;
}

/// f(x) in binary64, made of the functions of arith/real_functions.hpp: the same bits on every machine.
///
/// @param slope  elu: its limit; celu: alpha; softplus: beta; leaky_relu: the factor of negative x; hard_sigmoid:
///               6 times the slope between its ends
constexpr double table_function(TableFunction function, double x, double slope = 1.0) noexcept {
    const auto clamp = [](double value, double low, double high) {
        return value < low ? low : value > high ? high : value;
    };
    switch (function) {
        case TableFunction::sigmoid:
            return 1.0 / (1.0 + real_exp(-x));
        case TableFunction::tanh:
            return real_tanh(x);
        case TableFunction::exp:
            return real_exp(x);
        case TableFunction::erf:
            return real_erf(x);
        case TableFunction::gelu_erf:
            return 0.5 * x * (1.0 + real_erf(dmul(x, 0.70710678118654752440)));
        case TableFunction::gelu_tanh:
            return 0.5 * x * (1.0 + real_tanh(dmul(0.79788456080286535588, x + dmul(0.044715 * x * x, x))));
        case TableFunction::silu:
            return x / (1.0 + real_exp(-x));
        case TableFunction::elu:
            return x > 0.0 ? x : slope * real_expm1(x);
        case TableFunction::hard_sigmoid:
            return clamp(x + 3.0 / slope, 0.0, 6.0 / slope) / (6.0 / slope);
        case TableFunction::hard_tanh:
            return clamp(x, -1.0, 1.0);
        case TableFunction::hard_swish:
            return x * clamp(x + 3.0, 0.0, 6.0) / 6.0;
        case TableFunction::softplus:
            return softplus(x, slope);
        case TableFunction::mish:
            return x * real_tanh(softplus(x));
        case TableFunction::selu:
            return selu_scale * (x > 0.0 ? x : selu_alpha * real_expm1(x));
        case TableFunction::celu:
            return x > 0.0 ? x : slope * real_expm1(x / slope);
        case TableFunction::softsign:
            return x / (1.0 + (x < 0.0 ? -x : x));
        case TableFunction::tanhshrink:
            return x - real_tanh(x);
        case TableFunction::abs:
            return x < 0.0 ? -x : x;
        case TableFunction::neg:
            return -x;
        case TableFunction::square:
            return x * x;
        case TableFunction::leaky_relu:
            return x > 0.0 ? x : slope * x;
        case TableFunction::log:
            return real_log(x);
        case TableFunction::sqrt:
            return real_sqrt(x);
        case TableFunction::rsqrt:
            return 1.0 / real_sqrt(x);
        case TableFunction::reciprocal:
            break;
    }
    return 1.0 / x;
}

/// f(x) in binary32 as ONNX Runtime computes it: products, sums and quotients of the operator's definition are each
/// rounded once, and other functions are rounded from binary64.
///
/// @param slope  as of table_function()
constexpr float table_function_in_float32(TableFunction function, float x, double slope = 1.0) noexcept {
    const auto narrow_slope = static_cast<float>(slope);
    const auto clamp = [](float value, float low, float high) {
        return value < low ? low : value > high ? high : value;
    };
    const auto hard_sigmoid = [&](float alpha) { return clamp(fadd(fmul(alpha, x), 0.5f), 0.0f, 1.0f); };
    switch (function) {
        case TableFunction::hard_sigmoid:
            return hard_sigmoid(static_cast<float>(slope / 6.0));
        case TableFunction::hard_swish:
            return fmul(x, hard_sigmoid(1.0f / 6));
        case TableFunction::hard_tanh:
            return clamp(x, -1.0f, 1.0f);
        case TableFunction::leaky_relu:
            return x > 0.0f ? x : fmul(narrow_slope, x);
        case TableFunction::elu:
            return x > 0.0f ? x
                            : fmul(narrow_slope,
                                   static_cast<float>(table_function(TableFunction::elu, static_cast<double>(x))));
        case TableFunction::silu:
            return fmul(x, static_cast<float>(table_function(TableFunction::sigmoid, static_cast<double>(x))));
        case TableFunction::mish:
            return fmul(x, static_cast<float>(real_tanh(softplus(static_cast<double>(x)))));
        case TableFunction::selu:
            return fmul(static_cast<float>(selu_scale),
                        x > 0.0f ? x
                                 : fmul(static_cast<float>(selu_alpha),
                                        static_cast<float>(real_expm1(static_cast<double>(x)))));
        case TableFunction::celu:
            return x > 0.0f
                       ? x
                       : fmul(narrow_slope, static_cast<float>(real_expm1(static_cast<double>(fdiv(x, narrow_slope)))));
        case TableFunction::softsign:
            return fdiv(x, fadd(1.0f, x < 0.0f ? -x : x));
        case TableFunction::square:
            return fmul(x, x);
        case TableFunction::reciprocal:
            return fdiv(1.0f, x);
        default:
            return static_cast<float>(table_function(function, static_cast<double>(x), slope));
    }
}

/// Whether the function is smooth enough at every code for 512 straight pieces.
constexpr bool fits_int16_table(TableFunction function) noexcept { return function < TableFunction::leaky_relu; }

/// clamp(rhu(real / s_out) + zp_out, range); NaN counts as 0, an infinity becomes the end of its side.
inline std::int32_t table_entry(double real, const CodesOf& out, CodeRange range) noexcept {
    const auto zero_point = static_cast<double>(out.zero_point);
    const double low = static_cast<double>(range.quant_min) - zero_point,
                 high = static_cast<double>(range.quant_max) - zero_point;
    const double steps = real / static_cast<double>(out.scale);
    if (steps != steps) return table_entry(0.0, out, range);
    if (steps <= low) return static_cast<std::int32_t>(range.quant_min);
    if (steps >= high) return static_cast<std::int32_t>(range.quant_max);
    return static_cast<std::int32_t>(round_half_up(steps)) + out.zero_point;
}

namespace detail {

constexpr Status check_table(const CodesOf& in, const CodesOf& out, CodeRange range, DType dtype, std::size_t given,
                             std::size_t expected) noexcept {
    constexpr OpKind op = OpKind::none;
    for (const CodesOf* codes : {&in, &out}) {
        const Field field = codes == &in ? Field::input : Field::output;
        if (codes->dtype != dtype)
            return {StatusCode::dtype_mismatch, op, field, static_cast<std::int64_t>(codes->dtype),
                    static_cast<std::int64_t>(dtype)};
        if (const Status status = check_scale(codes->scale, op, field); !status) return status;
        const std::int64_t lowest = dtype == DType::int8 ? INT8_MIN : 0, highest = dtype == DType::int8 ? INT8_MAX : 0;
        if (codes->zero_point < lowest || codes->zero_point > highest)
            return {StatusCode::value_out_of_range,
                    op,
                    Field::zero_point,
                    codes->zero_point,
                    codes->zero_point < lowest ? lowest : highest,
                    field};
    }
    if (range.quant_min < lowest_code(dtype) || range.quant_min > range.quant_max)
        return {StatusCode::value_out_of_range, op, Field::quant_range, range.quant_min, lowest_code(dtype)};
    if (range.quant_max > highest_code(dtype))
        return {StatusCode::value_out_of_range, op, Field::quant_range, range.quant_max, highest_code(dtype)};
    if (given != expected)
        return {StatusCode::shape_mismatch, op, Field::storage, static_cast<std::int64_t>(given),
                static_cast<std::int64_t>(expected)};
    return {};
}

}  // namespace detail

/// The table of any real function of int8 codes.
///
///     entries[x + 128] = clamp(rhu(f(double(x - zp_in) · s_in) / s_out) + zp_out, range)
///
/// @param function  double -> double; NaN counts as 0, infinities become the ends
/// @param entries   256
/// @param range     of the output
/// @return ok; dtype_mismatch of input or output; the errors of check_scale(); value_out_of_range of a zero point that
///         is no code, and of quant_range where it goes beyond the type or leaves the zero point out; shape_mismatch of
///         storage
template <class Function>
Status make_int8_table(const CodesOf& in, const CodesOf& out, std::span<std::int8_t> entries, Function&& function,
                       CodeRange range = {}) noexcept {
    const Status status = detail::check_table(in, out, range, DType::int8, entries.size(), int8_table_size);
    if (!status.ok()) return status;
    for (int x = INT8_MIN; x <= INT8_MAX; ++x)
        entries[static_cast<std::size_t>(x + 128)] = static_cast<std::int8_t>(
            table_entry(function(static_cast<double>(x - in.zero_point) * static_cast<double>(in.scale)), out, range));
    return {};
}

/// The table of any real function of int8 codes as ONNX defines an operator between DequantizeLinear and
/// QuantizeLinear, in binary32.
///
///     entries[x + 128] = clamp(rhe(fdiv(f(fmul(float(x - zp_in), s_in)), s_out)) + zp_out, range)
///
/// @param function  float -> float; NaN counts as 0, infinities become the ends
/// @return as make_int8_table()
template <class Function>
Status make_int8_table_in_float32(const CodesOf& in, const CodesOf& out, std::span<std::int8_t> entries,
                                  Function&& function, CodeRange range = {}) noexcept {
    const Status status = detail::check_table(in, out, range, DType::int8, entries.size(), int8_table_size);
    if (!status.ok()) return status;
    for (int x = INT8_MIN; x <= INT8_MAX; ++x)
        entries[static_cast<std::size_t>(x + 128)] =
            static_cast<std::int8_t>(quantize(function(dequantize(x, {in.scale, in.zero_point})),
                                              {out.scale, out.zero_point}, range, onnx_quantize_rule));
    return {};
}

/// The table of any real function of int16 codes, which have no zero points.
///
///     entries[i] = clamp(rhu(f(double((i - 256) · 128) · s_in) / s_out), range),   i = 0 … 512
///
/// @param entries  513
/// @return as make_int8_table()
template <class Function>
Status make_int16_table(const CodesOf& in, const CodesOf& out, std::span<std::int16_t> entries, Function&& function,
                        CodeRange range = {INT16_MIN, INT16_MAX}) noexcept {
    const Status status = detail::check_table(in, out, range, DType::int16, entries.size(), int16_table_size);
    if (!status.ok()) return status;
    for (int i = 0; i < static_cast<int>(int16_table_size); ++i)
        entries[static_cast<std::size_t>(i)] = static_cast<std::int16_t>(
            table_entry(function(static_cast<double>((i - 256) * 128) * static_cast<double>(in.scale)), out, range));
    return {};
}

/// The same for a named function.
inline Status make_int8_table(TableFunction function, const CodesOf& in, const CodesOf& out,
                              std::span<std::int8_t> entries, double slope = 1.0, CodeRange range = {}) noexcept {
    return make_int8_table(
        in, out, entries, [&](double x) { return table_function(function, x, slope); }, range);
}

/// @return as above, and unsupported naming none for a function that 512 straight pieces do not hold: log, sqrt,
///         rsqrt, reciprocal and leaky_relu
inline Status make_int16_table(TableFunction function, const CodesOf& in, const CodesOf& out,
                               std::span<std::int16_t> entries, double slope = 1.0,
                               CodeRange range = {INT16_MIN, INT16_MAX}) noexcept {
    if (!fits_int16_table(function)) return {StatusCode::unsupported, OpKind::none, Field::none, 0, 0};
    return make_int16_table(
        in, out, entries, [&](double x) { return table_function(function, x, slope); }, range);
}

/// y of int16 codes.
///
///     i = (x >> 7) + 256,  f = x mod 128,  y = T[i] + (((T[i + 1] - T[i]) · f + 64) >> 7)
///
/// @param entries  513, made by make_int16_table()
template <Lanes L>
INTQ_ALWAYS_INLINE constexpr typename L::i32 interpolate_table(const std::int16_t* entries,
                                                               typename L::i32 x) noexcept {
    const auto seven = L::set(std::int32_t{7}), sixteen = L::set(std::int32_t{16});
    const auto whole = L::shift_right(x, seven);
    const auto fraction = L::sub(x, L::shift_left(whole, seven));
    const auto pair = L::gather_pair(entries, L::add(whole, L::set(std::int32_t{256})));
    const auto first = L::shift_right(L::shift_left(pair, sixteen), sixteen), second = L::shift_right(pair, sixteen);
    const auto step = L::add(L::mul(L::sub(second, first), fraction), L::set(std::int32_t{64}));
    return L::add(first, L::shift_right(step, seven));
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_UNARY_HPP
