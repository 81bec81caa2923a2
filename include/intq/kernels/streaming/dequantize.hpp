// SPDX-License-Identifier: MIT
//
// dequantize: codes or int32 accumulators -> float, per tensor or per channel. Layer: kernels
// (docs/arithmetic.md section 1).
#ifndef INTQ_KERNELS_STREAMING_DEQUANTIZE_HPP
#define INTQ_KERNELS_STREAMING_DEQUANTIZE_HPP

#include "intq/arith/quantize.hpp"
#include "intq/kernels/streaming/channel_walk.hpp"
#include "intq/kernels/streaming/non_temporal.hpp"
#include "intq/kernels/streaming/quantize_call.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Checks the arguments of dequantize(). The range of the codes is not checked, because dequantize() does not use it.
///
/// @return ok; shape_mismatch of output, with the first extents that differ; axis; shape_mismatch of scale;
///         the errors of check_scale()
template <class Code, int Rank, class QLayout, class OutLayout, class QExtents, class OutExtents>
constexpr Status check_dequantize(const TensorView<Code, Rank, QLayout, QExtents>& q, const QParams& qparams,
                                  const TensorView<float, Rank, OutLayout, OutExtents>& out) noexcept {
    constexpr OpKind op = OpKind::dequantize;
    if (const Status status = detail::check_extents(q.shape(), out.shape(), op, Field::output); !status) return status;
    if (qparams.is_per_channel() && qparams.axis() < 0)
        return {StatusCode::value_out_of_range, op, Field::axis, qparams.axis(), 0};
    if (qparams.axis() >= Rank) return {StatusCode::value_out_of_range, op, Field::axis, qparams.axis(), Rank - 1};
    if (qparams.is_per_channel() && qparams.count() != q.extent(qparams.axis()))
        return {StatusCode::shape_mismatch, op, Field::scale, qparams.count(), q.extent(qparams.axis())};
    for (index_t channel = 0; channel < qparams.count(); ++channel) {
        const index_t named = qparams.is_per_channel() ? channel : -1;
        if (const Status status = check_scale(qparams.scale(channel), op, Field::none, named); !status) return status;
    }
    return {};
}

namespace detail {

template <class L, class Code> struct DequantizeOp {
    const QParams& qparams;

    void run(index_t channel, index_t count, const Code* q, float* out) const {
        const auto scale = scale_of<L>(qparams, channel);
        const auto zero_point = zero_point_of<L>(qparams, channel);
        for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            store_floats<L>(out + i, arith::dequantize_lanes<L>(load_codes<L>(q + i, lanes), zero_point, scale), lanes);
        });
    }
    void rows(index_t first_channel, index_t channels, index_t rows, const Code* q, float* out) const {
        if constexpr (is_seldom_one_by_one<L>) {
            for (index_t row = 0; row < rows; ++row, q += channels, out += channels)
                for (index_t c = 0; c < channels; ++c) run(first_channel + c, 1, q + c, out + c);
            return;
        }
        ChannelPairs pairs;
        const auto each = [&](auto&& zero_point) INTQ_ALWAYS_INLINE_LAMBDA {
            for_each_piece(
                channels, rows,
                [&](index_t first, index_t count, index_t at)
                    INTQ_ALWAYS_INLINE_LAMBDA { pairs.fill(qparams, first_channel + first, count, at); },
                [&](index_t offset, index_t count) INTQ_ALWAYS_INLINE_LAMBDA {
                    for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                        const auto codes = load_codes<L>(q + offset + i, lanes);
                        store_floats<L>(out + offset + i,
                                        arith::dequantize_lanes<L>(codes, zero_point(i, lanes),
                                                                   load_floats<L>(pairs.scale + i, lanes)),
                                        lanes);
                    });
                });
        };
        if (qparams.is_symmetric())
            each([](index_t, index_t) INTQ_ALWAYS_INLINE_LAMBDA { return L::set(std::int32_t{0}); });
        else
            each([&](index_t i, index_t lanes)
                     INTQ_ALWAYS_INLINE_LAMBDA { return load_codes<L>(pairs.zero_point + i, lanes); });
    }
};

}  // namespace detail

/// dequantize() on contiguous memory, with extents in place of views, for a table of kernels.
template <class Backend = simd::default_backend, class Code>
void dequantize_blocks(const Code* q, const ChannelBlocks& blocks, const QParams& qparams, float* out,
                       const Executor& executor) INTQ_NOEXCEPT {
    detail::walk_blocks_to(detail::DequantizeOp<simd::lanes<Backend>, Code>{qparams}, blocks, executor, q, out);
}

/// Turns codes into real numbers.
///
///     out[i] = fmul(float(q[i]) - float(zp_c), s_c)
///
/// @param q        int8, int16, int32 (accumulators too) or uint8; any layout
/// @param qparams  per tensor or per channel
/// @param out      any layout; must not overlap q
/// @pre   check_dequantize()
///
/// Result   exact; the same bits on every backend, layout and executor. An int32 beyond ±2^24 is first rounded to
///          binary32, as PyTorch does
/// Memory   no scratch
/// Cost     O(n); bound by memory
/// Source   docs/arithmetic.md section 1; PyTorch Tensor.dequantize
template <class Backend = simd::default_backend, class Code, int Rank, class QLayout, class OutLayout, class QExtents,
          class OutExtents>
void dequantize(const TensorView<Code, Rank, QLayout, QExtents>& q, const QParams& qparams,
                const TensorView<float, Rank, OutLayout, OutExtents>& out,
                const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_dequantize(q, qparams, out).ok());
    using Value = std::remove_const_t<Code>;
    const TensorView<const Value, Rank, QLayout, QExtents> input = q;
    if (detail::same_order(input, out)) {
        dequantize_blocks<Backend>(input.data(), channel_blocks(input, qparams.axis()), qparams, out.data(), executor);
    } else {
        detail::walk_rows(detail::DequantizeOp<simd::lanes<Backend>, Value>{qparams}, qparams.axis(), executor, input,
                          out);
    }
}

namespace detail {

template <class Backend, class Code>
void dequantize_erased(const void* x, const ChannelBlocks& blocks, const QParams& qparams, float* y,
                       const Executor& executor) {
    dequantize_blocks<Backend>(static_cast<const Code*>(x), blocks, qparams, y, executor);
}
template <class Backend>
inline constexpr DequantizeRow dequantize_rows[] = {{DType::int8, &dequantize_erased<Backend, std::int8_t>},
                                                    {DType::int16, &dequantize_erased<Backend, std::int16_t>},
                                                    {DType::int32, &dequantize_erased<Backend, std::int32_t>}};

}  // namespace detail

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_DEQUANTIZE_HPP
