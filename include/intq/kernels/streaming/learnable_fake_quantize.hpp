// SPDX-License-Identifier: MIT
//
// LSQ: the backward pass of fake_quantize with gradients for scale and zero point. Layer: kernels
// (docs/arithmetic.md section 1). The forward pass is fake_quantize() with arith::learnable_zero_point().
#ifndef INTQ_KERNELS_STREAMING_LEARNABLE_FAKE_QUANTIZE_HPP
#define INTQ_KERNELS_STREAMING_LEARNABLE_FAKE_QUANTIZE_HPP

#include <span>

#include "intq/arith/learnable.hpp"
#include "intq/arith/sum.hpp"
#include "intq/kernels/streaming/fake_quantize.hpp"
#include "intq/simd/base/primitives.hpp"

namespace intq::kernels {
inline namespace INTQ_ABI {

/// Arguments of LSQ's backward pass besides its tensors.
struct LearnableParams {
    /// Of the forward pass: the zero points rounded by arith::learnable_zero_point().
    QParams qparams;
    arith::QuantizeRule rule{};
    /// Factor of the gradients of scale and zero point.
    float grad_factor = 1.0f;
};

/// Where the gradients of scale and zero point go, and the scratch that adds them up.
struct LearnableSums {
    std::span<float> scale;       // (channels)
    std::span<float> zero_point;  // (channels), or empty: it does not learn
    std::span<double> scratch;    // learnable_scratch_size()
};

namespace detail {

/// Rows of a channels-last tensor in one task: by shape only.
constexpr index_t learnable_rows(const ChannelBlocks& blocks) noexcept {
    constexpr index_t fewest = 16;
    return blocks.channels * fewest < chunk_elements ? chunk_elements / blocks.channels : fewest;
}

/// How the sums of a contiguous tensor are split: per tensor by elements, channels-last by rows, else by channels.
struct LearnableSplit {
    index_t tasks = 0;
    index_t step = 0;      // elements or rows of a task
    index_t partials = 0;  // sums of either gradient that a task leaves in the scratch; 0: it finishes its own
    constexpr explicit LearnableSplit(const ChannelBlocks& blocks) noexcept {
        if (blocks.channels == 1) {
            step = chunk_elements;
            tasks = chunks_of(blocks.size(), step);
            partials = 1;
        } else if (blocks.inner == 1) {
            step = learnable_rows(blocks);
            tasks = chunks_of(blocks.outer, step);
            partials = blocks.channels;
        } else {
            tasks = blocks.channels;
        }
    }
};

}  // namespace detail

/// Doubles of scratch that learnable_fake_quantize_backward() needs.
constexpr index_t learnable_scratch_size(const ChannelBlocks& blocks) noexcept {
    const detail::LearnableSplit split(blocks);
    return 2 * split.tasks * split.partials;
}

/// Checks the arguments of learnable_fake_quantize_backward().
///
/// @return ok; the errors of check_fake_quantize_backward(); unsupported naming layout, where the tensors are not
///         contiguous in one order; scale_out_of_range for a grad_factor that is not finite, with given = -1;
///         shape_mismatch of scale or zero_point; buffer_too_small of workspace, in bytes
template <class X, class Grad, int Rank, class XLayout, class GLayout, class OutLayout, class XExtents, class GExtents,
          class OutExtents>
constexpr Status check_learnable_fake_quantize_backward(const TensorView<X, Rank, XLayout, XExtents>& x,
                                                        const TensorView<Grad, Rank, GLayout, GExtents>& grad_out,
                                                        const LearnableParams& params,
                                                        const TensorView<float, Rank, OutLayout, OutExtents>& grad_in,
                                                        const LearnableSums& sums) noexcept {
    constexpr OpKind op = OpKind::fake_quantize;
    const Status status = check_fake_quantize_backward(x, grad_out, params.qparams, params.rule, grad_in);
    if (!status.ok()) return status;
    if (!detail::same_order(x, grad_out, grad_in)) return {StatusCode::unsupported, op, Field::layout};
    if (!arith::is_finite(params.grad_factor)) return {StatusCode::scale_out_of_range, op, Field::scale, -1, 0};
    const auto count = static_cast<std::size_t>(params.qparams.count());
    if (sums.scale.size() != count)
        return {StatusCode::shape_mismatch, op, Field::scale, static_cast<index_t>(sums.scale.size()),
                params.qparams.count()};
    if (!sums.zero_point.empty() && sums.zero_point.size() != count)
        return {StatusCode::shape_mismatch, op, Field::zero_point, static_cast<index_t>(sums.zero_point.size()),
                params.qparams.count()};
    const index_t needed = learnable_scratch_size(channel_blocks(x, params.qparams.axis()));
    if (static_cast<index_t>(sums.scratch.size()) < needed)
        return {StatusCode::buffer_too_small, op, Field::workspace,
                static_cast<index_t>(sums.scratch.size() * sizeof(double)),
                needed * static_cast<index_t>(sizeof(double))};
    return {};
}

namespace detail {

/// Sums of both gradients over pieces of one channel.
struct LearnableTotal {
    arith::StripedSum scale, zero_point;
};

template <class L, class Rule> struct LearnableBackwardOp {
    using Gradient = arith::LearnableGradient<L, Rule>;
    using Terms = arith::LearnableTerms<L>;
    static constexpr index_t block = arith::StripedSum::block, stripes = arith::StripedSum::stripes;
    const LearnableParams& params;

    void run(index_t channel, index_t count, const float* x, const float* grad_out, float* grad_in,
             LearnableTotal& total) const {
        const Gradient gradient{quantizer_of<L, Rule>(params.qparams, channel), L::set(params.grad_factor)};
        const auto terms = [&](index_t i) INTQ_ALWAYS_INLINE_LAMBDA {
            const Terms t = gradient.terms(simd::hold<L>(L::load(x + i)), simd::hold<L>(L::load(grad_out + i)));
            store_floats<L>(grad_in + i, t.x, L::width());
            return t;
        };
        index_t first = 0;
        if constexpr (arith::StripedSum::takes_vectors<L>)
            for (; first + block <= count; first += block)
                for (index_t j = 0; j < stripes; j += L::width()) {
                    const Terms a = terms(first + j), b = terms(first + stripes + j),
                                c = terms(first + 2 * stripes + j), d = terms(first + 3 * stripes + j);
                    total.scale.template add<L>(j, a.scale, b.scale, c.scale, d.scale);
                    total.zero_point.template add<L>(j, a.zero_point, b.zero_point, c.zero_point, d.zero_point);
                }
        for (; first < count; first += block)
            run_block(gradient, smaller(block, count - first), x + first, grad_out + first, grad_in + first, total);
    }

    /// Adds the rows to the channels' sums, four at a time.
    void rows(index_t channels, index_t rows, const float* x, const float* grad_out, float* grad_in, double* scale_sums,
              double* zero_point_sums) const {
        QuantizerPiece<L, Rule> piece;
        for (index_t first = 0; first < channels; first += channel_block) {
            const index_t count = smaller(channel_block, channels - first);
            piece.fill(params.qparams, first, count, 0);
            for (index_t row = 0; row < rows; row += 4)
                for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
                    const Gradient gradient{piece.at(i, lanes), L::set(params.grad_factor)};
                    const index_t at = row * channels + first + i;
                    const auto terms = [&](index_t later) INTQ_ALWAYS_INLINE_LAMBDA {
                        const index_t here = at + later * channels;
                        if (row + later >= rows) return Terms{L::set(0.0f), L::set(0.0f), L::set(0.0f)};
                        const Terms t = gradient.terms(simd::hold<L>(load_floats<L>(x + here, lanes)),
                                                       simd::hold<L>(load_floats<L>(grad_out + here, lanes)));
                        store_floats<L>(grad_in + here, t.x, lanes);
                        return t;
                    };
                    const Terms a = terms(0), b = terms(1), c = terms(2), d = terms(3);
                    add_to(scale_sums + first + i, lanes, a.scale, b.scale, c.scale, d.scale);
                    add_to(zero_point_sums + first + i, lanes, a.zero_point, b.zero_point, c.zero_point, d.zero_point);
                });
        }
    }

private:
    /// A block by way of memory, where the lanes do not fit the stripes or elements are missing.
    static void run_block(const Gradient& gradient, index_t count, const float* x, const float* grad_out,
                          float* grad_in, LearnableTotal& total) {
        float scale[block] = {}, zero_point[block] = {};
        for_each_vector<L>(count, [&](index_t i, index_t lanes) INTQ_ALWAYS_INLINE_LAMBDA {
            const Terms t = gradient.terms(load_floats<L>(x + i, lanes), load_floats<L>(grad_out + i, lanes));
            store_floats<L>(grad_in + i, t.x, lanes);
            store_floats<L>(scale + i, t.scale, lanes);
            store_floats<L>(zero_point + i, t.zero_point, lanes);
        });
        total.scale.add_block(scale);
        total.zero_point.add_block(zero_point);
    }

    static INTQ_ALWAYS_INLINE void add_to(double* sums, index_t lanes, typename L::f32 a, typename L::f32 b,
                                          typename L::f32 c, typename L::f32 d) {
        if (lanes == L::width()) return L::add_to(sums, a, b, c, d);
        double some[channel_block] = {};
        for (index_t i = 0; i < lanes; ++i) some[i] = sums[i];
        L::add_to(some, a, b, c, d);
        for (index_t i = 0; i < lanes; ++i) sums[i] = some[i];
    }
};

/// Fills the partial sums of one task, or finishes a channel.
template <class Op>
void learnable_task(const Op& op, const ChannelBlocks& blocks, index_t task, const float* x, const float* grad_out,
                    float* grad_in, const LearnableSums& sums) {
    const LearnableSplit split(blocks);
    double* const partial = sums.scratch.data() + 2 * task * split.partials;
    LearnableTotal total;
    if (blocks.channels == 1) {
        const index_t first = task * split.step, count = smaller(split.step, blocks.size() - first);
        op.run(0, count, x + first, grad_out + first, grad_in + first, total);
        partial[0] = total.scale.total();
        partial[1] = total.zero_point.total();
    } else if (blocks.inner == 1) {
        for (index_t i = 0; i < 2 * blocks.channels; ++i) partial[i] = 0.0;
        const index_t row = task * split.step, first = row * blocks.channels;
        op.rows(blocks.channels, smaller(split.step, blocks.outer - row), x + first, grad_out + first, grad_in + first,
                partial, partial + blocks.channels);
    } else {
        for (index_t outer = 0; outer < blocks.outer; ++outer) {
            const index_t first = (outer * blocks.channels + task) * blocks.inner;
            op.run(task, blocks.inner, x + first, grad_out + first, grad_in + first, total);
        }
        sums.scale[static_cast<std::size_t>(task)] = static_cast<float>(total.scale.total());
        if (!sums.zero_point.empty())
            sums.zero_point[static_cast<std::size_t>(task)] = static_cast<float>(total.zero_point.total());
    }
}

/// Adds the partial sums of the tasks, in their order.
inline void finish_learnable(const ChannelBlocks& blocks, const LearnableSums& sums) {
    const LearnableSplit split(blocks);
    for (index_t channel = 0; channel < split.partials; ++channel) {
        double scale = 0.0, zero_point = 0.0;
        for (index_t task = 0; task < split.tasks; ++task) {
            const double* const partial = sums.scratch.data() + 2 * task * split.partials + channel;
            scale += partial[0];
            zero_point += partial[split.partials];
        }
        sums.scale[static_cast<std::size_t>(channel)] = static_cast<float>(scale);
        if (!sums.zero_point.empty())
            sums.zero_point[static_cast<std::size_t>(channel)] = static_cast<float>(zero_point);
    }
}

}  // namespace detail

/// Gradients of y = fake_quantize(x) for x, scale and zero point.
///
///     grad_in[i]    = grad_out[i] where quant_min <= R(x[i] · (1/s_c)) + zp_c <= quant_max, else 0
///     scale[c]      = g · sum over channel c of grad_out[i] · ((q[i] - zp_c) - x[i]/s_c inside, q[i] - zp_c outside)
///     zero_point[c] = g · sum over the outside elements of channel c of -grad_out[i] · s_c
///
/// @param x         the input of the forward pass
/// @param grad_out  finite gradient of its output
/// @param params    qparams and rule of the forward pass, and g
/// @param grad_in   may be x or grad_out itself
/// @param sums      gradients of scale and zero point, and scratch of learnable_scratch_size() doubles
/// @pre   check_learnable_fake_quantize_backward(): the tensors are contiguous in one order
///
/// Result   terms in binary32 with the bits of PyTorch's, see arith::LearnableGradient; their sum in binary64 in an
///          order set by the shape, rounded once: within 2^-24 · |sum| + n · 2^-53 · sum |terms| + 2^-150 of the exact
///          sum; the same bits on every backend and executor
/// Memory   sums.scratch
/// Cost     O(n); bound by memory
/// Source   Esser et al. 2020; docs/arithmetic.md section 1
template <class Backend = simd::default_backend, class X, class Grad, int Rank, class XLayout, class GLayout,
          class OutLayout, class XExtents, class GExtents, class OutExtents>
void learnable_fake_quantize_backward(const TensorView<X, Rank, XLayout, XExtents>& x,
                                      const TensorView<Grad, Rank, GLayout, GExtents>& grad_out,
                                      const LearnableParams& params,
                                      const TensorView<float, Rank, OutLayout, OutExtents>& grad_in,
                                      const LearnableSums& sums, const Executor& executor = serial) INTQ_NOEXCEPT {
    INTQ_ASSERT(check_learnable_fake_quantize_backward(x, grad_out, params, grad_in, sums).ok());
    const ChannelBlocks blocks = channel_blocks(x, params.qparams.axis());
    for (float& sum : sums.scale) sum = 0.0f;
    for (float& sum : sums.zero_point) sum = 0.0f;
    arith::with_rule(params.rule, [&](auto fixed) {
        const detail::LearnableBackwardOp<simd::lanes<Backend>, decltype(fixed)> op{params};
        executor(detail::LearnableSplit(blocks).tasks, [&](index_t task) {
            detail::learnable_task(op, blocks, task, x.data(), grad_out.data(), grad_in.data(), sums);
        });
    });
    detail::finish_learnable(blocks, sums);
}

}  // namespace INTQ_ABI
}  // namespace intq::kernels

#endif  // INTQ_KERNELS_STREAMING_LEARNABLE_FAKE_QUANTIZE_HPP
