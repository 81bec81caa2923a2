// SPDX-License-Identifier: MIT
//
// fuse_modules: fuses modules that the user names, without a graph. Layer: quantization (docs/workflow.md section 4).
#ifndef INTQ_QUANTIZATION_EAGER_FUSE_EAGER_HPP
#define INTQ_QUANTIZATION_EAGER_FUSE_EAGER_HPP

#include <concepts>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "intq/nn/layers/move.hpp"
#include "intq/nn/model/module.hpp"
#include "intq/nn/model/value.hpp"
#include "intq/quantization/fuse/fusion_table.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The replacements of modules, in their order.
using ModuleFuser = std::function<std::vector<nn::ModulePtr>(const std::vector<nn::ModulePtr>& modules)>;

/// The caller's rows, then the rows of fusion_table(). The first module becomes the fused one, the others Identity. If
/// an add (a FloatFunctional) is in the row, the fused one takes its place and its calls, with the convolution on
/// either side.
///
/// @throws Error for modules that no row fuses, naming their operators; for a batch norm in training
std::vector<nn::ModulePtr> fuse_known_modules(const std::vector<nn::ModulePtr>& modules,
                                              const std::vector<FusionRow>& more_rows = {});

/// Makes one module from several; it takes the slot of the first, and the others become Identity.
using FuserMethod = std::function<nn::ModulePtr(const std::vector<nn::ModulePtr>& modules)>;

/// The documents' fuse_custom_config.
struct FuseCustomConfig {
    /// By the types of the modules, above the library's fusions:
    ///
    ///     {{{"Conv2d", "BatchNorm2d"}, fuse_conv_bn}}
    std::map<std::vector<std::string>, FuserMethod> additional_fuser_method_mapping{};
    /// A list that nothing fuses is left unchanged, as in PyTorch. Otherwise it is an Error.
    bool leave_others_unchanged = false;
};

/// Which modules are fused, by their qualified names: one list, or several. A braced list is one list, however many
/// names it has.
///
///     {"conv1", "relu1"}                                   one list
///     {{"conv1", "bn1", "relu1"}, {"fc", "relu2"}}         two lists
class ModulesToFuse {
public:
    /// A name: text, never a pair of pointers, as std::string would take two literals in braces.
    struct Name {
        template <std::convertible_to<std::string_view> Text>
        Name(const Text& name) : text(std::string_view(name)) {}  // NOLINT: a list of names is written in braces
        std::string text;
    };
    /// A name, or a list of names.
    struct Item {
        template <std::convertible_to<std::string_view> Text>
        Item(const Text& name) : names{std::string(std::string_view(name))}, is_list(false) {}
        Item(std::initializer_list<Name> list);
        Item(std::vector<std::string> list) : names(std::move(list)) {}

        std::vector<std::string> names{};
        bool is_list = true;
    };

    /// @throws Error for a list of both names and lists
    ModulesToFuse(std::initializer_list<Item> items);
    ModulesToFuse(std::vector<std::string> list) : lists_{std::move(list)} {}
    ModulesToFuse(std::vector<std::vector<std::string>> lists) : lists_(std::move(lists)) {}

    const std::vector<std::vector<std::string>>& lists() const noexcept { return lists_; }

private:
    std::vector<std::vector<std::string>> lists_;
};

/// Fuses each list of qualified names.
///
///     fuse_modules(model, {"conv1", "bn1", "relu1"})
///     fuse_modules(model, {{"conv1", "bn1", "relu1"}, {"fc", "relu2"}})
///
/// The fused module has the own qconfig of the first; the output quantizer will be the last one's.
///
/// @param inplace  false: in a clone, which is returned; true: where a list is refused, no list is fused
/// @param fuser    in place of fuse_known_modules(), for lists that the configuration does not fuse
nn::ModulePtr fuse_modules(const nn::ModulePtr& model, const ModulesToFuse& modules_to_fuse, bool inplace = false,
                           const ModuleFuser& fuser = {}, const FuseCustomConfig& custom = {});

/// Identity in the place of a layer that is fused into an add: it remembers the value that passed, so that the add
/// knows which operand it is. A trace goes through it, and leaves no node.
class FusedInput : public nn::Cloneable<FusedInput, nn::Identity> {
public:
    bool is_leaf() const override { return false; }
    INTQ_INLINE nn::Value forward(nn::Arguments arguments) override;
    /// The value that passed since the last call, a tensor or a proxy; none if nothing did.
    nn::Value take() { return std::exchange(passed_, nn::Value()); }

private:
    nn::Value passed_{};
};

/// A fused layer in the place of a FloatFunctional: its methods add and add_relu call the layer "layer". The input of
/// the layer is the operand that came through "input". A layer that was fused without a relu has no add_relu.
class FusedFloatFunctional : public nn::Cloneable<FusedFloatFunctional> {
public:
    FusedFloatFunctional(nn::ModulePtr layer, std::shared_ptr<FusedInput> input);
    std::string type_name() const override { return "FusedFloatFunctional"; }
    INTQ_INLINE nn::Value forward(nn::Arguments) override;
    INTQ_INLINE nn::Value invoke(std::string_view method, nn::Arguments arguments) override;

private:
    bool has_activation_ = true;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_eager)

#    include <algorithm>
#    include <cstddef>
#    include <optional>

#    include "intq/graph/operators.hpp"
#    include "intq/graph/pattern.hpp"
#    include "intq/io/error.hpp"
#    include "intq/nn/layers/elementwise.hpp"
#    include "intq/nn/layers/weighted.hpp"
#    include "intq/quantization/modules/replace_modules.hpp"
#    include "intq/quantization/qconfig/own_qconfig.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

/// Whether both are the same tensor in memory, or the same value of a trace.
INTQ_INLINE bool is_same_value(const nn::Value& a, const nn::Value& b) {
    if (a.is_tensor() && b.is_tensor()) return a.tensor().shares_buffer_with(b.tensor());
    return nn::is_same_proxy(a, b);
}

}  // namespace detail

INTQ_INLINE nn::Value FusedInput::forward(nn::Arguments arguments) {
    if (!arguments[0].is_proxy()) arguments.tensor(0);  // nothing else can pass
    return passed_ = arguments[0];
}

INTQ_INLINE FusedFloatFunctional::FusedFloatFunctional(nn::ModulePtr layer, std::shared_ptr<FusedInput> input) {
    const auto* weighted = dynamic_cast<const nn::Weighted*>(layer.get());
    has_activation_ = weighted == nullptr || weighted->fusion().activation != Activation::none;
    add_child("layer", std::move(layer));
    add_child("input", std::move(input));
}

INTQ_INLINE nn::Value FusedFloatFunctional::forward(nn::Arguments) {
    throw Error("a fused add is not meant to be called; use its add");
}

INTQ_INLINE nn::Value FusedFloatFunctional::invoke(std::string_view method, nn::Arguments arguments) {
    if (method != "add" && method != "add_relu")
        throw Error("a fused add has the methods add and add_relu; given \"" + std::string(method) + "\"");
    if (method == "add_relu" && !has_activation_)
        throw Error(
            "a fused add: add_relu is called, and no relu is fused; call add and a ReLU, and end the list of names "
            "with "
            "that ReLU");
    const auto is_operand = [](const nn::Value& value) { return value.is_tensor() || value.is_proxy(); };
    if (!is_operand(arguments[0]) || !is_operand(arguments[1])) throw Error("a fused add takes two tensors");
    const nn::Value input = static_cast<FusedInput&>(*child("input")).take();
    for (const std::size_t first : {std::size_t{0}, std::size_t{1}})
        if (detail::is_same_value(arguments[first], input))
            return call("layer", arguments[first], arguments[1 - first]);
    throw Error("a fused add: neither operand is what the fused layer was called with; something else is between them");
}

namespace detail {

/// The name of a call of only this module in graph/operators.hpp; an add for a FloatFunctional.
INTQ_INLINE std::string operator_of_module(const nn::Module& module) {
    if (const auto* weighted = dynamic_cast<const nn::Weighted*>(&module)) return weighted->operator_name();
    if (dynamic_cast<const nn::FloatFunctional*>(&module) != nullptr) return "add";
    for (const graph::OperatorSpelling& row : graph::operator_spellings)
        if (row.op == graph::Op::call_module && row.method == "forward" && row.key == module.type_name())
            return std::string(row.name);
    return module.type_name();
}

}  // namespace detail

namespace detail {

INTQ_INLINE graph::OperatorSequence sequence_of(const std::vector<nn::ModulePtr>& modules) {
    graph::OperatorSequence sequence;
    for (const nn::ModulePtr& module : modules) sequence.push_back(operator_of_module(*module));
    return sequence;
}

/// Null where no row fuses the sequence.
INTQ_INLINE const FusionRow* find_fusion(const graph::OperatorSequence& sequence,
                                         const std::vector<FusionRow>& more_rows) {
    for (const auto* rows : {&more_rows, &fusion_table()})
        for (const FusionRow& row : *rows)
            if (row.operators == sequence) return &row;
    return nullptr;
}

/// The fused module in the place of one, Identity in the places of the others.
INTQ_INLINE std::vector<nn::ModulePtr> with_identities(const nn::ModulePtr& fused, std::size_t at, std::size_t count) {
    std::vector<nn::ModulePtr> result;
    for (std::size_t i = 0; i < count; ++i) result.push_back(i == at ? fused : std::make_shared<nn::Identity>());
    return result;
}

}  // namespace detail

INTQ_INLINE std::vector<nn::ModulePtr> fuse_known_modules(const std::vector<nn::ModulePtr>& modules,
                                                          const std::vector<FusionRow>& more_rows) {
    const graph::OperatorSequence sequence = detail::sequence_of(modules);
    const FusionRow* const row = detail::find_fusion(sequence, more_rows);
    if (row == nullptr) throw Error("fuse_modules: no row of the table fuses " + graph::to_string(sequence));
    std::vector<FusedOperator> operators;
    for (std::size_t i = 0; i < modules.size(); ++i) operators.push_back({sequence[i], modules[i].get()});
    const nn::ModulePtr fused = row->make(operators);
    fused->train(modules[0]->training());
    const auto add = std::find(sequence.begin(), sequence.end(), "add");
    if (add == sequence.end()) return detail::with_identities(fused, 0, modules.size());
    const auto input = std::make_shared<FusedInput>();
    std::vector<nn::ModulePtr> result =
        detail::with_identities(std::make_shared<FusedFloatFunctional>(fused, input),
                                static_cast<std::size_t>(add - sequence.begin()), modules.size());
    result[0] = input;
    return result;
}

namespace detail {

/// The replacements of the modules; empty for a list that is left unchanged.
INTQ_INLINE std::optional<std::vector<nn::ModulePtr>> fused_list(const std::vector<nn::ModulePtr>& modules,
                                                                 const ModuleFuser& fuser,
                                                                 const FuseCustomConfig& custom) {
    std::vector<std::string> types;
    for (const nn::ModulePtr& module : modules) types.push_back(module->type_name());
    const auto own = custom.additional_fuser_method_mapping.find(types);
    if (own != custom.additional_fuser_method_mapping.end()) {
        const nn::ModulePtr fused = own->second(modules);
        if (fused == nullptr)
            throw Error("fuse_modules: the fuser method of " + modules[0]->type_name() + " returned null");
        return with_identities(fused, 0, modules.size());
    }
    if (fuser) return fuser(modules);
    if (custom.leave_others_unchanged && find_fusion(sequence_of(modules), {}) == nullptr) return std::nullopt;
    return fuse_known_modules(modules);
}

INTQ_INLINE void fuse_list(Replacements& done, const std::vector<std::string>& names, const ModuleFuser& fuser,
                           const FuseCustomConfig& custom) {
    nn::Module& model = *done.root;
    std::vector<nn::ModulePtr> modules;
    std::vector<nn::FusedMember> members;
    for (const std::string& name : names) {
        modules.push_back(model.find_child(name));
        members.push_back({name, modules.back()->type_name(), ""});
    }
    if (modules.empty()) throw Error("fuse_modules: a list of names is empty");
    const std::optional<std::vector<nn::ModulePtr>> list = fused_list(modules, fuser, custom);
    if (!list) return;
    const std::vector<nn::ModulePtr>& fused = *list;
    if (fused.size() != modules.size())
        throw Error("fuse_modules: the fuser returned " + std::to_string(fused.size()) + " modules for " +
                    std::to_string(modules.size()));
    for (std::size_t i = 0; i < names.size(); ++i) {
        nn::Module* layer = fused[i].get();
        if (dynamic_cast<FusedFloatFunctional*>(layer) != nullptr) layer = layer->child("layer").get();
        if (auto* from = dynamic_cast<nn::FusedFrom*>(layer); from != nullptr && from->members().empty())
            from->set_members(members);
        if (const auto* qconfig = own_qconfig(*modules[i]); qconfig != nullptr && own_qconfig(*fused[i]) == nullptr)
            set_qconfig(*fused[i], *qconfig);
        if (fused[i] != modules[i]) fused[i]->train(modules[i]->training());
        model.replace_child(names[i], fused[i]);
        done.places.push_back({&model, names[i], modules[i], fused[i]});
    }
}

}  // namespace detail

INTQ_INLINE ModulesToFuse::Item::Item(std::initializer_list<Name> list) {
    for (const Name& name : list) names.push_back(name.text);
}

INTQ_INLINE ModulesToFuse::ModulesToFuse(std::initializer_list<Item> items) {
    std::vector<std::string> single;
    for (const Item& item : items) {
        if (item.is_list)
            lists_.push_back(item.names);
        else
            single.push_back(item.names.front());
    }
    if (!single.empty() && !lists_.empty())
        throw Error("fuse_modules: either names or lists of names are needed; \"" + single.front() +
                    "\" is beside a list");
    if (!single.empty()) lists_.push_back(std::move(single));
}

INTQ_INLINE nn::ModulePtr fuse_modules(const nn::ModulePtr& model, const ModulesToFuse& modules_to_fuse, bool inplace,
                                       const ModuleFuser& fuser, const FuseCustomConfig& custom) {
    static_cast<void>(nn::given_model(model, "fuse_modules"));
    Replacements done{inplace ? model : nn::clone(model)};
    try {
        for (const auto& names : modules_to_fuse.lists()) detail::fuse_list(done, names, fuser, custom);
    } catch (...) {
        done.undo();
        throw;
    }
    return done.root;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_eager)
#endif  // INTQ_QUANTIZATION_EAGER_FUSE_EAGER_HPP
