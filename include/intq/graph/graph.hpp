// SPDX-License-Identifier: MIT
//
// Graph: an ordered list of nodes, made, edited and checked. Layer: graph (docs/design.md section 6).
#ifndef INTQ_GRAPH_GRAPH_HPP
#define INTQ_GRAPH_GRAPH_HPP

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "intq/graph/internal/names.hpp"
#include "intq/graph/node.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// Nodes in an order in which they can run. A copy is independent.
///
/// Several threads may read one graph at once; only one at a time may change it.
class Graph {
public:
    Graph() = default;
    Graph(const Graph& other);
    Graph(Graph&&) = default;
    Graph& operator=(const Graph& other) { return *this = Graph(other); }
    Graph& operator=(Graph&&) = default;

    /// Each adds a node at the insertion point, which is the end unless an InsertionPoint lives.
    Node& placeholder(const std::string& name, Argument default_value = {});
    Node& get_attr(const std::string& qualified_name);
    /// @param name  of the node; by default the function's
    Node& call_function(const nn::Function& function, ArgumentList args, const std::string& name = {});
    Node& call_module(const std::string& qualified_name, ArgumentList args, const std::string& method = "forward");
    Node& call_method(const nn::Function& function, ArgumentList args);
    Node& output(Argument value);

    /// While it lives, new nodes are inserted at its place, in the order of their creation.
    class InsertionPoint;
    [[nodiscard]] InsertionPoint before(const Node& node);
    [[nodiscard]] InsertionPoint after(const Node& node);

    /// A snapshot of the nodes in order: the graph may be edited while it is walked.
    std::vector<Node*> nodes() const;
    std::size_t size() const noexcept { return nodes_.size(); }
    std::vector<Node*> placeholders() const;
    /// Throws when the graph has none.
    Node& output_node() const;
    /// Null when there is no such node.
    Node* find(std::string_view name) const noexcept;

    /// Moves a node to the place before another one.
    void move_before(Node& node, const Node& place) { nodes_.splice(position(place), nodes_, position(node)); }
    /// Removes a node. Throws the Error that lists its users when it has some.
    void erase(Node& node);
    /// Makes the users of `old` that `filter` accepts read `replacement`, except `replacement` itself.
    void replace_all_uses(Node& old, Node& replacement, const std::function<bool(const Node&)>& filter = {});
    /// Removes nodes without users, from the end, except placeholders and the output.
    void eliminate_dead_nodes();

    /// Throws the Error of the first contradiction: a node that reads a later one, two equal names, wrong user lists,
    /// a missing output; with a root also targets that do not exist.
    void lint(nn::Module* root = nullptr) const;

private:
    using Nodes = std::list<std::unique_ptr<Node>>;

    Node& insert(Op op, const std::string& candidate, std::string target, ArgumentList args);
    Nodes::iterator position(const Node& node);
    /// Takes a node in at a place.
    Node& keep(Nodes::iterator place, std::unique_ptr<Node> node);

    Nodes nodes_;
    std::unordered_map<const Node*, Nodes::iterator> places_;
    std::map<std::string_view, Node*> by_name_;  // the names are the nodes' own
    NameSpace names_;
    const Node* insert_before_ = nullptr;  // null: at the end
};

class Graph::InsertionPoint {
public:
    InsertionPoint(const InsertionPoint&) = delete;
    InsertionPoint& operator=(const InsertionPoint&) = delete;
    ~InsertionPoint() { graph_.insert_before_ = former_; }

private:
    friend class Graph;
    InsertionPoint(Graph& graph, const Node* before);

    Graph& graph_;
    const Node* former_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>
#    include <iterator>
#    include <map>
#    include <set>
#    include <utility>
#    include <variant>

#    include "intq/io/error.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Graph::InsertionPoint::InsertionPoint(Graph& graph, const Node* before)
    : graph_(graph), former_(graph.insert_before_) {
    graph.insert_before_ = before;
}

INTQ_INLINE Graph::Graph(const Graph& other) : names_(other.names_) {
    std::map<const Node*, Node*> copies;
    for (const auto& node : other.nodes_) {
        auto copy = std::unique_ptr<Node>(new Node());
        copy->op_ = node->op_;
        copy->name_ = node->name_;
        copy->target_ = node->target_;
        copy->method_ = node->method_;
        copy->traced_hooks_ = node->traced_hooks_;
        copy->function_ = node->function_;
        copy->outputs_ = node->outputs_;
        copy->scope_ = node->scope_;
        ArgumentList args = node->args_;
        for (Argument& argument : args) argument.for_each_ref([&](NodeRef& ref) { ref.node = copies.at(ref.node); });
        copies[node.get()] = copy.get();
        copy->set_args(std::move(args));
        keep(nodes_.end(), std::move(copy));
    }
}

INTQ_INLINE Node& Graph::placeholder(const std::string& name, Argument default_value) {
    ArgumentList args;
    if (!std::holds_alternative<std::monostate>(default_value.content())) args.push_back(std::move(default_value));
    return insert(Op::placeholder, name, name, std::move(args));
}

INTQ_INLINE Node& Graph::get_attr(const std::string& qualified_name) {
    return insert(Op::get_attr, qualified_name, qualified_name, {});
}

INTQ_INLINE Node& Graph::call_function(const nn::Function& function, ArgumentList args, const std::string& name) {
    const std::string target(function.name);
    Node& node = insert(Op::call_function, name.empty() ? target : name, target, std::move(args));
    node.function_ = &function;
    return node;
}

INTQ_INLINE Node& Graph::call_module(const std::string& qualified_name, ArgumentList args, const std::string& method) {
    Node& node = insert(Op::call_module, qualified_name, qualified_name, std::move(args));
    node.method_ = method;
    return node;
}

INTQ_INLINE Node& Graph::call_method(const nn::Function& function, ArgumentList args) {
    const std::string target(function.name);
    Node& node = insert(Op::call_method, target, target, std::move(args));
    node.function_ = &function;
    return node;
}

INTQ_INLINE Node& Graph::output(Argument value) { return insert(Op::output, "output", "output", {std::move(value)}); }

INTQ_INLINE Node& Graph::insert(Op op, const std::string& candidate, std::string target, ArgumentList args) {
    auto node = std::unique_ptr<Node>(new Node());
    node->op_ = op;
    node->name_ = names_.create(snake_case(candidate));
    node->target_ = std::move(target);
    node->set_args(std::move(args));
    return keep(insert_before_ == nullptr ? nodes_.end() : position(*insert_before_), std::move(node));
}

INTQ_INLINE Node& Graph::keep(Nodes::iterator place, std::unique_ptr<Node> node) {
    const auto at = nodes_.insert(place, std::move(node));
    places_[at->get()] = at;
    by_name_[(*at)->name()] = at->get();
    return **at;
}

INTQ_INLINE Graph::Nodes::iterator Graph::position(const Node& node) {
    const auto found = places_.find(&node);
    if (found == places_.end()) throw Error("the node \"" + node.name() + "\" belongs to another graph");
    return found->second;
}

INTQ_INLINE Graph::InsertionPoint Graph::before(const Node& node) { return {*this, position(node)->get()}; }

INTQ_INLINE Graph::InsertionPoint Graph::after(const Node& node) {
    const auto next = std::next(position(node));
    return {*this, next == nodes_.end() ? nullptr : next->get()};
}

INTQ_INLINE std::vector<Node*> Graph::nodes() const {
    std::vector<Node*> result;
    result.reserve(nodes_.size());
    for (const auto& node : nodes_) result.push_back(node.get());
    return result;
}

INTQ_INLINE std::vector<Node*> Graph::placeholders() const {
    std::vector<Node*> result;
    for (const auto& node : nodes_)
        if (node->op() == Op::placeholder) result.push_back(node.get());
    return result;
}

INTQ_INLINE Node& Graph::output_node() const {
    for (const auto& node : nodes_)
        if (node->op() == Op::output) return *node;
    throw Error("the graph has no output node");
}

INTQ_INLINE Node* Graph::find(std::string_view name) const noexcept {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
}

INTQ_INLINE void Graph::erase(Node& node) {
    if (!node.users().empty()) {
        std::string users;
        for (const Node* user : node.users()) users += (users.empty() ? "" : ", ") + user->name();
        throw Error("the node \"" + node.name() + "\" cannot be erased: it is used by " + users);
    }
    node.set_args({});
    const auto at = position(node);
    by_name_.erase(node.name());
    places_.erase(&node);
    nodes_.erase(at);
}

INTQ_INLINE void Graph::replace_all_uses(Node& old, Node& replacement, const std::function<bool(const Node&)>& filter) {
    const std::vector<Node*> users = old.users();
    for (Node* user : users)
        if (user != &replacement && (!filter || filter(*user))) user->replace_input(old, replacement);
}

INTQ_INLINE void Graph::eliminate_dead_nodes() {
    const auto all = nodes();
    for (auto node = all.rbegin(); node != all.rend(); ++node)
        if ((*node)->users().empty() && (*node)->op() != Op::placeholder && (*node)->op() != Op::output) erase(**node);
}

INTQ_INLINE void Graph::lint(nn::Module* root) const {
    std::set<const Node*> seen;
    std::set<std::string> names;
    for (const auto& node : nodes_) {
        if (!names.insert(node->name()).second) throw Error("two nodes have the name \"" + node->name() + "\"");
        for (const Node* input : node->inputs()) {
            if (seen.count(input) == 0)
                throw Error("the node \"" + node->name() + "\" reads \"" + input->name() +
                            "\", which comes later or is not in the graph");
            if (std::find(input->users().begin(), input->users().end(), node.get()) == input->users().end())
                throw Error("\"" + node->name() + "\" is missing among the users of \"" + input->name() + "\"");
        }
        seen.insert(node.get());
        if (root == nullptr) continue;
        if (node->op() == Op::call_module) root->find(node->target());
        if (node->op() == Op::get_attr && root->find_tensor(node->target()) == nullptr)
            throw Error("the node \"" + node->name() + "\" reads the tensor \"" + node->target() +
                        "\", which does not exist");
    }
    for (const auto& node : nodes_)
        for (const Node* user : node->users())
            if (seen.count(user) == 0) throw Error("a user of \"" + node->name() + "\" is not in the graph");
    output_node();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_GRAPH_HPP
