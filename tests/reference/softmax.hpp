// SPDX-License-Identifier: MIT
//
// Oracle, part 8: softmax of codes, docs/arithmetic.md section 4. Layer: tests/reference
// (docs/design.md section 9).
#ifndef INTQ_TESTS_REFERENCE_SOFTMAX_HPP
#define INTQ_TESTS_REFERENCE_SOFTMAX_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "requantize.hpp"

namespace intq_reference {

/// The probabilities of one row of codes, 2^-15 a code.
///
///     d = max - x, E[d] = min(rhu(2^15·exp(-d·s_in)), 32767), E2[d] = rhu(2^31·exp(-d·s_in)), S = sum E2,
///     n = bitlen(S), S16 = S >> (n-16), R = fl((2^30 + fl(S16/2))/S16), p = clamp(SH_R(E·R, n-17), 0, 32767)
inline std::vector<std::int64_t> softmax_probabilities(const std::vector<std::int64_t>& row, float scale) {
    const std::int64_t largest = *std::max_element(row.begin(), row.end());
    const auto exponential = [&](std::int64_t x) {
        return std::exp(-static_cast<double>(largest - x) * static_cast<double>(scale));
    };
    wide sum = 0;
    for (const std::int64_t x : row) {
        sum += static_cast<wide>(std::floor(2147483648.0 * exponential(x) + 0.5));
    }
    int n = 0;
    while ((sum >> n) != 0) {
        ++n;
    }
    const wide s16 = sum / power_of_two(n - 16);
    const wide r = (power_of_two(30) + s16 / 2) / s16;
    std::vector<std::int64_t> result;
    for (const std::int64_t x : row) {
        const wide e = std::min<wide>(static_cast<wide>(std::floor(32768.0 * exponential(x) + 0.5)), 32767);
        const wide p = (2 * e * r + power_of_two(n - 17)) / (2 * power_of_two(n - 17));  // nothing is negative
        result.push_back(static_cast<std::int64_t>(std::min<wide>(p, 32767)));
    }
    return result;
}

/// The accumulators of one row of int16 codes, 2^-30 each.
///
///     d = max - x = 256·h + l, e = SH_R(rhu(2^31·exp(-256·h·s_in))·rhu(2^31·exp(-l·s_in)), 31), S = sum e,
///     n = bitlen(S), R = fl(2^62 / (S >> (n-32))), acc = SH_R(e·R, n)
inline std::vector<std::int64_t> int16_softmax_accumulators(const std::vector<std::int64_t>& row, float scale) {
    const std::int64_t largest = *std::max_element(row.begin(), row.end());
    const auto table = [&](std::int64_t d) {
        const long double exponential = std::exp(-static_cast<long double>(d) * static_cast<long double>(scale));
        return static_cast<wide>(std::floor(2147483648.0L * exponential + 0.5L));
    };
    const auto round_down = [](wide x, int bits) {
        return floor_divide(x + power_of_two(bits - 1), power_of_two(bits));
    };
    std::vector<wide> terms;
    wide sum = 0;
    for (const std::int64_t x : row) {
        const std::int64_t d = largest - x;
        terms.push_back(round_down(table(d / 256 * 256) * table(d % 256), 31));
        sum += terms.back();
    }
    int n = 0;
    while ((sum >> n) != 0) {
        ++n;
    }
    const wide reciprocal = power_of_two(62) / (sum / power_of_two(n - 32));
    std::vector<std::int64_t> result;
    for (const wide term : terms) {
        result.push_back(static_cast<std::int64_t>(round_down(term * reciprocal, n)));
    }
    return result;
}

/// The accumulators of the log-softmax of one row of codes, 2^-20 each.
///
///     d = max - x, e = rhu(2^31·exp(-d·s_in)), of 16 bits as int16_softmax_accumulators(), S = sum e, n = bitlen(S)
///     u = S / 2^(n-1) in [1, 2), i = fl(256·(u - 1)), f = fl(65536·(256·(u - 1) - i)), T[i] = rhu(2^26·ln(1 + i/256))
///     log = (n-32)·T[256] + T[i] + SH_R((T[i+1] - T[i])·f, 16)
///     acc = -min(SH_R(d·rhu(2^40·s_in) + log·2^14, 20), 2^31 - 1)
inline std::vector<std::int64_t> log_softmax_accumulators(const std::vector<std::int64_t>& row, float scale,
                                                          bool is_wide) {
    const std::int64_t largest = *std::max_element(row.begin(), row.end());
    const auto half_up = [](long double x) { return static_cast<wide>(std::floor(x + 0.5L)); };
    const auto round_down = [](wide x, int bits) {
        return floor_divide(x + power_of_two(bits - 1), power_of_two(bits));
    };
    const auto table = [&](std::int64_t d) {
        return half_up(2147483648.0L * std::exp(-static_cast<long double>(d) * static_cast<long double>(scale)));
    };
    wide sum = 0;
    for (const std::int64_t x : row) {
        const std::int64_t d = largest - x;
        sum += is_wide ? round_down(table(d / 256 * 256) * table(d % 256), 31) : table(d);
    }
    int n = 0;
    while ((sum >> n) != 0) {
        ++n;
    }
    const wide above = 256 * (sum - power_of_two(n - 1));  // 256·(u - 1), times 2^(n-1)
    const wide i = above / power_of_two(n - 1);
    const wide f = 65536 * (above - i * power_of_two(n - 1)) / power_of_two(n - 1);
    const auto logarithm = [&](wide at) {
        return half_up(67108864.0L * std::log1p(static_cast<long double>(at) / 256.0L));
    };
    const wide log = (n - 32) * logarithm(256) + logarithm(i) + round_down((logarithm(i + 1) - logarithm(i)) * f, 16);
    const wide step = half_up(1099511627776.0L * static_cast<long double>(scale));
    std::vector<std::int64_t> result;
    for (const std::int64_t x : row) {
        const wide loss = round_down((largest - x) * step + log * power_of_two(14), 20);
        result.push_back(-static_cast<std::int64_t>(std::min<wide>(loss, power_of_two(31) - 1)));
    }
    return result;
}

/// The codes of that log-softmax.
inline std::vector<std::int64_t> log_softmax(const Target& target, const std::vector<std::int64_t>& row, float scale,
                                             bool is_wide, const QParams& out) {
    std::vector<std::int64_t> result;
    for (const std::int64_t acc : log_softmax_accumulators(row, scale, is_wide)) {
        result.push_back(target.is_bpu() ? requantize_bpu(target, acc, 0x1p-20F, out, Role::element)
                                         : requantize_accumulator(target, acc, 0x1p-20F, 1.0F, 8, out));
    }
    return result;
}

// ---------------------------------------------------------------------------------------------------------------------
// TFLite's softmax, over the mathematical integers

/// SRDHM, and a left shift that saturates.
inline wide high_product(wide a, wide b) { return saturating_rounding_doubling_high_mul(a, b); }
inline wide saturating_shift(wide x, int n) { return clamp_bits(x * power_of_two(n), 32); }

/// gemmlowp's exponential of a·2^-26 <= 0, in steps of 2^-31.
inline wide exponential_on_negative_values(wide a) {
    if (a == 0) {
        return power_of_two(31) - 1;
    }
    const wide quarter = power_of_two(24);
    wide part = a % quarter;  // of the sign of a
    if (part < 0) {
        part += quarter;
    }
    part -= quarter;
    const wide x = saturating_shift(part, 5) + power_of_two(28);
    const wide x2 = high_product(x, x);
    const wide x3 = high_product(x2, x);
    const wide x4 = high_product(x2, x2);
    const wide inner = high_product(rounding_divide_by_power_of_two(x4, 2) + x3, 715827883) + x2;
    wide result = 1895147668 + high_product(1895147668, x + rounding_divide_by_power_of_two(inner, 1));
    const wide rest = part - a;  // whole quarters
    const wide multipliers[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    for (int i = 0; i < 7; ++i) {
        if (floor_divide(rest, power_of_two(24 + i)) % 2 != 0) {
            result = high_product(result, multipliers[i]);
        }
    }
    return result;
}

/// gemmlowp's 1/(1 + a·2^-31) in steps of 2^-31.
inline wide one_over_one_plus(wide a) {
    const wide half_denominator = (a + power_of_two(31) - 1 + 1) / 2;
    wide x = 1515870810 + high_product(half_denominator, -1010580540);
    for (int i = 0; i < 3; ++i) {
        const wide rest = power_of_two(29) - high_product(half_denominator, x);
        x += saturating_shift(high_product(x, rest), 2);
    }
    return saturating_shift(x, 1);
}

/// ln(s·2^-19) for s >= 2^19 as TFLite's kernel approximates it, in steps of 2^-26: as s = 2^k·t, with t or t/sqrt(2)
/// between 0.7 and 1, and a quotient of polynomials.
inline wide tflite_logarithm(wide s) {
    const wide root_half = 1518500250, fourth_root = 1805811301;
    int room = 0;  // bits without the sign above s
    while (power_of_two(30 - room) > s) {
        ++room;
    }
    const wide scaled_by_root = saturating_shift(high_product(saturating_shift(s, room), root_half), 1);
    const wide through_root = high_product(s, root_half);
    int other_room = 0;
    while (power_of_two(30 - other_room) > through_root) {
        ++other_room;
    }
    const wide r = std::min(scaled_by_root, saturating_shift(s, other_room));
    const wide first_power = (11 - room) * power_of_two(25) + power_of_two(23);
    const wide second_power = (12 - other_room) * power_of_two(25) - power_of_two(23);
    const wide q = 2 * (r - fourth_root);
    const wide q2 = high_product(q, q);
    const wide half_sum = divide_half_away(r + fourth_root, 2);
    const wide numerator = high_product(q, r) + high_product(high_product(q, q2), 117049297);
    const wide denominator_less_one =
        high_product(half_sum, 1057819769 + q + high_product(127690142, q2)) + high_product(638450708, q);
    const wide fraction =
        high_product(rounding_divide_by_power_of_two(numerator, 6), one_over_one_plus(denominator_less_one));
    return saturating_shift(high_product(std::max(first_power, second_power), 1488522236) + fraction, 1);
}

struct TfliteLogSoftmax {
    std::vector<std::int64_t> codes;
    std::int64_t radius = 0;
};

/// TFLite's log-softmax of int8 codes, with both of its bounds of a distance.
inline TfliteLogSoftmax tflite_log_softmax(const std::vector<std::int64_t>& row, float scale, bool single) {
    const double real = std::min(static_cast<double>(scale) * 67108864.0, single ? 1073741823.0 : 2147483647.0);
    const TfliteMultiplier m = make_tflite_multiplier(real, single);
    const auto in_steps = [&](std::int64_t difference) {
        return single ? multiply_single_rounding(difference, m) : multiply_double_rounding(difference, m);
    };
    TfliteLogSoftmax result;
    result.radius = static_cast<std::int64_t>(std::floor(31.0 * 67108864.0 / std::ldexp(1.0, m.shift)));
    const std::int64_t largest = *std::max_element(row.begin(), row.end());
    wide sum = 0;
    for (const std::int64_t x : row) {
        if (largest - x <= result.radius) {
            sum += rounding_divide_by_power_of_two(exponential_on_negative_values(in_steps(x - largest)), 12);
        }
    }
    const wide logarithm = tflite_logarithm(sum);
    const TfliteMultiplier back =
        make_tflite_multiplier(std::ldexp(1.0, 31 - m.shift) / static_cast<double>(m.multiplier), single);
    const wide left = single ? multiply_single_rounding(logarithm - power_of_two(31), back)
                             : multiply_double_rounding(logarithm - power_of_two(31), back);
    const wide bound = std::max<wide>(-result.radius - 1, left);
    for (const std::int64_t x : row) {
        if (x - largest <= bound) {
            result.codes.push_back(-128);
            continue;
        }
        const wide code = rounding_divide_by_power_of_two(in_steps(x - largest) - logarithm, 22) + 127;
        result.codes.push_back(static_cast<std::int64_t>(clamp(code, -128, 127)));
    }
    return result;
}

/// The codes of one row of int8 codes, of 8 or of 16 bits.
inline std::vector<std::int64_t> tflite_softmax(const std::vector<std::int64_t>& row, float scale, int bits,
                                                bool single) {
    const double cap = std::ldexp(1.0, single ? 30 : 31) - 1.0;
    const double real = std::fmin(std::ldexp(static_cast<double>(scale), 26), cap);
    int exponent = 0;
    std::frexp(real, &exponent);
    TfliteMultiplier m;  // of 2^30 and more, only distances of 0 count
    wide radius = 0;
    if (exponent <= 30) {
        m = make_tflite_multiplier(real, single);
        radius = to_wide(std::floor(31.0 * std::ldexp(1.0, 26 - m.shift)));
    }
    const std::int64_t largest = *std::max_element(row.begin(), row.end());
    std::vector<wide> terms;  // -1 where a code is too far away to count
    wide sum = 0;
    for (const std::int64_t x : row) {
        const wide difference = wide{x} - largest;
        if (difference < -radius) {
            terms.push_back(-1);
            continue;
        }
        terms.push_back(exponential_on_negative_values(single ? multiply_single_rounding(difference, m)
                                                              : multiply_double_rounding(difference, m)));
        sum += rounding_divide_by_power_of_two(terms.back(), 12);
    }
    int zeros = 31;
    for (wide s = sum; s > 1; s /= 2) {
        --zeros;
    }
    const wide factor = one_over_one_plus(sum * power_of_two(zeros) - power_of_two(31));
    const wide lowest = -power_of_two(bits - 1);
    std::vector<std::int64_t> result;
    for (const wide term : terms) {
        const wide steps =
            term < 0 ? 0 : rounding_divide_by_power_of_two(high_product(factor, term), 12 - zeros + 31 - bits);
        result.push_back(to_int64(clamp(steps + lowest, lowest, -lowest - 1)));
    }
    return result;
}

/// A probability at the output's scale; also for a target that has no int16 activations, since it is none.
inline std::int64_t requantize_probability(const Target& target, std::int64_t p, const QParams& out) {
    if (target.is_bpu()) {
        return requantize_bpu(target, p, 0x1p-15F, out, Role::code);
    }
    return requantize_code(target, p, int16(0x1p-15F), out);
}

}  // namespace intq_reference

#endif  // INTQ_TESTS_REFERENCE_SOFTMAX_HPP
