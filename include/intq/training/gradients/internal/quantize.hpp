// SPDX-License-Identifier: MIT
//
// Straight-through gradients of the fake-quantizers. Layer: training (docs/workflow.md section 2).
#ifndef INTQ_TRAINING_GRADIENTS_INTERNAL_QUANTIZE_HPP
#define INTQ_TRAINING_GRADIENTS_INTERNAL_QUANTIZE_HPP

#include <span>

#include "intq/arith/quantize.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"
#include "intq/training/gradients/context.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

/// Gradient of quantization::fake_quantize for x: kernels::fake_quantize_backward behind a hosted signature.
Tensor fake_quantize_gradient(const Tensor& x, const Tensor& dy, const OwnedQParams& qparams, arith::QuantizeRule rule,
                              bool saturate);

/// The gradients for LSQ.
struct LearnableGradients {
    Tensor input, scale, zero_point;
};

/// kernels::learnable_fake_quantize_backward behind a hosted signature.
LearnableGradients learnable_fake_quantize_gradient(const Tensor& x, const Tensor& dy, const OwnedQParams& qparams,
                                                    arith::QuantizeRule rule, float grad_factor);

namespace detail {

void fake_quantize_backward(GradientContext& context);

/// A scale that the target raised (quantization::raise_weight_scales) has the gradient 0, because it is not the
/// parameter that learns.
void lsq_backward(GradientContext& context);

/// low is 0 if the input had no negative element, and -alpha otherwise.
///
///     dx     = dy where low <= x <= alpha, else 0
///     dalpha = sum of dy where x > alpha, minus sum of dy where x < low = -alpha
///
/// Per channel where alpha is. A bound that the target raised (quantization::raise_weight_scales) is not the parameter
/// that learns: its gradient is 0.
void pact_backward(GradientContext& context);

/// The row of the quantizer that a module holds: the weight's in a prepared layer, its own in a grid choice; none for
/// another module. A context for the gradient of the module needs no other rows.
///
/// @throws Error for a quantizer without a gradient
std::span<const GradientRow> held_quantizer_row(std::span<const GradientRow> rows, const nn::Module* module);

/// The gradient of the quantizer whose grid was chosen: its own, whose parameters it may move, or the input's.
void grid_choice_backward(GradientContext& context);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(training_gradients)

#    include <array>
#    include <cstddef>
#    include <vector>

#    include "intq/core/channel_blocks.hpp"
#    include "intq/core/qparams.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/streaming/fake_quantize.hpp"
#    include "intq/kernels/streaming/learnable_fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/grid_choice.hpp"
#    include "intq/quantization/fake_quantize/lsq_fake_quantize.hpp"
#    include "intq/quantization/fake_quantize/pact_fake_quantize.hpp"
#    include "intq/quantization/modules/prepared_layers.hpp"
#    include "intq/tensor/quantize.hpp"

namespace intq::training {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Tensor fake_quantize_gradient(const Tensor& x, const Tensor& dy, const OwnedQParams& qparams,
                                          arith::QuantizeRule rule, bool saturate) {
    Tensor dx = Tensor::empty(x.shape());
    const Shape blocks = tensor_detail::blocks_around(x, qparams.axis);
    const Tensor source = x.reshape(blocks), gradient = dy.reshape(blocks);
    Tensor target = dx.reshape(blocks);
    const auto from = source.view<float, 3>(), with = gradient.view<float, 3>();
    const auto to = target.view<float, 3>();
    const QParams view = tensor_detail::blocks_qparams(qparams);
    throw_if_failed(kernels::check_fake_quantize_backward(from, with, view, rule, to));
    kernels::fake_quantize_backward(from, with, view, rule, saturate, to);
    return dx;
}

INTQ_INLINE LearnableGradients learnable_fake_quantize_gradient(const Tensor& x, const Tensor& dy,
                                                                const OwnedQParams& qparams, arith::QuantizeRule rule,
                                                                float grad_factor) {
    const auto channels = static_cast<index_t>(qparams.scales.size());
    LearnableGradients result{Tensor::empty(x.shape()), Tensor::empty(Shape(channels)), Tensor::empty(Shape(channels))};
    const Shape blocks = tensor_detail::blocks_around(x, qparams.axis);
    const Tensor source = x.reshape(blocks), gradient = dy.reshape(blocks);
    Tensor target = result.input.reshape(blocks);
    const auto from = source.view<float, 3>(), with = gradient.view<float, 3>();
    const auto to = target.view<float, 3>();
    const kernels::LearnableParams params{tensor_detail::blocks_qparams(qparams), rule, grad_factor};
    std::vector<double> scratch(
        static_cast<std::size_t>(kernels::learnable_scratch_size(channel_blocks(from, params.qparams.axis()))));
    const kernels::LearnableSums sums{result.scale.flat<float>(), result.zero_point.flat<float>(), scratch};
    throw_if_failed(kernels::check_learnable_fake_quantize_backward(from, with, params, to, sums));
    kernels::learnable_fake_quantize_backward(from, with, params, to, sums);
    return result;
}

namespace detail {

/// Calls backward(grid) with the grid of the forward pass, which its output carries. If the forward pass did not round,
/// the gradient passes unchanged.
template <class Backward> void through_grid(GradientContext& context, const Backward& backward) {
    const auto& quantizer = context.module_as<quantization::Quantizer>();
    const auto& qparams = context.output().qparams();
    if (!quantizer.is_rounding() || !qparams) return context.add_input(0, context.gradient());
    backward(*qparams);
}

INTQ_INLINE void fake_quantize_backward(GradientContext& context) {
    through_grid(context, [&](const OwnedQParams& grid) {
        const auto& quantizer = context.module_as<quantization::Quantizer>();
        context.add_input(0, fake_quantize_gradient(context.input(0), context.gradient(), grid, quantizer.rule(),
                                                    quantizer.saturates()));
    });
}

INTQ_INLINE void lsq_backward(GradientContext& context) {
    through_grid(context, [&](const OwnedQParams& grid) {
        const auto& quantizer = context.module_as<quantization::LSQFakeQuantize>();
        LearnableGradients gradients = learnable_fake_quantize_gradient(
            context.input(0), context.gradient(), grid, quantizer.rule(), quantizer.grad_factor(context.input(0)));
        context.add_input(0, gradients.input);
        const auto own = quantizer.tensor("scale").flat<float>();
        const auto learnt = gradients.scale.flat<float>();
        for (std::size_t c = 0; c < learnt.size(); ++c)
            if (grid.scales[c] != own[c]) learnt[c] = 0.0f;
        context.add_parameter(quantizer.tensor("scale"), gradients.scale);
        if (quantizer.learns_zero_point()) context.add_parameter(quantizer.tensor("zero_point"), gradients.zero_point);
    });
}

INTQ_INLINE void pact_backward(GradientContext& context) {
    through_grid(context, [&](const OwnedQParams& grid) {
        const auto& quantizer = context.module_as<quantization::PACTFakeQuantize>();
        const Tensor x = context.input(0).contiguous(), dy = context.gradient().contiguous();
        const std::vector<float> own = quantizer.qparams().scales;
        const auto half_range = static_cast<float>(static_cast<double>(grid.quant_max - grid.quant_min) / 2.0);
        const Shape blocks = tensor_detail::blocks_around(x, grid.axis);
        Tensor dx = Tensor::empty(x.shape());
        std::vector<double> sums(grid.scales.size());
        const auto values = x.flat<float>(), gradients = dy.flat<float>();
        const auto to = dx.flat<float>();
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::size_t c = i / static_cast<std::size_t>(blocks[2]) % sums.size();
            const bool is_raised = grid.scales[c] != own[c];
            const float bound = is_raised ? grid.scales[c] * half_range : quantizer.alpha(static_cast<index_t>(c));
            const bool above = values[i] > bound, below = values[i] < -bound;
            to[i] = above || below ? 0.0f : gradients[i];
            if (!is_raised && (above || below)) sums[c] += static_cast<double>(above ? gradients[i] : -gradients[i]);
        }
        context.add_input(0, dx);
        context.add_parameter(quantizer.tensor("alpha"), Tensor::from(Shape(static_cast<index_t>(sums.size())),
                                                                      std::vector<float>(sums.begin(), sums.end())));
    });
}

INTQ_INLINE std::span<const GradientRow> held_quantizer_row(std::span<const GradientRow> rows,
                                                            const nn::Module* module) {
    const auto* prepared = dynamic_cast<const quantization::PreparedWeight*>(module);
    const auto* choice = dynamic_cast<const quantization::GridChoiceFakeQuantize*>(module);
    if (prepared == nullptr && choice == nullptr) return {};
    const quantization::FakeQuantize& quantizer = prepared != nullptr ? prepared->weight_fake_quant() : choice->own();
    const GradientRow* row = find_gradient(rows, quantizer.type_name(), &quantizer);
    if (row == nullptr)
        throw Error(prepared != nullptr ? "weight_fake_quant" : "own",
                    "there is no gradient of a " + quantizer.type_name());
    return {row, 1};
}

INTQ_INLINE void grid_choice_backward(GradientContext& context) {
    const auto& choice = context.module_as<quantization::GridChoiceFakeQuantize>();
    if (choice.is_kept()) return fake_quantize_backward(context);
    quantization::FakeQuantize& own = choice.own();
    const std::span<const GradientRow> row = held_quantizer_row(context.rows(), &choice);
    const std::array<nn::Value, 1> inputs{context.inputs()[0]};
    const nn::Value output(context.output());
    const FinishedCall call{&own, nn::Arguments(inputs), &output, {}};
    GradientContext inner(call, std::span(&context.gradient(), 1), context.rows());
    row.front().backward(inner);
    context.add_input(0, inner.input_gradients().at(0).at(0));
    for (const auto& [parameter, gradient] : inner.parameter_gradients()) context.add_parameter(parameter, gradient);
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::training

#endif  // INTQ_DEFINES(training_gradients)
#endif  // INTQ_TRAINING_GRADIENTS_INTERNAL_QUANTIZE_HPP
