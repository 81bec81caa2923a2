// SPDX-License-Identifier: MIT
//
// Softmax of int8 codes by tables and one reciprocal. Layer: arith (docs/arithmetic.md section 4, softmax).
#ifndef INTQ_ARITH_SOFTMAX_HPP
#define INTQ_ARITH_SOFTMAX_HPP

#include <bit>

#include "intq/arith/elementwise.hpp"
#include "intq/arith/real_functions.hpp"
#include "intq/arith/rounding.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Terms of one softmax; more could leave the sum's 48 bits.
inline constexpr index_t softmax_most_terms = 65535;

/// Real numbers of the probabilities before they are requantized: 2^-15 a code.
inline constexpr CodesOf softmax_probability{0x1p-15f, 0, DType::int16};

/// The values of each distance d = max - x; computed once, when the operator is made.
///
///     probability[d] = min(rhu(2^15·exp(-d·s_in)), 32767),  term[d] = rhu(2^31·exp(-d·s_in))
struct SoftmaxTables {
    std::int16_t probability[256] = {};
    std::uint32_t term[256] = {};
};

/// 1 / sum as a factor of 16 bits and a shift.
///
///     n = bitlen(sum),  S16 = sum >> (n - 16),  factor = fl((2^30 + fl(S16/2)) / S16),  shift = n - 17
struct SoftmaxReciprocal {
    std::int32_t factor = 0;  // 16384 .. 32768
    int shift = 0;            // 15 .. 30

    /// @param sum  of at most softmax_most_terms terms, one of them 2^31
    static INTQ_ALWAYS_INLINE constexpr SoftmaxReciprocal of(std::uint64_t sum) noexcept {
        const int bits = 64 - std::countl_zero(sum);
        const auto high = static_cast<std::int32_t>(sum >> (bits - 16));
        return {((std::int32_t{1} << 30) + high / 2) / high, bits - 17};
    }

    /// clamp(SH_R(probability·factor, shift), 0, 32767), with scale 2^-15
    INTQ_ALWAYS_INLINE constexpr std::int16_t code(std::int16_t probability) const INTQ_NOEXCEPT {
        const std::int32_t p = shift_half_up(std::int32_t{probability} * factor, shift);
        return static_cast<std::int16_t>(p < 0 ? 0 : p > 32767 ? 32767 : p);
    }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

namespace detail {

/// int8 codes of a softmax.
constexpr Status check_softmax_input(const CodesOf& in) noexcept {
    if (in.dtype != DType::int8)
        return {StatusCode::dtype_mismatch, OpKind::softmax, Field::input, static_cast<std::int64_t>(in.dtype),
                static_cast<std::int64_t>(DType::int8)};
    if (const Status status = check_scale(in.scale, OpKind::softmax, Field::input); !status) return status;
    if (in.zero_point >= INT8_MIN && in.zero_point <= INT8_MAX) return {};
    return {StatusCode::value_out_of_range,          OpKind::softmax, Field::zero_point, in.zero_point,
            in.zero_point < 0 ? INT8_MIN : INT8_MAX, Field::input};
}

}  // namespace detail

/// @return the errors of check_scale(); dtype_mismatch of input for another type than int8; value_out_of_range of
///         zero_point: no code of the type
inline Result<SoftmaxTables> make_softmax_tables(const CodesOf& in) noexcept {
    if (const Status status = detail::check_softmax_input(in); !status) return status;
    SoftmaxTables tables{};
    for (int d = 0; d < 256; ++d) {
        const double weight = real_exp(dmul(-static_cast<double>(d), static_cast<double>(in.scale)));
        const double code = round_half_up(0x1p15 * weight);
        tables.probability[d] = static_cast<std::int16_t>(code > 32767.0 ? 32767.0 : code);
        tables.term[d] = static_cast<std::uint32_t>(round_half_up(0x1p31 * weight));
    }
    return tables;
}

/// Whether tables from anywhere keep the formula inside its bits: the largest element stands for 1.
constexpr bool are_softmax_tables(const SoftmaxTables& tables) noexcept {
    bool are = tables.term[0] == std::uint32_t{1} << 31;
    for (int d = 0; d < 256; ++d) are = are && tables.probability[d] >= 0 && tables.term[d] <= tables.term[0];
    return are;
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_SOFTMAX_HPP
