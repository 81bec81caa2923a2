// SPDX-License-Identifier: MIT
//
// quantize: float tensor -> codes, per tensor or per channel. Layer: kernels (docs/arithmetic.md section 1).
#ifndef INTQ_KERNELS_STREAMING_QUANTIZE_HPP
#define INTQ_KERNELS_STREAMING_QUANTIZE_HPP

#include <cstdint>

#include "intq/arith/quantize.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/non_temporal.hpp"
#include "intq/kernels/streaming/quantize_call.hpp"
#include "intq/simd/base/code_streams.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Checks the arguments of quantize().
///
/// @return ok; shape_mismatch of output, with the first extents that differ; the errors of check_quantize_params()
template <class X, class Code, int Rank, class XLayout, class OutLayout, class XExtents, class OutExtents>
constexpr Status check_quantize(const TensorView<X, Rank, XLayout, XExtents>& x, const QParams& qparams,
                                arith::QuantizeRule rule,
                                const TensorView<Code, Rank, OutLayout, OutExtents>& out) noexcept {
    const Status status = detail::check_extents(x.shape(), out.shape(), OpKind::quantize, Field::output);
    if (!status.ok()) return status;
    return check_quantize_params(qparams, dtype_of<Code>, x.shape(), rule);
}

namespace detail {

/// The quantizer of one channel in all lanes.
template <class L, class Rule>
INTQ_ALWAYS_INLINE arith::LaneQuantizer<L, Rule> quantizer_of(const QParams& qparams, index_t channel) {
    return arith::LaneQuantizer<L, Rule>::make(scale_of<L>(qparams, channel), zero_point_of<L>(qparams, channel),
                                               qparams.quant_min(), qparams.quant_max());
}

/// The quantizers of the channels of a piece, in memory, so that their division is done once.
template <class L, class Rule> struct QuantizerPiece {
    static constexpr bool is_symmetric = false;
    ChannelPairs pairs;
    alignas(64) float inverse[channel_block], low[channel_block], high[channel_block];

    void fill(const QParams& qparams, index_t first, index_t count, index_t at) {
        pairs.fill(qparams, first, count, at);
        for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            const auto quantizer = arith::LaneQuantizer<L, Rule>::make(load_floats<L>(pairs.scale + at + i, lanes),
                                                                       load_codes<L>(pairs.zero_point + at + i, lanes),
                                                                       qparams.quant_min(), qparams.quant_max());
            store_floats<L>(inverse + at + i, quantizer.inverse, lanes);
            store_floats<L>(low + at + i, quantizer.low, lanes);
            store_floats<L>(high + at + i, quantizer.high, lanes);
        });
    }
    INTQ_ALWAYS_INLINE arith::LaneQuantizer<L, Rule> at(index_t i, index_t lanes) const {
        return {load_floats<L>(pairs.scale + i, lanes), load_floats<L>(inverse + i, lanes),
                load_floats<L>(low + i, lanes), load_floats<L>(high + i, lanes),
                load_codes<L>(pairs.zero_point + i, lanes)};
    }
};

/// The same where every zero point is 0: bounds that all channels share stay in registers.
template <class L, class Rule> struct SymmetricPiece {
    static constexpr bool is_symmetric = true;
    const QuantizerPiece<L, Rule>& piece;
    arith::LaneQuantizer<L, Rule> shared;

    INTQ_ALWAYS_INLINE arith::LaneQuantizer<L, Rule> at(index_t i, index_t lanes) const {
        return {load_floats<L>(piece.pairs.scale + i, lanes), load_floats<L>(piece.inverse + i, lanes), shared.low,
                shared.high, shared.zero_point};
    }
};

/// Calls body(offset, count, piece) for the pieces of rows of channels.
template <class L, class Rule, class Body>
INTQ_ALWAYS_INLINE void for_each_quantizer_piece(const QParams& qparams, index_t first_channel, index_t channels,
                                                 index_t rows, Body&& body) {
    QuantizerPiece<L, Rule> piece;
    const auto fill = [&](index_t first, index_t count, index_t at)
                          INTQ_ALWAYS_INLINE_LAMBDA { piece.fill(qparams, first_channel + first, count, at); };
    if (!qparams.is_symmetric()) {
        for_each_piece(channels, rows, fill,
                       [&](index_t offset, index_t count) INTQ_ALWAYS_INLINE_LAMBDA { body(offset, count, piece); });
        return;
    }
    const SymmetricPiece<L, Rule> symmetric{
        piece, arith::LaneQuantizer<L, Rule>::make(L::set(1.0f), L::set(std::int32_t{0}), qparams.quant_min(),
                                                   qparams.quant_max())};
    for_each_piece(channels, rows, fill,
                   [&](index_t offset, index_t count) INTQ_ALWAYS_INLINE_LAMBDA { body(offset, count, symmetric); });
}

/// Whether lanes have the loop themselves.
template <class L, class Rule, class Code>
inline constexpr bool has_quantize_loop = std::is_same_v<Code, std::int8_t>&& Rule::value.rounding ==
                                          arith::Rounding::half_even&& Rule::value.by ==
                                          arith::QuantizeBy::reciprocal&& requires(const simd::CodeQuantizer& run) {
    L::template quantize_codes<simd::Saturation::any>(run);
};

/// Whether three planes of this code are quantized together.
template <class L, class Rule, class Code>
inline constexpr bool quantizes_triples = has_quantize_loop<L, Rule, Code> ||
                                          (std::is_same_v<Code, std::int8_t> && requires(typename L::i32 x) {
                                              L::store_triples(static_cast<std::int8_t*>(nullptr), x);
                                          });

template <class L, class Rule, class Code> struct QuantizeOp {
    const QParams& qparams;

    /// Three planes as pixels; false where these parameters need the general form.
    bool run_three(index_t plane, index_t count, const float* x, Code* out) const {
        if (qparams.is_per_channel()) return false;
        if constexpr (!has_quantize_loop<L, Rule, Code>) {
            run_triples(quantizer_of<L, Rule>(qparams, 0), plane, count, x, out);
            return true;
        } else {
            const auto quantizer = quantizer_of<L, Rule>(qparams, 0);
            if (!takes_loop(quantizer) || !has_all_codes()) return false;
            const index_t groups = (count - 1) / 4;  // the loop writes a byte more
            if (groups > 0)
                L::quantize_three({{x, x + plane, x + 2 * plane},
                                   out,
                                   quantizer.inverse,
                                   quantizer.zero_point,
                                   static_cast<std::int32_t>(groups),
                                   INT8_MIN,
                                   INT8_MAX});
            for (index_t i = 4 * groups; i < count; ++i)
                for (index_t c = 0; c < 3; ++c)
                    out[3 * i + c] = static_cast<Code>(quantizer.quantize(x[c * plane + i]));
            return true;
        }
    }

    INTQ_OUT_OF_LINE void run(index_t channel, index_t count, const float* x, Code* out) const {
        const auto quantizer = quantizer_of<L, Rule>(qparams, channel);
        if constexpr (has_quantize_loop<L, Rule, Code>)
            if (takes_loop(quantizer)) return run_loop(quantizer, count, x, out);
        if constexpr (is_one_by_one<L> || has_quantize_loop<L, Rule, Code>) {
            for (index_t i = 0; i < count; ++i) out[i] = static_cast<Code>(quantizer.quantize(x[i]));
            return;
        }
        const std::int32_t zero_point = qparams.zero_point(qparams.is_per_channel() ? channel : 0);
        if constexpr (rounds_as_stored) {
            store_rounded_run<L>(out, count, codes(zero_point),
                                 [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                                     return quantizer.real_steps(load_floats<L>(x + i, lanes));
                                 });
        } else {
            store_run<L>(out, count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                return quantizer.quantize(load_floats<L>(x + i, lanes));
            });
        }
    }
    void rows(index_t first, index_t channels, index_t rows, const float* x, Code* out) const {
        if constexpr (is_seldom_one_by_one<L>) {
            for (index_t c = 0; c < channels; ++c) {
                const auto quantizer = quantizer_of<L, Rule>(qparams, first + c);
                for (index_t i = c; i < rows * channels; i += channels)
                    out[i] = static_cast<Code>(quantizer.quantize(x[i]));
            }
            return;
        }
        if constexpr (rounds_as_stored && HasRoundingStore<L>)
            if (channels == 4 * L::width() && qparams.is_symmetric()) return rows_of_four(first, rows, x, out);
        for_each_quantizer_piece<L, Rule>(
            qparams, first, channels, rows,
            [&](index_t offset, index_t count, const auto& piece) INTQ_ALWAYS_INLINE_LAMBDA {
                const auto load = [&](index_t i, index_t lanes)
                                      INTQ_ALWAYS_INLINE_LAMBDA { return load_floats<L>(x + offset + i, lanes); };
                if constexpr (rounds_as_stored && std::remove_reference_t<decltype(piece)>::is_symmetric) {
                    store_rounded_run<L>(out + offset, count, codes(0),
                                         [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                                             return piece.at(i, lanes).real_steps(load(i, lanes));
                                         });
                } else {
                    store_run<L>(out + offset, count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                        return piece.at(i, lanes).quantize(load(i, lanes));
                    });
                }
            });
    }

private:
    /// A pixel's codes are the low bytes of a lane.
    static void run_triples(const arith::LaneQuantizer<L, Rule>& quantizer, index_t plane, index_t count,
                            const float* x, Code* out) {
        constexpr index_t width = L::width();
        const auto byte = L::set(std::int32_t{255});
        const auto eight = L::set(std::int32_t{8}), sixteen = L::set(std::int32_t{16});
        const auto pixels = [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            const auto code = [&](index_t c) INTQ_ALWAYS_INLINE_LAMBDA {
                return quantizer.quantize(load_floats<L>(x + c * plane + i, lanes));
            };
            const auto low = L::add(L::bit_and(code(0), byte), L::shift_left(L::bit_and(code(1), byte), eight));
            return L::add(low, L::shift_left(code(2), sixteen));
        };
        index_t i = 0;
        for (; i + width <= count; i += width) L::store_triples(out + 3 * i, pixels(i, width));
        if (i == count) return;
        Code last[array_size(3 * width)];
        L::store_triples(last, pixels(i, count - i));
        for (index_t k = 0; k < 3 * (count - i); ++k) out[3 * i + k] = last[k];
    }

    bool has_all_codes() const noexcept { return qparams.quant_min() == INT8_MIN && qparams.quant_max() == INT8_MAX; }
    /// Whether the loop of the lanes gives the same codes. It differs from quantize() in two ways, and these are the
    /// bounds within which neither is seen.
    ///
    /// - It takes floats below 2^-126 as zeros (Helium always does). The inverse is none of them. For such an x,
    /// quantize()
    ///   rounds a product below 2^-126 · 2^100 = 2^-26, and for a product that becomes a zero, one below 2^-126: either
    ///   is less than 1/2, so that both give 0.
    /// - It rounds p = fl(x · inverse) first, keeps what does not fit at the ends of int32, adds the zero point with
    ///   saturation, and clamps last; quantize() clamps p to [lowest - zp, highest - zp] first. These ends are whole
    ///   numbers below 2^24, which rounding keeps, and rounding is monotone, so the order does not matter. A p beyond
    ///   int32, or an infinity, is beyond the ends in both. A NaN is 0 in both; the loop makes no other one, because no
    ///   infinity meets a zero: the inverse is neither.
    static bool takes_loop(const arith::LaneQuantizer<L, Rule>& quantizer) noexcept {
        return quantizer.inverse >= 0x1p-126f && quantizer.inverse <= 0x1p100f;
    }
    void run_loop(const arith::LaneQuantizer<L, Rule>& quantizer, index_t count, const float* x, Code* out) const {
        if (count == 0) return;
        const simd::CodeQuantizer run{{x},
                                      out,
                                      quantizer.inverse,
                                      quantizer.zero_point,
                                      static_cast<std::int32_t>(count),
                                      static_cast<std::int32_t>(qparams.quant_min()),
                                      static_cast<std::int32_t>(qparams.quant_max())};
        if (!INTQ_SMALL && has_all_codes())
            L::template quantize_codes<simd::Saturation::int8>(run);
        else
            L::template quantize_codes<simd::Saturation::any>(run);
    }

    /// With as many channels as four vectors have lanes, the reciprocals stay in registers.
    void rows_of_four(index_t first, index_t rows, const float* x, Code* out) const {
        constexpr index_t width = L::width();
        const typename L::CodeQuad quad(0, codes(0).lowest, codes(0).highest);
        QuantizerPiece<L, Rule> piece;
        piece.fill(qparams, first, 4 * width, 0);
        const auto a = piece.at(0, width), b = piece.at(width, width), c = piece.at(2 * width, width),
                   d = piece.at(3 * width, width);
        for (index_t row = 0; row < rows; ++row, x += 4 * width, out += 4 * width)
            quad.store_rounded(out, a.real_steps(L::load(x)), b.real_steps(L::load(x + width)),
                               c.real_steps(L::load(x + 2 * width)), d.real_steps(L::load(x + 3 * width)));
    }

    /// Codes that are rounded and narrowed four vectors at a time, and clamped after that.
    static constexpr bool rounds_as_stored =
        std::is_same_v<Code, std::int8_t> && Rule::value.rounding == arith::Rounding::half_even;
    arith::OutputCodes codes(std::int32_t zero_point) const {
        return {zero_point, static_cast<std::int32_t>(qparams.quant_min()),
                static_cast<std::int32_t>(qparams.quant_max())};
    }
};

}  // namespace detail

/// quantize() on contiguous memory, with extents in place of views, for a table of kernels.
/// @pre check_quantize_params()
template <class Backend = simd::default_backend, class Code>
INTQ_ALWAYS_INLINE void quantize_blocks(const float* x, const ChannelBlocks& blocks, const QParams& qparams,
                                        arith::QuantizeRule rule, Code* out, const Executor& executor) INTQ_NOEXCEPT {
    arith::with_rule(rule, [&](auto fixed) {
        detail::walk_blocks_to(detail::QuantizeOp<simd::lanes<Backend>, decltype(fixed), Code>{qparams}, blocks,
                               executor, x, out);
    });
}

/// Quantizes a float tensor.
///
///     out[i] = clamp(R(x[i] · (1/s_c)) + zp_c, quant_min, quant_max)
///
/// @param x        any layout; NaN becomes the zero point, infinities the ends (check_finite() finds them)
/// @param qparams  per tensor or per channel
/// @param rule     rounding, and reciprocal or division: a target's policy
/// @param out      int8, int16, int32 or uint8; any layout; must not overlap x
/// @pre   check_quantize()
///
/// Result   exact; the same bytes on every backend, layout and executor
/// Memory   no scratch
/// Cost     O(n); bound by memory
/// Source   docs/arithmetic.md section 1; PyTorch quantize_per_tensor and quantize_per_channel
template <class Backend = simd::default_backend, class X, class Code, int Rank, class XLayout, class OutLayout,
          class XExtents, class OutExtents>
INTQ_ALWAYS_INLINE void quantize(const TensorView<X, Rank, XLayout, XExtents>& x, const QParams& qparams,
                                 arith::QuantizeRule rule, const TensorView<Code, Rank, OutLayout, OutExtents>& out,
                                 const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_quantize(x, qparams, rule, out).ok());
    const TensorView<const float, Rank, XLayout, XExtents> input = x;
    if (detail::same_order(input, out)) {
        quantize_blocks<Backend>(input.data(), channel_blocks(input, qparams.axis()), qparams, rule, out.data(),
                                 executor);
        return;
    }
    arith::with_rule(rule, [&](auto fixed) {
        detail::walk_rows(detail::QuantizeOp<simd::lanes<Backend>, decltype(fixed), Code>{qparams}, qparams.axis(),
                          executor, input, out);
    });
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_QUANTIZE_HPP
