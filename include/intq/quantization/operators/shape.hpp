// SPDX-License-Identifier: MIT
//
// cat, flatten, identity and dropout on codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_SHAPE_HPP
#define INTQ_QUANTIZATION_OPERATORS_SHAPE_HPP

#include <cstdint>
#include <vector>

#include "intq/core/op_kind.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Along the channels; each input is requantized to the scale of the output.
std::int32_t add_cat(program::ProgramBuilder& builder, const std::vector<std::int32_t>& inputs,
                     const OwnedQParams& output, const program::LayerName& layer);

class CatStep : public FloatBackedStep {
public:
    CatStep(FloatCall call, int axis);
    OpKind kind() const noexcept override { return OpKind::cat; }
    int axis() const noexcept { return axis_; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    int axis_;
};

/// Axes start_axis to end_axis become one; neither is negative. An image that becomes a vector is written only where
/// something else than a linear layer reads it.
class FlattenStep : public FloatBackedStep {
public:
    FlattenStep(FloatCall call, int start_axis, int end_axis);
    OpKind kind() const noexcept override { return OpKind::flatten; }
    int start_axis() const noexcept { return start_axis_; }
    int end_axis() const noexcept { return end_axis_; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    int start_axis_, end_axis_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <cstddef>
#    include <memory>
#    include <string>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/kernels/streaming/quantize.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/quantization/operators/lowering.hpp"
#    include "intq/quantization/operators/move.hpp"
#    include "intq/quantization/operators/reference.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::int32_t add_cat(program::ProgramBuilder& builder, const std::vector<std::int32_t>& inputs,
                                 const OwnedQParams& output, const program::LayerName& layer) {
    if (inputs.empty()) throw Error(layer.name, "cat needs at least one input");
    const QParams out = builder.keep(output);
    std::vector<kernels::RequantizeParams> params;
    Shape shape = builder.at(inputs[0]).shape;
    shape[1] = 0;
    for (const std::int32_t x : inputs) {
        builder.check({OpKind::cat, builder.at(x).dtype, DType::none, output.dtype}, layer);
        Shape expected = builder.at(x).shape;
        expected[1] = shape[1];
        if (!(expected == shape))
            throw Error(layer.name, "cat along the channels needs inputs that agree in the other axes, given " +
                                        to_string(builder.at(x).shape) + " beside " +
                                        to_string(builder.at(inputs[0]).shape));
        shape[1] += builder.at(x).shape[1];
        params.push_back(value_or_throw(
            kernels::make_requantize(builder.target(), builder.codes_of(x), program::ProgramBuilder::codes_of(output),
                                     program::ProgramBuilder::output_codes(out)),
            layer.name));
    }
    const auto* const kept = builder.keep_params(std::move(params));
    return builder.push(OpKind::cat, inputs, builder.tensor(output.dtype, shape, out, layer), kept->data(), layer);
}

INTQ_INLINE CatStep::CatStep(FloatCall call, int axis) : FloatBackedStep(std::move(call)), axis_(axis) {}

INTQ_INLINE void CatStep::lower(Lowering& l, const QuantizedNode& node) const {
    if (axis_ != 1)
        throw Error(Lowering::layer(node).name,
                    "cat is along the channels (axis 1) in a program, given axis " + std::to_string(axis_));
    std::vector<std::int32_t> parts;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) parts.push_back(l.input(node, i));
    l.set(node, add_cat(l.builder(), parts, l.qparams(node), Lowering::layer(node)));
}

INTQ_INLINE FlattenStep::FlattenStep(FloatCall call, int start_axis, int end_axis)
    : FloatBackedStep(std::move(call)), start_axis_(start_axis), end_axis_(end_axis) {}

INTQ_INLINE void FlattenStep::lower(Lowering& l, const QuantizedNode& node) const {
    const Shape& in = l.quantized().input(node, 0).shape;
    if (start_axis_ == 1 && end_axis_ == in.rank - 1 && in.rank == 4)
        l.set_flattened_image(node);
    else if (start_axis_ == end_axis_)
        l.set(node, l.input(node));
    else if (start_axis_ > 0)
        l.set(node, add_reshape(l.builder(), l.input(node), l.quantized().output(node).shape, Lowering::layer(node)));
    else
        throw Error(Lowering::layer(node).name, "a program keeps axis 0, that of the samples; a flatten of axes 0 to " +
                                                    std::to_string(end_axis_) + " of " + to_string(in) +
                                                    " has no integer form");
}

namespace operators {

INTQ_INLINE StepPtr make_cat(const StepRequest& request) {
    return std::make_shared<CatStep>(request.call, request.axis(request.integer(1, 0)));
}

INTQ_INLINE StepPtr make_flatten(const StepRequest& request) {
    const auto* flatten = dynamic_cast<const nn::Flatten*>(request.module);
    const int start = flatten != nullptr ? flatten->start_axis() : request.integer(1, 0);
    const int end = flatten != nullptr ? flatten->end_axis() : request.integer(2, -1);
    return std::make_shared<FlattenStep>(request.call, request.axis(start), request.axis(end));
}

inline constexpr QuantizedOperator cat{.name = "cat", .role = Role::cat, .kind = OpKind::cat, .make_step = &make_cat};
inline constexpr QuantizedOperator flatten{.name = "flatten",
                                           .role = Role::shares_input,
                                           .kind = OpKind::flatten,
                                           .make_step = &make_flatten,
                                           .channel_factors = ChannelFactors::flattened};
inline constexpr QuantizedOperator identity{
    .name = "identity", .role = Role::shares_input, .channel_factors = ChannelFactors::anywhere};
inline constexpr QuantizedOperator dropout{.name = "dropout",
                                           .role = Role::shares_input,
                                           .torch_role = Role::own_output,
                                           .channel_factors = ChannelFactors::anywhere};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_SHAPE_HPP
