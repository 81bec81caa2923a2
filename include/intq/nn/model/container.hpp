// SPDX-License-Identifier: MIT
//
// Containers: Sequential, and ModuleDict for a model that is only a set of slots. Layer: nn.
#ifndef INTQ_NN_MODEL_CONTAINER_HPP
#define INTQ_NN_MODEL_CONTAINER_HPP

#include <initializer_list>
#include <string>
#include <vector>

#include "intq/nn/model/module.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// Calls its children one after the other; their names are 0, 1, … unless given.
class Sequential : public Cloneable<Sequential> {
public:
    Sequential();
    Sequential(std::initializer_list<ModulePtr> modules);

    void append(ModulePtr module);
    void append(std::string name, ModulePtr module);

    std::string type_name() const override { return "Sequential"; }
    INTQ_INLINE std::vector<std::string> input_names() const override;
    INTQ_INLINE Value forward(Arguments arguments) override;
};

/// Slots without a forward, for the modules of a graph that was built by hand (an importer's).
class ModuleDict : public Cloneable<ModuleDict> {
public:
    std::string type_name() const override { return "ModuleDict"; }
    INTQ_INLINE Value forward(Arguments) override;
};

/// Adds a module at a qualified name below `root`; missing parents become ModuleDicts.
void add_module(Module& root, const std::string& qualified_name, ModulePtr module);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_model)

#    include <memory>
#    include <string_view>
#    include <utility>

#    include "intq/io/error.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE Sequential::Sequential() = default;

INTQ_INLINE Sequential::Sequential(std::initializer_list<ModulePtr> modules) {
    for (const ModulePtr& module : modules) append(module);
}

INTQ_INLINE void Sequential::append(ModulePtr module) {
    add_child(std::to_string(children().size()), std::move(module));
}

INTQ_INLINE void Sequential::append(std::string name, ModulePtr module) {
    add_child(std::move(name), std::move(module));
}

INTQ_INLINE std::vector<std::string> Sequential::input_names() const { return {"input"}; }

INTQ_INLINE Value Sequential::forward(Arguments arguments) {
    Value value = arguments[0];
    for (const auto& child : children()) value = (*child.value)(value);
    return value;
}

INTQ_INLINE Value ModuleDict::forward(Arguments) { throw Error("a ModuleDict cannot be called; call its children"); }

INTQ_INLINE void add_module(Module& root, const std::string& qualified_name, ModulePtr module) {
    Module* parent = &root;
    std::string_view rest = qualified_name;
    for (auto dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
        const std::string_view name = rest.substr(0, dot);
        if (!parent->has_child(name)) parent->add_child(std::string(name), std::make_shared<ModuleDict>());
        parent = parent->child(name).get();
        rest.remove_prefix(dot + 1);
    }
    parent->add_child(std::string(rest), std::move(module));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_model)
#endif  // INTQ_NN_MODEL_CONTAINER_HPP
