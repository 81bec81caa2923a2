// SPDX-License-Identifier: MIT
//
// symbolic_trace: from a Module's forward to a graph. Layer: graph (docs/design.md section 6).
#ifndef INTQ_GRAPH_TRACER_HPP
#define INTQ_GRAPH_TRACER_HPP

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "intq/graph/graph_module.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/recorder.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

/// Which modules become one node. The library's layers always do; Sequential and a user's modules are traced through.
/// A name, type or property that the model lacks is an Error that names the nearest ones.
struct TraceOptions {
    std::vector<std::string> leaf_modules{};  // qualified names
    std::vector<std::string> leaf_types{};    // type names
    std::function<bool(const nn::Module&, const std::string& qualified_name)> is_leaf{};
    /// Properties that the root must have. The traced model has all of the root's, whether named or not.
    std::vector<std::string> preserved_attributes{};
};

/// Runs root's forward on proxies and records its calls.
///
/// Values that do not depend on the inputs are evaluated while tracing. A tensor that forward uses becomes a get_attr
/// node: of the parameter or buffer that it is, or of a new buffer `_tensor_constant<k>`.
///
/// @param root  a model; its children, parameters and buffers are shared with the result
/// @return the traced model. Throws TracingError where forward needs data: in the condition of an if, in the bound of a
///         loop, as an index.
///
/// Source   torch.fx (docs/torch_semantics.md section 1)
std::shared_ptr<GraphModule> symbolic_trace(nn::Module& root, const TraceOptions& options = {});
std::shared_ptr<GraphModule> symbolic_trace(const nn::ModulePtr& root, const TraceOptions& options = {});

/// The recorder behind symbolic_trace; derive from it for other leaves.
///
/// Each thread needs a tracer.
class Tracer : public nn::Recorder {
public:
    explicit Tracer(nn::Module& root, const TraceOptions& options = {});

    std::shared_ptr<GraphModule> trace();

    INTQ_INLINE nn::Value record_module(nn::Module& module, std::string_view method,
                                        std::span<const nn::Value> arguments, nn::HookRange traced) override;
    INTQ_INLINE nn::Value record_function(const nn::Function& function, std::span<const nn::Value> arguments) override;
    INTQ_INLINE nn::Value record_method(const nn::Function& function, std::span<const nn::Value> arguments) override;
    INTQ_INLINE std::string current_module() const override;

protected:
    virtual INTQ_INLINE bool is_leaf(const nn::Module& module, const std::string& qualified_name) const;

private:
    void check_options() const;
    nn::Value call_hooks(nn::Module& module, const nn::ModuleCall& call, nn::Value result, nn::HookRange traced,
                         Node* node);
    nn::Value proxy_of(Node& node, int output_count);
    Argument argument_of(const nn::Value& value);
    ArgumentList arguments_of(std::span<const nn::Value> values);
    Node& attribute_of(const Tensor& tensor);

    nn::Module& root_;
    TraceOptions options_;
    Graph graph_;
    std::vector<Node*> nodes_;  // by the id of their proxies
    std::map<const nn::Module*, std::string> paths_;
    std::vector<std::pair<std::string, Tensor>> attributes_;  // tensors that have a get_attr name
    std::vector<nn::Named<Tensor>> constants_;
    std::vector<Scope> scopes_{{"", ""}};
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(graph)

#    include <algorithm>
#    include <cstddef>

#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"

namespace intq::graph {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE std::shared_ptr<GraphModule> symbolic_trace(const nn::ModulePtr& root, const TraceOptions& options) {
    return symbolic_trace(*nn::given_model(root, "symbolic_trace"), options);
}

INTQ_INLINE std::shared_ptr<GraphModule> symbolic_trace(nn::Module& root, const TraceOptions& options) {
    return Tracer(root, options).trace();
}

INTQ_INLINE Tracer::Tracer(nn::Module& root, const TraceOptions& options) : root_(root), options_(options) {
    for (const auto& module : root.named_modules()) paths_.emplace(module.value, module.name);
    for (const auto& item : root.named_parameters()) attributes_.emplace_back(item.name, *item.value);
    for (const auto& item : root.named_buffers()) attributes_.emplace_back(item.name, *item.value);
}

INTQ_INLINE std::shared_ptr<GraphModule> Tracer::trace() {
    if (root_.is_leaf())
        throw nn::TracingError("a " + root_.type_name() +
                               " alone is a leaf and cannot be traced; put it into a Sequential");
    check_options();
    std::vector<nn::Value> inputs;
    for (const std::string& name : root_.input_names()) inputs.push_back(proxy_of(graph_.placeholder(name), 1));
    const nn::ModuleCall call{"forward", nn::Arguments(inputs)};
    const nn::Value result = call_hooks(root_, call, root_.invoke(call.method, call.arguments), {}, nullptr);
    graph_.output(argument_of(result));
    auto traced = std::make_shared<GraphModule>(root_, std::move(graph_), std::move(constants_));
    for (const auto& property : root_.properties()) traced->set_property(property.name, property.value);
    return traced;
}

INTQ_INLINE void Tracer::check_options() const {
    std::vector<std::string> names, types, properties;
    for (const auto& [module, path] : paths_) {
        names.push_back(path);
        types.push_back(module->type_name());
    }
    for (const auto& property : root_.properties()) properties.push_back(property.name);
    const auto check_names = [](const char* what, const std::vector<std::string>& wanted,
                                const std::vector<std::string>& known) {
        for (const std::string& name : wanted)
            if (std::find(known.begin(), known.end(), name) == known.end())
                throw Error("symbolic_trace: the model has no " + std::string(what) + " \"" + name +
                            "\"; the nearest are " + nearest_names(name, known));
    };
    check_names("module", options_.leaf_modules, names);
    check_names("module of type", options_.leaf_types, types);
    check_names("property", options_.preserved_attributes, properties);
}

INTQ_INLINE bool Tracer::is_leaf(const nn::Module& module, const std::string& qualified_name) const {
    const auto holds = [](const std::vector<std::string>& list, const std::string& text) {
        return std::find(list.begin(), list.end(), text) != list.end();
    };
    return module.is_leaf() || holds(options_.leaf_modules, qualified_name) ||
           holds(options_.leaf_types, module.type_name()) ||
           (options_.is_leaf && options_.is_leaf(module, qualified_name));
}

INTQ_INLINE nn::Value Tracer::record_module(nn::Module& module, std::string_view method,
                                            std::span<const nn::Value> arguments, nn::HookRange traced) {
    const auto path = paths_.find(&module);
    if (path == paths_.end())
        throw nn::TracingError("a " + module.type_name() + " is called in the forward of " + current_module() +
                               " that is not a child of the traced model; register it with add_child");
    const bool leaf_method = module.is_leaf_method(method);
    if (leaf_method && &module == &root_)
        throw nn::TracingError("the method \"" + std::string(method) + "\" of the root module (" + root_.type_name() +
                               ") cannot be a node, since the traced model takes the root's place; move the method "
                               "into a child");
    const Scope scope{path->second, module.type_name()};
    const nn::ModuleCall call{method, nn::Arguments(arguments)};
    scopes_.push_back(scope);
    nn::Value result;
    if (leaf_method || is_leaf(module, path->second)) {
        Node& node = graph_.call_module(path->second, arguments_of(arguments), std::string(method));
        node.set_scope(scope);
        result =
            call_hooks(module, call, proxy_of(node, method == "forward" ? module.output_count() : 1), traced, &node);
    } else {
        result = call_hooks(module, call, module.invoke(method, call.arguments), traced, nullptr);
    }
    scopes_.pop_back();
    return result;
}

/// Calls the hooks of a traced module with its result, except those that are traced already; records in its node, if it
/// has one, which of them are now nodes.
INTQ_INLINE nn::Value Tracer::call_hooks(nn::Module& module, const nn::ModuleCall& call, nn::Value result,
                                         nn::HookRange traced, Node* node) {
    const auto& hooks = module.forward_hooks();
    for (std::size_t i = 0; i < hooks.size(); ++i) {
        if (traced.holds(i)) continue;
        nn::Value next;
        try {
            next = hooks[i](module, call, result);
        } catch (const nn::TracingError& error) {
            throw nn::TracingError(std::string(error.what()) +
                                   ". It was asked by a forward hook; a hook that only looks returns a proxy as it "
                                   "came, and looks when the graph runs");
        }
        if (node != nullptr && nn::is_same_proxy(next, result)) {
            if (traced.is_empty()) continue;
            throw nn::TracingError("forward hook " + std::to_string(i) + " of " + current_module() +
                                   " only looks, after a hook that computes, and would not see what that hook makes "
                                   "when the graph runs; add it to the module that the hook before it calls");
        }
        if (traced.is_empty()) traced.first = i;
        traced.last = i + 1;
        result = std::move(next);
    }
    if (node != nullptr) node->set_traced_hooks(traced);
    return result;
}

INTQ_INLINE nn::Value Tracer::record_function(const nn::Function& function, std::span<const nn::Value> arguments) {
    Node& node = graph_.call_function(function, arguments_of(arguments));
    node.set_scope(scopes_.back());
    return proxy_of(node, 1);
}

INTQ_INLINE nn::Value Tracer::record_method(const nn::Function& function, std::span<const nn::Value> arguments) {
    Node& node = graph_.call_method(function, arguments_of(arguments));
    node.set_scope(scopes_.back());
    return proxy_of(node, 1);
}

INTQ_INLINE std::string Tracer::current_module() const {
    const Scope& scope = scopes_.back();
    return scope.module.empty() ? "the root module (" + root_.type_name() + ")"
                                : "\"" + scope.module + "\" (" + scope.type + ")";
}

INTQ_INLINE nn::Value Tracer::proxy_of(Node& node, int output_count) {
    const auto id = static_cast<std::int64_t>(nodes_.size());
    nodes_.push_back(&node);
    node.outputs().resize(static_cast<std::size_t>(output_count));
    if (output_count == 1) return nn::Proxy{this, id, 0};
    nn::Value::Tuple outputs;
    for (int i = 0; i < output_count; ++i) outputs.emplace_back(nn::Proxy{this, id, i});
    return outputs;
}

INTQ_INLINE Argument Tracer::argument_of(const nn::Value& value) {
    if (value.is_proxy()) {
        if (value.proxy().recorder != this)
            throw nn::TracingError("a proxy of another trace was used in " + current_module());
        return NodeRef{nodes_.at(static_cast<std::size_t>(value.proxy().id)), value.proxy().output};
    }
    if (value.is_tensor()) return attribute_of(value.tensor());
    if (value.is_tuple()) return arguments_of(value.tuple());
    if (value.is_integer()) return value.integer();
    if (value.is_number()) return value.number();
    if (value.is_bool()) return value.boolean();
    if (value.is_text()) return value.text();
    return {};
}

INTQ_INLINE ArgumentList Tracer::arguments_of(std::span<const nn::Value> values) {
    ArgumentList result;
    for (const nn::Value& value : values) result.push_back(argument_of(value));
    return result;
}

INTQ_INLINE Node& Tracer::attribute_of(const Tensor& tensor) {
    for (const auto& [name, known] : attributes_)
        if (known.shares_buffer_with(tensor) && known.shape() == tensor.shape()) return graph_.get_attr(name);
    std::string name;
    for (std::size_t k = constants_.size();; ++k) {
        name = "_tensor_constant" + std::to_string(k);
        if (root_.find_tensor(name) == nullptr) break;
    }
    constants_.push_back({name, tensor});
    attributes_.emplace_back(name, tensor);
    return graph_.get_attr(name);
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::graph

#endif  // INTQ_DEFINES(graph)
#endif  // INTQ_GRAPH_TRACER_HPP
