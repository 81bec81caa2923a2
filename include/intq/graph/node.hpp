// SPDX-License-Identifier: MIT
//
// Node: one step of a graph, in FX's six kinds. Layer: graph (docs/design.md section 6).
#ifndef INTQ_GRAPH_NODE_HPP
#define INTQ_GRAPH_NODE_HPP

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "intq/core/dtype.hpp"
#include "intq/core/shape.hpp"
#include "intq/nn/model/recorder.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

class Node;

enum class Op : std::uint8_t { placeholder, get_attr, call_function, call_module, call_method, output };

constexpr const char* name_of(Op op) noexcept {
    switch (op) {
        case Op::placeholder:
            return "placeholder";
        case Op::get_attr:
            return "get_attr";
        case Op::call_function:
            return "call_function";
        case Op::call_module:
            return "call_module";
        case Op::call_method:
            return "call_method";
        case Op::output:
            break;
    }
    return "output";
}

/// One output of a node.
struct NodeRef {
    Node* node = nullptr;
    int output = 0;
    friend bool operator==(const NodeRef&, const NodeRef&) = default;
};

/// An argument of a node: nothing, another node's output, a list of arguments, or a constant.
class Argument {
public:
    using List = std::vector<Argument>;
    using Content = std::variant<std::monostate, NodeRef, List, std::int64_t, double, bool, std::string>;

    Argument() = default;
    Argument(NodeRef ref) : content_(ref) {}
    Argument(Node& node) : content_(NodeRef{&node, 0}) {}
    Argument(List list) : content_(std::move(list)) {}
    Argument(std::string text) : content_(std::move(text)) {}
    Argument(const char* text) : content_(std::string(text)) {}
    template <class T>
    requires std::is_arithmetic_v<T> Argument(T scalar) {
        if constexpr (std::is_same_v<T, bool>) {
            content_ = scalar;
        } else if constexpr (std::is_integral_v<T>) {
            content_ = static_cast<std::int64_t>(scalar);
        } else {
            content_ = static_cast<double>(scalar);
        }
    }

    const Content& content() const noexcept { return content_; }
    /// The same node's output, or equal constants of one type.
    friend bool operator==(const Argument& a, const Argument& b) { return a.content_ == b.content_; }
    /// Null unless the argument is another node's output.
    const NodeRef* ref() const noexcept { return std::get_if<NodeRef>(&content_); }
    Node* node() const noexcept { return ref() != nullptr ? ref()->node : nullptr; }
    /// Null unless the argument is a list.
    const List* list() const noexcept { return std::get_if<List>(&content_); }

    /// None unless the argument is a number; a bool does not count.
    std::optional<double> number() const noexcept {
        if (const auto* real = std::get_if<double>(&content_)) return *real;
        if (const auto* integer = std::get_if<std::int64_t>(&content_)) return static_cast<double>(*integer);
        return std::nullopt;
    }

    /// Whether it is nothing or a constant, or a list that holds one.
    bool has_constant() const {
        if (list() == nullptr) return ref() == nullptr;
        return std::any_of(list()->begin(), list()->end(), [](const Argument& item) { return item.has_constant(); });
    }

    /// Calls visit(NodeRef&) for all references, also those inside lists.
    template <class Visit> void for_each_ref(const Visit& visit) {
        if (auto* ref = std::get_if<NodeRef>(&content_)) visit(*ref);
        if (auto* list = std::get_if<List>(&content_))
            for (Argument& item : *list) item.for_each_ref(visit);
    }

private:
    Content content_;
};

using ArgumentList = Argument::List;

/// Shape and dtype of one output after the graph has run; the dtype is none if it has not, or the output is not a
/// tensor.
struct OutputInfo {
    Shape shape{};
    DType dtype = DType::none;
};

/// The module whose forward made a node; the root is ("", "").
struct Scope {
    std::string module;
    std::string type;
};

/// A step of a Graph, which makes, owns and destroys it.
class Node {
public:
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    Op op() const noexcept { return op_; }
    const std::string& name() const noexcept { return name_; }
    /// Placeholder: its name. get_attr: the tensor's qualified name. call_module: the module's. Functions: their name.
    const std::string& target() const noexcept { return target_; }
    void set_target(std::string target) { target_ = std::move(target); }
    /// The method of a call_module node; usually "forward".
    const std::string& method() const noexcept { return method_; }
    void set_method(std::string method) { method_ = std::move(method); }
    /// The forward hooks of a call_module node's module that are separate nodes, so that the node does not call them.
    nn::HookRange traced_hooks() const noexcept { return traced_hooks_; }
    void set_traced_hooks(nn::HookRange hooks) noexcept { traced_hooks_ = hooks; }
    /// The function of a call_function or call_method node, else null.
    const nn::Function* function() const noexcept { return function_; }

    const ArgumentList& args() const noexcept { return args_; }
    void set_args(ArgumentList args);
    /// The nodes that this one reads, each once, in the order of the arguments.
    std::vector<Node*> inputs() const;
    /// The same, each as often as an argument or an item of a list names it.
    std::vector<Node*> operands() const;
    /// The nodes that read this one, each once.
    const std::vector<Node*>& users() const noexcept { return users_; }
    /// Makes this node read `replacement` where it reads `old`.
    void replace_input(const Node& old, Node& replacement);

    /// At least one.
    const std::vector<OutputInfo>& outputs() const noexcept { return outputs_; }
    std::vector<OutputInfo>& outputs() noexcept { return outputs_; }
    const Scope& scope() const noexcept { return scope_; }
    void set_scope(Scope scope) { scope_ = std::move(scope); }

private:
    friend class Graph;
    Node() = default;

    Op op_ = Op::placeholder;
    std::string name_;
    std::string target_;
    std::string method_ = "forward";
    nn::HookRange traced_hooks_;
    const nn::Function* function_ = nullptr;
    ArgumentList args_;
    std::vector<Node*> users_;
    std::vector<OutputInfo> outputs_{1};
    Scope scope_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <unordered_set>

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::vector<Node*> Node::operands() const {
    std::vector<Node*> result;
    for (Argument argument : args_) argument.for_each_ref([&](const NodeRef& ref) { result.push_back(ref.node); });
    return result;
}

INTQ_INLINE std::vector<Node*> Node::inputs() const {
    std::vector<Node*> result;
    std::unordered_set<const Node*> seen;
    for (Node* operand : operands())
        if (seen.insert(operand).second) result.push_back(operand);
    return result;
}

INTQ_INLINE void Node::set_args(ArgumentList args) {
    for (Node* input : inputs()) input->users_.erase(std::find(input->users_.begin(), input->users_.end(), this));
    args_ = std::move(args);
    for (Node* input : inputs()) input->users_.push_back(this);
}

INTQ_INLINE void Node::replace_input(const Node& old, Node& replacement) {
    ArgumentList args = args_;
    for (Argument& argument : args)
        argument.for_each_ref([&](NodeRef& ref) {
            if (ref.node == &old) ref.node = &replacement;
        });
    set_args(std::move(args));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_NODE_HPP
