// SPDX-License-Identifier: MIT
//
// Oracle, part 3: quantize, dequantize and fake-quantize, docs/arithmetic.md section 1.
// Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_QUANTIZE_HPP
#define INTQ_TESTS_REFERENCE_QUANTIZE_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "description.hpp"
#include "rounding.hpp"

namespace intq_reference {

/// Refuses a range that does not bracket 0 or does not fit the type, a zero point outside it, a scale that is none.
/// An unsigned range (0..255) is taken for interop's sake; no target of ours produces one.
inline void refuse_bad_qparams(const QParams& q) {
    if (q.bits != 8 && q.bits != 16 && q.bits != 32) {
        throw Refused("a code has 8, 16 or 32 bits, not " + std::to_string(q.bits));
    }
    const bool signed_range = fits_signed(q.qmin, q.bits) && fits_signed(q.qmax, q.bits);
    const bool unsigned_range = q.qmin >= 0 && q.qmax < power_of_two(q.bits);
    if (q.qmin > 0 || q.qmax < 0 || q.qmin >= q.qmax || !(signed_range || unsigned_range)) {
        throw Refused("quant_min and quant_max must bracket 0 and fit the type");
    }
    if (q.zero_point < q.qmin || q.zero_point > q.qmax) {
        throw Refused("zero point " + std::to_string(q.zero_point) + " is outside the range of the codes");
    }
    if (!(q.scale >= 0x1p-100F) || q.scale > 0x1p126F) {
        throw Refused("a scale must be from 2^-100 to 2^126");
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// qparams from a range

inline float smallest_scale() { return std::ldexp(1.0F, -23); }

inline void refuse_bad_range(float lowest, float highest) {
    if (!std::isfinite(lowest) || !std::isfinite(highest) || lowest > highest) {
        throw Refused("a range must be finite with min <= max");
    }
}

/// s = max(fdiv(max(-min, max, 0), float((qmax - qmin)/2)), 2^-23).
inline float symmetric_scale(float lowest, float highest, std::int64_t qmin, std::int64_t qmax) {
    refuse_bad_range(lowest, highest);
    const float largest = std::fmax(std::fmax(-lowest, highest), 0.0F);
    const float half_range = static_cast<float>(static_cast<double>(qmax - qmin) / 2.0);
    return std::fmax(fdiv(largest, half_range), smallest_scale());
}

/// PyTorch's affine observers: with n = min(min, 0) and p = max(max, 0),
/// scale = max(fdiv(p - n, float(qmax - qmin)), 2^-23), zp = clamp(qmin - rhe(fdiv(n, scale))).
inline QParams affine_qparams(float lowest, float highest, int bits, std::int64_t qmin, std::int64_t qmax) {
    refuse_bad_range(lowest, highest);
    const float n = std::fmin(lowest, 0.0F);
    const float p = std::fmax(highest, 0.0F);
    QParams q{1.0F, 0, bits, qmin, qmax};
    q.scale = std::fmax(fdiv(fadd(p, -n), static_cast<float>(qmax - qmin)), smallest_scale());
    const wide steps = to_wide(round_half_even(static_cast<double>(fdiv(n, q.scale))));
    q.zero_point = to_int64(clamp(qmin - steps, qmin, qmax));
    return q;
}

// ---------------------------------------------------------------------------------------------------------------------
// one value

enum class QuantizeRounding { half_even, half_up };
enum class QuantizeBy { reciprocal, divide };

struct QuantizePolicy {
    QuantizeRounding rounding = QuantizeRounding::half_even;
    QuantizeBy by = QuantizeBy::reciprocal;
};

/// R(x · (1/s)) + zp before clamping; NaN stays NaN.
inline double quantize_unclamped(float x, const QParams& q, const QuantizePolicy& policy) {
    const float steps = policy.by == QuantizeBy::divide ? fdiv(x, q.scale) : fmul(x, fdiv(1.0F, q.scale));
    const double exact = static_cast<double>(steps);
    const double rounded = policy.rounding == QuantizeRounding::half_up ? round_half_up(exact) : round_half_even(exact);
    return rounded + static_cast<double>(q.zero_point);
}

/// q = clamp(R(x · (1/s)) + zp); NaN gives the zero point, +inf qmax, -inf qmin.
inline std::int64_t quantize(float x, const QParams& q, const QuantizePolicy& policy = {}) {
    refuse_bad_qparams(q);
    const double code = quantize_unclamped(x, q, policy);
    if (std::isnan(code)) {
        return q.zero_point;
    }
    if (code <= static_cast<double>(q.qmin)) {
        return q.qmin;
    }
    if (code >= static_cast<double>(q.qmax)) {
        return q.qmax;
    }
    return static_cast<std::int64_t>(code);
}

/// x = fmul(float32(q) - float32(zp), s).
inline float dequantize(std::int64_t code, const QParams& q) {
    refuse_bad_qparams(q);
    return fmul(fadd(to_float32(code), -to_float32(q.zero_point)), q.scale);
}

inline float fake_quantize(float x, const QParams& q, const QuantizePolicy& policy = {}) {
    return dequantize(quantize(x, q, policy), q);
}

/// dx = dy · (qmin <= R(x · (1/s)) + zp <= qmax ? 1 : 0), as PyTorch has it, so a zero keeps the sign of dy;
/// with saturate = false dx = dy everywhere.
inline float fake_quantize_backward(float x, float gradient, const QParams& q, bool saturate,
                                    const QuantizePolicy& policy = {}) {
    refuse_bad_qparams(q);
    const double code = quantize_unclamped(x, q, policy);
    const bool inside = code >= static_cast<double>(q.qmin) && code <= static_cast<double>(q.qmax);
    return !saturate || inside ? gradient : fmul(gradient, 0.0F);
}

// ---------------------------------------------------------------------------------------------------------------------
// many values: element i of a tensor seen as (outer, channels, inner) belongs to channel (i / inner) % channels

inline std::size_t channel_of(std::size_t i, std::size_t channels, std::size_t inner) { return (i / inner) % channels; }

/// @param per_channel  one entry: per tensor; C entries: the channel axis has C members
/// @param inner        number of elements behind the channel axis (1 when it is the last one)
inline std::vector<std::int64_t> quantize(const std::vector<float>& x, const std::vector<QParams>& per_channel,
                                          std::size_t inner, const QuantizePolicy& policy = {}) {
    std::vector<std::int64_t> codes;
    for (std::size_t i = 0; i < x.size(); ++i) {
        codes.push_back(quantize(x[i], per_channel.at(channel_of(i, per_channel.size(), inner)), policy));
    }
    return codes;
}

inline std::vector<float> dequantize(const std::vector<std::int64_t>& codes, const std::vector<QParams>& per_channel,
                                     std::size_t inner) {
    std::vector<float> x;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        x.push_back(dequantize(codes[i], per_channel.at(channel_of(i, per_channel.size(), inner))));
    }
    return x;
}

inline std::vector<float> fake_quantize(const std::vector<float>& x, const std::vector<QParams>& per_channel,
                                        std::size_t inner, const QuantizePolicy& policy = {}) {
    return dequantize(quantize(x, per_channel, inner, policy), per_channel, inner);
}

inline std::vector<float> fake_quantize_backward(const std::vector<float>& x, const std::vector<float>& gradient,
                                                 const std::vector<QParams>& per_channel, std::size_t inner,
                                                 bool saturate, const QuantizePolicy& policy = {}) {
    std::vector<float> result;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const QParams& q = per_channel.at(channel_of(i, per_channel.size(), inner));
        result.push_back(fake_quantize_backward(x[i], gradient.at(i), q, saturate, policy));
    }
    return result;
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_QUANTIZE_HPP
