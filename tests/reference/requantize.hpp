// SPDX-License-Identifier: MIT
//
// Oracle, part 4: the targets and their requantization, docs/arithmetic.md section 2.
// Layer: tests/reference (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_REQUANTIZE_HPP
#define INTQ_TESTS_REFERENCE_REQUANTIZE_HPP

#include <cmath>
#include <cstdint>

#include "fixed_point.hpp"
#include "quantize.hpp"
#include "rounding.hpp"

namespace intq_reference {

// ---------------------------------------------------------------------------------------------------------------------
// targets

enum class ShiftRounding { floor, half_up };  // SH_F, SH_R
enum class BiasRule { int32, int64, int16_with_left_shift };

/// A target as data. The fields below `kind` are the policy table of section 2.3; fp32 and tflite use only those that
/// say so.
struct Target {
    enum class Kind { fp32, tflite_double, tflite_single, bpu };

    Kind kind = Kind::fp32;
    QuantizePolicy quantize;                            // all targets; rounds weights and quantized activations
    int headroom = 30;                                  // all targets; h of section 3, step 0
    BiasRule bias = BiasRule::int32;                    // all targets
    int accumulator_bits = 32;                          // all targets, but tflite with int16 input uses |acc| < 2^47
    int pre_cap = 0;                                    // bpu
    ShiftRounding post_gemm = ShiftRounding::half_up;   // bpu; conv, linear, matmul
    ShiftRounding post_other = ShiftRounding::half_up;  // bpu; everything else
    int widest_activation = 16;                         // bits, 8 or 16
    int widest_weight = 8;                              // bits, 8 or 16
    bool linear_in_binary64 = false;                    // tflite; its linear layers have no multipliers
    bool mul_ratio_in_float32 = false;                  // tflite

    bool is_bpu() const { return kind == Kind::bpu; }
    bool is_tflite() const { return kind == Kind::tflite_double || kind == Kind::tflite_single; }
};

inline Target fp32() {
    Target t;
    t.widest_weight = 16;
    return t;
}

inline Target tflite_double() {
    Target t;
    t.kind = Target::Kind::tflite_double;
    return t;
}

inline Target tflite_single() {
    Target t;
    t.kind = Target::Kind::tflite_single;
    return t;
}

inline Target litert() {
    Target t = tflite_double();
    t.linear_in_binary64 = true;
    t.mul_ratio_in_float32 = true;
    return t;
}

inline Target bernoulli2() {
    Target t;
    t.kind = Target::Kind::bpu;
    t.accumulator_bits = 32;
    t.pre_cap = 31;
    t.post_gemm = ShiftRounding::floor;
    t.bias = BiasRule::int16_with_left_shift;
    t.headroom = 29;
    t.widest_activation = 8;
    return t;
}

inline Target bayes() {
    Target t;
    t.kind = Target::Kind::bpu;
    t.accumulator_bits = 32;
    t.pre_cap = 17;
    t.headroom = 30;
    return t;
}

inline Target meta() {
    Target t;
    t.kind = Target::Kind::bpu;
    t.accumulator_bits = 64;
    t.pre_cap = 47;
    t.bias = BiasRule::int64;
    t.headroom = 46;
    t.widest_weight = 16;
    return t;
}

/// Refuses an activation that the target does not take: its width, and on bpu any zero point or unsigned code.
inline void refuse_activation(const Target& target, const QParams& q) {
    refuse_bad_qparams(q);
    if (q.bits > target.widest_activation) {
        throw Refused("the target takes no activations of " + std::to_string(q.bits) + " bits");
    }
    if (target.is_bpu() && (q.zero_point != 0 || !fits_signed(q.qmax, q.bits))) {
        throw Refused("bpu targets take symmetric signed codes only");
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// bpu

/// What produced the number that is requantized; it chooses PRE and POST.
enum class Role {
    gemm,     // conv, linear, matmul
    element,  // add, sub, mul, sum
    average,  // avg_pool, mean: PRE is SH_R whatever the output
    code      // a narrow code: cat, requantize: no PRE
};

/// The integer parameters of one bpu requantization.
struct BpuRequantize {
    wide multiplier = 0;
    int pre = 0;
    int post = 0;
    ShiftRounding pre_rounding = ShiftRounding::floor;
    ShiftRounding post_rounding = ShiftRounding::half_up;
};

inline BpuRequantize make_bpu_requantize(const Target& target, float s_acc, const QParams& out, Role role) {
    const float r = fdiv(s_acc, out.scale);
    if (!(r > 0.0F) || r >= 32768.0F) {
        throw Refused("bpu: the ratio of scales must be above 0 and below 2^15, got " + std::to_string(r));
    }
    const BpuMultiplier m = make_bpu_multiplier(static_cast<double>(r));
    BpuRequantize result;
    result.multiplier = m.multiplier;
    if (role != Role::code) {
        const int p = out.bits == 8 ? 22 : 14;
        result.pre = static_cast<int>(clamp(m.shift - p, 0, target.pre_cap));
    }
    result.post = static_cast<int>(clamp(m.shift - result.pre, 0, 31));
    const bool pre_half_up = out.bits == 16 || role == Role::average;
    result.pre_rounding = pre_half_up ? ShiftRounding::half_up : ShiftRounding::floor;
    result.post_rounding = role == Role::gemm ? target.post_gemm : target.post_other;
    return result;
}

inline wide shift_right(wide x, int n, ShiftRounding rounding) {
    return rounding == ShiftRounding::floor ? shift_floor(x, n) : shift_half_up(x, n);
}

/// POST(clamp_16(PRE(acc, pre))·M, post), before the clamp to the output.
inline wide apply_bpu_requantize(wide acc, const BpuRequantize& p) {
    const wide a = clamp_bits(shift_right(acc, p.pre, p.pre_rounding), 16);
    return shift_right(a * p.multiplier, p.post, p.post_rounding);
}

/// An accumulator of scale s_acc to a code of `out`, on a bpu target.
inline std::int64_t requantize_bpu(const Target& target, wide acc, float s_acc, const QParams& out, Role role) {
    refuse_activation(target, out);
    return to_int64(
        clamp(apply_bpu_requantize(acc, make_bpu_requantize(target, s_acc, out, role)), out.qmin, out.qmax));
}

// ---------------------------------------------------------------------------------------------------------------------
// fp32 and tflite

/// clamp(rhe(steps) + zp) with the clamp before the conversion; steps is a float32.
inline std::int64_t round_steps(float steps, const QParams& out) {
    const double code = round_half_even(static_cast<double>(steps)) + static_cast<double>(out.zero_point);
    return to_int64(clamp(to_wide(code), out.qmin, out.qmax));
}

/// clamp(rhe(steps)), where steps has the zero point already.
inline std::int64_t round_to_code(float steps, const QParams& out) {
    return to_int64(clamp(to_wide(round_half_even(static_cast<double>(steps))), out.qmin, out.qmax));
}

/// fdiv(fmul(s_in, s_w), s_out) of section 2.1.
inline float fp32_ratio(float s_in, float s_w, const QParams& out) { return fdiv(fmul(s_in, s_w), out.scale); }

/// rhaz(double(acc)·r) of section 2.2: linear layers of litert. What no output type holds may be any such number.
inline wide multiply_in_binary64(wide acc, double r) {
    const volatile double product = static_cast<double>(to_int64(acc)) * r;
    return to_wide(round_half_away(std::fmax(std::fmin(product, 1e15), -1e15)));
}

/// One number times r by section 2.2, on int32, without zero point and clamp.
inline wide multiply_tflite(const Target& target, wide value, double r) {
    if (!fits_signed(value, 32)) {
        throw Refused("tflite: " + to_text(value) + " is outside int32");
    }
    const bool single = target.kind == Target::Kind::tflite_single;
    const TfliteMultiplier m = make_tflite_multiplier(r, single);
    return single ? multiply_single_rounding(value, m) : multiply_double_rounding(value, m);
}

// ---------------------------------------------------------------------------------------------------------------------
// all targets

/// The accumulator of a conv, linear, matmul (or, by Role::element, a product) to a code, bias included, zero point and
/// clamp of the output applied; the clamp of an activation is not.
/// @param in_bits  width of the input codes; 16 chooses tflite's rule for int64 accumulators, so a tflite layer of 16
///                 bits whose sums are int32 says 8
inline std::int64_t requantize_accumulator(const Target& target, wide acc, float s_in, float s_w, int in_bits,
                                           const QParams& out, Role role = Role::gemm) {
    refuse_activation(target, out);
    if (target.is_bpu()) {
        return requantize_bpu(target, acc, fmul(s_in, s_w), out, role);
    }
    if (target.kind == Target::Kind::fp32) {
        return round_steps(fmul(to_float32(acc), fp32_ratio(s_in, s_w, out)), out);
    }
    const double exact = static_cast<double>(s_in) * static_cast<double>(s_w) / static_cast<double>(out.scale);
    const double r =
        target.mul_ratio_in_float32 && role == Role::element ? static_cast<double>(fp32_ratio(s_in, s_w, out)) : exact;
    const wide y = in_bits == 16 && role == Role::gemm
                       ? multiply_int64_accumulator(acc, make_tflite_multiplier(r, false))
                       : multiply_tflite(target, acc, r);
    return to_int64(clamp(y + out.zero_point, out.qmin, out.qmax));
}

/// fp32 with a fused add, section 3 step 3:
/// y = clamp(rhe(fadd(fmul(float32(acc), scale), fmul(float32(e - zp_e), fdiv(s_e, s_out)))) + zp).
inline std::int64_t requantize_fp32_sumin(wide acc, float s_in, float s_w, std::int64_t e, const QParams& e_qparams,
                                          const QParams& out) {
    const float main = fmul(to_float32(acc), fp32_ratio(s_in, s_w, out));
    const float term = fmul(to_float32(wide{e} - e_qparams.zero_point), fdiv(e_qparams.scale, out.scale));
    return round_steps(fadd(main, term), out);
}

/// A code of `in` to a code of `out`: cat and the requantize operator.
inline std::int64_t requantize_code(const Target& target, std::int64_t code, const QParams& in, const QParams& out) {
    refuse_activation(target, in);
    refuse_activation(target, out);
    if (target.is_bpu()) {
        return requantize_bpu(target, code, in.scale, out, Role::code);
    }
    if (target.kind == Target::Kind::fp32) {
        return round_steps(fmul(to_float32(wide{code} - in.zero_point), fdiv(in.scale, out.scale)), out);
    }
    const double r = static_cast<double>(in.scale) / static_cast<double>(out.scale);
    multiply_tflite(target, wide{in.qmin} - in.zero_point, r);  // what leaves int32 is refused for every code alike
    multiply_tflite(target, wide{in.qmax} - in.zero_point, r);
    const wide y = multiply_tflite(target, wide{code} - in.zero_point, r);
    return to_int64(clamp(y + out.zero_point, out.qmin, out.qmax));
}

// ---------------------------------------------------------------------------------------------------------------------
// the clamp of an activation

/// ReLU: lower bound zp. ReLU6: also upper bound min(qmax, zp + rhu(6/s_out)), in double.
inline std::int64_t apply_activation(std::int64_t y, Activation activation, const QParams& out) {
    wide lowest = out.qmin;
    wide highest = out.qmax;
    if (activation != Activation::none) {
        lowest = out.zero_point;
    }
    if (activation == Activation::relu6) {
        const wide six = to_wide(round_half_up(6.0 / static_cast<double>(out.scale)));
        highest = clamp(out.zero_point + six, out.zero_point, out.qmax);
    }
    return to_int64(clamp(y, lowest, highest));
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_REQUANTIZE_HPP
