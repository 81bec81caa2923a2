// SPDX-License-Identifier: MIT
//
// Log-softmax of int8 and int16 codes by tables of exponentials and of a logarithm. Layer: arith
// (docs/arithmetic.md section 4, log_softmax).
#ifndef INTQ_ARITH_LOG_SOFTMAX_HPP
#define INTQ_ARITH_LOG_SOFTMAX_HPP

#include <bit>

#include "intq/arith/ieee.hpp"
#include "intq/arith/real_functions.hpp"
#include "intq/arith/requantize.hpp"
#include "intq/arith/softmax.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Segments of the table of the logarithm, which has one entry more.
inline constexpr index_t log_segments = 256;

/// Entries of the table of exponentials: one for each distance of int8 codes, Int16Softmax's two tables of int16 codes.
INTQ_ALWAYS_INLINE constexpr index_t exponential_entries(DType input) noexcept {
    return input == DType::int8 ? 256 : int16_softmax_entries;
}
/// Those and, behind them, the table of the logarithm.
INTQ_ALWAYS_INLINE constexpr index_t log_softmax_entries(DType input) noexcept {
    return exponential_entries(input) + log_segments + 1;
}

/// Steps of a code of the input must be below this, so that distances fit 64 bits.
inline constexpr std::int64_t largest_log_softmax_step = std::int64_t{1} << 46;

/// The log-softmax of codes, in steps of 2^-20.
///
///     e = rhu(2^31·exp(-d·s_in)), of int16 codes Int16Softmax::term();  d = max - x;  S = sum e;  n = bitlen(S)
///     m = S << (48 - n),  i = (m >> 39) - 256,  f = (m >> 23) & 65535
///     T[i] = rhu(2^26·ln(1 + i/256)),  log = (n - 32)·T[256] + T[i] + SH_R((T[i + 1] - T[i])·f, 16)
///     step = rhu(2^40·s_in),  accumulator = -min(SH_R(d·step + log·2^14, 20), 2^31 - 1)
struct LogSoftmax {
    /// @tparam Input   int8 or int16
    /// @param entries   made by make_log_softmax_tables()
    /// @param distance  max - x
    template <DType Input>
    static INTQ_ALWAYS_INLINE constexpr std::uint64_t term(const std::uint32_t* entries,
                                                           std::int32_t distance) noexcept {
        return Input == DType::int8 ? entries[distance] : Int16Softmax::term(entries, distance);
    }
    /// @param logs  the table of the logarithm
    /// @param sum   of at most softmax_most_terms terms, one of them 2^31
    /// @return the logarithm in steps of 2^-26, below 2^30
    static INTQ_ALWAYS_INLINE constexpr std::int64_t log_of(const std::uint32_t* logs, std::uint64_t sum) noexcept {
        const int bits = 64 - std::countl_zero(sum);
        const std::uint64_t mantissa = sum << (48 - bits);
        const auto segment = static_cast<std::int64_t>(mantissa >> 39) - log_segments;
        const auto rest = static_cast<std::int64_t>(mantissa >> 23 & 65535);
        const std::int64_t low = logs[segment], width = logs[segment + 1] - low;
        return (bits - 32) * std::int64_t{logs[log_segments]} + low + ((width * rest + 32768) >> 16);
    }
    static INTQ_ALWAYS_INLINE constexpr std::int32_t accumulator(std::int32_t distance, std::int64_t step,
                                                                 std::int64_t log) noexcept {
        const std::int64_t loss = (distance * step + log * (1 << 14) + (1 << 19)) >> 20;
        return -static_cast<std::int32_t>(loss < INT32_MAX ? loss : INT32_MAX);
    }
};

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// step of LogSoftmax.
///
/// @return the errors of check_scale() of input; scale_out_of_range of input for a scale of 64 or more; dtype_mismatch
///         and value_out_of_range as make_softmax_tables()
constexpr Result<std::int64_t> make_log_softmax_step(const CodesOf& in) noexcept {
    constexpr OpKind op = OpKind::log_softmax;
    if (in.dtype != DType::int8 && in.dtype != DType::int16)
        return Status{StatusCode::dtype_mismatch, op, Field::input, static_cast<std::int64_t>(in.dtype),
                      static_cast<std::int64_t>(DType::int8)};
    if (const Status status = detail::check_softmax_input(in, in.dtype); !status) return status.in(op);
    if (in.scale >= 64.0f) return Status{StatusCode::scale_out_of_range, op, Field::input, 0, 0};
    return static_cast<std::int64_t>(round_half_up(0x1p40 * static_cast<double>(in.scale)));
}

/// Writes the tables of LogSoftmax.
///
/// @param entries  log_softmax_entries() of the input's type
/// @return the errors of make_log_softmax_step()
inline Status make_log_softmax_tables(const CodesOf& in, std::uint32_t* entries) noexcept {
    if (const auto step = make_log_softmax_step(in); !step) return step.status();
    if (in.dtype == DType::int8) {
        const auto tables = make_softmax_tables(in);
        for (index_t d = 0; d < 256; ++d) entries[d] = tables->term[d];
    } else {
        static_cast<void>(make_int16_softmax_tables(in, entries));
    }
    std::uint32_t* const logs = entries + exponential_entries(in.dtype);
    for (index_t i = 0; i <= log_segments; ++i)
        logs[i] = static_cast<std::uint32_t>(
            round_half_up(0x1p26 * real_log(1.0 + static_cast<double>(i) / static_cast<double>(log_segments))));
    return {};
}

/// The words that requantize the accumulators of LogSoftmax.
///
/// @return the errors of make_requantize_words()
constexpr Result<ChannelWords> make_log_softmax_words(const PolicyRecord& policy, const CodesOf& out) noexcept {
    const auto words = make_requantize_words(policy, RequantizeSource::add_accumulator, {0x1p-20f, 1.0f, out.scale}, 32,
                                             out.dtype, SumRange{-INT32_MAX, 0});
    return words ? words : words.status().in(OpKind::log_softmax);
}

/// Whether tables and a step from anywhere keep the formula inside its bits.
constexpr bool are_log_softmax_tables(const std::uint32_t* entries, DType input) noexcept {
    constexpr std::uint32_t one = std::uint32_t{1} << 31, most = std::uint32_t{1} << 26;
    const index_t exponentials = exponential_entries(input);
    bool are = entries[0] == one && (input == DType::int8 || entries[256] == one);
    for (index_t i = 0; i < exponentials; ++i) are = are && entries[i] <= one;
    const std::uint32_t* const logs = entries + exponentials;
    for (index_t i = 0; i <= log_segments; ++i) are = are && logs[i] <= most && (i == 0 || logs[i - 1] <= logs[i]);
    return are;
}
constexpr bool is_log_softmax_step(std::int64_t step) noexcept { return step >= 0 && step < largest_log_softmax_step; }

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_LOG_SOFTMAX_HPP
