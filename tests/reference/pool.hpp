// SPDX-License-Identifier: MIT
//
// Oracle, part 7: max_pool and avg_pool, docs/arithmetic.md section 4.
// Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_POOL_HPP
#define INTQ_TESTS_REFERENCE_POOL_HPP

#include <algorithm>
#include <cstdint>
#include <vector>

#include "requantize.hpp"
#include "weighted.hpp"

namespace intq_reference {

struct Pool2d {
    std::int64_t kernel_h = 1, kernel_w = 1;
    std::int64_t stride_h = 1, stride_w = 1;
    std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
    std::int64_t dilation_h = 1, dilation_w = 1;  // max_pool only
    bool count_include_pad = true;                // avg_pool only
};

/// The codes of one window, and how many of its cells lie in the padding.
struct PoolWindow {
    std::vector<std::int64_t> codes;
    std::int64_t padded = 0;
};

inline PoolWindow window_at(const Tensor& x, const Pool2d& p, std::int64_t n, std::int64_t c, std::int64_t row,
                            std::int64_t column) {
    PoolWindow result;
    for (std::int64_t kh = 0; kh < p.kernel_h; ++kh)
        for (std::int64_t kw = 0; kw < p.kernel_w; ++kw) {
            const std::int64_t ih = row * p.stride_h - p.pad_top + kh * p.dilation_h;
            const std::int64_t iw = column * p.stride_w - p.pad_left + kw * p.dilation_w;
            if (ih < 0 || ih >= x.h || iw < 0 || iw >= x.w) {
                ++result.padded;
            } else {
                result.codes.push_back(at(x, n, c, ih, iw));
            }
        }
    if (result.codes.empty()) {
        throw std::invalid_argument("oracle: a window lies wholly in the padding");
    }
    return result;
}

inline Tensor make_pool_output(const Tensor& x, const Pool2d& p) {
    return make_tensor(x.n, x.c, window_count(x.h, p.pad_top + p.pad_bottom, p.dilation_h, p.kernel_h, p.stride_h),
                       window_count(x.w, p.pad_left + p.pad_right, p.dilation_w, p.kernel_w, p.stride_w));
}

/// The largest code of the window; padding is never the largest. The scale stays.
inline Tensor max_pool(const Target& target, const Tensor& x, const QParams& q, const Pool2d& p) {
    refuse_activation(target, q);
    check_codes(x, q);
    Tensor y = make_pool_output(x, p);
    for (std::int64_t n = 0; n < y.n; ++n)
        for (std::int64_t c = 0; c < y.c; ++c)
            for (std::int64_t row = 0; row < y.h; ++row)
                for (std::int64_t column = 0; column < y.w; ++column) {
                    const PoolWindow window = window_at(x, p, n, c, row, column);
                    at(y, n, c, row, column) = *std::max_element(window.codes.begin(), window.codes.end());
                }
    return y;
}

/// TFLite's MEAN of `cells` codes whose sum is `sum`, to any grid, by the rounding of the target.
///
///     (M, e) of double(s_in)/double(s_out);  k = min(floor(log2 cells), 31 + e)
///     (sum - cells·zp)·floor(M·2^k / cells)·2^(e - k - 31) + zo
///
/// Refused where a sum of the lowest or the highest code leaves 32 bits, before or behind the shift to the left.
inline std::int64_t mean_code(const Target& target, wide sum, std::int64_t cells, const QParams& in,
                              const QParams& out) {
    refuse_activation(target, in);
    refuse_activation(target, out);
    const bool single = target.kind == Target::Kind::tflite_single;
    TfliteMultiplier m = make_tflite_multiplier(static_cast<double>(in.scale) / static_cast<double>(out.scale), single);
    int k = 0;
    while (k < 31 + m.shift && power_of_two(k + 1) <= cells) {
        ++k;
    }
    m.multiplier = floor_divide(m.multiplier * power_of_two(k), cells);
    m.shift -= k;
    const auto scaled = [&](wide of) {
        if (!fits_signed(of, 32)) {
            throw Refused("the sum of " + std::to_string(cells) + " codes leaves 32 bits");
        }
        return single ? multiply_single_rounding(of, m) : multiply_double_rounding(of, m);
    };
    for (const std::int64_t code : {in.qmin, in.qmax}) {
        scaled((wide{code} - in.zero_point) * cells);
    }
    return to_int64(clamp(scaled(sum - wide{cells} * in.zero_point) + out.zero_point, out.qmin, out.qmax));
}

/// Whether an average on tflite keeps the grid, and so divides codes.
inline bool keeps_grid(const QParams& in, const QParams& out) {
    return !(in.scale < out.scale) && !(in.scale > out.scale) && in.zero_point == out.zero_point;
}

/// The mean of `cells` codes whose sum is `sum`.
///
///     bpu     requantize(sum, s_acc = fdiv(s_in, float32(cells)))
///     fp32    rhe(fmul(float32(sum - cells·zp), fdiv(s_in, fmul(float32(cells), s_out)))) + zo
///     tflite  sum / cells, half away from zero; scale and zero point stay
///
/// Refused where cells·|qmin| leaves the accumulator.
inline std::int64_t average_code(const Target& target, wide sum, std::int64_t cells, const QParams& in,
                                 const QParams& out) {
    refuse_activation(target, in);
    refuse_activation(target, out);
    if (!fits_signed(wide{cells} * in.qmin, target.accumulator_bits)) {
        throw Refused("the sum of " + std::to_string(cells) + " codes leaves the accumulator");
    }
    if (target.is_bpu()) {
        return requantize_bpu(target, sum, fdiv(in.scale, to_float32(cells)), out, Role::average);
    }
    if (target.kind == Target::Kind::fp32) {
        const float ratio = fdiv(in.scale, fmul(to_float32(cells), out.scale));
        return round_steps(fmul(to_float32(sum - wide{cells} * in.zero_point), ratio), out);
    }
    if (!keeps_grid(in, out)) {
        throw Refused("tflite avg_pool with padding keeps scale and zero point");
    }
    return to_int64(clamp(divide_half_away(sum, cells), out.qmin, out.qmax));
}

/// ONNX Runtime's QLinearAveragePool: the real numbers of the cells, in float32, one after the other.
///
///     rhe(fadd(fdiv(fdiv(sum of fmul(float32(q - zp), s_in), float32(cells)), s_out), float32(zo)))
inline std::int64_t average_of_values(const std::vector<std::int64_t>& codes, std::int64_t cells, const QParams& in,
                                      const QParams& out) {
    float sum = 0.0F;
    for (const std::int64_t code : codes) {
        sum = fadd(sum, fmul(to_float32(wide{code} - in.zero_point), in.scale));
    }
    const float steps = fdiv(fdiv(sum, to_float32(wide{cells})), out.scale);
    return round_to_code(fadd(steps, to_float32(wide{out.zero_point})), out);
}

/// @pre  bpu counts padding and tflite does not; the other value of count_include_pad is refused where there is padding
/// @param is_mean    tflite: MEAN's rule, which an output of another grid has without padding, to the same grid as well
/// @param of_values  fp32: by average_of_values()
inline Tensor avg_pool(const Target& target, const Tensor& x, const QParams& in, const QParams& out, const Pool2d& p,
                       bool is_mean = false, bool of_values = false) {
    check_codes(x, in);
    if (p.dilation_h != 1 || p.dilation_w != 1) {
        throw std::invalid_argument("oracle: avg_pool has no dilation");
    }
    const bool has_padding = p.pad_top + p.pad_left + p.pad_bottom + p.pad_right > 0;
    if (has_padding && ((target.is_bpu() && !p.count_include_pad) || (target.is_tflite() && p.count_include_pad))) {
        throw Refused("avg_pool: the target's rule for padding is the other one");
    }
    const bool requantizes = target.is_tflite() && !has_padding && (is_mean || !keeps_grid(in, out));
    Tensor y = make_pool_output(x, p);
    for (std::int64_t n = 0; n < y.n; ++n)
        for (std::int64_t c = 0; c < y.c; ++c)
            for (std::int64_t row = 0; row < y.h; ++row)
                for (std::int64_t column = 0; column < y.w; ++column) {
                    const PoolWindow window = window_at(x, p, n, c, row, column);
                    const std::int64_t counted = p.count_include_pad ? window.padded : 0;
                    wide sum = wide{counted} * in.zero_point;
                    for (const std::int64_t code : window.codes) {
                        sum += code;
                    }
                    const auto cells = static_cast<std::int64_t>(window.codes.size()) + counted;
                    at(y, n, c, row, column) = of_values     ? average_of_values(window.codes, cells, in, out)
                                               : requantizes ? mean_code(target, sum, cells, in, out)
                                                             : average_code(target, sum, cells, in, out);
                }
    return y;
}

/// avg_pool over all of H and W.
inline Tensor global_avg_pool(const Target& target, const Tensor& x, const QParams& in, const QParams& out) {
    Pool2d p;
    p.kernel_h = x.h;
    p.kernel_w = x.w;
    return avg_pool(target, x, in, out, p);
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_POOL_HPP
