// SPDX-License-Identifier: MIT
//
// fake_quantize: the float that a code would stand for, and its straight-through gradient. Layer: kernels
// (docs/arithmetic.md section 1).
#ifndef INTQ_KERNELS_STREAMING_FAKE_QUANTIZE_HPP
#define INTQ_KERNELS_STREAMING_FAKE_QUANTIZE_HPP

#include "intq/arith/quantize.hpp"
#include "intq/kernels/streaming/quantize.hpp"
#include "intq/simd/select.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Checks the arguments of fake_quantize().
///
/// @return ok; shape_mismatch of output, with the first extents that differ; the errors of check_quantize_params()
template <class X, int Rank, class XLayout, class OutLayout, class XExtents, class OutExtents>
constexpr Status check_fake_quantize(const TensorView<X, Rank, XLayout, XExtents>& x, const QParams& qparams,
                                     arith::QuantizeRule rule,
                                     const TensorView<float, Rank, OutLayout, OutExtents>& out) noexcept {
    const Status status = detail::check_extents(x.shape(), out.shape(), OpKind::fake_quantize, Field::output);
    if (!status.ok()) return status;
    return check_quantize_params(qparams, DType::int32, x.shape(), rule, OpKind::fake_quantize);
}

/// Checks the arguments of fake_quantize_backward().
///
/// @return ok; shape_mismatch of second_input (grad_out) or output (grad_in); the errors of check_quantize_params()
template <class X, class Grad, int Rank, class XLayout, class GLayout, class OutLayout, class XExtents, class GExtents,
          class OutExtents>
constexpr Status check_fake_quantize_backward(const TensorView<X, Rank, XLayout, XExtents>& x,
                                              const TensorView<Grad, Rank, GLayout, GExtents>& grad_out,
                                              const QParams& qparams, arith::QuantizeRule rule,
                                              const TensorView<float, Rank, OutLayout, OutExtents>& grad_in) noexcept {
    const Status status =
        detail::check_extents(x.shape(), grad_out.shape(), OpKind::fake_quantize, Field::second_input);
    if (!status.ok()) return status;
    return check_fake_quantize(x, qparams, rule, grad_in);
}

namespace detail {

template <class L, class Rule> struct FakeQuantizeOp {
    const QParams& qparams;

    void run(index_t channel, index_t count, const float* x, float* out) const {
        const auto quantizer = quantizer_of<L, Rule>(qparams, channel);
        for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            store_floats<L>(out + i, quantizer.fake_quantize(load_floats<L>(x + i, lanes)), lanes);
        });
    }
    void rows(index_t first, index_t channels, index_t rows, const float* x, float* out) const {
        for_each_quantizer_piece<L, Rule>(
            qparams, first, channels, rows,
            [&](index_t offset, index_t count, const auto& piece) INTQ_ALWAYS_INLINE_LAMBDA {
                for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                    store_floats<L>(out + offset + i,
                                    piece.at(i, lanes).fake_quantize(load_floats<L>(x + offset + i, lanes)), lanes);
                });
            });
    }
};

template <class L, class Rule> struct FakeQuantizeBackwardOp {
    const QParams& qparams;

    void run(index_t channel, index_t count, const float* x, const float* grad_out, float* grad_in) const {
        const auto quantizer = quantizer_of<L, Rule>(qparams, channel);
        for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            store_floats<L>(grad_in + i,
                            quantizer.gradient(load_floats<L>(x + i, lanes), load_floats<L>(grad_out + i, lanes)),
                            lanes);
        });
    }
    void rows(index_t first, index_t channels, index_t rows, const float* x, const float* grad_out,
              float* grad_in) const {
        for_each_quantizer_piece<L, Rule>(
            qparams, first, channels, rows,
            [&](index_t offset, index_t count, const auto& piece) INTQ_ALWAYS_INLINE_LAMBDA {
                for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                    store_floats<L>(grad_in + offset + i,
                                    piece.at(i, lanes).gradient(load_floats<L>(x + offset + i, lanes),
                                                                load_floats<L>(grad_out + offset + i, lanes)),
                                    lanes);
                });
            });
    }
};

/// The gradient that passes everywhere.
struct CopyOp {
    void run(index_t, index_t count, const float* from, float* to) const {
        for (index_t i = 0; i < count; ++i) to[i] = from[i];
    }
    void rows(index_t, index_t channels, index_t rows, const float* from, float* to) const {
        run(0, channels * rows, from, to);
    }
};

}  // namespace detail

/// fake_quantize() on contiguous memory, with extents in place of views, for a table of kernels.
/// @pre check_quantize_params()
template <class Backend = simd::default_backend>
void fake_quantize_blocks(const float* x, const ChannelBlocks& blocks, const QParams& qparams, arith::QuantizeRule rule,
                          float* out, const Executor& executor) INTQ_NOEXCEPT {
    arith::with_rule(rule, [&](auto fixed) {
        detail::walk_blocks_to(detail::FakeQuantizeOp<simd::lanes<Backend>, decltype(fixed)>{qparams}, blocks, executor,
                               x, out);
    });
}

/// Rounds a float tensor to the values that its codes would stand for.
///
///     out[i] = dequantize(quantize(x[i]))
///
/// @param x        any layout; NaN becomes 0, infinities the ends
/// @param qparams  per tensor or per channel; quant_min and quant_max may be any range of codes that brackets 0
/// @param out      any layout; may be x itself
/// @pre   check_fake_quantize()
///
/// Result   exact; the same bits on every backend, layout and executor
/// Memory   no scratch
/// Cost     O(n); bound by memory
/// Source   docs/arithmetic.md section 1; PyTorch fake_quantize_per_tensor_affine and _per_channel_affine
template <class Backend = simd::default_backend, class X, int Rank, class XLayout, class OutLayout, class XExtents,
          class OutExtents>
void fake_quantize(const TensorView<X, Rank, XLayout, XExtents>& x, const QParams& qparams, arith::QuantizeRule rule,
                   const TensorView<float, Rank, OutLayout, OutExtents>& out,
                   const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_fake_quantize(x, qparams, rule, out).ok());
    const TensorView<const float, Rank, XLayout, XExtents> input = x;
    if (detail::same_order(input, out)) {
        fake_quantize_blocks<Backend>(input.data(), channel_blocks(input, qparams.axis()), qparams, rule, out.data(),
                                      executor);
        return;
    }
    arith::with_rule(rule, [&](auto fixed) {
        detail::walk_rows(detail::FakeQuantizeOp<simd::lanes<Backend>, decltype(fixed)>{qparams}, qparams.axis(),
                          executor, input, out);
    });
}

/// Straight-through gradient of fake_quantize().
///
///     grad_in[i] = grad_out[i] · (quant_min <= R(x[i] · (1/s_c)) + zp_c <= quant_max)     saturate
///     grad_in[i] = grad_out[i]                                                            otherwise
///
/// @param x         the input of the forward pass
/// @param grad_out  gradient of its output
/// @param saturate  whether a clamped element stops its gradient; the test comes before clamping
/// @param grad_in   any layout; may be x or grad_out itself
/// @pre   check_fake_quantize_backward()
///
/// Result   exact, signs of zeros included; the same bits on every backend, layout and executor
/// Memory   no scratch
/// Cost     O(n); bound by memory
/// Source   docs/arithmetic.md section 1; PyTorch's backward of fake_quantize
template <class Backend = simd::default_backend, class X, class Grad, int Rank, class XLayout, class GLayout,
          class OutLayout, class XExtents, class GExtents, class OutExtents>
void fake_quantize_backward(const TensorView<X, Rank, XLayout, XExtents>& x,
                            const TensorView<Grad, Rank, GLayout, GExtents>& grad_out, const QParams& qparams,
                            arith::QuantizeRule rule, bool saturate,
                            const TensorView<float, Rank, OutLayout, OutExtents>& grad_in,
                            const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_fake_quantize_backward(x, grad_out, qparams, rule, grad_in).ok());
    const TensorView<const float, Rank, XLayout, XExtents> input = x;
    const TensorView<const float, Rank, GLayout, GExtents> gradient = grad_out;
    if (!saturate) {
        walk_views(detail::CopyOp{}, -1, executor, gradient, grad_in);
        return;
    }
    arith::with_rule(rule, [&](auto fixed) {
        walk_views(detail::FakeQuantizeBackwardOp<simd::lanes<Backend>, decltype(fixed)>{qparams}, qparams.axis(),
                   executor, input, gradient, grad_in);
    });
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_FAKE_QUANTIZE_HPP
