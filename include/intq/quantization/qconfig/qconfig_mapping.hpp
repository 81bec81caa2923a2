// SPDX-License-Identifier: MIT
//
// QConfigMapping: which operator gets which qconfig. Layer: quantization (docs/workflow.md section 3).
#ifndef INTQ_QUANTIZATION_QCONFIG_QCONFIG_MAPPING_HPP
#define INTQ_QUANTIZATION_QCONFIG_QCONFIG_MAPPING_HPP

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "intq/io/name_pattern.hpp"
#include "intq/nn/layers/fusion.hpp"
#include "intq/quantization/observers/compatibility.hpp"
#include "intq/quantization/qconfig/qconfig.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// How specific the deciding entry was.
enum class QConfigLevel : std::uint8_t { none, global, object_type, module_name_regex, module_name, own };

struct QConfigChoice {
    std::optional<QConfig> qconfig{};  // none: not quantized
    QConfigLevel level = QConfigLevel::none;
    std::string entry{};    // the deciding one, for mark_used(); empty for the global one and a module's own
    bool names_it = false;  // it has the operator's own name, not an enclosing module's
    int order = 0;          // of a regex: its place among all
};

/// The choices for an operator that is made of several, such as a conv with its relu; for a single one both are the
/// same.
struct FusedChoice {
    QConfigChoice first;  // its input's and its weight's quantizers
    QConfigChoice last;   // its output's
    std::vector<QConfigChoice> members{};

    /// None if either has none.
    std::optional<QConfig> qconfig() const;
    /// Whether an entry by module name or regex decided.
    bool is_by_name() const noexcept;
};

/// Entries by scope. Priority, low to high:
///
///     global < object type < module name by regex < module name < the module's own (set_qconfig())
///
/// A module's name covers all below it ("layer1" covers "layer1.0.conv"), and so does its own qconfig. Of two names the
/// longer one wins; of a module's entry by name and its own, its own. The whole model's own qconfig replaces the global
/// one. A regex (io::NamePattern) must match from the start of the name; the first that matches wins. A function takes
/// the entries of the module whose forward calls it. By type, that module's type takes precedence over the function's
/// name; by module name, the name of the function's node counts too, which tools print. An entry without a qconfig
/// switches quantization off.
///
/// A query records which entries matched, so only one thread at a time may use an object.
class QConfigMapping {
public:
    QConfigMapping& set_global(std::optional<QConfig> qconfig);
    QConfigMapping& set_object_type(const std::string& type, std::optional<QConfig> qconfig);
    QConfigMapping& set_module_name_regex(const std::string& regex, std::optional<QConfig> qconfig);
    QConfigMapping& set_module_name(const std::string& name, std::optional<QConfig> qconfig);
    /// A qconfig that the module of a name carries itself; "" is the whole model.
    QConfigMapping& set_own(const std::string& name, std::optional<QConfig> qconfig);

    /// Changes the qconfig of every entry that has one.
    void change_each(const std::function<void(QConfig&)>& change);

    /// The entry for an operator; matched entries are remembered for check_all_used().
    ///
    /// @param op  scope_type is empty for a module, else the type of the module whose forward calls the function
    QConfigChoice find(const nn::FusedMember& op) const;

    /// The entries for an operator that is made of several. Input and weight are the first one's, the output is the
    /// last one's; an entry by the name or type of the whole decides all three, unless the members' entries have a
    /// higher level. So does a regex that matches the name of the whole, unless an earlier one matches a member's.
    ///
    /// In torch mode, as in PyTorch, the members' names do not count, and the types of a layer and its relu share one
    /// qconfig; throws if only one of them has an entry.
    ///
    /// @param whole    the slot of the fused layer, and its type
    /// @param members  at least one, in their order
    FusedChoice find_fused(const nn::FusedMember& whole, std::span<const nn::FusedMember> members,
                           Compatibility compatibility) const;

    /// Records that a choice had an effect.
    void mark_used(const QConfigChoice& choice) const;
    /// Records the same for choices that switch quantization off, of an operator that stays in float.
    void mark_switched_off(const FusedChoice& choice) const;

    /// Throws the Error of the first key that no find() has met since the last check_all_used(), with the nearest known
    /// names.
    void check_all_matched(const std::vector<std::string>& module_names, const std::vector<std::string>& types) const;
    /// Throws as check_all_matched() does, or the Error of the first key that matched but was never marked as used.
    void check_all_used(const std::vector<std::string>& module_names, const std::vector<std::string>& types) const;

private:
    struct Entry {
        std::string key;
        std::optional<QConfig> qconfig;
        std::shared_ptr<const io::NamePattern> pattern{};  // of a regex
    };
    static Entry& set(std::vector<Entry>& entries, const std::string& key, std::optional<QConfig> qconfig);
    static bool covers(const std::string& name, const std::string& module);
    /// The name of an entry in messages, and in the sets below.
    struct Listed {
        const Entry* entry;
        std::string key;
        const std::vector<std::string>* known;  // names that it could have
    };
    std::vector<Listed> all_entries(const std::vector<std::string>& module_names,
                                    const std::vector<std::string>& types) const;
    FusedChoice find_as_torch(const nn::FusedMember& whole, std::span<const nn::FusedMember> members) const;
    const Entry* find_type(const std::string& type) const;

    std::optional<QConfig> global_{};
    std::vector<Entry> types_, regexes_, names_, own_;
    mutable std::map<std::string, std::string> matched_;    // entries, and the first operator that each one met
    mutable std::map<std::string, std::string> overruled_;  // entries, and what decided instead of each
    mutable std::set<std::string> used_;
};

/// The whole model with one qconfig.
QConfigMapping get_default_qconfig_mapping(DType dtype = DType::int8, DType weight_dtype = DType::int8);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_qconfig)

#    include <algorithm>
#    include <cstddef>
#    include <utility>

#    include "intq/io/error.hpp"
#    include "intq/io/nearest_names.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE QConfigMapping get_default_qconfig_mapping(DType dtype, DType weight_dtype) {
    QConfigMapping mapping;
    mapping.set_global(get_default_calib_qconfig(dtype, weight_dtype));
    return mapping;
}

INTQ_INLINE QConfigMapping::Entry& QConfigMapping::set(std::vector<Entry>& entries, const std::string& key,
                                                       std::optional<QConfig> qconfig) {
    for (Entry& entry : entries)
        if (entry.key == key) {
            entry.qconfig = std::move(qconfig);
            return entry;
        }
    return entries.emplace_back(Entry{key, std::move(qconfig)});
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

INTQ_INLINE void QConfigMapping::change_each(const std::function<void(QConfig&)>& change) {
    if (global_) change(*global_);
    for (std::vector<Entry>* const entries : {&types_, &regexes_, &names_, &own_})
        for (Entry& entry : *entries)
            if (entry.qconfig) change(*entry.qconfig);
}

INTQ_INLINE QConfigMapping& QConfigMapping::set_own(const std::string& name, std::optional<QConfig> qconfig) {
    if (name.empty()) return set_global(std::move(qconfig));
    set(own_, name, std::move(qconfig));
    return *this;
}

INTQ_INLINE QConfigMapping& QConfigMapping::set_module_name_regex(const std::string& regex,
                                                                  std::optional<QConfig> qconfig) {
    try {
        auto pattern = std::make_shared<const io::NamePattern>(regex);
        set(regexes_, regex, std::move(qconfig)).pattern = std::move(pattern);
    } catch (const Error& error) {
        throw Error("QConfigMapping: " + std::string(error.what()));
    }
    return *this;
}

INTQ_INLINE bool QConfigMapping::covers(const std::string& name, const std::string& module) {
    return module == name || module.rfind(name + ".", 0) == 0;
}

INTQ_INLINE std::optional<QConfig> FusedChoice::qconfig() const {
    if (!first.qconfig || !last.qconfig) return std::nullopt;
    return QConfig{first.qconfig->input, first.qconfig->weight, last.qconfig->output,
                   first.qconfig->keeps_high_precision && last.qconfig->keeps_high_precision};
}

INTQ_INLINE bool FusedChoice::is_by_name() const noexcept {
    return (std::max)(first.level, last.level) >= QConfigLevel::module_name_regex;
}

INTQ_INLINE QConfigChoice QConfigMapping::find(const nn::FusedMember& op) const {
    QConfigChoice choice{global_, global_ ? QConfigLevel::global : QConfigLevel::none};
    std::vector<std::string> met;
    const auto meet = [&](const std::string& key) {
        met.push_back(key);
        matched_.emplace(key, (op.node.empty() ? op.module : op.node) + " (" + op.type + ")");
        return key;
    };
    for (const std::string* type : {&op.type, &op.scope_type})
        for (const Entry& entry : types_)
            if (!type->empty() && entry.key == *type)
                choice = {entry.qconfig, QConfigLevel::object_type, meet("object type \"" + entry.key + "\"")};

    bool found = false;
    for (std::size_t i = 0; i < regexes_.size(); ++i)
        if (const Entry& entry = regexes_[i]; entry.pattern->matches_start(op.module)) {
            const std::string key = meet("module name regex \"" + entry.key + "\"");
            // For a function, op.module is the module around it.
            if (!found)
                choice = {entry.qconfig, QConfigLevel::module_name_regex, key, op.node.empty(), static_cast<int>(i)};
            found = true;
        }

    std::size_t least = 0;
    for (const Entry& entry : names_) {
        const bool names_it = entry.key == (op.node.empty() ? op.module : op.node);
        if (!names_it && !covers(entry.key, op.module)) continue;
        const std::string key = meet("module name \"" + entry.key + "\"");
        const bool is_named = choice.names_it && choice.level == QConfigLevel::module_name;
        if (is_named || (!names_it && entry.key.size() < least)) continue;
        least = names_it && !op.node.empty() ? op.module.size() + 1 : entry.key.size();  // nothing is closer
        choice = {entry.qconfig, QConfigLevel::module_name, key, names_it};
    }
    for (const Entry& entry : own_)
        if (covers(entry.key, op.module) && entry.key.size() >= least) {
            least = entry.key.size();
            choice = {entry.qconfig, QConfigLevel::own, "", entry.key == op.module && op.node.empty()};
        }
    for (const std::string& key : met)
        if (key != choice.entry)
            overruled_.emplace(key, choice.entry.empty() ? "the module's own qconfig" : "the " + choice.entry);
    return choice;
}

INTQ_INLINE FusedChoice QConfigMapping::find_fused(const nn::FusedMember& whole,
                                                   std::span<const nn::FusedMember> members,
                                                   Compatibility compatibility) const {
    if (compatibility == Compatibility::torch && members.size() > 1) return find_as_torch(whole, members);
    std::vector<QConfigChoice> choices;
    for (const nn::FusedMember& member : members) choices.push_back(find(member));
    FusedChoice choice{choices.front(), choices.back(), choices};
    if (members.size() == 1) return choice;
    QConfigChoice of_whole = find(whole);
    of_whole.names_it = of_whole.names_it || of_whole.level == QConfigLevel::object_type;
    for (QConfigChoice* part : {&choice.first, &choice.last})
        for (const QConfigChoice& own : {choices.front(), of_whole})
            if (own.names_it && (own.level > part->level || (own.level == part->level && own.order <= part->order)))
                *part = own;
    return choice;
}

INTQ_INLINE const QConfigMapping::Entry* QConfigMapping::find_type(const std::string& type) const {
    const auto found =
        std::find_if(types_.begin(), types_.end(), [&](const Entry& entry) { return entry.key == type; });
    return found == types_.end() ? nullptr : &*found;
}

INTQ_INLINE FusedChoice QConfigMapping::find_as_torch(const nn::FusedMember& whole,
                                                      std::span<const nn::FusedMember> members) const {
    FusedChoice choice;
    for (const nn::FusedMember& member : members) {
        choice.members.push_back(find(member));
        // Only for modules, not functions: PyTorch requires the same entry for the relu, and for a batch norm in
        // training.
        if (member.node.empty() && choice.members.back().level == QConfigLevel::object_type)
            mark_used(choice.members.back());
    }
    const std::string& last_type = members.back().type;
    const bool has_relu = last_type == "ReLU" || last_type == "relu";
    const std::string &layer = members.front().type, relu = has_relu ? "ReLU" : layer;
    if ((find_type(layer) == nullptr) != (find_type(relu) == nullptr))
        throw Error("QConfigMapping: in torch mode, as in PyTorch, the types that are fused in " + whole.module + " (" +
                    whole.type + ") need the same qconfig, but of " + layer + " and " + relu + " one has an entry");
    if (find_type(relu) != nullptr) mark_used(find({"", relu, ""}));  // the type of a relu that is a function
    choice.first = find(whole);
    if (choice.first.level < QConfigLevel::object_type) choice.first = find({whole.module, layer, ""});
    choice.last = choice.first;
    return choice;
}

INTQ_INLINE void QConfigMapping::mark_used(const QConfigChoice& choice) const {
    if (!choice.entry.empty()) used_.insert(choice.entry);
}

INTQ_INLINE void QConfigMapping::mark_switched_off(const FusedChoice& choice) const {
    for (const QConfigChoice* part : {&choice.first, &choice.last})
        if (!part->qconfig) mark_used(*part);
    for (const QConfigChoice& member : choice.members)
        if (!member.qconfig) mark_used(member);
}

namespace detail {

inline constexpr const char* takes_nothing =
    ", which takes no quantizer from it. A fused layer takes its quantizers from an entry for its own name. Without "
    "one, it takes the quantizers of input and weight from its first member, and the output's from its last. An "
    "operator "
    "that only moves or selects codes keeps the scale of its input";

}  // namespace detail

INTQ_INLINE std::vector<QConfigMapping::Listed> QConfigMapping::all_entries(
    const std::vector<std::string>& module_names, const std::vector<std::string>& types) const {
    std::vector<Listed> result;
    const auto list = [&](const std::string& what, const std::vector<Entry>& entries,
                          const std::vector<std::string>& known) {
        for (const Entry& entry : entries) result.push_back({&entry, what + " \"" + entry.key + "\"", &known});
    };
    list("object type", types_, types);
    list("module name regex", regexes_, module_names);
    list("module name", names_, module_names);
    return result;
}

INTQ_INLINE void QConfigMapping::check_all_matched(const std::vector<std::string>& module_names,
                                                   const std::vector<std::string>& types) const {
    for (const auto& [entry, key, known] : all_entries(module_names, types)) {
        if (matched_.count(key) != 0) continue;
        if (std::count(known->begin(), known->end(), entry->key) != 0)
            throw Error("QConfigMapping: the " + key +
                        " changes nothing. The model has it, but no operator of it that takes a qconfig");
        throw Error("QConfigMapping: no operator matches the " + key +
                    (entry->pattern ? ", which must match from the start of the name" : "") + "; the nearest are " +
                    nearest_names(entry->key, *known));
    }
}

INTQ_INLINE void QConfigMapping::check_all_used(const std::vector<std::string>& module_names,
                                                const std::vector<std::string>& types) const {
    check_all_matched(module_names, types);
    for (const auto& [entry, key, known] : all_entries(module_names, types)) {
        if (used_.count(key) != 0) continue;
        const auto overruled = overruled_.find(key);
        throw Error("QConfigMapping: the " + key + " changes nothing. It matches " + matched_.at(key) +
                    (overruled != overruled_.end() ? ", whose quantizers " + overruled->second + " decides"
                                                   : std::string(detail::takes_nothing)));
    }
    matched_.clear();
    overruled_.clear();
    used_.clear();
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_qconfig)
#endif  // INTQ_QUANTIZATION_QCONFIG_QCONFIG_MAPPING_HPP
