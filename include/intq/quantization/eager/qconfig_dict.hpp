// SPDX-License-Identifier: MIT
//
// QConfigDict: which module gets which qconfig, as a qconfig_dict; it turns into a QConfigMapping. Layer: quantization
// (docs/workflow.md section 3).
#ifndef INTQ_QUANTIZATION_EAGER_QCONFIG_DICT_HPP
#define INTQ_QUANTIZATION_EAGER_QCONFIG_DICT_HPP

#include <map>
#include <optional>
#include <string>

#include "intq/quantization/qconfig/qconfig_mapping.hpp"

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

/// The qconfig_dict of the documents; an entry of no qconfig switches quantization off.
///
///     QConfigDict{.global = default_qconfig(),
///                 .module_type = {{"Conv2d", default_qconfig()}},
///                 .module_name = {{"layer1", std::nullopt}}}
struct QConfigDict {
    std::optional<QConfig> global{};                              // the key ""
    std::map<std::string, std::optional<QConfig>> module_type{};  // modules and functions by type
    std::map<std::string, std::optional<QConfig>> module_name{};  // modules by qualified name

    QConfigMapping mapping() const;
};

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

// --- definitions -----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(quantization_eager)

namespace intq::quantization {
inline namespace INTQ_HOSTED_ABI {

INTQ_INLINE QConfigMapping QConfigDict::mapping() const {
    QConfigMapping result;
    result.set_global(global);
    for (const auto& [type, qconfig] : module_type) result.set_object_type(type, qconfig);
    for (const auto& [name, qconfig] : module_name) result.set_module_name(name, qconfig);
    return result;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::quantization

#endif  // INTQ_DEFINES(quantization_eager)
#endif  // INTQ_QUANTIZATION_EAGER_QCONFIG_DICT_HPP
