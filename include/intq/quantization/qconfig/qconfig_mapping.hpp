// SPDX-License-Identifier: MIT
//
// QConfigMapping: which operator gets which qconfig. Layer: quantization (docs/workflow.md section 3).
#ifndef INTQ_QUANTIZATION_QCONFIG_QCONFIG_MAPPING_HPP
#define INTQ_QUANTIZATION_QCONFIG_QCONFIG_MAPPING_HPP

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "intq/nn/layers/fusion.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// How specific the entry was that decided.
enum class QConfigLevel : std::uint8_t { none, global, object_type, module_name_regex, module_name, own };

struct QConfigChoice {
    std::optional<QConfig> qconfig{};  // none: not quantized
    QConfigLevel level = QConfigLevel::none;
};

/// Entries by scope. Priority, low to high:
///
///     global < object type < module name by regex < module name < the module's own (set_qconfig())
///
/// A module's name covers all below it ("layer1" covers "layer1.0.conv"), and so does its own qconfig; of two names the
/// longer one wins, of one module's name and own its own. That of the whole model takes the place of the global. A
/// regex (io::NamePattern) must match from the start of the name; of several the first that matches wins. A function
/// takes the entries of the module whose forward calls it: of its type above those of its own name, then of its name.
/// An entry of no qconfig switches quantization off.
///
/// A query notes which entries matched, so one thread at a time uses an object.
class QConfigMapping {
public:
    QConfigMapping& set_global(std::optional<QConfig> qconfig);
    QConfigMapping& set_object_type(const std::string& type, std::optional<QConfig> qconfig);
    QConfigMapping& set_module_name_regex(const std::string& regex, std::optional<QConfig> qconfig);
    QConfigMapping& set_module_name(const std::string& name, std::optional<QConfig> qconfig);
    /// A qconfig that the module of a name carries itself; "" is the whole model.
    QConfigMapping& set_own(const std::string& name, std::optional<QConfig> qconfig);

    /// The entry for an operator; what was found is remembered for check_all_matched().
    ///
    /// @param op  scope_type is empty for a module, else the type of the module whose forward calls the function
    QConfigChoice find(const nn::FusedMember& op) const;

    /// Throws the Error of the first key that no find() has met since the last call, with the nearest known names.
    void check_all_matched(const std::vector<std::string>& module_names, const std::vector<std::string>& types) const;

private:
    struct Entry {
        std::string key;
        std::optional<QConfig> qconfig;
    };
    static void set(std::vector<Entry>& entries, const std::string& key, std::optional<QConfig> qconfig);
    static bool covers(const std::string& name, const std::string& module);

    std::optional<QConfig> global_{};
    std::vector<Entry> types_, regexes_, names_, own_;
    mutable std::set<std::string> matched_;
};

/// The whole model with one qconfig.
QConfigMapping get_default_qconfig_mapping(DType dtype = DType::int8, DType weight_dtype = DType::int8);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_qconfig)

#    include <cstddef>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/io/name_pattern.hpp"
#    include "intq/io/nearest_names.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE QConfigMapping get_default_qconfig_mapping(DType dtype, DType weight_dtype) {
    QConfigMapping mapping;
    mapping.set_global(get_default_calib_qconfig(dtype, weight_dtype));
    return mapping;
}

INTQ_INLINE void QConfigMapping::set(std::vector<Entry>& entries, const std::string& key,
                                     std::optional<QConfig> qconfig) {
    for (Entry& entry : entries)
        if (entry.key == key) {
            entry.qconfig = std::move(qconfig);
            return;
        }
    entries.push_back({key, std::move(qconfig)});
}

INTQ_INLINE QConfigMapping& QConfigMapping::set_global(std::optional<QConfig> qconfig) {
    global_ = std::move(qconfig);
    return *this;
}

INTQ_INLINE QConfigMapping& QConfigMapping::set_object_type(const std::string& type, std::optional<QConfig> qconfig) {
    set(types_, type, std::move(qconfig));
    return *this;
}

INTQ_INLINE QConfigMapping& QConfigMapping::set_module_name(const std::string& name, std::optional<QConfig> qconfig) {
    set(names_, name, std::move(qconfig));
    return *this;
}

INTQ_INLINE QConfigMapping& QConfigMapping::set_own(const std::string& name, std::optional<QConfig> qconfig) {
    if (name.empty()) return set_global(std::move(qconfig));
    set(own_, name, std::move(qconfig));
    return *this;
}

INTQ_INLINE QConfigMapping& QConfigMapping::set_module_name_regex(const std::string& regex,
                                                                  std::optional<QConfig> qconfig) {
    try {
        io::NamePattern pattern(regex);
    } catch (const Error& error) {
        throw Error("QConfigMapping: " + std::string(error.what()));
    }
    set(regexes_, regex, std::move(qconfig));
    return *this;
}

INTQ_INLINE bool QConfigMapping::covers(const std::string& name, const std::string& module) {
    return module == name || module.rfind(name + ".", 0) == 0;
}

INTQ_INLINE QConfigChoice QConfigMapping::find(const nn::FusedMember& op) const {
    QConfigChoice choice{global_, global_ ? QConfigLevel::global : QConfigLevel::none};
    const auto take = [&](const char* list, const Entry& entry, QConfigLevel level) {
        matched_.insert(list + entry.key);
        choice = {entry.qconfig, level};
    };
    for (const std::string* type : {&op.type, &op.scope_type})
        for (const Entry& entry : types_)
            if (!type->empty() && entry.key == *type) take("type ", entry, QConfigLevel::object_type);

    bool found = false;
    for (const Entry& entry : regexes_)
        if (io::NamePattern(entry.key).matches_start(op.module)) {
            matched_.insert("regex " + entry.key);
            if (!found) choice = {entry.qconfig, QConfigLevel::module_name_regex};
            found = true;
        }

    const Entry* longest = nullptr;
    for (const Entry& entry : names_)
        if (covers(entry.key, op.module)) {
            matched_.insert("name " + entry.key);
            if (longest == nullptr || entry.key.size() > longest->key.size()) longest = &entry;
        }
    if (longest != nullptr) choice = {longest->qconfig, QConfigLevel::module_name};
    const std::size_t least = longest != nullptr ? longest->key.size() : 0;
    longest = nullptr;
    for (const Entry& entry : own_)
        if (covers(entry.key, op.module) && entry.key.size() >= least &&
            (longest == nullptr || entry.key.size() > longest->key.size()))
            longest = &entry;
    if (longest != nullptr) choice = {longest->qconfig, QConfigLevel::own};
    return choice;
}

INTQ_INLINE void QConfigMapping::check_all_matched(const std::vector<std::string>& module_names,
                                                   const std::vector<std::string>& types) const {
    const auto check = [&](const char* list, const char* what, const std::vector<Entry>& entries,
                           const std::vector<std::string>& known) {
        for (const Entry& entry : entries)
            if (matched_.count(list + entry.key) == 0)
                throw Error("QConfigMapping: no operator matches the " + std::string(what) + " \"" + entry.key +
                            "\"; the nearest are " + nearest_names(entry.key, known));
    };
    check("type ", "object type", types_, types);
    check("regex ", "module name regex", regexes_, module_names);
    check("name ", "module name", names_, module_names);
    matched_.clear();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_qconfig)
#endif  // INTQ_QUANTIZATION_QCONFIG_QCONFIG_MAPPING_HPP
