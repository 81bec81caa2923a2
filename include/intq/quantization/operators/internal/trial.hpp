// SPDX-License-Identifier: MIT
//
// Trial: whether a target takes an operator, asked before scales are known. Layer: quantization.
#ifndef INTQ_QUANTIZATION_OPERATORS_INTERNAL_TRIAL_HPP
#define INTQ_QUANTIZATION_OPERATORS_INTERNAL_TRIAL_HPP

#include <string>
#include <vector>

#include "intq/arith/constraints.hpp"
#include "intq/arith/target.hpp"
#include "intq/core/dtype.hpp"
#include "intq/core/op_kind.hpp"
#include "intq/core/shape.hpp"
#include "intq/graph/node.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/operators/operator.hpp"
#include "intq/quantization/operators/quantized_graph.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Codes whose scale is not known yet: of scale 1, and of zero point 1 where the scheme has one.
///
/// @param shape  of rank 0 where it is not known
QuantizedTensor stand_in(const OwnedQParams& range, bool is_affine, const Shape& shape);

/// The request to make a step from a node whose inputs are known only by type. Its errors name no place.
StepRequest trial_request(const graph::Node& node, const nn::Module* module, std::vector<const QuantizedTensor*> inputs,
                          const Shape& output_shape, const arith::PolicyRecord& target);

/// Throws if an operator on codes has arguments without an integer form, whatever the shapes. Names no place.
void check_arguments(const QuantizedOperator& row, const graph::Node& node, const nn::Module* module, DType dtype,
                     bool is_affine, const arith::PolicyRecord& target);
/// The use of an operator that check_types() looks up in the constraint table.
arith::OperatorUse use_of(const QuantizedOperator& row, const nn::Module* module, DType input, DType weight,
                          DType output);
/// Throws for a use that no row of the target's table takes, and quotes the operator's rows. Names no place.
void check_types(const arith::OperatorUse& use, const arith::PolicyRecord& target);

/// Whether the target can requantize codes of a type to another grid.
bool can_requantize(const arith::PolicyRecord& target, DType dtype);

/// Adds the instructions of a step to a program that no one runs.
///
/// @param output  int32: the accumulator is the output
/// @throws Error that names no place, for what lower() would refuse whatever the scales
void try_step(const StepPtr& step, const std::vector<QuantizedTensor>& inputs, const QuantizedTensor& output,
              const arith::PolicyRecord& target);

/// Names the scale or zero points for which lower() may still refuse a step that try_step() takes; empty if it takes
/// all that are tried. Output scales are tried from 2^-4 to 2^24 times the largest scale of the accumulator (without
/// weights, the scale of the inputs). Zero points of the inputs are tried at their lowest code.
std::string decided_by_scales(const StepPtr& step, const std::vector<QuantizedTensor>& inputs,
                              const QuantizedTensor& output, const arith::PolicyRecord& target);

/// "; the rows of bayes for avg_pool2d: int8 -> int8 (kernel, stride and padding up to 256)"; "" for no operator.
std::string rows_of(const arith::PolicyRecord& target, OpKind op);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <cmath>
#    include <cstdint>
#    include <memory>
#    include <optional>
#    include <utility>

#    include "intq/graph/interpreter.hpp"
#    include "intq/graph/shape_arithmetic.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/error.hpp"
#    include "intq/kernels/table/rows.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/internal/lowering.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE QuantizedTensor stand_in(const OwnedQParams& range, bool is_affine, const Shape& shape) {
    QuantizedTensor codes{"", range.dtype, range, shape};
    codes.qparams.scales = {1.0f};
    codes.qparams.axis = -1;
    codes.qparams.zero_points.clear();
    if (is_affine) codes.qparams.zero_points = {1};
    return codes;
}

INTQ_INLINE StepRequest trial_request(const graph::Node& node, const nn::Module* module,
                                      std::vector<const QuantizedTensor*> inputs, const Shape& output_shape,
                                      const arith::PolicyRecord& target) {
    graph::Interpreter::Values nothing;
    for (const graph::Node* input : node.inputs())
        nothing[input] = graph::gives_shape(*input) ? graph::shape_value(*input) : nn::Value();
    StepRequest request{node, module, std::move(inputs), output_shape, target, {}, {}, {}};
    request.constants = graph::Interpreter::resolve(node.args(), nothing);
    for (const nn::Value& constant : request.constants) request.call.arguments.push_back({-1, constant});
    if (!request.call.arguments.empty()) request.call.arguments[0].input = 0;
    return request;
}

INTQ_INLINE void check_arguments(const QuantizedOperator& row, const graph::Node& node, const nn::Module* module,
                                 DType dtype, bool is_affine, const arith::PolicyRecord& target) {
    // Arguments that follow from shapes are checked where shapes are known, in the trial.
    const auto inputs = node.inputs();
    const bool is_open = std::any_of(inputs.begin(), inputs.end(), [](const graph::Node* input) {
        return graph::gives_shape(*input) && graph::shape_value(*input).is_none();
    });
    if (row.check == nullptr || is_open) return;
    const QuantizedTensor codes = stand_in(OwnedQParams::per_tensor(1.0f, dtype), is_affine, {});
    try {
        (*row.check)(trial_request(node, module, {&codes}, {}, target));
    } catch (const Error& refusal) {
        throw Error(refusal.what() + rows_of(target, row.kind));
    }
}

INTQ_INLINE arith::OperatorUse use_of(const QuantizedOperator& row, const nn::Module* module, DType input, DType weight,
                                      DType output) {
    arith::OperatorUse result{row.kind, input, weight, output};
    if (row.window != nullptr && module != nullptr) result.window = row.window(*module);
    return result;
}

INTQ_INLINE void check_types(const arith::OperatorUse& use, const arith::PolicyRecord& target) {
    if (use.op == OpKind::none) return;  // a custom module
    const Status status = arith::check_constraints(target.constraints, use);
    if (!status.ok()) throw Error(describe(status) + " (target " + target.name + ")" + rows_of(target, use.op));
}

INTQ_INLINE bool can_requantize(const arith::PolicyRecord& target, DType dtype) {
    return arith::check_constraints(target.constraints, {OpKind::requantize, dtype, DType::none, dtype}).ok();
}

/// Lowers a step with this output.
INTQ_INLINE void try_with(const StepPtr& step, const std::vector<QuantizedTensor>& inputs, QuantizedTensor output,
                          const arith::PolicyRecord& target) {
    QuantizedGraph graph;
    graph.target = target;
    QuantizedNode node;
    node.step = step;
    for (const QuantizedTensor& input : inputs) {
        node.inputs.push_back(static_cast<int>(graph.tensors.size()));
        graph.tensors.push_back(input);
    }
    node.output = static_cast<int>(graph.tensors.size());
    graph.tensors.push_back(std::move(output));
    // A table without kernels: only packing reads it, and packs in an order that no kernel asks for.
    const kernels::KernelTable no_kernels{"", {&graph.target}};
    Lowering lowering(graph, no_kernels, 1);
    lowering.builder().set_trial();
    for (const int input : node.inputs) lowering.add_input(input);
    step->lower(lowering, node);
    lowering.output(node.output);
}

/// The largest scale of a layer's accumulator; 1 for a step without weights.
INTQ_INLINE float largest_unit(const StepPtr& step, const std::vector<QuantizedTensor>& inputs) {
    const auto* weighted = dynamic_cast<const WeightedStep*>(step.get());
    if (weighted == nullptr) return 1.0f;
    const auto scales =
        accumulator_scales(inputs.at(0).qparams.scale(), weighted->weight_qparams, weighted->weight.extent(0));
    return *std::max_element(scales.begin(), scales.end());
}

/// The output that a target fixes, whatever the data; null where it fixes none.
INTQ_INLINE const arith::FixedOutput* fixed_output_of(const StepPtr& step, const std::vector<QuantizedTensor>& inputs,
                                                      const QuantizedTensor& output,
                                                      const arith::PolicyRecord& target) {
    const arith::OperatorUse use{step->kind(), inputs.at(0).dtype, DType::none, output.dtype};
    return arith::find_fixed_output(target.fixed_outputs, use);
}

INTQ_INLINE bool has_scale_of_data(const QuantizedTensor& tensor) {
    return tensor.dtype == DType::int8 || tensor.dtype == DType::int16;
}

INTQ_INLINE void try_step(const StepPtr& step, const std::vector<QuantizedTensor>& inputs,
                          const QuantizedTensor& output, const arith::PolicyRecord& target) {
    const float unit = largest_unit(step, inputs);
    if (const arith::FixedOutput* const fixed = fixed_output_of(step, inputs, output, target)) {
        QuantizedTensor given = output;
        given.qparams.scales = {fixed->scale};
        given.qparams.zero_points = {fixed->zero_point};
        return try_with(step, inputs, given, target);
    }
    std::optional<Error> refusal;
    // The largest scale of the accumulator, and a scale that is large enough for sums and products of codes.
    for (const float scale : {unit, unit * 0x1p12f}) {
        QuantizedTensor scaled = output;
        if (has_scale_of_data(output)) scaled.qparams.scales = {scale};
        try {
            return try_with(step, inputs, scaled, target);
        } catch (const Error& error) {
            if (!refusal) refusal = error;
        }
    }
    throw *refusal;
}

/// Whether a target takes a step whose output has this scale.
INTQ_INLINE bool takes_scale(const StepPtr& step, const std::vector<QuantizedTensor>& inputs, QuantizedTensor output,
                             const arith::PolicyRecord& target, float scale) {
    output.qparams.scales = {scale};
    try {
        try_with(step, inputs, std::move(output), target);
        return true;
    } catch (const Error&) {
        return false;
    }
}

INTQ_INLINE std::string decided_by_scales(const StepPtr& step, const std::vector<QuantizedTensor>& inputs,
                                          const QuantizedTensor& output, const arith::PolicyRecord& target) {
    if (fixed_output_of(step, inputs, output, target) != nullptr || !has_scale_of_data(output)) return {};
    const float unit = largest_unit(step, inputs);
    const auto takes = [&](int exponent) {
        return takes_scale(step, inputs, output, target, std::ldexp(unit, exponent));
    };
    constexpr int least = -4, most = 24;
    int taken = 0;
    while (taken < most && !takes(taken)) ++taken;  // at most 12: try_step() took 0 or 12
    std::vector<QuantizedTensor> lowest = inputs;
    for (QuantizedTensor& input : lowest)
        for (std::int32_t& zero_point : input.qparams.zero_points)
            zero_point = static_cast<std::int32_t>(input.qparams.quant_min);
    if (!takes_scale(step, lowest, output, target, std::ldexp(unit, taken))) return "the zero points of its inputs";
    const auto last_taken = [&](int end, int direction) {
        int exponent = takes(end) ? end : taken;
        while (exponent != end && takes(exponent + direction)) exponent += direction;
        return exponent;
    };
    const int low = last_taken(least, -1), high = last_taken(most, 1);
    const auto limit = [&](const char* what, int exponent) {
        return std::string(what) + " about 2^" + std::to_string(exponent) +
               (unit == 1.0f ? " times the scale of its inputs" : " steps of its accumulator");
    };
    std::string bounds;
    if (low != least) bounds = limit("at least", low);
    if (high != most) bounds += (bounds.empty() ? "" : " and ") + limit("at most", high);
    return bounds.empty() ? "" : "the scale of its output, which must be " + bounds;
}

INTQ_INLINE std::string rows_of(const arith::PolicyRecord& target, OpKind op) {
    if (op == OpKind::none) return {};
    std::string rows;
    for (const arith::ConstraintRow& row : target.constraints) {
        if (row.op != op) continue;
        rows += std::string(rows.empty() ? "" : ", ") + name_of(row.input);
        if (row.weight != DType::none) rows += std::string(" by ") + name_of(row.weight);
        rows += std::string(" -> ") + name_of(row.output);
        std::string limits;
        const auto limit = [&](const char* what, index_t value) {
            if (value != 0)
                limits += (limits.empty() ? "" : ", ") + std::string(what) + " up to " + std::to_string(value);
        };
        limit("kernel", row.max_kernel);
        limit("stride", row.max_stride);
        limit("padding", row.max_padding);
        limit("channels", row.max_channels);
        if (!limits.empty()) rows += " (" + limits + ")";
    }
    const std::string table = std::string(target.name) + " for " + name_of(op);
    return rows.empty() ? "; there is no row of " + table : "; the rows of " + table + ": " + rows;
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_INTERNAL_TRIAL_HPP
