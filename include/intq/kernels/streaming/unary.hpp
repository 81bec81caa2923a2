// SPDX-License-Identifier: MIT
//
// Functions of one code as tables: int8 by 256 entries, int16 by 513 and interpolation, by blocks of knots, or by the
// 257 of TFLite's curve; tables that are products. Layer: kernels (docs/arithmetic.md section 4).
#ifndef INTQ_KERNELS_STREAMING_UNARY_HPP
#define INTQ_KERNELS_STREAMING_UNARY_HPP

#include <cstring>

#include "intq/arith/block_table.hpp"
#include "intq/arith/requantize.hpp"
#include "intq/arith/unary.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/unary_call.hpp"
#include "intq/simd/base/code_streams.hpp"
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

/// Whether lanes have tables that are products of int16 as a loop.
template <class L> inline constexpr bool has_code_scale = requires(const simd::CodeScale& scale, std::int8_t* codes) {
    L::scale_codes(scale, codes, codes, index_t{});
};

/// The middle of the scales that round to the entries between the bounds; negative where there are none.
///
///     (y - 1/2) / x <= scale <= (y + 1/2) / x    for entries lowest < y + zero_point < highest, x > 0
inline float middle_scale(const std::int8_t (&entries)[256], std::int32_t zero_x,
                          const arith::OutputCodes& codes) noexcept {
    float least = 0.0f, most = -1.0f;
    for (std::int32_t code = -128; code < 128; ++code) {
        const std::int32_t entry = entries[code + 128], x = code - zero_x;
        if (x == 0 || entry <= codes.lowest || entry >= codes.highest) continue;
        const float y = static_cast<float>(x < 0 ? codes.zero_point - entry : entry - codes.zero_point);
        const float inverse = 1.0f / static_cast<float>(x < 0 ? -x : x);
        const float from = (y - 0.5f) * inverse, to = (y + 0.5f) * inverse;
        if (from > least) least = from;
        if (to < most || most < 0.0f) most = to;
    }
    return most < 0.0f ? most : (least + most) * 0.5f;
}

/// The product of int16 that gives all entries of a table, but two at most, which are corrected by 1.
///
/// Result   false where there is none: at ties that other rules break otherwise, and at scales from 128 on
/// @param entries  the code of each code from -128 to 127
template <class L>
bool find_code_scale(const std::int8_t (&entries)[256], std::int32_t zero_x, const arith::OutputCodes& codes,
                     simd::CodeScale& found) noexcept {
    float multiplier = middle_scale(entries, zero_x, codes) * 32768.0f;
    found = {};
    for (; multiplier > 32767.0f && found.left < 7; ++found.left) multiplier *= 0.5f;
    if (!(multiplier >= 0.0f && multiplier <= 32767.0f)) return false;
    found.zero_x = static_cast<std::int16_t>(zero_x);
    found.multiplier = static_cast<std::int16_t>(multiplier + 0.5f);
    found.zero_point = static_cast<std::int16_t>(codes.zero_point);
    found.lowest = codes.lowest, found.highest = codes.highest;
    std::int8_t x[256], y[256];
    for (int i = 0; i < 256; ++i) x[i] = static_cast<std::int8_t>(i - 128);
    L::scale_codes(found, x, y, 256);
    if (std::memcmp(y, entries, sizeof y) == 0) return true;
    int corrections = 0;
    for (int i = 0; i < 256; ++i) {
        const int missing = entries[i] - y[i];
        if (missing == 0) continue;
        if (corrections == 2 || missing > 1 || missing < -1) return false;
        found.corrected[corrections] = x[i];
        found.correction[corrections++] = static_cast<std::int8_t>(missing);
    }
    return true;
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
