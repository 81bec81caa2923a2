// SPDX-License-Identifier: MIT
//
// Oracle, part 5: convolution and linear, docs/arithmetic.md section 3, steps 0 to 5.
// Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_WEIGHTED_HPP
#define INTQ_TESTS_REFERENCE_WEIGHTED_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "description.hpp"
#include "requantize.hpp"

namespace intq_reference {

inline Tensor make_tensor(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t value = 0) {
    if (n < 0 || c < 0 || h < 0 || w < 0) {
        throw std::invalid_argument("oracle: a negative extent");
    }
    return {std::vector<std::int64_t>(static_cast<std::size_t>(n * c * h * w), value), n, c, h, w};
}

/// The oracle's own precondition: codes that the qparams allow, as many as the shape says.
inline void check_codes(const Tensor& t, const QParams& q) {
    if (t.codes.size() != static_cast<std::size_t>(t.n * t.c * t.h * t.w)) {
        throw std::invalid_argument("oracle: shape and number of codes differ");
    }
    for (const std::int64_t code : t.codes) {
        if (code < q.qmin || code > q.qmax) {
            throw std::invalid_argument("oracle: code " + std::to_string(code) + " is outside its range");
        }
    }
}

/// The scale of weights by section 1: max(|w|) over the tensor, or over each output channel.
inline std::vector<float> weight_scales(const Weights& w, bool per_channel) {
    const std::size_t channels = per_channel ? static_cast<std::size_t>(w.out_channels) : 1;
    const std::size_t size = w.real.size() / channels;
    std::vector<float> scales;
    for (std::size_t c = 0; c < channels; ++c) {
        float lowest = 0.0F;
        float highest = 0.0F;
        for (std::size_t i = c * size; i < (c + 1) * size; ++i) {
            lowest = std::fmin(lowest, w.real.at(i));
            highest = std::fmax(highest, w.real.at(i));
        }
        scales.push_back(symmetric_scale(lowest, highest, w.qmin, w.qmax));
    }
    return scales;
}

/// Everything that steps 0 to 4 fix before any input is seen; one entry a channel but for `codes`.
struct MadeWeights {
    std::vector<float> scale;          // after step 0
    std::vector<float> s_acc;          // step 1
    std::vector<std::int64_t> codes;   // O, I, KH, KW
    std::vector<std::int64_t> bias;    // step 2; what is added, so after bernoulli2's (B >> ls) << ls
    std::vector<int> bias_shift;       // step 2; ls of bernoulli2, else 0
    std::vector<BpuMultiplier> sumin;  // step 3; bpu with a fused add only
    std::vector<wide> lowest;          // step 4; of the accumulator
    std::vector<wide> highest;
};

/// The target for the weights of a layer: fp32 has sums of 2^53 at most, and bias codes of 64 bits, where both operands
/// have 16.
inline Target target_of_layer(const Target& target, const WeightedLayer& layer) {
    Target result = target;
    if (target.kind == Target::Kind::fp32 && layer.in.bits == 16 && layer.weights.bits == 16) {
        result.accumulator_bits = 54;
        result.bias = BiasRule::int64;
        result.headroom = 46;
    }
    return result;
}

// ---------------------------------------------------------------------------------------------------------------------
// steps 0 to 4

/// s_w[c] = max(s_w[c], (|b_c| + |qmin_e|·s_e) / (2^h·s_in)), in double, rounded up to float32;
/// a per-tensor scale takes the maximum over the channels.
inline std::vector<float> raise_scales(const Target& given, const WeightedLayer& layer) {
    const Target target = target_of_layer(given, layer);
    std::vector<float> scale = layer.weights.scale;
    double sumin_term = 0.0;
    if (layer.sumin && target.kind != Target::Kind::fp32) {
        sumin_term = std::fabs(static_cast<double>(layer.sumin->qmin)) * static_cast<double>(layer.sumin->scale);
    }
    for (std::size_t c = 0; c < static_cast<std::size_t>(layer.weights.out_channels); ++c) {
        const double bias = layer.weights.bias_real.empty() ? 0.0 : static_cast<double>(layer.weights.bias_real.at(c));
        const double room = std::ldexp(static_cast<double>(layer.in.scale), target.headroom);
        const double needed = (std::fabs(bias) + sumin_term) / room;
        float& s = scale.at(scale.size() == 1 ? 0 : c);
        if (needed > static_cast<double>(s)) {
            s = to_float32_rounded_up(needed);
        }
    }
    return scale;
}

/// Step 2. @return the code that is added, and through `shift` bernoulli2's left shift
inline std::int64_t make_bias(const Target& target, float bias, float s_in, float s_w, int& shift) {
    const double unit = static_cast<double>(s_in) * static_cast<double>(s_w);
    const wide code = to_wide(round_half_up(static_cast<double>(bias) / unit));
    shift = 0;
    const bool fits = target.bias == BiasRule::int16_with_left_shift
                          ? bit_length(code) <= 30
                          : fits_signed(code, target.bias == BiasRule::int64 ? 64 : 32);
    if (!fits) {
        throw Refused("bias code " + to_text(code) + " is outside the target's bias type");
    }
    if (target.bias != BiasRule::int16_with_left_shift) {
        return to_int64(code);
    }
    shift = std::max(0, bit_length(code) - 15);
    return to_int64(shift_floor(code, shift) * power_of_two(shift));
}

/// Step 3 on bpu: SH_R(e·k, min(n, 31)) for n >= 0, e·k·2^-n otherwise.
inline wide sumin_term(std::int64_t e, const BpuMultiplier& m) {
    const wide product = e * m.multiplier;
    return m.shift >= 0 ? shift_half_up(product, std::min(m.shift, 31)) : product * power_of_two(-m.shift);
}

/// k and n of step 3; refused where |qmin_e|·rho >= 2^31 (64-bit accumulator: 2^47).
inline BpuMultiplier make_sumin(const Target& target, const QParams& e, float s_in, float s_w) {
    const double rho = static_cast<double>(e.scale) / (static_cast<double>(s_in) * static_cast<double>(s_w));
    const double limit = std::ldexp(1.0, target.accumulator_bits == 64 ? 47 : 31);
    if (!(std::fabs(static_cast<double>(e.qmin)) * rho < limit)) {
        throw Refused("sumin: the operand's largest value leaves the accumulator");
    }
    return make_bpu_multiplier(rho);
}

inline void refuse_weighted_layer(const Target& target, const WeightedLayer& layer) {
    const Weights& w = layer.weights;
    const auto channels = static_cast<std::size_t>(w.out_channels);
    const std::size_t given = w.real.empty() ? w.codes.size() : w.real.size();
    const bool bias_ok = (w.bias_real.empty() || w.bias_real.size() == channels) &&
                         (w.bias_codes.empty() || w.bias_codes.size() == channels) &&
                         (w.bias_real.empty() || w.bias_codes.empty()) && (w.bias_codes.empty() || w.real.empty());
    const bool shape_ok = given == channels * static_cast<std::size_t>(w.in_channels * w.kernel_h * w.kernel_w);
    const bool one_form = w.real.empty() != w.codes.empty();
    if (!one_form || !shape_ok || !bias_ok || (w.scale.size() != 1 && w.scale.size() != channels)) {
        throw std::invalid_argument("oracle: inconsistent description of weights");
    }
    for (const std::int64_t code : w.codes) {
        if (code < w.qmin || code > w.qmax) {
            throw std::invalid_argument("oracle: a given weight code is outside its range");
        }
    }
    refuse_activation(target, layer.in);
    if (layer.out.bits != 32) {
        refuse_activation(target, layer.out);
    }
    if (w.bits > target.widest_weight) {
        throw Refused("the target takes no weights of " + std::to_string(w.bits) + " bits");
    }
    if (layer.sumin) {
        if (target.is_tflite()) {
            throw Refused("tflite has no fused add");
        }
        if (target.kind == Target::Kind::fp32 && layer.out.bits == 32) {
            throw Refused("fp32: the fused add is not in the accumulator, so there is no int32 output");
        }
        refuse_activation(target, *layer.sumin);
    }
}

/// Whether the layer's sums are requantized in binary64.
inline bool is_in_binary64(const Target& target, const WeightedLayer& layer) {
    return target.linear_in_binary64 && layer.is_linear;
}

/// Whether tflite's rule for int64 accumulators holds.
inline bool has_wide_sums(const Target& target, const WeightedLayer& layer) {
    return !is_in_binary64(target, layer) && target.is_tflite() && layer.in.bits == 16 && !layer.has_int32_bias;
}

/// An accumulator of channel c to a code, from scales or by what is given.
inline std::int64_t requantize_channel(const Target& target, const WeightedLayer& layer, const MadeWeights& made,
                                       std::size_t c, wide acc) {
    const bool wide_sums = has_wide_sums(target, layer);
    if (is_in_binary64(target, layer)) {
        if (layer.given) {
            throw Refused("no multiplier in binary64");
        }
        const double r = static_cast<double>(layer.in.scale) * static_cast<double>(made.scale[c]) /
                         static_cast<double>(layer.out.scale);
        return to_int64(clamp(multiply_in_binary64(acc, r) + layer.out.zero_point, layer.out.qmin, layer.out.qmax));
    }
    if (!layer.given) {
        return requantize_accumulator(target, acc, layer.in.scale, made.scale[c], wide_sums ? 16 : 8, layer.out);
    }
    if (!target.is_tflite()) {
        throw Refused("only tflite takes multipliers");
    }
    const auto& multipliers = layer.given->multipliers;
    const std::size_t at = multipliers.size() == 1 ? 0 : c;
    const TfliteMultiplier m{multipliers.at(at), layer.given->shifts.at(at)};
    if (m.multiplier < 0 || m.shift < -31 || m.shift > 30) {
        throw Refused("a multiplier below 0, or a shift outside -31..30");
    }
    const wide y = wide_sums                                    ? multiply_int64_accumulator(acc, m)
                   : target.kind == Target::Kind::tflite_single ? multiply_single_rounding(acc, m)
                                                                : multiply_double_rounding(acc, m);
    return to_int64(clamp(y + layer.out.zero_point, layer.out.qmin, layer.out.qmax));
}

/// What requantizing can refuse before any input is seen.
inline void refuse_requantization(const Target& target, const WeightedLayer& layer, const MadeWeights& made,
                                  std::size_t c) {
    if (layer.out.bits == 32) {
        if (!fits_signed(made.lowest[c], 32) || !fits_signed(made.highest[c], 32)) {
            throw Refused("the accumulator " + to_text(made.lowest[c]) + ".." + to_text(made.highest[c]) +
                          " does not fit the int32 output");
        }
        return;
    }
    for (const wide acc : {made.lowest[c], made.highest[c]}) {
        requantize_channel(target, layer, made, c, acc);
    }
}

/// Steps 0 to 4.
inline MadeWeights make_weights(const Target& given, const WeightedLayer& layer) {
    const Target target = target_of_layer(given, layer);
    refuse_weighted_layer(target, layer);
    const Weights& w = layer.weights;
    const auto channels = static_cast<std::size_t>(w.out_channels);
    MadeWeights made;
    made.scale = w.real.empty() ? w.scale : raise_scales(target, layer);
    if (made.scale.size() == 1) {
        made.scale.assign(channels, made.scale.front());
    }
    made.codes = w.codes;
    const std::size_t size = static_cast<std::size_t>(w.in_channels * w.kernel_h * w.kernel_w);
    for (std::size_t i = 0; i < w.real.size(); ++i) {
        const QParams q{made.scale[i / size], 0, w.bits, w.qmin, w.qmax};
        made.codes.push_back(quantize(w.real[i], q, target.quantize));
    }
    const bool wide_tflite = has_wide_sums(target, layer);
    for (std::size_t c = 0; c < channels; ++c) {
        made.s_acc.push_back(fmul(layer.in.scale, made.scale[c]));
        int shift = 0;
        std::int64_t bias = w.bias_codes.empty() ? 0 : w.bias_codes[c];
        if (!w.bias_real.empty()) {
            bias = make_bias(target, w.bias_real[c], layer.in.scale, made.scale[c], shift);
        }
        made.bias.push_back(bias);
        made.bias_shift.push_back(shift);
        wide lowest = bias;
        wide highest = bias;
        for (std::size_t i = c * size; i < (c + 1) * size; ++i) {
            const wide one = (wide{layer.in.qmin} - layer.in.zero_point) * made.codes[i];
            const wide other = (wide{layer.in.qmax} - layer.in.zero_point) * made.codes[i];
            lowest += std::min(one, other);
            highest += std::max(one, other);
        }
        if (layer.sumin && target.is_bpu()) {
            made.sumin.push_back(make_sumin(target, *layer.sumin, layer.in.scale, made.scale[c]));
            lowest += sumin_term(layer.sumin->qmin, made.sumin[c]);
            highest += sumin_term(layer.sumin->qmax, made.sumin[c]);
        }
        made.lowest.push_back(lowest);
        made.highest.push_back(highest);
        const bool wide_binary64 = is_in_binary64(target, layer) && layer.in.bits == 16;
        const int bits = wide_tflite                                           ? 48
                         : wide_binary64                                       ? 64
                         : layer.wide_sum && target.kind == Target::Kind::fp32 ? 54
                                                                               : target.accumulator_bits;
        if (!fits_signed(lowest, bits) || !fits_signed(highest, bits)) {
            throw Refused("output channel " + std::to_string(c) + ": worst case " + to_text(lowest) + ".." +
                          to_text(highest) + " leaves the accumulator of " + std::to_string(bits) + " bits");
        }
        refuse_requantization(target, layer, made, c);
    }
    return made;
}

// ---------------------------------------------------------------------------------------------------------------------
// step 5 and the loops

/// One output code from sum (x - zp)·w.
/// @param e  the code of the fused add's operand; read only when the layer has one
inline std::int64_t finish_accumulator(const Target& target, const WeightedLayer& layer, const MadeWeights& made,
                                       std::size_t c, wide sum, std::int64_t e) {
    wide acc = sum + made.bias[c];
    if (layer.sumin && target.is_bpu()) {
        acc += sumin_term(e, made.sumin[c]);
    }
    if (acc < made.lowest[c] || acc > made.highest[c]) {
        throw std::logic_error("oracle: an accumulator left its proven bound");
    }
    if (layer.out.bits == 32) {
        QParams q = int32();
        q.scale = made.s_acc[c];
        return apply_activation(to_int64(acc), layer.activation, q);
    }
    const std::int64_t y = layer.sumin && !target.is_bpu()
                               ? requantize_fp32_sumin(acc, layer.in.scale, made.scale[c], e, *layer.sumin, layer.out)
                               : requantize_channel(target, layer, made, c, acc);
    if (layer.bounds) {
        return to_int64(clamp(y, layer.bounds->lowest, layer.bounds->highest));
    }
    return apply_activation(y, layer.activation, layer.out);
}

/// Output extent of a window: floor((size + padding - dilation·(kernel - 1) - 1) / stride) + 1.
inline std::int64_t window_count(std::int64_t size, std::int64_t padding, std::int64_t dilation, std::int64_t kernel,
                                 std::int64_t stride) {
    const std::int64_t span = size + padding - dilation * (kernel - 1) - 1;
    if (span < 0 || stride < 1 || dilation < 1 || kernel < 1) {
        throw std::invalid_argument("oracle: the window does not fit its input");
    }
    return span / stride + 1;
}

inline void check_operands(const WeightedLayer& layer, const Tensor& x, const Tensor& y, const Tensor* e) {
    check_codes(x, layer.in);
    if ((e != nullptr) != layer.sumin.has_value()) {
        throw std::invalid_argument("oracle: a fused add needs its operand, and only it");
    }
    if (e != nullptr) {
        check_codes(*e, *layer.sumin);
        if (e->n != y.n || e->c != y.c || e->h != y.h || e->w != y.w) {
            throw std::invalid_argument("oracle: the operand of the fused add has another shape than the output");
        }
    }
}

/// Padding is the real number 0, that is the code zp, and so adds nothing to sum (x - zp)·w.
inline Tensor conv2d(const Target& target, const WeightedLayer& layer, const Tensor& x, const Tensor* e = nullptr) {
    const Weights& w = layer.weights;
    if (x.c != w.in_channels * layer.groups || w.out_channels % layer.groups != 0) {
        throw std::invalid_argument("oracle: channels, groups and weights do not agree");
    }
    const MadeWeights made = make_weights(target, layer);
    const std::int64_t height =
        window_count(x.h, layer.pad_top + layer.pad_bottom, layer.dilation_h, w.kernel_h, layer.stride_h);
    const std::int64_t width =
        window_count(x.w, layer.pad_left + layer.pad_right, layer.dilation_w, w.kernel_w, layer.stride_w);
    Tensor y = make_tensor(x.n, w.out_channels, height, width);
    check_operands(layer, x, y, e);
    const Tensor weight{made.codes, w.out_channels, w.in_channels, w.kernel_h, w.kernel_w};
    const std::int64_t per_group = w.out_channels / layer.groups;
    for (std::int64_t n = 0; n < y.n; ++n)
        for (std::int64_t o = 0; o < y.c; ++o)
            for (std::int64_t row = 0; row < y.h; ++row)
                for (std::int64_t column = 0; column < y.w; ++column) {
                    wide sum = 0;
                    for (std::int64_t i = 0; i < w.in_channels; ++i)
                        for (std::int64_t kh = 0; kh < w.kernel_h; ++kh)
                            for (std::int64_t kw = 0; kw < w.kernel_w; ++kw) {
                                const std::int64_t ih = row * layer.stride_h - layer.pad_top + kh * layer.dilation_h;
                                const std::int64_t iw =
                                    column * layer.stride_w - layer.pad_left + kw * layer.dilation_w;
                                if (ih < 0 || ih >= x.h || iw < 0 || iw >= x.w) {
                                    continue;
                                }
                                const std::int64_t channel = (o / per_group) * w.in_channels + i;
                                sum += wide{at(x, n, channel, ih, iw) - layer.in.zero_point} * at(weight, o, i, kh, kw);
                            }
                    const std::int64_t operand = e != nullptr ? at(*e, n, o, row, column) : 0;
                    at(y, n, o, row, column) =
                        finish_accumulator(target, layer, made, static_cast<std::size_t>(o), sum, operand);
                }
    return y;
}

/// y[n][o] from x[n][i]; h and w are 1 (see flatten).
inline Tensor linear(const Target& target, const WeightedLayer& layer, const Tensor& x, const Tensor* e = nullptr) {
    const Weights& w = layer.weights;
    if (x.c != w.in_channels || x.h != 1 || x.w != 1 || w.kernel_h != 1 || w.kernel_w != 1) {
        throw std::invalid_argument("oracle: linear needs (N, features) and weights (O, features)");
    }
    const MadeWeights made = make_weights(target, layer);
    Tensor y = make_tensor(x.n, w.out_channels, 1, 1);
    check_operands(layer, x, y, e);
    for (std::int64_t n = 0; n < y.n; ++n)
        for (std::int64_t o = 0; o < y.c; ++o) {
            wide sum = 0;
            for (std::int64_t i = 0; i < x.c; ++i) {
                const std::int64_t code = made.codes.at(static_cast<std::size_t>(o * x.c + i));
                sum += wide{at(x, n, i, 0, 0) - layer.in.zero_point} * code;
            }
            const std::int64_t operand = e != nullptr ? at(*e, n, o, 0, 0) : 0;
            at(y, n, o, 0, 0) = finish_accumulator(target, layer, made, static_cast<std::size_t>(o), sum, operand);
        }
    return y;
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_WEIGHTED_HPP
