// SPDX-License-Identifier: MIT
//
// TFLite's softmax of codes: gemmlowp's fixed-point exponential and reciprocal for int8, two tables for int16. Layer:
// arith (docs/arithmetic.md section 4, softmax of TFLite).
#ifndef INTQ_ARITH_FIXED_POINT_SOFTMAX_HPP
#define INTQ_ARITH_FIXED_POINT_SOFTMAX_HPP

#include <array>
#include <bit>
#include <cstdint>

#include "intq/arith/quantized_multiplier.hpp"
#include "intq/arith/real_functions.hpp"
#include "intq/arith/softmax.hpp"
#include "intq/arith/unary.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Terms of one softmax of int8 codes: each is at most 2^19, and their sum is an int32.
inline constexpr index_t fixed_point_softmax_most_terms = 4095;

/// The integers of a softmax as TFLite's SoftmaxParams and CMSIS-NN's arm_softmax_s8 hold them. They contain beta.
struct GivenSoftmax {
    QuantizedMultiplier input{};  // input_multiplier and input_left_shift; mult and shift
    std::int32_t diff_min = 0;    // of int8 codes: codes further below the largest one count as 0
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

namespace detail {

/// RDBPOT(x, n) = rhaz(x / 2^n), @pre x > -2^31, n <= 31
constexpr std::int32_t divide_by_power_of_two(std::int32_t x, int n) noexcept {
    using Rule = fixed_point<double_rounding>;
    return Rule::round_by_power_of_two<scalar_lanes>(x, Rule::set<scalar_lanes>(Rule::make({0, -n})));
}

/// x·2^n, saturated.
constexpr std::int32_t multiply_by_power_of_two(std::int32_t x, int n) noexcept {
    return scalar_lanes::narrow(std::int64_t{x} << n);
}

/// SRDHM
constexpr std::int32_t high_product(std::int32_t a, std::int32_t b) noexcept { return scalar_lanes::sqrdmulh(a, b); }

/// exp(a·2^-31) for -2^29 <= a < 0, by four terms of the series around -1/8. The constants are rounded values of
/// exp(-1/8) and 1/3.
constexpr std::int32_t exponential_above_minus_quarter(std::int32_t a) noexcept {
    constexpr std::int32_t exp_minus_eighth = 1895147668, third = 715827883;
    const std::int32_t x = a + (1 << 28);
    const std::int32_t x2 = high_product(x, x), x3 = high_product(x2, x), x4 = high_product(x2, x2);
    const std::int32_t higher = high_product(divide_by_power_of_two(x4, 2) + x3, third) + x2;
    return exp_minus_eighth + high_product(exp_minus_eighth, x + divide_by_power_of_two(higher, 1));
}

/// exp(a·2^-26) as 2^-31 a step, for a <= 0: the rest of a quarter, and a factor for each bit of the quarters.
constexpr std::int32_t exponential_of_negative(std::int32_t a) noexcept {
    if (a == 0) return INT32_MAX;
    constexpr std::int32_t quarter = 1 << 24;
    // exp(-1/4), exp(-1/2), exp(-1), … exp(-16)
    constexpr std::int32_t factors[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const std::int32_t part = (a & (quarter - 1)) - quarter, quarters = part - a;
    std::int32_t result = exponential_above_minus_quarter(multiply_by_power_of_two(part, 5));
    for (int bit = 0; bit < 7; ++bit)
        if ((quarters >> (24 + bit) & 1) != 0) result = high_product(result, factors[bit]);
    return result;
}

/// 2^31 / (1 + a·2^-31) for 0 <= a < 2^31, by three steps of Newton's method from 48/17 - 32/17·d, d = (1 + a)/2.
constexpr std::int32_t reciprocal_of_one_plus(std::int32_t a) noexcept {
    const auto half = static_cast<std::int32_t>((std::int64_t{a} + INT32_MAX + 1) / 2);
    std::int32_t x = 1515870810 + high_product(half, -1010580540);
    for (int step = 0; step < 3; ++step) {
        const std::int32_t error = (1 << 29) - high_product(half, x);
        x += multiply_by_power_of_two(high_product(x, error), 2);
    }
    return multiply_by_power_of_two(x, 1);
}

}  // namespace detail

namespace detail {

/// The terms of the distances up to a radius.
constexpr SoftmaxTables fixed_point_softmax_tables(bool is_single, const QuantizedMultiplier& input,
                                                   double radius) noexcept {
    SoftmaxTables tables{};
    for (int d = 0; d < 256 && d <= radius; ++d) {
        const std::int32_t scaled =
            is_single ? multiply_by_quantized_multiplier<single_rounding>(-d, input.multiplier, input.shift)
                      : multiply_by_quantized_multiplier<double_rounding>(-d, input.multiplier, input.shift);
        tables.term[d] = static_cast<std::uint32_t>(exponential_of_negative(scaled));
    }
    return tables;
}

}  // namespace detail

/// The value of each distance d = max - x of int8 codes in steps of 2^-31: `term` of the tables; 0 beyond the radius.
///
///     (M, shift) = quantize_multiplier(min(s_in·2^26, largest)),  radius = fl(31·2^26 / 2^shift)
///     term[d]    = exp(multiply_by_quantized_multiplier(-d, M, shift)·2^-26)
///
/// A shift above 30, for which double rounding has no multiplier, has the radius 0.
/// largest is 2^31 - 1, and 2^30 - 1 with single rounding.
///
/// @return as make_softmax_tables()
constexpr Result<SoftmaxTables> make_fixed_point_softmax_tables(const PolicyRecord& policy,
                                                                const CodesOf& in) noexcept {
    if (const Status status = detail::check_softmax_input(in, DType::int8); !status) return status;
    const bool is_single = policy.requantize == RequantizeRule::single_rounding;
    const double largest = is_single ? 0x1p30 - 1.0 : 0x1p31 - 1.0, scaled_up = static_cast<double>(in.scale) * 0x1p26;
    const double real = scaled_up < largest ? scaled_up : largest;
    const QuantizedMultiplier input = *quantize_multiplier(real);
    // A multiplier of 2^30 or more would have a shift of 31, and a radius of 0.
    const double radius = is_saturated(real) && !is_single ? 0.0 : floor(31.0 * 0x1p26 / power_of_two(input.shift));
    return detail::fixed_point_softmax_tables(is_single, input, radius);
}

/// The same from integers of another engine: radius = -diff_min.
///
/// @return unsupported of multiplier for a target with another softmax; value_out_of_range of a multiplier below 0, of
///         a shift outside 0 … 30, and of input for a diff_min above 0; accumulator_overflow of shift where a distance
///         that counts would be shifted out of 32 bits
constexpr Result<SoftmaxTables> make_fixed_point_softmax_tables(const PolicyRecord& policy,
                                                                const GivenSoftmax& given) noexcept {
    constexpr OpKind op = OpKind::softmax;
    if (policy.softmax != SoftmaxRule::fixed_point) return Status{StatusCode::unsupported, op, Field::multiplier, 0, 0};
    const auto [multiplier, shift] = given.input;
    if (multiplier < 0) return Status{StatusCode::value_out_of_range, op, Field::multiplier, multiplier, 0};
    if (shift < 0 || shift > 30)
        return Status{StatusCode::value_out_of_range, op, Field::shift, shift, shift < 0 ? 0 : 30};
    if (given.diff_min > 0) return Status{StatusCode::value_out_of_range, op, Field::input, given.diff_min, 0};
    const std::int64_t radius = given.diff_min < -255 ? 255 : -std::int64_t{given.diff_min};
    if (radius << shift > std::int64_t{1} << 31)
        return Status{StatusCode::accumulator_overflow, op, Field::shift, radius << shift, std::int64_t{1} << 31};
    return detail::fixed_point_softmax_tables(policy.requantize == RequantizeRule::single_rounding, given.input,
                                              static_cast<double>(radius));
}

/// Whether tables from anywhere keep the formula inside its bits.
constexpr bool are_fixed_point_softmax_tables(const SoftmaxTables& tables) noexcept {
    bool are = tables.term[0] == std::uint32_t{INT32_MAX};
    for (int d = 0; d < 256; ++d) are = are && tables.probability[d] == 0 && tables.term[d] <= tables.term[0];
    return are;
}

/// 1 / sum of int8 codes' terms, as a factor and a shift.
///
///     S = sum RDBPOT(term, 12),  z = leading zeros of S,  factor = 1/(S·2^(z-31)) as 2^-31 a step,  shift = 43 - z
///     code = clamp(RDBPOT(SRDHM(factor, term), shift - bits) - 2^(bits-1))
struct FixedPointSoftmax {
    std::int32_t factor = 0;
    int shift = 0;

    /// No exponential and no product is negative, so that RDBPOT(e, n) = SRDHM(e, 2^(31-n)).
    template <class L> static INTQ_ALWAYS_INLINE constexpr typename L::i32 term(typename L::i32 exponential) noexcept {
        return L::sqrdmulh(exponential, L::set(std::int32_t{1} << 19));
    }
    static constexpr std::int32_t term(std::uint32_t exponential) noexcept {
        return term<scalar_lanes>(static_cast<std::int32_t>(exponential));
    }
    /// @param sum  of at most fixed_point_softmax_most_terms terms, one of them 2^19
    static constexpr FixedPointSoftmax of(std::int32_t sum) noexcept {
        const int zeros = std::countl_zero(static_cast<std::uint32_t>(sum));
        const std::uint32_t above_one = (static_cast<std::uint32_t>(sum) << zeros) - (std::uint32_t{1} << 31);
        return {detail::reciprocal_of_one_plus(static_cast<std::int32_t>(above_one)), 43 - zeros};
    }
    /// The steps from 0 of many exponentials, and their codes.
    ///
    /// @tparam Code  int8, of scale 1/256 and zero point -128, or int16, of 1/65536 and -32768
    template <class L, class Code> class Codes {
    public:
        using I32 = typename L::i32;
        static constexpr int bits = static_cast<int>(8 * sizeof(Code));
        static constexpr std::int32_t lowest = -(std::int32_t{1} << (bits - 1)), highest = -lowest - 1;

        explicit INTQ_ALWAYS_INLINE constexpr Codes(const FixedPointSoftmax& softmax) noexcept
            : factor_(L::set(softmax.factor)),
              of_step_(L::set(softmax.shift - bits > 31 ? 0 : std::int32_t{1} << (31 + bits - softmax.shift))) {}

        INTQ_ALWAYS_INLINE constexpr I32 steps(I32 exponential) const noexcept {
            return L::sqrdmulh(L::sqrdmulh(factor_, exponential), of_step_);
        }
        INTQ_ALWAYS_INLINE constexpr I32 code(I32 exponential) const noexcept {
            return (L::min)(L::add(steps(exponential), L::set(lowest)), L::set(highest));
        }

    private:
        I32 factor_, of_step_;
    };
    template <class Code> constexpr Code code(std::uint32_t exponential) const noexcept {
        return static_cast<Code>(Codes<scalar_lanes, Code>(*this).code(static_cast<std::int32_t>(exponential)));
    }
};

// --- int16 ---------------------------------------------------------------------------------------------------------

namespace detail {

using SoftmaxCurve = std::array<std::int16_t, int16_table_size>;

/// 513 entries of a function over int16 codes from `first` on, `width` apart from end to end, with half of the error in
/// the middle of each piece taken off. Results have 2/65535 a code.
///
///     e(t)  = f(t)·2^16·65535/(2·65535)
///     T[i]  = rhaz(e(t_i)) - rhaz((rhaz((e(t_{i+1}) + rhaz(e(t_i)))/2) - rhaz(e(t_i + step/2)))/2)
template <class Function>
constexpr SoftmaxCurve make_softmax_curve(double lowest, double highest, Function&& f) noexcept {
    const double step = (highest - lowest) / 512.0, half = step / 2.0;
    const double per_unit = 65536.0 / (2.0 / 65535.0 * 32767.0 - 2.0 / 65535.0 * -32768.0);
    const auto rounded = [](double x) { return round_half_away(x); };
    const auto clamped = [](double x) {
        return static_cast<std::int16_t>(x < -32768.0 ? -32768.0 : x > 32767.0 ? 32767.0 : x);
    };
    SoftmaxCurve entries{};
    for (int i = 0; i < 512; ++i) {
        const double at = lowest + dmul(static_cast<double>(i), step);
        const double here = rounded(dmul(f(at), per_unit)), middle = rounded(dmul(f(at + half), per_unit));
        const double next = dmul(f(lowest + dmul(static_cast<double>(i + 1), step)), per_unit);
        const double error = rounded((next + here) / 2.0) - middle;
        entries[static_cast<std::size_t>(i)] = clamped(here - rounded(error / 2.0));
    }
    entries[512] = clamped(rounded(dmul(f(highest), per_unit)));
    return entries;
}

/// exp over -10 … 0.
inline constexpr SoftmaxCurve softmax_exponentials =
    make_softmax_curve(10.0 / 65535.0 * -65535.0, 10.0 / 65535.0 * 0.0, [](double x) { return real_exp(x); });
/// 1/(1 + x) over 0 … 1.
inline constexpr SoftmaxCurve softmax_reciprocals =
    make_softmax_curve(1.0 / 65535.0 * 0.0, 1.0 / 65535.0 * 65535.0, [](double x) { return 1.0 / (1.0 + x); });

constexpr std::int32_t clamp_to_int16(std::int32_t x) noexcept {
    return x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x;
}

}  // namespace detail

/// Multiplier and shift that bring distances of int16 codes to 10/65535 a step.
///
/// @return dtype_mismatch of input for another type than int16; the errors of check_scale(); scale_out_of_range of
///         scale_ratio for a scale with which 2^16 codes leave 32 bits
constexpr Result<QuantizedMultiplier> make_wide_softmax_multiplier(const CodesOf& in) noexcept {
    if (in.dtype != DType::int16)
        return Status{StatusCode::dtype_mismatch, OpKind::softmax, Field::input, static_cast<std::int64_t>(in.dtype),
                      static_cast<std::int64_t>(DType::int16)};
    if (const Status status = check_scale(in.scale, OpKind::softmax, Field::input); !status) return status;
    const Result<QuantizedMultiplier> multiplier =
        quantize_multiplier(static_cast<double>(in.scale) / (10.0 / 65535.0));
    if (!multiplier) return multiplier.status().in(OpKind::softmax);
    if (multiplier->shift > 15)
        return Status{StatusCode::scale_out_of_range, OpKind::softmax, Field::scale_ratio, multiplier->shift, 15};
    return multiplier;
}

/// The softmax of int16 codes with results of 2^-15.
///
///     e     = look_up(exponentials, clamp_16(multiply_by_quantized_multiplier(x - max) + 32767))
///     z     = leading zeros of S = sum e,  r = look_up(reciprocals, clamp_16(((S << (z-1)) + 2^13 >> 14) - 98304))
///     code  = clamp((e·r + 2^(30-z)) >> (31-z), 0, 32767)
struct WideSoftmax {
    std::int32_t factor = 0;
    int shift = 0;

    /// @param distance  x - max, -65535 … 0
    static constexpr std::int32_t exponential(const QuantizedMultiplier& input, bool is_single,
                                              std::int32_t distance) noexcept {
        const std::int32_t scaled =
            is_single ? multiply_by_quantized_multiplier<single_rounding>(distance, input.multiplier, input.shift)
                      : multiply_by_quantized_multiplier<double_rounding>(distance, input.multiplier, input.shift);
        // At most 0, so that 32767 more is an int32.
        return interpolate_table<scalar_lanes>(detail::softmax_exponentials.data(),
                                               detail::clamp_to_int16(scaled + 32767));
    }
    /// @param sum  of at most softmax_most_terms exponentials, one of them of distance 0
    static constexpr WideSoftmax of(std::int32_t sum) noexcept {
        const int zeros = std::countl_zero(static_cast<std::uint32_t>(sum));
        const auto shifted =
            static_cast<std::int32_t>(((std::int64_t{sum} << (zeros - 1)) + (std::int64_t{1} << 13)) >> 14);
        return {interpolate_table<scalar_lanes>(detail::softmax_reciprocals.data(),
                                                detail::clamp_to_int16(shifted - 98304)),
                31 - zeros};
    }
    constexpr std::int16_t code(std::int32_t exponential) const noexcept {
        const std::int64_t product = std::int64_t{exponential} * factor + (std::int64_t{1} << (shift - 1));
        const std::int64_t steps = product >> shift;
        return static_cast<std::int16_t>(steps < 0 ? 0 : steps > INT16_MAX ? INT16_MAX : steps);
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_FIXED_POINT_SOFTMAX_HPP
