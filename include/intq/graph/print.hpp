// SPDX-License-Identifier: MIT
//
// A graph as text: FX's form, and a table. Layer: graph.
#ifndef INTQ_GRAPH_PRINT_HPP
#define INTQ_GRAPH_PRINT_HPP

#include <string>

#include "intq/graph/graph_module.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// FX's form:
///
///     graph():
///         %x : [num_users=1] = placeholder[target=x]
///         %conv : [num_users=1] = call_module[target=conv](args = (%x,))
///         %add : [num_users=1] = call_function[target=add](args = (%conv, %x))
///         return add
///
/// A call of a method other than forward says so: call_module[target=skip, method=add].
std::string to_string(const Graph& graph);

/// A row for each node: opcode, name, target, type of the called module, arguments, output shape where it is known.
std::string to_table(GraphModule& module);

std::string to_string(const Argument& argument);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <type_traits>
#    include <variant>

#    include "intq/graph/operators.hpp"
#    include "intq/io/describe.hpp"
#    include "intq/io/text_table.hpp"
#    include "intq/nn/model/module.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::string join(const ArgumentList& arguments) {
    std::string text;
    for (const Argument& argument : arguments) text += (text.empty() ? "" : ", ") + to_string(argument);
    return text;
}

INTQ_INLINE std::string to_string(const Node& node) {
    if (node.op() == Op::output) return "return " + graph::to_string(node.args()[0]);
    const std::string method = node.method() == "forward" ? "" : ", method=" + node.method();
    const bool has_arguments = node.op() != Op::placeholder && node.op() != Op::get_attr;
    // As Python writes a tuple of one.
    const std::string arguments = join(node.args()) + (node.args().size() == 1 ? "," : "");
    return "%" + node.name() + " : [num_users=" + std::to_string(node.users().size()) + "] = " + name_of(node.op()) +
           "[target=" + node.target() + method + "]" + (has_arguments ? "(args = (" + arguments + "))" : "");
}

INTQ_INLINE std::string type_and_method(const Node& node, nn::Module& root) {
    if (node.op() != Op::call_module) return "";
    return type_of(node, root) + (node.method() == "forward" ? "" : "." + node.method());
}

}  // namespace detail

INTQ_INLINE std::string to_string(const Argument& argument) {
    return std::visit(
        [](const auto& content) -> std::string {
            using T = std::decay_t<decltype(content)>;
            if constexpr (std::is_same_v<T, std::monostate>) {
                return "None";
            } else if constexpr (std::is_same_v<T, NodeRef>) {
                const bool one = content.node->outputs().size() == 1;
                return "%" + content.node->name() + (one ? "" : "[" + std::to_string(content.output) + "]");
            } else if constexpr (std::is_same_v<T, ArgumentList>) {
                return "[" + detail::join(content) + "]";
            } else if constexpr (std::is_same_v<T, bool>) {
                return content ? "True" : "False";
            } else if constexpr (std::is_same_v<T, std::string>) {
                return "'" + content + "'";
            } else {
                return shortest_text(content);
            }
        },
        argument.content());
}

INTQ_INLINE std::string to_string(const Graph& graph) {
    std::string text = "graph():\n";
    for (const Node* node : graph.nodes()) {
        std::string line = detail::to_string(*node);
        // FX writes "return relu", without the % that it has elsewhere.
        if (node->op() == Op::output && node->args()[0].node() != nullptr) line.erase(line.find('%'), 1);
        text += "    " + printable(line) + "\n";
    }
    return text;
}

INTQ_INLINE std::string to_table(GraphModule& module) {
    io::TextTable table({{"opcode"}, {"name"}, {"target"}, {"type"}, {"args"}, {"shape"}});
    for (const Node* node : module.graph().nodes()) {
        const OutputInfo& info = node->outputs()[0];
        table.add_row({name_of(node->op()), node->name(), node->target(), detail::type_and_method(*node, module),
                       detail::join(node->args()), info.dtype == DType::none ? "" : to_string(info.shape)});
    }
    return table.str(io::TableStyle::simple);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_PRINT_HPP
