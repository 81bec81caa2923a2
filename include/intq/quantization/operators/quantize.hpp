// SPDX-License-Identifier: MIT
//
// quantize, dequantize, requantize: the steps between real values and codes. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_QUANTIZE_HPP
#define INTQ_QUANTIZATION_OPERATORS_QUANTIZE_HPP

#include "intq/core/op_kind.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

class ConstantStep;

/// Real values -> codes.
struct QuantizeStep : Step {
    OpKind kind() const noexcept override { return OpKind::quantize; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;
};

/// Codes -> real values.
struct DequantizeStep : Step {
    OpKind kind() const noexcept override { return OpKind::dequantize; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;
};

/// Codes -> codes of another scale or type.
struct RequantizeStep : Step {
    OpKind kind() const noexcept override { return OpKind::requantize; }
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;
    INTQ_INLINE void add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const override;
};

/// The constant that a step converts to codes; null if it is another step, or its input is computed. Such codes are
/// themselves constants of a program.
const ConstantStep* quantized_constant(const QuantizedGraph& quantized, const QuantizedNode& node);

/// Whether a step is a constant that is read only as codes, so that no program reads its real values.
bool is_constant_of_codes(const QuantizedGraph& quantized, const QuantizedNode& node);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <vector>

#    include "intq/program/program_builder.hpp"
#    include "intq/quantization/operators/float_step.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/internal/on_grid.hpp"
#    include "intq/quantization/operators/operator.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"
#    include "intq/quantization/operators/reference.hpp"
#    include "intq/tensor/owned_qparams.hpp"
#    include "intq/tensor/quantize.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE const ConstantStep* quantized_constant(const QuantizedGraph& quantized, const QuantizedNode& node) {
    if (node.as<QuantizeStep>() == nullptr) return nullptr;
    const auto is_input = [&](const QuantizedNode& other) { return other.output == node.inputs[0]; };
    const auto found = std::find_if(quantized.nodes.begin(), quantized.nodes.end(), is_input);
    return found == quantized.nodes.end() ? nullptr : found->as<ConstantStep>();
}

INTQ_INLINE bool is_constant_of_codes(const QuantizedGraph& quantized, const QuantizedNode& node) {
    if (node.as<ConstantStep>() == nullptr) return false;
    const auto reads = [&](const std::vector<int>& tensors) {
        return std::find(tensors.begin(), tensors.end(), node.output) != tensors.end();
    };
    return !reads(quantized.outputs) &&
           std::all_of(quantized.nodes.begin(), quantized.nodes.end(), [&](const QuantizedNode& reader) {
               return !reads(reader.inputs) || reader.as<QuantizeStep>() != nullptr;
           });
}

INTQ_INLINE void QuantizeStep::lower(Lowering& l, const QuantizedNode& node) const {
    if (const ConstantStep* constant = quantized_constant(l.quantized(), node)) {
        const OwnedQParams& qparams = l.qparams(node);
        const Tensor codes = quantize(constant->value(), qparams, l.builder().target().quantize);
        return l.set_constant(node, codes);
    }
    if (const ImageInput* image = l.image(node.inputs[0]))
        return l.set(node,
                     add_quantize_image(l.builder(), l.input(node), *image, l.qparams(node), Lowering::layer(node)));
    l.set(node, add_quantize(l.builder(), l.input(node), l.qparams(node), Lowering::layer(node)));
}

INTQ_INLINE void QuantizeStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    reference.quantize_output(node, reference.real_input(node, 0));
}

INTQ_INLINE void DequantizeStep::lower(Lowering& l, const QuantizedNode& node) const {
    const program::LayerName layer = Lowering::layer(node);
    if (l.lies_by_rows(node.inputs[0]))
        l.set_rows(node, add_dequantize(l.builder(), l.rows(node.inputs[0], layer), layer));
    else
        l.set(node, add_dequantize(l.builder(), l.input(node), layer));
}

INTQ_INLINE void DequantizeStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    reference.set_real(node, reference.real_input(node, 0));
}

INTQ_INLINE void RequantizeStep::lower(Lowering& l, const QuantizedNode& node) const {
    l.set_elements(node, add_on_grid(l.builder(), l.elements(node), l.qparams(node), {}, Lowering::layer(node)));
}

INTQ_INLINE void RequantizeStep::add_reference(ReferenceBuilder& reference, const QuantizedNode& node) const {
    reference.quantize_output(node, reference.real_input(node, 0));
}

namespace operators {

inline constexpr QuantizedOperator placeholder{"placeholder", Role::boundary};
inline constexpr QuantizedOperator get_attr{"get_attr", Role::boundary};
inline constexpr QuantizedOperator output{"output", Role::output};
inline constexpr QuantizedOperator quant_stub{"quant_stub", Role::quant_stub, OpKind::quantize};
inline constexpr QuantizedOperator dequant_stub{"dequant_stub", Role::dequant_stub, OpKind::dequantize};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_QUANTIZE_HPP
