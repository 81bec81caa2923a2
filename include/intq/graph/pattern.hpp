// SPDX-License-Identifier: MIT
//
// Patterns: sequences of operators as data, and how they are found in a graph. Layer: graph (docs/design.md section 6).
#ifndef INTQ_GRAPH_PATTERN_HPP
#define INTQ_GRAPH_PATTERN_HPP

#include <optional>
#include <string>
#include <vector>

#include "intq/graph/graph.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

class OperatorNames;

/// Operator names of operators.hpp from first to last: {"conv2d", "batch_norm2d", "add", "relu"}.
using OperatorSequence = std::vector<std::string>;

/// "conv2d-batch_norm2d-add-relu"
std::string to_string(const OperatorSequence& sequence);

/// A chain of nodes that a sequence fits.
struct Match {
    std::vector<Node*> nodes;  // first to last
    Argument other;            // the operand beside the chain, of the step with two operands; else none
};

/// Why nodes in the right order cannot become one.
struct Obstacle {
    Node* node = nullptr;  // where the chain breaks
    std::string reason;
};

struct MatchResult {
    std::optional<Match> match{};
    std::optional<Obstacle> obstacle{};
};

/// Walks back from `last` along a sequence.
///
/// A step with two operands ("add") is followed on either side; where both fit, the first argument wins. The value of
/// every node but the last must have one reader that uses it once, and a module with parameters must be called once.
/// The other operand must be the output of a node outside the chain.
///
/// @return the match; without one the obstacle, if only further readers or the other operand prevent a match; else
///         neither
MatchResult match_back(const OperatorSequence& sequence, Node& last, const Graph& graph, nn::Module& root);
/// The same for one of many sequences; the names of the nodes are looked up once for all of them.
MatchResult match_back(const OperatorSequence& sequence, Node& last, const Graph& graph, OperatorNames& names);

/// The call_module nodes that call a module, under whatever name.
std::vector<Node*> callers_of(const nn::Module& module, const Graph& graph, nn::Module& root);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>
#    include <cstddef>
#    include <utility>

#    include "intq/graph/operators.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string to_string(const OperatorSequence& sequence) {
    std::string text;
    for (const std::string& step : sequence) text += (text.empty() ? "" : "-") + step;
    return text;
}

INTQ_INLINE std::vector<Node*> callers_of(const nn::Module& module, const Graph& graph, nn::Module& root) {
    std::vector<Node*> result;
    for (Node* node : graph.nodes())
        if (module_of(*node, root) == &module) result.push_back(node);
    return result;
}

namespace detail {

class BackwardMatcher {
public:
    BackwardMatcher(const OperatorSequence& sequence, const Graph& graph, OperatorNames& names)
        : sequence_(sequence), graph_(graph), names_(names) {}

    MatchResult run(Node& last) {
        MatchResult result;
        if (descend(last, sequence_.size() - 1)) {
            std::reverse(match_.nodes.begin(), match_.nodes.end());
            result.match = match_;
        } else {
            result.obstacle = obstacle_;
        }
        return result;
    }

private:
    // match_.nodes holds the chain from the last node to `node` while this runs.
    bool descend(Node& node, std::size_t step) {
        if (names_.of(node) != sequence_[step]) return false;
        match_.nodes.push_back(&node);
        if (step == 0 ? is_free() : follow(node, step)) return true;
        match_.nodes.pop_back();
        return false;
    }

    bool follow(Node& node, std::size_t step) {
        const ArgumentList& args = node.args();
        if (sequence_[step] != "add")
            return !args.empty() && args[0].node() != nullptr && descend(*args[0].node(), step - 1);
        if (args.size() != 2) return false;
        for (std::size_t side = 0; side < 2; ++side) {
            Node* producer = args[side].node();
            if (producer == nullptr) continue;
            const std::size_t length = match_.nodes.size();
            if (!descend(*producer, step - 1)) continue;
            const char* reason = unfit_operand(args[1 - side], *producer);
            if (reason == nullptr) {
                match_.other = args[1 - side];
                return true;
            }
            block(node, reason);
            match_.nodes.resize(length);
        }
        return false;
    }

    // Why it cannot be the other operand of an add; null if it can.
    static const char* unfit_operand(const Argument& operand, const Node& producer) {
        const Node* node = operand.node();
        if (node == nullptr) return "its other operand is a number";
        if (node == &producer) return "both its operands are the same value";
        return node->op() == Op::get_attr ? "its other operand is a tensor of the model" : nullptr;
    }

    // The whole chain fits; checks that nothing else needs its inner values and modules.
    bool is_free() {
        for (Node* node : match_.nodes) {
            if (!is_called_once(*node)) return false;
            if (node != match_.nodes.front() && !is_read_once(*node)) return false;
        }
        return true;
    }

    bool is_read_once(Node& producer) {
        if (producer.users().size() == 1) return true;
        std::string readers;
        for (const Node* user : producer.users()) readers += (readers.empty() ? "%" : ", %") + user->name();
        block(producer, "its value is used by " + readers);
        return false;
    }

    bool is_called_once(Node& node) {
        const nn::Module* module = module_of(node, names_.root());
        if (module == nullptr || module->parameters().empty()) return true;
        const auto callers = callers_of(*module, graph_, names_.root());
        if (callers.size() == 1) return true;
        std::string names;
        for (const Node* caller : callers) names += (names.empty() ? "%" : ", %") + caller->name();
        block(node, "the module \"" + node.target() + "\" is shared by " + names);
        return false;
    }

    void block(Node& node, std::string reason) {
        if (!obstacle_) obstacle_ = Obstacle{&node, std::move(reason)};
    }

    const OperatorSequence& sequence_;
    const Graph& graph_;
    OperatorNames& names_;
    Match match_;
    std::optional<Obstacle> obstacle_;
};

}  // namespace detail

INTQ_INLINE MatchResult match_back(const OperatorSequence& sequence, Node& last, const Graph& graph, nn::Module& root) {
    OperatorNames names(root);
    return match_back(sequence, last, graph, names);
}

INTQ_INLINE MatchResult match_back(const OperatorSequence& sequence, Node& last, const Graph& graph,
                                   OperatorNames& names) {
    if (sequence.empty()) return {};
    return detail::BackwardMatcher(sequence, graph, names).run(last);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_PATTERN_HPP
