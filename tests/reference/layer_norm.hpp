// SPDX-License-Identifier: MIT
//
// Oracle, part 9: layer, RMS and group norm of codes, docs/arithmetic.md section 4. Over the mathematical integers, one
// row at a time. Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_LAYER_NORM_HPP
#define INTQ_TESTS_REFERENCE_LAYER_NORM_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "requantize.hpp"

namespace intq_reference {

/// A layer norm as a model has it: one weight and one bias a feature. An RMS norm is not centered, and its bias is 0.
struct LayerNorm {
    std::vector<float> weight;
    std::vector<float> bias;
    double epsilon = 0.0;
    bool is_centered = true;
    int least_exponent = -1000;  // of one group of a group norm: e of the whole layer
};

/// E = max(1, fl(eps·(n/s_in)² + 1/2)), in double, each operation rounded once.
inline wide layer_norm_epsilon(std::size_t n, float s_in, double epsilon) {
    const volatile double codes = static_cast<double>(n) / static_cast<double>(s_in);
    const volatile double square = codes * codes;
    const volatile double product = epsilon * square;
    const volatile double sum = product + 0.5;
    const wide e = to_wide(std::floor(sum));
    return e < 1 ? 1 : e;
}

/// T[i] = rhu(2^15/sqrt((i + 32.5)/128)): the last t with t - 1/2 <= 2^19/sqrt(k), k = 2i + 65.
inline wide inverse_root_start(wide i) {
    wide t = 0;
    for (wide step = power_of_two(15); step > 0; step /= 2) {
        const wide next = t + step;
        if ((2 * next - 1) * (2 * next - 1) * (2 * i + 65) <= power_of_two(40)) {
            t = next;
        }
    }
    return t;
}

/// About 2^30/sqrt(m/2^32), 2^30 <= m < 2^32.
///
///     r = T[fl(m/2^25) - 32]·2^15, and three times:  q = fl(r²/2^30),  t = fl(q·m/2^32),  r = fl(r·(3·2^30 - t)/2^31)
inline wide inverse_root(wide m) {
    if (m < power_of_two(30) || m >= power_of_two(32)) {
        throw std::invalid_argument("oracle: inverse_root of " + to_text(m));
    }
    wide r = inverse_root_start(shift_floor(m, 25) - 32) * power_of_two(15);
    for (int i = 0; i < 3; ++i) {
        const wide q = shift_floor(r * r, 30);
        const wide t = shift_floor(q * m, 32);
        r = shift_floor(r * (3 * power_of_two(30) - t), 31);
    }
    return r;
}

/// u of one row, d/sqrt(V) in steps of 2^-22. Refused where there are more than 65536 features, or V exceeds 2^63.
///
///     S = sum x or 0, Q = sum x², V = n·Q - S² + E, h the least number with V·4^h >= 2^62, m = fl(V·4^h/2^32)
///     r = inverse_root(m), d = n·x - S, t = rhu(d·2^h/2^9), u = rhu(t·r/2^31)
/// @param x        codes less the zero point
/// @param epsilon  E, at least 1
inline std::vector<wide> normalized(const std::vector<std::int64_t>& x, wide epsilon, bool is_centered = true) {
    const auto n = static_cast<wide>(x.size());
    if (n < 1 || n > 65536) {
        throw Refused("layer_norm: a row has 1 to 65536 features, not " + to_text(n));
    }
    wide sum = 0;
    wide squares = 0;
    for (const std::int64_t value : x) {
        sum += is_centered ? value : 0;
        squares += wide{value} * value;
    }
    const wide v = n * squares - sum * sum + epsilon;
    if (v < 1 || v > power_of_two(63)) {
        throw Refused("layer_norm: V must be 1 to 2^63, got " + to_text(v));
    }
    int h = 0;
    while (v * power_of_two(2 * h) < power_of_two(62)) {
        ++h;
    }
    const wide r = inverse_root(shift_floor(v * power_of_two(2 * h), 32));
    std::vector<wide> result;
    for (const std::int64_t value : x) {
        const wide d = n * value - sum;
        const wide t = shift_half_up(d * power_of_two(h), 9);
        result.push_back(shift_half_up(t * r, 31));
    }
    return result;
}

/// e: 2^e is the least power of two that is no less than any abs(weight) and abs(bias)/256; 0 where all of them are 0.
inline int layer_norm_exponent(const LayerNorm& layer) {
    double largest = 0.0;
    for (const float weight : layer.weight) {
        largest = std::fmax(largest, std::fabs(static_cast<double>(weight)));
    }
    for (const float bias : layer.bias) {
        largest = std::fmax(largest, std::fabs(static_cast<double>(bias)) / 256.0);
    }
    if (!std::isfinite(largest)) {
        throw std::invalid_argument("oracle: layer_norm with weights or biases that are not finite");
    }
    int e = 0;
    while (std::ldexp(1.0, e) < largest) {
        ++e;
    }
    while (largest > 0.0 && std::ldexp(1.0, e - 1) >= largest) {
        --e;
    }
    return e < layer.least_exponent ? layer.least_exponent : e;
}

/// w or b of one feature: rhu(real/2^exponent).
inline wide layer_norm_coefficient(float real, int exponent) {
    return to_wide(round_half_up(std::ldexp(static_cast<double>(real), -exponent)));
}

/// acc of one row, 2^(e - 21) a step: acc = rhu(u·w/2^31) + b, w = rhu(weight/2^(e - 30)), b = rhu(bias/2^(e - 21)).
inline std::vector<wide> layer_norm_accumulators(const std::vector<std::int64_t>& row, const QParams& in,
                                                 const LayerNorm& layer) {
    std::vector<std::int64_t> x;
    for (const std::int64_t code : row) {
        x.push_back(code - in.zero_point);
    }
    const int e = layer_norm_exponent(layer);
    std::vector<wide> result = normalized(x, layer_norm_epsilon(x.size(), in.scale, layer.epsilon), layer.is_centered);
    for (std::size_t i = 0; i < result.size(); ++i) {
        const wide w = layer_norm_coefficient(layer.weight.at(i), e - 30);
        const wide b = layer_norm_coefficient(layer.bias.at(i), e - 21);
        result[i] = shift_half_up(result[i] * w, 31) + b;
    }
    return result;
}

/// The codes of one row: the accumulators at the output's scale, s_acc = 2^(e - 21), by the target's rule for sums of
/// 32 bits, whatever the types of the codes. On bpu it is an operator other than conv and linear; the ratio of litert
/// is in double.
/// @param row  codes of `in`, zero point included
inline std::vector<std::int64_t> layer_norm(const Target& target, const std::vector<std::int64_t>& row,
                                            const QParams& in, const LayerNorm& layer, const QParams& out) {
    refuse_activation(target, in);
    const float s_acc = std::ldexp(1.0F, layer_norm_exponent(layer) - 21);
    std::vector<std::int64_t> result;
    for (const wide acc : layer_norm_accumulators(row, in, layer)) {
        result.push_back(target.is_bpu() ? requantize_bpu(target, acc, s_acc, out, Role::element)
                                         : requantize_accumulator(target, acc, s_acc, 1.0F, 8, out));
    }
    return result;
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_LAYER_NORM_HPP
