// SPDX-License-Identifier: MIT
//
// Oracle, part 6: add, sub, mul, relu, cat, requantize, flatten, quantize and dequantize, docs/arithmetic.md section 4.
// Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_ELEMENTWISE_HPP
#define INTQ_TESTS_REFERENCE_ELEMENTWISE_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "requantize.hpp"
#include "weighted.hpp"

namespace intq_reference {

// ---------------------------------------------------------------------------------------------------------------------
// add, sub, mul: one code

/// Integer parameters of the bpu add: acc = (a << shift) + b·coefficient, a being the operand with the larger scale.
struct BpuAdd {
    bool first_is_a = true;
    int shift = 0;
    wide coefficient = 0;
    float s_acc = 0.0F;
};

/// sh = the largest integer, at most 15 (an int16 operand) or 23, with s_b·2^sh <= 32767·s_a;
/// k = rhu(s_b·2^sh / s_a); s_acc = s_a·2^-sh.
inline BpuAdd make_bpu_add(const QParams& x, const QParams& y) {
    BpuAdd result;
    result.first_is_a = x.scale >= y.scale;
    const double s_a = static_cast<double>(result.first_is_a ? x.scale : y.scale);
    const double s_b = static_cast<double>(result.first_is_a ? y.scale : x.scale);
    result.shift = x.bits == 16 || y.bits == 16 ? 15 : 23;
    while (std::ldexp(s_b, result.shift) > 32767.0 * s_a) {
        --result.shift;
    }
    result.coefficient = to_wide(round_half_up(std::ldexp(s_b, result.shift) / s_a));
    result.s_acc = std::ldexp(static_cast<float>(s_a), -result.shift);
    return result;
}

inline std::int64_t add_bpu(const Target& target, std::int64_t x, const QParams& qx, std::int64_t y, const QParams& qy,
                            const QParams& out, bool subtract) {
    const BpuAdd p = make_bpu_add(qx, qy);
    const wide sign = subtract ? -1 : 1;
    const wide first = p.first_is_a ? x * power_of_two(p.shift) : x * p.coefficient;
    const wide second = p.first_is_a ? sign * y * p.coefficient : sign * y * power_of_two(p.shift);
    if (!fits_signed(first + second, 32)) {
        throw std::logic_error("oracle: the accumulator of an add left int32, which section 4 rules out");
    }
    return requantize_bpu(target, first + second, p.s_acc, out, Role::element);
}

/// T = 2·max(s1, s2), L = 20 (an int16 operand: 15); (x - zx)·2^L times s1/T, the same of y, their sum times
/// T/(2^L·s_out), each by section 2.2.
inline wide add_tflite_unclamped(const Target& target, std::int64_t x, const QParams& qx, std::int64_t y,
                                 const QParams& qy, const QParams& out, bool subtract) {
    const double twice = 2.0 * std::max(static_cast<double>(qx.scale), static_cast<double>(qy.scale));
    const int left = qx.bits == 16 || qy.bits == 16 ? 15 : 20;
    const wide scaled_x =
        multiply_tflite(target, (wide{x} - qx.zero_point) * power_of_two(left), static_cast<double>(qx.scale) / twice);
    const wide scaled_y =
        multiply_tflite(target, (wide{y} - qy.zero_point) * power_of_two(left), static_cast<double>(qy.scale) / twice);
    const wide sum = subtract ? scaled_x - scaled_y : scaled_x + scaled_y;
    return multiply_tflite(target, sum, twice / std::ldexp(static_cast<double>(out.scale), left)) + out.zero_point;
}

inline std::int64_t add_tflite(const Target& target, std::int64_t x, const QParams& qx, std::int64_t y,
                               const QParams& qy, const QParams& out, bool subtract) {
    for (const std::int64_t a : {qx.qmin, qx.qmax}) {  // what leaves int32 is refused whatever the codes are
        for (const std::int64_t b : {qy.qmin, qy.qmax}) {
            add_tflite_unclamped(target, a, qx, b, qy, out, subtract);
        }
    }
    return to_int64(clamp(add_tflite_unclamped(target, x, qx, y, qy, out, subtract), out.qmin, out.qmax));
}

/// rhe(x·rx + y·ry + offset), offset = zo - (zx·rx + zy·ry) and r = fdiv(s, so); each operation is rounded to float32.
inline std::int64_t add_fp32(std::int64_t x, const QParams& qx, std::int64_t y, const QParams& qy, const QParams& out,
                             bool subtract) {
    const float rx = fdiv(qx.scale, out.scale);
    const float ry = fdiv(subtract ? -qy.scale : qy.scale, out.scale);
    const float zeros = fadd(fmul(to_float32(wide{qx.zero_point}), rx), fmul(to_float32(wide{qy.zero_point}), ry));
    const float offset = fadd(to_float32(wide{out.zero_point}), -zeros);
    return round_to_code(fadd(fadd(offset, fmul(to_float32(wide{x}), rx)), fmul(to_float32(wide{y}), ry)), out);
}

/// x + y or, with `subtract`, x - y.
inline std::int64_t add_codes(const Target& target, std::int64_t x, const QParams& qx, std::int64_t y,
                              const QParams& qy, const QParams& out, bool subtract) {
    for (const QParams* q : {&qx, &qy, &out}) {
        refuse_activation(target, *q);
    }
    if (target.is_bpu()) {
        return add_bpu(target, x, qx, y, qy, out, subtract);
    }
    if (target.kind == Target::Kind::fp32) {
        return add_fp32(x, qx, y, qy, out, subtract);
    }
    return add_tflite(target, x, qx, y, qy, out, subtract);
}

/// (x - zx)·(y - zy), requantized like an accumulator of scale sx·sy. On fp32 the zero point is added before the value
/// is rounded.
inline std::int64_t mul_codes(const Target& target, std::int64_t x, const QParams& qx, std::int64_t y,
                              const QParams& qy, const QParams& out) {
    refuse_activation(target, qx);
    refuse_activation(target, qy);
    const wide product = (wide{x} - qx.zero_point) * (wide{y} - qy.zero_point);
    if (target.kind == Target::Kind::fp32) {
        refuse_activation(target, out);
        const float steps = fmul(to_float32(product), fp32_ratio(qx.scale, qy.scale, out));
        return round_to_code(fadd(steps, to_float32(wide{out.zero_point})), out);
    }
    return requantize_accumulator(target, product, qx.scale, qy.scale, qx.bits, out, Role::element);
}

// ---------------------------------------------------------------------------------------------------------------------
// whole tensors

enum class Binary { add, sub, mul };

inline Tensor binary(const Target& target, Binary op, const Tensor& x, const QParams& qx, const Tensor& y,
                     const QParams& qy, const QParams& out, Activation activation = Activation::none) {
    if (x.n != y.n || x.c != y.c || x.h != y.h || x.w != y.w) {
        throw std::invalid_argument("oracle: operands of different shapes");
    }
    check_codes(x, qx);
    check_codes(y, qy);
    Tensor result = x;
    for (std::size_t i = 0; i < x.codes.size(); ++i) {
        const std::int64_t code = op == Binary::mul
                                      ? mul_codes(target, x.codes[i], qx, y.codes[i], qy, out)
                                      : add_codes(target, x.codes[i], qx, y.codes[i], qy, out, op == Binary::sub);
        result.codes[i] = apply_activation(code, activation, out);
    }
    return result;
}

/// ReLU and ReLU6 on codes; the scale stays.
inline Tensor activate(const Target& target, const Tensor& x, const QParams& q, Activation activation) {
    refuse_activation(target, q);
    check_codes(x, q);
    Tensor result = x;
    for (std::int64_t& code : result.codes) {
        code = apply_activation(code, activation, q);
    }
    return result;
}

inline Tensor requantize(const Target& target, const Tensor& x, const QParams& in, const QParams& out) {
    check_codes(x, in);
    Tensor result = x;
    for (std::int64_t& code : result.codes) {
        code = requantize_code(target, code, in, out);
    }
    return result;
}

/// Concatenation over channels; each input is requantized to the output's scale.
inline Tensor cat(const Target& target, const std::vector<Tensor>& inputs, const std::vector<QParams>& in,
                  const QParams& out) {
    Tensor result = inputs.at(0);
    result.c = 0;
    for (const Tensor& x : inputs) {
        if (x.n != result.n || x.h != result.h || x.w != result.w) {
            throw std::invalid_argument("oracle: cat needs equal N, H and W");
        }
        result.c += x.c;
    }
    result = make_tensor(result.n, result.c, result.h, result.w);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Tensor x = requantize(target, inputs[i], in.at(i), out);
        for (std::int64_t n = 0; n < x.n; ++n)
            for (std::int64_t c = 0; c < x.c; ++c)
                for (std::int64_t h = 0; h < x.h; ++h)
                    for (std::int64_t w = 0; w < x.w; ++w) {
                        at(result, n, first + c, h, w) = at(x, n, c, h, w);
                    }
        first += x.c;
    }
    return result;
}

/// (N, C, H, W) to (N, C·H·W, 1, 1) in logical order.
inline Tensor flatten(const Tensor& x) {
    Tensor result = x;
    result.c = x.c * x.h * x.w;
    result.h = 1;
    result.w = 1;
    return result;
}

/// Real numbers in the order N, C, H, W.
struct RealTensor {
    std::vector<float> values;
    std::int64_t n = 1;
    std::int64_t c = 1;
    std::int64_t h = 1;
    std::int64_t w = 1;
};

inline Tensor quantize(const Target& target, const RealTensor& x, const QParams& out) {
    refuse_activation(target, out);
    return {quantize(x.values, {out}, 1, target.quantize), x.n, x.c, x.h, x.w};
}

/// @param scale  one entry, or one a channel (an int32 output)
inline RealTensor dequantize(const Tensor& x, const QParams& in, const std::vector<float>& scale) {
    std::vector<QParams> per_channel(scale.size(), in);
    for (std::size_t c = 0; c < scale.size(); ++c) {
        per_channel[c].scale = scale[c];
    }
    return {dequantize(x.codes, per_channel, static_cast<std::size_t>(x.h * x.w)), x.n, x.c, x.h, x.w};
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_ELEMENTWISE_HPP
