// SPDX-License-Identifier: MIT
//
// Quantization of add, sub and mul, whose second operand may be a constant number. Layer: quantization
// (docs/arithmetic.md section 4, mul).
#ifndef INTQ_QUANTIZATION_OPERATORS_INTERNAL_CONSTANT_OPERAND_HPP
#define INTQ_QUANTIZATION_OPERATORS_INTERNAL_CONSTANT_OPERAND_HPP

#include <cstdint>
#include <optional>

#include "intq/core/op_kind.hpp"
#include "intq/core/op_params.hpp"
#include "intq/graph/node.hpp"
#include "intq/quantization/operators/elementwise.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"
#include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The constant operand of a node, beside one value.
struct ConstantOperand {
    double number = 0.0;
    bool is_first = false;  // of the two operands
};

/// None if both operands are values, or neither is.
std::optional<ConstantOperand> constant_operand(const graph::Node& node);

/// The grid on which a number is a code: 64 of int8, 16384 of int16, with its sign.
///
///     s = |c| / 64,  q = ±64;  q = 0 of any scale for 0
///
/// @throws Error for a number that is not finite, or whose scale is not one of 2^-100 … 2^126
OwnedQParams grid_of_constant(double number, DType dtype);

/// The sum, difference or product of codes and a number. A product with a positive number leaves the codes unchanged if
/// the output has the scale of the input times that number. Otherwise the number is an operand, a constant tensor of
/// one code.
class ConstantOperandStep : public AddStep {
public:
    ConstantOperandStep(FloatCall call, OpKind op, const ConstantOperand& operand,
                        Activation activation = Activation::none);
    INTQ_INLINE StepPtr with_activation(Activation activation) const override;
    INTQ_INLINE void lower(Lowering& l, const QuantizedNode& node) const override;

private:
    bool is_another_scale(const OwnedQParams& input, const OwnedQParams& output) const;
    double number_on(const OwnedQParams& input, const OwnedQParams& output) const;

    ConstantOperand operand_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <string>
#    include <utility>

#    include "intq/arith/ieee.hpp"
#    include "intq/core/shape.hpp"
#    include "intq/io/error.hpp"
#    include "intq/io/make_as.hpp"
#    include "intq/program/program_builder.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"
#    include "intq/quantization/operators/internal/on_grid.hpp"
#    include "intq/quantization/operators/quantize_instructions.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::optional<ConstantOperand> constant_operand(const graph::Node& node) {
    if (node.args().size() < 2) return std::nullopt;
    const std::optional<double> first = node.args()[0].number(), second = node.args()[1].number();
    if (first && node.args()[1].node() != nullptr) return ConstantOperand{*first, true};
    if (second && node.args()[0].node() != nullptr) return ConstantOperand{*second, false};
    return std::nullopt;
}

INTQ_INLINE OwnedQParams grid_of_constant(double number, DType dtype) {
    const auto value = static_cast<float>((std::abs)(number));
    OwnedQParams grid = OwnedQParams::per_tensor(1.0f, dtype);
    if (value == 0.0f) return grid;
    const float scale = value / (dtype == DType::int16 ? 0x1p14f : 0x1p6f);
    if (!(scale >= 0x1p-100f && scale <= 0x1p126f))
        throw Error("the constant " + shortest_text(number) +
                    " has no code, because its scale is not one of 2^-100 to 2^126");
    grid.scales = {scale};
    return grid;
}

INTQ_INLINE ConstantOperandStep::ConstantOperandStep(FloatCall call, OpKind op, const ConstantOperand& operand,
                                                     Activation activation)
    : AddStep(std::move(call), op, activation), operand_(operand) {}

INTQ_INLINE StepPtr ConstantOperandStep::with_activation(Activation activation) const {
    return make_as<Step, ConstantOperandStep>(call(), kind(), operand_, activation);
}

INTQ_INLINE bool ConstantOperandStep::is_another_scale(const OwnedQParams& input, const OwnedQParams& output) const {
    OwnedQParams scaled = input;
    scaled.scales = {arith::fmul(input.scale(), static_cast<float>(operand_.number))};
    return kind() == OpKind::mul && operand_.number > 0.0 && scaled == output;
}

/// The constant, or a smaller one where the output has room for a few codes of the input alone, as a mask of 0 and 1
/// times -1e9 has: all other codes end at an end of the output's grid.
///
///     |c'| = min(|c|, k·s_out / s_in),  k = 256 for int8, so that every code but 0 ends there, as with c;
///                                       16000 for int16, whose products then fit each target: from 5 codes on
INTQ_INLINE double ConstantOperandStep::number_on(const OwnedQParams& input, const OwnedQParams& output) const {
    if (kind() != OpKind::mul) return operand_.number;
    const double codes = output.dtype == DType::int16 ? 16000.0 : 256.0;
    const double most = static_cast<double>(output.scale()) * codes / static_cast<double>(input.scale());
    return std::copysign((std::min)((std::abs)(operand_.number), most), operand_.number);
}

INTQ_INLINE void ConstantOperandStep::lower(Lowering& l, const QuantizedNode& node) const {
    program::ProgramBuilder& builder = l.builder();
    const program::LayerName layer = Lowering::layer(node);
    const OwnedQParams &input = l.quantized().input(node, 0).qparams, &output = l.qparams(node);
    const std::int32_t x = l.elements(node);
    if (is_another_scale(input, output)) return l.set_elements(node, add_scaled(builder, x, output, layer));

    const double number = number_on(input, output);
    OwnedQParams grid = grid_of_constant(number, input.dtype);
    // 0 is a code of any scale; this one needs no more bits than the output.
    if (operand_.number == 0.0)
        grid.scales = {kind() == OpKind::mul ? arith::fdiv(output.scale(), input.scale()) : input.scale()};
    Shape shape = builder.at(x).shape;
    for (int axis = 0; axis < shape.rank; ++axis) shape[axis] = 1;
    const auto value = static_cast<float>(number);
    const Tensor codes = quantize(Tensor::full(shape, value), grid, builder.target().quantize);
    const std::int32_t constant =
        add_constant(builder, codes, grid, {layer.name + ".constant", layer.type}, builder.at(x).layout);
    const std::int32_t a = operand_.is_first ? constant : x, b = operand_.is_first ? x : constant;
    const arith::OutputCodes bounds = l.output_codes(node, activation());
    l.set_elements(node, kind() == OpKind::mul ? add_mul(builder, a, b, output, bounds, std::nullopt, layer)
                                               : add_sum(builder, kind(), a, b, output, bounds, layer));
}

namespace operators {

INTQ_INLINE void check_constant_operand(const StepRequest& request) {
    const std::optional<ConstantOperand> operand = constant_operand(request.node);
    if (operand && !std::isfinite(operand->number)) throw request.error("its constant operand is not finite");
}

/// The step of a constant number beside one value; null if both operands are values.
INTQ_INLINE StepPtr make_with_constant(const StepRequest& request, OpKind op) {
    const std::optional<ConstantOperand> operand = constant_operand(request.node);
    check_constant_operand(request);
    return operand ? std::make_shared<ConstantOperandStep>(request.call, op, *operand) : nullptr;
}

INTQ_INLINE StepPtr make_mul(const StepRequest& request) {
    const StepPtr step = make_with_constant(request, OpKind::mul);
    return step != nullptr ? step : std::make_shared<MulStep>(request.call);
}

INTQ_INLINE StepPtr make_sum(const StepRequest& request, OpKind op) {
    const StepPtr step = make_with_constant(request, op);
    return step != nullptr ? step : std::make_shared<AddStep>(request.call, op);
}
INTQ_INLINE StepPtr make_add(const StepRequest& request) { return make_sum(request, OpKind::add); }
INTQ_INLINE StepPtr make_sub(const StepRequest& request) { return make_sum(request, OpKind::sub); }

inline constexpr QuantizedOperator add{.name = "add",
                                       .role = Role::own_output,
                                       .kind = OpKind::add,
                                       .operands = 2,
                                       .make_step = &make_add,
                                       .check = &check_constant_operand,
                                       .takes_relu = true,
                                       .takes_clip = true};
// PyTorch subtracts real values.
inline constexpr QuantizedOperator sub{.name = "sub",
                                       .role = Role::own_output,
                                       .kind = OpKind::sub,
                                       .operands = 2,
                                       .make_step = &make_sub,
                                       .check = &check_constant_operand,
                                       .takes_relu = true,
                                       .takes_clip = true,
                                       .torch_role = Role::float_only};
inline constexpr QuantizedOperator mul{.name = "mul",
                                       .role = Role::own_output,
                                       .kind = OpKind::mul,
                                       .operands = 2,
                                       .make_step = &make_mul,
                                       .check = &check_constant_operand,
                                       .takes_clip = true};

}  // namespace operators

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_INTERNAL_CONSTANT_OPERAND_HPP
