// SPDX-License-Identifier: MIT
//
// One name for each operator, however a model spells it, for patterns and prepare. Layer: graph.
#ifndef INTQ_GRAPH_OPERATORS_HPP
#define INTQ_GRAPH_OPERATORS_HPP

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "intq/graph/node.hpp"
#include "intq/graph/operator_rows.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// A spelling of an operator: a type of module (and its method), a function or a method.
struct OperatorSpelling {
    Op op{};
    std::string_view key{};
    std::string_view method{};  // of a module
    std::string_view name{};
};

namespace detail {

/// Calls visit(OperatorSpelling) for all spellings: modules first, then functions, then methods.
template <class Visit> constexpr void for_each_spelling(const Visit& visit) {
    for (const OperatorRow& row : operator_rows)
        for_each_word(row.modules, [&](std::string_view word) {
            const std::size_t dot = word.find('.');
            visit(OperatorSpelling{Op::call_module, word.substr(0, dot),
                                   dot == std::string_view::npos ? std::string_view("forward") : word.substr(dot + 1),
                                   row.name});
        });
    for (const OperatorRow& row : operator_rows)
        for_each_word(row.functions, [&](std::string_view word) {
            visit(OperatorSpelling{Op::call_function, word, {}, row.name});
        });
    for (const OperatorRow& row : operator_rows)
        for_each_word(row.methods, [&](std::string_view word) {
            visit(OperatorSpelling{Op::call_method, word, {}, row.name});
        });
}

constexpr std::size_t spelling_count() {
    std::size_t count = 0;
    for_each_spelling([&](const OperatorSpelling&) { ++count; });
    return count;
}

constexpr std::array<OperatorSpelling, spelling_count()> make_spellings() {
    std::array<OperatorSpelling, spelling_count()> spellings{};
    std::size_t next = 0;
    for_each_spelling([&](const OperatorSpelling& spelling) { spellings[next++] = spelling; });
    return spellings;
}

}  // namespace detail

/// All spellings of operator_rows.
inline constexpr auto operator_spellings = detail::make_spellings();

/// The module that a call_module node calls; null for other nodes.
nn::Module* module_of(const Node& node, nn::Module& root);

/// Whether a node reads a value as the integers of its operator (OperatorRow::ids), and nowhere else.
///
/// @param op  the name of the node's operator
bool takes_as_ids(const Node& node, std::string_view op, const Node& value);

/// The name by which a user knows a node: its module's, or its own.
std::string layer_name(const Node& node);

/// How messages name the place of a node: "%conv (Conv2d)", and "block.conv (%block_conv, Conv2d)" where the names of
/// module and node differ.
std::string place_of(const Node& node, nn::Module& root);

/// Type name of the called module, or the name of the function; "placeholder", "get_attr", "output" for those.
std::string type_of(const Node& node, nn::Module& root);

/// The operator's name from the table; without a row, type_of(), so that a user's pattern can name a module's type.
std::string operator_of(const Node& node, nn::Module& root);

/// The operator's name for a call: of a type's method, or of a function.
std::string operator_of(Op op, const std::string& type, std::string_view method);

/// operator_of() for walks that ask about nodes repeatedly: each name is looked up once.
class OperatorNames {
public:
    /// The root must outlive this.
    explicit OperatorNames(nn::Module& root) : root_(root) {}

    const std::string& of(const Node& node);
    /// Forgets all look-ups. Call it after erasing nodes or replacing a module.
    void forget() noexcept { names_.clear(); }
    nn::Module& root() const noexcept { return root_; }

private:
    nn::Module& root_;
    std::map<const Node*, std::string> names_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::string layer_name(const Node& node) {
    return node.op() == Op::call_module ? node.target() : node.name();
}

INTQ_INLINE std::string place_of(const Node& node, nn::Module& root) {
    const std::string layer = layer_name(node), type = type_of(node, root);
    return layer == node.name() ? "%" + layer + " (" + type + ")" : layer + " (%" + node.name() + ", " + type + ")";
}

INTQ_INLINE nn::Module* module_of(const Node& node, nn::Module& root) {
    return node.op() == Op::call_module ? &root.find(node.target()) : nullptr;
}

INTQ_INLINE std::string type_of(const Node& node, nn::Module& root) {
    if (const nn::Module* module = module_of(node, root)) return module->type_name();
    return std::string(node.function() != nullptr ? node.function()->name : name_of(node.op()));
}

INTQ_INLINE std::string operator_of(const Node& node, nn::Module& root) {
    return operator_of(node.op(), type_of(node, root), node.method());
}

INTQ_INLINE bool takes_as_ids(const Node& node, std::string_view op, const Node& value) {
    const int ids = ids_of(op);
    if (ids < 0 || static_cast<std::size_t>(ids) >= node.args().size()) return false;
    const auto inputs = node.inputs();
    return node.args()[static_cast<std::size_t>(ids)].node() == &value &&
           std::count(inputs.begin(), inputs.end(), &value) == 1;
}

INTQ_INLINE std::string operator_of(Op op, const std::string& type, std::string_view method) {
    for (const OperatorSpelling& row : operator_spellings)
        if (row.op == op && row.key == type && (row.op != Op::call_module || row.method == method))
            return std::string(row.name);
    return type;
}

INTQ_INLINE const std::string& OperatorNames::of(const Node& node) {
    const auto known = names_.find(&node);
    return known != names_.end() ? known->second : names_.emplace(&node, operator_of(node, root_)).first->second;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_OPERATORS_HPP
