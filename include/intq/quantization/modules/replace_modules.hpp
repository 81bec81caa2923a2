// SPDX-License-Identifier: MIT
//
// replace_modules: puts other modules into the slots of a model that a rule names. Layer: quantization.
#ifndef INTQ_QUANTIZATION_MODULES_REPLACE_MODULES_HPP
#define INTQ_QUANTIZATION_MODULES_REPLACE_MODULES_HPP

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "intq/nn/model/module.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The replacement of a module: another module, the same one to leave it whole, or null to look at the modules below
/// it.
using ModuleReplacer = std::function<nn::ModulePtr(const std::string& name, const nn::ModulePtr& module)>;

/// Modules for slots of a model, which keeps its former ones until apply().
struct Replacements {
    struct Slot {
        nn::Module* parent;
        std::string name;
        nn::ModulePtr former, next;
    };
    nn::ModulePtr root;  // the model, or its replacement
    std::vector<Slot> places{};

    nn::ModulePtr apply() const;
    /// Puts the former modules back.
    void undo() const;
};

/// Walks over the slots of a model, parents first. A module in several slots is visited once, by its first name, and
/// replaced in all.
Replacements plan_replacements(const nn::ModulePtr& model, const ModuleReplacer& replacer);

/// Replaces in place: all, or nothing if the replacer throws.
///
/// @return the model, or its replacement
nn::ModulePtr replace_modules(const nn::ModulePtr& model, const ModuleReplacer& replacer);

namespace detail {

/// Throws the Error with the nearest names.
[[noreturn]] void throw_unmatched_key(const std::string& function, const std::string& key,
                                      const std::set<std::string>& names, const std::set<std::string>& types);

}  // namespace detail

/// Finds the entry for a module in a user's table, keyed by qualified name or by type of module.
///
/// A name covers all below it; the longest matching name wins; a name takes precedence over a type.
template <class Entry> class ModuleTable {
public:
    explicit ModuleTable(const std::map<std::string, Entry>& entries) : entries_(entries) {}

    /// Null if there is none; found entries are remembered for check_all_matched().
    const Entry* find(const std::string& name, const std::string& type) {
        types_.insert(type);
        if (!name.empty()) names_.insert(name);
        const auto by_type = entries_.find(type);
        const Entry* found = by_type == entries_.end() ? nullptr : &by_type->second;
        if (found != nullptr) matched_.insert(type);
        std::string_view part = name;
        bool has_name = false;
        while (!part.empty()) {
            if (const auto by_name = entries_.find(std::string(part)); by_name != entries_.end()) {
                matched_.insert(by_name->first);
                if (!has_name) found = &by_name->second;
                has_name = true;
            }
            const auto dot = part.rfind('.');
            part = part.substr(0, dot == std::string_view::npos ? 0 : dot);
        }
        return found;
    }

    /// Throws for an entry that no find() has met, with the nearest names.
    void check_all_matched(const std::string& function) const {
        for (const auto& [key, entry] : entries_) {
            if (matched_.count(key) == 0) detail::throw_unmatched_key(function, key, names_, types_);
        }
    }

private:
    const std::map<std::string, Entry>& entries_;
    std::set<std::string> matched_, names_, types_;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_modules)

#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE void throw_unmatched_key(const std::string& function, const std::string& key,
                                     const std::set<std::string>& names, const std::set<std::string>& types) {
    std::vector<std::string> known(names.begin(), names.end());
    known.insert(known.end(), types.begin(), types.end());
    throw Error(function + ": no module has the name or type \"" + key + "\"; " +
                (known.empty() ? "the model has no module that this function replaces"
                               : "the nearest are " + nearest_names(key, known)));
}

class ReplacementPlanner {
public:
    ReplacementPlanner(const ModuleReplacer& replacer, std::vector<Replacements::Slot>& places)
        : replacer_(replacer), slots_(places) {}

    nn::ModulePtr plan(const nn::ModulePtr& module, const std::string& name) {
        if (const auto known = done_.find(module.get()); known != done_.end()) return known->second;
        if (nn::ModulePtr other = replacer_(name, module)) return done_[module.get()] = other;
        done_[module.get()] = module;
        for (const auto& child : module->children()) {
            const nn::ModulePtr next = plan(child.value, nn::join_path(name, child.name));
            if (next != child.value) slots_.push_back({module.get(), child.name, child.value, next});
        }
        return module;
    }

private:
    const ModuleReplacer& replacer_;
    std::vector<Replacements::Slot>& slots_;
    std::map<const nn::Module*, nn::ModulePtr> done_;
};

}  // namespace detail

INTQ_INLINE nn::ModulePtr Replacements::apply() const {
    for (const Slot& slot : places) slot.parent->replace_child(slot.name, slot.next);
    return root;
}

INTQ_INLINE void Replacements::undo() const {
    for (auto slot = places.rbegin(); slot != places.rend(); ++slot)
        slot->parent->replace_child(slot->name, slot->former);
}

INTQ_INLINE Replacements plan_replacements(const nn::ModulePtr& model, const ModuleReplacer& replacer) {
    Replacements result;
    result.root = detail::ReplacementPlanner(replacer, result.places).plan(model, "");
    return result;
}

INTQ_INLINE nn::ModulePtr replace_modules(const nn::ModulePtr& model, const ModuleReplacer& replacer) {
    return plan_replacements(model, replacer).apply();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_modules)
#endif  // INTQ_QUANTIZATION_MODULES_REPLACE_MODULES_HPP
