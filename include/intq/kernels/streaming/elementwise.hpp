// SPDX-License-Identifier: MIT
//
// Streaming kernels on codes: add, requantize, relu, mul. Layer: kernels
// (docs/design.md section 5, the third skeleton).
#ifndef INTQ_KERNELS_STREAMING_ELEMENTWISE_HPP
#define INTQ_KERNELS_STREAMING_ELEMENTWISE_HPP

#include "intq/arith/elementwise.hpp"
#include "intq/arith/target.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/elementwise_call.hpp"
#include "intq/kernels/streaming/non_temporal.hpp"
#include "intq/kernels/streaming/short_sum.hpp"
#include "intq/kernels/streaming/unary.hpp"
#include "intq/simd/base/primitives.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// Elements that one task of the executor streams.
inline constexpr index_t stream_chunk = 16 * 1024;

/// Calls body(first, count) for the tasks of [0, size).
template <class Body> void stream(index_t size, const Executor& executor, Body&& body) {
    executor(chunks_of(size, stream_chunk), [&](index_t chunk) {
        const index_t first = chunk * stream_chunk;
        body(first, smaller(stream_chunk, size - first));
    });
}

/// Codes that a repeated code is written to, so that a run reads them as any others.
inline constexpr index_t repeated_codes = 256;

/// Calls run(x, y, out, count) for the runs of an output whose operands are broadcast.
template <class Code, class Run>
void walk_pairs(const PairWalk& walk, const void* x, const void* y, void* out, const Executor& executor, Run&& run) {
    const int last = walk.rank - 1;
    const index_t columns = walk.extents[last];
    index_t rows = 1;
    for (int axis = 0; axis < last; ++axis) rows *= walk.extents[axis];
    const index_t rows_of_task = columns < stream_chunk ? quotient(stream_chunk, columns) : 1;
    const auto run_row = [&](const Code* const* from, Code* to) {
        if (walk.steps[0][last] == 1 && walk.steps[1][last] == 1) return run(from[0], from[1], to, columns);
        const int constant = walk.steps[0][last] == 1 ? 1 : 0;
        Code repeated[repeated_codes];
        for (Code& code : repeated) code = *from[constant];
        for (index_t at = 0; at < columns; at += repeated_codes) {
            const index_t count = smaller(repeated_codes, columns - at);
            const Code* const moving = from[1 - constant] + at;
            run(constant == 0 ? repeated : moving, constant == 0 ? moving : repeated, to + at, count);
        }
    };
    executor(chunks_of(rows, rows_of_task), [&](index_t task) {
        const index_t end = smaller(rows, (task + 1) * rows_of_task);
        for (index_t row = task * rows_of_task; row < end; ++row) {
            index_t rest = row, at[2] = {0, 0};
            for (int axis = last - 1; axis >= 0; --axis) {
                const index_t whole = quotient(rest, walk.extents[axis]);
                const index_t place = rest - whole * walk.extents[axis];
                at[0] += place * walk.steps[0][axis];
                at[1] += place * walk.steps[1][axis];
                rest = whole;
            }
            const Code* const from[2] = {static_cast<const Code*>(x) + at[0], static_cast<const Code*>(y) + at[1]};
            run_row(from, static_cast<Code*>(out) + row * columns);
        }
    });
}

/// Real numbers of two runs of codes, with the zero point of the output, rounded to a third run.
template <class L, class Code, class Real>
INTQ_ALWAYS_INLINE void store_real_pairs(arith::OutputCodes codes, index_t count, const Code* x, const Code* y,
                                         Code* out, const Real& real) noexcept {
    codes.zero_point = 0;  // it is part of the real number
    store_rounded_run<L>(out, count, codes, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
        return real(load_codes<L>(x + i, lanes), load_codes<L>(y + i, lanes));
    });
}

/// The results of a formula for two runs of codes, stored to a third.
template <class L, class Formula, class Code>
INTQ_ALWAYS_INLINE void store_pairs(const Formula& formula, const arith::OutputCodes& codes, index_t count,
                                    const Code* x, const Code* y, Code* out) noexcept {
    if constexpr (requires(typename L::i32 code) { formula.real(code, code); })
        store_real_pairs<L>(codes, count, x, y, out,
                            [&](auto a, auto b) INTQ_ALWAYS_INLINE_LAMBDA { return formula.real(a, b); });
    else
        store_scaled_run<L>(out, count, codes, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            return formula.scaled(load_codes<L>(x + i, lanes), load_codes<L>(y + i, lanes));
        });
}

/// The sums of two runs of codes. Everything that the loop reads is a local: a store of bytes may change everything
/// else.
template <class L, class Policy, class Code>
void add_run(const arith::AddParams& params, index_t count, const Code* x, const Code* y, Code* out) noexcept {
    if constexpr (has_short_sums<L, Policy, Code>())
        if (has_short_sum(params)) return add_short_run<L>(params, count, x, y, out);
    if constexpr (std::is_same_v<Policy, arith::fixed_point<arith::double_rounding>> &&
                  std::is_same_v<Code, std::int16_t> && has_int16_sum_loop<L>)
        if (has_short_int16_sum(params)) return add_short_run<L>(params, count, x, y, out);
    const arith::AddLanes<Policy, L> formula(params);
    if constexpr (std::is_same_v<Policy, arith::float_scale>)
        if (!INTQ_SMALL && params.zero_point[0] == 0 && params.zero_point[1] == 0 && params.codes.zero_point == 0)
            return store_real_pairs<L>(params.codes, count, x, y, out, [&](auto a, auto b) INTQ_ALWAYS_INLINE_LAMBDA {
                return formula.real_without_offset(a, b);
            });
    store_pairs<L>(formula, params.codes, count, x, y, out);
}

}  // namespace detail

/// out[i] = requantize(x[i]·s_x + y[i]·s_y), by the formula of the policy in arith/elementwise.hpp
///
/// @pre params made by arith::make_add; out may be an operand that is not broadcast
/// Result   exact; the same bytes on every backend
/// Cost     O(n); bound by memory
template <class Backend, class Policy, class Code> void add_codes(const AddCall& call) INTQ_NOEXCEPT {
    const auto run = [&](index_t first, index_t count, Code* out) {
        detail::add_run<simd::lanes<Backend>, Policy>(*call.params, count, static_cast<const Code*>(call.x) + first,
                                                      static_cast<const Code*>(call.y) + first, out);
    };
    if (call.walk != nullptr)
        return detail::walk_pairs<Code>(*call.walk, call.x, call.y, call.out, *call.executor,
                                        [&](const Code* x, const Code* y, Code* out, index_t count) {
                                            detail::add_run<simd::lanes<Backend>, Policy>(*call.params, count, x, y,
                                                                                          out);
                                        });
    const bool is_large = detail::is_non_temporal(call.size * static_cast<index_t>(sizeof(Code)));
    detail::stream(call.size, *call.executor, [&](index_t first, index_t count) {
        Code* const out = static_cast<Code*>(call.out) + first;
        if (!is_large) return run(first, count, out);
        detail::write_non_temporal(out, count,
                                   [&](index_t at, index_t piece, Code* to) { run(first + at, piece, to); });
    });
}

namespace detail {

template <class T> void copy_rows(const RequantizeCall& call, const T* x, T* y) noexcept {
    for (index_t row = 0; row < call.rows; ++row)
        for (index_t i = 0; i < call.columns; ++i) y[row * call.y_stride + i] = x[row * call.x_stride + i];
}

/// The requantized codes of a run.
template <class L, class Policy, class X, class Y>
void requantize_run(const RequantizeParams& params, index_t count, const X* x, Y* y) noexcept {
    const auto channel = Policy::template set<L>(params.words);
    const arith::OutputLanes<L> out(params.codes);
    const auto zero_point = L::set(params.zero_point);
    store_scaled_run<L>(y, count, params.codes, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
        return Policy::template scaled<L>(L::sub(load_codes<L>(x + i, lanes), zero_point), channel, out);
    });
}

/// This many int8 codes or more are requantized by a table, which costs as much as 256 of them.
inline constexpr index_t worth_a_table = 1024;
/// And this many by a product that gives the table, where it is faster than look-ups: to find it takes as long as to
/// look up 4000 codes.
inline constexpr index_t worth_a_scale = 8192;

/// y of each code from -128 to 127.
template <class L, class Policy>
void requantize_table(const RequantizeParams& params, std::int8_t (&entries)[256]) noexcept {
    std::int8_t codes[256];
    for (int i = 0; i < 256; ++i) codes[i] = static_cast<std::int8_t>(i - 128);
    requantize_run<L, Policy>(params, 256, codes, entries);
}

/// run(count, x, y) for pieces of the rows; rows without a gap are one.
template <class X, class Y, class Run> void requantize_pieces(const RequantizeCall& call, Run&& run) {
    const auto* const x = static_cast<const X*>(call.x);
    auto* const y = static_cast<Y*>(call.y);
    const bool is_one_row = call.x_stride == call.columns && call.y_stride == call.columns;
    const index_t rows = is_one_row ? 1 : call.rows, columns = is_one_row ? call.rows * call.columns : call.columns;
    const index_t chunks = chunks_of(columns, stream_chunk);
    (*call.executor)(rows * chunks, [&](index_t task) {
        const index_t row = task / chunks, first = task % chunks * stream_chunk;
        run(smaller(stream_chunk, columns - first), x + row * call.x_stride + first, y + row * call.y_stride + first);
    });
}

}  // namespace detail

/// y[r][i] = requantize(x[r][i] - zp_in)
/// @pre params made by make_requantize
template <class Backend, class Policy, class X, class Y>
void requantize_codes(const RequantizeCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    if constexpr (std::is_same_v<X, Y>)
        if (call.params->is_identity)
            return detail::copy_rows(call, static_cast<const X*>(call.x), static_cast<Y*>(call.y));
    if constexpr (std::is_same_v<X, std::int8_t> && std::is_same_v<Y, std::int8_t>)
        if (call.rows * call.columns >= detail::worth_a_table) {
            std::int8_t entries[256];
            detail::requantize_table<L, Policy>(*call.params, entries);
            if constexpr (detail::has_code_scale<L>) {
                simd::CodeScale scale;
                if (call.rows * call.columns >= detail::worth_a_scale &&
                    detail::find_code_scale<L>(entries, call.params->zero_point, call.params->codes, scale))
                    return detail::requantize_pieces<X, Y>(
                        call, [&](index_t count, const X* x, Y* y) { L::scale_codes(scale, x, y, count); });
            }
            return detail::requantize_pieces<X, Y>(
                call, [&](index_t count, const X* x, Y* y) { detail::look_up_run<L>(entries, count, x, y); });
        }
    detail::requantize_pieces<X, Y>(
        call, [&](index_t count, const X* x, Y* y) { detail::requantize_run<L, Policy>(*call.params, count, x, y); });
}

/// y[i] = clamp(x[i], lowest, highest): relu and relu6 on codes, exact; the scale stays.
/// @pre lowest and highest are codes
template <class Backend, class Code> void clamp_codes(const ClampCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    constexpr index_t width = L::template packed_width<Code>();
    const auto lowest = L::set_packed(static_cast<Code>(call.codes.lowest)),
               highest = L::set_packed(static_cast<Code>(call.codes.highest));
    const auto clamp = [&](auto x)
                           INTQ_ALWAYS_INLINE_LAMBDA { return L::min_packed(L::max_packed(x, lowest), highest); };
    detail::stream(call.size, *call.executor, [&](index_t first, index_t count) {
        const auto* const x = static_cast<const Code*>(call.x) + first;
        auto* const y = static_cast<Code*>(call.y) + first;
        index_t i = 0;
        for (; i + width <= count; i += width) L::store_packed(y + i, clamp(L::load_packed(x + i)));
        if (i < count) L::store_packed(y + i, clamp(L::load_packed(x + i, count - i)), count - i);
    });
}

/// out[i] = requantize((x[i] - zx)·(y[i] - zy)), by arith/elementwise.hpp
///
/// @pre params made by arith::make_mul; out may be an operand that is not broadcast
/// Result   exact; the same bytes on every backend
/// Cost     O(n)
template <class Backend, class Policy, class Code> void mul_codes(const MulCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const arith::MulLanes<Policy, L> formula(*call.params, Policy::template set<L>(call.params->words));
    const auto run = [&](const Code* x, const Code* y, Code* out, index_t size) {
        detail::store_pairs<L>(formula, call.params->codes, size, x, y, out);
    };
    if (call.walk != nullptr)
        return detail::walk_pairs<Code>(*call.walk, call.x, call.y, call.out, *call.executor, run);
    const auto* const x = static_cast<const Code*>(call.x);
    const auto* const y = static_cast<const Code*>(call.y);
    auto* const out = static_cast<Code*>(call.out);
    detail::stream(call.size, *call.executor,
                   [&](index_t first, index_t count) { run(x + first, y + first, out + first, count); });
}

namespace detail {

/// The policy for sums of 32 bits: adds and codes, also of a target whose convolutions sum in 64.
template <class TargetType> using NarrowPolicy = arith::RequantizePolicy<TargetType, std::int32_t>;
template <class TargetType, class Backend>
inline constexpr AddRow add_rows[] = {
    {DType::int8, NarrowPolicy<TargetType>::name, &add_codes<Backend, NarrowPolicy<TargetType>, std::int8_t>},
    {DType::int16, NarrowPolicy<TargetType>::name, &add_codes<Backend, NarrowPolicy<TargetType>, std::int16_t>}};

template <class TargetType, class Backend>
inline constexpr MulRow mul_rows[] = {
    {DType::int8, NarrowPolicy<TargetType>::name, &mul_codes<Backend, NarrowPolicy<TargetType>, std::int8_t>},
    {DType::int16, NarrowPolicy<TargetType>::name, &mul_codes<Backend, NarrowPolicy<TargetType>, std::int16_t>}};

template <class TargetType, class Backend, class X, class Y> constexpr RequantizeRow requantize_row() noexcept {
    return {dtype_of<X>, dtype_of<Y>, NarrowPolicy<TargetType>::name,
            &requantize_codes<Backend, NarrowPolicy<TargetType>, X, Y>};
}
template <class TargetType, class Backend>
inline constexpr RequantizeRow requantize_rows[] = {requantize_row<TargetType, Backend, std::int8_t, std::int8_t>(),
                                                    requantize_row<TargetType, Backend, std::int8_t, std::int16_t>(),
                                                    requantize_row<TargetType, Backend, std::int16_t, std::int8_t>(),
                                                    requantize_row<TargetType, Backend, std::int16_t, std::int16_t>()};

template <class Backend>
inline constexpr ClampRow clamp_rows[] = {{DType::int8, &clamp_codes<Backend, std::int8_t>},
                                          {DType::int16, &clamp_codes<Backend, std::int16_t>}};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_ELEMENTWISE_HPP
