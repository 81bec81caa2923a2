// SPDX-License-Identifier: MIT
//
// Functions of one code as tables: int8 by 256 entries, int16 by 513 and interpolation, by blocks of knots, or by the
// 257 of TFLite's curve. Layer: kernels (docs/arithmetic.md section 4).
#ifndef INTQ_KERNELS_STREAMING_UNARY_HPP
#define INTQ_KERNELS_STREAMING_UNARY_HPP

#include "intq/arith/block_table.hpp"
#include "intq/arith/unary.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/unary_call.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// y[i] = entries[x[i] + 128] for a run of codes.
template <class L>
void look_up_run(const std::int8_t* entries, index_t count, const std::int8_t* x, std::int8_t* y) noexcept {
    constexpr index_t width = L::template packed_width<std::int8_t>();
    const auto table = L::load_table(entries);
    index_t i = 0;
    for (; i + width <= count; i += width) L::store_packed(y + i, L::look_up(table, L::load_packed(x + i)));
    if (i < count) L::store_packed(y + i, L::look_up(table, L::load_packed(x + i, count - i)), count - i);
}

/// Codes of one task of the executor.
inline constexpr index_t look_up_chunk = 16 * 1024;

/// run(first, count) for the tasks of [0, size).
template <class Run> void for_each_look_up(const LookUpCall& call, Run&& run) {
    (*call.executor)(chunks_of(call.size, look_up_chunk), [&](index_t chunk) {
        run(chunk * look_up_chunk, smaller(look_up_chunk, call.size - chunk * look_up_chunk));
    });
}

}  // namespace detail

/// y[i] = entries[x[i] + 128], int8 codes.
///
/// @pre entries made by arith::make_int8_table(); y may be x
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n)
template <class Backend> void look_up_int8(const LookUpCall& call) INTQ_NOEXCEPT {
    detail::for_each_look_up(call, [&](index_t first, index_t count) {
        detail::look_up_run<simd::lanes<Backend>>(static_cast<const std::int8_t*>(call.entries), count,
                                                  static_cast<const std::int8_t*>(call.x) + first,
                                                  static_cast<std::int8_t*>(call.y) + first);
    });
}

namespace detail {

/// y[i] = look_up(x[i]) of int16 codes, in the lanes of a backend.
template <class L, class LookUp> void look_up_int16_codes(const LookUpCall& call, LookUp&& look_up) INTQ_NOEXCEPT {
    for_each_look_up(call, [&](index_t first, index_t count) {
        const auto* const x = static_cast<const std::int16_t*>(call.x) + first;
        store_run<L>(static_cast<std::int16_t*>(call.y) + first, count,
                     [&](index_t i, index_t lanes)
                         INTQ_ALWAYS_INLINE_LAMBDA { return look_up(load_codes<L>(x + i, lanes)); });
    });
}

}  // namespace detail

/// y[i] = the straight line between two entries, int16 codes; see arith::interpolate_table().
///
/// @pre entries made by arith::make_int16_table(); y may be x
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n)
template <class Backend> void look_up_int16(const LookUpCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const auto* const entries = static_cast<const std::int16_t*>(call.entries);
    detail::look_up_int16_codes<L>(
        call, [&](auto x) INTQ_ALWAYS_INLINE_LAMBDA { return arith::interpolate_table<L>(entries, x); });
}

/// y[i] = the straight line between two knots, which lie as close as the function bends, int16 codes; see
/// arith::interpolate_blocks().
///
/// @pre entries made by arith::make_block_table(); y may be x
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n); three reads of the table a code, where look_up_int16() has one
template <class Backend> void look_up_blocks(const LookUpCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const auto* const words = static_cast<const std::int16_t*>(call.entries);
    detail::look_up_int16_codes<L>(
        call, [&](auto x) INTQ_ALWAYS_INLINE_LAMBDA { return arith::interpolate_blocks<L>(words, x); });
}

/// y[i] = sigmoid or tanh of int16 codes as TFLite's kernels compute them; see arith::tflite_curve().
///
/// @pre entries made by arith::make_tflite_curve_table(), curve by arith::make_tflite_curve(); y may be x
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   no scratch
/// Cost     O(n)
template <class Backend> void look_up_tflite_curve(const LookUpCall& call) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    const auto* const entries = static_cast<const std::int16_t*>(call.entries);
    const arith::TfliteCurve curve = call.curve;
    detail::look_up_int16_codes<L>(
        call, [&](auto x) INTQ_ALWAYS_INLINE_LAMBDA { return arith::tflite_curve<L>(entries, curve, x); });
}

namespace detail {

template <class Backend>
inline constexpr LookUpRow look_up_rows[] = {{DType::int8, arith::int8_table_size, &look_up_int8<Backend>},
                                             {DType::int16, arith::int16_table_size, &look_up_int16<Backend>},
                                             {DType::int16, arith::least_block_table_size, &look_up_blocks<Backend>},
                                             {DType::int16, arith::tflite_curve_size, &look_up_tflite_curve<Backend>}};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_UNARY_HPP
