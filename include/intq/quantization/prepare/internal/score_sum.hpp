// SPDX-License-Identifier: MIT
//
// ScoreSum: the tensors of a model that are added on the way to a softmax, and the way without them. Layer:
// quantization (docs/workflow.md section 4, "Masks").
#ifndef INTQ_QUANTIZATION_PREPARE_INTERNAL_SCORE_SUM_HPP
#define INTQ_QUANTIZATION_PREPARE_INTERNAL_SCORE_SUM_HPP

#include <optional>
#include <set>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/quantization/operators/operator_table.hpp"
#include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// A tensor of the model in the sum that a softmax reads, float32, as it arrives there.
struct ScoreTerm {
    Tensor values;         // of a MaskedFill what its value has become where it fills, and 0 elsewhere
    bool is_fill = false;  // in place of the scores
};

/// The value that softmaxes read, followed backwards through sums, differences, products with numbers, moves that keep
/// the samples, and MaskedFill:
///
///     value = scores + sum of the terms
///
/// Moves are followed where the graph knows their shapes.
class ScoreSum {
public:
    /// @param readers  softmaxes that read `top`
    ScoreSum(graph::GraphModule& model, NodeOperators& operators, graph::Node& top, std::vector<graph::Node*> readers);

    /// Whether the terms can be taken out: each node on the way is read once on it, and no term depends on the sample.
    bool is_separable() const noexcept { return is_separable_; }
    /// From the softmax on.
    const std::vector<ScoreTerm>& terms() const noexcept { return terms_; }
    /// Whether `top` is the MaskedFill of the first term.
    bool begins_with_fill();
    /// Whether a value that follows from an input, such as a mask, is added in front of another sum. replace_terms()
    /// adds it last, so that only the scores that the softmax reads have it.
    bool has_early_operand() const noexcept { return early_ != nullptr; }

    /// Makes the readers read the scores without the terms, and with `rest` added. Nodes that others read stay as they
    /// are, and the readers get copies.
    ///
    /// @param rest  null where nothing is added
    /// @return the node that the readers read
    /// @pre is_separable(); called once
    graph::Node& replace_terms(const Tensor* rest);

private:
    void collect(graph::Node& node, double factor);
    void collect_sum(graph::Node& node, double factor);
    void add_term(const Tensor& values, double factor, bool is_fill);
    bool take_early(graph::Node& node, std::size_t operand, double factor);
    bool is_sum(const graph::Node& node);
    std::optional<double> factor_of(const graph::Node& node);
    bool is_move(const graph::Node& node);
    const Tensor* constant_of(const graph::Argument& argument) const;
    const Tensor* mask_of(const graph::Node& node, double factor) const;
    std::optional<Tensor> moved(const Tensor& values);

    graph::Node& strip(graph::Node& node, bool is_owned, const Tensor* rest);
    graph::Node& changed(graph::Node& node, bool is_owned, graph::ArgumentList args);
    graph::Node& attribute(const Tensor& values, const graph::Node& before);
    graph::Node& added(graph::Node& node, graph::Node& value);
    void erase_unread();

    graph::GraphModule& model_;
    NodeOperators& operators_;
    graph::Node& top_;
    std::vector<graph::Node*> readers_;
    std::vector<ScoreTerm> terms_;
    std::vector<graph::Node*> way_;          // from the softmax on
    std::vector<const graph::Node*> moves_;  // between the softmax and the node that collect() is at
    std::set<const graph::Node*> seen_;
    graph::Node *early_ = nullptr, *early_root_ = nullptr;  // added last, and the operand that it is in
    bool is_separable_ = true;
};

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <cstddef>
#    include <limits>
#    include <string>
#    include <string_view>
#    include <utility>

#    include "intq/graph/interpreter.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/quantization/observers/internal/scores.hpp"
#    include "intq/quantization/operators/internal/constant_operand.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE ScoreSum::ScoreSum(graph::GraphModule& model, NodeOperators& operators, graph::Node& top,
                               std::vector<graph::Node*> readers)
    : model_(model), operators_(operators), top_(top), readers_(std::move(readers)) {
    collect(top, 1.0);
}

// --- the way backwards ---------------------------------------------------------------------------------------------

INTQ_INLINE const Tensor* ScoreSum::constant_of(const graph::Argument& argument) const {
    if (argument.node() == nullptr || argument.node()->op() != graph::Op::get_attr) return nullptr;
    const Tensor* const values = model_.find_tensor(argument.node()->target());
    return values != nullptr && values->dtype() == DType::float32 ? values : nullptr;
}

/// Of two operands, one of which at least is no tensor of the model.
INTQ_INLINE bool ScoreSum::is_sum(const graph::Node& node) {
    const std::string_view name = operators_.of(node).name;
    if ((name != "add" && name != "sub") || node.args().size() != 2) return false;
    return std::any_of(node.args().begin(), node.args().end(), [](const graph::Argument& argument) {
        return argument.node() != nullptr && argument.node()->op() != graph::Op::get_attr;
    });
}

INTQ_INLINE std::optional<double> ScoreSum::factor_of(const graph::Node& node) {
    if (graph::operator_of(node, model_) == "neg") return -1.0;
    const auto operand = operators_.of(node).name == "mul" ? constant_operand(node) : std::nullopt;
    return operand && operand->number != 0.0 ? std::optional(operand->number) : std::nullopt;
}

INTQ_INLINE bool ScoreSum::is_move(const graph::Node& node) {
    const std::string_view name = operators_.of(node).name;
    const graph::Node* const source = node.args().empty() ? nullptr : node.args()[0].node();
    if (source == nullptr) return false;
    if (name == "identity" || name == "dropout") return true;
    if (name != "reshape" && name != "flatten" && name != "permute" && name != "transpose") return false;
    const graph::OutputInfo &from = source->outputs()[0], &to = node.outputs()[0];
    return from.dtype != DType::none && to.dtype != DType::none && from.shape.rank > 0 && to.shape.rank > 0 &&
           from.shape[0] == to.shape[0];
}

/// The mask of a MaskedFill whose value hides what it fills where the softmax reads it; null for other nodes.
INTQ_INLINE const Tensor* ScoreSum::mask_of(const graph::Node& node, double factor) const {
    const auto* const fill = dynamic_cast<const nn::MaskedFill*>(graph::module_of(node, model_));
    return fill != nullptr && factor * fill->value() <= -masked_scores ? &fill->mask() : nullptr;
}

INTQ_INLINE bool ScoreSum::begins_with_fill() { return mask_of(top_, 1.0) != nullptr; }

INTQ_INLINE void ScoreSum::collect(graph::Node& node, double factor) {
    const Tensor* const mask = mask_of(node, factor);
    const bool sums = is_sum(node), moves = is_move(node);
    const std::optional<double> scaled = factor_of(node);
    if (mask == nullptr && !sums && !moves && !scaled) return;  // the scores
    if (!seen_.insert(&node).second) {
        is_separable_ = false;
        return;
    }
    way_.push_back(&node);
    if (sums) return collect_sum(node, factor);
    if (mask != nullptr) {
        const double value = dynamic_cast<const nn::MaskedFill&>(*graph::module_of(node, model_)).value();
        const nn::Value zeros(Tensor::zeros(mask->shape()));
        add_term(nn::masked_fill(zeros, nn::Value(*mask), 1.0).tensor(), factor * value, true);
    }
    if (moves) moves_.push_back(&node);
    for (const graph::Argument& argument : node.args())
        if (argument.node() != nullptr && argument.node() == node.inputs()[0])
            collect(*argument.node(), factor * scaled.value_or(1.0));
    if (moves) moves_.pop_back();
}

INTQ_INLINE void ScoreSum::collect_sum(graph::Node& node, double factor) {
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
        const double own = i == 1 && operators_.of(node).name == "sub" ? -factor : factor;
        if (const Tensor* const values = constant_of(node.args()[i]))
            add_term(*values, own, false);
        else if (graph::Node* const operand = node.args()[i].node(); operand != nullptr && !take_early(node, i, own))
            collect(*operand, own);
    }
}

/// An operand of a sum that may as well be added last: it is on the scale of the scores, where they are. Tensors that
/// are added to it are terms.
INTQ_INLINE bool ScoreSum::take_early(graph::Node& node, std::size_t operand, double factor) {
    graph::Node &root = *node.args()[operand].node(), *const other = node.args()[1 - operand].node();
    if (early_ != nullptr || factor != 1.0 || !moves_.empty() || other == nullptr || other == &root ||
        other->op() == graph::Op::get_attr || !operators_.follows_from_input(root) ||
        operators_.follows_from_input(*other))
        return false;
    graph::Node* value = &root;
    std::vector<const Tensor*> constants;
    while (is_sum(*value) && operators_.of(*value).name == "add") {
        const std::size_t at = constant_of(value->args()[0]) != nullptr ? 0 : 1;
        const Tensor* const constant = constant_of(value->args()[at]);
        if (constant == nullptr || value->users().size() != 1 || value->args()[1 - at].node() == nullptr) break;
        constants.push_back(constant);
        way_.push_back(value);
        value = value->args()[1 - at].node();
    }
    if (value == &root && &node == &top_) return false;  // it is last
    for (const Tensor* constant : constants) add_term(*constant, 1.0, false);
    early_ = value;
    early_root_ = &root;
    return true;
}

/// Numbers beyond those of float32 become its ends: they hide no more than these.
INTQ_INLINE void ScoreSum::add_term(const Tensor& values, double factor, bool is_fill) {
    constexpr double most = (std::numeric_limits<float>::max)();
    const double finite = (std::min)((std::max)(factor, -most), most);
    const nn::Value bounded = nn::clamp(nn::Value(values.contiguous()), -most, most);
    const nn::Value scaled = finite == 1.0 ? bounded : nn::clamp(nn::mul(bounded, finite), -most, most);
    const std::optional<Tensor> arrived = moved(scaled.tensor());
    if (arrived)
        terms_.push_back({*arrived, is_fill});
    else
        is_separable_ = false;
}

/// Values behind the moves between them and the softmax; none where they are not the same for each sample.
INTQ_INLINE std::optional<Tensor> ScoreSum::moved(const Tensor& values) {
    Tensor result = values;
    for (auto move = moves_.rbegin(); move != moves_.rend(); ++move) {
        const graph::Node &node = **move, &source = *node.args()[0].node();
        const std::string_view name = operators_.of(node).name;
        if (name == "identity" || name == "dropout") continue;
        Shape from = source.outputs()[0].shape, to = node.outputs()[0].shape;
        from[0] = to[0] = 1;
        result = nn::add(nn::Value(Tensor::zeros(from)), nn::Value(result)).tensor();
        if (!(result.shape() == from)) return std::nullopt;
        result = name == "permute" || name == "transpose"
                     ? graph::Interpreter::evaluate(node, model_, {{&source, nn::Value(result)}}).tensor().contiguous()
                     : result.contiguous().reshape(to);
        if (!(result.shape() == to)) return std::nullopt;
    }
    return result;
}

// --- the way without the terms -------------------------------------------------------------------------------------

INTQ_INLINE graph::Node& ScoreSum::attribute(const Tensor& values, const graph::Node& before) {
    std::string name;
    for (int k = 0; name.empty() || model_.find_tensor(name) != nullptr; ++k)
        name = "_without_mask_" + std::to_string(k);
    model_.add_buffer(name, values);
    const auto place = model_.graph().before(before);
    return model_.graph().get_attr(name);
}

/// The node with other arguments, or a copy of it behind it where others read it.
INTQ_INLINE graph::Node& ScoreSum::changed(graph::Node& node, bool is_owned, graph::ArgumentList args) {
    if (is_owned) {
        node.set_args(std::move(args));
        return node;
    }
    graph::Graph& graph = model_.graph();
    const auto place = graph.after(node);
    graph::Node& copy = node.op() == graph::Op::call_module
                            ? graph.call_module(node.target(), std::move(args), node.method())
                        : node.op() == graph::Op::call_method ? graph.call_method(*node.function(), std::move(args))
                                                              : graph.call_function(*node.function(), std::move(args));
    copy.outputs() = node.outputs();
    copy.set_scope(node.scope());
    return copy;
}

/// @param is_owned  whether the readers alone read the node
/// @param rest      null, or what takes the place of a term of this sum
INTQ_INLINE graph::Node& ScoreSum::strip(graph::Node& node, bool is_owned, const Tensor* rest) {
    if (seen_.count(&node) == 0) return node;
    const auto next = [&](graph::Node& operand) -> graph::Node& {
        return strip(operand, is_owned && operand.users().size() == 1, nullptr);
    };
    if (dynamic_cast<const nn::MaskedFill*>(graph::module_of(node, model_)) != nullptr)
        return next(*node.args()[0].node());
    graph::ArgumentList args = node.args();
    for (std::size_t i = 0; is_sum(node) && i < 2; ++i)
        if (early_ != nullptr && args[i].node() == early_root_) return next(*args[1 - i].node());
    for (std::size_t i = 0; is_sum(node) && i < 2; ++i) {
        if (constant_of(args[i]) == nullptr) continue;
        const bool negates = i == 0 && operators_.of(node).name == "sub";  // c - x
        if (rest == nullptr && !negates) return next(*args[1 - i].node());
        args[i] = rest != nullptr ? graph::Argument(attribute(*rest, node)) : graph::Argument(0.0);
        args[1 - i] = next(*args[1 - i].node());
        return changed(node, is_owned, std::move(args));
    }
    bool is_changed = false;
    for (graph::Argument& argument : args) {
        if (argument.node() == nullptr) continue;
        graph::Node& operand = next(*argument.node());
        is_changed = is_changed || &operand != argument.node();
        if (&operand != argument.node()) argument = operand;
    }
    return is_changed ? changed(node, is_owned, std::move(args)) : node;
}

/// The sum of a node and a value, in front of the readers.
INTQ_INLINE graph::Node& ScoreSum::added(graph::Node& node, graph::Node& value) {
    const auto place = model_.graph().before(*readers_.front());
    graph::Node& sum = model_.graph().call_function(nn::add_function, {node, value});
    sum.outputs() = top_.outputs();
    sum.set_scope(top_.scope());
    return sum;
}

INTQ_INLINE graph::Node& ScoreSum::replace_terms(const Tensor* rest) {
    const bool is_owned = top_.users().size() == readers_.size();
    const bool is_first = is_sum(top_) && constant_of(top_.args()[0]) != nullptr;
    const bool is_second = is_sum(top_) && constant_of(top_.args()[1]) != nullptr;
    const bool holds = rest != nullptr && (is_first || is_second);
    const bool negates = holds && is_second && operators_.of(top_).name == "sub";
    const Tensor own = negates ? nn::mul(nn::Value(*rest), -1.0).tensor() : holds ? *rest : Tensor();
    graph::Node* last = &strip(top_, is_owned, holds ? &own : nullptr);
    if (rest != nullptr && !holds) last = &added(*last, attribute(*rest, *readers_.front()));
    if (early_ != nullptr) last = &added(*last, *early_);
    for (graph::Node* reader : readers_)
        if (last != &top_) reader->replace_input(top_, *last);
    erase_unread();
    return *last;
}

INTQ_INLINE void ScoreSum::erase_unread() {
    operators_.forget();
    for (graph::Node* node : way_)
        if (node->users().empty()) model_.graph().erase(*node);
    for (graph::Node* node : model_.graph().nodes())
        if (node->op() == graph::Op::get_attr && node->users().empty()) model_.graph().erase(*node);
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_INTERNAL_SCORE_SUM_HPP
