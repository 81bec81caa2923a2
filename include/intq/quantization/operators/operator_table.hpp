// SPDX-License-Identifier: MIT
//
// The list of the operators that quantization knows; a model's other operators stay in float. An operator is one line.
// Layer: quantization (docs/design.md section 10).
#ifndef INTQ_QUANTIZATION_OPERATORS_OPERATOR_TABLE_HPP
#define INTQ_QUANTIZATION_OPERATORS_OPERATOR_TABLE_HPP

#include <map>
#include <optional>
#include <span>

#include "intq/arith/target.hpp"
#include "intq/core/shape.hpp"
#include "intq/graph/node.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/quantization/operators/operator.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The rows of the list, in its order.
std::span<const QuantizedOperator* const> quantized_operators();

/// The row of a node. Layers with weights say their operator themselves, so that fused ones need no rows.
const QuantizedOperator& quantized_operator(const graph::Node& node, nn::Module& root);

/// The rows of the nodes that a walk over a graph asks about: each is looked up once.
class NodeOperators {
public:
    /// The root must outlive this.
    explicit NodeOperators(nn::Module& root) : root_(root) {}

    const QuantizedOperator& of(const graph::Node& node);
    /// The axis of the softmaxes that alone read a node; none for other readers, or softmaxes of different axes.
    std::optional<int> axis_of_scores(const graph::Node& node);
    /// Whether a node is an input, or computed from inputs and constants by moves, sums, products and embeddings.
    bool follows_from_input(const graph::Node& node);
    /// Of a value that follows from an input and that only softmaxes read, through a sum at least, and of sums with
    /// such a value: what becomes of 1 on the way. None for other values, and where ways differ.
    ///
    /// Cost     O(nodes between the value, the input and the softmaxes)
    std::optional<double> factor_of_mask(const graph::Node& node);
    /// Whether the sum of an operator, an int32 accumulator, may be the output on a target.
    ///
    /// @param shape  of its first input; of rank 0 where it is not known
    bool gives_sum(const graph::Node& node, const Shape& shape, const arith::PolicyRecord& target);
    /// For a walk that erased nodes, or put a module of another operator into a slot that nodes call.
    void forget() noexcept { rows_.clear(); }

private:
    std::optional<double> factor_to_softmax(const graph::Node& node, bool is_added, int depth);

    nn::Module& root_;
    std::map<const graph::Node*, const QuantizedOperator*> rows_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_operators)

#    include <algorithm>
#    include <iterator>
#    include <set>
#    include <string>
#    include <string_view>

#    include "intq/graph/operators.hpp"
#    include "intq/graph/shape_arithmetic.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/modules/custom_modules.hpp"
#    include "intq/quantization/modules/quantizer_of.hpp"
#    include "intq/quantization/operators/argmax.hpp"
#    include "intq/quantization/operators/causal_fill.hpp"
#    include "intq/quantization/operators/conv.hpp"
#    include "intq/quantization/operators/custom.hpp"
#    include "intq/quantization/operators/elementwise.hpp"
#    include "intq/quantization/operators/embedding.hpp"
#    include "intq/quantization/operators/extreme.hpp"
#    include "intq/quantization/operators/index_copy.hpp"
#    include "intq/quantization/operators/internal/constant_operand.hpp"
#    include "intq/quantization/operators/internal/host_layer.hpp"
#    include "intq/quantization/operators/internal/mean.hpp"
#    include "intq/quantization/operators/internal/norm.hpp"
#    include "intq/quantization/operators/internal/trial.hpp"
#    include "intq/quantization/operators/layer_norm.hpp"
#    include "intq/quantization/operators/mask.hpp"
#    include "intq/quantization/operators/matmul.hpp"
#    include "intq/quantization/operators/move.hpp"
#    include "intq/quantization/operators/pool.hpp"
#    include "intq/quantization/operators/quantize.hpp"
#    include "intq/quantization/operators/quantized_graph.hpp"
#    include "intq/quantization/operators/resize.hpp"
#    include "intq/quantization/operators/softmax.hpp"
#    include "intq/quantization/operators/unary.hpp"
#    include "intq/tensor/owned_qparams.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::span<const QuantizedOperator* const> quantized_operators() {
    static constexpr const QuantizedOperator* rows[] = {
        &operators::placeholder,
        &operators::get_attr,
        &operators::output,
        &operators::quant_stub,
        &operators::dequant_stub,
        &operators::conv2d,
        &operators::linear,
        &operators::add,
        &operators::relu,
        &operators::relu6,
        &operators::max_pool2d,
        &operators::avg_pool2d,
        &operators::adaptive_avg_pool2d,
        &operators::cat,
        &operators::sub,
        &operators::slice,
        &operators::split,
        &operators::chunk,
        &operators::getitem,
        &operators::permute,
        &operators::transpose,
        &operators::expand,
        &operators::reshape,
        &operators::softmax,
        &operators::log_softmax,
        &operators::flatten,
        &operators::identity,
        &operators::dropout,
        &operators::mul,
        &operators::clamp,
        &operators::mean,
        &operators::sum,
        &operators::interpolate,
        &operators::pad,
        &operators::conv1d,
        &operators::conv_transpose2d,
        &operators::conv_transpose1d,
        &operators::conv3d,
        &operators::conv_transpose3d,
        &operators::batch_norm2d,
        &operators::bn_relu2d,
        &operators::bn_relu62d,
        &operators::leaky_relu,
        &operators::layer_norm,
        &operators::rms_norm,
        &operators::group_norm,
        &operators::instance_norm,
        &operators::matmul,
        &operators::masked_fill,
        &operators::causal_fill,
        &operators::embedding,
        &operators::maximum,
        &operators::minimum,
        &operators::index_copy,
        &operators::argmax,
    };
    return rows;
}

/// The row of an operator that the table does not know.
inline constexpr QuantizedOperator unknown_operator{};

INTQ_INLINE const QuantizedOperator& quantized_operator(const graph::Node& node, nn::Module& root) {
    const nn::Module* const module = graph::module_of(node, root);
    if (module != nullptr && is_observed_custom(*module)) return operators::custom;
    const auto* weighted = dynamic_cast<const nn::Weighted*>(module);
    const std::string name = weighted != nullptr ? weighted->operator_name() : graph::operator_of(node, root);
    for (const QuantizedOperator* row : quantized_operators())
        if (row->name == name) return *row;
    if (operators::is_unary(name)) return operators::unary;
    return unknown_operator;
}

INTQ_INLINE std::optional<int> NodeOperators::axis_of_scores(const graph::Node& node) {
    std::optional<int> axis;
    for (const graph::Node* user : node.users()) {
        const auto axis_of = of(*user).softmax_axis;
        std::optional<int> own;
        if (quantizer_of(*user, root_) != nullptr)
            own = axis_of_scores(*user);
        else if (axis_of != nullptr)
            own = axis_of(*user, graph::module_of(*user, root_));
        if (!own || (axis && *axis != *own)) return std::nullopt;
        axis = own;
    }
    return axis;
}

namespace detail {

/// Whether an operator moves the codes of its input.
INTQ_INLINE bool moves_input(const QuantizedOperator& row) {
    return row.role == Role::shares_input && graph::moves_codes(graph::numbers_of(row.name));
}

}  // namespace detail

INTQ_INLINE bool NodeOperators::follows_from_input(const graph::Node& node) {
    static constexpr std::string_view computing[] = {"add", "sub", "mul", "quant_stub", "embedding"};
    std::vector<const graph::Node*> open{&node};
    std::set<const graph::Node*> seen{&node};
    bool reads_input = false;
    while (!open.empty()) {
        const graph::Node& value = *open.back();
        open.pop_back();
        reads_input = reads_input || value.op() == graph::Op::placeholder;
        if (value.op() == graph::Op::placeholder || value.op() == graph::Op::get_attr || graph::gives_shape(value))
            continue;
        const QuantizedOperator& row = of(value);
        const bool is_known = quantizer_of(value, root_) != nullptr || detail::moves_input(row) ||
                              std::find(std::begin(computing), std::end(computing), row.name) != std::end(computing);
        if (!is_known) return false;
        for (const graph::Node* operand : value.inputs())
            if (seen.insert(operand).second) open.push_back(operand);
    }
    return reads_input;
}

INTQ_INLINE std::optional<double> NodeOperators::factor_to_softmax(const graph::Node& node, bool is_added, int depth) {
    std::optional<double> factor;
    for (const graph::Node* user : node.users()) {
        if (graph::gives_shape(*user)) continue;
        const QuantizedOperator& row = of(*user);
        const auto number = row.name == "mul" && is_added ? constant_operand(*user) : std::nullopt;
        const bool sums = (row.name == "add" || row.name == "sub") && user->inputs().size() == user->operands().size();
        const bool adds = is_added || (sums && user->operands().size() == 2);  // of a number nothing is hidden
        std::optional<double> own;
        if (quantizer_of(*user, root_) != nullptr)
            own = factor_to_softmax(*user, is_added, depth);
        else if (row.softmax_axis != nullptr)
            own = is_added ? std::optional(1.0) : std::nullopt;
        else if (depth > 0 && (detail::moves_input(row) || sums || number || (is_added && row.name == "masked_fill")))
            own = factor_to_softmax(*user, adds, depth - 1);
        if (own && number) *own *= number->number;
        if (own && row.name == "sub" && user->args()[1].node() == &node) *own = -*own;
        if (!own || *own == 0.0 || (factor && *factor != *own)) return std::nullopt;
        factor = own;
    }
    return factor;
}

INTQ_INLINE std::optional<double> NodeOperators::factor_of_mask(const graph::Node& node) {
    constexpr int longest_way = 16;  // sums, moves and factors behind it
    if (follows_from_input(node)) return factor_to_softmax(node, false, longest_way);
    const graph::Node* sum = &node;
    while (quantizer_of(*sum, root_) != nullptr) sum = sum->inputs()[0];
    const std::string_view name = of(*sum).name;
    const auto inputs = sum->inputs();
    const bool holds_mask = (name == "add" || name == "sub") &&
                            std::any_of(inputs.begin(), inputs.end(),
                                        [&](const graph::Node* operand) { return follows_from_input(*operand); });
    return holds_mask ? factor_to_softmax(node, true, longest_way) : std::nullopt;
}

INTQ_INLINE bool NodeOperators::gives_sum(const graph::Node& node, const Shape& shape,
                                          const arith::PolicyRecord& target) {
    const QuantizedOperator& row = of(node);
    if (row.gives_sum == nullptr) return false;
    const QuantizedTensor codes = detail::stand_in(OwnedQParams::per_tensor(1.0f, DType::int8), false, shape);
    return row.gives_sum(detail::trial_request(node, graph::module_of(node, root_), {&codes}, {}, target));
}

INTQ_INLINE const QuantizedOperator& NodeOperators::of(const graph::Node& node) {
    const auto known = rows_.find(&node);
    return *(known != rows_.end() ? known->second
                                  : rows_.emplace(&node, &quantized_operator(node, root_)).first->second);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_operators)
#endif  // INTQ_QUANTIZATION_OPERATORS_OPERATOR_TABLE_HPP
