// SPDX-License-Identifier: MIT
//
// A function of one code as a table, on views. Layer: kernels (docs/design.md section 5).
#ifndef INTQ_KERNELS_VIEWS_UNARY_HPP
#define INTQ_KERNELS_VIEWS_UNARY_HPP

#include <cstdint>
#include <span>
#include <type_traits>

#include "intq/arith/block_table.hpp"
#include "intq/arith/codes.hpp"
#include "intq/arith/unary.hpp"
#include "intq/core/executor.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/unary.hpp"
#include "intq/kernels/views/code_view.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Entries of a table: 256 for int8, 513 for int16.
template <class Code>
inline constexpr std::size_t lookup_table_size =
    std::is_same_v<Code, std::int8_t> ? arith::int8_table_size : arith::int16_table_size;

/// Fills the table of any function double -> double, for lookup_table().
///
///     entries = f(the real number of the code) as the nearest code of the output
///
/// @tparam Code     int8_t or int16_t
/// @param function  NaN counts as 0, infinities become the ends
/// @param in, out   codes of that type
/// @param entries   lookup_table_size of them; they must outlive the runs
/// @return ok; the errors of arith::make_int8_table() or arith::make_int16_table()
template <class Code, class Function>
Status make_lookup_table(Function&& function, const arith::CodesOf& in, const arith::CodesOf& out,
                         std::span<Code> entries) noexcept {
    static_assert(is_code<Code>, "make_lookup_table<Code>: Code must be int8_t or int16_t");
    if constexpr (std::is_same_v<Code, std::int8_t>)
        return arith::make_int8_table(in, out, entries, function);
    else
        return arith::make_int16_table(in, out, entries, function);
}

/// The same for a named function.
///
/// @param slope  elu: its limit; leaky_relu: the factor of negative x
/// @return as above, and unsupported for int16 codes where 512 straight pieces do not hold the function
template <class Code>
Status make_lookup_table(TableFunction function, const arith::CodesOf& in, const arith::CodesOf& out,
                         std::span<Code> entries, double slope = 1.0) noexcept {
    static_assert(is_code<Code>, "make_lookup_table<Code>: Code must be int8_t or int16_t");
    if constexpr (std::is_same_v<Code, std::int8_t>)
        return arith::make_int8_table(function, in, out, entries, slope);
    else
        return arith::make_int16_table(function, in, out, entries, slope);
}

namespace detail {

/// Whether a table is one of blocks of int16 codes, by its size.
template <class Code> constexpr bool has_blocks(std::span<const Code> entries) noexcept {
    return std::is_same_v<Code, std::int16_t> && arith::is_block_table_size(static_cast<std::int64_t>(entries.size()));
}

}  // namespace detail

/// The smaller table of int16 codes that is at most one code from the nearest one for all 65,536 inputs, for
/// lookup_table(): 513 entries, or knots in blocks, at most 6 KB for the functions of TableFunction.
///
/// @param function  double -> double; NaN counts as 0, infinities become the ends
/// @param words     memory; arith::largest_block_table_size of them always suffice. What the result counts must outlive
///                  the runs
/// @return the number of words written; the errors of arith::make_table_within_a_code()
template <class Function>
Result<std::size_t> make_table_within_a_code(Function&& function, const arith::CodesOf& in, const arith::CodesOf& out,
                                             std::span<std::int16_t> words) noexcept {
    return arith::make_table_within_a_code(in, out, words, function);
}

/// The same for a named function; every one has such a table.
///
/// @param slope  as of make_lookup_table()
inline Result<std::size_t> make_table_within_a_code(TableFunction function, const arith::CodesOf& in,
                                                    const arith::CodesOf& out, std::span<std::int16_t> words,
                                                    double slope = 1.0) noexcept {
    return arith::make_table_within_a_code(in, out, words,
                                           [&](double x) { return arith::table_function(function, x, slope); });
}

/// @return ok; shape_mismatch of output, with the first extents that differ, and of storage for another number of
///         entries, which for int16 may be that of make_table_within_a_code() too; corrupt of storage for blocks of
///         knots that it lacks
template <CodeView X, CodeView Out>
requires SameCodes<X, Out>
constexpr Status check_lookup_table(const X& x, std::span<const typename X::value_type> entries,
                                    const Out& out) noexcept {
    constexpr OpKind op = OpKind::lookup_table;
    constexpr std::size_t size = lookup_table_size<typename X::value_type>;
    if (detail::has_blocks(entries)) {
        if constexpr (std::is_same_v<typename X::value_type, std::int16_t>)
            if (!arith::is_block_table(entries)) return {StatusCode::corrupt, op, Field::storage, 0, 0};
    } else if (entries.size() != size)
        return {StatusCode::shape_mismatch, op, Field::storage, static_cast<std::int64_t>(entries.size()),
                static_cast<std::int64_t>(size)};
    return detail::check_extents(x.shape(), out.shape(), op, Field::output);
}

/// Any function of one code.
///
///     int8:   out[i] = entries[x[i] + 128]
///     int16:  out[i] = the straight line between two entries; see arith::interpolate_table() and, for tables of
///             blocks, arith::interpolate_blocks()
///
/// @param x        int8 or int16 codes, row_major or channels_last
/// @param entries  made by make_lookup_table() or make_table_within_a_code()
/// @param out      shaped, ordered and typed as x; may be x
/// @pre   check_lookup_table()
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n)
/// Source   docs/arithmetic.md section 4
template <class Backend = simd::default_backend, CodeView X, CodeOutput Out>
requires SameCodes<X, Out>
void lookup_table(const X& x, std::span<const typename X::value_type> entries, const Out& out,
                  const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_lookup_table(x, entries, out).ok());
    const LookUpCall call{
        .entries = entries.data(), .x = x.data(), .y = out.data(), .size = x.size(), .executor = &executor};
    if constexpr (std::is_same_v<typename X::value_type, std::int8_t>)
        look_up_int8<Backend>(call);
    else if (detail::has_blocks(entries))
        look_up_blocks<Backend>(call);
    else
        look_up_int16<Backend>(call);
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_VIEWS_UNARY_HPP
