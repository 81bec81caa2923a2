// SPDX-License-Identifier: MIT
//
// Numbers beside codes: x + 3, x / 2 between DequantizeLinear and QuantizeLinear. Layer: interop (docs/onnx.md).
#ifndef INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_CONSTANT_OPERANDS_HPP
#define INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_CONSTANT_OPERANDS_HPP

#include "intq/core/dtype.hpp"
#include "intq/graph/node.hpp"
#include "intq/quantization/prepare/prepared_model.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

/// The grid on which a number that the file holds in float is the code ±1: s = |c|.
///
/// @param dtype  of the other operand
OwnedQParams grid_of_number(double number, DType dtype);

/// Lets an operator of two operands, one of which is a number, read it as a tensor of the model with a quantizer.
///
/// @param dtype  of the codes of the other operand
/// @pre    the shape of the other operand is known; the target computes as ONNX does
/// @return the call of the quantizer; null where the operator has no number among its two operands
graph::Node* make_number_an_operand(quantization::PreparedModel& model, graph::Node& node, DType dtype);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(interop_quantized_onnx)

#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <optional>
#    include <string>
#    include <vector>

#    include "intq/core/shape.hpp"
#    include "intq/graph/graph.hpp"
#    include "intq/interop/quantized_onnx/internal/given_quantizer.hpp"
#    include "intq/quantization/fake_quantize/fake_quantize.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::interop::onnx {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE OwnedQParams grid_of_number(double number, DType dtype) {
    return OwnedQParams::per_tensor(number == 0.0 ? 1.0f : static_cast<float>(std::fabs(number)), dtype);
}

INTQ_INLINE graph::Node* make_number_an_operand(quantization::PreparedModel& model, graph::Node& node, DType dtype) {
    graph::ArgumentList args = node.args();
    if (args.size() != 2 || node.operands().size() != 1) return nullptr;
    Shape ones;
    ones.rank = node.operands()[0]->outputs()[0].shape.rank;
    for (int axis = 0; axis < ones.rank; ++axis) ones[axis] = 1;
    for (std::size_t i = 0; i < 2; ++i) {
        const std::optional<double> number = args[i].number();
        if (!number) continue;
        const OwnedQParams grid = grid_of_number(*number, dtype);
        const std::string name = node.name() + "_operand";
        model.add_buffer(name, Tensor::full(ones, static_cast<float>(*number)));
        model.add_child(name + "_quantizer", given_quantizer(grid, model.target().quantize));
        const auto at = model.graph().before(node);
        graph::Node& codes = model.graph().call_module(name + "_quantizer", {model.graph().get_attr(name)});
        args[i] = codes;
        node.set_args(std::move(args));
        return &codes;
    }
    return nullptr;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::interop::onnx

#endif  // INTQ_DEFINES(interop_quantized_onnx)
#endif  // INTQ_INTEROP_QUANTIZED_ONNX_INTERNAL_CONSTANT_OPERANDS_HPP
