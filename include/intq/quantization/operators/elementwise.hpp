// SPDX-License-Identifier: MIT
//
// add, sub, mul, relu, relu6 and clamp on codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_ELEMENTWISE_HPP
#define INTQ_QUANTIZATION_OPERATORS_ELEMENTWISE_HPP

#include <cstdint>
#include <optional>

#include "intq/arith/quantized_multiplier.hpp"
#include "intq/arith/requantize.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"
#include "intq/program/program_builder.hpp"
#include "intq/quantization/operators/internal/on_grid.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// @param op  add or sub
std::int32_t add_sum(program::ProgramBuilder& builder, OpKind op, std::int32_t x, std::int32_t y,
                     const OwnedQParams& output, Activation activation, const program::LayerName& layer);

/// The same with bounds in place of an activation.
std::int32_t add_sum(program::ProgramBuilder& builder, OpKind op, std::int32_t x, std::int32_t y,
                     const OwnedQParams& output, const arith::OutputCodes& codes, const program::LayerName& layer);

std::int32_t add_mul(program::ProgramBuilder& builder, std::int32_t x, std::int32_t y, const OwnedQParams& output,
                     const program::LayerName& layer);

/// The same with bounds, and with an external multiplier in place of the scales.
std::int32_t add_mul(program::ProgramBuilder& builder, std::int32_t x, std::int32_t y, const OwnedQParams& output,
                     const arith::OutputCodes& codes, const std::optional<arith::QuantizedMultiplier>& multiplier,
                     const program::LayerName& layer);

/// The sum or the difference of two tensors of codes, and perhaps a clamp.
class AddStep : public FloatBackedStep {
public:
    explicit AddStep(FloatCall call, OpKind op = OpKind::add, Activation activation = Activation::none);

    OpKind kind() const noexcept override { return op_; }
    Activation activation() const noexcept { return activation_; }
    INTQ_INLINE StepPtr with_activation(Activation activation) const override;
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;

private:
    OpKind op_;
    Activation activation_;
};

/// relu, relu6 on codes, on the grid of the output.
class ClampStep : public FloatBackedStep {
public:
    ClampStep(FloatCall call, Activation activation);
    OpKind kind() const noexcept override { return OpKind::relu; }
    Activation activation() const noexcept { return activation_; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    Activation activation_;
};

/// Between two real numbers, as codes on the grid of the output: add_on_grid().
class BoundStep : public FloatBackedStep {
public:
    BoundStep(FloatCall call, const RealBounds& bounds);
    OpKind kind() const noexcept override { return OpKind::relu; }
    INTQ_INLINE std::optional<arith::OutputCodes> bounds_on(const OwnedQParams& grid,
                                                            const arith::PolicyRecord& target) const override;
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    RealBounds bounds_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <cmath>
#    include <string>
#    include <utility>

#    include "intq/arith/elementwise.hpp"
#    include "intq/graph/node.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/kernels/operators/operator.hpp"
#    include "intq/nn/layers/unary.hpp"
#    include "intq/nn/model/call.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/reference.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The shape of the output of a binary operator, whose operands are of one type and broadcast.
INTQ_INLINE Shape check_binary(program::ProgramBuilder& builder, OpKind op, std::int32_t x, std::int32_t y,
                               DType output, const program::LayerName& layer) {
    const kernels::ArenaTensor a = builder.at(x), b = builder.at(y);
    Shape shape = a.shape;
    for (int axis = 0; axis < shape.rank && axis < b.shape.rank; ++axis)
        shape[axis] = (std::max)(a.shape[axis], b.shape[axis]);
    if (!kernels::is_broadcast(a.shape, b.shape, shape))
        throw Error(layer.name, std::string(name_of(op)) + " needs operands of one rank, with extents that are equal " +
                                    "or 1 after the first, given " + to_string(a.shape) + " and " + to_string(b.shape));
    if (a.dtype != b.dtype)
        throw Error(layer.name, std::string(name_of(op)) + " needs operands of one dtype, given " + name_of(a.dtype) +
                                    " and " + name_of(b.dtype));
    builder.check_use({op, a.dtype, DType::none, output, {}, shape.rank > 1 ? shape[1] : 1}, layer);
    return shape;
}

}  // namespace detail

INTQ_INLINE std::int32_t add_sum(program::ProgramBuilder& builder, OpKind op, std::int32_t x, std::int32_t y,
                                 const OwnedQParams& output, Activation activation, const program::LayerName& layer) {
    return add_sum(builder, op, x, y, output, program::ProgramBuilder::output_codes(output.view(), activation), layer);
}

INTQ_INLINE std::int32_t add_sum(program::ProgramBuilder& builder, OpKind op, std::int32_t x, std::int32_t y,
                                 const OwnedQParams& output, const arith::OutputCodes& codes,
                                 const program::LayerName& layer) {
    const Shape shape = detail::check_binary(builder, op, x, y, output.dtype, layer);
    const QParams out = builder.keep(output);
    const auto* const params =
        builder.keep_params(program::made_or_throw((op == OpKind::sub ? arith::make_sub : arith::make_add)(
                                                       builder.target(), builder.codes_of(x), builder.codes_of(y),
                                                       program::ProgramBuilder::codes_of(output), codes),
                                                   out, layer));
    return builder.push(op, {x, y}, builder.tensor(output.dtype, shape, out, layer, builder.at(x).layout), params,
                        layer);
}

INTQ_INLINE std::int32_t add_mul(program::ProgramBuilder& builder, std::int32_t x, std::int32_t y,
                                 const OwnedQParams& output, const program::LayerName& layer) {
    return add_mul(builder, x, y, output, program::ProgramBuilder::output_codes(output.view()), std::nullopt, layer);
}

INTQ_INLINE std::int32_t add_mul(program::ProgramBuilder& builder, std::int32_t x, std::int32_t y,
                                 const OwnedQParams& output, const arith::OutputCodes& codes,
                                 const std::optional<arith::QuantizedMultiplier>& multiplier,
                                 const program::LayerName& layer) {
    const Shape shape = detail::check_binary(builder, OpKind::mul, x, y, output.dtype, layer);
    const QParams out = builder.keep(output);
    const auto* const params = builder.keep_params(program::made_or_throw(
        arith::make_mul(builder.target(), builder.codes_of(x), builder.codes_of(y),
                        program::ProgramBuilder::codes_of(output), codes, multiplier ? &*multiplier : nullptr),
        out, layer));
    return builder.push(OpKind::mul, {x, y}, builder.tensor(output.dtype, shape, out, layer, builder.at(x).layout),
                        params, layer);
}

INTQ_INLINE AddStep::AddStep(FloatCall call, OpKind op, Activation activation)
    : FloatBackedStep(std::move(call)), op_(op), activation_(activation) {}

INTQ_INLINE StepPtr AddStep::with_activation(Activation activation) const {
    return make_as<Step, AddStep>(call(), op_, activation);
}

INTQ_INLINE void AddStep::lower(Lowering& l, const QuantizedNode& node) const {
    l.set_elements(node, add_sum(l.builder(), op_, l.elements(node, 0), l.elements(node, 1), l.qparams(node),
                                 l.output_codes(node, activation_), Lowering::layer(node)));
}

INTQ_INLINE void AddStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    graph::Node* sum = &reference.call(node, call());
    if (activation_ == Activation::relu) sum = &reference.graph().call_function(nn::relu_function, {*sum});
    if (activation_ == Activation::relu6) sum = &reference.graph().call_function(nn::relu6_function, {*sum});
    reference.quantize_output(node, *sum);
}

INTQ_INLINE ClampStep::ClampStep(FloatCall call, Activation activation)
    : FloatBackedStep(std::move(call)), activation_(activation) {}

INTQ_INLINE void ClampStep::lower(Lowering& l, const QuantizedNode& node) const {
    l.set_elements(node, add_on_grid(l.builder(), l.elements(node), l.qparams(node), bounds_of(activation_),
                                     Lowering::layer(node)));
}

/// The product of two tensors of codes.
class MulStep : public FloatBackedStep {
public:
    using FloatBackedStep::FloatBackedStep;
    OpKind kind() const noexcept override { return OpKind::mul; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        l.set_elements(node, add_mul(l.builder(), l.elements(node, 0), l.elements(node, 1), l.qparams(node),
                                     l.output_codes(node), std::nullopt, Lowering::layer(node)));
    }
};

INTQ_INLINE BoundStep::BoundStep(FloatCall call, const RealBounds& bounds)
    : FloatBackedStep(std::move(call)), bounds_(bounds) {}

INTQ_INLINE std::optional<arith::OutputCodes> BoundStep::bounds_on(const OwnedQParams& grid,
                                                                   const arith::PolicyRecord& target) const {
    return codes_between(target, bounds_, grid);
}

INTQ_INLINE void BoundStep::lower(Lowering& l, const QuantizedNode& node) const {
    if (l.is_bounded(node.inputs[0])) return l.pass(node);
    l.set_elements(node, add_on_grid(l.builder(), l.elements(node), l.qparams(node), bounds_, Lowering::layer(node)));
}

namespace operators {

/// The effect of keeping its input's grid on a clip: a bound may lie between two codes, or beyond all.
INTQ_INLINE GridUse grid_use_of(const RealBounds& bounds) {
    GridUse use;
    for (const std::optional<double>& bound : {bounds.low, bounds.high})
        if (bound && std::isfinite(*bound)) use.numbers.push_back(static_cast<float>(*bound));
    return use;
}

INTQ_INLINE void check_clamp(const StepRequest& request) {
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
        if (const auto bound = request.arguments().optional_number(i); bound && *bound != *bound)
            throw request.error("a bound is NaN");
}

INTQ_INLINE std::optional<RealBounds> clip_of_clamp(const StepRequest& request) {
    check_clamp(request);
    const nn::Arguments arguments = request.arguments();
    return RealBounds{arguments.optional_number(1), arguments.optional_number(2)};
}
INTQ_INLINE std::optional<GridUse> grid_use_of_clamp(const StepRequest& request) {
    return grid_use_of(*clip_of_clamp(request));
}
INTQ_INLINE std::optional<RealBounds> clip_of_relu(const StepRequest&) { return bounds_of(Activation::relu); }
INTQ_INLINE std::optional<RealBounds> clip_of_relu6(const StepRequest&) { return bounds_of(Activation::relu6); }
INTQ_INLINE std::optional<GridUse> grid_use_of_relu6(const StepRequest& request) {
    return grid_use_of(*clip_of_relu6(request));
}

INTQ_INLINE StepPtr make_clamp(const StepRequest& request) {
    return make_as<Step, BoundStep>(request.call, *clip_of_clamp(request));
}

INTQ_INLINE StepPtr make_relu(const StepRequest& request) {
    return make_as<Step, ClampStep>(request.call, Activation::relu);
}
INTQ_INLINE StepPtr make_relu6(const StepRequest& request) {
    return make_as<Step, ClampStep>(request.call, Activation::relu6);
}

// A bound may lie between two codes.
inline constexpr QuantizedOperator clamp{.name = "clamp",
                                         .role = Role::own_output,
                                         .kind = OpKind::relu,
                                         .make_step = &make_clamp,
                                         .check = &check_clamp,
                                         .keeps_scale = &keeps_scale_always,
                                         .grid_use = &grid_use_of_clamp,
                                         .clip = &clip_of_clamp,
                                         .torch_role = Role::shares_input};
inline constexpr QuantizedOperator relu{.name = "relu",
                                        .role = Role::shares_input,
                                        .kind = OpKind::relu,
                                        .make_step = &make_relu,
                                        .clip = &clip_of_relu,
                                        .channel_factors = ChannelFactors::anywhere};
// 6 may lie between two codes.
inline constexpr QuantizedOperator relu6{.name = "relu6",
                                         .role = Role::shares_input,
                                         .kind = OpKind::relu,
                                         .make_step = &make_relu6,
                                         .keeps_scale = &keeps_scale_always,
                                         .grid_use = &grid_use_of_relu6,
                                         .clip = &clip_of_relu6};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_ELEMENTWISE_HPP
