// SPDX-License-Identifier: MIT
//
// Which operators of two models compute the same value. Layer: analysis (docs/workflow.md section 6).
#ifndef INTQ_ANALYSIS_COMPARE_INTERNAL_LAYER_PAIRS_HPP
#define INTQ_ANALYSIS_COMPARE_INTERNAL_LAYER_PAIRS_HPP

#include <cstddef>
#include <string>
#include <vector>

#include "intq/analysis/models/analysed_model.hpp"
#include "intq/nn/model/value.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// An operator of the baseline and the corresponding one of the analysed model.
struct LayerPair {
    std::size_t baseline = 0;
    std::size_t analysis = 0;
    /// The operator is inside a fused layer and not its last, so that the two outputs are different values.
    bool is_inner = false;
};

/// The pairs in the order of the baseline. Operators belong together by the names of their nodes or modules; a fused
/// layer belongs to all the operators that it was fused from. An operator that only one model has is in no pair: a relu
/// that the other one computes elsewhere, a change of layout.
///
/// @throws Error where a layer with weights has no partner, naming it and the nearest names: the models do not
///         correspond
std::vector<LayerPair> pair_layers(const std::vector<AnalysedOperator>& baseline,
                                   const std::vector<AnalysedOperator>& analysis);

namespace detail {

/// @throws Error where the outputs of two operators of a pair have different shapes
void check_same_shape(const std::string& mod_name, const Tensor& baseline, const Tensor& analysis);

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_compare)

#    include <algorithm>
#    include <map>
#    include <optional>
#    include <set>

#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"
#    include "intq/io/sort_stably.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

class LayerPairing {
public:
    using Operators = std::vector<AnalysedOperator>;

    LayerPairing(const Operators& baseline, const Operators& analysis) : baseline_(baseline), analysis_(analysis) {
        readers_.resize(baseline.size());
        for (std::size_t i = 0; i < baseline.size(); ++i) {
            by_node_.emplace(baseline[i].node, i);
            by_module_[baseline[i].mod_name].push_back(i);
            for (const std::size_t input : std::set(baseline[i].inputs.begin(), baseline[i].inputs.end()))
                if (input != OperatorInput::none) readers_[input].push_back(i);
        }
        for (const AnalysedOperator& op : analysis) {
            known_.insert(op.node);
            known_.insert(op.mod_name);
        }
    }

    std::vector<LayerPair> run() {
        for (std::size_t i = 0; i < analysis_.size(); ++i) {
            const std::vector<std::size_t> chain = chain_of(analysis_[i]);
            for (const std::size_t op : chain) pairs_.push_back({op, i, op != chain.back()});
        }
        io::sort_stably(pairs_, [](const LayerPair& a, const LayerPair& b) { return a.baseline < b.baseline; });
        check_pairs();
        return std::move(pairs_);
    }

private:
    std::optional<std::size_t> find(const AnalysedOperator& op) {
        const auto node = by_node_.find(op.node);
        if (node != by_node_.end() && baseline_[node->second].mod_name == op.mod_name) return node->second;
        const auto module = by_module_.find(op.mod_name);
        if (module != by_module_.end())
            return module->second[(std::min)(used_[op.mod_name]++, module->second.size() - 1)];
        return node == by_node_.end() ? std::nullopt : std::optional(node->second);
    }

    std::vector<std::size_t> chain_of(const AnalysedOperator& op) {
        const auto first = find(op);
        if (!first) return {};
        std::vector<std::size_t> chain{*first};
        // The baseline may be fused itself.
        if (!op.members.empty() && baseline_[*first].members.empty()) {
            for (std::size_t i = 1; i < op.members.size(); ++i)
                if (const auto next = member_behind(chain.back(), op.members[i])) chain.push_back(*next);
        } else if (baseline_[*first].members.empty()) {
            while (const auto next = vanished_behind(chain.back(), op.op_type)) chain.push_back(*next);
        }
        return chain;
    }

    std::optional<std::size_t> member_behind(std::size_t op, const nn::FusedMember& member) const {
        for (const std::size_t reader : readers_[op]) {
            const AnalysedOperator& candidate = baseline_[reader];
            if (member.node.empty() ? candidate.mod_name == member.module : candidate.node == member.node)
                return reader;
        }
        return std::nullopt;
    }

    // A program and a converted model name a fused layer only by its first operator and its type.
    std::optional<std::size_t> vanished_behind(std::size_t op, const std::string& type) const {
        if (readers_[op].size() != 1) return std::nullopt;
        const AnalysedOperator& next = baseline_[readers_[op][0]];
        if (known_.count(next.node) != 0 || known_.count(next.mod_name) != 0) return std::nullopt;
        const auto is = [&](const char* word) { return next.op_type == word; };
        const bool is_norm = next.op_type.rfind("BatchNorm", 0) == 0 && baseline_[op].has_weight;
        const bool is_relu = is("ReLU") || is("ReLU6") || is("relu") || is("relu6");
        const bool is_add = (is("add") || is("FloatFunctional.add")) && type.find("Add") != std::string::npos;
        return is_norm || is_relu || is_add ? std::optional(readers_[op][0]) : std::nullopt;
    }

    void check_pairs() const {
        std::set<std::size_t> of_baseline, of_analysis;
        for (const LayerPair& pair : pairs_) {
            of_baseline.insert(pair.baseline);
            of_analysis.insert(pair.analysis);
        }
        check_side(baseline_, of_baseline, "baseline", analysis_, "analysed");
        check_side(analysis_, of_analysis, "analysed", baseline_, "baseline");
    }

    static void check_side(const Operators& operators, const std::set<std::size_t>& paired, const char* whose,
                           const Operators& others, const char* other) {
        std::vector<std::string> names;
        for (const AnalysedOperator& op : others) names.push_back(op.mod_name);
        for (std::size_t i = 0; i < operators.size(); ++i)
            if (operators[i].has_weight && paired.count(i) == 0)
                throw Error("the models do not correspond",
                            std::string("the ") + whose + " model has a layer \"" + operators[i].mod_name + "\" (" +
                                operators[i].op_type + ") that the " + other + " model lacks; its nearest are " +
                                nearest_names(operators[i].mod_name, names));
        if (paired.empty())
            throw Error("the models do not correspond", "no operator of one has the name of an operator of the other");
    }

    const Operators& baseline_;
    const Operators& analysis_;
    std::map<std::string, std::size_t> by_node_;
    std::map<std::string, std::vector<std::size_t>> by_module_;
    std::map<std::string, std::size_t> used_;  // calls of a module that were found
    std::vector<std::vector<std::size_t>> readers_;
    std::set<std::string> known_;
    std::vector<LayerPair> pairs_;
};

}  // namespace detail

namespace detail {

INTQ_INLINE void check_same_shape(const std::string& mod_name, const Tensor& baseline, const Tensor& analysis) {
    if (baseline.shape() == analysis.shape()) return;
    throw Error("the models do not correspond: " + mod_name + " returns " + to_string(baseline.shape()) +
                " in the baseline, and " + to_string(analysis.shape()) + " in the analysed model");
}

}  // namespace detail

INTQ_INLINE std::vector<LayerPair> pair_layers(const std::vector<AnalysedOperator>& baseline,
                                               const std::vector<AnalysedOperator>& analysis) {
    return detail::LayerPairing(baseline, analysis).run();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_compare)
#endif  // INTQ_ANALYSIS_COMPARE_INTERNAL_LAYER_PAIRS_HPP
