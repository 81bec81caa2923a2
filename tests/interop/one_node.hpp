// SPDX-License-Identifier: MIT
//
// ONNX models of one node, imported or refused.
#ifndef INTQ_TESTS_INTEROP_ONE_NODE_HPP
#define INTQ_TESTS_INTEROP_ONE_NODE_HPP

#include <memory>
#include <string>
#include <vector>

#include "interop/onnx_builder.hpp"
#include "intq/graph/operators.hpp"
#include "intq/interop/onnx/import.hpp"

namespace intq::test {

inline std::shared_ptr<graph::GraphModule> import(const ModelParts& parts) {
    return interop::onnx::import_model(interop::onnx::parse_model(model(parts).bytes(), "m.onnx"));
}

/// A graph of one node "n" that reads x and these constants, and makes y.
struct OneNode {
    std::string op_type;
    std::vector<Message> attributes{};
    std::vector<Message> constants{};
    std::vector<std::int64_t> x_shape{-1, 4, 6, 6};
    std::int64_t opset = 17;
    std::vector<std::string> inputs{"x", "a", "b", "c", "d"};

    std::shared_ptr<graph::GraphModule> import() const {
        const std::vector<std::string> used(inputs.begin(),
                                            inputs.begin() + 1 + static_cast<std::ptrdiff_t>(constants.size()));
        return test::import({.nodes = {node(op_type, used, {"y"}, attributes, "n")},
                             .initializers = constants,
                             .inputs = {x_shape.empty() ? value_info("x") : value_info("x", x_shape)},
                             .opset = opset});
    }
};

/// What the import says of one node, or of a model.
template <class Import> std::string refusal_of(const Import& import) {
    try {
        import();
    } catch (const Error& error) {
        return error.what();
    }
    return "not refused";
}
inline std::string refusal(const OneNode& one) {
    return refusal_of([&] { one.import(); });
}
inline std::string refusal(const ModelParts& parts) {
    return refusal_of([&] { test::import(parts); });
}

inline std::string type_of(const OneNode& one) {
    const auto module = one.import();
    std::string types;
    for (const graph::Node* node : module->graph().nodes())
        if (node->op() == graph::Op::call_module) types += module->find(node->target()).type_name();
    return types;
}

}  // namespace intq::test

#endif  // INTQ_TESTS_INTEROP_ONE_NODE_HPP
