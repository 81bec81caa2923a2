// SPDX-License-Identifier: MIT
//
// add_stubs: puts QuantStubs behind the inputs and DeQuantStubs before the outputs of a graph. Layer: quantization
// (docs/design.md section 11).
#ifndef INTQ_QUANTIZATION_MODULES_STUBS_HPP
#define INTQ_QUANTIZATION_MODULES_STUBS_HPP

#include "intq/graph/graph_module.hpp"
#include "intq/nn/model/module.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// Adds the missing stubs of a model: `quant` (quant_1, …) behind each input that is read by anything but a QuantStub,
/// `dequant` (dequant_1, …) before each output that is not a DeQuantStub's. A model that has all of them is not
/// changed.
///
/// @return the number of stubs added
int add_stubs(graph::GraphModule& model);

namespace detail {

template <class Stub> bool calls(const graph::Node& node, nn::Module& root) {
    return node.op() == graph::Op::call_module && dynamic_cast<Stub*>(&root.find(node.target())) != nullptr;
}

}  // namespace detail

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_modules)

#    include <algorithm>
#    include <memory>
#    include <string>

#    include "intq/graph/operator_rows.hpp"
#    include "intq/graph/operators.hpp"
#    include "intq/nn/layers/quantize.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// `name`, or the first of name_1, name_2, … that is not a child of root.
INTQ_INLINE std::string free_child_name(const nn::Module& root, const std::string& name) {
    if (!root.has_child(name)) return name;
    for (int k = 1;; ++k)
        if (const std::string candidate = name + "_" + std::to_string(k); !root.has_child(candidate)) return candidate;
}

}  // namespace detail

INTQ_INLINE int add_stubs(graph::GraphModule& model) {
    int added = 0;
    graph::Graph& graph = model.graph();
    for (graph::Node* input : graph.placeholders()) {
        const auto needs_stub = [&](const graph::Node& user) {
            return !detail::calls<nn::QuantStub>(user, model) &&
                   !graph::takes_as_ids(user, graph::operator_of(user, model), *input);
        };
        const auto& users = input->users();
        if (std::none_of(users.begin(), users.end(), [&](const graph::Node* user) { return needs_stub(*user); }))
            continue;
        const std::string name = detail::free_child_name(model, "quant");
        model.add_child(name, std::make_shared<nn::QuantStub>());
        const auto at = graph.after(*input);
        graph::Node& stub = graph.call_module(name, {*input});
        graph.replace_all_uses(*input, stub, needs_stub);
        ++added;
    }
    graph::Node& output = graph.output_node();
    for (graph::Node* value : output.inputs()) {
        if (detail::calls<nn::DeQuantStub>(*value, model) || value->op() == graph::Op::placeholder) continue;
        const std::string name = detail::free_child_name(model, "dequant");
        model.add_child(name, std::make_shared<nn::DeQuantStub>());
        const auto at = graph.before(output);
        graph::Node& stub = graph.call_module(name, {*value});
        output.replace_input(*value, stub);
        ++added;
    }
    return added;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_modules)
#endif  // INTQ_QUANTIZATION_MODULES_STUBS_HPP
