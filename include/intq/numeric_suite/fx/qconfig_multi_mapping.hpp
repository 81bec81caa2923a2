// SPDX-License-Identifier: MIT
//
// QConfigMultiMapping: several qconfigs for each operator, to be tried side by side. Layer: numeric_suite
// (docs/workflow.md section 5).
#ifndef INTQ_NUMERIC_SUITE_FX_QCONFIG_MULTI_MAPPING_HPP
#define INTQ_NUMERIC_SUITE_FX_QCONFIG_MULTI_MAPPING_HPP

#include <optional>
#include <string>
#include <vector>

#include "intq/quantization/qconfig/qconfig.hpp"
#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

/// A QConfigMapping for each candidate: the first qconfigs of all keys are candidate 1, the second ones candidate 2.
///
///     QConfigMultiMapping().set_global({a, b}).set_object_type("Linear", {c})
///
/// has the mappings (a, Linear: c) and (b, Linear: none). Duplicates are dropped from a list, and so is its first none;
/// after that none the list is taken unchanged. A list that is longer than those before it makes new mappings, in which
/// all other keys have none; a shorter one is filled with none.
///
/// Source   torch.ao.ns.fx.qconfig_multi_mapping.QConfigMultiMapping
class QConfigMultiMapping {
public:
    using List = std::vector<std::optional<quantization::QConfig>>;

    QConfigMultiMapping& set_global(List qconfigs);
    QConfigMultiMapping& set_object_type(const std::string& type, List qconfigs);
    QConfigMultiMapping& set_module_name_regex(const std::string& regex, List qconfigs);
    QConfigMultiMapping& set_module_name(const std::string& name, List qconfigs);

    std::vector<quantization::QConfigMapping>& qconfig_mappings_list() noexcept { return mappings_; }
    const std::vector<quantization::QConfigMapping>& qconfig_mappings_list() const noexcept { return mappings_; }

    enum class Style { global, object_type, module_name_regex, module_name };
    struct Key {
        Style style;
        std::string key;
    };
    /// The keys that were set, each once.
    const std::vector<Key>& keys() const noexcept { return keys_; }

private:
    QConfigMultiMapping& insert(Style style, const std::string& key, List qconfigs);

    std::vector<quantization::QConfigMapping> mappings_;
    std::vector<Key> keys_;
};

/// The content of a qconfig, in one line: the class, observer, codes and scheme of its quantizers.
std::string to_string(const quantization::QConfig& qconfig);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(numeric_suite_fx)

#    include <algorithm>
#    include <cstddef>
#    include <utility>

#    include "intq/arith/quantize.hpp"

namespace intq::numeric_suite::fx {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

INTQ_INLINE std::string text_of(const std::optional<quantization::QuantizerConfig>& config) {
    if (!config) return "none";
    const auto& options = config->options.observer_options;
    const auto quantizer = config->fake_quantize(config->options);
    const bool is_affine = options.scheme == arith::QuantScheme::affine;
    std::string text = quantizer->type_name() + "(" + quantizer->observer().type_name() + ", " +
                       name_of(options.dtype) + (is_affine ? ", affine" : ", symmetric");
    if (!options.has_open_codes())
        text += ", codes " + std::to_string(options.quant_min) + " to " + std::to_string(options.quant_max);
    return text +
           (options.ch_axis < 0 ? ", per tensor)" : ", per channel of axis " + std::to_string(options.ch_axis) + ")");
}

/// Without duplicates and without the first none; items after that none stay unchanged.
INTQ_INLINE QConfigMultiMapping::List without_duplicates(const QConfigMultiMapping::List& qconfigs) {
    QConfigMultiMapping::List result;
    std::vector<std::string> known;
    for (std::size_t i = 0; i < qconfigs.size(); ++i) {
        if (!qconfigs[i]) {
            result.insert(result.end(), qconfigs.begin() + static_cast<std::ptrdiff_t>(i) + 1, qconfigs.end());
            break;
        }
        const std::string text = to_string(*qconfigs[i]);
        if (std::find(known.begin(), known.end(), text) != known.end()) continue;
        known.push_back(text);
        result.push_back(qconfigs[i]);
    }
    return result;
}

INTQ_INLINE void set_in(quantization::QConfigMapping& mapping, QConfigMultiMapping::Style style, const std::string& key,
                        const std::optional<quantization::QConfig>& qconfig) {
    using Style = QConfigMultiMapping::Style;
    if (style == Style::global) mapping.set_global(qconfig);
    if (style == Style::object_type) mapping.set_object_type(key, qconfig);
    if (style == Style::module_name_regex) mapping.set_module_name_regex(key, qconfig);
    if (style == Style::module_name) mapping.set_module_name(key, qconfig);
}

}  // namespace detail

INTQ_INLINE std::string to_string(const quantization::QConfig& qconfig) {
    std::string text = "QConfig(";
    if (qconfig.input) text += "input=" + detail::text_of(qconfig.input) + ", ";
    return text + "activation=" + detail::text_of(qconfig.output) + ", weight=" + detail::text_of(qconfig.weight) + ")";
}

INTQ_INLINE QConfigMultiMapping& QConfigMultiMapping::insert(Style style, const std::string& key, List qconfigs) {
    qconfigs = detail::without_duplicates(qconfigs);
    if (qconfigs.size() < mappings_.size()) qconfigs.resize(mappings_.size());
    quantization::QConfigMapping added;
    for (const Key& known : keys_) detail::set_in(added, known.style, known.key, std::nullopt);
    while (mappings_.size() < qconfigs.size()) mappings_.push_back(added);
    for (std::size_t i = 0; i < mappings_.size(); ++i) detail::set_in(mappings_[i], style, key, qconfigs[i]);
    const auto is_known = [&](const Key& known) { return known.style == style && known.key == key; };
    if (std::none_of(keys_.begin(), keys_.end(), is_known)) keys_.push_back({style, key});
    return *this;
}

INTQ_INLINE QConfigMultiMapping& QConfigMultiMapping::set_global(List qconfigs) {
    return insert(Style::global, "", std::move(qconfigs));
}
INTQ_INLINE QConfigMultiMapping& QConfigMultiMapping::set_object_type(const std::string& type, List qconfigs) {
    return insert(Style::object_type, type, std::move(qconfigs));
}
INTQ_INLINE QConfigMultiMapping& QConfigMultiMapping::set_module_name_regex(const std::string& regex, List qconfigs) {
    return insert(Style::module_name_regex, regex, std::move(qconfigs));
}
INTQ_INLINE QConfigMultiMapping& QConfigMultiMapping::set_module_name(const std::string& name, List qconfigs) {
    return insert(Style::module_name, name, std::move(qconfigs));
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::numeric_suite::fx

#endif  // INTQ_DEFINES(numeric_suite_fx)
#endif  // INTQ_NUMERIC_SUITE_FX_QCONFIG_MULTI_MAPPING_HPP
