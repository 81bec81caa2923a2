// SPDX-License-Identifier: MIT
//
// Functions of one int16 code by a table whose knots lie as close as the function bends: at most one code from the
// nearest one, for every input. Layer: arith (docs/arithmetic.md section 4).
//
// The table of 513 entries (arith/unary.hpp) has a knot every 128 codes, rounded to a code. Here each block of 128
// codes has knots of its own distance, 1 to 128 codes, with 8 bits more than a code.
#ifndef INTQ_ARITH_BLOCK_TABLE_HPP
#define INTQ_ARITH_BLOCK_TABLE_HPP

#include <cstdint>
#include <span>

#include "intq/arith/unary.hpp"
#include "intq/core/status.hpp"

namespace intq::arith {
inline namespace INTQ_CORE_ABI {

/// Blocks of 128 codes, each of which has a word: eight times its first knot, and the logarithm of its step.
inline constexpr std::size_t table_blocks = 512;
/// Knots that the words can name, and those of a last block.
inline constexpr std::size_t most_knots = 8192 + 128;
/// Words of int16 of the smallest and of the largest table; a knot has two.
inline constexpr std::size_t least_block_table_size = table_blocks + 2 * 2;
inline constexpr std::size_t largest_block_table_size = table_blocks + 2 * most_knots;

}  // namespace INTQ_CORE_ABI
}  // namespace intq::arith

namespace intq::arith {
inline namespace INTQ_ABI {

/// Whether a table has as many words as one of blocks can have.
constexpr bool is_block_table_size(std::int64_t words) noexcept {
    return words >= static_cast<std::int64_t>(least_block_table_size) &&
           words <= static_cast<std::int64_t>(largest_block_table_size) && words % 2 == 0;
}

/// Whether every block of a table names knots that the table has.
constexpr bool is_block_table(std::span<const std::int16_t> words) noexcept {
    if (!is_block_table_size(static_cast<std::int64_t>(words.size()))) return false;
    const std::size_t knots = (words.size() - table_blocks) / 2;
    for (const std::int16_t word : words.first(table_blocks)) {
        const std::size_t block = static_cast<std::uint16_t>(word);
        if (block / 8 + (std::size_t{128} >> block % 8) >= knots) return false;
    }
    return true;
}

/// The code of `part` of the 2^step codes between two knots.
///
///     y = (first + fl((second - first)·part / 2^step) + 2^7) >> 8
template <Lanes L>
INTQ_ALWAYS_INLINE constexpr typename L::i32 between_knots(typename L::i32 first, typename L::i32 second,
                                                           typename L::i32 part, typename L::i32 step) noexcept {
    const auto rise = L::shift_right(L::mul(L::sub(second, first), part), step);
    return L::shift_right(L::add(L::add(first, rise), L::set(std::int32_t{128})), L::set(std::int32_t{8}));
}

/// y of int16 codes.
///
///     w = T[(x >> 7) + 256] without a sign,  k = w mod 8,  j = fl(w/8) + fl((x mod 128)/2^k),  u = x mod 2^k
///     y = between_knots(N[j], N[j + 1], u, k)
///
/// @param words  T, and behind it N, each the lower sixteen bits first
/// @pre is_block_table(words), |N[j]| <= 2^23
template <Lanes L>
INTQ_ALWAYS_INLINE constexpr typename L::i32 interpolate_blocks(const std::int16_t* words, typename L::i32 x) noexcept {
    const auto one = L::set(std::int32_t{1}), seven = L::set(std::int32_t{7});
    const auto place = L::add(L::shift_right(x, seven), L::set(std::int32_t{256}));
    const auto block = L::bit_and(L::gather_pair(words, place), L::set(std::int32_t{0xffff}));
    const auto step = L::bit_and(block, seven);
    const auto rest = L::bit_and(x, L::set(std::int32_t{127}));
    const auto whole = L::shift_right(rest, step);
    const auto part = L::sub(rest, L::shift_left(whole, step));
    const auto knot = L::shift_left(L::add(L::shift_right(block, L::set(std::int32_t{3})), whole), one);
    const auto first = L::gather_pair(words + table_blocks, knot);
    const auto second = L::gather_pair(words + table_blocks, L::add(knot, L::set(std::int32_t{2})));
    return between_knots<L>(first, second, part, step);
}

namespace detail {

/// f of the codes of a block and of the one behind them, in codes of the output, clamped; NaN counts as 0.
struct BlockOfReals {
    double steps[129];
    std::int32_t codes[128];  // the nearest ones

    template <class Function>
    BlockOfReals(std::int32_t block, const CodesOf& in, const CodesOf& out, CodeRange range,
                 Function&& function) noexcept {
        const auto clamped = [&](double value) {
            const auto low = static_cast<double>(range.quant_min), high = static_cast<double>(range.quant_max);
            return value != value ? 0.0 : value < low ? low : value > high ? high : value;
        };
        for (std::int32_t i = 0; i <= 128; ++i) {
            const auto x = static_cast<double>((block - 256) * 128 + i);
            const double real = function(x * static_cast<double>(in.scale));
            steps[i] = clamped(real / static_cast<double>(out.scale));
            if (i < 128) codes[i] = table_entry(real, out, range);
        }
    }
    /// rhu(2^8·f)
    std::int32_t knot(std::int32_t i) const noexcept {
        return static_cast<std::int32_t>(round_half_up(256.0 * steps[i]));
    }
};

/// The knots of one block, its end included.
struct BlockOfKnots {
    std::int32_t shift = 7;
    std::int32_t knots[129];

    std::int32_t count() const noexcept { return (128 >> shift) + 1; }
    bool equals(const BlockOfKnots& other) const noexcept {
        if (shift != other.shift) return false;
        for (std::int32_t i = 0; i < count(); ++i)
            if (knots[i] != other.knots[i]) return false;
        return true;
    }
    /// The widest step that stays within one code of the nearest ones.
    void choose(const BlockOfReals& reals) noexcept {
        for (shift = 7; shift > 0; --shift) {
            for (std::int32_t i = 0; i < count(); ++i) knots[i] = reals.knot(i << shift);
            if (is_near(reals)) return;
        }
        for (std::int32_t i = 0; i < count(); ++i) knots[i] = reals.knot(i);
    }

private:
    bool is_near(const BlockOfReals& reals) const noexcept {
        for (std::int32_t i = 0; i < 128; ++i) {
            const std::int32_t* const knot = knots + (i >> shift);
            const std::int32_t off =
                between_knots<scalar_lanes>(knot[0], knot[1], i & ((1 << shift) - 1), shift) - reals.codes[i];
            if (off < -1 || off > 1) return false;
        }
        return true;
    }
};

}  // namespace detail

/// The table of any real function of int16 codes, which have no zero points. Every code that interpolate_blocks() gives
/// is at most one from `clamp(rhu(f(x·s_in)/s_out), range)`: each block takes the widest of the steps 128, 64, … 1 with
/// which its 128 codes are, and of equal blocks side by side only the first has knots.
///
///     N[j] = rhu(2^8·clamp(f(x·s_in)/s_out, range)),  x the code of the knot
///
/// @param function  double -> double; NaN counts as 0, infinities become the ends
/// @param words     memory; largest_block_table_size of them always suffice
/// @return the number of words written, is_block_table() of which holds; the errors of make_int16_table();
///         shape_mismatch of storage where `words` are too few; value_out_of_range of storage where the function bends
///         so often that its first knots are beyond 8191
template <class Function>
Result<std::size_t> make_block_table(const CodesOf& in, const CodesOf& out, std::span<std::int16_t> words,
                                     Function&& function, CodeRange range = {INT16_MIN, INT16_MAX}) noexcept {
    if (const Status status = detail::check_table(in, out, range, DType::int16, 0, 0); !status) return status;
    detail::BlockOfKnots block, before;
    std::size_t knots = 0, first = 0;
    for (std::size_t b = 0; b < table_blocks; ++b) {
        block.choose({static_cast<std::int32_t>(b), in, out, range, function});
        if (b == 0 || !block.equals(before)) {
            first = b == 0 ? 0 : knots - 1;  // the last knot of a block is the first of the next
            if (first > 8191)
                return Status{StatusCode::value_out_of_range, OpKind::lookup_table, Field::storage,
                              static_cast<std::int64_t>(first), 8191};
            knots = first + static_cast<std::size_t>(block.count());
            if (table_blocks + 2 * knots > words.size())
                return Status{StatusCode::shape_mismatch, OpKind::lookup_table, Field::storage,
                              static_cast<std::int64_t>(words.size()),
                              static_cast<std::int64_t>(table_blocks + 2 * knots)};
            for (std::int32_t i = 0; i < block.count(); ++i) {
                const auto bits = static_cast<std::uint32_t>(block.knots[i]);
                const std::size_t at = table_blocks + 2 * (first + static_cast<std::size_t>(i));
                words[at] = static_cast<std::int16_t>(bits & 0xffff);
                words[at + 1] = static_cast<std::int16_t>(bits >> 16);
            }
            before = block;
        }
        words[b] = static_cast<std::int16_t>(first * 8 + static_cast<std::size_t>(block.shift));
    }
    return table_blocks + 2 * knots;
}

/// How far a table of 513 entries is from the nearest codes, over all 65,536 inputs.
///
///     max |interpolate_table(x) - clamp(rhu(f(x·s_in)/s_out), range)|
///
/// @param entries  made by make_int16_table() of the same function and codes
/// @param enough   the first distance above it is returned at once
template <class Function>
std::int32_t int16_table_error(const CodesOf& in, const CodesOf& out, std::span<const std::int16_t> entries,
                               Function&& function, CodeRange range, std::int32_t enough = INT32_MAX) noexcept {
    std::int32_t worst = 0;
    for (std::int32_t x = INT16_MIN; x <= INT16_MAX && worst <= enough; ++x) {
        const std::int32_t off =
            interpolate_table<scalar_lanes>(entries.data(), x) -
            table_entry(function(static_cast<double>(x) * static_cast<double>(in.scale)), out, range);
        const std::int32_t size = off < 0 ? -off : off;
        if (size > worst) worst = size;
    }
    return worst;
}

/// The smaller table of the two that stays within one code of the nearest ones: 513 entries, or blocks.
///
/// @param words  largest_block_table_size of them always suffice
/// @return the number of words written, int16_table_size or that of blocks; the errors of make_block_table()
template <class Function>
Result<std::size_t> make_table_within_a_code(const CodesOf& in, const CodesOf& out, std::span<std::int16_t> words,
                                             Function&& function, CodeRange range = {INT16_MIN, INT16_MAX}) noexcept {
    if (words.size() >= int16_table_size) {
        const std::span<std::int16_t> entries = words.first(int16_table_size);
        if (const Status status = make_int16_table(in, out, entries, function, range); !status) return status;
        if (int16_table_error(in, out, entries, function, range, 1) <= 1) return int16_table_size;
    }
    return make_block_table(in, out, words, function, range);
}

}  // namespace INTQ_ABI
}  // namespace intq::arith

#endif  // INTQ_ARITH_BLOCK_TABLE_HPP
