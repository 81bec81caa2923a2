// SPDX-License-Identifier: MIT
//
// Edits of a traced model: a module between two nodes, a node taken out, a subgraph replaced. Layer: graph
// (docs/design.md section 6).
#ifndef INTQ_GRAPH_REWRITE_HPP
#define INTQ_GRAPH_REWRITE_HPP

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "intq/graph/graph_module.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// Puts a module behind a node: the node's readers, or those that `filter` accepts, read the module instead.
///
/// @param name  qualified name of a slot that does not exist yet
/// @return the new node
Node& insert_module(GraphModule& model, Node& after, const std::string& name, nn::ModulePtr module,
                    const std::function<bool(const Node& reader)>& filter = {});
/// The same for one reader. Throws when `to` does not read `from`.
Node& insert_module_between(GraphModule& model, Node& from, Node& to, const std::string& name, nn::ModulePtr module);

/// Takes a node out: its readers read its first argument, which must be a node's output.
void bypass(GraphModule& model, Node& node);

/// Where a pattern fits.
struct SubgraphMatch {
    std::vector<Argument> inputs;        // the values of the pattern's placeholders, in their order
    std::map<std::string, Node*> nodes;  // by the names of the pattern's nodes, without its placeholders
    Node* last = nullptr;                // whose value is the pattern's result

    /// The node that matched the pattern's node of this name. Throws when the pattern has none.
    Node& at(const std::string& pattern_node) const;
};

/// The places in a model where a pattern fits; no node belongs to two of them.
///
/// A pattern is a traced model. A placeholder matches any value, the same one at every use. A node matches a node of
/// the same operator (graph/operators.hpp: spelled as module, function or method) with equal arguments; a get_attr node
/// matches any get_attr node. Inner values of a match must not be read from outside it.
std::vector<SubgraphMatch> find_matches(GraphModule& model, GraphModule& pattern);

/// Makes the replacement of a match: a traced model with as many inputs as the pattern.
using ReplacementMaker = std::function<std::shared_ptr<GraphModule>(const SubgraphMatch&)>;

/// Replaces each place where a pattern fits.
///
/// The replacement's modules and tensors get their own slots in the model, named as in the replacement, with a number
/// appended where the name is taken. The slots of the replaced nodes stay (delete_unused_children).
///
/// @return the number of places
std::size_t replace_pattern(GraphModule& model, GraphModule& pattern, const ReplacementMaker& make_replacement);
/// The same with one replacement, whose modules are shared by all places.
std::size_t replace_pattern(GraphModule& model, GraphModule& pattern, const std::shared_ptr<GraphModule>& replacement);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>
#    include <optional>
#    include <set>
#    include <utility>

#    include "intq/graph/operators.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/model/container.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Node& SubgraphMatch::at(const std::string& pattern_node) const {
    const auto found = nodes.find(pattern_node);
    if (found == nodes.end()) throw Error("the pattern has no node \"" + pattern_node + "\"");
    return *found->second;
}

INTQ_INLINE Node& insert_module(GraphModule& model, Node& after, const std::string& name, nn::ModulePtr module,
                                const std::function<bool(const Node& reader)>& filter) {
    const std::string type = module->type_name();
    nn::add_module(model, name, std::move(module));
    const auto place = model.graph().after(after);
    Node& node = model.graph().call_module(name, {after});
    node.set_scope({name, type});
    node.outputs() = after.outputs();
    model.graph().replace_all_uses(after, node, filter);
    return node;
}

INTQ_INLINE Node& insert_module_between(GraphModule& model, Node& from, Node& to, const std::string& name,
                                        nn::ModulePtr module) {
    if (std::find(from.users().begin(), from.users().end(), &to) == from.users().end())
        throw Error("the node \"" + to.name() + "\" does not read \"" + from.name() + "\"");
    return insert_module(model, from, name, std::move(module), [&](const Node& reader) { return &reader == &to; });
}

INTQ_INLINE void bypass(GraphModule& model, Node& node) {
    Node* input = node.args().empty() ? nullptr : node.args()[0].node();
    if (input == nullptr || node.args()[0].ref()->output != 0)
        throw Error("the node \"" + node.name() + "\" cannot be bypassed: its first argument is not another node");
    model.graph().replace_all_uses(node, *input);
    model.graph().erase(node);
}

namespace detail {

class SubgraphMatcher {
public:
    SubgraphMatcher(GraphModule& model, GraphModule& pattern)
        : pattern_(pattern), names_(model), pattern_names_(pattern) {
        const Argument& result = pattern.graph().output_node().args()[0];
        if (result.ref() == nullptr || result.ref()->output != 0 || result.node()->op() == Op::placeholder)
            throw Error("a pattern returns the value of one of its nodes, given " +
                        (result.node() != nullptr ? "%" + result.node()->name() : std::string("something else")));
        last_ = result.node();
    }

    std::optional<SubgraphMatch> match_at(Node& node) {
        bound_.clear();
        nodes_.clear();
        if (!same_node(*last_, node) || !is_closed()) return std::nullopt;
        SubgraphMatch match;
        for (const Node* placeholder : pattern_.graph().placeholders()) {
            const auto input = bound_.find(placeholder);
            if (input == bound_.end()) throw Error("the pattern does not use its input " + placeholder->name());
            match.inputs.push_back(input->second);
        }
        for (const auto& [wanted, found] : nodes_) match.nodes[wanted->name()] = found;
        match.last = &node;
        return match;
    }

    /// For a model that was changed.
    void forget_names() noexcept { names_.forget(); }

private:
    bool same_node(const Node& wanted, Node& given) {
        if (const auto known = nodes_.find(&wanted); known != nodes_.end()) return known->second == &given;
        if (pattern_names_.of(wanted) != names_.of(given)) return false;
        if (wanted.args().size() != given.args().size()) return false;
        nodes_[&wanted] = &given;
        return same_list(wanted.args(), given.args());
    }

    bool same_list(const ArgumentList& wanted, const ArgumentList& given) {
        if (wanted.size() != given.size()) return false;
        for (std::size_t i = 0; i < wanted.size(); ++i)
            if (!same_argument(wanted[i], given[i])) return false;
        return true;
    }

    bool same_argument(const Argument& wanted, const Argument& given) {
        if (wanted.list() != nullptr) return given.list() != nullptr && same_list(*wanted.list(), *given.list());
        if (wanted.ref() == nullptr) return wanted == given;
        if (wanted.node()->op() == Op::placeholder) return bound_.emplace(wanted.node(), given).first->second == given;
        return given.ref() != nullptr && given.ref()->output == wanted.ref()->output &&
               same_node(*wanted.node(), *given.node());
    }

    // Whether nothing outside reads a match's inner values.
    bool is_closed() const {
        for (const auto& [wanted, found] : nodes_) {
            if (wanted == last_ || found->op() == Op::get_attr) continue;
            for (const Node* reader : found->users())
                if (std::none_of(nodes_.begin(), nodes_.end(), [&](const auto& own) { return own.second == reader; }))
                    return false;
        }
        return true;
    }

    GraphModule& pattern_;
    OperatorNames names_, pattern_names_;
    const Node* last_ = nullptr;
    std::map<const Node*, Argument> bound_;
    std::map<const Node*, Node*> nodes_;
};

/// A name that the model has neither as child nor as tensor: "conv", "conv_1", …
INTQ_INLINE std::string free_slot(nn::Module& model, std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    const auto taken = [&](const std::string& text) {
        return model.has_child(text) || model.find_tensor(text) != nullptr;
    };
    std::string result = name;
    for (int k = 1; taken(result); ++k) result = name + "_" + std::to_string(k);
    return result;
}

/// Copies the nodes of one graph into another, with other values for its placeholders.
class GraphCopier {
public:
    GraphCopier(GraphModule& from, GraphModule& to, std::map<const nn::Module*, std::string>& places)
        : from_(from), to_(to), slots_(places) {}

    /// The argument that is the result.
    Argument run(const std::vector<Argument>& inputs, const Node& before) {
        const auto placeholders = from_.graph().placeholders();
        if (placeholders.size() != inputs.size())
            throw Error("the replacement has " + std::to_string(placeholders.size()) + " inputs, the pattern " +
                        std::to_string(inputs.size()));
        for (std::size_t i = 0; i < inputs.size(); ++i) values_[placeholders[i]] = inputs[i];
        const auto place = to_.graph().before(before);
        for (const Node* node : from_.graph().nodes()) {
            if (node->op() == Op::output) return mapped(node->args()[0]);
            if (node->op() != Op::placeholder) values_[node] = copy(*node);
        }
        throw Error("the replacement has no output");
    }

private:
    Argument mapped(const Argument& argument) const {
        if (argument.list() != nullptr) return mapped(*argument.list());
        if (argument.ref() == nullptr) return argument;
        const Argument& value = values_.at(argument.node());
        if (argument.ref()->output == 0 || value.ref() == nullptr) return value;
        return NodeRef{value.node(), argument.ref()->output};
    }

    ArgumentList mapped(const ArgumentList& arguments) const {
        ArgumentList result;
        for (const Argument& argument : arguments) result.push_back(mapped(argument));
        return result;
    }

    Node& copy(const Node& node) {
        Node& result = make(node);
        result.outputs() = node.outputs();
        result.set_scope(node.op() == Op::call_module ? Scope{result.target(), node.scope().type} : node.scope());
        return result;
    }

    Node& make(const Node& node) {
        Graph& graph = to_.graph();
        switch (node.op()) {
            case Op::call_module: {
                Node& call = graph.call_module(slot_of(node), mapped(node.args()), node.method());
                call.set_traced_hooks(node.traced_hooks());
                return call;
            }
            case Op::get_attr: {
                const std::string name = free_slot(to_, node.target());
                to_.add_buffer(name, *from_.find_tensor(node.target()));
                return graph.get_attr(name);
            }
            case Op::call_method:
                return graph.call_method(*node.function(), mapped(node.args()));
            default:
                return graph.call_function(*node.function(), mapped(node.args()));
        }
    }

    std::string slot_of(const Node& node) {
        const nn::ModulePtr& module = from_.find_child(node.target());
        std::string& name = slots_[module.get()];
        if (name.empty()) {
            name = free_slot(to_, node.target());
            to_.add_child(name, module);
        }
        return name;
    }

    GraphModule& from_;
    GraphModule& to_;
    std::map<const nn::Module*, std::string>& slots_;
    std::map<const Node*, Argument> values_;
};

// Calls visit for each match in the model's current state; nodes that visit adds are not looked at.
template <class Visit> void for_each_match(GraphModule& model, GraphModule& pattern, const Visit& visit) {
    SubgraphMatcher matcher(model, pattern);
    const std::vector<Node*> all = model.graph().nodes();
    const std::set<const Node*> present(all.begin(), all.end());
    std::set<const Node*> taken;
    for (Node* node : all) {
        if (taken.count(node) != 0) continue;
        const auto match = matcher.match_at(*node);
        if (!match) continue;
        const auto& nodes = match->nodes;
        const auto is_taken = [&](const auto& own) {
            return taken.count(own.second) != 0 || present.count(own.second) == 0;
        };
        if (std::any_of(nodes.begin(), nodes.end(), is_taken)) continue;
        for (const auto& own : nodes) taken.insert(own.second);
        visit(*match);
        matcher.forget_names();
    }
}

}  // namespace detail

INTQ_INLINE std::vector<SubgraphMatch> find_matches(GraphModule& model, GraphModule& pattern) {
    std::vector<SubgraphMatch> matches;
    detail::for_each_match(model, pattern, [&](const SubgraphMatch& match) { matches.push_back(match); });
    return matches;
}

INTQ_INLINE std::size_t replace_pattern(GraphModule& model, GraphModule& pattern,
                                        const ReplacementMaker& make_replacement) {
    std::map<const nn::Module*, std::string> places;
    std::vector<std::shared_ptr<GraphModule>> kept;  // so that no module's address is used twice
    std::size_t count = 0;
    detail::for_each_match(model, pattern, [&](const SubgraphMatch& match) {
        kept.push_back(make_replacement(match));
        const Argument result = detail::GraphCopier(*kept.back(), model, places).run(match.inputs, *match.last);
        if (result.ref() == nullptr || result.ref()->output != 0)
            throw Error("a replacement returns the value of one node");
        model.graph().replace_all_uses(*match.last, *result.node());
        const auto nodes = model.graph().nodes();
        for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
            if (std::any_of(match.nodes.begin(), match.nodes.end(),
                            [&](const auto& own) { return own.second == *node; }) &&
                (*node)->users().empty())
                model.graph().erase(**node);
        ++count;
    });
    model.graph().lint(&model);
    return count;
}

INTQ_INLINE std::size_t replace_pattern(GraphModule& model, GraphModule& pattern,
                                        const std::shared_ptr<GraphModule>& replacement) {
    return replace_pattern(model, pattern, [&](const SubgraphMatch&) { return replacement; });
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_REWRITE_HPP
