// SPDX-License-Identifier: MIT
//
// Softmax of int8 and int16 codes by tables and one reciprocal. Layer: arith (docs/arithmetic.md section 4, softmax).
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

/// Entries of the tables of int16 codes: exponentials of the high byte of a distance, and of its low byte.
inline constexpr index_t int16_softmax_entries = 512;

/// The softmax of int16 codes, in steps of 2^-30.
///
///     A[h] = rhu(2^31·exp(-256·h·s_in)),  B[l] = rhu(2^31·exp(-l·s_in)),  term = SH_R(A[h]·B[l], 31),
///     n = bitlen(sum),  factor = fl(2^62 / (sum >> (n - 32))),  accumulator = SH_R(term·factor, n)
struct Int16Softmax {
    std::uint64_t factor = 0;  // at most 2^31
    int shift = 0;             // 32 .. 47

    /// @param entries   A, and B behind it
    /// @param distance  max - x, 0 … 65535
    static INTQ_ALWAYS_INLINE constexpr std::uint64_t term(const std::uint32_t* entries,
                                                           std::int32_t distance) noexcept {
        const std::uint64_t product = std::uint64_t{entries[distance >> 8]} * entries[256 + (distance & 255)];
        return (product + (std::uint64_t{1} << 30)) >> 31;
    }
    /// @param sum  of at most softmax_most_terms terms, one of them 2^31
    static INTQ_ALWAYS_INLINE constexpr Int16Softmax of(std::uint64_t sum) noexcept {
        const int bits = 64 - std::countl_zero(sum);
        return {(std::uint64_t{1} << 62) / (sum >> (bits - 32)), bits};
    }
    /// At most 2^30.
    INTQ_ALWAYS_INLINE constexpr std::int32_t accumulator(std::uint64_t term) const noexcept {
        return static_cast<std::int32_t>((term * factor + (std::uint64_t{1} << (shift - 1))) >> shift);
    }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

namespace detail {

/// Codes of a softmax.
constexpr Status check_softmax_input(const CodesOf& in, DType dtype) noexcept {
    if (in.dtype != dtype)
        return {StatusCode::dtype_mismatch, OpKind::softmax, Field::input, static_cast<std::int64_t>(in.dtype),
                static_cast<std::int64_t>(dtype)};
    if (const Status status = check_scale(in.scale, OpKind::softmax, Field::input); !status) return status;
    const std::int64_t lowest = lowest_code(dtype), highest = highest_code(dtype);
    if (in.zero_point >= lowest && in.zero_point <= highest) return {};
    return {StatusCode::value_out_of_range,       OpKind::softmax, Field::zero_point, in.zero_point,
            in.zero_point < 0 ? lowest : highest, Field::input};
}

}  // namespace detail

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

    /// The codes of many probabilities, with scale 2^-15.
    ///
    ///     SH_R(probability·factor, shift) = SRDHM(probability, F),  F = factor·2^(31-shift)
    ///
    /// F is at most 2^31, for which 2^31 - 1 gives the same. So a code is 0 … probability, which is at most 32767.
    template <class L> class Codes {
    public:
        explicit INTQ_ALWAYS_INLINE constexpr Codes(const SoftmaxReciprocal& reciprocal) noexcept
            : factor_(L::set(high_factor(reciprocal))) {}
        INTQ_ALWAYS_INLINE constexpr typename L::i32 code(typename L::i32 probability) const noexcept {
            return L::sqrdmulh(probability, factor_);
        }

    private:
        static constexpr std::int32_t high_factor(const SoftmaxReciprocal& reciprocal) noexcept {
            const std::int64_t factor = std::int64_t{reciprocal.factor} << (31 - reciprocal.shift);
            return static_cast<std::int32_t>(factor < INT32_MAX ? factor : INT32_MAX);
        }
        typename L::i32 factor_;
    };
    constexpr std::int16_t code(std::int16_t probability) const noexcept {
        return static_cast<std::int16_t>(Codes<scalar_lanes>(*this).code(probability));
    }
};

/// @return the errors of check_scale(); dtype_mismatch of input for another type than int8; value_out_of_range of
///         zero_point: no code of the type
inline Result<SoftmaxTables> make_softmax_tables(const CodesOf& in) noexcept {
    if (const Status status = detail::check_softmax_input(in, DType::int8); !status) return status;
    SoftmaxTables tables{};
    for (int d = 0; d < 256; ++d) {
        const double weight = real_exp(dmul(-static_cast<double>(d), static_cast<double>(in.scale)));
        const double code = round_half_up(0x1p15 * weight);
        tables.probability[d] = static_cast<std::int16_t>(code > 32767.0 ? 32767.0 : code);
        tables.term[d] = static_cast<std::uint32_t>(round_half_up(0x1p31 * weight));
    }
    return tables;
}

/// Writes A and B of Int16Softmax.
///
/// @param entries  int16_softmax_entries
/// @return the errors of check_scale(); dtype_mismatch of input for another type than int16; value_out_of_range of
///         zero_point: no code of the type
inline Status make_int16_softmax_tables(const CodesOf& in, std::uint32_t* entries) noexcept {
    if (const Status status = detail::check_softmax_input(in, DType::int16); !status) return status;
    const auto entry = [&](int distance) {
        const double weight = real_exp(dmul(-static_cast<double>(distance), static_cast<double>(in.scale)));
        return static_cast<std::uint32_t>(round_half_up(0x1p31 * weight));
    };
    for (int i = 0; i < 256; ++i) {
        entries[i] = entry(256 * i);
        entries[256 + i] = entry(i);
    }
    return {};
}

/// The words that requantize the accumulators of Int16Softmax.
///
/// @return the errors of make_requantize_words()
constexpr Result<ChannelWords> make_int16_softmax_words(const PolicyRecord& policy, const CodesOf& out) noexcept {
    const auto words = make_requantize_words(policy, RequantizeSource::add_accumulator, {0x1p-30f, 1.0f, out.scale}, 32,
                                             out.dtype, SumRange{0, std::int64_t{1} << 30});
    return words ? words : words.status().in(OpKind::softmax);
}

/// Whether tables from anywhere keep the formula inside its bits: the largest element stands for 1.
constexpr bool are_softmax_tables(const SoftmaxTables& tables) noexcept {
    bool are = tables.term[0] == std::uint32_t{1} << 31;
    for (int d = 0; d < 256; ++d) are = are && tables.probability[d] >= 0 && tables.term[d] <= tables.term[0];
    return are;
}

/// The same for the tables of int16 codes.
constexpr bool are_int16_softmax_tables(const std::uint32_t* entries) noexcept {
    constexpr std::uint32_t one = std::uint32_t{1} << 31;
    bool are = entries[0] == one && entries[256] == one;
    for (index_t i = 0; i < int16_softmax_entries; ++i) are = are && entries[i] <= one;
    return are;
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_SOFTMAX_HPP
