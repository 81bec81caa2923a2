// SPDX-License-Identifier: MIT
//
// Steps that stay in float: operators without an integer form or without a qconfig, and constants. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_FLOAT_STEP_HPP
#define INTQ_QUANTIZATION_OPERATORS_FLOAT_STEP_HPP

#include "intq/core/op_kind.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The common part of both: no program executes them.
class RealStep : public Step {
public:
    OpKind kind() const noexcept override { return OpKind::none; }
    INTQ_INLINE void lower(Lowering&, const QuantizedNode& node) const override;
};

/// An operator that stays in float.
class FloatStep : public RealStep {
public:
    explicit FloatStep(FloatCall call);
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;
    const FloatCall& call() const noexcept { return call_; }

private:
    FloatCall call_;
};

/// A parameter or buffer that the graph reads.
class ConstantStep : public RealStep {
public:
    explicit ConstantStep(Tensor value);
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;
    const Tensor& value() const noexcept { return value_; }

private:
    Tensor value_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/reference.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE void RealStep::lower(Lowering&, const QuantizedNode& node) const {
    throw Error("lower: " + node.layer() + " (" + node.type + ")",
                "it stays in float; a program executes integers only");
}

INTQ_INLINE FloatStep::FloatStep(FloatCall call) : call_(std::move(call)) {}

INTQ_INLINE void FloatStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    reference.set_real(node, reference.call(node, call_));
}

INTQ_INLINE ConstantStep::ConstantStep(Tensor value) : value_(std::move(value)) {}

INTQ_INLINE void ConstantStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    reference.set_real(node, reference.constant(value_));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_FLOAT_STEP_HPP
