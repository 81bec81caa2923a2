// SPDX-License-Identifier: MIT
//
// TFLite's log-softmax of int8 codes: gemmlowp's fixed-point exponential and reciprocal, and a rational logarithm.
// Layer: arith (docs/arithmetic.md section 4, log-softmax of TFLite).
#ifndef INTQ_ARITH_FIXED_POINT_LOG_SOFTMAX_HPP
#define INTQ_ARITH_FIXED_POINT_LOG_SOFTMAX_HPP

#include <bit>
#include <cstdint>

#include "intq/arith/fixed_point_softmax.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Entries of its table: the terms of the 256 distances, and behind them their values in steps of 2^-26.
inline constexpr index_t fixed_point_log_softmax_entries = 512;

/// The value of a distance that does not count: no logarithm brings it above the lowest code.
inline constexpr std::uint32_t log_softmax_beyond_radius = std::uint32_t{1} << 31;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

namespace detail {

/// ln(S·2^-19) in steps of 2^-26, for S of 2^19 and more: the power of two nearest to S in quarters, and of the rest r,
/// which is within a fourth root of 2 of the root of 1/2, q·(r + c·11/240·2^(1/4)) / (1 + …) with q = 2·(r - 2^(-1/4)).
constexpr std::int32_t log_of_terms(std::int32_t sum) noexcept {
    constexpr std::int32_t log_2 = 1488522236, root_of_half = 1518500250, fourth_root_of_half = 1805811301;
    constexpr std::int32_t quarter = 1 << 23;  // in steps of 2^-25, as powers
    const auto zeros_of = [](std::int32_t x) { return std::countl_zero(static_cast<std::uint32_t>(x)); };
    const int zeros = zeros_of(sum);
    const std::int32_t by_root =
        multiply_by_power_of_two(high_product(multiply_by_power_of_two(sum, zeros - 1), root_of_half), 1);
    const int room = zeros_of(high_product(sum, root_of_half)) - 1;
    const std::int32_t whole = multiply_by_power_of_two(sum, room);
    const std::int32_t rest = by_root < whole ? by_root : whole;
    const std::int32_t power_by_root = (12 - zeros) * (1 << 25) + quarter, power = (12 - room) * (1 << 25) - quarter;
    const std::int32_t q = 2 * (rest - fourth_root_of_half), square = high_product(q, q);
    // Half of the sum, away from zero where it is odd.
    const auto p = static_cast<std::int32_t>((std::int64_t{rest} + fourth_root_of_half + 1) / 2);
    const std::int32_t above = high_product(q, rest) + high_product(high_product(q, square), 117049297);
    const std::int32_t below =
        high_product(p, 1057819769 + q + high_product(127690142, square)) + high_product(638450708, q);
    const std::int32_t of_rest = high_product(divide_by_power_of_two(above, 6), reciprocal_of_one_plus(below));
    return multiply_by_power_of_two(high_product(power_by_root > power ? power_by_root : power, log_2) + of_rest, 1);
}

}  // namespace detail

/// Writes the table of FixedPointLogSoftmax: of each distance d up to the radius, term[d] as
/// make_fixed_point_softmax_tables() and value[d] = -multiply_by_quantized_multiplier(-d, M, shift); 0 and
/// log_softmax_beyond_radius of the others.
///
/// @param entries  fixed_point_log_softmax_entries
/// @return unsupported of multiplier for a target with another softmax; the errors of
///         make_fixed_point_softmax_tables(); scale_out_of_range of input for a scale below 2^-24, with which LiteRT
///         stops, and of 8 and more, where its bounds of a distance are coarser than a code
constexpr Status make_fixed_point_log_softmax_table(const PolicyRecord& policy, const CodesOf& in,
                                                    std::uint32_t* entries) noexcept {
    constexpr OpKind op = OpKind::log_softmax;
    if (policy.softmax != SoftmaxRule::fixed_point) return Status{StatusCode::unsupported, op, Field::multiplier, 0, 0};
    const auto tables = make_fixed_point_softmax_tables(policy, in);
    if (!tables) return tables.status().in(op);
    if (in.scale < 0x1p-24f || in.scale >= 8.0f) return Status{StatusCode::scale_out_of_range, op, Field::input, 0, 0};
    const bool is_single = policy.requantize == RequantizeRule::single_rounding;
    const QuantizedMultiplier by = *quantize_multiplier(static_cast<double>(in.scale) * 0x1p26);
    const double radius = floor(31.0 * 0x1p26 / power_of_two(by.shift));
    const auto scaled = [&](int d) {
        return is_single ? multiply_by_quantized_multiplier<single_rounding>(d, by.multiplier, by.shift)
                         : multiply_by_quantized_multiplier<double_rounding>(d, by.multiplier, by.shift);
    };
    for (int d = 0; d < 256; ++d) {
        entries[d] = tables->term[d];
        entries[256 + d] = d > radius ? log_softmax_beyond_radius : static_cast<std::uint32_t>(-scaled(-d));
    }
    return {};
}

/// Whether a table from anywhere keeps the formula inside its bits.
constexpr bool are_fixed_point_log_softmax_entries(const std::uint32_t* entries) noexcept {
    bool are = entries[0] == std::uint32_t{INT32_MAX} && entries[256] == 0;
    for (int d = 0; d < 256; ++d)
        are = are && entries[d] <= entries[0] && entries[256 + d] <= log_softmax_beyond_radius;
    return are;
}

/// The log-softmax of int8 codes as codes of 1/16 with the zero point 127.
///
///     S    = sum RDBPOT(term, 12),  log = log_of_terms(S)
///     code = clamp(127 - (value + log)/2^22 rounded half away from zero)
struct FixedPointLogSoftmax {
    static constexpr float scale = 0.0625f;
    static constexpr std::int32_t zero_point = 127;

    /// @param sum  of at most fixed_point_softmax_most_terms of FixedPointSoftmax::term(), one of them 2^19
    static constexpr std::int32_t log_of(std::int32_t sum) noexcept { return detail::log_of_terms(sum); }
    static constexpr std::int8_t code(std::uint32_t value, std::int32_t log) noexcept {
        const std::int64_t steps = (std::int64_t{value} + log + (1 << 21)) >> 22;
        const std::int64_t code = zero_point - steps;
        return static_cast<std::int8_t>(code < INT8_MIN ? INT8_MIN : code > INT8_MAX ? INT8_MAX : code);
    }
};

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_FIXED_POINT_LOG_SOFTMAX_HPP
