// SPDX-License-Identifier: MIT
//
// The tables of TFLite's functions of one code: LOGISTIC, TANH, EXP, LOG, GELU, RSQRT and SQRT. LiteRT makes them in
// float32. Layer: arith (docs/arithmetic.md section 4).
//
// LiteRT calls the C library's expf, logf, erfcf and tanhf, whose last bit is not specified. Where it decides between
// two codes, a table is refused. expf and logf are the nearest float32 but for a few arguments, erfcf and tanhf are
// not.
#ifndef INTQ_ARITH_TFLITE_TABLES_HPP
#define INTQ_ARITH_TFLITE_TABLES_HPP

#include <cstdint>
#include <span>

#include "intq/arith/codes.hpp"
#include "intq/arith/ieee.hpp"
#include "intq/arith/real_functions.hpp"
#include "intq/arith/rounding.hpp"
#include "intq/arith/tflite_functions.hpp"
#include "intq/arith/unary.hpp"
#include "intq/core/op_params.hpp"
#include "intq/core/status.hpp"

namespace intq::arith {
inline namespace INTQ_ABI {

/// How far a C library's function may be from the real one before its result is rounded. For glibc 2.36 the largest
/// distances are 3.9·2^-24 of the value for erfcf and tanhf, 2^-28.6 for logf and less near 0, and 0.002 of a last bit
/// for expf.
///
/// @param value  of the real function
constexpr double tflite_library_error(TableFunction function, double value) noexcept {
    const double size = value < 0.0 ? -value : value;
    const auto smaller = [](double a, double b) { return a < b ? a : b; };
    switch (function) {
        case TableFunction::gelu_erf:
        case TableFunction::gelu_tanh:
        case TableFunction::tanh:
            return dmul(size, 0x1p-22);
        case TableFunction::log:
            return smaller(dmul(size, 0x3p-25), 0x1p-28);
        case TableFunction::exp:
        case TableFunction::sigmoid:  // by exp
            return dmul(size, 0x1p-30);
        default:
            return 0.0;
    }
}

namespace detail {

/// What the C library may give for a real number of its function: the nearest float32, and with a side of -1 or 1 those
/// below and above. The largest number in place of more.
constexpr float library_result(TableFunction function, double value, int side) noexcept {
    const double moved = value + dmul(static_cast<double>(side), tflite_library_error(function, value));
    const double most = 0x1.fffffep127;
    return static_cast<float>(moved > most ? most : moved);
}

/// Distances that no output code has.
constexpr float clamped_steps(float steps) noexcept {
    return steps != steps ? 0.0f : steps < -0x1p20f ? -0x1p20f : steps > 0x1p20f ? 0x1p20f : steps;
}

}  // namespace detail

/// f(x) in float32, each operation rounded once.
///
/// @param function  sigmoid, tanh, exp, log, gelu_erf, gelu_tanh or rsqrt
/// @param side      -1, 0 or 1: the C library's function gives its least, its most likely or its largest number
/// @param end       of log and rsqrt for x <= 0
constexpr float tflite_function(TableFunction function, float x, int side, float end) noexcept {
    const auto result = [&](double value) { return detail::library_result(function, value, side); };
    const auto half = [&](float factor) { return fmul(fmul(0.5f, x), factor); };
    switch (function) {
        case TableFunction::sigmoid:
            return fdiv(1.0f, fadd(1.0f, result(real_exp(-static_cast<double>(x)))));
        case TableFunction::tanh:
            return result(real_tanh(static_cast<double>(x)));
        case TableFunction::exp:
            return result(real_exp(static_cast<double>(x)));
        case TableFunction::log:
            return x > 0.0f ? result(real_log(static_cast<double>(x))) : end;
        case TableFunction::gelu_erf: {
            const auto t = static_cast<double>(fmul(x, -0.70710678118654752440f));
            return half(result(1.0 - real_erf(t)));
        }
        case TableFunction::gelu_tanh: {
            const float cubic = fadd(x, fmul(0.044715f, fmul(fmul(x, x), x)));
            const auto t = static_cast<double>(fmul(0.79788456080286535588f, cubic));
            return half(fadd(1.0f, result(real_tanh(t))));
        }
        default:
            break;
    }
    return x > 0.0f ? fdiv(1.0f, static_cast<float>(real_sqrt(static_cast<double>(x)))) : end;
}

/// The table of sigmoid, tanh, exp, log, gelu_erf or gelu_tanh of int8 codes.
///
///     entries[x + 128] = clamp(rhaz(fmul(f(fmul(float(x - zp_in), s_in)), fdiv(1, s_out))) + zp_out)
///
/// f is the lowest value of the output for a log of 0 and less.
///
/// @return ok; the errors of make_int8_table(); scale_out_of_range of scale for a gelu to a scale below 2^-20;
///         value_out_of_range of output, naming the code, where the last bit of f decides between two codes
inline Status make_tflite_int8_table(TableFunction function, const CodesOf& in, const CodesOf& out,
                                     std::span<std::int8_t> entries) noexcept {
    const Status status =
        detail::check_table(in, out, {INT8_MIN, INT8_MAX}, DType::int8, entries.size(), int8_table_size);
    if (!status.ok()) return status;
    const bool is_gelu = function == TableFunction::gelu_erf || function == TableFunction::gelu_tanh;
    if (is_gelu && out.scale < 0x1p-20f)  // 1 - erf has too few digits
        return {StatusCode::scale_out_of_range, OpKind::lookup_table, Field::scale, 0, 0};
    const float by = fdiv(1.0f, out.scale), lowest = fmul(static_cast<float>(INT8_MIN - out.zero_point), out.scale);
    for (std::int32_t x = INT8_MIN; x <= INT8_MAX; ++x) {
        const float real = fmul(static_cast<float>(x - in.zero_point), in.scale);
        const auto code_of = [&](int side) {
            const float steps = detail::clamped_steps(fmul(tflite_function(function, real, side, lowest), by));
            return detail::clamped(static_cast<std::int64_t>(round_half_away(steps)) + out.zero_point, INT8_MIN,
                                   INT8_MAX);
        };
        const std::int64_t code = code_of(0);
        if (code_of(1) != code || code_of(-1) != code)
            return {StatusCode::value_out_of_range, OpKind::lookup_table, Field::output, x, code};
        entries[static_cast<std::size_t>(x - INT8_MIN)] = static_cast<std::int8_t>(code);
    }
    return {};
}

/// The table of exp, log or rsqrt of int16 codes, which have no zero points; see interpolate_table().
///
///     lo = fmul(-2^15, s_in),  d = fdiv(fadd(fmul(2^15 - 1, s_in), -lo), 512),  x_i = fadd(lo, fmul(i, d))
///     by = fdiv(2^16, fadd(fmul(2^15 - 1, s_out), fmul(2^15, s_out))),  F(x) = fmul(f(x), by)
///     line = rhaz((F(x_(i+1)) + rhaz(F(x_i))) / 2),  bend = rhaz((line - rhaz(F(x_i + d/2))) / 2)
///     entries[i] = clamp(rhaz(F(x_i)) - bend),  i = 0 … 511;  entries[512] = clamp(rhaz(F(fmul(2^15 - 1, s_in))))
///
/// each operation in float32. For x <= 0, f is the lowest value of the output for log and its highest for rsqrt.
///
/// @return ok; the errors of make_int16_table(); value_out_of_range of output, naming the entry, where the last bit of
///         f decides between two entries, or f leaves float32
inline Status make_tflite_int16_table(TableFunction function, const CodesOf& in, const CodesOf& out,
                                      std::span<std::int16_t> entries) noexcept {
    const Status status =
        detail::check_table(in, out, {INT16_MIN, INT16_MAX}, DType::int16, entries.size(), int16_table_size);
    if (!status.ok()) return status;
    const auto rounded = [](float value) { return round_half_away(value); };
    const float first = fmul(-32768.0f, in.scale), last = fmul(32767.0f, in.scale);
    const float step = fdiv(fadd(last, -first), 512.0f), half = fdiv(step, 2.0f);
    const float low = fmul(-32768.0f, out.scale), high = fmul(32767.0f, out.scale);
    const float by = fdiv(65536.0f, fadd(high, -low)), end = function == TableFunction::log ? low : high;
    const auto at = [&](float x, bool is_above) {
        return fmul(tflite_function(function, x, is_above ? 1 : -1, end), by);
    };
    const auto clamped = [](float value) {
        return value < -32768.0f ? -32768.0f : value > 32767.0f ? 32767.0f : value;
    };
    for (std::int32_t i = 0; i < 512; ++i) {
        const float x = fadd(first, fmul(static_cast<float>(i), step));
        const float next_x = fadd(first, fmul(static_cast<float>(i + 1), step));
        float entry = 0.0f;
        for (int off = 0; off < 8; ++off) {  // each of the three values may be above or below
            const float value = at(x, (off & 1) != 0), middle = at(fadd(x, half), (off & 2) != 0),
                        next = at(next_x, (off & 4) != 0);
            const float line = rounded(fdiv(fadd(next, rounded(value)), 2.0f));
            const float bend = rounded(fdiv(fadd(line, -rounded(middle)), 2.0f));
            const float given = clamped(fadd(rounded(value), -bend));
            if (!is_finite(value) || !is_finite(middle) || !is_finite(next) || (off > 0 && given != entry))
                return {StatusCode::value_out_of_range, OpKind::lookup_table, Field::output, i, 0};
            entry = given;
        }
        entries[static_cast<std::size_t>(i)] = static_cast<std::int16_t>(entry);
    }
    const float below = clamped(rounded(at(last, false))), above = clamped(rounded(at(last, true)));
    if (below != above) return {StatusCode::value_out_of_range, OpKind::lookup_table, Field::output, 512, 0};
    entries[512] = static_cast<std::int16_t>(above);
    return {};
}

/// The table of sqrt of int8 codes, with the square root rounded to float32. LiteRT refuses to run on codes below the
/// zero point; here they count as it.
///
///     entries[x + 128] = clamp(trunc(fdiv(fsqrt(fmul(float(x - zp_in), s_in)), s_out)) + zp_out)
///
/// @return ok; the errors of make_int8_table()
inline Status make_tflite_sqrt_table(const CodesOf& in, const CodesOf& out, std::span<std::int8_t> entries) noexcept {
    const Status status =
        detail::check_table(in, out, {INT8_MIN, INT8_MAX}, DType::int8, entries.size(), int8_table_size);
    if (!status.ok()) return status;
    for (std::int32_t x = INT8_MIN; x <= INT8_MAX; ++x) {
        const float real = fmul(static_cast<float>(x > in.zero_point ? x - in.zero_point : 0), in.scale);
        const float root = static_cast<float>(real_sqrt(static_cast<double>(real)));
        const float steps = detail::clamped_steps(fdiv(root, out.scale));
        entries[static_cast<std::size_t>(x - INT8_MIN)] = static_cast<std::int8_t>(
            detail::clamped(static_cast<std::int64_t>(floor(steps)) + out.zero_point, INT8_MIN, INT8_MAX));
    }
    return {};
}

/// The table of rsqrt of int8 codes, in integers. LiteRT refuses to run on codes below the zero point; here they count
/// as it.
///
///     (M, e) = quantize_multiplier(1 / double(fmul(fsqrt(s_in), s_out)))
///     entries[x + 128] = clamp(rhaz(2^20 / sqrt(x - zp_in)) · (M, e - 20) + zp_out),  127 for x = zp_in
///
/// with double rounding.
///
/// @return ok; the errors of make_int8_table(); scale_out_of_range of scale_ratio for an e above 30
inline Status make_tflite_rsqrt_table(const CodesOf& in, const CodesOf& out, std::span<std::int8_t> entries) noexcept {
    const Status status =
        detail::check_table(in, out, {INT8_MIN, INT8_MAX}, DType::int8, entries.size(), int8_table_size);
    if (!status.ok()) return status;
    const float root = static_cast<float>(real_sqrt(static_cast<double>(in.scale)));
    const auto made = quantize_multiplier(1.0 / static_cast<double>(fmul(root, out.scale)));
    if (!made) return made.status();
    if (made->shift > 30)
        return {StatusCode::scale_out_of_range, OpKind::lookup_table, Field::scale_ratio, made->shift, 30};
    for (std::int32_t x = INT8_MIN; x <= INT8_MAX; ++x) {
        std::int64_t code = INT8_MAX;
        if (x > in.zero_point) {
            const double real = 0x1p20 / real_sqrt(static_cast<double>(x - in.zero_point));
            code = scale_code(static_cast<std::int32_t>(round_half_away(real)), {made->multiplier, made->shift - 20});
            code += out.zero_point;
        }
        entries[static_cast<std::size_t>(x - INT8_MIN)] =
            static_cast<std::int8_t>(detail::clamped(code, INT8_MIN, INT8_MAX));
    }
    return {};
}

/// abs of a code, by the factor s_in/s_out in float32, with double rounding; without a factor where the scales are
/// equal.
///
///     clamp(abs(x - zp_in) · quantize_multiplier(fdiv(s_in, s_out)) + zp_out)
///
/// @return the table, or scale_out_of_range of scale_ratio
inline Status make_tflite_abs_table(const CodesOf& in, const CodesOf& out, std::span<std::int8_t> entries) noexcept {
    const Status status =
        detail::check_table(in, out, {INT8_MIN, INT8_MAX}, DType::int8, entries.size(), int8_table_size);
    if (!status.ok()) return status;
    const auto by = detail::signed_multiplier(fdiv(in.scale, out.scale));
    if (!by) return by.status();
    for (std::int32_t x = INT8_MIN; x <= INT8_MAX; ++x) {
        const std::int32_t size = x < in.zero_point ? in.zero_point - x : x - in.zero_point;
        const std::int64_t scaled = in.scale == out.scale ? size : scale_code(size, *by);
        entries[static_cast<std::size_t>(x - INT8_MIN)] =
            static_cast<std::int8_t>(detail::clamped(scaled + out.zero_point, INT8_MIN, INT8_MAX));
    }
    return {};
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_TFLITE_TABLES_HPP
