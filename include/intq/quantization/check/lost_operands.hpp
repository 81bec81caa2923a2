// SPDX-License-Identifier: MIT
//
// find_lost_operands: sums in which a tensor of the model or an input takes the range from the other operand. Layer:
// quantization (docs/workflow.md section 6).
#ifndef INTQ_QUANTIZATION_CHECK_LOST_OPERANDS_HPP
#define INTQ_QUANTIZATION_CHECK_LOST_OPERANDS_HPP

#include <string>
#include <vector>

#include "intq/graph/graph_module.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// An operand of a sum or a difference that keeps few codes beside the other one.
struct LostOperand {
    std::string node;     // the sum
    std::string operand;  // what is lost
    std::string taker;    // the tensor of the model, or the input, that takes the range
    double codes = 0.0;   // that the range of the operand has in the sum
};

/// An operand with fewer codes than this is lost.
inline constexpr double least_codes_of_operand = 16.0;

/// The operands of sums in a calibrated model that keep fewer than least_codes_of_operand codes beside a tensor of the
/// model, or an input. With s the scales, and r the range of an operand's codes:
///
///     codes = r / max(s_out, s_taker·2^-16),  2^-14 in place of 2^-16 for int16
///
/// The second term is the common scale of a sum: the operand is rounded to it where the taker's is far larger.
std::vector<LostOperand> find_lost_operands(graph::GraphModule& model);

/// "node_add: its operand node_mul keeps 0.1 codes beside mask, ..." and what helps.
std::string to_string(const LostOperand& lost);

/// A sum with a tensor of the model, before any data.
struct SumWithTensor {
    const graph::Node* node = nullptr;
    std::string tensor;
    double magnitude = 0.0;    // of the tensor
    double least_range = 0.0;  // of the other operand, with which it keeps least_codes_of_operand codes
};

/// "its tensor mask has numbers up to 1e+09, ..." and what helps.
std::string to_string(const SumWithTensor& sum);

/// The sums in a prepared model whose tensor takes the range from all that usually passes: least_range is above 100.
std::vector<SumWithTensor> find_large_tensors(graph::GraphModule& model);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_check)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdio>

#    include "intq/core/dtype.hpp"
#    include "intq/graph/operator_rows.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/quantization/check/internal/unusual.hpp"
#    include "intq/quantization/modules/quantizer_of.hpp"
#    include "intq/tensor/owned_qparams.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// The first node before moves and quantizers, and the quantizer nearest to the reader.
struct OperandSource {
    const graph::Node* node = nullptr;
    const Quantizer* quantizer = nullptr;
};

INTQ_INLINE OperandSource source_of(const graph::Node& operand, PreparedEdges& edges) {
    OperandSource source{&operand};
    while (!source.node->inputs().empty()) {
        const Quantizer* const quantizer = quantizer_of(*source.node, edges.model());
        const bool moves = graph::moves_codes(graph::numbers_of(edges.row_of(*source.node).name));
        if (quantizer == nullptr && !moves) break;
        if (source.quantizer == nullptr) source.quantizer = quantizer;
        source.node = source.node->inputs()[0];
    }
    return source;
}

/// Calls visit(node, operand, taker) for each sum of codes, and each operand that is a tensor or an input.
template <class Visit> void for_each_taker(graph::GraphModule& model, const Visit& visit) {
    PreparedEdges edges(model);
    for (const graph::Node* node : model.graph().nodes()) {
        const std::string_view name = edges.row_of(*node).name;
        if ((name != "add" && name != "sub") || node->operands().size() != 2) continue;
        for (const std::size_t taker : {std::size_t{0}, std::size_t{1}}) {
            const OperandSource of_taker = source_of(*node->operands()[taker], edges);
            const OperandSource of_operand = source_of(*node->operands()[1 - taker], edges);
            const bool is_tensor = of_taker.node->op() == graph::Op::get_attr;
            const bool is_input = edges.row_of(*of_taker.node).role == Role::quant_stub;
            if (of_taker.quantizer != nullptr && of_operand.quantizer != nullptr && (is_tensor || is_input))
                visit(*node, of_operand, of_taker, edges);
        }
    }
}

}  // namespace detail

INTQ_INLINE std::vector<LostOperand> find_lost_operands(graph::GraphModule& model) {
    std::vector<LostOperand> found;
    detail::for_each_taker(model, [&](const graph::Node& node, const detail::OperandSource& operand,
                                      const detail::OperandSource& taker, PreparedEdges& edges) {
        const Quantizer* const output = edges.output_quantizer(node);
        for (const Quantizer* quantizer : {output, operand.quantizer, taker.quantizer})
            if (quantizer == nullptr || !quantizer->has_qparams()) return;
        const OwnedQParams grid = operand.quantizer->qparams();
        const double range =
            static_cast<double>(grid.scale()) * static_cast<double>(grid.quant_max - grid.quant_min + 1);
        const double common = std::ldexp(static_cast<double>(taker.quantizer->qparams().scale()),
                                         taker.quantizer->dtype() == DType::int16 ? -14 : -16);
        const double codes = range / (std::max)(static_cast<double>(output->qparams().scale()), common);
        if (codes < least_codes_of_operand)
            found.push_back(
                {graph::layer_name(node), graph::layer_name(*operand.node),
                 taker.node->op() == graph::Op::get_attr ? taker.node->target() : taker.node->inputs()[0]->name(),
                 codes});
    });
    return found;
}

INTQ_INLINE std::string to_string(const LostOperand& lost) {
    char codes[32];
    std::snprintf(codes, sizeof codes, "%.2g", lost.codes);
    return lost.node + ": its operand " + lost.operand + " keeps " + codes + " codes, because " + lost.taker +
           " takes the range of the sum; if that is a mask, add it in front of a softmax alone, or with a number like "
           "-100; otherwise give " +
           lost.node + " int16";
}

INTQ_INLINE std::string to_string(const SumWithTensor& sum) {
    return "its tensor " + sum.tensor + " has numbers up to " + shortest_text(static_cast<float>(sum.magnitude)) +
           ", beside which the other operand keeps fewer than " +
           std::to_string(static_cast<int>(least_codes_of_operand)) + " codes unless its range is above " +
           shortest_text((std::round)(sum.least_range)) +
           "; if it is a mask, add it in front of a softmax alone, or with a number like -100";
}

INTQ_INLINE std::vector<SumWithTensor> find_large_tensors(graph::GraphModule& model) {
    constexpr double usual_range = 100.0;
    std::vector<SumWithTensor> found;
    detail::for_each_taker(model, [&](const graph::Node& node, const detail::OperandSource&,
                                      const detail::OperandSource& taker, PreparedEdges& edges) {
        const Tensor* const values =
            taker.node->op() == graph::Op::get_attr ? model.find_tensor(taker.node->target()) : nullptr;
        if (values == nullptr || values->dtype() != DType::float32) return;
        double magnitude = 0.0;
        const Tensor all = values->contiguous();
        for (const float value : all.flat<float>())
            magnitude = (std::max)(magnitude, static_cast<double>((std::abs)(value)));
        const double codes = std::ldexp(1.0, 8 * static_cast<int>(size_of(edges.dtype_behind(node))));
        const double least = least_codes_of_operand * magnitude / codes;
        if (least > usual_range) found.push_back({&node, taker.node->target(), magnitude, least});
    });
    return found;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_check)
#endif  // INTQ_QUANTIZATION_CHECK_LOST_OPERANDS_HPP
