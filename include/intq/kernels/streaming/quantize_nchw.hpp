// SPDX-License-Identifier: MIT
//
// quantize of NCHW images to NHWC codes. A program begins with it. Layer: kernels.
#ifndef INTQ_KERNELS_STREAMING_QUANTIZE_NCHW_HPP
#define INTQ_KERNELS_STREAMING_QUANTIZE_NCHW_HPP

#include <bit>
#include <cstring>

#include "intq/arith/quantize.hpp"
#include "intq/kernels/streaming/quantize.hpp"
#include "intq/kernels/streaming/quantize_call.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

namespace detail {

/// Pixels that one task quantizes: three planes of codes stay in the L1 cache, or on a small stack.
template <class L> inline constexpr index_t plane_chunk = INTQ_SMALL ? 64 : L::width() == 1 ? 256 : 1024;

/// y[3·i + c] = planes[c][i] for i < count, in words of four pixels: for lanes that are one code wide.
template <std::size_t Chunk>
void interleave_words(const std::int8_t (&planes)[3][Chunk], index_t count, std::int8_t* y) noexcept {
    constexpr std::uint32_t even = 0x00ff00ffu, odd = 0xff00ff00u;
    index_t i = 0;
    for (; i + 4 <= count; i += 4) {
        std::uint32_t a, b, c;
        std::memcpy(&a, planes[0] + i, 4);
        std::memcpy(&b, planes[1] + i, 4);
        std::memcpy(&c, planes[2] + i, 4);
        const std::uint32_t p = (a & even) | (b & even) << 8;  // a0 b0 a2 b2
        const std::uint32_t q = (c & even) | (a & odd);        // c0 a1 c2 a3
        const std::uint32_t r = (b >> 8 & even) | (c & odd);   // b1 c1 b3 c3
        const std::uint32_t words[] = {(p & 0xffff) | q << 16, (r & 0xffff) | (p & 0xffff0000u),
                                       q >> 16 | (r & 0xffff0000u)};
        std::memcpy(y + 3 * i, words, sizeof words);
    }
    for (; i < count; ++i)
        for (int c = 0; c < 3; ++c) y[3 * i + c] = planes[c][i];
}

/// The same for any lanes: three channels as one word a pixel, the fourth byte of which the next pixel
/// overwrites.
template <class L>
void interleave_three(const std::int8_t (&planes)[3][plane_chunk<L>], index_t count, std::int8_t* y) {
    if constexpr (L::width() == 1) return interleave_words(planes, count, y);
    alignas(64) std::int32_t words[plane_chunk<L>];
    const auto byte = L::set(std::int32_t{255}), eight = L::set(std::int32_t{8}), sixteen = L::set(std::int32_t{16});
    for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
        const auto channel = [&](int c) INTQ_ALWAYS_INLINE_LAMBDA {
            return L::bit_and(load_codes<L>(planes[c] + i, lanes), byte);
        };
        store_codes<L>(words + i,
                       L::add(channel(0), L::add(L::shift_left(channel(1), eight), L::shift_left(channel(2), sixteen))),
                       lanes);
    });
    for (index_t i = 0; i + 1 < count; ++i) std::memcpy(y + 3 * i, words + i, sizeof words[0]);
    for (int c = 0; c < 3; ++c) y[3 * (count - 1) + c] = planes[c][count - 1];
}

/// Pixels from `first` on of one image.
template <class L, class Op, class Code>
void quantize_pixels(const Op& op, const float* x, index_t channels, index_t plane, index_t first, index_t count,
                     Code* y) {
    Code codes[plane_chunk<L>];
    for (index_t c = 0; c < channels; ++c) {
        op.run(c, count, x + c * plane + first, codes);
        for (index_t i = 0; i < count; ++i) y[i * channels + c] = codes[i];
    }
}

}  // namespace detail

/// Quantizes (N, C, H, W) images in row_major order to channels_last codes.
///
///     out[n][p][c] = quantize(x[n][c][p]) by the formula of quantize()
///
/// @param plane    elements from a plane of x to the next one: `pixels`, or more where only some rows are quantized
/// @param qparams  per tensor, or per channel of axis 1
/// @pre   check_quantize_params()
///
/// Result   exact; the same bytes on every backend and executor
/// Memory   a chunk of codes on the stack
/// Cost     O(n); bound by memory for three int8 channels, by one store an element otherwise
template <class Backend = simd::default_backend, class Code>
INTQ_ALWAYS_INLINE void quantize_nchw(const float* x, index_t images, index_t channels, index_t pixels, index_t plane,
                                      const QParams& qparams, arith::QuantizeRule rule, Code* out,
                                      const Executor& executor) INTQ_NOEXCEPT {
    using L = simd::lanes<Backend>;
    constexpr index_t chunk = detail::plane_chunk<L>;
    const index_t chunks = (pixels + chunk - 1) / chunk;
    arith::with_rule(rule, [&](auto fixed) {
        const detail::QuantizeOp<L, decltype(fixed), Code> op{qparams};
        executor(images * chunks, [&](index_t task) {
            const index_t image = quotient(task, chunks), first = (task - image * chunks) * chunk;
            const index_t count = pixels - first < chunk ? pixels - first : chunk;
            const float* const from = x + image * channels * plane;
            Code* const to = out + (image * pixels + first) * channels;
            if (channels == 1) return op.run(0, count, from + first, to);
            if constexpr (!INTQ_SMALL && detail::quantizes_triples<L, decltype(fixed), Code>)
                if (channels == 3 && op.run_three(plane, count, from + first, to)) return;
            if constexpr (!INTQ_SMALL && std::is_same_v<Code, std::int8_t> &&
                          std::endian::native == std::endian::little)
                if (channels == 3) {
                    std::int8_t planes[3][array_size(chunk)];
                    for (index_t c = 0; c < 3; ++c) op.run(c, count, from + c * plane + first, planes[c]);
                    return detail::interleave_three<L>(planes, count, to);
                }
            detail::quantize_pixels<L>(op, from, channels, plane, first, count, to);
        });
    });
}

namespace detail {

// The rule is a type, so a row holds the code of only one.
template <class Rule, class Backend, class Code>
void quantize_erased(const float* x, const ChannelBlocks& blocks, const QParams& qparams, void* y,
                     const Executor& executor) {
    quantize_blocks<Backend>(x, blocks, qparams, Rule::value, static_cast<Code*>(y), executor);
}
template <class Rule, class Backend, class Code>
void quantize_nchw_erased(const float* x, index_t images, index_t channels, index_t pixels, index_t plane,
                          const QParams& qparams, void* y, const Executor& executor) {
    quantize_nchw<Backend>(x, images, channels, pixels, plane, qparams, Rule::value, static_cast<Code*>(y), executor);
}
template <class Rule, class Backend, class Code> constexpr QuantizeRow quantize_row() noexcept {
    return {dtype_of<Code>, &quantize_erased<Rule, Backend, Code>, &quantize_nchw_erased<Rule, Backend, Code>};
}
template <class TargetType>
using QuantizeRuleOf = arith::FixedQuantizeRule<TargetType::policy.quantize.rounding, TargetType::policy.quantize.by>;
template <class TargetType, class Backend>
inline constexpr QuantizeRow quantize_rows[] = {quantize_row<QuantizeRuleOf<TargetType>, Backend, std::int8_t>(),
                                                quantize_row<QuantizeRuleOf<TargetType>, Backend, std::int16_t>()};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_QUANTIZE_NCHW_HPP
