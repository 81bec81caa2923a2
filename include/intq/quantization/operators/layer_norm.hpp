// SPDX-License-Identifier: MIT
//
// Layer norm and RMS norm over the last axes on codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_LAYER_NORM_HPP
#define INTQ_QUANTIZATION_OPERATORS_LAYER_NORM_HPP

#include <cstdint>

#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// What a layer norm has: weight and bias, of the shape of its axes, and eps. An RMS norm, which is not centered, has
/// no bias.
struct LayerNormWeights {
    Tensor weight{};
    Tensor bias{};
    double eps = 1e-5;
    bool is_centered = true;
};

/// @param x  vectors, or a tensor by rows
/// @throws Error for more features than arith::layer_norm_most_elements, and for weights or scales whose integers do
///         not fit
std::int32_t add_layer_norm(program::ProgramBuilder& builder, std::int32_t x, const LayerNormWeights& norm,
                            const OwnedQParams& output, const program::LayerName& layer);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstddef>
#    include <span>
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
    const std::span<const float> weight = norm.weight.flat<float>();
    const Tensor zeros = Tensor::zeros(norm.weight.shape());
    const std::span<const float> bias = (norm.is_centered ? norm.bias : zeros).flat<float>();
    const QParams out = builder.keep(output);
    const auto scale = value_or_throw(arith::layer_norm_scale(weight, bias), layer.name);
    kernels::LayerNormStepParams step;
    step.count = static_cast<index_t>(weight.size());
    step.norm = program::made_or_throw(
        arith::make_layer_norm(builder.target(), builder.codes_of(x), program::ProgramBuilder::codes_of(output),
                               program::ProgramBuilder::output_codes(out), step.count, norm.eps, scale,
                               norm.is_centered),
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
    const LayerNormWeights& norm() const noexcept { return norm_; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        const program::LayerName layer = Lowering::layer(node);
        const bool is_vector = l.quantized().input(node, 0).shape.rank < 3;
        const std::int32_t x = is_vector ? l.input(node) : l.rows(node.inputs.at(0), layer);
        l.set_elements(node, add_layer_norm(l.builder(), x, norm_, l.qparams(node), layer));
    }

private:
    LayerNormWeights norm_;
};

namespace operators {

INTQ_INLINE StepPtr make_run_norm(const StepRequest& request) {
    const auto& norm = dynamic_cast<const nn::RunNorm&>(*request.module);
    LayerNormWeights weights{
        .weight = norm.tensor("weight").contiguous(), .eps = norm.eps(), .is_centered = norm.is_centered()};
    if (norm.is_centered()) weights.bias = norm.tensor("bias").contiguous();
    return make_as<Step, LayerNormStep>(request.call, std::move(weights));
}

inline constexpr QuantizedOperator layer_norm{.name = "layer_norm",
                                              .role = Role::own_output,
                                              .kind = OpKind::layer_norm,
                                              .make_step = &make_run_norm,
                                              .may_end_in_float = true};
inline constexpr QuantizedOperator rms_norm{.name = "rms_norm",
                                            .role = Role::own_output,
                                            .kind = OpKind::layer_norm,
                                            .make_step = &make_run_norm,
                                            .may_end_in_float = true};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_LAYER_NORM_HPP
