// SPDX-License-Identifier: MIT
//
// Which part of one graph is which part of another: float, prepared and converted models of one network. Layer:
// numeric_suite (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_MATCH_HPP
#define INTQ_NUMERIC_SUITE_FX_MATCH_HPP

#include <string>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/io/error.hpp"
#include "intq/numeric_suite/fx/node_types.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

/// The models are not of one network, as far as the sets of related operators tell.
class GraphMatchingException : public Error {
public:
    using Error::Error;
};

/// A chain of nodes that is one layer: conv, bn, relu and the quantizer behind them.
struct NSSubgraph {
    graph::Node* start_node = nullptr;
    graph::Node* end_node = nullptr;
    graph::Node* base_op_node = nullptr;  // whose operator names it: the first
};

struct NSSubgraphPair {
    std::string name;  // "base_op_conv2d_0": the operator, and how many of it come after it
    NSSubgraph a, b;
};

/// The subgraphs of both graphs that are the same layers, in the order of b's graph.
///
/// Both graphs are walked at once, from their outputs to their inputs. Unmatchable nodes are passed over. So are nodes
/// that have the same type in both and are in no set of related operators.
///
/// A chain is followed through first arguments. Between its nodes each value has one reader. At first only relu and the
/// operators that PyTorch fuses count as part of a chain. If the models do not match then, relu6 and add count too,
/// since targets exist whose layers hold them. If they still do not, Dropout is passed over, since a converted model
/// has none.
///
/// @throws GraphMatchingException naming both nodes and their types, where they are different operators, or where one
///         graph has an extra operator
///
/// Source   torch.ao.ns.fx.graph_matcher.get_matching_subgraph_pairs
std::vector<NSSubgraphPair> get_matching_subgraph_pairs(
    graph::GraphModule& model_a, graph::GraphModule& model_b,
    const RelatedOps& base_name_to_sets_of_related_ops = get_base_name_to_sets_of_related_ops(),
    const NodeTypeMap& unmatchable_types_map = get_unmatchable_types_map());

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include <algorithm>
#    include <iterator>
#    include <map>
#    include <optional>
#    include <set>
#    include <utility>

#    include "intq/graph/interpreter.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/numeric_suite/loggers/layer_types.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Which operators a chain may hold besides those that PyTorch fuses.
struct ChainRule {
    bool relu6, add;
};

/// Yields the subgraphs of a graph one by one, from the outputs to the inputs.
class SubgraphWalk {
public:
    SubgraphWalk(graph::GraphModule& model, const RelatedOps& sets, const NodeTypeMap& unmatchable, ChainRule rule)
        : model_(model), sets_(sets), unmatchable_(unmatchable), rule_(rule) {
        push(model.graph().output_node());
    }

    /// None at the inputs.
    std::optional<NSSubgraph> next() {
        while (!stack_.empty()) {
            graph::Node* const end = stack_.back();
            stack_.pop_back();
            if (seen_.count(end) != 0) continue;
            const std::vector<graph::Node*> chain = chain_at(*end);
            graph::Node* const start = chain.back();
            seen_.insert(chain.begin(), chain.end());
            push(*start);
            for (graph::Node* node : chain)
                if (node != start)
                    for (graph::Node* input : node->inputs())
                        if (seen_.count(input) == 0) stack_.push_back(input);
            if (!is_matchable(*start) || (start == end && is_quantizer(*end, model_))) continue;
            return NSSubgraph{start, end, start};
        }
        return std::nullopt;
    }

    std::string type_of(const graph::Node& node) const { return target_type_of(node, model_); }

private:
    void push(const graph::Node& node) {
        for (graph::Node* input : node.inputs()) stack_.push_back(input);
    }

    bool is_matchable(const graph::Node& node) const {
        using graph::Op;
        if (node.op() == Op::placeholder || node.op() == Op::get_attr || node.op() == Op::output) return false;
        return !is_quantizer(node, model_) && !is_logger(node, model_) &&
               !has_type(unmatchable_, "unmatchable", type_of(node));
    }

    std::string operator_of(const graph::Node& node) const {
        const std::string type = type_of(node);
        return get_base_name_for_op(sets_, type).value_or(type);
    }

    // The node before it in a chain; null if there is none, or it is read elsewhere or belongs to another chain.
    graph::Node* before(const graph::Node& node, std::size_t argument = 0) const {
        if (argument >= node.args().size()) return nullptr;
        graph::Node* input = node.args()[argument].node();
        if (input == nullptr || input->users().size() != 1 || seen_.count(input) != 0) return nullptr;
        return input;
    }

    // From the last node to the first.
    std::vector<graph::Node*> chain_at(graph::Node& end) const {
        std::vector<graph::Node*> chain{&end};
        if (is_quantizer(end, model_)) {
            graph::Node* operation = before(end);
            if (operation == nullptr || !is_matchable(*operation)) return chain;
            chain.push_back(operation);
        }
        if (!is_matchable(*chain.back())) return chain;
        const std::string last = operator_of(*chain.back());
        if (is_clamp(last))
            extend(chain, [](const std::string& name) { return name == "add" || name == "sub" || name == "mul"; });
        if (rule_.add && operator_of(*chain.back()) == "add") extend_through_add(chain);
        const std::string first = operator_of(*chain.back());
        if (is_clamp(first)) extend(chain, is_norm);
        extend_to_layer(chain);
        // A node that reads a list, such as cat, is not part of a chain.
        if (chain.size() > 1 && (chain.back()->args().empty() || chain.back()->args()[0].node() == nullptr))
            chain.pop_back();
        return chain;
    }

    // Adds one more node, if its operator satisfies is_one. Fused operators have their relu inside.
    template <class IsOne> void extend(std::vector<graph::Node*>& chain, const IsOne& is_one) const {
        graph::Node* input = before(*chain.back());
        if (input != nullptr && is_matchable(*input) && is_one(operator_of(*input))) chain.push_back(input);
    }

    bool is_clamp(const std::string& name) const { return name == "relu" || (rule_.relu6 && name == "relu6"); }
    static bool is_norm(const std::string& name) { return name.starts_with("batch_norm"); }
    static bool is_layer(const std::string& name) {
        const auto& families = numeric_suite::detail::weighted_families;
        return name == "functional_linear" || std::any_of(std::begin(families), std::end(families),
                                                          [&](const auto& family) { return name == family.name; });
    }

    // A layer, or the batch norm behind it, that only an add reads.
    void extend_through_add(std::vector<graph::Node*>& chain) const {
        const graph::Node& add = *chain.back();
        for (const std::size_t argument : {std::size_t{0}, std::size_t{1}}) {
            graph::Node* input = before(add, argument);
            if (input == nullptr || !is_matchable(*input)) continue;
            std::vector<graph::Node*> longer = chain;
            longer.push_back(input);
            extend_to_layer(longer);
            if (is_layer(operator_of(*longer.back()))) {
                chain = longer;
                return;
            }
        }
    }

    // From a batch norm or a relu to the layer before it.
    void extend_to_layer(std::vector<graph::Node*>& chain) const {
        const std::string first = operator_of(*chain.back());
        if (is_clamp(first) || is_norm(first)) extend(chain, is_layer);
    }

    graph::GraphModule& model_;
    const RelatedOps& sets_;
    const NodeTypeMap& unmatchable_;
    ChainRule rule_;
    std::vector<graph::Node*> stack_;
    std::set<const graph::Node*> seen_;
};

INTQ_INLINE std::string describe_subgraph(const std::optional<NSSubgraph>& subgraph, const SubgraphWalk& walk) {
    if (!subgraph) return "nothing";
    return "%" + subgraph->base_op_node->name() + " (" + walk.type_of(*subgraph->base_op_node) + ")";
}

[[noreturn]] INTQ_INLINE void throw_unmatched(const std::optional<NSSubgraph>& a, const SubgraphWalk& walk_a,
                                              const std::optional<NSSubgraph>& b, const SubgraphWalk& walk_b) {
    throw GraphMatchingException("the models do not correspond: " + describe_subgraph(a, walk_a) + " of model a and " +
                                 describe_subgraph(b, walk_b) + " of model b " +
                                 (a && b ? "are different operators" : "are in the same place") +
                                 ". Of a model whose operators the other one has fused, give the fused one (fuse_fx "
                                 "for the same target); a type "
                                 "of your own gets its counterpart by add_op_to_sets_of_related_ops()");
}

/// The set that has both types; none where they are unrelated.
INTQ_INLINE std::optional<std::string> related(const RelatedOps& sets, const std::string& a, const std::string& b) {
    for (const auto& [name, types] : sets)
        if (holds_type(types, a) && holds_type(types, b)) return name;
    return std::nullopt;
}

INTQ_INLINE std::vector<NSSubgraphPair> match(graph::GraphModule& model_a, graph::GraphModule& model_b,
                                              const RelatedOps& sets, const NodeTypeMap& unmatchable, ChainRule rule) {
    SubgraphWalk walk_a(model_a, sets, unmatchable, rule), walk_b(model_b, sets, unmatchable, rule);
    std::map<std::string, int> counts;
    std::vector<NSSubgraphPair> pairs;
    for (;;) {
        const auto a = walk_a.next(), b = walk_b.next();
        if (!a && !b) break;
        if (!a || !b) throw_unmatched(a, walk_a, b, walk_b);
        const std::string type_a = walk_a.type_of(*a->base_op_node), type_b = walk_b.type_of(*b->base_op_node);
        if (const auto name = related(sets, type_a, type_b)) {
            const int count = counts[*name]++;
            pairs.push_back({"base_op_" + *name + "_" + std::to_string(count), *a, *b});
        } else if (type_a != type_b || get_base_name_for_op(sets, type_a)) {
            throw_unmatched(a, walk_a, b, walk_b);
        }
    }
    std::map<const graph::Node*, std::size_t> order;
    for (const graph::Node* node : model_b.graph().nodes()) order.emplace(node, order.size());
    std::sort(pairs.begin(), pairs.end(), [&](const NSSubgraphPair& one, const NSSubgraphPair& other) {
        return order.at(one.b.end_node) < order.at(other.b.end_node);
    });
    return pairs;
}

}  // namespace detail

INTQ_INLINE std::vector<NSSubgraphPair> get_matching_subgraph_pairs(graph::GraphModule& model_a,
                                                                    graph::GraphModule& model_b,
                                                                    const RelatedOps& base_name_to_sets_of_related_ops,
                                                                    const NodeTypeMap& unmatchable_types_map) {
    using detail::ChainRule;
    NodeTypeMap without_dropout = unmatchable_types_map;
    without_dropout["mods_unmatchable"].insert("Dropout");
    std::optional<GraphMatchingException> first;
    for (const NodeTypeMap* unmatchable : {&unmatchable_types_map, &std::as_const(without_dropout)})
        for (const ChainRule rule : {ChainRule{false, false}, ChainRule{true, false}, ChainRule{true, true}}) {
            try {
                return detail::match(model_a, model_b, base_name_to_sets_of_related_ops, *unmatchable, rule);
            } catch (const GraphMatchingException& error) {
                if (!first) first = error;
            }
        }
    throw *first;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_MATCH_HPP
