// SPDX-License-Identifier: MIT
//
// Module: a model or a layer, whose children are named, replaceable slots. Layer: nn (docs/design.md section 6).
//
// Long because one class has slots, tensors, properties and attributes, hooks and a mode, each with its lookups and
// messages.
#ifndef INTQ_NN_MODEL_MODULE_HPP
#define INTQ_NN_MODEL_MODULE_HPP

#include <any>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "intq/nn/model/value.hpp"
#include "intq/tensor/float_sums.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

class Module;
using ModulePtr = std::shared_ptr<Module>;

/// A call of a module, as its hooks see it.
struct ModuleCall {
    std::string_view method;
    Arguments arguments;
};

template <class T> struct Named {
    std::string name;
    T value;
};

/// A model or a layer.
///
/// A model derives from Cloneable<Itself>, registers its children by name in the constructor and calls them by name in
/// forward, so that fuse, prepare and convert can put another module into a slot:
///
///     struct Block : nn::Cloneable<Block> {
///         Block() { add_child("conv", std::make_shared<nn::Conv2d>(…)); }
///         std::string type_name() const override { return "Block"; }
///         nn::Value forward(nn::Arguments x) override { return nn::relu(call("conv", x[0])); }
///     };
///
/// Each thing that a module holds has a name, and is one of four kinds:
///
/// | a         | holds                   | whose it is                                   | example                  |
/// | --------- | ----------------------- | --------------------------------------------- | ------------------------ |
/// | slot      | a child module          | the model's; another class may take the place | "conv1"                  |
/// | tensor    | a parameter or a buffer | the model's; it is in the state               | "weight", "running_mean" |
/// | property  | a Value                 | the model's; every form of it has it          | the names of the classes |
/// | attribute | a value of any C++ type | the library's, which remembers it there       | "qconfig"                |
///
/// All keep the order in which they were added, except attributes. A copy of the object shares children and tensors;
/// clone() makes an independent model.
///
/// Several threads may call one module at once where its forward changes nothing. This holds for all layers that are
/// not in training, observe nothing and have no quantized part. Others need a clone per thread.
class Module {
public:
    virtual INTQ_INLINE ~Module();

    // --- the class: what a derived class says of itself -------------------------------------------------------------

    /// The class's name as users of PyTorch know it, e.g. "Conv2d".
    virtual std::string type_name() const = 0;
    virtual Value forward(Arguments arguments) = 0;
    /// A copy of this object that shares children and tensors; Cloneable implements it.
    virtual ModulePtr copy() const = 0;
    /// A method other than forward, for modules that have some (FloatFunctional).
    virtual INTQ_INLINE Value invoke(std::string_view method, Arguments arguments);
    /// The names that tracing gives to the inputs of a root module; their number is the number of inputs.
    virtual INTQ_INLINE std::vector<std::string> input_names() const;
    /// More than 1 for a leaf that returns a tuple.
    virtual int output_count() const { return 1; }
    /// A leaf is one node of a graph; other modules are traced through.
    virtual bool is_leaf() const { return false; }
    /// A method that is one node of a graph though the module itself is traced through: how a method is wrapped.
    virtual bool is_leaf_method(std::string_view) const { return false; }
    /// Whether values that reach this module must have the same bits on every machine, because scales or codes are
    /// derived from them. The outermost module that is called asks all below it, and chooses the FloatSums of the call.
    virtual bool needs_reproducible_sums() const { return false; }
    /// Shown by to_string(module) besides the type and children, in one line or several.
    virtual std::string extra_repr() const { return {}; }
    /// Called by load_state_dict() before it checks anything, for a module that accepts the state of a related class:
    /// it changes the entries for itself and its children, whose names are relative to it.
    virtual void adapt_state(std::vector<Named<Tensor>>& /*state*/) const {}
    /// Called after load_state_dict() has written tensors of this module: for data that is derived from them once.
    virtual void tensors_changed() {}

    // --- calls: a call runs forward between the hooks, or is recorded -----------------------------------------------

    /// Runs forward, or records the call where an argument is a proxy.
    template <class... Arguments> Value operator()(const Arguments&... arguments) {
        const std::array<Value, sizeof...(Arguments)> values{Value(arguments)...};
        return dispatch("forward", values);
    }
    /// Calls the module in a slot.
    template <class... Arguments> Value call(std::string_view slot, const Arguments&... arguments) {
        return (*child(slot))(arguments...);
    }
    /// @param traced  hooks that are not called, since the graph already has nodes for their calls
    Value dispatch(std::string_view method, std::span<const Value> arguments, HookRange traced = {});

    /// A function that is called before each call of this module, and may throw. It is a plain function, so that copies
    /// and clones have it too; it reads its state from the module. It stays with its module: a trace does not call it,
    /// and a leaf calls it when the graph runs.
    using ForwardPreHook = void (*)(Module& module, const ModuleCall& call);
    void add_forward_pre_hook(ForwardPreHook hook);

    /// A plain function, too, that is called with each call of this module and its result, and returns the result to
    /// use instead.
    ///
    /// A trace calls it with a proxy, and its calls become nodes behind the module's. A hook that returns the proxy
    /// unchanged only looks: it stays with the module, if that is a leaf, and sees the data when the graph runs.
    using ForwardHook = Value (*)(Module& module, const ModuleCall& call, const Value& result);
    void add_forward_hook(ForwardHook hook);
    const std::vector<ForwardHook>& forward_hooks() const noexcept { return forward_hooks_; }

    // --- slots: a slot is a name in this module, and a child is the module that stands in it ------------------------

    /// Adds a slot. Throws for a name that is taken, is empty or holds a dot.
    void add_child(std::string name, ModulePtr module);
    const std::vector<Named<ModulePtr>>& children() const noexcept { return children_; }
    bool has_child(std::string_view name) const noexcept;
    /// The module in a slot of this module. Throws the Error that lists the slots.
    const ModulePtr& child(std::string_view name) const;
    /// Removes the slots of this module whose names `is_kept` does not accept.
    void keep_children(const std::function<bool(const std::string& name)>& is_kept);

    // --- qualified names: the names of slots on the way to a module below, with dots between ("layer1.0.conv1") -----

    /// The module at a qualified name; "" is this module. Throws the Error that names the part that does not exist and
    /// the names that do.
    Module& find(std::string_view qualified_name);
    /// The shared pointer in the slot at a qualified name, which is not "".
    const ModulePtr& find_child(std::string_view qualified_name);
    /// Puts another module into one slot; a module in two slots stays in the other.
    void replace_child(std::string_view qualified_name, ModulePtr module);
    void remove_child(std::string_view qualified_name);
    /// The parameter or buffer at a qualified name; null when there is none.
    Tensor* find_tensor(std::string_view qualified_name);
    /// This module and all below, each once, parents first, with qualified names; this module's name is `prefix`.
    std::vector<Named<Module*>> named_modules(const std::string& prefix = "");
    /// Parameters and buffers of all modules with qualified names; the pointers stay valid until one is added.
    std::vector<Named<Tensor*>> named_parameters();
    std::vector<Named<Tensor*>> named_buffers();

    // --- tensors: training changes a parameter, and the module itself a buffer; no two have one name ----------------

    void add_parameter(std::string name, Tensor tensor);
    /// @param is_persistent  whether it belongs to the state dictionary, as in PyTorch; false for buffers that
    ///                       PyTorch's layer lacks, such as the count of a dropout. A training checkpoint holds all
    ///                       buffers.
    void add_buffer(std::string name, Tensor tensor, bool is_persistent = true);
    /// Whether a parameter or buffer of this module belongs to the state dictionary.
    bool is_persistent(std::string_view name) const noexcept;
    /// Parameters and buffers of this module by name. Throws for a name that does not exist.
    Tensor& tensor(std::string_view name);
    const Tensor& tensor(std::string_view name) const { return const_cast<Module*>(this)->tensor(name); }
    std::vector<Named<Tensor>>& parameters() noexcept { return parameters_; }
    const std::vector<Named<Tensor>>& parameters() const noexcept { return parameters_; }
    std::vector<Named<Tensor>>& buffers() noexcept { return buffers_; }
    const std::vector<Named<Tensor>>& buffers() const noexcept { return buffers_; }

    // --- properties: what the model's author says of it, which its traced, prepared and converted forms have too ----

    /// Class names, a threshold, a version: like PyTorch's preserved_attributes, but all are kept without being listed.
    /// They are not in the state dictionary.
    void set_property(std::string name, Value value);
    const std::vector<Named<Value>>& properties() const noexcept { return properties_; }
    bool has_property(std::string_view name) const noexcept;
    /// Throws the Error that lists the properties.
    const Value& property(std::string_view name) const;

    // --- attributes: what layers of the library above this one remember of a module ---------------------------------

    /// Copies and clones have it too; a graph that is traced from a model has not. An empty value removes it.
    void set_attribute(const std::string& name, std::any value);
    /// Null where there is none of this type.
    template <class T> const T* attribute(const std::string& name) const {
        return std::any_cast<T>(find_attribute(name));
    }

    // --- mode: training or evaluation -------------------------------------------------------------------------------

    bool training() const noexcept { return training_; }
    /// Sets the mode of this module and all below. Models start in training mode, as in PyTorch.
    void train(bool on = true);
    void eval() { train(false); }

protected:
    Module();
    Module(const Module& other);
    Module& operator=(const Module& other);
    /// For modules whose children belong to others (GraphModule).
    void set_children(std::vector<Named<ModulePtr>> children);

private:
    friend class ModuleCloner;

    const std::any* find_attribute(const std::string& name) const noexcept;
    void add_tensor(std::vector<Named<Tensor>>& list, std::string name, Tensor tensor);
    Named<ModulePtr>* slot(std::string_view name) noexcept;
    std::pair<Module*, std::string_view> parent_of(std::string_view qualified_name);

    std::vector<Named<ModulePtr>> children_;
    std::unordered_map<std::string, std::size_t> places_;  // in children_, by name
    std::vector<Named<Tensor>> parameters_;
    std::vector<Named<Tensor>> buffers_;
    std::vector<std::string> not_persistent_;  // of the buffers
    std::vector<Named<Value>> properties_;
    std::map<std::string, std::any> attributes_;
    std::vector<ForwardPreHook> forward_pre_hooks_;
    std::vector<ForwardHook> forward_hooks_;
    bool training_ = true;
};

/// Implements copy() for `Derived`. `Base` is Module or a class derived from it.
template <class Derived, class Base = Module> class Cloneable : public Base {
public:
    using Base::Base;
    Cloneable() = default;
    explicit Cloneable(const Base& base) : Base(base) {}
    ModulePtr copy() const override {
        return ModulePtr(static_cast<Module*>(new Derived(static_cast<const Derived&>(*this))));
    }
};

/// Makes a user's module a leaf, which is one node of every graph whatever its forward does. Leaf<M> has M's
/// constructors.
template <class ModuleType> class Leaf : public Cloneable<Leaf<ModuleType>, ModuleType> {
public:
    using Cloneable<Leaf<ModuleType>, ModuleType>::Cloneable;
    bool is_leaf() const override { return true; }
};

/// The model that was passed to a function; throws an Error that names the function where the pointer is null.
const ModulePtr& given_model(const ModulePtr& model, const char* function);

/// An independent model: modules and tensors that were shared inside it are shared inside the clone.
ModulePtr clone(const Module& root);
template <class T> std::shared_ptr<T> clone(const std::shared_ptr<T>& root) {
    return std::static_pointer_cast<T>(clone(static_cast<const Module&>(*root)));
}

/// Calls `visit` for what named_modules() lists, in its order, without making the list: the total length of the names
/// in a chain of modules grows with the square of its depth. The name is valid during the call, in which `visit` must
/// not change slots.
void for_each_module(Module& root, const std::function<void(const std::string& name, Module& module)>& visit);

/// Chooses how float layers sum while a model runs, where nobody has chosen: Module's calls and graphs make one.
class FloatSumsOfModel {
public:
    explicit FloatSumsOfModel(const Module& model);

private:
    std::optional<FloatSumsScope> scope_;
};

/// "prefix.name"; just the name where there is no prefix.
std::string join_path(const std::string& prefix, const std::string& name);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(nn_model)

#    include <algorithm>
#    include <unordered_set>
#    include <utility>

#    include "intq/io/error.hpp"

namespace intq::nn {
inline namespace INTQ_HOSTED_ABI {

/// The work of clone(): remembers what was cloned already.
class ModuleCloner {
public:
    ModulePtr operator()(const Module& module) {
        if (const auto known = modules_.find(&module); known != modules_.end()) return known->second;
        ModulePtr result = module.copy();
        modules_.emplace(&module, result);
        for (auto& child : result->children_) child.value = (*this)(*child.value);
        for (auto& parameter : result->parameters_) parameter.value = tensors_(parameter.value);
        for (auto& buffer : result->buffers_) buffer.value = tensors_(buffer.value);
        for (auto& property : result->properties_)
            if (property.value.is_tensor()) property.value = tensors_(property.value.tensor());
        return result;
    }

private:
    std::map<const Module*, ModulePtr> modules_;
    TensorCloner tensors_;
};

INTQ_INLINE const ModulePtr& given_model(const ModulePtr& model, const char* function) {
    if (model == nullptr) throw Error(std::string(function) + ": the model is null");
    return model;
}

INTQ_INLINE ModulePtr clone(const Module& root) { return ModuleCloner()(root); }

namespace detail {

/// One path serves the whole walk: it grows by a name at a slot, and shrinks again afterwards.
template <class Visit>
void visit_modules(Module& module, std::string& path, std::unordered_set<const Module*>& seen, const Visit& visit) {
    if (!seen.insert(&module).second) return;
    visit(std::as_const(path), module);
    const std::size_t length = path.size();
    for (const auto& child : module.children()) {
        if (length != 0) path += '.';
        path += child.name;
        visit_modules(*child.value, path, seen, visit);
        path.resize(length);
    }
}

template <class Visit> void visit_modules(Module& root, std::string path, const Visit& visit) {
    std::unordered_set<const Module*> seen;
    visit_modules(root, path, seen, visit);
}

template <class T> std::string list_names(const std::vector<Named<T>>& items) {
    std::string text;
    for (const auto& item : items) text += (text.empty() ? "" : ", ") + item.name;
    return text.empty() ? "none" : text;
}

}  // namespace detail

INTQ_INLINE std::string join_path(const std::string& prefix, const std::string& name) {
    return prefix.empty() ? name : prefix + "." + name;
}

namespace detail {

INTQ_INLINE bool any_needs_reproducible_sums(const Module& module) {
    if (module.needs_reproducible_sums()) return true;
    for (const auto& child : module.children())
        if (any_needs_reproducible_sums(*child.value)) return true;
    return false;
}

}  // namespace detail

INTQ_INLINE FloatSumsOfModel::FloatSumsOfModel(const Module& model) {
    if (current_float_sums() == FloatSums::by_model)
        scope_.emplace(detail::any_needs_reproducible_sums(model) ? FloatSums::reproducible : FloatSums::fast);
}

INTQ_INLINE Value Module::invoke(std::string_view method, Arguments arguments) {
    if (method != "forward") throw Error(type_name() + " has no method \"" + std::string(method) + "\", only forward");
    return forward(arguments);
}

INTQ_INLINE Value Module::dispatch(std::string_view method, std::span<const Value> arguments, HookRange traced) {
    if (Recorder* recorder = find_recorder(arguments)) return recorder->record_module(*this, method, arguments, traced);
    const FloatSumsOfModel sums(*this);
    const ModuleCall call{method, Arguments(arguments)};
    for (const ForwardPreHook hook : forward_pre_hooks_) hook(*this, call);
    Value result = invoke(method, call.arguments);
    for (std::size_t i = 0; i < forward_hooks_.size(); ++i)
        if (!traced.holds(i)) result = forward_hooks_[i](*this, call, result);
    return result;
}

INTQ_INLINE void Module::add_child(std::string name, ModulePtr module) {
    if (module == nullptr) throw Error(type_name() + ": the child \"" + name + "\" is null");
    if (name.empty() || name.find('.') != std::string::npos)
        throw Error(type_name() + ": a child's name must not be empty and must not hold a dot, given \"" + name + "\"");
    if (slot(name) != nullptr) throw Error(type_name() + ": there is a child \"" + name + "\" already");
    places_[name] = children_.size();
    children_.push_back({std::move(name), std::move(module)});
}

INTQ_INLINE Named<ModulePtr>* Module::slot(std::string_view name) noexcept {
    // Comparing a handful is faster than copying a name.
    if (children_.size() > 8) {
        const auto place = places_.find(std::string(name));
        return place == places_.end() ? nullptr : &children_[place->second];
    }
    for (auto& child : children_)
        if (child.name == name) return &child;
    return nullptr;
}

INTQ_INLINE bool Module::has_child(std::string_view name) const noexcept {
    return const_cast<Module*>(this)->slot(name) != nullptr;
}

INTQ_INLINE const ModulePtr& Module::child(std::string_view name) const {
    if (const auto* found = const_cast<Module*>(this)->slot(name)) return found->value;
    throw Error(type_name() + " has no child \"" + std::string(name) +
                "\"; its children: " + detail::list_names(children_));
}

INTQ_INLINE Module& Module::find(std::string_view qualified_name) {
    return qualified_name.empty() ? *this : *find_child(qualified_name);
}

INTQ_INLINE std::pair<Module*, std::string_view> Module::parent_of(std::string_view qualified_name) {
    Module* module = this;
    std::string_view rest = qualified_name;
    for (auto dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
        module = module->child(rest.substr(0, dot)).get();
        rest.remove_prefix(dot + 1);
    }
    return {module, rest};
}

INTQ_INLINE const ModulePtr& Module::find_child(std::string_view qualified_name) {
    try {
        const auto [parent, name] = parent_of(qualified_name);
        return parent->child(name);
    } catch (const Error& error) {
        throw Error("no module \"" + std::string(qualified_name) + "\"", error.what());
    }
}

INTQ_INLINE void Module::replace_child(std::string_view qualified_name, ModulePtr module) {
    if (module == nullptr) throw Error("replace_child: the new \"" + std::string(qualified_name) + "\" is null");
    const_cast<ModulePtr&>(find_child(qualified_name)) = std::move(module);
}

INTQ_INLINE void Module::remove_child(std::string_view qualified_name) {
    find_child(qualified_name);
    const auto [parent, name] = parent_of(qualified_name);
    parent->keep_children([&removed = name](const std::string& child) { return child != removed; });
}

INTQ_INLINE void Module::keep_children(const std::function<bool(const std::string& name)>& is_kept) {
    std::vector<Named<ModulePtr>> kept;
    for (auto& child : children_)
        if (is_kept(child.name)) kept.push_back(std::move(child));
    set_children(std::move(kept));
}

INTQ_INLINE void for_each_module(Module& root,
                                 const std::function<void(const std::string& name, Module& module)>& visit) {
    detail::visit_modules(root, std::string(), visit);
}

INTQ_INLINE std::vector<Named<Module*>> Module::named_modules(const std::string& prefix) {
    std::vector<Named<Module*>> result;
    detail::visit_modules(*this, prefix, [&](const std::string& name, Module& module) {
        result.push_back({name, &module});
    });
    return result;
}

INTQ_INLINE std::vector<Named<Tensor*>> Module::named_parameters() {
    std::vector<Named<Tensor*>> result;
    detail::visit_modules(*this, std::string(), [&](const std::string& name, Module& module) {
        for (auto& item : module.parameters_) result.push_back({join_path(name, item.name), &item.value});
    });
    return result;
}

INTQ_INLINE std::vector<Named<Tensor*>> Module::named_buffers() {
    std::vector<Named<Tensor*>> result;
    detail::visit_modules(*this, std::string(), [&](const std::string& name, Module& module) {
        for (auto& item : module.buffers_) result.push_back({join_path(name, item.name), &item.value});
    });
    return result;
}

INTQ_INLINE Tensor* Module::find_tensor(std::string_view qualified_name) {
    const auto dot = qualified_name.rfind('.');
    const bool own = dot == std::string_view::npos;
    Module& module = own ? *this : find(qualified_name.substr(0, dot));
    const std::string_view name = own ? qualified_name : qualified_name.substr(dot + 1);
    for (auto* list : {&module.parameters_, &module.buffers_})
        for (auto& item : *list)
            if (item.name == name) return &item.value;
    return nullptr;
}

INTQ_INLINE Tensor& Module::tensor(std::string_view name) {
    for (auto* list : {&parameters_, &buffers_})
        for (auto& item : *list)
            if (item.name == name) return item.value;
    throw Error(type_name() + " has no parameter or buffer \"" + std::string(name) +
                "\"; parameters: " + detail::list_names(parameters_) + "; buffers: " + detail::list_names(buffers_));
}

INTQ_INLINE void Module::add_tensor(std::vector<Named<Tensor>>& list, std::string name, Tensor tensor) {
    for (const auto* known : {&parameters_, &buffers_})
        for (const auto& item : *known)
            if (item.name == name) throw Error(type_name() + ": there is a tensor \"" + name + "\" already");
    list.push_back({std::move(name), std::move(tensor)});
}

INTQ_INLINE void Module::set_property(std::string name, Value value) {
    for (auto& known : properties_)
        if (known.name == name) {
            known.value = std::move(value);
            return;
        }
    properties_.push_back({std::move(name), std::move(value)});
}

INTQ_INLINE bool Module::has_property(std::string_view name) const noexcept {
    return std::any_of(properties_.begin(), properties_.end(), [&](const auto& known) { return known.name == name; });
}

INTQ_INLINE const Value& Module::property(std::string_view name) const {
    for (const auto& known : properties_)
        if (known.name == name) return known.value;
    throw Error(type_name() + " has no property \"" + std::string(name) +
                "\"; properties: " + detail::list_names(properties_));
}

INTQ_INLINE void Module::train(bool on) {
    detail::visit_modules(*this, std::string(), [&](const std::string&, Module& module) { module.training_ = on; });
}

INTQ_INLINE Module::Module() = default;
INTQ_INLINE Module::Module(const Module& other) = default;
INTQ_INLINE Module& Module::operator=(const Module& other) = default;
INTQ_INLINE Module::~Module() = default;

INTQ_INLINE std::vector<std::string> Module::input_names() const { return {"x"}; }

INTQ_INLINE void Module::add_forward_pre_hook(ForwardPreHook hook) { forward_pre_hooks_.push_back(hook); }

INTQ_INLINE void Module::add_forward_hook(ForwardHook hook) { forward_hooks_.push_back(hook); }

INTQ_INLINE void Module::add_parameter(std::string name, Tensor tensor) {
    add_tensor(parameters_, std::move(name), std::move(tensor));
}

INTQ_INLINE void Module::add_buffer(std::string name, Tensor tensor, bool is_persistent) {
    if (!is_persistent) not_persistent_.push_back(name);
    add_tensor(buffers_, std::move(name), std::move(tensor));
}

INTQ_INLINE bool Module::is_persistent(std::string_view name) const noexcept {
    return std::find(not_persistent_.begin(), not_persistent_.end(), name) == not_persistent_.end();
}

INTQ_INLINE void Module::set_attribute(const std::string& name, std::any value) {
    attributes_[name] = std::move(value);
}

INTQ_INLINE void Module::set_children(std::vector<Named<ModulePtr>> children) {
    children_ = std::move(children);
    places_.clear();
    for (std::size_t i = 0; i < children_.size(); ++i) places_.emplace(children_[i].name, i);
}

INTQ_INLINE const std::any* Module::find_attribute(const std::string& name) const noexcept {
    const auto found = attributes_.find(name);
    return found == attributes_.end() ? nullptr : &found->second;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::nn

#endif  // INTQ_DEFINES(nn_model)
#endif  // INTQ_NN_MODEL_MODULE_HPP
