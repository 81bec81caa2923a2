// SPDX-License-Identifier: MIT
//
// separate_masks: masks that a model adds to the scores of a softmax become calls of MaskedFill, so that no number that
// only says "not this one" is on a grid. Layer: quantization (docs/workflow.md section 4, "Masks").
#ifndef INTQ_QUANTIZATION_PREPARE_INTERNAL_SEPARATE_MASKS_HPP
#define INTQ_QUANTIZATION_PREPARE_INTERNAL_SEPARATE_MASKS_HPP

#include "intq/graph/graph_module.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Changes the model. With t the sum of the tensors of the model on the way to a softmax (ScoreSum), if elements of t
/// are more than 80 below the largest of their row, along the softmax's axis:
///
///     softmax(scores + t)
///         softmax(MaskedFill(scores + t without these)), or softmax(MaskedFill(scores)) where nothing else is added
///     masked_fill(x, c, value)
///         MaskedFill
///
/// The probabilities differ by less than 2^-115. What a whole row of t has in common has no effect and is left out. A
/// row of masks alone keeps its scores, unless float32 loses them beside the mask, from -2^29 on: then its
/// probabilities are equal, as in float. A value that follows from an input, such as a mask, is added last.
void separate_masks(graph::GraphModule& model);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_prepare)

#    include <algorithm>
#    include <cmath>
#    include <cstddef>
#    include <cstdint>
#    include <limits>
#    include <map>
#    include <memory>
#    include <optional>
#    include <string>
#    include <utility>
#    include <vector>

#    include "intq/graph/operators.hpp"
#    include "intq/graph/rewrite.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/move.hpp"
#    include "intq/quantization/observers/internal/scores.hpp"
#    include "intq/quantization/operators/operator_table.hpp"
#    include "intq/quantization/prepare/internal/score_sum.hpp"
#    include "intq/tensor/tensor.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// A sum of terms as a mask and the rest.
class SplitTerms {
public:
    /// @param axis  of the scores, whose rank is `rank`; from the front, or from the back if negative
    SplitTerms(const std::vector<ScoreTerm>& terms, int axis, int rank) {
        const nn::Value zero(Tensor::zeros(Shape(index_t{1})));
        nn::Value sum = terms.empty() ? zero : nn::Value(terms[0].values), fills = zero;
        for (std::size_t i = 1; i < terms.size(); ++i) sum = nn::add(sum, nn::Value(terms[i].values));
        for (const ScoreTerm& term : terms)
            if (term.is_fill) fills = nn::add(fills, nn::Value(term.values));
        constexpr double most = (std::numeric_limits<float>::max)();
        rest_ = nn::clamp(sum, -most, most).tensor().contiguous().clone();
        filled_ = nn::add(fills, nn::Value(Tensor::zeros(rest_.shape()))).tensor().contiguous();
        mask_ = Tensor::zeros(rest_.shape(), DType::uint8);
        const int along = axis < 0 ? axis + rest_.rank() : axis - rank + rest_.rank();
        if (along < 0 || along >= rest_.rank()) return;
        for_each_row(rest_.shape(), along, [&](const std::vector<std::size_t>& row) { split(row); });
    }

    /// Whether there is a mask, or something that a whole row has in common, to take out.
    bool changes() const noexcept { return changes_; }
    /// Whether scores that a MaskedFill replaced would come back, in a row that has nothing else.
    bool is_lost() const noexcept { return is_lost_; }
    /// None where nothing is filled.
    std::optional<Tensor> mask() const {
        const auto values = mask_.flat<std::uint8_t>();
        const bool any = std::any_of(values.begin(), values.end(), [](std::uint8_t mask) { return mask != 0; });
        return any ? std::optional(without_repeats(mask_)) : std::nullopt;
    }
    /// None where nothing is added.
    std::optional<Tensor> rest() const {
        const auto values = rest_.flat<float>();
        const bool any = std::any_of(values.begin(), values.end(), [](float value) { return value != 0.0f; });
        return any ? std::optional(without_repeats(rest_)) : std::nullopt;
    }

private:
    /// float32 rounds a sum with a number of this size to multiples of 64, which scores do not reach.
    static constexpr float absorbing = 0x1p29f;

    void split(const std::vector<std::size_t>& row) {
        const auto values = rest_.flat<float>(), fills = filled_.flat<float>();
        const auto masks = mask_.flat<std::uint8_t>();
        float largest = values[row[0]];
        for (const std::size_t i : row) largest = (std::max)(largest, values[i]);
        const bool is_far = std::fabs(largest) > masked_scores;
        const auto is_mask = [&](std::size_t i) { return values[i] < largest - masked_scores; };
        const bool has_masks = std::any_of(row.begin(), row.end(), is_mask);
        const bool fills_all = std::all_of(row.begin(), row.end(), [&](std::size_t i) {
            return values[i] == largest && (fills[i] != 0.0f || largest <= -absorbing);
        });
        changes_ = changes_ || is_far || has_masks;
        for (const std::size_t i : row) {
            masks[i] = is_mask(i) || fills_all ? 1 : 0;
            is_lost_ = is_lost_ || (masks[i] == 0 && fills[i] != 0.0f);
        }
        for (const std::size_t i : row) values[i] = masks[i] != 0 ? 0.0f : is_far ? values[i] - largest : values[i];
    }

    /// With an extent of 1 for each axis that the values do not depend on.
    static Tensor without_repeats(Tensor values) {
        for (int axis = 0; axis < values.rank(); ++axis) {
            const Tensor first = nn::slice(nn::Value(values), axis, 0, index_t{1}).tensor().contiguous();
            bool repeats = true;
            for (index_t i = 1; repeats && i < values.extent(axis); ++i) {
                const Tensor other = nn::slice(nn::Value(values), axis, i, i + 1).tensor().contiguous();
                repeats = std::equal(first.data(), first.data() + first.bytes(), other.data());
            }
            if (repeats) values = first;
        }
        return values;
    }

    Tensor rest_, filled_, mask_;
    bool changes_ = false, is_lost_ = false;
};

class MaskSeparator {
public:
    explicit MaskSeparator(graph::GraphModule& model) : model_(model), operators_(model) {}

    void run() {
        for (graph::Node* node : model_.graph().nodes())
            if (node->op() != graph::Op::get_attr && operators_.of(*node).name == "masked_fill" &&
                graph::module_of(*node, model_) == nullptr)
                give_module(*node);
        using Scores = std::pair<graph::Node*, int>;
        std::vector<Scores> order;
        std::map<Scores, std::vector<graph::Node*>> readers;
        for (graph::Node* node : model_.graph().nodes()) {
            const auto axis_of = operators_.of(*node).softmax_axis;
            const std::optional<int> axis =
                axis_of != nullptr ? axis_of(*node, graph::module_of(*node, model_)) : std::nullopt;
            if (!axis || node->args().empty() || node->args()[0].node() == nullptr) continue;
            const Scores scores{node->args()[0].node(), *axis};
            if (readers.count(scores) == 0) order.push_back(scores);
            readers[scores].push_back(node);
        }
        for (const Scores& scores : order) separate(*scores.first, scores.second, readers.at(scores));
    }

private:
    void separate(graph::Node& top, int axis, const std::vector<graph::Node*>& readers) {
        ScoreSum sum(model_, operators_, top, readers);
        if (!sum.is_separable()) return;
        const std::vector<ScoreTerm>& terms = sum.terms();
        int rank = top.outputs()[0].dtype != DType::none ? top.outputs()[0].shape.rank : 0;
        for (const ScoreTerm& term : terms) rank = (std::max)(rank, term.values.rank());
        const SplitTerms split(terms, axis, rank);
        bool changes = split.changes();
        if (sum.begins_with_fill())  // it stays unless there are more masks
            changes = SplitTerms({terms.begin() + 1, terms.end()}, axis, rank).changes();
        if (split.is_lost() || (!changes && !sum.has_early_operand())) return;
        const std::string name = free_name(graph::layer_name(top) + "_masked");
        const graph::Scope scope = top.scope();
        const std::optional<Tensor> rest = split.rest(), mask = split.mask();
        graph::Node& last = sum.replace_terms(rest ? &*rest : nullptr);
        if (!mask) return;
        const auto reads = [&](const graph::Node& node) {
            return std::find(readers.begin(), readers.end(), &node) != readers.end();
        };
        graph::insert_module(model_, last, name, std::make_shared<nn::MaskedFill>(*mask, lowest), reads)
            .set_scope(scope);
        operators_.forget();
    }

    /// Of a second MaskedFill for the same scores, along another axis, with a number.
    std::string free_name(const std::string& name) {
        const int before = names_[name]++;
        return before == 0 ? name : name + "_" + std::to_string(before);
    }

    void give_module(graph::Node& node) {
        const graph::ArgumentList& args = node.args();
        graph::Node* const mask = args.size() == 3 ? args[1].node() : nullptr;
        const std::optional<double> value = mask != nullptr ? args[2].number() : std::nullopt;
        const bool is_constant = value && mask->op() == graph::Op::get_attr && args[0].node() != nullptr;
        const Tensor* const values = is_constant ? model_.find_tensor(mask->target()) : nullptr;
        if (values == nullptr) return;
        const std::string name = free_name(node.name() + "_masked");
        graph::insert_module(model_, node, name, std::make_shared<nn::MaskedFill>(*values, *value))
            .set_scope(node.scope());
        model_.graph().replace_all_uses(node, *args[0].node());
        model_.graph().erase(node);
        if (mask->users().empty()) model_.graph().erase(*mask);
        operators_.forget();
    }

    static constexpr double lowest = static_cast<double>(std::numeric_limits<float>::lowest());
    graph::GraphModule& model_;
    NodeOperators operators_;
    std::map<std::string, int> names_;
};

INTQ_INLINE void separate_masks(graph::GraphModule& model) { MaskSeparator(model).run(); }

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_prepare)
#endif  // INTQ_QUANTIZATION_PREPARE_INTERNAL_SEPARATE_MASKS_HPP
