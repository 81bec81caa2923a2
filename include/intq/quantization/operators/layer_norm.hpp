// SPDX-License-Identifier: MIT
//
// Layer, RMS, group and instance norm on codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_LAYER_NORM_HPP
#define INTQ_QUANTIZATION_OPERATORS_LAYER_NORM_HPP

#include <cstdint>

#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// What a layer norm has: weight and bias of each feature, and eps. An RMS norm is not centered.
struct LayerNormWeights {
    Tensor weight{};
    Tensor bias{};
    double eps = 1e-5;
    bool is_centered = true;
    index_t groups = 0;  // of a group norm; 0 for a norm over the last axes
};

/// @param x  vectors, or a tensor by rows; of a group norm vectors, or an image with channels last
/// @throws Error for a mean of more elements than arith::layer_norm_most_elements, and for weights or scales whose
///         integers do not fit
std::int32_t add_layer_norm(program::ProgramBuilder& builder, std::int32_t x, const LayerNormWeights& norm,
                            const OwnedQParams& output, const program::LayerName& layer);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstddef>
#    include <span>
#    include <string_view>
#    include <utility>

#    include "intq/arith/layer_norm.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/layer_norm.hpp"
#    include "intq/nn/layers/norm.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/operator.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The codes of weights in memory of a program.
INTQ_INLINE const std::int32_t* keep_codes(program::ProgramBuilder& builder, std::span<const float> values,
                                           int exponent) {
    const Workspace memory = builder.new_buffer(static_cast<index_t>(values.size_bytes()));
    auto* const codes = reinterpret_cast<std::int32_t*>(memory.data);
    for (std::size_t i = 0; i < values.size(); ++i) codes[i] = arith::code_of_power(values[i], exponent);
    return codes;
}

}  // namespace detail

INTQ_INLINE std::int32_t add_layer_norm(program::ProgramBuilder& builder, std::int32_t x, const LayerNormWeights& norm,
                                        const OwnedQParams& output, const program::LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    builder.check_use({OpKind::layer_norm, in.dtype, DType::none, output.dtype}, layer);
    const std::span<const float> weight = norm.weight.flat<float>(), bias = norm.bias.flat<float>();
    const QParams out = builder.keep(output);
    const auto scale = value_or_throw(arith::layer_norm_scale(weight, bias), layer.name);
    kernels::LayerNormStepParams step;
    step.over_pixels = norm.groups > 0;
    if (step.over_pixels) step.groups = norm.groups;
    step.count = static_cast<index_t>(weight.size()) / step.groups;
    if (!step.over_pixels && !kernels::are_last_axes(in, step.count))
        throw Error(layer.name, "a norm over the samples has no integer form");
    const index_t elements = step.over_pixels ? in.elements_per_image() / step.groups : step.count;
    step.norm = program::made_or_throw(
        arith::make_layer_norm(builder.target(), builder.codes_of(x), program::ProgramBuilder::codes_of(output),
                               program::ProgramBuilder::output_codes(out), elements, norm.eps, scale, norm.is_centered),
        out, layer);
    step.weight = detail::keep_codes(builder, weight, scale.weight());
    step.bias = detail::keep_codes(builder, bias, scale.accumulator());
    return builder.push(OpKind::layer_norm, {x}, builder.tensor(output.dtype, in.shape, out, layer, in.layout),
                        builder.keep_params(step), layer);
}

class LayerNormStep : public FloatBackedStep {
public:
    LayerNormStep(FloatCall call, LayerNormWeights norm) : FloatBackedStep(std::move(call)), norm_(std::move(norm)) {}
    OpKind kind() const noexcept override { return OpKind::layer_norm; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        const program::LayerName layer = Lowering::layer(node);
        const bool is_vector = l.quantized().input(node, 0).shape.rank < 3;
        const std::int32_t x = is_vector || norm_.groups > 0 ? l.input(node) : l.rows(node.inputs.at(0), layer);
        l.set_elements(node, add_layer_norm(l.builder(), x, norm_, l.qparams(node), layer));
    }

private:
    LayerNormWeights norm_;
};

namespace operators {

INTQ_INLINE StepPtr make_run_norm(const StepRequest& request) {
    const auto& norm = dynamic_cast<const nn::RunNorm&>(*request.module);
    const auto* const channels = dynamic_cast<const nn::ChannelsNorm*>(&norm);
    LayerNormWeights weights{.eps = norm.eps(), .is_centered = norm.is_centered()};
    if (channels != nullptr) weights.groups = channels->num_groups();
    weights.weight =
        norm.has_weight() ? norm.tensor("weight").contiguous() : Tensor::full(Shape(channels->num_channels()), 1.0f);
    weights.bias = norm.has_bias() ? norm.tensor("bias").contiguous() : Tensor::zeros(weights.weight.shape());
    return make_as<Step, LayerNormStep>(request.call, std::move(weights));
}

constexpr QuantizedOperator run_norm(std::string_view name) {
    return {.name = name,
            .role = Role::own_output,
            .kind = OpKind::layer_norm,
            .make_step = &make_run_norm,
            .may_end_in_float = true};
}
inline constexpr QuantizedOperator layer_norm = run_norm("layer_norm"), rms_norm = run_norm("rms_norm"),
                                   group_norm = run_norm("group_norm"), instance_norm = run_norm("instance_norm");

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_LAYER_NORM_HPP
