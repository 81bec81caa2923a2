// SPDX-License-Identifier: MIT
//
// add, relu and relu6 on codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_ELEMENTWISE_HPP
#define INTQ_QUANTIZATION_OPERATORS_ELEMENTWISE_HPP

#include "intq/quantization/lowering.hpp"
#include "intq/quantization/operator.hpp"

namespace intq::inline INTQ_ABI::quantization {

inline std::int32_t add_add(ProgramBuilder& builder, std::int32_t x, std::int32_t y, const nn::OwnedQParams& output,
                            Activation activation, const LayerName& layer) {
    const kernels::ArenaTensor a = builder.at(x), b = builder.at(y);
    if (!(a.shape == b.shape))
        throw Error(layer.name, "add needs operands of one shape, given " + nn::to_string(a.shape) + " and " +
                                    nn::to_string(b.shape));
    if (a.dtype != b.dtype)
        throw Error(layer.name, "add needs operands of one dtype, given " + std::string(name_of(a.dtype)) + " and " +
                                    name_of(b.dtype));
    builder.check({OpKind::add, a.dtype, DType::none, output.dtype, {}, a.shape[1]}, layer);
    const QParams out = builder.keep(output);
    const auto* const params = builder.keep_params(
        value_or_throw(arith::make_add(builder.target(), builder.codes_of(x), builder.codes_of(y),
                                       ProgramBuilder::codes_of(output), ProgramBuilder::output_codes(out, activation)),
                       layer.name));
    return builder.push(OpKind::add, {x, y}, builder.tensor(output.dtype, a.shape, out, layer), params, layer);
}

/// relu or relu6; the scale stays.
inline std::int32_t add_relu(ProgramBuilder& builder, std::int32_t x, Activation activation, const LayerName& layer) {
    const kernels::ArenaTensor in = builder.at(x);
    builder.check({OpKind::relu, in.dtype, DType::none, in.dtype}, layer);
    const auto* const codes = builder.keep_params(ProgramBuilder::output_codes(in.qparams, activation));
    return builder.push(OpKind::relu, {x}, builder.tensor(in.dtype, in.shape, in.qparams, layer), codes, layer);
}

/// The sum of two tensors of codes, and perhaps a clamp.
class AddStep : public FloatBackedStep {
public:
    explicit AddStep(FloatCall call, Activation activation = Activation::none)
        : FloatBackedStep(std::move(call)), activation_(activation) {}

    OpKind kind() const noexcept override { return OpKind::add; }
    Activation activation() const noexcept { return activation_; }
    StepPtr with_activation(Activation activation) const override {
        return std::make_shared<AddStep>(call(), activation);
    }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        l.set(node, add_add(l.builder(), l.input(node, 0), l.input(node, 1), l.qparams(node), activation_,
                            Lowering::layer(node)));
    }
    void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override {
        graph::Node* sum = &reference.call(node, call());
        if (activation_ == Activation::relu) sum = &reference.graph().call_function(nn::relu_function, {*sum});
        if (activation_ == Activation::relu6) sum = &reference.graph().call_function(nn::relu6_function, {*sum});
        reference.quantize_output(node, *sum);
    }

private:
    Activation activation_;
};

/// relu, relu6 on codes; the scale stays.
class ClampStep : public FloatBackedStep {
public:
    ClampStep(FloatCall call, Activation activation) : FloatBackedStep(std::move(call)), activation_(activation) {}
    OpKind kind() const noexcept override { return OpKind::relu; }
    Activation activation() const noexcept { return activation_; }
    void lower(Lowering& l, const QuantizedNode& node) const override {
        l.set(node, add_relu(l.builder(), l.input(node), activation_, Lowering::layer(node)));
    }

private:
    Activation activation_;
};

namespace operators {

inline StepPtr make_add(const StepRequest& request) { return std::make_shared<AddStep>(request.call); }
inline StepPtr make_relu(const StepRequest& request) {
    return std::make_shared<ClampStep>(request.call, Activation::relu);
}
inline StepPtr make_relu6(const StepRequest& request) {
    return std::make_shared<ClampStep>(request.call, Activation::relu6);
}

inline constexpr QuantizedOperator add{.name = "add",
                                       .role = Role::own_output,
                                       .kind = OpKind::add,
                                       .operands = 2,
                                       .make_step = &make_add,
                                       .takes_relu = true};
inline constexpr QuantizedOperator relu{
    .name = "relu", .role = Role::shares_input, .kind = OpKind::relu, .make_step = &make_relu};
inline constexpr QuantizedOperator relu6{
    .name = "relu6", .role = Role::shares_input, .kind = OpKind::relu, .make_step = &make_relu6};

}  // namespace operators

}  // namespace intq::inline INTQ_ABI::quantization

#endif  // INTQ_QUANTIZATION_OPERATORS_ELEMENTWISE_HPP
