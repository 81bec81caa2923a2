// SPDX-License-Identifier: MIT
//
// Steps that stay in float: operators without an integer form or without a qconfig, and constants. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_FLOAT_STEP_HPP
#define INTQ_QUANTIZATION_OPERATORS_FLOAT_STEP_HPP

#include "intq/quantization/operators/lowering.hpp"
#include "intq/quantization/operators/operator.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// What both have in common: no program executes them.
class RealStep : public Step {
public:
    OpKind kind() const noexcept override { return OpKind::none; }
    void lower(Lowering&, const QuantizedNode& node) const override {
        throw Error("lower: " + node.name + " (" + node.type + ")",
                    "it stays in float; a program executes integers only");
    }
};

/// An operator that stays in float.
class FloatStep : public RealStep {
public:
    explicit FloatStep(FloatCall call) : call_(std::move(call)) {}
    void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override {
        reference.set_real(node, reference.call(node, call_));
    }
    const FloatCall& call() const noexcept { return call_; }

private:
    FloatCall call_;
};

/// A parameter or buffer that the graph reads.
class ConstantStep : public RealStep {
public:
    explicit ConstantStep(Tensor value) : value_(std::move(value)) {}
    void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override {
        reference.set_real(node, reference.constant(value_));
    }
    const Tensor& value() const noexcept { return value_; }

private:
    Tensor value_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_QUANTIZATION_OPERATORS_FLOAT_STEP_HPP
